from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pandas as pd
import polars as pl
import pytest

from quantattn.errors import CalendarError, TimestampError, UsageError
from quantattn.pit import TIME, ForecastClock, TradingCalendar

from .build import at, instant, times


def told(clock: ForecastClock) -> list[int]:
    return clock.times.to_physical().to_list()


def test_fifteen_minutes_before_the_close_on_a_half_day() -> None:
    clock = ForecastClock.sessions(start="2019-11-27", end="2019-12-02")
    assert told(clock) == [
        instant("2019-11-27T20:45"),
        instant("2019-11-29T17:45"),  # closes at 13:00 in New York
        instant("2019-12-02T20:45"),
    ]
    assert clock.times.dtype == TIME


def test_open_and_wall_time_follow_daylight_saving() -> None:
    opens = ForecastClock.sessions(start="2021-03-12", end="2021-03-15", at="open", offset="0s")
    assert told(opens) == [instant("2021-03-12T14:30"), instant("2021-03-15T13:30")]
    noon = ForecastClock.sessions(start="2021-03-12", end="2021-03-15", at="12:00", offset="1min")
    assert told(noon) == [instant("2021-03-12T17:01"), instant("2021-03-15T16:01")]
    london = ForecastClock.sessions(
        start="2021-03-26", end="2021-03-29", at="08:00", offset="0s", time_zone="Europe/London"
    )
    assert told(london) == [instant("2021-03-26T08:00"), instant("2021-03-29T07:00")]


def test_the_last_session_of_each_week() -> None:
    # Good Friday 2020-04-10 is closed; the week of 2020-04-20 goes on beyond the end.
    clock = ForecastClock.sessions(start="2020-04-01", end="2020-04-23", every="week", offset="0s")
    assert told(clock) == [instant(f"2020-04-{day}T20:00") for day in ("03", "09", "17")]
    # An end on the Thursday before Good Friday ends its week, as the calendar knows.
    short = ForecastClock.sessions(start="2020-04-06", end="2020-04-09", every="week", offset="0s")
    assert told(short) == [instant("2020-04-09T20:00")]


def test_weeks_are_iso_weeks_over_new_year() -> None:
    clock = ForecastClock.sessions(start="2019-12-23", end="2020-01-10", every="week", offset="0s")
    assert [stamp.date() for stamp in clock.times] == [
        date(2019, 12, 27),
        date(2020, 1, 3),
        date(2020, 1, 10),
    ]
    # 2018-12-31 belongs to the first ISO week of 2019, which also calls itself week 1 as 2018-01-02 does.
    other = ForecastClock.sessions(start="2018-01-02", end="2019-01-04", every="week", offset="0s")
    assert len(other) == 53


def test_the_last_session_of_each_month() -> None:
    clock = ForecastClock.sessions(start="2020-05-15", end="2020-08-30", every="month", offset="0s")
    assert [stamp.date() for stamp in clock.times] == [
        date(2020, 5, 29),
        date(2020, 6, 30),
        date(2020, 7, 31),
    ]
    assert ForecastClock.sessions(start="2020-08-03", end="2020-08-31", every="month").times.len() == 1


@pytest.mark.parametrize("every", ["week", "month"])
def test_last_sessions_equal_a_loop_over_the_days(every: str) -> None:
    days = TradingCalendar("XNYS").sessions(date(2015, 1, 1), date(2019, 12, 31))["session"].to_list()
    kept = []
    for day, following in pairwise(days):
        if day > date(2019, 6, 12):
            break
        same = (
            day.isocalendar()[:2] == following.isocalendar()[:2]
            if every == "week"
            else (day.year, day.month) == (following.year, following.month)
        )
        if not same:
            kept.append(day)
    clock = ForecastClock.sessions(start=date(2015, 1, 1), end=date(2019, 6, 12), at="12:00", every=every)  # type: ignore[arg-type]
    assert [stamp.date() for stamp in clock.times] == kept


@pytest.mark.parametrize(
    ("every", "start", "end", "kept"),
    [
        # Closed from Tuesday 2001-09-11 on, which nobody knew on Monday.
        ("week", "2001-09-04", "2001-09-21", [date(2001, 9, 7), date(2001, 9, 21)]),
        # Closed on Monday 2012-10-29 and on Tuesday: the Friday of that week took place.
        ("week", "2012-10-22", "2012-11-02", [date(2012, 10, 26), date(2012, 11, 2)]),
        # Closed on Friday 2004-06-11 for a state funeral, announced in the week before.
        ("week", "2004-06-01", "2004-06-18", [date(2004, 6, 4), date(2004, 6, 18)]),
        ("month", "2012-10-01", "2012-11-30", [date(2012, 10, 31), date(2012, 11, 30)]),
    ],
)
def test_closures_out_of_schedule_do_not_move_the_last_session(
    every: Any, start: str, end: str, kept: list[date]
) -> None:
    clock = ForecastClock.sessions(start=start, end=end, every=every)
    assert [stamp.date() for stamp in clock.times] == kept


def test_no_forecast_in_a_period_that_unscheduled_closures_end() -> None:
    with pytest.raises(UsageError, match="no week"):
        ForecastClock.sessions(start="2001-09-10", end="2001-09-16", every="week")


def test_an_offset_does_not_wrap_around_the_range() -> None:
    with pytest.raises(TimestampError, match=r"offset of 90000 days .* out of the range"):
        ForecastClock.sessions(start="2020-01-02", end="2020-01-03", offset="90000D")


def test_another_calendar() -> None:
    clock = ForecastClock.sessions("XLON", start="2019-12-23", end="2019-12-27", offset="0s")
    assert told(clock) == [
        instant("2019-12-23T16:30"),
        instant("2019-12-24T12:30"),
        instant("2019-12-27T16:30"),
    ]


def test_where_the_calendar_ends_the_last_period_is_left_out() -> None:
    # Calendars with holidays reach to 2200: whether its last week goes on is not known.
    clock = ForecastClock.sessions(start="2200-12-15", end="2200-12-31", every="week")
    assert [stamp.date() for stamp in clock.times] == [date(2200, 12, 19), date(2200, 12, 26)]


def test_explicit_times_are_sorted_and_distinct() -> None:
    mixed = [
        datetime(2020, 1, 2, 12, tzinfo=UTC),
        pd.Timestamp("2020-01-01", tz="America/New_York"),
        "2020-01-02T13:00:00+01:00",
        pd.Timestamp(at(1), tz="UTC"),
    ]
    expected = [at(1), instant("2020-01-01T05:00"), instant("2020-01-02T12:00")]
    assert told(ForecastClock.explicit(mixed)) == expected
    for same in (
        times([5, 3, 5]),
        times([5, 3, 5]).dt.convert_time_zone("Asia/Tokyo").cast(pl.Datetime("ms", "Asia/Tokyo")),
        pd.DatetimeIndex([at(5), at(3), at(5)], tz="UTC"),
        pd.Series(pd.DatetimeIndex([at(5), at(3)], tz="Asia/Tokyo")),
    ):
        assert told(ForecastClock.explicit(same)) == [at(3), at(5)]


def test_nanoseconds_are_kept() -> None:
    stamps = [pd.Timestamp(at(1) + shift, tz="UTC") for shift in (1, 0)]
    assert told(ForecastClock.explicit(stamps)) == [at(1), at(1) + 1]


def test_cut_keeps_forecasts_at_the_instant() -> None:
    clock = ForecastClock(times([1, 2, 3]))
    assert told(clock.cut(at(2))) == [at(1), at(2)]
    assert told(clock.cut(at(2) - 1)) == [at(1)]
    assert len(clock.cut(0)) == 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"every": "day"}, UsageError, "every='day'"),
        ({"at": "noon"}, UsageError, "at='noon'"),
        ({"at": "24:00"}, UsageError, "at='24:00'"),
        ({"at": "9:30"}, UsageError, "at='9:30'"),
        ({"time_zone": "UTC"}, UsageError, "time_zone='UTC' is read only with a wall time"),
        ({"at": "12:00", "time_zone": "Paris"}, TimestampError, "time_zone='Paris'"),
        ({"offset": "15"}, TimestampError, "offset='15'"),
        ({"start": "2020-02-01"}, UsageError, "start=2020-02-01 is later than end=2020-01-31"),
        ({"start": "1/2/2020"}, UsageError, "start='1/2/2020' is not a date"),
        ({"start": datetime(2020, 1, 1, 5)}, UsageError, "is a time"),
        ({"end": None}, UsageError, "end=None"),
        ({"start": "2020-01-04", "end": "2020-01-05"}, UsageError, "no session"),
        ({"calendar": "NOWHERE"}, CalendarError, "NOWHERE"),
        ({"calendar": "NOWHERE", "at": "12:00"}, CalendarError, "NOWHERE"),
        ({"calendar": "NOWHERE", "every": "week"}, CalendarError, "NOWHERE"),
    ],
)
def test_bad_requests(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ForecastClock.sessions(**{"start": "2020-01-01", "end": "2020-01-31", **options})


def test_wall_times_that_do_not_exist_are_refused() -> None:
    # The round-the-clock calendar has a session on the night when New York's clocks go forward.
    with pytest.raises(TimestampError, match=r"repeats or skips.*2021-03-14 02:30"):
        ForecastClock.sessions(
            "24/7", start="2021-03-10", end="2021-03-20", at="02:30", time_zone="America/New_York"
        )


@pytest.mark.parametrize(
    "stamps",
    [
        [datetime(2020, 1, 1)],
        ["2020-01-01"],
        [date(2020, 1, 1)],
        [pd.NaT],
        [None],
        ["soon"],
        [1_577_836_800],
        pl.Series([datetime(2020, 1, 1)]),
        pl.Series([datetime(2020, 1, 1, tzinfo=UTC), None]),
        pl.Series([date(2020, 1, 1)]),
        pd.DatetimeIndex(["2020-01-01"]),
    ],
)
def test_explicit_times_need_a_zone(stamps: Any) -> None:
    with pytest.raises(TimestampError, match="times"):
        ForecastClock.explicit(stamps)


def test_the_constructor_takes_rising_instants_alone() -> None:
    for wrong in (times([2, 1]), times([1, 1]), times([1]).dt.replace_time_zone(None), [at(1)]):
        with pytest.raises(TimestampError):
            ForecastClock(wrong)  # type: ignore[arg-type]


def test_repr_names_the_span() -> None:
    assert repr(ForecastClock(times([1, 2]))) == (
        "ForecastClock(2 forecasts, 2020-01-01T00:00:01Z to 2020-01-01T00:00:02Z)"
    )


def test_what_is_no_list_of_times_is_refused() -> None:
    for wrong in (None, 5, "2024-01-01T00:00:00Z"):
        for make in (ForecastClock.explicit, ForecastClock.at_events):
            with pytest.raises(TimestampError, match="times is a"):
                make(wrong)  # type: ignore[arg-type]
    with pytest.raises(TimestampError, match="time_zone=5 is no name"):
        ForecastClock.sessions(start="2024-01-02", end="2024-01-05", at="09:00", time_zone=5)  # type: ignore[arg-type]
    for calendar in (None, 5):
        with pytest.raises(UsageError, match=f"calendar={calendar} is no name"):
            ForecastClock.sessions(calendar, start="2024-01-02", end="2024-01-05")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="per_entity=True needs the entities"):
        ForecastClock.at_events(["2024-01-01T00:00:00Z"], per_entity=True)
