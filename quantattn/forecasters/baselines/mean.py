"""The expanding historical mean: the benchmark of the out-of-sample R squared."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from quantattn.forecasters.baselines.base import BaselineForecaster
from quantattn.forecasters.baselines.table import Floats, Integers, SampleTable
from quantattn.pit.timestamps import visible_counts


class MeanBaseline(BaselineForecaster):
    """Forecast each entity by the mean of all its labels that are known at the forecast time.

    A label counts once ``label_available_at < forecast_time``, strictly, so the mean goes on
    expanding through the test span. An entity without any known label gets the mean over all
    entities; when nobody has one, the forecast is 0 for returns and else the training mean.

    Attributes
    ----------
    fallback_ : float
        The forecast when no label at all is known.

    References
    ----------
    Campbell and Thompson (2008), "Predicting Excess Stock Returns Out of Sample: Can Anything Beat
    the Historical Average?", Review of Financial Studies 21(4).
    """

    name: ClassVar[str] = "mean"

    fallback_: float

    def _fit(self, table: SampleTable, rows: Integers, targets: Floats) -> None:
        self.fallback_ = 0.0 if table.kind == "return" else float(targets.mean())

    def _predict(self, table: SampleTable, rows: Integers) -> Floats:
        times = table.forecast_times[rows]
        everyone = np.arange(len(table))
        forecasts = _expanding_mean(table, everyone, times)
        forecasts = np.where(np.isnan(forecasts), self.fallback_, forecasts)
        members = table.positions_by_entity(everyone)
        for entity, positions in table.positions_by_entity(rows).items():
            own = _expanding_mean(table, members[entity], times[positions])
            forecasts[positions] = np.where(np.isnan(own), forecasts[positions], own)
        return forecasts


def _expanding_mean(table: SampleTable, labelled: Integers, times: Integers) -> Floats:
    """Give the mean of the labels of rows `labelled` known at each time; NaN where none is."""
    # Ties in time are ordered by row, so that equal data always add up to equal bits.
    order = labelled[np.argsort(table.label_times[labelled], kind="stable")]
    known = order[np.isfinite(table.outcomes[order])]
    totals = np.concatenate([[0.0], np.cumsum(table.outcomes[known])])
    counts = visible_counts(table.label_times[known], times)
    means: Floats = np.divide(totals[counts], counts, out=np.full(times.size, np.nan), where=counts > 0)
    return means
