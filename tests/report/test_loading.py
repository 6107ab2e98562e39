"""Result files that are missing, broken or do not belong together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from quantattn.errors import CheckpointError
from quantattn.report.loading import load_run
from tests.report.conftest import MakeRun
from tests.report.synthetic import read, write

OUT = "quantattn run --out runs/market-history"
REMEDY = f"run '{OUT} --resume' again to write it whole"
UNKNOWN = "run the study again with --resume and the same --out to write it whole"


def test_whole_run(make_run: MakeRun) -> None:
    run = load_run(make_run(folds=2))
    assert run.metrics.models[0].model == "linear"
    # 2010-01-08T20:45:00Z by the calendar: 14,617 days after the epoch.
    assert run.metrics.first_forecast == (14_617 * 86_400 + 20 * 3_600 + 45 * 60) * 1_000_000_000
    assert run.manifest.folds[0].fit_time == run.manifest.folds[0].test_start - 1
    assert run.forecasts.height == 6 * 4 * 104 * 2
    assert run.study_text.startswith('study: "market-history"')


@pytest.mark.parametrize(
    "name",
    [
        "findings.json",
        "metrics.json",
        "comparisons.json",
        "audit.json",
        "manifest.json",
        "study.yaml",
        "forecasts.parquet",
    ],
)
def test_missing_file_is_named(make_run: MakeRun, name: str) -> None:
    run = make_run()
    (run / name).unlink()
    # The manifest, which names the command, is the last file that a run writes.
    remedy = UNKNOWN if name == "manifest.json" else REMEDY
    with pytest.raises(CheckpointError, match=re.escape(f"{run / name}: the file is missing; {remedy}")):
        load_run(run)


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (f"{OUT} --resume", REMEDY),
        (["quantattn", "run", "--out", "a b"], "run 'quantattn run --out 'a b' --resume' again"),
        (None, "run the study again with --resume and the same --out"),
        ("", "run the study again with --resume and the same --out"),
        (3, "run the study again with --resume and the same --out"),
    ],
)
def test_remedy_names_the_command_where_it_is_known(make_run: MakeRun, command: object, remedy: str) -> None:
    run = make_run()
    manifest = read(run / "manifest.json")
    manifest["command"] = command
    write(run / "manifest.json", manifest)
    (run / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match=re.escape(remedy)):
        load_run(run)


def test_latency_is_optional(make_run: MakeRun) -> None:
    assert load_run(make_run(latency=False)).latency is None


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no such folder; give the folder that 'quantattn run"):
        load_run(tmp_path / "nowhere")


JSON_FILES = (
    "findings.json",
    "metrics.json",
    "comparisons.json",
    "audit.json",
    "manifest.json",
    "latency.json",
)


@pytest.mark.parametrize("name", JSON_FILES)
def test_cut_file(make_run: MakeRun, name: str) -> None:
    run = make_run()
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=rf"{name}: the file is not (valid JSON|UTF-8)"):
        load_run(run)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{}", b"[" * 100_000, b"[]", b"null", b'"text"', b"3"])
def test_foreign_content(make_run: MakeRun, content: bytes) -> None:
    run = make_run()
    (run / "metrics.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"metrics\.json"):
        load_run(run)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_json(make_run: MakeRun, number: str) -> None:
    """Also inside free-form evidence, where no schema looks."""
    run = make_run()
    audit = read(run / "audit.json")
    audit["checks"][0]["evidence"]["gap"] = "HERE"
    text = json.dumps(audit).replace('"HERE"', number)
    (run / "audit.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=f"holds {number}, which is not JSON"):
        load_run(run)


def test_overflowing_number(make_run: MakeRun) -> None:
    run = make_run()
    text = (
        (run / "metrics.json")
        .read_text(encoding="utf-8")
        .replace('"confidence": 0.95', '"confidence": 1e999')
    )
    (run / "metrics.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match="'confidence': Input should be a finite number"):
        load_run(run)


def test_first_offending_fields_are_named(make_run: MakeRun) -> None:
    run = make_run()
    metrics = read(run / "metrics.json")
    metrics["confidence"] = "0.95"
    metrics["first_forecast"] = "some day"
    del metrics["models"][2]["seeds"]
    metrics["models"][3]["model"] = None
    metrics["target"]["kind"] = "colour"
    write(run / "metrics.json", metrics)
    with pytest.raises(CheckpointError) as caught:
        load_run(run)
    message = str(caught.value)
    assert "'target.kind': Input should be 'variance', 'return' or 'direction'" in message
    assert "'confidence': Input should be a valid number" in message
    assert "'first_forecast': Value error, not an instant" in message
    assert "and 2 more" in message


@pytest.mark.parametrize("instant", [True, 1.5, None, "", "2010-13-01", "NaT"])
def test_not_an_instant(make_run: MakeRun, instant: object) -> None:
    run = make_run()
    manifest = read(run / "manifest.json")
    manifest["folds"][0]["fit_time"] = instant
    write(run / "manifest.json", manifest)
    with pytest.raises(CheckpointError, match=r"'folds\.0\.fit_time'"):
        load_run(run)


def test_unknown_keys_are_ignored(make_run: MakeRun) -> None:
    run = make_run()
    manifest = read(run / "manifest.json")
    manifest["a_later_addition"] = {"x": 1}
    write(run / "manifest.json", manifest)
    assert load_run(run).manifest.seed == 0


def test_later_schema(make_run: MakeRun) -> None:
    run = make_run()
    manifest = read(run / "manifest.json")
    manifest["schema"] = 2
    write(run / "manifest.json", manifest)
    with pytest.raises(CheckpointError, match="'schema' is 2, but this version reads 1"):
        load_run(run)


def test_broken_parquet(make_run: MakeRun) -> None:
    run = make_run()
    path = run / "forecasts.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"forecasts\.parquet: the file is not a readable Parquet file"):
        load_run(run)


def test_missing_columns(make_run: MakeRun) -> None:
    run = make_run()
    path = run / "forecasts.parquet"
    pl.read_parquet(path).drop("y_pred", "info_hash").write_parquet(path)
    with pytest.raises(CheckpointError, match="there is no column 'y_pred', 'info_hash'"):
        load_run(run)


def test_column_of_another_type(make_run: MakeRun) -> None:
    run = make_run()
    path = run / "forecasts.parquet"
    pl.read_parquet(path).with_columns(pl.col("forecast_time").dt.replace_time_zone(None)).write_parquet(path)
    with pytest.raises(
        CheckpointError, match=r"column 'forecast_time' has type .*, not Datetime\('ns', 'UTC'\)"
    ):
        load_run(run)


def test_no_forecasts(make_run: MakeRun) -> None:
    run = make_run()
    path = run / "forecasts.parquet"
    pl.read_parquet(path).clear().write_parquet(path)
    with pytest.raises(CheckpointError, match="holds no forecasts"):
        load_run(run)


def test_files_of_different_runs(make_run: MakeRun) -> None:
    run = make_run("one")
    other = make_run("other", models=("linear", "mean"))
    (other / "forecasts.parquet").replace(run / "forecasts.parquet")
    with pytest.raises(CheckpointError, match="model 'softmax' has metrics but no row in forecasts"):
        load_run(run)


def test_model_twice(make_run: MakeRun) -> None:
    run = make_run()
    metrics = read(run / "metrics.json")
    metrics["models"].append(metrics["models"][0])
    write(run / "metrics.json", metrics)
    with pytest.raises(CheckpointError, match="model 'linear' appears more than once"):
        load_run(run)
