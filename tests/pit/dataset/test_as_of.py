"""Features as they stood, where events are corrected, withdrawn and moved."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.pit import PointInTimeDataset
from tests.pit.build import at, clock, event_log, labels


def value_of(rows: list[dict[str, Any]], entity: str, second: int, name: str = "x") -> float | None:
    """The rule in loops: look at what is visible, keep of each event the highest revision, take the last."""
    seen = [row for row in rows if row["available"] < second and row["entity"] in (entity, None)]
    events: dict[str, list[dict[str, Any]]] = {}
    for row in seen:
        events.setdefault(row["event_id"], []).append(row)
    for owner in (entity, None):
        candidates = []
        for event_id, versions in events.items():
            current = max(versions, key=lambda row: row["revision"])
            if current["entity"] == owner and current[name] is not None:
                first = min(row["available"] for row in versions)
                candidates.append((current["happened"], first, event_id, current[name]))
        if candidates:
            found: float = max(candidates)[3]
            return found
    return None


def version(event_id: str, revision: int, available: int, happened: int, x: float | None, **more: Any) -> Any:
    return {
        "event_id": event_id,
        "revision": revision,
        "entity": "A",
        "available": available,
        "happened": happened,
        "x": x,
        **more,
    }


def features_of(
    rows: list[dict[str, Any]], pairs: list[tuple[str, int]], **options: Any
) -> list[float | None]:
    entities = tuple(sorted({entity for entity, _ in pairs}))
    made = PointInTimeDataset(
        event_log(rows, ("x",)),
        clock(second for _, second in pairs),
        labels(pairs, entities),
        check=False,
        **options,
    )
    found = made.as_of_features()
    assert found.columns == ["asof_x"]
    order = {
        (row["entity"], stamp): place
        for place, (row, stamp) in enumerate(
            zip(
                made.samples.iter_rows(named=True),
                made.samples["forecast_time"].to_physical().to_list(),
                strict=True,
            )
        )
    }
    values = found["asof_x"].to_list()
    return [values[order[entity, at(second)]] for entity, second in pairs]


def test_a_late_correction_of_an_old_event_does_not_beat_a_newer_event() -> None:
    rows = [version("old", 0, 1, 1, 1.0), version("new", 0, 2, 2, 2.0), version("old", 1, 3, 1, 1.5)]
    assert features_of(rows, [("A", second) for second in (1, 2, 3, 4)]) == [None, 1.0, 2.0, 2.0]


def test_a_correction_of_the_newest_event_counts_from_its_own_time_on() -> None:
    rows = [version("old", 0, 1, 1, 1.0), version("new", 0, 2, 2, 2.0), version("new", 1, 4, 2, 2.5)]
    assert features_of(rows, [("A", second) for second in (3, 4, 5)]) == [2.0, 2.0, 2.5]


def test_a_retraction_gives_way_to_the_event_before() -> None:
    rows = [version("old", 0, 1, 1, 1.0), version("new", 0, 2, 2, 2.0), version("new", 1, 3, 2, None)]
    assert features_of(rows, [("A", second) for second in (3, 4)]) == [2.0, 1.0]
    # Once more withdrawn, and then put right.
    rows += [version("old", 1, 4, 1, None), version("new", 2, 5, 2, 2.2)]
    assert features_of(rows, [("A", second) for second in (5, 6)]) == [None, 2.2]


def test_revisions_that_arrive_in_the_wrong_order() -> None:
    rows = [version("e", 2, 1, 1, 2.0), version("e", 0, 2, 1, 0.0), version("e", 1, 3, 1, None)]
    assert features_of(rows, [("A", second) for second in (2, 3, 4)]) == [2.0, 2.0, 2.0]


def test_a_correction_that_moves_an_event_in_time() -> None:
    rows = [
        version("a", 0, 1, 5, 1.0),
        version("b", 0, 1, 6, 2.0),
        version("b", 1, 3, 4, 3.0),  # it happened before a after all
    ]
    assert features_of(rows, [("A", second) for second in (2, 4)]) == [2.0, 1.0]


def test_ties_go_to_the_later_first_version_and_then_to_the_greater_id() -> None:
    rows = [version("b", 0, 1, 0, 1.0), version("a", 0, 2, 0, 2.0)]
    assert features_of(rows, [("A", 3)]) == [2.0]
    # A correction of b comes later, but b was known first.
    assert features_of([*rows, version("b", 1, 3, 0, 1.5)], [("A", 4)]) == [2.0]
    rows = [version("b", 0, 1, 0, 1.0), version("a", 0, 1, 0, 2.0)]
    assert features_of(rows, [("A", 3)]) == [1.0]
    assert features_of([*rows, version("a", 1, 2, 0, 2.5)], [("A", 3)]) == [1.0]


def test_an_event_that_leaves_the_entity_for_the_market() -> None:
    rows = [
        version("e", 0, 1, 1, 1.0),
        version("e", 1, 2, 1, 2.0, entity=None),
        version("m", 0, 1, 0, 9.0, entity=None),
    ]
    # For A the event is market-wide from second 3 on; B never saw it as anything else.
    assert features_of(rows, [("A", 2), ("B", 2), ("A", 3), ("B", 3)]) == [1.0, 9.0, 2.0, 2.0]
    # And back again: for A alone the market's version is superseded.
    rows.append(version("e", 2, 3, 1, 3.0))
    assert features_of(rows, [("A", 4), ("B", 4)]) == [3.0, 2.0]
    rows.append(version("e", 3, 4, 1, None))
    assert features_of(rows, [("A", 5), ("B", 5)]) == [9.0, 2.0]


def test_an_event_that_goes_to_another_entity_stays_as_its_readers_saw_it() -> None:
    # What B is told is not in the information set of A.
    rows = [version("e", 0, 1, 1, 1.0), version("e", 1, 2, 1, 2.0, entity="B")]
    assert features_of(rows, [("A", 3), ("B", 3)]) == [1.0, 2.0]


def test_every_interleaving_of_two_events_two_revisions_and_a_forecast() -> None:
    """Each case is an entity of its own, so that one dataset holds them all."""
    rows, pairs, expected = [], [], []
    cases = itertools.product(
        itertools.product(range(3), repeat=4),  # when each version becomes available
        itertools.product(range(2), repeat=3),  # when they happened: the first event twice, the second
        [(1.0, 2.0, 3.0, 4.0), (1.0, None, 3.0, 4.0), (1.0, 2.0, 3.0, None), (None, 2.0, 3.0, None)],
    )
    for number, (available, happened, values) in enumerate(cases):
        entity = f"E{number:05d}"
        times = (*happened, happened[2])
        mine = [
            version(
                f"{number:05d}{'ab'[place // 2]}",
                place % 2,
                available[place],
                times[place] - 9,
                values[place],
            )
            for place in range(4)
        ]
        for row in mine:
            row["entity"] = entity
        rows += mine
        for second in range(4):
            pairs.append((entity, second))
            expected.append(value_of(mine, entity, second))
    assert len(pairs) == 81 * 8 * 4 * 4
    assert features_of(rows, pairs) == expected


@pytest.mark.parametrize("owners", list(itertools.product(["A", None], repeat=2)))
def test_every_interleaving_with_the_market(owners: tuple[str | None, str | None]) -> None:
    for available in itertools.product(range(3), repeat=3):
        rows = [
            version("a", 0, available[0], -1, 1.0),
            version("a", 1, available[1], -1, 2.0, entity=owners[0]),
            version("b", 0, available[2], -2, 3.0, entity=owners[1]),
        ]
        pairs = [(entity, second) for entity in "AB" for second in range(4)]
        expected = [value_of(rows, entity, second) for entity, second in pairs]
        assert features_of(rows, pairs) == expected, available


@pytest.mark.parametrize("revised", [0.0, 0.05, 0.6])
@pytest.mark.parametrize("market", [0.0, 0.3])
@pytest.mark.parametrize("moves", [False, True])
def test_random_logs_against_the_loop(revised: float, market: float, moves: bool) -> None:
    draw = np.random.default_rng([int(revised * 100), int(market * 10), moves])
    rows: list[dict[str, Any]] = []
    for number in range(150):
        owner = None if draw.random() < market else str(draw.choice(list("ABC")))
        for revision in range(1 + int(draw.geometric(1 - revised) - 1)):
            if moves and draw.random() < 0.2:
                owner = None if draw.random() < 0.5 else "A"
            rows.append(
                version(
                    f"e{number}",
                    revision,
                    int(draw.integers(0, 30)),
                    -int(draw.integers(1, 9)),
                    None if draw.random() < 0.3 else float(draw.integers(0, 99)),
                    entity=owner,
                )
            )
    pairs = [(entity, second) for second in range(0, 32, 3) for entity in "ABCD"]
    assert features_of(rows, pairs) == [value_of(rows, entity, second) for entity, second in pairs]


def test_where_time_rises_and_nothing_is_revised_the_last_visible_value_counts() -> None:
    draw = np.random.default_rng(5)
    rows = [
        version(
            f"e{number:03d}", 0, number // 2, number // 2 - 3, None if draw.random() < 0.4 else float(number)
        )
        for number in range(60)
    ]
    pairs = [("A", second) for second in range(32)]
    expected = []
    for _, second in pairs:
        there = [row["x"] for row in rows if row["available"] < second and row["x"] is not None]
        expected.append(there[-1] if there else None)
    assert features_of(rows, pairs) == expected


def test_scopes_without_one_kind_of_event() -> None:
    rows = [
        version("a", 0, 1, 1, 1.0),
        version("m", 0, 1, 2, 2.0, entity=None),
        version("m", 1, 2, 2, None, entity=None),
    ]
    pairs = [("A", 2), ("A", 3)]
    assert features_of(rows, pairs, scope="entity") == [1.0, 1.0]
    assert features_of(rows, pairs, scope="market") == [2.0, None]
    assert features_of([], pairs) == [None, None]


def test_several_features_go_their_own_ways() -> None:
    log = event_log(
        [
            {"event_id": "e", "available": 1, "x": 1.0, "y": 5.0},
            {"event_id": "e", "revision": 1, "happened": 1, "available": 2, "x": None, "y": 6.0},
            {"event_id": "f", "available": 0, "x": 7.0, "y": None},
        ]
    )
    made = PointInTimeDataset(log, clock([3]), labels([("A", 3)], ("A",)))
    assert made.as_of_features().rows() == [(7.0, 6.0)]
    assert made.as_of_features().schema == {"asof_x": pl.Float64, "asof_y": pl.Float64}
