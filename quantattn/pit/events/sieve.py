"""The rows of a table that are still good, and why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.pit._tables import printable
from quantattn.pit.events.reasons import EXPLANATIONS
from quantattn.pit.events.schema import REJECTS

QUOTED: Final = 10_000
_LONGEST: Final = 80


class Sieve:
    """Collects refusals; each row falls for its first fault.

    Parameters
    ----------
    table : polars.DataFrame
        The table whose values the details quote.

    Notes
    -----
    The details of the first 10,000 rows with one fault quote the value; those of further ones name the fault
    alone and share one text, so that ten million refusals take no more memory than their row numbers do.
    """

    def __init__(self, table: pl.DataFrame) -> None:
        self.table = table
        self.good = np.ones(table.height, dtype=bool)
        self.dated = np.zeros(table.height, dtype=bool)
        self.counts: Counter[str] = Counter()
        self._fallen: list[pl.DataFrame] = []

    @property
    def dates(self) -> int:
        """How many of the good rows are published on a bare date."""
        return int(np.count_nonzero(self.dated & self.good))

    def refuse(
        self,
        bad: npt.NDArray[np.bool_],
        reason: str,
        column: str | None,
        *,
        meaning: str | None = None,
        said: Callable[[npt.NDArray[np.intp]], pl.Series] | None = None,
    ) -> None:
        """Let the rows that are still good and in `bad` fall.

        Parameters
        ----------
        bad : numpy.ndarray of bool
            The rows.
        reason : str
            The short name under which they are counted.
        column : str or None
            The column whose values are quoted.
        meaning : str, optional
            What is wrong, where the explanation of the reason is too general.
        said : callable, optional
            Gives for the rows that are quoted, ascending, what to add to the meaning.
        """
        rows = np.flatnonzero(bad & self.good)
        if not rows.size:
            return
        self.good[rows] = False
        self.counts[reason] += rows.size
        meaning = EXPLANATIONS[reason][0] if meaning is None else meaning
        quoted, others = rows[:QUOTED], rows[QUOTED:]
        if column is None:
            more = pl.lit("") if said is None else pl.lit(said(quoted))
            self._add(quoted, reason, pl.concat_str(pl.lit(meaning), more))
            if others.size:
                self._add(others, reason, pl.lit(meaning))
            return
        told = None if said is None else said(quoted)
        self._add(quoted, reason, _quotations(self.table[column][quoted], meaning, told))
        if others.size:
            self._add(others, reason, pl.lit(f"column '{column}': {meaning}"))

    def _add(self, rows: npt.NDArray[np.intp], reason: str, detail: pl.Expr) -> None:
        self._fallen.append(
            pl.DataFrame({"row": rows.astype(np.int64)}).select(
                "row", reason=pl.lit(reason), detail=detail.cast(pl.String)
            )
        )

    def rejects(self) -> pl.DataFrame:
        """Give ``row, reason, detail`` of the rows that fell, by row."""
        return pl.concat([pl.DataFrame(schema=REJECTS), *self._fallen]).sort("row")


def _quotations(values: pl.Series, meaning: str, said: pl.Series | None) -> pl.Expr:
    if values.dtype == pl.Binary:
        # Escaped, so that the bytes can be told from text.
        shown = pl.Series(
            [None if value is None else repr(value[:20])[1:] for value in values], dtype=pl.String
        )
    else:
        shown = "'" + printable(values).cast(pl.String, strict=False).str.slice(0, _LONGEST) + "'"
    # One line, and nothing that a terminal would obey.
    shown = shown.str.replace_all(r"[\x00-\x1f\x7f-\x9f]", "\ufffd").fill_null("null")
    more = pl.lit(meaning) if said is None else pl.lit(meaning + said)
    return pl.format("column '{}' is {}: {}", pl.lit(values.name), pl.lit(shown), more)
