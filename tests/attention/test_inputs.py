"""Bad input: one named exception each, which quotes what came."""

from __future__ import annotations

import pytest
import torch

from quantattn.attention import Denominator, backend_names, linear_attention
from quantattn.errors import BackendError, DenominatorError, FeatureMapError, QuantAttnError, ShapeError

X = torch.rand(2, 3, 5, 4)
COUNTS = torch.tensor([[1, 2, 3, 4, 5], [5, 5, 5, 5, 5]])


def call(query=X, key=X, value=X, **options):
    return linear_attention(query, key, value, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": X[0]}, r"query: expected 4 axes .* got shape \(3, 5, 4\)"),
        ({"key": X[..., None]}, r"key: expected 4 axes .* got shape \(2, 3, 5, 4, 1\)"),
        ({"value": X.numpy()}, "value: expected a torch.Tensor, got ndarray"),
        ({"query": X.long()}, "query: expected a floating dtype, got torch.int64"),
        ({"key": X.double()}, "key: is torch.float64 on cpu, query is torch.float32"),
        ({"key": X[..., :3]}, "key: width is 3, query has 4"),
        ({"value": X[:, :, :4]}, "value: length is 4, key has 5"),
        ({"value": X[:, :2]}, r"value: batch and heads are \(2, 2\), query has \(2, 3\)"),
        ({"value": X[..., :0]}, "value: widths must be at least one"),
        ({"query": X[:, :, :4]}, "query: length is 4, key has 5; pass visible_counts"),
        ({"visibility": "causal"}, "visibility: expected 'inclusive' or 'strict', got 'causal'"),
        ({"visible_counts": COUNTS[:, :4]}, r"visible_counts: expected shape .* \(2, 5\), got \(2, 4\)"),
        ({"visible_counts": COUNTS.float()}, "visible_counts: expected an integer tensor, got torch.float32"),
        ({"visible_counts": COUNTS > 2}, "visible_counts: expected an integer tensor, got torch.bool"),
        ({"visible_counts": [[1] * 5] * 2}, "visible_counts: expected an integer tensor, got list"),
        ({"visible_counts": COUNTS + 1}, r"visible_counts: 6 at batch 0, query 4 \(6 such in all\)"),
        ({"visible_counts": COUNTS - 2}, "visible_counts: -1 at batch 0, query 0"),
        ({"key_mask": torch.ones(2, 5)}, "key_mask: expected a bool tensor.*got torch.float32"),
        ({"key_mask": torch.ones(2, 3, 5) > 0}, r"key_mask: expected shape .*\(2, 5\), got \(2, 3, 5\)"),
        ({"log_decay": torch.zeros(2, 5)}, r"log_decay: expected shape .*\(2, 3, 5\), got \(2, 5\)"),
        ({"log_decay": torch.zeros(2, 3, 4)}, r"log_decay: .* got \(2, 3, 4\)"),
        (
            {"log_decay": torch.zeros(2, 3, 5).long()},
            "log_decay: expected a floating tensor, got torch.int64",
        ),
        ({"read_log_decay": torch.zeros(2, 3, 4)}, "read_log_decay: expected shape"),
        ({"chunk_size": 0}, "chunk_size: expected a positive integer, got 0"),
        ({"chunk_size": 2.5}, "chunk_size: expected a positive integer, got 2.5"),
    ],
)
def test_shapes_and_dtypes(change, message):
    with pytest.raises(ShapeError, match=message):
        call(**change)


@pytest.mark.parametrize("name", ["log_decay", "read_log_decay"])
@pytest.mark.parametrize("bad", [0.25, float("nan"), float("inf")])
def test_decay_must_not_be_positive(name, bad):
    decay = torch.zeros(2, 3, 5)
    call(**{name: decay})
    decay[1, 2, 3] = bad
    with pytest.raises(ShapeError, match=f"{name}: {bad:g} at batch 1, head 2, position 3"):
        call(**{name: decay})


def test_decay_axes_of_size_one_are_expanded():
    decay = -torch.rand(2, 3, 5)
    for part in (decay[:1], decay[:, :1], decay[..., :1], decay[:1, :1, :1]):
        whole = part.expand(2, 3, 5).contiguous()
        assert torch.equal(call(log_decay=part).output, call(log_decay=whole).output)


@pytest.mark.parametrize("backend", ["auto", *backend_names()])
def test_negative_features(backend):
    signed = X.clone()
    signed[1, 0, 2, 3] = -0.5
    options = {"feature_map": "identity", "backend": backend}
    call(**options)
    message = "{}: feature map 'identity' gave -0.5 at batch 1, head 0, position 2; similarities must be"
    with pytest.raises(FeatureMapError, match=message.format("query")):
        call(query=signed, **options)
    with pytest.raises(FeatureMapError, match=message.format("key")):
        call(key=signed, **options)
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, 2] = False
    call(key=signed, key_mask=mask, **options)


def test_backends_are_named():
    assert backend_names() == ("chunked", "fused", "quadratic", "recurrent")
    with pytest.raises(BackendError, match=r"backend: 'cuda' .* auto, chunked, fused, quadratic, recurrent"):
        call(backend="cuda")


def test_auto_says_what_it_picked():
    assert call().health.backend == "quadratic"
    long = torch.rand(1, 1, 200, 2)
    assert call(long, long, long).health.backend == "fused"
    wide = long.double()
    assert call(wide, wide, wide).health.backend == "chunked"
    assert call(long, long, long, backend="chunked").health.backend == "chunked"
    assert call(backend="recurrent").health.backend == "recurrent"


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nonfinite_input_that_is_read(name, bad, backend):
    spoilt = X.clone()
    spoilt[1, 2, 3, 0] = bad
    with pytest.raises(DenominatorError, match="batch 1, head 2, position 3: nan"):
        call(**{name: spoilt}, backend=backend)
    result = call(**{name: spoilt}, backend=backend, denominator=Denominator.floor(1e-6))
    assert result.health.nonfinite == (1 if name == "query" else 2)


@pytest.mark.parametrize("backend", backend_names())
def test_layout_does_not_matter(backend):
    """Transposed, strided, expanded and half-precision inputs."""
    base = torch.randn(2, 9, 3, 8, dtype=torch.float64)
    query, key, value = base.transpose(1, 2), base.flip(1).transpose(1, 2), base.transpose(1, 2)[..., ::2]
    packed = [x.contiguous() for x in (query, key, value)]
    decay = -torch.rand(1, 3, 1, dtype=torch.float64)
    options = {"backend": backend, "log_decay": decay, "chunk_size": 4}
    strided, plain = (call(*given, **options).output for given in ((query, key, value), packed))
    torch.testing.assert_close(strided, plain, rtol=1e-14, atol=1e-14)
    for dtype in (torch.float16, torch.bfloat16):
        low = [x.to(dtype) for x in packed]
        got = call(*low, **options).output
        wide = call(*(x.float() for x in low), **options).output
        assert got.dtype == dtype
        assert torch.equal(got, wide.to(dtype))


@pytest.mark.parametrize("backend", backend_names())
def test_autocast_changes_nothing(backend):
    long = torch.randn(1, 2, 40, 6)
    plain = call(long, long, long, backend=backend).output
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = call(long, long, long, backend=backend)
    assert inside.output.dtype == torch.float32
    assert torch.equal(plain, inside.output)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (1, 1, 1, 5), (3, 1, 2, 1), (0, 2, 4, 3), (2, 0, 4, 3), (1, 2, 0, 3)]
)
@pytest.mark.parametrize("backend", backend_names())
def test_degenerate_shapes(shape, backend):
    x = torch.rand(shape, requires_grad=True)
    decay = -torch.rand(shape[:3])
    for options in ({}, {"log_decay": decay}, {"chunk_size": 1}):
        result = call(x, x, x, backend=backend, return_state=True, **options)
        assert result.output.shape == shape
        if shape[2]:
            result.output.sum().backward()
        assert result.state.S.shape == (*shape[:2], shape[3], shape[3])
    if shape[2] == 1:
        torch.testing.assert_close(call(x, x, x, backend=backend).output, x)


def test_every_error_is_ours_and_a_plain_one():
    assert issubclass(ShapeError, QuantAttnError) and issubclass(ShapeError, ValueError)
    with pytest.raises(DenominatorError, match="expected a Denominator, got 'raise'; use Denominator"):
        call(denominator="raise")
    with pytest.raises(DenominatorError, match="Denominator is not a policy"):
        call(denominator=Denominator())
