"""What is run in every fold."""

from __future__ import annotations

from dataclasses import dataclass, field

from quantattn.forecasters.config import NetworkConfig, TrainingConfig
from quantattn.walkforward.retraining import Retrain
from quantattn.walkforward.search import SearchConfig

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
        Threads of the numerical libraries for each unit. Bytes are reproduced for an equal number; how many
        units run at once is the engine's matter and changes none.
    retrain : Retrain, optional
        When models are trained again; in every fold by default.
    ensemble : bool, default False
        Whether the forecasts of a model's seeds are averaged into one more model.
    search : SearchConfig, optional
        Hyper-parameters of the networks to choose inside each fold; none by default.
    """

    study: str
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    networks: dict[str, NetworkConfig]
    training: TrainingConfig
    text_width: int
    threads: int
    retrain: Retrain = field(default_factory=Retrain)
    ensemble: bool = False
    search: SearchConfig | None = None
