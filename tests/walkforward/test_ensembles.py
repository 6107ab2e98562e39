"""Ensembles over seeds against values written by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from quantattn.evaluation import check_information_sets, validate_forecasts
from quantattn.pit.timestamps import instants
from quantattn.walkforward import FORECAST_SCHEMA
from quantattn.walkforward.engines import run_folds
from quantattn.walkforward.ensembles import ensemble_rows

from .market import Watched, market, settings_of

DAY = 86_400_000_000_000


def rows(model: str, seed: int, values: list[float], *, lower: float | None = -1.0) -> pl.DataFrame:
    times = [DAY * (number + 1) for number in range(len(values))]
    return pl.DataFrame(
        {
            "study": "s",
            "model": model,
            "seed": seed,
            "fold": 0,
            "entity": "A",
            "forecast_time": instants(times),
            "horizon": 1,
            "y_pred": values,
            "y_lower": [None if lower is None else value + lower for value in values],
            "y_upper": [None if lower is None else value - lower for value in values],
            "y_true": 0.5,
            "label_start_time": instants([time + 1 for time in times]),
            "label_end_time": instants([time + 2 for time in times]),
            "label_available_at": instants([time + 3 for time in times]),
            "fit_time": instants([DAY // 2] * len(values)),
            "n_visible": 3,
            "max_available_at": instants([1] * len(values)),
            "info_hash": [f"hash {time}" for time in times],
            "update_us": None if model == "gru" else 10.0,
            "read_us": None if model == "gru" else 1.0 + seed,
        },
    ).select(pl.col(name).cast(dtype) for name, dtype in FORECAST_SCHEMA.items())


def test_forecasts_and_bounds_are_means_and_latencies_sums() -> None:
    table = pl.concat(
        [
            rows("linear", 7, [1.0, 2.0]),
            rows("linear", 2, [3.0, 6.0], lower=-3.0),
            rows("mean", 7, [9.0, 9.0]),
        ]
    )
    (found,) = ensemble_rows(table)
    assert list(found.schema.items()) == list(FORECAST_SCHEMA.items())
    assert found["model"].to_list() == ["linear-ensemble"] * 2
    assert found["seed"].to_list() == [2, 2]
    assert found["y_pred"].to_list() == [2.0, 4.0]
    assert found["y_lower"].to_list() == [0.0, 2.0]  # means of 0 and 0, of 1 and 3
    assert found["y_upper"].to_list() == [4.0, 6.0]
    assert found["update_us"].to_list() == [20.0, 20.0]
    assert found["read_us"].to_list() == [1.0 + 7 + 1.0 + 2] * 2
    assert found["info_hash"].to_list() == [f"hash {DAY}", f"hash {2 * DAY}"]
    check_information_sets(validate_forecasts(pl.concat([table, found])))


def test_what_one_member_lacks_the_ensemble_lacks() -> None:
    table = pl.concat([rows("gru", 0, [1.0]), rows("gru", 1, [2.0], lower=None)])
    (found,) = ensemble_rows(table)
    assert found["y_pred"].to_list() == [1.5]
    for name in ("y_lower", "y_upper", "update_us", "read_us"):
        assert found[name].to_list() == [None]


def test_one_seed_is_no_ensemble() -> None:
    assert ensemble_rows(pl.concat([rows("linear", 0, [1.0]), rows("mean", 0, [2.0])])) == []


def test_order_of_rows_does_not_matter() -> None:
    table = pl.concat([rows("linear", seed, [0.1 * seed, 1 / 3]) for seed in range(5)])
    (one,), (other,) = ensemble_rows(table), ensemble_rows(table.reverse())
    key = ["forecast_time"]
    assert one.sort(key).equals(other.sort(key))


@pytest.mark.parametrize("seeds", [(0, 1), (4,)])
def test_in_a_study(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    world = market()
    settings = settings_of(models=("linear", "mean"), seeds=seeds, ensemble=True)
    forecasts = run_folds(
        world.history, world.table, world.folds[:1], settings, run=tmp_path, source="s", watcher=Watched()
    ).forecasts
    expected = {"linear", "mean"} | ({"linear-ensemble"} if len(seeds) > 1 else set())
    assert set(forecasts["model"]) == expected
    if len(seeds) > 1:
        members = forecasts.filter(pl.col("model") == "linear")
        mean = members.group_by("entity", "forecast_time").agg(pl.col("y_pred").mean())
        both = forecasts.filter(pl.col("model") == "linear-ensemble").join(
            mean, on=["entity", "forecast_time"]
        )
        assert both["y_pred"].to_list() == pytest.approx(both["y_pred_right"].to_list(), rel=1e-15)
        assert both.height == len(world.folds[0].test)
    check_information_sets(validate_forecasts(forecasts))
