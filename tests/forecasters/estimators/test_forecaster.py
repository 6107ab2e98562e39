"""The estimators on a small market: what `fit` reads, what `predict` gives, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from quantattn.errors import DataError, ForecasterError, LeakageError, SplitError, TimestampError, UsageError
from quantattn.files import hash_bytes
from quantattn.forecasters import read_history
from quantattn.forecasters.estimators import (
    LinearAttentionForecaster,
    SoftmaxAttentionForecaster,
)
from quantattn.forecasters.estimators.sides import fold_of
from quantattn.forecasters.targets import Targets
from quantattn.pit import PointInTimeDataset, realised_variance
from quantattn.walkforward import CombinatorialPurged
from quantattn.walkforward.live import stream_test
from quantattn.walkforward.networks import FoldTokens, fit_network

from ...pit.build import price_history, random_closes
from ...walkforward.market import TEXT_WIDTH, market, settings_of
from .markets import follows_the_last_event, labels_of
from .markets import market as known_market

BOTH = [LinearAttentionForecaster, SoftmaxAttentionForecaster]
HEADS = ["point", "gaussian", "quantile", "direction"]
SMALL: dict[str, Any] = {
    "hidden": 8,
    "heads": 2,
    "feed_forward": 8,
    "half_lives": (7.0, None),
    "text_width": TEXT_WIDTH,
    "epochs": 2,
    "batch_entities": 2,
    "learning_rate": 0.01,
}


def small(twin: type[Any] = LinearAttentionForecaster, **options: Any) -> Any:
    return twin(**{**SMALL, **options})


def digest(forecaster: Any) -> str:
    weights = forecaster.forecaster_.network.state_dict().values()
    return hash_bytes(b"".join(weight.numpy().tobytes() for weight in weights))


@pytest.mark.parametrize("twin", BOTH)
def test_it_is_the_network_of_the_study(twin: type[Any]) -> None:
    """The point head with defaults is bit for bit what a walk-forward trains and streams."""
    from quantattn.forecasters import encode, fit_encoders

    given, settings = market(), settings_of()
    fold = given.folds[1]
    encoders = fit_encoders(given.history, fold.validation_time + 1, text_width=TEXT_WIDTH)
    inputs = FoldTokens(encode(given.history, encoders), encoders)
    name = "linear" if twin is LinearAttentionForecaster else "softmax"
    target = given.dataset.samples["y_true"].to_numpy()
    expected, log = fit_network(
        fold, inputs, target, network=settings.networks[name], training=settings.training, seed=3
    )
    own = small(twin, seed=3).fit(given.dataset, fold)
    assert own.training_log_.epochs == log.epochs
    for key, weight in expected.network.state_dict().items():
        assert torch.equal(weight, own.forecaster_.network.state_dict()[key])
    assert own.forecaster_.interval == expected.interval
    frame = own.predict(given.dataset, fold)
    assert np.array_equal(frame["y_pred"], stream_test(expected, fold, given.history, threads=1).y_pred)


def test_a_fold_or_its_parts() -> None:
    given = market()
    fold = given.folds[0]
    assert fold_of(fold) is fold
    one = small().fit(given.dataset, fold)
    two = small().fit(given.history, fold.train, validation=fold.validation, fit_time=fold.fit_time)
    assert digest(one) == digest(two)
    assert (one.fit_time_, one.cutoff_) == (fold.fit_time, fold.validation_time)
    assert (one.n_rows_, one.n_masked_) == (len(fold.train), 0)
    moment = np.datetime64(fold.fit_time, "ns")
    three = small().fit(given.history, fold.train, validation=fold.validation, fit_time=moment)
    assert (three.fit_time_, digest(three)) == (fold.fit_time, digest(one))
    with pytest.raises(UsageError, match="a fold brings its validation"):
        small().fit(given.dataset, fold, validation=fold.validation)


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize("head", HEADS)
def test_the_two_paths_agree_and_the_frame_is_in_order(twin: type[Any], head: str) -> None:
    given = market()
    fold = given.folds[0]
    forecaster = small(twin, head=head).fit(given.dataset, fold)
    rows = np.random.default_rng(0).permutation(fold.test)
    frame = forecaster.predict(given.dataset, rows)
    batch = forecaster.predict(given.history, rows, path="batch")
    assert frame.columns == batch.columns
    assert frame.columns[:7] == ["row", "entity", "forecast_time", "target", "y_pred", "y_lower", "y_upper"]
    assert frame["row"].to_list() == rows.tolist()
    keys = given.dataset.samples[rows].select("entity", "forecast_time")
    assert frame.select("entity", "forecast_time").equals(keys)
    numbers = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    for name in numbers:
        assert frame[name].to_numpy() == pytest.approx(batch[name].to_numpy(), abs=1e-5), name
    assert (frame["y_lower"] <= frame["y_upper"]).all()
    extra = {
        "point": [],
        "gaussian": ["y_std"],
        "quantile": ["q_0.05", "q_0.5", "q_0.95"],
        "direction": ["probability_up"],
    }
    assert frame.columns[7:] == [*extra[head], "fit_time"]


def test_by_default_what_is_later_than_the_fit_is_forecast() -> None:
    given = market()
    fold = given.folds[0]
    frame = small().fit(given.dataset, fold).predict(given.dataset)
    later = given.dataset.samples["forecast_time"].to_physical().to_numpy() > fold.fit_time
    assert frame["row"].to_list() == np.flatnonzero(later).tolist()
    assert (frame["forecast_time"] > frame["fit_time"]).all()


def test_the_live_stream_is_what_was_predicted() -> None:
    from quantattn.forecasters import encode
    from quantattn.forecasters.streaming import catch_up, replay

    given = market()
    forecaster = small(head="quantile").fit(given.dataset, given.folds[0])
    frame = forecaster.predict(given.dataset, given.folds[0])
    tokens = encode(given.history, forecaster.forecaster_.encoders)["BBB"].select(given.folds[0].test)
    stream = forecaster.forecaster_.network_stream()
    live = replay(stream, tokens, catch_up(stream, tokens))
    said = forecaster.forecaster_.reads.forecasts(live.forecasts)["y_true"]
    own = frame.filter(pl.col("entity") == "BBB").sort("row")
    assert np.array_equal(own["q_0.95"].to_numpy(), said.extra["q_0.95"][np.argsort(live.rows)])


@pytest.mark.parametrize("twin", BOTH)
def test_raw_events_live_are_what_was_predicted(twin: type[Any]) -> None:
    given = market()
    forecaster = small(twin, head="gaussian").fit(given.dataset, given.folds[0])
    predicted = forecaster.predict(given.dataset, given.folds[0]).sort("forecast_time", "entity")
    clock = predicted.select("entity", "forecast_time")
    live = forecaster.stream(late="queue").replay(given.dataset.events, clock).sort("forecast_time", "entity")
    names = ["entity", "forecast_time", "y_pred", "y_lower", "y_upper", "y_std"]
    assert live.select(names).equals(predicted.select(names))


@pytest.mark.parametrize("twin", BOTH)
def test_segments_forecast_what_the_whole_does(twin: type[Any]) -> None:
    given = market()
    forecaster = small(twin, head="gaussian").fit(given.dataset, given.folds[0])
    whole = forecaster.predict(given.dataset, given.folds[0], path="batch")
    cut = forecaster.set_params(segment_tokens=9).predict(given.dataset, given.folds[0], path="batch")
    for name in ("y_pred", "y_std"):
        assert cut[name].to_numpy() == pytest.approx(whole[name].to_numpy(), abs=1e-5)


# --- nothing from later -----------------------------------------------------------------------------------


def test_later_targets_are_never_read() -> None:
    given = market()
    fold = given.folds[0]
    samples = given.history.samples
    known = samples["label_available_at"].to_physical().to_numpy() <= fold.fit_time
    poisoned = samples.with_columns(pl.Series("y_true", np.where(known, samples["y_true"].to_numpy(), 1e6)))
    for head in HEADS:
        clean = small(head=head).fit(given.history, fold)
        other = small(head=head).fit(replace(given.history, samples=poisoned), fold)
        assert digest(clean) == digest(other), head
    moved = samples.with_columns(
        pl.Series("y_true", samples["y_true"].to_numpy() + known * np.arange(len(known)))
    )
    assert digest(small().fit(replace(given.history, samples=moved), fold)) != digest(
        small().fit(given.history, fold)
    )


def test_later_events_change_nothing_that_is_learned() -> None:
    given = market()
    fold = given.folds[0]
    cut = given.dataset.cut(fold.fit_time + 1)
    assert len(cut.events) < len(given.dataset.events)
    rows = cut.samples.select("entity", "forecast_time")
    assert rows.equals(given.dataset.samples[: cut.samples.height].select("entity", "forecast_time"))
    one = small(weights="volatility").fit(given.dataset, fold)
    two = small(weights="volatility").fit(cut, fold.train, validation=fold.validation, fit_time=fold.fit_time)
    assert digest(one) == digest(two)


def test_rows_whose_target_is_not_known_in_time_are_refused() -> None:
    given = market()
    fold = given.folds[0]
    purged = fold.purged.filter(pl.col("reason") == "label")["row"].to_numpy()
    assert len(purged)
    with pytest.raises(LeakageError, match="purge them, as WalkForward does"):
        small().fit(
            given.dataset, np.union1d(fold.train, purged), validation=fold.validation, fit_time=fold.fit_time
        )


# --- several targets --------------------------------------------------------------------------------------


def horizons() -> Targets:
    given = market()
    closes = {name: random_closes(number, 160) for number, name in enumerate(("AAA", "BBB", "CCC"))}
    prices = price_history(closes, start="2019-01-02")
    labels = {f"{h} days": realised_variance(prices, given.dataset.clock, horizon=h) for h in (5, 15)}
    return Targets.join(given.dataset.samples, labels)


@pytest.mark.parametrize("head", HEADS[:3])
def test_two_horizons_in_one_network(head: str) -> None:
    given, targets = market(), horizons()
    fold = given.folds[0]
    forecaster = small(head=head).fit(given.dataset, fold, targets=targets)
    assert forecaster.target_names_ == ("5 days", "15 days")
    # The longer horizon of the last training weeks is known only after the cutoff.
    late = (targets.available_at[fold.train] > fold.validation_time).sum(axis=0)
    assert late[0] == 0 < late[1] < len(fold.train)
    held = (targets.available_at[fold.validation] > fold.fit_time).sum()
    assert forecaster.n_masked_ == late.sum() + held
    frame = forecaster.predict(given.dataset, fold)
    assert frame.height == 2 * len(fold.test)
    assert frame["target"].to_list() == ["5 days", "15 days"] * len(fold.test)
    assert frame["row"].to_list() == np.repeat(fold.test, 2).tolist()
    spread = frame.group_by("target").agg(pl.col("y_pred").mean())
    assert spread["y_pred"].n_unique() == 2


def test_a_late_target_of_a_horizon_is_never_read() -> None:
    given, targets = market(), horizons()
    fold = given.folds[0]
    poisoned = targets.values.copy()
    poisoned[targets.available_at > fold.fit_time] = 1e6
    late = targets.available_at > fold.validation_time
    poisoned[fold.train] = np.where(late[fold.train], 1e6, poisoned[fold.train])
    one, two = (
        small().fit(given.dataset, fold, targets=replace(targets, values=values))
        for values in (targets.values, poisoned)
    )
    assert digest(one) == digest(two)
    assert (poisoned == 1e6).sum() > 10


def test_a_target_that_nobody_knows_yet_is_refused() -> None:
    given, targets = market(), horizons()
    never = replace(
        targets, available_at=np.stack([targets.available_at[:, 0], np.full(len(targets.values), 2**62)], 1)
    )
    with pytest.raises(ForecasterError, match="target '15 days' has no value that is known"):
        small().fit(given.dataset, given.folds[0], targets=never)


# --- losses and weights -----------------------------------------------------------------------------------


def test_qlike_of_a_logarithm_and_of_the_variance_itself() -> None:
    """The dataset's labels are logarithms; the same numbers as variances give the same network, undone."""
    given = market()
    fold = given.folds[0]
    logs = small(loss="qlike").fit(given.dataset, fold)
    own = Targets.of_samples(given.dataset.samples, log=True)
    levels = replace(own, values=np.exp(own.values), logs=(False,))
    variance = small(loss="qlike").fit(given.dataset, fold, targets=levels)
    assert digest(logs) == digest(variance) != digest(small().fit(given.dataset, fold))
    one, two = (x.predict(given.dataset, fold) for x in (logs, variance))
    for name in ("y_pred", "y_lower", "y_upper"):
        assert two[name].to_numpy() == pytest.approx(np.exp(one[name].to_numpy()))


@pytest.mark.parametrize("log", [False, np.False_])
def test_qlike_of_a_variance_forecasts_a_variance(log: Any) -> None:
    known = known_market(follows_the_last_event(0.1), events=60)
    own = Targets.of_samples(known.dataset.samples)
    variances = known.dataset.samples.select("entity", "forecast_time").with_columns(
        seconds=pl.col("forecast_time").dt.epoch("s"), y=np.exp(own.values[:, 0] - 9)
    )
    origin = int(variances["seconds"].min()) - 3601  # type: ignore[arg-type]
    rows = [(r["entity"], r["seconds"] - origin, r["y"]) for r in variances.iter_rows(named=True)]
    labels = labels_of(rows)
    dataset = PointInTimeDataset(known.dataset.events, known.dataset.clock, labels)
    forecaster = small(loss="qlike", text_width=0, log_target=log).fit(dataset, known.train)
    assert (forecaster.predict(dataset, known.test)["y_pred"].to_numpy() > 0).all()


def test_only_the_rows_of_the_fit_need_finite_targets() -> None:
    given, targets = market(), horizons()
    fold = given.folds[0]
    values = targets.values.copy()
    values[fold.test] = np.inf
    one, two = (
        small().fit(given.dataset, fold, targets=each) for each in (targets, replace(targets, values=values))
    )
    assert digest(one) == digest(two)
    for side in (fold.train, fold.validation):
        values = targets.values.copy()
        values[side[0]] = np.inf
        with pytest.raises(DataError, match=rf"infinite in sample rows \[{side[0]}\]"):
            small().fit(given.dataset, fold, targets=replace(targets, values=values))


def test_forecasts_read_text_of_the_width_fitted() -> None:
    given = market()
    forecaster = small().fit(given.dataset, given.folds[0])
    before = forecaster.predict(given.dataset, given.folds[0])
    forecaster.set_params(text_width=0)
    assert forecaster.predict(given.dataset, given.folds[0]).equals(before)
    for option in ({"batch_entities": 0}, {"batch_entities": "x"}, {"segment_tokens": 0}):
        changed = small().fit(given.dataset, given.folds[0]).set_params(**option)
        with pytest.raises(UsageError, match=next(iter(option))):
            changed.predict(given.dataset, given.folds[0], path="batch")


def test_a_fold_of_a_cross_validation_has_no_fit() -> None:
    given = market()
    fold = CombinatorialPurged(4, 2).split(given.dataset.samples)[0]
    with pytest.raises(SplitError, match=r"fit_time|validation"):
        small().fit(given.dataset, fold)
    forecaster = small().fit(given.dataset, given.folds[0])
    by_hand = forecaster.predict(given.dataset, fold.test)
    assert forecaster.predict(given.dataset, fold).equals(by_hand)


def test_qlike_needs_to_know_what_the_target_is() -> None:
    known = known_market(follows_the_last_event(1.0), events=60)
    with pytest.raises(UsageError, match="set log_target"):
        small(loss="qlike", text_width=0).fit(known.dataset, known.train)
    with pytest.raises(ForecasterError, match=r"'y_true' is not positive in sample rows"):
        small(loss="qlike", text_width=0, log_target=False).fit(known.dataset, known.train)
    small(loss="qlike", text_width=0, log_target=True).fit(known.dataset, known.train)


def test_every_weighting_and_loss_is_another_network() -> None:
    given = market()
    options: list[dict[str, Any]] = [
        {},
        {"loss": "absolute"},
        {"loss": "huber"},
        {"loss": "huber", "delta": 0.1},
        {"loss": "qlike"},
        {"weights": "volatility"},
        {"weights": "volatility", "volatility_window": 3},
        {"head": "gaussian"},
        {"head": "gaussian", "weights": "volatility"},
        {"schedule": "constant"},
        {"schedule": "cosine"},
        {"segment_tokens": 16},
        {"seed": 1},
    ]
    fitted = [small(**given_options).fit(given.dataset, given.folds[0]) for given_options in options]
    # Schedules may share their first steps, and with them the best epoch.
    assert len({(digest(one), one.training_log_.epochs) for one in fitted}) == len(options)


def test_a_return_of_zero_has_no_direction() -> None:
    rows = [("A", 3600 * k + 1, [1.0, -1.0, 0.0][k % 3]) for k in range(60)]
    known = known_market(follows_the_last_event(1.0), entities=1, events=60, every=1, first=1)
    labels = labels_of([("E0", second, value) for _, second, value in rows])
    dataset = PointInTimeDataset(known.dataset.events, known.dataset.clock, labels)
    forecaster = small(head="direction", text_width=0).fit(dataset, np.arange(60))
    both = dataset.samples["y_true"].to_numpy() != 0
    only = small(head="direction", text_width=0, batch_entities=1).fit(dataset, np.flatnonzero(both))
    assert forecaster.training_log_.epochs[0].training_loss == pytest.approx(np.log(2), abs=1e-6)
    assert only.training_log_.epochs[0].training_loss == pytest.approx(np.log(2), abs=1e-6)
    flat = PointInTimeDataset(
        known.dataset.events, known.dataset.clock, labels_of([("E0", r[1], 0.0) for r in rows])
    )
    with pytest.raises(ForecasterError, match="no value that is known"):
        small(head="direction", text_width=0).fit(flat, np.arange(60))


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"head": "mean"}, "head='mean'"),
        ({"head": ["point"]}, "head="),
        ({"head": "quantile", "levels": (0.9, 0.1)}, "levels=.*must rise"),
        ({"head": "quantile", "levels": ()}, "levels=.*must rise"),
        ({"loss": "mse"}, "loss='mse'"),
        ({"loss": "pinball"}, "loss='pinball' does not fit head='point'"),
        ({"head": "gaussian", "loss": "squared"}, "does not fit head='gaussian'"),
        ({"loss": "huber", "delta": 0.0}, "delta=0"),
        ({"weights": "balanced"}, "weights='balanced' does not fit head='point'"),
        ({"weights": "equal"}, "weights='equal' is not known"),
        ({"head": "direction", "weights": "volatility"}, "does not fit head='direction'"),
        ({"volatility_window": 1}, "volatility_window=1"),
        ({"hidden": 9}, "hidden=9"),
        ({"half_lives": (7.0,)}, "half_lives"),
        ({"schedule": "linear"}, "schedule='linear'"),
        ({"warm_up": 1.0}, "warm_up=1"),
        ({"batching": "sorted"}, "batching='sorted'"),
        ({"segment_tokens": 0}, "segment_tokens=0"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"mixed_precision": True}, "mixed_precision=True on device='cpu'"),
        ({"epochs": 0}, "epochs=0"),
        ({"interval": 1.0}, "interval=1"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 2**31}, "seed=2147483648"),
        ({"seed": None}, "seed=None is not a whole number"),
        ({"epochs": 2.5}, r"epochs=2\.5 is not a whole number"),
        ({"epochs": "3"}, "epochs='3' is not a whole number"),
        ({"patience": True}, "patience=True is not a whole number"),
        ({"hidden": "8"}, "hidden='8'"),
        ({"segment_tokens": 2.5}, "segment_tokens"),
        ({"learning_rate": "a"}, "learning_rate='a' is not a number"),
        ({"interval": None}, "interval=None is not a number"),
        ({"half_lives": 7.0}, "half_lives=7.0 is not a tuple"),
        ({"half_lives": (7.0, "x")}, r"half_lives\[1\]='x' is not a number"),
        ({"head": "quantile", "levels": "abc"}, "levels='abc' is not a tuple"),
        ({"head": "quantile", "levels": (0.1, None)}, r"levels\[1\]=None"),
        ({"mixed_precision": "yes"}, "mixed_precision='yes' is neither"),
        ({"device": 3}, "device='3'"),
        ({"log_target": 0}, "log_target=0 is neither"),
        ({"log_target": "no"}, "log_target='no' is neither"),
        ({"gradient_clip": float("inf")}, "gradient_clip=inf is not a finite"),
        ({"learning_rate": float("inf")}, "learning_rate=inf is not a finite"),
        ({"weight_decay": np.float64("nan")}, "weight_decay=.*nan.* is not a finite"),
        ({"gradient_clip": 10**400}, "gradient_clip=10+ is not a finite"),
        ({"half_lives": (float("inf"), 1.0)}, r"half_lives\[0\]=inf is not a finite"),
        ({"levels": (0.1, float("nan"))}, r"levels\[1\]=nan cannot be stored"),
        ({"levels": {0.1}}, "levels={0.1} cannot be stored"),
    ],
)
def test_impossible_arguments_are_refused_in_fit(options: dict[str, Any], said: str) -> None:
    given = market()
    forecaster = small(**options)
    with pytest.raises(UsageError, match=said):
        forecaster.fit(given.dataset, given.folds[0])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there() -> None:
    given = market()
    with pytest.raises(UsageError, match="finds no CUDA device"):
        small(device="cuda", mixed_precision=True).fit(given.dataset, given.folds[0])


def test_what_is_not_data() -> None:
    given = market()
    with pytest.raises(UsageError, match="data is a DataFrame"):
        small().fit(given.dataset.samples, given.folds[0], targets=horizons())
    with pytest.raises(UsageError, match="data is a DataFrame"):
        small().fit(given.dataset.samples, given.folds[0])
    with pytest.raises(UsageError, match=r"targets is a DataFrame; give Targets"):
        small().fit(given.dataset, given.folds[0], targets=given.dataset.samples)
    with pytest.raises(TimestampError, match="is not an instant"):
        small().fit(given.dataset, given.folds[0].train, fit_time="soon")
    huge = replace(horizons(), values=horizons().values * 1e300)
    with pytest.raises(ForecasterError, match="'5 days' is too large to have a spread"):
        small().fit(given.dataset, given.folds[0], targets=huge)
    with pytest.raises(UsageError, match=r"text of width \[4\] and text_width=8"):
        small(text_width=8).fit(given.history, given.folds[0])
    fitted = small().fit(given.dataset, given.folds[0])
    with pytest.raises(UsageError, match="path='live'"):
        fitted.predict(given.dataset, path="live")
    with pytest.raises(ForecasterError, match="rows holds rows"):
        fitted.predict(given.dataset, [10**6])
    part = read_history(given.dataset, TEXT_WIDTH, ("AAA",))
    with pytest.raises(ForecasterError, match="have no token sequence"):
        fitted.predict(part, given.folds[0])
    with pytest.raises(ForecasterError, match="training rows have no token sequence"):
        small().fit(part, given.folds[0])


def test_unfitted_and_a_fit_that_fails() -> None:
    given = market()
    forecaster = small()
    for call in (lambda: forecaster.predict(given.dataset), forecaster.stream, lambda: forecaster.save("x")):
        with pytest.raises(ForecasterError, match="LinearAttentionForecaster is not fitted; call fit"):
            call()
    forecaster.fit(given.dataset, given.folds[0])
    with pytest.raises(UsageError):
        forecaster.set_params(epochs=0).fit(given.dataset, given.folds[0])
    with pytest.raises(ForecasterError, match="is not fitted"):
        forecaster.predict(given.dataset)


def test_no_forecast_asked_for() -> None:
    given = market()
    forecaster = small(head="gaussian").fit(given.dataset, given.folds[0])
    for path in ("stream", "batch"):
        frame = forecaster.predict(given.dataset, [], path=path)
        assert frame.height == 0
        assert "y_std" in frame.columns


@pytest.mark.slow
def test_another_process_gives_equal_bits() -> None:
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from tests.forecasters.estimators.test_forecaster import BOTH, HEADS, digest, market, small\n"
        "for twin in BOTH:\n"
        "    for head in HEADS:\n"
        "        print(digest(small(twin, head=head).fit(market().dataset, market().folds[0])))\n"
    )
    root = Path(__file__).parents[3]
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, timeout=300
        ).stdout.split()
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == len(runs[0]) == 8
