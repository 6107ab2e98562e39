"""Numbers small enough to be checked by hand."""

from __future__ import annotations

import math

import pytest
import torch

from quantattn.attention import Denominator, backend_names, linear_attention, softmax_attention
from quantattn.errors import DenominatorError

BACKENDS = (*backend_names(), "auto")
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def rows(*numbers: object) -> torch.Tensor:
    """Return ``(1, 1, length, width)`` in float64 from one number or one tuple for each row."""
    listed = [[x] if isinstance(x, int | float) else list(x) for x in numbers]  # type: ignore[call-overload]
    return torch.tensor([[listed]], dtype=torch.float64)


def flat(x: torch.Tensor) -> list[float]:
    return x.flatten().tolist()


QUERY, KEY, VALUE = rows((2, 1)), rows((1, 0), (0, 1)), rows(2, 4)
BOTH = torch.tensor([[2]])


def test_identity_reads_the_state(backend):
    result = linear_attention(
        QUERY,
        KEY,
        VALUE,
        feature_map="identity",
        visible_counts=BOTH,
        return_state=True,
        backend=backend,
    )
    assert flat(result.output) == [pytest.approx(8 / 3, rel=1e-15)]
    assert flat(result.state.S) == [2.0, 4.0]
    assert flat(result.state.z) == [1.0, 1.0]
    assert result.state.count.tolist() == [2]
    assert flat(result.health.denominators) == [3.0]


def test_elu1(backend):
    # phi(2, 1) = (3, 2); phi(1, 0) = (2, 1); phi(0, 1) = (1, 2): similarities 8 and 7.
    result = linear_attention(QUERY, KEY, VALUE, visible_counts=BOTH, backend=backend)
    assert flat(result.output) == [pytest.approx((8 * 2 + 7 * 4) / 15, rel=1e-15)]
    assert flat(result.output) == [pytest.approx(44 / 15, rel=1e-15)]


def test_softmax_of_the_same_logits(backend):
    # Logits 2 and 1.
    output = softmax_attention(QUERY, KEY, VALUE, visible_counts=BOTH, scale=1.0)
    assert flat(output) == [pytest.approx(2.53788284273999, rel=1e-12)]


def test_inclusive_and_strict(backend):
    queries = rows((2, 1), (2, 1))
    kwargs = {"feature_map": "identity", "backend": backend}
    inclusive = linear_attention(queries, KEY, VALUE, **kwargs)
    assert flat(inclusive.output) == [2.0, pytest.approx(8 / 3, rel=1e-15)]
    with pytest.raises(DenominatorError, match="batch 0, head 0, position 0"):
        linear_attention(queries, KEY, VALUE, visibility="strict", **kwargs)
    strict = linear_attention(
        queries, KEY, VALUE, visibility="strict", denominator=Denominator.prior(1.0, 7.0), **kwargs
    )
    # The first read is the prior; the second is (2 * 2 + 1 * 7) / (2 + 1).
    assert flat(strict.output) == [7.0, pytest.approx(11 / 3, rel=1e-15)]
    floored = linear_attention(
        queries, KEY, VALUE, visibility="strict", denominator=Denominator.floor(1e-6), **kwargs
    )
    assert flat(floored.output) == [0.0, 2.0]
    late = linear_attention(queries[:, :, 1:], KEY, VALUE, visible_counts=torch.tensor([[1]]), **kwargs)
    assert flat(late.output) == [2.0]


def test_a_running_mean(backend):
    ones = rows(1, 1, 1)
    result = linear_attention(ones, ones, rows(1, 0, 0), feature_map="identity", backend=backend)
    assert flat(result.output) == pytest.approx([1, 1 / 2, 1 / 3], rel=1e-15)


def test_zero_queries_and_keys(backend):
    zeros, value = rows(0, 0, 0), rows(2, 10, 50)
    result = linear_attention(zeros, zeros, value, backend=backend)
    assert flat(result.output) == pytest.approx([2, 6, 62 / 3], rel=1e-15)
    with pytest.raises(DenominatorError, match="position 0: 0"):
        linear_attention(zeros, zeros, value, feature_map="identity", backend=backend)


def test_decay_by_one_half_life(backend):
    ones, value = rows(1, 1), rows(2, 4)
    decay = torch.tensor([[[0.0, -math.log(2)]]], dtype=torch.float64)
    kwargs = {"feature_map": "identity", "log_decay": decay, "backend": backend}
    last = linear_attention(ones, ones, value, **kwargs)
    # (2 / 2 + 4) / (1 / 2 + 1)
    assert flat(last.output) == [2.0, pytest.approx(10 / 3, rel=1e-15)]
    later = torch.full((1, 1, 2), -10 * math.log(2), dtype=torch.float64)
    stale = linear_attention(ones, ones, value, read_log_decay=later, **kwargs)
    assert flat(stale.output) == flat(last.output)
    prior = linear_attention(
        ones, ones, value, read_log_decay=later, denominator=Denominator.prior(1.0, 100.0), **kwargs
    )
    faded = 2.0**-10
    assert flat(prior.output)[1] == pytest.approx((5 * faded + 100) / (1.5 * faded + 1), rel=1e-14)
    assert flat(prior.output)[1] == pytest.approx(100, abs=0.2)


def test_float16_does_not_stall(backend):
    # In float16 a count of ones stops growing at 2048.
    keys = 5000
    if backend == "recurrent":
        keys = 2500
    ones = torch.ones(1, 1, keys, 1, dtype=torch.float16)
    value = torch.zeros_like(ones)
    value[:, :, : keys // 2] = 1
    result = linear_attention(
        ones[:, :, :1],
        ones,
        value,
        feature_map="identity",
        visible_counts=torch.tensor([[keys]]),
        backend=backend,
        return_state=True,
    )
    assert result.output.dtype == torch.float16
    assert flat(result.output) == [0.5]
    assert result.state.z.dtype == torch.float32
    assert flat(result.state.z) == [float(keys)]
