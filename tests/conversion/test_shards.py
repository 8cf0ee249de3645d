"""Sharded stores, which zarr-python reads."""

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.conversion import convert
from cfagg.errors import LimitError, OptionError, UnsupportedError
from tests.conversion.conftest import LAT, LON
from tests.effort import examples


def test_shards_hold_chunks_that_zarr_python_reads(floats, tmp_path):
    path, values = floats
    report = convert(
        path, tmp_path / "out.zarr", chunks={"time": 2, "lat": 3, "lon": 4}, shards={"time": 4, "lat": -1}, verify=True
    )
    array = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    assert (array.chunks, array.shards) == ((2, 3, 4), (4, 6, 4))
    np.testing.assert_array_equal(array[:], values)
    assert sum(p.is_file() for p in (tmp_path / "out.zarr" / "tas" / "c").rglob("*")) == 3 * 1 * 2
    with xr.open_zarr(tmp_path / "out.zarr") as ds:
        np.testing.assert_array_equal(ds.tas, np.where(values == -999, np.nan, values))
    assert report.verified


def test_chunks_beyond_the_array_are_not_in_its_shards(floats, tmp_path):
    path, _ = floats
    convert(path, tmp_path / "out.zarr", chunks={"time": 5, "lat": LAT, "lon": LON}, shards={"time": 10}, codec="none")
    sizes = sorted(p.stat().st_size for p in (tmp_path / "out.zarr" / "tas" / "c").rglob("*") if p.is_file())
    chunk, index = 5 * LAT * LON * 4, 2 * 16 + 4
    assert sizes == [chunk + index, 2 * chunk + index]


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_any_lengths_of_chunks_and_shards_keep_the_values(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("shards")
    shape = data.draw(st.tuples(*[st.integers(0, 7)] * 2))
    chunks = {d: data.draw(st.integers(1, 4)) for d in "xy"}
    used = {d: min(c, max(1, n)) for (d, c), n in zip(chunks.items(), shape, strict=True)}
    shards = {d: used[d] * data.draw(st.integers(1, 3)) for d in data.draw(st.sets(st.sampled_from("xy")))}
    values = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["i2", "f8", ">f4"]))).reshape(shape)
    xr.Dataset({"v": (("x", "y"), values)}).to_netcdf(folder / "a.nc")
    convert(folder / "a.nc", folder / "a.zarr", chunks=chunks, shards=shards)
    found = zarr.open_group(folder / "a.zarr", mode="r")["v"]
    np.testing.assert_array_equal(found[:], values)
    convert(folder / "a.zarr", folder / "b.zarr", chunks="auto", zarr_format=2)
    np.testing.assert_array_equal(zarr.open_group(folder / "b.zarr", mode="r")["v"][:], values)


@pytest.mark.parametrize("length", [31, 62])
def test_shards_and_chunks_may_be_longer_than_the_dimension(tmp_path, length):
    xr.Dataset({"v": ("time", np.arange(28))}).to_netcdf(tmp_path / "a.nc")
    convert(tmp_path / "a.nc", tmp_path / "a.zarr", chunks={"time": 31}, shards={"time": length})
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "a.zarr", mode="r")["v"][:], np.arange(28))


def test_automatic_chunks_are_made_to_divide_shards(floats, tmp_path):
    path, values = floats
    convert(path, tmp_path / "out.zarr", shards={"time": 9})
    array = zarr.open_group(tmp_path / "out.zarr", mode="r")["tas"]
    assert array.shards[0] == 9
    np.testing.assert_array_equal(array[:], values)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"chunks": {"time": 5}, "shards": {"time": 12}}, OptionError, "not a multiple of its chunks of 5; choose"),
        ({"shards": {"time": 4}, "zarr_format": 2}, UnsupportedError, "Zarr v2 has no shards"),
        ({"shards": {"time": 4}, "chunks": "partitions"}, UnsupportedError, "leave out shards="),
        ({"shards": {"time": 0}}, LimitError, "at least 1"),
        ({"shards": {"height": 4}}, OptionError, "shards of 'height': no converted variable"),
        ({"shards": 4}, OptionError, "is not a mapping"),
    ],
)
def test_shards_that_cannot_be_are_refused(floats, tmp_path, options, error, said):
    path, _ = floats
    with pytest.raises(error, match=said):
        convert(path, tmp_path / "out.zarr", **options)
    assert not (tmp_path / "out.zarr").exists()


def test_shards_that_do_not_fit_in_memory_are_refused(floats, tmp_path):
    path, _ = floats
    with pytest.raises(LimitError, match="a shard of shape"):
        convert(path, tmp_path / "out.zarr", chunks={"time": 1}, shards={"time": -1}, memory=2000)


def test_shards_that_grow_by_encoding_are_whole_whatever_was_in_their_memory_before(tmp_path):
    values = np.random.default_rng(3).integers(0, 256, (7, 60), "u1")
    values[2:4] = 0  # the second shard is small
    source = zarr.create_group(tmp_path / "a.zarr")
    source.create_array("v", data=values, chunks=(1, 60), dimension_names=("y", "x"))
    texts = np.array([f"{k}" * 400 for k in range(7)])  # much longer than what stands for them in memory
    source.create_array("s", shape=(7,), chunks=(7,), dtype=str, dimension_names=("y",))[:] = texts
    for codec in ("gzip", "zstd", "none"):
        target = tmp_path / f"{codec}.zarr"
        convert(tmp_path / "a.zarr", target, chunks={"y": 1, "x": 3}, shards={"y": 2, "x": -1}, codec=codec, workers=1)
        np.testing.assert_array_equal(zarr.open_group(target, mode="r")["v"][:], values)
        assert zarr.open_group(target, mode="r")["s"][:].tolist() == texts.tolist()


@pytest.mark.parametrize("shards", [None, {"y": 4, "x": 8}])
def test_what_chunks_hold_beyond_the_array_is_its_fill_value(tmp_path, shards):
    values = np.arange(1, 71, dtype="i4").reshape(7, 10)
    zarr.create_group(tmp_path / "a.zarr").create_array(
        "v", data=values, chunks=(7, 10), fill_value=-1, dimension_names=("y", "x")
    )
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"y": 2, "x": 4}, shards=shards, workers=1)
    array = zarr.open_group(tmp_path / "b.zarr", mode="r+")["v"]
    array.resize((8, 16))
    expected = np.full((8, 16), -1)
    expected[:7, :10] = values
    np.testing.assert_array_equal(array[:], expected)


def test_shards_leave_out_the_chunks_that_zarr_python_leaves_out(tmp_path):
    values = np.zeros((8, 8), "i4")
    values[0, 0] = values[5, 6] = 1
    zarr.create_group(tmp_path / "a.zarr").create_array(
        "v", data=values, chunks=(8, 8), fill_value=0, dimension_names=("y", "x")
    )
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"y": 2, "x": 2}, shards={"y": 4, "x": 4}, codec="none")
    zarr.create_group(tmp_path / "c.zarr").create_array(
        "v", data=values, chunks=(2, 2), shards=(4, 4), fill_value=0, compressors=None
    )
    found, expected = (
        {
            p.relative_to(tmp_path / name): p.read_bytes()
            for p in (tmp_path / name / "v" / "c").rglob("*")
            if p.is_file()
        }
        for name in ("b.zarr", "c.zarr")
    )
    assert found == expected
