"""Zstd with a single call of numcodecs' library, with states and memory that every thread reuses.

numcodecs creates a new state for every stream, which takes three times as long as decompressing a chunk of 1 KiB, and
new memory, which the system has to provide and clear.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.runtime.direct import aligned

__all__ = ["addresses", "compress", "decompress"]

#: Results above this are error codes (zstd.h, ZSTD_isError).
_ERRORS = 2**64 - 120


#: The number of the level parameter (zstd.h, ZSTD_c_compressionLevel).
_LEVEL = 100


class _State:
    """The library's decompression state of one thread."""

    made: int | None = None

    def __init__(self) -> None:
        from numcodecs import zstd

        try:
            library = ctypes.CDLL(zstd.__file__)
            create, self._free, self.run = library.ZSTD_createDCtx, library.ZSTD_freeDCtx, library.ZSTD_decompressDCtx
        except (AttributeError, OSError):  # numcodecs was built in another way
            return
        create.restype, create.argtypes = ctypes.c_void_p, []
        self._free.restype, self._free.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.run.restype, self.run.argtypes = ctypes.c_uint64, [pointer, pointer, size, pointer, size]
        self.made = create()

    def __del__(self) -> None:
        if self.made is not None:
            self._free(self.made)


class _Packer:
    """The library's compression state of one thread, and its output memory."""

    made: int | None = None
    held: npt.NDArray[np.uint8] | None = None

    def __init__(self) -> None:
        from numcodecs import zstd

        try:
            library = ctypes.CDLL(zstd.__file__)
            create, self._free, self.bound = library.ZSTD_createCCtx, library.ZSTD_freeCCtx, library.ZSTD_compressBound
            self.set, self.run = library.ZSTD_CCtx_setParameter, library.ZSTD_compress2
        except (AttributeError, OSError):  # numcodecs was built in another way
            return
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        create.restype, create.argtypes = pointer, []
        self._free.restype, self._free.argtypes = size, [pointer]
        self.bound.restype, self.bound.argtypes = size, [size]
        self.set.restype, self.set.argtypes = ctypes.c_uint64, [pointer, ctypes.c_int, ctypes.c_int]
        self.run.restype, self.run.argtypes = ctypes.c_uint64, [pointer, pointer, size, pointer, size]
        self.made = create()

    def __del__(self) -> None:
        if self.made is not None:
            self._free(self.made)


_kept = threading.local()


def _own() -> _State:
    """Return the state of this thread."""
    state: _State | None = getattr(_kept, "state", None)
    if state is None:
        state = _kept.state = _State()
    return state


def addresses() -> tuple[int, int] | None:
    """Return the addresses of the decompression function and of this thread's state, or `None` if not available."""
    state = _own()
    if state.made is None:
        return None
    return ctypes.cast(state.run, ctypes.c_void_p).value or 0, state.made


def decompress(stored: Any, out: npt.NDArray[np.uint8]) -> int | None:
    """Decompress all frames into `out` and return the number of bytes, or `None` if that fails or is not available."""
    state = _own()
    if state.made is None:
        return None
    source = stored if type(stored) is bytes else np.frombuffer(stored, np.uint8).ctypes.data
    found: int = state.run(state.made, out.ctypes.data, out.size, source, len(stored))
    return None if found > _ERRORS else found


def compress(data: npt.NDArray[Any], level: int) -> memoryview | None:
    """Return numcodecs' frame of a C-contiguous array, in memory that the next call of this thread reuses."""
    # `None` if that is not available.
    packer: _Packer | None = getattr(_kept, "packer", None)
    if packer is None:
        packer = _kept.packer = _Packer()
    if packer.made is None or packer.set(packer.made, _LEVEL, level) > _ERRORS:
        return None
    room = packer.bound(data.nbytes)
    if packer.held is None or packer.held.size < room:
        packer.held = np.frombuffer(aligned(room), np.uint8)
    size: int = packer.run(packer.made, packer.held.ctypes.data, room, data.ctypes.data, data.nbytes)
    return None if size > _ERRORS else memoryview(packer.held)[:size]
