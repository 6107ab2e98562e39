"""The layouts in which yfinance frames are saved, as one long table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pandas as pd
import polars as pl

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit._tables import nearest_names, refuse_rows
from quantattn.pit.readers._compressed import open_bytes
from quantattn.pit.readers._inputs import wrong_format
from quantattn.pit.readers._table_files import read_table
from quantattn.pit.readers._text_files import one_line

FIGURES: Final = ("open", "high", "low", "close", "volume")

_FORMAT: Final = "yfinance"
_STAMPS: Final = ("date", "datetime", "index", "")
_LEVELS: Final = ("price", "ticker", "")
_KNOWN: Final = (*FIGURES, "adj close", "dividends", "stock splits", "capital gains", "repaired?")
_MISSING: Final = ("", "nan")
_PICKLES: Final = (".pkl", ".pickle", ".p")
_PARQUET: Final = (".parquet", ".pq")


def long_table(source: Path | pd.DataFrame, name: str, *, adjusted: bool) -> pl.DataFrame:
    """Read a saved frame, or a frame, into a long table.

    Parameters
    ----------
    source : Path or pandas.DataFrame
        A CSV or Parquet file, or the frame.
    name : str
        What to call it in messages.
    adjusted : bool
        What was declared, to be held against its columns.

    Returns
    -------
    polars.DataFrame
        ``stamp`` (String, as written), ``entity`` (String, unless the layout names no instrument), and those
        of ``open, high, low, close, volume`` that are there (Float64), without the rows that have no price.

    Raises
    ------
    UsageError
        If the file is a pickle, or `adjusted` contradicts the columns.
    PriceDataError
        If the layout is none of yfinance, or a figure is no number.
    """
    if isinstance(source, Path):
        suffix = source.suffix.lower()
        if suffix in _PICKLES:
            raise UsageError(
                f"{name} is a pickle, which can run code when it is read; save it with to_parquet()"
            )
        try:
            labels, table = (
                _from_pandas(_from_parquet(source), name) if suffix in _PARQUET else _from_csv(source)
            )
        except UnicodeDecodeError as failure:
            raise PriceDataError(f"{name} holds text that is not UTF-8; write it again") from failure
    else:
        labels, table = _from_pandas(source, name)
    fields = {label[0] for label in labels}
    if adjusted and "adj close" in fields:
        raise UsageError(
            f"{name} has a column 'Adj Close', so its other prices are not adjusted for dividends; "
            "pass adjusted=False"
        )
    if "close" not in fields:
        near = nearest_names("close", fields)
        fault = f"it has no column 'Close'{near}; it has {', '.join(sorted(fields))}"
        raise (
            wrong_format(source, _FORMAT, fault, PriceDataError)
            if isinstance(source, Path)
            else PriceDataError(f"{name} is no frame of yfinance: {fault}")
        )
    long = _stacked(labels, table)
    long = long.with_columns(_numbers(long, figure, name) for figure in FIGURES if figure in long.columns)
    prices = [figure for figure in FIGURES[:4] if figure in long.columns]
    return long.filter(pl.any_horizontal(pl.col(prices).is_not_null()))


def _stacked(labels: list[tuple[str, str | None]], table: pl.DataFrame) -> pl.DataFrame:
    """Put the columns of all instruments below each other; the first column is the stamp."""
    stamp, *columns = table.columns
    entities = list(dict.fromkeys(entity for field, entity in labels if field != "ticker"))
    parts = []
    for entity in entities:
        chosen = {
            field: pl.col(column).alias(field)
            for (field, of), column in zip(labels, columns, strict=True)
            if of == entity and field in FIGURES
        }
        named = [pl.lit(entity).alias("entity")] if entity is not None else []
        own = [
            pl.col(column).alias("entity")
            for (field, _), column in zip(labels, columns, strict=True)
            if field == "ticker"
        ]
        parts.append(table.select(pl.col(stamp).alias("stamp"), *(own or named), *chosen.values()))
    return pl.concat(parts, how="diagonal")


def _numbers(table: pl.DataFrame, figure: str, name: str) -> pl.Series:
    text = table[figure].str.strip_chars()
    values = text.cast(pl.Float64, strict=False)
    refuse_rows(
        table,
        values.is_null() & ~text.str.to_lowercase().is_in(_MISSING),
        ["stamp", figure],
        f"{name}: column {figure!r} is not a number",
        "correct those rows",
        PriceDataError,
    )
    return values.fill_nan(None).alias(figure)


def _from_csv(path: Path) -> tuple[list[tuple[str, str | None]], pl.DataFrame]:
    """Read a CSV file as text and take its one to three header lines off."""
    with open_bytes(path, PriceDataError) as file:
        first = file.readline(1 << 20).decode("utf-8", errors="replace").lstrip("\ufeff").rstrip("\r\n")
    width = first.count(",") + 1
    if width < 2:
        raise wrong_format(path, _FORMAT, "its first line has one field", PriceDataError)
    table = read_table(path, error=PriceDataError, header=[f"#{place}" for place in range(width)])
    heads = [[(cell or "").strip() for cell in table.row(row)] for row in range(min(3, table.height))]
    heads[0][0] = heads[0][0].lstrip("\ufeff")
    if heads[0][0].lower() in _LEVELS and len(heads) > 1 and heads[1][0].lower() in _LEVELS:
        lines = 3 if len(heads) > 2 and heads[2][0].lower() in _STAMPS[:3] and not any(heads[2][1:]) else 2
        return _two_levels(path, heads[0][1:], heads[1][1:]), table.slice(lines)
    if heads[0][0].lower() not in _STAMPS:
        fault = f"its first column is {heads[0][0]!r}, not Date or Datetime"
        raise wrong_format(path, _FORMAT, fault, PriceDataError)
    return [(cell.lower(), None) for cell in heads[0][1:]], table.slice(1)


def _two_levels(path: Path | str, upper: list[str], lower: list[str]) -> list[tuple[str, str | None]]:
    """Tell the level of fields from that of tickers, whichever comes first."""
    for fields, tickers in ((upper, lower), (lower, upper)):
        if fields and all(field.lower() in _KNOWN for field in fields):
            return [(field.lower(), ticker or None) for field, ticker in zip(fields, tickers, strict=True)]
    odd = next((field for field in upper if field.lower() not in _KNOWN), "")
    raise PriceDataError(f"{path} has two header lines, neither of which names prices alone, such as {odd!r}")


def _from_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    # Damaged metadata fail in whatever pandas does with them.
    except Exception as failure:
        reason = re.sub(r"\s+", " ", str(failure))[:300]
        raise PriceDataError(f"{path} is not a whole Parquet file ({reason}); write it again") from failure


def _from_pandas(frame: pd.DataFrame, name: str) -> tuple[list[tuple[str, str | None]], pl.DataFrame]:
    """Take a frame apart into text columns, the stamps first."""
    if isinstance(frame.index, pd.RangeIndex) or not isinstance(frame.index, pd.DatetimeIndex):
        stamps = [column for column in frame.columns if str(column).lower() in ("date", "datetime")]
        if not stamps:
            raise PriceDataError(
                f"{name} has no DatetimeIndex and no column Date or Datetime; keep the index"
            )
        try:
            frame = frame.set_index(stamps[0])
        # What no index can hold fails in as many ways as there are types.
        except (TypeError, ValueError, RuntimeError) as failure:
            raise PriceDataError(
                f"{name}: column {stamps[0]!r} holds no times ({one_line(failure)})"
            ) from failure
    if frame.columns.nlevels > 2:
        raise PriceDataError(
            f"{name} has {frame.columns.nlevels} levels of columns; yfinance makes one or two"
        )
    if frame.columns.nlevels == 2:
        pairs: list[Any] = list(frame.columns)
        labels = _two_levels(name, [str(upper) for upper, _ in pairs], [str(lower) for _, lower in pairs])
    else:
        labels = [(str(column).lower(), None) for column in frame.columns]
    years = frame.index.year if isinstance(frame.index, pd.DatetimeIndex) else pd.Index([2000])
    if not ((years >= 1900) & (years <= 2200)).all():
        raise PriceDataError(f"{name} has stamps outside the years 1900 to 2200, or none; correct those rows")
    index = [str(stamp) for stamp in frame.index]
    columns = {"#stamp": pl.Series(index, dtype=pl.String)}
    for place in range(frame.shape[1]):
        values = frame.iloc[:, place]
        held = next((value for value in values if not pd.api.types.is_scalar(value)), None)
        if held is not None:
            kind = type(held).__name__
            raise PriceDataError(
                f"{name}: column {labels[place][0]!r} holds a {kind}; keep one number a cell"
            )
        text = [
            None if pd.isna(value) else repr(float(value)) if _is_number(value) else str(value)
            for value in values
        ]
        columns[f"#{place}"] = pl.Series(text, dtype=pl.String)
    return labels, pl.DataFrame(columns)


def _is_number(value: Any) -> bool:
    return not isinstance(value, str | bool) and hasattr(value, "__float__")
