"""Training: reproducible, blind to rows that it was not given, and silent about its surroundings."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import ForecasterError
from quantattn.files import hash_bytes
from quantattn.forecasters import (
    AttentionNetwork,
    EntityTokens,
    TrainingConfig,
    TrainingLog,
    forecast_batch,
    train,
)
from quantattn.forecasters.batches import TokenBatch, merge
from quantattn.forecasters.config import Attention
from quantattn.forecasters.training import deterministic, evaluate_loss

from .oracle import naive_forecasts
from .sequences import panel, random_network, random_tokens, small_config

ROWS = 1000


def side(seed: int, first_row: int, entities: int = 5) -> list[EntityTokens]:
    """Sequences whose rows begin at `first_row` and never meet those of another side."""
    return [
        random_tokens(
            12 + number,
            5 - number % 2,
            entity=f"E{number}",
            first_row=first_row + 10 * number,
            seed=seed + number,
        )
        for number in range(entities)
    ]


TRAINING, VALIDATION = side(0, 0), side(50, 500)
TARGET = np.random.default_rng(7).standard_normal(ROWS)


def run(
    training: list[EntityTokens] = TRAINING,
    validation: list[EntityTokens] = VALIDATION,
    target: np.ndarray = TARGET,
    *,
    attention: Attention = "linear",
    seed: int = 1,
    **options: Any,
) -> tuple[AttentionNetwork, TrainingLog]:
    config = TrainingConfig(**{"epochs": 4, "batch_entities": 2, "learning_rate": 0.02, **options})
    return train(training, validation, target, network=small_config(attention), training=config, seed=seed)


def digest(network: AttentionNetwork) -> str:
    return hash_bytes(b"".join(weight.numpy().tobytes() for weight in network.state_dict().values()))


def used_rows(*sides: list[EntityTokens]) -> np.ndarray:
    return np.concatenate([tokens.rows for sequences in sides for tokens in sequences])


# --- reproducible -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_two_runs_give_equal_bits(attention: Attention) -> None:
    (first, log), (second, other) = run(attention=attention), run(attention=attention)
    assert digest(first) == digest(second)
    assert log.epochs == other.epochs
    assert (log.best_epoch, log.tokens) == (other.best_epoch, other.tokens)
    assert not first.training


def test_the_callers_random_state_does_not_matter() -> None:
    first, _ = run()
    torch.manual_seed(987)
    torch.randn(5)
    second, _ = run()
    assert digest(first) == digest(second)


def test_another_seed_gives_other_weights() -> None:
    assert digest(run(seed=1)[0]) != digest(run(seed=2)[0])


@pytest.mark.slow
def test_another_process_gives_equal_bits() -> None:
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from tests.forecasters.test_training import digest, run\n"
        "print(digest(run(attention='linear')[0]), digest(run(attention='softmax')[0]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = [digest(run(attention=attention)[0]) for attention in ("linear", "softmax")]
    finally:
        torch.set_num_threads(threads)
    assert done.stdout.split() == here


# --- what is read -----------------------------------------------------------------------------------------


def test_only_the_rows_given_are_read() -> None:
    poisoned = np.full(ROWS, np.nan)
    rows = used_rows(TRAINING, VALIDATION)
    poisoned[rows] = TARGET[rows]
    assert digest(run()[0]) == digest(run(target=poisoned)[0])


def test_padding_reads_no_target() -> None:
    """The padding of a batch points at row 0, which is nobody's here and holds no number."""
    training, validation = side(0, 100), side(50, 600)
    shifted = np.roll(TARGET, 100)
    rows = used_rows(training, validation)
    assert 0 not in rows
    poisoned = np.full(ROWS, np.nan)
    poisoned[rows] = shifted[rows]
    clean, _ = run(training, validation, shifted)
    assert digest(clean) == digest(run(training, validation, poisoned)[0]) == digest(run()[0])


def test_every_training_row_matters() -> None:
    options: dict[str, Any] = {"validation": [], "epochs": 1, "batch_entities": 5}
    before = run(**options)[1].epochs[0].training_loss
    for row in used_rows(TRAINING):
        other = TARGET.copy()
        other[row] += 1.0
        assert run(target=other, **options)[1].epochs[0].training_loss != before, row


def test_validation_never_enters_the_gradient() -> None:
    """Whatever the validation targets, each epoch's training loss is the same."""
    other = TARGET.copy()
    rows = used_rows(VALIDATION)
    other[rows] = 5.0 * np.random.default_rng(3).standard_normal(len(rows))
    (_, log), (_, changed), (_, without) = run(), run(target=other), run(validation=[])
    losses = [entry.training_loss for entry in log.epochs]
    assert losses == [entry.training_loss for entry in changed.epochs]
    assert losses == [entry.training_loss for entry in without.epochs]
    assert [e.validation_loss for e in log.epochs] != [e.validation_loss for e in changed.epochs]


def networks_by_epoch(monkeypatch: pytest.MonkeyPatch) -> list[AttentionNetwork]:
    """Copies of the network as it is after each of four epochs."""
    made: list[AttentionNetwork] = []
    copies: list[AttentionNetwork] = []

    class Recorded(AttentionNetwork):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    config = TrainingConfig(epochs=4, batch_entities=2, learning_rate=0.02, patience=9)
    with monkeypatch.context() as patch:
        patch.setattr("quantattn.forecasters.training.AttentionNetwork", Recorded)
        train(
            TRAINING,
            VALIDATION,
            TARGET,
            network=small_config(),
            training=config,
            seed=1,
            on_epoch=lambda epoch: copies.append(copy.deepcopy(made[0]).eval()),
        )
    return copies


def test_validation_chooses_among_the_epochs_that_training_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation targets that one epoch's network forecasts exactly make that epoch the one that is kept."""
    networks = networks_by_epoch(monkeypatch)
    assert len({digest(network) for network in networks}) == 4
    for wanted, network in enumerate(networks):
        target = TARGET.copy()
        for row, value in forecast_batch(network, VALIDATION, 2).items():
            target[row] = value
        kept, log = run(target=target, patience=9)
        assert log.best_epoch == wanted
        assert log.epochs[wanted].validation_loss == pytest.approx(0.0, abs=1e-12)
        assert digest(kept) == digest(network)


# --- epochs -----------------------------------------------------------------------------------------------


def test_the_best_epoch_is_the_first_with_the_least_validation_loss() -> None:
    _, log = run(epochs=12, learning_rate=0.3, patience=12)
    losses = [entry.validation_loss for entry in log.epochs]
    assert [entry.epoch for entry in log.epochs] == list(range(12))
    assert log.best_epoch == losses.index(min(losses)) < 11


def test_the_weights_returned_are_those_of_the_best_epoch() -> None:
    network, log = run(epochs=12, learning_rate=0.3, patience=12)
    batches = [merge(VALIDATION[i : i + 2], network.config.half_lives) for i in (0, 2, 4)]
    loss = evaluate_loss(network, batches, torch.from_numpy(TARGET.astype(np.float32)))
    assert loss == log.epochs[log.best_epoch].validation_loss


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience(patience: int) -> None:
    _, whole = run(epochs=12, learning_rate=0.3, patience=12)
    _, log = run(epochs=12, learning_rate=0.3, patience=patience)
    losses = [entry.validation_loss for entry in whole.epochs]
    best, expected = 0, len(losses)
    for epoch, loss in enumerate(losses):
        best = epoch if loss < losses[best] else best
        if epoch - best == patience:
            expected = epoch + 1
            break
    assert len(log.epochs) == expected < 12
    assert log.epochs == whole.epochs[:expected]
    assert log.best_epoch == best


def test_without_validation_the_last_epoch_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    network, log = run(validation=[], patience=1)
    assert len(log.epochs) == 4
    assert log.best_epoch == 3
    assert all(np.isnan(entry.validation_loss) for entry in log.epochs)
    assert digest(network) == digest(networks_by_epoch(monkeypatch)[3])


def test_validation_sequences_without_forecasts_are_none() -> None:
    blind = [tokens.select(np.array([], np.int64)) for tokens in VALIDATION]
    assert digest(run(validation=blind)[0]) == digest(run(validation=[])[0])


def test_tokens_are_counted_once_an_epoch() -> None:
    _, log = run(epochs=3)
    assert log.tokens == 3 * sum(len(tokens.events) + len(tokens.queries) for tokens in TRAINING)
    assert log.seconds > 0


def test_progress_is_told_after_every_epoch() -> None:
    told: list[int] = []
    train(
        TRAINING,
        VALIDATION,
        TARGET,
        network=small_config(),
        training=TrainingConfig(epochs=3),
        seed=0,
        on_epoch=told.append,
    )
    assert told == [0, 1, 2]


def test_sequences_come_in_another_order_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def watched(sequences: Sequence[EntityTokens], lives: tuple[float | None, ...]) -> TokenBatch:
        seen.append([tokens.entity for tokens in sequences])
        return merge(sequences, lives)

    monkeypatch.setattr("quantattn.forecasters.training.merge", watched)

    def orders(seed: int) -> list[list[str]]:
        seen.clear()
        run(validation=[], seed=seed)
        assert [len(batch) for batch in seen] == [2, 2, 1] * 4
        return [[name for batch in seen[start : start + 3] for name in batch] for start in (0, 3, 6, 9)]

    first, second = orders(1), orders(2)
    for order in (*first, *second):
        assert sorted(order) == [f"E{number}" for number in range(5)]
    assert len({tuple(order) for order in first}) > 1
    assert first != second
    assert orders(1) == first


def test_training_loss_is_the_mean_over_forecasts() -> None:
    """One step of all sequences: the fresh network forecasts zero, so the loss is the mean square."""
    _, log = run(epochs=1, batch_entities=5)
    assert log.epochs[0].training_loss == pytest.approx(np.mean(TARGET[used_rows(TRAINING)] ** 2), rel=1e-6)


@pytest.mark.parametrize("epochs", range(1, 12))
def test_any_number_of_steps(epochs: int) -> None:
    """The learning rate rises and falls whole within one step, five steps and eleven."""
    _, log = run(training=TRAINING[:1], epochs=epochs, patience=20)
    assert len(log.epochs) == epochs
    assert all(np.isfinite(entry.training_loss) for entry in log.epochs)


def test_it_learns() -> None:
    """The target is what the last event says: the loss falls to a small part of the target's variance."""
    sequences = [random_tokens(60, 40, entity=f"E{n}", first_row=100 * n, seed=n) for n in range(4)]
    target = np.zeros(ROWS)
    for tokens in sequences:
        seen = tokens.counts > 0
        target[tokens.rows[seen]] = tokens.events[tokens.counts[seen] - 1, 0]
    for attention in ("linear", "softmax"):
        _, log = train(
            sequences,
            [],
            target,
            network=small_config(attention, width=16, half_lives=(0.2, 20.0)),
            training=TrainingConfig(epochs=25, batch_entities=2, learning_rate=0.03),
            seed=0,
        )
        assert log.epochs[-1].training_loss < 0.2 * log.epochs[0].training_loss, attention


# --- errors and surroundings ------------------------------------------------------------------------------


@pytest.mark.parametrize("sequences", [[], [TRAINING[0].select(np.array([], np.int64))]])
def test_no_training_forecast(sequences: list[EntityTokens]) -> None:
    with pytest.raises(ForecasterError, match=r"no training forecast.*lengthen train_size"):
        run(training=sequences)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [3, 503])
def test_a_target_that_is_not_finite(value: float, row: int) -> None:
    target = TARGET.copy()
    target[row] = value
    with pytest.raises(ForecasterError, match=rf"not finite in sample rows \[{row}\]; drop"):
        run(target=target)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_a_learning_rate_that_is_too_high(attention: Attention) -> None:
    with pytest.raises(ForecasterError, match=r"in epoch \d+; lower learning_rate \(now 1e\+30\)"):
        run(attention=attention, learning_rate=1e30, epochs=8)


def test_a_training_loss_that_overflows() -> None:
    target = TARGET.copy()
    target[TRAINING[0].rows[0]] = 1e30
    with pytest.raises(ForecasterError, match="training loss became inf in epoch 0"):
        run(target=target, epochs=1)


def test_a_validation_loss_that_overflows_is_named() -> None:
    target = TARGET.copy()
    target[VALIDATION[0].rows[0]] = 1e30
    with pytest.raises(ForecasterError, match="validation loss became inf in epoch 0"):
        run(target=target)


@pytest.mark.parametrize(("before", "warn_only"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("fails", [False, True])
def test_the_callers_settings_are_put_back(before: bool, warn_only: bool, fails: bool) -> None:
    torch.use_deterministic_algorithms(before, warn_only=warn_only)
    try:
        torch.manual_seed(5)
        state = torch.get_rng_state()
        target = np.where(np.arange(ROWS) == 0, 1e30, TARGET) if fails else TARGET
        try:
            run(target=target, epochs=2)
            assert not fails
        except ForecasterError:
            assert fails
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.are_deterministic_algorithms_enabled() == before
        assert torch.is_deterministic_algorithms_warn_only_enabled() == warn_only
    finally:
        torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms_are_demanded_inside() -> None:
    with deterministic(3):
        assert torch.are_deterministic_algorithms_enabled()
        first = torch.randn(3)
    with deterministic(3):
        assert torch.equal(first, torch.randn(3))


# --- forecasts of the batch path --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7])
def test_forecast_batch_gives_every_row_once(size: int) -> None:
    sequences = panel(4, events=25, queries=6)
    sequences.insert(2, random_tokens(9, 0, entity="blind"))
    network = random_network(small_config())
    forecasts = forecast_batch(network, sequences, size)
    assert sorted(forecasts) == sorted(used_rows(sequences).tolist())
    for tokens in sequences:
        expected = naive_forecasts(network, tokens)
        for row, value in zip(tokens.rows.tolist(), expected, strict=True):
            assert forecasts[row] == pytest.approx(value, abs=2e-5)


def test_forecast_batch_of_nothing() -> None:
    network = random_network(small_config())
    assert forecast_batch(network, [], 3) == {}
    assert forecast_batch(network, [replace(random_tokens(9, 0), entity="blind")], 3) == {}
