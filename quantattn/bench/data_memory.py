"""The peak of memory of one reading, in a process of its own: ``python -m quantattn.bench.data_memory``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from quantattn.bench.data_tables import Size, dataset_of, held_in_memory
from quantattn.pit import EventLog


@dataclass(frozen=True)
class Memory:
    """What a process took to make and read its events.

    Attributes
    ----------
    input_bytes : int
        The events and forecasts as polars holds them, or the file and the forecasts.
    peak_bytes : int or None
        Most resident memory of the process, its input included, beyond what it held with everything loaded
        and no data yet; None where the system does not tell.
    share : float or None
        Peak over input.
    seconds : float
        Time of ``.samples``.
    """

    input_bytes: int
    peak_bytes: int | None
    share: float | None
    seconds: float


def measure_memory(size: Size, *, seed: int = 0, path: Path | None = None) -> Memory:
    """Read samples in a new process and return its peak of memory.

    Parameters
    ----------
    size : Size
        How many events and forecasts.
    seed : int
        Seed of the events.
    path : Path, optional
        A file of events to read; by default they are made in memory.
    """
    task = json.dumps({"size": asdict(size), "seed": seed, "path": None if path is None else str(path)})
    command = [sys.executable, "-m", "quantattn.bench.data_memory", task]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return Memory(**json.loads(done.stdout.splitlines()[-1]))


def _measure(task: str) -> Memory:
    told = json.loads(task)
    size = Size(**told["size"])
    small = Size(1_000, 5, 10)
    _ = dataset_of(held_in_memory(small), small).samples  # loads the compiled programs
    before = psutil.Process().memory_info().rss
    if told["path"] is None:
        events = held_in_memory(size, told["seed"])
        held = events.frame.estimated_size()
    else:
        events = EventLog.scan(told["path"])  # type: ignore[assignment]
        held = Path(told["path"]).stat().st_size
    dataset = dataset_of(events, size)
    held += int(dataset.labels.frame.estimated_size())
    begin = time.perf_counter()
    _ = dataset.samples
    seconds = time.perf_counter() - begin
    peak = _peak()
    beyond = None if peak is None else max(0, peak - before)
    return Memory(int(held), beyond, None if beyond is None else beyond / held, seconds)


def _peak() -> int | None:
    """Return the most resident memory of this process so far, which Linux keeps."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return None


if __name__ == "__main__":
    print(json.dumps(asdict(_measure(sys.argv[1]))))
