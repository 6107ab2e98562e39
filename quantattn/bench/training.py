"""How fast the linear forecaster trains beside its softmax twin and beside a window for each forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch

from quantattn.bench.machine import describe_machine
from quantattn.bench.timing import (
    LEAST_CALLS,
    Ratio,
    Timing,
    growth_exponent,
    over,
    take_turns,
    torch_threads,
)
from quantattn.bench.training_child import run_child
from quantattn.bench.training_results import (
    Growth,
    PeakMemory,
    TrainingBench,
    TrainingPoint,
    Windows,
    speed_of,
)
from quantattn.bench.training_steps import (
    HEADS,
    LAYERS,
    TOKENS_PER_FORECAST,
    random_sequence,
    training_call,
    windows,
)
from quantattn.bench.training_targets import training_targets
from quantattn.forecasters.config import Attention

__all__ = ["TrainingBench", "bench_training"]

WIDTHS = (32, 64)
LENGTHS = (1024, 4096, 16384, 65536)
ONCE = 65536
"""From this length on the twin takes a single step, in the process in which its memory is measured."""
WINDOW = 1000
WINDOWS_PER_STEP = 16


def bench_training(*, quick: bool = False, threads: int | None = None) -> TrainingBench:
    """Time training end to end: forwards, backwards and optimiser, on random sequences.

    The forecaster and its twin take turns in this process, so that what slows the machine down slows both;
    peak memory is that of fresh processes. At 64k tokens the twin takes one step alone, in such a process.

    Parameters
    ----------
    quick : bool, default False
        Width 32 at 1k and 4k tokens; memory of the linear forecaster at 4k alone; no verdicts.
    threads : int, optional
        Threads for torch and the compiled backend; torch's own number if not given.

    Raises
    ------
    QuantAttnError
        If a process that is to measure memory fails.
    """
    widths, lengths = (WIDTHS[:1], LENGTHS[:2]) if quick else (WIDTHS, LENGTHS)
    with torch_threads(threads), torch.enable_grad():
        used = torch.get_num_threads()
        usual = {width: _windows(width, seconds=0.2 if quick else 1.0) for width in widths}
        memory = _memory(lengths, used, quick=quick)
        points = tuple(
            _point(width, tokens, usual[width], memory, used, seconds=0.3 if quick else 1.5)
            for width in widths
            for tokens in lengths
        )
    growth = tuple(_growth(points, width, kind) for width in widths for kind in get_args(Attention))
    return TrainingBench(
        describe_machine(),
        used,
        quick,
        {"heads": HEADS, "layers": LAYERS, "tokens_per_forecast": TOKENS_PER_FORECAST},
        points,
        usual,
        growth,
        memory,
        () if quick else training_targets(points, growth, memory),
    )


def _windows(width: int, *, seconds: float) -> Windows:
    # Long enough for the last forecasts to have full windows.
    events = WINDOW * TOKENS_PER_FORECAST // (TOKENS_PER_FORECAST - 1)
    sequence = random_sequence(events + TOKENS_PER_FORECAST * WINDOWS_PER_STEP)
    call = training_call("softmax", width, windows(sequence, WINDOW, WINDOWS_PER_STEP))
    step = take_turns({"windows": call}, seconds=seconds)["windows"]
    return Windows(WINDOW, step, step.milliseconds / WINDOWS_PER_STEP)


def _memory(lengths: Sequence[int], threads: int, *, quick: bool) -> tuple[PeakMemory, ...]:
    """Measure peaks at the greater width; of a quick run, of the linear forecaster at the last length."""
    kinds: tuple[Attention, ...] = ("linear",) if quick else get_args(Attention)
    width = WIDTHS[0] if quick else WIDTHS[-1]
    return tuple(
        PeakMemory(width, tokens, kind, run_child(kind, width, tokens, threads))
        for kind in kinds
        for tokens in (lengths[-1:] if quick else lengths)
    )


def _point(
    width: int, tokens: int, usual: Windows, memory: Sequence[PeakMemory], threads: int, *, seconds: float
) -> TrainingPoint:
    sequence = random_sequence(tokens)
    kinds: tuple[Attention, ...] = get_args(Attention) if tokens < ONCE else ("linear",)
    found = take_turns(
        {kind: training_call(kind, width, [sequence]) for kind in kinds}, seconds=seconds, least=LEAST_CALLS
    )
    if "softmax" not in found:
        found["softmax"] = _once(width, tokens, memory, threads)
    forecasts = len(sequence.rows)
    times_windows = None
    if len(sequence.events) > WINDOW:
        one = over(usual.step, found["linear"])
        times_windows = one.times(forecasts / WINDOWS_PER_STEP)
    times_twin: Ratio = over(found["softmax"], found["linear"])
    return TrainingPoint(
        width,
        tokens,
        forecasts,
        speed_of(found["linear"], tokens),
        speed_of(found["softmax"], tokens),
        times_twin,
        times_windows,
    )


def _once(width: int, tokens: int, memory: Sequence[PeakMemory], threads: int) -> Timing:
    """Give the single step of the twin, from where its memory was measured if it was."""
    wanted = ("softmax", width, tokens)
    runs = [peak.run for peak in memory if (peak.attention, peak.width, peak.tokens) == wanted]
    run = runs[0] if runs else run_child("softmax", width, tokens, threads)
    took = 1e3 * run.seconds
    return Timing(took, took, took, took, float("nan"), 1)


def _growth(points: Sequence[TrainingPoint], width: int, kind: str) -> Growth:
    own = [point for point in points if point.width == width]
    steps = [point.linear.step if kind == "linear" else point.softmax.step for point in own]
    exponent, error = growth_exponent([point.tokens for point in own], [step.milliseconds for step in steps])
    return Growth(width, kind, exponent, error)
