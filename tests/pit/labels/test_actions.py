"""Targets over splits, dividends, delistings and halts, and entries at the open, with session bars."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import LabelError, PriceDataError, TimestampError
from quantattn.pit import (
    ForecastClock,
    Labels,
    PriceHistory,
    TradingCalendar,
    direction,
    log_return,
    realised_variance,
    simple_return,
)
from quantattn.pit.prices import CorporateActions, Delistings
from tests.pit.build import instant, labels, price_history, price_table, sessions
from tests.pit.intraday import halt_table, utc

# XNYS: Mon 25, Tue 26, Wed 27 November, Fri 29 (half day), Mon 2 and Tue 3 December 2019.
HALVED = [100.0, 102.0, 51.0, 52.0, 51.5, 50.5]
DAYS = sessions("2019-11-25", 12)
HOURS = TradingCalendar("XNYS").sessions(DAYS[0], DAYS[-1])


def at(*stamps: str) -> ForecastClock:
    return ForecastClock.explicit([stamp + "Z" for stamp in stamps])


def split(
    ex_date: date = DAYS[2], value: float = 2.0, known: str = "2019-11-20T12:00", kind: str = "split"
) -> Any:
    rows = {"entity": ["A"], "kind": [kind], "ex_date": [ex_date], "value": [value], "known": [utc(known)]}
    return CorporateActions.from_frame(pl.DataFrame(rows), available_at="known")


def prices(closes: dict[str, Any], **options: Any) -> PriceHistory:
    return price_history(closes, start="2019-11-25", **options)


def delisted(
    last: date, value: float | None, known: str = "2019-12-31T12:00", entity: str = "A"
) -> Delistings:
    row = {"entity": [entity], "last": [last], "return": [value], "available_at": [utc(known)]}
    return Delistings.from_frame(pl.DataFrame(row), last_session="last")


WHEN = at("2019-11-26T20:00")


def test_a_split_inside_a_window_is_no_loss() -> None:
    history = prices({"A": HALVED, "B": HALVED})
    raw = simple_return(history, WHEN, horizon=2)
    assert raw.frame["y_true"].to_list() == pytest.approx([52 / 102 - 1] * 2)
    made = simple_return(history, WHEN, horizon=2, actions=split())
    # B has no split: what it lost it lost.
    assert made.frame["y_true"].to_list() == pytest.approx([104 / 102 - 1, 52 / 102 - 1])
    assert log_return(history, WHEN, horizon=2, actions=split()).frame["y_true"][0] == pytest.approx(
        math.log(104 / 102)
    )
    variance = realised_variance(history, WHEN, horizon=2, log=False, actions=split()).frame["y_true"][0]
    assert variance == pytest.approx(math.log(102 / 102) ** 2 + math.log(52 / 51) ** 2)
    assert direction(history, WHEN, horizon=2, actions=split()).frame["y_true"].to_list() == [1.0, -1.0]
    reverse = simple_return(history, WHEN, horizon=2, actions=split(value=0.1)).frame["y_true"][0]
    assert reverse == pytest.approx(5.2 / 102 - 1)


def test_a_dividend_is_reinvested() -> None:
    history = prices({"A": [100.0, 100.0, 98.0, 99.0]})
    made = simple_return(history, WHEN, horizon=2, actions=split(value=2.0, kind="dividend"))
    assert made.frame["y_true"].to_list() == pytest.approx([99 / 98 - 1])


def test_a_label_is_known_no_earlier_than_its_actions() -> None:
    history = prices({"A": HALVED})
    when = at("2019-11-25T20:00", "2019-11-26T20:00", "2019-11-27T20:00")
    plain = simple_return(history, when, horizon=2).frame["label_available_at"].to_list()
    late = simple_return(history, when, horizon=2, actions=split(known="2020-03-01T00:00")).frame
    # The last window begins at the ex-date's own close.
    assert late["label_available_at"].to_list() == [utc("2020-03-01T00:00")] * 2 + plain[2:]
    assert (
        late["label_end_time"].to_list()
        == simple_return(history, when, horizon=2).frame["label_end_time"].to_list()
    )
    with pytest.raises(PriceDataError, match="adjusted already"):
        simple_return(prices({"A": HALVED}, adjusted=True), when, actions=split())


def test_actions_elsewhere_change_no_bit() -> None:
    history = prices({"A": [100.0, 103.0, 101.0, 107.0, 99.0], "B": [3.0, 7.0, 11.0, 13.0, 17.0]})
    when = at("2019-11-25T20:00", "2019-11-26T20:00")
    for ex_date in (DAYS[0], DAYS[8]):
        for measure in (simple_return, log_return, realised_variance):
            with_actions = measure(history, when, horizon=2, actions=split(ex_date))
            assert_frame_equal(with_actions.frame, measure(history, when, horizon=2).frame, check_exact=True)


def test_a_window_that_spans_a_delisting() -> None:
    history = prices({"A": [10.0, 12.0, 9.0], "B": [1.0] * 8})
    when = at(
        "2019-11-25T20:00", "2019-11-26T20:00", "2019-11-27T20:00", "2019-11-27T21:00", "2019-12-02T15:00"
    )

    def of_a(made: Labels) -> tuple[list[float], list[str]]:
        return (
            made.frame.filter(entity="A")["y_true"].to_list(),
            made.dropped.filter(entity="A")["reason"].to_list(),
        )

    assert of_a(simple_return(history, when, horizon=2)) == ([pytest.approx(-0.1)], ["no_price"] * 4)
    gone = delisted(DAYS[2], -0.5)
    made = simple_return(history, when, horizon=2, delistings=gone)
    assert of_a(made) == (pytest.approx([-0.1, 4.5 / 12 - 1, -0.5]), ["delisted"] * 2)
    spanning = made.frame.filter(pl.col("entity") == "A")[1:]
    assert set(spanning["label_end_time"]) == {utc("2019-11-27T21:00")}
    assert set(spanning["label_available_at"]) == {utc("2019-12-31T12:00")}
    assert spanning["label_start_time"].to_list() == [utc("2019-11-26T21:00"), utc("2019-11-27T21:00")]
    logs = log_return(history, when, horizon=2, delistings=gone).frame.filter(entity="A")["y_true"]
    assert logs.to_list() == pytest.approx([math.log(0.9), math.log(4.5 / 12), math.log(0.5)])
    variance = realised_variance(history, when, horizon=2, log=False, delistings=gone).frame.filter(
        entity="A"
    )
    assert variance["y_true"].to_list()[1:] == pytest.approx(
        [math.log(9 / 12) ** 2 + math.log(0.5) ** 2, math.log(0.5) ** 2]
    )
    # Nothing declared about the return: the reason is a better one.
    unknown = simple_return(history, when, horizon=2, delistings=delisted(DAYS[2], None))
    assert of_a(unknown) == ([pytest.approx(-0.1)], ["delisted"] * 4)
    ruin = delisted(DAYS[2], -1.0)
    assert of_a(simple_return(history, when, horizon=2, delistings=ruin))[0][1:] == [-1.0, -1.0]
    assert (
        of_a(log_return(history, when, horizon=2, delistings=ruin))[1]
        == ["total_loss"] * 2 + ["delisted"] * 2
    )
    assert of_a(direction(history, when, horizon=2, delistings=ruin))[0] == [-1.0] * 3


def test_a_label_that_ends_with_a_delisting_waits_for_the_last_bar() -> None:
    for latency, expected in (("60s", "2019-12-03T12:00"), ("10D", "2019-12-07T21:00")):
        history = prices({"A": [10.0, 12.0, 9.0], "B": [1.0] * 8}, latency=latency)
        end = delisted(DAYS[2], -0.5, known="2019-12-03T12:00")
        for horizon in (2, 4):
            made = simple_return(history, WHEN, horizon=horizon, delistings=end)
            assert made.frame.filter(entity="A")["label_available_at"].to_list() == [utc(expected)]


@pytest.mark.parametrize("halted", [False, True])
def test_a_suspended_entity_ends_with_its_delisting_return(halted: bool) -> None:
    # The last bar is of 27 November, the delisting of 3 December; B shows that the data go on.
    halt = halt_table([("A", utc("2019-11-27T21:01"), utc("2019-12-03T21:00"))]) if halted else None
    history = prices({"A": [10.0, 12.0, 9.0], "B": [1.0] * 8}, halts=halt, latency="1D")
    end = delisted(DAYS[5], -0.5, known="2019-12-03T22:00")
    when = at("2019-11-25T20:00", "2019-11-26T20:00", "2019-11-27T20:00", "2019-11-29T20:00")
    made = simple_return(history, when, horizon=2, delistings=end)
    of_a = made.frame.filter(entity="A")
    # From 10, 12 and 9: to 9, and to half of it for those who could not sell before the end.
    assert of_a["y_true"].to_list() == pytest.approx([-0.1, 9 * 0.5 / 12 - 1, -0.5])
    assert of_a["label_end_time"].to_list() == [utc("2019-11-27T21:00"), *[utc("2019-12-03T21:00")] * 2]
    # That no bar followed is known when the bars of 3 December are.
    assert of_a["label_available_at"].to_list()[1:] == [utc("2019-12-04T21:00")] * 2
    assert made.dropped.filter(entity="A")["reason"].to_list() == ["delisted"]


def test_data_that_end_before_a_delisting_do_not_tell_of_a_suspension() -> None:
    end = delisted(DAYS[5], -0.5, known="2019-12-03T22:00")
    closes = {"A": [10.0, 12.0, 9.0]}
    made = simple_return(prices(closes), WHEN, horizon=2, delistings=end)
    assert made.dropped["reason"].to_list() == ["incomplete"]
    for until, kept in ((utc("2019-12-03T21:00"), 1), (utc("2019-12-03T20:59"), 0), (None, 1)):
        stopped = prices(closes, halts=halt_table([("A", utc("2019-11-27T21:01"), until)]))
        assert simple_return(stopped, WHEN, horizon=2, delistings=end).frame.height == kept


def test_actions_outside_a_window_do_not_touch_its_last_bit() -> None:
    closes = [100.0 + math.sin(7.0 * n) for n in range(40)]
    history = prices({"A": closes})
    when = ForecastClock.sessions(start="2019-11-27", end="2020-01-10")
    early = split(DAYS[1], 3.0, known="2020-06-01T12:00")
    for figure in (simple_return, log_return, realised_variance):
        bare = figure(history, when, horizon=3)
        assert bare.frame.height > 25
        assert_frame_equal(
            figure(history, when, horizon=3, actions=early).frame, bare.frame, check_exact=True
        )


def test_a_delisting_needs_the_bars_up_to_it() -> None:
    closes = {"A": [10.0, 12.0, 9.0], "B": [1.0] * 8}
    history = prices(closes)
    with pytest.raises(LabelError, match=r"'A' has bars up to 2019-11-27, after its delisting.*2019-11-26"):
        simple_return(history, WHEN, horizon=4, delistings=delisted(DAYS[1], -0.5))
    # With a gap inside it cannot be measured.
    holed = prices({"A": [10.0, 12.0, None, 9.0], "B": [1.0] * 8}, gaps="drop")
    made = simple_return(holed, WHEN, horizon=4, delistings=delisted(DAYS[3], -0.5))
    assert made.dropped.filter(entity="A")["reason"].to_list() == ["no_price"]
    # It is known even where all data end with it.
    alone = simple_return(prices({"A": closes["A"]}), WHEN, horizon=4, delistings=delisted(DAYS[2], -0.5))
    assert alone.frame["y_true"].to_list() == pytest.approx([4.5 / 12 - 1])


def test_entry_at_the_open() -> None:
    table = price_table({"A": [10.0, 12.0, 9.0, 11.0]}, "2019-11-25").with_columns(
        o=pl.Series([9.5, 11.0, 12.5, 8.0])
    )
    history = PriceHistory.from_frame(table, open="o", latency="0s")
    # 14:30 UTC is the open: at it, it is too late for it.
    for stamp, horizon, entry, expected in (
        ("2019-11-26T14:29:59", 1, "2019-11-26T14:30", 12.0 / 11.0),
        ("2019-11-26T14:29:59", 2, "2019-11-26T14:30", 9.0 / 11.0),
        ("2019-11-26T14:30:00", 1, "2019-11-27T14:30", 9.0 / 12.5),
        ("2019-11-27T22:00:00", 1, "2019-11-29T14:30", 11.0 / 8.0),
    ):
        made = simple_return(history, at(stamp), horizon=horizon, entry="open").frame
        assert made["y_true"].to_list() == pytest.approx([expected - 1])
        assert made["label_start_time"].to_list() == [utc(entry)]
    variance = realised_variance(history, at("2019-11-26T14:00"), horizon=2, entry="open", log=False).frame
    assert variance["y_true"].to_list() == pytest.approx([math.log(12 / 11) ** 2 + math.log(9 / 12) ** 2])
    assert variance["label_end_time"].to_list() == [utc("2019-11-27T21:00")]
    # The split of the 27th lies after the open of the 26th.
    both = simple_return(history, at("2019-11-26T14:00"), horizon=2, entry="open", actions=split(DAYS[2]))
    assert both.frame["y_true"].to_list() == pytest.approx([18.0 / 11.0 - 1])
    # At the open of the ex-date itself, the share has been split.
    own = simple_return(history, at("2019-11-27T14:00"), horizon=1, entry="open", actions=split(DAYS[2]))
    assert own.frame["y_true"].to_list() == pytest.approx([9 / 12.5 - 1])
    assert own.frame["label_available_at"].to_list() == [utc("2019-11-27T21:00")]
    unknown = PriceHistory.from_frame(table.with_columns(o=pl.Series([9.5, None, 12.5, 8.0])), open="o")
    assert simple_return(unknown, at("2019-11-26T14:00"), horizon=1, entry="open").dropped[
        "reason"
    ].to_list() == ["no_price"]
    first = simple_return(history, at("2019-11-22T14:00", "2019-11-22T14:31"), horizon=1, entry="open")
    assert first.dropped["reason"].to_list() == ["no_price"]
    assert first.frame["label_start_time"].to_list() == [utc("2019-11-25T14:30")]
    with pytest.raises(LabelError, match="entry='open' needs the opens"):
        simple_return(prices({"A": HALVED}), WHEN, entry="open")


def test_no_entry_in_a_halt() -> None:
    halt = halt_table([("A", utc("2019-11-26T15:00"), utc("2019-11-27T15:00"))])
    history = prices({"A": HALVED, "B": HALVED}, halts=halt)
    made = simple_return(history, WHEN, horizon=1).frame.sort("entity")
    assert made["label_start_time"].to_list() == [utc("2019-11-27T21:00"), utc("2019-11-26T21:00")]
    assert made["y_true"].to_list() == pytest.approx([52 / 51 - 1, 51 / 102 - 1])
    # Lifted at the very close: that price is from before.
    for end, entry in (("21:00:00", 27), ("20:59:59", 26)):
        halts = halt_table([("A", utc("2019-11-26T15:00"), utc(f"2019-11-26T{end}"))])
        made = simple_return(prices({"A": HALVED}, halts=halts), WHEN, horizon=1).frame
        assert made["label_start_time"].to_list() == [utc(f"2019-11-{entry}T21:00")]
    forever = prices({"A": HALVED}, halts=halt_table([("A", utc("2019-11-26T15:00"), None)]))
    assert simple_return(forever, WHEN, horizon=1).dropped["reason"].to_list() == ["halted"]


def test_a_halted_session_without_a_bar_counts_as_a_session() -> None:
    halt = halt_table([("A", utc("2019-11-27T14:00"), utc("2019-11-27T21:30"))])
    history = prices({"A": [10.0, 11.0, None, 12.0, 13.0]}, halts=halt)
    when = at("2019-11-25T20:00", "2019-11-26T20:00", "2019-11-27T20:00")
    one = simple_return(history, when, horizon=1).frame
    # The second window ends with the halted session: the price stood at 11, as the bar of the 29th shows.
    assert one["y_true"].to_list() == pytest.approx([0.1, 0.0, 13 / 12 - 1])
    assert one["label_end_time"].to_list() == [
        utc("2019-11-26T21:00"),
        utc("2019-11-27T21:00"),
        utc("2019-12-02T21:00"),
    ]
    assert one["label_available_at"].to_list()[1] == utc("2019-11-29T18:01")
    assert one["label_start_time"].to_list()[2] == utc("2019-11-29T18:00")
    two = simple_return(history, when, horizon=2).frame["y_true"].to_list()
    assert two[:2] == pytest.approx([0.1, 12 / 11 - 1])


def test_other_things_than_tables_of_actions() -> None:
    history = prices({"A": HALVED})
    with pytest.raises(LabelError, match=r"actions is a str; build it with CorporateActions\.from_frame"):
        simple_return(history, WHEN, actions="splits")  # type: ignore[arg-type]
    with pytest.raises(LabelError, match=r"delistings is a DataFrame; build it with Delistings\.from_frame"):
        simple_return(history, WHEN, delistings=pl.DataFrame())  # type: ignore[arg-type]
    with pytest.raises(TimestampError, match=r"execution_lag of 100000 days .* out of the range"):
        simple_return(history, WHEN, execution_lag="100000D")


class TestThresholds:
    history = prices({"A": [100.0, 102.0], "B": [100.0, 101.0], "C": [100.0, 99.0], "D": [100.0, 97.0]})
    when = at("2019-11-25T20:00")

    def signs(self, **options: Any) -> list[float]:
        return direction(self.history, self.when, horizon=1, **options).frame["y_true"].to_list()

    def test_bounds_belong_to_the_zone(self) -> None:
        up, down = 102.0 / 100.0 - 1.0, 97.0 / 100.0 - 1.0
        assert self.signs(lower=down, upper=up) == [0.0] * 4
        assert self.signs(lower=math.nextafter(down, 1), upper=math.nextafter(up, -1)) == [
            1.0,
            0.0,
            0.0,
            -1.0,
        ]
        assert self.signs(lower=0.015, upper=0.015) == [1.0, -1.0, -1.0, -1.0]

    def test_the_zone_is_dropped_if_asked(self) -> None:
        made = direction(self.history, self.when, horizon=1, lower=-0.02, upper=0.015, between="drop")
        assert made.frame.select("entity", "y_true").rows() == [("A", 1.0), ("D", -1.0)]
        assert made.dropped.select("entity", "reason").rows() == [("B", "dead_band"), ("C", "dead_band")]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"lower": "q20", "upper": "q80"}, "'q20' is not a return.*whole sample.*into the fold"),
            ({"lower": None, "upper": 0.1}, "give dead_band alone, or lower and upper"),
            ({"lower": -0.1, "upper": 0.1, "dead_band": 0.1}, "give dead_band alone"),
            ({"lower": 0.1, "upper": -0.1}, "not two rising returns"),
            ({"lower": float("nan"), "upper": 0.1}, "not two rising returns"),
            ({"dead_band": "quantile"}, "whole sample"),
            ({"dead_band": None}, "dead_band=None is not a return"),
            ({"between": "nan"}, "between='nan'"),
        ],
    )
    def test_bad_thresholds(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(LabelError, match=words):
            self.signs(**options)


spells = st.lists(
    st.tuples(st.sampled_from("AB"), st.integers(0, 9), st.integers(0, 4)), max_size=12, unique=True
)


@settings(deadline=None)
@given(drawn=spells)
def test_overlap_counts_equal_a_loop(drawn: list[tuple[str, int, int]]) -> None:
    made = labels((entity, 100 * n) for n, (entity, _, _) in enumerate(drawn))
    base = instant("2021-01-01T00:00")
    moved = made.frame.with_columns(
        label_start_time=_times(base + start for _, start, _ in drawn),
        label_end_time=_times(base + start + length for _, start, length in drawn),
        label_available_at=_times(base + 99 for _ in drawn),
    )
    counted = Labels(moved, made.dropped, "x", 5, "return", ("A", "B")).overlap_counts()
    expected = [
        sum(
            1
            for m, (other, begin, size) in enumerate(drawn)
            if m != n and other == entity and begin < start + length and start < begin + size
        )
        for n, (entity, start, length) in enumerate(drawn)
    ]
    assert counted.name == "overlap"
    assert counted.to_list() == expected


def _times(moments: Any) -> pl.Series:
    return pl.Series(list(moments), dtype=pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")


def test_daily_forecasts_overlap_by_their_horizon() -> None:
    history = prices({"A": [100.0 + n for n in range(12)]})
    when = ForecastClock.sessions(start=DAYS[0], end=DAYS[-1])
    made = simple_return(history, when, horizon=3)
    assert made.overlap_counts().to_list() == [2, 3, 4, 4, 4, 4, 4, 3, 2]
    assert simple_return(history, when, horizon=1).overlap_counts().to_list() == [0] * 11
    assert simple_return(history, when, horizon=20).overlap_counts().is_empty()


columns = st.lists(st.one_of(st.none(), st.sampled_from([8.0, 9.0, 10.0])), min_size=2, max_size=9).filter(
    lambda column: any(value is not None for value in column)
)


@settings(max_examples=100, deadline=None)
@given(
    column=columns,
    horizon=st.integers(1, 3),
    entry=st.sampled_from(["close", "open"]),
    moments=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["open", "close"]), st.sampled_from([-1, 0, 1])),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    halt=st.one_of(st.none(), st.tuples(st.integers(0, 9), st.integers(0, 3))),
    ex=st.one_of(st.none(), st.tuples(st.integers(0, 9), st.sampled_from([2.0, 0.5]))),
    end=st.one_of(st.none(), st.sampled_from([-0.5, 0.0, None])),
)
def test_labels_equal_a_loop_over_halts_splits_and_delistings(
    column: list[float | None], horizon: int, entry: Any, moments: Any, halt: Any, ex: Any, end: Any
) -> None:
    opens, closes = (HOURS[name].to_list() for name in ("open", "close"))
    there = [n for n, value in enumerate(column) if value is not None]
    first, last = there[0], there[-1]
    halted = set(range(halt[0], halt[0] + halt[1] + 1)) if halt else set()
    halts = halt_table([("A", opens[halt[0]], closes[min(halt[0] + halt[1], 11)])] if halt else [])
    table = price_table({"A": column, "B": [1.0] * 12}, "2019-11-25").with_columns(o=pl.col("close") * 1.25)
    history = PriceHistory.from_frame(table, open="o", halts=halts, gaps="drop", latency="0s")
    known = utc("2019-12-31T00:00")
    actions = split(DAYS[ex[0]], ex[1], known="2019-12-31T00:00") if ex else None
    declared = end is not None or (halt is not None and halt[0] % 2 == 0)
    gone = delisted(DAYS[last], end, known="2019-12-31T00:00") if declared else None
    stamps = sorted(
        {(opens if what == "open" else closes)[n].timestamp() + shift for n, what, shift in moments}
    )
    when = ForecastClock.explicit([datetime.fromtimestamp(stamp, UTC) for stamp in stamps])
    made = simple_return(history, when, horizon=horizon, entry=entry, actions=actions, delistings=gone)
    found: dict[float, Any] = {}
    for row in made.frame.filter(entity="A").iter_rows(named=True):
        found[row["forecast_time"].timestamp()] = (
            row["label_start_time"],
            row["label_end_time"],
            row["label_available_at"],
            round(row["y_true"], 9),
        )
    for name, moment, why in made.dropped.iter_rows():
        if name == "A":
            found[moment.timestamp()] = why

    def growth(n: int) -> float:
        """What one share of the first bar has become at session n."""
        return ex[1] if ex and first < ex[0] <= n else 1.0

    expected: dict[float, Any] = {}
    entries = opens if entry == "open" else closes
    for stamp in stamps:
        due = next((n for n in range(12) if entries[n].timestamp() > stamp), 12)
        # Sessions halted altogether, without a bar, are waited for between the first and the last bar.
        waited = due
        while waited in halted and first < waited < last and column[waited] is None:
            waited += 1
        raw = next((n for n in there if n >= due), None)
        if raw is None:
            expected[stamp] = (
                "delisted"
                if declared
                else ("incomplete" if due + horizon - (entry == "open") > 11 else "no_price")
            )
            continue
        if raw > waited:
            expected[stamp] = "no_price" if due < first else "gap"
            continue
        chosen = next((n for n in there if n >= raw and n not in halted), None)
        if chosen is None:
            expected[stamp] = "halted"
            continue
        target = chosen + horizon - (entry == "open")
        holes = [n for n in range(chosen, min(target, last) + 1) if n < len(column) and column[n] is None]
        real = [n for n in holes if n not in halted]
        mark = (column[chosen] or 0.0) * growth(chosen) * (1.25 if entry == "open" else 1.0)
        if target > last and declared and not real:
            if end is None:
                expected[stamp] = "delisted"
            else:
                value = (column[last] or 0.0) * growth(last) * (1 + end) / mark - 1
                expected[stamp] = (entries[chosen], closes[last], known, round(value, 9))
            continue
        if target > 11:
            expected[stamp] = "incomplete"
        elif target > last:
            expected[stamp] = "no_price"
        elif real:
            expected[stamp] = "gap"
        else:
            final = max(n for n in there if n <= target)
            proof = min(n for n in there if n >= target)
            value = (column[final] or 0.0) * growth(final) / mark - 1
            late = (
                ex
                and first < ex[0]
                and any(chosen < n <= final for n in [min((m for m in there if m >= ex[0]), default=99)])
            )
            expected[stamp] = (
                entries[chosen],
                closes[target],
                known if late else closes[proof],
                round(value, 9),
            )
    assert found == expected
