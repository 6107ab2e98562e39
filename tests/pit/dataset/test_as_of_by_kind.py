"""Features as they stood, one column for each kind of event that bears them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from quantattn.errors import EventDataError, UsageError
from quantattn.pit import EventLog, PointInTimeDataset
from quantattn.pit.dataset import as_of
from tests.pit.build import at, clock, event_log, labels


def value_of(
    rows: list[dict[str, Any]], entity: str, second: int, kind: str, name: str, scope: str
) -> float | None:
    """The rule in loops: of each visible event the highest revision; of those of the kind, the last."""
    events: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        readable = row["entity"] is None if scope == "market" else row["entity"] == entity
        if scope == "entity+market":
            readable = row["entity"] in (entity, None)
        if readable and row["available"] < second:
            events.setdefault(row["event_id"], []).append(row)
    for owner in (entity, None):
        candidates = []
        for event_id, versions in events.items():
            current = max(versions, key=lambda row: row["revision"])
            if current["entity"] == owner and current["kind"] == kind and current[name] is not None:
                first = min(row["available"] for row in versions)
                candidates.append((current["happened"], first, event_id, current[name]))
        if candidates:
            found: float = max(candidates)[3]
            return found
    return None


def made_of(rows: list[dict[str, Any]], pairs: list[tuple[str, int]], **options: Any) -> PointInTimeDataset:
    return PointInTimeDataset(
        event_log(rows),
        clock(second for _, second in pairs),
        labels(pairs, tuple(sorted({entity for entity, _ in pairs}))),
        check=False,
        **options,
    )


def series(kind: str, available: int, x: float | None, **more: Any) -> dict[str, Any]:
    return {"event_id": f"{kind}:{available}", "kind": kind, "available": available, "x": x, **more}


def test_series_of_one_log_stay_apart() -> None:
    rows = [series("CPI", 1, 300.0, entity=None), series("GDP", 2, 20.0, entity=None)]
    found = made_of(rows, [("A", 2), ("A", 3)]).as_of_features(by="kind")
    assert found.schema == {"asof_CPI_x": pl.Float64, "asof_GDP_x": pl.Float64}
    assert found.rows() == [(300.0, None), (300.0, 20.0)]


def test_only_columns_that_hold_something_and_can_be_read() -> None:
    rows = [
        series("bar", 1, 1.0, y=None),
        series("note", 1, None),
        series("macro", 1, 2.0, entity=None, y=3.0),
        series("foreign", 1, 4.0, entity="Z"),
    ]
    pairs = [("A", 2)]
    columns = ["asof_bar_x", "asof_macro_x", "asof_macro_y"]
    assert made_of(rows, pairs).as_of_features(by="kind").columns == columns
    assert made_of(rows, pairs, scope="market").as_of_features(by="kind").columns == columns[1:]
    assert made_of(rows, pairs, scope="entity").as_of_features(by="kind").columns == columns[:1]
    assert made_of([], pairs).as_of_features(by="kind").shape == (1, 0)


def test_a_correction_a_retraction_and_a_change_of_kind() -> None:
    rows = [
        series("a", 1, 1.0, event_id="p"),
        series("a", 2, 2.0, event_id="q"),
        series("a", 3, 1.5, event_id="p", revision=1, happened=1),
        series("a", 4, None, event_id="q", revision=1, happened=2),
        series("b", 5, 9.0, event_id="p", revision=2, happened=1),
    ]
    found = made_of(rows, [("A", second) for second in (2, 3, 4, 5, 6)]).as_of_features(by="kind")
    assert found["asof_a_x"].to_list() == [1.0, 2.0, 2.0, 1.5, None]
    assert found["asof_b_x"].to_list() == [None, None, None, None, 9.0]


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
@pytest.mark.parametrize("revised", [0.0, 0.5])
@pytest.mark.parametrize("moves", [False, True])
def test_random_logs_against_the_loop(scope: str, revised: float, moves: bool, tmp_path: Path) -> None:
    draw = np.random.default_rng([int(revised * 10), moves, len(scope)])
    rows: list[dict[str, Any]] = []
    for number in range(120):
        owner = None if draw.random() < 0.3 else str(draw.choice(list("ABZ")))
        kind = str(draw.choice(["k", "l", "m"]))
        for revision in range(int(draw.geometric(1 - revised))):
            if moves and draw.random() < 0.3:
                kind = str(draw.choice(["k", "l", "m"]))
            if moves and draw.random() < 0.2:
                owner = None if draw.random() < 0.5 else "A"
            rows.append(
                {
                    "event_id": f"e{number}",
                    "revision": revision,
                    "entity": owner,
                    "kind": kind,
                    "available": int(draw.integers(0, 30)),
                    "happened": -int(draw.integers(1, 9)),
                    "x": None if draw.random() < 0.3 else float(draw.integers(0, 99)),
                    "y": None if draw.random() < 0.6 else float(draw.integers(0, 99)),
                }
            )
    pairs = [(entity, second) for second in range(0, 32, 3) for entity in "ABC"]
    made = made_of(rows, pairs, scope=scope)
    found = made.as_of_features(by="kind")
    assert found.columns == [f"asof_{kind}_{name}" for kind in "klm" for name in "xy"]
    for kind in "klm":
        for name in "xy":
            expected = [value_of(rows, entity, second, kind, name, scope) for entity, second in pairs]
            assert found[f"asof_{kind}_{name}"].to_list() == expected, (kind, name)
    path = tmp_path / "events.parquet"
    made.events.write(path)
    lazily = PointInTimeDataset(
        EventLog.scan(path), made.clock, made.labels, scope=made.scope, check=False
    ).as_of_features(by="kind")
    assert_frame_equal(lazily, found, check_exact=True)


def test_the_default_is_what_it_was() -> None:
    rows = [series("CPI", 1, 300.0, entity=None), series("GDP", 2, 20.0, entity=None)]
    made = made_of(rows, [("A", 3)])
    assert made.as_of_features().rows() == [(20.0, None)]
    assert_frame_equal(made.as_of_features(by="feature"), made.as_of_features())


def test_requests_that_cannot_be_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_of([series("a", 1, 1.0, y=1.0), series("b", 1, 1.0)], [("A", 2)])
    with pytest.raises(UsageError, match="by='kinds' is unknown; use one of 'feature', 'kind'"):
        made.as_of_features(by="kinds")  # type: ignore[arg-type]
    monkeypatch.setattr(as_of, "MOST_COLUMNS", 2)
    with pytest.raises(UsageError, match=r"3 columns, one for each kind and feature.*more than 2.*'kind'"):
        made.as_of_features(by="kind")
    made.as_of_features()
    monkeypatch.undo()
    log = event_log(
        [{"available": 1, "kind": "a", "b_c": 1.0}, {"available": 1, "kind": "a_b", "c": 1.0}], ("b_c", "c")
    )
    twice = PointInTimeDataset(log, clock([2]), labels([("A", 2)], ("A",)))
    with pytest.raises(EventDataError, match=r"'asof_a_b_c' would be the name of two columns.*rename"):
        twice.as_of_features(by="kind")


def test_a_dataset_whose_features_mix_kinds_says_so() -> None:
    rows = [series(f"S{number:02d}", 1, 1.0, entity=None) for number in range(5)]
    rows += [series("bar", 1, 1.0, y=1.0), series("news", 1, None, y=None)]
    notes = made_of(rows, [("A", 2)]).notes
    (note,) = [note for note in notes if "by='kind'" in note]
    assert "asof_x is taken from 5 kinds of events of the market ('S00', 'S01', 'S02', ...)" in note
    assert "asof_y" not in note
    # Kinds of different entities never meet in one value, and neither do kinds that nobody reads.
    apart = [
        series("k", 1, 1.0, entity="A"),
        series("l", 1, 1.0, entity="B"),
        series("m", 1, 1.0, entity="Z"),
    ]
    assert not [note for note in made_of(apart, [("A", 2), ("B", 2)]).notes if "kind" in note]
    both = [*apart, series("n", 1, 1.0, entity="B"), series("o", 1, 1.0, entity="Z")]
    (note,) = [note for note in made_of(both, [("A", 2), ("B", 2)]).notes if "kind" in note]
    assert "asof_x is taken from 2 kinds of events of 'B' ('l', 'n')" in note
    assert not [n for n in made_of(both, [("A", 2), ("B", 2)], scope="market").notes if "kind" in n]


def test_without_features_there_is_a_row_for_each_sample() -> None:
    for second in (2, 5):
        log = event_log([{"available": 1}], ())
        made = PointInTimeDataset(log, clock([2, 5]), labels([("A", 2), ("A", 5)], ("A",)))
        early = made.cut(at(second))
        assert early.as_of_features().shape == (early.samples.height, 0)
        assert early.as_of_features(by="kind").shape == (early.samples.height, 0)


def test_notes_of_a_scan_are_those_of_the_log(tmp_path: Path) -> None:
    rows = [series("k", 1, 1.0), series("l", 2, 1.0), series("m", 1, 1.0, entity=None, y=2.0)]
    made = made_of(rows, [("A", 3), ("B", 3)])
    path = tmp_path / "events.parquet"
    made.events.write(path)
    lazily = PointInTimeDataset(EventLog.scan(path), made.clock, made.labels)
    assert len(made.notes) == 3
    assert lazily.notes == made.notes
