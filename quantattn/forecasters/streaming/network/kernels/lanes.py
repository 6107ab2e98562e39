"""Vector operations that the steps need beyond those of the fused attention."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types

from quantattn.attention.backends._vectors import (
    VectorType,
    built_in,
    ir,
    spread_scalar,
    vector_ir,
    vector_pointer,
)


def _constant(bits: int, numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(bits), len(numbers)), numbers)


@built_in
def from_lane(typing: Any, a: Any, b: Any, lane: Any) -> Any:
    """Return `a` before a lane and `b` from there on; a lane outside of the vector is no error."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        whole = ir.VectorType(ir.IntType(64), a.lanes)
        start = spread_scalar(builder, operands[2], whole)
        later = builder.icmp_signed(">=", _constant(64, list(range(a.lanes))), start)
        return builder.select(later, operands[1], operands[0])

    return a(a, a, types.intp), code


@built_in
def where_greater(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where `a` is greater than `b`, and `no` where it is not or one is NaN."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", operands[0], operands[1]), operands[2], operands[3])

    return a(a, a, a, a), code


@built_in
def highest(typing: Any, vector: Any) -> Any:
    """Return the greatest of the lanes; NaN is passed over."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        value, lanes = operands[0], vector.lanes
        while lanes > 1:
            lanes //= 2
            low, high = (
                builder.shuffle_vector(
                    value,
                    ir.Constant(value.type, ir.Undefined),
                    _constant(32, list(range(start, start + lanes))),
                )
                for start in (0, lanes)
            )
            # A lane that is NaN loses against any number.
            better = builder.or_(
                builder.fcmp_ordered(">", low, high), builder.fcmp_unordered("uno", high, high)
            )
            value = builder.select(better, low, high)
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return vector.element(vector), code


@built_in
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` of scalars, rounded once."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        kind = operands[0].type
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.f{a.bitwidth}"
        )
        return builder.call(function, operands)

    return a(a, a, a), code


@built_in
def aged(typing: Any, clock: Any, at: Any, now: Any, factor: Any) -> Any:
    """Return ``factor * (clock - now)`` of 16 numbers behind a float64 pointer as a float32 vector."""
    kind = VectorType(types.float32)

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        wide = ir.VectorType(ir.DoubleType(), kind.lanes)
        then = builder.load(vector_pointer(builder, operands[0], operands[1], wide), align=8)
        gone = builder.fsub(then, spread_scalar(builder, operands[2], wide))
        scaled = builder.fmul(gone, spread_scalar(builder, operands[3], wide))
        return builder.fptrunc(scaled, vector_ir(types.float32))

    return kind(clock, types.intp, types.float64, types.float64), code
