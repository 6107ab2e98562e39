"""Order messages with two clocks and one sequence number; the documentation quotes the figures.

Bitstamp's orders of 2015-05-01 as logged in phil8192/ob-analytics.
"""

import statistics
from collections import Counter, defaultdict

import polars as pl
import pytest

from quantattn.pit import EventLog, ForecastClock
from quantattn.pit.timestamps import nanoseconds_of, visible_counts
from tests.pit.real_data.files import path_of


@pytest.fixture(scope="module")
def orders():
    table = pl.read_parquet(path_of("order_book/bitstamp_btcusd_20150501_orders.parquet"))
    return table.with_columns(number=pl.col("seq").cast(pl.String).str.zfill(6))


def read_orders(orders, event_time, available_at=None):
    return EventLog.from_frame(
        orders,
        event_time=event_time,
        available_at=available_at,
        event_id="number",
        kind="action",
        features=["price", "size_btc"],
    )


def clocks_of(orders):
    """(received, stamped, action) of each message in the order of the log, microseconds."""
    return orders.select(
        pl.col("recv_at").dt.epoch("us"), pl.col("order_at").dt.epoch("us"), pl.col("action").cast(pl.String)
    ).rows()


def test_the_two_clocks_of_an_order(orders):
    newest, behind, gaps = 0, Counter(), defaultdict(list)
    for received, stamped, action in clocks_of(orders):
        behind[action] += stamped < newest
        newest = max(newest, stamped)
        gaps[action].append((received - stamped) / 1e6)
    # Stamped before a message that was received earlier: no new order, but most deletions.
    assert behind == {"created": 0, "changed": 348, "deleted": 19_506}
    told = {name: (len(v), min(v), statistics.median(v), max(v)) for name, v in gaps.items()}
    assert told == {
        "created": (24_894, 0.276, 0.776, 1.288),
        "changed": (602, 0.408, 2.729, 7_312.471),
        "deleted": (24_918, 0.306, 9.852, 2_389_149.608),
    }
    lag = read_orders(orders, "order_at", "recv_at").summary().lag_quantiles
    assert (lag[0.0], lag[1.0]) == (276_000_000, 2_389_149_608_000_000)
    everything = sorted(gap for values in gaps.values() for gap in values)
    assert lag[0.5] / 1e9 == everything[(len(everything) - 1) // 2] == 1.155


def test_messages_that_would_be_seen_before_they_arrive(orders):
    clock = ForecastClock.every("1s", start="2015-05-01T00:00:04Z", end="2015-05-01T05:04:43Z")
    times = nanoseconds_of(clock.times)
    first, last = int(times[0]) // 10**9, int(times[-1]) // 10**9
    early, cells, clear = Counter(), 0, set(range(first, last + 1))
    for received, stamped, action in clocks_of(orders):
        # Whole seconds strictly after the order's stamp, and not after the receipt.
        seconds = range(max(stamped // 10**6 + 1, first), min(received // 10**6, last) + 1)
        early[action] += len(seconds) > 0
        cells += len(seconds)
        clear.difference_update(seconds)
    assert early == {"created": 6_866, "changed": 465, "deleted": 22_472}
    careless, right = (read_orders(orders, name) for name in ("order_at", "recv_at"))
    seen, known = (
        visible_counts(nanoseconds_of(log.frame["available_at"]), times) for log in (careless, right)
    )
    ahead = seen - known
    assert (len(clock), int(ahead.sum()), int((ahead > 0).sum())) == (18_280, cells, 18_280 - len(clear))
    assert (cells, len(clear)) == (2_423_282, 1)


def test_only_the_sequence_number_orders_what_arrives_together(orders):
    together = {moment: n for moment, n in Counter(orders["recv_at"].to_list()).items() if n > 1}
    assert (len(together), sum(together.values()), max(together.values())) == (120, 243, 3)
    mixed = orders.sample(fraction=1.0, shuffle=True, seed=0)
    log = read_orders(mixed, "recv_at")
    assert (log.summary().tied, log.summary().largest_tie) == (243, 3)
    assert log.frame["event_id"].to_list() == orders["number"].to_list()
    # Events of one available_at go by event_time before they go by id: the order's stamp must not be that.
    other = read_orders(mixed, "order_at", "recv_at").frame["event_id"].to_list()
    wrong = sum(a != b for a, b in zip(other, orders["number"].to_list(), strict=True))
    by_hand = sorted(orders.select("recv_at", "order_at", "number").rows())
    assert other == [number for _, _, number in by_hand]
    assert wrong == 109


def test_three_streams_make_one_log(orders):
    names = ("trades", "book10")
    others = [
        pl.read_parquet(path_of(f"order_book/bitstamp_btcusd_20150501_{name}.parquet")).with_columns(
            number=pl.col("seq").cast(pl.String).str.zfill(6)
        )
        for name in names
    ]
    logs = [
        EventLog.from_frame(table, event_time="recv_at", event_id="number") for table in (orders, *others)
    ]
    whole = EventLog.concat(logs)
    assert whole.frame["event_id"].to_list() == [f"{number:06}" for number in range(56_000)]
    assert whole.summary().tied == 277
