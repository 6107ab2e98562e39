"""Large results in large pages, where the system offers them.

The first touch of fresh memory costs a fault for every page, which for results of many megabytes takes longer
than to compute them. Linux can hand out 2 MiB at a time instead of 4 KiB; asking changes nothing else.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache

from torch import Tensor

_LARGE = 2**21
"""Bytes of a large page on the processors that have them; memory below twice that holds few."""
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the system's call, or None where there is none."""
    if _ADVICE is None:
        return None
    try:
        call = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return call


def in_large_pages(x: Tensor) -> Tensor:
    """Ask for large pages for a tensor that has just been allocated; return it."""
    size = x.numel() * x.element_size()
    advise = _advise() if size >= 2 * _LARGE else None
    if advise is not None:
        begin = -(-x.data_ptr() // _LARGE) * _LARGE
        end = (x.data_ptr() + size) // _LARGE * _LARGE
        advise(begin, end - begin, _ADVICE or 0)
    return x
