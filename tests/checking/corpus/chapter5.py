"""Datasets with the features of chapters 5 and 6 of the CF conventions, after the examples there."""

from __future__ import annotations

from tests.checking.corpus.cdl import cdl

__all__ = ["EXAMPLES"]

_LATLON2D = """
  float lat(y, x) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  float lon(y, x) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
"""

_LATLON2D_DATA = "  lat = 50, 50, 50, 51, 51, 51 ; lon = 8, 9, 10, 8, 9, 10 ;\n"

_ROTATED = """
  float rlat(rlat) ;
    rlat:standard_name = "grid_latitude" ;
    rlat:units = "degrees" ;
    rlat:axis = "Y" ;
  float rlon(rlon) ;
    rlon:standard_name = "grid_longitude" ;
    rlon:units = "degrees" ;
    rlon:axis = "X" ;
  float lat(rlat, rlon) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  float lon(rlat, rlon) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
  char pole ;
    pole:grid_mapping_name = "rotated_latitude_longitude" ;
    pole:grid_north_pole_latitude = 39.25 ;
    pole:grid_north_pole_longitude = -162. ;
"""

_ROTATED_DATA = "  rlat = -1, 1 ; rlon = -1, 0, 1 ; lat = 1, 2, 3, 4, 5, 6 ; lon = 1, 2, 3, 4, 5, 6 ;\n"

_UTM = """
  int utm ;
    utm:grid_mapping_name = "transverse_mercator" ;
    utm:semi_major_axis = 6378137. ;
    utm:inverse_flattening = 298.257223563 ;
    utm:longitude_of_prime_meridian = 0. ;
    utm:latitude_of_projection_origin = 0. ;
    utm:longitude_of_central_meridian = 9. ;
    utm:scale_factor_at_central_meridian = 0.9996 ;
    utm:false_easting = 500000. ;
    utm:false_northing = 0. ;
"""

_UTM_WKT = (
    'PROJCRS[\\"WGS 84 / UTM zone 32N\\",'
    'BASEGEODCRS[\\"WGS 84\\",DATUM[\\"World Geodetic System 1984\\",'
    'ELLIPSOID[\\"WGS 84\\",6378137,298.257223563,LENGTHUNIT[\\"metre\\",1.0]]],PRIMEM[\\"Greenwich\\",0]],'
    'CONVERSION[\\"UTM zone 32N\\",METHOD[\\"Transverse Mercator\\"],'
    'PARAMETER[\\"Latitude of natural origin\\",0,ANGLEUNIT[\\"degree\\",0.0174532925199433]],'
    'PARAMETER[\\"Longitude of natural origin\\",9,ANGLEUNIT[\\"degree\\",0.0174532925199433]],'
    'PARAMETER[\\"Scale factor at natural origin\\",0.9996,SCALEUNIT[\\"unity\\",1.0]],'
    'PARAMETER[\\"False easting\\",500000,LENGTHUNIT[\\"metre\\",1.0]],'
    'PARAMETER[\\"False northing\\",0,LENGTHUNIT[\\"metre\\",1.0]]],'
    'CS[Cartesian,2],AXIS[\\"easting (X)\\",east],AXIS[\\"northing (Y)\\",north],'
    'LENGTHUNIT[\\"metre\\",1.0],ID[\\"EPSG\\",32632]]'
)

_WGS84 = """
  int wgs84 ;
    wgs84:grid_mapping_name = "latitude_longitude" ;
    wgs84:longitude_of_prime_meridian = 0. ;
    wgs84:semi_major_axis = 6378137. ;
    wgs84:inverse_flattening = 298.257223563 ;
"""

_WGS84_WKT = (
    'GEODCRS[\\"WGS 84\\",DATUM[\\"World Geodetic System 1984\\",'
    'ELLIPSOID[\\"WGS 84\\",6378137,298.257223563,LENGTHUNIT[\\"metre\\",1.0]]],PRIMEM[\\"Greenwich\\",0],'
    'CS[ellipsoidal,3],AXIS[\\"(lat)\\",north,ANGLEUNIT[\\"degree\\",0.0174532925199433]],'
    'AXIS[\\"(lon)\\",east,ANGLEUNIT[\\"degree\\",0.0174532925199433]],'
    'AXIS[\\"ellipsoidal height (h)\\",up,LENGTHUNIT[\\"metre\\",1.0]]]'
)

_NEWLYN_WKT = (
    'COMPOUNDCRS[\\"UTM 32N + height\\",' + _UTM_WKT + ","
    'VERTCRS[\\"DHHN2016\\",VDATUM[\\"Deutsches Haupthoehennetz 2016\\"],CS[vertical,1],'
    'AXIS[\\"gravity-related height (H)\\",up],LENGTHUNIT[\\"metre\\",1.0],ID[\\"EPSG\\",7837]]]'
)

_MESH = """
  int mesh ;
    mesh:cf_role = "mesh_topology" ;
    mesh:long_name = "topology of the mesh" ;
    mesh:topology_dimension = 2 ;
    mesh:node_coordinates = "mesh_x mesh_y" ;
    mesh:face_node_connectivity = "mesh_faces" ;
    mesh:edge_node_connectivity = "mesh_edges" ;
  double mesh_x(node) ;
    mesh_x:standard_name = "longitude" ;
    mesh_x:units = "degrees_east" ;
  double mesh_y(node) ;
    mesh_y:standard_name = "latitude" ;
    mesh_y:units = "degrees_north" ;
  int mesh_faces(face, four) ;
    mesh_faces:long_name = "the corners of each face" ;
  int mesh_edges(edge, two) ;
    mesh_edges:long_name = "the ends of each edge" ;
"""

_MESH_DATA = """
  mesh_x = 0, 2, 1, 3, 4 ;
  mesh_y = 0, 0, 2, 2, 0 ;
  mesh_faces = 1, 2, 4, 3, 2, 5, 4, _ ;
  mesh_edges = 1, 2, 2, 4, 4, 3, 3, 1, 2, 5, 5, 4 ;
"""

EXAMPLES = {
    "5.1 independent coordinates": cdl(
        "time lev lat lon",
        """
  float wind(time, lev, lat, lon) ;
    wind:long_name = "wind from the south" ;
    wind:units = "m/s" ;
""",
    ),
    "5.2 two-dimensional coordinates": cdl(
        "lev y x",
        """
  float ta(lev, y, x) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:coordinates = "lon lat" ;
"""
        + _LATLON2D,
        _LATLON2D_DATA,
    ),
    "5.3 reduced grid": cdl(
        "londim=4 latdim=3 point=8",
        """
  int point(point) ;
    point:compress = "latdim londim" ;
  float ps(point) ;
    ps:long_name = "pressure at the ground" ;
    ps:units = "Pa" ;
    ps:coordinates = "lon lat" ;
  float lon(point) ;
    lon:long_name = "longitude" ;
    lon:units = "degrees_east" ;
  float lat(point) ;
    lat:long_name = "latitude" ;
    lat:units = "degrees_north" ;
""",
        """
  point = 0, 2, 4, 5, 6, 7, 8, 10 ;
  lon = 0, 180, 0, 90, 180, 270, 0, 180 ;
  lat = -60, -60, 0, 0, 0, 0, 60, 60 ;
""",
    ),
    "5.6 rotated pole": cdl(
        "lev rlat=2 rlon=3",
        """
  float ta(lev, rlat, rlon) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:coordinates = "lon lat" ;
    ta:grid_mapping = "pole" ;
"""
        + _ROTATED,
        _ROTATED_DATA,
    ),
    "5.7 Lambert": cdl(
        "time y x",
        """
  int lambert ;
    lambert:grid_mapping_name = "lambert_conformal_conic" ;
    lambert:standard_parallel = 33., 45. ;
    lambert:longitude_of_central_meridian = 12. ;
    lambert:latitude_of_projection_origin = 39. ;
  float ta(time, y, x) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:missing_value = 9999.0f ;
    ta:coordinates = "lat lon" ;
    ta:grid_mapping = "lambert" ;
"""
        + _LATLON2D,
        _LATLON2D_DATA,
    ),
    "5.8 sphere": cdl(
        "lat lon",
        """
  float ta(lat, lon) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "sphere" ;
  int sphere ;
    sphere:grid_mapping_name = "latitude_longitude" ;
    sphere:semi_major_axis = 6371229. ;
    sphere:inverse_flattening = 0 ;
""",
    ),
    "5.9 WGS 84": cdl(
        "lat lon",
        """
  float ta(lat, lon) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "wgs84" ;
"""
        + _WGS84,
    ),
    "5.10 two grid mappings": cdl(
        "z=2 y x",
        """
  double z(z) ;
    z:standard_name = "height_above_reference_ellipsoid" ;
    z:units = "m" ;
    z:positive = "up" ;
  float ta(z, y, x) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:coordinates = "lat lon" ;
    ta:grid_mapping = "utm: x y wgs84: lat lon" ;
"""
        + _LATLON2D
        + _UTM
        + _WGS84,
        _LATLON2D_DATA + "  z = 10, 100 ;",
    ),
    "5.11 WGS 84 with WKT": cdl(
        "lat lon",
        """
  float ta(lat, lon) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "wgs84: lat lon" ;
"""
        + _WGS84
        + f'    wgs84:crs_wkt = "{_WGS84_WKT}" ;\n',
    ),
    "5.12 compound WKT": cdl(
        "y x",
        """
  float ta(y, x) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:coordinates = "lat lon" ;
    ta:grid_mapping = "utm: x y" ;
"""
        + _LATLON2D
        + _UTM
        + f"""
    utm:projected_crs_name = "WGS 84 / UTM zone 32N" ;
    utm:geographic_crs_name = "WGS 84" ;
    utm:horizontal_datum_name = "WGS_1984" ;
    utm:reference_ellipsoid_name = "WGS 84" ;
    utm:prime_meridian_name = "Greenwich" ;
    utm:towgs84 = 0., 0., 0., 0., 0., 0., 0. ;
    utm:crs_wkt = "{_NEWLYN_WKT}" ;
""",
        _LATLON2D_DATA,
    ),
    "5.13 two grid mappings with WKT": cdl(
        "y x",
        """
  float ta(y, x) ;
    ta:long_name = "temperature" ;
    ta:units = "K" ;
    ta:coordinates = "lat lon" ;
    ta:grid_mapping = "utm: x y wgs84: lat lon" ;
"""
        + _LATLON2D
        + _UTM
        + f'    utm:crs_wkt = "{_UTM_WKT}" ;\n'
        + _WGS84
        + f'    wgs84:crs_wkt = "{_WGS84_WKT}" ;\n',
        _LATLON2D_DATA,
    ),
    "5.14 several forecasts": cdl(
        "time lat lon",
        """
  double start ;
    start:standard_name = "forecast_reference_time" ;
    start:units = "hours since 1999-01-01 00:00" ;
    start:calendar = "standard" ;
  double p850 ;
    p850:long_name = "pressure" ;
    p850:units = "hPa" ;
    p850:positive = "down" ;
  float z(time, lat, lon) ;
    z:standard_name = "geopotential_height" ;
    z:units = "m" ;
    z:coordinates = "start p850" ;
""",
        "  start = 0 ; p850 = 850 ;",
    ),
    "5.15 domain": cdl(
        "time lev lat lon",
        """
  char domain ;
    domain:dimensions = "time lev lat lon" ;
    domain:long_name = "domain of independent coordinates" ;
""",
    ),
    "5.16 rotated domain": cdl(
        "lev rlat=2 rlon=3",
        """
  char domain ;
    domain:dimensions = "lev rlat rlon" ;
    domain:coordinates = "lon lat time" ;
    domain:grid_mapping = "pole" ;
    domain:long_name = "domain with a grid mapping and a scalar coordinate" ;
  double time ;
    time:standard_name = "time" ;
    time:units = "days since 2000-12-01 00:00" ;
    time:calendar = "standard" ;
"""
        + _ROTATED,
        _ROTATED_DATA + "  time = 1 ;",
    ),
    "5.17 domain with areas": cdl(
        "cell=2 time nv=6",
        """
  char domain ;
    domain:dimensions = "time cell" ;
    domain:coordinates = "lon lat" ;
    domain:cell_measures = "area: size" ;
    domain:long_name = "domain with the areas of its cells" ;
  float lon(cell) ;
    lon:long_name = "longitude" ;
    lon:units = "degrees_east" ;
    lon:bounds = "lon_corners" ;
  float lat(cell) ;
    lat:long_name = "latitude" ;
    lat:units = "degrees_north" ;
    lat:bounds = "lat_corners" ;
  float size(cell) ;
    size:standard_name = "cell_area" ;
    size:units = "m2" ;
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
    "5.18 domain without dimensions": cdl(
        "",
        """
  char domain ;
    domain:dimensions = "" ;
    domain:coordinates = "t" ;
    domain:long_name = "domain without dimensions" ;
  double t ;
    t:standard_name = "time" ;
    t:units = "days since 2021-01-01" ;
    t:calendar = "standard" ;
""",
        "  t = 3 ;",
    ),
    "5.19 domain of geometries": cdl(
        "instance=2 node=5 time",
        """
  char domain ;
    domain:dimensions = "instance time" ;
    domain:coordinates = "lat lon" ;
    domain:grid_mapping = "wgs84" ;
    domain:geometry = "rivers" ;
    domain:long_name = "domain with geometries" ;
  double lat(instance) ;
    lat:units = "degrees_north" ;
    lat:standard_name = "latitude" ;
    lat:nodes = "y" ;
  double lon(instance) ;
    lon:units = "degrees_east" ;
    lon:standard_name = "longitude" ;
    lon:nodes = "x" ;
  int rivers ;
    rivers:geometry_type = "line" ;
    rivers:node_count = "counts" ;
    rivers:node_coordinates = "x y" ;
  int counts(instance) ;
  double x(node) ;
    x:units = "degrees_east" ;
    x:standard_name = "longitude" ;
    x:axis = "X" ;
  double y(node) ;
    y:units = "degrees_north" ;
    y:standard_name = "latitude" ;
    y:axis = "Y" ;
"""
        + _WGS84,
        "  lat = 30, 50 ; lon = 10, 60 ; counts = 3, 2 ; x = 30, 10, 40, 50, 50 ; y = 10, 30, 40, 60, 50 ;",
    ),
    "5.20 domain of stations": cdl(
        "station=2 obs=3 width=8",
        """
  char domain ;
    domain:dimensions = "obs" ;
    domain:coordinates = "time lat lon alt name" ;
    domain:long_name = "domain of a discrete sampling geometry" ;
  float lon(station) ;
    lon:standard_name = "longitude" ;
    lon:units = "degrees_east" ;
  float lat(station) ;
    lat:standard_name = "latitude" ;
    lat:units = "degrees_north" ;
  float alt(station) ;
    alt:standard_name = "height" ;
    alt:units = "m" ;
    alt:positive = "up" ;
    alt:axis = "Z" ;
  char name(station, width) ;
    name:long_name = "name of the station" ;
    name:cf_role = "timeseries_id" ;
  int which(obs) ;
    which:long_name = "the station of each observation" ;
    which:instance_dimension = "station" ;
  double time(obs) ;
    time:standard_name = "time" ;
    time:units = "days since 1970-01-01 00:00:00" ;
    time:calendar = "standard" ;
""",
        '  lon = 1, 2 ; lat = 3, 4 ; alt = 2, 2 ; name = "north", "south" ; which = 0, 1, 0 ; time = 0, 0, 1 ;',
        attributes=':featureType = "timeSeries" ;',
    ),
    "5.21 mesh": cdl(
        "node=5 edge=6 face=2 two=2 four=4 time",
        _MESH
        + """
  double rho(time, face) ;
    rho:standard_name = "air_density" ;
    rho:units = "kg m-3" ;
    rho:mesh = "mesh" ;
    rho:location = "face" ;
  double flow(time, edge) ;
    flow:standard_name = "northward_wind" ;
    flow:units = "m s-1" ;
    flow:mesh = "mesh" ;
    flow:location = "edge" ;
  double zos(time, node) ;
    zos:standard_name = "sea_surface_height_above_geoid" ;
    zos:units = "m" ;
    zos:mesh = "mesh" ;
    zos:location = "node" ;
""",
        _MESH_DATA,
        version="CF-1.13 UGRID-1.0",
    ),
    "5.22 mesh domain": cdl(
        "node=5 edge=6 face=2 two=2 four=4",
        """
  char domain ;
    domain:dimensions = "face" ;
    domain:mesh = "mesh" ;
    domain:location = "face" ;
    domain:long_name = "domain of a mesh" ;
"""
        + _MESH,
        _MESH_DATA,
        version="CF-1.13, UGRID-1.0",
    ),
    "6.1 region": cdl(
        "time lat lbl=2",
        """
  float transport(time, lat, lbl) ;
    transport:standard_name = "northward_ocean_heat_transport" ;
    transport:units = "W" ;
    transport:coordinates = "basin" ;
  string basin(lbl) ;
    basin:standard_name = "region" ;
""",
        '  basin = "atlantic_ocean", "pacific_ocean" ;',
    ),
    "6.1.2 taxa": cdl(
        "time width=80 taxon=2",
        """
  float abundance(time, taxon) ;
    abundance:standard_name = "number_concentration_of_biological_taxon_in_sea_water" ;
    abundance:units = "m-3" ;
    abundance:coordinates = "lsid taxon_name" ;
  char taxon_name(taxon, width) ;
    taxon_name:standard_name = "biological_taxon_name" ;
  char lsid(taxon, width) ;
    lsid:standard_name = "biological_taxon_lsid" ;
""",
        """
  taxon_name = "Calanus finmarchicus", "Calanus helgolandicus" ;
  lsid = "urn:lsid:marinespecies.org:taxname:104464", "urn:lsid:marinespecies.org:taxname:104466" ;
""",
    ),
    "6.2 model levels": cdl(
        "sigma=2 lat",
        """
  float wind(sigma, lat) ;
    wind:long_name = "wind from the west" ;
    wind:units = "m s-1" ;
    wind:coordinates = "number" ;
  float sigma(sigma) ;
    sigma:long_name = "height as a share of the whole" ;
    sigma:positive = "down" ;
    sigma:units = "1" ;
  int number(sigma) ;
    number:long_name = "number of the model level" ;
    number:positive = "up" ;
""",
        "  sigma = 0.2, 0.8 ; number = 2, 1 ;",
    ),
    "F healpix": cdl(
        "cell=3",
        """
  int64 cell(cell) ;
    cell:standard_name = "healpix_index" ;
  int hp ;
    hp:grid_mapping_name = "healpix" ;
    hp:indexing_scheme = "nested" ;
    hp:refinement_level = 1 ;
  float ta(cell) ;
    ta:standard_name = "air_temperature" ;
    ta:units = "K" ;
    ta:grid_mapping = "hp" ;
""",
        "  cell = 0, 5, 47 ;",
    ),
}
