"""What the truncation check reruns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.forecasters import FittedForecaster, History, TrainingConfig
from quantattn.forecasters.baselines import SampleTable
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import instants, is_visible
from quantattn.walkforward import Fold
from quantattn.walkforward.networks import FoldTokens

Rebuild = Callable[[int], PointInTimeDataset]
"""Builds the dataset anew from raw data that was available strictly before an instant.

Its samples are those with ``forecast_time`` up to that instant. Targets that were not known at the
instant may be what they are in the study: they are not compared, and nothing is made from them.
"""

Refit = Callable[[tuple[int, str, int], Fold, FoldTokens, npt.NDArray[np.float64]], FittedForecaster]
"""Fits a network from its key, its fold, the fold's tokens and the targets by row of the samples."""

BARS = ("entity", "available_at", "log_return")
"""What baselines read of a bar."""


@dataclass(frozen=True)
class TruncationInputs:
    """What the truncation check reruns.

    Parameters
    ----------
    forecasts : polars.DataFrame
        The forecasts table.
    history : History
        Sequences and samples on all data.
    table : SampleTable
        The baselines' view of them.
    folds : sequence of Fold
        The folds that were run.
    forecasters : mapping of (fold, model, seed) to FittedForecaster
        As stored in the run directory.
    baselines : sequence of str
        Baselines of the study.
    rebuild : callable
        Builds the dataset from cut data.
    text_width : int
        Width of the hashed text.
    training : TrainingConfig, optional
        How networks were trained and intervals made. Without it, no network is trained anew and the
        intervals of baselines are not compared.
    threads : int, optional
        On how many threads networks were trained, on which the last bits of their weights depend; by
        default on as many as torch has now.
    refit : callable, optional
        How the study fits a network of its first fold from the key (fold, model, seed), the fold, its tokens
        and the targets, where that is more than one training: a search of hyper-parameters. By default the
        network is trained with the stored sizes and `training`.
    """

    forecasts: pl.DataFrame
    history: History
    table: SampleTable
    folds: Sequence[Fold]
    forecasters: Mapping[tuple[int, str, int], FittedForecaster]
    baselines: Sequence[str]
    rebuild: Rebuild
    text_width: int
    training: TrainingConfig | None = None
    threads: int | None = None
    refit: Refit | None = None


def at(moment: int) -> pl.Expr:
    """Give an instant (nanoseconds since the epoch, UTC) as a literal that keeps its nanoseconds."""
    return pl.lit(instants([moment])).first()


@dataclass(frozen=True)
class Cut:
    """A study's data, built anew from what was available strictly before an instant.

    Parameters
    ----------
    moment : int
        Nanoseconds since the epoch, UTC.
    dataset : PointInTimeDataset
        The dataset.
    history : History
        Its samples, features and events, and the sequences of the entities that were asked for.
    """

    moment: int
    dataset: PointInTimeDataset
    history: History


def features_of(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Give as-of features by name; one of which no event is left in the cut data is null throughout."""
    missing = [pl.lit(None, pl.Float64).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(missing).select(names)


def bars_of(dataset: PointInTimeDataset) -> pl.DataFrame:
    """Give the bar events that forecasts in the dataset's scope may read."""
    events = dataset.events.frame
    bars = events.filter((pl.col("kind") == "bar") & pl.lit(dataset.scope != "market"))
    if "log_return" not in bars.columns:
        bars = bars.with_columns(pl.lit(None, pl.Float64).alias("log_return"))
    return bars.select(BARS)


def known_targets(cut: Cut) -> pl.DataFrame:
    """Give the samples with the targets that were not known at the instant of the cut taken out."""
    known = is_visible(pl.col("label_available_at"), at(cut.moment))
    return cut.history.samples.with_columns(
        pl.when(known).then(pl.col(name)).alias(name) for name in ("y_true", "label_available_at")
    )
