"""Reading Zarr arrays chunk by chunk; zarr-python and NumPy say what comes out."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg.labelled.indexed
from cfagg.arrays.chunked import ZarrReader
from cfagg.arrays.opening import open_reader
from cfagg.errors import FragmentReadError, SelectionError
from cfagg.formats.zarr import open_array
from tests.effort import examples


def selections(n: int) -> st.SearchStrategy[Any]:
    """Return what selects along a dimension of this size."""
    ends = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    steps = st.one_of(st.none(), st.integers(-4, 4).filter(bool))
    return st.one_of(
        st.builds(slice, ends, ends, steps),
        st.integers(-n, n - 1),
        st.lists(st.integers(-n, n - 1), max_size=9).map(lambda found: np.array(found, "i8")),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
    )


@settings(max_examples=examples(60))
@given(
    st.data(),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from([2, 3]),
    st.sampled_from(["plain", "compressed", "sharded", "big"]),
)
def test_any_selection_is_that_of_numpy(data, shape, chunks, zarr_format, kind):
    master = np.arange(shape[0] * shape[1], dtype=">i4" if kind == "big" else "i4").reshape(shape)
    more: dict[str, Any] = {"chunks": chunks, "fill_value": 77}
    if kind == "plain":
        more["compressors"] = None
    if kind == "sharded" and zarr_format == 3:
        more["shards"] = tuple(2 * c for c in chunks)
    chosen = [data.draw(selections(n)) for n in shape]
    with tempfile.TemporaryDirectory() as folder:
        made = zarr.create_array(folder, name="x", shape=shape, dtype=master.dtype, zarr_format=zarr_format, **more)
        made[: chunks[0]] = master[: chunks[0]]  # chunks behind are not stored
        master[chunks[0] :] = 77
        expected = master[chosen[0]][..., chosen[1]] if np.ndim(chosen[0]) or isinstance(chosen[0], slice) else None
        expected = master[chosen[0], :][chosen[1]] if expected is None else expected
        found = ZarrReader(open_array(folder, "x")).read(chosen)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.dtype("i4")


def test_lists_of_indices_without_a_rule_are_taken_along_their_own_dimension(tmp_path: Path) -> None:
    master = np.arange(56).reshape(8, 7)
    zarr.create_array(tmp_path, name="x", data=master, chunks=(8, 7))
    rows, columns = np.array([6, 0, 3, 1, 1]), np.array([0, 1, 1, 5])
    found = ZarrReader(open_array(tmp_path, "x")).read([rows, columns])
    np.testing.assert_array_equal(found, master[np.ix_(rows, columns)])


def test_points_are_those_of_numpy_and_each_chunk_is_read_once(tmp_path: Path) -> None:
    master = np.random.default_rng(1).normal(size=(7, 11, 5))
    zarr.create_array(tmp_path, name="x", data=master, chunks=(3, 4, 5))
    reader = open_reader(tmp_path, "x")
    index = (np.array([[6], [-1], [0]]), np.array([3, -11]), np.array([[4, 0]]))
    np.testing.assert_array_equal(reader.points(index), master[index])
    with pytest.raises(SelectionError, match="dimension 1: an index is outside size 11"):
        reader.points((np.array([0]), np.array([11]), np.array([0])))


def test_scattered_points_of_a_dataset_are_read_without_the_box_around_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cfagg.labelled.indexed, "_FEW", 4)
    monkeypatch.setattr(cfagg.labelled.indexed, "_MANY", 2)
    master = np.arange(400.0).reshape(20, 20)
    group = zarr.open_group(tmp_path, mode="w", zarr_format=3)
    group.create_array("x", data=master, chunks=(3, 7), dimension_names=("a", "b"))
    largest = []
    read = ZarrReader.read
    monkeypatch.setattr(ZarrReader, "read", lambda *args: largest.append(read(*args).size) or read(*args))
    dataset = cfagg.read(tmp_path)
    import xarray

    a, b = xarray.DataArray([19, 0, 3, 11], dims="p"), xarray.DataArray([1, 18, 9, 9], dims="p")
    assert dataset.x.isel(a=a, b=b).values.tolist() == master[a.values, b.values].tolist()
    assert max(largest) == 1


def test_an_array_without_dimensions_or_elements_is_read(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="one", shape=(), dtype="f4", fill_value=3.5)
    zarr.create_array(tmp_path, name="none", shape=(0, 4), dtype="f4", chunks=(1, 4))
    assert ZarrReader(open_array(tmp_path, "one")).read([]).item() == 3.5
    assert ZarrReader(open_array(tmp_path, "none")).read([slice(None), slice(1, 3)]).shape == (0, 2)


def test_strings_are_read_through_zarr_python_by_the_same_interface(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    made = group.create_array("s", shape=(5,), dtype=str, chunks=(2,))
    made[:] = np.array(["a", "", "ø", "d", "e"], object)
    made.attrs["_ARRAY_DIMENSIONS"] = ["n"]
    reader = open_reader(tmp_path, "s")
    assert reader.read([slice(None, None, -2)]).tolist() == ["e", "ø", "a"]
    assert reader.read([np.array([4, 1])]).tolist() == ["e", ""]


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(b"no"), lambda p: p.write_bytes(p.read_bytes()[:-3])])
def test_a_damaged_chunk_is_named(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    zarr.create_array(tmp_path, name="x", data=np.arange(6), chunks=(4,))
    damage(tmp_path / "x/c/1")
    reader = open_reader(tmp_path, "x")
    assert reader.read([slice(0, 4)]).tolist() == [0, 1, 2, 3]
    with pytest.raises(FragmentReadError, match=r"array 'x', chunk \(1,\)"):
        reader.read([slice(None)])


def test_readers_are_pickled_and_two_of_one_array_differ_to_dask(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="x", data=np.arange(6), chunks=(4,))
    one, other = (ZarrReader(open_array(tmp_path, "x")) for _ in range(2))
    assert pickle.loads(pickle.dumps(one)).read([slice(3, 5)]).tolist() == [3, 4]
    assert one.__dask_tokenize__() != other.__dask_tokenize__()
