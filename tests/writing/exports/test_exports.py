"""Exports that other libraries open: kerchunk's references by fsspec and zarr-python, Icechunk by itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from pyarrow import parquet

import cfagg
from cfagg.arrays.opening import open_any
from cfagg.errors import LossError, TargetError, TargetExistsError
from cfagg.model import Layout
from cfagg.storage.access import Access
from cfagg.writing.exports.codecs import untold
from cfagg.writing.exports.exporting import export, write_directory
from tests.formats.pp.making import field
from tests.formats.pp.test_dataset import INSTANT
from tests.writing.exports.files import LAT, aggregate, fragment, packed_series, series, values_of


def exported(path: Path, name: str, **options: Any) -> Any:
    to = "icechunk" if name.endswith("icechunk") else "kerchunk"
    if to == "icechunk":
        pytest.importorskip("icechunk", reason="icechunk is not installed")
    return export(open_any(path), Access(path), path.parent / name, to, **options)


def opened(path: Path, group: str | None = None, *, place: Path | None = None) -> xr.Dataset:
    """Open what was exported without cfagg, with access to files below a place."""
    if path.suffix == ".icechunk":
        icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
        place = f"file://{place or path.parent}/"
        allowed = {place: icechunk.credentials.LocalFileSystemAccess}
        found = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)), None, allowed)
        with zarr.config.set({"array.rectilinear_chunks": True}):
            return xr.open_zarr(found.readonly_session("main").store, group=group, consolidated=False).load()
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    given = {"fo": str(path), "remote_protocol": "file"}
    if path.is_dir():
        from fsspec.implementations.reference import LazyReferenceMapper

        given["fo"] = LazyReferenceMapper(str(path), fsspec.filesystem("file"), engine="pyarrow")
    files = fsspec.filesystem("reference", **given, asynchronous=True)
    return xr.open_dataset(zarr.storage.FsspecStore(files), engine="zarr", group=group, consolidated=False).load()


FORMS = {
    "deflate": {"zlib": True, "shuffle": True, "chunksizes": (4, 10, 30)},
    "checked": {"zlib": True, "fletcher32": True, "chunksizes": (12, 20, 30)},
    "zstd": {"compression": "zstd", "chunksizes": (6, 20, 15)},
    "big-endian": {"endian": "big", "chunksizes": (4, 10, 30)},
    "contiguous": {"contiguous": True},
    "classic": {"form": "NETCDF3_CLASSIC"},
    "records": {"form": "NETCDF3_64BIT_OFFSET", "unlimited": True},
    "partial at the end": {"zlib": True, "chunksizes": (12, 7, 13)},
}
TARGETS = ("tas.json", "tas.parquet", "tas.icechunk")


@pytest.mark.few(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", TARGETS)
def test_exports_are_opened_with_the_values_of_the_files(tmp_path, form, target):
    path, values = series(tmp_path, **FORMS[form])
    report = exported(path, target)
    assert (report.variables, report.losses) == (("tas",), ())
    found, own = opened(tmp_path / target), cfagg.read(path)
    np.testing.assert_array_equal(found.tas.values, values)
    xr.testing.assert_equal(found.time, own.time)
    xr.testing.assert_equal(found.lat, own.lat)
    assert (found.tas.attrs, found.tas.dtype) == (own.tas.attrs, own.tas.dtype)
    assert str(found.experiment.values) == "historical"


def test_icechunk_has_chunks_of_unequal_lengths_where_files_differ_in_length(tmp_path):
    lengths = (7, 9, 8)
    path, values = series(tmp_path, lengths, zlib=True, chunksizes=None, contiguous=False)
    report = exported(path, "tas.icechunk")
    assert any("rectilinear" in note for note in report.notes)
    np.testing.assert_array_equal(opened(tmp_path / "tas.icechunk").tas.values, values)


@pytest.mark.parametrize("name", ["a b", "é", "a#b%20c?"])
def test_icechunk_refers_to_files_in_directories_whose_names_need_escapes(tmp_path, name):
    (tmp_path / name / "months").mkdir(parents=True)
    path, values = series(tmp_path / name / "months", zlib=True)
    report = exported(path, "tas.icechunk")
    assert f"'file://{tmp_path}/'" in report.notes[0]
    np.testing.assert_array_equal(opened(path.parent / "tas.icechunk", place=tmp_path).tas.values, values)


def test_kerchunk_refuses_files_whose_lengths_are_no_whole_chunks(tmp_path):
    path, _ = series(tmp_path, (7, 9, 8), zlib=True, contiguous=False)
    with pytest.raises(LossError, match="shape of chunks") as caught:
        exported(path, "tas.json")
    assert {loss.partition for loss in caught.value.losses} <= {(0, 0, 0), (1, 0, 0), (2, 0, 0)}
    assert not (tmp_path / "tas.json").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_contiguous_files_of_unequal_lengths_are_cut_into_equal_chunks(tmp_path):
    path, values = series(tmp_path, (6, 9, 3), contiguous=True)
    exported(path, "tas.json")
    assert json.loads(json.loads((tmp_path / "tas.json").read_text())["refs"]["tas/.zarray"])["chunks"] == [3, 20, 30]
    np.testing.assert_array_equal(opened(tmp_path / "tas.json").tas.values, values)


@pytest.mark.parametrize("target", TARGETS)
def test_packing_that_all_files_share_is_kept(tmp_path, target):
    packed = {"scale_factor": np.float64(0.5), "add_offset": np.float64(280), "_FillValue": np.int16(-9)}
    values = np.arange(36 * LAT * 30).reshape(36, LAT, 30).astype("i2")
    path = packed_series(tmp_path, values, [packed] * 3)
    exported(path, target)
    found = opened(tmp_path / target).tas
    assert found.encoding["dtype"] == np.int16
    np.testing.assert_array_equal(found.values, cfagg.read(path).tas.values)


@pytest.mark.parametrize("scale", [{}, {"scale_factor": np.float64(0.5)}])
def test_a_valid_range_that_readers_of_references_do_not_apply_is_a_loss_of_that_name(tmp_path, scale):
    values = np.arange(36 * LAT * 30).reshape(36, LAT, 30).astype("i2")
    path = packed_series(tmp_path, values, [{**scale, "valid_min": np.int16(5)}] * 3)
    with pytest.raises(LossError) as caught:
        exported(path, "tas.json")
    assert {(loss.what, loss.found) for loss in caught.value.losses} == {("valid range", "{'valid_min': '5'}")}


def one_of_another_packing(folder: Path) -> Path:
    values = np.arange(36 * LAT * 30).reshape(36, LAT, 30).astype("i2")
    scales = [{"scale_factor": np.float64(s), "add_offset": np.float64(280)} for s in (0.5, 0.25, 0.5)]
    return packed_series(folder, values, scales)


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_of_another_packing_is_a_loss(tmp_path, target):
    with pytest.raises(LossError) as caught:
        exported(one_of_another_packing(tmp_path), target)
    assert [(loss.partition, loss.what) for loss in caught.value.losses] == [((1, 0, 0), "packing")]
    assert not (tmp_path / target).exists()


def test_values_of_several_packings_are_written_as_they_are_read(tmp_path):
    path = one_of_another_packing(tmp_path)
    report = exported(path, "tas.icechunk", on_loss="materialise")
    assert report.losses == ()
    found, own = opened(tmp_path / "tas.icechunk").tas, cfagg.read(path).tas
    assert found.dtype == own.dtype
    np.testing.assert_array_equal(found.values, own.values)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_lost_is_left_out_where_that_is_accepted(tmp_path, target):
    report = exported(one_of_another_packing(tmp_path), target, on_loss="drop")
    assert "tas" not in opened(tmp_path / target)
    assert [loss.what for loss in report.losses] == ["packing", "the variable"]


def test_no_file_of_a_variable_that_is_left_out_is_replaced(tmp_path):
    path = one_of_another_packing(tmp_path)
    file = next(p for p in sorted(tmp_path.rglob("*.nc")) if p != path)
    before = file.read_bytes()
    with pytest.raises(TargetError, match="its values would be lost"):
        exported(path, str(file.relative_to(path.parent)), on_loss="drop", overwrite=True)
    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", ["compound", "vlen"])
@pytest.mark.parametrize("target", TARGETS)
def test_values_that_are_neither_numbers_nor_text_are_left_out_or_refused(tmp_path, target, kind):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        pair = np.dtype([("p", "f4"), ("q", "i4")])
        own = file.createCompoundType(pair, "pair") if kind == "compound" else file.createVLType("i4", "row")
        made = file.createVariable("odd", own, ("x",))
        for k in range(2):
            made[k] = np.array((k, k), pair) if kind == "compound" else np.arange(k + 1, dtype="i4")
        file.createVariable("even", "i4", ("x",))[:] = [0, 2]
    for how in ("error", "materialise"):
        with pytest.raises(LossError) as caught:
            exported(tmp_path / "a.nc", target, on_loss=how)
        assert [loss.why for loss in caught.value.losses] == ["they are neither numbers nor text"]
        assert not (tmp_path / target).exists()
    exported(tmp_path / "a.nc", target, on_loss="drop")
    found = opened(tmp_path / target)
    assert "odd" not in found
    assert found["even"].values.tolist() == [0, 2]


@pytest.mark.parametrize(
    "fill", [np.array([-9.0, -9.0]), np.zeros((), [("p", "f4"), ("q", "i4")])], ids=["two", "pair"]
)
@pytest.mark.parametrize("target", TARGETS)
def test_compounds_are_left_out_or_refused_whatever_their_fill_value_is(tmp_path, target, fill):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["odd"] = np.zeros(2, [("p", "f4"), ("q", "i4")])
        file["odd"].attrs["_FillValue"] = fill
        file["even"] = [0, 2]
    with pytest.raises(LossError) as caught:
        exported(tmp_path / "a.nc", target, on_loss="materialise")
    assert [loss.why for loss in caught.value.losses] == ["they are neither numbers nor text"]
    exported(tmp_path / "a.nc", target, on_loss="drop")
    assert list(opened(tmp_path / target).variables) == ["even"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_of_another_compression_is_written_as_values_where_that_is_wanted(tmp_path, target):
    values = values_of((12, 12))
    fragment(tmp_path / "a.nc", values[:12], zlib=True, chunksizes=(12, 20, 30))
    fragment(tmp_path / "b.nc", values[12:], compression="zstd", chunksizes=(12, 20, 30))
    path = aggregate(tmp_path / "tas.nc", ["a.nc", "b.nc"], [12, 12])
    with pytest.raises(LossError) as caught:
        exported(path, target)
    assert [loss.what for loss in caught.value.losses] == ["compression"]
    exported(path, target, on_loss="materialise")
    (tmp_path / "b.nc").unlink()
    np.testing.assert_array_equal(opened(tmp_path / target).tas.values, values)


def turned(folder: Path) -> Path:
    """Return an aggregation whose second file runs from north to south."""
    values = values_of((12, 12))
    for name, part in (("a.nc", values[:12]), ("b.nc", values[12:, ::-1])):
        fragment(folder / name, part, zlib=True, chunksizes=(12, 20, 30))
    dims = ("time", "lat", "lon")
    layouts = [Layout(dims), Layout(dims, flipped=(False, True, False))]
    return aggregate(folder / "t.nca", ["a.nc", "b.nc"], [12, 12], layouts=layouts, columns={"layout": [0, 1]},
                     to="NCA-0.1")  # fmt: skip


def test_a_reversed_file_is_a_loss(tmp_path):
    with pytest.raises(LossError) as caught:
        exported(turned(tmp_path), "tas.json")
    assert [(loss.partition, loss.what) for loss in caught.value.losses] == [((1, 0, 0), "direction")]


def test_a_reversed_file_is_written_as_values_where_that_is_wanted(tmp_path):
    path = turned(tmp_path)
    exported(path, "tas.icechunk", on_loss="materialise")
    np.testing.assert_array_equal(opened(tmp_path / "tas.icechunk").tas.values, values_of((12, 12)))


def test_icechunk_refuses_values_of_a_file_that_was_written_after_the_export(tmp_path):
    path, _ = series(tmp_path)
    exported(path, "tas.icechunk")
    later = (tmp_path / "tas 1.nc").stat().st_mtime + 2
    os.utime(tmp_path / "tas 1.nc", (later, later))
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    with pytest.raises(icechunk.IcechunkError, match="has changed"):
        opened(tmp_path / "tas.icechunk")


def test_chunks_that_were_never_written_have_the_fill_value_of_the_file(tmp_path):
    path, _ = series(tmp_path, write=half_written, chunksizes=(4, 20, 30))
    for target in TARGETS:
        exported(path, target)
        np.testing.assert_array_equal(opened(tmp_path / target).tas.values, cfagg.read(path).tas.values)


def half_written(path: Path, values: np.ndarray, **options: Any) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for dim, n in zip(("time", "lat", "lon"), values.shape, strict=True):
            file.createDimension(dim, n)
        made = file.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True, fill_value=1e20, **options)
        made.units = "K"
        made[:4] = values[:4]


@pytest.mark.few(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [4, 8])
def test_fields_of_pp_files_that_are_not_packed_are_chunks(tmp_path, target, size):
    values = np.arange(3 * 40 * 50.0).reshape(3, 40, 50)
    fields = [
        field(values[k].astype(f">f{size}"), size=size, **(INSTANT | {"LBDAT": k + 1, "LBROW": 40, "LBNPT": 50}))
        for k in range(3)
    ]
    path = tmp_path / "a.pp"
    path.write_bytes(b"".join(fields))
    report = exported(path, target)
    own = cfagg.read(path)
    (name,) = report.variables
    assert own[name].shape == (3, 40, 50)
    np.testing.assert_array_equal(opened(tmp_path / target)[name].values, values)


def test_a_target_is_replaced_only_where_that_is_wanted(tmp_path):
    path, values = series(tmp_path)
    for target in TARGETS:
        exported(path, target)
        with pytest.raises(TargetExistsError):
            exported(path, target)
        exported(path, target, overwrite=True)
        np.testing.assert_array_equal(opened(tmp_path / target).tas.values, values)


@pytest.mark.parametrize("target", ["x.parquet", "x.icechunk"])
def test_a_directory_of_something_else_is_not_replaced(tmp_path, target):
    path, _ = series(tmp_path)
    (tmp_path / target).mkdir()
    (tmp_path / target / "thesis.txt").write_text("years of work")
    with pytest.raises(TargetError, match="not replaced"):
        exported(path, target, overwrite=True)
    assert (tmp_path / target / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("number", [4, 5, 6, 32000, 32004])
def test_filters_without_a_codec_in_zarr_are_named(number):
    assert untold([(2, (4,)), (number, ())]) in {"szip", "n-bit", "scale and offset", "LZF", "LZ4"}
    assert untold([(2, (4,)), (1, ()), (3, ())]) is None


def test_an_lzf_chunk_is_a_loss_that_names_the_filter(tmp_path):
    values = values_of((12,))
    with h5py.File(tmp_path / "a.nc", "w") as file:
        made = file.create_dataset("tas", data=values, chunks=(12, 20, 30), compression="lzf")
        made.attrs["units"] = "K"
    path = aggregate(tmp_path / "tas.nc", ["a.nc"], [12])
    with pytest.raises(LossError, match="passed the filter LZF"):
        exported(path, "tas.json")


def test_places_in_parquet_are_integers_to_every_reader(tmp_path):
    # fastparquet, which fsspec asks by default, makes reals of integers that may be missing.
    path, _ = series(tmp_path)
    exported(path, "tas.parquet")
    schema = parquet.read_schema(tmp_path / "tas.parquet" / "tas" / "refs.0.parq")
    told = {c["name"]: c["numpy_type"] for c in json.loads(schema.metadata[b"pandas"])["columns"]}
    for name in ("offset", "size"):
        assert (schema.field(name).nullable, told[name]) == (False, "int64")


def parts(folder: Path, texts: list[str]) -> tuple[Path, np.ndarray]:
    """Return an aggregation of parts of one file of 24 times, in chunks of 12."""
    values = values_of((24,))
    fragment(folder / "a.nc", values, zlib=True, chunksizes=(12, 20, 30))
    count = len(texts)
    columns = {"file": [0] * count, "files": ["a.nc"], "part": range(count), "parts": texts}
    layouts = [Layout(("time", "lat", "lon"), shape=(24, 20, 30))]
    path = aggregate(folder / "p.nca", ["a.nc"] * count, [12] * count, layouts=layouts, columns=columns, to="NCA-0.1")
    return path, values


@pytest.mark.parametrize("target", TARGETS)
def test_parts_that_are_whole_chunks_are_referred_to(tmp_path, target):
    path, values = parts(tmp_path, ["[(12, 24, 1), (0, 20, 1), (0, 30, 1)]", "[(0, 12, 1), (0, 20, 1), (0, 30, 1)]"])
    exported(path, target)
    np.testing.assert_array_equal(opened(tmp_path / target).tas.values, np.concatenate([values[12:], values[:12]]))


@pytest.mark.parametrize("text", ["(6, 18, 1)", "(23, 11, -1)", "(0, 24, 2)"])
def test_parts_that_cut_through_chunks_are_losses(tmp_path, text):
    whole = "(0, 20, 1), (0, 30, 1)"
    path, _ = parts(tmp_path, [f"[(0, 12, 1), {whole}]", f"[{text}, {whole}]"])
    with pytest.raises(LossError) as caught:
        exported(path, "tas.json")
    assert [(loss.partition, loss.what) for loss in caught.value.losses] == [((1, 0, 0), "part")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [{"zlib": True, "chunksizes": (10, 30)}, {"contiguous": True}])
def test_files_without_the_dimension_along_which_they_are_joined_are_chunks_of_one(tmp_path, target, options):
    values = values_of((1, 1, 1))
    for k in range(3):
        fragment(tmp_path / f"{k}.nc", values[k], dims=("lat", "lon"), **options)
    layouts = [Layout(("lat", "lon"))]
    path = aggregate(tmp_path / "tas.nc", ["0.nc", "1.nc", "2.nc"], [1, 1, 1], layouts=layouts)
    exported(path, target)
    np.testing.assert_array_equal(opened(tmp_path / target).tas.values, values)


def test_a_file_with_dimensions_in_another_order_is_a_loss(tmp_path):
    values = values_of((12, 12))
    fragment(tmp_path / "a.nc", values[:12], zlib=True, chunksizes=(12, 20, 30))
    fragment(tmp_path / "b.nc", np.moveaxis(values[12:], 0, 1), dims=("lat", "time", "lon"), zlib=True)
    layouts = [Layout(("time", "lat", "lon")), Layout(("lat", "time", "lon"))]
    path = aggregate(tmp_path / "t.nca", ["a.nc", "b.nc"], [12, 12], layouts=layouts, columns={"layout": [0, 1]},
                     to="NCA-0.1")  # fmt: skip
    with pytest.raises(LossError) as caught:
        exported(path, "tas.json")
    assert [loss.what for loss in caught.value.losses] == ["order of dimensions"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_netcdf_file_with_groups_is_exported_as_it_is(tmp_path, target):
    values = values_of((12,))
    with netCDF4.Dataset(tmp_path / "g.nc", "w") as file:
        file.title = "groups"
        for dim, n in zip(("time", "lat", "lon"), values.shape, strict=True):
            file.createDimension(dim, n)
        group = file.createGroup("a").createGroup("b")
        made = group.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True, fill_value=-1)
        made[:] = values
        made[0, 0, 0] = -1
    exported(tmp_path / "g.nc", target)
    found, own = opened(tmp_path / target, "a/b"), xr.open_dataset(tmp_path / "g.nc", group="a/b")
    xr.testing.assert_equal(found.tas, own.tas)
    assert opened(tmp_path / target).attrs == {"title": "groups"}


@pytest.mark.parametrize("target", TARGETS)
def test_missing_partitions_are_missing_values(tmp_path, target):
    values = values_of((12, 12))
    fragment(tmp_path / "a.nc", values[:12], zlib=True, chunksizes=(12, 20, 30), fill_value=1e20)
    columns = {"file": [0, 0], "files": ["a.nc"], "present": [True, False]}
    path = aggregate(tmp_path / "t.nc", ["a.nc", ""], [12, 12], columns=columns, to="CFA-0.6.2",
                     attributes={"_FillValue": np.float32(1e20)})  # fmt: skip
    report = exported(path, target)
    assert "variable 'tas': where 1 partition is declared missing, missing values are read" in report.notes
    found = opened(tmp_path / target).tas.values
    np.testing.assert_array_equal(found[:12], values[:12])
    assert np.isnan(found[12:]).all()


def test_what_follows_a_file_that_ends_within_a_chunk_is_lost_too(tmp_path):
    path, values = series(tmp_path, (6, 8), zlib=True, chunksizes=(4, 20, 30))
    with pytest.raises(LossError) as caught:
        exported(path, "tas.json")
    losses = [(loss.partition, loss.what) for loss in caught.value.losses]
    assert losses == [((0, 0, 0), "a partial last chunk"), ((1, 0, 0), "edges")]
    for target in TARGETS:
        exported(path, target, on_loss="materialise")
        np.testing.assert_array_equal(opened(tmp_path / target).tas.values, values)


def test_what_icechunk_refuses_is_an_error_of_ours_and_leaves_nothing(tmp_path, monkeypatch):
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed")
    path, _ = series(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise icechunk.IcechunkError("no space left on device\ncontext: 7")

    monkeypatch.setattr(icechunk.Session, "commit", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(
        TargetError, match=r"tas\.icechunk cannot be written; Icechunk reports: no space left on device$"
    ):
        exported(path, "tas.icechunk")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("target", TARGETS)
def test_bounds_that_were_joined_in_memory_are_written_as_values(tmp_path, target):
    values, names = values_of((200, 200)), []
    for k in range(2):
        name = tmp_path / f"{k}.nc"
        fragment(name, values[200 * k : 200 * k + 200], zlib=True, chunksizes=(100, 20, 30),
                 attributes={"standard_name": "air_temperature"})  # fmt: skip
        with netCDF4.Dataset(name, "a") as file:
            file.createDimension("bnds", 2)
            for dim, kind, unit in (("time", "time", "days since 2000-01-01"), ("lat", "latitude", "degrees_north"),
                                    ("lon", "longitude", "degrees_east")):  # fmt: skip
                made = file.createVariable(dim, "f8", (dim,))
                made.setncatts({"units": unit, "standard_name": kind})
                made[:] = np.arange(made.size) + (200 * k if dim == "time" else 0)
            file["time"].bounds = "time_bnds"
            bounds = file.createVariable("time_bnds", "f8", ("time", "bnds"))
            bounds[:] = file["time"][:][:, None] + [-0.5, 0.5]
        names.append(name)
    to = "icechunk" if target.endswith("icechunk") else "kerchunk"
    if to == "icechunk":
        pytest.importorskip("icechunk", reason="icechunk is not installed")
    cfagg.index(names, output=tmp_path / target, to=to)
    found, own = opened(tmp_path / target), cfagg.aggregate(names)
    np.testing.assert_array_equal(found.tas.values, values)
    np.testing.assert_array_equal(found.time_bnds.values, own.time_bnds.values)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_that_were_shuffled_with_elements_of_eight_bytes_are_a_loss(tmp_path, target):
    # The filters stand in the order in which netCDF-4 puts them: the sum first.
    values = np.arange(12 * LAT * 30, dtype="f8").reshape(12, LAT, 30)
    fragment(tmp_path / "a.nc", values, zlib=True, fletcher32=True, chunksizes=(4, LAT, 30))
    path = aggregate(tmp_path / "tas.nc", ["a.nc"], [12], dtype="f8")
    with pytest.raises(LossError) as caught:
        exported(path, target)
    assert {loss.why for loss in caught.value.losses} == {
        "its chunks were shuffled together with bytes added by fletcher32, for which Zarr has no codec"
    }
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("target", TARGETS)
def test_files_of_which_no_chunk_was_ever_written_are_exported(tmp_path, target):
    with netCDF4.Dataset(tmp_path / "tas.nc", "w") as file:
        for dim, n in zip(("time", "lat", "lon"), (12, LAT, 30), strict=True):
            file.createDimension(dim, n)
        file.createVariable("tas", "f4", ("time", "lat", "lon"), fill_value=-1, chunksizes=(4, LAT, 30), zlib=True)
    exported(tmp_path / "tas.nc", target)
    assert np.isnan(opened(tmp_path / target).tas.values).all()


KINDS = {"f4": np.nan, "f8": np.inf, "i1": None, "i2": -1, "i4": None, "u4": None, "i8": -(2**63), "u8": 2**64 - 1}


@pytest.mark.few(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_numbers_with_any_missing_value_texts_scalars_and_empty_arrays_are_those_of_the_file(tmp_path, form, target):
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=form) as file:
        for dim, size in (("y", 100), ("x", 50), ("n", 8), ("none", 0 if form == "NETCDF4" else 1)):
            file.createDimension(dim, size)
        for dtype, fill in KINDS.items():
            if form != "NETCDF4" and dtype in ("u4", "i8", "u8"):
                continue
            chunks = {"zlib": True, "chunksizes": (50, 50)} if form == "NETCDF4" else {}
            made = file.createVariable(dtype, dtype, ("y", "x"), fill_value=fill, **chunks)
            made.set_auto_maskandscale(False)
            values = np.random.default_rng(0).integers(0, 100, (100, 50)).astype(dtype)
            values[3, 4] = values[3, 4] if fill is None else fill
            made[:] = values
        file.createVariable("scalar", "f8", ())[...] = 3.5
        file.createVariable("letters", "S1", ("n",))[:] = np.array(list("station "), "S1")
        if form == "NETCDF4":
            file.createVariable("text", str, ("x",))[:] = np.array([f"ä{k}" for k in range(50)], object)
            file.createVariable("empty", "f4", ("none", "x"))
    exported(tmp_path / "a.nc", target)
    found, own = opened(tmp_path / target), xr.open_dataset(tmp_path / "a.nc")
    assert set(found.variables) == set(own.variables)
    for name in own.variables:
        if name == "text":
            assert found[name].values.tolist() == own[name].values.tolist()
        else:
            np.testing.assert_array_equal(found[name].values, own[name].values)
            assert found[name].dtype == own[name].dtype


@pytest.mark.parametrize("name", ["a.json", "a.icechunk"])
@pytest.mark.parametrize("fill", [None, b"-"])
def test_characters_are_referred_to_and_those_never_written_are_what_netcdf_says(
    tmp_path: Path, name: str, fill: bytes | None
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3000)
        file.createDimension("y", 4)
        made = file.createVariable("c", "S1", ("x", "y"), fill_value=fill, chunksizes=(1000, 4))
        made[:1000] = np.full((1000, 4), b"q")
    exported(tmp_path / "a.nc", name)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_mask(False)
        expected = file["c"][...]
    words = np.ascontiguousarray(expected).view("S4").ravel()  # xarray joins characters
    np.testing.assert_array_equal(opened(tmp_path / name).c.values, words)


@pytest.mark.parametrize("name", ["a.parquet", "a.icechunk"])
def test_a_consolidated_store_is_not_replaced_by_references(tmp_path: Path, name: str) -> None:
    if name == "a.icechunk":
        pytest.importorskip("icechunk", reason="icechunk is not installed")
    xr.Dataset({"v": ("x", [1.0])}).to_netcdf(tmp_path / "a.nc")
    xr.Dataset({"v": ("x", [2.0])}).to_zarr(tmp_path / name, zarr_format=2, consolidated=True)
    with pytest.raises(TargetError, match="neither an Icechunk repository nor references"):
        exported(tmp_path / "a.nc", name, overwrite=True)
    assert xr.open_zarr(tmp_path / name).v.values.tolist() == [2.0]


def test_a_directory_that_another_process_writes_meanwhile_stays(tmp_path: Path) -> None:
    def overtaken(folder: Path) -> tuple[str, ...]:
        (folder / ".zmetadata").touch()
        (tmp_path / "a.parquet" / "theirs").mkdir(parents=True)
        return ()

    with pytest.raises(TargetExistsError, match="exists; replace it with overwrite"):
        write_directory(str(tmp_path / "a.parquet"), overtaken, overwrite=False)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.parquet", "theirs"]


def test_the_report_on_references_without_any_says_that_the_values_are_inside(tmp_path: Path) -> None:
    xr.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
    made = cfagg.index(tmp_path / "a.nc", to="kerchunk", output=tmp_path / "a.json")
    assert str(made) == f"{tmp_path}/a.json: all values in the file itself, in kerchunk JSON"
