"""Learning rates by step."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.forecasters import TrainingConfig
from quantattn.forecasters.schedules import cosine_factor, learning_rates


def rates(steps: int, **options: object) -> list[float]:
    """Learning rates of a run, in the order of its steps."""
    config = TrainingConfig(learning_rate=0.5, **options)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config.learning_rate)
    schedule = learning_rates(optimizer, config, steps)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_constant() -> None:
    assert rates(7, schedule="constant") == [0.5] * 7


def test_cosine_by_hand() -> None:
    # Two of eight steps rise; six fall from the peak along half a cosine.
    expected = [0.5, 1.0, *(0.5 * (1 + math.cos(math.pi * step / 6)) for step in range(6))]
    assert rates(8, schedule="cosine", warm_up=0.25) == pytest.approx([0.5 * factor for factor in expected])
    assert rates(4, schedule="cosine", warm_up=0.0)[0] == 0.5


@pytest.mark.parametrize("warm_up", [0.0, 0.1, 0.5, 0.99])
@pytest.mark.parametrize("steps", range(1, 13))
def test_cosine_rises_to_the_peak_and_never_leaves_its_range(steps: int, warm_up: float) -> None:
    factors = [cosine_factor(step, steps, warm_up) for step in range(steps + 1)]
    assert max(factors[:steps]) == 1.0
    assert all(0 <= factor <= 1 for factor in factors)


@pytest.mark.parametrize("steps", range(1, 13))
def test_one_cycle_peaks_once(steps: int) -> None:
    found = rates(steps)
    assert all(0 < rate <= 0.5 + 1e-12 for rate in found)
    top = found.index(max(found))
    assert found[: top + 1] == sorted(found[: top + 1])
    assert found[top:] == sorted(found[top:], reverse=True)
    if steps > 1:
        assert found[-1] < 0.001
    if steps == 10:  # two of ten rise, the first of them from a fraction
        assert (top, found[1]) == (1, pytest.approx(0.5))
