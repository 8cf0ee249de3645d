"""Undoing the filters of HDF5 chunks, outside any lock; which of them the netCDF library writes.

Sources: the HDF5 file format specification, "Data Storage - Filter Pipeline"; the registered HDF5 filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats import codecs

if TYPE_CHECKING:
    from cfagg.model.chunks import Codec, Encoding

__all__ = ["DamagedError", "check_unknown", "decode", "decoded_most", "filters_written", "is_few", "known", "placing"]

DamagedError = codecs.DamagedError

#: Deflate, and the most bytes that one deflated byte can inflate to.
_DEFLATE, _DEFLATED = 1, 1032

#: The filter that sorts bytes by their position in an element.
_SHUFFLE = 2

#: Filters that the HDF5 library decodes: n-bit, scale-offset; and the header bytes of the latter.
_NBIT, _SCALE, _SCALE_HEAD = 5, 6, 21

#: Options of szip: big-endian numbers; differences between consecutive numbers are stored.
_SZIP_BIG, _SZIP_STEPS = 16, 32

#: Of szip: bytes before the stream, most samples of a block and of a line, and bits of samples stored by bytes.
_SZIP_HEAD, _SZIP_BLOCK, _SZIP_LINE, _SZIP_BYTES = 4, 32, 4096, (32, 64)

#: The factor by which a part of a chunk is smaller if picked from sorted bytes; most elements picked at once.
_FEW, _PICKED = 16, 4096

_Memory = npt.NDArray[np.uint8] | None


class _Filter(NamedTuple):
    """The decoder of a filter."""

    # It is called with the bytes, the filter's parameters, the fewest and most bytes of the result, and an array for
    # the result, which it uses if the result fits.

    undo: Callable[[Any, tuple[int, ...], int, int, _Memory], Any]
    #: Bytes that it adds; `None` for compression, whose size varies.
    adds: int | None


def known(filters: tuple[Codec, ...]) -> bool:
    """Return whether every filter of a pipeline of (number, parameters) can be decoded here."""
    return all(number in _FILTERS for number, _ in filters)


def decode(
    data: npt.NDArray[np.uint8],
    mask: int,
    encoding: Encoding,
    shape: tuple[int, ...],
    out: _Memory = None,
    within: tuple[slice, ...] | None = None,
) -> npt.NDArray[Any]:
    """Undo the filters of a chunk except those skipped according to its mask; return the selected values."""
    # The result is a view of `out`, memory of the size of a chunk, if the first filter can write into it.
    expected = encoding.dtype.itemsize * math.prod(shape)
    used = tuple([f for k, f in enumerate(encoding.codecs) if not mask >> k & 1])
    few = within is not None and _is_shuffled(used, encoding.dtype) and is_few(within, shape)
    plain = _through(_steps(used, expected, sorted_=few), data, expected, out)
    if few and within is not None:
        return _picked(plain, encoding.dtype, shape, within)
    values = np.frombuffer(plain, encoding.dtype).reshape(shape)
    return values if within is None else values[within]


def placing(
    encoding: Encoding, shape: tuple[int, ...], places: npt.NDArray[np.int64] | None
) -> Callable[[bytes, npt.NDArray[Any]], object]:
    """Return a function that decodes a chunk and copies all values, or those at some places, to a contiguous array."""
    # Places are in C order. Properties common to all chunks are determined here, once.
    used, dtype = encoding.codecs, encoding.dtype
    count = math.prod(shape)
    few = places is not None and _is_shuffled(used, dtype)
    expected = dtype.itemsize * count
    steps = _steps(used, expected, sorted_=few)

    def put_all(data: bytes, out: npt.NDArray[Any]) -> None:
        memory = out.view(np.uint8)
        found = np.frombuffer(_through(steps, data, expected, memory), np.uint8)
        if not np.shares_memory(found, memory):
            memory[:] = found

    if places is None:
        return put_all
    if not few:
        return lambda data, out: np.frombuffer(_through(steps, data, expected, None), dtype).take(
            places, out=out, mode="clip"
        )
    if len(places) > _PICKED:
        return lambda data, out: np.copyto(
            out.view(np.uint8).reshape(len(places), -1),
            np.frombuffer(_through(steps, data, expected, None), np.uint8).reshape(-1, count).take(places, axis=1).T,
        )
    picked = (places[:, None] + np.arange(dtype.itemsize) * count).reshape(-1)
    return lambda data, out: np.frombuffer(_through(steps, data, expected, None), np.uint8).take(
        picked, out=out.view(np.uint8), mode="clip"
    )


#: A filter, its parameters, the fewest and most bytes of its result, and whether its result is the values.
type _Steps = list[tuple[Any, tuple[int, ...], int, int, bool]]


@lru_cache(256)
def _steps(used: tuple[Codec, ...], expected: int, *, sorted_: bool) -> _Steps:
    """Return the decoding steps, the last filter first; without the first filter if bytes may stay sorted."""
    sizes = _sizes(used, expected)
    return [
        (_FILTERS[number].undo, parameters, *sizes[k], k == 0)
        for k, (number, parameters) in reversed(list(enumerate(used)))
        if k or not sorted_
    ]


def _through(steps: _Steps, data: Any, expected: int, out: _Memory) -> Any:
    """Undo filters; the result has the expected size."""
    plain = data
    for undo, parameters, fewest, most, is_last in steps:
        plain = undo(plain, parameters, fewest, most, out if is_last else None)
    found = memoryview(plain).nbytes
    if found != expected:
        raise DamagedError(f"it decodes to {found:,} bytes, expected {expected:,}")
    return plain


def _is_shuffled(used: tuple[Codec, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether the first filter sorted the bytes of whole elements."""
    return bool(used) and used[0] == (_SHUFFLE, (dtype.itemsize,))


def is_few(within: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
    """Return whether a part of a chunk is small enough to be picked from sorted bytes."""
    return math.prod(len(range(s.start, s.stop, s.step)) for s in within) * _FEW <= math.prod(shape)


def _picked(plain: Any, dtype: np.dtype[Any], shape: tuple[int, ...], within: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Return a few elements of a chunk whose bytes are sorted by their position in an element."""
    places = np.frombuffer(plain, np.uint8).reshape(dtype.itemsize, *shape)[(slice(None), *within)]
    found = np.ascontiguousarray(places.reshape(dtype.itemsize, -1).T)
    return found.view(dtype).reshape(places.shape[1:])


def decoded_most(size: int, mask: int, encoding: Encoding) -> int | None:
    """Return the most bytes that a stored chunk of some size can decode to, or `None` if unknown."""
    if encoding.decode is not None:
        return None
    for k, (number, _) in reversed(list(enumerate(encoding.codecs))):
        if mask >> k & 1:
            continue
        adds = _FILTERS[number].adds if number in _FILTERS else None
        if adds is not None:
            size -= adds
        elif number == _DEFLATE:
            size = size * _DEFLATED + _DEFLATED
        else:
            return None
    return size


def _sizes(used: tuple[Codec, ...], nbytes: int) -> list[tuple[int, int]]:
    """Return the fewest and the most bytes of the result of undoing each filter."""
    found = []
    fewest = most = nbytes
    for number, _ in used:
        found.append((fewest, most))
        adds = _FILTERS[number].adds
        fewest, most = (0, codecs.encoded_most(most)) if adds is None else (fewest + adds, most + adds)
    return found


def check_unknown(data: npt.NDArray[np.uint8], mask: int, encoding: Encoding, shape: tuple[int, ...]) -> None:
    """Check a chunk with an unknown filter for detectable damage before a library decodes it."""
    used = [f for k, f in enumerate(encoding.codecs) if not mask >> k & 1]
    size = encoding.dtype.itemsize * math.prod(shape)
    plain: Any = data
    while used and known((used[-1],)):
        number, parameters = used.pop()
        plain = _FILTERS[number].undo(plain, parameters, 0, codecs.stored_most(size), None)
    if not used:
        return
    number, parameters = used.pop()
    before = [n for n, _ in used]
    if not known(tuple(used)) or any(_FILTERS[n].adds is None for n in before):
        return
    expected = size + sum(_FILTERS[n].adds or 0 for n in before)
    needed = _needed(number, parameters, memoryview(plain).cast("B"), encoding.dtype.itemsize, math.prod(shape))
    if needed is None and expected != size:
        raise DamagedError(f"filter {number} lies between it and its checksum, and cfagg cannot decode it")
    if number in (_NBIT, _SCALE) and (needed is None or memoryview(plain).nbytes < needed):
        raise DamagedError(f"it has {memoryview(plain).nbytes:,} bytes, expected at least {needed or 0:,}")


def _needed(number: int, parameters: tuple[int, ...], data: memoryview, size: int, count: int) -> int | None:
    """Return the bytes needed by filters that pack bits, or `None` if unknown."""
    if number == _SCALE and len(parameters) > 4 and parameters[2] == count and parameters[4] == size:
        bits = int.from_bytes(data[:4], "little")
        return _SCALE_HEAD + -(-count * bits // 8) if bits <= 8 * size else None
    if number == _NBIT and len(parameters) > 7 and parameters[2] == count and parameters[4] == size:
        if parameters[1]:
            return count * size
        # Types other than numbers are packed member by member.
        return -(-count * parameters[6] // 8) if parameters[3] == 1 else None
    return None


def _unlzf(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    from cfagg.kernels.unpacking import unpack_lzf

    made = np.empty(most, np.uint8) if out is None else out[:most]
    found = unpack_lzf(np.frombuffer(data, np.uint8), made)
    if not fewest <= found <= most:
        raise DamagedError(f"its stream is damaged or does not decode to {most:,} bytes")
    return made[:found]


def _unszip(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:
    from cfagg.kernels.unpacking import unpack_szip

    # A copy, since the kernel is compiled for writable memory only.
    stored = np.array(np.frombuffer(data, np.uint8))
    if len(parameters) < 4 or stored.size < _SZIP_HEAD:
        raise DamagedError("its header ends early")
    size = int.from_bytes(stored[:_SZIP_HEAD].tobytes(), "little")
    if not fewest <= size <= most:
        raise DamagedError(f"it decodes to {size:,} bytes, expected {most:,}")
    options, block, bits, line = parameters[:4]
    planes = bits // 8 if bits in _SZIP_BYTES else 1
    bits = 8 if bits in _SZIP_BYTES else bits
    if not (1 <= bits <= 24 and 2 <= block <= _SZIP_BLOCK and block % 2 == 0 and 1 <= line <= _SZIP_LINE):
        raise DamagedError("the parameters of its filter are damaged")
    if size % planes:
        raise DamagedError(f"its {size:,} bytes are not a multiple of {planes} bytes, and szip drops the rest")
    made = np.empty(size, np.uint8)
    found = unpack_szip(
        stored[_SZIP_HEAD:], made, bits, block, line, bool(options & _SZIP_BIG), bool(options & _SZIP_STEPS)
    )
    if found != size:
        raise DamagedError(f"its stream is damaged or does not decode to {size:,} bytes")
    return codecs.unshuffle(made, planes, out)


#: By the filters' numbers: deflate, shuffle, fletcher32, szip, bzip2, LZF, Blosc, zstd.
_FILTERS: dict[int, _Filter] = {
    # The HDF5 library decodes the first stream, and so anything after it is ignored.
    _DEFLATE: _Filter(lambda data, _, *sizes: codecs.inflate(data, *sizes, members=False), None),
    _SHUFFLE: _Filter(lambda data, sizes, fewest, most, out: codecs.unshuffle(data, (*sizes, 1)[0], out), 0),  # noqa: ARG005
    3: _Filter(lambda data, *_: codecs.strip_fletcher32(data), 4),
    4: _Filter(_unszip, None),
    307: _Filter(lambda data, _, *sizes: codecs.bunzip2(data, *sizes), None),
    32000: _Filter(_unlzf, None),
    32001: _Filter(lambda data, _, *sizes: codecs.unblosc(data, *sizes), None),
    32015: _Filter(lambda data, _, *sizes: codecs.unzstd(data, *sizes), None),
}


@cache
def filters_written() -> frozenset[str]:
    """Return which filters beside deflate the netCDF library writes: builds of it lack some."""
    import netCDF4

    from cfagg.formats.values.locks import LIBRARY

    with LIBRARY, netCDF4.Dataset("filters", "w", diskless=True, persist=False) as file:
        return frozenset(name for name in ("bzip2", "szip", "zstd") if getattr(file, f"has_{name}_filter")())
