"""No read is touched by what it does not see: to the bit, in the gradient too, whatever stands there."""

from __future__ import annotations

import itertools

import pytest
import torch

from quantattn.attention import Denominator, feature_map_names, linear_attention, softmax_attention

BACKENDS = ("quadratic", "recurrent", "chunked", "fused")
B, H, T, D = 2, 2, 29, 4
CUT = 13
"""First position that is changed; inside a chunk of 8."""
NAN, INF = float("nan"), float("inf")


def inputs(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    made = {name: normal(B, H, T, D).abs() + 0.05 for name in ("query", "key")}
    made["value"] = normal(B, H, T, D)
    made["log_decay"] = -normal(B, H, T).abs()
    return made


def read(given: dict[str, torch.Tensor], decays: bool = True, **options: object) -> torch.Tensor:
    chosen = {"denominator": Denominator.prior(0.5, 0.25), "chunk_size": 8, **options}
    decay = given["log_decay"] if decays else None
    return linear_attention(given["query"], given["key"], given["value"], log_decay=decay, **chosen).output


CHANGES = {
    "other numbers": lambda x: -x.flip(2) if x.dim() == 4 else x.flip(2),
    "huge numbers": lambda x: x * 1e30 if x.dim() == 4 else x * 1e6,
    "nan": lambda x: torch.full_like(x, NAN) if x.dim() == 4 else x * 5,
    "inf": lambda x: torch.full_like(x, INF) if x.dim() == 4 else x - INF,
    "-inf": lambda x: torch.full_like(x, -INF) if x.dim() == 4 else x * 0,
}


def changed(given: dict[str, torch.Tensor], change: str, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    made = {}
    for name, x in given.items():
        x = x.clone()
        if name in names:
            future = CHANGES[change](x)[:, :, CUT:]
            x[:, :, CUT:] = future.abs() if change == "other numbers" and x.dim() == 4 else future
        made[name] = x
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("names", [("key", "value", "query", "log_decay"), ("value",), ("key",), ("query",)])
def test_the_past_keeps_its_bits(backend, change, decays, names):
    given = inputs()
    base, other = (
        read(given, decays, backend=backend),
        read(changed(given, change, names), decays, backend=backend),
    )
    assert torch.equal(base[:, :, :CUT], other[:, :, :CUT])
    assert torch.isfinite(base).all()
    # Positive control: the change did arrive where it is visible.
    assert not torch.equal(base[:, :, CUT], other[:, :, CUT])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("feature_map", feature_map_names(stored=False))
def test_the_past_keeps_its_bits_under_every_map(backend, feature_map):
    given = inputs()
    options = {"backend": backend, "feature_map": feature_map}
    for change in ("other numbers", "huge numbers", "nan"):
        other = read(changed(given, change, ("key", "value")), **options)
        base = read(given, **options)
        assert torch.equal(base[:, :, :CUT], other[:, :, :CUT]), change
        assert not torch.equal(base[:, :, CUT], other[:, :, CUT]), change


@pytest.mark.parametrize("backend", BACKENDS)
def test_strict_reads_do_not_see_their_own_key(backend):
    given = inputs()
    options = {"backend": backend, "visibility": "strict"}
    base, other = read(given, **options), read(changed(given, "nan", ("key", "value")), **options)
    assert torch.equal(base[:, :, : CUT + 1], other[:, :, : CUT + 1])
    assert torch.isnan(other[:, :, CUT + 1]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_counted_reads_do_not_see_beyond_their_count(backend):
    given = inputs()
    counts = torch.tensor([[CUT, 0, 5, CUT + 1, T], [CUT, CUT, 1, T, CUT + 1]])
    given["query"] = given["query"][:, :, :5]
    options = {"backend": backend, "visible_counts": counts}
    base, other = read(given, **options), read(changed(given, "nan", ("key", "value")), **options)
    assert torch.equal(base[:, :, :3], other[:, :, :3])
    assert torch.isnan(other[:, :, 3:]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("poison", [NAN, INF])
def test_masked_rows_may_hold_anything(backend, decays, poison):
    given = inputs()
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[0, 4:9], mask[1, :6], mask[1, 20:] = False, False, False
    results = []
    for fill in (0.0, poison):
        leaves = {name: x.clone() for name, x in given.items()}
        for name in ("key", "value"):
            leaves[name][~mask[:, None].expand(B, H, T)] = fill
        leaves = {name: x.requires_grad_() for name, x in leaves.items()}
        output = read(leaves, decays, backend=backend, key_mask=mask)
        output.square().sum().backward()
        results.append([output.detach(), *(leaves[n].grad for n in ("query", "key", "value"))])
        if decays:
            results[-1].append(leaves["log_decay"].grad)
    for clean, spoilt in zip(*results, strict=True):
        assert torch.isfinite(clean).all()
        assert torch.equal(clean, spoilt)
    hidden = ~mask[:, None].expand(B, H, T)
    assert (results[1][2][hidden] == 0).all()
    assert (results[1][3][hidden] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("poison", [None, NAN, INF])
def test_the_future_gets_no_gradient_and_gives_none(backend, decays, poison):
    def gradients(spoil: bool) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        leaves = inputs(torch.float64)
        if spoil and poison is not None:
            for name in ("query", "key", "value"):
                leaves[name][:, :, CUT:] = poison
        leaves = {name: x.requires_grad_() for name, x in leaves.items()}
        output = read(leaves, decays, backend=backend)[:, :, :CUT]
        output.square().sum().backward()
        return output, {name: x.grad for name, x in leaves.items() if x.grad is not None}

    output, clean = gradients(False)
    again, spoilt = gradients(True)
    assert torch.equal(output, again)
    for name, grad in spoilt.items():
        assert (grad[:, :, CUT:] == 0).all(), name
        assert torch.equal(grad[:, :, :CUT], clean[name][:, :, :CUT]), name
        assert (grad[:, :, 1:CUT] != 0).any(), name


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_poisoned_query_spoils_its_own_read_alone(backend):
    given = inputs()
    base = read(given, backend=backend)
    given["query"][1, 0, 3, 2] = NAN
    other = read(given, backend=backend)
    assert torch.isnan(other[1, 0, 3]).all()
    other[1, 0, 3] = base[1, 0, 3]
    assert torch.equal(base, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_batch_rows_and_heads_are_untouched(backend):
    given = inputs()
    base = read(given, backend=backend)
    given["key"][0, 1, 2] = NAN
    other = read(given, backend=backend)
    assert torch.isnan(other[0, 1, 2:]).all()
    assert torch.equal(base[0, 1, :2], other[0, 1, :2])
    assert torch.equal(base[0, 0], other[0, 0])
    assert torch.equal(base[1], other[1])


def softmax(given: dict[str, torch.Tensor], decays: bool, **options: object) -> torch.Tensor:
    return softmax_attention(
        given["query"],
        given["key"],
        given["value"],
        log_decay=given["log_decay"] if decays else None,
        nonfinite="propagate",
        **options,
    )


@pytest.mark.parametrize("change", ["other numbers", "nan", "inf"])
@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_softmax_keeps_the_past(change, decays, masked):
    given = inputs()
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[0, 2:5] = False
    options = {"key_mask": mask} if masked else {}
    base = softmax(given, decays, **options)
    other = softmax(changed(given, change, ("query", "key", "value")), decays, **options)
    assert torch.equal(base[:, :, :CUT], other[:, :, :CUT])
    assert not torch.equal(base[:, :, CUT], other[:, :, CUT])


CASES = [
    (decays, masked, counted, later)
    for decays, masked, counted in itertools.product((False, True), repeat=3)
    for later in ("keys", "gap", "mask", "tail", "counts")
    if (decays or later != "gap") and (counted or later != "counts")
]


@pytest.mark.parametrize(("decays", "masked", "counted", "later"), CASES)
@pytest.mark.parametrize(("length", "cut"), [(300, 100), (300, 257), (1100, 500), (1100, 900)])
def test_softmax_keeps_the_past_of_long_histories(length, cut, decays, masked, counted, later):
    """The kernels take other shapes at 192 and 768 rows; what comes later must not move the past there."""
    generator = torch.Generator().manual_seed(length + cut)
    query, key, value = (torch.randn(2, 2, length, 8, generator=generator) for _ in range(3))
    gaps = -torch.rand(2, 2, length, generator=generator)
    mask = torch.rand(2, length, generator=generator) < 0.7 if masked else torch.ones(2, length).bool()
    mask[:, 0] = True
    counts = torch.arange(1, length + 1).repeat(2, 1) if counted else None
    keys, values, steps, marks = key.clone(), value.clone(), gaps.clone(), mask.clone()
    if later == "keys":
        keys[:, :, cut:], values[:, :, cut:] = NAN, INF
    elif later == "gap":
        steps[0, 1, cut] = -5000.0
        steps[:, :, cut + 30 :] *= 300
    elif later == "mask":
        marks[:, cut + 1 :: 2] = False
    elif later == "tail":
        marks[0, cut:], marks[1, cut + 20 :] = False, False
    other = counts
    if counts is not None and later == "counts":
        other = counts.clone()
        other[0, cut:], other[1, cut:] = length, cut + 1

    def read(key, value, gaps, mask, counts):
        return softmax_attention(
            query,
            key,
            value,
            visible_counts=counts,
            key_mask=None if later in ("keys", "gap", "counts") and not masked else mask,
            log_decay=gaps if decays else None,
            nonfinite="propagate",
        )

    base, moved = read(key, value, gaps, mask, counts), read(keys, values, steps, marks, other)
    assert torch.equal(base[:, :, :cut], moved[:, :, :cut])
    assert not torch.equal(base[:, :, cut:], moved[:, :, cut:])


@pytest.mark.parametrize("decays", [False, True])
@pytest.mark.parametrize("poison", [NAN, INF])
def test_softmax_masked_and_unread_rows_may_hold_anything(decays, poison):
    mask = torch.ones(B, T, dtype=torch.bool)
    mask[0, 4:9], mask[1, 1:6] = False, False
    counts = torch.tensor([[CUT, 3, CUT], [1, 7, CUT]])
    results = []
    for fill in (0.0, poison):
        leaves = inputs()
        leaves["query"] = leaves["query"][:, :, :3]
        for name in ("key", "value"):
            leaves[name][~mask[:, None].expand(B, H, T)] = fill
            leaves[name][:, :, CUT:] = fill
        leaves = {name: x.requires_grad_() for name, x in leaves.items()}
        output = softmax(leaves, decays, key_mask=mask, visible_counts=counts)
        output.square().sum().backward()
        results.append([output.detach(), *(leaves[n].grad for n in ("query", "key", "value"))])
    for clean, spoilt in zip(*results, strict=True):
        assert torch.isfinite(clean).all()
        assert torch.equal(clean, spoilt)
    assert (results[1][2][:, :, CUT:] == 0).all()
    assert (results[1][3][:, :, CUT:] == 0).all()
