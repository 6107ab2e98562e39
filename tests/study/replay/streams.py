"""A small run to stream through, and replays of it inside this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

from quantattn.forecasters.streaming.events.event import events_of
from quantattn.forecasters.streaming.events.lines import event_line
from quantattn.pit import EventLog
from quantattn.pit.timestamps import iso, nanoseconds_of
from quantattn.study import SilentProgress, load_study, provenance, run_directory
from quantattn.study.forecasting import forecast
from quantattn.study.history import build_events, load_sources
from quantattn.study.preparing import prepare
from quantattn.study.replay.options import ReplaySummary
from quantattn.study.replay.pace import Alarm
from quantattn.study.replaying import ReplayRequest, replay_run
from quantattn.walkforward.engines import make_engine
from tests.study.small import TIMINGS, packaged_study

FIT = "2022-08-26T19:44:59.999999999Z"
"""When the model of the last fold was fitted: a nanosecond before a forecast."""

FRIDAYS = ("2022-08-26T19:45:00Z", "2022-09-02T19:45:00Z", "2022-09-09T19:45:00Z", "2022-09-16T19:45:00Z")
"""The first forecasts after it."""


def make_run(out: Path) -> Path:
    """Write what a run has of its forecasts: two folds of both twins."""
    study = packaged_study(models=["linear", "softmax"])
    with (
        mock.patch.object(provenance, "available_cores", return_value=1),
        run_directory(out, study, resume=False) as folder,
    ):
        progress = SilentProgress()
        forecast(prepare(study, progress), make_engine("local"), folder, progress)
    return out


def log_of(run: Path) -> EventLog:
    """Give the run's own events."""
    study = load_study(run / "study.yaml")
    return build_events(study, load_sources(study))


def lines_of(log: EventLog) -> list[str]:
    """Write a log as lines of JSON."""
    return [event_line(event) for event in events_of(log.frame, log.features)]


@dataclass
class Replayed:
    """What a replay gave."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summary: ReplaySummary | None = None

    @property
    def untimed(self) -> list[dict[str, Any]]:
        """The lines without what the clock on the wall decides."""
        return [{name: value for name, value in line.items() if name not in TIMINGS} for line in self.lines]

    @property
    def when(self) -> list[tuple[str, str]]:
        """Whose forecasts were made, and when."""
        return [(line["entity"], line["forecast_time"]) for line in self.lines]


def replayed(
    run: Path,
    log: str | Path | None = None,
    *,
    said: bytes = b"",
    alarm: Alarm | None = None,
    stop_after: int | None = None,
    into: Replayed | None = None,
    **options: Any,
) -> Replayed:
    """Replay; `said` is standard input, and the alarm rings after so many lines."""
    given, bell, waiting = into or Replayed(), alarm or Alarm(), [said]

    def write(values: dict[str, Any]) -> None:
        given.lines.append(values)
        if len(given.lines) == stop_after:
            bell.ring()

    given.summary = replay_run(
        ReplayRequest(run=run, log=None if log is None else str(log), **options),
        write=write,
        note=given.notes.append,
        standard_input=lambda: waiting.pop() if waiting else b"",
        alarm=bell,
    )
    return given


def table_rows(run: Path, fold: int, model: str) -> list[dict[str, Any]]:
    """Give the run's forecasts as a replay writes them, but for what only a replay knows."""
    rows = pl.read_parquet(run / "forecasts.parquet").filter(
        (pl.col("model") == model) & (pl.col("fold") == fold)
    )
    columns = ("entity", "y_pred", "y_lower", "y_upper", "n_visible", "info_hash")
    return [
        {**{name: row[name] for name in columns}, "forecast_time": iso(at), "max_available_at": iso(seen)}
        for row, at, seen in zip(
            rows.iter_rows(named=True),
            nanoseconds_of(rows["forecast_time"]).tolist(),
            nanoseconds_of(rows["max_available_at"]).tolist(),
            strict=True,
        )
    ]
