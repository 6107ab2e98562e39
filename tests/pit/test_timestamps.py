"""The rules of time, at equality and one nanosecond to either side of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quantattn.errors import TimestampError
from quantattn.pit import timestamps
from quantattn.pit.timestamps import (
    TIME,
    duration_nanoseconds,
    instants,
    is_visible,
    iso,
    last_instant_before,
    may_train,
    nanoseconds_of,
    to_nanoseconds,
    visible_counts,
)

LEAST, GREATEST = -(2**63) + 1, 2**63 - 1  # the least int64 itself is how numpy spells "missing"
NOON = 1_732_881_600_000_000_000  # 2024-11-29T12:00:00Z
NEW_YORK = ZoneInfo("America/New_York")

# Few distinct values, so that ties are common, and the far ends of what 64 bits hold.
ticks = st.one_of(st.integers(-3, 3), st.sampled_from([LEAST, LEAST + 1, GREATEST - 1, GREATEST]))


def ask(rule, left: list[int | None], right: list[int | None]) -> list[bool | None]:
    """Evaluate a rule over two columns of nanoseconds."""
    columns = [
        pl.Series(name, values, pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        for name, values in (("left", left), ("right", right))
    ]
    return pl.DataFrame(columns).select(rule(pl.col("left"), pl.col("right"))).to_series().to_list()


# --- rule 1: visible is strictly earlier ------------------------------------------------------------


def test_visible_is_strictly_earlier_to_the_nanosecond():
    assert ask(is_visible, [NOON - 1, NOON, NOON + 1], [NOON] * 3) == [True, False, False]


@pytest.mark.parametrize("moment", [LEAST + 1, -1, 0, 1, GREATEST - 1])
def test_visible_at_the_ends_of_time_and_around_the_epoch(moment):
    left = [moment - 1, moment, moment + 1]
    assert ask(is_visible, left, [moment] * 3) == [True, False, False]


def test_what_has_no_time_is_not_called_visible():
    assert ask(is_visible, [None, NOON, None], [NOON, None, None]) == [None, None, None]
    visible = pl.DataFrame({"t": [None, NOON - 1]}).with_columns(pl.col("t").cast(TIME))
    assert visible.filter(is_visible(pl.col("t"), pl.lit(instants([NOON])))).height == 1


def test_a_coarser_clock_does_not_round_an_event_into_view():
    # Polars compares nanoseconds with microseconds in microseconds, which would drop the last three digits.
    frame = pl.DataFrame(
        {
            "event": instants([NOON - 1, NOON, NOON + 1, NOON + 999]),
            "clock": pl.Series([NOON // 1000] * 4).cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
        }
    )
    visible = frame.select(is_visible(pl.col("event"), pl.col("clock"))).to_series().to_list()
    assert visible == [True, False, False, False]
    later = frame.select(is_visible(pl.col("clock"), pl.col("event"))).to_series().to_list()
    assert later == [False, False, True, True]


def test_a_date_is_not_a_time():
    frame = pl.DataFrame({"event": instants([NOON])})
    with pytest.raises(pl.exceptions.PolarsError):
        frame.select(is_visible(pl.col("event"), pl.lit(date(2024, 11, 29))))


# --- rule 1 over a sorted sequence ------------------------------------------------------------------


def count_by_loop(available_at: list[int], forecast_time: int) -> int:
    count = 0
    for moment in available_at:
        if moment < forecast_time:
            count += 1
    return count


@given(st.lists(ticks, max_size=12), st.lists(ticks, max_size=6))
@example([0, 0, 0], [0])
@example([LEAST, GREATEST], [LEAST, GREATEST])
def test_counts_agree_with_a_loop(available_at, forecast_times):
    events = np.array(sorted(available_at), dtype=np.int64)
    counts = visible_counts(events, np.array(forecast_times, dtype=np.int64))
    assert counts.dtype == np.int64
    assert counts.tolist() == [count_by_loop(available_at, moment) for moment in forecast_times]


def test_simultaneous_events_are_all_in_or_all_out():
    events = np.array([NOON - 1, NOON, NOON, NOON, NOON + 1])
    counts = visible_counts(events, np.array([NOON - 1, NOON, NOON + 1, NOON + 2]))
    assert counts.tolist() == [0, 1, 4, 5]


def test_counts_of_nothing():
    nothing = np.array([], dtype=np.int64)
    assert visible_counts(nothing, np.array([NOON])).tolist() == [0]
    assert visible_counts(np.array([NOON]), nothing).tolist() == []


def test_counts_refuse_an_unsorted_sequence_and_say_where():
    with pytest.raises(TimestampError, match=r"position 2.*sort the events in canonical order"):
        visible_counts(np.array([1, 3, 2, 4]), np.array([5]))


def test_a_span_longer_than_int64_still_counts_as_sorted():
    # The difference of these two overflows and would look negative.
    assert visible_counts(np.array([LEAST, GREATEST]), np.array([0])).tolist() == [1]
    with pytest.raises(TimestampError, match="position 1"):
        visible_counts(np.array([GREATEST, LEAST]), np.array([0]))


@pytest.mark.parametrize(
    ("events", "clock", "named"),
    [([LEAST - 1, 5], [7], "available_at has no time at position 0"), ([5], [7, LEAST - 1], "position 1")],
)
def test_a_missing_time_is_never_the_earliest_event(events, clock, named):
    with pytest.raises(TimestampError, match=named):
        visible_counts(np.array(events), np.array(clock))


# --- rule 2: training stops at the fit time ---------------------------------------------------------


def test_a_label_known_at_the_fit_time_may_train():
    assert ask(may_train, [NOON - 1, NOON, NOON + 1], [NOON] * 3) == [True, True, False]


def test_a_label_without_a_time_may_not_train():
    assert ask(may_train, [None, NOON], [NOON, None]) == [None, None]


def test_a_coarser_fit_time_does_not_round_a_label_into_training():
    frame = pl.DataFrame({"label": instants([NOON - 1, NOON, NOON + 1, NOON + 999])})
    fit_time = pl.lit(datetime(2024, 11, 29, 12, tzinfo=UTC))  # polars holds it in microseconds
    allowed = frame.select(may_train(pl.col("label"), fit_time)).to_series().to_list()
    assert allowed == [True, True, False, False]


@given(ticks, ticks)
def test_what_is_visible_at_a_time_is_what_may_train_just_before_it(known, moment):
    if moment == LEAST:
        with pytest.raises(TimestampError):
            last_instant_before(moment)
        return
    assert ask(is_visible, [known], [moment]) == ask(may_train, [known], [last_instant_before(moment)])


# --- single instants --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        np.int64(NOON),
        datetime(2024, 11, 29, 12, tzinfo=UTC),
        datetime(2024, 11, 29, 7, tzinfo=NEW_YORK),
        datetime(2024, 11, 29, 17, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        np.datetime64("2024-11-29T12:00:00"),
        np.datetime64(NOON, "ns"),
        pd.Timestamp("2024-11-29 12:00", tz="UTC"),
        pd.Timestamp("2024-11-29 21:00", tz="Asia/Tokyo"),
        pd.Timestamp(NOON),
    ],
    ids=repr,
)
def test_one_instant_however_it_is_written(moment):
    assert to_nanoseconds(moment) == NOON
    assert last_instant_before(moment) == NOON - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1900-01-01", -2_208_988_800_000_000_000),
        ("1970-01-01", 0),
        ("2100-01-01", 4_102_444_800_000_000_000),
        ("2262-04-11T23:47:16.854775807", GREATEST),
        ("1677-09-21T00:12:43.145224193", LEAST),
    ],
)
def test_far_years(text, expected):
    assert to_nanoseconds(np.datetime64(text, "ns")) == expected
    assert to_nanoseconds(pd.Timestamp(text, tz="UTC")) == expected


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2262, 4, 12, tzinfo=UTC),
        datetime(1677, 9, 21, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        np.datetime64("3000-01-01T00"),
        2**63,
        -(2**63),
        10**30,
    ],
    ids=repr,
)
def test_out_of_range_is_refused_and_never_wraps(moment):
    with pytest.raises(TimestampError, match=r"1677-09-21.*2262-04-11.*correct the value"):
        to_nanoseconds(moment)


@pytest.mark.parametrize("moment", [pd.NaT, np.datetime64("NaT"), None, float("nan")], ids=repr)
def test_a_missing_instant_is_refused(moment):
    with pytest.raises(TimestampError, match=r"missing \(NaT\); drop the row"):
        to_nanoseconds(moment)


@pytest.mark.parametrize(
    "moment",
    [date(2024, 11, 29), *(np.datetime64("2024-11-29").astype(f"M8[{unit}]") for unit in "DWMY")],
    ids=repr,
)
def test_a_date_is_no_instant(moment):
    with pytest.raises(TimestampError, match="is a date, and a date is not a time"):
        to_nanoseconds(moment)


@pytest.mark.parametrize("moment", [True, [1, 2], pytest.param(object(), id="object")], ids=repr)
def test_what_is_no_instant_is_refused(moment):
    with pytest.raises(TimestampError, match="is not an instant"):
        to_nanoseconds(moment)


def test_nothing_is_earlier_than_the_earliest():
    assert last_instant_before(LEAST + 1) == LEAST
    with pytest.raises(TimestampError):
        last_instant_before(LEAST)


def test_daylight_saving_nights():
    # 2024-03-10 has no 02:30 in New York, 2024-11-03 has two 01:30; UTC tells them apart.
    spring = [to_nanoseconds(datetime(2024, 3, 10, hour, tzinfo=NEW_YORK)) for hour in (1, 3)]
    assert spring[1] - spring[0] == 3_600_000_000_000
    autumn = [to_nanoseconds(datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK, fold=fold)) for fold in (0, 1)]
    assert [iso(moment) for moment in autumn] == ["2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z"]


# --- columns ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(LEAST, GREATEST), max_size=8))
def test_columns_keep_every_nanosecond(values):
    column = instants(values, "when")
    assert column.name == "when"
    assert column.dtype == TIME
    assert nanoseconds_of(column).tolist() == values


def test_an_instant_in_a_column_is_that_instant_in_utc():
    assert instants([NOON]).to_list() == [datetime(2024, 11, 29, 12, tzinfo=UTC)]


@pytest.mark.parametrize(
    "values",
    [
        [1.5],
        [float("nan")],
        np.array(["2024-11-29"], dtype="datetime64[us]"),
        np.array([2**63], dtype=np.uint64),
        ["2024-11-29"],
        [None],
        [2**70],
    ],
    ids=repr,
)
def test_a_column_is_made_of_whole_nanoseconds_only(values):
    with pytest.raises(TimestampError, match=r"when has type .* not int64 nanoseconds; convert it first"):
        instants(values, "when")


def test_a_missing_value_does_not_become_the_year_1677():
    missing = np.array(["2024-11-29", "NaT"], dtype="datetime64[ns]").astype(np.int64)
    with pytest.raises(TimestampError, match="time has no time at position 1; drop or date that row"):
        instants(missing)


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Datetime("ns"),
        pl.Datetime("us", "UTC"),
        pl.Datetime("ns", "America/New_York"),
        pl.Date,
        pl.Int64,
        pl.String,
    ],
    ids=str,
)
def test_a_column_of_another_type_is_refused_by_name(dtype):
    column = pl.Series("available_at", [None], dtype)
    with pytest.raises(TimestampError, match=r"'available_at' has type .*; convert it first"):
        nanoseconds_of(column)


def test_undated_rows_are_refused_by_number():
    column = pl.Series("t", [1, None, 2, None, None, None], pl.Int64).cast(pl.Datetime("ns"))
    with pytest.raises(TimestampError, match=r"'t' has no time in rows \[1, 3, 4\]; drop or date"):
        nanoseconds_of(column.dt.replace_time_zone("UTC"))


# --- text -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOON, "2024-11-29T12:00:00Z"),
        (NOON + 1, "2024-11-29T12:00:00.000000001Z"),
        (NOON - 1, "2024-11-29T11:59:59.999999999Z"),
        (NOON + 250_000_000, "2024-11-29T12:00:00.25Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (-2_208_988_800_000_000_000, "1900-01-01T00:00:00Z"),
        (GREATEST, "2262-04-11T23:47:16.854775807Z"),
        (LEAST, "1677-09-21T00:12:43.145224193Z"),
    ],
)
def test_iso_text_is_exact(moment, text):
    assert iso(moment) == text
    assert iso(np.int64(moment)) == text
    assert to_nanoseconds(pd.Timestamp(text)) == moment


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("15min", 900_000_000_000),
        ("-15min", -900_000_000_000),
        ("-1h30min", -5_400_000_000_000),
        ("1D", 86_400_000_000_000),
        ("00:15:00", 900_000_000_000),
        (timedelta(seconds=-1), -1_000_000_000),
        (timedelta(microseconds=1), 1_000),
        (pd.Timedelta(7), 7),
    ],
)
def test_durations(duration, expected):
    assert duration_nanoseconds(duration, argument="latency") == expected


@pytest.mark.parametrize(
    "duration",
    ["15", "", "-3", "soon", "1M", "1Y", "1h30", "NaT", "nan", 60, 1.5, True, None, timedelta(days=200_000)],
    ids=repr,
)
def test_what_is_no_duration_is_refused_by_argument(duration):
    with pytest.raises(TimestampError, match=r"^latency=.* is not a duration .*write for example '15min'"):
        duration_nanoseconds(duration, argument="latency")


def test_the_canonical_order_is_the_documented_one():
    assert timestamps.CANONICAL_ORDER == ("available_at", "event_time", "event_id", "revision")
