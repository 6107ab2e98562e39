"""Plain tables, ready for the template: a caption, columns, and cells of text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : str
        What it says.
    note : str
        A second, quieter line (an interval, a unit).
    best : bool
        Whether it is marked as the best of its column.
    css : str
        A class of ours (a model's colour, a verdict); never taken from data.
    """

    text: str
    note: str = ""
    best: bool = False
    css: str = ""


@dataclass(frozen=True)
class Column:
    """One column: its heading, whether it holds figures (set right), and a word on its meaning."""

    label: str
    numeric: bool = True
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row is the row's heading.

    Attributes
    ----------
    caption : str
        Says what the table holds; always shown.
    columns : tuple of Column
    rows : tuple of tuple of Cell
        Each as long as `columns`.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
