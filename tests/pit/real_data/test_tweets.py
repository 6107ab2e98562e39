"""Tweets (StockNet: Xu and Cohen 2018, MIT licence): what joins on dates do; the documentation quotes it.

What is visible is counted twice: with the package, and by loops that know nothing of it. Tweets by session
part and repeated ones are counted in events/.
"""

import math
import re
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from quantattn.pit import ForecastClock, PointInTimeDataset, PriceHistory, simple_return
from quantattn.pit.readers.stocknet import read_stocknet
from tests.pit.real_data.files import path_of

NEW_YORK = ZoneInfo("America/New_York")
# Closures of the New York Stock Exchange on weekdays, and its half days, in the years of the tweets.
CLOSED = {
    *(date(2014, month, day) for month, day in [(1, 1), (1, 20), (2, 17), (4, 18), (5, 26), (7, 4), (9, 1)]),
    *(date(2014, month, day) for month, day in [(11, 27), (12, 25)]),
    *(date(2015, month, day) for month, day in [(1, 1), (1, 19), (2, 16), (4, 3), (5, 25), (7, 3), (9, 7)]),
    *(date(2015, month, day) for month, day in [(11, 26), (12, 25)]),
}
HALF = {date(2014, 7, 3), date(2014, 11, 28), date(2014, 12, 24), date(2015, 11, 27), date(2015, 12, 24)}
# Chosen before any figure was seen.
RISING = (
    r"\b(?:up|buy|buying|bull|bullish|long|calls|beat|beats|upgrade|upgraded|higher|gain|gains|rally|rise|rises"
    r"|surge|surges|strong)\b"
)
FALLING = (
    r"\b(?:down|sell|selling|bear|bearish|short|puts|miss|misses|downgrade|downgraded|lower|loss|losses|fall"
    r"|falls|drop|drops|weak)\b"
)


def close_of(day):
    """The close of a session as an instant, or None where there is no session."""
    if day.weekday() >= 5 or day in CLOSED:
        return None
    return datetime.combine(day, time(13 if day in HALF else 16), NEW_YORK).astimezone(UTC)


DAYS = [date(2013, 12, 31) + timedelta(days) for days in range(731)]
CLOSES = {day: close for day in DAYS if (close := close_of(day))}
SESSIONS = list(CLOSES)


@pytest.fixture(scope="module")
def tweets():
    """Tweets as (ticker, instant, rising less falling words), by a loop."""
    table = pl.read_parquet(path_of("stocknet/tweets.parquet"), columns=["ticker", "created_at", "text"])
    good, bad = re.compile(RISING), re.compile(FALLING)
    rows = table.with_columns(pl.col("ticker").cast(pl.String)).rows()
    lowered = [(ticker, moment, text.lower()) for ticker, moment, text in rows]
    return [(who, moment, len(good.findall(text)) - len(bad.findall(text))) for who, moment, text in lowered]


@pytest.mark.parametrize(
    ("zone", "joined", "leaked", "lost"),
    [("America/New_York", 86_227, 25_179, 20_073), ("UTC", 86_595, 14_581, 19_705)],
)
def test_tweets_that_a_join_on_dates_gives_to_returns_already_over(tweets, zone, joined, leaked, lost):
    zone = ZoneInfo(zone)
    dated = Counter(moment.astimezone(zone).date() for _, moment, _ in tweets)
    after = [
        moment
        for _, moment, _ in tweets
        if (close := CLOSES.get(moment.astimezone(zone).date())) and moment >= close
    ]
    by_hand = sum(number for day, number in dated.items() if day in CLOSES)
    assert (by_hand, len(after), len(tweets) - by_hand) == (joined, leaked, lost)
    # A forecast at the close sees what became available before it; the rest of the date is the leak.
    log = read_stocknet(path_of("stocknet/tweets.parquet"), latency="0s")
    clock = ForecastClock.sessions(start="2013-12-31", end="2015-12-31", offset="0s")
    found, missed = 0, 0
    for day, close in zip(SESSIONS, clock.times.to_list(), strict=True):
        begin, end = (datetime.combine(day + timedelta(shift), time(), zone) for shift in (0, 1))
        of_day = log.between(begin, end)
        found += len(of_day)
        missed += len(of_day) - len(of_day.as_of(close))
    assert (found, missed) == (joined, leaked)
    if zone.key != "UTC":
        halves = [moment.astimezone(NEW_YORK) for moment in after]
        halves = [moment for moment in halves if moment.date() in HALF]
        # On half days a rule of four o'clock would still let 86 of 209 pass.
        assert (len(halves), sum(moment.hour < 16 for moment in halves)) == (209, 86)


def with_error(values, clusters):
    """A mean, and the share of each cluster in its error."""
    values = np.asarray(values, dtype=float)
    parts = defaultdict(float)
    for value, cluster in zip(values - values.mean(), clusters, strict=True):
        parts[cluster] += value / values.size
    return values.mean(), parts


def error_of(parts, others=None):
    """The standard error of a mean, or of the difference of two over the same clusters."""
    others = others or {}
    return math.sqrt(sum((parts.get(k, 0.0) - others.get(k, 0.0)) ** 2 for k in {*parts, *others}))


def hit_rate(tone, returns):
    kept = [(key[1], (tone[key] > 0) == (r > 0)) for key, r in returns.items() if r and tone.get(key, 0)]
    return (*with_error([hit for _, hit in kept], [day for day, _ in kept]), len(kept))


def by_chance(tone, returns):
    """The hit rate that the two signs would have if they were independent."""
    kept = [(tone[key] > 0, r > 0) for key, r in returns.items() if r and tone.get(key, 0)]
    rising, up = (statistics.mean(column) for column in zip(*kept, strict=True))
    return rising * up + (1 - rising) * (1 - up)


def difference(one, other):
    return one[0] - other[0], error_of(one[1], other[1])


def size_correlation(number, returns):
    """Correlation of log(1 + tweets) with the size of the return, within tickers."""
    groups = defaultdict(list)
    for (who, day), r in returns.items():
        groups[who].append((day, math.log1p(number.get((who, day), 0)), abs(r)))
    days, pairs = [], []
    for rows in groups.values():
        x, y = (np.array([row[column] for row in rows]) for column in (1, 2))
        days += [row[0] for row in rows]
        pairs.append(np.stack([x - x.mean(), y - y.mean()]))
    x, y = (part / part.std() for part in np.hstack(pairs))
    c = (x * y).mean()
    return c, with_error(x * y - c / 2 * (x**2 + y**2), days)[1]


@pytest.fixture(scope="module")
def joins(tweets):
    """Tone and number of tweets for (ticker, session of the return), and returns, under each join."""
    bars = pl.read_parquet(path_of("stocknet/prices_daily.parquet"))
    known = {who for who, _, _ in tweets}
    closes = defaultdict(dict)
    for who, day, close in bars.select(pl.col("ticker").cast(pl.String), "date", "adj_close").rows():
        closes[who][day] = close
    following = dict(pairwise(SESSIONS))
    returns = {
        (who, after): closes[who][after] / closes[who][day] - 1
        for who in known
        for day, after in list(following.items())[1:]
        if day in closes[who] and after in closes[who]
    }
    cuts = [close - timedelta(minutes=15) for close in CLOSES.values()]
    names = ("same_day", "after_close", "next_day", "next_day_by_close", "visible")
    sums = {name: (Counter(), Counter()) for name in names}

    def add(name, who, day, tone):
        if day is not None:
            sums[name][0][who, day] += 1
            sums[name][1][who, day] += tone

    for who, moment, tone in tweets:
        day = moment.astimezone(NEW_YORK).date()
        if day in CLOSES:
            add("same_day", who, day, tone)
            add("next_day", who, following.get(day), tone)
            if moment >= CLOSES[day]:
                add("after_close", who, day, tone)
            else:
                add("next_day_by_close", who, following.get(day), tone)
        # Read by the first forecast strictly later than a second after the tweet, as the reader has it.
        place = max(bisect_right(cuts, moment + timedelta(seconds=1)), 1)
        add("visible", who, following.get(SESSIONS[place]) if place < len(SESSIONS) else None, tone)
    return bars, returns, sums


def test_the_dataset_counts_what_the_loop_counts(joins):
    bars, returns, sums = joins
    log = read_stocknet(path_of("stocknet/tweets.parquet"))
    bars = bars.filter(pl.col("ticker").cast(pl.String).is_in(log.entities))
    prices = PriceHistory.from_frame(bars, entity="ticker", close="adj_close", adjusted=True)
    clock = ForecastClock.sessions(start="2014-01-02", end="2015-12-30")
    data = PointInTimeDataset(log, clock, simple_return(prices, clock, horizon=1), scope="entity")
    seen, text = 0, pl.col("text").str.to_lowercase()
    for (who,), part in data.samples.group_by("entity", maintain_order=True):
        events = data.event_sequence(who).select(
            tone=text.str.count_matches(RISING).cast(pl.Int64)
            - text.str.count_matches(FALLING).cast(pl.Int64)
        )
        tones = [0, *events["tone"].cum_sum().to_list()]
        number, tone, totals = 0, 0, {}
        for day in SESSIONS:
            number += sums["visible"][0][who, day]
            tone += sums["visible"][1][who, day]
            totals[day] = (number, tone)
        ends = part["label_end_time"].dt.convert_time_zone("America/New_York").dt.date()
        for day, value, count in zip(ends, part["y_true"], part["n_visible"], strict=True):
            assert (count, tones[count]) == totals[day]
            assert value == pytest.approx(returns[who, day], rel=1e-9, abs=1e-12)
            seen += 1
    assert seen == len(returns) == 43_357


def test_what_the_joins_make_of_tone(joins):
    """How often the sign of the tone is that of the return, with errors clustered by session."""
    _, returns, sums = joins
    rates = {name: hit_rate(tone, returns) for name, (_, tone) in sums.items()}
    told = {
        name: (round(100 * r, 1), round(100 * error_of(own), 1), n) for name, (r, own, n) in rates.items()
    }
    # Per cent, error, n. The tone is mostly rising, as are returns: see by_chance.
    assert told == {
        "same_day": (54.6, 0.8, 6_517),
        "after_close": (55.4, 1.2, 2_554),
        "next_day": (51.4, 0.8, 6_503),
        "next_day_by_close": (51.4, 0.8, 5_228),
        "visible": (50.6, 0.7, 7_411),
    }
    # Of returns of the same sessions, the one join less the other.
    gap, error = difference(rates["next_day"], rates["visible"])
    assert (round(100 * gap, 1), round(100 * error, 1)) == (0.8, 0.5)
    chance = {name: round(100 * by_chance(tone, returns), 1) for name, (_, tone) in sums.items()}
    assert list(chance.values()) == [50.8, 51.2, 50.6, 50.6, 50.7]


def test_what_the_joins_make_of_the_number_of_tweets(joins):
    _, returns, sums = joins
    found = {name: size_correlation(number, returns) for name, (number, _) in sums.items()}
    told = {name: (round(c, 3), round(error_of(own), 3)) for name, (c, own) in found.items()}
    assert told == {
        "same_day": (0.108, 0.010),
        "after_close": (0.074, 0.008),
        "next_day": (0.048, 0.009),
        "next_day_by_close": (0.034, 0.008),
        "visible": (0.023, 0.009),
    }
    # What tweets after the close add, and what the last quarter of an hour and quiet days do beside them.
    for one, other, expected in (
        ("next_day", "visible", (0.025, 0.007)),
        ("next_day", "next_day_by_close", (0.014, 0.003)),
        ("next_day_by_close", "visible", (0.011, 0.006)),
    ):
        gap, error = difference(found[one], found[other])
        assert (round(gap, 3), round(error, 3)) == expected
