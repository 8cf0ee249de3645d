"""NCA 0.1: every kind of bad input gets one clear error that lists all of its problems."""

import copy
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.conventions import limits, nca
from cfagg.errors import CfaggError, ConventionError, LimitError, RepairWarning
from tests.conventions import fuzz_nca
from tests.conventions.test_nca import document, parse, parse_two, record, two
from tests.effort import examples


def problems(doc, **kwargs):
    """The problems of one error, as text."""
    with pytest.raises(ConventionError) as caught:
        parse_two(doc, **kwargs)
    assert "variable 'tas'" in str(caught.value)
    return [str(p) for p in caught.value.problems]


def changed(path, value):
    """The good document with one value changed; `...` removes it."""
    doc = copy.deepcopy(two())
    *way, last = path
    place = doc
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return doc


P1 = ("Partitions", 1)


@pytest.mark.few(1000)
@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        (("pdimensions",), ..., "pdimensions", "missing"),
        (("pshape",), ..., "pshape", "missing"),
        (("Partitions",), ..., "Partitions", "missing"),
        (("Partitions",), 2, "Partitions", "list expected, found 2"),
        (("Partitions",), {}, "Partitions", "list expected"),
        (("pdimensions",), "time", "pdimensions", "list of strings"),
        (("pdimensions",), [1], "pdimensions", "list of strings"),
        (("pdimensions",), ["height"], "pdimensions[0]", "not among nca_dimensions"),
        (("pdimensions",), ["time", "time"], "pdimensions[1]", "twice"),
        (("pdimensions",), ["time"] * 10**6, "pdimensions", "1000000 partitioned dimensions, but the array has 2"),
        (("pshape",), [2, 1], "pshape", "2 entries found, 1 expected"),
        (("pshape",), [True], "pshape", "not an integer: true"),
        (("pshape",), [2.0], "pshape", "not an integer: 2.0"),
        (("pshape",), [-1], "pshape", "negative"),
        (("pshape",), [3], "Partitions", "no partition has index [2]; pshape [3] needs 3"),
        (("pshape",), [1], "Partitions[1].index[0]", "1 is outside the partition matrix, which has 1 along 'time'"),
        (("directions",), True, "directions", "expected an object with true or false"),
        (("directions", "lat"), 1, "directions.lat", "true or false"),
        (("directions", "height"), True, "directions", "not among nca_dimensions"),
        (P1, 7, "Partitions[1]", "object expected, found 7"),
        ((*P1, "index"), ..., "Partitions[1].index", "missing"),
        ((*P1, "index"), [0], "Partitions[1].index", "[0] is already that of Partitions[0]"),
        ((*P1, "index"), [2], "Partitions[1].index[0]", "outside the partition matrix"),
        ((*P1, "index"), [-1], "Partitions[1].index[0]", "outside the partition matrix"),
        ((*P1, "index"), [1, 0], "Partitions[1].index", "2 entries found, 1 expected"),
        ((*P1, "index"), 1, "Partitions[1].index", "list of integers"),
        ((*P1, "index"), [True], "Partitions[1].index", "not an integer: true"),
        ((*P1, "index"), [1.0], "Partitions[1].index", "not an integer: 1.0"),
        ((*P1, "index"), [10**30], "Partitions[1].index", "too large"),
        ((*P1, "location"), ..., "Partitions[1].location", "missing"),
        ((*P1, "location"), [[3, 5], [0, 3]], "location along 'time'", "a gap at indices 2 to 2"),
        ((*P1, "location"), [[1, 5], [0, 3]], "location along 'time'", "an overlap at indices 1 to 1"),
        ((*P1, "location"), [[2, 4], [0, 3]], "location along 'time'", "a gap at indices 4 to 4"),
        ((*P1, "location"), [[2, 6], [0, 3]], "Partitions[1].location[0]", "outside dimension 'time' of size 5"),
        ((*P1, "location"), [[2, 2], [0, 3]], "Partitions[1].location[0]", "empty"),
        ((*P1, "location"), [[5, 2], [0, 3]], "Partitions[1].location[0]", "empty"),
        ((*P1, "location"), [[2, 5], [0, 2]], "Partitions[1].location[1]", "ragged"),
        ((*P1, "location"), [[2, 5]], "Partitions[1].location", "1 pair found, 2 expected"),
        ((*P1, "location"), [[2, 5, 1], [0, 3]], "Partitions[1].location", "range of 'time': 3 entries"),
        ((*P1, "location"), [2, 5], "Partitions[1].location", "list of integers expected, found 2"),
        ((*P1, "location"), [[2, float("nan")], [0, 3]], "Partitions[1].location", "not an integer: nan"),
        ((*P1, "location"), [[2, float("inf")], [0, 3]], "Partitions[1].location", "not an integer: inf"),
        ((*P1, "location"), [[2, -(10**30)], [0, 3]], "Partitions[1].location", "too large"),
        ((*P1, "dimensions"), "time lat", "Partitions[1].dimensions", "list of strings"),
        ((*P1, "dimensions"), ["time", 3], "Partitions[1].dimensions", "list of strings"),
        ((*P1, "dimensions"), ["time", "pressure"], "Partitions[1].dimensions", "no dimension 'pressure'"),
        ((*P1, "dimensions"), ["time", "time"], "Partitions[1].dimensions", "twice"),
        (
            (*P1, "dimensions"),
            ["time"],
            "Partitions[1].dimensions",
            "'lat' is not among ['time'], but the location spans 3",
        ),
        ((*P1, "dimensions"), ["time", "lat", "height"], "Partitions[1].data.shape", "2 entries found, 3 expected"),
        ((*P1, "dimensions"), None, "Partitions[1].dimensions", "found null; leave the key out"),
        ((*P1, "directions"), [True], "Partitions[1].directions", "object expected"),
        ((*P1, "directions"), True, "Partitions[1].directions", "for scalar master arrays"),
        ((*P1, "directions"), {"time": "up"}, "Partitions[1].directions.time", "true or false"),
        ((*P1, "directions"), {"x": True}, "Partitions[1].directions", "no dimension 'x'"),
        ((*P1, "units"), 1, "Partitions[1].units", "string expected, found 1"),
        ((*P1, "calendar"), False, "Partitions[1].calendar", "string expected, found false"),
        ((*P1, "format"), [], "Partitions[1].format", "string expected"),
        ((*P1, "part"), [[0, 1]], "Partitions[1].part", "string expected"),
        ((*P1, "part"), "(0, 3, 1)", "Partitions[1].part", "square brackets"),
        ((*P1, "part"), "[(0, 3, 1)]", "Partitions[1].part", "1 dimensions, its sub-array has 2"),
        ((*P1, "part"), "[(0, 2, 1), (0, 3, 1)]", "Partitions[1].part", "but the location spans [3, 3]"),
        ((*P1, "part"), "[(1, 4, 1), (0, 3, 1)]", "Partitions[1].part", "index 3 is outside dimension 0"),
        ((*P1, "data"), ..., "Partitions[1].data", "missing"),
        ((*P1, "data"), "a.nc", "Partitions[1].data", "object expected"),
        (
            (*P1, "data", "shape"),
            [2, 3],
            "Partitions[1].data.shape",
            "[2, 3] does not fit the location, which spans [3, 3]",
        ),
        ((*P1, "data", "shape"), [3, 3, 1], "Partitions[1].data.shape", "3 entries found, 2 expected"),
        ((*P1, "data", "shape"), [3, True], "Partitions[1].data.shape", "not an integer"),
        ((*P1, "data", "shape"), [3, -3], "Partitions[1].data.shape", "negative"),
        ((*P1, "data", "shape"), 9, "Partitions[1].data.shape", "list of integers"),
        ((*P1, "data", "file"), 9, "Partitions[1].data.file", "string expected"),
        ((*P1, "data", "file"), "", "Partitions[1].data.file", "empty name"),
        ((*P1, "data", "file"), "a\0b", "Partitions[1].data.file", "NUL"),
        ((*P1, "data", "ncvar"), ..., "Partitions[1].data.ncvar", "missing"),
        ((*P1, "data", "ncvar"), None, "Partitions[1].data.ncvar", "string expected, found null"),
        ((*P1, "data", "dtype"), "quaternion", "Partitions[1].data.dtype", "not a data type"),
        ((*P1, "data", "dtype"), "f8,f8", "Partitions[1].data.dtype", "not a data type"),
        ((*P1, "data", "file_offset"), 1.5, "Partitions[1].data.file_offset", "integer expected"),
        ((*P1, "data", "file_offset"), -1, "Partitions[1].data.file_offset", "not an address"),
        ((*P1, "data", "file_offset"), 2**63, "Partitions[1].data.file_offset", "not an address"),
        ((*P1, "data", "lbpack"), True, "Partitions[1].data.lbpack", "integer expected"),
        ((*P1, "data", "lbpack"), 10**30, "Partitions[1].data.lbpack", "not a packing code"),
        ((*P1, "data", "scale_factor"), "2", "Partitions[1].data.scale_factor", "number expected"),
        ((*P1, "data", "scale_factor"), float("nan"), "Partitions[1].data.scale_factor", "finite number"),
        ((*P1, "data", "add_offset"), 10**400, "Partitions[1].data.add_offset", "finite number"),
        (("pmshape",), [2], "pmshape", "another version"),
        ((*P1, "punits"), "K", "Partitions[1].punits", "another version"),
        ((*P1, "data", "_FillValue"), 0, "Partitions[1].data._FillValue", "another version"),
    ],
)
def test_one_wrong_value_is_one_error_with_its_key_path(path, value, where, message):
    found = problems(changed(path, value))
    assert any(p.startswith(f"{where}: ") and message in p for p in found), found


def test_all_problems_are_reported_at_once():
    doc = two(units=1, data={"shape": [4, 3]})
    doc["Partitions"][0]["index"] = [5]
    doc["Partitions"][0]["data"]["lbpack"] = "1"
    doc["directions"]["lat"] = 0
    found = "\n".join(problems(doc))
    for where in ("[1].units", "[1].data.shape", "[0].index[0]", "[0].data.lbpack", "directions.lat"):
        assert where in found


def test_the_list_of_problems_is_capped_and_says_so():
    doc = document(*(record([k], [[k, k + 1], [0, 3]], units=k) for k in range(1500)), pshape=(1500,))
    with pytest.raises(ConventionError) as caught:
        parse(doc, "time lat", {"time": 1500, "lat": 3})
    assert len(caught.value.problems) == limits.MAX_PROBLEMS + 1
    assert "500 problems are not listed" in str(caught.value.problems[-1])


def test_the_first_missing_index_is_named_in_the_order_of_pdimensions():
    records = [record([j, i], [[2 * i, 2 * i + 2], [j, j + 1]]) for j in range(3) for i in range(2) if (j, i) != (2, 0)]
    with pytest.raises(ConventionError, match=r"no partition has index \[2, 0\]"):
        parse(document(*records, pdimensions=("lat", "time"), pshape=(3, 2)), "time lat", {"time": 4, "lat": 3})


def test_a_direction_means_nothing_where_the_masters_is_unknown():
    doc = two(directions={"lat": False})
    doc["directions"] = {"time": True}
    assert "do not say which way" in problems(doc)[0]


def test_part_without_shape_is_not_guessed():
    doc = two(part="[(0, 3, 1), (0, 3, 1)]")
    del doc["Partitions"][1]["data"]["shape"]
    assert "beside part, it cannot be derived" in problems(doc)[0]


def test_a_private_array_of_another_shape_is_a_problem():
    doc = two()
    del doc["Partitions"][1]["data"]["file"]
    found = problems(doc, private={"tas": (("a", "b"), (3, 4))})
    assert found == ["Partitions[1].data.shape: [3, 3], but the file's variable 'tas' has shape [3, 4]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: Expecting value"),
        ("[]", "not an object"),
        ("3", "not an object"),
        ("{} {}", "line 1 column 4: expected the end of the text"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"Partitions": [{"index": [0], "index": [1]}]}', r"'index' occurs twice .*in Partitions\[0\]"),
        ('{"Partitions": [], "Partitions": []}', "'Partitions' occurs twice"),
        ('{"directions": {"time": true}', "line 1 column 30: expected a comma or a closing bracket, found the end"),
        ("{'directions': {'time': tru}}", "line 1 column 25: expected a value, found 'tru}}'"),
        ("{'a': 'it's'}", "expected a comma or a closing bracket, found"),
        ("{'a', 1}", "expected :, found"),
        ("{'a': 1,}", "expected a name in quotes, found '}'"),
        ("{'a': [1,]}", "expected a value, found"),
        ("{'a': 01}", "expected a value"),
        ("{'a': __import__('os').getcwd()}", "has misprints that are not repaired"),
        ("\0", "expected a value"),
    ],
)
def test_broken_json_is_one_error_that_names_the_place(text, message):
    with pytest.raises(ConventionError, match=message):
        parse(text)


def test_a_megabyte_of_brackets_is_too_deep():
    for text in ("[" * 10**6, '{"a":' * 10**6, "{'a':" + "[" * 10**6):
        with pytest.raises(LimitError, match="nested"):
            parse(text)


@pytest.mark.parametrize("depth", [100, 900, 3000, 9000, 30_000])
@pytest.mark.parametrize("where", ["directions", "pshape", "Partitions"])
def test_a_deep_value_where_another_is_expected_is_refused_briefly(depth, where):
    for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(CfaggError) as caught:
            parse(f'{{"{where}": [{deep}], "Partitions2": 1}}')
        assert len(str(caught.value)) < 2000


def test_an_integer_of_10_000_digits_is_a_limit():
    with pytest.raises(LimitError, match="thousands of digits"):
        parse('{"pshape": [' + "9" * 10_000 + "]}")


@pytest.mark.parametrize("pshape", [[10**9, 10**9], [10**9, 0], [10**18, 10**18], [limits.MAX_PARTITIONS, 2]])
def test_an_absurd_matrix_is_a_limit(pshape):
    with pytest.raises(LimitError, match=r"a partition matrix of \d+ x \d+ partitions; at most"):
        parse_two({**two(), "Partitions": [], "pdimensions": ["time", "lat"], "pshape": pshape})


def test_a_large_matrix_without_partitions_allocates_nothing_of_its_size():
    with pytest.raises(ConventionError, match=r"no partition has index \[0\], and 59999999 more are missing"):
        parse_two({**two(), "Partitions": [], "pshape": [60_000_000]})


def test_a_part_that_lists_more_indices_than_the_cap_is_a_limit():
    listed = "[[" + "0," * (limits.MAX_PART_LIST + 1) + "0], (0, 3, 1)]"
    with pytest.raises(LimitError, match="lists more than 1000000 indices"):
        parse_two(two(part=listed))


def test_a_range_of_10_to_the_17_indices_costs_nothing():
    assert (
        "takes [100000000000000000, 3]"
        in problems(two(part="[(0, 100000000000000000, 1), (0, 3, 1)]", data={"shape": [10**17, 3]}))[0]
    )


def test_a_cap_on_the_text_is_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_TEXT", 10)
    with pytest.raises(LimitError, match="at most 10 are read"):
        parse_two(two())


def test_a_cap_on_the_number_of_partitions_is_a_limit(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PARTITIONS", 1)
    with pytest.raises(LimitError, match="at most 1 are read"):
        parse_two(two())


@pytest.mark.parametrize("value", [1, 1.5, None, ["{}"], np.array([1, 2]), np.zeros(0), b"\xff\xfe{}", {"a": 1}])
def test_an_attribute_that_is_not_text_is_an_error(value):
    with pytest.raises(ConventionError, match="nca_array"):
        nca.parse("tas", {"nca_array": value}, "f4", {})
    with pytest.raises(ConventionError, match="nca_dimensions"):
        nca.parse("tas", {"nca_array": "{}", "nca_dimensions": value}, "f4", {})


def test_a_variable_without_nca_array_is_an_error():
    with pytest.raises(ConventionError, match="the attribute nca_array should be text; found none"):
        nca.parse("tas", {}, "f4", {})


@pytest.mark.parametrize(("dims", "message"), [("time depth", "no dimension 'depth'"), ("time time", "twice")])
def test_dimensions_that_are_not_those_of_the_file_are_an_error(dims, message):
    with pytest.raises(ConventionError, match=message):
        parse(two(), dims)


def test_too_many_dimensions_are_a_limit():
    names = [f"d{k}" for k in range(65)]
    with pytest.raises(LimitError, match="65 dimensions"):
        parse(two(), " ".join(names), dict.fromkeys(names, 1))


def test_an_error_names_the_file_and_the_variable():
    with pytest.raises(ConventionError, match=r"^/data/t\.nca: variable 'tas': nca_array"):
        parse_two(changed(("pshape",), [3]), source="/data/t.nca")


def test_repairs_that_do_not_lead_to_an_aggregation_are_not_told():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problems(json.dumps(changed(("pshape",), [3])).replace('"', "'"))
    assert caught == []


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["[]", "netCDF", "time"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(fuzz_nca.KEYS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(fuzz_nca.KEYS), _JSON, max_size=6))
def test_any_json_is_read_or_refused_by_an_error_of_cfagg(doc):
    assert fuzz_nca.outcome(json.dumps(doc)) in ("read", "refused")


@settings(max_examples=examples(300))
@given(st.text(st.sampled_from("{}[]:,'\"\\ \n0-1.eEtruefalsnu") | st.characters(), max_size=60))
def test_any_text_is_read_or_refused_by_an_error_of_cfagg(text):
    assert fuzz_nca.outcome(text) in ("read", "refused")


def test_mutations_are_read_or_refused_by_an_error_of_cfagg():
    seen = {fuzz_nca.outcome(text) for text in fuzz_nca.mutations(examples(3000), seed=1)}
    assert seen == {"read", "refused"}


def test_the_errors_are_also_value_errors():
    assert issubclass(ConventionError, ValueError)
    assert issubclass(LimitError, CfaggError)
    assert issubclass(RepairWarning, UserWarning)
