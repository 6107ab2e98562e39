"""Every map in every backend against its similarity written out, forward and gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from quantattn.attention import Denominator, FeatureMap, linear_attention
from tests.attention.maps import BACKENDS, MAPS, similarity

B, H, T, D, DV = 2, 2, 13, 3, 2
POLICIES = {
    "raise": Denominator.raise_(),
    "floor": Denominator.floor(1.5),
    "prior": Denominator.prior(0.75, [0.5, -1.0]),
}


def inputs(name: str, reads: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(6)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float32).to(dtype)

    made = {"query": normal(B, H, reads, D), "key": normal(B, H, T, D), "value": normal(B, H, T, DV)}
    for side in ("query", "key"):
        # Two neighbouring entries that are always there keep every map's denominators away from zero.
        made[side][..., :2] = made[side][..., :2].abs() + 0.5
        if name == "identity":
            made[side] = made[side].abs()
    made["log_decay"] = -normal(B, H, T).abs()
    made["read_log_decay"] = -normal(B, H, reads).abs()
    return made


def setting(visibility: str, policy: str) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return counts, the counts to pass and a mask."""
    generator = torch.Generator().manual_seed(7)
    mask = torch.rand(B, T, generator=generator) > 0.3
    mask[:, 0] = True
    if visibility == "counts":
        counts = torch.tensor([[T, 1, 5, 8, 3], [2, T, 7, 1, 1]])
        if policy != "raise":
            counts[0, 1] = 0
        return counts, counts, mask
    return (torch.arange(T) + (visibility == "inclusive")).expand(B, T), None, mask


def oracle(map_: FeatureMap, given: dict[str, Tensor], counts: Tensor, mask: Tensor, policy: str) -> Tensor:
    """Return reads from explicit pairs."""
    pairs = similarity(map_, given["query"], given["key"])
    place = torch.arange(T)
    seen = (place < counts[:, None, :, None]) & mask[:, None, None]
    between = (place[:, None] < place) & (place < counts[:, None, :, None, None])
    age = (between * given["log_decay"][:, :, None, None]).sum(-1) + given["read_log_decay"][..., None]
    weight = torch.where(seen, pairs * age.exp(), 0.0)
    above, below = weight @ given["value"], weight.sum(-1, keepdim=True)
    if policy == "floor":
        return above / below.clamp(min=1.5)
    if policy == "prior":
        return (above + 0.75 * torch.tensor([0.5, -1.0]).to(above)) / (below + 0.75)
    return above / below


def gradients(output: Tensor, leaves: dict[str, Tensor], map_: FeatureMap) -> dict[str, Tensor]:
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float32)
    wanted = dict(leaves)
    if isinstance(map_, nn.Module):
        wanted |= dict(map_.named_parameters())
    found = torch.autograd.grad(
        (output * weight.to(output.dtype)).sum(), list(wanted.values()), allow_unused=True
    )
    return {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(wanted.items(), found, strict=True)
    } | {"output": output.detach()}


def both(
    name: str, visibility: str, policy: str, backend: str, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    map_ = MAPS[name](D, H)
    if isinstance(map_, nn.Module):
        map_.to(dtype)
    counts, passed, mask = setting(visibility, policy)
    leaves = {n: x.requires_grad_() for n, x in inputs(name, counts.shape[1], dtype).items()}
    result = linear_attention(
        **leaves,
        feature_map=map_,
        visibility="strict" if visibility == "strict" else "inclusive",
        visible_counts=passed,
        key_mask=mask,
        denominator=POLICIES[policy],
        chunk_size=4,
        backend=backend,
    )
    got = gradients(result.output, leaves, map_)
    return got, gradients(oracle(map_, leaves, counts, mask, policy), leaves, map_)


CASES = [("inclusive", "raise"), ("inclusive", "prior"), ("strict", "floor"), ("counts", "prior")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize(("visibility", "policy"), CASES)
def test_float64(visibility, policy, name, backend):
    got, wanted = both(name, visibility, policy, backend, torch.float64)
    for which, exact in wanted.items():
        scale = exact.abs().max().clamp(min=1)
        assert (got[which] - exact).abs().max() <= 1e-12 * scale, which


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
def test_float32_rounds_no_worse_than_the_formula(name, backend):
    got, rounded = both(name, "counts", "prior", backend, torch.float32)
    _, exact = both(name, "counts", "prior", "quadratic", torch.float64)
    for which, wanted in exact.items():
        largest = wanted.abs().max().clamp(min=1)
        width = max(MAPS[name](D, H).width(D), D)
        # What the formula loses in float32, and one unit in the last place for every term of a sum.
        slack = 2 * (rounded[which].double() - wanted).abs().max()
        slack = slack + (T + width) * torch.finfo(torch.float32).eps * largest
        assert (got[which].double() - wanted).abs().max() <= slack, which


@pytest.mark.parametrize("name", [name for name in MAPS if name not in ("identity", "relu")])
def test_features_have_the_gradient_that_they_say(name):
    map_ = MAPS[name](D, H)
    if isinstance(map_, nn.Module):
        map_.double()
    x = inputs(name, 4, torch.float64)["query"].requires_grad_()

    def features(x):
        mapped = map_.map_query(x)
        scale = 1.0 if mapped.log_scale is None else mapped.log_scale.exp()[..., None]
        return mapped.features * scale, map_.map_key(x)

    assert torch.autograd.gradcheck(features, [x])
    assert map_.map_key(x).shape == (*x.shape[:-1], map_.width(D))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MAPS)
def test_half_precision_is_computed_in_float32(name, dtype):
    map_ = MAPS[name](D, H)
    given = {n: x.to(dtype) for n, x in inputs(name, T, torch.float32).items()}
    half = linear_attention(**given, feature_map=map_)
    wide = linear_attention(**{n: x.float() for n, x in given.items()}, feature_map=map_)
    assert half.output.dtype == dtype
    assert torch.equal(half.output, wide.output.to(dtype))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("policy", POLICIES)
def test_denominators_are_in_the_unit_of_the_similarity(name, policy):
    """Whatever a map divides out of its features comes back in the health."""
    map_ = MAPS[name](D, H)
    given = inputs(name, T, torch.float64)
    counts, _, mask = setting("inclusive", policy)
    for short in ("log_decay", "read_log_decay"):
        del given[short]
    health = linear_attention(**given, feature_map=map_, key_mask=mask, denominator=POLICIES[policy]).health
    seen = (torch.arange(T) < counts[:, None, :, None]) & mask[:, None, None]
    wanted = torch.where(seen, similarity(map_, given["query"], given["key"]), 0.0).sum(-1)
    torch.testing.assert_close(health.denominators, wanted, rtol=1e-12, atol=1e-12)
