"""Sorting beyond memory: any size of runs, blocks and fans gives the one order; repeated rows are found."""

import random

import numpy as np
import polars as pl
import pytest

from quantattn.pit.events import external
from quantattn.pit.events.external import kept, sorted_batches
from quantattn.pit.events.verdict import Duplicates, key_hashes

BY = ("available_at", "event_id", "revision")


def parts_of(rows, generator):
    """Cut rows at random places into frames."""
    frame = pl.DataFrame(
        rows, schema={"available_at": pl.Int64, "event_id": pl.String, "revision": pl.Int32}, orient="row"
    ).with_columns(pl.col("available_at").cast(pl.Datetime("ns", "UTC")))
    cuts = sorted(generator.randrange(len(rows) + 1) for _ in range(generator.randrange(6)))
    return [frame[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@pytest.mark.parametrize("span", [1, 4, 10**18])
@pytest.mark.parametrize(("run", "block", "fan"), [(1, 1, 2), (60, 2, 2), (200, 3, 3), (10**9, 16, 4)])
def test_any_cut_gives_the_one_order(monkeypatch, span, run, block, fan):
    monkeypatch.setattr(external, "_RUN_BYTES", run)
    monkeypatch.setattr(external, "_BLOCK_ROWS", block)
    monkeypatch.setattr(external, "_FAN", fan)
    generator = random.Random(span + run)
    for _ in range(8):
        rows = [
            (generator.randrange(-span, span), generator.choice(["a", "b", "ab"]), generator.randrange(3))
            for _ in range(generator.randrange(1, 40))
        ]
        merged = pl.concat(sorted_batches(iter(parts_of(rows, generator)), BY))
        assert merged.with_columns(pl.col("available_at").to_physical()).rows() == sorted(rows)


def test_nothing_sorts_to_nothing():
    assert list(sorted_batches(iter([]), BY)) == []


def test_no_file_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(external, "_RUN_BYTES", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    generator = random.Random(1)
    parts = parts_of([(i % 7, "a", 0) for i in range(50)], generator)
    merging = sorted_batches(iter(parts), BY)
    next(merging)
    assert len(list(tmp_path.iterdir())) == 1
    merging.close()
    assert list(tmp_path.iterdir()) == []


def test_kept_parts_are_read_again_column_by_column():
    with kept(iter([pl.DataFrame({"a": [1], "b": [2]}), pl.DataFrame({"a": [3], "b": [4]})])) as again:
        assert pl.concat(again(["b"])).rows() == [(2,), (4,)]
        assert pl.concat(again(["a"])).rows() == [(1,), (3,)]
    with kept(iter([])) as again:
        assert list(again(["a"])) == []


def test_duplicates_against_loops(monkeypatch):
    monkeypatch.setattr(external, "_RUN_BYTES", 200)
    monkeypatch.setattr(external, "_BLOCK_ROWS", 2)
    generator = random.Random(3)
    for _ in range(40):
        rows = [
            (
                generator.choice("abc"),
                generator.randrange(2),
                generator.choice([None, "x", "y"]),
                generator.randrange(2),
            )
            for _ in range(generator.randrange(1, 20))
        ]
        frame = pl.DataFrame(
            rows,
            schema={"event_id": pl.String, "revision": pl.Int32, "text": pl.String, "available_at": pl.Int64},
            orient="row",
        ).with_columns(
            entity=pl.lit(None, dtype=pl.String),
            kind=pl.lit("k"),
            event_time=pl.lit(0),
            available_at=pl.col("available_at").cast(pl.Datetime("ns", "UTC")),
        )
        conflicting, repeated = [], []
        for i, row in enumerate(rows):
            same = [j for j, other in enumerate(rows) if other[:2] == row[:2]]
            earliest = min(rows[j][3] for j in same)
            first = [j for j in same if rows[j][3] == earliest]
            if row[3] > earliest or any(rows[j][2] != row[2] for j in first):
                conflicting.append(i)
            elif first[0] < i:
                repeated.append(i)
        cut = generator.randrange(len(rows) + 1)
        numbers = np.arange(len(rows))
        pieces = ((frame[:cut], numbers[:cut]), (frame[cut:], numbers[cut:]))
        found = Duplicates.among(key_hashes(part, (), number) for part, number in pieces)
        assert found.conflicting.tolist() == conflicting, rows
        assert found.repeated.tolist() == repeated, rows


@pytest.mark.parametrize("span", [1, 3, 50, 10**12])
def test_one_key_however_many_rows_share_it(monkeypatch, span):
    monkeypatch.setattr(external, "_RUN_BYTES", 8 * 40)
    monkeypatch.setattr(external, "_BLOCK_ROWS", 7)
    generator = random.Random(span)
    numbers = [generator.randrange(span) for _ in range(600)]
    parts = (pl.DataFrame({"lag": numbers[start : start + 25]}) for start in range(0, 600, 25))
    merged = list(sorted_batches(parts, ("lag",)))
    assert pl.concat(merged)["lag"].to_list() == sorted(numbers)
    # Every step of the merge empties a block at least: 12 runs of 50 rows in 8 blocks each.
    assert len(merged) <= 12 * 8
