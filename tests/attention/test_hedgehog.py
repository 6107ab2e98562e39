"""The learned map: where it starts, what it learns, and states that do not outlive a step."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.attention import Hedgehog, kernel_report, linear_attention, softmax_attention
from quantattn.errors import DenominatorError, FeatureMapError, StateError


def tokens(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_values_at_the_start():
    x = torch.tensor([0.0, math.log(3)], dtype=torch.float64)
    # exp gives (1, 3) and (1, 1 / 3).
    exp = Hedgehog(2, activation="exp")
    assert exp(x).tolist() == pytest.approx([1, 3, 1, 1 / 3], rel=1e-15)
    assert Hedgehog(2)(x).tolist() == pytest.approx([1 / 4, 3 / 4, 3 / 4, 1 / 4], rel=1e-15)
    assert exp.width(2) == 4
    assert Hedgehog(2, features=5).width(2) == 10
    assert exp.positive and not exp.approximates_softmax


def test_each_head_has_its_own_matrices():
    map_ = Hedgehog(3, heads=2)
    x = tokens(1, 1, 2, 5, 3)
    before = map_.map_key(x), map_.map_query(x).features
    assert torch.equal(*before)
    with torch.no_grad():
        map_.key_weight[1] *= 2
    assert torch.equal(map_.map_key(x)[:, 0], before[0][:, 0])
    assert not torch.equal(map_.map_key(x)[:, 1], before[0][:, 1])
    assert torch.equal(map_.map_query(x).features, before[1])
    tied = Hedgehog(3, tied=True)
    assert tied.query_weight is tied.key_weight
    assert len(list(tied.parameters())) == 1
    assert len(list(map_.parameters())) == 2


def test_it_learns_softmax():
    query, key, value = tokens(2, 2, 2, 24, 4), tokens(3, 2, 2, 24, 4), tokens(4, 2, 2, 24, 4)
    wanted = softmax_attention(query, key, value)
    map_ = Hedgehog(4, heads=2)
    before = kernel_report(map_, query, key, value).rows[0]
    optimiser = torch.optim.Adam(map_.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        found = linear_attention(query, key, value, feature_map=map_, backend="chunked").output
        (found - wanted).square().mean().backward()
        optimiser.step()
    after = kernel_report(map_, query, key, value).rows[0]
    assert after.output_error.value < 0.7 * before.output_error.value
    assert after.weight_error.value < before.weight_error.value


def test_a_training_step_ends_its_states():
    map_ = Hedgehog(4)
    x = tokens(2, 1, 1, 6, 4)
    result = linear_attention(x, x, x, feature_map=map_, return_state=True)
    linear_attention(x, x, x, feature_map=map_, initial_state=result.state)
    result.output.square().sum().backward()
    torch.optim.SGD(map_.parameters(), lr=0.1).step()
    with pytest.raises(StateError, match="made under 'hedgehog/raise"):
        linear_attention(x, x, x, feature_map=map_, initial_state=result.state)


def test_the_plain_exponential_overflows_loudly():
    x = tokens(2, 1, 1, 6, 4) * 100
    with pytest.raises(DenominatorError, match="nan"):
        linear_attention(x, x, x, feature_map=Hedgehog(4, activation="exp"))
    assert torch.isfinite(linear_attention(x, x, x, feature_map=Hedgehog(4)).output).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 0}, "d: expected a positive integer, got 0"),
        ({"d": 3, "activation": "relu"}, "activation: expected 'softmax' or 'exp', got 'relu'"),
        ({"d": 3, "heads": 0}, "heads: expected a positive integer, got 0"),
        ({"d": 3, "features": True}, "features: expected a positive integer, got True"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(FeatureMapError, match=message):
        Hedgehog(**options)
