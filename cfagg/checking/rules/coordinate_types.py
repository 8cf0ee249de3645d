"""Sentences of CF sections 4.1, 4.2, 5.6 and 5.7 that the conformance document does not repeat."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.kinds_of_units import known
from cfagg.cf.roles import LATITUDE_UNITS, LONGITUDE_UNITS
from cfagg.checking.axes import axis_of, is_latitude, is_longitude, name_of
from cfagg.checking.context import Context, variables
from cfagg.checking.rules.axes import coordinate_variables, is_sampled
from cfagg.findings.finding import Edit, Hit, Severity
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("CRD001", each=lambda c: c.with_standard_name("latitude", "longitude"))
def latitudes_and_longitudes_have_their_units(c: Context, v: Variable) -> Iterator[Hit]:
    """Latitudes and longitudes have one of the units that are listed for them."""
    name = " ".join(v.words("standard_name"))
    units = (v.text("units") or "").strip()
    if name not in ("latitude", "longitude") or v not in c.roles.coordinates or not known(units) or not units:
        return
    own, other = (LATITUDE_UNITS, LONGITUDE_UNITS) if name == "latitude" else (LONGITUDE_UNITS, LATITUDE_UNITS)
    if units in own:
        return
    wanted = "degrees_north" if name == "latitude" else "degrees_east"
    # Other units of an angle convert to the canonical ones, which section 3.3 allows.
    severity: Severity = "error" if units in other else "warning"
    fix = (Edit(v.path, "units", wanted, safe=False),) if units in ("degree", "degrees", *other) else ()
    yield Hit(v, "units", f"units of a {name} are {units!r}; expected {wanted!r} or an equivalent", severity, fix)


@rule("CRD002", each=lambda c: c.with_standard_name("grid_latitude", "grid_longitude"))
def rotated_coordinates_have_no_direction(_: Context, v: Variable) -> Iterator[Hit]:
    """Latitudes and longitudes of a rotated pole have the units ``degrees``."""
    units = (v.text("units") or "").strip()
    if units in LATITUDE_UNITS | LONGITUDE_UNITS:
        yield Hit(
            v,
            "units",
            f"units of {name_of(v)} are {units!r}, by which programs take it for a true one; write 'degrees'",
            fix=(Edit(v.path, "units", "degrees", safe=False),),
        )


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
            yield Hit(
                v,
                "grid_mapping",
                f"{found['X'].path!r} and {found['Y'].path!r} are not longitude and latitude, and no grid_mapping "
                "or coordinates say where on Earth they are",
            )


@rule("CRD004", each=variables)
def scalar_coordinates_are_not_called_like_dimensions(c: Context, v: Variable) -> Iterator[Hit]:
    """No scalar coordinate has the name of a dimension."""
    if v in c.roles.auxiliary and not v.dimensions and c.resolver.dimension(v.name, v.group) is not None:
        yield Hit(
            v,
            None,
            f"scalar coordinate {v.name!r} has the name of a dimension, which then cannot have "
            "a coordinate variable of its own",
        )
