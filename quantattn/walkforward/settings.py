"""What is run in every fold."""

from __future__ import annotations

from dataclasses import dataclass

from quantattn.forecasters.config import NetworkConfig, TrainingConfig

NETWORKS = ("linear", "softmax")
"""Models that are networks and stream; every other name is a baseline."""


@dataclass(frozen=True)
class FoldSettings:
    """Models and their training, the same in every fold.

    Parameters
    ----------
    study : str
        Name of the study.
    models : tuple of str
        ``"linear"``, ``"softmax"`` and names of baselines.
    seeds : tuple of int
        Every model that depends on chance is trained once per seed.
    networks : dict of str to NetworkConfig
        Sizes of the network models.
    training : TrainingConfig
        How networks are trained, and the coverage of every model's interval.
    text_width : int
        Width of the hashed text.
    threads : int
        Threads of the numerical libraries. Bytes are reproduced for an equal number.
    """

    study: str
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    networks: dict[str, NetworkConfig]
    training: TrainingConfig
    text_width: int
    threads: int
