"""Reading many chunks of one Zarr array into memory at once, with as little work as possible for each.

Only the simple case is handled here: a regular file, without links in its path, that decodes to the expected bytes.
`cfagg.formats.zarr.chunks` reads everything else, or reports what is wrong with it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, LimitError
from cfagg.formats import fastzlib, fastzstd
from cfagg.formats.codecs import inflate, stored_most, unzstd
from cfagg.formats.zarr.codecs import DamagedError, Decoder
from cfagg.formats.zarr.metadata import ZarrArray
from cfagg.formats.zarr.shards import Opened, Shards, identity_of
from cfagg.storage.files import Context, close_read
from cfagg.storage.positioned import read_at
from cfagg.storage.tree import FILE, open_file, open_quickly

__all__ = ["MISSING", "ODD", "READ", "Memory", "positions", "read_chunks", "read_shard", "worth_compiling"]

#: Outcomes for a chunk: it was read, it is not stored, or it needs special handling.
READ, MISSING, ODD = 0, 1, 2

Int64 = npt.NDArray[np.int64]
Seen = Callable[[int, Any], None]

_CONTEXT = Context()

#: The compiled code, and the number of files in one directory from which it pays off if loaded.
_KERNEL, _LOADED = "cfagg.kernels.files", 32
#: It runs only there, so that Numba is not loaded in vain.
_LINUX = sys.platform == "linux"
#: Numbers of chunks in a selection from which it pays off to load it, and to load Numba, too.
_TO_LOAD, _NUMBA_TOO = 2**13, 2**17

#: Fewer files than this are opened by their full paths, not relative to their directory.
_FEW = 3

#: Two ranges of bytes of a file are read by one call if at most this many bytes are between them, which is faster.
_GAP = 16384
#: Chunks of fewer bytes are copied from the bytes that were read.
_SMALL = 1 << 16
#: Most bytes of a shard that are read by one call for several chunks.
_MOST = 1 << 23


@dataclass(frozen=True)
class Memory:
    """The memory for chunks: each has its place in one block of bytes."""

    raw: npt.NDArray[np.uint8]
    starts: list[int]
    sizes: list[int]

    def place(self, k: int) -> npt.NDArray[np.uint8]:
        """Return the place of a chunk."""
        return self.raw[self.starts[k] : self.starts[k] + self.sizes[k]]


def read_chunks(
    array: ZarrArray,
    folder: str,
    names: Sequence[str],
    memory: Memory,
    first: int,
    done: list[int],
    seen: Seen | None = None,
) -> None:
    """Read the files of chunks in a directory of the store; `done` gets the outcome for each."""
    # The first is read into place `first` of the memory, and so on.  `seen` is called with the place of each chunk that
    # is read, and its stored bytes.
    decoder = array.decoder
    if decoder is None or array.opens is not None or len(names) < _FEW:
        done += [_read_alone(array, f"{folder}/{n}", decoder, memory, first + k, seen) for k, n in enumerate(names)]
        return
    try:
        within = open_quickly(array.store, folder)
    except (FileNotFoundError, NotADirectoryError):
        done += [MISSING] * len(names)
        return
    except (OSError, ValueError):
        within = -1
    if within < 0:
        done += [ODD] * len(names)
        return
    try:
        unpack = None if seen else _compiled(decoder, len(names))
        if unpack is not None:
            done += _read_compiled(names, within, memory, first, unpack)
        elif decoder.steps:
            _decode_files(names, within, decoder, memory, first, done, seen)
        else:
            _read_files(names, within, memory, first, done, seen)
    finally:
        close_read(within)


def worth_compiling(decoder: Decoder | None, count: int) -> bool:
    """Return whether compiled code reads `count` chunks faster, even if it has to be loaded first."""
    to_load = _TO_LOAD if "numba" in sys.modules else _NUMBA_TOO
    fewest = _LOADED if _KERNEL in sys.modules else to_load
    return _LINUX and count >= fewest and decoder is not None and _unpacker(decoder) is not None


def _compiled(decoder: Decoder, count: int) -> tuple[int, ...] | None:
    """Return addresses for compiled code to decode a file, zeros if uncompressed, or `None` if it does not pay off."""
    if count < _LOADED or _KERNEL not in sys.modules:
        return None
    from cfagg.kernels.files import can_read_files

    return _unpacker(decoder) if can_read_files() else None


def _unpacker(decoder: Decoder) -> tuple[int, ...] | None:
    """Return addresses that decode all codecs, zeros for none, or `None` for more than one of zstd, zlib or gzip."""
    if not decoder.steps:
        return 0, 0
    undo = decoder.steps[0].undo if len(decoder.steps) == 1 else None
    return fastzstd.addresses() if undo is unzstd else fastzlib.addresses() if undo is inflate else None


def _read_compiled(names: Sequence[str], within: int, memory: Memory, first: int, unpack: tuple[int, ...]) -> list[int]:
    """Read files by compiled code, which does not block other threads."""
    from cfagg.kernels.files import read_files

    some = slice(first, first + len(names))
    starts, sizes = np.array(memory.starts[some], np.int64), np.array(memory.sizes[some], np.int64)
    try:
        found: list[int] = read_files(
            within, list(names), memory.raw, starts, sizes, unpack, stored_most(int(sizes.max()))
        ).tolist()
    except ValueError:
        return [ODD] * len(names)
    return found


def _read_files(
    names: Sequence[str], within: int, memory: Memory, first: int, done: list[int], seen: Seen | None
) -> None:
    """Read files with uncompressed elements."""
    # Local variables, since every name is looked up for every chunk.
    open_, fstat, preadv, regular = os.open, os.fstat, os.preadv, stat.S_ISREG
    view, starts, sizes = memoryview(memory.raw), memory.starts, memory.sizes
    flags, add = FILE, done.append
    for k, name in enumerate(names, first):
        try:
            file = open_(name, flags, dir_fd=within)
        except FileNotFoundError:
            add(MISSING)
            continue
        except (OSError, ValueError):
            add(ODD)
            continue
        try:
            status, size = fstat(file), sizes[k]
            start = starts[k]
            good = status.st_size == size and regular(status.st_mode)
            good = good and preadv(file, [view[start : start + size]], 0) == size
            add(READ if good else ODD)
            if good and seen:
                seen(k, view[start : start + size])
        except OSError:
            add(ODD)
        finally:
            close_read(file)


def _decode_files(
    names: Sequence[str],
    within: int,
    decoder: Decoder,
    memory: Memory,
    first: int,
    done: list[int],
    seen: Seen | None,
) -> None:
    """Read files and decode them."""
    open_, fstat, pread, regular = os.open, os.fstat, os.pread, stat.S_ISREG
    raw, starts, sizes, decode = memory.raw, memory.starts, memory.sizes, decoder.decode
    flags, add = FILE, done.append
    for k, name in enumerate(names, first):
        try:
            file = open_(name, flags, dir_fd=within)
        except FileNotFoundError:
            add(MISSING)
            continue
        except (OSError, ValueError):
            add(ODD)
            continue
        size = sizes[k]
        try:
            status = fstat(file)
            held = status.st_size
            stored = pread(file, held, 0) if regular(status.st_mode) and held <= stored_most(size) else b""
        except OSError:
            stored = b""
        finally:
            close_read(file)
        start = starts[k]
        if seen:
            seen(k, stored)
        try:
            decode(stored, size, raw[start : start + size])
        except (DamagedError, LimitError):
            add(ODD)
        else:
            add(READ)


def _read_alone(array: ZarrArray, path: str, decoder: Decoder | None, memory: Memory, k: int, seen: Seen | None) -> int:
    """Read one file by its full path."""
    if decoder is None or array.opens is not None:
        return ODD
    size = memory.sizes[k]
    try:
        file = open_quickly(array.store, path)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except (OSError, ValueError):
        return ODD
    if file < 0:
        return ODD
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > stored_most(size):
            return ODD
        stored: Any = memory.place(k)
        if decoder.steps:
            stored = os.pread(file, status.st_size, 0)
            decoder.decode(stored, size, memory.place(k))
        elif not status.st_size == size == os.preadv(file, [stored], 0):
            return ODD
    except (OSError, DamagedError, LimitError):
        return ODD
    else:
        if seen:
            seen(k, stored)
        return READ
    finally:
        close_read(file)


def read_shard(array: ZarrArray, shards: Shards, held: Sequence[int], inside: Int64, memory: Memory) -> list[int]:
    """Read chunks of one shard by their indices in it, and return the outcome for each."""
    path = f"{array.folder}/{array.key(held)}"
    if array.opens is not None:
        return [ODD] * len(inside)
    try:
        opened = open_file(array.store, path, array.allow, _CONTEXT)
    except FragmentReadError:
        return [ODD] * len(inside)
    if opened is None:
        return [MISSING] * len(inside)
    file, status = opened
    try:
        shard = Opened(partial(read_at, file), status.st_size, identity_of(status))
        table = shards.table(shard, array.objects, held)
        if not shards.decoder.steps and _read_rows(file, status.st_size, table[inside], memory):
            return [READ] * len(inside)
        runs = shard_runs(table, inside, status.st_size, memory.sizes, _GAP)
        done = runs.done
        for a, b, members in runs.ranges:
            stored = read_at(file, b - a, a)
            for k, start, size in members:
                done[k] = decode_part(shards.decoder, stored, start - a, size, memory, k)
    except (OSError, DamagedError, LimitError):
        return [ODD] * len(inside)
    finally:
        close_read(file)
    return done


def _read_rows(file: int, size: int, entries: npt.NDArray[np.uint64], memory: Memory) -> bool:
    """Read uncompressed chunks by one call, if they have the same size and are close together."""
    # Return whether they were read; if not, the content of the memory is undefined.
    count, each = len(entries), memory.sizes[0]
    # The bytes between them may be as many as their own.
    if count < _FEW or each == 0 or (entries[:, 1] != each).any() or memory.sizes.count(each) != count:
        return False
    begin = int(entries[:, 0].min())
    end = int(entries[:, 0].max()) + each
    if end > size or end - begin > min(2 * count * each, _MOST):
        return False
    offsets = entries[:, 0].astype(np.int64) - begin
    out = memory.raw[: count * each]
    if memory.starts[count - 1] != (count - 1) * each:
        return False
    if (np.diff(offsets) == each).all():
        return os.preadv(file, [out], begin) == out.size
    rows, between = np.divmod(offsets, each)
    if between.any():
        return False
    stored = np.empty((end - begin) // each * each, np.uint8)
    if os.preadv(file, [stored], begin) != stored.size:
        return False
    np.take(stored.reshape(-1, each), rows, axis=0, out=out.reshape(count, each), mode="clip")
    return True


@dataclass
class Runs:
    """Ranges of bytes of a shard that are read by one call each, and the outcome for chunks outside of them."""

    done: list[int]
    #: Start and end of a range, and for each chunk in it its index in the memory, and its offset and size.
    ranges: list[tuple[int, int, list[tuple[int, int, int]]]]


def shard_runs(table: npt.NDArray[np.uint64], inside: Int64, size: int, sizes: Sequence[int], gap: int) -> Runs:
    """Return the ranges of bytes that contain chunks of a shard, with close ones merged.

    >>> table = np.array([[0, 10], [2**64 - 1, 2**64 - 1], [12, 8], [900, 300]], np.uint64)
    >>> runs = shard_runs(table, np.array([2, 0, 1, 3]), 1000, [100] * 4, gap=4)
    >>> runs.ranges, runs.done
    ([(0, 20, [(1, 0, 10), (0, 12, 8)])], [2, 2, 1, 2])
    """
    absent = np.uint64(2**64 - 1)
    offsets, lengths = table[inside, 0], table[inside, 1]
    done = [ODD] * len(inside)
    missing = (offsets == absent) & (lengths == absent)
    for k in np.flatnonzero(missing).tolist():
        done[k] = MISSING
    # Sums cannot overflow, since both parts are compared first.
    whole = np.uint64(size)
    good = ~missing & (lengths <= whole) & (offsets <= whole)
    good &= np.where(good, offsets, 0) + np.where(good, lengths, 0) <= whole
    order = np.flatnonzero(good)[np.argsort(offsets[good], kind="stable")]
    ranges: list[tuple[int, int, list[tuple[int, int, int]]]] = []
    begin = end = 0
    members: list[tuple[int, int, int]] = []
    for k, offset, length in zip(order.tolist(), offsets[order].tolist(), lengths[order].tolist(), strict=True):
        if length > stored_most(sizes[k]):
            continue
        if members and offset - end <= gap and max(end, offset + length) - begin <= _MOST:
            end = max(end, offset + length)
        else:
            if members:
                ranges.append((begin, end, members))
            begin, end, members = offset, offset + length, []
        members.append((k, offset, length))
    if members:
        ranges.append((begin, end, members))
    return Runs(done, ranges)


def decode_part(decoder: Decoder, stored: bytes, start: int, size: int, memory: Memory, k: int) -> int:
    """Decode a chunk whose bytes are a part of others, and return the outcome."""
    # Copying a few bytes is faster than creating a view of them.
    part: Any = stored[start : start + size] if size < _SMALL else memoryview(stored)[start : start + size]
    try:
        decoder.decode(part, memory.sizes[k], memory.place(k))
    except (DamagedError, LimitError):
        return ODD
    return READ


def positions(counts: Sequence[int], cells: Iterable[Int64]) -> Int64:
    """Return the indices in a shard with `counts` chunks for the product of positions along each dimension."""
    flat = np.zeros(1, np.int64)
    for n, c in zip(counts, cells, strict=True):
        flat = np.add.outer(flat * n, c).reshape(-1)
    return flat
