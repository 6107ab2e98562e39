"""The pass over the events: blocks, batches and files must not change what a forecast has seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import EventDataError, PriceDataError, TimestampError, UsageError
from quantattn.pit import EventLog, PointInTimeDataset
from quantattn.pit.dataset._visible import entity_codes, read_visible
from quantattn.pit.timestamps import nanoseconds_of
from tests.pit.build import at, clock, event_log, labels
from tests.pit.dataset.oracle import event_digest, set_name

LEAST, GREATEST = -(2**63) + 1, 2**63 - 1


@dataclass(frozen=True)
class FakeScan:
    """Events that come in batches of a size of their own, whatever is asked."""

    log: EventLog
    size: int

    @property
    def features(self) -> tuple[str, ...]:
        return self.log.features

    @property
    def frame(self) -> pl.LazyFrame:
        return self.log.frame.sample(fraction=1.0, shuffle=True, seed=3).lazy()

    def batches(self, *, rows: int) -> Iterator[pl.DataFrame]:
        return self.log.frame.iter_slices(self.size)

    def between(self, start: int, end: int) -> EventLog:
        return self.log.between(start, end)


def random_log(seed: int, count: int, market: float, entities: str = "ABC", ticks: int = 20) -> EventLog:
    draw = np.random.default_rng(seed)
    return event_log(
        [
            {
                "entity": None if draw.random() < market else str(draw.choice(list(entities))),
                "available": int(draw.integers(0, ticks)),
                "happened": -int(draw.integers(0, 3)),
                "text": None if draw.random() < 0.2 else "x" * int(draw.integers(0, 30)),
                "x": None if draw.random() < 0.5 else float(draw.integers(0, 9)),
            }
            for _ in range(count)
        ]
    )


def seen_by_hand(log: EventLog, entity: str, moment: int, *, own: bool, market: bool) -> tuple[int, Any, str]:
    rows = log.frame.with_columns(pl.col("event_time", "available_at").to_physical()).to_dicts()
    seen = [
        row
        for row in rows
        if row["available_at"] < moment
        and ((own and row["entity"] == entity) or (market and row["entity"] is None))
    ]
    newest = seen[-1]["available_at"] if seen else None
    return len(seen), newest, set_name(event_digest(row, log.features) for row in seen)


@pytest.mark.parametrize("market", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("scope", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_against_the_oracle_in_blocks_of_any_size(market: float, scope: tuple[bool, bool], rows: int) -> None:
    log = random_log(int(10 * market), 60, market)
    entities = ["A", "B", "D"]  # C has events and no forecasts, D forecasts and no events.
    asked = [
        (entity, at(second) + step) for second in range(-1, 21) for entity in entities for step in (0, 1)
    ]
    asked.sort(key=lambda pair: (pair[1], pair[0]))
    found = read_visible(
        [log.frame],
        log.features,
        entities,
        np.array([entities.index(entity) for entity, _ in asked], dtype=np.int32),
        np.array([moment for _, moment in asked]),
        own=scope[0],
        market=scope[1],
        rows=rows,
    )
    for place, (entity, moment) in enumerate(asked):
        expected = seen_by_hand(log, entity, moment, own=scope[0], market=scope[1])
        newest = found.max_available_at.to_physical()[place]
        assert (found.n_visible[place], newest, found.info_hash[place]) == expected, (entity, moment)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1000),
    count=st.integers(0, 40),
    market=st.sampled_from([0.0, 0.3, 1.0]),
    size=st.integers(1, 9),
    rows=st.integers(1, 9),
    seconds=st.lists(st.integers(-1, 21), min_size=1, max_size=8, unique=True),
)
def test_batches_and_blocks_change_nothing(
    seed: int, count: int, market: float, size: int, rows: int, seconds: list[int]
) -> None:
    log = random_log(seed, count, market)
    times = np.repeat(np.sort([at(second) for second in seconds]), 2)
    readers = np.tile(np.array([0, 1], dtype=np.int32), len(seconds))
    whole = read_visible([log.frame], log.features, ["A", "B"], readers, times, own=True, market=True)
    pieces = log.frame.iter_slices(size)
    cut = read_visible(pieces, log.features, ["A", "B"], readers, times, own=True, market=True, rows=rows)
    assert np.array_equal(whole.n_visible, cut.n_visible)
    assert whole.max_available_at.equals(cut.max_available_at)
    assert whole.info_hash.equals(cut.info_hash)


def test_long_runs_of_market_events_between_own_events() -> None:
    # 5000 of them need two digits of the exponent in tables of 2048 powers.
    rows = [{"available": 0, "entity": "A"}]
    rows += [{"available": 1 + number // 1000, "entity": None} for number in range(5000)]
    rows += [{"available": 9, "entity": "A"}, {"available": 9, "entity": None}]
    log = event_log(rows)
    times = np.array([at(1), at(4), at(9), at(10)])
    found = read_visible(
        [log.frame], log.features, ["A"], np.zeros(4, np.int32), times, own=True, market=True
    )
    for place, moment in enumerate(times.tolist()):
        count, _, name = seen_by_hand(log, "A", moment, own=True, market=True)
        assert (found.n_visible[place], found.info_hash[place]) == (count, name)
    assert found.n_visible.tolist() == [1, 3001, 5001, 5003]


def test_the_ends_of_time() -> None:
    log = event_log([{"available": 0}, {"available": 1}])
    stamps = pl.Series([LEAST, GREATEST]).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    frame = log.frame.with_columns(available_at=stamps, event_time=stamps)
    times = np.array([LEAST, LEAST + 1, GREATEST])
    found = read_visible(
        [frame], log.features, ["A"], np.zeros(3, np.int32), times, own=True, market=True, rows=1
    )
    assert found.n_visible.tolist() == [0, 1, 1]
    assert found.max_available_at.to_physical().to_list() == [None, LEAST, LEAST]


def test_an_order_that_is_broken_is_refused() -> None:
    log = random_log(1, 40, 0.2)
    late, early = log.frame[20:], log.frame[:20]
    nobody = (np.zeros(0, np.int32), np.zeros(0, np.int64))
    with pytest.raises(
        EventDataError, match=r"go back in time from 2020-01-01T00:00:\d\dZ .* between two batches"
    ):
        read_visible([late, early], log.features, ["A"], *nobody, own=True, market=True)
    with pytest.raises(TimestampError, match="goes back in time at position"):
        read_visible([log.frame.reverse()], log.features, ["A"], *nobody, own=True, market=True)


def test_a_source_that_fails_says_so_and_leaves_no_threads() -> None:
    def broken() -> Iterator[pl.DataFrame]:
        yield random_log(1, 40, 0.2).frame
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        nobody = (np.zeros(0, np.int32), np.zeros(0, np.int64))
        read_visible(broken(), ("x", "y"), ["A"], *nobody, own=True, market=True, rows=2)


def test_codes_of_names() -> None:
    column = pl.Series(["B", None, "A", "other", "B"])
    assert entity_codes(column, ["A", "B"], -1, -2).tolist() == [1, -1, 0, -2, 1]
    assert entity_codes(column.drop_nulls(), ["A", "B"], 7, 9).tolist() == [1, 0, 9, 1]
    assert entity_codes(column[:0], ["A"], -1, -2).tolist() == []
    wide = [f"{number:05d}" for number in range(70_000)]
    assert entity_codes(pl.Series(["69999", "00000"]), wide, -1, -2).tolist() == [69_999, 0]


# --- datasets over a scan ---------------------------------------------------------------------------

PAIRS = [(entity, second) for second in (0, 1, 5, 9, 19, 20) for entity in "AB"]


def both(scope: str, size: int, **options: Any) -> tuple[PointInTimeDataset[Any], PointInTimeDataset[Any]]:
    log = random_log(4, 80, 0.3, "AB")
    parts = (clock(second for _, second in PAIRS), labels(PAIRS))
    held = PointInTimeDataset(log, *parts, scope=scope, **options)
    read = PointInTimeDataset(FakeScan(log, size), *parts, scope=scope, **options)
    return held, read


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
@pytest.mark.parametrize("size", [1, 7, 80])
def test_a_scan_gives_what_a_log_in_memory_gives(scope: str, size: int) -> None:
    held, read = both(scope, size)
    assert_frame_equal(read.samples, held.samples, check_exact=True)
    assert_frame_equal(read.as_of_features(), held.as_of_features(), check_exact=True)
    assert_frame_equal(read.event_sequence("B"), held.event_sequence("B"), check_exact=True)
    assert str(read.why("A", at(9))) == str(held.why("A", at(9)))
    early = read.cut(at(9))
    assert isinstance(early.events, EventLog)
    assert_frame_equal(early.samples, held.cut(at(9)).samples, check_exact=True)
    assert "FakeScan" in repr(read)


def test_a_scan_is_checked_for_strangers_too() -> None:
    log = random_log(4, 40, 0.3, "AC")
    with pytest.raises(
        PriceDataError,
        match=r"first \['C'\].*1 entities have labels but no events of their own, first \['B'\]",
    ):
        PointInTimeDataset(FakeScan(log, 9), clock([30]), labels([("A", 30), ("B", 30)]))
    own = random_log(4, 40, 0.0, "AC")
    with pytest.raises(EventDataError, match=r"have labels but no events, first \['B'\]"):
        PointInTimeDataset(FakeScan(own, 9), clock([30]), labels([("A", 30), ("B", 30)]))
    with pytest.raises(PriceDataError, match=r"have events but no prices, first \['C'\]"):
        PointInTimeDataset(FakeScan(log, 9), clock([30]), labels([("A", 30)], ("A",)))


def test_a_sequence_is_exactly_what_the_count_counts() -> None:
    held, _ = both("entity+market", 9)
    for row, moment in zip(
        held.samples.iter_rows(named=True), nanoseconds_of(held.samples["forecast_time"]), strict=True
    ):
        sequence = held.event_sequence(row["entity"])
        stamps = nanoseconds_of(sequence["available_at"])
        assert row["n_visible"] == int((stamps < moment).sum())


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
def test_a_scan_of_a_file_gives_what_the_log_gives(scope: str, tmp_path: Path) -> None:
    log = random_log(4, 80, 0.3, "AB")
    log.write(tmp_path / "events.parquet")
    parts = (clock(second for _, second in PAIRS), labels(PAIRS))
    held = PointInTimeDataset(log, *parts, scope=scope)
    read = PointInTimeDataset(EventLog.scan(tmp_path / "events.parquet"), *parts, scope=scope)
    assert_frame_equal(read.samples, held.samples, check_exact=True)
    assert_frame_equal(read.as_of_features(), held.as_of_features(), check_exact=True)
    assert_frame_equal(read.event_sequence("A"), held.event_sequence("A"), check_exact=True)
    assert_frame_equal(read.cut(at(5)).samples, held.cut(at(5)).samples, check_exact=True)
    assert "events.parquet" in repr(read)


def test_files_in_no_order_are_refused_with_the_remedy(tmp_path: Path) -> None:
    log = random_log(4, 80, 0.3, "AB")
    log.frame.reverse().write_parquet(tmp_path / "foreign.parquet")
    names = {name: name for name in ("event_time", "available_at", "event_id", "revision", "kind", "text")}
    scan = EventLog.scan(tmp_path / "foreign.parquet", **names, features=("x", "y"))
    made = PointInTimeDataset(scan, clock([30]), labels([("A", 30)]), scope="market")
    with pytest.raises(UsageError, match=r"not in canonical order; write it once with scan\.sort_to"):
        _ = made.samples
    ordered = scan.sort_to(tmp_path / "sorted.parquet")
    again = PointInTimeDataset(ordered, made.clock, made.labels, scope="market")
    assert again.samples["n_visible"].to_list() == [80]


def test_nobody_to_forecast_for() -> None:
    log = random_log(4, 40, 0.3, "A")
    made = PointInTimeDataset(log, clock([30]), labels([], ()), check=False)
    assert made.samples.is_empty()
    assert made.as_of_features().shape == (0, 2)
    nobody = PointInTimeDataset(event_log([]), clock([30]), labels([("A", 30)]), check=False)
    assert nobody.samples["n_visible"].to_list() == [0]
    assert nobody.samples["info_hash"].to_list() == [set_name([])]
    assert nobody.as_of_features().rows() == [(None, None)]
