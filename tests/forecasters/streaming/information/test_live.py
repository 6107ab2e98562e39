"""Live information sets against a page of loops, and against the dataset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import ClockError, EventDataError, StateError, UsageError
from quantattn.forecasters.streaming.information.live import LiveInformation
from quantattn.pit import EventLog, PointInTimeDataset
from tests.forecasters.streaming.information.oracle import (
    FEATURES,
    SeenEvent,
    events_of,
    frame_of,
    in_order,
    information_of,
    random_events,
    value_of,
)
from tests.pit.build import at, clock, event_log, labels

SCOPES = ("entity+market", "entity", "market")


def live(scope: Any = "entity+market", depth: int = 500) -> LiveInformation:
    return LiveInformation(FEATURES, scope=scope, depth=depth)


def told(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def expected(seen: Sequence[SeenEvent], entity: str, scope: str) -> list[float | None]:
    return [value_of(seen, entity, scope, name) for name in FEATURES]


def event(
    event_id: str, revision: int, available: int, happened: int, x: float | None, **more: Any
) -> SeenEvent:
    features = {} if x is None else {"x": x}
    return SeenEvent(event_id, at(available), at(happened), revision=revision, features=features, **more)


# --- the rule, event by event -----------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("revised", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("moves", [0.0, 0.3])
def test_random_logs_against_the_loop(scope: str, revised: float, moves: float) -> None:
    for seed in range(6):
        draw = np.random.default_rng([seed, int(revised * 10), int(moves * 10)])
        seen: list[SeenEvent] = []
        book = live(scope)
        for one in random_events(draw, 40, revised=revised, market=0.4, moves=moves):
            seen.append(one)
            book.see(one)
            for entity in "ABCD":
                assert told(book.values(entity)) == expected(seen, entity, scope)
        for entity in "ABCD":
            found = book.n_visible(entity), book.max_available_at(entity), book.info_hash(entity)
            assert found == information_of(seen, entity, scope)


events = st.builds(
    lambda number, available, happened, owner, x, y: (number, available, happened, owner, x, y),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(-2, 0),
    st.sampled_from(["A", "B", None]),
    st.one_of(st.none(), st.integers(0, 9)),
    st.one_of(st.none(), st.integers(0, 9)),
)


def made(drawn: Sequence[Any], order: Sequence[int]) -> list[SeenEvent]:
    """Give each version of an event its number, in the order that was drawn."""
    count: dict[int, int] = {}
    found = []
    for number, available, happened, owner, x, y in drawn:
        count[number] = count.get(number, -1) + 1
        features = {name: float(v) for name, v in (("x", x), ("y", y)) if v is not None}
        found.append(
            SeenEvent(
                f"e{order[number]}", at(available), at(happened), owner, count[number], features=features
            )
        )
    return in_order(found)


@settings(deadline=None, max_examples=300)
@given(
    drawn=st.lists(events, max_size=14),
    order=st.permutations(range(4)),
    scope=st.sampled_from(SCOPES),
    depth=st.sampled_from([1, 2, 3, 50]),
)
def test_a_value_is_exact_or_refused(drawn: Any, order: Any, scope: str, depth: int) -> None:
    seen: list[SeenEvent] = []
    book = live(scope, depth)
    for one in made(drawn, order):
        seen.append(one)
        book.see(one)
        for entity in "ABC":
            try:
                found = told(book.values(entity))
            except StateError:
                assert depth < 50, "nothing can have been forgotten"
                continue
            assert found == expected(seen, entity, scope)


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_depth_decides_how_often_a_value_is_refused_and_never_what_it_is(depth: int) -> None:
    refused = answered = 0
    for seed in range(30):
        draw = np.random.default_rng([seed, depth])
        seen: list[SeenEvent] = []
        book = live(depth=depth)
        for one in random_events(draw, 40, revised=0.5, market=0.4, moves=0.2):
            seen.append(one)
            book.see(one)
            for entity in "ABCD":
                try:
                    found = told(book.values(entity))
                except StateError:
                    refused += 1
                    continue
                answered += 1
                assert found == expected(seen, entity, "entity+market")
    assert refused and answered, "both must have been seen"
    assert refused / answered < {1: 0.6, 2: 0.45, 3: 0.3, 8: 0.1}[depth]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_ties_all_over_with_ids_that_come_and_go(depth: int) -> None:
    """Hardly any instants, and little memory: what was forgotten decides again and again."""
    draw = np.random.default_rng(depth)
    answered = 0
    for _ in range(2500):
        spans = draw.integers(1, 4, 6)
        versions = [(f"e{name}", revision) for name, span in enumerate(spans) for revision in range(span)]
        seen: list[SeenEvent] = []
        book = live(depth=depth)
        rows = [
            event(
                *version,
                int(draw.integers(0, 9)),
                -int(draw.geometric(0.7)),
                None if draw.random() < 0.3 else float(place),
                entity=None if draw.random() < 0.5 else "A",
            )
            for place, version in enumerate(versions)
        ]
        for one in in_order(rows):
            seen.append(one)
            book.see(one)
            for entity in "AB":
                try:
                    found = told(book.values(entity))
                except StateError:
                    continue
                answered += 1
                assert found[0] == value_of(seen, entity, "entity+market", "x")
    assert answered > 20_000


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("scope", SCOPES)
def test_logs_without_revisions_are_never_refused(depth: int, scope: str) -> None:
    for seed in range(10):
        draw = np.random.default_rng([seed, depth])
        seen: list[SeenEvent] = []
        book = live(scope, depth)
        for one in random_events(draw, 60, revised=0.0, market=0.4, moves=0.2):
            seen.append(one)
            book.see(one)
            for entity in "ABCD":
                assert told(book.values(entity)) == expected(seen, entity, scope)


@pytest.mark.parametrize("owners", list(itertools.product(["A", None], repeat=3)))
def test_every_interleaving_of_an_event_that_moves_with_another(owners: Sequence[str | None]) -> None:
    for depth, available in itertools.product((1, 2, 9), itertools.product(range(3), repeat=4)):
        for values in ((1.0, 2.0, 3.0), (1.0, None, 3.0), (None, 2.0, None)):
            rows = [event("b", n, available[n], -1, values[n], entity=owners[n]) for n in range(len(owners))]
            for other in ("a", "c"):
                one = event(other, 0, available[3], -1, 7.0, entity=None)
                seen: list[SeenEvent] = []
                book = live(depth=depth)
                for row in in_order([*rows, one]):
                    seen.append(row)
                    book.see(row)
                    for entity in "AB":
                        try:
                            found = told(book.values(entity))
                        except StateError:
                            assert depth < 9
                            continue
                        assert found == expected(seen, entity, "entity+market")


# --- by hand ----------------------------------------------------------------------------------------


def test_withdrawing_all_that_is_remembered_loses_the_value_until_a_later_event() -> None:
    book = live("entity", depth=2)
    for number in range(3):
        book.see(event(f"e{number}", 0, number, number, float(number)))
    book.see(event("e2", 1, 4, 2, None))
    assert told(book.values("A")) == [1.0, None]
    book.see(event("e1", 1, 5, 1, None))
    refusal = r"feature 'x' as it stands for entity 'A' .* 2 latest .*event 'e1'.*larger book_depth than 2"
    with pytest.raises(StateError, match=refusal):
        book.values("A")
    assert told(book.values("B")) == [None, None]
    assert book.n_visible("A") == 5  # what does not depend on it is told all the same
    # One that happened before what was forgotten decides nothing, one that happened after it does.
    book.see(event("f", 0, 6, -1, 5.0))
    with pytest.raises(StateError, match="event 'e1'"):
        book.values("A")
    book.see(event("g", 0, 7, 1, 6.0))
    assert told(book.values("A")) == [6.0, None]


def test_a_lost_market_value_matters_to_those_who_have_none_of_their_own() -> None:
    book = live(depth=1)
    book.see(event("a", 0, 0, 0, 1.0))
    book.see(event("m", 0, 1, 0, 2.0, entity=None))
    book.see(event("n", 0, 2, 1, 3.0, entity=None))
    book.see(event("n", 1, 3, 1, None, entity=None))
    assert told(book.values("A")) == [1.0, None]
    with pytest.raises(StateError, match=r"feature 'x' as it stands for entity 'B'.*event 'n'"):
        book.values("B")


def test_a_revision_of_a_forgotten_event_ties_with_one_that_is_remembered() -> None:
    # Which of b and c became available first decides, and the first version of c was forgotten.
    def seen(depth: int) -> LiveInformation:
        book = live("entity", depth)
        book.see(event("c", 0, 0, 0, 1.0))
        book.see(event("b", 0, 1, 5, 2.0))
        book.see(event("c", 1, 2, 5, 3.0))
        return book

    assert told(seen(2).values("A")) == [2.0, None]
    with pytest.raises(StateError, match="event 'c'"):
        seen(1).values("A")


def test_an_event_that_an_entity_knew_earlier_ties_with_one_whose_first_version_was_forgotten() -> None:
    def seen(depth: int) -> LiveInformation:
        book = live(depth=depth)
        for name in "efg":  # none has a feature yet
            book.see(event(name, 0, 0, 0, None, entity=None))
        book.see(event("c", 1, 1, 5, 1.0))
        book.see(event("e", 1, 5, 5, 2.0, entity=None))
        book.see(event("c", 0, 6, 5, 3.0, entity=None))
        book.see(event("c", 2, 7, 5, 4.0, entity=None))
        return book

    # For the market c came after e in any case; for A, c was known a second after e first was.
    for depth in (2, 9):
        assert told(seen(depth).values("B")) == [4.0, None]
    assert told(seen(9).values("A")) == [4.0, None]
    with pytest.raises(StateError, match=r"entity 'A'.*event 'e'"):
        seen(2).values("A")


def test_an_older_version_that_comes_after_all_was_forgotten_is_known_to_be_superseded() -> None:
    book = live("entity", depth=1)
    book.see(event("e", 2, 0, 0, 1.0))
    for number in range(5):
        book.see(event(f"f{number}", 0, 1 + number, 1 + number, 2.0))
    book.see(event("e", 0, 9, 9, 3.0))
    book.see(event("e", 1, 9, 9, 4.0))
    assert told(book.values("A")) == [2.0, None]


def test_events_without_features_are_remembered_too() -> None:
    book = live("entity", depth=2)
    book.see(event("b", 0, 0, 0, None))
    book.see(event("c", 0, 1, 0, 1.0))
    book.see(event("b", 1, 2, 0, 2.0))  # c was known later than the first version of b
    assert told(book.values("A")) == [1.0, None]


def test_an_empty_book_knows_nothing_and_names_the_empty_set() -> None:
    for scope in SCOPES:
        book = live(scope)
        assert told(book.values("A")) == [None, None]
        assert (book.n_visible("A"), book.max_available_at("A")) == (0, None)
        assert book.info_hash("A") == information_of([], "A", scope)[2]
        assert book.entities == ()


def test_reads_give_copies_and_change_nothing() -> None:
    book = live()
    book.see(event("a", 0, 0, 0, 1.0, entity=None))
    book.see(event("b", 0, 0, 0, 1.0))
    before = book.memory()
    for entity in "AB":
        book.values(entity)[:] = 99.0
        book.info_hash(entity)
        assert told(book.values(entity)) == [1.0, None]
    assert same(before, book.memory())


def test_events_before_1970_and_zero_values() -> None:
    book = LiveInformation(FEATURES, scope="entity+market")
    book.see(SeenEvent("a", -10, -20, "A", features={"x": -0.0}))
    book.see(SeenEvent("b", -5, -20, None, features={"y": 0.0}))
    assert book.max_available_at("A") == book.max_available_at("B") == -5
    assert np.signbit(book.values("A")).tolist() == [True, False]


def test_many_market_events_between_those_of_an_entity() -> None:
    seen = [event("a", 0, 0, 0, 1.0)]
    seen += [event(f"m{number:05d}", 0, 1, 0, 2.0, entity=None) for number in range(3000)]
    seen += [event("z", 0, 2, 0, 3.0)]
    book = live(depth=4)
    for one in seen:
        book.see(one)
    for entity in "AB":
        found = book.n_visible(entity), book.max_available_at(entity), book.info_hash(entity)
        assert found == information_of(seen, entity, "entity+market")


# --- against the dataset ----------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("revised", "moves"), [(0.0, 0.0), (0.4, 0.0), (0.5, 0.3)])
def test_every_sample_of_a_dataset(scope: Any, revised: float, moves: float) -> None:
    for seed in range(3):
        draw = np.random.default_rng([seed, int(revised * 10), int(moves * 10)])
        log = EventLog.from_valid(
            frame_of(random_events(draw, 80, revised=revised, market=0.3, moves=moves)), FEATURES
        )
        pairs = [(entity, second) for second in range(32) for entity in "ABCD"]
        dataset = PointInTimeDataset(log, clock(range(32)), labels(pairs, "ABCD"), scope=scope, check=False)
        samples = dataset.samples.with_columns(
            pl.col("forecast_time", "max_available_at").to_physical()
        ).hstack(dataset.as_of_features())
        waiting, book = events_of(log.frame), live(scope)
        for row in samples.iter_rows(named=True):
            while waiting and waiting[0].available_at < row["forecast_time"]:
                book.see(waiting.pop(0))
            entity = row["entity"]
            assert told(book.values(entity)) == [row["asof_x"], row["asof_y"]]
            assert book.n_visible(entity) == row["n_visible"]
            assert book.max_available_at(entity) == row["max_available_at"]
            assert book.info_hash(entity) == row["info_hash"]
        assert samples.height == len(pairs)


# --- many at once -----------------------------------------------------------------------------------


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    equal = (a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name]) for name in a)
    return a.keys() == b.keys() and all(equal)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("depth", [1, 3, 500])
@pytest.mark.parametrize(("revised", "moves"), [(0.0, 0.0), (0.02, 0.1), (0.5, 0.3)])
def test_a_frame_leaves_what_its_events_leave_one_by_one(
    scope: str, depth: int, revised: float, moves: float
) -> None:
    for seed in range(5):
        draw = np.random.default_rng([seed, depth, int(revised * 100)])
        frame = frame_of(random_events(draw, 120, revised=revised, market=0.3, moves=moves))
        cuts = np.sort(draw.integers(0, frame.height + 1, 2)).tolist()
        one_by_one, at_once = live(scope, depth), live(scope, depth)
        for begin, end in itertools.pairwise([0, *cuts, frame.height]):
            for one in events_of(frame[begin:end]):
                one_by_one.see(one)
            at_once.see_frame(frame[begin:end])
            assert same(one_by_one.memory(), at_once.memory())
        assert one_by_one.entities == at_once.entities


def test_a_frame_may_lack_features_and_have_its_columns_in_any_order_and_type() -> None:
    frame = event_log(
        [{"available": 0, "x": 1.0}, {"available": 1, "x": 2.0, "entity": None}, {"available": 2}]
    ).frame
    expected_memory = live()
    expected_memory.see_frame(frame)
    book = live()
    book.see_frame(
        frame.drop("y")
        .select(reversed(frame.drop("y").columns))
        .with_columns(pl.col("kind", "entity").cast(pl.Categorical), pl.col("revision").cast(pl.Int64))
    )
    assert same(book.memory(), expected_memory.memory())
    alone = live()
    alone.see_frame(frame.filter(pl.col("entity").is_null()).with_columns(entity=pl.lit(None)))
    assert told(alone.values("A")) == [2.0, None]


def test_frames_that_are_refused_change_nothing() -> None:
    frame = event_log([{"available": 3, "x": 1.0}, {"available": 4, "x": 2.0, "entity": None}]).frame
    book = live()
    book.see_frame(frame)
    before = book.memory()
    with pytest.raises(ClockError, match=r"row 1 of the frame .*00:00:03.* before row 0 .*00:00:04"):
        book.see_frame(frame.reverse())
    with pytest.raises(ClockError, match=r"entity 'A'.*00:00:03.*comes after one of .*00:00:04"):
        book.see_frame(frame[:1])
    with pytest.raises(ClockError, match=r"market-wide event .*00:00:03.*after one of .*00:00:04"):
        book.see_frame(frame[:1].with_columns(entity=pl.lit(None, pl.String)))
    with pytest.raises(EventDataError, match=r"columns \['z'\] are neither"):
        book.see_frame(frame.with_columns(z=1.0))
    with pytest.raises(EventDataError, match="'event_id'"):
        book.see_frame(frame.drop("event_id"))
    with pytest.raises(UsageError, match="type LazyFrame"):
        book.see_frame(frame.lazy())  # type: ignore[arg-type]
    assert same(book.memory(), before)
    book.see_frame(frame[:0])
    assert same(book.memory(), before)


def test_a_frame_whose_entity_is_read_by_nobody_changes_nothing() -> None:
    frame = event_log([{"available": 3, "x": 1.0}]).frame
    book = live("market")
    book.see_frame(frame)
    book.see(events_of(frame)[0])
    assert same(book.memory(), live("market").memory())


# --- refusals ---------------------------------------------------------------------------------------


def test_time_that_goes_backwards_is_refused() -> None:
    book = live()
    book.see(event("a", 0, 5, 0, 1.0))
    book.see(event("b", 0, 3, 0, 1.0, entity="B"))  # another entity may lag behind
    book.see(event("c", 0, 5, 0, 1.0))
    before = book.memory()
    with pytest.raises(ClockError, match=r"entity 'A'.*00:00:04.*00:00:05"):
        book.see(event("d", 0, 4, 0, 1.0))
    with pytest.raises(ClockError, match=r"market-wide.*00:00:04.*00:00:05"):
        book.see(event("d", 0, 4, 0, 1.0, entity=None))
    assert same(book.memory(), before)
    book.see(event("m", 0, 5, 0, 1.0, entity=None))
    with pytest.raises(ClockError, match=r"entity 'B'.*00:00:04.*00:00:05"):
        book.see(event("d", 0, 4, 0, 1.0, entity="B"))
    book.see(event("d", 0, 5, 0, 1.0, entity="B"))


def test_events_that_cannot_be_named_are_refused() -> None:
    book = live()
    before = book.memory()
    with pytest.raises(EventDataError, match="'e' has a feature 'z'"):
        book.see(replace(event("e", 0, 0, 0, None), features={"z": 1.0}))
    with pytest.raises(EventDataError, match="not Unicode"):
        book.see(replace(event("e", 0, 0, 0, None), text="a\ud800"))
    assert same(book.memory(), before)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"features": "xy"}, "sequence of names"),
        ({"features": ["x", "x"]}, "all different"),
        ({"features": ["x", "text"]}, r"\['text'\] have names of an event's own fields"),
        ({"scope": "all"}, "scope='all' is unknown"),
        ({"depth": 0}, "depth=0"),
        ({"depth": True}, "depth=True"),
        ({"depth": 2.0}, "depth=2.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        LiveInformation(**{"features": FEATURES, "scope": "entity", **options})
