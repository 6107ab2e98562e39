"""Real time: what may be seen when, how much has decayed, and whose history it is."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quantattn.attention import Denominator, elapsed_decay, linear_attention, visible_before
from quantattn.errors import ClockError, ShapeError, StateError
from tests.attention.maps import BACKENDS

NOW = 1_700_000_000_000_000_000
X = torch.rand(2, 1, 4, 3, generator=torch.Generator().manual_seed(1))
TIMES = torch.tensor([[10, 20, 20, 30], [5, 6, 7, 8]])


def read(times=TIMES, **options):
    return linear_attention(X, X, X, key_times=times, **options)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=7),
    st.lists(st.integers(-1, 10), max_size=7),
    st.lists(st.booleans(), min_size=7, max_size=7),
)
def test_visible_means_strictly_earlier(keys, reads, counted):
    keys = sorted(keys)
    key_times = torch.tensor([keys], dtype=torch.int64)
    read_times = torch.tensor([reads], dtype=torch.int64)
    strict = visible_before(key_times, read_times)[0].tolist()
    inclusive = visible_before(key_times, read_times, inclusive=True)[0].tolist()
    assert strict == [sum(k < r for k in keys) for r in reads]
    assert inclusive == [sum(k <= r for k in keys) for r in reads]
    mask = torch.tensor([counted[: len(keys)]], dtype=torch.bool)
    spoilt = torch.where(mask, key_times, -99)
    masked = visible_before(spoilt, read_times, key_mask=mask)[0].tolist()
    for count, r in zip(masked, reads, strict=True):
        seen = [k for k, c in zip(keys[:count], counted, strict=False) if c]
        assert seen == [k for k, c in zip(keys, counted, strict=False) if c and k < r]


def test_one_nanosecond_decides():
    key = torch.tensor([[NOW, NOW + 1]])
    assert visible_before(key, torch.tensor([[NOW, NOW + 1, NOW + 2]])).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_order_of_simultaneous_events_changes_no_read_by_time(backend):
    generator = torch.Generator().manual_seed(4)
    times = torch.tensor([[1, 2, 2, 2, 2, 5, 5, 5, 9]])
    key, value = (torch.randn(1, 2, 9, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    reads = torch.tensor([[1, 2, 3, 5, 6, 9, 10]])
    query = torch.randn(1, 2, 7, 3, generator=generator, dtype=torch.float64)
    order = [0, 3, 1, 4, 2, 7, 5, 6, 8]
    since = torch.cat([times[:, :1], times[:, :-1]], -1)
    options = {
        "visible_counts": visible_before(times, reads),
        "log_decay": elapsed_decay(times, [1.5, 4.0], since),
        "key_times": times,
        "read_times": reads,
        "denominator": Denominator.prior(1.0, 0.5),
        "backend": backend,
    }
    base = linear_attention(query, key, value, **options).output
    other = linear_attention(query, key[:, :, order], value[:, :, order], **options).output
    torch.testing.assert_close(base, other, rtol=1e-13, atol=1e-13)
    # Positive control: reads by rows do depend on the order.
    rows = [
        linear_attention(k, k, v, backend=backend).output
        for k, v in ((key, value), (key[:, :, order], value[:, :, order]))
    ]
    assert not torch.allclose(rows[0][:, :, order], rows[1])


def test_decay_from_half_lives():
    times = torch.tensor([[NOW, NOW + 10, NOW + 10, NOW + 13]])
    since = torch.cat([times[:, :1], times[:, :-1]], -1)
    found = elapsed_decay(times, [10.0, math.inf], since)
    assert found.shape == (1, 2, 4)
    assert torch.equal(found, elapsed_decay(times, [10.0, math.inf]))
    assert elapsed_decay(times[:, :0], 1.0).shape == (1, 1, 0)
    assert found.exp()[0, 0].tolist() == pytest.approx([1, 0.5, 1, 2**-0.3], rel=1e-15)
    assert found[0, 1].tolist() == [0, 0, 0, 0]
    assert (found <= 0).all()
    with pytest.raises(ClockError, match="99 at batch 0, position 1 lies before its reference, 100"):
        elapsed_decay(torch.tensor([[5, 99]]), 1.0, torch.tensor([[5, 100]]))
    for life in (0.0, -1.0, float("nan"), [1.0, 0.0]):
        with pytest.raises(ClockError, match="half_life: expected positive numbers"):
            elapsed_decay(times, life, since)
    with pytest.raises(ShapeError, match=r"since: expected the shape of times \(1, 4\), got \(1, 3\)"):
        elapsed_decay(times, 1.0, since[:, :3])


def test_unsorted_keys_are_refused():
    read()
    bad = TIMES.clone()
    bad[1, 2] = 5
    message = r"key_times: 5 at batch 1, position 2 comes after 6 \(1 such in all\); sort keys by time"
    with pytest.raises(ClockError, match=message):
        read(bad)
    with pytest.raises(ClockError, match=message):
        visible_before(bad, bad)
    mask = torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2] = False
    read(bad, key_mask=mask)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (TIMES.double(), "key_times: expected an int64 tensor of instants, got torch.float64"),
        (TIMES.int(), "got torch.int32"),
        (TIMES.tolist(), "got list"),
        (TIMES[:1], r"key_times: expected shape \(2, 4\), got \(1, 4\)"),
        (TIMES[0], r"got \(4,\)"),
    ],
)
def test_bad_times(times, message):
    with pytest.raises(ShapeError, match=message):
        read(times)


def test_reads_of_what_was_not_known_are_refused():
    counts = torch.tensor([[0, 1, 3, 4], [1, 1, 1, 1]])
    fine = torch.tensor([[-5, 11, 21, 31], [6, 7, 8, 9]])
    options = {"visible_counts": counts, "denominator": Denominator.prior(1.0)}
    read(read_times=fine, **options)
    for row, column, time, seen in ((0, 1, 10, 10), (0, 2, 20, 20), (1, 3, 4, 5)):
        bad = fine.clone()
        bad[row, column] = time
        message = f"read_times: {time} at batch {row}, query {column} .* what the read sees, of {seen};"
        with pytest.raises(ClockError, match=message):
            read(read_times=bad, **options)
    # An inclusive read shares the instant of its own key, a strict one must not see it.
    read(read_times=TIMES)
    with pytest.raises(ClockError, match="read_times: 20 at batch 0, query 2"):
        read(read_times=TIMES, visibility="strict", denominator=Denominator.prior(1.0))
    with pytest.raises(ClockError, match="read_times: 29 at batch 0, query 3"):
        read(read_times=TIMES - torch.tensor([0, 0, 0, 1]))


def test_a_state_of_a_later_clock_is_refused():
    state = read(return_state=True).state
    assert state.as_of == (30, 8)
    after = read(TIMES + 20, initial_state=state, return_state=True).state
    assert after.as_of == (50, 28)
    # The instant of the state's last event is not earlier than the state.
    read(TIMES + torch.tensor([[20], [3]]), initial_state=state)
    with pytest.raises(ClockError, match="initial_state: its clock is 8, later than key 0 of batch 1 at 7"):
        read(TIMES + torch.tensor([[20], [2]]), initial_state=state)
    none = torch.rand(2, 1, 0, 3)
    counts = torch.zeros(2, 1, dtype=torch.int64)
    options = {"visible_counts": counts, "initial_state": state}
    linear_attention(X[:, :, :1], none, none, read_times=torch.tensor([[31], [9]]), **options)
    with pytest.raises(ClockError, match=r"read_times: 30 at batch 0, query 0 .* sees, of 30"):
        linear_attention(X[:, :, :1], none, none, read_times=torch.tensor([[30], [9]]), **options)
    with pytest.raises(ClockError, match="29 lies before the state's clock, 30, in row 0"):
        state.at([29, 8])
    assert state.at((31, 8)).as_of == (31, 8)
    assert state.at(40).as_of == 40
    with pytest.raises(StateError, match="as_of: 3 given for 2 rows"):
        state.at([40, 40, 40])
    none = linear_attention(X, X, X, initial_state=state.without_clock(), return_state=True).state
    assert none.as_of is None


def test_masked_keys_do_not_move_the_clock():
    mask = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert read(key_mask=mask, return_state=True).state.as_of == (20, 5)
    mask[1] = False
    prior = {"denominator": Denominator.prior(1.0), "return_state": True}
    # A row without a key that counts has no clock; the clock of the other stays, and holds it.
    state = read(key_mask=mask, **prior).state
    assert state.as_of == (20, None) and state.row(0).as_of == (20,) and state.row(1).as_of is None
    with pytest.raises(ClockError, match="its clock is 20, later than key 0 of batch 0 at 10"):
        read(TIMES, initial_state=state, **prior)
    with pytest.raises(ClockError, match=r"key_times: the initial state's clock stands at \(20, None\)"):
        read(None, initial_state=state, **prior)
    after = read(TIMES + torch.tensor([[10], [0]]), initial_state=state, **prior).state
    assert after.as_of == (40, 8)
    assert read(key_mask=torch.zeros_like(mask), **prior).state.as_of is None


def test_an_empty_sequence_of_a_pack_takes_no_clock_from_the_others():
    x, times = X[:1, :, :3], torch.tensor([[10, 20, 7]])
    pack = {"cu_seqlens": torch.tensor([0, 2, 2, 3]), "return_state": True}
    state = linear_attention(x, x, x, key_times=times, **pack).state
    assert state.as_of == (20, None, 7)
    decay = elapsed_decay(times + 20, math.log(2), since=state, cu_seqlens=pack["cu_seqlens"])
    assert (-decay)[0, 0].tolist() == pytest.approx([10, 10, 20], rel=1e-14)
    with pytest.raises(
        ClockError, match=r"sequence 0, .* its clock is 20, later than key 0 of batch 0 at 19"
    ):
        linear_attention(x, x, x, key_times=times + 9, initial_state=state, **pack)
    bounds = {"cu_seqlens": torch.tensor([0, 1, 2, 3]), "return_state": True}
    after = linear_attention(x, x, x, key_times=torch.tensor([[30, 3, 9]]), initial_state=state, **bounds)
    assert after.state.as_of == (30, 3, 9)


def test_reads_alone_say_when_they_are():
    state = read(return_state=True).state
    none = X[:, :, :0]
    options = {"visible_counts": torch.zeros(2, 1, dtype=torch.int64), "initial_state": state}
    with pytest.raises(ClockError, match=r"read_times: the initial state's clock stands at \(30, 8\), and"):
        linear_attention(X[:, :, :1], none, none, **options)
    linear_attention(X[:, :, :1], none, none, read_times=torch.tensor([[31], [9]]), **options)
    options["initial_state"] = state.without_clock()
    linear_attention(X[:, :, :1], none, none, **options)


def test_a_state_of_another_entity_is_refused():
    def run(**options):
        return linear_attention(X, X, X, **options)

    state = run(entities=["AAPL", "MSFT"], return_state=True).state
    assert state.entities == ("AAPL", "MSFT")
    after = run(entities=["AAPL", "MSFT"], initial_state=state, return_state=True).state
    assert after.entities == ("AAPL", "MSFT")
    with pytest.raises(StateError, match="row 0 is that of 'AAPL', but the call continues 'MSFT'"):
        run(entities=["MSFT", "AAPL"], initial_state=state)
    with pytest.raises(StateError, match="does not say whose history it continues; pass entities"):
        run(initial_state=state)
    with pytest.raises(StateError, match=r"expected 2 names, .* got 1: \('AAPL',\)"):
        run(entities="AAPL")
    for names in (["AAPL", 3], 1, None, b"ab", {"A": 1, "B": 2}, {"A", "B"}):
        with pytest.raises(StateError, match="entities: expected 2 names, one for each row"):
            run(return_state=True).state.of(names)
        if names is not None:
            with pytest.raises(StateError, match="entities: expected 2 names, one for each row"):
                run(entities=names)
    plain = run(return_state=True).state
    assert plain.of(["A", "B"]).entities == ("A", "B")
    assert run(entities=["A", "B"], initial_state=plain, return_state=True).state.entities == ("A", "B")
    with pytest.raises(StateError, match="the state is that of"):
        state.of(["A", "B"])
    assert state.detach().entities == state.entities
