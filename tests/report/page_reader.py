"""Reads a page back with the standard library's parser: its tags, texts, tables and attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "hr", "img", "input"}
_BLOCKS = {
    "p",
    "div",
    "li",
    "dt",
    "dd",
    "td",
    "th",
    "h1",
    "h2",
    "h3",
    "tr",
    "caption",
    "summary",
    "pre",
    "text",
}


@dataclass
class Element:
    """One element: its tag, attributes, and all text inside it."""

    tag: str
    attributes: dict[str, str]
    path: tuple[str, ...]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Give the text with its white space folded."""
        return " ".join("".join(self.parts).split())


@dataclass
class Page:
    """A page: every element in order, and what was wrong with its nesting."""

    elements: list[Element]
    faults: list[str]
    declaration: str

    def all(self, tag: str, css: str | None = None) -> list[Element]:
        """Give the elements of a tag, with a class if one is named."""
        return [
            e
            for e in self.elements
            if e.tag == tag and (css is None or css in e.attributes.get("class", "").split())
        ]

    def by_id(self, identifier: str) -> Element:
        """Give the one element with an id."""
        (found,) = [e for e in self.elements if e.attributes.get("id") == identifier]
        return found

    @property
    def text(self) -> str:
        """Give all text of the body."""
        (body,) = self.all("body")
        return body.text

    def table(self, start: str) -> list[list[str]]:
        """Give the one table whose caption starts so, as rows of cell texts, the heading row first."""
        tables: list[list[list[str]]] = []
        current: list[list[str]] = []
        inside = False
        for e in self.elements:
            if e.tag == "table":
                current, inside = [], False
            elif e.tag == "caption" and e.text.startswith(start):
                inside = True
                tables.append(current)
            elif e.tag == "tr" and inside:
                current.append([])
            elif e.tag in ("th", "td") and inside:
                current[-1].append(e.text)
        (found,) = tables
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.faults: list[str] = []
        self.declaration = ""

    def handle_decl(self, decl: str) -> None:
        self.declaration = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> repeats an attribute: {names}")
        element = Element(tag, {k: v or "" for k, v in attrs}, tuple(e.tag for e in self.open))
        self.elements.append(element)
        self._space(tag)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes {[e.tag for e in self.open[-3:]]}")
            return
        self.open.pop()
        self._space(tag)

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.parts.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment: {data}")

    def _space(self, tag: str) -> None:
        if tag in _BLOCKS:
            self.handle_data(" ")


def read_page(html: str) -> Page:
    """Read a page; what is left open counts as a fault."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.open:
        reader.faults.append(f"left open: {[e.tag for e in reader.open]}")
    return Page(reader.elements, reader.faults, reader.declaration)


def machine_words(page: Page) -> list[str]:
    """Give words that only a program says (nan, None, inf) wherever they stand in texts or attributes."""
    pattern = re.compile(r"\b(nan|NaN|None|inf|Infinity|NaT|null|undefined)\b")
    found = pattern.findall(page.text)
    for element in page.elements:
        for name, value in element.attributes.items():
            if name not in ("content",):
                found += [f"{name}={value[:60]}" for _ in pattern.findall(value)]
    return found
