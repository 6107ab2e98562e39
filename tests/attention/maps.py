"""Every feature map, with its similarity written out pair by pair: nothing here is made of features."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from quantattn.attention import (
    Dpfp,
    Elu1,
    Favor,
    FeatureMap,
    Hedgehog,
    Identity,
    Relu,
    SquaredRelu,
    Taylor2,
    backend_names,
)

BACKENDS = backend_names()


def hedgehog(d: int, heads: int | None, activation: str, tied: bool = False) -> Hedgehog:
    """Return a map whose matrices are not the identity that they start as."""
    made = Hedgehog(d, heads=heads, features=d + 1, activation=activation, tied=tied).double()
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.4 * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return made


MAPS: dict[str, Callable[[int, int], FeatureMap]] = {
    "identity": lambda d, heads: Identity(),
    "relu": lambda d, heads: Relu(),
    "squared_relu": lambda d, heads: SquaredRelu(),
    "elu1": lambda d, heads: Elu1(),
    "dpfp": lambda d, heads: Dpfp(),
    "dpfp of three": lambda d, heads: Dpfp(3),
    "taylor2": lambda d, heads: Taylor2(),
    "taylor2 unpacked": lambda d, heads: Taylor2(packed=False, scale=0.7),
    "favor": lambda d, heads: Favor(d, 9, seed=3),
    "favor for each head": lambda d, heads: Favor(d, 5, heads=heads, kind="iid", seed=4, scale=0.6),
    "hedgehog": lambda d, heads: hedgehog(d, None, "softmax"),
    "hedgehog for each head": lambda d, heads: hedgehog(d, heads, "exp"),
    "hedgehog tied": lambda d, heads: hedgehog(d, None, "softmax", tied=True),
}

PLAIN = [name for name in MAPS if "favor" not in name and "hedgehog" not in name]
"""Maps without a matrix product, so that the bits of a row do not depend on how many rows there are."""


def similarity(map_: FeatureMap, query: Tensor, key: Tensor) -> Tensor:
    """Return ``(B, H, Tq, T)`` similarities of ``(B, H, ., d)`` from their formula."""
    q, k = query[:, :, :, None], key[:, :, None]
    if isinstance(map_, Taylor2):
        s = (q * k).sum(-1) * (map_.scale or query.shape[-1] ** -0.5)
        return 1 + s + s**2 / 2
    if isinstance(map_, Favor):
        root = math.sqrt(map_.scale or query.shape[-1] ** -0.5)
        q, k = q * root, k * root
        rows = map_.projection.to(query.dtype)
        rows = rows[None] if map_.heads is None else rows
        total = torch.zeros(())
        for j in range(rows.shape[1]):
            w = rows[:, j][None, :, None, None]
            total = total + (w * (q + k) - q**2 / 2 - k**2 / 2).sum(-1).exp()
        return total / rows.shape[1]
    if isinstance(map_, Dpfp):
        total = torch.zeros(())
        signed = lambda x, i: x[..., i] if i < x.shape[-1] else -x[..., i - x.shape[-1]]  # noqa: E731
        width = 2 * query.shape[-1]
        for i in range(width):
            for j in range(1, map_.nu + 1):
                pairs = [signed(x, i).relu() * signed(x, (i - j) % width).relu() for x in (q, k)]
                total = total + pairs[0] * pairs[1]
        return total
    if isinstance(map_, Hedgehog):
        sides = []
        for x, weight in ((q, map_.query_weight), (k, map_.key_weight)):
            weight = weight.to(x.dtype)
            weight = weight[None] if map_.heads is None else weight
            rows = (weight[None, :, None, None] * x[..., None, :]).sum(-1)
            plus, minus = rows.exp(), (-rows).exp()
            if map_.activation == "softmax":
                plus, minus = plus / plus.sum(-1, keepdim=True), minus / minus.sum(-1, keepdim=True)
            sides.append((plus, minus))
        return (sides[0][0] * sides[1][0] + sides[0][1] * sides[1][1]).sum(-1)
    phi = {
        "identity": lambda x: x,
        "relu": lambda x: x.relu(),
        "squared_relu": lambda x: x.relu() ** 2,
        "elu1": lambda x: torch.where(x > 0, x + 1, x.clamp(max=0).exp()),
    }[map_.name]
    return (phi(q) * phi(k)).sum(-1)
