"""What an event table's other columns become: keys, kinds, texts, features, duplicates and frames."""

import itertools
import random
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events.log import EventLog

NOON = "2024-11-29T12:00Z"
PARTS = {"event_time": "t", "entity": "e", "event_id": "id", "text": "x", "kind": "k", "revision": "r"}


def table(**columns):
    """Make a table whose unnamed columns are good and distinct."""
    n = len(next(iter(columns.values())))
    good = {
        "t": [NOON] * n,
        "e": ["A"] * n,
        "id": [str(i) for i in range(n)],
        "x": ["text"] * n,
        "k": ["news"] * n,
        "r": [0] * n,
    }
    return pl.DataFrame({**good, **columns}, strict=False)


def read(frame, *, features=(), **changes):
    return EventLog.from_frame(frame, features=features, **{**PARTS, **changes})


def reasons(log):
    return dict(log.rejects.select("row", "reason").rows())


def test_every_column_arrives():
    frame = table(e=["A", "*"], x=["first", None], k=["news", None], r=[0, 2], f=[1.5, None], g=[3, -4])
    log = read(frame, features=["g", "f"])
    assert log.features == ("g", "f")
    assert log.frame.drop("event_time", "available_at").rows() == [
        ("0", 0, "A", "news", "first", 3.0, 1.5),
        ("1", 2, None, "event", None, -4.0, None),
    ]
    assert log.rejects.is_empty()


def test_only_the_event_time_is_needed():
    log = EventLog.from_frame(pl.DataFrame({"t": [NOON], "other": [1]}), event_time="t")
    row = log.frame.row(0, named=True)
    assert (row["revision"], row["entity"], row["kind"], row["text"]) == (0, None, "event", None)
    assert len(row["event_id"]) == 32


def test_an_empty_table_is_an_empty_log():
    log = read(table(e=["A"]).clear())
    assert (len(log), log.rejects.height, log.reject_counts) == (0, 0, {})


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("e", [None, "", "  ", "A"], "null_entity"),
        ("id", [None, "", "  ", "A"], "null_event_id"),
        ("r", [None, -1, 2**31, 1], "bad_revision"),
        ("r", [0.5, float("nan"), float("inf"), 1.0], "bad_revision"),
        ("r", ["one", "1.5", "", "1"], "bad_revision"),
    ],
)
def test_bad_keys_are_refused(column, values, reason):
    log = read(table(**{column: values}))
    assert reasons(log) == dict.fromkeys(range(3), reason)
    assert log.reject_counts == {reason: 3}
    assert len(log) == 1


def test_entity_names_lose_the_spaces_around_them_and_nothing_else():
    log = read(table(e=[" A", "A ", "B C", "NA", "nan", "*", " * "]))
    assert sorted(log.frame["entity"].to_list(), key=str) == ["A", "A", "B C", "NA", None, None, "nan"]


def test_entity_names_that_differ_in_case_stop_the_intake():
    with pytest.raises(
        EventDataError, match=r"column 'e' .* differ only in case or spaces: 'AAPL', 'Aapl'; give one"
    ):
        read(table(e=["AAPL", "MSFT", "Aapl "]))


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10001, 10002], ["10001", "10002"]),
        ([10001.0, 10002.0], ["10001", "10002"]),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
        ([True, False], ["true", "false"]),
    ],
)
def test_names_that_are_not_text(values, names):
    log = read(table(e=values, id=values))
    assert sorted(log.frame["entity"]) == sorted(names)
    assert sorted(log.frame["event_id"]) == sorted(names)


@pytest.mark.parametrize("column", ["e", "id", "x", "k"])
@pytest.mark.parametrize("values", [[1.5, 2.0], [[1], [2]]])
def test_columns_that_hold_no_text_are_refused_whole(column, values):
    with pytest.raises(EventDataError, match=rf"column '{column}' has type .*; cast it to"):
        read(table(**{column: values}))


FEATURES = [
    ([1, None], [1.0, None]),
    ([True, False], [1.0, 0.0]),
    ([1.5, float("nan")], [1.5, None]),
    ([Decimal("1.25"), None], [1.25, None]),
    ([None, None], [None, None]),
    (["1.5", " -2e3 "], [1.5, -2000.0]),
    (["", "nan"], [None, None]),
    (["N/A", "1"], [None, 1.0]),
]


@pytest.mark.parametrize(("values", "expected"), FEATURES)
def test_features_of_every_type(values, expected):
    log = read(table(f=values), features=["f"])
    assert log.frame["f"].to_list() == expected
    assert log.frame.schema["f"] == pl.Float64


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([float("inf"), 1.0], "infinite_feature"),
        ([-float("inf"), 1.0], "infinite_feature"),
        (["inf", "1"], "infinite_feature"),
        (["1,000", "1"], "bad_feature"),
        (["five", "1"], "bad_feature"),
    ],
)
def test_features_that_are_no_number_are_refused(values, reason):
    log = read(table(f=values), features=["f"])
    assert reasons(log) == {0: reason}


def test_minus_zero_is_zero():
    logs = [read(table(f=[zero]), features=["f"]) for zero in (0.0, -0.0)]
    assert logs[0].fingerprint == logs[1].fingerprint


@pytest.mark.parametrize("values", [[NOON], [[1.0]]])
def test_feature_columns_of_other_types_are_refused(values):
    frame = table(f=values)
    if frame.schema["f"] == pl.String:
        frame = frame.with_columns(pl.col("f").str.to_datetime("%Y-%m-%dT%H:%M%Z", time_zone="UTC"))
    with pytest.raises(EventDataError, match=r"column 'f' has type .*, which is not a number"):
        read(frame, features=["f"])


def test_a_row_has_one_reason_the_first_that_applies():
    log = read(table(t=[None, NOON], e=[None, None], id=[None, None], f=["x", "x"]), features=["f"])
    assert reasons(log) == {0: "missing_time", 1: "null_entity"}


def judged_by_hand(rows):
    """Say which rows of (event_id, revision, content) fall, and why, by comparing all with all."""
    verdicts = {}
    for i, (name, revision, content) in enumerate(rows):
        same = [j for j, row in enumerate(rows) if row[:2] == (name, revision)]
        if any(rows[j][2] != content for j in same):
            verdicts[i] = "conflicting_duplicate"
        elif same[0] < i:
            verdicts[i] = "duplicate"
    return verdicts


def test_duplicates_against_loops():
    generator = random.Random(11)
    for _ in range(60):
        rows = [
            (generator.choice("ab"), generator.randrange(2), generator.choice("xy"))
            for _ in range(generator.randrange(1, 7))
        ]
        names, revisions, contents = (list(part) for part in zip(*rows, strict=True))
        log = read(table(id=names, r=revisions, x=contents))
        assert reasons(log) == judged_by_hand(rows), rows


@pytest.mark.parametrize(
    "change",
    [{"t": "2024-11-29T12:01Z"}, {"e": "B"}, {"e": "*"}, {"x": None}, {"k": None}, {"f": 2.0}, {"f": None}],
)
def test_any_difference_of_content_is_a_conflict(change):
    columns = {"f": [1.0, 1.0], "id": ["a", "a"]}
    same = read(table(**columns), features=["f"])
    assert reasons(same) == {1: "duplicate"}
    good = {"t": NOON, "e": "A", "x": "text", "k": "news", "f": 1.0}
    for name, value in change.items():
        columns[name] = [good[name], value]
    other = read(table(**columns), features=["f"])
    if "t" in change:
        # It was available later, and takes nothing back.
        assert reasons(other) == {1: "conflicting_duplicate"}
        return
    assert reasons(other) == {0: "conflicting_duplicate", 1: "conflicting_duplicate"}
    assert len(other) == 0


def test_a_row_refused_for_another_reason_is_no_duplicate():
    log = read(table(t=[None, NOON], id=["a", "a"], x=["one", "two"]))
    assert reasons(log) == {0: "missing_time"}
    assert log.frame["text"].to_list() == ["two"]


def test_ids_derived_from_the_content_are_stable():
    frame = table(x=["first", "second"], f=[1.0, None])
    ids = dict(
        read(frame, event_id=None, revision=None, features=["f"]).frame.select("text", "event_id").rows()
    )
    # Written down once: a file read again, by any version, must give the same ids.
    assert ids == {
        "first": "6739f80ca49bbb5c1379a393ba82683c",
        "second": "cdb3d0000270180849dbf7507ba6970b",
    }


def test_derived_ids_do_not_depend_on_latency_order_or_other_columns():
    frame = table(x=["first", "second"])
    expected = set(read(frame, event_id=None, revision=None).frame["event_id"])
    for changed in (frame.reverse(), frame.with_columns(other=1)):
        assert set(read(changed, event_id=None, revision=None, latency="5min").frame["event_id"]) == expected


def test_derived_ids_tell_all_contents_apart():
    columns = {
        "t": [NOON, "2024-11-29T12:01Z"],
        "e": ["A", "*"],
        "x": ["-", None],
        "k": ["n", None],
        "f": [0, None],
    }
    rows = list(itertools.product(*columns.values()))
    frame = pl.DataFrame(rows, schema=list(columns), orient="row")
    log = read(frame, event_id=None, revision=None, features=["f"])
    assert len(log) == len(rows) == 32


def test_derived_ids_do_not_confuse_neighbouring_texts():
    frame = table(e=["a", "ab", "a"], k=["bc", "c", "b"], x=["d", "d", "cd"])
    assert len(read(frame, event_id=None, revision=None)) == 3


def test_equal_rows_without_an_id_are_one_event():
    log = read(table(x=["same", "same"]), event_id=None, revision=None)
    assert log.rejects.rows() == [
        (1, "duplicate", "repeats an earlier row with the same event id and revision")
    ]


def test_revisions_need_an_event_id():
    with pytest.raises(EventDataError, match=r"revision='r' .*pass event_id= as well"):
        read(table(e=["A"]), event_id=None)


def test_rejects_name_the_column_the_value_and_the_meaning():
    log = read(table(t=[NOON, "2024-11-29 12:00"], e=["", "A"]))
    assert log.rejects.rows() == [
        (0, "null_entity", "column 'e' is '': no entity"),
        (1, "naive_time", "column 't' is '2024-11-29 12:00': no time zone"),
    ]


def test_reject_details_are_one_short_line_that_a_terminal_does_not_obey():
    log = read(table(t=["\x1b[31mred\nnews" + "x" * 500]))
    (detail,) = log.rejects["detail"]
    assert detail.startswith("column 't' is '\ufffd[31mred\ufffdnewsxxx")
    assert len(detail) < 150
    assert detail.isprintable()


def test_strict_raises_with_counts_first_rows_and_remedy():
    frame = table(t=["soon", NOON, "2024-11-29 12:00", "later", "never"])
    with pytest.raises(EventDataError) as caught:
        read(frame, strict=True)
    assert str(caught.value) == (
        "4 of 5 event rows are refused (3 unreadable_time, 1 naive_time); "
        "first row 0: column 't' is 'soon': not an ISO 8601 date or time; "
        "row 2: column 't' is '2024-11-29 12:00': no time zone; "
        "row 3: column 't' is 'later': not an ISO 8601 date or time; "
        "write 2024-11-29 or 2024-11-29T13:00:00-05:00, or parse the column first"
    )
    assert len(read(frame[1:2], strict=True)) == 1


def test_counts_are_in_order_of_frequency():
    log = read(table(t=[None, "x", "y", NOON]))
    assert list(log.reject_counts.items()) == [("unreadable_time", 2), ("missing_time", 1)]


@pytest.mark.parametrize("argument", list(PARTS))
def test_a_wrong_column_name_brings_the_nearest(argument):
    frame = table(e=["A"]).rename({PARTS[argument]: "Headline"})
    with pytest.raises(EventDataError, match=rf"{argument}='headlin' is not a column.* 'Headline'"):
        read(frame, **{argument: "headlin"})


def test_a_wrong_feature_name_brings_the_nearest():
    with pytest.raises(EventDataError, match=r"'sentimant' is not a column.* 'sentiment'"):
        read(table(sentiment=[1.0]), features=["sentimant"])


def arrow(frame):
    return frame.to_arrow()


def pandas(frame):
    return frame.to_pandas()


def pandas_objects(frame):
    return frame.to_pandas().astype(object)


def pandas_index(frame):
    return frame.to_pandas().set_index(["t", "id"])


def lazy(frame):
    return frame.lazy()


def stream(frame):
    return pa.RecordBatchReader.from_batches(frame.to_arrow().schema, frame.to_arrow().to_batches())


@pytest.mark.parametrize("convert", [pandas, pandas_objects, pandas_index, arrow, lazy, stream])
@pytest.mark.parametrize("typed", [False, True])
def test_every_kind_of_frame_gives_the_same_log(convert, typed):
    frame = table(
        t=[NOON, "2024-11-29T12:00:00.000000001Z", None, "2024-11-28T09:30Z"],
        e=["A", "*", "A", None],
        x=["one", None, "three", "four"],
        f=[1.5, None, 0.0, 2.0],
    )
    if typed:
        frame = frame.with_columns(
            pl.col("t").str.to_datetime("%Y-%m-%dT%H:%M%#z", time_unit="ns", time_zone="UTC", strict=False)
        )
    expected = read(frame, features=["f"])
    log = read(convert(frame), features=["f"])
    assert log.fingerprint == expected.fingerprint
    assert log.rejects.select("row", "reason").equals(expected.rejects.select("row", "reason"))


def test_pandas_zones_that_polars_cannot_name():
    stamps = (
        pd.to_datetime(["2024-11-29T12:00+05:30"])
        .tz_convert("UTC")
        .tz_convert(pd.Timestamp("2024-01-01T00+05:30").tz)
    )
    log = EventLog.from_frame(pd.DataFrame({"t": stamps}), event_time="t")
    assert log.frame["event_time"].to_physical()[0] == pd.Timestamp("2024-11-29T06:30Z").value


def test_pandas_seconds_and_missing_values():
    frame = pd.DataFrame(
        {"t": pd.Series(["2024-11-29T12:00:01", None], dtype="datetime64[s]"), "f": [np.nan, 1.0]}
    )
    log = EventLog.from_frame(frame, event_time="t", time_zone="UTC", features=["f"])
    assert log.frame.select("f").rows() == [(None,)]
    assert log.reject_counts == {"missing_time": 1}


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"t": [NOON]}, r"frame is a dict; give a polars or pandas DataFrame or an Arrow table"),
        (pd.DataFrame([[NOON, NOON]], columns=["t", "t"]), r"column 't' occurs more than once"),
        (pd.DataFrame({("t", "x"): [NOON]}), r"no column names that are text.*flatten or rename"),
        (pd.DataFrame({"t": [NOON, b"x"]}), r"column 't' cannot be read .*bytes\), first in rows \[1\]"),
        (
            pd.DataFrame({"t": [NOON, "\ud800"]}, dtype=object),
            r"column 't' cannot be read .*, first in rows \[1\]",
        ),
    ],
)
def test_frames_that_cannot_be_read(frame, message):
    with pytest.raises(EventDataError, match=message):
        EventLog.from_frame(frame, event_time="t")


def test_the_order_of_the_rows_does_not_matter():
    rows = table(
        t=[NOON, NOON, None, "2024-11-28", NOON, NOON, NOON],
        id=["a", "a", "b", "c", "d", "d", "e"],
        x=["same", "same", "x", "x", "one", "other", "x"],
        f=[0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    )
    expected = read(rows, features=["f"])
    assert sorted(expected.frame["event_id"]) == ["a", "c", "e"]
    generator = random.Random(3)
    for _ in range(30):
        order = generator.sample(range(rows.height), rows.height)
        log = read(rows[order], features=["f"])
        assert log.fingerprint == expected.fingerprint
        assert log.reject_counts == expected.reject_counts


@pytest.mark.parametrize("identifier", [1e300, float("inf"), -float("inf"), 2.0**53])
def test_floats_that_name_no_one_integer_are_no_event_ids(identifier):
    frame = pl.DataFrame({"t": ["2019-01-02T12:00:00Z"] * 2, "id": [identifier, 2.0]})
    with pytest.raises(EventDataError, match="column 'id' has type Float64 with values such as"):
        EventLog.from_frame(frame, event_time="t", event_id="id")


def test_whole_floats_name_integers_up_to_where_floats_stay_apart():
    frame = pl.DataFrame({"t": ["2019-01-02T12:00:00Z"] * 2, "id": [2.0**53 - 1, 2.0]})
    log = EventLog.from_frame(frame, event_time="t", event_id="id")
    assert log.frame["event_id"].to_list() == ["2", "9007199254740991"]


# --- bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["t", "e", "id", "x", "k"])
def test_bytes_are_read_as_utf8_and_rows_that_are_not_are_refused(column):
    good = NOON if column == "t" else "é"
    frame = table(**{column: [good.encode(), b"\xff\xfe", None]})
    assert frame.schema[column] == pl.Binary
    log = read(frame)
    assert reasons(log)[1] == "not_utf8"
    detail = log.rejects.filter(pl.col("row") == 1)["detail"][0]
    assert detail == f"column '{column}' is '\\xff\\xfe': bytes that are not UTF-8"
    name = {"t": "event_time", "e": "entity", "id": "event_id", "x": "text", "k": "kind"}[column]
    if column != "t":
        assert "é" in log.frame[name].to_list()
    assert "0" in log.frame["event_id"].to_list() or column == "id"


def test_features_in_bytes_are_read_as_text_is():
    log = read(table(f=[b"1.5", b"\xc3\x28", b"five"]), features=["f"])
    assert log.frame["f"].to_list() == [1.5]
    assert reasons(log) == {1: "not_utf8", 2: "bad_feature"}


def test_arrow_text_that_nobody_checked_is_checked():
    raw = pa.array([b"fine", b"\xe9t\xe9", None], pa.binary()).view(pa.string())
    frame = pa.table({"t": [NOON] * 3, "id": ["0", "1", "2"], "x": raw})
    log = EventLog.from_frame(frame, event_time="t", event_id="id", text="x")
    assert log.rejects.rows() == [(1, "not_utf8", "column 'x' is '\\xe9t\\xe9': bytes that are not UTF-8")]
    assert sorted(log.frame["text"].to_list(), key=str) == [None, "fine"]


# --- whatever speaks the Arrow C stream interface -----------------------------------------------------


class OnlyAStream:
    """A table of a library that polars does not know."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class BrokenStream:
    def __arrow_c_stream__(self, requested_schema=None):
        raise RuntimeError("connection lost")


def duckdb_relation(arrow):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("news", arrow)
    return connection.sql("select * from news")


@pytest.mark.parametrize("wrap", [OnlyAStream, duckdb_relation, lambda t: t.to_batches()[0]])
def test_anything_with_an_arrow_stream_gives_the_same_log(wrap):
    frame = table(t=[NOON, None, "2024-11-28"], e=["A", "B", "*"], x=["one", "two", None])
    expected = read(frame)
    log = read(wrap(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))
    assert log.fingerprint == expected.fingerprint
    assert log.reject_counts == expected.reject_counts == {"missing_time": 1}


def test_duckdb_stamps_with_a_zone_are_instants():
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("select TIMESTAMPTZ '2024-11-29 12:00:00.000001+02' as t, 1.5 as f")
    log = EventLog.from_frame(relation, event_time="t", features=["f"])
    assert log.frame["available_at"].dt.to_string("%FT%T%.6f").to_list() == ["2024-11-29T10:00:00.000001"]
    assert log.frame["f"].to_list() == [1.5]


def test_a_stream_that_breaks_is_a_clear_error():
    with pytest.raises(EventDataError, match=r"polars cannot read \(connection lost\)"):
        EventLog.from_frame(BrokenStream(), event_time="t")


# --- mixed zones in one column ------------------------------------------------------------------------


def test_zones_mixed_in_one_column_are_read_row_by_row():
    stamps = [
        pd.Timestamp("2024-11-29T07:00", tz="America/New_York"),
        pd.Timestamp("2024-11-29T21:00", tz="Asia/Tokyo"),
        pd.Timestamp("2024-11-29T17:30", tz="Asia/Kolkata"),
        pd.Timestamp("2024-11-29T12:00"),
    ]
    mixed = pd.DataFrame({"t": pd.Series(stamps, dtype=object), "id": list("abcd")})
    written = pl.DataFrame({"t": [stamp.isoformat() for stamp in stamps], "id": list("abcd")})
    for frame in (mixed, written):
        log = EventLog.from_frame(frame, event_time="t", event_id="id")
        assert log.frame["event_time"].dt.to_string("%FT%T").to_list() == ["2024-11-29T12:00:00"] * 3
        assert reasons(log) == {3: "naive_time"}


# --- names that are nearly the same --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "twins"),
    [
        (["BRK B", "BRK  B"], "'BRK  B', 'BRK B'"),
        (["BRK B", "brk\u00a0b"], "'BRK B', 'brk\\xa0b'"),
        (["BRKB", "BRK B"], "'BRK B', 'BRKB'"),
        (["AAPL", "AAPL\u200b"], "'AAPL', 'AAPL\\u200b'"),
    ],
)
def test_names_that_differ_in_spaces_stop_the_intake(names, twins):
    with pytest.raises(EventDataError) as caught:
        read(table(e=names))
    assert f"differ only in case or spaces: {twins}; give one entity one spelling" in str(caught.value)


def test_a_refused_row_does_not_spell_an_entity():
    log = read(table(t=[NOON, None], e=["AAPL", "aapl"]))
    assert log.entities == ("AAPL",)


# --- rows of the future ---------------------------------------------------------------------------------


def test_rows_later_than_now_are_refused_and_equality_is_not():
    now = pd.Timestamp("2024-11-29T12:00Z")
    stamps = [NOON, "2024-11-29T12:00:00.000000001Z", "2024-11-29", "2024-11-30"]
    log = read(table(t=stamps), now=now)
    # A date that has begun may become available later: that follows from the rules, not from the stamp.
    assert reasons(log) == {1: "in_the_future", 3: "in_the_future"}
    assert log.rejects["detail"][0] == (
        "column 't' is '2024-11-29T12:00:00.000000001Z': later than now=, when this table was made"
    )
    assert len(read(table(t=stamps), now=now, scheduled=True)) == 4
    assert len(read(table(t=stamps), now=now + pd.Timedelta("1D"))) == 4


def test_the_publication_counts_and_not_the_event_or_the_latency():
    frame = table(t=[NOON] * 2, p=["2024-11-29T13:00Z", "2024-11-29T14:00Z"])
    log = read(frame, available_at="p", now="2024-11-29T13:00Z", latency="9h")
    assert reasons(log) == {1: "in_the_future"}


def test_rows_later_than_this_moment_are_kept_with_a_warning_that_counts_them():
    stamps = [NOON, "2100-01-01T00:00Z", "2100-01-02T00:00Z", "2200-01-01T00:00Z", "2201-01-01T00:00Z"]
    with pytest.warns(UserWarning) as heard:
        log = read(table(t=stamps))
    assert len(log) == 5
    (said,) = [str(warning.message) for warning in heard]
    assert said.startswith("4 rows are stamped later than this moment, ")
    assert "first row 1 (2100-01-01T00:00:00Z), row 2 (2100-01-02T00:00:00Z), row 3 (2200-01-01" in said
    assert "row 4" not in said
    assert heard[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(table(t=stamps), scheduled=True)
        read(table(t=stamps[:1]))


# --- versions numbered by availability ------------------------------------------------------------------


def numbered_by_hand(rows):
    """Number (id, available, content) rows: refuse ties of an id that differ, keep the first equal ones."""
    kept, refused = [], {}
    for place, (name, moment, content) in enumerate(rows):
        same = [i for i, row in enumerate(rows) if row[:2] == (name, moment)]
        if any(rows[i][2] != content for i in same):
            refused[place] = "conflicting_duplicate"
        elif same[0] < place:
            refused[place] = "duplicate"
        else:
            kept.append(place)
    numbers = {}
    for place in kept:
        earlier = [i for i in kept if rows[i][0] == rows[place][0] and rows[i][1] < rows[place][1]]
        numbers[place] = len(earlier)
    return numbers, refused


def test_revisions_numbered_by_availability_against_loops():
    generator = random.Random(8)
    for _ in range(60):
        rows = [
            (generator.choice("ab"), generator.randrange(4), generator.choice("xy"))
            for _ in range(generator.randrange(1, 9))
        ]
        frame = table(
            t=["2024-11-29T11:00Z"] * len(rows),
            id=[name for name, _, _ in rows],
            x=[content for _, _, content in rows],
            p=[f"2024-11-29T12:0{moment}Z" for _, moment, _ in rows],
        )
        log = read(frame, revision=None, number_revisions=True, available_at="p")
        numbers, refused = numbered_by_hand(rows)
        assert reasons(log) == refused, rows
        expected = sorted((rows[i][0], rows[i][1], rows[i][2], n) for i, n in numbers.items())
        shown = log.frame.select("event_id", pl.col("available_at").dt.minute(), "text", "revision").sort(
            "event_id", "available_at"
        )
        assert shown.rows() == expected, rows


def test_a_later_edit_does_not_renumber_earlier_ones():
    frame = table(t=[NOON, "2024-11-29T12:05Z", "2024-11-29T12:09Z"], id=["a"] * 3, x=["1", "2", "3"])
    whole = read(frame, revision=None, number_revisions=True)
    part = read(frame[:2], revision=None, number_revisions=True)
    assert whole.frame["revision"].to_list() == [0, 1, 2]
    assert whole.frame[:2].equals(part.frame)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"event_id": None, "revision": None}, "number_revisions=True numbers versions of nothing"),
        ({}, r"revision='r' and number_revisions=True contradict"),
    ],
)
def test_numbering_needs_ids_and_no_revisions(changes, message):
    with pytest.raises(EventDataError, match=message):
        read(table(e=["A"]), number_revisions=True, **changes)


def test_a_contradiction_says_in_what_rows_differ():
    log = read(
        table(
            id=["a", "a", "b", "b", "c", "c"],
            e=["A", "B", "A", "A", "A", "A"],
            x=[*"xxxyzz"],
            f=[1.0] * 6,
            t=[NOON] * 5 + ["2024-11-29T12:01Z"],
        ),
        features=["f"],
    )
    assert log.rejects["detail"].to_list() == [
        "column 'id' is 'a': shares its event id and revision with a row of other content (in entity); if "
        "one item is listed for several entities, make its ids unique, as id and ticker",
    ] * 2 + [
        "column 'id' is 'b': shares its event id and revision with a row of other content (in text)",
    ] * 2 + [
        "column 'id' is 'c': shares its event id and revision with a row of other content (in event_time, "
        "available_at); if it is a later edit, number the versions with revision= or number_revisions=True",
    ]
    numbered = read(table(id=["a", "a"], x=["x", "y"]), revision=None, number_revisions=True)
    assert [detail[-10:] for detail in numbered.rejects["detail"]] == [" (in text)"] * 2


# --- tables in several pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[2, 1], [1, 2], [1, 1, 3], [3, 1, 2]])
@pytest.mark.parametrize("arrow", [False, True])
def test_a_table_in_uneven_pieces_is_one_table(pieces, arrow):
    frames = [
        table(t=[NOON] * (n - 1) + ["soon"], id=[f"{i}{j}" for j in range(n)]) for i, n in enumerate(pieces)
    ]
    whole = pl.concat(frames, rechunk=False)
    given = whole.to_arrow() if arrow else whole
    for ids in ({}, {"event_id": None, "revision": None}):
        log, expected = (read(frame, **ids) for frame in (given, whole.rechunk()))
        assert log.frame.equals(expected.frame)
        assert log.rejects.equals(expected.rejects)
        assert log.rejects.height >= len(pieces)


# --- odd columns of Arrow tables ------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["+05:30", "Nowhere/Zone"])
def test_instants_in_a_zone_that_nobody_knows_are_instants(zone):
    stamps = pa.array([1_732_881_600, None], pa.timestamp("s", zone))
    frame = pa.table({"t": stamps, "u": stamps})
    log = EventLog.from_frame(frame, event_time="t")
    assert log.frame["event_time"].to_physical().to_list() == [1_732_881_600_000_000_000]
    assert reasons(log) == {1: "missing_time"}
    plain = frame.set_column(0, "t", pa.array([0, 1], pa.timestamp("ns", "UTC")))
    assert len(EventLog.from_frame(plain, event_time="t")) == 2


@pytest.mark.parametrize(
    "stamps",
    [
        pa.array([2**30, -(2**30)], pa.date32()),
        pa.array([2**62, -(2**62)], pa.timestamp("ms")),
        pa.array([2**62, -(2**62)], pa.timestamp("us", "UTC")),
    ],
)
def test_times_that_nothing_can_write_are_out_of_range(stamps):
    log = EventLog.from_frame(pa.table({"t": stamps}), event_time="t", time_zone="UTC")
    assert reasons(log) == {0: "out_of_range", 1: "out_of_range"}
    assert f"{2**30 if stamps.type == pa.date32() else 2**62}" in log.rejects["detail"][0]


# --- arguments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"event_time": None}, "event_time=None is no name of a column"),
        ({"entity": 3}, "entity=3 is no name of a column"),
        ({"text": ["x"]}, r"text=\['x'\] is no name of a column"),
        ({"features": None}, "features=None is no list of columns"),
        ({"features": [1]}, r"features=\[1\] is no list of columns"),
        ({"calendar": 5}, "calendar=5 is no trading calendar"),
        ({"calendar": None}, "calendar=None is no trading calendar"),
        ({"time_zone": 5}, "time_zone=5 is no zone"),
        ({"date_only": None}, "date_only=None is unknown"),
        ({"name": "B"}, "entity='e' and name='B' both name the instrument"),
        ({"name": " ", "entity": None}, "name=' ' names no instrument"),
        ({"name": 5, "entity": None}, "name=5 names no instrument"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(changes, message):
    with pytest.raises((UsageError, EventDataError), match=message):
        read(table(e=["A"]), **changes)


def test_a_table_of_one_instrument_names_it():
    log = read(table(x=["one", "two"]), entity=None, name=" BTCUSD ")
    assert log.frame["entity"].to_list() == ["BTCUSD"] * 2
    assert log.entities == ("BTCUSD",)
    column = read(table(x=["one", "two"], e=["BTCUSD"] * 2))
    assert column.fingerprint == log.fingerprint
    assert read(table(x=["one"]), entity=None, name="*").entities == ()


def test_bare_dates_are_counted():
    frame = table(t=["2024-11-29", NOON, "2024-11-30", "soon", "2024-11-29T00:00"])
    assert read(frame).taken.to_dict() == {"rows": 5, "refused": 2, "dates": 2}
    assert read(frame, time_zone="UTC").taken.to_dict() == {"rows": 5, "refused": 1, "dates": 3}
    assert read(frame, time_zone="UTC", date_only="reject").taken.to_dict() == {
        "rows": 5,
        "refused": 4,
        "dates": 0,
    }
    summary = str(read(frame).summary())
    assert "rows read           5, of which 2 were refused" in summary
    assert "bare dates          2, known from the next session's open" in summary


# --- very many rejects ----------------------------------------------------------------------------------


def test_details_quote_the_first_ten_thousand_rows_and_name_the_fault_of_the_others():
    log = read(table(t=["soon"] * 10_003))
    details = log.rejects["detail"]
    assert log.reject_counts == {"unreadable_time": 10_003}
    assert details[9_999] == "column 't' is 'soon': not an ISO 8601 date or time"
    assert details[10_000:].unique().to_list() == ["column 't': not an ISO 8601 date or time"]
    assert log.rejects["row"].to_list() == list(range(10_003))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rejects_are_written(tmp_path, suffix):
    log = read(table(t=["soon", NOON, None]))
    file = tmp_path / f"rejects{suffix}"
    log.write_rejects(file)
    back = pl.read_csv(file) if suffix == ".csv" else pl.read_parquet(file)
    assert back.rows() == [
        (0, "unreadable_time", "column 't' is 'soon': not an ISO 8601 date or time"),
        (2, "missing_time", "column 't' is null: no time"),
    ]


def test_rejects_need_a_known_suffix(tmp_path):
    with pytest.raises(UsageError, match=r"use \.parquet or \.csv"):
        read(table(t=[NOON])).write_rejects(tmp_path / "rejects.txt")
    assert list(tmp_path.iterdir()) == []
