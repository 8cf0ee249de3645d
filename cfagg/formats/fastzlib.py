"""Deflating, inflating and CRC-32 with ISA-L if the processor supports it, else with the standard library's zlib.

Both inflate to the same bytes.  ISA-L inflates nearly twice as fast, its checksum costs next to nothing, and it
deflates ten times as fast to the size of zlib's lowest levels.  libdeflate inflates faster still, but only one whole
stream into memory of its size.  It is called through its C functions, which are part of the package `deflate`: those
for Python allocate memory for every stream and block other threads.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ERRORS", "addresses", "crc32", "decompressobj", "deflate", "inflate"]

_best: Any = zlib
with contextlib.suppress(ImportError):
    from isal import isal_zlib

    _best = isal_zlib

#: The errors of both libraries for damaged input.
ERRORS: tuple[type[Exception], ...] = tuple({zlib.error, _best.error})

crc32: Callable[..., int] = _best.crc32
decompressobj: Callable[[], Any] = _best.decompressobj

#: Levels of zlib replaced by ISA-L's own, which compresses as well as the first and nearly as well as the third.
_FAST = range(1, 4)


def deflate(data: Any, level: int) -> bytes:
    """Return bytes compressed in zlib's format, at one of its levels or nearly as well."""
    packed: bytes = _best.compress(data, 1) if level in _FAST else zlib.compress(data, level)
    return packed


#: Most bytes that one deflated byte can inflate to.
_MOST = 1032

#: The first byte of gzip, and the flag for a header checksum, which libdeflate does not verify.
_GZIP, _HEADER_CHECKSUM = 0x1F, 2


@cache
def _library() -> Any:
    """Return the functions of libdeflate, or `None` if the package is not installed, or hides them as on Windows."""
    import ctypes

    try:
        from deflate import _deflate

        library: Any = ctypes.CDLL(_deflate.__file__)
        create, free = library.libdeflate_alloc_decompressor, library.libdeflate_free_decompressor
        runs = library.libdeflate_zlib_decompress_ex, library.libdeflate_gzip_decompress_ex
    except (ImportError, AttributeError, OSError):
        return None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    create.restype, create.argtypes = pointer, []
    free.restype, free.argtypes = None, [pointer]
    for run in runs:
        run.restype, run.argtypes = ctypes.c_int, [pointer, pointer, size, pointer, size, pointer, pointer]
    return library


class _State:
    """The memory that libdeflate needs in one thread."""

    made: int | None = None

    def __init__(self) -> None:
        library = _library()
        if library is None:
            return
        import ctypes

        self._free = library.libdeflate_free_decompressor
        self.zlib, self.gzip = library.libdeflate_zlib_decompress_ex, library.libdeflate_gzip_decompress_ex
        self.byte, self.byref, self.count = ctypes.c_char.from_buffer, ctypes.byref, ctypes.c_size_t()
        self.taken = ctypes.byref(self.count)
        self.made = library.libdeflate_alloc_decompressor()

    def __del__(self) -> None:
        if self.made is not None:
            self._free(self.made)


_kept = threading.local()


def _own() -> _State:
    """Return the memory of this thread."""
    try:
        state: _State = _kept.state
    except AttributeError:
        state = _kept.state = _State()
    return state


def addresses() -> tuple[int, int, int] | None:
    """Return the addresses of the function that inflates, of this thread's memory, and of the function for gzip."""
    import ctypes

    state = _own()
    if state.made is None:
        return None
    run, gzip = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in (state.zlib, state.gzip))
    return run, state.made, gzip


def inflate(
    stored: Any, size: int, out: npt.NDArray[np.uint8] | None = None
) -> tuple[npt.NDArray[np.uint8], bool] | None:
    """Return the inflated first stream or member, in `out` if given, and whether nothing follows it."""
    # `None` if it does not inflate to `size` bytes, or if libdeflate is not available or would differ from zlib.
    state = _own()
    if state.made is None:
        return None
    source: Any = stored if type(stored) is bytes else np.frombuffer(stored, np.uint8)
    # Memory is allocated only if a stream of this length can fill it; empty memory has no pointer.
    if not 0 < size <= _MOST * len(source):
        return None
    run = state.zlib
    if source[0] == _GZIP:
        if len(source) < 4 or source[3] & _HEADER_CHECKSUM:
            return None
        run = state.gzip
    made = np.empty(size, np.uint8) if out is None else out[:size]
    address = source if source is stored else source.ctypes.data
    # Raises an error for memory that is read-only or not contiguous.
    place = state.byref(state.byte(made))
    if made.size != size or run(state.made, address, len(source), place, size, state.taken, None):
        return None
    return made, state.count.value == len(source)
