"""Reading chunks of Zarr arrays one at a time, from any thread, with little work beyond decoding them.

What is not decoded here (shards, transposed chunks, seldom codecs, column-major chunks of Zarr v2) is read through
zarr-python, slower and as right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError
from cfagg.zarrs.codecs import DamagedError
from cfagg.zarrs.metadata import ZarrArray

__all__ = ["chunk_bytes", "full_chunk", "partial", "read_box", "read_chunk"]

Chunk = npt.NDArray[Any]

#: Reading two pieces by one call is faster than by two where at most so many bytes lie between them.
_GAP = 16384


def read_chunk(array: ZarrArray, index: Sequence[int]) -> Chunk | None:
    """Return the elements of one chunk.

    Parameters
    ----------
    array : ZarrArray
        The array.
    index : sequence of int
        Index in ``array.grid``.

    Returns
    -------
    numpy.ndarray or None
        In native byte order, cut at the array's end, not always contiguous or the only owner of its memory; never
        read-only.  `None` where the object that holds the chunk is not stored: all elements are ``array.fill_value``.

    Raises
    ------
    FragmentReadError
        The chunk is damaged, truncated or not readable.

    Examples
    --------
    >>> import tempfile, numpy as np, zarr
    >>> from cfagg.zarrs.metadata import open_array
    >>> store = tempfile.mkdtemp()
    >>> made = zarr.create_array(store, name="tas", shape=(5,), chunks=(4,), dtype="i2")
    >>> made[4:] = 7
    >>> tas = open_array(store, "tas")
    >>> read_chunk(tas, (1,)), read_chunk(tas, (0,)) is None
    (array([7], dtype=int16), True)
    """
    decoder = array.decoder
    if decoder is None:
        return _by_zarr(array, index, None)
    lengths = _buffer_shape(array, index)
    nbytes = array.dtype.itemsize
    for n in lengths:
        nbytes *= n
    path = f"{array.folder}/{array.key(index)}"
    if decoder.plain:
        raw = _read_exactly(array, index, path, nbytes)
    else:
        stored = _read_file(array, index, path)
        if stored is not None:
            try:
                raw = decoder.decode(stored, nbytes)
            except DamagedError as error:
                raise _damaged(array, index, path, str(error)) from error
        else:
            raw = None
    if raw is None:
        return None
    chunk = _native(raw, array.dtype, decoder.swap).reshape(lengths)
    cut = array.grid.extent(index)
    if any(b - a != n for (a, b), n in zip(cut, lengths, strict=True)):
        chunk = chunk[tuple(slice(0, b - a) for a, b in cut)]
    return chunk


def read_box(array: ZarrArray, index: Sequence[int], box: tuple[slice, ...]) -> Chunk | None:
    """Return part of one chunk.

    Where elements are stored as they are (`partial`), only the bytes needed are read; else the chunk is decoded.

    Parameters
    ----------
    array : ZarrArray
        The array.
    index : sequence of int
        Index in ``array.grid``.
    box : tuple of slice
        One slice per dimension, counted from the chunk's own start, of step 1.

    Returns
    -------
    numpy.ndarray or None
        As of `read_chunk`.

    Raises
    ------
    FragmentReadError
        The chunk is damaged, truncated or not readable.

    Examples
    --------
    >>> import tempfile, numpy as np, zarr
    >>> from cfagg.zarrs.metadata import open_array
    >>> store = tempfile.mkdtemp()
    >>> made = zarr.create_array(store, name="x", data=np.arange(12).reshape(3, 4), compressors=None)
    >>> x = open_array(store, "x")
    >>> read_box(x, (0, 0), (slice(1, 3), slice(2, 4)))
    array([[ 6,  7],
           [10, 11]])
    """
    extent = array.grid.extent(index)
    cut = [s.indices(b - a) for s, (a, b) in zip(box, extent, strict=True)]
    if any(step != 1 for _, _, step in cut):
        raise ValueError(f"a box has slices of step 1; found {box}")
    ranges = [(a, max(a, b)) for a, b, _ in cut]
    if all(a == 0 and b == high - low for (a, b), (low, high) in zip(ranges, extent, strict=True)):
        return read_chunk(array, index)
    decoder = array.decoder
    if decoder is None:
        return _by_zarr(array, index, ranges)
    if decoder.plain:
        return _read_part(array, index, ranges, decoder.swap)
    chunk = read_chunk(array, index)
    return None if chunk is None else chunk[tuple(slice(a, b) for a, b in ranges)]


def partial(array: ZarrArray) -> bool:
    """Return whether `read_box` reads no more than the bytes that a box needs."""
    return array.decoder is not None and array.decoder.plain


def full_chunk(array: ZarrArray, index: Sequence[int]) -> Chunk:
    """Return the elements of one chunk, fill values where it is not stored."""
    chunk = read_chunk(array, index)
    if chunk is None:
        return np.full([b - a for a, b in array.grid.extent(index)], array.fill_value, array.dtype)
    return chunk


def chunk_bytes(array: ZarrArray, index: Sequence[int]) -> int:
    """Return the stored bytes of the object that holds a chunk, 0 where there is none.

    Parameters
    ----------
    array : ZarrArray
        The array.
    index : sequence of int
        Index in ``array.grid``.
    """
    try:
        return os.stat(f"{array.folder}/{array.key(array.object_of(index))}").st_size  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _buffer_shape(array: ZarrArray, index: Sequence[int]) -> tuple[int, ...]:
    """Return the shape in which a chunk is stored: whole, also where it hangs over the array's end."""
    return tuple(
        int(axis[i + 1] - axis[i]) if isinstance(axis, np.ndarray) else axis.chunk
        for axis, i in zip(array.grid.axes, index, strict=True)
    )


def _native(raw: npt.NDArray[np.uint8], dtype: np.dtype[Any], swap: bool) -> Chunk:
    """Return bytes as elements in native byte order."""
    chunk = raw.view(dtype)
    if swap:
        # In place where the memory is ours alone.
        chunk = chunk.byteswap(inplace=bool(chunk.flags.writeable))
    return chunk if chunk.flags.writeable else chunk.copy()


def _open(array: ZarrArray, index: Sequence[int], path: str) -> int | None:
    """Return an open file, `None` where there is none."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(array, index, path, error) from error


def _read_file(array: ZarrArray, index: Sequence[int], path: str) -> bytes | None:
    """Return a whole file."""
    file = _open(array, index, path)
    if file is None:
        return None
    try:
        size = os.fstat(file).st_size
        stored = os.read(file, size)
        while len(stored) < size:
            more = os.read(file, size - len(stored))
            if not more:
                break
            stored += more
    except OSError as error:
        raise _unreadable(array, index, path, error) from error
    finally:
        os.close(file)
    return stored


def _read_exactly(array: ZarrArray, index: Sequence[int], path: str, nbytes: int) -> npt.NDArray[np.uint8] | None:
    """Return a whole file that must have this size."""
    file = _open(array, index, path)
    if file is None:
        return None
    try:
        _check_size(array, index, path, os.fstat(file).st_size, nbytes)
        out = np.empty(nbytes, np.uint8)
        _fill(array, index, path, file, memoryview(out), 0)
    except OSError as error:
        raise error if isinstance(error, FragmentReadError) else _unreadable(array, index, path, error) from error
    finally:
        os.close(file)
    return out


def _fill(array: ZarrArray, index: Sequence[int], path: str, file: int, into: memoryview, offset: int) -> None:
    """Read bytes until the memory is full."""
    while len(into):
        count = os.preadv(file, [into], offset)
        if not count:
            raise _damaged(array, index, path, f"it ends before byte {offset + len(into):,}")
        into, offset = into[count:], offset + count


def _check_size(array: ZarrArray, index: Sequence[int], path: str, found: int, expected: int) -> None:
    if found != expected:
        raise _damaged(array, index, path, f"it has {found:,} bytes, expected {expected:,}")


def _read_part(array: ZarrArray, index: Sequence[int], ranges: list[tuple[int, int]], swap: bool) -> Chunk | None:
    """Return a box of a chunk whose elements are stored as they are, by few reads of few bytes."""
    path = f"{array.folder}/{array.key(index)}"
    lengths = _buffer_shape(array, index)
    itemsize = array.dtype.itemsize
    # Bytes from one index to the next along each dimension, and after the last the element itself.
    strides = [itemsize] * (len(lengths) + 1)
    for d in reversed(range(len(lengths))):
        strides[d] = strides[d + 1] * lengths[d]
    counts = [b - a for a, b in ranges]
    depth = _read_depth(strides, counts)
    file = _open(array, index, path)
    if file is None:
        return None
    try:
        _check_size(array, index, path, os.fstat(file).st_size, strides[0])
        out = np.empty((*counts[: depth + 1], *lengths[depth + 1 :]), array.dtype)
        if 0 in counts:
            return out[(slice(None),) * (depth + 1) + tuple(slice(a, b) for a, b in ranges[depth + 1 :])]
        view = memoryview(out.reshape(-1).view(np.uint8))
        length = counts[depth] * strides[depth + 1]
        starts = np.zeros(1, np.int64)
        for d in range(depth):
            starts = (starts[:, None] + np.arange(*ranges[d]) * strides[d + 1]).reshape(-1)
        starts += ranges[depth][0] * strides[depth + 1]
        for k, start in enumerate(starts.tolist()):
            _fill(array, index, path, file, view[k * length : (k + 1) * length], start)
    except OSError as error:
        raise error if isinstance(error, FragmentReadError) else _unreadable(array, index, path, error) from error
    finally:
        os.close(file)
    part = out[(slice(None),) * (depth + 1) + tuple(slice(a, b) for a, b in ranges[depth + 1 :])]
    return part.byteswap() if swap else part


def _read_depth(strides: list[int], counts: list[int]) -> int:
    """Return the dimension along which each read runs: dimensions before it are looped over, those after read whole."""
    best, depth = None, 0
    reads = 1
    for d, count in enumerate(counts):
        cost = reads * (count * strides[d + 1] + _GAP)
        if best is None or cost < best:
            best, depth = cost, d
        reads *= count
    return depth


def _by_zarr(array: ZarrArray, index: Sequence[int], ranges: list[tuple[int, int]] | None) -> Chunk | None:
    """Return a chunk or a box of it by zarr-python."""
    held = array.object_of(index)
    path = f"{array.folder}/{array.key(held)}"
    if not os.path.lexists(path):
        return None
    extent = array.grid.extent(index)
    boxes = (
        extent if ranges is None else [(a + low, a + high) for (a, _), (low, high) in zip(extent, ranges, strict=True)]
    )
    try:
        read = np.asarray(_opened(array)[tuple(slice(a, b) for a, b in boxes)], array.dtype)
    except FragmentReadError:
        raise
    except Exception as error:  # codecs raise whatever they like on damaged bytes
        raise _damaged(array, index, path, f"zarr-python says {type(error).__name__}: {error}") from error
    return read.reshape([b - a for a, b in boxes])


_opening = threading.Lock()


def _opened(array: ZarrArray) -> Any:
    """Return the array as zarr-python has it, opened once."""
    opened = array.__dict__.get("_by_zarr_python")
    if opened is None:
        import zarr

        with _opening, zarr.config.set({"array.rectilinear_chunks": True}):
            form: Any = array.zarr_format
            opened = zarr.open_array(array.folder, mode="r", zarr_format=form)
        if opened.shape != array.shape:
            raise FragmentReadError(
                f"{array.folder} has changed from shape {array.shape} to {opened.shape} since it was opened; "
                "open it again"
            )
        array.__dict__["_by_zarr_python"] = opened
    return opened


def _where(array: ZarrArray, index: Sequence[int], path: str) -> str:
    return f"{array.store}: array {array.path!r}, chunk {tuple(int(i) for i in index)} ({path})"


def _damaged(array: ZarrArray, index: Sequence[int], path: str, problem: str) -> FragmentReadError:
    return FragmentReadError(f"{_where(array, index, path)} is damaged: {problem}; write the chunk again")


def _unreadable(array: ZarrArray, index: Sequence[int], path: str, error: OSError) -> FragmentReadError:
    return FragmentReadError(f"{_where(array, index, path)} cannot be read: {error.strerror or error}")
