"""How long one event and one forecast take, beside eager torch, the softmax twin and the floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch

from quantattn.bench.machine import describe_machine
from quantattn.bench.streaming_agreement import agreement
from quantattn.bench.streaming_calls import Contestant, Effort, clock_overhead, time_steps
from quantattn.bench.streaming_cases import random_network, random_tokens
from quantattn.bench.streaming_cold import cold_start
from quantattn.bench.streaming_eager import EagerLinear, EagerSoftmax
from quantattn.bench.streaming_floor import floors
from quantattn.bench.streaming_histories import eager_softmax, linear_memories, ours, softmax_memories
from quantattn.bench.streaming_rates import token_rates
from quantattn.bench.streaming_raw import raw_rates
from quantattn.bench.streaming_results import EagerRatio, StepResult, StreamingBench
from quantattn.bench.streaming_targets import WIDTH, streaming_targets
from quantattn.bench.timing import crossing, torch_threads
from quantattn.bench.training_steps import EVENT_WIDTH, HEADS, LAYERS, QUERY_WIDTH
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention

__all__ = ["FULL", "QUICK", "StreamingBench", "StreamingSizes", "bench_streaming"]


_EFFORT = Effort(20_000, 5_000, 5.0)


@dataclass(frozen=True)
class StreamingSizes:
    """How much is measured.

    Attributes
    ----------
    widths : tuple of int
        Of the networks; all but single steps is measured at the first.
    shortest : int
        History at which eager torch is compared, and every width.
    histories : tuple of int
        Of the linear forecaster, beside `twin_histories`.
    twin_histories : tuple of int
        Of both twins.
    longest_written : int
        Events that are written into the twin's cache; beyond, they repeat.
    effort : Effort
        Of single calls.
    events : int
        Of a run that gives a rate.
    entities : int
        Of a batched call.
    seconds : float
        For each rate and each floor.
    raw_events : int
        Of a run on raw events.
    cold_events : int
        Of a cold start.
    patience : float
        Seconds; a cold start that would take longer is measured in pieces.
    """

    widths: tuple[int, ...] = (WIDTH, 32)
    shortest: int = 1_000
    histories: tuple[int, ...] = (1_000, 100_000, 10_000_000)
    twin_histories: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    longest_written: int = 10_000
    effort: Effort = _EFFORT
    events: int = 10_000
    entities: int = 1_000
    seconds: float = 1.0
    raw_events: int = 2_000
    cold_events: int = 100_000
    patience: float = 90.0


FULL = StreamingSizes()
QUICK = StreamingSizes(
    histories=(1_000, 100_000, 1_000_000),
    twin_histories=(100, 1_000, 10_000),
    longest_written=1_000,
    effort=Effort(2_000, 1_000, 0.2),
    seconds=0.1,
    raw_events=500,
    cold_events=10_000,
    patience=1.0,
)


def bench_streaming(*, quick: bool = False, sizes: StreamingSizes | None = None) -> StreamingBench:
    """Time single events and forecasts, rates, growth with the history, and the way from raw events.

    One thread throughout. Eager torch is held against our forecasts before anything is timed.

    Parameters
    ----------
    quick : bool, default False
        Fewer calls, shorter histories; no verdicts.
    sizes : StreamingSizes, optional
        How much is measured; :data:`FULL` or :data:`QUICK` if not given.

    Raises
    ------
    QuantAttnError
        If eager torch forecasts something else.
    """
    size = sizes or (QUICK if quick else FULL)
    with torch_threads(1), torch.inference_mode():
        agreed = tuple(agreement(kind, width) for width in size.widths for kind in get_args(Attention))
        clock = clock_overhead(size.effort.calls)
        steps = tuple(step for width in size.widths for step in _steps(width, size))
        network = random_network("linear", size.widths[0])
        rates, times_single = token_rates(
            network, events=size.events, entities=size.entities, seconds=size.seconds
        )
        raw = raw_rates(size.widths[0], events=size.raw_events, seconds=size.seconds)
        cold = tuple(
            cold_start(kind, size.widths[0], size.cold_events, patience=size.patience)
            for kind in get_args(Attention)
        )
        least = tuple(
            floor
            for width in size.widths
            for floor in floors(
                random_network("linear", width), calls=size.events // 10, seconds=size.seconds
            )
        )
    first = [step for step in steps if step.width == size.widths[0]]
    linear = {step.history: step for step in first if step.model == "linear"}
    twin = {step.history: step for step in first if step.model == "softmax"}
    growth = _growth([linear[history] for history in sorted(set(size.histories))])
    times_eager = _times_eager(steps)
    lengths = sorted(twin)
    sums = [[step.update.p50 + step.read.p50 for step in (own[n] for n in lengths)] for own in (linear, twin)]
    return StreamingBench(
        describe_machine(),
        1,
        quick,
        {"heads": HEADS, "layers": LAYERS, "event_width": EVENT_WIDTH, "query_width": QUERY_WIDTH},
        clock,
        agreed,
        steps,
        times_eager,
        {n: slow / fast for n, fast, slow in zip(lengths, *sums, strict=True)},
        crossing(lengths, *sums),
        growth,
        size.entities,
        rates,
        times_single,
        least,
        raw,
        cold,
        () if quick else streaming_targets(steps, times_eager, growth, rates, times_single),
    )


def _steps(width: int, size: StreamingSizes) -> list[StepResult]:
    """Time single calls: at the first width every history, at the others the shortest alone."""
    whole = width == size.widths[0]
    twin = size.twin_histories if whole else (size.shortest,)
    histories = sorted({*twin, *(size.histories if whole else ()), size.shortest})
    streams: dict[Attention, NetworkStream] = {}
    contestants: dict[tuple[str, int], Contestant] = {}
    for kind in get_args(Attention):
        network = random_network(kind, width)
        stream = streams[kind] = NetworkStream(network)
        stream.warm_up()
        memories = (
            linear_memories(network, histories)
            if kind == "linear"
            else softmax_memories(network, twin, longest_written=size.longest_written)
        )
        contestants |= {
            (kind, history): ours(stream, history, memory) for history, memory in memories.items()
        }
    eager = EagerLinear(random_network("linear", width))
    contestants["eager linear", size.shortest] = Contestant(
        eager, size.shortest, lambda: eager.last_event or 0, torch.from_numpy
    )
    room = 2 + max(twin) + max(size.effort.block, max(twin) // 5)
    cached = EagerSoftmax(random_network("softmax", width), room)
    for history in (history for history in twin if history >= size.shortest):
        contestants["eager softmax", history] = Contestant(
            cached, history, eager_softmax(cached, history), torch.from_numpy
        )
    named = {f"{model} {history}": each for (model, history), each in contestants.items()}
    found = time_steps(named, random_tokens(size.effort.block), size.effort)
    made = []
    for (model, history), each in sorted(contestants.items(), key=lambda item: (item[0][1], item[0][0])):
        held = None
        if isinstance(each.steps, NetworkStream):
            each.rewind()
            held = each.steps.state_bytes("A")
        made.append(StepResult(model, width, history, *found[f"{model} {history}"], held))
    return made


def _growth(steps: list[StepResult]) -> dict[str, float]:
    updates, reads = [step.update.p50 for step in steps], [step.read.p50 for step in steps]
    return {"update": max(updates) / min(updates), "read": max(reads) / min(reads)}


def _times_eager(steps: tuple[StepResult, ...]) -> tuple[EagerRatio, ...]:
    own = {(step.model, step.width, step.history): step for step in steps}
    return tuple(
        EagerRatio(
            model,
            width,
            history,
            own[f"eager {model}", width, history].update.p50 / step.update.p50,
            own[f"eager {model}", width, history].read.p50 / step.read.p50,
        )
        for (model, width, history), step in own.items()
        if (f"eager {model}", width, history) in own
    )
