"""Write the packaged market history again, from the packages that it was taken from.

``python data/build.py [FOLDER]`` needs skfolio and arch (the extra ``test``) and no network, and writes
three Parquet files to FOLDER, by default this one. README.md beside this file describes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import polars as pl
from arch.data import sp500
from skfolio.datasets import load_sp500_dataset, load_sp500_index

from quantattn.files import atomic_path


def _with_sessions(frame: pd.DataFrame) -> pl.DataFrame:
    """Turn a frame indexed by ``Date`` into one whose first column is ``session`` (Date)."""
    return pl.from_pandas(frame.reset_index()).rename({"Date": "session"}).cast({"session": pl.Date})


def us_equities() -> pl.DataFrame:
    """Give ``session, entity, close`` of 20 US large caps, sorted by entity and session."""
    return (
        _with_sessions(load_sp500_dataset())
        .unpivot(index="session", variable_name="entity", value_name="close")
        .select("session", "entity", "close")
        .sort("entity", "session")
    )


def sp500_index() -> pl.DataFrame:
    """Give ``session, close`` of the S&P 500 price index, sorted by session."""
    return _with_sessions(load_sp500_index()).rename({"SP500": "close"}).sort("session")


def sp500_ohlcv() -> pl.DataFrame:
    """Give ``session, open, high, low, close, adjusted_close, volume`` of the S&P 500 price index."""
    frame = _with_sessions(sp500.load()).rename({"Adj Close": "adjusted_close"})
    return frame.rename(str.lower).sort("session")


FILES: dict[str, Callable[[], pl.DataFrame]] = {
    "us_equities_daily.parquet": us_equities,
    "sp500_index_daily.parquet": sp500_index,
    "sp500_ohlcv_daily.parquet": sp500_ohlcv,
}
"""Each packaged file's name, and the function that makes its content."""


def write(folder: Path) -> None:
    """Write every file of `FILES` to `folder`, each whole or not at all."""
    for name, make in FILES.items():
        frame = make()
        with atomic_path(folder / name) as temporary:
            frame.write_parquet(temporary, compression="zstd", compression_level=19)
        print(f"{folder / name}: {frame.height:,} rows, {(folder / name).stat().st_size / 1024:,.0f} KiB")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description="Write the packaged market history again.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    write(parser.parse_args(arguments).folder)


if __name__ == "__main__":
    main()
