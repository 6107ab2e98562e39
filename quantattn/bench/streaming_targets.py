"""What streaming aimed at with one thread, and whether a run got there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quantattn.bench.streaming_results import EagerRatio, Rate, StepResult
from quantattn.bench.targets import Target, judge

WIDTH = 64
"""Width of the network that the targets are for."""
TARGET_P50 = 15.0
TARGET_P99 = 3 * TARGET_P50
TARGET_EAGER = 10.0
TARGET_GROWTH = 1.2
TARGET_PER_SECOND = 60_000.0
TARGET_BATCH = 3.0

SINGLE = "write, one entity"
"""The rate that :data:`TARGET_PER_SECOND` is for."""

_NOTHING = (None, None)


def streaming_targets(
    steps: Sequence[StepResult],
    times_eager: Sequence[EagerRatio],
    growth: Mapping[str, float],
    rates: Sequence[Rate],
    times_single: Mapping[str, float],
) -> tuple[Target, ...]:
    """Judge a whole run.

    Latencies are those of the linear forecaster at the history at which eager torch is beside it; that a
    longer one costs no more is a target of its own.
    """
    beside = min(
        (times for times in times_eager if (times.model, times.width) == ("linear", WIDTH)),
        key=lambda times: times.history,
    )
    own = [
        step
        for step in steps
        if (step.model, step.width) == ("linear", WIDTH) and step.history >= beside.history
    ]
    first = min(own, key=lambda step: step.history)
    made = []
    for name, found in (("update", first.update), ("read", first.read)):
        made.append(judge(f"{name} at p50 in microseconds", "at most", TARGET_P50, found.p50, _NOTHING))
        made.append(judge(f"{name} at p99 in microseconds", "at most", TARGET_P99, found.p99, _NOTHING))
    for name, ratio in (("update", beside.update), ("read", beside.read)):
        made.append(judge(f"{name}: times eager torch", "at least", TARGET_EAGER, ratio, _NOTHING))
    histories = f"{first.history:,} to {max(step.history for step in own):,} events of history"
    for name, ratio in growth.items():
        made.append(
            judge(
                f"{name}: largest p50 over smallest, {histories}", "at most", TARGET_GROWTH, ratio, _NOTHING
            )
        )
    sizes = float(len({step.state_bytes for step in own}))
    made.append(judge(f"sizes of the state, {histories}", "at most", 1.0, sizes, _NOTHING))
    for rate in rates:
        if rate.name == SINGLE:
            name = "events per second of one entity, one by one"
            made.append(judge(name, "at least", TARGET_PER_SECOND, rate.per_second, (rate.low, rate.high)))
    name = "events per second of batched calls over single ones"
    made.append(judge(name, "at least", TARGET_BATCH, times_single["write"], _NOTHING))
    return tuple(made)
