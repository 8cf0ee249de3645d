"""The links and attributes of HDF5 objects that have many: fractal heaps and version 2 B-trees.

Small ones only: a B-tree that is one leaf, a heap whose root block points at blocks of values.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from cfagg.formats.values.hdf5_bytes import UNDEFINED, Bytes, UnusualError

__all__ = ["Heap", "records"]

#: Bytes of a node of a tree: the HDF5 library takes memory for one on opening the tree.
_LARGEST = 1 << 20


class Heap:
    """A fractal heap.

    Parameters
    ----------
    file : Bytes
        The file.
    at : int
        Where the heap's header stands.

    Attributes
    ----------
    id_size : int
        Bytes of an object's identifier.

    Raises
    ------
    UnusualError
        If the heap is filtered, nested or damaged.
    """

    def __init__(self, file: Bytes, at: int) -> None:
        found = struct.unpack_from("<4sBHHBI12QHQQHHQH", file.checked(at, 146))
        mark, version, self.id_size, filters, self.flags, largest = found[:6]
        width, start, direct, bits, _, root, rows = found[18:]
        if mark != b"FRHP" or version or filters or not start or not width or bits > 64 or width > 64:
            raise UnusualError
        if start & (start - 1) or direct & (direct - 1) or width & (width - 1):
            raise UnusualError
        self.file, self.at = file, at
        self.offset_size = (bits + 7) // 8
        self.length_size = min(_bytes(direct), _bytes(largest))
        if self.id_size < 1 + self.offset_size + self.length_size:
            raise UnusualError
        # Per block: where in the heap, how long, where in the file.
        self.blocks: list[tuple[int, int, int]] = [(0, start, root)]
        if rows:
            self.blocks = list(self._rows(root, rows, width, start, direct))
        self._read: dict[int, bytes] = {}

    def _rows(self, root: int, rows: int, width: int, start: int, direct: int) -> Iterator[tuple[int, int, int]]:
        """Yield the blocks that the root block points at."""
        if rows > 32 or start << max(rows - 2, 0) > direct:
            raise UnusualError
        prefix = 13 + self.offset_size
        data = self.file.checked(root, prefix + 8 * rows * width + 4)
        if data[:5] != b"FHIB\0":
            raise UnusualError
        offset = 0
        for k, (at,) in enumerate(struct.iter_unpack("<Q", data[prefix:-4])):
            size = start << max(k // width - 1, 0)
            yield offset, size, at
            offset += size

    def get(self, identifier: bytes) -> bytes:
        """Return an object.

        Raises
        ------
        UnusualError
            If it stands elsewhere, or nowhere.
        """
        if identifier[0]:
            raise UnusualError
        end = 1 + self.offset_size
        offset = int.from_bytes(identifier[1:end], "little")
        length = int.from_bytes(identifier[end : end + self.length_size], "little")
        for begin, size, at in self.blocks:
            if begin <= offset and offset + length <= begin + size:
                return self._block(begin, size, at)[offset - begin : offset - begin + length]
        raise UnusualError

    def _block(self, begin: int, size: int, at: int) -> bytes:
        """Return a block of values."""
        data = self._read.get(begin)
        if data is None:
            if at == UNDEFINED:
                raise UnusualError
            data = self.file.take(at, size)
            prefix = 13 + self.offset_size
            if data[:5] != b"FHDB\0":
                raise UnusualError
            if self.flags & 2:
                plain = data[:prefix] + bytes(4) + data[prefix + 4 :]
                if self.file.checksum(plain) != int.from_bytes(data[prefix : prefix + 4], "little"):
                    raise UnusualError
            self._read[begin] = data
        return data


def records(file: Bytes, at: int, kind: int, size: int) -> Iterator[bytes]:
    """Yield the records of a version 2 B-tree that is one leaf.

    Parameters
    ----------
    file : Bytes
        The file.
    at : int
        Where the tree's header stands.
    kind : int
        Number of the kind of records.
    size : int
        Bytes of a record.

    Raises
    ------
    UnusualError
        If the tree is another, or damaged.
    """
    mark, version, found, node, each, depth, split, merge, root, count, total = struct.unpack_from(
        "<4sBBIHHBBQHQ", file.checked(at, 38)
    )
    if mark != b"BTHD" or version or found != kind or each != size or depth or count != total:
        raise UnusualError
    if not (0 < split <= 100 and 0 < merge <= 100) or not 10 + count * size <= node <= _LARGEST:
        raise UnusualError
    if root == UNDEFINED or not count:
        return
    leaf = file.checked(root, 6 + count * size + 4)
    if leaf[:6] != b"BTLF\0" + bytes([kind]):
        raise UnusualError
    for i in range(count):
        yield leaf[6 + i * size : 6 + (i + 1) * size]


def _bytes(number: int) -> int:
    """Return the bytes that a number up to `number` takes in an identifier."""
    return max(number.bit_length() - 1, 0) // 8 + 1
