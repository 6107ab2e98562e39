"""Several targets beside the samples, by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from quantattn.errors import DataError
from quantattn.forecasters.targets import Targets
from quantattn.pit import Labels
from quantattn.pit.labels.targets import DROPPED, LABELS
from quantattn.pit.timestamps import instants

HOUR = 3600 * 10**9


def labels(rows: list[tuple[str, int, float, int]], *, name: str = "return", kind: str = "return") -> Labels:
    """Labels by entity, forecast hour, value and the hour at which each is known."""
    frame = pl.DataFrame(
        {
            "entity": [row[0] for row in rows],
            "forecast_time": instants([row[1] * HOUR for row in rows]),
            "horizon": pl.Series([1] * len(rows), dtype=pl.Int32),
            "y_true": [row[2] for row in rows],
            "label_start_time": instants([row[1] * HOUR + 1 for row in rows]),
            "label_end_time": instants([row[3] * HOUR for row in rows]),
            "label_available_at": instants([row[3] * HOUR for row in rows]),
        }
    )
    names = tuple(sorted({row[0] for row in rows}))
    return Labels(frame, pl.DataFrame(schema=DROPPED), name, 1, kind, names)  # type: ignore[arg-type]


SHORT = labels([("A", 0, 1.0, 2), ("B", 0, 2.0, 2), ("A", 5, 3.0, 7)])
LONG = labels([("A", 0, -1.0, 40), ("A", 5, -3.0, 45), ("A", 9, -9.0, 49)], name="log_rv", kind="variance")
SAMPLES = SHORT.frame


def test_labels_are_columns_of_the_schema() -> None:
    assert SHORT.frame.schema == LABELS


def test_joined_by_hand() -> None:
    found = Targets.join(SAMPLES, {"short": SHORT, "long": LONG})
    assert found.names == ("short", "long")
    np.testing.assert_array_equal(found.values, [[1.0, -1.0], [2.0, np.nan], [3.0, -3.0]])
    assert found.available_at[[0, 2]].tolist() == [[2 * HOUR, 40 * HOUR], [7 * HOUR, 45 * HOUR]]
    assert found.logs == (None, True)


def test_the_order_of_the_samples_is_kept() -> None:
    turned = SAMPLES[[2, 1, 0]]
    found = Targets.join(turned, {"long": LONG})
    np.testing.assert_array_equal(found.values[:, 0], [-3.0, np.nan, -1.0])


def test_known_at_the_very_nanosecond_and_not_before() -> None:
    found = Targets.join(SAMPLES, {"short": SHORT, "long": LONG})
    rows = np.array([0, 1, 2])
    at = {cutoff: found.known(rows, cutoff).tolist() for cutoff in (2 * HOUR - 1, 2 * HOUR, 40 * HOUR)}
    assert at[2 * HOUR - 1] == [[False, False]] * 3
    assert at[2 * HOUR] == [[True, False], [True, False], [False, False]]
    # What is missing is never known.
    assert at[40 * HOUR] == [[True, True], [True, False], [True, False]]
    assert found.known(np.array([1]), 2**62).tolist() == [[True, False]]


def test_the_samples_own() -> None:
    found = Targets.of_samples(SAMPLES, log=False)
    assert (found.names, found.logs) == (("y_true",), (False,))
    assert found.values[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert found.available_at[:, 0].tolist() == [2 * HOUR, 2 * HOUR, 7 * HOUR]


def test_refusals() -> None:
    with pytest.raises(DataError, match="labels is empty"):
        Targets.join(SAMPLES, {})
    with pytest.raises(DataError, match=r"labels\['far'\] has no label at"):
        Targets.join(SAMPLES, {"far": labels([("A", 3, 1.0, 4)])})
    with pytest.raises(DataError, match="one column for each name"):
        Targets(("a",), np.zeros((3, 2)), np.zeros((3, 2), np.int64), (None,))


@pytest.mark.parametrize("log", [0, 1, "no", 0.0, np.int64(0)])
def test_what_is_said_of_logarithms_is_true_false_or_none(log: object) -> None:
    with pytest.raises(DataError, match="True for the logarithm"):
        Targets(("a",), np.zeros((2, 1)), np.zeros((2, 1), np.int64), (log,))  # type: ignore[arg-type]


@pytest.mark.parametrize("log", [True, False])
def test_truth_values_of_numpy_are_taken_for_what_they_are(log: bool) -> None:
    found = Targets(("a",), np.zeros((2, 1)), np.zeros((2, 1), np.int64), (np.bool_(log),))  # type: ignore[arg-type]
    assert found.logs[0] is log
