"""The ingest job: what is written, printed and refused, and that nothing is left behind."""

import json

import polars as pl
import pytest

from quantattn.errors import EventDataError, PriceDataError, UsageError
from quantattn.pit.events.log import EventLog
from quantattn.pit.ingest import ingest, parse_settings
from quantattn.pit.ingest_text import describe_text, formats_text, ingested_text, rejects_text
from quantattn.pit.readers import find_reader, read_event_tables, read_price_file, readers

NEWS = "when,who,what,size\n2024-11-29T13:00-05:00,A,up,1.5\n2024-11-29 10:00,A,down,2\n,B,gone,3\n"
SET = ["event_time=when", "entity=who", "text=what", "features=size"]
BARS = "date,ticker,px\n2024-11-27,A,1.5\n2024-11-29,A,1.75\n"
FILING = {
    "cik": "1",
    "filings": {
        "recent": {
            "accessionNumber": ["a"],
            "filingDate": ["2024-02-02"],
            "acceptanceDateTime": ["2024-02-02T18:01:30.000Z"],
            "form": ["8-K"],
        }
    },
}


@pytest.fixture
def news(tmp_path):
    path = tmp_path / "news.csv"
    path.write_text(NEWS)
    return path


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_events(tmp_path, news):
    done = ingest(
        "events", [news], out=tmp_path / "out" / "a.parquet", settings=SET, rejects=tmp_path / "r.csv"
    )
    log = EventLog.read(tmp_path / "out" / "a.parquet")
    expected = read_event_tables(news, event_time="when", entity="who", text="what", features="size")
    assert log.fingerprint == expected.fingerprint
    assert log.features == ("size",)
    assert pl.read_csv(tmp_path / "r.csv").select("row", "reason").rows() == [
        (1, "naive_time"),
        (2, "missing_time"),
    ]
    text = ingested_text(done)
    for line in (
        f"Wrote {tmp_path}/out/a.parquet",
        "2 rows were refused:",
        "  1 missing_time",
        "  1 naive_time",
        "    row 1: column 'when' is '2024-11-29 10:00': no time zone",
        f"All of them are in {tmp_path}/r.csv",
    ):
        assert line in text.splitlines()
    assert names(tmp_path) == ["a.parquet", "news.csv", "out", "r.csv"]


def test_several_files_and_one_that_repeats_another(tmp_path, news):
    other = tmp_path / "other.csv"
    other.write_text(NEWS.replace("up", "higher"))
    done = ingest("EVENTS", [news, other], out=tmp_path / "a.parquet", settings=SET)
    assert len(done.data) == 2
    twice = ingest("events", [news, news], out=tmp_path / "b.parquet", settings=SET)
    assert len(twice.data) == 1
    assert twice.data.reject_counts == {"missing_time": 2, "naive_time": 2, "duplicate": 1}


def test_prices(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text(BARS)
    done = ingest(
        "prices", [path], out=tmp_path / "p.parquet", settings=["close=px", "entity=ticker", "latency=5s"]
    )
    read = read_price_file(tmp_path / "p.parquet")
    assert read.frame.equals(done.data.frame)
    assert read.latency == 5 * 10**9
    assert "bars        2 (session) of 1 entities" in ingested_text(done).splitlines()
    with pytest.raises(EventDataError, match=r"was not written by EventLog\.write"):
        EventLog.read(tmp_path / "p.parquet")


def test_the_same_input_gives_the_same_bytes(tmp_path, news):
    bars = tmp_path / "bars.csv"
    bars.write_text(BARS)
    for name in ("a", "b"):
        ingest("events", [news], out=tmp_path / f"{name}.parquet", settings=SET)
        ingest("prices", [bars], out=tmp_path / f"{name}.pq", settings=["close=px", "entity=ticker"])
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert (tmp_path / "a.pq").read_bytes() == (tmp_path / "b.pq").read_bytes()


def test_what_a_reader_warns_of_becomes_a_note(tmp_path, recwarn):
    filing = json.loads(json.dumps(FILING))
    filing["filings"]["recent"]["acceptanceDateTime"] = ["2024-02-02T02:01:30.000Z"]
    path = tmp_path / "CIK0000000001.json"
    path.write_text(json.dumps(filing))
    done = ingest("edgar_submissions", [path], out=tmp_path / "f.parquet")
    assert "read their files with --set acceptance_zone=utc" in done.notes[0]
    assert f"Note: {done.notes[0]}" in ingested_text(done)
    assert not recwarn.list


def test_existing_files_are_kept_without_force(tmp_path, news):
    out = tmp_path / "a.parquet"
    out.write_text("precious")
    with pytest.raises(
        UsageError, match=r"a.parquet' exists; choose another name, or overwrite it with --force"
    ):
        ingest("events", [news], out=out, settings=SET)
    assert out.read_text() == "precious"
    ingest("events", [news], out=out, settings=SET, force=True)
    assert len(EventLog.read(out)) == 1


def test_nothing_is_left_behind(tmp_path, news, monkeypatch):
    before = names(tmp_path)
    out, rejects = tmp_path / "a.parquet", tmp_path / "r.csv"
    with pytest.raises(EventDataError, match="2 of 3 event rows are refused"):
        ingest("events", [news], out=out, settings=SET, rejects=rejects, strict=True)
    with pytest.raises(EventDataError, match="is not a column"):
        ingest("events", [news], out=out, settings=["event_time=wen"], rejects=rejects)
    assert names(tmp_path) == before

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventLog, "write_rejects", fail)
    with pytest.raises(OSError, match="No space left"):
        ingest("events", [news], out=out, settings=SET, rejects=rejects)
    assert names(tmp_path) == before
    monkeypatch.undo()
    monkeypatch.setattr(EventLog, "write", fail)
    with pytest.raises(OSError, match="No space left"):
        ingest("events", [news], out=out, settings=SET, rejects=rejects)
    assert names(tmp_path) == before


def test_a_file_of_another_format_is_named(tmp_path, news):
    path = tmp_path / "CIK0000000001.json"
    path.write_text(json.dumps(FILING))
    renamed = tmp_path / "filings.csv"
    renamed.write_text(json.dumps(FILING))
    with pytest.raises(EventDataError, match=r"looks like format 'edgar_submissions'"):
        ingest("events", [renamed], out=tmp_path / "a.parquet", settings=SET)
    with pytest.raises(PriceDataError, match=r"looks like format 'edgar_submissions'"):
        ingest("yfinance", [renamed], out=tmp_path / "a.parquet", settings=["adjusted=true", "ticker=A"])


WRONG = [
    ("evnets", {}, r"format 'evnets' is unknown \(did you mean 'events'\?\); known are "),
    ("events", {"paths": []}, r"no file of format 'events' is given; name at least one \(.csv"),
    (
        "events",
        {"settings": []},
        r"format 'events' needs --set event_time=...; see `quantattn ingest --describe events`",
    ),
    ("events", {"settings": ["event_time"]}, r"--set 'event_time' is not of the form name=value"),
    (
        "events",
        {"settings": [*SET, "evnt_id=x"]},
        r"no option 'evnt_id' \(did you mean 'event_id'\?\); it has event_time",
    ),
    ("events", {"settings": [*SET, "text=x"]}, r"option 'text' is set twice"),
    ("events", {"settings": [*SET, "scheduled=maybe"]}, r"scheduled='maybe' is neither true nor false"),
    (
        "events",
        {"settings": [*SET, "date_only=next"]},
        r"date_only='next' is unknown.*use 'next_session' or 'reject'",
    ),
    ("lobster", {"settings": ["levels=two"]}, r"levels='two' is not a whole number"),
    ("events", {"out": "a.csv"}, r"--out '.*a.csv' does not end in .parquet or .pq"),
    ("events", {"out": "folder.parquet"}, r"is a folder; give a file in it"),
    ("events", {"rejects": "r.txt"}, r"--rejects '.*r.txt' does not end in .csv or .parquet"),
    (
        "events",
        {"rejects": "news.csv"},
        r"news.csv' is also another file of this command",
    ),
    ("prices", {"settings": ["close=px", "name=A"], "rejects": "r.csv"}, r"a bad row of prices is an error"),
    ("events", {"paths": ["none.csv"]}, r"none.csv cannot be read \(No such file"),
]


@pytest.mark.parametrize(("format", "changes", "message"), WRONG)
def test_wrong_requests(tmp_path, news, format, changes, message):
    (tmp_path / "folder.parquet").mkdir()
    before = names(tmp_path)
    arguments = {"out": "a.parquet", "settings": SET, "rejects": None} | changes
    paths = [tmp_path / path for path in arguments.pop("paths", ["news.csv"])]
    for option in ("out", "rejects"):
        if arguments[option] is not None:
            arguments[option] = tmp_path / arguments[option]
    with pytest.raises(UsageError, match=message):
        ingest(format, paths, **arguments)
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("Yes", True), ("1", True), ("false", False), ("off", False)]
)
def test_settings(text, value):
    given = parse_settings(find_reader("events"), ["event-time=a=b", f"scheduled={text}", "latency="])
    assert given == {"event_time": "a=b", "scheduled": value, "latency": ""}


def test_formats_and_their_documentation():
    known = readers()
    lines = formats_text().splitlines()
    assert [line.split()[0] for line in lines[: len(known)]] == sorted(known)
    assert all(line.endswith(("[events]", "[prices]")) for line in lines[: len(known)])
    for name, reader in known.items():
        text = describe_text(name)
        assert reader.documentation in text
        shown = text.partition("\nOptions:\n")[2].splitlines()
        assert [line.split("=")[0] for line in shown if line.startswith("  --set")] == [
            f"  --set {option}" for option in reader.options
        ]
    with pytest.raises(UsageError, match="did you mean 'lobster'"):
        describe_text("lobsters")


def test_options_are_explained_by_their_docstrings():
    text = describe_text("yfinance")
    assert (
        "  --set adjusted=true|false  (needed)\n      Whether they were downloaded with auto_adjust=True"
        in text
    )
    assert "  --set latency=TEXT  (default: 60s)\n      From the end of a bar" in text
    assert "  --set gaps=raise|drop  (default: raise)\n" in text


def test_many_rejects_are_summarised():
    rejects = pl.DataFrame(
        {"row": range(100_000), "reason": ["naive_time"] * 99_999 + ["duplicate"], "detail": ["x"] * 100_000}
    )
    assert rejects_text(rejects) == [
        "100000 rows were refused:",
        "  99999 naive_time",
        "    row 0: x",
        "    row 1: x",
        "    row 2: x",
        "  1 duplicate",
        "    row 99999: x",
    ]
