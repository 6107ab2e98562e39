"""The network against a loop over numpy rows, and its blindness to everything later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from quantattn.attention import Denominator, linear_attention, softmax_attention
from quantattn.errors import DenominatorError
from quantattn.forecasters import AttentionNetwork, EntityTokens, TokenBatch, merge
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import Block

from .oracle import naive_forecasts
from .sequences import (
    DAY,
    EVENT_WIDTH,
    QUERY_WIDTH,
    START,
    in_float64,
    panel,
    random_network,
    random_tokens,
    small_config,
    tokens_of,
)

BOTH: list[Attention] = ["linear", "softmax"]
LAYERS = [1, 2, 3]


def forward(network: AttentionNetwork, batch: TokenBatch) -> Tensor:
    with torch.inference_mode():
        return network(batch)


def exact_decays(
    batch: TokenBatch, sequences: list[EntityTokens], lives: tuple[float | None, ...]
) -> TokenBatch:
    """The batch in float64, its decays not rounded to float32."""
    decays = batch.log_decay.double()
    for b, tokens in enumerate(sequences):
        for i, position in enumerate(batch.query_positions[b, : len(tokens.rows)].tolist()):
            assert position == 1 + tokens.counts[i] + i
        walk = [(int(at), 1) for at in tokens.event_times] + [(int(at), 0) for at in tokens.query_times]
        last_event: int | None = None
        gone = [0.0] * len(lives)
        for place, (at, is_event) in enumerate(sorted(walk), start=1):
            for head, life in enumerate(lives):
                known = last_event is not None and life is not None
                passed = min((at - last_event) / DAY / life, 32.0) if known else 0.0
                decays[b, head, place] = -np.log(2) * (passed - gone[head])
                gone[head] = 0.0 if is_event else passed
            last_event = at if is_event else last_event
    return replace(batch.to(torch.float64), log_decay=decays)


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("attention", BOTH)
def test_float64_agrees_with_the_naive_oracle(attention: Attention, layers: int) -> None:
    config = small_config(attention, layers=layers)
    network = random_network(config, seed=layers)
    sequences = panel(3, events=35, queries=8)
    batch = exact_decays(merge(sequences, config.half_lives), sequences, config.half_lives)
    forecasts = forward(in_float64(network), batch)
    for b, tokens in enumerate(sequences):
        expected = naive_forecasts(network, tokens)
        assert np.abs(expected).max() > 0.3
        assert forecasts[b, : len(expected)].numpy() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("attention", BOTH)
def test_heads_of_width_one_and_no_decay(attention: Attention) -> None:
    config = small_config(attention, width=4, heads=4, half_lives=(None,) * 4)
    network, tokens = random_network(config), random_tokens(20, 6)
    forecasts = forward(in_float64(network), merge([tokens], config.half_lives).to(torch.float64))
    assert forecasts[0].numpy() == pytest.approx(naive_forecasts(network, tokens), abs=1e-11)


def test_without_half_lives_time_between_tokens_does_not_matter() -> None:
    config = small_config(half_lives=(None, None))
    network, tokens = random_network(config), random_tokens(20, 6)
    batch = merge([tokens], config.half_lives)
    other = replace(batch, log_decay=torch.full_like(batch.log_decay, -3.0))
    assert torch.equal(forward(network, batch), forward(network, other))


@pytest.mark.parametrize("attention", BOTH)
def test_half_lives_matter(attention: Attention) -> None:
    config = small_config(attention)
    network, tokens = random_network(config), random_tokens(20, 6)
    batch = merge([tokens], config.half_lives)
    other = replace(batch, log_decay=torch.zeros_like(batch.log_decay))
    assert (forward(network, batch) - forward(network, other)).abs().max() > 1e-3


# --- nothing later touches a forecast ---------------------------------------------------------------------


def later_change(batch: TokenBatch, sequence: int, position: int, value: float | None = None) -> TokenBatch:
    """Overwrite every event and query token behind a position of one sequence."""
    events, queries = batch.events.clone(), batch.queries.clone()
    behind = (torch.arange(events.shape[1]) > position) & batch.writes[sequence]
    generator = torch.Generator().manual_seed(position)
    noise = torch.randn(events[sequence].shape, generator=generator) * 1e3
    events[sequence, behind] = noise[behind] if value is None else value
    asks = (batch.query_positions[sequence] > position) & batch.query_mask[sequence]
    queries[sequence, asks] *= -50.0
    return replace(batch, events=events, queries=queries)


def later_gaps(batch: TokenBatch, sequence: int, position: int, nats: float) -> TokenBatch:
    """Let more time pass before every token behind a position of one sequence."""
    decay = batch.log_decay.clone()
    decay[sequence, 0, position + 1 :] -= nats
    return replace(batch, log_decay=decay)


# Longer than any chunk or block of the attention.
LONG = {"events": 170, "queries": 30}
POSITIONS = (0, 1, 30, 31, 32, 33, 63, 64, 65, 100, 127, 128, 150, 199, 200)


def split(batch: TokenBatch, sequence: int, position: int) -> tuple[Tensor, Tensor]:
    """The queries up to a position, and those behind it."""
    before = batch.query_positions[sequence] <= position
    return batch.query_mask[sequence] & before, batch.query_mask[sequence] & ~before


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("attention", BOTH)
def test_what_comes_later_changes_no_bit(attention: Attention, layers: int) -> None:
    config = small_config(attention, layers=layers)
    network = random_network(config)
    batch = merge(panel(2, **LONG), config.half_lives)
    before = forward(network, batch)
    for position in POSITIONS:
        after = forward(network, later_change(batch, 0, position))
        kept, moved = split(batch, 0, position)
        assert torch.equal(before[0, kept], after[0, kept]), position
        assert torch.equal(before[1], after[1]), position
        assert (before[0, moved] != after[0, moved]).all(), position


@pytest.mark.parametrize("attention", BOTH)
def test_time_that_passes_later_changes_nothing(attention: Attention) -> None:
    config = small_config(attention)
    network = random_network(config)
    batch = merge(panel(2, **LONG), config.half_lives)
    before = forward(network, batch)
    for position in POSITIONS:
        for nats in (0.1, 2.5, 22.18):
            after = forward(network, later_gaps(batch, 0, position, nats))
            kept, moved = split(batch, 0, position)
            if attention == "linear":
                assert torch.equal(before[0, kept], after[0, kept]), (position, nats)
                assert torch.equal(before[1], after[1]), (position, nats)
            else:
                # The twin cuts the batch into blocks by the time that passes in them: rounding may differ.
                difference = torch.cat([before[0, kept] - after[0, kept], before[1] - after[1]])
                assert difference.abs().max() < 4e-6, (position, nats)
            assert not moved.any() or (before[0, moved] != after[0, moved]).any(), (position, nats)


@pytest.mark.parametrize("attention", BOTH)
def test_a_forecast_does_not_touch_another(attention: Attention) -> None:
    config = small_config(attention)
    network = random_network(config)
    batch = merge(panel(2, events=60, queries=20), config.half_lives)
    before = forward(network, batch)
    for query in (0, 7, 19):
        queries = batch.queries.clone()
        queries[0, query] = 1e4
        after = forward(network, replace(batch, queries=queries))
        others = torch.arange(batch.queries.shape[1]) != query
        assert torch.equal(before[0, others], after[0, others])
        assert torch.equal(before[1], after[1])
        assert before[0, query] != after[0, query]


def permissive(
    block: Block,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    counts: Tensor | None,
    writes: Tensor,
    log_decay: Tensor | None,
) -> Tensor:
    """The reads of a block under policies that let NaN pass to the reads that met it."""
    if block.config.attention == "softmax":
        return softmax_attention(
            query,
            key,
            value,
            visible_counts=counts,
            key_mask=writes,
            log_decay=log_decay,
            nonfinite="propagate",
        )
    return linear_attention(
        query,
        key,
        value,
        visible_counts=counts,
        key_mask=writes,
        log_decay=log_decay,
        denominator=Denominator.floor(1e-30),
    ).output


@pytest.mark.parametrize("attention", BOTH)
def test_poison_reaches_what_comes_later_and_nothing_else(
    attention: Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Block, "attend", permissive)
    config = small_config(attention)
    network = random_network(config)
    batch = merge(panel(2, **LONG), config.half_lives)
    before = forward(network, batch)
    assert before[batch.query_mask].isfinite().all()
    first_events = batch.writes[0].nonzero()[:, 0].tolist()
    for position in (1, 40, 41, 90, 160):
        after = forward(network, later_change(batch, 0, position, float("nan")))
        poisoned = next(place for place in first_events if place > position)
        kept, _ = split(batch, 0, position)
        _, lost = split(batch, 0, poisoned)
        assert torch.equal(before[0, kept], after[0, kept])
        assert torch.equal(before[1, batch.query_mask[1]], after[1, batch.query_mask[1]])
        assert after[0, lost].isnan().all()
        assert lost.any()


@pytest.mark.parametrize("attention", BOTH)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_token_that_is_not_finite_is_refused(attention: Attention, value: float) -> None:
    config = small_config(attention)
    batch = merge(panel(1, events=30, queries=5), config.half_lives)
    with pytest.raises(DenominatorError):
        forward(random_network(config), later_change(batch, 0, 10, value))


@pytest.mark.parametrize("attention", BOTH)
def test_gradient_to_later_tokens_is_exactly_zero(attention: Attention) -> None:
    config = small_config(attention)
    network = in_float64(random_network(config))
    batch = merge([random_tokens(90, 12)], config.half_lives).to(torch.float64)
    for query in (0, 5, 10):
        events, queries, decay = (
            x.clone().requires_grad_() for x in (batch.events, batch.queries, batch.log_decay)
        )
        output = network(replace(batch, events=events, queries=queries, log_decay=decay))
        to_events, to_queries, to_decay = torch.autograd.grad(output[0, query], (events, queries, decay))
        at = int(batch.query_positions[0, query])
        assert not to_events[0, at + 1 :].any()
        assert not to_decay[0, :, at + 1 :].any()
        assert not to_queries[0, torch.arange(12) != query].any()
        assert to_queries[0, query].all()
        assert to_events[0, :at][batch.writes[0, :at]][1:].any(-1).all()


# --- padding, company, weights ----------------------------------------------------------------------------


@pytest.mark.parametrize("attention", BOTH)
def test_padding_and_company_change_nothing_beyond_rounding(attention: Attention) -> None:
    config = small_config(attention)
    network = random_network(config)
    sequences = [random_tokens(150, 31, seed=1), random_tokens(3, 2, seed=2), random_tokens(40, 9, seed=3)]
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        model = network if dtype == torch.float32 else in_float64(network)
        together = forward(model, merge(sequences, config.half_lives).to(dtype))
        for b, tokens in enumerate(sequences):
            alone = forward(model, merge([tokens], config.half_lives).to(dtype))[0]
            assert (together[b, : len(alone)] - alone).abs().max() < tolerance


@pytest.mark.parametrize("attention", BOTH)
def test_what_lies_in_the_padding_changes_no_bit(attention: Attention) -> None:
    config = small_config(attention)
    network = random_network(config)
    batch = merge([random_tokens(80, 12, seed=1), random_tokens(20, 3, seed=2)], config.half_lives)
    before = forward(network, batch)
    events, queries, decay = batch.events.clone(), batch.queries.clone(), batch.log_decay.clone()
    events[1, 24:] = 1e5
    queries[1, 3:] = -1e5
    decay[1, :, 24:] = -40.0
    events[:, 0] = 77.0  # the start token has no features
    events[~batch.writes] = 55.0  # and neither has a query
    after = forward(network, replace(batch, events=events, queries=queries, log_decay=decay))
    assert torch.equal(before[batch.query_mask], after[batch.query_mask])


@pytest.mark.parametrize("attention", BOTH)
def test_a_forecast_without_events_reads_the_start_token(attention: Attention) -> None:
    config = small_config(attention)
    network = random_network(config)
    tokens = tokens_of([START + DAY], [START - DAY, START, START + DAY], seed=3)
    tokens = replace(tokens, queries=np.repeat(tokens.queries[:1], 3, axis=0))
    blind = replace(tokens, events=tokens.events[:0], event_times=tokens.event_times[:0])
    seen = forward(network, merge([tokens], config.half_lives))[0]
    unseen = forward(network, merge([blind], config.half_lives))[0]
    assert seen.tolist() == pytest.approx(unseen.tolist(), abs=1e-6)
    assert seen.tolist() == pytest.approx(naive_forecasts(network, blind).tolist(), abs=1e-5)


def fresh(attention: Attention, seed: int) -> AttentionNetwork:
    torch.manual_seed(seed)
    return AttentionNetwork(small_config(attention), EVENT_WIDTH, QUERY_WIDTH)


def test_twins_of_equal_seed_begin_with_equal_weights() -> None:
    with torch.random.fork_rng(devices=[]):
        linear, softmax, other = fresh("linear", 3), fresh("softmax", 3), fresh("linear", 4)
    assert list(linear.state_dict()) == list(softmax.state_dict())
    for name, weight in linear.state_dict().items():
        assert torch.equal(weight, softmax.state_dict()[name])
    assert not torch.equal(linear.event_embedding.weight, other.event_embedding.weight)


def test_a_fresh_network_forecasts_the_mean() -> None:
    network = fresh("linear", 0)
    batch = merge(panel(2), network.config.half_lives)
    assert not forward(network, batch).any()


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("attention", BOTH)
def test_gradients_reach_every_weight(attention: Attention, layers: int) -> None:
    config = small_config(attention, layers=layers)
    network = random_network(config)
    batch = merge(panel(2), config.half_lives)
    network(batch)[batch.query_mask].square().sum().backward()
    width = config.width
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        if name.endswith("projection.weight"):
            parts = weight.grad.split(width)
            assert all(part.any() for part in parts), name
        elif name.endswith("projection.bias") and attention == "softmax":
            query, _, value = weight.grad.split(width)  # one shift of all keys cancels in a softmax
            assert query.any(), name
            assert value.any(), name
        else:
            assert weight.grad.any(), name
