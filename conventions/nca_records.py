"""The elements of the ``Partitions`` list of NCA 0.1 as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions import dtypes
from cfagg.conventions import part as part_module
from cfagg.conventions.columns import MISSING, integer_rows, integers_problem, pairs_problem, typed
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import ConventionError

__all__ = ["DATA_KEYS", "LATER_KEYS", "PARTITION_KEYS", "RawLayout", "Records"]

#: Keys of a partition and of its ``data``, in the text's order.
PARTITION_KEYS = ("index", "location", "dimensions", "format", "directions", "units", "calendar", "part", "data")
DATA_KEYS = ("shape", "file", "dtype", "ncvar", "file_offset", "lbpack", "scale_factor", "add_offset")
#: Keys that later versions (NCA 0.2 to CFA 0.4) gave a meaning; leaving one out would read other data.
LATER_KEYS = frozenset(
    ["pmdimensions", "pmshape", "base", "sub_array", "subarray", "pdimensions", "pdirections", "punits", "pcalendar", "pshape", "pdtype", "reverse", "flip", "endian", "_FillValue", "varid"]
)

Int64 = npt.NDArray[np.int64]
Private = Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]

_STRING = frozenset({str, type(MISSING)})
_LIST = frozenset({list, type(MISSING)})
_DIRECTIONS = frozenset({dict, bool, type(MISSING)})
_INTEGER = frozenset({int, type(MISSING)})
_NUMBER = frozenset({int, float, type(MISSING)})


class RawLayout(NamedTuple):
    """What one or more partitions say about their sub-array; `MISSING` where they say nothing."""

    dims: Any
    directions: Any
    units: Any
    calendar: Any
    format: Any
    dtype: Any
    lbpack: Any
    scale_factor: Any
    add_offset: Any
    shape: Any  # with `part` only


class Records:
    """Collects partitions batch by batch.

    Parameters
    ----------
    dims, shape : sequence
        Dimensions of the master array and their sizes.
    sizes : mapping
        Sizes of all dimensions that may be named.
    private : mapping
        Dimensions and shape of the variables in the aggregation file itself.
    findings : Findings
        Collects problems and repairs.
    """

    def __init__(
        self, dims: Sequence[str], shape: Sequence[int], sizes: Mapping[str, int], private: Private, findings: Findings
    ) -> None:
        self.dims, self.shape, self.sizes, self.private, self.findings = tuple(dims), shape, sizes, private, findings
        self.width: int | None = None
        self.count = 0
        self.files: dict[str, int] = {}
        self.addresses: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.layouts: dict[RawLayout, int] = {}
        #: First partition with each raw layout, for messages.
        self.layout_places: list[int] = []
        self._parsed_parts: dict[tuple[str, tuple[int, ...]], tuple[int, tuple[int, ...]] | str] = {}
        self._dims_ok: dict[tuple[str, ...], bool] = {}
        self._unknown: set[str] = set()
        self._chunks: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("number", "index", "location", "file", "address", "layout", "offset", "part")
        }

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
        """Take in a batch.

        Parameters
        ----------
        records : list
            Elements of the list.
        first : int
            Number of the first of them.
        head : mapping
            The keys of ``nca_array`` that stand before the list.
        """
        self.count += len(records)
        number = np.arange(first, first + len(records))
        if not {dict}.issuperset(map(type, records)):
            number, records = self._keep(
                number, records, lambda r: None if type(r) is dict else f"object expected, found {shorten(r)}", ""
            )
        datas = [r.get("data", MISSING) for r in records]
        if not {dict}.issuperset(map(type, datas)):
            number, records = self._keep(number, records, _data_problem, ".data")
            datas = [r["data"] for r in records]
        if not records:
            return
        keys = self._keys(records, PARTITION_KEYS, "", number)
        data_keys = self._keys(datas, DATA_KEYS, ".data", number)

        def column(key: str) -> list[Any] | None:
            return [r.get(key, MISSING) for r in records] if key in keys else None

        def data_column(key: str) -> list[Any] | None:
            return [d.get(key, MISSING) for d in datas] if key in data_keys else None

        def check(values: list[Any] | None, types: frozenset[type], path: str, expected: str) -> list[Any] | None:
            if values is None:
                return None
            return typed(values, types, lambda i: f"Partitions[{number[i]}].{path}", expected, self.findings)

        index, location, ok = self._positions(records, number, head)
        units = check(column("units"), _STRING, "units", "string")
        calendar = check(column("calendar"), _STRING, "calendar", "string")
        format_ = check(column("format"), _STRING, "format", "string")
        dtype = check(data_column("dtype"), _STRING, "data.dtype", "string")
        lbpack = check(data_column("lbpack"), _INTEGER, "data.lbpack", "integer")
        scale = check(data_column("scale_factor"), _NUMBER, "data.scale_factor", "number")
        add = check(data_column("add_offset"), _NUMBER, "data.add_offset", "number")
        file = check(data_column("file"), _STRING, "data.file", "string")
        address = check(data_column("ncvar"), _STRING, "data.ncvar", "string")
        offset = check(data_column("file_offset"), _INTEGER, "data.file_offset", "integer")
        parts = check(column("part"), _STRING, "part", "string")
        dims = self._dims(check(column("dimensions"), _LIST, "dimensions", "list of strings"), number)
        directions = self._directions(check(column("directions"), _DIRECTIONS, "directions", "object"), number)
        shapes = data_column("shape") or [MISSING] * len(records)
        part_codes, part_shapes = self._shapes(number, ok, location, dims, shapes, parts, file, address)
        self._chunks["number"].append(number[ok])
        self._chunks["index"].append(index[ok])
        self._chunks["location"].append(location[ok])
        if self.findings.problems:
            return  # an error is certain; only index and location have more to say
        self._chunks["file"].append(self._codes(file, self.files, number, "data.file"))
        self._chunks["address"].append(self._codes(address, self.addresses, number, "data.ncvar"))
        self._chunks["part"].append(part_codes)
        self._chunks["offset"].append(self._offsets(offset, number))
        none: repeat[Any] = repeat(MISSING)
        raw = map(
            RawLayout._make,
            zip(
                dims or none,
                directions or none,
                units or none,
                calendar or none,
                format_ or none,
                dtype or none,
                lbpack or none,
                scale or none,
                add or none,
                part_shapes or repeat(MISSING, len(records)),
                strict=False,
            ),
        )
        table = self.layouts
        codes = [table.setdefault(entry, len(table)) for entry in raw]
        for code in range(len(self.layout_places), len(table)):
            self.layout_places.append(int(number[codes.index(code)]))
        self._chunks["layout"].append(np.array(codes, np.int32))

    def _keep(
        self, number: Int64, records: list[Any], problem: Callable[[Any], str | None], path: str
    ) -> tuple[Int64, list[Any]]:
        """Return the records without a problem."""
        kept = []
        for i, record in enumerate(records):
            if (message := problem(record)) is None:
                kept.append(i)
            else:
                self.findings.problem(f"Partitions[{number[i]}]{path}", message)
        return number[kept], [records[i] for i in kept]

    def _keys(self, records: list[dict[str, Any]], known: Sequence[str], path: str, number: Int64) -> set[str]:
        """Return the keys that records of a batch have; unknown ones are told once each."""
        keys: set[str] = set().union(*records)
        for key in sorted(keys.difference(known)):
            if f"{path}.{key}" in self._unknown:
                continue
            self._unknown.add(f"{path}.{key}")
            i = next(i for i, r in enumerate(records) if key in r)
            where = f"Partitions[{number[i]}]{path}"
            if key in LATER_KEYS:
                self.findings.problem(
                    f"{where}.{key}", "this key belongs to a later version (NCA 0.2 to CFA 0.4); only NCA 0.1 is read"
                )
            else:
                self.findings.repair(
                    "unknown key", f"the key {shorten(key)} of {where} is unknown to NCA 0.1 and is left out everywhere"
                )
        return keys

    def _positions(
        self, records: list[dict[str, Any]], number: Int64, head: Mapping[str, Any]
    ) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
        """Return index and location, and which of them are well-formed."""
        index = [r.get("index", MISSING) for r in records]
        if self.width is None:
            pdims = head.get("pdimensions")
            known = pdims if type(pdims) is list else next((i for i in index if type(i) is list), [])
            self.width = len(known)
        width, dims = self.width, self.dims
        index_rows, bad_index = integer_rows(
            index, width, 1, lambda v: _required(v) or integers_problem(v, width, "pdimensions")
        )
        location_rows, bad_location = integer_rows(
            [r.get("location", MISSING) for r in records],
            len(dims),
            2,
            lambda v: _required(v) or pairs_problem(v, dims),
        )
        ok = np.ones(len(records), np.bool_)
        for path, bad in (("index", bad_index), ("location", bad_location)):
            for i, message in bad.items():
                ok[i] = False
                self.findings.problem(f"Partitions[{number[i]}].{path}", message)
        return index_rows, location_rows, ok

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
                    self.findings.problem(where, f"a dimension stands twice in {shorten(value)}")
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
            if type(value) is dict:
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

    def _shapes(
        self,
        number: Int64,
        ok: npt.NDArray[np.bool_],
        location: Int64,
        dims: list[Any] | None,
        shapes: list[Any],
        parts: list[Any] | None,
        file: list[Any] | None,
        address: list[Any] | None,
    ) -> tuple[npt.NDArray[np.int32], list[Any] | None]:
        """Check sub-array shapes against locations and parts; return part codes and the shapes that parts need."""
        n = len(shapes)
        extent = location[:, :, 1] - location[:, :, 0]
        codes = np.full(n, -1, np.int32)
        groups: dict[Any, list[int]] = {}
        if dims is None:
            groups[MISSING] = list(range(n))
        else:
            for i, entry in enumerate(dims):
                groups.setdefault(entry, []).append(i)
        needed: list[Any] | None = [MISSING] * n if parts is not None else None
        for entry, rows in groups.items():
            if entry is None:  # a problem already
                continue
            names = self.dims if entry is MISSING else entry
            taken = [self.dims.index(d) if d in self.dims else -1 for d in names]
            chosen = rows if len(rows) < n else slice(None)
            # An extra dimension has size 1; it reads a column of ones at the end.
            wanted = np.concatenate([extent[chosen], np.ones((len(rows), 1), np.int64)], axis=1)
            absent = [d for d, name in enumerate(self.dims) if name not in names]
            for d in absent:
                for k in np.flatnonzero((wanted[:, d] != 1) & ok[chosen]):
                    self.findings.problem(
                        f"Partitions[{number[rows[k]]}].dimensions",
                        f"{self.dims[d]!r} is not among {list(names)}, but the location spans {wanted[k, d]} of it",
                    )
            self._compare(rows, names, wanted[:, taken], number, ok, shapes, parts, file, address, codes, needed)
        return codes, needed

    def _compare(
        self,
        rows: list[int],
        names: Sequence[str],
        wanted: Int64,
        number: Int64,
        ok: npt.NDArray[np.bool_],
        shapes: list[Any],
        parts: list[Any] | None,
        file: list[Any] | None,
        address: list[Any] | None,
        codes: npt.NDArray[np.int32],
        needed: list[Any] | None,
    ) -> None:
        """Compare the shapes of partitions with the same dimensions with what their locations want."""
        width = len(names)
        given = [shapes[i] for i in rows] if len(rows) < len(shapes) else shapes
        absent = [k for k, value in enumerate(given) if value is MISSING] if MISSING in given else []
        if absent:
            given = list(given)
            for k in absent:
                given[k] = self._derived_shape(rows[k], wanted[k], ok, number, parts, file, address)
        found, bad = integer_rows(given, width, 1, lambda v: integers_problem(v, width, "dimension"))
        for k, message in bad.items():
            if given[k] is not None:
                self.findings.problem(f"Partitions[{number[rows[k]]}].data.shape", message)
        good = ok[rows].copy()
        good[list(bad)] = False
        if (found[good] < 0).any():
            for k in np.flatnonzero((found < 0).any(axis=1) & good):
                self.findings.problem(
                    f"Partitions[{number[rows[k]]}].data.shape", f"negative size in {found[k].tolist()}"
                )
                good[k] = False
        if self.private and address is not None:
            self._check_private(rows, found, good, number, file, address)
        whole = good if parts is None else good & np.array([parts[i] is MISSING for i in rows], np.bool_)
        for k in np.flatnonzero((found != wanted).any(axis=1) & whole):
            self.findings.problem(
                f"Partitions[{number[rows[k]]}].data.shape",
                f"{found[k].tolist()} does not fit the location, which spans {wanted[k].tolist()} of {list(names)}"
                "; a partition of a larger sub-array needs part",
            )
        if parts is None or needed is None:
            return
        for k in np.flatnonzero(good & ~whole):
            i = rows[k]
            code, counts = self._part(parts[i], tuple(found[k].tolist()), f"Partitions[{number[i]}].part")
            if counts is not None and counts != tuple(wanted[k].tolist()):
                self.findings.problem(
                    f"Partitions[{number[i]}].part",
                    f"{shorten(parts[i])} takes {list(counts)} of a sub-array of shape {found[k].tolist()}, "
                    f"but the location spans {wanted[k].tolist()} of {list(names)}",
                )
            if code >= 0:
                codes[i] = code
                needed[i] = tuple(found[k].tolist())

    def _derived_shape(
        self,
        i: int,
        wanted: Int64,
        ok: npt.NDArray[np.bool_],
        number: Int64,
        parts: list[Any] | None,
        file: list[Any] | None,
        address: list[Any] | None,
    ) -> list[int] | None:
        """Return the shape of a sub-array that does not give it, None where it cannot be known."""
        if not ok[i]:
            return None
        where = f"Partitions[{number[i]}].data"
        inside = (file is None or file[i] is MISSING) and address is not None and address[i] in self.private
        if parts is not None and parts[i] is not MISSING and not inside:
            self.findings.problem(
                f"{where}.shape", "the key is missing; with part the shape does not follow from the location"
            )
            return None
        self.findings.repair("shape", f"{where}.shape is missing; it follows from the location")
        return list(self.private[address[i]][1]) if inside and address is not None else wanted.tolist()

    def _check_private(
        self,
        rows: list[int],
        found: Int64,
        good: npt.NDArray[np.bool_],
        number: Int64,
        file: list[Any] | None,
        address: list[Any],
    ) -> None:
        """Compare the shapes of sub-arrays in the aggregation file with those of its variables."""
        for k, i in enumerate(rows):
            if good[k] and (file is None or file[i] is MISSING) and address[i] in self.private:
                actual = self.private[address[i]][1]
                if tuple(found[k].tolist()) != tuple(actual):
                    self.findings.problem(
                        f"Partitions[{number[i]}].data.shape",
                        f"{found[k].tolist()}, but the file's variable {address[i]!r} has shape {list(actual)}",
                    )
                    good[k] = False

    def _part(self, text: str, shape: tuple[int, ...], where: str) -> tuple[int, tuple[int, ...] | None]:
        """Return the code of a part (-1 for everything) and its extent, None where it is broken."""
        known = self._parsed_parts.get((text, shape))
        if known is None:
            try:
                indices = part_module.parse(text, shape)
                canonical = part_module.canonical(indices, shape)
                code = -1 if canonical == "[]" else self.parts.setdefault(canonical, len(self.parts))
                known = (code, part_module.counts(indices))
            except ConventionError as error:
                known = error.message
            self._parsed_parts[text, shape] = known
        if isinstance(known, str):
            self.findings.problem(where, known)
            return -1, None
        return known

    def _codes(
        self, values: list[Any] | None, table: dict[str, int], number: Int64, path: str
    ) -> npt.NDArray[np.int32]:
        """Return codes of names; new names are checked."""
        if values is None:
            return np.full(len(number), -1, np.int32)
        before = len(table)
        intern = table.setdefault
        codes = [-1 if v is MISSING else intern(v, len(table)) for v in values]
        if len(table) > before:
            for i, value in enumerate(values):
                if value is not MISSING and (not value or "\0" in value):
                    what = "a name with a NUL character" if value else "an empty name"
                    self.findings.problem(f"Partitions[{number[i]}].{path}", f"{what} names nothing; leave the key out")
        return np.array(codes, np.int32)

    def _offsets(self, values: list[Any] | None, number: Int64) -> Int64:
        """Return file offsets, -1 where there is none."""
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


def _required(value: Any) -> str | None:
    """Return the problem of a required key that is not there."""
    return "the key is missing" if value is MISSING else None


def _data_problem(record: dict[str, Any]) -> str | None:
    """Return what is wrong with the `data` of a record."""
    value = record.get("data", MISSING)
    if type(value) is dict:
        return None
    return _required(value) or f"object expected, found {shorten(value)}"


def dtype_problem(name: str) -> str | None:
    """Return what is wrong with a data type's name."""
    return None if dtypes.is_known(name) else f"{shorten(name)} is not a data type of netCDF or NumPy"
