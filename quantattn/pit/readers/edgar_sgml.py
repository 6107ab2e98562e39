"""SEC EDGAR full submissions: the SGML header at the top of each filing's text file.

Source: EDGAR Public Dissemination Service technical specification of the SEC, and the variants collected in
https://github.com/john-friedman/secsgml (``submission_variations.md``). Read are

* ``<SEC-DOCUMENT>`` and ``<SEC-HEADER>`` files (``##########-##-######.txt``, ``.hdr.sgml``; in the
  nineties ``<IMS-HEADER>``): ``<ACCEPTANCE-DATETIME>20240202180130``, then lines such as ``ACCESSION
  NUMBER:``, ``CONFORMED SUBMISSION TYPE:``, ``FILED AS OF DATE:``, ``CONFORMED PERIOD OF REPORT:`` and
  ``ITEM INFORMATION:``, and a block for each party with ``COMPANY CONFORMED NAME:`` and ``CENTRAL INDEX
  KEY:``;
* ``<SUBMISSION>`` files of the daily feed (``.nc``): ``<ACCESSION-NUMBER>``, ``<TYPE>``, ``<FILING-DATE>``,
  ``<PERIOD>``, ``<ITEMS>``, and blocks with ``<CONFORMED-NAME>`` and ``<CIK>``. They bear no acceptance
  time.

Only headers are read, whatever the size of the documents; a file may hold many submissions. One event for
each company concerned (filer, subject company, issuer), ``event_id`` is ``accession:CIK``, ``kind`` the
form and the text holds the form, the company's name *as filed*, items and period. ``parties="all"`` adds
those who filed about others (``FILED BY``, ``REPORTING-OWNER``, ``FILED FOR``).

How ``available_at`` is derived: ``ACCEPTANCE-DATETIME`` is New York wall time, some time before
dissemination (http://www.regressionist.com/2020/08/09/edgar-timestamps/). What is accepted after 17:30
mostly bears the next business day as ``FILED AS OF DATE`` and is held back until 06:00 of it: the later of
both counts, and ``latency`` is added. Without an acceptance time, and at midnight, the date alone is known:
the next session's open. An acceptance time that the clocks repeat or skip is refused.

Traps: ``CONFORMED PERIOD OF REPORT`` is no time of knowledge. Staff letters and drafts are refused as
``released_later``, see ``edgar_submissions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import polars as pl

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers._edgar import stamp_faults, with_stamps
from quantattn.pit.readers._inputs import Fault, Paths, paths_of, read_log, wrong_format
from quantattn.pit.readers.registry import reader

_FORMAT: Final = "edgar_sgml"
_ABOUT: Final = ("FILER", "SUBJECT COMPANY", "ISSUER")
_ROLES: Final = (
    *_ABOUT,
    "FILED BY",
    "FILED FOR",
    "REPORTING OWNER",
    "SERIAL COMPANY",
    "DEPOSITOR",
    "SECURITIZER",
)
_OPENINGS: Final = {
    "<SEC-HEADER>": "</SEC-HEADER>",
    "<IMS-HEADER>": "</IMS-HEADER>",
    "<SUBMISSION>": "</SUBMISSION>",
}
_TAG: Final = re.compile(r"^<([A-Z0-9-]+)>(.*)$")
_ACCEPTED: Final = re.compile(r"^(\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})$")
_DATE: Final = re.compile(r"^(\d{4})(\d{2})(\d{2})$")
# What a header calls its fields, in either form, and what they are called here.
_FIELDS: Final = {
    "ACCEPTANCE DATETIME": "accepted",
    "ACCESSION NUMBER": "accession",
    "CONFORMED SUBMISSION TYPE": "form",
    "TYPE": "form",
    "FILED AS OF DATE": "filed",
    "FILING DATE": "filed",
    "CONFORMED PERIOD OF REPORT": "period",
    "PERIOD": "period",
    "ITEM INFORMATION": "items",
    "ITEMS": "items",
    "COMPANY CONFORMED NAME": "name",
    "CONFORMED NAME": "name",
    "CENTRAL INDEX KEY": "cik",
    "CIK": "cik",
}
_OF_PARTY: Final = ("name", "cik")
_SCHEMA: Final = dict.fromkeys(
    ("file", "accession", "form", "acceptance", "filed", "period", "items", "role", "name", "cik"),
    pl.String(),
)


@dataclass
class _Header:
    """One submission's header while it is read: the first value of each field, and its parties."""

    closing: str
    line: int
    fields: dict[str, str] = field(default_factory=dict)
    items: list[str] = field(default_factory=list)
    parties: list[dict[str, str]] = field(default_factory=list)

    def take(self, name: str, value: str) -> None:
        name = name.replace("-", " ").strip().upper()
        if name in _ROLES and not value:
            self.parties.append({"role": name})
            return
        known = _FIELDS.get(name)
        if known == "items":
            self.items.append(value)
        elif known in _OF_PARTY:
            if self.parties:
                self.parties[-1].setdefault(known, value)
        elif known is not None and value:
            self.fields.setdefault(known, value)

    def rows(self, file: str, *, everyone: bool) -> Iterator[dict[str, str | None]]:
        """Give a row for each company, once, or one without a company."""
        fields = self.fields
        common: dict[str, str | None] = {
            "file": file,
            "accession": fields.get("accession"),
            "form": fields.get("form"),
            "acceptance": _rewrite(_ACCEPTED, r"\1-\2-\3T\4:\5:\6", fields.get("accepted")),
            "filed": _rewrite(_DATE, r"\1-\2-\3", fields.get("filed")),
            "period": _rewrite(_DATE, r"\1-\2-\3", fields.get("period")),
            "items": ", ".join(self.items) or None,
        }
        chosen = {
            party["cik"].zfill(10): party
            for party in reversed(self.parties)
            if party.get("cik", "").strip("0").isdigit() and (everyone or party["role"] in _ABOUT)
        }
        for cik, party in sorted(chosen.items()):
            yield {**common, "role": party["role"], "name": party.get("name"), "cik": cik}
        if not chosen:
            yield {**common, "role": None, "name": None, "cik": None}


@reader(
    _FORMAT,
    title="SEC EDGAR full submissions, by the acceptance time in their SGML headers",
    gives="events",
    files="##########-##-######.txt, .hdr.sgml, .nc",
)
def read_edgar_sgml(
    paths: Paths,
    *,
    parties: Literal["company", "all"] = "company",
    latency: str = "5min",
    calendar: str = "XNYS",
    strict: bool = False,
) -> EventLog:
    """Read EDGAR submission headers; the module's documentation says how filings are dated.

    Parameters
    ----------
    paths : str, Path or sequence of them
        Full submissions or their headers.
    parties : {"company", "all"}
        Whose events filings are: the companies that they are about, or also those who filed about others.
    latency : str
        From posting until this system has the filing.
    calendar : str
        The calendar whose next session makes a date known.
    strict : bool
        Whether to raise when a row is refused.

    Returns
    -------
    EventLog
        Entities are CIKs of ten digits; rows are numbered file by file, company by company.

    Raises
    ------
    UsageError
        If a file is missing.
    EventDataError
        If a file has no header, or one that is cut off or not UTF-8, or no row can be used.
    """
    if parties not in ("company", "all"):
        raise UsageError(f"parties={parties!r} is unknown; use 'company' or 'all'")
    files = paths_of(paths)
    rows = [
        row
        for file in files
        for header in _headers(file)
        for row in header.rows(file.name, everyone=parties == "all")
    ]
    table = with_stamps(
        pl.DataFrame(rows, schema=_SCHEMA), accepted="acceptance", filed="filed", zone="eastern"
    )
    text = pl.concat_str(
        pl.col("form").fill_null("filing"),
        pl.format(": {}", "name"),
        pl.format("; items {}", "items"),
        pl.format("; period {}", "period"),
        ignore_nulls=True,
    )
    return read_log(
        table.with_columns(text=text, event_id=pl.format("{}:{}", "accession", "cik")),
        faults=[
            Fault(pl.col("accession").is_null(), "null_event_id", "accession", "no accession number"),
            *stamp_faults("acceptance", "filed", "form"),
            Fault(pl.col("cik").is_null(), "null_entity", "accession", "no company with a central index key"),
        ],
        files=files,
        strict=strict,
        event_time="accepted_at",
        available_at="public_at",
        entity="cik",
        event_id="event_id",
        kind="form",
        text="text",
        latency=latency,
        calendar=calendar,
    )


def _headers(path: Path) -> Iterator[_Header]:
    """Read the headers of a file line by line; what stands inside documents is never taken for one."""
    header: _Header | None = None
    found, inside = False, False
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if inside:
                inside = not raw.startswith(b"</DOCUMENT>")
                continue
            if header is None and not raw.startswith(b"<"):
                continue
            line = _decode(raw, path, number)
            if line.startswith("<DOCUMENT>"):
                inside = True
                if header is None or header.closing != "</SUBMISSION>":
                    if header is not None:
                        raise _cut_off(path, header)
                    continue
                # A submission of the feed is closed at its very end; its header ends with the first document.
                yield header
                header = None
            elif header is not None and line.startswith(header.closing):
                yield header
                header = None
            elif opening := next((tag for tag in _OPENINGS if line.startswith(tag)), None):
                if header is not None:
                    raise _cut_off(path, header)
                header, found = _Header(_OPENINGS[opening], number), True
            elif header is not None:
                _take_line(header, line)
    if header is not None:
        raise _cut_off(path, header)
    if not found:
        raise wrong_format(path, _FORMAT, "it has no <SEC-HEADER> and no <SUBMISSION>", EventDataError)


def _take_line(header: _Header, line: str) -> None:
    if tag := _TAG.match(line.strip()):
        header.take(tag.group(1), tag.group(2).strip())
    elif ":" in line:
        name, _, value = line.partition(":")
        header.take(name, value.strip())


def _decode(raw: bytes, path: Path, number: int) -> str:
    try:
        return raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as failure:
        raise EventDataError(f"{path} is not UTF-8 in line {number}; save it as UTF-8") from failure


def _cut_off(path: Path, header: _Header) -> EventDataError:
    return EventDataError(
        f"{path}: the header that begins in line {header.line} has no {header.closing}; download it again"
    )


def _rewrite(pattern: re.Pattern[str], to: str, value: str | None) -> str | None:
    """Write a stamp of digits as ISO 8601; anything else stays as it is, to be refused with its value."""
    return value if value is None else pattern.sub(to, value)
