"""Are the same forecasts made from data that ends at the forecast?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.forecasters import (
    EntityTokens,
    FittedForecaster,
    History,
    catch_up,
    encode,
    fit_encoders,
    read_history,
    replay,
)
from quantattn.forecasters.baselines import SampleTable, make_baseline
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import instants, is_visible, iso, nanoseconds_of
from quantattn.walkforward import Fold

NAME = "truncation"
TITLE = "Does a forecast stay the same, bit for bit, when all data after it is deleted?"

Rebuild = Callable[[int], PointInTimeDataset]
"""Builds the dataset anew from raw data that was available strictly before an instant.

Its samples are those with ``forecast_time`` up to that instant.
"""


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
    """

    forecasts: pl.DataFrame
    history: History
    table: SampleTable
    folds: Sequence[Fold]
    forecasters: Mapping[tuple[int, str, int], FittedForecaster]
    baselines: Sequence[str]
    rebuild: Rebuild
    text_width: int


def chosen_instants(times: np.ndarray, count: int) -> list[int]:
    """Choose distinct forecast times, spread evenly, the first and the last among them."""
    distinct = np.unique(times)
    places = np.unique(np.linspace(0, len(distinct) - 1, min(count, len(distinct))).round().astype(int))
    return [int(at) for at in distinct[places]]


def check_truncation(inputs: TruncationInputs, *, instants_per_fold: int = 5) -> CheckResult:
    """Rebuild everything from data cut at chosen forecasts and compare with what the study used and forecast.

    At each instant the dataset is built anew from raw data available strictly before it. Compared are, for
    every entity and every forecast up to that instant: information sets and as-of features; then the fold's
    encoders fitted anew; then, for one entity in turn, the networks' forecasts replayed from the first event;
    and at the middle instant of each fold the baselines, fitted and forecast anew with the labels that were
    unknown then taken out.

    Parameters
    ----------
    inputs : TruncationInputs
        What to rerun.
    instants_per_fold : int, default 5
        Forecast times of each fold's test span at which the data is cut.

    Returns
    -------
    CheckResult
    """
    tally = _Tally()
    times = nanoseconds_of(inputs.history.samples["forecast_time"])
    turn = 0
    for fold in inputs.folds:
        moments = chosen_instants(times[fold.test], instants_per_fold)
        for number, moment in enumerate(moments):
            dataset = inputs.rebuild(moment)
            tally.instants += 1
            _compare_samples(inputs, dataset, moment, tally)
            entity = dataset.entities[turn % len(dataset.entities)]
            turn += 1
            history = read_history(dataset, inputs.text_width, (entity,))
            _compare_networks(inputs, fold, history, entity, moment, tally)
            if number == len(moments) // 2:
                _compare_baselines(inputs, fold, dataset, moment, tally)
    return tally.result(inputs)


class _Tally:
    """Counts what was compared and collects what differed."""

    def __init__(self) -> None:
        self.instants = 0
        self.rows = 0
        self.encoders = 0
        self.network_forecasts = 0
        self.baseline_forecasts = 0
        self.entities: set[str] = set()
        self.models: set[str] = set()
        self.faults: list[str] = []
        self.moved = 0

    def result(self, inputs: TruncationInputs) -> CheckResult:
        if not self.instants:
            return CheckResult(NAME, TITLE, "NOT EXERCISED", "There is no test forecast to cut at.")
        tested = inputs.forecasts.select("entity", "forecast_time").unique().height
        evidence: dict[str, Any] = {
            "instants": self.instants,
            "information sets and feature rows compared": self.rows,
            "encoders fitted anew": self.encoders,
            "network forecasts replayed": self.network_forecasts,
            "baseline forecasts made anew": self.baseline_forecasts,
            "events deleted by the cuts": self.moved,
            "test forecasts in the study": tested,
            "faults": self.faults[:5],
        }
        models = set(inputs.forecasts["model"].unique().to_list())
        coverage = {
            "folds": 1.0,
            "models": len(self.models) / len(models),
            "entities replayed": len(self.entities) / max(1, inputs.forecasts["entity"].n_unique()),
        }
        if self.faults:
            return CheckResult(
                NAME,
                TITLE,
                "FAIL",
                f"{len(self.faults)} differences, first: {self.faults[0]}.",
                coverage,
                evidence,
            )
        if not self.moved:
            return CheckResult(
                NAME,
                TITLE,
                "NOT EXERCISED",
                "No cut deleted any event, so nothing was tested.",
                coverage,
                evidence,
            )
        return CheckResult(
            NAME,
            TITLE,
            "PASS",
            f"At {self.instants} instants everything was rebuilt from data cut there: {self.rows} information sets and "
            f"feature rows, {self.encoders} encoders and {self.network_forecasts + self.baseline_forecasts} forecasts "
            "are the same bit for bit.",
            coverage,
            evidence,
        )


def _compare_samples(
    inputs: TruncationInputs, dataset: PointInTimeDataset, moment: int, tally: _Tally
) -> None:
    columns = ["entity", "forecast_time", "n_visible", "max_available_at", "info_hash"]
    until = inputs.history.samples["forecast_time"] <= instants([moment])[0]
    whole = inputs.history.samples.filter(until).select(columns)
    cut = dataset.samples.select(columns)
    tally.rows += cut.height
    tally.moved += len(inputs.history.events) - len(dataset.events.frame)
    names = inputs.history.as_of_columns
    pairs = (
        ("information sets", whole, cut),
        ("as-of features", inputs.history.as_of.filter(until).select(names), _features(dataset, names)),
    )
    for what, left, right in pairs:
        if left.height != right.height:
            tally.faults.append(f"{what} at {iso(moment)}: {right.height} rows instead of {left.height}")
        elif not left.equals(right):
            tally.faults.append(f"{what} at {iso(moment)}: {_first_difference(left, right)}")


def _features(dataset: PointInTimeDataset, names: Sequence[str]) -> pl.DataFrame:
    """Give the as-of features; one of which no event is left in the cut data is null throughout."""
    frame = dataset.as_of_features()
    missing = [pl.lit(None, pl.Float64).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(missing).select(names)


def _first_difference(left: pl.DataFrame, right: pl.DataFrame) -> str:
    for name in left.columns:
        differs = left[name].ne_missing(right[name]).arg_true()
        if len(differs):
            row = int(differs[0])
            return f"{len(differs)} rows differ in {name}, first {left[name][row]} against {right[name][row]} in row {row}"
    return "the columns differ in type"


def _compare_networks(
    inputs: TruncationInputs, fold: Fold, history: History, entity: str, moment: int, tally: _Tally
) -> None:
    chosen = {key: value for key, value in inputs.forecasters.items() if key[0] == fold.index}
    if not chosen:
        return
    cutoff = fold.validation_time + 1
    # The cut history holds one entity's sequence but all events: encoders are fitted on all.
    encoders = fit_encoders(history, cutoff, text_width=inputs.text_width)
    tokens: EntityTokens = encode(history, encoders)[entity]
    rows = np.flatnonzero(
        (history.samples["entity"] == entity).to_numpy()
        & (nanoseconds_of(history.samples["forecast_time"]) > fold.fit_time)
    )
    tokens = tokens.select(rows)
    for (_, model, seed), forecaster in chosen.items():
        tally.encoders += 1
        if encoders.events.fingerprint != forecaster.encoders.events.fingerprint:
            tally.faults.append(
                f"event encoder of fold {fold.index} fitted on data cut at {iso(moment)} differs"
            )
        if encoders.queries.fingerprint != forecaster.encoders.queries.fingerprint:
            tally.faults.append(
                f"query scaler of fold {fold.index} fitted on data cut at {iso(moment)} differs"
            )
        stream = forecaster.stream()
        result = replay(stream, tokens, catch_up(stream, tokens))
        anew = forecaster.target.invert(result.forecasts)
        stored = _stored(inputs.forecasts, model, seed, fold.index, moment).filter(pl.col("entity") == entity)
        tally.network_forecasts += len(anew)
        tally.models.add(model)
        tally.entities.add(entity)
        _compare_forecasts(stored["y_pred"].to_numpy(), anew, f"{model} seed {seed} {entity}", moment, tally)


def _stored(forecasts: pl.DataFrame, model: str, seed: int | None, fold: int, moment: int) -> pl.DataFrame:
    rows = forecasts.filter(
        (pl.col("model") == model)
        & (pl.col("fold") == fold)
        & (pl.col("forecast_time") <= instants([moment])[0])
    )
    rows = rows if seed is None else rows.filter(pl.col("seed") == seed)
    return rows.sort("forecast_time", "entity")


def _compare_forecasts(stored: np.ndarray, anew: np.ndarray, what: str, moment: int, tally: _Tally) -> None:
    if stored.shape != anew.shape:
        tally.faults.append(f"{what} at {iso(moment)}: {anew.size} forecasts instead of {stored.size}")
    elif not np.array_equal(stored, anew):
        tally.faults.append(
            f"{what} at {iso(moment)}: {int((stored != anew).sum())} of {anew.size} forecasts differ, by up to "
            f"{float(np.abs(stored - anew).max()):.3g}"
        )


def _compare_baselines(
    inputs: TruncationInputs, fold: Fold, dataset: PointInTimeDataset, moment: int, tally: _Tally
) -> None:
    if not inputs.baselines:
        return
    samples = dataset.samples
    unknown = ~is_visible(pl.col("label_available_at"), pl.lit(instants([moment])[0]))
    hidden = samples.with_columns(
        pl.when(unknown).then(None).otherwise(pl.col("y_true")).alias("y_true"),
        pl.when(unknown).then(None).otherwise(pl.col("label_available_at")).alias("label_available_at"),
    )
    events = dataset.events.frame
    bars = events.filter(pl.col("kind") == "bar").select(inputs.table.bars.columns)
    as_of = _features(dataset, inputs.history.as_of_columns)
    table = SampleTable(hidden, as_of, bars, inputs.table.kind, inputs.table.horizon, inputs.table.log)
    rows = fold.test[fold.test < samples.height]
    for name in inputs.baselines:
        stored = _stored(inputs.forecasts, name, None, fold.index, moment)
        seed = int(stored["seed"][0])
        anew = make_baseline(name, seed).fit(table, fold.train).predict(table, rows)
        tally.baseline_forecasts += len(anew)
        tally.models.add(name)
        tally.entities.update(stored["entity"].unique().to_list())
        _compare_forecasts(stored["y_pred"].to_numpy(), anew, f"{name}", moment, tally)
