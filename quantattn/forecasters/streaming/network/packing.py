"""A network's weights as one flat float32 array, in the order and panels in which the kernels walk them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from quantattn.forecasters.network import AttentionNetwork, Block
from quantattn.forecasters.streaming.network.kernels.plan import LANES, vectors
from quantattn.forecasters.streaming.network.kernels.tiles import panel_widths

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PackedNetwork:
    """Weights and sizes for the streaming kernels.

    Parameters
    ----------
    weights : ndarray of float32, shape (n,)
        Event embedding, start token, query embedding, direct weights; then per block: norm, keys and values,
        queries, mix, norm, expand, contract; then final norm and head. Rows are padded with zeros to whole
        vectors of 16 numbers, and a matrix lies in panels of 4, 2 or 1 vectors of outputs: the panel's bias,
        then its row of weights for each input.
    sizes : tuple of int, length 7
        event width, query width, width, heads, layers, feed-forward width, outputs.
    """

    weights: Floats
    sizes: tuple[int, int, int, int, int, int, int]


def aligned(numbers: int) -> Floats:
    """Give zeros that start at a cache line, so that no vector lies across two."""
    room = np.zeros(numbers + LANES, np.float32)
    start = -room.ctypes.data % (4 * LANES) // 4
    return room[start : start + numbers]


def _array(tensor: torch.Tensor) -> Floats:
    return tensor.detach().to(torch.float32).numpy()


def _padded(x: Floats) -> Floats:
    """Pad the last axis to whole vectors."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % LANES)])


def _panels(lines: Floats) -> list[Floats]:
    """Cut bias and weights, (1 + inputs, outputs) and padded, into panels."""
    parts, first = [], 0
    for width in panel_widths(vectors(lines.shape[1])):
        parts.append(lines[:, first : first + width * LANES].ravel())
        first += width * LANES
    return parts


def _matrix(*parts: tuple[torch.Tensor, torch.Tensor | None]) -> list[Floats]:
    """Lay out matrices (outputs, inputs) with their biases side by side, each padded."""
    lines = []
    for weight, bias in parts:
        above = np.zeros(len(weight), np.float32) if bias is None else _array(bias)
        lines.append(_padded(np.concatenate([above[None], _array(weight).T])))
    return _panels(np.concatenate(lines, axis=1))


def _linear(layer: torch.nn.Linear) -> list[Floats]:
    return _matrix((layer.weight, layer.bias))


def _norm(layer: torch.nn.LayerNorm) -> list[Floats]:
    return [_padded(_array(layer.weight)), _padded(_array(layer.bias))]


def pack(network: AttentionNetwork) -> PackedNetwork:
    """Pack a network for the streaming kernels.

    Parameters
    ----------
    network : AttentionNetwork
        The network; it is not changed.

    Returns
    -------
    PackedNetwork
    """
    parts = [
        *_linear(network.event_embedding),
        _padded(_array(network.start)),
        *_linear(network.query_embedding),
        *_matrix((network.direct.weight, None)),
    ]
    for block in cast(Iterable[Block], network.blocks):
        (query, key, value), (above_query, above_key, above_value) = (
            x.detach().chunk(3) for x in (block.projection.weight, block.projection.bias)
        )
        parts += [
            *_norm(block.attention_norm),
            *_matrix((key, above_key), (value, above_value)),
            *_matrix((query, above_query)),
            *_linear(block.mix),
            *_norm(block.feed_forward_norm),
            *_linear(block.expand),
            *_linear(block.contract),
        ]
    parts += [*_norm(network.final_norm), *_linear(network.head)]
    weights = aligned(sum(len(part) for part in parts))
    np.concatenate(parts, out=weights)
    config = network.config
    return PackedNetwork(
        weights,
        (
            network.event_width,
            network.query_width,
            config.width,
            config.heads,
            config.layers,
            config.feed_forward,
            network.outputs,
        ),
    )
