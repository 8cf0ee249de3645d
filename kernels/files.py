"""Reading many small files of one directory into memory and unpacking them, without Python in between.

Reading a file of 1 KiB takes less time than calling the system from Python, and several threads do it at once.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core.cgutils import ir

from cfagg.kernels.jit import intrinsic, jit

__all__ = ["MISSING", "ODD", "READ", "can_read_files", "read_files"]

#: Platforms that call C functions with and without a fixed number of arguments, such as openat, the same way.
_MACHINES = ("x86_64", "aarch64", "arm64", "riscv64")

#: Outcomes for a file: it was read, it does not exist, or it is not as expected.
READ, MISSING, ODD = 0, 1, 2

#: statx: its flag for a descriptor with an empty name, the mask that requests type and size, and their positions.
_EMPTY_PATH, _TYPE_AND_SIZE, _MODE_AT, _SIZE_AT = 0x1000, 0x201, 28, 40
_REGULAR = 0o100000
_TYPE = 0o170000
_NOT_THERE = 2

#: The first byte of gzip, and the flag for a header checksum.
_GZIP, _HEADER_CHECKSUM = 0x1F, 2

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW

Int64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def _call_plain(address, *given):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(int(address))(*map(int, given))


@intrinsic(_call_plain)
def _call(_typing, _address, _first, _second, _third, _fourth, _fifth, _sixth, _seventh):
    """Call the C function at an address with up to seven integers; only the lower half of an ``int`` result is valid.

    Numba can call ctypes functions too, but then compiles again in every process.
    """

    def codegen(_context, builder, _signature, args):
        word = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word] * 7).as_pointer())
        return builder.call(function, args[1:])

    return types.int64(*[types.int64] * 8), codegen


@intrinsic(lambda address: ctypes.c_int32.from_address(int(address)).value)
def _load_int32(_typing, _address):
    """Return the integer of 32 bits at an address."""

    def codegen(_context, builder, _signature, args):
        return builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))

    return types.int32(types.int64), codegen


@cache
def _system() -> Int64 | None:
    """Return the addresses of the functions of the C library, or `None` if it is not that of Linux."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8 or platform.machine() not in _MACHINES:
        return None
    library = ctypes.CDLL(None)
    try:
        found = [getattr(library, name) for name in ("openat", "statx", "pread", "close", "__errno_location")]
    except AttributeError:
        return None
    return np.array([ctypes.cast(f, ctypes.c_void_p).value for f in found], np.int64)


def can_read_files() -> bool:
    """Return whether `read_files` runs on this system.

    >>> can_read_files() in (True, False)
    True
    """
    return _system() is not None


def read_files(
    within: int,
    names: list[str],
    memory: Bytes,
    starts: Int64,
    sizes: Int64,
    unpack: tuple[int, ...] = (0, 0),
    largest: int = 0,
) -> npt.NDArray[np.uint8]:
    """Read files into one block of memory.

    Parameters
    ----------
    within : int
        Descriptor of their directory.
    names : list of str
        Their names in it, n of them; no link is followed.
    memory : ndarray of uint8
        Memory to read into.
    starts, sizes : ndarray of int64, shape (n,)
        The positions of their bytes in `memory`, and their numbers of bytes.
    unpack : tuple of int, optional
        Address of a function such as ``ZSTD_decompressDCtx``, and of the state that is its first argument; the others
        are target, capacity, source and size, and it returns the number of bytes written.  Three numbers are
        ``libdeflate_zlib_decompress_ex``, its state, and the function for gzip.  By default files are not compressed.
    largest : int, optional
        Bytes of the largest file that is unpacked.

    Returns
    -------
    ndarray of uint8, shape (n,)
        `READ`, `MISSING`, or `ODD` for a file that is not regular, cannot be read, or has another number of bytes.

    Examples
    --------
    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(f"{folder}/b", "wb") as file:
    ...     _ = file.write(b"xyz")
    >>> within, out = os.open(folder, os.O_RDONLY), np.zeros(6, np.uint8)
    >>> if can_read_files():
    ...     print(read_files(within, ["a", "b"], out, np.array([0, 3]), np.array([3, 3])), bytes(out[3:]))
    [1 0] b'xyz'
    >>> os.close(within)
    """
    system = _system()
    if system is None:
        raise NotImplementedError("files can be read this way on Linux only")
    encoded = [n.encode("utf-8", "surrogateescape") for n in names]
    text = np.frombuffer(b"\0".join(encoded) + b"\0", np.uint8)
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    done = np.empty(len(names), np.uint8)
    fits = len(names) == len(starts) == len(sizes) and memory.flags.c_contiguous and memory.flags.writeable
    if len(names) and fits:
        # A difference, since the sum of a start and a size may wrap around.
        fits = min(int(starts.min()), int(sizes.min())) >= 0 and bool((starts <= memory.size - sizes).all())
    if not fits or any(b"\0" in n for n in encoded):
        raise ValueError("names have no NUL characters, and the memory must hold all files")
    if len(names):
        _read(
            system,
            np.array(unpack, np.int64),
            within,
            text,
            ends[:-1],
            memory,
            np.ascontiguousarray(starts, np.int64),
            np.ascontiguousarray(sizes, np.int64),
            np.empty(max(largest, 1), np.uint8),
            np.empty(256, np.uint8),
            np.zeros(1, np.int64),
            done,
        )
    return done


@jit
def _int32(value):
    """Return the lower half of a result, the only valid part for functions that return an ``int``."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@jit
def _fills(unpack, here, room, stored, size, taken):
    """Return whether the first `size` bytes of `stored` unpack to exactly `room` bytes."""
    source = stored.ctypes.data
    if unpack.size == 2:
        return _call(unpack[0], unpack[1], here, room, source, size, 0, 0) == room
    is_gzip = stored[0] == _GZIP
    # A checksum of the header is not verified.
    if room == 0 or size < 4 or (is_gzip and stored[3] & _HEADER_CHECKSUM):
        return False
    failed = _call(unpack[2 if is_gzip else 0], unpack[1], source, size, here, room, taken.ctypes.data, 0)
    return _int32(failed) == 0 and taken[0] == size


@jit
def _read(system, unpack, within, text, ends, memory, starts, sizes, stored, told, taken, done):
    """Read all files; `ends` are the starts of all names but the first, `told` is a buffer for statx."""
    openat, statx, pread, close, errno = system[0], system[1], system[2], system[3], system[4]
    names, target, source, answer = text.ctypes.data, memory.ctypes.data, stored.ctypes.data, told.ctypes.data
    nothing = names + text.size - 1
    mode, length = told[_MODE_AT : _MODE_AT + 2].view(np.uint16), told[_SIZE_AT : _SIZE_AT + 8].view(np.int64)
    for k in range(done.size):
        name = names + (ends[k - 1] if k else 0)
        file = _int32(_call(openat, within, name, _FLAGS, 0, 0, 0, 0))
        if file < 0:
            done[k] = MISSING if _load_int32(_call(errno, 0, 0, 0, 0, 0, 0, 0)) == _NOT_THERE else ODD
            continue
        good = _int32(_call(statx, file, nothing, _EMPTY_PATH, _TYPE_AND_SIZE, answer, 0, 0)) == 0
        good = good and (mode[0] & _TYPE) == _REGULAR
        size, here = length[0], target + starts[k]
        if not good:
            done[k] = ODD
        elif unpack[0] == 0:
            same = size == sizes[k] and _call(pread, file, here, size, 0, 0, 0, 0) == size
            done[k] = READ if same else ODD
        elif size > stored.size or _call(pread, file, source, size, 0, 0, 0, 0) != size:
            done[k] = ODD
        else:
            done[k] = READ if _fills(unpack, here, sizes[k], stored, size, taken) else ODD
        _call(close, file, 0, 0, 0, 0, 0, 0)
    return 0
