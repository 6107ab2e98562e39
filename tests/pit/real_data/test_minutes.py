"""Minutes of the Federal Open Market Committee, dated by their meeting or by their release.

As dated by gtfintechlab/fomc-hawkish-dovish (Shah, Paturi and Chava 2023), with QQQ and Treasury yields from
there; the documentation quotes the figures.
"""

import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from datetime import date, timedelta

import polars as pl
import pytest

from quantattn.pit import EventLog, ForecastClock, PointInTimeDataset, PriceHistory, simple_return
from quantattn.pit.timestamps import nanoseconds_of, visible_counts
from tests.pit.real_data.files import path_of


@pytest.fixture(scope="module")
def minutes():
    table = pl.read_parquet(path_of("central_bank/fed_documents.parquet"))
    return table.filter(pl.col("doc_type") == "minutes").sort("event_date")


def logs_of_minutes(minutes):
    """As joined by the day of the meeting, at two in the afternoon, and as published."""
    met = minutes.with_columns(
        met=pl.col("event_date")
        .cast(pl.Datetime("us"))
        .dt.offset_by("14h")
        .dt.replace_time_zone("America/New_York")
    )
    careless = EventLog.from_frame(met, event_time="met", event_id="doc_id")
    return careless, EventLog.from_frame(
        met, event_time="met", available_at="available_at", event_id="doc_id"
    )


def test_days_from_a_meeting_to_its_minutes(minutes):
    lags = defaultdict(list)
    for met, out in minutes.select("event_date", "release_date").rows():
        lags[met >= date(2004, 12, 1)].append((out - met).days)
    told = {new: (len(v), min(v), statistics.median(v), max(v)) for new, v in lags.items()}
    assert told == {False: (71, 36, 50, 59), True: (159, 20, 21, 24)}
    # The package counts to the end of the day of release.
    quantiles = logs_of_minutes(minutes)[1].summary().lag_quantiles
    days = [nanoseconds / 86_400e9 for nanoseconds in (quantiles[0.0], quantiles[0.5], quantiles[1.0])]
    assert days == pytest.approx([20.4, 21.4, 59.4], abs=0.06)


def test_sessions_that_would_have_read_unpublished_minutes(minutes):
    careless, published = logs_of_minutes(minutes)
    spans = minutes.select("event_date", "release_date").rows()
    clock = ForecastClock.sessions(start="1996-01-31", end="2024-10-09")
    days = clock.times.dt.convert_time_zone("America/New_York").dt.date().to_list()
    times = nanoseconds_of(clock.times)
    early = visible_counts(nanoseconds_of(careless.frame["available_at"]), times) - visible_counts(
        nanoseconds_of(published.frame["available_at"]), times
    )
    by_hand = [sum(met <= day <= out for met, out in spans) for day in days]
    assert early.tolist() == by_hand
    told = {}
    for name, first, end in (("old", 1996, date(2004, 12, 14)), ("new", 2004, date(2024, 10, 10))):
        start = date(first, 1, 31) if name == "old" else date(2004, 12, 14)
        chosen = [n for n, day in enumerate(days) if start <= day < end]
        certain = sum(any(met <= days[n] < out for met, out in spans) for n in chosen)
        told[name] = (len(chosen), certain, sum(early[n] > 0 for n in chosen))
    # Sessions; those before the day of release; and the latter too, as its stamp is of the day alone.
    assert told == {"old": (2_233, 2_233, 2_233), "new": (4_989, 2_293, 2_452)}


def test_the_dataset_hides_minutes_until_they_are_out(minutes):
    bars = pl.read_parquet(path_of("central_bank/qqq_daily.parquet"))
    prices = PriceHistory.from_frame(bars, entity=None, name="QQQ", close="adj_close", adjusted=True)
    clock = ForecastClock.sessions(start="1999-03-10", end="2022-12-21")
    labels = simple_return(prices, clock, horizon=1)
    early, late = (
        PointInTimeDataset(log, clock, labels, scope="market").samples for log in logs_of_minutes(minutes)
    )
    spans = minutes.select("event_date", "release_date").rows()
    days = early["forecast_time"].dt.convert_time_zone("America/New_York").dt.date()
    ahead = (early["n_visible"] - late["n_visible"]).to_list()
    assert ahead == [sum(met <= day <= out for met, out in spans) for day in days]
    assert (len(ahead), sum(n > 0 for n in ahead)) == (5_988, 3_680)


def test_what_moved_between_a_meeting_and_its_minutes(minutes):
    """Size of the move from the close of the meeting's day to the last close before the day of release."""
    bars = pl.read_parquet(path_of("central_bank/qqq_daily.parquet")).select("date", "adj_close").rows()
    table = pl.read_parquet(path_of("central_bank/treasury_par_yields_daily.parquet"))
    yields = table.select("date", "2 Yr").drop_nulls().rows()

    def last(rows, day):
        place = bisect_right(rows, (day, math.inf)) - 1
        return rows[place][1] if place >= 0 and day <= rows[-1][0] else None

    moves = {"QQQ": [], "2 Yr": []}
    for met, out in minutes.select("event_date", "release_date").rows():
        if met < date(2004, 12, 1):
            continue
        for name, rows in (("QQQ", bars), ("2 Yr", yields)):
            before, after = last(rows, met), last(rows, out - timedelta(days=1))
            if before is not None and after is not None:
                size = abs(after / before - 1) if name == "QQQ" else abs(after - before)
                moves[name].append(100 * size)
    told = {name: (len(v), round(statistics.median(v), 1)) for name, v in moves.items()}
    assert told == {"QQQ": (144, 2.4), "2 Yr": (144, 7.0)}
