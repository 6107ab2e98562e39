"""Late events: where they are written, and that a backtest over the re-dated log gives the same bits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import ClockError, EventDataError, StateError, TimestampError, UsageError
from quantattn.forecasters import Event, StreamingForecaster, read_history, redated
from quantattn.forecasters.streaming.events._tables import keys_of
from quantattn.forecasters.streaming.events.event import events_of
from quantattn.forecasters.streaming.events.late import LATE_SCHEMA, Ledger
from quantattn.pit import PointInTimeDataset
from quantattn.pit.timestamps import nanoseconds_of
from tests.forecasters.streaming.worlds import ENTITIES, FEATURES, expected, same, world
from tests.pit.build import at, clock, event_log, labels

KEY = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 1))


def made(key: tuple[int, int, str, int], entity: str | None) -> Event:
    available, happened, event_id, revision = key
    return Event(event_id, available, happened, entity, "news", revision, scheduled=True)


class Oracle:
    """The rules as they are written: every event and forecast kept, and looked through each time."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.forecasts: list[tuple[str, int]] = []

    def misses(self, event: Event) -> bool:
        """Whether something that is there should have come after the event."""
        reads = [
            one for one in self.events if None in (one.entity, event.entity) or one.entity == event.entity
        ]
        promises = [when for who, when in self.forecasts if event.entity in (None, who)]
        return any(one.key >= event.key for one in reads) or any(
            event.available_at < when for when in promises
        )

    def known(self, event: Event) -> bool:
        return any((one.event_id, one.revision) == (event.event_id, event.revision) for one in self.events)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(KEY, st.sampled_from(["A", "B", None]))
        | st.tuples(st.sampled_from(["A", "B", "C"]), st.integers(0, 5)),
        max_size=12,
    ),
    st.sampled_from(["refuse", "queue"]),
)
def test_any_operations(operations: list[Any], late: Any) -> None:
    oracle, ledger, moved = Oracle(), Ledger(late), 0
    for first, second in operations:
        if isinstance(first, str):
            oracle.forecasts.append((first, second))
            ledger.promise(first, second)
            continue
        event = made(first, second)
        if oracle.known(event):
            with pytest.raises(EventDataError, match="already"):
                ledger.place(event)
            continue
        if oracle.misses(event):
            if late == "refuse":
                with pytest.raises(ClockError):
                    ledger.place(event)
                continue
            placed = ledger.place(event)
            # The least later instant at which it misses nothing.
            least = next(at for at in range(event.available_at, 99) if not oracle.misses(event.moved_to(at)))
            assert placed == event.moved_to(least)
        else:
            placed = ledger.place(event)
            assert placed is event
        moved += placed is not event
        ledger.note(placed, event)
        oracle.events.append(placed)
    assert ledger.late_events.height == moved
    copy = Ledger(late)
    copy.restore(ledger.memory())
    assert {name: value.tobytes() for name, value in copy.memory().items()} == {
        name: value.tobytes() for name, value in ledger.memory().items()
    }
    assert copy.late_events.equals(ledger.late_events)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(KEY, st.sampled_from(["A", "B", None])),
        min_size=1,
        max_size=6,
        unique_by=lambda operation: operation[0][2:],
    ),
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 3)), max_size=2),
    st.booleans(),
    st.integers(1, 8),
)
def test_many_are_placed_as_one_after_the_other(
    operations: list[Any], forecasts: list[tuple[str, int]], ordered: bool, remember: int
) -> None:
    events = [made(*operation) for operation in operations]
    if ordered:
        events.sort(key=lambda event: event.key)
    frame = pl.DataFrame(
        {
            "event_id": [event.event_id for event in events],
            "revision": pl.Series([event.revision for event in events], dtype=pl.Int32),
            "entity": pl.Series([event.entity for event in events], dtype=pl.String),
            "kind": "news",
            "text": pl.Series([None] * len(events), dtype=pl.String),
            **{
                name: pl.Series([getattr(event, name) for event in events]).cast(pl.Datetime("ns", "UTC"))
                for name in ("available_at", "event_time")
            },
        }
    )
    single, many = Ledger("queue", remember), Ledger("queue", remember)
    for entity, when in forecasts:
        single.promise(entity, when)
        many.promise(entity, when)
    before = {name: value.tobytes() for name, value in many.memory().items()}
    wanted = []
    for event in events:
        try:
            placed = single.place(event)
        except EventDataError as refused:
            # Forgotten in between: the table is refused as well, as a whole.
            with pytest.raises(EventDataError) as error:
                many.place_many(frame, ())
            assert str(error.value) == str(refused)
            assert {name: value.tobytes() for name, value in many.memory().items()} == before
            return
        single.note(placed, event)
        wanted.append(placed.available_at)
    placed_many = many.place_many(frame, ())
    assert {name: value.tobytes() for name, value in many.memory().items()} == before
    assert nanoseconds_of(placed_many.frame["available_at"]).tolist() == wanted
    many.note_many(placed_many)
    after = [
        sorted((name, value.tobytes()) for name, value in one.memory().items()) for one in (single, many)
    ]
    assert after[0] == after[1]
    assert dict(single.own) == dict(many.own)
    assert many.late_events.schema == LATE_SCHEMA


@pytest.mark.parametrize("moment", [2**62, -(2**62), 2**63 - 1])
def test_events_too_far_from_1970(moment: int) -> None:
    live = world(0).fitted.stream()
    far = Event("a", moment, -(2**63) + 1, "A", "news")
    for call in (lambda: live.update(far), lambda: live.update_many([far])):
        with pytest.raises(TimestampError, match=r"'a' became available at .*146 years"):
            call()
    assert live.events_written == 0
    near = moment - 1 if moment > 0 else moment + 1
    if abs(near) < 2**62:
        live.update(Event("a", near, -(2**63) + 1, "A", "news"))
        live.update_many([Event("b", 2**62 - 1, 0, "A", "news")])
        assert live.events_written == 2


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(KEY, st.booleans()), max_size=25), st.integers(1, 4), st.integers(0, 6))
def test_no_event_is_written_twice(operations: list[Any], remember: int, promised: int) -> None:
    """Whatever is forgotten: one that comes again as it was sent is refused, a new one where it may be."""
    ledger, sent = Ledger("queue", remember), {}
    for key, forecast in operations:
        if forecast:
            ledger.promise("A", promised)
        event = made(key, "A")
        again = event.event_id, event.revision
        if again in sent:
            event = made(sent[again], "A")
        try:
            placed = ledger.place(event)
        except EventDataError as error:
            assert again in sent or "take a larger remember" in str(error)
            continue
        assert again not in sent
        ledger.note(placed, event)
        sent[again] = key
        copy = Ledger("queue", remember)
        copy.restore(ledger.memory())
        assert copy.memory().keys() == ledger.memory().keys()
        for name, value in copy.memory().items():
            assert value.tobytes() == ledger.memory()[name].tobytes()


def test_late_events_before_what_is_forgotten() -> None:
    live = world(0).fitted.stream(late="queue", remember=3)
    events = [Event(f"e{second}", at(second), at(second), "A", "news") for second in range(1, 9)]
    live.update_many(events)
    before = live.ledger.memory()
    for call in (live.update, lambda one: live.update_many([one])):
        for old in (events[0], events[4], Event("new", at(3), at(3), "A", "news")):
            with pytest.raises(EventDataError, match=r"are forgotten.* larger remember"):
                call(old)
        with pytest.raises(EventDataError, match="already"):
            call(events[5])
    # Behind the five that are forgotten, a new one is certain to be new.
    written = live.update(Event("new", at(5) + 1, at(5), "A", "news"))
    assert written is not None
    assert written.available_at == at(8) + 1
    assert live.events_written == 9
    assert all(np.array_equal(before[name], value) for name, value in before.items())


def lines_of(*functions: Any) -> list[tuple[Any, int]]:
    """Every line of some functions, to interrupt them at."""
    found = []
    for function in functions:
        code = function.__code__
        found += [
            (code, line) for *_, line in code.co_lines() if line is not None and line > code.co_firstlineno
        ]
    return sorted(set(found), key=lambda pair: (pair[0].co_firstlineno, pair[1]))


@pytest.mark.parametrize("place", range(len(lines_of(Ledger.promise))))
def test_a_forecast_that_was_broken_off_promises_no_less(place: int) -> None:
    """Interrupted at any line and made again, it stands for the market-wide events, too."""
    code, line = lines_of(Ledger.promise)[place]
    live: StreamingForecaster = world(0).fitted.stream()
    live.update(Event("a", at(1), at(1), "A", "news"))
    live.forecast("A", at(8))

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return trace if event == "call" else None
        if event == "line" and frame.f_lineno == line:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        live.forecast("B", at(20))
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    assert live.forecast("B", at(20)).n_visible == 0
    for entity in (None, "B"):
        with pytest.raises(ClockError, match="should have seen it"):
            live.update(Event("m", at(15), at(15), entity, "news"))


def test_promises_and_queued_events_stay_near_1970() -> None:
    ledger = Ledger("queue")
    for far in (2**62, -(2**62)):
        with pytest.raises(TimestampError, match=r"'A' .*146 years"):
            ledger.promise("A", far)
    assert ledger.memory()["promised_1"].size == 0
    ledger.promise("A", 2**62 - 1)
    for _ in range(2):
        placed = ledger.place(made((5, 5, "b", 0), "A"))
    assert placed.available_at == 2**62 - 1
    ledger.note(placed, placed)
    with pytest.raises(TimestampError, match=r"'a' is late and would be written at .* 146 years"):
        ledger.place(made((5, 4, "a", 0), "A"))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(KEY, st.sampled_from(["A", "B", None])), max_size=8),
    st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 4)), max_size=3),
    st.lists(st.tuples(KEY, st.sampled_from(["A", "B", "C", None])), min_size=1, max_size=8),
)
def test_what_stands_behind(operations: list[Any], forecasts: list[Any], rows: list[Any]) -> None:
    """The events that would be late, were they new."""
    ledger = Ledger("queue", 1000)
    for key, entity in operations:
        event = made(key, entity)
        if ledger.key_of(*key[2:]) is None:
            ledger.note(ledger.place(event), event)
    for entity, when in forecasts:
        ledger.promise(entity, when)
    events = [made((*key[:2], f"{key[2]}{row}", 0), entity) for row, (key, entity) in enumerate(rows)]
    frame = pl.DataFrame(
        {
            "event_id": [event.event_id for event in events],
            "revision": pl.Series([0] * len(events), dtype=pl.Int32),
            "entity": pl.Series([event.entity for event in events], dtype=pl.String),
            **{
                name: pl.Series([getattr(event, name) for event in events]).cast(pl.Datetime("ns", "UTC"))
                for name in ("available_at", "event_time")
            },
        }
    )
    wanted = [ledger.place(event) is not event for event in events]
    assert ledger.behind(frame).tolist() == wanted


@pytest.mark.parametrize("given_late", [None, "late", pl.DataFrame({"event_id": ["a"]})])
def test_what_is_no_list_of_late_events(given_late: Any) -> None:
    log = event_log([{"available": 5, "event_id": "a"}])
    with pytest.raises(UsageError, match="late_events is"):
        redated(log, given_late)
    with pytest.raises(UsageError, match="log is a DataFrame"):
        redated(log.frame, Ledger().late_events)  # type: ignore[arg-type]


def test_a_table_that_holds_an_event_twice() -> None:
    frame = event_log([{"available": 1, "event_id": "a"}, {"available": 2, "event_id": "b"}]).frame
    ledger = Ledger("queue")
    for table in (pl.concat([frame, frame]), pl.concat([frame.reverse(), frame])):
        with pytest.raises(EventDataError, match="already"):
            ledger.place_many(table, ())
    ledger.note_many(ledger.place_many(frame, ()))
    with pytest.raises(EventDataError, match="'b' revision 0 has been written already"):
        ledger.place_many(frame[1:], ())


@pytest.mark.parametrize("broken", ["own_0", "known_1", "moved_market", "promised_0_utf8"])
@pytest.mark.parametrize("how", ["missing", "type", "length"])
def test_memories_that_do_not_fit(broken: str, how: str) -> None:
    ledger = Ledger("queue")
    for event in (made((5, 5, "é", 0), "A"), made((4, 4, "b", 0), "A"), made((9, 5, "m", 0), None)):
        ledger.note(ledger.place(event), event)
    ledger.promise("A", 99)
    memory = ledger.memory()
    Ledger().restore(memory)
    if how == "missing":
        del memory[broken]
    elif how == "type":
        memory[broken] = memory[broken].astype(np.float32)
    else:
        memory[broken] = np.concatenate([memory[broken], memory[broken][:1]])
    other = Ledger()
    with pytest.raises(StateError, match="snapshot"):
        other.restore(memory)
    assert other.own == {}


def test_what_was_written_of_a_log() -> None:
    log = event_log([{"available": second, "event_id": f"e{second}"} for second in range(1, 9)])
    ledger = Ledger(remember=3)
    for event in list(events_of(log.frame, FEATURES))[:6]:
        ledger.note(event, event)
    # e1 to e3 are forgotten, and whether such were written nothing tells; e4 to e6 are known.
    assert ledger.written(log.frame).tolist() == [False] * 3 + [True] * 3 + [False] * 2
    for late in ("refuse", "queue"):
        again = Ledger(late, remember=3)
        for event in list(events_of(log.frame, FEATURES))[:6]:
            again.note(event, event)
        with pytest.raises((ClockError, EventDataError)):
            again.place(next(iter(events_of(log.frame, FEATURES))))
    gap = event_log([{"available": 4, "event_id": "new"}, {"available": 2, "event_id": "old"}])
    # Neither was ever written, be it among the known ones or the forgotten: they will be told to be late.
    assert ledger.written(gap.frame).tolist() == [False, False]
    other = event_log([{"available": 2, "event_id": "e2", "entity": "B"}])
    assert ledger.written(other.frame).tolist() == [False]


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("seed", range(4))
def test_a_backtest_of_the_redated_log(seed: int, attention: Any) -> None:
    """Events come in a random order with forecasts between; the log as it was seen gives the same bits."""
    given_world = world(seed, attention)
    live = given_world.fitted.stream(late="queue")
    draw = np.random.default_rng(seed)
    events = list(events_of(given_world.log.frame, FEATURES))
    delays = np.where(draw.random(len(events)) < 0.4, draw.integers(0, 25, len(events)), 0)
    arrival = [event.available_at + int(delay) * 10**9 for event, delay in zip(events, delays, strict=True)]
    asked, made_rows = [], []
    seconds = sorted(set(draw.integers(1, 90, 25).tolist()))
    order = sorted(range(len(events)), key=lambda row: (arrival[row], row))
    for second in seconds:
        while order and arrival[order[0]] < at(second):
            live.update(events[order.pop(0)])
        for entity in ENTITIES:
            try:
                said = live.forecast(entity, at(second))
            except ClockError:
                continue  # a market-wide event was dated to a later forecast of another entity
            asked.append((entity, second))
            made_rows.append((entity, at(second), said.y_pred, said.n_visible, said.info_hash))
    assert live.late_events.height > 3
    # What was sent; the others are still on their way.
    sent = given_world.log.frame[sorted(set(range(len(events))) - set(order))]
    seen = redated(type(given_world.log).from_valid(sent, FEATURES), live.late_events)
    dataset = PointInTimeDataset(
        seen, clock(second for _, second in asked), labels(asked, ENTITIES), check=False
    )
    wanted = expected(dataset, read_history(dataset, 4), given_world.fitted)
    found = pl.DataFrame(
        made_rows, schema=["entity", "forecast_time", "y_pred", "n_visible", "info_hash"], orient="row"
    ).with_columns(pl.col("forecast_time").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))
    same(found, wanted.select(found.columns))
    # And so does another stream, that gets the log in its order.
    again = given_world.fitted.stream().replay(seen, dataset.clock, entities=ENTITIES)
    same(again, wanted)


def test_redating_another_log() -> None:
    log = event_log([{"available": 5, "event_id": "a"}, {"available": 6, "event_id": "b"}])
    live: StreamingForecaster = world(0).fitted.stream(late="queue")
    live.update_many(list(events_of(log.frame, FEATURES))[::-1])
    assert live.late_events["event_id"].to_list() == ["a"]
    seen = redated(log, live.late_events)
    assert seen.frame["event_id"].to_list() == ["b", "a"]
    # b happened at 6 and a at 5, so that a stands behind b a nanosecond later.
    assert keys_of(seen.frame)[1][0] == at(6) + 1
    assert redated(log, live.late_events.clear()).fingerprint == log.fingerprint
    with pytest.raises(EventDataError, match="1 of 1 late events are not in the log"):
        redated(event_log([{"available": 4, "event_id": "a"}]), live.late_events)
