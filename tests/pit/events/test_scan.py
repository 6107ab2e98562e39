"""Scans of files: the same events, refusals and views as in memory, from any layout, in bounded parts."""

import random
import warnings
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.events import EventLog, EventScan, external, parquet_files

COLUMNS = {
    "event_time": "t",
    "available_at": "p",
    "entity": "e",
    "event_id": "id",
    "revision": "r",
    "text": "x",
    "features": ["f"],
}
NOON = "2024-11-29T12:00Z"


def random_table(generator, rows):
    stamps = [NOON, "2024-11-29T12:00:00.000000001Z", "2024-11-29", "2024-11-30 10:00", "soon", None]
    return pl.DataFrame(
        {
            "t": [generator.choice(stamps) for _ in range(rows)],
            "p": [generator.choice([*stamps, "2024-12-05T01:00+05:30"]) for _ in range(rows)],
            "e": [generator.choice(["A", "B", "*", None]) for _ in range(rows)],
            "id": [generator.choice("abcdef") for _ in range(rows)],
            "r": [generator.randrange(3) for _ in range(rows)],
            "x": [generator.choice(["one", "two", None]) for _ in range(rows)],
            "f": [generator.choice([1.0, None]) for _ in range(rows)],
        },
        schema_overrides={"t": pl.String, "p": pl.String, "e": pl.String, "x": pl.String, "f": pl.Float64},
    )


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Make every part, run and block so small that all of them have edges."""
    monkeypatch.setattr(parquet_files, "_PART_ROWS", 5)
    monkeypatch.setattr(external, "_RUN_BYTES", 400)
    monkeypatch.setattr(external, "_BLOCK_ROWS", 3)


def same(scan, log):
    assert scan.collect().fingerprint == scan.fingerprint == log.fingerprint
    assert scan.reject_counts == log.reject_counts
    assert (len(scan), scan.entities, scan.features) == (len(log), log.entities, log.features)


def test_foreign_files_give_what_from_frame_gives(tmp_path):
    generator = random.Random(1)
    for turn in range(6):
        table = random_table(generator, generator.randrange(1, 40))
        file = tmp_path / f"{turn}.parquet"
        table.write_parquet(file, row_group_size=7)
        log = EventLog.from_frame(table, **COLUMNS, latency="1ns")
        scan = EventLog.scan(file, **COLUMNS, latency="1ns")
        same(scan, log)
        moments = sorted({*log.frame["available_at"].to_physical().to_list(), 0})
        for moment in [*moments, *(moment + 1 for moment in moments)]:
            assert scan.as_of(moment).fingerprint == log.as_of(moment).fingerprint
            assert scan.between(0, moment).fingerprint == log.between(0, moment).fingerprint
        summary, expected = scan.summary().to_dict(), log.summary().to_dict()
        assert summary.pop("retractions") is None
        del expected["retractions"]
        assert summary == expected
        scan.rejects_to(tmp_path / "rejects.parquet")
        refused = pl.read_parquet(tmp_path / "rejects.parquet")
        assert set(refused["file"]) <= {str(file)}
        assert refused.select("row", "reason", "detail").rows() == log.rejects.rows()


def test_sorting_gives_the_file_that_the_log_writes(tmp_path):
    generator = random.Random(2)
    for _ in range(10):
        table = random_table(generator, generator.randrange(1, 60))
        table.write_parquet(tmp_path / "table.parquet")
        EventLog.from_frame(table, **COLUMNS).write(tmp_path / "log.parquet")
        ordered = EventLog.scan(tmp_path / "table.parquet", **COLUMNS).sort_to(tmp_path / "sorted.parquet")
        assert isinstance(ordered, EventScan)
        assert (tmp_path / "sorted.parquet").read_bytes() == (tmp_path / "log.parquet").read_bytes()


def distinct_table():
    """Give a table of which most rows are good: no two of them share a version."""
    table = random_table(random.Random(5), 120)
    return table.with_columns(id=pl.int_range(120).cast(pl.String))


@pytest.fixture
def log():
    log = EventLog.from_frame(distinct_table(), **COLUMNS)
    assert len(log) > 20
    return log


def test_stored_files_are_taken_as_they_are(tmp_path, log):
    log.write(tmp_path / "log.parquet")
    scan = EventLog.scan(tmp_path / "log.parquet")
    assert (len(scan), scan.entities, scan.features) == (len(log), log.entities, log.features)
    assert scan.fingerprint == log.fingerprint
    assert scan.reject_counts == {}
    assert scan.frame.collect().sort("event_id", "revision").equals(log.frame.sort("event_id", "revision"))
    assert repr(scan) == f"EventScan({tmp_path / 'log.parquet'}, features=['f'])"
    some = log.frame["event_id"][0]
    assert scan.revisions(some).equals(log.revisions(some))


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_batches_come_in_canonical_order(tmp_path, log, rows):
    log.write(tmp_path / "log.parquet")
    parts = list(EventLog.scan(tmp_path / "log.parquet").batches(rows))
    assert pl.concat(parts).equals(log.frame)
    assert all(part.height == rows for part in parts[:-1])


def test_batches_of_unordered_files_are_refused_with_the_remedy(tmp_path, log):
    log.write(tmp_path / "log.parquet")
    log.frame.write_parquet(tmp_path / "foreign.parquet")
    scan = EventLog.scan(tmp_path / "foreign.parquet", event_time="event_time", available_at="available_at")
    with pytest.raises(UsageError, match=r"scan\.sort_to\('sorted\.parquet'\) and scan that file"):
        scan.batches()
    with pytest.raises(UsageError, match="rows=0 is no size of a batch"):
        EventLog.scan(tmp_path / "log.parquet").batches(0)


def test_a_file_that_says_it_is_in_order_and_is_not_is_refused(tmp_path, log):
    file = tmp_path / "log.parquet"
    log.write(file)
    said = pq.read_metadata(file).metadata[b"quantattn"].decode()
    log.frame.reverse().write_parquet(file, metadata={"quantattn": said})
    with pytest.raises(EventDataError, match="says that it is in canonical order, but is not"):
        list(EventLog.scan(file).batches())


def test_several_stored_files_are_one_scan_unless_they_share_versions(tmp_path, log):
    cut = len(log) // 2
    for name, part in (("b", log.frame[:cut]), ("a", log.frame[cut:])):
        EventLog.from_valid(part, ["f"]).write(tmp_path / f"{name}.parquet")
    scan = EventLog.scan([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert scan.collect().fingerprint == scan.fingerprint == log.fingerprint
    with pytest.raises(UsageError, match="sort_to"):
        scan.batches()
    assert scan.sort_to(tmp_path / "sorted.parquet").fingerprint == log.fingerprint
    twice = EventLog.scan([tmp_path / "a.parquet", tmp_path / "sorted.parquet"])
    for use in (twice.collect, lambda: twice.frame, lambda: twice.as_of(5), twice.summary):
        with pytest.raises(EventDataError, match=r"share .* versions \(event_id, revision\)"):
            use()


def test_stored_files_with_other_features_are_refused(tmp_path, log):
    log.write(tmp_path / "a.parquet")
    EventLog.from_valid(log.frame.drop("f")).write(tmp_path / "b.parquet")
    with pytest.raises(EventDataError, match=r"has the features \['f'\], but .*b\.parquet has \[\]"):
        EventLog.scan(tmp_path)


def test_hive_folders_keep_their_names_as_text(tmp_path):
    for entity, day in (("0005", "2024-11-27"), ("AAPL", "2024-11-28")):
        folder = tmp_path / f"ticker={entity}" / f"day={day}"
        folder.mkdir(parents=True)
        pl.DataFrame({"x": [f"of {entity}", None]}).write_parquet(folder / "part.parquet")
    scan = EventLog.scan(tmp_path, event_time="day", entity="ticker", text="x")
    rows = scan.collect().frame.select("entity", "text", pl.col("available_at").dt.to_string("%FT%T"))
    assert sorted(rows.rows(), key=str) == [
        ("0005", "of 0005", "2024-11-29T14:30:00"),
        ("0005", None, "2024-11-29T14:30:00"),
        ("AAPL", "of AAPL", "2024-11-29T14:30:00"),
        ("AAPL", None, "2024-11-29T14:30:00"),
    ]


def test_folders_with_brackets_other_files_and_hidden_ones(tmp_path):
    folder = tmp_path / "year=9" / "a[1]" / "e=007"
    folder.mkdir(parents=True)
    pl.DataFrame({"t": [NOON]}).write_parquet(folder / "part.parquet")
    for name in ("readme.txt", "_temporary.parquet", ".part.parquet"):
        (folder / name).write_text("no table")
    scan = EventLog.scan(tmp_path / "year=9" / "a[1]", event_time="t", entity="e")
    assert scan.entities == ("007",)


def test_rejects_of_a_folder_are_numbered_within_their_files(tmp_path):
    for name, stamps in (("a", [NOON, None]), ("b", ["soon", NOON, "soon"])):
        pl.DataFrame({"t": stamps, "id": [f"{name}{i}" for i in range(len(stamps))]}).write_parquet(
            tmp_path / f"{name}.parquet"
        )
    scan = EventLog.scan(tmp_path, event_time="t", event_id="id")
    assert scan.rejects_to(tmp_path / "out" / "rejects.csv") == 3
    assert pl.read_csv(tmp_path / "out" / "rejects.csv").select("file", "row", "reason").rows() == [
        (str(tmp_path / "a.parquet"), 1, "missing_time"),
        (str(tmp_path / "b.parquet"), 0, "unreadable_time"),
        (str(tmp_path / "b.parquet"), 2, "unreadable_time"),
    ]


def test_urls_and_patterns(tmp_path, log):
    log.write(tmp_path / "log-1.parquet")
    for path in (f"file://{tmp_path}/log-1.parquet", str(tmp_path / "log-*.parquet")):
        assert EventLog.scan(path).collect().fingerprint == log.fingerprint
    (tmp_path / "log[1].parquet").write_bytes((tmp_path / "log-1.parquet").read_bytes())
    assert EventLog.scan(tmp_path / "log[1].parquet").collect().fingerprint == log.fingerprint
    log.frame.write_parquet(tmp_path / "foreign.parquet")
    named = {"event_time": "event_time", "available_at": "available_at", "event_id": "event_id"}
    scan = EventLog.scan(f"file://{tmp_path}/foreign.parquet", **named, revision="revision", scheduled=True)
    assert len(scan) == len(log)


def test_the_lazy_frame_takes_filters_limits_and_columns(tmp_path, log):
    distinct_table().write_parquet(tmp_path / "table.parquet")
    lazy = EventLog.scan(tmp_path / "table.parquet", **COLUMNS).frame
    assert lazy.collect_schema() == log.frame.schema
    assert lazy.head(3).collect().height == 3
    assert lazy.head(0).collect().height == 0
    assert (
        lazy.filter(pl.col("f") == 1).select(pl.len()).collect().item()
        == log.frame.filter(pl.col("f") == 1).height
    )
    assert (
        lazy.head(9)
        .filter(pl.col("f") == 1)
        .collect()
        .equals(lazy.collect().head(9).filter(pl.col("f") == 1))
    )
    counts = lazy.group_by("entity").len().sort("entity").collect()
    assert counts.equals(log.frame.group_by("entity").len().sort("entity"))


# --- bad input ------------------------------------------------------------------------------------------


def test_a_wrong_column_brings_the_nearest_before_anything_is_read(tmp_path):
    pl.DataFrame({"published": [NOON], "headline": ["x"]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(EventDataError, match=r"event_time='publishd' is not a column.*'published'"):
        EventLog.scan(tmp_path / "t.parquet", event_time="publishd")
    with pytest.raises(EventDataError, match=r"text='headlines' is not a column.*'headline'"):
        EventLog.scan(tmp_path / "t.parquet", event_time="published", text="headlines")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"entity": "e"}, UsageError, "entity= is given without event_time="),
        ({"features": ["f"]}, UsageError, "features= is given without event_time="),
        ({"event_time": "t", "latency": "-1s"}, TimestampError, "is negative"),
        ({"event_time": "t", "revision": "r"}, EventDataError, "pass event_id= as well"),
    ],
)
def test_bad_options(tmp_path, options, error, message):
    pl.DataFrame({"t": [NOON], "e": ["A"], "f": [1.0], "r": [0]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(error, match=message):
        EventLog.scan(tmp_path / "t.parquet", **options)


def test_paths_that_lead_nowhere(tmp_path):
    for path in (tmp_path / "none.parquet", tmp_path, str(tmp_path / "*.parquet"), [], 5, [5]):
        with pytest.raises(UsageError, match=r"no Parquet file|names no file"):
            EventLog.scan(path)


@pytest.mark.parametrize("kept", [0, 100, -4])
def test_one_truncated_file_of_many_is_named(tmp_path, kept):
    for name in "abc":
        pl.DataFrame({"t": [NOON] * 500, "id": [f"{name}{i}" for i in range(500)]}).write_parquet(
            tmp_path / f"{name}.parquet"
        )
    broken = tmp_path / "b.parquet"
    broken.write_bytes(broken.read_bytes()[:kept])
    with pytest.raises(
        EventDataError, match=r"b\.parquet is not a whole Parquet file .*; copy or write it again"
    ):
        EventLog.scan(tmp_path, event_time="t", event_id="id").collect()


def test_a_file_whose_middle_is_damaged_is_named(tmp_path):
    file = tmp_path / "t.parquet"
    pl.DataFrame({"t": [NOON] * 3000, "id": [str(i * 7919 % 3000) for i in range(3000)]}).write_parquet(file)
    content = bytearray(file.read_bytes())
    content[200:1200] = bytes(1000)
    file.write_bytes(content)
    with pytest.raises(EventDataError, match=r"t\.parquet"):
        EventLog.scan(file, event_time="t", event_id="id").collect()


def test_text_that_is_not_utf8_is_named_with_its_rows(tmp_path):
    raw = pa.array([b"fine"] * 7 + [b"\xe9t\xe9", None, b"\xff"], pa.binary())
    stamps = pa.array([NOON] * 10)
    pq.write_table(pa.table({"t": stamps, "x": raw.view(pa.string())}), tmp_path / "t.parquet")
    with pytest.raises(
        EventDataError, match=r"column 'x' of .*t\.parquet holds bytes .* not UTF-8, first in rows \[7, 9\]"
    ):
        EventLog.scan(tmp_path / "t.parquet", event_time="t", text="x").collect()
    pq.write_table(pa.table({"t": stamps, "x": raw}), tmp_path / "t.parquet")
    scan = EventLog.scan(tmp_path / "t.parquet", event_time="t", text="x")
    assert scan.reject_counts == {"duplicate": 6, "not_utf8": 2}


def test_what_only_the_whole_table_shows(tmp_path):
    days = [datetime(2024, 1, day, 5, tzinfo=UTC) for day in range(1, 13)]
    pl.DataFrame({"t": days, "e": ["A"] * 11 + ["a"]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(EventDataError, match="differ only in case or spaces: 'A', 'a'"):
        EventLog.scan(tmp_path / "t.parquet", event_time="t", entity="e").collect()
    with pytest.warns(UserWarning, match="most zoned stamps of column 't' are midnights"):
        EventLog.scan(tmp_path / "t.parquet", event_time="t").collect()
    pl.DataFrame({"t": [*days[:8], datetime(2200, 1, 1, 3, tzinfo=UTC)]}).write_parquet(
        tmp_path / "t.parquet"
    )
    with pytest.warns(
        UserWarning, match=r"1 rows are stamped later than this moment.* row 8 \(2200-01-01T03"
    ):
        EventLog.scan(tmp_path / "t.parquet", event_time="t").collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scan = EventLog.scan(tmp_path / "t.parquet", event_time="t", now=datetime(2024, 6, 1, tzinfo=UTC))
        assert scan.reject_counts == {"in_the_future": 1}


def test_strict_raises_at_the_first_reading(tmp_path):
    pl.DataFrame({"t": [NOON, "soon", None, "later"]}).write_parquet(tmp_path / "t.parquet")
    scan = EventLog.scan(tmp_path / "t.parquet", event_time="t", strict=True)
    with pytest.raises(
        EventDataError, match=r"3 event rows .* \(2 unreadable_time, 1 missing_time\); first: .*'soon'"
    ):
        scan.collect()


def test_tables_without_rows_and_files_of_unlike_types(tmp_path):
    pl.DataFrame(schema={"t": pl.String}).write_parquet(tmp_path / "empty.parquet")
    scan = EventLog.scan(tmp_path / "empty.parquet", event_time="t")
    assert (len(scan), scan.summary().events, scan.rejects_to(tmp_path / "r.csv")) == (0, 0, 0)
    assert len(scan.sort_to(tmp_path / "sorted.parquet")) == 0
    pl.DataFrame({"t": [datetime(2024, 1, 1, 5, tzinfo=UTC)]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(EventDataError, match=r"cannot be read .*; check that its files are whole and of one"):
        EventLog.scan([tmp_path / "empty.parquet", tmp_path / "other.parquet"], event_time="t").collect()


def test_a_url_that_leads_nowhere(tmp_path):
    for options in ({}, {"event_time": "t"}):
        with pytest.raises(EventDataError, match=r"none\.parquet cannot be read"):
            EventLog.scan(f"file://{tmp_path}/none.parquet", **options)


# --- altered files, odd types, folders of patterns ------------------------------------------------------


def rewritten(file, log, change):
    """Write events that no log would hold into a file that says that a log wrote it."""
    log.write(file)
    metadata = pq.read_schema(file).metadata or pq.read_metadata(file).metadata
    entry = pq.read_metadata(file).metadata[b"quantattn"]
    altered = change(log.frame).to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(altered.replace_schema_metadata({"quantattn": entry}), file)
    assert metadata is not None


ALTERED = {
    "text": lambda f: f.with_columns(text=pl.lit("nothing")),
    "null": lambda f: f.with_columns(available_at=pl.when(pl.int_range(pl.len()) > 0).then("available_at")),
    "nan": lambda f: f.with_columns(f=pl.lit(float("nan"))),
    "inf": lambda f: f.with_columns(f=pl.lit(float("inf"))),
    "again": lambda f: pl.concat([f[:1], f]),
    "fewer": lambda f: f[1:],
}


@pytest.mark.parametrize("name", list(ALTERED))
def test_a_file_that_was_altered_is_found_out(tmp_path, log, name):
    file = tmp_path / "log.parquet"
    rewritten(file, log, ALTERED[name])
    match = "was altered since it was written|is null in|is not finite in|occurs more than once"
    for use in (
        lambda scan: scan.fingerprint,
        lambda scan: list(scan.batches()),
        lambda scan: scan.frame.collect(),
        len,
        lambda scan: scan.summary(),
    ):
        with pytest.raises(EventDataError, match=match):
            use(EventLog.scan(file))
    if name in ("null", "nan", "inf", "again"):
        for use in (
            lambda scan: scan.collect(),
            lambda scan: scan.as_of(2**62),
            lambda s: s.between(0, 2**62),
        ):
            with pytest.raises(EventDataError, match=match):
                use(EventLog.scan(file))


@pytest.mark.parametrize("zone", ["+05:30", "Nowhere/Zone"])
@pytest.mark.parametrize("named", ["t", "u"])
def test_columns_of_a_zone_that_nobody_knows(tmp_path, zone, named):
    odd = pa.array([1_732_881_600, 5], pa.timestamp("s", zone))
    plain = pa.array([1_732_881_600, 5], pa.timestamp("s", "UTC"))
    folder = tmp_path / "e=A"
    folder.mkdir()
    pq.write_table(pa.table({"t": plain, "u": odd}), folder / "a.parquet")
    log = EventLog.scan(tmp_path, event_time=named, entity="e").collect()
    assert log.frame["event_time"].to_physical().to_list() == [5_000_000_000, 1_732_881_600_000_000_000]
    assert log.entities == ("A",)
    with pytest.raises(EventDataError, match="event_time='v' is not a column"):
        EventLog.scan(tmp_path, event_time="v")


@pytest.mark.parametrize("type_", [pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
def test_times_that_nothing_can_write_are_listed(tmp_path, type_):
    far = 2**30 if type_ == pa.date32() else 2**62
    pq.write_table(pa.table({"t": pa.array([far], type_)}), tmp_path / "a.parquet")
    scan = EventLog.scan(tmp_path / "a.parquet", event_time="t", time_zone="UTC")
    assert scan.reject_counts == {"out_of_range": 1}
    assert scan.rejects_to(tmp_path / "rejects.csv") == 1


def test_a_pattern_has_the_columns_of_its_folders(tmp_path):
    for name in ("A", "B C"):
        folder = tmp_path / f"e={name.replace(' ', '%20')}"
        folder.mkdir()
        pl.DataFrame({"t": [NOON]}).write_parquet(folder / "a.parquet")
    whole = EventLog.scan(tmp_path, event_time="t", entity="e")
    pattern = EventLog.scan(tmp_path / "e=*" / "*.parquet", event_time="t", entity="e")
    assert pattern.entities == whole.entities == ("A", "B C")
    assert pattern.fingerprint == whole.fingerprint


def test_the_summary_of_ties_beyond_one_run(tmp_path, monkeypatch):
    monkeypatch.setattr(external, "_KEPT_ROWS", 10)
    rows = 900
    table = pl.DataFrame({"t": [1_732_881_600_000_000_000 + i // 3 for i in range(rows)], "x": ["h"] * rows})
    table = table.with_columns(
        pl.col("t").cast(pl.Datetime("ns", "UTC")), id=pl.int_range(rows).cast(pl.String)
    )
    table.write_parquet(tmp_path / "a.parquet")
    scan = EventLog.scan(tmp_path / "a.parquet", event_time="t", event_id="id", text="x")
    summary = scan.summary()
    assert (summary.tied, summary.largest_tie, summary.duplicates) == (900, 3, 600)
    assert summary.lag_quantiles[1.0] == 0


def test_a_scan_flags_repeats_in_memory_and_shows_what_it_refused(tmp_path):
    table = pl.DataFrame({"t": [NOON, "2024-11-29T13:00Z", "soon"], "x": ["one two"] * 3})
    table.write_parquet(tmp_path / "a.parquet")
    scan = EventLog.scan(tmp_path / "a.parquet", event_time="t", text="x", name="A")
    assert repr(scan) == f"EventScan({tmp_path / 'a.parquet'}, features=[])"
    assert scan.with_repeats().frame["repeat"].to_list() == [0.0, 1.0]
    assert repr(scan) == f"EventScan({tmp_path / 'a.parquet'}, features=[], 1 rejected)"
    assert scan.collect().entities == ("A",)
