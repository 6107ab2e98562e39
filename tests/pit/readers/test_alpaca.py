"""Alpaca news: edited texts are known when they were edited, in every shape in which pages are kept."""

import gzip
import json

import pytest

from quantattn.errors import EventDataError, UsageError
from quantattn.pit.readers import read_alpaca
from tests.pit.readers.news import refused, rows, write, zipped


def article(number, created, updated, symbols=("AAPL",), **fields):
    return {
        "id": number,
        "headline": f"Headline {number}",
        "author": "A",
        "created_at": created,
        "updated_at": updated,
        "summary": "Sum",
        "content": "<p>Body &amp; <b>soul</b></p>",
        "url": "https://x",
        "images": [],
        "symbols": list(symbols),
        "source": "benzinga",
        **fields,
    }


FRESH = article(1, "2021-12-31T11:08:42Z", "2021-12-31T11:08:42Z", ("AAPL", "TSLA", "AAPL"))
EDITED = article(2, "2021-12-31T11:00:00Z", "2022-01-03T09:00:00.5Z")
PAGE = {"news": [FRESH, EDITED], "next_page_token": "MTY0"}
LATER = {"news": [article(3, "2021-12-31T12:00:00Z", "2021-12-31T12:00:00Z", ())], "next_page_token": None}
EXPECTED = [
    ("1/AAPL", 0, "AAPL", "2021-12-31T11:08:42", "Headline 1", 2.0),
    ("1/TSLA", 0, "TSLA", "2021-12-31T11:08:42", "Headline 1", 2.0),
    ("2/AAPL", 0, "AAPL", "2022-01-03T09:00:00.500", "Headline 2", 1.0),
]


def content(log):
    return rows(log, "event_id", "revision", "entity", "available_at", "text", "n_symbols")


def test_an_edited_text_is_known_when_it_was_edited(tmp_path):
    log = read_alpaca(write(tmp_path, "a.json", json.dumps(PAGE)))
    assert content(log) == EXPECTED
    assert rows(log, "event_time")[-1] == ("2021-12-31T11:00:00",)
    assert log.rejects.is_empty()


def test_at_the_instant_of_the_edit_it_is_not_visible(tmp_path):
    log = read_alpaca(write(tmp_path, "a.json", json.dumps(PAGE)))
    edit = 1641200400_500_000_000
    assert "Headline 2" not in log.as_of(edit).frame["text"].to_list()
    assert "Headline 2" in log.as_of(edit + 1).frame["text"].to_list()


def test_the_option_that_leaks_is_named_after_it(tmp_path):
    log = read_alpaca(write(tmp_path, "a.json", json.dumps(PAGE)), show_edits_early=True)
    assert rows(log, "event_id", "available_at")[0] == ("2/AAPL", "2021-12-31T11:00:00")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(PAGE, indent=2)),
        ("a.json", json.dumps(PAGE["news"])),
        ("a.json", json.dumps([PAGE])),
        ("a.json", json.dumps({"data": {"news": PAGE["news"]}})),
        ("a.jsonl", "\n".join(map(json.dumps, PAGE["news"])) + "\n"),
        ("a.jsonl", f"\n{json.dumps(PAGE)}\n\n"),
        ("a.jsonl", "\r\n".join(json.dumps({"news": [item]}) for item in PAGE["news"])),
        ("a.json", b"\xef\xbb\xbf" + json.dumps(PAGE).encode()),
        ("a.json.gz", gzip.compress(json.dumps(PAGE).encode(), mtime=0)),
        ("a.zip", zipped(a__json=json.dumps(PAGE))),
    ],
)
def test_every_shape_gives_the_same_log(tmp_path, name, text):
    assert content(read_alpaca(write(tmp_path, name, text))) == EXPECTED


def test_one_article_alone_and_one_line_alone(tmp_path):
    expected = EXPECTED[2:]
    assert content(read_alpaca(write(tmp_path, "a.json", json.dumps(EDITED)))) == expected


def test_versions_of_several_downloads_are_revisions(tmp_path):
    first = article(2, "2021-12-31T11:00:00Z", "2021-12-31T11:00:00Z", headline="As it was")
    files = [
        write(tmp_path, "later.json", json.dumps(PAGE)),
        write(tmp_path, "earlier.json", json.dumps({"news": [first]})),
        write(tmp_path, "again.json", json.dumps(PAGE)),
    ]
    log = read_alpaca(files)
    assert [row for row in content(log) if row[0] == "2/AAPL"] == [
        ("2/AAPL", 0, "AAPL", "2021-12-31T11:00:00", "As it was", 1.0),
        ("2/AAPL", 1, "AAPL", "2022-01-03T09:00:00.500", "Headline 2", 1.0),
    ]
    assert log.reject_counts == {"duplicate": 3}
    assert "again.json item 0" in log.rejects["detail"][0]
    assert log.as_of(1640948400_000_000_001).frame["text"].to_list() == ["As it was"]


def test_one_stamp_and_two_texts_contradict_each_other(tmp_path):
    twin = {**FRESH, "headline": "Another"}
    log = read_alpaca(write(tmp_path, "a.json", json.dumps([FRESH, twin, EDITED])))
    assert log.reject_counts == {"conflicting_duplicate": 4}
    assert log.frame["event_id"].to_list() == ["2/AAPL"]


def test_articles_without_symbols(tmp_path):
    missing = article(4, "2021-12-31T12:00:00Z", "2021-12-31T12:00:00Z")
    del missing["symbols"]
    blank = article(5, "2021-12-31T12:00:00Z", "2021-12-31T12:00:00Z", ("", " "))
    path = write(
        tmp_path, "a.json", json.dumps([*LATER["news"], missing, {**missing, "symbols": None}, blank])
    )
    log = read_alpaca(path)
    assert rows(log, "entity", "text", "n_symbols") == [(None, "Headline 3", 0.0), (None, "Headline 5", 0.0)]
    assert refused(log) == [(1, "null_entity"), (2, "null_entity")]
    with pytest.raises(EventDataError, match="4 null_entity"):
        read_alpaca(path, untagged="reject")


def test_stamps_that_cannot_be_read_are_rejects(tmp_path):
    bad = [
        article(1, None, "2021-12-31T12:00:00Z"),
        article(2, "2021-12-31T12:00:00Z", None),
        article(3, "2021-12-31T12:00:00Z", "2021-12-31T12:00:00"),
        article(4, "2021-12-31T12:00:00Z", 1640952000),
        article(None, "2021-12-31T12:00:00Z", "2021-12-31T12:00:00Z"),
        # An update before the creation: the creation counts.
        article(6, "2021-12-31T12:00:00Z", "2021-12-31T11:00:00Z"),
    ]
    log = read_alpaca(write(tmp_path, "a.json", json.dumps(bad)))
    assert refused(log) == [
        (0, "missing_time"),
        (1, "missing_time"),
        (2, "naive_time"),
        (3, "unreadable_time"),
        (4, "null_event_id"),
    ]
    assert rows(log, "available_at") == [("2021-12-31T12:00:00",)]


def test_texts_lose_their_markup(tmp_path):
    path = write(tmp_path, "a.json", json.dumps(EDITED))
    assert read_alpaca(path, text="headline_and_summary").frame["text"][0] == "Headline 2\nSum"
    assert read_alpaca(path, text="everything").frame["text"][0] == "Headline 2\nSum\nBody & soul"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.json is empty"),
        ("[]", "lists no items"),
        ('{"news": []}', "lists no items"),
        (json.dumps(PAGE)[:-20], r"is not whole JSON in line 1"),
        (json.dumps(PAGE, indent=1)[:-40], r"is not whole JSON in line \d\d"),
        (json.dumps(FRESH) + "\n" + json.dumps(EDITED)[:30], r"is not whole JSON in line 2"),
        ("[" * 100_000, "too deeply|whole JSON"),
        ('{"news": [1]}', r"item 0 of .*a.json is 1, not an object"),
        ('"text"', 'a.json holds "text", not an object'),
        ("5", "a.json holds 5, not an object"),
        (json.dumps([{**FRESH, "symbols": "AAPL"}]), "field 'symbols' is \"AAPL\", not a list of names"),
        (json.dumps([{**FRESH, "headline": ["x"]}]), r"item 0: field 'headline' is \[\"x\"\], not text"),
        ('{"message": "forbidden."}', "no item has a field 'headline'"),
        (json.dumps([{"publishedDate": "x", "crawlDate": "y"}]), "looks like format 'tiingo'"),
        (json.dumps({"results": [{"published_utc": "x", "tickers": []}]}), "looks like format 'polygon'"),
        ("id,headline\n1,x\n", "is no JSON"),
        (b'{"headline": "caf\xe9"}', "is not UTF-8 in line 1"),
        (json.dumps([{**FRESH, "Headline": 1, "headlines": 1} | {"headline": None}]), None),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, text, message):
    path = write(tmp_path, "a.json", text)
    if message is None:
        assert read_alpaca(path).frame["text"].to_list() == [None, None]
        return
    with pytest.raises(EventDataError, match=message):
        read_alpaca(path)


def test_a_nearby_field_is_suggested_and_unknown_options_are_refused(tmp_path):
    item = dict(FRESH)
    item["symbol"] = item.pop("symbols")
    with pytest.raises(EventDataError, match="no item has a field 'symbols'; the nearest is 'symbol'"):
        read_alpaca(write(tmp_path, "a.json", json.dumps([item])))
    path = write(tmp_path, "b.json", json.dumps(PAGE))
    with pytest.raises(UsageError, match="text='body' is unknown"):
        read_alpaca(path, text="body")
    with pytest.raises(UsageError, match="untagged='drop' is unknown"):
        read_alpaca(path, untagged="drop")


def test_archives(tmp_path):
    with pytest.raises(EventDataError, match=r"holds 2 files \('a.json', 'b.json'\), not one"):
        read_alpaca(write(tmp_path, "a.zip", zipped(a__json="[]", b__json="[]")))
    with pytest.raises(EventDataError, match="holds 0 files"):
        read_alpaca(write(tmp_path, "b.zip", zipped()))
    whole = gzip.compress(json.dumps(PAGE).encode(), mtime=0)
    for cut in (whole[:-9], whole[:20], b"no gzip"):
        with pytest.raises(EventDataError, match=r"c.json.gz cannot be unpacked to its end"):
            read_alpaca(write(tmp_path, "c.json.gz", cut))
