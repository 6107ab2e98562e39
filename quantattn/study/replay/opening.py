"""From a name to a log that can be replayed."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl

from quantattn.errors import UsageError
from quantattn.forecasters.streaming.events.lines import numbered_lines
from quantattn.pit import EventLog
from quantattn.study.config import Study
from quantattn.study.history import build_events, load_sources
from quantattn.study.loading import load_study
from quantattn.study.replay.feed import Feed, chunks_of
from quantattn.study.replay.logs import FrameLog, LineLog, Note, ReplayLog

PARQUET: Final = (".parquet", ".pq")
LINES: Final = (".jsonl", ".ndjson", ".json")
STANDARD_INPUT: Final = "-"

_CHUNK: Final = 1 << 16


def own_log(run: Path, study: Study, note: Note) -> EventLog:
    """Make the event log of a run's own data, as the run did.

    Parameters
    ----------
    run : Path
        The run folder.
    study : Study
        Its study.
    note : callable
        Is told if the data are no longer those of the run.

    Returns
    -------
    EventLog

    Raises
    ------
    DataError
        If a file breaks the data contract.
    """
    sources = load_sources(study)
    try:
        recorded = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["data"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        recorded = None  # the run has not come to its end
    if recorded is not None and recorded != sources.hashes:
        note("the data are no longer those of the run, and forecasts may differ from the run's")
    return build_events(study, sources)


def open_log(
    name: str | None,
    *,
    run: Path,
    only: tuple[str, ...] | None,
    note: Note,
    standard_input: Callable[[], bytes],
) -> tuple[ReplayLog, bool]:
    """Open what is to be replayed.

    Parameters
    ----------
    name : str or None
        A Parquet file of ``EventLog.write``, a file of JSON lines, ``"-"`` or a pipe; None for the run's own
        data.
    run : Path
        The run folder.
    only : tuple of str or None
        Leave out other entities' own events.
    note : callable
        Is told what the user should know.
    standard_input : callable
        Gives its next bytes; none at its end.

    Returns
    -------
    log : ReplayLog
    live : bool
        Whether its items come when they happen.

    Raises
    ------
    UsageError
        If there is no such file, or it is of another kind.
    DataError
        If it breaks the data contract.
    """
    if name is None:
        return FrameLog(kept(own_log(run, load_study(run / "study.yaml"), note), only), note), False
    if name == STANDARD_INPUT:
        source = "standard input"
        return LineLog(Feed(chunks_of(standard_input), source), source, note), True
    path = Path(name)
    try:
        kind = path.stat().st_mode
        if path.suffix.lower() in PARQUET:
            return FrameLog(kept(EventLog.read(path), only), note), False
        if stat.S_ISDIR(kind) or (stat.S_ISREG(kind) and path.suffix.lower() not in LINES):
            raise UsageError(
                f"log {name!r} is {'a folder' if stat.S_ISDIR(kind) else 'of an unknown kind'}; give a file "
                f"that ends in {', '.join((*PARQUET, *LINES))}, or - for standard input"
            )
        stream = path.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(f"log {name!r} cannot be read ({error.strerror}); check the path") from error
    chunks = chunks_of(lambda: stream.read(_CHUNK) or b"")
    if stat.S_ISREG(kind):
        return LineLog(numbered_lines(chunks, source=name), name, note), False
    return LineLog(Feed(chunks, name), name, note), True


def kept(log: EventLog, only: tuple[str, ...] | None) -> EventLog:
    """Leave out other entities' own events, unless `only` is None."""
    if only is None:
        return log
    kept = pl.col("entity").is_null() | pl.col("entity").is_in(only)
    return EventLog.from_valid(log.frame.filter(kept), log.features)
