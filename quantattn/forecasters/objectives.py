"""Losses of the heads, each a plain function of tensors, and the objective that training minimises.

All act on scaled targets. QLIKE alone needs the scale back, for it is a ratio of variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from quantattn.errors import UsageError
from quantattn.forecasters.heads import HeadConfig, HeadKind, bounded, rising

Loss = Literal["squared", "absolute", "huber", "qlike", "gaussian", "pinball", "cross_entropy"]

LOSSES: dict[HeadKind, tuple[Loss, ...]] = {
    "point": ("squared", "absolute", "huber", "qlike"),
    "gaussian": ("gaussian",),
    "quantile": ("pinball",),
    "direction": ("cross_entropy",),
}
"""Which losses a head can be trained with; the first is the usual one."""


def squared_loss(forecast: Tensor, target: Tensor) -> Tensor:
    """Give the squared error."""
    return (forecast - target).square()


def absolute_loss(forecast: Tensor, target: Tensor) -> Tensor:
    """Give the absolute error."""
    return (forecast - target).abs()


def huber_loss(forecast: Tensor, target: Tensor, delta: float) -> Tensor:
    """Give half the squared error up to `delta`, and beyond it the line that continues it.

    Huber (1964), "Robust Estimation of a Location Parameter", section 2.
    """
    return torch.nn.functional.huber_loss(forecast, target, reduction="none", delta=delta)


def qlike_loss(log_forecast: Tensor, log_target: Tensor) -> Tensor:
    """Give QLIKE of two logarithms of variances: ``v / h - log(v / h) - 1``, zero where they agree.

    Patton (2011), "Volatility forecast comparison using imperfect volatility proxies", equation 6: the
    forecast that minimises it is the mean of the variance, not of its logarithm.
    """
    ratio = log_target - log_forecast
    return torch.expm1(ratio) - ratio


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Give the negative log-likelihood of a normal distribution, without its constant ``log(2 pi) / 2``."""
    return 0.5 * (log_variance + (target - mean).square() * torch.exp(-log_variance))


def pinball_loss(quantiles: Tensor, target: Tensor, levels: Tensor) -> Tensor:
    """Give the pinball losses of quantiles ``(..., levels)``, averaged over the levels.

    Koenker and Bassett (1978), "Regression Quantiles", equation 2.1.
    """
    error = target[..., None] - quantiles
    return torch.maximum(levels * error, (levels - 1) * error).mean(-1)


def cross_entropy_loss(logit: Tensor, up: Tensor) -> Tensor:
    """Give the negative log-likelihood of a coin: `up` is 1 where the target is positive, else 0."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logit, up, reduction="none")


@dataclass(frozen=True)
class Objective:
    """What training minimises, averaged over forecasts and targets.

    Parameters
    ----------
    loss : str, default "squared"
        One of :data:`LOSSES` of the head.
    delta : float, default 1.0
        Where the Huber loss turns into a line, in units of the scaled target.
    scales : tuple of float, default ``()``
        Scale of each target, for QLIKE: scaled targets are logarithms of variances divided by it.

    Raises
    ------
    UsageError
        If the loss is unknown or `delta` is not positive.
    """

    loss: Loss = "squared"
    delta: float = 1.0
    scales: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the name and the numbers."""
        known = [name for names in LOSSES.values() for name in names]
        if self.loss not in known:
            raise UsageError(f"loss={self.loss!r} is not known; use one of {', '.join(map(repr, known))}")
        if not 0 < self.delta < float("inf"):
            raise UsageError(f"delta={self.delta} must be a positive number")

    def check(self, head: HeadConfig) -> None:
        """Refuse a head that cannot be trained with this loss.

        Raises
        ------
        UsageError
            Naming the losses that it can be trained with.
        """
        fitting = LOSSES[head.kind]
        if self.loss not in fitting:
            raise UsageError(
                f"loss={self.loss!r} does not fit head={head.kind!r}; use {' or '.join(map(repr, fitting))}"
            )
        if self.loss == "qlike" and len(self.scales) != len(head.targets):
            raise UsageError(
                f"scales={self.scales} for {len(head.targets)} targets; QLIKE needs the scale of each"
            )

    def losses(self, head: HeadConfig, raw: Tensor, target: Tensor) -> Tensor:
        """Give the loss of each forecast and target.

        Parameters
        ----------
        head : HeadConfig
            The head.
        raw : Tensor, shape (n, outputs)
            Raw numbers of the network.
        target : Tensor, shape (n, targets)
            Scaled targets, finite; 1 and 0 for up and down.

        Returns
        -------
        Tensor, shape (n, targets)
        """
        laid = head.split(raw)
        if self.loss == "gaussian":
            return gaussian_loss(laid[..., 0], bounded(laid[..., 1]), target)
        if self.loss == "pinball":
            levels = torch.tensor(head.levels, dtype=raw.dtype, device=raw.device)
            return pinball_loss(rising(laid), target, levels)
        forecast = laid[..., 0]
        if self.loss == "cross_entropy":
            return cross_entropy_loss(forecast, target)
        if self.loss == "absolute":
            return absolute_loss(forecast, target)
        if self.loss == "huber":
            return huber_loss(forecast, target, self.delta)
        if self.loss == "qlike":
            scale = torch.tensor(self.scales, dtype=raw.dtype, device=raw.device)
            return qlike_loss(forecast * scale, target * scale)
        return squared_loss(forecast, target)


SQUARED = Objective()
"""The squared error of a point forecast."""
