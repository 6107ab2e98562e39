"""EDGAR submissions JSON: both readings of the "Z", overnight posting, dates in disguise, refusals."""

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers.edgar_submissions import read_edgar_submissions

NEW_YORK = ZoneInfo("America/New_York")
COLUMNS = (
    "accessionNumber",
    "filingDate",
    "reportDate",
    "acceptanceDateTime",
    "form",
    "items",
    "primaryDocDescription",
)
ROWS = [
    (
        "0000320193-24-000005",
        "2024-02-01",
        "2024-02-01",
        "2024-02-01T21:30:28.000Z",
        "8-K",
        "2.02,9.01",
        "8-K",
    ),
    (
        "0000320193-24-000006",
        "2024-02-02",
        "2023-12-30",
        "2024-02-02T18:01:30.000Z",
        "10-Q",
        "",
        "QUARTERLY REPORT",
    ),
    ("0000320193-24-000007", "2024-02-05", "2023-12-30", "2024-02-03T01:11:27.000Z", "10-Q/A", "", ""),
]


def document(rows, **extra):
    recent = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
    return {
        "cik": "320193",
        "name": "Name of today",
        "tickers": ["AAPL", "AAPL-B"],
        "filings": {"recent": recent, "files": []},
        **extra,
    }


def write(folder, content, name="CIK0000320193.json"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def known(log):
    """Accession number to the time of knowledge."""
    return dict(
        log.frame.select(
            pl.col("event_id").str.split(":").list.first(), pl.col("available_at").dt.to_string("%FT%T")
        ).rows()
    )


@pytest.mark.filterwarnings("ignore:1 acceptance stamps")
def test_undeclared_stamps_take_the_later_reading(tmp_path):
    log = read_edgar_submissions(write(tmp_path, document(ROWS)))
    assert known(log) == {
        "0000320193-24-000005": "2024-02-02T02:35:28",  # 21:30:28 New York, five minutes later
        "0000320193-24-000006": "2024-02-02T23:06:30",
        "0000320193-24-000007": "2024-02-05T11:05:00",  # held back until 06:00 of the filing date
    }
    assert log.entities == ("0000320193",)
    assert log.frame["kind"].to_list() == ["8-K", "10-Q", "10-Q/A"]
    assert log.frame["text"].to_list() == [
        "8-K; items 2.02,9.01; period 2024-02-01",
        "10-Q: QUARTERLY REPORT; period 2023-12-30",
        "10-Q/A; period 2023-12-30",
    ]
    assert log.frame["event_id"][0] == "0000320193-24-000005:0000320193"
    assert log.rejects.is_empty()


def test_declared_clocks(tmp_path):
    path = write(tmp_path, document(ROWS[:2]))
    utc = read_edgar_submissions(path, acceptance_zone="utc", latency="0s")
    assert known(utc) == {
        "0000320193-24-000005": "2024-02-01T21:30:28",
        "0000320193-24-000006": "2024-02-02T18:01:30",
    }
    eastern = read_edgar_submissions(path, acceptance_zone="eastern", latency="0s")
    assert known(eastern) == {
        "0000320193-24-000005": "2024-02-02T02:30:28",
        "0000320193-24-000006": "2024-02-02T23:01:30",
    }


@pytest.mark.parametrize("zone", ["utc", "eastern", None])
def test_accepted_in_the_evening_is_posted_at_six_of_the_filing_date(tmp_path, zone):
    # Friday 20:11:27 in New York, written in the clock declared; filed on Monday.
    stamp = "2022-02-04T20:11:27.000Z" if zone == "eastern" else "2022-02-05T01:11:27.000Z"
    rows = [("a", "2022-02-07", "", stamp, "10-K", "", "")]
    options = {} if zone is None else {"acceptance_zone": zone}
    if zone is None:
        with pytest.warns(
            UserWarning, match=r"1 acceptance stamps, of CIK 0000320193.*acceptance_zone='utc'"
        ):
            log = read_edgar_submissions(write(tmp_path, document(rows)), latency="0s")
    else:
        log = read_edgar_submissions(write(tmp_path, document(rows)), latency="0s", **options)
    assert known(log) == {"a": "2022-02-07T11:00:00"}


def test_the_next_morning_is_not_before_six_under_the_later_reading(tmp_path):
    # Tuesday 20:11:27 in New York as UTC: read as New York it would be Wednesday 01:11, before the posting.
    rows = [("a", "2024-01-10", "", "2024-01-10T01:11:27.000Z", "10-K", "", "")]
    with pytest.warns(UserWarning, match="acceptance stamps"):
        log = read_edgar_submissions(write(tmp_path, document(rows)), latency="0s")
    assert known(log) == {"a": "2024-01-10T11:00:00"}


DISGUISED = ["1995-12-19T05:00:00.000Z", "1995-12-19T00:00:00.000Z", "", None]


@pytest.mark.parametrize("stamp", DISGUISED)
def test_midnights_and_missing_stamps_are_dates(tmp_path, stamp):
    rows = [("a", "1995-12-19", "", stamp, "10-K", "", "")]
    log = read_edgar_submissions(write(tmp_path, document(rows)), latency="0s")
    assert known(log) == {"a": "1995-12-20T14:30:00"}
    assert log.frame["event_time"].dt.to_string("%FT%T").to_list() == ["1995-12-19T05:00:00"]


def test_a_midnight_in_summer_and_one_that_the_declared_clock_rules_out(tmp_path):
    rows = [("a", "1995-07-19", "", "1995-07-19T04:00:00.000Z", "10-K", "", "")]
    path = write(tmp_path, document(rows))
    assert known(read_edgar_submissions(path, latency="0s")) == {"a": "1995-07-20T13:30:00"}
    assert known(read_edgar_submissions(path, latency="0s", acceptance_zone="eastern")) == {
        "a": "1995-07-19T10:00:00"  # 04:00 in New York, posted at six
    }


def test_daylight_saving_nights(tmp_path):
    rows = [
        ("twice", "2024-11-04", "", "2024-11-03T01:30:00.000Z", "10-K", "", ""),
        ("never", "2024-03-11", "", "2024-03-10T02:30:00.000Z", "10-K", "", ""),
    ]
    path = write(tmp_path, document(rows))
    with pytest.raises(
        EventDataError, match=r"2 of 2 rows are refused \(1 ambiguous_time, 1 nonexistent_time\)"
    ):
        read_edgar_submissions(path, acceptance_zone="eastern")
    with pytest.warns(UserWarning, match="2 acceptance stamps"):
        both = read_edgar_submissions(path, latency="0s")
    assert both.frame.select(pl.col("event_time").dt.to_string("%FT%T")).to_series().to_list() == [
        "2024-03-10T02:30:00",  # New York skips it, so it can only be UTC
        "2024-11-03T06:30:00",  # the second 01:30 of New York
    ]


REFUSED = [
    (("a", "", "", "2024-02-02T18:01:30.000Z", "8-K", "", ""), "missing_time", "column 'filingDate' is null"),
    (("a", "02/02/2024", "", "2024-02-02T18:01:30.000Z", "8-K", "", ""), "missing_time", "'02/02/2024'"),
    (
        ("a", "2024-02-02", "", "soon", "8-K", "", ""),
        "unreadable_time",
        "column 'acceptanceDateTime' is 'soon'",
    ),
    (("a", "2024-02-02", "", "2024-02-02T18:01:60.000Z", "8-K", "", ""), "unreadable_time", ":60.000Z"),
    (("a", "2024-02-02", "", "2024-02-02T18:01:30-05:00", "8-K", "", ""), "unreadable_time", "-05:00"),
    (
        ("", "2024-02-02", "", "2024-02-02T18:01:30.000Z", "8-K", "", ""),
        "null_event_id",
        "column 'accessionNumber'",
    ),
    (("a", "2024-02-02", "", "2024-02-02T18:01:30.000Z", "CORRESP", "", ""), "released_later", "'CORRESP'"),
    (("a", "2024-02-02", "", "2024-02-02T18:01:30.000Z", "DRS/A", "", ""), "released_later", "'DRS/A'"),
]


@pytest.mark.parametrize(("row", "reason", "detail"), REFUSED)
def test_rows_that_cannot_be_dated_are_refused(tmp_path, row, reason, detail):
    path = write(tmp_path, document([ROWS[0], row]))
    log = read_edgar_submissions(path)
    assert len(log) == 1
    assert log.rejects.select("row", "reason").rows() == [(1, reason)]
    assert detail in log.rejects["detail"][0]
    with pytest.raises(EventDataError, match=rf"1 of 2 rows are refused \(1 {reason}\); first row 1"):
        read_edgar_submissions(path, strict=True)


def test_tickers_of_the_file_of_a_list_and_of_none(tmp_path):
    path = write(tmp_path, document(ROWS[:1]))
    own = read_edgar_submissions(path, entity="ticker")
    assert own.entities == ("AAPL", "AAPL-B")
    assert own.frame["event_id"].n_unique() == 2
    listed = {
        "0": {"cik_str": 320193, "ticker": "APC", "title": "Apple"},
        "1": {"cik_str": 1, "ticker": "X", "title": ""},
    }
    tickers = write(tmp_path, listed, "company_tickers.json")
    assert read_edgar_submissions(path, entity="ticker", tickers=str(tickers)).entities == ("APC",)
    fields = {"fields": ["cik", "name", "ticker", "exchange"], "data": [[320193, "Apple", "AAPL", "Nasdaq"]]}
    exchanges = write(tmp_path, fields, "company_tickers_exchange.json")
    assert read_edgar_submissions(path, entity="ticker", tickers=str(exchanges)).entities == ("AAPL",)
    nobody = write(tmp_path, {"0": {"cik_str": 7, "ticker": "Z", "title": ""}}, "other.json")
    with pytest.raises(EventDataError, match=r"1 of 1 rows are refused \(1 null_entity\).*without a ticker"):
        read_edgar_submissions(path, entity="ticker", tickers=str(nobody))


def test_further_files_and_filings_that_stand_in_two(tmp_path):
    first = write(tmp_path, document(ROWS[:2]))
    older = {name: [row[place] for row in ROWS[1:2]] for place, name in enumerate(COLUMNS)}
    second = write(tmp_path, older, "CIK0000320193-submissions-001.json")
    log = read_edgar_submissions([first, second])
    assert len(log) == 2
    assert log.rejects.select("row", "reason").rows() == [(0, "duplicate")]
    assert log.rejects["detail"][0].startswith("CIK0000320193-submissions-001.json: ")


def test_columns_that_an_old_file_lacks(tmp_path):
    bare = {name: ["x"] for name in ("accessionNumber", "form")}
    bare |= {"filingDate": ["2024-02-02"], "acceptanceDateTime": ["2024-02-02T18:01:30.000Z"]}
    log = read_edgar_submissions(write(tmp_path, bare))
    assert log.frame["text"].to_list() == ["x"]


BROKEN = [
    (b"", r"is empty"),
    (b'{"cik": "1", "filings": {"recent": {"accessionNumber": ["a"', r"is not whole JSON \(at line 1\)"),
    (b"caf\xe9", r"is not UTF-8 in line 1"),
    (
        {"observations": [], "realtime_start": "2024-01-01"},
        r"not of format 'edgar_submissions'.*looks like format 'alfred'",
    ),
    (b"<SEC-DOCUMENT>0000950170-22-000796.txt", r"it is no JSON\); it looks like format 'edgar_sgml'"),
    (
        [1, 2],
        r"no filings.recent with accessionNumber\); see `quantattn ingest --describe edgar_submissions`",
    ),
    (
        {"cik": "1", "filings": {"recent": {"accessionNumber": ["a"], "form": ["b"]}}},
        r"lack the arrays \['filingDate', ",
    ),
    (
        document(ROWS, filings={"recent": {name: ["a"] * (1 + (name == "form")) for name in COLUMNS}}),
        r"differ in length",
    ),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_broken_files(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message) as caught:
        read_edgar_submissions(write(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_wrong_requests(tmp_path):
    path = write(tmp_path, document(ROWS))
    with pytest.raises(UsageError, match=r"none.json cannot be read \(No such file"):
        read_edgar_submissions(tmp_path / "none.json")
    with pytest.raises(UsageError, match="tickers= names filers only with entity='ticker'"):
        read_edgar_submissions(path, tickers="x.json")
    with pytest.raises(UsageError, match="acceptance_zone='est' is unknown"):
        read_edgar_submissions(path, acceptance_zone="est")
    with pytest.raises(UsageError, match="paths= is empty"):
        read_edgar_submissions([])
    with pytest.raises(EventDataError, match=r"names no filer.*name it as the SEC does"):
        read_edgar_submissions(write(tmp_path, document(ROWS, cik=""), "filings.json"))


def naive_time_of_knowledge(stamp, filed):
    """The rule as a reviewer would read it: the later reading, and never before six on the filing date."""
    utc = stamp.replace(tzinfo=UTC)
    eastern = stamp.replace(tzinfo=NEW_YORK, fold=1)
    if eastern.astimezone(UTC).astimezone(NEW_YORK).replace(tzinfo=None) != stamp:
        eastern = utc
    posted = datetime(filed.year, filed.month, filed.day, 6, tzinfo=NEW_YORK)
    return max(moment.astimezone(UTC) for moment in (utc, eastern, posted))


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=60, deadline=None)
@given(
    stamps=st.lists(
        st.tuples(st.datetimes(datetime(2003, 1, 1), datetime(2024, 12, 1)), st.integers(-1, 4)),
        min_size=1,
        max_size=8,
    )
)
def test_any_stamp_is_known_when_the_rule_says(tmp_path_factory, stamps):
    rows, expected = [], {}
    for number, (stamp, days) in enumerate(stamps):
        stamp = stamp.replace(microsecond=0)
        local = stamp.replace(tzinfo=UTC).astimezone(NEW_YORK)
        if stamp.time() == datetime.min.time() or local.time() == datetime.min.time():
            continue
        filed = stamp.date() + timedelta(days=days)
        rows.append(
            (f"f{number}", filed.isoformat(), "", stamp.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "8-K", "", "")
        )
        expected[f"f{number}"] = naive_time_of_knowledge(stamp, filed).strftime("%Y-%m-%dT%H:%M:%S")
    if rows:
        path = write(tmp_path_factory.mktemp("edgar"), document(rows))
        log = read_edgar_submissions(path, latency="0s")
        assert known(log) == expected
        assert log.rejects.is_empty()
