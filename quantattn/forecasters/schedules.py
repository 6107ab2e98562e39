"""How the learning rate goes over the steps of a training run."""

from __future__ import annotations

import math

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, OneCycleLR

from quantattn.forecasters.config import TrainingConfig


def learning_rates(optimizer: torch.optim.Optimizer, config: TrainingConfig, steps: int) -> LRScheduler:
    """Give the schedule that a configuration asks for.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Its learning rate is the peak.
    config : TrainingConfig
        `schedule`, `learning_rate` and `warm_up` are read.
    steps : int
        Optimiser steps of the whole run.

    Returns
    -------
    torch.optim.lr_scheduler.LRScheduler
    """
    if config.schedule == "constant":
        return LambdaLR(optimizer, lambda step: 1.0)
    if config.schedule == "cosine":
        return LambdaLR(optimizer, lambda step: cosine_factor(step, steps, config.warm_up))
    # The rate rises over a fifth of the steps and falls over the rest. At 5 steps a fifth is one step,
    # between whose ends torch divides by zero.
    rise = 0.3 if steps == 5 else 0.2
    return OneCycleLR(optimizer, config.learning_rate, total_steps=max(2, steps), pct_start=rise)


def cosine_factor(step: int, steps: int, warm_up: float) -> float:
    """Give the share of the peak rate at a step: a line up, then half a cosine down.

    Parameters
    ----------
    step : int
        From 0.
    steps : int
        Steps of the whole run.
    warm_up : float
        Share of the steps over which the rate rises; the last of these has the peak.

    Returns
    -------
    float
        From ``1 / rising steps`` (1 without any) over 1 down to nearly zero at the last step.
    """
    rising = math.ceil(warm_up * steps)
    if step < rising:
        return (step + 1) / rising
    falling = steps - rising
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, falling))))
