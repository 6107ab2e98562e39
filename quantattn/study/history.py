"""The data stage: from the files that a study names to prices, events, labels and a dataset."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl

from quantattn.errors import DataError, PriceDataError
from quantattn.files import hash_bytes, hash_file
from quantattn.forecasters.baselines import TargetKind
from quantattn.pit import (
    EventLog,
    ForecastClock,
    Labels,
    PointInTimeDataset,
    PriceHistory,
    direction,
    load_sp500_index,
    load_sp500_ohlcv,
    load_us_equities,
    log_return,
    market_events,
    realised_variance,
    simple_return,
)
from quantattn.pit.ingest_record import IngestRecord
from quantattn.pit.readers import read_events, read_prices
from quantattn.pit.timestamps import duration_nanoseconds, instants, is_visible
from quantattn.study._ingested import (
    IngestedBars,
    holds_prices,
    read_ingested_bars,
    read_ingested_events,
    read_record,
)
from quantattn.study._values import nearest
from quantattn.study.config import Study
from quantattn.study.sources import DataConfig, EventSource, IndexSource, PriceSource

PACKAGED = "packaged:"
INDEX_NAME = "the index"
_MARKET_KINDS = (
    "bar",
    "move",
    "high_52w",
    "low_52w",
    "volatility_regime",
    "index_move",
    "index_volatility_regime",
    "index_drawdown",
)
_MARKET_FEATURE = re.compile(
    r"log_return|log_rv_\d+|distance_(high|low)|market_(log_return|log_rv_\d+|drawdown)|magnitude"
)
_LOADERS = {
    "packaged:us_equities": load_us_equities,
    "packaged:sp500_index": load_sp500_index,
    "packaged:sp500_ohlcv": load_sp500_ohlcv,
}


@dataclass(frozen=True)
class Sources:
    """What a study reads, before anything is joined.

    Parameters
    ----------
    prices : PriceHistory
        Bars of the instruments.
    index : PriceHistory or None
        Bars of the market index.
    own_events : tuple of EventLog
        One log for each event file, without the events of instruments that the study leaves out.
    hashes : dict of str to str
        SHA-256 of each file (of the packaged table's values for packaged data), by the name in the study.
    ingested : dict of str to IngestRecord
        How files of ``quantattn ingest`` were made, by the name in the study.
    """

    prices: PriceHistory
    index: PriceHistory | None
    own_events: tuple[EventLog, ...]
    hashes: dict[str, str]
    ingested: dict[str, IngestRecord] = field(default_factory=dict)

    def cut(self, moment: int) -> Sources:
        """Keep only what was available strictly before an instant (nanoseconds since the epoch, UTC)."""
        seen = is_visible(pl.col("available_at"), pl.lit(instants([moment])).first())
        return Sources(
            prices=self.prices.cut(moment),
            index=None if self.index is None else self.index.cut(moment),
            own_events=tuple(
                EventLog.from_valid(log.frame.filter(seen), log.features) for log in self.own_events
            ),
            hashes=self.hashes,
            ingested=self.ingested,
        )

    @property
    def rejected(self) -> dict[str, int]:
        """Rows of the event files that were refused, now or when they were ingested, by reason."""
        counts: Counter[str] = Counter()
        for refused in (
            *(log.reject_counts for log in self.own_events),
            *(record.rejected for record in self.ingested.values()),
        ):
            counts.update(refused)
        return dict(sorted(counts.items()))


def _read_bars(
    source: PriceSource | IndexSource, entities: tuple[str, ...] | None
) -> tuple[pl.DataFrame, str, IngestedBars | None]:
    if source.source.startswith(PACKAGED):
        frame = _LOADERS[source.source]()
        return frame, hash_bytes(frame.write_csv().encode()), None
    path = Path(source.source)
    if holds_prices(source.source):
        bars = read_ingested_bars(source.source)
        return bars.frame, hash_file(path), bars
    columns: dict[str, Any] = {"name": INDEX_NAME}
    if isinstance(source, PriceSource):
        columns = {
            name: getattr(source, name) for name in ("entity", "open", "high", "low", "volume", "name")
        }
        if source.close is None:
            columns["entities"] = entities
    frame = read_prices(
        path, session=source.session, close=source.close, separator=source.separator, **columns
    )
    return frame, hash_file(path), None


def _read_events(source: EventSource, calendar: str) -> EventLog:
    if source.event_time is None:
        return read_ingested_events(source.path)
    return read_events(
        Path(source.path),
        event_time=source.event_time,
        available_at=source.available_at,
        entity=source.entity,
        event_id=source.event_id,
        text=source.text,
        kind=source.kind,
        revision=source.revision,
        features=source.features,
        time_zone=source.time_zone,
        date_only=source.date_only,
        calendar=calendar,
        latency=source.latency,
        scheduled=source.scheduled,
        separator=source.separator,
    )


def _within(frame: pl.DataFrame, start: date | None, end: date | None) -> pl.DataFrame:
    if start is not None:
        frame = frame.filter(pl.col("session") >= start)
    if end is not None:
        frame = frame.filter(pl.col("session") <= end)
    return frame


def _span(data: DataConfig) -> str:
    """Say between which sessions a study looks, if it says so itself."""
    return "".join(
        f" {word} {day}" for word, day in (("from", data.start), ("to", data.end)) if day is not None
    )


def _choose(frame: pl.DataFrame, data: DataConfig) -> pl.DataFrame:
    if "entity" not in frame.columns:
        return frame
    present = sorted(frame["entity"].unique().to_list())
    if data.entities is not None:
        lacking = sorted(set(data.entities) - set(present))
        if lacking:
            raise DataError(
                f"data.entities names {lacking[:3]}{nearest(lacking[0], present)}, which "
                f"{data.prices.source} has no prices for{_span(data)}; take them out, or use "
                f"{', '.join(present[:12])}{' ...' if len(present) > 12 else ''}"
            )
        present = [name for name in present if name in data.entities]
    return frame.filter(pl.col("entity").is_in(present[: data.max_entities]))


def _price_history(
    source: PriceSource | IndexSource, frame: pl.DataFrame, data: DataConfig, ingested: IngestedBars | None
) -> PriceHistory:
    if ingested is not None and ingested.calendar != data.calendar:
        raise DataError(
            f"{source.source} was ingested with calendar {ingested.calendar}, and data.calendar is "
            f"{data.calendar}; set data.calendar: {ingested.calendar}, or ingest it again"
        )
    single = "entity" not in frame.columns
    name = source.name if isinstance(source, PriceSource) else INDEX_NAME
    if source.source.startswith("packaged:sp500") and not (isinstance(source, PriceSource) and source.name):
        name = "SP500"
    figures = {
        figure: figure
        for figure in ("open", "high", "low", "volume")
        if isinstance(source, PriceSource) and figure in frame.columns
    }
    try:
        return PriceHistory.from_frame(
            frame,
            session="session",
            close="close",
            entity=None if single else "entity",
            name=name if single else None,
            calendar=data.calendar,
            latency=_later(data.latency, ingested),
            gaps=data.gaps,
            adjusted=ingested is not None and ingested.adjusted,
            **figures,  # type: ignore[arg-type]
        )
    except DataError as error:
        key = "data.prices" if isinstance(source, PriceSource) else "data.index"
        raise type(error)(f"{key} ({source.source}): {_in_words_of_a_study(str(error))}") from error


def _later(latency: str, ingested: IngestedBars | None) -> str | timedelta | pd.Timedelta:
    """Give the longer one of a study's latency and that with which its bars were ingested."""
    if ingested is None:
        return latency
    return pd.Timedelta(max(duration_nanoseconds(latency, argument="latency"), ingested.latency), unit="ns")


def _in_words_of_a_study(remedy: str) -> str:
    """Name the keys of a study where a message names arguments of Python."""
    return remedy.replace("pass gaps='drop'", "set data.gaps: drop").replace(
        "pass calendar= with", "set data.calendar to"
    )


def _of_chosen(log: EventLog, prices: PriceHistory, data: DataConfig) -> EventLog:
    """Leave out the events of instruments that the study leaves out, judged on all of its prices."""
    if data.entities is None and data.max_entities is None:
        return log
    kept = log.frame.filter(pl.col("entity").is_null() | pl.col("entity").is_in(prices.entities))
    return EventLog.from_valid(kept, log.features, rejects=log.rejects)


def _refuse_market_names(log: EventLog, key: str, source: EventSource) -> None:
    """Refuse own events that would pass for those made from prices, by which baselines are fitted."""
    for position, name in enumerate(log.features):
        if _MARKET_FEATURE.fullmatch(name):
            raise DataError(
                f"{key}.features[{position}]: {source.path} has a column {name!r}, which is also a feature "
                "of the events made from prices; rename the column, or set data.market_events: false"
            )
    taken = sorted(set(log.frame["kind"]) & set(_MARKET_KINDS))
    if taken:
        raise DataError(
            f"{key}.kind: column {source.kind or 'kind'!r} of {source.path} holds {taken[0]!r}, which is "
            "also a kind of the events made from prices; rename it there, or set data.market_events: false"
        )


def _refuse_unpriced(log: EventLog, prices: PriceHistory, key: str, source: EventSource) -> None:
    unpriced = sorted(set(log.entities) - set(prices.entities))
    if unpriced:
        raise PriceDataError(
            f"{key}.entity: {source.path} has events of {len(unpriced)} entities without prices, first "
            f"{unpriced[:3]}{nearest(unpriced[0], prices.entities)}; give their prices, or list the "
            "instruments to use in data.entities, by which the events of all others are left out"
        )


def load_sources(study: Study) -> Sources:
    """Read and check every file that a study names.

    Parameters
    ----------
    study : Study
        The study.

    Returns
    -------
    Sources

    Raises
    ------
    DataError
        If a file breaks the data contract.
    """
    data = study.data
    frame, digest, ingested = _read_bars(data.prices, data.entities)
    hashes = {data.prices.source: digest}
    frame = _within(frame, data.start, data.end)
    if frame.is_empty():
        raise DataError(f"{data.prices.source} has no bars{_span(data)}; give another data.start or data.end")
    prices = _price_history(data.prices, _choose(frame, data), data, ingested)
    index = None
    if data.index is not None:
        bars, hashes[data.index.source], ingested = _read_bars(data.index, None)
        bars = _within(bars, data.start, data.end)
        if "entity" in bars.columns:
            bars = bars.drop("entity")
        if not bars["session"].is_in(prices.frame["session"].implode()).any():
            raise DataError(
                f"data.index: {data.index.source} has no bar in any session of {data.prices.source}; give an "
                "index over the same years, or set index: null"
            )
        index = _price_history(data.index, bars, data, ingested)
    logs = []
    for position, source in enumerate(data.events):
        log = _read_events(source, data.calendar)
        hashes[source.path] = hash_file(Path(source.path))
        key = f"data.events[{position}]"
        if data.market_events is not None:
            _refuse_market_names(log, key, source)
        log = _of_chosen(log, prices, data)
        if data.scope != "market":
            _refuse_unpriced(log, prices, key, source)
        logs.append(log)
    records = {name: record for name in hashes if (record := read_record(name)) is not None}
    return Sources(prices, index, tuple(logs), hashes, records)


def build_events(study: Study, sources: Sources) -> EventLog:
    """Make the event log of a study: its own events and those made from prices.

    Parameters
    ----------
    study : Study
        The study.
    sources : Sources
        What it reads, whole or cut.

    Returns
    -------
    EventLog
    """
    logs = list(sources.own_events)
    if study.data.market_events is not None:
        options = study.data.market_events.model_dump()
        logs.append(market_events(sources.prices, index=sources.index, **options))
    return EventLog.concat(logs)


def build_clock(study: Study, sources: Sources) -> ForecastClock:
    """Make the forecast clock of a study, over the sessions that its prices span."""
    sessions = sources.prices.frame["session"]
    first, last = sessions.min(), sessions.max()
    assert isinstance(first, date) and isinstance(last, date)  # a price history is never empty
    clock = study.clock
    return ForecastClock.sessions(
        study.data.calendar,
        start=first,
        end=last,
        at=clock.at,
        offset=clock.offset,
        every=clock.every,
        time_zone=clock.time_zone,
    )


def build_labels(study: Study, sources: Sources, clock: ForecastClock) -> Labels:
    """Measure the target of a study at every forecast time."""
    target = study.target
    horizon, lag = target.horizon, target.execution_lag
    if target.name == "realised_variance":
        return realised_variance(
            sources.prices, clock, horizon=horizon, log=bool(target.log), execution_lag=lag
        )
    if target.name == "direction":
        return direction(
            sources.prices, clock, horizon=horizon, dead_band=target.dead_band or 0.0, execution_lag=lag
        )
    measure = simple_return if target.name == "simple_return" else log_return
    return measure(sources.prices, clock, horizon=horizon, execution_lag=lag)


def build_dataset(study: Study, sources: Sources) -> PointInTimeDataset:
    """Join events, clock and labels of a study.

    Parameters
    ----------
    study : Study
        The study.
    sources : Sources
        What it reads.

    Returns
    -------
    PointInTimeDataset
    """
    clock = build_clock(study, sources)
    return PointInTimeDataset(
        build_events(study, sources), clock, build_labels(study, sources, clock), scope=study.data.scope
    )


def rebuild_dataset(
    study: Study, sources: Sources, whole: PointInTimeDataset, moment: int
) -> PointInTimeDataset:
    """Build a study's dataset anew from what was available strictly before an instant.

    Parameters
    ----------
    study : Study
        The study.
    sources : Sources
        What it reads, whole.
    whole : PointInTimeDataset
        What :func:`build_dataset` made of it.
    moment : int
        Nanoseconds since the epoch, UTC.

    Returns
    -------
    PointInTimeDataset
        Its samples are those with ``forecast_time`` up to the instant. Events, and every target known
        before it, are made anew. Taken from `whole` are the targets that nobody knew yet, and the forecast
        times, which the calendar alone gives.
    """
    cut, shell = sources.cut(moment), whole.cut(moment)
    unknown = ~is_visible(pl.col("label_available_at"), pl.lit(instants([moment])).first())
    known = build_labels(study, cut, shell.clock).frame
    frame = pl.concat([known, shell.labels.frame.filter(unknown)]).sort("forecast_time", "entity")
    return PointInTimeDataset(
        build_events(study, cut),
        shell.clock,
        replace(shell.labels, frame=frame),
        shell.universe,
        shell.scope,
        check=False,
    )


def bar_table(dataset: PointInTimeDataset) -> pl.DataFrame:
    """Give what baselines read of the bar events in a dataset's scope.

    Parameters
    ----------
    dataset : PointInTimeDataset
        The dataset.

    Returns
    -------
    polars.DataFrame
        ``entity``, ``available_at``, ``log_return`` in canonical order; without rows where no forecast reads
        its instrument's own events.
    """
    events = dataset.events.frame
    bars = events.filter(pl.col("kind") == "bar") if dataset.scope != "market" else events.clear()
    if "log_return" not in bars.columns:
        bars = bars.with_columns(pl.lit(None, pl.Float64).alias("log_return"))
    return bars.select("entity", "available_at", "log_return")


def target_kind(study: Study) -> TargetKind:
    """Say what a study's target measures."""
    kinds: dict[str, TargetKind] = {"realised_variance": "variance", "direction": "direction"}
    return kinds.get(study.target.name, "return")


def target_description(study: Study) -> str:
    """Say in words what a study forecasts."""
    span = "the next session" if study.target.horizon == 1 else f"the next {study.target.horizon} sessions"
    names = {
        "realised_variance": "log realised variance" if study.target.log else "realised variance",
        "simple_return": "simple return",
        "log_return": "log return",
        "direction": "direction",
    }
    return f"{names[study.target.name]} of {span}"
