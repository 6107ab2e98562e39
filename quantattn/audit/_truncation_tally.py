"""What the truncation check has compared so far, and what differed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from quantattn.audit.result import CheckResult
from quantattn.errors import QuantAttnError
from quantattn.pit.timestamps import iso

NAME = "truncation"
TITLE = "Does a forecast stay the same, bit for bit, when all data after it is deleted?"

# Ways in which code that leans on the future breaks when the future is gone.
_BREAKAGES = (QuantAttnError, ArithmeticError, LookupError, ValueError, pl.exceptions.PolarsError)


class Tally:
    """Counts what was compared and collects what differed."""

    def __init__(self) -> None:
        self.instants: set[int] = set()
        self.folds: set[int] = set()
        self.rows = 0
        self.encoders = 0
        self.network_forecasts = 0
        self.baseline_forecasts = 0
        self.trained = 0
        self.replayed: set[str] = set()
        self.refitted: set[str] = set()
        self.models: set[str] = set()
        self.faults: list[str] = []
        self.moved = 0

    def fault(self, what: str, moment: int, how: str) -> None:
        """Note a difference."""
        self.faults.append(f"{what} at {iso(moment)}: {how}")

    @contextmanager
    def guarded(self, what: str, moment: int) -> Iterator[None]:
        """Note as a difference that something cannot be made from the cut data."""
        try:
            yield
        except _BREAKAGES as error:
            reason = " ".join(str(error).split())
            self.fault(what, moment, f"cannot be made from the cut data ({type(error).__name__}: {reason})")

    def _entities(self) -> set[str]:
        """Give the entities of which every kind of model was made to forecast anew."""
        if self.replayed and self.refitted:
            return self.replayed & self.refitted
        return self.replayed | self.refitted

    def result(self, forecasts: pl.DataFrame, networks: int) -> CheckResult:
        """Give the verdict.

        Parameters
        ----------
        forecasts : polars.DataFrame
            The forecasts table.
        networks : int
            How many stored networks there are.

        Returns
        -------
        CheckResult
        """
        if not self.instants:
            return CheckResult(NAME, TITLE, "NOT EXERCISED", "There is no test forecast to cut at.")
        made = self.network_forecasts + self.baseline_forecasts
        evidence: dict[str, Any] = {
            "instants": len(self.instants),
            "rows of events, bars, features, labels and information sets compared": self.rows,
            "encoders fitted anew": self.encoders,
            "network forecasts replayed": self.network_forecasts,
            "networks trained anew": self.trained,
            "baseline forecasts made anew": self.baseline_forecasts,
            "events deleted by the cuts at test forecasts": self.moved,
            "test forecasts in the study": forecasts.select("entity", "forecast_time").n_unique(),
            "faults": self.faults[:5],
        }
        coverage = {
            "folds": _share(len(self.folds), forecasts["fold"].n_unique()),
            "models": _share(len(self.models), forecasts["model"].n_unique()),
            "entities forecast anew": _share(len(self._entities()), forecasts["entity"].n_unique()),
        }
        if networks:
            coverage["networks trained anew"] = _share(self.trained, networks)
        if self.faults:
            summary = f"{len(self.faults)} differences, first: {self.faults[0]}."
            return CheckResult(NAME, TITLE, "FAIL", summary, coverage, evidence)
        if not self.moved or not made:
            summary = (
                "No cut at a test forecast deleted any event, so nothing was tested."
                if not self.moved
                else "No forecast was made anew, so none was compared."
            )
            return CheckResult(NAME, TITLE, "NOT EXERCISED", summary, coverage, evidence)
        summary = (
            f"At {len(self.instants)} instants everything was rebuilt from data cut there: {self.rows:,} "
            f"rows of data, {self.encoders} encoders, {made:,} forecasts and {self.trained} "
            f"trained network{'' if self.trained == 1 else 's'} are the same bit for bit."
        )
        return CheckResult(NAME, TITLE, "PASS", summary, coverage, evidence)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
