"""Aggregation variables of CFA-0.6.2 and of two drafts of CF-1.13."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.conventions.cfa06 import substitutions
from cfagg.errors import AccessError, ConventionError, FragmentNotFoundError, RepairWarning, UnsupportedError
from tests import instruction_files as files
from tests import nca_files
from tests.conventions.fragments import ROWS, VALUES, data, edited


def write(folder, names=(("p0.nc",), ("p1.nc",)), addresses="tas", formats="nc", **more):
    lengths = {"time": 12, "lat": 4}
    return files.cfa(folder / "a.nc", "tas", "f8", lengths, ROWS, names, addresses, formats, {"units": "K"}, **more)


@pytest.mark.few(3)
@pytest.mark.parametrize("addresses", ["tas", [["tas"], ["tas"]]], ids=["scalar", "one each"])
@pytest.mark.parametrize("formats", ["nc", "NC", [["nc"], ["nc"]]], ids=["scalar", "upper case", "one each"])
def test_fragments_are_read_by_file_format_and_address(parts, addresses, formats):
    path = write(parts, addresses=addresses, formats=formats)
    np.testing.assert_array_equal(data(path), VALUES)
    assert cfagg.open_aggregation(path, "tas").dialect == "CFA-0.6.2"
    assert cfagg.read(path).attrs["Conventions"] == "CF-1.10"


def test_terms_may_be_in_any_case(parts):
    terms = "ADDRESS: address File: file Location: location fOrMaT: format"
    np.testing.assert_array_equal(
        data(edited(write(parts), lambda r: r["tas"].setncattr("aggregated_data", terms))), VALUES
    )


def test_a_relative_name_is_a_path_and_no_uri(parts):
    (parts / "p1.nc").rename(parts / "p%20a:b.nc")
    np.testing.assert_array_equal(data(write(parts, (("p0.nc",), ("p%20a:b.nc",)))), VALUES)


def test_a_file_uri_is_decoded(parts):
    (parts / "p1.nc").rename(parts / "p 1.nc")
    np.testing.assert_array_equal(data(write(parts, (("p0.nc",), (f"file://{parts}/p%201.nc",)))), VALUES)


def test_names_are_substituted_as_the_file_says(parts):
    path = write(parts, (("${BASE}p0.nc",), ("${BASE}p${n}.nc",)), substitutions=f"${{n}}: 1 ${{BASE}}: {parts}/")
    np.testing.assert_array_equal(data(path), VALUES)


@pytest.mark.parametrize("key", ["BASE", "${BASE}"])
def test_the_user_overrides_substitutions(parts, key):
    path = write(parts, (("${BASE}p0.nc",), ("${BASE}p1.nc",)), substitutions="${BASE}: file://data1/")
    with pytest.raises(UnsupportedError, match=r"file://data1/p0\.nc.*URL of a kind that is not read"):
        data(path)
    np.testing.assert_array_equal(data(path, substitutions={key: ""}), VALUES)
    np.testing.assert_array_equal(data(path, substitutions={key: f"file://{parts}/"}), VALUES)


def test_a_substitution_is_made_once():
    assert substitutions("${a}: ${b} ${b}: x", {}) == {"${a}": "${b}", "${b}": "x"}


def test_a_substitution_that_holds_another_base_is_left_as_it_is(parts):
    path = write(parts, (("${a}p0.nc",), ("${b}p1.nc",)), substitutions="${a}: ${b} ${b}: ./")
    assert cfagg.open_aggregation(path, "tas").partitions.file_name(0) == "${b}p0.nc"


@pytest.mark.parametrize("first", ["gone.nc", "https://host.invalid/p1.nc", "/etc/p1.nc", "damaged.nc", "other.pp"])
def test_the_first_version_that_opens_is_read(parts, first):
    (parts / "damaged.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    formats = [[["nc", None]], [["pp" if first.endswith("pp") else "nc", "nc"]]]
    path = write(parts, [[["p0.nc", None]], [[first, "p1.nc"]]], [[["tas", None]], [["x", "tas"]]], formats)
    np.testing.assert_array_equal(data(path), VALUES)


def test_versions_may_have_their_padding_anywhere(parts):
    names = [[[None, "p0.nc"]], [["p1.nc", None]]]
    path = write(parts, names, [[[None, "tas"]], [["tas", None]]], [[[None, "nc"]], [["nc", None]]])
    np.testing.assert_array_equal(data(path), VALUES)
    assert not cfagg.open_aggregation(path, "tas").partitions.versions


def test_where_no_version_opens_the_first_one_is_named(parts):
    path = write(parts, [[["p0.nc", None]], [["gone.nc", "/etc/p1.nc"]]], [[["tas", None]], [["tas", "tas"]]])
    with pytest.raises(FragmentNotFoundError, match=r"partition \(1, 0\).*gone.nc"):
        data(path)
    with pytest.raises(AccessError, match=r"/etc/p1\.nc"):
        data(path, missing="fill")


def test_a_fragment_without_a_file_and_address_is_missing(parts):
    path = write(parts, (("p0.nc",), (None,)), (("tas",), (None,)), (("nc",), (None,)))
    with pytest.raises(FragmentNotFoundError, match=r"partition \(1, 0\): the partition is declared missing"):
        data(path)
    expected = np.where(np.arange(12)[:, None] < 3, VALUES, np.nan)
    np.testing.assert_array_equal(data(path, missing="fill"), expected)


def test_a_scalar_address_is_for_fragments_with_a_file(parts):
    assert cfagg.open_aggregation(write(parts, (("p0.nc",), (None,))), "tas").partitions.present.tolist() == [
        True,
        False,
    ]


def test_a_file_without_an_address_is_refused(parts):
    with pytest.raises(ConventionError, match=r"address.*the address of fragment \[1, 0\] is missing"):
        cfagg.read(write(parts, addresses=[["tas"], [None]]))


@pytest.mark.parametrize("address", ["inside", "/aggregation/inside"])
def test_a_fragment_in_the_file_itself_is_found_beside_its_address_and_left_out_of_what_is_read(parts, address):
    path = parts / "a.nc"
    with netCDF4.Dataset(path, "w") as root:
        root.Conventions = "CF-1.10 CFA-0.6.2"
        files.dimensions(root, time=12, lat=4, f_time=2, f_lat=1)
        files.sizes(root, "aggregation/location", ROWS)
        files.text(root, "aggregation/file", ("f_time", "f_lat"), [["p0.nc"], [None]])
        files.text(root, "aggregation/format", (), "nc")
        files.text(root, "aggregation/address", ("f_time", "f_lat"), [["tas"], [address]])
        group = root["aggregation"]
        group.createDimension("t9", 9)
        inside = group.createVariable("inside", "f8", ("t9", "lat"))
        inside.units = "degC"
        inside[:] = VALUES[3:] - 273.15
        terms = {k: f"/aggregation/{k}" for k in ("location", "file", "format", "address")}
        files.aggregated(root, "tas", "f8", ["time", "lat"], terms, {"units": "K"})
    np.testing.assert_allclose(data(path), VALUES, atol=1e-12)
    assert not cfagg.read(path, group="aggregation").variables


def test_an_aggregation_without_formats_is_read_with_a_warning(parts):
    terms = "location: location file: file address: address"
    path = edited(write(parts), lambda r: r["tas"].setncattr("aggregated_data", terms))
    with pytest.warns(RepairWarning, match="no term 'format'"):
        np.testing.assert_array_equal(data(path), VALUES)


def test_other_terms_are_facts_about_the_fragments(parts):
    path = write(parts, terms={"tracking_id": [["764489ad"], [None]]})
    terms = cfagg.open_aggregation(path, "tas").terms
    assert terms.keys() == {"tracking_id"}
    assert terms["tracking_id"].filled("-").tolist() == [["764489ad"], ["-"]]


def test_facts_about_fragments_are_read_as_coordinates(parts):
    ds = cfagg.read(write(parts, terms={"tracking_id": [["764489ad"], [None]], "file_format": [["a"], ["b"]]}))
    assert ds.tas.coords.keys() == {"tracking_id", "file_format"}
    assert ds.tracking_id.dims == ("time",)
    assert ds.tracking_id.values.tolist() == ["764489ad"] * 3 + [""] * 9
    assert ds.tas.where(ds.file_format == "b", drop=True).shape == (9, 4)


def test_facts_about_fragments_are_shown_if_they_are_named(parts):
    path = write(parts, terms={"tracking_id": [["764489ad"], [None]]})
    assert "764489ad" in str(cfagg.show(path, variables="tracking_id"))


def test_facts_about_fragments_are_converted(parts):
    import xarray as xr

    path = write(parts, terms={"tracking_id": [["764489ad"], [None]]})
    cfagg.convert(path, parts / "a.zarr")
    ds = xr.open_zarr(parts / "a.zarr")
    assert ds.tas.tracking_id.values.tolist() == ["764489ad"] * 3 + [""] * 9
    assert ds.attrs["Conventions"] == "CF-1.10"
    np.testing.assert_array_equal(ds.tas.values, VALUES)


def test_numbers_about_fragments_are_read_as_coordinates(tmp_path):
    nca_files.fragment(tmp_path / "p.nc", "tas", VALUES, ["time", "lat"], {"units": "K"})
    path = files.cfa(
        tmp_path / "a.nc", "tas", "f8", {"time": 12, "lat": 4}, [[12], [4]], [["p.nc"]], attributes={"units": "K"}
    )

    def change(root):
        root.createVariable("year", "i4", ("f_time", "f_lat"))[:] = 1999
        root["tas"].aggregated_data += " year: year"

    ds = cfagg.read(edited(path, change))
    assert (ds.year.dims, int(ds.year), ds.year.dtype) == ((), 1999, "i4")


def test_a_term_whose_variable_does_not_span_the_fragments_is_left_out_with_a_warning(parts):
    path = edited(
        write(parts), lambda r: r["tas"].setncattr("aggregated_data", r["tas"].aggregated_data + " x: location")
    )
    with pytest.warns(RepairWarning, match="the term 'x' of aggregated_data is left out: 'location' has shape"):
        assert cfagg.open_aggregation(path, "tas").terms == {}


@pytest.mark.parametrize("to", ["CFA-0.6.2", "NCA-0.1"])
def test_a_term_with_a_further_dimension_is_read_and_translated_as_any_variable(parts, to):
    def change(root):
        files.dimensions(root, two=2)
        root.createVariable("ends", "i4", ("f_time", "f_lat", "two"))[:] = [[[1, 2]], [[3, 4]]]
        root["tas"].aggregated_data += " ends: ends"

    path = edited(write(parts), change)
    with pytest.warns(
        RepairWarning, match=r"'ends' of aggregated_data is left out: .*; it is read as an ordinary variable"
    ):
        ds = cfagg.read(path)
    assert (ds.ends.dims, ds.ends.values.ravel().tolist()) == (("f_time", "f_lat", "two"), [1, 2, 3, 4])
    assert "file" not in ds
    with pytest.warns(RepairWarning, match="'ends'"):
        cfagg.convert(path, parts / "b.nc", to=to)
    np.testing.assert_array_equal(cfagg.read(parts / "b.nc").ends, ds.ends)


def draft(path, terms, lengths=None):
    """Write an aggregation with the terms of a draft; each is the name of a variable, too."""
    with netCDF4.Dataset(path, "w") as root:
        files.dimensions(root, time=12, lat=4, f_time=2, f_lat=1)
        sizes, *others = terms
        files.sizes(root, sizes, ROWS)
        for term, values in zip(others, ([["p0.nc"], ["p1.nc"]], "tas"), strict=False):
            if "value" in term:
                root.createVariable(term, "f4", ("f_time", "f_lat"))[:] = [[1], [2]]
            else:
                files.text(root, term, () if isinstance(values, str) else ("f_time", "f_lat"), values)
        files.aggregated(root, "tas", "f8", ["time", "lat"], {t: t for t in terms}, {"units": "K"})
    return path


@pytest.mark.parametrize("terms", [("map", "location", "variable"), ("shape", "location", "address")])
def test_the_terms_of_drafts_are_read(parts, terms):
    np.testing.assert_array_equal(data(draft(parts / "a.nc", terms)), VALUES)


@pytest.mark.parametrize("terms", [("map", "unique_value"), ("shape", "value")])
def test_the_unique_values_of_drafts_are_read(tmp_path, terms):
    np.testing.assert_array_equal(data(draft(tmp_path / "a.nc", terms))[:, 0], [1] * 3 + [2] * 9)


def test_an_aggregation_that_is_packed_unpacks_what_its_fragments_make(tmp_path):
    stored = np.array([0, 5958, -11916], "i2")
    nca_files.fragment(tmp_path / "p.nc", "tas", stored, ["t"])
    attributes = {"scale_factor": np.float32(0.5), "add_offset": np.float32(270)}
    path = files.cfa(tmp_path / "a.nc", "tas", "i2", {"t": 3}, [[3]], ["p.nc"], attributes=attributes)
    np.testing.assert_allclose(data(path), stored * np.float32(0.5) + np.float32(270))
