"""The history that a study reads: price files, event files, and the events made from prices."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from quantattn.study._section import Section
from quantattn.study._values import (
    ASCENDING,
    DISTINCT,
    LISTED,
    PACKAGED,
    Calendar,
    Count,
    DataFile,
    Day,
    Entity,
    Latency,
    PositiveFloat,
    Separator,
    Share,
    Text,
    Zone,
    source_of,
)

PACKAGED_PANELS: Final = ("us_equities",)
PACKAGED_SERIES: Final = ("sp500_index", "sp500_ohlcv")
MAX_WINDOW: Final = 25_200
"""A century of sessions."""

Window = Annotated[int, Field(ge=1, le=MAX_WINDOW)]
"""A trailing window, in bars."""


class _Bars(Section):
    """A file of daily bars."""

    source: str
    """`packaged:NAME` or the path of a data file."""
    session: Text = "date"
    """Column of session dates, local to the exchange."""
    close: Text | None = "close"
    """Column of closing prices, positive."""
    separator: Separator | None = None
    """Character between fields; null for a comma, or a tab in .tsv files."""

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, given: Any) -> Any:
        """Let ``prices: FILE`` stand for ``prices: {source: FILE}``."""
        return {"source": given} if isinstance(given, str) else given


class PriceSource(_Bars):
    """The daily bars of the instruments to be forecast."""

    source: Annotated[str, source_of(PACKAGED_PANELS + PACKAGED_SERIES)]
    """`packaged:us_equities` (20 US large caps, 1990 to 2022), or the path of a data file."""
    close: Text | None = "close"
    """Column of closing prices; null for a wide file, with one column of them for each instrument."""
    entity: Text | None = "entity"
    """Column that names the instrument; null when the file is wide or holds one instrument."""
    name: Text | None = None
    """The name of a file's one instrument; null otherwise."""
    open: Text | None = None
    """Column of opening prices, if any."""
    high: Text | None = None
    """Column of highest prices, if any."""
    low: Text | None = None
    """Column of lowest prices, if any."""
    volume: Text | None = None
    """Column of traded volume, if any."""

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, given: Any) -> Any:
        """See besides that a wide file and a single series have no column of entities unless one is given."""
        if isinstance(given, str):
            given = {"source": given}
        if not isinstance(given, dict):
            return given
        source = given.get("source")
        if source in [PACKAGED + name for name in PACKAGED_SERIES]:
            return {"entity": None, "name": str(source).removeprefix(PACKAGED)} | given
        if given.get("name") is not None or ("close" in given and given["close"] is None):
            return {"entity": None} | given
        return given

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.close is None:
            extra = ("entity", "name", "open", "high", "low", "volume")
            given = [key for key in extra if getattr(self, key) is not None]
            if given:
                verb, them = ("belongs", "it") if len(given) == 1 else ("belong", "them")
                raise ValueError(
                    f"{', '.join(given)} {verb} to a long file; with close: null the file is wide, so make "
                    f"{them} null"
                )
        elif (self.entity is None) == (self.name is None):
            raise ValueError(
                "give entity (the column that names the instrument) or name (of a file's one instrument); "
                + ("neither is given" if self.entity is None else "both are given")
            )
        return self


class IndexSource(_Bars):
    """The daily bars of the market index, from which market-wide events are made."""

    source: Annotated[str, source_of(PACKAGED_SERIES)]
    """`packaged:sp500_index`, or the path of a data file with one series."""
    close: Text = "close"
    """Column of closing prices, positive."""


def _dated(event_time: str | None, info: ValidationInfo) -> str | None:
    """Ask for the column of times, unless the file may say itself what its columns mean."""
    path = info.data.get("path")
    if event_time is None and path is not None and not path.lower().endswith((".parquet", ".pq")):
        raise ValueError("is missing; add it")
    return event_time


class EventSource(Section):
    """One file of dated events of your own: headlines, filings, releases."""

    path: DataFile
    """A data file, one event version a row."""
    event_time: Annotated[Text | None, AfterValidator(_dated), Field(validate_default=True)] = None
    """Column: when it happened, or the period that it describes; null for a file of `quantattn ingest`."""
    available_at: Text | None = None
    """Column: when this system could first have known it; null derives it from event_time."""
    entity: Text | None = None
    """Column of the instrument; null means that all events are market-wide."""
    event_id: Text | None = None
    """Column that identifies an event through its revisions."""
    revision: Text | None = None
    """Column of revision numbers, from 0."""
    kind: Text | None = None
    """Column that says what kind of event it is."""
    text: Text | None = None
    """Column of text."""
    features: Annotated[tuple[Text, ...], LISTED, DISTINCT] = ()
    """Columns of numbers."""
    time_zone: Zone | None = None
    """Zone of stamps that carry none; stamps without any declared zone are refused."""
    date_only: Literal["next_session", "reject"] = "next_session"
    """What a date without a time means: known at the next session's open, or refused."""
    latency: Latency = "0s"
    """Time from publication until this system has it."""
    scheduled: bool = False
    """Whether an event may be announced before it happens (available_at before event_time)."""
    separator: Separator | None = None
    """Character between fields; null for a comma, or a tab in .tsv files."""


class MarketEvents(Section):
    """Events made from the price history itself; every threshold looks back only."""

    k: PositiveFloat = 3.0
    """A move is a return beyond k trailing standard deviations."""
    bar_windows: Annotated[tuple[Window, ...], LISTED, ASCENDING, Field(min_length=1)] = (5, 22, 66)
    """Windows of the bars' volatility features, in bars."""
    volatility_window: Annotated[int, Field(ge=2, le=MAX_WINDOW)] = 22
    """Bars in the standard deviation that moves and regimes are measured by."""
    extreme_window: Window = 252
    """Bars over which a high or low counts as extreme."""
    regime_window: Window = 252
    """Bars over which the quantiles of volatility are taken."""
    regime_quantiles: Annotated[tuple[Share, ...], LISTED, ASCENDING, Field(min_length=2, max_length=2)] = (
        0.2,
        0.8,
    )
    """Below the first: calm. Above the second: turbulent."""
    drawdown_levels: Annotated[tuple[Share, ...], LISTED, ASCENDING] = (0.05, 0.1, 0.2, 0.3, 0.4)
    """Index drawdowns whose crossing is a market-wide event."""


class DataConfig(Section):
    """What history the study reads, and how it becomes events."""

    prices: PriceSource
    """Bars of the instruments to be forecast."""
    index: IndexSource | None = None
    """Bars of the market index; null for none."""
    events: Annotated[tuple[EventSource, ...], LISTED] = ()
    """Your own dated events."""
    market_events: MarketEvents | None = MarketEvents()
    """Events made from the price history; true for the defaults, false for none."""
    calendar: Calendar = "XNYS"
    """Trading calendar of the instruments, by its name in exchange_calendars."""
    latency: Latency = "60s"
    """Time from the end of a bar until this system has it."""
    gaps: Literal["raise", "drop"] = "raise"
    """A session without a bar: stop, or make no forecasts across it."""
    entities: Annotated[tuple[Entity, ...], LISTED, DISTINCT, Field(min_length=1)] | None = None
    """Only these instruments; null for all in the file."""
    max_entities: Count | None = None
    """At most so many instruments, the first in alphabetical order; null for all."""
    start: Day | None = None
    """First session to use; earlier bars are not read. Null for the first in the file."""
    end: Day | None = None
    """Last session to use; null for the last in the file."""
    scope: Literal["entity+market", "entity", "market"] = "entity+market"
    """Whose events a forecast sees: the instrument's own, the market-wide ones, or both."""

    @model_validator(mode="before")
    @classmethod
    def _switch(cls, given: Any) -> Any:
        """Let ``market_events: true`` stand for its defaults and ``false`` for none."""
        if isinstance(given, dict) and isinstance(given.get("market_events"), bool):
            return given | {"market_events": {} if given["market_events"] else None}
        return given

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"start {self.start} is not before end {self.end}; give an earlier start")
        if self.market_events is None and not self.events:
            raise ValueError("there are no events; set market_events: true or list files in events")
        if self.market_events is None and self.index is not None:
            raise ValueError("index serves market events alone; set market_events: true or index: null")
        return self
