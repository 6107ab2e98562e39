"""Tiingo news: the crawl counts, never the publisher's date alone; archives of new sources; lower case."""

import json

import pytest

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.readers import read_tiingo
from tests.pit.readers.news import refused, rows, write


def article(number, published, crawled, tickers=("aapl",), **fields):
    return {
        "id": number,
        "title": f"Title {number}",
        "description": "About <b>it</b>",
        "publishedDate": published,
        "crawlDate": crawled,
        "tickers": list(tickers),
        "tags": ["Stock"],
        "source": "bloomberg.com",
        "url": "https://x",
        **fields,
    }


USUAL = article(1, "2019-01-29T22:17:00Z", "2019-01-29T22:20:01.696871+00:00", ("aapl", "brk-b", "AAPL"))
ARCHIVE = article(2, "2014-01-29T22:17:00Z", "2019-01-29T22:20:00Z")
AHEAD = article(3, "2019-01-29T23:00:00Z", "2019-01-29T22:00:00Z")


def content(log):
    return rows(log, "event_id", "entity", "event_time", "available_at", "n_tickers")


def test_the_crawl_counts_but_never_before_the_publication(tmp_path):
    log = read_tiingo(write(tmp_path, "a.json", json.dumps([USUAL, ARCHIVE, AHEAD])))
    assert content(log) == [
        ("2/AAPL", "AAPL", "2014-01-29T22:17:00", "2019-01-29T22:20:00", 1.0),
        ("1/AAPL", "AAPL", "2019-01-29T22:17:00", "2019-01-29T22:20:01.696871", 2.0),
        ("1/BRK-B", "BRK-B", "2019-01-29T22:17:00", "2019-01-29T22:20:01.696871", 2.0),
        ("3/AAPL", "AAPL", "2019-01-29T23:00:00", "2019-01-29T23:00:00", 1.0),
    ]
    assert log.frame["text"].to_list() == ["Title 2", "Title 1", "Title 1", "Title 3"]


@pytest.mark.parametrize(
    ("crawled", "expected"),
    [
        ("2019-01-30T22:17:00Z", "2019-01-30T22:17:00"),  # one day exactly: a slow crawl
        ("2019-01-30T22:17:00.000000001Z", "2019-01-29T23:17:00"),
        ("2024-01-01T00:00:00Z", "2019-01-29T23:17:00"),
        ("2019-01-29T22:17:00Z", "2019-01-29T22:17:00"),
    ],
)
def test_archives_are_guessed_only_where_that_is_asked(tmp_path, crawled, expected):
    path = write(tmp_path, "a.json", json.dumps([article(1, "2019-01-29T22:17:00Z", crawled)]))
    assert rows(read_tiingo(path, guess_backfill="1h"), "available_at") == [(expected,)]
    assert rows(read_tiingo(path), "available_at") != [("2019-01-29T23:17:00",)]


def test_a_second_crawl_is_a_revision(tmp_path):
    again = {**USUAL, "crawlDate": "2019-02-01T00:00:00Z", "title": "New title", "tickers": ["aapl"]}
    files = [write(tmp_path, f"{n}.jsonl", json.dumps(item) + "\n") for n, item in enumerate([again, USUAL])]
    assert rows(read_tiingo(files), "event_id", "revision", "text") == [
        ("1/AAPL", 0, "Title 1"),
        ("1/BRK-B", 0, "Title 1"),
        ("1/AAPL", 1, "New title"),
    ]


def test_articles_without_tickers_and_stamps_that_cannot_be_read(tmp_path):
    items = [
        article(1, "2019-01-29T22:17:00Z", "2019-01-29T22:20:00Z", ()),
        article(2, "2019-01-29T22:17:00Z", None),
        article(3, None, "2019-01-29T22:17:00Z"),
        article(4, "2019-01-29T22:17:00", "2019-01-29T22:20:00Z"),
        article(5, "2019-01-29", "2019-01-29T22:20:00Z"),
        article(6, "2019-01-29T22:17:00Z", "2019-01-29T22:20:00Z", tickers=[]) | {"tickers": None},
    ]
    log = read_tiingo(write(tmp_path, "a.json", json.dumps(items)), text="title_and_description")
    # A bare date is known at the next open even where the crawl says otherwise.
    assert rows(log, "entity", "available_at", "text") == [
        (None, "2019-01-29T22:20:00", "Title 1\nAbout it"),
        ("AAPL", "2019-01-30T14:30:00", "Title 5\nAbout it"),
    ]
    assert refused(log) == [(1, "missing_time"), (2, "missing_time"), (3, "naive_time"), (5, "null_entity")]
    rejecting = read_tiingo(write(tmp_path, "b.json", json.dumps([USUAL, items[0]])), untagged="reject")
    assert refused(rejecting) == [(1, "null_entity")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"detail": "Not found."}', "no item has a field 'title'"),
        (
            json.dumps([{"title": "x", "published": 1, "crawlDate": 1, "tickers": []}]),
            "nearest is 'published'",
        ),
        (json.dumps([USUAL])[:-5], "is not whole JSON in line 1"),
        (json.dumps([{**USUAL, "tickers": [1]}]), r"field 'tickers' is \[1\], not a list of names"),
        (json.dumps([article(1, "x", "y")]), "1 unreadable_time"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, text, message):
    with pytest.raises(EventDataError, match=message):
        read_tiingo(write(tmp_path, "a.json", text))


def test_comparisons_are_no_markup(tmp_path):
    item = {**USUAL, "title": "Buy if 3 < P/E <b>&lt; 5</b> and x > 2 <br/>now<!-- no -->"}
    log = read_tiingo(write(tmp_path, "a.json", json.dumps([item])))
    assert log.frame["text"][0] == "Buy if 3 < P/E < 5 and x > 2 now"


def test_options(tmp_path):
    path = write(tmp_path, "a.json", json.dumps([USUAL]))
    with pytest.raises(TimestampError, match="guess_backfill='-1h' is negative"):
        read_tiingo(path, guess_backfill="-1h")
    with pytest.raises(TimestampError, match="guess_backfill='60' is not a duration"):
        read_tiingo(path, guess_backfill="60")
    with pytest.raises(UsageError, match="text='all' is unknown"):
        read_tiingo(path, text="all")
    with pytest.raises(UsageError, match="untagged='x' is unknown"):
        read_tiingo(path, untagged="x")
    assert rows(read_tiingo(path, latency="2s"), "available_at")[0] == ("2019-01-29T22:20:03.696871",)
