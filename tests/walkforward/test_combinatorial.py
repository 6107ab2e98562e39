"""Combinatorial folds against hand-written indices, a pairwise oracle, skfolio, and the rules of time."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skfolio.model_selection import CombinatorialPurgedCV as Peer

from quantattn.audit import check_purging
from quantattn.errors import SplitError
from quantattn.walkforward import CombinatorialFold, CombinatorialPurged, WalkForward, require_walk_forward
from tests.walkforward.test_splits import DAY, START, daily, frame, nanoseconds, panels


def sides(folds: list[CombinatorialFold]) -> list[tuple[list[int], list[list[int]]]]:
    return [(fold.train.tolist(), [test.tolist() for test in fold.tests]) for fold in folds]


def dropped(fold: CombinatorialFold) -> list[tuple[Any, ...]]:
    return fold.purged.select("row", "reason", "test_fold", "position").rows()


# --- Written out by hand. -------------------------------------------------------------------------------


def test_two_of_four_blocks() -> None:
    folds = CombinatorialPurged(4, 2).split(daily(8))
    assert sides(folds) == [
        ([4, 5, 6, 7], [[0, 1], [2, 3]]),
        ([2, 3, 6, 7], [[0, 1], [4, 5]]),
        ([2, 3, 4, 5], [[0, 1], [6, 7]]),
        ([0, 1, 6, 7], [[2, 3], [4, 5]]),
        ([0, 1, 4, 5], [[2, 3], [6, 7]]),
        ([0, 1, 2, 3], [[4, 5], [6, 7]]),
    ]
    assert [fold.test_folds for fold in folds] == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert [fold.path_ids for fold in folds] == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)]
    assert [fold.n_train_after for fold in folds] == [4, 4, 4, 2, 2, 0]


def test_labels_are_purged_on_both_sides_of_every_test_block() -> None:
    # A label is known 1.5 days later. Blocks are days 0-2, 3-5 and 6-8, and reach to 3.5, 6.5 and 9.5.
    folds = CombinatorialPurged(3, 1).split(daily(9, delay_days=1.5))
    assert sides(folds) == [
        ([4, 5, 6, 7, 8], [[0, 1, 2]]),
        ([0, 1, 7, 8], [[3, 4, 5]]),
        ([0, 1, 2, 3, 4], [[6, 7, 8]]),
    ]
    assert dropped(folds[0]) == [(3, "label", 0, "after")]
    assert dropped(folds[1]) == [(2, "label", 1, "before"), (6, "label", 1, "after")]
    assert dropped(folds[2]) == [(5, "label", 2, "before")]


def test_label_then_embargo_after_the_block_then_further_forecast_times() -> None:
    # The block is days 5-9; its last label is known at 10.5, and the embargo lasts to 11.5.
    fold = CombinatorialPurged(3, 1, purged_size=1, embargo_size="1D").split(daily(15, delay_days=1.5))[1]
    assert fold.train.tolist() == [0, 1, 2, 13, 14]
    assert dropped(fold) == [
        (3, "purged_size", 1, "before"),
        (4, "label", 1, "before"),
        (10, "label", 1, "after"),
        (11, "embargo", 1, "after"),
        (12, "purged_size", 1, "after"),
    ]
    assert fold.dropped_counts == {"label": 2, "embargo": 1, "purged_size": 2}


def test_an_integer_embargo_counts_the_forecast_times_after_the_last_label() -> None:
    fold = CombinatorialPurged(3, 1, embargo_size=2).split(daily(15, delay_days=1.5))[0]
    assert fold.train.tolist() == [8, 9, 10, 11, 12, 13, 14]
    assert dropped(fold) == [(5, "label", 0, "after"), (6, "embargo", 0, "after"), (7, "embargo", 0, "after")]


def test_a_calendar_embargo() -> None:
    fold = CombinatorialPurged(8, 1, embargo_size="1M").split(daily(60))[1]
    assert fold.test.tolist() == list(range(7, 14))
    # Its last label is known on 14 January at noon, so training goes on after 14 February, noon.
    assert fold.train.tolist() == [*range(7), *range(45, 60)]


def test_the_last_block_takes_what_is_left_over() -> None:
    folds = CombinatorialPurged(3, 1).split(daily(11))
    assert [fold.test.tolist() for fold in folds] == [[0, 1, 2], [3, 4, 5], [6, 7, 8, 9, 10]]


def test_a_ragged_panel_with_one_label_that_reaches_over_the_next_block() -> None:
    # A: days 0 to 8. B: days 1, 2, 4, 7, and its label of day 1 is known only on day 7, at noon.
    days = {"A": [0, 1, 2, 3, 4, 5, 6, 7, 8], "B": [1, 2, 4, 7]}
    rows = [(entity, day) for entity, listed in days.items() for day in listed]
    forecast = [START + day * DAY for _, day in rows]
    known = [t + DAY // 2 for t in forecast]
    known[rows.index(("B", 1))] = START + 7 * DAY + DAY // 2
    folds = CombinatorialPurged(3, 1).split(frame(forecast, known, [entity for entity, _ in rows]))
    # Rows 0-8 are A's, 9-12 are B's days 1, 2, 4 and 7. Blocks are days 0-2, 3-5 and 6-8.
    assert sides(folds) == [
        ([8], [[0, 1, 2, 9, 10]]),  # nothing before day 7, noon, but for A's day 8
        ([0, 1, 2, 6, 7, 8, 10, 12], [[3, 4, 5, 11]]),
        ([0, 1, 2, 3, 4, 5, 10, 11], [[6, 7, 8, 12]]),
    ]
    assert dropped(folds[1]) == [(9, "label", 1, "before")]
    assert dropped(folds[2]) == [(9, "label", 2, "before")]
    assert folds[0].test_spans == ((START, START + 7 * DAY + DAY // 2),)


def test_between_two_test_blocks_the_nearer_one_is_the_reason() -> None:
    fold = CombinatorialPurged(3, 2, purged_size=1).split(daily(12))[1]
    assert fold.train.tolist() == [5, 6]
    assert dropped(fold) == [(4, "purged_size", 0, "after"), (7, "purged_size", 2, "before")]


# --- Equality. ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "kept"), [(-1, True), (0, False), (1, False)])
def test_a_label_known_at_the_first_test_forecast_overlaps(late: int, kept: bool) -> None:
    known = [START + i * DAY + 1 for i in range(9)]
    known[1] = START + 3 * DAY + late
    fold = CombinatorialPurged(3, 1).split(frame([START + i * DAY for i in range(9)], known))[1]
    assert (1 in fold.train.tolist()) is kept


@pytest.mark.parametrize(("late", "kept"), [(-1, True), (0, False), (1, False)])
def test_a_forecast_at_the_last_test_label_overlaps(late: int, kept: bool) -> None:
    known = [START + i * DAY + 1 for i in range(9)]
    known[4] = START + 7 * DAY + late  # a test row, but not the last one
    fold = CombinatorialPurged(3, 1).split(frame([START + i * DAY for i in range(9)], known))[1]
    assert 6 not in fold.train.tolist()
    assert (7 in fold.train.tolist()) is kept
    assert 8 in fold.train.tolist()


@pytest.mark.parametrize(
    ("late", "reason"), [(-1, None), (0, "embargo"), (1, "embargo"), (DAY - 1, "embargo"), (DAY, "label")]
)
def test_embargo_boundaries(late: int, reason: str | None) -> None:
    known = [START + i * DAY + 1 for i in range(9)]
    known[5] = START + 6 * DAY + late  # with the embargo of a day: day 7 and `late`
    samples = frame([START + i * DAY for i in range(9)], known)
    fold = CombinatorialPurged(3, 1, embargo_size="1D").split(samples)[1]
    assert dict(fold.purged.select("row", "reason").rows()).get(7) == reason


def test_nothing_before_a_block_is_embargoed() -> None:
    fold = CombinatorialPurged(3, 1, embargo_size="1D").split(daily(9))[2]
    assert fold.train.tolist() == [0, 1, 2, 3, 4, 5]


# --- Oracle. --------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    samples=panels(),
    n_folds=st.integers(2, 5),
    n_test=st.integers(1, 4),
    embargo=st.sampled_from(["0D", "1ns", "12h", "2D"]),
)
def test_a_training_label_overlaps_no_test_label(
    samples: pl.DataFrame, n_folds: int, n_test: int, embargo: str
) -> None:
    """Row by row against every test row: the obvious way, without blocks, spans or sorting."""
    if n_test >= n_folds:
        return
    splitter = CombinatorialPurged(n_folds, n_test, embargo_size=embargo)
    forecast, known = nanoseconds(samples["forecast_time"]), nanoseconds(samples["label_available_at"])
    extra = int(pd.Timedelta(embargo).value)
    try:
        folds = splitter.split(samples)
    except SplitError as error:
        assert "no train row left" in str(error) or "forecast times" in str(error)
        return
    assert len(folds) == splitter.n_splits
    for fold in folds:
        tests = {row for test in fold.tests for row in test.tolist()}
        test_times = {forecast[row] for row in tests}
        expected = []
        for row in range(len(forecast)):
            if forecast[row] in test_times:
                assert row in tests
                continue
            overlaps = any(forecast[row] <= known[t] and forecast[t] <= known[row] for t in tests)
            # A block's embargo begins with its last label, and touches only what comes after all of it.
            embargoed = any(
                forecast[row] > max(forecast[t] for t in test.tolist())
                and forecast[row] <= max(known[t] for t in test.tolist()) + extra
                for test in fold.tests
            )
            if not overlaps and not embargoed:
                expected.append(row)
        assert fold.train.tolist() == expected
        assert sorted([*fold.train, *fold.test, *fold.purged["row"]]) == list(range(len(forecast)))
        assert (fold.purged["reason"] == "embargo").sum() == 0 or extra
        for row, reason, block, position in dropped(fold):
            start, end = fold.test_spans[fold.test_folds.index(block)]
            assert position == ("before" if forecast[row] < start else "after")
            assert (reason == "label") is (
                (forecast[row] <= end and start <= known[row])
                or any(forecast[row] <= e and s <= known[row] for s, e in fold.test_spans)
            )


@settings(max_examples=60, deadline=None)
@given(samples=panels(), n_folds=st.integers(2, 5), extra=st.integers(1, 3), embargo=st.integers(0, 2))
def test_an_integer_purges_more_than_the_label_rule_never_less(
    samples: pl.DataFrame, n_folds: int, extra: int, embargo: int
) -> None:
    try:
        more = CombinatorialPurged(n_folds, 1, purged_size=extra, embargo_size=embargo).split(samples)
        less = CombinatorialPurged(n_folds, 1, embargo_size=embargo).split(samples)
    except SplitError:
        return
    forecast = nanoseconds(samples["forecast_time"])
    for fold, other in zip(more, less, strict=True):
        start, _ = fold.test_spans[0]
        left = [forecast[row] for row in other.train]
        before = sorted({t for t in left if t < start}, reverse=True)[:extra]
        after = sorted({t for t in left if t > start})[:extra]
        gone = {*before, *after}
        assert fold.train.tolist() == [row for row in other.train.tolist() if forecast[row] not in gone]


def test_the_order_of_rows_does_not_matter() -> None:
    samples = pl.concat(
        [daily(24, delay_days=1.5), daily(24, delay_days=2.5).with_columns(entity=pl.lit("B"))]
    )
    splitter = CombinatorialPurged(4, 2, purged_size=1, embargo_size="1D")
    shuffled = samples.with_row_index("at").sample(fraction=1.0, shuffle=True, seed=3)
    at = shuffled["at"].to_numpy()
    folds = splitter.split(samples)
    assert any(fold.purged.height for fold in folds)
    for here, there in zip(folds, splitter.split(shuffled), strict=True):
        assert sorted(at[there.train].tolist()) == here.train.tolist()
        for one, other in zip(here.tests, there.tests, strict=True):
            assert sorted(at[other].tolist()) == one.tolist()


# --- Peer. ----------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(
    n_folds=st.integers(3, 7),
    n_test=st.integers(2, 6),
    per_fold=st.integers(4, 9),
    over=st.integers(0, 6),
    purged=st.integers(0, 4),
    embargo=st.integers(0, 4),
)
def test_splits_and_paths_equal_skfolio_where_labels_do_not_overlap(
    n_folds: int, n_test: int, per_fold: int, over: int, purged: int, embargo: int
) -> None:
    if n_test >= n_folds or purged + embargo >= per_fold - 1:  # the peer refuses these
        return
    n = n_folds * per_fold + min(over, n_folds - 1)
    peer = Peer(n_folds, n_test, purged_size=purged, embargo_size=embargo)
    ours = CombinatorialPurged(n_folds, n_test, purged_size=purged, embargo_size=embargo)
    expected = [(a.tolist(), [t.tolist() for t in tests]) for a, tests in peer.split(np.zeros((n, 1)))]
    if any(not train for train, _ in expected):
        with pytest.raises(SplitError, match="no train row left"):
            ours.split(daily(n))
        return
    folds = ours.split(daily(n))
    assert sides(folds) == expected
    assert [list(fold.path_ids) for fold in folds] == peer.get_path_ids().tolist()


@pytest.mark.parametrize(("n_folds", "n_test"), [(3, 2), (5, 2), (6, 3), (7, 5), (10, 8)])
def test_the_tables_of_paths_equal_skfolio(n_folds: int, n_test: int) -> None:
    peer, ours = Peer(n_folds, n_test), CombinatorialPurged(n_folds, n_test)
    assert (ours.n_splits, ours.n_test_paths) == (peer.n_splits, peer.n_test_paths)
    for name in ("test_set_index", "binary_train_test_sets", "recombined_paths"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(peer, name))
    np.testing.assert_array_equal(ours.get_path_ids(), peer.get_path_ids())
    assert ours.get_path_ids().dtype == np.int64


# --- Paths. ---------------------------------------------------------------------------------------------


def test_forecasts_recombine_into_paths_that_cover_every_sample_once() -> None:
    # Two entities, rows not in order of time; every forecast says which split made it and for which row.
    samples = pl.concat([daily(7), daily(7).with_columns(entity=pl.lit("B"))]).reverse()
    splitter = CombinatorialPurged(3, 2)
    folds = splitter.split(samples)
    paths = splitter.recombine(folds, [100.0 * (1 + fold.index) + fold.test for fold in folds])
    assert paths.shape == (2, 14)
    # Blocks are days 0-1, 2-3 and 4-6; split 0 tests the first two, 1 the first and last, 2 the last two.
    block = [2, 2, 2, 1, 1, 0, 0] * 2
    maker = {0: (0, 1), 1: (0, 2), 2: (1, 2)}
    for path in (0, 1):
        assert paths[path].tolist() == [100 * (1 + maker[b][path]) + row for row, b in enumerate(block)]


def test_recombining_refuses_what_is_not_all_of_it() -> None:
    splitter = CombinatorialPurged(3, 2)
    folds = splitter.split(daily(9))
    good = [np.zeros(6)] * 3
    for wrong in (folds[:2], folds[::-1]):
        with pytest.raises(SplitError, match="needs the 3 splits in order"):
            splitter.recombine(wrong, good[: len(wrong)])
    with pytest.raises(SplitError, match="3 folds and 2 arrays"):
        splitter.recombine(folds, good[:2])
    with pytest.raises(SplitError, match=r"split 1 has 6 test rows and forecasts of shape \(5,\)"):
        splitter.recombine(folds, [good[0], np.zeros(5), good[2]])
    with pytest.raises(SplitError, match="3 splits in order"):
        splitter.recombine([], [])


# --- No walk-forward. -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["fit_time", "validation_time", "validation", "train_span", "validation_span", "test_span"]
)
def test_what_a_walk_forward_would_need_is_refused(name: str) -> None:
    fold = CombinatorialPurged(3, 1).split(daily(9))[1]
    with pytest.raises(SplitError, match=r"3 of its training rows are later .* no walk-forward"):
        getattr(fold, name)


def test_the_audit_refuses_them() -> None:
    samples = daily(9, delay_days=1.5)
    with pytest.raises(SplitError, match="no walk-forward"):
        check_purging(samples, CombinatorialPurged(3, 1).split(samples))  # type: ignore[arg-type]
    # The same samples as a walk-forward pass.
    assert check_purging(samples, WalkForward(4, 2).split(samples)).verdict == "PASS"


def test_one_combinatorial_fold_among_many_is_found() -> None:
    samples = daily(9)
    folds = WalkForward(4, 2).split(samples)
    require_walk_forward(folds, needed_by="run_folds")
    with pytest.raises(SplitError, match="run_folds needs folds of a walk-forward, and one is a Combinator"):
        require_walk_forward([*folds, CombinatorialPurged(3, 1).split(samples)[0]], needed_by="run_folds")


# --- What a fold tells. ---------------------------------------------------------------------------------


def test_its_words_and_its_account() -> None:
    fold = CombinatorialPurged(3, 1, purged_size=1, embargo_size="1D").split(daily(15, delay_days=1.5))[1]
    assert repr(fold) == (
        "CombinatorialFold 1: train 5 rows (2 later than the first test), test 5 rows in blocks 1 from "
        "2024-01-06 (path 0); dropped 5 (label 2, embargo 1, purged_size 2)"
    )
    day = [datetime(2024, 1, 1 + i, tzinfo=UTC) for i in range(15)]
    assert fold.summary().rows() == [
        ("train", "kept", 5, day[0], day[14]),
        ("train", "label", 2, day[4], day[10]),
        ("train", "embargo", 1, day[11], day[11]),
        ("train", "purged_size", 2, day[3], day[12]),
        ("test", "kept", 5, day[5], day[9]),
    ]
    assert fold.purged.schema["forecast_time"] == pl.Datetime("ns", "UTC")


def test_describe() -> None:
    # Blocks of five days; a label reaches a day and a half on, and one more day goes on each side.
    described = CombinatorialPurged(3, 2, purged_size=1).describe(daily(15, delay_days=1.5))
    assert described.columns == [
        *("fold", "test_folds", "path_ids", "n_train", "n_train_after", "n_test"),
        *("n_label", "n_embargo", "n_purged_size"),
    ]
    assert described.rows() == [
        (0, [0, 1], [0, 0], 3, 3, 10, 1, 0, 1),
        (1, [0, 2], [1, 0], 1, 1, 10, 2, 0, 2),
        (2, [1, 2], [1, 1], 3, 0, 10, 1, 0, 1),
    ]


def test_folds_survive_a_copy() -> None:
    fold = CombinatorialPurged(3, 1).split(daily(9, delay_days=1.5))[1]
    other = copy.deepcopy(fold)
    assert other.train.tolist() == fold.train.tolist()
    assert other.purged.equals(fold.purged)
    assert repr(other) == repr(fold)


# --- Bad input. -----------------------------------------------------------------------------------------


def test_a_split_that_has_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(
        SplitError, match=r"split 1 \(test blocks \[0, 2\].*no train row left after purging 4"
    ):
        CombinatorialPurged(3, 2, purged_size=1).split(daily(12, delay_days=1.5))
    with pytest.raises(SplitError, match="no train row left"):
        CombinatorialPurged(3, 1).split(daily(9, delay_days=1000))


def test_missing_label_ends_are_an_error_never_zero_purging() -> None:
    for column in ("label_end_time", "label_available_at"):
        with pytest.raises(SplitError, match=column):
            CombinatorialPurged(3, 1).split(daily(9).drop(column))
        one_null = daily(9).with_columns(
            pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise(pl.col(column)).alias(column)
        )
        with pytest.raises(SplitError, match=rf"{column}.*\[4\]"):
            CombinatorialPurged(3, 1).split(one_null)


def test_fewer_forecast_times_than_blocks() -> None:
    with pytest.raises(SplitError, match="there are 3 forecast times and n_folds=4"):
        CombinatorialPurged(4, 1).split(daily(3))
    assert len(CombinatorialPurged(3, 1).split(daily(3))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1), "n_folds=1"),
        ((3, 0), "n_test_folds=0"),
        ((3, 3), "n_test_folds=3 leaves none of n_folds=3"),
        ((3.0, 1), "n_folds=3.0"),
        ((True, 1), "n_folds=True"),
        (("5", 1), "n_folds='5'"),
        ((3, None), "n_test_folds=None"),
        ((40, 20), "10,000 splits"),
        ((10**9, 2), "1,000 blocks"),
    ],
)
def test_bad_counts_are_refused_where_they_are_written(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(SplitError, match=message):
        CombinatorialPurged(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"purged_size": -1}, "purged_size=-1"),
        ({"purged_size": "3D"}, "purged_size='3D'"),
        ({"purged_size": True}, "purged_size=True"),
        ({"embargo_size": "-1D"}, "embargo_size='-1D'"),
        ({"embargo_size": -1}, "embargo_size=-1"),
        ({"embargo_size": None}, "embargo_size=None"),
    ],
)
def test_bad_sizes_are_refused_where_they_are_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SplitError, match=message):
        CombinatorialPurged(4, 2, **arguments)


def test_recombining_says_what_it_takes_when_samples_come_first() -> None:
    splitter = CombinatorialPurged(n_folds=3, n_test_folds=1)
    with pytest.raises(SplitError, match=r"takes the folds that split\(\) gives, not DataFrame"):
        splitter.recombine(pl.DataFrame({"forecast_time": [1]}), [])  # type: ignore[arg-type]
    with pytest.raises(SplitError, match=r"not int"):
        splitter.recombine([1, 2, 3], [[0.0]] * 3)  # type: ignore[list-item]
