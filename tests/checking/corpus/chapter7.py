"""Datasets with the features of sections 7.1 to 7.4 of the CF conventions, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_CLIMATOLOGY = """
  float pr(time, lat, lon) ;
    pr:long_name = "precipitation" ;
    pr:units = "{units}" ;
    pr:cell_methods = "{methods}" ;
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "{since}" ;
    time:calendar = "standard" ;
    time:climatology = "climatology_bounds" ;
  double climatology_bounds(time, nv) ;
"""

_EXTREMES = """
  float {name}(lat, lon) ;
    {name}:standard_name = "{standard_name}" ;
    {name}:units = "day" ;
    {name}:coordinates = "threshold time" ;
    {name}:cell_methods = "{methods}" ;
"""

EXAMPLES = {
    "7.1 bounds in time": cdl(
        "time=3 nv=2",
        """
  float time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2024-11-8 09:00:00Z" ;
    time:calendar = "standard" ;
    time:bounds = "time_bounds" ;
  float time_bounds(time, nv) ;
  float rain(time) ;
    rain:standard_name = "precipitation_amount" ;
    rain:units = "kg m-2" ;
    rain:cell_methods = "time: sum" ;
""",
        "  time = 0.5, 1.5, 2.5 ; time_bounds = 0, 1, 1, 2, 2, 3 ; rain = 0, 1, 0 ;",
    ),
    "7.2 corners of cells": cdl(
        "j=2 i=2 nv=4",
        """
  float lat(j, i) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:bounds = "lat_corners" ;
  float lon(j, i) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:bounds = "lon_corners" ;
  float lat_corners(j, i, nv) ;
  float lon_corners(j, i, nv) ;
  float zos(j, i) ;
    zos:standard_name = "sea_surface_height_above_geoid" ;
    zos:units = "m" ;
    zos:coordinates = "lat lon" ;
""",
        """
  lat = 1, 1, 3, 3 ;
  lon = 1, 3, 1, 3 ;
  lat_corners = 0, 0, 2, 2, 0, 0, 2, 2, 2, 2, 4, 4, 2, 2, 4, 4 ;
  lon_corners = 0, 2, 2, 0, 2, 4, 4, 2, 0, 2, 2, 0, 2, 4, 4, 2 ;
  zos = 0, 0, 0, 0 ;
""",
    ),
    "7.3 bounds of a parametric coordinate": cdl(
        "lev=2 lat lon two=2",
        """
  float lev(lev) ;
    lev:long_name = "hybrid level" ;
    lev:positive = "down" ;
    lev:standard_name = "atmosphere_hybrid_sigma_pressure_coordinate" ;
    lev:formula_terms = "a: A b: B ps: PS p0: P0" ;
    lev:bounds = "lev_bounds" ;
  float lev_bounds(lev, two) ;
    lev_bounds:formula_terms = "a: A_bounds b: B_bounds ps: PS p0: P0" ;
  float A(lev) ;
    A:long_name = "first coefficient of the levels" ;
    A:units = "1" ;
    A:bounds = "A_bounds" ;
  float B(lev) ;
    B:long_name = "second coefficient of the levels" ;
    B:units = "1" ;
    B:bounds = "B_bounds" ;
  float A_bounds(lev, two) ;
  float B_bounds(lev, two) ;
  float PS(lat, lon) ;
    PS:standard_name = "surface_air_pressure" ;
    PS:units = "Pa" ;
  float P0 ;
    P0:standard_name = "reference_air_pressure_for_atmosphere_vertical_coordinate" ;
    P0:units = "Pa" ;
  float ta(lev, lat, lon) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:coordinates = "A B" ;
""",
        """
  lev = 0.3, 0.8 ;
  lev_bounds = 0, 0.6, 0.6, 1 ;
  A = 0.2, 0.1 ; A_bounds = 0, 0.2, 0.2, 0 ;
  B = 0.1, 0.7 ; B_bounds = 0, 0.4, 0.4, 1 ;
  P0 = 100000 ;
""",
    ),
    "7.4 areas of cells": cdl(
        "cell=2 time nv=6",
        """
  float ps(time, cell) ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "Pa" ;
    ps:coordinates = "lon lat" ;
    ps:cell_measures = "area: size" ;
  float lon(cell) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:bounds = "lon_corners" ;
  float lat(cell) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:bounds = "lat_corners" ;
  float size(cell) ;
    size:standard_name = "cell_area" ;
    size:units = "km2" ;
  float lon_corners(cell, nv) ;
  float lat_corners(cell, nv) ;
""",
        """
  lon = 2, 5 ; lat = 2, 2 ;
  size = 1, 1 ;
  lon_corners = 1, 2, 3, 3, 2, 1, 4, 5, 6, 6, 5, 4 ;
  lat_corners = 1, 0, 1, 3, 4, 3, 1, 0, 1, 3, 4, 3 ;
""",
    ),
    "7.5 methods": cdl(
        "time=3 station=2 nv=2",
        """
  float pressure(time, station) ;
    pressure:long_name = "pressure" ;
    pressure:units = "kPa" ;
    pressure:cell_methods = "time: point" ;
  float maximum(time, station) ;
    maximum:long_name = "highest temperature" ;
    maximum:units = "K" ;
    maximum:cell_methods = "time: maximum" ;
  float rain(time, station) ;
    rain:long_name = "depth of rain" ;
    rain:units = "mm" ;
    rain:cell_methods = "time: sum" ;
  double time(time) ;
    time:long_name = "time" ;
    time:units = "h since 1998-4-19 6:0:0 Z" ;
    time:calendar = "standard" ;
    time:bounds = "time_bounds" ;
  double time_bounds(time, nv) ;
""",
        "  time = 0, 12, 24 ; time_bounds = -12, 0, 0, 12, 12, 24 ;",
    ),
    "7.6 variance": cdl(
        "time=1 lat lon nv=2",
        """
  float variance(time, lat, lon) ;
    variance:standard_name = "air_temperature" ;
    variance:units = "K2" ;
    variance:units_metadata = "temperature: difference" ;
    variance:cell_methods = "time: variance (interval: 1 hr comment: sampled instantaneously)" ;
  float time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 1990-01-01 00:00:00 Z" ;
    time:calendar = "standard" ;
    time:bounds = "time_bounds" ;
  float time_bounds(time, nv) ;
""",
        "  time = 0.5 ; time_bounds = 0, 1 ;",
    ),
    "7.7 over land and sea": cdl(
        "lat lon width=8 surface=2",
        """
  float ts(lat, lon) ;
    ts:standard_name = "surface_temperature" ;
    ts:units = "K" ;
    ts:cell_methods = "area: mean where land" ;
  float flux(surface, lat, lon) ;
    flux:standard_name = "surface_upward_sensible_heat_flux" ;
    flux:units = "W m-2" ;
    flux:coordinates = "kind" ;
    flux:cell_methods = "area: mean where kind" ;
  char kind(surface, width) ;
    kind:standard_name = "area_type" ;
""",
        '  kind = "land", "sea" ;',
    ),
    "7.8 sea ice": cdl(
        "lat lon",
        """
  float ice(lat, lon) ;
    ice:standard_name = "sea_ice_thickness" ;
    ice:units = "m" ;
    ice:cell_methods = "area: mean where sea_ice over sea" ;
  float snow(lat, lon) ;
    snow:standard_name = "lwe_thickness_of_surface_snow_amount" ;
    snow:units = "m" ;
    snow:cell_methods = "area: mean where sea_ice over sea" ;
""",
    ),
    "7.3.2 intervals and comments": cdl(
        "time=1 lat lon nv=2",
        """
  float sst(time, lat, lon) ;
    sst:standard_name = "sea_surface_temperature" ;
    sst:units = "K" ;
    sst:cell_methods = "lat: lon: mean (interval: 0.1 degrees_N interval: 0.2 degrees_E) time: mean (area-weighted)" ;
  float zonal(time, lat) ;
    zonal:standard_name = "sea_surface_temperature" ;
    zonal:units = "K" ;
    zonal:cell_methods = "longitude: mean time: standard_deviation (interval: 6 hours)" ;
  float time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 1990-01-01 00:00:00" ;
    time:calendar = "standard" ;
    time:bounds = "time_bounds" ;
  float time_bounds(time, nv) ;
""",
        "  time = 0.5 ; time_bounds = 0, 1 ;",
    ),
    "7.9 seasons": cdl(
        "time=2 lat lon nv=2",
        _CLIMATOLOGY.format(
            units="kg m-2", methods="time: minimum within years time: mean over years", since="days since 1960-1-1"
        ),
        "  time = 106, 197 ; climatology_bounds = 60, 11109, 152, 11201 ;",
    ),
    "7.10 decades": cdl(
        "time=2 lat lon nv=2",
        _CLIMATOLOGY.format(
            units="kg m-2", methods="time: sum within years time: mean over years", since="days since 1901-1-1"
        ),
        "  time = 23390, 27043 ; climatology_bounds = 21915, 25233, 25567, 28886 ;",
    ),
    "7.11 average day": cdl(
        "time=2 lat lon nv=2",
        _CLIMATOLOGY.format(
            units="kg m-2 s-1", methods="time: mean within days time: mean over days", since="hours since 1997-4-1"
        ),
        "  time = 6, 18 ; climatology_bounds = 0, 708, 12, 720 ;",
    ),
    "7.12 extremes": cdl(
        "lat lon nv=2",
        _EXTREMES.format(
            name="frost",
            standard_name="number_of_days_with_air_temperature_below_threshold",
            methods="time: minimum within days time: sum over days",
        ).replace('"day"', '"1"')
        + _EXTREMES.format(
            name="spell",
            standard_name="spell_length_of_days_with_air_temperature_below_threshold",
            methods="time: minimum within days time: maximum over days",
        )
        + """
  float threshold ;
    threshold:standard_name = "air_temperature" ;
    threshold:units = "degC" ;
  double time ;
    time:standard_name = "time" ;
    time:units = "days since 2000-6-1" ;
    time:calendar = "standard" ;
    time:climatology = "climatology_bounds" ;
  double climatology_bounds(nv) ;
""",
        "  threshold = 0 ; time = 2785.25 ; climatology_bounds = 2739.25, 2830.25 ;",
    ),
    "7.13 typical day": cdl(
        "time=2 lat lon nv=2",
        _CLIMATOLOGY.format(
            units="kg m-2 s-1",
            methods="time: mean within days time: mean over days time: mean over years",
            since="days since 1961-1-1",
        ),
        "  time = 90.25, 90.75 ; climatology_bounds = 90, 10711.5, 90.5, 10712 ;",
    ),
    "7.14 monthly maximum": cdl(
        "time=3 lat lon nv=2",
        _CLIMATOLOGY.format(
            units="kg", methods="time: sum within days time: maximum over days", since="days since 2000-6-1"
        ),
        "  time = 15, 45, 76 ; climatology_bounds = 0.25, 30.25, 30.25, 61.25, 61.25, 92.25 ;",
    ),
}
