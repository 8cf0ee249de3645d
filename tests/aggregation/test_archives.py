"""Files in the form in which models and satellite services write theirs become what their users expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from tests.aggregation.archives import X, Y, write

#: What becomes of three files: the dimensions and sizes of each data variable.
EXPECTED = {
    "cesm": {
        "gw": {"lat": Y}, "hyam": {"lev": 3}, "hybm": {"lev": 3}, "P0": {}, "mdt": {}, "ndbase": {},
        "date": {"time": 3}, "date_written": {"time": 3}, "time_bnds": {"time": 3, "nbnd": 2},
        "PS": {"time": 3, "lat": Y, "lon": X}, "T": {"time": 3, "lev": 3, "lat": Y, "lon": X},
    },
    "roms": {
        "Cs_r": {"s_rho": 3}, "hc": {}, "ntimes": {}, "nl_tnu2": {"tracer": 2}, "h": {"eta_rho": Y, "xi_rho": X},
        "zeta": {"ocean_time": 6, "eta_rho": Y, "xi_rho": X},
        "temp": {"ocean_time": 6, "s_rho": 3, "eta_rho": Y, "xi_rho": X},
    },
    "goes": {
        "CMI": {"t": 3, "y": Y, "x": X}, "DQF": {"t": 3, "y": Y, "x": X}, "projection": {},
        "time_bounds": {"t": 3, "number_of_time_bounds": 2},
    },
    "era5": {"t2m": {"valid_time": 9, "latitude": Y, "longitude": X}},
}  # fmt: skip

OPTIONS = {"relaxed_identities": True, "relaxed_units": True, "on_overlap": "equal"}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_quantity_of_an_archive_is_one_array_with_the_values_of_all_files(tmp_path: Path, name: str) -> None:
    files = write(tmp_path, name)
    with cfagg.aggregate(files, **OPTIONS) as found:
        assert {n: dict(one.sizes) for n, one in found.data_vars.items()} == EXPECTED[name]
        for variable, sizes in EXPECTED[name].items():
            times = [dim for dim in sizes if dim in ("time", "ocean_time", "t", "valid_time")]
            with xr.open_mfdataset(
                files, combine="nested", concat_dim=times[0] if times else None, data_vars="all",
                coords="minimal", compat="override", combine_attrs="override", join="override",
            ) as theirs:  # fmt: skip
                np.testing.assert_array_equal(found[variable].values, theirs[variable].values)


def test_what_a_regional_model_gives_times_is_joined_along_these(tmp_path: Path) -> None:
    with cfagg.aggregate(write(tmp_path, "wrf"), **OPTIONS) as found:
        assert dict(found.T2.sizes) == {"Time_1": 6, "south_north": Y, "west_east": X}
        assert dict(found.U10.sizes) == {"Time_1": 6, "south_north": Y, "west_east_stag": X + 1}
        # Nothing says which times these are of.
        assert [n for n in found.data_vars if n.startswith("Times")] == ["Times", "Times_1", "Times_2"]


def test_versions_of_a_reanalysis_stay_with_their_times(tmp_path: Path) -> None:
    with cfagg.aggregate(write(tmp_path, "era5"), **OPTIONS) as found:
        assert found.expver.values.tolist() == ["0001"] * 6 + ["0005"] * 3
        assert found.number.item() == 0
