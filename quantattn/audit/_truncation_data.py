"""The data of a study up to an instant, against data built from what was known at that instant."""

from __future__ import annotations

import polars as pl

from quantattn.audit._truncation_inputs import BARS, Cut, TruncationInputs, at, bars_of, features_of
from quantattn.audit._truncation_tally import Tally
from quantattn.pit.timestamps import is_visible

_SETS = ("entity", "forecast_time", "n_visible", "max_available_at", "info_hash")
_LABELS = (
    "entity",
    "forecast_time",
    "horizon",
    "y_true",
    "label_start_time",
    "label_end_time",
    "label_available_at",
)


def compare_data(inputs: TruncationInputs, cut: Cut, tally: Tally) -> None:
    """Compare, up to an instant, everything that the stages after the dataset read.

    That is: the events visible at the instant, bars among them; for every forecast up to it the information
    set and the as-of features; and of these forecasts the targets that were known by then.

    Parameters
    ----------
    inputs : TruncationInputs
        Holds the whole data.
    cut : Cut
        The data built anew.
    tally : Tally
        Told of every difference.
    """
    history, anew, moment = inputs.history, cut.history, cut.moment
    made = pl.col("forecast_time") <= at(moment)
    seen = is_visible(pl.col("available_at"), at(moment))
    known = is_visible(pl.col("label_available_at"), at(moment))
    until = history.samples.select(made).to_series()
    names = history.as_of_columns
    pairs = {
        "events": (history.events.filter(seen), _events(anew.events, history.events.columns)),
        "bars": (inputs.table.bars.filter(seen).select(BARS), bars_of(cut.dataset)),
        "information sets": (history.samples.filter(until).select(_SETS), anew.samples.select(_SETS)),
        "as-of features": (history.as_of.filter(until).select(names), features_of(anew.as_of, names)),
        "labels": (
            history.samples.filter(until & history.samples.select(known).to_series()).select(_LABELS),
            anew.samples.filter(known).select(_LABELS),
        ),
    }
    for what, (whole, remade) in pairs.items():
        tally.rows += remade.height
        how = _difference(whole, remade)
        if how is not None:
            tally.fault(what, moment, how)


def _events(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Give the events; a feature of which none is left in the cut data is null throughout."""
    missing = [pl.lit(None, pl.Float64).alias(name) for name in columns if name not in frame.columns]
    return frame.with_columns(missing).select(columns + [n for n in frame.columns if n not in columns])


def _difference(whole: pl.DataFrame, cut: pl.DataFrame) -> str | None:
    if whole.schema != cut.schema:
        return "the columns differ"
    if whole.height != cut.height:
        return f"{cut.height} rows instead of {whole.height}"
    for name in whole.columns:
        differs = whole[name].ne_missing(cut[name]).arg_true()
        if len(differs):
            row = int(differs[0])
            return (
                f"{len(differs)} rows differ in {name}, first {whole[name][row]} against {cut[name][row]} in "
                f"row {row}"
            )
    return None
