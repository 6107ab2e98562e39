"""yfinance bars in every layout that it saves: which bars, when known, and that levels are refused."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

from quantattn.errors import LeakageError, PriceDataError, TimestampError, UsageError
from quantattn.pit.readers.yfinance import read_yfinance

FLAT = """\
Date,Open,High,Low,Close,Adj Close,Volume
2024-11-27,1,2,0.5,1.5,1.4,100
2024-11-29,1.5,2.5,0.75,1.75,1.6,200
"""
MULTI = """\
Price,Close,Close,High,High,Low,Low,Open,Open,Volume,Volume
Ticker,A,B,A,B,A,B,A,B,A,B
Date,,,,,,,,,,
2024-11-27,1.5,10,2,12,0.5,9,1,9.5,100,7
2024-11-29,1.75,,2.5,,0.75,,1.5,,200,
"""
BY_TICKER = """\
Ticker,A,A,A,A,A,B,B,B,B,B
Price,Open,High,Low,Close,Volume,Open,High,Low,Close,Volume
Date,,,,,,,,,,
2024-11-27,1,2,0.5,1.5,100,9.5,12,9,10,7
2024-11-29,1.5,2.5,0.75,1.75,200,,,,,
"""
OLD = MULTI.replace("Price,", ",").replace("Ticker,", ",")
NO_INDEX_NAME = MULTI.replace("Date,,,,,,,,,,\n", "")
LONG = """\
Date,Ticker,Open,High,Low,Close,Volume
2024-11-27,A,1,2,0.5,1.5,100
2024-11-27,B,9.5,12,9,10,7
2024-11-29,A,1.5,2.5,0.75,1.75,200
"""
EXPECTED = [
    ("A", date(2024, 11, 27), "2024-11-27T21:01:00", 1.0, 2.0, 0.5, 1.5, 100.0),
    ("A", date(2024, 11, 29), "2024-11-29T18:01:00", 1.5, 2.5, 0.75, 1.75, 200.0),  # a half day
    ("B", date(2024, 11, 27), "2024-11-27T21:01:00", 9.5, 12.0, 9.0, 10.0, 7.0),
]


def write(folder, content, name="A.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(prices):
    return prices.frame.select(
        "entity",
        "session",
        pl.col("available_at").dt.to_string("%FT%T"),
        "open",
        "high",
        "low",
        "close",
        "volume",
    ).rows()


@pytest.mark.parametrize("content", [MULTI, BY_TICKER, OLD, NO_INDEX_NAME, LONG, "\ufeff" + MULTI])
def test_layouts_that_name_their_instruments(tmp_path, content):
    prices = read_yfinance(write(tmp_path, content), adjusted=True)
    assert rows_of(prices) == EXPECTED
    assert prices.adjustment == "vendor"
    assert prices.frequency == "session"


def test_a_flat_table_and_the_adjusted_close_beside_it(tmp_path):
    path = write(tmp_path, FLAT)
    for ticker in ("A", "from_name"):
        assert rows_of(read_yfinance(path, adjusted=False, ticker=ticker)) == EXPECTED[:2]
    with pytest.raises(UsageError, match=r"has a column 'Adj Close'.*pass adjusted=False"):
        read_yfinance(path, adjusted=True, ticker="A")


@pytest.mark.parametrize("adjusted", [True, False])
def test_levels_are_refused_either_way(tmp_path, adjusted):
    prices = read_yfinance(write(tmp_path, MULTI), adjusted=adjusted)
    with pytest.raises(LeakageError, match="levels of prices that the vendor adjusted"):
        prices.levels()


def test_the_history_of_one_ticker_has_zoned_midnights_and_actions(tmp_path):
    text = (
        "Date,Open,High,Low,Close,Volume,Dividends,Stock Splits\n"
        "2024-11-01 00:00:00-04:00,1,2,0.5,1.5,100,0.0,0.0\n"
        "2024-11-04 00:00:00-05:00,1.5,2.5,0.75,1.75,200,0.1,0.0\n"
    )
    prices = read_yfinance(write(tmp_path, text), adjusted=True, ticker="A")
    assert rows_of(prices) == [
        ("A", date(2024, 11, 1), "2024-11-01T20:01:00", 1.0, 2.0, 0.5, 1.5, 100.0),
        ("A", date(2024, 11, 4), "2024-11-04T21:01:00", 1.5, 2.5, 0.75, 1.75, 200.0),
    ]


def intraday(zone="UTC", start="2024-11-29 14:30", periods=42):
    index = pd.date_range(start, periods=periods, freq="5min", tz=zone, name="Datetime")
    values = np.arange(1.0, periods + 1)
    frame = pd.DataFrame(dict.fromkeys(("Close", "High", "Low", "Open", "Volume"), values), index=index)
    frame.columns = pd.MultiIndex.from_product([frame.columns, ["A"]], names=["Price", "Ticker"])
    return frame


def test_intraday_stamps_mark_the_start(tmp_path):
    frame = intraday()
    frame.to_csv(tmp_path / "A.csv")
    frame.to_parquet(tmp_path / "A.parquet")
    read = [
        read_yfinance(source, adjusted=True, interval="5m", latency="1s")
        for source in (frame, tmp_path / "A.csv", tmp_path / "A.parquet")
    ]
    for prices in read:
        assert prices.frame.equals(read[0].frame)
        assert prices.frequency == "intraday"
        assert prices.missing_bars == "no_trade"
    first = read[0].frame.row(0, named=True)
    assert (
        f"{first['start_time']:%H:%M:%S} {first['event_time']:%H:%M:%S} {first['available_at']:%H:%M:%S}"
        == ("14:30:00 14:35:00 14:35:01")
    )
    assert read[0].frame["event_time"].dt.to_string("%T").to_list()[-1] == "18:00:00"


def test_naive_intraday_stamps_need_their_zone():
    frame = intraday().tz_convert("America/New_York").tz_localize(None)
    with pytest.raises(TimestampError, match="naive"):
        read_yfinance(frame, adjusted=True, interval="5m")
    given = read_yfinance(frame, adjusted=True, interval="5m", time_zone="America/New_York")
    assert given.frame.equals(read_yfinance(intraday(), adjusted=True, interval="5m").frame)


def test_bars_outside_the_hours():
    early = intraday(start="2024-11-29 14:20", periods=44)
    with pytest.raises(PriceDataError):
        read_yfinance(early, adjusted=True, interval="5m")
    assert read_yfinance(early, adjusted=True, interval="5m", outside="drop").frame.height == 42


def test_frames(tmp_path):
    daily = pd.DataFrame(
        {"Open": [1.0], "High": [2.0], "Low": [0.5], "Close": [1.5], "Volume": [100]},
        index=pd.DatetimeIndex(["2024-11-27"], name="Date"),
    )
    assert rows_of(read_yfinance(daily, adjusted=True, ticker="A")) == EXPECTED[:1]
    assert rows_of(read_yfinance(daily.reset_index(), adjusted=True, ticker="A")) == EXPECTED[:1]
    with pytest.raises(PriceDataError, match="no DatetimeIndex and no column Date"):
        read_yfinance(daily.reset_index(drop=True), adjusted=True, ticker="A")
    deep = daily.copy()
    deep.columns = pd.MultiIndex.from_tuples([(name, "A", "x") for name in daily.columns])
    with pytest.raises(PriceDataError, match="3 levels of columns"):
        read_yfinance(deep, adjusted=True)


def test_several_files(tmp_path):
    a, b = write(tmp_path, FLAT, "A.csv"), write(tmp_path, FLAT, "BRK-B.csv")
    assert read_yfinance([a, b], adjusted=False, ticker="from_name").entities == ("A", "BRK-B")
    with pytest.raises(UsageError, match="names the instrument of one file, and there are 2"):
        read_yfinance([a, b], adjusted=False, ticker="A")


BROKEN = [
    (b"", r"first line has one field"),
    (MULTI[:-20], r"Expected 11 columns"),
    (FLAT.replace("1.75", "x"), r"column 'close' is not a number.*first row 1"),
    (FLAT.encode().replace(b"1.75", b"1.\xe9"), r"is not UTF-8 in line 3"),
    (FLAT.replace("Close", "Closing"), r"has no column 'Close'"),
    (FLAT.replace("Date", "Day"), r"its first column is 'Day'"),
    (
        MULTI.replace("Price,Close", "Price,Clothes"),
        r"neither of which names prices alone, such as 'Clothes'",
    ),
    (
        "realtime_start,realtime_end,date,value\n2024-01-01,9999-12-31,2023-12-01,1\n",
        r"looks like format 'alfred'",
    ),
    (FLAT.replace("2024-11-29", "2024-11-28"), r"no session"),
    (FLAT.replace("2024-11-29", "2024-11-27"), r"more than one bar"),
    (FLAT.replace("2024-11-29", "2024-12-02"), r"1 bars are missing"),
    (FLAT.replace("2024-11-29", "soon"), r"stamps are no times as yfinance writes them"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_broken_files(tmp_path, content, message):
    with pytest.raises(PriceDataError, match=message):
        read_yfinance(write(tmp_path, content), adjusted=False, ticker="A")


def test_wrong_requests(tmp_path):
    path = write(tmp_path, FLAT)
    with pytest.raises(UsageError, match=r"does not name its instrument; pass ticker="):
        read_yfinance(path, adjusted=False)
    with pytest.raises(UsageError, match="names its instruments itself"):
        read_yfinance(write(tmp_path, MULTI), adjusted=True, ticker="A")
    with pytest.raises(UsageError, match="is a pickle, which can run code"):
        read_yfinance(write(tmp_path, b"", "A.pkl"), adjusted=True)
    with pytest.raises(UsageError, match="interval='1wk' is unknown"):
        read_yfinance(path, adjusted=False, interval="1wk")
    with pytest.raises(UsageError, match="are times of day; pass interval="):
        read_yfinance(intraday(), adjusted=True)
    with pytest.raises(UsageError, match="the stamps are dates; pass interval='1d'"):
        read_yfinance(write(tmp_path, MULTI), adjusted=True, interval="5m")
    whole = tmp_path / "A.parquet"
    intraday().to_parquet(whole)
    whole.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(PriceDataError, match="not a whole Parquet file"):
        read_yfinance(whole, adjusted=True, interval="5m")
