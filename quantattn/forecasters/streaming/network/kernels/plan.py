"""What lies where: the numbers that compiled steps find at the addresses that they are given.

A plan belongs to a stream, a header to an entity; both are int64 arrays. Widths inside the kernels are
counted in vectors of 16 float32, and rows are padded to whole vectors with zeros.
"""

from __future__ import annotations

LANES = 16
"""Numbers of a float32 vector."""

# --- a plan -------------------------------------------------------------------------------------------------

EVENTS, QUERIES, WIDTH, HEADS, LAYERS, INNER, OUTPUTS = range(7)
"""The sizes of the network, in numbers."""
IS_SOFTMAX = 7
WEIGHTS = 8
"""Address of the packed weights."""
RATES = 9
"""Address of the half-lives of a nanosecond's day, float64 per head, padded to whole vectors of 8."""
ROOM = 10
"""Address of work space for one row, of steps that keep other threads waiting."""
HEADER = 11
"""Address of the header of a single write or read; written by the step itself."""
TIME = 12
"""When the event of a single write became available; written by the step itself."""
NOTES = 13
"""Two numbers that a single write or read leaves: the bad reads, and the token's place in its sequence."""
PLAN_SIZE = 16

# --- a header -----------------------------------------------------------------------------------------------

LAST_EVENT = 0
"""When the last event became available; meaningless before the first."""
COUNT = 1
"""Tokens written, the start token too."""
LEAST_WRITTEN = 2
"""Bits of a float64: the least denominator that a write met."""
LEAST_READ = 3
"""Bits of a float64: the least denominator that a read met."""
STATE = 4
"""Address of the state, or of the cached keys."""
VALUES = 5
"""Address of the cached values."""
CLOCK = 6
"""Address of the clock of the cache, in half-lives."""
CAPACITY = 7
"""Tokens that the cache has room for, a multiple of 16."""
LOGITS = 8
"""Address of work space for the logits of one read."""
ASKED = 9
"""Tokens that room was asked for, up to which a single write does not ask again; at most the capacity."""
HEADER_SIZE = 16

OUT_OF_ORDER = -1
"""Status of a step that was refused by the clock."""
FULL = -2
"""Status of a write that the cache has no room for."""

ROWS = 16
"""Tokens that share each row of weights; their work space stays in the nearest cache."""


def vectors(numbers: int) -> int:
    """Give how many vectors hold so many numbers."""
    return -(-numbers // LANES)


def room_for_a_row(width: int, inner: int, outputs: int, heads: int) -> int:
    """Give the float32 numbers of work space that one row of a step needs."""
    # hidden, normed, key, value, query, read, mixed; inner; head and direct; decay, denominators, half-lives.
    return LANES * (7 * vectors(width) + vectors(inner) + 2 * vectors(outputs) + 4 * vectors(heads))
