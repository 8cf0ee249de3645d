"""Writing common to CF-1.13 and CFA-0.6.2: sizes and texts in arrays with a dimension for each of the aggregation.

Both read all other information about a fragment from its file, so they cannot express the same things.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions.encoded import (
    Encoded,
    Lack,
    Names,
    numbered,
    of_byte_orders,
    of_codes,
    of_dimensions,
    of_layouts,
    of_numbers,
    own_attributes,
    stored,
)
from cfagg.conventions.nca_layouts import is_netcdf
from cfagg.model import Aggregation, Layout, Partitions

__all__ = [
    "Instructing",
    "directions",
    "fill_of",
    "lacks",
    "missing",
    "packing",
    "sizes",
    "texts",
    "unsaid",
    "whole_packing",
]

_OWN = "this convention takes it from the file of the fragment"


class Instructing:
    """Collects the variables that describe the fragments of an aggregation, and the dimensions that they span."""

    def __init__(self, aggregation: Aggregation, names: Names | None) -> None:
        self.aggregation = aggregation
        self.names = names or Names(dict(zip(aggregation.dims, aggregation.shape, strict=True)), [aggregation.name])
        self.shape = aggregation.grid.matrix_shape
        self.dimensions: dict[str, int] = {}  # of the array of fragments, and then others
        for dim, size in zip(aggregation.dims, self.shape, strict=True):
            self.dimensions[self.names.dimension(f"f_{dim}", size, self.dimensions)] = size
        self.spanned = tuple(self.dimensions)
        self._variables: dict[str, Any] = {}
        self._terms: dict[str, str] = {}

    def dimension(self, name: str, size: int) -> str:
        """Return the name of a further dimension."""
        free = self.names.dimension(name, size, self.spanned)
        self.dimensions[free] = size
        return free

    def add(
        self, term: str, dims: tuple[str, ...], values: npt.NDArray[Any], attributes: dict[str, Any] | None = None
    ) -> None:
        """Add the variable of a term."""
        self._terms[term] = self.names.variable("_".join([*self.aggregation.name.split(), term]))
        self._variables[self._terms[term]] = dims, values, attributes or {}

    def encoded(self, dialect: str) -> Encoded:
        """Return the aggregation variable with all added variables."""
        marks = {
            "aggregated_dimensions": " ".join(self.aggregation.dims),
            "aggregated_data": " ".join(f"{term}: {variable}" for term, variable in self._terms.items()),
        }
        attributes = own_attributes(self.aggregation) | marks
        return Encoded(dialect, self.aggregation.dtype, attributes, self.dimensions, self._variables)


def sizes(aggregation: Aggregation) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Return the sizes of fragments along each dimension, in rows of equal length, and attributes of the variable."""
    rows = [
        np.diff(np.minimum(edges, n)) for edges, n in zip(aggregation.grid.edges, aggregation.grid.shape, strict=True)
    ]
    width = max((len(r) for r in rows), default=1)
    largest = max((int(r.max()) for r in rows if len(r)), default=1)
    dtype = np.dtype(np.int32 if largest < 2**31 else np.int64)
    fill = dtype.type(-2147483647 if dtype == np.int32 else -9223372036854775806)
    out = np.full((len(rows), width), fill, dtype)
    for row, found in zip(out, rows, strict=True):
        row[: len(found)] = found
    padded = any(len(r) < width for r in rows)
    return out, {"_FillValue": fill} if padded else {}


def texts(codes: npt.NDArray[np.int32], table: Sequence[str], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array of texts from codes into a table; -1 is a missing one, which is empty."""
    found = np.empty(len(table) + 1, object)
    found[:-1] = table
    found[-1] = ""
    return np.asarray(found[codes], object).reshape(shape)


def missing(partitions: Partitions) -> npt.NDArray[np.bool_]:
    """Return which partitions are declared to have only missing values."""
    gaps = np.append(np.ma.getmaskarray(partitions.values), False)
    found: npt.NDArray[np.bool_] = ~partitions.present | gaps[partitions.value]
    return found


def fill_of(aggregation: Aggregation) -> Any:
    """Return the missing value of the array, or `None` if none is declared."""
    if aggregation.dtype.kind in "OUT":
        return ""
    default = np.nan if aggregation.dtype.kind == "f" else None
    found = aggregation.attributes.get("_FillValue", aggregation.attributes.get("missing_value", default))
    return None if found is None else np.asarray(found).reshape(-1)[0]


def lacks(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield everything about fragments that neither convention can express."""
    partitions, dims = aggregation.partitions, aggregation.dims
    held = stored(aggregation)
    if not aggregation.grid.size:
        shape = ("x".join(map(str, aggregation.shape)),)
        yield Lack("an array without elements", shape, "a dimension of fragments has at least one of them")
    yield from of_dimensions(aggregation)
    yield from of_codes(
        held & (partitions.part >= 0),
        "part of a sub-array",
        partitions.parts,
        partitions.part,
        "a fragment is a whole variable",
    )

    def extra(layout: Layout) -> str | None:
        more = [d for d in layout.dims if d not in dims]
        return " ".join(more) if more else None

    def order(layout: Layout) -> str | None:
        inner = [d for d in layout.dims if d in dims]
        return None if inner == [d for d in dims if d in inner] else " ".join(layout.dims)

    def reversal(layout: Layout) -> str | None:
        return " ".join(d for d, f in zip(layout.dims, layout.flipped, strict=True) if f) or None

    more = "a fragment has no more dimensions than the aggregation"
    yield from of_layouts(aggregation, held, "size-1 dimension", more, extra)
    yield from of_layouts(
        aggregation, held, "order of dimensions", "a fragment has its dimensions in the aggregation's order", order
    )
    yield from of_layouts(
        aggregation, held, "direction of dimensions", "a fragment runs in the aggregation's directions", reversal
    )
    yield from of_layouts(aggregation, held, "units", _OWN, lambda layout: layout.units)
    yield from of_layouts(aggregation, held, "calendar", _OWN, lambda layout: layout.calendar)
    yield from of_layouts(
        aggregation, held, "missing value", _OWN, lambda layout: None if layout.fill is None else str(layout.fill)
    )
    yield from of_layouts(aggregation, held, "packing", _OWN, packing)
    foreign = np.array([not is_netcdf(layout.format) for layout in partitions.layouts] or [False])[partitions.layout]
    offsets, codes = np.unique(partitions.offset, return_inverse=True)
    found = [f"address {n}" if n >= 0 else "none" for n in offsets.tolist()]
    named = "a fragment is a variable with a name"
    unnamed = held & ~numbered(aggregation) & ((partitions.address < 0) | (foreign & (partitions.offset >= 0)))
    yield from of_codes(unnamed, "address in the file", found, codes, named)
    yield from of_numbers(aggregation)
    yield from of_byte_orders(aggregation)


def unsaid(aggregation: Aggregation) -> list[str]:
    """Return notes on information that is not written because the files of the fragments have it."""
    partitions = aggregation.partitions
    held = stored(aggregation)
    table: dict[str, list[bool]] = {"the data type": [], "the format": [], "the lack of dimensions": []}
    for layout in partitions.layouts:
        table["the data type"].append(layout.dtype is not None)
        table["the format"].append(layout.format is not None and is_netcdf(layout.format))
        table["the lack of dimensions"].append(set(layout.dims) < set(aggregation.dims))
    found = {what: int((held & np.array([*flags, False])[partitions.layout]).sum()) for what, flags in table.items()}
    end = "not written: the files of the fragments give it themselves"
    return [
        f"variable {aggregation.name!r}: {what} of {count:,} partition{'s'[: count != 1]} is {end}"
        for what, count in found.items()
        if count
    ]


def directions(aggregation: Aggregation) -> Iterator[Lack]:
    """Yield the directions of the aggregation, which only coordinates show, if one does not increase."""
    given = aggregation.directions
    if given is False:
        yield Lack("direction of the array", ("decreasing",), "it has no dimension", values=False)
    elif isinstance(given, tuple) and not all(given):
        down = " ".join(d for d, up in zip(aggregation.dims, given, strict=True) if not up)
        yield Lack("decreasing dimensions", (down,), "coordinates give their direction", values=False)


def packing(layout: Layout) -> str | None:
    """Return the packing of a layout as text, or `None` if it has none."""
    if layout.scale_factor is None and layout.add_offset is None:
        return None
    return f"scale_factor {layout.scale_factor}, add_offset {layout.add_offset}"


def whole_packing(aggregation: Aggregation, *, before: bool) -> Iterator[Lack]:
    """Yield the packing of the array if the convention packs at another stage, `before` conforming or after it."""
    names = [k for k in ("scale_factor", "add_offset") if k in aggregation.attributes]
    if names and aggregation.packs is before:
        found = ", ".join(f"{k} {aggregation.attributes[k]}" for k in names)
        why = "this convention " + (
            "unpacks what fragments together hold" if before else "packs what fragments together hold"
        )
        yield from of_codes(stored(aggregation), "packing of the array", [found], None, why)
