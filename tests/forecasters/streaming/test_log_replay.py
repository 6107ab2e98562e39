"""A log sent through: the forecasts of a backtest, however often the replay is cut and taken up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import ClockError, EventDataError, StateError, TimestampError, UsageError
from quantattn.forecasters import redated
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming import log_replay
from quantattn.forecasters.streaming.events.event import events_of
from quantattn.pit import ForecastClock
from quantattn.pit.timestamps import instants, nanoseconds_of
from tests.forecasters.streaming.test_forecaster import event, fresh, state
from tests.forecasters.streaming.worlds import END, ENTITIES, FEATURES, same, world
from tests.pit.build import at, event_log

TWINS: tuple[Attention, ...] = ("linear", "softmax")


@pytest.mark.parametrize("attention", TWINS)
@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
@pytest.mark.parametrize("timed", [0, 7, 512])
def test_a_replay_is_the_backtest(
    scope: str, attention: Attention, timed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_replay, "_TIMED", timed)
    given_world = world(0, attention, scope)
    pairs = given_world.dataset.samples.select("entity", "forecast_time")
    tables = [
        given_world.fitted.stream().replay(given_world.log, clock, entities=entities)
        for clock, entities in (
            (given_world.dataset.clock, ENTITIES),
            (given_world.dataset.clock.times, ENTITIES),
            (nanoseconds_of(given_world.dataset.clock.times).tolist()[::-1], ENTITIES),
            (pairs, None),
            (pairs.sample(fraction=1.0, shuffle=True, seed=1), ENTITIES),
        )
    ]
    for table in tables:
        same(table, given_world.wanted)
        first = ["entity", "forecast_time", "y_pred", "y_lower", "y_upper"]
        seen = ["n_visible", "max_available_at", "info_hash"]
        assert table.columns == [*first, *seen, "update_us", "read_us", "flag", "fit_time"]
        assert nanoseconds_of(table["fit_time"]).tolist() == [given_world.fitted.fit_time] * table.height
        assert (table["read_us"] > 0).all()
    assert tables[0]["entity"].head(5).to_list() == list(ENTITIES)
    assert tables[0]["forecast_time"].is_sorted()


def test_a_frame_in_any_order_and_its_hashed_text() -> None:
    given_world = world(0)
    hashed = given_world.fitted.encoders.events.encode_text(given_world.log.frame)
    order = np.random.default_rng(0).permutation(len(hashed))
    mixed = given_world.log.frame[order]
    for text in (None, hashed[order]):
        table = given_world.fitted.stream().replay(
            mixed, given_world.dataset.clock, entities=ENTITIES, text=text
        )
        same(table, given_world.wanted)
    with pytest.raises(UsageError, match="text has 3 rows"):
        fresh().replay(mixed, given_world.dataset.clock, text=hashed[:3])


@pytest.mark.parametrize("attention", TWINS)
@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(0, END + 5), max_size=4))
def test_cut_anywhere_and_taken_up(attention: Attention, cuts: list[int]) -> None:
    given_world = world(1, attention)
    whole, live = given_world.fitted.stream(), given_world.fitted.stream()
    wanted = whole.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES)
    parts = []
    for cut in [*sorted(cuts), None]:
        until = None if cut is None else at(cut)
        parts.append(live.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES, until=until))
        if cut is not None:
            written = given_world.log.frame.filter(pl.col("available_at").to_physical() < at(cut)).height
            assert live.events_written == written
    found = pl.concat(parts)
    names = [name for name in wanted.columns if not name.endswith("_us")]
    assert found.select(names).equals(wanted.select(names))
    assert state(live) == state(whole)


@pytest.mark.parametrize("attention", TWINS)
@pytest.mark.parametrize("cut", [0, 1, 17, 33, 59, 60])
def test_a_snapshot_and_the_log_are_an_uninterrupted_run(
    tmp_path: Path, attention: Attention, cut: int
) -> None:
    """Killed after any event, between two forecasts or amid the events before one."""
    given_world = world(1, attention)
    whole, first, second = (given_world.fitted.stream() for _ in range(3))
    wanted = whole.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES)
    events = list(events_of(given_world.log.frame, FEATURES))
    end = events[cut].available_at if cut < len(events) else at(END + 9)
    made = first.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES, until=end)
    for one in events[first.events_written : cut]:
        first.update(one)
    first.save(tmp_path / "snapshot")
    second.load(tmp_path / "snapshot")
    assert state(second) == state(first)
    rest = second.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES)
    names = [name for name in wanted.columns if not name.endswith("_us")]
    assert pl.concat([made, rest]).select(names).equals(wanted.select(names))
    assert state(second) == state(whole)


def test_a_replay_twice_has_nothing_left_to_do() -> None:
    given_world = world(0)
    live = given_world.fitted.stream()
    live.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES)
    before = state(live)
    again = live.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES)
    assert again.is_empty()
    assert again.columns[:3] == ["entity", "forecast_time", "y_pred"]
    assert state(live) == before


@pytest.mark.parametrize(("since", "until"), [(30, 41), (39, 39), (0, 70), (None, 40), (41, None)])
def test_since_and_until_are_both_included(since: int | None, until: int | None) -> None:
    given_world = world(0)
    live = given_world.fitted.stream()
    bounds = {name: at(second) for name, second in (("since", since), ("until", until)) if second is not None}
    table = live.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES, **bounds)
    wanted = given_world.wanted.filter(
        pl.col("forecast_time").to_physical().is_between(bounds.get("since", 0), bounds.get("until", at(999)))
    )
    same(table, wanted)
    seen = given_world.log.frame["available_at"].to_physical() < bounds.get("until", at(999))
    assert live.events_written == seen.sum()


ROWS = [{"available": second, "event_id": f"e{second}", "x": 1.0} for second in (1, 2, 3)]


@pytest.mark.parametrize("late", ["refuse", "queue"])
@pytest.mark.parametrize("remember", [1, 2, 100])
@pytest.mark.parametrize("extra", ["A", None])
def test_an_event_that_was_never_written_is_not_passed_over(late: Any, remember: int, extra: Any) -> None:
    """It does not vanish behind the ones that were, however many ids are forgotten."""
    live = fresh(late=late, remember=remember)
    live.update_many(event_log([ROWS[0], ROWS[2]]))
    before = state(live)
    rows = [ROWS[0], {**ROWS[1], "entity": extra}, ROWS[2]]
    with pytest.raises(StateError, match=r"the log has [13] where [02] were written.*larger remember"):
        live.replay(event_log(rows), [at(9)])
    assert state(live) == before
    # A forecast promised that nothing came before it, too.
    live.forecast("A", at(9))
    missed = event_log([ROWS[0], ROWS[2], {"available": 8, "event_id": "missed", "entity": extra}])
    with pytest.raises(StateError, match="the log has"):
        live.replay(missed, [at(10)])
    behind = event_log([ROWS[0], ROWS[2], {"available": 9, "event_id": "at it", "entity": extra}])
    assert live.replay(behind, [at(10)])["n_visible"].to_list() == [3]


@pytest.mark.parametrize("remember", [1, 100])
@pytest.mark.parametrize(
    "change",
    [{"x": 2.0}, {"x": None}, {"text": "up"}, {"kind": "bar"}, {"happened": 1}, {"event_id": "f2"}],
)
@pytest.mark.parametrize("entity", ["A", None])
def test_an_event_that_differs_is_not_passed_over(remember: int, change: Any, entity: Any) -> None:
    rows = [{**row, "entity": entity if place == 1 else "A"} for place, row in enumerate(ROWS)]
    live = fresh(remember=remember)
    live.update_many(event_log(rows))
    before = state(live)
    other = [rows[0], {**rows[1], **change}, rows[2]]
    whose = "the market" if entity is None else "entity 'A'"
    with pytest.raises(StateError, match=rf"{whose} the log has .* hash is \w{{32}} and not \w{{32}}"):
        live.replay(event_log(other), [at(9)])
    assert state(live) == before
    moved = [rows[0], {**rows[1], "available": 3}, {**rows[2], "event_id": "z"}]
    with pytest.raises(StateError):
        live.replay(event_log(moved), [at(9)])
    assert live.replay(event_log(rows), [at(9)])["n_visible"].to_list() == [3]


def test_a_log_that_begins_later() -> None:
    """Its events behind the positions must be among the ids that are remembered, with their times."""
    rows = [
        {"available": second, "event_id": f"e{second}", "entity": entity}
        for second, entity in enumerate(["A", "B", None, "A", "B", "A"], start=1)
    ]
    more = [*rows, {"available": 7, "event_id": "e7", "entity": "B"}]
    for first in range(1, 6):
        there = rows[first:]
        # Without the market's event there is no hash to compare; A lacks e1 and B e2 from there on.
        whole = {"B", None} if first == 1 else {None} if first == 2 else set()
        needed = max(6 - rows.index(row) for row in there if row["entity"] not in whole)
        for remember in (needed - 1, needed, 100):
            live = fresh(remember=max(1, remember))
            live.update_many(event_log(rows))
            if remember >= needed or remember < 1:
                made = live.replay(event_log([*there, more[-1]]), [at(9)], entities=["A", "B"])
                assert made["n_visible"].to_list() == [4, 4]
            else:
                with pytest.raises(StateError, match=rf"none of the {remember} that are remembered"):
                    live.replay(event_log([*there, more[-1]]), [at(9)])
    live = fresh()
    live.update_many(event_log(rows))
    with pytest.raises(StateError, match=r"'e5' .*was written as of 2020-01-01T00:00:05Z, happened at"):
        live.replay(event_log([{**rows[4], "available": 4}]), [at(9)])


def test_the_log_of_what_was_written_is_what_a_snapshot_goes_on_with(tmp_path: Path) -> None:
    """The log of what was sent is another one where late events were queued, and it is refused."""
    given_world = world(0)
    sent = [event("e1", 1), event("late", 5), event("e2", 20)]
    whole = given_world.fitted.stream(late="queue")
    journal = [whole.update(sent[0])]
    whole.forecast("A", at(10))
    whole.save(tmp_path / "snapshot")
    whole.forecast("A", at(12))
    journal += [whole.update(sent[1]), whole.update(sent[2])]
    wanted = whole.forecast("A", at(30))
    log = event_log(
        [{"available": one, "event_id": name, "x": 0.5} for name, one in (("e1", 1), ("late", 5), ("e2", 20))]
    )
    seen = redated(log, whole.late_events)
    assert [one.available_at for one in journal if one] == nanoseconds_of(seen.frame["available_at"]).tolist()
    again = given_world.fitted.stream(late="queue")
    again.load(tmp_path / "snapshot")
    with pytest.raises(StateError, match=r"'late' .*redated\(\)"):
        again.replay(log, [at(10), at(12), at(30)], entities=["A"])
    made = again.replay(seen, [at(10), at(12), at(30)], entities=["A"])
    assert made["n_visible"].to_list() == [1, 3]
    assert made["y_pred"][-1] == wanted.y_pred


def test_a_forecaster_that_was_broken_off_replays_nothing() -> None:
    live = fresh()
    live._broken = "something"
    with pytest.raises(StateError, match="broken off"):
        live.replay(event_log([{"available": 1}]), [])


def test_a_forecast_before_what_was_written() -> None:
    live = fresh()
    live.update(event("a", 5))
    log = event_log([{"available": 7}])
    with pytest.raises(ClockError, match=r"since= after 2020-01-01T00:00:05Z"):
        live.replay(log, [at(3), at(9)])
    assert live.replay(log, [at(3), at(9)], since=at(6))["n_visible"].to_list() == [2]


def test_update_us_is_the_mean_over_what_the_entity_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks once a call: updates of A take 1, of B 10 and of the market 100 microseconds."""
    live = fresh()
    now = [0.0]
    monkeypatch.setattr(log_replay.time, "perf_counter", lambda: now[0])
    original = type(live).update

    def slow(self: Any, one: Any) -> Any:
        now[0] += {"A": 1e-6, "B": 10e-6, None: 100e-6}[one.entity]
        return original(self, one)

    monkeypatch.setattr(type(live), "update", slow)
    log = event_log(
        [
            {"available": 1, "entity": "A"},
            {"available": 2, "entity": "A"},
            {"available": 3, "entity": None},
            {"available": 4, "entity": "B"},
            {"available": 11, "entity": "B"},
            {"available": 21, "entity": None},
        ]
    )
    table = live.replay(log, [at(10), at(20), at(30)], entities=["A", "B", "C"])
    found = [None if np.isnan(value) else round(value, 6) for value in table["update_us"]]
    assert found == [34.0, 55.0, 100.0, None, 10.0, None, 100.0, 100.0, 100.0]


def test_whom_to_forecast() -> None:
    log = event_log(
        [{"available": 1, "entity": "B"}, {"available": 2, "entity": "A"}, {"available": 3, "entity": None}]
    )
    live = fresh()
    live.forecast("Z", at(1))
    live.update(event("y", 1, "Y"))
    assert live.replay(log, [at(9)])["entity"].to_list() == ["A", "B", "Y", "Z"]
    assert fresh().replay(log, [at(9)], entities=["NEW", "A"])["entity"].to_list() == ["NEW", "A"]
    pairs = pl.DataFrame({"entity": ["Q", "A", "A"], "forecast_time": instants([at(9), at(9), at(9)])})
    assert fresh().replay(log, pairs)["entity"].to_list() == ["A", "Q"]
    assert fresh().replay(log, pairs, entities=["A"])["entity"].to_list() == ["A"]
    some = ForecastClock(
        instants([at(8), at(9)]),
        pl.DataFrame({"entity": ["A", None], "forecast_time": instants([at(8), at(9)])}),
    )
    assert fresh().replay(log, some)["entity"].to_list() == ["A", "A", "B"]


@pytest.mark.parametrize(
    ("clock", "options", "error", "said"),
    [
        ("2020-01-01T00:00:09Z", {}, UsageError, "clock is a str"),
        (7, {}, UsageError, "clock is a int"),
        (["2020-01-01T00:00:09"], {}, TimestampError, r"clock\[0\]"),
        ([at(9)], {"entities": "A"}, UsageError, "entities='A': give a list"),
        ([at(9)], {"entities": [["A"]]}, UsageError, "holds .*a list"),
        ([at(9)], {"entities": ["A\0"]}, EventDataError, "NUL"),
        (np.array(["2020-01-02"], "M8[D]"), {"entities": ["A"]}, TimestampError, r"clock\[0\].*is a date"),
        ([at(9)], {"since": np.datetime64("2020")}, TimestampError, "since.*is a date"),
        ([at(9), 2**62], {"entities": ["A"]}, TimestampError, "146 years"),
        (instants([at(9), 2**62]), {"entities": ["A"]}, TimestampError, "146 years"),
        (
            pl.DataFrame({"entity": ["A"], "forecast_time": instants([-(2**62)])}),
            {},
            TimestampError,
            "146 years",
        ),
        ([at(9)], {"entities": [1]}, EventDataError, "entity=1"),
        (pl.DataFrame({"entity": [1], "forecast_time": instants([at(9)])}), {}, UsageError, "not String"),
        ([at(9)], {"entities": ["A", "A"]}, UsageError, "all different"),
        ([at(9)], {"entities": []}, UsageError, "no entities"),
        ([at(9)], {"since": "2020"}, TimestampError, "since"),
        ([at(9)], {"until": 1.5}, TimestampError, "until"),
        (pl.DataFrame({"entity": ["A"]}), {}, UsageError, "forecast_time"),
        (pl.Series(["x"]), {}, TimestampError, "type"),
        (
            pl.DataFrame(
                {"entity": ["A"], "forecast_time": pl.Series([None], dtype=pl.Datetime("ns", "UTC"))}
            ),
            {},
            TimestampError,
            "without forecast_time",
        ),
    ],
)
def test_bad_requests_change_nothing(clock: Any, options: Any, error: type[Exception], said: str) -> None:
    live = fresh()
    before = state(live)
    with pytest.raises(error, match=said):
        live.replay(event_log([{"available": 1}]), clock, **options)
    assert state(live) == before


def test_what_is_no_log() -> None:
    with pytest.raises(UsageError, match="log is a list"):
        fresh().replay([event()], [at(9)])  # type: ignore[arg-type]
    with pytest.raises(EventDataError, match="kind"):
        fresh().replay(event_log([{"available": 1}]).frame.drop("kind"), [at(9)])


def test_an_empty_log() -> None:
    empty = event_log([])
    table = fresh().replay(empty, [at(9)], entities=["A"])
    assert table["n_visible"].to_list() == [0]
    assert table["max_available_at"].to_list() == [None]
    assert fresh().replay(empty, []).is_empty()
