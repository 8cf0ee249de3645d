"""Arrays of an observation store: their metadata, and the parts of stored objects that are decoded separately.

A decoded stored object, one column of chunks wide, consists of *units* of equal size: blocks of a Blosc frame, chunks
of a shard, ranges of an uncompressed object, or any other object as a whole.  Each unit can be read and decoded alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, LimitError, UnsupportedError
from cfagg.formats.codecs import check_index, unblosc
from cfagg.formats.zarr.codecs import DamagedError, Decoder, strip_crc32c
from cfagg.formats.zarr.documents import parse
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.formats.zarr.refused import read_or_absent
from cfagg.model import Regular
from cfagg.storage.store import Source

__all__ = ["StoredArray", "StoredObject", "open_object", "open_stored", "read_json"]


@dataclass(frozen=True, eq=False)
class StoredArray(ZarrArray):
    """The metadata of an array of an observation store, whose rows are read by units."""

    #: Content of ``zarr.json`` or ``.zarray`` as stored.
    text: bytes = field(default=b"", repr=False, kw_only=True)

    @cached_property
    def chunk(self) -> tuple[int, ...]:
        """Shape of a chunk, or of the chunks within shards if there are shards."""
        return tuple(int(a.chunk) for a in self.grid.axes if isinstance(a, Regular))

    @cached_property
    def held(self) -> tuple[int, ...]:
        """Shape of a stored object."""
        return tuple(int(a.chunk) for a in self.objects.axes if isinstance(a, Regular))

    def object_key(self, *index: int) -> str:
        """Return the key of a stored object in the store."""
        return f"{self.path}/{self.key(index)}"

    @property
    def unit_decoder(self) -> Decoder | None:
        """The decoder of units in C order, or `None` if zarr-python must decode."""
        return None if self.decoder is None or self.decoder.order is not None else self.decoder

    @property
    def codecs(self) -> str:
        """Names of the codecs, for messages."""
        if self.zarr_format == 2:
            used = [*(self.document.get("filters") or ()), self.document.get("compressor")]
            names = [str(c["id"]) for c in used if isinstance(c, dict) and "id" in c]
        else:
            names = [str(c.get("name") if isinstance(c, dict) else c) for c in self.document.get("codecs", ())]
        return ", ".join(names) or "none"

    @property
    def blosc(self) -> bool:
        """Whether chunks are compressed with Blosc only, so that their blocks can be decoded alone."""
        decoder = self.unit_decoder
        return decoder is not None and len(decoder.steps) == 1 and self.codecs in ("blosc", "bytes, blosc")


def read_json(source: Source, key: str) -> tuple[dict[str, Any], bytes] | None:
    """Return a JSON object of the store and its text, or `None` if there is none."""
    text = read_or_absent(source.read, key)
    return None if text is None else (parse(text, f"{source.path}/{key}"), text)


def open_stored(source: Source, path: str) -> StoredArray | None:
    """Return the metadata of an array of a store, or `None` if there is no such array."""
    found = read_json(source, f"{path}/.zarray")
    key = "zarr.json" if found is None else ".zarray"
    if found is None:
        found = read_json(source, f"{path}/{key}")
        if found is None or found[0].get("node_type") != "array":
            return None
    # Attributes are not read, since that may be a request to another machine.
    array = array_of(source.path, path, {f"{path}/{key}": found[1]}.get, lambda _: None)
    if not all(isinstance(a, Regular) for g in (array.grid, array.objects) for a in g.axes):
        raise UnsupportedError(
            f"{source.path}: array {path!r} has chunks of several lengths; observation stores have equal chunks"
        )
    values = {f.name: getattr(array, f.name) for f in fields(array)} | {"opens": None}
    return StoredArray(**values, text=found[1])


Block = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

#: Bytes of a unit of an object whose elements are stored uncompressed.
_PLAIN_UNIT = 2**16
#: Largest number of bytes that are decoded at once, which is the limit of Blosc.
_MAX_UNIT = 2**31
#: Bytes of a remote Blosc frame that are read first: they usually include all offsets of its blocks.
_HEAD = 2**14
_HEADER = struct.Struct("<BBBBIII")

#: Flags of a Blosc frame: data stored uncompressed, and blocks not split into streams by byte.
_COPIED, _UNSPLIT = 0x02, 0x10


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The units of one stored object."""

    key: str
    #: Bytes of a decoded unit; the last one may have fewer.
    unit: int
    total: int
    #: Location of each unit, with start -1 if it is absent; `None` if the object is absent.
    starts: Offsets | None
    stops: Offsets | None
    #: Returns the unit, given its stored bytes and its decoded size.
    decode: Callable[[Any, int], Block]
    #: Offset of the first element, if all elements are stored uncompressed.
    plain: int | None = None


def open_object(source: Source, array: StoredArray, row: int, column: int) -> StoredObject:
    """Return the units of an object, from its own directory of blocks or chunks."""
    decoder = array.unit_decoder
    if decoder is None:
        return _by_zarr_python(source, array, row, column)
    width = array.chunk[1] if len(array.chunk) > 1 else 1
    per_object = array.held[1] // width if len(array.held) > 1 else 1
    index = (row, column // per_object) if len(array.held) > 1 else (row,)
    key = array.object_key(*index)
    total = array.held[0] * width * array.dtype.itemsize
    try:
        if array.shards is not None:
            found = _shard(source, array, decoder, key, column % per_object)
        elif array.blosc:
            found = _frame(source, key, total)
        else:
            size = source.size(key)
            if size is None:
                found = None
            elif decoder.plain:
                found = _plain(key, size, total)
            else:
                _check_unit(key, source, total)
                found = StoredObject(key, total, total, _at(0), _at(size), decoder.decode)
    except DamagedError as error:
        raise damaged(source, key, str(error)) from error
    if found is not None:
        return found
    # Absent elements are created when needed, since a chunk may be far larger than the array.
    item = array.dtype.itemsize
    return StoredObject(key, max(min(total, _PLAIN_UNIT // item * item), item), total, None, None, _same)


def damaged(source: Source, key: str, problem: str) -> FragmentReadError:
    """Return the error for a damaged object."""
    return FragmentReadError(f"{source.path}: chunk {key} is damaged: {problem}; write the chunk again")


def _at(*values: int) -> Offsets:
    return np.array(values, np.int64)


def _same(stored: Any, expected: int) -> Block:
    """Return a copy of uncompressed elements, since the bytes may be part of a much larger read."""
    found = np.array(np.frombuffer(stored, np.uint8))
    if found.size != expected:
        raise DamagedError(f"it has {found.size:,} bytes where {expected:,} were expected")
    return found


def _check_unit(key: str, source: Source, nbytes: int) -> None:
    if nbytes > _MAX_UNIT:
        raise LimitError(f"{source.path}: chunk {key} decodes to {nbytes:,} bytes; at most {_MAX_UNIT:,} are decoded")


def _plain(key: str, size: int, total: int, offset: int = 0) -> StoredObject:
    """Return the ranges of an object whose elements are stored uncompressed from `offset` on."""
    if size != offset + total:
        raise DamagedError(f"it has {size:,} bytes, expected {offset + total:,}")
    edges = np.arange(0, total + _PLAIN_UNIT, _PLAIN_UNIT, dtype=np.int64).clip(max=total) + offset
    return StoredObject(key, _PLAIN_UNIT, total, edges[:-1], edges[1:], _same, offset)


def _frame(source: Source, key: str, total: int) -> StoredObject | None:
    """Return the blocks of a Blosc frame."""
    edge = source.read_edge(key, _HEAD if source.remote else 16)
    if edge is None:
        return None
    head, size = edge
    if len(head) < 16:
        raise DamagedError(f"it has {len(head)} bytes, too few for a Blosc header")
    version, codec, flags, item, nbytes, block, packed = _HEADER.unpack_from(head)
    if nbytes != total:
        raise DamagedError(f"it decodes to {nbytes:,} bytes, expected {total:,}")
    if packed > size:
        raise DamagedError(f"it has {size:,} bytes, but its header says {packed:,}")
    if flags & _COPIED:
        return _plain(key, packed, total, 16)
    count = -(-nbytes // block) if block else 0
    first = 16 + 4 * count
    if block < 1 or block > max(nbytes, 2**24) or first > packed or not item:
        raise DamagedError(f"its header says blocks of {block:,} bytes in a frame of {packed:,}")
    if len(head) < first:
        head += source.read_range(key, len(head), first - len(head))
    if len(head) < first:
        raise DamagedError("its offsets end early")
    starts = np.frombuffer(head, "<i4", count, 16).astype(np.int64)
    # Threads may have stored blocks in any order; each ends where the block stored after it begins.
    order = np.argsort(starts, kind="stable")
    stops = np.empty_like(starts)
    stops[order] = np.append(starts[order][1:], packed)
    if starts[order[0]] < first or starts[order[-1]] > packed or (stops <= starts).any():
        raise DamagedError("offsets of its blocks are outside of it")

    def decode(stored: Any, expected: int) -> Block:
        """Decode one block as a separate frame with the header of the whole frame."""
        # A block shorter than the others is never split, and a frame cannot be shorter than its blocks.
        last = flags if expected == block else flags | _UNSPLIT
        header = _HEADER.pack(version, codec, last, item, expected, expected, 20 + len(stored))
        found: Block = unblosc(b"".join((header, b"\x14\0\0\0", stored)), expected, expected)
        return found

    return StoredObject(key, block, total, starts, stops, decode)


def _shard(source: Source, array: StoredArray, decoder: Decoder, key: str, column: int) -> StoredObject | None:
    """Return one column of the chunks of a shard."""
    shards = array.shards
    assert shards is not None  # noqa: S101  (the caller asked)
    counts = [h // c for h, c in zip(array.held, array.chunk, strict=True)]
    length = 16 * math.prod(counts) + 4 * shards.checksum
    check_index(length, f"{source.path}: the index of shard {key}")
    edge = source.read_edge(key, length, last=not shards.at_start)
    if edge is None:
        return None
    stored: Any = edge[0]
    size = edge[1]
    if size < length:
        raise DamagedError(f"it has {size:,} bytes, too few for an index of {length:,}")
    if shards.checksum:
        stored = strip_crc32c(stored)
    index = np.frombuffer(stored, "<u8").reshape(counts[0], -1, 2)[:, column]
    absent = (index == 2**64 - 1).all(axis=1)
    bad = ~absent & ((index > size).any(axis=1) | (index.sum(axis=1) > size))
    if bad.any():
        chunk = int(np.flatnonzero(bad)[0])
        raise DamagedError(f"its index puts chunk {chunk} at {index[chunk].tolist()} of {size:,} bytes")
    starts = np.where(absent, -1, index[:, 0].astype(np.int64))
    stops = np.where(absent, -1, (index[:, 0] + index[:, 1]).astype(np.int64))
    unit = math.prod(array.chunk) * array.dtype.itemsize
    _check_unit(key, source, unit)
    decode = _same if decoder.plain else decoder.decode
    return StoredObject(key, unit, unit * counts[0], starts, stops, decode)


def _by_zarr_python(source: Source, array: StoredArray, row: int, column: int) -> StoredObject:
    """Return the whole chunk, which zarr-python decodes."""
    if source.remote:
        raise UnsupportedError(
            f"{source.path}: array {array.path!r} has the codecs {array.codecs}, which can only be read from local "
            "stores; copy the store to this machine"
        )
    from cfagg.arrays.chunked import ZarrReader

    reader = ZarrReader(replace(array, allow=getattr(source, "allow", ())))
    index = (row, column)[: len(array.shape)]
    shape = array.chunk
    total = math.prod(shape) * array.dtype.itemsize
    key = array.object_key(*(i * c // h for i, c, h in zip(index, array.chunk, array.held, strict=True)))
    if source.size(key) is None:
        return StoredObject(key, max(total, 1), total, None, None, _same)

    def decode(stored: Any, expected: int) -> Block:  # noqa: ARG001
        found = reader.chunk(index)
        whole = np.full(shape, array.fill_value, array.dtype)
        if found is not None:
            whole[tuple(slice(0, n) for n in found.shape)] = found
        return whole.reshape(-1).view(np.uint8)

    return StoredObject(key, total, total, _at(0), _at(0), decode)
