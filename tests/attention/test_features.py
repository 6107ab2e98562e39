"""Feature maps and their registry."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.attention import FeatureMap, feature_map_names, linear_attention, register_feature_map
from quantattn.attention.features import registry as module
from quantattn.attention.features import resolve_feature_map
from quantattn.errors import FeatureMapError


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(module, "_REGISTRY", dict(module._REGISTRY))


class Doubled(FeatureMap):
    """Positive and negative parts, twice as wide."""

    name = "doubled"
    positive = True

    def width(self, d):
        return 2 * d

    def __call__(self, x):
        return torch.cat([x.relu(), (-x).relu()], -1)


def test_values():
    x = torch.tensor([-2.0, -0.5, 0.0, 1.5], dtype=torch.float64)
    wanted = {
        "relu": [0, 0, 0, 1.5],
        "squared_relu": [0, 0, 0, 2.25],
        "elu1": [math.exp(-2), math.exp(-0.5), 1, 2.5],
        "identity": [-2, -0.5, 0, 1.5],
    }
    assert set(wanted) <= set(feature_map_names())
    for name, numbers in wanted.items():
        made = resolve_feature_map(name)
        assert made(x).tolist() == pytest.approx(numbers, rel=1e-15)
        assert made.name == name
        assert made.width(7) == 7
        assert not made.approximates_softmax
        assert made.positive == (name != "identity")
        if name != "identity":
            assert torch.autograd.gradcheck(made, (x + 0.125).requires_grad_())


def test_elu1_keeps_its_digits_far_below_zero():
    x = torch.tensor([-20.0, -60.0, -80.0])
    assert resolve_feature_map("elu1")(x).tolist() == pytest.approx(
        [math.exp(-20), math.exp(-60), math.exp(-80)], rel=1e-6
    )
    assert (torch.nn.functional.elu(x) + 1 == 0).all()


def test_a_map_of_ones_own():
    register_feature_map("doubled", Doubled)
    assert "doubled" in feature_map_names()
    x = torch.randn(1, 2, 9, 3, dtype=torch.float64)
    value = torch.randn(1, 2, 9, 2, dtype=torch.float64)
    # Signed so that the first feature of query and key always agree.
    x[..., 0] = x[..., 0].abs() + 0.1
    outputs = [
        linear_attention(x, x, value, feature_map=chosen, return_state=True, backend=backend)
        for chosen in ("doubled", Doubled())
        for backend in ("quadratic", "recurrent", "chunked")
    ]
    for result in outputs:
        assert result.state.S.shape == (1, 2, 6, 2)
        assert result.health.feature_map == "doubled"
        torch.testing.assert_close(result.output, outputs[0].output)


def test_names_are_not_taken_twice():
    with pytest.raises(FeatureMapError, match="'elu1' is already registered; pass replace=True"):
        register_feature_map("elu1", Doubled)
    register_feature_map("elu1", Doubled, replace=True)
    assert isinstance(resolve_feature_map("elu1"), Doubled)


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(FeatureMapError, match=r"'elu-1' is not registered; known: .*Did you mean 'elu1'\?"):
        resolve_feature_map("elu-1")
    with pytest.raises(FeatureMapError, match="3 is not registered"):
        resolve_feature_map(3)


@pytest.mark.parametrize(
    ("name", "factory", "message"),
    [
        ("", Doubled, "name: expected a non-empty text"),
        (None, Doubled, "name: expected a non-empty text, got None"),
        ("x", Doubled(), None),
        ("x", 5, "factory: expected a callable"),
    ],
)
def test_bad_registrations(name, factory, message):
    if message is None:
        # An object is callable, but what it returns is no map.
        register_feature_map(name, factory)
        with pytest.raises(TypeError):
            resolve_feature_map(name)
        return
    with pytest.raises(FeatureMapError, match=message):
        register_feature_map(name, factory)


def test_maps_that_lie_are_caught():
    class Signed(Doubled):
        name = "signed"
        positive = False

        def __call__(self, x):
            return torch.cat([x, -x], -1)

    class Narrow(Doubled):
        name = "narrow"

        def __call__(self, x):
            return x.relu()

    x = torch.rand(1, 1, 4, 2)
    with pytest.raises(FeatureMapError, match="query: feature map 'signed' gave -"):
        linear_attention(x, x, x, feature_map=Signed())
    with pytest.raises(
        FeatureMapError, match=r"'narrow' made shape \(1, 1, 4, 2\) of query .* \(1, 1, 4, 4\)"
    ):
        linear_attention(x, x, x, feature_map=Narrow())
    register_feature_map("wrong", lambda: torch.relu)
    with pytest.raises(FeatureMapError, match="factory of 'wrong' returned"):
        linear_attention(x, x, x, feature_map="wrong")


def test_features_that_overflow_reach_only_their_readers():
    x = torch.rand(1, 1, 12, 2)
    x[..., 0] += 0.5
    huge = x.clone()
    huge[:, :, 7] = 1e30
    from quantattn.attention import Denominator

    for backend in ("quadratic", "recurrent", "chunked"):
        options = {"feature_map": "squared_relu", "backend": backend, "denominator": Denominator.floor(1e-3)}
        base = linear_attention(x, x, x, **options)
        other = linear_attention(x, huge, x, **options)
        assert torch.equal(base.output[:, :, :7], other.output[:, :, :7])
        assert torch.isnan(other.output[:, :, 7:]).all()
        assert other.health.nonfinite == 5
