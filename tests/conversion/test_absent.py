"""Chunks of which nothing is stored; zarr-python and netCDF4 say what is in both stores, and which chunks it has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg import convert
from cfagg.conversion.absent import boxes
from tests.effort import examples

FILLS = {"f4": [0.0, np.nan, 1.0, -0.0], "i2": [0, 7], "?": [False, True]}


def keys(folder):
    """Return the names of the stored chunks of an array."""
    return {p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if p.is_file() and p.name[0] not in ".z"}


def written_by_zarr(path, like):
    """Return the chunks that zarr-python stores of an array by default."""
    made = zarr.create_array(
        path, shape=like.shape, dtype=like.dtype, chunks=like.chunks, shards=like.shards, fill_value=like.fill_value,
        zarr_format=like.metadata.zarr_format,
    )  # fmt: skip
    made[...] = like[...]
    return keys(path)


@settings(max_examples=examples(15), deadline=None)
@given(st.data())
def test_those_chunks_are_stored_that_zarr_python_stores(data):
    dtype = data.draw(st.sampled_from(sorted(FILLS)))
    fill = np.dtype(dtype).type(data.draw(st.sampled_from(FILLS[dtype])))
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=2)))
    chunks = tuple(data.draw(st.integers(1, 6)) for _ in shape)
    wanted = tuple(data.draw(st.integers(1, 6)) for _ in shape)
    before, after = data.draw(st.sampled_from([2, 3])), data.draw(st.sampled_from([2, 3]))
    declared = data.draw(st.booleans())
    dims = list("abc"[: len(shape)])
    with tempfile.TemporaryDirectory() as folder:
        sharded = before == 3 and data.draw(st.booleans())
        root = zarr.open_group(f"{folder}/a.zarr", mode="w", zarr_format=before)
        attributes = {"_ARRAY_DIMENSIONS": dims} if before == 2 else {}
        if declared and before == 3 and dtype != "?":
            attributes["_FillValue"] = "AADAfw==" if fill != fill else fill.item()  # noqa: PLR0124
        made = root.create_array(
            "v", shape=shape, dtype=dtype, chunks=chunks, shards=tuple(2 * c for c in chunks) if sharded else None,
            fill_value=fill, attributes=attributes, **({"dimension_names": dims} if before == 3 else {}),
        )  # fmt: skip
        for _ in range(data.draw(st.integers(0, 3))):
            at = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
            made[at] = data.draw(st.sampled_from([0, 1]))
        more = {"shards": {d: 3 * w for d, w in zip(dims, wanted, strict=True)}} if after == 3 and sharded else {}
        target = dict(zip(dims, wanted, strict=True))
        plan = convert(f"{folder}/a.zarr", f"{folder}/b.zarr", chunks=target, zarr_format=after, dry_run=True, **more)
        report = convert(f"{folder}/a.zarr", f"{folder}/b.zarr", chunks=target, zarr_format=after, verify=True, **more)
        found = zarr.open_group(f"{folder}/b.zarr", mode="r")["v"]
        bits = np.dtype(f"u{found.dtype.itemsize}")
        np.testing.assert_array_equal(found[...].view(bits), made[...].view(bits))
        stored = keys(f"{folder}/b.zarr/v")
        if found.metadata.fill_value is not None:
            assert stored == written_by_zarr(f"{folder}/c.zarr", found)
        else:
            # Version 2 does not say what a chunk holds that is not stored, where there is no fill value.
            assert len(stored) == np.prod([-(-n // w) for n, w in zip(shape, wanted, strict=True)])
        assert report.chunks == len(stored) <= plan.chunks
        assert report.bytes == made.nbytes


@pytest.mark.parametrize("layout", ["same", "rechunked"])
def test_terabytes_of_which_hardly_anything_is_stored_are_converted(tmp_path, layout):
    shape, dims = (1000, 1000, 2**20), ["a", "b", "c"]
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=shape, chunks=(1, 1, 2**18), dtype="f4", fill_value=np.nan, dimension_names=dims
    )
    places = [(0, 0, 5), (7, 999, 2**20 - 1), (999, 0, 2**19)]
    for k, at in enumerate(places):
        made[at] = k
    chunks = {"a": 1, "b": 1, "c": 2**18} if layout == "same" else {"a": 2, "b": 3, "c": 2**17}
    plan = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=chunks, dry_run=True)
    assert plan.bytes_out <= 3 * 2**20 * (1 if layout == "same" else 6)
    report = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=chunks, verify=True)
    assert (report.chunks, report.bytes) == (3, 4 * 10**6 * 2**20)
    found = zarr.open_group(tmp_path / "b.zarr", mode="r")["v"]
    assert [found[at] for at in places] == [0, 1, 2]
    assert np.isnan(found[7, 998:, :: 2**17]).all()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_is_not_stored_is_written_where_the_declared_fill_value_is_another(tmp_path, zarr_format):
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=(40,), chunks=(1,), dtype="i2", fill_value=0, dimension_names=["x"], attributes={"_FillValue": -9}
    )
    made[3] = 4
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"x": 2}, zarr_format=zarr_format)
    assert zarr.open_group(tmp_path / "b.zarr", mode="r")["v"][...].tolist() == [0, 0, 0, 4, *[0] * 36]


def test_zero_and_its_negative_are_different_values(tmp_path):
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=(4,), chunks=(2,), dtype="f8", fill_value=0.0, config={"write_empty_chunks": True}
    )
    made[...] = [0.0, 0.0, -0.0, -0.0]
    report = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"phony_dim_0": 2})
    found = zarr.open_group(tmp_path / "b.zarr", mode="r")["v"][...]
    assert np.signbit(found).tolist() == [False, False, True, True]
    assert report.chunks == 1


def test_what_was_never_written_of_a_netcdf_file_stays_absent(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 600)
        file.createDimension("x", 600)
        for name, more in {"own": {"fill_value": -9}, "default": {}}.items():
            made = file.createVariable(name, "i2", ("y", "x"), chunksizes=(10, 10), **more)
            made[35, 588] = 3
    report = convert(tmp_path / "a.nc", tmp_path / "b.zarr", chunks={"y": 10, "x": 10}, verify=True)
    assert report.chunks == 2
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_mask(False)
        for name in ("own", "default"):
            found = zarr.open_group(tmp_path / "b.zarr", mode="r")[name]
            np.testing.assert_array_equal(found[...], file[name][...])


def test_text_that_is_not_stored_stays_absent(tmp_path):
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array("v", shape=(10**6,), chunks=(10,), dtype=str)
    made[12345] = "Ålesund"
    report = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks={"phony_dim_0": 10})
    assert report.chunks == 1
    found = zarr.open_group(tmp_path / "b.zarr", mode="r")["v"]
    assert found[12344:12347].tolist() == ["", "Ålesund", ""]


def test_a_run_that_was_cut_short_is_finished_with_the_same_chunks(tmp_path):
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=(10**5, 4), chunks=(1, 4), dtype="f4", fill_value=-1, dimension_names=["a", "b"]
    )
    places = range(7, 10**5, 10**4)
    for at in places:
        made[at] = at

    def stop(done, total):
        if done > 0.5 * total and len(seen) > 3:
            raise KeyboardInterrupt
        seen.append(done)

    seen = []
    options = {"chunks": {"a": 1, "b": 4}, "workers": 1, "memory": "128KiB"}
    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "a.zarr", tmp_path / "b.zarr", progress=stop, **options)
    assert not (tmp_path / "b.zarr").exists()
    report = convert(tmp_path / "a.zarr", tmp_path / "b.zarr", resume=True, **options)
    assert 0 < report.resumed < report.chunks == len(places)
    found = zarr.open_group(tmp_path / "b.zarr", mode="r")["v"]
    assert [found[at, 2] for at in places] == list(places)
    assert (found[8:100] == -1).all()
    before, after = ([f.code for f in cfagg.check(tmp_path / n, data=True).errors] for n in ("a.zarr", "b.zarr"))
    assert before == after


def test_a_part_of_a_store_becomes_fill_values_where_nothing_is_stored_of_the_source(tmp_path):
    for name, values in (("a", [0, 0, 0, 1]), ("b", [5, 5, 5, 5, 5, 5])):
        zarr.open_group(tmp_path / f"{name}.zarr", mode="w").create_array(
            "v", shape=(len(values),), chunks=(2,), dtype="i4", fill_value=0, dimension_names=["x"]
        )[...] = values
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", region={"x": slice(0, 4)})
    assert zarr.open_group(tmp_path / "b.zarr", mode="r")["v"][...].tolist() == [0, 0, 0, 1, 5, 5]


def test_what_an_icechunk_repository_does_not_store_stays_absent_there_and_elsewhere(tmp_path):
    icechunk = pytest.importorskip("icechunk")
    made = zarr.open_group(tmp_path / "a.zarr", mode="w").create_array(
        "v", shape=(10**5, 2), chunks=(1, 2), dtype="f4", fill_value=np.nan, dimension_names=["a", "b"]
    )
    made[54321] = [1, 2]
    chunks = {"a": 1, "b": 2}
    first = convert(tmp_path / "a.zarr", tmp_path / "b.icechunk", chunks=chunks, verify=True)
    second = convert(tmp_path / "b.icechunk", tmp_path / "c.zarr", chunks=chunks, verify=True)
    assert (first.chunks, second.chunks) == (1, 1)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "b.icechunk"))
    store = icechunk.Repository.open(storage).readonly_session("main").store
    for found in (zarr.open_group(store, mode="r")["v"], zarr.open_group(tmp_path / "c.zarr", mode="r")["v"]):
        np.testing.assert_array_equal(found[54320:54323], [[np.nan] * 2, [1, 2], [np.nan] * 2])


@given(st.integers(1, 3).flatmap(lambda n: st.tuples(*[st.integers(1, 7)] * n)), st.integers(0, 2**32), st.floats(0, 1))
def test_boxes_hold_each_wanted_cell_once_and_few_others(shape, seed, share):
    wanted = np.random.default_rng(seed).random(shape) < share
    times = np.zeros(shape, int)
    for box in boxes(wanted):
        times[box] += 1
        assert wanted[box].sum() * 4 >= wanted[box].size
    assert (times[wanted] == 1).all()
    assert times.max(initial=0) <= 1
