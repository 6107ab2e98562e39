"""The training benchmark as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from quantattn.bench.targets import target_line
from quantattn.bench.timing import Ratio, Timing
from quantattn.bench.training_results import ABOUT_STEP, ABOUT_WINDOWS, Speed, TrainingBench

_WIDTH = 110


def training_text(bench: TrainingBench) -> str:
    """Return the result of :func:`.bench_training` as a few short tables."""
    machine, shape = bench.machine, bench.shape
    threads = f"{bench.threads} thread" if bench.threads == 1 else f"{bench.threads} threads"
    parts = [
        [
            f"Training on whole histories, float32, {shape['layers']} layers, {shape['heads']} heads.",
            f"{machine['cpu']}, {machine['cores']} cores, {threads}; torch {machine['torch']}, numba "
            f"{machine['numba']}",
            *wrap(ABOUT_STEP, _WIDTH),
            "Figures are medians, those in brackets quartiles.",
        ],
        _speeds(bench),
        _growth(bench),
        _windows(bench),
        _memory(bench),
        _targets(bench),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _speeds(bench: TrainingBench) -> Iterator[str]:
    yield "x twin: how many times faster than the softmax twin, in this run; higher is faster."
    yield (
        f"{'width':>6}{'tokens':>8}  {'':<8}{'ms':>10}  {'':<23}{'tokens/s':>10}{'s/epoch':>9}{'x twin':>8}"
        f"  {'':<17}{'calls':>6}"
    )
    for point in bench.points:
        for name, speed in (("linear", point.linear), ("softmax", point.softmax)):
            times = point.times_twin if name == "linear" else Ratio(1.0, 1.0, 1.0)
            spread = _spread(times) if name == "linear" else ""
            yield (
                f"{point.width:>6}{point.tokens:>8}  {name:<8}{_speed(speed)}{times.ratio:>8.2f}  "
                f"{spread:<17}{speed.step.calls:>6}"
            )
    if any(point.softmax.step.calls == 1 for point in bench.points):
        yield f"{'':>8}A single call: one step in a process of its own, so without a spread."


def _speed(speed: Speed) -> str:
    step = speed.step
    return (
        f"{step.milliseconds:>10.2f}  {_quartiles(step):<23}{speed.tokens_per_second:>10.0f}"
        f"{speed.seconds_per_epoch:>9.2f}"
    )


def _growth(bench: TrainingBench) -> Iterator[str]:
    yield "How the wall time of a step grows with its tokens:"
    for grown in bench.growth:
        error = f" (standard error {grown.standard_error:.3f})" if grown.standard_error >= 0 else ""
        yield (f"   width {grown.width:>3} {grown.attention:<8} tokens ** {grown.exponent:.3f}{error}")


def _windows(bench: TrainingBench) -> Iterator[str]:
    yield from wrap(ABOUT_WINDOWS, _WIDTH)
    yield (
        f"{'width':>6}{'tokens':>8}{'forecasts':>11}{'window ms/forecast':>20}{'linear ms/forecast':>20}"
        f"{'x windows':>11}"
    )
    for point in bench.points:
        if point.times_windows is None:
            continue
        own = point.linear.step.milliseconds / point.forecasts
        yield (
            f"{point.width:>6}{point.tokens:>8}{point.forecasts:>11}"
            f"{bench.windows[point.width].milliseconds_per_forecast:>20.3f}{own:>20.4f}"
            f"{point.times_windows.ratio:>11.1f}  {_spread(point.times_windows)}"
        )


def _memory(bench: TrainingBench) -> Iterator[str]:
    yield "Peak memory of a fresh process that takes one step, and what it had before it:"
    for peak in bench.memory:
        yield (
            f"   width {peak.width:>3} {peak.attention:<8}{peak.tokens:>8} tokens"
            f"{peak.run.peak_bytes / 2**20:>9.0f} MiB, before {peak.run.before_bytes / 2**20:.0f} MiB"
        )


def _targets(bench: TrainingBench) -> Iterator[str]:
    if bench.quick:
        yield "No verdicts: a quick run is too short for them."
        return
    yield "What this project aimed at with 2 threads, and what this run found:"
    for target in bench.targets:
        yield f"   {target_line(target)}"


def _quartiles(time: Timing) -> str:
    return f"({time.low_milliseconds:.2f} to {time.high_milliseconds:.2f})" if time.calls > 1 else ""


def _spread(ratio: Ratio) -> str:
    return f"({ratio.low:.2f} to {ratio.high:.2f})"
