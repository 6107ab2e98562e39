"""Table files: archives, files without a header line, pieces, encodings, and rows that are too long."""

import gzip

import polars as pl
import pyarrow as pa
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers import _text_files
from quantattn.pit.readers._table_files import read_batches, read_table, table_columns
from tests.pit.readers.news import write, zipped

TEXT = 'a,b\n1,"x, ""y"""\n2,\n'
ROWS = [("1", 'x, "y"'), ("2", None)]


def read(path, **options):
    return read_table(path, error=EventDataError, **options)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TEXT),
        ("a.csv.zip", zipped(a__csv=TEXT)),
        ("archive.zip", zipped(**{"folder/a__CSV": TEXT, "folder/": "", "____MACOSX/._a__csv": "x"})),
        ("A.CSV.GZ", gzip.compress(TEXT.encode(), mtime=0)),
        ("archive.zip", zipped(a__tsv='a\tb\n1\t"x, ""y"""\n2\t\n')),
    ],
)
def test_archives_hold_one_table(tmp_path, name, content):
    path = write(tmp_path, name, content)
    assert read(path).rows() == ROWS
    assert table_columns(path, error=EventDataError) == ["a", "b"]
    assert pl.concat(read_batches(path, error=EventDataError, wanted={"a": "a", "b": "b"})).rows() == ROWS


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (
            zipped(a__csv=TEXT, b__csv=TEXT),
            EventDataError,
            r"holds 2 files \('a.csv', 'b.csv'\), not one; unpack it",
        ),
        (zipped(), EventDataError, "holds 0 files"),
        (
            zipped(a__txt=TEXT),
            UsageError,
            r"no suffix that names a format \(it holds 'a.txt'\); use one of .csv",
        ),
        (zipped(a__parquet="x"), UsageError, "it holds 'a.parquet'"),
        (b"no archive", EventDataError, "is not a whole zip archive"),
    ],
)
def test_other_archives_are_refused(tmp_path, content, error, message):
    with pytest.raises(error, match=message):
        read(write(tmp_path, "a.zip", content))


def test_a_damaged_member_is_refused(tmp_path):
    content = bytearray(zipped(a__csv=TEXT * 1000))
    content[60] ^= 0xFF
    with pytest.raises(EventDataError, match="cannot be unpacked to its end"):
        read(write(tmp_path, "a.zip", bytes(content)))


def test_an_encrypted_member_is_refused(tmp_path):
    content = bytearray(zipped(a__csv=TEXT))
    # The flag of encryption, in the local header and in the directory.
    content[6] |= 1
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(EventDataError, match="is encrypted; unpack it first"):
        read(write(tmp_path, "a.zip", bytes(content)))


def test_files_without_a_header_line_are_never_quoted(tmp_path):
    path = write(tmp_path, "a.CSV", '1\t"open\n2\tb"\n')
    table = read(path, separator="\t", header=["n", "text"], wanted={"text": "text"})
    assert table.rows() == [('"open',), ('b"',)]


@pytest.fixture
def several_cores():
    """Let pyarrow believe in four cores, wherever the test runs."""
    before = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(before)


@pytest.mark.usefixtures("several_cores")
def test_ragged_rows_are_told_with_their_numbers(tmp_path):
    path = write(tmp_path, "a.csv", 'a,b\n1,"x\ny"\n2\n3,z\n4,5,6\n')
    told = []
    wanted = {"a": "a", "b": "b"}
    batches = read_batches(path, error=EventDataError, wanted=wanted, ragged=lambda *row: told.append(row))
    assert pl.concat(batches).rows() == [("1", "x\ny"), ("3", "z")]
    assert told == [(3, "2"), (5, "4,5,6")]
    with pytest.raises(EventDataError, match=r"Row #3: Expected 2 columns, got 1"):
        list(read_batches(path, error=EventDataError, wanted=wanted))


def test_pieces_are_as_large_as_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_files, "_STREAMED", 1 << 12)
    path = write(tmp_path, "a.csv", "a,b\n" + "".join(f"{row},{'x' * 50}\n" for row in range(1000)))
    pieces = list(read_batches(path, error=EventDataError, wanted={"a": "a"}))
    assert len(pieces) > 10
    assert pl.concat(pieces)["a"].to_list() == [str(row) for row in range(1000)]


def test_a_row_that_fits_no_block_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_files, "_STREAMED", 1 << 20)
    rows = "".join(f"{row},{'x' * 50}\n" for row in range(40_000))
    path = write(tmp_path, "a.csv", f"a,b\n{rows}1,{'x' * (1 << 22)}\n{rows}")
    with pytest.raises(EventDataError, match="has a row longer than 1 MiB; shorten it"):
        list(read_batches(path, error=EventDataError, wanted={"a": "a"}))


def test_encodings(tmp_path):
    path = write(tmp_path, "a.csv", "a\ncafé\n".encode("latin-1"))
    assert read(path, encoding="latin1").rows() == [("café",)]
    with pytest.raises(EventDataError, match="is not UTF-8 in line 2"):
        read(path)
