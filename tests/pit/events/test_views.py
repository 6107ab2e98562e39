"""What was known at an instant: every interleaving against a naive oracle, revisions and retractions."""

import itertools
import random

import polars as pl
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events import EventLog

SCHEMA = {
    "event_id": pl.String,
    "revision": pl.Int32,
    "entity": pl.String,
    "event_time": pl.Int64,
    "available_at": pl.Int64,
    "kind": pl.String,
    "text": pl.String,
    "size": pl.Float64,
}


def log_of(rows):
    """Make a log of (event_id, revision, available_at, text, size)."""
    full = [(name, number, None, 0, at, "k", text, size) for name, number, at, text, size in rows]
    frame = pl.DataFrame(full, schema=SCHEMA, orient="row")
    return EventLog.from_valid(
        frame.with_columns(pl.col("event_time", "available_at").cast(pl.Datetime("ns", "UTC"))), ["size"]
    )


def rows_of(log):
    frame = log.frame.with_columns(pl.col("available_at").to_physical())
    return frame.select("event_id", "revision", "available_at", "text", "size").rows()


# --- the oracle: a page of loops that shares nothing with the code under test ---------------------------


def known(rows, moment):
    """The rows that became available strictly before a moment, in canonical order."""
    seen = []
    for row in rows:
        if row[2] < moment:
            seen.append(row)
    return sorted(seen, key=lambda row: (row[2], row[0], row[1]))


def latest(rows, moment):
    """The version of the highest revision of each event known at a moment."""
    result = []
    for row in known(rows, moment):
        beaten = False
        for other in known(rows, moment):
            if other[0] == row[0] and other[1] > row[1]:
                beaten = True
        if not beaten:
            result.append(row)
    return result


def retracted(rows, row, moment):
    """Whether a version says nothing where a lower one known at a moment said something."""
    if row[3] is not None or row[4] is not None:
        return False
    for other in known(rows, moment):
        if other[0] == row[0] and other[1] < row[1] and (other[3] is not None or other[4] is not None):
            return True
    return False


# --- every interleaving, equality included ---------------------------------------------------------------


def test_every_interleaving_of_two_events_their_revisions_and_a_forecast():
    checked = 0
    for first, second, other, revised in itertools.product(range(4), repeat=4):
        rows = [
            ("a", 0, first, "old", 1.0),
            ("a", 1, second, None, None),
            ("b", 0, other, "said", None),
            ("b", 1, revised, "corrected", 2.0),
        ]
        log = log_of(rows)
        for moment in range(5):
            assert rows_of(log.as_of(moment)) == latest(rows, moment), (rows, moment)
            standing = [row for row in latest(rows, moment) if not retracted(rows, row, moment)]
            assert rows_of(log.as_of(moment, retracted="drop")) == standing, (rows, moment)
            checked += 1
        for start, end in itertools.combinations_with_replacement(range(5), 2):
            news = [row for row in known(rows, end) if row not in known(rows, start)]
            assert rows_of(log.between(start, end)) == news
    assert checked == 4**4 * 5


def test_random_logs_against_the_oracle():
    generator = random.Random(2)
    for _ in range(80):
        rows = [
            (
                name,
                number,
                generator.randrange(5),
                generator.choice(["t", None]),
                generator.choice([1.0, None]),
            )
            for name in "abc"
            for number in generator.sample(range(4), generator.randrange(4))
        ]
        log = log_of(rows)
        for moment in range(7):
            assert rows_of(log.as_of(moment)) == latest(rows, moment)
            standing = [row for row in latest(rows, moment) if not retracted(rows, row, moment)]
            assert rows_of(log.as_of(moment, retracted="drop")) == standing, (rows, moment)


def test_one_tick_decides():
    instant = 4_102_444_800_000_000_001  # 2100-01-01T00:00:00.000000001Z
    log = log_of([("a", 0, instant - 1, "old", None), ("a", 1, instant, "new", None)])
    assert [row[3] for row in rows_of(log.as_of(instant))] == ["old"]
    assert [row[3] for row in rows_of(log.as_of(instant + 1))] == ["new"]
    assert len(log.as_of(instant - 1)) == 0
    early = log_of([("a", 0, -2_208_988_800_000_000_001, "1899", None)])  # one tick before 1900
    assert len(early.as_of(-2_208_988_800_000_000_001)) == 0
    assert len(early.as_of(-2_208_988_800_000_000_000)) == 1


# --- retractions -----------------------------------------------------------------------------------------


def test_an_event_that_never_said_anything_is_no_retraction():
    log = log_of([("a", 0, 1, None, None), ("a", 1, 2, None, None), ("b", 0, 1, None, None)])
    assert len(log.as_of(9, retracted="drop")) == 2
    assert log.revisions("a")["retracted"].to_list() == [False, False]


def test_a_retraction_needs_that_no_text_and_no_feature_is_left():
    log = log_of(
        [("a", 0, 1, "t", 1.0), ("a", 1, 2, None, 1.0), ("a", 2, 3, "t", None), ("a", 3, 4, None, None)]
    )
    assert log.revisions("a")["retracted"].to_list() == [False, False, False, True]
    assert [len(log.as_of(moment, retracted="drop")) for moment in (2, 3, 4, 5)] == [1, 1, 1, 0]


def test_a_later_version_does_not_make_an_earlier_one_a_retraction():
    log = log_of([("a", 1, 1, None, None), ("a", 2, 2, "t", None)])
    assert log.revisions("a")["retracted"].to_list() == [False, False]
    assert len(log.as_of(2, retracted="drop")) == 1


def test_retractions_are_events_of_their_own_in_the_stream():
    log = log_of([("a", 0, 1, "t", None), ("a", 1, 5, None, None)])
    assert rows_of(log.between(2, 6)) == [("a", 1, 5, None, None)]
    assert rows_of(log.as_of(6)) == [("a", 1, 5, None, None)]


def test_retracted_takes_two_words():
    with pytest.raises(UsageError, match="retracted='hide' is unknown; use 'keep' or 'drop'"):
        log_of([("a", 0, 1, "t", None)]).as_of(2, retracted="hide")


# --- all versions of one event -----------------------------------------------------------------------------


def test_revisions_say_until_when_each_was_the_latest():
    log = log_of(
        [("a", 2, 30, "c", None), ("a", 0, 10, "a", None), ("b", 0, 5, "x", None), ("a", 1, 20, "b", None)]
    )
    shown = log.revisions("a").with_columns(pl.col("available_at", "superseded_at").to_physical())
    assert shown.columns == [*log.frame.columns, "superseded_at", "retracted"]
    assert shown.select("revision", "available_at", "superseded_at", "text").rows() == [
        (0, 10, 20, "a"),
        (1, 20, 30, "b"),
        (2, 30, None, "c"),
    ]


def test_versions_that_arrive_out_of_order_may_never_be_the_latest():
    log = log_of(
        [("a", 0, 50, "a", None), ("a", 1, 20, "b", None), ("a", 2, 20, "c", None), ("a", 3, 40, "d", None)]
    )
    shown = log.revisions("a").with_columns(pl.col("superseded_at").to_physical())
    assert shown["superseded_at"].to_list() == [20, 20, 40, None]


def test_superseded_at_against_the_views():
    generator = random.Random(4)
    for _ in range(60):
        rows = [("a", n, generator.randrange(6), str(n), None) for n in range(generator.randrange(1, 5))]
        log = log_of(rows)
        shown = log.revisions("a").with_columns(pl.col("available_at", "superseded_at").to_physical())
        for number, at, until in shown.select("revision", "available_at", "superseded_at").rows():
            for moment in range(8):
                latest_now = [row[1] for row in latest(rows, moment)]
                # Seen from the tick after it arrived, up to and with the tick at which another arrived.
                assert (number in latest_now) == (at < moment and (until is None or moment <= until))


def test_an_unknown_event_brings_ids_that_begin_alike():
    log = log_of([("story-1", 0, 1, "t", None), ("story-2", 0, 1, "t", None), ("z", 0, 1, "t", None)])
    with pytest.raises(EventDataError, match=r"event_id='story-3' is not .* \['story-1', 'story-2'\]"):
        log.revisions("story-3")
    with pytest.raises(EventDataError, match="event_id=None is not in the log"):
        log.revisions(None)
    with pytest.raises(EventDataError, match=r"the log's first ids are \['story-1', 'story-2', 'z'\]"):
        log.revisions("nothing")
