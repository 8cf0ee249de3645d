"""Readers of a store whose writer was killed after it had changed metadata of arrays, before it published them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.formats.zarr.consolidated import CLAIM

DATES = np.datetime64("2000-01-01", "ns") + np.arange(10) * np.timedelta64(1, "D")


def published() -> xr.Dataset:
    """Return what the root of the store describes."""
    tas = np.arange(40.0).reshape(10, 4)
    about = {"standard_name": "air_temperature", "units": "K"}
    x = ("x", np.arange(4.0), {"standard_name": "projection_x_coordinate", "units": "m"})
    time = ("time", DATES, {"standard_name": "time"})
    return xr.Dataset({"tas": (("time", "x"), tas, about)}, {"time": time, "x": x})


def ahead(store: Path, form: Any, names: tuple[str, ...], *, claimed: bool = True) -> Path:
    """Write a store and let arrays be longer than its root says, as during an append; return the path."""
    chunks = {"tas": {"chunks": (3, 2)}, "time": {"chunks": (4,), "units": "days since 2000-01-01", "dtype": "f8"}}
    published().to_zarr(store, zarr_format=form, encoding=chunks, consolidated=True)
    for name in names:
        path = store / name / (".zarray" if form == 2 else "zarr.json")
        document = json.loads(path.read_text())
        document["shape"][0] = 17
        path.write_text(json.dumps(document))
    if claimed:
        (store / CLAIM).mkdir()
    return store


def converted(store: Path) -> xr.Dataset:
    """Return what `cfagg.convert` makes of a store."""
    cfagg.convert(store, store.with_name("out.zarr"))
    return xr.open_zarr(store.with_name("out.zarr"), chunks=None)


_FORMS = pytest.mark.parametrize("form", [2, 3])
_NAMES = pytest.mark.parametrize("names", [("tas",), ("time",), ("tas", "time")], ids=" ".join)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@_FORMS
@_NAMES
@pytest.mark.parametrize(
    "way",
    [cfagg.read, lambda p: xr.open_dataset(p, engine="cfagg"), converted, lambda p: cfagg.aggregate([p])],
    ids=["read", "engine", "convert", "aggregate"],
)
def test_what_was_not_published_is_not_read(
    tmp_path: Path, form: Any, names: tuple[str, ...], way: Callable[[Path], xr.Dataset]
) -> None:
    found = way(ahead(tmp_path / "a.zarr", form, names))
    assert dict(found.sizes) == {"time": 10, "x": 4}
    assert np.array_equal(found.tas.values, published().tas.values)
    assert np.array_equal(found.time.values, DATES)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@_FORMS
def test_one_array_is_read_as_its_root_publishes_it(tmp_path: Path, form: Any) -> None:
    found = cfagg.open_array(ahead(tmp_path / "a.zarr", form, ("tas",)), "tas")
    assert (found.shape, found.chunks) == ((10, 4), ((3, 3, 3, 1), (2, 2)))
    assert np.array_equal(found, published().tas.values)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@_FORMS
def test_arrays_that_others_changed_are_in_datasets_as_xarray_reads_them(tmp_path: Path, form: Any) -> None:
    store = ahead(tmp_path / "a.zarr", form, ("tas",), claimed=False)
    xr.testing.assert_identical(cfagg.read(store).load(), xr.open_zarr(store, chunks=None).load())
