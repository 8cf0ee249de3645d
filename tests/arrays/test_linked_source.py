"""Files with links to other files: what stands in the file itself is read, the links are refused one by one."""

import os

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.arrays.netcdf_source import open_source
from cfagg.cli.main import main
from cfagg.errors import AccessError, CfaggError, UnreadableAggregationError

SECRET = 271828.25


def write(path):
    """A netCDF-4 file of many kinds of variables."""
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a file"
        file.createDimension("time", None)
        file.createDimension("x", 3)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2001-01-01"
        time[:] = [0, 1]
        v = file.createVariable("v", "i2", ("time", "x"), fill_value=-1, zlib=True)
        v.setncatts({"scale_factor": np.float32(0.5), "flag_values": np.array([1, 2], "i2"), "long_name": "v"})
        v.set_auto_maskandscale(False)
        v[:] = [[1, 2, 3], [4, 5, -1]]
        file.createVariable("letters", "S1", ("x",))[:] = np.array(list("abc"), "S1")
        group = file.createGroup("g")
        group.createVariable("w", "f4", ("x",))[:] = [7, 8, 9]
    return path


def linked(folder, target="secret.nc"):
    """The same file with links to a secret, or to a FIFO."""
    path = write(folder / "a.nc")
    with h5py.File(folder / "secret.nc", "w") as file:
        file["x"] = np.full(4, SECRET)
    os.mkfifo(folder / "fifo")
    with h5py.File(path, "a") as file:
        file["outside"] = h5py.ExternalLink(str(folder / target), "/x")
        file["g/elsewhere"] = h5py.ExternalLink(str(folder / target), "/")
        file["soft"] = h5py.SoftLink("/g/elsewhere/x")
    return path


@pytest.mark.parametrize("target", ["secret.nc", "fifo"])
def test_what_stands_in_the_file_is_described_as_without_the_links(tmp_path, target):
    expected = open_source(write(tmp_path / "plain.nc"))
    found = open_source(linked(tmp_path, target))
    assert sorted(found.root.unreadable) == ["outside", "soft"]
    assert list(found.root.groups["g"].unreadable) == ["elsewhere"]
    for mine, peer in zip(found.root.walk(), expected.root.walk(), strict=True):
        assert mine.dimensions == peer.dimensions
        assert mine.unlimited == peer.unlimited
        assert mine.attributes == peer.attributes
        assert mine.variables.keys() == peer.variables.keys()
        for name, variable in mine.variables.items():
            other = peer.variables[name]
            assert (variable.dims, variable.shape, variable.dtype) == (other.dims, other.shape, other.dtype)
            assert {k: np.asarray(v).tolist() for k, v in variable.attributes.items()} == {
                k: np.asarray(v).tolist() for k, v in other.attributes.items()
            }


def test_variables_without_links_are_read_when_they_are_chosen(tmp_path):
    path = linked(tmp_path)
    with xr.open_dataset(write(tmp_path / "plain.nc")) as expected:
        xr.testing.assert_identical(cfagg.read(path, variables=["v"]).load(), expected[["v"]].load())
    np.testing.assert_array_equal(cfagg.read(path, group="g", variables="w")["w"], [7, 8, 9])


@pytest.mark.parametrize("asked", [None, ["outside"], ["v", "soft"]])
def test_links_are_refused_by_name_where_they_are_asked_for(tmp_path, asked):
    with pytest.raises(UnreadableAggregationError) as caught:
        cfagg.read(linked(tmp_path), variables=asked)
    assert {"outside", "soft"} <= set(caught.value.variables)
    assert "an external link to" in str(caught.value)
    assert "not followed" in str(caught.value)


def test_a_conversion_leaves_links_out_only_where_that_is_asked_for(tmp_path, capsys):
    path = linked(tmp_path)
    assert main(["convert", str(path), str(tmp_path / "a.zarr")]) == 1
    assert "outside" in capsys.readouterr().err
    assert main(["convert", str(path), str(tmp_path / "a.zarr"), "--on-loss", "drop"]) == 0
    found = cfagg.read(tmp_path / "a.zarr")
    assert "outside" not in found
    assert str(SECRET) not in str(found.load())
    assert main(["show", str(path)]) == 0
    assert "outside" in capsys.readouterr().out


def test_files_that_lead_out_of_themselves_otherwise_are_refused_as_before(tmp_path):
    path = linked(tmp_path)
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout((4,), "f8", maxshape=(None,))
        source = h5py.VirtualSource(str(tmp_path / "secret.nc"), "x", (4,), maxshape=(None,))
        layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
        file.create_virtual_dataset("virtual", layout)
    with pytest.raises(AccessError, match="virtual dataset"):
        open_source(path)


def test_a_variable_in_external_storage_stays_refused_beside_links(tmp_path):
    path = linked(tmp_path)
    (tmp_path / "raw").write_bytes(np.full(4, SECRET).tobytes())
    with h5py.File(path, "a") as file:
        file.create_dataset("stored", (4,), "f8", external=[(str(tmp_path / "raw"), 0, 32)])
    with pytest.raises(CfaggError, match="another file"):
        cfagg.read(path, variables="stored").load()


def test_strings_are_read_beside_links(tmp_path):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        file.createVariable("s", str, ("x",))[:] = np.array(["a", "bé"], object)
        file.createVariable("v", "i2", ("x",))[:] = [1, 2]
    with h5py.File(path, "r+") as file:
        file["elsewhere"] = h5py.ExternalLink("other.nc", "/v")
    assert cfagg.read(path, variables="v")["v"].values.tolist() == [1, 2]
    assert cfagg.read(path, variables="s")["s"].values.tolist() == ["a", "bé"]


@pytest.mark.parametrize("chunks", [None, (3,)])
def test_strings_of_fixed_length_with_a_fill_value_are_read(tmp_path, chunks):
    # The netCDF library crashes on them.
    path, texts = tmp_path / "a.h5", np.array([b"2017-01-01", b"", b"ok", b"none", b"b\xc3\xa9"])
    with h5py.File(path, "w") as file:
        made = file.create_dataset("t", data=texts.astype("S10"), chunks=chunks, fillvalue=b"none")
        made.attrs["valid_range"] = np.array([b"a", b"zz"], "S2")
        file.create_dataset("long", data=np.array(["x", "yy"] * 2 + ["é"], object), dtype=h5py.string_dtype())
        file["v"] = np.arange(5.0)
    expected = ["2017-01-01", "", "ok", "none", "bé"]
    for found in (cfagg.read(path), cfagg.aggregate(path, decode_times=False)):
        assert found["t"].values.tolist() == expected
        assert found["t"][::-2].values.tolist() == expected[::-2]
        assert found["t"].attrs["valid_range"] == ["a", "zz"]
        assert found["long"].values.tolist() == ["x", "yy", "x", "yy", "é"]
        assert found["v"].values.tolist() == [0, 1, 2, 3, 4]
    cfagg.convert(path, tmp_path / "a.zarr")
    assert cfagg.read(tmp_path / "a.zarr")["t"].values.tolist() == expected


def test_strings_that_are_not_utf8_are_refused_by_name(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("t", data=np.array([b"\xff\xfe"], "S2"), fillvalue=b"no")
    with pytest.raises(CfaggError, match=r"'/?t' of .*a\.h5 is not text in UTF-8"):
        cfagg.read(tmp_path / "a.h5")["t"].load()
