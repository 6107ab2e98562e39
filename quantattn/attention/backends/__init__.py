"""Backends of linear attention, one file each, and their registry."""

from __future__ import annotations

from quantattn.attention.backends.base import Backend, Clock, Problem, Solution, Visibility, read_clock
from quantattn.attention.backends.chunked import read_chunked
from quantattn.attention.backends.quadratic import read_quadratic
from quantattn.attention.backends.recurrent import read_recurrent
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


def resolve_backend(name: str, *, reads: int, keys: int) -> tuple[str, Backend]:
    """Return the backend of that name, or the one that ``"auto"`` picks, with its name.

    ``"auto"`` picks ``quadratic`` where there are so few pairs that chunks cost more than they save, and
    ``chunked`` otherwise.

    Raises
    ------
    BackendError
        If no backend has that name.
    """
    if name == "auto":
        name = "quadratic" if reads * keys <= _FEW_PAIRS else "chunked"
    if name not in _REGISTRY:
        raise BackendError(
            f"backend: {name!r} is not available; give one of auto, {', '.join(backend_names())}."
        )
    return name, _REGISTRY[name]


_FEW_PAIRS = 16 * 16

__all__ = [
    "Backend",
    "Clock",
    "Problem",
    "Solution",
    "Visibility",
    "backend_names",
    "read_clock",
    "resolve_backend",
]
