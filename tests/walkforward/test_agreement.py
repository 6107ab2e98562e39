"""The streaming path beside the batch path: what differs, by how much, and how much of it is rounding."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from functools import lru_cache

import numpy as np
import pytest
import torch

from quantattn.errors import ForecasterError
from quantattn.forecasters import EntityTokens, forecast_batch, merge
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import AttentionNetwork
from quantattn.walkforward import agreement
from quantattn.walkforward.agreement import CHECKED, MOST, ORDER, Agreement, compare_paths
from quantattn.walkforward.live import stream_test

from .market import market
from .test_networks import fitted, tokens_of

TWINS: tuple[Attention, ...] = ("linear", "softmax")
FOLD = 1


@lru_cache
def streamed(attention: Attention) -> np.ndarray:
    return stream_test(fitted(attention)[0], market().folds[FOLD], market().history, threads=1).y_pred


def compared(attention: Attention, forecasts: np.ndarray | None = None, **options: int) -> Agreement:
    fold = market().folds[FOLD]
    return compare_paths(
        fitted(attention)[0],
        tokens_of().tokens.values(),
        fold.test,
        streamed(attention) if forecasts is None else forecasts,
        batch_entities=2,
        **options,
    )


# --- the comparison ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", TWINS)
def test_the_two_paths_agree_and_every_forecast_is_compared(attention: Attention) -> None:
    fold = market().folds[FOLD]
    forecaster, _ = fitted(attention)
    found = compared(attention)
    assert found.within
    batch = forecast_batch(forecaster.network, tokens_of().side(fold.test), 2)
    scale = forecaster.target
    apart = [
        abs((value - scale.center) / scale.scale - batch[int(row)])
        for row, value in zip(fold.test, streamed(attention), strict=True)
    ]
    assert found.forecasts == len(apart) == 12
    assert found.largest == pytest.approx(max(apart), rel=1e-9)
    worst = int(fold.test[int(np.argmax(apart))])
    sample = market().history.samples[worst]
    assert found.entity == sample["entity"][0]
    assert found.forecast_time == sample["forecast_time"].to_physical()[0]
    assert 0 < found.largest < 1e-5


@pytest.mark.parametrize("attention", TWINS)
def test_one_forecast_that_is_off_is_found_and_named(attention: Attention) -> None:
    fold = market().folds[FOLD]
    for place in (0, 5, 11):
        off = streamed(attention).copy()
        off[place] += 0.25 * fitted(attention)[0].target.scale
        found = compared(attention, off)
        sample = market().history.samples[int(fold.test[place])]
        assert found.largest == pytest.approx(0.25, abs=1e-4)
        assert (found.entity, found.forecast_time) == (
            sample["entity"][0],
            sample["forecast_time"].to_physical()[0],
        )
        assert not found.within


def test_what_is_not_a_number_is_infinitely_far() -> None:
    off = streamed("linear").copy()
    off[3] = np.nan
    found = compared("linear", off)
    assert found.largest == math.inf
    assert not found.within
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["largest"] is None
    assert Agreement.from_dict(found.to_dict()) == found


@pytest.mark.parametrize("attention", TWINS)
def test_rounding_is_measured_against_float64_without_the_stream(attention: Attention) -> None:
    forecaster, _ = fitted(attention)
    last = market().history.samples["forecast_time"].to_physical()[int(market().folds[FOLD].test[-1])]
    exact = copy.deepcopy(forecaster.network).double()
    wanted, count, size = 0.0, 0, 1.0
    # There are fewer forecasts than are wanted for it, so all sequences are measured.
    for tokens in tokens_of().tokens.values():
        until = tokens.select(tokens.rows[tokens.query_times <= last])
        batch = merge([until], forecaster.network.config.half_lives)
        with torch.inference_mode():
            high = exact(batch.to(torch.float64))[0].numpy()
            low = forecaster.network(batch)[0].double().numpy()
        wanted, size = max(wanted, np.abs(low - high).max()), max(size, np.abs(high).max())
        count += len(until.rows)
    found = compared(attention)
    assert found.rounding == pytest.approx(wanted, rel=1e-6)
    assert 0 < found.rounding < 1e-5
    assert found.size == size
    assert 12 < found.checked == count < CHECKED
    # Whatever the stream said, it is the same.
    assert compared(attention, streamed(attention) + 7.0).rounding == found.rounding


def test_rounding_is_measured_in_the_longest_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    side = tokens_of().side(market().folds[FOLD].test)
    lengths = {tokens.entity: len(tokens.events) + len(tokens.queries) for tokens in side}
    whole = compared("linear")
    assert whole.tokens == max(lengths.values())
    measured: list[str] = []
    honest = agreement._exact_outputs

    def watched(network: AttentionNetwork, tokens: EntityTokens, segment: int) -> np.ndarray:
        measured.append(tokens.entity)
        return honest(network, tokens, segment)

    monkeypatch.setattr(agreement, "_exact_outputs", watched)
    monkeypatch.setattr(agreement, "CHECKED", whole.checked // 2)
    found = compared("linear")
    assert measured == sorted(lengths, key=lambda entity: -lengths[entity])[:2]
    assert whole.checked // 2 <= found.checked < whole.checked
    assert 0 < found.rounding <= whole.rounding


@pytest.mark.parametrize("attention", TWINS)
def test_segments_say_the_same(attention: Attention, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compared(attention)
    cut = compared(attention, segment_tokens=7)
    monkeypatch.setattr(agreement, "SEGMENT", 11)
    by_default = compared(attention)
    for found in (cut, by_default):
        assert found.within
        assert found.largest == pytest.approx(whole.largest, abs=1e-5)
        assert found.rounding == pytest.approx(whole.rounding, abs=1e-5)
        assert (found.forecasts, found.checked) == (12, whole.checked)
    off = streamed(attention) + 0.1 * fitted(attention)[0].target.scale
    assert not compared(attention, off, segment_tokens=7).within


def test_a_row_without_a_sequence_is_refused() -> None:
    fold = market().folds[FOLD]
    some = [tokens for tokens in tokens_of().tokens.values() if tokens.entity != "BBB"]
    with pytest.raises(ForecasterError, match=r"12 rows were streamed and 8 .*missing \[.*read the history"):
        compare_paths(fitted("linear")[0], some, fold.test, streamed("linear"), batch_entities=2)


# --- the tolerance ----------------------------------------------------------------------------------------


def made(**values: float) -> Agreement:
    given = {"largest": 0.0, "rounding": 1e-6, "tokens": 100, "size": 1.0, **values}
    return Agreement(forecasts=3, entity="A", forecast_time=0, checked=2, **given)  # type: ignore[arg-type]


def test_the_tolerance_is_so_many_times_the_rounding() -> None:
    assert ORDER == 17.0
    assert made().tolerance == pytest.approx(17e-6)
    # No less than that of rounding the largest forecast to float32.
    assert made(rounding=0.0).tolerance == 17 * 2**-24
    assert made(rounding=0.0, size=3.0).tolerance == 17 * 3 * 2**-24
    assert made(rounding=1e-7, size=3.0).tolerance == 17 * 3 * 2**-24
    assert made(rounding=2e-7, size=3.0).tolerance == pytest.approx(17 * 2e-7)
    # No more than a thousandth, whatever is measured.
    assert made(rounding=1.0).tolerance == MOST == 1e-3
    assert made(rounding=math.inf).tolerance == MOST


def test_exactly_the_tolerance_is_within() -> None:
    assert made(largest=made().tolerance).within
    assert not made(largest=float(np.nextafter(made().tolerance, 1))).within
    assert not made(largest=math.nan).within
    assert not made(largest=math.inf, rounding=math.inf).within


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Agreement)])
def test_a_record_without_a_field_is_refused(field: str) -> None:
    values = made().to_dict()
    assert Agreement.from_dict(values) == made()
    del values[field]
    with pytest.raises(KeyError):
        Agreement.from_dict(values)
