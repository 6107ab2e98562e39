"""StockNet: folders named after tickers, files named after days that are not used, and the table."""

import gzip
import json

import polars as pl
import pytest

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.readers import read_stocknet
from tests.pit.readers.news import known, refused, rows, write

FIRST = {
    "created_at": "Wed Jan 01 03:57:10 +0000 2014",
    "id_str": "418228853927067648",
    "text": "RT @trader: $AAPL &amp; $GOOG up",
    "retweeted_status": {"created_at": "Tue Dec 31 12:00:00 +0000 2013", "retweet_count": 99},
    "retweet_count": 99,
    "favorite_count": 7,
}
SECOND = {"created_at": "Wed Jan 01 23:59:59 +0000 2014", "id_str": "418531377000000000", "text": "Plain"}


def lines(*tweets):
    return "".join(json.dumps(tweet) + "\n" for tweet in tweets)


@pytest.fixture
def repository(tmp_path):
    raw = tmp_path / "tweet" / "raw"
    # The names of the files are days of no zone.
    write(raw, "AAPL/2014-01-01", lines(FIRST))
    write(raw, "AAPL/2014-01-02", lines(SECOND))
    write(raw, "GOOG/2014-01-01", lines(FIRST, FIRST))
    write(raw, "AAPL/.DS_Store", b"\x00")
    ready = {"created_at": FIRST["created_at"], "text": ["rt", "AT_USER", "$", "aapl"], "user_id_str": "1"}
    write(tmp_path / "tweet" / "preprocessed", "AAPL/2014-01-01", lines(ready))
    write(tmp_path / "price" / "raw", "AAPL.csv", "Date,Open\n")
    return tmp_path


EXPECTED = [
    ("418228853927067648/AAPL", "AAPL", "2014-01-01T03:57:11", "RT @trader: $AAPL & $GOOG up", 1.0),
    ("418228853927067648/GOOG", "GOOG", "2014-01-01T03:57:11", "RT @trader: $AAPL & $GOOG up", 1.0),
    ("418531377000000000/AAPL", "AAPL", "2014-01-02T00:00:00", "Plain", 0.0),
]


@pytest.mark.parametrize("inside", [".", "tweet", "tweet/raw"])
def test_the_repository_and_folders_inside(repository, inside):
    log = read_stocknet(repository / inside)
    assert rows(log, "event_id", "entity", "available_at", "text", "is_retweet") == EXPECTED
    assert refused(log) == [(1, "duplicate")]
    assert "GOOG/2014-01-01 line 2" in log.rejects["detail"][0]
    assert set(log.frame["kind"]) == {"tweet"}
    assert log.features == ("is_retweet",)


def test_single_files_and_folders_of_one_ticker(repository):
    apple = read_stocknet(repository / "tweet" / "raw" / "AAPL")
    assert apple.entities == ("AAPL",)
    files = [repository / "tweet" / "raw" / "AAPL" / name for name in ("2014-01-02", "2014-01-01")]
    assert read_stocknet(files).fingerprint == apple.fingerprint


def test_the_names_of_the_files_are_not_used(tmp_path):
    first = read_stocknet(write(tmp_path / "a", "T/2014-01-01", lines(FIRST)))
    second = read_stocknet(write(tmp_path / "b", "T/2015-12-31", lines(FIRST)))
    assert first.fingerprint == second.fingerprint


def test_counts_that_grew_later_are_not_read(tmp_path):
    grown = {**FIRST, "retweet_count": 5000, "favorite_count": 0, "retweeted_status": {"created_at": "x"}}
    first, second = (
        read_stocknet(write(tmp_path / str(n), "T/2014-01-01", lines(tweet)))
        for n, tweet in enumerate([FIRST, grown])
    )
    assert first.fingerprint == second.fingerprint


def test_tokens_of_the_preprocessed_texts(repository):
    log = read_stocknet(repository, folder="preprocessed")
    assert rows(log, "entity", "available_at", "text", "is_retweet") == [
        ("AAPL", "2014-01-01T03:57:11", "rt AT_USER $ aapl", 1.0)
    ]


def test_the_latency_is_one_second_unless_another_is_given(tmp_path):
    path = write(tmp_path, "T/2014-01-01", lines(FIRST))
    assert known(read_stocknet(path, latency="0s"))[0][1] == "2014-01-01T03:57:10"
    with pytest.raises(TimestampError, match="latency='1' is not a duration"):
        read_stocknet(path, latency="1")


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_the_table(tmp_path, suffix):
    table = pl.DataFrame(
        {
            "ticker": pl.Series(["AAPL", "GOOG", "AAPL", "AAPL"], dtype=pl.Categorical),
            "tweet_id": [1, 1, 2, 2],
            "created_at": pl.Series([0, 0, 1500, 1500], dtype=pl.Datetime("ms", "UTC")),
            "text": ["a", "a", "b", "b"],
            "is_retweet": [True, True, False, False],
            "is_repeat": [True, True, True, True],
            "retweeted_created_at": pl.Series([None] * 4, dtype=pl.Datetime("ms", "UTC")),
        }
    )
    path = tmp_path / f"tweets.{suffix}"
    if suffix == "parquet":
        table.write_parquet(path)
    else:
        content = table.write_csv()
        path.write_bytes(gzip.compress(content.encode()) if suffix.endswith("gz") else content.encode())
    log = read_stocknet(path)
    assert rows(log, "event_id", "entity", "available_at", "is_retweet") == [
        ("1/AAPL", "AAPL", "1970-01-01T00:00:01", 1.0),
        ("1/GOOG", "GOOG", "1970-01-01T00:00:01", 1.0),
        ("2/AAPL", "AAPL", "1970-01-01T00:00:02.500", 0.0),
    ]
    assert refused(log) == [(3, "duplicate")]


def test_a_table_without_ids_and_with_stamps_of_twitter(tmp_path):
    text = (
        "ticker,created_at,text\nT,Wed Jan 01 03:57:10 +0000 2014,RT @a x\n"
        "T,Thu Jan 01 03:57:10 +0000 2014,y\nT,2014-01-01 03:57:10,z\nT,,w\n"
    )
    log = read_stocknet(write(tmp_path, "tweets.csv", text))
    assert rows(log, "entity", "available_at", "is_retweet") == [("T", "2014-01-01T03:57:11", 1.0)]
    # 2014-01-01 was a Wednesday: a stamp that contradicts itself is no stamp.
    assert refused(log) == [(1, "unreadable_time"), (2, "naive_time"), (3, "missing_time")]


def test_lines_that_cannot_be_dated_are_rejects(tmp_path):
    undated = {key: value for key, value in SECOND.items() if key != "created_at"}
    path = write(tmp_path, "T/2014-01-01", lines(FIRST, undated, {**SECOND, "created_at": "2014"}))
    log = read_stocknet(path)
    assert refused(log) == [(1, "missing_time"), (2, "unreadable_time")]
    assert log.rejects["detail"][0].startswith(f"{path} line 2: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"2014-01-01 is empty"),
        (lines(FIRST) + '{"created_at": "Wed J', r"is not whole JSON in line 2 \(Unterminated string"),
        (b'{"created_at": "x", "text": "caf\xe9"}', "is not UTF-8 in line 1"),
        (lines({"time": 1, "body": "x"}), r"no item has a field 'created_at'"),
        (
            lines({"text": ["a", 1], "created_at": FIRST["created_at"]}),
            r"2014-01-01: field 'text' lists something else",
        ),
        (
            lines({"text": {"a": 1}, "created_at": FIRST["created_at"]}),
            r"field 'text' is \{\"a\": 1\}, not text",
        ),
        ("Date,Open,High,Low,Close,Volume\n", r"it is no JSON.*looks like format 'yfinance'"),
        ("3\n4\n", r"is no JSON"),
    ],
)
def test_files_that_are_none_are_refused_with_a_reason(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_stocknet(write(tmp_path, "AAPL/2014-01-01", content))


def test_paths_that_hold_no_tweets_are_refused(tmp_path, repository):
    with pytest.raises(UsageError, match="lies in 'tweet', which is no ticker"):
        read_stocknet(write(repository, "tweet/2014-01-01", lines(FIRST)))
    assert read_stocknet(repository / "tweet" / "2014-01-01", ticker="X").entities == ("X",)
    with pytest.raises(UsageError, match="holds no tweets"):
        read_stocknet(repository / "price")
    with pytest.raises(UsageError, match="cannot be read"):
        read_stocknet(tmp_path / "none")
    with pytest.raises(UsageError, match="paths= is empty"):
        read_stocknet([])
    with pytest.raises(UsageError, match="folder='tokens' is unknown"):
        read_stocknet(repository, folder="tokens")
    with pytest.raises(EventDataError, match="has no column 'ticker'; the nearest is 'tickers'"):
        read_stocknet(write(tmp_path, "t.csv", "tickers,created_at,text\nA,2014-01-01T00:00:00Z,x\n"))


@pytest.mark.parametrize(
    "stamp", ["Sat Dec 31 23:59:60 +0000 2016", "Mon Jan 01 00:00:00 +0000 9999", "Wed Jan 1 2014"]
)
def test_stamps_that_are_none(tmp_path, stamp):
    log = read_stocknet(write(tmp_path, "T/2014-01-01", lines(FIRST, {**SECOND, "created_at": stamp})))
    assert log.rejects["row"].to_list() == [1]
    assert log.rejects["reason"][0] in ("unreadable_time", "out_of_range")
