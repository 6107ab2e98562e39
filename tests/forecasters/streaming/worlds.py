"""Random ragged logs, a dataset and a forecaster over them, and what a backtest says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import torch

from quantattn.forecasters import (
    FittedForecaster,
    HeadConfig,
    History,
    NetworkStream,
    Readout,
    TargetScale,
    encode,
    fit_encoders,
    read_history,
    replay,
)
from quantattn.forecasters.config import Attention
from quantattn.forecasters.network import AttentionNetwork
from quantattn.pit import EventLog, PointInTimeDataset
from tests.forecasters.sequences import small_config
from tests.pit.build import at, clock, event_log, labels

ENTITIES = ("A", "B", "C", "LATE", "NONE")
FEATURES = ("x", "y")
CUTOFF = 40
END = 60
TEXTS = (
    None,
    "",
    "up again",
    "UP again",
    "Zürich 3 % ﬁnds K2",
    "\u0000٣ ß\u0301 _a",
    "東京 market-wide news today",
)


def random_log(seed: int, count: int = 60) -> EventLog:
    """Events in whole seconds: ties, revisions in any order, market-wide ones, entities listed late."""
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    versions: dict[str, set[int]] = {}
    for number in range(count):
        available = int(draw.integers(1, END))
        owner = draw.choice(["A", "A", "B", "C", "LATE", "MARKET", "MARKET"])
        if owner == "LATE" and available < 35:
            owner = "A"
        event_id, entity = f"e{int(draw.integers(1000)):03d}", None if owner == "MARKET" else str(owner)
        if rows and draw.random() < 0.3:
            before = rows[int(draw.integers(len(rows)))]
            event_id = before["event_id"]
            if draw.random() < 0.8:
                entity = before["entity"]
        if entity == "LATE" and available < 35:
            entity = None
        revision = int(draw.integers(0, 4))
        if revision in versions.setdefault(event_id, set()):
            revision = max(versions[event_id]) + 1
        versions[event_id].add(revision)
        rows.append(
            {
                "event_id": event_id,
                "revision": revision,
                "entity": entity,
                "available": available,
                "happened": available - int(draw.choice([0, 0, 1, 20])),
                "kind": str(draw.choice(["news", "bar", "macro" if available > CUTOFF else "news"])),
                "text": TEXTS[number % len(TEXTS)],
                "x": None if draw.random() < 0.4 else float(np.round(draw.normal(), 2)),
                "y": None if draw.random() < 0.6 else float(draw.normal() * 1e3),
            }
        )
    return event_log(rows, FEATURES)


@dataclass(frozen=True)
class World:
    """A log, its dataset and a forecaster fitted on it.

    Attributes
    ----------
    wanted : polars.DataFrame
        What the token path and the dataset say: ``entity, forecast_time``, ``target`` where there are
        several, forecasts, ``n_visible, max_available_at, info_hash``; by time and entity.
    """

    log: EventLog
    dataset: PointInTimeDataset
    history: History
    fitted: FittedForecaster
    wanted: pl.DataFrame


def fitted_of(
    history: History,
    attention: Attention = "linear",
    *,
    head: HeadConfig | None = None,
    logs: tuple[bool, ...] = (),
    text_width: int = 4,
    seed: int = 3,
    **sizes: Any,
) -> FittedForecaster:
    """A forecaster whose weights are random."""
    encoders = fit_encoders(history, at(CUTOFF), text_width=text_width)
    config = small_config(attention, **({"head": head} if head is not None else {}), **sizes)
    widths = encoders.events.width_ + 1, len(encoders.queries.columns_) + 3
    network = AttentionNetwork(config, *widths).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(0.7 * torch.randn(weight.shape, generator=generator))
    targets = config.head.targets
    scales = tuple(TargetScale(0.3 * place - 1.1, 1.7 + place) for place in range(len(targets)))
    intervals = tuple((-0.7 - place, 0.1 + 0.2) for place in range(len(targets)))
    readout = Readout(config.head, scales, intervals, logs=logs) if head is not None or logs else None
    return FittedForecaster(network, encoders, scales[0], intervals[0], at(CUTOFF) - 1, 11, readout)


def expected(dataset: PointInTimeDataset, history: History, fitted: FittedForecaster) -> pl.DataFrame:
    """What the token path forecasts at every sample."""
    samples = dataset.samples
    raw = np.full((samples.height, fitted.network.outputs), np.nan)
    for tokens in encode(history, fitted.encoders).values():
        made = replay(NetworkStream(fitted.network), tokens)
        raw[made.rows] = made.forecasts.reshape(len(made.rows), -1)
    parts = []
    keys = samples.select("entity", "forecast_time").with_row_index("#row")
    for place, (name, said) in enumerate(fitted.reads.forecasts(raw).items()):
        numbers = {"y_pred": said.y_pred, "y_lower": said.y_lower, "y_upper": said.y_upper, **said.extra}
        parts.append(
            keys.with_columns(
                pl.lit(name).alias("target"),
                *(pl.Series(key, values) for key, values in numbers.items()),
                samples["n_visible"],
                samples["max_available_at"],
                samples["info_hash"],
                pl.lit(place).alias("#target"),
            )
        )
    table = pl.concat(parts, how="diagonal").sort("#row", "#target").drop("#row", "#target")
    return table if len(parts) > 1 else table.drop("target")


@lru_cache(maxsize=64)
def world(
    seed: int = 0,
    attention: Attention = "linear",
    scope: str = "entity+market",
    head: HeadConfig | None = None,
    logs: tuple[bool, ...] = (),
    count: int = 60,
) -> World:
    """A random log with forecasts of every entity at many of its instants and between them."""
    log = random_log(seed, count)
    draw = np.random.default_rng(1000 + seed)
    seconds = sorted({*draw.integers(0, END + 3, 18).tolist(), 30, 39, 40, 41})
    pairs = [(entity, second) for second in seconds for entity in ENTITIES]
    dataset = PointInTimeDataset(
        log,
        clock(seconds),
        labels(pairs, ENTITIES),
        scope=scope,
        check=False,  # type: ignore[arg-type]
    )
    history = read_history(dataset, 4)
    fitted = fitted_of(history, attention, head=head, logs=logs)
    return World(log, dataset, history, fitted, expected(dataset, history, fitted))


def same(found: pl.DataFrame, wanted: pl.DataFrame, columns: Sequence[str] | None = None) -> None:
    """Demand equal bits of what both tables know."""
    names = list(columns or (name for name in wanted.columns if name in found.columns))
    assert set(wanted.columns) <= set(found.columns)
    order = [name for name in ("forecast_time", "entity", "target") if name in wanted.columns]
    found, wanted = found.select(names).sort(order), wanted.select(names).sort(order)
    assert found.schema == wanted.schema
    for name in names:
        if wanted[name].dtype == pl.Float64:
            left, right = (frame[name].to_numpy() for frame in (found, wanted))
            assert left.tobytes() == right.tobytes(), (name, np.flatnonzero(left != right)[:3], left, right)
        else:
            assert found[name].to_list() == wanted[name].to_list(), name
    assert wanted.height
