"""PP files and fields files through the verbs of users: read, show, check and convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

import cfagg
from tests.formats.pp.making import field, fields_file
from tests.formats.pp.test_dataset import INSTANT

SAMPLES = Path(__file__).parents[3] / "sample_data" / "pp"
NAMES = sorted(path.name for path in SAMPLES.glob("*.pp"))


@pytest.mark.parametrize("name", NAMES)
def test_samples_follow_cf(name: str) -> None:
    report = cfagg.check(SAMPLES / name)
    assert [f.code for f in report.findings if f.severity == "error"] == []


def test_show_names_the_format_and_the_variables() -> None:
    text = str(cfagg.show(SAMPLES / "umfile.pp"))
    assert "umfile.pp (PP)" in text
    assert "surface_air_pressure (time: 3, latitude: 73, longitude: 96) float32 PSTAR AFTER TIMESTEP [Pa]" in text


@pytest.mark.parametrize("name", ["umfile.pp", "wgdos_73x96_le.pp"])
def test_a_converted_file_has_the_same_values_and_attributes(name: str, tmp_path: Path) -> None:
    cfagg.convert(SAMPLES / name, tmp_path / "a.zarr")
    store = zarr.open_group(tmp_path / "a.zarr", mode="r")
    with cfagg.read(SAMPLES / name, decode_cf=False) as source:
        assert set(store.array_keys()) == set(source.variables)
        for variable in source.variables:
            assert np.array_equal(np.asarray(store[variable]), source[variable].values)
            assert store[variable].attrs.get("standard_name") == source[variable].attrs.get("standard_name")


def test_dates_are_those_of_the_header() -> None:
    with cfagg.read(SAMPLES / "umfile.pp", decode_times=xarray.coders.CFDatetimeCoder(use_cftime=True)) as found:
        assert [t.isoformat() for t in found.time.values] == [f"{year}-06-01T00:00:00" for year in (2160, 2161, 2162)]


def test_fields_files_are_read_as_pp_files_are(tmp_path: Path) -> None:
    path = tmp_path / "a.ff"
    path.write_bytes(fields_file([({**INSTANT, "LBDAT": 1 + t}, np.full(6, t, ">f8").tobytes()) for t in range(3)]))
    with cfagg.read(path) as found:
        assert found.air_temperature.dims == ("time", "latitude", "longitude")
        assert found.air_temperature[:, 0, 0].values.tolist() == [0, 1, 2]


def test_values_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field([1] * 6, **INSTANT) + field(b"\0" * 8, **{**INSTANT, "LBDAT": 2, "LBLREC": 6}))
    with cfagg.read(path) as found:
        assert found.air_temperature[0].values.tolist() == [[1, 1, 1]] * 2
        with pytest.raises(cfagg.CfaggError, match=r"field 1 of .*a\.pp has 8 bytes of data, expected 24 for 6 values"):
            found.air_temperature[1].values  # noqa: B018
