"""The page headers of a Parquet file, checked before a library allocates memory for the pages.

A page of ten bytes may contain any number of equal values, and Arrow aborts the process if some parts of a footer
contradict each other.  So all pages are counted here, and nothing else in the footer is used.

Source: Apache Parquet, "File Format" and ``parquet.thrift``; Apache Thrift, "Thrift compact protocol encoding".
"""

from __future__ import annotations

from typing import Any

from cfagg.errors import SourceError

__all__ = ["UNPACKED", "VALUES", "check_pages"]

#: Most values of all columns, and bytes of all decompressed pages.
VALUES, UNPACKED = 2**28, 2**32

#: Most levels of nested structures.
_DEPTH = 16

_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12

#: Numbers of fields in Thrift's structures.
_ROWS, _GROUPS = 3, 4
_COLUMNS, _GROUP_ROWS = 1, 3
_FILE, _META = 1, 3
_COUNT, _PACKED, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
_SIZE, _STORED, _PAGE, _DICTIONARY, _PAGE_2 = 2, 3, 5, 7, 8


def check_pages(data: bytes, most: int = VALUES, most_bytes: int = UNPACKED) -> None:
    """Raise an error if a Parquet file has too many values or bytes, or its pages are not where it claims."""
    try:
        _check(data, most, most_bytes)
    except SourceError:
        raise
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise SourceError("its footer is damaged") from error


def _check(data: bytes, most: int, most_bytes: int) -> None:
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    about = _Thrift(data, end).structure()
    groups = about[_GROUPS]
    if sum(group[_GROUP_ROWS] for group in groups) != about[_ROWS]:
        raise ValueError("rows")
    values = unpacked = packed = 0
    for group in groups:
        for column in group[_COLUMNS]:
            if _FILE in column:
                raise SourceError("its values are in another file")
            meta = column[_META]
            # Some writers use the position 0 if there is no dictionary.
            begin = min(meta[_DATA_AT], meta.get(_DICTIONARY_AT) or meta[_DATA_AT])
            packed += meta[_PACKED]
            # Columns that share pages would be counted again and again.
            if not 4 <= begin <= begin + meta[_PACKED] <= end or packed > end:
                raise ValueError("place")
            count, size = _counted(data, begin, begin + meta[_PACKED], most)
            if count != meta[_COUNT] or group[_GROUP_ROWS] > count:
                raise ValueError("count")
            values += count
            unpacked += size
            if values > most or unpacked > most_bytes:
                raise SourceError(f"it has {values:,} values or more in {unpacked:,} bytes, which is too many")


def _counted(data: bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """Return the number of values in the pages of a column, and their bytes."""
    count = size = 0
    while at < end:
        thrift = _Thrift(data, at)
        page = thrift.structure()
        if min(page[_SIZE], page[_STORED]) < 0:
            raise ValueError("size")
        size += page[_SIZE]
        kind = page.get(_PAGE) or page.get(_PAGE_2)
        found = (kind or page[_DICTIONARY])[1]
        if not 0 <= found <= most:
            raise SourceError("it has a page of too many values")
        count += found if kind else 0
        at = thrift.at + page[_STORED]
    if at != end:
        raise ValueError("end")
    return count, size


class _Thrift:
    """Reads structures from a position on, as dictionaries by field number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("a number")

    def _number(self) -> int:
        found = self._varint()
        return found >> 1 ^ -(found & 1)

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Return the structure that begins here."""
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._number()
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEPTH:
            raise ValueError("depth")
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if _I16 <= kind <= _I64:
            return self._number()
        if kind == _STRUCT:
            return self.structure(depth + 1)
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            self._check(count)
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _MAP:
            count = self._varint()
            self._check(count)
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(count)]
        raise ValueError("kind")

    def _check(self, count: int) -> None:
        """Raise an error for more elements than bytes."""
        if count > len(self._data) - self.at:
            raise ValueError("elements")

    def _skip(self, size: int) -> None:
        self._check(size)
        self.at += size
