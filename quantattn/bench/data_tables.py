"""Events and forecasts made from a seed, in pieces, so that memory need not hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from quantattn.pit import EventLog, ForecastClock, Labels, PointInTimeDataset
from quantattn.pit.timestamps import TIME, instants

FEATURES = ("size", "surprise")
PIECE = 1_000_000
"""Events that are made at a time."""

_START = 1_262_304_000 * 10**9  # 2010-01-01T00:00:00Z
_GAP = 10 * 10**9
_DAY = 86_400 * 10**9


@dataclass(frozen=True)
class Size:
    """How much to make.

    Attributes
    ----------
    events : int
        Event versions, ten seconds apart on average; no two become available at the same instant.
    entities : int
        Entities; each event belongs to one, drawn at random, or is market-wide.
    times : int
        Forecast times; every entity has a forecast at each. Each is the very instant at which some event
        becomes available, so that a join that takes equality for visible gives itself away.
    market : float
        Share of events that are market-wide.
    """

    events: int
    entities: int = 500
    times: int = 2_000
    market: float = 0.01

    @property
    def forecasts(self) -> int:
        """How many forecasts there are."""
        return self.entities * self.times

    @property
    def names(self) -> list[str]:
        """Names of the entities, sorted."""
        return [f"E{number:05d}" for number in range(self.entities)]

    @property
    def stride(self) -> int:
        """Events from one forecast time to the next."""
        return max(1, self.events // self.times)


def event_pieces(size: Size, seed: int = 0) -> Iterator[pl.DataFrame]:
    """Make events in canonical order.

    Parameters
    ----------
    size : Size
        How many.
    seed : int
        Equal seeds give equal events.

    Yields
    ------
    polars.DataFrame
        Up to a million events with the columns of an :class:`~quantattn.pit.EventLog` and two features.
    """
    for piece, start in enumerate(range(0, size.events, PIECE)):
        yield _piece(size, np.random.default_rng([seed, piece]), start, min(PIECE, size.events - start))


def _piece(size: Size, draw: np.random.Generator, start: int, count: int) -> pl.DataFrame:
    number = np.arange(start, start + count)
    late = draw.integers(1, _GAP, size=count)
    late[number % size.stride == size.stride // 2] = 0
    available = _START + number * _GAP + late
    owner = draw.integers(0, size.entities, size=count).astype(np.uint32)
    entity = pl.Series(size.names, dtype=pl.String)[owner]
    wide = pl.Series(draw.random(count) < size.market)
    return pl.DataFrame(
        {
            "number": number,
            "revision": pl.repeat(0, count, dtype=pl.Int32, eager=True),
            "entity": pl.select(pl.when(~wide).then(entity)).to_series(),
            "event_time": instants(available - draw.integers(0, 10**9, size=count)),
            "available_at": instants(available),
            "kind": pl.Series(["news", "filing", "macro"])[draw.integers(0, 3, size=count).astype(np.uint32)],
            "size": draw.standard_normal(count),
            "surprise": draw.standard_normal(count),
        }
    ).select(
        pl.format("e{}", pl.col("number")).alias("event_id"),
        "revision",
        "entity",
        "event_time",
        "available_at",
        "kind",
        pl.format("Headline number {} of the wire on that day", pl.col("number")).alias("text"),
        "size",
        # Some events lack a feature, as real ones do.
        pl.when(pl.col("surprise") > -1.0).then("surprise").alias("surprise"),
    )


def forecasts_of(size: Size) -> pl.DataFrame:
    """Give ``row``, ``entity`` and ``forecast_time`` of every forecast, sorted by time and entity."""
    places = np.arange(size.times, dtype=np.int64) * size.stride + size.stride // 2
    times = np.repeat(_START + places * _GAP, size.entities)
    names = pl.Series("entity", size.names, dtype=pl.String)
    entity = names[np.tile(np.arange(size.entities, dtype=np.uint32), size.times)]
    return pl.DataFrame({"row": np.arange(times.size), "entity": entity, "forecast_time": instants(times)})


def labels_of(forecasts: pl.DataFrame, size: Size) -> Labels:
    """Give every forecast a target, of which nothing but its times matters here."""
    at = pl.col("forecast_time")
    frame = forecasts.select(
        "entity",
        "forecast_time",
        horizon=pl.lit(1, pl.Int32),
        y_true=pl.lit(0.0),
        label_start_time=at + pl.duration(nanoseconds=1),
        label_end_time=at + pl.duration(nanoseconds=_DAY),
        label_available_at=at + pl.duration(nanoseconds=_DAY),
    )
    dropped = pl.DataFrame(schema={"entity": pl.String, "forecast_time": TIME, "reason": pl.String})
    return Labels(frame, dropped, "bench", 1, "return", tuple(size.names))


def clock_of(forecasts: pl.DataFrame) -> ForecastClock:
    """Give the clock of the forecasts."""
    return ForecastClock(forecasts["forecast_time"].unique().sort())


def held_in_memory(size: Size, seed: int = 0) -> EventLog:
    """Give all events as a log; nothing is copied or checked again."""
    return EventLog(pl.concat(list(event_pieces(size, seed)), rechunk=False), FEATURES)


def dataset_of(events: EventLog, size: Size, scope: str = "entity+market") -> PointInTimeDataset:
    """Join events and forecasts; nothing is counted before ``samples`` are asked for."""
    forecasts = forecasts_of(size)
    parts = (clock_of(forecasts), labels_of(forecasts, size))
    return PointInTimeDataset(events, *parts, scope=scope, check=False)  # type: ignore[arg-type]
