"""Events at the door: every time, text and figure in one form, or an error that names it."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from quantattn.errors import EventDataError, TimestampError
from quantattn.forecasters import Event
from quantattn.forecasters.streaming.events.event import (
    MARKET,
    events_of,
    instant,
    named_entity,
    near_instant,
)
from tests.forecasters.streaming.worlds import FEATURES, random_log
from tests.pit.build import at, event_log

NOON = 1_732_881_600_000_000_000  # 2024-11-29T12:00:00Z


def event(**fields: Any) -> Event:
    given = {"event_id": "n1", "available_at": at(5), "event_time": at(4), "entity": "A", "kind": "news"}
    return Event(**{**given, **fields})


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        np.int64(NOON),
        "2024-11-29T12:00:00Z",
        "2024-11-29 12:00Z",
        "2024-11-29T07:00:00-05:00",
        "2024-11-29T17:30:00+0530",
        "2024-11-29T12:00:00.000000000z",
        datetime(2024, 11, 29, 12, tzinfo=UTC),
        datetime(2024, 11, 29, 7, tzinfo=timezone(timedelta(hours=-5))),
        pd.Timestamp("2024-11-29 13:00", tz="Europe/Berlin"),
        np.datetime64("2024-11-29T12:00"),
    ],
)
def test_one_instant_in_all_its_forms(value: Any) -> None:
    assert instant(value, "at") == NOON
    made = event(available_at=value, event_time=value)
    assert (made.available_at, made.event_time) == (NOON, NOON)
    assert type(made.available_at) is int


@pytest.mark.parametrize(
    ("value", "more"),
    [
        ("2024-11-29T12:00:00.123456789Z", 123_456_789),
        ("2024-11-29T12:00:00.1Z", 100_000_000),
        ("2024-11-29T12:00:00,000000001Z", 1),
        (pd.Timestamp(NOON + 7, tz="UTC"), 7),
        (datetime(2024, 11, 29, 12, microsecond=3, tzinfo=UTC), 3_000),
        ("2024-11-29T11:59:59.999999999Z", -1),
    ],
)
def test_nanoseconds_are_kept(value: Any, more: int) -> None:
    assert instant(value, "at") == NOON + more


def test_instants_before_the_epoch() -> None:
    assert instant("1969-12-31T23:59:59.5Z", "at") == -500_000_000
    assert instant(datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), "at") == -500_000_000


@pytest.mark.parametrize(
    "value",
    [
        "2024-11-29T12:00:00",
        "2024-11-29",
        datetime(2024, 11, 29),
        pd.Timestamp("2024-11-29"),
        date(2024, 11, 29),
        None,
        pd.NaT,
        np.datetime64("NaT"),
        1.5e18,
        True,
        "soon",
        "",
        "2024-02-30T12:00:00Z",
        "2024-11-29T12:00:60Z",
        "2024-11-29T25:00:00Z",
        "2024-11-29T12:00:00.1234567891Z",
        "2024-11-29T12:00:00+24:00",
        "２０２４-11-29T12:00:00Z",
        "9999-11-29T12:00:00Z",
        "0001-01-01T00:00:00+14:00",
        datetime(9999, 1, 1, tzinfo=UTC),
        2**63,
        -(2**63),
    ],
)
def test_what_is_no_certain_instant_is_refused(value: Any) -> None:
    with pytest.raises(TimestampError, match="at"):
        instant(value, "at")
    with pytest.raises(TimestampError, match="available_at of event 'n1'"):
        event(available_at=value)
    with pytest.raises(TimestampError, match="event_time of event 'n1'"):
        event(event_time=value)


def test_an_event_happens_before_it_is_known() -> None:
    assert event(available_at=at(5), event_time=at(5)).event_time == at(5)
    said = r"'n1' happens at 2020-01-01T00:00:05\.000000001Z, after .*:05Z"
    with pytest.raises(EventDataError, match=said):
        event(available_at=at(5), event_time=at(5) + 1)
    assert event(available_at=at(5), event_time=at(5) + 1, scheduled=True).scheduled


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"event_id": None}, "event_id .* is null"),
        ({"event_id": 7}, "event_id .* is a int"),
        ({"kind": None}, "kind of event 'n1' is null"),
        ({"entity": 3}, "entity of event 'n1' is a int"),
        ({"entity": MARKET}, "keep for themselves"),
        ({"text": b"x"}, "text of event 'n1' is a bytes"),
        ({"text": "half \ud800"}, "surrogate"),
        ({"event_id": "\udfff"}, "surrogate"),
        ({"revision": -1}, "revision .* -1"),
        ({"revision": 2**31}, "revision"),
        ({"revision": 1.0}, "revision"),
        ({"revision": None}, "revision"),
        ({"features": None}, "features of event 'n1' are a NoneType"),
        ({"features": [1.0]}, "features"),
        ({"features": {1: 1.0}}, "named 1"),
        ({"features": {"x": float("nan")}}, "'x' of event 'n1' is nan"),
        ({"features": {"x": float("-inf")}}, "'x' .* -inf"),
        ({"features": {"x": 10**400}}, "too large"),
        ({"features": {"x": "1.0"}}, "not a number"),
        ({"features": {"x": np.float32("nan")}}, "not a finite"),
        ({"scheduled": 1}, "scheduled"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(EventDataError, match=said):
        event(**fields)


def test_figures_have_one_form() -> None:
    made = event(features={"a": -0.0, "b": None, "c": np.float32(0.5), "d": 3, "e": True})
    assert made.features == {"a": 0.0, "c": 0.5, "d": 3.0, "e": 1.0}
    assert np.signbit(made.features["a"]) == np.False_
    assert all(type(value) is float for value in made.features.values())


def test_texts_of_numpy() -> None:
    names = np.array(["n1", "A", "news", "up"])
    made = event(event_id=names[0], entity=names[1], kind=names[2], text=names[3])
    assert made == event(text="up")
    assert all(type(getattr(made, name)) is str for name in ("event_id", "entity", "kind", "text"))


def test_what_was_given_is_not_shared() -> None:
    figures = {"x": 1.0}
    made = event(features=figures)
    figures["x"] = 2.0
    assert made.features == {"x": 1.0}


def test_mappings() -> None:
    nested = {
        "event_id": "n1",
        "available_at": "2024-11-29T12:00:00Z",
        "event_time": "2024-11-29T12:00:00Z",
        "kind": "news",
        "entity": "A",
        "features": {"x": 1.5},
    }
    flat = {**{name: value for name, value in nested.items() if name != "features"}, "x": 1.5, "y": None}
    assert (
        Event.from_mapping(nested)
        == Event.from_mapping(flat)
        == event(available_at=NOON, event_time=NOON, features={"x": 1.5})
    )
    assert Event.from_mapping({**nested, "entity": None}).entity is None
    assert Event.from_mapping(flat, features=("y", "x")) == Event.from_mapping(nested)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"entity": ...}, r"lacks \['entity'\]; .*entity=None is a market-wide event"),
        ({"revision": None}, "revision of event 'n1' is None"),
        ({"scheduled": None}, "scheduled"),
        ({"event_id": ...}, r"lacks \['event_id'\]"),
        ({"kind": ...}, r"lacks \['kind'\]"),
        ({"txt": "up"}, r"'txt' .*is 'up'.*did you mean 'text'"),
        ({"features": 3}, "features"),
        ({"features": {"x": 1.0}, "x": 2.0}, "'x' .*stands there twice"),
    ],
)
def test_bad_mappings(fields: dict[str, Any], said: str) -> None:
    given = {"event_id": "n1", "available_at": NOON, "event_time": NOON, "kind": "news", "entity": "A"}
    given |= fields
    with pytest.raises(EventDataError, match=said):
        Event.from_mapping({name: value for name, value in given.items() if value is not ...})
    with pytest.raises(EventDataError, match="a list"):
        Event.from_mapping([])  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 1.0])
def test_keys_that_are_neither_fields_nor_features(value: Any) -> None:
    given = {"event_id": "n1", "available_at": NOON, "event_time": NOON, "kind": "news", "entity": "A"}
    for name, near in (("Entity", "entity"), ("xx", "xxx")):
        with pytest.raises(EventDataError, match=f"'{name}' .*neither .*did you mean '{near}'"):
            Event.from_mapping({**given, name: value}, features=("xxx", "y"))
    assert Event.from_mapping({**given, "xxx": None}, features=("xxx",)).features == {}


@pytest.mark.parametrize("unit", ["D", "W", "M", "Y"])
def test_a_date_of_numpy_is_not_a_time(unit: str) -> None:
    date = np.datetime64("2024-11-29").astype(f"M8[{unit}]")
    for name in ("available_at", "event_time"):
        with pytest.raises(TimestampError, match=rf"{name} of event 'n1'=.* is a date"):
            event(**{name: date})
    assert instant(np.datetime64("2024-11-29T12", "h"), "at") == NOON


@pytest.mark.parametrize("moment", [2**62, -(2**62), 2**63 - 1])
def test_instants_that_must_be_near(moment: int) -> None:
    with pytest.raises(TimestampError, match=r"at=.* more than 146 years from 1970"):
        near_instant(moment, "at")
    for near in (2**62 - 1, 1 - 2**62):
        assert near_instant(near, "at") == near


@pytest.mark.parametrize("name", ["\0market", "a\0", "\0"])
def test_names_with_nul(name: str) -> None:
    with pytest.raises(EventDataError, match="NUL"):
        event(entity=name)
    with pytest.raises(EventDataError, match="NUL"):
        named_entity(name)


def test_figures_stay_as_they_were_checked() -> None:
    made = event(features={"x": 1.0})
    for change in (lambda it: it.__setitem__("x", math.nan), lambda it: it.clear()):
        with pytest.raises((TypeError, AttributeError)):
            change(made.features)
    assert made.features == {"x": 1.0}
    for copied in (copy.deepcopy(made), copy.copy(made), replace(made)):
        assert copied == made
    assert hash(made) == hash(event(features={"x": 1.0}))


def test_rows_of_a_log() -> None:
    log = random_log(0)
    made = list(events_of(log.frame, FEATURES))
    assert [one.key for one in made] == sorted(one.key for one in made)
    for one, row in zip(made, log.frame.iter_rows(named=True), strict=True):
        assert (one.event_id, one.revision, one.entity, one.kind, one.text) == tuple(
            row[name] for name in ("event_id", "revision", "entity", "kind", "text")
        )
        assert one.features == {name: row[name] for name in FEATURES if row[name] is not None}
    ahead = event_log([{"available": 1, "happened": 9}])
    assert next(events_of(ahead.frame, FEATURES)).scheduled


def test_moved() -> None:
    made = event(features={"x": 1.0}, text="up")
    later = made.moved_to(at(9))
    assert later.key == (at(9), at(4), "n1", 0)
    assert (later.features, later.text, later.entity) == (made.features, made.text, made.entity)
