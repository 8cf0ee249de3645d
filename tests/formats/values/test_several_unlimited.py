"""Variables that are shorter than several unlimited dimensions: the netCDF library leaves the rest undefined."""

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import cfagg

TYPES = {"i2": 7, "f8": 7.5, "S1": b"k", "text": "seven", "list": np.arange(3, dtype="i4"), "record": (1, 2.5)}


def write(path: Path, kind: str, fill: Any = None) -> None:
    """A variable of 2 x 3 along dimensions of lengths 40 and 50."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", None)
        file.createDimension("y", None)
        dtype: Any = {"text": str}.get(kind, kind)
        if kind == "list":
            dtype = file.createVLType("i4", "list")
        elif kind == "record":
            dtype = file.createCompoundType(np.dtype([("n", "i4"), ("r", "f8")]), "record")
        made = file.createVariable("v", dtype, ("x", "y"), fill_value=fill)
        made.set_auto_mask(False)
        value = np.empty((2, 3), made.dtype if kind not in ("text", "list") else object)
        for i in range(6):
            value.flat[i] = TYPES[kind]
        made[:] = value
        file.createVariable("long", "i1", ("x", "y"))[:] = np.ones((40, 50))


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_beyond_a_variable_is_its_fill_value(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "a.nc", kind)
    found = cfagg.open_array(tmp_path / "a.nc", "v")
    assert found.shape == (40, 50)
    empty: Any = {"text": "", "list": [], "record": (0, 0.0), "S1": b""}
    default = empty.get(kind, netCDF4.default_fillvals.get(kind))
    inside = TYPES[kind].tolist() if kind == "list" else TYPES[kind]
    for key in (np.s_[:, :], np.s_[::-1, 1:], np.s_[1:, ::2], np.s_[5:, 7:]):
        rows, columns = np.arange(40)[key[0]], np.arange(50)[key[1]]
        values = found[key]
        for i, j in np.ndindex(values.shape):
            value = values[i, j].tolist() if hasattr(values[i, j], "tolist") else values[i, j]
            assert value == (inside if rows[i] < 2 and columns[j] < 3 else default)


def test_its_own_fill_value_is_used_and_missing(tmp_path: Path) -> None:
    write(tmp_path / "a.nc", "i2", fill=-5)
    assert (cfagg.open_array(tmp_path / "a.nc", "v")[2:, 3:] == -5).all()
    found = cfagg.read(tmp_path / "a.nc")["v"]
    assert np.isnan(found).sum() == 40 * 50 - 6
    cfagg.convert(tmp_path / "a.nc", tmp_path / "a.zarr")
    np.testing.assert_array_equal(cfagg.read(tmp_path / "a.zarr")["v"], found)


@pytest.mark.parametrize(("kind", "one", "beyond"), [("f4", 3, netCDF4.default_fillvals["f4"]), ("S1", b"k", b"")])
def test_chunks_that_nothing_was_written_to_are_zero_without_a_fill_value(
    tmp_path: Path, kind: str, one: Any, beyond: Any
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 5)
        made = file.createVariable("v", kind, ("t", "x"), fill_value=False, chunksizes=(1, 5))
        made[2] = np.full(5, one, kind)
        file.createVariable("longer", "i1", ("t",))[:] = np.ones(4)
    zero = np.zeros((), kind)[()]
    wanted = np.repeat(np.array([zero, zero, one, beyond], kind), 5).reshape(4, 5)
    for first in range(4):
        np.full(10_000, 7.0, "f4")  # memory that the library would leave in the values
        np.testing.assert_array_equal(cfagg.open_array(tmp_path / "a.nc", "v")[first:], wanted[first:])
        np.testing.assert_array_equal(cfagg.open_array(tmp_path / "a.nc", "v")[:first], wanted[:first])
