"""Datasets with anomalies, section 7.5 of the CF conventions, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_DAYS = """
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2023-07-16" ;
    time:bounds = "time_bounds" ;
    time:calendar = "standard" ;
  double time_bounds(time, two) ;
"""

_NORMAL = """
  double normal ;
    normal:standard_name = "time" ;
    normal:units = "days since 1990-01-01" ;
    normal:{bounds} = "normal_bounds" ;
    normal:calendar = "standard" ;
  double normal_bounds(two) ;
"""

_ANOMALY = """
  float anomaly(time, lat, lon) ;
    anomaly:standard_name = "air_temperature" ;
    anomaly:units = "degC" ;
    anomaly:units_metadata = "temperature: difference" ;
    anomaly:cell_methods = "time: maximum time: anomaly_wrt norm" ;
    anomaly:coordinates = "normal" ;
    anomaly:ancillary_variables = "norm" ;
"""

_NORM_DATA = """
  float norm(lat, lon) ;
    norm:standard_name = "air_temperature" ;
    norm:units = "degC" ;
    norm:units_metadata = "temperature: on_scale" ;
    norm:coordinates = "normal" ;
    norm:cell_methods = "normal: mean" ;
"""

_DATA = """
  time = 0.5, 1.5 ; time_bounds = 0, 1, 1, 2 ;
"""

_MONTHS = """
  float anomaly(time, lat, lon) ;
    anomaly:standard_name = "air_temperature" ;
    anomaly:units = "degC" ;
    anomaly:units_metadata = "temperature: difference" ;
    anomaly:cell_methods = "time: maximum time: anomaly_wrt norm" ;
    anomaly:ancillary_variables = "norm" ;
  int norm(time) ;
    norm:coordinates = "month" ;
    norm:cell_methods = "normal: mean within years normal: mean over years" ;
  int month(time) ;
    month:long_name = "which month of the climatology" ;
    month:select = "normal" ;
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2023-06-01" ;
    time:bounds = "time_bounds" ;
    time:calendar = "standard" ;
  double time_bounds(time, two) ;
  double normal(normal) ;
    normal:standard_name = "time" ;
    normal:units = "days since 1990-01-01" ;
    normal:climatology = "normal_bounds" ;
    normal:calendar = "standard" ;
  double normal_bounds(normal, two) ;
"""

EXAMPLES = {
    "7.15 norm is a mean": cdl(
        "time=2 lat lon two=2",
        _ANOMALY
        + _NORM_DATA
        + _DAYS
        + _NORMAL.format(bounds="bounds")
        + """
  float tas(time, lat, lon) ;
    tas:standard_name = "air_temperature" ;
    tas:units = "degC" ;
    tas:units_metadata = "temperature: on_scale" ;
    tas:cell_methods = "time: maximum" ;
""",
        _DATA + "  normal = 5478.5 ; normal_bounds = 0, 10957 ;",
    ),
    "7.15 norm is a climatology": cdl(
        "time=2 normal=1 lat lon two=2",
        """
  float anomaly(time, normal, lat, lon) ;
    anomaly:standard_name = "air_temperature" ;
    anomaly:units = "degC" ;
    anomaly:units_metadata = "temperature: difference" ;
    anomaly:cell_methods = "time: maximum time: anomaly_wrt norm" ;
    anomaly:ancillary_variables = "norm" ;
  float norm(normal, lat, lon) ;
    norm:standard_name = "air_temperature" ;
    norm:units = "degC" ;
    norm:units_metadata = "temperature: on_scale" ;
    norm:cell_methods = "normal: mean within years normal: mean over years" ;
  double normal(normal) ;
    normal:standard_name = "time" ;
    normal:units = "days since 1990-01-01" ;
    normal:climatology = "normal_bounds" ;
    normal:calendar = "standard" ;
  double normal_bounds(normal, two) ;
"""
        + _DAYS,
        _DATA + "  normal = 196 ; normal_bounds = 181, 10773 ;",
    ),
    "7.15 norm is a climatology with a scalar": cdl(
        "time=2 lat lon two=2",
        _ANOMALY
        + _NORM_DATA.replace("normal: mean", "normal: mean within years normal: mean over years")
        + _DAYS
        + _NORMAL.format(bounds="climatology"),
        _DATA + "  normal = 196 ; normal_bounds = 181, 10773 ;",
    ),
    "7.16 norm without data": cdl(
        "time=2 lat lon two=2",
        _ANOMALY
        + """
  int norm ;
    norm:coordinates = "normal" ;
    norm:cell_methods = "normal: mean" ;
    norm:_FillValue = -999 ;
"""
        + _DAYS
        + _NORMAL.format(bounds="bounds"),
        _DATA + "  norm = _ ; normal = 5478.5 ; normal_bounds = 0, 10957 ;",
    ),
    "7.16 climatology without data": cdl(
        "time=2 lat lon two=2",
        _ANOMALY
        + """
  int norm ;
    norm:coordinates = "normal" ;
    norm:cell_methods = "normal: mean within years normal: mean over years" ;
    norm:_FillValue = -999 ;
"""
        + _DAYS
        + _NORMAL.format(bounds="climatology"),
        _DATA + "  norm = _ ; normal = 196 ; normal_bounds = 181, 10773 ;",
    ),
    "7.17 zonal mean": cdl(
        "time lat lon zonal=1 two=2",
        """
  float flux(time, lat, lon, zonal) ;
    flux:standard_name = "toa_net_downward_radiative_flux" ;
    flux:units = "W m-2" ;
    flux:cell_methods = "time: mean lat: mean lon: anomaly_wrt zm" ;
    flux:ancillary_variables = "zm" ;
  int zm(zonal) ;
    zm:cell_methods = "zonal: mean" ;
    zm:_FillValue = -999 ;
  float zonal(zonal) ;
    zonal:standard_name = "longitude" ;
    zonal:units = "degrees_E" ;
    zonal:bounds = "zonal_bounds" ;
  float zonal_bounds(zonal, two) ;
""",
        "  zm = _ ; zonal = -165 ; zonal_bounds = -240, -90 ;",
    ),
    "7.18 lowest in an area": cdl(
        "y x two=2",
        """
  float height(y, x) ;
    height:standard_name = "surface_altitude" ;
    height:units = "m" ;
    height:cell_methods = "area: anomaly_wrt lowest" ;
    height:coordinates = "across along" ;
    height:ancillary_variables = "lowest" ;
    height:grid_mapping = "utm" ;
  int utm ;
    utm:grid_mapping_name = "transverse_mercator" ;
    utm:latitude_of_projection_origin = 0. ;
    utm:longitude_of_central_meridian = 9. ;
    utm:scale_factor_at_central_meridian = 0.9996 ;
    utm:false_easting = 500000. ;
    utm:false_northing = 0. ;
  float lowest ;
    lowest:coordinates = "across along" ;
    lowest:cell_methods = "area: minimum" ;
    lowest:_FillValue = -999.f ;
  float across ;
    across:standard_name = "projection_x_coordinate" ;
    across:units = "m" ;
    across:bounds = "across_bounds" ;
  float across_bounds(two) ;
  float along ;
    along:standard_name = "projection_y_coordinate" ;
    along:units = "m" ;
    along:bounds = "along_bounds" ;
  float along_bounds(two) ;
""",
        """
  lowest = _ ;
  across = 1000 ; across_bounds = 0, 2000 ;
  along = 500 ; along_bounds = 0, 1000 ;
""",
    ),
    "7.19 norm of each month": cdl(
        "time=4 normal=12 lat lon two=2",
        _MONTHS,
        """
  time = 15, 45, 381, 411 ; time_bounds = 0, 30, 30, 61, 366, 396, 396, 427 ;
  month = 5, 6, 5, 6 ;
  normal = 15, 45, 74, 105, 135, 166, 196, 227, 258, 288, 319, 349 ;
  normal_bounds = 0, 10623, 31, 10651, 59, 10682, 90, 10712, 120, 10743, 151, 10773, 181, 10804, 212, 10835,
    243, 10865, 273, 10896, 304, 10926, 334, 10957 ;
""",
    ),
    "7.19 norm of some months": cdl(
        "time=4 normal=2 lat lon two=2",
        _MONTHS,
        """
  time = 15, 45, 381, 411 ; time_bounds = 0, 30, 30, 61, 366, 396, 396, 427 ;
  month = 0, 1, 0, 1 ;
  normal = 165, 196 ;
  normal_bounds = 151, 10773, 181, 10804 ;
""",
    ),
    "7.20 reference epoch": cdl(
        "time=2 lat lon two=2",
        """
  float anomaly(time, lat, lon) ;
    anomaly:standard_name = "air_temperature_anomaly" ;
    anomaly:units = "degC" ;
    anomaly:units_metadata = "temperature: difference" ;
    anomaly:coordinates = "epoch" ;
    anomaly:cell_methods = "time: maximum" ;
  double epoch ;
    epoch:standard_name = "reference_epoch" ;
    epoch:units = "days since 1990-1-1" ;
    epoch:bounds = "epoch_bounds" ;
    epoch:calendar = "standard" ;
  double epoch_bounds(two) ;
"""
        + _DAYS,
        _DATA + "  epoch = 5478.5 ; epoch_bounds = 0, 10957 ;",
    ),
    "7.21 means of an epoch": cdl(
        "time=2 lat lon two=2",
        """
  float tas(time, lat, lon) ;
    tas:standard_name = "air_temperature" ;
    tas:units = "degC" ;
    tas:units_metadata = "temperature: on_scale" ;
    tas:cell_methods = "time: maximum" ;
  float normal(lat, lon) ;
    normal:standard_name = "air_temperature" ;
    normal:units = "degC" ;
    normal:units_metadata = "temperature: on_scale" ;
    normal:coordinates = "epoch" ;
    normal:cell_methods = "epoch: mean" ;
  double epoch ;
    epoch:standard_name = "reference_epoch" ;
    epoch:units = "days since 1990-1-1" ;
    epoch:bounds = "epoch_bounds" ;
    epoch:calendar = "standard" ;
  double epoch_bounds(two) ;
"""
        + _DAYS,
        _DATA + "  epoch = 5478.5 ; epoch_bounds = 0, 10957 ;",
    ),
    "7.21 means of a month": cdl(
        "time=2 july=1 lat lon two=2",
        """
  float tas(time, lat, lon) ;
    tas:standard_name = "air_temperature" ;
    tas:units = "degC" ;
    tas:units_metadata = "temperature: on_scale" ;
    tas:cell_methods = "time: maximum" ;
  float normal(july, lat, lon) ;
    normal:standard_name = "air_temperature" ;
    normal:units = "degC" ;
    normal:units_metadata = "temperature: on_scale" ;
    normal:cell_methods = "july: mean within years july: mean over years" ;
  double july(july) ;
    july:standard_name = "reference_epoch" ;
    july:units = "days since 1990-1-1" ;
    july:climatology = "july_bounds" ;
    july:calendar = "standard" ;
  double july_bounds(july, two) ;
"""
        + _DAYS,
        _DATA + "  july = 196 ; july_bounds = 181, 10804 ;",
    ),
}
