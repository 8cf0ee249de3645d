"""Areas of cells whose corners are given: grids with coordinates of two dimensions, and meshes of polygons.

Source: CF section 7.1, bounds of auxiliary coordinates.  CF does not say what joins two corners; here it is a great
circle, but for cells between two parallels and two meridians, which are those of regular grids and have their areas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cfagg.accumulation.horizontal import beside, read_values
from cfagg.cf.roles import place_of
from cfagg.errors import ConformError, LimitError
from cfagg.formats.zarr import ZarrArray

__all__ = ["Corners", "corners_of", "polygon_areas"]

type Floats = npt.NDArray[np.float64]

#: Cells at a time: what is computed for them stays in the processor's caches.
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False)
class Corners:
    """The true latitudes and longitudes, and their bounds, that say where the corners of an array's cells are."""

    latitude: ZarrArray
    longitude: ZarrArray
    latitude_bounds: ZarrArray
    longitude_bounds: ZarrArray

    @property
    def paths(self) -> list[str]:
        """Paths of what areas are made from."""
        return [a.path for a in (self.latitude, self.latitude_bounds, self.longitude, self.longitude_bounds)]

    def areas(self, where: str, memory: int) -> Floats:
        """Return the areas on the unit sphere, of the shape of the coordinates, from corners that fit in `memory`."""
        size = 2 * math.prod(self.latitude_bounds.shape) * 8
        if size > memory:
            raise LimitError(
                f"{where}: the corners of its cells take {size:,} bytes, more than memory={memory:,}; give more memory "
                "(--memory)"
            )
        lat = read_values(self.latitude_bounds) * _factor(self.latitude)
        lon = read_values(self.longitude_bounds) * _factor(self.longitude)
        if np.nanmax(np.abs(lat), initial=0.0) > math.pi / 2 * (1 + 1e-4):
            raise ConformError(
                f"{where}: {self.latitude_bounds.name!r} has latitudes beyond 90 degrees; correct its values or units, "
                "or give weights"
            )
        return polygon_areas(np.clip(lat, -math.pi / 2, math.pi / 2), lon)


def corners_of(array: ZarrArray) -> Corners | None:
    """Return the corners of an array's cells, from bounds of both auxiliary coordinates, three or more a cell."""
    named = array.attributes.get("coordinates")
    found: dict[str, tuple[ZarrArray, ZarrArray]] = {}
    for name in named.split() if isinstance(named, str) else ():
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
    """Return the areas of polygons with corners in radians along the last axis, in order either way."""
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
        # Differences keep the digits that the product of three nearly equal vectors would lose.
        volume = np.einsum("ij,ij->i", first, np.cross(b - first, c - first))
        cosines = 1 + sum(np.einsum("ij,ij->i", u, v) for u, v in ((first, b), (b, c), (c, first)))
        total += 2 * np.arctan2(volume, cosines)
    return np.abs(total)


def _between_parallels(lat: Floats, lon: Floats) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return which cells have two corners on each of two parallels and two meridians, and the areas of these."""
    turned = lon[:, :1] + np.remainder(lon - lon[:, :1] + math.pi, 2 * math.pi) - math.pi
    # The order of corners may begin along a parallel or along a meridian.
    along = (_same(lat, (0, 1), (2, 3)) & _same(turned, (1, 2), (3, 0))) | (
        _same(lat, (1, 2), (3, 0)) & _same(turned, (0, 1), (2, 3))
    )
    return along, np.ptp(np.sin(lat), axis=-1) * np.ptp(turned, axis=-1)


def _same(values: Floats, *pairs: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return where the corners of every pair have one value, but for rounding to 32 bits."""
    found = np.ones(len(values), bool)
    for i, j in pairs:
        found &= np.abs(values[:, i] - values[:, j]) <= 2e-7 * np.abs(values[:, i])
    return found


def _factor(coordinate: ZarrArray) -> float:
    units = str(coordinate.attributes.get("units", "")).strip().lower()
    return 1.0 if units.startswith("rad") else math.pi / 180
