"""How much a history has decayed, from half-lives and real time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from quantattn.attention.instants import (
    UNSET,
    check_instants,
    check_time_mask,
    clock_tensor,
    time_parts,
    whole_instants,
)
from quantattn.attention.state import AttentionState
from quantattn.attention.state_fields import refuse_no_clock
from quantattn.errors import ClockError, ShapeError


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
    mask = check_time_mask(key_mask, times)
    parts = None if cu_seqlens is None else time_parts(cu_seqlens, "cu_seqlens", times)
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
    given = half_life
    if not isinstance(given, Tensor):
        try:
            given = torch.empty(0) if isinstance(given, bool) else torch.as_tensor(given, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            given = torch.empty(0)
    several = given.numel() >= 1 and given.dim() <= 1
    if not several or given.is_complex() or given.dtype == torch.bool or not bool((given > 0).all()):
        shape = f" of shape {tuple(given.shape)}" if given.dim() > 1 else ""
        raise ClockError(
            f"half_life: expected positive numbers, one for all heads or one for each, got {half_life!r}"
            f"{shape}; infinity does not decay."
        )
    return given.to(device, torch.float64).reshape(-1, 1)


def _clocks(state: AttentionState | None, times: Tensor, parts: list[slice] | None) -> Tensor:
    """Return where each row or sequence begins ``(rows, 1)``, unset where it begins with its first key."""
    rows = times.shape[0] if parts is None else len(parts)
    if state is None:
        return clock_tensor(None, rows, times.device)[:, None]
    if state.count.shape[0] != rows:
        raise ShapeError(
            f"since: the state has {state.count.shape[0]} rows for {rows} sequences; "
            "put one together with AttentionState.stack()."
        )
    clocks = clock_tensor(state.as_of, rows, times.device)
    # Of a row without an event, nothing is there that could decay.
    unknown = ((clocks == UNSET) & (state.count.to(times.device) > 0)).nonzero()
    if len(unknown):
        refuse_no_clock(int(unknown[0]), state.as_of)
    return clocks[:, None]


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
