"""Records of scanned files as bytes, so that an aggregation grows without scanning them again.

Nothing is pickled, and nothing read is trusted: each node is checked, as are the types of fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from cfagg.aggregation.record_nodes import (
    MAGIC,
    MAX_DEPTH,
    MAX_WEIGHT,
    SUM,
    WITH_BYTES,
    Makers,
    Node,
    Tag,
    checksum,
)
from cfagg.aggregation.record_types import schema
from cfagg.aggregation.record_writing import encode, encode_beside
from cfagg.aggregation.scanning import Scanned
from cfagg.errors import ConventionError

__all__ = ["decode", "encode", "extend"]


def extend(
    own: Sequence[bytes], shared: bytes, parts: set[int], new: Iterable[Scanned]
) -> tuple[list[bytes], bytes] | None:
    """Return the records of `decode` followed by those of new files, as `encode` returns them for all files together.

    `None` if new files have something in common with single files, so that all have to be encoded again.
    """
    found, common = encode_beside(_parsed(shared[:-SUM], len(MAGIC) + SUM)[0], new)
    count = _count(shared, len(MAGIC) + SUM)[0]
    # The record of a file that cannot be recorded is empty.
    if common != shared or not all(found) or any(parts & _parts(_parsed(one, 0)[0], count) for one in found):
        return None
    return [*own, *found], shared


def _parts(nodes: Iterable[Node], common: int) -> set[int]:
    """Return hashes of the nodes of a file that refer to shared ones only: without an equal one, no other is equal."""
    return {hash(node) for node in nodes if all(k < common for k in node[1])}


def decode(records: Sequence[bytes], shared: bytes, parts: set[int] | None = None) -> list[Scanned | None]:
    """Return the recorded files, with `None` for those that could not be recorded; `parts` gets what `extend` needs.

    Raises
    ------
    ConventionError
        If the bytes are damaged, of another version, or do not belong together.
    """
    head = len(MAGIC) + SUM
    if shared[: len(MAGIC)] != MAGIC or len(shared) < head + SUM:
        raise ConventionError("the record of scanned files was not written by cfagg")
    if shared[len(MAGIC) : head] != schema():
        raise ConventionError("the record of scanned files was written by another version of cfagg")
    nodes = _Nodes()
    nodes.read(_checked(shared, b""), head, whole=True)
    common = len(nodes.values)
    out: list[Scanned | None] = []
    for number, record in enumerate(records):
        if not record:
            out.append(None)
            continue
        try:
            root = nodes.read(_checked(record, shared[-SUM:]), 0)
        except ConventionError as error:
            raise ConventionError(f"record {number}: {error.message}") from error
        if not isinstance(root, Scanned):
            raise ConventionError(f"record {number} does not describe a scanned file")
        out.append(root)
        if parts is not None:
            parts |= _parts(nodes.nodes, common)
        nodes.forget(common)
    return out


def _checked(data: bytes, key: bytes) -> bytes:
    """Return bytes without their checksum, after verifying it."""
    body = data[:-SUM]
    if checksum(body, key) != data[-SUM:]:
        raise ConventionError("the record of scanned files is damaged: its checksum differs")
    return body


class _Nodes:
    """Values by node number, with the depth and number of values of each; those of the shared part come first."""

    def __init__(self) -> None:
        #: Those that were read last.
        self.nodes: list[Node] = []
        self.values: list[Any] = []
        self._depths: list[int] = []
        self._weights: list[int] = []
        self._makers = Makers()

    def forget(self, count: int) -> None:
        """Drop all nodes except the first ones."""
        for one in (self.values, self._depths, self._weights):
            del one[count:]

    def read(self, data: bytes, at: int, *, whole: bool = False) -> Any:
        """Read nodes, to the end of the data if these are `whole`, else up to a number, whose value is returned."""
        try:
            at = self._read(data, at)
            root = None
            if not whole:
                number, at = _number(data, at)
                root = self.values[number]
        except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError, struct.error) as error:
            raise ConventionError(f"the record of scanned files is invalid: {error}") from error
        if at != len(data):
            raise ConventionError("the record of scanned files has too few or too many bytes")
        return root

    def _read(self, data: bytes, at: int) -> int:
        """Read nodes from a position on, and return where they end; damaged data raise some error."""
        values, depths, weights, make = self.values, self._depths, self._weights, self._makers.make
        self.nodes, at = _parsed(data, at)
        for tag, numbers, raw in self.nodes:
            kids: list[Any] = []
            depth = weight = 0
            for k in numbers:
                kids.append(values[k])
                weight += weights[k]
                depth = max(depth, depths[k])
            if depth > 2 * MAX_DEPTH or weight > MAX_WEIGHT:
                raise ValueError("it holds more than files can")
            values.append(make(tag, kids, raw))
            depths.append(depth + 1)
            weights.append(weight + 1)
        return at


def _parsed(data: bytes, at: int) -> tuple[list[Node], int]:
    """Return the nodes from a position on, and where they end; damaged data raise some error."""
    nodes: list[Node] = []
    count, at = _count(data, at)
    for _ in range(count):
        tag = data[at]
        at += 1
        numbers: list[int] = []
        if tag >= Tag.TUPLE:
            number, at = _count(data, at)
            for _ in range(number):
                # Most numbers have one or two bytes.
                k = data[at]
                at += 1
                if k > 127:
                    k, at = _number(data, at - 1)
                numbers.append(k)
        raw = b""
        if tag in WITH_BYTES:
            size, at = _count(data, at)
            raw = data[at : at + size]
            at += size
        nodes.append((tag, tuple(numbers), raw))
    return nodes, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends: seven bits per byte, lowest first."""
    value = shift = 0
    while shift < 63:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number is too large")


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of items that follow, each of at least one byte, and where the number ends."""
    value, at = _number(data, at)
    if value > len(data) - at:
        raise ValueError("it ends too early")
    return value, at
