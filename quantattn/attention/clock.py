"""Real time: which keys a read may see, how much has decayed, and clocks that run backwards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from quantattn.errors import ClockError, ShapeError

_UNSET = torch.iinfo(torch.int64).min


def visible_before(
    key_times: Tensor, read_times: Tensor, *, key_mask: Tensor | None = None, inclusive: bool = False
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
    key_times = _times(key_times, "key_times")
    read_times = _times(read_times, "read_times")
    if read_times.shape[0] != key_times.shape[0]:
        raise ShapeError(
            f"read_times: batch is {read_times.shape[0]}, key_times has {key_times.shape[0]}; "
            "give one row of reads for each row of keys."
        )
    ordered = _sorted_times(key_times, key_mask)
    return torch.searchsorted(ordered, read_times.contiguous(), right=inclusive)


def elapsed_decay(
    times: Tensor, half_life: float | Sequence[float] | Tensor, since: Tensor | None = None
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
    since : Tensor, optional
        Int64 of the same shape and unit, nowhere later: where the time of each begins. The instant before in
        the same row where not given, as it is for keys; for a read, that of the last key that it sees.

    Returns
    -------
    Tensor
        ``(B, H, length)`` float64, at most zero; ``H`` is one where there is one half-life.

    Raises
    ------
    ShapeError
        For a wrong dtype or shape.
    ClockError
        If time runs backwards, or a half-life is not positive.

    Examples
    --------
    >>> import torch
    >>> from quantattn.attention import elapsed_decay
    >>> times = torch.tensor([[0, 10, 30]])
    >>> elapsed_decay(times, 10.0).exp()
    tensor([[[1.0000, 0.5000, 0.2500]]], dtype=torch.float64)
    """
    times = _times(times, "times")
    since = torch.cat([times[:, :1], times[:, :-1]], -1) if since is None else _times(since, "since")
    if times.shape != since.shape:
        raise ShapeError(
            f"since: expected the shape of times {tuple(times.shape)}, got {tuple(since.shape)}."
        )
    lives = torch.as_tensor(half_life, dtype=torch.float64, device=times.device).reshape(-1, 1)
    if not bool((lives > 0).all()):
        raise ClockError(f"half_life: expected positive numbers, got {half_life}; infinity does not decay.")
    # Differences of int64 are exact; nanoseconds since 1970 are not in float64.
    elapsed = times - since
    if bool((elapsed < 0).any()):
        batch, row = (elapsed < 0).nonzero()[0].tolist()
        raise ClockError(
            f"times: {int(times[batch, row])} at batch {batch}, position {row} lies before its reference, "
            f"{int(since[batch, row])}; sort by time."
        )
    return -math.log(2) * (elapsed[:, None].double() / lives)


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
    start = _as_of(as_of, batch, key.device)
    latest = start[:, None]
    if key_times is not None:
        key_times = _times(key_times, "key_times", (batch, key.shape[2])).to(key.device)
        ordered = _sorted_times(key_times, mask)
        _refuse_before_state(key_times, mask, start)
        latest = torch.cat([latest, ordered.maximum(latest)], -1)
    if read_times is not None:
        read_times = _times(read_times, "read_times", (batch, query.shape[2])).to(key.device)
        strict = counts is not None or visibility == "strict"
        if key_times is None:
            seen = latest.expand(batch, query.shape[2])
        elif counts is not None:
            seen = latest.gather(-1, counts)
        else:
            seen = latest[:, 1:] if visibility == "inclusive" else latest[:, :-1]
        early = (read_times <= seen if strict else read_times < seen) & (seen != _UNSET)
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
    return None if any(time == _UNSET for time in final) else tuple(final)


def _times(times: Tensor, name: str, shape: tuple[int, int] | None = None) -> Tensor:
    if not isinstance(times, Tensor) or times.dtype != torch.int64:
        kind = times.dtype if isinstance(times, Tensor) else type(times).__name__
        raise ShapeError(f"{name}: expected an int64 tensor of instants, got {kind}.")
    if times.dim() != 2 or (shape is not None and tuple(times.shape) != shape):
        raise ShapeError(f"{name}: expected shape {shape or '(B, length)'}, got {tuple(times.shape)}.")
    return times


def _as_of(as_of: int | tuple[int, ...] | None, batch: int, device: torch.device) -> Tensor:
    if as_of is None:
        return torch.full((batch,), _UNSET, device=device)
    if isinstance(as_of, tuple):
        return torch.tensor(as_of, dtype=torch.int64, device=device)
    return torch.full((batch,), as_of, dtype=torch.int64, device=device)


def _sorted_times(times: Tensor, mask: Tensor | None) -> Tensor:
    """Return the running clock of the keys that count, which must never go back."""
    known = times if mask is None else torch.where(mask, times, _UNSET)
    if known.shape[-1] == 0:
        return known
    ordered = known.cummax(-1).values
    back = known < ordered
    if mask is not None:
        back &= mask
    if bool(back.any()):
        batch, row = back.nonzero()[0].tolist()
        raise ClockError(
            f"key_times: {int(times[batch, row])} at batch {batch}, position {row} comes after "
            f"{int(ordered[batch, row])} ({int(back.sum())} such in all); sort keys by time."
        )
    return ordered


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
