"""The data model: grids, string tables, partition columns, aggregations."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfagg.errors import ModelError
from cfagg.model import Aggregation, Grid, Layout, Partitions, Regular, Strings
from cfagg.model.aggregation import facts_of
from tests import strategies


def aggregation(**changes):
    values = {
        "name": "tas",
        "dims": ("time", "lat"),
        "shape": (48, 4),
        "dtype": np.dtype("f4"),
        "grid": Grid([[0, 12, 48], [0, 4]]),
        "partitions": Partitions.build(2, file=[0, 1], files=["a.nc", "b.nc"], layouts=[Layout(("time", "lat"))]),
    }
    return Aggregation(**(values | changes))


@given(st.lists(strategies.edges(), max_size=4))
def test_grid_extents_tile_the_array(axes):
    grid = Grid(axes)
    hits = np.zeros(grid.shape, int)
    for index in np.ndindex(grid.matrix_shape):
        hits[tuple(slice(a, b) for a, b in grid.extent(index))] += 1
    assert (hits == 1).all()
    assert grid.size == np.prod(grid.matrix_shape, dtype=int)


@given(st.integers(0, 40), st.integers(1, 50))
def test_regular_grid_equals_its_expanded_edges_and_clips_the_last_cell(length, chunk):
    regular = Grid.regular((length,), (chunk,))
    assert regular == Grid(regular.edges, (length,))
    assert sum(regular.sizes[0]) == length


def test_grid_of_ten_million_regular_chunks_holds_no_edges():
    grid = Grid.regular((10**9,), (100,))
    assert grid.matrix_shape == (10**7,)
    assert grid.extent((10**7 - 1,)) == ((10**9 - 100, 10**9),)
    assert "edges" not in grid.__dict__


@given(st.lists(strategies.edges(), max_size=3))
def test_grid_survives_pickling_and_equals_its_copy(axes):
    grid = Grid(axes)
    copy = pickle.loads(pickle.dumps(grid))
    assert copy == grid
    assert hash(copy) == hash(grid)


def test_grid_from_sizes_gives_the_sizes_back():
    assert Grid.from_sizes([(12, 36), (), (1,)]).sizes == ((12, 36), (), (1,))


@pytest.mark.parametrize("edges", [[1, 2], [0, 2, 2], [0, 3, 1], [[0, 1]], []])
def test_grid_rejects_edges_that_do_not_increase_from_zero(edges):
    with pytest.raises(ModelError) as caught:
        Grid([edges, [0, 4]])
    assert caught.value.problems[0].where == "edges[0]"


def test_grid_reports_every_problem_at_once():
    with pytest.raises(ModelError) as caught:
        Grid([[1, 2], [0, 4], [0, 0]])
    assert [p.where for p in caught.value.problems] == ["edges[0]", "edges[2]"]


@pytest.mark.parametrize("size", [8, 13])
def test_grid_shape_must_end_in_the_last_cell(size):
    with pytest.raises(ModelError, match="last cell"):
        Grid([[0, 4, 8, 12]], (size,))


def test_regular_edges_need_a_chunk_of_at_least_one():
    with pytest.raises(ModelError):
        Regular(10, 0)


def test_grid_does_not_change():
    grid = Grid([[0, 3]])
    with pytest.raises(AttributeError):
        grid.shape = (4,)
    with pytest.raises(ValueError, match="read-only"):
        grid.edges[0][0] = 1


@given(st.lists(st.text()))
def test_strings_give_back_what_was_put_in(values):
    table = Strings(values)
    assert list(table) == values
    assert table == pickle.loads(pickle.dumps(table))
    assert table[: len(values)] == values


@given(st.lists(st.text(alphabet="aé", max_size=2)))
def test_strings_encode_codes_each_value_by_first_appearance(values):
    codes, table = Strings.encode(values)
    assert [table[c] for c in codes] == values
    assert list(table) == list(dict.fromkeys(values))


def test_strings_keep_undecodable_file_names():
    name = b"caf\xe9.nc".decode("utf-8", "surrogateescape")
    assert Strings([name])[0] == name


def test_strings_index_out_of_range_raises():
    with pytest.raises(IndexError):
        Strings(["a"])[1]
    assert Strings(["a", "b"])[-1] == "b"


def test_million_partitions_in_distinct_files_cost_less_than_64_bytes_each():
    n = 10**6
    files = Strings(f"archive/daily/tas_day_model_scenario_{i:07d}.nc" for i in range(n))
    partitions = Partitions.build(
        n, file=np.arange(n), address=0, files=files, addresses=["tas"], layouts=[Layout(("time",))]
    )
    assert partitions.nbytes / n <= 64


def test_constant_columns_are_stored_and_pickled_once():
    partitions = Partitions.build(10**6, layouts=[Layout(("time",))])
    assert partitions.nbytes < 100
    data = pickle.dumps(partitions)
    assert len(data) < 2000
    assert pickle.loads(data) == partitions


def test_single_partition_survives_pickling():
    partitions = Partitions.build(1, file=[0], files=["a.nc"], layouts=[Layout(())])
    assert pickle.loads(pickle.dumps(partitions)) == partitions


def test_partition_names_are_none_for_own_file_no_address_and_whole_sub_array():
    partitions = Partitions.build(2, file=[0, -1], files=["a.nc"], layouts=[Layout(())])
    assert partitions.file_name(0) == "a.nc"
    assert partitions.file_name(1) is None
    assert partitions.address_name(0) is None
    assert partitions.part_text(0) is None


def test_partition_codes_must_lie_in_their_tables():
    with pytest.raises(ModelError) as caught:
        Partitions.build(2, file=[0, 3], part=[0, 0], files=["a.nc"], layouts=[Layout(())])
    assert [p.where for p in caught.value.problems] == ["file", "part"]


def test_partition_columns_are_read_only():
    partitions = Partitions.build(2, file=[0, 1], files=["a", "b"], layouts=[Layout(())])
    with pytest.raises(ValueError, match="read-only"):
        partitions.file[0] = 1


@pytest.mark.parametrize(
    "layout", [{"dims": ("a", "a")}, {"dims": ("a",), "flipped": (True, False)}, {"dims": ("a",), "shape": (1, 2)}]
)
def test_layout_rejects_what_does_not_fit_together(layout):
    with pytest.raises(ModelError):
        Layout(**layout)


def test_aggregation_repeats_a_single_direction_for_every_dimension():
    assert aggregation().directions == (True, True)
    scalar = aggregation(
        dims=(), shape=(), grid=Grid([]), directions=False, partitions=Partitions.build(1, layouts=[Layout(())])
    )
    assert scalar.directions is False
    assert scalar.size == 1


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"dims": ("time", "time")}, "dims"),
        ({"shape": (48, 5)}, "shape"),
        ({"grid": Grid([[0, 48], [0, 4]])}, "partitions"),
        ({"directions": (True,)}, "directions"),
    ],
)
def test_aggregation_rejects_parts_that_do_not_fit(change, where):
    with pytest.raises(ModelError) as caught:
        aggregation(**change)
    assert where in [p.where for p in caught.value.problems]


def test_aggregation_survives_pickling():
    agg = aggregation(source="x.nca")
    copy = pickle.loads(pickle.dumps(agg))
    assert copy == agg
    assert copy.source == "x.nca"


def test_aggregations_with_array_attributes_compare_by_their_values():
    one = aggregation(attributes={"valid_range": np.array([0.0, np.nan]), "long_name": "x"})
    assert one == aggregation(attributes={"valid_range": np.array([0.0, np.nan]), "long_name": "x"})
    assert one != aggregation(attributes={"valid_range": np.array([0.0, 2.0]), "long_name": "x"})
    assert one != aggregation(attributes={"valid_range": np.array([0, 1], "i2"), "long_name": "x"})
    assert one != aggregation(attributes={"long_name": "x"})


def test_a_unique_value_needs_a_table_that_holds_it():
    with pytest.raises(ModelError, match="codes 0 to 0 of a table with 0 entries"):
        Partitions.build(2, value=0, layouts=[Layout(("x",))])


def test_unique_values_and_versions_survive_pickling():
    later = Partitions.build(3, file=0, files=["b.nc"], layouts=[Layout(("x",))])
    one = Partitions.build(3, value=0, values=np.array([7.5]), layouts=[Layout(("x",))], versions=[later])
    back = pickle.loads(pickle.dumps(one))
    assert back == one
    assert back.values.tolist() == [7.5]


def test_a_version_has_as_many_partitions_as_the_first():
    with pytest.raises(ModelError, match="2 partitions, expected 3"):
        Partitions.build(3, layouts=[Layout(("x",))], versions=[Partitions.build(2, layouts=[Layout(("x",))])])


def test_terms_of_fragments_get_names_that_no_variable_has():
    partitions = Partitions.build(2, layouts=[Layout(("x",))])
    terms = {"model": np.zeros(2), "run": np.ones(2)}
    made = Aggregation("t", ("x",), (4,), "f4", Grid([[0, 2, 4]]), partitions, terms=terms)
    assert list(facts_of({"t": made})) == ["model", "run"]
    assert list(facts_of({"t": made, "model": None, "t_model": None})) == ["t_model_1", "run"]


def test_terms_have_the_shape_of_the_matrix_and_are_compared_with_their_gaps():
    def made(terms):
        partitions = Partitions.build(2, layouts=[Layout(("x",))])
        return Aggregation("t", ("x",), (4,), "f4", Grid([[0, 2, 4]]), partitions, terms=terms)

    with pytest.raises(ModelError, match=r"terms\.model: shape \(3,\), expected \(2,\)"):
        made({"model": np.zeros(3)})
    whole = made({"model": np.ma.array([1.0, 2.0])})
    assert whole == made({"model": np.array([1.0, 2.0])})
    assert whole != made({"model": np.ma.array([1.0, 2.0], mask=[False, True])})
