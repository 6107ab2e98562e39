"""Estimators on disk: whole, or refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quantattn.errors import CheckpointError, OutputDirectoryError, UsageError
from quantattn.files import hash_json
from quantattn.forecasters import FittedForecaster
from quantattn.forecasters.estimators import LinearAttentionForecaster, SoftmaxAttentionForecaster

from ...walkforward.market import TEXT_WIDTH, market
from .test_forecaster import BOTH, HEADS, horizons, small


@pytest.mark.parametrize("twin", BOTH)
@pytest.mark.parametrize("head", HEADS)
def test_round_trip(tmp_path: Path, twin: type[Any], head: str) -> None:
    given = market()
    fold = given.folds[0]
    forecaster = small(twin, head=head).fit(given.dataset, fold)
    forecaster.save(tmp_path / "kept")
    again = twin.load(tmp_path / "kept")
    assert again.get_params() == forecaster.get_params()
    assert again.predict(given.dataset, fold).equals(forecaster.predict(given.dataset, fold))
    for name in ("fit_time_", "cutoff_", "n_rows_", "n_masked_", "target_names_"):
        assert getattr(again, name) == getattr(forecaster, name)
    assert again.training_log_ is None
    again.save(tmp_path / "again")
    files = sorted(file.name for file in (tmp_path / "kept").iterdir())
    assert files == ["estimator.json", "forecaster.json", "weights.safetensors"]
    for name in files:
        assert (tmp_path / "kept" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_several_targets_and_losses_round_trip(tmp_path: Path) -> None:
    given = market()
    fold = given.folds[0]
    forecaster = small(loss="qlike").fit(given.dataset, fold, targets=horizons())
    forecaster.save(str(tmp_path / "kept"))
    again = LinearAttentionForecaster.load(str(tmp_path / "kept"))
    assert again.predict(given.dataset, fold).equals(forecaster.predict(given.dataset, fold))


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    given = market()
    forecaster = small(epochs=np.int64(1), learning_rate=np.float64(0.01), half_lives=[7.0, None])
    forecaster.fit(given.dataset, given.folds[0]).save(tmp_path / "kept")
    again = LinearAttentionForecaster.load(tmp_path / "kept")
    assert (again.epochs, again.learning_rate, again.half_lives) == (1, 0.01, (7.0, None))


@pytest.mark.parametrize(
    "options",
    [
        {"levels": np.array([0.1, 0.5])},
        {"head": "quantile", "levels": np.array([0.1, 0.5])},
        {"half_lives": np.array([7.0, 30.0])},
        {"learning_rate": Fraction(1, 100)},
        {"device": torch.device("cpu")},
        {"log_target": np.True_, "mixed_precision": np.False_},
        {"text_width": np.int64(TEXT_WIDTH), "seed": np.int32(1)},
    ],
)
def test_what_fit_takes_can_be_stored(tmp_path: Path, options: dict[str, Any]) -> None:
    given = market()
    forecaster = small(**options).fit(given.dataset, given.folds[0])
    forecaster.save(tmp_path / "kept")
    again = LinearAttentionForecaster.load(tmp_path / "kept")
    assert again.predict(given.dataset, [5]).equals(forecaster.predict(given.dataset, [5]))
    for name, value in options.items():
        expected = {"device": str, "learning_rate": float}.get(name, np.asarray)(value)
        assert np.array_equal(getattr(again, name), expected)


@pytest.mark.parametrize(
    "options", [{"hidden": 16}, {"head": "gaussian"}, {"text_width": 0}, {"epochs": 0}, {"levels": {1.0}}]
)
def test_arguments_of_another_network_are_not_stored(tmp_path: Path, options: dict[str, Any]) -> None:
    given = market()
    forecaster = small().fit(given.dataset, given.folds[0]).set_params(**options)
    with pytest.raises(UsageError, match=next(iter(options)) if "hidden" not in options else "width"):
        forecaster.save(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_plain_forecaster_is_stored_as_before(tmp_path: Path) -> None:
    """What a study stores knows nothing of heads, and loads; it says no more than it did."""
    given = market()
    small().fit(given.dataset, given.folds[0]).forecaster_.save(tmp_path)
    config = json.loads((tmp_path / "forecaster.json").read_text(encoding="utf-8"))
    assert "readout" not in config
    assert "head" not in config["network"]
    assert FittedForecaster.load(tmp_path).readout is None


def kept(tmp_path: Path) -> Path:
    given = market()
    small(head="gaussian").fit(given.dataset, given.folds[0]).save(tmp_path / "kept")
    return tmp_path / "kept"


def rewrite(folder: Path, change: Any) -> None:
    """Change the stored arguments under a true checksum."""
    file = folder / "estimator.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    del content["sha256"]
    change(content)
    file.write_text(json.dumps({**content, "sha256": hash_json(content)}), encoding="utf-8")


def test_the_other_twin(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    with pytest.raises(CheckpointError, match="holds a LinearAttentionForecaster, not a Softmax"):
        SoftmaxAttentionForecaster.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(schema=2),
        lambda content: content["parameters"].pop("epochs"),
        lambda content: content["parameters"].update(dropout=0.1),
        lambda content: content.update(parameters=None),
        lambda content: content["learned"].pop("cutoff"),
        lambda content: content.update(forecaster_sha256="0"),
        lambda content: content["learned"].update(fit_time="x"),
        lambda content: content["learned"].update(fit_time="7"),
        lambda content: content["learned"].update(fit_time=None),
        lambda content: content["learned"].update(n_rows=1.5),
        lambda content: content["learned"].update(n_masked=True),
        lambda content: content["learned"].update(cutoff=2**70),
        lambda content: content["parameters"].update(head="point"),
        lambda content: content["parameters"].update(head=["gaussian"]),
        lambda content: content["parameters"].update(head={}),
        lambda content: content["parameters"].update(hidden=16),
        lambda content: content["parameters"].update(text_width=0),
        lambda content: content["parameters"].update(text_width="4"),
        lambda content: content["parameters"].update(half_lives=[7.0, 1.0]),
        lambda content: content["parameters"].update(epochs="x"),
        lambda content: content["parameters"].update(log_target="no"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, change: Any) -> None:
    folder = kept(tmp_path)
    rewrite(folder, change)
    with pytest.raises(CheckpointError):
        LinearAttentionForecaster.load(folder)


@pytest.mark.parametrize("name", ["estimator.json", "forecaster.json", "weights.safetensors"])
@pytest.mark.parametrize("how", ["missing", "cut", "altered"])
def test_files_that_are_not_whole(tmp_path: Path, name: str, how: str) -> None:
    file = kept(tmp_path) / name
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(CheckpointError):
        LinearAttentionForecaster.load(file.parent)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    given = market()
    forecaster = small().fit(given.dataset, given.folds[0])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputDirectoryError, match=r"thesis\.txt"):
        forecaster.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    with pytest.raises(OutputDirectoryError, match="is a file"):
        forecaster.save(tmp_path / "mine" / "thesis.txt")
    forecaster.save(tmp_path / "own")
    forecaster.save(tmp_path / "own")  # an estimator may be replaced
