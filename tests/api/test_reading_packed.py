"""Packed variables as `cfagg.read` gives them: what xarray would cut, refuse with an error of its own, or not need."""

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import ConventionError, UnknownConventionWarning


def make(folder, form, variables):
    """Variables over x, by name: stored values and attributes, in a netCDF file or a Zarr store."""
    path = folder / f"a.{form}"
    if form == "nc":
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 4)
            for name, (values, attributes) in variables.items():
                attributes = dict(attributes)
                made = file.createVariable(name, values.dtype, ("x",), fill_value=attributes.pop("_FillValue", None))
                made.set_auto_maskandscale(False)
                made.setncatts({k: np.int32(v) if type(v) is int else v for k, v in attributes.items()})
                made[:] = values
        return path
    root = zarr.create_group(path, zarr_format=3 if form == "zarr" else 2)
    for name, (values, attributes) in variables.items():
        names = {"dimension_names": ["x"]} if form == "zarr" else {}
        made = root.create_array(name, data=values, fill_value=attributes.get("_FillValue"), **names)
        made.attrs.update(attributes if form == "zarr" else {**attributes, "_ARRAY_DIMENSIONS": ["x"]})
    return path


FORMS = ["nc", "zarr", "zarr2"]
SHORT = np.array([0, 1, -1, 3], "i2")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunks", [None, {}])
@pytest.mark.parametrize("name", ["x", "v"])
def test_a_whole_number_as_scale_leaves_room_for_missing_values(tmp_path, form, chunks, name):
    path = make(tmp_path, form, {name: (SHORT, {"scale_factor": 2, "_FillValue": -1})})
    found = cfagg.read(path, chunks=chunks)[name]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [0, 2, np.nan, 6])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packing", [{"scale_factor": -0.5}, {"add_offset": 0.25}])
def test_packed_coordinates_without_missing_values_are_unpacked(tmp_path, form, packing):
    path = make(tmp_path, form, {"x": (SHORT, packing), "v": (SHORT, packing)})
    found = cfagg.read(path)
    expected = SHORT * packing.get("scale_factor", 1) + packing.get("add_offset", 0)
    for name in ("x", "v"):
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == found["v"].dtype
    found.to_netcdf(tmp_path / "again.nc", engine="netcdf4")
    with netCDF4.Dataset(tmp_path / "again.nc") as file:
        assert form == "zarr2" or "_FillValue" not in file["x"].ncattrs()  # which has one always


def test_compounds_with_a_missing_value_are_read(tmp_path):
    records = np.array([(1, 2.5), (-9, -9)], [("n", "i4"), ("r", "f8")])
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["v"] = records
        file["v"].attrs.create("_FillValue", records[1:])
    found = cfagg.read(tmp_path / "a.nc")["v"]
    assert found.values.tolist() == records.tolist()
    assert found.encoding["_FillValue"].tolist() == records[1].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_number_as_scale_does_not_cut_real_values(tmp_path, form):
    path = make(tmp_path, form, {"v": (np.array([0.5, 1.5, 2.5, 3.5], "f4"), {"scale_factor": 2})})
    np.testing.assert_array_equal(cfagg.read(path)["v"], [1, 3, 5, 7])


@pytest.mark.parametrize("form", FORMS)
def test_whole_numbers_without_missing_values_stay_whole(tmp_path, form):
    path = make(tmp_path, form, {"v": (SHORT, {"scale_factor": 2})})
    found = cfagg.read(path)["v"]
    assert found.dtype.kind == "i" or form == "zarr2"  # whose fill value is a missing one
    np.testing.assert_array_equal(found, [0, 2, -2, 6])


@pytest.mark.parametrize("form", FORMS)
def test_packed_values_come_as_they_are_stored_where_that_is_asked_for(tmp_path, form):
    path = make(tmp_path, form, {"v": (SHORT, {"scale_factor": 2, "_FillValue": -1})})
    found = cfagg.read(path, mask_and_scale=False)["v"]
    np.testing.assert_array_equal(found, SHORT)
    assert np.asarray(found.attrs["scale_factor"]).dtype.kind == "i"


@pytest.mark.few(4)
@pytest.mark.parametrize("damaged", [[1.0, 2.0], "two", True])
@pytest.mark.parametrize("form", FORMS)
def test_damaged_packing_is_refused_only_where_it_is_asked_for(tmp_path, form, damaged):
    damaged = np.array([1.0, 2.0]) if form == "nc" and damaged is True else damaged  # netCDF has no truth values
    damaged = damaged.tolist() if isinstance(damaged, np.ndarray) and form != "nc" else damaged
    packed = (SHORT, {"scale_factor": damaged})
    path = make(tmp_path, form, {"b": (np.ones(4, "f4"), {}), "c": packed, "d": packed})
    np.testing.assert_array_equal(cfagg.read(path, variables="b")["b"], np.ones(4))
    np.testing.assert_array_equal(cfagg.read(path, variables=["b"], drop_variables="d")["b"], np.ones(4))
    for asked in (None, ["c"], ["b", "d"]):
        with pytest.raises(ConventionError, match=r"scale_factor = .*, expected one number"):
            cfagg.read(path, variables=asked)


def test_a_coordinate_of_damaged_packing_is_left_out_with_a_warning(tmp_path):
    variables = {"b": (np.ones(4, "f4"), {}), "x": (SHORT, {"add_offset": [1.0, 2.0]})}
    path = make(tmp_path, "zarr", variables)
    with pytest.warns(UnknownConventionWarning, match="'x' cannot be read"):
        found = cfagg.read(path, variables="b")
    assert "x" not in found.coords


def test_a_list_of_one_number_is_that_number(tmp_path):
    path = make(tmp_path, "zarr", {"v": (SHORT, {"scale_factor": [0.5]})})
    found = cfagg.read(path)["v"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [0, 0.5, -0.5, 1.5])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [np.float32(0.5), 0.25])
def test_real_packing_is_unpacked_as_xarray_does(tmp_path, form, scale):
    scale = float(scale) if form != "nc" else scale
    path = make(tmp_path, form, {"v": (SHORT, {"scale_factor": scale, "add_offset": 1.5, "_FillValue": -1})})
    engine = {} if form == "nc" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(path, **engine) as peer:
        xr.testing.assert_identical(cfagg.read(path).load(), peer.load())


@pytest.mark.parametrize(
    ("dtype", "unsigned", "gap", "numbers"), [("i2", "true", -99, [0, 65535]), ("u1", "false", 200, [0, -1])]
)
def test_the_missing_value_of_numbers_in_a_type_of_another_sign_is_missing(tmp_path, dtype, unsigned, gap, numbers):
    values = np.array([numbers[0], numbers[1] % 2 ** (8 * np.dtype(dtype).itemsize), gap, gap], "i4").astype(dtype)
    attributes = {"_Unsigned": unsigned, "missing_value": np.dtype(dtype).type(gap)}
    path = make(tmp_path, "nc", {"v": (values, attributes)})
    np.testing.assert_array_equal(cfagg.read(path).v, [*numbers, np.nan, np.nan])
    assert cfagg.read(path, mask_and_scale=False).v.attrs == attributes
    for to in ("CF-1.13", "NCA-0.1"):
        cfagg.write(cfagg.read(path), tmp_path / f"{to}.nc", to=to)
        np.testing.assert_array_equal(cfagg.read(tmp_path / f"{to}.nc").v, [*numbers, np.nan, np.nan])
        assert not (tmp_path / f"{to}.nc.fragments").exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("more", [{}, {"scale_factor": 0.5}, {"_FillValue": -2}, {"_FillValue": -1}])
@pytest.mark.parametrize("gaps", [[5, -1], [-1]])
def test_each_missing_value_of_numbers_in_a_type_of_another_sign_is_missing(tmp_path, form, more, gaps):
    stored = np.array([1, -1, -2, 5], "i1")
    attributes = {"_Unsigned": "true", "missing_value": np.array(gaps, "i1") if form == "nc" else gaps, **more}
    path = make(tmp_path, form, {"v": (stored, attributes)})
    missing = [v in {*gaps, more.get("_FillValue")} for v in stored.tolist()]
    expected = np.where(missing, np.nan, stored.view("u1") * more.get("scale_factor", 1))
    np.testing.assert_array_equal(cfagg.read(path).v, expected)


@pytest.mark.parametrize("form", ["nc", "zarr"])
@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("more", [{}, {"_Unsigned": "true"}, {"_FillValue": -2}, {"scale_factor": np.float32(0.5)}])
def test_several_missing_values_are_written_and_missing_again(tmp_path, form, changed, more):
    gaps = np.array([5, -1], "i1")
    path = make(tmp_path, "nc", {"v": (np.array([1, -1, -2, 5], "i1"), {"missing_value": gaps, **more})})
    found = cfagg.read(path)
    found = found.isel(x=[1, 0, 3, 2]) if changed else found
    cfagg.write(found, tmp_path / f"b.{form}")
    again = cfagg.read(tmp_path / f"b.{form}")
    np.testing.assert_array_equal(again.v, found.v)
    stored = cfagg.read(tmp_path / f"b.{form}", mask_and_scale=False).v
    if form == "zarr" or changed:
        assert sorted(np.ravel(stored.attrs["missing_value"]).tolist()) == [-1, 5]


def test_a_variable_with_whole_numbers_as_factors_is_written_as_a_reference(tmp_path):
    path = make(tmp_path, "nc", {"v": (SHORT, {"scale_factor": 2, "_FillValue": -1})})
    cfagg.write(cfagg.read(path), tmp_path / "out.nc")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "out.nc").v, [0, 2, np.nan, 6])
    assert not (tmp_path / "out.nc.fragments").exists()
