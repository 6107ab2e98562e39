"""Vintage tables: revisions, withdrawals and growth within one vintage, against a page of loops."""

import math
import warnings
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.events import EventLog
from quantattn.pit.events.periods import FREQUENCIES, number_periods

COLUMNS = {"series": "s", "period": "p", "vintage": "v", "value": "x"}
SCHEMA = {"s": pl.String, "p": pl.Date, "v": pl.Date, "x": pl.Float64}


def read(rows, **options):
    """Read (series, period, vintage, value) rows of monthly figures stamped at their month's start."""
    options = {**COLUMNS, "frequency": "M", "stamped": "start", **options}
    return EventLog.from_vintages(pl.DataFrame(rows, schema=SCHEMA, orient="row"), **options)


def shown(log, *figures):
    stamp = pl.col("available_at").dt.to_string("%m-%d %H:%M")
    return (
        log.frame.select("event_id", "revision", stamp, *(figures or ("value",)))
        .sort("event_id", "revision")
        .rows()
    )


JAN, FEB, MAR = date(2024, 1, 1), date(2024, 2, 1), date(2024, 3, 1)


def test_each_change_is_a_revision_known_at_the_next_open():
    rows = [
        ("CPI", JAN, date(2024, 2, 13), 100.0),
        ("CPI", JAN, date(2024, 3, 12), 101.0),
        ("CPI", JAN, date(2024, 4, 10), 101.0),  # nothing new
        ("CPI", JAN, date(2024, 5, 17), 100.0),  # a Friday
        ("CPI", FEB, date(2024, 3, 12), 102.0),
    ]
    log = read(rows)
    assert shown(log) == [
        ("CPI:2024-01-01", 0, "02-14 14:30", 100.0),
        ("CPI:2024-01-01", 1, "03-13 13:30", 101.0),
        ("CPI:2024-01-01", 2, "05-20 13:30", 100.0),
        ("CPI:2024-02-01", 0, "03-13 13:30", 102.0),
    ]
    # The period is over when February begins in New York.
    assert log.frame["event_time"].dt.to_string("%FT%T").unique().sort().to_list() == [
        "2024-02-01T05:00:00",
        "2024-03-01T05:00:00",
    ]
    assert log.frame["kind"].unique().to_list() == ["CPI"]
    assert log.entities == ()
    assert log.features == ("value",)
    assert log.rejects.is_empty()
    assert EventLog.from_valid(log.frame, log.features).fingerprint == log.fingerprint


def test_the_figure_known_on_a_date_is_not_the_final_one():
    rows = [("CPI", JAN, date(2024, 2, 13), 100.0), ("CPI", JAN, date(2024, 3, 12), 101.0)]
    log = read(rows)
    opening = datetime(2024, 3, 13, 13, 30, tzinfo=UTC)
    assert log.as_of(opening).frame["value"].to_list() == [100.0]
    assert log.as_of(opening + timedelta(microseconds=1)).frame["value"].to_list() == [101.0]


def test_growth_takes_both_values_from_one_vintage():
    rows = [
        ("GDP", JAN, date(2024, 4, 1), 100.0),
        ("GDP", FEB, date(2024, 4, 1), 110.0),
        ("GDP", JAN, date(2024, 5, 1), 105.0),  # the base alone is revised
        ("GDP", FEB, date(2024, 6, 3), 120.0),
    ]
    log = read(rows, growth=1)
    assert log.features == ("value", "growth_1")
    assert shown(log, "value", "growth_1") == [
        ("GDP:2024-01-01", 0, "04-02 13:30", 100.0, None),
        ("GDP:2024-01-01", 1, "05-02 13:30", 105.0, None),
        ("GDP:2024-02-01", 0, "04-02 13:30", 110.0, pytest.approx(math.log(110 / 100), rel=1e-15)),
        ("GDP:2024-02-01", 1, "05-02 13:30", 110.0, pytest.approx(math.log(110 / 105), rel=1e-15)),
        ("GDP:2024-02-01", 2, "06-04 13:30", 120.0, pytest.approx(math.log(120 / 105), rel=1e-15)),
    ]


def test_growth_between_the_ends_of_what_floats_hold_is_finite():
    rows = [("X", JAN, date(2024, 4, 1), 1e-300), ("X", FEB, date(2024, 4, 1), 1e300)]
    assert read(rows, growth=1).frame["growth_1"].to_list()[1] == pytest.approx(600 * math.log(10))


def test_a_value_that_is_withdrawn_is_a_retraction():
    rows = [
        ("X", JAN, date(2024, 4, 1), 100.0),
        ("X", FEB, date(2024, 4, 1), 110.0),
        ("X", JAN, date(2024, 5, 1), None),
        ("X", JAN, date(2024, 6, 3), 90.0),
    ]
    log = read(rows, growth=[1])
    assert shown(log, "value")[:3] == [
        ("X:2024-01-01", 0, "04-02 13:30", 100.0),
        ("X:2024-01-01", 1, "05-02 13:30", None),
        ("X:2024-01-01", 2, "06-04 13:30", 90.0),
    ]
    assert log.revisions("X:2024-01-01")["retracted"].to_list() == [False, True, False]
    growth = log.revisions("X:2024-02-01")["growth_1"].to_list()
    assert growth == [pytest.approx(math.log(1.1)), None, pytest.approx(math.log(110 / 90))]
    between = datetime(2024, 5, 15, tzinfo=UTC)
    assert log.as_of(between, retracted="drop").frame["event_id"].to_list() == ["X:2024-02-01"]


def test_absence_from_a_full_snapshot_is_a_withdrawal_and_from_changes_is_not():
    first, second, third = date(2024, 4, 1), date(2024, 5, 1), date(2024, 6, 3)
    rows = [
        ("X", JAN, first, 1.0),
        ("X", FEB, first, 2.0),
        ("X", FEB, second, 2.0),
        ("X", JAN, third, 1.0),
        ("X", FEB, third, 2.0),
        ("Y", JAN, first, 5.0),  # another series has snapshots of its own
    ]
    assert shown(read(rows)) == [
        ("X:2024-01-01", 0, "04-02 13:30", 1.0),
        ("X:2024-02-01", 0, "04-02 13:30", 2.0),
        ("Y:2024-01-01", 0, "04-02 13:30", 5.0),
    ]
    assert shown(read(rows, layout="snapshots")) == [
        ("X:2024-01-01", 0, "04-02 13:30", 1.0),
        ("X:2024-01-01", 1, "05-02 13:30", None),
        ("X:2024-01-01", 2, "06-04 13:30", 1.0),
        ("X:2024-02-01", 0, "04-02 13:30", 2.0),
        ("Y:2024-01-01", 0, "04-02 13:30", 5.0),
    ]


def test_a_refused_value_in_a_snapshot_withdraws_nothing():
    rows = [("X", JAN, date(2024, 4, 1), 1.0), ("X", JAN, date(2024, 5, 1), float("inf"))]
    log = read(rows, layout="snapshots")
    assert log.reject_counts == {"infinite_feature": 1}
    assert shown(log) == [("X:2024-01-01", 0, "04-02 13:30", 1.0)]


def test_vintages_of_one_weekend_keep_their_order():
    rows = [("X", JAN, date(2024, 4, 6), 1.0), ("X", JAN, date(2024, 4, 7), 2.0)]
    log = read(rows)
    assert shown(log) == [("X:2024-01-01", 0, "04-08 13:30", 1.0), ("X:2024-01-01", 1, "04-08 13:30", 2.0)]
    assert log.as_of(datetime(2024, 4, 9, tzinfo=UTC)).frame["value"].to_list() == [2.0]


def test_vintages_with_a_clock_are_known_at_their_time():
    frame = pl.DataFrame({"s": ["X"], "p": [JAN], "v": ["2024-02-13T08:30:00-05:00"], "x": ["100.5"]})
    log = EventLog.from_vintages(frame, **COLUMNS, frequency="M", stamped="start", latency="2s")
    assert log.frame["available_at"].dt.to_string("%FT%T").to_list() == ["2024-02-13T13:30:02"]
    assert log.frame["value"].to_list() == [100.5]


def test_entities_have_series_of_their_own():
    frame = pl.DataFrame(
        {"s": ["eps"] * 3, "p": [JAN] * 3, "v": [date(2024, 4, 1)] * 3, "x": [1.0, 2.0, 3.0]}
    )
    frame = frame.with_columns(e=pl.Series(["A", "B", "*"]))
    log = EventLog.from_vintages(frame, **COLUMNS, frequency="M", stamped="start", entity="e")
    assert log.frame.select("event_id", "entity", "value").sort("event_id").rows() == [
        ("*:eps:2024-01-01", None, 3.0),
        ("A:eps:2024-01-01", "A", 1.0),
        ("B:eps:2024-01-01", "B", 2.0),
    ]


STAMPED = [
    ("M", "start", date(2024, 2, 1), True),
    ("M", "start", date(2024, 2, 2), False),
    ("M", "end", date(2024, 2, 29), True),
    ("M", "end", date(2024, 2, 28), False),
    ("M", "end", date(2024, 3, 1), False),
    ("M", "within", date(2024, 2, 17), True),
    ("Q", "start", date(2024, 1, 1), True),
    ("Q", "start", date(2024, 3, 1), False),
    ("Q", "within", date(2024, 3, 1), True),
    ("A", "end", date(2023, 12, 31), True),
    ("D", "start", date(2024, 2, 1), True),
    ("W-SAT", "end", date(2024, 2, 3), True),
    ("W-SAT", "end", date(2024, 2, 4), False),
    ("W-SUN", "start", date(2024, 2, 5), True),
]


@pytest.mark.parametrize(("frequency", "stamped", "period", "taken"), STAMPED)
def test_a_period_stamp_must_be_the_declared_day(frequency, stamped, period, taken):
    log = read([("X", period, date(2024, 6, 3), 1.0)], frequency=frequency, stamped=stamped)
    assert log.reject_counts == ({} if taken else {"bad_period": 1})
    if not taken:
        assert f"as stamped={stamped!r} declares; pass stamped='within'" in log.rejects["detail"][0]


def test_a_detail_says_what_is_wrong_with_a_period():
    rows = [("X", date(9999, 1, 1), date(2024, 6, 3), 1.0), ("X", date(2024, 6, 1), date(2024, 6, 3), 1.0)]
    details = read(rows, frequency="M", stamped="start").rejects["detail"]
    assert "not a date (YYYY-MM-DD) between 1679 and 2260" in details[0]
    assert "published before its period is over" in details[1]
    assert "scheduled=True for figures that are published ahead" in details[1]


def test_periods_one_by_one():
    for frequency in FREQUENCIES:
        days = np.arange(-400, 800)
        number, first, following = number_periods(days, frequency)
        for day, here, start, end in zip(
            days.tolist(), number.tolist(), first.tolist(), following.tolist(), strict=True
        ):
            assert start <= day < end
            stamp, last = date(1970, 1, 1) + timedelta(days=start), date(1970, 1, 1) + timedelta(days=end - 1)
            assert {
                "D": stamp == last,
                "W": last - stamp == timedelta(days=6) and last.strftime("%a").upper() == frequency[2:],
                "M": stamp.day == 1 and last.month == stamp.month and (last + timedelta(days=1)).day == 1,
                "Q": (stamp.day, stamp.month % 3, last.month - stamp.month) == (1, 1, 2),
                "A": (stamp.month, stamp.day, last.month, last.day) == (1, 1, 12, 31),
            }[frequency[0]]
            again = number_periods(np.array([end]), frequency)
            assert again[0][0] == here + 1
            assert again[1][0] == end


REFUSED = [
    ({"s": ""}, "null_series"),
    ({"s": None}, "null_series"),
    ({"p": None}, "bad_period"),
    ({"p": date(1, 1, 1)}, "bad_period"),
    ({"p": date(9999, 12, 1)}, "bad_period"),
    ({"v": None}, "missing_time"),
    ({"v": date(1901, 1, 1), "p": date(1900, 1, 1)}, "outside_calendar"),
    ({"v": date(2024, 1, 30)}, "available_before_event"),  # the month was not over
    ({"x": float("inf")}, "infinite_feature"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED)
def test_rows_that_are_refused(change, reason):
    good = {"s": "X", "p": JAN, "v": date(2024, 4, 1), "x": 1.0}
    log = read([tuple(good.values()), tuple({**good, "s": "Y", **change}.values())])
    assert log.rejects.select("row", "reason").rows() == [(1, reason)]
    assert len(log) == 1


def test_surveys_are_published_before_their_month_is_over():
    rows = [("X", JAN, date(2024, 1, 12), 1.0)]
    assert read(rows).reject_counts == {"available_before_event": 1}
    log = read(rows, scheduled=True)
    assert shown(log) == [("X:2024-01-01", 0, "01-16 14:30", 1.0)]


def test_repeated_and_contradictory_vintages():
    rows = [
        ("X", JAN, date(2024, 4, 1), 1.0),
        ("X", JAN, date(2024, 4, 1), 1.0),
        ("X", FEB, date(2024, 4, 1), 1.0),
        ("X", FEB, date(2024, 4, 1), None),
        ("X", FEB, date(2024, 5, 1), 3.0),
    ]
    log = read(rows)
    assert log.rejects.select("row", "reason").rows() == [
        (1, "repeated_vintage"),
        (2, "conflicting_vintage"),
        (3, "conflicting_vintage"),
    ]
    assert shown(log) == [("X:2024-01-01", 0, "04-02 13:30", 1.0), ("X:2024-02-01", 0, "05-02 13:30", 3.0)]


def test_text_columns_and_bad_values():
    frame = pl.DataFrame(
        {
            "s": ["X", "X", "Y", "Y"],
            "p": ["2024-01-01", "Q1", "2024-01-01", "2024-01-01"],
            "v": ["2024-04-01"] * 4,
            "x": ["1.5", "1", ".", "one"],
            "f": ["m", "M", "monthly", "fortnightly"],
        }
    )
    log = EventLog.from_vintages(frame, **COLUMNS, frequency="f", stamped="start")
    assert log.reject_counts == {"bad_frequency": 1, "bad_period": 1}
    # FRED writes "." where there is no value.
    assert log.frame["event_id"].to_list() == ["X:2024-01-01"]


ARGUMENTS = [
    ({"stamped": "middle"}, UsageError, "stamped='middle' is unknown; use 'start' or 'end' or 'within'"),
    ({"layout": "wide"}, UsageError, "layout='wide' is unknown; use 'changes' or 'snapshots'"),
    ({"growth": 0}, UsageError, r"growth=\[0\] are not distinct numbers of periods"),
    ({"growth": [1, 1]}, UsageError, "not distinct"),
    ({"growth": [1.5]}, UsageError, "not distinct"),
    ({"frequency": "fortnight"}, EventDataError, "frequency='fortnight' is not a column"),
    ({"value": "y"}, EventDataError, "value='y' is not a column"),
    ({"time_zone": "Mars"}, TimestampError, "time_zone='Mars'"),
    ({"latency": "-1s"}, TimestampError, "is negative"),
    ({"strict": True}, EventDataError, "1 of 1 event rows are refused"),
]


@pytest.mark.parametrize(("options", "error", "message"), ARGUMENTS)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        read([("X", None, date(2024, 4, 1), 1.0)], **options)


def test_series_of_several_frequencies_and_spellings_are_refused():
    frame = pl.DataFrame(
        {"s": ["X", "X"], "p": [JAN, JAN], "v": [date(2024, 6, 3)] * 2, "x": [1.0, 2.0], "f": ["M", "Q"]}
    )
    with pytest.raises(EventDataError, match="series 'X' has rows of several frequencies, M, Q"):
        EventLog.from_vintages(frame, **COLUMNS, frequency="f", stamped="start")
    with pytest.raises(EventDataError, match="differ only in case or spaces: 'X', 'x'"):
        read([("X", JAN, date(2024, 4, 1), 1.0), ("x", FEB, date(2024, 4, 1), 1.0)])
    with pytest.raises(EventDataError, match=r"column 'p' has type .*, which is not a date"):
        EventLog.from_vintages(frame.with_columns(p=1), **COLUMNS, frequency="M", stamped="start")


def test_an_empty_table_is_an_empty_log():
    log = read([], growth=[1, 12])
    assert (len(log), log.features) == (0, ("value", "growth_1", "growth_12"))


# --- the oracle ---------------------------------------------------------------------------------------


def value_in(rows, series, month, vintage):
    """What stood in a vintage: the value of the latest row up to it, None if none or withdrawn."""
    best = None
    for name, period, published, value in rows:
        stood = name == series and period == month and published <= vintage
        if stood and (best is None or published > best[0]):
            best = (published, value)
    return best[1] if best else None


def months_before(month, count):
    number = month.year * 12 + month.month - 1 - count
    return date(number // 12, number % 12 + 1, 1)


def events_by_hand(rows, lags):
    """Walk through all vintages of all periods; an event is new wherever any of its figures changes."""
    events = []
    for series in sorted({row[0] for row in rows}):
        for month in sorted({row[1] for row in rows if row[0] == series}):
            before, revision = None, 0
            for vintage in sorted({row[2] for row in rows}):
                value = value_in(rows, series, month, vintage)
                figures = [value]
                for lag in lags:
                    base = value_in(rows, series, months_before(month, lag), vintage)
                    defined = value is not None and base is not None and value > 0 and base > 0
                    figures.append(math.log(value / base) if defined else None)
                if figures != (before or [None] * len(figures)):
                    events.append((f"{series}:{month}", revision, vintage, figures))
                    before, revision = figures, revision + 1
    return events


months = st.sampled_from([date(2023, 11, 1), date(2023, 12, 1), JAN, FEB, MAR])
vintages = st.sampled_from(
    [date(2024, 4, 1), date(2024, 4, 6), date(2024, 4, 7), date(2024, 5, 1), date(2024, 6, 3)]
)
tables = st.dictionaries(
    st.tuples(st.sampled_from(["X", "Y"]), months, vintages),
    st.sampled_from([None, 0.0, -1.0, 2.0, 4.0, 5.0]),
    min_size=1,
    max_size=25,
).map(lambda table: [(*key, value) for key, value in table.items()])


@settings(max_examples=150, deadline=None)
@given(tables, st.sampled_from([[], [1], [1, 2]]))
def test_random_tables_against_the_oracle(rows, lags):
    log = read(rows, growth=lags)
    figures = ["value", *(f"growth_{lag}" for lag in lags)]
    got = [(name, number, list(values)) for name, number, _, *values in shown(log, *figures)]
    expected = events_by_hand(rows, lags)
    assert [event[:2] for event in got] == [event[:2] for event in expected]
    for (_, _, ours), (_, _, _, theirs) in zip(got, expected, strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine is None) == (other is None)
            assert mine is None or math.isclose(mine, other, rel_tol=1e-14, abs_tol=1e-15)
    opens = {
        date(2024, 4, 1): "04-02 13:30",
        date(2024, 4, 6): "04-08 13:30",
        date(2024, 4, 7): "04-08 13:30",
        date(2024, 5, 1): "05-02 13:30",
        date(2024, 6, 3): "06-04 13:30",
    }
    assert [row[2] for row in shown(log)] == [opens[event[2]] for event in expected]


@settings(max_examples=60, deadline=None)
@given(tables, vintages)
def test_later_vintages_change_nothing_that_was_known(rows, cut):
    early = [row for row in rows if row[2] <= cut]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole, part = read(rows, growth=[1]), read(early, growth=[1])
    last = part.frame["available_at"].max() or datetime(2024, 1, 1, tzinfo=UTC)
    known = whole.frame.filter(pl.col("available_at") <= last)
    # The two dates of one weekend become available together.
    if cut != date(2024, 4, 6):
        assert known.equals(part.frame)
