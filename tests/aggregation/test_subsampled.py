"""Files whose coordinates are subsampled: their arrays stay apart, without tie points, and the report says so."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest

import cfagg


def swath(path: Path, time: float) -> Path:
    """Write a file of one time, with tie points for the latitudes of its other dimension."""
    with netCDF4.Dataset(path, "w") as made:
        for name, size in (("time", 1), ("track", 5), ("tie", 3)):
            made.createDimension(name, size)
        made.createVariable("time", "f8", ("time",)).setncatts(
            {"standard_name": "time", "units": "days since 2000-01-01"}
        )
        made.createVariable("lat", "f8", ("tie",)).setncatts({"standard_name": "latitude", "units": "degrees_north"})
        made.createVariable("places", "i4", ("tie",))[:] = [0, 2, 4]
        made.createVariable("way", "i4").setncatts(
            {"interpolation_name": "linear", "tie_point_mapping": "track: places tie"}
        )
        made.createVariable("tas", "f4", ("time", "track")).setncatts(
            {"standard_name": "air_temperature", "units": "K", "coordinate_interpolation": "lat: way"}
        )
        made["time"][:], made["lat"][:], made["tas"][:] = time, [0.0, 2.0, 4.0], np.arange(5.0) + time
    return path


@pytest.mark.parametrize("relaxed", [False, True])
def test_arrays_with_subsampled_coordinates_stay_apart_and_do_not_name_the_tie_points(tmp_path: Path, relaxed) -> None:
    names = [swath(tmp_path / f"{k}.nc", float(k)) for k in range(2)]
    found = cfagg.aggregate(names, relaxed_identities=relaxed)
    assert list(found.data_vars) == ["tas", "tas_1"]
    for k, name in enumerate(found.data_vars):
        assert found[name].values.tolist() == [[k, k + 1, k + 2, k + 3, k + 4]]
        assert "coordinate_interpolation" not in found[name].attrs
    (answer,) = found.cfagg.report.why(*names).answers
    assert "its coordinates are subsampled" in str(answer)
    assert "write the coordinates in full" in answer.remedy


def test_a_note_names_the_tie_points_and_what_belongs_to_them(tmp_path: Path) -> None:
    notes = cfagg.aggregate([swath(tmp_path / "a.nc", 0.0)]).cfagg.report.notes
    for name in ("lat", "places", "way"):
        assert f"'{name}' is left out: aggregations have no subsampled coordinates ({tmp_path}/a.nc)" in notes
    assert len(notes) == 3
