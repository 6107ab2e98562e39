"""Real time: which keys a read may see, how much has decayed, and clocks that run backwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from quantattn.attention.instants import (
    UNSET,
    check_instants,
    clock_tensor,
    running_clock,
    whole_instants,
)
from quantattn.attention.ragged import sequence_bounds
from quantattn.attention.state import AttentionState
from quantattn.errors import ClockError, ShapeError


def visible_before(
    key_times: Tensor,
    read_times: Tensor,
    *,
    key_mask: Tensor | None = None,
    inclusive: bool = False,
    cu_seqlens: Tensor | None = None,
    query_cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Count the keys that each read sees by time: those strictly earlier.

    Keys of one instant are all seen or none is, so their order among themselves is without effect.

    Parameters
    ----------
    key_times : Tensor
        ``(B, T)`` int64, sorted, in any unit (nanoseconds since 1970 in this package).
    read_times : Tensor
        ``(B, Tq)`` int64 in the same unit, in any order.
    key_mask : Tensor, optional
        ``(B, T)`` bool, True where the key counts; the times of masked keys are not read.
    inclusive : bool, default False
        Whether a key of the same instant is seen.
    cu_seqlens, query_cu_seqlens : Tensor, optional
        ``(N + 1,)`` integers each: N sequences of keys, and of reads, lie end to end in a batch of one, as
        for :func:`~quantattn.attention.linear_attention`. A read counts keys of its own sequence alone.

    Returns
    -------
    Tensor
        ``(B, Tq)`` int64, for ``visible_counts``.

    Raises
    ------
    ShapeError
        For a wrong dtype or shape.
    ClockError
        If the times of keys are not sorted.

    Examples
    --------
    >>> import torch
    >>> from quantattn.attention import visible_before
    >>> visible_before(torch.tensor([[10, 20, 20, 30]]), torch.tensor([[20, 21, 5]]))
    tensor([[1, 3, 0]])
    """
    key_times = check_instants(key_times, "key_times")
    read_times = check_instants(read_times, "read_times")
    if read_times.shape[0] != key_times.shape[0]:
        raise ShapeError(
            f"read_times: batch is {read_times.shape[0]}, key_times has {key_times.shape[0]}; "
            "give one row of reads for each row of keys."
        )
    mask = _checked_mask(key_mask, key_times)
    if cu_seqlens is None and query_cu_seqlens is None:
        ordered = running_clock(key_times, mask)
        return torch.searchsorted(ordered, read_times.contiguous(), right=inclusive)
    if cu_seqlens is None or query_cu_seqlens is None:
        raise ShapeError("cu_seqlens: is needed for the keys and query_cu_seqlens for the reads; give both.")
    keys = _parts(cu_seqlens, "cu_seqlens", key_times)
    reads = _parts(query_cu_seqlens, "query_cu_seqlens", read_times)
    if len(keys) != len(reads):
        raise ShapeError(
            f"query_cu_seqlens: has {len(reads)} sequences, cu_seqlens has {len(keys)}; "
            "repeat a bound for a sequence without reads."
        )
    counts = [
        visible_before(
            key_times[:, part],
            read_times[:, read],
            key_mask=None if mask is None else mask[:, part],
            inclusive=inclusive,
        )
        for part, read in zip(keys, reads, strict=True)
    ]
    return torch.cat(counts, -1)


def elapsed_decay(
    times: Tensor,
    half_life: float | Sequence[float] | Tensor,
    since: int | Tensor | AttentionState | None = None,
    *,
    key_mask: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
) -> Tensor:
    """Return the log decay over the time up to each of `times`.

    Parameters
    ----------
    times : Tensor
        ``(B, length)`` int64 instants in one unit: of the keys for ``log_decay``, of the reads for
        ``read_log_decay``.
    half_life : float, sequence of floats or Tensor
        Time in the same unit after which a weight has halved, positive; one for all heads or one for each.
        Infinity does not decay.
    since : AttentionState, int or Tensor, optional
        Where the time of each begins. Of keys, it is the key before in the same row where nothing is given,
        and the first takes no time; where they continue a state, give **the state**, so that the time between
        its clock and the first key passes too. Of reads, it is the last key that each sees: an int64 tensor
        of the shape of `times`, or of ``(B, 1)`` such as :attr:`AttentionState.clocks`, nowhere later.
    key_mask : Tensor, optional
        ``(B, length)`` bool, True where the key counts. Times of the others are not read, and what passed
        up to them passes at the next key that counts. Give the mask that
        :func:`~quantattn.attention.linear_attention` gets: the clock of a state stands at its last key that
        counts.
    cu_seqlens : Tensor, optional
        ``(N + 1,)`` integers: N sequences lie end to end in a batch of one, and each begins anew, or at its
        row of a state or of a tensor ``(N, 1)``.

    Returns
    -------
    Tensor
        ``(B, H, length)`` float64, at most zero; ``H`` is one where there is one half-life.

    Raises
    ------
    ShapeError
        For a wrong dtype or shape.
    ClockError
        If time runs backwards, a half-life is not positive, or the state has no clock.

    Examples
    --------
    >>> import torch
    >>> from quantattn.attention import Denominator, elapsed_decay, linear_attention
    >>> times = torch.tensor([[0, 10, 30]])
    >>> elapsed_decay(times, 10.0).exp()
    tensor([[[1.0000, 0.5000, 0.2500]]], dtype=torch.float64)

    A stream, in pieces. The state is None at first, and brings the clock from then on:

    >>> policy = {"denominator": Denominator.prior(1.0, 0.0)}
    >>> x = torch.ones(1, 1, 3, 2)
    >>> state = None
    >>> for piece in (slice(0, 2), slice(2, 3)):
    ...     key = x[:, :, piece]
    ...     decay = elapsed_decay(times[:, piece], 10.0, since=state)
    ...     state = linear_attention(
    ...         key,
    ...         key,
    ...         key,
    ...         log_decay=decay,
    ...         key_times=times[:, piece],
    ...         initial_state=state,
    ...         return_state=True,
    ...         **policy,
    ...     ).state
    >>> decay.exp()  # from 10 to 30
    tensor([[[0.2500]]], dtype=torch.float64)

    Forecasts from that state, all of them since its last event:

    >>> read_times = torch.tensor([[40, 50]])
    >>> elapsed_decay(read_times, 10.0, since=state.clocks).exp()
    tensor([[[0.5000, 0.2500]]], dtype=torch.float64)
    """
    times = check_instants(times, "times")
    mask = _checked_mask(key_mask, times)
    parts = None if cu_seqlens is None else _parts(cu_seqlens, "cu_seqlens", times)
    if since is None or isinstance(since, AttentionState):
        begins = _since_the_one_before(times, _clocks(since, times, parts), mask, parts)
    else:
        begins = _since_instants(since, times, parts)
    if mask is not None:
        begins = torch.where(mask, begins, times)
    lives = _half_lives(half_life, times.device)
    # Differences of int64 are exact; nanoseconds since 1970 are not in float64.
    elapsed = times - begins
    if bool((elapsed < 0).any()):
        batch, row = (elapsed < 0).nonzero()[0].tolist()
        raise ClockError(
            f"times: {int(times[batch, row])} at batch {batch}, position {row} lies before its reference, "
            f"{int(begins[batch, row])}; sort by time."
        )
    return -math.log(2) * (elapsed[:, None].double() / lives)


def _half_lives(half_life: float | Sequence[float] | Tensor, device: torch.device) -> Tensor:
    try:
        lives = torch.as_tensor(half_life, dtype=torch.float64, device=device).reshape(-1, 1)
    except (TypeError, ValueError, RuntimeError):
        lives = torch.full((1, 1), math.nan)
    if not bool((lives > 0).all()):
        raise ClockError(f"half_life: expected positive numbers, got {half_life}; infinity does not decay.")
    return lives


def _clocks(state: AttentionState | None, times: Tensor, parts: list[slice] | None) -> Tensor:
    """Return where each row or sequence begins ``(rows, 1)``, unset where it begins with its first key."""
    rows = times.shape[0] if parts is None else len(parts)
    if state is None:
        return clock_tensor(None, rows, times.device)[:, None]
    clocks = state.clocks.to(times.device)
    if clocks.shape[0] != rows:
        raise ShapeError(
            f"since: the state has {clocks.shape[0]} rows for {rows} sequences; "
            "put one together with AttentionState.stack()."
        )
    return clocks


def _since_the_one_before(
    times: Tensor, clocks: Tensor, mask: Tensor | None, parts: list[slice] | None
) -> Tensor:
    if parts is not None:
        begins = [
            _since_the_one_before(
                times[:, part], clocks[n : n + 1], None if mask is None else mask[:, part], None
            )
            for n, part in enumerate(parts)
        ]
        return torch.cat(begins, -1)
    line = torch.cat([clocks, times if mask is None else torch.where(mask, times, UNSET)], -1)
    before = (line if mask is None else line.cummax(-1).values)[:, :-1]
    return torch.where(before == UNSET, times, before)


def _since_instants(since: int | Tensor, times: Tensor, parts: list[slice] | None) -> Tensor:
    if not isinstance(since, Tensor):
        whole = whole_instants(since, "since")
        if not isinstance(whole, int):
            raise ShapeError(
                "since: expected a state, one instant or an int64 tensor; give torch.tensor(...)."
            )
        return torch.full_like(times, whole)
    begins = check_instants(since, "since").to(times.device)
    if parts is not None and begins.shape == (len(parts), 1) and len(parts) > 1:
        lengths = torch.tensor([part.stop - part.start for part in parts], device=times.device)
        return begins[:, 0].repeat_interleave(lengths)[None]
    if begins.shape not in (times.shape, (times.shape[0], 1)):
        raise ShapeError(
            f"since: expected the shape of times {tuple(times.shape)}, got {tuple(begins.shape)}."
        )
    return begins.expand(times.shape)


def _parts(bounds: Tensor, name: str, times: Tensor) -> list[slice]:
    """Return where the sequences of a pack lie."""
    if times.shape[0] != 1:
        raise ShapeError(f"{name}: goes with a batch of one, got {times.shape[0]}; lay rows end to end.")
    return [
        slice(low, high) for low, high in itertools.pairwise(sequence_bounds(bounds, name, times.shape[1]))
    ]


def _checked_mask(mask: Tensor | None, times: Tensor) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != times.shape:
        kind = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ShapeError(
            f"key_mask: expected a bool tensor {tuple(times.shape)}, True where the key counts, got {kind}."
        )
    return mask.to(times.device)


def check_clocks(
    key_times: Tensor | None,
    read_times: Tensor | None,
    *,
    key: Tensor,
    query: Tensor,
    counts: Tensor | None,
    mask: Tensor | None,
    visibility: str,
    as_of: int | tuple[int, ...] | None,
) -> tuple[int, ...] | None:
    """Refuse clocks that are unsorted or run backwards, and reads of what was not known yet.

    Reads placed by `counts` and strict reads must lie strictly after what they see; an inclusive read may
    share the instant of the key that it sees.

    Returns
    -------
    tuple of int or None
        Clock of the state after the last key, one for each row of the batch; None where no time is known.

    Raises
    ------
    ShapeError
        For a wrong dtype or shape.
    ClockError
        Quoting the first offending times.
    """
    batch = key.shape[0]
    start = clock_tensor(as_of, batch, key.device)
    latest = start[:, None]
    if key_times is not None:
        key_times = check_instants(key_times, "key_times", (batch, key.shape[2])).to(key.device)
        ordered = running_clock(key_times, mask)
        _refuse_before_state(key_times, mask, start)
        latest = torch.cat([latest, ordered.maximum(latest)], -1)
    if read_times is not None:
        read_times = check_instants(read_times, "read_times", (batch, query.shape[2])).to(key.device)
        strict = counts is not None or visibility == "strict"
        if key_times is None:
            seen = latest.expand(batch, query.shape[2])
        elif counts is not None:
            seen = latest.gather(-1, counts)
        else:
            seen = latest[:, 1:] if visibility == "inclusive" else latest[:, :-1]
        early = (read_times <= seen if strict else read_times < seen) & (seen != UNSET)
        if bool(early.any()):
            row, read = early.nonzero()[0].tolist()
            raise ClockError(
                f"read_times: {int(read_times[row, read])} at batch {row}, query {read} "
                f"({int(early.sum())} such in all) is not after what the read sees, of "
                f"{int(seen[row, read])}; a read at that time must see fewer keys, or an earlier state."
            )
    if key_times is None and as_of is None:
        return None
    final = [int(time) for time in latest[:, -1]]
    return None if any(time == UNSET for time in final) else tuple(final)


def _refuse_before_state(times: Tensor, mask: Tensor | None, start: Tensor) -> None:
    early = times < start[:, None]
    if mask is not None:
        early &= mask
    if bool(early.any()):
        batch, row = early.nonzero()[0].tolist()
        raise ClockError(
            f"initial_state: its clock is {int(start[batch])}, later than key {row} of batch {batch} at "
            f"{int(times[batch, row])}; a state is continued with later keys only. "
            "Rebuild it from the events before that time."
        )
