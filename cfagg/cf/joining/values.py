"""Values of coordinates in common units, and the first difference of two arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.calendars import DateChange, transform
from cfagg.cf.joining.described import Companion, Coordinate, Stated
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.missing import typed_fills
from cfagg.cf.packing import Packing, as_meant
from cfagg.cf.units import SAME
from cfagg.cf.values import reinterpret
from cfagg.errors import CfaggError

__all__ = [
    "canonical_values", "first_difference", "in_units_of", "mean_the_same", "meanings", "meant", "shown", "unpacked",
    "with_units", "with_units_of",
]  # fmt: skip

Array = npt.NDArray[Any]


def unpacked(values: Array, stated: Stated) -> Array:
    """Return unpacked values, with NaN for those that their variable declares missing."""
    if values.dtype.kind not in "iuf":
        return values
    own = stated.attributes
    packing = Packing.of(own, where=stated.name)
    values = as_meant(values, own) if "_Unsigned" in own else values
    found = packing.undo(values) if packing else values
    declared = [v for name in ("_FillValue", "missing_value") for v in np.ravel(np.asarray(own.get(name, ()))).tolist()]
    fills = [reinterpret(v, stated.dtype, values.dtype) for v in declared if isinstance(v, int | float)]
    missing = np.isin(values, typed_fills(fills, values.dtype))
    return np.where(missing, np.nan, found) if missing.any() else found


def in_units_of(values: Array, own: Stated, first: Stated) -> tuple[Array, float]:
    """Return values in the units of another, and the magnitude of the offset that was added to them."""
    if values.dtype.kind not in "iuf" or own is first:
        return values, 0.0
    try:
        change = transform(own.text("units"), own.text("calendar"), first.text("units"), first.text("calendar"))
    except CfaggError:
        # Values that cannot be converted stay unchanged; what is joined reports it when it is built.
        return values, 0.0
    if isinstance(change, DateChange) or change == SAME:
        return values, 0.0
    scale, offset = change
    if scale == 1 and offset.denominator == 1 and _fits(values, int(offset)):
        # In the type of the file, such as 4-byte seconds, sums would wrap around.
        return values.astype(np.int64) + int(offset), 0.0
    if is_reference_time(own.text("units") or ""):
        # 4-byte reals may represent days exactly, but not their minutes.
        values = values.astype(np.float64)
    return values * float(scale) + float(offset), abs(float(offset))


def _fits(values: Array, offset: int) -> bool:
    """Whether values are integers that remain integers of 8 bytes, with and without an offset."""
    if values.dtype.kind not in "iu":
        return False
    ends = (int(values.min()), int(values.max())) if values.size else (0,)
    return all(-(2**63) <= end + add < 2**63 for end in ends for add in (0, offset)) and abs(offset) < 2**63


def canonical_values(own: Coordinate, first: Coordinate | None = None, *, bounds: bool = False) -> Array:
    """Return the values of a coordinate, or its bounds as rows, in the units of another."""
    values, stated = own.values, own.stated
    if bounds and own.cells is not None:
        values, stated = own.cells, with_units_of(own.bounds_stated or stated, stated)
    values = unpacked(values, stated)
    return values if first is None else in_units_of(values, stated, first.stated)[0]


def with_units_of(bounds: Stated, of: Stated) -> Stated:
    """Return the metadata of bounds, with the units and calendar of their coordinate unless they have their own."""
    given = {k: of.attributes[k] for k in ("units", "calendar") if k in of.attributes and k not in bounds.attributes}
    if not given:
        return bounds
    return Stated(bounds.name, bounds.dims, bounds.dtype, bounds.kind, {**bounds.attributes, **given})


def with_units(parts: Mapping[str, Companion]) -> dict[str, Companion]:
    """Return companions in which bounds without units have those of their coordinates."""
    out = dict(parts)
    for name, part in parts.items():
        of = parts.get(name.removeprefix("bounds of ")) if part.role == "bounds" else None
        if of is not None:
            stated = with_units_of(part.stated, of.stated)
            out[name] = part if stated is part.stated else replace(part, stated=stated)
    return out


def meant(part: Companion) -> Array:
    """Return the unpacked values of a companion; node numbers of a mesh from 0, with -1 for none."""
    values = np.empty(0) if part.values is None else part.values
    if part.role == "mesh" and values.dtype.kind in "iu":
        start, fill = (np.asarray(part.stated.attributes.get(name)) for name in ("start_index", "_FillValue"))
        first = int(start.item()) if start.dtype.kind in "iu" and start.size == 1 else 0
        none = fill.item() if fill.dtype.kind in "iu" and fill.size == 1 else -1
        return np.where(values == none, -1, values.astype(np.int64) - first)
    return unpacked(values, part.stated)


def mean_the_same(one: Companion, other: Companion) -> bool:
    """Return whether companions have equal units and flags, and equal values once unpacked; many by their digest."""
    if any(one.stated.text(name) != other.stated.text(name) for name in ("units", "calendar")):
        return False
    if meanings([one, other]) is not None:
        return False
    if one.values is None or other.values is None:
        return one is other or one.digest == other.digest != b""
    return first_difference(meant(one), meant(other)) is None


def meanings(parts: Iterable[Companion | None]) -> npt.NDArray[np.int64] | None:
    """Return a number for what the flags of each companion mean; `None` if those with flags agree."""
    found = [None if part is None else _flags_of(part.stated) for part in parts]
    known = {flags: k for k, flags in enumerate(dict.fromkeys(found))}
    return np.array([known[flags] for flags in found], np.int64) if len(known.keys() - {None}) > 1 else None


def _flags_of(stated: Stated) -> Hashable:
    """Return what flags mean, in whichever order they are written, or `None`."""
    text = stated.text("flag_meanings")
    if text is None:
        return None
    given: list[Any] = [stated.attributes.get(name) for name in ("flag_values", "flag_masks")]
    columns = [np.ravel(v).tolist() for v in given if v is not None] + [text.split()]
    same = len({len(column) for column in columns}) == 1
    return frozenset(zip(*columns, strict=True)) if same else tuple(map(tuple, columns))


def first_difference(a: Array, b: Array) -> tuple[Any, Any] | None:
    """Return the first values in which two arrays differ, or their sizes; `None` if they are equal.

    >>> first_difference(np.array([1.0, 2.0]), np.array([1.0, 3.0]))
    (2.0, 3.0)
    """
    if a.shape != b.shape:
        return _sizes(a.shape), _sizes(b.shape)
    numbers = a.dtype.kind in "iuf" and b.dtype.kind in "iuf"
    differs = np.asarray(a != b)
    if numbers:
        differs &= ~(np.isnan(a) & np.isnan(b))
    if not differs.any():
        return None
    at = tuple(np.argwhere(np.atleast_1d(differs))[0])
    return plain(np.atleast_1d(a)[at]), plain(np.atleast_1d(b)[at])


def shown(values: Array) -> Any:
    """Return the first and the last value of an array, or its only one."""
    flat = np.atleast_1d(values).ravel()
    if not flat.size:
        return "nothing"
    return plain(flat[0]) if flat.size == 1 else (plain(flat[0]), plain(flat[-1]))


def plain(value: Any) -> Any:
    """Return a plain Python number."""
    return value.item() if hasattr(value, "item") else value


def _sizes(shape: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, shape)) or 'one'} {'value' if shape in ((), (1,)) else 'values'}"
