"""Parts of an existing store: whether new values have the same meaning and fit whole chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.opening import open_any
from cfagg.arrays.reader import Reader
from cfagg.cf.calendars import transform
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.units import SAME
from cfagg.conversion.options import Options
from cfagg.conversion.plan import Array, build_plan
from cfagg.conversion.request import Request
from cfagg.conversion.schedule import cut
from cfagg.conversion.stored_as import StoredAs
from cfagg.errors import CfaggError, ConformError, LimitError, TargetError, UnsupportedError
from cfagg.formats.zarr.encoding import encoder
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.model import Grid, Regular
from cfagg.storage.access import Access
from cfagg.writing.zarr.place import Place

__all__ = ["Part", "Region", "arrays_of", "part_of", "writable"]

#: Start and stop along each dimension.
Region = Mapping[str, tuple[int, int | None]]

#: Attributes that define the meaning of numbers; they must be equal, since readers see those of the store. The first
#: two are those of times.
_MEANING = (
    "units", "calendar", "scale_factor", "add_offset", "missing_value", "valid_min", "valid_max", "valid_range",
    "_Unsigned", "standard_name", "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip

#: Number of bytes compared at a time.
_AT_ONCE = 1 << 24


@dataclass(frozen=True, eq=False)
class Part:
    """One array of the source, and the box of an array of the store that it corresponds to."""

    array: Array
    there: Array
    box: tuple[slice, ...]
    place: Place

    @cached_property
    def stored(self) -> ZarrArray | None:
        """The array as described by its own metadata, or `None` if it is not read by cfagg itself."""
        found = self.there
        if isinstance(found.reader, ZarrReader):
            return found.reader.array
        # Text is read by zarr-python, but written by cfagg.
        return replace(self.own(), dtype=found.dtype, fill_value=found.padding) if found.dtype.kind in "OS" else None

    def own(self) -> ZarrArray:
        """Return the array as described by its own metadata; a `TargetError` if they are ahead of the store's."""

        def document(key: str) -> bytes | None:
            one = self.place.read(key)
            return None if one is None else one[0]

        found = array_of(self.place.store, self.there.path, document, None, any_type=True)
        if found.shape != self.there.shape:
            raise TargetError(
                f"{self.place.store}: array {self.there.path!r} has the shape {found.shape} by its own metadata, but "
                f"{self.there.shape} by those of the store: an append is under way or was interrupted; wait for it, or "
                "append again, which completes or undoes it"
            )
        return found

    @property
    def edges(self) -> Sequence[Any]:
        """Edges of stored objects along each dimension."""
        return (self.there.reader.grid if self.stored is None else self.stored.objects).edges

    @property
    def is_there(self) -> bool:
        """Whether the store already has the same values."""
        return _equal(self.array, self.there.reader, self.box)


def arrays_of(place: Place, request: Request) -> dict[str, Array]:
    """Return the arrays of the store by path."""
    name: Any = request.target if not place.remote else place.store
    if place.remote:
        from cfagg.storage.urls import a_place

        name = a_place(request.target, request.target_options, name="target", options_name="target_options")
    source = open_any(name if place.remote else place.store)
    options = Options.build(
        variables=None, zarr_format=3, chunks="auto", packing="keep", codec="zstd", level=None, missing="error"
    )
    return {a.path: a for a in build_plan(source, Access(source.path), options, 1).arrays}


def part_of(array: Array, arrays: Sequence[Array], there: Mapping[str, Array], region: Region, place: Place) -> Part:
    """Return the part of the store that one of some arrays corresponds to; raise an error if it is of another kind."""
    where, store = f"variable {array.path!r}", place.store
    found = there.get(array.path)
    if found is None:
        raise ConformError(f"{store} has no array {array.path!r}; name the variables to write with variables=")
    if array.dims != found.dims:
        raise ConformError(f"{where} has the dimensions {array.dims}, but {found.dims} in {store}")
    if array.dtype != found.dtype:
        raise ConformError(f"{where} is of type {array.dtype}, but of {found.dtype} in {store}; convert it first")
    meaning, known = _meaning(array, arrays), _meaning(found, there.values())
    for key in _MEANING[2:] if _same_times(meaning, known) else _MEANING:
        ours, theirs = meaning.get(key), known.get(key)
        if not _is_same(ours, theirs):
            raise ConformError(
                f"{where}: {key} is {_shown(ours)}, and {_shown(theirs)} in {store}; write values that mean the same"
            )
    if not _is_same(_marked(array.fill), _marked(found.fill)):
        raise ConformError(
            f"{where}: the fill value is {_shown(array.fill)}, and {_shown(found.fill)} in {store}, so other values "
            "would be missing; declare the same in both"
        )
    box = []
    for dim, n, whole in zip(array.dims, array.shape, found.shape, strict=True):
        start, stop = region.get(dim, (0, whole))
        stop = whole if stop is None else stop
        if stop > whole or (dim in region and start >= stop):
            end = f"ends at {stop:,}" if stop > whole else f"begins at {start:,}"
            raise LimitError(f"{where}: the region {end} along {dim!r}, which has {whole:,} places in {store}")
        if stop - start != n:
            what = f"the region has {stop - start:,}" if dim in region else f"{store} has {whole:,}"
            raise ConformError(f"{where} has {n:,} places along {dim!r}, and {what}")
        box.append(slice(start, stop))
    return Part(array, found, tuple(box), place)


def _meaning(array: Array, arrays: Iterable[Array]) -> Mapping[str, Any]:
    """Return the attributes of one of some arrays; bounds without units have those of their coordinate, as CF defines.

    xarray writes such units, and files of model output mostly lack them.
    """
    group, _, name = array.path.rpartition("/")
    for one in arrays:
        if one.path.rpartition("/")[0] == group and name in (
            one.attributes.get("bounds"),
            one.attributes.get("climatology"),
        ):
            return {k: one.attributes[k] for k in ("units", "calendar") if k in one.attributes} | {**array.attributes}
    return array.attributes


def _same_times(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether equal numbers are equal times by two sets of attributes, however reference and calendar are spelled."""
    (units, calendar), (known, its_calendar) = (
        [None if a.get(k) is None else str(a[k]) for k in _MEANING[:2]] for a in (ours, theirs)
    )
    if units is None or known is None or not (is_reference_time(units) and is_reference_time(known)):
        return False
    try:
        return transform(units, calendar, known, its_calendar) == SAME
    except CfaggError:
        return False


def _is_same(ours: Any, theirs: Any) -> bool:
    """Whether two attribute values are equal, compared as numbers if they are numbers."""
    if ours is None or theirs is None:
        return ours is theirs
    try:
        a, b = np.asarray(ours), np.asarray(theirs)
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f"))
    except (TypeError, ValueError):
        return bool(ours == theirs)


def _shown(value: Any) -> str:
    """Return an attribute value as shown in messages."""
    return (
        "not given" if value is None else repr(value.tolist() if isinstance(value, np.generic | np.ndarray) else value)
    )


def _marked(fill: Any) -> Any:
    """Return a fill value, or none if it only marks NaN as missing, which is implied."""
    return None if isinstance(fill, float | np.floating) and np.isnan(fill) else fill


def writable(part: Part, region: Region) -> Array | None:
    """Return the array to write for a part, or `None` if the store already has the same values.

    This is checked if the part crosses chunks, and for arrays outside the region, such as some coordinates.
    """
    array, found, stored, store = part.array, part.there, part.stored, part.place.store
    crossing = next((d for d, why in enumerate(_crossings(part)) if why), None)
    touched = not set(region).isdisjoint(array.dims)
    if crossing is None and touched and stored is not None:
        encoder(stored)  # raises immediately if chunks cannot be encoded
        return _region_of(array, stored, part.box)
    if part.is_there:
        return None
    where = f"variable {array.path!r}"
    if crossing is None and touched:
        part.own()
        raise UnsupportedError(
            f"{store}: {where} has codecs or metadata that cfagg does not read itself, so no part of it can be "
            "written; convert the store to a new one first"
        )
    if crossing is None:
        raise ConformError(
            f"{where} has no dimension of the region, but other values than in {store}; leave it out with variables="
        )
    dim, at = array.dims[crossing], part.box[crossing]
    edges = part.edges[crossing]
    low = edges[max(0, int(np.searchsorted(edges, at.start, "right")) - 1)]
    high = edges[min(len(edges) - 1, int(np.searchsorted(edges, at.stop, "left")))]
    raise ConformError(
        f"{where}: the region {at.start}:{at.stop} along {dim!r} is not on whole chunks of {store}; the next ones are "
        f"{low}:{min(high, found.shape[crossing])}"
    )


def _crossings(part: Part) -> Iterator[bool]:
    """Yield for each dimension whether the part begins or ends within a stored object."""
    for d, (at, n) in enumerate(zip(part.box, part.there.shape, strict=True)):
        edges = part.edges[d]
        yield not (np.isin(at.start, edges) and (at.stop == n or np.isin(at.stop, edges)))


def _equal(array: Array, there: Reader, box: Sequence[slice]) -> bool:
    """Whether the values of an array are equal to those stored in a box."""
    if 0 in array.shape:
        return True
    slabs = cut([array], _AT_ONCE, 1)[0][0]
    for k in range(len(slabs)):
        extent = slabs.extent(k)
        ours = _values(array, extent)
        shifted = tuple(slice(e.start + b.start, e.stop + b.start) for e, b in zip(extent, box, strict=True))
        theirs = there.read(shifted)
        if ours.dtype.kind in "OSU":
            same = bool((ours == theirs).all())
        else:
            same = np.array_equal(ours, np.asarray(theirs), equal_nan=ours.dtype.kind == "f")
        if not same:
            return False
    return True


def _values(array: Array, extent: tuple[slice, ...]) -> Any:
    """Return values of an array in the form in which they are written."""
    stored = array.reader.read(extent)
    if array.unpack is None:
        return stored
    out = np.empty(stored.shape, array.dtype)
    array.unpack(stored, out)
    return out


def _region_of(array: Array, there: ZarrArray, box: Sequence[slice]) -> Array:
    """Return an array whose chunks are those of a box of another array."""
    axes: list[Any] = []
    first, regular = [], True
    for axis, edges, at, n in zip(there.objects.axes, there.objects.edges, box, there.shape, strict=True):
        low = int(np.searchsorted(edges, at.start))
        high = int(np.searchsorted(edges, at.stop)) if at.stop < n else len(edges) - 1
        first.append(low)
        if isinstance(axis, Regular):
            axes.append(Regular(at.stop - at.start, axis.chunk))
        else:
            regular = False
            axes.append(np.minimum(np.asarray(edges[low : high + 1]), at.stop) - at.start)
    grid = Grid(axes, array.shape)
    return replace(
        array, path=there.path, grid=grid, rectilinear=not regular, stored_as=StoredAs(there, tuple(first)), inner=None
    )
