"""Tokens by hand: elapsed time, season, what each forecast sees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quantattn.errors import ForecasterError, TimestampError
from quantattn.forecasters import EntityTokens, entity_tokens
from quantattn.forecasters.config import DECAY_CAP
from quantattn.forecasters.tokens import (
    decay_steps,
    elapsed_days,
    elapsed_feature,
    event_tokens,
    query_tokens,
    season_feature,
    total_queries,
)

from .sequences import DAY, START, random_tokens, tokens_of

HOUR = DAY // 24


def times(*hours: float) -> np.ndarray:
    return np.array([START + round(hour * HOUR) for hour in hours], np.int64)


def build(events: np.ndarray, queries: np.ndarray, *, seed: int = 0) -> EntityTokens:
    generator = np.random.default_rng(seed)
    return entity_tokens(
        "A",
        encoded=generator.standard_normal((len(events), 2)).astype(np.float32),
        event_times=events,
        features=generator.standard_normal((len(queries), 3)).astype(np.float32),
        query_times=queries,
        rows=np.arange(len(queries)) + 5,
    )


def test_elapsed_days_keep_a_nanosecond() -> None:
    later, earlier = np.array([START + DAY + 1]), np.array([START])
    assert elapsed_days(later, earlier)[0] == (DAY + 1) / DAY > 1.0


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0.0, 0.0), (1 / 24, math.log(2) / 5), (1.0, math.log(25) / 5), (7.0, math.log(169) / 5), (-3.0, 0.0)],
)
def test_elapsed_feature(days: float, expected: float) -> None:
    feature = elapsed_feature(np.array([days]))
    assert feature.shape == (1, 1)
    assert feature.dtype == np.float32
    assert feature[0, 0] == pytest.approx(expected, rel=1e-6)


def test_season_goes_round_once_a_year() -> None:
    year = 365.2425 * DAY
    moments = np.array([0, year / 4, year / 2, 3 * year / 4, year, -year / 4, 50 * year], np.int64)
    expected = [(0, 1), (1, 0), (0, -1), (-1, 0), (0, 1), (-1, 0), (0, 1)]
    assert season_feature(moments) == pytest.approx(np.array(expected), abs=1e-6)


def test_event_tokens_measure_the_time_since_the_event_before() -> None:
    encoded = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    tokens = event_tokens(encoded, times(0, 24, 24, 24 + 168))
    assert tokens[:, :2].tolist() == encoded.tolist()
    assert tokens[:, 2] == pytest.approx([0, math.log(25) / 5, 0, math.log(169) / 5], rel=1e-6)


def test_query_tokens_measure_the_time_since_the_last_event() -> None:
    tokens = query_tokens(np.ones((2, 1), np.float32), times(24, 30), times(0, 30))
    assert tokens.shape == (2, 4)
    assert tokens[:, 0].tolist() == [1, 1]
    assert tokens[:, 1] == pytest.approx([math.log(25) / 5, 0], rel=1e-6)
    assert tokens[:, 2:] == pytest.approx(season_feature(times(24, 30)))


def test_equality_is_not_visible() -> None:
    events = times(1, 2, 2, 3)
    queries = np.array([events[0], events[0] + 1, events[1], events[1] + 1, events[3], events[3] + 1])
    tokens = build(events, queries)
    assert tokens.counts.tolist() == [0, 1, 1, 3, 3, 4]
    # Elapsed since the last visible event; nothing visible counts as no time.
    hours = [0, 0, 1, 0, 1, 0]
    assert tokens.queries[:, 3] == pytest.approx([math.log1p(hour) / 5 for hour in hours], rel=1e-6, abs=1e-6)
    assert tokens.rows.tolist() == [5, 6, 7, 8, 9, 10]


def test_no_event_at_all() -> None:
    tokens = build(times(), times(1, 2))
    assert tokens.events.shape == (0, 3)
    assert tokens.counts.tolist() == [0, 0]
    assert tokens.queries[:, 3].tolist() == [0.0, 0.0]


def test_no_forecast_at_all() -> None:
    tokens = build(times(1, 2), times())
    assert tokens.queries.shape == (0, 6)
    assert tokens.counts.size == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["event", "query"])
def test_tokens_that_are_not_finite_are_refused(value: float, side: str) -> None:
    encoded, features = np.zeros((3, 2), np.float32), np.zeros((3, 1), np.float32)
    (encoded if side == "event" else features)[2, 0] = value
    with pytest.raises(ForecasterError, match=rf"{side} tokens of 'A' .*\[2\].*check the features"):
        entity_tokens(
            "A",
            encoded=encoded,
            event_times=times(1, 2, 3),
            features=features,
            query_times=times(1, 2, 3),
            rows=np.arange(3),
        )


def test_forecasts_out_of_order_are_refused() -> None:
    with pytest.raises(ForecasterError, match=r"'A' go back in time in row 2 \(2020-01-02T01:00:00Z\)"):
        build(times(0), times(1, 2, 1))


def test_events_out_of_order_are_refused() -> None:
    with pytest.raises(TimestampError, match="position 1"):
        build(times(2, 1), times(3))


def test_decay_steps() -> None:
    steps = decay_steps(np.array([0.0, 7.0, 3.5, 224.0, 225.0, 1e9]), (7.0, None, 14.0))
    expected = [[0, 0, 0], [1, 0, 0.5], [0.5, 0, 0.25], [32, 0, 16], [32, 0, 225 / 14], [32, 0, 32]]
    assert steps == pytest.approx(np.array(expected), rel=1e-15)
    assert DECAY_CAP == 32


def test_select_keeps_only_what_the_chosen_forecasts_read() -> None:
    tokens = tokens_of(
        [START + h * HOUR for h in (1, 2, 3, 4)], times(0, 2.5, 3, 9).tolist(), rows=[4, 7, 9, 2]
    )
    assert tokens.counts.tolist() == [0, 2, 2, 4]
    part = tokens.select(np.array([7, 4, 1000]))
    assert part.rows.tolist() == [4, 7]
    assert part.counts.tolist() == [0, 2]
    assert part.events.tolist() == tokens.events[:2].tolist()
    assert part.event_times.tolist() == tokens.event_times[:2].tolist()
    assert part.queries.tolist() == tokens.queries[:2].tolist()
    assert part.query_times.tolist() == tokens.query_times[:2].tolist()
    blind = tokens.select(np.array([4]))
    assert blind.events.shape == (0, 3)
    assert blind.rows.tolist() == [4]


def test_select_of_nothing() -> None:
    part = random_tokens(10, 4).select(np.array([99]))
    assert len(part.rows) == len(part.events) == len(part.queries) == 0


def test_total_queries() -> None:
    assert total_queries({"A": random_tokens(5, 3), "B": random_tokens(5, 4)}) == 7
    assert total_queries({}) == 0


# --- one row and many -------------------------------------------------------------------------------------


def test_the_logarithm_is_numpys_to_a_float() -> None:
    days = np.concatenate(
        [10 ** np.random.default_rng(0).uniform(-14, 6, 50_000), [0.0, 1.0, 2.0, -1.0, 1e-300]]
    )
    wanted = np.log1p(np.maximum(days, 0.0) * 24.0) / 5.0
    found = elapsed_feature(days)[:, 0]
    assert np.abs(found - wanted).max() <= np.spacing(np.float32(3.0))
    assert (np.abs(found / np.maximum(wanted, 1e-300) - 1)[wanted > 1e-30] < 1.2e-7).all()


def test_sine_and_cosine_are_numpys_to_a_float() -> None:
    moments = np.random.default_rng(1).integers(-(2**63) + 1, 2**63 - 1, 50_000)
    phase = 2 * np.pi * ((moments / DAY) % 365.2425) / 365.2425
    wanted = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
    assert np.abs(season_feature(moments) - wanted).max() < 1e-7


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 16, 33])
def test_a_row_has_the_same_bits_in_any_company(count: int) -> None:
    draw = np.random.default_rng(count)
    days = 10 ** draw.uniform(-9, 4, count)
    moments = draw.integers(-(2**62), 2**62, count)
    elapsed, season = elapsed_feature(days), season_feature(moments)
    for row in range(count):
        assert elapsed_feature(days[row : row + 1])[0].tobytes() == elapsed[row].tobytes()
        assert season_feature(moments[row : row + 1])[0].tobytes() == season[row].tobytes()


def test_strided_times() -> None:
    moments = np.arange(START, START + 8 * DAY, DAY)
    assert season_feature(moments[::2]).tobytes() == season_feature(moments[::2].copy()).tobytes()
    days = np.arange(8.0)
    assert elapsed_feature(days[::-2]).tobytes() == elapsed_feature(days[::-2].copy()).tobytes()
