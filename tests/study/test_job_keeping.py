"""What a run keeps, and whom it lets near it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from quantattn.errors import OutputDirectoryError
from quantattn.files import exclusive_directory, write_json
from quantattn.study import SilentProgress, job, keeping, parse_study
from quantattn.walkforward.planning import Task
from quantattn.walkforward.units import RECORD, Unit, check_unit, trials_file, write_unit

DONE = {"verdict": "FAIL", "checks": []}


def kept(path: Path) -> dict[str, object]:
    return keeping.kept(path, "inputs", True, lambda: dict(DONE))


def test_a_folder_at_work_lets_no_second_run_in(tmp_path: Path) -> None:
    study = parse_study({"name": "s", "data": {"prices": "packaged:us_equities"}})
    with (
        exclusive_directory(tmp_path),
        pytest.raises(OutputDirectoryError, match="another run is at work") as error,
    ):
        job.run_study(study, out=tmp_path, quick=False, resume=True, progress=SilentProgress(), command="")
    assert str(tmp_path) in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_lets_go_of_its_folder(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from quantattn.files import exclusive_directory\n"
        "with exclusive_directory(Path(sys.argv[1])):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline().strip() == b"held"
        with pytest.raises(BlockingIOError), exclusive_directory(tmp_path):
            pass
        process.kill()
        process.wait()
    with exclusive_directory(tmp_path):
        pass


def test_a_whole_result_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    first = kept(path)
    calls: list[int] = []
    again = keeping.kept(path, "inputs", True, lambda: calls.append(1) or {})
    assert again == first == {**DONE, "inputs": "inputs"}
    assert calls == []


@pytest.mark.parametrize("tampered", [{"verdict": "PASS", "checks": []}, {"curve": []}, {}])
def test_a_result_that_was_altered_is_made_again(tmp_path: Path, tampered: dict[str, object]) -> None:
    path = tmp_path / "audit.json"
    whole = kept(path)
    rest = {name: value for name, value in json.loads(path.read_text()).items() if name not in DONE}
    write_json(path, {**rest, **tampered})
    assert kept(path) == whole


@pytest.mark.parametrize("content", ["[" * 200_000, "", "null", "{"])
def test_a_result_that_cannot_be_read_is_made_again(tmp_path: Path, content: str) -> None:
    path = tmp_path / "audit.json"
    path.write_text(content)
    assert kept(path)["verdict"] == "FAIL"


def test_a_record_of_nothing_but_brackets_is_no_record(tmp_path: Path) -> None:
    unit = Unit(0, "har", 0)
    unit.folder(tmp_path).mkdir(parents=True)
    (unit.folder(tmp_path) / RECORD).write_text("[" * 200_000)
    assert check_unit(unit, tmp_path, inputs="i") == "its record cannot be read"


def test_only_what_a_run_wrote_is_removed(tmp_path: Path) -> None:
    mine = tmp_path / "folds" / "99" / "mine" / "notes.txt"
    stale = Unit(7, "har", 0).folder(tmp_path) / RECORD
    for file in (mine, stale):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    trials = [trials_file(Unit(fold, "linear", 0), tmp_path) for fold in (0, 7)]
    for file in trials:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    keeping.drop_unplanned(tmp_path, [Unit(0, "har", 0), Unit(0, "linear", 0)])
    assert mine.exists()
    assert [file.exists() for file in trials] == [True, False]
    assert not stale.parent.exists()


def test_results_of_forecasts_that_are_made_again_go_before(tmp_path: Path) -> None:
    unit = Unit(0, "har", 0)
    rows = pl.DataFrame({"y_pred": [1.0]})
    write_unit(unit, tmp_path, inputs="now", forecasts=rows, log={})
    names = [*keeping.MADE_FROM_FORECASTS, keeping.FORECASTS, "study.yaml"]

    def left(tasks: list[Task]) -> list[str]:
        for name in names:
            (tmp_path / name).write_text("{}")
        keeping.drop_stale_results(tmp_path, tasks)
        return [name for name in names if (tmp_path / name).exists()]

    assert left([Task(unit, "now")]) == names
    others = [keeping.FORECASTS, "study.yaml"]
    assert left([Task(unit, "changed since")]) == others
    assert left([Task(unit, "now"), Task(Unit(1, "har", 0), "now")]) == others  # one is absent
    (unit.folder(tmp_path) / "log.json").write_text("altered")
    assert left([Task(unit, "now")]) == others
