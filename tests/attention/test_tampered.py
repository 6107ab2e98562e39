"""States that no call could have left: refused where they are put together, or where they are continued."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch

from quantattn.attention import AttentionState, Denominator, FeatureMap, linear_attention
from quantattn.errors import CheckpointError, ClockError, StateError

PRIOR = Denominator.prior(1.0)
X = torch.rand(2, 2, 3, 4, generator=torch.Generator().manual_seed(1))


def run(**options):
    return linear_attention(X, X, X, denominator=PRIOR, return_state=True, **options)


STATE = run(log_decay=-torch.ones(1, 1, 1)).state


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"S": None}, StateError, r"S: expected a tensor \(B, H, r, d_v\), got NoneType; take a state as"),
        ({"S": [1.0]}, StateError, "S: expected a tensor .* got list"),
        ({"S": np.ones(3)}, StateError, "S: expected a tensor .* got ndarray"),
        ({"S": STATE.S[0]}, StateError, r"S: expected a tensor \(B, H, r, d_v\), got shape \(2, 4, 4\)"),
        (
            {"S": STATE.S.long()},
            StateError,
            "S: a state is kept in torch.float32 or torch.float64, got torch.int64",
        ),
        ({"S": STATE.S * 1j}, StateError, "S: a state is kept in .* got torch.complex64"),
        ({"S": STATE.S.half()}, StateError, "S: a state is kept in .* got torch.float16"),
        ({"S": STATE.S.to("meta")}, StateError, "z: is on cpu, S is on meta"),
        ({"z": STATE.z[..., :2]}, StateError, r"z: expected shape \(B, H, r\) = \(2, 2, 4\) beside S, got"),
        ({"z": STATE.z.double()}, StateError, "z: expected torch.float32 beside S"),
        ({"count": STATE.count.float()}, StateError, "count: expected torch.int64 beside S"),
        (
            {"count": STATE.count[:1]},
            StateError,
            r"count: expected shape \(B,\) = \(2,\) beside S, got \(1,\)",
        ),
        ({"count": 3}, StateError, "count: expected a tensor .* got int"),
        ({"pending": [1]}, StateError, r"pending: expected a tensor \(B, H\), got list"),
        ({"pending": STATE.pending.float()}, StateError, "pending: expected torch.float64 beside S"),
        ({"pending": STATE.pending[..., :1]}, StateError, r"pending: expected shape \(B, H\) = \(2, 2\)"),
        ({"entities": ("a",)}, StateError, r"entities: expected 2 names, .* got \('a',\)"),
        ({"entities": "ab"}, StateError, "entities: expected 2 names, .* got 'ab'"),
        ({"entities": ("a", 1)}, StateError, "entities: expected 2 names"),
        ({"as_of": "x"}, ClockError, "as_of: expected whole numbers of int64 .* got 'x'"),
        ({"as_of": 2**80}, ClockError, "as_of: expected whole numbers of int64"),
        ({"as_of": (1, 2.5)}, ClockError, "as_of: expected whole numbers of int64 .* got 2.5"),
        ({"as_of": (1, 2**80)}, ClockError, "as_of: expected whole numbers of int64"),
        ({"as_of": [1]}, StateError, "as_of: 1 given for 2 rows of the batch"),
        ({"fingerprint": None}, StateError, "fingerprint: expected a text, got None"),
    ],
)
def test_no_such_state(change, error, message):
    with pytest.raises(error, match=message):
        dataclasses.replace(STATE, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pending": STATE.pending + 1.0}, "pending is a log decay above zero"),
        ({"count": -STATE.count}, "count is negative"),
        ({"S": STATE.S / 0}, "S is not finite"),
        ({"z": STATE.z * torch.nan}, "z is not finite"),
        ({"fingerprint": "elu1/raise/0"}, "made under 'elu1/raise/0'"),
    ],
)
def test_no_such_numbers(change, message):
    run(initial_state=STATE)
    with pytest.raises(StateError, match=f"initial_state: {message}"):
        run(initial_state=dataclasses.replace(STATE, **change))


def test_plain_lists_become_what_a_state_holds():
    state = dataclasses.replace(STATE, as_of=[5, None], entities=["A", None])
    assert (state.as_of, state.entities) == ((5, None), ("A", None))
    assert dataclasses.replace(STATE, as_of=(None, None), entities=(None, None)).as_of is None
    assert type(dataclasses.replace(STATE, as_of=np.int64(5)).as_of) is int
    again = AttentionState.restore(state.tensors(), state.metadata())
    assert (again.as_of, again.entities) == ((5, None), ("A", None))
    assert "as_of=(5, None), entities=('A', None)" in repr(state)
    assert state.at([6, 1]).as_of == (6, 1)
    with pytest.raises(ClockError, match="4 lies before the state's clock, 5, in row 0"):
        state.at([4, 1])


def test_numbers_beyond_float32():
    wide = dataclasses.replace(STATE, S=STATE.S.double() * 0 + 1e300, z=STATE.z.double())
    with pytest.raises(StateError, match=r"dtype: S holds 1e\+300, which torch.float32 cannot; go on in"):
        wide.to(dtype=torch.float32)
    assert wide.to(dtype=torch.float64).S.max() == 1e300
    # What is not finite stays so: it is refused where it is continued.
    spoilt = dataclasses.replace(wide, S=wide.S * torch.nan).to(dtype=torch.float32)
    assert torch.isnan(spoilt.S).all()


def test_a_copy_of_a_state():
    copied = copy.deepcopy(STATE)
    assert torch.equal(copied.S, STATE.S) and copied.S.data_ptr() != STATE.S.data_ptr()
    key = X.clone().requires_grad_()
    graph = linear_attention(X, key, X, return_state=True).state
    with pytest.raises(StateError, match=r"S: is part of a gradient's graph.*; copy state\.detach\(\)"):
        copy.deepcopy(graph)
    assert torch.equal(copy.deepcopy(graph.detach()).S, graph.S.detach())


def test_stored_states_that_cannot_be():
    """The digest fits, the content does not."""
    from quantattn.attention.state_store import stored_metadata

    for tensors, as_of, entities, message in (
        ({"z": STATE.z.double()}, None, None, "z: expected torch.float32 beside S"),
        ({}, (1, 2, 3), None, "as_of: 3 given for 2 rows"),
        ({}, "soon", None, "as_of: expected whole numbers"),
        ({}, None, ("A",), "entities: expected 2 names"),
    ):
        held = {**STATE.tensors(), **tensors}
        said = stored_metadata(held, STATE.fingerprint, as_of, entities)
        with pytest.raises(CheckpointError, match=f"state: {message}.*Save the state again"):
            AttentionState.restore(held, said)
    with pytest.raises(CheckpointError, match="expected tensors S, z, count"):
        AttentionState.restore(None, STATE.metadata())
    with pytest.raises(CheckpointError, match="kind None"):
        AttentionState.restore(STATE.tensors(), 3)


def one_of_two_classes(power: int) -> FeatureMap:
    if power == 1:

        class First(FeatureMap):
            name = "twin"
            positive = True

            def width(self, d):
                return d

            def __call__(self, x):
                return x.abs() + 1

        return First()

    class Second(FeatureMap):
        name = "twin"
        positive = True

        def width(self, d):
            return d

        def __call__(self, x):
            return x.abs() ** 2 + 1

    return Second()


def test_a_state_of_another_class_of_the_same_name_is_refused():
    state = run(feature_map=one_of_two_classes(1)).state
    run(feature_map=one_of_two_classes(1), initial_state=state)
    with pytest.raises(StateError, match=r"made under 'twin/prior/\w+', but this call is 'twin/prior/\w+'"):
        run(feature_map=one_of_two_classes(2), initial_state=state)
