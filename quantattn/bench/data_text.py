"""The benchmark of datasets as text for a terminal."""

from __future__ import annotations

from quantattn.bench.data import OURS, OWN, DataBench, JoinResult
from quantattn.bench.targets import target_line

_MEANING = {
    OURS: "counts, newest instants and names of all that each forecast could see, market-wide events too",
    OWN: "the same without the market-wide events: what the joins answer, and more",
}


def data_text(bench: DataBench) -> str:
    """Return the result of :func:`.bench_data` as a few short tables, each with what its figures mean."""
    machine, size = bench.machine, bench.size
    lines = [
        f"Point-in-time data: {size['events']:,} events of {size['entities']:,} entities "
        f"({_mib(size['event_bytes'])} in memory), {size['forecasts']:,} forecasts.",
        f"{machine['cpu']}, {machine['cores']} cores, {bench.threads} threads; polars {machine['polars']}, "
        f"numba {machine['numba']}",
        "",
        "What could each forecast see? Seconds are medians of the runs, which took turns; ratio is to",
        "polars in this run. The joins find the last event of the forecast's own entity, strictly before the",
        "forecast, and no more; differing counts the forecasts for which they found another one than that",
        "which .samples counts up to.",
        f"{'':<38}{'seconds':>9}{'ratio':>8}{'runs':>6}{'differing':>11}",
        *(_join_line(join) for join in bench.joins),
        *(f"   {name}:\n      {meaning}" for name, meaning in _MEANING.items()),
        "",
        "Growth of .samples with the events, the forecasts being few:",
    ]
    for events, seconds in zip(bench.growth["events"], bench.growth["seconds"], strict=True):
        lines.append(f"{events:>14,} events {seconds:>9.3f} s   {1e9 * seconds / events:>6.0f} ns an event")
    lines.append(f"   time grows as events ** {bench.growth['exponent']:.3f}; 1 is linear")
    memory = bench.memory
    lines += [
        "",
        "Memory of a process that makes these tables and reads .samples: peak of resident memory, the input",
        "included, beyond what it held before; input is the size of events and labels in memory.",
        f"   input {_mib(memory.input_bytes)}, peak {_mib(memory.peak_bytes)}, "
        f"peak / input {_ratio(memory.share)}",
    ]
    if bench.disk is not None:
        disk = bench.disk
        lines += [
            "",
            f"{disk.events:,} events in a Parquet file of {_mib(disk.file_bytes)} (made and written in "
            f"{disk.write_seconds:.0f} s), {disk.forecasts:,} forecasts:",
            f"   .samples in {disk.memory.seconds:.1f} s, peak {_mib(disk.memory.peak_bytes)} beyond what",
            f"   the process held before; peak / (file and labels) {_ratio(disk.memory.share)}",
        ]
    if bench.targets:
        lines += ["", "Targets:", *(f"   {target_line(target)}" for target in bench.targets)]
    else:
        lines += ["", "Targets are set for the full size: run without --quick."]
    return "\n".join(lines)


def _join_line(join: JoinResult) -> str:
    if join.seconds is None or join.ratio is None:
        return f"   {join.name:<35}{'not installed (extra bench)':>34}"
    differing = "" if join.differing is None else f"{join.differing:,}"
    return f"   {join.name:<35}{join.seconds:>9.3f}{join.ratio:>8.2f}{join.n:>6}{differing:>11}"


def _mib(size: int | None) -> str:
    return "not measured here" if size is None else f"{size / 2**20:,.0f} MiB"


def _ratio(share: float | None) -> str:
    return "not measured here" if share is None else f"{share:.2f}"
