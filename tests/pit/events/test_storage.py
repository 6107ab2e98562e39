"""Logs in files: what is written is what is read, whole, unaltered and in canonical order."""

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.events import EventLog, storage

FRAME = pl.DataFrame(
    {
        "t": [
            "2024-11-29T12:00:00.000000001Z",
            "2024-11-29T12:00Z",
            "1900-01-01T00:00Z",
            "2024-11-29T12:00Z",
        ],
        "e": ["A", "*", "B", "A"],
        "id": ["d", "c", "b", "a"],
        "x": ["é\x00\n", None, "", "text"],
        "f": [1.5, None, -2.0, 0.0],
    }
)


def log():
    return EventLog.from_frame(FRAME, event_time="t", entity="e", event_id="id", text="x", features=["f"])


def test_what_is_written_is_read_again(tmp_path):
    file = tmp_path / "deep" / "log.parquet"
    log().write(file)
    back = EventLog.read(file)
    assert back.frame.equals(log().frame)
    assert (back.features, back.fingerprint) == (("f",), log().fingerprint)
    assert [path.name for path in file.parent.iterdir()] == ["log.parquet"]


def test_the_file_says_what_it_is(tmp_path):
    log().write(tmp_path / "log.parquet")
    metadata = pq.read_metadata(tmp_path / "log.parquet").metadata
    assert json.loads(metadata[b"quantattn"]) == {
        "version": 1,
        "features": ["f"],
        "fingerprint": log().fingerprint,
        "order": "canonical",
        "events": 4,
        "intake": {"rows": 4, "refused": 0, "dates": 0},
    }
    stored = pl.read_parquet(tmp_path / "log.parquet")
    assert stored["event_id"].to_list() == ["b", "a", "c", "d"]
    assert stored.schema == log().frame.schema


def test_an_empty_log_is_written(tmp_path):
    EventLog.concat([]).write(tmp_path / "log.parquet")
    assert len(EventLog.read(tmp_path / "log.parquet")) == 0


def test_equal_content_gives_equal_bytes_however_it_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_ROW_GROUP", 2)
    log().write(tmp_path / "whole.parquet")
    for cut in range(5):
        parts = [log().frame[:cut], log().frame[cut:]]
        written = storage.write_batches(iter(parts), ("f",), tmp_path / "parts.parquet", log().taken)
        assert written == log().fingerprint
        assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    file = tmp_path / "log.parquet"
    log().write(file)
    before = file.read_bytes()

    def broken():
        yield log().frame
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        storage.write_batches(broken(), ("f",), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
@pytest.mark.parametrize("read", [EventLog.read, EventLog.scan])
def test_a_truncated_file_is_named(tmp_path, kept, read):
    file = tmp_path / "log.parquet"
    log().write(file)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(
        EventDataError, match=r"log\.parquet is not a whole Parquet file .*; copy or write it"
    ):
        read(file)


def rewrite(file, change, **entry):
    """Write the file again with changed events, and with what it says of itself."""
    old = json.loads(pq.read_metadata(file).metadata[b"quantattn"])
    events = change(pl.read_parquet(file))
    events.write_parquet(file, metadata={"quantattn": json.dumps(old | entry)})


def test_an_altered_file_is_refused(tmp_path):
    file = tmp_path / "log.parquet"
    log().write(file)
    rewrite(file, lambda events: events)
    assert EventLog.read(file).fingerprint == log().fingerprint
    rewrite(file, lambda events: events.with_columns(pl.col("available_at").dt.offset_by("-1ns")))
    with pytest.raises(EventDataError, match="was altered since it was written"):
        EventLog.read(file)


def test_files_of_other_makers_and_versions_are_refused(tmp_path):
    file = tmp_path / "other.parquet"
    log().frame.write_parquet(file)
    for read in (EventLog.read, EventLog.scan):
        with pytest.raises(EventDataError, match=r"not written by EventLog\.write; .*event_time="):
            read(file)
    log().write(file)
    rewrite(file, lambda events: events, version=2)
    with pytest.raises(EventDataError, match="says version 2 of the format, not 1; write it again"):
        EventLog.read(file)
    rewrite(file, lambda events: events, features="f", version=1)
    with pytest.raises(EventDataError, match=r"says version 1|describes itself"):
        EventLog.read(file)
    log().frame.write_parquet(file, metadata={"quantattn": "[]"})
    with pytest.raises(EventDataError, match="describes itself wrongly"):
        EventLog.read(file)


def test_a_missing_file_and_a_folder_are_usage_errors(tmp_path):
    for path in (tmp_path / "none.parquet", tmp_path):
        with pytest.raises(UsageError, match=r"cannot be read .*check the path"):
            EventLog.read(path)
