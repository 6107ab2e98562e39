"""The view that a reviewer asks for: what one forecast saw, and what it just did not."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from quantattn.pit.timestamps import iso


@dataclass(frozen=True, eq=False)
class WhyReport:
    """What was visible to one forecast; ``print`` it.

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
        The last visible events, in canonical order.
    not_visible : polars.DataFrame
        The next events, with ``hidden_for`` (Duration): how long after the forecast they became
        available. Zero means at the very instant, which is not visible either.
    """

    entity: str
    forecast_time: int
    n_visible: int
    info_hash: str
    visible: pl.DataFrame
    not_visible: pl.DataFrame

    def __str__(self) -> str:
        """Tell the report as text, one event a line."""
        lines = [
            f"Forecast for {self.entity} at {iso(self.forecast_time)}: {self.n_visible} events visible, "
            f"information set {self.info_hash}",
            f"Last {self.visible.height} visible (available before the forecast):",
            *_lines(self.visible),
            f"Next {self.not_visible.height}, not visible (available at the forecast or later):",
            *_lines(self.not_visible),
        ]
        return "\n".join(lines)


def _lines(frame: pl.DataFrame) -> list[str]:
    if frame.is_empty():
        return ["  none"]
    moments = frame["available_at"].to_physical().to_list()
    waits = frame["hidden_for"].to_list() if "hidden_for" in frame.columns else [None] * frame.height
    rows = zip(moments, waits, frame.select("event_id", "revision", "text").rows(), strict=True)
    told = []
    for moment, wait, (event_id, revision, text) in rows:
        late = "" if wait is None else f" (visible to forecasts later than that, {wait} after this one)"
        # Text from events is untrusted: repr keeps control characters from the terminal.
        told.append(f"  {iso(moment)}{late} {event_id!r} revision {revision}: {text!r}")
    return told
