"""Variables that have one dimension twice, such as covariances."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import numpy.testing as npt
import pytest

import cfagg

VALUES = np.arange(54.0).reshape(3, 2, 3, 3)


def covariances(path: Path, first: float) -> str:
    """Write covariances, and temperatures with the same dimensions but once."""
    with netCDF4.Dataset(path, "w") as file:
        for name, size in {"x": 3, "time": 2, "x_1": 4}.items():
            file.createDimension(name, size)
        longitude = {"standard_name": "longitude", "units": "degrees_east"}
        time = {"standard_name": "time", "units": "days since 2000-01-01"}
        for name, dims, values, attributes in (
            ("x", ("x",), [1, 2, 5], longitude),
            ("time", ("time",), [first, first + 1], time),
            ("tas", ("time", "x"), np.ones((2, 3)), {"standard_name": "air_temperature", "units": "K"}),
            ("covariance", ("x", "time", "x", "x"), VALUES, {"standard_name": "air_pressure", "units": "Pa"}),
            ("other", ("x_1",), np.zeros(4), {"long_name": "of a dimension of the name that is next"}),
        ):
            file.createVariable(name, "f8", dims).setncatts(attributes)
            file[name][:] = values
    return str(path)


def test_a_dimension_that_occurs_again_has_another_name(tmp_path: Path) -> None:
    found = cfagg.aggregate(covariances(tmp_path / "a.nc", 0))
    assert len(set(found["covariance"].dims)) == 4
    assert found["covariance"].dims[:2] == found["tas"].dims[::-1]
    npt.assert_array_equal(found["covariance"].values, VALUES)
    npt.assert_array_equal(found["covariance"][::-1, 0, 1:, 2].values, VALUES[::-1, 0, 1:, 2])


def test_variables_with_a_dimension_twice_are_apart_and_others_are_joined(tmp_path: Path) -> None:
    a, b = covariances(tmp_path / "a.nc", 0), covariances(tmp_path / "b.nc", 2)
    found = cfagg.aggregate([a, b])
    assert found["tas"].sizes["time"] == 4
    npt.assert_array_equal(found["covariance_1"].values, VALUES)
    why = {one.a: one for one in found.cfagg.report.why(a, b).answers}["covariance"]
    assert "its dimension 'x' occurs twice" in why.text
    assert why.remedy == "give the second one a name of its own"


@pytest.mark.filterwarnings("ignore:Duplicate dimension names:UserWarning")
@pytest.mark.parametrize("to", ["CF-1.13", "NCA-0.1"])
def test_a_variable_with_a_dimension_twice_is_copied_into_an_aggregation_file_of_one_file(
    tmp_path: Path, to: str
) -> None:
    source, out, other = covariances(tmp_path / "a.nc", 0), tmp_path / "out.nc", tmp_path / "other.nc"
    cfagg.convert(source, out, to=to)
    cfagg.write(cfagg.read(source), other, to=to)
    for path in (out, other):
        with netCDF4.Dataset(path) as file:
            assert file["covariance"].dimensions == ("x", "time", "x", "x")
            npt.assert_array_equal(file["covariance"][:], VALUES)


@pytest.mark.parametrize("to", ["CF-1.13", "CFA-0.4", "CFA-0.6.2", "NCA-0.1"])
@pytest.mark.parametrize("index", [False, True])
def test_aggregation_files_of_variables_with_a_dimension_twice_are_read(tmp_path: Path, to: str, index: bool) -> None:
    out = tmp_path / "out.nc"
    cfagg.aggregate(covariances(tmp_path / "a.nc", 0), output=out, to=to, index=index)
    npt.assert_array_equal(cfagg.read(out)["covariance"].values, VALUES)


def test_dimensions_without_names_are_those_of_the_file_however_they_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (3,), h5py.ref_dtype)  # the netCDF library does not number its dimension
        file["b"] = np.arange(6).reshape(2, 3)
    with cfagg.aggregate(path) as found:
        npt.assert_array_equal(found["b"].values, np.arange(6).reshape(2, 3))


def test_two_dimensions_with_one_quantity_as_coordinate_keep_both_and_join_nothing(tmp_path: Path) -> None:
    names = [tmp_path / "a.nc", tmp_path / "b.nc"]
    for k, name in enumerate(names):
        with netCDF4.Dataset(name, "w") as file:
            file.createDimension("from", 3)
            file.createDimension("to", 2)
            for coordinate, dim in (("lon_from", "from"), ("lon_to", "to")):
                v = file.createVariable(coordinate, "f4", (dim,))
                v.setncatts({"standard_name": "longitude", "units": "degrees_east"})
                v[:] = np.arange(v.size) + 10 * k
            v = file.createVariable("r", "f4", ("from", "to"))
            v.setncatts({"long_name": "correlation", "units": "1", "coordinates": "lon_from lon_to"})
            v[:] = np.arange(6).reshape(3, 2) + k
    found = cfagg.aggregate(names)
    for k, name in enumerate(("r", "r_1")):
        npt.assert_array_equal(found[name], np.arange(6).reshape(3, 2) + k)
        of = {c.partition("_1")[0]: found[name][c].values.tolist() for c in found[name].coords}
        assert of == {"lon_from": [10 * k, 10 * k + 1, 10 * k + 2], "lon_to": [10 * k, 10 * k + 1]}
    assert "'longitude' is the coordinate of two of its dimensions" in str(found.cfagg.report)
