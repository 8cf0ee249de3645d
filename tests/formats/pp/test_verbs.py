"""PP files and fields files through the verbs of users: read, show, check and convert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr

import cfagg
from cfagg.errors import UnreadableAggregationError, UnsupportedError
from cfagg.formats.pp.addresses import scan_fields
from cfagg.formats.pp.values import masks_of
from cfagg.storage.files import Borrowed
from tests import nca_files
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


def boundaries() -> dict[str, bytes]:
    """Return a PP file and a fields file with a variable of boundary conditions beside one that can be read."""
    rim = {**INSTANT, "LBHEM": 99, "LBUSER4": 32002, "LBUSER3": 10505, "LBLREC": 30}
    data = np.arange(30.0, dtype=">f4").tobytes()
    whole = bytearray(fields_file([({**INSTANT, "LBHEM": 0}, np.zeros(6, ">f8").tobytes())]))
    whole[4 * 8 : 5 * 8] = np.array([5], ">i8").tobytes()  # the dataset is of boundary conditions
    return {"a.pp": field([1] * 6, **INSTANT) + field(data, **rim), "a.ff": bytes(whole)}


NAME = {"a.pp": "m01s32i002", "a.ff": "air_temperature"}


@pytest.mark.parametrize("file", boundaries())
def test_boundary_conditions_are_listed_and_refused_and_nothing_else_is(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.write_bytes(boundaries()[file])
    why = f"variable '{NAME[file]}' holds lateral boundary conditions"
    with pytest.raises(UnreadableAggregationError, match=f"{file}: {why}.*with variables=") as caught:
        cfagg.read(path)
    assert caught.value.variables == (NAME[file],)
    with pytest.raises(UnreadableAggregationError, match=why):
        cfagg.convert(path, tmp_path / "a.zarr")
    with pytest.raises(UnreadableAggregationError, match=why):
        cfagg.convert(path, tmp_path / "a.nca")
    report = cfagg.convert(path, tmp_path / "a.zarr", on_loss="drop")
    assert [loss.variable for loss in report.losses] == [NAME[file]]
    assert why in str(cfagg.show(path))
    assert [f.variable for f in cfagg.check(path).findings if why in f.message] == [NAME[file]]


def test_what_stands_beside_boundary_conditions_is_read_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(boundaries()["a.pp"])
    assert (cfagg.read(tmp_path / "a.pp", variables="air_temperature").air_temperature == 1).all()
    report = cfagg.convert(tmp_path / "a.pp", tmp_path / "a.nca", variables=["air_temperature"])
    assert report.variables == ("air_temperature",)


def test_a_partition_of_boundary_conditions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pp").write_bytes(boundaries()["a.pp"])
    data = {"data": {"shape": [2, 3], "file": "a.pp", "file_offset": 296}, "format": "PP"}
    content = nca_files.array(["y", "x"], [[0, 2], [0, 3]], lambda *_: data)
    nca_files.aggregation(tmp_path / "x.nca", "tas", "f4", {"y": 2, "x": 3}, content)
    with pytest.raises(UnsupportedError, match=r"partition \(0, 0\).*lateral boundary conditions"):
        cfagg.read(tmp_path / "x.nca").tas.load()


def test_a_land_sea_mask_of_boundary_conditions_is_none() -> None:
    mask = {**INSTANT, "LBUSER4": 30, "LBUSER1": 3, "LBLREC": 6}
    handle = Borrowed("a.pp", field(b"\0" * 24, **mask) + field(b"\0" * 24, **mask, LBHEM=99))
    assert len(masks_of(scan_fields(handle))) == 1


@pytest.mark.parametrize(
    ("wrong", "code", "why"),
    [
        ({"LBPACK": 3}, "INT004", "the packing LBPACK = 3 cannot be read"),
        ({"LBPACK": 1000}, "INT004", "numbers as IBM has them"),
        ({"LBPACK": 4, "LBUSER1": 2}, "INT004", "run length packing of integers"),
        ({"LBPACK": 120}, "INT003", "the file has no land-sea mask"),
        ({"LBROW": 20}, "INT003", "has 24 bytes of data, expected 240 for 60 values"),
        ({"LBLREC": 2}, "INT003", "has 8 bytes of data, expected 24 for 6 values"),
        ({"LBROW": 2**30}, "INT003", "bytes"),
    ],
)
def test_a_check_says_what_reading_refuses_by_the_header_alone(
    tmp_path: Path, wrong: dict[str, int], code: str, why: str
) -> None:
    path = tmp_path / "a.pp"
    path.write_bytes(field([1] * 6, **{**INSTANT, **wrong}))
    with pytest.raises(cfagg.CfaggError) as caught:
        cfagg.read(path).load()
    if wrong == {"LBROW": 2**30}:  # more than the file can hold: it is refused as a whole
        with pytest.raises(cfagg.CfaggError, match="more than the file can hold"):
            cfagg.check(path)
        return
    (found,) = [f for f in cfagg.check(path).findings if f.code.startswith("INT")]
    assert (found.code, found.variable, why in found.message) == (code, "air_temperature", True)
    assert caught.value.message.removeprefix(f"{path}: ").endswith(found.message.partition("field 0")[2])


def test_a_reason_of_many_fields_is_found_once(tmp_path: Path) -> None:
    day = [{**INSTANT, "LBDAT": k} for k in range(1, 21)]
    (tmp_path / "a.pp").write_bytes(b"".join(field([1] * 6, **one, LBPACK=3 * (k > 4)) for k, one in enumerate(day)))
    found = [f.message for f in cfagg.check(tmp_path / "a.pp").findings if f.code == "INT004"]
    assert len(found) == 1
    assert "field 5 of" in found[0]
