from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import LabelError, TimestampError
from quantattn.pit import (
    CorporateActions,
    Delistings,
    ForecastClock,
    Labels,
    PriceHistory,
    TradingCalendar,
    direction,
    log_return,
    realised_variance,
    simple_return,
)
from tests.pit.build import (
    at,
    event_log,
    instant,
    labels,
    price_history,
    price_table,
    random_closes,
    sessions,
    times,
)

CLOSES = [100.0, 110.0, 99.0, 103.0, 101.0, 104.0]
# XNYS: Mon 25, Tue 26, Wed 27 November, Fri 29 (half day), Mon 2 and Tue 3 December 2019.


def prices(closes: Any = None, **options: Any) -> PriceHistory:
    return price_history(closes or {"A": CLOSES}, start="2019-11-25", **options)


def clock(*stamps: str) -> ForecastClock:
    return ForecastClock.explicit([stamp + "Z" for stamp in stamps])


def test_realised_variance_by_hand() -> None:
    made = realised_variance(prices(), clock("2019-11-26T20:45"), horizon=2, log=False)
    row = made.frame.row(0, named=True)
    # Entry is the close of the 26th; its own return, +10 %, is not part of the target.
    assert row["y_true"] == pytest.approx(math.log(99 / 110) ** 2 + math.log(103 / 99) ** 2)
    assert made.frame.select(pl.exclude("entity", "horizon", "y_true").to_physical()).row(0) == (
        instant("2019-11-26T20:45"),
        instant("2019-11-26T21:00"),
        instant("2019-11-29T18:00"),
        instant("2019-11-29T18:01"),
    )
    assert (row["entity"], row["horizon"]) == ("A", 2)
    logged = realised_variance(prices(), clock("2019-11-26T20:45"), horizon=2)
    assert logged.frame["y_true"][0] == pytest.approx(math.log(row["y_true"]))
    assert (made.name, logged.name) == ("realised_variance", "log_realised_variance")
    assert (made.kind, made.horizon, made.entities) == ("variance", 2, ("A",))


def test_returns_and_directions_by_hand() -> None:
    when = clock("2019-11-25T22:00", "2019-11-26T22:00", "2019-11-27T22:00")
    # Entries at 110, 99 and 103; two sessions later 103, 101 and 104.
    expected = [103 / 110 - 1, 101 / 99 - 1, 104 / 103 - 1]
    assert simple_return(prices(), when, horizon=2).frame["y_true"].to_list() == pytest.approx(expected)
    assert log_return(prices(), when, horizon=2).frame["y_true"].to_list() == pytest.approx(
        [math.log1p(value) for value in expected]
    )
    assert direction(prices(), when, horizon=2).frame["y_true"].to_list() == [-1.0, 1.0, 1.0]
    banded = direction(prices(), when, horizon=2, dead_band=0.015)
    assert banded.frame["y_true"].to_list() == [-1.0, 1.0, 0.0]


def test_the_dead_band_includes_its_bounds() -> None:
    when = clock("2019-11-25T20:00")
    for closes, expected in (([1.0, 1.5], 0.0), ([1.0, 0.5], 0.0), ([1.0, 1.51], 1.0), ([1.0, 0.49], -1.0)):
        made = direction(prices({"A": closes}), when, horizon=1, dead_band=0.5)
        assert made.frame["y_true"].to_list() == [expected]


@pytest.mark.parametrize(
    ("stamp", "lag", "entry"),
    [
        ("2019-11-26T20:59:59.999999999", "0s", "2019-11-26T21:00"),
        # The close at the very instant of the forecast is not tradable any more.
        ("2019-11-26T21:00:00", "0s", "2019-11-27T21:00"),
        ("2019-11-26T20:45:00", "15min", "2019-11-27T21:00"),
        ("2019-11-26T20:45:00", "14min59s", "2019-11-26T21:00"),
        # 15 minutes before a half day's close; an hour later that session is over.
        ("2019-11-29T17:45:00", "0s", "2019-11-29T18:00"),
        ("2019-11-29T18:45:00", "0s", "2019-12-02T21:00"),
        # On the holiday itself.
        ("2019-11-28T15:00:00", "0s", "2019-11-29T18:00"),
    ],
)
def test_entry_is_strictly_after_the_forecast_and_the_lag(stamp: str, lag: str, entry: str) -> None:
    made = simple_return(prices(), clock(stamp), horizon=1, execution_lag=lag)
    assert made.frame["label_start_time"].to_physical().to_list() == [instant(entry)]
    assert made.dropped.is_empty()


def test_labels_that_cannot_be_measured_say_why() -> None:
    history = prices(
        {
            "A": CLOSES,
            "ENDED": [1.0, 1.1, 1.2],
            "GAP": [1.0, 1.1, None, 1.2, 1.3, 1.4],
            "LATE": [None, None, 1.0, 1.1, 1.2, 1.3],
            "STILL": [1.0, 1.0, 1.0, 1.0, 1.0, 1.1],
        },
        gaps="drop",
    )
    stamps = [
        "2019-11-25T20:00",
        "2019-11-26T20:00",
        "2019-11-27T20:00",
        "2019-11-29T17:00",
        "2019-12-02T20:00",
        "2019-12-03T22:00",
    ]
    made = realised_variance(history, clock(*stamps), horizon=2)
    reasons = {
        entity: [
            next(iter(made.dropped.filter(entity=entity, forecast_time=stamp)["reason"]), "kept")
            for stamp in clock(*stamps).times
        ]
        for entity in history.entities
    }
    assert reasons == {
        "A": ["kept", "kept", "kept", "kept", "incomplete", "incomplete"],
        "ENDED": ["kept", "no_price", "no_price", "no_price", "incomplete", "incomplete"],
        # The missing Wednesday breaks the windows that start on Monday, Tuesday and Wednesday, no later one.
        "GAP": ["gap", "gap", "gap", "kept", "incomplete", "incomplete"],
        "LATE": ["no_price", "no_price", "kept", "kept", "incomplete", "incomplete"],
        "STILL": ["zero_variance", "zero_variance", "zero_variance", "kept", "incomplete", "incomplete"],
    }
    assert made.entities == ("A", "ENDED", "GAP", "LATE", "STILL")
    assert made.dropped_counts == {"gap": 3, "incomplete": 10, "no_price": 5, "zero_variance": 3}
    assert made.frame.height + made.dropped.height == 5 * 6
    assert 0.0 in realised_variance(history, clock(*stamps), horizon=2, log=False).frame["y_true"].to_list()


def test_a_forecast_long_before_the_first_bar_has_no_price() -> None:
    made = simple_return(
        prices(), clock("2019-11-01T12:00", "2019-11-22T20:59", "2019-11-22T21:00"), horizon=1
    )
    assert made.frame["forecast_time"].to_physical().to_list() == [instant("2019-11-22T21:00")]
    assert made.dropped["reason"].to_list() == ["no_price", "no_price"]


steps = st.lists(st.one_of(st.none(), st.sampled_from([10.0, 10.5, 11.0])), min_size=1, max_size=9).filter(
    lambda column: any(value is not None for value in column)
)


@settings(max_examples=150, deadline=None)
@given(
    columns=st.lists(steps, min_size=1, max_size=3),
    horizon=st.integers(1, 3),
    lag=st.sampled_from([0, 1, 15 * 60]),
    moments=st.lists(
        st.tuples(st.integers(-1, 9), st.sampled_from([-900, -1, 0, 1, 3600])),
        min_size=1,
        max_size=6,
        unique=True,
    ),
)
def test_labels_equal_a_loop_over_the_sessions(
    columns: list[list[float | None]], horizon: int, lag: int, moments: list[tuple[int, int]]
) -> None:
    closes = dict(zip("ABC", columns, strict=False))
    history = prices(closes, gaps="drop")
    # Session 0 of the oracle is the one before the table's first.
    ends = [
        stamp // 10**9
        for stamp in TradingCalendar("XNYS")
        .sessions(
            price_table({"A": [1.0]}, "2019-11-22")["session"][0],
            price_table({"A": [1.0]}, "2019-12-16")["session"][0],
        )["close"]
        .to_physical()
    ]
    seconds = sorted({ends[number + 1] + shift for number, shift in moments})
    when = ForecastClock(
        pl.Series([s * 10**9 for s in seconds]).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    )
    last = max(n for column in columns for n, value in enumerate(column) if value is not None)
    expected: dict[tuple[str, int], Any] = {}
    for entity, column in closes.items():
        there = [n for n, value in enumerate(column) if value is not None]
        for second in seconds:
            # The first session, with a bar or not, that closes after the forecast and the lag.
            entry = next(n for n in range(-1, len(ends) - 1) if ends[n + 1] > second + lag)
            window = range(entry, entry + horizon + 1)
            values = [column[n] if 0 <= n < len(column) else None for n in window]
            if None not in values:
                total = sum(math.log(b / a) ** 2 for a, b in pairwise(values) if a and b)
                expected[entity, second] = total if total > 0 else "zero_variance"
            elif entry < there[0]:
                expected[entity, second] = "no_price"
            elif values[0] is None and entry < there[-1]:
                expected[entity, second] = "gap"
            elif window[-1] > last:
                expected[entity, second] = "incomplete"
            elif window[-1] > there[-1]:
                expected[entity, second] = "no_price"
            else:
                expected[entity, second] = "gap"
    made = realised_variance(history, when, horizon=horizon, log=False, execution_lag=f"{lag}s")
    found: dict[tuple[str, int], Any] = {}
    for entity, moment, value, start, end in made.frame.select(
        "entity",
        pl.col("forecast_time").to_physical(),
        "y_true",
        pl.col("label_start_time").to_physical(),
        pl.col("label_end_time").to_physical(),
    ).iter_rows():
        assert start > moment + lag * 10**9
        entry = next(n for n in range(len(ends)) if ends[n] * 10**9 > moment + lag * 10**9)
        assert (start, end) == (ends[entry] * 10**9, ends[entry + horizon] * 10**9)
        found[entity, moment // 10**9] = value if value > 0 else "zero_variance"
    for entity, moment, reason in made.dropped.select(
        "entity", pl.col("forecast_time").to_physical(), "reason"
    ).iter_rows():
        found[entity, moment // 10**9] = reason
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-12)), key


@pytest.mark.parametrize("seed", range(3))
def test_labels_on_cut_prices_are_the_known_labels(seed: int) -> None:
    history = price_history({"A": random_closes(seed, 60), "B": [None, *random_closes(seed + 9, 50)]})
    when = ForecastClock.sessions(start="2019-01-02", end="2019-04-30", every="week")
    made = realised_variance(history, when)
    for t in history.frame["available_at"].to_physical().to_list()[3:60:8]:
        for shift in (0, 1):
            known = made.frame.filter(pl.col("label_available_at").to_physical() < t + shift)
            rebuilt = realised_variance(history.cut(t + shift), when).frame
            assert_frame_equal(rebuilt, known, check_exact=True)


def test_no_bars_give_no_labels() -> None:
    made = realised_variance(prices().cut(0), clock("2019-11-26T20:45"))
    assert made.frame.is_empty()
    assert made.dropped.is_empty()
    assert made.entities == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "horizon=0"),
        ({"horizon": 2.5}, "horizon=2.5"),
        ({"horizon": True}, "horizon=True"),
        ({"execution_lag": "-1s"}, "execution_lag='-1s'"),
    ],
)
def test_impossible_targets_are_refused(options: dict[str, Any], words: str) -> None:
    for function in (realised_variance, simple_return, log_return, direction):
        with pytest.raises(LabelError, match=words):
            function(prices(), clock("2019-11-26T20:45"), **options)


def test_other_bad_arguments() -> None:
    with pytest.raises(LabelError, match=r"dead_band=-0\.1"):
        direction(prices(), clock("2019-11-26T20:45"), dead_band=-0.1)
    with pytest.raises(TimestampError, match="execution_lag='5'"):
        log_return(prices(), clock("2019-11-26T20:45"), execution_lag="5")
    with pytest.raises(TimestampError, match="naive"):
        log_return(prices(), times([0]).dt.replace_time_zone(None))


@pytest.mark.parametrize(
    ("column", "second", "words"),
    [
        ("label_start_time", 7, "'label_start_time' of the labels is not after 'forecast_time'"),
        ("label_end_time", 7, "'label_end_time' of the labels is before 'label_start_time'"),
        ("label_available_at", 16, "'label_available_at' of the labels is before 'label_end_time'"),
    ],
)
def test_labels_out_of_order_are_refused(column: str, second: int, words: str) -> None:
    # Made at 7: it starts at 8, ends at 17 and is known at 18.
    good = labels([("A", 7)])
    wrong = good.frame.with_columns(times([second]).alias(column))
    with pytest.raises(LabelError, match=words):
        Labels(wrong, good.dropped, "x", 5, "return", ("A",))


def test_labels_of_the_users_own_are_checked() -> None:
    good = labels([("A", 1), ("B", 1), ("A", 2)])

    def made(frame: pl.DataFrame, **changes: Any) -> Labels:
        values = {
            "dropped": good.dropped,
            "name": "x",
            "horizon": 5,
            "kind": "return",
            "entities": ("A", "B"),
        }
        return Labels(frame, **{**values, **changes})

    assert made(good.frame).frame.equals(good.frame)
    for frame, changes, words in (
        (
            good.frame.with_columns(y_true=float("nan") * pl.col("y_true")),
            {},
            "'y_true' of the labels is not finite",
        ),
        (
            good.frame.with_columns(y_true=pl.lit(None, dtype=pl.Float64)),
            {},
            "'y_true' of the labels is null",
        ),
        (
            good.frame.with_columns(label_end_time=pl.lit(None, dtype=good.frame.schema["label_end_time"])),
            {},
            "'label_end_time' of the labels is null",
        ),
        (good.frame.with_columns(pl.col("horizon").cast(pl.Int64)), {}, "frame of the labels has columns"),
        (good.frame.drop("label_end_time"), {}, "frame of the labels has columns"),
        (pl.concat([good.frame, good.frame.head(1)]), {}, "more than one label"),
        (good.frame, {"entities": ("A",)}, "lacks .'B'."),
        (good.frame, {"kind": "price"}, "kind='price'"),
    ):
        with pytest.raises(LabelError, match=words):
            made(frame, **changes)


def test_cut_keeps_labels_made_by_then() -> None:
    cut = labels([("A", 1), ("B", 2), ("A", 3)]).cut(at(2))
    assert cut.frame["entity"].to_list() == ["A", "B"]
    assert cut.entities == ("A", "B")


def test_bars_that_end_before_the_close_are_entered_at_their_own_ends() -> None:
    # XNYS closes at 21:00 UTC; A's bars are of 20:55, B's of the close.
    days = sessions("2019-12-02", 6)
    stamps = [datetime(day.year, day.month, day.day, 20, 55, tzinfo=UTC) for day in days]
    late = [stamp + timedelta(minutes=5) for stamp in stamps]
    table = pl.DataFrame(
        {
            "entity": ["A"] * 6 + ["B"] * 6,
            "stamp": stamps + late,
            "close": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] * 2,
        }
    )
    history = PriceHistory.from_frame(table, event_time="stamp", stamps="end")
    when = ForecastClock.explicit([stamps[1] + timedelta(minutes=2), stamps[2] - timedelta(minutes=1)])
    made = simple_return(history, when, horizon=2)
    assert made.dropped.is_empty()
    assert made.frame.select("entity", "y_true", "label_start_time").rows() == [
        ("A", 3.0, stamps[2]),
        ("B", 3.0, late[1]),
        ("A", 3.0, stamps[2]),
        ("B", 3.0, late[2]),
    ]
    # A missing bar is still a gap.
    holed = PriceHistory.from_frame(
        table.filter((pl.col("entity") == "B") | (pl.col("stamp") != stamps[2])),
        event_time="stamp",
        stamps="end",
        gaps="drop",
    )
    assert simple_return(holed, when, horizon=2).dropped_counts == {"gap": 2}


def test_side_tables_of_strangers_are_told_of() -> None:
    history = prices()
    actions = CorporateActions.from_frame(
        pl.DataFrame({"entity": ["a"], "kind": ["split"], "ex_date": ["2019-01-04"], "value": [2.0]})
    )
    when = clock("2019-01-02T20:00")
    with pytest.raises(LabelError, match="actions name an entity 'a', and the prices have 'A'"):
        simple_return(history, when, horizon=1, actions=actions)
    gone = Delistings.from_frame(
        pl.DataFrame(
            {
                "entity": ["Q"],
                "session": ["2019-01-04"],
                "return": [-1.0],
                "available_at": ["2019-01-07"],
            }
        ),
        last_session="session",
    )
    with pytest.warns(UserWarning, match="delistings name 1 of 1 entities without prices.*'Q'"):
        simple_return(history, when, horizon=1, delistings=gone)
    with pytest.raises(LabelError, match="prices is a NoneType"):
        simple_return(None, when, horizon=1)  # type: ignore[arg-type]


def test_forecasts_at_events_of_the_entity_itself() -> None:
    log = event_log(
        [
            {"entity": "A", "available": 0},
            {"entity": "B", "available": 86_400},
            {"entity": None, "available": 172_800},
        ]
    )
    per_entity = ForecastClock.at_events(log, per_entity=True)
    every = ForecastClock.at_events(log)
    assert per_entity.times.equals(every.times)
    history = price_history({"A": [1.0] * 30, "B": [2.0] * 30}, start="2019-12-16")
    made = simple_return(history, per_entity, horizon=2)
    first, second, third = every.times.to_list()
    wanted = {("A", first), ("B", second), ("A", third), ("B", third)}
    assert made.dropped.is_empty()
    assert {*made.frame.select("entity", "forecast_time").iter_rows()} == wanted
    assert simple_return(history, every, horizon=2).frame.height == 6
    known = simple_return(history, per_entity.cut(at(86_400) + 1), horizon=2).frame
    assert {*known.select("entity", "forecast_time").iter_rows()} == {("A", first), ("B", second)}
    # Far beyond the bars only the pairs are dropped.
    none = simple_return(history.cut(at(-3_000_000)), per_entity, horizon=2)
    assert none.frame.is_empty()
    assert none.dropped.height == (4 if none.entities else 0)
