"""Repeated text: normal forms by hand, flags against all pairs in loops, and nothing from later events."""

import random
import re
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.events import EventLog, repeats
from quantattn.pit.events.repeats import normalise

SCHEMA = {
    "event_id": pl.String,
    "revision": pl.Int32,
    "entity": pl.String,
    "event_time": pl.Int64,
    "available_at": pl.Int64,
    "kind": pl.String,
    "text": pl.String,
}


def log_of(rows):
    """Make a log of (entity, available_at, text)."""
    full = [(str(i), 0, entity, 0, at, "k", text) for i, (entity, at, text) in enumerate(rows)]
    frame = pl.DataFrame(full, schema=SCHEMA, orient="row")
    return EventLog.from_valid(
        frame.with_columns(pl.col("event_time", "available_at").cast(pl.Datetime("ns", "UTC")))
    )


def flags_of(log, count):
    """Give the flags in the order in which the rows were given."""
    rows = {int(name): flags for name, *flags in log.frame.select("event_id", *repeats.NAMES).rows()}
    return [tuple(rows[i]) for i in range(count)]


NORMAL = [
    ("Apple RISES!!", "apple rises"),
    ("  apple\t rises\n", "apple rises"),
    ("apple,rises", "apple rises"),
    ("RT @trader_1: Apple rises", "apple rises"),
    ("rt @a: RT @b: Apple rises", "apple rises"),
    ("Apple rises https://t.co/AbC1?x=2 via @wire", "apple rises via"),
    ("www.example.com/x Apple", "apple"),
    ("$AAPL #earnings", "aapl earnings"),
    ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
    ("Zürich étude", "zürich étude"),
    ("sinks -5%", "sinks minus 5"),
    ("sinks (-$5.20)", "sinks minus 5 20"),
    ("2024-11-29", "2024 11 29"),
    ("a-b", "a b"),
    ("gains +5%", "gains 5"),
    ("!!! \U0001f680", None),
    ("https://t.co/only", None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("text", "normal"), NORMAL)
def test_normal_forms(text, normal):
    frame = pl.DataFrame({"text": [text]}, schema={"text": pl.String})
    assert frame.select(normalise(pl.col("text"))).to_series().to_list() == [normal]


# --- the oracle ---------------------------------------------------------------------------------------------


def pairs_of(text):
    words = text.split()
    return set(pairwise(words)) or {(words[0],)}


def flags_by_hand(rows, threshold, window=None):
    """Hold every row against all others; texts are words in lower case."""
    flags = []
    for entity, at, text in rows:
        if not text:
            flags.append((None, None))
            continue
        same, near = 0.0, 0.0
        for other, earlier, said in rows:
            if other != entity or earlier >= at or not said or (window is not None and at - earlier > window):
                continue
            ours, theirs = pairs_of(text), pairs_of(said)
            near = max(near, len(ours & theirs) / len(ours | theirs))
            if said == text:
                same, near = 1.0, 1.0
        flags.append((same, near if near >= threshold else None))
    return flags


words = st.lists(st.sampled_from("abc"), min_size=1, max_size=6).map(" ".join)
rows = st.lists(
    st.tuples(st.sampled_from(["A", "B", None]), st.integers(0, 5), st.one_of(words, st.none())),
    min_size=1,
    max_size=18,
)


@settings(max_examples=250, deadline=None)
@given(rows, st.sampled_from([0.01, 0.3, 0.5, 0.6, 0.8, 1.0]), st.sampled_from([None, 1, 2]))
def test_flags_against_all_pairs(rows, threshold, window):
    log = log_of(rows).with_repeats(threshold, None if window is None else f"{window}ns")
    assert log.features == ("repeat", "near_repeat")
    assert flags_of(log, len(rows)) == flags_by_hand(rows, threshold, window)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(0, 6))
def test_flags_of_a_cut_log_are_the_first_flags(rows, moment):
    log = log_of(rows)
    whole = log.with_repeats(0.5)
    cut = log.between(0, moment).with_repeats(0.5)
    assert cut.frame.equals(whole.frame.filter(pl.col("available_at").to_physical() < moment))


def test_the_order_of_entities_and_groups_does_not_matter(monkeypatch):
    generator = random.Random(3)
    rows = [
        (generator.choice("ABCDE"), generator.randrange(20), " ".join(generator.choices("abcd", k=4)))
        for _ in range(200)
    ]
    expected = flags_by_hand(rows, 0.5)
    for at_once in (1, 40, 10_000):
        monkeypatch.setattr(repeats, "_EVENTS_AT_ONCE", at_once)
        assert flags_of(log_of(rows).with_repeats(0.5), len(rows)) == expected


# --- by hand ------------------------------------------------------------------------------------------


def test_ties_do_not_see_each_other_and_the_next_tick_sees_both():
    rows = [("A", 5, "apple rises today"), ("A", 5, "Apple rises today!"), ("A", 6, "apple rises today")]
    assert flags_of(log_of(rows).with_repeats(), 3) == [(0.0, None), (0.0, None), (1.0, 1.0)]


def test_similarity_is_that_of_the_sets_of_word_pairs():
    # Pairs: ab bc cd de | ab bc cd dx: 3 of 5.
    rows = [("A", 1, "a b c d e"), ("A", 2, "a b c d x")]
    for threshold, near in ((0.6, 0.6), (0.61, None)):
        assert flags_of(log_of(rows).with_repeats(threshold), 2)[1] == (0.0, near)


def test_another_entity_is_no_earlier_text_and_the_market_is_one():
    rows = [("A", 1, "a b"), ("B", 2, "a b"), (None, 3, "a b"), (None, 4, "a b")]
    assert [same for same, _ in flags_of(log_of(rows).with_repeats(), 4)] == [0.0, 0.0, 0.0, 1.0]


def test_the_window_holds_its_own_edge():
    rows = [("A", 10, "a b"), ("A", 15, "a b"), ("A", 21, "a b")]
    assert [same for same, _ in flags_of(log_of(rows).with_repeats(window="5ns"), 3)] == [0.0, 1.0, 0.0]


def test_a_window_is_counted_from_the_last_time_the_text_was_seen():
    rows = [("A", 0, "a b c d e"), ("A", 4, "a b c d x"), ("A", 8, "a b c d e"), ("A", 12, "a b c d x")]
    assert flags_of(log_of(rows).with_repeats(0.5, window="4ns"), 4) == [
        (0.0, None),
        (0.0, 0.6),
        (0.0, 0.6),
        (0.0, 0.6),
    ]


def test_times_at_both_ends_of_the_range():
    rows = [("A", -(2**63) + 1, "a b"), ("A", 2**63 - 1, "a b")]
    assert flags_of(log_of(rows).with_repeats(), 2)[1] == (1.0, 1.0)
    assert flags_of(log_of(rows).with_repeats(window="100000D"), 2)[1] == (0.0, None)


def test_earlier_versions_of_an_event_are_earlier_text():
    frame = log_of([("A", 1, "a b"), ("A", 2, "a b")]).frame
    versions = frame.with_columns(event_id=pl.lit("x"), revision=pl.Series([0, 1], dtype=pl.Int32))
    assert EventLog.from_valid(versions).with_repeats().frame["repeat"].to_list() == [0.0, 1.0]


def test_logs_without_text_or_events():
    empty = EventLog.concat([]).with_repeats()
    assert (len(empty), empty.features) == (0, ("repeat", "near_repeat"))
    assert flags_of(log_of([("A", 1, None), ("A", 2, "!")]).with_repeats(), 2) == [(None, None)] * 2


def test_the_log_is_otherwise_the_same_and_valid():
    log = log_of([("A", 1, "a b"), ("A", 2, "a b c")])
    flagged = log.with_repeats()
    assert flagged.frame.drop(repeats.NAMES).equals(log.frame)
    assert EventLog.from_valid(flagged.frame, flagged.features).fingerprint == flagged.fingerprint


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"threshold": 0}, UsageError, "threshold=0 is no similarity"),
        ({"threshold": "0.8"}, UsageError, "threshold='0.8' is no similarity"),
        ({"threshold": 1.1}, UsageError, "threshold=1.1 is no similarity"),
        ({"threshold": float("nan")}, UsageError, "threshold=nan is no similarity"),
        ({"window": "0s"}, UsageError, "window='0s' reaches back over nothing"),
        ({"window": "-1D"}, UsageError, "window='-1D' reaches back over nothing"),
        ({"window": "5"}, TimestampError, "window='5' is not a duration"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        log_of([("A", 1, "a")]).with_repeats(**options)


def test_flags_are_added_once():
    with pytest.raises(EventDataError, match=r"features \['repeat', 'near_repeat'\] are there already"):
        log_of([("A", 1, "a")]).with_repeats().with_repeats()
