"""Options, files, text and names that cannot be: refused at once, with the remedy, and nothing is changed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from quantattn.errors import CheckpointError, EventDataError, StateError, UsageError
from quantattn.forecasters import CachePolicy, Event, HealthPolicy, StreamingForecaster
from quantattn.forecasters.streaming._asking import OPTIONS
from tests.forecasters.streaming.test_forecaster import event, fresh, state
from tests.forecasters.streaming.worlds import world
from tests.pit.build import at, event_log


@pytest.mark.parametrize(
    "options",
    [
        {"health": None}, {"health": {}}, {"health": HealthPolicy}, {"cache": None}, {"cache": 5},
        {"late": None}, {"late": ["queue"]}, {"remember": True}, {"remember": 1.0}, {"remember": None},
        {"book_depth": True}, {"book_depth": 2.0},
    ],
)  # fmt: skip
def test_options_of_another_kind(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name.removeprefix('book_')}="):
        fresh(**options)
    with pytest.raises(UsageError, match="fitted=None"):
        StreamingForecaster(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shadow", r"shadow belongs in health=HealthPolicy\(shadow=\.\.\.\)"),
        ("largest_drift", r"belongs in health=HealthPolicy\(largest_drift="),
        ("limit", r"limit belongs in cache=CachePolicy\(limit="),
        ("remembr", r"'remembr' is no option .* \(did you mean 'remember'\?\); use late, health"),
        ("zzz", r"'zzz' is no option of a streaming forecaster; use late, health"),
        ("self_", r"'self_' is no option"),
    ],
)
def test_unknown_options(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        fresh(**{name: ["A"]})
    # Before anything is read.
    with pytest.raises(UsageError, match=said):
        StreamingForecaster.from_checkpoint(tmp_path / "nothing", **{name: ["A"]})


def test_the_options_are_those_of_the_constructor() -> None:
    named = inspect.signature(StreamingForecaster).parameters.values()
    assert tuple(one.name for one in named if one.kind is one.KEYWORD_ONLY) == OPTIONS


def test_the_help_shows_what_is_for_users() -> None:
    assert [name for name in vars(StreamingForecaster) if not name.startswith("_")] == [
        "from_checkpoint", "late", "entities", "as_of", "events_written", "late_events", "update",
        "update_many", "forecast", "forecast_many", "replay", "health", "warm_up", "save", "load",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {"initial": "a"}, {"initial": 1.5}, {"initial": True}, {"initial": 10**12}, {"initial": None},
        {"growth": None}, {"growth": "2"}, {"growth": True}, {"growth": 1e308}, {"growth": -2.0},
        {"limit": 2.5}, {"limit": True}, {"limit": "a"}, {"limit": -1},
    ],
)  # fmt: skip
def test_caches_of_another_size(values: dict[str, Any]) -> None:
    (name,) = values
    with pytest.raises(UsageError, match=f"{name}=.* must be"):
        CachePolicy(**values)


@pytest.mark.parametrize("name", ["\0market", "a\0b", "\ud800"])
def test_names_that_no_entity_has(name: str) -> None:
    with pytest.raises(UsageError, match="shadow names"):
        HealthPolicy(shadow=(name,))
    live = fresh()
    for call in (
        lambda: live.forecast(name, at(1)),
        lambda: live.forecast_many(["A", name], at(1)),
        lambda: live.replay(event_log([]), [at(1)], entities=[name]),
        lambda: live.update(event(entity=name)),
        lambda: live.update_many([event("a"), event("b", 6, name)]),
    ):
        with pytest.raises(EventDataError, match=r"NUL|no name|surrogate"):
            call()
    if "\0" in name:
        frame = event_log([{"available": 1, "entity": name}]).frame
        with pytest.raises(EventDataError, match="NUL"):
            live.update_many(frame)
    assert live.ledger.promised == {}


@pytest.mark.parametrize(
    "entities", [None, 3, "AB", b"AB", (name for name in "AB"), {"A": 1}, [["A"]], [("A",)]]
)
def test_what_is_no_list_of_names(entities: Any) -> None:
    live = fresh()
    with pytest.raises(UsageError, match=r"entities.* list of names"):
        live.forecast_many(entities, at(1))
    if entities is not None:
        with pytest.raises(UsageError, match=r"entities.* list of names"):
            live.replay(event_log([]), [at(1)], entities=entities)
    assert live.ledger.promised == {}
    for good in (["A", "B"], ("A", "B"), np.array(["A", "B"]), pl.Series(["A", "B"])):
        assert live.forecast_many(good, at(1))["entity"].to_list() == ["A", "B"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [5, "a", [[0.0] * 4], np.zeros(4, np.float32), np.zeros((1, 3), np.float32), np.zeros((1, 4)), 0.0],
)
def test_text_of_other_events(text: Any) -> None:
    live = fresh()
    before = state(live)
    log = event_log([{"available": 1}])
    for call in (lambda: live.update_many(log, text=text), lambda: live.replay(log, [at(9)], text=text)):
        with pytest.raises(UsageError, match=r"text (is|has) .*(encode_text|hash the text)"):
            call()
    assert state(live) == before
    assert live.update_many(log, text=np.zeros((1, 4), np.float32)) == 1


@pytest.mark.parametrize("path", [None, 3, b"a", "/tmp/" + "a" * 300, "/tmp/\0a", "/tmp/\ud800"])
def test_paths_of_no_file(path: Any) -> None:
    live = fresh()
    for call in (live.save, live.load, StreamingForecaster.from_checkpoint):
        with pytest.raises(UsageError, match="path="):
            call(path)


def test_paths_of_other_things(tmp_path: Path) -> None:
    live = fresh()
    for call in (live.save, live.load):
        with pytest.raises(CheckpointError, match="folder"):
            call(tmp_path)
        with pytest.raises(CheckpointError, match="folder"):
            call("")
    with pytest.raises(CheckpointError, match="missing"):
        live.load(tmp_path / "nothing" / "there")


def test_a_forecaster_that_was_broken_off_says_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fresh()
    live.update(event("a", 1))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(live.coder, "event", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.update(event("b", 2, "B"))
    for name in ("as_of", "entities", "events_written", "late_events"):
        with pytest.raises(StateError, match="broken off"):
            getattr(live, name)
    with pytest.raises(StateError, match="broken off"):
        live.health()


@pytest.mark.parametrize("failing", [ValueError, KeyboardInterrupt, MemoryError])
def test_what_fails_before_anything_is_changed_breaks_nothing(
    failing: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = fresh()
    live.update(event("a", 1))
    before = state(live)

    def fails(*_: Any) -> None:
        raise failing

    with monkeypatch.context() as patch:
        patch.setattr(live.information._hasher, "number", fails)
        patch.setattr("quantattn.forecasters.streaming.information.live.event_words", fails)
        patch.setattr("quantattn.forecasters.streaming.forecaster._FEW", 0)
        for call in (
            lambda: live.update(event("b", 2)),
            lambda: live.update_many([event("b", 2)]),
            lambda: live._update_few([event("b", 2)]),
        ):
            with pytest.raises(failing):
                call()
    assert state(live) == before
    assert live.update(event("b", 2)) is not None


def test_forecasts_tell_whether_the_model_had_seen_their_time() -> None:
    fitted = world(1).fitted
    live = fitted.stream()
    assert isinstance(fitted.fit_time, int)
    for moment, seen in ((fitted.fit_time, True), (fitted.fit_time + 1, False)):
        made = live.forecast("A", moment)
        assert (made.fit_time, made.in_sample) == (fitted.fit_time, seen)
        table = live.forecast_many(["A"], moment)
        assert (table["forecast_time"] <= table["fit_time"]).to_list() == [seen]


def test_health_of_many_without_events_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fresh()
    live.update(event("a", 1))
    live.forecast_many([f"E{number}" for number in range(50)], at(2))
    asked = []
    norm = live.stream.state_norm
    monkeypatch.setattr(live.stream, "state_norm", lambda name: asked.append(name) or norm(name))
    report = live.health()
    assert len(report.rows) == 51
    assert len(asked) == 2
    assert [row.entity for row in report.rows][:2] == ["A", "E0"]
    assert report.rows[1].state_norm == norm("\0market") != report.rows[0].state_norm


def test_events_are_counted_and_not_summed_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    live = fresh()
    live.update_many([event("a", 1), event("m", 2, None), event("b", 3, "B")])
    live._update_table(event_log([{"available": second} for second in (4, 5)]).frame, None)
    live.save(tmp_path / "snapshot")
    again = fresh()
    again.load(tmp_path / "snapshot")
    for one in (live, again):
        with monkeypatch.context() as patch:
            patch.setattr(type(one.stream), "count", None)
            assert one.events_written == 5
    again.update(Event("c", at(9), at(9), "C", "news"))
    assert again.events_written == 6
