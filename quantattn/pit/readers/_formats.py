"""Guess which format a file is of, from its name and its first lines, for messages alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_HEAD: Final = 65_536
_LOBSTER_NAME: Final = re.compile(r".+_\d{4}-\d{2}-\d{2}_\d+_\d+_(message|orderbook)_\d+\.csv(\.gz)?$")
_LOBSTER_LINE: Final = re.compile(r"\d{1,5}(\.\d{1,9})?,[1-7],-?\d+,\d+,-?\d+,-?1")
# Events and mentions have 61 and 16 columns and no header.
_GDELT_TABS: Final = (60, 15)
_VINTAGE: Final = re.compile(r"[A-Za-z0-9]+_\d{8}")
# Keys of JSON documents, all of which must occur near the beginning, the most telling first.
_JSON: Final = (
    ("edgar_submissions", ("acceptanceDateTime", "accessionNumber")),
    ("alfred", ("observations", "realtime_start")),
    ("alpaca", ("created_at", "updated_at", "headline", "symbols")),
    ("tiingo", ("publishedDate", "crawlDate")),
    ("polygon", ("published_utc", "tickers")),
    ("stocknet", ("created_at", "user_id_str")),
    ("stocknet", ("created_at", "text")),
)
# Columns of header lines in lower case, all of which must be there.
_HEADERS: Final = (
    ("ravenpack", {"timestamp_utc", "rp_entity_id"}),
    ("fnspid", {"article_title", "stock_symbol"}),
    ("djia", {"top1", "top25"}),
    ("benzinga", {"headline", "date", "stock"}),
    ("benzinga", {"title", "date", "stock"}),
    ("alfred", {"realtime_start", "date", "value"}),
    ("yfinance", {"open", "high", "low", "close", "volume"}),
)


def looks_like(path: Path) -> str | None:
    """Name the format that a file looks like.

    Parameters
    ----------
    path : Path
        An existing file.

    Returns
    -------
    str or None
        A name of the registry of readers, or None when nothing is recognised.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return None
    text = head.decode("utf-8", errors="replace").lstrip("\ufeff \r\n\t")
    if text.startswith(
        ("<SEC-DOCUMENT>", "<SEC-HEADER>", "<SUBMISSION>", "-----BEGIN PRIVACY-ENHANCED", "<IMS-")
    ):
        return "edgar_sgml"
    if text.startswith(("{", "[")):
        found = (name for name, keys in _JSON if all(f'"{key}"' in text for key in keys))
        return next(found, None)
    found_in = _of_table(text.splitlines()[:3])
    return "lobster" if found_in is None and _LOBSTER_NAME.fullmatch(path.name) else found_in


def _of_table(lines: list[str]) -> str | None:
    if not lines:
        return None
    if lines[0][:1].isdigit() and lines[0].count("\t") in _GDELT_TABS:
        return "gdelt"
    if _LOBSTER_LINE.fullmatch(lines[0].strip()):
        return "lobster"
    separator = "\t" if "\t" in lines[0] else ","
    columns = [column.strip().strip('"') for column in lines[0].split(separator)]
    if len(columns) > 1 and all(_VINTAGE.fullmatch(column) for column in columns[1:]):
        return "alfred"
    if (
        columns[0].lower() in ("price", "ticker")
        and len(lines) > 1
        and "close" in (lines[0] + lines[1]).lower()
    ):
        return "yfinance"
    folded = {column.lower() for column in columns}
    return next((name for name, needed in _HEADERS if needed <= folded), None)
