from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from quantattn.audit import CheckResult, check_encoder_cutoffs, check_truncation, check_visibility
from quantattn.audit.truncation import chosen_instants, early_instants
from quantattn.encoders import NumericScaler
from quantattn.forecasters import FittedEncoders, History, TargetScale, fit_encoders
from quantattn.forecasters.baselines import MeanBaseline, SampleTable, registry
from quantattn.pit import EventLog, ForecastClock, Labels, PointInTimeDataset, PriceHistory
from quantattn.pit.dataset.as_of import as_of_table
from quantattn.pit.timestamps import nanoseconds_of
from quantattn.walkforward import Fold
from quantattn.walkforward.networks import fit_network
from tests.audit.pipeline import (
    Pipeline,
    Ran,
    assert_sound,
    events_with_index,
    log_variance,
    random_prices,
    run,
    session_clock,
    small_market_events,
)
from tests.audit.tables import cell, with_value

BASELINES = ("mean", "har")


@pytest.fixture(scope="module")
def prices() -> PriceHistory:
    return random_prices()


def _failed(check: CheckResult, *parts: str) -> str:
    """Hold a check against having failed and giving every one of these reasons."""
    assert check.verdict == "FAIL", check.summary
    assert_sound(check)
    faults = " | ".join(check.evidence["faults"])
    for part in parts:
        assert part in faults, faults
    return faults


def _everything(inputs: Any, **options: Any) -> CheckResult:
    return check_truncation(inputs, instants_per_fold=3, **options)


class TestInstants:
    def test_they_are_spread_over_the_span_with_both_its_ends(self) -> None:
        times = np.repeat(np.arange(10, 110, 10), 3)
        assert chosen_instants(times, 1) == [10]
        assert chosen_instants(times, 2) == [10, 100]
        assert chosen_instants(times, 4) == [10, 40, 70, 100]
        assert chosen_instants(times, 99) == list(range(10, 110, 10))

    def test_the_early_ones_grow_sparse_and_stay_before_the_first_test(self) -> None:
        times = np.repeat(np.arange(100), 2)
        assert early_instants(times, before=70) == [1, 4, 16, 64]
        assert early_instants(times, before=64) == [1, 4, 16]
        assert early_instants(times, before=1) == []


@pytest.fixture(scope="module")
def check(honest: Ran) -> CheckResult:
    return check_truncation(honest.inputs())


class TestHonest:
    def test_everything_is_the_same_bit_for_bit(self, check: CheckResult) -> None:
        assert (check.name, check.verdict) == ("truncation", "PASS")
        assert check.evidence["faults"] == []
        assert_sound(check)

    def test_the_coverage_says_what_was_made_anew(self, honest: Ran, check: CheckResult) -> None:
        networks = len(honest.forecasters)
        assert check.coverage == {
            "folds": 1.0,
            "models": 1.0,
            "entities forecast anew": 1.0,
            "networks trained anew": pytest.approx(1 / networks),
        }

    def test_the_evidence_counts_what_was_compared(self, honest: Ran, check: CheckResult) -> None:
        evidence = check.evidence
        cuts = [
            chosen_instants(nanoseconds_of(honest.dataset.samples["forecast_time"])[fold.test], 5)
            for fold in honest.folds
        ]
        # Forecasts number 1, 4, 16 and 64 lie before the first test span, which begins with number 70.
        assert evidence["instants"] == sum(len(one) for one in cuts) + 4
        assert evidence["encoders fitted anew"] == 2 * sum(len(one) for one in cuts)
        made = honest.forecasts.filter(pl.col("model") == "mean")
        middles = [one[len(one) // 2] for one in cuts]
        expected = sum(
            int((nanoseconds_of(made.filter(pl.col("fold") == fold)["forecast_time"]) <= middle).sum())
            for fold, middle in enumerate(middles)
        )
        assert evidence["baseline forecasts made anew"] == len(BASELINES) * expected
        available = nanoseconds_of(honest.history.events["available_at"])
        deleted = sum(int((available >= moment).sum()) for one in cuts for moment in one)
        assert evidence["events deleted by the cuts at test forecasts"] == deleted
        assert evidence["networks trained anew"] == 1
        assert evidence["test forecasts in the study"] == made.height

    def test_forecasts_a_nanosecond_after_the_bars_pass_too(
        self, prices: PriceHistory, tmp_path: Path
    ) -> None:
        pipeline = Pipeline(prices, clock=session_clock("60000000001ns"), models=BASELINES)
        assert _everything(run(pipeline, tmp_path).inputs()).verdict == "PASS"

    @pytest.mark.parametrize("scope", ["entity", "entity+market"])
    def test_other_scopes_pass(self, prices: PriceHistory, tmp_path: Path, scope: str) -> None:
        pipeline = Pipeline(prices, events=events_with_index, models=BASELINES, scope=scope)
        assert _everything(run(pipeline, tmp_path).inputs()).verdict == "PASS"

    def test_several_seeds_pass(self, prices: PriceHistory, tmp_path: Path) -> None:
        ran = run(Pipeline(prices, models=("linear",), seeds=(3, 1)), tmp_path)
        check = _everything(ran.inputs())
        assert check.verdict == "PASS", check.summary
        assert check.coverage["networks trained anew"] == pytest.approx(1 / len(ran.forecasters))

    @pytest.mark.parametrize("threads", [1, 2])
    def test_networks_are_trained_anew_on_as_many_threads_as_before(
        self, honest: Ran, monkeypatch: pytest.MonkeyPatch, threads: int
    ) -> None:
        seen: list[int] = []

        def spy(*inputs: Any, **options: Any) -> Any:
            seen.append(torch.get_num_threads())
            return fit_network(*inputs, **options)

        monkeypatch.setattr("quantattn.audit._truncation_models.fit_network", spy)
        before = torch.get_num_threads()
        check_truncation(honest.inputs(threads=threads), instants_per_fold=1)
        assert (seen, torch.get_num_threads()) == ([threads], before)


class TestNotExercised:
    def test_without_folds_there_is_nothing_to_cut_at(self, honest: Ran) -> None:
        check = check_truncation(honest.inputs(folds=[]))
        assert (check.verdict, check.coverage) == ("NOT EXERCISED", {})
        assert_sound(check)

    def test_cuts_that_delete_nothing_show_nothing(self, prices: PriceHistory, tmp_path: Path) -> None:
        ancient = datetime(2020, 3, 1, tzinfo=UTC)

        def old_news(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            return EventLog.from_valid(log.frame.filter(pl.col("available_at") < ancient), log.features)

        ran = run(Pipeline(prices, events=old_news, models=("mean",)), tmp_path)
        check = _everything(ran.inputs())
        assert check.verdict == "NOT EXERCISED"
        assert "deleted" in check.summary
        assert_sound(check)

    def test_without_models_no_forecast_is_compared(self, honest: Ran) -> None:
        check = _everything(honest.inputs(forecasters={}, baselines=[]))
        assert check.verdict == "NOT EXERCISED"
        assert check.coverage == {"folds": 1.0, "models": 0.0, "entities forecast anew": 0.0}

    def test_models_that_were_not_made_anew_lower_the_coverage(self, honest: Ran) -> None:
        check = _everything(honest.inputs(baselines=[]))
        assert (check.verdict, check.coverage["models"]) == ("PASS", 0.5)
        check = check_truncation(honest.inputs(), instants_per_fold=1)
        assert (check.verdict, check.coverage["entities forecast anew"]) == ("PASS", 1.0)
        check = check_truncation(honest.inputs(folds=honest.folds[:1]), instants_per_fold=2)
        # Two cuts replay two of three entities, though the baselines forecast all of them.
        assert check.coverage["entities forecast anew"] == pytest.approx(2 / 3)
        check = _everything(honest.inputs(folds=honest.folds[:1]))
        assert (check.verdict, check.coverage["folds"]) == ("PASS", pytest.approx(1 / len(honest.folds)))
        check = _everything(honest.inputs(training=None))
        assert (check.verdict, check.coverage["networks trained anew"]) == ("PASS", 0.0)


class TestLeaksInTheData:
    """The whole pipeline has the leak; only the data that the cut deletes gives it away."""

    def test_events_visible_at_equality(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def at_equality(available_at: Any, forecast_times: Any) -> Any:
            return np.searchsorted(available_at, forecast_times, side="right").astype(np.int64)

        monkeypatch.setattr("quantattn.pit.dataset._visible.visible_counts", at_equality)
        ran = run(Pipeline(prices, clock=session_clock("60s"), models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "information sets", "as-of features")

    def test_an_as_of_feature_from_the_days_own_bar(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def with_own_bar(
            frame: Any, features: Any, entities: Any, readers: Any, times: Any, **rest: Any
        ) -> pl.DataFrame:
            # The close is 15 minutes away, and its bar another minute.
            return as_of_table(frame, features, entities, readers, times + 17 * 60 * 10**9, **rest)

        monkeypatch.setattr("quantattn.pit.dataset.point_in_time.as_of_table", with_own_bar)
        ran = run(Pipeline(prices), tmp_path)
        # What the table says of itself is spotless.
        assert check_visibility(ran.forecasts).verdict == "PASS"
        faults = _failed(_everything(ran.inputs()), "as-of features")
        assert "information sets" not in faults

    def test_missing_features_filled_from_later_bars(self, prices: PriceHistory, tmp_path: Path) -> None:
        def filled(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            back = pl.col("log_rv_22").fill_null(strategy="backward").over("entity")
            bars = pl.when(pl.col("kind") == "bar").then(back).otherwise(pl.col("log_rv_22"))
            return EventLog.from_valid(log.frame.with_columns(bars.alias("log_rv_22")), log.features)

        ran = run(Pipeline(prices, events=filled, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "events", "as-of features")
        # They are missing only while the first window fills, so later cuts are blind to it.
        assert _everything(ran.inputs(), warm_up=False).verdict == "PASS"

    def test_a_threshold_from_the_whole_sample(self, prices: PriceHistory, tmp_path: Path) -> None:
        def calm_days(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            bars = log.frame.filter(pl.col("kind") == "bar")
            calm = bars.filter(pl.col("log_return").abs() < pl.col("log_return").abs().median())
            told = calm.with_columns(kind=pl.lit("calm"), event_id="calm:" + pl.col("event_id"))
            return EventLog.from_valid(pl.concat([log.frame, told]), log.features)

        ran = run(Pipeline(prices, events=calm_days, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "events", "information sets")

    def test_a_scale_from_the_whole_sample(self, prices: PriceHistory, tmp_path: Path) -> None:
        def standardised(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            score = pl.col("log_return") / pl.col("log_return").std()
            return EventLog.from_valid(log.frame.with_columns(score), log.features)

        ran = run(Pipeline(prices, events=standardised, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "events", "bars", "information sets", "as-of features")

    def test_events_kept_for_how_the_story_ends(self, prices: PriceHistory, tmp_path: Path) -> None:
        def winners(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            ends = given.frame.group_by("entity").agg(up=pl.col("close").last() > pl.col("close").first())
            losers = ends.filter(~pl.col("up"))["entity"].implode()
            told = (pl.col("kind") == "low_52w") & pl.col("entity").is_in(losers)
            return EventLog.from_valid(log.frame.filter(~told), log.features)

        ran = run(Pipeline(prices, events=winners, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "events")

    def test_labels_clipped_at_a_quantile_of_the_whole_sample(
        self, prices: PriceHistory, tmp_path: Path
    ) -> None:
        def clipped(given: PriceHistory, clock: ForecastClock) -> Labels:
            labels = log_variance(given, clock)
            most = pl.col("y_true").clip(upper_bound=pl.col("y_true").quantile(0.9))
            return replace(labels, frame=labels.frame.with_columns(most))

        ran = run(Pipeline(prices, labels=clipped, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "labels")

    def test_a_forecast_left_out_for_what_followed(self, prices: PriceHistory, tmp_path: Path) -> None:
        def no_shocks(given: PriceHistory, clock: ForecastClock) -> Labels:
            labels = log_variance(given, clock)
            calm = pl.col("y_true").rank() <= 0.9 * pl.len()
            return replace(labels, frame=labels.frame.filter(calm))

        ran = run(Pipeline(prices, labels=no_shocks, models=BASELINES), tmp_path)
        _failed(_everything(ran.inputs()), "labels")


class TestLeaksInTheModels:
    def test_encoders_fitted_on_the_whole_sample(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def on_everything(history: History, cutoff: int, **options: Any) -> FittedEncoders:
            end = int(nanoseconds_of(history.events["available_at"]).max()) + 1
            return fit_encoders(history, end, **options)

        monkeypatch.setattr("quantattn.walkforward.networks.fit_encoders", on_everything)
        ran = run(Pipeline(prices, models=("linear",)), tmp_path)
        _failed(_everything(ran.inputs()), "event encoder of linear seed 0 of fold 0", "query scaler")

    def test_an_encoder_that_ignores_its_cutoff(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fit = NumericScaler.fit

        def forged(self: NumericScaler, frame: Any, columns: Any, cutoff: int, **options: Any) -> Any:
            late = fit(NumericScaler(self.clip), frame, columns, 2**62, **options)
            fit(self, frame, columns, cutoff, **options)
            self.mean_ = late.mean_
            return self

        # Its card is spotless, and the check itself fits with the leaking code: the cut alone tells.
        monkeypatch.setattr(NumericScaler, "fit", forged)
        ran = run(Pipeline(prices, models=("linear",)), tmp_path)
        assert check_encoder_cutoffs(ran.folds, ran.forecasters).verdict == "PASS"
        _failed(_everything(ran.inputs()), "event encoder of linear seed 0 of fold 0")

    def test_a_target_scale_over_the_whole_sample(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = log_variance(prices, session_clock()).frame["y_true"].to_numpy()
        leaking = SimpleNamespace(fit=lambda target: TargetScale.fit(whole))
        monkeypatch.setattr("quantattn.walkforward.networks.TargetScale", leaking)
        ran = run(Pipeline(prices, models=("linear",)), tmp_path)
        monkeypatch.undo()
        _failed(_everything(ran.inputs()), "target scale of linear seed 0 of fold 0")

    def test_a_target_scale_that_leaks_in_a_later_fold_alone(
        self, prices: PriceHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = log_variance(prices, session_clock()).frame["y_true"].to_numpy()
        calls: list[int] = []

        def fit(target: Any) -> TargetScale:
            calls.append(1)
            return TargetScale.fit(whole if len(calls) == 2 else target)

        monkeypatch.setattr("quantattn.walkforward.networks.TargetScale", SimpleNamespace(fit=fit))
        ran = run(Pipeline(prices, models=("linear",)), tmp_path)
        monkeypatch.undo()
        faults = _failed(_everything(ran.inputs()), "target scale of linear seed 0 of fold 1")
        assert "fold 0" not in faults

    @pytest.mark.parametrize(
        ("tamper", "parts"),
        [
            # The forecasts of the test span learned from; or stopped by; or the late labels put back.
            (lambda fold: replace(fold, train=np.concatenate([fold.train, fold.test])), ["weights"]),
            (lambda fold: replace(fold, validation=fold.test), ["interval"]),
            (lambda fold: replace(fold, train=np.sort([*fold.train, *fold.purged["row"]])), ["weights"]),
        ],
    )
    def test_training_on_what_was_not_known(
        self,
        prices: PriceHistory,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        tamper: Any,
        parts: list[str],
    ) -> None:
        def leaking(fold: Fold, *inputs: Any, **options: Any) -> Any:
            return fit_network(tamper(fold), *inputs, **options)

        # The folds on record are honest; only what the networks were trained on is not.
        monkeypatch.setattr("quantattn.walkforward.fitting.fit_network", leaking)
        ran = run(Pipeline(prices, models=("linear",)), tmp_path)
        _failed(_everything(ran.inputs()), *(f"{part} of linear seed 0 of fold 0" for part in parts))

    def test_late_labels_in_the_folds_themselves(self, prices: PriceHistory, tmp_path: Path) -> None:
        def put_back(folds: list[Fold]) -> list[Fold]:
            late = [fold.purged.filter(pl.col("side") == "validation")["row"].to_numpy() for fold in folds]
            return [
                replace(fold, train=np.sort(np.concatenate([fold.train, rows])))
                for fold, rows in zip(folds, late, strict=True)
            ]

        ran = run(Pipeline(prices, models=("linear", "mean")), tmp_path, folds=put_back)
        # At the first test forecast these labels were not known, so nothing can be trained on them.
        _failed(_everything(ran.inputs()), "training of fold 0", "cannot be made from the cut data")

    @pytest.mark.parametrize("fallback", [False, True])
    def test_a_baseline_that_uses_labels_not_known_yet(
        self, prices: PriceHistory, tmp_path: Path, leaky_baseline: Any, fallback: bool
    ) -> None:
        leaky_baseline(fallback)
        ran = run(Pipeline(prices, models=("mean", "oracle")), tmp_path)
        _failed(_everything(ran.inputs()), "oracle of fold 0")

    def test_a_tampered_forecast_or_bound_is_found(self, honest: Ran) -> None:
        for model, column in (("mean", "y_pred"), ("har", "y_upper"), ("softmax", "y_lower")):
            rows = honest.forecasts.with_row_index().filter(
                (pl.col("model") == model) & (pl.col("fold") == 0) & (pl.col("entity") == "AAA")
            )
            row = int(rows["index"][0])
            value = float(honest.forecasts[column][row])
            table = with_value(honest.forecasts, row, column, np.nextafter(value, np.inf))
            check = check_truncation(honest.inputs(forecasts=table))
            _failed(check, f"{model}", "1 of")

    def test_a_lost_forecast_is_found(self, honest: Ran) -> None:
        due = cell(honest.forecasts, 0, "forecast_time")
        first = honest.forecasts["forecast_time"].to_physical() == due
        table = honest.forecasts.filter(~(first & (honest.forecasts["entity"] == "BBB")))
        _failed(_everything(honest.inputs(forecasts=table)), "instead of")

    def test_a_forecaster_of_other_widths_is_a_fault_and_no_crash(self, honest: Ran, tmp_path: Path) -> None:
        def fewer_kinds(given: PriceHistory) -> EventLog:
            log = small_market_events(given)
            return EventLog.from_valid(log.frame.filter(pl.col("kind") == "bar"), log.features)

        other = run(Pipeline(honest.pipeline.prices, events=fewer_kinds, models=("linear",)), tmp_path)
        check = _everything(honest.inputs(forecasters=other.forecasters))
        _failed(check, "cannot be made from the cut data (ShapeError")


class TestRebuilding:
    """What the caller gives to rebuild with may itself be wrong, or break."""

    def test_a_rebuild_from_uncut_data_is_found(self, honest: Ran) -> None:
        _failed(
            _everything(honest.inputs(rebuild=lambda moment: honest.dataset)), "events", "rows instead of"
        )

    def test_a_cut_at_the_wrong_instant_is_found(self, honest: Ran) -> None:
        def early(moment: int) -> PointInTimeDataset:
            return honest.pipeline.rebuild(moment - 86_400_000_000_000, honest.dataset)

        _failed(_everything(honest.inputs(rebuild=early)), "rows instead of")

    @pytest.mark.parametrize("error", [KeyError("later"), ZeroDivisionError(), ValueError("empty")])
    def test_a_pipeline_that_cannot_do_without_the_future_fails(self, honest: Ran, error: Exception) -> None:
        def broken(moment: int) -> PointInTimeDataset:
            raise error

        check = _everything(honest.inputs(rebuild=broken))
        _failed(check, "the dataset at", type(error).__name__)
        assert check.coverage["folds"] == 0.0

    def test_a_full_disk_is_no_leak(self, honest: Ran) -> None:
        def full(moment: int) -> PointInTimeDataset:
            raise OSError(28, "No space left on device")

        with pytest.raises(OSError, match="No space left"):
            _everything(honest.inputs(rebuild=full))

    def test_a_feature_of_which_no_event_is_left_is_missing_not_different(self, honest: Ran) -> None:
        def without_magnitude(moment: int) -> PointInTimeDataset:
            cut = honest.pipeline.rebuild(moment, honest.dataset)
            frame = cut.events.frame
            if frame["magnitude"].null_count() < frame.height:
                return cut
            features = tuple(name for name in cut.events.features if name != "magnitude")
            events = EventLog.from_valid(frame.drop("magnitude"), features)
            return PointInTimeDataset(events, cut.clock, cut.labels, scope=cut.scope, check=False)

        early = honest.pipeline.rebuild(
            early_instants(nanoseconds_of(honest.dataset.samples["forecast_time"]), 2**62)[0], honest.dataset
        )
        assert early.events.frame["magnitude"].null_count() == early.events.frame.height
        # The hash names what features an event could have had; only that differs.
        check = _everything(honest.inputs(rebuild=without_magnitude))
        faults = " | ".join(check.evidence["faults"])
        assert "events" not in faults
        assert "as-of features" not in faults


@pytest.fixture
def leaky_baseline() -> Iterator[Any]:
    """Register a baseline that forecasts the outcome itself, with or without a decent fallback."""

    class Oracle(MeanBaseline):
        name = "oracle"
        fallback = False

        def _predict(self, table: SampleTable, rows: Any) -> Any:
            outcomes = table.outcomes[rows]
            return np.where(np.isnan(outcomes), self.fallback_, outcomes) if self.fallback else outcomes

    def register(fallback: bool) -> None:
        Oracle.fallback = fallback
        registry.register_baseline("oracle", lambda seed: Oracle())

    yield register
    registry._FACTORIES.pop("oracle", None)
