"""Values in one run of bytes that are read in parts; netCDF4 says what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.errors import CfaggError
from cfagg.formats.values import contiguous
from tests.effort import examples

FORMATS = ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA")


def write(path: Path, form: str, shape: tuple[int, ...], dtype: str, record: bool) -> np.ndarray[Any, Any]:
    """Write a file with values of which each tells its place, and return them."""
    values = np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype(dtype)
    with netCDF4.Dataset(path, "w", format=form) as nc:
        for d, n in enumerate(shape):
            nc.createDimension(f"d{d}", None if record and d == 0 and form != "NETCDF4" else n)
        for name in ("before", "v"):  # records of two variables alternate
            made = nc.createVariable(name, dtype, [f"d{d}" for d in range(len(shape))])
            made[...] = values if name == "v" else -values
    return values


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_all_selections_are_those_of_numpy_whatever_parts_they_are_read_in(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    form, dtype = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from(["f4", "i2", "f8"]))
    path = tmp_path_factory.mktemp("a") / "a.nc"
    values = write(path, form, shape, dtype, data.draw(st.booleans()))
    bounds = [sorted((data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n)))) for n in shape]
    steps = data.draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=len(shape), max_size=len(shape)))
    picked = tuple(slice(a, b) for a, b in bounds)
    part = data.draw(st.integers(8, 200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "_PART", part)
        array = cfagg.open_array(path, "v")
        np.testing.assert_array_equal(array[...], values)
        np.testing.assert_array_equal(array[picked], values[picked])
        turned = tuple(slice(None, None, s) for s in steps)
        np.testing.assert_array_equal(array[turned], values[turned])


@pytest.mark.parametrize("form", FORMATS)
def test_fields_longer_than_a_part_are_read_whole(form: str, tmp_path: Path) -> None:
    values = write(tmp_path / "a.nc", form, (3, 600, 500), "f4", record=True)
    array = cfagg.open_array(tmp_path / "a.nc", "v")
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array[1:], values[1:])
    np.testing.assert_array_equal(array[:, ::-1], values[:, ::-1])


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_ends_within_its_values_is_truncated(form: str, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    write(path, form, (3, 600, 500), "f4", record=False)
    array = cfagg.open_array(path, "v")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5_000)
    with pytest.raises(CfaggError, match=r"a\.nc"):
        array[...]
