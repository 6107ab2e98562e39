"""What a benchmark ran on, and how much memory a call takes for itself."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import polars
import psutil
import torch
from torch import Tensor


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory and versions."""
    return {
        "cpu": _processor(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "os": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numba": numba.__version__,
        "polars": polars.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def extra_memory(call: Callable[[], Tensor]) -> int | None:
    """Return by how many bytes a call's peak exceeds what it returns; None where the system cannot tell.

    The peak is that of resident memory, which Linux lets a process reset.
    """
    call()  # whatever is loaded or compiled once is not the call's own
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory kept from earlier calls would hide what this one takes
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _resident("VmHWM")
        result = call()
        peak = _resident("VmHWM")
    except (OSError, AttributeError, LookupError):
        return None
    return max(0, peak - before - result.numel() * result.element_size())


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int({line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}[name]) * 1024
