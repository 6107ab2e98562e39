"""Merged sequences against a naive oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.forecasters import EntityTokens, TokenBatch, merge

from .sequences import DAY, EVENT_WIDTH, QUERY_WIDTH, START, panel, tokens_of

HALF_LIVES = (7.0, None, 0.25)
LN2 = math.log(2.0)


def check(batch: TokenBatch, sequences: list[EntityTokens], half_lives: tuple[float | None, ...]) -> None:
    """Compare a batch with one built by walking the clock, one token at a time.

    At equal times a forecast comes before an event, for it must not see it.
    """
    length = 1 + max(len(s.events) + len(s.queries) for s in sequences)
    width = max(1, max(len(s.queries) for s in sequences))
    assert batch.events.shape == (len(sequences), length, EVENT_WIDTH)
    assert batch.queries.shape == (len(sequences), width, QUERY_WIDTH)
    assert batch.log_decay.shape == (len(sequences), len(half_lives), length)
    assert batch.n_tokens == sum(len(s.events) + len(s.queries) for s in sequences)
    assert batch.events.dtype == batch.queries.dtype == batch.log_decay.dtype == torch.float32
    for b, tokens in enumerate(sequences):
        walk = [(int(at), 1, k) for k, at in enumerate(tokens.event_times)]
        walk += [(int(at), 0, i) for i, at in enumerate(tokens.query_times)]
        walk.sort()
        events = [np.zeros(EVENT_WIDTH, np.float32)]
        writes, decays, last_event = [True], [[0.0] * len(half_lives)], None
        gone_by = [0.0] * len(half_lives)  # since the last event, as far as tokens so far have counted it
        positions: dict[int, int] = {}
        for place, (at, is_event, number) in enumerate(walk, start=1):
            steps = []
            for head, life in enumerate(half_lives):
                passed = 0.0
                if last_event is not None and life is not None:
                    passed = min((at - last_event) / DAY / life, 32.0)
                steps.append(-LN2 * (passed - gone_by[head]))
                gone_by[head] = passed
            decays.append(steps)
            if is_event:
                events.append(tokens.events[number])
                writes.append(True)
                last_event, gone_by = at, [0.0] * len(half_lives)
            else:
                events.append(np.zeros(EVENT_WIDTH, np.float32))
                writes.append(False)
                positions[number] = place
                # It reads exactly what is visible to it.
                assert sum(writes) - 1 == sum(1 for event in tokens.event_times if event < at)
                assert sum(writes) - 1 == tokens.counts[number]
        padding = length - len(events)
        events += [np.zeros(EVENT_WIDTH, np.float32)] * padding
        writes += [False] * padding
        decays += [[0.0] * len(half_lives)] * padding
        m = len(tokens.queries)
        assert batch.events[b].numpy().tolist() == np.array(events).tolist()
        assert batch.writes[b].tolist() == writes
        assert batch.query_positions[b, :m].tolist() == [positions[i] for i in range(m)]
        assert batch.queries[b, :m].numpy().tolist() == tokens.queries.tolist()
        assert batch.query_rows[b].tolist() == [*tokens.rows.tolist(), *[-1] * (width - m)]
        assert batch.query_mask[b].tolist() == [True] * m + [False] * (width - m)
        assert not batch.queries[b, m:].any()
        assert batch.query_positions.min() >= 0
        assert batch.query_positions.max() < length
        # The clock is a float64 sum of up to 32 half-lives an event, whose rounding shows in a difference.
        scale = 32.0 * (1 + len(tokens.events))
        assert batch.log_decay[b].T.numpy() == pytest.approx(
            np.array(decays), rel=2e-7, abs=4 * scale * 2.0**-53
        )
        assert not batch.log_decay[b].gt(0).any()
        assert not batch.log_decay[b, :, 1 + len(walk) :].any()


def test_by_hand() -> None:
    days = [0, 7, 7, 21]
    tokens = tokens_of(
        [START + day * DAY for day in days],
        [START, START + 7 * DAY, START + 14 * DAY, START + 17 * DAY + DAY // 2, START + 30 * DAY],
    )
    batch = merge([tokens], (7.0, None))
    # start, q0 (sees nothing), e0, q1 (not the two at its own instant), e1, e2, q2, q3, e3, q4
    assert batch.query_positions.tolist() == [[1, 3, 6, 7, 9]]
    assert batch.writes.tolist() == [[True, False, True, False, True, True, False, False, True, False]]
    half_lives = np.array([0, 0, 0, 1, 0, 0, 1, 0.5, 0.5, 9 / 7])
    assert batch.log_decay[0, 0].numpy() == pytest.approx(-LN2 * half_lives, rel=1e-6)
    assert not batch.log_decay[0, 1].any()
    check(batch, [tokens], (7.0, None))


def test_the_cap_holds_for_every_gap_and_not_for_their_sum() -> None:
    year = 365 * DAY
    tokens = tokens_of(
        [START, START + year, START + 2 * year],
        [START + 300 * DAY, START + 310 * DAY, START + year, START + 9 * year, START + 10 * year],
    )
    batch = merge([tokens], (7.0,))
    # Two forecasts inside a gap share its cap: 32 half-lives are gone at the first, nothing more after it.
    #              start e0 q0  q1 q2 e1 e2  q3 q4
    half_lives = [0, 0, 32, 0, 0, 0, 32, 32, 0]
    assert batch.log_decay[0, 0].numpy() == pytest.approx(-LN2 * np.array(half_lives), rel=1e-6)
    check(batch, [tokens], (7.0,))


@pytest.mark.parametrize("nothing", ["events", "queries", "both"])
def test_an_entity_without_tokens_of_a_kind(nothing: str) -> None:
    full = tokens_of([START, START + DAY], [START + 1, START + 2 * DAY], rows=[3, 8])
    bare = tokens_of(
        [] if nothing != "queries" else [START], [] if nothing != "events" else [START + 5], rows=None
    )
    check(merge([full, bare], HALF_LIVES), [full, bare], HALF_LIVES)
    check(merge([bare], HALF_LIVES), [bare], HALF_LIVES)


def test_random_panel() -> None:
    sequences = panel(4, events=60, queries=25)
    check(merge(sequences, HALF_LIVES), sequences, HALF_LIVES)


def test_long_silence_then_a_nanosecond() -> None:
    tokens = tokens_of([START, START + 80_000 * DAY, START + 80_000 * DAY + 1], [START + 80_000 * DAY + 2])
    batch = merge([tokens], (1e-9,))
    # A nanosecond is 1.16e-5 half-lives here, and must not vanish beside the 32 before it.
    expected = -LN2 / 86_400_000_000_000 / 1e-9
    assert batch.log_decay[0, 0, 3:].tolist() == pytest.approx([expected, expected], rel=1e-6)


def test_other_dtype() -> None:
    batch = merge(panel(2), HALF_LIVES)
    wide = batch.to(torch.float64)
    assert wide.events.dtype == wide.queries.dtype == wide.log_decay.dtype == torch.float64
    for name in ("events", "queries", "log_decay"):
        assert torch.equal(getattr(wide, name).float(), getattr(batch, name))
    for name in ("query_positions", "query_mask", "query_rows", "writes", "n_tokens"):
        assert getattr(wide, name) is getattr(batch, name)


@st.composite
def ragged(draw: st.DrawFn) -> list[EntityTokens]:
    """A few entities whose events and forecasts tie often, on clocks from nanoseconds to centuries."""
    tick = draw(st.sampled_from([1, DAY, 400 * DAY]))
    sequences = []
    for number in range(draw(st.integers(1, 4))):
        moments = st.lists(st.integers(0, 9), max_size=12).map(sorted)
        events, queries = draw(moments), draw(moments)
        sequences.append(
            tokens_of(
                [START + tick * moment for moment in events],
                [START + tick * moment for moment in queries],
                entity=f"E{number}",
                rows=[100 * number + row for row in range(len(queries))],
                seed=number,
            )
        )
    return sequences


@settings(max_examples=150, deadline=None)
@given(ragged())
def test_ragged_logs(sequences: list[EntityTokens]) -> None:
    check(merge(sequences, HALF_LIVES), sequences, HALF_LIVES)
