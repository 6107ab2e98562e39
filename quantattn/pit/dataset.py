"""What could be known at each forecast, and what the forecast is held against."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, LabelError, PriceDataError, UsageError
from quantattn.pit._hashing import Digests, event_digests, information_hash, prefix_hashes
from quantattn.pit._tables import nearest_names, refuse_rows
from quantattn.pit.as_of import as_of_table
from quantattn.pit.clock import ForecastClock
from quantattn.pit.events import EventLog
from quantattn.pit.labels import Labels
from quantattn.pit.timestamps import (
    Nanoseconds,
    instants,
    is_visible,
    nanoseconds_of,
    to_nanoseconds,
    visible_counts,
)
from quantattn.pit.universe import Universe
from quantattn.pit.why import WhyReport

Scope = Literal["entity+market", "entity", "market"]
Moment = datetime | np.datetime64 | pd.Timestamp | int

_SCOPES: Final = ("entity+market", "entity", "market")


@dataclass(frozen=True, eq=False)
class PointInTimeDataset:
    """Events, forecasts and targets, joined by the rules of time.

    Parameters
    ----------
    events : EventLog
        Every event version.
    clock : ForecastClock
        When forecasts are made.
    labels : Labels
        Targets, measured at times of that clock.
    universe : Universe, optional
        A forecast exists only for entities that are members at its time. Without it, every entity
        that has a label is in, survivors' bias included.
    scope : {"entity+market", "entity", "market"}
        Which events a forecast for an entity reads: its own, the market-wide ones (entity null), or both.
    check : bool
        Refuse entities that have labels but no event to read, or events but no labels. Cuts switch it
        off: early on an entity may have neither.

    Raises
    ------
    EventDataError
        If an entity has labels but no events in scope.
    PriceDataError
        If an entity has events but is not among the labels' entities.
    LabelError
        If a label is not at a time of the clock, or no sample is left.
    UsageError
        If `scope` is unknown.
    """

    events: EventLog
    clock: ForecastClock
    labels: Labels
    universe: Universe | None = None
    scope: Scope = "entity+market"
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        """Refuse parts that do not belong together."""
        if self.scope not in _SCOPES:
            raise UsageError(f"scope={self.scope!r} is unknown; use one of {', '.join(map(repr, _SCOPES))}")
        refuse_rows(
            self.labels.frame,
            ~self.labels.frame["forecast_time"].is_in(self.clock.times.implode()),
            ["entity", "forecast_time"],
            "labels are measured at times that are not on the clock",
            "measure them at this clock's times",
            LabelError,
        )
        if check:
            self._refuse_strangers()
            if self._members.is_empty():
                raise LabelError(
                    f"no sample is left: dropped by reason {self.dropped_counts}; give longer prices, "
                    "an earlier clock or another universe"
                )

    def _refuse_strangers(self) -> None:
        if self.scope == "market":
            if self._market_rows.size == 0:
                raise EventDataError(
                    "scope='market', but no event is market-wide (entity null); "
                    "use another scope or add such events"
                )
            return
        known = set(self.labels.entities)
        silent = sorted(known - set(self._own_rows))
        if silent:
            raise EventDataError(
                f"{len(silent)} entities have labels but no events, first {silent[:3]}"
                f"{nearest_names(silent[0], self._own_rows)}; "
                "give their events, or take them out of the prices"
            )
        unpriced = sorted(set(self._own_rows) - known)
        if unpriced:
            raise PriceDataError(
                f"{len(unpriced)} entities have events but no prices, first {unpriced[:3]}"
                f"{nearest_names(unpriced[0], known)}; "
                "give their prices, or take their events out of the log"
            )

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """The entities that have samples, sorted."""
        return tuple(self._members["entity"].unique().sort().to_list())

    @cached_property
    def samples(self) -> pl.DataFrame:
        """One row for each entity and forecast time that has a target, sorted by time and entity.

        Columns ``entity, forecast_time, horizon, y_true, label_start_time, label_end_time,
        label_available_at``, then ``n_visible`` (Int64; the forecast reads exactly the first
        ``n_visible`` rows of ``event_sequence(entity)``), ``max_available_at`` (of those; null if there
        are none) and ``info_hash`` (32 hexadecimal digits that name exactly those event versions in
        their order).
        """
        base = self._members
        n_visible = np.zeros(base.height, dtype=np.int64)
        newest = np.zeros(base.height, dtype=np.int64)
        hashes = np.empty(base.height, dtype=object)
        for entity, places in self._places.items():
            rows = self._sequence_rows(entity)
            available = self._available[rows]
            counts = visible_counts(available, self._forecast_times[places])
            n_visible[places] = counts
            if rows.size:
                newest[places] = available[np.maximum(counts, 1) - 1]
            hashes[places] = prefix_hashes(self._digests[rows], counts)
        last = pl.DataFrame({"n": n_visible, "t": instants(newest)}).select(
            max_available_at=pl.when(pl.col("n") > 0).then(pl.col("t"))
        )
        return base.with_columns(
            pl.Series("n_visible", n_visible, dtype=pl.Int64),
            last["max_available_at"],
            pl.Series("info_hash", hashes.tolist(), dtype=pl.String),
        )

    @cached_property
    def dropped(self) -> pl.DataFrame:
        """Forecasts without a sample: ``entity, forecast_time, reason``; the labels' and ``not_member``."""
        outside = self.labels.frame.filter(~self._is_member).select(
            "entity", "forecast_time", reason=pl.lit("not_member")
        )
        return pl.concat([self.labels.dropped, outside]).sort("forecast_time", "entity")

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many forecasts have no sample, by reason."""
        return dict(self.dropped.group_by("reason").len().sort("reason").iter_rows())

    def event_sequence(self, entity: str) -> pl.DataFrame:
        """Give the events that forecasts for an entity read, in canonical order.

        Parameters
        ----------
        entity : str
            One of the labels' entities.

        Returns
        -------
        polars.DataFrame
            The columns of ``EventLog.frame``: its own and the market-wide events, as `scope` says.

        Raises
        ------
        EventDataError
            If the entity is not among the labels' entities.
        """
        self._refuse_unknown(entity)
        return self.events.frame[self._sequence_rows(entity)]

    def as_of_features(self) -> pl.DataFrame:
        """Give every feature as it stood at each sample, row by row with `samples`.

        Returns
        -------
        polars.DataFrame
            ``asof_<feature>`` (Float64): its value in the last visible event of the entity that has it;
            failing that, in the last visible market-wide event; null if there is neither. Only events
            that ``n_visible`` counts are read.
        """
        features = self.events.features
        parts, order = [], []
        market_rows = self._market_rows if self.scope != "entity" else self._market_rows[:0]
        market = self.events.frame[market_rows]
        for entity, places in self._places.items():
            own_rows = self._entity_rows(entity) if self.scope != "market" else market_rows[:0]
            times = self._forecast_times[places]
            parts.append(
                as_of_table(
                    self.events.frame[own_rows],
                    visible_counts(self._available[own_rows], times),
                    market,
                    visible_counts(self._available[market_rows], times),
                    features,
                )
            )
            order.append(places)
        names = [f"asof_{name}" for name in features]
        if not parts or not names:
            return pl.DataFrame(schema=dict.fromkeys(names, pl.Float64()))
        back = np.argsort(np.concatenate(order))
        return pl.concat(parts)[back]

    def cut(self, t: Moment) -> PointInTimeDataset:
        """Give the dataset as it stood for a forecast at an instant.

        Parameters
        ----------
        t : datetime, numpy.datetime64, pandas.Timestamp or int
            An instant; naive values are read as UTC, integers as nanoseconds since the epoch.

        Returns
        -------
        PointInTimeDataset
            Only events with ``available_at < t`` and samples with ``forecast_time <= t``. Their
            targets are kept, though some are known only later: ``label_available_at`` says when.
        """
        moment = to_nanoseconds(t)
        seen = self.events.frame.filter(is_visible(pl.col("available_at"), pl.lit(instants([moment]))))
        return PointInTimeDataset(
            EventLog.from_valid(seen, self.events.features),
            self.clock.cut(moment),
            self.labels.cut(moment),
            self.universe,
            self.scope,
            check=False,
        )

    def why(self, entity: str, forecast_time: Moment, *, last: int = 20, next: int = 5) -> WhyReport:
        """Show what a forecast saw last, and what it just did not see.

        Parameters
        ----------
        entity : str
            One of the labels' entities.
        forecast_time : datetime, numpy.datetime64, pandas.Timestamp or int
            Any instant, on the clock or not; naive values are read as UTC.
        last, next : int
            How many visible and not yet visible events to list.

        Returns
        -------
        WhyReport

        Raises
        ------
        EventDataError
            If the entity is not among the labels' entities.
        UsageError
            If `last` or `next` is negative.
        """
        if last < 0 or next < 0:
            raise UsageError(f"last={last}, next={next}: give zero or more")
        moment = to_nanoseconds(forecast_time)
        sequence = self.event_sequence(entity)
        count = int(visible_counts(nanoseconds_of(sequence["available_at"]), np.array([moment]))[0])
        return WhyReport(
            entity=entity,
            forecast_time=moment,
            n_visible=count,
            info_hash=information_hash(sequence.head(count), self.events.features),
            visible=sequence.head(count).tail(last),
            not_visible=sequence.slice(count, next).with_columns(
                hidden_for=pl.col("available_at") - pl.lit(instants([moment]))
            ),
        )

    def __repr__(self) -> str:
        """Say how large the dataset is."""
        return (
            f"PointInTimeDataset({self._members.height} samples, {len(self.entities)} entities, "
            f"{len(self.events)} events, scope={self.scope!r}, dropped={self.dropped_counts})"
        )

    @cached_property
    def _is_member(self) -> pl.Series:
        frame = self.labels.frame
        if self.universe is None:
            return pl.repeat(True, frame.height, dtype=pl.Boolean, eager=True)
        return self.universe.members(frame["entity"], frame["forecast_time"])

    @cached_property
    def _members(self) -> pl.DataFrame:
        return self.labels.frame.filter(self._is_member).sort("forecast_time", "entity")

    @cached_property
    def _forecast_times(self) -> Nanoseconds:
        return nanoseconds_of(self._members["forecast_time"])

    @cached_property
    def _places(self) -> dict[str, Nanoseconds]:
        """Rows of the samples of each entity."""
        return _rows_by_value(self._members["entity"])

    @cached_property
    def _available(self) -> Nanoseconds:
        return nanoseconds_of(self.events.frame["available_at"])

    @cached_property
    def _digests(self) -> Digests:
        return event_digests(self.events.frame, self.events.features)

    @cached_property
    def _own_rows(self) -> dict[str, Nanoseconds]:
        """Rows of the events of each entity, rising; the market-wide ones are not among them."""
        return _rows_by_value(self.events.frame["entity"])

    @cached_property
    def _market_rows(self) -> Nanoseconds:
        return np.flatnonzero(self.events.frame["entity"].is_null().to_numpy()).astype(np.int64)

    def _entity_rows(self, entity: str) -> Nanoseconds:
        return self._own_rows.get(entity, np.empty(0, dtype=np.int64))

    def _sequence_rows(self, entity: str) -> Nanoseconds:
        """Rows of the events that forecasts for an entity read: rising, hence in canonical order."""
        if self.scope == "entity":
            return self._entity_rows(entity)
        if self.scope == "market":
            return self._market_rows
        return np.sort(np.concatenate([self._entity_rows(entity), self._market_rows]))

    def _refuse_unknown(self, entity: str) -> None:
        if entity not in self.labels.entities:
            raise EventDataError(
                f"entity={entity!r} is not in the dataset{nearest_names(entity, self.labels.entities)}; "
                f"use one of {', '.join(self.labels.entities[:12])}"
            )


def _rows_by_value(column: pl.Series) -> dict[str, Nanoseconds]:
    """Give the rows of each non-null value, rising, the values sorted."""
    groups = (
        pl.DataFrame({"value": column})
        .with_row_index("row")
        .drop_nulls("value")
        .group_by("value", maintain_order=True)
        .agg(pl.col("row").cast(pl.Int64))
        .sort("value")
    )
    return {
        value: rows.to_numpy() for value, rows in zip(groups["value"].to_list(), groups["row"], strict=True)
    }
