"""What an event table's other columns become: keys, kinds, texts, features, duplicates and frames."""

import itertools
import random
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from quantattn.errors import EventDataError
from quantattn.pit.events import EventLog

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
    with pytest.raises(EventDataError, match=r"column 'e' .* differ only in case: 'AAPL', 'Aapl'; give one"):
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
@pytest.mark.parametrize("values", [[1.5, 2.0], [b"a", b"b"], [[1], [2]]])
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


@pytest.mark.parametrize("values", [[NOON], [[1.0]], [b"1"]])
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
        (pd.DataFrame({"t": [NOON, b"x"]}), r"column 't' cannot be read .*bytes"),
        (pd.DataFrame({"t": [NOON, "\ud800"]}, dtype=object), r"column 't' cannot be read"),
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
