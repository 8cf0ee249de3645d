"""Horizontal grids and cross-sections of fields: from LBCODE, the grid words and extra data to coordinates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.formats.pp.coordinates import Coordinate
from cfagg.formats.pp.decimals import decimal
from cfagg.formats.pp.fields import INTEGERS, WORDS, Fields

__all__ = ["GRID_WORDS", "Grid", "axes_of", "grid_of", "is_rotated"]

#: Words of the header that are equal for equal grids.
GRID_WORDS = ("LBCODE", "LBHEM", "LBROW", "LBNPT", "BPLAT", "BPLON", "BGOR", "BZY", "BDY", "BZX", "BDX")

#: Words that determine a grid besides extra data: indices of integers, and of reals, which follow them.
_MADE_OF = [WORDS[word] for word in (*GRID_WORDS, "LBPROC", "BMDI")]
_INTEGERS_OF = [n for n in _MADE_OF if n < INTEGERS]
_REALS_OF = [n - INTEGERS for n in _MADE_OF if n >= INTEGERS]

#: Limits of cached grids: their number, and the rows and columns, or extra data, of each.
_MOST, _LONGEST = 1 << 8, 1 << 13

#: Codes of axes in LBCODE and their meaning.
_LATITUDE, _LONGITUDE, _SITE, _TIME_360 = 10, 11, 13, 23
_AXES: Mapping[int, tuple[str, dict[str, Any]]] = {
    1: ("air_pressure", {"standard_name": "air_pressure", "units": "hPa", "positive": "down", "axis": "Z"}),
    2: ("height", {"standard_name": "height", "units": "km", "positive": "up", "axis": "Z"}),
    4: ("depth", {"standard_name": "depth", "units": "m", "positive": "down", "axis": "Z"}),
    _SITE: ("site_number", {"long_name": "site_number", "units": "1"}),
    5: ("model_level_number", {"standard_name": "model_level_number", "units": "1", "positive": "up", "axis": "Z"}),
    6: (
        "air_potential_temperature",
        {"standard_name": "air_potential_temperature", "units": "K", "positive": "up", "axis": "Z"},
    ),
    7: ("sigma", {"long_name": "sigma", "units": "1", "positive": "down", "axis": "Z"}),
    20: ("day", {"long_name": "day", "units": "days"}),
    21: ("month", {"long_name": "month", "units": "1"}),
    22: ("year", {"long_name": "year", "units": "1"}),
    _TIME_360: (
        "time",
        {"standard_name": "time", "units": "days since 0000-01-01 00:00:00", "calendar": "360_day", "axis": "T"},
    ),
}

#: Values of LBCODE of latitudes and longitudes, and the range of those of cross-sections.
_HORIZONTAL = (1, 2, 101, 102)
_CROSS = (10_000, 100_000)

#: Codes of vectors of extra data: points, lower and upper bounds, and those of domains, of x and of y.
_VECTORS = {"x": (1, 12, 13, 4, 6), "y": (2, 14, 15, 3, 5)}
_NAMES = 11

#: Tolerance in degrees for the pole of the Earth.
_NEAR = 1e-4

#: Words larger than this, or NaN, do not describe a grid.
_LARGEST = 1e20

#: Degrees of limits of a domain.
_TURNS = 1e4

#: Bit of LBPROC: a mean over longitudes.
_ZONAL = 64


class Grid(NamedTuple):
    """The dimensions of a field: their names, coordinates, and the attributes of the grid mapping."""

    dims: tuple[str, ...]
    coordinates: list[Coordinate]
    mapping: dict[str, Any] | None

    def beside(self, dims: Collection[str]) -> Grid:
        """Return the grid with other names for dimensions that have the name of one of `dims`."""
        names = {d: f"{d}_of_field" if d in dims else d for d in self.dims}
        moved = [replace(c, dims=tuple(names[d] for d in c.dims)) for c in self.coordinates]
        return Grid(tuple(names[d] for d in self.dims), moved, self.mapping)


def is_rotated(fields: Fields, i: int) -> bool:
    """Return whether the pole of the grid is not that of the Earth; a longitude of 180 degrees is no rotation."""
    latitude, longitude = fields["BPLAT"][i], fields["BPLON"][i]
    turned = abs(longitude) > _NEAR and abs(longitude - 180) > _NEAR
    return bool(abs(latitude - 90) > _NEAR or turned)


_known: dict[tuple[Any, ...], Grid] = {}


def grid_of(fields: Fields, i: int, shape: tuple[int, ...], extra: Mapping[int, Any], times: Any = None) -> Grid:
    """Return the grid of field `i`; `times` returns the times of the rows of a time series, if it is one."""
    if len(shape) != 2:
        # Its header has no rows and columns.
        return Grid(("point",), [], None)
    longest = max(sum(shape), sum(map(len, extra.values())))
    if _CROSS[0] <= fields["LBCODE"][i] < _CROSS[1] or longest > _LONGEST:
        return _grid(fields, i, shape, extra, times)
    words = fields.integers[i, _INTEGERS_OF].tobytes() + fields.reals[i, _REALS_OF].tobytes()
    vectors = tuple([(code, tuple(v) if isinstance(v, list) else (v.dtype, v.tobytes())) for code, v in extra.items()])
    key = words, fields.word_size, shape, vectors
    found = _known.get(key)
    if found is None:
        found = _grid(fields, i, shape, extra)
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = found
    return found


def _grid(fields: Fields, i: int, shape: tuple[int, ...], extra: Mapping[int, Any], times: Any = None) -> Grid:
    rotated = is_rotated(fields, i)
    kinds = _kinds(int(fields["LBCODE"][i]))
    dims: dict[str, str] = {}
    found: list[Coordinate] = []
    for axis, size in zip("yx", shape, strict=True):
        made = _axis(fields, i, axis, kinds[axis], size, extra, rotated=rotated)
        if kinds[axis] == _TIME_360 and made is None and times is not None:
            made = times(size)
        named = {_SITE: "site"}.get(kinds[axis], axis)
        dims[axis] = named if made is None or not made.is_monotonic else made.name
        if list(dims.values()).count(dims[axis]) > 1:
            dims[axis] = f"{dims[axis]}_{axis}"
        if made is not None:
            found.append(made.along((dims[axis],), dimension=made.is_monotonic))
        if kinds[axis] == _SITE:
            found += _sites(fields, extra, size, dims[axis], set(kinds.values()), rotated=rotated)
    mapping = None
    if rotated and {c.name for c in found} & {"grid_latitude", "grid_longitude"}:
        pole = decimal([fields["BPLAT"][i], fields["BPLON"][i]], fields.word_size)
        mapping = {
            "grid_mapping_name": "rotated_latitude_longitude",
            "grid_north_pole_latitude": pole[:1],
            "grid_north_pole_longitude": pole[1:],
        }
    return Grid((dims["y"], dims["x"]), found, mapping)


def axes_of(fields: Fields, i: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes of coordinates of rows and of columns, empty if unknown from the header."""
    kinds, rotated = _kinds(int(fields["LBCODE"][i])), is_rotated(fields, i)
    known = {*_AXES, _LATITUDE, _LONGITUDE}
    rows, columns = (_described(kinds[a], rotated=rotated)[1] if kinds[a] in known else {} for a in "yx")
    return rows, columns


def _kinds(code: int) -> dict[str, int]:
    """Return the codes of the axes of a grid, 0 if unknown: of a projection, distances are not degrees."""
    if _CROSS[0] <= code < _CROSS[1]:
        return {"y": code % 100, "x": code // 100 % 100}
    return {"y": _LATITUDE, "x": _LONGITUDE} if code in _HORIZONTAL else {"y": 0, "x": 0}


def _axis(
    fields: Fields, i: int, axis: str, kind: int, size: int, extra: Mapping[int, Any], *, rotated: bool
) -> Coordinate | None:
    """Return the coordinate of rows (y) or columns (x), or `None` if the header has none."""
    if kind not in _AXES and kind not in (_LATITUDE, _LONGITUDE):
        return None
    name, attributes = _described(kind, rotated=rotated)
    letter = axis.upper()
    zeroth, step = decimal([fields[f"BZ{letter}"][i], fields[f"BD{letter}"][i]], fields.word_size)
    point, low, high, *_ = (extra.get(code) for code in _VECTORS[axis])
    bounds = None
    if fields[f"BD{letter}"][i] not in (0, fields["BMDI"][i]):
        if not (abs(zeroth) < _LARGEST and abs(step) < _LARGEST):
            return None
        values = zeroth + step * np.arange(1, size + 1)
        if fields["LBCODE"][i] in (2, 102):
            # The first row and column of cells, whose centres these are.
            bounds = np.stack([values - step / 2, values + step / 2], axis=-1)
    elif kind != _SITE and point is not None and len(point) == size:
        values = decimal(point, fields.word_size)
        if low is not None and high is not None and len(low) == len(high) == size:
            bounds = np.stack([decimal(v, fields.word_size) for v in (low, high)], axis=-1)
    else:
        return None
    process = int(fields["LBPROC"][i])
    if kind == _LONGITUDE and process > 0 and process & _ZONAL and bounds is None:
        around = np.array([[0.0, 360.0]]) if size == 1 else np.stack([values - step / 2, values + step / 2], axis=-1)
        bounds = around if size == 1 or step else None
    return Coordinate(name, values, attributes, bounds)


def _described(kind: int, *, rotated: bool) -> tuple[str, dict[str, Any]]:
    """Return name and attributes of the coordinate of an axis."""
    if kind in _AXES:
        return _AXES[kind]
    name, units, axis = ("latitude", "degrees_north", "Y") if kind == _LATITUDE else ("longitude", "degrees_east", "X")
    if rotated:
        return f"grid_{name}", {"standard_name": f"grid_{name}", "units": "degrees", "axis": axis}
    return name, {"standard_name": name, "units": units, "axis": axis}


def _sites(
    fields: Fields, extra: Mapping[int, Any], size: int, dim: str, kinds: set[int], *, rotated: bool
) -> list[Coordinate]:
    """Return the locations and names of sites."""
    found = []
    for axis, kind in (("x", _LONGITUDE), ("y", _LATITUDE)):
        *_, low, high = (extra.get(code) for code in _VECTORS[axis])
        if kind in kinds or low is None or high is None or not len(low) == len(high) == size:
            continue
        bounds = np.stack([decimal(v, fields.word_size) for v in (low, high)], axis=-1)
        if not (np.abs(bounds) < _TURNS).all():
            # Missing ones, whatever number represents these.
            continue
        name, attributes = _described(kind, rotated=rotated)
        del attributes["axis"]
        found.append(Coordinate(name, bounds.mean(axis=-1), attributes, bounds, (dim,)))
    names = extra.get(_NAMES)
    if isinstance(names, list) and len(names) == size:
        texts: npt.NDArray[Any] = np.array(names, object)
        found.append(Coordinate("site_name", texts, {"long_name": "site name"}, None, (dim,)))
    return found
