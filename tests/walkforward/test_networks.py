"""One network in one fold: trained on its side alone."""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache

import numpy as np
import pytest
import torch

from quantattn.forecasters import FittedForecaster, TrainingLog, forecast_batch
from quantattn.forecasters.config import Attention
from quantattn.walkforward.networks import FoldTokens, fit_network, fold_tokens, training_log

from .market import TEXT_WIDTH, market, settings_of

SETTINGS = settings_of()
BOTH: list[Attention] = ["linear", "softmax"]


@lru_cache
def tokens_of(index: int = 1, *, validation: bool = True) -> FoldTokens:
    world = market(validation=validation)
    return fold_tokens(world.history, world.folds[index], TEXT_WIDTH)


def outcomes(*, validation: bool = True) -> np.ndarray:
    return market(validation=validation).history.samples["y_true"].to_numpy().astype(np.float64)


def fitted(
    attention: Attention, target: np.ndarray | None = None, *, validation: bool = True, coverage: float = 0.9
) -> tuple[FittedForecaster, TrainingLog]:
    return fit_network(
        market(validation=validation).folds[1],
        tokens_of(validation=validation),
        outcomes(validation=validation) if target is None else target,
        network=SETTINGS.networks[attention],
        training=dataclasses.replace(SETTINGS.training, interval=coverage),
        seed=5,
    )


def weights(forecaster: FittedForecaster) -> bytes:
    return b"".join(weight.numpy().tobytes() for weight in forecaster.network.state_dict().values())


# --- tokens -----------------------------------------------------------------------------------------------


def test_sides_hold_their_own_forecasts_and_only_the_events_that_these_read() -> None:
    fold = market().folds[1]
    for rows in (fold.train, fold.validation, fold.test):
        side = tokens_of().side(rows)
        assert sorted(row for tokens in side for row in tokens.rows.tolist()) == rows.tolist()
        for tokens in side:
            assert len(tokens.events) == tokens.counts.max()
    # Nothing that training is given was available after the training cutoff.
    for tokens in tokens_of().side(fold.train):
        assert tokens.event_times.max() <= fold.validation_time
        assert tokens.query_times.max() <= fold.validation_time


def test_entities_without_a_forecast_on_a_side_are_left_out() -> None:
    rows = market().folds[1].test
    alone = np.array([row for row in rows if market().history.samples["entity"][int(row)] == "BBB"])
    assert [tokens.entity for tokens in tokens_of().side(alone)] == ["BBB"]
    assert tokens_of().side(np.array([], np.int64)) == []


@pytest.mark.parametrize("validation", [True, False])
def test_encoders_know_what_the_first_later_forecast_sees(validation: bool) -> None:
    """The cutoff is the first validation forecast, or the first test forecast where there is none."""
    world = market(validation=validation)
    for index, fold in enumerate(world.folds):
        encoders = tokens_of(index, validation=validation).encoders
        first = world.history.samples["forecast_time"].to_physical()
        later = fold.validation if validation else fold.test
        assert encoders.cutoff == first.gather(later).min()
        newest = encoders.events.card_.training_cutoff
        available = world.history.events["available_at"].to_physical().to_numpy()
        assert newest == available[available < encoders.cutoff].max()


# --- fitting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", BOTH)
def test_only_targets_of_training_and_validation_are_read(attention: Attention) -> None:
    fold = market().folds[1]
    poisoned = np.full_like(outcomes(), np.nan)
    rows = np.concatenate([fold.train, fold.validation])
    poisoned[rows] = outcomes()[rows]
    clean, log = fitted(attention)
    again, other = fitted(attention, poisoned)
    assert weights(again) == weights(clean)
    assert again.target == clean.target
    assert again.interval == clean.interval
    assert other.epochs == log.epochs


@pytest.mark.parametrize("attention", BOTH)
def test_validation_rows_are_not_trained_on(attention: Attention) -> None:
    fold = market().folds[1]
    other = outcomes().copy()
    other[fold.validation] += 3.0
    (_, log), (_, changed) = fitted(attention), fitted(attention, other)
    assert [entry.training_loss for entry in log.epochs] == [entry.training_loss for entry in changed.epochs]
    assert log.epochs != changed.epochs
    side = tokens_of().side(fold.train)
    assert log.tokens == 2 * sum(len(tokens.events) + len(tokens.queries) for tokens in side)


def test_target_scale_is_that_of_the_training_rows() -> None:
    fold = market().folds[1]
    forecaster, _ = fitted("linear")
    values = outcomes()[fold.train].tolist()
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    assert forecaster.target.center == pytest.approx(mean, rel=1e-12)
    assert forecaster.target.scale == pytest.approx(spread, rel=1e-12)
    assert forecaster.fit_time == fold.fit_time
    assert forecaster.seed == 5


@pytest.mark.parametrize("validation", [True, False])
@pytest.mark.parametrize("attention", BOTH)
def test_intervals_are_order_statistics_of_residuals(attention: Attention, validation: bool) -> None:
    """Of the validation rows; without validation, of the training rows."""
    fold = market(validation=validation).folds[1]
    forecaster, _ = fitted(attention, validation=validation, coverage=0.5)
    judged = fold.validation if validation else fold.train
    side = tokens_of(validation=validation).side(judged)
    scaled = forecast_batch(forecaster.network, side, SETTINGS.training.batch_entities)
    residuals = sorted(
        float(outcomes(validation=validation)[row])
        - (scaled[int(row)] * forecaster.target.scale + forecaster.target.center)
        for row in judged
    )
    rank = (len(judged) + 1) // 4
    assert forecaster.interval == pytest.approx((residuals[rank - 1], residuals[-rank]), rel=1e-9)


@pytest.mark.parametrize("attention", BOTH)
def test_training_log_is_json(attention: Attention) -> None:
    _, log = fitted(attention)
    _, blind = fitted(attention, validation=False)
    values = training_log(log)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert [entry["epoch"] for entry in values["epochs"]] == [0, 1]
    assert all(entry["validation_loss"] > 0 for entry in values["epochs"])
    assert values["best_epoch"] == log.best_epoch
    assert values["tokens"] == log.tokens > 0
    values = training_log(blind)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert [entry["validation_loss"] for entry in values["epochs"]] == [None, None]


def test_progress_is_told() -> None:
    told: list[int] = []
    fit_network(
        market().folds[0],
        tokens_of(0),
        outcomes(),
        network=SETTINGS.networks["linear"],
        training=SETTINGS.training,
        seed=0,
        on_epoch=told.append,
    )
    assert told == [0, 1]


def test_global_state_is_left_alone() -> None:
    torch.manual_seed(3)
    state = torch.get_rng_state()
    fitted("linear")
    assert torch.equal(torch.get_rng_state(), state)
