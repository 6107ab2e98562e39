"""How many rows a log was made from, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Taken:
    """What an intake did with its rows.

    Parameters
    ----------
    rows : int
        Rows read.
    refused : int
        Rows refused.
    dates : int
        Rows whose publication stamp was a bare date (or a naive midnight of a declared zone), and that are
        known from the next session's open. They are counted before rows that repeat each other are refused.
    listed : int
        How many of the refused rows the log listed when this was counted.
    """

    rows: int
    refused: int
    dates: int
    listed: int = 0

    def now_listing(self, listed: int) -> Taken:
        """Give the counts of a log that lists more refused rows by now, such as those a format refuses."""
        more = listed - self.listed
        return replace(self, rows=self.rows + more, refused=self.refused + more, listed=listed)

    def to_dict(self) -> dict[str, int]:
        """Give what a file keeps; it holds no list of refused rows."""
        return {"dates": self.dates, "refused": self.refused, "rows": self.rows}

    @classmethod
    def from_dict(cls, entry: Any) -> Taken:
        """Take :meth:`to_dict` back.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is something else.
        """
        return cls(int(entry["rows"]), int(entry["refused"]), int(entry["dates"]))


def sum_of(parts: Iterable[Taken | None]) -> Taken | None:
    """Add counts up; None if there are none or some are not known."""
    known = list(parts)
    found = [part for part in known if part is not None]
    if not found or len(found) < len(known):
        return None
    return Taken(
        sum(part.rows for part in found),
        sum(part.refused for part in found),
        sum(part.dates for part in found),
        sum(part.listed for part in found),
    )
