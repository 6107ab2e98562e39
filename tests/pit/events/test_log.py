"""The event log itself: validity, order, views, merging and the fingerprint."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from quantattn.errors import CalendarError, EventDataError, TimestampError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers.tables import read_event_tables

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


def frame_of(rows):
    """Make a valid frame from (event_id, revision, entity, event_time, available_at, kind, text, size)."""
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(pl.col("event_time", "available_at").cast(pl.Datetime("ns", "UTC")))


def log_of(rows):
    return EventLog.from_valid(frame_of(rows), ["size"])


def rows_of(log):
    return (
        log.frame.with_columns(pl.col("event_time", "available_at").to_physical()).select(list(SCHEMA)).rows()
    )


ROWS = [
    ("b", 0, "MSFT", 5, 10, "news", "later id, same times", 1.5),
    ("a", 1, "AAPL", 5, 10, "news", "second version", None),
    ("a", 0, "AAPL", 5, 10, "news", "first version", -2.0),
    ("c", 0, None, 1, 10, "macro", None, 0.25),
    ("d", 0, "AAPL", 0, 9, "news", "é\n\x00", float(2**53)),
]


def test_canonical_order_breaks_ties_by_event_time_then_id_then_revision():
    assert [row[:2] for row in rows_of(log_of(ROWS))] == [("d", 0), ("c", 0), ("a", 0), ("a", 1), ("b", 0)]


def test_columns_and_types_are_the_contract():
    log = log_of(ROWS)
    assert log.frame.columns == list(SCHEMA)
    assert log.frame.schema["available_at"] == pl.Datetime("ns", "UTC")
    assert log.features == ("size",)
    assert log.rejects.schema == {"row": pl.Int64, "reason": pl.String, "detail": pl.String}
    assert log.entities == ("AAPL", "MSFT")
    assert len(log) == 5
    assert repr(log) == "EventLog(5 events, 2 entities, features=['size'], 0 rejected)"


def visible_by_hand(rows, moment):
    """Walk the rows one by one: the highest revision of each event among those available before."""
    best = {}
    for row in rows:
        if row[4] < moment and (row[0] not in best or row[1] > best[row[0]][1]):
            best[row[0]] = row
    return sorted(best.values(), key=lambda row: (row[4], row[3], row[0], row[1]))


@pytest.mark.parametrize("moment", range(4))
def test_as_of_in_every_interleaving_of_two_revisions_and_another_event(moment):
    for first, second, other in itertools.product(range(4), repeat=3):
        rows = [
            ("a", 0, "X", 0, first, "k", "old", 1.0),
            ("a", 1, "X", 0, second, "k", "new", 2.0),
            ("b", 0, "X", 0, other, "k", "other", None),
        ]
        log = log_of(rows)
        assert rows_of(log.as_of(moment)) == visible_by_hand(rows, moment), (first, second, other)


def test_as_of_excludes_equality_and_sees_one_nanosecond_later():
    instant = 1_732_903_200_000_000_001
    log = log_of([("a", 0, "X", instant, instant, "k", None, None)])
    assert len(log.as_of(instant)) == 0
    assert len(log.as_of(instant + 1)) == 1
    assert len(log.as_of(pd.Timestamp(instant + 1, tz="America/New_York"))) == 1
    assert len(log.as_of(np.datetime64(instant + 1, "ns"))) == 1


def test_as_of_random_logs_against_loops():
    generator = random.Random(5)
    for _ in range(40):
        rows = [
            (name, revision, None, 0, generator.randrange(6), "k", None, None)
            for name in "abcd"
            for revision in range(generator.randrange(4))
        ]
        log = log_of(rows)
        for moment in range(8):
            assert rows_of(log.as_of(moment)) == visible_by_hand(rows, moment)


def test_between_is_what_the_later_forecast_sees_and_the_earlier_did_not():
    rows = [(f"e{at}", 0, "X", 0, at, "k", None, None) for at in range(6)]
    log = log_of(rows)
    for start, end in itertools.combinations_with_replacement(range(8), 2):
        assert [row[4] for row in rows_of(log.between(start, end))] == [
            at for at in range(6) if not at < start and at < end
        ]


def test_between_keeps_superseded_versions():
    assert [row[:2] for row in rows_of(log_of(ROWS).between(10, 11))] == [
        ("c", 0),
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]


def test_between_refuses_a_backward_interval():
    with pytest.raises(EventDataError, match=r"start=3 is later than end=2; swap them"):
        log_of(ROWS).between(3, 2)


def test_as_of_refuses_a_missing_instant():
    with pytest.raises(TimestampError, match="missing"):
        log_of(ROWS).as_of(None)  # type: ignore[arg-type]


def test_views_carry_no_rejects():
    rejects = pl.DataFrame(
        {"row": [7], "reason": ["naive_time"], "detail": ["x"]}, schema_overrides={"row": pl.Int64}
    )
    log = EventLog.from_valid(frame_of(ROWS), ["size"], rejects=rejects)
    assert log.reject_counts == {"naive_time": 1}
    assert log.as_of(100).rejects.is_empty()
    assert log.between(0, 100).rejects.is_empty()


def test_fingerprint_ignores_the_order_of_rows_and_columns():
    expected = log_of(ROWS).fingerprint
    assert len(expected) == 64
    for order in itertools.permutations(ROWS):
        assert log_of(order).fingerprint == expected
    shuffled = frame_of(ROWS).select(sorted(SCHEMA))
    assert EventLog.from_valid(shuffled, ["size"]).fingerprint == expected


CHANGES = {
    "event_id": "z",
    "revision": 9,
    "entity": "TSLA",
    "event_time": 4,
    "available_at": 11,
    "kind": "other",
    "text": "",
    "size": 1.5000000000000002,
}


@pytest.mark.parametrize("column", list(CHANGES))
def test_fingerprint_changes_with_any_value(column):
    place = list(SCHEMA).index(column)
    changed = [*ROWS]
    changed[0] = (*ROWS[0][:place], CHANGES[column], *ROWS[0][place + 1 :])
    assert log_of(changed).fingerprint != log_of(ROWS).fingerprint


@pytest.mark.parametrize("column", ["entity", "text", "size"])
def test_fingerprint_tells_null_from_every_filling(column):
    fillings = {"entity": ["", "-"], "text": ["", "null"], "size": [0.0, -1.0]}[column]
    place = list(SCHEMA).index(column)
    prints = {
        log_of([(*ROWS[0][:place], value, *ROWS[0][place + 1 :])]).fingerprint for value in [None, *fillings]
    }
    assert len(prints) == 3


def test_fingerprint_does_not_confuse_neighbouring_texts():
    def texts(*values):
        rows = [(str(i), 0, None, 0, 0, "k", value, None) for i, value in enumerate(values)]
        return log_of(rows).fingerprint

    assert len({texts("ab", "c"), texts("a", "bc"), texts("abc", ""), texts("", "abc")}) == 4


def test_fingerprint_depends_on_feature_names_and_their_order():
    frame = frame_of(ROWS).with_columns(other=pl.col("size"))
    both = EventLog.from_valid(frame, ["size", "other"]).fingerprint
    assert EventLog.from_valid(frame, ["other", "size"]).fingerprint != both
    renamed = frame_of(ROWS).rename({"size": "volume"})
    assert EventLog.from_valid(renamed, ["volume"]).fingerprint != log_of(ROWS).fingerprint


def test_fingerprint_covers_every_block(monkeypatch):
    monkeypatch.setattr("quantattn.pit.events.fingerprint._BLOCK_ROWS", 2)
    rows = [(str(i), 0, "X", i, i, "k", str(i), float(i)) for i in range(7)]
    prints = {log_of(rows).fingerprint, log_of(rows[:-1]).fingerprint}
    for i in range(7):
        for column, value in (("text", None), ("size", -1.0), ("entity", "Y")):
            place = list(SCHEMA).index(column)
            changed = [*rows]
            changed[i] = (*rows[i][:place], value, *rows[i][place + 1 :])
            prints.add(log_of(changed).fingerprint)
    assert len(prints) == 2 + 7 * 3


def test_concat_unites_features_and_keeps_order_and_rejects():
    rejects = pl.DataFrame(
        {"row": [3], "reason": ["null_entity"], "detail": ["x"]}, schema_overrides={"row": pl.Int64}
    )
    left = EventLog.from_valid(frame_of(ROWS[:2]), ["size"], rejects=rejects)
    right = EventLog.from_valid(frame_of(ROWS[2:]).rename({"size": "level"}), ["level"])
    both = EventLog.concat([left, right])
    assert both.features == ("size", "level")
    assert both.frame.select("event_id", "revision", "size", "level").rows() == [
        ("d", 0, None, float(2**53)),
        ("c", 0, None, 0.25),
        ("a", 0, None, -2.0),
        ("a", 1, None, None),
        ("b", 0, 1.5, None),
    ]
    assert both.reject_counts == {"null_entity": 1}


def test_concat_of_nothing_is_an_empty_log():
    empty = EventLog.concat([])
    assert len(empty) == 0
    assert empty.entities == ()
    assert len(empty.as_of(5)) == 0
    assert empty.fingerprint == EventLog.concat([empty]).fingerprint


def test_concat_keeps_once_what_two_logs_hold():
    log = log_of(ROWS)
    both = EventLog.concat([log, log_of(ROWS[:2])])
    assert both.fingerprint == log.fingerprint
    assert both.reject_counts == {"duplicate": 2}
    first = log_of(ROWS[:2]).frame.row(0, named=True)
    assert both.rejects.row(0) == (
        0,
        "duplicate",
        f"log 1: event_id '{first['event_id']}' revision {first['revision']}: repeats an earlier row with "
        "the same event id and revision",
    )
    named = EventLog.concat([log, log], names=["a.csv", "b.csv"])
    assert named.rejects["detail"].str.starts_with("b.csv: event_id").all()


@pytest.mark.parametrize("later", [0, 5])
def test_concat_refuses_contradictions_of_what_was_available_first(later):
    log = log_of(ROWS[:1])
    other = log.frame.with_columns(
        text=pl.lit("otherwise"), available_at=pl.col("available_at") + pl.duration(nanoseconds=later)
    )
    logs = [EventLog.from_valid(other, ["size"]), log]
    both = EventLog.concat(logs)
    assert both.reject_counts == {"conflicting_duplicate": 1 if later else 2}
    assert both.frame.equals(log.frame if later else log.frame.clear())
    details = both.rejects["detail"]
    assert "(in available_at, text);" in details[0] if later else "(in text)" in details[0]
    assert both.fingerprint == EventLog.concat(logs[::-1]).fingerprint


@pytest.mark.parametrize("odd", [None, "log", 3])
def test_concat_of_what_is_no_log_is_refused(odd):
    with pytest.raises(UsageError, match="which is no EventLog"):
        EventLog.concat([log_of(ROWS), odd])
    with pytest.raises(UsageError, match="names= has 1 entries for 0 logs"):
        EventLog.concat([], names=["a"])
    with pytest.raises(UsageError, match="logs is a"):
        EventLog.concat(odd if odd != "log" else 5)


def test_calls_with_a_wrong_type_are_named(tmp_path):
    log = log_of(ROWS)
    log.write(tmp_path / "log.parquet")
    for calendar in (None, 5):
        with pytest.raises(CalendarError, match="is no trading calendar"):
            log.summary(calendar)
    with pytest.raises(EventDataError, match="rejects must be a polars DataFrame"):
        EventLog.from_valid(log.frame, ["size"], rejects=5)
    with pytest.raises(EventDataError, match="frame is a NoneType"):
        EventLog.from_valid(None)
    for rows in (None, 1.5, True):
        with pytest.raises(UsageError, match="is no size of a batch"):
            EventLog.scan(tmp_path / "log.parquet").batches(rows)
    with pytest.raises(UsageError, match="path names no file"):
        EventLog.scan("")


def test_zeros_are_one_zero():
    frame = log_of(ROWS).frame
    plus, minus = (frame.with_columns(size=pl.lit(zero)) for zero in (0.0, -0.0))
    logs = [EventLog.from_valid(one, ["size"]) for one in (plus, minus)]
    assert logs[0].fingerprint == logs[1].fingerprint


@pytest.mark.parametrize("moment", [1.8e9, np.float64(2.0), True, float("inf")])
def test_a_float_is_no_instant(moment):
    with pytest.raises(TimestampError, match="is not an instant but a number of no known unit"):
        log_of(ROWS).as_of(moment)


def test_what_was_read_is_known_after_merging_writing_and_reading(tmp_path):
    frame = pl.DataFrame({"t": ["2024-11-29", "2024-11-29T12:00Z", "soon"]})
    log = EventLog.from_frame(frame, event_time="t")
    other = EventLog.from_frame(frame[:1].with_columns(t=pl.lit("2024-11-28")), event_time="t")
    both = EventLog.concat([log, log, other])
    summary = both.summary()
    assert (summary.rows_read, summary.events, summary.rows_refused, summary.bare_dates) == (7, 3, 4, 3)
    assert summary.rejects == {"duplicate": 2, "unreadable_time": 2}
    both.write(tmp_path / "log.parquet")
    for again in (EventLog.read(tmp_path / "log.parquet"), EventLog.scan(tmp_path / "log.parquet")):
        told = again.summary()
        assert (told.rows_read, told.rows_refused, told.bare_dates) == (7, 4, 3)
        assert "7, of which 4 were refused" in str(told)
    more = replace(log, rejects=pl.concat([log.rejects, log.rejects]))
    assert more.summary().rows_read == 4


@pytest.mark.parametrize("path", [None, 5, ""])
def test_a_path_that_is_none_is_refused(path):
    for use in (log_of(ROWS).write, EventLog.read, log_of(ROWS).write_rejects):
        with pytest.raises(UsageError, match="is no path"):
            use(path)


def test_a_folder_is_no_file_to_write(tmp_path):
    folder = tmp_path / "folder.parquet"
    folder.mkdir()
    for use in (log_of(ROWS).write, log_of(ROWS).write_rejects):
        with pytest.raises(UsageError, match="is a folder; give a file in it"):
            use(folder)
    assert list(tmp_path.iterdir()) == [folder]


BROKEN = [
    (lambda f: f.drop("kind"), r"lack the columns \['kind'\].*add them"),
    (lambda f: f.with_columns(extra=pl.lit(1)), r"columns \['extra'\] that are not declared"),
    (lambda f: f.with_columns(pl.col("revision").cast(pl.Int64)), r"'revision' .* has type Int64, not Int32"),
    (lambda f: f.with_columns(pl.col("event_time").dt.cast_time_unit("us")), r"'event_time' .* type"),
    (
        lambda f: f.with_columns(pl.col("event_time").dt.convert_time_zone("America/New_York")),
        r"'event_time' .* type",
    ),
    (lambda f: f.with_columns(pl.col("size").cast(pl.Float32)), r"'size' .* has type Float32, not Float64"),
    (lambda f: f.with_columns(size=pl.lit(float("inf"))), r"feature 'size' is not finite in 5 rows"),
    (lambda f: f.with_columns(size=pl.lit(float("nan"))), r"feature 'size' is not finite.*use null"),
    (lambda f: f.with_columns(revision=pl.lit(-1, dtype=pl.Int32)), r"'revision' .* is negative"),
    (lambda f: f.with_columns(event_id=pl.lit("x")), r"occurs more than once.*number the revisions"),
    *(
        (
            lambda f, name=name: f.with_columns(pl.lit(None, dtype=f.schema[name]).alias(name)),
            f"'{name}' .* is null",
        )
        for name in ("event_id", "revision", "event_time", "available_at", "kind")
    ),
]


@pytest.mark.parametrize(("breaking", "message"), BROKEN)
def test_from_valid_refuses_a_broken_frame(breaking, message):
    with pytest.raises(EventDataError, match=message):
        EventLog.from_valid(breaking(frame_of(ROWS)), ["size"])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("size", r"features='size' is one text; write features=\['size'\]"),
        (["size", "size"], "more than once"),
        (["text"], "names of the log's own columns; rename them"),
    ],
)
def test_from_valid_refuses_bad_feature_names(features, message):
    with pytest.raises(EventDataError, match=message):
        EventLog.from_valid(frame_of(ROWS), features)


def test_the_log_cannot_be_changed():
    with pytest.raises(AttributeError):
        log_of(ROWS).features = ()  # type: ignore[misc]


def test_two_overlapping_files_of_one_instrument(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("t,id,x\n2024-11-29T12:00Z,1,one\nsoon,2,two\n")
    second.write_text("t,id,x\n2024-11-29T12:00Z,1,one\n2024-11-29T13:00Z,1,other\n")
    log = read_event_tables([first, second], event_time="t", event_id="id", text="x", name="BTCUSD")
    assert log.frame.select("entity", "text").rows() == [("BTCUSD", "one")]
    # Of one file the contradiction is refused as it is read; what both hold, when they are merged.
    assert [(row, reason) for row, reason, _ in log.rejects.rows()] == [
        (1, "unreadable_time"),
        (1, "conflicting_duplicate"),
        (0, "duplicate"),
    ]
    assert [detail.split(": ")[0] for detail in log.rejects["detail"]] == [
        str(first),
        str(second),
        str(second),
    ]
