"""Datasets with one defect each: chapters 5 and 6 of the CF conventions."""

from __future__ import annotations

from tests.checking.corpus.defect import Defect as D

__all__ = ["DEFECTS"]

_WIND = 'wind:units = "m/s" ;'
_Y = """  double y(y) ;
    y:standard_name = "projection_y_coordinate" ;
    y:units = "m" ;
    y:axis = "Y" ;
"""
_LAT2D = "float lat(y, x) ;"

DEFECTS = [
    # 5 coordinates
    D(
        "COO006",
        "5.1 independent coordinates",
        "float lat(lat) ;",
        "float latitude(lat) ;",
        (),
        (
            ("lat:standard_name", "latitude:standard_name"),
            ("lat:units", "latitude:units"),
            ("lat:axis", "latitude:axis"),
            ("lat = -45, 0, 45 ;", "latitude = -45, 0, 45 ;"),
            (_WIND, 'wind:units = "m/s" ; wind:coordinates = "latitude" ;'),
        ),
    ),
    D("COO007", "5.1 independent coordinates", "lat = -45, 0, 45 ;", "lat = -45, 45, 0 ;"),
    D("COO007", "5.1 independent coordinates", "time = 0.5, 1.5 ;", "time = 0.5, 0.5 ;"),
    D("COO007", "grid", "lev = 1000, 500 ;", "lev = 500, 500 ;"),
    D("COO008", "5.1 independent coordinates", 'lat:axis = "Y" ;', 'lat:axis = "Y" ; lat:_FillValue = -999.f ;'),
    D("COO008", "5.1 independent coordinates", 'time:axis = "T" ;', 'time:axis = "T" ; time:missing_value = -1. ;'),
    D(
        "COO009",
        "5.2 two-dimensional coordinates",
        'ta:coordinates = "lon lat" ;',
        'ta:coordinates = "lon latitude" ;',
        ("GRP004",),
    ),
    D("COO009", "5.2 two-dimensional coordinates", 'ta:coordinates = "lon lat" ;', "ta:coordinates = 2 ;"),
    D(
        "COO009",
        "5.14 several forecasts",
        'z:coordinates = "start p850" ;',
        'z:coordinates = "start, p850" ;',
        ("GRP004",),
    ),
    D("COO010", "5.2 two-dimensional coordinates", "ta(lev, y, x)", "ta(lev, y)"),
    D(
        "COO010",
        "3.3 instrument data",
        "float ozone(time) ;",
        'float place(other) ;\n    place:long_name = "place" ; place:units = "m" ;\n  float ozone(time) ;',
        (),
        (
            ('ozone:units = "g/g" ;', 'ozone:units = "g/g" ; ozone:coordinates = "place" ;'),
            ("  time = 2 ;", "  time = 2 ;\n  other = 3 ;"),
            ("data:", "data:\n  place = 1, 2, 3 ;"),
        ),
    ),
    D(
        "COO011",
        "5.2 two-dimensional coordinates",
        _LAT2D,
        "float y(y, x) ;",
        ("COO007",),
        (
            ('lat:standard_name = "latitude" ;', 'y:standard_name = "latitude" ;'),
            ('lat:units = "degrees_north" ;', 'y:units = "degrees_north" ;'),
            ('"lon lat"', '"lon y"'),
            ("lat = 50, 50, 50, 51, 51, 51 ;", "y = 50, 50, 50, 51, 51, 51 ;"),
            ("  y = 0, 1000 ;", ""),
            (
                _Y,
                "",
            ),
        ),
    ),
    D("COO012", "5.1 independent coordinates", 'lat:axis = "Y" ;', ""),
    # 5.6 grid mappings
    D("GMP001", "5.10 two grid mappings", '"utm: x y wgs84: lat lon"', '"utm x y wgs84 lat lon"'),
    D("GMP001", "5.6 rotated pole", 'ta:grid_mapping = "pole" ;', "ta:grid_mapping = 1 ;"),
    D("GMP003", "5.6 rotated pole", 'ta:grid_mapping = "pole" ;', 'ta:grid_mapping = "rotated_pole" ;', ("GRP004",)),
    D("GMP003", "5.10 two grid mappings", '"utm: x y wgs84: lat lon"', '"utm: x y wgs: lat lon"', ("GRP004",)),
    D("GMP004", "5.10 two grid mappings", '"utm: x y wgs84: lat lon"', '"utm: x y wgs84: latitude lon"', ("GRP004",)),
    D("GMP004", "5.10 two grid mappings", 'ta:coordinates = "lat lon" ;', ""),
    D("GMP005", "5.6 rotated pole", 'pole:grid_mapping_name = "rotated_latitude_longitude" ;', ""),
    D("GMP005", "5.6 rotated pole", '"rotated_latitude_longitude"', '"rotated_pole"'),
    D(
        "GMP006",
        "5.6 rotated pole",
        "pole:grid_north_pole_latitude = 39.25 ;",
        'pole:grid_north_pole_latitude = "39.25" ;',
    ),
    D(
        "GMP006",
        "5.12 compound WKT",
        'utm:reference_ellipsoid_name = "WGS 84" ;',
        "utm:reference_ellipsoid_name = 84 ;",
    ),
    D("GMP007", "5.11 WGS 84 with WKT", 'GEODCRS[\\"WGS 84\\",', 'GEODCRS[\\"WGS 84\\"'),
    D("GMP007", "5.11 WGS 84 with WKT", 'up,LENGTHUNIT[\\"metre\\",1.0]]]', 'up,LENGTHUNIT[\\"metre\\",1.0]]'),
    D("GMP007", "5.11 WGS 84 with WKT", 'wgs84:crs_wkt = "GEODCRS', 'wgs84:crs_wkt = "EPSG:4326 GEODCRS'),
    D("GMP008", "5.12 compound WKT", 'utm:horizontal_datum_name = "WGS_1984" ;', ""),
    D(
        "GMP009",
        "5.6 rotated pole",
        "pole:grid_north_pole_latitude",
        'pole:projected_crs_name = "mine" ; pole:grid_north_pole_latitude',
    ),
    D("GMP010", "F healpix", "hp:refinement_level = 1 ;", ""),
    D(
        "GMP011",
        "healpix of many levels",
        'hp:indexing_scheme = "nuniq" ;',
        'hp:indexing_scheme = "nuniq" ; hp:refinement_level = 1 ;',
    ),
    D("GMP012", "F healpix", "hp:refinement_level = 1 ;", "hp:refinement_level = 30 ;"),
    D("GMP012", "F healpix", "hp:refinement_level = 1 ;", "hp:refinement_level = 1.5 ;", ("GMP006",)),
    D("GMP013", "F healpix", "int64 cell(cell) ;", "double cell(cell) ;"),
    D("GMP013", "F healpix", "cell = 0, 5, 47 ;", "cell = -1, 5, 47 ;"),
    D("GMP014", "5.6 rotated pole", "char pole ;", "char pole(rlat) ;"),
    D("GMP015", "equal area", "crs:standard_parallel = 30. ;", "crs:scale_factor_at_projection_origin = 0.9 ;"),
    D(
        "GMP015",
        "polar",
        "crs:longitude_of_projection_origin = -45. ;",
        "crs:straight_vertical_longitude_from_pole = -45. ;",
    ),
    D(
        "GMP016",
        "F healpix",
        "int64 cell(cell) ;",
        "int64 pixel(cell) ;",
        (),
        (
            ("cell:standard_name", "pixel:standard_name"),
            ("cell = 0, 5, 47 ;", "pixel = 0, 5, 47 ;"),
            ('ta:units = "K" ;', 'ta:units = "K" ; ta:coordinates = "pixel" ;'),
        ),
    ),
    D("GMP017", "reduced Gaussian", "int point(point) ;", "float point(point) ;"),
    D("GMP017", "reduced Gaussian", "point = 1, 2, 3, 4, 5, 6, 7, 8 ;", "point = 1, 2, 3, 4, 5, 6, 7, 24 ;"),
    D("GMP018", "reduced Gaussian", 'grid:grid_subtype = "normal" ;', 'grid:grid_subtype = "square" ;'),
    D(
        "GMP019",
        "reduced Gaussian",
        "lat = 4 ;",
        "lat = 3 ;",
        (),
        (("lat = 59.4, 19.9, -19.9, -59.4 ; counts = 4, 8, 8, 4 ;", "lat = 60, 0, -60 ; counts = 6, 9, 9 ;"),),
    ),
    D("GMP020", "reduced Gaussian", 'grid:latitude_dimension = "lat" ;', 'grid:latitude_dimension = "latitude" ;'),
    # 5.8 domains
    D(
        "DOM002",
        "5.15 domain",
        'domain:dimensions = "time lev lat lon" ;',
        'domain:dimensions = "time lev lat longitude" ;',
    ),
    D("DOM002", "5.15 domain", 'domain:dimensions = "time lev lat lon" ;', "domain:dimensions = 4 ;"),
    D("DOM003", "5.16 rotated domain", 'domain:dimensions = "lev rlat rlon" ;', 'domain:dimensions = "lev rlat" ;'),
    D(
        "DOM004",
        "5.17 domain with areas",
        "float size(cell) ;",
        "float size(nv) ;",
        (),
        (("  size = 1, 1 ;", "  size = 1, 1, 1, 1, 1, 1 ;"),),
    ),
    D("DOM005", "5.15 domain", 'domain:long_name = "domain of independent coordinates" ;', ""),
    D("DOM006", "5.15 domain", "char domain ;", 'char domain ;\n    domain:cell_methods = "time: mean" ;'),
    D(
        "DOM006",
        "5.15 domain",
        "char domain ;",
        'char domain ;\n    domain:standard_name = "air_temperature" ;',
        ("UNI001",),
    ),
    # 6.1 labels
    D(
        "COO014",
        "label",
        "string code(station) ;",
        "string code(other) ;",
        ("COO010",),
        (("  station = 2 ;", "  station = 2 ;\n  other = 2 ;"),),
    ),
    D(
        "COO014",
        "label",
        "char name(station, width) ;",
        "char name(station, other, width) ;",
        ("COO010",),
        (("  station = 2 ;", "  station = 2 ;\n  other = 1 ;"),),
    ),
    D(
        "COO014",
        "6.1 region",
        "string basin(lbl) ;",
        "string basin(lbl, lat) ;",
        (),
        (
            (
                '"atlantic_ocean", "pacific_ocean" ;',
                '"atlantic_ocean", "pacific_ocean", "black_sea", "atlantic_ocean", "pacific_ocean", "black_sea" ;',
            ),
        ),
    ),
    # appendix F
    D("GMP006", "5.7 Lambert", "lambert:standard_parallel = 33., 45. ;", 'lambert:standard_parallel = "33 45" ;'),
]
