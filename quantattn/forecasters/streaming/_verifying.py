"""Whether the part of a log that a stream has behind it is what the stream has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import polars as pl

from quantattn.errors import StateError
from quantattn.forecasters.streaming.events._tables import keys_of
from quantattn.forecasters.streaming.events.event import MARKET
from quantattn.forecasters.streaming.events.late import Ledger
from quantattn.forecasters.streaming.information._book_frames import MARKET as WIDE
from quantattn.forecasters.streaming.information._book_frames import NOBODY
from quantattn.forecasters.streaming.information._chains import Chains
from quantattn.forecasters.streaming.information.live import LiveInformation
from quantattn.pit.dataset._visible import entity_codes
from quantattn.pit.dataset.hashing import event_words
from quantattn.pit.timestamps import iso, nanoseconds_of


def refuse_another_log(
    passed: pl.DataFrame, features: Sequence[str], ledger: Ledger, information: LiveInformation
) -> None:
    """Refuse a log whose beginning, which is to be passed over, is not what was written.

    An entity of which it has as many events as were written must have the same ones, by their hash. Where it
    has fewer it begins later, and each of them must be among the ids that are remembered, with its time.

    Parameters
    ----------
    passed : polars.DataFrame
        The events to pass over, in canonical order, with the columns of an event log; of sequences in scope.
    features : sequence of str
        Its feature columns.
    ledger : Ledger
        What was written.
    information : LiveInformation
        What every entity has seen.

    Raises
    ------
    StateError
        Naming the entity, the event and the remedy.
    """
    if passed.is_empty():
        return
    names = passed["entity"].drop_nulls().unique(maintain_order=True).to_list()
    codes = entity_codes(passed["entity"], names, len(names), NOBODY).astype(np.int64)
    own = np.bincount(codes, minlength=len(names) + 1)
    wide = int(own[-1])
    seen_wide = information.n_visible(MARKET)
    seen = np.array([information.n_visible(name) - seen_wide for name in names] + [seen_wide], np.int64)
    same = own == seen
    compared = same & same[-1]
    slots: list[str | None] = [*names, None]
    known = _Passed(passed, slots, codes, ledger)
    for slot in np.flatnonzero(own > seen).tolist():
        known.refuse(slot, f"{own[slot]} where {seen[slot]} were written")
    if compared.any():
        chains = Chains()
        marks = np.where(codes == len(names), WIDE, codes).astype(np.int32)
        words = event_words(passed, features)
        chains.see_rows(names, marks, nanoseconds_of(passed["available_at"]), words)
        for slot in [len(names), *np.flatnonzero(compared[:-1]).tolist()]:
            name = slots[slot] or MARKET
            found, written = chains.name(name), information.info_hash(name)
            if found != written:
                known.refuse(
                    slot,
                    f"{wide if name == MARKET else own[slot] + wide}, as many as it has seen, but their hash "
                    f"is {found} and not {written}: a content, a time or an id differs",
                )
    rest = np.flatnonzero(~compared[codes])
    if rest.size:
        row = known.first_unknown(rest)
        if row is not None:
            slot = int(codes[row])
            known.refuse(slot, f"{own[slot]} where {seen[slot]} were written", row)


class _Passed:
    """The events that are to be passed over, and what is known of each."""

    def __init__(
        self, frame: pl.DataFrame, slots: Sequence[str | None], codes: np.ndarray, ledger: Ledger
    ) -> None:
        self._frame, self._slots, self._codes, self._ledger = frame, slots, codes, ledger

    def first_unknown(self, rows: np.ndarray, *, surely: bool = False) -> int | None:
        """Give the first of some rows that is not remembered with its key, and cannot be forgotten either."""
        for row, key in zip(rows.tolist(), keys_of(self._frame[rows]), strict=True):
            written = self._ledger.key_of(*key[2:])
            if written != key and not (surely and written is None and self._ledger.forgot(key)):
                return int(row)
        return None

    def refuse(self, slot: int, counts: str, row: int | None = None) -> NoReturn:
        """Refuse the events of an entity, or of the market."""
        rows = np.flatnonzero(self._codes == slot)
        if row is None:
            row = self.first_unknown(rows, surely=True)
        ((available, _, event_id, revision),) = keys_of(self._frame[[int(rows[-1]) if row is None else row]])
        entity = self._slots[slot]
        whose = "the market" if entity is None else f"entity {entity!r}"
        here = f"event {event_id!r} revision {revision} available at {iso(available)}"
        written = self._ledger.key_of(event_id, revision)
        if row is None:
            told = f"the last of them is {here}"
        elif written is None:
            told = f"{here} is none of the {self._ledger.remember} that are remembered"
        else:
            told = f"{here} was written as of {iso(written[0])}, happened at {iso(written[1])}"
        raise StateError(
            f"the log is not what the forecaster has written up to where it is: of {whose} the log has "
            f"{counts}; {told}; replay the whole log that was written, late events as they were re-dated "
            "(redated() gives it), and with a larger remember one that begins later; update() takes an event "
            "that was left out"
        )
