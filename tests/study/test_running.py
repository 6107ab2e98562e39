"""A study from Python: one call makes the folder, runs, and knows the models of this process."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import quantattn as qa
from quantattn.errors import OutputDirectoryError
from quantattn.forecasters.baselines import unregister_baseline
from tests.study.small import ALL_FILES, packaged_study


@pytest.fixture
def plain():
    qa.register_estimator("plain", lambda seed: LinearRegression())
    yield "plain"
    unregister_baseline("plain")


def test_a_registered_model_runs_beside_the_others(plain: str, tmp_path: Path) -> None:
    study = packaged_study(models=["mean", plain])
    out = tmp_path / "deep" / "run"
    done = qa.run_study(study, str(out))
    assert done.report == out / "report.html"
    assert {file.name for file in out.iterdir() if file.is_file()} >= ALL_FILES - {"latency.json"}
    table = pl.read_parquet(out / "forecasts.parquet")
    assert sorted(table["model"].unique()) == ["mean", plain]
    with pytest.raises(OutputDirectoryError, match="--resume"):
        qa.run_study(study, out)
    assert qa.run_study(study, out, resume=True).headline == done.headline
