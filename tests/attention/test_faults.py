"""Faults seen in the field, one test each; those that fill a file of their own are named there.

Masks and poison: test_causality. Severed gradients, stalled sums: test_policies, test_known_numbers. Random
features redrawn or not saved: test_favor. States of another entity: test_clocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from quantattn.attention import Denominator, Favor, linear_attention
from tests.attention.maps import BACKENDS, MAPS


def tokens(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MAPS)
def test_the_normaliser_sums_over_keys(name, backend):
    """Axes of different sizes: weights of a read sum to one, and batch and heads may be permuted."""
    map_ = MAPS[name](5, 2)
    query, key, value = (tokens(n, 3, 2, 4, 5).abs() + 0.1 for n in (1, 2, 3))
    options = {"feature_map": map_, "backend": backend}
    ones = linear_attention(query, key, torch.ones(3, 2, 4, 7, dtype=torch.float64), **options).output
    torch.testing.assert_close(ones, torch.ones_like(ones), rtol=1e-13, atol=0)
    output = linear_attention(query, key, value, **options).output
    batch = linear_attention(query.flip(0), key.flip(0), value.flip(0), **options).output
    torch.testing.assert_close(output.flip(0), batch, rtol=1e-13, atol=1e-13)
    if "each head" not in name:
        heads = linear_attention(query.flip(1), key.flip(1), value.flip(1), **options).output
        torch.testing.assert_close(output.flip(1), heads, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_masked_key_leaves_the_denominator_too(backend):
    """A mask on the values alone would give 1.5."""
    ones = torch.ones(1, 1, 2, 1)
    value = torch.tensor([3.0, 5.0]).view(1, 1, 2, 1)
    mask = torch.tensor([[True, False]])
    result = linear_attention(ones, ones, value, key_mask=mask, backend=backend, return_state=True)
    assert result.output.flatten().tolist() == [3.0, 3.0]
    assert result.health.denominators.flatten().tolist() == [4.0, 4.0]
    assert result.state.count.tolist() == [1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_needs_its_denominator(backend):
    x = tokens(1, 1, 1, 6, 3)
    options = {"backend": backend}
    state = linear_attention(x, x, x, return_state=True, **options).state
    whole = linear_attention(*(torch.cat([x, x], 2),) * 3, **options).output[:, :, 6:]
    found = linear_attention(x, x, x, initial_state=state, **options).output
    torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)
    forgotten = dataclasses.replace(state, z=torch.zeros_like(state.z))
    wrong = linear_attention(x, x, x, initial_state=forgotten, **options).output
    assert (wrong - whole).abs().max() > 0.1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", range(1, 13))
def test_a_chunk_may_be_cut_anywhere(cut, backend):
    x = tokens(1, 1, 2, 13, 3)
    options = {"backend": backend, "chunk_size": 4, "return_state": True}
    whole = linear_attention(x, x, x, **options)
    head = linear_attention(*(x[:, :, :cut],) * 3, **options)
    tail = linear_attention(*(x[:, :, cut:],) * 3, initial_state=head.state, **options)
    torch.testing.assert_close(torch.cat([head.output, tail.output], 2), whole.output, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(tail.state.S, whole.state.S, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_great_key_ahead_stabilises_nothing_behind(backend):
    """A stabiliser that took the largest key of the whole sequence would flush the past to zero."""
    x = tokens(1, 1, 2, 13, 4).float()
    late = x.clone()
    late[:, :, 9:] *= 30
    options = {"feature_map": Favor(4, 16), "backend": backend, "chunk_size": 4}
    base, other = (linear_attention(x, key, x, **options) for key in (x, late))
    assert torch.equal(base.output[:, :, :9], other.output[:, :, :9])
    assert not torch.equal(base.output[:, :, 9:], other.output[:, :, 9:])
    assert torch.equal(base.health.denominators[:, :, :9], other.health.denominators[:, :, :9])


@pytest.fixture
def poisoned_allocations() -> Iterator[None]:
    """Fill every tensor that torch allocates without a value with NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before)
    torch.utils.deterministic.fill_uninitialized_memory = filled


@pytest.mark.usefixtures("poisoned_allocations")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("visibility", ["inclusive", "strict", "counts"])
def test_no_element_is_left_unwritten(visibility, backend):
    assert torch.isnan(torch.empty(3)).all()
    counts = torch.tensor([[0, 7, 3, 4, 7], [1, 0, 0, 2, 2]]) if visibility == "counts" else None
    leaves = [
        tokens(1, 2, 2, 5 if visibility == "counts" else 7, 3),
        tokens(2, 2, 2, 7, 3),
        tokens(3, 2, 2, 7, 2),
    ]
    for dtype in (torch.float64, torch.float32):
        inputs = [x.to(dtype, copy=True).requires_grad_() for x in leaves]
        decay = -torch.rand(2, 2, 7).to(dtype)
        result = linear_attention(
            *inputs,
            visibility="strict" if visibility == "strict" else "inclusive",
            visible_counts=counts,
            log_decay=decay.requires_grad_(),
            denominator=Denominator.prior(1.0),
            return_state=True,
            chunk_size=3,
            backend=backend,
        )
        found = [result.output, result.state.S, result.state.z, result.state.pending]
        sum(x.double().sum() for x in found).backward()
        assert all(torch.isfinite(x).all() for x in [*found, decay.grad, *(x.grad for x in inputs)])


def test_drift_against_float64_is_measured_on_request():
    x = tokens(1, 1, 2, 300, 4)
    short = linear_attention(x.float(), x.float(), x.float(), measure_drift=True)
    exact = linear_attention(x.float().double(), *(x.float().double(),) * 2).output
    wanted = float((short.output - exact).abs().max() / exact.abs().max())
    assert short.health.drift == pytest.approx(wanted, rel=1e-6)
    assert 0 < short.health.drift < 1e-5
    assert short.health.to_dict()["drift"] == short.health.drift
    assert linear_attention(x, x, x).health.drift is None
    half = linear_attention(x.half(), x.half(), x.half(), measure_drift=True).health.drift
    assert half > 10 * short.health.drift
    state = linear_attention(x, x, x, return_state=True).state
    options = {
        "initial_state": state.at(5).of("A"),
        "entities": "A",
        "denominator": Denominator.raise_(),
        "cu_seqlens": torch.tensor([0, 300]),
        "log_decay": -torch.ones(1, 2, 1),
        "key_times": torch.full((1, 300), 6),
    }
    assert linear_attention(x, x, x, measure_drift=True, **options).health.drift < 1e-12
    spoilt = x.clone()
    spoilt[:, :, 100:] = float("nan")
    floored = linear_attention(
        spoilt.float(), x.float(), x.float(), denominator=Denominator.floor(1e-6), measure_drift=True
    )
    assert 0 < floored.health.drift < 1e-5
