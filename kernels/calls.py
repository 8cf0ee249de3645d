"""Calling C functions by their addresses from compiled code that is cached on disk.

Numba can call ctypes functions too, but then compiles anew in every process.
"""

from __future__ import annotations

import ctypes

from numba import types
from numba.core.cgutils import ir

from cfagg.kernels.jit import intrinsic

__all__ = ["call", "load_int32"]


def _call_plain(address, *given):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(int(address))(*map(int, given))


@intrinsic(_call_plain)
def call(_typing, _address, _first, _second, _third, _fourth, _fifth, _sixth, _seventh):
    """Call the function at an address with up to seven integers; of an ``int`` result only the lower half is valid."""

    def codegen(_context, builder, _signature, args):
        word = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word] * 7).as_pointer())
        return builder.call(function, args[1:])

    return types.int64(*[types.int64] * 8), codegen


@intrinsic(lambda address: ctypes.c_int32.from_address(int(address)).value)
def load_int32(_typing, _address):
    """Return the integer of 32 bits at an address."""

    def codegen(_context, builder, _signature, args):
        return builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))

    return types.int32(types.int64), codegen
