"""Files of every version in JSON, read whole: NumPy on arrays made by hand is the oracle."""

import json
import re

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.errors import (
    AccessError,
    ConventionError,
    FragmentMismatchError,
    FragmentNotFoundError,
    LimitError,
    RepairWarning,
)
from tests.formats.pp.making import field
from tests.json_dialects import DIALECTS, attributes

VALUES = np.arange(24.0).reshape(4, 6) + 0.5


def fragment(path, values, name="tas", dims=("y", "x"), units="K", before=()):
    """Write one variable after others."""
    with netCDF4.Dataset(path, "w") as d:
        for dim, n in zip(dims, values.shape, strict=True):
            d.createDimension(dim, n)
        for other in before:
            d.createVariable(other, "i4")
        variable = d.createVariable(name, "f8", dims)
        variable.units = units
        variable[...] = values


def aggregation(
    path, array, dims="y x", *, prefix="cfa", conventions="CF-1.6 CFA-0.4", sizes=(("y", 4), ("x", 6)), **marks
):
    with netCDF4.Dataset(path, "w") as d:
        d.Conventions = conventions
        for dim, n in sizes:
            d.createDimension(dim, n)
        variable = d.createVariable("tas", "f8", ())
        variable.units = "K"
        variable.setncatts({**marks, f"{prefix}_dimensions": dims, f"{prefix}_array": json.dumps(array)})
    return path


def document(directions, own):
    """NCA 0.1: rows 0 to 1, and columns of the others turned, in degrees Celsius and as part of a larger array."""
    return {
        "directions": directions,
        "pdimensions": ["y"],
        "pshape": [2],
        "Partitions": [
            {"index": [0], "location": [[0, 2], [0, 6]], "data": {"shape": [2, 6], "file": "a.nc", "ncvar": "tas"}},
            {
                "index": [1],
                "location": [[2, 4], [0, 6]],
                "dimensions": ["x", "y"],
                "directions": own,
                "units": "degC",
                "part": "[(0, 12, 2), (1, 3, 1)]",
                "data": {"shape": [12, 4], "file": "b.nc", "ncvar": "tas"},
            },
        ],
    }


def write(folder, dialect):
    fragment(folder / "a.nc", VALUES[:2])
    larger = np.full((12, 4), -1.0)
    larger[::2, 1:3] = np.flip(VALUES[2:].T, 0) - 273.15
    fragment(folder / "b.nc", larger, dims=("lon", "lat"), units="degC")
    made = document({"y": True, "x": False}, {"x": True, "y": True})
    marks, key, array = attributes(made, ["y", "x"], dialect)
    marks.pop(f"{key[:3]}_dimensions")
    return aggregation(folder / "x.nc", array, prefix=key[:3], conventions=f"CF-1.6 {dialect}", **marks)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_of_each_version_is_read_with_every_value_in_place(tmp_path, dialect):
    path = write(tmp_path, dialect)
    assert cfagg.open_aggregation(path, "tas").dialect == dialect
    found = cfagg.read(path)["tas"]
    np.testing.assert_allclose(found.values, VALUES, rtol=1e-15)
    np.testing.assert_allclose(found[1:4, ::-2].values, VALUES[1:4, ::-2], rtol=1e-15)
    assert "cf_role" not in found.attrs


def test_reversed_partitions_of_cfa_0_4_are_turned_round(tmp_path):
    """cf-python 3.13 gives 3, 2, 1, 0 for the second file, silently."""
    fragment(tmp_path / "a.nc", np.arange(4.0), dims=("x",))
    fragment(tmp_path / "b.nc", np.arange(4.0), dims=("x",))
    records = [
        {"index": [i], "location": [[4 * i, 4 * i + 3]], "subarray": {"file": f, "ncvar": "tas", "shape": [4]}}
        for i, f in enumerate(["a.nc", "b.nc"])
    ]
    records[0]["reverse"] = ["x"]
    array = {"pmdimensions": ["x"], "pmshape": [2], "Partitions": records}
    path = aggregation(tmp_path / "x.nc", array, "x", sizes=[("x", 8)])
    np.testing.assert_array_equal(cfagg.read(path)["tas"].values, [3, 2, 1, 0, 0, 1, 2, 3])


def by_number(folder, number):
    record = {"subarray": {"file": "a.nc", "varid": number, "shape": [4, 6]}}
    return aggregation(folder / "x.nc", {"Partitions": [record]})


def test_a_variable_is_found_by_its_number_in_the_order_in_which_it_was_defined(tmp_path):
    fragment(tmp_path / "a.nc", VALUES, before=["zulu", "alpha"])
    np.testing.assert_array_equal(cfagg.read(by_number(tmp_path, 2))["tas"].values, VALUES)


def test_a_number_that_no_variable_has_is_refused(tmp_path):
    fragment(tmp_path / "a.nc", VALUES)
    with pytest.raises(FragmentNotFoundError, match=r"no variable of number 1, but 1 variables; correct 'varid'"):
        cfagg.read(by_number(tmp_path, 1))["tas"].values  # noqa: B018


@pytest.mark.parametrize("mark", ["cfa_private", "nca_private"])
def test_a_private_array_is_no_variable_of_what_is_read(tmp_path, mark):
    record = {"subarray": {"ncvar": "held", "shape": [4, 6]}}
    path = aggregation(tmp_path / "x.nc", {"Partitions": [record]})
    with netCDF4.Dataset(path, "a") as d:
        for dim, n in (("cfa4", 4), ("cfa6", 6)):
            d.createDimension(dim, n)
        held = d.createVariable("held", "f8", ("cfa4", "cfa6"))
        held.cf_role = mark
        held[...] = VALUES
    ds = cfagg.read(path)
    assert list(ds.variables) == ["tas"]
    assert set(ds.sizes) == {"y", "x"}
    np.testing.assert_array_equal(ds["tas"].values, VALUES)


# Fields of PP files


def fields(folder, *, byteorder=">", **keys):
    """Write two fields of two by three values in one PP file, and a CFA aggregation of them in time."""
    one = np.arange(6.0).reshape(2, 3)
    (folder / "a.pp").write_bytes(field(one, order=byteorder) + field(one + 10, order=byteorder))
    records = [
        {
            "index": [i],
            "location": [[i, i], [0, 1], [0, 2]],
            "pdimensions": ["y", "x"],
            "subarray": {"shape": [2, 3], "format": "PP", "file": "a.pp", "file_offset": 296 * i, **keys},
        }
        for i in range(2)
    ]
    array = {"pmdimensions": ["t"], "pmshape": [2], "Partitions": records}
    directions = {"directions": {"t": True, "y": True, "x": True}} if keys.keys() & {"endian", "_FillValue"} else {}
    return aggregation(
        folder / "x.nc",
        array | directions,
        "t y x",
        conventions="CFA-0.3" if directions else "CFA-0.4",
        sizes=(("t", 2), ("y", 2), ("x", 3)),
    )


def test_fields_by_the_byte_address_of_their_headers_are_read_from_cfa_0_4(tmp_path):
    assert cfagg.read(fields(tmp_path))["tas"].values[:, 1, 2].tolist() == [5, 15]


def test_fields_as_cf_python_refers_to_them_are_read_by_the_addresses_of_their_headers(tmp_path):
    path = fields(tmp_path)
    with netCDF4.Dataset(path, "a") as d:
        array = json.loads(d["tas"].cfa_array)
        for i, record in enumerate(array["Partitions"]):
            named = {"filename": "a.pp", "header_offset": 296 * i + 4, "data_offset": 296 * i + 268, "disk_length": 24}
            record["subarray"] = {**named, "shape": [2, 3]}
            record["format"] = "UM"
        d["tas"].cfa_array = json.dumps(array)
    with pytest.warns(RepairWarning, match="'(filename|header_offset|format)'"):
        found = cfagg.read(path)["tas"].values
    assert found[:, 1, 2].tolist() == [5, 15]


@pytest.mark.parametrize(("byteorder", "endian", "found"), [(">", "little", "big"), ("<", "big", "little")])
def test_a_byte_order_that_is_not_that_of_the_file_is_refused(tmp_path, byteorder, endian, found):
    path = fields(tmp_path, byteorder=byteorder, endian=endian)
    with pytest.raises(FragmentMismatchError, match=rf"a\.pp are {found}-endian, but the aggregation says {endian}"):
        cfagg.read(path)["tas"].values  # noqa: B018


@pytest.mark.parametrize(("byteorder", "endian"), [(">", "big"), ("<", "little")])
def test_the_byte_order_of_the_file_is_read(tmp_path, byteorder, endian):
    path = fields(tmp_path, byteorder=byteorder, endian=endian)
    assert cfagg.read(path)["tas"].values[:, 1, 2].tolist() == [5, 15]


def test_the_fill_value_of_a_field_that_cfa_0_3_gives_is_missing(tmp_path):
    found = cfagg.read(fields(tmp_path, _FillValue=15))["tas"].values
    assert np.isnan(found).sum() == 1
    assert np.isnan(found[1, 1, 2])


# What may be opened

REFUSED = [
    ("/etc/passwd", None, "/etc"),
    ("../a.nc", None, "{folder}"),
    ("a.nc", "..", "{folder}"),
    ("a.nc", "/srv/elsewhere", "/srv/elsewhere"),
    ("a.nc", "http://archive.example/files", "http://archive.example/files"),
    ("http://archive.example/a.nc", None, "http://archive.example"),
]


@pytest.mark.few(10)
@pytest.mark.parametrize(("file", "base", "allow"), REFUSED)
@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "NCA-0.1"])
def test_a_file_outside_the_folder_is_refused_with_what_admits_it(tmp_path, dialect, file, base, allow):
    (tmp_path / "in").mkdir()
    record = {"location": [[0, 4], [0, 6]], "data": {"shape": [4, 6], "file": file, "ncvar": "tas"}, "index": []}
    doc = {"directions": {"y": True, "x": True}, "pdimensions": [], "pshape": [], "Partitions": [record]}
    marks, key, array = attributes(doc, ["y", "x"], dialect)
    marks.pop(f"{key[:3]}_dimensions")
    array |= {} if base is None else {"base": base}
    path = aggregation(tmp_path / "in" / "x.nc", array, prefix=key[:3], conventions=f"CF-1.6 {dialect}", **marks)
    wanted = allow.format(folder=tmp_path)
    with pytest.raises(
        AccessError, match=re.escape(f"pass allow=['{wanted}'] or, on the command line, --allow {wanted}")
    ):
        cfagg.read(path)["tas"].values  # noqa: B018


# Aggregations of aggregations


def chain(folder, dialects, last):
    """Write aggregations of aggregations, each in a dialect, the innermost of the file `last`."""
    for i, dialect in enumerate(dialects):
        file = last if i == len(dialects) - 1 else f"x{i + 1}.nc"
        record = {"location": [[0, 4], [0, 6]], "data": {"shape": [4, 6], "file": file, "ncvar": "tas"}, "index": []}
        doc = {"directions": {"y": True, "x": True}, "pdimensions": [], "pshape": [], "Partitions": [record]}
        marks, key, array = attributes(doc, ["y", "x"], dialect)
        marks.pop(f"{key[:3]}_dimensions")
        aggregation(folder / f"x{i}.nc", array, prefix=key[:3], conventions=f"CF-1.6 {dialect}", **marks)
    return folder / "x0.nc"


def test_aggregations_of_aggregations_may_be_in_all_versions(tmp_path):
    fragment(tmp_path / "a.nc", VALUES)
    np.testing.assert_array_equal(cfagg.read(chain(tmp_path, list(DIALECTS), "a.nc"))["tas"].values, VALUES)


def in_variables(folder, name, file, terms, conventions):
    """Write an aggregation of one fragment that variables describe."""
    with netCDF4.Dataset(folder / name, "w") as d:
        d.Conventions = conventions
        for dim, n in (("y", 4), ("x", 6), ("j", 2), ("one", 1)):
            d.createDimension(dim, n)
        tas = d.createVariable("tas", "f8", ())
        said = " ".join(f"{term}: f_{what}" for term, what in terms.items())
        tas.setncatts({"units": "K", "aggregated_dimensions": "y x", "aggregated_data": said})
        d.createVariable("f_sizes", "i4", ("j", "one"))[...] = [[4], [6]]
        for what, text in (("file", file), ("name", "tas"), ("format", "nc")):
            if what in terms.values():
                d.createVariable(f"f_{what}", str, ("one", "one"))[...] = np.array([[text]], object)


def mixed(folder, last):
    """Write a CFA 0.4 aggregation of one of CF-1.13, of one of CFA-0.6.2, of one of NCA 0.1, of `last`."""
    chain(folder, ["CFA-0.4"], "v0.nc")
    in_variables(folder, "v0.nc", "v1.nc", {"map": "sizes", "uris": "file", "identifiers": "name"}, "CF-1.13")
    terms = {"location": "sizes", "file": "file", "format": "format", "address": "name"}
    in_variables(folder, "v1.nc", "n.nc", terms, "CF-1.10 CFA-0.6.2")
    record = {"location": [[0, 4], [0, 6]], "data": {"shape": [4, 6], "file": last, "ncvar": "tas"}, "index": []}
    document_ = {"directions": {"y": True, "x": True}, "pdimensions": [], "pshape": [], "Partitions": [record]}
    aggregation(folder / "n.nc", document_, prefix="nca", conventions="CF-1.5 NCA")
    return folder / "x0.nc"


def test_aggregations_in_json_and_in_variables_may_be_of_each_other(tmp_path):
    fragment(tmp_path / "a.nc", VALUES)
    np.testing.assert_array_equal(cfagg.read(mixed(tmp_path, "a.nc"))["tas"].values, VALUES)


def test_a_circle_over_json_and_variables_is_refused(tmp_path):
    with pytest.raises(ConventionError, match="refers to itself"):
        cfagg.read(mixed(tmp_path, "v0.nc"))["tas"].values  # noqa: B018


def test_aggregations_that_refer_to_each_other_over_versions_are_refused(tmp_path):
    with pytest.raises(ConventionError, match="refers to itself"):
        cfagg.read(chain(tmp_path, ["CFA-0.4", "NCA-0.1", "CFA-0.3"], "x0.nc"))["tas"].values  # noqa: B018


def test_aggregations_of_aggregations_over_versions_have_a_limit(tmp_path):
    fragment(tmp_path / "a.nc", VALUES)
    with pytest.raises(LimitError, match="8 levels deep"):
        cfagg.read(chain(tmp_path, ["CFA-0.4", "NCA-0.2.2", "CFA-0.3"] * 3, "a.nc"))["tas"].values  # noqa: B018
