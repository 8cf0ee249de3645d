"""Variables whose HDF5 types netCDF lacks: the netCDF library leaves them out without a word, cfagg names them."""

import re
import warnings

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.arrays.netcdf_source import open_source
from cfagg.cli.main import main
from cfagg.errors import CfaggWarning, SourceError, UnreadableAggregationError, UnsupportedError
from cfagg.formats.hdf5 import links, untyped
from tests.observations.servers import served

TYPES = {
    "references": h5py.ref_dtype,
    "arrays": np.dtype(("f8", (3,))),
    "opaque": h5py.opaque_dtype(np.dtype("V5")),
    "compounds with members of such types": np.dtype([("p", "f4"), ("q", h5py.ref_dtype)]),
}


def write(path, dtype=h5py.ref_dtype, group=""):
    """A netCDF-4 file with a dimension without a variable, and a variable of a type of HDF5 along another."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("bare", 2)
        file.createDimension("x", 4)
        file.createVariable("x", "f8", ("x",))[:] = np.arange(4.0)
        file.createVariable("t", "f4", ("x",))[:] = np.arange(4.0)
        file.createVariable("/g/t", "f4", ("x",))[:] = np.arange(4.0)
    with h5py.File(path, "a") as file:
        file.create_dataset(f"{group}/odd", (4,), dtype).dims[0].attach_scale(file["x"])
    return path


@pytest.mark.parametrize("group", ["", "/g"])
@pytest.mark.parametrize("kind", TYPES)
def test_each_is_listed_with_its_type_in_its_group(tmp_path, kind, group):
    source = open_source(write(tmp_path / "a.nc", TYPES[kind], group))
    assert {g.path: list(g.untyped) for g in source.root.walk()} == {"/": [], "/g": []} | {group or "/": ["odd"]}
    with pytest.raises(UnreadableAggregationError, match=rf"variable '{group[1:]}/?odd' cannot be read: .* \({kind}\)"):
        source.find(f"{group}/odd")


@pytest.mark.parametrize("target", ["b.zarr", "b.nc", "b.nca"])
def test_conversion_refuses_it_and_lists_it_as_a_loss_if_it_may_be_dropped(tmp_path, target):
    path = write(tmp_path / "a.nc")
    with pytest.raises(UnreadableAggregationError, match=r"variable 'odd' .* on_loss='drop'"):
        cfagg.convert(path, tmp_path / target)
    report = cfagg.convert(path, tmp_path / target, on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [("odd", "the variable")]
    assert "the netCDF library does not read its HDF5 type (references)" in report.losses[0].why


def test_what_hdf5_cannot_open_hides_nothing_else(tmp_path, monkeypatch):
    path = write(tmp_path / "a.nc")
    with h5py.File(path, "a") as file:
        file.create_dataset("another", (2,), h5py.ref_dtype)

    def failing(group, file, name):
        if name == b"another":
            raise RuntimeError("unable to open object")
        return links.member(group, file, name)

    monkeypatch.setattr(untyped, "member", failing)
    found = open_source(path).root.untyped
    assert list(found) == ["another", "odd"]
    assert "'another' cannot be read: the HDF5 library cannot open it" in found["another"].message


def test_conversion_of_other_variables_loses_nothing(tmp_path):
    report = cfagg.convert(write(tmp_path / "a.nc"), tmp_path / "b.zarr", variables=["t"])
    assert report.losses == ()


def test_references_do_not_express_it(tmp_path):
    path = write(tmp_path / "a.nc")
    with pytest.raises(UnreadableAggregationError, match="variable 'odd'"):
        cfagg.index(path, to="kerchunk", output=tmp_path / "a.json")


def test_reading_leaves_it_out_with_a_warning(tmp_path):
    path = write(tmp_path / "a.nc")
    with pytest.warns(CfaggWarning, match=r"a\.nc: variable 'odd' cannot be read"):
        found = cfagg.read(path)
    assert set(found.variables) == {"x", "t"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.testing.assert_identical(cfagg.read(path, drop_variables="odd"), found)


def test_arrays_of_files_are_made_without_it_with_a_note(tmp_path):
    files = [write(tmp_path / f"{name}.nc") for name in "ab"]
    found = cfagg.aggregate(files)
    assert {"x", "t", "t_1"} <= set(found.variables)
    assert not any("odd" in name for name in found.variables)
    assert "'odd' is left out: netCDF lacks its type (2 files)" in found.cfagg.report.notes


#: What makes the netCDF library refuse a whole file, or all attributes of a variable, with what it is called.
STUCK = {
    "times": lambda file: h5py.h5d.create(file.id, b"odd", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((4,))),
    "null dataspace": lambda file: file.create_dataset("odd", data=h5py.Empty("f4")),
    "attribute 'when' (times)": lambda file: h5py.h5a.create(
        file.create_dataset("odd", (4,), "f4").id, b"when", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((1,))
    ),
}


def with_stuck(path, add):
    """A file of numbers along a dimension and along none, with something that the netCDF library cannot read."""
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(4.0)
        file["x"].make_scale()
        file["t"] = np.arange(4, dtype="f4")
        file["t"].dims[0].attach_scale(file["x"])
        file["g/u"] = np.arange(3, dtype="i2")
        add(file)
    return path


@pytest.mark.parametrize("kind", STUCK)
def test_others_of_a_file_on_which_the_library_fails_are_read(tmp_path, kind):
    path = with_stuck(tmp_path / "a.nc", STUCK[kind])
    with pytest.warns(
        CfaggWarning, match=rf"variable 'odd' cannot be read: the netCDF library fails on .*{re.escape(kind)}"
    ):
        found = cfagg.read(path)
    assert found.t.values.tolist() == found.x.values.tolist() == [0, 1, 2, 3]
    assert cfagg.read(path, group="g").u.values.tolist() == [0, 1, 2]
    report = cfagg.convert(path, tmp_path / "b.zarr", on_loss="drop")
    assert [(loss.variable, loss.what) for loss in report.losses] == [("odd", "the variable")]
    assert xr.open_zarr(tmp_path / "b.zarr", group="g").u.values.tolist() == [0, 1, 2]
    if not kind.startswith("attribute"):
        assert "'odd' is left out: netCDF lacks its type" in str(cfagg.aggregate(path).cfagg.report)
    else:
        with pytest.raises(UnsupportedError, match=rf"'/?odd' of .* fails on .*{re.escape(kind)}.*drop_variables"):
            cfagg.aggregate(path).load()
    assert set(cfagg.aggregate(path, drop_variables="odd").variables) == {"x", "t", "u"}


@pytest.mark.parametrize("odd", ["null dataspace", "times", h5py.ref_dtype, TYPES["arrays"]])
def test_what_netcdf_lacks_is_left_out_of_a_file_on_a_server_too(tmp_path, odd):
    with_stuck(tmp_path / "a.nc", STUCK.get(odd, lambda file: file.create_dataset("odd", (4,), odd)))
    with served(tmp_path) as server:
        with pytest.warns(CfaggWarning, match="variable 'odd' cannot be read: the netCDF library"):
            assert set(cfagg.read(f"{server.url}/a.nc").variables) == {"x", "t"}
        assert not any("odd" in name for name in cfagg.aggregate(f"{server.url}/a.nc").load().variables)


def test_what_cannot_be_read_from_a_server_is_named_in_the_order_of_the_file(tmp_path):
    names = [f"v{i}" for i in range(8)]
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name in names:
            file.create_dataset(name, (4,), [("a", "f4"), ("b", "i4")])
    with served(tmp_path) as server:
        with pytest.raises(UnreadableAggregationError) as caught:
            cfagg.read(f"{server.url}/a.nc")
        assert list(caught.value.variables) == names


@pytest.mark.parametrize("kind", ["i4", h5py.ref_dtype, ("i4", (2,))])
def test_named_types_that_netcdf_lacks_hide_no_variable(tmp_path, kind):
    path = with_stuck(
        tmp_path / "a.nc",
        lambda file: h5py.h5t.py_create(np.dtype(kind), logical=True).copy().commit(file.id, b"named"),
    )
    assert set(cfagg.read(path).variables) == {"x", "t"}
    report = cfagg.convert(path, tmp_path / "b.zarr")
    assert report.losses == ()
    assert main(["show", str(path)]) == 0


def test_a_group_with_an_attribute_on_which_the_library_fails_is_named(tmp_path):
    space = h5py.h5s.create_simple((1,))
    path = with_stuck(tmp_path / "a.nc", lambda f: h5py.h5a.create(f["g"].id, b"when", h5py.h5t.UNIX_D32LE, space))
    with pytest.raises(UnsupportedError, match=r"a\.nc: group '/g' cannot be read: .* attribute 'when' \(times\)"):
        cfagg.read(path)


def test_damage_beside_what_the_library_lacks_is_damage(tmp_path):
    path = with_stuck(tmp_path / "a.nc", STUCK["times"])
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(SourceError, match="damaged"):
        cfagg.read(path)


def test_it_is_shown(tmp_path, capsys):
    assert main(["show", str(write(tmp_path / "a.nc"))]) == 0
    assert "odd cannot be read" in capsys.readouterr().out
