"""Folds against hand-written indices, a naive oracle, skfolio, and the rules of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skfolio.model_selection import WalkForward as PeerWalkForward

from quantattn.errors import SplitError
from quantattn.walkforward import Fold, WalkForward

DAY = 86_400 * 10**9
START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 10**9
TIME = pl.Datetime("ns", "UTC")


def frame(forecast: list[int], known: list[int], entity: list[str] | None = None) -> pl.DataFrame:
    """Build samples from nanoseconds; labels end when they are known."""
    return pl.DataFrame(
        {
            "entity": entity or ["A"] * len(forecast),
            "forecast_time": pl.Series(forecast, dtype=pl.Int64)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC"),
            "label_end_time": pl.Series(known, dtype=pl.Int64)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC"),
            "label_available_at": pl.Series(known, dtype=pl.Int64)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC"),
        }
    )


def daily(n: int, *, delay_days: float = 0.5) -> pl.DataFrame:
    """One entity, one forecast a day at midnight UTC, the label known `delay_days` later."""
    forecast = [START + i * DAY for i in range(n)]
    return frame(forecast, [t + int(delay_days * DAY) for t in forecast])


def sides(folds: list[Fold]) -> list[tuple[list[int], list[int], list[int]]]:
    return [(f.train.tolist(), f.validation.tolist(), f.test.tolist()) for f in folds]


def nanoseconds(column: pl.Series) -> list[int]:
    return column.to_physical().to_list()


# --- Six settings, written out by hand. -----------------------------------------------------------------


def test_rolling_counts() -> None:
    assert sides(WalkForward(train_size=3, test_size=2).split(daily(8))) == [
        ([0, 1, 2], [], [3, 4]),
        ([2, 3, 4], [], [5, 6]),
    ]


def test_expanding_counts_with_a_short_last_block() -> None:
    walk_forward = WalkForward(train_size=3, test_size=2, expand_train=True, reduce_test=True)
    assert sides(walk_forward.split(daily(8))) == [
        ([0, 1, 2], [], [3, 4]),
        ([0, 1, 2, 3, 4], [], [5, 6]),
        ([0, 1, 2, 3, 4, 5, 6], [], [7]),
    ]


def test_validation_is_the_end_of_the_training_window_and_both_sides_are_purged() -> None:
    # A label is known 1.5 days later: one row goes on the training side (towards validation, not only
    # towards test) and one on the validation side.
    folds = WalkForward(train_size=6, test_size=2, val_size=3, reduce_test=True).split(
        daily(10, delay_days=1.5)
    )
    assert sides(folds) == [
        ([0, 1], [3, 4], [6, 7]),
        ([2, 3], [5, 6], [8, 9]),
    ]
    assert folds[0].purged.select("row", "side", "reason").rows() == [
        (2, "train", "label"),
        (5, "validation", "label"),
    ]
    assert folds[1].purged.select("row", "side", "reason").rows() == [
        (4, "train", "label"),
        (7, "validation", "label"),
    ]


def test_label_then_embargo_then_further_forecast_times() -> None:
    # The label rule takes day 5 (known 6.5), the embargo of one day takes day 4 (known 5.5), purged_size=1
    # takes one more, day 3. The window moves back by one so that it covers train_size + 1 days.
    walk_forward = WalkForward(train_size=5, test_size=3, purged_size=1, embargo_size="1D")
    folds = walk_forward.split(daily(9, delay_days=1.5))
    assert sides(folds) == [([0, 1, 2], [], [6, 7, 8])]
    assert folds[0].purged.select("row", "reason").rows() == [
        (3, "purged_size"),
        (4, "embargo"),
        (5, "label"),
    ]


def test_durations() -> None:
    # Forecasts on days 0, 1, 2, 5, 6, 7, 8, 12, 13. Training reaches 4 days back, tests last 3 days:
    # blocks start on days 4, 7, 10, 13; the last one is never whole.
    days = [0, 1, 2, 5, 6, 7, 8, 12, 13]
    samples = frame([START + d * DAY for d in days], [START + d * DAY + DAY // 2 for d in days])
    assert sides(WalkForward(train_size="4D", test_size="3D").split(samples)) == [
        ([0, 1, 2], [], [3, 4]),
        ([3, 4], [], [5, 6]),
        ([4, 5, 6], [], [7]),
    ]
    shorter = WalkForward(train_size="4D", test_size="3D", reduce_test=True).split(samples)
    assert sides(shorter)[-1] == ([7], [], [8])


def test_calendar_periods() -> None:
    # Forecasts on the 1st, 11th and 21st of January to May 2024; one month of test, two of training,
    # the second of them for validation.
    stamps = [datetime(2024, month, day, 12, tzinfo=UTC) for month in range(1, 6) for day in (1, 11, 21)]
    forecast = [int(stamp.timestamp()) * 10**9 for stamp in stamps]
    samples = frame(forecast, [t + DAY for t in forecast])
    walk_forward = WalkForward(train_size=2, test_size=1, val_size=1, freq="MS")
    assert sides(walk_forward.split(samples)) == [
        ([0, 1, 2], [3, 4, 5], [6, 7, 8]),
        ([3, 4, 5], [6, 7, 8], [9, 10, 11]),
    ]
    to_the_end = WalkForward(train_size=2, test_size=1, val_size=1, freq="MS", reduce_test=True).split(
        samples
    )
    assert sides(to_the_end)[2:] == [([6, 7, 8], [9, 10, 11], [12, 13, 14])]


def test_panel_rows_go_with_their_forecast_time_and_are_purged_one_by_one() -> None:
    # Two entities, four days, rows not in order of time. B's labels take 1.5 days, A's half a day.
    forecast = [START + d * DAY for d in (3, 0, 1, 2, 0, 1, 2, 3)]
    entity = ["A", "A", "A", "A", "B", "B", "B", "B"]
    known = [t + (DAY // 2 if e == "A" else 3 * DAY // 2) for t, e in zip(forecast, entity, strict=True)]
    (fold,) = WalkForward(train_size=3, test_size=1).split(frame(forecast, known, entity))
    assert fold.train.tolist() == [1, 2, 3, 4, 5]
    assert fold.test.tolist() == [0, 7]
    assert fold.purged.rows() == [(6, "B", datetime(2024, 1, 3, tzinfo=UTC), "train", "label")]


def test_a_ragged_panel_is_split_by_the_times_of_all_entities() -> None:
    # A forecasts on days 0-9; B comes on day 2, pauses on days 4 and 5 and is gone after day 8; C comes on
    # day 7. A count is one of distinct forecast times, whoever has them. B's labels take 2.5 days.
    days = {"A": [*range(10)], "B": [2, 3, 6, 7, 8], "C": [7, 8, 9]}
    rows = [(entity, day) for entity, listed in days.items() for day in listed]
    forecast = [START + day * DAY for _, day in rows]
    known = [
        t + (5 if entity == "B" else 1) * DAY // 2 for t, (entity, _) in zip(forecast, rows, strict=True)
    ]
    samples = frame(forecast, known, [entity for entity, _ in rows])
    # Rows 0-9 are A's, 10-14 B's days 2, 3, 6, 7, 8, and 15-17 C's days 7, 8, 9.
    folds = WalkForward(train_size=5, test_size=3, val_size=2, reduce_test=True).split(samples)
    assert sides(folds) == [
        # Days 0-2 train, 3-4 validate, 5-7 test: B's day 2 is known at 4.5, after day 3; its day 3 at 5.5.
        ([0, 1, 2], [3, 4], [5, 6, 7, 12, 13, 15]),
        # Days 3-5 train, 6-7 validate, 8-9 test: B's day 3 is known at 5.5, before day 6; its days 6 and 7
        # at 8.5 and 9.5.
        ([3, 4, 5, 11], [6, 7, 15], [8, 9, 14, 16, 17]),
    ]
    assert [fold.purged.select("row", "entity", "side").rows() for fold in folds] == [
        [(10, "B", "train"), (11, "B", "validation")],
        [(12, "B", "validation"), (13, "B", "validation")],
    ]


# --- Cutoffs and equality. ------------------------------------------------------------------------------


@pytest.mark.parametrize(("late", "kept"), [(-1, True), (0, True), (1, False)])
def test_a_label_known_exactly_at_the_cutoff_stays(late: int, kept: bool) -> None:
    test_start = START + 4 * DAY
    fit_time = test_start - 1
    known = [START + i * DAY + DAY // 2 for i in range(6)]
    known[3] = fit_time + late
    (fold,) = WalkForward(train_size=4, test_size=2).split(frame([START + i * DAY for i in range(6)], known))
    assert fold.fit_time == fit_time == fold.validation_time
    assert (3 in fold.train.tolist()) is kept
    assert fold.purged["reason"].to_list() == ([] if kept else ["label"])


@pytest.mark.parametrize(("late", "kept"), [(-1, True), (0, True), (1, False)])
def test_the_training_side_is_judged_at_the_first_validation_forecast(late: int, kept: bool) -> None:
    validation_time = START + 3 * DAY - 1
    known = [START + i * DAY + DAY // 2 for i in range(7)]
    known[0] = validation_time + late
    walk_forward = WalkForward(train_size=5, test_size=2, val_size=2)
    (fold,) = walk_forward.split(frame([START + i * DAY for i in range(7)], known))
    assert fold.validation_time == validation_time
    assert fold.fit_time == START + 5 * DAY - 1
    assert (0 in fold.train.tolist()) is kept


@pytest.mark.parametrize(
    ("late", "reason"), [(-1, None), (0, None), (1, "embargo"), (DAY, "embargo"), (DAY + 1, "label")]
)
def test_embargo_boundaries(late: int, reason: str | None) -> None:
    fit_time = START + 4 * DAY - 1
    known = [START + i * DAY + 1 for i in range(5)]
    known[1] = fit_time - DAY + late
    samples = frame([START + i * DAY for i in range(5)], known)
    (fold,) = WalkForward(train_size=4, test_size=1, embargo_size="1D").split(samples)
    reasons = dict(fold.purged.select("row", "reason").rows())
    assert reasons.get(1) == reason
    assert (1 in fold.train.tolist()) is (reason is None)


def test_an_integer_embargo_counts_forecast_times() -> None:
    # Irregular forecasts: two forecast times before the test is day 3, so labels must be known before day 3.
    days = [0, 1, 2, 3, 9, 10]
    samples = frame([START + d * DAY for d in days], [START + d * DAY + DAY // 2 for d in days])
    (fold,) = WalkForward(train_size=5, test_size=1, embargo_size=2).split(samples)
    assert fold.train.tolist() == [0, 1, 2]
    assert fold.purged.select("row", "reason").rows() == [(3, "embargo"), (4, "embargo")]


def test_a_test_row_is_never_purged_and_needs_no_known_label() -> None:
    samples = daily(6, delay_days=100)
    with pytest.raises(SplitError, match="no train row left"):
        WalkForward(train_size=4, test_size=2).split(samples)
    known = nanoseconds(daily(6)["label_available_at"])[:4] + [START + 1000 * DAY] * 2
    (fold,) = WalkForward(train_size=4, test_size=2).split(frame([START + i * DAY for i in range(6)], known))
    assert fold.test.tolist() == [4, 5]


# --- Peer. ----------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(4, 40),
    train=st.integers(1, 12),
    test=st.integers(1, 8),
    purged=st.one_of(st.just("label"), st.integers(0, 4)),
    expand=st.booleans(),
    reduce=st.booleans(),
)
def test_folds_equal_skfolio_where_labels_do_not_overlap(
    n: int, train: int, test: int, purged: Any, expand: bool, reduce: bool
) -> None:
    peer = PeerWalkForward(
        test_size=test,
        train_size=train,
        expand_train=expand,
        reduce_test=reduce,
        purged_size=0 if purged == "label" else purged,
    )
    try:
        expected = [(a.tolist(), b.tolist()) for a, b in peer.split(np.zeros((n, 1)))]
    except ValueError:
        expected = []
    ours = WalkForward(train, test, expand_train=expand, reduce_test=reduce, purged_size=purged)
    if not expected:
        with pytest.raises(SplitError, match=f"there are {n} forecast times"):
            ours.split(daily(n))
        return
    assert [(f.train.tolist(), f.test.tolist()) for f in ours.split(daily(n))] == expected


@pytest.mark.parametrize("freq", ["MS", "QS", "WOM-3FRI", "ME"])
@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("purged", [0, 3])
def test_calendar_folds_equal_skfolio(freq: str, reduce: bool, expand: bool, purged: int) -> None:
    dates = pd.bdate_range("2019-01-07", "2021-12-29")
    peer = PeerWalkForward(
        test_size=2, train_size=3, freq=freq, reduce_test=reduce, expand_train=expand, purged_size=purged
    )
    expected = [(a.tolist(), b.tolist()) for a, b in peer.split(pd.DataFrame({"x": 0.0}, index=dates))]
    forecast = [int(d.as_unit("ns").value) for d in dates]
    ours = WalkForward(3, 2, freq=freq, reduce_test=reduce, expand_train=expand, purged_size=purged)
    folds = ours.split(frame(forecast, [t + DAY // 2 for t in forecast]))
    assert len(expected) > 2
    assert [(f.train.tolist(), f.test.tolist()) for f in folds] == expected


# --- Proofs. --------------------------------------------------------------------------------------------


@st.composite
def panels(draw: st.DrawFn) -> pl.DataFrame:
    """Irregular clocks, missing rows, entities whose labels take different times, rows in any order."""
    times = draw(st.lists(st.integers(0, 60), min_size=8, max_size=25, unique=True))
    rows = []
    for entity in draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C"]])):
        for moment in times:
            if draw(st.integers(0, 9)):
                forecast = START + moment * DAY // 2
                # Delays that meet the cutoff exactly, one before and one after, and long ones.
                step = draw(
                    st.sampled_from([1, DAY // 2 - 2, DAY // 2 - 1, DAY // 2, DAY // 2 + 1, DAY, 3 * DAY])
                )
                rows.append((entity, forecast, forecast + step))
    rows = draw(st.permutations(rows)) if rows else [("A", START, START + 1)]
    return frame([r[1] for r in rows], [r[2] for r in rows], [r[0] for r in rows])


sizes = st.one_of(st.integers(2, 8), st.sampled_from(["2D", "4D", "7D12h"]))


@settings(max_examples=250, deadline=None)
@given(
    samples=panels(),
    train=sizes,
    test=st.one_of(st.integers(1, 5), st.sampled_from(["1D", "3D"])),
    validation=st.one_of(st.none(), st.integers(1, 3), st.sampled_from(["1D", "2D"])),
    purged=st.one_of(st.just("label"), st.integers(0, 2)),
    embargo=st.one_of(st.sampled_from(["0D", "12h", "1D"]), st.integers(0, 2)),
    expand=st.booleans(),
    reduce=st.booleans(),
)
def test_no_label_is_known_after_a_cutoff_and_no_time_is_on_two_sides(
    samples: pl.DataFrame,
    train: Any,
    test: Any,
    validation: Any,
    purged: Any,
    embargo: Any,
    expand: bool,
    reduce: bool,
) -> None:
    try:
        folds = WalkForward(
            train,
            test,
            val_size=validation,
            purged_size=purged,
            embargo_size=embargo,
            expand_train=expand,
            reduce_test=reduce,
        ).split(samples)
    except SplitError:
        return
    forecast, known = nanoseconds(samples["forecast_time"]), nanoseconds(samples["label_available_at"])
    last_test = None
    for fold in folds:
        assert fold.train.size and fold.test.size
        test_times = {forecast[r] for r in fold.test}
        validation_times = {forecast[r] for r in fold.validation}
        train_times = {forecast[r] for r in fold.train}
        assert min(test_times) == fold.fit_time + 1
        assert all(known[r] <= fold.fit_time for r in fold.validation)
        assert all(known[r] <= fold.validation_time for r in fold.train)
        assert fold.validation_time <= fold.fit_time
        assert not test_times & validation_times and not test_times & train_times
        assert not validation_times & train_times
        assert not validation_times or fold.validation_time < min(validation_times)
        if validation is None:
            assert fold.validation_time == fold.fit_time and not validation_times
        # All rows of a test time are in the test: folds split times, not rows.
        assert sorted(r for r in range(len(forecast)) if forecast[r] in test_times) == fold.test.tolist()
        assert last_test is None or last_test < min(test_times)
        last_test = max(test_times)
        # Purged rows are on no side, come with a true reason, and nothing went without one.
        gone = fold.purged.rows(named=True)
        assert not {g["row"] for g in gone} & {
            *fold.train.tolist(),
            *fold.validation.tolist(),
            *fold.test.tolist(),
        }
        for g in gone:
            cutoff = fold.validation_time if g["side"] == "train" else fold.fit_time
            assert (g["reason"] == "label") is (known[g["row"]] > cutoff)
            if g["reason"] == "embargo":
                assert embargo not in ("0D", 0)
            if g["reason"] == "purged_size":
                assert purged not in ("label", 0)
        if purged in ("label", 0) and embargo in ("0D", 0):
            covered = {g["row"] for g in gone} | {*fold.train.tolist(), *fold.validation.tolist()}
            start = min(forecast[r] for r in covered)
            inside = {r for r in range(len(forecast)) if start <= forecast[r] <= fold.fit_time}
            assert covered == inside


@settings(max_examples=80, deadline=None)
@given(
    samples=panels(),
    freq=st.sampled_from(["W-WED", "3D", "MS", pd.DateOffset(days=4), "36h"]),
    train=st.one_of(st.integers(1, 4), st.sampled_from(["4D", "9D"])),
    test=st.integers(1, 2),
    validation=st.one_of(st.none(), st.just(1), st.just("2D")),
    expand=st.booleans(),
    reduce=st.booleans(),
)
def test_calendar_blocks_keep_the_same_rules(
    samples: pl.DataFrame, freq: Any, train: Any, test: int, validation: Any, expand: bool, reduce: bool
) -> None:
    try:
        folds = WalkForward(
            train, test, freq=freq, val_size=validation, expand_train=expand, reduce_test=reduce
        ).split(samples)
    except SplitError:
        return
    forecast, known = nanoseconds(samples["forecast_time"]), nanoseconds(samples["label_available_at"])
    tested: set[int] = set()
    for fold in folds:
        times = [{forecast[r] for r in rows} for rows in (fold.train, fold.validation, fold.test)]
        assert min(times[2]) == fold.fit_time + 1
        assert not (times[0] & times[1] or times[0] & times[2] or times[1] & times[2])
        assert all(known[r] <= fold.validation_time for r in fold.train)
        assert all(known[r] <= fold.fit_time for r in fold.validation)
        assert not times[1] or fold.validation_time < min(times[1])
        assert not tested & times[2]
        tested |= times[2]


@settings(max_examples=100, deadline=None)
@given(samples=panels(), train=st.integers(3, 8), extra=st.integers(0, 3), expand=st.booleans())
def test_an_integer_purges_more_than_the_label_rule_never_less(
    samples: pl.DataFrame, train: int, extra: int, expand: bool
) -> None:
    """A naive oracle: keep what the label rule keeps, then drop the latest `extra` times of it."""
    try:
        folds = WalkForward(train, 2, purged_size=extra, expand_train=expand, reduce_test=True).split(samples)
    except SplitError:
        return
    forecast, known = nanoseconds(samples["forecast_time"]), nanoseconds(samples["label_available_at"])
    distinct = sorted(set(forecast))
    for fold in folds:
        position = distinct.index(fold.fit_time + 1)
        start = 0 if expand else position - extra - train
        window = distinct[start:position]
        kept = [r for r in range(len(forecast)) if forecast[r] in window and known[r] <= fold.fit_time]
        dropped = sorted({forecast[r] for r in kept}, reverse=True)[:extra]
        assert fold.train.tolist() == [r for r in kept if forecast[r] not in dropped]


def test_the_order_of_rows_does_not_matter() -> None:
    samples = pl.concat(
        [daily(12, delay_days=1.5), daily(12, delay_days=2.5).with_columns(entity=pl.lit("B"))]
    )
    walk_forward = WalkForward(6, 2, val_size=3)
    shuffled = samples.with_row_index("at").sample(fraction=1.0, shuffle=True, seed=3)
    at = shuffled["at"].to_numpy()
    for here, there in zip(walk_forward.split(samples), walk_forward.split(shuffled), strict=True):
        for side in ("train", "validation", "test"):
            assert sorted(at[getattr(there, side)].tolist()) == getattr(here, side).tolist()


# --- What a fold tells. ---------------------------------------------------------------------------------


def test_spans_and_purged_spans() -> None:
    folds = WalkForward(train_size=6, test_size=2, val_size=3).split(daily(8, delay_days=1.5))
    assert folds[0].spans() == {
        "fit_time": "2024-01-06T23:59:59.999999999Z",
        "validation_time": "2024-01-03T23:59:59.999999999Z",
        "train_start": "2024-01-01T00:00:00Z",
        "train_end": "2024-01-02T00:00:00Z",
        "validation_start": "2024-01-04T00:00:00Z",
        "validation_end": "2024-01-05T00:00:00Z",
        "test_start": "2024-01-07T00:00:00Z",
        "test_end": "2024-01-08T00:00:00Z",
    }
    assert folds[0].purged_spans() == [
        {
            "side": "train",
            "reason": "label",
            "start": "2024-01-03T00:00:00Z",
            "end": "2024-01-03T00:00:00Z",
            "n_rows": 1,
        },
        {
            "side": "validation",
            "reason": "label",
            "start": "2024-01-06T00:00:00Z",
            "end": "2024-01-06T00:00:00Z",
            "n_rows": 1,
        },
    ]


def test_without_validation_its_span_is_null_and_nothing_purged_is_an_empty_frame() -> None:
    (fold,) = WalkForward(train_size=3, test_size=2).split(daily(5))
    assert fold.validation_span is None
    assert fold.spans()["validation_start"] is None
    assert fold.purged_spans() == []
    assert fold.purged.schema == {
        "row": pl.Int64, "entity": pl.String, "forecast_time": TIME, "side": pl.String, "reason": pl.String,
    }  # fmt: skip
    for rows in (fold.train, fold.validation, fold.test):
        assert rows.dtype == np.int64


def test_describe() -> None:
    described = WalkForward(train_size=6, test_size=2, val_size=3).describe(daily(10, delay_days=1.5))
    assert described["fold"].to_list() == [0, 1]
    assert described.select(
        "n_train", "n_validation", "n_test", "n_purged_train", "n_purged_validation"
    ).rows() == [
        (2, 2, 2, 1, 1),
        (2, 2, 2, 1, 1),
    ]
    assert described["test_start"].to_list() == [
        datetime(2024, 1, 7, tzinfo=UTC),
        datetime(2024, 1, 9, tzinfo=UTC),
    ]
    assert nanoseconds(described["fit_time"]) == [START + 6 * DAY - 1, START + 8 * DAY - 1]
    assert described["fit_time"].dtype == TIME
    without = WalkForward(train_size=3, test_size=2).describe(daily(5))
    assert without["validation_start"].to_list() == [None]


def test_a_timedelta_an_offset_and_a_text_mean_the_same() -> None:
    samples = daily(20, delay_days=1.5)
    expected = sides(WalkForward("5D", "3D", val_size="2D").split(samples))
    assert len(expected) == 4
    assert (
        sides(WalkForward(timedelta(days=5), timedelta(days=3), val_size=timedelta(days=2)).split(samples))
        == expected
    )
    day = pd.offsets.Day
    assert sides(WalkForward(day(5), day(3), val_size=day(2)).split(samples)) == expected


def test_offsets_follow_the_calendar() -> None:
    # One month of training from 31 January ends on 28 February; test months end on the 28th from there on.
    forecast = [int(d.as_unit("ns").value) for d in pd.date_range("2023-01-31", "2023-05-02", tz="UTC")]
    samples = frame(forecast, [t + 1 for t in forecast])
    folds = WalkForward(pd.DateOffset(months=1), pd.DateOffset(months=1)).split(samples)
    assert [f.spans()["test_start"] for f in folds] == ["2023-02-28T00:00:00Z", "2023-03-28T00:00:00Z"]


def test_a_span_much_shorter_than_the_gaps_is_no_endless_loop() -> None:
    folds = WalkForward("1D", "1us", reduce_test=True).split(daily(400))
    assert [f.test.tolist() for f in folds] == [[i] for i in range(1, 400)]


def test_mixed_counts_and_durations() -> None:
    samples = daily(12)
    assert sides(WalkForward("4D", 3, val_size=1).split(samples)) == [
        ([0, 1, 2], [3], [4, 5, 6]),
        ([3, 4, 5], [6], [7, 8, 9]),
    ]
    assert sides(WalkForward(4, "3D", val_size="2D").split(samples)) == [
        ([0, 1], [2, 3], [4, 5, 6]),
        ([3, 4], [5, 6], [7, 8, 9]),
    ]
    # Day 10 to 12 is whole only once a forecast at or after day 13 is there.
    assert sides(WalkForward(4, "3D").split(daily(14)))[-1] == ([6, 7, 8, 9], [], [10, 11, 12])


# --- Bad input. -----------------------------------------------------------------------------------------


def test_missing_label_ends_are_an_error_never_zero_purging() -> None:
    walk_forward = WalkForward(3, 2)
    for column in ("label_end_time", "label_available_at"):
        with pytest.raises(SplitError, match=column):
            walk_forward.split(daily(8).drop(column))
        one_null = daily(8).with_columns(
            pl.when(pl.int_range(pl.len()) == 4).then(None).otherwise(pl.col(column)).alias(column)
        )
        with pytest.raises(SplitError, match=rf"{column}.*\[4\]"):
            walk_forward.split(one_null)


def test_labels_known_before_their_forecast_or_their_end_are_refused() -> None:
    forecast = [START + i * DAY for i in range(6)]
    known = [t + 1 for t in forecast]
    known[2] = forecast[2]
    with pytest.raises(SplitError, match=r"\[2\].*at or before forecast_time"):
        WalkForward(3, 2).split(frame(forecast, known))
    late_end = daily(6).with_columns(label_end_time=pl.col("label_end_time").dt.offset_by("1ns"))
    with pytest.raises(SplitError, match="before label_end_time"):
        WalkForward(3, 2).split(late_end)


def test_too_little_history_says_how_much_there_is_and_is_needed() -> None:
    with pytest.raises(SplitError, match=r"there are 6 forecast times.*needs 9"):
        WalkForward(5, 3, purged_size=1).split(daily(6))
    with pytest.raises(SplitError, match=r"there are 6 forecast times.*needs 7"):
        WalkForward(6, 3, reduce_test=True).split(daily(6))
    with pytest.raises(SplitError, match=r"there are 6 forecast times.*reduce_test=True"):
        WalkForward("4D", "365D").split(daily(6))
    with pytest.raises(SplitError, match=r"there are 6 forecast times.*freq='YS'"):
        WalkForward(1, 1, freq="YS").split(daily(6))
    with pytest.raises(SplitError, match="0 forecast times"):
        WalkForward(5, 3).split(daily(6).clear())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_size": 0, "test_size": 1}, "train_size=0"),
        ({"train_size": 3, "test_size": -1}, "test_size=-1"),
        ({"train_size": 3.5, "test_size": 1}, "train_size=3.5"),
        ({"train_size": True, "test_size": 1}, "train_size=True"),
        ({"train_size": "soon", "test_size": 1}, "train_size='soon'"),
        ({"train_size": "-5D", "test_size": 1}, "train_size='-5D'"),
        ({"train_size": 3, "test_size": "0D"}, "test_size='0D'"),
        ({"train_size": 3, "test_size": 1, "val_size": 3}, "val_size=3"),
        ({"train_size": 3, "test_size": 1, "purged_size": "rows"}, "purged_size='rows'"),
        ({"train_size": 3, "test_size": 1, "purged_size": -1}, "purged_size=-1"),
        ({"train_size": 3, "test_size": 1, "purged_size": "3D"}, "purged_size='3D'"),
        ({"train_size": 3, "test_size": 1, "embargo_size": "-1D"}, "embargo_size='-1D'"),
        ({"train_size": 3, "test_size": "30D", "freq": "MS"}, "test_size='30D'"),
        ({"train_size": 3, "test_size": 1, "freq": "fortnight"}, "freq='fortnight'"),
    ],
)
def test_bad_sizes_are_refused_where_they_are_written(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SplitError, match=message):
        WalkForward(**arguments)


def test_an_empty_validation_window_is_an_error() -> None:
    with pytest.raises(SplitError, match="no forecast time in its validation window"):
        WalkForward("4D", 2, val_size="1h").split(frame(*gapped()))
    with pytest.raises(SplitError, match="no validation row left after purging 1 rows"):
        WalkForward(4, 2, val_size=1).split(daily(8, delay_days=1.5))
    with pytest.raises(SplitError, match="no train row left"):
        WalkForward("4D", 2, val_size="4D").split(daily(8))


def gapped() -> tuple[list[int], list[int]]:
    forecast = [START + i * DAY for i in range(8)]
    return forecast, [t + DAY // 2 for t in forecast]


def test_other_frames_and_column_types_are_refused() -> None:
    with pytest.raises(SplitError, match="not a polars DataFrame"):
        WalkForward(3, 2).split(pd.DataFrame())  # type: ignore[arg-type]
    coarse = daily(8).with_columns(pl.col("label_available_at").cast(pl.Datetime("us", "UTC")))
    with pytest.raises(SplitError, match="label_available_at"):
        WalkForward(3, 2).split(coarse)
