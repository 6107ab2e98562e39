"""The two result files of an evaluation: ``metrics.json`` and ``comparisons.json``."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EvaluationError
from quantattn.evaluation.comparisons import check_level, diebold_mariano, non_inferiority, verdict
from quantattn.evaluation.confidence_set import model_confidence_set
from quantattn.evaluation.cumulative import cumulative_loss_difference, cumulative_records
from quantattn.evaluation.hac import LAG_RULE
from quantattn.evaluation.intervals import check_confidence
from quantattn.evaluation.metrics import (
    check_kind,
    intervals_of,
    metric_series,
    squared_error_series,
    values_at,
)
from quantattn.evaluation.panel import ModelForecasts, Panel, read_panel
from quantattn.pit.timestamps import iso

Floats = npt.NDArray[np.float64]

TWIN: Final = "softmax"
"""The model against which the reference must not be inferior."""

_SET_SIZE: Final = 0.1


def metrics_table(
    forecasts: pl.DataFrame,
    *,
    target: str,
    kind: str,
    log: bool = True,
    description: str = "",
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Give the content of ``metrics.json``: how well each model forecasts, with uncertainty.

    Every metric is averaged over the entities of a forecast time first, then over seeds; intervals are on the
    series over forecast times: Bartlett HAC for means, stationary bootstrap for the out-of-sample R².

    Parameters
    ----------
    forecasts : polars.DataFrame
        A forecasts table of one study and horizon.
    target : str
        The target's name.
    kind : {"variance", "return", "direction"}
        What the target is.
    log : bool
        Whether a variance is in natural logarithms, as QLIKE must know. If it is not, the QLIKE of a model is
        None over any span in which it forecast a variance that is not positive.
    description : str
        The target in words.
    confidence : float
        Coverage of the intervals, between 0 and 1.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict
        `study`, `target`, `confidence`, `n_rows` (things forecast, whatever the number of models),
        `n_forecast_times`, `n_entities`, `first_forecast`, `last_forecast` and `models`, each with `metrics`
        (value, low, high), `by_fold` and `by_seed` (values). Undefined figures are None; there is no NaN.

    Raises
    ------
    EvaluationError
        If the table is not valid, or its models cannot be compared.
    InformationSetError
        If the models did not see the same information sets.
    """
    known_kind = check_kind(kind)
    check_confidence(confidence)
    panel = read_panel(forecasts)
    series = {name: metric_series(panel, model, known_kind, log=log) for name, model in panel.models.items()}
    intervals = intervals_of(panel, known_kind, series, confidence=confidence, seed=seed)
    everywhere = np.ones(panel.times.size, dtype=np.bool_)
    models = []
    for name, model in panel.models.items():
        by_fold = []
        for fold in np.unique(panel.folds).tolist():
            at = panel.folds == fold
            by_fold.append(
                {
                    "fold": fold,
                    "test_start": iso(int(panel.times[at][0])),
                    "test_end": iso(int(panel.times[at][-1])),
                    "n_rows": int(panel.counts[at].sum()),
                    "metrics": values_at(panel, known_kind, series[name], model, at),
                }
            )
        by_seed = []
        for position, one in enumerate(model.seeds):
            part = slice(position, position + 1)
            of_seed = {metric: values[part] for metric, values in series[name].items()}
            alone = ModelForecasts((one,), model.y_pred[part], model.y_lower[part], model.y_upper[part])
            by_seed.append({"seed": one, "metrics": values_at(panel, known_kind, of_seed, alone, everywhere)})
        models.append(
            {
                "model": name,
                "seeds": list(model.seeds),
                "metrics": {metric: found._asdict() for metric, found in intervals[name].items()},
                "by_fold": by_fold,
                "by_seed": by_seed,
            }
        )
    return {
        "study": panel.study,
        "target": {"name": target, "description": description, "horizon": panel.horizon, "kind": known_kind},
        "confidence": float(confidence),
        "n_rows": panel.n_rows,
        "n_forecast_times": int(panel.times.size),
        "n_entities": len(panel.entities),
        "first_forecast": iso(int(panel.times[0])),
        "last_forecast": iso(int(panel.times[-1])),
        "models": models,
    }


def comparisons_table(
    forecasts: pl.DataFrame,
    *,
    reference: str = "linear",
    alpha: float = 0.05,
    margin: float = 0.02,
    seed: int = 0,
) -> dict[str, Any]:
    """Give the content of ``comparisons.json``: which differences between the models are real.

    The loss is the squared error, averaged over the entities of a forecast time and over seeds first.

    Parameters
    ----------
    forecasts : polars.DataFrame
        A forecasts table of one study and horizon.
    reference : str
        The model in question; pairs with it come first, and the cumulative lines are against it.
    alpha : float
        Level of the tests, between 0 and 1.
    margin : float
        Non-inferiority margin as a share of the softmax twin's mean loss, declared beforehand.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict
        `reference`, `loss`, `alpha`, `lag_rule`, `pairwise` (Diebold-Mariano, every pair once, with the mean
        difference of each seed in `by_seed`), `non_inferiority` (None without a softmax twin),
        `model_confidence_set` and `cumulative_loss_difference`. Undefined figures are None with a `reason`;
        there is no NaN.

    Raises
    ------
    EvaluationError
        If the table is not valid, its models cannot be compared, or `reference` is not among them.
    InformationSetError
        If the models did not see the same information sets.
    """
    check_level(alpha)
    panel = read_panel(forecasts)
    if reference not in panel.models:
        raise EvaluationError(
            f"reference={reference!r} is not among the models {list(panel.models)}; name one of them"
        )
    by_seed = {name: squared_error_series(panel, model) for name, model in panel.models.items()}
    losses = {name: series.mean(axis=0) for name, series in by_seed.items()}
    order = [reference, *(name for name in losses if name != reference)]
    confidence_set = model_confidence_set(
        {name: losses[name] for name in order}, size=_SET_SIZE, overlap=panel.overlap, seed=seed
    )
    return {
        "reference": reference,
        "loss": "squared error",
        "alpha": float(alpha),
        "lag_rule": LAG_RULE,
        "pairwise": [
            _pair(panel, by_seed, model, against, alpha) for model, against in combinations(order, 2)
        ],
        "non_inferiority": _non_inferiority(panel, losses, reference, alpha, margin),
        "model_confidence_set": {
            "size": confidence_set.size,
            "included": list(confidence_set.included),
            "p_values": confidence_set.p_values,
            "reason": confidence_set.reason,
        },
        "cumulative_loss_difference": cumulative_records(
            panel.times, cumulative_loss_difference(losses, reference)
        ),
    }


def _pair(panel: Panel, by_seed: dict[str, Floats], model: str, against: str, alpha: float) -> dict[str, Any]:
    test = diebold_mariano(
        by_seed[model].mean(axis=0), by_seed[against].mean(axis=0), overlap=panel.overlap, alpha=alpha
    )
    return {
        "model": model,
        "against": against,
        "mean_difference": test.mean_difference,
        "low": test.low,
        "high": test.high,
        "dm_statistic": test.statistic,
        "p_value": test.p_value,
        "n": test.n,
        "hac_lags": test.hac_lags,
        "verdict": verdict(test, model, against, alpha=alpha),
        "reason": test.reason,
        "by_seed": _by_seed(panel, by_seed, model, against),
    }


def _by_seed(panel: Panel, by_seed: dict[str, Floats], model: str, against: str) -> list[dict[str, Any]]:
    """Give the mean difference of each seed; a model without that seed enters with its average."""
    seeds = {name: panel.models[name].seeds for name in (model, against)}
    rows = []
    for seed in sorted({*seeds[model], *seeds[against]}):
        one, other = (
            by_seed[name][seeds[name].index(seed)] if seed in seeds[name] else by_seed[name].mean(axis=0)
            for name in (model, against)
        )
        rows.append({"seed": seed, "mean_difference": float((one - other).mean())})
    return rows


def _non_inferiority(
    panel: Panel, losses: dict[str, Floats], reference: str, alpha: float, margin: float
) -> dict[str, Any] | None:
    if TWIN not in losses or reference == TWIN:
        return None
    test = non_inferiority(losses[reference], losses[TWIN], margin=margin, overlap=panel.overlap, alpha=alpha)
    return {
        "model": reference,
        "against": TWIN,
        "margin": test.margin,
        "margin_rule": f"{100 * margin:g} % of the mean squared error of {TWIN}, declared before the test",
        "difference": test.difference,
        "lower": test.lower,
        "upper": test.upper,
        "p_value": test.p_value,
        "non_inferior": test.non_inferior,
        "equivalent": test.equivalent,
        "reason": test.reason,
    }
