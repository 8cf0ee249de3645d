"""Clean datasets that are written otherwise, as the CF conventions allow: nothing here is an error."""

from __future__ import annotations

from tests.checking.corpus.defect import Defect

__all__ = ["ALLOWED"]

_TAS = 'tas:long_name = "temperature near the ground" ;'
_MEAN = 'tas:cell_methods = "time: mean (interval: 1 hour) area: mean" ;'
_SINCE = 'steps:units = "days since 1990-1-1 0:0:0" ;'
_STANDARD = 'steps:calendar = "standard" ;'
_CF = ':Conventions = "CF-1.13" ;'


def _allowed(base: str, old: str, new: str, *more: tuple[str, str], version: str | None = None) -> Defect:
    return Defect("none", base, old, new, more=more, version=version)


ALLOWED: list[Defect] = [
    # 2: names, types, documents
    *(
        _allowed("grid", f"{_CF}", f':Conventions = "{text}" ;')
        for text in ("CF-1.13 ACDD-1.3", "CF-1.13, ACDD-1.3", "ACDD-1.3,CF-1.13", "UGRID-1.0 CF-1.12", "CF-1.0")
    ),
    _allowed("grid", ':title = "a clean grid" ;', ""),
    _allowed("grid", ':history = "made for a test" ;', ""),
    _allowed("grid", _TAS, _TAS + ' tas:my_attribute = 1, 2, 3 ; tas:other = "x" ;'),
    _allowed("grid", _TAS, 'string tas:long_name = "temperature" ;'),
    _allowed("grid", _TAS, 'tas:long_name = "Temperatur über Grund" ;'),
    _allowed("grid", _TAS, _TAS + " tas:_ChunkSizes = 1, 2, 3 ;"),
    _allowed(
        "2.1 strings", "char code(name, width) ;", "char code(width, name) ;", ('code = "alpha", "beta", "gamma" ;', "")
    ),
    _allowed("grid", "tas:missing_value = -999.f ;", "tas:missing_value = -999.f, -998.f ;"),
    _allowed("grid", "tas:missing_value = -999.f ;", ""),
    _allowed("grid", "tas:actual_range = 270.f, 290.f ;", ""),
    # 3: units, names, flags
    *(
        _allowed("3.2 standard name", 'ps:units = "hPa" ;', f'ps:units = "{units}" ;')
        for units in (
            "mbar",
            "kg m-1 s-2",
            "N/m2",
            "Pascal",
            "millibars",
            "kilogram meter-1 second-2",
            "0.01 bar",
            "atm",
        )
    ),
    *(
        _allowed("3.3 instrument data", 'ozone:units = "g/g" ;', f'ozone:units = "{units}" ;')
        for units in ("1", "kg kg-1", "1e-9", "percent", "%", "g kg-1", "mg/kg")
    ),
    _allowed("3.3 instrument data", 'ozone:units = "g/g" ;', ""),
    _allowed(
        "3.2 standard name", '"surface_air_pressure"', '"surface_air_pressure" ;\n    ps:units_metadata_note = "none"'
    ),
    _allowed("3.2 standard name", 'ps:standard_name = "surface_air_pressure" ;', ""),
    _allowed("3.2 standard name", 'ps:long_name = "pressure at the ground" ;', ""),
    _allowed("3.5 flag values", "wind_qc:flag_values = 0b, 1b, 2b ;", "wind_qc:flag_values = 2b, 0b, 1b ;"),
    _allowed(
        "3.5 flag values",
        "byte wind_qc(time, lat, lon) ;",
        "ubyte wind_qc(time, lat, lon) ;",
        ("wind_qc:_FillValue = -127b ;", "wind_qc:_FillValue = 255ub ;"),
        ("wind_qc:valid_range = 0b, 2b ;", "wind_qc:valid_range = 0ub, 2ub ;"),
        ("wind_qc:flag_values = 0b, 1b, 2b ;", "wind_qc:flag_values = 0ub, 1ub, 2ub ;"),
    ),
    _allowed("3.5 flag values", "good doubtful", "good.1 doubt+ful@x-y_z"),
    # 4: axes and times
    _allowed("5.1 independent coordinates", 'lat:axis = "Y" ;', 'lat:axis = "y" ;'),
    *(
        _allowed("5.1 independent coordinates", 'lat:units = "degrees_north" ;', f'lat:units = "{units}" ;')
        for units in ("degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
    ),
    *(
        _allowed("4.3 depth", 'below:positive = "down" ;', f'below:positive = "{way}" ;')
        for way in ("Down", "DOWN", "up")
    ),
    _allowed("5.1 independent coordinates", 'lev:positive = "down" ;', ""),
    _allowed("4.3 sigma", 'lev:computed_standard_name = "air_pressure" ;', ""),
    _allowed("4.3 sigma", 'lev:positive = "down" ;', 'lev:positive = "down" ; lev:units = "1" ;'),
    _allowed("hybrid", "ap: ap b: b ps: ps", "ap: ap   b: b\\n ps: ps"),
    *(
        _allowed("4.4 time", _SINCE, f'steps:units = "{units}" ;')
        for units in (
            "days since 1990-01-01",
            "day since 1990-01-01",
            "d since 1990-01-01",
            "days since 1990-01-01T00:00:00Z",
            "days since 1990-01-01 00:00:0.0",
            "hours since 1990-1-1 12:30",
            "seconds since 1970-01-01T00:00:00.000Z",
            "milliseconds since 1970-01-01",
            "minutes since 1990-01-01 00:00 +00:00",
            "weeks since 1990-01-01",
            "Days Since 1990-01-01",
        )
    ),
    *(
        _allowed("4.4 time", _STANDARD, f'steps:calendar = "{calendar}" ;')
        for calendar in (
            "Standard",
            "GREGORIAN",
            "proleptic_gregorian",
            "noleap",
            "365_day",
            "all_leap",
            "366_day",
            "360_day",
            "julian",
            "none",
            "no_leap",
        )
    ),
    _allowed(
        "4.4 time", _SINCE, 'steps:units = "days since -100-01-01" ;', (_STANDARD, 'steps:calendar = "360_day" ;')
    ),
    _allowed(
        "4.4 time", _SINCE, 'steps:units = "days since 2001-02-30" ;', (_STANDARD, 'steps:calendar = "360_day" ;')
    ),
    _allowed("4.4 time", _SINCE, 'steps:units = "days since 1990-01-01 00:00:00 UTC" ;', version="1.12"),
    _allowed("4.6 calendar of its own", "steps:leap_month = 2 ;", ""),
    # 5: coordinates
    _allowed("5.2 two-dimensional coordinates", '"lon lat"', '"lon lat y x lev"'),
    _allowed("5.2 two-dimensional coordinates", '"lon lat"', '"  lat   lon "'),
    _allowed("5.6 rotated pole", "char pole ;", "int pole ;"),
    _allowed("5.6 rotated pole", "char pole ;", "string pole ;"),
    _allowed(
        "5.6 rotated pole",
        "pole:grid_north_pole_latitude",
        'pole:spatial_ref = "anything" ; pole:GeoTransform = 1., 2. ; pole:grid_north_pole_latitude',
    ),
    _allowed(
        "5.6 rotated pole",
        "pole:grid_north_pole_latitude",
        "pole:earth_radius = 6371229. ; pole:north_pole_grid_longitude = 0. ; pole:grid_north_pole_latitude",
    ),
    _allowed("5.10 two grid mappings", '"utm: x y wgs84: lat lon"', '"utm: x y"'),
    _allowed("5.10 two grid mappings", '"utm: x y wgs84: lat lon"', '"utm"'),
    _allowed("5.7 Lambert", "lambert:standard_parallel = 33., 45. ;", "lambert:standard_parallel = 33.f ;"),
    _allowed("5.1 independent coordinates", "lat = -45, 0, 45 ;", "lat = 45, 0, -45 ;"),
    _allowed("5.15 domain", '"time lev lat lon"', '"lat lon"'),
    _allowed("5.16 rotated domain", "char domain ;", "float domain ;"),
    # 7: cells and methods
    *(
        _allowed("grid", _MEAN, f'tas:cell_methods = "{methods}" ;')
        for methods in (
            "time: mean",
            "time: lat: lon: mean",
            "area: time: mean",
            "time: mean (with a comment)",
            "height: point",
            "longitude: mean",
            "time: maximum (interval: 1 hr comment: sampled instantaneously)",
            "time: mean_absolute_value",
            "time: point area: mean where land",
            "area: mean where sea_ice over sea",
            "time: mid_range",
            "lat: lon: mean (interval: 1 degree interval: 2 degree)",
            "time: mean (interval: 0.5e1 minutes)",
            "lat: lon: time: mean (interval: 1 degree interval: 2 degree interval: 1 day)",
            "air_pressure: mean",
            "time: minimum\\n area: mean",
            "area: mean where land over all_area_types",
        )
    ),
    _allowed("grid", "lat = -45, 45 ; lat_bnds = -90, 0, 0, 90 ;", "lat = 45, -45 ; lat_bnds = 90, 0, 0, -90 ;"),
    _allowed("grid", "lat_bnds = -90, 0, 0, 90 ;", "lat_bnds = -90, 1, -1, 90 ;"),
    _allowed(
        "7.2 corners of cells",
        "lat_corners = 0, 0, 2, 2, 0, 0, 2, 2,",
        "lat_corners = 0, 0, 2, _, 0, 0, 2, 2,",
        ("lon_corners = 0, 2, 2, 0, 2, 4, 4, 2,", "lon_corners = 0, 2, 2, _, 2, 4, 4, 2,"),
    ),
    _allowed("grid", 'tas:cell_measures = "area: area" ;', ""),
    _allowed("7.9 seasons", 'time:calendar = "standard" ;', 'time:calendar = "standard" ; time:long_name = "season" ;'),
    # 8
    _allowed("8.1 packed", "ta:add_offset = 273.15f ;", "", ("ta:actual_range = 272.15f, 275.15f ;", "")),
    _allowed(
        "8.1 packed",
        "ta:scale_factor = 0.01f ;",
        "ta:scale_factor = 0.01 ;",
        ("ta:add_offset = 273.15f ;", "ta:add_offset = 273.15 ;"),
        ("ta:actual_range = 272.15f, 275.15f ;", ""),
    ),
    _allowed(
        "8.9 quantized by a tool", '"NCO version 5.2.7 (with defaults)"', '"my own tool version 1 (a (nested) note)"'
    ),
    # 9
    _allowed("H.2 time series, orthogonal", ':featureType = "timeSeries" ;', ':featureType = "timeseries" ;'),
    _allowed("H.2 time series, orthogonal", ':featureType = "timeSeries" ;', ':featureType = "TIMESERIES" ;'),
    _allowed(
        "H.6 time series, contiguous",
        "string name(station) ;",
        "int name(station) ;",
        ('name = "north", "south" ;', "name = 1, 2 ;"),
    ),
    # older versions
    *(_allowed("grid", _CF, f':Conventions = "CF-1.{n}" ;') for n in range(13)),
]
