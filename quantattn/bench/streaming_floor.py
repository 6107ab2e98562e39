"""What a step needs at least: its weights and its state brought from the cache once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
import numpy.typing as npt

from quantattn.bench.streaming_calls import ENTITY, no_collection
from quantattn.bench.streaming_cases import random_tokens
from quantattn.bench.timing import Ratio, over, take_turns
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.network import AttentionNetwork

ABOUT_FLOOR = (
    "floor: bytes of weights and state that the formulas touch (an update computes no query of the last "
    "layer and nothing behind it; a read computes no key and no value; the state counts twice where it is "
    "written), over the rate at which one compiled loop sums as many bytes again and again, so from the "
    "cache that holds the weights too. Steps and sums take turns, each in runs of calls; medians, in "
    "brackets quartiles."
)
STEPS = ("update", "read")
_LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Floor:
    """Bytes of a step against the time that it took.

    Attributes
    ----------
    step : str
        ``"update"`` or ``"read"``.
    width : int
        Of the network.
    weight_bytes, state_bytes : int
        Bytes of weights and of state that it touches.
    gigabytes_per_second : float
        Measured rate of reading as many bytes.
    floor_microseconds : float
        Time to read them once.
    step_microseconds : float
        Time of the step, in the same turns.
    times_floor : Ratio
        Of the step over the floor; lower is faster.
    """

    step: str
    width: int
    weight_bytes: int
    state_bytes: int
    gigabytes_per_second: float
    floor_microseconds: float
    step_microseconds: float
    times_floor: Ratio


def step_bytes(network: AttentionNetwork, step: str) -> tuple[int, int]:
    """Return the bytes of weights and of linear state that one step touches at least.

    Parameters
    ----------
    network : AttentionNetwork
        Sizes alone matter.
    step : {"update", "read"}
        One event written, or one forecast read.

    Returns
    -------
    weights, state : int
        In float32.
    """
    config = network.config
    width, inner, rank = config.width, config.feed_forward, config.head_width
    norm = 2 * width

    def affine(inputs: int, outputs: int) -> int:
        return (inputs + 1) * outputs

    behind = affine(width, width) + norm + affine(width, inner) + affine(inner, width)
    state = config.layers * config.heads * rank * (rank + 1)
    if step == "update":
        inside = norm + affine(width, 3 * width) + behind
        last = norm + affine(width, 2 * width)
        weights = affine(network.event_width, width) + (config.layers - 1) * inside + last
        return 4 * weights, 2 * 4 * state
    block = norm + affine(width, width) + behind
    ends = affine(network.query_width, width) + network.query_width * network.outputs
    weights = ends + config.layers * block + norm + affine(width, network.outputs)
    return 4 * weights, 4 * state


@numba.njit(nogil=True, fastmath={"reassoc", "nsz"})
def sum_often(x: npt.NDArray[np.float32], times: int) -> float:  # pragma: no cover - compiled
    """Sum an array so many times; compiled."""
    total = np.float32(0.0)
    for turn in range(times):
        # What is summed depends on the turn, so that no sum can be kept from the one before.
        part = np.float32(turn)
        for i in range(x.shape[0]):
            part += x[i]
        total = total * np.float32(0.5) + part
    return float(total)


def floors(network: AttentionNetwork, *, calls: int, seconds: float) -> tuple[Floor, ...]:
    """Time updates and reads, and loops that read as many bytes as they touch; all take turns.

    Parameters
    ----------
    network : AttentionNetwork
        Of linear attention.
    calls : int
        Updates, reads, or rounds through the bytes, of one turn.
    seconds : float
        For each of the four.
    """
    stream, tokens = NetworkStream(network), random_tokens(calls)
    stream.warm_up()
    stream.add(ENTITY)
    events, queries = list(tokens.events), list(tokens.queries)

    def update() -> None:
        write = stream.write
        for event, at in zip(events, tokens.times(stream.last_event(ENTITY) or 0).tolist(), strict=True):
            write(ENTITY, event, at)

    def read() -> None:
        look, at = stream.read, (stream.last_event(ENTITY) or 0) + 1
        for query in queries:
            look(ENTITY, query, at)

    sizes = {step: step_bytes(network, step) for step in STEPS}
    runs: dict[str, Callable[[], object]] = {"update": update, "read": read}
    for step, parts in sizes.items():
        runs[f"bytes of {step}"] = partial(sum_often, _aligned(sum(parts) // 4), calls)
    with no_collection():
        found = take_turns(runs, seconds=seconds)
    made = []
    for step, (weights, state) in sizes.items():
        took, least = found[step], found[f"bytes of {step}"]
        rate = 1e-6 * calls * (weights + state) / least.milliseconds
        micro = 1e3 / calls
        made.append(
            Floor(
                step,
                network.config.width,
                weights,
                state,
                rate,
                micro * least.milliseconds,
                micro * took.milliseconds,
                over(took, least),
            )
        )
    return tuple(made)


def _aligned(number: int) -> npt.NDArray[np.float32]:
    """Give so many ones that begin at a cache line: reads across two lines would be slower."""
    room = np.ones(number + _LINE // 4, np.float32)
    skip = -room.ctypes.data % _LINE // 4
    return room[skip : skip + number]
