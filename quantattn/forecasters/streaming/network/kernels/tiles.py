"""Products with a matrix: a tile of rows by columns stays in registers while the inputs are added."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types

from quantattn.attention.backends._vectors import (
    VectorType,
    beyond,
    built_in,
    call_intrinsic,
    compiled,
    ir,
    spread_scalar,
    vector_ir,
    vector_pointer,
)
from quantattn.forecasters.streaming.network.kernels.plan import LANES


def _tile(rows: int, strips: int) -> Any:
    """Make the product of `rows` rows with a panel `strips` vectors wide.

    A panel is its bias and then its rows. Each number of the result is its bias and then one fused
    multiply-add for each input, in order, so that the size of the tile leaves no trace in it.
    """

    def signature_and_code(
        typing: Any, panel: Any, x: Any, x_step: Any, n: Any, out: Any, out_step: Any
    ) -> Any:
        kind = VectorType(types.float32)
        lower = vector_ir(types.float32)

        def code(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
            panel, x, x_step, n, out, out_step = operands
            index = n.type

            def number(value: int) -> Any:
                return ir.Constant(index, value)

            def vector(base: Any, at: Any) -> Any:
                return vector_pointer(builder, base, at, lower)

            biases = [builder.load(vector(panel, number(s * LANES)), align=4) for s in range(strips)]
            sums = [[cgutils.alloca_once_value(builder, bias) for bias in biases] for _ in range(rows)]
            inputs = [builder.gep(x, [builder.mul(x_step, number(row))]) for row in range(rows)]
            weights = builder.gep(panel, [number(strips * LANES)])
            with cgutils.for_range(builder, n, intp=index) as loop:
                start = builder.mul(loop.index, number(strips * LANES))
                line = [
                    builder.load(vector(weights, builder.add(start, number(s * LANES))), align=4)
                    for s in range(strips)
                ]
                for row in range(rows):
                    factor = spread_scalar(
                        builder, builder.load(builder.gep(inputs[row], [loop.index])), lower
                    )
                    for s in range(strips):
                        so_far = builder.load(sums[row][s])
                        builder.store(
                            call_intrinsic(builder, "fma", kind, factor, line[s], so_far), sums[row][s]
                        )
            for row in range(rows):
                start = builder.mul(out_step, number(row))
                for s in range(strips):
                    place = vector(out, builder.add(start, number(s * LANES)))
                    builder.store(builder.load(sums[row][s]), place, align=4)
            return context.get_dummy_value()

        pointer = types.CPointer(types.float32)
        return types.void(pointer, pointer, types.intp, types.intp, pointer, types.intp), code

    return built_in(signature_and_code)


def _panel(strips: int) -> Any:
    """Make the product of any number of rows with a panel; its result is the size of the panel."""
    four, one = _tile(4, strips), _tile(1, strips)

    def panel(weights: Any, x: Any, x_step: int, n: int, out: Any, out_step: int, rows: int) -> int:
        row = 0
        while row + 4 <= rows:
            four(weights, beyond(x, row * x_step), x_step, n, beyond(out, row * out_step), out_step)
            row += 4
        while row < rows:
            one(weights, beyond(x, row * x_step), x_step, n, beyond(out, row * out_step), out_step)
            row += 1
        return (n + 1) * strips * LANES

    # Compiled code is linked by name, also that from the cache of another process: one name, one function.
    panel.__name__ = panel.__qualname__ = f"panel_of_{strips}"
    return compiled(panel)


_four, _two, _one = _panel(4), _panel(2), _panel(1)


def panel_widths(vectors: int) -> list[int]:
    """Give the widths of a matrix's panels in vectors, in their order in memory."""
    return [4] * (vectors // 4) + [2] * (vectors % 4 // 2) + [1] * (vectors % 2)


@compiled
def affine(
    weights: Any, at: int, x: Any, x_step: int, n: int, vectors: int, out: Any, out_step: int, rows: int
) -> int:
    """Write ``x @ W + b`` of `rows` rows to `out`; give the offset behind the matrix."""
    column = 0
    while column + 4 <= vectors:
        at += _four(beyond(weights, at), x, x_step, n, beyond(out, column * LANES), out_step, rows)
        column += 4
    if column + 2 <= vectors:
        at += _two(beyond(weights, at), x, x_step, n, beyond(out, column * LANES), out_step, rows)
        column += 2
    if column < vectors:
        at += _one(beyond(weights, at), x, x_step, n, beyond(out, column * LANES), out_step, rows)
    return at
