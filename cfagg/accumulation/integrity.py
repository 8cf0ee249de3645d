"""Reading the arrays of a group, with checksums to verify that they are intact and of one build.

Every array records the name of its build.  The attributes of the group include a CRC-32C of each metadata document and
of themselves.  One array has the CRC-32C of all stored chunks, which are compared when a chunk is read.

A group that grows in place has two tables, to which rows are appended: the stamps of stored objects, and the checksums
of the chunks of the group's own arrays.  Each row has a key that identifies its object or chunk.  Final ("standing")
rows are never rewritten and have one checksum that each increment continues.  They are followed by "moving" rows, for
objects and chunks that the next increment may rewrite, such as a chunk that is not full.  The attributes of the group
give the number of rows of either kind; anything stored beyond them is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.conventions.accumulation import ArrayAttributes, parse_array
from cfagg.conventions.accumulation_record import Checks
from cfagg.errors import ConventionError, FragmentReadError, Problem, SourceError, UnsupportedError
from cfagg.formats.zarr.checksums import crc32c
from cfagg.formats.zarr.chunks import partial
from cfagg.formats.zarr.metadata import ZarrArray, open_array

__all__ = [
    "BUILD", "CHECKS", "ROWS", "STAMPS", "CheckedArray", "GrowingTable", "Rows", "SumsReader", "canonical", "checked",
    "document_crc", "extended", "find", "is_sealed", "keys", "moved", "numbered", "parsed", "read_region",
    "read_stored", "read_whole", "room", "sealed", "split", "takes_parts",
]  # fmt: skip

Box = tuple[tuple[int, int], ...]
Int64 = npt.NDArray[np.int64]

#: Rows in a chunk of a table; a chunk is rewritten when a row is appended to it.
ROWS = 1 << 11

#: Columns of a table: the key; then stamp and checksum of an object, or CRC-32C of a chunk.
STAMPS, CHECKS = 6, 2

#: Bits of a key for the number of an object or chunk; the higher bits are the number of the array.
_BITS = 44

#: Attribute of every array with the name of its build.
BUILD = "cfagg_build"

#: Attributes of an array that determine its elements.
_DECISIVE = ("_ACCUMULATION_STRIDE", BUILD)

#: Parts of ``zarr.json`` and ``.zarray`` that do not; attributes are checked separately.
_IDLE = ("attributes", "consolidated_metadata", "dimension_names")


def keys(which: int, numbers: npt.ArrayLike) -> Int64:
    """Return the keys of objects or chunks of an array from their numbers."""
    return np.asarray(numbers, np.int64) + (which << _BITS)


def split(found: Int64) -> tuple[Int64, Int64]:
    """Return the number of the array of each key, and the number of the object or chunk within it."""
    return found >> _BITS, found & ((1 << _BITS) - 1)


def moved[T](along: Sequence[T], axis: int) -> tuple[T, ...]:
    """Return the values of all axes with one axis first, the order in which growing arrays number their chunks."""
    return (along[axis], *along[:axis], *along[axis + 1 :])


def room(rows: int) -> int:
    """Return the length of a table for a number of rows, rounded up to whole chunks."""
    return max(1, -(-rows // ROWS)) * ROWS


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table: those that are final from now on, and those that the next increment may rewrite."""

    standing: Int64
    moving: Int64

    @classmethod
    def cut(cls, rows: Int64, count: int) -> Rows:
        """Return rows of which the first `count` are final, none if it is negative."""
        return cls(rows[: max(count, 0)], rows[max(count, 0) :])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts."""
        return cls(np.concatenate([p.standing for p in parts]), np.concatenate([p.moving for p in parts]))


def _rows_crc(rows: Int64, before: int = 0) -> int:
    return crc32c(np.ascontiguousarray(rows, "<i8").tobytes(), before)


@dataclass(frozen=True, eq=False)
class GrowingTable:
    """A stored table, and its record in the attributes of the group."""

    array: ZarrArray
    #: Number of final rows and their CRC-32C, then the number of the other rows and their CRC-32C.
    record: tuple[int, int, int, int]

    @cached_property
    def moving(self) -> Int64:
        """The rows that the next increment may rewrite."""
        return self._checked(self._last[self.record[0] % ROWS :], self.record[3])

    @cached_property
    def standing(self) -> Int64:
        """The final rows."""
        final = self.record[0]
        return self._checked(self._last[:final] if final < ROWS else self._read(0, final), self.record[1])

    @cached_property
    def rows(self) -> Int64:
        """All rows."""
        return np.concatenate([self.standing, self.moving])

    @cached_property
    def _crcs(self) -> dict[int, int]:
        return dict(self.standing.tolist())

    @cached_property
    def _moving_crcs(self) -> dict[int, int]:
        return dict(self.moving.tolist())

    def crc(self, which: int, number: int) -> int | None:
        """Return the CRC-32C of a chunk, or `None` if there is none."""
        key = (which << _BITS) + number
        found = self._moving_crcs.get(key)
        return self._crcs.get(key) if found is None else found

    @property
    def before(self) -> Int64:
        """The final rows of the chunk in which the moving rows begin, without comparing checksums."""
        return self._last[: self.record[0] % ROWS]

    @cached_property
    def _last(self) -> Int64:
        """All rows from the start of the chunk in which the moving rows begin, read at once."""
        final, _, count, _ = self.record
        return self._read(final // ROWS * ROWS, final + count)

    def _read(self, start: int, stop: int) -> Int64:
        if stop <= start:
            return np.empty((0, self.array.shape[1]), np.int64)
        found: Int64 = ZarrReader(self.array, workers=1).read([slice(start, stop), slice(None)])
        return found

    def _checked(self, rows: Int64, crc: int) -> Int64:
        if _rows_crc(rows) != crc:
            raise FragmentReadError(
                f"{self.array.store}: the accumulation is damaged, or being extended: rows of {self.array.path!r} do "
                "not have the checksum that the group records; try again, and if that does not help, rebuild it with "
                "cfagg accumulate --overwrite"
            )
        rows.flags.writeable = False
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {"array": self.array, "record": self.record}


def extended(table: GrowingTable | None, rows: Rows) -> tuple[int, Int64, tuple[int, int, int, int]]:
    """Return the first chunk of a table to write, the rows from there onwards, and the new record of the table."""
    final, crc = (0, 0) if table is None else table.record[:2]
    head = np.empty((0, rows.standing.shape[1]), np.int64) if table is None else table.before
    record = (final + len(rows.standing), _rows_crc(rows.standing, crc), len(rows.moving), _rows_crc(rows.moving))
    return final // ROWS, np.concatenate([head, rows.standing, rows.moving]), record


@dataclass(frozen=True, eq=False)
class CheckedArray(ZarrArray):
    """An array of a group, with the checksums of its chunks."""

    #: CRC-32C of its chunks in C order, if `book` has none.
    own: tuple[int, ...] = field(default=(), repr=False)
    #: Either the checksums of the chunks of all arrays, in which those of this array begin at `first`; or a growing
    #: table, in which `first` is the number of this array, and chunks are counted with the axis `grows` first.
    book: CheckedArray | GrowingTable | None = field(default=None, repr=False)
    first: int = field(default=0, repr=False)
    grows: int | None = field(default=None, repr=False)

    @cached_property
    def table(self) -> npt.NDArray[np.uint32]:
        """The checksums stored in this array, read once for all arrays."""
        return read_whole(self)

    def crc(self, index: Sequence[int]) -> int:
        """Return the CRC-32C that a stored chunk must have."""
        if isinstance(self.book, GrowingTable):
            found = self.book.crc(self.first, numbered(index, self.grid.matrix_shape, self.grows))
            if found is None:
                raise _damaged(self, tuple(index), "has no checksum")
            return found
        place = chunk_number(index, self.grid.matrix_shape)
        try:
            return self.own[place] if self.book is None else int(self.book.table[self.first + place])
        except IndexError:
            raise _damaged(self, tuple(index), "has no checksum") from None


def chunk_number(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the number of a chunk in C order."""
    place = 0
    for i, n in zip(index, shape, strict=True):
        place = place * n + int(i)
    return place


def numbered(index: Sequence[int], shape: Sequence[int], grows: int | None) -> int:
    """Return the number of a chunk in C order, with the growing axis first."""
    return chunk_number(index, shape) if grows is None else chunk_number(moved(index, grows), moved(shape, grows))


class SumsReader(ZarrReader):
    """A reader of an array of a group, which refuses missing chunks and, in cfagg's own groups, damaged ones."""

    def __init__(self, array: ZarrArray) -> None:
        # One worker, since sums are read by several threads already.
        super().__init__(array, workers=1)

    def chunk(
        self,
        index: Sequence[int],
        box: tuple[slice, ...] | None = None,
        seen: Callable[[Any], None] | None = None,  # noqa: ARG002
    ) -> npt.NDArray[Any]:
        """Return a chunk, or a box of it, after comparing the checksum of the whole chunk if there is one."""
        array = self.array
        if not isinstance(array, CheckedArray):
            chunk = super().chunk(index, box)
            if chunk is None:
                place = f"{array.folder}/{array.key(array.object_of(index))}"
                raise FragmentReadError(
                    f"{array.store}: the accumulation is damaged: {array.path!r} has no chunk {tuple(map(int, index))} "
                    f"({place}); rebuild it with cfagg accumulate --overwrite"
                )
            return chunk

        def compare(stored: Any) -> None:
            if crc32c(stored) != array.crc(index):
                raise _damaged(array, index, "does not have the checksum of what was written")

        chunk = super().chunk(index, None, compare)
        if chunk is None:
            raise _damaged(array, index, "is not stored")
        return chunk if box is None else chunk[box]


def _damaged(array: ZarrArray, index: Sequence[int], problem: str) -> FragmentReadError:
    return FragmentReadError(
        f"{array.store}: the accumulation is damaged: chunk {tuple(map(int, index))} of {array.path!r} "
        f"({array.folder}/{array.key(index)}) {problem}; rebuild it with cfagg accumulate --overwrite"
    )


def checked(
    array: ZarrArray,
    checks: Checks,
    book: ZarrArray | GrowingTable | None,
    problems: list[Problem],
    grows: int | None = None,
) -> CheckedArray:
    """Return an array with the checksums of its chunks, and note problems if it is not the one that was written."""
    name = array.name
    values = {f.name: getattr(array, f.name) for f in fields(ZarrArray)}
    build = array.attributes.get(BUILD)
    if build != checks.build:
        problems.append(Problem(name, f"is of build {build!r}, but the group is of build {checks.build!r}"))
    own, place = checks.own.get(name), checks.places.get(name)
    if own is not None:
        expected, count, out = own[0] if own else -1, len(own) - 1, CheckedArray(**values, own=own[1:])
    elif place is not None and isinstance(book, GrowingTable):
        first, count, expected = place
        out = CheckedArray(**values, book=book, first=first, grows=grows)
    elif place is not None and isinstance(book, CheckedArray):
        first, count, expected = place
        out = CheckedArray(**values, book=book, first=first)
        if first + count > book.size:
            problems.append(
                Problem(name, f"its checksums would be {first} to {first + count}, but there are {book.size}")
            )
    else:
        problems.append(Problem(name, "the group has no checksums of it"))
        return CheckedArray(**values)
    if count != array.grid.size and not (own is not None and isinstance(book, GrowingTable)):
        problems.append(Problem(name, f"has {array.grid.size} chunks, but checksums of {count}"))
    if document_crc(array.document, array.attributes, array.dims) != expected:
        problems.append(Problem(name, "its metadata are not those that were written"))
    return out


def document_crc(document: Mapping[str, Any], attributes: Mapping[str, Any], dims: Iterable[str]) -> int:
    """Return the CRC-32C of the metadata that determine the elements of an array; other attributes are ignored."""
    return _crc(
        {
            "document": {k: v for k, v in document.items() if k not in _IDLE},
            "attributes": {k: attributes[k] for k in _DECISIVE if k in attributes},
            "dims": list(dims),
        }
    )


def sealed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a group with their own checksum."""
    own = {k: v for k, v in attributes["cfagg"].items() if k != "crc"}
    return {**attributes, "cfagg": {**own, "crc": _seal(attributes)}}


def is_sealed(attributes: Mapping[str, Any]) -> bool:
    """Return whether the attributes of a group are those that were written."""
    own = attributes.get("cfagg")
    return isinstance(own, Mapping) and own.get("crc") == _seal(attributes)


def _seal(attributes: Mapping[str, Any]) -> int:
    own = {k: v for k, v in attributes["cfagg"].items() if k != "crc"}
    return _crc({"group": attributes.get("_ACCUMULATION_GROUP"), "cfagg": own})


def canonical(value: Any) -> str:
    """Return a JSON value as a string that does not depend on the order of keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _crc(value: Any) -> int:
    return crc32c(canonical(value).encode())


def read_stored(array: ZarrArray, index: Sequence[int], box: tuple[slice, ...] | None = None) -> npt.NDArray[Any]:
    """Return a chunk of an array of the group, or a box of it."""
    return SumsReader(array).chunk(index, box)


def takes_parts(array: ZarrArray) -> bool:
    """Return whether reading a box of a chunk reads no more than the bytes that the box needs."""
    return partial(array) and not isinstance(array, CheckedArray)


def read_whole(array: ZarrArray) -> npt.NDArray[Any]:
    """Return all elements of an array of the group; read-only."""
    reader = SumsReader(array)
    # Most of these arrays have one chunk, for which no plan is needed.
    out = reader.chunk((0,) * array.ndim) if array.grid.size == 1 else reader.read((slice(None),) * array.ndim)
    out.flags.writeable = False
    return out


def read_region(array: ZarrArray, box: Box) -> npt.NDArray[Any]:
    """Return a box of an array of the group, given by start and stop per dimension."""
    return SumsReader(array).read([slice(a, b) for a, b in box])


def parsed(
    array: ZarrArray, dims: Sequence[str], combination: Sequence[str], problems: list[Problem]
) -> ArrayAttributes | None:
    """Return the parsed attributes of an array of sums, or note conflicts with the convention or the group."""
    try:
        attributes = {**array.attributes, "_ARRAY_DIMENSIONS": list(array.dims)}
        return parse_array(attributes, ndim=array.ndim, dims=dims, combination=combination, source=array.name)
    except ConventionError as error:
        problems.extend(Problem(f"{array.name}.{p.where}", p.message) for p in error.problems)
        return None


def find(source: ZarrArray, path: str, name: str, problems: list[Problem]) -> ZarrArray | None:
    """Return an array of a group, or note why it cannot be opened."""
    try:
        return open_array(source.store, f"{path}/{name}", allow=source.allow)
    except (SourceError, UnsupportedError, ConventionError) as error:
        problems.append(Problem(name, str(error)))
        return None
