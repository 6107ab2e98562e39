"""Benchmarks as text for a terminal."""

from __future__ import annotations

from quantattn.bench.attention import AttentionBench, Target


def attention_text(bench: AttentionBench) -> str:
    """Return the result of :func:`.bench_attention` as a few short tables."""
    machine, shape = bench.machine, bench.shape
    lines = [
        f"Causal attention, float32, elu + 1, forward and backward; batch {shape['batch']}, heads "
        f"{shape['heads']}, width {shape['width']}; medians.",
        f"{machine['cpu']}, {machine['cores']} cores, {bench.threads} threads; torch {machine['torch']}, "
        f"numba {machine['numba']}",
        "",
        f"{'length':>8}  {'':<20}{'ms':>10}{'x SDPA':>9}{'calls':>7}",
    ]
    for result in bench.lengths:
        for name, timing in result.peers.items():
            shown = f"{name} ({result.backend})" if name.endswith("auto") else name
            lines.append(
                f"{result.length:>8}  {shown:<22}{timing.milliseconds:>8.2f}{result.times_sdpa[name]:>9.2f}"
                f"{timing.n:>7}"
            )
    lines += ["", "Growth of auto (1 batch row, 2 heads):"]
    for length, milliseconds in zip(bench.scaling["lengths"], bench.scaling["milliseconds"], strict=True):
        lines.append(f"{length:>8}  {milliseconds:>10.2f} ms")
    lines.append(f"          time grows as length ** {bench.scaling['exponent']:.3f}")
    lines += ["", "Length from which auto takes no longer than SDPA:"]
    for width, at in bench.crossover.items():
        lines.append(f"   width {width:>4}: {'never' if at is None else f'{at:.0f}'}")
    lines += ["", "Targets:", *(f"   {_line(target)}" for target in bench.targets)]
    return "\n".join(lines)


def _line(target: Target) -> str:
    if target.found is None:
        return f"{target.name}: not measured here (target {target.target:g})"
    verdict = "reached" if target.reached else "missed"
    return f"{target.name}: {target.found:.3g} (target {target.target:g}), {verdict}"
