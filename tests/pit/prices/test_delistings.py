from __future__ import annotations

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

from quantattn.errors import PriceDataError, TimestampError, UsageError
from quantattn.pit.prices import Delistings
from tests.pit.build import instant
from tests.pit.intraday import utc

ROW = pl.DataFrame(
    {
        "entity": ["A"],
        "session": [date(2019, 11, 29)],
        "at": [utc("2019-11-29T17:00")],
        "return": [-0.3],
        "available_at": [utc("2019-12-20T12:00")],
    }
)


def test_a_last_session_ends_at_its_close() -> None:
    made = Delistings.from_frame(ROW, last_session="session")
    assert made.frame.select(
        pl.col("session"), pl.col("delisted_at", "available_at").to_physical()
    ).rows() == [(date(2019, 11, 29), instant("2019-11-29T18:00"), instant("2019-12-20T12:00"))]
    assert made.of("B") is None
    assert repr(made) == "Delistings(1, 0 without a return)"


@pytest.mark.parametrize(
    ("stamp", "session"),
    [
        ("2019-11-29T14:30:00", date(2019, 11, 27)),  # before anything could be traded
        ("2019-11-29T14:30:00.000001", date(2019, 11, 29)),
        ("2019-11-30T12:00:00", date(2019, 11, 29)),
        ("2019-12-02T14:00:00", date(2019, 11, 29)),
    ],
)
def test_the_last_session_before_an_instant(stamp: str, session: date) -> None:
    made = Delistings.from_frame(ROW.with_columns(at=pl.lit(utc(stamp))), delisted_at="at")
    assert made.frame["session"].to_list() == [session]
    assert made.frame["delisted_at"].to_physical().to_list() == [instant(stamp)]


def test_a_date_is_known_at_the_next_open() -> None:
    dated = ROW.with_columns(available_at=pl.lit(date(2019, 12, 6)))
    made = Delistings.from_frame(dated, last_session="session")
    assert made.frame["available_at"].to_physical().to_list() == [instant("2019-12-09T14:30")]


def test_returns_may_be_unknown() -> None:
    unknown = ROW.with_columns(pl.lit(None).alias("return"), pl.lit(None).alias("available_at"))
    made = Delistings.from_frame(unknown, last_session="session")
    assert made.frame.select("value", "available_at").rows() == [(None, None)]
    assert Delistings.from_frame(ROW.clear(), last_session="session").frame.is_empty()


@pytest.mark.parametrize(
    ("frame", "options", "error", "words"),
    [
        (ROW, {}, UsageError, "exactly one of last_session="),
        (ROW, {"last_session": "session", "delisted_at": "at"}, UsageError, "exactly one"),
        (ROW, {"delisted_at": "session"}, PriceDataError, "holds dates, which may be the last session or"),
        (ROW, {"last_session": "at"}, PriceDataError, "'at' holds times of day"),
        (ROW.with_columns(session=pl.lit(date(2019, 11, 28))), {}, PriceDataError, "XNYS has no session"),
        (ROW.with_columns(pl.lit(-1.5).alias("return")), {}, PriceDataError, "below -1"),
        (ROW.with_columns(pl.lit(float("nan")).alias("return")), {}, PriceDataError, "not finite"),
        (ROW.with_columns(pl.lit("x").alias("return")), {}, PriceDataError, "has type String"),
        (ROW.with_columns(available_at=pl.lit(None, pl.Date)), {}, PriceDataError, "does not say when"),
        (ROW.with_columns(available_at=pl.lit(utc("2019-11-29T17:59"))), {}, PriceDataError, "known before"),
        (ROW.with_columns(available_at=pl.lit(datetime(2020, 1, 1, 9))), {}, TimestampError, "naive"),
        (pl.concat([ROW, ROW]), {}, PriceDataError, "more than once"),
        (ROW.drop("return"), {}, PriceDataError, "value='return' is not a column"),
    ],
)
def test_bad_delistings(
    frame: pl.DataFrame, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    if not options and "exactly" not in words:
        options = {"last_session": "session"}
    with pytest.raises(error, match=words):
        Delistings.from_frame(frame, **options)


def test_text_and_far_dates() -> None:
    text = ROW.with_columns(session=pl.lit("2019-11-29"), available_at=pl.lit("2019-12-06"))
    made = Delistings.from_frame(text, last_session="session")
    assert made.frame["available_at"].to_physical().to_list() == [instant("2019-12-09T14:30")]
    stamped = ROW.with_columns(at=pl.lit("2019-11-29T12:00-05:00"))
    made = Delistings.from_frame(stamped, delisted_at="at")
    assert made.frame["delisted_at"].to_physical().to_list() == [instant("2019-11-29T17:00")]
    with pytest.raises(PriceDataError, match="holds dates, which may be"):
        Delistings.from_frame(ROW.with_columns(at=pl.lit("2019-11-29")), delisted_at="at")
    far = pl.Series([2**30], dtype=pl.Int32).cast(pl.Date)
    for change in ({"session": far}, {"available_at": far}):
        with pytest.raises(PriceDataError, match="outside the years 1678 to 2261"):
            Delistings.from_frame(ROW.with_columns(**change), last_session="session")
