"""Lists of objects out of JSON files: documents, pages of an interface, or JSON lines."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

from quantattn.errors import EventDataError
from quantattn.pit.readers._compressed import open_bytes
from quantattn.pit.readers._inputs import wrong_format
from quantattn.pit.readers._surrogates import load_json

_TAG: Final = re.compile(r"<(?:/?[A-Za-z]|!--)[^<>]*>")
_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True)
class Item:
    """One object of a file.

    Parameters
    ----------
    place : str
        Where it stands, for messages: file and line, or file and number of the item from 0.
    fields : dict of str to object
        What it holds.
    number : int
        Which item of its file it is, from 0.
    """

    place: str
    fields: dict[str, Any]
    number: int = 0

    def text(self, field: str) -> str | None:
        """Give a field as text; numbers as they are written, null and a missing field as None.

        Raises
        ------
        EventDataError
            If the field holds an object, a list or a truth value.
        """
        value = self.fields.get(field)
        if value is None:
            return None
        if isinstance(value, str):
            return value
        if isinstance(value, bool | dict | list):
            raise EventDataError(f"{self.place}: field {field!r} is {_short(value)}, not text; correct it")
        return str(value)

    def names(self, field: str) -> list[str] | None:
        """Give a list of names without repetitions; None where the field is missing or null.

        Raises
        ------
        EventDataError
            If the field holds something else than a list of texts.
        """
        value = self.fields.get(field)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise EventDataError(
                f"{self.place}: field {field!r} is {_short(value)}, not a list of names; correct it"
            )
        return list(dict.fromkeys(name.strip() for name in value if name.strip()))


def read_items(
    path: Path,
    *,
    format: str,
    listed: Sequence[str],
    needed: Sequence[str],
    pages: list[dict[str, Any]] | None = None,
) -> list[Item]:
    """Read the objects of a JSON file.

    Parameters
    ----------
    path : Path
        UTF-8, also with ``.gz`` or ``.zip``: an object that lists items under one of the keys of `listed`
        (also below ``data``), a list of items or of such objects, one item, or one of these on every line.
    format : str
        The format's name in the registry.
    listed : sequence of str
        The keys under which pages list their items.
    needed : sequence of str
        The fields of an item; a field that no item has makes the file one of another format.
    pages : list of dict, optional
        Takes the objects that list items.

    Returns
    -------
    list of Item

    Raises
    ------
    EventDataError
        If the file is empty, not UTF-8, not whole JSON, or not of this format.
    """
    text = _decoded(path)
    documents = list(_documents(path, text, format))
    found = (
        entry
        for place, document in documents
        for entry in _flat(place, document, listed, path, format, pages)
    )
    items = [Item(place, fields, number) for number, (place, fields) in enumerate(found)]
    if not items:
        raise EventDataError(f"{path} lists no items; give a file with data")
    present = {field for item in items for field in item.fields}
    missing = [field for field in needed if field not in present]
    if missing:
        near = difflib.get_close_matches(missing[0], sorted(present), n=1)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        raise wrong_format(path, format, f"no item has a field {missing[0]!r}{hint}", EventDataError)
    return items


def plain_text(markup: str | None) -> str | None:
    """Give the text of a piece of HTML on one line."""
    if markup is None:
        return None
    return _SPACE.sub(" ", unescape(_TAG.sub(" ", markup))).strip()


def joined(parts: Iterable[str | None]) -> str | None:
    """Join the texts that are there by line breaks; None if none is."""
    return "\n".join(part for part in parts if part) or None


def _decoded(path: Path) -> str:
    with open_bytes(path, EventDataError) as stream:
        content = stream.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise EventDataError(f"{path} is not UTF-8 in line {line}; save it as UTF-8") from failure
    if not text.strip():
        raise EventDataError(f"{path} is empty; give a file with data")
    return text


def _documents(path: Path, text: str, format: str) -> Iterator[tuple[str, Any]]:
    """Give each JSON document and its place: the whole file, or line by line."""
    try:
        yield str(path), load_json(text)
        return
    except RecursionError as failure:
        raise EventDataError(f"{path} nests too deeply to be news; give another file") from failure
    except ValueError as failure:
        whole = failure
    if text.lstrip()[:1] not in ("{", "["):
        raise wrong_format(path, format, "it is no JSON", EventDataError) from whole
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for number, line in lines:
        try:
            document = load_json(line)
        except (ValueError, RecursionError) as failure:
            # A document over many lines fails in its first line already; where it really ends is told first.
            fault, where = (whole, _line_of(whole)) if number == lines[0][0] else (failure, number)
            raise EventDataError(
                f"{path} is not whole JSON in line {where} ({_reason(fault)}); download or write it again"
            ) from fault
        yield f"{path} line {number}", document


def _flat(
    place: str,
    document: Any,
    listed: Sequence[str],
    path: Path,
    format: str,
    pages: list[dict[str, Any]] | None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(document, dict):
        inner = document["data"] if isinstance(document.get("data"), dict) else document
        under = next((key for key in listed if isinstance(inner.get(key), list)), None)
        if under is None:
            yield place, document
            return
        entries = inner[under]
        if pages is not None:
            pages.append(inner)
    elif isinstance(document, list):
        entries = document
    else:
        raise wrong_format(path, format, f"{place} holds {_short(document)}, not an object", EventDataError)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise wrong_format(
                path, format, f"item {number} of {place} is {_short(entry)}, not an object", EventDataError
            )
        inside = [key for key in listed if isinstance(entry.get(key), list)]
        if inside and isinstance(document, list):
            yield from _flat(f"{place} page {number}", entry, listed, path, format, pages)
        else:
            yield f"{place} item {number}", entry


def _line_of(failure: ValueError) -> int:
    return failure.lineno if isinstance(failure, json.JSONDecodeError) else 1


def _reason(failure: Exception) -> str:
    return failure.msg if isinstance(failure, json.JSONDecodeError) else str(failure)[:100]


def _short(value: Any) -> str:
    shown = json.dumps(value, default=str)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
