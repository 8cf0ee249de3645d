"""Clean datasets with features that the examples of the CF conventions do not show, or not together."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

EXAMPLES = {
    "grid": cdl(
        "nv=2 time=3 lev=2 lat=2 lon=3",
        """
  double time(time) ;
    time:standard_name = "time" ;
    time:long_name = "time" ;
    time:units = "days since 2001-01-01 00:00:00" ;
    time:calendar = "standard" ;
    time:axis = "T" ;
    time:bounds = "time_bnds" ;
  double time_bnds(time, nv) ;
  float lev(lev) ;
    lev:standard_name = "air_pressure" ;
    lev:long_name = "pressure" ;
    lev:units = "hPa" ;
    lev:positive = "down" ;
    lev:axis = "Z" ;
  float lat(lat) ;
    lat:standard_name = "latitude" ;
    lat:long_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:axis = "Y" ;
    lat:bounds = "lat_bnds" ;
  float lat_bnds(lat, nv) ;
  float lon(lon) ;
    lon:standard_name = "longitude" ;
    lon:long_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:axis = "X" ;
    lon:bounds = "lon_bnds" ;
  float lon_bnds(lon, nv) ;
  double height ;
    height:standard_name = "height" ;
    height:long_name = "height above the ground" ;
    height:units = "m" ;
    height:positive = "up" ;
  float area(lat, lon) ;
    area:standard_name = "cell_area" ;
    area:long_name = "area of the cells" ;
    area:units = "m2" ;
  float tas(time, lat, lon) ;
    tas:standard_name = "air_temperature" ;
    tas:long_name = "temperature near the ground" ;
    tas:units = "K" ;
    tas:units_metadata = "temperature: on_scale" ;
    tas:coordinates = "height" ;
    tas:cell_methods = "time: mean (interval: 1 hour) area: mean" ;
    tas:cell_measures = "area: area" ;
    tas:ancillary_variables = "tas_qc" ;
    tas:_FillValue = -999.f ;
    tas:missing_value = -999.f ;
    tas:valid_min = 100.f ;
    tas:valid_max = 400.f ;
    tas:actual_range = 270.f, 290.f ;
  byte tas_qc(time, lat, lon) ;
    tas_qc:standard_name = "quality_flag" ;
    tas_qc:long_name = "quality of the temperature" ;
    tas_qc:flag_values = 0b, 1b, 2b ;
    tas_qc:flag_meanings = "good doubtful bad" ;
  float ta(time, lev, lat, lon) ;
    ta:standard_name = "air_temperature" ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:units_metadata = "temperature: on_scale" ;
    ta:cell_methods = "time: mean lev: point area: mean" ;
    ta:cell_measures = "area: area" ;
""",
        """
  time = 0.5, 1.5, 2.5 ; time_bnds = 0, 1, 1, 2, 2, 3 ;
  lev = 1000, 500 ;
  lat = -45, 45 ; lat_bnds = -90, 0, 0, 90 ;
  lon = 60, 180, 300 ; lon_bnds = 0, 120, 120, 240, 240, 360 ;
  height = 2 ;
  area = 1, 1, 1, 1, 1, 1 ;
  tas = 270, 271, 272, 273, 274, 275, 276, 277, 278, 279, 280, 281, 282, 283, 284, 285, 290, _ ;
  tas_qc = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2 ;
""",
        attributes="""
:title = "a clean grid" ;
:history = "made for a test" ;
:institution = "an institute" ;
:source = "numbers" ;
:references = "none" ;
:comment = "no comment" ;
""",
    ),
    "external": cdl(
        "time lat lon",
        """
  float tas(time, lat, lon) ;
    tas:standard_name = "air_temperature" ;
    tas:units = "K" ;
    tas:cell_measures = "area: areacella volume: volcella" ;
""",
        attributes=':external_variables = "areacella volcella" ;',
    ),
    "groups": cdl(
        "time lat",
        "",
        groups="""
group: model {
  dimensions:
    lon = 2 ;
  variables:
    float lon(lon) ;
      lon:standard_name = "longitude" ;
      lon:units = "degrees_east" ;
      lon:axis = "X" ;
    float tas(time, lat, lon) ;
      tas:standard_name = "air_temperature" ;
      tas:units = "K" ;
      tas:coordinates = "height" ;
      tas:cell_measures = "area: ../shared/area" ;
      tas:ancillary_variables = "/shared/quality" ;
    double height ;
      height:standard_name = "height" ;
      height:units = "m" ;
      height:positive = "up" ;
  data:
    lon = 0, 180 ; height = 2 ;
}
group: shared {
  variables:
    float area(lat) ;
      area:standard_name = "cell_area" ;
      area:units = "m2" ;
    byte quality(time, lat) ;
      quality:standard_name = "quality_flag" ;
      quality:flag_values = 0b, 1b ;
      quality:flag_meanings = "good bad" ;
  data:
    area = 1, 1, 1 ; quality = 0, 0, 0, 0, 0, 0 ;
}
""",
    ),
    "hybrid": cdl(
        "time lev=2 lat lon",
        """
  float lev(lev) ;
    lev:long_name = "hybrid level" ;
    lev:positive = "down" ;
    lev:standard_name = "atmosphere_hybrid_sigma_pressure_coordinate" ;
    lev:formula_terms = "ap: ap b: b ps: ps" ;
    lev:computed_standard_name = "air_pressure" ;
  float ap(lev) ;
    ap:long_name = "first coefficient" ;
    ap:units = "Pa" ;
  float b(lev) ;
    b:long_name = "second coefficient" ;
    b:units = "1" ;
  float ps(time, lat, lon) ;
    ps:standard_name = "surface_air_pressure" ;
    ps:units = "Pa" ;
  float ta(time, lev, lat, lon) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
""",
        "  lev = 0.3, 0.8 ; ap = 20000, 10000 ; b = 0.1, 0.7 ;",
    ),
    "ocean_sigma_z": cdl(
        "time lev=4 lat lon",
        """
  float lev(lev) ;
    lev:long_name = "level" ;
    lev:positive = "up" ;
    lev:units = "m" ;
    lev:standard_name = "ocean_sigma_z_coordinate" ;
    lev:formula_terms = "sigma: sigma eta: eta depth: depth depth_c: depth_c zlev: zlev" ;
  float sigma(lev) ;
    sigma:standard_name = "ocean_sigma_coordinate" ;
    sigma:units = "1" ;
    sigma:_FillValue = -9.f ;
  float zlev(lev) ;
    zlev:standard_name = "altitude" ;
    zlev:units = "m" ;
    zlev:_FillValue = -9.f ;
  float eta(time, lat, lon) ;
    eta:standard_name = "sea_surface_height_above_geoid" ;
    eta:units = "m" ;
  float depth(lat, lon) ;
    depth:standard_name = "sea_floor_depth_below_geoid" ;
    depth:units = "m" ;
  float depth_c ;
    depth_c:long_name = "where sigma ends" ;
    depth_c:units = "m" ;
  float so(time, lev, lat, lon) ;
    so:standard_name = "sea_water_practical_salinity" ;
    so:units = "1" ;
""",
        """
  lev = -50, -100, -200, -300 ; sigma = -0.5, -1, _, _ ; zlev = _, _, -200, -300 ; depth_c = 100 ;
  depth = 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500 ;
""",
    ),
    "utc": cdl(
        "time=2",
        """
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "seconds since 2016-12-31 00:00:00" ;
    time:calendar = "utc" ;
    time:axis = "T" ;
  float signal(time) ;
    signal:long_name = "signal" ;
    signal:units = "1" ;
""",
        "  time = 0, 86401 ; signal = 1, 2 ;",
    ),
    "label": cdl(
        "station=2 width=8",
        """
  float rain(station) ;
    rain:long_name = "rain" ;
    rain:units = "mm" ;
    rain:coordinates = "name code" ;
  char name(station, width) ;
    name:long_name = "name" ;
  string code(station) ;
    code:long_name = "code" ;
""",
        '  name = "north", "south" ; code = "N", "S" ; rain = 1, 2 ;',
    ),
    "polar": cdl(
        "y x",
        """
  int crs ;
    crs:grid_mapping_name = "polar_stereographic" ;
    crs:longitude_of_projection_origin = -45. ;
    crs:latitude_of_projection_origin = 90. ;
    crs:standard_parallel = 70. ;
    crs:false_easting = 0. ;
    crs:false_northing = 0. ;
    crs:semi_major_axis = 6378273. ;
    crs:inverse_flattening = 298.279411123061 ;
    crs:reference_ellipsoid_name = "Hughes 1980" ;
    crs:prime_meridian_name = "Greenwich" ;
    crs:horizontal_datum_name = "unknown" ;
    crs:geographic_crs_name = "NSIDC" ;
    crs:projected_crs_name = "NSIDC north" ;
  byte ice(y, x) ;
    ice:standard_name = "sea_ice_area_fraction" ;
    ice:units = "1" ;
    ice:scale_factor = 0.01f ;
    ice:grid_mapping = "crs" ;
""",
    ),
    "equal area": cdl(
        "y x",
        """
  int crs ;
    crs:grid_mapping_name = "lambert_cylindrical_equal_area" ;
    crs:longitude_of_central_meridian = 0. ;
    crs:standard_parallel = 30. ;
    crs:false_easting = 0. ;
    crs:false_northing = 0. ;
  float ice(y, x) ;
    ice:standard_name = "sea_ice_area_fraction" ;
    ice:units = "1" ;
    ice:grid_mapping = "crs" ;
""",
    ),
    "healpix of many levels": cdl(
        "cell=3",
        """
  int64 cell(cell) ;
    cell:standard_name = "healpix_index" ;
  int hp ;
    hp:grid_mapping_name = "healpix" ;
    hp:indexing_scheme = "nuniq" ;
  float ta(cell) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "hp" ;
""",
        "  cell = 4, 5, 16 ;",
    ),
    "reduced Gaussian": cdl(
        "lat=4 point=8",
        """
  int point(point) ;
    point:standard_name = "reduced_gaussian_index" ;
  float lat(lat) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  int counts(lat) ;
    counts:long_name = "points on each latitude" ;
    counts:units = "1" ;
  char grid ;
    grid:grid_mapping_name = "reduced_gaussian" ;
    grid:grid_subtype = "normal" ;
    grid:latitude_dimension = "lat" ;
    grid:points_per_latitude = "counts" ;
  float ta(point) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "grid" ;
""",
        "  point = 1, 2, 3, 4, 5, 6, 7, 8 ; lat = 59.4, 19.9, -19.9, -59.4 ; counts = 4, 8, 8, 4 ;",
        version="CF-1.14-draft",
    ),
}
