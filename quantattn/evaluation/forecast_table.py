"""Checks of the forecasts table: what may be evaluated, and what may be compared."""

from __future__ import annotations

import polars as pl

from quantattn.errors import EvaluationError, InformationSetError
from quantattn.walkforward.forecast_schema import FORECAST_SCHEMA, NULLABLE

KEY = ("entity", "forecast_time", "horizon")
"""What names one thing to be forecast, whoever forecasts it."""

_SHOWN = 3


def validate_forecasts(frame: pl.DataFrame) -> pl.DataFrame:
    """Check that a frame is a forecasts table.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns and types as in :data:`FORECAST_SCHEMA`, in that order.

    Returns
    -------
    polars.DataFrame
        The same frame.

    Raises
    ------
    EvaluationError
        If a column is missing, foreign, misplaced or of another type; a value is null, NaN or infinite that
        must not be; an interval has one bound only or the wrong way round; or a model and seed forecast
        the same thing twice.
    """
    if not isinstance(frame, pl.DataFrame):
        raise EvaluationError(
            f"forecasts is a {type(frame).__name__}, not a polars DataFrame; read it with polars"
        )
    _check_columns(frame)
    if frame.is_empty():
        raise EvaluationError(
            "forecasts is empty; there is nothing to evaluate, so check the folds of the run"
        )
    for name in FORECAST_SCHEMA:
        if name not in NULLABLE:
            _refuse(frame, pl.col(name).is_null(), f"column {name!r} is null", "every forecast needs it")
    for name in ("y_pred", "y_true"):
        _refuse(
            frame,
            ~pl.col(name).is_finite(),
            f"column {name!r} is not finite",
            "find out which model wrote it",
        )
    for name in ("y_lower", "y_upper"):
        _refuse(
            frame, pl.col(name).is_nan(), f"column {name!r} is NaN", "write null where there is no interval"
        )
    one_bound = pl.col("y_lower").is_null() != pl.col("y_upper").is_null()
    _refuse(frame, one_bound, "an interval has one bound only", "give both y_lower and y_upper, or neither")
    _refuse(
        frame,
        pl.col("y_lower") > pl.col("y_upper"),
        "y_lower is above y_upper",
        "swap or recompute the bounds",
    )
    _check_duplicates(frame)
    return frame


def check_same_rows(frame: pl.DataFrame) -> None:
    """Refuse to compare models that did not forecast the same things or not the same outcomes.

    Parameters
    ----------
    frame : polars.DataFrame
        A valid forecasts table.

    Raises
    ------
    EvaluationError
        If two models or seeds have different (entity, forecast time, horizon), or disagree on the outcome or
        the fold of one; the message lists where.
    """
    for study in frame.partition_by("study", maintain_order=True):
        _check_same_rows(study)


def check_information_sets(frame: pl.DataFrame) -> None:
    """Refuse to compare models that did not see the same information set.

    Parameters
    ----------
    frame : polars.DataFrame
        A valid forecasts table.

    Raises
    ------
    InformationSetError
        If `info_hash` differs between models or seeds for the same entity, forecast time and horizon; the
        message says on which rows, and which model saw what.
    """
    sets = frame.group_by("study", *KEY).agg(
        pl.col("info_hash").n_unique().alias("n"),
        pl.struct("model", "seed", "info_hash", "n_visible").alias("saw"),
    )
    differing = sets.filter(pl.col("n") > 1).sort("forecast_time", "entity")
    if differing.is_empty():
        return
    shown = []
    for row in differing.head(_SHOWN).to_dicts():
        saw = sorted(row["saw"], key=lambda one: (one["model"], one["seed"]))
        texts = [
            f"{one['model']} (seed {one['seed']}) {one['info_hash'][:12]} of {one['n_visible']} events"
            for one in saw
        ]
        shown.append(f"{_name(row)}: {', '.join(texts)}")
    raise InformationSetError(
        f"info_hash differs between models on {differing.height} of {sets.height} rows, first "
        f"{'; '.join(shown)}; compare only models that saw the same events, and evaluate the others apart"
    )


def _check_same_rows(frame: pl.DataFrame) -> None:
    runs = frame.select("model", "seed").unique()
    counts = frame.group_by(KEY).agg(
        pl.len().alias("n"),
        pl.col("y_true").n_unique().alias("outcomes"),
        pl.col("fold").n_unique().alias("folds"),
        pl.col("label_end_time").n_unique().alias("ends"),
        pl.struct("model", "seed").alias("runs"),
    )
    missing = counts.filter(pl.col("n") != runs.height).sort("forecast_time", "entity").head(_SHOWN)
    if missing.height:
        everyone = {(row["model"], row["seed"]) for row in runs.to_dicts()}
        shown = []
        for row in missing.to_dicts():
            there = {(run["model"], run["seed"]) for run in row["runs"]}
            absent = ", ".join(f"{model} (seed {seed})" for model, seed in sorted(everyone - there))
            shown.append(f"{_name(row)}: no forecast by {absent}")
        raise EvaluationError(
            f"the models have different row sets, which cannot be compared: {'; '.join(shown)}; keep only "
            "the rows that every model and seed has"
        )
    for column, what in (("outcomes", "y_true"), ("folds", "fold"), ("ends", "label_end_time")):
        differing = counts.filter(pl.col(column) > 1).sort("forecast_time", "entity")
        if differing.height:
            shown = [_name(row) for row in differing.head(_SHOWN).to_dicts()]
            raise EvaluationError(
                f"the models disagree on {what} in {differing.height} rows, first {'; '.join(shown)}; "
                "forecasts of different runs cannot be mixed, so evaluate one run at a time"
            )


def _name(row: dict[str, object]) -> str:
    return f"{row['entity']} at {row['forecast_time']}"


def _check_columns(frame: pl.DataFrame) -> None:
    expected = list(FORECAST_SCHEMA)
    missing = [name for name in expected if name not in frame.columns]
    foreign = [name for name in frame.columns if name not in FORECAST_SCHEMA]
    if missing or foreign:
        raise EvaluationError(
            f"forecasts lacks the columns {missing} and has the foreign columns {foreign}; a forecasts table "
            f"has exactly {expected}"
        )
    if frame.columns != expected:
        raise EvaluationError(
            f"forecasts has its columns in another order, {frame.columns}; select them as {expected}"
        )
    for name, kind in FORECAST_SCHEMA.items():
        if frame[name].dtype != kind:
            raise EvaluationError(f"column {name!r} has type {frame[name].dtype}, not {kind}; cast it first")


def _refuse(frame: pl.DataFrame, wrong: pl.Expr, what: str, remedy: str) -> None:
    rows = frame.select(wrong.fill_null(False).alias("wrong"))["wrong"].arg_true()
    if len(rows):
        first = frame[rows.head(_SHOWN)].select("model", "seed", "entity", "forecast_time").rows()
        shown = "; ".join(
            f"row {at}: {model} (seed {seed}), {entity} at {time}"
            for at, (model, seed, entity, time) in zip(rows.to_list(), first, strict=False)
        )
        raise EvaluationError(f"{what} in {len(rows)} rows, first {shown}; {remedy}")


def _check_duplicates(frame: pl.DataFrame) -> None:
    key = ["study", "model", "seed", *KEY]
    twice = frame.filter(pl.struct(key).is_duplicated())
    if twice.height:
        first = twice.sort(key).head(_SHOWN).select("model", "seed", "fold", "entity", "forecast_time").rows()
        shown = "; ".join(f"{m} (seed {s}), fold {f}, {e} at {t}" for m, s, f, e, t in first)
        raise EvaluationError(
            f"{twice.height} rows forecast the same entity, time and horizon by the same model and seed more "
            f"than once, first {shown}; keep one fold per forecast time"
        )
