"""The committed files are what data/build.py makes, and data/README.md says what is true of them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from quantattn.pit.packaged import PACKAGED_FILES, load_sp500_ohlcv, load_us_equities

FOLDER = Path(__file__).parents[2] / "data"
README = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def build():
    """The build script as a module; it needs the packages that the figures come from."""
    pytest.importorskip("skfolio", reason="skfolio, the source of the figures, is not installed")
    spec = importlib.util.spec_from_file_location("data_build", FOLDER / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def closes(ticker: str) -> pl.DataFrame:
    return load_us_equities().filter(pl.col("entity") == ticker)


# --- the build --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(build, tmp_path_factory):
    """Build once, and give the folder and what was said."""
    folder, said = tmp_path_factory.mktemp("built"), io.StringIO()
    with contextlib.redirect_stdout(said):
        build.main([str(folder)])
    return folder, said.getvalue()


def test_the_build_makes_exactly_the_packaged_files(built):
    folder, said = built
    assert sorted(path.name for path in folder.iterdir()) == sorted(PACKAGED_FILES)
    for name in PACKAGED_FILES:
        made, committed = pl.read_parquet(folder / name), pl.read_parquet(FOLDER / name)
        assert made.schema == committed.schema
        assert made.equals(committed), f"{name} is not what data/build.py makes; run it and commit the file"
    assert "166,260 rows" in said


def test_the_build_gives_the_same_bytes_twice(build, built, tmp_path):
    build.write(tmp_path)
    for name in PACKAGED_FILES:
        assert (tmp_path / name).read_bytes() == (built[0] / name).read_bytes()


def test_nothing_else_lies_in_the_folder():
    kept = {path.name for path in FOLDER.iterdir() if not path.name.startswith((".", "__"))}
    assert kept == {"README.md", "build.py", "careless_joins.md", *PACKAGED_FILES}


# --- what the README says ---------------------------------------------------------------------------


def test_the_readme_describes_every_file_and_its_rows():
    for name in PACKAGED_FILES:
        height = pl.scan_parquet(FOLDER / name).select(pl.len()).collect().item()
        row = next(line for line in README.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"| {height:,} |" in row


def test_the_readme_names_every_column():
    for name in PACKAGED_FILES:
        for column in pl.read_parquet_schema(FOLDER / name):
            assert f"`{column}`" in README


def test_the_readme_carries_both_licence_notices():
    assert "Copyright (c) 2023-2026 The skfolio developers." in README
    assert README.count("Redistributions in binary form must reproduce the above copyright notice") == 2
    assert "Copyright (c) 2017 Kevin Sheppard. All rights reserved." in README
    assert "Neither the names of Kevin Sheppard, nor the names of its contributors" in README


def test_seventeen_of_the_last_closes_are_not_whole_cents():
    last = load_us_equities().filter(pl.col("session") == date(2022, 12, 28))["close"].to_list()
    odd = sum(abs(close * 100 - round(close * 100)) > 1e-6 for close in last)
    assert odd == 17
    assert "17 of the 20 closes are not whole cents" in README


def test_the_zero_variances_that_the_readme_counts():
    counted = {}
    for ticker in load_us_equities()["entity"].unique().to_list():
        frame = closes(ticker)
        price, session = frame["close"].to_list(), frame["session"].to_list()
        flat = [session[end] for end in range(5, len(price)) if len(set(price[end - 5 : end + 1])) == 1]
        if flat:
            counted[ticker] = (len(flat), max(flat))
    assert counted["RRC"] == (456, date(1993, 5, 18))
    assert set(counted) == {"RRC", "JPM"}
    assert counted["JPM"][0] == 1
    assert max(last for _, last in counted.values()) < date(2000, 1, 1)


def test_the_opens_that_repeat_the_previous_close():
    frame = load_sp500_ohlcv()
    same, total = {}, {}
    previous = None
    for bar in frame.iter_rows(named=True):
        year = bar["session"].year
        total[year] = total.get(year, 0) + 1
        same[year] = same.get(year, 0) + (bar["open"] == previous)
        previous = bar["close"]
    early = sum(same[year] for year in range(1999, 2006)) / sum(total[year] for year in range(1999, 2006))
    assert f"{early:.0%}" == "96%"
    assert [f"{same[year] / total[year]:.0%}" for year in (2006, 2007, 2012, 2013)] == [
        "43%",
        "16%",
        "25%",
        "26%",
    ]
    assert all(same[year] / total[year] < 0.1 for year in (2008, 2009, 2010, 2011, *range(2014, 2019)))


def test_rounding_explains_little_of_a_years_variance():
    # A close rounded to 0.001 is off by at most 0.0005, uniformly: variance 0.001**2 / 12, twice a return.
    for ticker in ("AAPL", "BBY", "UNH", "MSFT", "RRC"):
        price, session = closes(ticker)["close"].to_list(), closes(ticker)["session"].to_list()
        noise, variance = {}, {}
        for before, after, day in zip(price, price[1:], session[1:], strict=False):
            noise[day.year] = noise.get(day.year, 0.0) + 2 * (0.001**2 / 12) / after**2
            variance[day.year] = variance.get(day.year, 0.0) + math.log(after / before) ** 2
        share = {year: noise[year] / variance[year] for year in noise}
        assert max(share.values()) < 0.007
        assert max(value for year, value in share.items() if year >= 2000) < 0.005


def test_the_survivors_outgrew_the_index():
    years = 8313 / 252
    growth = []
    for ticker in load_us_equities()["entity"].unique().to_list():
        price = closes(ticker)["close"]
        growth.append(math.log(price[-1] / price[0]) / years)
    index = pl.read_parquet(FOLDER / "sp500_index_daily.parquet")["close"]
    assert f"{sum(growth) / 20:.1%}" == "12.1%"
    assert f"{math.log(index[-1] / index[0]) / years:.1%}" == "7.1%"
