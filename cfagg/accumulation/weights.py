"""The weights of the cells of an array: areas, another variable of the store, or an array given by the user.

Areas of cells with given corners are those of polygons (CF section 7.1, bounds of auxiliary coordinates).  CF does not
define how two corners are joined; here they are joined by great circles, except for cells between two parallels and two
meridians, which have the areas of cells of a regular grid.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.coordinates import labelled_array, same_labels
from cfagg.accumulation.source import (
    area_measure,
    beside,
    coordinate_along,
    coordinate_names,
    opened,
    path_beside,
    read_values,
    steady_axis,
)
from cfagg.cf.roles import place_of
from cfagg.errors import ConformError, LimitError, SourceError
from cfagg.formats.zarr import ZarrArray, open_array
from cfagg.formats.zarr.documents import is_there, node_folder

__all__ = ["Weights", "corners_of", "find_weights", "polygon_areas"]

type Floats = npt.NDArray[np.float64]

#: Number of cells processed at a time, few enough to fit into the processor's caches.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class Corners:
    """The true latitudes and longitudes of an array's cells, and their bounds, which are the corners of the cells."""

    latitude: ZarrArray
    longitude: ZarrArray
    latitude_bounds: ZarrArray
    longitude_bounds: ZarrArray

    @property
    def paths(self) -> list[str]:
        """Paths of the arrays from which areas are computed."""
        return [a.path for a in (self.latitude, self.latitude_bounds, self.longitude, self.longitude_bounds)]

    def areas(self, where: str, memory: int) -> Floats:
        """Return the areas on the unit sphere, in the shape of the coordinates; the corners must fit in `memory`."""
        size = 2 * math.prod(self.latitude_bounds.shape) * 8
        if size > memory:
            raise LimitError(
                f"{where}: the corners of its cells take {size:,} bytes, more than memory={memory:,}; allow more "
                "memory (--memory)"
            )
        lat = read_values(self.latitude_bounds) * _factor_of_bounds(self.latitude, self.latitude_bounds, where)
        lon = read_values(self.longitude_bounds) * _factor_of_bounds(self.longitude, self.longitude_bounds, where)
        if _beyond_the_pole(lat):
            raise ConformError(
                f"{where}: {self.latitude_bounds.name!r} has latitudes beyond 90 degrees; correct its values or units, "
                "or pass weights"
            )
        return polygon_areas(np.clip(lat, -math.pi / 2, math.pi / 2), lon)


def corners_of(array: ZarrArray) -> Corners | None:
    """Return the corners of an array's cells, from bounds of both auxiliary coordinates, at least three per cell."""
    found: dict[str, tuple[ZarrArray, ZarrArray]] = {}
    for name in coordinate_names(array):
        coordinate = beside(array, name)
        place = None if coordinate is None else place_of(coordinate.attributes)
        if coordinate is None or place is None or not set(coordinate.dims) <= set(array.dims) or place in found:
            continue
        bounds_name = coordinate.attributes.get("bounds")
        bounds = beside(array, bounds_name) if isinstance(bounds_name, str) else None
        if bounds is None or bounds.shape[:-1] != coordinate.shape or bounds.shape[-1] < 3:
            continue
        found[place] = (coordinate, bounds)
    if len(found) < 2:
        return None
    (latitude, north), (longitude, east) = found["latitude"], found["longitude"]
    if latitude.dims != longitude.dims or north.shape != east.shape or not latitude.dims:
        return None
    return Corners(latitude, longitude, north, east)


def polygon_areas(lat: Floats, lon: Floats) -> Floats:
    """Return the areas of polygons with corners in radians along the last axis, in either direction."""
    shape, corners = lat.shape[:-1], lat.shape[-1]
    phi, lam = lat.reshape(-1, corners), lon.reshape(-1, corners)
    areas = np.empty(len(phi))
    for start in range(0, len(phi), _BLOCK):
        part = slice(start, start + _BLOCK)
        areas[part] = _of_great_circles(phi[part], lam[part])
        if corners == 4:
            flat, regular = _between_parallels(phi[part], lam[part])
            areas[part] = np.where(flat, regular, areas[part])
    return areas.reshape(shape)


def _of_great_circles(lat: Floats, lon: Floats) -> Floats:
    """Return the sums of the signed areas of triangles from the first corner (van Oosterom and Strackee, 1983)."""
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    first = points[:, 0]
    total = np.zeros(len(lat))
    for k in range(1, points.shape[1] - 1):
        b, c = points[:, k], points[:, k + 1]
        # Differences preserve digits that would be lost in the product of three nearly equal vectors.
        volume = np.einsum("ij,ij->i", first, np.cross(b - first, c - first))
        cosines = 1 + sum(np.einsum("ij,ij->i", u, v) for u, v in ((first, b), (b, c), (c, first)))
        total += 2 * np.arctan2(volume, cosines)
    return np.abs(total)


def _between_parallels(lat: Floats, lon: Floats) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return which cells are between two parallels and two meridians, and the areas of such cells."""
    turned = lon[:, :1] + np.remainder(lon - lon[:, :1] + math.pi, 2 * math.pi) - math.pi
    # Corners may be ordered first along a parallel or first along a meridian.
    along = (_same(lat, (0, 1), (2, 3)) & _same(turned, (1, 2), (3, 0))) | (
        _same(lat, (1, 2), (3, 0)) & _same(turned, (0, 1), (2, 3))
    )
    # Nearly regular cells are tilted: their areas are those of the diagonals in a cylindrical equal-area projection.
    x, y = (v[:, 2:] - v[:, :2] for v in (turned, np.sin(lat)))
    return along, np.abs(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]) / 2


def _same(values: Floats, *pairs: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return where the corners of each pair have equal values, up to rounding to 32 bits, and near 0 to 64 bits."""
    found = np.ones(len(values), bool)
    for i, j in pairs:
        found &= np.abs(values[:, i] - values[:, j]) <= 2e-7 * np.abs(values[:, i]) + 1e-12
    return found


def _factor(coordinate: ZarrArray) -> float:
    """Return by what to multiply the values of a coordinate to have radians."""
    units = str(coordinate.attributes.get("units", "")).strip().lower()
    return 1.0 if units.startswith("rad") else math.pi / 180


def _factor_of_bounds(coordinate: ZarrArray, bounds: ZarrArray, where: str) -> float:
    """Return the same for bounds, whose own units, if they have any, must be those of their coordinate."""
    given, expected = bounds.attributes.get("units"), coordinate.attributes.get("units")
    if given is not None and _factor(bounds) != _factor(coordinate):
        raise ConformError(
            f"{where}: {bounds.name!r} is in {given!r}, but its coordinate {coordinate.name!r} in {expected!r}; bounds "
            "have the units of their coordinate: correct them, or pass weights"
        )
    return _factor(coordinate)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights over some of the dimensions of an array; finite and not negative."""

    #: Their origin: "area", "variable" or "array".
    kind: str
    #: The variable from which they were computed.
    name: str | None
    values: npt.NDArray[np.float64]
    #: The axes of the array that they span, ascending.
    axes: tuple[int, ...]

    def digest(self) -> str:
        """Return a digest of the weights."""
        head = repr((self.values.shape, self.axes)).encode()
        return hashlib.blake2b(head + np.ascontiguousarray(self.values, "<f8").tobytes(), digest_size=16).hexdigest()


def find_weights(array: ZarrArray, weights: Any, memory: int) -> Weights | None:
    """Return the weights of an array's cells, given as for `accumulate`; they must fit in `memory`."""
    if weights is None:
        return None
    where = f"{array.store}: array {array.path!r}"
    if isinstance(weights, Weights):
        found = weights
    elif isinstance(weights, str):
        found = _areas(array, where, memory) if weights == "area" else _variable(array, weights, where, memory)
    elif hasattr(weights, "dims") and hasattr(weights, "values") and not hasattr(weights, "data_vars"):
        _check_labels(array, weights, where)
        name = getattr(weights, "name", None)
        found = replace(
            _by_dims(array, weights.dims, weights.values, where), name=name if isinstance(name, str) else None
        )
    else:
        found = _broadcast(array, weights, where)
    found = _without_repeats(found)
    _check(found, array, where)
    if found.values.nbytes > memory:
        raise LimitError(
            f"{where}: the weights take {found.values.nbytes:,} bytes, more than memory={memory:,}; allow more memory "
            "(--memory)"
        )
    return found


def _check(found: Weights, array: ZarrArray, where: str) -> None:
    """Refuse weights that do not fit, or are missing, infinite or negative."""
    shape = tuple(array.shape[a] for a in found.axes)
    if found.values.shape != shape:
        raise ConformError(
            f"{where}: the weights have shape {found.values.shape}, but its dimensions "
            f"{[array.dims[a] for a in found.axes]} have {shape}; pass weights of that shape"
        )
    for bad, word in (
        (np.isnan(found.values), "missing"),
        (np.isinf(found.values), "infinite"),
        (found.values < 0, "negative"),
    ):
        count = int(np.count_nonzero(bad))
        if count:
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            name, are = f" of {found.name!r}" if found.name else "", "is" if count == 1 else "are"
            raise ConformError(
                f"{where}: {count:,} of the {found.values.size:,} weights{name} {are} {word}, the first at {at}; "
                "weights must be finite and not negative"
            )


def _without_repeats(found: Weights) -> Weights:
    """Return weights without axes of length 1, but with at least one axis."""
    keep = [i for i, n in enumerate(found.values.shape) if n != 1] or list(range(min(1, found.values.ndim)))
    if len(keep) == found.values.ndim:
        return found
    values = found.values.reshape([found.values.shape[i] for i in keep])
    return replace(found, values=values, axes=tuple(found.axes[i] for i in keep))


def _check_labels(array: ZarrArray, weights: Any, where: str) -> None:
    """Refuse weights whose labels differ from those of the array."""
    labels = {d: weights.coords[d].values for d in weights.dims if d in getattr(weights, "coords", ())}
    if not labels:
        return
    own = labelled_array(array, array.dims).coords
    for d, given in labels.items():
        # A length of 1 would otherwise mean "the same everywhere".
        if d in own and given.shape in (own[d].shape, (1,)) and not same_labels(own[d].values, given):
            raise ConformError(
                f"{where}: the weights have other labels along {d!r} than the array, or the same in another order; "
                "reindex them to those of the array, or pass their values without labels"
            )


def _numbers(given: Any, where: str) -> Floats:
    """Return weights as numbers; refuse dates, complex numbers and text."""
    try:
        values = np.asarray(given)
        reason: object = f"its type is {values.dtype}"
        if values.dtype.kind in "biufO":
            numbers = values.astype(np.float64)
            return np.where(given.mask, np.nan, numbers) if isinstance(given, np.ma.MaskedArray) else numbers
    except (TypeError, ValueError) as error:
        reason = error
    raise ConformError(f"{where}: weights={type(given).__name__} is not an array of numbers: {reason}")


def _broadcast(array: ZarrArray, given: Any, where: str) -> Weights:
    """Return weights given as an array without dimension names."""
    values = _numbers(given, where)
    try:
        fits = values.ndim <= array.ndim and np.broadcast_shapes(values.shape, array.shape) == array.shape
    except ValueError:
        fits = False
    if not fits:
        raise ConformError(
            f"{where}: weights of shape {values.shape} do not broadcast to its shape {array.shape}; pass one weight "
            "per cell, with length 1 along dimensions along which they do not vary"
        )
    axes = range(array.ndim - values.ndim, array.ndim)
    if all(n == 1 for n in values.shape):  # the same everywhere, even if the array has length 1 itself
        axis, value = steady_axis(array), float(values.reshape(-1)[0]) if values.size else 1.0
        return Weights("array", None, np.full(array.shape[axis], value), (axis,))
    return Weights("array", None, values, tuple(axes))


def _by_dims(array: ZarrArray, dims: Sequence[str], values: Any, where: str) -> Weights:
    """Return weights given with dimension names."""
    unknown = [d for d in dims if d not in array.dims]
    if unknown or not dims:
        raise ConformError(
            f"{where}: the weights have the dimensions {list(dims)}, but the array has {list(array.dims)}; pass "
            "weights along some of these"
        )
    order = sorted(range(len(dims)), key=lambda i: array.dims.index(dims[i]))
    axes = tuple(array.dims.index(dims[i]) for i in order)
    return Weights("array", None, _numbers(values, where).transpose(order), axes)


def _variable(array: ZarrArray, name: str, where: str, memory: int, kind: str = "variable") -> Weights:
    """Return weights stored in another array of the store."""
    found = beside(array, name) or (opened(array, name) if "/" in array.path else None)
    if found is None:
        # Raises an error that explains the problem with the name.
        found = open_array(array.store, path_beside(array, name), allow=array.allow)
    if math.prod(found.shape) * 8 > memory:
        raise LimitError(
            f"{where}: the weights {name!r} take {math.prod(found.shape) * 8:,} bytes, more than memory={memory:,}; "
            "allow more memory (--memory)"
        )
    weights = _by_dims(array, found.dims, read_values(found), f"{where}: weights {name!r}")
    return replace(weights, kind=kind, name=name)


def _areas(array: ZarrArray, where: str, memory: int) -> Weights:
    """Return areas of cells."""
    measure = area_measure(array)
    if measure is not None and _named(array, measure) is not None:
        return _variable(array, measure, where, memory, "area")
    latitude = coordinate_along(array, "latitude")
    if latitude is None:
        corners = corners_of(array)
        if corners is None:
            raise SourceError(
                f"{where}: weights='area' needs a variable that cell_measures names, a latitude coordinate along one "
                f"of the dimensions {', '.join(array.dims)}, or auxiliary latitude and longitude coordinates whose "
                "bounds hold the corners of cells; otherwise pass the weights as a variable or an array"
            )
        weights = _by_dims(array, corners.latitude.dims, corners.areas(where, memory), where)
        return replace(weights, kind="area", name=corners.latitude.name)
    longitude = coordinate_along(array, "longitude")
    heights, names = _heights(array, latitude, where), latitude.name
    axis = array.dims.index(latitude.dims[0])
    widths = None if longitude is None else _widths(array, longitude, where)
    if widths is None or longitude is None or not widths.size or np.ptp(widths) <= 1e-6 * widths.max():
        return Weights("area", names, heights, (axis,))
    other = array.dims.index(longitude.dims[0])
    values = heights[:, None] * widths[None, :]
    return Weights("area", names, values if axis < other else values.T, (min(axis, other), max(axis, other)))


def _named(array: ZarrArray, name: str) -> ZarrArray | None:
    """Return the array that an attribute names, `None` if there is none; refuse one that cannot be read."""
    found = beside(array, name)
    if found is None:
        path = path_beside(array, name)
        folder = node_folder(array.store, path)
        if any(is_there(folder, document, array.store) for document in ("zarr.json", ".zarray")):
            # Other weights in its place would go unnoticed.
            return open_array(array.store, path, allow=array.allow)
    return found


def _heights(array: ZarrArray, latitude: ZarrArray, where: str) -> npt.NDArray[np.float64]:
    """Return the relative area of each latitude band, or the cosine of latitude if there are no bounds."""
    factor = _factor(latitude)
    bounds = _bounds(array, latitude, where)
    values = (read_values(latitude) if bounds is None else bounds) * factor
    # Bounds halfway between latitudes reach beyond the pole if a cell is centred on it, so they are clipped.
    inner = values if bounds is None else np.abs(values).min(axis=1)
    centres = values if bounds is None else read_values(latitude) * factor
    if _beyond_the_pole(centres) or _beyond_the_pole(inner):
        raise ConformError(
            f"{where}: {latitude.name!r} has latitudes beyond 90 degrees; correct its values or units, or pass weights"
        )
    values = np.clip(values, -math.pi / 2, math.pi / 2)
    if bounds is None:
        return np.cos(values)
    return np.abs(np.sin(values[:, 1]) - np.sin(values[:, 0]))


def _beyond_the_pole(latitudes: npt.NDArray[np.float64]) -> bool:
    """Return whether any latitude, in radians, is beyond a pole by more than rounding."""
    return bool(np.nanmax(np.abs(latitudes), initial=0.0) > math.pi / 2 * (1 + 1e-4))


def _widths(array: ZarrArray, longitude: ZarrArray, where: str) -> npt.NDArray[np.float64] | None:
    """Return widths of cells along longitude, None without bounds."""
    bounds = _bounds(array, longitude, where)
    if bounds is None:
        return None
    width, turn = np.abs(bounds[:, 1] - bounds[:, 0]), 2 * math.pi / _factor(longitude)
    # Bounds such as 359 and 1 of a cell at 0 are on both sides of the meridian where longitudes begin again.
    distance = np.remainder(read_values(longitude) - bounds.mean(axis=1) + turn / 2, turn) - turn / 2
    across = (width > turn / 2) & (np.abs(distance) > width / 2 * (1 + 1e-6))
    return np.where(across, turn - width, width)


def _bounds(array: ZarrArray, coordinate: ZarrArray, where: str) -> npt.NDArray[np.float64] | None:
    """Return the bounds of a coordinate's cells, of shape (n, 2), if it has any."""
    name = coordinate.attributes.get("bounds")
    found = _named(array, name) if isinstance(name, str) else None
    if found is None:
        return None
    if found.shape != (*coordinate.shape, 2):
        # Cosines in place of areas would go unnoticed.
        raise ConformError(
            f"{where}: the bounds {found.name!r} of {coordinate.name!r} have shape {found.shape}, expected "
            f"{(*coordinate.shape, 2)}; correct them, or pass weights"
        )
    _factor_of_bounds(coordinate, found, where)
    return read_values(found)
