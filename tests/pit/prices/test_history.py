from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from quantattn.errors import CalendarError, DataError, PriceDataError, TimestampError, UsageError
from quantattn.pit import TIME, PriceHistory
from tests.pit.build import instant, price_history, price_table

TABLE = pl.DataFrame(
    {
        "entity": ["B", "A", "A", "B"],
        "session": [date(2019, 11, 29), date(2019, 11, 27), date(2019, 11, 29), date(2019, 11, 27)],
        "close": [4.0, 1.0, 2.0, 3.0],
    }
)


def moments(frame: pl.DataFrame, column: str) -> list[int]:
    return frame[column].to_physical().to_list()


def test_bars_end_at_the_official_close_and_are_known_after_the_latency() -> None:
    history = PriceHistory.from_frame(TABLE, latency="90s")
    assert history.frame.columns == ["entity", "session", "event_time", "available_at", "close"]
    assert history.frame["entity"].to_list() == ["A", "A", "B", "B"]
    assert history.frame["close"].to_list() == [1.0, 2.0, 3.0, 4.0]
    # The day after Thanksgiving closes at 13:00 in New York.
    closes = [instant("2019-11-27T21:00:00"), instant("2019-11-29T18:00:00")]
    assert moments(history.frame, "event_time") == closes * 2
    assert moments(history.frame, "available_at") == [close + 90 * 10**9 for close in closes] * 2
    assert history.frame.schema["event_time"] == TIME
    assert (history.entities, history.calendar, history.latency) == (("A", "B"), "XNYS", 90 * 10**9)
    assert history.gaps.is_empty()


def test_bars_follow_daylight_saving() -> None:
    table = price_table({"A": [1.0, 2.0]}, start="2021-03-12")
    history = PriceHistory.from_frame(table)
    assert moments(history.frame, "event_time") == [instant("2021-03-12T21:00"), instant("2021-03-15T20:00")]


@pytest.mark.parametrize(
    "kind", ["frame", "lazy", "pandas", "pandas index", "arrow", "text", "midnight", "zoned"]
)
def test_any_table_of_the_same_bars_gives_the_same_history(kind: str) -> None:
    table: Any = TABLE
    if kind == "lazy":
        table = TABLE.lazy()
    elif kind == "pandas":
        table = TABLE.to_pandas()
    elif kind == "pandas index":
        table = TABLE.to_pandas().assign(session=lambda t: pd.to_datetime(t["session"])).set_index("session")
    elif kind == "arrow":
        table = TABLE.to_arrow()
    elif kind == "text":
        table = TABLE.with_columns(pl.col("session").cast(pl.String))
    elif kind == "midnight":
        table = TABLE.with_columns(pl.col("session").cast(pl.Datetime("ms")))
    elif kind == "zoned":
        local = pl.col("session").cast(pl.Datetime("us")).dt.replace_time_zone("America/New_York")
        table = TABLE.with_columns(local)
    assert_frame_equal(PriceHistory.from_frame(table).frame, PriceHistory.from_frame(TABLE).frame)


def test_one_entity_is_named_by_the_caller_and_a_date_column_is_found() -> None:
    table = TABLE.filter(pl.col("entity") == "A").drop("entity").rename({"session": "date", "close": "px"})
    history = PriceHistory.from_frame(table, entity=None, name="INDEX", close="px")
    assert history.entities == ("INDEX",)
    assert history.frame["close"].to_list() == [1.0, 2.0]


def test_optional_columns_are_kept_as_numbers_and_may_be_null() -> None:
    table = TABLE.with_columns(
        o=pl.Series([1, None, 2, 3]), h=pl.lit(9), l=pl.lit(0.5), v=pl.Series([0, 10, None, 5])
    )
    frame = PriceHistory.from_frame(table, open="o", high="h", low="l", volume="v").frame
    assert frame.columns[4:] == ["open", "high", "low", "close", "volume"]
    assert set(frame.dtypes[4:]) == {pl.Float64}
    assert frame["open"].to_list() == [None, 2.0, 3.0, 1.0]
    assert frame["volume"].to_list() == [10.0, None, 5.0, 0.0]


def test_declared_ends_and_starts() -> None:
    stamped = pl.DataFrame(
        {
            "entity": ["A", "A"],
            "stamp": [datetime(2019, 11, 27, 9, 30), datetime(2019, 11, 29, 9, 30)],
            "close": [1, 2],
        }
    )
    history = PriceHistory.from_frame(
        stamped,
        event_time="stamp",
        stamps="start",
        bar_length="210min",
        time_zone="America/New_York",
        latency="0s",
    )
    assert moments(history.frame, "event_time") == [instant("2019-11-27T18:00"), instant("2019-11-29T18:00")]
    assert history.frame["session"].to_list() == [date(2019, 11, 27), date(2019, 11, 29)]
    assert history.frame["available_at"].to_list() == history.frame["event_time"].to_list()
    ended = stamped.with_columns(
        (pl.col("stamp") + pl.duration(minutes=210)).dt.replace_time_zone("America/New_York")
    )
    assert_frame_equal(
        PriceHistory.from_frame(ended, event_time="stamp", stamps="end", latency="0s").frame, history.frame
    )


def test_a_bar_that_ends_at_midnight_belongs_to_the_day_before() -> None:
    stamped = pl.DataFrame({"entity": ["A"], "stamp": [datetime(2020, 1, 3)], "close": [1.0]})
    history = PriceHistory.from_frame(stamped, event_time="stamp", stamps="end", time_zone="America/New_York")
    assert history.frame["session"].to_list() == [date(2020, 1, 2)]
    assert history.frame["event_time"].to_list() == [datetime(2020, 1, 2, 21, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("stamps", "hour", "minute", "options"),
    [("start", 9, 30, {"bar_length": "390min"}), ("end", 16, 0, {})],
)
def test_a_bar_stamped_past_an_early_close_ends_at_that_close(
    stamps: Any, hour: int, minute: int, options: dict[str, Any]
) -> None:
    # The exchange closed at 13:00, 18:00 UTC, on 2023-11-24.
    days = [date(2023, 11, day) for day in (22, 24, 27, 28)]
    table = pl.DataFrame(
        {
            "entity": ["A"] * 4,
            "session": days,
            "stamp": [datetime(day.year, day.month, day.day, hour, minute) for day in days],
            "close": [1.0, 2.0, 3.0, 4.0],
        }
    )
    zone = "America/New_York"
    declared: Any = {"event_time": "stamp", "stamps": stamps, "time_zone": zone, **options}
    stamped = PriceHistory.from_frame(table.drop("session"), **declared)
    assert_frame_equal(stamped.frame, PriceHistory.from_frame(table.drop("stamp")).frame)
    assert stamped.frame["event_time"][1] == datetime(2023, 11, 24, 18, tzinfo=UTC)
    only = PriceHistory.from_frame(table[1:2].drop("session"), **declared)
    assert only.frame["event_time"].to_list() == [datetime(2023, 11, 24, 18, tzinfo=UTC)]


def test_a_bar_that_ends_after_every_close_is_refused() -> None:
    table = pl.DataFrame({"entity": ["A"], "stamp": [datetime(2023, 11, 27, 16, 15)], "close": [1.0]})
    with pytest.raises(PriceDataError, match=r"end after the official close of XNYS: 1 row.*21:15.*latency="):
        PriceHistory.from_frame(table, event_time="stamp", stamps="end", time_zone="America/New_York")


@pytest.mark.parametrize(
    ("name", "value", "word"), [("high", 0.99, "above high"), ("low", 1.01, "below low")]
)
def test_a_close_beyond_high_or_low_is_refused(name: Any, value: float, word: str) -> None:
    table = pl.DataFrame({"entity": ["A"], "session": [date(2020, 1, 2)], "close": [1.0], name: [value]})
    with pytest.raises(PriceDataError, match=f"close is {word}: 1 row.*adjusted alike"):
        PriceHistory.from_frame(table, **{name: name})
    # Vendors round what they adjust.
    near = table.with_columns(pl.lit(1.0 + (1e-7 if name == "low" else -1e-7)).alias(name))
    assert PriceHistory.from_frame(near, **{name: name}).frame.height == 1


def test_cut_keeps_what_was_known_strictly_before() -> None:
    history = price_history({"A": [1.0, 2.0, 3.0], "B": [None, None, 4.0]})
    second = history.frame["available_at"][1]
    assert second == history.frame.filter(close=2.0)["available_at"][0]
    exact = moments(history.frame, "available_at")[1]
    assert history.cut(exact).frame["close"].to_list() == [1.0]
    assert history.cut(exact + 1).frame["close"].to_list() == [1.0, 2.0]
    assert history.cut(exact + 1).entities == ("A",)
    assert history.cut(0).frame.is_empty()


def test_gaps_raise_or_are_listed() -> None:
    table = price_table(
        {"A": [1.0, None, None, 2.0, None], "B": [None, 1.0, 2.0, None, 3.0]}, start="2019-01-02"
    )
    with pytest.raises(
        PriceDataError, match=r"3 bars.*2 entities: 'A' lacks 2019-01-03, 2019-01-04 .*gaps='drop'"
    ):
        PriceHistory.from_frame(table)
    history = PriceHistory.from_frame(table, gaps="drop")
    assert history.gaps.rows() == [("A", date(2019, 1, 3)), ("A", date(2019, 1, 4)), ("B", date(2019, 1, 7))]
    cut = history.cut(instant("2019-01-07T23:00"))
    assert cut.gaps.rows() == [("A", date(2019, 1, 3)), ("A", date(2019, 1, 4))]
    rebuilt = PriceHistory.from_frame(table.filter(pl.col("session") <= date(2019, 1, 7)), gaps="drop")
    assert_frame_equal(cut.frame, rebuilt.frame)
    assert_frame_equal(cut.gaps, rebuilt.gaps)


def test_a_late_listing_and_an_early_end_are_no_gaps() -> None:
    history = price_history({"A": [1.0, 1.1, 1.2, 1.3], "B": [None, 2.0, 2.1]})
    assert history.gaps.is_empty()


def bad(column: str, value: Any, row: int = 2) -> pl.DataFrame:
    values = TABLE[column].to_list()
    values[row] = value
    return TABLE.with_columns(pl.Series(column, values, dtype=TABLE.schema[column]))


@pytest.mark.parametrize(
    ("table", "options", "error", "words"),
    [
        (
            bad("close", 0.0),
            {},
            PriceDataError,
            r"'close'.*not positive.*row 2 \(close=0.0\).*drop or correct",
        ),
        (bad("close", -1.0), {}, PriceDataError, r"'close'.*not positive"),
        (bad("close", float("nan")), {}, PriceDataError, r"'close'.*not finite"),
        (bad("close", float("inf")), {}, PriceDataError, r"'close'.*not finite"),
        (bad("close", None), {}, PriceDataError, r"'close' has no price"),
        (bad("entity", None), {}, PriceDataError, r"'entity' names no entity: 1 row, first row 2"),
        (bad("entity", "  "), {}, PriceDataError, r"names no entity"),
        (bad("entity", "A "), {}, PriceDataError, r"spaces around"),
        (bad("entity", "b"), {}, PriceDataError, r"differ only in case: 'B', 'b'"),
        (bad("session", None), {}, PriceDataError, r"'session' has no date"),
        (
            bad("session", date(2019, 11, 28)),
            {},
            PriceDataError,
            r"XNYS has no session.*2019-11-28.*calendar=",
        ),
        (
            bad("session", date(2019, 11, 27)),
            {},
            PriceDataError,
            r"more than one bar.*entity='A', session=2019-11-27",
        ),
        (TABLE.clear(), {}, PriceDataError, r"no rows"),
        (TABLE.drop("close"), {}, PriceDataError, r"close='close' is not a column"),
        (TABLE.rename({"close": "Close"}), {}, PriceDataError, r"pass close= with one of 'Close'$"),
        (TABLE.drop("session"), {}, PriceDataError, r"no column dates the bars"),
        (TABLE.with_columns(close=pl.lit("x")), {}, PriceDataError, r"'close' has type String"),
        (TABLE.with_columns(entity=pl.lit(1.5)), {}, PriceDataError, r"'entity' has type Float64"),
        (TABLE.with_columns(session=pl.lit("29/11/2019")), {}, PriceDataError, r"not an ISO date"),
        (TABLE.with_columns(session=pl.lit(3)), {}, PriceDataError, r"'session' has type Int32"),
        (
            TABLE.with_columns(session=pl.lit(datetime(2019, 11, 27, 16))),
            {},
            PriceDataError,
            r"'session' holds times of day.*event_time=",
        ),
        (TABLE.with_columns(v=pl.lit(-1)), {"volume": "v"}, PriceDataError, r"'v' is negative"),
        (
            TABLE.with_columns(h=pl.lit(1), l=pl.lit(2)),
            {"high": "h", "low": "l"},
            PriceDataError,
            r"low is above high",
        ),
        (TABLE, {"stamps": "begin"}, UsageError, r"stamps='begin'"),
        (TABLE, {"close": None}, UsageError, r"close=None names no column"),
        (TABLE, {"gaps": "fill"}, UsageError, r"gaps='fill'"),
        (TABLE, {"stamps": "end"}, UsageError, r"needs event_time="),
        (TABLE, {"event_time": "session"}, UsageError, r"event_time='session' is read only with"),
        (TABLE, {"entity": None}, UsageError, r"needs name="),
        (TABLE, {"name": "A"}, UsageError, r"entity=None"),
        (TABLE, {"latency": "-1s"}, UsageError, r"latency='-1s' is negative"),
        (TABLE, {"latency": "90000D"}, UsageError, r"latency='90000D' is longer than 3650 days"),
        (TABLE, {"latency": "soon"}, TimestampError, r"latency='soon'"),
        (TABLE, {"calendar": "MOON"}, CalendarError, r"calendar='MOON' is unknown"),
        ([1, 2], {}, PriceDataError, r"frame is a list"),
    ],
)
def test_bad_tables_are_refused(
    table: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        PriceHistory.from_frame(table, **options)


@pytest.mark.parametrize(
    ("stamp", "options", "error", "words"),
    [
        (
            datetime(2019, 11, 27, 16),
            {"stamps": "end"},
            TimestampError,
            r"'stamp' holds naive timestamps.*time_zone=",
        ),
        (None, {"stamps": "end", "time_zone": "UTC"}, TimestampError, r"'stamp' has no time"),
        (datetime(2019, 11, 27), {"stamps": "start", "time_zone": "UTC"}, UsageError, r"needs bar_length="),
        (
            datetime(2019, 11, 27),
            {"stamps": "start", "time_zone": "UTC", "bar_length": "0s"},
            TimestampError,
            r"not positive",
        ),
        (
            datetime(2019, 11, 27),
            {"stamps": "end", "time_zone": "UTC", "bar_length": "1h"},
            UsageError,
            r"only with stamps='start'",
        ),
        (
            datetime(2019, 11, 27, 5),
            {"stamps": "end", "time_zone": "UTC"},
            PriceDataError,
            r"no session.*2019-12-01",
        ),
        (
            datetime(2019, 11, 27, 12),
            {"stamps": "end", "time_zone": "UTC"},
            PriceDataError,
            r"before their session opens.*stamps=",
        ),
        (
            datetime(2019, 11, 3, 1, 30),
            {"stamps": "end", "time_zone": "America/New_York"},
            TimestampError,
            r"repeats",
        ),
        (
            datetime(2019, 3, 10, 2, 30),
            {"stamps": "end", "time_zone": "America/New_York"},
            TimestampError,
            r"skips",
        ),
        (
            datetime(2019, 11, 27, 16),
            {"stamps": "end", "time_zone": "New York"},
            TimestampError,
            r"time_zone='New York'",
        ),
        (datetime(3000, 1, 2), {"stamps": "end", "time_zone": "UTC"}, TimestampError, r"1678 to 2261"),
    ],
)
def test_bad_stamps_are_refused(
    stamp: datetime | None, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    # The second row is a Monday: its local midnight called an end falls on a Sunday.
    table = pl.DataFrame(
        {"entity": ["A", "B"], "stamp": [stamp, datetime(2019, 12, 2, 5)], "close": [1.0, 2.0]},
        schema_overrides={"stamp": pl.Datetime("us")},
    )
    if "before their session" in words:
        table = table.head(1)
    with pytest.raises(error, match=words):
        PriceHistory.from_frame(table, event_time="stamp", **options)


def test_a_bar_stamped_out_of_order_with_its_session_is_refused() -> None:
    table = pl.DataFrame(
        {
            "entity": ["A", "A"],
            "session": [date(2020, 1, 2), date(2020, 1, 3)],
            "stamp": [datetime(2020, 1, 3, 21, 30), datetime(2020, 1, 3, 21)],
            "close": [1.0, 2.0],
        }
    )
    with pytest.raises(PriceDataError, match=r"end after the official close of XNYS: 1 row.*2020-01-02"):
        PriceHistory.from_frame(table, session="session", event_time="stamp", stamps="end", time_zone="UTC")


def test_pandas_faults_are_clear() -> None:
    repeated = pd.DataFrame([[1.0, 2.0]], columns=["close", "close"])
    with pytest.raises(PriceDataError, match="repeated column names"):
        PriceHistory.from_frame(repeated)
    with pytest.raises(PriceDataError, match="not text"):
        PriceHistory.from_frame(pd.DataFrame({("close", "A"): [1.0]}))
    mixed = TABLE.to_pandas().assign(close=[1.0, "x", 2.0, 3.0])
    with pytest.raises(DataError, match="close"):
        PriceHistory.from_frame(mixed)


def test_rows_of_an_unknown_entity() -> None:
    history = price_history({"A": [1.0, 2.0], "B": [3.0]})
    assert history.frame[history.rows_of("B")]["close"].to_list() == [3.0]
    with pytest.raises(PriceDataError, match=r"entity 'C' has no prices.*A, B"):
        history.rows_of("C")


def test_session_numbers_count_the_sessions_of_the_calendar() -> None:
    history = price_history({"A": [1.0, None, 2.0], "B": [None, 1.0]}, gaps="drop")
    assert history.session_numbers.tolist() == [0, 2, 1]


@pytest.mark.parametrize("price", [1e-320, 1e-101, 1e101, 1e300])
def test_prices_too_small_or_large_for_their_changes_are_refused(price: float) -> None:
    frame = pl.DataFrame({"date": [date(2019, 11, 26), date(2019, 11, 27)], "close": [100.0, price]})
    with pytest.raises(PriceDataError, match=r"column 'close' is outside 1e-100 to 1e100.*drop or correct"):
        PriceHistory.from_frame(frame, session="date", entity=None, name="A")


def test_no_entity_is_called_as_market_wide_events_are_marked() -> None:
    frame = pl.DataFrame({"date": [date(2019, 11, 26)] * 2, "entity": ["A", "*"], "close": [1.0, 2.0]})
    with pytest.raises(PriceDataError, match=r"'\*', which marks market-wide events"):
        PriceHistory.from_frame(frame, session="date")
    with pytest.raises(PriceDataError, match=r"name=' \* ' marks market-wide events"):
        PriceHistory.from_frame(frame.head(1), session="date", entity=None, name=" * ")


def test_a_latency_does_not_wrap_around_the_range() -> None:
    frame = pl.DataFrame({"date": [date(2255, 1, 1)], "close": [1.0]})
    with pytest.raises(TimestampError, match=r"latency of 3650 days .* out of the range"):
        PriceHistory.from_frame(
            frame, session="date", entity=None, name="A", calendar="24/7", latency="3650D"
        )


@pytest.mark.parametrize("options", [{"entity": 5}, {"session": 5}, {"calendar": None}, {"high": 1}])
def test_names_that_are_no_text_are_refused(options: dict[str, Any]) -> None:
    table = price_table({"A": [1.0, 2.0]})
    with pytest.raises(UsageError, match=f"{next(iter(options))}=.* is no name"):
        PriceHistory.from_frame(table, **options)


def test_a_history_is_written_and_read_back(tmp_path: Path) -> None:
    halts = pl.DataFrame(
        {
            "entity": ["A", "B"],
            "start": [datetime(2019, 1, 3, 15, tzinfo=UTC)] * 2,
            "end": [datetime(2019, 1, 3, 16, tzinfo=UTC), None],
        }
    )
    history = price_history(
        {"A": [1.0, None, 2.0], "B": [3.0, 4.0, 5.0]}, gaps="drop", halts=halts, latency="2h", adjusted=True
    )
    history.write(tmp_path / "bars.parquet")
    back = PriceHistory.read(tmp_path / "bars.parquet")
    assert_frame_equal(back.frame, history.frame)
    assert_frame_equal(back.gaps, history.gaps)
    assert_frame_equal(back.halts, history.halts)
    declared = ("calendar", "latency", "frequency", "bar_length", "missing_bars", "zero_volume", "adjustment")
    assert [getattr(back, name) for name in declared] == [getattr(history, name) for name in declared]
    with pytest.raises(UsageError, match="cannot be read"):
        PriceHistory.read(tmp_path / "none.parquet")
    history.frame.write_parquet(tmp_path / "other.parquet")
    with pytest.raises(PriceDataError, match=r"was not written by .*PriceHistory\.write"):
        PriceHistory.read(tmp_path / "other.parquet")
