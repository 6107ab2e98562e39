"""What training aimed at, and whether a run got there."""

from __future__ import annotations

from collections.abc import Sequence

from quantattn.bench.targets import Target, judge
from quantattn.bench.training_results import Growth, PeakMemory, TrainingPoint

TARGET_TWIN = {4096: 3.0, 16384: 12.0}
TARGET_WINDOWS = 20.0
TARGET_EXPONENT = 1.05
TARGET_GIB = 4.0


def training_targets(
    points: Sequence[TrainingPoint], growth: Sequence[Growth], memory: Sequence[PeakMemory]
) -> tuple[Target, ...]:
    """Judge a whole run: the median decides.

    Against windows, each width is judged at the length where the linear forecaster gains least.
    """
    made = []
    for point in points:
        if point.tokens in TARGET_TWIN:
            name = f"times the softmax twin at {point.tokens}, width {point.width}"
            times = point.times_twin
            made.append(
                judge(name, "at least", TARGET_TWIN[point.tokens], times.ratio, (times.low, times.high))
            )
    for width in sorted({point.width for point in points}):
        found = [point.times_windows for point in points if point.width == width and point.times_windows]
        if found:
            least = min(found, key=lambda times: times.ratio)
            name = f"times a window for each forecast, width {width}"
            made.append(judge(name, "at least", TARGET_WINDOWS, least.ratio, (least.low, least.high)))
    for grown in growth:
        if grown.attention == "linear":
            name = f"exponent of growth of the linear forecaster, width {grown.width}"
            spread = (grown.exponent - grown.standard_error, grown.exponent + grown.standard_error)
            made.append(judge(name, "at most", TARGET_EXPONENT, grown.exponent, spread))
    longest = [peak for peak in memory if peak.attention == "linear"]
    if longest:
        last = max(longest, key=lambda peak: peak.tokens)
        name = f"peak memory in GiB of the linear forecaster at {last.tokens}, width {last.width}"
        made.append(judge(name, "at most", TARGET_GIB, last.run.peak_bytes / 2**30, (None, None)))
    return tuple(made)
