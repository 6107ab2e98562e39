"""The GRU network: in torch to train, and compiled to forecast one event after the other."""

from __future__ import annotations

import math
from typing import Any, cast

import numba
import numpy as np
import torch
from torch import Tensor, nn

from quantattn.forecasters.baselines.table import Floats, Integers


class GruNetwork(nn.Module):
    """Events run through a GRU; each query reads the state behind its last visible event.

    Parameters
    ----------
    event_width, query_width : int
        Widths of the tokens.
    hidden : int
        Width of the state.
    """

    def __init__(self, event_width: int, query_width: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(event_width, hidden, batch_first=True)
        self.mix = nn.Linear(hidden + query_width, hidden)
        self.head = nn.Linear(hidden, 1)
        # What is linear in the as-of features need not pass through the state.
        self.direct = nn.Linear(query_width, 1, bias=False)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        nn.init.zeros_(self.direct.weight)

    def forward(self, events: Tensor, queries: Tensor, counts: Tensor) -> Tensor:
        """Forecast at every query.

        Parameters
        ----------
        events : Tensor, shape (B, T, event_width)
        queries : Tensor, shape (B, M, query_width)
        counts : Tensor of int64, shape (B, M)
            How many leading events each query reads.

        Returns
        -------
        Tensor, shape (B, M)
            In units of the scaled target.
        """
        states, _ = self.gru(events)
        empty = states.new_zeros(states.shape[0], 1, states.shape[2])
        read = torch.cat([empty, states], dim=1).gather(1, counts[..., None].expand(-1, -1, states.shape[2]))
        mixed = torch.relu(self.mix(torch.cat([read, queries], dim=-1)))
        forecasts: Tensor = (self.head(mixed) + self.direct(queries))[..., 0]
        return forecasts


def forecasts_of(network: GruNetwork, events: Any, queries: Any, counts: Integers) -> Floats:
    """Forecast some queries of one entity, its events one after the other.

    The order of every sum depends on the widths alone, so no later event and no other query can change a bit.

    Parameters
    ----------
    network : GruNetwork
    events : ndarray of float32, shape (n, event_width)
    queries : ndarray of float32, shape (m, query_width)
    counts : ndarray of int64, shape (m,)
        How many leading events each reads, in any order; at most n.

    Returns
    -------
    ndarray of float64, shape (m,)
        In units of the scaled target.
    """
    weights = {name: value.detach().double().numpy() for name, value in network.state_dict().items()}
    order = np.argsort(counts, kind="stable")
    ordered = _forecast(
        np.ascontiguousarray(events, np.float64),
        np.ascontiguousarray(queries[order], np.float64),
        np.ascontiguousarray(counts[order]),
        *(np.ascontiguousarray(weights[f"gru.weight_{part}_l0"].T) for part in ("ih", "hh")),
        *(weights[f"gru.bias_{part}_l0"] for part in ("ih", "hh")),
        np.ascontiguousarray(weights["mix.weight"].T),
        weights["mix.bias"],
        weights["head.weight"][0],
        float(weights["head.bias"][0]),
        weights["direct.weight"][0],
    )
    forecasts = np.empty(counts.size)
    forecasts[order] = ordered
    return forecasts


def _njit(function: Any) -> Any:
    return cast(Any, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


@_njit
def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@_njit
def _affine(x: Any, weight: Any, bias: Any, out: Any) -> None:
    """Write ``x @ weight + bias`` to `out`; the inner loop vectorises without changing a sum's order."""
    for j in range(out.size):
        out[j] = bias[j]
    for i in range(x.size):
        factor = x[i]
        for j in range(out.size):
            out[j] += factor * weight[i, j]


@_njit
def _forecast(
    events: Any,
    queries: Any,
    counts: Any,
    input_weight: Any,
    state_weight: Any,
    input_bias: Any,
    state_bias: Any,
    mix_weight: Any,
    mix_bias: Any,
    head_weight: Any,
    head_bias: float,
    direct: Any,
) -> Any:
    hidden = state_weight.shape[0]
    state = np.zeros(hidden)
    fed, kept = np.empty(3 * hidden), np.empty(3 * hidden)
    joined, mixed = np.empty(hidden + queries.shape[1]), np.empty(hidden)
    forecasts = np.empty(counts.size)
    done = 0
    for query in range(counts.size):
        while done < counts[query]:
            _affine(events[done], input_weight, input_bias, fed)
            _affine(state, state_weight, state_bias, kept)
            for j in range(hidden):
                # Gates in torch's order: reset, update, new.
                reset = _sigmoid(fed[j] + kept[j])
                update = _sigmoid(fed[hidden + j] + kept[hidden + j])
                new = math.tanh(fed[2 * hidden + j] + reset * kept[2 * hidden + j])
                state[j] = (1.0 - update) * new + update * state[j]
            done += 1
        joined[:hidden] = state
        joined[hidden:] = queries[query]
        _affine(joined, mix_weight, mix_bias, mixed)
        total = head_bias
        for j in range(hidden):
            total += head_weight[j] * max(mixed[j], 0.0)
        for j in range(direct.size):
            total += direct[j] * queries[query, j]
        forecasts[query] = total
    return forecasts
