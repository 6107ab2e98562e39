"""Rows times a matrix, each row by itself: the same bits wherever it stands and however many come with it.

A matrix product of a library picks its order of additions by the number of rows, so that a history in pieces
would get other features than in one piece.
"""

from __future__ import annotations

from typing import Any

from quantattn.attention.backends._vectors import (
    as_element,
    compiled,
    fma,
    lanes_of,
    load,
    pointer,
    spread,
    store,
)


@compiled
def project_rows(
    first: int,
    last: int,
    like: Any,
    width: int,
    columns: int,
    groups: int,
    rows: int,
    x: int,
    weight: int,
    out: int,
) -> None:
    """Multiply rows `first` to `last` of `x` with the matrix of their group.

    Parameters
    ----------
    first, last : int
        Rows, counted through all groups.
    like : float
        Its type is that of the numbers.
    width : int
        Columns of `x`.
    columns : int
        Columns of `weight` and `out`: whole vectors, at least four of them.
    groups, rows : int
        A group is `rows` rows; group g takes matrix ``g % groups``.
    x, weight, out : int
        Addresses of ``(n, width)``, ``(groups, width, columns)`` and ``(n, columns)``.
    """
    source, matrix, target = pointer(x, like), pointer(weight, like), pointer(out, like)
    lanes = lanes_of(source)
    zero = spread(as_element(source, 0.0))
    for row in range(first, last):
        begin = row * width
        base = (row // rows) % groups * width * columns
        for column in range(0, columns, 4 * lanes):
            one, two, three, four = zero, zero, zero, zero
            at = base + column
            for k in range(width):
                factor = spread(source[begin + k])
                one = fma(factor, load(matrix, at), one)
                two = fma(factor, load(matrix, at + lanes), two)
                three = fma(factor, load(matrix, at + 2 * lanes), three)
                four = fma(factor, load(matrix, at + 3 * lanes), four)
                at += columns
            to = row * columns + column
            store(target, to, one)
            store(target, to + lanes, two)
            store(target, to + 2 * lanes, three)
            store(target, to + 3 * lanes, four)
