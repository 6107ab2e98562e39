"""Small studies on packaged and on own data, for the tests of the main job."""

from __future__ import annotations

import copy
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl

from quantattn.pit import TradingCalendar
from quantattn.study import (
    SilentProgress,
    Study,
    parse_study,
    provenance,
    resolved_yaml,
    run_directory,
)
from quantattn.study.job import RunSummary, run_study

TIMINGS = ("update_us", "read_us")
ALL_FILES = {
    "audit.json",
    "comparisons.json",
    "findings.json",
    "forecasts.parquet",
    "latency.json",
    "manifest.json",
    "metrics.json",
    "report.html",
    "study.yaml",
}
UNIT_FILES = {"forecasts.parquet", "log.json", "unit.json"}
NETWORK_FILES = UNIT_FILES | {"weights.safetensors", "forecaster.json"}
TICKERS = ("ANT", "BEE")
FIRST, LAST = date(2021, 1, 4), date(2022, 6, 30)

_COMMON: dict[str, Any] = {
    "walk_forward": {"train_size": 40, "val_size": 8, "test_size": 24},
    "models": ["linear", "softmax", "mean"],
    "network": {"width": 4, "heads": 1, "layers": 1, "feed_forward": 4, "half_lives": ["30D"]},
    "training": {"epochs": 1},
    "encoder": {"text_width": 4},
    "audit": {"truncation_instants": 2},
    "latency": {"histories": [10, 30], "repeats": 2},
}
_PACKAGED: dict[str, Any] = {
    "name": "tiny",
    "data": {
        "prices": "packaged:us_equities",
        "index": "packaged:sp500_index",
        "entities": ["AAPL", "JPM", "XOM"],
        "start": "2021-06-01",
    },
}
_OWN: dict[str, Any] = {
    "name": "own",
    "data": {
        "prices": "prices.csv",
        "events": [
            {
                "path": "events.csv",
                "event_time": "published",
                "entity": "ticker",
                "text": "headline",
                "features": ["score"],
                "time_zone": "America/New_York",
            }
        ],
    },
}


def _settings(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Lay changes over a base, section by section."""
    settings = copy.deepcopy({**_COMMON, **base})
    for key, value in changes.items():
        settings[key] = {**settings.get(key, {}), **value} if isinstance(value, dict) else value
    return settings


def packaged_study(**changes: Any) -> Study:
    """A study of three packaged stocks over a year and a half."""
    return parse_study(_settings(_PACKAGED, changes))


def own_study(folder: Path, **changes: Any) -> Study:
    """A study of the files that :func:`write_own_files` wrote."""
    return parse_study(_settings(_OWN, changes), folder=folder)


def run(study: Study, out: Path, *, resume: bool = False) -> RunSummary:
    """Run a study as the command line does, on one thread."""
    # Small matrices are slower on more.
    one = mock.patch.object(provenance, "available_cores", return_value=1)
    with one, run_directory(out, study, resume=resume) as folder:
        return run_study(
            study, out=folder, quick=False, resume=resume, progress=SilentProgress(), command="quantattn run"
        )


def write_study(study: Study, path: Path) -> Path:
    """Write a study file for the command line."""
    path.write_text(resolved_yaml(study), encoding="utf-8")
    return path


def prices_table(tickers: tuple[str, ...] = TICKERS) -> pl.DataFrame:
    """Random walks over one and a half years of sessions: date, entity, close."""
    sessions = TradingCalendar("XNYS").sessions(FIRST, LAST)["session"]
    rng = np.random.default_rng(11)
    frames = []
    for ticker in tickers:
        steps = rng.normal(size=len(sessions)) * 0.01 * np.exp(np.sin(np.arange(len(sessions)) / 20))
        close = (40 * np.exp(np.cumsum(steps))).round(4)
        frames.append(pl.DataFrame({"date": sessions, "entity": ticker, "close": close}))
    return pl.concat(frames)


def events_table() -> pl.DataFrame:
    """Three headlines a week for each ticker: naive New York times, every fifth a date alone."""
    sessions = TradingCalendar("XNYS").sessions(FIRST, LAST)["session"].to_list()
    rng = np.random.default_rng(12)
    rows = []
    for number, session in enumerate(sessions):
        if number % 5 > 2:
            continue
        for ticker in TICKERS:
            time = "" if number % 5 == 2 else f"T{8 + number % 9:02d}:{number % 60:02d}:00"
            rows.append((f"{session}{time}", ticker, f"{ticker} told story {number % 7}", rng.normal()))
    return pl.DataFrame(rows, schema=["published", "ticker", "headline", "score"], orient="row")


def write_own_files(
    folder: Path, *, prices: pl.DataFrame | None = None, events: pl.DataFrame | None = None
) -> Path:
    """Write the CSV files that :func:`own_study` names."""
    (prices_table() if prices is None else prices).write_csv(folder / "prices.csv")
    (events_table() if events is None else events).write_csv(folder / "events.csv")
    return folder


def forecasts(out: Path) -> pl.DataFrame:
    """Read the forecasts of a run without their timings."""
    return pl.read_parquet(out / "forecasts.parquet").drop(TIMINGS)


def forecast_bytes(out: Path) -> bytes:
    """Give the forecasts of a run, timings taken out, as the bytes of an Arrow file."""
    return forecasts(out).write_ipc(None).getvalue()


def files_below(out: Path) -> set[str]:
    """List all files of a run by relative path."""
    return {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
