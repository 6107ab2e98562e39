"""What `quantattn ingest` prints: summaries, refused rows, formats and their documentation."""

from __future__ import annotations

from typing import Final

import polars as pl

from quantattn.errors import printable
from quantattn.pit.events import EventLog
from quantattn.pit.ingest import Ingested
from quantattn.pit.ingest_words import in_command_words
from quantattn.pit.prices import PriceHistory
from quantattn.pit.readers import ReaderOption, find_reader, readers
from quantattn.pit.readers.price_files import prices_text

_SHOWN: Final = 3


def ingested_text(done: Ingested) -> str:
    """Say what was read and written: the summary, and the refused rows by reason with the first of each."""
    events = done.data if isinstance(done.data, EventLog) else None
    summary = prices_text(done.data) if isinstance(done.data, PriceHistory) else str(done.data.summary())
    lines = [f"Wrote {done.out}", "", summary]
    lines += [f"Note: {note}" for note in done.notes]
    if events is not None and events.rejects.height:
        lines += ["", *(in_command_words(line, done.reader) for line in rejects_text(events.rejects))]
        if done.rejects is not None:
            lines.append(f"All of them are in {done.rejects}")
    return printable("\n".join(lines))


def rejects_text(rejects: pl.DataFrame) -> list[str]:
    """List refused rows by reason, the most frequent first, with the first rows of each.

    Parameters
    ----------
    rejects : polars.DataFrame
        ``row, reason, detail``.

    Returns
    -------
    list of str
        Lines.
    """
    counts = rejects.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    lines = [f"{rejects.height} rows were refused:"]
    for reason, number in counts.iter_rows():
        lines.append(f"  {number} {reason}")
        first = rejects.filter(pl.col("reason") == reason).head(_SHOWN)
        lines += [f"    row {row}: {detail}" for row, _, detail in first.iter_rows()]
    return lines


def formats_text() -> str:
    """List the formats, a line each."""
    known = readers()
    width = max(len(name) for name in known)
    lines = [f"{name:<{width}}  {found.title} [{found.gives}]" for name, found in known.items()]
    return "\n".join([*lines, "", "`quantattn ingest --describe FORMAT` explains one."])


def describe_text(format: str) -> str:
    """Explain a format: its documentation, its files and its options.

    Parameters
    ----------
    format : str
        A name of :func:`quantattn.pit.readers.readers`.

    Raises
    ------
    UsageError
        If it is unknown.
    """
    reader = find_reader(format)
    explained = _explained(reader.read.__doc__ or "")
    lines = [
        f"{reader.name}: {reader.title}",
        f"Files: {reader.files}",
        "",
        reader.documentation,
        "",
        "Options:",
    ]
    for option in reader.options.values():
        lines.append(f"  --set {option.name}={_kind(option)}{_default(option)}")
        lines += [f"      {line}" for line in explained.get(option.name, [])]
    return "\n".join(lines)


def _kind(option: ReaderOption) -> str:
    if option.choices:
        return "|".join(option.choices)
    return {bool: "true|false", str: "TEXT", int: "WHOLE", float: "NUMBER"}[option.type]


def _default(option: ReaderOption) -> str:
    if option.required:
        return "  (needed)"
    if option.default is None:
        return ""
    shown = str(option.default).lower() if isinstance(option.default, bool) else option.default
    return f"  (default: {shown})"


def _explained(docstring: str) -> dict[str, list[str]]:
    """Take the descriptions of parameters out of a numpydoc docstring."""
    found: dict[str, list[str]] = {}
    name = ""
    _, _, section = docstring.partition("Parameters\n")
    for line in section.splitlines()[1:]:
        text = line.strip()
        if set(text) == {"-"}:  # the underline of the next section
            break
        if " : " in text and len(line) - len(line.lstrip()) <= 4:
            name = text.partition(" : ")[0]
            found[name] = []
        elif text and name:
            found[name].append(text)
    if found and found[name] and found[name][-1] in ("Returns", "Raises", "Warns", "Notes"):
        found[name].pop()
    return found
