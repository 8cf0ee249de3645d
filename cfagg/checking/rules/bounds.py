"""Metadata of bounds variables, including those of climatologies: CF sections 7.1 and 7.4.

*bounds*: the variable that gives the vertices of the cells of a coordinate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfagg.cf.attribute_table import attribute_table
from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.datetimes import CALENDAR_NAMES
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.times import time_like
from cfagg.findings.finding import Hit, Severity
from cfagg.findings.rule import rule, shared
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dimension, Variable

#: Attributes that a bounds variable inherits: "BI" in Appendix A, since CF-1.11.
INHERITED = [name for name, row in attribute_table().items() if "BI" in row.uses[-1][1]]

#: Attributes that had to agree from CF-1.7 to CF-1.10; before, only the first two.
_AGREEING = ("units", "standard_name", "axis", "positive", "calendar", "leap_month", "leap_year", "month_lengths")

#: Attributes that bounds should not have before CF-1.11.
_UNWANTED = ("_FillValue", "missing_value")


#: Attributes that CLM005 checks.
_OF_CLIMATOLOGIES = ("units", "standard_name", "calendar")


@once
def bounded(c: Context) -> list[tuple[Variable, Variable]]:
    """Return each variable that names one existing bounds variable, with the latter."""
    return _with_cells(c, "bounds")


def _with_cells(c: Context, attribute: str) -> list[tuple[Variable, Variable]]:
    named = ((v, c.target(v, attribute)) for v in c.with_attribute(attribute))
    return [(v, b) for v, b in named if b is not None and b is not v]


def one_existing_name(c: Context, attribute: str) -> Iterator[Hit]:
    """Yield the variables whose attribute is not the name of one variable of the dataset."""
    for v in c.with_attribute(attribute):
        text = v.text(attribute)
        if text is None:
            if not faulty_text(v.attributes[attribute], c.version):
                yield Hit(v, attribute, f"{attribute} is not text; expected the name of a variable")
            continue
        targets = c.references_of(v, attribute)
        if len(targets) != 1:
            count = f"names {len(targets)} variables" if targets else "is empty"
            yield Hit(v, attribute, f"{attribute} {count}; expected the name of one variable")
        elif targets[0].target is None:
            if left_to_search(c, v, targets[0].name):
                continue
            yield Hit(v, attribute, f"there is no variable {targets[0].name!r}; correct the name or add the variable")
        elif targets[0].target is v:
            yield Hit(v, attribute, f"{v.name!r} names itself; expected the name of another variable")


def same_dimensions(a: tuple[Dimension, ...], b: tuple[Dimension, ...]) -> bool:
    """Whether dimensions are the same, by name and size for groups of a store without shared dimensions."""
    return len(a) == len(b) and all(x is y or (x.name, x.size) == (y.name, y.size) for x, y in zip(a, b, strict=True))


def shown(dimensions: tuple[Dimension, ...]) -> str:
    """Return dimensions as in a declaration."""
    return "(" + ", ".join(f"{d.name} = {d.size}" for d in dimensions) + ")"


shared(one_existing_name, BND001="bounds", CLM002="climatology")


@rule("BND002", each=bounded)
def bounds_are_numbers(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable holds numbers."""
    if not b.is_numeric:
        held = {"char": "characters", "string": "strings"}.get(b.kind, "values that are not numbers")
        yield Hit(b, None, f"the bounds variable of {v.path!r} holds {held}; expected numbers")


@rule("BND003", each=bounded)
def bounds_have_a_vertex_dimension(c: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable has the dimensions of its parent followed by one for the vertices."""
    if v.is_text or not b.is_numeric:
        return
    if not b.dimensions or not same_dimensions(b.dimensions[:-1], v.dimensions):
        parent = f"{shown(v.dimensions)} of {v.path!r}" if v.dimensions else f"none, as {v.path!r},"
        message = (
            f"the dimensions are {shown(b.dimensions)}; expected those of the coordinate, {parent} "
            "and then one for the vertices"
        )
        yield Hit(b, None, message)
        return
    found = _vertices(c, v, b.dimensions[-1].size)
    if found is not None:
        yield Hit(b, None, found[0], found[1])


def _vertices(c: Context, v: Variable, size: int) -> tuple[str, Severity | None] | None:
    """Return the error in the number of vertices and its severity, or `None`."""
    rank = len(v.dimensions)
    axis = axis_of(c, v)
    if rank > 1:
        if size > 2:
            return None
        message = f"cells of {v.path!r}, which has {rank} dimensions, have {size} vertices; expected more than two"
        if size < 2 or (axis not in ("Z", "T") and c.version >= Version(1, 12)):
            return message, None
        # CF requires polygons, which do not apply to a height or a time that varies in space.
        return (message + ", though intervals have two", "warning") if c.version >= Version(1, 12) else None
    if size == 2:
        return None
    message = f"cells of {v.path!r}, which has {rank or 'no'} dimension(s), have {size} vertices; expected two"
    if size > 2 and not v.is_coordinate and axis in ("X", "Y", None):
        # Polygons in a list of cells, as in section 7.1.3.
        return (message + ", unless they are horizontal polygons", "warning") if axis is None else None
    return message, None


@once
def _inheriting(c: Context) -> list[tuple[Variable, Variable]]:
    """Return the variables whose bounds variables inherit attributes: since CF-1.13 also those of climatologies.

    A variable of another shape was probably named by mistake, so its attributes are not compared.
    """
    pairs = bounded(c) + (climatological(c) if c.version >= Version(1, 13) else [])
    return [(v, b) for v, b in pairs if b.dimensions and same_dimensions(b.dimensions[:-1], v.dimensions)]


def _same(c: Context, one: object, other: object) -> bool:
    """Whether two attributes have the same value and type, or the same kind of type in untyped datasets."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        kinds = one.dtype.kind == other.dtype.kind if not c.dataset.typed else one.dtype == other.dtype
        return kinds and one.shape == other.shape and bool(np.array_equal(one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    return type(one) is type(other) and one == other


@rule("BND006", each=_inheriting)
def inherited_attributes_are_on_the_parent(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable has an attribute that it would inherit only if its parent has it."""
    for name in INHERITED:
        if name in b.attributes and name not in v.attributes:
            message = f"{name} is on the bounds variable but not on its coordinate {v.path!r}; move it there"
            yield Hit(b, name, message).mended()


@rule("BND007")
def inherited_attributes_are_the_parents(c: Context) -> Iterator[Hit]:
    """An inherited attribute on a bounds variable is that of its parent in type and value."""
    names = INHERITED if c.version >= Version(1, 11) else _AGREEING if c.version >= Version(1, 7) else _AGREEING[:2]
    for v, b in _inheriting(c):
        for name in names:
            if "bounds" not in v.attributes and name in _OF_CLIMATOLOGIES:
                continue  # CLM005
            if name not in b.attributes or name not in v.attributes:
                continue
            if not _same(c, b.attributes[name], v.attributes[name]):
                yield _differs(c, v, b, name)


def _differs(c: Context, v: Variable, b: Variable, name: str) -> Hit:
    from cfagg.cf.kinds_of_units import convertible

    mine, theirs = b.text(name), v.text(name)
    severity: Severity | None = None
    if c.version < Version(1, 7) and mine is not None and theirs is not None:
        # Before CF-1.7 they only have to agree in meaning, so other spellings are allowed.
        alike = mine.strip().lower() == theirs.strip().lower() or (name == "units" and convertible(mine, theirs))
        severity = "warning" if alike else None
    message = f"{name} is {_value(b, name)}, on the coordinate {v.path!r} it is {_value(v, name)}; delete it here"
    return Hit(b, name, message, severity).mended()


def _value(v: Variable, name: str) -> str:
    value = v.attributes[name]
    if isinstance(value, np.ndarray):
        return f"{', '.join(str(x) for x in value.ravel()[:4])} of type {value.dtype.name}"
    return f"{value!r:.80}"


@rule("BND010")
def no_inherited_attributes(c: Context) -> Iterator[Hit]:
    """A bounds variable does not repeat attributes of its parent, and before CF-1.11 declares no missing data."""
    names = INHERITED if c.version >= Version(1, 11) else _AGREEING if c.version >= Version(1, 7) else ()
    for v, b in _inheriting(c):
        for name in names:
            if name in b.attributes and name in v.attributes and _same(c, b.attributes[name], v.attributes[name]):
                message = f"{name} repeats what the bounds variable inherits from {v.path!r}; delete it"
                yield Hit(b, name, message).mended(safe=True)
            elif name in b.attributes and name not in v.attributes and c.version < Version(1, 11):
                message = f"{name} belongs on the coordinate {v.path!r}, not on its bounds; move it there"
                yield Hit(b, name, message).mended()
        for name in _UNWANTED if c.version < Version(1, 11) else ():
            if name in b.attributes:
                yield Hit(b, name, f"before CF-1.11 bounds should not have {name}; delete it")


@once
def climatological(c: Context) -> list[tuple[Variable, Variable]]:
    """Return each variable that names one existing bounds variable of a climatology, with the latter."""
    return _with_cells(c, "climatology")


@rule("CLM001")
def climatology_only_on_times(c: Context) -> Iterator[Hit]:
    """Only time coordinates have climatology, in place of bounds."""
    like = time_like(c)
    for v in c.with_attribute("climatology"):
        if v not in like:
            message = "climatology is on a variable that is not a time coordinate; use bounds, or give it units of time"
            yield Hit(v, "climatology", message)
        elif "bounds" in v.attributes:
            message = "a time has both climatology and bounds; the text says that a climatological time has no bounds"
            yield Hit(v, "climatology", message, "warning")


@rule("CLM003")
def climatology_bounds_are_pairs(c: Context) -> Iterator[Hit]:
    """A bounds variable of a climatology has the dimensions of its time followed by one of size 2."""
    like = time_like(c)
    for v, b in climatological(c):
        if not b.is_numeric or v not in like:
            continue  # CLM004, CLM001
        if not b.dimensions or not same_dimensions(b.dimensions[:-1], v.dimensions) or b.dimensions[-1].size != 2:
            first = ", ".join(v.dims) + ", " if v.dims else ""
            yield Hit(b, None, f"the dimensions are {shown(b.dimensions)}; expected ({first}and one of size 2)")


@rule("CLM004", each=climatological)
def climatology_bounds_are_numbers(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable of a climatology holds numbers."""
    if not b.is_numeric:
        yield Hit(b, None, f"the bounds variable of {v.path!r} does not hold numbers")


@rule("CLM005", each=climatological)
def climatology_bounds_agree_with_the_time(_: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Units, standard_name and calendar of the bounds variable agree with those of its time."""
    for name in ("units", "standard_name", "calendar"):
        if name not in b.attributes or name not in v.attributes:
            continue
        mine, theirs = b.text(name), v.text(name)
        if mine == theirs and mine is not None:
            continue
        own, others = f"{b.attributes[name]!r:.80}", f"{v.attributes[name]!r:.80}"
        message = f"{name} is {own}, on the time {v.path!r} it is {others}; delete it here"
        yield Hit(b, name, message, _doubt(name, b, v)).mended()


def _doubt(name: str, b: Variable, v: Variable) -> Severity | None:
    """Return a lower severity if only the spelling differs."""
    mine, theirs = (b.text(name) or "").strip().lower(), (v.text(name) or "").strip().lower()
    if name == "calendar" and mine in CALENDAR_NAMES and theirs in CALENDAR_NAMES:
        return "warning" if CALENDAR_NAMES[mine][0] == CALENDAR_NAMES[theirs][0] else None
    return "warning" if " ".join(mine.split()) == " ".join(theirs.split()) else None


@rule("CLM006", each=climatological)
def climatology_bounds_are_never_missing(_: Context, __: Variable, b: Variable) -> Iterator[Hit]:
    """A bounds variable of a climatology has no _FillValue and no missing_value."""
    for name in ("_FillValue", "missing_value"):
        if name in b.attributes:
            message = f"{name} is on the bounds variable of a climatology, where no value may be missing; delete it"
            yield Hit(b, name, message).mended()
