"""Models of users as baselines by name: estimators of scikit-learn and modules of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quantattn.errors import UsageError
from quantattn.forecasters.baselines._columns import Impute
from quantattn.forecasters.baselines.estimator import EstimatorBaseline, EstimatorFactory
from quantattn.forecasters.baselines.registry import register_baseline
from quantattn.forecasters.baselines.torch_module import ModuleFactory, TorchModuleBaseline


@dataclass(frozen=True)
class _Maker:
    """Makes the baseline of a foreign factory; it can be sent to another process if the factory can."""

    kind: type[EstimatorBaseline] | type[TorchModuleBaseline]
    factory: Any
    name: str
    options: Mapping[str, Any]

    def __call__(self, seed: int) -> EstimatorBaseline | TorchModuleBaseline:
        return self.kind(self.factory, self.name, **self.options, seed=seed)


def register_estimator(
    name: str,
    factory: EstimatorFactory,
    *,
    features: Sequence[str] | None = None,
    impute: Impute = "mean",
    scale: bool = False,
    together: bool = False,
    replace: bool = False,
) -> None:
    """Make an estimator with the interface of scikit-learn known as a baseline on as-of features.

    Parameters
    ----------
    name : str
        As in :func:`register_baseline`.
    factory : callable
        From a seed to a new, unfitted estimator.
    features : sequence of str, optional
        As-of features, with or without their prefix ``asof_``; all by default.
    impute : {"mean", "median", "none"}, default "mean"
        What stands in for a missing value, learned from the training rows; "none" leaves NaN.
    scale : bool, default False
        Whether to standardise the columns by the training rows.
    together : bool, default False
        Forecast all rows in one call; see :class:`EstimatorBaseline`.
    replace : bool, default False
        As in :func:`register_baseline`.

    Raises
    ------
    UsageError
        If the name is impossible or taken, or the factory cannot be called.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from quantattn.forecasters.baselines import make_baseline, register_estimator
    >>> register_estimator("forest", lambda seed: RandomForestRegressor(random_state=seed), together=True)
    >>> make_baseline("forest", seed=3).name
    'forest'
    """
    _refuse_uncallable(factory, "a seed to an estimator")
    options: dict[str, Any] = {"features": features, "impute": impute, "scale": scale, "together": together}
    register_baseline(name, _Maker(EstimatorBaseline, factory, name, options), replace=replace)


def register_torch_module(
    name: str,
    factory: ModuleFactory,
    *,
    reads: Literal["tokens", "features"] = "tokens",
    replace: bool = False,
    **options: Any,
) -> None:
    """Make a torch module known as a baseline on token sequences or as-of features.

    Parameters
    ----------
    name : str
        As in :func:`register_baseline`.
    factory : callable
        From the input widths to a new module: ``factory(event_width, query_width)`` for tokens,
        ``factory(n_features)`` for features.
    reads : {"tokens", "features"}, default "tokens"
        What it reads; how it is called is written in :class:`TorchModuleBaseline`.
    replace : bool, default False
        As in :func:`register_baseline`.
    **options : Any
        Further arguments of :class:`TorchModuleBaseline`: `features`, `impute`, `window`, `epochs`,
        `patience`, `batch`, `learning_rate`, `weight_decay`, `gradient_clip`.

    Raises
    ------
    UsageError
        If the name is impossible or taken, an option is unknown, or the factory cannot be called.
    """
    _refuse_uncallable(factory, "input widths to a module")
    known = set(TorchModuleBaseline(factory, name).get_params()) - {"factory", "label", "reads", "seed"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"register_torch_module has no options {unknown}; it has {sorted(known)}")
    register_baseline(
        name, _Maker(TorchModuleBaseline, factory, name, {"reads": reads, **options}), replace=replace
    )


def _refuse_uncallable(factory: object, what: str) -> None:
    if not callable(factory):
        raise UsageError(f"factory={factory!r} cannot be called; give a function from {what}")
