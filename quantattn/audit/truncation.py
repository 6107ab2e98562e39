"""The truncation check: are the same forecasts made from data that ends at the forecast."""

from __future__ import annotations

import numpy as np
import polars as pl

from quantattn.audit._truncation_data import compare_data
from quantattn.audit._truncation_inputs import Cut, Rebuild, TruncationInputs, at
from quantattn.audit._truncation_models import compare_baselines, compare_networks, compare_training
from quantattn.audit._truncation_tally import NAME, TITLE, Tally
from quantattn.audit.result import CheckResult
from quantattn.forecasters import read_history
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of
from quantattn.walkforward import Fold

__all__ = ["NAME", "TITLE", "Rebuild", "TruncationInputs", "check_truncation", "chosen_instants"]


def chosen_instants(times: Nanoseconds, count: int) -> list[int]:
    """Choose distinct forecast times, spread evenly, the first and the last among them."""
    distinct = np.unique(times)
    places = np.unique(np.linspace(0, len(distinct) - 1, min(count, len(distinct))).round().astype(int))
    return [int(moment) for moment in distinct[places]]


def early_instants(times: Nanoseconds, before: int) -> list[int]:
    """Choose the forecast times number 1, 4, 16, 64 ... (from 0) as far as they lie before an instant.

    Features are missing while their windows fill, so whatever fills them from later data shows early on
    and nowhere else.
    """
    distinct = np.unique(times)
    distinct = distinct[distinct < before]
    places = 4 ** np.arange(16)
    return [int(moment) for moment in distinct[places[places < len(distinct)]]]


def check_truncation(
    inputs: TruncationInputs, *, instants_per_fold: int = 5, warm_up: bool = True
) -> CheckResult:
    """Rebuild everything from data cut at chosen forecasts and compare with what the study used and forecast.

    At each instant the dataset is built anew from raw data available strictly before it. Compared are, for
    every entity and every forecast up to that instant: events, bars, information sets, as-of features and the
    targets known by then; then the fold's encoders fitted anew; then, for one entity in turn, the networks'
    forecasts replayed from the first event; at the middle instant of each fold the baselines, fitted and
    forecast anew with the labels that were unknown then taken out; and at the first instant of the first
    fold one network, trained anew in the same way.

    Parameters
    ----------
    inputs : TruncationInputs
        What to rerun.
    instants_per_fold : int, default 5
        Forecast times of each fold's test span at which the data is cut.
    warm_up : bool, default True
        Whether to cut at a few forecasts before the first test span too (see :func:`early_instants`) and
        compare the data there.

    Returns
    -------
    CheckResult
    """
    tally = Tally()
    times = nanoseconds_of(inputs.history.samples["forecast_time"])
    if warm_up and inputs.folds:
        for moment in early_instants(times, min(int(times[fold.test].min()) for fold in inputs.folds)):
            _made_anew(inputs, moment, (), tally)
    turn = 0
    for number, fold in enumerate(inputs.folds):
        moments = chosen_instants(times[fold.test], instants_per_fold)
        for place, moment in enumerate(moments):
            entities = _entities(inputs, fold, moment)
            entity = entities[turn % len(entities)]
            turn += 1
            cut = _made_anew(inputs, moment, (entity,), tally)
            if cut is None:
                continue
            tally.folds.add(fold.index)
            # Where the cut of a test forecast deletes nothing, equal forecasts show nothing.
            tally.moved += len(inputs.history.events) - len(cut.history.events)
            with tally.guarded(f"tokens of fold {fold.index}, {entity}", moment):
                compare_networks(inputs, fold, cut, tally)
            if place == len(moments) // 2:
                with tally.guarded(f"baselines of fold {fold.index}", moment):
                    compare_baselines(inputs, fold, cut, tally)
            if number == 0 and place == 0:
                with tally.guarded(f"training of fold {fold.index}", moment):
                    compare_training(inputs, fold, cut, tally)
    return tally.result(inputs.forecasts, len(inputs.forecasters))


def _made_anew(inputs: TruncationInputs, moment: int, entities: tuple[str, ...], tally: Tally) -> Cut | None:
    """Build the data anew from what is left after the cut and compare it; None if it cannot be built."""
    cut = None
    tally.instants.add(moment)
    with tally.guarded("the dataset", moment):
        dataset = inputs.rebuild(moment)
        cut = Cut(moment, dataset, read_history(dataset, inputs.text_width, entities))
        compare_data(inputs, cut, tally)
    return cut


def _entities(inputs: TruncationInputs, fold: Fold, moment: int) -> list[str]:
    """Give the entities that the fold's test span holds up to an instant, sorted."""
    samples = inputs.history.samples[fold.test].filter(pl.col("forecast_time") <= at(moment))
    return sorted(samples["entity"].unique().to_list())
