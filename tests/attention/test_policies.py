"""Denominator policies: what they say, how they are stored, what shows in the health."""

from __future__ import annotations

import json
import math

import pytest
import torch

from quantattn.attention import AttentionHealth, Denominator, linear_attention
from quantattn.errors import DenominatorError, ShapeError

BACKENDS = ("quadratic", "recurrent", "chunked", "fused")
ONES = torch.ones(2, 2, 3, 1, dtype=torch.float64)
VALUE = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)[None, None, :, None].expand(2, 2, 3, 1)


def read(policy: Denominator, **options):
    return linear_attention(ONES, ONES, VALUE, feature_map="identity", denominator=policy, **options)


@pytest.mark.parametrize(
    "policy",
    [
        Denominator.raise_(),
        Denominator.floor(1e-6),
        Denominator.prior(2.0, 0.5),
        Denominator.prior(1, [1.0, 2.0]),
        Denominator.prior(torch.tensor([[1.0], [2.0]]), torch.tensor([[[0.5]], [[1.5]]])),
    ],
)
def test_stored_and_rebuilt(policy):
    stored = json.loads(json.dumps(policy.to_dict()))
    again = Denominator.from_dict(stored)
    assert again == policy
    assert hash(again) == hash(policy)
    assert again.to_dict() == stored
    assert policy != Denominator.floor(0.125)


def test_what_is_stored():
    assert Denominator.raise_().to_dict() == {"kind": "raise"}
    assert Denominator.floor(0.5).to_dict() == {"kind": "floor", "eps": 0.5}
    assert Denominator.prior(2, [1, 3]).to_dict() == {"kind": "prior", "mass": 2.0, "value": [1.0, 3.0]}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"kind": "epsilon"}, "unknown policy 'epsilon'; give one of floor, prior, raise"),
        ({}, "unknown policy None"),
        ({"kind": "floor"}, r"kind 'floor' takes \['eps'\], got \[\]"),
        ({"kind": "raise", "eps": 1}, r"kind 'raise' takes \[\], got \['eps'\]"),
        ({"kind": "floor", "eps": 0}, "eps: expected a positive finite number, got 0.0"),
        ({"kind": "prior", "mass": -1.0, "value": 0.0}, "mass: expected positive finite numbers"),
        ({"kind": "prior", "mass": 1.0, "value": float("nan")}, "value: expected finite numbers"),
    ],
)
def test_bad_stores(stored, message):
    with pytest.raises(DenominatorError, match=message):
        Denominator.from_dict(stored)


@pytest.mark.parametrize("eps", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_numbers(eps):
    with pytest.raises(DenominatorError, match="eps"):
        Denominator.floor(eps)
    with pytest.raises(DenominatorError, match="mass"):
        Denominator.prior(eps, 0.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_three_formulas(backend):
    # Sums 1, 3, 9 over 1, 2, 3.
    assert read(Denominator.raise_(), backend=backend).output[0, 0].flatten().tolist() == [1, 1.5, 3]
    assert read(Denominator.floor(2.0), backend=backend).output[0, 0].flatten().tolist() == [0.5, 1.5, 3]
    assert read(Denominator.prior(3.0, 5.0), backend=backend).output[0, 0].flatten().tolist() == [
        4,
        18 / 5,
        4,
    ]


def test_a_prior_for_each_head():
    policy = Denominator.prior(torch.tensor([[1.0], [3.0]]), torch.tensor([[[5.0]], [[1.0]]]))
    output = read(policy).output
    assert output[1, 0].flatten().tolist() == [3, 8 / 3, 14 / 4]
    assert output[1, 1].flatten().tolist() == [1, 6 / 5, 2]


def test_priors_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"mass \(5,\) does not broadcast to \(B, H, Tq\) = \(2, 2, 3\)"):
        read(Denominator.prior(torch.ones(5), 0.0))
    with pytest.raises(ShapeError, match=r"value \(4,\) does not broadcast to .* \(2, 2, 3, 1\)"):
        read(Denominator.prior(1.0, [1.0] * 4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_raise_names_batch_head_and_position(backend):
    key = ONES.clone()
    key[1, 0, :2] = 0
    with pytest.raises(DenominatorError) as caught:
        linear_attention(ONES, key, VALUE, feature_map="identity", backend=backend)
    assert "got batch 1, head 0, position 0: 0; batch 1, head 0, position 1: 0." in str(caught.value)
    assert "Denominator.prior" in str(caught.value)
    with pytest.raises(DenominatorError, match="and 9 more"):
        linear_attention(ONES, 0 * key, VALUE, feature_map="identity", backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_raise_refuses_a_sum_that_overflows(backend):
    huge = torch.full((1, 1, 3, 1), 3e38)
    options = {"feature_map": "identity", "backend": backend}
    with pytest.raises(DenominatorError, match="batch 0, head 0, position 1: inf"):
        linear_attention(torch.ones_like(huge), huge, huge * 0, **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_decay_never_empties_a_plain_ratio(backend):
    """A gap of a thousand half-lives under masked keys, then a read: only a prior forgets."""
    decay = torch.tensor([0.0, -1.0, -900.0], dtype=torch.float64).expand(2, 2, 3)
    mask = torch.tensor([[True, True, False]] * 2)
    options = {"log_decay": decay, "key_mask": mask, "backend": backend}
    before = read(Denominator.raise_(), **options).output
    assert torch.equal(before[:, :, 1], before[:, :, 2])
    wanted = (math.exp(-1) + 2) / (math.exp(-1) + 1)
    assert float(before[0, 0, 2, 0]) == pytest.approx(wanted, rel=1e-14)
    faded = read(Denominator.prior(1e-3, 7.0), **options).output
    assert faded[:, :, 2].tolist() == [[[7.0]] * 2] * 2
    assert read(Denominator.floor(1e-3), **options).output[0, 0, 2].tolist() == [0.0]


def test_health_says_what_happened():
    health = read(Denominator.floor(2.0)).health
    assert isinstance(health, AttentionHealth)
    assert (health.reads, health.least, health.floor_hits, health.nonfinite, health.empty) == (12, 1, 4, 0, 0)
    assert health.percentiles((0, 50, 100)) == {0.0: 1.0, 50.0: 2.0, 100.0: 3.0}
    assert health.policy == Denominator.floor(2.0)
    assert health.to_dict() == {
        "backend": "quadratic",
        "feature_map": "identity",
        "denominator": "floor(2.0)",
        "reads": 12,
        "least": 1.0,
        "percentile_1": 1.0,
        "percentile_50": 2.0,
        "percentile_99": 3.0,
        "floor_hits": 4,
        "nonfinite": 0,
        "empty": 0,
        "drift": None,
    }
    strict = read(Denominator.prior(1.0), visibility="strict").health
    assert (strict.least, strict.empty, strict.floor_hits) == (0.0, 4, 0)


def test_health_is_outside_the_gradient():
    query = torch.rand(1, 1, 4, 2, requires_grad=True)
    health = linear_attention(query, query, query).health
    assert not health.denominators.requires_grad


def test_health_of_nothing():
    empty = torch.rand(1, 1, 0, 2)
    health = linear_attention(empty, empty, empty).health
    assert health.reads == 0
    assert health.least != health.least
    assert all(value != value for value in health.percentiles().values())
    said = json.loads(json.dumps(health.to_dict(), allow_nan=False))
    assert (said["reads"], said["least"], said["percentile_50"]) == (0, None, None)


def test_health_on_one_line():
    health = read(Denominator.floor(2.0), measure_drift=True).health
    assert (
        repr(health)
        == str(health)
        == (
            "AttentionHealth(quadratic, identity, floor(2.0): reads=12, least=1, floor_hits=4, nonfinite=0, "
            "empty=0, drift=0)"
        )
    )
    bad = linear_attention(
        ONES * math.nan, ONES, VALUE, feature_map="relu", denominator=Denominator.prior(1.0)
    )
    assert "least=nan" in repr(bad.health) and "nonfinite=12" in repr(bad.health)
    assert json.loads(json.dumps(bad.health.to_dict(), allow_nan=False))["least"] is None


def test_health_is_equal_to_itself_alone():
    one, other = read(Denominator.floor(2.0)).health, read(Denominator.floor(2.0)).health
    assert one == one and one != other and one.to_dict() == other.to_dict()
    assert len({one, other}) == 2


@pytest.mark.parametrize("at", ["50", True, None, (0, 101), (-1,), (math.nan,), ("a",), [[1]], object()])
def test_bad_percentiles(at):
    with pytest.raises(ShapeError, match=r"at: expected percentages from 0 to 100, such as .*, got"):
        read(Denominator.floor(2.0)).health.percentiles(at)


def test_one_percentile():
    health = read(Denominator.floor(2.0)).health
    assert health.percentiles(50) == {50.0: 2.0}
    assert health.percentiles([0, 100]) == {0.0: 1.0, 100.0: 3.0}


def test_policies_in_short():
    for policy, said in (
        (Denominator.raise_(), "raise_()"),
        (Denominator.floor(1e-6), "floor(1e-06)"),
        (Denominator.prior(2, 0.5), "prior(mass=2.0, value=0.5)"),
        (Denominator.prior(2, [1, 2]), "prior(mass=2.0, value=[1.0, 2.0])"),
    ):
        assert str(policy) == said and repr(policy) == f"Denominator.{said}"
        assert eval(repr(policy), {"Denominator": Denominator}) == policy
    long = Denominator.prior(torch.nn.Parameter(torch.ones(4, 1)), list(range(64)))
    assert repr(long) == (
        "Denominator.prior(mass=<tensor (4, 1), trained>, value=[0.0, 1.0, 2.0, 3.0, ... 64 in all])"
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "policy", [Denominator.raise_(), Denominator.floor(4.0), Denominator.prior(1.0, 4.0)]
)
def test_the_gradient_goes_through_the_denominator(policy, backend):
    """A weight that moves to one key moves away from the others: gradients of equal values cancel."""
    drawn = torch.rand(1, 1, 3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    key = (0.1 * drawn).requires_grad_()
    same = torch.full((1, 1, 3, 1), 4.0, dtype=torch.float64)
    linear_attention(key.detach(), key, same, denominator=policy, backend=backend).output.sum().backward()
    if policy == Denominator.floor(4.0):
        # Below the floor the denominator is a constant: only the first read, of about two, is.
        assert (key.grad[0, 0, 0] > 0.1).all() and key.grad[0, 0, 1:].abs().max() < 1e-14
    else:
        assert key.grad.abs().max() < 1e-14
