"""Grid mappings: CF section 5.6, and the names and types in appendix F."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from cfagg.cf.attribute_types import faulty_text, said
from cfagg.cf.grid_mapping_parameters import MAPPINGS, NAMED_TOGETHER, SINCE, TYPES
from cfagg.cf.lists import grid_mappings
from cfagg.cf.references import Reference
from cfagg.checking.context import Context, once
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.spans import coordinate_span
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dimension, Variable

#: Names of attributes for coordinate reference systems in earlier drafts of section 5.6; an example still has them.
_FORMER = {
    "geographic_crs_name": "geographic_coordinate_system_name",
    "projected_crs_name": "projected_coordinate_system_name",
}


@once
def grid_mapping_variables(c: Context) -> list[Variable]:
    """Return the grid mapping variables in order."""
    return [v for v in c.dataset.variables if v in c.roles.grid_mappings]


def mappings_named(*names: str) -> Callable[[Context], list[Variable]]:
    """Return a function that lists the grid mapping variables with these names."""
    return lambda c: [v for v in grid_mapping_variables(c) if v.text("grid_mapping_name") in names]


@rule("GMP001", each="grid_mapping")
def grid_mapping_is_well_formed(c: Context, v: Variable) -> Iterator[Hit | str]:
    """A grid_mapping attribute is one name, or names each followed by a colon and coordinates."""
    text = v.text("grid_mapping")
    if text is None:
        if not faulty_text(v.attributes["grid_mapping"], c.version):
            yield ("grid_mapping is not text; expected the name of a grid mapping variable")
        return
    parsed = grid_mappings(text)
    if parsed is None:
        if not text.strip():
            message = "grid_mapping is empty; expected the name of a grid mapping variable, or delete it"
        else:
            message = f"{text!r} is neither a single name nor 'mapping: coordinate ... mapping: coordinate ...'"
        glued = any(":" in word.rstrip(":") for word in text.split())
        hint = "; a blank is missing after a colon" if glued else ""
        # Section 5.6.1 itself has 'crs:lat lon' in one place.
        yield Hit(v, "grid_mapping", message + hint, "warning" if glued else None)
    elif len(text.split()) > 1 and c.version < Version(1, 7):
        yield (f"{text!r} names coordinates; {c.version} allows only a single name; the longer form came with CF-1.7")
    elif "," in text:
        yield Hit(v, "grid_mapping", f"{text!r} has a comma; names are separated by blanks", "warning")


@rule("GMP003", each="grid_mapping")
def grid_mapping_variables_exist(c: Context, v: Variable) -> Iterator[str]:
    """Each grid mapping variable that is named exists."""
    for r in c.references_of(v, "grid_mapping"):
        if r.key is None and r.target is None and not left_to_search(c, v, r.name):
            yield (f"there is no variable {r.name!r}; expected a grid mapping variable")


def _known_coordinates(c: Context, v: Variable) -> set[Variable]:
    """Return the auxiliary coordinates that a variable lists, including those that are interpolated."""
    nodes = [n for geometry in c.targets(v, "geometry") for n in c.targets(geometry, "node_coordinates")]
    return {*c.targets(v, "coordinates", "coordinate_interpolation", "node_coordinates"), *nodes}


@rule("GMP004", each="grid_mapping")
def coordinates_of_grid_mappings_exist(c: Context, v: Variable) -> Iterator[Hit]:
    """Each coordinate that a grid_mapping names exists and belongs to the variable."""
    named = [r for r in c.references_of(v, "grid_mapping") if r.key == "coordinate"]
    if not named or "mesh" in v.attributes:  # the coordinates of a mesh are named by the mesh
        return
    known, span = _known_coordinates(c, v), coordinate_span(c, v)
    for r in named:
        if r.target is None and left_to_search(c, v, r.name):
            continue
        yield from _coordinate(v, r, known, span)


def _coordinate(v: Variable, r: Reference, known: set[Variable], span: set[Dimension]) -> Iterator[Hit]:
    if r.target is None:
        if not r.name.endswith(","):  # GMP001 reports that
            yield Hit(v, "grid_mapping", f"there is no variable {r.name!r}; expected a coordinate of {v.path!r}")
    elif r.target in known:
        return
    elif not r.target.is_coordinate:
        message = (
            f"{r.name!r} is not a coordinate variable and not among the coordinates of {v.path!r}; "
            "name it in the coordinates attribute as well"
        )
        yield Hit(v, "grid_mapping", message)
    elif r.target.dimensions[0] not in span:
        yield Hit(v, "grid_mapping", f"{r.name!r} is the coordinate variable of a dimension that {v.path!r} lacks")


@rule("GMP005", each=grid_mapping_variables)
def grid_mapping_name_is_known(c: Context, v: Variable) -> Iterator[Hit]:
    """A grid mapping variable has a grid_mapping_name of appendix F."""
    value = v.attributes.get("grid_mapping_name")
    if value is None:
        yield Hit(v, "grid_mapping_name", "grid_mapping_name is missing; expected a name of appendix F")
    elif not isinstance(value, str):
        return  # GMP006
    elif value not in MAPPINGS:
        meant = value.strip().lower().replace(" ", "_").replace("-", "_")
        fix = (Edit(v.path, "grid_mapping_name", meant),) if meant in MAPPINGS else ()
        hint = f"; did you mean {meant!r}?" if fix else ""
        yield Hit(v, "grid_mapping_name", f"{value!r} is not a grid mapping of appendix F{hint}", None, fix)
    elif c.version < MAPPINGS[value].since:
        since = MAPPINGS[value].since
        yield Hit(v, "grid_mapping_name", f"{value!r} is known since {since}; the dataset claims {c.version}")


@rule("GMP006", each=grid_mapping_variables)
def attributes_have_their_types(c: Context, v: Variable) -> Iterator[Hit]:
    """The attributes of a grid mapping variable are numbers or text as table F.1 specifies."""
    for name, value in v.attributes.items():
        wanted = TYPES.get(name)
        if wanted is None or c.version < SINCE.get(name, c.version):
            continue
        numeric = isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.size > 0
        if wanted == "N" and not numeric:
            yield Hit(v, name, f"{name} is {_shown(value)}; expected a number")
        elif wanted == "S" and not isinstance(value, str) and not faulty_text(value, c.version):
            yield Hit(v, name, f"{name} is {_shown(value)}; expected text")


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, np.ndarray):
        return f"of type {value.dtype}" if value.size else "empty"
    if isinstance(value, tuple):
        return "a list of texts"
    return said(value)


@rule("GMP008", each=grid_mapping_variables)
def names_of_the_datum_stand_together(_: Context, v: Variable) -> Iterator[Hit]:
    """The names of ellipsoid, prime meridian, datum and geographic system are given all together or not at all."""
    missing = [n for n in NAMED_TOGETHER if n not in v.attributes]
    if not missing or len(missing) == len(NAMED_TOGETHER):
        return
    present = next(n for n in NAMED_TOGETHER if n in v.attributes)
    former = _FORMER["geographic_crs_name"]
    only_former = missing == ["geographic_crs_name"] and former in v.attributes
    fix = (Edit(v.path, former, rename="geographic_crs_name"),) if only_former else ()
    hint = f"; {former} is what CF example 5.12 calls it, rename it" if only_former else ""
    message = f"{present} needs {' and '.join(missing)} beside it{hint}"
    yield Hit(v, missing[0], message, "warning" if only_former else None, fix)


@rule("GMP009", each="projected_crs_name")
def projected_system_needs_its_geographic_one(_: Context, v: Variable) -> Iterator[str]:
    """A projected_crs_name requires a geographic_crs_name."""
    # If other names are given too, GMP008 reports the missing one.
    if "geographic_crs_name" not in v.attributes and v.attributes.keys().isdisjoint(NAMED_TOGETHER):
        yield ("projected_crs_name needs geographic_crs_name beside it")


@rule("GMP014", each=grid_mapping_variables)
def grid_mapping_variables_are_scalar(_: Context, v: Variable) -> Iterator[Hit]:
    """Grid mapping variables have no dimensions."""
    if v.stored:
        yield Hit(v, None, f"the grid mapping variable has dimensions ({', '.join(v.dims)}); expected none")


@rule("GMP015", each=mappings_named("polar_stereographic", "lambert_cylindrical_equal_area"))
def deprecated_parameters_are_not_used(_: Context, v: Variable) -> Iterator[Hit]:
    """Two deprecated parameters are not used."""
    name = v.text("grid_mapping_name")
    old = "straight_vertical_longitude_from_pole"
    if name == "polar_stereographic" and old in v.attributes:
        new = "longitude_of_projection_origin"
        both, one, other = new in v.attributes, v.numbers(old), v.numbers(new)
        same = one is not None and other is not None and np.array_equal(one, other)
        edit = Edit(v.path, old, safe=same) if both else Edit(v.path, old, rename=new)
        note = "" if same or not both else f", but {new} has another value here"
        yield Hit(v, old, f"{old} is deprecated; use {new}, which means the same{note}", None, (edit,))
    old = "scale_factor_at_projection_origin"
    if name == "lambert_cylindrical_equal_area" and old in v.attributes:
        yield Hit(v, old, f"{old} is deprecated here; give standard_parallel instead")


@rule("GMP007")
def crs_wkt_can_be_read(c: Context) -> Iterator[Hit]:
    """The crs_wkt of a grid mapping variable is well-known text of a coordinate reference system."""
    from cfagg.cf import wkt  # few datasets have one

    for v in grid_mapping_variables(c):
        text = v.text("crs_wkt")  # GMP006 reports other types
        if text is not None:
            for problem in wkt.problems(text):
                yield Hit(v, "crs_wkt", f"not well-known text of a coordinate reference system: {problem}")
