"""Whether eager torch forecasts what the streaming forecaster does."""

from __future__ import annotations

import numpy as np
import torch

from quantattn.bench.streaming_calls import ENTITY
from quantattn.bench.streaming_cases import random_network, random_tokens
from quantattn.bench.streaming_eager import EagerLinear, EagerSoftmax
from quantattn.bench.streaming_results import Agreement
from quantattn.errors import QuantAttnError
from quantattn.forecasters import NetworkStream
from quantattn.forecasters.config import Attention

_EVENTS = 300
TOLERANCE = 1e-4
"""Largest difference, in standard deviations of the forecasts."""


def agreement(attention: Attention, width: int) -> Agreement:
    """Write the same events into both, read the same forecasts, and compare.

    Raises
    ------
    QuantAttnError
        If a forecast differs by more than rounding.
    """
    network = random_network(attention, width)
    stream = NetworkStream(network)
    eager = EagerLinear(network) if attention == "linear" else EagerSoftmax(network, _EVENTS + 1)
    tokens = random_tokens(_EVENTS)
    found = []
    with torch.inference_mode():
        for event, query, at in zip(tokens.events, tokens.queries, tokens.times(0).tolist(), strict=True):
            stream.write(ENTITY, event, at)
            eager.write(ENTITY, torch.from_numpy(event), at)
            theirs = eager.read(ENTITY, torch.from_numpy(query), at + 1)
            found.append((float(stream.read(ENTITY, query, at + 1)[0]), float(theirs[0])))
    ours, theirs_all = np.array(found).T
    difference, spread = float(np.abs(ours - theirs_all).max()), float(ours.std())
    if not difference <= TOLERANCE * spread:
        raise QuantAttnError(
            f"eager torch ({attention}, width {width}) is up to {difference:.3g} off our forecasts, whose "
            f"spread is {spread:.3g}; they are not the same network, so nothing is compared: run the tests"
        )
    return Agreement(attention, width, difference, spread)
