"""Benzinga headlines: dates among instants, an offset that may be wrong in winter, minutes that were cut."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError
from quantattn.pit.readers import read_benzinga
from tests.pit.readers.news import known, packed, refused, rows, write

NEW_YORK = ZoneInfo("America/New_York")
HEADER = ",headline,url,publisher,date,stock\n"
LINES = [
    "0,Highs On Friday,https://x,Insights,2020-06-05 10:30:54-04:00,A",
    "1,A date,https://x,Lisa,2020-05-22 00:00:00,A",
    "2,In winter,https://x,Lisa,2020-02-11 10:00:00-04:00,A",
    "3,In winter too,https://x,Lisa,2020-02-11 10:00:00-05:00,B",
    "4,Undated,https://x,Lisa,,A",
    "5,No stock,https://x,Lisa,2020-05-22 00:00:00,",
    "6,A date,https://x,Lisa,2020-05-22 00:00:00,A",
    "7,Broken,https://x,Lisa,Agilent rises,A",
    '8,"With, comma",https://x,Lisa,2020-06-05 10:30:54-04:00,AA',
]
TEXT = HEADER + "\n".join(LINES) + "\n"


def test_dates_and_instants_are_told_apart_row_by_row(tmp_path):
    log = read_benzinga(write(tmp_path, "raw_analyst_ratings.csv", TEXT))
    assert rows(log, "entity", "text", "event_time", "available_at") == [
        # As written it is 14:00 UTC; a New York clock that showed 10:00 on that day stood at 15:00 UTC.
        ("A", "In winter", "2020-02-11T14:00:00", "2020-02-11T15:00:00"),
        ("B", "In winter too", "2020-02-11T15:00:00", "2020-02-11T15:00:00"),
        # The Friday before Memorial Day: the next session is on Tuesday.
        ("A", "A date", "2020-05-22T04:00:00", "2020-05-26T13:30:00"),
        *sorted(
            [
                ("A", "Highs On Friday", "2020-06-05T14:30:54", "2020-06-05T14:30:54"),
                ("AA", "With, comma", "2020-06-05T14:30:54", "2020-06-05T14:30:54"),
            ],
            key=lambda row: log.frame["entity"].to_list().index(row[0], 3),
        ),
    ]
    assert refused(log) == [
        (4, "missing_time"),
        (5, "null_entity"),
        (6, "duplicate"),
        (7, "unreadable_time"),
    ]
    assert set(log.frame["kind"]) == {"news"}


def test_minutes_of_the_processed_file_are_over_when_they_are_known(tmp_path):
    text = (
        ",title,date,stock\n0.0,Highs On Friday,2020-06-05 10:30:00-04:00,A\n"
        "1.0,A date,2020-05-22 00:00:00,A\n"
        "2.0,In winter,2020-02-11 10:00:00-04:00,A\n"
    )
    log = read_benzinga(write(tmp_path, "analyst_ratings_processed.csv", text))
    assert known(log) == [
        ("A", "2020-02-11T15:01:00", "In winter"),
        ("A", "2020-05-26T13:30:00", "A date"),
        ("A", "2020-06-05T14:31:00", "Highs On Friday"),
    ]


def test_the_partner_file_is_dates_alone(tmp_path):
    text = HEADER + "2,Agilent,https://x,GuruFocus,2020-06-01 00:00:00,A\n"
    log = read_benzinga(write(tmp_path, "raw_partner_headlines.csv", text), latency="1min")
    assert known(log) == [("A", "2020-06-02T13:31:00", "Agilent")]


def both_readings(wall, offset):
    """Say when a stamp is past under either reading, with the plain library."""
    written = wall.replace(tzinfo=UTC) - timedelta(hours=offset)
    readings = [wall.replace(tzinfo=NEW_YORK, fold=fold).astimezone(UTC) for fold in (0, 1)]
    return max(written, *readings)


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2020-03-08 01:59:59-04:00", "2020-03-08T06:59:59"),  # standard time still
        ("2020-03-08 02:30:00-04:00", "2020-03-08T07:30:00"),  # no such wall time: as if still standard time
        ("2020-03-08 03:00:00-04:00", "2020-03-08T07:00:00"),
        ("2019-11-03 00:59:59-04:00", "2019-11-03T04:59:59"),
        ("2019-11-03 01:00:00-04:00", "2019-11-03T06:00:00"),  # twice: the second
        ("2019-11-03 02:00:00-04:00", "2019-11-03T07:00:00"),
    ],
)
def test_nights_on_which_the_clocks_change(tmp_path, stamp, expected):
    log = read_benzinga(write(tmp_path, "a.csv", f"{HEADER}0,x,u,p,{stamp},A\n"))
    assert known(log) == [("A", expected, "x")]


@settings(max_examples=40, deadline=None)
@given(
    wall=st.datetimes(datetime(2009, 1, 2), datetime(2020, 12, 1)).map(lambda at: at.replace(microsecond=0)),
    offset=st.sampled_from([-4, -5, 0]),
)
def test_the_later_reading_counts(tmp_path_factory, wall, offset):
    stamp = f"{wall:%Y-%m-%d %H:%M:%S}{offset:+03d}:00"
    path = write(tmp_path_factory.mktemp("b"), "a.csv", f"{HEADER}0,x,u,p,{stamp},A\n")
    assert read_benzinga(path).frame["available_at"][0] == both_readings(wall, offset)


def test_packed_files_and_several_of_them(tmp_path):
    plain, *others = packed(tmp_path, "raw.csv", TEXT)
    expected = read_benzinga(plain).fingerprint
    assert [read_benzinga(other).fingerprint for other in others] == [expected] * 2
    twice = read_benzinga([plain, others[0]])
    assert twice.fingerprint == expected
    assert twice.reject_counts["duplicate"] == 1 + 6
    assert str(others[0]) in twice.rejects["detail"][-1]
    table = pl.read_csv(plain, infer_schema=False)
    table.write_parquet(tmp_path / "raw.parquet")
    assert read_benzinga(tmp_path / "raw.parquet").fingerprint == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.replace("headline", "headlines"), r"no column 'title'; it has|nearest"),
        (TEXT.replace(",stock", ",symbol"), r"no column 'stock'; it has '', 'headline'"),
        ("Date,Article_title,Stock_symbol,Url\n1,2,3,4\n", r"looks like format 'fnspid'"),
        (HEADER + LINES[0] + ",more\n", r"Row #2: Expected 6 columns, got 7"),
        (HEADER + LINES[4] + "\n", r"1 missing_time"),
        (HEADER + "0,x,u,p,9999-01-01 10:00:00-04:00,A\n", r"1 out_of_range"),
        (b"\xff\xfe" + TEXT.encode(), "not UTF-8 in line 1"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_benzinga(write(tmp_path, "a.csv", content))


def test_archives_that_hold_more_than_one_file_or_are_cut_are_refused(tmp_path):
    _, packed_file, archive = packed(tmp_path, "raw.csv", TEXT)
    packed_file.write_bytes(packed_file.read_bytes()[:-20])
    with pytest.raises(EventDataError, match=r"raw.csv.gz cannot be read to its end"):
        read_benzinga(packed_file)
    archive.write_bytes(archive.read_bytes()[:-10])
    with pytest.raises(EventDataError, match=r"raw.csv.zip is not a whole zip archive"):
        read_benzinga(archive)


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2020-02-11 10:00:00.25-04:00", "2020-02-11T15:00:00.250"),
        ("2020-02-11 10:00-04:00", "2020-02-11T15:00:00"),
        ("2020-02-11 10:00:00-0400", "2020-02-11T15:00:00"),
        ("2020-02-11T10:00:00 -04:00", "2020-02-11T15:00:00"),
        ("2020-02-11 15:00:00+00:00", "2020-02-11T20:00:00"),
        ("2020-02-11 10:00:00Z", "2020-02-11T10:00:00"),
        ("2020-02-11 10:00:00", "2020-02-11T15:00:00"),
    ],
)
def test_other_spellings_are_read_alike(tmp_path, stamp, expected):
    log = read_benzinga(write(tmp_path, "a.csv", f"{HEADER}0,x,u,p,{stamp},A\n"))
    assert known(log) == [("A", expected, "x")]


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        ("9999-01-01 10:00:00-04:00", "out_of_range"),
        ("1500-01-01 10:00:00-04:00", "out_of_range"),
        ("2262-04-11 23:00:00-04:00", "out_of_range"),
        ("2016-12-31 23:59:60-04:00", "leap_second"),
        ("2020-06-05 25:30:54-04:00", "unreadable_time"),
    ],
)
def test_stamps_at_and_beyond_the_edges(tmp_path, stamp, reason):
    log = read_benzinga(write(tmp_path, "a.csv", f"{HEADER}0,x,u,p,{stamp},A\n1,{LINES[0][2:]}\n"))
    assert refused(log) == [(0, reason)]
