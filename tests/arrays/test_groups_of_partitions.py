"""The group form of S3-netcdf-python ("CFA-0.5"), as its writer makes it."""

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import AccessError, UnreadableAggregationError
from cfagg.model import Grid

VALUES = np.arange(24.0).reshape(4, 6)
EDGES = ([0, 2, 4], [0, 3, 6])


def write(folder, *, where="/", absent=(), change=lambda group: None, conventions="CF-1.4 CFA-0.5"):
    """Write four fragments and the file of their aggregation."""
    path = folder / "x.nc"
    with netCDF4.Dataset(path, "w") as d:
        d.Conventions = conventions
        for dim, n in (("y", 4), ("x", 6)):
            d.createDimension(dim, n)
        home = d if where == "/" else d.createGroup(where)
        tas = home.createVariable("tas", "f8", ())
        tas.setncatts({"units": "K", "cf_role": "cfa_variable", "cfa_dimensions": "y x", "cfa_group": "cfa_tas"})
        group = home.createGroup("cfa_tas")
        for dim, n in (("y", 2), ("x", 2), ("ndimensions", 2), ("bounds", 2)):
            group.createDimension(dim, n)
        group.createVariable("pmshape", "i4", ("ndimensions",))[:] = [2, 2]
        group.createVariable("pmdimensions", str, ())[...] = "y, x"
        index = group.createVariable("index", "i4", ("y", "x", "ndimensions"))
        location = group.createVariable("location", "i4", ("y", "x", "ndimensions", "bounds"))
        texts = {n: group.createVariable(n, str, ("y", "x")) for n in ("ncvar", "file", "format")}
        shape = group.createVariable("shape", "i4", ("y", "x", "ndimensions"))
        for j, i in np.ndindex(2, 2):
            if (j, i) in absent:
                continue
            span = [EDGES[0][j : j + 2], EDGES[1][i : i + 2]]
            index[j, i], location[j, i], shape[j, i] = (j, i), span, [b - a for a, b in span]
            for key, text in (("ncvar", "tas"), ("file", f"tas.{j}.{i}.nc"), ("format", "NETCDF4_CLASSIC")):
                texts[key][j, i] = text
            with netCDF4.Dataset(folder / f"tas.{j}.{i}.nc", "w") as f:
                for dim, n in zip(("y", "x"), (2, 3), strict=True):
                    f.createDimension(dim, n)
                f.createVariable("tas", "f8", ("y", "x"))[...] = VALUES[slice(*span[0]), slice(*span[1])]
        change(group)
    return path


@pytest.mark.parametrize("where", ["/", "ocean"])
def test_partitions_in_a_group_are_read_in_their_places(tmp_path, where):
    path = write(tmp_path, where=where)
    name = "tas" if where == "/" else f"{where}/tas"
    found = cfagg.open_aggregation(path, name)
    assert (found.dialect, found.grid) == ("CFA-0.5", Grid(EDGES))
    assert found.partitions.file_name(2) == "tas.1.0.nc"
    ds = cfagg.read(path, group=None if where == "/" else where)
    np.testing.assert_array_equal(ds["tas"].values, VALUES)
    assert list(ds.variables) == ["tas"]
    assert ds["tas"].attrs == {"units": "K"}


def test_a_partition_that_was_never_written_is_missing(tmp_path):
    path = write(tmp_path, absent=[(0, 1)])
    expected = VALUES.copy()
    expected[:2, 3:] = np.nan
    np.testing.assert_array_equal(cfagg.read(path, missing="fill")["tas"].values, expected)


def test_a_whole_row_that_was_never_written_lies_between_its_neighbours(tmp_path):
    path = write(tmp_path, absent=[(0, 0), (0, 1)])
    assert cfagg.open_aggregation(path, "tas").grid == Grid(EDGES)


def location(value):
    def change(group):
        group["location"][1, 1] = value

    return change


def replaced(name, value):
    def change(group):
        texts = np.full(group[name].shape, value, object) if group[name].dtype is str and group[name].ndim else value
        group[name][...] = texts

    return change


def remade(name, dims, kind="i4"):
    def change(group):
        group.renameVariable(name, "old")
        group.createVariable(name, kind, dims)

    return change


def renamed(name):
    return lambda group: group.renameVariable(name, "other")


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (location([[2, 4], [4, 6]]), "would be ragged"),
        (location([[3, 4], [3, 6]]), "would be ragged"),
        (replaced("pmshape", [2, 3]), r"pmshape is \[2, 3\]"),
        (replaced("pmdimensions", "x, y"), r"pmdimensions is \['x', 'y'\]"),
        (replaced("shape", 9), r"Partitions\[0\]\.shape: \[9, 9\] does not fit"),
        (remade("shape", ("y", "x")), r"cfa_tas/shape has shape \(2, 2\), expected \(2, 2, 2\)"),
        (remade("shape", ("bounds",)), r"cfa_tas/shape has shape \(2,\)"),
        (remade("pmdimensions", ("bounds",), str), "cfa_tas/pmdimensions has 2 values, expected one"),
        (remade("location", ("y", "x")), r"location spans a partition matrix of shape \(\)"),
        (remade("file", ("y",), str), r"cfa_tas/file has shape \(2,\)"),
        (remade("ncvar", ("y", "x")), "cfa_tas/ncvar holds int32, expected text"),
        (renamed("location"), "cfa_tas/location is missing from the file"),
        (renamed("ncvar"), "cfa_tas/ncvar is missing from the file"),
        (renamed("file"), "cfa_tas/file is missing from the file"),
    ],
)
def test_what_does_not_describe_a_matrix_is_refused(tmp_path, change, message):
    with pytest.raises(UnreadableAggregationError, match=message):
        cfagg.read(write(tmp_path, change=change))


@pytest.mark.parametrize("name", ["/etc/passwd", "../a.nc", "http://archive.example/a.nc"])
def test_a_file_outside_the_folder_is_refused(tmp_path, name):
    path = write(tmp_path, change=replaced("file", name))
    with pytest.raises(AccessError, match=r"pass allow=\["):
        cfagg.read(path)["tas"].values  # noqa: B018
