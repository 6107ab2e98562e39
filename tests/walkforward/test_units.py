"""A unit on disk is used again only when it is whole and came from the same inputs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from quantattn.errors import CheckpointError
from quantattn.walkforward import FORECAST_SCHEMA
from quantattn.walkforward.units import (
    Unit,
    check_unit,
    read_forecasts,
    read_log,
    read_unit,
    store_unit,
    write_unit,
)

UNIT = Unit(3, "linear", 7)
ROWS = pl.DataFrame({name: [None] for name in FORECAST_SCHEMA}, schema=FORECAST_SCHEMA).with_columns(
    pl.lit(0.1).alias("y_pred")
)
LOG = {"seconds": 0.25, "epochs": []}
INPUTS = "a" * 64


def weights(folder: Path) -> None:
    (folder / "weights.safetensors").write_bytes(b"12345678")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_unit(UNIT, tmp_path, inputs=INPUTS, forecasts=ROWS, log=LOG, extra=weights)
    return tmp_path


def test_layout(run: Path) -> None:
    folder = UNIT.folder(run)
    assert folder == run / "folds" / "3" / "linear-7"
    assert sorted(file.name for file in folder.iterdir()) == [
        "forecasts.parquet",
        "log.json",
        "unit.json",
        "weights.safetensors",
    ]
    record = json.loads((folder / "unit.json").read_text(encoding="utf-8"))
    assert record["schema"] == 2
    assert record["inputs"] == INPUTS
    assert sorted(record["files"]) == ["forecasts.parquet", "log.json", "weights.safetensors"]
    assert [file.name for file in (run / "folds" / "3").iterdir()] == ["linear-7"]


def test_round_trip(run: Path) -> None:
    assert check_unit(UNIT, run, inputs=INPUTS) is None
    assert_frame_equal(read_forecasts(UNIT, run), ROWS)
    assert read_log(UNIT, run) == LOG


def test_bytes_are_the_same_each_time(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_unit(UNIT, other, inputs=INPUTS, forecasts=ROWS, log=LOG, extra=weights)
    for file in UNIT.folder(run).iterdir():
        assert file.read_bytes() == (UNIT.folder(other) / file.name).read_bytes()


def test_a_unit_without_more_files(tmp_path: Path) -> None:
    unit = Unit(0, "mean", 0)
    write_unit(unit, tmp_path, inputs=INPUTS, forecasts=ROWS, log=LOG)
    assert check_unit(unit, tmp_path, inputs=INPUTS) is None


def test_writing_again_replaces_the_old_whole(run: Path) -> None:
    write_unit(UNIT, run, inputs="b" * 64, forecasts=ROWS, log=LOG)
    assert check_unit(UNIT, run, inputs="b" * 64) is None
    assert not (UNIT.folder(run) / "weights.safetensors").exists()


def test_a_failure_while_writing_leaves_the_old(run: Path) -> None:
    def fail(folder: Path) -> None:
        weights(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_unit(UNIT, run, inputs="b" * 64, forecasts=ROWS, log=LOG, extra=fail)
    assert check_unit(UNIT, run, inputs=INPUTS) is None
    assert [file.name for file in (run / "folds" / "3").iterdir()] == ["linear-7"]


def test_absent(tmp_path: Path) -> None:
    assert check_unit(UNIT, tmp_path, inputs=INPUTS) == "absent"


def edit_record(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        file = folder / "unit.json"
        record = json.loads(file.read_text(encoding="utf-8"))
        for name, value in changes.items():
            if value is None:
                del record[name]
            else:
                record[name] = value
        file.write_text(json.dumps(record), encoding="utf-8")

    return edit


def overwrite(name: str, content: bytes) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return edit


def flip(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return edit


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - 3)


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def to_folder(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return edit


def without_forecasts(folder: Path) -> None:
    """A folder whose record is consistent, but which is no unit."""
    record = json.loads((folder / "unit.json").read_text(encoding="utf-8"))
    del record["files"]["forecasts.parquet"]
    (folder / "forecasts.parquet").unlink()
    (folder / "unit.json").write_text(json.dumps(record), encoding="utf-8")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "forecasts altered": (flip("forecasts.parquet"), "forecasts.parquet was altered or cut short"),
    "forecasts cut": (cut("forecasts.parquet"), "forecasts.parquet was altered or cut short"),
    "forecasts empty": (overwrite("forecasts.parquet", b""), "forecasts.parquet was altered or cut short"),
    "log altered": (flip("log.json"), "log.json was altered or cut short"),
    "weights cut": (cut("weights.safetensors"), "weights.safetensors was altered or cut short"),
    "weights gone": (remove("weights.safetensors"), "files are missing or strange"),
    "forecasts gone": (remove("forecasts.parquet"), "files are missing or strange"),
    "a stranger's file": (overwrite("notes.txt", b"hello"), "files are missing or strange"),
    "half-written file": (overwrite(".log.json.0a.tmp", b"{"), "files are missing or strange"),
    "no forecasts in the record": (without_forecasts, "files are missing or strange"),
    "a folder for a file": (to_folder("log.json"), "log.json cannot be read"),
    "record gone": (remove("unit.json"), "its record cannot be read"),
    "record a folder": (to_folder("unit.json"), "its record cannot be read"),
    "record empty": (overwrite("unit.json", b""), "its record cannot be read"),
    "record cut": (cut("unit.json"), "its record cannot be read"),
    "record not text": (overwrite("unit.json", b"\xff\xfe\x00"), "its record cannot be read"),
    "record a list": (overwrite("unit.json", b"[1, 2]"), "its record cannot be read"),
    "record null": (overwrite("unit.json", b"null"), "its record cannot be read"),
    "files a list": (edit_record(files=["log.json"]), "its record cannot be read"),
    "files a text": (edit_record(files="log.json"), "its record cannot be read"),
    "no files": (edit_record(files=None), "its record cannot be read"),
    "no inputs": (edit_record(inputs=None), "its record cannot be read"),
    "no schema": (edit_record(schema=None), "its record cannot be read"),
    "another schema": (edit_record(schema=1), "it was written in schema 1"),
    "other inputs": (edit_record(inputs="c" * 64), "data, code, settings or versions have changed"),
    "a wrong digest": (
        edit_record(files={"forecasts.parquet": "", "log.json": "", "weights.safetensors": ""}),
        "was altered or cut short",
    ),
    "names that climb": (edit_record(files={"../../../study.yaml": ""}), "files are missing or strange"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said(run: Path, damage: str) -> None:
    hurt, reason = DAMAGES[damage]
    hurt(UNIT.folder(run))
    said = check_unit(UNIT, run, inputs=INPUTS)
    assert said is not None
    assert reason in said


def test_a_cut_last_line_of_the_record_is_noticed(run: Path) -> None:
    """Only the line end may be missing from the record without a loss."""
    file = UNIT.folder(run) / "unit.json"
    whole = file.read_bytes()
    for length in range(len(whole) - 1):
        file.write_bytes(whole[:length])
        assert (check_unit(UNIT, run, inputs=INPUTS) is None) == (whole[:length] == whole.rstrip()), length


def test_a_unit_of_other_inputs(run: Path) -> None:
    assert check_unit(UNIT, run, inputs="d" * 64) == (
        "data, code, settings or versions have changed since it was written"
    )


def test_another_units_folder_in_its_place(run: Path) -> None:
    """What one seed learned is not taken for another's: the inputs tell them apart."""
    other = Unit(3, "linear", 8)
    shutil.copytree(UNIT.folder(run), other.folder(run))
    assert check_unit(other, run, inputs="e" * 64) is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "cannot be read"), (b"PAR1nonsense", "cannot be read"), (None, "cannot be read")],
)
def test_forecasts_that_cannot_be_read(run: Path, content: bytes | None, said: str) -> None:
    file = UNIT.folder(run) / "forecasts.parquet"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{said}.*run again with --resume"):
        read_forecasts(UNIT, run)


@pytest.mark.parametrize(
    "frame",
    [
        ROWS.drop("info_hash"),
        ROWS.with_columns(pl.lit(1).alias("more")),
        ROWS.select(reversed(ROWS.columns)),
        ROWS.with_columns(pl.col("seed").cast(pl.Int64)),
    ],
)
def test_forecasts_of_another_schema(run: Path, frame: pl.DataFrame) -> None:
    frame.write_parquet(UNIT.folder(run) / "forecasts.parquet")
    with pytest.raises(CheckpointError, match=r"not those of a forecasts table.*run again with --resume"):
        read_forecasts(UNIT, run)


@pytest.mark.parametrize("content", [b"", b"{", b"3", b"\xff"])
def test_a_log_that_cannot_be_read(run: Path, content: bytes) -> None:
    (UNIT.folder(run) / "log.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"log\.json cannot be read.*run again with --resume"):
        read_log(UNIT, run)


# --- units that travel --------------------------------------------------------------------------------------


def test_a_unit_that_travels_is_the_same(run: Path, tmp_path: Path) -> None:
    files = read_unit(UNIT, run)
    store_unit(UNIT, tmp_path / "here", files)
    assert read_unit(UNIT, tmp_path / "here") == files
    assert check_unit(UNIT, tmp_path / "here", inputs=INPUTS) is None


@pytest.mark.parametrize("how", ["altered", "missing", "strange", "no record", "torn record"])
def test_a_unit_that_came_broken_is_refused_and_nothing_is_written(
    run: Path, tmp_path: Path, how: str
) -> None:
    files = read_unit(UNIT, run)
    if how == "altered":
        files["log.json"] += b" "
    elif how == "missing":
        del files["log.json"]
    elif how == "strange":
        files["more.bin"] = b""
    elif how == "no record":
        del files["unit.json"]
    else:
        files["unit.json"] = files["unit.json"][:-5]
    with pytest.raises(CheckpointError, match="run it again"):
        store_unit(UNIT, tmp_path / "here", files)
    assert not UNIT.folder(tmp_path / "here").exists()
