"""FNSPID: stamps that say UTC and are not, dates in disguise, texts from later, and large files."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers import read_fnspid
from tests.pit.readers.news import known, packed, refused, rows, write

HEADER = (
    "Date,Article_title,Stock_symbol,Url,Publisher,Author,Article,"
    "Lsa_summary,Luhn_summary,Textrank_summary,Lexrank_summary\n"
)
NEW_YORK = ZoneInfo("America/New_York")
BENZINGA = "https://www.benzinga.com/news/20/06/16190091/x"


def line(date, title, symbol, url="https://www.nasdaq.com/articles/x", article="", summary=""):
    return f'{date},"{title}",{symbol},{url},Pub,,"{article}",{summary},,,\n'


# 2020-06-05 was a Friday, Monday's session began at 13:30 UTC.
TEXT = HEADER + (
    line("2020-06-05 06:30:54 UTC", "Benzinga, at 10:30 in New York", "A", BENZINGA)
    + line("2020-06-05 00:00:00 UTC", "A date", "A")
    + line("2020-06-04 23:00:00 UTC", "A midnight of Berlin", "B")
    + line("2020-06-04 11:00:00 UTC", "A midnight of nowhere near", "C")
    + line("", "Undated", "A")
    + line("2020-06-05 10:00:00", "Without a zone", "A")
    + line("2020-06-05 06:30:54 UTC", "No symbol", "")
    + line("2020-06-05 00:00:00 UTC", "A date", "A", "https://example.com/copy")
    + line("June 5", "Words", "A")
)


def test_by_default_no_time_of_day_is_used(tmp_path):
    log = read_fnspid(write(tmp_path, "All_external.csv", TEXT))
    assert known(log) == [
        ("C", "2020-06-05T13:30:00", "A midnight of nowhere near"),
        *sorted(
            [
                ("A", "2020-06-08T13:30:00", "Benzinga, at 10:30 in New York"),
                ("A", "2020-06-08T13:30:00", "A date"),
                ("B", "2020-06-08T13:30:00", "A midnight of Berlin"),
            ],
            key=lambda row: known(log).index(row),
        ),
    ]
    assert refused(log) == [
        (4, "missing_time"),
        (5, "naive_time"),
        (6, "null_entity"),
        (7, "duplicate"),
        (8, "unreadable_time"),
    ]
    assert set(log.frame["kind"]) == {"news"}
    assert log.features == ()


def test_benzingas_clock_is_corrected_by_eight_hours_where_that_is_asked(tmp_path):
    log = read_fnspid(write(tmp_path, "a.csv", TEXT), clock="corrected", symbols="A")
    assert rows(log, "text", "event_time", "available_at") == [
        ("Benzinga, at 10:30 in New York", "2020-06-05T14:30:54", "2020-06-05T14:30:54"),
        ("A date", "2020-06-05T09:00:00", "2020-06-08T13:30:00"),
    ]


def test_in_winter_the_later_reading_counts(tmp_path):
    path = write(tmp_path, "a.csv", HEADER + line("2020-01-15 06:00:00 UTC", "x", "A", BENZINGA))
    log = read_fnspid(path, clock="corrected")
    assert known(log) == [("A", "2020-01-15T15:00:00", "x")]


def test_trust_is_what_leaks(tmp_path):
    path = write(tmp_path, "a.csv", TEXT)
    trusted = read_fnspid(path, clock="trusted", symbols="A,B")
    assert ("A", "2020-06-05T06:30:54", "Benzinga, at 10:30 in New York") in known(trusted)
    assert ("B", "2020-06-04T23:00:00", "A midnight of Berlin") in known(trusted)
    assert ("A", "2020-06-08T13:30:00", "A date") in known(trusted)


@settings(max_examples=20, deadline=None)
@given(
    wall=st.datetimes(datetime(2019, 1, 1), datetime(2020, 12, 1)).map(lambda at: at.replace(microsecond=0)),
    calendar=st.sampled_from(["XNYS", "XTKS", "XLON", "XASX"]),
)
def test_nothing_of_benzinga_is_known_before_it_was_published(tmp_path_factory, wall, calendar):
    # The offset of the source, -04:00, may be wrong in winter.
    published = max(wall.replace(tzinfo=UTC) + timedelta(hours=4), wall.replace(tzinfo=NEW_YORK, fold=1))
    stamp = (wall - timedelta(hours=4)).strftime("%Y-%m-%d %H:%M:%S UTC")
    path = write(tmp_path_factory.mktemp("f"), "a.csv", HEADER + line(stamp, "x", "A", BENZINGA))
    ignored, corrected, trusted = (
        read_fnspid(path, calendar=calendar, clock=clock).frame["available_at"][0]
        for clock in ("ignored", "corrected", "trusted")
    )
    assert ignored >= published
    assert corrected >= published
    if not stamp.endswith("00:00:00 UTC"):
        assert trusted < published


def test_later_texts_are_read_only_where_asked_for(tmp_path):
    path = write(
        tmp_path,
        "a.csv",
        HEADER + line("2020-06-05 00:00:00 UTC", "Title", "A", article="Body", summary="Sum"),
    )
    assert known(read_fnspid(path))[0][2] == "Title"
    assert known(read_fnspid(path, text="article"))[0][2] == "Body"
    assert known(read_fnspid(path, text="title_and_article"))[0][2] == "Title\nBody"
    assert known(read_fnspid(path, text="lsa_summary"))[0][2] == "Sum"
    assert known(read_fnspid(path, text="luhn_summary"))[0][2] is None


def test_rows_without_a_symbol_are_market_wide_where_that_is_asked(tmp_path):
    log = read_fnspid(write(tmp_path, "a.csv", TEXT), untagged="market")
    assert (None, "2020-06-08T13:30:00", "No symbol") in known(log)
    assert (6, "null_entity") not in refused(log)


def test_an_index_column_other_cases_and_parquet_change_nothing(tmp_path):
    plain = read_fnspid(write(tmp_path, "a.csv", TEXT))
    numbered = "".join(f"{n},{text}\n" for n, text in enumerate(TEXT.splitlines()))
    indexed = write(
        tmp_path, "b.csv", numbered.replace("0,Date", ",date").replace("Stock_symbol", "STOCK_SYMBOL")
    )
    assert read_fnspid(indexed).fingerprint == plain.fingerprint
    pl.read_csv(tmp_path / "a.csv", infer_schema=False).write_parquet(tmp_path / "a.parquet")
    assert read_fnspid(tmp_path / "a.parquet").fingerprint == plain.fingerprint


def test_packed_files_are_read_as_they_are(tmp_path):
    plain, *others = packed(tmp_path, "a.csv", TEXT)
    for other in others:
        assert read_fnspid(other).fingerprint == read_fnspid(plain).fingerprint


def test_several_files_are_one_log_and_rejects_name_the_file(tmp_path):
    first = write(tmp_path, "a.csv", TEXT)
    second = write(tmp_path, "b.csv", HEADER + line("2020-06-05 00:00:00 UTC", "A date", "A"))
    log = read_fnspid([first, second])
    last = log.rejects.row(-1, named=True)
    assert (last["row"], last["reason"]) == (0, "duplicate")
    assert last["detail"].startswith(f"{second}: ")


def test_symbols_are_chosen_and_rejects_keep_the_numbers_of_the_file(tmp_path):
    log = read_fnspid(write(tmp_path, "a.csv", TEXT), symbols=" B , A")
    assert log.entities == ("A", "B")
    assert refused(log) == [
        (4, "missing_time"),
        (5, "naive_time"),
        (7, "duplicate"),
        (8, "unreadable_time"),
    ]


RAGGED = (
    HEADER
    + line("2020-06-05 00:00:00 UTC", "One", "A")
    + "2020-06-05 00:00:00 UTC,short,A\n"
    + line("2020-06-05 00:00:00 UTC", "Two\nlines", "A")
    + line("2020-06-05 00:00:00 UTC", "long", "A").replace("\n", ",,,\n")
    + line("", "Undated", "A")
)


def test_ragged_rows_are_an_error_or_rejects(tmp_path):
    path = write(tmp_path, "a.csv", RAGGED)
    with pytest.raises(
        EventDataError, match=r"a.csv cannot be parsed \(.*Row #3: Expected 11 columns, got 3"
    ):
        read_fnspid(path)
    log = read_fnspid(path, ragged="reject")
    assert sorted(log.frame["text"]) == ["One", "Two\nlines"]
    assert refused(log) == [(1, "ragged_row"), (3, "ragged_row"), (4, "missing_time")]
    assert "'2020-06-05 00:00:00 UTC,short,A'" in log.rejects["detail"][0]


def test_a_long_article_fits(tmp_path):
    body = "word " * 500_000
    log = read_fnspid(
        write(tmp_path, "a.csv", HEADER + line("2020-06-05 00:00:00 UTC", "T", "A", article=body)),
        text="article",
    )
    assert log.frame["text"][0].count("word") == 500_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a.csv is empty"),
        (HEADER, r"a.csv holds no rows"),
        (
            TEXT.replace("Article_title", "Articletitle"),
            r"no column 'Article_title'; the nearest is 'Articletitle'",
        ),
        ("headline,url,publisher,date,stock\nx,u,p,2020-06-05,A\n", r"looks like format 'benzinga'"),
        (TEXT.encode() + b"2020-06-05 00:00:00 UTC,caf\xe9,A,u,,,,,,,\n", r"is not UTF-8 in line 11"),
        (TEXT + '2020-06-05 00:00:00 UTC,"open,A,u,,,,,,,\n', "unclosed quote"),
        (HEADER + line("soon", "x", "A"), r"1 of 1 .*rows are refused \(1 unreadable_time\)"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_fnspid(write(tmp_path, "a.csv", content))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "body"}, "text='body' is unknown; use one of 'title'"),
        ({"clock": "utc"}, "clock='utc' is unknown"),
        ({"untagged": "drop"}, "untagged='drop' is unknown"),
        ({"ragged": "skip"}, "ragged='skip' is unknown"),
        ({"symbols": " , "}, "symbols=' , ' names none"),
    ],
)
def test_unknown_options_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        read_fnspid(write(tmp_path, "a.csv", TEXT), **options)


def test_strict_and_symbols_that_do_not_occur_raise(tmp_path):
    path = write(tmp_path, "a.csv", TEXT)
    with pytest.raises(EventDataError, match="rows are refused"):
        read_fnspid(path, strict=True)
    with pytest.raises(EventDataError, match=r"no row of .* is of ZZZ"):
        read_fnspid(path, symbols="ZZZ")
    with pytest.raises(UsageError, match="cannot be read"):
        read_fnspid(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        # Nanoseconds would wrap around: the first to 1815, the second to 2084.
        ("9999-01-01 10:00:00 UTC", "out_of_range"),
        ("1500-01-01 10:00:00 UTC", "out_of_range"),
        ("2016-12-31 23:59:60 UTC", "leap_second"),
        ("2020-02-30 10:00:00 UTC", "unreadable_time"),
        ("2020-02-28 24:00:00 UTC", "unreadable_time"),
        ("2020-06-05 10:00:00 EST", "unreadable_time"),
        ("1700-01-01 00:00:00 UTC", "outside_calendar"),
    ],
)
@pytest.mark.parametrize("clock", ["ignored", "corrected", "trusted"])
def test_stamps_at_and_beyond_the_edges(tmp_path, stamp, reason, clock):
    good = line("2020-06-05 10:00:00+00:00", "x", "A", BENZINGA)
    path = write(tmp_path, "a.csv", HEADER + line(stamp, "x", "A", BENZINGA) + good)
    log = read_fnspid(path, clock=clock)
    assert refused(log) == [(0, reason)]
    assert log.frame["available_at"].dt.year().to_list() == [2020]
