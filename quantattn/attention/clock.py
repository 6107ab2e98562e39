"""Clocks that run backwards, and reads of what was not known yet."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.instants import UNSET, AsOf, check_instants, clock_tensor, running_clock
from quantattn.errors import ClockError


def check_clocks(
    key_times: Tensor | None,
    read_times: Tensor | None,
    *,
    key: Tensor,
    query: Tensor,
    counts: Tensor | None,
    mask: Tensor | None,
    visibility: str,
    as_of: AsOf,
) -> tuple[int | None, ...] | None:
    """Refuse clocks that are unsorted or run backwards, and reads of what was not known yet.

    Reads placed by `counts` and strict reads must lie strictly after what they see; an inclusive read may
    share the instant of the key that it sees.

    Returns
    -------
    tuple or None
        Clock of the state after the last key, one for each row of the batch: None for a row without one, and
        for all where no row has one.

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
    final = tuple(None if time == UNSET else time for time in latest[:, -1].tolist())
    return final if any(time is not None for time in final) else None


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
