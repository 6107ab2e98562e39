"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from pathlib import Path

import pytest

from quantattn import files

POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")


def names(folder: Path) -> list[str]:
    """Everything in a folder, hidden temporaries included."""
    return sorted(entry.name for entry in folder.iterdir())


def full_disk(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# --- one file -------------------------------------------------------------------------------------


def test_bytes_and_text_arrive_as_given(tmp_path):
    files.write_bytes(tmp_path / "b", b"\x00\r\n\xff")
    files.write_text(tmp_path / "t", "Σ é\r\n\n")
    assert (tmp_path / "b").read_bytes() == b"\x00\r\n\xff"
    assert (tmp_path / "t").read_bytes() == b"\xce\xa3 \xc3\xa9\r\n\n"
    assert names(tmp_path) == ["b", "t"]


def test_missing_folders_are_made(tmp_path):
    files.write_text(tmp_path / "a" / "b" / "c.txt", "x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"


def test_an_old_file_is_replaced_whole(tmp_path):
    path = tmp_path / "f"
    path.write_text("old and longer")
    files.write_text(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["f"]


def test_the_old_file_is_there_until_the_end(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    with files.atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path  # a rename across file systems would not be atomic
        assert temporary != path
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", [None, "old"])
def test_a_failing_body_leaves_everything_as_it_was(tmp_path, error, old):
    path = tmp_path / "f"
    if old is not None:
        path.write_text(old)
    with pytest.raises(error), files.atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error
    assert names(tmp_path) == ([] if old is None else ["f"])
    assert old is None or path.read_text() == old


@pytest.mark.parametrize("step", ["write_bytes", "touch", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_temporaries(tmp_path, monkeypatch, step):
    path = tmp_path / "f"
    path.write_text("old")
    monkeypatch.setattr(Path, step, full_disk)
    with pytest.raises(OSError, match="No space left") as caught:
        files.write_text(path, "new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_a_disk_that_fills_up_in_the_middle_leaves_no_half_file(tmp_path, monkeypatch):
    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as handle:
            handle.write(content[: len(content) // 2])
        full_disk()

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(tmp_path / "f.json", {"a": list(range(100))})
    assert names(tmp_path) == []


def test_a_disk_that_fails_to_flush_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_content_is_flushed_before_the_rename(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append("rename"), replace(self, to))[1])
    files.write_text(tmp_path / "f", "x")
    assert steps[:2] == ["fsync", "rename"]


def test_two_writers_never_share_a_temporary_file(tmp_path):
    path = tmp_path / "f"
    with files.atomic_path(path) as first, files.atomic_path(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    # The inner one finishes first, so the outer one is the last whole write.
    assert path.read_text() == "first"
    assert names(tmp_path) == ["f"]


@POSIX
def test_the_mode_is_what_the_umask_asks_for(tmp_path):
    umask = os.umask(0o027)
    try:
        files.write_text(tmp_path / "f", "x")
        with files.atomic_directory(tmp_path / "d"):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750


def test_a_parent_that_is_a_file_is_refused_and_kept(tmp_path):
    (tmp_path / "f").write_text("keep")
    with pytest.raises(OSError):
        files.write_text(tmp_path / "f" / "g", "x")
    assert (tmp_path / "f").read_text() == "keep"


# --- a folder -------------------------------------------------------------------------------------


def fill(folder: Path, text: str) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text(text)


def test_a_folder_arrives_whole_and_replaces_the_old_one(tmp_path):
    target = tmp_path / "d"
    for text in ("one", "two"):
        with files.atomic_directory(target) as temporary:
            assert temporary.parent == tmp_path
            fill(temporary, text)
            assert text == "one" or (target / "deep" / "file").read_text() == "one"
        assert (target / "deep" / "file").read_text() == text
        assert names(tmp_path) == ["d"]


def test_nothing_of_the_old_folder_survives_a_replacement(tmp_path):
    target = tmp_path / "d"
    target.mkdir()
    (target / "stale").write_text("x")
    with files.atomic_directory(target) as temporary:
        (temporary / "fresh").write_text("y")
    assert names(target) == ["fresh"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failing_body_leaves_the_old_folder(tmp_path, error):
    target = tmp_path / "d"
    target.mkdir()
    (target / "old").write_text("x")
    with pytest.raises(error), files.atomic_directory(target) as temporary:
        fill(temporary, "half")
        raise error
    assert names(tmp_path) == ["d"]
    assert names(target) == ["old"]


def test_a_failing_rename_puts_the_old_folder_back(tmp_path, monkeypatch):
    target = tmp_path / "d"
    target.mkdir()
    (target / "old").write_text("x")
    replace = Path.replace

    def fail_for_the_new_one(self: Path, to: Path) -> Path:
        if to == target and (self / "deep").exists():
            full_disk()
        return replace(self, to)

    monkeypatch.setattr(Path, "replace", fail_for_the_new_one)
    with pytest.raises(OSError, match="No space left"), files.atomic_directory(target) as temporary:
        fill(temporary, "new")
    assert names(tmp_path) == ["d"]
    assert names(target) == ["old"]


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(tmp_path):
    target = tmp_path / "d"
    target.write_text("precious")
    refused = pytest.raises(NotADirectoryError, match="a file stands where a folder shall be")
    with refused, files.atomic_directory(target):
        pytest.fail("the body must not run")
    assert target.read_text() == "precious"
    assert names(tmp_path) == ["d"]


# --- JSON and hashes ------------------------------------------------------------------------------


def test_canonical_json_is_one_text_whatever_the_order():
    value = {"b": [1, 2.5, None, True], "a": "Σ"}
    assert files.canonical_json(value) == files.canonical_json(dict(reversed(value.items())))
    assert files.canonical_json({"b": 1, "a": "Σ"}) == '{\n  "a": "Σ",\n  "b": 1\n}\n'
    assert json.loads(files.canonical_json(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_canonical_json_refuses_what_json_cannot_say(tmp_path, value):
    with pytest.raises(ValueError, match="JSON"):
        files.canonical_json({"x": [value]})
    (tmp_path / "f").write_text("old")
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "f", {"x": value})
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_hashes_are_sha256(tmp_path):
    # The digests that FIPS 180-2 prints for these messages.
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.hash_bytes(b"") == empty
    assert files.hash_bytes(b"abc") == abc
    (tmp_path / "f").write_bytes(b"abc")
    assert files.hash_file(tmp_path / "f") == abc


def test_a_long_file_hashes_like_its_bytes(tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "f").write_bytes(content)
    assert files.hash_file(tmp_path / "f") == hashlib.sha256(content).hexdigest()


def test_hash_json_sees_content_and_not_order():
    assert files.hash_json({"a": 1, "b": 2}) == files.hash_json({"b": 2, "a": 1})
    assert files.hash_json({"a": 1}) != files.hash_json({"a": 2})
    assert files.hash_json({"a": 1}) == hashlib.sha256(b'{\n  "a": 1\n}\n').hexdigest()
