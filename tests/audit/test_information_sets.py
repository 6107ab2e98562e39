from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.audit import check_information_sets, check_visibility
from quantattn.errors import InformationSetError
from quantattn.evaluation import check_information_sets as refuse_different
from tests.audit.pipeline import (
    Pipeline,
    Ran,
    assert_sound,
    events_with_index,
    random_prices,
    run,
    session_clock,
)
from tests.audit.tables import cell, with_time, with_value

OTHER = "0" * 32


def _row_of(table: pl.DataFrame, model: str, place: int) -> int:
    return int(table.with_row_index().filter(pl.col("model") == model)["index"][place])


def test_honest_models_pass_with_the_share_that_was_recomputed(honest: Ran) -> None:
    check = check_information_sets(honest.forecasts, honest.dataset)
    forecasts = honest.forecasts.select("entity", "forecast_time").unique().height
    assert (check.name, check.verdict) == ("information_sets", "PASS")
    assert check.coverage == {
        "forecasts compared": 1.0,
        "information sets recomputed": pytest.approx(24 / forecasts),
    }
    assert check.evidence["models"] == 4
    assert check.evidence["forecasts"] == forecasts
    assert check.evidence["distinct information sets"] == honest.forecasts["info_hash"].n_unique()
    assert_sound(check)


def test_more_can_be_recomputed_than_there_are(honest: Ran) -> None:
    check = check_information_sets(honest.forecasts, honest.dataset, recounted=10**6)
    assert check.verdict == "PASS"
    assert check.coverage["information sets recomputed"] == 1.0


def test_the_hash_of_one_twin_changed_on_one_row_fails_and_is_named(honest: Ran) -> None:
    row = _row_of(honest.forecasts, "softmax", 7)
    table = with_value(honest.forecasts, row, "info_hash", OTHER)
    check = check_information_sets(table, honest.dataset)
    stamp = f"{honest.forecasts['forecast_time'][row]:%Y-%m-%dT%H:%M:%SZ}"
    assert check.verdict == "FAIL"
    assert check.evidence["differing"] == [f"{honest.forecasts['entity'][row]} {stamp}"]
    assert check.evidence["other than the dataset's"] == check.evidence["differing"]
    assert_sound(check)
    with pytest.raises(InformationSetError):
        refuse_different(table)


@pytest.mark.parametrize("column", ["n_visible", "max_available_at"])
def test_what_one_twin_states_besides_the_hash_counts_too(honest: Ran, column: str) -> None:
    row = _row_of(honest.forecasts, "linear", 11)
    if column == "n_visible":
        table = with_value(honest.forecasts, row, column, int(honest.forecasts[column][row]) - 1)
    else:
        table = with_time(honest.forecasts, row, column, cell(honest.forecasts, row, column) - 1)
    assert check_information_sets(table, honest.dataset).verdict == "FAIL"


def test_a_row_on_which_all_models_agree_on_something_else_fails(honest: Ran) -> None:
    key = honest.forecasts.row(_row_of(honest.forecasts, "mean", 5), named=True)
    here = (pl.col("entity") == key["entity"]) & (pl.col("forecast_time") == pl.lit(key["forecast_time"]))
    table = honest.forecasts.with_columns(
        pl.when(here).then(pl.lit(OTHER)).otherwise(pl.col("info_hash")).alias("info_hash")
    )
    # None of the few that are recomputed from the events is that row.
    check = check_information_sets(table, honest.dataset, recounted=2)
    assert check.verdict == "FAIL"
    assert check.evidence["differing"] == check.evidence["recomputed otherwise"] == []
    assert len(check.evidence["other than the dataset's"]) == 1


def test_a_model_that_lacks_a_forecast_fails(honest: Ran) -> None:
    row = _row_of(honest.forecasts, "har", 4)
    table = honest.forecasts.filter(pl.int_range(pl.len()) != row)
    check = check_information_sets(table, honest.dataset)
    assert check.verdict == "FAIL"
    assert len(check.evidence["differing"]) == 1


def test_a_forecast_that_the_dataset_lacks_fails(honest: Ran) -> None:
    first = cell(honest.forecasts, 0, "forecast_time")
    table = honest.forecasts
    for row in np.flatnonzero(table["forecast_time"].to_physical().to_numpy() == first).tolist():
        if table["entity"][row] == "AAA":
            table = with_value(table, row, "entity", "ZZZ")
    check = check_information_sets(table, honest.dataset)
    assert check.verdict == "FAIL"
    assert check.evidence["other than the dataset's"][0].startswith("ZZZ ")


def test_one_model_compares_with_nothing_whatever_its_seeds(honest: Ran) -> None:
    alone = honest.forecasts.filter(pl.col("model") == "linear")
    twice = pl.concat([alone, alone.with_columns(pl.lit(1, pl.Int32).alias("seed"))])
    for table in (alone, twice):
        check = check_information_sets(table, honest.dataset)
        assert check.verdict == "NOT EXERCISED"
        assert_sound(check)
    broken = with_value(alone, 9, "info_hash", OTHER)
    assert check_information_sets(broken, honest.dataset).verdict == "FAIL"


def test_no_forecasts_are_not_exercised(honest: Ran) -> None:
    check = check_information_sets(honest.forecasts.clear(), honest.dataset)
    assert (check.verdict, check.coverage) == ("NOT EXERCISED", {})


@pytest.mark.parametrize("scope", ["entity", "entity+market"])
def test_the_scope_is_recomputed_too(tmp_path: Path, scope: str) -> None:
    pipeline = Pipeline(random_prices(), events=events_with_index, models=("mean", "har"), scope=scope)
    ran = run(pipeline, tmp_path)
    assert ran.history.events["entity"].null_count() > 0
    assert check_information_sets(ran.forecasts, ran.dataset).verdict == "PASS"


def test_a_dataset_that_counts_events_at_equality_fails_against_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_equality(available_at: Any, forecast_times: Any) -> Any:
        return np.searchsorted(available_at, forecast_times, side="right").astype(np.int64)

    monkeypatch.setattr("quantattn.pit.dataset._visible.visible_counts", at_equality)
    ran = run(
        Pipeline(random_prices(), clock=session_clock("60s"), models=("mean", "har")), tmp_path / "leaking"
    )
    check = check_information_sets(ran.forecasts, ran.dataset)
    assert check.verdict == "FAIL"
    assert check.evidence["differing"] == check.evidence["other than the dataset's"] == []
    assert len(check.evidence["recomputed otherwise"]) == 3


def test_a_forecast_a_nanosecond_after_an_event_sees_it(tmp_path: Path) -> None:
    clock = session_clock("60000000001ns")
    ran = run(Pipeline(random_prices(), clock=clock, models=("mean", "har")), tmp_path)
    check = check_information_sets(ran.forecasts, ran.dataset, recounted=50)
    assert check.verdict == "PASS"
    margin = check_visibility(ran.forecasts).evidence["least time from the newest event to the forecast (s)"]
    assert margin == 1e-9
