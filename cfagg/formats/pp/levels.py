"""Levels of fields: from LBVC and the level words of the headers to vertical coordinates with their formula terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining import codes
from cfagg.formats.pp.coordinates import Coordinate, counted
from cfagg.formats.pp.decimals import decimal
from cfagg.formats.pp.fields import Fields

__all__ = ["HYBRID", "LEVEL_WORDS", "axis_levels", "level_codes"]

Int64 = npt.NDArray[np.int64]

HEIGHT, DEPTH, SOIL, PRESSURE, HYBRID_PRESSURE, SIGMA, THETA, HYBRID_HEIGHT = 1, 2, 6, 8, 9, 10, 19, 65

#: LBVC of terrain-following levels, the name of their first term, and the formula with its field.
HYBRID = {
    HYBRID_HEIGHT: ("level_height", "atmosphere_hybrid_height_coordinate", "a: {a} b: {b} orog: {field}"),
    HYBRID_PRESSURE: ("level_pressure", "atmosphere_hybrid_sigma_pressure_coordinate", "ap: {a} b: {b} ps: {field}"),
}

#: LBLEV of the lowest level, which is at the surface.
_SURFACE = 9999

_SIMPLE: dict[int, tuple[str, dict[str, Any]]] = {
    HEIGHT: ("height", {"standard_name": "height", "units": "m", "positive": "up"}),
    DEPTH: ("depth", {"standard_name": "depth", "units": "m", "positive": "down"}),
    PRESSURE: ("air_pressure", {"standard_name": "air_pressure", "units": "hPa", "positive": "down"}),
    SIGMA: ("sigma", {"long_name": "sigma", "units": "1", "positive": "down"}),
    THETA: (
        "air_potential_temperature",
        {"standard_name": "air_potential_temperature", "units": "K", "positive": "up"},
    ),
}

#: Words of the header that define the level, besides its kind and number.
LEVEL_WORDS = ("BLEV", "BHLEV", "BRLEV", "BHRLEV", "BRSVD1", "BRSVD2")


def level_codes(fields: Fields) -> Int64:
    """Return a code for the complete level information of headers, in the order of levels."""
    number = _numbers(fields["LBLEV"])
    counted = np.isin(fields["LBVC"], (HYBRID_HEIGHT, HYBRID_PRESSURE, SOIL))
    return codes(np.where(counted, number, 0), *(fields[w] for w in LEVEL_WORDS), number)


def _numbers(lblev: Int64) -> Int64:
    return np.where(lblev == _SURFACE, 0, lblev)


def axis_levels(fields: Fields, index: Int64, height: float | None) -> tuple[tuple[str, ...], list[Coordinate]]:
    """Return the dimension, if there are several, and the coordinates of levels of one array."""
    # `index` has the indices of fields along the levels, `height` is that in metres at which the quantity is defined.
    found = _coordinates(fields, index)
    if index.size == 1:
        if height is not None:
            name, attributes = _SIMPLE[HEIGHT]
            found = [Coordinate(name, np.array([height]), {**attributes, "axis": "Z"})]
        return (), [c.first() for c in found]
    head = next((c for c in found if c.is_monotonic), None)
    name = "level" if head is None else head.name
    return (name,), [c.along((name,), dimension=c is head) for c in found]


def _coordinates(fields: Fields, index: Int64) -> list[Coordinate]:
    """Return the coordinates of levels; the future coordinate variable of the dimension comes first."""
    lbvc = int(fields["LBVC"][index[0]])
    size = fields.word_size
    level, b, low, b_low, high, b_high = (decimal(fields[w][index], size) for w in LEVEL_WORDS)
    number = _numbers(fields["LBLEV"][index])
    if lbvc in HYBRID:
        name, _, _ = HYBRID[lbvc]
        terms = [level, low, high], [b, b_low, b_high]
        a, s = terms if lbvc == HYBRID_HEIGHT else terms[::-1]
        up = {"units": "m", "positive": "up"} if lbvc == HYBRID_HEIGHT else {"units": "Pa"}
        return [
            _model_level(number, "up"),
            Coordinate(name, a[0], {"long_name": name, **up}, _bounds(a[1], a[2])),
            Coordinate("sigma", s[0], {"long_name": "sigma", "units": "1"}, _bounds(s[1], s[2])),
        ]
    if lbvc == SOIL and not (low.any() or high.any()):
        attributes = {"long_name": "soil_model_level_number", "positive": "down", "axis": "Z"}
        return [counted("soil_model_level_number", number, attributes)]
    if lbvc in (SOIL, DEPTH):
        name, attributes = _SIMPLE[DEPTH]
        bounds = np.stack([high, low], axis=-1)
        bounds = np.where((high == low)[:, None], level[:, None], bounds)
        unbounded = (bounds == level[:, None]).all()
        depth = Coordinate(name, level, {**attributes, "axis": "Z"}, None if unbounded else bounds)
        known = number[(number > 0) & (number < 7777)].size == number.size
        return [depth, _model_level(number, "down")] if lbvc == DEPTH and known else [depth]
    if lbvc in _SIMPLE and not (lbvc == HEIGHT and (level == -1).any()):
        name, attributes = _SIMPLE[lbvc]
        return [Coordinate(name, level, {**attributes, "axis": "Z"})]
    if index.size == 1:
        return []
    # The header shows that there are several levels, but not of which kind.
    values = level if (number == number[0]).all() else number
    return [Coordinate("level", values, {"long_name": f"level (LBVC {lbvc})", "units": "1", "axis": "Z"})]


def _model_level(number: Int64, positive: str) -> Coordinate:
    attributes = {"standard_name": "model_level_number", "positive": positive, "axis": "Z"}
    return counted("model_level_number", number, attributes)


def _bounds(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return bounds, or `None` if they were left zero."""
    return np.stack([low, high], axis=-1) if low.any() or high.any() else None
