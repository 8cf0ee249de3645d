"""The lazy array: NumPy's indexing, pickles, dask, and every format that is opened."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

import cfagg
from cfagg.arrays import points, reader
from cfagg.arrays.given import MemoryReader
from cfagg.arrays.lazy import LazyArray
from cfagg.demo import sample
from cfagg.errors import (
    FragmentReadError,
    LimitError,
    SelectionError,
    SourceError,
    SourceNotFoundError,
    UnreadableAggregationError,
    UnsupportedError,
)

VALUES = np.arange(7 * 5 * 4).reshape(7, 5, 4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lazy") / "a.zarr"
    zarr.create_array(str(made), name="g/tas", data=VALUES, chunks=(3, 5, 3), attributes={"units": "K"})
    return made


@pytest.fixture(scope="module")
def lazy(store: Path) -> LazyArray:
    return cfagg.open_array(store, "tas", group="/g")


def keys() -> st.SearchStrategy[Any]:
    """Keys of every kind that NumPy takes."""
    ints = hn.integer_array_indices((7,), result_shape=hn.array_shapes(min_dims=1, max_dims=2, max_side=3))
    lists = ints.map(lambda found: found[0])
    small = st.one_of(lists.map(lambda i: i % 4), lists.map(lambda i: -(i % 4) - 1))
    masks = hn.arrays(bool, 5)
    ranges = st.slices(4)
    entry = st.one_of(st.integers(-4, 3), ranges, small, st.none())
    mixed = st.tuples(st.one_of(st.slices(7), st.integers(-7, 6), lists.map(lambda i: i[..., :1])), entry, entry)
    return st.one_of(
        hn.basic_indices((7, 5, 4), allow_newaxis=True, allow_ellipsis=True),
        st.tuples(st.slices(7), masks, st.integers(-4, 3)),
        st.tuples(hn.arrays(bool, (7, 5)), ranges),
        mixed,
    )


@given(keys())
def test_indexing_is_that_of_numpy(lazy: LazyArray, key: Any) -> None:
    try:
        expected = VALUES[key]
    except IndexError:
        with pytest.raises(IndexError):
            lazy[key]
        return
    found = lazy[key]
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(found, expected)


def test_an_ellipsis_that_stands_for_no_dimension_separates_lists(lazy: LazyArray) -> None:
    keys: list[Any] = [(slice(1, 6), [4, 0], ..., [3, 3]), (..., slice(5), [1, 0], [0, 2]), (0, ..., slice(2), [1, 1])]
    keys.append((slice(1, 6), ..., [4, 0], [3, 3]))  # it is before them, not between them
    for key in keys:
        assert np.array_equal(lazy[key], VALUES[key])


@given(keys())
def test_every_key_gives_the_same_where_few_elements_are_read_together(lazy: LazyArray, key: Any) -> None:
    try:
        expected = VALUES[key]
    except IndexError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "_TOGETHER", 1)
        patch.setattr(points, "_EACH", 1)
        found = lazy[key]
    assert np.array_equal(found, expected)
    assert np.shape(found) == np.shape(expected)


def test_points_of_a_large_cell_are_read_without_all_combinations_of_their_indices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (150, 160, 170)
    master = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    xr.Dataset({"v": (("a", "b", "c"), master)}).to_netcdf(tmp_path / "a.nc")
    places = [np.random.default_rng(d).integers(0, n, 200) for d, n in enumerate(shape)]
    read, sizes = reader.Reader.read, []
    monkeypatch.setattr(reader.Reader, "read", lambda *args: sizes.append((f := read(*args)).size) or f)
    assert np.array_equal(cfagg.open_array(tmp_path / "a.nc", "v")[tuple(places)], master[tuple(places)])
    assert max(sizes) <= points._TOGETHER
    assert len(sizes) <= 32


@given(st.tuples(st.lists(st.integers(-7, 6)), st.slices(5), hn.arrays(bool, 4)))
def test_outer_indexing_is_that_of_ix(lazy: LazyArray, key: tuple[Any, ...]) -> None:
    rows, columns, mask = key
    assert np.array_equal(lazy.oindex[key], VALUES[np.asarray(rows, int)][:, columns][:, :, mask])


@pytest.mark.parametrize("version", [2, 3])
def test_text_is_indexed_as_numpy_does_and_read_by_chunk(tmp_path: Path, version: Any) -> None:
    text = np.array([["a", "é"], ["", "bc"], ["d", "e"]], object)
    made = zarr.create_array(str(tmp_path), name="t", shape=(3, 2), dtype=str, chunks=(2, 1), zarr_format=version)
    made[...] = text
    found = cfagg.open_array(tmp_path, "t")
    assert found.chunks == ((2, 1), (1, 1))
    assert (found[0, 1], found[-1, 0]) == ("é", "d")
    for key in (
        (..., 0),
        (0, 1, ...),
        (None, 0, 1),
        ([2, 0], 1),
        (slice(None, None, -2),),
        np.array([True, False, True]),
    ):
        assert np.array_equal(found[key], text[key])
    # Damage elsewhere does not matter.
    (tmp_path / ("t/c/0/1" if version == 3 else "t/0.1")).write_bytes(b"x")
    assert found[0:2, 0].tolist() == ["a", ""]


@pytest.mark.parametrize(
    "key", [(0, 0, 0, 0), (..., ...), 7, [9], "x", 1.5, (slice(None), np.ones(3, bool)), ([0, 1], [0, 1, 2]), True,
            np.array(True), np.array([0, 2**64 - 1], "u8")]
)  # fmt: skip
def test_keys_that_numpy_refuses_and_masks_without_dimensions_are_refused(lazy: LazyArray, key: Any) -> None:
    with pytest.raises(SelectionError):
        lazy[key]


@pytest.mark.parametrize("key", [None, (None, [0]), (0, np.array([2**64 - 1], "u8"))])
def test_new_dimensions_and_indices_beyond_all_are_refused_by_oindex(lazy: LazyArray, key: Any) -> None:
    with pytest.raises(SelectionError):
        lazy.oindex[key]


def test_it_says_what_it_is_and_opens_no_chunk(store: Path, lazy: LazyArray) -> None:
    assert (lazy.shape, lazy.dtype, lazy.ndim, lazy.size, lazy.nbytes) == ((7, 5, 4), VALUES.dtype, 3, 140, 1120)
    assert lazy.chunks == ((3, 3, 1), (5,), (3, 1))
    assert (lazy.name, lazy.attributes, len(lazy)) == ("tas", {"units": "K"}, 7)
    assert "3 x 1 x 2 chunks" in repr(lazy)


def test_more_chunks_than_fit_into_memory_are_not_listed(tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path), name="x", shape=(10**15,), chunks=(1,), dtype="u1")
    zarr.create_array(str(tmp_path), name="y", shape=(5,), chunks=(2,), dtype="u1")
    many, few = (cfagg.open_array(tmp_path, name) for name in "xy")
    assert few.chunks == ((2, 2, 1),)
    assert many[10**14].tolist() == 0
    both = cfagg.concatenate([many, few])
    assert both.shape == (10**15 + 5,)
    assert both[10**15 :].tolist() == [0] * 5
    for found in (lambda: many.chunks, many.to_dask, lambda: both.grid, lambda: both.chunks):
        with pytest.raises(LimitError, match=r"too many|at most"):
            found()
    assert "too many chunks" in repr(both)


def test_it_becomes_an_array_of_numpy(lazy: LazyArray) -> None:
    assert np.array_equal(np.asarray(lazy), VALUES)
    assert np.asarray(lazy, "f4").dtype == np.float32
    assert np.array_equal(np.stack(list(lazy)), VALUES)
    assert np.sum(lazy) == VALUES.sum()
    with pytest.raises(ValueError, match="copies are forbidden"):
        np.array(lazy, copy=False)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(lazy)


def test_it_is_pickled(lazy: LazyArray) -> None:
    again = pickle.loads(pickle.dumps(lazy))
    assert np.array_equal(again[1], VALUES[1])
    assert (again.chunks, again.name, again.attributes) == (lazy.chunks, lazy.name, lazy.attributes)


def test_dask_has_its_edges(lazy: LazyArray) -> None:
    found = lazy.to_dask()
    assert found.chunks == lazy.chunks == da.from_array(lazy, chunks=lazy.chunks).chunks
    assert np.array_equal(found[[5, 0]][:, [1, 1]].compute(scheduler="synchronous"), VALUES[[5, 0]][:, [1, 1]])
    assert lazy.to_dask(chunks=(7, 5, 4)).npartitions == 1
    assert da.from_array(lazy).sum().compute(scheduler="synchronous") == VALUES.sum()


def test_two_of_one_variable_are_not_one_to_dask(store: Path) -> None:
    one, other = (cfagg.open_array(store, "g/tas").to_dask() for _ in range(2))
    assert one.name != other.name


def test_rectilinear_chunks_are_its_chunks(tmp_path: Path) -> None:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        made = zarr.create_array(str(tmp_path), name="x", shape=(10,), chunks=[[4, 1, 5]], dtype="i4")
        made[:] = np.arange(10)
    found = cfagg.open_array(tmp_path, "x")
    assert found.chunks == ((4, 1, 5),)
    assert found[::-2].tolist() == list(range(9, 0, -2))


def test_an_aggregation_has_its_partitions_and_units() -> None:
    path = sample("temperature.nca")
    found, whole = cfagg.open_array(path, "tas"), cfagg.open_aggregation(path, "tas")
    assert found.chunks == whole.grid.sizes
    assert found.attributes["units"] == whole.units
    expected = cfagg.read(path, decode_times=False, mask_and_scale=False).tas.values
    assert np.array_equal(found[5:20, 3], expected[5:20, 3])


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_values_of_netcdf_are_as_stored_with_the_chunks_of_the_file(tmp_path: Path, form: Any) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=form) as nc:
        nc.createDimension("x", 10)
        more = {"chunksizes": (4,)} if form == "NETCDF4" else {}
        v = nc.createVariable("v", "i2", ("x",), **more)
        v.scale_factor = 0.5
        v.set_auto_maskandscale(False)
        v[:] = np.arange(10)
    found = cfagg.open_array(tmp_path / "a.nc", "v")
    assert found[7:].tolist() == [7, 8, 9]
    assert found.attributes["scale_factor"] == 0.5
    assert found.chunks == (((4, 4, 2),) if form == "NETCDF4" else ((10,),))


def test_fields_of_pp_files_are_read() -> None:
    path = next(iter(sorted(Path(sample("temperature.nca")).parent.rglob("*.pp"))))
    name = next(iter(cfagg.read(path).data_vars))
    assert np.array_equal(cfagg.open_array(path, str(name))[...], cfagg.read(path, mask_and_scale=False)[name].values)


def test_scalars_and_empty_arrays(tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path))
    group.create_array("s", data=np.array(3.5))
    group.create_array("e", shape=(0, 4), chunks=(2, 2), dtype="i2")
    scalar, empty = cfagg.open_array(tmp_path, "s"), cfagg.open_array(tmp_path, "e")
    assert (scalar[()], scalar[...].shape, float(np.asarray(scalar)), scalar.chunks) == (3.5, (), 3.5, ())
    assert (empty[...].shape, empty.chunks) == ((0, 4), ((0,), (2, 2)))
    assert empty.to_dask().shape == (0, 4)
    with pytest.raises(TypeError, match="no length"):
        len(scalar)


def test_text_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["t"] = np.array(["ab", "c"], h5py.string_dtype())
    zarr.create_array(str(tmp_path / "a.zarr"), name="t", data=np.array(["ab", "c"]), chunks=(1,))
    for path in ("a.nc", "a.zarr"):
        assert cfagg.open_array(tmp_path / path, "t")[:].tolist() == ["ab", "c"]


@pytest.mark.parametrize("form", [2, 3])
def test_elements_of_text_are_read_like_those_of_numpy(tmp_path: Path, form: Any) -> None:
    group = zarr.create_group(str(tmp_path), zarr_format=form)
    group.create_array("t", data=np.array(["ab", "c"]))
    group.create_array("s", data=np.array("abc"))
    text, one = cfagg.open_array(tmp_path, "t"), cfagg.open_array(tmp_path, "s")
    assert (text[-1], text[1, ...].shape, one[()]) == ("c", (), "abc")
    assert (one[...].shape, one[None].tolist(), one[...].item()) == ((), ["abc"], "abc")


def test_text_of_nczarr_is_that_of_the_netcdf_library(tmp_path: Path) -> None:
    url, words = f"file://{tmp_path}/a.zarr#mode=nczarr,file", ["ab", "cdé", ""]
    with netCDF4.Dataset(url, "w") as file:
        file.createDimension("x", 3)
        file.createVariable("t", str, ("x",))[:] = np.array(words, object)
        file.createVariable("s", str, ())[...] = "é"
    text, one = cfagg.open_array(tmp_path / "a.zarr", "t"), cfagg.open_array(tmp_path / "a.zarr", "s")
    with netCDF4.Dataset(url) as file:
        assert text[:].tolist() == file["t"][:].tolist() == words
    assert (text[1], one[()], one.shape) == ("cdé", "é", ())
    cfagg.convert(tmp_path / "a.zarr", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["t"][:].tolist() == words
    chunk = tmp_path / "a.zarr/t/0"
    chunk.write_bytes(chunk.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(FragmentReadError, match=r"array /?t: one of its texts is not UTF-8 \(byte 0xff at"):
        text[:]


@pytest.mark.parametrize("dtype", ["M8[Y]", "m8[W]", "c8"])
def test_what_is_neither_number_nor_text_is_refused_with_its_type(tmp_path: Path, dtype: str) -> None:
    values = np.array([1, 2]).astype(dtype)
    zarr.create_array(str(tmp_path), name="v", data=values, zarr_format=2)
    array = cfagg.open_array(tmp_path, "v")
    expected = re.escape(f"holds values of type {values.dtype}, expected numbers or text")
    with pytest.raises(UnsupportedError, match=expected):
        array[...]


def test_what_is_not_there_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError):
        cfagg.open_array(tmp_path / "no.nc", "x")
    with pytest.raises(SourceError, match="no variable 'g/pr'"):
        cfagg.open_array(store, "g/pr")


def test_a_path_that_is_no_path_is_refused() -> None:
    with pytest.raises(cfagg.CfaggError):
        cfagg.open_array(["a.nc", "b.nc"], "x")  # type: ignore[arg-type]


def test_memory_is_read_by_the_same_interface() -> None:
    found = LazyArray(MemoryReader(VALUES.astype(">i8"), "memory"))
    assert found[2, ::-2, [3, 0]].tolist() == VALUES[2, ::-2, [3, 0]].tolist()


@pytest.mark.parametrize("dtype", ["f4", "i2", "u1", "?"])
def test_an_array_that_is_opened_by_itself_is_what_it_is_in_its_store(
    tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = {"units": "K", "valid_range": [0, 1]}
    ds = xr.Dataset({"v": (("t", "x"), np.ones((4, 3), dtype), attributes), "n": ("t", [0] * 4)})
    ds.to_zarr(tmp_path / "a.zarr", encoding={"v": {"chunks": (3, 2)} | ({} if dtype == "?" else {"_FillValue": 1})})
    alone = cfagg.open_array(tmp_path / "a.zarr", "v")
    monkeypatch.setattr("cfagg.arrays.lazy._stored", lambda *_: None)
    within = cfagg.open_array(tmp_path / "a.zarr", "v")
    assert (alone.dims, alone.dtype, alone.chunks) == (within.dims, within.dtype, within.chunks)
    assert alone.name == within.name == "v"
    assert alone.attributes == within.attributes
    assert {k: type(v) for k, v in alone.attributes.items()} == {k: type(v) for k, v in within.attributes.items()}
    assert np.array_equal(alone[...], within[...])


@pytest.mark.parametrize("form", [2, 3])
def test_an_array_may_be_the_root_of_its_store(tmp_path: Path, form: Any) -> None:
    zarr.create_array(str(tmp_path), data=np.arange(5), chunks=(2,), zarr_format=form)
    found = cfagg.open_array(tmp_path, "/")
    assert (found[:].tolist(), found.name, found.chunks) == ([0, 1, 2, 3, 4], None, ((2, 2, 1),))
    assert np.array_equal(cfagg.open_array(tmp_path), found)


def test_a_variable_must_be_named_unless_the_store_is_an_array(store: Path, tmp_path: Path) -> None:
    xr.Dataset({"v": 1.0, "w": 2.0}).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(SourceError, match=r"a.nc is not a single array: name one of its variables: v, w$"):
        cfagg.open_array(tmp_path / "a.nc")
    with pytest.raises(SourceError, match=r"a.zarr is not a single array: name one of its variables: g/tas$"):
        cfagg.open_array(store)


@pytest.mark.parametrize("form", [2, 3])
def test_an_array_may_be_in_a_zip_file(tmp_path: Path, form: Any) -> None:
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as store:
        group = zarr.create_group(store, zarr_format=form)
        group.create_array("v", data=np.arange(5), chunks=(2,), fill_value=3)
    found = cfagg.open_array(tmp_path / "a.zip", "v")
    assert (found[::-1].tolist(), found.chunks) == ([4, 3, 2, 1, 0], ((2, 2, 1),))
    assert found.attributes == ({"_FillValue": 3} if form == 2 else {})
    assert pickle.loads(pickle.dumps(found))[4] == 4
    with pytest.raises(SourceError, match="no Zarr array 'w'"):
        cfagg.open_array(tmp_path / "a.zip", "w")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("damaged", ["{", '{"zarr_format": 2, "shape": "six"}'])
def test_an_array_beside_one_with_damaged_metadata_is_read(tmp_path, zarr_format, damaged):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    for name in ("a", "b"):
        group.create_array(name, data=np.arange(6.0), attributes={"_ARRAY_DIMENSIONS": ["x"]})
    (tmp_path / "a.zarr/b" / (".zarray" if zarr_format == 2 else "zarr.json")).write_text(damaged)
    assert cfagg.open_array(tmp_path / "a.zarr", "a")[4:].tolist() == [4, 5]
    with pytest.raises(UnreadableAggregationError, match=r"b.* (is not JSON|expected)"):
        cfagg.open_array(tmp_path / "a.zarr", "b")
