"""What an ingested file says of how it was made, and the words in which faults are told."""

import json
import os

import polars as pl
import pyarrow.parquet as pq
import pytest

from quantattn.errors import DataError, EventDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.ingest import ingest
from quantattn.pit.ingest_record import ENTRY, IngestRecord, add_record, find_record, kept_options
from quantattn.pit.ingest_text import ingested_text
from quantattn.pit.ingest_words import in_command_words
from quantattn.pit.readers import find_reader, read_price_file

NEWS = "when,who,what\n2024-11-29T13:00-05:00,A,up\n2024-11-29 10:00,A,down\n,B,gone\n"
SET = ["event_time=when", "entity=who", "text=what"]


@pytest.fixture
def news(tmp_path):
    path = tmp_path / "news.csv"
    path.write_text(NEWS)
    return path


def test_events_keep_their_format_options_and_refused_rows(tmp_path, news):
    out = tmp_path / "e.parquet"
    ingest("events", [news], out=out, settings=SET)
    assert find_record(out) == IngestRecord(
        "events",
        {"event_time": "when", "entity": "who", "text": "what"},
        {"missing_time": 1, "naive_time": 1},
    )
    assert len(EventLog.read(out)) == 1


def test_prices_and_notes(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text("date,ticker,px\n2024-11-27,A,1.5\n2024-11-29,A,1.75\n")
    out = tmp_path / "p.parquet"
    ingest("prices", [path], out=out, settings=["close=px", "entity=ticker"])
    assert find_record(out) == IngestRecord("prices", {"close": "px", "entity": "ticker"})
    assert read_price_file(out).frame.height == 2
    page = tmp_path / "1.json"
    article = {"id": 1, "headline": "x", "created_at": "2024-01-03T12:00:00Z", "symbols": ["A"]}
    page.write_text(
        json.dumps({"news": [article | {"updated_at": article["created_at"]}], "next_page_token": "t"})
    )
    done = ingest("alpaca", [page], out=out, force=True)
    assert "further pages" in done.notes[0]
    assert find_record(out).notes == done.notes
    assert f"Note: {done.notes[0]}" in ingested_text(done)


def test_a_record_changes_neither_rows_nor_other_metadata(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"entity": ["A", None, "B"], "x": [1.5, None, 2.5]})
    frame.write_parquet(path, row_group_size=2, metadata={"other": "kept"})
    assert find_record(path) is None
    add_record(path, IngestRecord("events", {"a": True}, {"duplicate": 2}, ("n",)))
    assert pl.read_parquet(path).equals(frame)
    metadata = pq.read_metadata(path)
    assert metadata.metadata[b"other"] == b"kept"
    assert metadata.num_row_groups == 2
    assert find_record(path) == IngestRecord("events", {"a": True}, {"duplicate": 2}, ("n",))
    before = path.read_bytes()
    add_record(path, IngestRecord("events", {"a": True}, {"duplicate": 2}, ("n",)))
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "x", '{"version": 2}', '{"version": 1, "rejected": {}}'])
def test_a_record_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"x": [1]}).write_parquet(path, metadata={ENTRY.decode(): text})
    with pytest.raises(DataError, match="describes its ingest in another way; ingest it again"):
        find_record(path)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("postgresql://me:secret@host/db", "postgresql"),
        ("env:DB", "env:DB"),
        ("secret", "hidden"),
    ],
)
def test_no_password_is_kept(given, kept):
    assert kept_options({"connection": given, "text": "a:b"}) == {"connection": kept, "text": "a:b"}


def test_both_files_are_written_before_either_is_replaced(tmp_path, news):
    out = tmp_path / "e.parquet"
    out.write_text("precious")
    with pytest.raises(OSError, match=r"(?i)exist|directory"):
        ingest("events", [news], out=out, settings=SET, rejects=news / "r.csv", force=True)
    assert out.read_text() == "precious"


def test_an_existing_file_stays_where_the_refused_rows_cannot_be_written(tmp_path, news, monkeypatch):
    out, rejects = tmp_path / "e.parquet", tmp_path / "r.csv"
    out.write_text("precious")
    rejects.write_text("precious too")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventLog, "write_rejects", fail)
    with pytest.raises(OSError, match="No space"):
        ingest("events", [news], out=out, settings=SET, rejects=rejects, force=True)
    assert (out.read_text(), rejects.read_text()) == ("precious", "precious too")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.parquet", "news.csv", "r.csv"]


def test_a_loop_of_links_is_a_wrong_request(tmp_path, news):
    loop = tmp_path / "loop.parquet"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="exists; choose another name"):
        ingest("events", [news], out=loop, settings=SET)
    with pytest.raises(UsageError, match="cannot be read"):
        ingest("events", [loop], out=tmp_path / "e.parquet", settings=SET)
    assert os.path.lexists(loop)


@pytest.mark.parametrize(
    ("format", "message", "said"),
    [
        ("prices", "pass it, or missing_bars='no_trade' if", "pass it, or --set missing_bars=no_trade if"),
        (
            "yfinance",
            "pass ticker=, or ticker='from_name' for",
            "pass --set ticker=, or --set ticker=from_name for",
        ),
        ("alpaca", "leave show_edits_early=True out", "leave --set show_edits_early=true out"),
        (
            "prices",
            "declare them in halts=, pass gaps='drop'",
            "declare them in halts= (in Python alone), pass --set gaps=drop",
        ),
        (
            "yfinance",
            "1 row, first row 0 (ticker='A', adjusted=1)",
            "1 row, first row 0 (ticker='A', adjusted=1)",
        ),
        ("events", "correct those rows, or leave strict out", "correct those rows, or leave --strict out"),
        ("events", "other='x' is none of ours", "other='x' is none of ours"),
        ("events", "pass separator=';'", "pass --set separator=';'"),
    ],
)
def test_arguments_are_written_as_options(format, message, said):
    assert in_command_words(message, find_reader(format)) == said


def test_errors_and_refused_rows_speak_of_options(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text(
        "Date,Article_title,Stock_symbol,Url\n2020-06-05 00:00:00 UTC,up,A,u\n2020-06-05 00:00:00 UTC,b,,u\n"
    )
    done = ingest("fnspid", [path], out=tmp_path / "f.parquet")
    assert "--set untagged=market" in ingested_text(done)
    bars = tmp_path / "b.csv"
    bars.write_text("Date,Open,High,Low,Close,Volume\n2024-11-29,1,1,1,1,1\n")
    with pytest.raises(UsageError, match="--set ticker=from_name for a file that is named after it"):
        ingest("yfinance", [bars], out=tmp_path / "b.parquet", settings=["adjusted=true"])


def test_what_is_printed_commands_no_terminal(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,x\n2024-01-03T12:00:00Z,1\n\x1b]0;owned\x07,2\n")
    done = ingest("events", [path], out=tmp_path / "a.parquet", settings=["event_time=t", "text=x"])
    text = ingested_text(done)
    assert "unreadable_time" in text
    assert not any(ord(letter) < 32 and letter != "\n" for letter in text)
    path.write_bytes(b"t,x\n2024-01-03T12:00:00Z,1,\x1b[31m\n")
    with pytest.raises(EventDataError) as caught:
        ingest("events", [path], out=tmp_path / "b.parquet", settings=["event_time=t"])
    assert "\x1b" not in str(caught.value)
