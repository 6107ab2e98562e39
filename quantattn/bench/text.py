"""Benchmarks as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from quantattn.bench.attention_floor import ABOUT_FLOOR
from quantattn.bench.attention_recorded import ABOUT_KERNEL
from quantattn.bench.attention_results import AttentionBench, Memory, Scaling
from quantattn.bench.figures import machine_text, note_lines, quartiles_text, spread_text, verdict_lines


def attention_text(bench: AttentionBench) -> str:
    """Return the result of :func:`.bench_attention` as a few short tables."""
    shape = bench.shape
    parts = [
        [
            f"Causal attention, float32, elu + 1, forward and backward; batch {shape['batch']}, heads "
            f"{shape['heads']}, width {shape['width']}.",
            machine_text(bench.machine, bench.threads),
            "Figures are medians, those in brackets quartiles.",
        ],
        _peers(bench),
        _floor(bench),
        _growth(bench.scaling),
        _memory(bench.memory, shape),
        _crossover(bench),
        _recorded(bench),
        verdict_lines(bench.targets, quick=bench.quick, threads=2),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _peers(bench: AttentionBench) -> Iterator[str]:
    yield "x SDPA: how many times faster than SDPA, measured in this run; higher is faster."
    yield f"{'length':>8}  {'':<22}{'ms':>9}  {'':<21}{'x SDPA':>7}  {'':<17}{'calls':>6}"
    for result in bench.lengths:
        for name, time in result.peers.items():
            shown = f"{name} ({result.backend})" if name.endswith("auto") else name
            times = result.times_sdpa[name]
            yield (
                f"{result.length:>8}  {shown:<22}{time.milliseconds:>9.2f}  {quartiles_text(time):<21}"
                f"{times.ratio:>7.2f}  {spread_text(times):<17}{time.calls:>6}"
            )
    for name, remedy in bench.not_installed.items():
        yield f"{'':>8}  {name:<22}not installed: {remedy}"


def _floor(bench: AttentionBench) -> Iterator[str]:
    yield "How far auto is from what a step needs at least; x floor: lower is faster, 1 is the floor."
    yield f"{'length':>8}  {'':<54}{'ms':>7}{'x floor':>9}"
    for result in bench.lengths:
        floor = result.floor
        millions = 2e-6 * floor.multiply_adds
        rate = floor.matmul_gflop_per_second
        for name, least, times in (
            (
                f"{millions:.0f} million operations at {rate:.0f} Gflop/s",
                floor.operations_milliseconds,
                floor.times_operations,
            ),
            ("copy of the same bytes", floor.copy_milliseconds, floor.times_copy),
        ):
            yield f"{result.length:>8}  {name:<54}{least:>7.2f}{times.ratio:>9.2f}  {spread_text(times)}"
    yield from note_lines(ABOUT_FLOOR)


def _growth(scaling: Scaling) -> Iterator[str]:
    yield (
        f"Growth of auto (batch {scaling.batch}, heads {scaling.heads}, width {scaling.width}); "
        "a token is one position with all its heads."
    )
    yield (
        f"{'length':>8}{'wall ms':>10}  {'':<19}{'CPU ms':>9}{'wall ns/token':>15}{'CPU ns/token':>14}"
        f"{'copy ms':>9}{'x copy':>8}{'calls':>7}"
    )
    for point in scaling.points:
        step = point.step
        yield (
            f"{point.length:>8}{step.milliseconds:>10.2f}  {quartiles_text(step):<19}"
            f"{step.cpu_milliseconds:>9.2f}{point.nanoseconds_per_token:>15.0f}{point.cpu_nanoseconds_per_token:>14.0f}"
            f"{point.copy_milliseconds:>9.2f}{point.times_copy.ratio:>8.2f}{step.calls:>7}"
        )
    yield (
        f"{'':>10}wall time grows as length ** {scaling.exponent:.3f} (standard error "
        f"{scaling.standard_error:.3f}), CPU time as length ** {scaling.cpu_exponent:.3f} "
        f"({scaling.cpu_standard_error:.3f})"
    )
    yield from note_lines(
        "copy: the bytes of inputs and of the output's gradient read once, those of output and gradients "
        "written once into fresh ordinary pages, fastest call; x copy: time of a step over it. Where "
        "ns/token rise together with the copy, the bytes no longer fit the caches and pages have to be had "
        "from the system."
    )


def _memory(memory: Memory, shape: dict[str, int]) -> Iterator[str]:
    yield (
        f"Memory of a forward pass at length {memory.length} (batch {shape['batch']}, heads "
        f"{shape['heads']}, width {shape['width']}):"
    )
    both = f"inputs and outputs {_mib(memory.inputs_and_outputs_bytes)}"
    if memory.beyond_bytes is None or memory.low_bytes is None or memory.high_bytes is None:
        yield f"{'':>8}  {both}; beyond them not measured here: the system does not tell"
    else:
        yield (
            f"{'':>8}  {both}; peak beyond them {_mib(memory.beyond_bytes)} ({_mib(memory.low_bytes)} to "
            f"{_mib(memory.high_bytes)}), {100 * (memory.share or 0.0):.1f} % of them; {memory.calls} calls"
        )


def _crossover(bench: AttentionBench) -> Iterator[str]:
    yield "Length from which on auto takes no longer than SDPA:"
    for width, at in bench.crossover.items():
        yield f"   width {width:>4}: {_length(at.length)} ({_length(at.low)} to {_length(at.high)})"


def _length(at: float | None) -> str:
    return "none measured" if at is None else f"{at:.0f}"


def _recorded(bench: AttentionBench) -> Iterator[str]:
    yield "Auto beside a C++ kernel that did NOT run here, by way of SDPA; higher is faster for auto."
    yield f"{'length':>8}  {'recorded elsewhere: kernel ms':>30}{'SDPA ms':>9}{'x kernel':>10}"
    for result in bench.lengths:
        record = result.recorded_kernel
        yield (
            f"{result.length:>8}  {record.recorded_kernel_milliseconds:>30.1f}"
            f"{record.recorded_sdpa_milliseconds:>9.1f}{record.times_faster.ratio:>10.2f}  "
            f"{spread_text(record.times_faster)}"
        )
    yield from note_lines(ABOUT_KERNEL)


def _mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"
