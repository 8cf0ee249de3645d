"""Concatenation: the chunks and values of the parts, and what does not go together is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.errors import ConformError, OptionError, StaleError


def made(values: Any, chunks: Any, **options: Any) -> zarr.Array[Any]:
    return zarr.create_array(zarr.storage.MemoryStore(), name="x", data=np.asarray(values), chunks=chunks, **options)


def test_chunks_are_those_of_the_parts() -> None:
    one, other = made(np.arange(100), (100,)), made(np.arange(100), (50,))
    assert cfagg.concatenate([one, other]).chunks == ((100, 50, 50),)
    assert cfagg.concatenate([cfagg.concatenate([other, one]), other]).chunks == ((50, 50, 100, 50, 50),)
    assert cfagg.concatenate([other, other]).chunks == ((50,) * 4,)


@given(st.data())
def test_values_are_those_of_numpy(data: st.DataObject) -> None:
    axis = data.draw(st.integers(-2, 1))
    other = data.draw(st.integers(0, 4))
    arrays, values = [], []
    for n in data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)):
        shape = (n, other) if axis in (0, -2) else (other, n)
        array = np.arange(n * other, dtype=data.draw(st.sampled_from(["i4", "f8", "u1"]))).reshape(shape)
        values.append(array)
        kind = data.draw(st.sampled_from(["memory", "zarr", "dask"]))
        chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
        if kind == "zarr":
            array = made(array, chunks)
        elif kind == "dask":
            array = da.from_array(array, chunks=chunks)
        arrays.append(array)
    expected = np.concatenate(values, axis)
    found = cfagg.concatenate(arrays, axis)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert tuple(map(sum, found.chunks)) == found.shape
    assert np.array_equal(np.asarray(found), expected)
    key = tuple(data.draw(st.one_of(st.slices(n), st.lists(st.integers(0, n - 1)) if n else st.slices(n)))
                for n in expected.shape)  # fmt: skip
    places = [np.arange(n)[k] for k, n in zip(key, expected.shape, strict=True)]
    assert np.array_equal(found.oindex[key], expected[np.ix_(*places)])
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.to_dask().compute(scheduler="synchronous"), expected)


def test_nested_lists_go_along_several_axes() -> None:
    values = np.arange(5 * 6).reshape(5, 6)
    parts = [[made(values[a:b, c:d], (2, 2)) for c, d in ((0, 4), (4, 6))] for a, b in ((0, 2), (2, 5))]
    found = cfagg.concatenate(parts, axis=(0, 1))
    assert np.array_equal(np.asarray(found), values)
    assert found.chunks == ((2, 2, 1), (2, 2, 2))
    turned = cfagg.concatenate([list(p) for p in zip(*parts, strict=True)], axis=(1, 0))
    assert np.array_equal(np.asarray(turned), values)
    assert np.array_equal(np.block([[np.asarray(p) for p in row] for row in parts]), values)


def test_along_other_axes_the_chunks_are_those_of_most() -> None:
    values = np.arange(12).reshape(2, 6)
    found = cfagg.concatenate([made(values, (2, 3)), made(values, (2, 2)), made(values, (2, 2))])
    assert found.chunks == ((2, 2, 2), (2, 2, 2))
    assert np.array_equal(np.asarray(found), np.concatenate([values] * 3))


def test_big_endian_and_other_types_go_into_one_that_holds_all() -> None:
    found = cfagg.concatenate([made(np.arange(3, dtype=">i2"), (2,)), made(np.arange(2, dtype="f4"), (2,))])
    assert found.dtype == np.float32
    assert found[:].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(("one", "other"), [("i8", "f8"), ("u8", "i8"), ("f4", "S1"), ("i4", "f2"), ("u8", "f4")])
def test_types_that_no_type_holds_are_refused(one: str, other: str) -> None:
    arrays = [np.zeros(2, one), np.zeros(2, other)]
    if (one, other) == ("i4", "f2"):
        assert cfagg.concatenate(arrays).dtype == np.float64
        return
    with pytest.raises(ConformError, match="no type holds"):
        cfagg.concatenate(arrays)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("units", "K", "degC"), ("units", "K", None), ("calendar", "standard", "360_day"),
        ("scale_factor", 0.1, 0.2), ("add_offset", 1.0, None), ("_FillValue", -1, -2),
        ("_FillValue", None, float("nan")),
        ("_Unsigned", "true", None), ("valid_range", [0, 1], [0, 2]), ("flag_meanings", "a b", "b a"),
        ("missing_value", 1, None), ("valid_min", 0, 1), ("valid_max", 0, 1), ("flag_values", [0, 1], [1, 0]),
        ("flag_masks", [1, 2], [2, 1]), ("positive", "up", "down"),
    ],
)  # fmt: skip
def test_values_that_mean_different_things_are_refused(name: str, one: Any, other: Any) -> None:
    arrays = [
        made([1, 2], (2,), attributes={"long_name": "x", **({} if v is None else {name: v})}) for v in (one, other)
    ]
    with pytest.raises(ConformError, match=rf"{name} is .* in arrays\[0\] and .* in arrays\[1\]"):
        cfagg.concatenate(arrays)


def test_attributes_that_agree_stay_and_arrays_without_any_take_them() -> None:
    one = made([1.0, 2.0], (2,), attributes={"units": "K", "_FillValue": float("nan"), "history": "a", "n": [1, 2]})
    other = made([1.0], (1,), attributes={"units": "K", "_FillValue": float("nan"), "history": "b", "n": [1, 2]})
    found = cfagg.concatenate([np.zeros(2), one, other])
    assert sorted(found.attributes) == ["_FillValue", "n", "units"]


def test_a_fill_value_is_compared_in_the_type_of_its_array() -> None:
    fills = [("f4", float(np.float32(1e20))), ("f4", 1e20), ("f8", 1e20)]
    one, other, wide = (made(np.ones(2, t), (2,), attributes={"_FillValue": v}) for t, v in fills)
    assert cfagg.concatenate([one, other]).dtype == np.float32
    with pytest.raises(ConformError, match="_FillValue is"):
        cfagg.concatenate([other, wide])


def test_what_is_stored_without_attributes_is_neither_packed_nor_missing() -> None:
    plain = made(np.array([1, 2], "i2"), (2,))
    assert cfagg.concatenate([plain, made([1, 2], (2,), attributes={"units": "K"})]).attributes == {"units": "K"}
    for name, value in (("scale_factor", 0.1), ("_FillValue", 1), ("valid_max", 3)):
        packed = made(np.array([1, 2], "i2"), (2,), attributes={name: value})
        for arrays in ([plain, packed], [packed, plain]):
            with pytest.raises(ConformError, match=f"{name} is .*not given in"):
                cfagg.concatenate(arrays)
        with pytest.raises(ConformError, match=f"{name} is .*not given in"):
            cfagg.concatenate([packed, cfagg.concatenate([plain, plain])])


def test_arrays_in_memory_are_packed_as_others_only_in_their_type() -> None:
    packed = made(np.array([1, 2], "i2"), (2,), attributes={"scale_factor": 0.1})
    assert cfagg.concatenate([packed, np.array([3], "i2")]).attributes == {"scale_factor": 0.1}
    for other in (np.array([0.3]), da.ones(2), cfagg.concatenate([np.array([0.3])])):
        with pytest.raises(ConformError, match=r"arrays\[0\] is packed in int16 .* arrays\[1\] is of type float64"):
            cfagg.concatenate([packed, other])


def test_integers_that_stand_for_unsigned_ones_keep_their_size() -> None:
    arrays = [made(np.array([-1], t), (1,), attributes={"_Unsigned": "true"}) for t in ("i1", "i2")]
    with pytest.raises(ConformError, match="_Unsigned"):
        cfagg.concatenate(arrays)


def test_attributes_of_any_form_are_compared() -> None:
    arrays = [made([1], (1,), attributes={"x": [[1], [2, 3]], "y": {"a": n}, "z": [1, "a", None]}) for n in (1, 2)]
    assert cfagg.concatenate(arrays).attributes == {"x": [[1], [2, 3]], "z": [1, "a", None]}


def test_names_of_dimensions_have_to_agree() -> None:
    one, other = made(np.zeros((2, 2)), (2, 2), dimension_names=("y", "x")), made(np.zeros((2, 2)), (2, 2))
    assert cfagg.concatenate([other, one]).dims == ("y", "x")
    turned = made(np.zeros((2, 2)), (2, 2), dimension_names=("x", "y"))
    with pytest.raises(ConformError, match=r"dimension 0 is called 'y' in arrays\[0\] and 'x' in arrays\[1\]"):
        cfagg.concatenate([one, turned])


def test_names_that_libraries_make_up_are_none(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "a"), name="t", data=np.array(["a"]), chunks=(1,))
    zarr.create_array(str(tmp_path / "b"), name="t", data=np.array(["b"]), chunks=(1,), dimension_names=["time"])
    arrays = [cfagg.open_array(tmp_path / n, "t") for n in "ab"]
    assert cfagg.concatenate(arrays).dims == ("time",)
    assert cfagg.concatenate([arrays[0], np.array(["c"])]).dims == ("dim_0",)


def test_shapes_have_to_agree() -> None:
    with pytest.raises(ConformError, match=r"arrays\[1\] has shape \(2, 3\), and arrays\[0\] \(2, 2\)"):
        cfagg.concatenate([np.zeros((2, 2)), np.zeros((2, 3))])
    with pytest.raises(ConformError):
        cfagg.concatenate([np.zeros((2, 2)), np.zeros(2)])


@pytest.mark.parametrize(
    ("arrays", "axis"),
    [
        ([], 0), (np.zeros((2, 2)), 0), ("ab", 0), ([1, 2], 0), ([[np.zeros(2)]], 0), ([np.zeros(2)], 1),
        ([np.zeros(2)], "x"), ([np.zeros(2)], True), ([np.zeros(2)], ()), ([np.zeros((2, 2))], (0, 1)),
        ([xr.DataArray(np.zeros(2))], 0), ([xr.Dataset()], 0), ([xr.DataArray(da.zeros(2))], 0),
        ([[np.zeros((2, 2))]], (0, 0)), ([[np.zeros((2, 2))]], (0, -2)), ([np.ma.zeros(2)], 0), ([None], 0),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(arrays: Any, axis: Any) -> None:
    with pytest.raises(OptionError):
        cfagg.concatenate(arrays, axis)


def test_chunks_of_dask_of_unknown_lengths_are_refused() -> None:
    array = da.from_array(np.arange(10), chunks=5)
    with pytest.raises(OptionError, match="compute_chunk_sizes"):
        cfagg.concatenate([array[array > 3]])


def test_a_store_that_was_written_since_is_refused(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path), name="x", data=np.arange(4), chunks=(2,))
    zarr.open_array(str(tmp_path), path="x").append(np.arange(2))
    with pytest.raises(StaleError, match="open it again"):
        cfagg.concatenate([array])


@pytest.mark.parametrize(("dtype", "fill"), [("i2", 0), ("f4", 1e20), ("bool", True), ("S2", b"x"), (str, "")])
def test_an_array_of_version_2_means_the_same_whoever_opens_it(tmp_path: Path, dtype: Any, fill: Any) -> None:
    dims = {"_ARRAY_DIMENSIONS": ["time"]}
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    array = group.create_array("v", shape=(3,), chunks=(2,), dtype=dtype, fill_value=fill, attributes=dims)
    found = cfagg.concatenate([array, cfagg.open_array(tmp_path / "a.zarr", "v"), array])
    assert found.dims == ("time",)
    assert set(found.attributes) == {"_FillValue"}
    if found.dtype.kind not in "OS":  # Zarr v3 has no missing texts
        cfagg.write(found, tmp_path / "b.zarr")
        assert cfagg.open_array(tmp_path / "b.zarr", "v").attributes["_FillValue"] == fill


def test_an_array_of_version_2_is_not_joined_with_one_that_has_no_missing_values(tmp_path: Path) -> None:
    like = {"name": "v", "shape": (2,), "chunks": (2,), "dtype": "i4"}
    parts = [zarr.create_array(str(tmp_path / str(n)), zarr_format=n, **like) for n in (2, 3)]
    with pytest.raises(ConformError, match=r"_FillValue is 0 in arrays\[0\] and not given in arrays\[1\]"):
        cfagg.concatenate(parts)


def test_arrays_that_zarr_decodes_are_read(tmp_path: Path) -> None:
    text = [zarr.create_array(str(tmp_path / n), name="t", data=np.array([n, "é"]), chunks=(1,)) for n in "ab"]
    assert cfagg.concatenate(text)[:].tolist() == ["a", "é", "b", "é"]


def test_a_thousand_parts_are_described_without_opening_chunks(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path), name="x", shape=(10, 4), chunks=(10, 4), dtype="f4", fill_value=7)
    found = cfagg.concatenate([array] * 1000)
    assert found.shape == (10_000, 4)
    assert found[::5000].tolist() == [[7.0] * 4] * 2
