"""The packaged history is found in a checkout and in an installed wheel, and is what it claims to be."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from quantattn.errors import DataError
from quantattn.pit import packaged
from quantattn.pit.calendar import TradingCalendar

TICKERS = [
    *("AAPL", "AMD", "BAC", "BBY", "CVX", "GE", "HD", "JNJ", "JPM", "KO"),
    *("LLY", "MRK", "MSFT", "PEP", "PFE", "PG", "RRC", "UNH", "WMT", "XOM"),
]


def xnys(start: date, end: date) -> list[date]:
    return TradingCalendar("XNYS").sessions(start, end)["session"].to_list()


# --- content ----------------------------------------------------------------------------------------


def test_equities_are_long_sorted_and_complete():
    frame = packaged.load_us_equities()
    assert dict(frame.schema) == {"session": pl.Date, "entity": pl.String, "close": pl.Float64}
    assert frame["entity"].unique(maintain_order=True).to_list() == TICKERS
    assert frame.equals(frame.sort("entity", "session"))
    assert frame.null_count().sum_horizontal().item() == 0
    sessions = xnys(date(1990, 1, 2), date(2022, 12, 28))
    assert len(sessions) == 8313
    for ticker in TICKERS:
        assert frame.filter(pl.col("entity") == ticker)["session"].to_list() == sessions


def test_equities_hold_the_figures_of_their_source():
    frame = packaged.load_us_equities()

    def close(ticker: str, session: date) -> float:
        return frame.filter(pl.col("entity") == ticker, pl.col("session") == session)["close"].item()

    assert close("AAPL", date(1990, 1, 2)) == 0.264
    assert close("XOM", date(1990, 1, 4)) == 3.987
    assert close("GE", date(2000, 1, 3)) == 164.647
    assert close("UNH", date(2022, 12, 28)) == 524.422
    assert frame["close"].min() > 0
    assert frame["close"].round(3).equals(frame["close"])


def test_the_index_has_one_level_a_session():
    frame = packaged.load_sp500_index()
    assert dict(frame.schema) == {"session": pl.Date, "close": pl.Float64}
    assert frame["session"].to_list() == xnys(date(1990, 1, 2), date(2022, 12, 28))
    assert (frame["close"][0], frame["close"][-1]) == (359.69, 3783.22)


def test_the_bars_are_bars():
    frame = packaged.load_sp500_ohlcv()
    prices = ["open", "high", "low", "close", "adjusted_close"]
    assert dict(frame.schema) == {"session": pl.Date} | dict.fromkeys(prices, pl.Float64) | {
        "volume": pl.Int64
    }
    assert frame["session"].to_list() == xnys(date(1999, 1, 4), date(2018, 12, 31))
    assert frame.height == 5031
    for bar in frame.iter_rows(named=True):
        assert 0 < bar["low"] <= min(bar["open"], bar["close"])
        assert bar["high"] >= max(bar["open"], bar["close"])
        assert bar["adjusted_close"] == bar["close"]
        assert bar["volume"] > 0
    assert frame.row(0) == (
        date(1999, 1, 4),
        1229.22998,
        1248.810059,
        1219.099976,
        1228.099976,
        1228.099976,
        877_000_000,
    )


def test_the_two_index_files_agree():
    both = packaged.load_sp500_ohlcv().join(packaged.load_sp500_index(), on="session", suffix="_index")
    assert both.height == 5031
    assert (both["close"] - both["close_index"]).abs().max() < 0.0002


# --- where the files are ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", packaged.PACKAGED_FILES)
def test_every_file_is_found_and_small(name):
    path = packaged.packaged_path(name)
    assert path.name == name
    assert 1024 < path.stat().st_size < 2 * 1024 * 1024


def test_a_wheels_own_files_come_first_then_the_checkouts(tmp_path, monkeypatch):
    installed, checkout = tmp_path / "quantattn" / "_data", tmp_path / "data"
    monkeypatch.setattr(packaged, "_FOLDERS", (installed, checkout))
    name = "sp500_index_daily.parquet"
    source = Path(__file__).parents[2] / "data" / name
    checkout.mkdir()
    shutil.copy(source, checkout)
    assert packaged.packaged_path(name) == checkout / name
    installed.mkdir(parents=True)
    pl.DataFrame({"session": [date(2024, 1, 2)], "close": [1.0]}).write_parquet(installed / name)
    assert packaged.packaged_path(name) == installed / name
    assert packaged.load_sp500_index().height == 1


def test_a_broken_installation_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "_FOLDERS", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(DataError, match=r"neither .*a nor .*b; install quantattn again") as caught:
        packaged.load_us_equities()
    assert "us_equities_daily.parquet" in str(caught.value)


@pytest.mark.parametrize("name", ["", "build.py", "../LICENSE", "us_equities_daily.csv"])
def test_only_packaged_names_are_served(name):
    with pytest.raises(DataError, match=r"no packaged data file .* use one of sp500_index_daily\.parquet"):
        packaged.packaged_path(name)
