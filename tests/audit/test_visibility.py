from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.audit import check_visibility
from tests.audit.pipeline import Pipeline, Ran, assert_sound, random_prices, run, session_clock
from tests.audit.tables import cell, with_time, with_value

ROW = 3


def test_an_honest_table_passes(honest: Ran) -> None:
    check = check_visibility(honest.forecasts)
    assert (check.name, check.verdict) == ("visibility", "PASS")
    assert check.coverage == {"forecast rows": 1.0}
    assert check.evidence["rows"] == honest.forecasts.height
    assert check.evidence["rows that saw nothing"] == 0
    # Fifteen minutes before a close, and a day after the close before it and its minute of latency.
    shortest = check.evidence["least time from the newest event to the forecast (s)"]
    assert shortest == (24 * 60 - 15 - 1) * 60
    assert_sound(check)


@pytest.mark.parametrize(("late", "verdict"), [(-1, "PASS"), (0, "FAIL"), (1, "FAIL")])
def test_an_event_is_seen_a_nanosecond_before_the_forecast_and_not_at_it(
    honest: Ran, late: int, verdict: str
) -> None:
    due = cell(honest.forecasts, ROW, "forecast_time")
    check = check_visibility(with_time(honest.forecasts, ROW, "max_available_at", due + late))
    assert check.verdict == verdict
    assert_sound(check)
    if verdict == "PASS":
        assert check.evidence["least time from the newest event to the forecast (s)"] == 1e-9
        assert "00:00:00.000000001" in check.summary
    else:
        assert check.evidence["faults"] == {"an event available at or after the forecast": 1}
        row = honest.forecasts.row(ROW, named=True)
        assert check.evidence["first offending rows"] == [
            f"{row['model']} {row['entity']} {row['forecast_time']:%Y-%m-%dT%H:%M:%SZ}"
        ]


@pytest.mark.parametrize(
    ("column", "before", "at", "after"),
    [("label_start_time", "FAIL", "FAIL", "PASS"), ("fit_time", "PASS", "FAIL", "FAIL")],
)
def test_label_start_and_fit_are_held_against_the_forecast(
    honest: Ran, column: str, before: str, at: str, after: str
) -> None:
    due = cell(honest.forecasts, ROW, "forecast_time")
    for shift, verdict in ((-1, before), (0, at), (1, after)):
        check = check_visibility(with_time(honest.forecasts, ROW, column, due + shift))
        assert check.verdict == verdict, shift
        assert_sound(check)


@pytest.mark.parametrize(("shift", "verdict"), [(-1, "FAIL"), (0, "PASS")])
def test_a_label_is_known_at_its_end_at_the_earliest(honest: Ran, shift: int, verdict: str) -> None:
    end = cell(honest.forecasts, ROW, "label_end_time")
    check = check_visibility(with_time(honest.forecasts, ROW, "label_available_at", end + shift))
    assert check.verdict == verdict


@pytest.mark.parametrize("column", ["label_start_time", "label_available_at", "fit_time", "forecast_time"])
def test_a_missing_time_counts_against_the_row(honest: Ran, column: str) -> None:
    check = check_visibility(with_time(honest.forecasts, ROW, column, None))
    assert check.verdict == "FAIL"
    assert_sound(check)


def test_a_count_and_a_newest_event_that_contradict_each_other_fail(honest: Ran) -> None:
    contradictions = (
        with_time(honest.forecasts, ROW, "max_available_at", None),
        with_value(honest.forecasts, ROW, "n_visible", 0),
        with_value(honest.forecasts, ROW, "n_visible", None),
    )
    for table in contradictions:
        check = check_visibility(table)
        assert check.verdict == "FAIL"
        assert "a count that contradicts the newest event" in check.evidence["faults"]


def test_a_row_that_saw_nothing_is_counted(honest: Ran) -> None:
    table = with_value(with_time(honest.forecasts, ROW, "max_available_at", None), ROW, "n_visible", 0)
    check = check_visibility(table)
    assert check.verdict == "PASS"
    assert check.evidence["rows that saw nothing"] == 1


def test_nothing_seen_at_all_and_no_rows_are_not_exercised(honest: Ran) -> None:
    blind = honest.forecasts.with_columns(
        pl.lit(None, honest.forecasts.schema["max_available_at"]).alias("max_available_at"),
        pl.lit(0, pl.Int64).alias("n_visible"),
    )
    for table in (blind, honest.forecasts.clear()):
        check = check_visibility(table)
        assert check.verdict == "NOT EXERCISED"
        assert_sound(check)


def test_the_most_frequent_fault_leads(honest: Ran) -> None:
    due = cell(honest.forecasts, ROW, "forecast_time")
    table = with_time(honest.forecasts, ROW, "fit_time", due)
    for row in (5, 6):
        table = with_time(table, row, "label_start_time", cell(table, row, "forecast_time"))
    check = check_visibility(table)
    assert check.summary == f"2 of {table.height} rows have a label that starts at or before the forecast."
    assert check.evidence["faults"] == {
        "a label that starts at or before the forecast": 2,
        "a model fitted at or after the forecast": 1,
    }


def test_a_pipeline_that_sees_events_at_equality_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_equality(available_at: Any, forecast_times: Any) -> Any:
        return np.searchsorted(available_at, forecast_times, side="right").astype(np.int64)

    # A minute after the close is the very instant at which the day's bar becomes available.
    pipeline = Pipeline(random_prices(), clock=session_clock("60s"), models=("mean", "har"))
    assert check_visibility(run(pipeline, tmp_path / "honest").forecasts).verdict == "PASS"
    monkeypatch.setattr("quantattn.pit.dataset._visible.visible_counts", at_equality)
    check = check_visibility(run(pipeline, tmp_path / "leaking").forecasts)
    assert check.verdict == "FAIL"
    assert check.evidence["faults"] == {"an event available at or after the forecast": check.evidence["rows"]}
    assert check.evidence["least time from the newest event to the forecast (s)"] == 0.0
