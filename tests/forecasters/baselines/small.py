"""Small settings of every baseline, and how it is made from them."""

from __future__ import annotations

from typing import Any

from quantattn.forecasters.baselines import BaselineForecaster, make_baseline

SMALL: dict[str, dict[str, Any]] = {
    "garch": {"min_returns": 10},
    "gradient_boosting": {"iterations": 20, "min_samples_leaf": 5},
    "events_ridge": {"words": 8},
    "events_logistic": {"words": 8},
    "gru": {"hidden": 4, "epochs": 3, "batch_entities": 1},
    "softmax_window": {
        "window": 6,
        "width": 8,
        "heads": 2,
        "layers": 2,
        "feed_forward": 8,
        "half_lives": (7.0, None),
        "epochs": 2,
        "batch_forecasts": 16,
    },
}


def made(name: str, seed: int = 0, **parameters: Any) -> BaselineForecaster:
    model = make_baseline(name, seed, **{**SMALL.get(name, {}), **parameters})
    assert isinstance(model, BaselineForecaster)
    return model
