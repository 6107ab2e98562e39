"""Pieces of text that the benchmarks share."""

from __future__ import annotations

import json
import math

from quantattn.bench.figures import (
    count_text,
    machine_text,
    quartiles_text,
    spread_text,
    verdict_lines,
    without_nan,
)
from quantattn.bench.targets import judge
from quantattn.bench.timing import Ratio, Timing


def test_one_thread_is_a_thread() -> None:
    assert count_text(1, "thread") == "1 thread"
    assert count_text(2, "thread") == "2 threads"
    machine = {"cpu": "A chip", "cores": 1, "torch": "2.9", "numba": "0.62"}
    assert machine_text(machine, 4) == "A chip, 1 core, 4 threads; torch 2.9, numba 0.62"


def test_a_single_call_has_no_quartiles() -> None:
    assert quartiles_text(Timing(2.0, 1.0, 3.0, 0.5, 2.0, 2)) == "(1.00 to 3.00)"
    assert quartiles_text(Timing(2.0, 2.0, 2.0, 2.0, 2.0, 1)) == ""
    assert spread_text(Ratio(2.0, 1.5, 2.256)) == "(1.50 to 2.26)"


def test_verdicts_are_those_of_a_whole_run() -> None:
    targets = [judge("speed", "at least", 3.0, 4.0, (None, None))]
    assert list(verdict_lines(targets, quick=False, threads=1)) == [
        "What this project aimed at with 1 thread, and what this run found:",
        "   speed: 4 (aimed at: at least 3): reached",
    ]
    assert list(verdict_lines(targets, quick=True, threads=1)) == [
        "No verdicts: a quick run is too short for them."
    ]


def test_what_is_not_a_number_is_null_in_json() -> None:
    nested = {"a": (1.0, math.nan), "b": [{"c": math.nan}], "d": "NaN", "e": math.inf}
    assert without_nan(nested) == {"a": [1.0, None], "b": [{"c": None}], "d": "NaN", "e": math.inf}
    assert json.loads(json.dumps(without_nan({"x": math.nan}), allow_nan=False)) == {"x": None}
