"""The metadata of one file."""

import os

import netCDF4
import numpy as np
import pytest

from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.source import Variable
from cfagg.errors import CfaggError, ConventionError, SourceError
from cfagg.model import Aggregation
from tests import nca_files


@pytest.fixture
def path(tmp_path):
    master = np.arange(24, dtype="f4").reshape(6, 4)
    content = nca_files.array(
        ["time", "lat"],
        [[0, 2, 6], [0, 4]],
        lambda index, box: (
            {"data": {"file": "gone.nc", "ncvar": "tas", "shape": [2, 4]}}
            if index[0] == 0
            else {"data": {"ncvar": "hidden", "shape": [4, 4]}}
        ),
    )
    coordinates = {"time": (["time"], np.arange(6.0), {"units": "days since 2000-01-01"})}
    private = {"hidden": (["nca_4", "lat"], master[2:], {}, None)}
    file = nca_files.aggregation(
        tmp_path / "agg.nca",
        "tas",
        "f4",
        {"time": 6, "lat": 4},
        content,
        {"units": "K", "standard_name": "air_temperature"},
        coordinates=coordinates,
        private=private,
    )
    with netCDF4.Dataset(file, "a") as ds:
        inner = ds.createGroup("inner")
        inner.createDimension("run", None)
        variable = inner.createVariable("tas2", "f4", ())
        variable.nca_dimensions = "time lat"
        variable.nca_array = ds["tas"].nca_array
        inner.createVariable("label", str, ("run",))[0:2] = np.array(["a", "b"], object)
    return file


def test_aggregations_and_ordinary_variables_are_told_apart_and_keep_their_order(path):
    root = open_source(path).root
    assert list(root.variables) == ["time", "tas"]
    assert isinstance(root.variables["time"], Variable)
    tas = root.variables["tas"]
    assert isinstance(tas, Aggregation)
    assert (tas.dims, tas.shape, tas.dtype, tas.units) == (("time", "lat"), (6, 4), np.dtype("f4"), "K")
    assert tas.grid.sizes == ((2, 4), (4,))
    assert dict(tas.attributes) == {"standard_name": "air_temperature"}
    assert tas.source == str(path)


def test_private_variables_and_their_dimensions_are_not_public(path):
    root = open_source(path).root
    assert list(root.private) == ["hidden"]
    assert root.dimensions == {"time": 6, "lat": 4, "nca_4": 4}
    assert root.public_dimensions == {"time": 6, "lat": 4}


def test_a_dimension_of_no_variable_stays(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.createDimension("alone", 7)
    assert open_source(tmp_path / "a.nc").root.public_dimensions == {"alone": 7}


def test_groups_inherit_dimensions_and_private_variables(path):
    source = open_source(path)
    assert source.group_paths() == ["/", "/inner"]
    group = source.group("inner")
    assert group.dimensions == {"run": 2}
    assert group.unlimited == {"run"}
    assert group.variables["tas2"].shape == (6, 4)
    assert group.variables["label"].dtype.metadata == {"element_type": str}
    assert source.root.has_aggregations


def test_a_variable_is_found_by_path_and_from_below(path):
    source = open_source(path)
    assert source.find("/inner/tas2")[0].path == "/inner"
    assert source.find_from("/inner", "tas")[0].path == "/"
    assert source.find("hidden")[1].name == "hidden"
    with pytest.raises(SourceError, match=r"'nothing'.*time, tas"):
        source.find("nothing")
    with pytest.raises(SourceError, match=r"no group 'x'"):
        source.find("x/tas")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("CF-1.5 NCA", "CF-1.5"),
        ("CF-1.5, NCA, ACDD-1.3", "CF-1.5, ACDD-1.3"),
        ("NCA", None),
        ("CF-1.8", "CF-1.8"),
        ("NCA-0.1 CF-1.5", "CF-1.5"),
        ("NCAR-CSM", "NCAR-CSM"),
        ("CF-1.7,ACDD-1.3", "CF-1.7,ACDD-1.3"),
        ("CF-1.7  ACDD-1.3 ", "CF-1.7  ACDD-1.3 "),
        (" ", " "),
    ],
)
def test_the_mark_of_an_aggregation_file_is_consumed(tmp_path, found, expected):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as ds:
        ds.Conventions = found
    assert open_source(tmp_path / "a.nc").root.public_attributes.get("Conventions") == expected


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", "NETCDF4_CLASSIC"])
def test_every_netcdf_format_is_read_and_named(tmp_path, kind):
    nca_files.fragment(tmp_path / "a.nc", "t", np.arange(3, dtype="i4"), ["x"], {"units": "s"}, format=kind)
    source = open_source(tmp_path / "a.nc")
    assert source.format == kind
    assert source.root.variables["t"].dtype == np.dtype("i4")
    assert source.root.variables["t"].attributes == {"units": "s"}


def test_a_big_endian_variable_has_the_native_type(tmp_path):
    nca_files.fragment(tmp_path / "a.nc", "t", np.arange(3, dtype=">i4"), ["x"], endian="big")
    assert open_source(tmp_path / "a.nc").root.variables["t"].dtype.isnative


@pytest.mark.parametrize("content", [b"", b"CDF", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(500), b"# text"])
def test_what_is_not_netcdf_raises_one_clear_error(tmp_path, content):
    (tmp_path / "a.nc").write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.nc"):
        open_source(tmp_path / "a.nc")


def test_a_missing_file_a_directory_and_a_fifo_raise(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, message in (("gone", "no file"), (".", "a directory"), ("fifo", "a FIFO"), ("a\0b", "not a file name")):
        with pytest.raises(SourceError, match=message):
            open_source(tmp_path / name)
    with pytest.raises(SourceError):
        open_source("http://localhost/a.nc")


def test_a_file_replaced_between_two_openings_is_read_anew(tmp_path):
    for n in (3, 4):
        (tmp_path / "a.nc").unlink(missing_ok=True)
        nca_files.fragment(tmp_path / "a.nc", "t", np.arange(n), ["x"])
        assert open_source(tmp_path / "a.nc").root.variables["t"].shape == (n,)


def test_a_broken_aggregation_names_the_variable(tmp_path):
    nca_files.aggregation(tmp_path / "a.nca", "tas", "f4", {"x": 3}, "{broken")
    source = open_source(tmp_path / "a.nca")
    assert list(source.root.unreadable) == ["tas"]
    with pytest.raises(ConventionError, match="tas"):
        source.find("tas")


def test_bytes_changed_anywhere_raise_nothing_but_our_errors(path):
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    outcomes = set()
    for i in range(150):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 8):
            broken[at] = rng.integers(0, 256)
        target = path.parent / f"{i}.nca"
        target.write_bytes(broken[: int(rng.integers(len(data) // 2, len(data) + 1))])
        try:
            open_source(target)
            outcomes.add("read")
        except CfaggError:
            outcomes.add("refused")
        target.unlink()
    assert "refused" in outcomes


def test_a_private_mark_that_is_no_integer_names_the_file_and_the_variable(path):
    with netCDF4.Dataset(path, "a") as ds:
        ds["time"].nca_private = "yes"
    with pytest.raises(ConventionError, match=r"agg\.nca: variable 'time': .*nca_private"):
        open_source(path).find("time")
