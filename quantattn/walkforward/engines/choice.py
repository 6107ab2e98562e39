"""Engines by name, for the command line."""

from __future__ import annotations

from typing import Final

from quantattn.errors import UsageError
from quantattn.walkforward.engines.base import Engine
from quantattn.walkforward.engines.local import LocalEngine
from quantattn.walkforward.engines.ray_cluster import RayEngine

ENGINES: Final = ("local", "ray")
"""Names of the engines."""


def make_engine(name: str = "local", *, workers: int = 1, address: str | None = None) -> Engine:
    """Make an engine.

    Parameters
    ----------
    name : {"local", "ray"}
        Processes of this machine, or a Ray cluster.
    workers : int, default 1
        Units at once on one machine of this size.
    address : str, optional
        Of the Ray cluster; without it, Ray is started on this machine alone.

    Returns
    -------
    Engine

    Raises
    ------
    UsageError
        If the name is unknown, an address is given to the local engine, or Ray is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"engine {name!r} is unknown; use one of {', '.join(ENGINES)}")
    if name == "ray":
        return RayEngine(address=address, workers=workers)
    if address is not None:
        raise UsageError(f"address {address!r} has no meaning for the local engine; add --engine ray")
    return LocalEngine(workers)
