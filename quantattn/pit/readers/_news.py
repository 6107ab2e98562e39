"""What the news readers share: their columns whatever the case, one row for each symbol, and their logs."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.events.reasons import MARKET
from quantattn.pit.readers._inputs import NUMBER, PLACE, Fault, read_log, wrong_format
from quantattn.pit.readers._json_items import Item
from quantattn.pit.readers._stamp_text import plain_columns
from quantattn.pit.readers._table_files import read_table, table_columns

Untagged = Literal["market", "reject"]
"""What becomes of news that names no instrument: market-wide, or refused."""

ITEM: Final = "item"
"""The column that tells which item of all files a row comes from."""

_KIND: Final = "kind"


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that an option does not know.

    Raises
    ------
    UsageError
        Naming the choices.
    """
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise UsageError(f"{option}={value!r} is unknown; use one of {known}")


def match_columns(
    path: Path,
    *,
    format: str,
    needed: Sequence[str],
    optional: Sequence[str] = (),
    separator: str | None = None,
    encoding: str = "utf8",
) -> dict[str, str]:
    """Find a format's columns in a table file, whatever their case.

    Parameters
    ----------
    path : Path
        A table file.
    format : str
        The format's name in the registry.
    needed, optional : sequence of str
        Names as the format documents them.
    separator, encoding : str, optional
        As in :func:`read_table`.

    Returns
    -------
    dict of str to str
        Documented name to the file's own, for all that are there.

    Raises
    ------
    EventDataError
        If a needed one is missing: with the nearest, and the format that the file looks like instead.
    """
    present = table_columns(path, error=EventDataError, separator=separator, encoding=encoding)
    folded: dict[str, str] = {}
    for column in present:
        folded.setdefault(column.strip().lower(), column)
    for name in needed:
        if name.lower() not in folded:
            near = difflib.get_close_matches(name.lower(), list(folded), n=1)
            hint = f"; the nearest is {folded[near[0]]!r}" if near else f"; it has {_some(present)}"
            raise wrong_format(path, format, f"it has no column {name!r}{hint}", EventDataError)
    return {name: folded[name.lower()] for name in (*needed, *optional) if name.lower() in folded}


def read_columns(
    path: Path, columns: dict[str, str], *, separator: str | None = None, encoding: str = "utf8"
) -> pl.DataFrame:
    """Read matched columns of a table file under the names that their format documents."""
    table = read_table(path, error=EventDataError, wanted=columns, separator=separator, encoding=encoding)
    try:
        return plain_columns(
            table.select(pl.col(own).alias(name) for name, own in columns.items()), EventDataError
        )
    except EventDataError as failure:
        raise EventDataError(f"{path}: {failure}") from failure


def stack(files: Sequence[Path], read: Callable[[Path], pl.DataFrame]) -> pl.DataFrame:
    """Read files one after the other into one table, with the columns ``file`` and ``number``."""
    tables = []
    for path in files:
        table = read(path)
        if NUMBER not in table.columns:
            table = table.with_row_index(NUMBER).with_columns(pl.col(NUMBER).cast(pl.Int64))
        tables.append(table.with_columns(file=pl.lit(str(path)).cast(pl.Categorical)))
    return pl.concat(tables, how="diagonal_relaxed")


def symbol_rows(
    items: Sequence[Item],
    fields: dict[str, list[str | None]],
    *,
    listed: str,
    untagged: Untagged,
    upper: bool = False,
) -> pl.DataFrame:
    """Repeat each item for each instrument that it names.

    Parameters
    ----------
    items : sequence of Item
        News items.
    fields : dict of str to list
        Columns with one value for each item.
    listed : str
        The field that lists the instruments.
    untagged : {"market", "reject"}
        What an empty list means; a missing or null field is always refused.
    upper : bool
        Whether the names become upper-case.

    Returns
    -------
    polars.DataFrame
        The columns of `fields`, ``entity`` (``"*"`` market-wide, null refused), ``n_entities``, how many
        instruments the item names, ``item``, which of all items it is, ``number``, which of its file, and
        ``place``.
    """
    empty: list[str | None] = [MARKET if untagged == "market" else None]
    rows: list[list[str | None]] = []
    counts = []
    for item in items:
        names = item.names(listed)
        if names is not None and upper:
            names = list(dict.fromkeys(name.upper() for name in names))
        counts.append(len(names or []))
        rows.append([None] if names is None else [*names] or empty)
    table = pl.DataFrame(fields, schema=dict.fromkeys(fields, pl.String), strict=True)
    return table.with_columns(
        pl.Series("n_entities", counts, dtype=pl.Int64),
        pl.Series(ITEM, range(len(items)), dtype=pl.Int64),
        pl.Series(NUMBER, [item.number for item in items], dtype=pl.Int64),
        pl.Series(PLACE, [item.place for item in items], dtype=pl.String),
        pl.Series("entity", rows, dtype=pl.List(pl.String)),
    ).explode("entity")


def article_ids(table: pl.DataFrame) -> pl.Series:
    """Name an article's event for each of its instruments, from ``id`` and ``entity``; null where one is."""
    return table.select(event_id=pl.concat_str("id", "entity", separator="/", ignore_nulls=False)).to_series()


def warn_of_further_pages(pages: Sequence[dict[str, Any]], key: str, files: Sequence[Path]) -> None:
    """Warn if every page given points at one more, so that the last was not given.

    Parameters
    ----------
    pages : sequence of dict
        The objects that list the items.
    key : str
        Their field that points at the next page; null or missing in the last one.
    files : sequence of Path
        Where they come from.
    """
    if pages and all(page.get(key) for page in pages):
        source = str(files[0]) if len(files) == 1 else f"the last of {len(files)} files"
        warnings.warn(
            f"{source} has a {key}, so that there are further pages, which are not given: download them "
            f"until {key} is null, and give all files",
            UserWarning,
            stacklevel=3,
        )


def make_log(
    table: pl.DataFrame, files: Sequence[Path], *, of_kind: str | None = None, strict: bool, **arguments: Any
) -> EventLog:
    """Make the log of a news reader.

    Parameters
    ----------
    table : polars.DataFrame
        One row for each event version, with ``number`` and either ``place`` or ``file``, as in
        :func:`read_log`.
    files : sequence of Path
        Where it comes from.
    of_kind : str, optional
        The kind of all events, where no column tells it.
    strict : bool
        Whether to raise when a row is refused.
    **arguments
        As in :func:`read_log`.

    Returns
    -------
    EventLog
        Its rejects bear the rows' numbers, and the place, or with several files the file, before the detail.
    """
    if of_kind is not None:
        table = table.with_columns(pl.lit(of_kind).alias(_KIND))
        arguments = {**arguments, "kind": _KIND}
    return read_log(table, files=files, strict=strict, **arguments)


def untagged_fault(column: str) -> Fault:
    """Refuse the rows whose `column`, from which ``entity`` was taken, names no instrument."""
    meaning = "names no instrument; untagged='market' makes such news market-wide"
    return Fault(pl.col("entity").is_null(), "null_entity", column, meaning)


def ragged_fault(column: str) -> Fault:
    """Refuse the rows that were kept as the text of a ragged line in `column`."""
    meaning = "more or fewer fields than the header line"
    return Fault(pl.col(column).is_not_null(), "ragged_row", column, meaning)


def _some(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in columns[:8])
    return shown + (", ..." if len(columns) > 8 else "")
