"""Losses against scipy and numpy, their gradients, and which head takes which."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special, stats
from sklearn.metrics import log_loss, mean_pinball_loss
from torch import Tensor

from quantattn.errors import UsageError
from quantattn.forecasters.heads import HeadConfig, bounded, rising
from quantattn.forecasters.objectives import (
    LOSSES,
    SQUARED,
    Objective,
    absolute_loss,
    cross_entropy_loss,
    gaussian_loss,
    huber_loss,
    pinball_loss,
    qlike_loss,
    squared_loss,
)

GENERATOR = np.random.default_rng(3)
FORECAST, TARGET = GENERATOR.normal(size=(2, 40)) * 2


def tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values, np.float64))


def test_against_numpy_and_scipy() -> None:
    error = TARGET - FORECAST
    assert squared_loss(tensor(FORECAST), tensor(TARGET)).numpy() == pytest.approx(error**2)
    assert absolute_loss(tensor(FORECAST), tensor(TARGET)).numpy() == pytest.approx(np.abs(error))
    for delta in (0.5, 1.0, 3.0):
        found = huber_loss(tensor(FORECAST), tensor(TARGET), delta).numpy()
        assert found == pytest.approx(special.huber(delta, error))


def test_gaussian_is_the_density_of_scipy_but_for_a_constant() -> None:
    spread = np.exp(GENERATOR.normal(size=40))
    found = gaussian_loss(tensor(FORECAST), tensor(2 * np.log(spread)), tensor(TARGET)).numpy()
    assert found + 0.5 * np.log(2 * np.pi) == pytest.approx(-stats.norm.logpdf(TARGET, FORECAST, spread))


def test_qlike_of_variances() -> None:
    variance, forecast = np.exp(TARGET), np.exp(FORECAST)
    found = qlike_loss(tensor(FORECAST), tensor(TARGET)).numpy()
    assert found == pytest.approx(variance / forecast - np.log(variance / forecast) - 1)
    assert qlike_loss(tensor(TARGET), tensor(TARGET)).numpy().tolist() == [0.0] * 40
    assert (found > 0).all()


def test_qlike_is_least_at_the_mean_variance() -> None:
    """Squared errors of logarithms would be least at the geometric mean instead."""
    variances = np.array([1.0, 2.0, 9.0])
    tried = np.linspace(0.5, 9.0, 3401)
    losses = [qlike_loss(tensor(np.log(np.full(3, h))), tensor(np.log(variances))).mean() for h in tried]
    assert tried[int(np.argmin(losses))] == pytest.approx(4.0, abs=0.005)


def test_pinball_is_that_of_scikit_learn() -> None:
    levels = (0.1, 0.5, 0.8)
    quantiles = GENERATOR.normal(size=(40, 3))
    found = pinball_loss(tensor(quantiles), tensor(TARGET), torch.tensor(levels, dtype=torch.float64)).mean()
    expected = [
        mean_pinball_loss(TARGET, quantiles[:, place], alpha=level) for place, level in enumerate(levels)
    ]
    assert found.item() == pytest.approx(np.mean(expected))


def test_cross_entropy_is_that_of_scikit_learn() -> None:
    up = (TARGET > 0).astype(float)
    weights = np.where(up > 0, 2.0, 0.7)
    found = cross_entropy_loss(tensor(FORECAST), tensor(up)).numpy()
    expected = log_loss(up, special.expit(FORECAST), sample_weight=weights)
    assert (found * weights).sum() / weights.sum() == pytest.approx(expected)


def head_of(loss: str) -> HeadConfig:
    kind = next(kind for kind, losses in LOSSES.items() if loss in losses)
    return HeadConfig(kind, ("a", "b"), (0.1, 0.5, 0.7) if kind == "quantile" else ())


EVERY = [loss for losses in LOSSES.values() for loss in losses]


@pytest.mark.parametrize("loss", EVERY)
def test_gradients(loss: str) -> None:
    head = head_of(loss)
    objective = Objective(loss, 0.8, (1.5, 0.4))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    raw = torch.randn(6, head.outputs, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randn(6, 2, generator=generator, dtype=torch.float64)
    if loss == "cross_entropy":
        target = (target > 0).double()
    assert torch.autograd.gradcheck(lambda x: objective.losses(head, x, target), (raw,))


@pytest.mark.parametrize("loss", EVERY)
def test_each_target_has_its_own_numbers(loss: str) -> None:
    head = head_of(loss)
    objective = Objective(loss, 0.8, (1.5, 0.4))  # type: ignore[arg-type]
    raw = torch.randn(5, head.outputs, generator=torch.Generator().manual_seed(2))
    target = torch.rand(5, 2, generator=torch.Generator().manual_seed(3))
    both = objective.losses(head, raw, target)
    assert both.shape == (5, 2)
    for place in (0, 1):
        own = HeadConfig(head.kind, ("x",), head.levels)
        numbers = raw[:, place * head.width : (place + 1) * head.width]
        alone = Objective(loss, 0.8, (objective.scales[place],))  # type: ignore[arg-type]
        assert torch.equal(alone.losses(own, numbers, target[:, place : place + 1])[:, 0], both[:, place])


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("gaussian", lambda raw, y: gaussian_loss(raw[:, 0], bounded(raw[:, 1]), y)),
        ("pinball", lambda raw, y: pinball_loss(rising(raw), y, torch.tensor([0.1, 0.5, 0.7]))),
        ("qlike", lambda raw, y: qlike_loss(raw[:, 0] * 1.5, y * 1.5)),
        ("huber", lambda raw, y: huber_loss(raw[:, 0], y, 0.8)),
        ("squared", lambda raw, y: squared_loss(raw[:, 0], y)),
    ],
)
def test_what_an_objective_computes(loss: str, expected: Callable[[Tensor, Tensor], Tensor]) -> None:
    head = head_of(loss)
    own = HeadConfig(head.kind, ("x",), head.levels)
    raw, target = torch.randn(7, own.outputs), torch.randn(7)
    objective = Objective(loss, 0.8, (1.5,))  # type: ignore[arg-type]
    assert torch.equal(objective.losses(own, raw, target[:, None])[:, 0], expected(raw, target))


@pytest.mark.parametrize(
    ("objective", "head", "said"),
    [
        (SQUARED, HeadConfig("gaussian"), "loss='squared' does not fit head='gaussian'; use 'gaussian'"),
        (Objective("pinball"), HeadConfig(), "use 'squared' or 'absolute' or 'huber' or 'qlike'"),
        (Objective("qlike"), HeadConfig(), "QLIKE needs the scale of each"),
        (Objective("qlike", scales=(1.0,)), HeadConfig("point", ("a", "b")), "2 targets"),
    ],
)
def test_a_loss_that_does_not_fit(objective: Objective, head: HeadConfig, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        objective.check(head)


@pytest.mark.parametrize("options", [{"loss": "mse"}, {"delta": 0.0}, {"delta": float("nan")}])
def test_impossible_objectives(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Objective(**options)  # type: ignore[arg-type]
