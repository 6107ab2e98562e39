"""The study's clock without an end, against the clock that a run builds over its whole span."""

from __future__ import annotations

from typing import Any

import pytest

from quantattn.errors import CalendarError
from quantattn.pit import ForecastClock
from quantattn.pit.timestamps import iso, nanoseconds_of, to_nanoseconds
from quantattn.study.replay.clock import StudyClock
from tests.study.small import packaged_study

DAY = 86_400 * 10**9


def whole_clock(clock: dict[str, Any], calendar: str) -> list[int]:
    made = ForecastClock.sessions(calendar, start="2019-06-03", end="2023-03-30", **clock)
    return nanoseconds_of(made.times).tolist()


@pytest.mark.parametrize(
    ("clock", "calendar"),
    [
        ({}, "XNYS"),
        ({"every": "week"}, "XNYS"),
        ({"every": "month", "at": "open", "offset": "0s"}, "XLON"),
        ({"offset": "9D"}, "XNYS"),
        ({"offset": "-40D"}, "XNYS"),
        ({"at": "00:15", "offset": "0s", "time_zone": "Pacific/Auckland"}, "XNYS"),
        ({"at": "23:45", "offset": "0s", "time_zone": "Pacific/Honolulu"}, "XTKS"),
    ],
    ids=["sessions", "weeks", "months", "long after", "long before", "far east", "far west"],
)
def test_it_gives_the_times_of_the_whole_clock(clock: dict[str, Any], calendar: str) -> None:
    times = whole_clock(clock, calendar)
    settings = {"every": "session"} | clock
    study = packaged_study(
        clock=settings, data={"calendar": calendar, "index": None, "prices": "packaged:us_equities"}
    )
    # Asked from well within, so that what a study's own span would cut off is no matter.
    begin = next(place for place, at in enumerate(times) if at >= to_nanoseconds(1_572_566_400 * 10**9))
    end = next(place for place, at in enumerate(times) if at >= to_nanoseconds(1_672_531_200 * 10**9))
    ticking, found, last = StudyClock(study), [], times[begin] - 1
    while last < times[end]:
        at = ticking.after(last)
        assert at is not None
        found.append(at)
        last = at
    assert found == times[begin : end + 1]
    bounded, last = StudyClock(study), times[begin] - 1
    for place in range(begin, begin + 40):
        assert bounded.after(last, up_to=times[place] - 1) is None
        assert bounded.after(last, up_to=times[place]) == times[place]
        last = times[place]


def test_it_is_strictly_after_and_goes_on_behind_the_data() -> None:
    clock = StudyClock(packaged_study())
    friday = to_nanoseconds(1_672_433_100 * 10**9)  # 2022-12-30T20:45Z
    assert iso(clock.after(friday - 1) or 0) == "2022-12-30T20:45:00Z"
    assert iso(clock.after(friday) or 0) == "2023-01-06T20:45:00Z"
    assert iso(clock.after(friday + 6 * 365 * DAY) or 0) == "2028-12-29T20:45:00Z"
    assert clock.after(friday + 6 * 365 * DAY, up_to=friday + 6 * 365 * DAY + DAY - 1) is None


def test_beyond_the_calendar_it_says_so() -> None:
    clock = StudyClock(packaged_study())
    with pytest.raises(CalendarError, match="knows its holidays"):
        clock.after(to_nanoseconds(7_289_654_400 * 10**9))  # 2201-01-01


def test_it_says_before_how_far_the_calendar_reaches() -> None:
    clock, day = StudyClock(packaged_study()), 1_661_542_200 * 10**9  # in 2022
    clock.reach(day)
    assert clock.after(day) == StudyClock(packaged_study()).after(day)
    clock.reach(day + 150 * 365 * DAY)
    with pytest.raises(CalendarError, match=r"knows its holidays from .* to 2200-12-31 only"):
        clock.reach(day + 180 * 365 * DAY)
    # Nothing that was asked for changes what is due.
    assert clock.after(day) == StudyClock(packaged_study()).after(day)
