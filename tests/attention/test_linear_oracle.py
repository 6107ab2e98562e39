"""Every backend, visibility, mask, decay, policy and map against the loop oracle, forward and gradient."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from quantattn.attention import AttentionState, Denominator, linear_attention
from quantattn.attention.features import resolve_feature_map
from quantattn.attention.fingerprint import state_fingerprint
from tests.attention.oracle import Case, evaluate

BACKENDS = ("quadratic", "recurrent", "chunked", "fused")
POLICIES = {"raise": ("raise",), "floor": ("floor", 2.5), "prior": ("prior", 0.75, (0.5, -1.0, 2.0))}
B, H, T, D, DV = 2, 2, 11, 3, 3


@cache
def make(visibility: str, masked: bool, decays: bool, policy: str, feature_map: str, state: bool) -> Case:
    rng = np.random.default_rng(11)
    reads = 7 if visibility == "counts" else T
    shape = (B, H, reads, D)
    query, key = rng.normal(size=shape), rng.normal(size=(B, H, T, D))
    if feature_map == "identity":
        query, key = np.abs(query), np.abs(key)
    if feature_map in ("relu", "squared_relu"):
        # One feature that is always there keeps the denominators away from zero.
        query[..., 0], key[..., 0] = 1.0, 1.0
    # A read of nothing has no meaning under raise_(); the state gives one to it.
    least = 0 if policy != "raise" or state else 1
    if visibility == "counts":
        counts = rng.integers(least, T + 1, size=(B, reads))
        counts[0, :3] = [T, least, T]
    else:
        counts = np.tile(np.arange(T) + (visibility == "inclusive"), (B, 1))
    mask = None
    if masked:
        mask = rng.random((B, T)) > 0.4
        mask[:, 0] = mask[:, 0] | (least == 1)
        mask[1, -3:] = False
    f32 = lambda x: x.astype(np.float32).astype(np.float64)  # noqa: E731
    return Case(
        query=f32(query),
        key=f32(key),
        value=f32(rng.normal(size=(B, H, T, DV))),
        feature_map=feature_map,
        counts=counts,
        mask=mask,
        log_decay=f32(-rng.exponential(0.7, size=(B, H, T))) if decays else None,
        read_log_decay=f32(-rng.exponential(0.7, size=(B, H, reads))) if decays else None,
        S=f32(rng.normal(size=(B, H, D, DV))) if state else None,
        z=f32(rng.uniform(0.5, 2, size=(B, H, D))) if state else None,
        pending=f32(-rng.exponential(0.7, size=(B, H))) if state and decays else None,
        policy=POLICIES[policy],
    )


def weights(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    return (
        rng.normal(size=(*case.query.shape[:3], DV)),
        rng.normal(size=(B, H, D, DV)),
        rng.normal(size=(B, H, D)),
    )


def run(case: Case, visibility: str, backend: str, dtype: torch.dtype) -> dict[str, np.ndarray]:
    def tensor(x: np.ndarray | None) -> torch.Tensor | None:
        return None if x is None else torch.tensor(x, dtype=dtype, requires_grad=True)

    leaves = {
        name: tensor(getattr(case, name))
        for name in ("query", "key", "value", "log_decay", "read_log_decay", "S", "z")
    }
    kind, *numbers = case.policy
    if kind == "prior":
        leaves["mass"] = torch.tensor(numbers[0], dtype=dtype, requires_grad=True)
        leaves["prior"] = torch.tensor(numbers[1], dtype=dtype, requires_grad=True)
        policy: Denominator = Denominator.prior(leaves["mass"], leaves["prior"])
    else:
        policy = Denominator.floor(numbers[0]) if kind == "floor" else Denominator.raise_()
    state = None
    if case.S is not None:
        state = AttentionState(
            S=leaves["S"],
            z=leaves["z"],
            count=torch.zeros(B, dtype=torch.int64),
            pending=None if case.pending is None else torch.tensor(case.pending),
            fingerprint=state_fingerprint(resolve_feature_map(case.feature_map), policy),
        )
    result = linear_attention(
        leaves["query"],
        leaves["key"],
        leaves["value"],
        feature_map=case.feature_map,
        visibility="inclusive" if visibility == "counts" else visibility,
        visible_counts=torch.tensor(case.counts) if visibility == "counts" else None,
        key_mask=None if case.mask is None else torch.tensor(case.mask),
        log_decay=leaves["log_decay"],
        read_log_decay=leaves["read_log_decay"],
        initial_state=state,
        return_state=True,
        denominator=policy,
        chunk_size=4,
        backend=backend,
    )
    assert result.health.backend == backend
    after = result.state
    age = 1.0 if after.pending is None else after.pending.exp()
    S = after.S * (age if after.pending is None else age[..., None, None])
    z = after.z * (age if after.pending is None else age[..., None])
    out_w, S_w, z_w = (torch.tensor(x, dtype=dtype) for x in weights(case))
    ((result.output * out_w).sum() + (S * S_w).sum() + (z * z_w).sum()).backward()
    found = {"output": result.output, "S": S, "z": z}
    for name, leaf in leaves.items():
        if leaf is not None:
            found[f"d_{name}"] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
    return {name: x.detach().double().numpy() for name, x in found.items()}


def expected(case: Case, dtype: type) -> dict[str, np.ndarray]:
    grads = (x.astype(dtype) for x in weights(case))
    return evaluate(case.cast(dtype), *grads)


CASES = [
    (visibility, masked, decays, policy, state)
    for visibility in ("inclusive", "strict", "counts")
    for masked in (False, True)
    for decays in (False, True)
    for policy in POLICIES
    for state in (False, True)
    # An empty first read is an error under raise_(); test_policies covers it.
    if not (policy == "raise" and visibility == "strict" and not state)
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("visibility", "masked", "decays", "policy", "state"), CASES)
def test_equals_the_definition_in_float64(visibility, masked, decays, policy, state, backend):
    case = make(visibility, masked, decays, policy, "elu1", state)
    wanted = expected(case, np.float64)
    for name, got in run(case, visibility, backend, torch.float64).items():
        scale = max(1.0, np.abs(wanted[name]).max())
        assert np.abs(got - wanted[name]).max() <= 2e-13 * scale, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("visibility", "masked", "decays", "policy", "state"), CASES)
def test_float32_rounds_no_worse_than_the_definition(visibility, masked, decays, policy, state, backend):
    case = make(visibility, masked, decays, policy, "elu1", state)
    wanted, rounded = expected(case, np.float64), expected(case, np.float32)
    for name, got in run(case, visibility, backend, torch.float32).items():
        largest = max(1.0, np.abs(wanted[name]).max())
        # What the plain loop loses in float32, and one unit in the last place for every key of a sum.
        tolerance = 2 * np.abs(rounded[name] - wanted[name]).max() + T * np.finfo(np.float32).eps * largest
        assert np.abs(got - wanted[name]).max() <= tolerance, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("feature_map", ["identity", "relu", "squared_relu", "elu1"])
@pytest.mark.parametrize("visibility", ["inclusive", "counts"])
def test_every_feature_map(visibility, feature_map, backend):
    case = make(visibility, True, True, "prior", feature_map, False)
    wanted = expected(case, np.float64)
    for name, got in run(case, visibility, backend, torch.float64).items():
        assert np.abs(got - wanted[name]).max() <= 2e-13 * max(1.0, np.abs(wanted[name]).max()), name


def test_the_oracle_gradient_is_the_slope_of_the_oracle():
    """The yardstick itself, by central differences."""
    case = make("counts", True, True, "prior", "elu1", True)
    grads = weights(case)
    exact = evaluate(case, *grads)

    def functional() -> float:
        at = evaluate(case, *grads)
        return float(sum((w * at[name]).sum() for w, name in zip(grads, ("output", "S", "z"), strict=True)))

    for name in ("query", "key", "value", "log_decay", "read_log_decay", "S", "z"):
        array = getattr(case, name)
        for flat in (0, array.size // 2, array.size - 1):
            place = np.unravel_index(flat, array.shape)
            kept, step = array[place], 1e-6
            array[place] = kept + step
            up = functional()
            array[place] = kept - step
            down = functional()
            array[place] = kept
            assert (up - down) / (2 * step) == pytest.approx(exact[f"d_{name}"][place], rel=1e-6, abs=1e-7)
