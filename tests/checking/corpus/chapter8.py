"""Datasets with geometries (section 7.6) and those of chapter 8 of the CF conventions, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_GEOMETRY_AXES = """
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2000-01-01" ;
    time:calendar = "standard" ;
  double lat(instance) ;
    lat:units = "degrees_north" ;
    lat:standard_name = "latitude" ;
    lat:nodes = "y" ;
  double lon(instance) ;
    lon:units = "degrees_east" ;
    lon:standard_name = "longitude" ;
    lon:nodes = "x" ;
  int datum ;
    datum:grid_mapping_name = "latitude_longitude" ;
    datum:longitude_of_prime_meridian = 0. ;
    datum:semi_major_axis = 6378137. ;
    datum:inverse_flattening = 298.257223563 ;
  double x(node) ;
    x:units = "degrees_east" ;
    x:standard_name = "longitude" ;
    x:axis = "X" ;
  double y(node) ;
    y:units = "degrees_north" ;
    y:standard_name = "latitude" ;
    y:axis = "Y" ;
  double flow(instance, time) ;
    flow:long_name = "flow" ;
    flow:units = "m3 s-1" ;
    flow:coordinates = "time lat lon" ;
    flow:grid_mapping = "datum" ;
    flow:geometry = "shapes" ;
"""

_TIES = """
  float ta({dims}) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:coordinate_interpolation = "{interpolation}" ;
  double lat({ties}) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  double lon({ties}) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
"""

EXAMPLES = {
    "7.22 lines": cdl(
        "instance=2 node=5 time=2",
        _GEOMETRY_AXES
        + """
  int shapes ;
    shapes:geometry_type = "line" ;
    shapes:node_count = "counts" ;
    shapes:node_coordinates = "x y" ;
  int counts(instance) ;
""",
        """
  time = 1, 2 ; lat = 30, 50 ; lon = 10, 60 ; flow = 1, 2, 3, 4 ;
  counts = 3, 2 ;
  x = 30, 10, 40, 50, 50 ; y = 10, 30, 40, 60, 50 ;
""",
        attributes=':featureType = "timeSeries" ;',
    ),
    "7.23 polygons with holes": cdl(
        "instance=2 node=12 part=4 time=2",
        _GEOMETRY_AXES
        + """
  int shapes ;
    shapes:geometry_type = "polygon" ;
    shapes:node_count = "counts" ;
    shapes:node_coordinates = "x y" ;
    shapes:grid_mapping = "datum" ;
    shapes:coordinates = "lat lon" ;
    shapes:part_node_count = "part_counts" ;
    shapes:interior_ring = "holes" ;
  int counts(instance) ;
  int part_counts(part) ;
  int holes(part) ;
""",
        """
  time = 1, 2 ; lat = 25, 7 ; lon = 10, 40 ; flow = 1, 2, 3, 4 ;
  counts = 9, 3 ; part_counts = 3, 3, 3, 3 ; holes = 0, 1, 0, 0 ;
  x = 20, 10, 0, 5, 10, 15, 20, 10, 0, 50, 40, 30 ;
  y = 0, 15, 0, 5, 10, 5, 20, 35, 20, 0, 15, 0 ;
""",
        attributes=':featureType = "timeSeries" ;',
    ),
    "7.6 points": cdl(
        "instance=3 time=2",
        _GEOMETRY_AXES.replace("(node)", "(instance)")
        + """
  int shapes ;
    shapes:geometry_type = "point" ;
    shapes:node_coordinates = "x y" ;
""",
        """
  time = 1, 2 ; lat = 1, 2, 3 ; lon = 1, 2, 3 ; flow = 1, 2, 3, 4, 5, 6 ;
  x = 1, 2, 3 ; y = 1, 2, 3 ;
""",
        attributes=':featureType = "timeSeries" ;',
    ),
    "8.1 gathered in two dimensions": cdl(
        "lat lon land=4 depth=2",
        """
  int land(land) ;
    land:compress = "lat lon" ;
  float soil(depth, land) ;
    soil:long_name = "temperature of the soil" ;
    soil:units = "K" ;
  float depth(depth) ;
    depth:standard_name = "depth" ;
    depth:units = "m" ;
    depth:positive = "down" ;
""",
        "  land = 0, 3, 7, 11 ; depth = 0.1, 1 ;",
    ),
    "8.2 gathered in three dimensions": cdl(
        "time depth=2 lat lon ocean=5",
        """
  float salt(time, ocean) ;
    salt:standard_name = "sea_water_practical_salinity" ;
    salt:units = "1" ;
    salt:coordinates = "area" ;
  int ocean(ocean) ;
    ocean:compress = "depth lat lon" ;
  float depth(depth) ;
    depth:standard_name = "depth" ;
    depth:units = "m" ;
    depth:positive = "down" ;
  float area(lat, lon) ;
    area:long_name = "size of the boxes" ;
    area:units = "m2" ;
""",
        "  ocean = 0, 1, 5, 12, 23 ; depth = 1, 10 ;",
    ),
    "8.3 tie points in two dimensions": cdl(
        "xc=30 yc=10 tx=4 ty=2",
        _TIES.format(dims="yc, xc", ties="ty, tx", interpolation="lat: lon: plane")
        + """
  char plane ;
    plane:interpolation_name = "bi_linear" ;
    plane:tie_point_mapping = "xc: columns tx yc: rows ty" ;
    plane:computational_precision = "64" ;
  int columns(tx) ;
  int rows(ty) ;
""",
        """
  columns = 0, 9, 19, 29 ; rows = 0, 9 ;
  lat = 1, 1, 1, 1, 2, 2, 2, 2 ; lon = 1, 2, 3, 4, 1, 2, 3, 4 ;
""",
    ),
    "8.4 tie points in one dimension": cdl(
        "xc=30 yc=2 tx=4",
        _TIES.format(dims="yc, xc", ties="yc, tx", interpolation="lat: lon: line")
        + """
  char line ;
    line:interpolation_name = "linear" ;
    line:tie_point_mapping = "xc: columns tx" ;
    line:computational_precision = "64" ;
  int columns(tx) ;
""",
        """
  columns = 0, 9, 19, 29 ;
  lat = 1, 1, 1, 1, 2, 2, 2, 2 ; lon = 1, 2, 3, 4, 1, 2, 3, 4 ;
""",
    ),
    "8.5 several interpolations": cdl(
        "track=8 scan=12 tt=4 ts=3 area_track=2 area_scan=2 ends=2",
        _TIES.format(dims="track, scan", ties="tt, ts", interpolation="lat: lon: swath t: clock")
        + """
  char swath ;
    swath:interpolation_name = "bi_quadratic_latitude_longitude" ;
    swath:tie_point_mapping = "track: track_index tt area_track scan: scan_index ts area_scan" ;
    swath:interpolation_parameters =
      "ce1: ce1 ca2: ca2 ce3: ce3 interpolation_subarea_flags: subarea_flags" ;
    swath:computational_precision = "32" ;
  short ce1(tt, area_scan) ;
  short ca2(area_track, ts) ;
  short ce3(area_track, area_scan) ;
  byte subarea_flags(area_track, area_scan) ;
    subarea_flags:valid_range = 1b, 7b ;
    subarea_flags:flag_masks = 1b, 2b, 4b ;
    subarea_flags:flag_meanings =
      "location_use_3d_cartesian sensor_direction_use_3d_cartesian solar_direction_use_3d_cartesian" ;
  int track_index(tt) ;
  int scan_index(ts) ;
  int clock_index(ends) ;
  char clock ;
    clock:interpolation_name = "bi_linear" ;
    clock:tie_point_mapping = "track: track_index tt scan: clock_index ends" ;
    clock:computational_precision = "64" ;
  double t(tt, ends) ;
    t:standard_name = "time" ;
    t:units = "seconds since 1990-1-1 0:0:0" ;
    t:calendar = "standard" ;
""",
        """
  track_index = 0, 3, 4, 7 ; scan_index = 0, 6, 11 ; clock_index = 0, 11 ;
  subarea_flags = 1, 1, 1, 1 ;
  t = 0, 1, 2, 3, 4, 5, 6, 7 ;
""",
    ),
    "8.6 interpolation and grid mapping": cdl(
        "time yc=8 xc=9 ty=3 tx=3",
        """
  float ta(time, yc, xc) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "lambert" ;
    ta:coordinate_interpolation = "lat: lon: plane x: along y: across" ;
  int lambert ;
    lambert:grid_mapping_name = "lambert_conformal_conic" ;
    lambert:standard_parallel = 25. ;
    lambert:longitude_of_central_meridian = 265. ;
    lambert:latitude_of_projection_origin = 25. ;
  char plane ;
    plane:interpolation_name = "bi_linear" ;
    plane:tie_point_mapping = "yc: rows ty xc: columns tx" ;
    plane:computational_precision = "64" ;
  char along ;
    along:interpolation_name = "linear" ;
    along:tie_point_mapping = "xc: columns tx" ;
    along:computational_precision = "64" ;
  char across ;
    across:interpolation_name = "linear" ;
    across:tie_point_mapping = "yc: rows ty" ;
    across:computational_precision = "64" ;
  double y(time, ty) ;
    y:standard_name = "projection_y_coordinate" ;
    y:units = "km" ;
  double x(time, tx) ;
    x:standard_name = "projection_x_coordinate" ;
    x:units = "km" ;
  double lat(time, ty, tx) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  double lon(time, ty, tx) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
  int rows(ty) ;
    rows:long_name = "rows of the tie points" ;
  int columns(tx) ;
    columns:long_name = "columns of the tie points" ;
""",
        "  rows = 0, 4, 7 ; columns = 0, 4, 8 ;",
    ),
    "8.7 bounds at tie points": cdl(
        "ic=10 it=3 jc=10 jt=3",
        _TIES.format(dims="jc, ic", ties="jt, it", interpolation="lat: lon: plane")
        + """
    lat:bounds_tie_points = "lat_bounds" ;
    lon:bounds_tie_points = "lon_bounds" ;
  char plane ;
    plane:interpolation_name = "bi_linear" ;
    plane:tie_point_mapping = "ic: columns it jc: rows jt" ;
    plane:computational_precision = "64" ;
  int columns(it) ;
  int rows(jt) ;
  double lat_bounds(jt, it) ;
  double lon_bounds(jt, it) ;
""",
        """
  columns = 0, 4, 9 ; rows = 0, 4, 9 ;
  lat = 1, 1, 1, 2, 2, 2, 3, 3, 3 ; lon = 1, 2, 3, 1, 2, 3, 1, 2, 3 ;
  lat_bounds = 0, 0, 0, 2, 2, 2, 4, 4, 4 ; lon_bounds = 0, 2, 4, 0, 2, 4, 0, 2, 4 ;
""",
    ),
    "8.8 quantized by the netCDF library": cdl(
        "time lat lon",
        """
  char how ;
    how:algorithm = "bitround" ;
    how:implementation = "libnetcdf version 4.9.2" ;
  float ps(time, lat, lon) ;
    ps:_QuantizeBitRoundNumberOfSignificantBits = 9 ;
    ps:quantization = "how" ;
    ps:quantization_nsb = 9 ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "Pa" ;
""",
    ),
    "8.9 quantized by a tool": cdl(
        "time lat lon",
        """
  char how ;
    how:algorithm = "granular_bitround" ;
    how:implementation = "NCO version 5.2.7 (with defaults)" ;
  float ps(time, lat, lon) ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "Pa" ;
    ps:quantization = "how" ;
    ps:quantization_nsd = 4 ;
  float ts(time) ;
    ts:standard_name = "surface_temperature" ;
    ts:units = "K" ;
    ts:quantization = "how" ;
    ts:quantization_nsd = 3 ;
""",
    ),
    "8.1 packed": cdl(
        "time lat lon",
        """
  short ta(time, lat, lon) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:scale_factor = 0.01f ;
    ta:add_offset = 273.15f ;
    ta:_FillValue = -32767s ;
    ta:missing_value = -32767s ;
    ta:valid_range = -10000s, 10000s ;
    ta:actual_range = 272.15f, 275.15f ;
""",
        """
  ta = -100, 0, 100, 200, -100, 0, 100, 200, -100, 0, 100, 200,
    _, 0, 100, 200, -100, 0, 100, 200, -100, 0, 100, 200 ;
""",
    ),
}
