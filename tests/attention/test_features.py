"""Feature maps and their registry."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.attention import (
    Dpfp,
    Elu1,
    Favor,
    FeatureMap,
    Hedgehog,
    Taylor2,
    backend_names,
    build_feature_map,
    feature_map_names,
    linear_attention,
    register_feature_map,
)
from quantattn.attention.features import registry as module
from quantattn.attention.features import resolve_feature_map
from quantattn.errors import FeatureMapError, StateError


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


def test_dpfp_values():
    x = torch.tensor([2.0, -3.0], dtype=torch.float64)
    # Halves (2, 0, 0, 3): each times the next one around, then times the one after that.
    assert Dpfp()(x).tolist() == [0, 0, 0, 6]
    assert Dpfp(2)(x).tolist() == [0, 0, 0, 6, 0, 0, 0, 0]
    both = torch.tensor([2.0, 3.0], dtype=torch.float64)
    # Halves (2, 3, 0, 0).
    assert Dpfp(3)(both).tolist() == [6, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0]
    assert [Dpfp(nu).width(5) for nu in (1, 2, 9)] == [10, 20, 90]
    for nu in (0, 1.5, None):
        with pytest.raises(FeatureMapError, match="nu: expected a positive integer"):
            Dpfp(nu)
    with pytest.raises(FeatureMapError, match="nu: 4 shifts need a width above 2, got 2"):
        Dpfp(4)(x)


def test_taylor2_values():
    x, y = (torch.tensor(row, dtype=torch.float64) for row in ([2.0, -3.0], [1.0, 1.0]))
    root = 2**0.5
    assert Taylor2(scale=1.0)(x).tolist() == pytest.approx([1, 2, -3, 4 / root, -6, 9 / root], rel=1e-15)
    assert Taylor2(scale=1.0, packed=False)(x).tolist() == pytest.approx(
        [1, 2, -3, 4 / root, -6 / root, -6 / root, 9 / root], rel=1e-15
    )
    for packed in (True, False):
        made = Taylor2(scale=1.0, packed=packed)
        # The least similarity of all, at q . k = -1.
        assert float(made(x) @ made(y)) == pytest.approx(0.5, rel=1e-14)
        # The scale of softmax: s = -1 / sqrt(2).
        made = Taylor2(packed=packed)
        assert float(made(x) @ made(y)) == pytest.approx(1 - 0.5**0.5 + 0.25, rel=1e-14)
        assert made.width(4) == (15 if packed else 21)
    assert made.approximates_softmax and made.positive and made.signed_features
    with pytest.raises(FeatureMapError, match="scale: expected a positive finite number, got -1"):
        Taylor2(scale=-1.0)


def test_options_are_part_of_the_fingerprint():
    maps = [Dpfp(), Dpfp(2), Taylor2(), Taylor2(packed=False), Taylor2(scale=1.0)]
    maps += [Favor(4), Favor(4, seed=1), Favor(4, scale=1.0), Favor(4, kind="iid"), Hedgehog(4)]
    maps += [Hedgehog(4, activation="exp"), Hedgehog(4, heads=1)]
    prints = [made.fingerprint for made in maps]
    assert len(set(prints)) == len(prints)
    assert prints == [made.fingerprint for made in maps]


def test_building_by_name():
    assert feature_map_names(stored=True) == ("favor", "hedgehog")
    assert feature_map_names(stored=False) == (
        *("dpfp", "elu1", "identity", "relu", "squared_relu", "taylor2"),
    )
    assert set(feature_map_names()) == {*feature_map_names(stored=True), *feature_map_names(stored=False)}
    assert build_feature_map("dpfp", 4, nu=2).width(4) == 16
    assert build_feature_map("elu1", 4, heads=3).name == "elu1"
    assert build_feature_map("favor", 4, features=7, heads=3).projection.shape == (3, 7, 4)
    assert build_feature_map("hedgehog", 4).key_weight.shape == (4, 4)
    with pytest.raises(FeatureMapError, match=r"'elu1' cannot be built with \{'nu': 2\}"):
        build_feature_map("elu1", 4, nu=2)
    with pytest.raises(FeatureMapError, match="'elu' is not registered"):
        build_feature_map("elu", 4)
    with pytest.raises(FeatureMapError, match="d: expected a positive integer, got 0"):
        build_feature_map("elu1", 0)
    x = torch.rand(1, 1, 3, 4)
    for name in feature_map_names(stored=True):
        with pytest.raises(
            FeatureMapError, match=f"'{name}' holds numbers that must be saved with the model"
        ):
            linear_attention(x, x, x, feature_map=name)


def test_a_strangers_promise_is_checked():
    class Lying(Doubled):
        name = "lying"

        def __call__(self, x):
            return torch.cat([x, -x], -1)

    class Polynomial(Doubled):
        """1 + (q . k) ** 2, from signed features."""

        name = "polynomial"
        signed_features = True

        def width(self, d):
            return 1 + d * d

        def __call__(self, x):
            return torch.cat(
                [torch.ones_like(x[..., :1]), (x[..., :, None] * x[..., None, :]).flatten(-2)], -1
            )

    x = torch.randn(1, 1, 4, 2)
    with pytest.raises(FeatureMapError, match="query: feature map 'lying' gave -"):
        linear_attention(x, x, x, feature_map=Lying())
    result = linear_attention(x, x, x, feature_map=Polynomial())
    pairs = (1 + (x @ x.mT) ** 2).tril()
    torch.testing.assert_close(result.output, pairs @ x / pairs.sum(-1, keepdim=True))


@pytest.mark.parametrize("backend", backend_names())
def test_a_map_made_from_another_is_itself(backend):
    """What a backend knows of a map by heart must not stand for what was made of it."""

    class Shifted(Elu1):
        name = "shifted"

        def __call__(self, x):
            return super().__call__(x) + 1.0

    x = torch.randn(1, 2, 40, 3, generator=torch.Generator().manual_seed(1))
    found = linear_attention(x, x, x, feature_map=Shifted(), backend=backend).output
    features = Elu1()(x) + 1
    pairs = (features @ features.mT).tril()
    torch.testing.assert_close(found, pairs @ x / pairs.sum(-1, keepdim=True))


def test_a_strangers_numbers_are_in_the_fingerprint():
    class Learned(torch.nn.Module, FeatureMap):
        name = "learned"
        positive = True

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(3))

        def width(self, d):
            return 3

        def forward(self, x):
            return (x @ self.weight).exp()

    map_ = Learned()
    x = torch.randn(1, 1, 4, 3)
    result = linear_attention(x, x, x, feature_map=map_, return_state=True)
    linear_attention(x, x, x, feature_map=map_, initial_state=result.state)
    with torch.no_grad():
        map_.weight += 1
    with pytest.raises(StateError, match="made under 'learned/raise"):
        linear_attention(x, x, x, feature_map=map_, initial_state=result.state)


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
        with pytest.raises(FeatureMapError, match="'x' cannot be built with no options: TypeError"):
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
