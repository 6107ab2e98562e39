"""A snapshot and the rest of the log are an uninterrupted run, bit for bit; any other snapshot is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantattn.attention import Denominator
from quantattn.errors import CheckpointError, DenominatorError, EventDataError, QuantAttnError, StateError
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.forecaster import StreamingForecaster
from quantattn.forecasters.streaming.health.policy import HealthPolicy
from quantattn.forecasters.streaming.snapshots import snapshot as snapshots
from quantattn.forecasters.streaming.snapshots.snapshot import (
    identity_of,
    read_snapshot,
    refuse_another,
    restore_into,
    snapshot_of,
    write_snapshot,
)
from tests.forecasters.streaming.live_runs import fitted_forecaster, random_steps, run, state
from tests.pit.build import at

BOTH: list[Attention] = ["linear", "softmax"]


def live(attention: Attention = "linear", **options: Any) -> StreamingForecaster:
    made = {
        name: options.pop(name)
        for name in ("seed", "scope", "text_width", "layers", "half_lives")
        if name in options
    }
    return StreamingForecaster(fitted_forecaster(attention, **made), **options)


def resumed(forecaster: StreamingForecaster, path: Path, **options: Any) -> StreamingForecaster:
    """A forecaster of the same kind that takes over by way of a file."""
    forecaster.save(path)
    other = StreamingForecaster(forecaster.fitted, **options)
    other.load(path)
    return other


# --- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["entity+market", "entity", "market"])
@pytest.mark.parametrize("attention", BOTH)
def test_cut_anywhere_and_go_on(tmp_path: Path, attention: Attention, scope: str) -> None:
    steps = random_steps(60, seed=1)
    whole = live(attention, scope=scope)
    expected = run(whole, steps)
    assert len(expected) > 20 and len({row[2] for row in expected}) > 5
    end = state(whole)
    for cut in [0, 1, 2, 3, *range(7, len(steps), 9), len(steps)]:
        first = live(attention, scope=scope)
        made = run(first, steps[:cut])
        second = resumed(first, tmp_path / "a")
        assert state(second) == state(first)
        assert (second.as_of, second.events_written) == (first.as_of, first.events_written)
        assert made + run(second, steps[cut:]) == expected
        assert state(second) == end


@pytest.mark.parametrize("attention", BOTH)
def test_a_chain_of_snapshots(tmp_path: Path, attention: Attention) -> None:
    """Late events, a shadow and flags: one hand after the other, a step each."""
    options: dict[str, Any] = {
        "late": "queue",
        "health": HealthPolicy(
            largest_drift=1e-7, largest_state_norm=5.0, on_breach="flag", shadow=("A", "C")
        ),
    }
    steps = random_steps(40, seed=2, disorder=True)
    whole = live(attention, **options)
    expected = run(whole, steps)
    assert whole.late_events.height > 1
    assert any(row[-1] for row in expected) and whole.monitor.drifts.keys() == {"A", "C"}
    hand, made = live(attention, **options), []
    for place, step in enumerate(steps):
        made += run(hand, [step])
        hand = resumed(hand, tmp_path / f"{place % 2}", **options)
    assert made == expected
    assert state(hand) == state(whole)
    assert hand.late_events.equals(whole.late_events)
    assert hand.health().frame().equals(whole.health().frame())


def test_equal_states_are_equal_files(tmp_path: Path) -> None:
    steps = random_steps(40, seed=3)
    first, second = live(), live()
    run(first, steps)
    run(second, steps[:30])
    second = resumed(second, tmp_path / "b")
    run(second, steps[30:])
    first.save(tmp_path / "a")
    second.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_snapshot_replaces_what_was_remembered(tmp_path: Path) -> None:
    steps = random_steps(30, seed=4)
    first, other = live(), live()
    run(first, steps)
    run(other, random_steps(50, seed=5))
    before = state(first)
    first.save(tmp_path / "a")
    other.load(tmp_path / "a")
    assert state(other) == before
    run(other, [Event("new", at(10**7), at(10**7), "A", "news")])
    assert state(first) == before  # nothing is shared


@pytest.mark.parametrize("attention", BOTH)
def test_nothing_is_shared_with_the_arrays(attention: Attention) -> None:
    options: dict[str, Any] = {"health": HealthPolicy(shadow=("A",))}
    steps = random_steps(40, seed=4)
    first, second, whole = (live(attention, **options) for _ in range(3))
    run(first, steps[:50])
    before = state(first)
    arrays, meta = snapshot_of(first)
    restore_into(second, arrays, meta)
    for array in arrays.values():
        array[...] = 1
    assert state(first) == before == state(second)
    run(whole, steps)
    run(second, steps[50:])
    assert state(second) == state(whole) and state(first) == before


@pytest.mark.parametrize("attention", BOTH)
def test_shadows_of_events_taken_at_once(attention: Attention) -> None:
    """A whole table of events leaves the twins as one event after the other does."""
    options: dict[str, Any] = {"health": HealthPolicy(shadow=("A", "C"))}
    events = [step for step in random_steps(80, seed=5) if isinstance(step, Event)]
    single, table, parts = (live(attention, **options) for _ in range(3))
    for event in events:
        single.update(event)
    table.update_many(events)
    for part in np.array_split(np.arange(80), 7):
        parts.update_many([events[place] for place in part])
    assert single.monitor.memory().keys() == {"\0market", "A", "C"}
    assert state(table) == state(parts) == state(single)


def test_ids_and_late_events_are_remembered(tmp_path: Path) -> None:
    steps = random_steps(40, seed=6)
    events = [step for step in steps if isinstance(step, Event)]
    first = live()
    run(first, steps)
    second = resumed(first, tmp_path / "a")
    for event in (events[0], events[-1]):
        with pytest.raises(EventDataError, match="has been written already"):
            second.update(event)


def test_another_policy_for_late_events_goes_on_while_none_was_late(tmp_path: Path) -> None:
    steps = random_steps(40, seed=2)
    for first, second in (("refuse", "queue"), ("queue", "refuse")):
        whole, half = live(late=first), live(late=first)
        wanted = run(whole, steps)
        begun = run(half, steps[:25])
        other = resumed(half, tmp_path / "a", late=second)
        assert other.late == second
        assert begun + run(other, steps[25:]) == wanted
        # What it then says of itself is its own.
        assert identity_of(other)["late"] == second
        assert state(other)[0] == state(whole)[0]
    entity, when = next(step for step in reversed(steps) if not isinstance(step, Event))
    missed = Event("missed", when - 1, when - 1, entity, "news", features={"x": 1.0})
    other = resumed(live(late="refuse"), tmp_path / "b", late="queue")
    run(other, steps)
    other.update(missed)
    assert other.late_events.height == 1
    assert state(resumed(other, tmp_path / "c", late="queue")) == state(other)
    strict = live(late="refuse")
    run(strict, steps[:9])
    before = state(strict)
    with pytest.raises(
        StateError, match=r"late='queue', which wrote 1 late events, and this one has 'refuse'"
    ):
        strict.load(tmp_path / "c")
    assert state(strict) == before


def test_an_empty_forecaster(tmp_path: Path) -> None:
    second = resumed(live(), tmp_path / "a")
    assert (second.as_of, second.events_written) == (None, 0)
    steps = random_steps(20, seed=7)
    assert run(second, steps) == run(live(), steps)


def test_a_pool_is_few_arrays(tmp_path: Path) -> None:
    """Entities make arrays longer, not more; what describes them stays small."""
    few, many = live(), live()
    for forecaster, count in ((few, 2), (many, 700)):
        for number in range(count):
            forecaster.update(Event(f"e{number}", at(100 + number), at(100), f"N{number}", "news"))
        forecaster.update(Event("wide", at(2000), at(2000), None, "macro"))
        forecaster.save(tmp_path / str(count))
    small, large = read_snapshot(tmp_path / "2"), read_snapshot(tmp_path / "700")
    assert set(small[0]) == set(large[0])
    assert len(json.dumps(large[1])) < len(json.dumps(small[1])) + 20
    assert large[1]["entities"] == 701 and large[1]["events_written"] == 701
    other = live()
    other.load(tmp_path / "700")
    assert state(other) == state(many)
    assert other.forecast("N699", at(3000)).n_visible == 2


def test_a_health_policy_may_change(tmp_path: Path) -> None:
    """Limits are no part of the memory; a shadow that was not kept begins at the memory."""
    steps = random_steps(60, seed=8)
    first = live()
    expected = run(first, steps[:50])
    watching = resumed(first, tmp_path / "a", health=HealthPolicy(largest_drift=1e-4, shadow=("A", "nobody")))
    assert expected + run(watching, steps[50:]) == run(live(), steps)
    watching.forecast("A", at(10**8))
    watching.forecast("nobody", at(10**8))
    assert all(0 <= drift < 1e-4 for drift in watching.monitor.drifts.values())
    assert watching.monitor.drifts.keys() == {"A", "nobody"}
    again = resumed(watching, tmp_path / "a")
    assert again.monitor.drifts == {} and again.monitor.memory() == {}


def test_what_was_broken_off_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = live()
    first.update(Event("a", at(100), at(100), "A", "news"))
    first.save(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    expected = state(first)

    def spoiled(*_: Any) -> None:
        raise DenominatorError("spoiled")

    monkeypatch.setattr(first.stream, "write", spoiled)
    with pytest.raises(DenominatorError):
        first.update(Event("b", at(101), at(101), "A", "news"))
    with pytest.raises(StateError, match="was broken off"):
        first.save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == whole
    first.load(tmp_path / "a")  # which heals it
    assert state(first) == expected
    first.update(Event("b", at(101), at(101), "A", "news"))


# --- snapshots of others ----------------------------------------------------------------------------------


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"seed": 4}, r"weights_sha256='[0-9a-f]{64}', this one has '[0-9a-f]{64}'"),
    ({"layers": 3}, "network.layers=2, this one has 3"),
    ({"half_lives": (5.0, 6.0)}, r"network.half_lives=\[5.0, None\], this one has \[5.0, 6.0\]"),
    ({"attention": "softmax"}, "network.attention='linear', this one has 'softmax'"),
    ({"scope": "entity"}, r"scope='entity\+market', this one has 'entity'"),
    ({"text_width": 8}, r"event_width=\d+, this one has \d+"),
    ({"book_depth": 7}, "book_depth=32, this one has 7"),
]


@pytest.mark.parametrize(("options", "message"), OTHERS, ids=[next(iter(options)) for options, _ in OTHERS])
def test_the_snapshot_of_another_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    first = live()
    run(first, random_steps(20, seed=1))
    first.save(tmp_path / "a")
    other = live(**options)
    run(other, random_steps(20, seed=9))
    before = state(other)
    with pytest.raises(
        StateError, match=f"taken of a forecaster with {message}; load it into the forecaster"
    ):
        other.load(tmp_path / "a")
    assert state(other) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("denominator", {"kind": "floor", "eps": 1e-6}),
        ("network", {**fitted_forecaster().network.config.to_dict(), "feature_map": "softplus"}),
        ("network", {**fitted_forecaster().network.config.to_dict(), "layers": 2.0}),
        ("features", ["x", "z"]),
        ("features", ["y", "x"]),
        ("as_of_columns", ["asof_x"]),
        ("encoders_sha256", "0" * 64),
        ("query_width", 6),
        ("late", None),
        ("book_depth", True),
        ("more", 1),
    ],
)
def test_whatever_differs_is_named_with_both_values(name: str, value: Any) -> None:
    forecaster = live()
    own = identity_of(forecaster)
    refuse_another(json.loads(json.dumps(own)), own)
    with pytest.raises(
        StateError, match=rf"taken of a forecaster with {name}.*=.*, this one has .*; load it"
    ):
        refuse_another({**own, name: value}, own)
    without = {key: found for key, found in own.items() if key != name}
    if name in own:
        with pytest.raises(StateError, match=rf"with {name}=None, this one has"):
            refuse_another(without, own)


def test_another_denominator_policy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = live()
    monkeypatch.setattr(snapshots, "DENOMINATOR", Denominator.floor(1e-6))
    first.save(tmp_path / "a")
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"denominator\.eps=1e-06, this one has None"):
        live().load(tmp_path / "a")


# --- damage -----------------------------------------------------------------------------------------------


def shaken(array: np.ndarray) -> list[np.ndarray]:
    """The same numbers in another type or shape."""
    with np.errstate(over="ignore"):
        others = [array.astype(np.float16), array[None]]
    others += (
        [array[:-1]]
        if len(array)
        else [np.concatenate([array, np.ones(1, array.dtype)])]
        if array.ndim == 1
        else []
    )
    others.append(np.concatenate([array, array[-1:]]) if len(array) else array)
    return [other for other in others if (other.dtype, other.shape) != (array.dtype, array.shape)]


@pytest.mark.parametrize("attention", BOTH)
def test_arrays_that_do_not_fit_are_refused(attention: Attention) -> None:
    """Each array missing, of another type or shape, and arrays that nobody wants."""
    options: dict[str, Any] = {"health": HealthPolicy(shadow=("A", "B")), "late": "queue"}
    first, other = live(attention, **options), live(attention, **options)
    run(first, random_steps(60, seed=2, disorder=True))
    run(other, random_steps(15, seed=9))
    arrays, meta = snapshot_of(first)
    before = state(other)
    changes: list[tuple[str, dict[str, Any]]] = []
    for name, array in arrays.items():
        changes.append((f"without {name}", {key: value for key, value in arrays.items() if key != name}))
        changes += [(f"{name} as {bad.dtype} {bad.shape}", {**arrays, name: bad}) for bad in shaken(array)]
    for name in ("more", "network.more", "network.S.flat", "shadow.more", "ledger.more", "information.more"):
        changes.append((f"with {name}", {**arrays, name: np.zeros((len(before[1]), 1))}))
    assert len(changes) > 100
    for what, changed in changes:
        try:
            restore_into(other, changed, meta)
        except (CheckpointError, StateError) as error:
            assert str(error), what
        else:
            raise AssertionError(f"{what} was taken")
    assert state(other) == before
    restore_into(other, arrays, meta)
    assert state(other) == state(first)


def test_numbers_that_are_none_are_refused() -> None:
    first, other = live(), live()
    run(first, random_steps(20, seed=2))
    arrays, meta = snapshot_of(first)
    before = state(other)
    for value in (np.nan, np.inf):
        spoiled = arrays["network.S"].copy()
        spoiled.flat[5] = value
        with pytest.raises(QuantAttnError):
            restore_into(other, {**arrays, "network.S": spoiled}, meta)
    # Without the market's memory, the first of all.
    others = {name: array[1:] for name, array in arrays.items() if name.startswith("network.")}
    others["least_denominators"] = arrays["least_denominators"][1:]
    others["entities"] = np.frombuffer(json.dumps(first.stream.entities[1:]).encode(), np.uint8)
    with pytest.raises(CheckpointError, match=r"tells of .* events"):
        restore_into(other, {**arrays, **others}, {**meta, "entities": meta["entities"] - 1})
    for name, bad in (
        ("entities", b'["A","A"]'), ("entities", b"3"), ("entities", b"[1]"), ("entities", b"{"),
        ("shadowed", b'["A"]'),
    ):  # fmt: skip
        with pytest.raises(CheckpointError):
            restore_into(other, {**arrays, name: np.frombuffer(bad, np.uint8)}, meta)
    assert state(other) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: {**meta, "events_written": meta["events_written"] + 1},
        lambda meta: {**meta, "as_of": meta["as_of"] + 1},
        lambda meta: {**meta, "as_of": None},
        lambda meta: {**meta, "entities": meta["entities"] - 1},
        lambda meta: {**meta, "forecaster": None},
        lambda meta: {**meta, "more": 1},
        lambda meta: {name: value for name, value in meta.items() if name != "as_of"},
        lambda meta: {},
    ],
)
def test_a_description_of_something_else_is_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    first, other = live(), live()
    run(first, random_steps(20, seed=2))
    arrays, meta = snapshot_of(first)
    before = state(other)
    with pytest.raises(CheckpointError, match="take an older snapshot, or replay the log"):
        restore_into(other, arrays, change(meta))
    assert state(other) == before


def test_damaged_files_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = live(), live()
    run(first, random_steps(30, seed=2))
    run(other, random_steps(15, seed=9))
    before = state(other)
    first.save(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    generator = np.random.default_rng(0)
    damaged = [whole[:size] for size in generator.integers(0, len(whole), 60)]
    for place in generator.integers(0, len(whole), 200):
        bit = 1 << int(generator.integers(8))
        damaged.append(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
    for content in damaged:
        (tmp_path / "b").write_bytes(content)
        with pytest.raises(CheckpointError):
            other.load(tmp_path / "b")
    (tmp_path / "link").symlink_to("a")
    for name in ("link", "missing", "."):
        with pytest.raises(CheckpointError):
            other.load(tmp_path / name)
    monkeypatch.setattr("quantattn.forecasters.streaming.snapshots.file.SCHEMA", 0)
    write_snapshot(tmp_path / "old", *snapshot_of(first))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="old has schema 0, this version reads 1"):
        other.load(tmp_path / "old")
    assert state(other) == before
    other.load(tmp_path / "a")
    assert state(other) == state(first)
