"""Who is there late or leaves early, as far as labels tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from quantattn.pit import ForecastClock, PointInTimeDataset, SurvivorshipReport, direction, log_return
from quantattn.pit.market_events import market_events
from tests.pit.build import clock, event_log, labels, price_history, random_closes, times


def report_of(pairs: list[tuple[str, int]], dropped: list[tuple[str, int, str]]) -> SurvivorshipReport:
    entities = tuple(sorted({entity for entity, *_ in [*pairs, *dropped]}))
    table = pl.DataFrame(
        {
            "entity": [row[0] for row in dropped],
            "forecast_time": times(row[1] for row in dropped),
            "reason": [row[2] for row in dropped],
        },
        schema_overrides={"entity": pl.String, "reason": pl.String},
    )
    told = replace(labels(pairs, entities), dropped=table.sort("forecast_time", "entity"))
    rows: list[dict[str, Any]] = [{"available": 0, "entity": entity} for entity in entities]
    report = PointInTimeDataset(event_log(rows), clock([1, 2, 3, 4]), told).survivorship
    assert report is not None
    return report


def names(report: SurvivorshipReport) -> tuple[list[str], list[str]]:
    return report.late["entity"].to_list(), report.early["entity"].to_list()


def test_the_report_speaks_of_forecasts() -> None:
    report = report_of([*A, ("B", 2)], [("B", 1, "no_price")])
    assert report.counted == "forecasts"
    assert "labelled forecasts start late: 1: B (2020-01-01)" in str(report)


A = [("A", 1), ("A", 2), ("A", 3), ("A", 4)]


@pytest.mark.parametrize("reason", ["dead_band", "gap", "zero_variance", "halted", "closed", "total_loss"])
def test_a_dropped_label_is_no_absence(reason: str) -> None:
    assert names(report_of([*A, ("B", 2)], [("B", 1, reason), ("B", 3, reason), ("B", 4, reason)])) == (
        [],
        [],
    )


@pytest.mark.parametrize("reason", ["no_price", "delisted"])
def test_no_price_is_an_absence(reason: str) -> None:
    rows = [("B", 1, reason), ("B", 3, reason), ("B", 4, reason)]
    assert names(report_of([*A, ("B", 2)], rows)) == (["B"], ["B"])


def test_where_the_data_end_nobody_is_gone_who_was_there_before() -> None:
    # B is measured to the end of the data, C is gone by then and nobody knows that it is incomplete.
    pairs = [("B", 1), ("B", 2), ("C", 1)]
    dropped = [
        *((entity, second, "incomplete") for entity in "BC" for second in (3, 4)),
        ("C", 2, "no_price"),
    ]
    assert names(report_of(pairs, dropped)) == ([], ["C"])
    # A dead band before the end is a sign of life.
    assert names(
        report_of([*A, ("B", 1)], [("B", 2, "dead_band"), ("B", 3, "incomplete"), ("B", 4, "incomplete")])
    ) == (
        [],
        [],
    )


def test_a_measured_history_with_a_dead_band_and_a_share_that_ends() -> None:
    closes: dict[str, Any] = {name: random_closes(seed, 60) for seed, name in enumerate("ABC")}
    closes["D"] = random_closes(9, 30)
    prices = price_history(closes)
    when = ForecastClock.sessions(start="2019-01-04", end="2019-03-28")
    events = market_events(prices, volatility_window=4, extreme_window=6, regime_window=5, bar_windows=(3,))
    for target in (direction(prices, when, horizon=5, dead_band=0.05), log_return(prices, when, horizon=5)):
        report = PointInTimeDataset(events, when, target).survivorship
        assert report is not None
        assert names(report) == ([], ["D"])
        assert report.n_alive == 3
