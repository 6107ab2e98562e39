from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import CalendarError, PriceDataError, TimestampError, UsageError
from quantattn.pit import PriceHistory, market_events
from tests.pit.build import price_history
from tests.pit.intraday import bar_table, grid, halt_table, intraday, official_minutes, utc

# XNYS closes at 13:00 on 2019-11-29 (18:00 UTC), and is closed on the 28th.
DAYS = (date(2019, 11, 27), date(2019, 12, 2))
HALF_HOURS = grid("XNYS", *DAYS, 30)


def all_bars(step: int = 30, entity: str = "A", calendar: str = "XNYS", days: Any = DAYS) -> pl.DataFrame:
    return bar_table((entity, a, 100.0 + n) for n, (a, _) in enumerate(grid(calendar, *days, step)))


def ends(history: PriceHistory) -> list[str]:
    return [f"{stamp:%d %H:%M}" for stamp in history.frame["event_time"]]


def test_bars_stamped_at_start_or_end_are_the_same_bars() -> None:
    table = all_bars()
    by_start = intraday(table, 30, latency="90s")
    ended = table.with_columns(pl.col("start") + timedelta(minutes=30))
    by_end = intraday(ended, 30, stamps="end", latency="90s")
    assert_frame_equal(by_start.frame, by_end.frame)
    assert by_start.frame.columns == [
        "entity",
        "session",
        "start_time",
        "event_time",
        "available_at",
        "close",
    ]
    assert (by_start.frequency, by_start.bar_length) == ("intraday", 30 * 60 * 10**9)
    assert by_start.gaps.is_empty()
    assert [len(part) for part in by_start.frame.partition_by("session")] == [13, 7, 13]
    assert ends(by_start)[12:21] == [
        "27 21:00",
        "29 15:00",
        "29 15:30",
        "29 16:00",
        "29 16:30",
        "29 17:00",
        "29 17:30",
        "29 18:00",
        "02 15:00",
    ]
    assert (by_start.frame["available_at"] - by_start.frame["event_time"]).unique().to_list() == [
        timedelta(seconds=90)
    ]


def test_the_last_bar_ends_at_the_close_even_if_its_length_says_otherwise() -> None:
    history = intraday(all_bars(60), 60)
    assert ends(history) == [
        *["27 15:30", "27 16:30", "27 17:30", "27 18:30", "27 19:30", "27 20:30", "27 21:00"],
        *["29 15:30", "29 16:30", "29 17:30", "29 18:00"],
        *["02 15:30", "02 16:30", "02 17:30", "02 18:30", "02 19:30", "02 20:30", "02 21:00"],
    ]
    # Stamped at the end, the first bar of the clock's hour begins at the open.
    stamped = bar_table([("A", utc("2019-11-27T15:00"), 1.0), ("A", utc("2019-11-27T16:00"), 2.0)])
    on_the_hour = intraday(stamped, 60, stamps="end")
    assert [f"{stamp:%H:%M}" for stamp in on_the_hour.frame["start_time"]] == ["14:30", "15:00"]


def test_a_bar_that_runs_past_the_close_is_not_known_at_the_close() -> None:
    # Hourly bars of extended hours: the one from 20:30 to 21:30 holds half an hour after the close.
    begins = [utc(f"2019-11-27T{hour}:30") for hour in range(13, 24)]
    table = bar_table(("A", begin, 100.0 + n) for n, begin in enumerate(begins))
    dropped = intraday(table, 60, outside="drop", gaps="drop")
    assert ends(dropped) == [f"27 {hour}:30" for hour in range(15, 21)]
    kept = intraday(table, 60, outside="keep")
    assert f"{kept.frame.filter(close=107.0)['event_time'][0]:%H:%M}" == "21:30"
    # Stamped at the end, a bar that began before the open holds what nobody could trade at the open.
    stamped = bar_table(("A", begin + timedelta(minutes=30), 100.0 + n) for n, begin in enumerate(begins))
    by_end = intraday(stamped, 60, stamps="end", outside="drop", gaps="drop")
    assert f"{by_end.frame['start_time'][0]:%H:%M}" == "15:00"


def test_bars_across_the_break_at_noon_are_dropped() -> None:
    # XHKG rests from 12:00 to 13:00, which is 04:00 to 05:00 UTC.
    rows = bar_table(("A", utc(f"2019-11-27T0{hour}:30"), 100.0 + hour) for hour in range(1, 8))
    dropped = intraday(rows, 60, calendar="XHKG", outside="drop", gaps="drop")
    assert ends(dropped) == ["27 02:30", "27 03:30", "27 06:30", "27 07:30"]


def test_a_session_of_trades_is_known_when_the_next_bar_shows_that_it_is_over() -> None:
    minutes = [
        utc(f"2019-11-{day}T{hour}:50") for day, hour in (("26", 20), ("27", 20), ("29", 15), ("29", 17))
    ]
    table = bar_table(("A", minute, 100.0 + n) for n, minute in enumerate(minutes))
    trades = intraday(table, 10, bar_length=None, stamps="end", missing_bars="no_trade", latency="60s")
    daily = trades.to_sessions(gaps="drop")
    assert daily.frame["event_time"].to_list() == [utc("2019-11-26T21:00"), utc("2019-11-27T21:00")]
    known = [utc("2019-11-27T20:51"), utc("2019-11-29T15:51")]
    assert daily.frame["available_at"].to_list() == known
    for moment in known:
        for t in (moment, moment + timedelta(microseconds=1)):
            assert_frame_equal(daily.cut(t).frame, trades.cut(t).to_sessions(gaps="drop").frame)
    told = market_events(daily, latency="2h").frame.filter(kind="bar")
    assert told["available_at"].to_list() == [stamp + timedelta(hours=2, minutes=-1) for stamp in known]


def test_daylight_saving_moves_the_hours() -> None:
    table = all_bars(days=(date(2021, 3, 12), date(2021, 3, 15)))
    history = intraday(table, 30)
    assert ends(history)[0] == "12 15:00"
    assert ends(history)[-1] == "15 20:00"
    naive = table.with_columns(
        pl.col("start").dt.convert_time_zone("America/New_York").dt.replace_time_zone(None)
    )
    assert_frame_equal(intraday(naive, 30, time_zone="America/New_York").frame, history.frame)
    with pytest.raises(TimestampError, match=r"naive timestamps.*time_zone="):
        intraday(naive, 30)


def test_a_market_that_never_closes() -> None:
    table = bar_table(("BTC", utc("2021-03-13T22:00") + timedelta(hours=n), 1.0 + n) for n in range(30))
    history = intraday(table, 60, calendar="24/7")
    assert history.gaps.is_empty()
    # The bar that ends at midnight is of the day before.
    assert (
        history.frame["session"].to_list()
        == [date(2021, 3, 13)] * 2 + [date(2021, 3, 14)] * 24 + [date(2021, 3, 15)] * 4
    )
    whole = history.to_sessions(gaps="drop")
    assert whole.frame.select("session", "close").rows() == [(date(2021, 3, 14), 26.0)]
    assert whole.frame["event_time"].to_list() == [utc("2021-03-15T00:00")]
    assert (
        len(intraday(table.with_columns(pl.col("start").dt.offset_by("-120y")), 60, calendar="24/7").frame)
        == 30
    )
    with pytest.raises(CalendarError, match="1970-01-01 to 2200-12-31"):
        intraday(table.with_columns(pl.col("start").dt.offset_by("-120y")), 60)


def test_the_first_and_last_days_that_nanoseconds_reach() -> None:
    for stamp in ("1678-01-02T22:00", "2261-12-30T22:00"):
        bar = bar_table([("BTC", utc(stamp), 1.0)])
        assert intraday(bar, 60, calendar="24/7").frame["session"].to_list() == [utc(stamp).date()]


def test_no_bar_in_the_break_at_noon_and_none_is_missing_there() -> None:
    days = (date(2020, 1, 22), date(2020, 1, 23))
    table = all_bars(30, calendar="XHKG", days=days)
    history = intraday(table, 30, calendar="XHKG")
    assert ends(history)[:11] == [f"22 {text}" for text in (
        "02:00", "02:30", "03:00", "03:30", "04:00", "05:30", "06:00", "06:30", "07:00", "07:30", "08:00"
    )]  # fmt: skip
    assert history.gaps.is_empty()
    lunch = bar_table([("A", utc("2020-01-22T04:00"), 1.0)])
    with pytest.raises(PriceDataError, match=r"outside the official hours of XHKG.*2020-01-22 04:00"):
        intraday(pl.concat([table, lunch]), 30, calendar="XHKG")
    # An hourly bar from 11:30 ends with the morning.
    late = intraday(bar_table([("A", utc("2020-01-22T03:30"), 1.0)]), 60, calendar="XHKG")
    assert ends(late) == ["22 04:00"]


def test_bars_outside_official_hours_are_refused_dropped_or_kept() -> None:
    outside = bar_table(
        [
            ("A", utc("2019-11-27T14:00"), 1.0),
            ("A", utc("2019-11-27T21:00"), 2.0),
            ("A", utc("2019-11-29T18:00"), 3.0),
        ]
    )
    table = pl.concat([all_bars(), outside])
    with pytest.raises(
        PriceDataError, match=r"'start' has bars outside.*3 rows, first row 33.*outside='keep'"
    ):
        intraday(table, 30)
    assert_frame_equal(intraday(table, 30, outside="drop").frame, intraday(all_bars(), 30).frame)
    kept = intraday(table, 30, outside="keep")
    assert kept.frame.height == 36
    assert kept.gaps.is_empty()
    # They lead to the session that opens next.
    assert kept.frame.filter(pl.col("close").is_in([1.0, 2.0, 3.0])).select("session", "close").rows() == [
        (date(2019, 11, 27), 1.0),
        (date(2019, 11, 29), 2.0),
        (date(2019, 12, 2), 3.0),
    ]
    assert_frame_equal(kept.to_sessions().frame, intraday(all_bars(), 30).to_sessions().frame)
    # Kept, an hourly bar from 15:30 goes on after the close.
    assert ends(intraday(all_bars(60), 60, outside="keep"))[6] == "27 21:30"
    with pytest.raises(PriceDataError, match="no bar lies within the official hours"):
        intraday(outside, 30, outside="drop")


@pytest.mark.parametrize(
    ("stamp", "stamps", "inside"),
    [
        ("2019-11-27T14:30:00", "start", True),
        ("2019-11-27T14:29:59.999999999", "start", False),
        ("2019-11-27T20:59:59.999999999", "start", True),
        ("2019-11-27T21:00:00", "start", False),
        ("2019-11-27T14:30:00", "end", False),
        ("2019-11-27T14:30:00.000000001", "end", True),
        ("2019-11-27T21:00:00", "end", True),
        ("2019-11-27T21:00:00.000000001", "end", False),
    ],
)
def test_the_bounds_of_the_official_hours(stamp: str, stamps: str, inside: bool) -> None:
    table = pl.DataFrame({"entity": ["A"], "close": [1.0], "start": [stamp + "Z"]}).with_columns(
        pl.col("start").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="ns", time_zone="UTC")
    )
    if inside:
        assert intraday(table, 5, stamps=stamps).frame["session"].to_list() == [date(2019, 11, 27)]
    else:
        with pytest.raises(PriceDataError, match="outside the official hours"):
            intraday(table, 5, stamps=stamps)


def test_missing_bars_raise_or_are_listed() -> None:
    table = all_bars()
    holed = table.filter(
        ~pl.col("start").is_in([utc("2019-11-27T20:30"), utc("2019-11-29T14:30"), utc("2019-12-02T15:00")])
    )
    with pytest.raises(
        PriceDataError, match=r"3 stretches.*'A' lacks 2019-11-27 20:30:00 to 21:00:00 UTC, .*'no_trade'"
    ):
        intraday(holed, 30)
    history = intraday(holed, 30, gaps="drop")
    assert history.gaps.rows() == [
        ("A", date(2019, 11, 27), utc("2019-11-27T20:30"), utc("2019-11-27T21:00")),
        ("A", date(2019, 11, 29), utc("2019-11-29T14:30"), utc("2019-11-29T15:00")),
        ("A", date(2019, 12, 2), utc("2019-12-02T15:00"), utc("2019-12-02T15:30")),
    ]
    assert intraday(holed, 30, missing_bars="no_trade").gaps.is_empty()
    # A whole session without a bar is a gap all the same.
    without = table.filter(pl.col("start").dt.date() != date(2019, 11, 29))
    with pytest.raises(PriceDataError, match="'A' lacks 2019-11-29 14:30:00 to 18:00:00"):
        intraday(without, 30, missing_bars="no_trade")
    # A late start and an early end are none.
    assert intraday(table[5:30], 30).gaps.is_empty()


def test_halts_are_no_gaps() -> None:
    holed = all_bars().filter(~pl.col("start").is_between(utc("2019-11-27T15:30"), utc("2019-11-27T17:00")))
    halted = halt_table([("A", utc("2019-11-27T15:30"), utc("2019-11-27T17:30"))])
    assert intraday(holed, 30, halts=halted).gaps.is_empty()
    assert intraday(holed, 30, halts=halted.with_columns(entity=pl.lit(None, pl.String))).gaps.is_empty()
    other = halted.with_columns(entity=pl.lit("B"))
    assert intraday(holed, 30, halts=other, gaps="drop").gaps.height == 1
    # A halt that lifts at 12:10 leaves the bars of 12:10 to 12:30 missing, and one inside leaves two gaps.
    part = halt_table([("A", utc("2019-11-27T15:40"), utc("2019-11-27T17:10"))])
    assert intraday(holed, 30, halts=part, gaps="drop").gaps.select("start_time", "end_time").rows() == [
        (utc("2019-11-27T15:30"), utc("2019-11-27T15:40")),
        (utc("2019-11-27T17:10"), utc("2019-11-27T17:30")),
    ]
    forever = halt_table([("A", utc("2019-11-27T15:30"), None)])
    assert intraday(holed, 30, halts=forever).gaps.is_empty()


def test_a_session_bar_missing_in_a_halt_is_no_gap() -> None:
    table = price_history({"A": [1.0, 2.0, 3.0]}, start="2019-11-26").frame.select(
        "entity", "session", "close"
    )
    holed = table.filter(pl.col("session") != date(2019, 11, 27))
    whole = halt_table([("A", utc("2019-11-27T14:30"), utc("2019-11-27T21:00"))])
    history = PriceHistory.from_frame(holed, halts=whole)
    assert history.gaps.is_empty()
    assert {name: part.tolist() for name, part in history.halted_sessions.items()} == {"A": [1]}
    short = halt_table([("A", utc("2019-11-27T14:30"), utc("2019-11-27T20:59"))])
    with pytest.raises(PriceDataError, match="'A' lacks 2019-11-27"):
        PriceHistory.from_frame(holed, halts=short)
    # Two halts that touch are one.
    two = halt_table(
        [
            ("A", utc("2019-11-27T18:00"), utc("2019-11-27T21:00")),
            ("A", utc("2019-11-27T14:30"), utc("2019-11-27T18:00")),
        ]
    )
    assert PriceHistory.from_frame(holed, halts=two).halts.height == 1
    assert PriceHistory.from_frame(holed, halts=two).gaps.is_empty()


def test_session_bars_from_intraday_bars() -> None:
    table = all_bars().with_columns(
        o=pl.col("close") - 0.5, h=pl.col("close") + 1, l=pl.col("close") - 1, v=pl.lit(10.0)
    )
    figures = {"open": "o", "high": "h", "low": "l", "volume": "v"}
    made = intraday(table, 30, latency="45s", **figures).to_sessions()
    assert made.frame.drop("event_time", "available_at").rows() == [
        ("A", date(2019, 11, 27), 99.5, 113.0, 99.0, 112.0, 130.0),
        ("A", date(2019, 11, 29), 112.5, 120.0, 112.0, 119.0, 70.0),
        ("A", date(2019, 12, 2), 119.5, 133.0, 119.0, 132.0, 130.0),
    ]
    assert (made.frequency, made.bar_length, made.latency) == ("session", None, 45 * 10**9)
    direct = PriceHistory.from_frame(
        made.frame, open="open", high="high", low="low", volume="volume", latency="45s"
    )
    assert_frame_equal(made.frame, direct.frame)
    assert direct.to_sessions() is direct
    unknown = table.with_columns(v=pl.when(pl.col("close") > 100).then(pl.col("v")))
    assert intraday(unknown, 30, volume="v").to_sessions().frame["volume"].to_list() == [None, 70.0, 130.0]


def test_incomplete_sessions_are_refused_or_left_out() -> None:
    table = all_bars()
    for missing, session in (("2019-11-27T14:30", 27), ("2019-11-29T17:30", 29), ("2019-12-02T20:30", 2)):
        holed = table.filter(pl.col("start") != utc(missing))
        history = intraday(holed, 30, gaps="drop")
        with pytest.raises(PriceDataError, match=rf"incomplete: 1 row.*session=2019-1.-0?{session}"):
            history.to_sessions()
        left = history.to_sessions(gaps="drop")
        assert session not in [day.day for day in left.frame["session"]]
        assert left.frame.height == 2
        assert [day.day for day in left.gaps["session"]] == ([29] if session == 29 else [])
    # Where absent bars mean no trade, only the end of the data tells.
    early = table.filter(pl.col("start") < utc("2019-12-02T20:00"))
    quiet = intraday(early, 30, missing_bars="no_trade")
    with pytest.raises(PriceDataError, match=r"incomplete.*2019-12-02 20:00"):
        quiet.to_sessions()
    assert quiet.to_sessions(gaps="drop").frame["close"].to_list() == [112.0, 119.0]
    thin = table.filter(pl.col("start").dt.minute() == 0)
    with pytest.raises(PriceDataError, match="incomplete"):  # the last bar ends at 20:30
        intraday(thin, 30, missing_bars="no_trade").to_sessions()
    with pytest.raises(UsageError, match="gaps='fill'"):
        quiet.to_sessions(gaps="fill")  # type: ignore[arg-type]
    assert intraday(table, 30).cut(0).to_sessions().frame.is_empty()


def test_market_events_ask_for_session_bars() -> None:
    history = intraday(all_bars(), 30)
    with pytest.raises(PriceDataError, match=r"prices holds intraday bars.*prices\.to_sessions\(\)"):
        market_events(history)
    sessions = history.to_sessions()
    with pytest.raises(PriceDataError, match=r"index holds intraday bars.*index\.to_sessions\(\)"):
        market_events(sessions, index=history)
    assert len(market_events(sessions)) == 3


def test_cut_equals_building_from_the_earlier_bars() -> None:
    holed = all_bars().filter(~pl.col("start").is_in([utc("2019-11-27T17:00"), utc("2019-11-29T15:00")]))
    history = intraday(holed, 30, gaps="drop", latency="60s")
    for t in history.frame["available_at"].to_physical().to_list()[1:]:
        for shift in (0, 1):
            rows = history.frame["available_at"].to_physical() < t + shift
            rebuilt = intraday(holed.filter(rows), 30, gaps="drop", latency="60s")
            assert_frame_equal(history.cut(t + shift).frame, rebuilt.frame)
            assert_frame_equal(history.cut(t + shift).gaps, rebuilt.gaps)
    assert history.cut(0).frame.is_empty()


def test_stale_runs() -> None:
    history = price_history({"A": [1.0, 1.0, 1.0, 2.0, 2.0], "B": [2.0, 2.0, 2.0, 3.0]})
    runs = history.stale_runs(3)
    assert runs.select("entity", "close", "n_bars").rows() == [("A", 1.0, 3), ("B", 2.0, 3)]
    assert runs["first"].to_list() == [history.frame["event_time"][0], history.frame["event_time"][5]]
    assert history.stale_runs(4).is_empty()
    for wrong in (1, 2.5, True):
        with pytest.raises(UsageError, match="at_least="):
            history.stale_runs(wrong)  # type: ignore[arg-type]


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"frequency": "daily"}, UsageError, "frequency='daily' is unknown; use 'session' or 'intraday'"),
    ({"outside": "clip"}, UsageError, "outside='clip'"),
    ({"missing_bars": "fill"}, UsageError, "missing_bars='fill'"),
    ({"zero_volume": "drop"}, UsageError, "zero_volume='drop'"),
    ({"zero_volume": "halt"}, UsageError, "needs volume="),
    ({"bar_length": None}, UsageError, "needs bar_length="),
    ({"bar_length": None, "stamps": "end"}, UsageError, "need bar_length=.*missing_bars='no_trade'"),
    ({"bar_length": "-5min"}, TimestampError, "not positive"),
    ({"bar_length": "45min"}, PriceDataError, "begin before the last one.*has ended"),
    ({"stamps": "session", "event_time": None}, UsageError, "frequency='intraday' needs event_time="),
    ({"session": "entity"}, UsageError, "no session="),
    ({"frequency": "session"}, PriceDataError, "more than one bar.*frequency='intraday'"),
    ({"frequency": "session", "outside": "keep"}, UsageError, "frequency='intraday' with them"),
]


@pytest.mark.parametrize(("options", "error", "words"), BAD)
def test_bad_requests(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        intraday(all_bars(), 30, **options)


def test_bad_tables() -> None:
    twice = pl.concat([all_bars(), all_bars()[:1]])
    with pytest.raises(PriceDataError, match=r"the same end.*keep one"):
        intraday(twice, 30)
    stamps = [utc("2019-11-27T15:00"), utc("2019-11-27T14:00")]
    with pytest.raises(PriceDataError, match="do not end after they start"):
        intraday(all_bars(), 30, halts=halt_table([("A", stamps[0], stamps[1])]))
    with pytest.raises(PriceDataError, match="'end'"):
        intraday(all_bars(), 30, halts=halt_table([]).drop("end"))
    naive = pl.DataFrame({"entity": ["A"], "start": [datetime(2019, 11, 27, 15)], "end": [None]})
    with pytest.raises(TimestampError, match="naive"):
        intraday(all_bars(), 30, halts=naive)
    volume = all_bars().with_columns(v=pl.when(pl.col("close") > 100).then(1.0))
    with pytest.raises(PriceDataError, match="'v' has no volume: 1 row"):
        intraday(volume, 30, volume="v", zero_volume="halt")


@settings(max_examples=40, deadline=None)
@given(data=st.data(), place=st.sampled_from(["XNYS", "XHKG", "24/7"]), step=st.sampled_from([30, 60]))
def test_gaps_equal_a_loop_over_the_minutes(data: st.DataObject, place: str, step: int) -> None:
    days = {
        "XNYS": (date(2021, 11, 24), date(2021, 11, 29)),
        "XHKG": (date(2020, 1, 23), date(2020, 1, 29)),
        "24/7": (date(2021, 3, 13), date(2021, 3, 14)),
    }[place]
    bars = grid(place, *days, step)
    kept = sorted(data.draw(st.sets(st.integers(0, len(bars) - 1), min_size=1, max_size=len(bars))))
    spells = data.draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300)), max_size=3).map(
            lambda found: [
                (bars[0][0] + timedelta(minutes=17 * a), bars[0][0] + timedelta(minutes=17 * a + b))
                for a, b in found
            ]
        )
    )
    halts = halt_table([("A", start, end) for start, end in spells])
    table = bar_table(("A", bars[n][0], 1.0) for n in kept)
    history = intraday(table, step, calendar=place, gaps="drop", halts=halts)
    covered = {
        minute
        for n in kept
        for minute in (bars[n][0] + timedelta(minutes=m) for m in range(step))
        if minute < bars[n][1]
    }
    first, last = bars[kept[0]][0], bars[kept[-1]][1]
    expected = {
        (session, minute)
        for session, minute in official_minutes(place, *days)
        if first <= minute < last
        and minute not in covered
        and not any(start <= minute < end for start, end in spells)
    }
    found = set()
    for _, session, start, end in history.gaps.iter_rows():
        while start < end:
            assert (session, start) not in found
            found.add((session, start))
            start += timedelta(minutes=1)
    assert found == expected
    assert history.frame["event_time"].to_list() == [bars[n][1].astimezone(UTC) for n in kept]


def test_a_history_says_what_it_holds() -> None:
    assert repr(intraday(all_bars(), 30)) == (
        "PriceHistory(33 intraday bars, 1 entities, calendar='XNYS', 0 gaps, adjustment='none')"
    )


def test_halts_by_date_and_of_strangers() -> None:
    row = {"entity": ["A"], "start": ["2019-11-27"], "end": ["2019-11-28"]}
    daily = intraday(all_bars(), 30, halts=pl.DataFrame(row))
    assert daily.halts.select("start", "end").row(0) == (utc("2019-11-27T05:00"), utc("2019-11-28T05:00"))
    stamps = {"start": "2019-11-27T10:00-05:00", "end": "2019-11-27T11:00-05:00"}
    timed = intraday(all_bars(), 30, halts=pl.DataFrame({"entity": ["A"], **stamps}))
    assert timed.halts.select("start", "end").row(0) == (utc("2019-11-27T15:00"), utc("2019-11-27T16:00"))
    for never in (pl.lit(None, pl.String), pl.lit("9999-12-31")):
        endless = intraday(all_bars(), 30, halts=pl.DataFrame(row).with_columns(end=never))
        assert endless.halts["end"].to_list() == [None]
    begin, end = utc("2019-11-27T15:00"), utc("2019-11-27T16:00")
    with pytest.raises(PriceDataError, match="halts name an entity 'a', and the prices have 'A'"):
        intraday(all_bars(), 30, halts=halt_table([("a", begin, end)]))
    with pytest.warns(UserWarning, match="halts name 1 of 2 entities without prices.*'ZZ'"):
        told = intraday(all_bars(), 30, halts=halt_table([("ZZ", begin, end), ("A", begin, end)]))
    assert told.halts["entity"].to_list() == ["A", "ZZ"]
