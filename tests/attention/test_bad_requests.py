"""Requests that make no sense: one error of this package each, naming the argument and the remedy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from quantattn.attention import (
    CausalAttention,
    Denominator,
    Elu1,
    Favor,
    FeatureMap,
    Taylor2,
    build_feature_map,
    check_state_dict,
    kernel_report,
    linear_attention,
    map_options,
    recall_report,
    register_feature_map,
    softmax_attention,
)
from quantattn.attention.features import registry
from quantattn.errors import CheckpointError, DenominatorError, FeatureMapError, GradientError, ShapeError

X = torch.rand(2, 2, 5, 4, generator=torch.Generator().manual_seed(1))
HIDDEN = torch.rand(2, 3, 8, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("eps", ["x", None, torch.tensor(2), torch.ones(2), True, [1.0], 10**400, 1j])
def test_floors_that_are_no_number(eps):
    with pytest.raises(DenominatorError, match=r"eps: expected one number, got .*; try 1e-6"):
        Denominator.floor(eps)


@pytest.mark.parametrize("mass", ["x", "1", None, [1.0], True, b"1"])
def test_masses_that_are_no_number(mass):
    with pytest.raises(DenominatorError, match=r"mass: expected one number, got .*; try 1\.0"):
        Denominator.prior(mass)


@pytest.mark.parametrize("value", ["x", "12", b"12", None, [[1.0]], ["1"], {"a": 1.0}, np.ones((2, 2))])
def test_values_that_are_no_numbers(value):
    with pytest.raises(DenominatorError, match="value: expected one number, got "):
        Denominator.prior(1, value)


def test_tensors_that_are_no_numbers():
    for bad in (torch.tensor(1j), torch.tensor(True)):
        with pytest.raises(DenominatorError, match="mass: expected real numbers, got torch"):
            Denominator.prior(bad)
        with pytest.raises(DenominatorError, match="value: expected real numbers, got torch"):
            Denominator.prior(1.0, bad)
    with pytest.raises(DenominatorError, match="value: expected finite numbers"):
        Denominator.prior(1.0, [])
    with pytest.raises(DenominatorError, match="mass: expected positive finite numbers"):
        Denominator.prior(torch.ones(0))


def test_numbers_of_every_kind():
    assert Denominator.floor(np.float32(0.5)) == Denominator.floor(0.5)
    assert Denominator.prior(np.int64(2), np.arange(3)) == Denominator.prior(2.0, [0.0, 1.0, 2.0])
    assert Denominator.prior(1, 3).value == 3.0


@pytest.mark.parametrize(
    "prior",
    [
        Denominator.prior(torch.tensor([1.0]), torch.tensor([0.5])),
        Denominator.prior(torch.tensor(1.0), torch.tensor(0.5)),
        Denominator.prior(torch.tensor([[2.0], [1.0]]), [1.0, 2.0, 3.0, 4.0]),
        Denominator.prior(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])),
    ],
)
def test_a_prior_comes_back_from_plain_data(prior):
    again = Denominator.from_dict(prior.to_dict())
    assert again == prior
    found, wanted = (linear_attention(X, X, X, denominator=policy).output for policy in (again, prior))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (None, "stored: expected a dict, got None"),
        ("raise", "stored: expected a dict, got 'raise'"),
        ({"kind": []}, r"kind: unknown policy \[\]"),
        ({"kind": "floor", "eps": "x"}, "eps: expected one number, got 'x'"),
        ({"kind": "floor", 1: 2}, r"kind 'floor' takes \['eps'\], got \['1'\]"),
        ({"kind": "prior", "mass": [[1.0], [1.0, 2.0]], "value": 0.0}, "mass: .* is not an array of numbers"),
        ({"kind": "prior", "mass": 1.0, "value": "stored"}, "value: expected one number, got 'stored'"),
    ],
)
def test_policies_that_were_not_stored_so(stored, message):
    with pytest.raises(DenominatorError, match=message):
        Denominator.from_dict(stored)


@pytest.mark.parametrize("width", [8.0, "8", None, True])
def test_sizes_of_a_layer(width):
    with pytest.raises(ShapeError, match="width: expected a whole number, got"):
        CausalAttention(width, 2)
    with pytest.raises(ShapeError, match="heads: expected a whole number, got"):
        CausalAttention(8, width)


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (None, "hidden: expected a torch.Tensor, got NoneType"),
        (HIDDEN.numpy(), "hidden: expected a torch.Tensor, got ndarray"),
        (HIDDEN.double(), "hidden: is torch.float64 on cpu, the layer is torch.float32 on cpu"),
        (HIDDEN.long(), "hidden: is torch.int64 on cpu"),
        (HIDDEN[0], r"hidden: expected shape \(B, T, 8\), got \(3, 8\)"),
    ],
)
def test_tokens_that_are_none(hidden, message):
    for attention in ("linear", "softmax"):
        with pytest.raises(ShapeError, match=message):
            CausalAttention(8, 2, attention=attention)(hidden)


def test_autocast_still_casts():
    layer = CausalAttention(8, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(HIDDEN.bfloat16()).shape == HIDDEN.shape


def test_other_parts_of_a_layer():
    with pytest.raises(ShapeError, match=r"module: expected a torch\.nn\.MultiheadAttention, got Linear"):
        CausalAttention.from_multihead(nn.Linear(3, 3))
    with pytest.raises(DenominatorError, match="denominator: Denominator is not a policy; use"):
        CausalAttention(8, 2, denominator=Denominator())
    with pytest.raises(ShapeError, match="bias: expected True or False, got 'x'"):
        CausalAttention(8, 2, bias="x")
    with pytest.raises(FeatureMapError, match=r"got the class Elu1; build one, such as Elu1\(\)"):
        CausalAttention(8, 2, feature_map=Elu1)
    with pytest.raises(CheckpointError, match="state_dict: expected a dict of tensors, got NoneType"):
        CausalAttention(8, 2).load_state_dict(None)
    with pytest.raises(CheckpointError, match="state_dict: expected a dict of tensors, got str"):
        check_state_dict(CausalAttention(8, 2), "x")
    with pytest.raises(CheckpointError, match=r"model: expected a torch\.nn\.Module, got NoneType"):
        check_state_dict(None, {})


class Plain(FeatureMap):
    """A map that keeps its promises, for others to break one."""

    name = "plain"
    positive = True

    def width(self, d):
        return d

    def __call__(self, x):
        return x.abs() + 0.1


class Nameless(FeatureMap):
    positive = True
    width, __call__ = Plain.width, Plain.__call__


class Unsaid(FeatureMap):
    name = "unsaid"
    width, __call__ = Plain.width, Plain.__call__


class Taken(Plain):
    name = "elu1"


class Inherits(Elu1):
    """Another function under an inherited name."""

    def __call__(self, x):
        return super().__call__(x) * 2 + x.abs()


@pytest.mark.parametrize(
    ("map_", "message"),
    [
        (Nameless(), "feature_map: Nameless has no name; set name"),
        (Unsaid(), "feature_map: 'unsaid' does not say whether it is positive; set positive"),
        (Taken(), r"Taken has the name 'elu1' of another map, this package's Elu1; give the class a name of"),
        (Inherits(), "Inherits has the name 'elu1' of another map"),
        (Elu1, "expected a map, got the class Elu1"),
        (None, "None is not registered"),
    ],
)
def test_maps_that_do_not_say_what_they_are(map_, message):
    linear_attention(X, X, X, feature_map=Plain())
    with pytest.raises(FeatureMapError, match=message):
        linear_attention(X, X, X, feature_map=map_)
    with pytest.raises(FeatureMapError, match=message):
        CausalAttention(8, 2, feature_map=map_)


@pytest.fixture
def factories(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    def fails():
        raise KeyError("boom")

    for name, factory in (("fails", fails), ("needs", lambda d: Plain()), ("nameless", Nameless)):
        register_feature_map(name, factory)
    register_feature_map("held", fails, stored=True)


def test_factories_that_fail(factories):
    for name, message in (
        ("fails", "'fails' cannot be built with no options: KeyError: 'boom'"),
        ("needs", "'needs' cannot be built with no options: TypeError: .* missing 1 required positional"),
        ("nameless", "Nameless has no name"),
    ):
        for call in (
            lambda name=name: linear_attention(X, X, X, feature_map=name),
            lambda name=name: build_feature_map(name, 4),
            lambda name=name: CausalAttention(8, 2, feature_map=name),
        ):
            with pytest.raises(FeatureMapError, match=message):
                call()
    with pytest.raises(FeatureMapError, match=r"'held' cannot be built with \{'heads': 2\}: TypeError"):
        build_feature_map("held", 4, heads=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": 5}, ShapeError, "features: expected positive whole numbers, such as .*, got 5"),
        ({"features": ("a",)}, ShapeError, "features: expected positive whole numbers"),
        ({"features": (True,)}, ShapeError, "features: expected positive whole numbers"),
        ({"seeds": True}, ShapeError, "seeds: expected at least 3 draws for an interval, got True"),
        ({"confidence": "x"}, ShapeError, "confidence: expected a number between 0 and 1.*, got 'x'"),
        ({"confidence": None}, ShapeError, "confidence: .*, got None"),
        (
            {"confidence": 0.9999999999999999},
            ShapeError,
            "at most 0.999999, got 0.9999999999999999; try 0.95",
        ),
        ({"confidence": True}, ShapeError, "confidence: .*, got True"),
        ({"scale": "x"}, ShapeError, "scale: expected a positive finite number, got 'x'"),
        (
            {"feature_map": None},
            FeatureMapError,
            "feature_map: expected a name, a map or a function .* got None",
        ),
        ({"feature_map": 1}, FeatureMapError, "feature_map: expected a name, a map or a function .* got 1"),
        ({"feature_map": Elu1}, FeatureMapError, "feature_map: expected a name, a map or a function"),
        (
            {"feature_map": lambda r, seed: 1 / 0},
            FeatureMapError,
            "the factory failed with ZeroDivisionError",
        ),
        ({"feature_map": lambda r: Elu1()}, FeatureMapError, r"called as factory\(4, 0\)"),
        ({"feature_map": Favor(3)}, FeatureMapError, "was built for shape"),
    ],
)
def test_kernel_reports(options, error, message):
    with pytest.raises(error, match=message):
        kernel_report(**{"feature_map": "favor", "features": (4,), **options}, query=X, key=X, value=X)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lengths": 5}, ShapeError, "lengths: expected positive whole numbers, such as .*, got 5"),
        ({"lengths": None}, ShapeError, "lengths: expected positive whole numbers, such as .*, got None"),
        ({"lengths": (True,)}, ShapeError, r"lengths: expected positive whole numbers, .* got \(True,\)"),
        ({"widths": 8}, ShapeError, "widths: expected positive whole numbers, such as .*, got 8"),
        ({"values": True}, ShapeError, "values: expected a whole number from 2 up, got True"),
        ({"seeds": "3"}, ShapeError, "seeds: expected a whole number from 2 up, got '3'"),
        (
            {"feature_maps": None},
            FeatureMapError,
            "feature_maps: expected names, maps or a list of them, got None",
        ),
        ({"feature_maps": Elu1}, FeatureMapError, "feature_maps: expected names, maps or a list of them"),
        ({"feature_maps": [None]}, FeatureMapError, "feature_maps: None is not registered"),
        ({"feature_maps": [Elu1]}, FeatureMapError, "feature_maps: expected a map, got the class Elu1"),
    ],
)
def test_recall_reports(options, error, message):
    with pytest.raises(error, match=message):
        recall_report(**{"feature_maps": "elu1", "lengths": (4,), "widths": (4,), **options})


@pytest.mark.parametrize("seed", [2**64, 2**70, -1, 1.0, True])
def test_seeds(seed):
    with pytest.raises(FeatureMapError, match="seed: expected a whole number from 0 up, got"):
        Favor(4, seed=seed)
    with pytest.raises(FeatureMapError, match="seed: expected a whole number from 0 up, got"):
        Favor(4).redraw(seed)
    assert torch.isfinite(Favor(4, seed=2**64 - 1).projection).all()


def test_options_of_maps():
    for scale in ("x", True, math.nan, [1.0]):
        with pytest.raises(FeatureMapError, match="scale: expected a positive finite number, got"):
            Taylor2(scale=scale)
    with pytest.raises(FeatureMapError, match="feature_map: expected a FeatureMap, got None"):
        map_options(None)
    with pytest.raises(ShapeError, match="visibility: expected 'inclusive' or 'strict'"):
        linear_attention(X, X, X, visibility=[])


def attend(kind):
    return (
        (lambda x: linear_attention(x, x, x).output)
        if kind == "linear"
        else lambda x: softmax_attention(x, x, x)
    )


@pytest.mark.parametrize("kind", ["linear", "softmax"])
def test_transforms_of_functions_are_refused(kind):
    read = attend(kind)
    calls = (
        lambda: torch.func.grad(lambda x: read(x).sum())(X),
        lambda: torch.func.vmap(read)(X[None].expand(3, -1, -1, -1, -1)),
        lambda: torch.func.jvp(read, (X,), (X,)),
        lambda: torch.func.jacrev(read)(X),
    )
    for call in calls:
        with pytest.raises(
            GradientError, match=r"query: is inside a transform of torch\.func .*; for gradients"
        ):
            call()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, X)
        with pytest.raises(GradientError, match="forward-mode derivatives"):
            read(dual)
        read(X)


def test_what_inference_mode_made_is_not_differentiated():
    with torch.inference_mode():
        key = torch.rand(1, 2, 40, 4)
        linear_attention(key, key, key)
    query = torch.rand(1, 2, 40, 4, requires_grad=True)
    for backend in ("fused", "chunked"):
        with pytest.raises(
            GradientError, match=r"key: was made in torch.inference_mode.*pass key\.clone\(\)"
        ):
            linear_attention(query, key, key, backend=backend)
        linear_attention(query, key.clone(), key.clone(), backend=backend).output.sum().backward()
        with torch.no_grad():
            linear_attention(query, key, key, backend=backend)
        linear_attention(query.detach(), key, key, backend=backend)
