"""Baselines by name, for study files and the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from quantattn.errors import UsageError
from quantattn.forecasters.baselines.base import Baseline
from quantattn.forecasters.baselines.ewma import EwmaBaseline
from quantattn.forecasters.baselines.gradient_boosting import GradientBoostingBaseline
from quantattn.forecasters.baselines.har import HarBaseline
from quantattn.forecasters.baselines.mean import MeanBaseline
from quantattn.forecasters.baselines.ridge import RidgeBaseline

BaselineFactory = Callable[[int], Baseline]
"""Makes an unfitted baseline from a seed; baselines without chance ignore the seed."""

_FACTORIES: dict[str, BaselineFactory] = {
    MeanBaseline.name: lambda seed: MeanBaseline(),
    EwmaBaseline.name: lambda seed: EwmaBaseline(),
    HarBaseline.name: lambda seed: HarBaseline(),
    RidgeBaseline.name: lambda seed: RidgeBaseline(),
    GradientBoostingBaseline.name: lambda seed: GradientBoostingBaseline(seed=seed),
}

BASELINES: Mapping[str, BaselineFactory] = MappingProxyType(_FACTORIES)
"""The registered factories by name, read-only; add with :func:`register_baseline`."""


def register_baseline(name: str, factory: BaselineFactory) -> None:
    """Make a baseline known by name.

    Parameters
    ----------
    name : str
        Not yet taken.
    factory : callable
        Takes a seed (int) and gives an unfitted :class:`Baseline`.

    Raises
    ------
    UsageError
        If the name is empty or taken, or the factory cannot be called.
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"name={name!r} is not a name; give the baseline a non-empty text")
    if name in _FACTORIES:
        raise UsageError(f"a baseline named {name!r} is registered already; choose another name")
    if not callable(factory):
        raise UsageError(f"factory={factory!r} cannot be called; give a function from a seed to a baseline")
    _FACTORIES[name] = factory


def make_baseline(name: str, seed: int) -> Baseline:
    """Make an unfitted baseline.

    Parameters
    ----------
    name : str
        One of :data:`BASELINES`.
    seed : int
        For the baselines that draw random numbers.

    Returns
    -------
    Baseline

    Raises
    ------
    UsageError
        If the name is unknown; the message suggests the nearest.
    """
    if name not in _FACTORIES:
        near = difflib.get_close_matches(str(name), _FACTORIES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"baseline {name!r} is unknown; {hint}Known are {', '.join(sorted(_FACTORIES))}")
    return _FACTORIES[name](seed)
