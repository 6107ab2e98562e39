from __future__ import annotations

import json
from datetime import date

import polars as pl
import pytest

from quantattn.errors import PriceDataError, UsageError
from quantattn.pit import ForecastClock, PriceHistory, direction
from quantattn.pit.survivorship import survivorship
from tests.pit.build import price_table


def history() -> PriceHistory:
    # 504 sessions from 2019-01-02 on: OLD ends in 2019, NEW starts in 2020.
    closes = {
        "ALL": [1.0] * 504,
        "NEW": [None] * 300 + [1.0] * 204,
        "OLD": [1.0] * 200,
        "BOTH": [None] * 20 + [1.0] * 100,
    }
    return PriceHistory.from_frame(price_table(closes))  # type: ignore[arg-type]


CLOCK = ForecastClock.sessions(start="2019-01-07", end="2020-11-30", every="week")


def test_who_starts_late_and_who_ends_early() -> None:
    report = survivorship(history(), CLOCK)
    assert (report.n_entities, report.n_alive, report.share_alive) == (4, 2, 0.5)
    assert report.late.rows() == [("BOTH", date(2019, 1, 31)), ("NEW", date(2020, 3, 12))]
    assert report.early.rows() == [("BOTH", date(2019, 6, 24)), ("OLD", date(2019, 10, 16))]
    assert report.by_year.rows() == [(2019, 1, 2, 3), (2020, 1, 0, 2)]
    told = str(report)
    assert "picked after the fact" in told
    assert "alive to the end: 2 of 4 (50%)" in told
    assert "history ends early: 2: BOTH (2019-06-24), OLD (2019-10-16)" in told
    assert "2020: 1 in, 0 out, 2 with bars" in told
    assert json.loads(json.dumps(report.to_dict()))["early"] == {"BOTH": "2019-06-24", "OLD": "2019-10-16"}


@pytest.mark.parametrize(("shift", "alive"), [(-1, True), (0, True), (1, False)])
def test_a_last_bar_at_the_last_forecast_is_alive(shift: int, alive: bool) -> None:
    bars = history()
    last = bars.frame.filter(entity="OLD")["event_time"].to_physical()[-1]
    clock = ForecastClock.explicit(
        pl.Series([last - 10**15, last + shift]).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    )
    assert ("OLD" not in survivorship(bars, clock).early["entity"]) is alive


def test_the_end_of_all_bars_is_no_early_end() -> None:
    later = ForecastClock.sessions(start="2019-01-07", end="2022-11-30", every="week")
    assert survivorship(history(), later).n_alive == 2
    one = survivorship(history().cut(CLOCK.times[20].timestamp().__int__() * 10**9), later)
    assert one.share_alive == 1.0
    assert "no set chosen at the start would be sure of" in one.statement
    assert "history ends early: none" in str(one)


def test_nothing_to_look_at() -> None:
    with pytest.raises(PriceDataError, match="needs bars and forecasts"):
        survivorship(history().cut(0), CLOCK)
    with pytest.raises(PriceDataError, match="needs bars and forecasts"):
        survivorship(history(), CLOCK.cut(0))
    with pytest.raises(PriceDataError, match="do not meet"):
        survivorship(history(), ForecastClock.explicit(["2030-01-01T00:00Z"]))


def test_labels_tell_of_survivorship_as_far_as_the_measure_lets_them() -> None:
    # FLAT never moves: every label of it is dropped by the dead band, and it is there all the same.
    closes = {"FLAT": [1.0] * 60, "UP": [1.0 + n for n in range(60)], "GONE": [1.0 + n for n in range(30)]}
    bars = PriceHistory.from_frame(price_table(closes))  # type: ignore[arg-type]
    clock = ForecastClock.sessions(start="2019-01-07", end="2019-03-29")
    made = direction(bars, clock, horizon=5, dead_band=0.0, between="drop")
    assert set(made.frame["entity"]) == {"UP", "GONE"}
    report = survivorship(made, clock)
    assert (report.n_entities, report.n_alive, report.counted) == (3, 2, "forecasts")
    # The 30th session is 2019-02-13; the last forecast with five sessions to come is one of the 6th.
    assert report.early.rows() == [("GONE", date(2019, 2, 6))]
    told = str(report)
    assert "labelled forecasts end early: 1: GONE (2019-02-06)" in told
    assert "history" not in told
    assert "2019: 0 in, 1 out, 3 with labelled forecasts" in told
    table = made.frame.select("entity", "forecast_time")
    assert survivorship(table, clock).n_entities == 2


def test_other_arguments_are_refused() -> None:
    for source in (None, 5):
        with pytest.raises(UsageError, match="prices is a"):
            survivorship(source, CLOCK)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="clock is a NoneType"):
        survivorship(history(), None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lacks"):
        survivorship(pl.DataFrame({"entity": ["A"]}), CLOCK)
