"""What could be known at each forecast, and what the forecast is held against."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, Literal

import numpy as np
import pandas as pd
import polars as pl

from quantattn.errors import EventDataError, LabelError, UsageError
from quantattn.pit._tables import nearest_names, refuse_rows
from quantattn.pit._zones import check_time_zone
from quantattn.pit.clock import ForecastClock
from quantattn.pit.dataset import _notes, _sources
from quantattn.pit.dataset._parts import is_whole, refuse_other_types
from quantattn.pit.dataset._strangers import refuse_strangers
from quantattn.pit.dataset._survivors import survivorship_of
from quantattn.pit.dataset._visible import Codes, entity_codes, read_visible
from quantattn.pit.dataset.as_of import COLUMNS, as_of_table, as_of_table_by_kind
from quantattn.pit.dataset.why import WhyReport, explain
from quantattn.pit.events.log import EventLog
from quantattn.pit.labels import Labels
from quantattn.pit.survivorship import SurvivorshipReport
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of, to_nanoseconds
from quantattn.pit.universe import Universe

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from quantattn.pit.events.scan import EventScan

    Events = TypeVar("Events", bound=EventLog | EventScan, default=EventLog)
else:
    from typing import TypeVar

    Events = TypeVar("Events")

Scope = Literal["entity+market", "entity", "market"]
Moment = datetime | np.datetime64 | pd.Timestamp | int

_SCOPES: Final = ("entity+market", "entity", "market")
_BY: Final = ("feature", "kind")


@dataclass(frozen=True, eq=False, repr=False)
class PointInTimeDataset(Generic[Events]):
    """Events, forecasts and targets, joined by the rules of time.

    Parameters
    ----------
    events : EventLog or EventScan
        Every event version. From a scan, whose files must be in canonical order (``EventScan.sort_to``),
        `samples` are read in one pass and in bounded memory; what else a method takes into memory, it says.
    clock : ForecastClock
        When forecasts are made.
    labels : Labels
        Targets, measured at times of that clock.
    universe : Universe, optional
        A forecast exists only for entities that are members at its time. Without it, every entity
        that has a label is in, survivors' bias included; `notes` say so.
    scope : {"entity+market", "entity", "market"}
        Which events a forecast for an entity reads: its own, the market-wide ones (entity null), or both.
    check : bool
        Refuse entities that have labels but no event to read, or events but no labels. Market-wide events in
        scope are something to read, and `notes` tell of entities that read nothing else; but where events
        bear a name that is nearly that of the entity, it is refused. Cuts switch the check off: early on an
        entity may have neither.

    Raises
    ------
    EventDataError
        If an entity has labels but no events in scope, or none of its own while events bear nearly its name.
    PriceDataError
        If an entity has events but is not among the labels' entities.
    LabelError
        If a label is not at a time of the clock, or no sample is left.
    UsageError
        If `scope` is unknown, or a part is of another type.
    """

    events: Events
    clock: ForecastClock
    labels: Labels
    universe: Universe | None = None
    scope: Scope = "entity+market"
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        """Refuse parts that do not belong together."""
        refuse_other_types(self.events, self.clock, self.labels, self.universe)
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
            refuse_strangers(
                *self._owners, self.labels.entities, own=self._reads_own, market=self._reads_market
            )
            if self._members.is_empty():
                raise LabelError(
                    f"no sample is left: dropped by reason {self.dropped_counts}; give longer prices, "
                    "an earlier clock or another universe"
                )

    # Properties over cached attributes, because help() shows no docstring of a cached property.
    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that have samples, sorted."""
        return self._entities

    @property
    def samples(self) -> pl.DataFrame:
        """One row for each entity and forecast time that has a target, sorted by time and entity.

        The columns of ``labels.frame``, then ``n_visible`` (Int64; the forecast reads exactly the first
        ``n_visible`` rows of ``event_sequence(entity)``), ``max_available_at`` (of those; null if there
        are none) and ``info_hash`` (32 hexadecimal digits that name exactly those event versions in
        their order; see :func:`~quantattn.pit.information_hash` for what that name is worth).

        The time is linear in events and forecasts, market-wide events included.
        """
        return self._samples

    @property
    def dropped(self) -> pl.DataFrame:
        """Forecasts without a sample: ``entity, forecast_time, reason``; the labels' and ``not_member``."""
        return self._dropped

    @property
    def dropped_counts(self) -> dict[str, int]:
        """How many forecasts have no sample, by reason."""
        return dict(self.dropped.group_by("reason").len().sort("reason").iter_rows())

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads results of this dataset should know; empty if there is nothing to say.

        That there is no universe, or that some of its members never have prices; that entities read
        market-wide events alone beside others that have their own; that a column of :meth:`as_of_features`
        is taken from events of several kinds. Of a scan, this takes passes over the files.
        """
        return self._notes

    @property
    def survivorship(self) -> SurvivorshipReport | None:
        """Who begins late and who ends early, as far as the labels tell; None if there is a universe.

        An entity counts as present from its first to its last forecast that has a label, or whose label was
        dropped for another reason than ``no_price`` and ``delisted``; where the data end before its label
        does (``incomplete``), it is present if it was at its last forecast before. Of the prices themselves,
        :func:`~quantattn.pit.survivorship.survivorship` gives such a report. With a universe, `notes` tell
        of members that never have prices.

        Raises
        ------
        PriceDataError
            If there are no labels.
        """
        return self._survivorship

    def event_sequence(self, entity: str) -> pl.DataFrame:
        """Give the events that forecasts for an entity read, in canonical order.

        Parameters
        ----------
        entity : str
            One of the labels' entities.

        Returns
        -------
        polars.DataFrame
            The columns of ``EventLog.frame``: its own and the market-wide events, as `scope` says. Of a scan,
            these alone are read into memory.

        Raises
        ------
        EventDataError
            If the entity is not among the labels' entities.
        """
        self._refuse_unknown(entity)
        if isinstance(self.events, EventLog):
            codes, place = self._codes, self.labels.entities.index(entity)
            mine = codes == place if self._reads_own else np.zeros(codes.size, dtype=bool)
            if self._reads_market:
                mine |= codes == len(self.labels.entities)
            return self.events.frame[np.flatnonzero(mine)]
        return _sources.sequence_of(self.events, [entity], own=self._reads_own, market=self._reads_market)

    def as_of_features(self, *, by: Literal["feature", "kind"] = "feature") -> pl.DataFrame:
        """Give every feature as it stood at each sample, row by row with `samples`.

        Of the event versions that ``n_visible`` counts, each event counts once, by its highest revision. The
        value is that of the event that happened last (by ``event_time``, then by when its first version
        became available, then by ``event_id``) among those that have the feature; the entity's own events
        come first, market-wide ones where none of those has it. So a late correction of an old event does
        not displace a newer one, and where a revision withdraws a value, the event before it counts.

        Parameters
        ----------
        by : {"feature", "kind"}
            One column for each feature, whatever the kind of the event that has it last; or one for each
            kind and feature, for which events of other kinds do not count. Where a log holds series that
            mean different things by one name, such as ``value`` of twenty statistics, only the second keeps
            them apart; `notes` name such features.

        Returns
        -------
        polars.DataFrame
            ``asof_<feature>`` (Float64) for each feature, or ``asof_<kind>_<feature>`` for each kind and
            feature that occur together in an event that the samples' entities may read, so that a cut may
            have fewer; null where no visible event has it. A row for each sample even where there are no
            columns. Of a scan, the times, ids and features are read into memory, the texts are not.

        Raises
        ------
        UsageError
            If `by` is unknown, or there would be more than 10,000 columns by kind.
        EventDataError
            If two columns would have one name: of kind ``a_b`` and feature ``c``, and of ``a`` and ``b_c``.
        """
        if by not in _BY:
            raise UsageError(f"by={by!r} is unknown; use one of {', '.join(map(repr, _BY))}")
        features = self.events.features
        if isinstance(self.events, EventLog):
            frame = self.events.frame
        else:
            frame = _sources.sequence_of(
                self.events,
                self.labels.entities,
                own=self._reads_own,
                market=self._reads_market,
                columns=[*COLUMNS, *(["kind"] if by == "kind" else []), *features],
            )
        table = as_of_table if by == "feature" else as_of_table_by_kind
        return table(
            frame,
            features,
            self.labels.entities,
            self._readers,
            self._forecast_times,
            own=self._reads_own,
            market=self._reads_market,
        )

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
            targets are kept, though some are known only later: ``label_available_at`` says when. Of a scan,
            the events before `t` are read into memory.
        """
        moment = to_nanoseconds(t)
        return PointInTimeDataset(
            _sources.before(self.events, moment),
            self.clock.cut(moment),
            self.labels.cut(moment),
            self.universe,
            self.scope,
            check=False,
        )

    def why(
        self,
        entity: str,
        forecast_time: Moment,
        *,
        last: int = 20,
        next: int = 5,
        time_zone: str | None = None,
    ) -> WhyReport:
        """Show what a forecast saw last, and what it just did not see, by how much, and until when.

        Parameters
        ----------
        entity : str
            One of the labels' entities.
        forecast_time : datetime, numpy.datetime64, pandas.Timestamp or int
            Any instant, on the clock or not; naive values are read as UTC.
        last, next : int
            How many visible and not yet visible events to list.
        time_zone : str, optional
            Zone, such as ``"America/New_York"``, in whose wall clock times are told beside UTC.

        Returns
        -------
        WhyReport

        Raises
        ------
        EventDataError
            If the entity is not among the labels' entities.
        UsageError
            If `last` or `next` is negative or no whole number, or `time_zone` is no text.
        TimestampError
            If the instant is none, or the zone is unknown.
        """
        if not all(is_whole(number) for number in (last, next)) or last < 0 or next < 0:
            raise UsageError(f"last={last!r}, next={next!r}: give whole numbers, zero or more")
        if time_zone is not None:
            if not isinstance(time_zone, str):
                raise UsageError(
                    f"time_zone={time_zone!r} is of type {type(time_zone).__name__}; give a name"
                )
            check_time_zone(time_zone)
        return explain(
            self.event_sequence(entity),
            self.events.features,
            entity,
            to_nanoseconds(forecast_time),
            self.scope,
            last=int(last),
            following=int(next),
            time_zone=time_zone,
        )

    def __repr__(self) -> str:
        """Say how large the dataset is, and whether there is a universe."""
        size = f"{len(self.events)} events" if isinstance(self.events, EventLog) else f"{self.events!r}"
        universe = "no universe: survivors' bias is not excluded"
        if self.universe is not None:
            missing, members = self._unpriced_members
            told = f" ({len(missing)} of {members} members never have prices)" if missing else ""
            universe = f"a universe{told}"
        return (
            f"PointInTimeDataset({self._members.height} samples, {len(self.entities)} entities, "
            f"{size}, scope={self.scope!r}, {universe}, dropped={self.dropped_counts})"
        )

    @property
    def _reads_own(self) -> bool:
        return self.scope != "market"

    @property
    def _reads_market(self) -> bool:
        return self.scope != "entity"

    @cached_property
    def _entities(self) -> tuple[str, ...]:
        return tuple(self._members["entity"].unique().sort().to_list())

    @cached_property
    def _samples(self) -> pl.DataFrame:
        seen = read_visible(
            _sources.in_batches(self.events),
            self.events.features,
            self.labels.entities,
            self._readers,
            self._forecast_times,
            own=self._reads_own,
            market=self._reads_market,
        )
        return self._members.with_columns(
            pl.Series("n_visible", seen.n_visible, dtype=pl.Int64), seen.max_available_at, seen.info_hash
        )

    @cached_property
    def _dropped(self) -> pl.DataFrame:
        outside = self.labels.frame.filter(~self._is_member).select(
            "entity", "forecast_time", reason=pl.lit("not_member")
        )
        return pl.concat([self.labels.dropped, outside]).sort("forecast_time", "entity")

    @cached_property
    def _survivorship(self) -> SurvivorshipReport | None:
        return survivorship_of(self.labels, self.clock) if self.universe is None else None

    @cached_property
    def _notes(self) -> tuple[str, ...]:
        return _notes.notes_of(
            self.events,
            self.labels.entities,
            without_universe=self.universe is None,
            unpriced=self._unpriced_members,
            silent=sorted(set(self.entities) - self._owners[0]) if self._owners[1] else [],
            readers=len(self.entities),
            own=self._reads_own,
            market=self._reads_market,
        )

    @cached_property
    def _unpriced_members(self) -> tuple[list[str], int]:
        if self.universe is None:
            return [], 0
        times = nanoseconds_of(self.clock.times)
        return _notes.members_without_prices(self.universe, times, self.labels.entities)

    @cached_property
    def _owners(self) -> tuple[set[str], bool]:
        return _sources.owners(self.events)

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
    def _readers(self) -> Codes:
        """The place of each sample's entity among the labels' entities."""
        return entity_codes(self._members["entity"], self.labels.entities, -1, -1)

    @cached_property
    def _codes(self) -> Codes:
        """Of each event in memory, the place of its entity; their number for the market, -1 for others."""
        entities = self.labels.entities
        return entity_codes(
            self.events.frame.lazy().select("entity").collect()["entity"], entities, len(entities), -1
        )

    def _refuse_unknown(self, entity: str) -> None:
        if entity not in self.labels.entities:
            near = nearest_names(entity, self.labels.entities) if isinstance(entity, str) else ""
            raise EventDataError(
                f"entity={entity!r} is not in the dataset{near}; "
                f"use one of {', '.join(self.labels.entities[:12])}"
            )
