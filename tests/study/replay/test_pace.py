"""How fast a replay goes: by a clock of our own, so that no test waits."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from quantattn.errors import UsageError
from quantattn.study.replay import pace as module
from quantattn.study.replay.pace import Alarm, Pace, speed_of

SECOND = 10**9


class FakeClock:
    """A clock on the wall that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * SECOND)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(module, "time", fake)
    return fake


def test_speeds() -> None:
    assert (speed_of("max"), speed_of("real"), speed_of("3600"), speed_of("0.5")) == (
        "max",
        "real",
        3600.0,
        0.5,
    )
    for text in ("", "fast", "0", "-1", "nan", "inf", "1x"):
        with pytest.raises(UsageError, match="how many times faster"):
            speed_of(text)


def test_at_once_nothing_is_waited_for() -> None:
    pace = Pace("max", live=True)
    pace.begin(0)
    assert (pace.waits, pace.until(10**18)) == (False, None)


@pytest.mark.parametrize(("speed", "live", "factor"), [("real", False, 1), (4.0, False, 4), (4.0, True, 4)])
def test_a_log_is_counted_from_its_first_instant(
    clock: FakeClock, speed: float | str, live: bool, factor: int
) -> None:
    pace = Pace(speed, live)  # type: ignore[arg-type]
    assert pace.until(5 * SECOND) is None
    pace.begin(5 * SECOND)
    pace.begin(9 * SECOND)  # has no effect
    assert pace.until(5 * SECOND) == 0
    assert pace.until(3 * SECOND) == 0
    assert pace.until(13 * SECOND) == pytest.approx(8 / factor)
    clock.now += 1
    assert pace.until(13 * SECOND) == pytest.approx(8 / factor - 1)
    clock.now += 100
    assert pace.until(13 * SECOND) == 0


def test_a_live_feed_goes_by_the_clock_on_the_wall(clock: FakeClock) -> None:
    pace = Pace("real", live=True)
    assert pace.by_the_wall
    assert pace.until(1003 * SECOND) == pytest.approx(3)
    clock.now += 5
    assert pace.until(1003 * SECOND) == 0


def test_an_alarm_ends_a_wait_and_all_later_ones() -> None:
    alarm, woken = Alarm(), []
    alarm.also(lambda: woken.append(True))
    threading.Timer(0.05, alarm.ring).start()
    started = time.monotonic()
    alarm.sleep(60)
    alarm.sleep(60)
    assert time.monotonic() - started < 30
    assert alarm.rung
    assert woken == [True]


def test_without_an_alarm_it_waits_as_long_as_it_should() -> None:
    started = time.monotonic()
    Alarm().sleep(0.02)
    assert time.monotonic() - started >= 0.02


def test_the_pace_can_be_loaded_without_anything_heavy() -> None:
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert [line for line in source.splitlines() if line.startswith("from quantattn")] == [
        "from quantattn.errors import UsageError"
    ]
