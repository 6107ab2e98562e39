"""Engines: what does the units of a study, in this process, in several, or on a Ray cluster."""

from quantattn.walkforward.engines.base import Account, Engine, Watcher
from quantattn.walkforward.engines.choice import ENGINES, make_engine
from quantattn.walkforward.engines.folds import Outcome, run_folds
from quantattn.walkforward.engines.local import LocalEngine
from quantattn.walkforward.engines.ray_cluster import RayEngine

__all__ = [
    "ENGINES",
    "Account",
    "Engine",
    "LocalEngine",
    "Outcome",
    "RayEngine",
    "Watcher",
    "make_engine",
    "run_folds",
]
