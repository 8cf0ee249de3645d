"""Maps of grids with two-dimensional latitudes and longitudes: the corners of cells on the Earth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import DataArray

__all__ = ["Grid", "Places", "draw", "places"]

type Floats = npt.NDArray[np.float64]

#: Latitudes and longitudes along the same two dimensions.
type Grid = tuple[DataArray, DataArray]

#: Width of the largest gap without cells, in degrees, above which a map does not cover all longitudes.
_GAP = 15.0


@dataclass(frozen=True)
class Places:
    """The corners of cells of an array of shape (n, m) in degrees, with longitudes in one turn from `west` on.

    `wraps` are cells across the edge of the map, with corners on both sides; `known` are cells whose corners are known.
    """

    latitudes: Floats
    longitudes: Floats
    wraps: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]
    west: float
    east: float

    @property
    def south(self) -> float:
        """Southern edge of the map."""
        return float(self.latitudes.min())

    @property
    def north(self) -> float:
        """Northern edge of the map."""
        return float(self.latitudes.max())


def places(array: DataArray, grid: Grid | None) -> Places | None:
    """Return the positions of the cells of a two-dimensional array, or `None` if hardly any is known."""
    if grid is None or set(grid[0].dims) != set(array.dims) or min(array.shape) < 2:
        return None
    lat, lon = (np.asarray(c.transpose(*array.dims).values, "f8") for c in grid)
    lat = np.where((np.abs(lat) <= 90) & np.isfinite(lon), lat, np.nan)
    if np.isfinite(lat).sum() < 4:
        return None
    corners = _corners(_vectors(lat, np.where(np.isfinite(lat), lon, np.nan)))
    known = np.isfinite(corners).all(axis=-1)
    z = np.clip(corners[..., 2], -1, 1)
    latitudes = np.degrees(np.arcsin(z))
    longitudes = np.degrees(np.arctan2(corners[..., 1], corners[..., 0]))
    west, east = _window(longitudes[known], negative=bool(np.nanmin(lon) < 0))
    longitudes = west + np.mod(longitudes - west, 360)
    # A cell has a position only if all of its corners have one.
    whole = known[:-1, :-1] & known[:-1, 1:] & known[1:, :-1] & known[1:, 1:]
    latitudes = np.where(known, latitudes, np.nanmean(latitudes[known]))
    longitudes = np.where(known, longitudes, west)
    quads = _quads(longitudes)
    return Places(latitudes, longitudes, whole & (np.ptp(quads, axis=-1) > 180), whole, west, east)


def draw(axes: Axes, found: Places, values: Any, colours: dict[str, Any]) -> Any:
    """Draw cells at their positions; return the object for a colour bar."""
    from matplotlib.collections import PolyCollection

    shown = np.ma.masked_where(~found.known | found.wraps, values)
    mesh = axes.pcolormesh(found.longitudes, found.latitudes, shown, rasterized=True, **colours)
    over = found.wraps & ~np.ma.getmaskarray(values)
    if over.any():
        x, y = _quads(found.longitudes)[over], _quads(found.latitudes)[over]
        x = np.where(x < found.west + 180, x + 360, x)
        # Drawn at both edges of the map, which clips the parts beyond.
        for shift in (0, -360):
            cells = PolyCollection(list(np.stack([x + shift, y], axis=-1)), rasterized=True)
            cells.set(array=np.asarray(values[over]), cmap=colours["cmap"], clim=(colours["vmin"], colours["vmax"]))
            axes.add_collection(cells, autolim=False)
    axes.set_xlim(found.west, found.east)
    axes.set_ylim(found.south, found.north)
    return mesh


def _vectors(lat: Floats, lon: Floats) -> Floats:
    """Return points on the unit sphere, shape (n, m, 3), whose means are not affected by the dateline."""
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


def _corners(centres: Floats) -> Floats:
    """Return the points between four neighbours, and half a cell beyond the outer ones, shape (n + 1, m + 1, 3)."""
    for axis in (0, 1):
        moved = np.moveaxis(centres, axis, 0)
        first, last = 2 * moved[:1] - moved[1:2], 2 * moved[-1:] - moved[-2:-1]
        centres = np.moveaxis(np.concatenate([first, moved, last]), 0, axis)
    four = np.stack([centres[:-1, :-1], centres[:-1, 1:], centres[1:, :-1], centres[1:, 1:]])
    there = np.isfinite(four).all(axis=-1, keepdims=True)
    number = there.sum(axis=0)
    total = np.where(there, four, 0.0).sum(axis=0)
    length = np.linalg.norm(total, axis=-1, keepdims=True)
    return np.where((number > 0) & (length > 0), total / np.where(length > 0, length, 1.0), np.nan)


def _window(longitudes: Floats, *, negative: bool) -> tuple[float, float]:
    """Return the edges of the map: beside the widest gap, or of the whole Earth in the convention of the coordinate."""
    turned = np.unique(np.mod(longitudes, 360))
    gaps = np.diff(turned, append=turned[0] + 360)
    widest = int(np.argmax(gaps))
    if gaps[widest] < _GAP:
        return (-180.0, 180.0) if negative else (0.0, 360.0)
    west = float(turned[(widest + 1) % len(turned)])
    west = west - 360 if west > 180 and negative else west
    return west, west + 360 - float(gaps[widest])


def _quads(corners: Floats) -> Floats:
    """Return the four corners of every cell, around it, shape (n, m, 4)."""
    return np.stack([corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]], axis=-1)
