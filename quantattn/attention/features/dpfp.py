"""Deterministic parameter-free projection."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from quantattn.attention.features.base import FeatureMap, check_size
from quantattn.errors import FeatureMapError


class Dpfp(FeatureMap):
    """Products of rectified halves (Schlag, Irie & Schmidhuber, 2021).

    From "Linear Transformers Are Secretly Fast Weight Programmers".
    With ``h = relu([x, -x])``, of width ``2 d``, the features are ``h_i * h_(i + j)`` for every i and for j
    from 1 to `nu`, indices taken around. They tell more keys apart than the ``d`` of an elementwise map. An
    input whose nonzero entries never meet, such as one with a single nonzero entry, has no feature at all.

    Parameters
    ----------
    nu : int, default 1
        Number of shifts; the width is ``2 d nu``. Less than ``2 d``.
    """

    name: ClassVar[str] = "dpfp"
    positive: ClassVar[bool] = True

    def __init__(self, nu: int = 1) -> None:
        self.nu = check_size(nu, "nu")

    def width(self, d: int) -> int:
        """Return ``2 d nu``."""
        if self.nu >= 2 * d:
            raise FeatureMapError(f"nu: {self.nu} shifts need a width above {self.nu / 2:g}, got {d}.")
        return 2 * d * self.nu

    def __call__(self, x: Tensor) -> Tensor:
        """Return the products of every rectified half with its next `nu` neighbours."""
        self.width(x.shape[-1])
        half = torch.cat([x, -x], -1).relu()
        return torch.cat([half * half.roll(-shift, -1) for shift in range(1, self.nu + 1)], -1)

    @property
    def fingerprint(self) -> str:
        """Name and number of shifts."""
        return f"{self.name}/{self.nu}"
