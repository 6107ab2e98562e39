"""Replays: in pieces, in company, timed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantattn.errors import ClockError
from quantattn.forecasters import EntityTokens, NetworkStream, catch_up, replay
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming import replay_panel
from tests.forecasters.sequences import (
    DAY,
    START,
    panel,
    random_network,
    random_tokens,
    small_config,
    tokens_of,
)
from tests.forecasters.streaming.network.test_stream import live

BOTH: list[Attention] = ["linear", "softmax"]


def stream_of(attention: Attention) -> NetworkStream:
    return NetworkStream(random_network(small_config(attention)))


def queries(tokens: EntityTokens, start: int, stop: int) -> EntityTokens:
    return tokens.select(tokens.rows[start:stop])


@pytest.mark.parametrize("attention", BOTH)
def test_a_replay_is_what_a_live_caller_sees(attention: Attention) -> None:
    for tokens in panel(3, events=40, queries=10):
        result = replay(stream_of(attention), tokens)
        assert result.forecasts.tolist() == live(stream_of(attention), tokens)
        assert result.rows.tolist() == tokens.rows.tolist()


@pytest.mark.parametrize("attention", BOTH)
def test_pieces_are_one_replay(attention: Attention) -> None:
    tokens = random_tokens(60, 20, seed=3)
    whole = replay(stream_of(attention), tokens)
    for cut in (1, 7, 19):
        stream = stream_of(attention)
        first = replay(stream, queries(tokens, 0, cut))
        second = replay(stream, queries(tokens, cut, 20), written=int(tokens.counts[cut - 1]))
        assert [*first.forecasts, *second.forecasts] == whole.forecasts.tolist()
        assert [*first.rows, *second.rows] == whole.rows.tolist()


@pytest.mark.parametrize("attention", BOTH)
def test_catching_up_first_changes_no_bit(attention: Attention) -> None:
    tokens = random_tokens(60, 20, seed=3)
    whole = replay(stream_of(attention), tokens).forecasts.tolist()
    for start in (0, 5, 19):
        later = queries(tokens, start, 20)
        stream = stream_of(attention)
        written = catch_up(stream, later)
        assert written == max(0, int(tokens.counts[start]) - 1)
        assert replay(stream, later, written).forecasts.tolist() == whole[start:]


@pytest.mark.parametrize("attention", BOTH)
def test_a_panel_in_any_order_is_each_entity_alone(attention: Attention) -> None:
    sequences = panel(4, events=30, queries=9)
    alone = {
        row: forecast
        for tokens in sequences
        for row, forecast in zip(
            tokens.rows.tolist(), replay(stream_of(attention), tokens).forecasts.tolist(), strict=True
        )
    }
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        chosen = [sequences[place] for place in order]
        stream = stream_of(attention)
        written = [catch_up(stream, tokens) for tokens in chosen]
        result = replay_panel(stream, chosen, written)
        assert dict(zip(result.rows.tolist(), result.forecasts.tolist(), strict=True)) == alone
        # In the order of the clock; at one instant in the order of the entities given.
        due = [
            (int(at), place, number)
            for place, tokens in enumerate(chosen)
            for number, at in enumerate(tokens.query_times)
        ]
        assert result.rows.tolist() == [int(chosen[place].rows[number]) for _, place, number in sorted(due)]


def test_latencies() -> None:
    tokens = tokens_of(
        [START + day * DAY for day in (1, 2, 3, 6)],
        [START, START + DAY + 1, START + DAY + 2, START + 5 * DAY, START + 9 * DAY],
    )
    result = replay(stream_of("linear"), tokens)
    # No event became visible before the first and between the second and the third forecast.
    assert np.isnan(result.update_us).tolist() == [True, False, True, False, False]
    assert (result.update_us[[1, 3, 4]] > 0).all()
    assert (result.read_us > 0).all()


def test_catching_up_leaves_one_event_to_time() -> None:
    tokens = tokens_of([START + day * DAY for day in (1, 2, 3)], [START + 9 * DAY])
    stream = stream_of("linear")
    written = catch_up(stream, tokens)
    assert written == 2
    assert replay(stream, tokens, written).update_us[0] > 0


def test_nothing_to_replay() -> None:
    blind = random_tokens(5, 0)
    stream = stream_of("linear")
    assert catch_up(stream, blind) == 0
    assert replay(stream, blind).rows.size == 0
    assert replay_panel(stream, [], []).rows.size == 0
    unseen = random_tokens(0, 2)
    assert catch_up(stream, unseen) == 0
    assert np.isfinite(replay(stream, unseen).forecasts).all()


def test_counts_that_run_ahead_of_the_clock_are_refused() -> None:
    """A sequence that claims to see an event at the forecast's own instant does not get it."""
    tokens = tokens_of([START, START + DAY], [START + DAY])
    assert tokens.counts.tolist() == [1]
    with pytest.raises(ClockError, match="only strictly after"):
        replay(stream_of("linear"), replace(tokens, counts=tokens.counts + 1))
