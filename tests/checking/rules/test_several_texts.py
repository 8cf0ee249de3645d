"""Attributes that hold several texts where one is expected: one rule tells of them since CF-1.12."""

from __future__ import annotations

import pytest

from cfagg.findings.finding import Finding
from cfagg.formats.cdl.parsing import parse_cdl
from cfagg.model.dataset import Dataset
from tests.checking.rules.asking import findings


def _dataset(version: str = "CF-1.13") -> Dataset:
    return parse_cdl(f"""netcdf a {{
    dimensions: lat = 2 ; time = 2 ;
    variables:
      double time(time) ; time:standard_name = "time" ; time:units = "days since 2000-01-01" ;
        time:calendar = "standard" ; time:axis = "T" ;
      double lat(lat) ; lat:standard_name = "latitude" ; lat:units = "degrees_north" ; lat:axis = "Y" ;
      float q(time, lat) ; q:long_name = "a number" ; q:units = "1" ; q:grid_mapping = "crs" ;
      int crs ; crs:grid_mapping_name = "latitude_longitude" ;
      int domain ; domain:long_name = "a domain" ; domain:dimensions = "time lat" ;
      :Conventions = "{version}" ;
    }}""")


def _errors(dataset: Dataset) -> list[Finding]:
    return [f for f in findings(dataset, data=False) if f.severity == "error"]


@pytest.mark.parametrize(
    ("variable", "attribute"),
    [
        ("lat", "axis"),
        ("lat", "bounds"),
        ("lat", "positive"),
        ("lat", "units"),
        ("time", "calendar"),
        ("time", "climatology"),
        ("time", "units_metadata"),
        ("q", "ancillary_variables"),
        ("q", "cell_measures"),
        ("q", "cell_methods"),
        ("q", "coordinate_interpolation"),
        ("q", "coordinates"),
        ("q", "flag_meanings"),
        ("q", "geometry"),
        ("q", "grid_mapping"),
        ("crs", "crs_wkt"),
        ("crs", "grid_mapping_name"),
        ("domain", "dimensions"),
        ("domain", "cell_measures"),
    ],
)
def test_several_texts_are_told_of_once(variable: str, attribute: str) -> None:
    dataset = _dataset()
    dataset.root.variables[variable].attributes[attribute] = ("one", "two")
    assert [(f.code, f.attribute) for f in _errors(dataset)] == [("DOC003", attribute)]


@pytest.mark.parametrize(
    ("variable", "attribute", "code"),
    [("lat", "axis", "COO002"), ("q", "cell_methods", "CEL003"), ("q", "grid_mapping", "GMP001")],
)
def test_before_they_were_ruled_out_the_rule_of_the_attribute_tells(variable: str, attribute: str, code: str) -> None:
    dataset = _dataset("CF-1.11")
    dataset.root.variables[variable].attributes[attribute] = ("one", "two")
    assert code in [f.code for f in _errors(dataset)]
