"""The properties of an array of several variables (type, units, missing value, attributes) and conversion to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.aggregation.names import REFERRING_TEXTS
from cfagg.cf import conform
from cfagg.cf.calendars import transform
from cfagg.cf.header import Header, plain
from cfagg.cf.joining import Stated
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.missing import WRITTEN_FILLS
from cfagg.cf.packing import STORAGE_ATTRIBUTES, read_as
from cfagg.cf.recipe import ANY
from cfagg.cf.units import SAME
from cfagg.errors import CfaggError
from cfagg.model import Aggregation, Grid, Layout, Partitions
from cfagg.model.dataset import enumeration_of
from cfagg.model.partitions import same_value

__all__ = ["Master", "common", "conformed", "distinct", "in_part", "master_of", "with_missing", "with_texts"]

#: Attributes on how values are stored; those of the master apply, not those of members.
_OF_VALUES = frozenset({"units", "calendar", *STORAGE_ATTRIBUTES})

#: Attributes that the rules consider equivalent in all members, however they are written: the first one's are kept.
_MEANT = REFERRING_TEXTS | {"cell_methods", "standard_name", "cf_role", "axis", "positive"}

#: Attributes that together define the meaning of numbers.
_FLAGS = ("flag_values", "flag_masks", "flag_meanings")

#: Maximum number of characters of texts that are joined.
_LONGEST = 4096

#: Attributes that make a variable an aggregation of other files, which do not apply to an array of several.
_MARKS = frozenset(
    {
        "aggregated_dimensions", "aggregated_data", "nca_array", "nca_dimensions", "cfa_array", "cfa_dimensions",
        "cfa_variable", "cfa_group",
    }
)  # fmt: skip

_PACKING = ("scale_factor", "add_offset")

#: Integer types that hold all values of another type and more.
_WIDER: Mapping[str, str] = {"i1": "i2", "u1": "i2", "i2": "i4", "u2": "i4", "i4": "i8", "u4": "i8"}


@dataclass(frozen=True, eq=False, slots=True)
class Master:
    """The properties of an array whose parts are stored in different forms."""

    dtype: np.dtype[Any]
    units: str | None = None
    calendar: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Attributes that differ between members or that some lack, and their values by number of the first member.
    differing: tuple[str, ...] = ()
    #: Whether all members are stored in the form of the array, so that no value changes.
    alike: bool = False

    def all_attributes(self) -> dict[str, Any]:
        """Return the attributes with units and calendar."""
        known = {"units": self.units, "calendar": self.calendar}
        return {**self.attributes, **{name: value for name, value in known.items() if value is not None}}


def distinct[T](things: Iterable[T]) -> list[T]:
    """Return objects, each once, in the order of their first appearance; equal objects may occur repeatedly."""
    return list({id(one): one for one in things}.values())


def master_of(stated: Sequence[Stated]) -> Master:
    """Return the properties of an array of variables (`distinct` if there are several); the first gives the units."""
    first = stated[0]
    attributes, differing = common([one.attributes for one in stated])
    units, calendar = first.text("units"), first.text("calendar")
    own = {k: v for k, v in first.attributes.items() if k in STORAGE_ATTRIBUTES}
    names, flags = enumeration_of(first.dtype), dict[str, Any]()
    if names is not None:
        # CF flags define the meaning of numbers in every dialect; those in the file itself take precedence.
        flags = {} if any(name in first.attributes for name in _FLAGS) else _flags_of(names, first.dtype)
        attributes = flags | attributes
        stated = [replace(one, dtype=np.dtype(one.dtype.str), kind="integer") for one in stated]
    dtypes = list(dict.fromkeys(one.dtype.newbyteorder("=") for one in stated))
    if not all(one.kind in ("integer", "float") for one in stated):
        dtype = dtypes[0] if len(dtypes) == 1 and dtypes[0].kind in "SV" else np.dtype(object)
        if stated[0].kind == "other":  # objects of any kind that the library returns
            dtype = ANY
        return Master(dtype, units, calendar, {**attributes, **_plain_of(own)}, differing)
    changed = _changes(stated)
    if changed and attributes.pop("actual_range", None) is not None:  # it is in the units of the files
        differing = (*differing, "actual_range")
    packed = any(name in one.attributes for one in stated for name in _PACKING)
    alike = len(dtypes) == 1 and not changed and not packed and all(_stored_alike(first, one) for one in stated[1:])
    if alike:
        return Master(dtypes[0], units, calendar, {**attributes, **_plain_of(own)}, differing, alike)
    dtype = np.result_type(*(_unpacked(one) for one in stated))
    if changed and (dtype.kind in "iu" or is_reference_time(units or "")):
        dtype = np.dtype("f8")
    fill: dict[str, Any] = {}
    if dtype.kind in "iu" and any(name in one.attributes for one in stated for name in STORAGE_ATTRIBUTES):
        # A valid value of one member may be declared missing by another; none has the fill value of a wider type.
        dtype = np.dtype(_WIDER.get(dtype.str[1:], dtype.str[1:]))
        fill["_FillValue"] = dtype.type(WRITTEN_FILLS[dtype.str[1:]])
        if "flag_values" in flags:
            fill["flag_values"] = flags["flag_values"].astype(dtype)
    return Master(dtype, units, calendar, {**attributes, **fill}, differing)


def _flags_of(names: Sequence[tuple[str, int]], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the meaning of an enumeration as CF flags, whose words contain no blanks."""
    words = ["_".join(name.split()) for name, _ in names]
    values = np.array([value for _, value in names], np.dtype(dtype.str).newbyteorder("="))
    return {"flag_values": plain(values), "flag_meanings": " ".join(words)}


def with_missing(master: Master, stated: Sequence[Stated]) -> Master:
    """Return the properties of a real array with NaN declared missing if variables declare missing values."""
    names = ("_FillValue", "missing_value")
    if master.dtype.kind != "f" or any(name in master.attributes for name in names):
        return master
    if not any(name in one.attributes for one in stated for name in names):
        return master
    return replace(master, attributes={**master.attributes, "_FillValue": master.dtype.type(np.nan)})


def in_part(master: Master) -> Master:
    """Return the properties of an array of parts of variables, whose range of values is unknown."""
    if "actual_range" not in master.attributes:
        return master
    left = {name: value for name, value in master.attributes.items() if name != "actual_range"}
    return replace(master, attributes=left, differing=(*master.differing, "actual_range"))


def common(attributes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the attributes shared by all, and the names of the others; those on storage are excluded."""
    first = attributes[0]
    kept = {name: value for name, value in first.items() if name not in _OF_VALUES and name not in _MARKS}
    if kept.get("cf_role") in ("nca", "cfa", "nca_variable", "cfa_variable"):
        del kept["cf_role"]
    lost: dict[str, None] = {}
    for other in attributes[1:]:
        if other is first:
            continue
        for name in [n for n, v in kept.items() if n not in other or not _equal(v, other[n])]:
            if name in _MEANT:
                continue
            del kept[name]
            lost[name] = None
        lost.update(dict.fromkeys(n for n in other if n not in kept and n not in _OF_VALUES | _MEANT | _MARKS))
    return {name: plain(value) for name, value in kept.items()}, tuple(lost)


def with_texts(master: Master, stated: Sequence[Stated]) -> Master:
    """Return the properties of an array with differing texts joined, if all variables have them and they are short."""
    found: dict[str, str] = {}
    for name in master.differing:
        texts: dict[str, None] = {}
        size = 0
        for one in stated:
            text = one.text(name)
            if text is None:
                break
            if text not in texts:
                texts[text] = None
                size += len(text)
            if size > _LONGEST:
                break
        else:
            found[name] = " :AGGREGATED: ".join(texts)
    if not found:
        return master
    left = tuple(name for name in master.differing if name not in found)
    return replace(master, attributes={**master.attributes, **found}, differing=left)


def conformed(values: npt.NDArray[Any], stated: Stated, master: Master, where: str) -> npt.NDArray[Any]:
    """Return values of a variable in the form of an array, as the reader of aggregations would."""
    if master.alike and values.dtype == master.dtype:
        return values
    if values.dtype.kind not in "iuf" or master.dtype.kind not in "iuf":
        return values if values.dtype.kind == master.dtype.kind else values.astype(master.dtype)
    dims = tuple(f"d{k}" for k in range(values.ndim))
    array = Aggregation(
        stated.name,
        dims,
        values.shape,
        master.dtype,
        Grid([[0] if n == 0 else [0, n] for n in values.shape]),
        Partitions.build(0 if 0 in values.shape else 1, layouts=[Layout(dims)]),
        master.units,
        master.calendar,
        attributes=master.attributes,
    )
    attributes = {k: plain(v) for k, v in stated.attributes.items()}
    header = Header(where, stated.name, dims, values.shape, values.dtype.newbyteorder("="), attributes)
    out = np.empty(values.shape, master.dtype)
    made = conform.recipe(array, Layout(dims), header, where=where)
    if not made.identity or values.dtype != master.dtype:
        conform.apply(made, values.astype(values.dtype.newbyteorder("="), copy=False), out, where=where)
        return out
    return values


def _plain_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in attributes.items()}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and same_value(one, other)
    return one is other or bool(one == other)


def _stored_alike(one: Stated, other: Stated) -> bool:
    """Return whether missing values and the valid range are declared in the same way."""
    names = [n for n in STORAGE_ATTRIBUTES if n in one.attributes or n in other.attributes]
    return all(
        n in one.attributes and n in other.attributes and _equal(one.attributes[n], other.attributes[n]) for n in names
    )


def _changes(stated: Sequence[Stated]) -> bool:
    """Return whether some values have to be converted to the units and calendar of the first."""
    first = stated[0].text("units"), stated[0].text("calendar")
    for pair in dict.fromkeys((one.text("units"), one.text("calendar")) for one in stated[1:]):
        if pair != first:
            try:
                if transform(*pair, *first) != SAME:
                    return True
            except CfaggError:
                return True  # reading the values reports the error
    return False


def _unpacked(stated: Stated) -> np.dtype[Any]:
    """Return the type of the values that stored ones represent."""
    own = read_as(stated.dtype.newbyteorder("="), stated.attributes)
    said = [stated.attributes[name] for name in _PACKING if name in stated.attributes]
    if not said:
        return own
    # Integers of more than 2 bytes have more digits than 4-byte floats, and so have 8-byte ones.
    wide = own.itemsize > (4 if own.kind == "f" else 2)
    return np.result_type(np.float32, *(np.asarray(v).dtype for v in said), *([np.float64] if wide else []))
