"""Groups and the search for variables in them: CF section 2.7."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.attribute_table import attribute_table, uses
from cfagg.cf.references import DIMENSION_LISTS, Reference
from cfagg.checking.context import Context
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule, shared
from cfagg.findings.versions import Version
from cfagg.model.dataset import Group, Variable

#: Attributes with separate rules that require the variables they name to exist, and leave those in groups to this one.
_OWN_RULES = frozenset(
    {
        "coordinates", "bounds", "climatology", "grid_mapping", "cell_measures", "formula_terms", "aggregated_data",
        "ancillary_variables",
    }
)  # fmt: skip

#: Attributes with separate rules that require the variables they name to exist in groups, too.
_OWN_RULES_IN_GROUPS = frozenset(
    {
        "geometry", "nodes", "node_coordinates", "node_count", "part_node_count", "interior_ring", "quantization",
        "coordinate_interpolation", "tie_point_mapping", "interpolation_parameters", "bounds_tie_points",
    }
)  # fmt: skip

#: Formats in which arrays have names of dimensions, but no dimensions are defined.
_NAMES_ONLY = frozenset({"zarr", "kerchunk"})

#: Rules about selections check the words of this attribute.
_NOT_HERE = frozenset({"select"})


@rule("GRP001", each=lambda c: c.dataset.groups[1:])
def dataset_attributes_are_in_the_root(_: Context, group: Group) -> Iterator[Hit]:
    """``Conventions`` and ``external_variables`` are attributes of the root group only."""
    for name in ("Conventions", "external_variables"):
        if name in group.attributes:
            fix = (Edit(f"{group.path}/", name, safe=False),)
            yield Hit(group, name, "it is only allowed in the root group: remove it here", None, fix)


@rule("GRP002", each=lambda c: c.references)
def dimensions_of_a_name_are_the_same(c: Context, r: Reference) -> Iterator[Hit]:
    """A variable referred to in another group does not have a different dimension of the same name."""
    if r.target is None or r.target.group is r.source.group:
        return
    own = {d.name: d for d in r.source.dimensions}
    different = [d for d in r.target.dimensions if d.name in own and own[d.name] is not d]
    if c.dataset.format in _NAMES_ONLY:
        different = [d for d in different if d.size != own[d.name].size]
    other = next(iter(different), None)
    if other is not None:
        message = f"{r.target.path!r} has dimension {other.path!r}, but {r.source.path!r} has {own[other.name].path!r}"
        yield Hit(r.source, r.attribute, f"{message}, another one of the same name: define it once, above both")


def _well_formed(path: str) -> bool:
    """Whether a path consists of words and slashes."""
    words = path.removeprefix("/").split("/")
    return all(re.fullmatch(r"\w+", w, re.ASCII) or (w in (".", "..") and w is not words[-1]) for w in words)


def _paths(c: Context) -> Iterator[tuple[Variable, str, str, bool]]:
    """Yield (variable, attribute, path, whether its target exists) of all references by path."""
    for r in c.references:
        if "/" in r.name or "\\" in r.name:
            yield r.source, r.attribute, r.name, r.target is not None
    for v, attribute, name in _dimension_names(c):
        if "/" in name or "\\" in name:
            yield v, attribute, name, c.resolver.dimension(name, v.group) is not None


def _dimension_names(c: Context) -> Iterator[tuple[Variable, str, str]]:
    """Yield (variable, attribute, name) of all references to dimensions."""
    for v in c.with_attribute(*DIMENSION_LISTS):
        for attribute in DIMENSION_LISTS:
            if attribute not in v.attributes or not uses(attribute, c.version):
                continue
            # Other conventions use this word too.
            if attribute != "dimensions" or v in c.roles.domains:
                yield from ((v, attribute, name) for name in v.words(attribute))


def left_to_search(c: Context, v: Variable, name: str) -> bool:
    """Return whether the rules on groups report a name in an attribute whose target does not exist.

    They report malformed paths and, if there are groups, all paths and all references from variables below the root.
    The rules of the attributes report other names.
    """
    if c.version < Version(1, 8):
        return False
    path = "/" in name or "\\" in name
    if len(c.dataset.groups) > 1:
        return path or v.group.parent is not None
    return path and not _well_formed(name)


@rule("GRP003", each=_paths)
def paths_are_words_and_slashes(_: Context, v: Variable, attribute: str, path: str, found: bool) -> Iterator[Hit]:
    """Paths are written as in UNIX: words of letters, digits and underscores separated by slashes."""
    if not _well_formed(path):
        message = "expected words of letters, digits and underscores with '/' between, such as '/group/name'"
        note = ", though it leads to a variable here" if found else ""
        yield Hit(v, attribute, f"the path is {path!r}{note}; {message}", "warning" if found else None)


@rule("GRP004")
def references_lead_somewhere(c: Context) -> Iterator[Hit]:
    """The variables that attributes refer to are in the dataset or declared as external."""
    grouped = len(c.dataset.groups) > 1
    for r in c.references:
        if r.how == "elsewhere" and r.target is not None and not _names_coordinate(r):
            yield Hit(r.source, r.attribute, f"{_aside(r, r.target)}: refer to it by that path")
        if r.target is not None or r.attribute in _NOT_HERE | _OWN_RULES_IN_GROUPS or r.name in c.external:
            continue
        if r.attribute in attribute_table() and not uses(r.attribute, c.version):
            continue  # this version of CF does not define the attribute
        # In a flat dataset there are no groups to search, and the rule of the attribute reports the name.
        if r.attribute in _OWN_RULES and not (grouped and left_to_search(c, r.source, r.name)):
            continue
        if ("/" in r.name or "\\" in r.name) and not _well_formed(r.name):
            continue
        yield Hit(r.source, r.attribute, f"variable {r.name!r} is not in the dataset{_searched(r)}")
    if grouped:
        for v, attribute, name in _dimension_names(c):
            lost = c.resolver.dimension(name, v.group) is None and left_to_search(c, v, name)
            if lost and ("/" not in name or _well_formed(name)):
                yield Hit(v, attribute, f"dimension {name!r} is not in the dataset")


def _searched(r: Reference) -> str:
    if "/" in r.name:
        home = r.name.rpartition("/")[0] or "/"
        return f": look for it in {home!r}, counted from the {'root' if r.name.startswith('/') else 'own'} group"
    if r.source.group.path == "/":
        return ""
    return (
        f": it was searched in {r.source.group.path!r}, in the groups above, and as a coordinate variable below those"
    )


def _shadowing(c: Context, how: str) -> Iterator[Hit]:
    """Yield coordinates that are found nearby but do not fit, although one of the same name further up does."""
    for r in c.references:
        if r.how != how or r.target is None or r.attribute != "coordinates":
            continue
        have = set(r.source.dimensions)
        if not have or not r.target.dimensions or have.issuperset(r.target.dimensions):
            continue
        above = r.target.group.parent
        while above is not None:
            other = above.variables.get(r.name)
            if other is not None and other.dimensions and have.issuperset(other.dimensions):
                message = f"{r.name!r} means {r.target.path!r}, which is nearer than {other.path!r}, but only that has"
                path = f"{above.path.rstrip('/')}/{r.name}"
                note = f"dimensions of this variable; write {path!r} if you mean that one"
                yield Hit(r.source, r.attribute, f"{message} {note}", "warning")
                break
            above = above.parent


shared(_shadowing, GRP005="own", GRP006="ancestor")


@rule("GRP007", each=lambda c: c.references)
def only_coordinate_variables_are_found_laterally(_: Context, r: Reference) -> Iterator[Hit]:
    """A bare name refers to groups that are not ancestors of the referring one only for coordinate variables."""
    if r.how == "elsewhere" and r.target is not None and _names_coordinate(r):
        message = f"{_aside(r, r.target)}, and it is not a coordinate variable: refer to it by that path"
        yield Hit(r.source, r.attribute, message)


@rule("GRP008", each=lambda c: c.references)
def lateral_coordinates_are_named_by_path(_: Context, r: Reference) -> Iterator[Hit]:
    """Coordinate variables in groups that are not ancestors of the referring one are referred to by path."""
    if r.how == "lateral" and r.target is not None:
        message = f"{r.name!r} is found by lateral search at '{_absolute(r.target)}': write that path instead"
        yield Hit(r.source, r.attribute, message)


def _names_coordinate(r: Reference) -> bool:
    """Whether a reference is to a coordinate: other variables are searched for only in ancestor groups."""
    return r.attribute in ("coordinates", "node_coordinates", "coordinate_interpolation") or r.key == "coordinate"


def _aside(r: Reference, target: Variable) -> str:
    return f"{r.name!r} is neither in this group nor above it, only at '{_absolute(target)}'"


def _absolute(v: Variable) -> str:
    return f"{v.group.path.rstrip('/')}/{v.name}"
