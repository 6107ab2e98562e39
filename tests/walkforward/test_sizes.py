"""Every spelling of a size: what it means, and which ones are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio.model_selection import WalkForward as PeerWalkForward

from quantattn.errors import SplitError
from quantattn.walkforward import WalkForward
from tests.walkforward.test_splits import DAY, daily, frame, sides


def monthly(n: int) -> Any:
    """One forecast at noon on the first of each month from January 2020 on, known a day later."""
    stamps = [datetime(2020 + i // 12, 1 + i % 12, 1, 12, tzinfo=UTC) for i in range(n)]
    forecast = [int(stamp.timestamp()) * 10**9 for stamp in stamps]
    return frame(forecast, [t + DAY for t in forecast])


@pytest.mark.parametrize(
    "half_a_year", ["6M", "2Q", "006M", pd.DateOffset(months=6), pd.tseries.offsets.DateOffset(months=6)]
)
def test_a_calendar_length_is_as_many_months_wherever_it_starts(half_a_year: Any) -> None:
    # Half a year of training and a quarter of test, by months of 28 to 31 days.
    assert sides(WalkForward(half_a_year, "1Q", reduce_test=True).split(monthly(13))) == [
        ([0, 1, 2, 3, 4, 5], [], [6, 7, 8]),
        ([3, 4, 5, 6, 7, 8], [], [9, 10, 11]),
        ([6, 7, 8, 9, 10, 11], [], [12]),
    ]


def test_a_year_is_a_year_and_an_offset_goes_to_its_date() -> None:
    samples = monthly(30)
    (year,) = WalkForward("Y", "1Y", val_size="1Q", reduce_test=False).split(samples)
    assert sides([year]) == [([*range(9)], [9, 10, 11], [*range(12, 24)])]
    # One "QS" before 1 January is 1 October, before 1 February it is 1 January: the date, not the length.
    shifted = samples.slice(1)
    first = WalkForward("QS", 1).split(shifted)[0]
    assert first.spans()["train_start"] == "2020-02-01T12:00:00Z"
    assert first.spans()["test_start"] == "2020-04-01T12:00:00Z"


def test_a_day_at_noon_is_a_day_in_every_spelling() -> None:
    samples = daily(12, delay_days=1.5)
    expected = sides(WalkForward("5D", "3D", embargo_size="1D").split(samples))
    assert len(expected) == 2
    for train, test, embargo in (
        (np_days(5), np_days(3), np_days(1)),
        (timedelta(5), timedelta(3), timedelta(1)),
        (pd.Timedelta("5D"), pd.Timedelta("3D"), pd.Timedelta("1D")),
        (pd.offsets.Day(5), pd.offsets.Hour(72), pd.offsets.Minute(1440)),
        (" 5D ", "72h", "1 day"),
        ("P5D", "PT72H", "P1D"),
    ):
        assert sides(WalkForward(train, test, embargo_size=embargo).split(samples)) == expected


def np_days(n: int) -> np.timedelta64:
    return np.timedelta64(n, "D")


def test_a_numpy_count_is_a_count() -> None:
    samples = daily(12)
    counted = WalkForward(np.int64(5), np.int32(3), purged_size=np.int64(1), embargo_size=np.int64(1))  # type: ignore[arg-type]
    expected = WalkForward(5, 3, purged_size=1, embargo_size=1)
    assert sides(counted.split(samples)) == sides(expected.split(samples))


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("P3M", r"counts months or years in ISO 8601 notation.*'6M'"),
        ("P1Y2M", "ISO 8601"),
        ("52", "is not a size"),
        ("5y", "is not a size"),
        ("-6M", "is not a size"),
        ("", "is not a size"),
        ("0M", "does not go forward"),
        (np.timedelta64(5, "M"), "is not a size"),
        (np.timedelta64(5), "it has no unit"),
        (np.timedelta64("NaT"), "is not a size"),
        (pd.NaT, "is not a size"),
        (float("nan"), "is not a size"),
        (pd.Period("2024-01", "M"), "is one period of the calendar, not a length"),
        (pd.DateOffset(month=1), "sets a part of the date"),
        (pd.DateOffset(months=1, day=31), "sets a part of the date"),
        (pd.DateOffset(months=-1), "does not go forward"),
        (date(2024, 1, 1), "is not a size"),
        ([5], "is not a size"),
        (b"5D", "is not a size"),
    ],
)
@pytest.mark.parametrize("argument", ["train_size", "test_size", "val_size", "embargo_size"])
def test_what_is_no_size_is_refused(argument: str, size: Any, message: str) -> None:
    if argument == "embargo_size" and isinstance(size, str) and size == "0M":
        return  # nothing is a good embargo
    arguments = {"train_size": 9, "test_size": 1, argument: size}
    with pytest.raises(SplitError, match=f"^{argument}=.*{message}"):
        WalkForward(**arguments)


@pytest.mark.parametrize("purged", [np.timedelta64(5, "D"), "5D", 1.0, True, None, timedelta(1)])
def test_a_purge_is_a_count_and_never_a_duration(purged: Any) -> None:
    with pytest.raises(SplitError, match=r"^purged_size="):
        WalkForward(3, 1, purged_size=purged)


@pytest.mark.parametrize(
    ("freq", "message"),
    [
        ("M", "write 'MS' for the first day or 'ME' for the last one"),
        ("2Q", "write '2QS' for the first day or '2QE'"),
        ("A", "is not a calendar frequency"),
        ("", "is not a calendar frequency"),
        (5, "is not a calendar frequency"),
        (timedelta(5), "is not a calendar frequency"),
        (pd.Period("2024-01", "M"), "is not a calendar frequency"),
        (pd.DateOffset(months=-1), "is not a calendar frequency"),
        (pd.offsets.MonthEnd(0), "is not a calendar frequency"),
        (pd.DateOffset(day=1), "sets a part of the date"),
    ],
)
def test_what_is_no_calendar_is_refused(freq: Any, message: str) -> None:
    with pytest.raises(SplitError, match=f"^freq=.*{message}"):
        WalkForward(3, 1, freq=freq)


def test_a_calendar_finer_than_any_history_needs_is_refused_and_not_laid_out() -> None:
    with pytest.raises(SplitError, match="more than 1,000,000 periods"):
        WalkForward(3, 1, freq="1ns").split(daily(10))


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("train", [pd.DateOffset(months=2), pd.offsets.Week(6), timedelta(days=45)])
def test_a_length_of_training_before_calendar_blocks_equals_skfolio(
    train: Any, expand: bool, reduce: bool
) -> None:
    # A forecast on every day: where a training window would begin between two forecasts, the peer takes the
    # earlier one, which is longer ago than asked.
    dates = pd.date_range("2019-01-07", "2020-12-29", freq="D")
    peer = PeerWalkForward(test_size=2, train_size=train, freq="QS", reduce_test=reduce, expand_train=expand)
    expected = [(a.tolist(), b.tolist()) for a, b in peer.split(pd.DataFrame({"x": 0.0}, index=dates))]
    forecast = [int(d.as_unit("ns").value) for d in dates]
    ours = WalkForward(train, 2, freq="QS", reduce_test=reduce, expand_train=expand)
    folds = ours.split(frame(forecast, [t + DAY // 2 for t in forecast]))
    assert len(expected) >= 3
    assert [(f.train.tolist(), f.test.tolist()) for f in folds] == expected
