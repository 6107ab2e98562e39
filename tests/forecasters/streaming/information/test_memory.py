"""Memories of live information: they go on bit for bit, and what is damaged is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quantattn.errors import StateError
from quantattn.forecasters.streaming.information.live import LiveInformation
from tests.forecasters.streaming.information.oracle import FEATURES, SeenEvent, random_events
from tests.forecasters.streaming.information.test_live import event, same
from tests.pit.build import at

SCOPES = ("entity+market", "entity", "market")
Memory = dict[str, Any]


def answers(book: LiveInformation) -> list[Any]:
    found: list[Any] = []
    for entity in "ABCD":
        try:
            values: Any = book.values(entity).tobytes()
        except StateError as error:
            values = str(error)
        found.append((values, book.n_visible(entity), book.max_available_at(entity), book.info_hash(entity)))
    return found


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("depth", [1, 3, 100])
def test_a_memory_taken_anywhere_goes_on_as_if_nothing_had_been(scope: Any, depth: int) -> None:
    for seed in range(8):
        draw = np.random.default_rng([seed, depth])
        events = random_events(draw, 40, revised=0.5, market=0.4, moves=0.3)
        cut = int(draw.integers(0, len(events) + 1))
        whole = LiveInformation(FEATURES, scope=scope, depth=depth)
        for one in events[:cut]:
            whole.see(one)
        memory = whole.memory()
        resumed = LiveInformation(FEATURES, scope=scope, depth=depth)
        for one in events:  # what was there before goes
            resumed.see(one)
        resumed.restore(memory)
        assert same(resumed.memory(), memory)
        assert resumed.entities == whole.entities
        for one in events[cut:]:
            assert answers(resumed) == answers(whole)
            whole.see(one)
            resumed.see(one)
        assert answers(resumed) == answers(whole)
        assert same(resumed.memory(), whole.memory())


def filled() -> LiveInformation:
    """Two entities and the market, a floor, a list that is lost, a bare event, texts of many bytes."""
    book = LiveInformation(FEATURES, scope="entity+market", depth=2)
    for number in range(3):
        book.see(event(f"é{number}", 0, number, number, float(number)))
    book.see(event("é2", 1, 4, 2, None))
    book.see(event("é1", 1, 4, 1, None))
    book.see(event("bare", 0, 5, 1, None))
    book.see(event("m", 0, 5, 1, 5.0, entity=None))
    book.see(event("m", 1, 5, 1, 5.0, entity="B"))
    book.see(SeenEvent("n", at(6), at(1), None, features={"x": 1.0, "y": 2.0}))
    return book


def test_a_memory_is_a_copy_of_plain_arrays() -> None:
    book = filled()
    memory = book.memory()
    assert {array.dtype.kind for array in memory.values()} <= set("iubf")
    before = answers(book)
    for array in memory.values():
        array.fill(1)
    assert answers(book) == before
    memory = book.memory()
    other = LiveInformation(FEATURES, scope="entity+market", depth=2)
    other.restore(memory)
    for array in memory.values():
        array.fill(1)
    assert answers(other) == before


def set_to(name: str, place: Any, value: Any) -> Callable[[Memory], None]:
    def damage(memory: Memory) -> None:
        memory[name][place] = value

    return damage


def put(name: str, made: Callable[[Any], Any]) -> Callable[[Memory], None]:
    def damage(memory: Memory) -> None:
        memory[name] = made(memory[name])

    return damage


DAMAGES: dict[str, tuple[Callable[[Memory], Any], str]] = {
    "missing": (lambda memory: memory.pop("kept"), r"arrays \['kept'\] are missing"),
    "unknown": (lambda memory: memory.update(more=np.zeros(1)), r"\['more'\] unknown"),
    "list": (put("kept", list), "kept is of type list"),
    "type": (put("kept", lambda a: a.astype(np.int32)), "kept is of type int32, not an array of int64"),
    "rank": (put("kept", lambda a: a[None]), r"kept has shape \(1, "),
    "rank 0": (put("joined", lambda a: a[0:1].reshape(())), r"joined has shape \(\)"),
    "width": (put("chain", lambda a: a[:, :1]), "chain has shape"),
    "rows": (put("count", lambda a: a[:-1]), "count has shape"),
    "no offsets": (put("entities_offsets", lambda a: a[:0]), "entities_offsets do not rise"),
    "offsets": (set_to("event_ids_offsets", 1, 99), "event_ids_offsets do not rise"),
    "first offset": (set_to("value_offsets", 0, 1), "value_offsets do not rise"),
    "utf-8": (set_to("event_ids_bytes", 3, 255), "event_ids are not UTF-8"),
    "same entity": (set_to("entities_bytes", 1, ord("A")), "an entity occurs twice"),
    "field": (set_to("chain", (0, 1), 2**63), "no number of its field"),
    "market joined": (set_to("joined", 0, 1), "the market joined itself"),
    "joined": (set_to("joined", 1, 9), "events that were not there"),
    "negative count": (set_to("count", 1, -1), "events that were not there"),
    "book": (set_to("event_book", -1, 7), "unknown books"),
    "order of books": (set_to("event_book", 0, 2), "not sorted by book"),
    "revision": (set_to("revision", 0, -1), "a revision is negative"),
    "value": (set_to("value", 0, np.nan), "a value is not finite"),
    "feature": (set_to("value_feature", 0, 2), "not in their order"),
    "negative feature": (set_to("value_feature", 0, -1), "not in their order"),
    "kept": (set_to("kept", 0, -1), "unknown events"),
    "another's": (set_to("kept", 0, 3), "which lacks it"),
    "twice": (set_to("kept", 1, 0), "not sorted"),
    "floor": (put("floor_there", np.logical_not), "lost without a reason|not sorted"),
    "not lost": (set_to("lost", 0, 3), "lost without a reason"),
    "lost nowhere": (
        lambda memory: memory.update(
            lost=np.append(memory["lost"], 99),
            lost_ids_offsets=np.append(memory["lost_ids_offsets"], memory["lost_ids_offsets"][-1]),
        ),
        "unknown lists",
    ),
    "bare": (set_to("bare", 0, 0), "not bare"),
    "bare place": (set_to("bare", 0, 99), "unknown events are bare"),
    "whole": (set_to("whole", 0, False), "lacks its revision 0"),
    "held for nothing": (
        lambda memory: memory.update(bare=memory["bare"][:0], bare_offsets=memory["bare_offsets"] * 0),
        "remembered for nothing",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_memory_is_refused_and_changes_nothing(damage: str) -> None:
    change, match = DAMAGES[damage]
    book, memory = filled(), filled().memory()
    change(memory)
    before = answers(book)
    with pytest.raises(StateError, match=f"(?s)damaged: .*({match}).*replay the log"):
        book.restore(memory)
    assert answers(book) == before
    assert same(book.memory(), filled().memory())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"features": ("y", "x")}, r"has features \('x', 'y'\), not \('y', 'x'\)"),
        ({"scope": "market"}, "has scope 'entity\\+market', not 'market'"),
        ({"depth": 3}, "has depth 2, not 3"),
    ],
)
def test_a_memory_of_other_options_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(StateError, match=match):
        LiveInformation(**{"features": FEATURES, "scope": "entity+market", "depth": 2, **options}).restore(
            filled().memory()
        )


def test_any_changed_number_is_refused_or_gives_a_book_that_works() -> None:
    """No damage ends in another error than a refusal."""
    draw = np.random.default_rng(1)
    refused = 0
    for _ in range(1500):
        memory = filled().memory()
        array = memory[str(draw.choice(sorted(memory)))]
        if not array.size:
            continue
        bits = array.reshape(-1).view(np.uint8)
        bits[draw.integers(bits.size)] ^= np.uint8(1 if array.dtype == bool else 1 << draw.integers(8))
        book = LiveInformation(FEATURES, scope="entity+market", depth=2)
        try:
            book.restore(memory)
        except StateError:
            refused += 1
            continue
        answers(book)
        book.see(event("z", 0, 2**33 - 1_600_000_000, 9, 1.0))
    assert refused > 500
