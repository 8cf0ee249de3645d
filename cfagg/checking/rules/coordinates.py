"""Coordinate variables, auxiliary coordinates, labels and taxa: CF chapter 5 and section 6.1."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.checking.axes import axis_of, is_latitude, is_longitude, name_of
from cfagg.checking.context import Context, once, variables
from cfagg.checking.rules.axes import along, coordinate_variables, is_sampled, unreferenced
from cfagg.checking.rules.domains import undimensioned
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.spans import coordinate_span, replaced, span_is_known
from cfagg.checking.subsampling import interpolated
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dimension, Variable

_AXES = {"X": "longitude", "Y": "latitude", "Z": "vertical coordinate", "T": "time"}

#: Self-explanatory names of dimensions.
_CALLED = {
    "lat": "latitude", "latitude": "latitude", "lon": "longitude", "longitude": "longitude", "time": "time",
    "depth": "depth", "height": "height", "altitude": "altitude", "plev": "pressure",
}  # fmt: skip


@rule("COO006")
def dimensions_of_space_and_time_have_coordinate_variables(c: Context) -> Iterator[Hit]:
    """A dimension that is a latitude, longitude, height or time by itself has a coordinate variable."""
    if is_sampled(c):
        return
    own, stands_for = coordinate_variables(c), replaced(c)
    instances = {d for others in stands_for.values() for d in others}
    # Of each dimension, the first error of any variable, or else the first warning.
    found: dict[Dimension, Hit] = {}
    for v in c.dataset.variables:
        if v not in c.roles.data or "geometry" in v.attributes or "mesh" in v.attributes:
            continue
        missing = [
            d
            for d in dict.fromkeys(v.dimensions)
            if d.size > 1 and d not in own and d not in stands_for and d not in instances
        ]
        for d in missing:
            former = found.get(d)
            if (former is None or former.severity is not None) and d not in interpolated(c, v):
                for hit in _without(c, v, d):
                    if former is None or hit.severity is None:
                        found[d] = hit
    yield from found.values()


def _without(c: Context, v: Variable, d: Dimension) -> Iterator[Hit]:
    """Yield a hit if a single coordinate identifies a dimension that has no coordinate variable."""
    named = along(c, v, d)
    spatial = [x for x in named if not x.is_text and axis_of(c, x) is not None]
    if not named:
        idle = [x for x in unreferenced(c).get(d, ()) if x is not v]
        if len(idle) == 1:
            sure = "axis" in idle[0].attributes
            message = (
                f"dimension {d.name!r} has no coordinate variable; {idle[0].path!r} "
                f"{'is' if sure else 'looks like'} its {_what(c, idle[0])}: give both the same name, "
                "or name it in coordinates"
            )
            yield Hit(v, None, message, severity=None if sure else "warning")
        elif not idle and d.name in _CALLED:
            message = (
                f"dimension {d.name!r} has no coordinate variable, though its name says {_CALLED[d.name]}: add the "
                f"variable {d.name!r}"
            )
            yield Hit(v, None, message, severity="warning")
        return
    if len(spatial) != 1 or spatial[0].dimensions != (d,):
        return
    found = spatial[0]
    # By section 4.5 a discrete axis has no coordinate variable, but one or more auxiliary coordinates.
    message = (
        f"dimension {d.name!r} has the {_what(c, found)} {found.path!r} as an auxiliary coordinate only; expected a "
        "coordinate variable of the dimension's name, unless the dimension is a discrete axis"
    )
    yield Hit(v, "coordinates", message, severity="warning")


def _what(c: Context, v: Variable) -> str:
    """Return what a coordinate is; those of a projection are no latitudes."""
    standard = v.text("standard_name") or ""
    axis = axis_of(c, v) or "T"
    return f"{axis} coordinate" if axis in "XY" and standard.startswith("projection_") else _AXES[axis]


@rule("COO008", each=lambda c: c.with_attribute("_FillValue", "missing_value"))
def coordinate_variables_miss_nothing(_: Context, v: Variable) -> Iterator[Hit]:
    """Coordinate variables have neither ``_FillValue`` nor ``missing_value``."""
    if v.is_coordinate:
        for name in ("_FillValue", "missing_value"):
            if name in v.attributes:
                yield Hit(v, name, f"{name} on a coordinate variable, which cannot miss values; delete it").mended()


@rule("COO009", each="coordinates")
def coordinates_exist(c: Context, v: Variable) -> Iterator[Hit | str]:
    """``coordinates`` is text that names existing variables."""
    value = v.attributes["coordinates"]
    if not isinstance(value, str):
        if c.version < Version(1, 12) or not isinstance(value, tuple | bytes):
            yield ("coordinates is not one text; expected names of variables separated by blanks")
        return
    clean = " ".join(value.replace(",", " ").replace(";", " ").split())
    fix = (Edit(v.path, "coordinates", clean, safe=False),)
    for reference in c.references_of(v, "coordinates"):
        if reference.target is None and not left_to_search(c, v, reference.name):
            commas = "," in reference.name or ";" in reference.name
            other = _in_lower_case(c).get(reference.name.lower())
            hint = "names are separated by blanks" if commas else "correct the name or add the variable"
            if other is not None:
                hint = f"{other!r} exists: names are case-sensitive"
            message = f"there is no variable {reference.name[:80]!r}; {hint}"
            yield Hit(v, "coordinates", message, fix=fix if commas else ())


@once
def _in_lower_case(c: Context) -> dict[str, str]:
    """Return the names of all variables by their names in lower case."""
    return {v.name.lower(): v.name for v in c.dataset.variables}


def beyond(c: Context, span: set[Dimension], dimensions: tuple[Dimension, ...]) -> list[Dimension]:
    """Return the dimensions that do not belong to a span.

    A dimension of the same name in another group is accepted, since rules on groups report it.  So is one gathered from
    the span, which coordinates that rarely change may use (Example H.5).
    """
    own, alike = coordinate_variables(c), {d.name for d in span}
    found = []
    for d in dimensions:
        if d in span or d.name in alike:
            continue
        listed = own.get(d)
        names = listed.words("compress") if listed is not None else []
        if listed is None or not names or any(c.resolver.dimension(n, listed.group) not in span for n in names):
            found.append(d)
    return found


@rule("COO010", each="coordinates")
def auxiliary_coordinates_span_no_more(c: Context, v: Variable) -> Iterator[str]:
    """An auxiliary coordinate has no dimension that its variable does not have.

    Labels and the coordinates of domain variables and geometry containers have separate rules.
    """
    if v in c.roles.geometries or v in c.roles.domains or v in c.roles.meshes or v in undimensioned(c):
        return
    span = None
    for reference in c.references_of(v, "coordinates"):
        target = reference.target
        if target is None or target.is_text or not target.dimensions or not span_is_known(c):
            continue
        span = coordinate_span(c, v) if span is None else span
        foreign = beyond(c, span, target.dimensions)
        if foreign:
            yield (
                f"coordinate {target.path!r} has the dimension {foreign[0].name!r}; expected only those of its "
                f"variable ({', '.join(v.dims)})"
            )
            continue
        for gathered, one in _gathered_with(c, target.dimensions, v.dimensions):
            yield (
                f"coordinate {target.path!r} has the dimension {one.name!r} and also {gathered.name!r}, into which it "
                "is gathered; expected one or the other"
            )


def _gathered_with(
    c: Context, dimensions: tuple[Dimension, ...], own: tuple[Dimension, ...]
) -> Iterator[tuple[Dimension, Dimension]]:
    """Yield each of some dimensions with another of them that is gathered into it, and that is not among one's own."""
    listed = coordinate_variables(c)
    for d in dimensions:
        for name in listed[d].words("compress") if d in listed else ():
            one = c.resolver.dimension(name, listed[d].group)
            if one in dimensions and one not in own:
                yield d, one


@rule("COO011", each=variables)
def multidimensional_coordinates_have_other_names(c: Context, v: Variable) -> Iterator[Hit]:
    """A coordinate of several dimensions does not have the name of one of them."""
    axes = v.dims[:-1] if v.kind == "char" else v.dims
    if len(axes) < 2 or v.name not in axes:
        return
    if v in c.roles.auxiliary or is_latitude(v) or is_longitude(v) or "axis" in v.attributes:
        message = (
            f"coordinate {v.name!r} of dimensions ({', '.join(v.dims)}) is named like one of them, which leaves "
            "no name for the coordinate variable of that dimension"
        )
        yield Hit(v, None, message)


@rule("COO014")
def labels_have_one_axis(c: Context) -> Iterator[Hit]:
    """Apart from that of its characters, a text coordinate has at most one dimension, which its variable has too."""
    reported: set[Variable] = set()
    for v in c.with_attribute("coordinates"):
        labels = [label for label in c.targets(v, "coordinates") if label.is_text]
        if not labels or "geometry_type" in v.attributes or v in undimensioned(c) or not span_is_known(c):
            continue
        span = coordinate_span(c, v)
        for label in labels:
            if label not in reported:
                for hit in _label(c, v, label, span):
                    reported.add(label)
                    yield hit


def _label(c: Context, v: Variable, label: Variable, span: set[Dimension]) -> Iterator[Hit]:
    dimensions = label.dimensions
    if label.kind == "char":
        if not dimensions:
            yield Hit(label, None, "a label of type char has no dimension; expected one for its characters")
            return
        dimensions = dimensions[:-1]
    domain = not v.dimensions and "dimensions" in v.attributes  # DOM003 checks those
    foreign = [] if domain else [d.name for d in beyond(c, span, dimensions)]
    of = f"a label of {v.path!r}"
    if foreign:
        message = (
            f"{of} has the dimension {foreign[0]!r}; expected one of ({', '.join(sorted(d.name for d in span))})"
            + (" and a last one for its characters" if label.kind == "char" else "")
        )
        yield Hit(label, None, message)
    elif len(dimensions) > 1:
        # The chapter mentions axis dimensions, but the conformance document allows only one.
        message = (
            f"{of} has {len(dimensions)} axes ({', '.join(d.name for d in dimensions)}); section 6.1 does not say "
            "that a label has one only, the conformance document does"
        )
        yield Hit(label, None, message, "warning")


_NAME, _IDENTIFIER = "biological_taxon_name", "biological_taxon_lsid"

#: Authority, namespace, object and version, as in the specification of life science identifiers.
_LSID = r"(?i)urn:lsid:[\w.-]+:[^\s:]+:[^\s:]+(:[^\s:]+)?"


@once
def _of_taxa(c: Context) -> list[Variable]:
    """Return the variables whose standard names are about taxa."""
    return [v for v in c.with_attribute("standard_name") if "taxon" in name_of(v)]


@rule("TAX001", each=_of_taxa)
def quantities_of_taxa_have_names_of_taxa(c: Context, v: Variable) -> Iterator[Hit]:
    """A quantity of biological taxa has a coordinate with their names."""
    name = name_of(v)
    if "biological_taxon" not in name and "organisms_in_taxon" not in name:
        return
    if name in (_NAME, _IDENTIFIER, "biological_taxon_identifier") or v not in c.roles.data:
        return
    named = c.references_of(v, "coordinates")
    if any(r.target is None for r in named):
        return  # COO009
    if _NAME not in {name_of(r.target) for r in named if r.target is not None}:
        message = f"no coordinate has the standard name {_NAME}; add the names of the taxa"
        yield Hit(v, "coordinates", message)


@rule("TAX002", each=_of_taxa)
def names_of_taxa_are_text(_: Context, v: Variable) -> Iterator[Hit]:
    """Names and identifiers of taxa are text."""
    if name_of(v) in (_NAME, _IDENTIFIER) and not v.is_text:
        yield Hit(v, None, f"{name_of(v)} is of type {v.dtype}; expected text")


@rule("TAX003", each=_of_taxa, needs="data")
def identifiers_of_taxa_are_well_formed(_: Context, v: Variable) -> Iterator[Hit]:
    """Identifiers of taxa are life science identifiers, or missing."""
    if name_of(v) != _IDENTIFIER or not v.is_text or v.dialect is not None or v.read is None:
        return
    for text in v.texts().ravel():
        if text.strip() and len(text) < 1000 and not re.fullmatch(_LSID, text.strip()):
            message = f"{text[:80]!r} is not a life science identifier; expected urn:lsid:authority:namespace:object"
            yield Hit(v, None, message)
            break
