"""The streaming benchmark as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from quantattn.bench.figures import WIDTH, machine_text, note_lines, spread_text, verdict_lines
from quantattn.bench.streaming_floor import ABOUT_FLOOR
from quantattn.bench.streaming_results import (
    ABOUT_COLD,
    ABOUT_EAGER,
    ABOUT_RAW,
    ABOUT_STEPS,
    Rate,
    StreamingBench,
)


def streaming_text(bench: StreamingBench) -> str:
    """Return the result of :func:`.bench_streaming` as a few short tables."""
    parts = [_heading(bench), _steps(bench), _twin(bench), _rates(bench), _floors(bench), _raw(bench)]
    parts += [_cold(bench), verdict_lines(bench.targets, quick=bench.quick, threads=bench.threads)]
    return "\n\n".join("\n".join(part) for part in parts)


def _heading(bench: StreamingBench) -> Iterator[str]:
    shape = bench.shape
    yield (
        f"Streaming, float32, {shape['layers']} layers, {shape['heads']} heads, tokens of "
        f"{shape['event_width']} (events) and {shape['query_width']} (forecasts) numbers."
    )
    yield machine_text(bench.machine, bench.threads)
    yield from wrap(ABOUT_STEPS, WIDTH)
    yield f"The clock itself: {bench.clock.p50:.2f} us at p50, {bench.clock.p99:.2f} at p99."


def _steps(bench: StreamingBench) -> Iterator[str]:
    times = {(each.model, each.width, each.history): each for each in bench.times_eager}
    yield "Microseconds of one call; x eager: p50 of eager torch over ours, higher is faster."
    each = f"{'p95':>10}{'p99':>10}"
    yield (
        f"{'width':>5}{'history':>12}  {'':<14}{'update p50':>11}{each}{'read p50':>11}{each}"
        f"{'x eager':>14}{'bytes':>12}{'calls':>7}"
    )
    for step in bench.steps:
        eager = times.get((step.model, step.width, step.history))
        beside = "" if eager is None else f"{eager.update:.1f}, {eager.read:.1f}"
        held = "" if step.state_bytes is None else f"{step.state_bytes:,}"
        yield (
            f"{step.width:>5}{step.history:>12,}  {step.model:<14}"
            f"{step.update.p50:>11.2f}{step.update.p95:>10.2f}{step.update.p99:>10.2f}"
            f"{step.read.p50:>11.2f}{step.read.p95:>10.2f}{step.read.p99:>10.2f}{beside:>14}{held:>12}"
            f"{step.update.calls:>7}"
        )
    yield from note_lines(ABOUT_EAGER)
    largest = max(each.difference / each.spread for each in bench.agreement)
    yield from note_lines(
        f"Largest difference of an eager forecast from ours, over their spread: {largest:.1e}."
    )


def _twin(bench: StreamingBench) -> Iterator[str]:
    yield "The softmax twin over the linear forecaster, update plus read at p50, by history:"
    yield "   " + ", ".join(f"{history:,}: {ratio:.2f}" for history, ratio in bench.times_softmax.items())
    yield f"   history from which on the linear forecaster takes no longer: {_crossover(bench)}"
    histories = [step.history for step in bench.steps if step.model == "linear"]
    grown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in bench.growth.items())
    yield (
        f"   largest p50 over smallest of the linear forecaster, up to {max(histories):,} events of history: "
        f"{grown}"
    )


def _crossover(bench: StreamingBench) -> str:
    at = bench.crossover
    if at is None:
        return "none measured"
    return f"{at:,.0f} events" + (", the shortest measured" if at <= min(bench.times_softmax) else "")


def _rates(bench: StreamingBench) -> Iterator[str]:
    yield "Per second, on encoded tokens, linear; in brackets quartiles."
    yield from (_rate(rate) for rate in bench.rates)
    times = bench.times_single
    yield (
        f"   batched over single calls, {bench.batch_entities:,} entities: write {times['write']:.2f}, read "
        f"{times['read']:.2f}"
    )


def _rate(rate: Rate) -> str:
    spread = f"({rate.low:,.0f} to {rate.high:,.0f})"
    return f"   {rate.name:<34}{rate.per_second:>11,.0f}  {spread:<24}{rate.run.calls:>4} runs"


def _floors(bench: StreamingBench) -> Iterator[str]:
    yield "How far a step is from its floor; x floor: lower is faster, 1 is the floor."
    yield (
        f"{'width':>5}  {'':<8}{'weights':>10}{'state':>9}{'GB/s':>8}{'floor us':>10}{'step us':>9}"
        f"{'x floor':>9}"
    )
    for floor in bench.floors:
        times = floor.times_floor
        yield (
            f"{floor.width:>5}  {floor.step:<8}{floor.weight_bytes:>10,}{floor.state_bytes:>9,}"
            f"{floor.gigabytes_per_second:>8.0f}{floor.floor_microseconds:>10.2f}"
            f"{floor.step_microseconds:>9.2f}{times.ratio:>9.2f}  {spread_text(times)}"
        )
    yield from note_lines(ABOUT_FLOOR)


def _raw(bench: StreamingBench) -> Iterator[str]:
    yield "Per second, from raw events to forecasts, linear; in brackets quartiles."
    yield from (_rate(rate) for rate in bench.raw)
    yield from note_lines(ABOUT_RAW)


def _cold(bench: StreamingBench) -> Iterator[str]:
    yield "Cold start from a raw history:"
    for start in bench.cold_start:
        how = f", from {start.pieces} pieces" if start.pieces else ""
        yield f"   {start.model:<8}{start.events:>9,} events{start.seconds:>9.2f} s{how}"
    yield from note_lines(ABOUT_COLD)
