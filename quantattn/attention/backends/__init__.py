"""Backends of linear attention, one file each, and their registry."""

from __future__ import annotations

from typing import Any

import torch

from quantattn.attention.backends.base import Backend, Clock, Problem, Solution, Visibility, read_clock
from quantattn.attention.backends.chunked import read_chunked
from quantattn.attention.backends.quadratic import read_quadratic
from quantattn.attention.backends.recurrent import read_recurrent
from quantattn.attention.features import FeatureMap
from quantattn.errors import BackendError


def _read_fused(problem: Problem) -> Solution:
    """Read with the compiled backend; numba is loaded when it is first used."""
    from quantattn.attention.backends.fused import read_fused

    return read_fused(problem)


_REGISTRY: dict[str, Backend] = {
    "chunked": read_chunked,
    "fused": _read_fused,
    "quadratic": read_quadratic,
    "recurrent": read_recurrent,
}


def backend_names() -> tuple[str, ...]:
    """Return the names of the backends, sorted."""
    return tuple(sorted(_REGISTRY))


def resolve_backend(
    name: str, *, reads: int, keys: int, device: torch.device, dtype: torch.dtype, stateful: bool = False
) -> tuple[str, Backend]:
    """Return the backend of that name, or the one that ``"auto"`` picks, with its name.

    ``"auto"`` picks ``quadratic`` where there are so few pairs that anything else costs more than it saves,
    unless a state goes in or out: pieces of a history, however short, go the way of the whole. Then it picks
    ``fused`` for float32 on a CPU outside of ``torch.compile``, and ``chunked`` otherwise.

    Raises
    ------
    BackendError
        If no backend has that name.
    """
    if name == "auto":
        if reads * keys <= _FEW_PAIRS and not stateful:
            name = "quadratic"
        else:
            # A graph under compilation can hold torch's operations alone.
            runs = device.type == "cpu" and dtype == torch.float32 and not torch.compiler.is_compiling()
            name = "fused" if runs else "chunked"
    if not isinstance(name, str) or name not in _REGISTRY:
        raise BackendError(
            f"backend: {name!r} is not available; give one of auto, {', '.join(backend_names())}."
        )
    return name, _REGISTRY[name]


def load_mapped_read(name: str, feature_map: FeatureMap, dtype: torch.dtype) -> Any:
    """Return how a backend reads when it computes this feature map on the way, or None if it does not."""
    if name != "fused":
        return None
    from quantattn.attention.backends.fused import mapped_read

    return mapped_read(feature_map, dtype)


_FEW_PAIRS = 16 * 16

__all__ = [
    "Backend",
    "Clock",
    "Problem",
    "Solution",
    "Visibility",
    "backend_names",
    "load_mapped_read",
    "read_clock",
    "resolve_backend",
]
