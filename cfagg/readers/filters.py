"""Undoing the filters of HDF5 chunks, outside any lock.

Sources: the HDF5 file format specification, "Data Storage - Filter Pipeline"; the registered HDF5 filters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg import fastzlib

if TYPE_CHECKING:
    from cfagg.readers.located import Chunked

__all__ = ["ERRORS", "DecodeError", "decode", "known"]

_DEFLATE, _SHUFFLE, _FLETCHER32, _ZSTD = 1, 2, 3, 32015

#: A decoder takes the bytes, the filter's parameters, the bytes expected in the end and the array that is to hold them,
#: which it uses where its own result fits.
_Decoder = Callable[[Any, tuple[int, ...], int, npt.NDArray[np.uint8] | None], Any]


class DecodeError(Exception):
    """Bytes that are not what the filters made."""


#: What decoding damaged bytes may raise.
ERRORS: tuple[type[Exception], ...] = (DecodeError, *fastzlib.ERRORS, RuntimeError, ValueError)


def known(filters: tuple[tuple[int, tuple[int, ...]], ...]) -> bool:
    """Return whether every filter of a pipeline of (number, parameters) can be undone here."""
    return all(number in _DECODERS for number, _ in filters)


def decode(
    data: npt.NDArray[np.uint8], mask: int, storage: Chunked, out: npt.NDArray[np.uint8] | None = None
) -> npt.NDArray[Any]:
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
    DecodeError, zlib.error, RuntimeError, ValueError
        If the bytes are damaged.
    """
    expected = storage.dtype.itemsize
    for n in storage.chunks:
        expected *= n
    plain: Any = data
    for k in range(len(storage.filters) - 1, -1, -1):
        if not mask >> k & 1:
            number, parameters = storage.filters[k]
            # A checksum, where there is one, is decoded as part of what follows it.
            plain = _DECODERS[number](plain, parameters, expected, out if k == 0 else None)
    found = memoryview(plain).nbytes
    if found != expected:
        raise DecodeError(f"it has {found} bytes decoded, expected {expected}")
    return np.frombuffer(plain, storage.dtype).reshape(storage.chunks)


def _inflate(data: Any, parameters: tuple[int, ...], expected: int, out: Any) -> bytes:  # noqa: ARG001
    # Bounded, so that a few bytes cannot fill the memory; a checksum of four bytes may still follow the values.
    most = expected + 4
    inflater = fastzlib.decompressobj()
    plain: bytes = inflater.decompress(data, most + 1)
    if len(plain) > most or not inflater.eof:
        raise DecodeError(f"it inflates to more than the {expected} bytes expected, or is cut off")
    return plain


def _unshuffle(data: Any, parameters: tuple[int, ...], expected: int, out: Any) -> Any:
    from numcodecs.shuffle import Shuffle

    size = parameters[0] if parameters else 1
    raw = np.frombuffer(data, np.uint8)
    whole = raw.size // size * size if size else 0
    if size < 2 or not whole:
        return data
    plain = np.empty(raw.size, np.uint8) if out is None or raw.size != expected else out
    Shuffle(size).decode(raw[:whole], plain[:whole])
    # What does not fill an element is left as it is at the end.
    plain[whole:] = raw[whole:]
    return plain


def _check(data: Any, parameters: tuple[int, ...], expected: int, out: Any) -> Any:  # noqa: ARG001
    from numcodecs.fletcher32 import Fletcher32

    if memoryview(data).nbytes <= 4:
        raise DecodeError("it is too short for its checksum")
    return Fletcher32().decode(data)


def _unzstd(data: Any, parameters: tuple[int, ...], expected: int, out: Any) -> Any:  # noqa: ARG001
    from numcodecs import zstd

    # The frame says how large its content is; it is refused before memory is taken for it.
    return zstd.decompress(data, np.empty(expected, np.uint8) if out is None else out)


_DECODERS: dict[int, _Decoder] = {_DEFLATE: _inflate, _SHUFFLE: _unshuffle, _FLETCHER32: _check, _ZSTD: _unzstd}
