"""The attribute ``axis`` and kinds of coordinates: CF chapters 4 and 5, beyond the conformance documents."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.kinds_of_units import is_pressure, is_reference_time, is_time, known
from cfagg.cf.roles import LATITUDE_UNITS, LONGITUDE_UNITS, axis_by_units
from cfagg.checking.axes import axis_of, is_latitude, is_longitude, name_of
from cfagg.checking.context import Context, once, variables
from cfagg.checking.times import TIME_NAMES
from cfagg.findings.finding import Hit, Severity
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable


@once
def coordinate_variables(c: Context) -> dict[Dimension, Variable]:
    """Return the coordinate variable of each dimension that has one."""
    found: dict[Dimension, Variable] = {}
    for v in c.dataset.variables:
        if v.is_coordinate:
            found.setdefault(v.dimensions[0], v)
    return found


@once
def is_sampled(c: Context) -> bool:
    """Whether there are discrete sampling geometries (CF chapter 9)."""
    if "featureType" in c.dataset.root.attributes or any(c.with_attribute("sample_dimension", "instance_dimension")):
        return True
    ids = {"timeseries_id", "profile_id", "trajectory_id"}
    return any(v.text("cf_role") in ids for v in c.with_attribute("cf_role"))


def _axis(v: Variable) -> str | None:
    """Return a legal ``axis`` attribute in capitals."""
    text = (v.text("axis") or "").strip().upper()
    return text if text in ("X", "Y", "Z", "T") else None


@once
def _may_have_axis(c: Context) -> set[Variable]:
    """Return all kinds of coordinates, and their bounds, which may repeat the axis of their parents.

    Coordinates that belong to no data are often named by a ``coordinates`` attribute of the dataset.
    """
    roles = c.roles
    others = ("node_coordinates", "nodes", "bounds", "climatology", "bounds_tie_points")
    named = (c.resolver.variable(w, g)[0] for g in c.dataset.groups for w in (g.text("coordinates") or "").split())
    idle = {v for v in named if v is not None}
    return roles.coordinates.union(idle, roles.meshes, *(roles.named_by(a) for a in others))


@once
def unreferenced(c: Context) -> dict[Dimension, list[Variable]]:
    """Return the variables of one dimension whose attributes mark them as coordinates but that nothing refers to."""
    found: dict[Dimension, list[Variable]] = {}
    for v in c.dataset.variables:
        if len(v.dimensions) != 1 or v.is_coordinate or not v.is_numeric or c.references_to(v):
            continue
        time = name_of(v) == "time" and is_reference_time(v.text("units") or "1")
        axis = _axis(v)
        if is_latitude(v) or is_longitude(v) or time or (axis is not None and axis_by_units(v.attributes) == axis):
            found.setdefault(v.dimensions[0], []).append(v)
    return found


def along(c: Context, v: Variable, d: Dimension) -> list[Variable]:
    """Return the coordinates that a variable names along one of its dimensions; strings count as single elements."""
    named = dict.fromkeys(c.targets(v, "coordinates"))
    return [x for x in named if d in x.dimensions and not (x.is_text and x.dimensions[-1] is d)]


@once
def _misnamed(c: Context) -> set[Variable]:
    """Return variables that would be coordinate variables under the name of their dimension, which COO006 reports."""
    if is_sampled(c):
        return set()
    own, found = coordinate_variables(c), set()
    sole = {d: idle[0] for d, idle in unreferenced(c).items() if len(idle) == 1 and d.size > 1 and d not in own}
    for v in c.roles.data if sole else ():
        for d in v.dimensions:
            if d in sole and sole[d] is not v and "axis" in sole[d].attributes and not along(c, v, d):
                found.add(sole[d])
    return found


@rule("COO001")
def axis_is_for_coordinates(c: Context) -> Iterator[Hit]:
    """Only coordinates and the nodes of geometries have an ``axis``."""
    allowed = _may_have_axis(c)
    sampled = is_sampled(c)
    for v in c.with_attribute("axis"):
        if v not in allowed and v not in _misnamed(c):
            # Examples in Appendix H have heights of stations that no coordinates attribute names.
            severity: Severity | None = "warning" if sampled and axis_by_units(v.attributes) == _axis(v) else None
            message = (
                f"axis on {v.name!r}, which is not a coordinate variable; expected one dimension of the same name, or "
                "that a coordinates attribute names it"
            )
            yield Hit(v, "axis", message, severity).mended()


@rule("COO002", each="axis")
def axis_is_one_of_four(c: Context, v: Variable) -> Iterator[str]:
    """``axis`` is X, Y, Z or T, in any case."""
    value = v.attributes["axis"]
    if _axis(v) is None and not faulty_text(value, c.version):
        shown = repr(value[:40]) if isinstance(value, str) else "not text"
        yield (f"axis is {shown}; expected X, Y, Z or T")


@rule("COO003")
def axis_agrees_with_units_and_positive(c: Context) -> Iterator[Hit]:
    """``axis`` agrees with ``units`` and ``positive``."""
    allowed = _may_have_axis(c)
    for v in c.with_attribute("axis"):
        axis = _axis(v)
        if axis is None or v not in allowed:
            continue
        units = (v.text("units") or "").strip()
        deduced = axis_by_units(v.attributes)
        if deduced is None and units and v.is_coordinate and is_pressure(units):
            deduced = "Z"
        if deduced is not None:
            if deduced != axis:
                positive = deduced == "Z" and (v.text("positive") or "").strip().lower() in ("up", "down")
                why = f"positive {v.text('positive')!r}" if positive else f"units {units!r}"
                message = f"axis is {v.text('axis')!r}, but {why} implies that it is {deduced}"
                yield Hit(v, "axis", message).mended(deduced)
        elif name_of(v) in TIME_NAMES:
            continue  # its units are checked against its name
        elif axis == "T" and v.text("units") is not None and known(units) and not is_time(units):
            yield Hit(v, "axis", f"axis is {v.text('axis')!r}, but units {units!r} are not units of time")


@rule("COO004")
def axis_is_not_for_auxiliary_coordinates(c: Context) -> Iterator[Hit]:
    """Auxiliary coordinates have no ``axis``; chapter 5 allows it, so this is a warning."""
    if is_sampled(c):
        return  # section 9.5 asks for it on auxiliary coordinates of discrete sampling geometries
    others = c.roles.named_by("node_coordinates") | c.roles.named_by("nodes")
    for v in c.with_attribute("axis"):
        # A scalar coordinate is equivalent to a coordinate variable of one value (section 5.7).
        if v in c.roles.auxiliary and v.dimensions and v not in others:
            message = "axis on an auxiliary coordinate: the conformance document does not allow it, chapter 5 does"
            yield Hit(v, "axis", message, severity="warning")


@once
def _together(c: Context) -> list[tuple[Variable, list[Variable]]]:
    """Return data variables with their coordinates, but no two with the same dimensions and coordinates."""
    own = coordinate_variables(c)
    found: dict[object, tuple[Variable, list[Variable]]] = {}
    data = c.roles.data
    for v in c.dataset.variables:
        alike = id(v.group), v.dimensions, v.text("coordinates")
        if alike in found or v not in data:
            continue
        named = [r.target for r in c.references_of(v, "coordinates")] if "coordinates" in v.attributes else []
        coordinates = dict.fromkeys([*(own.get(d) for d in v.dimensions), *named])
        found[alike] = v, [x for x in coordinates if x is not None]
    return list(found.values())


@rule("COO005")
def one_coordinate_for_each_axis(c: Context) -> Iterator[Hit]:
    """No two coordinates of a data variable have the same ``axis``."""
    reported: set[frozenset[Variable]] = set()
    for v, coordinates in _together(c):
        found: dict[str, list[Variable]] = {}
        for coordinate in coordinates:
            axis = _axis(coordinate)
            if axis is not None:
                found.setdefault(axis, []).append(coordinate)
        for axis, several in found.items():
            if len(several) > 1 and frozenset(several) not in reported:
                reported.add(frozenset(several))
                names = " and ".join(repr(x.path) for x in several)
                yield Hit(v, None, f"its coordinates {names} both have axis {axis}; expected at most one of each")


@once
def _taken(c: Context) -> set[tuple[Variable, str]]:
    """Return coordinate variables with the axis that another coordinate of the same data has."""
    found: set[tuple[Variable, str]] = set()
    for _, coordinates in _together(c):
        axes = {axis for x in coordinates if (axis := _axis(x)) is not None}
        found.update((x, axis) for x in coordinates for axis in axes if "axis" not in x.attributes)
    return found


@rule("COO012", each=variables)
def horizontal_coordinates_have_an_axis(c: Context, v: Variable) -> Iterator[Hit]:
    """Horizontal coordinate variables have an ``axis``, unless another coordinate of their data has it."""
    if v.is_coordinate and "axis" not in v.attributes:
        axis = axis_of(c, v)
        if axis in ("X", "Y") and (v, axis) not in _taken(c):
            yield Hit(v, "axis", f"horizontal coordinate variable without axis; add axis {axis!r}").mended(axis)


@rule("CRD001", each=lambda c: c.with_standard_name("latitude", "longitude"))
def latitudes_and_longitudes_have_their_units(c: Context, v: Variable) -> Iterator[Hit]:
    """Latitudes and longitudes have one of the units that are listed for them."""
    name = " ".join(v.words("standard_name"))
    units = (v.text("units") or "").strip()
    if name not in ("latitude", "longitude") or v not in c.roles.coordinates or v.text("units") is None:
        return
    own, other = (LATITUDE_UNITS, LONGITUDE_UNITS) if name == "latitude" else (LONGITUDE_UNITS, LATITUDE_UNITS)
    if units in own or not known(units):
        return
    wanted = "degrees_north" if name == "latitude" else "degrees_east"
    # Other units of an angle convert to the canonical ones, which section 3.3 allows.
    severity: Severity = "error" if units in other else "warning"
    hit = Hit(v, "units", f"units of a {name} are {units!r}; expected {wanted!r} or an equivalent", severity)
    yield hit.mended(wanted) if units in ("degree", "degrees", *other) else hit


@rule("CRD002", each=lambda c: c.with_standard_name("grid_latitude", "grid_longitude"))
def rotated_coordinates_have_no_direction(_: Context, v: Variable) -> Iterator[Hit]:
    """Latitudes and longitudes of a rotated pole have the units ``degrees``."""
    units = (v.text("units") or "").strip()
    if units in LATITUDE_UNITS | LONGITUDE_UNITS:
        message = f"units of {name_of(v)} are {units!r}, by which programs take it for a true one; write 'degrees'"
        yield Hit(v, "units", message).mended("degrees")


@rule("CRD003")
def horizontal_grids_are_located(c: Context) -> Iterator[Hit]:
    """Data on a grid that is not one of latitude and longitude have a grid mapping, or latitudes and longitudes."""
    if is_sampled(c):
        return
    own = coordinate_variables(c)
    for v in c.dataset.variables:
        if (
            len(v.dimensions) < 2
            or v not in c.roles.data
            or not {"grid_mapping", "geometry", "mesh"}.isdisjoint(v.attributes)
        ):
            continue
        found: dict[str, Variable] = {}
        for d in v.dimensions:
            coordinate = own.get(d)
            axis = axis_of(c, coordinate) if coordinate is not None else None
            if coordinate is not None and axis in ("X", "Y"):
                found[axis] = coordinate
        if len(found) < 2 or any(is_latitude(x) or is_longitude(x) for x in found.values()):
            continue
        if c.references_to(v, "ancillary_variables", "cell_measures"):
            continue  # the data that they belong to are located
        named = c.targets(v, "coordinates")
        if not (any(is_latitude(x) for x in named) and any(is_longitude(x) for x in named)):
            message = (
                f"{found['X'].path!r} and {found['Y'].path!r} are not longitude and latitude, and no grid_mapping "
                "or coordinates say where on Earth they are"
            )
            yield Hit(v, "grid_mapping", message)


@rule("CRD004", each=variables)
def scalar_coordinates_are_not_called_like_dimensions(c: Context, v: Variable) -> Iterator[Hit]:
    """No scalar coordinate has the name of a dimension."""
    if v in c.roles.auxiliary and not v.dimensions and c.resolver.dimension(v.name, v.group) is not None:
        message = (
            f"scalar coordinate {v.name!r} has the name of a dimension, which then cannot have "
            "a coordinate variable of its own"
        )
        yield Hit(v, None, message)
