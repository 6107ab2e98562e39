"""The one loop in which the time goes: a few steps of a recurrence on a strip of the state.

A step writes ``state[i] = g * state[i] + a[i] * b`` and reads ``out = sum_i r[i] * state[i]``, where a row
of the state is as wide as `b`. A panel takes a few steps at once through one strip of columns: every row of
the strip is loaded and stored once for all of them, and the steps' sums stay in registers. Each number goes
through the same roundings in the same order as in a plain loop over steps, so that neither the number of
steps in a panel nor the width of a strip can be seen in the result.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types

from quantattn.attention.backends._vectors import (
    VectorType,
    built_in,
    call_intrinsic,
    compiled,
    ir,
    lanes_of,
    spread_scalar,
    vector_ir,
    vector_pointer,
)

WRITE_READ = 0
"""A step decays the state, writes, then reads."""
READ_WRITE = 1
"""A step reads, then decays the state and writes."""
WRITE = 2
"""A step decays the state, then writes."""
READ = 3
"""A step reads, then decays the state."""


def _panel(steps: int, strips: int, order: int, decays: bool) -> Any:
    """Make the panel of `steps` steps on a strip `strips` vectors wide."""
    writes, reads = order != READ, order != WRITE

    def signature_and_code(
        typing: Any,
        state: Any,
        column: Any,
        ldm: Any,
        rows: Any,
        a: Any,
        b: Any,
        r: Any,
        g: Any,
        out: Any,
        first: Any,
        ld: Any,
    ) -> Any:
        kind = VectorType(state.dtype)
        lower = vector_ir(kind.element)
        bytes_ = kind.element.bitwidth // 8

        def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            base = {
                name: operands[at]
                for name, at in (("state", 0), ("a", 4), ("b", 5), ("r", 6), ("g", 7), ("out", 8))
            }
            column, ldm, rows, first, ld = (operands[at] for at in (1, 2, 3, 9, 10))
            index = column.type

            def number(value: int) -> Any:
                return ir.Constant(index, value)

            starts = [builder.mul(builder.add(first, number(step)), ld) for step in range(steps)]

            def vector(name: str, at: Any) -> Any:
                return vector_pointer(builder, base[name], at, lower)

            def scalar(name: str, at: Any) -> Any:
                return spread_scalar(builder, builder.load(builder.gep(base[name], [at])), lower)

            strip = [builder.add(column, number(s * kind.lanes)) for s in range(strips)]
            written = [
                [builder.load(vector("b", builder.add(start, at)), align=bytes_) for at in strip]
                for start in (starts if writes else [])
            ]
            factors = [
                scalar("g", builder.add(first, number(step))) for step in range(steps if decays else 0)
            ]
            zero = ir.Constant(lower, [0.0] * kind.lanes)
            sums = [
                [cgutils.alloca_once_value(builder, zero) for _ in strip]
                for _ in range(steps if reads else 0)
            ]
            with cgutils.for_range(builder, rows, intp=index) as loop:
                row = builder.mul(loop.index, ldm)
                places = [vector("state", builder.add(row, at)) for at in strip]
                current = [builder.load(place, align=bytes_) for place in places]
                for step in range(steps):
                    at = builder.add(starts[step], loop.index)

                    def read(at: Any, step: int, current: Any) -> None:
                        weight = scalar("r", at)
                        for s in range(strips):
                            so_far = builder.load(sums[step][s])
                            builder.store(
                                call_intrinsic(builder, "fma", kind, weight, current[s], so_far),
                                sums[step][s],
                            )

                    if order in (READ_WRITE, READ):
                        read(at, step, current)
                    if decays:
                        current = [builder.fmul(factors[step], x) for x in current]
                    if writes:
                        weight = scalar("a", at)
                        current = [
                            call_intrinsic(builder, "fma", kind, weight, written[step][s], current[s])
                            for s in range(strips)
                        ]
                    if order == WRITE_READ:
                        read(at, step, current)
                if writes or decays:
                    for s in range(strips):
                        builder.store(current[s], places[s], align=bytes_)
            for step in range(steps if reads else 0):
                for s in range(strips):
                    place = vector("out", builder.add(starts[step], strip[s]))
                    builder.store(builder.load(sums[step][s]), place, align=bytes_)
            return context.get_dummy_value()

        kinds = (state, *[types.intp] * 3, a, b, r, g, out, *[types.intp] * 2)
        return types.void(*kinds), code

    return built_in(signature_and_code)


_STEPS = 4


def _scan(order: int, decays: bool) -> Any:
    """Make the function that takes any number of steps through a whole state."""
    wide, narrow = _panel(_STEPS, 2, order, decays), _panel(_STEPS, 1, order, decays)
    wide_step, narrow_step = _panel(1, 2, order, decays), _panel(1, 1, order, decays)

    def scan(
        state: Any,
        ldm: int,
        rows: int,
        column: int,
        width: int,
        a: Any,
        b: Any,
        r: Any,
        g: Any,
        out: Any,
        first: int,
        steps: int,
        ld: int,
    ) -> None:
        lanes = lanes_of(state)
        last = first + steps
        while column < width:
            step = first
            if column + lanes < width:
                while step + _STEPS <= last:
                    wide(state, column, ldm, rows, a, b, r, g, out, step, ld)
                    step += _STEPS
                while step < last:
                    wide_step(state, column, ldm, rows, a, b, r, g, out, step, ld)
                    step += 1
                column += 2 * lanes
            else:
                while step + _STEPS <= last:
                    narrow(state, column, ldm, rows, a, b, r, g, out, step, ld)
                    step += _STEPS
                while step < last:
                    narrow_step(state, column, ldm, rows, a, b, r, g, out, step, ld)
                    step += 1
                column += lanes

    # Stored programs are linked by name: functions of one name would stand for each other.
    scan.__name__ = scan.__qualname__ = f"scan_{order}_{int(decays)}"
    return compiled(scan)


_written_read, _written_read_decayed = _scan(WRITE_READ, False), _scan(WRITE_READ, True)
_read_written, _read_written_decayed = _scan(READ_WRITE, False), _scan(READ_WRITE, True)
_written, _written_decayed = _scan(WRITE, False), _scan(WRITE, True)
_read, _read_decayed = _scan(READ, False), _scan(READ, True)


@compiled
def scan(
    order: int,
    decays: bool,
    state: Any,
    ldm: int,
    rows: int,
    column: int,
    width: int,
    a: Any,
    b: Any,
    r: Any,
    g: Any,
    out: Any,
    first: int,
    steps: int,
    ld: int,
) -> None:
    """Take `steps` steps, from row `first` on, through columns of a state.

    Parameters
    ----------
    order : int
        What a step does, and in which order: one of the constants of this module.
    decays : bool
        Whether the state is multiplied by `g`.
    state : ndarray
        Flat; row i begins at ``i * ldm``.
    ldm, rows : int
        Distance between rows of the state, and their number.
    column, width : int
        Columns from `column` up to, but not including, `width`; both multiples of the lanes of a vector.
    a, b, r, g, out : ndarray
        Flat; step t finds its row at ``t * ld``, and its factor at ``g[t]``. A step does not touch what its
        order does not need.
    first, steps, ld : int
        First step, number of steps, distance between their rows.
    """
    if order == WRITE_READ:
        if decays:
            _written_read_decayed(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
        else:
            _written_read(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
    elif order == READ_WRITE:
        if decays:
            _read_written_decayed(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
        else:
            _read_written(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
    elif order == WRITE:
        if decays:
            _written_decayed(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
        else:
            _written(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
    elif decays:
        _read_decayed(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
    else:
        _read(state, ldm, rows, column, width, a, b, r, g, out, first, steps, ld)
