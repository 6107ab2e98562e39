"""States as data: into files and back, shown, moved, taken apart and refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from quantattn.attention import AttentionState, Denominator, Favor, elapsed_decay, linear_attention
from quantattn.attention.state_checks import check_state
from quantattn.errors import CheckpointError, ClockError, StateError

PRIOR = Denominator.prior(0.5, [1.0, 2.0, 3.0])
TIMES = torch.tensor([[10, 20, 30], [11, 21, 31]])
MASK = torch.tensor([[True, True, True], [True, True, False]])


def tokens(seed: int = 0, rows: int = 2, **options) -> torch.Tensor:
    return torch.rand(rows, 2, 3, 3, generator=torch.Generator().manual_seed(seed), **options)


def run(x=None, **options):
    x = tokens() if x is None else x
    return linear_attention(x, x, x, denominator=PRIOR, return_state=True, **options)


def full_state(**options) -> AttentionState:
    """A state with everything that one can carry."""
    decay = elapsed_decay(TIMES, [5.0, 7.0])
    return run(key_times=TIMES, key_mask=MASK, log_decay=decay, entities=["AAPL", "Ä, 'B'"], **options).state


def same(one: AttentionState, other: AttentionState) -> None:
    for name in ("S", "z", "count", "pending"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        assert mine is None or (mine.dtype == theirs.dtype and torch.equal(mine, theirs))
    for name in ("fingerprint", "as_of", "entities"):
        assert getattr(one, name) == getattr(other, name)


def test_into_a_file_and_back(tmp_path):
    state = full_state()
    assert state.pending is not None and (state.pending[1] < 0).all()
    assert (state.as_of, state.entities) == ((30, 21), ("AAPL", "Ä, 'B'"))
    path = tmp_path / "state.safetensors"
    save_file(state.tensors(), path, metadata={**state.metadata(), "mine": "too"})
    with safe_open(path, framework="pt") as file:
        again = AttentionState.restore({name: file.get_tensor(name) for name in file.keys()}, file.metadata())  # noqa: SIM118
    same(again, state)
    x, later = tokens(3), TIMES + 100
    options = {"key_times": later, "entities": ["AAPL", "Ä, 'B'"]}
    decay = elapsed_decay(later, [5.0, 7.0], since=state)
    one, other = (run(x, initial_state=s, log_decay=decay, **options) for s in (state, again))
    assert torch.equal(one.output, other.output)
    same(one.state, other.state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"entities": ["A", "B"]}, {"key_times": TIMES}])
def test_all_that_a_state_carries_comes_back(options, dtype):
    state = run(tokens(dtype=dtype), **options).state
    for carried in (state, state.at(70), state.row(1), state.at([80, 90]).row(0)):
        said = json.loads(json.dumps(carried.metadata()))
        same(AttentionState.restore(carried.tensors(), said), carried)


def test_stored_tensors_are_copies_of_their_own():
    # One row, head, feature and value: the views of one tensor pass for contiguous.
    x = torch.rand(1, 1, 3, 1, requires_grad=True)
    state = linear_attention(x, x, x, return_state=True).state
    held = state.tensors()
    assert set(held) == {"S", "z", "count"}
    assert len({tensor.untyped_storage().data_ptr() for tensor in held.values()}) == 3
    assert all(tensor.is_contiguous() and not tensor.requires_grad for tensor in held.values())
    big = full_state().tensors()
    assert set(big) == {"S", "z", "count", "pending"} and all(x.is_contiguous() for x in big.values())
    before = state.S.clone()
    held["S"] += 1
    assert torch.equal(state.S, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, m: m.clear(), r"not those of an attention state \(kind None\); pass what metadata"),
        (lambda t, m: m.update(kind="other"), "kind 'other'"),
        (lambda t, m: m.update(schema="2"), "schema '2', this version reads '1'"),
        (lambda t, m: m.pop("digest"), "the metadata lack digest"),
        (lambda t, m: m.update(fingerprint=3), "the metadata lack fingerprint"),
        (lambda t, m: m.update(fingerprint="elu1/raise/0"), "do not belong together"),
        (lambda t, m: m.update(as_of="[31, 21]"), "do not belong together"),
        (lambda t, m: m.update(entities='["MSFT", "B"]'), "do not belong together"),
        (lambda t, m: t["S"].add_(1e-3), "do not belong together"),
        (lambda t, m: t["count"].add_(1), "do not belong together"),
        (lambda t, m: t.pop("pending"), "do not belong together"),
        (lambda t, m: t.update(S=t["S"].double()), "do not belong together"),
        (
            lambda t, m: t.pop("z"),
            r"expected tensors S, z, count and perhaps pending, got \['S', 'count', 'pending'\]",
        ),
        (lambda t, m: t.update(other=t["S"]), "got .*'other'"),
        (lambda t, m: t.update(S=t["S"][0]), r"S is \(2, 3, 3\), expected a tensor of 4 axes"),
        (lambda t, m: t.update(z=3), "z is int"),
    ],
)
def test_what_was_altered_is_refused(change, message):
    state = full_state()
    tensors, said = state.tensors(), state.metadata()
    AttentionState.restore(tensors, said)
    change(tensors, said)
    with pytest.raises(CheckpointError, match=message):
        AttentionState.restore(tensors, said)


def test_the_parts_of_two_states_are_refused():
    one, other = full_state(), run(tokens(5), key_times=TIMES).state
    with pytest.raises(CheckpointError, match="do not belong together"):
        AttentionState.restore(other.tensors(), one.metadata())
    with pytest.raises(CheckpointError, match="not those of an attention state"):
        AttentionState.restore(one.tensors(), None)


def test_the_repr_shows_no_numbers_of_the_state():
    state = full_state()
    assert repr(state) == (
        "AttentionState(rows=2, heads=2, features=3, values=3, float32 on cpu, count=(3, 2), as_of=(30, 21), "
        f"entities=('AAPL', \"Ä, 'B'\"), made under {state.fingerprint})"
    )
    assert "tensor" not in repr(state)
    many = AttentionState.stack([state.row(n % 2) for n in range(40)])
    assert "count=(3, 2, 3, ... 40 in all)" in repr(many) and len(repr(many)) < 300
    assert "as_of=None, entities=None" in repr(run().state)
    assert "as_of=7," in repr(run().state.at(7))


def test_rows_that_there_are():
    state = full_state()
    assert state.row(1).entities == ("Ä, 'B'",) and state.row(np.int64(0)).as_of == (30,)
    assert torch.equal(state.row(1).S, state.S[1:])
    for index in (2, 7, -1, 1.0, True, None, slice(0, 1)):
        with pytest.raises(StateError, match=r"index: expected a row from 0 to 1 of the batch, got"):
            state.row(index)


def test_equal_to_itself_alone():
    one, other = full_state(), full_state()
    assert one == one and one != other and len({one, other}) == 2
    same(one, other)


@pytest.mark.parametrize(
    "as_of", [2.5, "12", None, True, [1, 2.5], ["a", "b"], 2**63, -(2**63), torch.tensor(1.5)]
)
def test_clocks_that_are_none(as_of):
    with pytest.raises(ClockError, match="as_of: expected whole numbers of int64 in the unit of the clock"):
        run().state.at(as_of)


def test_clocks_of_every_kind():
    state = run().state
    for given, wanted in (
        (7, 7),
        (np.int64(7), 7),
        (torch.tensor(7), 7),
        (torch.tensor([7, 8]), (7, 8)),
        (np.array([7, 8]), (7, 8)),
        (range(7, 9), (7, 8)),
    ):
        assert state.at(given).as_of == wanted
        assert type(state.at(given).as_of) in (int, tuple)
    assert state.at(7).clocks.tolist() == [[7], [7]] and state.at([7, 8]).clocks.tolist() == [[7], [8]]
    assert state.at([7, 8]).clocks.dtype == torch.int64
    assert state.at(7).without_clock().as_of is None
    with pytest.raises(ClockError, match=r"the state has no clock; pass key_times"):
        _ = state.clocks


def test_to_another_dtype_and_device():
    state = full_state()
    wide = state.to(dtype=torch.float64)
    assert wide.S.dtype == wide.z.dtype == wide.pending.dtype == torch.float64
    assert (wide.count.dtype, wide.as_of, wide.entities) == (torch.int64, state.as_of, state.entities)
    same(wide.to(dtype=torch.float32), state)
    same(state.to("cpu"), state)
    away = state.to("meta")
    assert {getattr(away, name).device.type for name in ("S", "z", "count", "pending")} == {"meta"}
    for dtype in (torch.float16, torch.int64, "float64"):
        with pytest.raises(StateError, match=r"kept in torch\.float32 or torch\.float64, got"):
            state.to(dtype=dtype)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            {},
            {"dtype": torch.float64},
            r"S is torch\.float32, this call computes in torch\.float64; .*\.to\(dtype",
        ),
        (
            {"z": torch.float64},
            {},
            r"z: expected torch\.float32 beside S in torch\.float32, got torch\.float64",
        ),
        ({"count": torch.float32}, {}, r"count: expected torch\.int64 beside S"),
        ({"pending": torch.float32}, {}, r"pending: expected torch\.float64 beside S"),
        ({"S": torch.int64}, {}, r"S: a state is kept in torch\.float32 or torch\.float64, got torch\.int64"),
        ({}, {"device": torch.device("meta")}, r"S is on cpu, the inputs are on meta; move .*\.to\('meta'\)"),
    ],
)
def test_states_of_another_kind_are_refused(change, options, message):
    state = full_state()
    needs = {"batch": 2, "heads": 2, "features": 3, "values": 3, "fingerprint": state.fingerprint}
    check_state(state, dtype=torch.float32, device=torch.device("cpu"), **needs)
    held = {name: getattr(state, name).to(dtype) for name, dtype in change.items()}
    with pytest.raises(StateError, match=message):  # where it is put together, or where it is continued
        check_state(dataclasses.replace(state, **held), **needs, **options)


def test_counts_and_decays_that_cannot_be():
    state = full_state()
    x, options = tokens(), {"key_times": TIMES + 100, "entities": state.entities}
    run(x, initial_state=state, **options)
    for name, held, message in (
        ("count", state.count.double(), r"count: expected torch\.int64"),
        ("count", -state.count, "count is negative"),
        ("pending", -state.pending, "pending is a log decay above zero"),
        ("count", 3, r"count: expected a tensor \(B,\), got int"),
    ):
        with pytest.raises(StateError, match=message):
            run(x, initial_state=dataclasses.replace(state, **{name: held}), **options)


def test_states_that_do_not_stack():
    state = run().state
    with pytest.raises(
        StateError, match=r"S of a row is .*float32.*float64.* make them one with \.to\(device, dtype\)"
    ):
        AttentionState.stack([state, state.to(dtype=torch.float64)])
    wide = Favor(3, 5)
    other = run(feature_map=wide).state
    with pytest.raises(StateError, match="stack states of one feature map"):
        AttentionState.stack([state, other])
