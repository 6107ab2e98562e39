"""Values as they stood: for each feature, the one of the last event that was visible and had it.

The rule. Of the event versions that a forecast sees, each event counts once, by its highest revision. A
feature's value is that of the event that happened last (greatest ``event_time``; of equals the one whose
first version became available later; of equals the greater ``event_id``) among those whose version has the
feature. The entity's own events come first, and market-wide ones where none of those has it.

So a late correction of an old event does not displace the value of a newer one, and a retraction, a
revision in which the feature is null, gives way to the event before.

Apart for each kind, the rule looks at the events whose highest revision is of that kind, and at no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import UsageError
from quantattn.pit.dataset._by_kind import bearers, column_names, frames_of_kinds
from quantattn.pit.dataset._threads import in_order
from quantattn.pit.dataset._visible import Codes, counts_at, entity_codes
from quantattn.pit.timestamps import Nanoseconds, nanoseconds_of

COLUMNS = ("event_id", "revision", "entity", "event_time", "available_at")
"""What the rule looks at beside the features; apart for each kind, it is ``kind`` too."""

MOST_COLUMNS = 10_000
"""Columns of a table that is made apart for each kind, at most."""

Mask = npt.NDArray[np.bool_]


def as_of_table(
    frame: pl.DataFrame,
    features: Sequence[str],
    entities: Sequence[str],
    readers: Codes,
    times: Nanoseconds,
    *,
    own: bool,
    market: bool,
) -> pl.DataFrame:
    """Give every feature as of each forecast.

    Parameters
    ----------
    frame : polars.DataFrame
        ``event_id, revision, entity, event_time, available_at`` and the features, in canonical order.
    features : sequence of str
        Feature columns (Float64).
    entities : sequence of str
        Names, all different.
    readers : ndarray of int32, shape (m,)
        The place of each forecast's entity among them.
    times : ndarray of int64, shape (m,)
        Forecast times, nondecreasing.
    own, market : bool
        Whether forecasts read their entity's own events, and the market-wide ones.

    Returns
    -------
    polars.DataFrame
        ``asof_<feature>`` (Float64) for each feature, m rows; null where no visible event has it.
    """
    wide = len(entities)
    slots = entity_codes(frame["entity"], entities, wide if market else -1, -1)
    if not own:
        slots[slots < wide] = -1
    found = {name: np.full(times.size, np.nan) for name in features}
    for part in _parts(frame, slots, wide, readers, times):
        # Features are finite, so that NaN can stand for "there is none".
        columns = (frame[name] for name in features)
        for name, values in zip(features, in_order(part.values, columns), strict=True):
            found[name][part.forecasts] = values
    if not found:
        return pl.DataFrame(height=times.size)
    return pl.DataFrame({f"asof_{name}": values for name, values in found.items()}, nan_to_null=True)


def as_of_table_by_kind(
    frame: pl.DataFrame,
    features: Sequence[str],
    entities: Sequence[str],
    readers: Codes,
    times: Nanoseconds,
    *,
    own: bool,
    market: bool,
) -> pl.DataFrame:
    """Give every feature as of each forecast, apart for each kind of event that bears it.

    Parameters
    ----------
    frame : polars.DataFrame
        As in :func:`as_of_table`, with ``kind``.
    features, entities, readers, times, own, market
        As there.

    Returns
    -------
    polars.DataFrame
        ``asof_<kind>_<feature>`` (Float64), m rows, for each kind and feature that occur together in an event
        that some forecast could read, sorted by kind, features in their order.

    Raises
    ------
    UsageError
        If there would be more than ``MOST_COLUMNS`` columns.
    EventDataError
        If two columns would have one name.
    """
    wide = len(entities)
    slots = entity_codes(frame["entity"], entities, wide if market else -1, -1)
    if not own:
        slots[slots < wide] = -1
    frame = frame.filter(pl.Series(slots >= 0, dtype=pl.Boolean))
    pairs = bearers(frame.lazy(), features)
    if len(pairs) > MOST_COLUMNS:
        raise UsageError(
            f"by='kind' would give {len(pairs)} columns, one for each kind and feature that occur together, "
            f"which is more than {MOST_COLUMNS}; give fewer features, or events whose column 'kind' names "
            "kinds and not single events"
        )
    names = column_names(pairs)
    borne: dict[str, list[str]] = {}
    for kind, name in pairs:
        borne.setdefault(kind, []).append(name)
    found: list[pl.Series] = []
    for (kind, mine), part in zip(borne.items(), frames_of_kinds(frame, list(borne)), strict=True):
        # A version of another kind supersedes, and has nothing to give.
        given = part.with_columns(
            pl.when(pl.col("kind") == kind).then(pl.col(name)).alias(name) for name in mine
        )
        found += as_of_table(given, mine, entities, readers, times, own=own, market=market).get_columns()
    if not found:
        return pl.DataFrame(height=times.size)
    return pl.DataFrame([column.alias(name) for column, name in zip(found, names, strict=True)])


@dataclass(frozen=True, eq=False)
class _Part:
    """Some forecasts, and the events that they may read.

    Attributes
    ----------
    forecasts : ndarray of bool, shape (m,)
        Which forecasts; k of them.
    size : int
        Slots: those of the entities, and the market's.
    slots, event_times : ndarray, shape (n,)
        Whose the events are (-1: nobody's), and when they happened.
    stops, readers : ndarray, shape (k,)
        How many of the n each forecast may see, and the slot of its entity.
    rows : ndarray of int64, shape (n,), optional
        Where the events stand in the frame; all of it if not given.
    versions : tuple of three ndarrays of shape (n,), optional
        Event, revision and rank of each, where events have several versions.
    """

    forecasts: Mask
    size: int
    slots: Codes
    event_times: Nanoseconds
    stops: Nanoseconds
    readers: Codes
    rows: Nanoseconds | None = None
    versions: tuple[Nanoseconds, Nanoseconds, Nanoseconds] | None = None

    def values(self, column: pl.Series) -> npt.NDArray[np.float64]:
        """Give a feature as of each of the forecasts; NaN where there is none."""
        from quantattn.pit.dataset import _as_of_kernels as kernels

        if self.rows is not None:
            column = column.gather(self.rows)
        there = column.is_not_null().to_numpy()
        place = np.empty(self.stops.size, dtype=np.int64)
        if self.versions is None:
            kernels.latest_rows(
                self.slots, self.event_times, there, self.stops, self.readers, self.size, place
            )
        else:
            kernels.latest_current_rows(
                self.slots, *self.versions, there, self.stops, self.readers, self.size, place
            )
        if column.is_empty():
            return np.full(place.size, np.nan)
        values: npt.NDArray[np.float64] = column.to_numpy()[np.maximum(place, 0)]
        return np.where(place >= 0, values, np.nan)


def _parts(
    frame: pl.DataFrame, slots: Codes, wide: int, readers: Codes, times: Nanoseconds
) -> Iterator[_Part]:
    """Split the forecasts by whether versions supersede one another in what they read."""
    available = nanoseconds_of(frame["available_at"])
    revised, mixed = _revised_slots(frame, slots, wide)
    # An entity that shares an event with the market is looked at alone with it: a version that left the one
    # for the other supersedes the one there, but for this entity only.
    alone = np.isin(readers, mixed)
    with_versions = ~alone & (np.isin(readers, revised) | (wide in revised))
    plain = ~alone & ~with_versions
    if plain.any():
        happened = nanoseconds_of(frame["event_time"])
        stops = counts_at(available, times[plain])
        yield _Part(plain, wide + 1, slots, happened, stops, readers[plain])
    if with_versions.any():
        read = [*np.unique(readers[with_versions]).tolist(), wide]
        yield _with_versions(frame, slots, read, ["event_id", "slot"], wide, with_versions, readers, times)
    for entity in mixed:
        chosen = readers == entity
        if chosen.any():
            yield _with_versions(frame, slots, [entity, wide], ["event_id"], wide, chosen, readers, times)


def _revised_slots(frame: pl.DataFrame, slots: Codes, wide: int) -> tuple[list[int], list[int]]:
    """Find the slots in which events have several versions, and entities that share one with the market."""
    later = frame["revision"] > 0
    if not later.any():
        return [], []
    ids = frame["event_id"].filter(later).unique()
    versions = (
        frame.select("event_id")
        .with_columns(slot=pl.Series(slots))
        .filter(pl.col("slot") >= 0, pl.col("event_id").is_in(ids.implode()))
    )
    several = versions.filter(pl.len().over("event_id", "slot") > 1)
    shared = versions.filter((pl.col("slot") == wide).any().over("event_id"), pl.col("slot") != wide)
    return several["slot"].unique().to_list(), shared["slot"].unique().sort().to_list()


def _with_versions(
    frame: pl.DataFrame,
    slots: Codes,
    read: list[int],
    event: list[str],
    wide: int,
    forecasts: Mask,
    readers: Codes,
    times: Nanoseconds,
) -> _Part:
    """Take the events of some slots, and rank their versions in the order in which events win."""
    rows = np.flatnonzero(np.isin(slots, read)).astype(np.int64)
    table = (
        frame.select(COLUMNS)
        .gather(rows)
        .with_columns(slot=pl.Series(slots[rows]))
        .with_row_index("row")
        .with_columns(
            pl.col("row").first().over(event).cast(pl.Int64).alias("event"),
            pl.col("available_at").first().over(event).alias("first"),
        )
    )
    order = table.select(pl.arg_sort_by("event_time", "first", "event_id", "row")).to_series().to_numpy()
    ranks = np.empty(rows.size, dtype=np.int64)
    ranks[order] = np.arange(rows.size)
    return _Part(
        forecasts,
        wide + 1,
        slots[rows],
        nanoseconds_of(table["event_time"]),
        counts_at(nanoseconds_of(table["available_at"]), times[forecasts]),
        readers[forecasts],
        rows,
        (table["event"].to_numpy(), table["revision"].cast(pl.Int64).to_numpy(), ranks),
    )
