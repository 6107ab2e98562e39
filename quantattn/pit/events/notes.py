"""What is to be said of a whole table of events, gathered while its parts are read."""

from __future__ import annotations

import time
import warnings
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import EventDataError
from quantattn.pit.events.midnights import Midnights
from quantattn.pit.events.sieve import Sieve
from quantattn.pit.events.stamps import TimeRules, midnights_of
from quantattn.pit.timestamps import iso

_SHOWN: Final = 3


class Notes:
    """Spellings of entities, stamps that look like dates, and stamps of the future."""

    def __init__(self) -> None:
        self._spellings: dict[str, dict[str, set[str]]] = {}
        self._midnights: dict[str, Midnights] = {}
        self._future: dict[str, int] = {}
        self._first: dict[str, list[str]] = {}
        self._rows = 0
        self.now = time.time_ns()

    def midnights(self, column: pl.Series, rules: TimeRules) -> Midnights:
        """Give the count of zoned midnights of a column."""
        if column.name not in self._midnights:
            self._midnights[column.name] = midnights_of(column, rules)
        return self._midnights[column.name]

    def spell(self, names: pl.Series, column: str) -> None:
        """Note how entities are written."""
        spellings = self._spellings.setdefault(column, {})
        # Spaces within a name count as little as case does, and neither do marks that do not show.
        folded = (
            pl.col("name").str.to_lowercase().str.replace_all(r"[\s\u{200b}-\u{200d}\u{2060}\u{feff}]", "")
        )
        distinct = pl.DataFrame({"name": names.unique()}).with_columns(folded=folded)
        for name, key in distinct.iter_rows():
            spellings.setdefault(key, set()).add(name)

    def count_future(self, sieve: Sieve, stamps: npt.NDArray[np.int64], column: str) -> None:
        """Note the good rows of a part whose stamp lies after this moment."""
        rows = np.flatnonzero(sieve.good & (stamps > self.now))
        shown = self._first.setdefault(column, [])
        for row in rows[: _SHOWN - len(shown)].tolist():
            shown.append(f"row {self._rows + row} ({iso(int(stamps[row]))})")
        self._future[column] = self._future.get(column, 0) + rows.size
        self._rows += sieve.table.height

    def check(self) -> None:
        """Refuse entities that are written in more than one way.

        Raises
        ------
        EventDataError
            If names differ only in case or in spaces.
        """
        for column, spellings in self._spellings.items():
            twins = sorted(sorted(names) for names in spellings.values() if len(names) > 1)
            if twins:
                raise EventDataError(
                    f"column {column!r} has entity names that differ only in case or spaces: "
                    f"{', '.join(map(repr, twins[0]))}; give one entity one spelling, and rename those that "
                    "are really different"
                )

    def warn(self, stacklevel: int) -> None:
        """Warn of stamps that look like dates, and of stamps in the future."""
        for column, midnights in self._midnights.items():
            midnights.warn(column, stacklevel + 1)
        for column, number in self._future.items():
            if number:
                warnings.warn(
                    f"{number} rows are stamped later than this moment, {iso(self.now)}, in column "
                    f"{column!r}, first {', '.join(self._first[column])}: they are kept, and no forecast "
                    "made by now sees them; correct them, refuse them with now=, or pass scheduled=True for "
                    "announced events",
                    UserWarning,
                    stacklevel=stacklevel + 1,
                )
