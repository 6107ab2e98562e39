"""Forecasts of sample rows, by the streaming path or in batches, as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from quantattn.errors import ForecasterError
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.history import History
from quantattn.forecasters.passes import forecast_outputs
from quantattn.forecasters.streaming import catch_up, replay_panel
from quantattn.forecasters.tokens import EntityTokens, Integers
from quantattn.pit.timestamps import instants

Route = Literal["stream", "batch"]
Floats64 = npt.NDArray[np.float64]


def raw_forecasts(
    forecaster: FittedForecaster,
    tokens: Sequence[EntityTokens],
    rows: Integers,
    *,
    path: Route,
    batch_entities: int,
    segment_tokens: int | None,
) -> Floats64:
    """Give the raw numbers of some rows, shape (m, outputs), in the order of the rows.

    Raises
    ------
    ForecasterError
        If a row has no token sequence.
    """
    chosen = [own for own in (own.select(rows) for own in tokens) if len(own.rows)]
    if path == "batch":
        found, raw = forecast_outputs(forecaster.network, chosen, batch_entities, segment_tokens)
    else:
        stream = forecaster.network_stream()
        result = replay_panel(stream, chosen, [catch_up(stream, own) for own in chosen])
        order = np.argsort(result.rows)
        found, raw = result.rows[order], result.forecasts[order].reshape(-1, stream.n_outputs)
    if not np.array_equal(found, np.sort(rows)):
        missing = np.setdiff1d(rows, found)[:3].tolist()
        raise ForecasterError(f"rows {missing} have no token sequence; read the history of their entities")
    return raw[np.argsort(np.argsort(rows))]


def forecast_frame(
    forecaster: FittedForecaster, history: History, rows: Integers, raw: Floats64
) -> pl.DataFrame:
    """Set forecasts beside the entity and the forecast time that they belong to.

    Returns
    -------
    polars.DataFrame
        `row`, `entity`, `forecast_time`, `target`, `y_pred`, `y_lower`, `y_upper`, the further columns of the
        head, and `fit_time`: one row for each row given, in their order, and each target.
    """
    keys = history.samples[rows].select("entity", "forecast_time")
    fitted = instants(np.full(len(rows), forecaster.fit_time), "fit_time")
    parts = []
    for name, said in forecaster.reads.forecasts(raw).items():
        columns: dict[str, Any] = {"y_pred": said.y_pred, "y_lower": said.y_lower, "y_upper": said.y_upper}
        parts.append(
            pl.DataFrame({"row": rows})
            .hstack(keys)
            .with_columns(
                pl.lit(name).alias("target"),
                *(pl.Series(column, values) for column, values in {**columns, **said.extra}.items()),
                fitted,
            )
        )
    if len(parts) == 1:
        return parts[0]
    place = np.arange(len(rows) * len(parts)).reshape(len(parts), len(rows)).T.ravel()
    return pl.concat(parts)[place]
