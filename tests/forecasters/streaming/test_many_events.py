"""Many events at once leave what one after the other leaves, to the byte, in whatever order they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.errors import ClockError, EventDataError, StateError
from quantattn.forecasters import CachePolicy, Event, HealthPolicy, StreamingForecaster
from quantattn.forecasters.config import Attention
from quantattn.forecasters.streaming import bulk
from quantattn.pit import EventLog
from tests.forecasters.streaming.live_runs import fitted_forecaster, log_of, random_steps, state
from tests.pit.build import at

ONE_BY_ONE, TABLE = 10**9, 0
NAMES = tuple(f"N{number}" for number in range(24))
HEALTH = HealthPolicy(shadow=("A", "N3"), largest_drift=1.0)


def forced(monkeypatch: pytest.MonkeyPatch, few: int, rounds: int) -> None:
    """Send events one by one up to so many, and write memories by rounds up to so many events of each."""
    monkeypatch.setattr("quantattn.forecasters.streaming.forecaster._FEW", few)
    monkeypatch.setattr(bulk, "FEW", rounds)


def wide_events(seed: int, count: int, market: float) -> list[Event]:
    """Events of many entities, most with one or two."""
    draw = np.random.default_rng(seed)
    events = []
    for number in range(count):
        entity = None if draw.random() < market else str(draw.choice(NAMES))
        now = at(int(draw.integers(1, 9)))
        events.append(
            Event(f"e{number}", now, now - 1, entity, "news", text="up", features={"x": number / 7})
        )
    return sorted(events, key=lambda event: event.key)


def interleaved(events: list[Event], seed: int) -> list[Event]:
    """Another order that is taken: own events of entities in any order between market-wide ones."""
    draw, order, stretch = np.random.default_rng(seed), [], []

    def flush() -> None:
        queues: dict[Any, list[Event]] = {}
        for event in stretch:
            queues.setdefault(event.entity, []).append(event)
        while queues:
            name = str(draw.choice(sorted(queues)))
            order.append(queues[name].pop(0))
            if not queues[name]:
                del queues[name]
        stretch.clear()

    for event in events:
        if event.entity is None:
            flush()
            order.append(event)
        else:
            stretch.append(event)
    flush()
    return order


def one_by_one(live: StreamingForecaster, events: list[Event]) -> StreamingForecaster:
    for event in events:
        live.update(event)
    return live


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("market", [0.0, 0.2])
@pytest.mark.parametrize(("few", "rounds"), [(ONE_BY_ONE, 0), (TABLE, 0), (TABLE, 16), (TABLE, 2)])
@pytest.mark.parametrize("seed", range(2))
def test_the_same_state_to_the_byte(
    seed: int,
    few: int,
    rounds: int,
    market: float,
    attention: Attention,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    forced(monkeypatch, few, rounds)
    monkeypatch.setattr(bulk, "BLOCK", 17)
    fitted = fitted_forecaster(attention)
    events = wide_events(seed, 90, market)
    for sent in (events, interleaved(events, seed)):
        wanted, live, parts = (fitted.stream(health=HEALTH, remember=7) for _ in range(3))
        one_by_one(wanted, sent)
        assert live.update_many(sent) == len(sent)
        assert sum(parts.update_many(sent[first : first + 13]) for first in range(0, len(sent), 13)) == len(
            sent
        )
        for other in (live, parts):
            assert other.entities == wanted.entities
            assert state(other) == state(wanted)
            other.save(tmp_path / "other")
            wanted.save(tmp_path / "wanted")
            assert (tmp_path / "other").read_bytes() == (tmp_path / "wanted").read_bytes()
        for name in ("A", "N3", "N5", "nobody"):
            assert live.forecast(name, at(20)).y_pred == wanted.forecast(name, at(20)).y_pred


@pytest.mark.parametrize("few", [ONE_BY_ONE, TABLE])
@pytest.mark.parametrize("seed", range(3))
def test_late_ones_are_queued_alike(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, few, 16)
    events = [step for step in random_steps(60, seed=seed, disorder=True) if isinstance(step, Event)]
    wanted, live = (fitted_forecaster().stream(late="queue") for _ in range(2))
    one_by_one(wanted, events)
    assert wanted.late_events.height > 2
    for first in range(0, len(events), 11):
        live.update_many(events[first : first + 11])
    assert state(live) == state(wanted)
    assert live.late_events.equals(wanted.late_events)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.0, 0.3]), st.integers(0, 4))
def test_any_table(seed: int, count: int, market: float, rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        forced(patch, TABLE, rounds)
        sent = interleaved(wide_events(seed, count, market), seed)
        wanted, live = (fitted_forecaster().stream() for _ in range(2))
        one_by_one(wanted, sent)
        live.update_many(sent)
        assert state(live) == state(wanted)


@pytest.mark.parametrize("few", [ONE_BY_ONE, TABLE])
def test_all_or_nothing(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch, few, 16)
    live = fitted_forecaster("softmax").stream(cache=CachePolicy(initial=1, limit=4))
    first = [Event(f"a{number}", at(number), at(number), "A", "news") for number in (1, 2)]
    live.update_many(first)
    before = state(live)
    good = [Event("b", at(9), at(9), "B", "news")]
    for bad, error in (
        ([Event("late", at(1), at(1), "A", "news")], ClockError),
        ([Event("a1", at(1), at(1), "A", "news")], EventDataError),
        ([*good], EventDataError),
        ([Event("c", at(9), at(9), "A", "news", features={"xx": 1.0})], EventDataError),
        ([Event(f"d{number}", at(9), at(9), "A", "news") for number in range(3)], StateError),
        ([Event("m", at(9) + number, at(9), None, "news", number) for number in range(3)], StateError),
        ([{"event_id": "e"}], EventDataError),
    ):
        with pytest.raises(error):
            live.update_many([*good, *bad])
        assert state(live) == before
    assert live.update_many(good) == 1


def test_a_few_events_need_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fitted_forecaster().stream()

    def frame(*_: Any) -> None:
        raise AssertionError

    events = wide_events(0, 5, 0.2)
    with monkeypatch.context() as patch:
        patch.setattr("polars.DataFrame.__init__", frame)
        assert live.update_many(events) == 5
    short = EventLog.from_valid(log_of([Event("z", at(99), at(99), "A", "news")]), ("x", "y"))
    assert live.update_many(short) == 1


def test_many_entities_are_written_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of the kernel for each round, not one for each entity."""
    forced(monkeypatch, TABLE, 16)
    live = fitted_forecaster().stream()
    calls: list[int] = []
    write = live.stream.write_each
    monkeypatch.setattr(
        live.stream, "write_each", lambda names, *args: (calls.append(len(names)), write(names, *args))
    )
    monkeypatch.setattr(live.stream, "write_sequence", None)
    events = [Event(f"{name}{turn}", at(turn), at(turn), name, "news") for turn in (1, 2) for name in NAMES]
    live.update_many([*events, Event("last", at(3), at(3), "N7", "news")])
    assert calls == [24, 24, 1]
