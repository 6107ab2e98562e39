"""What results depend on besides data and settings: code, versions and processor."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path
from types import ModuleType

from quantattn.files import hash_bytes, hash_file

PACKAGES = (
    "arch",
    "exchange_calendars",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "safetensors",
    "scikit-learn",
    "scipy",
    "torch",
)


def _package() -> ModuleType:
    """Give the package itself, whose face stands above this floor: it is loaded whenever this is."""
    return sys.modules["quantattn"]


def versions() -> dict[str, str]:
    """Give the versions of Python and of the packages that results depend on."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "quantattn": str(_package().__version__), **found}


def code_hash() -> str:
    """Give one SHA-256 over the package's source files, by relative path and content."""
    root = Path(str(_package().__file__)).parent
    files = sorted(path for path in root.rglob("*.py") if "__pycache__" not in path.parts)
    listing = "\n".join(f"{path.relative_to(root).as_posix()} {hash_file(path)}" for path in files)
    return hash_bytes(listing.encode())


def processor() -> str:
    """Name the processor; equal bits can be expected of equal processors alone."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
