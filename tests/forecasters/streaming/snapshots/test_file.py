"""Snapshot files: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from quantattn.errors import CheckpointError
from quantattn.forecasters.streaming.snapshots import file as snapshot_file
from quantattn.forecasters.streaming.snapshots.file import read_snapshot, write_snapshot

ARRAYS: dict[str, Any] = {
    "S": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "z": np.array([math.nan, -0.0, math.inf], np.float64),
    "count": np.array(7, np.int64),
    "none": np.zeros((0, 3), np.uint8),
    "flags": np.array([True, False]),
}
META = {
    "as_of": 1_577_923_200_000_000_001,
    "weights_sha256": "ab" * 32,
    "names": ["é", "\ud800", "a\nb"],
    "x": None,
}


def written(path: Path) -> bytes:
    write_snapshot(path, ARRAYS, META)
    return path.read_bytes()


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return ours.keys() == theirs.keys() and all(
        ours[k].dtype == theirs[k].dtype
        and ours[k].shape == theirs[k].shape
        and ours[k].tobytes() == theirs[k].tobytes()
        for k in ours
    )


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    write_snapshot(str(tmp_path / "new" / "a.safetensors"), ARRAYS, META)
    arrays, meta = read_snapshot(str(tmp_path / "new" / "a.safetensors"))
    assert same(arrays, ARRAYS) and meta == META
    arrays["S"][0] = 9  # writable, and nobody else's
    assert same(read_snapshot(tmp_path / "new" / "a.safetensors")[0], ARRAYS)
    # Any reader of safetensors can look at the tensors.
    assert same(load((tmp_path / "new" / "a.safetensors").read_bytes()), ARRAYS)


def test_equal_contents_are_equal_bytes(tmp_path: Path) -> None:
    first = written(tmp_path / "a")
    write_snapshot(tmp_path / "b", dict(reversed(ARRAYS.items())), dict(reversed(META.items())))
    assert (tmp_path / "b").read_bytes() == first
    write_snapshot(tmp_path / "b", {**ARRAYS, "count": np.array(8)}, META)  # an older file is replaced
    assert (tmp_path / "b").read_bytes() != first
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_empty_and_foreign_layouts(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_snapshot(path, {}, {})
    assert read_snapshot(path) == ({}, {})
    grid = np.arange(12, dtype=">i4").reshape(3, 4).T[::2]
    write_snapshot(path, {"grid": grid}, {})
    found = read_snapshot(path)[0]["grid"]
    assert found.dtype == np.dtype("<i4") and found.tolist() == [[0, 4, 8], [2, 6, 10]]


@given(
    arrays=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(
            lambda n: n != "__metadata__"
        ),
        hnp.arrays(
            st.sampled_from(["?", "i1", "u2", "i4", "u8", "i8", "f2", "f4", "f8"]).map(np.dtype),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    ),
    meta=st.dictionaries(
        st.text(),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    ),
)
@settings(max_examples=80, deadline=None)
def test_any_contents(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any], meta: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    write_snapshot(path, arrays, meta)
    found, described = read_snapshot(path)
    assert same(found, arrays) and described == meta


# --- damage -----------------------------------------------------------------------------------------------


def refused(path: Path, content: bytes, message: str = "") -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message or "take an older snapshot, or replay the log"):
        read_snapshot(path)


def test_cut_anywhere(tmp_path: Path) -> None:
    whole = written(tmp_path / "a")
    for size in range(len(whole)):
        refused(tmp_path / "b", whole[:size])
    for tail in (b"\0", b" ", whole):
        refused(tmp_path / "b", whole + tail)
    refused(tmp_path / "b", whole[1:])
    (tmp_path / "b").write_bytes(whole)
    read_snapshot(tmp_path / "b")


def test_any_bit_flipped(tmp_path: Path) -> None:
    """The length, the header with its blanks, and the tensors: every bit of the file."""
    write_snapshot(tmp_path / "a", {"S": np.arange(3.0), "n": np.array([True])}, {"as_of": 1})
    whole = (tmp_path / "a").read_bytes()
    assert b"} " in whole  # a blank fills the header up
    for place in range(len(whole)):
        for bit in range(8):
            refused(tmp_path / "b", whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])


def test_bytes_at_random(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    whole = written(tmp_path / "a")
    for _ in range(300):
        changed = bytearray(whole)
        for place in generator.integers(0, len(whole), generator.integers(1, 9)):
            changed[place] = generator.integers(256)
        if bytes(changed) != whole:
            refused(tmp_path / "b", bytes(changed))
        refused(tmp_path / "b", generator.bytes(int(generator.integers(0, 200))))


def rebuilt(content: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A well-formed file whose description and tensors were changed by hand."""
    size = struct.unpack("<Q", content[:8])[0]
    said = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["snapshot"])
    arrays = load(content)
    change(said, arrays)
    return save(arrays, metadata={"snapshot": json.dumps(said, sort_keys=True, separators=(",", ":"))})


def test_hand_made_files(tmp_path: Path) -> None:
    whole = written(tmp_path / "a")
    assert rebuilt(whole, lambda said, arrays: None) == whole  # the control: this is how files are made
    altered = (
        "was altered after it was written, or its tensors and description are those of different snapshots"
    )
    changes: list[tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = [
        (lambda said, arrays: said.update(schema=0), "has schema 0, this version reads 1"),
        (lambda said, arrays: said.update(schema=2), "has schema 2, this version reads 1"),
        (lambda said, arrays: said.update(schema=True), "has schema True, this version reads 1"),
        (lambda said, arrays: said.update(schema="1"), "has schema '1', this version reads 1"),
        (lambda said, arrays: said.update(kind="other"), "holds 'other', not a quantattn.streaming.snapshot"),
        (lambda said, arrays: said.pop("schema"), "is no snapshot"),
        (lambda said, arrays: said.pop("digest"), altered),
        (lambda said, arrays: said.update(digest="0" * 64), altered),
        (lambda said, arrays: said.update(more=1), altered),
        (lambda said, arrays: said.pop("meta"), "cut short or altered"),
        (lambda said, arrays: said.update(meta=3), "cut short or altered"),
        (lambda said, arrays: said["meta"].update(as_of=0), altered),
        (lambda said, arrays: arrays.pop("S"), altered),
        (lambda said, arrays: arrays.update(more=arrays["S"]), altered),
        (lambda said, arrays: arrays.update(S=arrays["S"].astype(np.float64)), altered),
        (lambda said, arrays: arrays.update(S=arrays["S"].reshape(3, 2, 4)), altered),
        (lambda said, arrays: arrays.update(S=arrays["S"].view(np.int32)), altered),
        (lambda said, arrays: arrays.update(z=arrays["S"], S=arrays["z"]), altered),
    ]
    for change, message in changes:
        refused(tmp_path / "b", rebuilt(whole, change), message)


def test_parts_of_two_snapshots(tmp_path: Path) -> None:
    whole = written(tmp_path / "a")
    others = {**ARRAYS, "S": ARRAYS["S"] + 1}
    write_snapshot(tmp_path / "c", others, META)
    refused(tmp_path / "b", rebuilt(whole, lambda said, arrays: arrays.update(others)), "different snapshots")


@pytest.mark.parametrize(
    "header",
    [
        b"", b"{}", b"[]", b"3", b"null", b'{"__metadata__":{}}', b'{"__metadata__":{"snapshot":"{}"}}',
        b'{"__metadata__":{"snapshot":"[]"}}', b'{"__metadata__":{"snapshot":3}}', b'{"__metadata__":3}',
        b"[" * 100_000, b"\xff\xfe", b"9" * 5000,
    ],
)  # fmt: skip
def test_headers_that_are_none(tmp_path: Path, header: bytes) -> None:
    refused(tmp_path / "b", struct.pack("<Q", len(header)) + header)
    refused(tmp_path / "b", struct.pack("<Q", 2**64 - 1) + header)


def test_weights_are_no_snapshot(tmp_path: Path) -> None:
    refused(tmp_path / "b", save({"S": ARRAYS["S"]}), "is no snapshot")
    refused(tmp_path / "b", save({"S": ARRAYS["S"]}, metadata={"snapshot": "x"}), "is no snapshot")


# --- what is no file --------------------------------------------------------------------------------------


def test_links_folders_and_nothing(tmp_path: Path) -> None:
    whole = written(tmp_path / "a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    said = {"folder": "a folder", "link": "a link", "dangling": "a link", "pipe": "no regular file"}
    for name, what in said.items():
        with pytest.raises(CheckpointError, match=f"{name} is {what}, not the file"):
            read_snapshot(tmp_path / name)
        with pytest.raises(CheckpointError, match=f"{name} is {what}, not a file; choose another name"):
            write_snapshot(tmp_path / name, ARRAYS, META)
    with pytest.raises(CheckpointError, match="nothing is missing"):
        read_snapshot(tmp_path / "nothing")
    assert (tmp_path / "a").read_bytes() == whole and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]), np.array([None]), np.array([1j]), np.array([b"x"]), np.zeros(1, np.longdouble),
        np.zeros(1, "datetime64[ns]"), np.zeros(1, [("a", "f4")]), [1.0], 3.0,
    ],
)  # fmt: skip
def test_other_arrays_are_not_written(tmp_path: Path, array: Any) -> None:
    with pytest.raises(CheckpointError, match=r"'x' is .*, and a snapshot holds arrays of"):
        write_snapshot(tmp_path / "a", {"x": array}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "meta", [{"x": math.nan}, {"x": math.inf}, {"x": {1, 2}}, {"x": np.int64(3)}, {"x": b""}]
)
def test_other_descriptions_are_not_written(tmp_path: Path, meta: Any) -> None:
    with pytest.raises(CheckpointError, match="cannot be written as JSON"):
        write_snapshot(tmp_path / "a", {}, meta)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "__metadata__", 3])
def test_other_names_are_not_written(tmp_path: Path, name: Any) -> None:
    with pytest.raises(CheckpointError, match="cannot be the name of an array"):
        write_snapshot(tmp_path / "a", {name: ARRAYS["S"]}, {})


def test_a_write_that_fails_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = written(tmp_path / "a")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot_file, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_snapshot(tmp_path / "a", {}, {})
    assert (tmp_path / "a").read_bytes() == whole
