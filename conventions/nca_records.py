"""The elements of the ``Partitions`` list as columns, with the keys of any version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions import dtypes
from cfagg.conventions.columns import MISSING, integer_rows, integers_problem, pairs_problem, typed
from cfagg.conventions.findings import Findings, shorten
from cfagg.conventions.nca_keys import Keys
from cfagg.conventions.nca_shapes import Batch, Private, Shapes
from cfagg.conventions.versions import NCA_0_1, Version

__all__ = ["RawLayout", "Records"]


Int64 = npt.NDArray[np.int64]

_STRING: frozenset[type] = frozenset({str, type(MISSING)})
_LIST: frozenset[type] = frozenset({list, type(MISSING)})
_DIRECTIONS: frozenset[type] = frozenset({dict, bool, type(MISSING)})
_INTEGER: frozenset[type] = frozenset({int, type(MISSING)})
_PLAIN: frozenset[type] = frozenset({str, type(MISSING)})
_NUMBER: frozenset[type] = frozenset({int, float, type(MISSING)})


class RawLayout(NamedTuple):
    """The description of a sub-array in one or more partitions; `MISSING` for absent keys."""

    dims: Any
    directions: Any
    units: Any
    calendar: Any
    format: Any
    dtype: Any
    lbpack: Any
    scale_factor: Any
    add_offset: Any
    fill: Any
    endian: Any
    shape: Any  # with `part` only


class Records:
    """Collects partitions batch by batch."""

    def __init__(
        self,
        dims: tuple[str, ...],
        sizes: Mapping[str, int],
        private: Private,
        findings: Findings,
        version: Version = NCA_0_1,
    ) -> None:
        self.dims, self.sizes, self.findings, self.version = dims, sizes, findings, version
        self.keys = Keys(version, findings)
        self.width: int | None = None
        self.count = 0
        self.files: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        self.layouts: dict[tuple[Any, ...], int] = {}
        #: First partition with each raw layout, for messages.
        self.layout_places: list[int] = []
        self._shapes = Shapes(self.dims, private, findings, version.brackets)
        self._dims_ok: dict[tuple[str, ...], bool] = {}
        self._chunks: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("number", "index", "location", "file", "address", "layout", "offset", "part", "named")
        }

    @property
    def parts(self) -> dict[str, int]:
        """Codes of parts by their canonical text."""
        return self._shapes.parts

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column, flat in the order of the list."""
        chunks = self._chunks[name]
        if not chunks:
            shapes = {"index": (0, self.width or 0), "location": (0, len(self.dims), 2)}
            return np.zeros(shapes.get(name, (0,)), np.int64)
        if len(chunks) > 1:
            chunks[:] = [np.concatenate(chunks)]
        return chunks[0]

    def add(self, records: list[Any], first: int, head: Mapping[str, Any]) -> None:
        """Add a batch; `first` is the index of its first element and `head` has the keys before the list."""
        self.count += len(records)
        number = np.arange(first, first + len(records))
        if not {dict}.issuperset(map(type, records)):
            some = records
            number, records = self._keep(
                number,
                records,
                lambda i: None if type(some[i]) is dict else f"object expected, found {shorten(some[i])}",
                "",
            )
        names, data_names = self.version.partition, self.version.data
        keys = self.keys.found(records, names, "", number)
        datas = self.keys.column(records, names["data"], keys, "data", number) or [MISSING] * len(records)
        if not {dict}.issuperset(map(type, datas)):
            good = {n: d for n, d in zip(number.tolist(), datas, strict=True) if type(d) is dict}
            number, records = self._keep(number, records, lambda i: _data_problem(datas[i]), ".data")
            datas = [good[n] for n in number.tolist()]
        if not records:
            return
        data_keys = self.keys.found(datas, data_names, ".data", number)

        def column(key: str) -> list[Any] | None:
            return self.keys.column(records, names[key], keys, key, number) if key in names else None

        def data_column(key: str) -> list[Any] | None:
            if key not in data_names:
                return None
            return self.keys.column(datas, data_names[key], data_keys, f"data.{key}", number)

        def check(values: list[Any] | None, types: frozenset[type], path: str, expected: str) -> list[Any] | None:
            if values is None:
                return None
            return typed(values, types, lambda i: f"Partitions[{number[i]}].{path}", expected, self.findings)

        index, location, ok = self._positions(column("index"), column("location"), number, head)
        units = check(column("units"), _STRING, "units", "string")
        calendar = check(column("calendar"), _STRING, "calendar", "string")
        format_ = check(column("format"), _STRING, "format", "string")
        in_data = check(data_column("format"), _STRING, "data.format", "string")
        format_ = self.keys.merged(format_, in_data, number, "data.format")
        dtype = check(data_column("dtype"), _STRING, "data.dtype", "string")
        lbpack = check(data_column("lbpack"), _INTEGER, "data.lbpack", "integer")
        scale = check(data_column("scale_factor"), _NUMBER, "data.scale_factor", "number")
        add = check(data_column("add_offset"), _NUMBER, "data.add_offset", "number")
        file = check(data_column("file"), _STRING, "data.file", "string")
        address = check(data_column("ncvar"), _STRING, "data.ncvar", "string")
        offset = check(data_column("file_offset"), _INTEGER, "data.file_offset", "integer")
        fill = check(data_column("_FillValue"), _NUMBER, "data._FillValue", "number")
        endian = check(data_column("endian"), _STRING, "data.endian", "string")
        if self.version.defaults and file is not None and "" in file:
            file = [MISSING if v == "" else v for v in file]  # the aggregation file itself
        varid = check(data_column("varid"), _INTEGER, "data.varid", "integer")
        offset = self._numbers(address, offset, varid, number)
        parts = check(column("part"), _STRING, "part", "string")
        dims = self._dims(check(column("dimensions"), _LIST, "dimensions", "list of strings"), number)
        turned = _LIST if self.version.reverses else _DIRECTIONS
        expected = "list of strings" if self.version.reverses else "object"
        directions = self._directions(check(column("directions"), turned, "directions", expected), number)
        shapes = data_column("shape") or [MISSING] * len(records)
        extent = location[:, :, 1] - location[:, :, 0]
        part_codes, part_shapes = self._shapes.check(Batch(number, ok, extent, dims, shapes, parts, file, address))
        self._chunks["number"].append(number[ok])
        self._chunks["index"].append(index[ok])
        self._chunks["location"].append(location[ok])
        if self.findings.problems:
            return  # an error is certain; only index and location can show further problems
        self._chunks["file"].append(self._codes(file, self.files, number, "data.file"))
        self._chunks["address"].append(self._codes(address, self.addresses, number, "data.ncvar"))
        self._chunks["part"].append(part_codes)
        self._chunks["offset"].append(self._offsets(offset, number))
        columns = (
            *(dims, directions, units, calendar, format_, dtype, lbpack, scale, add),
            *(fill, endian, part_shapes),
        )
        self._chunks["layout"].append(self._layouts([_alike(values) for values in columns], number))

    def _layouts(self, columns: list[list[Any]], number: Int64) -> npt.NDArray[np.int32]:
        """Return codes of raw layouts, from columns that have a single value if all are equal."""
        count = max(map(len, columns))
        raw = zip(*(repeat(values[0], count) if len(values) == 1 else values for values in columns), strict=True)
        table = self.layouts
        intern = table.setdefault
        codes = [intern(entry, len(table)) for entry in raw]
        for code in range(len(self.layout_places), len(table)):
            self.layout_places.append(int(number[codes.index(code)]))
        found = np.array(codes, np.int32)
        return found if count == len(number) else np.full(len(number), found[0], np.int32)

    def _keep(
        self, number: Int64, records: list[Any], problem: Callable[[int], str | None], path: str
    ) -> tuple[Int64, list[Any]]:
        """Return the records without a problem."""
        kept = []
        for i in range(len(records)):
            if (message := problem(i)) is None:
                kept.append(i)
            else:
                self.findings.problem(f"Partitions[{number[i]}]{path}", message)
        return number[kept], [records[i] for i in kept]

    def _numbers(
        self, address: list[Any] | None, offset: list[Any] | None, varid: list[Any] | None, number: Int64
    ) -> list[Any] | None:
        """Return offsets, or the number of the variable if it has no name; record which have either."""
        named = np.array([v is not MISSING for v in address]) if address else np.zeros(len(number), np.bool_)
        if varid is not None and not named.all():
            offset = list(offset or [MISSING] * len(number))
            for i in np.flatnonzero(~named).tolist():
                if varid[i] is MISSING:
                    continue
                named[i] = True
                if not 0 <= varid[i] < 2**31 or offset[i] is not MISSING:
                    said = "; there is file_offset, too" if offset[i] is not MISSING else ""
                    self.findings.problem(
                        f"Partitions[{number[i]}].data.varid",
                        f"{shorten(varid[i])} is not the number of a netCDF variable{said}",
                    )
                offset[i] = varid[i]
        self._chunks["named"].append(named)
        return offset

    def _positions(
        self, index: list[Any] | None, location: list[Any] | None, number: Int64, head: Mapping[str, Any]
    ) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
        """Return index and location, and which of them are well-formed."""
        count, dims, version = len(number), self.dims, self.version
        index = index or [MISSING] * count
        location = location or [MISSING] * count
        if self.width is None:
            pdims = head.get(version.head["pdimensions"][0])
            known = pdims if type(pdims) is list else next((i for i in index if type(i) is list), [])
            self.width = len(known)
        width = self.width
        if version.defaults:
            index = _filled(index, [0] * width)
            location = _filled(location, [[0, self.sizes[d] - version.inclusive] for d in dims])
            if not width:
                index = [[] if v == [0] else v for v in index]
        index_rows, bad_index = integer_rows(
            index, width, 1, lambda v: _required(v) or integers_problem(v, width, version.head["pdimensions"][0])
        )
        location_rows, bad_location = integer_rows(
            location, len(dims), 2, lambda v: _required(v) or pairs_problem(v, dims)
        )
        ok = np.ones(count, np.bool_)
        for path, bad in (("index", bad_index), ("location", bad_location)):
            for i, message in bad.items():
                ok[i] = False
                self.findings.problem(f"Partitions[{number[i]}].{path}", message)
        if version.inclusive:
            location_rows = location_rows + np.array([0, 1])
        return index_rows, location_rows, ok

    def fit(self, width: int) -> None:
        """Extend the index of a single partition, which may be left out, empty or `[0]`, to `width` entries."""
        if self.version.defaults and (self.width == 0 or (self.width, width) == (1, 0)):
            index = self.column("index")
            if not index.any():
                self.width = width
                self._chunks["index"] = [np.zeros((len(index), width), np.int64)]

    def _dims(self, values: list[Any] | None, number: Int64) -> list[Any] | None:
        """Return the dimensions as tuples, checked once per distinct list."""
        if values is None:
            return None
        out: list[Any] = []
        for i, value in enumerate(values):
            if value is MISSING:
                out.append(value)
                continue
            where = f"Partitions[{number[i]}].dimensions"
            if not {str}.issuperset(map(type, value)):
                odd = next(v for v in value if type(v) is not str)
                self.findings.problem(where, f"list of strings expected, found {shorten(odd)} in it")
                out.append(None)
                continue
            dims = tuple(value)
            good = self._dims_ok.get(dims)
            if good is None:
                good = len(set(dims)) == len(dims)
                if not good:
                    self.findings.problem(where, f"a dimension occurs twice in {shorten(value)}")
                for dim in dims:
                    if dim not in self.dims and dim not in self.sizes:
                        good = False
                        self.findings.problem(where, f"the file has no dimension {shorten(dim)}")
                self._dims_ok[dims] = good
            out.append(dims if good else None)
        return out

    def _directions(self, values: list[Any] | None, number: Int64) -> list[Any] | None:
        """Return directions as tuples of (dimension, bool) or a bare bool."""
        if values is None:
            return None
        out: list[Any] = []
        for i, value in enumerate(values):
            if type(value) is list:
                where = f"Partitions[{number[i]}].directions"
                names = [dim for dim in value if type(dim) is str]
                if len(names) < len(value):
                    self.findings.problem(where, f"list of strings expected, found {shorten(value)}")
                for dim in names:
                    if dim not in self.dims and dim not in self.sizes:
                        self.findings.problem(where, f"the file has no dimension {shorten(dim)}")
                out.append(tuple((dim, False) for dim in names))
            elif type(value) is dict:
                for dim, direction in value.items():
                    where = f"Partitions[{number[i]}].directions"
                    if type(direction) is not bool:
                        self.findings.problem(f"{where}.{dim}", f"true or false expected, found {shorten(direction)}")
                    if dim not in self.dims and dim not in self.sizes:
                        self.findings.problem(where, f"the file has no dimension {shorten(dim)}")
                out.append(tuple(value.items()))
            else:
                if type(value) is bool and self.dims:
                    where = f"Partitions[{number[i]}].directions"
                    self.findings.problem(
                        where, "a bare true or false is for scalar master arrays; name the dimensions"
                    )
                out.append(value)
        return out

    def _codes(
        self, values: list[Any] | None, table: dict[str, int], number: Int64, path: str
    ) -> npt.NDArray[np.int32]:
        """Return codes of names; new names are checked."""
        if values is None:
            return np.full(len(number), -1, np.int32)
        few = _alike(values)
        before, distinct = len(table), set(few)
        codes: Any
        if len(distinct) == len(few) and MISSING not in distinct and table.keys().isdisjoint(distinct):
            # As in most files, none was named before.
            codes = range(before, before + len(few))
            table.update(zip(few, codes, strict=True))
        else:
            intern = table.setdefault
            codes = [-1 if v is MISSING else intern(v, len(table)) for v in few]
        distinct.discard(MISSING)
        if len(table) > before and ("" in distinct or "\0" in "".join(distinct)):
            for i, value in enumerate(values):
                if value is not MISSING and (not value or "\0" in value):
                    what = "a name with a NUL character" if value else "an empty name"
                    self.findings.problem(f"Partitions[{number[i]}].{path}", f"{what} names nothing; leave the key out")
        return np.repeat(np.array(codes, np.int32), len(values) // len(few))

    def _offsets(self, values: list[Any] | None, number: Int64) -> Int64:
        """Return file offsets, -1 if there is none."""
        if values is None:
            return np.full(len(number), -1, np.int64)
        out = np.full(len(values), -1, np.int64)
        for i, value in enumerate(values):
            if value is MISSING:
                continue
            if 0 <= value < 2**63:
                out[i] = value
            else:
                self.findings.problem(
                    f"Partitions[{number[i]}].data.file_offset", f"{shorten(value)} is not an address in a file"
                )
        return out


def _filled(values: list[Any], default: list[Any]) -> list[Any]:
    """Return the values of a key, or a default if there are none."""
    return values if {list}.issuperset(map(type, values)) else [default if v is MISSING else v for v in values]


def _alike(values: list[Any] | None) -> list[Any]:
    """Return a single value if all are equal; `MISSING` if there is no column."""
    if values is None:
        return [MISSING]
    first = values[0]
    # Equal numbers may be of two types.
    alike = type(first) in _PLAIN and values[-1] == first and values.count(first) == len(values)
    return [first] if alike else values


def _required(value: Any) -> str | None:
    """Return the problem of an absent required key."""
    return "the key is missing" if value is MISSING else None


def _data_problem(value: Any) -> str | None:
    """Return the problem with the `data` of a record."""
    if type(value) is dict:
        return None
    return _required(value) or f"object expected, found {shorten(value)}"


def dtype_problem(name: str) -> str | None:
    """Return the problem with a data type's name."""
    return None if dtypes.is_known(name) else f"{shorten(name)} is not a data type of netCDF or NumPy"
