"""Forecast quality of each model: which metrics there are, and their values with uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from quantattn.errors import EvaluationError
from quantattn.evaluation.correlation import ic_series, rank_ic_series
from quantattn.evaluation.directional import hits, panel_direction_test
from quantattn.evaluation.intervals import UNDEFINED, Interval, finite, mean_interval, r2_intervals
from quantattn.evaluation.losses import absolute_error, qlike, qlike_of_variances, squared_error
from quantattn.evaluation.panel import ModelForecasts, Panel

Floats = npt.NDArray[np.float64]

Kind = Literal["variance", "return", "direction"]
"""What a target is: a variance (or its logarithm), a return, or a sign."""

BENCHMARK: Final = "mean"
"""The model against which the out-of-sample R² is taken: the expanding historical mean."""

_RANGE: Final[Mapping[str, tuple[float, float]]] = {
    "mse": (0.0, math.inf),
    "mae": (0.0, math.inf),
    "qlike": (0.0, math.inf),
    "ic": (-1.0, 1.0),
    "rank_ic": (-1.0, 1.0),
    "coverage": (0.0, 1.0),
    "hit_rate": (0.0, 1.0),
}


def check_kind(kind: str) -> Kind:
    """Give the kind of a target back.

    Raises
    ------
    EvaluationError
        If it is unknown.
    """
    for known in get_args(Kind):
        if kind == known:
            return known  # type: ignore[no-any-return]
    raise EvaluationError(f"kind={kind!r} is unknown; use one of {', '.join(map(repr, get_args(Kind)))}")


def metric_names(kind: Kind) -> tuple[str, ...]:
    """Give the names of the metrics of a kind of target, in the order of a quality table.

    Parameters
    ----------
    kind : {"variance", "return", "direction"}
        Kind of the target.

    Returns
    -------
    tuple of str
        For every target ``mse``, ``mae``, ``r2_oos``, ``ic``, ``rank_ic`` and ``coverage``; for a variance
        also ``qlike``, else ``hit_rate`` and ``pt_p_value``.
    """
    common = ("mse", "mae", "r2_oos", "ic", "rank_ic", "coverage")
    return (*common, "qlike") if kind == "variance" else (*common, "hit_rate", "pt_p_value")


def squared_error_series(panel: Panel, model: ModelForecasts) -> Floats:
    """Give a model's squared error at each forecast time, averaged over entities, shape (S, T)."""
    return panel.over_entities(squared_error(panel.y_true, model.y_pred))


def metric_series(panel: Panel, model: ModelForecasts, kind: Kind, *, log: bool = True) -> dict[str, Floats]:
    """Give those metrics of a model that are means over time, as series.

    Parameters
    ----------
    panel : Panel
        Outcomes and their forecast times.
    model : ModelForecasts
        One model's forecasts.
    kind : {"variance", "return", "direction"}
        Kind of the target.
    log : bool
        Whether a variance is in natural logarithms.

    Returns
    -------
    dict of str to ndarray of float, shape (S, T)
        One value per seed and forecast time, averaged over entities first; NaN where it is not defined.
    """
    covered = (panel.y_true >= model.y_lower) & (panel.y_true <= model.y_upper)
    series = {
        "mse": squared_error_series(panel, model),
        "mae": panel.over_entities(absolute_error(panel.y_true, model.y_pred)),
        "ic": ic_series(panel, model.y_pred),
        "rank_ic": rank_ic_series(panel, model.y_pred),
        "coverage": panel.over_entities(np.where(np.isnan(model.y_lower), np.nan, covered)),
    }
    if kind == "variance":
        loss = qlike if log else qlike_of_variances
        series["qlike"] = panel.over_entities(loss(panel.y_true, model.y_pred))
    else:
        series["hit_rate"] = panel.over_entities(hits(panel.y_true, model.y_pred))
    return series


def mean_of_defined(values: Floats) -> Floats:
    """Average over seeds where defined, shape (S, T) to (T,); NaN where no seed has a value."""
    defined = ~np.isnan(values)
    number = defined.sum(axis=0)
    total = np.where(defined, values, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return mean


def _mean(series: Floats) -> float | None:
    kept = series[~np.isnan(series)]
    return finite(kept.mean()) if kept.size else None


def _ratio(losses: Floats, benchmark: Floats | None) -> float | None:
    if benchmark is None or not benchmark.size or float(benchmark.mean()) <= 0.0:
        return None
    return finite(1.0 - float(losses.mean()) / float(benchmark.mean()))


def benchmark_losses(panel: Panel) -> Floats | None:
    """Give the squared errors of the benchmark at each forecast time, or None where it was not run."""
    model = panel.models.get(BENCHMARK)
    return None if model is None else np.asarray(squared_error_series(panel, model).mean(axis=0))


def intervals_of(
    panel: Panel, kind: Kind, series: Mapping[str, Mapping[str, Floats]], *, confidence: float, seed: int
) -> dict[str, dict[str, Interval]]:
    """Give every metric of every model over all forecast times, with its interval.

    Parameters
    ----------
    panel : Panel
        Outcomes and forecasts.
    kind : {"variance", "return", "direction"}
        Kind of the target.
    series : mapping of str to mapping
        For each model what :func:`metric_series` gives.
    confidence : float
        Coverage of the intervals.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict of str to dict of str to Interval
        By model and metric. The p-value of the direction test has no bounds.
    """
    losses = {name: one["mse"].mean(axis=0) for name, one in series.items()}
    benchmark = benchmark_losses(panel)
    r2 = dict.fromkeys(losses, UNDEFINED)
    if benchmark is not None:
        stacked = np.stack(list(losses.values()))
        found = r2_intervals(stacked, benchmark, confidence=confidence, overlap=panel.overlap, seed=seed)
        r2 = dict(zip(losses, found, strict=True))
    result = {}
    for name, one in series.items():
        figures = {
            metric: mean_interval(
                mean_of_defined(values), confidence=confidence, overlap=panel.overlap, within=_RANGE[metric]
            )
            for metric, values in one.items()
        }
        figures["r2_oos"] = r2[name]
        if kind != "variance":
            figures["pt_p_value"] = Interval(_p_value(panel, panel.models[name].y_pred), None, None)
        result[name] = {metric: figures[metric] for metric in metric_names(kind)}
    return result


def values_at(
    panel: Panel, kind: Kind, series: Mapping[str, Floats], model: ModelForecasts, at: npt.NDArray[np.bool_]
) -> dict[str, float | None]:
    """Give the metrics of one model over some of the forecast times, without intervals.

    Parameters
    ----------
    panel : Panel
        Outcomes and forecasts.
    kind : {"variance", "return", "direction"}
        Kind of the target.
    series : mapping of str to ndarray, shape (S, T)
        What :func:`metric_series` gives for the model.
    model : ModelForecasts
        The model's forecasts.
    at : ndarray of bool, shape (T,)
        Which forecast times.

    Returns
    -------
    dict of str to float or None
        The p-value of the direction test is given only over all forecast times, and None otherwise.
    """
    benchmark = benchmark_losses(panel)
    values = {metric: _mean(mean_of_defined(one)[at]) for metric, one in series.items()}
    values["r2_oos"] = _ratio(series["mse"].mean(axis=0)[at], None if benchmark is None else benchmark[at])
    if kind != "variance":
        values["pt_p_value"] = _p_value(panel, model.y_pred) if at.all() else None
    return {metric: values[metric] for metric in metric_names(kind)}


def _p_value(panel: Panel, y_pred: Floats) -> float | None:
    test = panel_direction_test(panel, y_pred)
    return None if test is None else finite(test.p_value)
