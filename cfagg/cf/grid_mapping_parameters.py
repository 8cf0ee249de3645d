"""The grid mappings of CF Appendix F, and the attributes that describe them."""

from __future__ import annotations

from typing import NamedTuple

from cfagg.findings.versions import DRAFT, Version

__all__ = ["DOMAINS", "MAPPINGS", "NAMED_TOGETHER", "SINCE", "TYPES", "Mapping"]

#: Attributes by table F.1: N for numbers, S for text.  Attributes that the draft's table marks N but its text describes
#: as a word are S here.
TYPES: dict[str, str] = dict.fromkeys(
    (
        "azimuth_of_central_line",
        "earth_radius",
        "false_easting",
        "false_northing",
        "grid_north_pole_latitude",
        "grid_north_pole_longitude",
        "inverse_flattening",
        "latitude_of_projection_origin",
        "longitude_of_central_meridian",
        "longitude_of_prime_meridian",
        "longitude_of_projection_origin",
        "north_pole_grid_longitude",
        "perspective_point_height",
        "refinement_level",
        "scale_factor_at_central_meridian",
        "scale_factor_at_projection_origin",
        "semi_major_axis",
        "semi_minor_axis",
        "standard_parallel",
        "straight_vertical_longitude_from_pole",
        "towgs84",
        "longitude_of_first_meridian",
    ),
    "N",
) | dict.fromkeys(
    (
        "crs_wkt",
        "fixed_angle_axis",
        "geographic_crs_name",
        "geoid_name",
        "geopotential_datum_name",
        "grid_mapping_name",
        "horizontal_datum_name",
        "indexing_scheme",
        "prime_meridian_name",
        "projected_crs_name",
        "reference_ellipsoid_name",
        "sweep_angle_axis",
        "grid_subtype",
        "points_per_latitude",
        "accumulated_points_per_latitude",
    ),
    "S",
)

#: Attributes that table F.1 has only since a version later than 1.0; they are not checked in older datasets.
SINCE = dict.fromkeys(
    (
        "crs_wkt",
        "azimuth_of_central_line",
        "geographic_crs_name",
        "geoid_name",
        "geopotential_datum_name",
        "horizontal_datum_name",
        "prime_meridian_name",
        "projected_crs_name",
        "reference_ellipsoid_name",
        "sweep_angle_axis",
        "fixed_angle_axis",
        "towgs84",
    ),
    Version(1, 7),
) | {
    "indexing_scheme": Version(1, 13),
    "refinement_level": Version(1, 13),
    "grid_subtype": DRAFT,
    "points_per_latitude": DRAFT,
    "accumulated_points_per_latitude": DRAFT,
    "longitude_of_first_meridian": DRAFT,
}

#: If any of these is present, all are required.
NAMED_TOGETHER = (
    "reference_ellipsoid_name",
    "prime_meridian_name",
    "horizontal_datum_name",
    "geographic_crs_name",
)

#: Minimum and maximum of numbers, and whether the maximum is included.
DOMAINS: dict[str, tuple[float, float, bool]] = {
    "latitude_of_projection_origin": (-90.0, 90.0, True),
    "grid_north_pole_latitude": (-90.0, 90.0, True),
    "standard_parallel": (-90.0, 90.0, True),
    "longitude_of_central_meridian": (-180.0, 180.0, False),
    "longitude_of_prime_meridian": (-180.0, 180.0, False),
    "longitude_of_projection_origin": (-180.0, 180.0, False),
    "straight_vertical_longitude_from_pole": (-180.0, 180.0, False),
}


class Mapping(NamedTuple):
    """A grid mapping; each inner tuple of `needs` lists required parameters of which one is sufficient."""

    since: Version
    needs: tuple[tuple[str, ...], ...]
    coordinates: tuple[str, ...]


_XY = ("projection_x_coordinate", "projection_y_coordinate")
_ORIGIN = (("longitude_of_projection_origin",), ("latitude_of_projection_origin",))
_SCALED = (("standard_parallel", "scale_factor_at_projection_origin"),)
_CONIC = (("standard_parallel",), ("longitude_of_central_meridian",), ("latitude_of_projection_origin",))
_FIRST, _SECOND, _SEVENTH = Version(1, 0), Version(1, 2), Version(1, 7)

#: Grid mappings by the value of ``grid_mapping_name``.
MAPPINGS = {
    "albers_conical_equal_area": Mapping(_FIRST, _CONIC, _XY),
    "azimuthal_equidistant": Mapping(_FIRST, _ORIGIN, _XY),
    "geostationary": Mapping(
        _SEVENTH,
        (*_ORIGIN, ("perspective_point_height",), ("sweep_angle_axis", "fixed_angle_axis")),
        ("projection_x_angular_coordinate", "projection_y_angular_coordinate"),
    ),
    "healpix": Mapping(Version(1, 13), (), ("healpix_index",)),
    "lambert_azimuthal_equal_area": Mapping(_FIRST, _ORIGIN, _XY),
    "lambert_conformal_conic": Mapping(_FIRST, _CONIC, _XY),
    "lambert_cylindrical_equal_area": Mapping(_SECOND, (("longitude_of_central_meridian",), *_SCALED), _XY),
    "latitude_longitude": Mapping(_SECOND, (), ()),
    "mercator": Mapping(_SECOND, (("longitude_of_projection_origin",), *_SCALED), _XY),
    "oblique_mercator": Mapping(
        _SEVENTH, (("azimuth_of_central_line",), *_ORIGIN, ("scale_factor_at_projection_origin",)), _XY
    ),
    "orthographic": Mapping(_SECOND, _ORIGIN, _XY),
    "polar_stereographic": Mapping(
        _FIRST,
        (
            ("longitude_of_projection_origin", "straight_vertical_longitude_from_pole"),
            ("latitude_of_projection_origin",),
            *_SCALED,
        ),
        _XY,
    ),
    "reduced_gaussian": Mapping(
        DRAFT,
        (("grid_subtype",), ("latitude_dimension",), ("points_per_latitude", "accumulated_points_per_latitude")),
        ("reduced_gaussian_index",),
    ),
    "rotated_latitude_longitude": Mapping(
        _FIRST, (("grid_north_pole_latitude",), ("grid_north_pole_longitude",)), ("grid_latitude", "grid_longitude")
    ),
    "sinusoidal": Mapping(_SEVENTH, (("longitude_of_projection_origin",),), _XY),
    "stereographic": Mapping(_FIRST, (*_ORIGIN, ("scale_factor_at_projection_origin",)), _XY),
    "transverse_mercator": Mapping(
        _FIRST,
        (
            ("scale_factor_at_central_meridian",),
            ("longitude_of_central_meridian",),
            ("latitude_of_projection_origin",),
        ),
        _XY,
    ),
    "vertical_perspective": Mapping(_SECOND, (*_ORIGIN, ("perspective_point_height",)), _XY),
}
