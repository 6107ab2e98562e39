"""The entries to the compiled steps: one write or read, or many that share each row of weights.

numba compiles an entry anew when its own file has changed, and does not look at the files that it calls. So
the entries close over a digest of all of them, which numba counts among what names a stored program.
"""

from __future__ import annotations

from typing import Any, cast

import numba

from quantattn.attention.backends._sources import digest_of
from quantattn.attention.backends._vectors import beyond, pointer
from quantattn.forecasters.streaming.network.kernels.plan import (
    ASKED,
    COUNT,
    EVENTS,
    FULL,
    HEADER,
    IS_SOFTMAX,
    LAST_EVENT,
    NOTES,
    OUT_OF_ORDER,
    OUTPUTS,
    QUERIES,
    ROOM,
    ROWS,
    TIME,
)
from quantattn.forecasters.streaming.network.kernels.rows import FLOAT, WHOLE, read_rows, write_rows


def _entries(digest: int) -> tuple[Any, Any, Any, Any, Any]:

    def short(function: Any) -> Any:
        """Compile a step of some microseconds, too short to let other threads run meanwhile."""
        return cast(Any, numba.njit(error_model="numpy", cache=True)(function))

    def long(function: Any) -> Any:
        """Compile a pass over many tokens; other threads run meanwhile."""
        return cast(Any, numba.njit(nogil=True, error_model="numpy", cache=True)(function))

    @short
    def write_one(plan_at: int, header_at: int, token: Any, at: int, is_start: int) -> Any:
        """Write one event.

        Parameters
        ----------
        plan_at, header_at : int
            Addresses of the plan and of the entity's header.
        token : ndarray of float32, shape (event_width,)
            The event token; ignored for the start token.
        at : int
            When the event became available.
        is_start : int
            1 for the start token, which has no time and comes first.

        Returns
        -------
        int
            The number of reads that were bad; or that nothing was written: OUT_OF_ORDER or FULL.
        """
        plan, header = pointer(plan_at, WHOLE), pointer(header_at, WHOLE)
        if header[COUNT] > 1 and at < header[LAST_EVENT]:
            return OUT_OF_ORDER
        if plan[IS_SOFTMAX] and header[COUNT] >= header[ASKED]:
            return FULL
        plan[HEADER] = header_at
        plan[TIME] = at
        notes = beyond(plan, NOTES)
        write_rows(
            plan,
            beyond(plan, HEADER),
            pointer(token.ctypes.data, FLOAT),
            beyond(plan, TIME),
            1,
            is_start != 0,
            plan[ROOM],
            notes,
        )
        return notes[0] if digest else 0

    @short
    def read_one(plan_at: int, header_at: int, token: Any, at: int, out: Any) -> Any:
        """Read the numbers of the head for one query into `out`; other parameters as for :func:`write_one`.

        Returns
        -------
        int
            The number of reads that were bad, or OUT_OF_ORDER.
        """
        plan, header = pointer(plan_at, WHOLE), pointer(header_at, WHOLE)
        if header[COUNT] > 1 and at <= header[LAST_EVENT]:
            return OUT_OF_ORDER
        plan[HEADER] = header_at
        notes = beyond(plan, NOTES)
        read_rows(
            plan,
            beyond(plan, HEADER),
            pointer(token.ctypes.data, FLOAT),
            1,
            plan[ROOM],
            pointer(out.ctypes.data, FLOAT),
            notes,
        )
        return notes[0] if digest else 0

    @long
    def write_several(
        plan_at: int, headers_at: int, tokens_at: int, times_at: int, rows: int, room: int, notes_at: int
    ) -> int:
        """Write several events in order; their clock and their room were checked.

        Parameters
        ----------
        plan_at, headers_at, tokens_at, times_at : int
            Addresses of the plan, of a header's address for each event, of tokens and of times.
        rows : int
            How many events.
        room : int
            Address of work space for plan.ROWS rows.
        notes_at : int
            Address of two int64 for each event: the number of bad reads, and the token's place.
        """
        plan = pointer(plan_at, WHOLE)
        headers, times, notes = pointer(headers_at, WHOLE), pointer(times_at, WHOLE), pointer(notes_at, WHOLE)
        tokens = pointer(tokens_at, FLOAT)
        for first in range(0, rows, ROWS):
            write_rows(
                plan,
                beyond(headers, first),
                beyond(tokens, first * plan[EVENTS]),
                beyond(times, first),
                min(ROWS, rows - first),
                False,
                room,
                beyond(notes, 2 * first),
            )
        return digest

    @long
    def read_several(
        plan_at: int, headers_at: int, tokens_at: int, rows: int, room: int, out_at: int, notes_at: int
    ) -> int:
        """Read the numbers of the head for several queries, whose clock was checked.

        Parameters are those of :func:`write_several`; `out_at` is the address of float32 (rows, outputs).
        """
        plan = pointer(plan_at, WHOLE)
        headers, notes = pointer(headers_at, WHOLE), pointer(notes_at, WHOLE)
        tokens, out = pointer(tokens_at, FLOAT), pointer(out_at, FLOAT)
        for first in range(0, rows, ROWS):
            read_rows(
                plan,
                beyond(headers, first),
                beyond(tokens, first * plan[QUERIES]),
                min(ROWS, rows - first),
                room,
                beyond(out, first * plan[OUTPUTS]),
                beyond(notes, 2 * first),
            )
        return digest

    @short
    def first_late(headers_at: int, times_at: int, rows: int, strictly: int) -> int:
        """Give the first row whose time is before its last event, or with `strictly` at it; -1 if none is."""
        headers, times = pointer(headers_at, WHOLE), pointer(times_at, WHOLE)
        for row in range(rows):
            header = pointer(headers[row], WHOLE)
            last = header[LAST_EVENT]
            if header[COUNT] > 1 and (times[row] < last or (strictly and times[row] == last)):
                return row if digest else 0
        return -1

    return write_one, read_one, write_several, read_several, first_late


write_one, read_one, write_several, read_several, first_late = _entries(digest_of(_entries))
