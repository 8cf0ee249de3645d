"""Chunk-level accumulation (ZEP 5): the attributes of groups and arrays, in and out."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.conventions import accumulation, limits
from cfagg.conventions.accumulation import ArrayAttributes, Names, find_array, find_stride
from cfagg.conventions.accumulation_model import Combinations, Table
from cfagg.conventions.accumulation_schema import schema
from cfagg.errors import ConventionError, LimitError, NotAccumulatedError
from cfagg.model import Grid, Regular
from tests.conventions.accumulations import AREA, DIMS, GROUP, TIME, groups
from tests.effort import examples
from tests.strategies import edges


def test_the_example_of_a_group_names_four_combinations():
    assert accumulation.parse_group(GROUP, DIMS) == {
        ("latitude",): Names(None, "acc_lat", "acc_wt_lat"),
        ("latitude", "longitude"): Names(None, "acc_lat_lon", "acc_wt_lat_lon"),
        ("longitude",): Names(None, "acc_lon", "acc_wt_lon"),
        ("time",): Names(None, "acc_time", "acc_wt_time"),
    }


def test_the_example_of_a_group_is_written_as_it_stands_there():
    written = accumulation.write_group(accumulation.parse_group(GROUP, DIMS), DIMS)
    assert json.dumps(written) == json.dumps(GROUP)


@pytest.mark.parametrize(("example", "stride"), [(TIME, (0, 0, 2)), (AREA, (1, 3, 0))])
def test_the_examples_of_arrays_are_read_and_written_as_they_stand_there(example, stride):
    parsed = accumulation.parse_array(example, ndim=3, dims=DIMS)
    assert parsed == ArrayAttributes(DIMS, stride)
    assert accumulation.write_array(parsed.dims, parsed.stride) == example


def test_the_first_application_step_finds_the_array_along_latitude_and_longitude():
    assert find_array(GROUP, ["latitude", "longitude"]) == "acc_lat_lon"
    assert find_array(GROUP, ["longitude", "latitude"], "_WEIGHTS") == "acc_wt_lat_lon"
    assert find_array(GROUP, "time") == "acc_time"


def test_the_second_application_step_finds_the_stride_along_latitude_and_longitude():
    assert find_stride(AREA, ["latitude", "longitude"]) == (1, 3)
    assert find_stride(AREA, ["longitude", "latitude"]) == (3, 1)
    assert find_stride(TIME, "time") == (2,)


@pytest.mark.parametrize(
    ("dims", "kind"),
    [(["latitude", "time"], "_DATA_WEIGHTED"), (["time"], "_DATA_UNWEIGHTED"), ([], "_WEIGHTS"), (["x"], "_WEIGHTS")],
)
def test_a_combination_or_kind_without_array_is_told_with_those_that_are_there(dims, kind):
    with pytest.raises(NotAccumulatedError, match="_DATA_WEIGHTED along latitude\\+longitude, _WEIGHTS along"):
        find_array(GROUP, dims, kind)


@pytest.mark.parametrize("dims", [["time"], ["latitude", "x"]])
def test_a_stride_along_a_dimension_that_is_not_accumulated_is_refused(dims):
    with pytest.raises(NotAccumulatedError, match=r"only along \['latitude', 'longitude'\]"):
        find_stride(AREA, dims)


def test_the_shipped_schemas_are_those_of_the_text_with_a_licence_note():
    group, array = schema("accumulation_group"), schema("accumulation_array")
    for shipped in (group, array):
        assert "Apache License, Version 2.0" in shipped["$comment"]
        assert shipped["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert group["properties"]["_ACCUMULATION_GROUP"]["additionalProperties"] is False
    inner = group["definitions"]["accumulation_data_array"]
    assert list(inner["properties"]) == ["_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS"]
    assert list(inner["patternProperties"]) == ["^(?!_DATA_UNWEIGHTED|_DATA_WEIGHTED|_WEIGHTS).*$"]
    assert array["required"] == ["_ARRAY_DIMENSIONS", "_ACCUMULATION_STRIDE"]


def test_dimensions_nested_in_another_order_are_the_same_combination():
    tree = {"time": {"lat": {"_DATA_UNWEIGHTED": "acc", "lon": {"_WEIGHTS": "wt"}}}}
    parsed = accumulation.parse_group({"_ACCUMULATION_GROUP": tree}, ("lat", "lon", "time"))
    assert parsed == {("lat", "time"): Names(unweighted="acc"), ("lat", "lon", "time"): Names(weights="wt")}


def test_a_combination_that_stands_twice_with_the_same_arrays_is_no_ambiguity():
    names = {"_DATA_UNWEIGHTED": "acc", "_WEIGHTS": "wt"}
    tree = {"lat": {"time": names}, "time": {"lat": names}}
    parsed = accumulation.parse_group({"_ACCUMULATION_GROUP": tree}, ("lat", "time"))
    assert parsed == {("lat", "time"): Names("acc", None, "wt")}


def test_absent_combinations_read_as_empty_ones():
    short = {"_ACCUMULATION_GROUP": {"time": {"_DATA_UNWEIGHTED": "acc"}}}
    written = accumulation.write_group(accumulation.parse_group(short, ("time", "lat")), ("time", "lat"))
    assert written == {"_ACCUMULATION_GROUP": {"time": {"_DATA_UNWEIGHTED": "acc", "lat": {}}, "lat": {}}}
    assert accumulation.parse_group(written, ("time", "lat")) == accumulation.parse_group(short, ("time", "lat"))


def test_empty_objects_are_not_written_out_for_arrays_of_many_dimensions():
    dims = tuple(f"d{i}" for i in range(30))
    names = {dims: Names("all"), dims[3:5]: Names("some")}
    written = accumulation.write_group(names, dims)
    assert len(json.dumps(written)) < 1000
    assert accumulation.parse_group(written, dims) == names


@settings(max_examples=examples(50))
@given(groups())
def test_what_is_written_for_a_group_is_read_back(case):
    dims, names = case
    written = json.loads(json.dumps(accumulation.write_group(names, dims)))
    read = accumulation.parse_group(written, dims)
    assert read == names
    assert set(read.arrays) == {array for value in names.values() for array in value.as_dict().values()}
    for key, value in names.items():
        for kind, array in value.as_dict().items():
            assert find_array(written, reversed(key), kind) == array


@settings(max_examples=examples(50))
@given(st.data())
def test_what_is_written_for_an_array_is_read_back(data):
    dims = data.draw(st.lists(st.text(min_size=1), unique=True, max_size=5))
    stride = [data.draw(st.integers(0, 2**63 - 1)) for _ in dims]
    written = json.loads(json.dumps(accumulation.write_array(dims, stride)))
    read = accumulation.parse_array(written, ndim=len(dims), dims=dims[::-1], dimension_names=dims)
    assert read == ArrayAttributes(tuple(dims), tuple(stride))
    assert read.axes(tuple(dims[::-1])) == tuple(reversed(range(len(dims))))


def test_strides_may_be_given_by_dimension_and_by_integers_of_numpy():
    assert accumulation.write_array(DIMS, {"time": np.int64(2)}) == TIME
    assert json.dumps(accumulation.write_array(DIMS, np.array([0, 0, 2]))) == json.dumps(TIME)
    with pytest.raises(ConventionError, match="x"):
        accumulation.write_array(DIMS, {"x": 1})


def test_whole_real_numbers_are_integers_as_the_schema_has_it():
    assert accumulation.parse_array({"_ARRAY_DIMENSIONS": ["x"], "_ACCUMULATION_STRIDE": [2.0]}).stride == (2,)


def test_dimension_names_stand_in_for_an_absent_attribute_and_must_agree_with_a_present_one():
    assert accumulation.parse_array({"_ACCUMULATION_STRIDE": [0, 1]}, dimension_names=["x", "y"]).dims == ("x", "y")
    with pytest.raises(ConventionError, match="disagrees with dimension_names"):
        accumulation.parse_array(TIME, dimension_names=["time", "latitude", "longitude"])


def test_the_dimensions_that_an_array_accumulates_are_those_with_a_stride():
    assert accumulation.parse_array(AREA).combination == ("latitude", "longitude")


def test_a_group_and_its_name_are_recognised():
    assert accumulation.group_name("precipitation") == "precipitation_accumulation_group"
    assert accumulation.is_accumulation(GROUP)
    assert not accumulation.is_accumulation(TIME)


def test_combinations_do_not_change_and_can_be_pickled_and_hashed():
    parsed = accumulation.parse_group(GROUP, DIMS)
    copy = pickle.loads(pickle.dumps(parsed))
    assert isinstance(copy, Combinations)
    assert copy == parsed
    assert hash(copy) == hash(parsed)
    with pytest.raises(TypeError):
        parsed["time",] = Names()
    with pytest.raises(AttributeError, match="is immutable"):
        parsed._items = {}
    assert repr(Table({"a": 1})) == "Table({'a': 1})"


# --- positions of the sums ---------------------------------------------------------------------------------------


def positions_one_by_one(edges_, length, stride):
    """Where sums end, by the definition."""
    n = len(edges_) - 1
    return [min(int(edges_[min((k + 1) * stride, n)]), length) for k in range(-(-n // stride))]


@settings(max_examples=examples(50))
@given(edges(), st.integers(1, 12), st.data())
def test_sums_end_at_every_stride_th_edge_and_at_the_end(edges_, stride, data):
    overhang = data.draw(st.integers(0, int(np.diff(edges_)[-1]) - 1)) if len(edges_) > 1 else 0
    length = int(edges_[-1]) - overhang
    found = accumulation.sample_positions(edges_, length, stride)
    assert found.dtype == np.int64
    assert found.tolist() == positions_one_by_one(edges_, length, stride)
    assert found.size == 0 or found[-1] == length
    assert (np.diff(found) > 0).all()


@settings(max_examples=examples(50))
@given(st.integers(0, 200), st.integers(1, 60), st.integers(1, 12))
def test_sums_of_regular_chunks_end_where_those_of_their_edges_do(length, chunk, stride):
    axis = Regular(length, chunk)
    found = accumulation.sample_positions(axis, length, stride)
    assert found.tolist() == accumulation.sample_positions(axis.expand(), length, stride).tolist()


def test_a_stride_longer_than_the_array_keeps_the_last_sum_only():
    for axis in (Regular(10, 3), Grid.regular((10,), (3,)).edges[0]):
        assert accumulation.sample_positions(axis, 10, 2**63).tolist() == [10]


def test_strides_below_one_and_sums_without_number_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        accumulation.sample_positions([0, 1], 1, 0)
    with pytest.raises(LimitError, match=str(limits.MAX_PARTITIONS)):
        accumulation.sample_positions(Regular(2**60, 1), 2**60, 1)
