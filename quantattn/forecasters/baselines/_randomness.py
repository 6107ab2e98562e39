"""Chance inside a baseline: decided by a seed, and of no effect outside it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from quantattn.forecasters.baselines._process import kept_settings


def reseed(seed: int) -> None:
    """Seed every global generator that a library may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - it is what foreign code draws from
    torch.default_generator.manual_seed(seed)


@contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch, and put all three back afterwards.

    What runs inside gives the same draws for the same seed even where it draws from a global generator, and
    the caller's own draws go on as if it had not run. Torch is held to deterministic algorithms. Settings of
    the process are put back too; see :func:`kept_settings`.

    Parameters
    ----------
    seed : int
        Nonnegative.
    """
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002
    with kept_settings(), torch.random.fork_rng(devices=[]):
        reseed(seed)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)  # noqa: NPY002
