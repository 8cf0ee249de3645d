"""The JSON of NCA 0.1 to 0.2.2 and CFA 0.3 and 0.4: which version it is in, and what it becomes."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from cfagg.conventions import detection, partition_stream
from cfagg.conventions.cfa import DialectWarning
from cfagg.conventions.scope import Scope
from cfagg.errors import ConventionError, RepairWarning
from cfagg.model import Grid, Layout
from tests import strategies
from tests.conventions.test_nca import EXAMPLE_2, EXAMPLE_3, assemble
from tests.effort import examples
from tests.json_dialects import DIALECTS, attributes, encoded

SIZES = {"time": 48, "lat": 64, "lon": 128}


def parse(array, dims, sizes, *, dialect="CFA-0.4", conventions="", **others):
    prefix = dialect[:3].lower()
    text = array if isinstance(array, str) else json.dumps(array, ensure_ascii=False)
    given_ = {f"{prefix}_array": text, f"{prefix}_dimensions": dims, "units": "K", **others}
    private = {"cfa_45sdf83745": (("a", "b", "c"), (128, 12, 64)), "nca_45sdf83745": (("a", "b", "c"), (128, 12, 64))}
    return detection.parse("tas", given_, "f4", Scope(sizes, private, conventions=conventions))


def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(issubclass(w.category, RepairWarning) for w in caught)
    return result, caught


def one(**keys):
    """A document of one partition."""
    return {
        "Partitions": [{"subarray": {"file": "a.nc", "ncvar": "tas", "shape": [3], **keys.pop("subarray", {})}, **keys}]
    }


def two(first, second, **keys):
    records = [
        {"index": [i], "location": [location], "subarray": {"file": f"{i}.nc", "ncvar": "tas"}, **keys}
        for i, location in enumerate((first, second))
    ]
    return {"pmdimensions": ["x"], "pmshape": [2], "Partitions": records}


# Any aggregation in any version


@pytest.mark.few(2)
@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "NCA-0.1"])
@settings(max_examples=examples(50))
@given(case=strategies.nca_documents())
def test_any_aggregation_written_in_a_version_is_read_back_with_every_value_in_place(dialect, case):
    doc, dims, sizes, arrays, master = case
    marks, array, document = attributes(doc, dims, dialect)
    given_ = {"units": "K", **marks, array: json.dumps(document, ensure_ascii=False)}
    scope = Scope(sizes, conventions=f"CF-1.6 {dialect}")
    found, said = told(lambda: detection.parse("tas", given_, "f4", scope))
    assert found.dialect == dialect
    assert found.attributes == {}
    np.testing.assert_array_equal(assemble(found, arrays), master)
    assert not [w for w in said if issubclass(w.category, DialectWarning)]
    given_ = {"units": "K", "nca_dimensions": " ".join(dims), "nca_array": json.dumps(doc, ensure_ascii=False)}
    first, _ = told(lambda: detection.parse("tas", given_, "f4", Scope(sizes)))
    assert first.dialect == "NCA-0.1"
    assert (found.grid, found.partitions) == (first.grid, first.partitions)


# What names the version


@pytest.mark.parametrize(
    ("others", "document", "dialect"),
    [
        ({"cf_role": "nca"}, one(), "NCA-0.2.2"),
        ({}, {"pmshape": [], "Partitions": [{"data": {"file": "a.nc", "ncvar": "t", "pshape": [3]}}]}, "NCA-0.2"),
        ({}, {"Partitions": [{"sub_array": {"file": "a.nc", "ncvar": "t", "pshape": [3]}}]}, "NCA-0.2.1"),
        ({}, {"Partitions": [{"subarray": {"file": "a.nc", "ncvar": "t", "pshape": [3]}}]}, "NCA-0.2.2"),
    ],
)
def test_keys_and_cf_role_tell_the_version_of_nca(others, document, dialect):
    found, _ = told(lambda: parse(document, "x", {"x": 3}, dialect="NCA-0.2", **others))
    assert found.dialect == dialect


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        (one(), "CFA-0.4"),
        (one(reverse=["x"]), "CFA-0.4"),
        (one(pdirections={"x": False}) | {"directions": {"x": True}}, "CFA-0.3"),
        (one(subarray={"endian": "big", "format": "PP"}), "CFA-0.3"),
    ],
)
def test_keys_tell_the_version_of_cfa(document, dialect):
    found, said = told(lambda: parse(document, "x", {"x": 3}))
    assert found.dialect == dialect
    assert not [w for w in said if issubclass(w.category, DialectWarning)]


def test_the_version_that_conventions_names_decides_over_the_keys():
    found, said = told(lambda: parse(one(), "x", {"x": 3}, conventions="CF-1.6 CFA-0.3"))
    assert found.dialect == "CFA-0.3"
    assert "directions says nothing" in str(said[0].message)


@pytest.mark.parametrize("conventions", ["CF-1.6, CFA-0.4", "CFA-0.4", "CFA-0.4 CF-1.6"])
def test_conventions_are_separated_by_commas_or_blanks(conventions):
    assert detection.named_version(conventions) == "CFA-0.4"


@pytest.mark.parametrize("kind", [str, np.str_, str.encode, lambda text: np.array(text)])
def test_text_may_be_of_any_kind_that_a_file_gives(kind):
    text = json.dumps(one(subarray={"shape": [5]}, part="[(0, 4, 2)]") | {"pmdimensions": [], "pmshape": []})
    found, said = told(
        lambda: detection.parse("tas", {"cfa_array": kind(text), "cfa_dimensions": "x"}, "f4", Scope({"x": 3}))
    )
    assert found.partitions.part_text(0) == "[[0, 4, 2]]"
    assert [w.category for w in said] == [DialectWarning]


# Which reading closes

BOTH = one(subarray={"shape": [5, 5]}, part="[(0, 4, 2), [0, 4, 2]]")


def test_where_two_versions_close_the_later_one_counts_with_a_warning_that_names_both():
    found, said = told(lambda: parse(BOTH, "x y", {"x": 3, "y": 3}))
    assert found.partitions.part_text(0) == "[[0, 4, 2], (0, 5, 2)]"
    (warning,) = said
    assert warning.category is DialectWarning
    assert "CFA-0.4 or CFA-0.3" in str(warning.message)


@pytest.mark.parametrize(
    ("name", "part"), [("CFA-0.3", "[(0, 5, 2), [0, 4, 2]]"), ("CFA-0.4", "[[0, 4, 2], (0, 5, 2)]")]
)
def test_a_named_version_settles_which_brackets_are_ranges_without_a_warning(name, part):
    document = BOTH | ({"directions": {"x": True, "y": True}} if name == "CFA-0.3" else {})
    found, said = told(lambda: parse(document, "x y", {"x": 3, "y": 3}, conventions=name))
    assert (found.partitions.part_text(0), found.dialect, said) == (part, name, [])


def test_two_versions_that_mean_the_same_part_give_no_warning():
    document = one(subarray={"shape": [3, 3]}, part="[]")
    assert told(lambda: parse(document, "x y", {"x": 3, "y": 3}))[1] == []


def test_locations_whose_ends_are_excluded_are_read_so_with_a_warning_that_names_both():
    found, said = told(lambda: parse(two([0, 4], [4, 6]), "x", {"x": 6}, conventions="CFA-0.4"))
    assert found.grid == Grid([[0, 4, 6]])
    (message,) = [str(w.message) for w in said if w.category is DialectWarning]
    assert "does not close as CFA-0.4 ('Conventions' names CFA-0.4)" in message
    assert "closes as CFA-0.4 with the ends of locations excluded, as in its examples" in message


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("version", ["CFA-0.4", "CFA-0.3", "NCA-0.2.2"])
def test_locations_whose_ends_are_excluded_are_parsed_once(monkeypatch, quote, version):
    text = json.dumps(two([0, 4], [4, 6])).replace('"', quote)
    loaded = []
    load = partition_stream.load
    monkeypatch.setattr(partition_stream, "load", lambda text, batch: loaded.append(text) or load(text, batch))
    found, said = told(lambda: parse(text, "x", {"x": 6}, dialect=version, conventions=version))
    assert found.grid == Grid([[0, 4, 6]])
    assert f"does not close as {version} ('Conventions' names {version}): location along 'x': [4, 6] is outside" in str(
        said[-1].message
    )
    assert len(loaded) == (1 if quote == '"' else 2)  # and once more for misprints


@pytest.mark.parametrize(
    ("name", "part"), [("CFA-0.3", "[(0, 5, 2), [0, 4, 2]]"), ("CFA-0.4", "[[0, 4, 2], (0, 5, 2)]")]
)
def test_a_named_version_settles_the_brackets_where_ends_are_excluded_too(name, part):
    document = {"Partitions": [{**BOTH["Partitions"][0], "location": [[0, 3], [0, 3]]}]}
    found, said = told(lambda: parse(document, "x y", {"x": 3, "y": 3}, conventions=name))
    assert (found.dialect, found.partitions.part_text(0)) == (name, part)
    assert f"is read as {name} with the ends of locations excluded" in str(said[-1].message)


def test_a_named_version_is_that_of_locations_whose_ends_are_excluded_if_others_mean_the_same():
    found, _ = told(lambda: parse(two([0, 4], [4, 6]), "x", {"x": 6}, conventions="CFA-0.3"))
    assert found.dialect == "CFA-0.3"


def test_an_excluded_end_in_one_location_does_not_make_others_close():
    with pytest.raises(ConventionError) as caught:
        parse(two([0, 3], [5, 6]), "x", {"x": 6}, conventions="CFA-0.4")
    assert "[5, 6] is outside dimension 'x' of size 6" in str(caught.value.problems[-1])


def test_keys_of_another_version_than_is_named_are_read_with_a_warning_that_names_both():
    document = one(reverse=["x"])
    found, said = told(lambda: parse(document, "x", {"x": 3}, conventions="CFA-0.3"))
    assert found.dialect == "CFA-0.4"
    assert found.partitions.layout_of(0).flipped == (True,)
    (message,) = [str(w.message) for w in said if w.category is DialectWarning]
    assert "CFA-0.3" in message
    assert "closes as CFA-0.4" in message


def test_where_none_closes_the_error_shows_the_first_gap_in_the_numbers_of_the_text():
    with pytest.raises(ConventionError) as caught:
        parse(two([0, 2], [4, 5]), "x", {"x": 6}, conventions="CFA-0.4")
    assert str(caught.value.problems[0]) == (
        "location along 'x': a gap at indices 3 to 3, between Partitions[0] [0, 2] and Partitions[1] [4, 5]"
    )


def test_where_none_closes_the_error_shows_the_first_overlap_in_the_numbers_of_the_text():
    with pytest.raises(ConventionError) as caught:
        parse(two([0, 3], [3, 5]), "x", {"x": 6}, conventions="CFA-0.4")
    assert str(caught.value.problems[0]) == (
        "location along 'x': an overlap at indices 3 to 3, between Partitions[0] [0, 3] and Partitions[1] [3, 5]"
    )


# The texts' own examples, as printed


def cfa_example(text, **keys):
    text = text.replace("nca_45", "cfa_45").replace("'pshape'", "'pmshape'").replace("'pdimensions'", "'pmdimensions'")
    for old, new in keys.items():
        text = text.replace(f"'{old}'", f"'{new}'")
    return text


EXPECTED = Layout(("lon", "time", "lat"), (False, True, False), units="K @ 273.15", format="netCDF")


@pytest.mark.parametrize(
    ("dialect", "text", "role"),
    [
        ("NCA-0.1", EXAMPLE_3, None),
        ("NCA-0.2.1", cfa_example(EXAMPLE_3).replace("cfa_45", "nca_45"), "nca_variable"),
        ("CFA-0.3", cfa_example(EXAMPLE_3, units="punits", dimensions="pdimensions"), "cfa_variable"),
        (
            "CFA-0.4",
            cfa_example(EXAMPLE_3, units="punits", dimensions="pdimensions")
            .replace("'directions': {'time': false}", "'flip': ['time']")
            .replace("{directions': {'lat': false,\n'time': true,\n'lon': true\n},", "{")
            .replace("'", '"'),
            "cfa_variable",
        ),
    ],
)
def test_the_example_of_each_text_becomes_the_private_array_turned_and_the_second_file(dialect, text, role):
    others = {} if role is None else {"cf_role": role}
    found, said = told(lambda: parse(text, "time lat lon", SIZES, dialect=dialect, **others))
    assert (found.dialect, found.grid) == (dialect, Grid([[0, 12, 48], [0, 64], [0, 128]]))
    assert found.partitions.file_name(0) is None
    assert found.partitions.layout_of(0) == EXPECTED
    assert (found.partitions.file_name(1), found.partitions.address_name(1)) == ("/home/david/test2.nc", "tas2")
    assert any("opening quote of 'lat' is missing" in str(w.message) for w in said)


def test_each_key_of_another_version_in_the_printed_example_of_0_4_is_told_once():
    records = [
        {
            "index": [i],
            "location": [[5 * i, 5 * i + 4]],
            "flip": ["x"],
            "format": "netCDF",
            "data": {"ncvar": "tas", "shape": [5]},
        }
        for i in range(2)
    ]
    document = {"pmdimensions": ["x"], "pmshape": [2], "Partitions": records}
    _, said = told(lambda: parse(document, "x", {"x": 10}, conventions="CFA-0.4"))
    assert [w.category for w in said] == [RepairWarning] * 2
    assert "the key 'data' of Partitions[0]" in str(said[0].message)
    assert "which has 'subarray'" in str(said[0].message)
    assert "the key 'flip' of Partitions[0]" in str(said[1].message)


def test_example_2_without_a_mark_is_of_nca_0_1():
    found, _ = told(lambda: parse(EXAMPLE_2, "time lat lon", SIZES, dialect="NCA-0.1"))
    assert found.dialect == "NCA-0.1"


# Defaults


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "NCA-0.1"])
@pytest.mark.parametrize("index", [None, [], [0]])
def test_without_a_matrix_one_partition_fills_the_array(dialect, index):
    key = {"NCA-0.2": "data", "NCA-0.2.1": "sub_array"}.get(dialect, "subarray")
    record = {key: {"file": "a.nc", "ncvar": "tas"}} | ({} if index is None else {"index": index})
    document = {"Partitions": [record]} | ({} if dialect == "CFA-0.4" else {"directions": {"x": True, "y": True}})
    found, _ = told(lambda: parse(document, "x y", {"x": 3, "y": 4}, dialect=dialect, conventions=dialect))
    assert found.grid == Grid([[0, 3], [0, 4]])
    assert found.dialect == dialect


def test_a_matrix_without_a_shape_has_size_1_along_each_dimension():
    found, _ = told(
        lambda: parse(one(subarray={"shape": [3, 4]}) | {"pmdimensions": ["x", "y"]}, "x y", {"x": 3, "y": 4})
    )
    assert found.grid == Grid([[0, 3], [0, 4]])


def test_two_partitions_without_a_matrix_are_refused():
    document = {"Partitions": one()["Partitions"] * 2}
    with pytest.raises(ConventionError, match="already that of"):
        parse(document, "x", {"x": 3}, conventions="CFA-0.4")


def test_an_empty_file_name_is_the_aggregation_file_itself():
    found, _ = told(lambda: parse(one(subarray={"file": ""}), "x", {"x": 3}))
    assert found.partitions.file_name(0) is None


@pytest.mark.parametrize(
    ("base", "file", "expected"),
    [
        ("/data/archive", "a.nc", "/data/archive/a.nc"),
        ("../archive/", "sub/a.nc", "../archive/sub/a.nc"),
        ("http://archive/files", "a.nc", "http://archive/files/a.nc"),
        ("", "a.nc", "a.nc"),
        (None, "a.nc", "a.nc"),
    ],
)
def test_base_goes_before_names_of_files(base, file, expected):
    document = one(subarray={"file": file}) | ({} if base is None else {"base": base})
    found, said = told(lambda: parse(document, "x", {"x": 3}))
    assert (found.partitions.file_name(0), said) == (expected, [])


@pytest.mark.parametrize("file", ["/other/a.nc", "http://other/a.nc"])
def test_an_absolute_name_stays_as_it_is_beside_a_base_with_a_warning_from_nca_0_2_2_on(file):
    document = one(subarray={"file": file}) | {"base": "/data"}
    found, said = told(lambda: parse(document, "x", {"x": 3}))
    assert found.partitions.file_name(0) == file
    assert "there is a base, but" in str(said[0].message)
    document |= {"directions": {"x": True}}
    found, said = told(lambda: parse(document, "x", {"x": 3}, dialect="NCA-0.2.1", conventions="NCA-0.2.1"))
    assert found.partitions.file_name(0) == file
    assert not [one for one in said if "base" in str(one.message)]


@pytest.mark.parametrize("base", [None, 1, ["/data"]])
def test_a_base_that_is_no_text_is_refused(base):
    with pytest.raises(ConventionError, match="base: string expected"):
        parse(one() | {"base": base}, "x", {"x": 3})


# Keys of sub-arrays


def test_a_variable_by_its_number_has_no_name_and_its_number_for_an_offset():
    document = one()
    del document["Partitions"][0]["subarray"]["ncvar"]
    document["Partitions"][0]["subarray"]["varid"] = 3
    found, said = told(lambda: parse(document, "x", {"x": 3}))
    assert (found.partitions.address_name(0), found.partitions.offset.tolist(), said) == (None, [3], [])


def test_a_number_beside_a_name_is_ignored_as_the_text_says():
    found, _ = told(lambda: parse(one(subarray={"varid": 3}), "x", {"x": 3}))
    assert (found.partitions.address_name(0), found.partitions.offset.tolist()) == ("tas", [-1])


@pytest.mark.parametrize(
    "keys", [{"varid": -1}, {"varid": 2**31}, {"varid": 1, "file_offset": 8}, {}, {"file_offset": 8}]
)
def test_a_netcdf_variable_without_a_name_needs_one_number(keys):
    document = one()
    del document["Partitions"][0]["subarray"]["ncvar"]
    document["Partitions"][0]["subarray"] |= keys
    with pytest.raises(ConventionError, match=r"subarray\.(varid|ncvar)"):
        parse(document, "x", {"x": 3})


def test_fill_and_byte_order_of_other_formats_are_kept():
    keys = {"format": "PP", "file_offset": 8, "_FillValue": -1e30, "endian": "little", "lbpack": 1}
    found, _ = told(lambda: parse(one(subarray=keys) | {"directions": {"x": True}}, "x", {"x": 3}))
    layout = found.partitions.layout_of(0)
    assert (layout.fill, layout.endian, layout.packing, layout.format) == (-1e30, "little", 1, "PP")
    assert found.partitions.offset.tolist() == [8]


@pytest.mark.parametrize("key", ["_FillValue", "endian"])
def test_fill_and_byte_order_of_netcdf_are_ignored_with_a_warning(key):
    value = {"_FillValue": 0, "endian": "little"}[key]
    found, said = told(lambda: parse(one(subarray={key: value}) | {"directions": {"x": True}}, "x", {"x": 3}))
    assert found.partitions.layout_of(0) == Layout(("x",))
    assert f"Partitions[0].subarray.{key} is ignored" in str(said[0].message)


@pytest.mark.parametrize(
    ("key", "value"), [("endian", "middle"), ("endian", 1), ("_FillValue", "x"), ("_FillValue", True)]
)
def test_fill_and_byte_order_that_are_none_are_refused(key, value):
    document = one(subarray={key: value, "format": "PP", "file_offset": 0}) | {"directions": {"x": True}}
    with pytest.raises(ConventionError, match=rf"subarray\.{key}: "):
        parse(document, "x", {"x": 3})


def test_a_field_of_a_um_file_as_cf_python_refers_to_it_is_its_file_and_offset():
    field = {
        "filename": "a.pp",
        "header_offset": 4,
        "data_offset": 276,
        "disk_length": 12,
        "format": "UM",
        "shape": [3],
    }
    document = {"Partitions": [{"subarray": field}]}
    found, _ = told(lambda: parse(document, "x", {"x": 3}, conventions="CFA-0.4"))
    assert found.partitions.file_name(0) == "a.pp"
    assert found.partitions.offset.tolist() == [4]
    assert found.partitions.layout_of(0) == Layout(("x",), format="UM")


def test_a_value_said_under_two_keys_must_be_the_same():
    with pytest.raises(ConventionError, match=r"Partitions\[0\]\.pdimensions: it is given twice"):
        parse(one(pdimensions=["x"], dimensions=["y"]), "x", {"x": 3, "y": 1})


def test_part_as_cf_python_writes_a_list_of_one_index():
    document = one(subarray={"shape": [5, 5]}, part="[[0, 8, 2], (3,)]".replace("8", "4"))
    found, _ = told(lambda: parse(document, "x y", {"x": 3, "y": 1}, conventions="CFA-0.4"))
    assert found.partitions.part_text(0) == "[(0, 5, 2), (3, 4, 1)]"


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "NCA-0.1"])
def test_problems_name_the_keys_of_the_version_that_is_read(dialect):
    doc = {
        "directions": {"x": True},
        "pdimensions": ["x"],
        "pshape": [2],
        "Partitions": [
            {"index": [0], "location": [[0, 2]], "data": {"shape": [2], "ncvar": "t"}},
            {"index": [1], "location": [[2, 5]], "data": {"shape": [9], "ncvar": "t"}},
        ],
    }
    key = {"NCA-0.2": "data", "NCA-0.2.1": "sub_array"}.get(dialect, "subarray")
    shape = "pshape" if dialect.startswith("NCA") else "shape"
    with pytest.raises(ConventionError) as caught:
        parse(encoded(doc, ["x"], dialect), "x", {"x": 5}, dialect=dialect, conventions=dialect)
    assert caught.value.problems[0].where == f"Partitions[1].{key}.{shape}"
