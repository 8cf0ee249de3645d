"""Footers of Parquet files made byte by byte: those that would be read for ever, or too deeply, are refused."""

from __future__ import annotations

import pytest

from cfagg.errors import SourceError
from cfagg.formats import parquet_pages
from cfagg.formats.parquet_pages import check_pages

NUMBER, LIST, STRUCTURE = 6, 9, 12


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def structure(**fields: tuple[int, bytes]) -> bytes:
    """Return a structure of fields, named by `f` and their numbers, in Thrift's compact protocol."""
    found, before = b"", 0
    for name, (kind, value) in fields.items():
        found += bytes([int(name[1:]) - before << 4 | kind]) + value
        before = int(name[1:])
    return found + b"\0"


def number(n: int) -> tuple[int, bytes]:
    return NUMBER, varint(2 * n)


def several(kind: int, *values: bytes) -> tuple[int, bytes]:
    return LIST, bytes([len(values) << 4 | kind]) + b"".join(values)


def file(columns: int, *, shared: bool) -> bytes:
    """Return a file of columns of one page each, or of one page that all of them share."""
    page = structure(f2=number(0), f3=number(0), f5=(STRUCTURE, structure(f1=number(1))))
    start = [4 if shared else 4 + k * len(page) for k in range(columns)]
    metas = [structure(f5=number(1), f7=number(len(page)), f9=number(at)) for at in start]
    group = structure(
        f1=several(STRUCTURE, *(structure(f3=(STRUCTURE, meta)) for meta in metas)),
        f3=number(1),
    )
    footer = structure(f3=number(1), f4=several(STRUCTURE, group))
    return b"PAR1" + page * (1 if shared else columns) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_pages_that_columns_share_are_not_counted_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    check_pages(file(3, shared=False))
    counted = []
    real = parquet_pages._counted
    monkeypatch.setattr(parquet_pages, "_counted", lambda *a: (counted.append(1), real(*a))[1])
    with pytest.raises(SourceError, match="its footer is damaged"):
        check_pages(file(14, shared=True))
    assert len(counted) == 1


def test_lists_in_lists_are_refused_before_they_are_too_deep_for_python() -> None:
    footer = b"\x19" * 5000
    with pytest.raises(SourceError, match="its footer is damaged"):
        check_pages(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
