"""How a sub-array is conformed, derived from the aggregation and the sub-array's own file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.cf.axes import Axes
from cfagg.cf.calendars import transform
from cfagg.cf.differences import change_of_temperatures
from cfagg.cf.gather_rule import EXACT, GatherRule
from cfagg.cf.header import Header
from cfagg.cf.missing import Missing, declared_fill, default_fill, missing_texts, typed_fills
from cfagg.cf.packing import Packing, check_declared, read_as
from cfagg.cf.units import SAME, Linear
from cfagg.cf.values import integer_range, reinterpret, whole
from cfagg.errors import CalendarError, ConformError, FragmentMismatchError, UnitsError, UnsupportedError
from cfagg.model import Aggregation, Layout

if TYPE_CHECKING:
    from cfagg.cf.calendars import DateChange

__all__ = ["ANY", "Recipe", "inverse", "is_any", "master_fill", "recipe"]

#: The type of arbitrary objects that a library returns for values whose type is defined by their file.
ANY = np.dtype(object, metadata={"any": True})


@dataclass(frozen=True)
class Recipe:
    """How a sub-array is conformed, in a form that can be pickled.

    `dtype` is the stored type of the master; `source` and `target` are types with ``_Unsigned`` applied.  With
    `identity`, values are copied bit by bit, except for byte order, axes and flips (see `cfagg.cf.axes.Axes`);
    otherwise ``stored * scale + offset`` is stored in the master.  Missing values become `fill`; `None` is NaN in a
    real master, and an error in an integer one.  Valid stored values in the range `clash` may become `fill` and would
    then be mistaken for missing ones. `whole` means that computed values must be integers, because the master is an
    integer array without packing. With `dates`, a conversion of calendars, `scale` and `offset` unpack to the time of
    the sub-array, and `pack` packs the results.  Texts of the first of `texts` are missing, and become the first of the
    second, which are those that are missing in the master.
    """

    axes: tuple[int, ...]
    flips: tuple[bool, ...]
    extra: tuple[int, ...]
    dtype: np.dtype[Any]
    identity: bool
    source: np.dtype[Any]
    target: np.dtype[Any]
    scale: float = 1.0
    offset: float = 0.0
    missing: Missing = field(default_factory=Missing)
    fill: int | float | None = None
    clash: tuple[int | float, int | float] | None = None
    whole: bool = False
    exact: tuple[int, int, int] | None = None
    dates: DateChange | None = None
    pack: Packing = field(default_factory=Packing)
    texts: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        for name in ("dtype", "source", "target"):
            object.__setattr__(self, name, np.dtype(getattr(self, name)))

    @cached_property
    def rule(self) -> GatherRule:
        """The operation on every element, if neither integers nor dates are computed."""
        if self.identity:
            return GatherRule.make(self.source, self.target)
        missing = self.missing
        return GatherRule.make(
            self.source, self.target, self.scale, self.offset, missing.fills, missing.low, missing.high, self.fill
        )


def master_fill(aggregation: Aggregation) -> int | float | None:
    """Return the stored missing value of the master: ``_FillValue``, ``missing_value``, or NaN for real types."""
    dtype = aggregation.dtype
    if dtype.kind not in "iuf":
        return None
    where = _master(aggregation)
    fill = declared_fill(aggregation.attributes, where)
    meant = read_as(dtype, aggregation.attributes)
    bare = aggregation.attributes.get("_FillValue") is None
    if fill is None or (bare and not typed_fills((reinterpret(fill, dtype, meant),), meant)):
        # No element can equal a `missing_value` that the type lacks.
        return math.nan if dtype.kind == "f" else None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            typed = dtype.type(fill)
        if np.isinf(typed) and math.isfinite(fill):
            raise ConformError(f"{where}: the missing value {fill} is beyond the range of {dtype}; declare another")
        return float(typed)
    # An unsigned array may declare a signed value with the same bits, and vice versa.
    back = reinterpret(reinterpret(fill, dtype, meant), meant, dtype)
    exact, (least, most) = whole(back), integer_range(dtype)
    if exact is None or not least <= exact <= most:
        raise ConformError(f"{where}: the missing value {fill} is not a value of {dtype}; declare another")
    return exact


def recipe(aggregation: Aggregation, layout: Layout, header: Header, *, where: str) -> Recipe:
    """Return how sub-arrays of one layout in files with one header are conformed; contradictions raise an error."""
    axes = Axes.match(aggregation, layout, header, where=where)
    stored, dtype = header.dtype.newbyteorder("="), aggregation.dtype.newbyteorder("=")
    unpack = Packing.with_layout(header.attributes, layout, where=where) if stored.kind in "iuf" else Packing()
    check_declared(layout.dtype, stored, unpack, where=where)
    placed: dict[str, Any] = {"axes": axes.axes, "flips": axes.flips, "extra": axes.extra, "dtype": aggregation.dtype}
    if stored.kind not in "iuf" or dtype.kind not in "iuf":
        if not _same_kind(stored, dtype) and not is_any(aggregation.dtype):
            raise FragmentMismatchError(
                f"{where}: the sub-array has type {stored.name}, which cannot be converted to {dtype.name}, the type "
                f"of {aggregation.name!r}; name the right variable"
            )
        texts = tuple(missing_texts(h.attributes, stored) for h in (header, aggregation))
        differ = bool(texts[1]) and not set(texts[0]) <= set(texts[1])
        return Recipe(
            **placed, identity=not differ, source=stored, target=dtype, texts=(texts[0], texts[1]) if differ else None
        )

    for kind, name in ((stored, header.variable), (dtype, aggregation.name)):
        if kind.kind == "f" and kind.itemsize not in {4, 8}:
            raise UnsupportedError(f"{where}: {name!r} has type {kind.name}; real types are float32 and float64")
    source, target = read_as(stored, header.attributes), read_as(dtype, aggregation.attributes)
    missing = Missing.of(
        header.attributes, stored, source, scale=unpack.scale, offset=unpack.offset, fill=layout.fill, where=where
    )
    pack = Packing.of(aggregation.attributes, where=_master(aggregation)) if aggregation.packs else Packing()
    change = _change(aggregation, layout, header, where)
    fill = master_fill(aggregation)
    declared = fill is not None and not math.isnan(fill)
    if fill is not None:
        fill = reinterpret(fill, dtype, target)
    elif not missing.declared and (default := default_fill(dtype)) is not None:
        fill = reinterpret(default, dtype, target)
    common: dict[str, Any] = {**placed, "source": source, "target": target, "missing": missing, "fill": fill}
    if not isinstance(change, tuple):
        clash = _valid(missing, -math.inf, math.inf) if declared else None
        return Recipe(
            **common, identity=False, scale=unpack.scale, offset=unpack.offset, clash=clash, dates=change, pack=pack
        )

    scale, offset = _compose(unpack, change, pack, where)
    pure = (scale, offset) == (1.0, 0.0)
    identity = source == target and pure and _same_missing(aggregation, missing, source, target)
    clash = _clash(source, target, scale, offset, missing, fill) if declared and not identity else None
    whole = target.kind in "iu" and not pure and not pack
    exact = None
    if whole and source.kind in "iu" and not unpack:
        divisor = math.lcm(change[0].denominator, change[1].denominator)
        exact = int(change[0] * divisor), int(change[1] * divisor), divisor
    return Recipe(**common, identity=identity, scale=scale, offset=offset, clash=clash, whole=whole, exact=exact)


def _change(aggregation: Aggregation, layout: Layout, header: Header, where: str) -> Linear | DateChange:
    """Return the conversion of units between sub-array and master."""
    own, calendar = (_said(header.attributes, name, where) for name in ("units", "calendar"))
    try:
        if own is not None and layout.units is not None:
            stated = layout.calendar or calendar
            if transform(own, calendar or stated, layout.units, stated) != SAME:
                raise _contradiction(own, layout.units)
        # Empty units are those of a pure number; only none at all are those of the master.
        units = next((u for u in (layout.units, own) if u is not None), aggregation.units)
        change = transform(
            units, layout.calendar or calendar or aggregation.calendar, aggregation.units, aggregation.calendar
        )
        sides = header.attributes, aggregation.attributes
        return change_of_temperatures(change, units, *sides) if isinstance(change, tuple) else change
    except (UnitsError, CalendarError) as error:
        raise type(error)(
            f"{where}: {error.message} (aggregation {aggregation.name!r}, units {aggregation.units!r}); "
            "correct the units or calendar of the partition or of the aggregation"
        ) from error


def _said(attributes: Mapping[str, Any], name: str, where: str) -> str | None:
    """Return the text of an attribute, or `None` if it is absent; the number 1 counts as text."""
    value = attributes.get(name)
    if value is None or isinstance(value, str):
        return value
    if name == "units" and np.ndim(value) == 0 and value == 1:
        return "1"
    # Read as text, the number 5 would be a unit with the factor five.
    raise UnitsError(f"{where}: attribute {name} = {value!r} of the sub-array is not text; correct it in the file")


def _contradiction(own: str, said: str) -> UnitsError:
    return UnitsError(f"its file has units {own!r}, but the aggregation says {said!r}; correct one of them")


def _compose(unpack: Packing, change: Linear, pack: Packing, where: str) -> tuple[float, float]:
    """Return unpacking, unit conversion and packing combined to one scale and offset, rounded once."""
    scale, offset = change
    inverse_scale, inverse_offset = inverse(pack)
    total = Fraction(unpack.scale) * scale * inverse_scale
    shift = (Fraction(unpack.offset) * scale + offset) * inverse_scale + inverse_offset
    try:
        return float(total), float(shift)
    except OverflowError as error:
        raise ConformError(f"{where}: packing and units together exceed the range of numbers; correct them") from error


def inverse(pack: Packing) -> Linear:
    """Return the scale and offset that pack values."""
    scale, offset = Fraction(pack.scale), Fraction(pack.offset)
    return 1 / scale, -offset / scale


def _clash(
    source: np.dtype[Any], target: np.dtype[Any], scale: float, offset: float, missing: Missing, fill: Any
) -> tuple[int | float, int | float] | None:
    """Return the range of stored values that may become the fill of the master without being missing.

    Real values are not searched for a fill as large as 1e20, which a computed value equals only by accident.
    """
    pure = (scale, offset) == (1.0, 0.0)
    if source.kind == target.kind == "f" and not pure and abs(fill) > EXACT:
        return None
    if math.isinf(fill) or (pure and target.kind in "iu"):
        low = high = fill
    else:
        width = 0.5 if target.kind in "iu" else float(np.spacing(target.type(abs(fill))))
        ends = (fill - width - offset) / scale, (fill + width - offset) / scale
        slack = min(1e-9 * max(1.0, *map(abs, ends)), EXACT)
        low, high = min(ends) - slack, max(ends) + slack
    if source.kind in "iu":
        least, most = integer_range(source)
        if low > most or high < least:
            return None
        low, high = math.ceil(max(low, least)), math.floor(min(high, most))
    low, high = _valid(missing, low, high)
    few = source.kind in "iu" and high - low < 8
    if low > high or (few and all(v in missing.fills for v in range(math.ceil(low), math.floor(high) + 1))):
        return None
    return low, high


def _valid(missing: Missing, low: float, high: float) -> tuple[int | float, int | float]:
    """Return the part of a range of stored values that is valid."""
    low = low if missing.low is None else max(low, missing.low)
    return low, high if missing.high is None else min(high, missing.high)


def _same_missing(aggregation: Aggregation, missing: Missing, source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether the same stored values are missing in sub-array and master, and none needs another number."""

    def typed(values: Any, kind: np.dtype[Any]) -> set[Any]:
        # NaN is missing on both sides, whether declared or not; what the type lacks is on neither.
        return {v.item() for v in typed_fills(values, kind)}

    dtype, where = aggregation.dtype.newbyteorder("="), _master(aggregation)
    own = Missing.of(aggregation.attributes, dtype, target, netcdf=False, warn=False, where=where)
    bounded = missing.low is not None or missing.high is not None
    # Integers outside a valid range of both stay, as nothing says which other number is missing.
    if bounded and (dtype.kind == "f" or own.fills or (own.low, own.high) != (missing.low, missing.high)):
        return False
    default = default_fill(dtype)
    # Readers of the master know the fill values that it declares, or else for integers the default of netCDF.
    bare = () if dtype.kind == "f" or default is None else (reinterpret(default, dtype, target),)
    fills = own.fills or bare
    return typed(missing.fills, source) == typed(fills, target)


def is_any(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is `ANY`; comparing types is not enough, because other object types are equal to it."""
    metadata: Mapping[str, Any] | None = dtype.metadata
    return bool(metadata and metadata.get("any"))


def _same_kind(stored: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether two types that are not both real numbers contain the same kind of values."""
    if stored == dtype:
        return True
    if dtype.kind in "US" and (stored.kind != dtype.kind or stored.itemsize > dtype.itemsize):
        return False  # longer texts would be cut
    text = "OUTS"
    return stored.kind in text and dtype.kind in text and "S1" not in {stored.str[1:], dtype.str[1:]}


def _master(aggregation: Aggregation) -> str:
    """Return the name of the master for messages."""
    return f"file {aggregation.source or '(none)'}, variable {aggregation.name}"
