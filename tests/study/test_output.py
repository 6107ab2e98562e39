from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from quantattn.errors import OutputDirectoryError
from quantattn.study import Study, new_directory, newest_run, parse_study, resolved_yaml, run_directory
from quantattn.study.output import refuse_nothing_to_resume


def _study(name: str = "mine", **sections: object) -> Study:
    return parse_study({"name": name, "data": {"prices": "packaged:us_equities"}, **sections})


def _begin(path: Path, study: Study, *, resume: bool = False) -> None:
    with run_directory(path, study, resume=resume) as folder:
        (folder / "forecasts.parquet").write_text("rows")


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


class TestNewDirectory:
    def test_it_is_named_by_study_and_utc_time(self, tmp_path: Path) -> None:
        now = datetime(2024, 1, 2, 1, 30, 5, tzinfo=timezone(timedelta(hours=2)))
        assert new_directory(_study(), runs=tmp_path, now=now) == tmp_path / "mine-20240101-233005"

    def test_a_second_one_in_the_same_second_gets_a_number(self, tmp_path: Path) -> None:
        now = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
        (tmp_path / "mine-20240102-030405").mkdir()
        (tmp_path / "mine-20240102-030405-2").mkdir()
        assert new_directory(_study(), runs=tmp_path, now=now).name == "mine-20240102-030405-3"


class TestRunDirectory:
    @pytest.mark.parametrize("there", [False, True])
    def test_nothing_to_resume_is_refused_and_nothing_made(self, tmp_path: Path, there: bool) -> None:
        out = tmp_path / "nope"
        if there:
            out.mkdir()
        with pytest.raises(OutputDirectoryError, match=r"nothing to resume in '.*nope'; leave out --resume"):
            refuse_nothing_to_resume(out)
        assert out.exists() == there
        _begin(out, _study())
        refuse_nothing_to_resume(out)

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_new_folder_gets_the_resolved_study(self, tmp_path: Path, resume: bool) -> None:
        out = tmp_path / "deep" / "er"
        with run_directory(out, _study(), resume=resume) as folder:
            assert folder == out
            assert (folder / "study.yaml").read_text(encoding="utf-8") == resolved_yaml(_study())

    def test_a_quick_run_is_told_from_another_study(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study().quick())
        with pytest.raises(OutputDirectoryError, match="--quick run of this study; continue it with --quick"):
            _begin(tmp_path, _study(), resume=True)
        with pytest.raises(OutputDirectoryError, match="another study"):
            _begin(tmp_path, _study("other"), resume=True)

    def test_an_empty_folder_will_do(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study())
        assert (tmp_path / "study.yaml").is_file()

    def test_what_a_killed_write_left_does_not_count(self, tmp_path: Path) -> None:
        (tmp_path / ".study.yaml.x1.tmp").write_text("half")
        _begin(tmp_path, _study())

    def test_the_path_given_back_is_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with run_directory(Path("out"), _study(), resume=False) as folder:
            assert folder == tmp_path / "out"

    def test_the_same_run_resumes_and_its_study_file_is_not_rewritten(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study())
        before = (tmp_path / "study.yaml").stat().st_mtime_ns
        with run_directory(tmp_path, _study(), resume=True):
            pass
        assert (tmp_path / "study.yaml").stat().st_mtime_ns == before

    def test_without_resume_a_run_is_not_touched(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study())
        before = _tree(tmp_path)
        with (
            pytest.raises(
                OutputDirectoryError, match="already holds a run of this study; continue it with --resume"
            ),
            run_directory(tmp_path, _study(), resume=False),
        ):
            pytest.fail("it was claimed")
        assert _tree(tmp_path) == before

    @pytest.mark.parametrize("resume", [False, True])
    def test_another_study_is_refused_and_the_difference_named(self, tmp_path: Path, resume: bool) -> None:
        _begin(tmp_path, _study(training={"epochs": 3}))
        before = _tree(tmp_path)
        with (
            pytest.raises(OutputDirectoryError, match=r"another study: training\.epochs is 3 there, 4 here;"),
            run_directory(tmp_path, _study(training={"epochs": 4}), resume=resume),
        ):
            pytest.fail("it was claimed")
        assert _tree(tmp_path) == before

    def test_a_quick_run_is_not_the_full_run(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study().quick())
        with (
            pytest.raises(OutputDirectoryError, match="a --quick run of this study"),
            run_directory(tmp_path, _study(), resume=True),
        ):
            pytest.fail("it was claimed")

    def test_another_description_is_the_same_study(self, tmp_path: Path) -> None:
        _begin(tmp_path, _study())
        _begin(tmp_path, _study(description="said better"), resume=True)

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_folder_of_other_things_is_refused(self, tmp_path: Path, resume: bool) -> None:
        for name in ("a.txt", "b.txt", "c.txt", "d.txt"):
            (tmp_path / name).write_text("mine")
        before = _tree(tmp_path)
        with (
            pytest.raises(OutputDirectoryError, match=r"holds a\.txt, b\.txt, c\.txt and 1 more"),
            run_directory(tmp_path, _study(), resume=resume),
        ):
            pytest.fail("it was claimed")
        assert _tree(tmp_path) == before

    def test_a_run_with_an_unreadable_study_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text("name: [1\n")
        with (
            pytest.raises(OutputDirectoryError, match="whose study cannot be read"),
            run_directory(tmp_path, _study(), resume=True),
        ):
            pytest.fail("it was claimed")

    @pytest.mark.parametrize("below", ["", "deeper"])
    def test_a_file_in_the_way_is_refused(self, tmp_path: Path, below: str) -> None:
        (tmp_path / "file").write_text("mine")
        with (
            pytest.raises(OutputDirectoryError, match="is a file, not a folder"),
            run_directory(tmp_path / "file" / below, _study(), resume=False),
        ):
            pytest.fail("it was claimed")

    def test_a_dead_link_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "gone")
        with (
            pytest.raises(OutputDirectoryError, match="is a link to nothing"),
            run_directory(tmp_path / "link", _study(), resume=False),
        ):
            pytest.fail("it was claimed")

    @pytest.mark.parametrize("failure", [ValueError("bad data"), KeyboardInterrupt()])
    def test_a_run_that_fails_at_once_leaves_nothing(self, tmp_path: Path, failure: BaseException) -> None:
        with pytest.raises(type(failure)), run_directory(tmp_path / "runs" / "one", _study(), resume=False):
            raise failure
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_folder_of_the_users_stays_after_a_failure(self, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        with pytest.raises(ValueError, match="bad"), run_directory(tmp_path / "mine", _study(), resume=False):
            raise ValueError("bad")
        assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
        assert list((tmp_path / "mine").iterdir()) == []

    def test_a_neighbour_that_came_meanwhile_stays(self, tmp_path: Path) -> None:
        with (
            pytest.raises(ValueError, match="bad"),
            run_directory(tmp_path / "runs/one", _study(), resume=False),
        ):
            (tmp_path / "runs" / "two").mkdir()
            raise ValueError("bad")
        assert list(tmp_path.rglob("*")) == [tmp_path / "runs", tmp_path / "runs" / "two"]

    def test_a_run_that_fails_later_keeps_its_work(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="late"), run_directory(tmp_path / "one", _study(), resume=False):
            (tmp_path / "one" / "folds").mkdir()
            raise ValueError("late")
        assert sorted(file.name for file in (tmp_path / "one").iterdir()) == ["folds", "study.yaml"]

    def test_a_resumed_run_that_fails_at_once_keeps_its_study(self, tmp_path: Path) -> None:
        (tmp_path / "study.yaml").write_text(resolved_yaml(_study()))
        with pytest.raises(ValueError, match="bad"), run_directory(tmp_path, _study(), resume=True):
            raise ValueError("bad")
        assert (tmp_path / "study.yaml").is_file()


class TestNewestRun:
    def _run(self, runs: Path, name: str, study: Study, minute: int) -> Path:
        _begin(runs / name, study)
        stamp = 1_700_000_000 + 60 * minute
        os.utime(runs / name / "study.yaml", (stamp, stamp))
        return runs / name

    def test_the_one_begun_last_is_found_whatever_its_name(self, tmp_path: Path) -> None:
        self._run(tmp_path, "z", _study(), 1)
        newest = self._run(tmp_path, "a", _study(), 3)
        self._run(tmp_path, "m", _study(), 2)
        self._run(tmp_path, "other", _study("other"), 4)
        assert newest_run(_study(), runs=tmp_path) == newest

    def test_a_quick_run_finds_the_quick_one(self, tmp_path: Path) -> None:
        quick = self._run(tmp_path, "quick", _study().quick(), 1)
        full = self._run(tmp_path, "full", _study(), 2)
        assert newest_run(_study().quick(), runs=tmp_path) == quick
        assert newest_run(_study(), runs=tmp_path) == full

    def test_none_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(OutputDirectoryError, match="holds no run of study 'mine'"):
            newest_run(_study(), runs=tmp_path / "runs")

    def test_a_near_miss_is_explained_and_rubbish_passed_over(self, tmp_path: Path) -> None:
        (tmp_path / "rubbish").mkdir()
        (tmp_path / "rubbish" / "study.yaml").write_text("name: [1")
        self._run(tmp_path, "one", _study(seeds=[5]), 1)
        with pytest.raises(OutputDirectoryError, match=r"one' differs: seeds is \[5\] there, \[0\] here"):
            newest_run(_study(), runs=tmp_path)
