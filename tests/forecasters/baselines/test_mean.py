from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.forecasters.baselines import MeanBaseline

from .tables import Sample, table_of


def test_by_hand() -> None:
    table = table_of(
        [
            ("A", 10, 1.0, 20),
            ("B", 10, 5.0, 21),
            ("A", 20, 3.0, 30),
            ("A", 21, 4.0, 31),
            ("A", 31, 6.0, 40),
            ("A", 32, 9.0, 41),
            ("C", 22, 7.0, 50),
            ("C", 51, 0.0, 60),
        ]
    )
    # Training mean of rows 0 and 1: 3. At 10 and 20 nothing is known: 20 is not before 20.
    model = MeanBaseline().fit(table, np.array([0, 1]))
    forecasts = model.predict(table, np.arange(8))
    # At 22 C has no label: the mean of A's 1 and B's 5. At 31, A knows 1 and 3; at 32 also 4.
    assert forecasts.tolist() == [3.0, 3.0, 3.0, 1.0, 2.0, 8.0 / 3.0, 3.0, 7.0]
    assert model.fallback_ == 3.0


def test_nobody_knows_anything() -> None:
    samples: list[Sample] = [("A", 10, 4.0, 20), ("B", 10, 6.0, 20)]
    rows = np.array([0, 1])
    for kind, expected in [("variance", 5.0), ("direction", 5.0), ("return", 0.0)]:
        table = table_of(samples, kind=kind)  # type: ignore[arg-type]
        assert MeanBaseline().fit(table, rows).predict(table, rows).tolist() == [expected, expected]


def test_unknown_labels_do_not_count() -> None:
    table = table_of(
        [
            ("A", 1, 2.0, 5),
            ("A", 2, None, 6),
            ("A", 3, float("nan"), 6),
            ("A", 4, 8.0, None),
            ("A", 9, 1.0, 99),
        ]
    )
    model = MeanBaseline().fit(table, np.array([0]))
    assert model.predict(table, np.array([4])).tolist() == [2.0]


def loop(samples: list[Sample], fallback: float) -> list[float]:
    """Add up the labels known before each forecast, the earliest known first, ties by row."""
    forecasts = []
    for entity, now, _, _ in samples:
        for same_entity in (True, False):
            known = [
                (label, row, y)
                for row, (other, _, y, label) in enumerate(samples)
                if y is not None
                and label is not None
                and label < now
                and (other == entity or not same_entity)
            ]
            total = 0.0
            for _, _, y in sorted(known):
                total += y
            if known:
                forecasts.append(total / len(known))
                break
        else:
            forecasts.append(fallback)
    return forecasts


sample = st.tuples(
    st.sampled_from("ABC"),
    st.integers(0, 12),
    st.one_of(st.none(), st.floats(-1e3, 1e3, allow_nan=False)),
    st.one_of(st.none(), st.integers(0, 12)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(sample, max_size=14), st.floats(-10, 10))
def test_equals_the_loop_bit_for_bit(samples: list[Sample], first: float) -> None:
    samples = [("A", 0, first, 13), *samples]
    table = table_of(samples)
    model = MeanBaseline().fit(table, np.array([0]))
    assert model.predict(table, np.arange(len(samples))).tolist() == loop(samples, first)


@pytest.mark.parametrize(("label", "expected"), [(9, 7.0), (10, 1.0), (11, 1.0)])
def test_a_label_known_at_the_forecast_is_too_late(label: int, expected: float) -> None:
    table = table_of([("A", 0, 1.0, 50), ("A", 5, 7.0, label), ("A", 10, 2.0, 60)])
    model = MeanBaseline().fit(table, np.array([0]))
    assert model.predict(table, np.array([2])).tolist() == [expected]
