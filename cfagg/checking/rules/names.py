"""Names of variables, dimensions and attributes, and the order of dimensions: CF sections 2.3, 2.4 and 2.5."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from cfagg.cf.roles import Axis
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, groups, once, variables
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dimension, Group, Variable

#: Prefixes of names that libraries or services create, not the writer of the dataset.
_SYSTEM = (
    "_FillValue", "_Unsigned", "_Encoding", "_Coordinate", "_Quantize", "_ChunkSize", "_Chunk", "_Storage", "_Deflate",
    "_Shuffle", "_Fletcher32", "_Endianness", "_NoFill", "_Filter", "_Codecs", "_Format", "_IsNetcdf4", "_NC",
    "_Netcdf4", "_ARRAY_DIMENSIONS", "_nczarr", "_NCZARR", "_SuperblockVersion", "_nc3_strict", "_edu_ucar", "DODS",
)  # fmt: skip

_GOOD = "expected a letter, followed by letters, digits and underscores"


def _is_good(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None


@lru_cache(maxsize=1024)
def _is_bad(name: str) -> bool:
    return not _is_good(name) and not name.startswith(_SYSTEM)


def _bad(names: Iterable[str]) -> Iterator[str]:
    return filter(_is_bad, names)


@rule("DOC004", each=groups)
def names_are_simple(c: Context, group: Group) -> Iterator[Hit]:
    """Names begin with a letter and consist of letters, digits and underscores."""
    last = group.path.rpartition("/")[2]
    if last and c.version >= Version(1, 8) and not _is_good(last):
        yield Hit(group, None, f"the group is named {last!r}; {_GOOD}")
    for name in _bad(group.dimensions):
        yield Hit(group, None, f"a dimension is named {name!r}; {_GOOD}")
    for name in _bad(group.attributes):
        yield Hit(group, name, f"the attribute is named {name!r}; {_GOOD}")
    for v in group.variables.values():
        if not _is_good(v.name):
            yield Hit(v, None, f"the variable is named {v.name!r}; {_GOOD}")
        for name in _bad(v.attributes):
            yield Hit(v, name, f"the attribute is named {name!r}; {_GOOD}")


@rule("DOC005", each=groups)
def variables_differ_by_more_than_case(_: Context, group: Group) -> Iterator[Hit]:
    """No two variables of a group have names that differ only by letter case."""
    seen: dict[str, str] = {}
    for v in group.variables.values():
        first = seen.setdefault(v.name.casefold(), v.name)
        if first != v.name:
            yield Hit(v, None, f"its name and that of {first!r} differ only in letter case: rename one")


@rule("DOC006", each=variables)
def dimensions_are_distinct(_: Context, v: Variable) -> Iterator[Hit]:
    """A variable does not repeat a dimension."""
    if len(set(v.dims)) == len(v.dims):
        return
    twice = min(d for d, count in Counter(v.dims).items() if count > 1)
    yield Hit(v, None, f"dimension {twice!r} occurs more than once in ({', '.join(v.dims)})")


@rule("DOC009", each=variables)
def text_is_not_named_like_its_dimension(_: Context, v: Variable) -> Iterator[Hit]:
    """A one-dimensional text variable does not have the name of its dimension."""
    if not v.is_text or not v.dims or v.dims[0] != v.name:
        return
    told = "text cannot be a coordinate variable: rename the variable or the dimension"
    if len(v.dims) == 1:
        yield Hit(v, None, f"the {v.kind} variable has the name of its dimension; {told}")
    elif len(v.dims) == 2 and v.kind == "char":
        # It is a one-dimensional array of strings in section 2.2, but has two dimensions.
        note = "it is one-dimensional if the length of the strings is not counted"
        yield Hit(v, None, f"the strings have the name of their dimension ({note}); {told}", "warning")


@once
def _coordinates(c: Context) -> dict[int, Variable]:
    """Return the coordinate variable of each dimension, by identity of the dimension."""
    return {id(v.dimensions[0]): v for v in c.dataset.variables if v.is_coordinate}


@once
def _spatial(c: Context) -> set[int]:
    """Return the dimensions that auxiliary coordinates of space or time span, by identity."""
    return {id(d) for v in c.roles.auxiliary if v.dimensions and axis_of(c, v) for d in v.dimensions}


@once
def _labelled(c: Context) -> set[int]:
    """Return the dimensions whose elements have labels, by identity."""
    return {id(v.dimensions[0]) for v in c.roles.auxiliary if v.is_text and v.dimensions}


@once
def _axes(c: Context) -> dict[int, Axis | None]:
    """Return the axis of each dimension that has a coordinate variable, by identity of the dimension."""
    return {dimension: axis_of(c, v) for dimension, v in _coordinates(c).items()}


@rule("DOC007")
def space_and_time_are_in_order(c: Context) -> Iterator[Hit]:
    """Dimensions of time, height, latitude and longitude are in this order."""
    axes = _axes(c)
    for v in c.dataset.variables:
        if len(v.dimensions) < 2:
            continue
        found = [(d.name, axis) for d in v.dimensions if (axis := axes.get(id(d))) is not None]
        places = ["TZYX".index(axis) for _, axis in found]
        if places != sorted(places):
            wanted = [name for name, axis in sorted(found, key=lambda pair: "TZYX".index(pair[1]))]
            message = (
                f"its dimensions of space and time are in the order ({', '.join(n for n, _ in found)}); "
                f"the recommended order is time, height, latitude, longitude: ({', '.join(wanted)})"
            )
            yield Hit(v, None, message)


@rule("DOC008")
def other_dimensions_come_first(c: Context) -> Iterator[Hit]:
    """Dimensions other than those of space and time precede them."""
    axes, data = _axes(c), c.roles.data
    coards = "COARDS" in (c.dataset.root.text("Conventions") or "")
    for v in c.dataset.variables:
        if len(v.dimensions) < 2 or v not in data or not v.is_numeric:
            continue
        first = next((n for n, d in enumerate(v.dimensions) if axes.get(id(d))), None)
        if first is None:
            continue
        late = [d.name for d in v.dimensions[first + 1 :] if not axes.get(id(d)) and _is_other(c, d, coards=coards)]
        if late:
            reason = "as COARDS requires" if coards else "where that is possible"
            message = f"{late[0]!r} is not a space or time dimension: put it before {v.dims[first]!r}, {reason}"
            yield Hit(v, None, message, None if coards else "info")


def _is_other(c: Context, dimension: Dimension, *, coards: bool) -> bool:
    """Whether a dimension without an axis is known not to be one of space and time."""
    v = _coordinates(c).get(id(dimension))
    if id(dimension) in _spatial(c):
        return False
    if v is None:
        return coards or id(dimension) in _labelled(c)
    return "compress" not in v.attributes and v.text("standard_name") != "healpix_index"
