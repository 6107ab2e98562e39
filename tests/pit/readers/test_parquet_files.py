"""Parquet files of other makers: types that polars cannot hold, far times, nested columns."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantattn.errors import EventDataError, PriceDataError, QuantAttnError
from quantattn.pit.readers import find_reader, read_event_tables
from quantattn.pit.readers._table_files import read_table, table_columns

NOON = 1_704_283_200  # 2024-01-03T12:00:00Z
ODD = {
    "an offset": pa.array([NOON], pa.timestamp("s", "+05:30")),
    "no zone of the database": pa.array([NOON], pa.timestamp("s", "Nowhere/Zone")),
    "a wide decimal": pa.array([1]).cast(pa.decimal256(50, 2)),
    "an offset in a list": pa.array([[NOON]], pa.list_(pa.timestamp("s", "+05:30"))),
}


def write(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("kind", ODD)
def test_a_column_that_is_not_read_does_no_harm(tmp_path, kind):
    path = write(tmp_path / "a.parquet", t=pa.array([NOON], pa.timestamp("s", "UTC")), odd=ODD[kind])
    assert table_columns(path, error=EventDataError) == ["t", "odd"]
    log = read_event_tables(path, event_time="t")
    assert log.frame["event_time"].dt.to_string("%F %T").to_list() == ["2024-01-03 12:00:00"]


@pytest.mark.parametrize("zone", ["+05:30", "Nowhere/Zone"])
def test_parquet_stores_instants_whatever_the_zone_is_called(tmp_path, zone):
    path = write(tmp_path / "a.parquet", t=pa.array([NOON], pa.timestamp("s", zone)))
    log = read_event_tables(path, event_time="t")
    assert log.frame["event_time"].dt.to_string("%F %T").to_list() == ["2024-01-03 12:00:00"]


@pytest.mark.parametrize("kind", ["a wide decimal", "an offset in a list"])
def test_a_column_that_cannot_be_held_is_named(tmp_path, kind):
    path = write(tmp_path / "a.parquet", odd=ODD[kind])
    with pytest.raises(
        EventDataError, match=r"column 'odd' has type .*, which cannot be read; cast or drop it"
    ):
        read_table(path, error=EventDataError)


@pytest.mark.parametrize(
    "far",
    [
        pa.array([0, 2**62], pa.timestamp("ms")),
        pa.array([0, -(2**62)], pa.timestamp("us", "UTC")),
        pa.array([0, 2**30], pa.date32()),
    ],
)
def test_times_that_no_calendar_reaches_are_named_by_their_rows(tmp_path, far):
    path = write(tmp_path / "a.parquet", t=far)
    with pytest.raises(
        EventDataError, match=r"column 't' holds times outside the years 1 to 9999 .*: 1 row, first row 1"
    ):
        read_table(path, error=EventDataError)


def test_the_edges_of_the_years_are_read(tmp_path):
    days = pl.Series([-719_161, 2_932_895], dtype=pl.Int32).cast(pl.Date)  # 0001-01-02 and 9999-12-30
    pl.DataFrame({"t": days}).write_parquet(tmp_path / "a.parquet")
    read = read_table(tmp_path / "a.parquet", error=EventDataError)["t"]
    assert [str(day) for day in read] == ["0001-01-02", "9999-12-30"]


NESTED = {
    "list": pa.array([[1], [2]]),
    "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "span": pa.array([1, 2], pa.duration("ns")),
    "bytes": pa.array([b"\xff", b"a"]),
    "half": pa.array([np.float16(1), np.float16(2)], pa.float16()),
    "whole": pa.array([1, 2], pa.uint64()),
    "decimal": pa.array([1, 2]).cast(pa.decimal128(30, 2)),
    "clock": pa.array([1, 2], pa.time64("ns")),
    "truth": pa.array([True, False]),
    "not UTF-8": pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.py_buffer(np.array([0, 2, 4], "int32").tobytes()), pa.py_buffer(b"\xff\xfeok")],
    ),
}
FORMATS = {
    "fnspid": (("Date", "Article_title", "Stock_symbol", "Url"), {}),
    "stocknet": (("ticker", "created_at", "text", "tweet_id"), {}),
    "benzinga": (("date", "title", "stock"), {}),
    "djia": (("Date", "News"), {}),
    "ravenpack": (("timestamp_utc", "rp_entity_id", "headline"), {"launch": "trust_stamps"}),
    "alfred": (("realtime_start", "realtime_end", "date", "value"), {"frequency": "M"}),
    "yfinance": (("Date", "Close", "Ticker"), {"adjusted": True}),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", NESTED)
def test_no_type_of_column_gives_an_error_of_another_library(tmp_path, format, kind):
    columns, options = FORMATS[format]
    path = write(tmp_path / "a.parquet", **dict.fromkeys(columns, NESTED[kind]))
    with pytest.raises(QuantAttnError):
        find_reader(format).read(path, **options)


def test_a_title_that_is_a_number_is_text(tmp_path):
    day, stock = pa.array(["2020-05-22 00:00:00"]), pa.array(["A"])
    path = write(tmp_path / "a.parquet", date=day, title=pa.array([42]), stock=stock)
    assert find_reader("benzinga").read(path).frame["text"].to_list() == ["42"]
    path = write(tmp_path / "b.parquet", Date=pa.array(["2010-05-21"]), News=pa.array([42]))
    assert find_reader("djia").read(path).frame["text"].to_list() == ["42"]


def test_a_list_among_the_prices_is_named(tmp_path):
    dates = pa.array([NOON, NOON + 86_400], pa.timestamp("s"))
    path = write(tmp_path / "a.parquet", Date=dates, Close=NESTED["list"])
    with pytest.raises(PriceDataError, match=r"column 'close' holds a ndarray; keep one number a cell"):
        find_reader("yfinance").read(path, adjusted=True, ticker="A")
