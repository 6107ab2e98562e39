"""Survivorship as far as labels tell of it."""

from __future__ import annotations

from typing import Final

import polars as pl

from quantattn.pit.clock import ForecastClock
from quantattn.pit.labels import Labels
from quantattn.pit.survivorship import SurvivorshipReport, survivorship

_ABSENT: Final = ("no_price", "delisted")
_UNDECIDED: Final = "incomplete"
"""Where the data end first, labels of those who are gone and of those who are there are dropped alike."""


def survivorship_of(labels: Labels, clock: ForecastClock) -> SurvivorshipReport:
    """Report which entities are there late or leave early over the span of the forecasts."""
    return survivorship(presence_of(labels), clock)


def presence_of(labels: Labels) -> pl.DataFrame:
    """Give the forecasts at which an entity was there: ``entity``, ``forecast_time``.

    It was where it has a label, and where its label was dropped for another reason than that it has no price
    or is delisted. Where the data end first, it was there if it was at its last forecast before.
    """
    there = pl.lit(True)
    decided = (
        pl.when(pl.col("reason") == _UNDECIDED).then(None).otherwise(~pl.col("reason").is_in(list(_ABSENT)))
    )
    every = pl.concat(
        [
            labels.frame.select("entity", "forecast_time", there=there),
            labels.dropped.select("entity", "forecast_time", there=decided),
        ]
    ).sort("entity", "forecast_time")
    return (
        every.with_columns(pl.col("there").forward_fill().over("entity").fill_null(True))
        .filter("there")
        .select("entity", "forecast_time")
    )
