"""The benchmark of datasets, on tables small enough to look at; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal, assert_series_equal
from typer.testing import CliRunner

from quantattn.bench import bench_data, data_text
from quantattn.bench import data as module
from quantattn.bench.data_memory import Memory, measure_memory
from quantattn.bench.data_peers import differing, duckdb_way, ours, pandas_way, polars_way
from quantattn.bench.data_tables import (
    FEATURES,
    Size,
    dataset_of,
    event_pieces,
    forecasts_of,
    held_in_memory,
)
from quantattn.cli import app
from quantattn.errors import UsageError
from quantattn.pit import EventLog
from quantattn.pit.timestamps import nanoseconds_of

SMALL = Size(3_000, 7, 300, 0.1)


@pytest.fixture
def log() -> EventLog:
    return held_in_memory(SMALL)


# --- the tables -------------------------------------------------------------------------------------


def test_events_are_a_valid_log_in_canonical_order(log: EventLog) -> None:
    assert_frame_equal(EventLog.from_valid(log.frame, FEATURES).frame, log.frame)
    assert log.frame["available_at"].is_unique().all()
    assert set(log.entities) == set(SMALL.names)
    assert 0 < log.frame["entity"].null_count() < 600
    assert 0 < log.frame["surprise"].null_count() < 3_000


def test_pieces_are_parts_of_one_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    again = held_in_memory(SMALL)
    assert_frame_equal(again.frame, held_in_memory(SMALL).frame)
    assert not again.frame.equals(held_in_memory(SMALL, seed=1).frame)
    monkeypatch.setattr("quantattn.bench.data_tables.PIECE", 1_000)
    pieces = list(event_pieces(SMALL))
    assert [piece.height for piece in pieces] == [1_000] * 3
    assert pl.concat(pieces)["available_at"].is_sorted()


def test_every_forecast_falls_on_the_instant_of_an_event(log: EventLog) -> None:
    forecasts = forecasts_of(SMALL)
    assert forecasts.height == SMALL.forecasts == 2_100
    assert forecasts["forecast_time"].is_in(log.frame["available_at"].implode()).all()
    assert forecasts.select("entity", "forecast_time").is_unique().all()
    assert forecasts.equals(forecasts.sort("forecast_time", "entity"))


# --- the ways agree, and the comparison would notice if they did not --------------------------------


def by_hand(log: EventLog) -> pl.Series:
    stamps = nanoseconds_of(log.frame["available_at"])
    owners, ids = log.frame["entity"].to_list(), log.frame["event_id"].to_list()
    found = []
    for entity, moment in zip(
        forecasts_of(SMALL)["entity"], nanoseconds_of(forecasts_of(SMALL)["forecast_time"]), strict=True
    ):
        seen = [ids[row] for row in range(len(ids)) if owners[row] == entity and stamps[row] < moment]
        found.append(seen[-1] if seen else None)
    return pl.Series("event_id", found, dtype=pl.String)


def test_all_ways_find_the_same_events(log: EventLog) -> None:
    expected = by_hand(log)
    assert expected.null_count() > 0
    events, forecasts = log.frame, forecasts_of(SMALL)
    ways = [
        ours(log, SMALL, "entity"),
        polars_way(events, forecasts),
        pandas_way(events, forecasts),
        duckdb_way(events, forecasts),
    ]
    if ways[-1] is None:
        ways.pop()
    for way in ways:
        assert way is not None and way.matches is not None
        assert_series_equal(way.matches(way.prepare()()), expected)


def test_a_join_that_takes_equality_for_visible_differs(log: EventLog) -> None:
    expected, forecasts = by_hand(log), forecasts_of(SMALL)
    one_later = forecasts.with_columns(pl.col("forecast_time") + pl.duration(nanoseconds=1))
    lax = polars_way(log.frame, one_later)
    assert lax.matches is not None
    # Each forecast time is the instant of one event: its entity's forecast differs, unless it is market-wide.
    of_entities = log.frame.filter(
        pl.col("available_at").is_in(forecasts["forecast_time"].implode()), pl.col("entity").is_not_null()
    )
    assert differing(expected, lax.matches(lax.prepare()())) == of_entities.height > 200
    assert differing(expected, expected) == 0
    assert differing(expected, expected.head(10)) == 2_100


# --- the whole --------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUICK", SMALL)
    monkeypatch.setattr(module, "FULL", SMALL)
    monkeypatch.setattr(module, "GROWTH", (1_000, 3_000))
    monkeypatch.setattr(module, "QUICK_GROWTH", (1_000, 3_000, 3_000))

    def measured(size: Size, *, seed: int = 0, path: Path | None = None) -> Memory:
        assert path is None or EventLog.scan(path).height == size.events
        return Memory(1_000_000, 1_700_000, 1.7, 0.5)

    monkeypatch.setattr(module, "measure_memory", measured)


def test_figures_and_targets(small: None) -> None:
    found = bench_data()
    by_name = {join.name: join for join in found.joins}
    assert list(by_name)[:3] == [module.OURS, module.OWN, module.POLARS]
    assert by_name[module.POLARS].ratio == 1.0
    assert all(join.differing == 0 for join in found.joins if join.name not in (module.OURS, module.OWN))
    assert found.growth["events"] == [1_000, 3_000]
    assert found.disk is None
    (ratio, memory, exponent, differ) = found.targets
    assert (memory.found, memory.reached) == (1.7, True)
    assert (differ.found, differ.reached) == (0.0, True)
    assert ratio.reached is (ratio.found is not None and ratio.found <= 3.0)
    assert exponent.found == found.growth["exponent"]


def test_a_peer_that_is_not_installed_is_shown_as_such(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "duckdb_way", lambda events, forecasts: None)
    found = bench_data(quick=True)
    missing = {join.name: join for join in found.joins}[module.DUCKDB]
    assert (missing.seconds, missing.n, missing.ratio, missing.differing) == (None, 0, None, None)
    assert "DuckDB ASOF JOIN" in data_text(found)
    assert "not installed (extra bench)" in data_text(found)


def test_a_disagreement_is_a_missed_target(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.polars_way
    late = pl.col("forecast_time") + pl.duration(nanoseconds=1)
    monkeypatch.setattr(module, "polars_way", lambda events, f: real(events, f.with_columns(late)))
    differ = bench_data().targets[-1]
    assert differ.reached is False
    assert differ.found is not None and differ.found > 200


def test_memory_that_cannot_be_told(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_memory", lambda size, **more: Memory(10, None, None, 0.1))
    text = data_text(bench_data())
    assert "peak not measured here" in text
    assert "peak memory over the input's: not measured here (aimed at: at most 3)" in text


def test_events_on_disk(small: None, tmp_path: Path) -> None:
    found = bench_data(quick=True, events_on_disk=2_500, folder=tmp_path)
    assert found.disk is not None
    assert (found.disk.events, found.disk.forecasts) == (2_500, 1_000_000)
    assert found.disk.file_bytes > 0
    assert list(tmp_path.iterdir()) == []
    assert "2,500 events in a Parquet file of" in data_text(found)
    with pytest.raises(UsageError, match="events_on_disk=0"):
        bench_data(events_on_disk=0)


def test_the_command_prints_tables_or_json(small: None) -> None:
    runner = CliRunner()
    plain = runner.invoke(app, ["bench", "data", "--quick"])
    assert plain.exit_code == 0, plain.output
    assert "polars join_asof" in plain.output and "time grows as events **" in plain.output
    assert "run without --quick" in plain.output
    told = json.loads(runner.invoke(app, ["bench", "data", "--json"]).output)
    assert set(told) >= {"machine", "threads", "size", "joins", "growth", "memory", "disk", "targets"}
    assert told["size"]["events"] == 3_000
    assert told["memory"]["share"] == 1.7


def test_a_wrong_option_is_a_wrong_request(tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["bench", "data", "--events-on-disk", "0"]).exit_code == 2
    assert runner.invoke(app, ["bench", "data", "--folder", str(tmp_path / "none")]).exit_code == 2


@pytest.mark.slow
def test_memory_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    size = Size(200_000, 20, 50)
    held = measure_memory(size)
    log = held_in_memory(size)
    assert (
        held.input_bytes == log.frame.estimated_size() + dataset_of(log, size).labels.frame.estimated_size()
    )
    log.write(tmp_path / "events.parquet")
    read = measure_memory(size, path=tmp_path / "events.parquet")
    for found in (held, read):
        assert found.peak_bytes is None or found.peak_bytes > 2**20
