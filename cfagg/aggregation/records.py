"""What is known of scanned files as bytes, so that others join them in an aggregation and these are not scanned again.

Nothing is pickled, and reading believes nothing: each node is checked, and so are the types of fields.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from cfagg.aggregation.record_nodes import LEAVES, MAGIC, MAX_DEPTH, MAX_WEIGHT, SUM, WITH_BYTES, checksum, value_of
from cfagg.aggregation.record_types import schema
from cfagg.aggregation.record_writing import encode
from cfagg.aggregation.scanning import Scanned
from cfagg.errors import ConventionError

__all__ = ["decode", "encode"]


def decode(records: Sequence[bytes], shared: bytes) -> list[Scanned | None]:
    """Return what was recorded; `None` for files that could not be.

    Raises
    ------
    ConventionError
        If the bytes are damaged, of another version, or do not belong together.
    """
    head = len(MAGIC) + SUM
    if shared[: len(MAGIC)] != MAGIC or len(shared) < head + SUM:
        raise ConventionError("what is recorded of scanned files is not what cfagg records")
    if shared[len(MAGIC) : head] != schema():
        raise ConventionError("what is recorded of scanned files was recorded by another version of cfagg")
    common = _Nodes()
    reader = _Reader(shared, head, b"")
    common.read(reader)
    reader.finish()
    out: list[Scanned | None] = []
    for number, record in enumerate(records):
        if not record:
            out.append(None)
            continue
        try:
            reader = _Reader(record, 0, shared[-SUM:])
            own = _Nodes(common)
            own.read(reader)
            root = own.at(reader.number())
            reader.finish()
        except ConventionError as error:
            raise ConventionError(f"record {number}: {error.message}") from error
        if not isinstance(root, Scanned):
            raise ConventionError(f"record {number} is not that of a scanned file")
        out.append(root)
    return out


class _Reader:
    """Bytes whose checksum is right, read from the beginning to the end."""

    def __init__(self, data: bytes, start: int, key: bytes) -> None:
        self._data = memoryview(data)[: max(len(data) - SUM, 0)]
        self.size = len(self._data)
        self._at = start
        if checksum(self._data, key) != data[-SUM:]:
            raise ConventionError("what is recorded of scanned files is damaged: its checksum is another")

    def number(self) -> int:
        """Read a count or a place."""
        value = shift = 0
        while shift < 63:
            byte = self.bytes(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ConventionError("what is recorded of scanned files has a number that is too large")

    def count(self) -> int:
        """Read how many things follow, each of a byte or more."""
        value = self.number()
        if value > self.size - self._at:
            raise ConventionError("what is recorded of scanned files ends too early")
        return value

    def bytes(self, count: int) -> memoryview:
        """Read bytes."""
        start, self._at = self._at, self._at + count
        if self._at > self.size:
            raise ConventionError("what is recorded of scanned files ends too early")
        return self._data[start : self._at]

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self._at != self.size:
            raise ConventionError("what is recorded of scanned files has bytes that belong to nothing")


class _Nodes:
    """Values by the numbers of their nodes, how deep each is and how many it holds; `common` ones come first."""

    def __init__(self, common: _Nodes | None = None) -> None:
        self._common = common
        self._first = 0 if common is None else len(common.values)
        self.values: list[Any] = []
        self.sizes: list[tuple[int, int]] = []

    def at(self, number: int) -> Any:
        """Return a value."""
        return self._in(number).values[number - (self._first if number >= self._first else 0)]

    def _in(self, number: int) -> _Nodes:
        if number >= self._first + len(self.values):
            raise ConventionError("what is recorded of scanned files refers to what is not there")
        return self if self._common is None or number >= self._first else self._common

    def read(self, reader: _Reader) -> None:
        """Read nodes."""
        for _ in range(reader.count()):
            tag = reader.bytes(1)[0]
            kids: list[Any] = []
            depth = weight = 0
            if tag not in LEAVES:
                for _ in range(reader.count()):
                    number = reader.number()
                    home = self._in(number)
                    place = number - (self._first if home is self else 0)
                    kids.append(home.values[place])
                    deep, heavy = home.sizes[place]
                    depth, weight = max(depth, deep), weight + heavy
            data = reader.bytes(reader.number()) if tag in WITH_BYTES else memoryview(b"")
            if depth > 2 * MAX_DEPTH or weight > MAX_WEIGHT:
                raise ConventionError("what is recorded of scanned files holds more than files do")
            try:
                self.values.append(value_of(tag, kids, data))
            except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError, struct.error) as error:
                raise ConventionError(f"what is recorded of scanned files is not possible: {error}") from error
            self.sizes.append((depth + 1, weight + 1))
