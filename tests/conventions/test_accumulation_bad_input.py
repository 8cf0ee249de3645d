"""Chunk-level accumulation: every kind of bad input gets one clear error that lists all of its problems."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.conventions import accumulation, limits
from cfagg.conventions.accumulation import Names
from cfagg.conventions.accumulation_schema import path_text
from cfagg.errors import CfaggError, ConventionError, LimitError
from tests.conventions.accumulations import DIMS, GROUP, TIME
from tests.effort import examples


def problems(call, *args, **kwargs):
    """The problems of one error, as text."""
    with pytest.raises(ConventionError) as caught:
        call(*args, **kwargs)
    return [str(p) for p in caught.value.problems]


def group_problems(tree, dims=DIMS):
    return problems(accumulation.parse_group, {"_ACCUMULATION_GROUP": tree}, dims, source="s.zarr/tas_acc")


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ("time", "_ACCUMULATION_GROUP: object expected, found 'time'"),
        (None, "_ACCUMULATION_GROUP: object expected, found null"),
        ({"time": 1}, "_ACCUMULATION_GROUP.time: object expected, found 1"),
        ({"time": ["acc"]}, "_ACCUMULATION_GROUP.time: object expected, found ['acc']"),
        ({"time": {"_WEIGHTS": None}}, "_ACCUMULATION_GROUP.time._WEIGHTS: string expected, found null"),
        ({"time": {"_WEIGHTS": {}}}, "_ACCUMULATION_GROUP.time._WEIGHTS: string expected, found {}"),
        ({"_WEIGHTS": "wt"}, "_ACCUMULATION_GROUP._WEIGHTS: names an array without a dimension"),
        (
            {"time": {"_WEIGHTS_2": "wt"}},
            "_ACCUMULATION_GROUP.time._WEIGHTS_2: no dimension may have a name that begins",
        ),
        ({"a\nb": {}}, "_ACCUMULATION_GROUP['a\\nb']: no dimension may have a line break in its name"),
        ({"height": {}}, "_ACCUMULATION_GROUP.height: the array has no dimension 'height'; its dimensions are"),
        ({"time": {"time": {}}}, "_ACCUMULATION_GROUP.time.time: the dimension 'time' occurs twice on this path"),
        ({"time": {"_WEIGHTS": "../tas"}}, "_ACCUMULATION_GROUP.time._WEIGHTS: not the name of an array in this group"),
        ({"time": {"_WEIGHTS": ""}}, "_ACCUMULATION_GROUP.time._WEIGHTS: not the name of an array in this group: ''"),
        (
            {"time": {"_DATA_UNWEIGHTED": "a", "_WEIGHTS": "a"}},
            (
                "_ACCUMULATION_GROUP.time._WEIGHTS: the array 'a' is already named by "
                "_ACCUMULATION_GROUP.time._DATA_UNWEIGHTED"
            ),
        ),
        (
            {"time": {"latitude": {"_WEIGHTS": "a"}}, "latitude": {"time": {"_WEIGHTS": "b"}}},
            (
                "_ACCUMULATION_GROUP.latitude.time: these dimensions name other arrays under "
                "_ACCUMULATION_GROUP.time.latitude; keep one of the two"
            ),
        ),
    ],
)
def test_one_thing_wrong_with_a_group_is_told_where_it_stands(tree, problem):
    found = group_problems(tree)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_a_group_without_its_attribute_is_refused():
    assert problems(accumulation.parse_group, {"title": "x"}, DIMS) == ["_ACCUMULATION_GROUP: missing"]


def test_attributes_that_are_no_object_are_refused():
    for call in (lambda v: accumulation.find_array(v, ["time"]), accumulation.parse_array):
        with pytest.raises(ConventionError, match="object expected"):
            call([])


def test_all_problems_of_a_group_are_told_at_once_with_the_store():
    tree = copy.deepcopy(GROUP["_ACCUMULATION_GROUP"])
    tree["time"]["_WEIGHTS"] = 3
    tree["latitude"]["latitude"] = {"time": {}}
    tree["latitude"]["height"] = {"_DATA_WEIGHTED": "acc_lat"}
    tree["_DATA_WEIGHTED"] = "acc"
    with pytest.raises(ConventionError) as caught:
        accumulation.parse_group({"_ACCUMULATION_GROUP": tree}, DIMS, source="s.zarr/tas_accumulation_group")
    assert str(caught.value).startswith("s.zarr/tas_accumulation_group: the group attribute")
    assert [p.where.replace("_ACCUMULATION_GROUP.", "") for p in caught.value.problems] == [
        "_DATA_WEIGHTED",
        "time._WEIGHTS",
        "latitude.latitude",
        "latitude.height",
        "latitude.height._DATA_WEIGHTED",
    ]


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({}, ["_ARRAY_DIMENSIONS: missing", "_ACCUMULATION_STRIDE: missing"]),
        ({"_ARRAY_DIMENSIONS": "x", "_ACCUMULATION_STRIDE": 1}, [
            "_ACCUMULATION_STRIDE: array expected, found 1",
            "_ARRAY_DIMENSIONS: array expected, found 'x'",
        ]),
        ({"_ARRAY_DIMENSIONS": ["x", 1], "_ACCUMULATION_STRIDE": [1.5, True]}, [
            "_ACCUMULATION_STRIDE[0]: integer expected, found 1.5",
            "_ACCUMULATION_STRIDE[1]: integer expected, found true",
            "_ARRAY_DIMENSIONS[1]: string expected, found 1",
        ]),
        ({"_ARRAY_DIMENSIONS": ["x", "x"], "_ACCUMULATION_STRIDE": [-1, 0, 2]}, [
            "_ARRAY_DIMENSIONS[1]: the dimension 'x' occurs twice",
            ("_ACCUMULATION_STRIDE[0]: 0 where the dimension is not accumulated, else the number of chunks between two "
            "sums; found -1"),
            "_ACCUMULATION_STRIDE: 3 strides for 2 dimensions",
        ]),
        ({"_ARRAY_DIMENSIONS": ["x"], "_ACCUMULATION_STRIDE": [1e300]}, [
            ("_ACCUMULATION_STRIDE[0]: 0 where the dimension is not accumulated, else the number of chunks between two "
            "sums; found 1e+300"),
        ]),
    ],
)  # fmt: skip
def test_all_problems_of_an_array_are_told_at_once(attributes, found):
    assert problems(accumulation.parse_array, attributes) == found


def test_an_array_must_fit_its_source_and_what_the_group_says_of_it():
    found = problems(
        accumulation.parse_array,
        {"_ARRAY_DIMENSIONS": ["latitude", "height"], "_ACCUMULATION_STRIDE": [0, 2]},
        ndim=3,
        dims=DIMS,
        combination=("time",),
    )
    assert found == [
        "_ARRAY_DIMENSIONS: 2 dimensions are named for an array that has 3",
        "_ARRAY_DIMENSIONS[1]: the accumulated array has no dimension 'height', only ['latitude', 'longitude', 'time']",
        "_ARRAY_DIMENSIONS: the dimension 'longitude' of the accumulated array is missing",
        "_ARRAY_DIMENSIONS: the dimension 'time' of the accumulated array is missing",
        "_ACCUMULATION_STRIDE: accumulated along ['height'], but the group names this array for ['time']",
    ]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({("x",): Names("a")}, "expected distinct dimensions"),
        ({(): Names("a")}, "expected distinct dimensions"),
        ({("time", "time"): Names("a")}, "expected distinct dimensions"),
        ({("time", "latitude"): Names("a"), ("latitude", "time"): Names("b")}, "occur twice, in different order"),
        ({("time",): Names("a/b")}, "not the name of an array"),
        ({("time",): Names("a"), ("latitude",): Names("a")}, "already named"),
        ({("time",): Names(7)}, "string expected"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(names, found):
    with pytest.raises(ConventionError, match=found):
        accumulation.write_group(names, DIMS)


def test_a_dimension_whose_name_the_schema_forbids_is_not_written():
    with pytest.raises(ConventionError, match="no dimension may have a name that begins with _WEIGHTS"):
        accumulation.write_group({("_WEIGHTS2",): Names("a")}, ("_WEIGHTS2",))


@pytest.mark.parametrize("stride", [[1], [0, 0, -1], [0, 0, True], [0, 0, 1.5], [0, 0, "1"], {"time": None}])
def test_strides_that_could_not_be_read_back_are_not_written(stride):
    with pytest.raises(ConventionError):
        accumulation.write_array(DIMS, stride)


# --- hostile input ------------------------------------------------------------------------------------------------


def nested(depth, key="time"):
    tree = {}
    for _ in range(depth):
        tree = {key: tree}
    return tree


@pytest.mark.parametrize("depth", [limits.MAX_DEPTH + 2, 100_000])
def test_a_group_nested_deeper_than_any_array_has_dimensions_is_refused_at_once(depth):
    with pytest.raises(LimitError, match="nested deeper"):
        accumulation.parse_group({"_ACCUMULATION_GROUP": nested(depth)}, DIMS)


def test_a_group_as_deep_as_an_array_may_have_dimensions_is_read():
    dims = tuple(f"d{i}" for i in range(limits.MAX_RANK))
    assert list(accumulation.parse_group(accumulation.write_group({dims: Names("a")}, dims), dims)) == [dims]


def test_a_group_with_more_parts_than_combinations_can_be_is_refused_at_once():
    with pytest.raises(LimitError, match="MAX_COMBINATIONS"):
        accumulation.parse_group({"_ACCUMULATION_GROUP": {str(i): {} for i in range(10**6)}}, DIMS)


def test_an_array_with_a_million_strides_is_refused_at_once():
    with pytest.raises(LimitError, match="MAX_COMBINATIONS"):
        accumulation.parse_array({**TIME, "_ACCUMULATION_STRIDE": [1] * 10**6})


def test_messages_quote_no_more_than_a_part_of_what_they_found():
    tree = {"time": "x" * 10**6, "y" * 10**6: {}, "latitude": {"_WEIGHTS": "z" * 10**6}}
    assert all(len(p) < 600 for p in group_problems(tree))


def test_other_attributes_are_not_looked_at():
    attributes = {**GROUP, "history": nested(10_000)}
    assert len(accumulation.parse_group(attributes, DIMS)) == 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["time", "latitude", "_DATA_WEIGHTED", "_WEIGHTS", "_ACCUMULATION_GROUP", "a\nb", ""])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(150))
@given(JSON)
def test_any_json_is_understood_or_refused_with_an_error_of_ours(value):
    for call in (
        lambda: accumulation.parse_group({"_ACCUMULATION_GROUP": value}, DIMS),
        lambda: accumulation.find_array({"_ACCUMULATION_GROUP": value}, DIMS),
        lambda: accumulation.parse_array({"_ARRAY_DIMENSIONS": value, "_ACCUMULATION_STRIDE": value}, combination=DIMS),
        lambda: accumulation.parse_array({**TIME, "_ACCUMULATION_STRIDE": value}, ndim=3, dims=DIMS),
        lambda: accumulation.parse_extra(value),
    ):
        try:
            call()
        except CfaggError as error:
            assert str(error)  # noqa: PT017


def test_key_paths_are_written_as_python_would_write_them():
    assert path_text(["a", 0, "b c", "d"]) == "a[0]['b c'].d"
