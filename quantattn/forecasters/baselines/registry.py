"""Baselines by name, for study files and the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from quantattn.errors import UsageError
from quantattn.forecasters.baselines.base import Baseline, BaselineForecaster, Inputs
from quantattn.forecasters.baselines.events_linear import EventsLogisticBaseline, EventsRidgeBaseline
from quantattn.forecasters.baselines.ewma import EwmaBaseline
from quantattn.forecasters.baselines.garch import GarchBaseline
from quantattn.forecasters.baselines.gradient_boosting import GradientBoostingBaseline
from quantattn.forecasters.baselines.gru import GruBaseline
from quantattn.forecasters.baselines.har import HarBaseline
from quantattn.forecasters.baselines.mean import MeanBaseline
from quantattn.forecasters.baselines.ridge import RidgeBaseline
from quantattn.forecasters.baselines.softmax_window import SoftmaxWindowBaseline
from quantattn.forecasters.baselines.table import Integers, SampleTable

BaselineFactory = Callable[[int], Baseline]
"""Makes an unfitted baseline from a seed; baselines without chance ignore the seed."""

_FACTORIES: dict[str, BaselineFactory] = {
    MeanBaseline.name: lambda seed: MeanBaseline(),
    EwmaBaseline.name: lambda seed: EwmaBaseline(),
    HarBaseline.name: lambda seed: HarBaseline(),
    GarchBaseline.name: lambda seed: GarchBaseline(),
    RidgeBaseline.name: lambda seed: RidgeBaseline(),
    GradientBoostingBaseline.name: lambda seed: GradientBoostingBaseline(seed=seed),
    EventsRidgeBaseline.name: lambda seed: EventsRidgeBaseline(),
    EventsLogisticBaseline.name: lambda seed: EventsLogisticBaseline(),
    GruBaseline.name: lambda seed: GruBaseline(seed=seed),
    SoftmaxWindowBaseline.name: lambda seed: SoftmaxWindowBaseline(seed=seed),
}

BASELINES: Mapping[str, BaselineFactory] = MappingProxyType(_FACTORIES)
"""The registered factories by name, read-only; add with :func:`register_baseline`."""

BUILT_IN: Final = frozenset(_FACTORIES)
"""Names of the package's own baselines, which nothing can replace."""

RESERVED: Final = frozenset({"linear", "softmax"})
"""Names of the attention networks, which no baseline may take."""

ENSEMBLE: Final = "-ensemble"
"""Behind the name of the model whose seeds are averaged; no baseline's name may end so."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class BaselineTraits:
    """What the engine must know of a baseline before it runs it.

    Parameters
    ----------
    name : str
        Its name.
    inputs : {"table", "events", "tokens"}
        What it reads; see :data:`~quantattn.forecasters.baselines.Inputs`.
    stochastic : bool
        Whether each seed is a run of its own.
    needs_bars : bool
        Whether it reads the bars of the entities.
    window : int or None
        How many of the last events it reads, if not all: another information set.
    built_in : bool
        Whether it belongs to the package.
    """

    name: str
    inputs: Inputs
    stochastic: bool
    needs_bars: bool
    window: int | None
    built_in: bool


def register_baseline(name: str, factory: BaselineFactory, *, replace: bool = False) -> None:
    """Make a baseline known by name.

    Parameters
    ----------
    name : str
        Letters, digits, ``_``, ``-`` and ``.``, at most 64; not yet taken.
    factory : callable
        Takes a seed (int) and gives an unfitted :class:`Baseline`.
    replace : bool, default False
        Take the place of a baseline that was registered under this name before, for work in a notebook. The
        package's own names cannot be replaced: results under them mean one thing.

    Raises
    ------
    UsageError
        If the name is impossible or taken, or the factory cannot be called.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"name={name!r} is not a name; give the baseline up to 64 letters, digits, '_', '-' and '.'"
        )
    if name.endswith(ENSEMBLE):
        raise UsageError(
            f"name={name!r} ends in {ENSEMBLE!r}, as the mean over the seeds of a model does; "
            "choose another name"
        )
    if name in BUILT_IN | RESERVED:
        raise UsageError(f"{name!r} is a model of the package and is registered already; choose another name")
    if name in _FACTORIES and not replace:
        raise UsageError(
            f"a baseline named {name!r} is registered already; choose another name, or pass replace=True"
        )
    if not callable(factory):
        raise UsageError(f"factory={factory!r} cannot be called; give a function from a seed to a baseline")
    _FACTORIES[name] = factory


def unregister_baseline(name: str) -> None:
    """Forget a baseline that was registered.

    Parameters
    ----------
    name : str
        Its name.

    Raises
    ------
    UsageError
        If the name is unknown or the package's own.
    """
    if name in BUILT_IN or name not in _FACTORIES:
        raise UsageError(
            f"{name!r} was not registered by you; {sorted(set(_FACTORIES) - BUILT_IN)} can be taken back"
        )
    del _FACTORIES[name]


def make_baseline(name: str, seed: int, **parameters: Any) -> Baseline:
    """Make an unfitted baseline.

    Parameters
    ----------
    name : str
        One of :data:`BASELINES`.
    seed : int
        For the baselines that draw random numbers.
    **parameters : Any
        Arguments of its constructor that differ from the defaults.

    Returns
    -------
    Baseline

    Raises
    ------
    UsageError
        If the name is unknown (the message suggests the nearest), or a parameter is.
    """
    if name not in _FACTORIES:
        near = difflib.get_close_matches(str(name), _FACTORIES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"baseline {name!r} is unknown; {hint}Known are {', '.join(sorted(_FACTORIES))}")
    model = _FACTORIES[name](seed)
    if name not in BUILT_IN and _FACTORIES[name](seed) is model:
        raise UsageError(
            f"the factory of baseline {name!r} gave the same {type(model).__name__} twice, which would "
            "train on from fold to fold; make a new one at each call"
        )
    if not parameters:
        return model
    if not isinstance(model, BaselineForecaster):
        raise UsageError(
            f"baseline {name!r} takes no parameters {sorted(parameters)}; set them in its factory"
        )
    return model.set_params(**parameters)


def baseline_traits(name: str, **parameters: Any) -> BaselineTraits:
    """Say what a baseline needs.

    Parameters
    ----------
    name : str
        One of :data:`BASELINES`.
    **parameters : Any
        As in :func:`make_baseline`.

    Returns
    -------
    BaselineTraits
        A baseline of a foreign class, without these attributes, reads the table alone and runs once.
    """
    model = make_baseline(name, 0, **parameters)
    return BaselineTraits(
        name=name,
        inputs=getattr(model, "inputs", "table"),
        stochastic=bool(getattr(model, "stochastic", False)),
        needs_bars=bool(getattr(model, "needs_bars", False)),
        window=getattr(model, "information_window", None),
        built_in=name in BUILT_IN,
    )


def fit_baseline(model: Baseline, table: SampleTable, rows: Integers, validation: Integers) -> Baseline:
    """Fit a baseline of any class: one of the package's is also given the rows to stop on.

    Parameters
    ----------
    model : Baseline
        Unfitted.
    table : SampleTable
        With the sequences that its traits ask for.
    rows, validation : ndarray of int64
        Positions in the samples; the second may be empty.

    Returns
    -------
    Baseline
        The fitted model.
    """
    if isinstance(model, BaselineForecaster):
        return model.fit(table, rows, validation=validation)
    return model.fit(table, rows)
