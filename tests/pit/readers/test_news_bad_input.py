"""Whatever a file holds, a news reader gives a log or says what is wrong: it never fails in another way."""

import json
import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import QuantAttnError
from quantattn.pit import EventLog
from quantattn.pit.readers import find_reader, read_alpaca, read_benzinga, read_fnspid, read_ravenpack
from tests.pit.readers import (
    test_alpaca,
    test_benzinga,
    test_djia,
    test_fnspid,
    test_gdelt,
    test_polygon,
    test_ravenpack,
    test_stocknet,
    test_tiingo,
)
from tests.pit.readers.news import known, rows, write

GOOD = {
    "fnspid": ("a.csv", test_fnspid.TEXT, {"ragged": "reject"}),
    "benzinga": ("a.csv", test_benzinga.TEXT, {}),
    "djia": ("a.csv", test_djia.TEXT, {}),
    "stocknet": ("AAPL/2014-01-01", test_stocknet.lines(test_stocknet.FIRST, test_stocknet.SECOND), {}),
    "alpaca": ("a.json", json.dumps(test_alpaca.PAGE), {"text": "everything"}),
    "tiingo": ("a.json", json.dumps([test_tiingo.USUAL, test_tiingo.AHEAD]), {"guess_backfill": "1h"}),
    "polygon": ("a.json", json.dumps(test_polygon.PAGE), {"latency": "0s", "later_insights": True}),
    "ravenpack": ("a.csv", test_ravenpack.RPA, {"launch": "2018-01-01"}),
    "gdelt": ("a.export.CSV", test_gdelt.TEXT, {"entity": "actor1_country"}),
}


def attempt(folder, name, content):
    file, _, options = GOOD[name]
    try:
        return find_reader(name).read(write(folder, file, content), **options)
    except QuantAttnError as failure:
        assert "\n" not in str(failure)
        return None


@pytest.mark.parametrize("name", GOOD)
def test_the_fixtures_are_good(tmp_path, name):
    log = attempt(tmp_path, name, GOOD[name][1])
    assert isinstance(log, EventLog)
    assert len(log)


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=25, deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path_factory, name, content):
    attempt(tmp_path_factory.mktemp("x"), name, content)


@pytest.mark.parametrize("name", GOOD)
def test_damaged_files(tmp_path, name):
    chance = random.Random(name)
    good = GOOD[name][1].encode()
    for _ in range(60):
        damaged = bytearray(good)
        start = chance.randrange(len(damaged))
        kind = chance.randrange(4)
        if kind == 0:
            del damaged[start:]
        elif kind == 1:
            del damaged[start : start + chance.randrange(1, 20)]
        elif kind == 2:
            damaged[start] = chance.randrange(256)
        else:
            damaged[start:start] = chance.choice(
                [b'"', b"\n", b",", b"\x00", b"{", b"\xff", b"\t", b"]", b"null"]
            )
        attempt(tmp_path, name, bytes(damaged))


@pytest.mark.parametrize("name", ["alpaca", "tiingo", "polygon", "stocknet"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_fields_of_any_json_value(tmp_path_factory, name, data):
    value = st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.integers()
        | st.text(st.characters(exclude_categories=()), max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )
    first = json.loads(GOOD[name][1].splitlines()[0])
    items = first if isinstance(first, list) else first.get("news") or first.get("results") or [first]
    item = dict(items[0])
    item[data.draw(st.sampled_from(sorted(item)))] = data.draw(value)
    attempt(tmp_path_factory.mktemp("x"), name, json.dumps(item) + "\n")


def test_halves_of_surrogate_pairs_are_replaced(tmp_path):
    item = {**test_alpaca.FRESH, "headline": "half \ud83d, whole \ud83d\ude00", "symbols": ["A\udc00"]}
    text = json.dumps(item)
    assert "\\ud83d" in text
    log = read_alpaca(write(tmp_path, "a.json", text))
    assert rows(log, "entity", "text") == [("A�", "half �, whole 😀")]


def test_parquet_files_with_types(tmp_path):
    stamps = pl.Series(["2020-06-05T06:30:54", "2020-06-05T00:00:00"]).str.to_datetime(time_zone="UTC")
    fnspid = pl.DataFrame(
        {
            "Date": stamps,
            "Article_title": ["a", "b"],
            "Stock_symbol": pl.Series(["A", "B"], dtype=pl.Categorical),
            "Url": ["https://benzinga.com/x", None],
        }
    )
    fnspid.write_parquet(tmp_path / "f.parquet")
    assert known(read_fnspid(tmp_path / "f.parquet", clock="corrected")) == [
        ("A", "2020-06-05T14:30:54", "a"),
        ("B", "2020-06-08T13:30:00", "b"),
    ]
    benzinga = pl.DataFrame(
        {"date": stamps.dt.replace_time_zone(None), "stock": ["A", "B"], "headline": ["a", "b"]}
    )
    benzinga.write_parquet(tmp_path / "b.parquet")
    assert known(read_benzinga(tmp_path / "b.parquet")) == [
        ("A", "2020-06-05T10:30:54", "a"),
        ("B", "2020-06-08T13:30:00", "b"),
    ]
    ravenpack = pl.DataFrame(
        {
            "timestamp_utc": stamps.dt.replace_time_zone(None).dt.cast_time_unit("ns"),
            "rp_entity_id": ["A", "B"],
            "relevance": [100, 90],
            "headline": pl.Series([None, None]),
        }
    )
    ravenpack.write_parquet(tmp_path / "r.parquet")
    log = read_ravenpack(tmp_path / "r.parquet", launch="trust_stamps")
    assert rows(log, "entity", "available_at", "relevance") == [
        ("B", "2020-06-05T00:00:00", 90.0),
        ("A", "2020-06-05T06:30:54", 100.0),
    ]


def test_chosen_symbols_keep_market_wide_news(tmp_path):
    path = write(tmp_path, "a.csv", test_fnspid.TEXT)
    log = read_fnspid(path, symbols="C", untagged="market")
    assert rows(log, "entity", "text") == [("C", "A midnight of nowhere near"), (None, "No symbol")]
