"""The training benchmark as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from quantattn.bench.figures import WIDTH, machine_text, quartiles_text, spread_text, verdict_lines
from quantattn.bench.timing import Ratio
from quantattn.bench.training_results import ABOUT_STEP, ABOUT_WINDOWS, Speed, TrainingBench


def training_text(bench: TrainingBench) -> str:
    """Return the result of :func:`.bench_training` as a few short tables."""
    shape = bench.shape
    parts = [
        [
            f"Training on whole histories, float32, {shape['layers']} layers, {shape['heads']} heads.",
            machine_text(bench.machine, bench.threads),
            *wrap(ABOUT_STEP, WIDTH),
            "Figures are medians, those in brackets quartiles.",
        ],
        _speeds(bench),
        _growth(bench),
        _windows(bench),
        _memory(bench),
        verdict_lines(bench.targets, quick=bench.quick, threads=2),
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
            spread = spread_text(times) if name == "linear" else ""
            yield (
                f"{point.width:>6}{point.tokens:>8}  {name:<8}{_speed(speed)}{times.ratio:>8.2f}  "
                f"{spread:<17}{speed.step.calls:>6}"
            )
    if any(point.softmax.step.calls == 1 for point in bench.points):
        yield f"{'':>8}A single call: one step in a process of its own, so without a spread."


def _speed(speed: Speed) -> str:
    step = speed.step
    return (
        f"{step.milliseconds:>10.2f}  {quartiles_text(step):<23}{speed.tokens_per_second:>10.0f}"
        f"{speed.seconds_per_epoch:>9.2f}"
    )


def _growth(bench: TrainingBench) -> Iterator[str]:
    yield "How the wall time of a step grows with its tokens:"
    for grown in bench.growth:
        error = f" (standard error {grown.standard_error:.3f})" if grown.standard_error >= 0 else ""
        yield (f"   width {grown.width:>3} {grown.attention:<8} tokens ** {grown.exponent:.3f}{error}")


def _windows(bench: TrainingBench) -> Iterator[str]:
    yield from wrap(ABOUT_WINDOWS, WIDTH)
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
            f"{point.times_windows.ratio:>11.1f}  {spread_text(point.times_windows)}"
        )


def _memory(bench: TrainingBench) -> Iterator[str]:
    yield "Peak memory of a fresh process that takes one step, and what it had before it:"
    for peak in bench.memory:
        yield (
            f"   width {peak.width:>3} {peak.attention:<8}{peak.tokens:>8} tokens"
            f"{peak.run.peak_bytes / 2**20:>9.0f} MiB, before {peak.run.before_bytes / 2**20:.0f} MiB"
        )
