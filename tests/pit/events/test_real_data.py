"""Figures on real data, where it lies beside the checkout; counted by loops of their own.

The tables are those of StockNet (Xu and Cohen 2018, MIT licence) and of the Federal Reserve Bank of New
York's nowcasting snapshots of 2016 (BSD-3-Clause).
"""

import math
from collections import Counter
from datetime import UTC, date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from quantattn.pit.events import EventLog

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
TWEETS = DATA / "stocknet" / "tweets.parquet"
VINTAGES = DATA / "macro_vintages" / "frbny_vintages_2016.parquet"

NEW_YORK = ZoneInfo("America/New_York")
# The closures of the New York Stock Exchange on weekdays, and its half days, in the years of the tweets.
CLOSED = {
    *(date(2014, month, day) for month, day in [(1, 1), (1, 20), (2, 17), (4, 18), (5, 26), (7, 4), (9, 1)]),
    *(date(2014, month, day) for month, day in [(11, 27), (12, 25)]),
    *(date(2015, month, day) for month, day in [(1, 1), (1, 19), (2, 16), (4, 3), (5, 25), (7, 3), (9, 7)]),
    *(date(2015, month, day) for month, day in [(11, 26), (12, 25)]),
}
HALF = {date(2014, 7, 3), date(2014, 11, 28), date(2014, 12, 24), date(2015, 11, 27), date(2015, 12, 24)}


def part_by_hand(stamp):
    """Say when in the life of the exchange a stamp lies."""
    wall = stamp.astimezone(NEW_YORK)
    if wall.weekday() >= 5 or wall.date() in CLOSED:
        return "no_session"
    if wall.time() < time(9, 30):
        return "before_open"
    return "in_session" if wall.time() < time(13 if wall.date() in HALF else 16) else "after_close"


@pytest.fixture(scope="module")
def tweets():
    if not TWEETS.is_file():
        pytest.skip(f"{TWEETS} is not there")
    table = pl.read_parquet(TWEETS, columns=["ticker", "tweet_id", "created_at", "text"])
    return table.with_columns(key=pl.format("{}:{}", pl.col("ticker").cast(pl.String), "tweet_id"))


def read(tweets):
    return EventLog.from_frame(tweets, event_time="created_at", entity="ticker", event_id="key", text="text")


def test_tweets_by_session_part(tweets):
    counted = Counter(part_by_hand(stamp) for stamp in tweets["created_at"].to_list())
    log = read(tweets)
    parts = log.summary().session_parts
    assert log.rejects.is_empty()
    assert parts == {"unknown": 0, "in_session": 0, **counted}
    # What the documentation says of them: a join on calendar dates gives a day's return the tweets after it.
    assert parts == {
        "before_open": 25_889,
        "in_session": 35_159,
        "after_close": 25_179,
        "no_session": 20_073,
        "unknown": 0,
    }


def test_tweets_that_repeat_each_other(tweets):
    flagged = read(tweets).with_repeats().frame
    # As many as a group-by finds: all but those at the first time of each text of each ticker.
    from quantattn.pit.events.repeats import normalise

    texts = tweets.select("ticker", "created_at", normalise(pl.col("text")).alias("text")).drop_nulls("text")
    first = pl.col("created_at").min().over("ticker", "text")
    assert flagged["repeat"].sum() == texts.filter(pl.col("created_at") > first).height == 18_579
    assert flagged["near_repeat"].is_not_null().sum() == 20_428


@pytest.fixture(scope="module")
def vintages():
    if not VINTAGES.is_file():
        pytest.skip(f"{VINTAGES} is not there")
    return pl.read_parquet(VINTAGES)


def read_vintages(table, **options):
    columns = {"series": "series_id", "period": "ref_period", "vintage": "vintage_date", "value": "value"}
    return EventLog.from_vintages(table, **columns, frequency="freq", stamped="within", **options)


def test_every_change_of_the_vintages_is_a_revision(vintages):
    log = read_vintages(vintages, scheduled=True)
    assert len(log) == vintages.height == 9_889
    assert (log.frame["revision"] > 0).sum() == 1_051
    # Surveys come out before their month is over.
    assert read_vintages(vintages).reject_counts == {"available_before_event": 16}


def test_what_was_known_of_growth_and_what_the_last_table_says(vintages):
    log = read_vintages(vintages, growth=1, scheduled=True)
    quarter = log.revisions("GDPC1:2016-07-01")
    # Billions of 2009 dollars, as published on 28 October, 29 November and 22 December 2016.
    assert quarter["value"].to_list() == [16_702.1, 16_712.5, 16_727.0]
    expected = [math.log(value / 16_583.1) for value in (16_702.1, 16_712.5, 16_727.0)]
    assert quarter["growth_1"].to_list() == pytest.approx(expected, rel=1e-14)
    known = log.as_of(datetime(2016, 11, 15, tzinfo=UTC)).frame.filter(event_id="GDPC1:2016-07-01")
    assert known["value"].to_list() == [16_702.1]


def test_most_first_figures_are_not_the_last_ones(vintages):
    table = vintages.filter(~pl.col("baseline")).sort("vintage_date")
    first, last = {}, {}
    for series, period, value, number in table.select(
        "series_id", "ref_period", "value", "release_no"
    ).rows():
        if number == 1:
            first[series, period] = value
        last[series, period] = value
    revised = sum(last[key] != value for key, value in first.items())
    assert (len(first), revised) == (185, 131)
    log = read_vintages(vintages, scheduled=True)
    assert len(log.as_of(datetime(2017, 2, 1, tzinfo=UTC))) == 8_653 + 185
    final = dict(log.as_of(datetime(2017, 2, 1, tzinfo=UTC)).frame.select("event_id", "value").rows())
    released = log.frame.filter(revision=0).filter(pl.col("available_at") > datetime(2016, 7, 1, tzinfo=UTC))
    assert sum(final[name] != value for name, value in released.select("event_id", "value").rows()) == revised
