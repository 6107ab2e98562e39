"""Raw events in, forecasts out: the bits of a backtest in whatever order and company they come."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import (
    CheckpointError,
    ClockError,
    DenominatorError,
    EventDataError,
    StateError,
    TimestampError,
    UsageError,
)
from quantattn.forecasters import CachePolicy, Event, HeadConfig, HealthPolicy, StreamingForecaster
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.events.event import MARKET, events_of
from quantattn.pit import EventLog
from quantattn.pit.timestamps import nanoseconds_of
from tests.forecasters.streaming.worlds import ENTITIES, FEATURES, World, same, world
from tests.pit.build import at, event_log

SCOPES = ("entity+market", "entity", "market")
TWINS: tuple[Attention, ...] = ("linear", "softmax")


def event(event_id: str = "n1", second: float = 5, entity: str | None = "A", **fields: Any) -> Event:
    moment = at(0) + round(second * 10**9)
    given_fields = {"event_time": moment, "kind": "news", "features": {"x": 0.5}, **fields}
    return Event(event_id, moment, entity=entity, **given_fields)


def fresh(**options: Any) -> StreamingForecaster:
    return world(0).fitted.stream(**options)


def state(live: StreamingForecaster) -> dict[str, bytes]:
    """Everything that a forecaster remembers, as bytes."""
    found = {
        f"{name}.{key}": value.tobytes()
        for name in live.stream.entities
        for key, value in live.stream.memory(name).items()
    }
    for part, memory in (("information", live.information.memory()), ("ledger", live.ledger.memory())):
        found |= {f"{part}.{key}": value.tobytes() for key, value in memory.items()}
    return found | {"entities": repr(live.entities).encode(), "late": live.late_events.write_csv().encode()}


def one_by_one(live: StreamingForecaster, given_world: World) -> pl.DataFrame:
    """Forecast every sample as a live caller would."""
    events = list(events_of(given_world.log.frame, FEATURES))
    made = []
    asked = given_world.dataset.samples.select("forecast_time", "entity").sort("forecast_time")
    for moment, entity in zip(nanoseconds_of(asked["forecast_time"]).tolist(), asked["entity"], strict=True):
        while events and events[0].available_at < moment:
            live.update(events.pop(0))
        said = live.forecast(entity, moment)
        for name, target in said.by_target.items():
            row = {"entity": entity, "forecast_time": moment, "target": name, "y_pred": target.y_pred}
            row |= {"y_lower": target.y_lower, "y_upper": target.y_upper, **target.extra}
            row |= {"n_visible": said.n_visible, "max_available_at": said.max_available_at}
            made.append({**row, "info_hash": said.info_hash})
    frame = pl.DataFrame(made, schema_overrides={"max_available_at": pl.Int64})
    times = [
        pl.col(name).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        for name in ("forecast_time", "max_available_at")
    ]
    return frame.with_columns(times)


# --- equal to the backtest --------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", TWINS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", range(3))
def test_live_is_the_backtest(seed: int, scope: str, attention: Attention) -> None:
    given_world = world(seed, attention, scope)
    live = given_world.fitted.stream()
    same(one_by_one(live, given_world), given_world.wanted)
    if scope != "market":
        assert given_world.wanted["y_pred"].n_unique() > 30
    # One forecast time comes at the instant of an event, so that equality is met. assert
    given_world.dataset.samples["forecast_time"].is_in(given_world.log.frame["available_at"].implode()).any()


@pytest.mark.parametrize(
    ("head", "logs"),
    [
        (HeadConfig("gaussian"), ()),
        (HeadConfig("quantile", levels=(0.1, 0.5, 0.9)), ()),
        (HeadConfig("direction"), ()),
        (HeadConfig(targets=("a", "b")), ()),
        (HeadConfig(targets=("a", "b")), (True, False)),
        (HeadConfig("gaussian", targets=("1 day", "5 days")), ()),
        (HeadConfig("quantile", targets=("b", "a", "c"), levels=(0.25, 0.75)), ()),
    ],
)
def test_heads_and_targets(head: HeadConfig, logs: tuple[bool, ...]) -> None:
    given_world = world(1, head=head, logs=logs)
    same(one_by_one(given_world.fitted.stream(), given_world), given_world.wanted)
    live = given_world.fitted.stream()
    same(live.replay(given_world.log, given_world.dataset.clock, entities=ENTITIES), given_world.wanted)
    wanted = given_world.wanted.filter(pl.col("forecast_time") == pl.col("forecast_time").max())
    made = live.forecast_many(ENTITIES, at(1000), hypothetical=True)
    assert set(wanted.columns) <= set(made.columns)
    for entity, rows in made.group_by("entity", maintain_order=True):
        alone = live.forecast(str(entity[0]), at(1000), hypothetical=True)
        for row in rows.iter_rows(named=True):
            target = alone.by_target[row.get("target", "y_true")]
            assert (row["y_pred"], row["y_lower"], row["y_upper"]) == (
                target.y_pred,
                target.y_lower,
                target.y_upper,
            )
            assert all(row[name] == value for name, value in target.extra.items())
    first = next(iter(alone.by_target.values()))
    assert (alone.y_pred, alone.y_lower, alone.y_upper, alone.extra) == (
        first.y_pred, first.y_lower, first.y_upper, first.extra,
    )  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.integers(10, 10_000), st.sampled_from(SCOPES), st.sampled_from(TWINS), st.integers(1, 90))
def test_any_log(seed: int, scope: str, attention: Attention, count: int) -> None:
    try:
        given_world = world.__wrapped__(seed, attention, scope, count=count)
    except Exception as error:  # nothing to fit on
        assert "nothing to fit on" in str(error) or "no sample" in str(error)
        return
    same(one_by_one(given_world.fitted.stream(), given_world), given_world.wanted)


# --- many at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", TWINS)
@pytest.mark.parametrize("scope", SCOPES)
def test_many_events_at_once_are_one_after_the_other(
    scope: str, attention: Attention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantattn.forecasters.streaming.bulk.BLOCK", 7)
    monkeypatch.setattr("quantattn.forecasters.streaming.forecaster._FEW", 11)
    given_world = world(2, attention, scope)
    single, many, parts, listed = (given_world.fitted.stream() for _ in range(4))
    events = list(events_of(given_world.log.frame, FEATURES))
    for one in events:
        single.update(one)
    read = single.events_written
    assert many.update_many(given_world.log) == read
    assert sum(parts.update_many(given_world.log.frame[i : i + 11]) for i in range(0, 60, 11)) == read
    assert listed.update_many(one for one in events) == read
    wanted = state(single)
    assert state(many) == state(parts) == state(listed) == wanted
    assert many.events_written == read
    assert many.as_of == single.as_of


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    given_world = world(2)
    wanted = given_world.fitted.stream()
    wanted.update_many(given_world.log)
    monkeypatch.setattr("quantattn.forecasters.streaming.bulk.thread_count", lambda: 4)
    monkeypatch.setattr("quantattn.forecasters.streaming.bulk.FEW", 0)
    monkeypatch.setattr("quantattn.forecasters.streaming.forecaster._FEW", 0)
    live = given_world.fitted.stream()
    live.update_many(given_world.log)
    assert state(live) == state(wanted)


def test_text_that_was_hashed_before() -> None:
    given_world = world(0)
    hashed = given_world.fitted.encoders.events.encode_text(given_world.log.frame)
    wanted, live = given_world.fitted.stream(), given_world.fitted.stream()
    wanted.update_many(given_world.log)
    turned = np.argsort(-np.arange(len(hashed)))
    assert live.update_many(given_world.log, text=hashed)
    assert state(live) == state(wanted)
    other = given_world.fitted.stream()
    other.update_many(given_world.log, text=hashed[turned])
    assert state(other) != state(wanted)  # it was not hashed again
    with pytest.raises(UsageError, match="text has 3 rows"):
        fresh().update_many(given_world.log, text=hashed[:3])


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_entities_interleave_in_any_order(random: Any, at_once: bool) -> None:
    """Own events of different entities may come in any order between two market-wide ones."""
    given_world = world(1)
    events = list(events_of(given_world.log.frame, FEATURES))
    order: list[Event] = []
    stretch: dict[str, list[Event]] = {}

    def flush() -> None:
        while stretch:
            entity = random.choice(sorted(stretch))
            order.append(stretch[entity].pop(0))
            if not stretch[entity]:
                del stretch[entity]

    for one in events:
        if one.entity is None:
            flush()
            order.append(one)
        else:
            stretch.setdefault(one.entity, []).append(one)
    flush()
    straight, live = given_world.fitted.stream(), given_world.fitted.stream()
    straight.update_many(given_world.log)
    if at_once:
        live.update_many(order)
    else:
        for one in order:
            live.update(one)
    for entity in ENTITIES:
        assert (
            live.forecast(entity, at(99), hypothetical=True).y_pred
            == straight.forecast(entity, at(99), hypothetical=True).y_pred
        )
        assert live.information.info_hash(entity) == straight.information.info_hash(entity)


def test_forecasts_of_many_are_those_of_each() -> None:
    given_world = world(0)
    live = given_world.fitted.stream()
    live.update_many(given_world.log)
    names = ["C", "NONE", "A", "LATE", "never heard of", "B"]
    table = live.forecast_many(names, at(70))
    assert table["entity"].to_list() == names
    for row in table.iter_rows(named=True):
        alone = live.forecast(row["entity"], at(70))
        assert (row["y_pred"], row["y_lower"], row["y_upper"]) == (alone.y_pred, alone.y_lower, alone.y_upper)
        assert (row["n_visible"], row["info_hash"]) == (alone.n_visible, alone.info_hash)
        assert row["read_us"] > 0 < alone.read_us
    none = live.forecast_many([], at(70))
    assert none.schema == table.schema
    assert none.is_empty()


# --- entities without events ------------------------------------------------------------------------------


def test_an_entity_begins_as_the_market() -> None:
    live = fresh()
    live.update(event("m1", 1, None))
    assert live.stream.entities == (MARKET,)
    before = live.forecast("NEW", at(2))
    assert before.n_visible == 1
    assert live.stream.entities == (MARKET,)  # a forecast makes no memory
    live.update(event("n1", 3, "NEW"))
    live.update(event("m2", 4, None))
    assert live.entities == ("NEW",)
    assert live.stream.count("NEW") == 3
    assert live.stream.count(MARKET) == 2
    assert live.forecast("NEW", at(5)).n_visible == 3
    assert live.forecast("OTHER", at(5)).n_visible == 2
    assert live.events_written == 3


def test_before_any_event() -> None:
    live = fresh()
    said = live.forecast("A", at(1))
    assert (said.n_visible, said.max_available_at, live.as_of, live.events_written) == (0, None, None, 0)
    assert math.isfinite(said.y_pred)
    assert live.update_many([]) == 0
    assert live.health().healthy


# --- order ------------------------------------------------------------------------------------------------


def test_an_event_at_the_forecast_is_not_visible() -> None:
    live = fresh()
    live.update(event("a", 5))
    with pytest.raises(ClockError, match=r"'A' at 2020-01-01T00:00:05Z .* available at 2020-01-01T00:00:05Z"):
        live.forecast("A", at(5))
    live.forecast("A", at(5) + 1)
    live.forecast("B", at(5))  # which has not seen it
    live.update(event("b", 6, "B"))
    live.forecast("A", at(6), hypothetical=True)
    with pytest.raises(ClockError):
        live.forecast("B", at(6))


def test_an_event_at_a_forecast_made_comes_in_time() -> None:
    live = fresh()
    live.forecast("A", at(5))
    live.update(event("a", 5))
    live.forecast("A", at(6))
    with pytest.raises(
        ClockError,
        match=r"'b' revision 0 of 'A', available at .*05\.999999999Z.*forecast of it at 2020-01-01T00:00:06Z",
    ):
        live.update(event("b", 6 - 1e-9))
    live.update(event("b", 6))


def test_forecasts_may_go_back_as_long_as_nothing_is_hidden() -> None:
    live = fresh()
    live.update(event("a", 5))
    late = live.forecast("A", at(9))
    assert live.forecast("A", at(7)).info_hash == late.info_hash
    with pytest.raises(ClockError, match="00:00:09Z"):  # the later promise stands
        live.update(event("b", 8))


def test_a_hypothetical_forecast_promises_and_changes_nothing() -> None:
    live = fresh()
    live.update(event("a", 5))
    before = state(live)
    said = live.forecast("A", at(9), hypothetical=True)
    live.forecast_many(["A", "B"], at(9), hypothetical=True)
    assert state(live) == before
    assert live.update(event("b", 8)) is not None
    assert said.n_visible == 1


def test_what_market_wide_events_must_come_after() -> None:
    live = fresh()
    live.update(event("a", 5, "A"))
    live.forecast("B", at(4))
    with pytest.raises(
        ClockError, match=r"'m' .* of the market.*event 'a' revision 0 available at 2020-01-01T00:00:05Z"
    ):
        live.update(event("m", 4.5, None))
    live.forecast("B", at(8))
    with pytest.raises(ClockError, match="forecast of an entity at 2020-01-01T00:00:08Z"):
        live.update(event("m", 7, None))
    live.update(event("m", 8, None))
    with pytest.raises(ClockError, match="'m'"):  # of any entity, also one without events
        live.update(event("c", 7, "C"))
    assert live.update(event("n", 8, "C")) is not None  # behind m in the canonical order


KEYS = [
    (5, 5, "b", 1),
    (5, 5, "b", 2),
    (5, 5, "c", 0),
    (5, 4, "z", 0),
    (5, 6, "a", 0),
    (6, 0, "a", 1),
    (5, 5, "b", 0),
]


@pytest.mark.parametrize("late", KEYS)
@pytest.mark.parametrize("first", KEYS)
@pytest.mark.parametrize(("before", "after"), [("A", "A"), (None, "A"), ("A", None), (None, None)])
def test_the_canonical_order_decides_ties(
    first: tuple[int, int, str, int], late: tuple[int, int, str, int], before: str | None, after: str | None
) -> None:
    def made(key: tuple[int, int, str, int], entity: str | None) -> Event:
        available, happened, event_id, revision = key
        return Event(event_id, at(available), at(happened), entity, "news", revision, scheduled=True)

    live = fresh()
    live.update(made(first, before))
    untouched = state(live)
    if late > first:
        live.update(made(late, after))
        assert live.events_written == 2
    else:
        with pytest.raises(EventDataError if late == first else ClockError):
            live.update(made(late, after))
        assert state(live) == untouched


def test_a_late_event_of_another_entity_is_none() -> None:
    live = fresh()
    live.forecast("A", at(9))
    live.update(event("b", 2, "B"))
    with pytest.raises(ClockError):
        live.update(event("a", 2, "A"))


# --- nothing changes where something fails -----------------------------------------------------------------


def line(**fields: Any) -> dict[str, Any]:
    given_fields = {"event_id": "z", "available_at": at(9), "event_time": at(9), "kind": "news"}
    given_fields |= {"entity": None, **fields}
    return {name: value for name, value in given_fields.items() if value is not ...}


BAD: list[tuple[Any, type[Exception], str]] = [
    (event("a", 5), EventDataError, "'a' revision 0 has been written already"),
    (event("m", 6, None), EventDataError, "written already"),
    (event("z", 9, features={"xx": 1.0}), EventDataError, "did you mean 'x'"),
    (event("z", 6), ClockError, "'A'"),
    (event("z", 6.5, None), ClockError, "market"),
    (line(available_at="2020-01-01T00:00:09"), TimestampError, "zone"),
    (line(event_time=at(9) + 1), EventDataError, "after it"),
    (line(event_id=None), EventDataError, "null"),
    (line(x=math.nan), EventDataError, "nan"),
    (line(y="1"), EventDataError, "'y'"),
    (line(kind=...), EventDataError, "kind"),
    (17, EventDataError, "a int"),
    (line(entity=...), EventDataError, "lacks .'entity'"),
    (line(Ticker=None), EventDataError, "'Ticker' .*neither a field nor a feature"),
    (line(revision=None), EventDataError, "revision"),
]


@pytest.mark.parametrize(("bad", "error", "said"), BAD)
def test_a_bad_event_changes_nothing(bad: Any, error: type[Exception], said: str) -> None:
    live = fresh()
    live.update_many([event("a", 5), event("m", 6, None), event("b", 7, "B")])
    live.forecast("A", at(7))
    before = state(live)
    with pytest.raises(error, match=said):
        live.update(bad)
    with pytest.raises(error, match=said):
        live.update_many([event("good", 8), bad, event("better", 10)])
    assert state(live) == before
    live.update_many([event("good", 8), event("better", 10)])
    assert state(live) != before


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda frame: frame.drop("kind"), EventDataError, "kind"), (lambda frame:
        frame.with_columns(z=pl.lit(1.0)), EventDataError, "'z', first event_id"), (lambda frame:
        frame.with_columns(x=pl.lit(math.inf)), EventDataError, "'x' is not finite"), (lambda frame:
        frame.with_columns(event_id=pl.lit(None, pl.String)), EventDataError, "null"), (lambda frame:
        pl.concat([frame, frame]), EventDataError, "more than once"), (lambda frame:
        frame.with_columns(pl.col("available_at").dt.replace_time_zone(None)), EventDataError, "type"),
        (lambda frame: frame.with_columns(event_time=pl.col("available_at").dt.offset_by("1ns")),
        EventDataError, "happen after"), (lambda frame: frame.with_columns(entity=pl.lit(MARKET)),
        EventDataError, "rename"), (lambda frame: frame.reverse(), ClockError, "comes? after"),
    ],
)  # fmt: skip
def test_a_bad_frame_changes_nothing(
    change: Callable[[pl.DataFrame], pl.DataFrame], error: type[Exception], said: str
) -> None:
    frame = event_log([{"available": second, "x": 1.0} for second in (1, 2, 3)]).frame
    live = fresh()
    before = state(live)
    with pytest.raises(error, match=said):
        live.update_many(change(frame))
    assert state(live) == before


def test_features_that_no_event_has_and_such_that_are_not_there() -> None:
    log = event_log([{"available": second, "x": 1.0} for second in (1, 2)])
    wanted, live = fresh(), fresh()
    wanted.update_many(log)
    live.update_many(log.frame.drop("y").with_columns(z=pl.lit(None, pl.Float64)))
    assert state(live) == state(wanted)


def test_a_scheduled_event_of_a_log_is_taken() -> None:
    log = event_log([{"available": 1, "happened": 9}])
    live = fresh()
    assert live.update_many(log) == 1
    assert isinstance(log, EventLog)


@pytest.mark.parametrize(
    "events", ["a", b"a", 3, {"event_id": "a"}, event(), pd.DataFrame({"event_id": ["a"]})]
)
def test_what_is_no_collection_of_events(events: Any) -> None:
    with pytest.raises(UsageError, match="events is a"):
        fresh().update_many(events)


@pytest.mark.parametrize(
    ("entity", "moment", "error"),
    [
        ("A", at(5), ClockError),
        ("A", at(4), ClockError),
        ("A", "2020-01-01T00:00:09", TimestampError),
        ("A", None, TimestampError),
        (None, at(9), EventDataError),
        (3, at(9), EventDataError),
        ("\ud800", at(9), EventDataError),
    ],
)
def test_a_bad_forecast_changes_nothing(entity: Any, moment: Any, error: type[Exception]) -> None:
    live = fresh()
    live.update(event("a", 5))
    before = state(live)
    with pytest.raises(error):
        live.forecast(entity, moment)
    with pytest.raises(error):
        live.forecast_many(["B", entity], moment)
    assert state(live) == before
    live.update(event("b", 6, "B"))  # no promise was made


def test_forecasts_of_one_entity_twice() -> None:
    with pytest.raises(UsageError, match="all different"):
        fresh().forecast_many(["A", "B", "A"], at(1))


def test_a_full_cache_changes_nothing() -> None:
    live = world(0, "softmax").fitted.stream(cache=CachePolicy(initial=1, limit=3))
    live.update_many([event("a", 1), event("m", 2, None), event("b", 3, "B"), event("c", 4)])
    before = state(live)
    with pytest.raises(StateError, match="'A' would have 4 events"):
        live.update(event("d", 5))
    with pytest.raises(StateError, match="'A' would have 4 events"):
        live.update(event("m2", 5, None))
    with pytest.raises(StateError, match="'A' would have 4 events"):
        live.update_many([event("d", 5), event("e", 5, "B")])
    assert state(live) == before
    live.update(event("e", 5, "B"))


def test_one_that_was_broken_off_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fresh()
    live.update(event("a", 1))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(live.stream), "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.update(event("b", 2))
    for call in (
        lambda: live.update(event("c", 3)),
        lambda: live.update_many([event("c", 3)]),
        lambda: live.forecast("A", at(9)),
        lambda: live.forecast_many(["A"], at(9)),
        lambda: live.save("nowhere"),
    ):
        said = r"broken off while it wrote event 'b' available at 2020-01-01T00:00:02Z"
        with pytest.raises(StateError, match=said):
            call()


def test_an_interrupted_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    for method, few in (("write", 128), ("write_each", 0)):
        live = fresh()
        with monkeypatch.context() as patch:
            patch.setattr("quantattn.forecasters.streaming.forecaster._FEW", few)
            patch.setattr(type(live.stream), method, interrupted)
            with pytest.raises(KeyboardInterrupt):
                live.update_many([event("b", 2)])
        with pytest.raises(StateError, match="1 events up to 2020-01-01T00:00:02Z"):
            live.forecast("A", at(9))


# --- late events ------------------------------------------------------------------------------------------


def test_queued_events_are_dated_to_what_they_missed() -> None:
    live = fresh(late="queue")
    live.update(event("a", 5))
    live.forecast("A", at(9))
    written = live.update(event("b", 7))
    assert written is not None
    assert written.available_at == at(9)
    with pytest.raises(ClockError):
        live.forecast("A", at(9))  # it counts from here, and equality is not visible
    live.forecast("A", at(9) + 1)
    # Behind an event, at its instant where the order allows it and a nanosecond later where it does not.
    behind, before = event("b2", 6, event_time=at(8), scheduled=True), event("b1", 6, event_time=at(6))
    assert live.update(behind).available_at == at(9) + 1  # type: ignore[union-attr]
    assert live.update(before).available_at == at(9) + 2  # type: ignore[union-attr]
    assert live.update(event("c", 9, "B")).available_at == at(9)  # type: ignore[union-attr]
    table = live.late_events
    assert table["event_id"].to_list() == ["b", "b2", "b1"]
    assert table["available_at"].to_physical().to_list() == [at(7), at(6), at(6)]
    assert table["written_at"].to_physical().to_list() == [at(9), at(9) + 1, at(9) + 2]
    with pytest.raises(EventDataError, match="already"):
        live.update(event("b", 7))


def test_a_queued_market_event_waits_for_every_forecast() -> None:
    live = fresh(late="queue")
    live.update(event("a", 5, "A"))
    live.forecast("B", at(8))
    assert live.update(event("m", 2, None)).available_at == at(8)  # type: ignore[union-attr]
    assert live.update(event("c", 3, "C")).available_at == at(8)  # type: ignore[union-attr]
    assert live.update(event("d", 1, "C")).available_at == at(8) + 1  # type: ignore[union-attr]
    assert live.late_events["entity"].to_list() == [None, "C", "C"]


def test_options() -> None:
    with pytest.raises(UsageError, match="late='drop'"):
        fresh(late="drop")
    with pytest.raises(UsageError, match="remember=0"):
        fresh(remember=0)
    with pytest.raises(UsageError, match="depth=0"):
        fresh(book_depth=0)
    assert (fresh().late, fresh(late="queue").late) == ("refuse", "queue")


def test_only_so_many_ids_are_remembered() -> None:
    live = fresh(remember=2)
    live.update_many([event("a", 1), event("b", 2), event("c", 3)])
    with pytest.raises(EventDataError, match="already"):
        live.update(event("b", 4))
    live.update(event("a", 4))  # forgotten


# --- health, copies, checkpoints --------------------------------------------------------------------------


def test_health_is_checked_at_every_forecast() -> None:
    given_world = world(0)
    strict = given_world.fitted.stream(health=HealthPolicy(largest_state_norm=1e-3))
    strict.update(event("a", 1))
    before = state(strict)
    with pytest.raises(StateError, match=r"forecast of 'A' .*state norm"):
        strict.forecast("A", at(2))
    with pytest.raises(StateError, match=r"forecast of 'A' .*state norm"):
        strict.forecast_many(["A", "B"], at(2))
    assert state(strict) == before
    lenient = given_world.fitted.stream(health=HealthPolicy(largest_state_norm=1e-3, on_breach="flag"))
    lenient.update(event("a", 1))
    assert "state norm" in str(lenient.forecast("A", at(2)).flag)
    assert lenient.forecast_many(["A"], at(2))["flag"].to_list() == [lenient.forecast("A", at(2)).flag]
    assert fresh().forecast("A", at(2)).flag is None
    assert not lenient.health().healthy


@pytest.mark.parametrize("attention", TWINS)
def test_the_shadow_follows_events_however_they_come(attention: Attention) -> None:
    given_world = world(0, attention)
    policy = HealthPolicy(shadow=("A", "LATE"))
    single, many = (given_world.fitted.stream(health=policy) for _ in range(2))
    for one in events_of(given_world.log.frame, FEATURES):
        single.update(one)
    many.update_many(given_world.log)
    drifts = []
    for live in (single, many):
        for entity in ENTITIES:
            live.forecast(entity, at(99))
        drifts.append({row.entity: row.drift for row in live.health().rows})
    assert drifts[0].keys() == drifts[1].keys() == set(ENTITIES)
    for entity in ("A", "LATE"):
        assert 0 < drifts[0][entity] < 1e-3
        assert drifts[0][entity] == drifts[1][entity]
    assert math.isnan(drifts[0]["B"])


def test_from_checkpoint(tmp_path: Path) -> None:
    given_world = world(0, scope="entity")
    given_world.fitted.save(tmp_path)
    live = StreamingForecaster.from_checkpoint(tmp_path, late="queue")
    assert (live.scope, live.late) == ("entity", "queue")
    same(one_by_one(live, given_world), given_world.wanted)
    with pytest.raises(CheckpointError):
        StreamingForecaster.from_checkpoint(tmp_path / "nothing")


def test_warming_up_changes_nothing() -> None:
    live = fresh()
    live.update(event("a", 1))
    before = state(live)
    live.warm_up()
    assert state(live) == before


def test_out_of_scope_events_leave_no_trace() -> None:
    own, wide = (world(0, scope=scope).fitted.stream() for scope in ("entity", "market"))
    for live, left_out in ((own, None), (wide, "A")):
        before = state(live)
        assert live.update(event("a", 5, left_out)) is None
        assert live.update_many([event("b", 6, left_out)]) == 0
        assert state(live) == before
        with pytest.raises(EventDataError):  # checked all the same
            live.update(event("c", 5, left_out, features={"zz": 1.0}))


def test_denominators_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fresh()
    live.update(event("a", 1))

    def failing(*_: Any) -> None:
        raise DenominatorError("none")

    monkeypatch.setattr(type(live.stream), "read", failing)
    before = state(live)
    with pytest.raises(DenominatorError):
        live.forecast("A", at(2))
    assert state(live) == before


def test_revisions_beyond_what_is_remembered_are_said() -> None:
    events = [event("a", 1), event("b", 2), event("b", 3, event_time=at(2), revision=1, features={})]
    for depth in (1, 2):
        live = fresh(book_depth=depth)
        live.update_many(events)
        before = state(live)
        if depth == 1:
            with pytest.raises(StateError, match="larger book_depth than 1"):
                live.forecast_many(["B", "A"], at(9))
            with pytest.raises(StateError, match="larger book_depth than 1"):
                live.forecast("A", at(9))
            assert state(live) == before
            live.update(event("c", 4))
        assert live.forecast("A", at(9)).n_visible == (4 if depth == 1 else 3)


@pytest.mark.slow
@pytest.mark.parametrize("attention", TWINS)
def test_many_random_worlds(attention: Attention) -> None:
    for seed, (scope, count) in enumerate(
        [(scope, count) for scope in SCOPES for count in (40, 150, 300)] * 3
    ):
        given_world = world.__wrapped__(100 + seed, attention, scope, count=count)
        same(one_by_one(given_world.fitted.stream(book_depth=300), given_world), given_world.wanted)
        live = given_world.fitted.stream(book_depth=300)
        times = given_world.dataset.clock.times
        same(live.replay(given_world.log, times, entities=ENTITIES), given_world.wanted)
    assert all(before < after for before, after in pairwise(nanoseconds_of(times).tolist()))
