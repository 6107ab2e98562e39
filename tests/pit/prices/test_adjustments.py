from __future__ import annotations

import math
from datetime import date, datetime
from itertools import pairwise, product
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import LeakageError, PriceDataError, TimestampError, UsageError
from quantattn.pit import PriceHistory, TradingCalendar
from quantattn.pit.prices import CorporateActions
from tests.pit.build import instant, price_history, price_table, sessions
from tests.pit.intraday import bar_table, grid, intraday, utc

# XNYS: Mon 25, Tue 26, Wed 27 November, Fri 29 (half day), Mon 2 and Tue 3 December 2019.
CLOSES = [100.0, 104.0, 53.0, 50.0, 51.0, 26.0]
LATE = "2020-06-01T00:00"


def table(rows: list[tuple[str, str, date, float, datetime | None]]) -> pl.DataFrame:
    schema = {
        "entity": pl.String,
        "kind": pl.String,
        "ex_date": pl.Date,
        "value": pl.Float64,
        "known": pl.Datetime("us", "UTC"),
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def actions(*rows: tuple[str, date, float, datetime], entity: str = "A") -> CorporateActions:
    return CorporateActions.from_frame(table([(entity, *row) for row in rows]), available_at="known")


def prices(**options: Any) -> PriceHistory:
    return price_history({"A": CLOSES}, start="2019-11-25", **options)


SPLIT = ("split", date(2019, 11, 27), 2.0, utc("2019-11-20T12:00"))
DIVIDEND = ("dividend", date(2019, 12, 2), 1.0, utc("2019-11-20T12:00"))


def closes(history: PriceHistory) -> list[float]:
    return history.frame["close"].to_list()


def test_a_split_and_a_dividend_by_hand() -> None:
    made = prices().adjusted(actions(SPLIT, DIVIDEND), as_of=instant(LATE))
    # The last close before the dividend is 50, so earlier prices shrink by 1 - 1/50.
    assert closes(made) == pytest.approx([49.0, 50.96, 51.94, 49.0, 51.0, 26.0])
    assert (made.adjustment, prices().adjustment) == ("as_of", "none")
    assert made.levels().equals(made.frame)


def test_levels_are_those_on_the_screen_at_the_time() -> None:
    both = actions(SPLIT, DIVIDEND)
    bars = price_table({"A": CLOSES}, "2019-11-25").with_columns(o=pl.col("close"), v=pl.lit(100.0))
    history = PriceHistory.from_frame(bars, open="o", volume="v", latency="0s")

    def seen(stamp: str) -> tuple[list[float], list[float]]:
        made = history.adjusted(both, as_of=instant(stamp))
        assert made.frame["open"].equals(made.frame["close"].rename("open"))
        return closes(made), made.frame["volume"].to_list()

    # The exchange opens at 14:30 UTC; equality has not begun.
    assert seen("2019-11-27T14:30:00") == ([100.0, 104.0], [100.0, 100.0])
    assert seen("2019-11-27T14:30:00.000000001") == ([50.0, 52.0], [200.0, 200.0])
    assert seen("2019-11-27T21:00:00.000000001") == ([50.0, 52.0, 53.0], [200.0, 200.0, 100.0])
    assert seen("2019-12-02T14:30:00") == ([50.0, 52.0, 53.0, 50.0], [200.0, 200.0, 100.0, 100.0])
    after, _ = seen("2019-12-02T14:30:00.000000001")
    assert after == pytest.approx([49.0, 50.96, 51.94, 49.0])


EX = "2019-11-27T14:30:00"


@pytest.mark.parametrize(
    ("known", "as_of"),
    list(
        product(
            [f"2019-11-27T14:{text}" for text in ("29:59.999999999", "30:00", "30:00.000000001")],
            [
                f"2019-11-27T14:{text}"
                for text in ("29:59.999999999", "30:00", "30:00.000000001", "30:00.000000002")
            ],
        )
    ),
)
def test_every_order_of_opening_announcement_and_forecast(known: str, as_of: str) -> None:
    frame = table([("A", *SPLIT)]).with_columns(
        known=pl.Series([instant(known)]).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    )
    made = prices().adjusted(CorporateActions.from_frame(frame, available_at="known"), as_of=instant(as_of))
    counts = instant(EX) < instant(as_of) and instant(known) < instant(as_of)
    assert closes(made) == ([50.0, 52.0] if counts else [100.0, 104.0])


def test_an_action_known_late_is_not_applied_before() -> None:
    late = actions(("split", date(2019, 11, 27), 2.0, utc("2019-12-02T12:00")))
    assert closes(prices().adjusted(late, as_of=instant("2019-12-02T12:00"))) == CLOSES[:4]
    assert closes(prices().adjusted(late, as_of=instant("2019-12-02T12:00:00.000000001"))) == [
        50.0,
        52.0,
        53.0,
        50.0,
    ]


def test_from_when_on_actions_are_known() -> None:
    rows = table([("A", *SPLIT)])

    def known(frame: pl.DataFrame, **options: Any) -> list[int]:
        return CorporateActions.from_frame(frame, **options).frame["available_at"].to_physical().to_list()

    assert known(rows) == [instant(EX)]
    assert known(rows, announced_at="known", latency="1h") == [instant("2019-11-20T13:00")]
    dated = rows.with_columns(known=pl.lit(date(2019, 11, 27)))
    # A date alone is known at the next open: the 28th is a holiday.
    assert known(dated, announced_at="known") == [instant("2019-11-29T14:30")]
    # An ex-date on a holiday is that of the next session.
    moved = rows.with_columns(ex_date=pl.lit(date(2019, 11, 28)))
    assert known(moved) == [instant("2019-11-29T14:30")]
    assert closes(prices().adjusted(CorporateActions.from_frame(moved), as_of=instant(LATE))) == [
        50.0,
        52.0,
        26.5,
        50.0,
        51.0,
        26.0,
    ]
    # The futures session of Monday the 2nd opens on Sunday evening.
    futures = rows.with_columns(ex_date=pl.lit(date(2019, 12, 2)))
    assert known(futures, calendar="CMES") == [instant("2019-12-01T23:00")]


def test_actions_outside_the_bars_change_nothing() -> None:
    before = ("split", date(2019, 11, 25), 3.0, utc("2019-11-01T00:00"))
    after = ("dividend", date(2020, 1, 2), 3.0, utc("2019-11-01T00:00"))
    assert closes(prices().adjusted(actions(before), as_of=instant(LATE))) == CLOSES
    assert closes(prices().adjusted(actions(after), as_of=instant("2020-01-02T14:30"))) == CLOSES
    shifted = prices().adjusted(actions(after), as_of=instant("2020-01-02T14:30:00.000000001"))
    assert closes(shifted) == pytest.approx([close * (1 - 3 / 26) for close in CLOSES])
    assert closes(prices().adjusted(actions(SPLIT, entity="OTHER"), as_of=instant(LATE))) == CLOSES
    nothing = CorporateActions.from_frame(table([]))
    assert closes(prices().adjusted(nothing, as_of=instant(LATE))) == CLOSES
    assert prices().adjusted(actions(SPLIT), as_of=0).frame.is_empty()


def test_dividends_of_one_date_add_up() -> None:
    special = ("dividend", date(2019, 12, 2), 4.0, utc("2019-11-20T12:00"))
    made = prices().adjusted(actions(DIVIDEND, special), as_of=instant(LATE))
    assert closes(made)[3] == pytest.approx(45.0)
    both = prices().adjusted(
        actions(DIVIDEND, ("split", date(2019, 12, 2), 2.0, SPLIT[3])), as_of=instant(LATE)
    )
    assert closes(both)[3] == pytest.approx((50.0 - 1.0) / 2.0)


def test_intraday_bars_are_adjusted_from_the_ex_date_on() -> None:
    days = (date(2019, 11, 26), date(2019, 11, 27))
    rows = [("A", start, 100.0 if start.day == 26 else 50.0) for start, _ in grid("XNYS", *days, 30)]
    made = intraday(bar_table(rows), 30).adjusted(actions(SPLIT), as_of=instant(LATE))
    assert set(closes(made)) == {50.0}


def test_vendor_adjusted_levels_are_refused_and_not_adjusted_again() -> None:
    vendor = prices(adjusted=True)
    assert vendor.adjustment == "vendor"
    assert vendor.cut(instant(LATE)).adjustment == "vendor"
    with pytest.raises(LeakageError, match=r"levels of prices that the vendor adjusted.*adjusted\(actions"):
        vendor.levels()
    assert prices().levels().equals(prices().frame)
    with pytest.raises(PriceDataError, match=r"adjusted already \(vendor\)"):
        vendor.adjusted(actions(SPLIT), as_of=instant(LATE))
    again = prices().adjusted(actions(SPLIT), as_of=instant(LATE))
    with pytest.raises(PriceDataError, match=r"adjusted already \(as_of\)"):
        again.adjusted(actions(SPLIT), as_of=instant(LATE))


values = st.tuples(
    st.sampled_from(["split", "dividend"]), st.integers(0, 9), st.sampled_from([0.5, 1.5, 2.0])
)


@settings(max_examples=60, deadline=None)
@given(
    walk=st.lists(st.sampled_from([8.0, 9.0, 10.0, 11.0]), min_size=3, max_size=10),
    drawn=st.lists(values, max_size=4, unique_by=lambda row: (row[0], row[1])),
    at=st.tuples(st.integers(0, 9), st.sampled_from([-1, 0, 1])),
)
def test_adjusted_prices_equal_a_loop_and_their_returns_do_not_depend_on_the_time(
    walk: list[float], drawn: list[tuple[str, int, float]], at: tuple[int, int]
) -> None:
    days = sessions("2019-11-25", 10)
    known = utc("2019-11-01T00:00")
    made = CorporateActions.from_frame(
        table([("A", kind, days[n], value, known) for kind, n, value in drawn]), available_at="known"
    )
    history = price_history({"A": walk}, start="2019-11-25", latency="0s")
    opens = TradingCalendar("XNYS").sessions(days[0], days[-1])["open"].to_physical().to_list()
    t = opens[at[0]] + at[1]
    expected = [
        close for close, end in zip(walk, history.frame["event_time"].to_physical(), strict=True) if end < t
    ]
    seen = list(expected)
    for ex in range(1, 10):
        if opens[ex] < t and seen:
            before = seen[min(ex, len(seen)) - 1]
            paid = sum(value for kind, n, value in drawn if kind == "dividend" and n == ex)
            split = math.prod(value for kind, n, value in drawn if kind == "split" and n == ex)
            expected = [c * (1 - paid / before) / split if n < ex else c for n, c in enumerate(expected)]
    found = closes(history.adjusted(made, as_of=t))
    assert found == pytest.approx(expected, rel=1e-12)
    full = closes(history.adjusted(made, as_of=instant(LATE)))
    changes, later = ([b / a for a, b in pairwise(side)] for side in (found, full[: len(found)]))
    assert changes == pytest.approx(later, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (
            {"kind": pl.lit("merger")},
            {},
            PriceDataError,
            r"'kind' names actions.*'merger'.*'split' or 'dividend'",
        ),
        ({"kind": pl.lit(None, pl.String)}, {}, PriceDataError, "'kind' names actions"),
        ({"value": pl.lit(0.0)}, {}, PriceDataError, "'value' has prices that are not positive"),
        ({"value": pl.lit(None, pl.Float64)}, {}, PriceDataError, "'value' has no price"),
        ({"ex_date": pl.lit(None, pl.Date)}, {}, PriceDataError, "'ex_date' has no date"),
        ({"ex_date": pl.lit("27/11/2019")}, {}, PriceDataError, "'ex_date' has text that is not an ISO date"),
        ({"entity": pl.lit(" A")}, {}, PriceDataError, "spaces around"),
        (
            {"known": pl.lit(None, pl.Datetime("us", "UTC"))},
            {"available_at": "known"},
            TimestampError,
            "no time",
        ),
        ({"known": pl.lit(None, pl.Date)}, {"available_at": "known"}, PriceDataError, "'known' has no date"),
        ({"known": pl.lit(datetime(2019, 1, 1, 9))}, {"announced_at": "known"}, TimestampError, "naive"),
        ({}, {"announced_at": "known", "available_at": "known"}, UsageError, "not both"),
        ({}, {"latency": "1h"}, UsageError, "added to announced_at="),
        ({}, {"ex_date": "exdate"}, PriceDataError, "ex_date='exdate' is not a column.*'ex_date'"),
    ],
)
def test_bad_actions(
    change: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        CorporateActions.from_frame(table([("A", *SPLIT)]).with_columns(**change), **options)


def test_actions_that_cannot_be() -> None:
    with pytest.raises(PriceDataError, match="given more than once"):
        actions(DIVIDEND, DIVIDEND)
    with pytest.raises(PriceDataError, match="more than one split"):
        actions(SPLIT, ("split", SPLIT[1], 3.0, SPLIT[3]))
    ruin = actions(("dividend", date(2019, 12, 2), 50.0, SPLIT[3]))
    with pytest.raises(
        PriceDataError, match="'A' pays 50 with ex-date 2019-12-02, when its last close was 50"
    ):
        prices().adjusted(ruin, as_of=instant(LATE))
    assert repr(actions(SPLIT, DIVIDEND)) == "CorporateActions({'dividend': 1, 'split': 1}, 1 entities)"


def test_other_things_than_actions() -> None:
    with pytest.raises(
        PriceDataError, match=r"actions is a DataFrame; build it with CorporateActions\.from_frame"
    ):
        prices().adjusted(pl.DataFrame(), as_of=0)  # type: ignore[arg-type]


def test_pandas_and_any_row_order() -> None:
    rows = table([("A", *DIVIDEND), ("A", *SPLIT)])
    midnights = rows.to_pandas().assign(ex_date=lambda table: pd.to_datetime(table["ex_date"]))
    for frame in (rows.reverse(), rows.to_arrow(), rows.lazy(), midnights):
        assert_frame_equal(
            CorporateActions.from_frame(frame, available_at="known").frame,  # type: ignore[arg-type]
            actions(SPLIT, DIVIDEND).frame,
        )


def test_dates_of_actions_come_as_text_and_as_midnights() -> None:
    # A date alone is known at the open of the next session: Monday, 2019-11-25, 14:30 UTC.
    base = table([("A", *SPLIT)])
    for known in (pl.lit("2019-11-22"), pl.lit(date(2019, 11, 22)), pl.lit(datetime(2019, 11, 22))):
        frame = base.with_columns(known=known, ex_date=pl.col("ex_date").cast(pl.String))
        made = CorporateActions.from_frame(frame, available_at="known")
        assert made.frame["available_at"].to_physical().to_list() == [instant("2019-11-25T14:30")]
        assert made.frame["ex_date"].to_list() == [SPLIT[1]]
    # A midnight among wall times is still a date.
    two = table([("A", *SPLIT), ("B", *SPLIT)]).with_columns(
        known=pl.Series([datetime(2019, 11, 22), datetime(2019, 11, 22, 9)])
    )
    mixed = CorporateActions.from_frame(two, available_at="known", time_zone="America/New_York")
    assert mixed.frame["available_at"].to_physical().to_list() == [
        instant("2019-11-25T14:30"),
        instant("2019-11-22T14:00"),
    ]
    zoned = base.with_columns(known=pl.lit("2019-11-22T09:00-05:00"))
    made = CorporateActions.from_frame(zoned, available_at="known")
    assert made.frame["available_at"].to_physical().to_list() == [instant("2019-11-22T14:00")]


@pytest.mark.parametrize("days", [2**30, -(2**30), 2932896, -719162])
def test_dates_beyond_nanoseconds_are_refused(days: int) -> None:
    far = pl.Series([days], dtype=pl.Int32).cast(pl.Date)
    bars = pl.DataFrame({"entity": ["A"], "session": far, "close": [1.0]})
    with pytest.raises(PriceDataError, match=f"'session' has dates outside the years 1678.*session={days}"):
        PriceHistory.from_frame(bars)
    rows = table([("A", *SPLIT)])
    for change, options in (({"ex_date": far}, {}), ({"known": far}, {"available_at": "known"})):
        with pytest.raises(PriceDataError, match=f"outside the years 1678 to 2261.*{days}"):
            CorporateActions.from_frame(rows.with_columns(**change), **options)


def test_actions_of_strangers_are_told_of() -> None:
    with pytest.raises(PriceDataError, match=r"actions name an entity 'a', and the prices have 'A'"):
        prices().adjusted(actions(SPLIT, entity="a"), as_of=instant(LATE))
    with pytest.warns(UserWarning, match=r"actions name 1 of 1 entities without prices.*'OTHER'; check"):
        prices().adjusted(actions(SPLIT, entity="OTHER"), as_of=instant(LATE))
