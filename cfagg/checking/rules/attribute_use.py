"""Use and types of attributes: CF Appendix A, and section 8.1 for valid ranges."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from cfagg.cf.attribute_table import attribute_table, uses
from cfagg.cf.attribute_types import holds, said, said_type, same_type
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.checking.context import Context, groups, variables
from cfagg.checking.times import EXPLICIT
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Group, Variable

_VALID = ("valid_min", "valid_max", "valid_range")

#: Attributes of a wrong type that no other rule reports.
_UNTOLD = ("long_name", "standard_error_multiplier", "mesh", "location", "location_index_set", "select", *_VALID)

#: Common words that others also use as names of attributes, with or without capital letters.
_COMMON = frozenset(
    {
        "algorithm", "implementation", "location", "mesh", "dimensions", "select", "geometry", "nodes", "positive",
        "title", "history", "institution", "source", "references", "comment", "long_name", "quantization",
    }
)  # fmt: skip

#: Attributes by which programs unpack, mask or date values: under its proper name, one changes what they read.
_DECODING = frozenset({*STORAGE_ATTRIBUTES, *EXPLICIT, "calendar"})

#: Attributes of the dataset as a whole.
_GLOBAL = ("Conventions", "external_variables", "featureType")

#: Attributes of coordinates that have no separate rule for other variables.
_OF_COORDINATES = ("bounds", "positive", "nodes", "select")

#: Attributes of data.
_OF_DATA = ("ancillary_variables", "cell_measures", "cell_methods", "coordinates", "grid_mapping")


@rule("ATT001")
def attributes_hold_what_the_table_says(c: Context) -> Iterator[Hit]:
    """Attributes are text or numbers as Table A.1 specifies."""
    table = attribute_table()
    for v in c.with_attribute(*_UNTOLD):
        for name in _UNTOLD:
            if name not in v.attributes or not uses(name, c.version):
                continue
            value = v.attributes[name]
            kind = holds(value)
            if kind in ("bytes", "other"):
                continue
            if table[name].type == "S":
                # Since 1.12 there is a rule about arrays of strings.
                many = isinstance(value, tuple) and len(value) != 1 and c.version < Version(1, 12)
                if kind in ("integer", "real") or many:
                    yield Hit(v, name, f"it holds {said(value, typed=c.dataset.typed)}; expected text")
            elif kind in ("text", "texts"):
                if not v.is_text:
                    yield Hit(v, name, f"it holds {said(value)}; expected numbers")
            elif isinstance(value, np.ndarray):
                wanted = 2 if name == "valid_range" else 1
                if value.size != wanted:
                    message = f"it holds {value.size} value{'' if value.size == 1 else 's'}"
                    yield Hit(v, name, f"{message}; expected {'are two' if wanted == 2 else 'is one'}")


@rule("ATT002", each=variables)
def attributes_have_a_meaning_where_they_stand(c: Context, v: Variable) -> Iterator[Hit]:
    """Attributes are used on the kinds of variables for which Table A.1 defines them."""
    names = [n for n in _GLOBAL if n in v.attributes]
    for name in names:
        yield Hit(v, name, "CF defines it for the dataset only; on a variable it has no meaning in CF")
    if v in c.roles.data:
        for name in _OF_COORDINATES:
            if name in v.attributes:
                message = "CF defines it for coordinates, and no attribute names this variable as one"
                yield Hit(v, name, f"{message}: name it in coordinates if it is")
    elif v in c.roles.coordinates:
        for name in _OF_DATA:
            if name in v.attributes:
                yield Hit(v, name, "CF defines it for data variables; on a coordinate it has no meaning in CF")


@lru_cache(maxsize=1)
def _lower() -> dict[str, str]:
    return {name.lower(): name for name in attribute_table()}


@rule("ATT003")
def attributes_are_written_in_the_right_case(c: Context) -> Iterator[Hit]:
    """Names of attributes have the upper and lower case letters of Table A.1."""
    owners: list[Group | Variable] = [*c.dataset.groups, *c.dataset.variables]
    table = attribute_table()
    for owner in owners:
        for name in owner.attributes:
            if name in table:
                continue
            right = _lower().get(name.lower())
            if right is None or right in owner.attributes or not _belongs(c, owner, right):
                continue
            common = right in _COMMON
            message = f"CF defines only {right!r}; {name!r} has no meaning in CF"
            fix: tuple[Edit, ...] = ()
            # Libraries only accept `_FillValue` before values are written.
            if not common and right != "_FillValue":
                path = owner.path if isinstance(owner, Variable) else f"{owner.path.rstrip('/')}/"
                fix = (Edit(None if path == "/" else path, name, rename=right, safe=right not in _DECODING),)
            yield Hit(owner, name, f"{message}: rename it", "info" if common else None, fix)


def _belongs(c: Context, owner: Group | Variable, name: str) -> bool:
    where = uses(name, c.version)
    if isinstance(owner, Variable):
        return bool(where - {"G", "Gr"})
    # The spelling of Conventions in the root group has a separate rule.
    return bool(where & {"G", "Gr"}) and name != "Conventions"


@rule("ATT004", each=groups)
def variable_attributes_are_not_on_groups(c: Context, group: Group) -> Iterator[Hit]:
    """Attributes of variables are attached to variables, not to groups."""
    for name in group.attributes:
        where = uses(name, c.version)
        if name in _COMMON or not where or where & {"G", "Gr"}:
            continue
        if group.parent is None:
            message = "CF defines it for variables; for the dataset as a whole it has no meaning in CF"
            yield Hit(group, name, message, "info")
        else:
            yield Hit(group, name, "CF defines it for variables: attach it to each variable that it applies to")


@rule("ATT005", each=lambda c: c.with_attribute(*_VALID))
def valid_limits_have_the_type_of_their_variable(c: Context, v: Variable) -> Iterator[Hit]:
    """``valid_min``, ``valid_max`` and ``valid_range`` have the type of their variable."""
    packed = "scale_factor" in v.attributes or "add_offset" in v.attributes
    for name in _VALID:
        value = v.attributes.get(name)
        if holds(value) not in ("integer", "real") or not v.is_numeric:
            continue
        if not same_type(v, value, typed=c.dataset.typed):
            message = f"it holds {said(value, typed=c.dataset.typed)}, the variable {said_type(v)}"
            if packed:
                yield Hit(v, name, f"{message}: valid values are given as they are packed, in the type of the variable")
            else:
                # The netCDF User's Guide requires it, CF only for packed variables.
                yield Hit(v, name, f"{message}: give the attribute the type of the variable", "warning")
