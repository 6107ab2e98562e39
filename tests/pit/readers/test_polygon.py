"""Polygon news: a latency that has to be said, insights that come from later, and edits that do not show."""

import json

import pytest

from quantattn.errors import EventDataError, TimestampError, UsageError
from quantattn.pit.readers import find_reader, read_polygon
from tests.pit.readers.news import refused, rows, write


def article(number, published, tickers=("AAPL",), **fields):
    return {
        "id": f"id{number}",
        "publisher": {"name": "Benzinga", "homepage_url": "https://x"},
        "title": f"Title {number}",
        "author": "A",
        "published_utc": published,
        "article_url": "https://x",
        "tickers": list(tickers),
        "amp_url": "https://x",
        "image_url": "https://x",
        "description": "About",
        "keywords": ["k"],
        "insights": [
            {"ticker": "AAPL", "sentiment": "positive", "sentiment_reasoning": "It later rose"},
            {"ticker": "AAPL", "sentiment": "negative", "sentiment_reasoning": "Second"},
            {"ticker": "MSFT", "sentiment": "Negative", "sentiment_reasoning": ""},
            {"ticker": "BRK.B", "sentiment": "mixed"},
        ],
        **fields,
    }


PAGE = {
    "count": 2,
    "results": [
        article(1, "2024-06-24T18:33:53Z", ("AAPL", "MSFT", "BRK.B", "X")),
        article(2, "2024-06-24T18:33:53Z", (), insights=None),
    ],
    "status": "OK",
    "next_url": "https://x",
}


def content(log, *more):
    return rows(log, "event_id", "entity", "available_at", "text", *more)


def test_the_stamp_and_the_latency_that_has_to_be_given(tmp_path):
    path = write(tmp_path, "a.json", json.dumps(PAGE))
    with pytest.raises(TypeError, match="latency"):
        read_polygon(path)
    assert find_reader("polygon").options["latency"].required
    log = read_polygon(path, latency="15min")
    assert content(log, "n_tickers") == [
        ("id1/AAPL", "AAPL", "2024-06-24T18:48:53", "Title 1", 4.0),
        ("id1/BRK.B", "BRK.B", "2024-06-24T18:48:53", "Title 1", 4.0),
        ("id1/MSFT", "MSFT", "2024-06-24T18:48:53", "Title 1", 4.0),
        ("id1/X", "X", "2024-06-24T18:48:53", "Title 1", 4.0),
        ("id2/*", None, "2024-06-24T18:48:53", "Title 2", 0.0),
    ]
    assert log.features == ("n_tickers",)


def test_insights_are_not_read_by_default(tmp_path):
    changed = json.loads(json.dumps(PAGE).replace("positive", "negative"))
    first, second = (
        read_polygon(write(tmp_path, f"{n}.json", json.dumps(page)), latency="0s")
        for n, page in enumerate([PAGE, changed])
    )
    assert first.fingerprint == second.fingerprint
    asked = read_polygon(tmp_path / "0.json", latency="0s", later_insights=True)
    assert asked.features == ("n_tickers", "insight_sentiment")
    assert rows(asked, "entity", "insight_sentiment") == [
        ("AAPL", 1.0),
        ("BRK.B", None),
        ("MSFT", -1.0),
        ("X", None),
        (None, None),
    ]


def test_an_edit_that_shows_is_a_contradiction(tmp_path):
    edited = {"results": [{**PAGE["results"][0], "title": "Edited", "tickers": ["AAPL"]}]}
    files = [write(tmp_path, f"{n}.json", json.dumps(page)) for n, page in enumerate([PAGE, edited, PAGE])]
    log = read_polygon(files, latency="0s")
    assert log.reject_counts == {"duplicate": 4, "conflicting_duplicate": 3}
    assert "id1/AAPL" not in log.frame["event_id"].to_list()


def test_shapes_and_descriptions(tmp_path):
    text = "\n".join(json.dumps(item) for item in PAGE["results"])
    lines = read_polygon(write(tmp_path, "a.jsonl", text), latency="0s", text="title_and_description")
    assert lines.frame["text"].unique().sort().to_list() == ["Title 1\nAbout", "Title 2\nAbout"]
    pages = read_polygon(write(tmp_path, "b.json", json.dumps([PAGE, {"results": []}])), latency="0s")
    assert len(pages) == 5


def test_rejects(tmp_path):
    items = [
        article(1, None),
        article(2, "2024-06-24 18:33:53"),
        article(3, "2024-06-24", ("A",)),
        article(4, "2024-06-24T18:33:53Z") | {"tickers": None},
    ]
    log = read_polygon(write(tmp_path, "a.json", json.dumps(items)), latency="0s")
    assert refused(log) == [(0, "missing_time"), (1, "naive_time"), (3, "null_entity")]
    assert content(log) == [("id3/A", "A", "2024-06-25T13:30:00", "Title 3")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"status": "ERROR", "error": "Unknown API Key"}', "no item has a field 'title'"),
        (
            json.dumps([{"title": "x", "published": "y", "tickers": []}]),
            "'published_utc'; the nearest is 'published'",
        ),
        (
            json.dumps([{"headline": "x", "created_at": "y", "updated_at": "z", "symbols": []}]),
            "format 'alpaca'",
        ),
        (json.dumps(PAGE)[:100], "is not whole JSON"),
    ],
)
def test_what_is_no_such_file_is_refused_with_a_reason(tmp_path, text, message):
    with pytest.raises(EventDataError, match=message):
        read_polygon(write(tmp_path, "a.json", text), latency="0s")


def test_bad_insights_and_options(tmp_path):
    path = write(tmp_path, "a.json", json.dumps([article(1, "2024-06-24T18:33:53Z", insights="good")]))
    assert len(read_polygon(path, latency="0s")) == 1
    with pytest.raises(EventDataError, match="item 0: field 'insights' is no list of objects"):
        read_polygon(path, latency="0s", later_insights=True)
    with pytest.raises(UsageError, match="text='x' is unknown"):
        read_polygon(path, latency="0s", text="x")
    with pytest.raises(TimestampError, match="latency='-1s' is negative"):
        read_polygon(path, latency="-1s")
