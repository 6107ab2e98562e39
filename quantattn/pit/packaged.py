"""Real market history that comes with the package.

``data/README.md`` (installed beside the files) says where it is from, under which licences, what the
prices are adjusted for and what that leaks. In short: adjusted closes were computed years later, so use
their returns and never their levels; and the 20 companies were chosen with hindsight.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from quantattn.errors import DataError

PACKAGED_FILES = ("sp500_index_daily.parquet", "sp500_ohlcv_daily.parquet", "us_equities_daily.parquet")
"""The names that :func:`packaged_path` knows."""

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the files inside the package; a checkout keeps them beside it.
_FOLDERS = (_PACKAGE / "_data", _PACKAGE.parent / "data")


def packaged_path(name: str) -> Path:
    """Find a packaged data file, in the installed package or in the checkout's ``data`` folder.

    Parameters
    ----------
    name : str
        One of :data:`PACKAGED_FILES`.

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    DataError
        If there is no such packaged file, or the installation lacks it.
    """
    if name not in PACKAGED_FILES:
        raise DataError(f"no packaged data file {name!r}; use one of {', '.join(PACKAGED_FILES)}")
    for folder in _FOLDERS:
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"packaged data file {name!r} is in neither {' nor '.join(map(str, _FOLDERS))}; install quantattn "
        "again from its wheel, or run data/build.py in a checkout"
    )


def load_us_equities() -> pl.DataFrame:
    """Load daily closes of 20 US large caps, 1990-01-02 to 2022-12-28.

    Returns
    -------
    polars.DataFrame
        ``session`` (Date, a session of ``XNYS``), ``entity`` (String, the ticker) and ``close`` (Float64,
        US dollars, adjusted for later splits and dividends), sorted by entity and session.

    Raises
    ------
    DataError
        If the installation lacks the file.

    Warnings
    --------
    The adjustment folds later dividends and splits into earlier levels, so levels leak. Returns are
    total returns and leak next to nothing.
    """
    return pl.read_parquet(packaged_path("us_equities_daily.parquet"))


def load_sp500_index() -> pl.DataFrame:
    """Load daily closes of the S&P 500 price index, 1990-01-02 to 2022-12-28.

    Returns
    -------
    polars.DataFrame
        ``session`` (Date, a session of ``XNYS``) and ``close`` (Float64, index points, without
        dividends), sorted by session.

    Raises
    ------
    DataError
        If the installation lacks the file.
    """
    return pl.read_parquet(packaged_path("sp500_index_daily.parquet"))


def load_sp500_ohlcv() -> pl.DataFrame:
    """Load daily bars of the S&P 500 price index, 1999-01-04 to 2018-12-31.

    Returns
    -------
    polars.DataFrame
        ``session`` (Date, a session of ``XNYS``), ``open``, ``high``, ``low``, ``close``,
        ``adjusted_close`` (Float64, index points; the last two are equal) and ``volume`` (Int64, shares
        of the members), sorted by session.

    Raises
    ------
    DataError
        If the installation lacks the file.

    Warnings
    --------
    Until 2005, 96 % of the opens repeat the previous close; do not trade at them.
    """
    return pl.read_parquet(packaged_path("sp500_ohlcv_daily.parquet"))
