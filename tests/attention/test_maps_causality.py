"""No map lets the future, a mask or another row in, to the bit; and a history may be cut anywhere."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from quantattn.attention import Denominator, linear_attention
from tests.attention.maps import BACKENDS, MAPS, PLAIN

B, H, T, D = 2, 2, 21, 4
CUT = 10
PRIOR = Denominator.prior(0.5, 0.25)


def inputs(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)

    def normal() -> Tensor:
        return torch.randn(B, H, T, D, generator=generator, dtype=torch.float64).to(dtype)

    made = {name: normal().abs() + 0.05 for name in ("query", "key")}
    made["value"] = normal()
    made["log_decay"] = -normal()[..., 0].abs()
    return made


def build(name: str, dtype: torch.dtype = torch.float32):
    made = MAPS[name](D, H)
    return made.to(dtype) if isinstance(made, nn.Module) else made


CHANGES = {
    "other": lambda x: x.flip(2).abs(),
    "large": lambda x: x.abs() * 50,
    "huge": lambda x: x.abs() * 1e30,
    "nan": lambda x: torch.full_like(x, float("nan")),
    "inf": lambda x: torch.full_like(x, float("inf")),
    "-inf": lambda x: torch.full_like(x, -float("inf")),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("decays", [False, True])
def test_the_past_keeps_its_bits(decays, name, backend):
    map_ = build(name)
    options = {"feature_map": map_, "backend": backend, "denominator": PRIOR, "chunk_size": 8}

    def read(given: dict[str, Tensor]) -> Tensor:
        given = dict(given)
        if not decays:
            del given["log_decay"]
        return linear_attention(**given, **options).output

    base = read(inputs())
    assert torch.isfinite(base).all()
    for change, sides in itertools.product(CHANGES, (("key", "value"), ("query",))):
        given = inputs()
        for side in sides:
            given[side][:, :, CUT:] = CHANGES[change](given[side][:, :, CUT:])
        other = read(given)
        assert torch.equal(base[:, :, :CUT], other[:, :, :CUT]), change
        # Positive control: the change did arrive where it is visible.
        assert not torch.equal(base[:, :, CUT:], other[:, :, CUT:]), change


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_masked_keys_may_hold_anything_in_the_gradient_too(poison, name, backend):
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[0, 4:9], mask[1, 15:] = False, False
    hidden = ~mask[:, None].expand(B, H, T)
    results = []
    for fill in (0.5, poison):
        map_ = build(name)
        leaves = inputs()
        for side in ("key", "value"):
            leaves[side][hidden] = fill
        leaves = {n: x.requires_grad_() for n, x in leaves.items()}
        output = linear_attention(
            **leaves, feature_map=map_, key_mask=mask, denominator=PRIOR, backend=backend, chunk_size=8
        ).output
        output.square().sum().backward()
        parameters = list(map_.parameters()) if isinstance(map_, nn.Module) else []
        results.append([output.detach(), *(x.grad for x in [*leaves.values(), *parameters])])
    for clean, spoilt in zip(*results, strict=True):
        assert torch.isfinite(clean).all()
        assert torch.equal(clean, spoilt)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
def test_a_key_that_overflows_spoils_no_gradient_of_earlier_reads(name, backend):
    results = []
    for factor in (1.0, 1e30):
        map_ = build(name)
        leaves = inputs()
        leaves["key"][:, :, CUT:] *= factor
        leaves = {n: x.requires_grad_() for n, x in leaves.items()}
        output = linear_attention(
            **leaves, feature_map=map_, denominator=PRIOR, backend=backend, chunk_size=8
        ).output[:, :, :CUT]
        output.square().sum().backward()
        parameters = list(map_.parameters()) if isinstance(map_, nn.Module) else []
        results.append([output.detach(), *(x.grad for x in [*leaves.values(), *parameters])])
    for clean, spoilt in zip(*results, strict=True):
        assert torch.isfinite(clean).all()
        torch.testing.assert_close(clean, spoilt, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("cuts", [[0, 1, T], [0, 7, 16, T], list(range(T + 1))])
def test_pieces_equal_one_pass(cuts, name, backend):
    map_ = build(name, torch.float64)
    given = inputs(torch.float64)
    options = {"feature_map": map_, "backend": backend, "denominator": PRIOR, "return_state": True}
    whole = linear_attention(**given, **options)
    outputs, state = [], None
    for low, high in itertools.pairwise(cuts):
        piece = {n: x[:, :, low:high] for n, x in given.items()}
        result = linear_attention(**piece, **options, initial_state=state)
        outputs.append(result.output)
        state = result.state
    torch.testing.assert_close(torch.cat(outputs, 2), whole.output, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.S, whole.state.S, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(state.z, whole.state.z, rtol=1e-12, atol=1e-12)
    if backend == "recurrent" and name in PLAIN:
        assert torch.equal(torch.cat(outputs, 2), whole.output)
        assert torch.equal(state.S, whole.state.S)


@pytest.mark.parametrize("name", MAPS)
def test_other_heads_and_rows_of_the_batch_are_untouched(name):
    map_ = build(name)
    given = inputs()
    base = linear_attention(**given, feature_map=map_).output
    given["key"][1, 0] *= 3
    given["value"][1, 0] += 1
    other = linear_attention(**given, feature_map=map_).output
    changed = (base != other).flatten(2).any(-1)
    assert changed.tolist() == [[False, False], [True, False]]
