"""The streaming check, and the faults of a live path that it finds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.audit import CheckResult, check_streaming
from quantattn.errors import DataError
from quantattn.forecasters import FittedForecaster, NetworkStream
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import AttentionNetwork
from quantattn.walkforward.agreement import Agreement, compare_paths
from quantattn.walkforward.live import stream_test
from quantattn.walkforward.table import forecast_rows

from ..walkforward.market import market
from ..walkforward.test_networks import fitted, tokens_of
from .pipeline import assert_sound

TWINS: tuple[Attention, ...] = ("linear", "softmax")
FOLD = 1


def checked(forecasters: dict[Attention, FittedForecaster] | None = None) -> CheckResult:
    """Stream a fold's test rows with each twin and check them; `forecasters` may run others than stored."""
    fold, history = market().folds[FOLD], market().history
    rows: list[pl.DataFrame] = []
    records: dict[tuple[int, str, int], Any] = {}
    for attention in TWINS:
        stored, _ = fitted(attention)
        live = (forecasters or {}).get(attention, stored)
        made = stream_test(live, fold, history, threads=1)
        rows.append(forecast_rows(history.samples, fold, made, study="s", model=attention, seed=5))
        found = compare_paths(stored, tokens_of().tokens.values(), fold.test, made.y_pred, batch_entities=2)
        records[fold.index, attention, 5] = found.to_dict()
    check = check_streaming(pl.concat(rows), history.samples, records)
    assert_sound(check)
    return check


def test_an_honest_live_path_passes() -> None:
    check = checked()
    assert check.verdict == "PASS"
    assert set(check.coverage.values()) == {1.0}
    # A timing can be written by anybody: the sentence claims no more than it is.
    assert check.summary.startswith(
        "All 24 forecasts of 2 networks name the dataset's information sets and carry the timing of a live "
        "read, which is evidence of the live path and no proof; the batch path gives the same to within"
    )
    assert check.evidence["networks"] == 2
    assert check.evidence["largest difference in standard deviations of the target"] < 1e-5
    shown = check.evidence["by network"]
    assert {(row["model"], row["fold"], row["seed"], row["forecasts"]) for row in shown} == {
        ("linear", 1, 5, 12),
        ("softmax", 1, 5, 12),
    }
    shares = [row["largest"] / row["tolerance"] for row in shown]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] < 1


# --- mutants ----------------------------------------------------------------------------------------------


def forgetful(monkeypatch: pytest.MonkeyPatch, attention: Attention) -> FittedForecaster:
    """Of one entity, one event never reaches the memory, though its clock moves on."""
    honest = NetworkStream.write
    seen = {"BBB": 0}

    def write(self: NetworkStream, entity: str, token: Any, available_at: int) -> None:
        if entity in seen and self.config.attention == attention:
            seen[entity] += 1
            if seen[entity] == 30:
                return
        honest(self, entity, token, available_at)

    monkeypatch.setattr(NetworkStream, "write", write)
    return fitted(attention)[0]


def foreseeing(monkeypatch: pytest.MonkeyPatch, attention: Attention) -> FittedForecaster:
    """A read sees the event behind the last that is visible."""
    honest = NetworkStream.read

    def read(self: NetworkStream, entity: str, token: Any, at: int) -> Any:
        tokens = tokens_of().tokens.get(entity)
        last = self.last_event(entity) if entity in self.entities else None
        if tokens is None or last is None or self.config.attention != attention:
            return honest(self, entity, token, at)
        place = self.count(entity)
        name = f"{entity} {at}"
        self.add(name, like=entity)
        # Dated back, so that the clock does not refuse it.
        self.write(name, tokens.events[place], last)
        return honest(self, name, token, at)

    monkeypatch.setattr(NetworkStream, "read", read)
    return fitted(attention)[0]


def undying(monkeypatch: pytest.MonkeyPatch, attention: Attention) -> FittedForecaster:
    """The stream runs without the decay that the network was trained with."""
    stored, _ = fitted(attention)
    assert any(life is not None for life in stored.network.config.half_lives)
    config = dataclasses.replace(
        stored.network.config, half_lives=tuple(None for _ in stored.network.config.half_lives)
    )
    network = AttentionNetwork(config, stored.network.event_width, stored.network.query_width)
    network.load_state_dict(stored.network.state_dict())
    return dataclasses.replace(stored, network=network.eval())


@pytest.mark.parametrize("attention", TWINS)
@pytest.mark.parametrize("mutant", [forgetful, foreseeing, undying])
def test_mutants_fail(
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch, Attention], FittedForecaster],
    attention: Attention,
) -> None:
    check = checked({attention: mutant(monkeypatch, attention)})
    assert check.verdict == "FAIL"
    assert "differ by more than rounding explains" in check.summary
    assert f"fold 1 {attention} seed 5" in check.summary
    worst, other = check.evidence["by network"]
    # Far from the limit, and the twin that was left alone is within it.
    assert worst["model"] == attention
    assert worst["largest"] > 5 * worst["tolerance"]
    assert other["largest"] <= other["tolerance"]


# --- what a table and its logs may say --------------------------------------------------------------------


@lru_cache
def table() -> pl.DataFrame:
    """Two folds, two seeds of linear, one of softmax, and what does not stream."""
    fold, history = market().folds[FOLD], market().history
    made = stream_test(fitted("linear")[0], fold, history, threads=1)
    rows = [
        forecast_rows(
            history.samples, dataclasses.replace(fold, index=index), made, study="s", model=m, seed=s
        )
        for index in (0, 1)
        for m, s in (("linear", 0), ("linear", 1), ("softmax", 0))
    ]
    still = dataclasses.replace(made, update_us=None, read_us=None)
    for model in ("mean", "linear_ensemble"):
        rows.append(forecast_rows(history.samples, fold, still, study="s", model=model, seed=0))
    return pl.concat(rows)


def agreed(**values: Any) -> dict[str, Any]:
    given = {"forecasts": 12, "largest": 1e-6, "entity": "AAA", "forecast_time": 86_400 * 10**9}
    return Agreement(
        **{**given, "rounding": 1e-6, "checked": 4, "tokens": 100, "size": 1.0, **values}
    ).to_dict()


def records(**values: Any) -> dict[tuple[int, str, int], dict[str, Any] | None]:
    found: dict[tuple[int, str, int], dict[str, Any] | None] = {
        (index, model, seed): agreed()
        for index in (0, 1)
        for model, seed in (("linear", 0), ("linear", 1), ("softmax", 0))
    }
    if values:
        found[1, "softmax", 0] = agreed(**values)
    return found


def checked_table(
    forecasts: pl.DataFrame | None = None, found: dict[tuple[int, str, int], Any] | None = None
) -> CheckResult:
    check = check_streaming(
        table() if forecasts is None else forecasts,
        market().history.samples,
        records() if found is None else found,
    )
    assert_sound(check)
    return check


def test_models_that_do_not_stream_are_left_out() -> None:
    check = checked_table()
    assert check.verdict == "PASS"
    assert check.evidence["networks"] == 6
    assert check.evidence["forecasts"] == 72
    assert "at most 6% of what rounding explains" in check.summary


def test_without_networks_nothing_is_exercised() -> None:
    for forecasts in (table().filter(pl.col("model") == "mean"), table().clear()):
        assert checked_table(forecasts).verdict == "NOT EXERCISED"


def changed(change: pl.Expr, column: str) -> pl.DataFrame:
    """Change one row of one network."""
    row = pl.int_range(pl.len()) == 30
    return table().with_columns(pl.when(row).then(change).otherwise(pl.col(column)).alias(column))


def test_a_forecast_without_a_live_timing_fails() -> None:
    check = checked_table(changed(pl.lit(None), "read_us"))
    assert check.verdict == "FAIL"
    assert "1 forecasts carry no timing of a live read" in check.summary
    assert check.coverage["forecasts with the timing of a live read"] == pytest.approx(71 / 72)


def test_a_forecast_before_which_nothing_happened_has_no_update_and_passes() -> None:
    assert checked_table(changed(pl.lit(None), "update_us")).verdict == "PASS"


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("info_hash", pl.lit("0" * 32)),
        ("n_visible", pl.col("n_visible") - 1),
        ("max_available_at", pl.col("max_available_at") - pl.duration(nanoseconds=1)),
        ("max_available_at", pl.lit(None)),
        ("horizon", pl.lit(99, pl.Int32)),
    ],
)
def test_another_information_set_than_the_dataset_s_fails(column: str, change: pl.Expr) -> None:
    check = checked_table(changed(change, column))
    assert check.verdict == "FAIL"
    assert "1 state another information set than the dataset's" in check.summary
    (where,) = check.evidence["information sets other than the dataset's"]
    row = table()[30]
    assert where.startswith(f"{row['model'][0]} {row['entity'][0]} 2019-")


def test_a_network_that_was_not_compared_fails() -> None:
    absent = records()
    del absent[0, "linear", 1]
    silent = {**records(), (0, "linear", 1): None}
    partly = {**records(), (0, "linear", 1): agreed(forecasts=11)}
    for found in (absent, silent, partly):
        check = checked_table(found=found)
        assert check.verdict == "FAIL"
        assert "1 networks were not compared with the batch path" in check.summary
        assert check.coverage["forecasts compared with the batch path"] == pytest.approx(60 / 72)


def test_paths_that_differ_by_more_than_rounding_explains_fail() -> None:
    tolerance = Agreement.from_dict(agreed()).tolerance
    assert checked_table(found=records(largest=tolerance)).verdict == "PASS"
    check = checked_table(found=records(largest=float(np.nextafter(tolerance, 1)), entity="CCC"))
    assert check.verdict == "FAIL"
    assert "the two paths of 1 networks differ" in check.summary
    assert "fold 1 softmax seed 0, CCC 1970-01-02T00:00:00" in check.summary
    lost = checked_table(found=records(largest=math.inf))
    assert lost.verdict == "FAIL"
    assert lost.evidence["largest difference in standard deviations of the target"] == "not finite"
    assert lost.evidence["by network"][0]["largest"] == "not finite"


def test_a_record_that_cannot_be_read_is_an_error() -> None:
    for broken in ({}, {**agreed(), "largest": "much"}, {**agreed(), "forecasts": None}):
        with pytest.raises(DataError, match="run again with --resume"):
            checked_table(found={**records(), (0, "linear", 0): broken})
