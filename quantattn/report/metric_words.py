"""What each metric is called, which way is better, and how its figures are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class MetricWords:
    """How a metric is shown.

    Attributes
    ----------
    name : str
        The key in ``metrics.json``.
    label : str
        The column heading.
    better : {"higher", "lower", None}
        Which way is better; None where no model is best by this figure alone.
    unit : {"number", "percent", "p"}
        How the figure is written.
    meaning : str
        One line for the reader who does not know the metric.
    """

    name: str
    label: str
    better: Literal["higher", "lower"] | None
    unit: Literal["number", "percent", "p"]
    meaning: str


_KNOWN = (
    MetricWords(
        "r2_oos",
        "R² out of sample",
        "higher",
        "number",
        "share of the historical mean's squared error that the model removes; 0 is no better than that mean",
    ),
    MetricWords("mse", "MSE", "lower", "number", "mean squared error"),
    MetricWords("mae", "MAE", "lower", "number", "mean absolute error"),
    MetricWords("qlike", "QLIKE", "lower", "number", "quasi-likelihood loss on the variance scale"),
    MetricWords("ic", "IC", "higher", "number", "mean correlation of forecast and outcome across entities"),
    MetricWords("rank_ic", "Rank IC", "higher", "number", "the same correlation of ranks"),
    MetricWords("hit_rate", "Hit rate", "higher", "percent", "share of signs that were right"),
    MetricWords(
        "pt_p_value",
        "PT p value",
        None,
        "p",
        "Pesaran\N{EN DASH}Timmermann test that signs are no better than chance",
    ),
    MetricWords("coverage", "Coverage", None, "percent", "share of outcomes inside the forecast interval"),
)
_BY_NAME = {words.name: words for words in _KNOWN}


def metric_words(name: str) -> MetricWords:
    """Give the words of a metric; one that is not known keeps its name and marks no best."""
    return _BY_NAME.get(name) or MetricWords(name, name, None, "number", "")


def in_reading_order(names: Iterable[str]) -> list[MetricWords]:
    """Give the words of the metrics named, the known ones first, in the order of the table."""
    given = set(names)
    known = [words for words in _KNOWN if words.name in given]
    return known + [metric_words(name) for name in sorted(given - set(_BY_NAME))]
