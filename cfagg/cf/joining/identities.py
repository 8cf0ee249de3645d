"""Identities of variables, and attributes in a comparable form."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import isnan
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from cfagg.cf.calendars import parse as reference
from cfagg.cf.cell_methods import Interval, parse
from cfagg.cf.datetimes import calendar_name
from cfagg.cf.joining.options import Options
from cfagg.cf.kinds_of_units import is_reference_time, meaning
from cfagg.cf.packing import Packing
from cfagg.cf.references import REFERRING
from cfagg.cf.roles import place_of
from cfagg.cf.units import linear_exact
from cfagg.errors import CfaggError
from cfagg.model.dataset import Dimension, Group, Variable

__all__ = [
    "DATASETS", "MADE_BY", "VERSION", "code_of_model", "field_identity", "frozen", "identity", "is_single", "length",
    "methods", "properties", "units_key", "unusable",
]  # fmt: skip

_known: WeakKeyDictionary[Group, frozenset[Dimension]] = WeakKeyDictionary()

#: CF attributes that describe the data, and are compared by their meaning, or not at all.
_STANDARD = frozenset(
    {
        *REFERRING,
        *("standard_name", "units", "calendar", "cell_methods", "axis", "positive", "cf_role", "mesh", "location"),
        *("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "actual_range", "history"),
        *("valid_min", "valid_max", "valid_range", "flag_values", "flag_masks", "flag_meanings"),
        *("featureType", "Conventions", "external_variables"),
    }
)

#: Attributes that distinguish published datasets with equal coordinates, if these would overlap.
DATASETS = (
    *("mip_era", "project_id", "activity_id", "dataset_id", "product", "institution_id", "institute_id", "institution"),
    *("source_id", "model_id", "source", "experiment_id", "experiment", "sub_experiment_id", "variant_label"),
    *("member_id", "ensemble_member", "realization", "realization_index", "initialization_index", "physics_index"),
    *("initialization_method", "physics_version", "forcing_index", "parent_experiment_rip", "grid_label", "table_id"),
    *("frequency", "driving_model_id", "driving_experiment_name", "driving_model_ensemble_member", "rcm_version_id"),
    *("bc_method_id", "target_institution_id", "run_id", "runid", "um_version", "platform", "instrument", "title"),
)

#: Of these, those that tell models, experiments and instruments apart.
MADE_BY = (
    *("source_id", "model_id", "source", "experiment_id", "experiment", "sub_experiment_id", "driving_model_id"),
    *("driving_experiment_name", "rcm_version_id", "bc_method_id", "platform", "instrument"),
)

#: Standard names, in lower case, that say that there is none.
_UNSAID = frozenset({"", "unknown", "none", "undefined", "n/a"})

#: The attribute with the number of a parameter in ECMWF's table; 0 is none of them.
_PARAMETER = "GRIB_paramId"

#: The version of the Unified Model, which determines the meaning of its codes.
VERSION = "um_version"


def identity(variable: Variable, options: Options) -> str | None:
    """Return the identity of a coordinate or another variable, such as its standard name."""
    if options.variable_identities:
        return f"ncvar%{variable.name}"
    name = _standard_name(variable)
    if name:
        return name
    place = place_of(variable.attributes)
    if place is not None:
        return place
    if is_reference_time(variable.text("units") or ""):
        return "time"
    return f"ncvar%{variable.name}" if options.allow_no_identity else _relaxed(variable, options)


def field_identity(variable: Variable, options: Options) -> str | None:
    """Return the identity of a data variable."""
    if options.field_identity is not None:
        value = variable.attributes.get(options.field_identity)
        return None if value is None else f"{options.field_identity}={frozen(value)}"
    if options.variable_identities:
        return f"ncvar%{variable.name}"
    return _standard_name(variable) or _relaxed(variable, options) or code_of_model(variable) or _code_of_grib(variable)


def _standard_name(variable: Variable) -> str | None:
    """Return the standard name of a variable, if it says one."""
    name = " ".join((variable.text("standard_name") or "").split())
    return name if name.lower() not in _UNSAID else None


def _code_of_grib(variable: Variable) -> str | None:
    """Return the number of ECMWF's table of parameters in files made of GRIB, in which names are often "unknown"."""
    code = frozen(variable.attributes.get(_PARAMETER))
    return f"{_PARAMETER}={code}" if isinstance(code, int | np.integer) and code > 0 else None


def code_of_model(variable: Variable) -> str | None:
    """Return the code, with its version, by which the Unified Model identifies a quantity, or `None`."""
    for name in ("um_stash_source", "um_field_code"):
        code = variable.attributes.get(name)
        if code is not None:
            # iris writes the version of all variables once.
            places: tuple[Variable | Group, ...] = (variable, *variable.group.ancestors())
            version = next((text for place in places if (text := place.text(VERSION))), None)
            return f"{name}={frozen(code)}" + (f" of version {version}" if version else "")
    return None


def _relaxed(variable: Variable, options: Options) -> str | None:
    if not options.relaxed_identities:
        return None
    return f"long_name={variable.text('long_name')}" if variable.text("long_name") else f"ncvar%{variable.name}"


@lru_cache(maxsize=4096)
def units_key(units: str | None, calendar: str | None) -> Hashable:
    """Return the meaning of units, with the calendar of reference times; unknown units are returned unchanged.

    Times that others cannot be converted to, such as months since a date, have their unit and reference time, too.

    >>> units_key("days since 2000-1-1", None), units_key("months since 2000-1-1", None)
    (('reference time', 'standard'), ('reference time', 'standard', 'months since 2000-01-01'))
    """
    if units is None:
        return None
    if is_reference_time(units):
        try:
            own = reference(units, calendar)
        except CfaggError:
            # Joining them with others names the file in which the reference time cannot be understood.
            return "reference time", calendar_name(calendar) or calendar
        return ("reference time", own.calendar, own.alone) if own.alone else ("reference time", own.calendar)
    found = meaning(units)
    return units if found is None else (tuple(sorted(found.dimension)), found.logarithmic)


def methods(text: str | None, names: Mapping[str, str], words: Mapping[str, str] | None = None) -> Hashable:
    """Return the meaning of cell methods, without comments, by `names` of axes and `words` for variables."""
    if text is None:
        return None
    words = words or {}
    found = []
    for e in parse(text).entries:
        each = e.intervals * len(e.names) if len(e.intervals) == 1 else e.intervals
        spaced = [_interval(i) for i in each] if len(each) == len(e.names) else [None] * len(e.names)
        axes = sorted(zip((names.get(n, n) for n in e.names), spaced, strict=True), key=str)
        areas = (None if word is None else words.get(word, word) for word in (e.where, e.over, e.norm))
        found.append((tuple(axes), e.method.lower(), *areas, " ".join((e.within or "", e.period or "")).strip()))
    return tuple(found)


def _interval(interval: Interval) -> tuple[float, str]:
    """Return a spacing in base units, as exactly as units convert; or in its own units if these are unknown."""
    own, value = meaning(interval.unit), float(interval.value)
    if own is not None and not own.logarithmic and not own.reference:
        base = " ".join(f"{unit}{power if power != 1 else ''}" for unit, power in sorted(own.dimension)) or "1"
        try:
            # An interval is a difference, so the different zeros of Celsius and Kelvin do not matter. As a fraction the
            # text itself could have billions of digits, given a large exponent.
            return float(f"{float(Fraction(value) * linear_exact(interval.unit, base)[0]):.12g}"), base
        except (CfaggError, OverflowError):
            pass
    return value, interval.unit


def frozen(value: Any) -> Hashable:
    """Return an attribute in a comparable form."""
    if isinstance(value, np.ndarray):
        numbers = value.ravel().tolist()
        # NaN equals NaN here.
        numbers = ["nan" if isinstance(v, float) and isnan(v) else v for v in numbers]
        return numbers[0] if len(numbers) == 1 else tuple(numbers)
    return value if isinstance(value, Hashable) else repr(value)


def length(variable: Variable) -> tuple[str, ...]:
    """Return the dimensions of a variable, without that of the characters of text."""
    return variable.dims[:-1] if variable.kind == "char" and not is_single(variable) else variable.dims


def is_single(variable: Variable) -> bool:
    """Return whether a variable has a character for each place along its last dimension, which others have, too."""
    last = variable.dimensions[-1:] if variable.kind == "char" else ()
    return any(not _places(group).isdisjoint(last) for group in variable.group.ancestors())


def _places(group: Group) -> frozenset[Dimension]:
    """Return the dimensions of the variables of a group, without those of characters only."""
    found = _known.get(group)
    if found is None:
        dims = (v.dimensions[:-1] if v.kind == "char" else v.dimensions for v in group.variables.values())
        found = _known[group] = frozenset(chain.from_iterable(dims))
    return found


def properties(own: Mapping[str, Any], around: Mapping[str, Any], options: Options) -> dict[str, Hashable]:
    """Return the attributes that must be equal, or must exist, according to the options."""
    both = {**around, **own}
    left = set(options.ignore)
    out: dict[str, Hashable] = {name: frozen(both.get(name)) for name in options.equal if name not in left}
    out |= {f"{name} exists": name in both for name in options.exist if name not in left}
    if options.equal_all or options.exist_all:
        left |= {*options.equal, *options.exist, *options.dimension, *options.field_ancillaries, *_STANDARD}
        rest = sorted(set(both) - left)
        if options.equal_all:
            out |= {name: frozen(both[name]) for name in rest}
        out["names of attributes"] = tuple(rest)
    return out


def unusable(variable: Variable) -> str | None:
    """Return why the values of a variable cannot be read and compared, or `None` if they can."""
    if variable.unreadable:
        return f"cannot be read: {variable.unreadable}"
    if variable.dialect is not None:
        return "is an aggregation itself"
    if variable.kind == "other" and variable.enumeration is None:
        return "contains neither numbers nor text"
    if variable.is_numeric:
        try:
            Packing.of(variable.attributes, where=variable.path)
        except CfaggError as error:
            return f"has packing that cannot be undone: {error.message}"
    return None
