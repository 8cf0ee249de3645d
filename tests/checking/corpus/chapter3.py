"""Datasets with the features of chapters 3 and 4 of the CF conventions, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_STEPS = """
  double steps(steps) ;
    steps:standard_name = "time" ;
    steps:units = "{units}" ;
    steps:calendar = "{calendar}" ;
    steps:axis = "T" ;{more}
  float index(steps) ;
    index:long_name = "index of something" ;
    index:units = "1" ;
"""

EXAMPLES = {
    "3.1 units metadata": cdl(
        "",
        """
  float sst ;
    sst:standard_name = "sea_surface_temperature" ;
    sst:long_name = "mean temperature of the sea surface" ;
    sst:units = "degC" ;
    sst:units_metadata = "temperature: on_scale" ;
    sst:cell_methods = "area: mean" ;
  float warming ;
    warming:standard_name = "sea_surface_temperature" ;
    warming:long_name = "how much warmer the sea surface is than it was" ;
    warming:units = "degC" ;
    warming:units_metadata = "temperature: difference" ;
    warming:cell_methods = "area: mean" ;
""",
        "  sst = 18.5 ; warming = 0.9 ;",
    ),
    "3.2 standard name": cdl(
        "lat lon",
        """
  float ps(lat, lon) ;
    ps:long_name = "pressure at the ground" ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "hPa" ;
""",
    ),
    "3.3 instrument data": cdl(
        "time",
        """
  float ozone(time) ;
    ozone:standard_name = "mass_fraction_of_ozone_in_air" ;
    ozone:units = "g/g" ;
    ozone:ancillary_variables = "ozone_error ozone_limit" ;
  float ozone_error(time) ;
    ozone_error:standard_name = "mass_fraction_of_ozone_in_air standard_error" ;
    ozone_error:units = "g/g" ;
  float ozone_limit(time) ;
    ozone_limit:standard_name = "mass_fraction_of_ozone_in_air detection_minimum" ;
    ozone_limit:units = "g/g" ;
""",
        "  ozone = 1e-8, 2e-8 ; ozone_error = 1e-9, 1e-9 ; ozone_limit = 1e-10, 1e-10 ;",
    ),
    "3.4 quality of data": cdl(
        "time lev",
        """
  float oxygen(time, lev) ;
    oxygen:standard_name = "moles_of_oxygen_per_unit_mass_in_sea_water" ;
    oxygen:units = "mol kg-1" ;
    oxygen:ancillary_variables = "oxygen_qc oxygen_flat oxygen_all" ;
  int oxygen_qc(time, lev) ;
    oxygen_qc:long_name = "quality" ;
    oxygen_qc:standard_name = "quality_flag" ;
  int oxygen_flat(time, lev) ;
    oxygen_flat:long_name = "whether values stay the same" ;
    oxygen_flat:standard_name = "flat_line_test_quality_flag" ;
  int oxygen_all(time, lev) ;
    oxygen_all:long_name = "both together" ;
    oxygen_all:standard_name = "aggregate_quality_flag" ;
""",
        "  oxygen_qc = 1, 1, 1, 1, 1, 1 ;",
    ),
    "3.5 flag values": cdl(
        "time lat lon",
        """
  byte wind_qc(time, lat, lon) ;
    wind_qc:long_name = "quality of the wind" ;
    wind_qc:standard_name = "status_flag" ;
    wind_qc:_FillValue = -127b ;
    wind_qc:valid_range = 0b, 2b ;
    wind_qc:flag_values = 0b, 1b, 2b ;
    wind_qc:flag_meanings = "good doubtful
                             out_of_range" ;
""",
    ),
    "3.6 flag masks": cdl(
        "time lat lon",
        """
  byte state(time, lat, lon) ;
    state:long_name = "state of the buoy" ;
    state:standard_name = "status_flag" ;
    state:_FillValue = 0b ;
    state:valid_range = 1b, 15b ;
    state:flag_masks = 1b, 2b, 4b, 8b ;
    state:flag_meanings = "low_voltage no_position
                           full_disk adrift" ;
""",
    ),
    "3.7 region flags": cdl(
        "lat lon",
        """
  int sea(lat, lon) ;
    sea:standard_name = "region" ;
    sea:flag_values = 1, 2, 3 ;
    sea:flag_meanings = "baltic_sea north_sea black_sea" ;
""",
        "  sea = 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1 ;",
    ),
    "3.8 flag masks and values": cdl(
        "time",
        """
  byte state(time) ;
    state:long_name = "state of the buoy" ;
    state:standard_name = "status_flag" ;
    state:_FillValue = 0b ;
    state:valid_range = 1b, 15b ;
    state:flag_masks = 1b, 2b, 12b, 12b, 12b ;
    state:flag_values = 1b, 2b, 4b, 8b, 12b ;
    state:flag_meanings = "low_voltage no_position drifting moored ashore" ;
""",
        "  state = 1, 12 ;",
    ),
    "4.1 latitude": cdl(
        "lat=2",
        """
  float lat(lat) ;
    lat:standard_name = "latitude" ;
    lat:long_name = "latitude" ;
    lat:units = "degrees_north" ;
""",
        "  lat = 1, 2 ;",
    ),
    "4.2 longitude": cdl(
        "lon=2",
        """
  float lon(lon) ;
    lon:standard_name = "longitude" ;
    lon:long_name = "longitude" ;
    lon:units = "degreeE" ;
""",
        "  lon = 1, 2 ;",
    ),
    "4.3 depth": cdl(
        "below=2",
        """
  float below(below) ;
    below:long_name = "how deep" ;
    below:units = "m" ;
    below:positive = "down" ;
  float salt(below) ;
    salt:standard_name = "sea_water_practical_salinity" ;
    salt:units = "1" ;
""",
        "  below = 5, 10 ; salt = 34, 35 ;",
    ),
    "4.3 sigma": cdl(
        "time lat lon lev=2",
        """
  float lev(lev) ;
    lev:long_name = "sigma in the middle of layers" ;
    lev:positive = "down" ;
    lev:standard_name = "atmosphere_sigma_coordinate" ;
    lev:formula_terms = "sigma: lev ps: ps ptop: top" ;
    lev:computed_standard_name = "air_pressure" ;
  float ps(time, lat, lon) ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "Pa" ;
  float top ;
    top:standard_name = "air_pressure_at_top_of_atmosphere_model" ;
    top:units = "Pa" ;
  float wind(time, lev, lat, lon) ;
    wind:standard_name = "eastward_wind" ;
    wind:units = "m s-1" ;
""",
        "  lev = 0.3, 0.9 ; top = 1000 ;",
    ),
    "4.4 time": cdl(
        "steps=2",
        _STEPS.format(units="days since 1990-1-1 0:0:0", calendar="standard", more=""),
        "  steps = 0.5, 1.5 ; index = 1, 2 ;",
    ),
    "4.5 perpetual time": cdl(
        "steps=2",
        _STEPS.format(units="days since 1-7-15 0:0:0", calendar="none", more=""),
        "  steps = 0, 1 ; index = 1, 2 ;",
    ),
    "4.6 calendar of its own": cdl(
        "steps=2",
        _STEPS.format(
            units="days since 1-1-1 0:0:0",
            calendar="125 000 years ago",
            more="""
    steps:month_lengths = 34, 31, 32, 30, 29, 27, 28, 28, 28, 32, 32, 34 ;
    steps:leap_year = 4 ;
    steps:leap_month = 2 ;""",
        ),
        "  steps = 0, 1 ; index = 1, 2 ;",
    ),
    "4.4.3 utc": cdl(
        "steps=2",
        _STEPS.format(
            units="seconds since 2016-12-31 00:00:00",
            calendar="utc",
            more='\n    steps:units_metadata = "leap_seconds: utc" ;',
        ),
        "  steps = 0, 86401 ; index = 1, 2 ;",
    ),
    "4.4.3 tai": cdl(
        "steps=2",
        _STEPS.format(units="seconds since 1958-01-01 00:00:00", calendar="tai", more=""),
        "  steps = 0, 86400 ; index = 1, 2 ;",
    ),
    "4.4.3 noleap": cdl(
        "steps=2",
        _STEPS.format(units="hours since 0000-02-28 12:00", calendar="noleap", more=""),
        "  steps = 0, 24 ; index = 1, 2 ;",
    ),
}
