"""Data that workers share through files: equal to what was packed, in values, types and places in memory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from polars.testing import assert_frame_equal

from quantattn.errors import CheckpointError
from quantattn.forecasters.baselines import EventSequences
from quantattn.walkforward.engines.arrays import map_arrays, pack_arrays, unpack_arrays
from quantattn.walkforward.engines.shared import (
    ARRAYS,
    LAYOUT,
    SharedTokens,
    map_work,
    pack_work,
    unpack_work,
    write_files,
)
from quantattn.walkforward.running import Work

from ..market import market, settings_of

SIZED: dict[str, npt.NDArray[Any]] = {
    "one": np.arange(3, dtype=np.float32),
    "no rows": np.zeros((0, 4), np.float32),
    "no columns": np.zeros((5, 0), np.float32),
    "table": np.arange(12, dtype=np.int64).reshape(3, 4),
    "scalar": np.array(2.5),
    "last": np.array([np.nan, np.inf, -0.0]),
}


def work(*, sequences: bool = True) -> Work:
    world = market()
    table = world.table
    if sequences:
        table = dataclasses.replace(table, sequences=EventSequences.of(world.history))
    return Work(world.history, table, world.folds, settings_of())


# --- arrays -----------------------------------------------------------------------------------------------


def test_the_file_is_a_safetensors_file(tmp_path: Path) -> None:
    """Read by the format's own library, with the same values."""
    (tmp_path / "a").write_bytes(pack_arrays(SIZED))
    theirs = safetensors.numpy.load_file(tmp_path / "a")
    ours = map_arrays(tmp_path / "a")
    assert list(ours) == list(SIZED)
    for name, array in SIZED.items():
        for found in (theirs[name], ours[name]):
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(found, array)


def test_arrays_begin_at_multiples_of_64_bytes_and_writing_stays_here(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(pack_arrays(SIZED))
    before = (tmp_path / "a").read_bytes()
    found = map_arrays(tmp_path / "a")
    assert all(array.ctypes.data % 64 == 0 for array in found.values() if array.size)
    found["table"][:] = -1
    assert (tmp_path / "a").read_bytes() == before
    assert map_arrays(tmp_path / "a")["table"].max() == 11


@given(
    st.lists(
        st.sampled_from(["float32", "float64", "int64", "uint8"]).flatmap(
            lambda name: arrays_of.arrays(name, arrays_of.array_shapes(min_dims=1, max_dims=3, min_side=0))
        ),
        max_size=5,
    )
)
def test_any_arrays_come_back(given: list[npt.NDArray[Any]]) -> None:
    named = {f"array {number}": array for number, array in enumerate(given)}
    found = unpack_arrays(np.frombuffer(pack_arrays(named), np.uint8))
    assert list(found) == list(named)
    for name, array in named.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\xff" * 8, b"\x02\0\0\0\0\0\0\0{]", b"x" * 100])
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CheckpointError, match="holds no arrays"):
        map_arrays(tmp_path / "a")


# --- work -------------------------------------------------------------------------------------------------


def opened(packed: dict[str, bytes], how: str, folder: Path, whole: Work) -> Work:
    if how == "mapped":
        write_files(packed, folder)
        return map_work(folder, whole.folds, whole.settings)
    buffers = {name: np.frombuffer(content, np.uint8) for name, content in packed.items()}
    return unpack_work(buffers, whole.folds, whole.settings)


@pytest.mark.parametrize("how", ["mapped", "in memory"])
@pytest.mark.parametrize("sequences", [True, False])
def test_work_comes_back_the_same(tmp_path: Path, how: str, sequences: bool) -> None:
    whole = work(sequences=sequences)
    again = opened(pack_work(whole), how, tmp_path, whole)
    assert again.history.features == whole.history.features
    assert again.history.scope == whole.history.scope == "entity+market"
    assert list(again.history.entities) == list(whole.history.entities)
    pairs = [
        (getattr(again.history, name), getattr(whole.history, name))
        for name in ("samples", "as_of", "events")
    ]
    pairs += [
        (getattr(again.table, name), getattr(whole.table, name)) for name in ("samples", "as_of", "bars")
    ]
    for entity, own in whole.history.entities.items():
        other = again.history.entities[entity]
        pairs.append((other.events, own.events))
        for name in ("event_times", "text", "rows", "query_times"):
            array, expected = getattr(other, name), getattr(own, name)
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)
            assert array.flags.writeable  # torch warns of what is not
    for one, other_frame in pairs:
        assert one.schema == other_frame.schema
        assert_frame_equal(one, other_frame)
        # Sums of floats may depend on where a chunk begins.
        assert [len(part) for part in one.iter_slices()] == [len(part) for part in other_frame.iter_slices()]
        assert one.n_chunks("all") == other_frame.n_chunks("all")
    for name in ("kind", "horizon", "log"):
        assert getattr(again.table, name) == getattr(whole.table, name)
    assert (again.table.sequences is not None) is sequences
    np.testing.assert_array_equal(again.target, whole.target)


@pytest.mark.parametrize("scope", ["entity", "market"])
def test_the_scope_comes_back_too(tmp_path: Path, scope: Any) -> None:
    """Without it a worker would send market-wide events to networks that never saw any."""
    whole = work()
    narrow = dataclasses.replace(whole, history=dataclasses.replace(whole.history, scope=scope))
    again = opened(pack_work(narrow), "mapped", tmp_path, narrow)
    assert again.history.scope == scope
    tokens = SharedTokens(narrow, tmp_path)
    assert [tokens(narrow.folds[1]).encoders.scope for _ in range(2)] == [scope, scope]


def test_frames_in_chunks_stay_in_chunks(tmp_path: Path) -> None:
    whole = work()
    events = whole.history.events
    parts = pl.concat([events[:7], events[7:30], events[30:]], rechunk=False)
    chunked = dataclasses.replace(whole, history=dataclasses.replace(whole.history, events=parts))
    again = opened(pack_work(chunked), "mapped", tmp_path, chunked)
    assert parts.n_chunks() == again.history.events.n_chunks() == 3
    assert_frame_equal(again.history.events, events)


def test_frames_that_are_one_are_written_once() -> None:
    whole = work()
    assert whole.table.samples is whole.history.samples
    packed = pack_work(whole)
    names = set(packed) - {LAYOUT, ARRAYS}
    entities = len(whole.history.entities)
    assert names == {"samples.arrow", "as_of.arrow", "events.arrow", "bars.arrow"} | {
        f"sequence{number}.arrow" for number in range(entities)
    }
    assert json.loads(packed[LAYOUT])["frames"]["table_samples"] == "samples.arrow"


# --- tokens -----------------------------------------------------------------------------------------------


def test_tokens_are_made_once_and_come_back_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = work()
    made: list[int] = []
    honest = Work.tokens

    def counted(self: Work, fold: Any) -> Any:
        made.append(fold.index)
        return honest(self, fold)

    monkeypatch.setattr(Work, "tokens", counted)
    one, other = SharedTokens(whole, tmp_path), SharedTokens(whole, tmp_path)
    fold = whole.folds[1]
    found = [one(fold), other(fold), one(fold)]
    assert made == [1]
    expected = honest(whole, fold)
    for tokens in found:
        assert tokens.encoders.events.to_dict() == expected.encoders.events.to_dict()
        assert tokens.encoders.queries.to_dict() == expected.encoders.queries.to_dict()
        assert tokens.encoders.cutoff == expected.encoders.cutoff
        assert list(tokens.tokens) == list(expected.tokens)
        for entity, own in expected.tokens.items():
            for name in ("events", "event_times", "queries", "query_times", "counts", "rows"):
                array = getattr(tokens.tokens[entity], name)
                assert array.dtype == getattr(own, name).dtype
                np.testing.assert_array_equal(array, getattr(own, name))


def test_folds_of_one_fit_share_their_tokens(tmp_path: Path) -> None:
    whole = work()
    tokens = SharedTokens(whole, tmp_path)
    served = dataclasses.replace(whole.folds[0], index=7)
    tokens(whole.folds[0])
    tokens(served)
    assert len(list(tmp_path.glob("*.json"))) == 1
