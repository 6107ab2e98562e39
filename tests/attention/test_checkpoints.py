"""What a layer was built with is in its checkpoint; weights of another are refused before any is copied."""

from __future__ import annotations

import copy
import enum
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from quantattn.attention import (
    CausalAttention,
    Denominator,
    Dpfp,
    Favor,
    FeatureMap,
    Hedgehog,
    Taylor2,
    linear_attention,
)
from quantattn.attention.checkpoint import check_state_dict
from quantattn.attention.options import map_options
from quantattn.errors import CheckpointError, DenominatorError, FeatureMapError, StateError

WIDTH, HEADS, D = 16, 2, 8


class Power(FeatureMap):
    """A user's map with an attribute."""

    name = "power"
    positive = True

    def __init__(self, p: int) -> None:
        self.p = p

    def width(self, d):
        return d

    def __call__(self, x):
        return x.abs() ** self.p + 1


class Hidden(Power):
    name = "hidden"

    def __init__(self, p: int) -> None:
        self._p = p

    p = property(lambda self: self._p)


@dataclass(frozen=True)
class Data(Power):
    p: int
    name = "data"


class Slots(Power):
    __slots__ = ("p",)
    name = "slots"


class Saying(Power):
    """A map that says its options itself, and counts its calls beside."""

    name = "saying"
    calls = 0

    def options(self):
        return {"power": self.p}

    def __call__(self, x):
        self.calls += 1
        return super().__call__(x)


class Module(nn.Module, Power):
    """A map with a weight, a buffer that is not saved, and an activation."""

    name = "module"

    def __init__(self, p: int, offset: float = 0.0, slope: float = 0.1) -> None:
        super().__init__()
        self.p = p
        self.weight = nn.Parameter(torch.full((D,), float(p)))
        self.register_buffer("offset", torch.tensor([offset]), persistent=False)
        self.activation = nn.LeakyReLU(slope)

    def forward(self, x):
        return self.activation(x * self.weight).abs() ** self.p + 1 + self.offset


class Outer(Power):
    """A map around another."""

    name = "outer"

    def __init__(self, inner: FeatureMap) -> None:
        self.p, self.inner = 1, inner


class Drawn(Power):
    """A map with numbers that no checkpoint holds."""

    name = "drawn"

    def __init__(self, seed: int) -> None:
        self.p = 1
        self.draw = torch.rand(3, generator=torch.Generator().manual_seed(seed))


PAIRS = {
    "taylor2": (Taylor2(scale=0.01), Taylor2(), "scale=0.01", "scale=None"),
    "dpfp": (Dpfp(1), Dpfp(2), "nu=1", "nu=2"),
    "favor": (Favor(D, scale=0.01), Favor(D), "scale=0.01", "scale=None"),
    "favor kind": (Favor(D), Favor(D, kind="iid"), "kind='orthogonal'", "kind='iid'"),
    "hedgehog": (Hedgehog(D), Hedgehog(D, activation="exp"), "activation='softmax'", "activation='exp'"),
    "hedgehog tied": (Hedgehog(D), Hedgehog(D, tied=True), "tied=False", "tied=True"),
    "attribute": (Power(1), Power(3), "p=1", "p=3"),
    "private": (Hidden(1), Hidden(3), "_p=1", "_p=3"),
    "dataclass": (Data(1), Data(3), "p=1", "p=3"),
    "slots": (Slots(1), Slots(3), "p=1", "p=3"),
    "said": (Saying(1), Saying(3), "power=1", "power=3"),
    "module": (Module(1), Module(3), "p=1", "p=3"),
    "unsaved": (Module(1, 0.5), Module(1, 0.25), "offset='tensor", "offset='tensor"),
    "inner module": (Module(1), Module(1, slope=0.2), "slope=0.1", "slope=0.2"),
    "inner map": (Outer(Taylor2(scale=1.0)), Outer(Taylor2()), "'scale': 1.0", "'scale': None"),
    "draws": (Drawn(1), Drawn(2), "draw='tensor", "draw='tensor"),
}


def bytes_of(module: nn.Module) -> dict[str, bytes]:
    return {name: tensor.detach().numpy().tobytes() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("pair", PAIRS)
def test_every_option_of_a_map_is_compared(pair):
    one, other, saved, mine = PAIRS[pair]
    trained, fresh = (CausalAttention(WIDTH, HEADS, feature_map=copy.deepcopy(map_)) for map_ in (one, other))
    stored = load(save(trained.state_dict()))
    before = bytes_of(fresh)
    for strict in (True, False):
        with pytest.raises(CheckpointError) as caught:
            fresh.load_state_dict(stored, strict=strict)
        first, second = str(caught.value).split("this layer's has")
        assert one.name in first and saved in first and mine in second
        assert str(caught.value).endswith("build the map as it was trained.")
    assert bytes_of(fresh) == before
    # Positive control: the same options load, and the weights are those stored.
    same = CausalAttention(WIDTH, HEADS, feature_map=copy.deepcopy(one))
    assert bytes_of(same) != bytes_of(trained)
    same.load_state_dict(stored)
    assert bytes_of(same) == bytes_of(trained)
    assert trained.config() == json.loads(json.dumps(trained.config(), allow_nan=False))
    assert trained.config()["options"] != fresh.config()["options"]
    assert repr(trained) != repr(fresh) and one.name + "(" in repr(trained)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_state_is_not_continued_under_other_options(pair):
    one, other, *_ = PAIRS[pair]
    x = torch.rand(1, HEADS, 3, D)
    options = {"denominator": Denominator.prior(1.0)}
    state = linear_attention(x, x, x, feature_map=one, return_state=True, **options).state
    linear_attention(x, x, x, feature_map=copy.deepcopy(one), initial_state=state, **options)
    with pytest.raises(StateError, match="made under"):
        linear_attention(x, x, x, feature_map=other, initial_state=state, **options)


def test_options_as_plain_data():
    class Colour(enum.Enum):
        RED = 1

    class Mixed(Power):
        name = "mixed"

        def __init__(self) -> None:
            self.inf, self.pair, self.both = math.inf, (1, 2.5), {"b": 1, "a": None}
            self.number, self.array = np.float32(0.5), np.arange(3)
            self.kind, self.activation, self.colour = torch.float32, torch.relu, Colour.RED
            self.seen, self.stranger = {2, 1}, object()

    assert map_options(Mixed()) == {
        "activation": "torch.relu",
        "array": [0, 1, 2],
        "both": {"a": None, "b": 1},
        "colour": "test_options_as_plain_data.<locals>.Colour.RED",
        "inf": "inf",
        "kind": "torch.float32",
        "number": 0.5,
        "pair": [1, 2.5],
        "seen": [1, 2],
        "stranger": "builtins.object",
    }
    assert map_options(Favor(4, 6, heads=2, seed=3)) == {
        "d": 4,
        "features": 6,
        "heads": 2,
        "kind": "orthogonal",
        "scale": None,
    }

    class Bare(Power):
        name = "bare"
        fingerprint = "bare/7"

        def __init__(self) -> None:
            pass

    assert map_options(Bare()) == {"fingerprint": "bare/7"}

    class Wrong(Power):
        name = "wrong"
        options = "p=1"

    with pytest.raises(FeatureMapError, match="options of 'wrong' are str; return a dict"):
        map_options(Wrong(1))


def test_options_do_not_change_in_use():
    """Training, moving, reading and evaluating change no option."""
    layer = CausalAttention(WIDTH, HEADS, feature_map=Hedgehog(D))
    before = layer.config()
    layer.eval()(torch.rand(1, 3, WIDTH)).sum().backward()
    with torch.no_grad():
        layer.feature_map.key_weight += 1
    assert layer.double().train().requires_grad_(False).config() == before


def test_what_the_layer_is_comes_before_any_copy():
    layer = CausalAttention(WIDTH, HEADS)
    stored = layer.state_dict()
    others = {
        "width is 16, this layer has 8": CausalAttention(8, HEADS),
        "bias is True, this layer has False": CausalAttention(WIDTH, HEADS, bias=False),
        "heads is 2, this layer has 4": CausalAttention(WIDTH, 4),
        "attention is 'linear', this layer has 'softmax'": CausalAttention(WIDTH, HEADS, attention="softmax"),
    }
    for message, other in others.items():
        before = bytes_of(other)
        with pytest.raises(CheckpointError, match=message):
            other.load_state_dict(stored)
        assert bytes_of(other) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("mix.weight"), r"misses mix\.weight; build the model"),
        (lambda s: s.pop("_extra_state"), "misses _extra_state"),
        (lambda s: s.update(other=torch.zeros(1)), "has other, which this model lacks"),
        (
            lambda s: s.update({"mix.bias": torch.zeros(3)}),
            r"mix\.bias has shape \(3,\), this model's has \(16,\)",
        ),
        (lambda s: s.update({"mix.bias": 3}), r"mix\.bias has shape int"),
    ],
)
def test_tensors_that_do_not_fit(change, message):
    stored = dict(CausalAttention(WIDTH, HEADS).state_dict())
    change(stored)
    layer = CausalAttention(WIDTH, HEADS)
    before = bytes_of(layer)
    with pytest.raises(CheckpointError, match=message):
        layer.load_state_dict(stored)
    assert bytes_of(layer) == before
    if "shape" not in message:
        layer.load_state_dict(stored, strict=False)
        assert bytes_of(layer) != before


def test_an_earlier_description_is_refused():
    layer = CausalAttention(WIDTH, HEADS)
    old = json.dumps({"schema": 1, "attention": "linear", "heads": 2}).encode()
    stored = {**layer.state_dict(), "_extra_state": torch.tensor(list(old), dtype=torch.uint8)}
    with pytest.raises(CheckpointError, match=r"has schema 1, this version reads 2.*strict=False"):
        layer.load_state_dict(stored)


def model(heads: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), CausalAttention(WIDTH, HEADS), CausalAttention(WIDTH, heads)
    )


def test_a_whole_model_can_be_looked_at_first():
    stored, other = model(2).state_dict(), model(4)
    before = bytes_of(other)
    with pytest.raises(CheckpointError, match=r"state_dict, layer '2': heads is 2, this layer has 4"):
        check_state_dict(other, stored)
    assert bytes_of(other) == before
    # Positive control: without looking, torch has loaded the others by the time one refuses.
    with pytest.raises(CheckpointError, match=r"state_dict, layer '2': heads is 2"):
        other.load_state_dict(stored)
    after = bytes_of(other)
    assert {name for name in before if before[name] != after[name]} == {
        "0.weight",
        "0.bias",
        *(f"1.{part}.{kind}" for part in ("projection", "mix") for kind in ("weight", "bias")),
    }
    check_state_dict(model(2), stored)
    with pytest.raises(CheckpointError, match=r"state_dict: misses 0\.bias"):
        check_state_dict(model(2), {name: x for name, x in stored.items() if name != "0.bias"})
    check_state_dict(model(2), {name: x for name, x in stored.items() if name != "0.bias"}, strict=False)
    with pytest.raises(CheckpointError, match=r"0\.bias has shape \(2,\)"):
        check_state_dict(model(2), {**stored, "0.bias": torch.zeros(2)}, strict=False)


def test_a_prior_mass_that_is_trained_stays_positive():
    """The parametrisation of the docstring, driven as far down as it goes."""

    class Positive(nn.Module):
        def forward(self, raw):
            return nn.functional.softplus(raw)

        def right_inverse(self, mass):
            return mass.expm1().log()

    def build(mass: float) -> CausalAttention:
        torch.manual_seed(3)
        prior = Denominator.prior(nn.Parameter(torch.full((HEADS, 1), mass)), 0.0)
        layer = CausalAttention(WIDTH, HEADS, denominator=prior)
        nn.utils.parametrize.register_parametrization(layer, "prior_mass", Positive())
        return layer

    layer, x = build(2.0), torch.rand(1, 4, WIDTH)
    torch.testing.assert_close(layer.denominator.mass, torch.full((HEADS, 1), 2.0))
    optimiser = torch.optim.SGD(layer.parameters(), lr=5.0)
    for _ in range(20):
        optimiser.zero_grad()
        layer.prior_mass.sum().backward()
        optimiser.step()
    assert (layer.prior_mass > 0).all() and (layer.prior_mass < 0.1).all()
    layer(x)
    other = build(1.0)
    other.load_state_dict(load(save(layer.state_dict())))
    assert torch.equal(other(x), layer(x))
    # Without it, the same descent ends in an error.
    torch.manual_seed(3)
    plain = CausalAttention(
        WIDTH, HEADS, denominator=Denominator.prior(nn.Parameter(torch.full((HEADS, 1), 2.0)), 0.0)
    )
    with torch.no_grad():
        plain.prior_mass -= 5.0
    with pytest.raises(DenominatorError, match="mass: expected positive finite numbers"):
        plain(x)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_packed_tokens_in_a_layer(attention):
    layer = CausalAttention(WIDTH, HEADS, attention=attention)
    x = torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(1))
    packed = layer(x, cu_seqlens=torch.tensor([0, 3, 7]), log_decay=-torch.ones(1, HEADS, 7))
    for part in (slice(0, 3), slice(3, 7)):
        alone = layer(x[:, part], log_decay=-torch.ones(1, HEADS, part.stop - part.start))
        torch.testing.assert_close(packed[:, part], alone, rtol=1e-6, atol=1e-6)
    whole = layer(x, log_decay=-torch.ones(1, HEADS, 7))
    assert not torch.allclose(whole[:, 3:], packed[:, 3:])


def test_a_policy_is_a_policy():
    with pytest.raises(
        DenominatorError, match=r"expected a Denominator, got 'floor'; use Denominator\.raise_"
    ):
        CausalAttention(WIDTH, HEADS, denominator="floor")
