"""Macro vintages of 2016 (nowcasting snapshots of the Federal Reserve Bank of New York, BSD-3-Clause).

What a table that is never corrected, or always corrected, shows; the documentation quotes it.
"""

import math
import statistics
from collections import defaultdict
from datetime import UTC, date, datetime

import polars as pl
import pytest

from quantattn.pit import EventLog
from tests.pit.real_data.files import path_of


@pytest.fixture(scope="module")
def vintages():
    return pl.read_parquet(path_of("macro_vintages/frbny_vintages_2016.parquet"))


def month_before(period, months):
    place = period.year * 12 + period.month - 1 - months
    return date(place // 12, place % 12 + 1, 1)


@pytest.fixture(scope="module")
def figures(vintages):
    """Growth in logs of each figure first published after the first snapshot, by loops over the vintages.

    As first published, within its vintage; as of the last vintage; and against the base as the table had it
    when the base was new. With the standard deviation of each series' growth in the last vintage.
    """
    step = dict(vintages.select(pl.col("series_id").cast(pl.String), "freq").unique().rows())
    step = {name: {"m": 1, "q": 3}[frequency] for name, frequency in step.items()}
    of_day = defaultdict(list)
    for *row, day in vintages.select(
        pl.col("series_id").cast(pl.String), "ref_period", "value", "vintage_date"
    ).rows():
        of_day[day].append(row)
    now, kept, first = {}, {}, {}
    for day in sorted(of_day):
        for name, period, value in of_day[day]:
            now[name, period] = value
        for name, period, value in of_day[day]:
            if (name, period) in kept:
                continue
            kept[name, period] = value
            before = (name, month_before(period, step[name]))
            if day > min(of_day) and not name.startswith("GAC"):
                first[name, period] = (math.log(value / now[before]), math.log(value / kept[before]))
    last = defaultdict(dict)
    for (name, period), value in now.items():
        base = now.get((name, month_before(period, step[name])))
        if base is not None and not name.startswith("GAC"):
            last[name][period] = math.log(value / base)
    spread = {name: statistics.stdev(values.values()) for name, values in last.items()}
    return {key: (*pair, last[key[0]][key[1]]) for key, pair in first.items()}, spread


@pytest.fixture(scope="module")
def growth_log(vintages):
    return EventLog.from_vintages(
        vintages,
        series="series_id",
        period="ref_period",
        vintage="vintage_date",
        value="value",
        frequency="freq",
        stamped="within",
        growth=1,
        scheduled=True,
    )


def test_growth_first_and_last(growth_log, figures):
    """Two of 29 series, the surveys of Empire State and Philadelphia, have no growth: they go below zero."""
    by_hand, spread = figures
    start = growth_log.frame["available_at"].min()
    final = {
        row["event_id"]: row["growth_1"]
        for row in growth_log.as_of(datetime(2017, 2, 1, tzinfo=UTC)).frame.iter_rows(named=True)
    }
    new = growth_log.frame.filter(pl.col("revision") == 0, pl.col("available_at") > start)
    new = new.filter(~pl.col("kind").str.starts_with("GAC"))
    gaps, revised = defaultdict(list), 0
    for event, kind, growth in new.select("event_id", "kind", "growth_1").rows():
        gaps[kind].append(abs(growth - final[event]) / spread[kind])
        revised += growth != final[event]
    expected = defaultdict(list)
    for (name, _), (first, _, last) in by_hand.items():
        expected[name].append(abs(first - last) / spread[name])
    assert {name: pytest.approx(sorted(values), abs=1e-9) for name, values in expected.items()} == {
        name: sorted(values) for name, values in gaps.items()
    }
    means = {name: statistics.mean(values) for name, values in gaps.items()}
    assert sum(abs(first - last) > 1e-12 for first, _, last in by_hand.values()) == revised
    assert (len(by_hand), revised, len(means)) == (171, 124, 27)
    assert round(statistics.median(means.values()), 3) == 0.128
    assert round(statistics.mean(value for values in gaps.values() for value in values), 3) == 0.158
    examples = {name: round(means[name], 2) for name in ("CPIAUCSL", "PAYEMS", "GDPC1", "RSAFS", "INDPRO")}
    assert examples == {"CPIAUCSL": 0.01, "PAYEMS": 0.09, "GDPC1": 0.11, "RSAFS": 0.18, "INDPRO": 0.36}


def test_growth_across_vintages_is_another_figure(growth_log, figures):
    """A table to which figures are appended as they come out, and never corrected."""
    by_hand, spread = figures
    kept = dict(growth_log.frame.filter(pl.col("revision") == 0).select("event_id", "value").rows())
    found = 0
    for event in kept:
        name, first_day = event.split(":")
        # The package calls a quarter by its first day, the table by its last month.
        quarterly = name in ("GDPC1", "A261RX1Q020SBEA", "ULCNFB")
        day = date.fromisoformat(first_day)
        pair = by_hand.get((name, month_before(day, -2) if quarterly else day))
        if pair is not None:
            base = kept[f"{name}:{month_before(day, 3 if quarterly else 1)}"]
            assert math.log(kept[event] / base) == pytest.approx(pair[1], abs=1e-12)
            found += 1
    assert found == len(by_hand)
    gaps = [abs(across - within) / spread[name] for (name, _), (within, across, _) in by_hand.items()]
    assert sum(gap > 1e-12 for gap in gaps) == 129
    assert round(statistics.mean(gaps), 3) == 0.164
    assert sum((within > 0) != (across > 0) for within, across, _ in by_hand.values()) == 16
    # Per cent: within the vintage, across vintages, by the last vintage.
    october = [round(100 * growth, 2) for growth in by_hand["RSAFS", date(2016, 10, 1)]]
    assert october == [0.82, 1.32, 0.65]
    quarter = [round(100 * growth, 2) for growth in by_hand["GDPC1", date(2016, 9, 1)]]
    assert quarter == [0.72, 0.76, 0.86]


def test_payrolls_of_september_2016(vintages):
    """Thousands of jobs more than in the month before, as published on 7 October 2016 and at the end."""
    log = EventLog.from_vintages(
        vintages.filter(pl.col("series_id") == "PAYEMS"),
        series="series_id",
        period="ref_period",
        vintage="vintage_date",
        value="value",
        frequency="M",
        stamped="start",
    )

    def change(day):
        known = dict(log.as_of(day).frame.select("event_id", "value").rows())
        return known["PAYEMS:2016-09-01"] - known["PAYEMS:2016-08-01"]

    assert change(datetime(2016, 10, 12, tzinfo=UTC)) == 156
    assert change(datetime(2017, 2, 1, tzinfo=UTC)) == 208
