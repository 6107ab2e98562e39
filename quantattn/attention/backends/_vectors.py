"""Vectors of one register as values of compiled code, and the arithmetic on them.

Sixteen float32 or eight float64 numbers: one AVX-512 register, two of AVX2, four of NEON. Compiled code that
says which lanes it adds in which order gives the same bits whatever stands beside it; left to a loop
vectoriser, the order would depend on the length of the loop and on what the compiler thinks of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

VECTOR_BYTES = 64

ir: Any = vars(cgutils)["ir"]
"""LLVM's own types, by way of numba, whose version of them fits."""


def compiled(function: Any) -> Any:
    """Mark a function as compiled code; it is compiled where an entry calls it."""
    return cast(Any, numba.njit(nogil=True, error_model="numpy")(function))


def built_in(function: Any) -> Any:
    """Mark a function as one that emits the code of a call to it."""
    return cast(Any, intrinsic(function))


class VectorType(types.Type):
    """Type of a vector of floats in compiled code."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"Vector({element})")

    @property
    def lanes(self) -> int:
        """Return the numbers in a vector."""
        return VECTOR_BYTES // cast(int, self.element.bitwidth // 8)

    @property
    def intrinsic_suffix(self) -> str:
        """Return how LLVM's intrinsics on this type end."""
        return f"v{self.lanes}f{self.element.bitwidth}"


def vector_ir(element: Any) -> Any:
    """Return the LLVM type of a vector."""
    kind = ir.FloatType() if element == types.float32 else ir.DoubleType()
    return ir.VectorType(kind, VectorType(element).lanes)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, vector_ir(kind.element))  # type: ignore[no-untyped-call]


def call_intrinsic(builder: Any, name: str, kind: VectorType, *operands: Any) -> Any:
    """Emit a call to LLVM's intrinsic `name` on vectors of one type."""
    lower = vector_ir(kind.element)
    signature = ir.FunctionType(lower, [lower] * len(operands))
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.{name}.{kind.intrinsic_suffix}"
    )
    return builder.call(function, operands)


def spread_scalar(builder: Any, scalar: Any, lower: Any) -> Any:
    """Emit a vector with `scalar` in every lane."""
    undefined = ir.Constant(lower, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), lower.count), [0] * lower.count)
    return builder.shuffle_vector(first, undefined, lanes)


def vector_pointer(builder: Any, base: Any, at: Any, lower: Any) -> Any:
    """Emit the pointer to the vector that starts at element `at`."""
    return builder.bitcast(builder.gep(base, [at]), lower.as_pointer())


@built_in
def pointer(typing: Any, address: Any, like: Any) -> Any:
    """Return an address as a pointer to numbers of `like`'s type.

    Compiled code counts the users of an array each time that it hands one on, and counters that threads share
    are slow; a pointer is but a number. It does not keep its memory.
    """

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.inttoptr(operands[0], context.get_value_type(types.CPointer(like)))

    return types.CPointer(like)(address, like), code


@built_in
def beyond(typing: Any, base: Any, at: Any) -> Any:
    """Return a pointer to the element `at` places behind another."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.gep(operands[0], [operands[1]])

    return base(base, types.intp), code


@built_in
def bytes_of(typing: Any, base: Any) -> Any:
    """Return a pointer as one to bytes."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return builder.bitcast(operands[0], context.get_value_type(types.CPointer(types.uint8)))

    return types.CPointer(types.uint8)(base), code


@built_in
def as_element(typing: Any, base: Any, scalar: Any) -> Any:
    """Return a float64 scalar in the dtype that a pointer points to."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return context.cast(builder, operands[1], types.float64, base.dtype)

    return base.dtype(base, types.float64), code


@built_in
def lanes_of(typing: Any, array: Any) -> Any:
    """Return how many elements behind a pointer make a vector: a constant in compiled code."""
    kind = VectorType(array.dtype)

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return context.get_constant(types.intp, kind.lanes)

    return types.intp(array), code


@built_in
def load(typing: Any, array: Any, at: Any) -> Any:
    """Return the vector that starts at element `at` behind a pointer."""
    kind = VectorType(array.dtype)

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        pointer = vector_pointer(builder, operands[0], operands[1], vector_ir(kind.element))
        return builder.load(pointer, align=kind.element.bitwidth // 8)

    return kind(array, types.intp), code


@built_in
def store(typing: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write a vector from element `at` behind a pointer on."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        pointer = vector_pointer(builder, operands[0], operands[1], vector_ir(vector.element))
        builder.store(operands[2], pointer, align=vector.element.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), code


def _prefetch(writing: int) -> Any:
    """Make the intrinsic that asks for the cache line of an element, to read it or to write it."""

    def prefetch(typing: Any, base: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            place = builder.bitcast(builder.gep(operands[0], [operands[1]]), byte)
            builder.call(function, [place, *(ir.Constant(whole, x) for x in (writing, 3, 1))])
            return context.get_dummy_value()

        return types.void(base, types.intp), code

    return built_in(prefetch)


prefetch_read, prefetch_write = _prefetch(0), _prefetch(1)


@built_in
def spread(typing: Any, scalar: Any) -> Any:
    """Return a vector with the scalar in every lane."""
    kind = VectorType(scalar)

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return spread_scalar(builder, operands[0], vector_ir(kind.element))

    return kind(scalar), code


@built_in
def number(typing: Any, like: Any, scalar: Any) -> Any:
    """Return a vector of the type of `like` with the float64 scalar, rounded, in every lane."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        scalar = context.cast(builder, operands[1], types.float64, like.element)
        return spread_scalar(builder, scalar, vector_ir(like.element))

    return like(like, types.float64), code


def _elementwise(emit: Callable[[Any, VectorType, Any], Any], count: int) -> Any:
    """Make the intrinsic that `emit` writes, for `count` vectors of one type."""

    def code_for(kind: VectorType) -> Any:
        def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            return emit(builder, kind, operands)

        return kind(*[kind] * count), code

    def unary(typing: Any, a: Any) -> Any:
        return code_for(a)

    def binary(typing: Any, a: Any, b: Any) -> Any:
        return code_for(a)

    def ternary(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return code_for(a)

    return built_in((unary, binary, ternary)[count - 1])


def _named(name: str, count: int) -> Any:
    return _elementwise(lambda builder, kind, operands: call_intrinsic(builder, name, kind, *operands), count)


add = _elementwise(lambda builder, kind, operands: builder.fadd(*operands), 2)
subtract = _elementwise(lambda builder, kind, operands: builder.fsub(*operands), 2)
multiply = _elementwise(lambda builder, kind, operands: builder.fmul(*operands), 2)
divide = _elementwise(lambda builder, kind, operands: builder.fdiv(*operands), 2)
fma = _named("fma", 3)
"""``a * b + c``, rounded once."""
least = _elementwise(
    lambda builder, kind, operands: builder.select(builder.fcmp_ordered("<", *operands), *operands), 2
)
"""The lesser of two numbers; of a NaN and a number, the second operand."""
most = _elementwise(
    lambda builder, kind, operands: builder.select(builder.fcmp_ordered(">", *operands), *operands), 2
)
"""The greater of two numbers; of a NaN and a number, the second operand."""


def _power_of_two(builder: Any, kind: VectorType, operands: Any) -> Any:
    wide = kind.element.bitwidth
    mantissa, bias = (23, 127) if wide == 32 else (52, 1023)
    whole = ir.VectorType(ir.IntType(wide), kind.lanes)

    def constant(number: int) -> Any:
        return ir.Constant(whole, [number] * kind.lanes)

    exponent = builder.add(builder.fptosi(operands[0], whole), constant(bias))
    return builder.bitcast(builder.shl(exponent, constant(mantissa)), vector_ir(kind.element))


power_of_two = _elementwise(_power_of_two, 1)
"""``2 ** x`` of whole numbers within the range of exponents."""
nearest = _named("rint", 1)


@built_in
def total(typing: Any, vector: Any) -> Any:
    """Return the sum of the lanes: halves onto halves, always in the same order."""

    def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        value, lanes = operands[0], vector.lanes
        index = ir.IntType(32)
        while lanes > 1:
            lanes //= 2
            halves = [
                builder.shuffle_vector(
                    value,
                    ir.Constant(value.type, ir.Undefined),
                    ir.Constant(ir.VectorType(index, lanes), list(range(start, start + lanes))),
                )
                for start in (0, lanes)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(index, 0))

    return vector.element(vector), code
