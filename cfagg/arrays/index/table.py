"""An index in memory: a column for each property of files and of the variables in them.

*byte-offset index*: the chunk tables of many files, with evidence that the files have not changed since.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.headers import StoredHeader, read_header
from cfagg.arrays.index.rows import FileRow, FileState, Ragged, VariableRow
from cfagg.display.sizes import count_text
from cfagg.errors import ModelError
from cfagg.formats.values.storage import Contiguous, StoredVariable
from cfagg.model import Grid
from cfagg.model.chunks import ChunkTable
from cfagg.storage.files import FileKey
from cfagg.storage.urls import is_url

__all__ = ["Collected", "Index"]

Int64 = npt.NDArray[np.int64]

#: Rows of files that are converted to columns at once.
_TOGETHER = 256

#: Variables of a file up to which one is searched for among all.
_FEW = 16

#: Columns of an index by type: with a list, or an object, for each entry; and those with an entry per file.
_LISTS = frozenset({"ranges", "shape", "chunks", "cell", "offset", "length", "mask"})
_OBJECTS = frozenset({"path", "etag", "digest", "description", "address"})
_OF_FILES = frozenset({"path", "size", "mtime_ns", "ctime_ns", "inode", "etag", "digest", "ranges", "description"})
_COLUMNS = (
    *sorted(_OF_FILES),
    "file",
    "address",
    "header",
    "shape",
    "chunks",
    "record",
    "cell",
    "offset",
    "length",
    "mask",
)


@dataclass(frozen=True, eq=False)
class Index:
    """An index; columns of files have an entry per file, those of variables one per variable, in the order of files.

    `base` is the directory, or the URL of it, at which relative paths start. `shared` and `description` are for other
    parts of cfagg. `aggregation` is the digest of the aggregation file for which the index was written.
    """

    base: str
    path: Sequence[str]
    size: Int64
    mtime_ns: Int64
    ctime_ns: Int64
    inode: Int64
    etag: Sequence[str | None]
    digest: Sequence[bytes | None]
    ranges: Ragged
    description: Sequence[bytes | None]

    file: Int64  # index of the file of a variable, ascending
    address: Sequence[str]
    header: Int64  # index of its text in `headers`
    shape: Ragged
    chunks: Ragged
    record: Int64
    cell: Ragged  # empty if all chunks are stored
    offset: Ragged
    length: Ragged
    mask: Ragged  # empty if all chunks passed all codecs

    headers: Sequence[str] = ()
    shared: bytes = b""
    aggregation: str | None = None
    _parsed: dict[int, StoredHeader | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, rows: Iterable[FileRow], base: str = "", *, shared: bytes = b"", aggregation: str | None = None
    ) -> Index:
        """Return the index of some files."""
        files = list(rows)
        variables = [v for row in files for v in row.variables]
        path, state, digest, ranges, owned, description = zip(*files, strict=True) if files else ((),) * 6
        address, header, shape, chunks, record, cell, offset, length, mask = (
            zip(*variables, strict=True) if variables else ((),) * 9
        )
        codes = {text: n for n, text in enumerate(dict.fromkeys(header))}
        names: dict[str, str] = {}
        states = np.array([one[:4] for one in state], np.int64).reshape(-1, 4)
        none: tuple[int, ...] = ()
        size, mtime, ctime, inode = np.ascontiguousarray(states.T)
        return cls(
            base=base,
            path=path,
            size=size,
            mtime_ns=mtime,
            ctime_ns=ctime,
            inode=inode,
            etag=tuple(one.etag for one in state),
            digest=digest,
            ranges=Ragged.of(ranges),
            description=description,
            file=np.repeat(np.arange(len(files)), list(map(len, owned))),
            address=tuple(map(names.setdefault, address, address)),
            header=np.fromiter(map(codes.__getitem__, header), np.int64, len(header)),
            shape=Ragged.of(shape),
            chunks=Ragged.of(chunks),
            record=np.array(record, np.int64),
            cell=Ragged.of(none if one is None else one for one in cell),
            offset=Ragged.of(offset),
            length=Ragged.of(length),
            mask=Ragged.of(none if one is None else one for one in mask),
            headers=tuple(codes),
            shared=shared,
            aggregation=aggregation,
        )

    @classmethod
    def joined(cls, parts: Sequence[Index], base: str = "", **more: Any) -> Index:
        """Return the index of the files of several indexes, which are disjoint."""
        codes: dict[str, int] = {}
        names: dict[str, str] = {}
        headers = [[codes.setdefault(text, len(codes)) for text in one.headers] for one in parts]
        first = np.cumsum([0, *map(len, parts)])

        def ends(columns: Sequence[Ragged]) -> Ragged:
            bounds = [np.zeros(1, np.int64), *(np.diff(one.bounds) for one in columns)]
            return Ragged(np.concatenate([none, *(one.values for one in columns)]), np.cumsum(np.concatenate(bounds)))

        none = np.empty(0, np.int64)
        made: dict[str, Any] = {}
        for name in _COLUMNS:
            columns = [getattr(one, name) for one in parts]
            if name in _LISTS:
                made[name] = ends(columns)
            elif name in _OBJECTS:
                made[name] = tuple(itertools.chain.from_iterable(columns))
            else:
                made[name] = np.concatenate([none, *columns])
        made["path"] = tuple(
            one.path[i] if one.base == base else one.where(i) for one in parts for i in range(len(one))
        )
        made["address"] = tuple(names.setdefault(a, a) for a in made["address"])
        made["header"] = np.concatenate(
            [none, *(np.array(own, np.int64)[one.header] for own, one in zip(headers, parts, strict=True))]
        )
        made["file"] = np.concatenate([none, *(one.file + at for one, at in zip(parts, first.tolist(), strict=False))])
        return cls(base=base, headers=tuple(codes), **made, **more)

    def take(self, files: Int64) -> Index:
        """Return the index of some of its files, in this order."""
        counts = np.diff(self.bounds)[files]
        begins = np.cumsum(counts) - counts
        rows = np.arange(int(counts.sum())) + np.repeat(self.bounds[files] - begins, counts)
        made: dict[str, Any] = {"file": np.repeat(np.arange(len(files)), counts)}
        for name in _COLUMNS:
            column, chosen = getattr(self, name), files if name in _OF_FILES else rows
            if name in _LISTS:
                made[name] = column.take(chosen)
            elif name in _OBJECTS:
                made[name] = tuple(column[k] for k in chosen.tolist())
            elif name != "file":
                made[name] = column[chosen]
        return replace(self, **made)

    def __len__(self) -> int:
        return len(self.path)

    def __repr__(self) -> str:
        return (
            f"<Index of {count_text(len(self.path), 'file')}, {count_text(len(self.address), 'variable')}, "
            f"{count_text(self.offset.values.size, 'chunk')}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        own = self.__dataclass_fields__
        return {k: v for k, v in self.__dict__.items() if k in own and k != "_parsed"} | {"_parsed": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def where(self, i: int) -> str:
        """Return the absolute path, or the URL, of a file."""
        path = self.path[i]
        if is_url(path) or os.path.isabs(path):  # noqa: PTH117
            return path
        return f"{self.base}/{path}" if is_url(self.base) else os.path.normpath(os.path.join(self.base, path))  # noqa: PTH118

    @cached_property
    def files(self) -> Mapping[str, int]:
        """The index of each file by its absolute path or URL."""
        return {self.where(i): i for i in range(len(self.path))}

    @cached_property
    def bounds(self) -> Int64:
        """Start of the variables of each file, and the end of those of the last."""
        return np.searchsorted(self.file, np.arange(len(self.path) + 1))

    @cached_property
    def kinds(self) -> Int64:
        """A number for each variable, equal for those with the same header, shape and shape of chunks."""
        columns = [self.header, self.record, *_padded(self.shape), *_padded(self.chunks), self.offset.counts]
        found = np.zeros(len(self.address), np.int64)
        for column in columns:
            if column.size and (column != column[0]).any():
                codes = np.unique(column, return_inverse=True)[1]
                found = np.unique(found * len(codes) + codes, return_inverse=True)[1]
        return found

    def state(self, i: int) -> FileState:
        """Return the state of a file when the index was made."""
        return FileState(
            int(self.size[i]), int(self.mtime_ns[i]), int(self.ctime_ns[i]), int(self.inode[i]), self.etag[i]
        )

    @cached_property
    def _by_name(self) -> dict[int, dict[str, int]]:
        """The variables by name of files with many, such as a PP file with a field for each time and level."""
        return {}

    def row(self, i: int, address: str) -> int:
        """Return the index of a variable of a file by its name or path, or -1 if there is none."""
        # A name, like a path, refers to a variable of the root group.
        name, own = address.removeprefix("/"), range(int(self.bounds[i]), int(self.bounds[i + 1]))
        if len(own) <= _FEW:
            return next((k for k in own if self.address[k].removeprefix("/") == name), -1)
        if i not in self._by_name:
            self._by_name[i] = {self.address[k].removeprefix("/"): k for k in reversed(own)}
        return self._by_name[i].get(name, -1)

    def rows(self, i: int) -> FileRow:
        """Return the row of a file, in the form for `of`."""
        variables = []
        for k in range(int(self.bounds[i]), int(self.bounds[i + 1])):
            cell, mask = self.cell[k], self.mask[k]
            variables.append(
                VariableRow(
                    self.address[k],
                    self.headers[int(self.header[k])],
                    tuple(self.shape[k].tolist()),
                    tuple(self.chunks[k].tolist()),
                    int(self.record[k]),
                    cell if cell.size else None,
                    self.offset[k],
                    self.length[k],
                    mask if mask.size else None,
                )
            )
        return FileRow(
            self.path[i],
            self.state(i),
            self.digest[i],
            tuple(self.ranges[i].tolist()),
            tuple(variables),
            self.description[i],
        )

    def stored_header(self, k: int) -> StoredHeader | None:
        """Return the header of a variable, or `None` if it is damaged."""
        code = int(self.header[k])
        if code not in self._parsed:
            self._parsed[code] = read_header(self.headers[code])
        return self._parsed[code]

    def stored(self, k: int, key: FileKey, address: str, group: str = "/") -> StoredVariable | None:
        """Return a variable as if it had been found in its file, of the state `key`, or `None` if impossible."""
        header = self.stored_header(k)
        if header is None:
            return None
        shape = tuple(self.shape[k].tolist())
        chunks, offset = tuple(self.chunks[k].tolist()), self.offset[k]
        storage: Contiguous | ChunkTable
        if len(shape) != len(header.dims):
            return None
        encoding = header.encoding
        if header.is_packed:
            from cfagg.formats.pp.values import packed_decoder

            fill = header.attributes.get("_FillValue")
            decode = packed_decoder(header.packing or 0, encoding.dtype, fill, shape)
            if decode is None or chunks != shape or offset.size != 1 or not isinstance(fill, np.floating):
                return None
            encoding = replace(encoding, decode=decode)
        if not chunks:
            record = int(self.record[k])
            nbytes = math.prod(shape) * encoding.dtype.itemsize
            if record and shape:
                nbytes = (shape[0] - 1) * record + nbytes // max(shape[0], 1)
            if offset.size != 1 or encoding.codecs or int(offset[0]) + nbytes > key.size:
                return None
            storage = Contiguous(int(offset[0]), record, encoding)
        else:
            if len(chunks) != len(shape):
                return None
            try:
                grid = Grid.regular(shape, chunks)
                cell, mask = self.cell[k], self.mask[k]
                storage = ChunkTable(
                    grid,
                    encoding,
                    cell if cell.size else np.arange(offset.size),
                    offset,
                    self.length[k],
                    mask if mask.size else np.zeros((), np.int64),
                )
            except (ModelError, ValueError, OverflowError):
                return None
            if encoding.fill is None and offset.size < grid.size:
                return None
        return StoredVariable(
            key,
            address,
            group,
            header.of(key.path, address, shape),
            storage,
            header.path,
            (),
            header.identities,
            header.packing,
        )


class Collected:
    """Rows of files that arrive in any order, kept as columns, since objects need ten times the memory."""

    def __init__(self) -> None:
        self._rows: list[FileRow] = []
        self._numbers: list[int] = []
        self._parts: list[Index] = []

    def add(self, row: FileRow, number: int = 0) -> None:
        """Add the row of a file; files are in the order of `number`."""
        self._rows.append(row)
        self._numbers.append(number)
        if len(self._rows) >= _TOGETHER:
            self._compact()

    def _compact(self) -> None:
        self._parts.append(Index.of(self._rows))
        self._rows = []

    def index(self, base: str = "", **more: Any) -> Index:
        """Return the index of all files."""
        self._compact()
        found = Index.joined(self._parts, base, **more)
        self._parts = []
        order = np.argsort(np.array(self._numbers, np.int64), kind="stable")
        return found if (np.diff(order) == 1).all() else found.take(order)


def _padded(column: Ragged) -> list[Int64]:
    """Return lists as columns: their lengths, and the first, second, … number of each, -1 if there is none."""
    counts = column.counts
    found = [counts]
    if not column.values.size:
        return found
    for d in range(int(counts.max())):
        has = counts > d
        found.append(np.where(has, column.values[np.where(has, column.bounds[:-1] + d, 0)], -1))
    return found
