"""Price histories as Parquet files, which say what is in them, and in words."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from quantattn.pit.prices import PriceHistory
from quantattn.pit.prices.building import FIGURES
from quantattn.pit.prices.storage import ENTRY, VERSION, price_entry

__all__ = ["ENTRY", "VERSION", "price_entry", "prices_text", "read_price_file", "write_prices"]


def write_prices(prices: PriceHistory, path: str | Path) -> None:
    """Write bars to one Parquet file, as :meth:`PriceHistory.write` does.

    Parameters
    ----------
    prices : PriceHistory
        The bars, with what was declared of them.
    path : str or Path
        The file. Equal content gives equal bytes.
    """
    prices.write(path)


def read_price_file(path: str | Path) -> PriceHistory:
    """Read a file that :func:`write_prices` made; the same as :meth:`PriceHistory.read`."""
    return PriceHistory.read(path)


def prices_text(prices: PriceHistory) -> str:
    """Say in a few lines what a price history holds.

    Parameters
    ----------
    prices : PriceHistory
        The bars.

    Returns
    -------
    str
        Lines without a line break at the end.
    """
    frame = prices.frame
    spans = frame.select(pl.col("event_time").min().alias("first"), pl.col("event_time").max().alias("last"))
    first, last = spans.select(pl.all().dt.to_string("%Y-%m-%d %H:%M")).row(0)
    adjustment = {
        "none": "as traded",
        "vendor": "adjusted by the vendor: levels are refused as features",
        "as_of": "adjusted as of a time",
    }[prices.adjustment]
    lines = [
        f"bars        {frame.height} ({prices.frequency}) of {len(prices.entities)} entities",
        f"bar ends    {first} to {last} UTC",
        f"columns     {', '.join(name for name in FIGURES if name in frame.columns)}",
        f"prices      {adjustment}",
        f"calendar    {prices.calendar}; known {_seconds(prices.latency)} after a bar's end",
        f"gaps        {prices.gaps.height}",
    ]
    return "\n".join(lines if frame.height else lines[:1])


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:g} s"
