"""Ensembles over seeds: one more model for each that was trained with several."""

from __future__ import annotations

from typing import Final

import polars as pl

from quantattn.forecasters.baselines.registry import ENSEMBLE
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA

__all__ = ["ENSEMBLE", "ensemble_rows"]

_AVERAGED: Final = ("y_pred", "y_lower", "y_upper")
_SUMMED: Final = ("update_us", "read_us")
_KEY: Final = ("study", "model", "fold", "entity", "forecast_time", "horizon")


def ensemble_rows(forecasts: pl.DataFrame) -> list[pl.DataFrame]:
    """Average the forecasts of the seeds of each model that has several.

    Parameters
    ----------
    forecasts : polars.DataFrame
        Rows of the forecasts table.

    Returns
    -------
    list of polars.DataFrame
        One for each such model, named ``<model>-ensemble``, under the first seed in the order of the seeds.
        Forecast and bounds are means over the seeds, and the latencies are sums, since every member has to
        be asked. What a row says of its label and its information set is that of the members.
    """
    seeds = forecasts.group_by("model", maintain_order=True).agg(pl.col("seed").n_unique())
    several = [model for model, n in seeds.iter_rows() if n > 1]
    return [_ensemble(forecasts.filter(pl.col("model") == model), model) for model in several]


def _ensemble(rows: pl.DataFrame, model: str) -> pl.DataFrame:
    # In the order of the seeds: a sum of floats depends on the order of its terms.
    ordered = rows.sort(*_KEY, "seed", maintain_order=True)
    rest = [name for name in FORECAST_SCHEMA if name not in (*_KEY, *_AVERAGED, *_SUMMED)]
    together = ordered.group_by(_KEY, maintain_order=True).agg(
        *(pl.col(name).first() for name in rest),
        *(pl.col(name) for name in (*_AVERAGED, *_SUMMED)),
    )
    # Nulls stay null: a latency or a bound that one member lacks, the ensemble lacks.
    return together.with_columns(
        pl.lit(model + ENSEMBLE).alias("model"),
        *(pl.when(_complete(name)).then(pl.col(name).list.mean()).alias(name) for name in _AVERAGED),
        *(pl.when(_complete(name)).then(pl.col(name).list.sum()).alias(name) for name in _SUMMED),
    ).select(pl.col(name).cast(dtype) for name, dtype in FORECAST_SCHEMA.items())


def _complete(name: str) -> pl.Expr:
    return pl.col(name).list.drop_nulls().list.len() == pl.col(name).list.len()
