"""Aggregation variables of CF-1.13: what its attributes and the variables that they name say."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest

import cfagg
from cfagg.conventions.instructions import Column
from cfagg.errors import ConventionError, RepairWarning, SourceError
from tests import instruction_files as files
from tests import nca_files
from tests.conventions.fragments import ROWS, VALUES, data, edited


@pytest.mark.parametrize("odd", [None, "", "n00001.nc", "é.nc", "n0\0", "long/" * 9000])
def test_many_texts_become_the_codes_that_a_dictionary_gives(odd):
    texts = np.random.default_rng(3).permutation([f"n{i:05}.nc" for i in range(12_000)]).tolist()
    texts[7_000:7_001] = [] if odd is None else [odd, "n0"]
    expected = {text: code for code, text in enumerate(dict.fromkeys(t for t in texts if t))}
    found = Column.of(texts)
    assert list(found.table) == list(expected)
    assert found.codes.tolist() == [expected.get(t, -1) for t in texts]


def write(folder, uris=(("p0.nc",), ("p1.nc",)), identifiers="tas", **more):
    lengths = {"time": 12, "lat": 4}
    return files.cf(folder / "a.nc", "tas", "f8", lengths, ROWS, uris, identifiers, {"units": "K"}, **more)


@pytest.mark.parametrize("characters", [False, True], ids=["strings", "characters"])
@pytest.mark.parametrize("identifiers", ["tas", [["tas"], ["tas"]]], ids=["scalar", "one each"])
def test_fragments_are_read_by_uri_and_identifier(parts, characters, identifiers):
    np.testing.assert_array_equal(data(write(parts, identifiers=identifiers, characters=characters)), VALUES)


@pytest.mark.parametrize("kind", ["i1", "i2", "u4", "i8", "u8"])
def test_sizes_may_be_integers_of_any_type(parts, kind):
    # Bytes have no fill value but one that is declared.
    np.testing.assert_array_equal(data(write(parts, map_type=kind, map_fill=-1 if kind == "i1" else None)), VALUES)


def test_features_come_in_any_order(parts):
    terms = "identifiers: fragment_identifiers\n uris: fragment_uris map: fragment_map"
    path = edited(write(parts), lambda r: r["tas"].setncattr("aggregated_data", terms))
    np.testing.assert_array_equal(data(path), VALUES)


def test_the_case_of_features_matters(parts):
    terms = "Map: fragment_map uris: fragment_uris identifiers: fragment_identifiers"
    path = edited(write(parts), lambda r: r["tas"].setncattr("aggregated_data", terms))
    with pytest.raises(ConventionError, match=r"features Map, uris, identifiers; expected map.*case"):
        cfagg.read(path)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("a%20b.nc", "a b.nc"),
        ("caf%C3%A9.nc", "café.nc"),
        ("café.nc", "café.nc"),
        ("sub/../x%25.nc", "x%.nc"),
        ("./a:b.nc", "a:b.nc"),
        ("x%3Ay.nc", "x:y.nc"),
        ("h%23.nc", "h#.nc"),
    ],
)
def test_a_relative_uri_is_decoded_and_starts_at_the_aggregation_file(parts, monkeypatch, uri, name):
    (parts / "sub").mkdir()
    (parts / "p1.nc").rename(parts / name)
    elsewhere = parts / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    np.testing.assert_array_equal(data(write(parts, (("p0.nc",), (uri,)))), VALUES)


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "FILE://localhost{}"])
def test_a_file_uri_means_a_path(parts, form):
    (parts / "p1.nc").rename(parts / "p 1.nc")
    uri = form.format(f"{parts}/p%201.nc")
    path = write(parts, (("p0.nc",), (uri,)))
    np.testing.assert_array_equal(data(path), VALUES)
    assert cfagg.open_aggregation(path, "tas").partitions.file_name(1) == f"{parts}/p 1.nc"


def test_absolute_paths_are_read_as_they_are_with_a_warning(parts):
    (parts / "p1.nc").rename(parts / "p%201.nc")  # only in a URI is this a blank
    path = write(parts, ((f"{parts}/p0.nc",), (f"{parts}/p%201.nc",)))
    with pytest.warns(RepairWarning, match=r"'.*/p0.nc' of fragment \[0, 0\] is an absolute path, not a URI"):
        aggregation = cfagg.open_aggregation(path, "tas")
    assert aggregation.partitions.file_name(1) == f"{parts}/p%201.nc"
    with pytest.warns(RepairWarning):
        np.testing.assert_array_equal(data(path), VALUES)


def test_every_fragment_may_have_its_own_identifier(parts):
    nca_files.fragment(parts / "p2.nc", "other", VALUES[3:], ["t", "y"])
    np.testing.assert_array_equal(data(write(parts, (("p0.nc",), ("p2.nc",)), [["tas"], ["other"]])), VALUES)


@pytest.mark.parametrize(
    ("uris", "message"),
    [
        ((("//host/p0.nc",), ("p1.nc",)), r"uris.*'//host/p0.nc' of fragment \[0, 0\] begins with '//'"),
        ((("p0.nc",), ("#p1.nc",)), r"'#p1.nc' of fragment \[1, 0\] begins with '#'"),
        ((("p0.nc",), ("",)), r"uris: the value of fragment \[1, 0\] is missing"),
        ((("p0.nc",), ("urn:isbn:1",)), "'urn:isbn:1' is a URI of an unsupported kind"),
    ],
)
def test_what_is_no_uri_of_a_fragment_is_refused(parts, uris, message):
    with pytest.raises(ConventionError, match=message):
        cfagg.read(write(parts, uris))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[3, 8], [4]], "sizes have the sum 11; the dimension has 12"),
        ([[3, 9], [5]], "size 5; expected 1 to 4"),
        ([[0, 12], [4]], "size 0; expected 1 to 12"),
        ([[-3, 15], [4]], "size -3; expected 1 to 12"),
        ([[3, 9]], "expected one row for each of the 2"),
        ([[3, 4, 5], [4]], r"fragment_uris' has shape \(2, 1\), but the array of fragments has shape \(3, 1\)"),
    ],
)
def test_sizes_that_do_not_tile_the_array_are_refused(parts, rows, message):
    path = write(parts)
    edited(path, lambda r: r.renameVariable("fragment_map", "old"))
    edited(path, lambda r: files.sizes(r, "fragment_map", rows))
    with pytest.raises(ConventionError, match=message):
        cfagg.read(path)


def test_sizes_along_a_dimension_that_was_never_written_are_refused(parts):
    def change(root):
        root.createDimension("records", None)
        root["tas"].aggregated_dimensions = "records lat"

    with pytest.raises(ConventionError, match="fragment 0 has size 3; the dimension has no elements"):
        cfagg.read(edited(write(parts), change))


def test_several_files_for_a_fragment_are_refused(parts):
    path = edited(write(parts), lambda r: r.renameVariable("fragment_uris", "old"))

    def change(root):
        root.createDimension("versions", 2)
        files.text(root, "fragment_uris", ("f_time", "f_lat", "versions"), [[["a.nc", "p0.nc"]], [["p1.nc", "b.nc"]]])

    with pytest.raises(ConventionError, match=r"'fragment_uris' has shape \(2, 1, 2\), but the array of .* \(2, 1\)"):
        cfagg.read(edited(path, change))


def test_missing_sizes_may_be_declared_by_any_attribute(parts):
    path = write(parts)
    edited(path, lambda r: r.renameVariable("fragment_map", "old"))

    def change(root):
        variable = root.createVariable("fragment_map", "i4", ("j2", "i2"))
        variable.missing_value = np.int32(-9)
        variable[:] = [[3, 9], [4, -9]]

    np.testing.assert_array_equal(data(edited(path, change)), VALUES)


def test_what_describes_fragments_is_left_out_of_what_is_read(parts):
    ds = cfagg.read(write(parts))
    assert set(ds.variables) == {"tas"}
    assert dict(ds.sizes) == {"time": 12, "lat": 4}
    assert cfagg.open_aggregation(parts / "a.nc", "tas").dialect == "CF-1.13"


@pytest.mark.parametrize("term", ["map", "uris", "identifiers"])
def test_a_variable_that_does_not_exist_is_named(parts, term):
    path = edited(write(parts), lambda r: r.renameVariable(f"fragment_{term}", "gone"))
    with pytest.raises(ConventionError, match=f"names 'fragment_{term}' for '{term}', but the file has no such"):
        cfagg.read(path)


def test_an_aggregation_that_is_no_scalar_value_is_never_dropped(parts):
    path = edited(write(parts), lambda r: r["tas"].delncattr("aggregated_data"))
    with pytest.raises(ConventionError, match=r"tas.*no 'aggregated_data'"):
        cfagg.read(path)


def test_instructions_may_stand_in_groups(parts):
    path = parts / "a.nc"
    with netCDF4.Dataset(path, "w") as root:
        files.dimensions(root, time=12, lat=4, f_time=2, f_lat=1)
        files.sizes(root, "aggregation/map", ROWS)
        files.text(root, "aggregation/uris", ("f_time", "f_lat"), [["p0.nc"], ["p1.nc"]])
        files.text(root, "model/run/ids", (), "tas")
        files.aggregated(
            root, "model/run/tas", "f8", ["time", "lat"],
            {"map": "/aggregation/map", "uris": "aggregation/uris", "identifiers": "ids"},
            {"units": "K"},
        )  # fmt: skip
    np.testing.assert_array_equal(data(path, group="model/run"), VALUES)
    assert not cfagg.read(path, group="aggregation").variables


def in_a_group(path, dims):
    """Write an aggregation in a group that has a dimension of the same name as the root, of another size."""
    with netCDF4.Dataset(path, "w") as root:
        root.Conventions = "CF-1.13"
        files.dimensions(root, time=5, lat=4, f_time=2, f_lat=1)
        files.sizes(root, "map", ROWS)
        files.text(root, "uris", ("f_time", "f_lat"), [["p0.nc"], ["p1.nc"]])
        files.text(root, "model/ids", (), "tas")
        root["model"].createDimension("time", 12)
        terms = {"map": "../map", "uris": "../uris", "identifiers": "ids"}
        files.aggregated(root, "model/tas", "f8", dims, terms, {"units": "K"})
    return path


@pytest.mark.parametrize("dims", [["/model/time", "/lat"], ["time", "../lat"]])
def test_dimensions_may_be_named_by_their_paths(parts, dims):
    path = in_a_group(parts / "a.nc", dims)
    found = cfagg.read(path, group="model").tas
    assert found.dims == ("time", "lat")
    np.testing.assert_array_equal(found, VALUES)
    assert "its 2 fragments refer to 2 datasets" in str(cfagg.check(path))


def test_a_dimension_that_another_hides_is_not_one_of_an_aggregation(parts):
    path = in_a_group(parts / "a.nc", ["/time", "/lat"])
    with pytest.raises(ConventionError, match="of the variable, and those above it, have no dimension '/time'"):
        cfagg.read(path, group="model")


def unique(path, dtype, values, *, kind=None, attributes=None, fill=None, master_fill=None):
    """Write an aggregation of 2 and 3 elements, each of one value."""
    with netCDF4.Dataset(path, "w") as root:
        files.dimensions(root, t=5, f_t=len(values))
        files.sizes(root, "m", [[2, 3]])
        if dtype is str:
            files.text(root, "u", ("f_t",), values)
        else:
            variable = root.createVariable("u", kind or dtype, ("f_t",), fill_value=fill)
            variable.setncatts(attributes or {})
            gone = [v is None for v in values]
            variable[:] = np.ma.array(np.array([0 if v is None else v for v in values], kind or dtype), mask=gone)
        master = {"fill_value": master_fill} if master_fill is not None else {}
        files.aggregated(root, "x", dtype, ["t"], {"unique_values": "u", "map": "m"}, **master)
    return path


def test_unique_values_fill_their_fragments(tmp_path):
    assert data(unique(tmp_path / "a.nc", "f4", [1.5, -2]), "x").tolist() == [1.5, 1.5, -2, -2, -2]
    assert data(unique(tmp_path / "b.nc", str, ["é", "b"]), "x").tolist() == ["é", "é", "b", "b", "b"]
    assert data(unique(tmp_path / "c.nc", "f8", [1, 2], kind="i2"), "x").tolist() == [1, 1, 2, 2, 2]


@pytest.mark.parametrize(("dtype", "master_fill"), [("f4", None), ("f4", -1.0), ("i4", -7), ("f8", 9.0)])
def test_a_missing_unique_value_reads_as_missing(tmp_path, dtype, master_fill):
    found = data(unique(tmp_path / "a.nc", dtype, [3, None], fill=-55, master_fill=master_fill), "x")
    np.testing.assert_array_equal(found, [3, 3, np.nan, np.nan, np.nan])


def test_a_missing_unique_value_is_the_missing_value_of_the_array(tmp_path):
    path = unique(tmp_path / "a.nc", "i4", [3, None], fill=-55, master_fill=-7)
    assert data(path, "x", mask_and_scale=False).tolist() == [3, 3, -7, -7, -7]
    assert data(unique(tmp_path / "b.nc", str, ["a", None]), "x").tolist() == ["a", "a", "", "", ""]
    held = unique(tmp_path / "c.nc", "i4", [3, -7], master_fill=-7)
    np.testing.assert_array_equal(data(held, "x"), [3, 3, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("dtype", "kind", "values"),
    [("i2", "i4", [1, 40000]), ("u1", "i2", [1, -2]), ("i4", "f8", [1, 2.5]), ("f4", "f8", [1, 1e300]),
     ("i8", "f8", [1, 2.0**63]), ("f8", "i8", [1, 2**53 + 1]), ("f4", "i4", [1, -(2**24) - 1]),
     ("f8", "u8", [1, 2**64 - 1]), ("u8", "i8", [1, -2])],
)  # fmt: skip
def test_a_unique_value_that_the_type_of_the_array_cannot_hold_is_refused(tmp_path, dtype, kind, values):
    with pytest.raises(ConventionError, match=r"the value .* of fragment \[1\] cannot be held by the type"):
        cfagg.read(unique(tmp_path / "a.nc", dtype, values, kind=kind))


def test_a_missing_unique_value_may_be_one_that_the_type_of_the_array_cannot_hold(tmp_path):
    found = data(unique(tmp_path / "a.nc", "i2", [3, None], kind="i4", fill=-55000, master_fill=-7), "x")
    np.testing.assert_array_equal(found, [3, 3, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(("kind", "values"), [("i1", [-3, 7]), ("u1", [253, 7]), ("i2", [253, 7])])
def test_unique_values_of_an_array_of_unsigned_numbers_in_a_signed_type(tmp_path, kind, values):
    said = {"_Unsigned": "true"} if kind == "i1" else None
    path = unique(tmp_path / "a.nc", "i1", values, kind=kind, attributes=said)
    with netCDF4.Dataset(path, "a") as root:
        root["x"].setncattr("_Unsigned", "true")
    assert data(path, "x").tolist() == [253, 253, 7, 7, 7]


@pytest.mark.parametrize("attributes", [{"scale_factor": 2.0}, {"units": "degC"}])
def test_unique_values_that_are_stored_otherwise_than_the_array_are_refused(tmp_path, attributes):
    with pytest.raises(ConventionError, match="'u' has "):
        cfagg.read(unique(tmp_path / "a.nc", "f4", [1, 2], attributes=attributes))


def test_a_missing_unique_value_of_integers_without_a_missing_value_is_refused(tmp_path):
    path = unique(tmp_path / "a.nc", "i4", [3, None], fill=-55)
    with pytest.raises(ConventionError, match=r"of fragment \[1\] is missing, .* declare a _FillValue"):
        cfagg.read(path)


def test_a_packed_aggregation_unpacks_what_its_fragments_make(tmp_path):
    stored = np.array([0, 5958, 11916, -3], "i2")
    nca_files.fragment(tmp_path / "p.nc", "tas", stored, ["t"])
    attributes = {"scale_factor": np.float32(0.5), "add_offset": np.float32(270), "units": "K"}
    path = files.cf(tmp_path / "a.nc", "tas", "i2", {"t": 4}, [[4]], ["p.nc"], attributes=attributes)
    np.testing.assert_allclose(data(path), stored * np.float32(0.5) + np.float32(270))
    np.testing.assert_array_equal(data(path, mask_and_scale=False), stored)


def test_a_scalar_array_has_one_fragment(tmp_path):
    nca_files.fragment(tmp_path / "p.nc", "tas", np.float64(281.5), [])
    path = files.cf(tmp_path / "a.nc", "tas", "f8", {}, [], "p.nc")
    assert data(path).tolist() == 281.5


def test_an_empty_dimension_has_no_fragments(tmp_path):
    path = files.cf(tmp_path / "a.nc", "tas", "f8", {"t": None}, [[0]], ["p.nc"])
    assert data(path).shape == (0,)


def test_an_aggregation_that_is_no_scalar_is_read_by_its_fragments_and_never_by_its_fill(parts):
    path = write(parts)

    def change(root):
        terms = {k: root["tas"].getncattr(k) for k in ("aggregated_dimensions", "aggregated_data", "units")}
        root.createVariable("shaped", "f8", ("time", "lat")).setncatts(terms)

    np.testing.assert_array_equal(data(edited(path, change), "shaped"), VALUES)


@pytest.mark.parametrize("value", [np.nan, [1.0, 2.0]])
def test_names_of_coordinates_that_are_numbers_are_refused(parts, value):
    path = edited(write(parts), lambda r: r["tas"].setncattr("coordinates", value))
    with pytest.raises(SourceError, match=r"'tas': the attribute 'coordinates' should name variables in text"):
        cfagg.read(path)
    np.testing.assert_array_equal(data(path, decode_coords=False), VALUES)


def test_bounds_that_are_numbers_name_no_variable(tmp_path):
    with netCDF4.Dataset(tmp_path / "p.nc", "w") as root:
        files.dimensions(root, t=3, n=2)
        root.createVariable("other", "f8", ["t"]).bounds = [1.0, 2.0]
        root.createVariable("b", "f8", ["t", "n"])[:] = 1
    path = files.cf(tmp_path / "a.nc", "b", "f8", {"t": 3, "n": 2}, [[3], [2]], [["p.nc"]], "b")
    with netCDF4.Dataset(path, "a") as root:
        time = root.createVariable("t", "f8", ["t"])
        time[:], time.bounds, time.units = range(3), "b", "days since 2000-01-01"
    assert (cfagg.read(path, decode_times=False)["b"] == 1).all()
