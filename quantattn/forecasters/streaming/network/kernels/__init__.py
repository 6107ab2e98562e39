"""The arithmetic of the streaming path, compiled: writes and reads of one entity or of many.

Everything is float32, in an order that depends on the sizes of the network alone. Sums are sums of fused
multiply-adds, asked for by name, and a product with a matrix adds its inputs one after the other whether one
token goes through it or several share each row of weights: so a step has the same bits alone, in a sequence
and in any company (on one type of processor).

Arguments are addresses: to check and unpack arrays at each call would cost as much as the step itself.
:mod:`~quantattn.forecasters.streaming.network.kernels.plan` says what lies where.
"""

from quantattn.forecasters.streaming.network.kernels.steps import (
    first_late,
    read_one,
    read_several,
    write_one,
    write_several,
)

__all__ = ["first_late", "read_one", "read_several", "write_one", "write_several"]
