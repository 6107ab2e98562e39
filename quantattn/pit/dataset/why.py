"""The view that a reviewer asks for: what one forecast saw, and what it just did not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from quantattn.pit.dataset import _why_text
from quantattn.pit.dataset.hashing import information_hash
from quantattn.pit.timestamps import instants, nanoseconds_of, visible_counts


@dataclass(frozen=True, eq=False, repr=False)
class WhyReport:
    """What was visible to one forecast; ``print`` it, or leave it as the last line of a notebook's cell.

    Attributes
    ----------
    entity : str
        The forecast's entity.
    forecast_time : int
        Nanoseconds since the epoch, UTC.
    n_visible : int
        How many event versions were visible.
    info_hash : str
        Their name, as in the dataset's samples.
    visible : polars.DataFrame
        The last visible versions, in canonical order, with ``superseded_at``: when the first version of a
        higher revision became available that this forecast sees as well. Null means that the version is the
        one that stands.
    not_visible : polars.DataFrame
        The next versions, with ``hidden_until`` (they are visible to forecasts strictly later than that),
        ``hidden_for`` (Duration; how much too late they became available: zero means at the very instant,
        which is not visible either) and ``revises`` (Int32; the revision among the visible ones that they
        would replace, null where the forecast sees none of the event).
    scope : str
        Which events the forecast reads, as in the dataset.
    time_zone : str, optional
        Zone in whose wall clock the renderings tell times beside UTC.
    """

    entity: str
    forecast_time: int
    n_visible: int
    info_hash: str
    visible: pl.DataFrame
    not_visible: pl.DataFrame
    scope: str = "entity+market"
    time_zone: str | None = None

    def __str__(self) -> str:
        """Tell the report as text, one version a line."""
        return _why_text.as_text(self.entity, self._facts(), self.visible, self.not_visible)

    def __repr__(self) -> str:
        """Say which forecast it is about."""
        return f"<WhyReport of {self.entity!r}: {self.n_visible} visible; print it for the whole>"

    def to_markdown(self) -> str:
        """Tell the report as Markdown: a heading, and a table each for what was visible and what was not.

        Returns
        -------
        str
            Texts of events are escaped, so that they show as they are.
        """
        return _why_text.as_markdown(self.entity, self._facts(), self.visible, self.not_visible)

    def _repr_html_(self) -> str:
        """Tell the report to a notebook, with texts of events escaped."""
        return _why_text.as_html(self.entity, self._facts(), self.visible, self.not_visible)

    def _facts(self) -> _why_text.Facts:
        return _why_text.Facts(self.forecast_time, self.n_visible, self.info_hash, self.scope, self.time_zone)


def explain(
    sequence: pl.DataFrame,
    features: tuple[str, ...],
    entity: str,
    moment: int,
    scope: str,
    *,
    last: int,
    following: int,
    time_zone: str | None = None,
) -> WhyReport:
    """Look up one forecast in the events of its entity.

    Parameters
    ----------
    sequence : polars.DataFrame
        What forecasts for the entity read, in canonical order.
    features : tuple of str
        Feature columns.
    entity : str
        The entity.
    moment : int
        The forecast time, nanoseconds since the epoch, UTC.
    scope : str
        As in the dataset.
    last, following : int
        How many visible and not yet visible versions to list.
    time_zone : str, optional
        Zone in whose wall clock times are told beside UTC.
    """
    count = int(visible_counts(nanoseconds_of(sequence["available_at"]), np.array([moment]))[0])
    seen, hidden = sequence.head(count), sequence.slice(count, following)
    shown = seen.tail(last)
    standing = _of_events(seen, hidden).group_by("event_id").agg(pl.col("revision").max().alias("revises"))
    return WhyReport(
        entity=entity,
        forecast_time=moment,
        n_visible=count,
        info_hash=information_hash(seen, features),
        visible=shown.join(
            _superseded(_of_events(seen, shown)),
            on=["event_id", "revision"],
            how="left",
            maintain_order="left",
        ),
        not_visible=hidden.with_columns(
            hidden_until=pl.col("available_at"),
            hidden_for=pl.col("available_at") - pl.lit(instants([moment])),
        ).join(standing, on="event_id", how="left", maintain_order="left"),
        scope=scope,
        time_zone=time_zone,
    )


def _of_events(frame: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    return frame.join(chosen.select("event_id").unique(), on="event_id", how="semi", maintain_order="left")


def _superseded(versions: pl.DataFrame) -> pl.DataFrame:
    """Give when each version was first superseded by one of a higher revision; null if it never was."""
    later = pl.col("available_at").reverse().cum_min().reverse().shift(-1).over("event_id")
    return versions.sort("event_id", "revision").select("event_id", "revision", superseded_at=later)
