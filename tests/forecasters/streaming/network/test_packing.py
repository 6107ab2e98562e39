"""Weights in the order and the panels in which the kernels walk them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from quantattn.forecasters import AttentionNetwork
from quantattn.forecasters.streaming import pack
from tests.forecasters.sequences import small_config


def numbered(**options: Any) -> AttentionNetwork:
    """A network whose weights are 1, 2, ... in the order of its parameters."""
    sizes = {"width": 4, "heads": 2, "layers": 2, "feed_forward": 3, "half_lives": (None, None), **options}
    network = AttentionNetwork(small_config(**sizes), 2, 3)
    first = 1
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.arange(first, first + weight.numel()).view(weight.shape).float())
            first += weight.numel()
    return network


def padded(numbers: np.ndarray) -> list[float]:
    return [*numbers.tolist(), *[0.0] * (-len(numbers) % 16)]


def test_order() -> None:
    """Each matrix fits into one panel here: its bias, then a row for each input, padded to 16 numbers."""
    network = numbered()
    packed = pack(network)
    w = {name: value.numpy() for name, value in network.state_dict().items()}

    def matrix(*parts: tuple[np.ndarray, np.ndarray]) -> list[float]:
        lines: list[float] = []
        for row in range(parts[0][0].shape[1] + 1):
            for weight, bias in parts:
                lines += padded(weight[:, row - 1] if row else bias)
        return lines

    def linear(name: str) -> list[float]:
        return matrix((w[f"{name}.weight"], w[f"{name}.bias"]))

    def norm(name: str) -> list[float]:
        return [*padded(w[f"{name}.weight"]), *padded(w[f"{name}.bias"])]

    expected = [*linear("event_embedding"), *padded(w["start"]), *linear("query_embedding")]
    expected += matrix((w["direct.weight"], np.zeros(1, np.float32)))
    for layer in (0, 1):
        block = f"blocks.{layer}"
        weight, bias = w[f"{block}.projection.weight"], w[f"{block}.projection.bias"]
        expected += norm(f"{block}.attention_norm")
        expected += matrix((weight[4:8], bias[4:8]), (weight[8:], bias[8:]))  # keys beside values
        expected += matrix((weight[:4], bias[:4]))
        expected += [*linear(f"{block}.mix"), *norm(f"{block}.feed_forward_norm")]
        expected += [*linear(f"{block}.expand"), *linear(f"{block}.contract")]
    expected += [*norm("final_norm"), *linear("head")]
    assert packed.weights.tolist() == expected
    assert packed.weights.dtype == np.float32
    assert packed.sizes == (2, 3, 4, 2, 2, 3, 1)


def test_wide_matrices_lie_in_panels() -> None:
    """112 outputs are panels of 64, 32 and 16."""
    network = numbered(feed_forward=112)
    weight, bias = (
        x.detach().numpy() for x in (network.blocks[0].expand.weight, network.blocks[0].expand.bias)
    )
    lines = np.concatenate([bias[None], weight.T])
    panels = np.concatenate([lines[:, a:b].ravel() for a, b in ((0, 64), (64, 96), (96, 112))])
    weights = pack(network).weights
    start = int(np.flatnonzero(weights == bias[0])[0])
    assert weights[start : start + len(panels)].tolist() == panels.tolist()


@pytest.mark.parametrize(
    "options", [{}, {"width": 36, "heads": 3, "feed_forward": 65, "half_lives": (1.0,) * 3}]
)
def test_every_weight_is_packed_once(options: dict[str, Any]) -> None:
    network = numbered(**options)
    weights = pack(network).weights
    count = sum(p.numel() for p in network.parameters())
    assert sorted(weights[weights != 0].tolist()) == list(range(1, count + 1))
    assert weights.ctypes.data % 64 == 0
    assert len(weights) % 16 == 0


def test_packed_weights_are_a_copy() -> None:
    network = numbered()
    packed = pack(network)
    before = packed.weights.copy()
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
    assert packed.weights.tolist() == before.tolist()


def test_a_network_in_float64_is_packed_in_float32() -> None:
    assert pack(numbered().double()).weights.dtype == np.float32
