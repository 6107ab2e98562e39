"""The summary of a log: every figure counted by hand, and how it prints."""

import json
import random
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from quantattn.errors import CalendarError
from quantattn.pit.events import EventLog, EventSummary, Gap
from quantattn.pit.events.tally import count_distinct, pick, ties_and_gaps

ROWS = pl.DataFrame(
    [
        ("1", 0, "A", "2024-11-29T14:30Z", "2024-11-29T14:30Z", "news", "x", 1.0),
        ("2", 0, "A", "2024-11-29T14:30Z", "2024-11-29T14:30Z", "news", "x", 1.0),
        ("3", 0, "B", "2024-11-29T12:00Z", "2024-11-29T14:00Z", "news", None, None),
        ("3", 1, "B", "2024-11-29T12:00Z", "2024-12-02T12:00Z", "news", "y", None),
        ("3", 2, "B", "2024-11-29T12:00Z", "2024-12-08T12:00Z", "news", None, None),
        ("4", 0, "*", "2024-12-08T11:00Z", "2024-12-08T12:00Z", "macro", "z", None),
        ("5", 0, "*", "soon", "2024-12-08T12:00Z", "macro", "z", None),
        ("6", 0, "*", None, "2024-12-08T12:00Z", "macro", "z", None),
        ("7", 0, "*", "soon", "2024-12-08T12:00Z", "macro", "z", None),
    ],
    schema=["id", "r", "e", "t", "p", "k", "x", "f"],
    orient="row",
)
COLUMNS = {
    "event_time": "t",
    "available_at": "p",
    "entity": "e",
    "event_id": "id",
    "text": "x",
    "kind": "k",
    "revision": "r",
    "features": ["f"],
}
HOUR = 3_600_000_000_000


def log():
    return EventLog.from_frame(ROWS, **COLUMNS)


def test_every_figure():
    summary = log().summary()
    assert isinstance(summary, EventSummary)
    assert summary.events == 6
    assert summary.rejects == {"unreadable_time": 2, "missing_time": 1}
    assert summary.entities == {"B": 3, "A": 2}
    assert summary.market_wide == 1
    assert summary.kinds == {"news": 5, "macro": 1}
    assert (summary.revisions, summary.retractions) == (2, 1)
    # Lags in hours: 0, 0, 1, 2, 72, 216.
    assert summary.lag_quantiles == {
        0.0: 0,
        0.01: 0,
        0.05: 0,
        0.25: 0,
        0.5: HOUR,
        0.75: 2 * HOUR,
        0.95: 72 * HOUR,
        0.99: 72 * HOUR,
        1.0: 216 * HOUR,
    }
    assert summary.session_parts == {
        "before_open": 2,
        "in_session": 2,
        "after_close": 0,
        "no_session": 2,
        "unknown": 0,
    }
    assert summary.outside_session == pytest.approx(4 / 6)
    assert (summary.tied, summary.largest_tie) == (4, 2)
    # Event 2 says what event 1 said; the last version of 3 what its first one did.
    assert summary.duplicates == 2
    first, second, third, fourth = (
        1_732_888_800_000_000_000,
        1_732_890_600_000_000_000,
        1_733_140_800_000_000_000,
        1_733_659_200_000_000_000,
    )
    assert summary.gaps == (Gap(third, fourth), Gap(second, third), Gap(first, second))
    assert (summary.first, summary.last) == (first, fourth)
    assert summary.null_text == 2
    assert summary.null_features == {"f": 4}


def test_it_prints_as_two_columns():
    lines = str(log().summary()).splitlines()
    assert lines[:6] == [
        "rows read           9, of which 3 were refused",
        "events              6",
        "refused rows        unreadable_time 2, missing_time 1",
        "bare dates          0, known from the next session's open",
        "available           2024-11-29T14:00:00Z to 2024-12-08T12:00:00Z",
        "happened            2024-11-29T12:00:00Z to 2024-12-08T11:00:00Z",
    ]
    assert "entities (2)        B 3, A 2" in lines
    assert "retractions         1 (16.7%)" in lines
    assert "tied in time        4 (66.7%), at most 2 at one instant" in lines
    assert "no session (XNYS)   2 (33.3%)" in lines
    assert "longest gaps        6d from 2024-12-02T12:00:00Z to 2024-12-08T12:00:00Z" in lines
    assert "                    30min from 2024-11-29T14:00:00Z to 2024-11-29T14:30:00Z" in lines
    assert not any("unknown" in line for line in lines)
    assert repr(log().summary()) == str(log().summary())


def test_it_becomes_plain_values():
    plain = log().summary().to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["first"] == "2024-11-29T14:00:00Z"
    assert plain["lag_quantiles"]["0.75"] == 7200.0
    assert plain["gaps"][0] == {
        "start": "2024-12-02T12:00:00Z",
        "end": "2024-12-08T12:00:00Z",
        "seconds": 518400.0,
    }


def test_an_empty_log_has_a_summary():
    empty = EventLog.concat([])
    summary = empty.summary()
    assert (summary.events, summary.first, summary.largest_tie, summary.gaps) == (0, None, 0, ())
    assert summary.lag_quantiles == {}
    assert np.isnan(summary.outside_session)
    assert "events" in str(summary)
    assert json.dumps(summary.to_dict())


def test_names_from_the_data_are_shown_harmless_and_short():
    frame = pl.DataFrame(
        {"t": ["2024-11-29T14:30Z"] * 2, "e": ["\x1b[31mred\u202e", "x" * 300], "k": ["a\nb", "k"]}
    )
    said = str(EventLog.from_frame(frame, event_time="t", entity="e", kind="k").summary())
    assert "\x1b" not in said and "\u202e" not in said and "a\nb" not in said
    assert "\ufffd[31mred\ufffd 1" in said
    assert max(map(len, said.splitlines())) < 200


def test_times_at_both_ends_of_the_range():
    stamps = ["1677-09-22T00:00Z", "2262-04-10T00:00Z"]
    frame = pl.DataFrame({"t": stamps, "p": stamps[::-1]})
    summary = EventLog.from_frame(frame, event_time="t", available_at="p", scheduled=True).summary()
    first, last = -9_223_286_400_000_000_000, 9_223_200_000_000_000_000
    assert summary.gaps == (Gap(first, last),)
    assert (summary.lag_quantiles[0.0], summary.lag_quantiles[1.0]) == (-(2**63), 2**63 - 1)
    assert "213,501d from 1677-09-22T00:00:00Z to 2262-04-10T00:00:00Z" in str(summary)


def test_an_unknown_calendar_is_refused():
    with pytest.raises(CalendarError, match="calendar='XNYC' is unknown"):
        log().summary("XNYC")


def test_ties_and_gaps_do_not_depend_on_how_the_values_are_cut():
    generator = random.Random(6)
    for _ in range(80):
        values = sorted(generator.randrange(12) for _ in range(generator.randrange(1, 15)))
        counts = {value: values.count(value) for value in values}
        distinct = sorted(counts)
        tied = sum(count for count in counts.values() if count > 1)
        steps = sorted(pairwise(distinct), key=lambda step: (step[0] - step[1], step[0]))[:3]
        cuts = sorted(generator.randrange(len(values) + 1) for _ in range(generator.randrange(4)))
        parts = [
            np.array(values[a:b], dtype=np.int64)
            for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)
        ]
        assert ties_and_gaps(iter(parts), 3) == (tied, max(counts.values()), steps), (values, cuts)
        assert count_distinct(iter([part.astype(np.uint64) for part in parts])) == len(distinct)
        places = [0, len(values) // 2, len(values) - 1]
        assert pick(iter(parts), places) == [values[place] for place in places]


def test_lags_that_are_all_equal_are_said_once():
    one = EventLog.from_frame(
        pl.DataFrame({"t": ["2024-11-29T12:00Z", "2024-11-30T12:00Z"]}), event_time="t", latency="2s"
    )
    assert "lag of knowledge    2s of every event" in str(one.summary()).splitlines()
