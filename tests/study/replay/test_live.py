"""A feed that comes as it happens: forecasts come when they are due, whether or not an event does."""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quantattn.pit.timestamps import iso
from quantattn.study import replaying
from quantattn.study.replay.pace import Alarm
from quantattn.study.replaying import ReplayRequest, replay_run
from tests.study.replay.streams import replayed

SECOND = 10**9


class TickingClock:
    """A clock of the study whose times are given."""

    def __init__(self, times: list[int]) -> None:
        self.times = times

    def after(self, moment: int, up_to: int | None = None) -> int | None:
        place = bisect_right(self.times, moment)
        found = self.times[place] if place < len(self.times) else None
        return found if found is None or up_to is None or found <= up_to else None

    def reach(self, up_to: int) -> None:
        """Reach everything."""


def event(name: str, at: int, entity: str = "JPM") -> str:
    when = iso(at)
    fields = {"event_id": name, "available_at": when, "event_time": when, "entity": entity, "kind": "news"}
    return json.dumps(fields) + "\n"


class Live:
    """A replay that reads a pipe, with what it wrote and when."""

    def __init__(self, run: Path, monkeypatch: pytest.MonkeyPatch, times: list[int]) -> None:
        self.run, self.times = run, times
        monkeypatch.setattr(replaying, "StudyClock", lambda study: TickingClock(times))
        self.reading, self.writing = os.pipe()
        self.lines: list[dict[str, Any]] = []
        self.late_by: list[int] = []
        self.alarm = Alarm()

    def say(self, *lines: str) -> None:
        os.write(self.writing, "".join(lines).encode())

    def go(self, on_line: Callable[[int], None] = lambda count: None, **options: Any) -> None:
        def write(values: dict[str, Any]) -> None:
            self.lines.append(values)
            due = min(self.times, key=lambda at: iso(at) != values["forecast_time"])
            self.late_by.append(time.time_ns() - due)
            on_line(len(self.lines))

        # Whatever goes wrong, no test waits for ever.
        guard = threading.Timer(60, self.alarm.ring)
        guard.start()
        try:
            replay_run(
                ReplayRequest(run=self.run, log="-", entities="JPM", **options),
                write=write,
                note=lambda text: None,
                standard_input=lambda: os.read(self.reading, 1000),
                alarm=self.alarm,
            )
        finally:
            guard.cancel()
            os.close(self.writing)
            os.close(self.reading)

    @property
    def seen(self) -> list[tuple[int, int]]:
        """Which of the times each forecast is of, and how many events it saw."""
        places = {iso(at): place for place, at in enumerate(self.times)}
        return [(places[line["forecast_time"]], line["n_visible"]) for line in self.lines]


def test_forecasts_come_when_they_are_due_though_no_event_comes(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    # The model is loaded first, which may take its time on a busy machine.
    live = Live(run_folder, monkeypatch, [now + place * SECOND // 4 for place in range(6, 200)])

    def on_line(count: int) -> None:
        if count == 2:
            live.say(event("b", live.times[live.seen[-1][0]] + 1))
        if count == 4:
            live.alarm.ring()

    live.say(event("a", now))
    live.go(on_line, speed="real")
    first = live.seen[0][0]
    assert live.seen == [(first, 1), (first + 1, 1), (first + 2, 2), (first + 3, 2)]
    assert min(live.late_by) >= 0


def test_what_was_due_before_the_start_waits_for_the_events_of_that_time(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    times = [now - 10 * SECOND, now - 5 * SECOND, *(now + place * SECOND for place in range(2, 60))]
    live = Live(run_folder, monkeypatch, times)

    def later() -> None:
        live.say(event("a", now - 12 * SECOND))
        time.sleep(0.2)  # a pause of the feed is no reason to go ahead of it
        live.say(event("b", now - 7 * SECOND))

    threading.Timer(0.0, later).start()
    live.go(lambda count: live.alarm.ring() if count == 3 else None, speed="real")
    assert [seen for _, seen in live.seen] == [1, 2, 2]
    assert [place for place, _ in live.seen][:2] == [0, 1]
    assert live.late_by[2] >= 0


def test_an_event_ahead_of_its_time_is_held_until_then(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    live = Live(run_folder, monkeypatch, [now + 2 * SECOND, now + 5 * SECOND // 2])
    live.say(event("a", now), event("b", now + 2 * SECOND), event("c", now + 5 * SECOND // 2))
    live.go(lambda count: live.alarm.ring() if count == 2 else None, speed="real")
    assert live.seen == [(0, 1), (1, 2)]
    assert min(live.late_by) >= 0


def test_it_ends_at_the_last_instant_though_no_event_comes(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    live = Live(run_folder, monkeypatch, [now + 2 * SECOND, now + 300 * SECOND])
    live.say(event("a", now))
    live.go(speed="real", until=iso(now + 2 * SECOND + 1))
    assert live.seen == [(0, 1)]
    assert not live.alarm.rung


def asking(at: int) -> str:
    return json.dumps({"forecast": "JPM", "at": iso(at)}) + "\n"


def test_what_is_asked_for_ahead_waits_and_does_not_hold_up_the_feed(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    live = Live(run_folder, monkeypatch, [now + 4 * SECOND, now + 5 * SECOND])
    first, second = live.times
    # The clock's own at the same instants come before them; what comes in between is seen.
    live.say(event("a", now), asking(second + 1), asking(first + 1), event("b", now + 1))
    made: list[tuple[str, bool]] = []

    def on_line(count: int) -> None:
        at = live.lines[-1]["forecast_time"]
        made.append((at, "asked" in live.lines[-1]))
        assert iso(time.time_ns()) >= at
        if count == 4:
            live.alarm.ring()

    live.go(on_line, speed="real")
    assert made == [
        (iso(first), False),
        (iso(first + 1), True),
        (iso(second), False),
        (iso(second + 1), True),
    ]
    assert [line["n_visible"] for line in live.lines] == [2] * 4


def test_what_is_asked_for_ahead_is_made_when_an_event_of_later_comes(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    live = Live(run_folder, monkeypatch, [now + 500 * SECOND])
    live.say(event("a", now), asking(now + 200 * SECOND), event("b", now + 200 * SECOND))
    live.go(lambda count: live.alarm.ring(), speed="real")
    assert [(line["forecast_time"], line["n_visible"]) for line in live.lines] == [
        (iso(now + 200 * SECOND), 1)
    ]
    assert time.time_ns() < now + 150 * SECOND


def test_what_is_asked_for_and_not_due_is_in_the_snapshot(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = time.time_ns()
    live = Live(run_folder, monkeypatch, [now + 500 * SECOND])
    live.say(event("a", now), asking(now + 300 * SECOND))
    live.go(speed="real", until=iso(now + 2 * SECOND), snapshot=tmp_path / "state")
    assert live.lines == []
    said = event("b", now + 1) + event("c", now + 301 * SECOND)
    given = replayed(run_folder, "-", said=said.encode(), entities="JPM", snapshot=tmp_path / "state")
    assert [(line["n_visible"], line.get("asked")) for line in given.lines] == [(2, True)]


def test_a_recorded_feed_goes_so_many_times_faster(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    then = 1_700_000_000 * SECOND
    live = Live(run_folder, monkeypatch, [then + place * SECOND for place in (10, 20, 30)])
    live.say(event("a", then), event("b", then + 15 * SECOND))
    began = time.monotonic()
    # The third comes though the feed says no more.
    live.go(lambda count: live.alarm.ring() if count == 3 else None, speed="100")
    assert live.seen == [(0, 1), (1, 2), (2, 2)]
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("speed", ["real", "2e6"])
def test_a_log_at_any_pace_gives_the_same(run_folder: Path, tmp_path: Path, speed: str) -> None:
    fast = speed != "real"
    gap = 7 * 86_400 * SECOND if fast else SECOND // 10
    friday = 1_662_147_900 * SECOND  # 2022-09-02T19:45:00Z
    said = "".join(event(str(place), friday - 1 + place * gap) for place in range(4))
    (tmp_path / "log.jsonl").write_text(said)
    began = time.monotonic()
    paced = replayed(run_folder, tmp_path / "log.jsonl", speed=speed)
    assert time.monotonic() - began >= 3 * gap / SECOND / (2e6 if fast else 1)
    assert paced.untimed == replayed(run_folder, tmp_path / "log.jsonl").untimed
    assert len(paced.lines) == (9 if fast else 3)
