"""Second derivatives are right or refused, never silently wrong."""

from __future__ import annotations

import itertools

import pytest
import torch

from quantattn.attention import (
    Denominator,
    backend_names,
    build_feature_map,
    feature_map_names,
    linear_attention,
    softmax_attention,
)
from quantattn.errors import GradientError

POLICIES = {
    "raise": Denominator.raise_(),
    "floor": Denominator.floor(1e-9),
    "prior": Denominator.prior(0.5, 1.0),
}


def second(function, x):
    (first,) = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)
    return torch.autograd.grad(first.square().sum(), x)[0]


def by_differences(function, x, step=1e-5):
    """Differentiate the squared gradient numerically: first derivatives are checked elsewhere."""

    def squared(x):
        x = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(function(x).sin().sum(), x)
        return first.square().sum()

    slope = torch.empty_like(x)
    for place in itertools.product(*map(range, x.shape)):
        up, down = x.detach().clone(), x.detach().clone()
        up[place] += step
        down[place] -= step
        slope[place] = (squared(up) - squared(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("feature_map", feature_map_names())
@pytest.mark.parametrize("backend", backend_names())
def test_linear_attention(backend, feature_map, policy):
    generator = torch.Generator().manual_seed(1)
    x = (torch.rand(1, 1, 4, 2, generator=generator, dtype=torch.float64) + 0.3).requires_grad_()

    map_ = build_feature_map(feature_map, 2)

    def function(x):
        return linear_attention(
            x, x, x, feature_map=map_, backend=backend, denominator=POLICIES[policy]
        ).output

    try:
        found = second(function, x)
    except GradientError as error:
        assert "create_graph" in str(error)
        return
    assert backend in ("quadratic", "recurrent")
    torch.testing.assert_close(found, by_differences(function, x), rtol=1e-5, atol=1e-6)


def test_the_way_that_the_message_names_has_second_derivatives():
    x = (torch.rand(1, 2, 5, 3, dtype=torch.float64) + 0.3).requires_grad_()

    def function(x):
        return linear_attention(
            x, x, x, feature_map="relu", backend="quadratic", denominator=Denominator.floor(1e-9)
        ).output

    torch.testing.assert_close(second(function, x), by_differences(function, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("decays", [False, True])
def test_softmax_attention(decays):
    x = torch.rand(1, 1, 4, 2, dtype=torch.float64).requires_grad_()
    decay = torch.full((1, 1, 4), -0.1, dtype=torch.float64) if decays else None

    def function(x):
        return softmax_attention(x, x, x, log_decay=decay)

    with pytest.raises((GradientError, RuntimeError), match=r"create_graph|derivative"):
        second(function, x)
