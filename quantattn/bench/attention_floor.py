"""How fast a training step could be at best: by its operations, and by the bytes that it must move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from quantattn.bench.timing import Ratio, Timing, over_floor

COPY = "copy of the same bytes"
MATMUL = "matrix product"
_SIDE = 1024

OPERATIONS = 7
"""Updates and reads of an ``(r, d_v)`` state that a token and head need at least, a multiply-add an entry.

Forwards the key is written and the query reads. Backwards the states are needed again for the gradient of the
query (write, read), and a second state, run from the end, gives those of key and value (write, read, read).
"""

ABOUT_FLOOR = (
    "operations: 7 updates and reads of the state for each token and head, forward and backward together, "
    "at the rate of a float32 matrix product of side 1024. copy: inputs and the gradient of the output "
    "read once, output and gradients written once into fresh memory. Both from the fastest call. A step "
    "cannot be faster than the slower of the two. What auto does beyond: an eighth update, since the "
    "state run from the end is kept in both layouts; the exponentials of elu + 1; the denominators; "
    "reading the inputs three times, because nothing but inputs and outputs is kept; and states that pass "
    "through the nearest cache every few tokens, where a matrix product keeps its sums in registers."
)
"""What the floors are, and why a step is off."""


@dataclass(frozen=True)
class Floor:
    """What a step needs at least, measured beside it.

    Attributes
    ----------
    multiply_adds : int
        Of a forward and a backward pass.
    matmul_gflop_per_second : float
        Highest rate of a large float32 matrix product with the same threads, two operations a multiply-add.
    operations_milliseconds : float
        Time of the multiply-adds at that rate.
    copy_milliseconds : float
        Least time to read inputs and the output's gradient once, and to write as much into fresh memory.
    times_operations, times_copy : Ratio
        Time of ``"auto"`` over either; one is the floor.
    """

    multiply_adds: int
    matmul_gflop_per_second: float
    operations_milliseconds: float
    copy_milliseconds: float
    times_operations: Ratio
    times_copy: Ratio


def count_multiply_adds(shape: Sequence[int]) -> int:
    """Return the multiply-adds of a step on ``(B, H, T, d)``, features and values as wide as the queries."""
    batch, heads, length, width = shape
    return OPERATIONS * batch * heads * length * width * width


def copy_step(shape: Sequence[int]) -> Callable[[], object]:
    """Return a call that reads what a step is given, and writes as much as a step returns."""
    given = [torch.randn(*shape) for _ in range(4)]  # query, key, value, gradient of the output
    return lambda: [x.clone() for x in given]  # output, gradients of query, key and value


def matmul_step() -> Callable[[], object]:
    """Return a call that multiplies two matrices into a third that is there already."""
    first, second, product = (torch.randn(_SIDE, _SIDE) for _ in range(3))
    return lambda: torch.mm(first, second, out=product)


def floor_of(shape: Sequence[int], found: Mapping[str, Timing], step: str) -> Floor:
    """Return the floor of a step from timings that hold it, :data:`COPY` and :data:`MATMUL`."""
    operations, matmul, copy = count_multiply_adds(shape), found[MATMUL], found[COPY].least_milliseconds
    least = operations / _SIDE**3 * matmul.least_milliseconds
    rate = 2 * _SIDE**3 / matmul.least_milliseconds / 1e6
    return Floor(operations, rate, least, copy, over_floor(found[step], least), over_floor(found[step], copy))
