"""The arrays of cfagg's own groups, opened by their names in the attributes and compared with these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.group import CellWeights, Outliers
from cfagg.accumulation.integrity import (
    CHECKS,
    STAMPS,
    CheckedArray,
    GrowingTable,
    checked,
    document_crc,
    find,
    parsed,
    read_whole,
)
from cfagg.accumulation.layout import Level, Sums, raw_dims
from cfagg.conventions.accumulation import Combinations, Extra
from cfagg.conventions.accumulation_model import Table, sample_positions
from cfagg.errors import CfaggError, ConventionError, FragmentReadError, Problem
from cfagg.formats.zarr.documents import read_document
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.storage.urls import Url

__all__ = ["OwnArrays"]

Dims = tuple[str, ...]

_INT, _REAL = np.dtype("i8"), np.dtype("f8")


class _WhenNeeded(Mapping[str, ZarrArray]):
    """Arrays by kind, each opened on first use."""

    def __init__(self, names: Mapping[str, str], opened: Callable[[str, str], ZarrArray]) -> None:
        self._names, self._opened = names, opened
        self._arrays: dict[str, ZarrArray] = {}

    def __getitem__(self, kind: str) -> ZarrArray:
        if kind not in self._arrays:
            self._arrays[kind] = self._opened(kind, self._names[kind])
        return self._arrays[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class OwnArrays:
    """Opens the arrays named by one of cfagg's own groups, and notes their problems."""

    source: ZarrArray
    path: str
    extra: Extra
    problems: list[Problem] = field(default_factory=list)
    #: Whether statistics are opened on first use.
    when_needed: bool = False

    @cached_property
    def positions(self) -> dict[str, npt.NDArray[np.int64]]:
        """Sample positions by accumulated dimension."""
        grid, dims = self.extra.source.grid, self.extra.source.dims
        return {
            d: sample_positions(grid.axes[i], grid.shape[i], self.extra.stride[d])
            for i, d in ((dims.index(d), d) for d in self.extra.stride)
        }

    def along(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of all dimensions of the source, with these replaced."""
        return {d: sizes.get(d, n) for d, n in zip(self.extra.source.dims, self.extra.source.shape, strict=True)}

    def axes(self, dims: Dims) -> tuple[int, ...]:
        """Return the axes of the source for these dimensions."""
        return tuple(self.extra.source.dims.index(d) for d in dims)

    def note(self, where: str, message: str) -> None:
        """Note a problem."""
        self.problems.append(Problem(where, message))

    @cached_property
    def _listed(self) -> dict[str, Any]:
        """Documents of the group in the consolidated metadata of a remote store, by name, from one request for all."""
        store, top = self.source.store, f"{self.path}/"
        if not isinstance(store, Url) or self.source.zarr_format != 3:
            return {}
        whole = None
        with suppress(CfaggError):  # the group can be opened without it
            found = read_document(store, "zarr.json", store)
            whole = None if found is None else found.content.get("consolidated_metadata")
        held = whole.get("metadata") if isinstance(whole, dict) else None
        return {k.removeprefix(top): v for k, v in held.items() if k.startswith(top)} if isinstance(held, dict) else {}

    def _found(self, name: str) -> ZarrArray | None:
        """Return an array of the group, from consolidated metadata if the group's checksum proves them correct."""
        checks, path = self.extra.checks, f"{self.path}/{name}"
        expected = checks.own[name][:1] if name in checks.own else checks.places.get(name, ())[2:]
        if expected and isinstance(listed := self._listed.get(name), dict):
            with suppress(CfaggError):
                array = array_of(self.source.store, path, {f"{path}/zarr.json": json.dumps(listed).encode()}.get, None)
                if document_crc(array.document, array.attributes, array.dims) == expected[0]:
                    return array
        return find(self.source, self.path, name, self.problems)

    def find(self, name: str, grows: int | None = None) -> CheckedArray | None:
        """Return an array whose checksums are in the book."""
        array = self._found(name)
        return None if array is None else checked(array, self.extra.checks, self.book, self.problems, grows)

    @property
    def grows(self) -> int | None:
        """The axis along which the group grows in place."""
        growth = self.extra.growth
        return None if growth is None else self.extra.source.dims.index(growth.dim)

    def table(self, name: str, record: tuple[int, int, int, int], width: int) -> GrowingTable | None:
        """Return a table of a group that grows in place."""
        array = self._found(name)
        if array is None:
            return None
        if array.dtype != _INT or array.ndim != 2 or array.shape[1] != width or array.shape[0] < record[0] + record[2]:
            rows = record[0] + record[2]
            self.note(name, f"expected {_INT} of shape ({rows} or more, {width}), found {array.dtype} of {array.shape}")
            return None
        made = GrowingTable(array, record)
        checked(array, self.extra.checks, made, self.problems)
        return made

    @cached_property
    def book(self) -> ZarrArray | GrowingTable | None:
        """The array of checksums."""
        growth = self.extra.growth
        if growth is not None:
            return self.table(self.extra.checks.array, growth.checks, CHECKS)
        count = sum(number for _, number, _ in self.extra.checks.places.values())
        return self._own(self.extra.checks.array, np.dtype("u4"), (count,), or_more=True)

    def stamps(self) -> ZarrArray | GrowingTable | None:
        """Return the array of stamps."""
        growth = self.extra.growth
        if growth is not None:
            return self.table(self.extra.stamps, growth.stamps, STAMPS)
        rows = self.extra.source.objects + sum(r.objects for r in self.extra.related)
        return self._own(self.extra.stamps, _INT, (rows, 5))

    def _own(
        self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], *, or_more: bool = False
    ) -> ZarrArray | None:
        """Return an array whose checksums are in the attributes of the group."""
        array = self._found(name)
        if array is None:
            return None
        fits = array.shape == shape or (or_more and array.ndim == 1 and array.shape >= shape)
        if array.dtype != dtype or not fits:
            self.note(name, f"expected {dtype.name} of shape {shape}, found {array.dtype.name} of {array.shape}")
            return None
        if name not in self.extra.checks.own:
            self.note(name, "the group has no checksums of it")
            return None
        return checked(array, self.extra.checks, None, self.problems)

    def open(
        self,
        name: str,
        dtypes: Sequence[np.dtype[Any]],
        sizes: Mapping[str, int],
        order: Dims | None = None,
        counted: tuple[Dims, str] | None = None,
    ) -> ZarrArray | None:
        """Return an array that has these dimensions, in any order unless one is given."""
        # `counted` are dimensions that have other names, because their entries are samples or chunks, and the suffix of
        # these names.
        before = len(self.problems)
        found = self.find(name, self.grows if len(sizes) == len(self.extra.source.dims) else None)
        if found is None:
            return None
        array: ZarrArray = found
        if counted is not None:
            array = replace(array, dims=raw_dims(array.dims, self.extra.source.dims, self.axes(counted[0]), counted[1]))
        if array.dtype not in dtypes:
            expected = " or ".join(dict.fromkeys(t.name for t in dtypes))
            self.note(name, f"expected type {expected}, found {array.dtype.name}")
        if set(array.dims) != set(sizes):
            self.note(name, f"expected dimensions {list(sizes)}, found {list(array.dims)}")
        elif order is not None and array.dims != order:
            self.note(name, f"expected dimensions {list(order)} in this order, found {list(array.dims)}")
        elif array.shape != (expected_shape := tuple(sizes[d] for d in array.dims)):
            self.note(name, f"expected shape {expected_shape}, found {array.shape}")
        return array if len(self.problems) == before else None

    def check_stride(self, array: ZarrArray, combination: Dims) -> None:
        """Note attributes of an array of sums that conflict with the group."""
        found = parsed(array, self.extra.source.dims, combination, self.problems)
        for d, n in () if found is None else zip(found.dims, found.stride, strict=True):
            if n != (expected := self.extra.stride[d] if d in combination else 0):
                self.note(array.name, f"stride {n} along {d!r}, but the group says {expected}")

    def sums(self, combinations: Combinations) -> dict[Dims, Sums[ZarrArray]]:
        """Return the arrays of every combination."""
        extra, weighted, excluded = self.extra, self.extra.weights is not None, self.extra.excluded
        types = {"data": _INT if extra.sums == "int64" else _REAL, "weights": _REAL, "counts": _INT}
        out = {}
        for combination, names in combinations.items():
            sizes = self.along({d: len(self.positions[d]) for d in combination})
            # `parse_extra` has checked that both are named.
            named = {"data": names.weighted or "", "weights": names.weights or ""} if weighted else {}
            named = named or {"data": names.unweighted or "", "counts": names.weights or ""}
            if combination in extra.counts:
                named["counts"] = extra.counts[combination]
            elif weighted and (excluded.missing or excluded.nonfinite or extra.outliers):
                self.note(named["data"], "values are missing, but the group names no counts for these sums")
            order: Dims | None = None
            arrays, low = {}, {}
            for quantity, name in named.items():
                array = self.open(name, [types[quantity]], sizes, order)
                if array is not None:
                    arrays[quantity], order = array, order or array.dims
                    if name in combinations.arrays:
                        self.check_stride(array, combination)
                lower = self.open(extra.low[name], [_REAL], sizes, order) if name in extra.low else None
                if lower is not None:
                    low[quantity] = lower
            if "data" in arrays:
                out[combination] = Sums(self.axes(arrays["data"].dims), arrays, low)
        return out

    def statistics(self) -> dict[Dims, tuple[Level[ZarrArray], ...]]:
        """Return the levels of the statistics by combination."""
        source = self.extra.source
        chunks = dict(zip(source.dims, source.grid.matrix_shape, strict=True))
        raw = np.dtype(source.dtype)
        values = [raw, np.dtype(raw.str.replace("i", "u"))] if self.extra.mask.unsigned else [raw]
        values = [np.dtype("u1")] if raw.kind == "b" else values
        kinds = {
            "count": [_INT], "min": values, "max": values, "sum": [_INT, _REAL], "m2": [_REAL], "weights": [_REAL],
        }  # fmt: skip
        out: dict[Dims, list[Level[ZarrArray]]] = {}
        for entry in self.extra.statistics:
            combination = tuple(d for d in source.dims if d in entry.dims)
            sizes = self.along({d: self._cells(d, chunks[d], entry.level) for d in combination})
            order: Dims | None = None
            word = f"chunks_level{entry.level}" if entry.level else "chunks"
            if self.when_needed:
                wanted: Any = partial(self._needed, kinds=kinds, sizes=sizes, counted=(combination, word))
                levels = Level(self.axes(source.dims), entry.level, _WhenNeeded(entry.arrays, wanted))
                out.setdefault(combination, []).append(levels)
                continue
            arrays = {}
            for kind, name in entry.arrays.items():
                array = self.open(name, kinds[kind], sizes, order, (combination, word))
                if array is not None:
                    arrays[kind], order = array, array.dims
            out.setdefault(combination, []).append(Level(self.axes(order or ()), entry.level, Table(arrays)))
        return {c: tuple(sorted(levels, key=lambda level: level.level)) for c, levels in out.items()}

    def _needed(
        self, kind: str, name: str, *, kinds: Mapping[str, Any], sizes: Mapping[str, int], counted: tuple[Dims, str]
    ) -> ZarrArray:
        """Return an array of statistics, in the order of the source."""
        before = len(self.problems)
        array = self.open(name, kinds[kind], sizes, self.extra.source.dims, counted)
        if array is None:
            where = f"{self.source.store}: group {self.path!r} is damaged"
            raise ConventionError(where, self.problems[before:])
        return array

    def _cells(self, dim: str, chunks: int, level: int) -> int:
        """Return the number of cells of a level of the pyramid along a dimension, only complete ones if it grows."""
        growth, size = self.extra.growth, 1 << 3 * level
        whole = growth is not None and growth.dim == dim
        return chunks // size if whole else -(-chunks // size)

    def weights(self) -> CellWeights | None:
        """Return the weights."""
        if self.extra.weights is None:
            return None
        dims = tuple(d for d in self.extra.source.dims if d in self.extra.weights.dims)
        sizes = self.along({})
        stored = self.open(self.extra.weights.array, [_REAL], {d: sizes[d] for d in dims}, dims)
        return None if stored is None else CellWeights(self.axes(dims), stored)

    def outliers(self) -> Outliers | None:
        """Return the cells that are kept out of the sums."""
        record, source = self.extra.outliers, self.extra.source
        if record is None:
            return None
        positions, values = (find(self.source, self.path, n, self.problems) for n in (record.positions, record.values))
        if positions is None or values is None:
            return None
        positions, values = (
            checked(array, self.extra.checks, self.book, self.problems) for array in (positions, values)
        )
        ndim, raw = len(source.shape), np.dtype(source.dtype)
        if positions.dtype != _INT or positions.ndim != 2 or positions.shape[1] != ndim:
            found = f"{positions.dtype.name} of {positions.shape}"
            self.note(record.positions, f"expected int64 of shape (cells, {ndim}), found {found}")
        elif values.shape != positions.shape[:1] or values.dtype.itemsize != raw.itemsize:
            found = f"{values.dtype.name} of {values.shape}"
            self.note(record.values, f"expected {raw.name} of shape {positions.shape[:1]}, found {found}")
        else:
            return Outliers(record.limit, (positions, values))
        return None

    def check_boundaries(self) -> None:
        """Note stored boundaries that differ from those computed from chunks and strides."""
        for d, name in self.extra.boundaries.items():
            positions, array = self.positions[d], self.find(name)
            if array is None:
                continue
            if array.shape != positions.shape or array.dtype.kind not in "iu":
                self.note(name, f"expected {len(positions)} integers, found shape {array.shape}")
                continue
            try:
                stored = read_whole(array)
            except FragmentReadError as error:
                self.note(name, str(error))
                continue
            if not np.array_equal(stored, positions):
                self.note(name, f"does not hold the boundaries of every {self.extra.stride[d]} chunks along {d!r}")
