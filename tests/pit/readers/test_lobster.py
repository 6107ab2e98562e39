"""LOBSTER messages: nanoseconds, the order of lines, halts, the book beside them."""

import gzip

import polars as pl
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers.lobster import read_lobster

NAME = "AAPL_2012-06-21_34200000_57600000_message_2.csv"
BOOK = "AAPL_2012-06-21_34200000_57600000_orderbook_2.csv"
LINES = """\
34200.004241176,1,16113575,18,5853300,1
34200.004241176,5,0,7,5853350,-1
34200.004241177,4,16113575,11,5853300,1
34201,3,16113575,7,5853300,1
34201.5,2,2,7,5853300,-1
34202,6,-1,500,5853000,-1
34203.000000001,7,0,0,-1,-1
34204.25,7,0,0,0,-1
34205.25,7,0,0,1,-1
"""
LEVELS = "5859400,200,5853300,18,9999999999,0,-9999999999,0\n" * 9


def write(folder, content=LINES, name=NAME):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def stamps(log, column="event_time"):
    return log.frame[column].dt.to_string("%FT%T%.9f").to_list()


def test_messages(tmp_path):
    log = read_lobster(write(tmp_path))
    assert log.features == ("price", "size", "direction")
    assert log.entities == ("AAPL",)
    assert stamps(log) == [
        "2012-06-21T13:30:00.004241176",
        "2012-06-21T13:30:00.004241176",
        "2012-06-21T13:30:00.004241177",
        "2012-06-21T13:30:01.000000000",
        "2012-06-21T13:30:01.500000000",
        "2012-06-21T13:30:02.000000000",
        "2012-06-21T13:30:03.000000001",
        "2012-06-21T13:30:04.250000000",
        "2012-06-21T13:30:05.250000000",
    ]
    assert stamps(log, "available_at")[0] == "2012-06-21T13:30:00.005241176"
    assert log.frame.select("kind", "price", "size", "direction").rows() == [
        ("submission", 585.33, 18.0, 1.0),
        ("hidden_execution", 585.335, 7.0, -1.0),
        ("execution", 585.33, 11.0, 1.0),
        ("deletion", 585.33, 7.0, 1.0),
        ("cancellation", 585.33, 7.0, -1.0),
        ("cross", 585.3, 500.0, -1.0),
        ("halt", None, None, None),
        ("quoting_resumes", None, None, None),
        ("trading_resumes", None, None, None),
    ]
    assert log.frame["text"].null_count() == 9
    assert log.rejects.is_empty()


def test_messages_of_one_nanosecond_keep_the_order_of_lines(tmp_path):
    # Twelve lines: ids without leading zeros would sort 10 before 2.
    lines = "".join(f"34200.5,1,{number},{number},5853300,1\n" for number in range(1, 13))
    log = read_lobster(write(tmp_path, lines))
    assert log.frame["size"].to_list() == list(range(1, 13))
    assert log.frame["event_id"][1] == "AAPL:2012-06-21:000000002"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BRK_B_2012-11-02_34200000_57600000_message_1.csv", "2012-11-02T13:30:00.000000001"),
        ("BRK_B_2012-11-05_34200000_57600000_message_1.csv", "2012-11-05T14:30:00.000000001"),
    ],
)
def test_the_date_of_the_file_name_decides_on_summer_time(tmp_path, name, expected):
    log = read_lobster(write(tmp_path, "34200.000000001,1,1,1,10000,1\n", name), latency="0s")
    assert stamps(log) == stamps(log, "available_at") == [expected]
    assert log.entities == ("BRK_B",)


def test_the_book_after_each_message(tmp_path):
    write(tmp_path, LEVELS, BOOK)
    log = read_lobster(write(tmp_path), levels=2)
    names = [f"{side}_{n}" for n in (1, 2) for side in ("ask_price", "ask_size", "bid_price", "bid_size")]
    assert sorted(log.features) == sorted(["price", "size", "direction", *names])
    assert log.frame.select(names).row(0) == (585.94, 200.0, 585.33, 18.0, None, None, None, None)
    one = read_lobster(tmp_path / NAME, levels=1)
    assert "ask_price_2" not in one.features


def test_gzipped_files(tmp_path):
    packed = write(tmp_path, gzip.compress(LINES.encode()), NAME + ".gz")
    assert read_lobster(packed).fingerprint == read_lobster(write(tmp_path)).fingerprint


REFUSED = [
    ("34203.1234567891,1,1,1,1,1", "unreadable_time", "'34203.1234567891'"),
    ("3.42e4,1,1,1,1,1", "unreadable_time", "'3.42e4'"),
    ("86400,1,1,1,1,1", "unreadable_time", "'86400'"),
    ("34203,8,1,1,1,1", "unknown_type", "column 'Event Type' is '8'"),
    ("34203,7,0,0,5,-1", "unknown_type", "column 'Price' is '5'"),
    ("34203,1,1,1,-1,1", "bad_price", "column 'Price' is '-1'"),
    ("34203,1,1,1,5.5,1", "bad_price", "column 'Price' is '5.5'"),
    ("34203,1,1,0,1,1", "bad_size", "column 'Size' is '0'"),
    ("34203,1,1,,1,1", "bad_size", "column 'Size' is null"),
    ("34203,1,1,1,1,0", "bad_direction", "column 'Direction' is '0'"),
]


@pytest.mark.parametrize(("line", "reason", "detail"), REFUSED)
def test_refused_lines(tmp_path, line, reason, detail):
    path = write(tmp_path, f"34200,1,1,1,1,1\n{line}\n")
    log = read_lobster(path)
    assert log.rejects.select("row", "reason").rows() == [(1, reason)]
    assert detail in log.rejects["detail"][0]
    with pytest.raises(EventDataError, match=rf"1 of 2 rows are refused \(1 {reason}\)"):
        read_lobster(path, strict=True)


def test_a_day_that_the_name_writes_wrongly(tmp_path):
    with pytest.raises(EventDataError, match="unreadable_time"):
        read_lobster(write(tmp_path, LINES, "AAPL_2012-02-30_1_2_message_1.csv"))


BROKEN = [
    (b"", r"a line has 1 fields, not 6"),
    ("34200,1,1,1,1,1\n34201,1,1,1,1\n", r"Expected 6 columns, got 5"),
    ("34200,1,1,1,1,1\n34201,1,1,1,1,1,1\n", r"Expected 6 columns, got 7"),
    (b"34200,1,1,1,1,1\n34201,1,1,1,1,\xe9\n", r"not UTF-8 in line 2"),
    (
        "Date,Open,High,Low,Close,Volume,Adj Close\n",
        r"a line has 7 fields, not 6\); it looks like format 'yfinance'",
    ),
    ("34201,1,1,1,1,1\n34200.999999999,1,1,1,1,1\n", r"goes back in time in 1 lines, first line 2"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_broken_files(tmp_path, content, message):
    with pytest.raises(EventDataError, match=message):
        read_lobster(write(tmp_path, content))


def test_wrong_requests(tmp_path):
    path = write(tmp_path)
    with pytest.raises(UsageError, match=r"levels=1 needs .*orderbook_2.csv"):
        read_lobster(path, levels=1)
    with pytest.raises(UsageError, match="levels=3 is more than the 2 levels"):
        read_lobster(path, levels=3)
    with pytest.raises(UsageError, match="levels=-1 is negative"):
        read_lobster(path, levels=-1)
    with pytest.raises(UsageError, match="is an orderbook file; give the message file"):
        read_lobster(write(tmp_path, LEVELS, BOOK))
    with pytest.raises(UsageError, match="does not say its ticker and date"):
        read_lobster(write(tmp_path, LINES, "messages.csv"))
    write(tmp_path, LEVELS[: len(LEVELS) // 9 * 8], BOOK)
    with pytest.raises(EventDataError, match=r"has 8 lines and .* 9; they belong together"):
        read_lobster(path, levels=1)


def test_all_nine_decimals_survive(tmp_path):
    lines = "".join(f"57599.{nano:09d},1,1,1,1,1\n" for nano in range(999_999_990, 1_000_000_000))
    log = read_lobster(write(tmp_path, lines), latency="0s")
    gaps = log.frame["event_time"].to_physical().diff().drop_nulls()
    assert gaps.to_list() == [1] * 9
    assert log.frame["event_time"].dtype == pl.Datetime("ns", "UTC")
