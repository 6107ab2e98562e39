"""Elapsed time of pieces, packs and masked rows: none of it is lost where a history is cut."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch

from quantattn.attention import (
    AttentionState,
    Denominator,
    elapsed_decay,
    linear_attention,
    visible_before,
)
from quantattn.attention.continuation import check_continuation
from quantattn.errors import ClockError, ShapeError

PRIOR = Denominator.prior(1.0, 0.5)
TIMES = torch.tensor([[0, 3, 3, 10, 40, 41], [5, 6, 20, 21, 22, 60]])
MASK = torch.tensor([[True, False, True, True, True, False], [True, True, False, False, True, True]])
X = torch.rand(2, 2, 6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
LIVES = [7.0, 30.0]


def piece(low, high, state, *, mask=None, since=True):
    times = TIMES[:, low:high]
    part = None if mask is None else mask[:, low:high]
    x = X[:, :, low:high]
    return linear_attention(
        x,
        x,
        x,
        log_decay=elapsed_decay(times, LIVES, state if since else None, key_mask=part),
        key_times=times,
        key_mask=part,
        initial_state=state,
        return_state=True,
        denominator=PRIOR,
    )


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("cuts", [[0, 1, 6], [0, 3, 6], [0, 2, 4, 5, 6], list(range(7))])
def test_a_stream_in_pieces_forgets_no_gap(cuts, mask):
    whole = piece(0, 6, None, mask=mask)
    outputs, state = [], None
    for low, high in itertools.pairwise(cuts):
        result = piece(low, high, state, mask=mask)
        outputs.append(result.output)
        state = result.state
    output = torch.cat(outputs, 2)
    seen = torch.ones_like(TIMES, dtype=torch.bool) if mask is None else mask
    keep = seen[:, None, :, None].expand_as(output)
    torch.testing.assert_close(output[keep], whole.output[keep], rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(state.S, whole.state.S, rtol=1e-13, atol=1e-13)
    assert state.as_of == whole.state.as_of


def test_without_the_state_the_gap_is_forgotten():
    """Positive control of the test above, on the decay alone."""
    state = piece(0, 4, None).state
    right = elapsed_decay(TIMES[:, 4:], LIVES, since=state)
    wrong = elapsed_decay(TIMES[:, 4:], LIVES)
    assert right[0, 0, 0].item() == pytest.approx(-math.log(2) * 30 / 7)
    assert right[1, 1, 0].item() == pytest.approx(-math.log(2) * 1 / 30)
    assert (wrong[:, :, 0] == 0).all()
    assert torch.equal(right[:, :, 1:], wrong[:, :, 1:])
    assert torch.equal(right, elapsed_decay(TIMES, LIVES)[:, :, 4:])


def test_where_times_begin():
    times = torch.tensor([[10, 20], [30, 50]])
    state = piece(0, 1, None).state.without_clock().at([4, 26])
    one = math.log(2) / 8.0

    def elapsed(**options):
        return (elapsed_decay(times, 8.0, **options) / -one)[:, 0].tolist()

    assert elapsed(since=state) == [[6, 10], [4, 20]]
    assert elapsed(since=state.without_clock().at(9)) == [[1, 10], [21, 20]]
    # Reads: all of them since the clock.
    assert elapsed(since=state.clocks) == [[6, 16], [4, 24]]
    assert elapsed(since=torch.tensor([[4, 15], [29, 29]])) == [[6, 5], [1, 21]]
    assert elapsed(since=4) == [[6, 16], [26, 46]]
    with pytest.raises(ClockError, match="10 at batch 0, position 0 lies before its reference, 12"):
        elapsed(since=state.at([12, 26]))
    with pytest.raises(ClockError, match="the state has no clock"):
        elapsed(since=state.without_clock())
    with pytest.raises(ShapeError, match="since: the state has 1 rows for 2 sequences"):
        elapsed(since=state.row(0))
    # Nothing decays in a row that has seen no event, so it needs no clock; one that has does.
    fresh = dataclasses.replace(state, as_of=(4, None), count=torch.tensor([1, 0]))
    assert elapsed(since=fresh) == [[6, 10], [0, 20]]
    with pytest.raises(ClockError, match=r"the state has no clock in row 1; pass key_times"):
        elapsed(since=dataclasses.replace(fresh, count=state.count))
    with pytest.raises(ClockError, match=r"the state has no clock in row 1"):
        _ = fresh.clocks
    with pytest.raises(ClockError, match=r"since: expected whole numbers of int64 .*, got 2\.5"):
        elapsed(since=2.5)
    with pytest.raises(ShapeError, match="since: expected a state, one instant or an int64 tensor"):
        elapsed(since=[4, 26])
    for life in ("long", None, [], [[1.0, 2.0], [3.0, 4.0]], torch.ones(2, 2), True, torch.tensor(1j), {}):
        with pytest.raises(
            ClockError, match="half_life: expected positive numbers, one for all heads or one"
        ):
            elapsed_decay(times, life)
    assert torch.equal(elapsed_decay(times, torch.tensor([8.0])), elapsed_decay(times, 8))
    assert elapsed_decay(times, 0.1)[0, 0, 1].item() == pytest.approx(-math.log(2) * 100, rel=1e-15)


def test_masked_times_are_not_read():
    mask = torch.tensor([[False, True, False, True, False]])
    times = torch.tensor([[-99, 10, 9999, 30, 0]])
    found = elapsed_decay(times, math.log(2), key_mask=mask)
    assert (-found[0, 0]).tolist() == [0, 0, 0, 20, 0]
    assert (-elapsed_decay(times, math.log(2), 5, key_mask=mask)[0, 0]).tolist() == [0, 5, 0, 25, 0]
    with pytest.raises(ClockError, match="30 at batch 0, position 3 lies before its reference, 31"):
        elapsed_decay(torch.tensor([[0, 31, 0, 30, 0]]), 1.0, key_mask=mask)
    for bad in (mask.int(), mask[:, :3], [True]):
        with pytest.raises(ShapeError, match=r"key_mask: expected a bool tensor \(1, 5\)"):
            elapsed_decay(times, 1.0, key_mask=bad)
        with pytest.raises(ShapeError, match=r"key_mask: expected a bool tensor \(1, 5\)"):
            visible_before(times, times, key_mask=bad)


KEYS = torch.tensor([[10, 20, 5, 6, 7]])  # two sequences, and an empty one between them
READS = torch.tensor([[10, 25, 99, 7, 8]])
BOUNDS, READ_BOUNDS = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 2, 3, 5])


def test_packed_times():
    decay = -elapsed_decay(KEYS, math.log(2), cu_seqlens=BOUNDS)[0, 0]
    assert decay.tolist() == pytest.approx([0, 10, 0, 1, 1], rel=1e-14)
    with pytest.raises(ClockError, match="5 at batch 0, position 2 lies before its reference, 20"):
        elapsed_decay(KEYS, 1.0)
    x = torch.rand(3, 1, 1, 3)
    state = linear_attention(x, x, x, return_state=True).state.at([8, 0, 1])
    decay = -elapsed_decay(KEYS, math.log(2), since=state, cu_seqlens=BOUNDS)[0, 0]
    assert decay.tolist() == pytest.approx([2, 10, 4, 1, 1], rel=1e-14)
    reads = -elapsed_decay(READS, math.log(2), since=state.clocks, cu_seqlens=READ_BOUNDS)[0, 0]
    assert reads.tolist() == pytest.approx([2, 17, 99, 6, 7], rel=1e-14)
    mask = torch.tensor([[True, False, False, True, True]])
    decay = -elapsed_decay(KEYS, math.log(2), since=state, key_mask=mask, cu_seqlens=BOUNDS)[0, 0]
    assert decay.tolist() == pytest.approx([2, 0, 0, 5, 1], rel=1e-14)
    with pytest.raises(ShapeError, match="since: the state has 2 rows for 3 sequences"):
        two = AttentionState.stack([state.row(0), state.row(1)])
        elapsed_decay(KEYS, 1.0, since=two, cu_seqlens=BOUNDS)
    with pytest.raises(ShapeError, match=r"cu_seqlens: expected bounds that rise from 0 to the length 5"):
        elapsed_decay(KEYS, 1.0, cu_seqlens=torch.tensor([0, 4]))
    with pytest.raises(ShapeError, match="cu_seqlens: goes with a batch of one, got 2"):
        elapsed_decay(KEYS.repeat(2, 1), 1.0, cu_seqlens=BOUNDS)


def test_packed_visibility():
    packed = {"cu_seqlens": BOUNDS, "query_cu_seqlens": READ_BOUNDS}
    assert visible_before(KEYS, READS, **packed).tolist() == [[0, 2, 0, 2, 3]]
    assert visible_before(KEYS, READS, inclusive=True, **packed).tolist() == [[1, 2, 0, 3, 3]]
    mask = torch.tensor([[True, True, True, False, True]])
    spoilt = torch.tensor([[10, 20, 5, 999, 7]])
    masked = visible_before(spoilt, READS, key_mask=mask, **packed)
    assert masked.tolist()[0][:3] == [0, 2, 0] and masked[0, 4] == 3
    with pytest.raises(ShapeError, match="give both"):
        visible_before(KEYS, READS, cu_seqlens=BOUNDS)
    with pytest.raises(ShapeError, match="query_cu_seqlens: has 1 sequences, cu_seqlens has 3"):
        visible_before(KEYS, READS, cu_seqlens=BOUNDS, query_cu_seqlens=torch.tensor([0, 5]))
    # The counts are those that a packed read takes.
    x, query = torch.rand(1, 1, 5, 3), torch.rand(1, 1, 5, 3)
    counts = visible_before(KEYS, READS, **packed)
    read = linear_attention(
        query, x, x, visible_counts=counts, denominator=PRIOR, key_times=KEYS, read_times=READS, **packed
    )
    alone = linear_attention(
        query[:, :, 3:], x[:, :, 2:], x[:, :, 2:], visible_counts=counts[:, 3:], denominator=PRIOR
    )
    torch.testing.assert_close(read.output[:, :, 3:], alone.output)


STATE = piece(0, 4, None).state
SILENT = {"reads": 2, "read_times": None}
LATER = {"keys": 2, "key_times": TIMES[:, 4:], "mask": None, **SILENT}


def test_a_continued_clock_goes_on():
    right = elapsed_decay(TIMES[:, 4:], LIVES, since=STATE)
    wrong = elapsed_decay(TIMES[:, 4:], LIVES)
    check_continuation(STATE, **LATER, log_decay=right)
    check_continuation(STATE, **LATER, log_decay=None)
    message = (
        r"between the initial state's clock, 10, and the first key of batch 0, at 40; pass elapsed_decay\("
    )
    with pytest.raises(ClockError, match=message):
        check_continuation(STATE, **LATER, log_decay=wrong)
    one = torch.zeros(1, 1, 1, dtype=torch.float64)  # a single event: nothing but zeros
    first = {"keys": 1, "key_times": TIMES[:, 4:5], "mask": None, **SILENT}
    with pytest.raises(ClockError, match=message):
        check_continuation(STATE, **first, log_decay=one)
    # One head without decay, and an event at the instant of the clock, are no mistake.
    check_continuation(STATE, **LATER, log_decay=elapsed_decay(TIMES[:, 4:], [math.inf, 7.0], since=STATE))
    check_continuation(STATE.at([40, 22]), **LATER, log_decay=wrong)
    with pytest.raises(ClockError, match="of batch 1, at 22"):
        check_continuation(STATE.at([40, 21]), **LATER, log_decay=wrong)


def test_masked_keys_before_the_first_that_counts():
    mask = torch.tensor([[False, True], [True, True]])
    passing = torch.tensor([[[-1.0, 0.0]], [[-1.0, 0.0]]])
    given = {"keys": 2, "key_times": TIMES[:, 4:], "mask": mask, **SILENT}
    check_continuation(STATE, **given, log_decay=passing)
    with pytest.raises(ClockError, match="first key of batch 0, at 41"):
        check_continuation(STATE, **given, log_decay=passing * torch.tensor([[[0.0]], [[1.0]]]))
    none = {**given, "mask": torch.zeros_like(mask)}
    check_continuation(STATE, **none, log_decay=torch.zeros(2, 1, 2))
    # Time that was told already, of masked keys at the end of the piece before.
    told = dataclasses.replace(STATE, pending=torch.full((2, 2), -0.5, dtype=torch.float64))
    check_continuation(told, **given, log_decay=torch.zeros(2, 1, 2))


def test_a_clock_is_not_left_behind():
    silent = {"key_times": None, "log_decay": None, "mask": None, **SILENT}
    with pytest.raises(
        ClockError, match=r"clock stands at \(10, 21\), and .* drop the clock with .*without_clock"
    ):
        check_continuation(STATE, keys=2, **silent)
    check_continuation(STATE, keys=0, **{**silent, "reads": 0})
    check_continuation(STATE.without_clock(), keys=2, **silent)
    # Of reads alone, too.
    none = {**silent, "mask": torch.zeros(2, 2, dtype=torch.bool)}
    for keys, options in ((0, silent), (2, none)):
        with pytest.raises(ClockError, match=r"read_times: the initial state's clock stands at \(10, 21\)"):
            check_continuation(STATE, keys=keys, **options)
        check_continuation(STATE, keys=keys, **{**options, "read_times": TIMES[:, 4:]})
    # A row without a clock is at no time yet: its first key follows nothing.
    half = dataclasses.replace(STATE, as_of=(40, None))
    check_continuation(half, **LATER, log_decay=torch.zeros(2, 1, 2))
    with pytest.raises(ClockError, match=r"clock stands at \(40, None\)"):
        check_continuation(half, keys=2, **silent)
