"""Chunk grids both ways, against zarr-python and netCDF-C."""

import json
import time
import warnings

import netCDF4
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from zarr.core.chunk_grids import ChunkGrid
from zarr.core.metadata.v3 import ArrayV3Metadata

from cfagg.errors import LimitError
from cfagg.formats.zarr.chunks import read_chunk
from cfagg.formats.zarr.creating import NewArray, array_documents, write_documents
from cfagg.formats.zarr.grids import chunk_grid, for_listing, grid_v2, grid_v3, with_runs
from cfagg.formats.zarr.metadata import open_array
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.model import Grid, Regular
from tests.effort import examples
from tests.formats.zarr.stores import create, values

PLAIN = [{"name": "bytes", "configuration": {"endian": "little"}}]

lengths = st.lists(st.sampled_from([1, 2, 3, 3, 3, 7]), min_size=1, max_size=9)


def document(shapes, shape, name="rectilinear", codecs=PLAIN):
    key = {"rectilinear": "chunk_shapes", "rectangular": "chunk_shape", "regular": "chunk_shape"}[name]
    grid = {"name": name, "configuration": {key: shapes}}
    if name == "rectilinear":
        grid["configuration"]["kind"] = "inline"
    return {
        "shape": list(shape),
        "data_type": "int32",
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def ours(found):
    problems = []
    grid, objects = grid_v3(found, tuple(found["shape"]), problems, "a")
    assert problems == []
    return grid, objects


def peer(found):
    """Return zarr-python's grid, axis by axis: where each chunk begins, its stored length, and how much is valid."""
    with zarr.config.set({"array.rectilinear_chunks": True}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid = ChunkGrid.from_metadata(ArrayV3Metadata.from_dict(found))
    return [[(d.chunk_offset(i), d.chunk_size(i), d.data_size(i)) for i in range(d.nchunks)] for d in grid.dimensions]


def told(grid):
    """Return our grid in the same way."""
    rows = []
    for edges, size in zip(grid.edges, grid.shape, strict=True):
        rows.append(
            [(a, b - a, min(b, size) - a) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
        )
    return rows


@st.composite
def axes(draw):
    """Return one dimension as metadata tell it, in any of its forms, and its size."""
    every = draw(lengths)
    total = sum(every)
    # The end of the array lies anywhere: chunks beyond it are allowed.
    size = draw(st.one_of(st.just(total), st.integers(0, total)))
    if draw(st.booleans()) and draw(st.booleans()):
        return every[0], size
    entry = []
    while every:
        run = 1
        while run < len(every) and every[run] == every[0] and draw(st.booleans()):
            run += 1
        entry.append([every[0], run] if run > 1 or draw(st.booleans()) else every[0])
        every = every[run:]
    return entry, size


@given(st.lists(axes(), min_size=1, max_size=3))
@hypothesis_settings(max_examples=examples(2000), deadline=None)
def test_rectilinear_grids_in_every_form_are_those_of_zarr_python(given):
    shapes, shape = ([a[k] for a in given] for k in (0, 1))
    found = document(shapes, shape)
    grid, objects = ours(found)
    assert grid is objects
    assert told(grid) == peer(found)
    assert ours(document(shapes, shape, "rectangular"))[0] == grid


@given(st.lists(lengths, min_size=1, max_size=3))
@hypothesis_settings(max_examples=examples(1000), deadline=None)
def test_lengths_come_back_from_what_is_written_and_are_read_alike_by_zarr_python(sizes):
    shape = [sum(s) for s in sizes]
    found = {**document([], shape), "chunk_grid": json.loads(json.dumps(chunk_grid(sizes)))}
    grid, _ = ours(found)
    assert grid == Grid.from_sizes(sizes)
    assert told(grid) == peer(found)
    # What is written is canonical: reading and writing it again changes nothing.
    assert chunk_grid([np.diff(e) for e in grid.edges]) == found["chunk_grid"]
    with zarr.config.set({"array.rectilinear_chunks": True}):
        theirs = zarr.create_array({}, shape=shape, chunks=sizes, dtype="i4").metadata.to_dict()
    assert json.loads(json.dumps(theirs["chunk_grid"])) == found["chunk_grid"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=0, max_size=4))
@hypothesis_settings(max_examples=examples(500), deadline=None)
def test_regular_grids_are_those_of_zarr_python(given):
    shape, chunks = tuple(n for n, _ in given), [c for _, c in given]
    found = {**document([], shape), "chunk_grid": chunk_grid(chunks)}
    assert told(ours(found)[0]) == peer(found)
    problems = []
    assert grid_v2(chunks, shape, problems) == ours(found)[0]
    assert problems == []


@pytest.mark.parametrize(
    "entry", [3, [3, 3, 3, 3], [[3, 4]], [3, [3, 2], 3], [[3, 100]], [[3, 4], 9], [[3, 2**61], [5, 2**61]]]
)
def test_equal_chunks_are_told_in_few_words_however_they_are_written(entry):
    grid, _ = ours(document([entry], [10]))
    assert grid.axes == (Regular(10, 3),)
    assert grid.sizes == ((3, 3, 3, 1),)


def test_a_shorter_last_chunk_is_stored_as_short_as_it_is():
    grid, _ = ours(document([[[3, 3], 1]], [10]))
    assert grid.edges[0].tolist() == [0, 3, 6, 9, 10]


def test_ten_million_equal_chunks_cost_what_one_costs():
    start = time.process_time()
    grid, _ = ours(document([[[1, 10**7]], [[64, 10**7]], 8], [10**7, 64 * 10**7, 10**9]))
    assert all(isinstance(a, Regular) for a in grid.axes)
    assert chunk_grid([[4] * 3, [5]]) == chunk_grid([np.full(3, 4), np.array([5])])
    assert time.process_time() - start < 0.5  # a loop takes seconds


@pytest.mark.parametrize("entries", [[[5, 10**6], [7, 10**6]], [5, 7] * 10**6])
def test_a_million_unequal_chunks_are_columns(entries):
    start = time.process_time()
    grid, _ = ours(document([entries], [12 * 10**6]))
    edges = grid.axes[0]
    assert edges.dtype == np.int64
    assert len(edges) == 2 * 10**6 + 1
    assert edges[-1] == 12 * 10**6
    # No object per chunk: a loop over two million takes longer than this.
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("shapes", "shape", "message"),
    [
        ([[1]], [2, 2], "of 2 dimensions"),
        ("x", [2], "of 1 dimensions"),
        (None, [2], "of 1 dimensions"),
        ([[]], [2], "at least 1"),
        ([[0, 2]], [2], "at least 1"),
        ([0], [2], "at least 1"),
        ([[-1, 3]], [2], "at least 1"),
        ([[True, 2]], [2], "at least 1"),
        ([[2.0]], [2], "at least 1"),
        ([["2"]], [2], "at least 1"),
        ([[None]], [2], "at least 1"),
        ([[[2]]], [2], "at least 1"),
        ([[[2, 1, 1]]], [2], "at least 1"),
        ([[[2, 0]]], [2], "at least 1"),
        ([[[2, -1]]], [2], "at least 1"),
        ([[[2, True]]], [2], "at least 1"),
        ([[[[2], 1]]], [2], "at least 1"),
        ([{"2": 1}], [2], "at least 1"),
        ([[2**62]], [2], "at least 1"),
        ([[[1, 2**64]]], [2], "at least 1"),
        ([10**400], [2], "at least 1"),
        ([[1]], [2], "end at 1, before the dimension's end at 2"),
        ([[[2**61, 1], 1]], [2**62 - 1], "before the dimension's end"),
    ],
)
def test_damaged_grids_are_told_with_their_place(shapes, shape, message):
    problems = []
    grid, _ = grid_v3(document(shapes, shape), tuple(shape), problems, "a")
    assert len(problems) == 1
    assert message in problems[0].message
    assert problems[0].where.startswith("chunk_grid.chunk_shapes")
    assert grid.shape == tuple(shape)


def test_sums_of_lengths_beyond_64_bits_do_not_come_round():
    huge = 2**61
    grid, _ = ours(document([[5, huge, huge, huge, huge, huge, huge, huge, huge, 7]], [6]))
    assert grid.edges[0].tolist() == [0, 5, 5 + huge]


@pytest.mark.parametrize(
    ("entry", "size", "shown"),
    [
        ([[2, 5]], 10, 2),
        ([[2, 5]], 9, 2),
        ([[4, 1]], 3, 4),
        ([[2, 6]], 10, [[2, 6]]),  # goes on beyond the end
        ([[2, 4]], 10, [[2, 4]]),  # ends early
        ([[2, 4], 2], 10, [[2, 4], 2]),
        ([10], 10, [10]),
        ([[2, 0]], 0, [[2, 0]]),
    ],
)
@pytest.mark.parametrize("key", ["chunk_shapes", "chunk_shape"])
def test_zarr_python_is_shown_equal_chunks_as_one_number(key, entry, size, shown):
    name = {"chunk_shapes": "rectilinear", "chunk_shape": "rectangular"}[key]
    grid = {"name": name, "configuration": {"kind": "inline", key: [entry, 3]}}
    found = for_listing(grid, [size, 7], "a")
    assert found == {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [shown, 3]}}
    assert (found is grid) == (name == "rectilinear" and shown == entry)


@pytest.mark.parametrize("entry", [[[1, 2**20]], [[1, 2**19], *[1, 2] * 2**18]])
def test_zarr_python_lists_no_more_unequal_chunks_than_so_many(entry):
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [entry]}}
    assert for_listing(grid, [2**21], "a") is grid
    grid["configuration"]["chunk_shapes"] = [[*entry, 3]]
    with pytest.raises(LimitError, match="dimension 0 has 1,048,577 chunks"):
        for_listing(grid, [2**21], "a")


def test_an_empty_dimension_beside_unequal_chunks_tells_a_length():
    grid = chunk_grid([Regular(0, 4), [1, 2]])
    assert grid["configuration"]["chunk_shapes"] == [[4], [1, 2]]
    with zarr.config.set({"array.rectilinear_chunks": True}):
        assert ArrayV3Metadata.from_dict(document([[4], [1, 2]], (0, 3))).shape == (0, 3)


def test_a_run_that_grew_by_nothing_is_not_written():
    lengths, counts = np.array([3, 2, 3]), np.array([1, 0, 2])
    found = with_runs(chunk_grid([[3, 2]]), 0, lengths, counts)
    assert found["configuration"]["chunk_shapes"] == [[[3, 3]]]


@pytest.mark.parametrize("entry", [True, [True, 1], [[True, 2]]])
def test_truth_is_no_length(entry):
    problems = []
    grid_v3(document([entry], (2,)), (2,), problems, "a")
    assert ["expected lengths of at least 1 or runs of them" in p.message for p in problems] == [True]


def test_endless_chunks_of_one_length_are_refused():
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [3, 2]}}
    with pytest.raises(LimitError, match="dimension 1 has 4,294,967,297 chunks"):
        for_listing(grid, [9, 2**33 + 1], "a")


@pytest.mark.parametrize("shape", [[9], "9", None])
def test_endless_chunks_are_refused_whatever_the_shape_is(shape):
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[[1, 2**33]], 3]}}
    with pytest.raises(LimitError, match="dimension 0 has 8,589,934,592 chunks"):
        for_listing(grid, shape, "a")


def test_more_chunks_than_any_array_has_are_refused_before_they_are_listed():
    found = document([[[1, 2**40], 5]], [2**40 + 5])
    with pytest.raises(LimitError, match=r"a, dimension 0 has 1099511627777 chunks, more than"):
        grid_v3(found, (2**40 + 5,), [], "a")


SHARDED = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": PLAIN, "index_codecs": PLAIN}}]


@pytest.mark.parametrize(("entry", "good"), [([4, 2, [6, 2]], True), ([4, 3], False), ([[4, 3]], True), (3, False)])
def test_chunks_in_shards_of_any_lengths_divide_each(entry, good):
    found = document([entry], [7], codecs=SHARDED)
    problems = []
    grid, objects = grid_v3(found, (7,), problems, "a")
    assert [p.where for p in problems] == ([] if good else ["codecs.sharding_indexed.chunk_shape[0]"])
    assert grid.axes == (Regular(7, 2),)
    assert objects is not grid


@given(st.lists(lengths, min_size=1, max_size=2), st.data())
@hypothesis_settings(max_examples=examples(120), deadline=None)
def test_values_written_by_these_grids_are_read_by_zarr_python(tmp_path_factory, sizes, data):
    shape = tuple(sum(s) - data.draw(st.integers(0, s[-1] - 1)) for s in sizes)
    folder = tmp_path_factory.mktemp("a")
    new = NewArray(None, shape, np.dtype("i4"), sizes, 0, Codec("none"), {})
    write_documents(folder, array_documents(new, 3))
    wanted = values(shape, "i4")
    padded = np.zeros([sum(s) for s in sizes], "i4")
    padded[tuple(slice(n) for n in shape)] = wanted
    grid = Grid.from_sizes(sizes)
    for index in np.ndindex(grid.matrix_shape):
        path = folder / "c" / "/".join(map(str, index))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.ascontiguousarray(padded[tuple(slice(a, b) for a, b in grid.extent(index))]).tobytes())
    with zarr.config.set({"array.rectilinear_chunks": True}):
        np.testing.assert_array_equal(zarr.open_array(folder, mode="r")[...], wanted)
    array = open_array(folder.parent, folder.name)
    for index in np.ndindex(array.grid.matrix_shape):
        box = tuple(slice(a, b) for a, b in array.grid.extent(index))
        np.testing.assert_array_equal(read_chunk(array, index), wanted[box])


def test_grids_of_nczarr_are_those_of_the_netcdf_library_both_ways(tmp_path):
    with netCDF4.Dataset(f"file://{tmp_path}/n.zarr#mode=nczarr,file", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 9)
        file.createVariable("v", "i4", ("t", "x"), chunksizes=(3, 8))[:7] = 1
        file.createVariable("w", "f8", ("x",), contiguous=True)[:] = 2
    v = open_array(tmp_path / "n.zarr", "v")
    assert v.grid == Grid.regular((7, 9), (3, 8))
    assert open_array(tmp_path / "n.zarr", "w").grid == Grid.regular((9,), (9,))
    (tmp_path / "m.zarr/v").mkdir(parents=True)
    (tmp_path / "m.zarr/.zgroup").write_text('{"zarr_format": 2}')
    new = NewArray(("t", "x"), v.shape, v.dtype, (3, 8), -1, Codec("none"), {})
    write_documents(tmp_path / "m.zarr/v", array_documents(new, 2))
    with netCDF4.Dataset(f"file://{tmp_path}/m.zarr#mode=zarr,file") as file:
        assert (file["v"].shape, file["v"].chunking()) == ((7, 9), [3, 8])


def test_the_netcdf_library_writes_no_zarr_v3_yet(tmp_path):
    """Once it does, its stores are to be read here, as those of version 2 are."""
    with netCDF4.Dataset(f"file://{tmp_path}/n.zarr#mode=nczarr,file,v3", "w") as file:
        file.createDimension("x", 9)
        file.createVariable("v", "i4", ("x",))[:] = 1
    assert not list((tmp_path / "n.zarr").rglob("zarr.json"))
    assert json.loads((tmp_path / "n.zarr/v/.zarray").read_text())["zarr_format"] == 2


def test_arrays_that_zarr_python_resizes_have_its_grid(tmp_path):
    array = create(tmp_path, "x", (10,), [[3, 3, 4]], dtype="i4")
    array[...] = np.arange(10)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        for size in (14, 6, 21):
            array.resize((size,))
            found = json.loads((tmp_path / "x/zarr.json").read_text())
            assert told(open_array(tmp_path, "x").grid) == peer(found)
