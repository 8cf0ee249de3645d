"""Anomalies and their norms: the forms that the text describes, and what is wrong with others."""

from __future__ import annotations

import pytest

from cfagg.checking.explaining import explanations
from tests.checking.rules.asking import codes, findings

AREA = """netcdf relief {
dimensions: y = 2 ; x = 2 ; two = 2 ;
variables:
  double y(y) ; y:standard_name = "projection_y_coordinate" ; y:units = "km" ; y:axis = "Y" ;
  double x(x) ; x:standard_name = "projection_x_coordinate" ; x:units = "km" ; x:axis = "X" ;
  float relief(y, x) ; relief:standard_name = "surface_altitude" ; relief:units = "m" ;
    relief:cell_methods = "NAMES anomaly_wrt lowest" ; relief:coordinates = "xrange yrange" ;
    relief:ancillary_variables = "lowest" ;
  float lowest ; lowest:_FillValue = -9.f ; lowest:coordinates = "xrange yrange" ; lowest:cell_methods = "OWN minimum" ;
  float xrange ; xrange:standard_name = "projection_x_coordinate" ; xrange:units = "km" ; xrange:bounds = "xb" ;
  float xb(two) ;
  float yrange ; yrange:standard_name = "projection_y_coordinate" ; yrange:units = "km" ; yrange:bounds = "yb" ;
  float yb(two) ;
:Conventions = "CF-1.13" ; }"""

ZONAL = """netcdf zonal {
dimensions: time = 2 ; lat = 2 ; lon = 2 ; zm = 1 ; two = 2 ;
variables:
  float r(time, lat, lon, zm) ; r:standard_name = "toa_net_downward_radiative_flux" ; r:units = "W m-2" ;
    r:cell_methods = "time: mean NAME: anomaly_wrt norm" ; r:ancillary_variables = "norm" ;
  double time(time) ; time:standard_name = "time" ; time:units = "days since 2000-01-01" ;
  float lat(lat) ; lat:standard_name = "latitude" ; lat:units = "degrees_N" ;
  float lon(lon) ; lon:standard_name = "longitude" ; lon:units = "degrees_E" ;
  int norm(zm) ; norm:_FillValue = -9 ; norm:cell_methods = "zm: mean" ;
  float zm(zm) ; zm:standard_name = "longitude" ; zm:units = "degrees_E" ; zm:bounds = "zb" ;
  float zb(zm, two) ;
:Conventions = "CF-1.13" ; }"""


@pytest.mark.parametrize("names", ["area:", "x: y:", "projection_y_coordinate: projection_x_coordinate:"])
@pytest.mark.parametrize("own", ["area:", "xrange: yrange:"])
def test_an_area_may_be_named_in_several_ways(names: str, own: str) -> None:
    assert codes(AREA.replace("NAMES", names).replace("OWN", own), "ANO", data=False) == []


def test_methods_one_by_one_are_not_those_of_an_area() -> None:
    text = AREA.replace("NAMES", "area:").replace("OWN", "xrange: minimum yrange:")
    assert "ANO010" in codes(text, "ANO", data=False)


@pytest.mark.parametrize("name", ["lon", "longitude"])
def test_a_zonal_norm_with_a_dimension_of_size_one(name: str) -> None:
    assert codes(ZONAL.replace("NAME", name), "ANO", data=False) == []


@pytest.mark.parametrize(
    ("change", "code", "where"),
    [
        (("lon, zm) ; r:", "lon) ; r:"), "ANO009", "r"),
        (('"zm: mean"', '"zm: mean within years zm: mean over years"'), "ANO009", "zm"),
        (("norm:_FillValue = -9 ;", ""), "ANO007", "norm"),
    ],
)
def test_what_the_chapter_alone_asks_of_a_norm_is_a_warning(change: tuple[str, str], code: str, where: str) -> None:
    text = ZONAL.replace("NAME", "lon")
    assert codes(text, "ANO", data=False) == []
    found = findings(text.replace(*change), "ANO", data=False)
    assert [(f.code, f.severity, f.variable) for f in found] == [(code, "warning", where)]


def test_a_name_that_is_no_coordinate() -> None:
    assert codes(ZONAL.replace("NAME", "height"), "ANO", data=False) == ["ANO002"]


@pytest.mark.parametrize(
    "change",
    [('select = "month"', 'select = "nothing"'), ('select = "month"', 'select = "lat"'), ("select =", "chosen =")],
)
def test_a_norm_that_selects_nothing_is_told_once(change: tuple[str, str]) -> None:
    text = explanations()["ANO013"]["passes"].replace(*change)
    assert text != explanations()["ANO013"]["passes"]
    assert {f.code for f in findings(text) if f.severity == "error"} == {"ANO013"}


@pytest.mark.parametrize(("index", "expected"), [("_", []), ("2", ["ANO013"])])
def test_an_index_of_a_selected_time_may_be_missing_but_not_beyond_the_last(index: str, expected: list[str]) -> None:
    text = explanations()["ANO013"]["passes"].replace("which = 0, 1, 0, 1 ;", f"which = 0, {index}, 0, 1 ;")
    assert codes(text, "ANO") == expected


def test_the_climatology_may_have_bounds_as_in_the_example_of_the_text() -> None:
    text = explanations()["ANO013"]["passes"].replace("month:climatology", "month:bounds")
    assert {f for f in codes(text) if f.startswith("ANO")} == {"ANO013"}


def test_a_norm_that_is_the_variable_itself_is_told_and_ends() -> None:
    text = ZONAL.replace("NAME", "lon").replace("anomaly_wrt norm", "anomaly_wrt r")
    assert codes(text, "ANO", data=False) == ["ANO001"]


def test_there_are_no_anomalies_before_1_13() -> None:
    text = ZONAL.replace("NAME", "lon").replace('ancillary_variables = "norm"', 'ancillary_variables = ""')
    assert codes(text, "ANO", data=False, cf_version="1.12") == []


def test_data_are_not_their_own_norm() -> None:
    text = ZONAL.replace("NAME", "lon").replace("anomaly_wrt norm", "anomaly_wrt r").replace('s = "norm"', 's = "r"')
    (found,) = findings(text, "ANO001", data=False)
    assert found.message == "the norm 'r' is the data variable itself; name the variable of the norm"


@pytest.mark.parametrize("own", ["zm", "/zm", "../zm"])
def test_the_norm_in_a_group_names_its_coordinates_by_path(own: str) -> None:
    norm = next(line for line in ZONAL.splitlines() if line.startswith("  int norm"))
    text = ZONAL.replace("NAME", "lon").replace(norm, "").replace("anomaly_wrt norm", "anomaly_wrt /g/norm")
    text = text.replace('ancillary_variables = "norm"', 'ancillary_variables = "/g/norm"')
    group = f"group: g {{ variables: {norm.replace('zm: mean', f'{own}: mean')} }}"
    assert codes(text.replace(" }", f" {group} }}") if text.endswith(" }") else text, "ANO", data=False) == []


@pytest.mark.parametrize("time", ["month", "/month"])
def test_the_norm_of_a_climatology_names_its_times_by_path(time: str) -> None:
    text = explanations()["ANO013"]["passes"]
    said = "month: mean within years month: mean over years"
    assert said in text
    assert codes(text.replace(said, said.replace("month", time)), "ANO", data=False) == []
