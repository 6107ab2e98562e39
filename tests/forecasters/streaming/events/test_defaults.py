"""A frame of events means what a list of mappings with the same values means."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from quantattn.errors import EventDataError, QuantAttnError, TimestampError
from quantattn.forecasters import StreamingForecaster
from quantattn.forecasters.streaming import forecaster as module
from tests.forecasters.streaming.live_runs import fitted_forecaster, log_of, state
from tests.pit.build import at

Row = dict[str, Any]


def fresh() -> StreamingForecaster:
    return fitted_forecaster().stream()


def rows(**more: Any) -> list[Row]:
    """Three events of two entities and the market, with what a mapping must have."""
    return [
        {"event_id": f"e{n}", "entity": entity, "kind": "news", "event_time": at(n), "available_at": at(n)}
        | more
        for n, entity in ((1, "A"), (2, None), (3, "B"))
    ]


def both(made: list[Row], frame: pl.DataFrame | None = None) -> None:
    """Send them as mappings and as a frame."""
    wanted, live = fresh(), fresh()
    assert wanted.update_many(made) == 3
    assert live.update_many(pl.DataFrame(made) if frame is None else frame) == 3
    assert state(live) == state(wanted)
    read = (live.forecast("A", at(9)), wanted.forecast("A", at(9)))
    assert (read[0].y_pred, read[0].info_hash) == (read[1].y_pred, read[1].info_hash)


@pytest.fixture(params=[0, 128], autouse=True)
def _by_table_and_one_by_one(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", request.param)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"revision": 0},
        {"revision": 7},
        {"text": None},
        {"text": "up"},
        {"x": 1.5},
        {"x": 2},
        {"x": None, "y": -0.0},
        {"scheduled": False},
        {"scheduled": True},
        {"revision": 1, "text": "down", "x": 1e-300, "y": 3, "scheduled": False},
    ],
)
def test_what_a_mapping_may_leave_out(more: Row) -> None:
    both(rows(**more))


@pytest.mark.parametrize(
    "when",
    [
        lambda n: datetime(2024, 1, n, tzinfo=UTC),
        lambda n: f"2024-01-0{n}T10:00:00.123456789+02:00",
        lambda n: at(n) + 1,
    ],
)
def test_instants_as_a_mapping_may_write_them(when: Callable[[int], Any]) -> None:
    made = [row | {"available_at": when(n), "event_time": when(n)} for n, row in enumerate(rows(), 1)]
    wanted, live = fresh(), fresh()
    wanted.update_many(made)
    live.update_many(pl.DataFrame(made))
    assert state(live) == state(wanted)


def test_another_zone_keeps_every_nanosecond() -> None:
    frame = pl.DataFrame(rows())
    times = pl.col("event_time", "available_at").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    frame = frame.with_columns(times.dt.offset_by("1ns").dt.convert_time_zone("America/New_York"))
    both([row | {"event_time": row["event_time"] + 1, "available_at": row["available_at"] + 1}
          for row in rows()], frame)  # fmt: skip


def test_only_market_wide_events() -> None:
    both([row | {"entity": None} for row in rows()])


def test_a_scheduled_event_happens_later_and_another_does_not() -> None:
    later = [row | {"event_time": row["event_time"] + 5, "scheduled": True} for row in rows()]
    both(later)
    for marks in ([True, False, True], [True, None, True]):
        live = fresh()
        before = state(live)
        with pytest.raises(EventDataError, match=r"1 events happen after .* 'e2' .*mark them in a column"):
            live.update_many(pl.DataFrame(later).with_columns(scheduled=pl.Series(marks)))
        assert state(live) == before


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda frame: frame.drop("entity"), EventDataError, "'entity'.*null for market-wide"),
        (lambda frame: frame.drop("kind"), EventDataError, "kind"),
        (lambda frame: frame.drop("event_id"), EventDataError, "event_id"),
        (lambda frame: frame.drop("available_at"), EventDataError, "available_at"),
        (lambda frame: frame.with_columns(kind=pl.lit(None)), EventDataError, "'kind' of the events is null"),
        (lambda frame: frame.with_columns(revision=pl.lit(2**31)), EventDataError, "beyond Int32"),
        (lambda frame: frame.with_columns(revision=pl.lit(-1)), EventDataError, "negative"),
        (lambda frame: frame.with_columns(revision=pl.lit(0.0)), EventDataError, "type Float64, not Int32"),
        (lambda frame: frame.with_columns(revision=pl.lit(None)), EventDataError, "null"),
        (lambda frame: frame.with_columns(x=pl.lit("a")), EventDataError, "type String, not Float64"),
        (lambda frame: frame.with_columns(x=pl.lit(True)), EventDataError, "type Boolean, not Float64"),
        (lambda frame: frame.with_columns(xx=pl.lit(1)), EventDataError, "feature 'xx'.*did you mean 'x'"),
        (lambda frame: frame.with_columns(scheduled=pl.lit("no")), EventDataError, "type String"),
        (lambda frame: frame.with_columns(event_time=pl.lit("2024-01-02T00:00:00")), TimestampError, "zone"),
        (lambda frame: frame.with_columns(event_time=pl.lit("soon")), TimestampError, "event_time"),
        (
            lambda frame: frame.with_columns(event_time=pl.lit(datetime(2024, 1, 1))),
            EventDataError,
            "type Datetime",
        ),
        (
            lambda frame: frame.with_columns(event_time=pl.lit(datetime(2500, 1, 1, tzinfo=UTC))),
            TimestampError,
            "2262",
        ),
    ],
)
def test_what_no_default_can_stand_for(
    change: Callable[[pl.DataFrame], pl.DataFrame], error: type[QuantAttnError], said: str
) -> None:
    live = fresh()
    before = state(live)
    with pytest.raises(error, match=said):
        live.update_many(change(pl.DataFrame(rows())))
    assert state(live) == before


def test_a_whole_log_is_taken_as_it_is_and_none_of_nothing() -> None:
    live = fresh()
    assert live.update_many(log_of([])) == 0
    assert live.update_many(pl.DataFrame(rows()).head(0)) == 0
