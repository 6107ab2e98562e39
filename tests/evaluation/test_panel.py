"""The layout of the panel and its averages."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from quantattn.evaluation import label_overlap, read_panel
from tests.evaluation.frames import START, WEEK, cast, table

Y = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_layout_does_not_depend_on_the_order_of_rows() -> None:
    forecasts = {
        "softmax": {1: [[10.0, 11.0, 12.0], [13.0, 14.0, 15.0]], 0: [[20.0, 21.0, 22.0], [23.0, 24.0, 25.0]]},
        "linear": {0: [[30.0, 31.0, 32.0], [33.0, 34.0, 35.0]]},
    }
    frame = table(Y, forecasts, folds=[4, 5], half_width=0.5)
    for shown in (frame, frame.sample(fraction=1.0, shuffle=True, seed=1)):
        panel = read_panel(shown)
        assert panel.y_true.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert panel.models["softmax"].seeds == (0, 1)
        assert panel.models["softmax"].y_pred.tolist() == [[20, 21, 22, 23, 24, 25], [10, 11, 12, 13, 14, 15]]
        assert panel.models["linear"].y_upper.tolist() == [[30.5, 31.5, 32.5, 33.5, 34.5, 35.5]]
        assert panel.times.tolist() == [START, START + WEEK]
        assert panel.folds.tolist() == [4, 5]
        assert panel.counts.tolist() == [3, 3]
        assert (panel.study, panel.horizon, panel.entities) == ("test", 5, ("E00", "E01", "E02"))
    assert list(read_panel(frame).models) == ["softmax", "linear"]


def test_averages_over_entities_leave_gaps_out() -> None:
    frame = table(Y, {"linear": {0: Y}}).filter(~((pl.col("entity") == "E02") & (pl.col("y_true") == 6.0)))
    panel = read_panel(frame)
    assert panel.counts.tolist() == [3, 2]
    assert panel.over_entities(panel.y_true).tolist() == [2.0, 4.5]
    holed = np.array([[1.0, np.nan, 3.0, np.nan, np.nan], [0.0, 0.0, 3.0, 1.0, 2.0]])
    means = panel.over_entities(holed)
    assert means[0, 0] == 2.0 and np.isnan(means[0, 1])
    assert means[1].tolist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("label_length", "expected"),
    [
        (WEEK // 2, 0),
        (WEEK, 0),
        (WEEK + 1, 1),
        (2 * WEEK, 1),
        (2 * WEEK + 1, 2),
        (5 * WEEK, 4),
        (100 * WEEK, 9),
    ],
)
def test_label_overlap_counts_later_forecasts_whose_labels_begin_before_the_end(
    label_length: int, expected: int
) -> None:
    y = [[1.0]] * 10
    assert label_overlap(table(y, {"linear": {0: y}}, label_length=label_length)) == expected


def test_label_overlap_is_that_of_the_longest_label() -> None:
    y = [[1.0, 1.0]] * 6
    rows = table(y, {"linear": {0: y}}).with_columns(pl.col(pl.Datetime).to_physical()).to_dicts()
    rows[5]["label_end_time"] = rows[5]["label_start_time"] + 3 * WEEK
    rows[5]["label_available_at"] = rows[5]["label_end_time"]
    assert read_panel(cast(rows)).overlap == 2
