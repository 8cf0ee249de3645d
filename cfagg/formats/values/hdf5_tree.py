"""Positions of HDF5 chunks from a table of one node, without the HDF5 library.

Source: HDF5 File Format Specification, version 3, "Version 1 B-trees", node type 1.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Sequence

from cfagg.formats.hdf5.space import UNDEFINED
from cfagg.formats.values.located import Chunked

__all__ = ["MOST", "positions"]

#: Chunks of the largest table that is looked at.
MOST = 1024


def positions(
    handle: int, storage: Chunked, indices: Sequence[tuple[int, ...]]
) -> list[tuple[int, int | None, int]] | None:
    """Return filter mask, byte offset and stored size of chunks, or `None` where the library has to look itself.

    Parameters
    ----------
    handle : int
        A file descriptor for positioned reads.
    storage : Chunked
        The variable.  Only what the netCDF library usually writes has a table that is read here.
    indices : sequence of tuple of int
        Indices in the grid of chunks.

    Returns
    -------
    list of (int, int, int) or None
        As they stand in the file: they are not checked against its size.
    """
    if storage.tree is None:
        return None
    rank = len(storage.chunks)
    entry = struct.Struct(f"<II{rank + 1}QQ")
    try:
        prefix = os.pread(handle, 24, storage.tree)
        mark, count = struct.unpack_from("<6sH", prefix)
        if mark != b"TREE\1\0" or count > MOST:
            return None
        data = os.pread(handle, count * entry.size, storage.tree + 24)
        rows = list(entry.iter_unpack(data))
    except (OSError, OverflowError, struct.error):
        return None
    starts = [row[2:-2] for row in rows]
    if len(rows) != count or any(a >= b for a, b in itertools.pairwise(starts)):
        return None
    table = {row[2:-2]: row for row in rows if not row[-2]}
    found: list[tuple[int, int | None, int]] = []
    for index in indices:
        row = table.get(tuple(i * c for i, c in zip(index, storage.chunks, strict=True)))
        if row is None or row[-1] == UNDEFINED or not row[0]:
            return None
        found.append((row[1], row[-1], row[0]))
    return found
