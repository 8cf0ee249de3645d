"""Datasets with the features of chapter 2 of the CF conventions and of its appendix L, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

EXAMPLES = {
    "2.1 strings": cdl(
        "name=3 width=6",
        """
  char code(name, width) ;
    code:long_name = "code as characters" ;
  string label(name) ;
    label:long_name = "the same as strings" ;
""",
        """
  code = "alpha", "beta", "gamma" ;
  label = "alpha", "beta", "gamma" ;
""",
    ),
    "2.3 aggregation": cdl(
        "lev lat lon f_lev=1 f_lat=3 f_lon=2 j=3 i=3",
        """
  float humidity ;
    humidity:standard_name = "relative_humidity" ;
    humidity:units = "1" ;
    humidity:aggregated_dimensions = "lev lat lon" ;
    humidity:aggregated_data = "map: sizes uris: places identifiers: names" ;
  int sizes(j, i) ;
  string places(f_lev, f_lat, f_lon) ;
  string names ;
""",
        """
  sizes = 3, _, _, 1, 1, 1, 2, 2, _ ;
  places = "a.nc", "b.nc", "c.nc", "d.nc", "e.nc", "f.nc" ;
  names = "hur" ;
""",
    ),
    "L.1 relative paths": cdl(
        "time=5 lev=1 lat=3 lon=4 f_time=2 one=1 f_lat=1 f_lon=1 j=4 i=2",
        """
  double wind ;
    wind:standard_name = "eastward_wind" ;
    wind:units = "m s-1" ;
    wind:cell_methods = "time: mean" ;
    wind:aggregated_dimensions = "time lev lat lon" ;
    wind:aggregated_data = "uris: places
                            identifiers: names
                            map: sizes" ;
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2011-01-01" ;
    time:calendar = "standard" ;
  double lev(lev) ;
    lev:standard_name = "height_above_mean_sea_level" ;
    lev:units = "m" ;
  double lat(lat) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  double lon(lon) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
  string places(f_time, one, f_lat, f_lon) ;
  string names ;
  int sizes(j, i) ;
""",
        """
  time = 0, 31, 59, 90, 120 ;
  lev = 10 ;
  lat = -30, 0, 30 ;
  lon = 0, 90, 180, 270 ;
  sizes = 2, 3, 1, _, 3, _, 4, _ ;
  places = "winter.nc", "../spring/spring.nc" ;
  names = "u" ;
""",
    ),
    "L.2 absolute places": cdl(
        "time=5 lat lon f_time=2 one=1 other=1 j=3 j_time=1 i=2",
        """
  double wind ;
    wind:standard_name = "eastward_wind" ;
    wind:units = "m s-1" ;
    wind:aggregated_dimensions = "time lat lon" ;
    wind:aggregated_data = "uris: places identifiers: names map: sizes" ;
  double time ;
    time:standard_name = "time" ;
    time:units = "days since 2011-01-01" ;
    time:calendar = "standard" ;
    time:aggregated_dimensions = "time" ;
    time:aggregated_data = "uris: time_places identifiers: time_names map: time_sizes" ;
  string places(f_time, one, other) ;
  string names ;
  int sizes(j, i) ;
  string time_places(f_time) ;
  string time_names(f_time) ;
  int time_sizes(j_time, i) ;
""",
        """
  sizes = 2, 3, 3, _, 4, _ ;
  places = "file:///data/winter.nc", "https://data.example.org/spring.nc" ;
  names = "u" ;
  time_sizes = 2, 3 ;
  time_places = "file:///data/winter.nc", "s3://bucket/spring.nc" ;
  time_names = "time", "t" ;
""",
    ),
    "L.3 several dimensions": cdl(
        "time lat lon f_time=1 f_lat=2 f_lon=2 j=3 i=2",
        """
  float snow ;
    snow:standard_name = "surface_snow_thickness" ;
    snow:units = "m" ;
    snow:aggregated_dimensions = "time lat lon" ;
    snow:aggregated_data = "map: sizes uris: places identifiers: names" ;
  int64 sizes(j, i) ;
  string places(f_time, f_lat, f_lon) ;
  string names ;
""",
        """
  sizes = 2, _, 1, 2, 3, 1 ;
  places = "sw.nc", "se.nc", "nw.nc", "ne.nc" ;
  names = "snd" ;
""",
    ),
    "L.4 station time series": cdl(
        "station=3 obs=12 f_obs=3 f_station=3 j=1 i=3",
        """
  float speed ;
    speed:standard_name = "wind_speed" ;
    speed:units = "m s-1" ;
    speed:coordinates = "time lat lon station_name" ;
    speed:aggregated_dimensions = "obs" ;
    speed:aggregated_data = "map: obs_sizes uris: places identifiers: names" ;
  int row_size(station) ;
    row_size:long_name = "number of observations of each station" ;
    row_size:sample_dimension = "obs" ;
  double time ;
    time:standard_name = "time" ;
    time:units = "hours since 1998-01-01" ;
    time:calendar = "standard" ;
    time:aggregated_dimensions = "obs" ;
    time:aggregated_data = "map: obs_sizes uris: places identifiers: time_names" ;
  float lat ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:aggregated_dimensions = "station" ;
    lat:aggregated_data = "map: station_sizes unique_values: lat_values" ;
  float lon(station) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
  string station_name(station) ;
    station_name:long_name = "name of the station" ;
    station_name:cf_role = "timeseries_id" ;
  int obs_sizes(j, i) ;
  int station_sizes(j, i) ;
  string places(f_obs) ;
  string names(f_obs) ;
  string time_names ;
  float lat_values(f_station) ;
""",
        """
  row_size = 3, 4, 5 ;
  lon = 10, 20, 30 ;
  station_name = "Aldea", "Borgo", "Caserio" ;
  obs_sizes = 3, 4, 5 ;
  station_sizes = 1, 1, 1 ;
  places = "aldea.nc", "borgo.nc", "caserio.nc" ;
  names = "ff", "speed", "wind" ;
  time_names = "time" ;
  lat_values = 41, 42, 43 ;
""",
        attributes=':featureType = "timeSeries" ;',
    ),
    "L.5 unique values": cdl(
        "time=4 f_time=2 j=1 i=2",
        """
  float flux ;
    flux:standard_name = "surface_upward_sensible_heat_flux" ;
    flux:units = "W m-2" ;
    flux:ancillary_variables = "model" ;
    flux:aggregated_dimensions = "time" ;
    flux:aggregated_data = "uris: places identifiers: names map: sizes" ;
  string model ;
    model:long_name = "name of the model" ;
    model:aggregated_dimensions = "time" ;
    model:aggregated_data = "map: sizes unique_values: models" ;
  double time(time) ;
    time:standard_name = "time" ;
    time:units = "days since 2011-01-01" ;
    time:calendar = "standard" ;
  int sizes(j, i) ;
  string places(f_time) ;
  string names ;
  string models(f_time) ;
""",
        """
  time = 0, 1, 2, 3 ;
  sizes = 1, 3 ;
  places = "a.nc", "b.nc" ;
  names = "hfss" ;
  models = "one", "two" ;
""",
    ),
    "L.6 scalar": cdl(
        "",
        """
  float level ;
    level:standard_name = "sea_surface_height_above_geoid" ;
    level:units = "m" ;
    level:aggregated_dimensions = "" ;
    level:aggregated_data = "uris: place identifiers: name map: size" ;
  int size ;
  string place ;
  string name ;
""",
        """
  size = 1 ;
  place = "gauge.nc" ;
  name = "zos" ;
""",
    ),
}
