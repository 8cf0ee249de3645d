"""Messages say what to do, in words that a reader of the dataset understands at once."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

from cfagg.checking.changes import Change, difference
from cfagg.checking.opening import open_dataset
from tests.checking.corpus import CLEAN
from tests.checking.rules.asking import findings


def message(text: str, code: str, **options: object) -> str:
    (found,) = findings(text, code, **options)
    return found.message


def variable(attributes: str, dims: str = "x") -> str:
    return f"""netcdf v {{ dimensions: x = 2 ;
variables: float v({dims}) ; {attributes} :Conventions = "CF-1.13" ; data: v = 1, 2 ; }}"""


@pytest.mark.parametrize(
    ("units", "name", "expected"),
    [
        ("E", "longitude", "; write 'degrees_east'"),
        ("E", "", "; write 'degrees_east'"),
        ("E", "wind_speed", ""),
        ("DEG N", "latitude", "; write 'degrees_north'"),
        ("DEG C", "air_temperature", "; write 'degC'"),
        ("DEG C", "", "; write 'degC'"),
        ("PASCALS/XYZ", "", ""),
        ("m_s-1", "", "; write 'm s-1'"),
        ("KM", "", ""),
        ("KM", "altitude", "; write 'km'"),
        ("KM", "air_pressure", ""),
        ("kg m**-2 XYZ", "", ""),
    ],
)
def test_units_are_suggested_where_they_measure_what_is_meant(units: str, name: str, expected: str) -> None:
    named = f'v:standard_name = "{name}" ;' if name else 'v:long_name = "something" ;'
    found = message(variable(f'v:units = "{units}" ; {named}'), "UNI002")
    assert found == f"units '{units}' are not known to UDUNITS{expected}"


def test_missing_terms_are_named() -> None:
    text = CLEAN["7.3 bounds of a parametric coordinate"]
    terms = "a: A_bounds b: B_bounds ps: PS p0: P0"
    lacking = text.replace(terms, "a: A_bounds b: B_bounds")
    assert message(lacking, "BND008") == "formula_terms lacks the terms p0, ps, which 'lev' has"
    further = text.replace('"a: A b: B ps: PS p0: P0"', '"a: A b: B ps: PS"')
    assert message(further, "BND008") == "formula_terms has the term p0, which 'lev' lacks"


def test_names_of_a_datum_are_asked_for_together() -> None:
    text = """netcdf g { dimensions: x = 2 ; variables: float v(x) ; v:grid_mapping = "crs" ; int crs ;
    crs:grid_mapping_name = "latitude_longitude" ; crs:horizontal_datum_name = "WGS84" ;
    :Conventions = "CF-1.13" ; }"""
    found = message(text, "GMP008", data=False)
    assert found.startswith("horizontal_datum_name needs reference_ellipsoid_name and ")
    assert found.endswith(" beside it")


def test_another_dimension_is_to_be_put_before_those_of_space() -> None:
    text = """netcdf d { dimensions: z = 2 ; xc = 2 ;
variables: float z(z) ; z:units = "m" ; z:positive = "up" ; z:long_name = "height" ;
 char xc_name(xc) ; xc_name:long_name = "species" ; float v(z, xc) ; v:coordinates = "xc_name" ; v:units = "1" ;
 v:long_name = "v" ; :Conventions = "COARDS CF-1.13" ; }"""
    found = message(text, "DOC008", data=False)
    assert found == "'xc' is not a space or time dimension: put it before 'z', as COARDS requires"


GRID = """netcdf g {{ dimensions: time = 2 ; lat = 2 ; lon = 2 ;
variables: double time(time) ; time:units = "days since 2000-01-01" ; time:calendar = "standard" ;
 float lat(lat) ; lat:units = "degrees_north" ; float lon(lon) ; lon:units = "degrees_east" ;
 float height ; height:units = "m" ; height:positive = "up" ;
 float v(time, lat, lon) ; v:long_name = "v" ; v:units = "1" ; {attributes}
:Conventions = "CF-1.13" ; }}"""


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", 'there is no cell_methods for time, lat, lon; add e.g. cell_methods = "time: mean area: mean"'),
        ('v:cell_methods = "time: mean" ;', 'cell_methods does not mention lat, lon; add e.g. "area: mean"'),
        ('v:cell_methods = "time: lat: mean" ;', 'cell_methods does not mention lon; add e.g. "lon: mean"'),
        (
            'v:cell_methods = "area: time: mean" ; v:coordinates = "height" ;',
            'cell_methods does not mention height; add e.g. "height: point"',
        ),
    ],
)
def test_cell_methods_that_would_do_are_shown(attributes: str, expected: str) -> None:
    assert message(GRID.format(attributes=attributes), "CEL006", data=False) == expected


def written(path: Path, *, data: bool) -> Path:
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.13"
        file.createDimension("lat", 4)
        file.createVariable("lat", "f4", "lat").setncatts({"units": "degrees_north", "standard_name": "latitude"})
        v = file.createVariable("v", "f4", "lat")
        v.setncatts({"long_name": "v", "units": "1"})
        if data:
            v[:] = [1, 2, 3, 4]
    return path


@pytest.mark.parametrize(("data", "severity"), [(True, "error"), (False, "warning")])
def test_a_coordinate_that_was_never_written_is_an_error_beside_data(data: bool, severity: str, tmp_path: Path) -> None:
    with open_dataset(written(tmp_path / "a.nc", data=data)) as dataset:
        (found,) = findings(dataset, "COO007")
    assert (found.severity, found.message) == (
        severity,
        "all 4 values are the fill value: the coordinate was never written",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([np.nan], "f4"), "NaNf"),
        (np.array([np.nan, -np.inf]), "NaN, -Infinity"),
        (np.array([np.inf], "f4"), "Infinityf"),
        (np.array([1.5], "f4"), "1.5f"),
    ],
)
def test_a_difference_writes_numbers_as_cdl_does(value: object, expected: str) -> None:
    text = difference([Change("v", "_FillValue", value, None, None, "COO008")], "a.nc", "b.nc")
    assert text.splitlines()[-1] == f"-  v:_FillValue = {expected} ;"
