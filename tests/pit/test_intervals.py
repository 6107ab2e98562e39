"""Forecasts at fixed intervals and after events."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import CalendarError, TimestampError, UsageError
from quantattn.pit import ForecastClock, TradingCalendar
from tests.pit.build import at, event_log, instant, times


def told(clock: ForecastClock) -> list[int]:
    return clock.times.to_physical().to_list()


def texts(clock: ForecastClock) -> list[str]:
    return [f"{stamp:%d %H:%M}" for stamp in clock.times]


def test_real_time_steps_from_the_start_to_the_end_inclusive() -> None:
    clock = ForecastClock.every("20min", start="2020-01-01T00:10Z", end="2020-01-01T00:50Z")
    assert texts(clock) == ["01 00:10", "01 00:30", "01 00:50"]
    assert len(ForecastClock.every("20min", start="2020-01-01T00:10Z", end="2020-01-01T00:49:59Z")) == 2
    one = ForecastClock.every(
        "1ns", start=pd.Timestamp(at(0), tz="UTC"), end=pd.Timestamp(at(0) + 2, tz="UTC")
    )
    assert told(one) == [at(0), at(0) + 1, at(0) + 2]
    tokyo = datetime(2020, 1, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert texts(ForecastClock.every("1D", start=tokyo, end=tokyo + timedelta(days=1))) == [
        "01 00:00",
        "02 00:00",
    ]


def test_a_wall_clock_keeps_its_hour_when_the_clocks_change() -> None:
    clock = ForecastClock.every(
        "1D", start="2021-03-13T09:00", end="2021-03-15", time_zone="America/New_York"
    )
    assert texts(clock) == ["13 14:00", "14 13:00", "15 13:00"]
    real = ForecastClock.every("1D", start="2021-03-13T14:00Z", end="2021-03-15T23:00Z")
    assert texts(real) == ["13 14:00", "14 14:00", "15 14:00"]


@pytest.mark.parametrize(("day", "hours"), [("2021-03-14", 23), ("2021-11-07", 25), ("2021-07-01", 24)])
def test_every_hour_of_a_daylight_saving_night(day: str, hours: int) -> None:
    clock = ForecastClock.every("1h", start=day, end=day, time_zone="America/New_York")
    assert len(clock) == hours
    assert set(clock.times.diff().drop_nulls()) == {timedelta(hours=1)}


def test_a_wall_time_that_a_night_skips_or_repeats() -> None:
    # 02:30 does not exist in New York on 2021-03-14; 01:30 comes twice on 2021-11-07.
    skipped = ForecastClock.every(
        "1D", start="2021-03-13T02:30", end="2021-03-15", time_zone="America/New_York"
    )
    assert texts(skipped) == ["13 07:30", "15 06:30"]
    daily = ForecastClock.every(
        "1D", start="2021-11-06T01:30", end="2021-11-08", time_zone="America/New_York"
    )
    assert texts(daily) == ["06 05:30", "07 05:30", "08 06:30"]
    hourly = ForecastClock.every(
        "12h", start="2021-11-07T01:30", end="2021-11-07", time_zone="America/New_York"
    )
    assert texts(hourly) == ["07 05:30", "07 06:30", "07 18:30"]
    # A bound with its zone is an instant: the second 01:30.
    second = ForecastClock.every(
        "30min", start="2021-11-07T06:30Z", end="2021-11-07T07:00Z", time_zone="America/New_York"
    )
    assert texts(second) == ["07 06:30", "07 07:00"]
    # Half an hour on Lord Howe Island.
    assert (
        len(
            ForecastClock.every(
                "30min", start="2021-04-04", end="2021-04-04", time_zone="Australia/Lord_Howe"
            )
        )
        == 49
    )
    assert (
        len(ForecastClock.every("1h", start="2105-11-01", end="2105-11-01", time_zone="America/New_York"))
        == 25
    )


def test_within_sessions_half_days_and_holidays_count() -> None:
    clock = ForecastClock.every("90min", start="2019-11-27", end="2019-11-29", calendar="XNYS")
    # From midnight in New York: 09:00 is too early, 16:30 too late; the 29th closes at 13:00.
    assert texts(clock) == ["27 15:30", "27 17:00", "27 18:30", "27 20:00", "29 15:30", "29 17:00"]
    edges = ForecastClock.every("30min", start="2019-11-29T14:00Z", end="2019-11-29T18:30Z", calendar="XNYS")
    assert (texts(edges)[0], texts(edges)[-1]) == ("29 14:30", "29 17:30")
    always = ForecastClock.every("12h", start="1900-02-28", end="1900-03-01", calendar="24/7")
    assert len(always) == 4


@settings(max_examples=40, deadline=None)
@given(
    calendar=st.sampled_from(["XNYS", "XLON", "XHKG", "CMES", "24/7"]),
    offset=st.integers(0, 300),
    length=st.integers(0, 4),
    minutes=st.sampled_from([7, 30, 60, 390, 1440]),
)
def test_intervals_within_sessions_equal_a_loop(
    calendar: str, offset: int, length: int, minutes: int
) -> None:
    start = datetime(2021, 1, 1, tzinfo=UTC) + timedelta(days=offset, hours=offset % 24)
    end = start + timedelta(days=length, hours=5)
    hours = TradingCalendar(calendar).sessions(
        start.date() - timedelta(days=3), end.date() + timedelta(days=3)
    )
    expected = []
    moment = start
    while moment <= end:
        if any(opens <= moment < closes for _, opens, closes in hours.iter_rows()):
            expected.append(moment)
        moment += timedelta(minutes=minutes)
    if expected:
        clock = ForecastClock.every(f"{minutes}min", start=start, end=end, calendar=calendar)
        assert clock.times.to_list() == expected
    else:
        with pytest.raises(UsageError, match="no forecast"):
            ForecastClock.every(f"{minutes}min", start=start, end=end, calendar=calendar)


@settings(max_examples=60, deadline=None)
@given(
    zone=st.sampled_from(["America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Tokyo"]),
    night=st.sampled_from(
        [date(2021, 3, 13), date(2021, 3, 27), date(2021, 4, 3), date(2021, 10, 30), date(2021, 11, 6)]
    ),
    minutes=st.sampled_from([10, 30, 45, 720, 1440, 1500]),
    at_minute=st.integers(0, 1439),
)
def test_wall_clock_steps_equal_a_loop(zone: str, night: date, minutes: int, at_minute: int) -> None:
    wall = datetime(night.year, night.month, night.day) + timedelta(minutes=at_minute)
    end = wall + timedelta(days=2)
    expected = set()
    moment = wall
    while moment <= end:
        for fold in (0, 1) if minutes < 1440 else (0,):
            stamp = moment.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)
            if stamp.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment:
                expected.add(stamp)
        moment += timedelta(minutes=minutes)
    clock = ForecastClock.every(f"{minutes}min", start=wall, end=end, time_zone=zone)
    assert clock.times.to_list() == sorted(expected)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"interval": "0s"}, UsageError, "interval='0s' is not positive"),
    ({"interval": "-1h"}, UsageError, "not positive"),
    ({"interval": "30"}, TimestampError, "interval='30'"),
    ({"interval": "1ns"}, UsageError, "are too many; lengthen interval="),
    ({"start": "2020-01-03Z"}, TimestampError, "start="),
    ({"start": "2020-01-04"}, UsageError, "start=2020-01-04 is later than end=2020-01-03; swap"),
    ({"start": "2020-01-01T00:00", "time_zone": None}, TimestampError, "has no zone.*time_zone="),
    ({"time_zone": None}, TimestampError, "is a date, which begins at another instant in every zone"),
    ({"time_zone": "Nowhere"}, TimestampError, "time_zone='Nowhere'"),
    ({"start": None}, TimestampError, "start=None is not a time"),
    ({"end": pd.NaT}, TimestampError, "end=NaT is not a time"),
    ({"end": "soon"}, TimestampError, "end='soon' is not a time"),
    ({"calendar": "MOON", "time_zone": None}, CalendarError, "MOON"),
    ({"start": "1900-01-01", "end": "1900-01-02", "calendar": "XNYS"}, CalendarError, "from 1970-01-01"),
    (
        {"start": "2020-01-04", "end": "2020-01-05", "calendar": "XNYS"},
        UsageError,
        "within a session of 'XNYS'",
    ),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_bad_intervals(options: dict[str, Any], error: type[Exception], words: str) -> None:
    given_: dict[str, Any] = {
        "interval": "1h",
        "start": "2020-01-02",
        "end": "2020-01-03",
        "time_zone": "UTC",
    }
    given_.update(options)
    with pytest.raises(error, match=words):
        ForecastClock.every(given_.pop("interval"), **given_)


def test_a_forecast_after_each_event_sees_it() -> None:
    log = event_log([{"available": 5}, {"available": 3}, {"available": 5, "entity": "B"}])
    clock = ForecastClock.at_events(log)
    assert told(clock) == [at(3) + 1, at(5) + 1]
    assert [len(log.as_of(t)) for t in told(clock)] == [1, 3]
    assert [len(log.as_of(t - 1)) for t in told(clock)] == [0, 1]
    assert told(ForecastClock.at_events(log, delay="2s")) == [at(5), at(7)]
    same = ForecastClock.at_events(times([3, 5, 5]), delay=timedelta(seconds=1))
    assert told(same) == [at(4), at(6)]
    assert told(ForecastClock.at_events(["2020-01-01T00:00:03Z"])) == [at(3) + 1]


def test_events_that_give_no_forecast() -> None:
    for delay in ("0s", "-1s"):
        with pytest.raises(
            UsageError, match=f"delay='{delay}' is not positive: an event is visible strictly after"
        ):
            ForecastClock.at_events(times([1]), delay=delay)
    with pytest.raises(UsageError, match="no event"):
        ForecastClock.at_events(event_log([{"available": 5}]).as_of(0))
    with pytest.raises(TimestampError, match="no zone"):
        ForecastClock.at_events([datetime(2020, 1, 1)])
    with pytest.raises(TimestampError, match=r"delay of .* out of the range"):
        ForecastClock.at_events(["2262-04-11T00:00Z"], delay="2D")


def test_a_lazy_frame_of_events_is_read() -> None:
    class Scanned:
        frame = event_log([{"available": 5}]).frame.lazy()

    assert told(ForecastClock.at_events(Scanned())) == [at(5) + 1]  # type: ignore[arg-type]
    assert instant("2020-01-01T00:00:05") == at(5)
    assert isinstance(Scanned.frame, pl.LazyFrame)
