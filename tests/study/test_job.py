from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from quantattn import files
from quantattn.errors import CheckpointError, InformationSetError, PriceDataError, SplitError
from quantattn.files import hash_file
from quantattn.report.loading import load_run
from quantattn.study import Study, judging, load_study, parse_study, provenance, study_hash
from quantattn.study import job as module
from quantattn.walkforward import FORECAST_SCHEMA, fitting, running
from quantattn.walkforward.settings import NETWORKS
from tests.study.small import (
    ALL_FILES,
    NETWORK_FILES,
    TICKERS,
    TIMINGS,
    UNIT_FILES,
    events_table,
    files_below,
    forecast_bytes,
    forecasts,
    own_study,
    packaged_study,
    prices_table,
    run,
    write_own_files,
)

FOLDS = 2
CHECKS = (
    "visibility",
    "purging",
    "information_sets",
    "streaming",
    "encoder_cutoffs",
    "gradient",
    "truncation",
)


def _slow(*values: Any, id: str | None = None) -> Any:
    """A further case, for when there is time."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def _json(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / name).read_text(encoding="utf-8"))
    return found


def _verdicts(out: Path) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in _json(out, "audit.json")["checks"]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the packaged study; tests read it and leave it alone."""
    out = tmp_path_factory.mktemp("packaged") / "run"
    run(packaged_study(), out)
    return out


@pytest.fixture(scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_own_files(tmp_path_factory.mktemp("own"))


class TestRunDirectory:
    def test_exactly_the_files_of_a_run_are_written(self, finished: Path) -> None:
        units = {
            f"folds/{fold}/{model}-0/{name}"
            for fold in range(FOLDS)
            for model, names in (("linear", NETWORK_FILES), ("softmax", NETWORK_FILES), ("mean", UNIT_FILES))
            for name in names
        }
        assert files_below(finished) == ALL_FILES | units

    def test_the_report_loads_all_of_it(self, finished: Path) -> None:
        results = load_run(finished)
        assert results.latency is not None
        assert {model.model for model in results.metrics.models} == {"linear", "softmax", "mean"}
        assert results.audit.verdict == "PASS"
        assert len(results.manifest.folds) == FOLDS

    def test_the_forecasts_table_has_the_columns_of_the_house(self, finished: Path) -> None:
        table = pl.read_parquet(finished / "forecasts.parquet")
        assert dict(table.schema) == FORECAST_SCHEMA
        key = ["model", "seed", "fold", "forecast_time", "entity"]
        assert table.equals(table.sort(key))
        assert table.select(key).is_duplicated().sum() == 0
        assert set(table["entity"]) == {"AAPL", "JPM", "XOM"}
        assert table["study"].unique().to_list() == ["tiny"]

    def test_the_forecasts_are_those_of_the_units(self, finished: Path) -> None:
        units = [pl.read_parquet(path) for path in finished.glob("folds/*/*/forecasts.parquet")]
        key = ["model", "seed", "fold", "forecast_time", "entity"]
        whole = pl.read_parquet(finished / "forecasts.parquet")
        assert_frame_equal(whole, pl.concat(units).sort(key), check_exact=True)

    def test_the_tests_run_to_the_end_of_the_data(self, finished: Path) -> None:
        table = pl.read_parquet(finished / "forecasts.parquet")
        manifest = _json(finished, "manifest.json")
        assert manifest["samples"]["dropped"] == {"incomplete": 3}
        # The packaged prices end on 2022-12-28, so the last target of five sessions begins on 2022-12-16.
        last = table["forecast_time"].max()
        assert str(last).startswith("2022-12-16")

    def test_only_networks_are_timed(self, finished: Path) -> None:
        table = pl.read_parquet(finished / "forecasts.parquet")
        for name, part in table.group_by("model"):
            timed = part["read_us"].is_not_null()
            assert timed.all() if name[0] in NETWORKS else not timed.any()

    def test_the_manifest_says_where_it_came_from(self, finished: Path) -> None:
        manifest, study = _json(finished, "manifest.json"), load_study(finished / "study.yaml")
        assert manifest["schema"] == 1
        assert manifest["study"] == "tiny"
        assert manifest["study_hash"] == study_hash(study)
        assert set(manifest["data"]) == {"packaged:us_equities", "packaged:sp500_index"}
        assert manifest["command"] == "quantattn run"
        assert manifest["seeds"] == [0]
        assert manifest["threads"] == 1
        assert manifest["quick"] is False
        assert manifest["remarks"] == []
        assert manifest["events"]["rejected"] == {}
        assert manifest["events"]["n"] == sum(manifest["events"]["by_kind"].values())
        assert [stage["stage"] for stage in manifest["stages"]] == [
            "data",
            "train and forecast",
            "evaluate",
            "latency",
            "audit",
        ]
        assert len(manifest["code_hash"]) == 64
        assert len(manifest["caveats"]) == 2

    def test_every_check_was_made_and_passes(self, finished: Path) -> None:
        assert _verdicts(finished) == dict.fromkeys(CHECKS, "PASS")
        (truncation,) = [c for c in _json(finished, "audit.json")["checks"] if c["name"] == "truncation"]
        assert truncation["coverage"]["folds"] == truncation["coverage"]["models"] == 1.0
        assert truncation["coverage"]["networks trained anew"] == pytest.approx(1 / (2 * FOLDS))

    def test_latency_is_measured_for_both_twins(self, finished: Path) -> None:
        latency = _json(finished, "latency.json")
        assert [(point["model"], point["history"]) for point in latency["curve"]] == [
            ("linear", 10),
            ("softmax", 10),
            ("linear", 30),
            ("softmax", 30),
        ]
        assert latency["machine"]["threads"] == 1
        assert [(row["model"], row["fold"], row["seed"]) for row in latency["training"]] == [
            (model, fold, 0) for fold in range(FOLDS) for model in ("linear", "softmax")
        ]
        assert {row["model"] for row in latency["backtest"]} == {"linear", "softmax"}

    def test_the_summary_is_what_the_files_say(self, tmp_path: Path) -> None:
        summary = run(packaged_study(models=["mean", "har"]), tmp_path / "run")
        assert summary.report == tmp_path / "run" / "report.html"
        said = _json(tmp_path / "run", "findings.json")
        assert said == {"headline": summary.headline, "findings": summary.findings}
        assert len(summary.findings) == 3
        assert summary.headline in summary.report.read_text(encoding="utf-8")


class TestSameBytes:
    def test_twice_is_the_same_up_to_the_timings(self, finished: Path, tmp_path: Path) -> None:
        again = tmp_path / "again"
        run(packaged_study(), again)
        assert forecast_bytes(again) == forecast_bytes(finished)
        for path in finished.glob("folds/*/*/weights.safetensors"):
            assert (again / path.relative_to(finished)).read_bytes() == path.read_bytes()
        one, other = (pl.read_parquet(out / "forecasts.parquet") for out in (finished, again))
        assert one.columns == other.columns
        assert not one.select(TIMINGS).equals(other.select(TIMINGS))  # they were measured anew

    def test_a_run_without_networks_is_the_same_altogether(self, tmp_path: Path) -> None:
        study = packaged_study(models=["mean", "har"])
        for name in ("one", "other"):
            run(study, tmp_path / name)
        assert hash_file(tmp_path / "one" / "forecasts.parquet") == hash_file(
            tmp_path / "other" / "forecasts.parquet"
        )

    @pytest.mark.slow
    def test_another_seed_is_another_run(self, finished: Path, tmp_path: Path) -> None:
        run(packaged_study().with_seeds(1), tmp_path / "run")
        one, other = forecasts(finished), forecasts(tmp_path / "run")
        linear = pl.col("model") == "linear"
        assert not one.filter(linear)["y_pred"].equals(other.filter(linear)["y_pred"])
        assert one.filter(~linear & (pl.col("model") == "mean"))["y_pred"].equals(
            other.filter(pl.col("model") == "mean")["y_pred"]
        )


@pytest.fixture
def nothing_trained(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Arm a trap: from then on nothing may be trained, measured or audited again."""

    def arm() -> None:
        def refuse(*inputs: Any, **options: Any) -> None:
            raise AssertionError("this had been done already")

        for owner, name in (
            (fitting, "fit_network"),
            (running, "make_baseline"),
            (judging, "latency_curve"),
            (judging, "check_truncation"),
        ):
            monkeypatch.setattr(owner, name, refuse)

    return arm


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be resumed or broken."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


class TestResume:
    def test_a_finished_run_is_used_again_altogether(
        self, copy: Path, nothing_trained: Callable[[], None]
    ) -> None:
        before = {
            name: hash_file(copy / name) for name in ("forecasts.parquet", "latency.json", "audit.json")
        }
        nothing_trained()
        run(packaged_study(), copy, resume=True)
        assert {name: hash_file(copy / name) for name in before} == before
        assert _json(copy, "manifest.json")["remarks"] == []

    def test_leftovers_of_a_killed_run_are_swept(
        self, copy: Path, nothing_trained: Callable[[], None]
    ) -> None:
        before = files_below(copy)
        (copy / ".metrics.json.0123456789abcdef.tmp").write_text("{")
        (copy / "folds" / "0" / ".linear-0.0123456789abcdef.tmp").mkdir()
        (copy / "folds" / "0" / ".linear-0.0123456789abcdef.tmp" / "log.json").write_text("{")
        (copy / "folds" / "1" / "mean-0" / ".log.json.0123456789abcdef.tmp").write_text("{")
        (copy / "folds" / ".9.tmp").mkdir()
        nothing_trained()
        run(packaged_study(), copy, resume=True)
        assert files_below(copy) == before
        assert not list((copy / "folds").glob("**/.*"))

    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            _slow(lambda unit: (unit / "unit.json").unlink(), "its record cannot be read"),
            _slow(lambda unit: (unit / "unit.json").write_text("{"), "its record cannot be read"),
            _slow(lambda unit: (unit / "log.json").unlink(), "files are missing or strange"),
            _slow(lambda unit: (unit / "more.txt").write_text("x"), "files are missing or strange"),
            _slow(
                lambda unit: (unit / "weights.safetensors").write_bytes(b"\0" * 100),
                "weights.safetensors was altered or cut short",
            ),
            (
                lambda unit: (unit / "forecasts.parquet").write_bytes(
                    (unit / "forecasts.parquet").read_bytes()[:-50]
                ),
                "forecasts.parquet was altered or cut short",
            ),
        ],
    )
    def test_a_damaged_unit_is_done_again_and_said(
        self, copy: Path, finished: Path, damage: Callable[[Path], Any], reason: str
    ) -> None:
        damage(copy / "folds" / "1" / "linear-0")
        run(packaged_study(), copy, resume=True)
        assert forecast_bytes(copy) == forecast_bytes(finished)
        assert _json(copy, "manifest.json")["remarks"] == [f"fold 1 linear seed 0 was done again: {reason}"]
        assert files_below(copy) == files_below(finished)

    @pytest.mark.parametrize(
        "name",
        [
            "forecasts.parquet",
            "report.html",
            *(_slow(name) for name in sorted(ALL_FILES - {"study.yaml", "forecasts.parquet", "report.html"})),
        ],
    )
    def test_a_result_that_is_missing_or_torn_is_made_again(self, copy: Path, name: str) -> None:
        for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:20])):
            damage(copy / name)
            run(packaged_study(), copy, resume=True)
            load_run(copy)
        assert files_below(copy) >= ALL_FILES

    def test_results_of_another_forecasts_table_go_before_the_new_one_stands(
        self, copy: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (copy / "folds" / "0" / "linear-0" / "unit.json").unlink()

        def stop(*inputs: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(judging, "refuse_different_information", stop)
        with pytest.raises(KeyboardInterrupt):
            run(packaged_study(), copy, resume=True)
        # What is left belongs together: no report or verdict of other forecasts stands beside them.
        assert {name for name in files_below(copy) if "/" not in name} == {"forecasts.parquet", "study.yaml"}

    @pytest.mark.slow
    def test_other_code_makes_everything_anew(
        self, copy: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(provenance, "code_hash", lambda: "0" * 64)
        run(packaged_study(), copy, resume=True)
        remarks = _json(copy, "manifest.json")["remarks"]
        assert len(remarks) == FOLDS * 3
        assert all("data, code, settings or versions have changed" in remark for remark in remarks)
        assert forecast_bytes(copy) == forecast_bytes(finished)

    def test_an_audit_by_other_code_is_made_anew_though_the_forecasts_are_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        study = packaged_study(models=["mean", "har"])
        run(study, tmp_path / "run")
        before = hash_file(tmp_path / "run" / "forecasts.parquet"), _json(tmp_path / "run", "audit.json")
        monkeypatch.setattr(provenance, "code_hash", lambda: "0" * 64)
        run(study, tmp_path / "run", resume=True)
        assert hash_file(tmp_path / "run" / "forecasts.parquet") == before[0]
        assert _json(tmp_path / "run", "audit.json")["inputs"] != before[1]["inputs"]


class TestChangedData:
    def test_units_are_redone_and_said_and_folds_that_are_no_more_are_gone(self, tmp_path: Path) -> None:
        study = own_study(write_own_files(tmp_path), models=["linear", "mean"])
        out = tmp_path / "run"
        run(study, out)
        folds = sorted(path.name for path in (out / "folds").iterdir())
        shorter = prices_table().filter(pl.col("date") < date(2022, 3, 1))
        write_own_files(tmp_path, prices=shorter)
        run(study, out, resume=True)
        manifest = _json(out, "manifest.json")
        left = [record["fold"] for record in manifest["folds"]]
        assert len(left) < len(folds)
        assert sorted(int(path.name) for path in (out / "folds").iterdir()) == left
        assert manifest["data"][str(tmp_path / "prices.csv")] == hash_file(tmp_path / "prices.csv")
        assert manifest["remarks"] == [
            f"fold {fold} {model} seed 0 was done again: data, code, settings or versions have changed since "
            "it was written"
            for fold in left
            for model in ("linear", "mean")
        ]
        fresh = tmp_path / "fresh"
        run(study, fresh)
        assert forecast_bytes(fresh) == forecast_bytes(out)

    @pytest.mark.slow
    def test_one_changed_headline_is_enough(self, tmp_path: Path) -> None:
        study = own_study(write_own_files(tmp_path), models=["mean", "ridge"])
        out = tmp_path / "run"
        run(study, out)
        events = events_table()
        changed = pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("other")).otherwise(pl.col("headline"))
        write_own_files(tmp_path, events=events.with_columns(changed.alias("headline")))
        run(study, out, resume=True)
        assert len(_json(out, "manifest.json")["remarks"]) > 0


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of own files, three of whose event rows cannot be used."""
    folder = tmp_path_factory.mktemp("rejects")
    bad = pl.DataFrame(
        [("", "ANT", "x", 0.0), ("soon", "ANT", "y", 0.0), ("2021-05-03T10:00:00", "", "z", 0.0)],
        schema=["published", "ticker", "headline", "score"],
        orient="row",
    )
    write_own_files(folder, events=pl.concat([events_table(), bad]))
    run(own_study(folder), folder / "run")
    return folder / "run"


class TestOwnData:
    def test_events_of_both_kinds_are_read_and_rejects_counted(self, own_run: Path) -> None:
        events = _json(own_run, "manifest.json")["events"]
        assert events["rejected"] == {"missing_time": 1, "null_entity": 1, "unreadable_time": 1}
        assert events["by_kind"]["event"] == events_table().height
        assert events["by_kind"]["bar"] == prices_table().height
        load_run(own_run)

    def test_the_audit_passes(self, own_run: Path) -> None:
        assert _verdicts(own_run) == dict.fromkeys(CHECKS, "PASS")

    def test_the_missing_universe_is_told(self, own_run: Path) -> None:
        (caveat,) = _json(own_run, "manifest.json")["caveats"]
        assert "universe" in caveat


def _variant(**changes: Any) -> Any:
    return changes


class TestVariants:
    """Each runs to its report, and its audit finds nothing wrong."""

    @pytest.mark.parametrize(
        "changes",
        [
            _slow(_variant(data={"entities": ["JPM"]}), id="one instrument"),
            _slow(_variant(data={"scope": "entity"}), id="own events alone"),
            pytest.param(
                _variant(data={"scope": "market"}, models=["linear", "mean", "gradient_boosting"]),
                id="market events alone",
            ),
            pytest.param(
                _variant(
                    target={"name": "direction", "dead_band": 0.001},
                    models=["linear", "softmax", "mean", "har"],
                ),
                id="direction",
            ),
            _slow(_variant(target={"name": "simple_return"}), id="simple return"),
            _slow(
                _variant(
                    target={"name": "realised_variance", "log": False}, models=["linear", "mean", "ewma"]
                ),
                id="variance itself",
            ),
            _slow(_variant(walk_forward={"val_size": None}), id="no validation"),
            _slow(_variant(seeds=[1, 0]), id="two seeds"),
            _slow(_variant(data={"index": None}), id="no index"),
            _slow(
                _variant(
                    data={
                        "prices": "packaged:sp500_ohlcv",
                        "index": None,
                        "entities": None,
                        "start": "2017-06-01",
                    }
                ),
                id="one packaged series",
            ),
            _slow(
                _variant(clock={"at": "open", "offset": "30min", "every": "session"}, target={"horizon": 1}),
                id="each morning",
            ),
        ],
    )
    def test_it_passes(self, tmp_path: Path, changes: dict[str, Any]) -> None:
        out = tmp_path / "run"
        run(packaged_study(**{"models": ["linear", "mean"], **changes}), out)
        assert _verdicts(out) == dict.fromkeys(CHECKS, "PASS")
        assert load_run(out).audit.verdict == "PASS"

    def test_own_events_alone(self, own_folder: Path, tmp_path: Path) -> None:
        study = own_study(
            own_folder,
            data={"market_events": False},
            models=["linear", "softmax", "mean", "ridge", "gradient_boosting"],
        )
        run(study, tmp_path / "run")
        assert _verdicts(tmp_path / "run") == dict.fromkeys(CHECKS, "PASS")
        load_run(tmp_path / "run")

    @pytest.mark.slow
    def test_events_that_begin_late_and_come_seldom(self, tmp_path: Path) -> None:
        few = events_table().filter(pl.col("published") > "2021-04-01").gather_every(9)
        study = own_study(
            write_own_files(tmp_path, events=few),
            data={"market_events": False},
            models=["linear", "mean", "ridge"],
            latency={"histories": [10, 20_000]},
        )
        run(study, tmp_path / "run")
        assert _verdicts(tmp_path / "run") == dict.fromkeys(CHECKS, "PASS")

    @pytest.mark.slow
    def test_gaps_that_are_dropped_are_counted(self, tmp_path: Path) -> None:
        gap = (pl.col("entity") == "BEE") & (pl.col("date") == date(2021, 9, 1))
        write_own_files(tmp_path, prices=prices_table().filter(~gap))
        run(own_study(tmp_path, data={"gaps": "drop"}, models=["linear", "mean"]), tmp_path / "run")
        assert _json(tmp_path / "run", "manifest.json")["samples"]["dropped"]["gap"] > 0
        assert _verdicts(tmp_path / "run") == dict.fromkeys(CHECKS, "PASS")


class TestLessToCompare:
    @pytest.mark.parametrize(
        ("models", "unexercised"),
        [
            _slow(["linear"], {"information_sets"}),
            (["mean", "har"], {"streaming", "encoder_cutoffs", "gradient"}),
            _slow(["mean"], {"information_sets", "streaming", "encoder_cutoffs", "gradient"}),
        ],
    )
    def test_what_cannot_be_exercised_is_said(
        self, tmp_path: Path, models: list[str], unexercised: set[str]
    ) -> None:
        out = tmp_path / "run"
        summary = run(packaged_study(models=models), out)
        verdicts = _verdicts(out)
        assert {name for name, verdict in verdicts.items() if verdict == "NOT EXERCISED"} == unexercised
        assert "FAIL" not in verdicts.values()
        assert _json(out, "audit.json")["verdict"] == "INCOMPLETE"
        assert "not every leakage check could be exercised" in summary.headline
        networks = set(models) & set(NETWORKS)
        assert (out / "latency.json").exists() == bool(networks)
        assert (load_run(out).latency is None) == (not networks)

    @pytest.mark.slow
    def test_labels_that_never_overlap_leave_purging_unexercised(self, tmp_path: Path) -> None:
        study = packaged_study(
            data={"start": "2020-01-01"},
            clock={"every": "month"},
            walk_forward={"train_size": 16, "val_size": 3, "test_size": 8},
            models=["linear", "mean"],
        )
        run(study, tmp_path / "run")
        assert _verdicts(tmp_path / "run")["purging"] == "NOT EXERCISED"


class TestRefusals:
    def test_models_that_saw_different_events_are_not_compared(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest = running.forecast_rows

        def tamper(*inputs: Any, model: str, **options: Any) -> pl.DataFrame:
            rows = honest(*inputs, model=model, **options)
            return rows.with_columns(info_hash=pl.lit("0" * 32)) if model == "softmax" else rows

        monkeypatch.setattr(running, "forecast_rows", tamper)
        out = tmp_path / "run"
        with pytest.raises(InformationSetError):
            run(packaged_study(), out)
        audit = _json(out, "audit.json")
        assert (audit["verdict"], audit["checks"][0]["name"]) == ("FAIL", "information_sets")
        assert not (out / "metrics.json").exists()
        assert not (out / "report.html").exists()

    def test_a_leak_in_the_pipeline_is_reported_as_a_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest = fitting.fit_network

        def stopped_by_the_test(fold: Any, *inputs: Any, **options: Any) -> Any:
            return honest(replace(fold, validation=fold.test), *inputs, **options)

        monkeypatch.setattr(fitting, "fit_network", stopped_by_the_test)
        out = tmp_path / "run"
        summary = run(packaged_study(), out)
        assert _verdicts(out)["truncation"] == "FAIL"
        assert load_run(out).audit.verdict == "FAIL"
        assert "FAILS" in summary.headline

    @pytest.mark.parametrize(
        ("changes", "error", "parts"),
        [
            (
                {"walk_forward": {"train_size": 500, "test_size": 24}},
                SplitError,
                ["there are 81 forecast times", "train_size=500", "needs 501"],
            ),
            (
                {"walk_forward": {"train_size": 3, "val_size": 1}, "target": {"horizon": 9}},
                SplitError,
                ["fold 0"],
            ),
        ],
    )
    def test_too_little_history_leaves_nothing_behind(
        self, tmp_path: Path, changes: dict[str, Any], error: type[Exception], parts: list[str]
    ) -> None:
        out = tmp_path / "deep" / "run"
        with pytest.raises(error) as caught:
            run(packaged_study(**changes), out)
        for part in parts:
            assert part in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_refused_gap_leaves_nothing_behind(self, tmp_path: Path) -> None:
        folder = tmp_path / "data"
        folder.mkdir()
        gap = (pl.col("entity") == "BEE") & (pl.col("date") == date(2021, 9, 1))
        study = own_study(write_own_files(folder, prices=prices_table().filter(~gap)))
        with pytest.raises(PriceDataError, match="2021-09-01"):
            run(study, tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestFullDisk:
    """The disk fills up while one file is written; what is there is whole, and the run can go on."""

    @pytest.mark.parametrize(
        ("name", "nth"),
        [
            ("study.yaml", 1),
            ("weights.safetensors", 3),
            ("audit.json", 1),
            _slow("log.json", 1),
            _slow("forecasts.parquet", 2),  # of a unit
            _slow("unit.json", 4),
            _slow("forecasts.parquet", 7),  # the whole table
            _slow("metrics.json", 1),
            _slow("latency.json", 1),
            _slow("findings.json", 1),
            _slow("manifest.json", 1),
            _slow("report.html", 1),
        ],
    )
    def test_nothing_is_half_written_and_the_run_can_be_resumed(
        self, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nth: int
    ) -> None:
        original, met = files._fsync_file, 0

        def full(path: Path) -> None:
            nonlocal met
            met += path.name.lstrip(".").startswith(name)
            if met >= nth:
                path.write_bytes(path.read_bytes()[:7])
                raise OSError(errno.ENOSPC, "No space left on device")
            original(path)

        out = tmp_path / "run"
        monkeypatch.setattr(files, "_fsync_file", full)
        with pytest.raises(OSError, match="No space left"):
            run(packaged_study(), out)
        monkeypatch.undo()
        if name == "study.yaml":
            assert not out.exists()
        else:
            left = files_below(out)
            assert name not in left
            assert not [path for path in left if path.endswith(".tmp")]
            for record in out.glob("folds/*/*/unit.json"):
                stored = json.loads(record.read_text())["files"]
                assert {path: hash_file(record.parent / path) for path in stored} == stored
            # A unit is there with its record, or not at all.
            assert {path.parent for path in out.glob("folds/*/*/*")} == {
                path.parent for path in out.glob("folds/*/*/unit.json")
            }
        run(packaged_study(), out, resume=True)
        assert forecast_bytes(out) == forecast_bytes(finished)
        assert files_below(out) == files_below(finished)


def test_a_unit_with_a_forged_record_is_refused(copy: Path) -> None:
    unit = copy / "folds" / "0" / "softmax-0"
    config = json.loads((unit / "forecaster.json").read_text())
    (unit / "forecaster.json").write_text(json.dumps({**config, "seed": 1}))
    record = json.loads((unit / "unit.json").read_text())
    record["files"]["forecaster.json"] = hash_file(unit / "forecaster.json")
    (unit / "unit.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match="altered"):
        run(packaged_study(), copy, resume=True)


def test_every_setting_of_the_study_reaches_the_folds() -> None:
    study: Study = packaged_study(
        models=["softmax", "mean"],
        seeds=[3, 4],
        network={"width": 6, "heads": 2, "layers": 3, "feed_forward": 5, "half_lives": ["12h", None]},
        training={"epochs": 7, "interval": 0.8},
        encoder={"text_width": 9},
    )
    settings = module.fold_settings(study)
    assert settings.models == ("softmax", "mean")
    assert settings.seeds == (3, 4)
    assert settings.text_width == 9
    assert (settings.training.epochs, settings.training.interval) == (7, 0.8)
    for attention in ("linear", "softmax"):
        network = settings.networks[attention]
        assert network.attention == attention
        assert (network.width, network.heads, network.layers, network.feed_forward) == (6, 2, 3, 5)
        assert network.half_lives == (0.5, None)  # days


def test_no_half_lives_are_no_decay_in_any_head() -> None:
    study = packaged_study(network={"width": 6, "heads": 3, "half_lives": None})
    assert module.fold_settings(study).networks["linear"].half_lives == (None, None, None)


def test_the_study_of_a_run_can_be_run_again_from_its_own_file(finished: Path) -> None:
    assert load_study(finished / "study.yaml") == packaged_study()
    assert parse_study(load_study(finished / "study.yaml").model_dump()) == packaged_study()
    assert TICKERS == ("ANT", "BEE")
