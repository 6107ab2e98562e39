"""Encoders, networks, baselines and their forecasts, made anew from cut data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
import torch

from quantattn.audit._truncation_inputs import Cut, TruncationInputs, at, bars_of, features_of, known_targets
from quantattn.audit._truncation_tally import Tally
from quantattn.forecasters import (
    FittedForecaster,
    History,
    TargetScale,
    catch_up,
    encode,
    fit_encoders,
    read_history,
    replay,
    residual_interval,
)
from quantattn.forecasters.baselines import (
    EventSequences,
    SampleTable,
    baseline_traits,
    fit_baseline,
    make_baseline,
)
from quantattn.walkforward import Fold
from quantattn.walkforward.networks import FoldTokens, fit_network
from quantattn.walkforward.threads import limited_threads


def compare_networks(inputs: TruncationInputs, fold: Fold, cut: Cut, tally: Tally) -> None:
    """Fit a fold's encoders anew and replay one entity's test forecasts up to an instant.

    Parameters
    ----------
    inputs : TruncationInputs
        What the study did.
    fold : Fold
        Whose networks to replay.
    cut : Cut
        The data built anew; the forecasts of the one entity whose sequence it holds are replayed, from its
        first event.
    tally : Tally
        Told of every difference.
    """
    chosen = {key: value for key, value in inputs.forecasters.items() if key[0] == fold.index}
    if not chosen:
        return
    # The cut history holds one entity's sequence but all events: encoders are fitted on all.
    history, moment = cut.history, cut.moment
    (entity,) = history.entities
    encoders = fit_encoders(history, fold.validation_time + 1, text_width=inputs.text_width)
    scale = TargetScale.fit(known_targets(cut)["y_true"].to_numpy()[fold.train])
    known = fold.test[fold.test < history.samples.height]
    rows = known[(history.samples["entity"] == entity).to_numpy()[known]]
    tokens = encode(history, encoders)[entity].select(rows)
    for (_, model, seed), forecaster in chosen.items():
        who = f"{model} seed {seed} of fold {fold.index}"
        tally.encoders += 1
        for part, same in (
            ("event encoder", encoders.events.fingerprint == forecaster.encoders.events.fingerprint),
            ("query scaler", encoders.queries.fingerprint == forecaster.encoders.queries.fingerprint),
            ("target scale", scale == forecaster.target),
        ):
            if not same:
                tally.fault(f"{part} of {who}", moment, "fitted anew, it differs")
        with tally.guarded(f"{who}, {entity}", moment):
            stream = forecaster.network_stream()
            result = replay(stream, tokens, catch_up(stream, tokens))
            anew = forecaster.target.invert(result.forecasts)
            stored = _stored(inputs, model, seed, fold, moment).filter(pl.col("entity") == entity)
            _compare_forecasts(stored, anew, forecaster.interval, f"{who}, {entity}", moment, tally)
            tally.network_forecasts += len(anew)
            if len(anew):
                tally.models.add(model)
                tally.replayed.add(entity)


def compare_training(inputs: TruncationInputs, fold: Fold, cut: Cut, tally: Tally) -> None:
    """Train one network of a fold anew on data cut at an instant, from the first weight to the interval.

    Targets that were not known at the instant are missing in what it is given.

    Parameters
    ----------
    inputs : TruncationInputs
        What the study did.
    fold : Fold
        Whose network to train: the first in the order of model and seed.
    cut : Cut
        The data built anew at an instant after the fold's fit.
    tally : Tally
        Told of every difference.
    """
    keys = [key for key in inputs.forecasters if key[0] == fold.index]
    if not keys or inputs.training is None:
        return
    key = min(keys)
    _, model, seed = key
    stored = inputs.forecasters[key]
    history = read_history(cut.dataset, inputs.text_width)
    encoders = fit_encoders(history, fold.validation_time + 1, text_width=inputs.text_width)
    target = known_targets(cut)["y_true"].to_numpy().astype(np.float64)
    tokens = FoldTokens(encode(history, encoders), encoders)
    with limited_threads(inputs.threads or torch.get_num_threads()):
        if inputs.refit is not None:
            anew = inputs.refit(key, fold, tokens, target)
        else:
            anew, _ = fit_network(
                fold, tokens, target, network=stored.network.config, training=inputs.training, seed=seed
            )
    tally.trained += 1
    for part, same in (
        ("weights", _equal_weights(stored, anew)),
        ("target scale", stored.target == anew.target),
        ("interval", stored.interval == anew.interval),
    ):
        if not same:
            tally.fault(
                f"{part} of {model} seed {seed} of fold {fold.index}", cut.moment, "trained anew, they differ"
            )


def _equal_weights(one: FittedForecaster, other: FittedForecaster) -> bool:
    left, right = one.network.state_dict(), other.network.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def compare_baselines(inputs: TruncationInputs, fold: Fold, cut: Cut, tally: Tally) -> None:
    """Fit a fold's baselines anew and make their test forecasts up to an instant again.

    Parameters
    ----------
    inputs : TruncationInputs
        What the study did.
    fold : Fold
        Whose baselines to fit.
    cut : Cut
        The data built anew.
    tally : Tally
        Told of every difference.
    """
    if not inputs.baselines:
        return
    samples, moment = known_targets(cut), cut.moment
    as_of = features_of(cut.history.as_of, inputs.history.as_of_columns)
    whole = inputs.table
    plain = SampleTable(samples, as_of, bars_of(cut.dataset), whole.kind, whole.horizon, whole.log)
    tables = _Tables(inputs, fold, cut, plain)
    rows = fold.test[fold.test < samples.height]
    judged = fold.validation if len(fold.validation) else fold.train
    for name in inputs.baselines:
        what = f"{name} of fold {fold.index}"
        with tally.guarded(what, moment):
            table = tables.read_by(name)
            stored = _stored(inputs, name, None, fold, moment)
            seed = int(stored["seed"][0])
            stored = stored.filter(pl.col("seed") == seed)
            model = fit_baseline(make_baseline(name, seed), table, fold.train, fold.validation)
            anew = model.predict(table, rows)
            interval = None
            if inputs.training is not None:
                residuals = table.targets(judged) - model.predict(table, judged)
                interval = residual_interval(residuals, inputs.training.interval)
            _compare_forecasts(stored, anew, interval, what, moment, tally)
            tally.baseline_forecasts += len(anew)
            tally.models.add(name)
            tally.refitted.update(stored["entity"].unique().to_list())


@dataclass(frozen=True, eq=False)
class _Tables:
    """What baselines read, made from cut data; the events behind it only where one reads them."""

    inputs: TruncationInputs
    fold: Fold
    cut: Cut
    plain: SampleTable

    @cached_property
    def history(self) -> History:
        """Every entity's sequence: the cut holds that of one."""
        return read_history(self.cut.dataset, self.inputs.text_width)

    @cached_property
    def sequences(self) -> EventSequences:
        """The events of the cut data."""
        return EventSequences.of(self.history)

    @cached_property
    def encoded(self) -> EventSequences:
        """The same with the tokens of the fold."""
        encoders = fit_encoders(
            self.history, self.fold.validation_time + 1, text_width=self.inputs.text_width
        )
        return self.sequences.with_tokens(encode(self.history, encoders), encoders)

    def read_by(self, name: str) -> SampleTable:
        """Give the table with what a baseline reads."""
        reads = baseline_traits(name).inputs
        if reads == "table":
            return self.plain
        return replace(self.plain, sequences=self.encoded if reads == "tokens" else self.sequences)


def _stored(inputs: TruncationInputs, model: str, seed: int | None, fold: Fold, moment: int) -> pl.DataFrame:
    rows = inputs.forecasts.filter(
        (pl.col("model") == model) & (pl.col("fold") == fold.index) & (pl.col("forecast_time") <= at(moment))
    )
    rows = rows if seed is None else rows.filter(pl.col("seed") == seed)
    return rows.sort("forecast_time", "entity")


def _compare_forecasts(
    stored: pl.DataFrame,
    anew: np.ndarray,
    interval: tuple[float, float] | None,
    what: str,
    moment: int,
    tally: Tally,
) -> None:
    columns = {"forecasts": ("y_pred", anew)}
    if interval is not None:
        lower, upper = interval
        columns |= {
            "lower bounds": ("y_lower", anew + lower),
            "upper bounds": ("y_upper", anew + upper),
        }
    for figures, (column, made) in columns.items():
        there = stored[column].to_numpy()
        if there.shape != made.shape:
            tally.fault(what, moment, f"{made.size} {figures} instead of {there.size}")
        elif not np.array_equal(there, made):
            how = f"{int((there != made).sum())} of {made.size} {figures} differ"
            tally.fault(what, moment, f"{how}, by up to {float(np.abs(there - made).max()):.3g}")
