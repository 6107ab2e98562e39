"""A user's own event file: what is read, and how a broken file is refused."""

import gzip

import polars as pl
import pytest

from quantattn.errors import CalendarError, EventDataError, TimestampError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.readers import read_events

COLUMNS = {"event_time": "when", "entity": "who", "text": "what"}
LINES = (
    "when,who,what,size\n"
    '2024-11-29T13:00-05:00,NA,"a, ""b""\nc",1.5\n'
    "2024-11-28,*,null,\n"
    "2024-11-29 10:00,A,x,2\n"
)


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows_of(log):
    stamped = log.frame.with_columns(pl.col("available_at").dt.to_string("%FT%T"))
    return stamped.select("entity", "available_at", "text", "size").rows()


EXPECTED = [
    (None, "2024-11-29T14:30:00", "null", None),
    ("NA", "2024-11-29T18:00:00", 'a, "b"\nc', 1.5),
]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("news.csv", LINES, {}),
        ("NEWS.CSV", LINES, {}),
        ("news[1].csv", LINES, {}),
        ("news.csv.gz", gzip.compress(LINES.encode(), mtime=0), {}),
        ("news.csv", b"\xef\xbb\xbf" + LINES.encode(), {}),
        ("news.csv", LINES.replace("\n2", "\r\n2"), {}),
        ("news.csv", LINES.replace(",", ";").replace("a;", "a,"), {"separator": ";"}),
        ("news.tsv", LINES.replace(",", "\t").replace("a\t", "a,"), {}),
    ],
)
def test_text_files(tmp_path, name, content, options):
    log = read_events(str(write(tmp_path, name, content)), features=["size"], **COLUMNS, **options)
    assert rows_of(log) == EXPECTED
    assert log.rejects.select("row", "reason").rows() == [(2, "naive_time")]


@pytest.mark.parametrize("name", ["news.parquet", "news[1].pq"])
def test_parquet_gives_what_the_frame_gives(tmp_path, name):
    frame = pl.DataFrame(
        {
            "when": ["2024-11-29T13:00-05:00", "2024-11-28", "2024-11-29 10:00"],
            "who": ["NA", "*", "A"],
            "what": ['a, "b"\nc', "null", "x"],
            "size": [1.5, None, 2.0],
        }
    )
    frame.write_parquet(tmp_path / name)
    log = read_events(tmp_path / name, features=["size"], time_zone="America/New_York", **COLUMNS)
    assert rows_of(log) == [EXPECTED[0], ("A", "2024-11-29T15:00:00", "x", 2.0), EXPECTED[1]]
    expected = EventLog.from_frame(frame, features=["size"], time_zone="America/New_York", **COLUMNS)
    assert log.fingerprint == expected.fingerprint


def test_every_option_reaches_the_log(tmp_path):
    text = "t,p,e,id,x,k,r,f\n2024-11-29,2024-11-25 12:00,A,7,hello,macro,3,1\n"
    log = read_events(
        write(tmp_path, "a.csv", text),
        event_time="t",
        available_at="p",
        entity="e",
        event_id="id",
        text="x",
        kind="k",
        revision="r",
        features=["f"],
        time_zone="Asia/Tokyo",
        latency="5s",
        scheduled=True,
        strict=True,
    )
    assert log.frame.with_columns(pl.col("event_time", "available_at").dt.to_string("%FT%T")).rows() == [
        ("7", 3, "A", "2024-11-28T15:00:00", "2024-11-25T03:00:05", "macro", "hello", 1.0)
    ]


def parquet_bytes(tmp_path):
    path = tmp_path / "whole.parquet"
    pl.DataFrame(
        {"when": ["2024-11-29T18:00Z"] * 500, "who": ["A"] * 500, "what": ["x"] * 500}
    ).write_parquet(path)
    return path.read_bytes()


BROKEN = [
    (
        "short.csv",
        "when,who,what\n1,2,3\n4,5\n",
        r"Row #3: Expected 3 columns, got 2: 4,5.*the fields of the header",
    ),
    ("long.csv", "when,who,what\n1,2,3,4\n", r"Row #2: Expected 3 columns, got 4: 1,2,3,4"),
    ("latin.csv", b"when,who,what\n1,2,3\n4,5,caf\xe9\n", r"is not UTF-8 in line 3; save it as UTF-8"),
    ("header.csv", b"when,who,what,caf\xe9\n1,2,3,4\n", r"is not UTF-8 in line 1"),
    ("wide.csv", "when,who,what\n1,2,3\n".encode("utf-16"), r"is not UTF-8 in line 1"),
    ("empty.csv", "", r"is empty; give a file with a header line and data"),
    ("bare.csv", "when,who,what\n", r"holds no rows"),
    ("open.csv", 'when,who,what\n2024-11-29T18:00Z,A,"x\n2024-11-29T19:00Z,A,y\n', r"has an unclosed quote"),
    ("twice.csv", "when,who,what,what\n1,2,3,4\n", r"more than one column 'what'; rename them"),
    ("semi.csv", "when;who;what\n1;2;3\n", r"one column only, 'when;who;what'; pass separator=';'"),
    ("names.csv", "When,who,what\n1,2,3\n", r"event_time='when' is not a column.* 'When'"),
    ("cut.csv.gz", gzip.compress(LINES.encode(), mtime=0)[:-9], r"cannot be read to its end \(Truncated"),
    ("plain.csv.gz", LINES, r"cannot be read to its end"),
    ("plain.parquet", LINES, r"is not a whole Parquet file \(.*\); copy or write it again"),
    ("empty.parquet", b"", r"is not a whole Parquet file"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_files_are_refused_in_one_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(EventDataError, match=message) as caught:
        read_events(path, **COLUMNS)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.9, 0.999])
def test_truncated_parquet_is_refused(tmp_path, kept):
    whole = parquet_bytes(tmp_path)
    path = write(tmp_path, "cut.parquet", whole[: int(len(whole) * kept)])
    with pytest.raises(EventDataError, match="is not a whole Parquet file"):
        read_events(path, **COLUMNS)


def test_a_parquet_file_without_a_column(tmp_path):
    path = write(tmp_path, "a.parquet", parquet_bytes(tmp_path))
    with pytest.raises(EventDataError, match=r"a.parquet: entity='whom' is not a column.* 'who'"):
        read_events(path, **{**COLUMNS, "entity": "whom"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.csv", r"none.csv cannot be read \(No such file or directory\); check the path"),
        ("folder.csv", r"folder.csv cannot be read"),
        ("news.json", r"has no suffix that names a format; use one of .csv, .tsv"),
    ],
)
def test_files_that_are_not_there(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match=message):
        read_events(tmp_path / name, **COLUMNS)


@pytest.mark.parametrize("separator", ["", ";;", "é"])
def test_a_bad_separator(tmp_path, separator):
    with pytest.raises(UsageError, match="is not one ASCII character"):
        read_events(write(tmp_path, "a.csv", LINES), separator=separator, **COLUMNS)


def test_a_file_without_a_usable_row_is_refused(tmp_path):
    path = write(tmp_path, "a.csv", "when,who,what\n2024-11-29 10:00,A,x\n2024-11-29 11:00,A,x\n")
    with pytest.raises(
        EventDataError, match=r"a.csv: 2 of 2 event rows are refused \(2 naive_time\).*time_zone="
    ):
        read_events(path, **COLUMNS)


def test_strict_names_the_file(tmp_path):
    with pytest.raises(EventDataError, match=r"a.csv: 1 of 3 event rows are refused"):
        read_events(write(tmp_path, "a.csv", LINES), strict=True, **COLUMNS)


@pytest.mark.parametrize(
    ("options", "error"), [({"time_zone": "Mars"}, TimestampError), ({"calendar": "XXXX"}, CalendarError)]
)
def test_other_errors_name_the_file_too(tmp_path, options, error):
    with pytest.raises(error, match=r"a.csv: "):
        read_events(write(tmp_path, "a.csv", LINES), **COLUMNS, **options)
