"""PP files made by hand, with `struct` and NumPy alone."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
