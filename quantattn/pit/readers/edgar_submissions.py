"""SEC EDGAR submissions: the filing history of one filer, ``CIK##########.json``.

Source: https://www.sec.gov/search-filings/edgar-application-programming-interfaces. Files come from
``https://data.sec.gov/submissions/`` or from ``submissions.zip``; older filings of large filers lie in
further files, ``CIK##########-submissions-001.json``, which ``filings.files`` lists: give them all.

Columns (arrays of one length under ``filings.recent``, or at the top of a further file):
``accessionNumber``, ``filingDate``, ``acceptanceDateTime``, ``form``; used where present: ``reportDate``,
``items``, ``primaryDocDescription``. One event for each filing, ``event_id`` is
``accessionNumber:CIK``, ``kind`` the form. Amendments (``10-K/A``) are events of their own.

Entity: the CIK as ten digits, or with ``entity="ticker"`` the tickers of ``company_tickers.json`` (or
``company_tickers_exchange.json``, https://www.sec.gov/about/webmaster-frequently-asked-questions) given as
``tickers=``, else the ``tickers`` of the file itself; a filer with several share classes gives one event for
each. Both lists are of today: dead tickers are missing, which is survivorship.

How ``available_at`` is derived, row by row:

* ``acceptanceDateTime`` ends in ``Z``, which is not always true. Of 808 filers of the S&P 500, 181 bear New
  York wall time and 624 UTC (https://github.com/theOGognf/finagg/issues/64, also
  https://github.com/dgunning/edgartools/issues/557), by filer, three of them mixed. Nothing in the file tells
  which. By default the *later* of both readings counts, up to five hours late; ``acceptance_zone="utc"`` or
  ``"eastern"`` declares the clock of all files given.
* Acceptance is not dissemination. Filings accepted after 17:30 New York time mostly get the next business
  day's ``filingDate`` and are posted from 06:00 of that day on
  (https://helpcenter.rdgclientportal.com/?p=3125): the later of the acceptance and of 06:00 of ``filingDate``
  counts. Then ``latency`` is added: posting took 40 seconds on average for Form 4 (Rogers, Skinner and
  Zechman, Run EDGAR Run, 2017).
* A stamp that is a midnight in New York under any reading allowed (``T00:00``, ``T05:00`` and ``T04:00``;
  usual before 2002) is a date, and so is a missing one: known at the next session's open after it.

Traps: ``reportDate`` is the period, never a time of knowledge. Staff letters and drafts (``UPLOAD``,
``CORRESP``, ``DRS``, ``DOS`` and their amendments ...) become public long after their acceptance, on a day
that the file does not give (https://sec-api.io/docs/edgar-index-apis; for the drafts of Regulation A
https://sec-api.io/datasets/form-dos-files): refused as ``released_later``. The file's ``name`` and
``formerNames`` are today's, so the text holds form, description, items and period alone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit._tables import nearest_names
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._edgar import EASTERN, stamp_faults, with_stamps
from quantattn.pit.readers._inputs import Fault, Paths, paths_of, read_json, read_log, wrong_format
from quantattn.pit.readers.registry import reader

_NEEDED: Final = ("accessionNumber", "filingDate", "acceptanceDateTime", "form")
_USED: Final = (*_NEEDED, "reportDate", "items", "primaryDocDescription")
_CIK_NAME: Final = re.compile(r"CIK(\d{10})")
_FORMAT: Final = "edgar_submissions"


@reader(
    _FORMAT,
    title="SEC EDGAR filing history of a filer (submissions JSON)",
    gives="events",
    files="CIK##########.json, CIK##########-submissions-###.json",
)
def read_edgar_submissions(
    paths: Paths,
    *,
    acceptance_zone: Literal["utc", "eastern"] | None = None,
    entity: Literal["cik", "ticker"] = "cik",
    tickers: str | None = None,
    latency: str = "5min",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read EDGAR submissions JSON; the module's documentation says how filings are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Files of one or more filers.
    acceptance_zone : {"utc", "eastern"}, optional
        What clock the acceptance stamps of these files are of. By default the later reading counts.
    entity : {"cik", "ticker"}
        What names the filer.
    tickers : str, optional
        ``company_tickers.json`` or ``company_tickers_exchange.json``, for ``entity="ticker"``.
    latency : str
        From posting until this system has the filing.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Without features. Rows are numbered file by file (with several tickers, ticker by ticker).

    Raises
    ------
    UsageError
        If a file is missing, or the options do not go together.
    EventDataError
        If a file is not of this format, ragged, truncated or not UTF-8, or no row can be used.

    Warns
    -----
    UserWarning
        If stamps fall outside EDGAR's hours when read as New York time, so that the file is likely UTC, or a
        file lists further files that are not given.
    """
    if entity not in ("cik", "ticker"):
        raise UsageError(f"entity={entity!r} is unknown; use 'cik' or 'ticker'")
    if acceptance_zone not in (None, "utc", "eastern"):
        raise UsageError(
            f"acceptance_zone={acceptance_zone!r} is unknown; use 'utc', 'eastern' or leave it out"
        )
    if tickers is not None and entity == "cik":
        raise UsageError("tickers= names filers only with entity='ticker'; add it, or leave tickers= out")
    files = paths_of(paths)
    names = None if tickers is None else _tickers(Path(tickers))
    further: list[str] = []
    table = pl.concat([_filings(file, entity, names, further) for file in files])
    _warn_of_further_files(further, files)
    zoneless = pl.col("acceptanceDateTime").str.strip_chars().str.strip_suffix("Z")
    stamped = with_stamps(
        table.with_columns(zoneless.alias("#wall")),
        accepted="#wall",
        filed="filingDate",
        zone=acceptance_zone,
    )
    if acceptance_zone is None:
        _hint_at_utc(stamped)
    ids = [pl.col("accessionNumber"), pl.col("#cik")] + ([pl.col("entity")] if entity == "ticker" else [])
    return read_log(
        stamped.with_columns(_text(), pl.concat_str(ids, separator=":").alias("event_id")),
        faults=[
            Fault(
                pl.col("accessionNumber").fill_null("") == "",
                "null_event_id",
                "accessionNumber",
                "no event id",
            ),
            *stamp_faults("acceptanceDateTime", "filingDate", "form"),
            Fault(pl.col("entity").is_null(), "null_entity", "#cik", "a filer without a ticker"),
        ],
        files=files,
        strict=strict,
        event_time="accepted_at",
        available_at="public_at",
        entity="entity",
        event_id="event_id",
        kind="form",
        text="text",
        latency=latency,
        calendar=calendar,
    )


def _filings(path: Path, entity: str, names: dict[str, list[str]] | None, further: list[str]) -> pl.DataFrame:
    """Read one file as a table of text, and note the further files that it lists."""
    content = read_json(path, EventDataError, wanted=_FORMAT)
    filings = content.get("filings", content) if isinstance(content, dict) else None
    columns = filings.get("recent", filings) if isinstance(filings, dict) else None
    if not isinstance(columns, dict) or not any(name in columns for name in _NEEDED):
        raise wrong_format(path, _FORMAT, "it has no filings.recent with accessionNumber", EventDataError)
    lacking = [name for name in _NEEDED if not isinstance(columns.get(name), list)]
    if lacking:
        near = nearest_names(lacking[0], columns)
        raise EventDataError(f"{path}: filings lack the arrays {lacking}{near}; download the file again")
    arrays = {name: columns[name] for name in _USED if isinstance(columns.get(name), list)}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise EventDataError(f"{path}: arrays differ in length ({lengths}); download the file again")
    cik = _cik(path, content)
    listed = filings.get("files") if isinstance(filings, dict) else None
    further += [str(file["name"]) for file in listed or [] if isinstance(file, dict) and file.get("name")]
    table = pl.DataFrame(
        {name: [_plain(value) for value in array] for name, array in arrays.items()},
        schema=dict.fromkeys(arrays, pl.String()),
    )
    table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in _USED if name not in arrays)
    who: Sequence[str | None] = [cik]
    if entity == "ticker":
        own = [str(ticker) for ticker in content.get("tickers") or [] if ticker]
        who = own if names is None else names.get(cik, [])
    return table.select(*_USED, pl.lit(cik).alias("#cik"), pl.lit(path.name).alias("file")).join(
        pl.DataFrame({"entity": who or [None]}, schema={"entity": pl.String}), how="cross"
    )


def _warn_of_further_files(further: Sequence[str], files: Sequence[Path]) -> None:
    """Warn of older filings that lie in files which were not given."""
    given = {file.name for file in files}
    lacking = [name for name in dict.fromkeys(further) if name not in given]
    if lacking:
        shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        warnings.warn(
            f"{len(lacking)} further files with older filings are listed and not given ({shown}): the "
            "history begins late; download them from https://data.sec.gov/submissions/ and give all files",
            UserWarning,
            stacklevel=3,
        )


def _cik(path: Path, content: dict[str, Any]) -> str:
    given = str(content.get("cik") or "")
    named = _CIK_NAME.search(path.name)
    if given.isdigit() and int(given) > 0:
        return given.zfill(10)
    if named:
        return named.group(1)
    raise EventDataError(
        f"{path} names no filer: it has no cik and its name no CIK##########; name it as the SEC does"
    )


def _plain(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _text() -> pl.Expr:
    """Say what was filed, in words that were known when it was."""
    description = pl.col("primaryDocDescription")
    parts = [
        pl.col("form").fill_null("filing"),
        pl.when(description != pl.col("form")).then(pl.format(": {}", description)),
        pl.format("; items {}", "items"),
        pl.format("; period {}", "reportDate"),
    ]
    return pl.concat_str(parts, ignore_nulls=True).alias("text")


def _hint_at_utc(table: pl.DataFrame) -> None:
    """Warn of filers whose stamps cannot be New York time: EDGAR takes filings from 06:00 to 22:00."""
    clock = pl.col("#wall").str.slice(11, 8)
    night = table.filter(~pl.col("#unreadable")).filter(
        (clock > "22:05:00") | ((clock < "06:00:00") & ~clock.is_in(["00:00:00", "04:00:00", "05:00:00"]))
    )
    if night.height:
        ciks = night["#cik"].unique().sort()
        shown = ", ".join(ciks.head(3)) + (" ..." if len(ciks) > 3 else "")
        warnings.warn(
            f"{night.height} acceptance stamps, of CIK {shown}, fall into the night of {EASTERN}, when EDGAR "
            "accepts nothing: those filers' stamps are likely UTC, and are read up to five hours late; read "
            "their files with acceptance_zone='utc'",
            UserWarning,
            stacklevel=3,
        )


def _tickers(path: Path) -> dict[str, list[str]]:
    """Read the SEC's list of tickers: by CIK, in the order of the list."""
    (file,) = paths_of(path)
    content = read_json(file, EventDataError, wanted="company_tickers")
    try:
        if isinstance(content, dict) and "fields" in content:
            cik, ticker = (content["fields"].index(name) for name in ("cik", "ticker"))
            pairs = [(row[cik], row[ticker]) for row in content["data"]]
        else:
            pairs = [(entry["cik_str"], entry["ticker"]) for entry in content.values()]
        names: dict[str, list[str]] = {}
        for number, name in pairs:
            names.setdefault(str(int(number)).zfill(10), []).append(str(name))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as failure:
        raise EventDataError(
            f"{file} is no list of tickers; give company_tickers.json or company_tickers_exchange.json"
        ) from failure
    return names
