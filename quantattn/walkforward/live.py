"""A fold's test span as it would have run live: raw events in, forecasts out, in the order of the clock."""

from __future__ import annotations

import numpy as np
import polars as pl

from quantattn.errors import ForecasterError, InformationSetError
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.history import History
from quantattn.forecasters.tokens import Floats
from quantattn.pit import EventLog
from quantattn.pit.timestamps import instants, is_visible, iso, nanoseconds_of
from quantattn.walkforward.fold import Fold, Rows
from quantattn.walkforward.table import SEEN, TestForecasts, forecast_rows
from quantattn.walkforward.threads import limited_threads

_KEY = ("entity", "forecast_time")


def stream_test(forecaster: FittedForecaster, fold: Fold, history: History, *, threads: int) -> TestForecasts:
    """Forecast a fold's test span through the streaming forecaster.

    The history before the span is written at once, but for its last events; from there on events and
    forecasts come one by one in the order of the clock, on one thread, and each call is timed as a live
    caller meets it: an update finds the event's place, encodes its text and figures, keeps the as-of values
    and steps the network of every entity that reads it; a forecast gathers the as-of values, reads the
    network and scales the answer.

    Parameters
    ----------
    forecaster : FittedForecaster
        The fold's forecaster.
    fold : Fold
        The fold; only entities that have test rows are followed.
    history : History
        All events, as they came, and the samples.
    threads : int
        Threads to write the history before the span with; they change no bit.

    Returns
    -------
    TestForecasts
        With the information sets that the streaming forecaster names itself.

    Raises
    ------
    InformationSetError
        If it read other events for a forecast than the dataset says were visible.
    ForecasterError
        If it made other forecasts than there are test rows, or gave others, or other bounds, than the
        forecasts table will hold.
    DenominatorError
        If a read meets something that is not finite.
    """
    asked = history.samples[fold.test].select(*_KEY, *SEEN)
    log, text = events_for(history, fold.test)
    with limited_threads(threads):
        live = forecaster.stream()
        live.warm_up()
        made = live.replay(
            log,
            asked.select(_KEY),
            entities=asked["entity"].unique().sort().to_list(),
            until=int(nanoseconds_of(asked["forecast_time"]).max()),
            text=text,
        )
    made = asked.select(_KEY).join(made, on=_KEY, how="left", maintain_order="left")
    missing = made["y_pred"].is_null().arg_true()
    if missing.len():
        raise ForecasterError(
            f"fold {fold.index} has {len(fold.test)} test rows and {missing.len()} were not forecast, first "
            f"{_named(made, int(missing[0]))}; give samples of distinct entities and forecast times"
        )
    _refuse_other_information(made, asked)
    given = TestForecasts(
        y_pred=made["y_pred"].to_numpy(),
        interval=forecaster.interval,
        update_us=made["update_us"].to_numpy(),
        read_us=made["read_us"].to_numpy(),
        information=made.select(SEEN),
    )
    _refuse_other_values(made, forecast_rows(history.samples, fold, given, study="", model="", seed=0))
    return given


def events_for(history: History, rows: Rows) -> tuple[EventLog, Floats | None]:
    """Give the events that some forecasts could read.

    Parameters
    ----------
    history : History
        All events and samples.
    rows : ndarray of int64, shape (m,)
        Rows of the samples frame, at least one.

    Returns
    -------
    log : EventLog
        The events of these forecasts' entities and the market-wide ones, as the scope says, that were
        available before the last of them.
    text : ndarray of float32, shape (n, text_width), or None
        Their hashed text, where the history holds it.
    """
    asked = history.samples[rows]
    last = pl.lit(instants([int(nanoseconds_of(asked["forecast_time"]).max())])).first()
    own, wide = (
        pl.col("entity").is_in(asked["entity"].unique().implode()).fill_null(False),
        pl.col("entity").is_null(),
    )
    read = {"entity+market": own | wide, "entity": own, "market": wide}[history.scope]
    keep = history.events.select((read & is_visible(pl.col("available_at"), last)).alias("keep"))["keep"]
    frame = history.events.filter(keep)
    return EventLog(frame, history.features), _hashed(history, frame, asked["entity"].unique().to_list())


def _hashed(history: History, frame: pl.DataFrame, entities: list[str]) -> Floats | None:
    """Take the hashed text of some events from the sequences of the entities that read them."""
    known = [history.entities[entity] for entity in entities if entity in history.entities]
    if len(known) < len(entities):
        return None
    owner = frame["entity"]
    wide = owner.is_null().to_numpy()
    text = np.empty((frame.height, known[0].text.shape[1]), np.float32)
    for entity, sequence in zip(entities, known, strict=True):
        mine = wide.copy() if history.scope != "entity" else np.zeros(frame.height, bool)
        if history.scope != "market":
            mine |= (owner == entity).fill_null(False).to_numpy()
        # The sequence goes on behind the events that are wanted.
        text[mine] = sequence.text[: int(mine.sum())]
    return text


def _refuse_other_information(made: pl.DataFrame, asked: pl.DataFrame) -> None:
    """Refuse forecasts that were made from other events than the dataset says were visible."""
    other = np.zeros(made.height, bool)
    for name in SEEN:
        other |= made[name].ne_missing(asked[name].cast(made[name].dtype)).to_numpy()
    rows = np.flatnonzero(other)
    if not len(rows):
        return
    row = int(rows[0])
    raise InformationSetError(
        f"{len(rows)} of {made.height} forecasts were made live from other events than the dataset says were "
        f"visible, first {_named(made, row)}: live {_told(made, row)}, the dataset {_told(asked, row)}; one "
        "of the two reads the events wrongly, so neither can be trusted"
    )


def _refuse_other_values(made: pl.DataFrame, table: pl.DataFrame) -> None:
    """Refuse a forecasts table that would not hold, bit for bit, what the live path answered."""
    for name in ("y_pred", "y_lower", "y_upper"):
        live, kept = (np.ascontiguousarray(rows[name].to_numpy(), np.float64) for rows in (made, table))
        other = np.flatnonzero(live.view(np.int64) != kept.view(np.int64))
        if len(other):
            row = int(other[0])
            raise ForecasterError(
                f"{len(other)} of {made.height} live forecasts have another {name} than the forecasts "
                f"table, first {_named(made, row)}: live {float(live[row])!r}, there {float(kept[row])!r}; "
                "one of the two adds the interval wrongly, so neither can be trusted"
            )


def _named(rows: pl.DataFrame, row: int) -> str:
    return f"{rows['entity'][row]} {iso(int(nanoseconds_of(rows['forecast_time'])[row]))}"


def _told(rows: pl.DataFrame, row: int) -> str:
    newest = rows["max_available_at"].to_physical()[row]
    when = "none" if newest is None else iso(int(newest))
    return f"{rows['n_visible'][row]} events up to {when} with info_hash {rows['info_hash'][row]}"
