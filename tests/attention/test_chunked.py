"""What is particular to chunks: boundaries, hand-written gradients, placing reads, exponents."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.attention import Denominator, linear_attention
from quantattn.attention.backends import chunked as module

PRIOR = Denominator.prior(0.5, 0.25)


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both(reads: int, keys: int, **options):
    """Return the outputs and gradients of the chunked and the quadratic backend."""
    results = []
    for backend in ("quadratic", "chunked"):
        leaves = [draw(1, 2, 2, reads, 3), draw(2, 2, 2, keys, 3), draw(3, 2, 2, keys, 2)]
        leaves = [x.requires_grad_() for x in leaves]
        result = linear_attention(*leaves, backend=backend, return_state=True, denominator=PRIOR, **options)
        (result.output.sin().sum() + result.state.S.square().sum() + result.state.z.sum()).backward()
        results.append([result.output, result.state.S, result.state.z, *(x.grad for x in leaves)])
    return results


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 24, 31])
@pytest.mark.parametrize("size", [1, 3, 8, 64])
@pytest.mark.parametrize("visibility", ["inclusive", "strict"])
def test_every_boundary(length, size, visibility):
    decay = -draw(4, 2, 2, length).abs()
    mask = draw(5, 2, length) > -0.5
    for options in ({}, {"log_decay": decay, "key_mask": mask}):
        for wanted, got in zip(
            *both(length, length, visibility=visibility, chunk_size=size, **options), strict=True
        ):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slab", [1, 3])
@pytest.mark.parametrize("block", [1, 2, 5])
def test_slabs_and_blocks_of_any_size(slab, block, monkeypatch):
    monkeypatch.setattr(module, "_SLAB", slab)
    monkeypatch.setattr(module, "_QUERY_BLOCK", block)
    counts = torch.tensor([[0, 13, 13, 4, 4, 5, 12, 1, 8], [13, 13, 13, 13, 13, 13, 13, 0, 0]])
    decay = -draw(4, 2, 2, 13).abs()
    for options in ({"visible_counts": counts}, {"visible_counts": counts, "log_decay": decay}):
        for wanted, got in zip(*both(9, 13, chunk_size=4, **options), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 20), st.integers(0, 12), st.integers(1, 9), st.booleans())
def test_counts_of_any_kind(data, keys, reads, size, decays):
    one = st.lists(st.integers(0, keys), min_size=reads, max_size=reads)
    counts = torch.tensor([data.draw(one), data.draw(one)], dtype=torch.int64).reshape(2, reads)
    options = {"log_decay": -draw(4, 2, 2, keys).abs()} if decays else {}
    for wanted, got in zip(
        *both(reads, keys, visible_counts=counts, chunk_size=size, **options), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("visibility", ["inclusive", "strict", "counts"])
@pytest.mark.parametrize("decays", [False, True])
def test_gradcheck(visibility, decays):
    counts = torch.tensor([[0, 7, 3, 4]]) if visibility == "counts" else None
    reads = 4 if visibility == "counts" else 7
    leaves = [draw(1, 1, 2, reads, 2), draw(2, 1, 2, 7, 2), draw(3, 1, 2, 7, 2)]
    leaves += [torch.tensor(0.7, dtype=torch.float64), draw(6, 2)]
    if decays:
        leaves += [-draw(4, 1, 2, 7).abs() - 0.1, -draw(5, 1, 2, reads).abs() - 0.1]
    mask = torch.tensor([[False, True, True, False, True, True, False]])

    def function(query, key, value, mass, prior, log_decay=None, read_log_decay=None):
        result = linear_attention(
            query,
            key,
            value,
            visibility="strict" if visibility == "strict" else "inclusive",
            visible_counts=counts,
            key_mask=mask,
            log_decay=log_decay,
            read_log_decay=read_log_decay,
            return_state=True,
            denominator=Denominator.prior(mass, prior),
            chunk_size=3,
            backend="chunked",
        )
        state = result.state
        return (result.output, state.S, state.z, *([] if state.pending is None else [state.pending]))

    assert torch.autograd.gradcheck(function, [x.requires_grad_() for x in leaves])


@pytest.mark.parametrize("backend", ["quadratic", "recurrent", "chunked"])
@pytest.mark.parametrize("gap", [-30.0, -90.0, -5e3, -1e9, -math.inf])
def test_gaps_of_any_length(gap, backend):
    """Nothing overflows, and rows on either side of a gap keep all their digits."""
    length, at = 20, 9
    query, key, value = (draw(n, 1, 1, length, 3).float() for n in (1, 2, 3))
    decay = torch.full((1, 1, length), -0.01)
    decay[..., at] = gap
    leaves = [x.requires_grad_() for x in (query, key, value, decay)]
    output = linear_attention(*leaves[:3], log_decay=decay, backend=backend, chunk_size=8).output
    output.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in leaves)
    wide = [x.detach().double() for x in leaves]
    alone = [
        linear_attention(*(x[:, :, low:high] for x in wide[:3]), log_decay=wide[3][..., low:high]).output
        for low, high in ((0, at), (at, length))
    ]
    head, tail = alone
    # Keys before the gap still weigh exp(gap) behind it.
    slack = 64 * math.exp(max(gap, -700.0)) + 2e-6
    torch.testing.assert_close(output[:, :, :at].double(), head, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(output[:, :, at:].double(), tail, rtol=2e-6, atol=slack)


def test_rows_that_fill_up_a_block_do_not_overflow():
    """Thousands of nats into a history, placed reads leave rows of their block unused."""
    counts = torch.tensor([[12, 10, 11, 1, 12], [2, 3, 12, 12, 12]])
    decay = torch.full((2, 2, 12), -500.0, dtype=torch.float64)
    for wanted, got in zip(*both(5, 12, visible_counts=counts, log_decay=decay, chunk_size=4), strict=True):
        assert torch.isfinite(got).all()
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_exponents_keep_their_digits_far_from_the_start_of_a_chunk():
    """Differences of coordinates thousands of nats away are exact to float32's last place."""
    rows = torch.tensor([[-7000.1234567, -7000.6234567, -123.4567]], dtype=torch.float64)
    keys = torch.tensor([[-7000.1134567, -6999.9999999, -100.0]], dtype=torch.float64)
    got = module._pair_decay(rows, keys, torch.float32).double()
    exact = (rows[:, :, None] - keys[:, None, :]).exp()
    near = exact > 1e-30
    near &= exact <= 1
    assert near.sum() == 5
    error = (got / exact - 1).abs()[near]
    # Half a unit in the last place of an exponent that is at most 32 in size, and the exponential's own.
    assert error.max() < 32 * torch.finfo(torch.float32).eps


def test_long_history_in_float32():
    """Slow decay over many chunks: the error stays that of a single read."""
    length = 4000
    query, key, value = (draw(n, 1, 2, length, 4).float() for n in (1, 2, 3))
    decay = torch.full((1, 2, length), -1e-3)
    options = {"log_decay": decay, "backend": "chunked"}
    narrow = linear_attention(query, key, value, **options).output.double()
    wide = linear_attention(query.double(), key.double(), value.double(), **options).output
    assert (narrow - wide).abs().max() < 2e-6


def test_reads_without_keys_or_reads():
    counts = torch.zeros(2, 0, dtype=torch.int64)
    query, key = torch.rand(2, 1, 0, 3), torch.rand(2, 1, 5, 3)
    result = linear_attention(query, key, key, visible_counts=counts, return_state=True, backend="chunked")
    assert result.output.shape == (2, 1, 0, 3)
    assert result.state.count.tolist() == [5, 5]
