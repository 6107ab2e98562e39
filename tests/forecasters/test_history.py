"""From a dataset to tokens: what encoders are fitted on, and what each token holds."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import EncoderError
from quantattn.forecasters import FittedEncoders, History, encode, fit_encoders, read_history
from quantattn.pit import (
    ForecastClock,
    PointInTimeDataset,
    PriceHistory,
    TradingCalendar,
    market_events,
    realised_variance,
)
from quantattn.pit.timestamps import to_nanoseconds

from ..pit.build import at, clock, event_log, labels

EVENTS: list[dict[str, Any]] = [
    {"available": 10, "entity": "A", "x": 1.0, "text": "up again"},
    {"available": 20, "entity": "A", "x": 3.0, "y": 10.0},
    {"available": 20, "entity": "B", "x": 5.0, "kind": "bar"},
    {"available": 30, "entity": None, "y": 20.0, "kind": "macro"},
    {"available": 40, "entity": "A", "x": 8.0},
    {"available": 50, "entity": "B", "x": 100.0, "y": -50.0, "kind": "late"},
]
FORECASTS = [
    ("A", 15),
    ("A", 20),
    ("B", 20),
    ("A", 30),
    ("B", 31),
    ("A", 40),
    ("B", 40),
    ("A", 55),
    ("B", 55),
]


def dataset(
    events: list[dict[str, Any]] = EVENTS, forecasts: list[tuple[str, int]] = FORECASTS
) -> PointInTimeDataset:
    return PointInTimeDataset(
        event_log(events), clock(second for _, second in forecasts), labels(forecasts), check=False
    )


def history(events: list[dict[str, Any]] = EVENTS, *, text_width: int = 4) -> History:
    return read_history(dataset(events), text_width)


def prints(history: History, cutoff: int) -> tuple[str, str]:
    encoders = fit_encoders(history, cutoff, text_width=4)
    return encoders.events.fingerprint, encoders.queries.fingerprint


# --- reading ----------------------------------------------------------------------------------------------


def test_sequences() -> None:
    read = history()
    assert sorted(read.entities) == ["A", "B"]
    own = read.entities["A"]
    assert own.events["available_at"].to_physical().to_list() == [at(s) for s in (10, 20, 30, 40)]
    assert own.event_times.tolist() == [at(s) for s in (10, 20, 30, 40)]
    assert own.query_times.tolist() == [at(s) for s in (15, 20, 30, 40, 55)]
    assert read.samples[own.rows]["entity"].to_list() == ["A"] * 5
    assert read.samples[own.rows]["forecast_time"].to_physical().to_list() == own.query_times.tolist()
    assert own.text.shape == (4, 4)
    assert own.text[0].any()
    assert not own.text[1:].any()
    assert read.as_of_columns == ("asof_x", "asof_y")
    assert read.features == ("x", "y")


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
def test_the_scope_goes_with_the_sequences(scope: Any) -> None:
    whole = dataset()
    scoped = PointInTimeDataset(whole.events, whole.clock, whole.labels, scope=scope, check=False)
    read = read_history(scoped, 4)
    assert read.scope == scope
    assert fit_encoders(read, at(52), text_width=4).scope == scope
    kinds = set(read.entities["A"].events["entity"].to_list())
    assert kinds == {"entity+market": {"A", None}, "entity": {"A"}, "market": {None}}[scope]


def test_only_some_entities() -> None:
    read = read_history(dataset(), 4, ("B",))
    assert list(read.entities) == ["B"]
    # Encoders are fitted on all events all the same.
    assert prints(read, at(40)) == prints(history(), at(40))


def test_without_text() -> None:
    read = history(text_width=0)
    encoders = fit_encoders(read, at(40), text_width=0)
    assert encode(read, encoders)["A"].events.shape == (4, 2 + 3 + 1)


# --- fitting ----------------------------------------------------------------------------------------------


def test_event_scales_by_hand() -> None:
    encoder = fit_encoders(history(), at(40), text_width=4).events
    # Before second 40: x is 1, 3, 5; y is 10, 20. The event at 40 itself is not looked at.
    assert encoder.scaler_.mean_.tolist() == [3.0, 15.0]
    assert encoder.scaler_.scale_ == pytest.approx([math.sqrt(8 / 3), 5.0], rel=1e-15)
    assert encoder.kinds_ == ("bar", "macro", "news")
    assert encoder.card_.training_cutoff == at(30)
    assert encoder.card_.n_events == 4


@pytest.mark.parametrize(("cutoff", "seen"), [(at(40), 4), (at(40) + 1, 5), (at(30) + 1, 4), (at(30), 3)])
def test_an_event_at_the_cutoff_is_not_fitted_on(cutoff: int, seen: int) -> None:
    encoders = fit_encoders(history(), cutoff, text_width=4)
    assert encoders.events.card_.n_events == seen
    assert encoders.cutoff == cutoff


@pytest.mark.parametrize("cutoff", [at(40), at(40) - 1, at(31), at(30) + 1])
def test_what_comes_at_the_cutoff_or_later_changes_no_bit(cutoff: int) -> None:
    changed = [
        event
        if at(event["available"]) < cutoff
        else {**event, "x": -1e6, "y": 1e6, "kind": "strange", "text": "crash", "happened": 0}
        for event in EVENTS
    ]
    assert prints(history(changed), cutoff) == prints(history(), cutoff)
    assert prints(history(changed), at(60)) != prints(history(), at(60))


def test_as_of_scales_by_hand() -> None:
    """Rows count whose targets were known before the cutoff: those of A55 and B55 are known at second 66."""
    read = history()
    newest = read.samples["max_available_at"].to_physical().to_list()
    #       A15     A20     B20   A30     B31     A40     B40     A55     B55
    assert newest == [at(10), at(10), None, at(20), at(30), at(30), at(30), at(40), at(50)]
    scaler = fit_encoders(read, at(55), text_width=4).queries
    # asof_x: 1, 1, 3, 5, 3, 5 of A15, A20, A30, B31, A40, B40; asof_y: 10, 20, 10, 20 of A30 and on,
    # for the own last value goes before the market's.
    assert scaler.columns_ == ("asof_x", "asof_y")
    assert scaler.counts_.tolist() == [6, 4]
    assert scaler.mean_ == pytest.approx([3.0, 15.0], rel=1e-15)
    assert scaler.scale_ == pytest.approx([math.sqrt(16 / 6), 5.0], rel=1e-15)
    assert scaler.training_cutoff_ == at(30)


def test_as_of_rows_just_before_and_after() -> None:
    read = history()
    rows = {}
    for cutoff in (at(26) + 1, at(31), at(31) + 1, at(41) + 1, at(42) + 1, at(51), at(51) + 1, at(66) + 1):
        rows[cutoff] = fit_encoders(read, cutoff, text_width=4).queries.n_rows_
    # The targets of 15, 20, 30, 31, 40, 55 are known at 26, 31, 41, 42, 51, 66; B20 saw nothing.
    assert list(rows.values()) == [1, 1, 2, 3, 4, 4, 6, 8]


def test_a_forecast_that_saw_nothing_has_nothing_to_scale() -> None:
    """B's first forecast comes before B's first event and before any market-wide one."""
    read = history()
    assert read.samples["max_available_at"].null_count() == 1
    tokens = encode(read, fit_encoders(read, at(40), text_width=4))["B"]
    assert tokens.counts[0] == 0
    assert tokens.queries[0, :3].tolist() == [0.0, 0.0, 0.0]


def test_later_forecasts_of_a_silent_entity_do_not_count() -> None:
    """What B last said was known before the cutoff; that it would say nothing more was not."""
    events: list[dict[str, Any]] = [{"available": s, "entity": "A", "x": float(s)} for s in range(1, 60)]
    events.append({"available": 5, "entity": "B", "x": 1000.0})
    forecasts = [(entity, second) for second in range(10, 60, 10) for entity in ("A", "B")]
    whole = dataset(events, forecasts)
    for cutoff in (at(30), at(45), at(55)):
        cut = read_history(whole.cut(cutoff), 4)
        assert prints(cut, cutoff) == prints(read_history(whole, 4), cutoff)


@pytest.mark.parametrize("cutoff", [at(27), at(31), at(40), at(55)])
def test_data_cut_at_the_cutoff_fits_equal_encoders(cutoff: int) -> None:
    cut = read_history(dataset().cut(cutoff), 4)
    assert prints(cut, cutoff) == prints(history(), cutoff)


def test_nothing_before_the_cutoff() -> None:
    with pytest.raises(EncoderError, match=r"before the cutoff.*choose a later cutoff"):
        fit_encoders(history(), at(10), text_width=4)


# --- tokens -----------------------------------------------------------------------------------------------


def test_every_forecast_reads_what_the_samples_say() -> None:
    read = history()
    tokens = encode(read, fit_encoders(read, at(40), text_width=4))
    for entity, own in tokens.items():
        assert own.entity == entity
        assert own.counts.tolist() == read.samples[own.rows]["n_visible"].to_list()
    assert sorted(row for own in tokens.values() for row in own.rows.tolist()) == list(range(9))


def test_tokens_by_hand() -> None:
    read = history()
    encoders = FittedEncoders(
        fit_encoders(read, at(40), text_width=4).events,
        fit_encoders(read, at(55), text_width=4).queries,
        at(55),
    )
    tokens = encode(read, encoders)["A"]
    x, y = math.sqrt(8 / 3), 5.0
    # text (4), x, y, kind bar, macro, news, elapsed; the 20 s and 10 s between events are next to nothing.
    assert tokens.events.shape == (4, 4 + 2 + 3 + 1)
    assert tokens.events[:, 4] == pytest.approx([-2 / x, 0, 0, 5 / x], rel=1e-6)
    assert tokens.events[:, 5] == pytest.approx([0, -5 / y, 5 / y, 0], rel=1e-6)
    assert tokens.events[:, 6:9].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]]
    seconds = np.array([0, 10, 10, 10])
    assert tokens.events[:, 9] == pytest.approx(np.log1p(seconds / 3600) / 5, rel=1e-5, abs=1e-9)
    # as-of x and y, elapsed since the last visible event, season.
    assert tokens.queries.shape == (5, 2 + 1 + 2)
    x = math.sqrt(16 / 6)
    assert tokens.queries[:, 0] == pytest.approx([-2 / x, -2 / x, 0, 0, 5 / x], rel=1e-6, abs=1e-9)
    assert tokens.queries[:, 1] == pytest.approx([0, 0, -5 / y, -5 / y, -5 / y], rel=1e-6)
    seconds = np.array([5, 10, 10, 10, 15])
    assert tokens.queries[:, 2] == pytest.approx(np.log1p(seconds / 3600) / 5, rel=1e-5)


def test_tokens_of_cut_data_are_the_beginning_of_all_tokens() -> None:
    read = history()
    encoders = fit_encoders(read, at(26) + 1, text_width=4)
    whole = encode(read, encoders)
    for moment in (at(20), at(31), at(40), at(55)):
        for entity, part in encode(read_history(dataset().cut(moment), 4), encoders).items():
            n, m = len(part.events), len(part.queries)
            assert part.events.tobytes() == whole[entity].events[:n].tobytes()
            assert part.queries.tobytes() == whole[entity].queries[:m].tobytes()
            assert part.counts.tolist() == whole[entity].counts[:m].tolist()
            assert part.counts.max(initial=0) <= n


def test_columns_of_the_target_are_not_features() -> None:
    read = history()
    assert not {"y_true", "label_end_time", "label_available_at"} & set(read.as_of_columns)
    frame = read.as_of.with_columns(pl.lit(1.0).alias("y_true"))
    assert History(read.samples, frame, read.events, read.features, read.entities).as_of_columns == (
        "asof_x",
        "asof_y",
    )


@pytest.mark.parametrize("future", ["a missing bar", "flat prices"])
def test_the_query_scaler_does_not_know_which_targets_could_be_measured_later(future: str) -> None:
    sessions = TradingCalendar("XNYS").sessions(date(2019, 1, 2), date(2020, 12, 30))["session"].to_list()
    draw = np.random.default_rng(0)
    closes = {name: 100 * np.exp(np.cumsum(draw.normal(0, 0.01, len(sessions)))) for name in "AB"}

    def scaler(without: int | None = None) -> str:
        rows = [
            (sessions[i], name, float(closes[name][i]))
            for name in closes
            for i in range(len(sessions))
            if not (name == "B" and i == without)
        ]
        frame = pl.DataFrame(rows, schema=["date", "entity", "close"], orient="row")
        prices = PriceHistory.from_frame(frame, session="date", gaps="drop")
        clock = ForecastClock.sessions(start=sessions[0], end=sessions[-1], every="week")
        events = market_events(prices, extreme_window=20, regime_window=20, bar_windows=(5,))
        dataset = PointInTimeDataset(events, clock, realised_variance(prices, clock))
        return fit_encoders(read_history(dataset, 8), cutoff, text_width=8).queries.fingerprint

    moment = ForecastClock.sessions(start=sessions[0], end=sessions[-1], every="week").times[60]
    cutoff = to_nanoseconds(moment)
    place = next(i for i, day in enumerate(sessions) if day > moment.date())
    whole = scaler()
    if future == "a missing bar":
        assert scaler(without=place + 1) == whole
    else:
        closes["B"][place - 1 : place + 8] = closes["B"][place - 1]
        assert scaler() == whole
    closes["B"][place - 12] *= 1.5  # what is known by then does count
    assert scaler() != whole
