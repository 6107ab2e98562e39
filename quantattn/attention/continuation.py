"""A state with a clock goes on in time: keys and reads say when they are, and the time up to them decays."""

from __future__ import annotations

import torch
from torch import Tensor

from quantattn.attention.instants import UNSET, clock_tensor
from quantattn.attention.state import AttentionState
from quantattn.attention.state_fields import few
from quantattn.errors import ClockError


def check_continuation(
    state: AttentionState,
    *,
    keys: int,
    reads: int,
    key_times: Tensor | None,
    read_times: Tensor | None,
    log_decay: Tensor | None,
    mask: Tensor | None,
) -> None:
    """Refuse a call that does not say when it is, and decay that leaves out the time since the state's clock.

    Parameters
    ----------
    state : AttentionState
        The state that the call continues.
    keys, reads : int
        Number of keys and of reads in each row.
    key_times, read_times : Tensor or None
        ``(B, keys)`` and ``(B, reads)`` int64.
    log_decay : Tensor or None
        ``(B, H, keys)``.
    mask : Tensor or None
        ``(B, keys)`` bool, True where the key counts.

    Raises
    ------
    ClockError
        If the state has a clock and the keys have no times, or no key counts and the reads have none; or the
        keys have, time decays, and the first key that counts lies after the clock with a decay of exactly
        zero in every head: that of a history that begins with it.
    """
    if state.as_of is None:
        return
    stands = few(state.as_of) if isinstance(state.as_of, tuple) else state.as_of
    if keys == 0 or (mask is not None and not bool(mask.any())):
        if reads and read_times is None and key_times is None:
            raise ClockError(
                f"read_times: the initial state's clock stands at {stands}, and the call does not say when "
                "its reads are; pass read_times=..., or drop the clock with initial_state.without_clock()."
            )
        return
    if key_times is None:
        raise ClockError(
            f"key_times: the initial state's clock stands at {stands}, and the call does not say when its "
            "keys are; pass key_times=..., or drop the clock with initial_state.without_clock()."
        )
    if log_decay is None:
        return
    first, counts = _first(key_times, mask)
    clocks = clock_tensor(state.as_of, key_times.shape[0], key_times.device)
    at = key_times.gather(-1, first[:, None])[:, 0]
    place = torch.arange(keys, device=first.device)
    still = torch.where((place <= first[:, None])[:, None], log_decay.detach(), 0.0) == 0
    forgotten = counts & (clocks != UNSET) & (at > clocks) & still.flatten(1).all(-1)
    if state.pending is not None:  # time that has been told already, of keys that did not count
        forgotten &= (state.pending == 0).all(-1)
    if bool(forgotten.any()):
        row = int(forgotten.nonzero()[0])
        raise ClockError(
            f"log_decay: nothing decays between the initial state's clock, {int(clocks[row])}, and the first "
            f"key of batch {row}, at {int(at[row])}; pass "
            "elapsed_decay(key_times, half_life, since=initial_state)."
        )


def _first(key_times: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the place of the first key that counts in each row, and whether there is one."""
    if mask is None:
        nowhere = torch.zeros(key_times.shape[0], dtype=torch.int64, device=key_times.device)
        return nowhere, torch.ones_like(nowhere, dtype=torch.bool)
    return mask.int().argmax(-1), mask.any(-1)
