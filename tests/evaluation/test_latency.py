"""Latency percentiles by hand."""

from __future__ import annotations

import polars as pl
import pytest

from quantattn.errors import EvaluationError
from quantattn.evaluation import latency_summary, percentiles


def timings(**columns: list[float | None]) -> pl.DataFrame:
    return pl.DataFrame(columns, schema_overrides={"update_us": pl.Float64, "read_us": pl.Float64})


def test_percentiles_by_hand() -> None:
    # 1 to 101: the p-th percentile is p + 1.
    assert percentiles(list(range(1, 102))) == {"p50": 51.0, "p95": 96.0, "p99": 100.0}
    assert percentiles([5.0]) == {"p50": 5.0, "p95": 5.0, "p99": 5.0}
    # Between 10 and 20 the median is the middle, and p95 lies at 95 % of the way.
    assert percentiles([20.0, 10.0]) == pytest.approx({"p50": 15.0, "p95": 19.5, "p99": 19.9})
    assert percentiles([]) is None
    assert percentiles([float("nan"), 3.0]) == {"p50": 3.0, "p95": 3.0, "p99": 3.0}


def test_summary_leaves_out_models_that_do_not_stream() -> None:
    frame = timings(
        model=["softmax", "linear", "har", "linear", "softmax", "linear"],
        update_us=[10.0, 1.0, None, 3.0, None, None],
        read_us=[20.0, 2.0, None, 4.0, 40.0, None],
    )
    assert latency_summary(frame) == [
        {
            "model": "softmax",
            "n": 2,
            "update_us": {"p50": 10.0, "p95": 10.0, "p99": 10.0},
            "read_us": pytest.approx({"p50": 30.0, "p95": 39.0, "p99": 39.8}),
        },
        {
            "model": "linear",
            "n": 2,
            "update_us": pytest.approx({"p50": 2.0, "p95": 2.9, "p99": 2.98}),
            "read_us": pytest.approx({"p50": 3.0, "p95": 3.9, "p99": 3.98}),
        },
    ]


def test_a_model_that_only_reads() -> None:
    frame = timings(model=["linear"], update_us=[None], read_us=[7.0])
    assert latency_summary(frame)[0]["update_us"] is None


def test_bad_timings() -> None:
    with pytest.raises(EvaluationError, match=r"\['read_us'\]"):
        latency_summary(pl.DataFrame({"model": ["a"], "update_us": [1.0]}))
    with pytest.raises(EvaluationError, match=r"'read_us' is negative in rows \[1\]"):
        latency_summary(timings(model=["a", "a"], update_us=[1.0, 1.0], read_us=[0.0, -1.0]))
