from __future__ import annotations

import dataclasses
import json
import math

import pytest

from quantattn.errors import UsageError
from quantattn.forecasters import NetworkConfig, TrainingConfig


def test_round_trip_through_json() -> None:
    config = NetworkConfig(attention="softmax", width=12, heads=3, half_lives=(0.1, None, 91.0))
    stored = json.loads(json.dumps(config.to_dict()))
    assert stored["half_lives"] == [0.1, None, 91.0]
    assert NetworkConfig.from_dict(stored) == config


def test_width_of_a_head() -> None:
    assert NetworkConfig(width=12, heads=3, half_lives=(None,) * 3).head_width == 4


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        NetworkConfig().width = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"attention": "cosine"}, "attention='cosine'.*use 'linear' or 'softmax'"),
        ({"width": 0}, "width=0"),
        ({"heads": 0, "half_lives": ()}, "heads=0"),
        ({"layers": 0}, "layers=0"),
        ({"feed_forward": -1}, "feed_forward=-1"),
        ({"width": 30}, "width=30 is not a multiple of heads=4"),
        ({"feature_map": "relu"}, "feature_map='relu'.*elu1"),
        ({"half_lives": (7.0,)}, "half_lives has 1 entries for 4 heads"),
        ({"half_lives": (7.0, 0.0, 1.0, None)}, "half_lives.*positive"),
        ({"half_lives": (7.0, -1.0, 1.0, None)}, "half_lives.*positive"),
        ({"half_lives": (7.0, math.nan, 1.0, None)}, "half_lives.*positive"),
        ({"half_lives": (7.0, math.inf, 1.0, None)}, "half_lives.*null for no decay"),
    ],
)
def test_impossible_network(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        NetworkConfig(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["missing", "unknown"])
def test_other_keys_are_refused(change: str) -> None:
    stored = NetworkConfig().to_dict()
    if change == "missing":
        del stored["layers"]
    else:
        stored["dropout"] = 0.1
    with pytest.raises(UsageError, match="another version"):
        NetworkConfig.from_dict(stored)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_entities": 0}, "batch_entities=0"),
        ({"patience": 0}, "patience=0"),
        ({"learning_rate": 0.0}, "learning_rate=0"),
        ({"learning_rate": math.nan}, "learning_rate=nan"),
        ({"gradient_clip": -1.0}, "gradient_clip=-1"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"weight_decay": math.nan}, "weight_decay=nan"),
        ({"interval": 0.0}, "interval=0"),
        ({"interval": 1.0}, "interval=1"),
        ({"interval": math.nan}, "interval=nan"),
    ],
)
def test_impossible_training(options: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TrainingConfig(**options)  # type: ignore[arg-type]


def test_no_weight_decay_is_possible() -> None:
    assert TrainingConfig(weight_decay=0.0).weight_decay == 0.0
