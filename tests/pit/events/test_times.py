"""How an event table's stamps become instants: zones, daylight-saving nights, dates, range and ticks."""

import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

from quantattn.errors import CalendarError, EventDataError, TimestampError
from quantattn.pit.events.log import EventLog

# Stamps as far as 2262 are read here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*stamped later than this moment:UserWarning")

NEW_YORK = "America/New_York"


def read(*stamps, **options):
    """Read text stamps; give for each row its (event_time, available_at) in ISO text or its reason."""
    frame = stamps[0] if isinstance(stamps[0], pl.DataFrame) else pl.DataFrame({"t": stamps})
    frame = frame.with_columns(row=pl.int_range(pl.len()).cast(pl.String))
    log = EventLog.from_frame(frame, event_time="t", event_id="row", **options)
    result = dict(log.rejects.select("row", "reason").rows())
    shown = log.frame.select(
        pl.col("event_id").cast(pl.Int64), pl.col("event_time", "available_at").dt.to_string("%FT%T%.f")
    )
    result |= {row: (happened, available) for row, happened, available in shown.rows()}
    return [result[row] for row in range(frame.height)]


def exactly(stamp):
    return (stamp, stamp)


TEXTS = [
    ("2024-11-29T18:00Z", "2024-11-29T18:00:00"),
    ("2024-11-29t18:00:00z", "2024-11-29T18:00:00"),
    ("2024-11-29 18:00:00 UTC", "2024-11-29T18:00:00"),
    ("2024-11-29 18:00:00 GMT", "2024-11-29T18:00:00"),
    ("2024-11-29 13:00:00-05:00", "2024-11-29T18:00:00"),
    ("2024-11-29 13:00:00-0500", "2024-11-29T18:00:00"),
    ("2024-11-29 13:00:00-05", "2024-11-29T18:00:00"),
    ("2024-11-29 23:30+05:30", "2024-11-29T18:00:00"),
    ("2024-11-30T00:15:00.000000001+06:15", "2024-11-29T18:00:00.000000001"),
    ("2024/11/29 18:00:00.5Z", "2024-11-29T18:00:00.500"),
    ("20241129T18:00:00,25Z", "2024-11-29T18:00:00.250"),
    ("  2024-11-29T18:00Z\u00a0", "2024-11-29T18:00:00"),
    ("1900-01-01T00:00:01Z", "1900-01-01T00:00:01"),
    ("2100-02-28T23:59:59Z", "2100-02-28T23:59:59"),
    ("2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775807"),
    ("1677-09-21T00:12:43.145224193Z", "1677-09-21T00:12:43.145224193"),
]


@pytest.mark.parametrize(("text", "instant"), TEXTS)
def test_zoned_text_is_an_instant(text, instant):
    assert read(text) == [exactly(instant)]


REFUSED = [
    (None, "missing_time"),
    ("", "missing_time"),
    ("  ", "missing_time"),
    ("NaT", "missing_time"),
    ("null", "missing_time"),
    ("yesterday", "unreadable_time"),
    ("29/11/2024", "unreadable_time"),
    ("11/29/2024 18:00Z", "unreadable_time"),
    ("2024-11-29 18:00 EST", "unreadable_time"),
    ("2024-02-30", "unreadable_time"),
    ("2023-02-29T00:00Z", "unreadable_time"),
    ("2024-13-01", "unreadable_time"),
    ("2024-11-29T24:00Z", "unreadable_time"),
    ("2024-11-29T18:60Z", "unreadable_time"),
    ("2024-11-29T18:00:61Z", "unreadable_time"),
    ("2024-11-29T18:58:60Z", "unreadable_time"),
    ("2024-11-29T18:00:00.1234567891Z", "unreadable_time"),
    ("2024-11-29T18:00+16:00", "unreadable_time"),
    ("2024-11-29T18:00+05:60", "unreadable_time"),
    ("2024-11-29T18Z", "unreadable_time"),
    ("1732903200", "unreadable_time"),
    ("٢٠٢٤-11-29", "unreadable_time"),
    ("2024-11-29T18:00Z2024", "unreadable_time"),
    ("2016-12-31T23:59:60Z", "leap_second"),
    ("2016-12-31T18:59:60-05:00", "leap_second"),
    ("2262-04-11T23:47:16.854775808Z", "out_of_range"),
    ("1677-09-21T00:12:43.145224192Z", "out_of_range"),
    ("0001-01-01T00:00Z", "out_of_range"),
    ("9999-12-31", "out_of_range"),
    ("2024-11-29 18:00:00", "naive_time"),
    ("2024-11-29 00:00:00", "naive_time"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_text_that_is_no_instant_is_refused(text, reason):
    frame = pl.DataFrame({"t": [text]}, schema={"t": pl.String})
    assert read(frame) == [reason]


def test_mixed_text_is_read_row_by_row():
    stamps = ["2024-07-01T12:00Z", "2024-07-01 12:00", "2024-07-01", "2024-07-01 12:00+02:00"]
    assert read(*stamps) == [
        exactly("2024-07-01T12:00:00"),
        "naive_time",
        ("2024-07-01T04:00:00", "2024-07-02T13:30:00"),
        exactly("2024-07-01T10:00:00"),
    ]
    assert read(*stamps, time_zone="Asia/Tokyo")[1] == exactly("2024-07-01T03:00:00")


NIGHTS = [
    # Clocks go forward at 02:00 and back at 02:00.
    (NEW_YORK, "2024-03-10 01:59:59", exactly("2024-03-10T06:59:59")),
    (NEW_YORK, "2024-03-10 02:00:00", "nonexistent_time"),
    (NEW_YORK, "2024-03-10 02:59:59.999999999", "nonexistent_time"),
    (NEW_YORK, "2024-03-10 03:00:00", exactly("2024-03-10T07:00:00")),
    (NEW_YORK, "2024-11-03 00:59:59", exactly("2024-11-03T04:59:59")),
    (NEW_YORK, "2024-11-03 01:00:00", "ambiguous_time"),
    (NEW_YORK, "2024-11-03 01:59:59.999999999", "ambiguous_time"),
    (NEW_YORK, "2024-11-03 02:00:00", exactly("2024-11-03T07:00:00")),
    ("Europe/London", "2024-03-31 01:30", "nonexistent_time"),
    ("Europe/London", "2024-10-27 01:30", "ambiguous_time"),
    # Half an hour of daylight saving.
    ("Australia/Lord_Howe", "2024-10-06 02:15", "nonexistent_time"),
    ("Australia/Lord_Howe", "2024-04-07 01:45", "ambiguous_time"),
    # Before standard time, and after the tables that most libraries carry.
    (NEW_YORK, "1880-01-01 12:00:00", exactly("1880-01-01T16:56:02")),
    (NEW_YORK, "2098-07-01 12:00", exactly("2098-07-01T16:00:00")),
    (NEW_YORK, "2150-07-01 12:00:00.000000007", exactly("2150-07-01T16:00:00.000000007")),
    (NEW_YORK, "2150-01-01 12:00", exactly("2150-01-01T17:00:00")),
    (NEW_YORK, "2150-03-08 02:30", "nonexistent_time"),
    (NEW_YORK, "2150-11-01 01:30", "ambiguous_time"),
    ("UTC", "2024-03-10 02:30", exactly("2024-03-10T02:30:00")),
]


@pytest.mark.parametrize(("zone", "wall", "expected"), NIGHTS)
def test_wall_times_on_nights_of_changing_clocks(zone, wall, expected):
    assert read(wall, time_zone=zone) == [expected]
    typed = pl.DataFrame({"t": np.array([wall], dtype="datetime64[ns]")})
    assert read(typed, time_zone=zone) == [expected]


def test_an_offset_settles_an_ambiguous_wall_time():
    assert read("2024-11-03 01:30-04:00", "2024-11-03 01:30-05:00", time_zone=NEW_YORK) == [
        exactly("2024-11-03T05:30:00"),
        exactly("2024-11-03T06:30:00"),
    ]


DATES = [
    # (calendar, zone, date, first instant, next open)
    ("XNYS", None, "2024-11-25", "2024-11-25T05:00:00", "2024-11-26T14:30:00"),  # Monday
    ("XNYS", None, "2024-11-22", "2024-11-22T05:00:00", "2024-11-25T14:30:00"),  # Friday
    ("XNYS", None, "2024-11-23", "2024-11-23T05:00:00", "2024-11-25T14:30:00"),  # Saturday
    ("XNYS", None, "2024-11-24", "2024-11-24T05:00:00", "2024-11-25T14:30:00"),  # Sunday
    ("XNYS", None, "2024-11-27", "2024-11-27T05:00:00", "2024-11-29T14:30:00"),  # Thanksgiving follows
    ("XNYS", None, "2024-11-28", "2024-11-28T05:00:00", "2024-11-29T14:30:00"),  # Thanksgiving
    ("XNYS", None, "2024-12-31", "2024-12-31T05:00:00", "2025-01-02T14:30:00"),  # over the year's end
    ("XNYS", None, "2024-03-08", "2024-03-08T05:00:00", "2024-03-11T13:30:00"),  # clocks go forward
    ("XNYS", None, "2024-11-01", "2024-11-01T04:00:00", "2024-11-04T14:30:00"),  # clocks go back
    ("XNYS", None, "2001-09-10", "2001-09-10T04:00:00", "2001-09-17T13:30:00"),  # closed for days
    ("XLON", None, "2024-12-24", "2024-12-24T00:00:00", "2024-12-27T08:00:00"),
    ("XNYS", "UTC", "2024-11-25", "2024-11-25T00:00:00", "2024-11-26T14:30:00"),
    # A New York day ends after Tokyo has opened on the next date.
    ("XTKS", NEW_YORK, "2024-11-25", "2024-11-25T05:00:00", "2024-11-27T00:00:00"),
    ("XTKS", "Asia/Tokyo", "2024-11-25", "2024-11-24T15:00:00", "2024-11-26T00:00:00"),
    ("XNYS", "Asia/Tokyo", "2024-11-25", "2024-11-24T15:00:00", "2024-11-26T14:30:00"),
    # An Auckland day is over when New York opens on the same date, which is not a later one.
    ("XNYS", "Pacific/Auckland", "2024-11-25", "2024-11-24T11:00:00", "2024-11-26T14:30:00"),
    # A session that opens at the very instant at which the date ends counts.
    ("24/7", "UTC", "2024-11-25", "2024-11-25T00:00:00", "2024-11-26T00:00:00"),
    # The clocks skip midnight.
    ("XNYS", "America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00", "2018-11-05T14:30:00"),
    # The next date does not exist.
    ("XNYS", "Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00", "2011-12-30T14:30:00"),
]


@pytest.mark.parametrize(("calendar", "zone", "day", "start", "opening"), DATES)
def test_a_date_is_published_at_the_next_sessions_open(calendar, zone, day, start, opening):
    expected = [(start, opening)]
    assert read(day, calendar=calendar, time_zone=zone) == expected
    assert read(day.replace("-", ""), calendar=calendar, time_zone=zone) == expected
    typed = pl.DataFrame({"t": [date.fromisoformat(day)]})
    assert read(typed, calendar=calendar, time_zone=zone) == expected


def test_a_date_that_its_zone_left_out_is_refused():
    assert read("2011-12-30", time_zone="Pacific/Apia") == ["nonexistent_time"]


@pytest.mark.parametrize(
    ("calendar", "stamps", "expected"),
    [
        (
            "XTKS",
            ["1990-01-02", "1997-01-07"],
            ["outside_calendar", ("1997-01-06T15:00:00", "1997-01-08T00:00:00")],
        ),
        ("XTKS", ["1950-06-01"], ["outside_calendar"]),
        (
            "XNYS",
            ["2150-03-14", "2200-12-31"],
            [("2150-03-14T04:00:00", "2150-03-16T13:30:00"), "outside_calendar"],
        ),
    ],
)
def test_dates_that_the_calendar_does_not_record_are_refused_alone(calendar, stamps, expected):
    assert read(*stamps, calendar=calendar) == expected


def test_dates_can_be_refused():
    assert read("2024-11-25", "2024-11-25T10:00Z", date_only="reject") == [
        "date_only",
        exactly("2024-11-25T10:00:00"),
    ]


def test_naive_midnights_throughout_are_dates_when_a_zone_is_declared():
    days = pd.DataFrame({"t": pd.to_datetime(["2024-11-22", "2024-11-25", None])})
    log = EventLog.from_frame(days, event_time="t", time_zone=NEW_YORK)
    assert log.frame["available_at"].dt.to_string("%FT%T").to_list() == [
        "2024-11-25T14:30:00",
        "2024-11-26T14:30:00",
    ]
    assert log.reject_counts == {"missing_time": 1}
    assert EventLog.from_frame(days, event_time="t").reject_counts == {"naive_time": 2, "missing_time": 1}
    text = ["2024-11-22 00:00:00", "2024-11-25 10:00:00-05:00"]
    assert read(*text, time_zone=NEW_YORK)[0] == ("2024-11-22T05:00:00", "2024-11-25T14:30:00")


@pytest.mark.parametrize("typed", [False, True])
def test_a_naive_midnight_is_a_date_whatever_the_other_rows_hold(typed):
    stamps = ["2024-11-22 00:00:00", "2024-11-22 00:00:00.000000001", "2024-05-06 13:02:00"]
    frame = pl.DataFrame({"t": np.array(stamps, dtype="datetime64[ns]") if typed else stamps})
    times = [exactly("2024-11-22T05:00:00.000000001"), exactly("2024-05-06T17:02:00")]
    assert read(frame, time_zone=NEW_YORK) == [("2024-11-22T05:00:00", "2024-11-25T14:30:00"), *times]
    assert read(frame, time_zone=NEW_YORK, date_only="reject") == ["date_only", *times]


def test_a_later_row_does_not_make_earlier_events_known_earlier():
    days = [f"2019-{month:02d}-{day:02d} 00:00:00" for month in range(1, 7) for day in range(1, 28, 3)]
    alone = read(*days, time_zone=NEW_YORK)
    assert read(*days, "2024-05-06 13:02:00", time_zone=NEW_YORK)[:-1] == alone


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK])
def test_zoned_midnights_are_taken_at_their_word_with_a_warning(zone):
    days = pl.DataFrame({"t": [datetime(2024, 1, day, tzinfo=ZoneInfo(zone)) for day in range(1, 11)]})
    with pytest.warns(
        UserWarning, match="most zoned stamps of column 't' are midnights.*cast the column to Date"
    ):
        log = EventLog.from_frame(days, event_time="t")
    assert (log.frame["available_at"] == days["t"].dt.convert_time_zone("UTC")).all()
    later = days.with_columns(pl.col("t") + timedelta(seconds=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EventLog.from_frame(later, event_time="t")
        EventLog.from_frame(days.head(9), event_time="t")
        EventLog.from_frame(later.with_columns(day=days["t"]), event_time="day", available_at="t")


def zoned_days(count, form):
    days = [datetime(2024, 3, day, tzinfo=ZoneInfo(NEW_YORK)) for day in range(1, count + 1)]
    if form == "pandas":
        return pd.DataFrame({"t": pd.DatetimeIndex(days)})
    if form == "UTC":
        return pl.DataFrame({"t": [day.astimezone(UTC) for day in days]})
    return pl.DataFrame({"t": [day.isoformat() for day in days]})


@pytest.mark.parametrize("form", ["text", "pandas", "UTC"])
def test_local_midnights_are_warned_of_however_they_are_written(form):
    with pytest.warns(UserWarning, match="most zoned stamps of column 't' are midnights"):
        EventLog.from_frame(zoned_days(10, form), event_time="t")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EventLog.from_frame(zoned_days(9, form), event_time="t")


def test_pandas_midnights_of_another_zone_than_the_exchanges_are_warned_of():
    days = pd.date_range("2024-06-01", periods=10, tz="Europe/London")
    with pytest.warns(UserWarning, match="midnights"):
        EventLog.from_frame(pd.DataFrame({"t": days}), event_time="t")


@pytest.mark.parametrize(("clocked", "warned"), [(1, True), (9, True), (10, False)])
def test_clocked_rows_silence_the_warning_only_from_half_of_the_rows_on(clocked, warned):
    days = [f"2024-01-{day:02d}T00:00:00-05:00" for day in range(1, 11)]
    times = [f"2024-05-{day:02d}T13:02:00-04:00" for day in range(1, clocked + 1)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        EventLog.from_frame(pl.DataFrame({"t": days + times}), event_time="t")
    assert bool(heard) == warned


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_datetimes_of_every_unit_and_zone(unit, zone):
    stamp = datetime(2024, 11, 29, 18, 0, 0, 123000, tzinfo=UTC)
    frame = pl.DataFrame({"t": pl.Series([stamp, None]).dt.convert_time_zone(zone).dt.cast_time_unit(unit)})
    assert read(frame) == [exactly("2024-11-29T18:00:00.123"), "missing_time"]


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_datetimes_that_nanoseconds_cannot_hold(unit):
    ticks = {"ms": 1_000, "us": 1_000_000}[unit]
    seconds = [-9223372037, -9223372036, 9223372036, 9223372037]
    frame = pl.DataFrame(
        {"t": pl.Series([second * ticks for second in seconds]).cast(pl.Datetime(unit, "UTC"))}
    )
    assert read(frame) == [
        "out_of_range",
        exactly("1677-09-21T00:12:44"),
        exactly("2262-04-11T23:47:16"),
        "out_of_range",
    ]


def test_instants_before_the_epoch_keep_their_fraction():
    frame = pl.DataFrame({"t": pl.Series([-1, -1_000_000_001]).cast(pl.Datetime("ns", "UTC"))})
    assert read(frame) == [exactly("1969-12-31T23:59:59.999999999"), exactly("1969-12-31T23:59:58.999999999")]


def test_stamps_one_tick_apart_stay_apart_and_in_order():
    log = EventLog.from_frame(
        pl.DataFrame(
            {"t": ["2024-11-29T18:00:00.000000002Z", "2024-11-29T18:00:00.000000001Z"], "id": ["a", "b"]}
        ),
        event_time="t",
        event_id="id",
    )
    assert log.frame["event_id"].to_list() == ["b", "a"]
    first = log.frame["available_at"].to_physical()[0]
    assert [len(log.as_of(first + tick)) for tick in range(3)] == [0, 1, 2]


def test_python_objects_of_several_zones_in_one_pandas_column():
    stamps = [
        datetime(2024, 11, 29, 13, tzinfo=ZoneInfo(NEW_YORK)),
        datetime(2024, 11, 29, 13, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2024-11-29T13:00:00.000000003Z"),
        date(2024, 11, 29),
        datetime(2024, 11, 29, 13),
        pd.NaT,
        None,
        "2024-11-29T13:00Z",
        7,
    ]
    frame = pd.DataFrame({"t": pd.Series(stamps, dtype=object), "id": range(9)})
    log = EventLog.from_frame(frame, event_time="t", event_id="id")
    assert dict(log.frame.select("event_id", pl.col("event_time").dt.to_string("%T%.f")).rows()) == {
        "0": "18:00:00",
        "1": "12:00:00",
        "2": "13:00:00.000000003",
        "3": "05:00:00",
        "7": "13:00:00",
    }
    assert dict(log.rejects.select("row", "reason").rows()) == {
        4: "naive_time",
        5: "missing_time",
        6: "missing_time",
        8: "unreadable_time",
    }


LATENCIES = [("0s", 0), ("2s", 2_000_000_000), (timedelta(minutes=1), 60_000_000_000), ("1ns", 1)]


@pytest.mark.parametrize(("latency", "nanoseconds"), LATENCIES)
@pytest.mark.parametrize("columns", [{"event_time": "t"}, {"event_time": "t", "available_at": "p"}])
def test_latency_is_added_to_the_publication_stamp_wherever_it_comes_from(latency, nanoseconds, columns):
    frame = pl.DataFrame({"t": ["2024-11-29T18:00Z", "2024-11-28"], "p": ["2024-11-29T18:05Z", "2024-11-28"]})
    log = EventLog.from_frame(frame, latency=latency, **columns)
    dated, timed = log.frame["available_at"].to_physical() - nanoseconds
    assert dated == pd.Timestamp("2024-11-29T14:30Z").value
    assert (
        timed == pd.Timestamp("2024-11-29T18:05Z" if "available_at" in columns else "2024-11-29T18:00Z").value
    )
    assert log.frame["event_time"].to_physical()[1] == pd.Timestamp("2024-11-29T18:00Z").value


def test_a_latency_beyond_the_range_is_refused():
    assert read("2262-04-11T23:47:16.854775806Z", "2262-04-11T23:47:16.854775807Z", latency="1ns") == [
        ("2262-04-11T23:47:16.854775806", "2262-04-11T23:47:16.854775807"),
        "out_of_range",
    ]


ORDERS = [
    # (event_time, available_at, refused)
    ("2024-11-29T18:00:00.000000001Z", "2024-11-29T18:00:00.000000001Z", False),
    ("2024-11-29T18:00:00.000000001Z", "2024-11-29T18:00:00.000000002Z", False),
    ("2024-11-29T18:00:00.000000001Z", "2024-11-29T18:00:00.000000000Z", True),
    ("2024-11-29T18:00Z", "2024-11-28", True),  # published on the 29th at 14:30
    ("2024-11-29T14:30Z", "2024-11-28", False),
    ("2024-11-29", "2024-11-29T05:00Z", False),  # midnight in New York
    ("2024-11-29", "2024-11-29T04:59:59Z", True),
]


@pytest.mark.parametrize(("happened", "published", "refused"), ORDERS)
def test_publication_before_the_event_is_refused_unless_scheduled(happened, published, refused):
    frame = pl.DataFrame({"t": [happened], "p": [published]})
    columns = {"event_time": "t", "available_at": "p"}
    for latency in ("0s", "24h"):
        log = EventLog.from_frame(frame, latency=latency, **columns)
        assert log.reject_counts == ({"available_before_event": 1} if refused else {})
    assert len(EventLog.from_frame(frame, scheduled=True, **columns)) == 1


def test_a_missing_publication_is_refused_even_when_the_event_has_a_time():
    frame = pl.DataFrame({"t": ["2024-11-29T18:00Z"] * 2, "p": [None, "2024-11-29T19:00Z"]})
    log = EventLog.from_frame(frame, event_time="t", available_at="p")
    assert log.rejects.rows() == [(0, "missing_time", "column 'p' is null: no time")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"time_zone": "America/NewYork"}, TimestampError, r"did you mean 'America/New_York'\?"),
        ({"time_zone": "Mars"}, TimestampError, r"time_zone='Mars' is not in the time zone database"),
        ({"time_zone": ""}, TimestampError, r"not in the time zone database"),
        ({"latency": "-1s"}, TimestampError, r"latency='-1s' is negative"),
        ({"latency": "15"}, TimestampError, r"latency='15' is not a duration"),
        ({"date_only": "midnight"}, EventDataError, r"use 'next_session' or 'reject'"),
        ({"calendar": "XNYC"}, CalendarError, r"calendar='XNYC' is unknown"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        EventLog.from_frame(pl.DataFrame({"t": ["2024-11-29"]}), event_time="t", **options)


@pytest.mark.parametrize(
    "values", [[1_732_903_200], [1.7e9], [True], [timedelta(1)], [datetime(2024, 1, 1).time()], [["2024"]]]
)
def test_a_column_that_is_no_time_is_refused_whole(values):
    with pytest.raises(
        EventDataError, match=r"column 't' has type .*, which is not a time; convert it first"
    ):
        EventLog.from_frame(pl.DataFrame({"t": values}), event_time="t")
