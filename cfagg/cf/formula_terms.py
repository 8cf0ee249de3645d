"""Parametric vertical coordinates: their terms, and the matching names and units.

Source: CF Appendix D with Table D.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from cfagg.findings.versions import DRAFT, Version

__all__ = ["OCEAN_SETS", "Formula", "formulas", "known_formula"]

#: The measure of a term: a pressure, a length, a plain number, or a length or number if formula and text differ.
Measure = Literal["pressure", "length", "number", "either"]


class Formula(NamedTuple):
    """A parametric vertical coordinate: its terms with their measures, and standard names, defined since `names_since`.

    If a term has several names, each corresponds to the name at the same position in `computed`.
    """

    name: str
    terms: Mapping[str, Measure]
    names: Mapping[str, tuple[str, ...]]
    computed: tuple[str, ...]
    since: Version = Version(1, 0)
    names_since: Version = Version(1, 7)


#: Table D.1: the standard name of the computed coordinate, then those of ``zlev``, ``eta`` and ``depth``.
OCEAN_SETS: Mapping[str, tuple[str, str, str]] = {
    "altitude": ("altitude", "sea_surface_height_above_geoid", "sea_floor_depth_below_geoid"),
    "height_above_geopotential_datum": (
        "height_above_geopotential_datum",
        "sea_surface_height_above_geopotential_datum",
        "sea_floor_depth_below_geopotential_datum",
    ),
    "height_above_reference_ellipsoid": (
        "height_above_reference_ellipsoid",
        "sea_surface_height_above_reference_ellipsoid",
        "sea_floor_depth_below_reference_ellipsoid",
    ),
    "height_above_mean_sea_level": (
        "height_above_mean_sea_level",
        "sea_surface_height_above_mean_sea_level",
        "sea_floor_depth_below_mean_sea_level",
    ),
}

_AIR = ("air_pressure",)
_P0 = ("reference_air_pressure_for_atmosphere_vertical_coordinate",)
_PS = ("surface_air_pressure",)
_TOPS = ("altitude_at_top_of_atmosphere_model", "height_above_geopotential_datum_at_top_of_atmosphere_model")
_HEIGHTS = ("altitude", "height_above_geopotential_datum")
_OCEAN = tuple(OCEAN_SETS)


def _ocean(*terms: str) -> dict[str, tuple[str, ...]]:
    return {t: tuple(names[("zlev", "eta", "depth").index(t)] for names in OCEAN_SETS.values()) for t in terms}


def _measures(text: str) -> dict[str, Measure]:
    """Return terms and measures of a text such as ``"p0=pressure lev=number"``."""
    return {t: m for t, _, m in (word.partition("=") for word in text.split())}  # type: ignore[misc]


@lru_cache(maxsize=1)
def _all() -> Mapping[str, Formula]:
    nine, seven = Version(1, 9), Version(1, 7)
    generic = "s=number C=number eta=length depth=length depth_c=length"
    rows = (
        Formula("atmosphere_ln_pressure_coordinate", _measures("p0=pressure lev=number"), {"p0": _P0}, _AIR),
        Formula(
            "atmosphere_sigma_coordinate",
            _measures("sigma=number ps=pressure ptop=pressure"),
            {"ptop": ("air_pressure_at_top_of_atmosphere_model",), "ps": _PS},
            _AIR,
        ),
        Formula(
            "atmosphere_hybrid_sigma_pressure_coordinate",
            _measures("a=number ap=pressure b=number ps=pressure p0=pressure"),
            {"p0": _P0, "ps": _PS},
            _AIR,
        ),
        Formula(
            "atmosphere_hybrid_sigma_ln_pressure_coordinate",
            _measures("eta=number b=number ps=pressure p0=pressure"),
            {"p0": _P0, "ps": _PS, "eta": ("atmosphere_hybrid_sigma_ln_pressure_coordinate",)},
            _AIR,
            DRAFT,
            DRAFT,
        ),
        Formula(
            "atmosphere_hybrid_height_coordinate",
            _measures("a=length b=number orog=length"),
            {"orog": ("surface_altitude", "surface_height_above_geopotential_datum")},
            _HEIGHTS,
        ),
        Formula(
            "atmosphere_sleve_coordinate",
            _measures("a=number b1=number b2=number ztop=length zsurf1=length zsurf2=length"),
            {"ztop": _TOPS},
            _HEIGHTS,
        ),
        Formula(
            "ocean_sigma_coordinate", _measures("sigma=number eta=length depth=length"), _ocean("eta", "depth"), _OCEAN
        ),
        Formula(
            "ocean_s_coordinate",
            _measures("s=number eta=length depth=length a=number b=number depth_c=length"),
            _ocean("eta", "depth"),
            _OCEAN,
        ),
        Formula("ocean_s_coordinate_g1", _measures(generic), _ocean("eta", "depth"), _OCEAN, seven, nine),
        Formula("ocean_s_coordinate_g2", _measures(generic), _ocean("eta", "depth"), _OCEAN, seven, nine),
        Formula(
            "ocean_sigma_z_coordinate",
            _measures("sigma=number eta=length depth=length depth_c=length nsigma=number zlev=length"),
            {**_ocean("zlev", "eta", "depth"), "sigma": ("ocean_sigma_coordinate",)},
            _OCEAN,
        ),
        Formula(
            "ocean_double_sigma_coordinate",
            # In the text `a` is a length; in the formula it is divided by one length and multiplied by another.
            _measures("sigma=number depth=length z1=length z2=length a=either href=length k_c=number"),
            _ocean("depth"),
            _OCEAN,
        ),
    )  # fmt: skip
    return {row.name: row for row in rows}


def formulas(version: Version) -> Mapping[str, Formula]:
    """Return the parametric vertical coordinates of a version of CF by their standard names."""
    return {name: row for name, row in _all().items() if row.since <= version}


def known_formula(name: str) -> Formula | None:
    """Return the parametric vertical coordinate of a standard name in any version."""
    return _all().get(name)
