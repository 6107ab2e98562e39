"""The forecasts as arrays, and the average over entities at each forecast time.

The rows of a panel are not independent: twenty stocks on one day share that day. Every statistic
is therefore computed on a series with one value per forecast time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EvaluationError
from quantattn.evaluation.forecast_table import check_information_sets, check_same_rows, validate_forecasts
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of

Floats = npt.NDArray[np.float64]


class ModelForecasts(NamedTuple):
    """One model's forecasts over the panel's rows.

    Attributes
    ----------
    seeds : tuple of int
        Seeds, ascending; length S.
    y_pred, y_lower, y_upper : ndarray of float, shape (S, N)
        Forecasts and the bounds of their intervals, in units of the target. Bounds are NaN where there are
        none.
    """

    seeds: tuple[int, ...]
    y_pred: Floats
    y_lower: Floats
    y_upper: Floats


@dataclass(frozen=True, eq=False)
class Panel:
    """Forecasts of several models for the same N things at T forecast times, sorted by time and entity.

    Attributes
    ----------
    study : str
        The study's name.
    horizon : int
        The labels' horizon, in sessions.
    times : ndarray of int64, shape (T,)
        Distinct forecast times, ascending, nanoseconds UTC.
    starts : ndarray of int64, shape (T,)
        First row of each forecast time.
    entities : tuple of str
        Distinct entities, sorted.
    y_true : ndarray of float, shape (N,)
        Outcomes.
    folds : ndarray of int64, shape (T,)
        The fold of each forecast time.
    overlap : int
        The greatest number of later forecast times whose labels begin before a label ends.
    models : dict of str to ModelForecasts
        In order of first appearance in the table.
    """

    study: str
    horizon: int
    times: Nanoseconds
    starts: npt.NDArray[np.int64]
    entities: tuple[str, ...]
    y_true: Floats
    folds: npt.NDArray[np.int64]
    overlap: int
    models: dict[str, ModelForecasts]

    @property
    def n_rows(self) -> int:
        """The number N of things forecast: entities times forecast times, less the gaps."""
        return int(self.y_true.size)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of entities at each forecast time, shape (T,)."""
        return np.diff(np.append(self.starts, self.n_rows))

    @property
    def time_of_row(self) -> npt.NDArray[np.int64]:
        """The position of each row's forecast time in `times`, shape (N,)."""
        return np.repeat(np.arange(self.times.size), self.counts)

    def over_entities(self, values: Floats) -> Floats:
        """Average over the entities of each forecast time.

        Parameters
        ----------
        values : ndarray of float, shape (..., N)
            One value per row; NaN where it is not defined.

        Returns
        -------
        ndarray of float, shape (..., T)
            Means of the values that are defined; NaN where none is.
        """
        defined = ~np.isnan(values)
        total = np.add.reduceat(np.where(defined, values, 0.0), self.starts, axis=-1)
        number = np.add.reduceat(defined.astype(np.float64), self.starts, axis=-1)
        with np.errstate(invalid="ignore"):
            return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)


def read_panel(forecasts: pl.DataFrame) -> Panel:
    """Check a forecasts table and lay it out as arrays.

    Parameters
    ----------
    forecasts : polars.DataFrame
        A forecasts table of one study and one horizon; see :data:`FORECAST_SCHEMA`.

    Returns
    -------
    Panel

    Raises
    ------
    EvaluationError
        If the table is not valid, holds several studies or horizons, models with different row sets, or a
        forecast time in two folds.
    InformationSetError
        If models did not see the same information set.
    """
    validate_forecasts(forecasts)
    study = str(_only(forecasts, "study"))
    horizon = int(_only(forecasts, "horizon"))
    check_same_rows(forecasts)
    check_information_sets(forecasts)
    order = forecasts["model"].unique(maintain_order=True).to_list()
    table = forecasts.sort("model", "seed", "forecast_time", "entity")
    runs = table.select("model", "seed").unique(maintain_order=True).rows()
    first = table.head(table.height // len(runs))
    forecast_time = nanoseconds_of(first["forecast_time"])
    times, starts = np.unique(forecast_time, return_index=True)
    values = {
        name: table[name].to_numpy().astype(np.float64).reshape(len(runs), first.height)
        for name in ("y_pred", "y_lower", "y_upper")
    }
    models = {}
    for model in order:
        at = [i for i, (name, _) in enumerate(runs) if name == model]
        models[model] = ModelForecasts(tuple(runs[i][1] for i in at), *(values[name][at] for name in values))
    return Panel(
        study=study,
        horizon=horizon,
        times=times,
        starts=starts.astype(np.int64),
        entities=tuple(first["entity"].unique().sort().to_list()),
        y_true=first["y_true"].to_numpy().astype(np.float64),
        folds=_folds(first, starts),
        overlap=label_overlap(first),
        models=models,
    )


def label_overlap(rows: pl.DataFrame) -> int:
    """Give the greatest number of later forecast times whose labels begin before a label ends.

    Parameters
    ----------
    rows : polars.DataFrame
        Columns `forecast_time`, `label_start_time` and `label_end_time` (instants, UTC).

    Returns
    -------
    int
        0 where labels follow each other; h - 1 for labels over h periods with a forecast in each.
    """
    spans = (
        rows.group_by("forecast_time")
        .agg(pl.col("label_start_time").min(), pl.col("label_end_time").max())
        .sort("forecast_time")
    )
    start, end = (nanoseconds_of(spans[name]) for name in ("label_start_time", "label_end_time"))
    # The earliest start from each time on is nondecreasing, so that a binary search counts correctly.
    earliest = np.minimum.accumulate(start[::-1])[::-1]
    later = np.searchsorted(earliest, end, side="left") - np.arange(1, start.size + 1)
    return max(int(later.max(initial=0)), 0)


def _only(forecasts: pl.DataFrame, name: str) -> Any:
    values = forecasts[name].unique().sort().to_list()
    if len(values) > 1:
        raise EvaluationError(
            f"forecasts holds several values of {name!r}, {values[:5]}; filter it to one, for their losses "
            "cannot be pooled"
        )
    return values[0]


def _folds(first: pl.DataFrame, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    split = (
        first.group_by("forecast_time")
        .agg(pl.col("fold").unique().sort())
        .filter(pl.col("fold").list.len() > 1)
    )
    if split.height:
        row = split.sort("forecast_time").row(0, named=True)
        raise EvaluationError(
            f"forecast_time {row['forecast_time']} is in the folds {row['fold']}; folds split forecast "
            "times, so keep one fold for each"
        )
    return first["fold"].to_numpy().astype(np.int64)[starts]
