"""Datasets of discrete sampling geometries, after the examples of appendix H of the CF conventions."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_TIME = """
  double time({}) ;
    time:standard_name = "time" ;
    time:long_name = "time of measurement" ;
    time:units = "days since 1970-01-01 00:00:00" ;
    time:calendar = "standard" ;
"""
_PLACE = """
  float lon({0}) ;
    lon:standard_name = "longitude" ;
    lon:long_name = "longitude" ;
    lon:units = "degrees_east" ;
  float lat({0}) ;
    lat:standard_name = "latitude" ;
    lat:long_name = "latitude" ;
    lat:units = "degrees_north" ;
"""
_HEIGHT = """
  float alt({}) ;
    alt:standard_name = "height" ;
    alt:long_name = "height above the ground" ;
    alt:units = "m" ;
    alt:positive = "up" ;
    alt:axis = "Z" ;
"""
_ALTITUDE = """
  float z({}) ;
    z:standard_name = "altitude" ;
    z:long_name = "height above mean sea level" ;
    z:units = "km" ;
    z:positive = "up" ;
    z:axis = "Z" ;
"""
_NAME = """
  string name({}) ;
    name:long_name = "name of the station" ;
    name:cf_role = "timeseries_id" ;
"""
_CHARS = """
  char name({}) ;
    name:long_name = "name of the station" ;
    name:cf_role = "timeseries_id" ;
"""
_ID = """
  int {0}({1}) ;
    {0}:cf_role = "{0}_id" ;
    {0}:long_name = "identity" ;
"""
_DATA = """
  float hus({0}) ;
    hus:standard_name = "specific_humidity" ;
    hus:units = "1" ;
    hus:coordinates = "{1}" ;
    hus:_FillValue = -999.9f ;
  float ta({0}) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "Celsius" ;
    ta:coordinates = "{1}" ;
    ta:_FillValue = -999.9f ;
"""
_COUNT = """
  int row_size({0}) ;
    row_size:long_name = "number of observations of each {0}" ;
    row_size:sample_dimension = "obs" ;
"""
_INDEX = """
  int which(obs) ;
    which:long_name = "the {0} of each observation" ;
    which:instance_dimension = "{0}" ;
"""

_STATIONS = '  lon = 10, 20 ; lat = 50, 60 ; alt = 2, 2 ; name = "north", "south" ;\n'
_PROFILES = "  profile = 1, 2 ; time = 0, 1 ; lon = 10, 20 ; lat = 50, 60 ;\n"
_ALONG = "  time = 0, 1, 2, 3, 4 ; lon = 1, 2, 3, 4, 5 ; lat = 1, 2, 3, 4, 5 ; z = 1, 2, 3, 4, 5 ;\n"


def _feature(kind: str) -> str:
    return f':featureType = "{kind}" ;'


EXAMPLES = {
    "H.1 points": cdl(
        "obs=3",
        _TIME.format("obs") + _PLACE.format("obs") + _HEIGHT.format("obs") + _DATA.format("obs", "time lat lon alt"),
        "  time = 0, 1, 5 ; lon = 1, 2, 3 ; lat = 1, 2, 3 ; alt = 2, 2, 2 ;",
        attributes=_feature("point"),
    ),
    "H.2 time series, orthogonal": cdl(
        "station=2 time=3",
        _DATA.format("station, time", "lat lon alt name")
        + _TIME.format("time")
        + _PLACE.format("station")
        + _HEIGHT.format("station")
        + _NAME.format("station"),
        _STATIONS + "  time = 0, 1, 2 ;",
        attributes=_feature("timeSeries"),
    ),
    "H.3 time series, incomplete": cdl(
        "station=2 obs=3 width=8",
        _PLACE.format("station")
        + _HEIGHT.format("station")
        + _CHARS.format("station, width")
        + """
  int info(station) ;
    info:long_name = "anything about the station" ;
  float elevation(station) ;
    elevation:standard_name = "surface_altitude" ;
    elevation:units = "m" ;
"""
        + _TIME.format("station, obs")
        + "    time:missing_value = -999.9 ;\n"
        + _DATA.format("station, obs", "time lat lon alt name"),
        _STATIONS + "  time = 0, 1, 2, 0, 1, -999.9 ; elevation = 100, 200 ;",
        attributes=_feature("timeSeries"),
    ),
    "H.4 one time series": cdl(
        "time=3",
        _PLACE.format("").replace("()", "")
        + _HEIGHT.format("").replace("()", "")
        + _NAME.format("").replace("()", "")
        + _TIME.format("time")
        + _DATA.format("time", "lat lon alt name"),
        '  lon = 10 ; lat = 50 ; alt = 2 ; name = "north" ; time = 0, 1, 2 ;',
        attributes=_feature("timeSeries"),
    ),
    "H.5 time series with precise positions": cdl(
        "time=3 width=8 deployment=2",
        """
  float lon ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:axis = "X" ;
  float lat ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:axis = "Y" ;
  float precise_lon(time) ;
    precise_lon:standard_name = "longitude" ;
    precise_lon:units = "degrees_east" ;
  float precise_lat(time) ;
    precise_lat:standard_name = "latitude" ;
    precise_lat:units = "degrees_north" ;
  float deploy_lon(deployment) ;
    deploy_lon:standard_name = "deployment_longitude" ;
    deploy_lon:units = "degrees_east" ;
  float deploy_lat(deployment) ;
    deploy_lat:standard_name = "deployment_latitude" ;
    deploy_lat:units = "degrees_north" ;
  int deployment(deployment) ;
    deployment:long_name = "the first time of each deployment" ;
    deployment:compress = "time" ;
"""
        + _HEIGHT.format("").replace("()", "")
        + _CHARS.format("width")
        + _TIME.format("time")
        + _DATA.format("time", "time lat lon alt precise_lon precise_lat deploy_lon deploy_lat name"),
        """
  lon = 10 ; lat = 50 ; alt = 2 ; name = "buoy" ; time = 0, 1, 2 ;
  deployment = 0, 2 ;
  precise_lon = 10, 10, 10 ; precise_lat = 50, 50, 50 ; deploy_lon = 10, 10 ; deploy_lat = 50, 50 ;
""",
        attributes=_feature("timeSeries"),
    ),
    "H.6 time series, contiguous": cdl(
        "station=2 obs=5",
        _PLACE.format("station")
        + _HEIGHT.format("station")
        + _NAME.format("station")
        + _COUNT.format("station")
        + _TIME.format("obs")
        + _DATA.format("obs", "time lat lon alt name"),
        _STATIONS + "  row_size = 2, 3 ; time = 0, 1, 0, 1, 2 ;",
        attributes=_feature("timeSeries"),
    ),
    "H.7 time series, indexed": cdl(
        "station=2 obs=5 width=8",
        _PLACE.format("station")
        + _HEIGHT.format("station")
        + _CHARS.format("station, width")
        + _INDEX.format("station")
        + _TIME.format("obs")
        + _DATA.format("obs", "time lat lon alt name"),
        _STATIONS + "  which = 0, 1, 0, 1, 1 ; time = 0, 0, 1, 1, 2 ;",
        attributes=_feature("timeSeries"),
    ),
    "H.8 profiles, orthogonal": cdl(
        "z=3 profile=2",
        _ID.format("profile", "profile")
        + _TIME.format("profile")
        + _PLACE.format("profile")
        + _ALTITUDE.format("z")
        + _DATA.format("profile, z", "time lon lat z"),
        _PROFILES + "  z = 1, 2, 3 ;",
        attributes=_feature("profile"),
    ),
    "H.9 one profile": cdl(
        "z=3",
        (_ID.format("profile", "") + _TIME.format("") + _PLACE.format("")).replace("()", "")
        + _ALTITUDE.format("z")
        + _DATA.format("z", "time lon lat z"),
        "  profile = 1 ; time = 0 ; lon = 10 ; lat = 50 ; z = 1, 2, 3 ;",
        attributes=_feature("profile"),
    ),
    "H.10 profiles, contiguous": cdl(
        "obs=5 profile=2",
        _ID.format("profile", "profile")
        + _TIME.format("profile")
        + _PLACE.format("profile")
        + _COUNT.format("profile")
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z"),
        _PROFILES + "  row_size = 2, 3 ; z = 1, 2, 1, 2, 3 ;",
        attributes=_feature("profile"),
    ),
    "H.11 profiles, indexed": cdl(
        "obs=5 profile=2",
        _ID.format("profile", "profile")
        + _TIME.format("profile")
        + _PLACE.format("profile")
        + _INDEX.format("profile")
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z"),
        _PROFILES + "  which = 0, 1, 0, 1, 1 ; z = 1, 1, 2, 2, 3 ;",
        attributes=_feature("profile"),
    ),
    "H.12 trajectories, incomplete": cdl(
        "obs=3 ship=2",
        """
  string trajectory(ship) ;
    trajectory:cf_role = "trajectory_id" ;
    trajectory:long_name = "name of the ship" ;
  int info(ship) ;
    info:long_name = "anything about the ship" ;
"""
        + _TIME.format("ship, obs")
        + _PLACE.format("ship, obs")
        + _ALTITUDE.format("ship, obs")
        + _DATA.format("ship, obs", "time lon lat z"),
        """
  trajectory = "Meteor", "Sonne" ;
  time = 0, 1, 2, 0, 1, 2 ; lon = 1, 2, 3, 4, 5, 6 ; lat = 1, 2, 3, 4, 5, 6 ; z = 1, 2, 3, 4, 5, 6 ;
""",
        attributes=_feature("trajectory"),
    ),
    "H.13 one trajectory": cdl(
        "time=5 width=8",
        """
  char trajectory(width) ;
    trajectory:cf_role = "trajectory_id" ;
    trajectory:long_name = "name of the ship" ;
"""
        + _TIME.format("time")
        + _PLACE.format("time")
        + _ALTITUDE.format("time")
        + _DATA.format("time", "time lon lat z"),
        '  trajectory = "Meteor" ;\n' + _ALONG,
        attributes=_feature("trajectory"),
    ),
    "H.14 trajectories, contiguous": cdl(
        "obs=5 trajectory=2",
        _ID.format("trajectory", "trajectory")
        + _COUNT.format("trajectory")
        + _TIME.format("obs")
        + _PLACE.format("obs")
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z"),
        "  trajectory = 1, 2 ; row_size = 2, 3 ;\n" + _ALONG,
        attributes=_feature("trajectory"),
    ),
    "H.15 trajectories, indexed": cdl(
        "obs=5 trajectory=2 width=8",
        """
  char trajectory(trajectory, width) ;
    trajectory:cf_role = "trajectory_id" ;
    trajectory:long_name = "name of the ship" ;
"""
        + _INDEX.format("trajectory")
        + _TIME.format("obs")
        + _PLACE.format("obs")
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z"),
        '  trajectory = "Meteor", "Sonne" ; which = 0, 1, 0, 1, 1 ;\n' + _ALONG,
        attributes=_feature("trajectory"),
    ),
    "H.16 time series of profiles": cdl(
        "station=2 profile=2 z=2",
        _PLACE.format("station")
        + _NAME.format("station")
        + _ALTITUDE.format("station, profile, z").replace(" z(", " alt(").replace(" z:", " alt:")
        + _TIME.format("station, profile")
        + "    time:missing_value = -999.9 ;\n"
        + _DATA.format("station, profile, z", "time lon lat alt name"),
        """
  lon = 10, 20 ; lat = 50, 60 ; name = "north", "south" ;
  alt = 1, 2, 1, 2, 1, 2, 1, 2 ; time = 0, 1, 0, 1 ;
""",
        attributes=_feature("timeSeriesProfile"),
    ),
    "H.17 time series of profiles, orthogonal": cdl(
        "station=2 lev time",
        _PLACE.format("station") + _NAME.format("station") + _DATA.format("time, lev, station", "lat lon name"),
        '  lon = 10, 20 ; lat = 50, 60 ; name = "north", "south" ;',
        attributes=_feature("timeSeriesProfile"),
    ),
    "H.18 time series of profiles at one station": cdl(
        "profile=2 z=2 width=8",
        _PLACE.format("").replace("()", "")
        + _CHARS.format("width")
        + _ALTITUDE.format("profile, z").replace(" z(", " alt(").replace(" z:", " alt:")
        + _TIME.format("profile")
        + "    time:missing_value = -999.9 ;\n"
        + _DATA.format("profile, z", "time lon lat alt name"),
        '  lon = 10 ; lat = 50 ; name = "north" ; alt = 1, 2, 1, 2 ; time = 0, 1 ;',
        attributes=_feature("timeSeriesProfile"),
    ),
    "H.19 time series of profiles, ragged": cdl(
        "obs=5 profile=2 station=2",
        _PLACE.format("station")
        + _HEIGHT.format("station")
        + _NAME.format("station")
        + _ID.format("profile", "profile")
        + _TIME.format("profile")
        + _COUNT.format("profile")
        + """
  int station_index(profile) ;
    station_index:long_name = "the station of each profile" ;
    station_index:instance_dimension = "station" ;
"""
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z name"),
        _STATIONS + "  profile = 1, 2 ; time = 0, 1 ; row_size = 2, 3 ; station_index = 0, 1 ; z = 1, 2, 1, 2, 3 ;",
        attributes=_feature("timeSeriesProfile"),
    ),
    "H.20 profiles along trajectories": cdl(
        "trajectory=2 profile=2 z=2",
        _ID.format("trajectory", "trajectory")
        + _PLACE.format("trajectory, profile")
        + _ALTITUDE.format("trajectory, profile, z").replace(" z(", " alt(").replace(" z:", " alt:")
        + _TIME.format("trajectory, profile")
        + "    time:missing_value = -999.9 ;\n"
        + _DATA.format("trajectory, profile, z", "time lon lat alt"),
        """
  trajectory = 1, 2 ; lon = 1, 2, 3, 4 ; lat = 1, 2, 3, 4 ; time = 0, 1, 0, 1 ; alt = 1, 2, 1, 2, 1, 2, 1, 2 ;
""",
        attributes=_feature("trajectoryProfile"),
    ),
    "H.21 profiles along one trajectory": cdl(
        "profile=2 z=2",
        _ID.format("trajectory", "").replace("()", "")
        + _PLACE.format("profile")
        + _ALTITUDE.format("profile, z").replace(" z(", " alt(").replace(" z:", " alt:")
        + _TIME.format("profile")
        + "    time:missing_value = -999.9 ;\n"
        + _DATA.format("profile, z", "time lon lat alt"),
        "  trajectory = 1 ; lon = 1, 2 ; lat = 1, 2 ; time = 0, 1 ; alt = 1, 2, 1, 2 ;",
        attributes=_feature("trajectoryProfile"),
    ),
    "H.22 profiles along trajectories, ragged": cdl(
        "obs=5 trajectory=2 profile=2",
        _ID.format("trajectory", "trajectory")
        + _TIME.format("profile")
        + _PLACE.format("profile")
        + _COUNT.format("profile")
        + """
  int trajectory_index(profile) ;
    trajectory_index:long_name = "the trajectory of each profile" ;
    trajectory_index:instance_dimension = "trajectory" ;
"""
        + _ALTITUDE.format("obs")
        + _DATA.format("obs", "time lon lat z"),
        """
  trajectory = 1, 2 ; trajectory_index = 0, 1 ; row_size = 2, 3 ;
  time = 0, 1 ; lon = 1, 2 ; lat = 1, 2 ; z = 1, 2, 1, 2, 3 ;
""",
        attributes=_feature("trajectoryProfile"),
    ),
}
