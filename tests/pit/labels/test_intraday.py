from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import LabelError
from quantattn.pit import (
    ForecastClock,
    Labels,
    PriceHistory,
    log_return,
    realised_variance,
    simple_return,
)
from quantattn.pit.prices import CorporateActions, Delistings
from tests.pit.build import price_history
from tests.pit.intraday import bar_table, grid, halt_table, intraday, official_minutes, utc

# XNYS closes at 13:00 on 2019-11-29 (18:00 UTC), and is closed on the 28th.
DAYS = (date(2019, 11, 27), date(2019, 12, 2))
BARS = grid("XNYS", *DAYS, 30)


def prices(entity: str = "A", keep: Any = None, **options: Any) -> PriceHistory:
    rows = [(entity, a, 100.0 + n) for n, (a, _) in enumerate(BARS) if keep is None or keep(a)]
    table = bar_table(rows).with_columns(o=pl.col("close") - 0.25, v=pl.lit(5.0))
    return intraday(table, 30, **{"open": "o", "volume": "v", **options})


def at(*stamps: str) -> ForecastClock:
    return ForecastClock.explicit([utc(stamp) for stamp in stamps])


def told(labels: Labels) -> tuple[Any, ...]:
    row = labels.frame.row(0, named=True)
    names = ("label_start_time", "label_end_time", "label_available_at")
    return (row["y_true"], *(f"{row[name]:%d %H:%M:%S}" for name in names))


def reason(labels: Labels) -> str:
    assert labels.frame.is_empty()
    return str(labels.dropped["reason"][0])


def test_a_return_over_a_duration_by_hand() -> None:
    made = simple_return(prices(latency="45s"), at("2019-11-27T16:10"), horizon="1h")
    # Bars end at 15:00, 15:30 ... with closes 100, 101 ...; entry at 16:30 (103), end at 17:30 (105).
    assert told(made) == (pytest.approx(105 / 103 - 1), "27 16:30:00", "27 17:30:00", "27 17:30:45")
    assert (made.horizon, made.unit, made.frame["horizon"][0]) == (3600, "seconds", 3600)
    opened = simple_return(prices(), at("2019-11-27T16:10"), horizon="1h", entry="open")
    # The first bar that begins after 16:10 is that of 16:30, whose open is 103.75.
    assert told(opened) == (pytest.approx(105 / 103.75 - 1), "27 16:30:00", "27 17:30:00", "27 17:30:00")


@pytest.mark.parametrize(
    ("stamp", "lag", "close", "open_"),
    [
        ("2019-11-27T15:59:59.999999", "0s", "27 16:00", "27 16:00"),
        ("2019-11-27T16:00:00", "0s", "27 16:30", "27 16:30"),
        ("2019-11-27T15:30:00", "30min", "27 16:30", "27 16:30"),
        ("2019-11-27T15:30:00", "29min59s", "27 16:00", "27 16:00"),
        ("2019-11-27T14:29:59", "0s", "27 15:00", "27 14:30"),
        ("2019-11-27T14:30:00", "0s", "27 15:00", "27 15:00"),
        # After the last bar's end (start) of a day, on a holiday, and before a half day.
        ("2019-11-27T20:30:00", "0s", "27 21:00", "29 14:30"),
        ("2019-11-27T21:00:00", "0s", "29 15:00", "29 14:30"),
        ("2019-11-28T16:00:00", "0s", "29 15:00", "29 14:30"),
        ("2019-11-29T17:59:59", "0s", "29 18:00", "02 14:30"),
        ("2019-11-29T18:00:00", "0s", "02 15:00", "02 14:30"),
    ],
)
def test_the_entry_is_strictly_after_the_forecast_and_the_lag(
    stamp: str, lag: str, close: str, open_: str
) -> None:
    for entry, expected in (("close", close), ("open", open_)):
        made = simple_return(prices(), at(stamp), horizon=1, execution_lag=lag, entry=entry)  # type: ignore[arg-type]
        if made.frame.is_empty():
            assert expected.startswith("02")
            continue
        assert f"{made.frame['label_start_time'][0]:%d %H:%M}" == expected


def test_a_window_must_end_while_the_market_is_open() -> None:
    history = prices()
    assert told(simple_return(history, at("2019-11-27T20:00"), horizon="30min"))[2] == "27 21:00:00"
    assert reason(simple_return(history, at("2019-11-27T20:00"), horizon="1h")) == "closed"
    # Two days later at the same time, over a holiday; and on the half day, when it has closed.
    assert told(simple_return(history, at("2019-11-27T17:10"), horizon="2D"))[1:3] == (
        "27 17:30:00",
        "29 17:30:00",
    )
    assert reason(simple_return(history, at("2019-11-27T18:10"), horizon="2D")) == "closed"
    assert reason(simple_return(history, at("2019-11-27T18:10"), horizon="1D")) == "closed"
    # At the very open the last price is that of the day before.
    assert reason(simple_return(history, at("2019-11-27T20:45"), horizon="41h30min")) == "closed"


def test_horizons_in_sessions_end_at_official_closes() -> None:
    made = simple_return(prices(), at("2019-11-27T20:00", "2019-11-27T20:45"), horizon=1)
    assert [f"{stamp:%d %H:%M}" for stamp in made.frame["label_start_time"]] == ["27 20:30", "27 21:00"]
    assert {f"{stamp:%d %H:%M}" for stamp in made.frame["label_end_time"]} == {"29 18:00"}
    assert (made.unit, made.horizon) == ("sessions", 1)
    assert reason(simple_return(prices(), at("2019-11-29T15:00"), horizon=2)) == "incomplete"


def test_realised_variance_from_intraday_returns() -> None:
    when = at("2019-11-27T20:00")
    made = realised_variance(prices(), when, horizon=1, log=False)
    closes = [100.0 + n for n in range(len(BARS))]
    # From the bar that ends at 20:30 (111) to the close of the half day (119).
    squares = [math.log(b / a) ** 2 for a, b in pairwise(closes)]
    assert told(made)[0] == pytest.approx(sum(squares[11:19]))
    # Without the night: the first bar of the 29th (113) counts from its open, 112.75.
    without = realised_variance(prices(), when, horizon=1, log=False, overnight=False)
    day = sum(squares[13:19])
    assert told(without)[0] == pytest.approx(squares[11] + math.log(113 / 112.75) ** 2 + day)
    no_open = realised_variance(prices(open=None), when, horizon=1, log=False, overnight=False)
    assert told(no_open)[0] == pytest.approx(squares[11] + day)
    opened = realised_variance(prices(), when, horizon="30min", log=False, entry="open")
    assert told(opened)[0] == pytest.approx(math.log(112 / 111.75) ** 2)
    with pytest.raises(LabelError, match="overnight=False is for intraday bars"):
        realised_variance(prices().to_sessions(), when, overnight=False)


def test_gaps_halts_and_bars_without_volume() -> None:
    hole = prices(keep=lambda start: start != utc("2019-11-27T16:30"), gaps="drop")
    when = "2019-11-27T16:10"
    assert reason(simple_return(hole, at("2019-11-27T16:40"), horizon="30min")) == "gap"
    assert reason(simple_return(hole, at(when), horizon="1h")) == "gap"
    assert told(simple_return(hole, at("2019-11-27T17:00"), horizon="30min"))[1] == "27 17:30:00"
    # Its end at 17:00 is the price that is missing, so an earlier window that ends before is whole.
    assert told(simple_return(hole, at("2019-11-27T15:10"), horizon="1h"))[2] == "27 16:30:00"
    # The same bars absent in a halt: the entry is the first bar after it.
    halt = halt_table([("A", utc("2019-11-27T16:25"), utc("2019-11-27T17:05"))])
    halted = prices(keep=lambda start: start != utc("2019-11-27T16:30"), halts=halt)
    assert told(simple_return(halted, at(when), horizon="30min"))[1:3] == ("27 17:30:00", "27 18:00:00")
    opened = simple_return(halted, at(when), horizon="30min", entry="open")
    assert told(opened)[1:3] == ("27 17:30:00", "27 18:00:00")
    # The bar from 17:00 was open when the halt ended only at its end.
    assert told(simple_return(halted, at("2019-11-27T16:59"), horizon="30min"))[1] == "27 17:30:00"
    # A window that ends in the halt ends at the last price before, known once trading goes on.
    inside = simple_return(halted, at("2019-11-27T15:40"), horizon="1h")
    assert told(inside) == (pytest.approx(103 / 102 - 1), "27 16:00:00", "27 17:00:00", "27 17:30:00")
    forever = prices(
        keep=lambda s: s < utc("2019-12-02T15:00"), halts=halt_table([("A", utc("2019-12-02T15:00"), None)])
    )
    assert reason(simple_return(forever, at("2019-12-02T14:45"), horizon="30min")) == "halted"
    flat = bar_table([("A", a, 100.0 + n) for n, (a, _) in enumerate(BARS)]).with_columns(
        v=pl.when(pl.col("start") == utc("2019-11-27T16:00")).then(0.0).otherwise(1.0)
    )
    quiet = intraday(flat, 30, volume="v", zero_volume="halt")
    assert told(simple_return(quiet, at(when), horizon="30min"))[1] == "27 17:00:00"
    assert told(simple_return(intraday(flat, 30, volume="v"), at(when), horizon="30min"))[1] == "27 16:30:00"


@pytest.mark.parametrize(
    ("start", "end", "close", "open_"),
    [
        ("16:00", "16:30", "17:00", "16:30"),
        ("16:00", "16:29:59", "16:30", "16:30"),
        ("16:30", "16:31", "17:00", "17:00"),
        ("16:30:01", "16:45", "16:30", "16:30"),
        ("15:00", "16:00", "16:30", "16:30"),
    ],
)
def test_the_bounds_of_a_halt(start: str, end: str, close: str, open_: str) -> None:
    halts = halt_table([("A", utc(f"2019-11-27T{start}"), utc(f"2019-11-27T{end}"))])
    for entry, expected in (("close", close), ("open", open_)):
        made = simple_return(prices(halts=halts), at("2019-11-27T16:00"), horizon="30min", entry=entry)  # type: ignore[arg-type]
        assert f"{made.frame['label_start_time'][0]:%H:%M}" == expected


def test_an_entity_that_starts_late_ends_early_or_trades_seldom() -> None:
    others = bar_table(("B", a, 1.0) for a, _ in BARS)
    late = bar_table(("A", a, 100.0 + n) for n, (a, _) in enumerate(BARS) if a >= utc("2019-11-29T16:00"))
    history = intraday(pl.concat([others, late]), 30)

    def why(stamp: str, **options: Any) -> str:
        made = simple_return(history, at(stamp), horizon="30min", **options)
        found = made.dropped.filter(entity="A")["reason"].to_list()
        return found[0] if found else "kept"

    assert why("2019-11-27T16:00") == "no_price"
    assert why("2019-11-28T16:00") == "no_price"
    assert why("2019-11-29T15:59:59") == "no_price"  # a bar that ended at 16:00 would have been the entry
    assert why("2019-11-29T16:00:00") == "kept"
    early = bar_table(("A", a, 100.0 + n) for n, (a, _) in enumerate(BARS) if a < utc("2019-11-29T16:00"))
    history = intraday(pl.concat([others, early]), 30)
    assert why("2019-11-29T15:10") == "kept"
    assert why("2019-11-29T15:30") == "no_price"
    assert why("2019-11-29T17:00") == "no_price"
    assert why("2019-12-02T21:00") == "incomplete"


def test_seldom_trades_leave_the_last_price_standing() -> None:
    # Bars end at 15:00, 16:30, 17:00 and 20:30.
    kept = {utc(f"2019-11-27T{text}") for text in ("14:30", "16:00", "16:30", "20:00")}
    thin = prices(keep=lambda start: start in kept, missing_bars="no_trade", latency="10s")
    # In force at 17:30 is the price of 17:00; that nothing came until then shows at 20:30.
    made = simple_return(thin, at("2019-11-27T15:00"), horizon="1h")
    assert told(made) == (pytest.approx(104 / 103 - 1), "27 16:30:00", "27 17:30:00", "27 20:30:10")
    assert told(simple_return(thin, at("2019-11-27T15:00"), horizon="30min"))[3] == "27 17:00:10"
    # No trade at all within the window: the price stood still.
    assert told(simple_return(thin, at("2019-11-27T16:30"), horizon="1h"))[0] == 0.0
    assert reason(realised_variance(thin, at("2019-11-27T16:30"), horizon="1h")) == "zero_variance"
    assert reason(simple_return(thin, at("2019-11-27T17:30"), horizon="30min")) == "incomplete"
    opened = prices(keep=lambda start: start in kept, missing_bars="no_trade")
    # A horizon that ends within the entry bar has no price.
    assert reason(simple_return(opened, at("2019-11-27T15:30"), horizon="10min", entry="open")) == "no_price"


def test_extended_hours_are_traded_at_if_kept() -> None:
    rows = [("A", a, 100.0) for a, _ in BARS] + [
        ("A", utc("2019-11-27T21:00"), 90.0),
        ("A", utc("2019-11-27T21:30"), 95.0),
    ]
    history = intraday(bar_table(rows), 30, outside="keep")
    made = simple_return(history, at("2019-11-27T21:10"), horizon="30min")
    assert told(made)[:3] == (pytest.approx(95 / 90 - 1), "27 21:30:00", "27 22:00:00")
    assert reason(simple_return(history, at("2019-11-27T21:10"), horizon="1h")) == "closed"


def test_a_split_overnight_is_no_return() -> None:
    halved = bar_table(("A", a, 100.0 if a.day == 27 else 50.0) for a, _ in BARS)
    split = pl.DataFrame(
        {
            "entity": ["A"],
            "kind": ["split"],
            "ex_date": [date(2019, 11, 29)],
            "value": [2.0],
            "known": [utc("2019-12-24T00:00")],
        }
    )
    actions = CorporateActions.from_frame(split, available_at="known")
    history, when = intraday(halved, 30), at("2019-11-27T18:00")
    assert told(simple_return(history, when, horizon=1))[0] == pytest.approx(-0.5)
    made = simple_return(history, when, horizon=1, actions=actions)
    # A label cannot be known before the split that it is measured with.
    assert told(made)[0] == pytest.approx(0.0, abs=1e-15)
    assert told(made)[3] == "24 00:00:00"
    assert told(simple_return(history, when, horizon="30min", actions=actions))[3] == "27 19:00:00"


def test_a_window_that_spans_a_delisting_ends_with_its_return() -> None:
    ends_early = bar_table(("A", a, 100.0) for a, _ in BARS if a < utc("2019-11-29T18:00"))
    history = intraday(pl.concat([ends_early, bar_table(("B", a, 1.0) for a, _ in BARS)]), 30)
    row = pl.DataFrame(
        {
            "entity": ["A"],
            "last": [date(2019, 11, 29)],
            "return": [-0.4],
            "available_at": [utc("2019-12-09T12:00")],
        }
    )
    gone = Delistings.from_frame(row, last_session="last")
    made = simple_return(history, at("2019-11-29T17:10"), horizon=1, delistings=gone)
    mine = made.frame.filter(entity="A")
    assert mine["y_true"].to_list() == pytest.approx([-0.4])
    assert mine["label_end_time"].to_list() == [utc("2019-11-29T18:00")]
    assert mine["label_available_at"].to_list() == [utc("2019-12-09T12:00")]
    dropped = simple_return(history, at("2019-11-29T18:00"), horizon="30min", delistings=gone).dropped
    assert dropped.filter(entity="A")["reason"].to_list() == ["delisted"]
    assert told(simple_return(history, at("2019-11-29T16:10"), horizon="30min", delistings=gone))[0] == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": "45min"}, "no multiple of the bars' 1800 s"),
        ({"horizon": "0s"}, "horizon='0s' is not a positive number of whole seconds"),
        ({"horizon": "-30min"}, "not a positive"),
        ({"horizon": "500ms"}, "whole seconds"),
        ({"horizon": 0}, "whole number of sessions.*or a duration"),
        ({"horizon": 1.5}, "whole number"),
        ({"horizon": "30min", "entry": "vwap"}, "entry='vwap'"),
        ({"horizon": "30min", "execution_lag": "-1s"}, "negative"),
    ],
)
def test_impossible_targets(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LabelError, match=words):
        log_return(prices(), at("2019-11-27T16:10"), **options)


def test_other_impossible_targets() -> None:
    with pytest.raises(LabelError, match="horizon='30min' is not a whole number of sessions"):
        log_return(price_history({"A": [1.0, 2.0]}), at("2019-11-27T16:10"), horizon="30min")
    with pytest.raises(LabelError, match="needs the opens"):
        log_return(prices(open=None), at("2019-11-27T16:10"), horizon="30min", entry="open")
    ticks = prices(stamps="end", bar_length=None, missing_bars="no_trade", outside="drop")
    with pytest.raises(LabelError, match=r"starts of the bars.*bar_length="):
        log_return(ticks, at("2019-11-27T16:10"), horizon="30min", entry="open")
    assert log_return(prices().cut(0), at("2019-11-27T16:10"), horizon="30min").frame.is_empty()


def test_bars_known_by_their_end_alone() -> None:
    stamps = [utc(f"2019-11-27T{text}") for text in ("15:00:07", "15:04:10", "15:31:00", "16:10:00")]
    ticks = intraday(
        bar_table(("A", s, 100.0 + n) for n, s in enumerate(stamps)),
        30,
        stamps="end",
        bar_length=None,
        missing_bars="no_trade",
    )
    made = simple_return(ticks, at("2019-11-27T15:00:07"), horizon="30min")
    assert told(made) == (pytest.approx(102 / 101 - 1), "27 15:04:10", "27 15:34:10", "27 16:10:00")


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(), mode=st.sampled_from(["gap", "no_trade"]), place=st.sampled_from(["XNYS", "XHKG", "24/7"])
)
def test_labels_equal_a_loop_over_the_bars(data: st.DataObject, mode: Any, place: str) -> None:
    days = {
        "XNYS": (date(2021, 11, 24), date(2021, 11, 29)),
        "XHKG": (date(2020, 1, 23), date(2020, 1, 29)),
        "24/7": (date(2021, 3, 13), date(2021, 3, 14)),
    }[place]
    bars = [bar for bar in grid(place, *days, 60) if bar[1] - bar[0] == timedelta(hours=1) or place != "24/7"]
    kept = sorted(data.draw(st.sets(st.integers(0, len(bars) - 1), min_size=1)))
    prices_ = data.draw(st.lists(st.sampled_from([9.0, 10.0, 11.0]), min_size=len(kept), max_size=len(kept)))
    spells = [
        (bars[0][0] + timedelta(minutes=30 * a), bars[0][0] + timedelta(minutes=30 * (a + b)))
        for a, b in data.draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=2))
    ]
    entry: Any = data.draw(st.sampled_from(["close", "open"]))
    hours = data.draw(st.sampled_from([1, 2, 24]))
    sessions_ahead = data.draw(st.sampled_from([None, None, 1]))
    lag = timedelta(minutes=data.draw(st.sampled_from([0, 30])))
    first = bars[0][0] - timedelta(hours=20)
    moments = [
        first + timedelta(minutes=30 * n, microseconds=shift)
        for n, shift in data.draw(
            st.lists(
                st.tuples(st.integers(0, 300), st.sampled_from([-1, 0, 1])),
                min_size=1,
                max_size=5,
                unique=True,
            )
        )
    ]
    mine = [("A", bars[n][0], price) for n, price in zip(kept, prices_, strict=True)]
    everyone = [("B", a, 1.0) for a, _ in bars]
    table = bar_table(mine + everyone).with_columns(o=pl.col("close") * 0.5)
    history = intraday(
        table, 60, calendar=place, gaps="drop", open="o", missing_bars=mode,
        halts=halt_table([("A", *spell) for spell in spells]),
    )  # fmt: skip
    made = simple_return(
        history,
        ForecastClock.explicit(moments),
        horizon=sessions_ahead or f"{hours}h",
        execution_lag=lag,
        entry=entry,
    )
    open_minutes = official_minutes(place, days[0] - timedelta(days=1), days[1] + timedelta(days=8))
    closes: dict[date, datetime] = {}
    for session, minute in open_minutes:
        closes[session] = minute + timedelta(minutes=1)
    open_set = {minute for _, minute in open_minutes}
    session_list = sorted(closes)
    covered = {
        bars[n][0] + timedelta(minutes=m)
        for n in kept
        for m in range(60)
        if bars[n][0] + timedelta(minutes=m) < bars[n][1]
    }
    span = (bars[kept[0]][0], bars[kept[-1]][1])
    with_bars = {next(s for s in session_list if bars[n][0] < closes[s]) for n in kept}
    holes = [
        (session, minute)
        for session, minute in open_minutes
        if span[0] <= minute < span[1]
        and minute not in covered
        and not any(a <= minute < b for a, b in spells)
        and (mode == "gap" or session not in with_bars)
    ]
    # A missing price is the end (or start) of a bar that is not there: whole bars, cut by halts.
    expected: dict[datetime, Any] = {}
    ends = [bars[n][1] for n in kept]
    starts = [bars[n][0] for n in kept]
    times = ends if entry == "close" else starts
    for moment in moments:
        m = moment + lag
        due = bisect_right(times, m)
        if due == len(kept):
            expected[moment] = "no_price" if m < bars[-1][1] else "incomplete"
            continue
        free = [
            n
            for n in range(due, len(kept))
            if not any(
                a <= times[n] and (times[n] <= b if entry == "close" else times[n] < b) for a, b in spells
            )
        ]
        if not free:
            expected[moment] = "halted"
            continue
        chosen = free[0]
        begin = times[chosen]
        if sessions_ahead is None:
            finish = begin + timedelta(hours=hours)
        else:
            of_entry = next(s for s in session_list if starts[chosen] < closes[s])
            finish = closes[session_list[session_list.index(of_entry) + 1]]
        expected[moment] = (begin, finish, chosen)
        # The market was open between the forecast and the first bar.
        own = next(session for session, minute in open_minutes if minute == starts[0])
        listed_late = due == 0 and any(
            m < minute + timedelta(minutes=1) and minute < starts[0] and (mode == "gap" or session < own)
            for session, minute in open_minutes
        )
        if listed_late:
            expected[moment] = "no_price"
        elif finish - timedelta(minutes=1) not in open_set:
            expected[moment] = "closed"
        elif finish > ends[-1]:
            expected[moment] = "incomplete" if finish > bars[-1][1] else "no_price"
        elif any(_missed(m, finish, hole, holes, entry) for _, hole in holes):
            expected[moment] = "gap"
        else:
            last = bisect_right(ends, finish) - 1
            proof = bisect_left(ends, finish)
            stands = mode == "no_trade" or any(a <= finish <= b for a, b in spells)
            if last < chosen or (ends[proof] != finish and not stands):
                expected[moment] = "no_price"
            else:
                paid = prices_[chosen] * (1.0 if entry == "close" else 0.5)
                expected[moment] = (begin, finish, ends[proof], prices_[last] / paid - 1)
    found: dict[datetime, Any] = {}
    for row in made.frame.filter(entity="A").iter_rows(named=True):
        found[row["forecast_time"]] = (
            row["label_start_time"],
            row["label_end_time"],
            row["label_available_at"],
            pytest.approx(row["y_true"], rel=1e-12, abs=1e-12),
        )
    for entity, moment, why in made.dropped.iter_rows():
        if entity == "A":
            found[moment] = why
    assert found == {moment.astimezone(UTC): value for moment, value in expected.items()}


def _missed(
    m: datetime, finish: datetime, hole: datetime, holes: list[tuple[date, datetime]], entry: str
) -> bool:
    """Whether a minute without a bar lies in the window, or in the wait for its entry."""
    if hole >= finish:
        return False
    everything = {minute for _, minute in holes}
    end = hole
    while end in everything:
        end += timedelta(minutes=1)
    begin = hole
    while begin - timedelta(minutes=1) in everything:
        begin -= timedelta(minutes=1)
    return end > m if entry == "close" else max(begin, end - timedelta(hours=1)) > m


def test_labels_on_cut_bars_are_the_known_labels() -> None:
    for mode in ("gap", "no_trade"):
        history = prices(
            keep=lambda start: start not in (utc("2019-11-27T17:00"), utc("2019-11-29T14:30")),
            gaps="drop",
            missing_bars=mode,
            latency="30s",
        )
        when = ForecastClock.every("17min", start=utc("2019-11-27T14:00"), end=utc("2019-12-02T21:00"))
        for options in ({"horizon": "1h"}, {"horizon": 1}, {"horizon": "1h", "entry": "open"}):
            made = log_return(history, when, **options)  # type: ignore[arg-type]
            assert made.frame.height > 5
            for t in history.frame["available_at"].to_physical().to_list()[3::4]:
                for shift in (0, 1):
                    known = made.frame.filter(pl.col("label_available_at").to_physical() < t + shift)
                    rebuilt = log_return(history.cut(t + shift), when, **options).frame  # type: ignore[arg-type]
                    assert_frame_equal(rebuilt, known, check_exact=True)


@pytest.mark.parametrize(
    ("last", "expected"), [("2019-12-02", "2019-12-03T02:00"), ("2019-12-03", "2019-12-04T02:00")]
)
def test_a_delisting_waits_for_the_last_bar_and_ends_a_suspension(last: str, expected: str) -> None:
    # A has bars on 2 December alone, B on the 3rd, too; both are known five hours later.
    first, second = date(2019, 12, 2), date(2019, 12, 3)
    rows = [("A", a, 10.0) for a, _ in grid("XNYS", first, first, 30)]
    rows += [("B", a, 1.0) for a, _ in grid("XNYS", first, second, 30)]
    history = intraday(bar_table(rows), 30, latency="5h")
    gone = Delistings.from_frame(
        pl.DataFrame(
            {"entity": ["A"], "last": [last], "return": [-0.5], "known": [utc(f"{last}T21:00")]},
        ),
        last_session="last",
        available_at="known",
    )
    when = ForecastClock.explicit(["2019-12-02T20:00Z"])
    made = simple_return(history, when, horizon=1, delistings=gone).frame.filter(entity="A")
    assert made["y_true"].to_list() == [-0.5]
    assert made["label_end_time"].to_list() == [utc(f"{last}T21:00")]
    assert made["label_available_at"].to_list() == [utc(expected)]
