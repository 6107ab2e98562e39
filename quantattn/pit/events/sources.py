"""What a scan needs of the place that its events come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import polars as pl

from quantattn.pit.events.taken import Taken


class Source(Protocol):
    """What a scan needs of its source."""

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns."""

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint, if the source knows it."""

    @property
    def ordered(self) -> bool:
        """Whether the events come in canonical order."""

    @property
    def counted(self) -> bool:
        """Whether refused rows have been counted, so that their number costs nothing."""

    @property
    def taken(self) -> Taken | None:
        """What the intake did with its rows, if that is known."""

    @property
    def reject_counts(self) -> dict[str, int]:
        """How many rows were refused for each reason, the most frequent first."""

    def batches(self) -> Iterator[pl.DataFrame]:
        """Give the valid events in the order of the files, in bounded parts."""

    def lazy(self) -> pl.LazyFrame:
        """Give the valid events as a lazy table."""

    def collect(self, chosen: pl.Expr) -> pl.DataFrame:
        """Read the events for which an expression holds."""

    def rejects(self) -> Iterator[pl.DataFrame]:
        """Give ``file, row, reason, detail`` of the refused rows, in bounded parts."""
