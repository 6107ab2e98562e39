"""What a fold says about itself: where every sample went, on which stretches, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import SplitError
from quantattn.walkforward import CombinatorialPurged, Fold, Stretch, WalkForward
from tests.walkforward.test_splits import DAY, START, daily, frame, panels


def day(number: int) -> datetime:
    return datetime(2024, 1, 1 + number, tzinfo=UTC)


def at(number: float) -> int:
    return START + int(number * DAY)


def purged_and_embargoed() -> list[Fold]:
    """Train 6 of which 3 validate, labels known 1.5 days later, an embargo of half a day and no more."""
    return WalkForward(6, 2, val_size=3, embargo_size="12h").split(daily(10, delay_days=1.5))


def test_every_sample_is_accounted_for() -> None:
    first, second = purged_and_embargoed()
    # Day 1 is known at 2.5, just before validation begins on day 3: the embargo of half a day takes it.
    assert first.summary().rows() == [
        ("train", "kept", 1, day(0), day(0)),
        ("train", "label", 1, day(2), day(2)),
        ("train", "embargo", 1, day(1), day(1)),
        ("validation", "kept", 1, day(3), day(3)),
        ("validation", "label", 1, day(5), day(5)),
        ("validation", "embargo", 1, day(4), day(4)),
        ("test", "kept", 2, day(6), day(7)),
        (None, "after", 2, None, None),
    ]
    assert first.dropped_counts == {"label": 2, "embargo": 2}
    assert (second.n_before, second.n_after) == (2, 0)
    assert second.summary().row(-1) == (None, "before", 2, None, None)


def test_without_validation_there_is_a_row_that_says_so() -> None:
    (fold,) = WalkForward(3, 2).split(daily(5))
    assert fold.summary().rows() == [
        ("train", "kept", 3, day(0), day(2)),
        ("validation", "kept", 0, None, None),
        ("test", "kept", 2, day(3), day(4)),
    ]
    assert fold.dropped_counts == {}


def test_its_words() -> None:
    first, _ = purged_and_embargoed()
    assert repr(first) == (
        "Fold 0: train 1 row (2024-01-01 to 2024-01-01), validation 1 row (2024-01-04 to 2024-01-04), "
        "test 2 rows (2024-01-07 to 2024-01-08); dropped 4 (label 2, embargo 2); fitted at "
        "2024-01-06T23:59:59.999999999Z"
    )
    noon = frame([at(i + 0.5) for i in range(4)], [at(i + 1) for i in range(4)])
    (fold,) = WalkForward(3, 1).split(noon)
    assert repr(fold) == (
        "Fold 0: train 3 rows (2024-01-01T12:00:00Z to 2024-01-03T12:00:00Z), test 1 row "
        "(2024-01-04T12:00:00Z to 2024-01-04T12:00:00Z); dropped none; fitted at "
        "2024-01-04T11:59:59.999999999Z"
    )


def test_stretches_break_where_a_forecast_time_has_no_row_of_the_kind() -> None:
    # Entity A is known half a day later; B's labels of days 0 and 1 only after the test has begun.
    forecast = [at(i) for i in range(6)] * 2
    known = [at(i + 0.5) for i in range(6)] + [at(4.5), at(4.5), *(at(i + 0.5) for i in range(2, 6))]
    (fold,) = WalkForward(4, 2).split(frame(forecast, known, ["A"] * 6 + ["B"] * 6))
    assert sorted(fold.stretches()) == [
        Stretch("test", "kept", at(4), at(5), 4),
        Stretch("train", "kept", at(0), at(3), 6),
        Stretch("train", "label", at(0), at(1), 2),
    ]
    middle = WalkForward(4, 2).split(frame(forecast[:6], [*known[:1], at(4.5), *known[2:6]]))[0]
    assert sorted(middle.stretches()) == [
        Stretch("test", "kept", at(4), at(5), 2),
        Stretch("train", "kept", at(0), at(0), 1),
        Stretch("train", "kept", at(2), at(3), 2),
        Stretch("train", "label", at(1), at(1), 1),
    ]


def test_a_fold_made_by_hand_has_stretches_too() -> None:
    made, _ = purged_and_embargoed()
    fields = ("index", "train", "validation", "test", "purged", "fit_time", "validation_time")
    spans = ("train_span", "validation_span", "test_span")
    fold = Fold(**{name: getattr(made, name) for name in (*fields, *spans)})
    assert not fold.runs
    assert sorted(fold.stretches()) == sorted(made.stretches())


@settings(max_examples=150, deadline=None)
@given(
    samples=panels(),
    train=st.integers(2, 8),
    validation=st.one_of(st.none(), st.integers(1, 2)),
    embargo=st.sampled_from(["0D", "1D"]),
    purged=st.sampled_from(["label", 1]),
    expand=st.booleans(),
)
def test_accounts_and_stretches_add_up(
    samples: Any, train: int, validation: int | None, embargo: str, purged: Any, expand: bool
) -> None:
    options: dict[str, Any] = {"embargo_size": embargo, "purged_size": purged}
    folds: list[Any] = []
    for splitter in (
        WalkForward(train, 2, val_size=validation, expand_train=expand, reduce_test=True, **options)
        if validation is None or validation < train
        else CombinatorialPurged(4, 2, **options),
        CombinatorialPurged(3, 1, **options),
    ):
        try:
            folds += splitter.split(samples)
        except SplitError:
            continue
    for fold in folds:
        summary = fold.summary()
        assert summary["n_rows"].sum() == samples.height
        inside = summary.filter(summary["side"].is_not_null())
        listed = {(side, reason): n for side, reason, n, _, _ in inside.rows() if n}
        runs: dict[tuple[str, str], int] = {}
        for stretch in fold.stretches():
            assert stretch.start <= stretch.end
            key = (stretch.side, stretch.reason)
            runs[key] = runs.get(key, 0) + stretch.n_rows
        assert runs == listed
        assert sum(fold.dropped_counts.values()) == fold.purged.height
        sides = [fold.train, fold.test, fold.purged["row"].to_numpy()]
        if isinstance(fold, Fold):
            sides.append(fold.validation)
            assert fold.n_before + fold.n_after + sum(map(len, sides)) == samples.height
        rows = np.concatenate(sides)
        assert len(rows) == len(np.unique(rows))


def test_describe_counts_reasons_and_what_lies_outside() -> None:
    splitter = WalkForward(6, 2, val_size=3, embargo_size="12h")
    described = splitter.describe(daily(10, delay_days=1.5))
    columns = ["n_label", "n_embargo", "n_purged_size", "n_before", "n_after"]
    assert described.select(columns).rows() == [(2, 2, 0, 0, 2), (2, 2, 0, 2, 0)]


@pytest.mark.parametrize("name", ["expand_train", "reduce_test"])
@pytest.mark.parametrize("value", ["no", 1, None])
def test_a_switch_is_true_or_false(name: str, value: object) -> None:
    with pytest.raises(SplitError, match=f"{name}={value!r} is neither True nor False"):
        WalkForward(3, 2, **{name: value})  # type: ignore[arg-type]
