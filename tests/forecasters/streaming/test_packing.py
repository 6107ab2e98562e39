from __future__ import annotations

import numpy as np
import torch

from quantattn.forecasters import AttentionNetwork
from quantattn.forecasters.streaming import pack

from ..sequences import small_config


def numbered() -> AttentionNetwork:
    """A network whose weights are 0, 1, 2, ... in the order of its parameters."""
    network = AttentionNetwork(
        small_config(width=4, heads=2, layers=2, feed_forward=3, half_lives=(None, None)), 2, 3
    )
    first = 0
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.arange(first, first + weight.numel()).view(weight.shape).float())
            first += weight.numel()
    return network


def test_order() -> None:
    network = numbered()
    packed = pack(network)
    w = {name: value.numpy() for name, value in network.state_dict().items()}
    names = [("event_embedding", True), ("start", False), ("query_embedding", True), ("direct.weight", False)]
    for layer in (0, 1):
        names += [
            (f"blocks.{layer}.attention_norm", False),
            (f"blocks.{layer}.projection", True),
            (f"blocks.{layer}.mix", True),
            (f"blocks.{layer}.feed_forward_norm", False),
            (f"blocks.{layer}.expand", True),
            (f"blocks.{layer}.contract", True),
        ]
    names += [("final_norm", False), ("head", True)]
    expected: list[float] = []
    for name, is_matrix in names:
        if name in w:
            expected += w[name].ravel().tolist()
        else:
            weight = w[f"{name}.weight"]
            # Matrices lie with the input outside: (in, out).
            expected += (weight.T if is_matrix else weight).ravel().tolist()
            expected += w[f"{name}.bias"].tolist()
    assert packed.weights.tolist() == expected
    assert packed.weights.dtype == np.float32
    assert packed.sizes == (2, 3, 4, 2, 2, 3, 1)


def test_every_weight_is_packed_once() -> None:
    network = numbered()
    assert sorted(pack(network).weights.tolist()) == list(range(sum(p.numel() for p in network.parameters())))


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
