"""Forecast quality, paired comparisons and latency, all from the forecasts table.

Losses are averaged over the entities of a forecast time before any statistic is computed, for the rows of
a panel are not independent. Every figure comes with its uncertainty, and "no difference found" is a result.
"""

from quantattn.evaluation.comparisons import (
    NO_DIFFERENCE,
    DieboldMariano,
    NonInferiority,
    diebold_mariano,
    hln_factor,
    non_inferiority,
    verdict,
)
from quantattn.evaluation.confidence_set import ModelConfidenceSet, model_confidence_set
from quantattn.evaluation.correlation import ic_series, rank_ic_series
from quantattn.evaluation.cumulative import cumulative_loss_difference
from quantattn.evaluation.directional import DirectionTest, hits, panel_direction_test, pesaran_timmermann
from quantattn.evaluation.findings import findings
from quantattn.evaluation.forecast_table import check_information_sets, check_same_rows, validate_forecasts
from quantattn.evaluation.hac import hac_lags, long_run_variance
from quantattn.evaluation.intervals import Interval, mean_interval, r2_intervals
from quantattn.evaluation.latency import latency_summary, percentiles
from quantattn.evaluation.losses import absolute_error, qlike, squared_error
from quantattn.evaluation.metrics import Kind, metric_names
from quantattn.evaluation.panel import ModelForecasts, Panel, label_overlap, read_panel
from quantattn.evaluation.summary import comparisons_table, metrics_table
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA

__all__ = [
    "FORECAST_SCHEMA",
    "NO_DIFFERENCE",
    "DieboldMariano",
    "DirectionTest",
    "Interval",
    "Kind",
    "ModelConfidenceSet",
    "ModelForecasts",
    "NonInferiority",
    "Panel",
    "absolute_error",
    "check_information_sets",
    "check_same_rows",
    "comparisons_table",
    "cumulative_loss_difference",
    "diebold_mariano",
    "findings",
    "hac_lags",
    "hits",
    "hln_factor",
    "ic_series",
    "label_overlap",
    "latency_summary",
    "long_run_variance",
    "mean_interval",
    "metric_names",
    "metrics_table",
    "model_confidence_set",
    "non_inferiority",
    "panel_direction_test",
    "percentiles",
    "pesaran_timmermann",
    "qlike",
    "r2_intervals",
    "rank_ic_series",
    "read_panel",
    "squared_error",
    "validate_forecasts",
    "verdict",
]
