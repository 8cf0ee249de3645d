"""Aggregation files of PP files and Zarr stores: references where the dialect has them, else fragments."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import LimitError, LossError
from cfagg.formats.pp import addresses, records
from cfagg.runtime.targets import DIALECTS
from cfagg.writing import elsewhere, fragments
from tests.formats.pp.making import field, fields_file
from tests.formats.pp.test_dataset import INSTANT

PP = Path(__file__).parents[2] / "sample_data" / "pp"
NAMES = sorted(path.name for path in PP.glob("*.pp"))
BY_ADDRESS = ("NCA-0.1", "CFA-0.4")


def written(how, source, target, to):
    """Return the report of either way to write an aggregation file of a file."""
    if how == "convert":
        return cfagg.convert(source, target, to=to)
    with cfagg.read(source) as ds:
        return cfagg.write(ds, target, to=to)


def equal(target, source):
    """Compare all that is read of two files."""
    with cfagg.read(target) as new, cfagg.read(source) as old:
        assert set(new.variables) == set(old.variables)
        for name, variable in old.variables.items():
            assert (new[name].dims, new[name].dtype) == (variable.dims, variable.dtype)
            np.testing.assert_array_equal(new[name].values, variable.values)
            given = {k: v for k, v in new[name].attrs.items() if k not in ("fragment_format", "fragment_dtype")}
            assert given == variable.attrs


@pytest.mark.parametrize("how", ["convert", "write"])
@pytest.mark.parametrize("to", DIALECTS)
@pytest.mark.few(6)
@pytest.mark.parametrize("name", NAMES)
def test_an_aggregation_of_a_pp_file_has_its_values_coordinates_and_attributes(tmp_path, name, to, how):
    shutil.copy(PP / name, tmp_path)
    report = written(how, tmp_path / name, tmp_path / "a.nc", to)
    assert (report.dialect, report.losses) == (to, ())
    assert report.fragments == (0 if to in BY_ADDRESS else report.partitions)
    equal(tmp_path / "a.nc", tmp_path / name)


@pytest.mark.parametrize("to", BY_ADDRESS)
def test_addresses_are_bytes_at_which_headers_begin(tmp_path, to):
    shutil.copy(PP / "umfile.pp", tmp_path)
    cfagg.convert(tmp_path / "umfile.pp", tmp_path / "a.nc", to=to)
    found = cfagg.open_aggregation(tmp_path / "a.nc", "surface_air_pressure")
    assert found.partitions.files[:] == ["umfile.pp"]
    raw = (tmp_path / "umfile.pp").read_bytes()
    years = []
    for at in found.partitions.offset.tolist():
        marker, year = struct.unpack_from("<II", raw, at)
        assert marker == 256
        years.append(year)
    assert years == [2159, 2160, 2161]


def several() -> dict[str, bytes]:
    """Return files whose fields differ in how they are stored."""
    header = {**INSTANT, "LBUSER4": 0, "LBFC": 16}
    mask = {**INSTANT, "LBUSER4": 30, "LBUSER1": 3, "LBLREC": 6}
    land = np.array([1, 0, 0, 1, 1, 0], ">i4").tobytes()
    return {
        "scaled": field([1, 2, 3, 4, 5, -1e30], **header)
        + field([1, 2, 3, 4, 5, 6], **{**header, "LBDAT": 2, "BMKS": 0.1, "BDATUM": 273.15}),
        "other missing": field([1, 2, 3, 4, 5, 9], **{**header, "BMDI": 9})
        + field([9, 2, 3, 4, 5, 6], **{**header, "LBDAT": 2, "BMDI": 6}),
        "packed and not": field(np.arange(6.0), size=8, **header)
        + field(np.arange(6, dtype=">f4").tobytes(), size=8, **{**header, "LBDAT": 2, "LBPACK": 2, "LBLREC": 3}),
        "integers": field(np.arange(6, dtype=">i4").tobytes(), **{**header, "LBUSER1": 2, "BMDI": -99}),
        "land": field(land, **mask) + field([7, 8, 9], **{**header, "LBPACK": 120}),
        "no rows": field([1, 2, 3, 4], **{**header, "LBROW": 0, "LBNPT": 0, "LBCODE": 0}),
        "one row": field([1, 2, 3], **{**header, "LBROW": 1}),
        "fields file": fields_file([({**header, "LBDAT": 1 + t}, np.full(6, t, ">f8").tobytes()) for t in range(3)]),
    }


@pytest.mark.few(10)
@pytest.mark.parametrize("to", ["NCA-0.1", "CFA-0.4", "CF-1.13"])
@pytest.mark.parametrize("name", several())
def test_however_fields_are_stored_their_values_are_the_same_in_an_aggregation(tmp_path, name, to):
    (tmp_path / "a.pp").write_bytes(several()[name])
    report = cfagg.convert(tmp_path / "a.pp", tmp_path / "a.nc", to=to)
    assert (report.fragments == 0) is (to in BY_ADDRESS)
    equal(tmp_path / "a.nc", tmp_path / "a.pp")


def test_headers_are_looked_through_once_for_all_variables(tmp_path, monkeypatch):
    (tmp_path / "a.pp").write_bytes(b"".join(field(**{**INSTANT, "LBUSER4": 100 + n}) for n in range(20)))
    asked = []
    monkeypatch.setattr(addresses, "scan_records", lambda *a: asked.append(0) or records.scan_records(*a))
    assert len(cfagg.convert(tmp_path / "a.pp", tmp_path / "a.nca").variables) == 20
    assert len(asked) == 2


def test_fields_that_share_their_data_have_fragments(tmp_path):
    raw = bytearray(fields_file([({**INSTANT, "LBDAT": 1 + t}, np.full(6, t, ">f8").tobytes()) for t in range(2)]))
    begin = 28 * 8 + 256 * 8
    raw[begin + 64 * 8 : begin + 65 * 8] = raw[begin : begin + 8]
    (tmp_path / "a.ff").write_bytes(raw)
    assert cfagg.convert(tmp_path / "a.ff", tmp_path / "a.nca").fragments == 2
    equal(tmp_path / "a.nca", tmp_path / "a.ff")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A Zarr store of packed numbers, Booleans, texts and dates, with bounds and a scalar."""
    path = tmp_path_factory.mktemp("store") / "a.zarr"
    packed = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1, "chunks": (2, 3)}
    values = np.arange(20.0).reshape(5, 4) / 2
    values[1, 1] = np.nan
    ds = xr.Dataset(
        {
            "tas": (("time", "x"), values, {"units": "K"}),
            "wet": ("x", [True, False, True, True]),
            "name": ("x", np.array(["a", "bc", "", "é"], object)),
            "time_bnds": (("time", "bnds"), np.arange(10.0).reshape(5, 2)),
            "height": 2.0,
        },
        {"time": ("time", np.arange(5.0), {"units": "days since 2000-01-01", "bounds": "time_bnds"})},
        {"title": "in Zarr"},
    )
    ds.to_zarr(path, encoding={"tas": packed}, consolidated=False)
    return path


@pytest.mark.few(3)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("how", ["convert", "write"])
@pytest.mark.parametrize("to", DIALECTS)
def test_an_aggregation_of_a_zarr_store_has_its_values_in_fragments(store, tmp_path, to, how):
    report = written(how, store, tmp_path / "a.nc", to)
    assert (report.losses, set(report.variables)) == ((), {"tas", "wet", "name"})
    assert report.fragments == report.partitions == 3
    with cfagg.read(tmp_path / "a.nc") as new, xr.open_zarr(store, consolidated=False) as old:
        xr.testing.assert_equal(new, old)
        assert (new.title, new.tas.units) == ("in Zarr", "K")
        assert new.tas.encoding["dtype"] == np.dtype("i2") or to in ("CFA-0.6.2", "CF-1.13")


@pytest.mark.parametrize("how", ["convert", "write"])
def test_values_in_zarr_are_cut_along_the_first_dimension_where_chunks_end(tmp_path, monkeypatch, how):
    values = np.arange(60.0).reshape(20, 3)
    array = zarr.create_array(tmp_path / "a.zarr", name="v", data=values, chunks=(4, 2), dimension_names=("t", "x"))
    monkeypatch.setattr(elsewhere, "_FRAGMENT", 10 * array.shape[1] * 8)
    report = written(how, tmp_path / "a.zarr", tmp_path / "a.nc", "CF-1.13")
    assert cfagg.open_aggregation(tmp_path / "a.nc", "v").grid.sizes == ((8, 8, 4), (3,))
    assert sorted(p.name for p in (tmp_path / "a.nc.fragments").iterdir()) == [f"v.{k}.0.nc" for k in range(3)]
    assert report.notes == ("3 fragments were written to a.nc.fragments",)
    np.testing.assert_array_equal(cfagg.read(tmp_path / "a.nc").v, values)


@pytest.mark.parametrize("how", ["convert", "write"])
@pytest.mark.parametrize("codec", ["auto", None])
def test_fragments_have_the_chunks_of_a_zarr_array_and_are_deflated_where_it_is_compressed(
    tmp_path, monkeypatch, how, codec
):
    group = zarr.create_group(tmp_path / "a.zarr")
    values = np.arange(180.0).reshape(20, 3, 3)
    for name, chunks in (("v", (4, 2, 3)), ("long", (20, 1, 2))):
        group.create_array(name, data=values, chunks=chunks, compressors=codec, dimension_names=("t", "y", "x"))
    monkeypatch.setattr(elsewhere, "_FRAGMENT", 10 * 9 * 8)
    monkeypatch.setattr(fragments, "BLOCK", 6 * 9 * 8)
    written(how, tmp_path / "a.zarr", tmp_path / "a.nc", "CF-1.13")
    for name, shape, chunks in (("v", (4, 3, 3), [4, 2, 3]), ("long", (10, 3, 3), [6, 1, 2])):
        with netCDF4.Dataset(max((tmp_path / "a.nc.fragments").glob(f"{name}.*"))) as file:
            assert (file[name].shape, file[name].chunking()) == (shape, chunks)
            assert [file[name].filters()[k] for k in ("zlib", "shuffle")] == [codec == "auto"] * 2
        np.testing.assert_array_equal(cfagg.read(tmp_path / "a.nc")[name], values)


def test_groups_of_a_zarr_store_come_with_it(tmp_path):
    root = zarr.create_group(tmp_path / "a.zarr")
    root.create_group("inner").create_array("v", data=np.arange(3), dimension_names=("x",))
    assert cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to="CF-1.13").variables == ("inner/v",)
    np.testing.assert_array_equal(cfagg.read(tmp_path / "a.nc", group="inner").v, np.arange(3))


def test_what_netcdf_cannot_hold_is_refused_by_its_name(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", name="z", data=np.array([1j]), dimension_names=("x",))
    with pytest.raises(cfagg.CfaggError, match="array '/z' holds values of type complex128"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nca")
    assert not (tmp_path / "a.nca").exists()


def test_damaged_fields_are_found_when_fragments_are_written(tmp_path):
    (tmp_path / "a.pp").write_bytes(field(b"\0" * 8, **{**INSTANT, "LBLREC": 6}))
    with pytest.raises(cfagg.CfaggError, match="8 bytes of data"):
        cfagg.convert(tmp_path / "a.pp", tmp_path / "a.nc", to="CF-1.13")
    assert [p.name for p in tmp_path.iterdir()] == ["a.pp"]


@pytest.mark.parametrize("to", DIALECTS)
def test_attributes_of_zarr_get_the_types_of_netcdf_and_those_it_cannot_hold_are_losses(tmp_path, to):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w", attributes={"nested": {"a": 1}, "n": 1})
    attributes = {"flag_values": [1, 2], "known": True, "units": "1"}
    made = root.create_array("v", data=np.arange(6, dtype="i2"), dimension_names=("x",), attributes=attributes)
    assert made.shape == (6,)
    with pytest.raises(LossError) as caught:
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to=to)
    assert {(loss.variable, loss.what) for loss in caught.value.losses} == {
        ("/", "attribute 'nested'"), ("v", "attribute 'known'")
    }  # fmt: skip
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
    report = cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to=to, on_loss="drop")
    assert len(report.losses) == 2
    with cfagg.read(tmp_path / "a.nc") as found:
        assert found.v.attrs["flag_values"].dtype == np.int16
        assert found.v.values.tolist() == list(range(6))
        assert found.attrs["n"] == 1


@pytest.mark.parametrize("to", DIALECTS)
def test_more_fragments_than_anyone_means_are_refused_before_they_are_listed(tmp_path, to):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    shape, chunks = (10**12, 10**6), (10**4, 10**3)
    root.create_array("v", shape=shape, chunks=chunks, dtype="f8", dimension_names=("x", "y"))
    with pytest.raises(LimitError, match=r"'v': an array of shape .* would get 30,303,030,304 fragments"):
        cfagg.convert(tmp_path / "a.zarr", tmp_path / "a.nc", to=to)
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
