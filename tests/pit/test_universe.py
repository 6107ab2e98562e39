from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit import Universe

from .build import at, instant, times

SPELLS = pl.DataFrame(
    {
        "entity": ["B", "A", "A"],
        "start": [date(2020, 1, 1), date(2020, 3, 2), date(2020, 1, 1)],
        "end": [None, date(2020, 4, 1), date(2020, 2, 3)],
    }
)


def test_dates_begin_at_midnight_in_the_exchanges_zone() -> None:
    universe = Universe.from_frame(SPELLS)
    assert universe.entities == ("A", "B")
    for stamp, expected in (
        ("2020-01-01T04:59:59.999999999", False),
        ("2020-01-01T05:00", True),
        ("2020-02-03T04:59:59.999999999", True),
        ("2020-02-03T05:00", False),
        ("2020-03-02T05:00", True),
        ("2020-04-01T03:59:59", True),
        ("2020-04-01T04:00", False),
    ):
        assert universe.is_member("A", instant(stamp)) is expected, stamp
    assert universe.is_member("B", instant("2100-01-01T00:00"))
    assert not universe.is_member("C", instant("2020-01-15T00:00"))
    london = Universe.from_frame(SPELLS, time_zone="Europe/London")
    assert london.is_member("A", instant("2020-01-01T00:00"))


def test_timestamps_and_open_ends() -> None:
    spells = pd.DataFrame({"name": ["A"], "from": [pd.Timestamp(at(5), tz="Asia/Tokyo")]})
    universe = Universe.from_frame(spells, entity="name", start="from", end=None)
    assert [universe.is_member("A", at(second)) for second in (4, 5, 10**9)] == [False, True, True]
    naive = SPELLS.with_columns(pl.col("start").cast(pl.Datetime("us")))
    assert Universe.from_frame(naive, time_zone="America/New_York").frame.equals(
        Universe.from_frame(SPELLS).frame
    )


spells = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 12), st.integers(1, 4)), max_size=6)


@given(
    drawn=spells,
    asked=st.lists(st.tuples(st.sampled_from("ABC"), st.integers(-1, 18)), min_size=1, max_size=20),
)
def test_members_equal_a_loop_over_the_spells(
    drawn: list[tuple[str, int, int]], asked: list[tuple[str, int]]
) -> None:
    kept: list[tuple[str, int, int | None]] = []
    for entity, start, length in drawn:
        if all(
            e != entity or start >= s + n or start + length <= s
            for e, s, n in ((e, s, n - s) for e, s, n in kept if n is not None)
        ):
            kept.append((entity, start, start + length))
    table = pl.DataFrame(
        {
            "entity": pl.Series([e for e, _, _ in kept], dtype=pl.String),
            "start": times(s for _, s, _ in kept),
            "end": times(n for _, _, n in kept if n is not None),
        }
    )
    universe = Universe.from_frame(table)
    found = universe.members(pl.Series([e for e, _ in asked]), times(t for _, t in asked)).to_list()
    expected = [any(e == entity and s <= t < n for e, s, n in kept if n is not None) for entity, t in asked]
    assert found == expected


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (SPELLS.with_columns(end=pl.lit(date(2020, 1, 1))), EventDataError, "do not end after they start"),
        (SPELLS.with_columns(end=pl.lit(None, dtype=pl.Date)), EventDataError, "overlap"),
        (SPELLS.with_columns(entity=pl.lit(None, dtype=pl.String)), EventDataError, "names no entity"),
        (SPELLS.with_columns(start=pl.lit(None, dtype=pl.Date)), EventDataError, "'start' is null"),
        (SPELLS.rename({"end": "until"}), EventDataError, "end='end' is not a column"),
        (SPELLS.with_columns(start=pl.lit(datetime(2020, 1, 1, 9))), TimestampError, "naive"),
        (SPELLS.with_columns(start=pl.lit("2020")), TimestampError, "text that is not an ISO date"),
        (
            pl.DataFrame(
                {
                    "entity": ["A", "A"],
                    "start": [date(2020, 1, 1), date(2020, 1, 5)],
                    "end": [date(2020, 1, 6), None],
                }
            ),
            EventDataError,
            "overlap.*entity='A'",
        ),
    ],
)
def test_bad_spells_are_refused(table: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Universe.from_frame(table)


def test_spells_may_touch() -> None:
    table = pl.DataFrame({"entity": ["A", "A"], "start": times([1, 3]), "end": times([3, 5])})
    universe = Universe.from_frame(table)
    assert [universe.is_member("A", at(second)) for second in range(7)] == [
        False,
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert universe.is_member("A", datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC))


def test_a_universe_says_how_large_it_is() -> None:
    assert repr(Universe.from_frame(SPELLS)) == "Universe(2 entities, 3 spells, 1 of them open)"


def test_text_and_the_year_9999() -> None:
    text = SPELLS.with_columns(pl.col("start", "end").cast(pl.String))
    assert Universe.from_frame(text).frame.equals(Universe.from_frame(SPELLS).frame)
    midnights = SPELLS.with_columns(pl.col("start", "end").cast(pl.Datetime("us")))
    assert Universe.from_frame(midnights).frame.equals(Universe.from_frame(SPELLS).frame)
    for never in ("9999-12-31", "2262-04-11"):
        for kind in (pl.String, pl.Date, pl.Datetime("us")):
            column = pl.Series([never, "2020-04-01", "2020-02-03"]).str.to_date().cast(kind)
            frame = Universe.from_frame(SPELLS.with_columns(end=column)).frame
            assert frame.equals(Universe.from_frame(SPELLS).frame)
    far = pl.Series([2**30], dtype=pl.Int32).cast(pl.Date)
    with pytest.raises(TimestampError, match="'start' has dates outside the years 1678 to 2261"):
        Universe.from_frame(pl.DataFrame({"entity": ["A"], "start": far}), end=None)


def test_members_without_prices_are_counted() -> None:
    starts = [date(2000, 1, 1)] * 4
    frame = pl.DataFrame({"entity": ["A", "B", "LEHMAN", "ENRON"], "start": starts})
    universe = Universe.from_frame(frame, end=None)
    found = universe.coverage(["A", "B", "C"])
    assert (found.n_members, found.without_prices, found.never_members) == (4, ("ENRON", "LEHMAN"), ("C",))
    assert str(found) == "2 of 4 members never have prices: ENRON, LEHMAN"
    assert str(universe.coverage(universe.entities)) == ""
    with pytest.raises(EventDataError, match="a member 'LEHMAN', and the prices have 'Lehman'"):
        universe.coverage(["A", "Lehman"])
    for entity in (None, ["A"], 5):
        with pytest.raises(UsageError, match="is not a name"):
            universe.is_member(entity, 5)  # type: ignore[arg-type]
