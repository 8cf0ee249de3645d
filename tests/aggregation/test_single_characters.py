"""Characters that are no texts, but one for each place."""

from pathlib import Path

import netCDF4
import numpy as np

import cfagg


def month(path: Path, first: int, flags: str) -> Path:
    with netCDF4.Dataset(path, "w") as file:  # as ICOS has it
        file.createDimension("time", len(flags))
        file.createVariable("time", "i4", ("time",))[:] = np.arange(first, first + len(flags))
        file["time"].setncatts({"standard_name": "time", "units": "days since 2000-01-01"})
        for name in ("qcflag", "code"):
            file.createVariable(name, "S1", ("time",))[:] = np.array(list(flags), "S1")
        file.createVariable("co2", "f4", ("time",))[:] = np.ones(len(flags))
        names = {"ancillary_variables": "qcflag", "coordinates": "code"}
        file["co2"].setncatts({"standard_name": "air_temperature", "units": "K", **names})
    return path


def test_flags_of_one_character_are_joined_like_the_values_they_belong_to(tmp_path: Path) -> None:
    files = [month(tmp_path / "a.nc", 0, "OKH"), month(tmp_path / "b.nc", 3, "OK")]
    with cfagg.aggregate(files) as found:
        assert found["co2"].dims == found["qcflag"].dims == found["code"].dims == ("time",)
        assert found["qcflag"].values.tolist() == found["code"].values.tolist() == list("OKHOK")
