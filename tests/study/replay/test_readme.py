"""The README's page on running live, carried out on a small run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import quantattn as qa
from quantattn.forecasters.streaming.events.lines import read_line
from tests.study.replay.streams import Replayed, replayed
from tests.test_readme import README, blocks, section

LIVE = section(README, "From the backtest to live")


def test_the_example_in_python(
    run_folder: Path, own_log: qa.EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((_, block),) = blocks(LIVE, "pycon")
    lines = [line.removeprefix(">>> ") for line in block.splitlines()]
    assert all(line.startswith(">>> ") for line in block.splitlines())
    (folder,) = set(re.findall(r'"(runs/mine/folds/[^"]+)"', block))
    model = next(run_folder.glob("folds/1/linear-*"))
    program = "\n".join(lines).replace(folder, str(model)).replace("runs/mine", str(run_folder))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"qa": qa}
    exec(compile(program, "README.md", "exec"), names)
    event, forecast, again = names["event"], names["forecast"], names["again"]
    assert isinstance(event, qa.Event)
    assert event.event_id == "n1"
    assert isinstance(forecast, qa.Forecast)
    assert isinstance(again, qa.StreamingForecaster)
    alike = again.forecast("AAPL", "2022-12-31T15:00:00Z")
    assert (alike.y_pred, alike.info_hash) == (forecast.y_pred, forecast.info_hash)
    for name in re.findall(r"\.(\w+)", lines[5].partition("#")[2]):
        assert hasattr(forecast, name), name
    assert again.events_written == own_log.frame.height + 1


def test_its_lines_are_read() -> None:
    event, request = (json.loads(found) for found in re.findall(r"^\{.*\}$", LIVE, re.MULTILINE))
    assert read_line(json.dumps(event).encode(), place="line 1") == qa.Event.from_mapping(event)
    asked = read_line(json.dumps(request).encode(), place="line 2")
    assert asked is not None
    assert asked.entity == "AAPL"


def test_the_health_that_it_sets(run_folder: Path) -> None:
    (made,) = re.findall(r"`health=(qa\.HealthPolicy\([^`]*\))`", LIVE)
    assert eval(made) == qa.HealthPolicy(least_denominator=1e-3, on_breach="flag")


def test_a_stretch_of_the_backtest(run_folder: Path, whole: Replayed) -> None:
    days = [line["forecast_time"][:10] for line in whole.untimed]
    part = replayed(run_folder, since=days[0], until=days[-1])
    assert part.untimed == whole.untimed
