from __future__ import annotations

import inspect
import itertools
import pydoc
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from quantattn.errors import EventDataError, LabelError, PriceDataError, UsageError
from quantattn.pit import (
    EventLog,
    ForecastClock,
    InformationHash,
    PointInTimeDataset,
    Universe,
    event_digests,
    information_hash,
    market_events,
    realised_variance,
)
from tests.pit.build import at, clock, event_log, instant, labels, price_history, random_closes, times

EMPTY = information_hash(event_log([]).frame, ("x", "y"))


def dataset(rows: list[dict[str, Any]], pairs: list[tuple[str, int]], **options: Any) -> PointInTimeDataset:
    return PointInTimeDataset(
        event_log(rows), clock(second for _, second in pairs), labels(pairs), **{"check": False, **options}
    )


def order_key(event: dict[str, Any]) -> tuple[int, int, str, int]:
    return event["available"], event["happened"], event["event_id"], event["revision"]


def visible(rows: list[dict[str, Any]], entity: str, second: int, scope: str) -> list[dict[str, Any]]:
    """Exactly the events a forecast sees, in canonical order: one loop over all of them."""
    seen = []
    for event in rows:
        own = event["entity"] == entity and scope != "market"
        market = event["entity"] is None and scope != "entity"
        if (own or market) and event["available"] < second:
            seen.append(event)
    return sorted(seen, key=order_key)


def as_of(seen: list[dict[str, Any]], entity: str, name: str) -> float | None:
    """The rule, event by event, over what is visible."""
    versions: dict[str, list[dict[str, Any]]] = {}
    for event in seen:
        versions.setdefault(event["event_id"], []).append(event)
    current = [max(group, key=lambda version: version["revision"]) for group in versions.values()]
    for owner in (entity, None):
        best: tuple[tuple[int, int, str], float] | None = None
        for event in current:
            if event["entity"] == owner and event[name] is not None:
                first = min(version["available"] for version in versions[event["event_id"]])
                key = (event["happened"], first, event["event_id"])
                if best is None or key > best[0]:
                    best = key, event[name]
        if best is not None:
            return best[1]
    return None


def content(seen: list[dict[str, Any]]) -> tuple[Any, ...]:
    return tuple(tuple(sorted((key, repr(value)) for key, value in event.items())) for event in seen)


def filled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "event_id": f"e{n}",
            "revision": 0,
            "entity": "A",
            "happened": row["available"],
            "kind": "news",
            "text": None,
            "x": None,
            "y": None,
            **row,
        }
        for n, row in enumerate(rows)
    ]


def check_against_loop(
    made: PointInTimeDataset, rows: list[dict[str, Any]], pairs: list[tuple[str, int]], scope: str
) -> dict[str, Any]:
    samples, features = made.samples, made.as_of_features()
    assert samples.height == features.height == len(pairs)
    assert samples["forecast_time"].equals(samples.sort("forecast_time", "entity")["forecast_time"])
    named: dict[str, Any] = {}
    for place, (entity, second) in enumerate(sorted(pairs, key=lambda pair: (pair[1], pair[0]))):
        row = samples.row(place, named=True)
        seen = visible(rows, entity, second, scope)
        assert (row["entity"], samples["forecast_time"].to_physical()[place]) == (entity, at(second))
        assert row["n_visible"] == len(seen)
        newest = samples["max_available_at"].to_physical()[place]
        assert newest == (at(seen[-1]["available"]) if seen else None)
        sequence = made.event_sequence(entity).head(row["n_visible"])
        assert list(zip(sequence["event_id"], sequence["revision"], strict=True)) == [
            (e["event_id"], e["revision"]) for e in seen
        ]
        for name in ("x", "y"):
            assert features[f"asof_{name}"][place] == as_of(seen, entity, name)
        # One hash for each content, and one content for each hash.
        assert named.setdefault(row["info_hash"], content(seen)) == content(seen)
        assert row["info_hash"] == information_hash(sequence, ("x", "y"))
    assert len(set(named.values())) == len(named)
    return named


ticks = st.integers(0, 5)
values = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, 2.5]))
event = st.fixed_dictionaries(
    {
        "key": st.tuples(st.sampled_from(["p", "q", "r", "s"]), st.integers(0, 2)),
        "entity": st.sampled_from(["A", "B", None]),
        "available": ticks,
        "lead": st.integers(0, 2),
        "kind": st.sampled_from(["news", "bar"]),
        "text": st.sampled_from([None, "", "up", "é"]),
        "x": values,
        "y": values,
    }
)


@settings(max_examples=120, deadline=None)
@given(
    drawn=st.lists(event, max_size=12, unique_by=lambda e: e["key"]),
    pairs=st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 6)), min_size=1, max_size=10, unique=True),
    scope=st.sampled_from(["entity+market", "entity", "market"]),
)
def test_samples_equal_a_loop_over_all_events(
    drawn: list[dict[str, Any]], pairs: list[tuple[str, int]], scope: str
) -> None:
    rows = [
        {
            **{k: v for k, v in e.items() if k not in ("key", "lead")},
            "event_id": e["key"][0],
            "revision": e["key"][1],
            "happened": e["available"] - e["lead"],
        }
        for e in drawn
    ]
    check_against_loop(dataset(rows, pairs, scope=scope), rows, pairs, scope)


@pytest.mark.parametrize("second_entity", ["A", "B", None])
@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
def test_every_interleaving_of_two_events_and_a_forecast(second_entity: str | None, scope: str) -> None:
    for first, second, forecast in itertools.product(range(3), repeat=3):
        # Who happened first matters only where both became available at once.
        for lead in itertools.product(range(2), repeat=2) if first == second else [(0, 0)]:
            rows = filled(
                [
                    {"available": first, "happened": first - lead[0], "x": 1.0},
                    {
                        "available": second,
                        "happened": second - lead[1],
                        "entity": second_entity,
                        "x": 2.0,
                        "y": 3.0,
                    },
                ]
            )
            pairs = [("A", forecast), ("B", forecast)]
            check_against_loop(dataset(rows, pairs, scope=scope), rows, pairs, scope)


def test_equality_is_not_visible_by_a_nanosecond() -> None:
    log = event_log([{"available": 5, "x": 1.0}])
    pairs = [at(5) - 1, at(5), at(5) + 1]
    when = ForecastClock(pl.Series(pairs).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))
    target = labels([("A", 4), ("A", 5), ("A", 6)], ("A",))
    frame = target.frame.with_columns(forecast_time=when.times)
    made = PointInTimeDataset(log, when, type(target)(frame, target.dropped, "t", 5, "return", ("A",)))
    assert made.samples["n_visible"].to_list() == [0, 0, 1]
    assert made.samples["max_available_at"].to_physical().to_list() == [None, None, at(5)]
    assert made.samples["info_hash"].to_list()[:2] == [EMPTY, EMPTY]
    assert made.samples["info_hash"][2] != EMPTY
    assert made.as_of_features()["asof_x"].to_list() == [None, None, 1.0]


def test_forecasts_before_any_event_stay_with_the_empty_set() -> None:
    made = dataset([{"available": 9}], [("A", 1), ("B", 10)])
    row = made.samples.row(0, named=True)
    assert (row["n_visible"], row["max_available_at"], row["info_hash"]) == (0, None, EMPTY)
    assert (
        EMPTY == "8730ab9aa29c4a0c6d9ff7b68ac851bc"
    )  # SipHash-2-4 of 24 zero bytes, by tests/pit/dataset/oracle.py


def test_columns_of_the_samples() -> None:
    made = dataset([{"available": 1}], [("A", 2)])
    assert made.samples.columns == [
        "entity",
        "forecast_time",
        "horizon",
        "y_true",
        "label_start_time",
        "label_end_time",
        "label_available_at",
        "n_visible",
        "max_available_at",
        "info_hash",
    ]
    assert made.samples.schema["n_visible"] == pl.Int64
    assert made.samples["info_hash"].str.len_chars().to_list() == [32]
    assert made.event_sequence("A").schema == made.events.frame.schema


BASE: list[dict[str, Any]] = [
    {"available": 1, "text": "one", "x": 1.0},
    {"available": 2, "entity": None, "text": None, "y": 0.0},
    {"available": 2, "entity": "B", "x": 7.0},
    {"available": 5, "text": "late", "x": 9.0},
    {"available": 6, "entity": None},
]


def hash_of_a(rows: list[dict[str, Any]], features: tuple[str, ...] = ("x", "y")) -> str:
    made = PointInTimeDataset(event_log(rows, features), clock([5]), labels([("A", 5)]), check=False)
    value: str = made.samples["info_hash"][0]
    return value


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (row, change)
        for row in (0, 1)
        for change in (
            {"event_id": "other"},
            {"revision": 1},
            {"happened": 0},
            {"available": 3},
            {"kind": "bar"},
            {"text": "two"},
            {"text": ""},
            {"x": 1.0000000000000002},
            {"x": 0.0},
            {"y": 1e-300},
            {"available": 5},
        )
    ],
)
def test_any_visible_change_names_another_set(row: int, change: dict[str, Any]) -> None:
    changed = [{**old, **change} if place == row else old for place, old in enumerate(BASE)]
    assert hash_of_a(changed) != hash_of_a(BASE)


def test_minus_zero_and_zero_are_one_value() -> None:
    changed = [{**old, "y": -0.0} if place == 1 else old for place, old in enumerate(BASE)]
    assert hash_of_a(changed) == hash_of_a(BASE)
    # But not where nothing has been made of them: the name is one of bits.
    frame = event_log([{"available": 1, "x": 0.0}]).frame
    assert information_hash(frame.with_columns(x=-pl.col("x")), ("x",)) != information_hash(frame, ("x",))


def test_a_visible_event_that_changes_hands_names_another_set() -> None:
    for row, entity in ((0, None), (0, "B"), (1, "A"), (1, "B")):
        changed = [{**old, "entity": entity} if place == row else old for place, old in enumerate(BASE)]
        assert hash_of_a(changed) != hash_of_a(BASE)


@pytest.mark.parametrize("row", [2, 3, 4])
@pytest.mark.parametrize(
    "change",
    [{"event_id": "other"}, {"revision": 3}, {"happened": 0}, {"text": "two"}, {"x": 5.0}, {"available": 9}],
)
def test_no_invisible_change_names_another_set(row: int, change: dict[str, Any]) -> None:
    changed = [{**old, **change} if place == row else old for place, old in enumerate(BASE)]
    assert hash_of_a(changed) == hash_of_a(BASE)
    assert hash_of_a(BASE[:2]) == hash_of_a(BASE)


def test_features_count_by_name_and_only_where_there_is_a_value() -> None:
    assert hash_of_a(BASE, ("y", "x")) == hash_of_a(BASE)
    assert hash_of_a(BASE, ("x", "y", "later")) == hash_of_a(BASE)
    swapped = [{**row, "x": row.get("y"), "y": row.get("x")} for row in BASE]
    assert hash_of_a(swapped) != hash_of_a(BASE)


def test_neighbouring_texts_do_not_run_together() -> None:
    first = [{"available": 1, "event_id": "ab", "kind": "c", "text": "d"}]
    second = [{"available": 1, "event_id": "a", "kind": "bc", "text": "d"}]
    assert hash_of_a(first) != hash_of_a(second)
    assert hash_of_a([{"available": 1, "text": None}]) != hash_of_a([{"available": 1, "text": ""}])


def test_order_counts_and_streaming_gives_the_same_name() -> None:
    frame = event_log(BASE).frame
    digests = event_digests(frame, ("x", "y"))
    assert digests.shape == (5, 16)
    running = InformationHash()
    names = [running.hexdigest()]
    for row in range(5):
        running.update(digests[row : row + 1])
        names.append(running.hexdigest())
    assert names == [information_hash(frame.head(n), ("x", "y")) for n in range(6)]
    assert information_hash(frame[[1, 0]], ("x", "y")) != information_hash(frame[[0, 1]], ("x", "y"))


def test_a_known_name_stays_the_same() -> None:
    # Guards the names in stored forecasts: a change of the serialisation must be a deliberate one.
    assert hash_of_a(BASE) == "080fa379ff2ee38912c80d2957d5ebfb"


def test_scope_chooses_the_sequence() -> None:
    for scope, expected in (
        ("entity+market", ["e0", "e1", "e3", "e4"]),
        ("entity", ["e0", "e3"]),
        ("market", ["e1", "e4"]),
    ):
        made = dataset(BASE, [("A", 5)], scope=scope)
        assert made.event_sequence("A")["event_id"].to_list() == expected


def test_own_values_come_before_market_values() -> None:
    rows = [{"available": 1, "x": 1.0}, {"available": 2, "entity": None, "x": 2.0, "y": 5.0}]
    found = dataset(rows, [("A", 3), ("B", 3)]).as_of_features()
    assert found.columns == ["asof_x", "asof_y"]
    assert found.rows() == [(1.0, 5.0), (2.0, 5.0)]


def test_a_log_without_features_has_no_as_of_columns() -> None:
    made = PointInTimeDataset(event_log([{"available": 1}], ()), clock([2]), labels([("A", 2)], ("A",)))
    assert made.as_of_features().shape == (1, 0)
    assert made.samples["n_visible"].to_list() == [1]


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(event, max_size=10, unique_by=lambda e: e["key"]),
    pairs=st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 6)), min_size=1, max_size=8, unique=True),
    tick=st.integers(-1, 7),
    shift=st.sampled_from([-1, 0, 1]),
)
def test_a_cut_equals_a_dataset_built_on_cut_data(
    drawn: list[dict[str, Any]], pairs: list[tuple[str, int]], tick: int, shift: int
) -> None:
    rows = [
        {
            **{k: v for k, v in e.items() if k not in ("key", "lead")},
            "event_id": e["key"][0],
            "revision": e["key"][1],
            "happened": e["available"] - e["lead"],
        }
        for e in drawn
    ]
    t = at(tick) + shift
    whole = dataset(rows, pairs)
    cut = whole.cut(t)
    early = [pair for pair in pairs if at(pair[1]) <= t]
    rebuilt = dataset([row for row in rows if at(row["available"]) < t], early)
    assert_frame_equal(cut.samples, rebuilt.samples, check_exact=True)
    assert_frame_equal(cut.as_of_features(), rebuilt.as_of_features(), check_exact=True)
    assert_frame_equal(cut.events.frame, rebuilt.events.frame)
    # And nothing that was known changes.
    known = whole.samples["forecast_time"].to_physical() <= t
    assert_frame_equal(cut.samples, whole.samples.filter(known), check_exact=True)
    assert_frame_equal(cut.as_of_features(), whole.as_of_features().filter(known), check_exact=True)


def test_cut_prices_rebuild_the_cut_dataset() -> None:
    prices = price_history({"A": random_closes(1, 80), "B": random_closes(2, 80)})
    index = price_history({"IDX": random_closes(3, 80)})
    small: dict[str, Any] = {
        "volatility_window": 4,
        "extreme_window": 6,
        "regime_window": 5,
        "bar_windows": (3,),
    }
    when = ForecastClock.sessions(start="2019-02-01", end="2019-04-18")
    whole = PointInTimeDataset(
        market_events(prices, index=index, **small), when, realised_variance(prices, when)
    )
    for place in (3, 20, 39):
        stamp = when.times.to_physical()[place]
        for t in (stamp, stamp + 16 * 60 * 10**9, stamp + 16 * 60 * 10**9 + 1):
            early = when.cut(t)
            events = market_events(prices.cut(t), index=index.cut(t), **small)
            rebuilt = PointInTimeDataset(events, early, realised_variance(prices, early))
            assert_frame_equal(whole.cut(t).samples, rebuilt.samples, check_exact=True)
            assert_frame_equal(whole.cut(t).as_of_features(), rebuilt.as_of_features(), check_exact=True)


def test_the_days_own_bar_is_not_visible_on_a_half_day() -> None:
    prices = price_history({"A": [1.0, 1.1, 1.2, 1.3]}, start="2019-11-27")
    when = ForecastClock.sessions(start="2019-11-29", end="2019-11-29")
    made = PointInTimeDataset(market_events(prices), when, realised_variance(prices, when, horizon=1))
    assert made.samples["forecast_time"].to_physical().to_list() == [instant("2019-11-29T17:45")]
    assert made.samples["n_visible"].to_list() == [1]
    assert made.samples["max_available_at"].to_physical().to_list() == [instant("2019-11-27T21:01")]
    # A clock that forgets the early close would have seen the day's bar.
    late = ForecastClock.sessions(start="2019-11-29", end="2019-11-29", at="15:45", offset="0s")
    seen = PointInTimeDataset(market_events(prices), late, realised_variance(prices, late, horizon=1)).samples
    assert seen["n_visible"].to_list() == [2]
    assert seen["label_start_time"].to_physical().to_list() == [instant("2019-12-02T21:00")]


def test_a_universe_leaves_only_members() -> None:
    rows = [{"available": 0}, {"available": 0, "entity": "B"}]
    spells = pl.DataFrame({"entity": ["A"], "start": times([2]), "end": times([4])})
    pairs = [(entity, second) for second in (1, 2, 3, 4) for entity in ("A", "B")]
    made = dataset(rows, pairs, universe=Universe.from_frame(spells), check=True)
    assert made.samples.select("entity", pl.col("forecast_time").dt.second()).rows() == [("A", 2), ("A", 3)]
    assert made.entities == ("A",)
    assert made.dropped_counts == {"not_member": 6}
    assert made.dropped.height == 6
    assert made.cut(at(2)).samples.height == 1


def test_an_entity_without_events_or_prices_is_refused() -> None:
    with pytest.raises(EventDataError, match=r"1 entities have labels but no events, first \['B'\]"):
        dataset([{"available": 1}], [("A", 2), ("B", 2)], check=True)
    with pytest.raises(PriceDataError, match=r"1 entities have events but no prices, first \['C'\]"):
        dataset(
            [{"available": 1}, {"available": 1, "entity": "B"}, {"available": 1, "entity": "C"}],
            [("A", 2)],
            check=True,
        )
    with pytest.raises(EventDataError, match=r"first \['B'\] \(did you mean 'b'\?\)"):
        dataset([{"available": 1}, {"available": 1, "entity": "b"}], [("A", 2), ("B", 2)], check=True)
    assert (
        dataset([{"available": 1, "entity": None}], [("A", 2)], check=True, scope="market").samples.height
        == 1
    )
    with pytest.raises(EventDataError, match="scope='market', but no event is market-wide"):
        dataset([{"available": 1}], [("A", 2)], check=True, scope="market")


def test_parts_that_do_not_belong_together_are_refused() -> None:
    log, when = event_log([{"available": 1}]), clock([2])
    with pytest.raises(UsageError, match="scope='all'"):
        PointInTimeDataset(log, when, labels([("A", 2)], ("A",)), scope="all")  # type: ignore[arg-type]
    with pytest.raises(LabelError, match=r"times that are not on the clock.*2020-01-01 00:00:03"):
        PointInTimeDataset(log, when, labels([("A", 2), ("A", 3)], ("A",)))
    with pytest.raises(LabelError, match="no sample is left"):
        PointInTimeDataset(log, when, labels([], ("A",)))
    made = PointInTimeDataset(log, when, labels([("A", 2)], ("A",)))
    with pytest.raises(EventDataError, match=r"entity='a' is not in the dataset \(did you mean 'A'\?\)"):
        made.event_sequence("a")
    with pytest.raises(UsageError, match="last=-1"):
        made.why("A", at(2), last=-1)


@pytest.mark.parametrize("name", ["samples", "dropped", "entities", "notes", "survivorship"])
def test_help_tells_what_an_attribute_holds(name: str) -> None:
    attribute = vars(PointInTimeDataset)[name]
    assert isinstance(attribute, property)
    page = pydoc.plain(pydoc.render_doc(PointInTimeDataset))
    assert inspect.getdoc(attribute).splitlines()[0] in page  # type: ignore[union-attr]
    assert "cached_property object" not in page
    made = dataset([{"available": 1}], [("A", 2)])
    assert getattr(made, name) is getattr(made, name)


def test_repr_and_empty_cut() -> None:
    made = dataset([{"available": 3}], [("A", 5)])
    assert "1 samples, 1 entities, 1 events" in repr(made)
    assert "no universe: survivors' bias is not excluded" in repr(made)
    early = made.cut(at(1))
    assert early.samples.is_empty()
    assert early.samples.schema == made.samples.schema
    assert early.as_of_features().schema == made.as_of_features().schema
    assert early.entities == ()
    assert isinstance(early.events, EventLog)


def test_a_dataset_without_a_universe_says_so() -> None:
    made = dataset([{"available": 1}], [("A", 2)])
    (note,) = made.notes
    assert note.startswith("No universe was given")
    spells = pl.DataFrame({"entity": ["A"], "start": times([0]), "end": times([9])})
    told = dataset([{"available": 1}], [("A", 2)], universe=Universe.from_frame(spells))
    assert told.notes == ()
    assert "no universe" not in repr(told)


def test_survivorship_as_the_labels_tell_it() -> None:
    rows = [{"available": 0}, {"available": 0, "entity": "B"}, {"available": 0, "entity": "C"}]
    pairs = [("A", 1), ("A", 2), ("A", 3), ("B", 2), ("B", 3), ("C", 1), ("C", 2)]
    parts = (event_log(rows), clock([1, 2, 3, 9]), labels(pairs, ("A", "B", "C")))
    report = PointInTimeDataset(*parts).survivorship
    assert report is not None
    assert report.late["entity"].to_list() == ["B"]
    assert report.early["entity"].to_list() == ["C"]
    assert (report.n_entities, report.n_alive) == (3, 2)
    spells = pl.DataFrame({"entity": ["A"], "start": times([0]), "end": times([9])})
    assert PointInTimeDataset(*parts, universe=Universe.from_frame(spells)).survivorship is None
