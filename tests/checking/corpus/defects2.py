"""Datasets with one defect each: chapters 1 and 2 of the CF conventions."""

from __future__ import annotations

from tests.checking.corpus.defect import Defect as D

__all__ = ["DEFECTS"]

_TAS = 'tas:long_name = "temperature near the ground" ;'

DEFECTS = [
    # 2.2 text
    D("DOC002", "grid", ':comment = "no comment" ;', ':comment = "cafe\u0301" ;'),
    D(
        "DOC002",
        "6.1 region",
        'basin = "atlantic_ocean", "pacific_ocean" ;',
        'basin = "oce\u0301an", "b" ;',
        ("NAM005",),
    ),
    D("DOC003", "grid", _TAS, 'string tas:long_name = "temperature", "near the ground" ;'),
    D("DOC003", "grid", ':comment = "no comment" ;', 'string :comment = "a", "b" ;', ("DOC012",)),
    # 2.3 names
    D(
        "DOC004",
        "3.3 instrument data",
        "float ozone(time) ;",
        'float 3x(time) ;\n    3x:long_name = "x" ; 3x:units = "1" ;\n  float ozone(time) ;',
    ),
    D("DOC004", "grid", _TAS, _TAS + ' tas:my\\ note = "x" ;'),
    D("DOC004", "2.1 strings", "width = 6 ;", "width = 6 ;\n  a.b = 2 ;"),
    D(
        "DOC005",
        "3.3 instrument data",
        "float ozone(time) ;",
        'float Ozone(time) ;\n    Ozone:long_name = "x" ; Ozone:units = "1" ;\n  float ozone(time) ;',
    ),
    # 2.4 dimensions
    D("DOC006", "grid", "float area(lat, lon) ;", "float area(lon, lon) ;"),
    D("DOC007", "grid", "float ta(time, lev, lat, lon) ;", "float ta(time, lon, lat, lev) ;"),
    D(
        "DOC007",
        "5.1 independent coordinates",
        "float wind(time, lev, lat, lon) ;",
        "float wind(lev, time, lat, lon) ;",
    ),
    D(
        "DOC008",
        "7.7 over land and sea",
        "float flux(surface, lat, lon) ;",
        "float flux(lat, lon, surface) ;",
        more=(('"CF-1.13"', '"CF-1.13 COARDS"'),),
    ),
    D(
        "DOC009",
        "2.1 strings",
        "string label(name) ;",
        "string name(name) ;",
        more=(("label:long_name", "name:long_name"), ("  label = ", "  name = ")),
    ),
    # 2.5.1 missing data and ranges
    D(
        "DAT001",
        "8.1 packed",
        "ta:valid_range = -10000s, 10000s ;",
        "ta:valid_range = -10000s, 10000s ; ta:valid_min = -10000s ;",
    ),
    D(
        "DAT001",
        "3.5 flag values",
        "wind_qc:valid_range = 0b, 2b ;",
        "wind_qc:valid_range = 0b, 2b ; wind_qc:valid_max = 2b ;",
    ),
    D("DAT002", "grid", "tas:_FillValue = -999.f ;", "double tas:_FillValue = -999. ;"),
    D("DAT003", "grid", "tas:missing_value = -999.f ;", "tas:missing_value = -999 ;"),
    D("DAT003", "8.1 packed", "ta:missing_value = -32767s ;", "ta:missing_value = -32767.f ;"),
    D("DAT004", "grid", "tas:actual_range = 270.f, 290.f ;", "tas:actual_range = 270., 290. ;"),
    D(
        "DAT004",
        "8.1 packed",
        "ta:actual_range = 272.15f, 275.15f ;",
        "ta:actual_range = -100s, 200s ;",
        ("DAT005", "DAT007"),
    ),
    D("DAT005", "grid", "tas:actual_range = 270.f, 290.f ;", "tas:actual_range = 270.f, 289.f ;"),
    D("DAT005", "grid", "tas:actual_range = 270.f, 290.f ;", "tas:actual_range = 270.f ;"),
    D("DAT005", "8.1 packed", "ta:actual_range = 272.15f, 275.15f ;", "ta:actual_range = 272.25f, 275.15f ;"),
    D(
        "DAT006",
        "5.1 independent coordinates",
        'wind:units = "m/s" ;',
        'wind:units = "m/s" ; wind:actual_range = 1.f, 2.f ;',
    ),
    D("DAT007", "grid", "tas:valid_max = 400.f ;", "tas:valid_max = 280.f ;", ("DAT005",)),
    D("DAT008", "grid", "tas:valid_min = 100.f ;", "tas:valid_min = -1000.f ;"),
    D("DAT008", "3.5 flag values", "wind_qc:_FillValue = -127b ;", "wind_qc:_FillValue = 2b ;"),
    D("DAT009", "grid", "tas:missing_value = -999.f ;", "tas:missing_value = -998.f ;"),
    # 2.6
    D("DOC010", "grid", ':Conventions = "CF-1.13" ;', ""),
    D("DOC010", "grid", ':Conventions = "CF-1.13" ;', ':Conventions = "COARDS" ;'),
    D("DOC010", "grid", ':Conventions = "CF-1.13" ;', ":Conventions = 1.13 ;"),
    D("DOC011", "grid", ':Conventions = "CF-1.13" ;', ':Conventions = "CF-1.99" ;'),
    D("DOC012", "grid", ':title = "a clean grid" ;', ":title = 5 ;"),
    D("DOC012", "grid", ':history = "made for a test" ;', ":history = 2026 ;"),
    D("DOC012", "grid", _TAS, _TAS + " tas:comment = 1.5 ;"),
    D("DOC013", "grid", _TAS, _TAS + ' tas:history = "averaged" ;'),
    D("DOC013", "grid", _TAS, _TAS + ' tas:title = "temperature" ;'),
    D(
        "DOC014",
        "external",
        ':external_variables = "areacella volcella" ;',
        ":external_variables = 1, 2 ;",
        ("CEL001", "GRP004"),
    ),
    D("DOC015", "grid", ':title = "a clean grid" ;', ':title = "a clean grid" ; :external_variables = "area" ;'),
    # 2.7 groups
    D("GRP001", "groups", "group: shared {", 'group: shared {\n  :Conventions = "CF-1.13" ;'),
    D("GRP001", "groups", "group: shared {", 'group: shared {\n  :external_variables = "x" ;'),
    D(
        "GRP002",
        "groups",
        "group: shared {\n  variables:",
        "group: shared {\n  dimensions:\n    lat = 3 ;\n  variables:",
    ),
    D("GRP003", "groups", "area: ../shared/area", "area: ..\\\\shared\\\\area", ("CEL001", "GRP004")),
    D(
        "GRP004",
        "groups",
        'tas:ancillary_variables = "/shared/quality" ;',
        'tas:ancillary_variables = "/shared/flags" ;',
        ("ANC001",),
    ),
    D(
        "GRP004",
        "groups",
        'tas:ancillary_variables = "/shared/quality" ;',
        'tas:ancillary_variables = "quality" ;',
        ("ANC001", "GRP007"),
    ),
    D("GRP008", "groups", "float area(lat) ;\n", 'float area(lat) ;\n      area:coordinates = "lon" ;\n', ("COO010",)),
    # 2.8 aggregation
    D(
        "AGG001",
        "2.3 aggregation",
        'humidity:aggregated_dimensions = "lev lat lon" ;',
        "humidity:aggregated_dimensions = 3 ;",
        ("AGG006", "AGG017"),
    ),
    D(
        "AGG002",
        "2.3 aggregation",
        'humidity:aggregated_dimensions = "lev lat lon" ;',
        'humidity:aggregated_dimensions = "lev lat longitude" ;',
    ),
    D("AGG003", "L.5 unique values", "float flux ;", "float flux(time) ;"),
    D("AGG004", "2.3 aggregation", "uris: places identifiers: names", "uris: places"),
    D("AGG004", "2.3 aggregation", "uris: places identifiers: names", "uris: places identifiers: variable_names"),
    D("AGG004", "2.3 aggregation", "uris: places identifiers: names", "location: places identifiers: names"),
    D("AGG004", "L.5 unique values", 'model:aggregated_data = "map: sizes unique_values: models" ;', ""),
    D("AGG004", "L.6 scalar", "map: size", "map size"),
    D(
        "AGG005",
        "2.3 aggregation",
        "string places(f_lev, f_lat, f_lon) ;",
        "int places(f_lev, f_lat, f_lon) ;",
        more=(('"a.nc", "b.nc", "c.nc", "d.nc", "e.nc", "f.nc"', "1, 2, 3, 4, 5, 6"),),
    ),
    D(
        "AGG006",
        "L.2 absolute places",
        "string places(f_time, one, other) ;",
        "string places(f_time, one) ;",
        ("AGG007",),
    ),
    D("AGG007", "2.3 aggregation", "f_lat = 3 ;", "f_lat = 2 ;", more=((', "e.nc", "f.nc"', ""),)),
    D("AGG008", "2.3 aggregation", '"c.nc", "d.nc"', "_, _", ("AGG009",)),
    D("AGG009", "2.3 aggregation", '"c.nc"', '"/data/c.nc"'),
    D("AGG009", "L.6 scalar", '"gauge.nc"', '"#gauge"'),
    D("AGG010", "L.2 absolute places", "string names ;", "string names(one) ;"),
    D("AGG011", "L.4 station time series", 'names = "ff", "speed", "wind" ;', 'names = "ff", _, "wind" ;'),
    D(
        "AGG012",
        "L.4 station time series",
        "float lat_values(f_station) ;",
        "float lat_values ;",
        more=(("lat_values = 41, 42, 43 ;", "lat_values = 41 ;"),),
    ),
    D("AGG013", "L.5 unique values", "string models(f_time) ;", "string models(time) ;"),
    D("AGG014", "2.3 aggregation", "int sizes(j, i) ;", "float sizes(j, i) ;"),
    D("AGG015", "L.6 scalar", "size = 1 ;", "size = 2 ;"),
    D(
        "AGG016",
        "L.5 unique values",
        "int sizes(j, i) ;",
        "int sizes(i) ;",
    ),
    D("AGG017", "2.3 aggregation", "  j = 3 ;", "  j = 4 ;"),
    D("AGG018", "2.3 aggregation", "sizes = 3, _, _, 1, 1, 1, 2, 2, _ ;", "sizes = 3, _, _, 1, 1, 1, 2, 1, _ ;"),
    D("AGG018", "L.5 unique values", "sizes = 1, 3 ;", "sizes = 1, 4 ;"),
    D(
        "AGG019",
        "5.9 WGS 84",
        "  int wgs84 ;",
        """  int one ;
  int value ;
  int wgs84 ;
    wgs84:aggregated_dimensions = "" ;
    wgs84:aggregated_data = "map: one unique_values: value" ;""",
        more=(("data:", "data:\n  one = 1 ; value = 0 ;"),),
    ),
    D(
        "AGG019",
        "5.18 domain without dimensions",
        "  char domain ;",
        """  int one ;
  char value ;
  char domain ;
    domain:aggregated_dimensions = "" ;
    domain:aggregated_data = "map: one unique_values: value" ;""",
        more=(("data:", 'data:\n  one = 1 ; value = "a" ;'),),
    ),
]
