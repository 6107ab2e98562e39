"""A C++ kernel that is not here: what it took elsewhere, and how a run compares with that."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.bench.timing import Ratio

ABOUT_KERNEL = (
    "Recorded, not measured here: the fastest CPU kernel of causal linear attention known when the "
    "figures were taken; C++, one token after the other, in the style of fast-transformers. It did not "
    "run. Its milliseconds and those of SDPA beside it, with 2 threads on another machine, give its ratio "
    "to SDPA; auto's ratio to SDPA in this run is divided by that. The result inherits the noise of SDPA "
    "in both runs, and whatever SDPA gains or loses from one processor or torch to another; the spread is "
    "that of this run alone."
)
"""What the kernel is and what the comparison is worth."""

RECORDED_MILLISECONDS = {256: (3.4, 2.7), 1024: (12.0, 26.0), 4096: (57.0, 297.0)}
"""By length: the kernel, and SDPA beside it, forward and backward in the comparison's shape."""


@dataclass(frozen=True)
class RecordedKernel:
    """A comparison with figures of another machine.

    Attributes
    ----------
    measured_here : bool
        Always False.
    recorded_kernel_milliseconds, recorded_sdpa_milliseconds : float
        What kernel and SDPA took on the machine where they were recorded.
    times_faster : Ratio
        Time of the kernel over that of ``"auto"``, both taken as ratios to the SDPA beside them; higher is
        faster for ``"auto"``.
    """

    measured_here: bool
    recorded_kernel_milliseconds: float
    recorded_sdpa_milliseconds: float
    times_faster: Ratio


def beside_recorded_kernel(length: int, times_sdpa: Ratio) -> RecordedKernel:
    """Set a read that is so many times faster than SDPA here beside the kernel and its own SDPA."""
    kernel, sdpa = RECORDED_MILLISECONDS[length]
    return RecordedKernel(False, kernel, sdpa, times_sdpa.times(kernel / sdpa))
