"""Zarr stores as sources of a conversion; zarr-python and xarray say what is in both stores."""

from __future__ import annotations

import json
import os
import tempfile

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg import convert, read
from cfagg.arrays import zarr_source
from cfagg.errors import AccessError, CfaggError, LossError, TargetError, UnreadableAggregationError, UnsupportedError
from tests.effort import examples


def make(path, data, *, zarr_format=3, name="tas", dims=("time", "lat"), **more):
    """Write a store with one array and return its path."""
    attributes = more.pop("attributes", {"units": "K", "list": [1], "nested": {"a": [1, None]}})
    if zarr_format == 2:
        attributes = {**attributes, "_ARRAY_DIMENSIONS": list(dims[: data.ndim])}
    else:
        more["dimension_names"] = dims[: data.ndim]
    root = zarr.open_group(path, mode="w", zarr_format=zarr_format, attributes={"title": "a store", "version": [2]})
    made = root.create_array(name, shape=data.shape, dtype=data.dtype, attributes=attributes, **more)
    made[...] = data
    return path


@settings(max_examples=examples(25))
@given(
    st.sampled_from(["i1", "u2", "i4", "u8", "f2", "f4", "f8", "?"]),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.booleans(),
    st.sampled_from([2, 3]),
    st.sampled_from([2, 3]),
    st.integers(0, 2**32 - 1),
)
def test_values_type_and_dimension_names_are_those_of_the_source(dtype, shape, chunks, sharded, before, after, seed):
    data = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    more = {"chunks": chunks}
    if sharded and before == 3:
        more["shards"] = tuple(2 * c for c in chunks)
    with tempfile.TemporaryDirectory() as folder:
        source = make(f"{folder}/a.zarr", data, zarr_format=before, fill_value=1, **more)
        convert(source, f"{folder}/b.zarr", zarr_format=after)
        found = zarr.open_group(f"{folder}/b.zarr", mode="r")["tas"]
        assert found.dtype == data.dtype
        np.testing.assert_array_equal(found[...], zarr.open_group(source, mode="r")["tas"][...])
        names = found.metadata.dimension_names if after == 3 else found.attrs["_ARRAY_DIMENSIONS"]
        assert tuple(names) == ("time", "lat")


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize("before", [2, 3])
def test_attributes_of_groups_and_arrays_are_kept_as_written(tmp_path, before, after):
    source = make(str(tmp_path / "a.zarr"), np.zeros((2, 2), "f4"), zarr_format=before)
    convert(source, tmp_path / "b.zarr", zarr_format=after)
    found = zarr.open_group(str(tmp_path / "b.zarr"), mode="r")
    assert dict(found.attrs) == {"title": "a store", "version": [2]}
    kept = {k: v for k, v in found["tas"].attrs.items() if k not in ("_ARRAY_DIMENSIONS", "_FillValue")}
    assert kept == {"units": "K", "list": [1], "nested": {"a": [1, None]}}


def test_chunks_that_are_not_stored_are_the_fill_value_which_is_kept(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    made = root.create_array("x", shape=(6,), chunks=(2,), dtype="i2", fill_value=7, dimension_names=("x",))
    made[:2] = [1, 2]
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    found = zarr.open_group(str(tmp_path / "b.zarr"), mode="r")["x"]
    assert found[:].tolist() == [1, 2, 7, 7, 7, 7]
    assert found.fill_value == 7
    assert "_FillValue" not in found.attrs


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize("before", [2, 3])
def test_xarray_masks_the_same_elements_of_both_stores(tmp_path, before, after):
    ds = xr.Dataset(
        {"a": ("x", [1.0, np.nan, 3.0]), "b": ("x", [1.5, np.nan, 2.5])}, {"x": [10, 20, 30]}, {"Conventions": "CF-1.8"}
    )
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -9}
    ds.to_zarr(tmp_path / "a.zarr", encoding={"b": packed}, zarr_format=before)
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=after)
    first, second = (xr.open_dataset(tmp_path / n, engine="zarr") for n in ("a.zarr", "b.zarr"))
    xr.testing.assert_identical(first, second)


def test_groups_and_strings_are_converted(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    names = root.create_group("ocean").create_array("name", shape=(2,), dtype=str, dimension_names=("s",))
    names[:] = np.array(["Bergen", "Kiel"], dtype=object)
    convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert zarr.open_group(str(tmp_path / "b.zarr"), mode="r")["ocean/name"][:].tolist() == ["Bergen", "Kiel"]


def test_types_without_a_place_in_netcdf_are_refused_by_name(tmp_path):
    source = make(str(tmp_path / "a.zarr"), np.zeros((2, 2), "c16"), fill_value=0)
    with pytest.raises(CfaggError, match="complex128"):
        convert(source, tmp_path / "b.zarr")


@pytest.mark.parametrize("target", ["a.nc", "a.zarr", "a.nca"])
@pytest.mark.parametrize(
    ("values", "name"),
    [
        (np.arange(2, dtype="longdouble"), np.dtype("longdouble").name),
        (np.zeros(2, "i4, f8"), r"compound \(f0: int32, f1: float64\)"),
        (np.array([np.arange(2), np.arange(3)], object), "lists of int32"),
    ],
)
def test_types_that_only_hdf5_has_are_refused_by_name_for_every_target(tmp_path, values, name, target):
    if values.dtype == "f8":
        pytest.skip("long reals are double ones here")
    with h5py.File(tmp_path / "source.nc", "w") as file:
        lists = h5py.vlen_dtype("i4") if values.dtype.kind == "O" else values.dtype
        file.create_dataset("v", data=values, dtype=lists)
        file.create_dataset("t", data=[1.0, 2.0])
    why = "cannot be written" if target == "a.nca" else f"values of type {name} are not converted"
    with pytest.raises(CfaggError, match=f"variable 'v'.*{why}"):
        convert(tmp_path / "source.nc", tmp_path / target)
    assert [p.name for p in tmp_path.iterdir()] == ["source.nc"]
    report = convert(tmp_path / "source.nc", tmp_path / target, on_loss="drop")
    assert [(loss.variable, loss.found) for loss in report.losses] == [("v", "it is left out")]
    assert list(read(tmp_path / target).data_vars) == ["t"]


def test_names_that_a_store_cannot_have_are_refused_or_left_out(tmp_path):
    with h5py.File(tmp_path / "source.nc", "w") as file:
        for path in ("zarr.json", "t", "a\\b/t", "g/t"):
            file[path] = [1.0, 2.0]
    with pytest.raises(UnsupportedError, match=r"the name 'zarr.json' cannot be used .*on_loss='drop'"):
        convert(tmp_path / "source.nc", tmp_path / "a.zarr")
    report = convert(tmp_path / "source.nc", tmp_path / "a.zarr", on_loss="drop")
    assert [loss.variable for loss in report.losses] == ["a\\b/t", "zarr.json"]
    assert report.variables == ("t", "g/t")


def test_an_aggregation_in_a_store_is_refused(tmp_path):
    marked = {"aggregated_dimensions": "time", "aggregated_data": "location: l"}
    source = make(str(tmp_path / "a.zarr"), np.zeros((), "f4"), attributes=marked)
    with pytest.raises(UnreadableAggregationError, match="aggregated_dimensions"):
        convert(source, tmp_path / "b.zarr")


def test_a_damaged_chunk_stops_the_conversion_and_leaves_no_target(tmp_path):
    source = make(str(tmp_path / "a.zarr"), np.ones((2, 2), "f4"))
    chunk = tmp_path / "a.zarr" / "tas" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-4])
    with pytest.raises(CfaggError, match="chunk"):
        convert(source, tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


def test_a_link_out_of_the_store_is_refused_unless_it_is_allowed(tmp_path):
    source = make(str(tmp_path / "a.zarr"), np.ones((2, 2), "f4"))
    chunk = tmp_path / "a.zarr" / "tas" / "c" / "0" / "0"
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    chunk.rename(outside / "chunk")
    chunk.symlink_to(outside / "chunk")
    with pytest.raises(AccessError, match="elsewhere"):
        convert(source, tmp_path / "b.zarr")
    convert(source, tmp_path / "b.zarr", allow=[outside])
    assert zarr.open_group(str(tmp_path / "b.zarr"), mode="r")["tas"][...].tolist() == [[1, 1], [1, 1]]


def test_a_target_within_the_source_is_refused(tmp_path):
    source = make(str(tmp_path / "a.zarr"), np.ones((2, 2), "f4"))
    with pytest.raises(TargetError, match="lies within"):
        convert(source, f"{source}/b.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [True, False])
def test_arrays_below_directories_that_say_nothing_are_converted(tmp_path, zarr_format, consolidated):
    root = zarr.open_group(tmp_path / "plate.zarr", mode="w", zarr_format=zarr_format)
    for row in "AB":
        root.create_group(f"{row}/1/0").create_array("0", data=np.arange(4) + ord(row), chunks=(2,))
    (tmp_path / "plate.zarr" / "empty" / "folder").mkdir(parents=True)
    if consolidated:
        zarr.consolidate_metadata(tmp_path / "plate.zarr")
    for folder in ("A", "A/1", "B", "B/1"):
        for name in ("zarr.json", ".zgroup", ".zattrs"):
            (tmp_path / "plate.zarr" / folder / name).unlink(missing_ok=True)
    report = convert(tmp_path / "plate.zarr", tmp_path / "out.zarr")
    assert report.variables == ("A/1/0/0", "B/1/0/0")
    out = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert sorted(out.group_keys()) == ["A", "B"]
    for row in "AB":
        assert out[f"{row}/1/0/0"][:].tolist() == (np.arange(4) + ord(row)).tolist()


def test_a_file_that_another_process_removes_meanwhile_is_no_matter(tmp_path, monkeypatch):
    values = np.arange(6.0).reshape(2, 3)
    store = make(tmp_path / "a.zarr", values)
    part = store / "tas" / ".part"
    part.touch()
    stat = os.stat

    def late(path, **how):
        if path == str(part):
            part.unlink()
        return stat(path, **how)

    monkeypatch.setattr(zarr_source.os, "stat", late)
    convert(store, tmp_path / "b.zarr")
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "b.zarr", mode="r")["tas"][:], values)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_with_damaged_metadata_is_refused_but_for_other_variables_or_as_a_loss(tmp_path, zarr_format):
    path = make(tmp_path / "a.zarr", np.arange(1.0, 7.0), zarr_format=zarr_format)
    zarr.open_group(path).create_array("broken", data=np.arange(6.0))
    (path / "broken" / (".zarray" if zarr_format == 2 else "zarr.json")).write_text("{")
    with pytest.raises(UnreadableAggregationError, match=r"broken/.*is not JSON.*variables=\["):
        convert(path, tmp_path / "b.zarr")
    assert convert(path, tmp_path / "b.zarr", variables=["tas"]).losses == ()
    (loss,) = convert(path, tmp_path / "c.zarr", on_loss="drop").losses
    assert loss.variable == "broken"
    assert (
        read(tmp_path / "c.zarr").tas.values.tolist() == read(tmp_path / "b.zarr").tas.values.tolist() == [*range(1, 7)]
    )


def test_a_fill_value_without_characters_does_not_come_back_from_version_3_as_a_note_says(tmp_path):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as nc:
        nc.createDimension("x", 2)
        for name, fill in (("null", b"\0"), ("dash", b"-")):
            nc.createVariable(name, "S1", ("x",), fill_value=fill)[:] = np.array([b"a", b"b"])
    notes = {form: convert(tmp_path / "a.nc", tmp_path / f"{form}.zarr", zarr_format=form).notes for form in (2, 3)}
    assert [n for n in notes[2] if "fill value" in n] == []
    assert [n.split(")")[0] for n in notes[3] if "fill value" in n] == [
        "fill values of text (dash",
        "fill values that are empty or a null character (null",
    ]
    for form, known in ((2, ["null", "dash"]), (3, ["dash"])):
        convert(tmp_path / f"{form}.zarr", tmp_path / f"{form}.nc")
        with netCDF4.Dataset(tmp_path / f"{form}.nc") as nc:
            assert [name for name in ("null", "dash") if "_FillValue" in nc[name].ncattrs()] == known


@pytest.mark.parametrize(
    "more",
    [
        {"compressor": {"id": "example.org/unknown"}},
        {"dtype": "|O", "filters": [{"id": "json2"}], "fill_value": None},
        {"dtype": "|O", "filters": [{"id": "pickle"}], "fill_value": None},
    ],
)
@pytest.mark.parametrize("target", ["b.zarr", "b.nc"])
def test_an_array_that_zarr_python_cannot_open_is_refused_before_anything_is_written_or_is_a_loss(
    tmp_path, more, target
):
    path = make(tmp_path / "a.zarr", np.arange(1.0, 7.0), zarr_format=2)
    zarr.open_group(path).create_array("odd", data=np.arange(6.0), attributes={"_ARRAY_DIMENSIONS": ["time"]})
    document = json.loads((path / "odd/.zarray").read_text())
    (path / "odd/.zarray").write_text(json.dumps({**document, **more}))
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match=r"'odd'.*on_loss='drop'"):
            convert(path, tmp_path / target, dry_run=dry_run)
    report = convert(path, tmp_path / target, on_loss="drop")
    assert ("odd", "the variable") in {(loss.variable, loss.what) for loss in report.losses}
    assert read(tmp_path / target).tas.values.tolist() == [*range(1, 7)]


@pytest.mark.parametrize("to", ["NCA-0.1", "CF-1.13"])
def test_an_array_with_an_unknown_codec_is_a_loss_in_an_aggregation_file(tmp_path, to):
    path = make(tmp_path / "a.zarr", np.arange(6.0), attributes={})
    zarr.open_group(path).create_array("odd", data=np.arange(6.0), dimension_names=["time"])
    document = json.loads((path / "odd/zarr.json").read_text())
    document["codecs"].append({"name": "example.org/unknown", "configuration": {}})
    (path / "odd/zarr.json").write_text(json.dumps(document))
    with pytest.raises(LossError, match=r"on_loss='drop'[^\n]*\n.*'odd'.*codec"):
        convert(path, tmp_path / "b.nc", to=to)
    report = convert(path, tmp_path / "b.nc", to=to, on_loss="drop")
    assert ("odd", "the variable") in {(loss.variable, loss.what) for loss in report.losses}
    assert read(tmp_path / "b.nc").tas.values.tolist() == [*range(6)]
