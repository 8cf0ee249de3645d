"""Reversing bytes and transposing squares within the registers of the processor, which Numba cannot do itself."""

from __future__ import annotations

from numba import types
from numba.core.cgutils import ir

from cfagg.kernels.jit import intrinsic

__all__ = ["SQUARE", "reverse_bytes", "transpose_square"]

SQUARE = 8
"""Side of the squares that are transposed in registers."""


@intrinsic(lambda value: value.byteswap())
def reverse_bytes(_typing, value):
    """Reverse the bytes of an unsigned integer."""

    def codegen(_context, builder, _signature, args):
        return args[0] if value.bitwidth == 8 else builder.bswap(args[0])

    return (value(value), codegen) if isinstance(value, types.Integer) else None


def _transpose_plain(source, start, step, target, to, width):
    for k in range(SQUARE):
        for j in range(SQUARE):
            target[to + k * width + j] = source[start + j * step + k]


@intrinsic(_transpose_plain)
def transpose_square(_typing, source, _start, _step, target, _to, _width):
    """Transpose a square of `SQUARE` rows and columns within vector registers, without bounds checks.

    Row k of the contiguous source begins at ``source[start + k * step]``, that of the target at ``target[to + k *
    width]``.
    """

    def codegen(context, builder, signature, args):
        array = signature.args[0]
        vector = ir.VectorType(context.get_data_type(array.dtype), SQUARE)

        def pointers(kind, value, at, by):
            data = context.make_array(kind)(context, builder, value).data
            for _ in range(SQUARE):
                yield builder.bitcast(builder.gep(data, [at]), vector.as_pointer())
                at = builder.add(at, by)

        rows = []
        for pointer in pointers(array, args[0], args[1], args[2]):
            rows.append(builder.load(pointer))
            rows[-1].align = array.dtype.bitwidth // 8
        half = SQUARE // 2
        kind = ir.VectorType(ir.IntType(32), SQUARE)
        first, second = ([n for k in range(b, b + half) for n in (k, k + SQUARE)] for b in (0, half))
        for _ in range(SQUARE.bit_length() - 1):  # one perfect shuffle of all elements for each bit of an index
            rows = [
                builder.shuffle_vector(rows[k], rows[k + half], ir.Constant(kind, which))
                for k in range(half)
                for which in (first, second)
            ]
        for row, pointer in zip(rows, pointers(signature.args[3], args[3], args[4], args[5]), strict=True):
            builder.store(row, pointer).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    intp = types.intp
    return types.void(source, intp, intp, target, intp, intp), codegen
