"""Bytes of fixed length, as xarray reads characters, written as characters again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.errors import UnsupportedError

TEXTS = np.array([b"abc", b"d\xe9", b""])
VALUES = {"height": ("x", [1.0, 2.0, 3.0])}
DATASETS = {
    "coordinate": xr.Dataset(VALUES, {"name": ("x", TEXTS)}),
    "dimension": xr.Dataset({"height": ("name", [1.0, 2.0, 3.0])}, {"name": TEXTS}),
    "scalar": xr.Dataset(VALUES, {"name": ((), TEXTS[0])}),
    "variable": xr.Dataset(VALUES | {"name": ("x", TEXTS)}),
    "backwards": xr.Dataset(VALUES | {"name": ("x", TEXTS)}).isel(x=slice(None, None, -1)),
    "chunks": xr.Dataset(VALUES | {"name": (("y", "x"), np.array([TEXTS, TEXTS[::-1]]))}).chunk(x=2),
}


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize("to", ["CF-1.13", "NCA-0.1"])
def test_bytes_are_read_again_as_they_were(tmp_path: Path, kind: str, to: str) -> None:
    dataset = DATASETS[kind]
    cfagg.write(dataset, tmp_path / "a.nc", to=to)
    with cfagg.read(tmp_path / "a.nc") as found:
        assert found["name"].dtype == "S3"
        assert found["name"].dims == dataset["name"].dims
        assert found["name"].values.tolist() == dataset["name"].values.tolist()


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF4"])
@pytest.mark.parametrize("fill", [None, b"_"])
def test_characters_of_a_file_are_written_under_the_names_that_it_has(
    tmp_path: Path, form: Any, fill: bytes | None
) -> None:
    characters = np.array([list("ab__"), list("abcd"), list("____")], "S1")
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=form) as file:
        file.createDimension("x", 3)
        file.createDimension("letters", 4)
        file.createVariable("height", "f4", ("x",))[:] = 1
        file["height"].coordinates = "name"
        variable = file.createVariable("name", "S1", ("x", "letters"), fill_value=fill)
        variable.set_auto_chartostring(False)
        variable[:] = characters
    cfagg.write(cfagg.read(tmp_path / "a.nc"), tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        variable = file["name"]
        variable.set_auto_mask(False)
        variable.set_auto_chartostring(False)
        assert variable.dimensions == ("x", "letters")
        assert variable[:].tolist() == characters.tolist()
        assert getattr(variable, "_FillValue", None) == fill


@pytest.mark.parametrize("fill", [b"abc", b"", 0])
def test_a_fill_value_that_is_not_one_character_is_refused(tmp_path: Path, fill: Any) -> None:
    dataset = xr.Dataset(VALUES | {"name": ("x", TEXTS, {"_FillValue": fill})})
    with pytest.raises(UnsupportedError, match=r"'name' has the fill value .*a single one; remove it"):
        cfagg.write(dataset, tmp_path / "a.nc")
    assert not list(tmp_path.iterdir())


def test_the_dimension_of_characters_is_no_coordinate(tmp_path: Path) -> None:
    names = {"name": ("x", TEXTS, {}, {"char_dim_name": "letter"}), "letter": ("letter", [1, 2, 3])}
    cfagg.write(xr.Dataset(VALUES | names), tmp_path / "a.nc")
    with cfagg.read(tmp_path / "a.nc") as found:
        assert found["name"].values.tolist() == TEXTS.tolist()
