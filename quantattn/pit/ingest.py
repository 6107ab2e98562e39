"""Bring files of a known format into Parquet: the job behind ``quantattn ingest``."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quantattn.errors import DataError, UsageError
from quantattn.files import atomic_path
from quantattn.pit._tables import nearest_names
from quantattn.pit.events import EventLog
from quantattn.pit.ingest_record import IngestRecord, add_record, kept_options
from quantattn.pit.ingest_words import in_command_words
from quantattn.pit.prices import PriceHistory
from quantattn.pit.readers import Reader, ReaderOption, find_reader
from quantattn.pit.readers._formats import looks_like
from quantattn.pit.readers.price_files import write_prices

_PARQUET: Final = (".parquet", ".pq")
_REJECTS: Final = (".csv", ".parquet")
_TRUE: Final = ("true", "yes", "1", "on")
_FALSE: Final = ("false", "no", "0", "off")


@dataclass(frozen=True)
class Ingested:
    """What an ingest read and wrote.

    Parameters
    ----------
    reader : Reader
        The reader that was used.
    data : EventLog or PriceHistory
        What it gave.
    out : Path
        The Parquet file written.
    rejects : Path or None
        The file of refused rows, if one was asked for.
    notes : tuple of str
        What the reader warned of.
    """

    reader: Reader
    data: EventLog | PriceHistory
    out: Path
    rejects: Path | None
    notes: tuple[str, ...]


def ingest(
    format: str,
    paths: Sequence[str | Path],
    *,
    out: str | Path,
    settings: Iterable[str] = (),
    rejects: str | Path | None = None,
    strict: bool = False,
    force: bool = False,
) -> Ingested:
    """Read files of one format and write what they hold as one Parquet file.

    Parameters
    ----------
    format : str
        A name of :func:`quantattn.pit.readers.readers`.
    paths : sequence of str or Path
        The files.
    out : str or Path
        The Parquet file to write; :meth:`EventLog.read` or :func:`read_price_file` reads it, and a study
        file names it in ``data.events`` or ``data.prices``.
    settings : iterable of str
        Options of the reader as ``name=value``.
    rejects : str or Path, optional
        Where to write the refused rows, ``.csv`` or ``.parquet``.
    strict : bool
        Whether a refused row is an error.
    force : bool
        Whether to overwrite files that exist.

    Returns
    -------
    Ingested

    Raises
    ------
    UsageError
        If the format or an option is unknown, a value does not fit, or a file exists and `force` is not set.
    DataError
        As the reader; nothing is written then.
    """
    reader = find_reader(format)
    options = parse_settings(reader, settings)
    if strict and "strict" in reader.options:
        options["strict"] = True
    files = [Path(path) for path in paths]
    if not files:
        raise UsageError(f"no file of format {reader.name!r} is given; name at least one ({reader.files})")
    target = Path(out)
    listed = None if rejects is None else Path(rejects)
    _refuse_target(target, "--out", _PARQUET, files, force=force)
    if listed is not None:
        if reader.gives == "prices":
            raise UsageError("--rejects lists refused events; a bad row of prices is an error: leave it out")
        _refuse_target(listed, "--rejects", _REJECTS, [*files, target], force=force)
    data, notes = _read(reader, files, options)
    record = IngestRecord(reader.name, kept_options(options), _refused(data), notes)
    # Both are written before either is put in its place.
    with _staged(target) as draft, _staged(listed) as draft_of_rejects:
        assert draft is not None  # since target is a path
        if isinstance(data, PriceHistory):
            write_prices(data, draft)
        else:
            data.write(draft)
        add_record(draft, record)
        if draft_of_rejects is not None and isinstance(data, EventLog):
            data.write_rejects(draft_of_rejects)
    return Ingested(reader, data, target, listed, notes)


def _refused(data: EventLog | PriceHistory) -> dict[str, int]:
    return dict(data.reject_counts) if isinstance(data, EventLog) else {}


def parse_settings(reader: Reader, settings: Iterable[str]) -> dict[str, Any]:
    """Read options given as text.

    Parameters
    ----------
    reader : Reader
        Whose options they are.
    settings : iterable of str
        ``name=value``, each name once.

    Returns
    -------
    dict of str to object
        The keywords of ``reader.read``.

    Raises
    ------
    UsageError
        If one is not of that form, unknown, given twice or of another type, or a required one is missing.
    """
    known = reader.options
    given: dict[str, Any] = {}
    for setting in settings:
        name, mark, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not mark:
            # A slip such as a bare URI may hold a password.
            raise UsageError(f"--set {setting[:12]!r} is not of the form name=value; write --set NAME=VALUE")
        if name not in known:
            raise UsageError(
                f"format {reader.name!r} has no option {name!r}{nearest_names(name, known)}; it has "
                f"{', '.join(known)}"
            )
        if name in given:
            raise UsageError(f"option {name!r} is set twice; set it once")
        given[name] = _value(known[name], value)
    lacking = [option for option in known.values() if option.required and option.name not in given]
    if lacking:
        listed = " ".join(f"--set {option.name}=..." for option in lacking)
        raise UsageError(
            f"format {reader.name!r} needs {listed}; see `quantattn ingest --describe {reader.name}`"
        )
    return given


def _value(option: ReaderOption, text: str) -> Any:
    if option.choices and text not in option.choices:
        hint = nearest_names(text, option.choices)
        raise UsageError(
            f"{option.name}={text!r} is unknown{hint}; use {' or '.join(map(repr, option.choices))}"
        )
    if option.type is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f"{option.name}={text!r} is neither true nor false; write one of them")
        return text.lower() in _TRUE
    if option.type is str:
        return text
    try:
        return option.type(text)
    except ValueError as failure:
        kind = "a whole number" if option.type is int else "a number"
        raise UsageError(f"{option.name}={text!r} is not {kind}; write one") from failure


def _refuse_target(
    target: Path, option: str, suffixes: Sequence[str], inputs: Sequence[Path], *, force: bool
) -> None:
    """Refuse a file to write that could not be read again, or that would destroy something."""
    if target.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {str(target)!r} does not end in {' or '.join(suffixes)}; name it so")
    # Path.resolve fails on a loop of links.
    if any(os.path.realpath(target) == os.path.realpath(path) for path in inputs):
        raise UsageError(
            f"{option} {str(target)!r} is also another file of this command; choose another name"
        )
    if target.is_dir():
        raise UsageError(f"{option} {str(target)!r} is a folder; give a file in it")
    if os.path.lexists(target) and not force:
        raise UsageError(f"{str(target)!r} exists; choose another name, or overwrite it with --force")


def _read(
    reader: Reader, files: list[Path], options: dict[str, Any]
) -> tuple[EventLog | PriceHistory, tuple[str, ...]]:
    """Run a reader, catching what it warns of; tell of files that look like another format."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            data = reader.read(files[0] if len(files) == 1 else files, **options)
        except UsageError as failure:
            raise type(failure)(in_command_words(str(failure), reader)) from failure
        except DataError as failure:
            said = in_command_words(str(failure), reader)
            other = next((found for file in files if (found := looks_like(file))), None)
            if other in (None, reader.name) or repr(other) in str(failure):
                raise type(failure)(said) from failure
            raise type(failure)(
                f"{said}; the file looks like format {other!r}: try `quantattn ingest {other}`"
            ) from failure
    notes = (in_command_words(str(warning.message), reader) for warning in caught)
    return data, tuple(dict.fromkeys(notes))


@contextmanager
def _staged(path: Path | None) -> Iterator[Path | None]:
    """Give a place of the same name in a folder beside `path`; move what is there to `path` at the end."""
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".", dir=path.parent))
    try:
        draft = folder / path.name
        yield draft
        with atomic_path(path) as temporary:
            draft.replace(temporary)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
