"""Softmax reads against a row-by-row float64 loop, on every path."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from quantattn.attention import softmax_attention, softmax_blocks
from quantattn.errors import DenominatorError, ShapeError
from tests.attention.oracle import softmax_rows

B, H, D = 2, 2, 4


def make(length: int, reads: int | None, masked: bool, decay: float, width: int, seed: int = 1):
    rng = np.random.default_rng(seed)
    query = rng.normal(size=(B, H, reads or length, D))
    key, value = rng.normal(size=(B, H, length, D)), rng.normal(size=(B, H, length, width))
    counts = np.tile(np.arange(1, length + 1), (B, 1))
    if reads:
        counts = rng.integers(1, length + 1, size=(B, reads))
        counts[0, 0], counts[1, -1] = length, 1
    mask = None
    if masked:
        mask = rng.random((B, length)) > 0.4
        mask[:, 0] = True
    log_decay = -decay * rng.exponential(size=(B, H, length)) if decay else None
    return query, key, value, counts, mask, log_decay


def run(made, counted: bool, dtype: torch.dtype = torch.float64, grad: bool = False, **options):
    query, key, value, counts, mask, log_decay = made
    leaves = [
        None if x is None else torch.tensor(x, dtype=dtype, requires_grad=grad)
        for x in (query, key, value, log_decay)
    ]
    output = softmax_attention(
        *leaves[:3],
        visible_counts=torch.tensor(counts) if counted else None,
        key_mask=None if mask is None else torch.tensor(mask),
        log_decay=leaves[3],
        **options,
    )
    return output, leaves


def rounded(made):
    """Return the case with its numbers exact in float32."""
    return tuple(
        x.astype(np.float32).astype(float) if x is not None and x.dtype == float else x for x in made
    )


def pairwise(made, leaves) -> torch.Tensor:
    """Return the same reads from explicit pairs in torch, for their gradient; checked against the loop."""
    counts, mask = torch.tensor(made[3]), made[4]
    query, key, value, log_decay = leaves
    logits = query @ key.mT / math.sqrt(D)
    place = torch.arange(key.shape[2])
    if log_decay is not None:
        between = (place[:, None] < place) & (place < counts[:, None, :, None, None])
        logits = logits + (between * log_decay[:, :, None, None]).sum(-1)
    visible = place < counts[:, None, :, None]
    if mask is not None:
        visible = visible & torch.tensor(mask)[:, None, None]
    return logits.masked_fill(~visible, -math.inf).softmax(-1) @ value


PATHS = [
    (counted, masked, decay) for counted in (False, True) for masked in (False, True) for decay in (0, 0.3)
]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rows", [256, 7])
@pytest.mark.parametrize("width", [3, 9])
@pytest.mark.parametrize(("counted", "masked", "decay"), PATHS)
def test_every_path(counted, masked, decay, width, rows, fused, monkeypatch):
    monkeypatch.setattr(softmax_blocks, "_ROWS", rows)
    monkeypatch.setattr(softmax_blocks, "_KEYS", rows)
    if not fused:
        monkeypatch.setattr(softmax_blocks, "_fused", lambda x: False)
    made = make(20, 9 if counted else None, masked, decay, width)
    output, leaves = run(made, counted, grad=True)
    wanted = softmax_rows(*made, 1 / math.sqrt(D))
    assert np.abs(output.detach().numpy() - wanted).max() < 1e-13
    copies = [None if x is None else x.detach().clone().requires_grad_() for x in leaves]
    reference = pairwise(made, copies)
    assert np.abs(reference.detach().numpy() - wanted).max() < 1e-13
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (output * weight).sum().backward()
    (reference * weight).sum().backward()
    for got, exact in zip(leaves, copies, strict=True):
        if exact is not None:
            torch.testing.assert_close(got.grad, exact.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("counted", "masked", "decay"), PATHS)
def test_float32(counted, masked, decay):
    made = make(300, 90 if counted else None, masked, decay, 4, seed=4)
    made = tuple(
        x.astype(np.float32).astype(float) if x is not None and x.dtype == float else x for x in made
    )
    exact, _ = run(made, counted)
    got, _ = run(made, counted, torch.float32)
    # A logit keeps eps times its size; what decay adds to it, the weight loses. Logits are below 8, values
    # below 5.
    assert (got.double() - exact).abs().max() < 4 * 8 * torch.finfo(torch.float32).eps * 5


@pytest.mark.parametrize("counted", [False, True])
def test_long_spans_keep_their_digits(counted):
    """Thousands of nats of decay, and gaps that wipe everything, still read the recent keys exactly."""
    length = 400
    made = list(make(length, 60 if counted else None, True, 0, 4, seed=6))
    decay = np.full((B, H, length), -5.0)
    decay[:, :, 100], decay[0, 1, 230], decay[1, :, 231] = -3000.0, -math.inf, -700.0
    decay[:, :, 300:] = -0.01
    made = list(rounded(made))
    made[5] = decay.astype(np.float32).astype(float)
    got, _ = run(made, counted, torch.float32)
    made[5] = np.maximum(made[5], -1e4)
    wanted = softmax_rows(*made, 1 / math.sqrt(D))
    assert np.abs(got.double().numpy() - wanted).max() < 1e-4


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("decay", [0, 0.3])
@pytest.mark.parametrize("lengths", [(20, 20), (20, 13), (1, 20), (7, 7)])
def test_padding_at_the_end(lengths, decay, counted):
    made = list(make(20, 9 if counted else None, True, decay, 4))
    made[4] = np.arange(20) < np.array(lengths)[:, None]
    output, leaves = run(made, counted, grad=True)
    wanted = softmax_rows(*made, 1 / math.sqrt(D))
    assert np.abs(output.detach().numpy() - wanted).max() < 1e-13
    copies = [None if x is None else x.detach().clone().requires_grad_() for x in leaves]
    pairwise(made, copies).square().sum().backward()
    output.square().sum().backward()
    for got, exact in zip(leaves, copies, strict=True):
        if exact is not None:
            torch.testing.assert_close(got.grad, exact.grad, rtol=1e-11, atol=1e-12)


def test_counts_in_any_order_and_repeated():
    made = list(make(40, 12, True, 0.2, 4))
    made[3][:] = made[3][:, ::-1]
    made[3][1, 3:6] = 17
    output, _ = run(made, True)
    assert np.abs(output.numpy() - softmax_rows(*made, 1 / math.sqrt(D))).max() < 1e-13
    far = list(make(60, 4, False, 0, 4))
    # Clocks far apart: every batch row gets blocks of its own.
    far[3] = np.array([[1, 2, 3, 2], [60, 58, 57, 60]])
    assert len(softmax_blocks.plan_counts(torch.tensor(np.sort(far[3])))) == 2
    output, _ = run(far, True)
    assert np.abs(output.numpy() - softmax_rows(*far, 1 / math.sqrt(D))).max() < 1e-13


def test_the_work_is_about_the_sum_of_the_counts():
    counts = torch.arange(1, 4001)[None].repeat(3, 1)
    blocks = softmax_blocks.plan_counts(counts)
    work = sum((block.stop - block.start) * block.high for block in blocks) * 3
    assert work < 1.1 * int(counts.sum())
    apart = torch.stack([torch.full((500,), 10), torch.full((500,), 4000)])
    work = 0
    for block in softmax_blocks.plan_counts(apart):
        work += (block.stop - block.start) * block.high * len(range(2)[block.batch])
    assert work == int(apart.sum())


def test_read_log_decay_cancels():
    made = make(20, None, False, 0.3, 4)
    late = -torch.rand(B, H, 20, dtype=torch.float64) * 50
    assert torch.equal(run(made, False)[0], run(made, False, read_log_decay=late)[0])


def test_own_scale():
    made = make(10, None, True, 0, 4)
    output, _ = run(made, False, scale=2.5)
    assert np.abs(output.numpy() - softmax_rows(*made, 2.5)).max() < 1e-13


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    made = make(50, None, True, 0.1, 4)
    half, leaves = run(made, False, dtype)
    assert half.dtype == dtype
    wide = softmax_attention(
        *(x.float() for x in leaves[:3]), key_mask=torch.tensor(made[4]), log_decay=leaves[3].float()
    )
    assert torch.equal(half, wide.to(dtype))
    for given in (made, (*made[:4], None, None)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside, _ = run(given, False, torch.float32)
        assert torch.equal(inside, run(given, False, torch.float32)[0])


def test_nothing_visible_is_an_error():
    query = torch.randn(2, 2, 5, 3)
    with pytest.raises(DenominatorError, match="batch 0, head 0, position 0"):
        softmax_attention(query, query, query, visibility="strict")
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, :3] = False
    with pytest.raises(DenominatorError, match=r"batch 1, head 0, position 0 \(3 such reads"):
        softmax_attention(query, query, query, key_mask=mask)
    counts = torch.tensor([[1, 5, 2, 3, 4], [5, 4, 0, 5, 5]])
    with pytest.raises(DenominatorError, match="batch 1, head 0, position 2"):
        softmax_attention(query, query, query, visible_counts=counts)
    counts[1, 2] = 3
    softmax_attention(query, query, query, visible_counts=counts)
    with pytest.raises(DenominatorError, match="batch 1, head 0, position 2"):
        softmax_attention(query, query, query, visible_counts=counts, key_mask=mask)
    empty = torch.randn(2, 2, 0, 3)
    assert softmax_attention(empty, empty, empty).shape == (2, 2, 0, 3)


def test_a_nonfinite_read_is_an_error_unless_asked_for():
    query = torch.randn(1, 2, 5, 3)
    key = query.clone()
    key[0, 1, 3, 2] = float("inf")
    with pytest.raises(DenominatorError, match=r"batch 0, head 1, position 3 \(2 such in all\)"):
        softmax_attention(query, key, query)
    output = softmax_attention(query, key, query, nonfinite="propagate")
    assert torch.isnan(output[0, 1, 3:]).all()
    assert torch.isfinite(output[0, 0]).all() and torch.isfinite(output[0, 1, :3]).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_options(scale):
    query = torch.randn(1, 1, 3, 2)
    with pytest.raises(ShapeError, match="scale: expected a number from 1e-12 to 1e12"):
        softmax_attention(query, query, query, scale=scale)
    with pytest.raises(ShapeError, match="nonfinite: expected 'raise' or 'propagate'"):
        softmax_attention(query, query, query, nonfinite="drop")
    with pytest.raises(ShapeError, match="query: length is 2, key has 3; pass visible_counts"):
        softmax_attention(query[:, :, :2], query, query)
