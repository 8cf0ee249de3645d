"""Partial sums of chunks on disk before they are summed over the chunks, and the journal of finished chunks.

There is one file for each kind of partial sum and combination of dimensions; the number of a chunk determines the
position of its sums.  They are written by one system call, so that a full disk is an error and not a signal, and the
partial sums of neighbouring chunks are read together.

The journal, from which a killed build is finished, has two more files: ``identity``, a JSON object that describes the
build, and ``records``, one record of fixed length per chunk.  A record is written after all partial sums of its chunk.
It contains its own checksum, so that an incomplete one is ignored.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.recipe import Axes, Field, Window
from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.runtime.publishing import read_own, write_synced
from cfagg.storage.positioned import MOST, fill_at, read_at

__all__ = ["Journal", "PassingJournal", "PassingScratch", "Scratch"]


class Scratch:
    """The files of partial sums, in an existing folder."""

    def __init__(self, folder: Path, window: Window, fields: tuple[Field, ...]) -> None:
        self.window = window
        self._files: dict[Field, int] = {}
        self._sizes: dict[Axes, npt.NDArray[np.int64]] = {}
        self._places: dict[Axes, npt.NDArray[np.int64]] = {}
        self._bounds: dict[Axes, tuple[npt.NDArray[np.int64], ...]] = {}
        for axes in dict.fromkeys(f.axes for f in fields):
            self._sizes[axes] = window.sizes(axes)
            self._places[axes] = np.concatenate([[0], np.cumsum(self._sizes[axes])])
            self._bounds[axes] = window.bounds(axes)
        for f in fields:
            self._files[f] = self._opened(folder, f)
            # Parts that are never written are read as zeros and need no space.
            os.ftruncate(self._files[f], int(self._places[f.axes][-1]) * np.dtype(f.dtype).itemsize)

    def _opened(self, folder: Path, field: Field) -> int:
        return os.open(folder / field.file, os.O_RDWR | os.O_CREAT, 0o666)

    def write(self, field: Field, numbers: npt.NDArray[np.int64], parts: npt.NDArray[np.uint8]) -> None:
        """Write the parts of some chunks in ascending order, one row of bytes for each."""
        places = self._places[field.axes][numbers] * np.dtype(field.dtype).itemsize
        for a, b in _runs(numbers):
            part, place = memoryview(parts[a:b].reshape(-1)), int(places[a])
            while part:
                count = os.pwrite(self._files[field], part[:MOST], place)
                part, place = part[count:], place + count

    def part(self, field: Field, number: int) -> bytes:
        """Return the bytes of the part of one chunk."""
        itemsize = np.dtype(field.dtype).itemsize
        size = int(self._sizes[field.axes][number]) * itemsize
        return read_at(self._files[field], size, int(self._places[field.axes][number]) * itemsize)

    def read(self, field: Field, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any]:
        """Return partial sums of a box; its positions are chunks along the field's axes, elements along others."""
        bounds = self._bounds[field.axes]
        out = np.empty([b - a for a, b in box], field.dtype)
        if not out.size:
            return out
        touched = [
            (int(np.searchsorted(e, a, side="right")) - 1, int(np.searchsorted(e, b, side="left")))
            for e, (a, b) in zip(bounds, box, strict=True)
        ]
        matrix = self.window.matrix_shape
        # Dimensions after `depth` are read whole, so the parts from there on are contiguous in the file.
        depth = len(matrix) - 1
        while depth and touched[depth] == (0, matrix[depth]):
            depth -= 1
        for outer in np.ndindex(*(b - a for a, b in touched[:depth])):
            lead = tuple(i + a for i, (a, _) in zip(outer, touched[:depth], strict=True))
            self._read_run(field, lead, touched[depth:], bounds, box, out)
        return out

    def _read_run(
        self,
        field: Field,
        lead: tuple[int, ...],
        touched: list[tuple[int, int]],
        bounds: tuple[npt.NDArray[np.int64], ...],
        box: tuple[tuple[int, int], ...],
        out: npt.NDArray[Any],
    ) -> None:
        """Copy the parts of chunks that are contiguous in the file to their places in `out`."""
        matrix, places = self.window.matrix_shape, self._places[field.axes]
        ranges = [range(i, i + 1) for i in lead] + [range(a, b) for a, b in touched]
        first = int(np.ravel_multi_index([r[0] for r in ranges], matrix))
        last = int(np.ravel_multi_index([r[-1] for r in ranges], matrix))
        origin = int(places[first])
        raw = np.empty(int(places[last + 1]) - origin, field.dtype)
        _read_exactly(self._files[field], memoryview(raw.view(np.uint8)), origin * raw.itemsize)
        cuts = [e[r.start : r.stop + 1] for e, r in zip(bounds, ranges, strict=True)]
        inside = all(low <= e[0] and e[-1] <= high for e, (low, high) in zip(cuts, box, strict=True))
        # Chunks have equal lengths, except for the last row, which may be shorter.
        for head in _rows(cuts):
            rows = cuts[0][head.start : head.stop + 1]
            begin = int(places[first + head.start * math.prod(map(len, ranges[1:]))]) - origin
            block = raw[begin:]
            edges = [rows, *cuts[1:]]
            lengths = [np.diff(e) for e in edges]
            if inside and all((n == n[0]).all() for n in lengths):
                counts, sizes = [len(n) for n in lengths], [int(n[0]) for n in lengths]
                _lay_out(block, counts, sizes, [int(e[0]) - low for e, (low, _) in zip(edges, box, strict=True)], out)
            else:
                _lay_out_each(block, edges, box, out)

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popitem()[1])


class PassingScratch(Scratch):
    """Partial sums in unnamed files, in memory if the system supports it."""

    def _opened(self, folder: Path, field: Field) -> int:
        if hasattr(os, "memfd_create"):
            return os.memfd_create(field.file)
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.dup(file.fileno())


class PassingJournal:
    """Records of chunks in memory, for a build that is not resumed."""

    def __init__(self, count: int, dtype: np.dtype[Any]) -> None:
        self.records = np.zeros(count, dtype)

    def add(self, records: npt.NDArray[Any]) -> None:
        """Store the records of some chunks."""
        self.records[records["number"]] = records


def _runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Return where runs of consecutive ascending numbers begin and end."""
    if numbers.size and numbers[-1] - numbers[0] == numbers.size - 1:
        return iter([(0, numbers.size)])
    return pairwise([0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)])


def _rows(cuts: list[npt.NDArray[np.int64]]) -> list[range]:
    """Return the chunks along the first dimension as runs of equal length."""
    lengths = np.diff(cuts[0])
    starts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    return [range(a, b) for a, b in pairwise(starts)]


def _lay_out(
    raw: npt.NDArray[Any], counts: list[int], sizes: list[int], places: list[int], out: npt.NDArray[Any]
) -> None:
    """Copy consecutive parts of equal shape to their adjacent places."""
    parts = raw[: math.prod(counts) * math.prod(sizes)].reshape(*counts, *sizes)
    target = out[tuple(slice(p, p + n * m) for p, n, m in zip(places, counts, sizes, strict=True))]
    # Splitting an axis in two gives a view for any strides.
    strides = [m * s for m, s in zip(sizes, target.strides, strict=True)] + list(target.strides)
    np.lib.stride_tricks.as_strided(target, (*counts, *sizes), strides)[...] = parts


def _lay_out_each(
    raw: npt.NDArray[Any], edges: list[npt.NDArray[np.int64]], box: tuple[tuple[int, int], ...], out: npt.NDArray[Any]
) -> None:
    """Copy those pieces of consecutive parts of any shapes that are in the box to their places."""
    begin = 0
    for place in np.ndindex(*(len(e) - 1 for e in edges)):
        starts = [int(e[i]) for e, i in zip(edges, place, strict=True)]
        stops = [int(e[i + 1]) for e, i in zip(edges, place, strict=True)]
        shape = [b - a for a, b in zip(starts, stops, strict=True)]
        size = math.prod(shape)
        part = raw[begin : begin + size].reshape(shape)
        begin += size
        source, target = [], []
        for a, b, (low, high) in zip(starts, stops, box, strict=True):
            source.append(slice(max(low - a, 0), min(high, b) - a))
            target.append(slice(max(a - low, 0), min(high, b) - low))
        out[tuple(target)] = part[tuple(source)]


def _read_exactly(file: int, into: memoryview, place: int) -> None:
    """Fill memory from a file that is long enough."""
    if fill_at(file, into, place) < into.nbytes:
        raise OSError(5, "partial sums end too early", None)


#: Version of the journal; older journals cannot be resumed.
FORMAT = "cfagg accumulation 3"


def _identified(identity: Mapping[str, Any], count: int) -> dict[str, Any]:
    return {"format": FORMAT, "identity": dict(identity), "chunks": count}


def _identity_in(folder: Path) -> dict[str, Any]:
    """Return the identity of the build in a folder, or an empty one if it cannot be read."""
    try:
        found = json.loads(read_own(folder / "identity"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Journal:
    """An open journal of `count` chunks, with records of type `dtype`."""

    def __init__(self, folder: Path, count: int, dtype: np.dtype[Any]) -> None:
        self.count, self.dtype = count, dtype
        self._path = folder / "records"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    @classmethod
    def create(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Start a journal."""
        (folder / "records").unlink(missing_ok=True)
        write_synced(folder / "identity", json.dumps(_identified(identity, count)).encode())
        return cls(folder, count, dtype)

    @classmethod
    def resume(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Continue a journal; refuse one of another build (another array, other options or another version)."""
        found = _identity_in(folder)
        if found.get("format") != FORMAT:
            raise TargetError(
                f"{folder}: the unfinished accumulation was begun by another version of cfagg; start again with "
                "overwrite=True (--overwrite)"
            )
        old = found.get("identity")
        old = old if isinstance(old, dict) else {}
        names = [k for k in identity if old.get(k) != identity[k]]
        if names or found.get("chunks") != count:
            raise TargetError(
                f"{folder}: the unfinished accumulation was begun with different settings "
                f"({', '.join(names) or 'chunks'}) and cannot be resumed with these; repeat the original options, or "
                "start again with overwrite=True (--overwrite)"
            )
        return cls(folder, count, dtype)

    @staticmethod
    def array_in(folder: Path) -> Any:
        """Return the path of the array of a journal, or `None` if it is unknown."""
        found = _identity_in(folder).get("identity")
        array = found.get("array") if isinstance(found, dict) else None
        return array[0] if isinstance(array, list) and array else None

    @staticmethod
    def belongs(folder: Path, identity: Mapping[str, Any], count: int) -> bool:
        """Return whether there is a journal of exactly this build."""
        return _identity_in(folder) == _identified(identity, count)

    def add(self, records: npt.NDArray[Any]) -> None:
        """Write records of chunks in ascending order, after their partial sums; their checksums are set here."""
        records["check"] = 0
        raw = records.view(np.uint8).reshape(len(records), -1)
        records["check"] = [_sum(record) for record in raw]
        for a, b in _runs(records["number"]):
            part = memoryview(raw[a:b].reshape(-1))
            if os.pwrite(self._file, part, int(records["number"][a]) * self.dtype.itemsize) != len(part):
                raise OSError(28, os.strerror(28), str(self._path))

    def read(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return all records, and which of them are complete."""
        records = np.zeros(self.count, self.dtype)
        held = np.fromfile(self._path, self.dtype, count=self.count)
        records[: len(held)] = held
        good = np.zeros(self.count, bool)
        bare = records.copy()
        bare["check"] = 0
        raw, size = memoryview(bare.view(np.uint8)) if self.count else memoryview(b""), self.dtype.itemsize
        # A record that was never written is all zeros, and a checksum is never 0.
        for i in np.flatnonzero(records["check"]).tolist():
            good[i] = records["number"][i] == i and _sum(raw[i * size : (i + 1) * size]) == records["check"][i]
        return records, good

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _sum(record: Any) -> int:
    """Return the checksum of a record, which is never 0."""
    return crc32(record) or 1
