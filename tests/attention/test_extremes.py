"""Great finite numbers, long gaps and odd views: the value stays right, and what is hidden stays hidden."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.attention import Denominator, backend_names, linear_attention, softmax_attention
from quantattn.errors import BackendError, DenominatorError, ShapeError
from tests.attention.oracle import softmax_rows

BACKENDS = backend_names()
LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize("huge", [1e31, LARGEST, -LARGEST])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("decays", [False, True])
def test_softmax_hides_great_numbers(decays, counted, huge):
    """A masked key and a later key are no part of the read, however great they are."""
    generator = torch.Generator().manual_seed(4)
    query, key, value = (torch.rand(2, 2, 300, 4, generator=generator) for _ in range(3))
    mask = torch.rand(2, 300, generator=generator) < 0.8
    mask[:, 0] = True
    decay = -torch.rand(2, 2, 300, generator=generator) / 100 if decays else None
    counts = torch.arange(1, 301).repeat(2, 1) if counted else None

    def read(key, value):
        leaves = [x.clone().requires_grad_() for x in (query, key, value)]
        output = softmax_attention(*leaves, key_mask=mask, log_decay=decay, visible_counts=counts)
        past = output[:, :, :201]
        return past.detach(), torch.autograd.grad(1000 * past.sum(), leaves)

    keys, values = key.clone(), value.clone()
    keys[~mask[:, None].expand(2, 2, 300)] = huge
    values[~mask[:, None].expand(2, 2, 300)] = huge
    keys[:, :, 201:] = huge / 1e10
    base, grads = read(key, value)
    other, others = read(keys, values)
    assert torch.equal(base, other)
    for grad, again in zip(grads, others, strict=True):
        assert torch.isfinite(again).all()
        torch.testing.assert_close(again, grad)


def test_softmax_by_hand_beside_a_great_key():
    query, key = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    value = torch.tensor([1.0, 2.0, 7777.0]).view(1, 1, 3, 1)
    key[0, 0, 2] = 1e31
    counts = torch.tensor([[1, 3]])
    assert softmax_attention(query, key, value, visible_counts=counts).flatten().tolist() == [1.0, 7777.0]
    mask = torch.tensor([[True, True, False]])
    read = softmax_attention(torch.ones(1, 1, 3, 4), key, value, key_mask=mask)
    torch.testing.assert_close(read.flatten(), torch.tensor([1.0, 1.5, 1.5]))


@pytest.mark.parametrize("gap", [-math.inf, -200.0])
def test_softmax_keeps_its_digits_beside_a_neighbour_in_the_batch(gap):
    """Two rows whose only read sees 820 and 1000 keys."""
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(2, 1, 1, 4, generator=generator)
    key, value = (
        torch.randn(2, 1, 1000, 4, generator=generator),
        torch.randn(2, 1, 1000, 3, generator=generator),
    )
    decay = torch.full((2, 1, 1000), -0.01)
    decay[..., ::5] = gap
    counts = torch.tensor([[820], [1000]])
    both = softmax_attention(query, key, value, visible_counts=counts, log_decay=decay)
    exact = softmax_rows(
        *(x.double().numpy() for x in (query, key, value)),
        counts.numpy(),
        None,
        decay.double().clamp(min=-1e4).numpy(),
        0.5,
    )
    assert abs(both.double().numpy() - exact).max() < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("feature_map", ["relu", "elu1"])
def test_a_masked_value_gives_no_gradient_however_great(backend, feature_map):
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.rand(1, 2, 40, 4, generator=generator) for _ in range(3))
    mask = torch.ones(1, 40, dtype=torch.bool)
    mask[:, 20] = False
    value[:, :, 20], key[:, :, 20] = 1e38, 1e38
    leaves = [x.requires_grad_() for x in (query, key, value)]
    output = linear_attention(*leaves, key_mask=mask, feature_map=feature_map, backend=backend).output
    for grad in torch.autograd.grad(10 * output.sum(), leaves):
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [65, 64, 90])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_gap_at_the_end_leaves_the_gradients_of_the_past(backend, length, dtype):
    grads = {}
    for name in ("quadratic", backend):
        generator = torch.Generator().manual_seed(6)
        leaves = [torch.rand(1, 1, length, 2, generator=generator, dtype=dtype) for _ in range(3)]
        decay = torch.zeros(1, 1, length, dtype=torch.float64)
        decay[..., -1] = -800.0
        leaves = [x.requires_grad_() for x in (*leaves, decay)]
        output = linear_attention(
            *leaves[:3],
            visibility="strict",
            log_decay=leaves[3],
            denominator=Denominator.prior(1.0, 0.0),
            backend=name,
        ).output
        grads[name] = torch.autograd.grad(output.sum(), leaves)
    for expected, found in zip(grads["quadratic"], grads[backend], strict=True):
        assert torch.isfinite(found).all()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk_size", [64, 128, 129, 1024, 3000])
def test_chunks_of_any_size_keep_their_digits_across_gaps_that_wipe(chunk_size):
    generator = torch.Generator().manual_seed(7)
    query, key, value = (torch.randn(1, 1, 3000, 4, generator=generator) for _ in range(3))
    decay = -torch.rand(1, 1, 3000, generator=generator) / 10
    decay[..., ::4] = -math.inf
    exact = linear_attention(
        query.double(), key.double(), value.double(), log_decay=decay.double(), backend="recurrent"
    ).output
    found = linear_attention(
        query, key, value, log_decay=decay, backend="chunked", chunk_size=chunk_size
    ).output
    assert (found.double() - exact).abs().max() < 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_denominator_without_digits_is_refused(backend):
    small = torch.full((1, 1, 20, 4), -50.0)
    with pytest.raises(DenominatorError, match="digits"):
        linear_attention(small, small, torch.ones(1, 1, 20, 4), backend=backend)
    exact = linear_attention(
        small.double(), small.double(), torch.ones(1, 1, 20, 4).double(), backend=backend
    )
    torch.testing.assert_close(exact.output, torch.ones(1, 1, 20, 4).double())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("columns", [1, 40])
def test_sums_that_overflow_are_refused_though_the_denominator_is_finite(backend, columns):
    query, key = torch.ones(1, 1, 8, 4), torch.full((1, 1, 8, 4), 1e20)
    value = torch.ones(1, 1, 8, columns)
    value[..., -1] = 1e30
    with pytest.raises(DenominatorError, match="range"):
        linear_attention(query, key, value, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_prior_is_as_exact_as_the_read(backend):
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    prior = Denominator.prior(1.0, 0.1)
    read = linear_attention(zero, zero, zero, visibility="strict", denominator=prior, backend=backend)
    assert read.output.item() == 0.1


@pytest.mark.parametrize("backend", BACKENDS)
def test_lazily_negated_views(backend):
    generator = torch.Generator().manual_seed(8)
    query, key, value = (torch.randn(1, 2, 40, 3, generator=generator) for _ in range(3))
    views = [torch._neg_view(x) for x in (query, key, value)]
    assert all(view.is_neg() for view in views)
    read = linear_attention(*views, backend=backend, return_state=True)
    plain = linear_attention(-query, -key, -value, backend=backend, return_state=True)
    assert torch.equal(read.output, plain.output)
    assert torch.equal(read.state.S, plain.state.S)


def test_a_mask_changed_before_the_backward_pass_is_noticed():
    generator = torch.Generator().manual_seed(9)
    query, key, value = (torch.rand(1, 1, 40, 3, generator=generator) for _ in range(3))
    decay = (-torch.rand(1, 1, 40, generator=generator)).requires_grad_()
    mask = torch.ones(1, 40, dtype=torch.bool)
    mask[:, 5] = False
    output = linear_attention(
        query, key, value, feature_map="taylor2", key_mask=mask, log_decay=decay, backend="fused"
    ).output
    mask.fill_(False)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 2, 5, 3), (2, 0, 5, 3), (2, 2, 0, 3)])
def test_empty_tensors_have_empty_gradients(backend, shape):
    leaves = [torch.ones(shape, requires_grad=True) for _ in range(3)]
    output = linear_attention(*leaves, backend=backend).output
    for leaf, grad in zip(leaves, torch.autograd.grad(output.sum(), leaves), strict=True):
        assert grad.shape == leaf.shape


@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("shape", [(0, 2, 5, 3), (2, 0, 5, 3), (2, 2, 0, 3)])
def test_empty_softmax_reads_have_empty_gradients(shape, counted, decays):
    leaves = [torch.ones(shape, requires_grad=True) for _ in range(3)]
    counts = torch.ones(shape[0], shape[2], dtype=torch.int64) if counted else None
    decay = -torch.ones(shape[:3]) if decays else None
    output = softmax_attention(*leaves, visible_counts=counts, log_decay=decay)
    assert output.shape == shape
    for leaf, grad in zip(leaves, torch.autograd.grad(output.sum(), leaves), strict=True):
        assert grad.shape == leaf.shape


ONE = torch.ones(1, 1, 4, 2)
BAD = {
    "no query": (lambda: linear_attention(None, ONE, ONE, cu_seqlens=torch.tensor([0, 4])), ShapeError),
    "sparse": (lambda: linear_attention(ONE.to_sparse(), ONE, ONE), ShapeError),
    "meta": (lambda: linear_attention(*[ONE.to("meta")] * 3), ShapeError),
    "complex counts": (
        lambda: linear_attention(ONE, ONE, ONE, visible_counts=torch.ones(1, 4, dtype=torch.complex64)),
        ShapeError,
    ),
    "meta counts": (
        lambda: linear_attention(ONE, ONE, ONE, visible_counts=torch.ones(1, 4, dtype=int, device="meta")),
        ShapeError,
    ),
    "list as backend": (lambda: linear_attention(ONE, ONE, ONE, backend=["fused"]), BackendError),
    "scale as text": (lambda: softmax_attention(ONE, ONE, ONE, scale="x"), ShapeError),
    "scale as list": (lambda: softmax_attention(ONE, ONE, ONE, scale=[1]), ShapeError),
    "scale too small": (lambda: softmax_attention(ONE, ONE, ONE, scale=1e-30), ShapeError),
    "scale too great": (lambda: softmax_attention(ONE, ONE, ONE, scale=1e39), ShapeError),
    "scale true": (lambda: softmax_attention(ONE, ONE, ONE, scale=True), ShapeError),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_arguments_are_named(name):
    call, error = BAD[name]
    with pytest.raises(error, match=r"^(query|key|value|visible_counts|backend|scale):"):
        call()


def test_a_small_scale_with_a_mask():
    mask = torch.tensor([[True, False, True, True]])
    value = torch.tensor([1.0, 100.0, 3.0, 5.0]).view(1, 1, 4, 1)
    read = softmax_attention(ONE, ONE, value, key_mask=mask, scale=1e-12)
    torch.testing.assert_close(read.flatten(), torch.tensor([1.0, 1.0, 2.0, 3.0]))
