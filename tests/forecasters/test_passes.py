"""Passes: segments give what a whole pass gives, batches what their sequences give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import ForecasterError
from quantattn.forecasters import (
    AttentionNetwork,
    EntityTokens,
    TrainingConfig,
    forecast_batch,
    merge,
    train,
)
from quantattn.forecasters.config import Attention
from quantattn.forecasters.heads import HeadConfig
from quantattn.forecasters.objectives import SQUARED
from quantattn.forecasters.passes import answers, epoch_order, forecast_outputs
from quantattn.forecasters.supervision import Supervision

from .sequences import in_float64, panel, random_network, random_tokens, small_config

BOTH: list[Attention] = ["linear", "softmax"]
LENGTHS = [1, 2, 3, 7, 16, 31, 32, 33, 64, 100, 1000]


def by_row(network: AttentionNetwork, batch: Any, tokens: int | None) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    with torch.inference_mode():
        for part, raw in answers(network, batch, TrainingConfig(segment_tokens=tokens)):
            rows = part.query_rows[part.query_mask].tolist()
            assert not set(rows) & set(found)
            found.update(zip(rows, raw[part.query_mask].tolist(), strict=True))
    return found


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize("lives", [(5.0, None), (None, None)])
def test_segments_give_the_forecasts_of_a_whole_pass(
    attention: Attention, tokens: int, lives: tuple[float | None, ...]
) -> None:
    config = small_config(attention, layers=3, half_lives=lives, head=HeadConfig("gaussian", ("a", "b")))
    network = in_float64(random_network(config))
    batch = merge(panel(3, events=60, queries=14), config.half_lives).to(torch.float64)
    whole, cut = by_row(network, batch, None), by_row(network, batch, tokens)
    assert whole.keys() == cut.keys()
    assert len(whole) == 14 + 15 + 16
    for row, numbers in whole.items():
        assert cut[row] == pytest.approx(numbers, abs=1e-11)
    assert np.abs(list(whole.values())).max() > 0.3


@pytest.mark.parametrize("attention", BOTH)
def test_segments_in_float32_and_through_the_public_function(attention: Attention) -> None:
    network = random_network(small_config(attention))
    sequences = panel(3, events=300, queries=40)
    rows, whole = forecast_outputs(network, sequences, 2)
    for tokens in (1, 17, 64):
        other, cut = forecast_outputs(network, sequences, 2, tokens)
        assert np.array_equal(rows, other)
        assert cut == pytest.approx(whole, abs=2e-5)
    assert forecast_batch(network, sequences, 2) == dict(
        zip(rows.tolist(), whole[:, 0].tolist(), strict=True)
    )


def test_a_segment_holds_its_own_queries_alone() -> None:
    batch = merge(panel(2, events=20, queries=6), (5.0, None))
    parts = list(batch.segments(7))
    assert torch.equal(torch.cat([part.events for part in parts], 1), batch.events)
    assert torch.equal(torch.cat([part.log_decay for part in parts], 2), batch.log_decay)
    for number, part in enumerate(parts):
        assert part.queries.shape[1] == part.query_positions.shape[1] >= 1
        for b in range(2):
            wanted = [
                (int(position) - 7 * number, int(row))
                for position, row, real in zip(
                    batch.query_positions[b], batch.query_rows[b], batch.query_mask[b], strict=True
                )
                if real and 7 * number <= position < 7 * number + 7
            ]
            m = int(part.query_mask[b].sum())
            assert (
                list(zip(part.query_positions[b, :m].tolist(), part.query_rows[b, :m].tolist(), strict=True))
                == wanted
            )
            assert (part.query_rows[b, m:] == -1).all()


def gradients(network: AttentionNetwork, batch: Any, tokens: int | None) -> dict[str, torch.Tensor]:
    network.zero_grad()
    target = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    for part, raw in answers(network, batch, TrainingConfig(segment_tokens=tokens)):
        loss, _ = Supervision(SQUARED, target).loss(network, part, raw)
        loss.backward()
    return {
        name: weight.grad.clone() for name, weight in network.named_parameters() if weight.grad is not None
    }


@pytest.mark.parametrize("attention", BOTH)
def test_one_segment_gives_the_whole_gradient_and_several_a_truncated_one(attention: Attention) -> None:
    config = small_config(attention)
    network = in_float64(random_network(config))
    batch = merge(panel(2, events=40, queries=9), config.half_lives).to(torch.float64)
    length = batch.events.shape[1]
    whole = gradients(network, batch, None)
    parts = list(batch.segments(length))
    assert len(parts) == 1
    raw, _ = network.advance(parts[0], None)
    network.zero_grad()
    target = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    Supervision(SQUARED, target).loss(network, parts[0], raw)[0].backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None
        assert torch.allclose(weight.grad, whole[name], atol=1e-11), name
    cut = gradients(network, batch, 8)
    # What is behind the last block is not cut: the head's gradient is whole, that of the first layers is not.
    assert torch.allclose(cut["head.weight"], whole["head.weight"], atol=1e-11)
    assert not torch.allclose(cut["event_embedding.weight"], whole["event_embedding.weight"], atol=1e-6)


def run(sequences: list[EntityTokens], **options: Any) -> AttentionNetwork:
    config = TrainingConfig(**{"epochs": 2, "batch_entities": 2, "learning_rate": 0.02, **options})
    target = np.random.default_rng(1).standard_normal(1000)
    return train(sequences, [], target, network=small_config(), training=config, seed=1)[0]


def test_training_in_one_segment_is_training_on_the_whole() -> None:
    sequences = panel(3, events=40, queries=9)
    whole, one, several = (run(sequences, segment_tokens=n).state_dict() for n in (None, 10_000, 8))
    assert all(torch.equal(whole[name], one[name]) for name in whole)
    assert any(not torch.equal(whole[name], several[name]) for name in whole)


def test_random_batches_are_a_plain_permutation() -> None:
    torch.manual_seed(4)
    expected = torch.randperm(7).tolist()
    torch.manual_seed(4)
    found = epoch_order([1, 9, 2, 8, 3, 7, 4], TrainingConfig(batch_entities=3))
    assert found == [expected[:3], expected[3:6], expected[6:]]


def test_batches_by_length_hold_neighbours_and_every_sequence_once() -> None:
    lengths = [1, 90, 2, 80, 3, 70, 4, 70]
    config = TrainingConfig(batch_entities=2, batching="by_length")
    seen = Counter()
    for seed in range(20):
        torch.manual_seed(seed)
        steps = epoch_order(lengths, config)
        assert sorted(place for step in steps for place in step) == list(range(8))
        # 1 and 2, 3 and 4, the two 70s, 80 and 90.
        assert {frozenset(step) for step in steps} == {frozenset(x) for x in ((0, 2), (4, 6), (5, 7), (1, 3))}
        seen[tuple(steps[0])] += 1
        torch.manual_seed(seed)
        assert epoch_order(lengths, config) == steps
    assert len(seen) > 2


def test_batching_by_length_changes_the_order_of_steps_alone() -> None:
    """Where all sequences share one step there is nothing to group, and their order is all that differs."""
    sequences = panel(3, events=40, queries=9)
    options = {"epochs": 1, "batch_entities": 3}
    plain, grouped = run(sequences, **options), run(sequences, batching="by_length", **options)
    for name, weight in plain.state_dict().items():
        assert torch.allclose(weight, grouped.state_dict()[name], atol=1e-6)


@pytest.mark.parametrize("attention", BOTH)
def test_the_usual_training_has_the_bits_of_a_plain_loop(attention: Attention) -> None:
    """AdamW as torch has it, the squared error written out, memory filled: nothing that is faster differs."""
    sequences, target = panel(5, events=40, queries=9), np.random.default_rng(2).standard_normal(1000)
    config = TrainingConfig(epochs=3, batch_entities=2, learning_rate=0.02)
    found, log = train(sequences, [], target, network=small_config(attention), training=config, seed=5)
    scaled = torch.from_numpy(target.astype(np.float32))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        torch.use_deterministic_algorithms(True)
        try:
            network = AttentionNetwork(small_config(attention), 3, 4)
            optimizer = torch.optim.AdamW(network.parameters(), lr=0.02, weight_decay=0.01)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=9, pct_start=0.2)
            losses = []
            for _ in range(3):
                order, total, count = torch.randperm(5).tolist(), 0.0, 0
                for start in (0, 2, 4):
                    batch = merge([sequences[i] for i in order[start : start + 2]], (5.0, None))
                    error = (network(batch) - scaled[batch.query_rows.clamp(min=0)])[batch.query_mask]
                    loss = error.square().sum()
                    optimizer.zero_grad()
                    (loss / error.numel()).backward()
                    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    total, count = total + float(loss.detach()), count + error.numel()
                losses.append(total / count)
        finally:
            torch.use_deterministic_algorithms(False)
    assert [entry.training_loss for entry in log.epochs] == losses
    for name, weight in network.state_dict().items():
        assert torch.equal(weight, found.state_dict()[name]), name


def test_a_head_of_several_numbers_is_not_one_forecast() -> None:
    network = random_network(small_config(head=HeadConfig("gaussian")))
    with pytest.raises(ForecasterError, match=r"gives 2 numbers.*forecast_outputs"):
        forecast_batch(network, [random_tokens(5, 2)], 1)


def test_the_softmax_cache_and_the_state_are_cut_off_from_the_graph() -> None:
    for attention in BOTH:
        config = small_config(attention)
        network = random_network(config)
        first, second, *_ = merge([random_tokens(30, 9)], config.half_lives).segments(20)
        _, memory = network.advance(first, None)
        raw, after = network.advance(second, memory)
        raw.sum().backward()  # would fail on the freed graph of the first segment
        for block in after.blocks:
            tensors = [value for value in vars(block).values() if isinstance(value, torch.Tensor)]
            assert tensors
            assert not any(value.requires_grad for value in tensors)
