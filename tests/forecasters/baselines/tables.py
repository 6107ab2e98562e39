"""Sample tables made by hand, and a small random market, for the baseline tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from quantattn.forecasters.baselines import SampleTable, TargetKind

TIME = pl.Datetime("ns", "UTC")
Sample = tuple[str, int, float | None, int | None]
Bar = tuple[str | None, int, float | None]


def samples_frame(samples: Sequence[Sample]) -> pl.DataFrame:
    """``entity, forecast_time, y_true, label_available_at`` from rows; times in nanoseconds."""
    schema = {
        "entity": pl.String,
        "forecast_time": pl.Int64,
        "y_true": pl.Float64,
        "label_available_at": pl.Int64,
    }
    frame = pl.DataFrame(samples, schema=schema, orient="row")
    return frame.with_columns(pl.col("forecast_time", "label_available_at").cast(TIME))


def bars_frame(bars: Sequence[Bar]) -> pl.DataFrame:
    """``entity, available_at, log_return`` from rows; times in nanoseconds."""
    schema = {"entity": pl.String, "available_at": pl.Int64, "log_return": pl.Float64}
    return pl.DataFrame(bars, schema=schema, orient="row").with_columns(pl.col("available_at").cast(TIME))


def table_of(
    samples: Sequence[Sample],
    bars: Sequence[Bar] = (),
    *,
    kind: TargetKind = "variance",
    horizon: int = 5,
    log: bool = True,
    **features: Sequence[float | None],
) -> SampleTable:
    """A sample table from rows and ``asof_`` columns."""
    as_of = pl.DataFrame({name: pl.Series(values, dtype=pl.Float64) for name, values in features.items()})
    if not features:
        as_of = pl.DataFrame({"row": list(range(len(samples)))})
    return SampleTable(samples_frame(samples), as_of, bars_frame(bars), kind, horizon, log)


def random_market(
    kind: TargetKind = "variance", *, log: bool = True, seed: int = 0, days: int = 160
) -> SampleTable:
    """Three entities, a bar and a forecast a day at 10 * day, labels 15 days later.

    Forecasts, labels and bars fall on the same instants, so that equality occurs all the time. Entity C
    lists late, and a tenth of the features is missing.
    """
    generator = np.random.default_rng(seed)
    bars: list[Bar] = []
    samples: list[Sample] = []
    for day in range(days):
        for number, entity in enumerate("ABC"):
            if entity == "C" and day < 40:
                continue
            volatility = 0.01 * (1 + number) * (1.5 + np.sin(day / 15))
            bars.append((entity, 10 * day, float(volatility * generator.standard_normal())))
            y = _target(kind, log, volatility, generator)
            known = day + 15 < days
            samples.append((entity, 10 * day, y if known else None, 10 * (day + 15) if known else None))
    features = {}
    names = ["log_rv_1", "log_rv_5", "log_rv_22", "distance_high", "market_log_rv_5", "unknown"]
    for name in names:
        values = generator.standard_normal(len(samples)) * 0.3
        values += [0.0 if y is None else 0.5 * abs(y) ** 0.5 for _, _, y, _ in samples]
        missing = generator.random(len(samples)) < (1.0 if name == "unknown" else 0.1)
        features[f"asof_{name}"] = [
            None if gone else float(value) for gone, value in zip(missing, values, strict=True)
        ]
    return table_of(samples, bars, kind=kind, log=log, **features)


def _target(kind: TargetKind, log: bool, volatility: float, generator: np.random.Generator) -> float:
    noise = float(generator.standard_normal())
    if kind == "return":
        return 0.02 * noise
    if kind == "direction":
        return float(np.sign(noise))
    value = float(np.log(5 * volatility**2) + 0.3 * noise)
    return value if log else float(np.exp(value))
