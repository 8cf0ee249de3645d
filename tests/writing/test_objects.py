"""Arrays of objects, whose type NumPy does not know: written in the type that all of them have, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import cfagg
from cfagg.errors import UnsupportedError

TARGETS = pytest.mark.parametrize("target", ["a.nc", "a.zarr"])


def written(path: Path, values: Any) -> xr.Variable:
    dataset = xr.Dataset({"height": ("x", [1.0, 2.0, 3.0]), "name": ("x", values)})
    cfagg.write(dataset, path)
    return cfagg.read(path)["name"].load().variable


@TARGETS
@pytest.mark.filterwarnings("ignore:.*Zarr V3")
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([b"a", b"bc", b""], "S2"),
        ([1, -2, 2**40], "i8"),
        ([1.5, np.nan, 3.0], "f8"),
        ([True, False, True], "?"),
    ],
)
def test_objects_of_one_type_are_written_in_it(tmp_path: Path, target: str, values: list[Any], dtype: str) -> None:
    found = written(tmp_path / target, np.array(values, object))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.values, np.array(values, dtype))


@TARGETS
@pytest.mark.parametrize("values", [[1, "a", 2.5], [1, -1, 2**64 - 1], [b"a\0", b"b", b"c"], [1, True, 0]])
def test_objects_that_no_type_holds_unchanged_are_refused(tmp_path: Path, target: str, values: list[Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"variable 'name' holds (an object|objects)"):
        written(tmp_path / target, np.array(values, object))
    assert not list(tmp_path.iterdir())


@TARGETS
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_texts_are_refused_because_they_would_be_empty(tmp_path: Path, target: str, missing: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"'name' has missing texts, .*; give them a value with fillna"):
        written(tmp_path / target, np.array(["a", missing, "c"], object))


@TARGETS
def test_missing_texts_of_dask_are_refused_when_they_are_computed(tmp_path: Path, target: str) -> None:
    names = xr.Variable("x", np.array(["a", None, "c"], object)).chunk(x=2)
    with pytest.raises(UnsupportedError, match="'name' holds"):
        written(tmp_path / target, names.data)
    assert not list(tmp_path.iterdir())


def test_missing_texts_with_a_fill_value_are_written(tmp_path: Path) -> None:
    name = ("x", np.array(["a", np.nan, "c"], object), {}, {"_FillValue": "-"})
    cfagg.write(xr.Dataset({"height": ("x", [1.0, 2.0, 3.0]), "name": name}), tmp_path / "a.nc")
    assert cfagg.read(tmp_path / "a.nc")["name"].isnull().values.tolist() == [False, True, False]


@TARGETS
@pytest.mark.parametrize("dtype", ["Int64", "category", "string"])
def test_types_of_pandas_are_refused_by_name(tmp_path: Path, target: str, dtype: str) -> None:
    with pytest.raises(UnsupportedError, match=f"variable 'name' is of type {dtype}, .*; convert it with astype"):
        written(tmp_path / target, pd.array([1, 2, 1]).astype(dtype))
