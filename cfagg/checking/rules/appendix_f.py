"""The parameters of grid mappings: CF appendix F, beyond what section 5.6 requires of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.cf.grid_mapping_parameters import DOMAINS, MAPPINGS, TYPES
from cfagg.checking.axes import name_of
from cfagg.checking.context import Context
from cfagg.checking.rules.grid_mappings import grid_mapping_variables, mappings_named
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: Parameters that may have several numbers, with their counts.
_COUNTS = {"standard_parallel": (1, 2), "towgs84": (3, 6, 7)}


def _number(v: Variable, name: str) -> float | None:
    """Return a parameter that is one number, or `None`."""
    value = _numbers(v, name)
    return float(value[0]) if value is not None and value.size == 1 else None


def _numbers(v: Variable, name: str) -> npt.NDArray[np.float64] | None:
    value = v.numbers(name)
    if value is None or value.dtype.kind not in "iuf" or not value.size:
        return None  # GMP006
    return value.astype(np.float64).ravel()


@rule("APF001", each=grid_mapping_variables)
def parameters_are_given(_: Context, v: Variable) -> Iterator[Hit]:
    """A grid mapping has the parameters that are not marked as optional."""
    mapping = MAPPINGS.get(v.text("grid_mapping_name") or "")
    for choice in mapping.needs if mapping is not None else ():
        if v.attributes.keys().isdisjoint(choice):
            wanted = " or ".join(choice)
            instead = "; crs_wkt does not replace it" if "crs_wkt" in v.attributes else ""
            yield Hit(v, choice[0], f"{v.text('grid_mapping_name')} needs {wanted}, which is missing{instead}")


@rule("APF002", each=grid_mapping_variables)
def parameters_are_in_their_ranges(_: Context, v: Variable) -> Iterator[Hit]:
    """Parameters of a grid mapping have values and numbers of values that table F.1 allows."""
    for name in v.attributes:
        if TYPES.get(name) != "N":
            continue
        values = _numbers(v, name)
        if values is None:
            continue
        counts = _COUNTS.get(name, (1,))
        if values.size not in counts:
            allowed = " or ".join(map(str, counts))
            yield Hit(v, name, f"{name} has {values.size} values; expected {allowed}")
        elif not np.isfinite(values).all():
            yield Hit(v, name, f"{name} is not a finite number")
        else:
            yield from _in_domain(v, name, values)


def _in_domain(v: Variable, name: str, values: npt.NDArray[np.float64]) -> Iterator[Hit]:
    if name.startswith("scale_factor") and values[0] <= 0:
        yield Hit(v, name, f"{name} is {values[0]:g}; expected more than 0")
    if name in ("earth_radius", "semi_major_axis", "semi_minor_axis", "perspective_point_height") and values[0] <= 0:
        yield Hit(v, name, f"{name} is {values[0]:g}; expected a length in metres greater than 0")
    if name in DOMAINS:
        low, high, closed = DOMAINS[name]
        outside = [x for x in values if x < low or x > high or (x == high and not closed)]
        if outside:
            # An example in CF section 5.6 itself has a longitude of 265 degrees.
            turned = not closed and -360 <= outside[0] <= 360
            message = f"{name} is {outside[0]:g}; expected {low:g} to {'' if closed else 'less than '}{high:g}"
            yield Hit(v, name, message, "info" if turned else None)
    polar = name == "latitude_of_projection_origin" and v.text("grid_mapping_name") == "polar_stereographic"
    if polar and abs(abs(values[0]) - 90) > 1e-6:
        yield Hit(v, name, f"{name} is {values[0]:g}; expected 90 or -90 for polar_stereographic")


@rule("APF003", each=grid_mapping_variables)
def parameters_agree(_: Context, v: Variable) -> Iterator[Hit]:
    """Parameters that depend on each other do not contradict each other."""
    if "geoid_name" in v.attributes and "geopotential_datum_name" in v.attributes:
        yield Hit(v, "geoid_name", "geoid_name and geopotential_datum_name are both given; only one may be")
    a, b, f = (_number(v, n) for n in ("semi_major_axis", "semi_minor_axis", "inverse_flattening"))
    if a is not None and b is not None and a > 0:
        if b > a * (1 + 1e-6):
            yield Hit(v, "semi_minor_axis", f"semi_minor_axis {b:g} is longer than semi_major_axis {a:g}")
        elif f is not None and abs((1 / f if f else 0.0) - (a - b) / a) > 1e-6:
            message = f"inverse_flattening is {f:g}; the two axes give {a / (a - b) if a > b else 0:.9g}"
            yield Hit(v, "inverse_flattening", message)
    radius = _number(v, "earth_radius")
    if radius is not None and ((f is not None and f != 0) or (b is not None and a is not None and a != b)):
        yield Hit(v, "earth_radius", "earth_radius describes a sphere, other attributes an ellipsoid", "warning")


@rule("APF004", each=mappings_named("geostationary"))
def axes_of_a_geostationary_view_are_x_and_y(_: Context, v: Variable) -> Iterator[Hit]:
    """The axes of a geostationary projection are x and y in any case, and not the same."""
    seen = []
    for name in ("sweep_angle_axis", "fixed_angle_axis"):
        value = v.text(name)
        if value is None:
            continue
        seen.append(value.lower())
        if value.lower() not in ("x", "y"):
            yield Hit(v, name, f"{name} is {value!r}; expected x or y")
    if len(seen) == 2 and seen[0] == seen[1] and seen[0] in ("x", "y"):
        yield Hit(v, "fixed_angle_axis", f"both axes are {seen[0]!r}; if one is x the other is y")


@rule("APF005")
def indexing_scheme_is_known(c: Context) -> Iterator[Hit]:
    """The indexing_scheme of a HEALPix grid is nested, ring, nuniq or zuniq."""
    for v in mappings_named("healpix")(c) if c.version >= Version(1, 13) else ():
        value = v.attributes.get("indexing_scheme")
        if value is None:
            yield Hit(v, "indexing_scheme", "indexing_scheme is missing; expected nested, ring, nuniq or zuniq")
        elif isinstance(value, str) and value not in ("nested", "ring", "nuniq", "zuniq"):
            yield Hit(v, "indexing_scheme", f"{value!r} is not one of nested, ring, nuniq, zuniq")


@rule("APF006", each="grid_mapping")
def coordinates_of_the_mapping_are_marked(c: Context, v: Variable) -> Iterator[str]:
    """A variable with a grid mapping has coordinates with the standard names of that mapping."""
    if not v.attributes.keys().isdisjoint(("geometry_type", "mesh")) or v in c.roles.coordinates:
        return
    names: set[str] | None = None
    for r in c.references_of(v, "grid_mapping"):
        if r.key is not None or r.target is None:
            continue
        wanted = _wanted(c, r.target)
        if not wanted:
            continue
        if names is None:
            names = _standard_names(c, v)
        missing = [w for w in wanted if w not in names]
        former = r.target.text("grid_mapping_name") == "geostationary" and "projection_x_coordinate" in names
        if missing and not former:
            yield (
                f"no coordinate of {v.path!r} has the standard name {' or '.join(missing)}, "
                f"which {r.target.text('grid_mapping_name')} is a function of"
            )


def _wanted(c: Context, mapping: Variable) -> tuple[str, ...]:
    known = MAPPINGS.get(mapping.text("grid_mapping_name") or "")
    if known is None or c.version < known.since:
        return ()
    if mapping.text("grid_mapping_name") == "geostationary" and c.version < Version(1, 9):
        return ("projection_x_coordinate", "projection_y_coordinate")
    return known.coordinates


def _standard_names(c: Context, v: Variable) -> set[str]:
    """Return the standard names of all coordinates of a variable."""
    own = (c.resolver.variable(name, v.group)[0] for name in [*v.dims, *v.words("dimensions")])
    named = c.targets(v, "coordinates", "coordinate_interpolation")
    nodes = [n for geometry in c.targets(v, "geometry") for n in c.targets(geometry, "node_coordinates")]
    return {name_of(x) for x in (*own, *named, *nodes) if x is not None} - {""}
