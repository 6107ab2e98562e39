"""One training step in a process of its own, for its peak memory; run as a module by :func:`run_child`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

import quantattn
from quantattn.bench.training_steps import random_sequence, training_call
from quantattn.errors import QuantAttnError
from quantattn.forecasters.config import Attention

_WARM = 320
"""Tokens of the step before, which loads and compiles what a process needs once."""


@dataclass(frozen=True)
class ChildRun:
    """What one step took in a fresh process.

    Attributes
    ----------
    seconds : float
        Wall time of the step.
    peak_bytes : int
        Most resident memory of the whole process, interpreter and libraries included.
    before_bytes : int
        The same before the step, after a short one.
    """

    seconds: float
    peak_bytes: int
    before_bytes: int


def run_child(attention: Attention, width: int, tokens: int, threads: int) -> ChildRun:
    """Take one step in a fresh process.

    Raises
    ------
    QuantAttnError
        If the process fails, with the last line that it said.
    """
    home = str(Path(quantattn.__file__).parents[1])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", __name__, attention, str(width), str(tokens), str(threads)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise QuantAttnError(
            f"the training step of {tokens} tokens ({attention}, width {width}) failed in its own process: "
            f"{last}; try --quick, or free some memory"
        )
    return ChildRun(**json.loads(done.stdout.strip().splitlines()[-1]))


def peak_bytes() -> int:
    """Return the most resident memory that this process has had.

    Linux hands the peak that ``getrusage`` tells down from the process that started this one; the peak of its
    own is in ``/proc``.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def main(arguments: list[str]) -> None:
    """Take a short step, then the one asked for, and print what it took as JSON."""
    attention, width, tokens, threads = arguments
    torch.set_num_threads(int(threads))
    kind: Attention = "linear" if attention == "linear" else "softmax"
    training_call(kind, int(width), [random_sequence(_WARM)])()
    step = training_call(kind, int(width), [random_sequence(int(tokens))])
    before, started = peak_bytes(), time.perf_counter()
    step()
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes(), "before_bytes": before}))


if __name__ == "__main__":
    main(sys.argv[1:])
