"""Paths that are no files, halves of surrogate pairs, pages that were not fetched, and numbers of rows."""

import json
import os
import warnings

import polars as pl
import pytest

from quantattn.errors import TimestampError, UsageError
from quantattn.pit.readers import (
    find_reader,
    read_alpaca,
    read_edgar_submissions,
    read_event_tables,
    read_fnspid,
    read_gdelt,
    read_polygon,
    read_tiingo,
    readers,
)
from quantattn.pit.readers.sql import read_sql

FILED = {
    "accessionNumber": ["a", "b"],
    "filingDate": ["2024-02-02", "2024-02-02"],
    "acceptanceDateTime": ["2024-02-02T18:01:30.000Z", "2024-02-02T18:01:30.000Z"],
    "form": ["8-K", "10-K"],
}
ARTICLE = {
    "id": 1,
    "headline": "up",
    "created_at": "2024-01-03T12:00:00Z",
    "updated_at": "2024-01-03T12:00:00Z",
    "symbols": ["A"],
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def filer(folder, filings=None, name="CIK0000000001.json", **more):
    return write(folder / name, {"cik": "1", "filings": {"recent": filings or FILED, **more}})


@pytest.mark.parametrize("format", sorted(readers()))
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, format):
    path = tmp_path / "a_2024-01-03_1_2_message_1.csv"
    os.mkfifo(path)
    required = {"connection": "sqlite:///x", "event_time": "t", "latency": "1s", "launch": "trust_stamps"}
    found = find_reader(format)
    options = {
        option.name: required.get(option.name, True if option.type is bool else "close")
        for option in found.options.values()
        if option.required
    }
    with pytest.raises(
        UsageError, match="is a pipe or a device, not a file; write its content to a file first"
    ):
        found.read(path, **options)


def test_a_loop_of_links_is_refused(tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    with pytest.raises(UsageError, match="cannot be read"):
        read_event_tables(loop, event_time="t")


@pytest.mark.parametrize(
    "form", ["DOS", "DOS/A", "DOSLTR", "DRS", "DRS/A", "DRSLTR", "DRSLTR/A", "CORRESP", "UPLOAD"]
)
def test_drafts_and_letters_are_released_later(tmp_path, form):
    log = read_edgar_submissions(filer(tmp_path, FILED | {"form": [form, "1-A"]}))
    assert log.rejects.select("row", "reason").rows() == [(0, "released_later")]
    assert log.frame["kind"].to_list() == ["1-A"]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    path = tmp_path / "CIK0000000001.json"
    text = json.dumps({"cik": "1", "filings": {"recent": FILED | {"items": ["X", "\U0001f600"]}}})
    path.write_text(text.replace('"X"', r'"\ud800"'))
    log = read_edgar_submissions(path)
    assert log.frame["text"].to_list() == ["8-K; items \ufffd", "10-K; items \U0001f600"]
    observations = (
        r'[{"realtime_start": "2024-02-02", "date": "2024-01-01", "value": "1", "n\udc00te": "\ud800"}]'
    )
    release = write(tmp_path / "PAYEMS.json", '{"observations": ' + observations + "}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the single vintage
        assert len(find_reader("alfred").read(release, frequency="M")) == 1
    insight = {"ticker": "A", "sentiment": "positive"}
    news = {
        "id": "1",
        "title": "t",
        "published_utc": "2024-01-03T12:00:00Z",
        "tickers": ["A"],
        "insights": [insight],
    }
    page = write(tmp_path / "p.json", json.dumps({"results": [news]}).replace('"positive"', r'"\ud800"'))
    assert len(read_polygon(page, latency="1s", later_insights=True)) == 1


def test_further_files_of_a_filer_are_missed(tmp_path):
    older = "CIK0000000001-submissions-001.json"
    path = filer(tmp_path, files=[{"name": older, "filingCount": 2}])
    with pytest.warns(UserWarning, match=f"1 further files .* listed and not given \\({older}\\)"):
        read_edgar_submissions(path)
    second = write(tmp_path / older, FILED | {"accessionNumber": ["c", "d"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_edgar_submissions([path, second])) == 4


def test_pages_that_were_not_fetched_are_missed(tmp_path):
    first = write(tmp_path / "1.json", {"news": [ARTICLE], "next_page_token": "x"})
    last = write(tmp_path / "2.json", {"news": [ARTICLE | {"id": 2}], "next_page_token": None})
    with pytest.warns(UserWarning, match="1.json has a next_page_token, so that there are further pages"):
        read_alpaca(first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_alpaca([first, last])) == 2
    news = {"id": "1", "title": "t", "published_utc": "2024-01-03T12:00:00Z", "tickers": ["A"]}
    page = write(tmp_path / "3.json", {"results": [news], "next_url": "https://api.polygon.io/x"})
    with pytest.warns(UserWarning, match="has a next_url"):
        read_polygon(page, latency="1s")


def test_rows_are_numbered_in_their_files(tmp_path):
    bad = ARTICLE | {"created_at": "bad"}
    files = [
        write(tmp_path / "1.json", {"news": [ARTICLE, ARTICLE | {"id": 2}]}),
        write(tmp_path / "2.json", {"news": [ARTICLE | {"id": 3}, bad | {"id": 4}]}),
    ]
    rejects = read_alpaca(files).rejects
    assert rejects["row"].to_list() == [1]
    assert rejects["detail"][0].startswith(f"{files[1]} item 1: ")
    later = FILED | {"accessionNumber": ["c", "d"], "form": ["8-K", "DRS"]}
    names = ["CIK0000000001.json", "CIK0000000002.json"]
    log = read_edgar_submissions([filer(tmp_path, name=names[0]), filer(tmp_path, later, names[1])])
    assert log.rejects["row"].to_list() == [1]
    assert log.rejects["detail"][0].startswith("CIK0000000002.json: ")
    tables = [write(tmp_path / f"{n}.csv", f"t,x\n2024-01-03T12:00:00Z,{n}\nbad,{n}\n") for n in range(2)]
    rejects = read_event_tables(tables, event_time="t", text="x").rejects
    assert rejects["row"].to_list() == [1, 1]
    assert [detail.partition(": ")[0] for detail in rejects["detail"]] == [str(path) for path in tables]


def test_untagged_news_names_the_column_and_the_remedy(tmp_path):
    path = write(
        tmp_path / "f.csv",
        "Date,Article_title,Stock_symbol,Url\n2020-06-05 00:00:00 UTC,up,A,u\n"
        "2020-06-05 00:00:00 UTC,down,,u\n",
    )
    (row,) = read_fnspid(path).rejects.rows()
    assert row[:2] == (1, "null_entity")
    assert "column 'Stock_symbol' is null" in row[2]
    assert "untagged='market'" in row[2]
    assert read_fnspid(path, untagged="market").rejects.is_empty()
    cells = [""] * 61
    for place, cell in {0: "1", 1: "20240103", 5: "USA", 59: "20240103120000"}.items():
        cells[place] = cell
    lines = ["\t".join(cells), "\t".join(["2", *cells[1:5], "", *cells[6:]])]
    (row,) = read_gdelt(
        write(tmp_path / "20240103.export.CSV", "\n".join(lines) + "\n"), entity="actor1"
    ).rejects.rows()
    assert row[:2] == (1, "null_entity")
    assert "untagged='market'" in row[2]


def test_a_guess_that_leaves_the_years_is_refused(tmp_path):
    item = {
        "id": 1,
        "title": "t",
        "publishedDate": "2019-01-29T22:20:01Z",
        "crawlDate": "2021-01-30T22:20:01Z",
        "tickers": ["a"],
    }
    path = write(tmp_path / "t.json", [item])
    with pytest.raises(TimestampError, match=r"guess_backfill .* moves instants out of the range"):
        read_tiingo(path, guess_backfill="90000D")
    assert read_tiingo(path, guess_backfill="1h").frame["available_at"].dt.to_string("%F %T").to_list() == [
        "2019-01-29 23:20:01"
    ]


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_file_that_is_no_database_is_refused_first(tmp_path, scheme):
    path = write(tmp_path / "news.db", "not a database, but long enough to look at")
    with pytest.raises(UsageError, match=f"news.db is no {scheme} database"):
        read_sql("SELECT 1", f"{scheme}:///{path}", event_time="t")


def test_a_missing_driver_comes_before_a_missing_file(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        UsageError, match=r'pip install "quantattn\[sql\]" \(from a clone: pip install "\.\[sql\]"\)'
    ):
        read_sql("SELECT 1", "duckdb:///none.duckdb", event_time="t")


def test_a_part_of_a_name_suggests_the_whole_ones():
    with pytest.raises(UsageError, match=r"did you mean 'edgar_sgml' or 'edgar_submissions'\?"):
        find_reader("edgar")


def test_ragged_rows_in_messages_command_no_terminal(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,x\n2024-01-03T12:00:00Z,\x1b]0;owned\x07,\x9b31m\n")
    with pytest.raises(Exception, match=r"a\.csv") as caught:
        read_event_tables(path, event_time="t", text="x")
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in str(caught.value))


def test_a_log_of_one_file_keeps_the_numbers_of_the_file(tmp_path):
    path = write(tmp_path / "a.csv", "t,x\nbad,1\n2024-01-03T12:00:00Z,2\n")
    assert read_event_tables(path, event_time="t", text="x").rejects.select(
        pl.col("row")
    ).to_series().to_list() == [0]
