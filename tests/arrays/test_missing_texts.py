"""Missing texts of sub-arrays become those of the array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import ConformError
from tests import nca_files


def array(folder: Path, dtype: Any, values: list[Any], own: dict[str, Any], master: dict[str, Any]) -> Path:
    """Write a sub-array and the aggregation over it, with attributes of each."""
    attributes = [{k: v for k, v in given.items() if k != "_FillValue"} for given in (own, master)]
    fills = [given.get("_FillValue") for given in (own, master)]
    with netCDF4.Dataset(folder / "f.nc", "w") as file:
        file.createDimension("x", len(values))
        variable = file.createVariable("s", dtype, ("x",), fill_value=fills[0])
        variable.setncatts(attributes[0])
        variable[:] = np.array(values, object if dtype is str else dtype)
    data = {"data": {"file": "f.nc", "ncvar": "s", "shape": [len(values)]}, "format": "netCDF"}
    content = nca_files.array(["x"], [[0, len(values)]], lambda *_: data)
    sizes = {"x": len(values)}
    return nca_files.aggregation(folder / "a.nca", "s", dtype, sizes, content, attributes[1], fill_value=fills[1])


@pytest.mark.parametrize("dtype", [str, "S1"])
@pytest.mark.parametrize("name", ["missing_value", "_FillValue"])
@pytest.mark.parametrize(
    ("own", "expected"), [({"missing_value": "f"}, "amc"), ({"_FillValue": "f"}, "amc"), ({}, "afc")]
)
def test_missing_texts_become_those_of_the_array(
    tmp_path: Path, dtype: Any, name: str, own: dict[str, Any], expected: str
) -> None:
    path = array(tmp_path, dtype, [*"afc"] if dtype is str else [b"a", b"f", b"c"], own, {name: "m"})
    found = cfagg.open_array(path, "s")[::-1]
    assert "".join(t if dtype is str else t.decode() for t in found.tolist()) == expected[::-1]


@pytest.mark.parametrize("dtype", [str, "S1"])
def test_texts_stay_where_the_array_declares_none_missing(tmp_path: Path, dtype: Any) -> None:
    path = array(tmp_path, dtype, [*"af"] if dtype is str else [b"a", b"f"], {"missing_value": "f"}, {})
    assert cfagg.open_array(path, "s")[:].tolist() == ([*"af"] if dtype is str else [b"a", b"f"])


@pytest.mark.parametrize("dtype", [str, "S1"])
def test_a_valid_text_that_is_missing_in_the_array_is_refused(tmp_path: Path, dtype: Any) -> None:
    values = [*"mf"] if dtype is str else [b"m", b"f"]
    path = array(tmp_path, dtype, values, {"missing_value": "f"}, {"missing_value": "m"})
    with pytest.raises(ConformError, match=r"a\.nca.*valid text b?'m'.*declare another _FillValue"):
        cfagg.open_array(path, "s")[:]


def test_files_with_other_missing_texts_are_one_array_with_those_of_the_first(tmp_path: Path) -> None:
    for number, (text, missing) in enumerate((("a", "none"), ("b", "-"))):
        attributes = {"standard_name": "status_flag", "units": "1", "missing_value": missing}
        times = [2.0 * number, 2.0 * number + 1]
        made = xr.Dataset(
            {"s": ("time", np.array([text, missing], object), attributes)},
            {"time": ("time", times, {"units": "days since 2000-1-1"})},
        )
        made.to_netcdf(tmp_path / f"{number}.nc")
    found = cfagg.aggregate(sorted(tmp_path.glob("*.nc")))
    assert found.s.isnull().values.tolist() == [False, True, False, True]
