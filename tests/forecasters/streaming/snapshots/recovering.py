"""A process that forecasts live, takes a snapshot now and then, and may be killed at any instant.

Run as a script with a folder, it loads the forecaster once, and for every line on its standard input starts a
copy of itself, which goes on from the last snapshot in the folder: copies start much faster than processes.
A copy has none of the threads of polars, so it keeps away from frames, as a live caller does.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quantattn.errors import EventDataError
from quantattn.forecasters.fitted import FittedForecaster
from quantattn.forecasters.streaming.events.event import Event
from quantattn.forecasters.streaming.forecaster import StreamingForecaster
from quantattn.forecasters.streaming.forecasts import Forecast
from quantattn.forecasters.streaming.health.policy import HealthPolicy

EVERY = 5
"""Steps from one snapshot to the next."""

STEPS, SNAPSHOT, END, SAID = "steps.json", "last.safetensors", "end.safetensors", "forecasts.jsonl"
HEALTH = HealthPolicy(largest_drift=1e-7, on_breach="flag", shadow=("A",))


def forecaster_of(fitted: FittedForecaster) -> StreamingForecaster:
    return StreamingForecaster(fitted, late="queue", health=HEALTH)


def line_of(made: Forecast) -> str:
    """What a forecast says, without the time that it took; floats to the last bit."""
    return json.dumps({**asdict(made), "read_us": None})


def go_on(fitted: FittedForecaster, folder: Path) -> None:
    """Recover, take the steps that are left, and store how it ended."""
    forecaster = forecaster_of(fitted)
    if (folder / SNAPSHOT).exists():
        forecaster.load(folder / SNAPSHOT)
    steps: list[Any] = json.loads((folder / STEPS).read_text(encoding="utf-8"))
    with (folder / SAID).open("a", encoding="utf-8") as said:
        taken = 0
        for step in steps:
            if isinstance(step, dict):
                try:
                    forecaster.update(step)
                except EventDataError as error:
                    assert "has been written already" in str(error)
                    continue
            else:
                entity, at = step
                if at <= forecaster.ledger.promised.get(entity, at - 1):
                    continue
                said.write(line_of(forecaster.forecast(entity, at)) + "\n")
                said.flush()
            taken += 1
            if taken % EVERY == 0:
                forecaster.save(folder / SNAPSHOT)
    forecaster.save(folder / END)


def serve(folder: Path) -> None:
    fitted = FittedForecaster.load(folder)
    warm = forecaster_of(fitted)
    for number, entity in enumerate((None, "A", None)):
        warm.update(Event(str(number), number, number, entity, "news", 0, "up", {"x": 1.0}))
    warm.forecast("A", 9)
    print("ready", flush=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 3
            try:
                go_on(fitted, folder)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        print(child, flush=True)
        # The dead child keeps its number until the one who may kill it has been told.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        print("over", flush=True)
        sys.stdin.readline()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
