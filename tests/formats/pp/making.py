"""PP files made by hand, with `struct` and NumPy alone."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from cfagg.formats.pp.fields import INTEGERS, WORDS


def words(size: int = 4, order: str = ">", **values: float) -> bytes:
    """Return a header: a global field of 2 x 3 reals of 4 bytes, but for the words that are given by name."""
    given: dict[str, float] = {
        "LBYR": 2001, "LBMON": 1, "LBDAT": 1, "LBLREC": 6, "LBCODE": 1, "LBROW": 2, "LBNPT": 3, "LBREL": 2,
        "LBUSER1": 1, "BMDI": -1e30, "BMKS": 1.0, "BZY": -90.0, "BDY": 60.0, "BDX": 120.0, **values,
    }  # fmt: skip
    integers, reals = np.zeros(INTEGERS, f"{order}i{size}"), np.zeros(64 - INTEGERS, f"{order}f{size}")
    for name, value in given.items():
        number = WORDS[name]
        if number < INTEGERS:
            integers[number] = value
        else:
            reals[number - INTEGERS] = value
    return integers.tobytes() + reals.tobytes()


def record(data: bytes, order: str = ">", marker: int = 4) -> bytes:
    """Return a record between its markers."""
    around = struct.pack(order + {4: "I", 8: "Q"}[marker], len(data))
    return around + data + around


def field(
    data: bytes | np.ndarray[Any, Any] | Sequence[float] = (1, 2, 3, 4, 5, 6),
    size: int = 4,
    order: str = ">",
    marker: int | None = None,
    **values: float,
) -> bytes:
    """Return the two records of a field; an array or a sequence is stored as reals."""
    stored = data if isinstance(data, bytes) else np.asarray(data).astype(f"{order}f{size}").tobytes()
    marker = marker or size
    header: Mapping[str, float] = {"LBLREC": len(stored) // size, **values}
    return record(words(size, order, **header), order, marker) + record(stored, order, marker)


def runs(values: Iterable[float], missing: float) -> list[float]:
    """Return values packed by the run lengths of missing ones (LBPACK 4)."""
    packed: list[float] = []
    for value, run in groupby(values):
        n = len(list(run))
        packed += [missing, n] if value == missing else [value] * n
    return packed


def fields_file(
    fields: Sequence[tuple[Mapping[str, float], bytes]],
    size: int = 8,
    order: str = ">",
    *,
    entries: int | None = None,
    entry: int = 64,
    placed: bool = True,
) -> bytes:
    """Return a fields file; unless `placed`, its headers do not say where data are.  Unused entries end its table."""
    entries = len(fields) + 1 if entries is None else entries
    fixed = np.full(256, -32768, f"{order}i{size}")
    data = 256 + entry * entries
    fixed[[0, 1, 4, 149, 150, 151, 159]] = [20, 1, 3, 257, entry, entries, data + 1]
    table = np.full((entries, entry * size), 0, "u1")
    body = b""
    for row, (values, stored) in zip(table, fields, strict=False):
        places = {"LBEGIN": data + len(body) // size, "LBNREC": -(-len(stored) // size)} if placed else {}
        header = words(size, order, **{"LBLREC": -(-len(stored) // size), **places, **values})
        row[: len(header)] = np.frombuffer(header, "u1")
        body += stored + b"\0" * (-len(stored) % size)
    for row in table[len(fields) :]:
        row[:] = np.frombuffer(np.full(entry, -99, f"{order}i{size}").tobytes(), "u1")
    return fixed.tobytes() + table.tobytes() + body
