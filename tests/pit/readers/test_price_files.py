"""Price histories written to a file and read back, and tables of intraday bars."""

import json
from datetime import date

import polars as pl
import pyarrow.parquet as pq
import pytest

from quantattn.errors import PriceDataError, TimestampError, UsageError
from quantattn.pit.prices import PriceHistory
from quantattn.pit.readers.price_files import ENTRY, read_price_file, write_prices
from quantattn.pit.readers.price_tables import read_price_tables

DAILY = pl.DataFrame(
    {
        "entity": ["A", "A", "B"],
        "session": ["2024-11-26", "2024-11-29", "2024-11-29"],
        "close": [1.0, 2.0, 3.0],
    }
)
STAMPS = [f"2024-11-29 09:{minute:02d}:00" for minute in range(30, 60, 5)]
INTRADAY = pl.DataFrame({"t": STAMPS, "c": [float(n) for n in range(6)]}).with_columns(pl.col("c") + 1)


def same(left, right):
    assert left.frame.equals(right.frame)
    assert left.gaps.equals(right.gaps)
    assert left.halts.equals(right.halts)
    for name in (
        "calendar",
        "latency",
        "frequency",
        "bar_length",
        "missing_bars",
        "zero_volume",
        "adjustment",
    ):
        assert getattr(left, name) == getattr(right, name)


def test_daily_bars_with_gaps_and_halts(tmp_path):
    halts = pl.DataFrame(
        {
            "entity": ["A", "B"],
            "start": ["2024-11-27 15:00:00", "2024-11-29 15:00:00"],
            "end": ["2024-11-29 15:00:00", None],
        }
    ).with_columns(pl.col("start", "end").str.to_datetime(time_unit="ns"))
    for options in ({"gaps": "drop"}, {"gaps": "drop", "halts": halts, "time_zone": "UTC", "adjusted": True}):
        prices = PriceHistory.from_frame(DAILY, session="session", latency="3s", **options)
        write_prices(prices, tmp_path / "p.parquet")
        same(read_price_file(tmp_path / "p.parquet"), prices)
    assert prices.halts.height == 2
    assert prices.adjustment == "vendor"


def test_intraday_bars(tmp_path):
    path = tmp_path / "bars.csv"
    INTRADAY.write_csv(path)
    prices = read_price_tables(
        path,
        event_time="t",
        stamps="start",
        close="c",
        name="A",
        bar_length="5min",
        time_zone="America/New_York",
    )
    assert prices.frame["event_time"].dt.to_string("%T").to_list() == [
        "14:35:00",
        "14:40:00",
        "14:45:00",
        "14:50:00",
        "14:55:00",
        "15:00:00",
    ]
    assert prices.frame["available_at"].dt.to_string("%T")[0] == "14:36:00"
    write_prices(prices, tmp_path / "p.parquet")
    same(read_price_file(tmp_path / "p.parquet"), prices)


@pytest.mark.parametrize(
    ("first", "zone"),
    [
        ("2024-11-29T09:30:00-05:00", None),
        ("2024-11-29 14:30:00Z", None),
        ("2024-11-29 09:30:00", "America/New_York"),
    ],
)
def test_stamps_of_intraday_tables(tmp_path, first, zone):
    path = tmp_path / "bars.csv"
    path.write_text(f"t,c\n{first},1\n")
    options = {} if zone is None else {"time_zone": zone}
    prices = read_price_tables(
        path, event_time="t", stamps="start", close="c", name="A", bar_length="1min", **options
    )
    assert prices.frame["event_time"].dt.to_string("%T").to_list() == ["14:31:00"]


def test_wide_tables(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("date,A,B\n2024-11-29,1,2\n")
    assert read_price_tables(path).entities == ("A", "B")


WRONG = [
    ("t,c\n2024-11-29 09:30:00,1\n", {"event_time": "t"}, UsageError, "need both event_time="),
    ("t,c\n2024-11-29 09:30:00,1\n", {"stamps": "end"}, UsageError, "need both event_time="),
    (
        "t,c\n2024-11-29 09:30:00,1\n",
        {"stamps": "end", "event_time": "t", "session": "t"},
        UsageError,
        "leave one",
    ),
    ("t,c\n2024-11-29 09:30:00,1\n", {"stamps": "end", "event_time": "t"}, UsageError, "needs close="),
    (
        "t,c\n2024-11-29 09:30:00,1\n",
        {"stamps": "end", "event_time": "t", "close": "c"},
        UsageError,
        "entity=",
    ),
    (
        "t,c\n2024-11-29 09:30:00,1\n",
        {"stamps": "end", "event_time": "t", "close": "c", "name": "A", "bar_length": "1min"},
        TimestampError,
        "naive",
    ),
    (
        "t,c\nsoon,1\n",
        {"stamps": "end", "event_time": "t", "close": "c", "name": "A"},
        PriceDataError,
        "stamps that are no times",
    ),
    (
        "t,c\n2024-11-29 09:30:00Z,x\n",
        {"stamps": "end", "event_time": "t", "close": "c", "name": "A"},
        PriceDataError,
        "column 'c' is not a number",
    ),
]


@pytest.mark.parametrize(("content", "options", "error", "message"), WRONG)
def test_wrong_requests(tmp_path, content, options, error, message):
    path = tmp_path / "bars.csv"
    path.write_text(content)
    with pytest.raises(error, match=message):
        read_price_tables(path, **options)


def test_files_of_others_and_broken_ones(tmp_path):
    path = tmp_path / "p.parquet"
    DAILY.write_parquet(path)
    with pytest.raises(PriceDataError, match="was not written by `quantattn ingest`"):
        read_price_file(path)
    prices = PriceHistory.from_frame(DAILY, session="session", gaps="drop")
    write_prices(prices, path)
    whole = path.read_bytes()
    for kept in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(PriceDataError, match="is not a whole Parquet file"):
            read_price_file(path)
    with pytest.raises(UsageError, match=r"none.parquet cannot be read"):
        read_price_file(tmp_path / "none.parquet")


def test_altered_files(tmp_path):
    path = tmp_path / "p.parquet"
    write_prices(PriceHistory.from_frame(DAILY, session="session", gaps="drop"), path)
    table = pq.read_table(path)
    entry = json.loads(table.schema.metadata[ENTRY])

    def store(changed, said):
        pq.write_table(changed.replace_schema_metadata({ENTRY: said}), path)

    store(table.drop_columns(["close"]), json.dumps(entry))
    with pytest.raises(PriceDataError, match=r"altered since it was written: columns \['close'\]"):
        read_price_file(path)
    store(table.take([1, 0, 2]), json.dumps(entry))
    with pytest.raises(PriceDataError, match="altered since it was written: its bars"):
        read_price_file(path)
    store(table, json.dumps(entry | {"version": 99}))
    with pytest.raises(PriceDataError, match="is of version 99 of the format, not 1"):
        read_price_file(path)
    store(table, "{")
    with pytest.raises(PriceDataError, match="describes itself wrongly"):
        read_price_file(path)


ALTERED = {
    "known three days before its end": {
        "available_at": pl.col("available_at").to_physical() - 3 * 86_400 * 10**9
    },
    "known at its end, before the latency": {"available_at": pl.col("event_time").to_physical()},
    "negative": {"close": -pl.col("close")},
    "null": {"close": pl.lit(None, pl.Float64)},
    "not finite": {"close": pl.lit(float("nan"))},
    "without a time": {"available_at": pl.lit(None, pl.Int64)},
    "before its session": {
        "event_time": pl.col("event_time").to_physical() - 86_400 * 10**9,
        "available_at": pl.col("available_at").to_physical(),
    },
    "on a day without a session": {"session": pl.lit(date(2024, 1, 6))},
}


@pytest.mark.parametrize("kind", ALTERED)
def test_bars_that_no_history_would_hold_are_refused(tmp_path, kind):
    path = tmp_path / "p.parquet"
    days = [date(2024, 1, 2), date(2024, 1, 3)]
    frame = pl.DataFrame({"entity": ["A", "A"], "session": days, "close": [1.0, 2.0]})
    write_prices(PriceHistory.from_frame(frame), path)
    table = pq.read_table(path)
    zone = pl.Datetime("ns", "UTC")
    columns = {
        name: value.cast(pl.Int64).cast(zone) if name in ("event_time", "available_at") else value
        for name, value in ALTERED[kind].items()
    }
    changed = pl.from_arrow(table).with_columns(**columns)
    bad = changed.to_arrow(compat_level=pl.CompatLevel.oldest()).replace_schema_metadata(
        table.schema.metadata
    )
    assert [str(field.type) for field in bad.schema] == [str(field.type) for field in table.schema]
    pq.write_table(bad, path)
    with pytest.raises(PriceDataError, match="was altered since it was written"):
        read_price_file(path)
