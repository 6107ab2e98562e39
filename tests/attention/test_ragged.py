"""Sequences laid end to end are read as if each were alone, to the bit."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from quantattn.attention import AttentionState, Denominator, Favor, linear_attention, softmax_attention
from quantattn.errors import ClockError, DenominatorError, FeatureMapError, ShapeError, StateError
from tests.attention.maps import BACKENDS

H, D, DV = 2, 4, 3
LENGTHS = (5, 1, 0, 20, 9)
READS = (2, 3, 1, 0, 7)
BOUNDS = torch.tensor([0, 5, 6, 6, 26, 35])
READ_BOUNDS = torch.tensor([0, 2, 5, 6, 6, 13])
PRIOR = Denominator.prior(0.5, [1.0, 2.0, 3.0])


def inputs(counted: bool, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    length = sum(LENGTHS)
    reads = sum(READS) if counted else length
    mask = torch.rand(1, length, generator=generator) > 0.3
    mask[0, BOUNDS[:-1].clamp(max=length - 1)] = True
    made = {
        "query": normal(1, H, reads, D),
        "key": normal(1, H, length, D),
        "value": normal(1, H, length, DV),
        "key_mask": mask,
        "log_decay": -normal(1, H, length).abs(),
        "read_log_decay": -normal(1, H, reads).abs(),
    }
    if counted:
        seen = [
            int(torch.randint(n + 1, (1,), generator=generator))
            for n, r in zip(LENGTHS, READS, strict=True)
            for _ in range(r)
        ]
        made["visible_counts"] = torch.tensor([seen])
    return made


def one_by_one(given: dict[str, Tensor], counted: bool) -> list[dict[str, Tensor]]:
    """Cut every argument by hand."""
    parts = []
    reads = READ_BOUNDS if counted else BOUNDS
    for n in range(len(LENGTHS)):
        low, high = int(BOUNDS[n]), int(BOUNDS[n + 1])
        first, last = int(reads[n]), int(reads[n + 1])
        part = {name: given[name][:, :, low:high] for name in ("key", "value", "log_decay")}
        part |= {name: given[name][:, :, first:last] for name in ("query", "read_log_decay")}
        part["key_mask"] = given["key_mask"][:, low:high]
        if counted:
            part["visible_counts"] = given["visible_counts"][:, first:last]
        parts.append(part)
    return parts


def states(options: dict[str, object]) -> list[AttentionState]:
    """One state with a history of its own for every sequence."""
    made = []
    for n in range(len(LENGTHS)):
        drawn = torch.randn(1, H, 3, D, generator=torch.Generator().manual_seed(20 + n))
        value = drawn[..., :DV]
        decay = -torch.rand(1, H, 3, generator=torch.Generator().manual_seed(n))
        mask = torch.tensor([[True, True, n % 2 == 0]])
        state = linear_attention(
            drawn, drawn, value, log_decay=decay, key_mask=mask, return_state=True, **options
        ).state
        made.append(state.at(100 + n).of(f"entity {n}"))
    return made


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("policy", [PRIOR, Denominator.floor(0.2)])
def test_a_pack_is_its_sequences(policy, counted, backend):
    given = inputs(counted)
    # Each sequence by a clock of its own, after the clock of its state.
    times = torch.cat([1000 * n + 200 + torch.arange(length) for n, length in enumerate(LENGTHS)])[None]
    options = {"denominator": policy, "backend": backend, "chunk_size": 4, "return_state": True}
    starts = states({"denominator": policy})
    packed = linear_attention(
        **given,
        key_times=times,
        cu_seqlens=BOUNDS,
        query_cu_seqlens=READ_BOUNDS if counted else None,
        initial_state=AttentionState.stack(starts),
        entities=[f"entity {n}" for n in range(5)],
        **options,
    )
    alone = [
        linear_attention(
            **part, key_times=times[:, low:high], initial_state=start, entities=start.entities, **options
        )
        for part, start, low, high in zip(
            one_by_one(given, counted), starts, BOUNDS[:-1].tolist(), BOUNDS[1:].tolist(), strict=True
        )
    ]
    assert torch.equal(packed.output, torch.cat([one.output for one in alone], 2))
    assert torch.equal(packed.health.denominators, torch.cat([one.health.denominators for one in alone], 2))
    assert set(packed.health.backend.split(", ")) == {one.health.backend for one in alone}
    for n, one in enumerate(alone):
        row = packed.state.row(n)
        for name in ("S", "z", "count", "pending"):
            assert torch.equal(getattr(row, name), getattr(one.state, name)), name
        assert row.entities == one.state.entities == (f"entity {n}",)
        counts = given["key_mask"][0, BOUNDS[n] : BOUNDS[n + 1]].nonzero()
        last = 1000 * n + 200 + int(counts[-1]) if len(counts) else 100 + n
        assert row.as_of == one.state.as_of == (last,)
        assert row.fingerprint == one.state.fingerprint


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_a_pack(backend):
    results = []
    for packed in (True, False):
        given = inputs(False, torch.float64)
        leaves = {n: x.requires_grad_() for n, x in given.items() if x.is_floating_point()}
        options = {"denominator": PRIOR, "backend": backend, "chunk_size": 4}
        if packed:
            output = linear_attention(**given, cu_seqlens=BOUNDS, **options).output
        else:
            parts = one_by_one(given, False)
            output = torch.cat([linear_attention(**part, **options).output for part in parts], 2)
        output.sin().sum().backward()
        results.append({n: x.grad for n, x in leaves.items()})
    for name, grad in results[0].items():
        assert torch.equal(grad, results[1][name]), name
        assert (grad != 0).any(), name


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_says_the_same(backend):
    """The other way to have sequences of different lengths: rows of a batch, the rest masked."""
    given = inputs(False, torch.float64)
    packed = linear_attention(
        **given, cu_seqlens=BOUNDS, denominator=PRIOR, backend=backend, return_state=True
    )
    longest = max(LENGTHS)
    padded: dict[str, Tensor] = {}
    for name, x in given.items():
        axis = 1 if name == "key_mask" else 2
        rows = []
        for low, high in itertools.pairwise(BOUNDS.tolist()):
            part = x.narrow(axis, low, high - low)
            # What stands in the padding is never read.
            fill = False if name == "key_mask" else -0.5 if "decay" in name else float("nan")
            shape = list(part.shape)
            shape[axis] = longest - (high - low)
            rows.append(torch.cat([part, torch.full(shape, fill, dtype=x.dtype)], axis))
        padded[name] = torch.cat(rows)
    result = linear_attention(**padded, denominator=PRIOR, backend=backend, return_state=True)
    for n, (low, high) in enumerate(itertools.pairwise(BOUNDS.tolist())):
        torch.testing.assert_close(
            result.output[n, :, : high - low], packed.output[0, :, low:high], rtol=1e-12, atol=1e-12
        )
    torch.testing.assert_close(result.state.S, packed.state.S, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(result.state.z, packed.state.z, rtol=1e-12, atol=1e-12)
    assert torch.equal(result.state.count, packed.state.count)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("decays", [False, True])
def test_softmax_packs(decays, counted):
    given = inputs(counted)
    # Softmax over nothing has no value: every read sees the first key of its sequence, which counts.
    if counted:
        given["visible_counts"] = given["visible_counts"].clamp(min=1)
    lengths, bounds, reads = LENGTHS, BOUNDS, READ_BOUNDS
    if counted:
        # The empty sequence has nothing to read: drop its read.
        for name, axis in (("query", 2), ("read_log_decay", 2), ("visible_counts", 1)):
            x = given[name]
            given[name] = torch.cat([x.narrow(axis, 0, 5), x.narrow(axis, 6, x.shape[axis] - 6)], axis)
        reads = torch.tensor([0, 2, 5, 5, 5, 12])
    if not decays:
        del given["log_decay"], given["read_log_decay"]
    packed = softmax_attention(**given, cu_seqlens=bounds, query_cu_seqlens=reads if counted else None)
    outputs = []
    for n in range(len(lengths)):
        low, high = bounds[n : n + 2].tolist()
        first, last = (reads if counted else bounds)[n : n + 2].tolist()
        part = {m: x[:, :, low:high] for m, x in given.items() if m in ("key", "value", "log_decay")}
        part |= {m: x[:, :, first:last] for m, x in given.items() if m in ("query", "read_log_decay")}
        part["key_mask"] = given["key_mask"][:, low:high]
        if counted:
            part["visible_counts"] = given["visible_counts"][:, first:last]
        outputs.append(softmax_attention(**part))
    assert torch.equal(packed, torch.cat(outputs, 2))


def test_a_decay_of_size_one_is_shared_by_all_sequences():
    given = inputs(False)
    given["log_decay"] = torch.full((1, 1, 1), -0.25)
    del given["read_log_decay"]
    whole = {**given, "log_decay": torch.full((1, H, sum(LENGTHS)), -0.25)}
    options = {"cu_seqlens": BOUNDS, "denominator": PRIOR}
    assert torch.equal(
        linear_attention(**given, **options).output, linear_attention(**whole, **options).output
    )


def test_no_sequence_sees_another():
    given = inputs(False)
    options = {"cu_seqlens": BOUNDS.int(), "denominator": PRIOR}
    base = linear_attention(**given, **options).output
    given["value"][:, :, 6:26] = float("nan")
    other = linear_attention(**given, **options).output
    same = [n for n in range(35) if not 6 <= n < 26]
    assert torch.equal(base[:, :, same], other[:, :, same])
    assert torch.isnan(other[:, :, 6:26]).any()


X = torch.rand(1, 2, 6, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cu_seqlens": [0, 6]}, "cu_seqlens: expected an int32 or int64 tensor, got list"),
        ({"cu_seqlens": torch.tensor([0.0, 6.0])}, "cu_seqlens: expected an int32 or int64 .* torch.float32"),
        ({"cu_seqlens": torch.tensor([[0, 6]])}, r"cu_seqlens: expected shape \(N \+ 1,\).*got \(1, 2\)"),
        ({"cu_seqlens": torch.tensor([0])}, r"cu_seqlens: expected shape .*got \(1,\)"),
        ({"cu_seqlens": torch.tensor([1, 6])}, r"rise from 0 to the length 6, got \[1, 6\]"),
        ({"cu_seqlens": torch.tensor([0, 5])}, r"rise from 0 to the length 6, got \[0, 5\]"),
        ({"cu_seqlens": torch.tensor([0, 4, 3, 6])}, r"rise from 0 to the length 6, got \[0, 4, 3, 6\]"),
        ({"query": X.repeat(2, 1, 1, 1)}, "batch and heads are"),
        ({"visible_counts": torch.ones(1, 6).long()}, "query_cu_seqlens: is needed beside visible_counts"),
        ({"query": X[:, :, :4]}, "query: length is 4, key has 6; pass visible_counts and query_cu_seqlens"),
        ({"query_cu_seqlens": torch.tensor([0, 2, 3, 6])}, "has 3 sequences, cu_seqlens has 2"),
        ({"key_mask": torch.ones(1, 5) > 0}, r"key_mask: expected a length of 6 on axis 1, got .*\(1, 5\)"),
        ({"log_decay": torch.zeros(1, 2, 7)}, "log_decay: expected a length of 6 on axis 2"),
        ({"cu_seqlens": None, "query_cu_seqlens": torch.tensor([0, 6])}, "cu_seqlens: is needed beside"),
    ],
)
def test_bad_bounds(change, message):
    given = {"query": X, "key": X, "value": X, "cu_seqlens": torch.tensor([0, 2, 6]), **change}
    for attention in (linear_attention, softmax_attention):
        with pytest.raises(ShapeError, match=message):
            attention(**given)


def test_a_batch_cannot_be_packed_too():
    two = X.repeat(2, 1, 1, 1)
    with pytest.raises(ShapeError, match="goes with a batch of one, got 2"):
        linear_attention(two, two, two, cu_seqlens=torch.tensor([0, 6]))


def test_errors_name_the_sequence():
    bounds = torch.tensor([0, 2, 6])
    with pytest.raises(DenominatorError, match=r"sequence 0, from key 0 of the pack: .* position 0: 0"):
        linear_attention(X, X, X, visibility="strict", cu_seqlens=bounds)
    spoilt = X.clone()
    spoilt[0, 1, 4] = -1
    with pytest.raises(FeatureMapError, match=r"sequence 1, from key 2 of the pack: .* head 1, position 2"):
        linear_attention(spoilt, spoilt, X, feature_map="identity", cu_seqlens=bounds)
    counts = torch.tensor([[1, 2, 3, 4, 5, 4]])
    with pytest.raises(ShapeError, match="sequence 1, from key 2 of the pack: visible_counts: 5"):
        linear_attention(X, X, X, visible_counts=counts, cu_seqlens=bounds, query_cu_seqlens=bounds)
    state = linear_attention(X, X, X, return_state=True).state
    with pytest.raises(StateError, match="has 1 rows for 2 sequences; put one together"):
        linear_attention(X, X, X, cu_seqlens=bounds, initial_state=state)


def test_stacking():
    state = linear_attention(X, X, X, return_state=True).state
    two = AttentionState.stack([state, state.at(5)])
    assert two.S.shape == (2, 2, 3, 3) and two.as_of == (None, 5) and two.pending is None
    # Whose and of when each row is stays with the row, also beside one that is nobody's.
    mixed = AttentionState.stack([state.of("AAPL").at(500), state])
    assert (mixed.as_of, mixed.entities) == ((500, None), ("AAPL", None))
    assert (mixed.row(0).as_of, mixed.row(0).entities) == ((500,), ("AAPL",))
    assert (mixed.row(1).as_of, mixed.row(1).entities) == (None, None)
    assert AttentionState.stack([state, state]).entities is None
    pair, times = X.repeat(2, 1, 1, 1), 500 + torch.arange(6).repeat(2, 1)
    more = {"initial_state": mixed, "return_state": True}
    with pytest.raises(StateError, match="row 0 is that of 'AAPL', but the call continues 'MSFT'"):
        linear_attention(pair, pair, pair, key_times=times, entities=["MSFT", "AAPL"], **more)
    with pytest.raises(StateError, match=r"that of \('AAPL', None\), and the call does not say whose"):
        linear_attention(pair, pair, pair, key_times=times, **more)
    with pytest.raises(ClockError, match="its clock is 500, later than key 0 of batch 0 at 499"):
        linear_attention(pair, pair, pair, key_times=times - 1, entities=["AAPL", "MSFT"], **more)
    after = linear_attention(pair, pair, pair, key_times=times, entities=["AAPL", "MSFT"], **more).state
    assert (after.as_of, after.entities) == ((505, 505), ("AAPL", "MSFT"))
    assert mixed.of(["AAPL", "MSFT"]).entities == ("AAPL", "MSFT")
    with pytest.raises(StateError, match="the state is that of"):
        mixed.of(["MSFT", "AAPL"])
    decayed = linear_attention(X, X, X, log_decay=-torch.ones(1, 1, 1), return_state=True).state
    both = AttentionState.stack([state, decayed])
    assert both.pending.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(StateError, match="states: expected a list of at least one AttentionState, got none"):
        AttentionState.stack([])
    for given, said in (([1], "int"), (None, "NoneType"), ([state, "x"], "str")):
        with pytest.raises(StateError, match=f"states: expected a list of .* got {said}"):
            AttentionState.stack(given)
    alone = linear_attention(X[:, :1], X[:, :1], X[:, :1], return_state=True).state
    with pytest.raises(StateError, match=r"S of a row is .* stack states of the same widths"):
        AttentionState.stack([state, alone])
    other = linear_attention(X, X, X, feature_map=Favor(3), return_state=True).state
    with pytest.raises(StateError, match="stack states of one feature map and policy"):
        AttentionState.stack([state, other])
