"""A history in pieces, with the state carried between them, is the history in one piece."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch

from quantattn.attention import (
    AttentionState,
    Denominator,
    build_feature_map,
    feature_map_names,
    linear_attention,
)
from quantattn.errors import ClockError, StateError

BACKENDS = ("quadratic", "recurrent", "chunked", "fused")
B, H, T, D, DV = 2, 3, 23, 4, 3
POLICIES = {
    "raise": Denominator.raise_(),
    "floor": Denominator.floor(0.5),
    "prior": Denominator.prior(0.5, [1.0, 2.0, 3.0]),
}


def inputs(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    draw = {"generator": generator, "dtype": dtype}
    mask = torch.rand(B, T, generator=generator) > 0.4
    mask[:, 0] = True
    mask[:, 9:12] = False
    return {
        "query": torch.randn(B, H, T, D, **draw),
        "key": torch.randn(B, H, T, D, **draw),
        "value": torch.randn(B, H, T, DV, **draw),
        "key_mask": mask,
        "log_decay": -torch.rand(B, H, T, **draw),
        "read_log_decay": -torch.rand(B, H, T, **draw),
    }


def in_pieces(given, cuts, backend, policy, start=None):
    outputs, state = [], start
    for low, high in itertools.pairwise(cuts):
        piece = {n: x[:, low:high] if x.dim() == 2 else x[:, :, low:high] for n, x in given.items()}
        result = linear_attention(
            **piece,
            initial_state=state,
            return_state=True,
            denominator=policy,
            backend=backend,
            chunk_size=5,
        )
        outputs.append(result.output)
        state = result.state
    return torch.cat(outputs, 2), state


CUTS = [
    [0, 1, T],
    [0, 11, T],
    [0, 5, 10, 15, T],
    [0, 10, 10, T],
    [0, T, T],
    list(range(T + 1)),
]


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("cuts", CUTS)
def test_recurrent_pieces_give_the_same_bits(cuts, plain, policy):
    given = inputs(torch.float32)
    if plain:
        given = {name: given[name] for name in ("query", "key", "value")}
    whole, end = in_pieces(given, [0, T], "recurrent", POLICIES[policy])
    pieces, last = in_pieces(given, cuts, "recurrent", POLICIES[policy])
    assert torch.equal(whole, pieces)
    assert torch.equal(end.S, last.S)
    assert torch.equal(end.z, last.z)
    assert torch.equal(end.count, last.count)
    assert plain or torch.equal(end.pending, last.pending)


@pytest.mark.parametrize("cuts", [[0, 1, 90], [0, 31, 60, 90], [*range(0, 90, 7), 90]])
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("backend", ["recurrent", "fused"])
@pytest.mark.parametrize("name", feature_map_names())
def test_pieces_give_the_same_bits_under_every_map(name, backend, heads, cuts):
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, 3, 90, 6, generator=generator) for _ in range(3))
    if name == "identity":
        query, key = query.abs(), key.abs()
    options = {"heads": heads} if name in ("favor", "hedgehog") else {}
    feature_map = build_feature_map(name, 6, **options)
    decay = -torch.rand(2, 3, 90, generator=generator) / 50

    def read(low, high, state):
        return linear_attention(
            query[:, :, low:high],
            key[:, :, low:high],
            value[:, :, low:high],
            log_decay=decay[:, :, low:high],
            feature_map=feature_map,
            initial_state=state,
            return_state=True,
            denominator=Denominator.prior(0.1, 0.0),
            backend=backend,
        )

    with torch.no_grad():
        whole = read(0, 90, None)
        outputs, state = [], None
        for low, high in itertools.pairwise(cuts):
            piece = read(low, high, state)
            outputs.append(piece.output)
            state = piece.state
    assert torch.equal(torch.cat(outputs, 2), whole.output)
    assert torch.equal(state.S, whole.state.S)


def test_auto_goes_one_way_in_pieces_and_whole():
    """One event at a time is few pairs, which without a state go to another backend."""
    generator = torch.Generator().manual_seed(8)
    query, key, value = (torch.randn(1, 2, 40, 4, generator=generator) for _ in range(3))
    whole = linear_attention(query, key, value, return_state=True)
    outputs, state = [], None
    for at in range(40):
        piece = linear_attention(
            query[:, :, at : at + 1],
            key[:, :, at : at + 1],
            value[:, :, at : at + 1],
            initial_state=state,
            return_state=True,
        )
        assert piece.health.backend == whole.health.backend
        outputs.append(piece.output)
        state = piece.state
    assert torch.equal(torch.cat(outputs, 2), whole.output)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("cuts", CUTS)
def test_pieces_equal_one_pass(cuts, policy, backend):
    given = inputs(torch.float64)
    whole, end = in_pieces(given, [0, T], "quadratic", POLICIES[policy])
    pieces, last = in_pieces(given, cuts, backend, POLICIES[policy])
    torch.testing.assert_close(pieces, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(last.S, end.S, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(last.z, end.z, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(last.pending, end.pending, rtol=1e-12, atol=1e-12)
    assert last.count.tolist() == given["key_mask"].sum(-1).tolist()
    assert last.fingerprint == end.fingerprint


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_backend_continues_any_state(backend):
    given = inputs(torch.float64)
    whole, _ = in_pieces(given, [0, T], "quadratic", POLICIES["prior"])
    head = {n: x[:, :14] if x.dim() == 2 else x[:, :, :14] for n, x in given.items()}
    tail = {n: x[:, 14:] if x.dim() == 2 else x[:, :, 14:] for n, x in given.items()}
    for other in BACKENDS:
        _, state = in_pieces(head, [0, 14], other, POLICIES["prior"])
        output, _ = in_pieces(tail, [0, T - 14], backend, POLICIES["prior"], state)
        torch.testing.assert_close(output, whole[:, :, 14:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_flows_through_a_carried_state(backend):
    grads = []
    for cuts in ([0, T], [0, 8, 17, T]):
        given = inputs(torch.float64)
        leaves = {n: x.requires_grad_() if x.is_floating_point() else x for n, x in given.items()}
        output, state = in_pieces(leaves, cuts, backend, POLICIES["prior"])
        (output.sin().sum() + state.S.square().sum() + state.z.sum() + state.pending.sum()).backward()
        grads.append([x.grad for x in leaves.values() if x.is_floating_point()])
    for whole, pieces in zip(*grads, strict=True):
        torch.testing.assert_close(pieces, whole, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_keys_at_all(backend):
    empty = torch.zeros(B, H, 0, D), torch.zeros(B, H, 0, DV)
    query = torch.randn(B, H, 2, D)
    none = torch.zeros(B, 2, dtype=torch.int64)
    prior = Denominator.prior(2.0, [1.0, -1.0, 0.5])
    result = linear_attention(
        query, *empty, visible_counts=none, denominator=prior, return_state=True, backend=backend
    )
    assert result.output.tolist() == torch.tensor([1.0, -1.0, 0.5]).expand(B, H, 2, DV).tolist()
    assert result.state.S.shape == (B, H, D, DV)
    assert not result.state.S.any() and not result.state.z.any()
    assert result.state.count.tolist() == [0, 0]
    nothing = linear_attention(query[:, :, :0], *empty, backend=backend)
    assert nothing.output.shape == (B, H, 0, DV)
    # A state is read as it stands.
    given = inputs(torch.float32)
    one = linear_attention(
        given["query"], given["key"], given["value"], return_state=True, denominator=prior, backend=backend
    )
    again = linear_attention(
        given["query"][:, :, -1:],
        *empty,
        visible_counts=none[:, :1],
        initial_state=one.state,
        denominator=prior,
        backend=backend,
    )
    torch.testing.assert_close(again.output, one.output[:, :, -1:])


def state_of(policy: Denominator = POLICIES["raise"], **options: object) -> AttentionState:
    given = inputs(torch.float32)
    result = linear_attention(
        given["query"], given["key"], given["value"], return_state=True, denominator=policy, **options
    )
    return result.state


def continue_from(state: object, policy: Denominator = POLICIES["raise"], **options: object) -> None:
    given = inputs(torch.float32)
    batch = options.pop("batch", B)
    linear_attention(
        given["query"][:batch],
        given["key"][:batch],
        given["value"][:batch],
        initial_state=state,
        denominator=policy,
        **options,
    )


def test_a_foreign_state_is_refused():
    continue_from(state_of())
    with pytest.raises(StateError, match="feature map and denominator policy"):
        continue_from(state_of(feature_map="relu", policy=POLICIES["prior"]), POLICIES["prior"])
    with pytest.raises(StateError, match="made under 'elu1/floor"):
        continue_from(state_of(POLICIES["floor"]))
    with pytest.raises(StateError, match="made under 'elu1/prior"):
        continue_from(state_of(Denominator.prior(1.0, 0.0)), Denominator.prior(2.0, 0.0))
    with pytest.raises(StateError, match=r"S has shape \(2, 3, 4, 3\), this call needs \(1, 3, 4, 3\)"):
        continue_from(state_of(), batch=1)
    with pytest.raises(StateError, match="expected an AttentionState, got tuple"):
        continue_from((1, 2))
    good = state_of()
    with pytest.raises(StateError, match=r"z: expected shape \(B, H, r\) = \(2, 3, 4\) beside S, got"):
        continue_from(dataclasses.replace(good, z=good.z[..., :2]))
    with pytest.raises(StateError, match="S is not finite"):
        continue_from(dataclasses.replace(good, S=good.S / 0))


def test_a_state_after_poison_is_not_finite_and_so_refused():
    given = inputs(torch.float32)
    given["value"][1, 0, 3, 0] = float("nan")
    prior = POLICIES["prior"]
    for backend in BACKENDS:
        state = linear_attention(
            given["query"],
            given["key"],
            given["value"],
            return_state=True,
            denominator=prior,
            backend=backend,
        ).state
        assert torch.isnan(state.S[1, 0]).all()
        assert torch.isfinite(state.S[0]).all() and torch.isfinite(state.S[1, 1:]).all()
        with pytest.raises(StateError, match="not finite"):
            continue_from(state, prior)


def test_the_clock_of_a_state_never_goes_back():
    state = state_of().at(1_000)
    assert state.at(1_000).as_of == 1_000
    assert state.at(2_000).as_of == 2_000
    assert state.as_of == 1_000
    with pytest.raises(ClockError, match="999 lies before the state's clock, 1000"):
        state.at(999)
    given = inputs(torch.float32)
    after = linear_attention(
        given["query"],
        given["key"],
        given["value"],
        initial_state=state,
        key_times=torch.full((B, T), 1_000),
        return_state=True,
    ).state
    assert after.as_of == (1_000,) * B
    assert after.count.tolist() == [2 * T, 2 * T]


def test_bytes_and_detaching():
    state = state_of()
    assert state.pending is None
    assert state.nbytes == 4 * B * H * (D * DV + D) + 8 * B
    given = inputs(torch.float32)
    value = given["value"].requires_grad_()
    attached = linear_attention(given["query"], given["key"], value, return_state=True).state
    assert attached.S.requires_grad
    assert not attached.detach().S.requires_grad
