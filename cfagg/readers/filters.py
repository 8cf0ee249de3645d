"""Undoing the filters of HDF5 chunks, outside any lock.

Sources: the HDF5 file format specification, "Data Storage - Filter Pipeline"; the registered HDF5 filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats import codecs

if TYPE_CHECKING:
    from cfagg.readers.located import Chunked

__all__ = ["DamagedError", "decode", "known", "stored_most"]

DamagedError = codecs.DamagedError

_Memory = npt.NDArray[np.uint8] | None


class _Filter(NamedTuple):
    """How a filter is undone.

    It is given the bytes, the filter's parameters, how many bytes may come out at least and at most, and the array that
    is to hold them, which it uses where its own result fits.
    """

    undo: Callable[[Any, tuple[int, ...], int, int, _Memory], Any]
    #: Bytes that it adds; `None` for compression, which makes any number of bytes.
    adds: int | None


def known(filters: tuple[tuple[int, tuple[int, ...]], ...]) -> bool:
    """Return whether every filter of a pipeline of (number, parameters) can be undone here."""
    return all(number in _FILTERS for number, _ in filters)


def decode(data: npt.NDArray[np.uint8], mask: int, storage: Chunked, out: _Memory = None) -> npt.NDArray[Any]:
    """Undo the filters of one chunk, last first, but those that the chunk's mask says were skipped.

    Parameters
    ----------
    data : uint8 array
        The chunk as stored.
    mask : int
        Bit k is set where filter k was skipped.
    storage : Chunked
        Chunk shape, filters and type.
    out : uint8 array, shape (bytes of a chunk,), optional
        Memory for the result.  It is used where the first filter can write into it; otherwise the result is elsewhere.

    Returns
    -------
    ndarray
        The values in the chunk's shape and stored byte order; a view of `out` or not.

    Raises
    ------
    DamagedError
        If the bytes are damaged.
    """
    expected = storage.dtype.itemsize * math.prod(storage.chunks)
    used = [f for k, f in enumerate(storage.filters) if not mask >> k & 1]
    plain: Any = data
    for k, (fewest, most) in reversed(list(enumerate(_sizes(used, expected)))):
        number, parameters = used[k]
        plain = _FILTERS[number].undo(plain, parameters, fewest, most, out if k == 0 else None)
    found = memoryview(plain).nbytes
    if found != expected:
        raise DamagedError(f"it decodes to {found:,} bytes, expected {expected:,}")
    return np.frombuffer(plain, storage.dtype).reshape(storage.chunks)


def stored_most(storage: Chunked) -> int:
    """Return how many bytes a stored chunk is read up to."""
    return codecs.stored_most(storage.dtype.itemsize * math.prod(storage.chunks))


def _sizes(used: list[tuple[int, tuple[int, ...]]], nbytes: int) -> list[tuple[int, int]]:
    """Return the fewest and the most bytes that undoing each filter may give."""
    found = []
    fewest = most = nbytes
    for number, _ in used:
        found.append((fewest, most))
        adds = _FILTERS[number].adds
        fewest, most = (0, codecs.encoded_most(most)) if adds is None else (fewest + adds, most + adds)
    return found


def _inflate(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    # The HDF5 library takes the first stream, and so what follows it does not count.
    return codecs.inflate(data, fewest, most, members=False)


def _unshuffle(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    return codecs.unshuffle(data, parameters[0] if parameters else 1, out)


def _check(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    return codecs.strip_fletcher32(data)


def _unzstd(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    return codecs.unzstd(data, fewest, most, out)


def _unblosc(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    return codecs.unblosc(data, fewest, most, out)


def _bunzip2(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    return codecs.bunzip2(data, fewest, most, out)


def _unlzf(data: Any, parameters: tuple[int, ...], fewest: int, most: int, out: _Memory) -> Any:  # noqa: ARG001
    from cfagg.kernels.lzf import unpack_lzf

    made = np.empty(most, np.uint8) if out is None else out[:most]
    found = unpack_lzf(np.frombuffer(data, np.uint8), made)
    if not fewest <= found <= most:
        raise DamagedError(f"its stream is damaged or does not decode to {most:,} bytes")
    return made[:found]


#: By the filters' numbers: deflate, shuffle, fletcher32, bzip2, LZF, Blosc, zstd.
_FILTERS: dict[int, _Filter] = {
    1: _Filter(_inflate, None),
    2: _Filter(_unshuffle, 0),
    3: _Filter(_check, 4),
    307: _Filter(_bunzip2, None),
    32000: _Filter(_unlzf, None),
    32001: _Filter(_unblosc, None),
    32015: _Filter(_unzstd, None),
}
