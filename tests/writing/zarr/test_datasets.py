"""Writing datasets of xarray and arrays of dask as Zarr: dask's chunks are the store's, and values stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import cfagg
from cfagg.demo import sample
from cfagg.errors import ConformError, FragmentMismatchError, OptionError, UnsupportedError


def test_chunks_of_dask_are_kept_where_they_differ_too(tmp_path: Path) -> None:
    values = np.arange(30.0).reshape(10, 3)
    ds = xr.Dataset(
        {
            "v": (("t", "x"), da.from_array(values, chunks=((3, 0, 5, 2), 3)), {"units": "K"}),
            "w": (("t", "x"), da.from_array(values, chunks=(4, 2))),
            "name": ("t", np.array(list("abcdefghij"))),
            "flag": ("t", np.arange(10) > 4),
        },
        coords={"t": ("t", np.arange("2000-01", "2000-11", dtype="M8[M]").astype("M8[ns]"))},
        attrs={"title": "x"},
    )
    report = cfagg.write(ds, tmp_path / "a.zarr")
    assert set(report.variables) == set(ds.variables)
    assert len(report.notes) == 1
    found = cfagg.read(tmp_path / "a.zarr", chunks={})
    assert found.v.chunks == ((3, 5, 2), (3,))
    assert found.w.chunks == ((4, 4, 2), (2, 1))
    xr.testing.assert_equal(found.load().drop_vars("name"), ds.load().drop_vars("name"))
    assert found.name.values.tolist() == list("abcdefghij")
    assert (found.attrs, found.v.attrs) == ({"title": "x"}, {"units": "K"})
    with zarr.config.set({"array.rectilinear_chunks": True}):
        xr.testing.assert_equal(xr.open_zarr(tmp_path / "a.zarr").w.load(), ds.w)


@given(st.data())
def test_any_chunks_come_back(tmp_path_factory: Any, data: st.DataObject) -> None:
    lengths = st.lists(st.integers(0, 4), min_size=1, max_size=4)
    chunks = data.draw(st.lists(lengths, max_size=3).map(lambda found: tuple(map(tuple, found))))
    shape = tuple(map(sum, chunks))
    values = np.arange(np.prod(shape, dtype=int)).astype(data.draw(st.sampled_from(["i2", "f4", "?", "u8"])))
    array = da.from_array(values.reshape(shape), chunks=chunks)
    target = tmp_path_factory.mktemp("any") / "a.zarr"
    with dask.config.set(scheduler="synchronous"):
        cfagg.write(array, target)
    found = cfagg.open_array(target, "data")
    assert np.array_equal(found[...], values.reshape(shape))
    if 0 not in shape:
        assert found.chunks == tuple(tuple(n for n in sizes if n) for sizes in chunks)


def test_what_two_variables_need_is_computed_once(tmp_path: Path) -> None:
    calls = []

    def count(block: Any) -> Any:
        calls.append(1)
        return block

    base = da.ones(6, chunks=2).map_blocks(count, dtype="f8", meta=np.empty(0))
    cfagg.write(xr.Dataset({"a": ("x", base + 1), "b": ("x", base + 2)}), tmp_path / "a.zarr")
    assert len(calls) == 3


def test_a_dataset_that_was_read_keeps_its_partitions(tmp_path: Path) -> None:
    ds = cfagg.read(sample("temperature.nca"))
    cfagg.write(ds, tmp_path / "a.zarr")
    found = cfagg.read(tmp_path / "a.zarr")
    xr.testing.assert_equal(found.load(), ds.load())
    assert (
        cfagg.open_array(tmp_path / "a.zarr", "tas").chunks == cfagg.open_array(sample("temperature.nca"), "tas").chunks
    )


def test_a_store_is_written_again_though_a_cache_has_what_its_tasks_returned(tmp_path: Path, monkeypatch: Any) -> None:
    """As the opportunistic cache of dask does it, and a scheduler that still holds the results of a call cut short."""
    cache: dict[str, Any] = {}
    compute = dask.compute

    def remember(*arrays: Any) -> tuple[Any, ...]:
        return tuple(cache.setdefault(a.name, compute(a)[0]) for a in arrays)

    monkeypatch.setattr(dask, "compute", remember)
    array = da.ones(6, chunks=((1, 5),))
    for _ in range(2):
        cfagg.write(array, tmp_path / "a.zarr", overwrite=True)
        assert cfagg.open_array(tmp_path / "a.zarr", "data")[...].tolist() == [1] * 6


@pytest.mark.parametrize(("said", "found"), [("i4", "f8"), ("f4", "f8"), ("i8", "i4"), ("u4", "i4")])
def test_values_of_another_type_than_dask_says_are_refused_and_never_rounded(
    said: str, found: str, tmp_path: Path
) -> None:
    array = da.ones(4, chunks=2, dtype=said).map_blocks(lambda b: (b * 1.5).astype(found), dtype=said)
    with pytest.raises(ConformError, match=rf"type {np.dtype(found)}, but Dask says {np.dtype(said)}"):
        cfagg.write(array, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_two_variables_whose_names_are_one_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="two have the name '3'"):
        cfagg.write(xr.Dataset({3: ("x", [1, 2]), "3": ("x", [3, 4])}), tmp_path / "a.zarr")


def test_a_type_that_numpy_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="which is not a NumPy type"):
        cfagg.write(xr.Dataset({"a": ("x", pd.Categorical(["a", "b"]))}), tmp_path / "a.zarr")


@pytest.mark.parametrize("chunks", [None, {"x": 1}])
@pytest.mark.parametrize("fill", [None, False])
def test_booleans_stay_booleans(fill: Any, chunks: Any, tmp_path: Path) -> None:
    ds = xr.Dataset({"b": ("x", np.array([True, False]))})
    ds["b"].encoding = {} if fill is None else {"_FillValue": fill}
    cfagg.write(ds if chunks is None else ds.chunk(chunks), tmp_path / "a.zarr")
    found: Any = zarr.open_group(tmp_path / "a.zarr", mode="r")["b"]
    assert (found.dtype, found[:].tolist()) == (bool, [True, False])
    assert dict(found.attrs) == ({} if fill is None else {"_FillValue": False})


@pytest.mark.parametrize("preferred", [0, -1, "auto", None, (2, "a"), 2.0])
def test_preferred_chunks_that_say_none_are_passed_over(preferred: Any, tmp_path: Path) -> None:
    ds = xr.Dataset({"a": ("x", np.arange(5))})
    ds.a.encoding["preferred_chunks"] = {"x": preferred}
    cfagg.write(ds, tmp_path / "a.zarr")
    assert cfagg.open_array(tmp_path / "a.zarr", "a").chunks == ((5,),)


def test_an_error_while_computing_leaves_nothing(tmp_path: Path) -> None:
    def fail(block: Any) -> Any:
        raise ZeroDivisionError

    array = da.ones(6, chunks=2).map_blocks(fail, dtype="f8", meta=np.empty(0))
    with pytest.raises(ZeroDivisionError):
        cfagg.write(array, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_blocks_of_another_shape_than_dask_says_are_refused(tmp_path: Path) -> None:
    array = da.ones(6, chunks=2).map_blocks(lambda block: block[:1], dtype="f8", meta=np.empty(0))
    with pytest.raises(cfagg.CfaggError, match="shape"):
        cfagg.write(array, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_objects_and_slashes_are_refused(tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, TypeError, ValueError)):
        cfagg.write(xr.Dataset({"a": ("x", np.array([{}, 1], object))}), tmp_path / "a.zarr")
    with pytest.raises(OptionError, match="cannot be the name"):
        cfagg.write(xr.Dataset({"a/b": ("x", np.zeros(2))}), tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_processes_write(tmp_path: Path) -> None:
    array = da.from_array(np.arange(12.0), chunks=(5,))
    with dask.config.set(scheduler="processes", num_workers=2):
        cfagg.write(array, tmp_path / "a.zarr")
    assert cfagg.open_array(tmp_path / "a.zarr", "data")[:].tolist() == list(range(12))


def test_an_aggregation_of_metadata_is_no_values(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is metadata"):
        cfagg.write(cfagg.open_aggregation(sample("temperature.nca"), "tas"), tmp_path / "a.zarr")


@pytest.mark.parametrize("name", ["..", ".", "zarr.json", ".zgroup", "__x", "a\\b"])
def test_names_that_lead_elsewhere_or_are_kept_for_zarr_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(cfagg.CfaggError, match="name"):
        cfagg.write(xr.Dataset({name: ("x", np.zeros(2))}), tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changed_since_it_was_aggregated_is_an_error_of_its_own(tmp_path: Path) -> None:
    xr.Dataset({"a": ("x", [1.0], {"standard_name": "air_temperature", "units": "K"})}).to_netcdf(tmp_path / "a.nc")
    with cfagg.aggregate([tmp_path / "a.nc"]) as ds:
        xr.Dataset({"a": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
        with pytest.raises(FragmentMismatchError, match="has changed since it was scanned"):
            cfagg.write(ds, tmp_path / "a.zarr")


def test_indexes_of_several_levels_are_refused(tmp_path: Path) -> None:
    ds = xr.Dataset({"a": ("x", [1, 2])}, {"p": ("x", [1, 2]), "q": ("x", [3, 4])}).set_index(x=["p", "q"])
    with pytest.raises(UnsupportedError, match=r"variable 'x' cannot be encoded: .*MultiIndex"):
        cfagg.write(ds, tmp_path / "a.zarr")
