"""Comparing the metadata of an array, and of others on which results depend, with those when it was accumulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.integrity import canonical
from cfagg.accumulation.source import (
    area_measure,
    coordinate_along,
    coordinate_names,
    opened,
    path_beside,
    read_meaning,
    role_of,
    settled,
    write_back,
)
from cfagg.accumulation.weights import corners_of
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.conventions import limits
from cfagg.conventions.accumulation import Extra
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_record import MaskRecord, Packing, Related, Source
from cfagg.conventions.findings import shorten
from cfagg.errors import CfaggError, ConformError, Problem, StaleError, UnsupportedError
from cfagg.formats.zarr import compare, object_checksum, stamps
from cfagg.formats.zarr.consolidated import listed
from cfagg.formats.zarr.metadata import ZarrArray, current_signature, open_array
from cfagg.model import Grid, Regular

__all__ = [
    "Differences", "Neighbour", "check_listed", "differences", "differences_of", "differences_since", "encoding_of",
    "find_neighbours", "label_of", "names_none", "neighbours_of", "table_of",
]  # fmt: skip

Int64 = npt.NDArray[np.int64]

#: Attributes of a coordinate, or of weights, that affect the meaning of its values.
_DECISIVE = ("units", "calendar", "standard_name", "bounds", "dtype", *STORAGE_ATTRIBUTES)

#: Parts of metadata that are compared elsewhere or are irrelevant.
_IDLE = ("attributes", "consolidated_metadata", "dimension_names", "node_type", "storage_transformers")


@dataclass(frozen=True, eq=False)
class Neighbour:
    """A related array as it is in the store."""

    path: str
    use: str
    #: `None` if it cannot be opened, so that something else is used in its place; `failure` gives the reason.
    array: ZarrArray | None
    #: Stamps of its objects at one moment, shape (objects, 4); no rows if they were not requested.
    stamps: Int64
    failure: str = ""

    @cached_property
    def record(self) -> Related:
        """The record of it in a group, apart from the stamps."""
        if self.array is None:
            return Related(self.path, self.use, Table(), 0)
        return Related(self.path, self.use, description_of(self.array), self.array.objects.size)

    def current(self, source: ZarrArray) -> Neighbour:
        """Return the current state of the array, `self` if its metadata have not changed."""
        if self.array is None:
            same = opened(source, self.path, any_type=True) is None
        else:
            same = current_signature(self.array) == self.array.signature
        return self if same else _neighbour(source, self.path, self.use, look=False)

    def unchanged(self, source: ZarrArray) -> None:
        """Raise an error if it was written since its stamps were taken."""
        now = self.current(source)
        if now is not self or (self.array is not None and compare(self.stamps, stamps(self.array))):
            raise StaleError(f"{source.store}: {self.path!r} was written to while the array was accumulated; run again")


def encoding_of(array: ZarrArray, weights: str | None) -> Table[str, str]:
    """Return the metadata of an array, apart from its grid, that determine which values its stored bytes represent."""
    document = array.document
    names = ("zarr_format", "data_type", "dtype", "fill_value", "codecs", "compressor", "filters", "order")
    out = {name: canonical(document[name]) for name in names if name in document}
    out["chunk_keys"] = canonical([array.prefix, array.separator])
    if weights == "area":
        out["cell_measures"] = canonical(array.attributes.get("cell_measures"))
    return Table(out)


def description_of(array: ZarrArray) -> Table[str, str]:
    """Return the metadata of a related array that determine its values and their meaning."""
    out = {name: canonical(value) for name, value in array.document.items() if name not in _IDLE}
    out["dims"] = canonical(list(array.dims))
    out |= {name: canonical(array.attributes[name]) for name in _DECISIVE if name in array.attributes}
    return Table(out)


def find_neighbours(source: ZarrArray, weights: Any) -> tuple[Neighbour, ...]:
    """Return the related arrays of an array that is about to be accumulated, with their stamps."""
    # To be called before any of them is read, so that later changes are noticed (`Neighbour.unchanged`).
    uses = dict.fromkeys(_coordinates(source), "coordinate")
    if isinstance(weights, str):
        for path in _areas(source) if weights == "area" else _variable(source, weights):
            uses[path] = "weights"
    # What weights would be taken from if it existed is recorded, too.
    return tuple(
        _neighbour(source, path, use, look=True)
        for path, use in uses.items()
        if use == "weights" or opened(source, path, any_type=True) is not None
    )


def neighbours_of(source: ZarrArray, related: Sequence[Related]) -> tuple[Neighbour, ...]:
    """Return the current state, without stamps, of the related arrays that an accumulation names."""
    return tuple(_neighbour(source, r.path, r.use, look=False) for r in related)


def table_of(neighbours: Sequence[Neighbour]) -> Int64:
    """Return stamps and checksums of all objects of related arrays, one row each."""
    rows = [np.column_stack([n.stamps, _checksums(n.array)]) for n in neighbours if n.array is not None]
    return np.concatenate([np.empty((0, 5), np.int64), *rows])


def _checksums(array: ZarrArray) -> Int64:
    write_back(array)
    found = (object_checksum(array, held) for held in np.ndindex(array.objects.matrix_shape))
    return np.array([0 if f is None else f[1] for f in found], np.int64)


def differences_of(neighbour: Neighbour, then: Related) -> list[Problem]:
    """Return how the description of a related array differs from that at the time of the build."""
    where = label_of(then)
    if neighbour.array is None:
        return [Problem(where, f"no longer there, or damaged: {neighbour.failure}")] if then.description else []
    if not then.description:
        return [Problem(where, "created since; weights would be taken from it")]
    now = neighbour.record
    names = dict.fromkeys([*then.description, *now.description])
    return [
        Problem(where, f"{name} was {then.description.get(name, 'absent')}, now {now.description.get(name, 'absent')}")
        for name in names
        if then.description.get(name) != now.description.get(name)
    ]


def label_of(related: Related) -> str:
    """Return a text with the use and path of a related array."""
    return f"{'coordinate' if related.use == 'coordinate' else 'weights from'} {related.path!r}"


def _neighbour(source: ZarrArray, path: str, use: str, *, look: bool) -> Neighbour:
    none = np.empty((0, 4), np.int64)
    try:
        array = open_array(source.store, path, any_type=True, allow=source.allow)
    except CfaggError as error:
        return Neighbour(path, use, None, none, str(error))
    return Neighbour(path, use, array, settled(array) if look else none)


def _coordinates(source: ZarrArray) -> list[str]:
    """Return the possible paths of an array's coordinates: those of its dimensions, and those that it names."""
    names = dict.fromkeys([*source.dims, *coordinate_names(source)])
    return [path_beside(source, name) for name in names if name != source.name]


def _variable(source: ZarrArray, name: str) -> list[str]:
    paths = dict.fromkeys([path_beside(source, name), name])
    return [path for path in paths if opened(source, path, any_type=True) is not None][:1]


def _areas(source: ZarrArray) -> list[str]:
    """Return the paths of the possible sources of cell areas: the area variable, else coordinates and their bounds.

    Of variables and bounds, these are the named ones, whether they exist or not.
    """
    measure = area_measure(source)
    found = [] if measure is None else [path_beside(source, measure)]
    if found and opened(source, found[0], any_type=True) is not None:
        return found
    for d in source.dims:
        coordinate = opened(source, path_beside(source, d), any_type=True)
        if coordinate is None or role_of(coordinate) is None:
            continue
        found.append(coordinate.path)
        bounds = coordinate.attributes.get("bounds")
        if isinstance(bounds, str):
            found.append(path_beside(source, bounds))
    corners = corners_of(source) if coordinate_along(source, "latitude") is None else None
    return found if corners is None else corners.paths


@dataclass(frozen=True)
class Differences:
    """The differences of an array's description from that at the time of the build."""

    problems: tuple[Problem, ...] = ()
    #: Dimensions that have grown, with their size then and now.
    grown: Mapping[str, tuple[int, int]] = field(default_factory=Table)
    #: Whether there are changes other than growth.
    other: bool = False

    def __bool__(self) -> bool:
        return bool(self.problems)


def differences(source: ZarrArray, extra: Extra) -> Differences:
    """Return the differences between an array and the description in its accumulation."""
    weights = None if extra.weights is None else extra.weights.kind
    return _differences(source, extra.source, extra.packing, extra.mask, weights)


def differences_since(then: ZarrArray, now: ZarrArray) -> Differences:
    """Return the changes of an array since the group of another writer was opened."""
    if then.ndim == now.ndim and names_none(now):
        now = replace(now, dims=then.dims)
    described = Source.of(then.name, then.dims, then.grid, then.dtype, encoding_of(then, None), then.objects.size)
    meaning = read_meaning(then)
    found = _differences(now, described, meaning.packing, meaning.mask, None)
    return Differences(found.problems, other=bool(found))


def _differences(
    now: ZarrArray, then: Source, packing: Packing | None, mask: MaskRecord, weights: str | None
) -> Differences:
    """Return the differences between an array and a description of it."""
    if now.dims != then.dims:
        return Differences((Problem("dimensions", f"{list(then.dims)}, now {list(now.dims)}"),), other=True)
    sizes = list(zip(then.dims, then.shape, now.shape, strict=True))
    problems = [Problem("shape", f"{d!r} had size {old}, now {new}") for d, old, new in sizes if old != new]
    grown = {d: (old, new) for d, old, new in sizes if old < new}
    changed = _cuts(then.grid, now)
    if np.dtype(then.dtype) != now.dtype:
        changed.append(Problem("type", f"{then.dtype}, now {now.dtype.name}"))
    else:
        changed += _meaning(now, packing, mask)
        changed += _encoding(now, then.encoding, weights)
    shrunk = len(grown) < len(problems)
    return Differences(tuple(problems + changed), Table(grown), shrunk or bool(changed))


def names_none(array: ZarrArray) -> bool:
    """Return whether an array has no dimension names."""
    return array.dims == tuple(f"dim_{d}" for d in range(array.ndim)) and "_ARRAY_DIMENSIONS" not in array.attributes


def _encoding(source: ZarrArray, then: Mapping[str, str], weights: str | None) -> list[Problem]:
    """Return the changes of the encoding of stored bytes."""
    now = encoding_of(source, weights)
    return [
        Problem(name, f"{shorten(then.get(name, 'absent'))}, now {shorten(now.get(name, 'absent'))}")
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    ]


def _cuts(then: Grid, source: ZarrArray) -> list[Problem]:
    """Return the changes of chunks, by dimension."""
    return [
        Problem("chunks", f"along {d!r} {_chunks(then, i)}, now {_chunks(source.grid, i)}")
        for i, d in enumerate(source.dims)
        if not _same_chunks(then, source.grid, i)
    ]


def _same_chunks(then: Grid, now: Grid, axis: int) -> bool:
    """Return whether chunks are the same within the extent that both arrays have in common."""
    a, b = then.axes[axis], now.axes[axis]
    if isinstance(a, Regular) and isinstance(b, Regular):
        return a.chunk == b.chunk
    if then.matrix_shape[axis] > limits.MAX_PARTITIONS:  # not a genuine array, and too many edges to list
        return False
    n = min(then.shape[axis], now.shape[axis])
    # In one of them, the chunk at the end of the common extent may reach beyond it.
    old, new = then.edges[axis], now.edges[axis]
    return np.array_equal(old[old < n], new[new < n])


def _chunks(grid: Grid, axis: int) -> str:
    """Return a text that describes the chunks along an axis."""
    edges = grid.axes[axis]
    if isinstance(edges, Regular):
        return f"chunks of {edges.chunk}"
    return f"chunks of {shorten(np.diff(edges).tolist())}"


def _meaning(source: ZarrArray, packing: Packing | None, mask: MaskRecord) -> list[Problem]:
    """Return the changes of the attributes that determine how stored values are read."""
    try:
        now = read_meaning(source)
    except (ConformError, UnsupportedError) as error:
        return [Problem("attributes", str(error))]
    problems = []
    one = Packing(1.0, 0.0)
    for name in ("scale_factor", "add_offset"):
        old, new = (getattr(p or one, name) for p in (packing, now.packing))
        if old != new:
            problems.append(Problem(name, f"{old}, now {new}"))
    return problems + _mask(mask, now.mask)


def check_listed(array: ZarrArray) -> None:
    """Refuse an array that xarray reads differently because its consolidated metadata are outdated."""
    for other in listed(array):
        then = read_meaning(other)
        problems = _meaning(array, then.packing, then.mask)
        if other.dtype != array.dtype:
            problems.append(Problem("type", f"{other.dtype.name}, now {array.dtype.name}"))
        problems += _cuts(other.grid, array)
        before, after = _stored_form(other), _stored_form(array)
        problems += [Problem(k, f"{before[k]}, now {after[k]}") for k in after if before[k] != after[k]]
        if problems:
            raise StaleError(
                f"{array.store}: the consolidated metadata in {other.store}, which xarray reads, differ from the "
                f"metadata of array {array.path!r}, so that sums would differ from xarray's; consolidate them again: "
                f"zarr.consolidate_metadata({str(other.store)!r})",
                problems,
            )


def _stored_form(array: ZarrArray) -> dict[str, str]:
    """Return further properties that determine decoded values, as parsed, since codecs have several spellings."""
    way = array.decoder
    return {
        "fill value": repr(array.fill_value),
        "byte order": "unknown" if way is None else str(way.swap),
        "order": canonical([array.document.get("order"), None if way is None else way.order]),
        "chunk keys": canonical([array.prefix, array.separator]),
    }


def _mask(old: MaskRecord, new: MaskRecord) -> list[Problem]:
    """Return the changes of the attributes that determine which values are missing; 5 and 5.0 are the same value."""
    problems = []
    # NaN always means missing.
    before, after = ({v for v in m.fills if v == v} for m in (old, new))  # noqa: PLR0124
    if before != after:
        problems.append(Problem("missing values", f"{_listed(before)}, now {_listed(after)}"))
    for name in ("valid_min", "valid_max", "unsigned"):
        a, b = getattr(old, name), getattr(new, name)
        if a != b:
            problems.append(Problem(name, f"{a}, now {b}"))
    return problems


def _listed(values: set[Any]) -> str:
    return ", ".join(map(str, sorted(values))) or "none"
