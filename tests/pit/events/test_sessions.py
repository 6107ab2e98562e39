"""In which part of a session instants lie: opens and closes to the tick, half days, other days, zones."""

import numpy as np
import pandas as pd
import pytest

from quantattn.errors import CalendarError
from quantattn.pit.events.sessions import PARTS, session_parts

NEW_YORK = [
    # Friday after Thanksgiving closes at 13:00.
    ("2024-11-29T14:29:59.999999999Z", "before_open"),
    ("2024-11-29T14:30:00Z", "in_session"),
    ("2024-11-29T17:59:59.999999999Z", "in_session"),
    ("2024-11-29T18:00:00Z", "after_close"),
    ("2024-11-30T04:59:59.999999999Z", "after_close"),  # still Friday in New York
    ("2024-11-30T05:00:00Z", "no_session"),
    ("2024-12-02T04:59:59.999999999Z", "no_session"),
    ("2024-12-02T05:00:00Z", "before_open"),
    ("2024-12-02T20:59:59.999999999Z", "in_session"),
    ("2024-12-02T21:00:00Z", "after_close"),
    ("2024-11-28T15:00:00Z", "no_session"),  # Thanksgiving
    ("2001-09-12T15:00:00Z", "no_session"),  # closed after the attacks
    ("2024-03-11T13:30:00Z", "in_session"),  # clocks went forward the day before
    ("2024-11-04T14:29:59Z", "before_open"),  # clocks went back the day before
    ("1900-06-01T15:00:00Z", "unknown"),
    ("2100-06-01T15:00:00Z", "in_session"),
]


@pytest.mark.parametrize(("stamp", "part"), NEW_YORK)
def test_new_york(stamp, part):
    times = np.array([pd.Timestamp(stamp).value])
    assert PARTS[session_parts(times, "XNYS")[0]] == part


def test_many_instants_at_once_are_each_what_they_are_alone():
    times = np.array([pd.Timestamp(stamp).value for stamp, _ in NEW_YORK])
    assert [PARTS[place] for place in session_parts(times, "XNYS")] == [part for _, part in NEW_YORK]


def test_sessions_that_begin_on_the_evening_before():
    # Chicago: the session of Monday 2024-12-02 opens on Sunday at 17:00.
    times = np.array(
        [pd.Timestamp(t).value for t in ("2024-12-01T22:59Z", "2024-12-01T23:00Z", "2024-12-02T23:30Z")]
    )
    assert [PARTS[place] for place in session_parts(times, "CMES")] == [
        "no_session",
        "in_session",
        "in_session",
    ]


def test_the_year_that_begins_within_a_session_of_the_next_day():
    # 17:30 on New Year's Eve in Chicago; the session of 2 January opens on the 1st at 17:00.
    times = np.array([pd.Timestamp(t).value for t in ("2024-12-31T23:30Z", "2025-01-01T23:00Z")])
    assert [PARTS[place] for place in session_parts(times, "CMES")] == ["after_close", "in_session"]


def test_no_instants_and_unknown_calendars():
    assert session_parts(np.zeros(0, dtype=np.int64), "XNYS").size == 0
    with pytest.raises(CalendarError, match="calendar='XNYC' is unknown"):
        session_parts(np.zeros(1, dtype=np.int64), "XNYC")
