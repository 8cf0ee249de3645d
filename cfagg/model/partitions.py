"""The partitions of an aggregation, one column for each property.

*partition*: one cell of the partition matrix of an aggregation: a region of the master array, filled from one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import ModelError, Problem
from cfagg.model.hook import html_of

__all__ = ["Layout", "Partitions", "Strings"]

Int64 = npt.NDArray[np.int64]

#: The fields of `Partitions` that have one entry per partition.
_COLUMNS = ("file", "address", "layout", "offset", "part", "present", "value")


class Strings(Sequence[str]):
    """A read-only table of strings in one block of bytes, for millions of file names.

    The common prefix of all strings is stored once.

    Parameters
    ----------
    values : iterable of str
        The strings, in order.

    Examples
    --------
    >>> table = Strings(["data/a.nc", "data/b.nc"])
    >>> table[1], len(table), table.nbytes
    ('data/b.nc', 2, 25)
    """

    __slots__ = ("_blob", "_offsets", "_prefix")

    def __init__(self, values: Iterable[str] = ()) -> None:
        encoded: list[Any] = list(values)
        plain = all(map(str.isascii, encoded))
        if not plain:
            encoded = [v.encode("utf-8", "surrogatepass") for v in encoded]
        # The common prefix of the first and the last in sorted order is common to all.
        first: Any = min(encoded, default=b"")
        last = max(encoded, default=b"")
        cut = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        ends = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) - cut, out=ends[1:])
        tails = [v[cut:] for v in encoded]
        # Texts with one byte per character need not be encoded one by one.
        self._prefix = first[:cut].encode() if plain and encoded else first[:cut]
        self._blob = "".join(tails).encode() if plain else b"".join(tails)
        self._offsets = ends.astype(np.uint32) if ends[-1] < 2**32 else ends

    @classmethod
    def encode(cls, values: Iterable[str]) -> tuple[npt.NDArray[np.int32], Strings]:
        """Return one code per value and the table of distinct values in order of first appearance.

        >>> codes, table = Strings.encode(["b", "a", "b"])
        >>> codes.tolist(), list(table)
        ([0, 1, 0], ['b', 'a'])
        """
        seen: dict[str, int] = {}
        codes = np.fromiter((seen.setdefault(v, len(seen)) for v in values), np.int32)
        return codes, cls(seen)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = int(index)
        i += len(self) if i < 0 else 0
        if not 0 <= i < len(self):
            raise IndexError(index)
        tail = self._blob[int(self._offsets[i]) : int(self._offsets[i + 1])]
        return (self._prefix + tail).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            yield self[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        return (
            self._prefix == other._prefix
            and self._blob == other._blob
            and np.array_equal(self._offsets, other._offsets)
        )

    def __hash__(self) -> int:
        return hash((self._prefix, self._blob))

    def __repr__(self) -> str:
        return f"<Strings {len(self)}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    @property
    def nbytes(self) -> int:
        """Number of bytes used."""
        return len(self._prefix) + len(self._blob) + int(self._offsets.nbytes)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a sub-array is stored, as far as the convention gives it; `None` means "as in the master array or the file".

    Parameters
    ----------
    dims : tuple of str
        Dimensions in the sub-array's own order, including size-1 dimensions that the master does not have.
    flipped : tuple of bool
        For each of `dims`, whether its direction is opposite to the master's.
    units, calendar : str, optional
        Units and calendar of the sub-array.
    dtype : str, optional
        Data type by its netCDF or NumPy name.
    fill : float or int, optional
        Missing value.
    scale_factor, add_offset : float, optional
        Packing that the reader of the file does not undo itself.
    packing : int, optional
        PP packing code (``lbpack``).
    format : str, optional
        Format of the file that contains the sub-array.
    shape : tuple of int, optional
        Shape of the whole sub-array, in `dims` order.  Given if it does not follow from the location, that is if a
        partition is a part of its sub-array.
    endian : str, optional
        Byte order of a file in a format other than netCDF, ``"big"`` or ``"little"``.
    """

    dims: tuple[str, ...]
    flipped: tuple[bool, ...] = ()
    units: str | None = None
    calendar: str | None = None
    dtype: str | None = None
    fill: float | int | None = None
    scale_factor: float | None = None
    add_offset: float | None = None
    packing: int | None = None
    format: str | None = None
    shape: tuple[int, ...] | None = None
    endian: str | None = None

    def __post_init__(self) -> None:
        if not self.flipped:
            object.__setattr__(self, "flipped", (False,) * len(self.dims))
        problems = []
        if len(set(self.dims)) != len(self.dims):
            problems.append(Problem("dims", f"a dimension occurs twice in {self.dims}"))
        if len(self.flipped) != len(self.dims):
            problems.append(Problem("flipped", f"{len(self.flipped)} flags for {len(self.dims)} dimensions"))
        if self.shape is not None and (len(self.shape) != len(self.dims) or any(n < 0 for n in self.shape)):
            problems.append(Problem("shape", f"{self.shape} is not a shape of dimensions {self.dims}"))
        if problems:
            raise ModelError("not a layout", problems)

    def _repr_html_(self) -> str | None:
        return html_of(self)


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partitions of an aggregation as columns, flat in C order over the partition matrix.

    Columns of one constant value may be zero-stride arrays, which cost nothing.

    Parameters
    ----------
    file, address, part : int32 array, shape (n,)
        Codes into `files`, `addresses` and `parts`; -1 is the aggregation's own file, no address, and the whole
        sub-array.  `part` is canonical text in the sub-array's own order, applied before any reversal.
    layout : int32 array, shape (n,)
        Codes into `layouts`.
    offset : int64 array, shape (n,)
        Address of the sub-array in its file in the convention's own unit, or -1 for none.
    present : bool array, shape (n,)
        False if a partition is declared missing.
    files, addresses, parts : Strings
        Distinct file names, variable names, and parts.  File names are paths as written, or URLs; ``file:`` and
        relative URIs of a convention are converted to paths.
    layouts : tuple of Layout
        Distinct layouts.
    value : int32 array, shape (n,), optional
        Codes into `values`; -1, the default throughout, is a partition whose values are in a fragment.
    values : array, shape (m,), optional
        Distinct values of partitions with one constant value and no fragment; as in an array, packed ones are not
        unpacked.  A missing value is masked.
    versions : tuple of Partitions
        Further versions of the same partitions, to try in this order if a fragment cannot be opened.
    """

    file: npt.NDArray[np.int32]
    address: npt.NDArray[np.int32]
    layout: npt.NDArray[np.int32]
    offset: Int64
    part: npt.NDArray[np.int32]
    present: npt.NDArray[np.bool_]
    files: Strings = field(default_factory=Strings)
    addresses: Strings = field(default_factory=Strings)
    parts: Strings = field(default_factory=Strings)
    layouts: tuple[Layout, ...] = ()
    value: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    values: npt.NDArray[Any] = field(default_factory=lambda: np.empty(0))
    versions: tuple[Partitions, ...] = ()

    @classmethod
    def build(
        cls,
        count: int,
        *,
        file: npt.ArrayLike = -1,
        address: npt.ArrayLike = -1,
        layout: npt.ArrayLike = 0,
        offset: npt.ArrayLike = -1,
        part: npt.ArrayLike = -1,
        present: npt.ArrayLike = True,
        files: Strings | Iterable[str] = (),
        addresses: Strings | Iterable[str] = (),
        parts: Strings | Iterable[str] = (),
        layouts: Iterable[Layout] = (),
        value: npt.ArrayLike = -1,
        values: npt.ArrayLike = (),
        versions: Iterable[Partitions] = (),
    ) -> Partitions:
        """Return `count` partitions; a column with one constant value is stored once."""

        def table(values: Strings | Iterable[str]) -> Strings:
            return values if isinstance(values, Strings) else Strings(values)

        columns = {
            "file": _column(file, np.int32, count),
            "address": _column(address, np.int32, count),
            "layout": _column(layout, np.int32, count),
            "offset": _column(offset, np.int64, count),
            "part": _column(part, np.int32, count),
            "present": _column(present, np.bool_, count),
            "value": _column(value, np.int32, count),
        }
        return cls(
            **columns,
            files=table(files),
            addresses=table(addresses),
            parts=table(parts),
            layouts=tuple(layouts),
            values=np.asanyarray(values),
            versions=tuple(versions),
        )

    def __post_init__(self) -> None:
        problems = []
        n = len(self.file)
        if not self.value.size:
            object.__setattr__(self, "value", _column(-1, np.int32, n))
        if self.values.ndim != 1:
            problems.append(Problem("values", f"table of shape {self.values.shape}, expected one dimension"))
        for name, low, high in (
            ("file", -1, len(self.files)),
            ("address", -1, len(self.addresses)),
            ("part", -1, len(self.parts)),
            ("layout", 0, len(self.layouts)),
            ("value", -1, self.values.size),
        ):
            codes = getattr(self, name)
            if codes.shape != (n,):
                problems.append(Problem(name, f"column of shape {codes.shape}, expected ({n},)"))
            elif n and not (low <= codes.min() and codes.max() < high):
                problems.append(Problem(name, f"codes {codes.min()} to {codes.max()} of a table with {high} entries"))
        problems += [
            Problem(name, f"column of shape {getattr(self, name).shape}, expected ({n},)")
            for name in ("offset", "present")
            if getattr(self, name).shape != (n,)
        ]
        problems += [
            Problem(f"versions[{k}]", f"{len(other)} partitions, expected {n}")
            for k, other in enumerate(self.versions)
            if len(other) != n
        ]
        if problems:
            raise ModelError("not a partition table", problems)

    def __len__(self) -> int:
        return len(self.file)

    def __repr__(self) -> str:
        files, layouts = (
            f"{n:,} {what}{'s'[: n != 1]}" for n, what in ((len(self.files), "file"), (len(self.layouts), "layout"))
        )
        return f"<Partitions {len(self):,}: {files}, {layouts}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partitions):
            return NotImplemented
        return all(
            same_value(a, b) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # A zero-stride column would be pickled in full.
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        thin = {n: held[n][:1] for n in _COLUMNS if held[n].size and not any(held[n].strides)}
        return (_restore_partitions, (len(self), held | thin))

    def file_name(self, i: int) -> str | None:
        """Return the file of partition `i` as written, or `None` for the aggregation's own."""
        code = int(self.file[i])
        return None if code < 0 else str(self.files[code])

    def address_name(self, i: int) -> str | None:
        """Return the variable name of partition `i`, or `None` if it has none."""
        code = int(self.address[i])
        return None if code < 0 else str(self.addresses[code])

    def part_text(self, i: int) -> str | None:
        """Return the part of partition `i` in canonical text, or `None` for the whole sub-array."""
        code = int(self.part[i])
        return None if code < 0 else str(self.parts[code])

    def layout_of(self, i: int) -> Layout:
        """Return the layout of partition `i`."""
        return self.layouts[int(self.layout[i])]

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Partitions:
        """Return some partitions, with tables of only the entries they use, in order of first use."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        tables: dict[str, Any] = {}
        for name, table in (("file", "files"), ("address", "addresses"), ("part", "parts"), ("layout", "layouts")):
            columns[name], tables[table] = in_order_of_use(columns[name], list(getattr(self, table)))
        versions = [other.take(rows) for other in self.versions]
        return Partitions.build(len(rows), **columns, **tables, values=self.values, versions=versions)

    @property
    def nbytes(self) -> int:
        """Number of bytes of columns and string tables."""
        columns: list[npt.NDArray[Any]] = [getattr(self, name) for name in _COLUMNS]
        held: int = sum(c.nbytes if c.size == 0 or any(c.strides) else c.itemsize for c in columns)
        held += self.values.nbytes + sum(other.nbytes for other in self.versions)
        return held + self.files.nbytes + self.addresses.nbytes + self.parts.nbytes


def in_order_of_use(codes: npt.NDArray[np.int32], table: list[Any]) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """Return codes and table with its entries in the order in which the codes first use them."""
    used, first = np.unique(codes, return_index=True)
    if len(used) and used[0] == -1:
        used, first = used[1:], first[1:]
    if len(used) == len(table) and (np.diff(first) > 0).all():
        return codes, table
    ranked = used[np.argsort(first)]
    new = np.full(len(table) + 1, -1, np.int32)  # the last entry is for -1
    new[ranked] = np.arange(len(ranked), dtype=np.int32)
    return new[codes], [table[i] for i in ranked]


def same_value(a: Any, b: Any) -> bool:
    """Return whether two attribute values are the same in type and content; NaN equals NaN."""
    if isinstance(a, str) or isinstance(b, str):
        return type(a) is type(b) and bool(a == b)
    if np.ma.isMaskedArray(a) or np.ma.isMaskedArray(b):
        gaps = (np.ma.getmaskarray(a), np.ma.getmaskarray(b))
        return np.array_equal(*gaps) and same_value(np.ma.compressed(a), np.ma.compressed(b))
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")


def _restore_partitions(count: int, held: dict[str, Any]) -> Partitions:
    """Return the partitions from the result of `Partitions.__reduce__`."""
    return Partitions(**held | {n: np.broadcast_to(held[n], (count,)) for n in _COLUMNS if held[n].shape == (1,)})


def _column(values: npt.ArrayLike, dtype: type, count: int) -> npt.NDArray[Any]:
    """Return a read-only column; a constant one becomes a zero-stride array."""
    column: npt.NDArray[Any] = np.asarray(values, dtype=dtype)
    if column.ndim and len(column) == count and count > 1 and (column == column[0]).all():
        column = column[0]
    if column.ndim == 0:
        return np.broadcast_to(column, (count,))
    column = np.array(column)
    column.flags.writeable = False
    return column
