"""Whether an accumulation still belongs to its data: whatever is written, by whatever program, is noticed and named."""

from __future__ import annotations

import json
import os
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
import zarr

from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.freshness import changes, check, is_replaced, touched
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.ranges import Request, Runs
from cfagg.errors import StaleAccumulationWarning, StaleError
from cfagg.formats.zarr import open_array
from tests.accumulation.generated import generate
from tests.accumulation.reference import write_group, write_source
from tests.accumulation.test_group import DIMS, build, folder


def peer(store):
    return zarr.open_array(store / "tas", mode="r+")


def whole(group):
    """Return the question for everything."""
    return Request({a: Runs.whole(n) for a, n in enumerate(group.source.shape)}).resolve(group.source.shape)


def refused(group):
    """Return the text with which a group is refused."""
    with pytest.raises(StaleError) as caught:
        check(group, whole(group))
    assert f"cfagg accumulate {group.store} tas --refresh" in str(caught.value)
    return str(caught.value)


@pytest.fixture(params=[2, 3])
def store(tmp_path, request):
    build(tmp_path, zarr_format=request.param)
    return tmp_path


@pytest.fixture(params=["opened now", "asked often"])
def group(store, request):
    found = open_group(store, "tas")
    if request.param == "asked often":
        for _ in range(5):
            check(found, whole(found))
    return found


@pytest.mark.few(2)
def test_nothing_changed_is_fresh(group):
    check(group, whole(group))
    found = changes(group)
    assert not found
    assert found.written.shape == (0, 3)


def test_a_single_value_is_noticed_and_its_chunk_named(store, group):
    time.sleep(0.02)
    peer(store)[9, 4, 7] = 5
    assert "chunk (2, 1, 1): written at 20" in refused(group)
    assert changes(group).written.tolist() == [[2, 1, 1]]


def test_a_value_written_in_place_with_the_same_size_is_noticed(store, group):
    path = f"{group.source.folder}/{group.source.key((0, 0, 0))}"
    time.sleep(0.02)
    with open(path, "r+b") as file:  # noqa: PTH123
        first = file.read(1)
        file.seek(0)
        file.write(first)
    assert "chunk (0, 0, 0): written at" in refused(group)


def test_removed_and_made_chunks_are_told_apart(store, group):
    for index in ((0, 0, 0), (0, 0, 1)):
        os.remove(f"{group.source.folder}/{group.source.key(index)}")  # noqa: PTH107
    text = refused(group)
    assert "chunk (0, 0, 0): no longer stored" in text
    assert "chunk (0, 0, 1): no longer stored" in text


def test_an_array_that_grew_by_appending_is_named_with_its_sizes(store, group):
    peer(store).append(np.ones((2, 6, 8), "i2"))
    assert "'time' had size 20, now 22" in refused(group)
    found = changes(group)
    assert dict(found.grown) == {"time": (20, 22)}
    assert not found.other
    assert found.written.tolist() == []


def test_a_partial_last_chunk_that_append_filled_counts_as_written(tmp_path):
    raw = np.arange(10, dtype="f4")
    write_source(tmp_path, "tas", raw, ("time",), (4,))
    write_group(tmp_path, "tas", raw, ("time",), (4,), [("time",)])
    group = open_group(tmp_path, "tas")
    time.sleep(0.02)
    peer(tmp_path).append(np.ones(3, "f4"))
    assert changes(group).written.tolist() == [[2]]


def test_growth_through_xarray_is_named(tmp_path):
    raw = np.arange(8, dtype="f8")
    write_source(tmp_path, "tas", raw, ("time",), (4,))
    write_group(tmp_path, "tas", raw, ("time",), (4,), [("time",)])
    group = open_group(tmp_path, "tas")
    more = xr.Dataset({"tas": ("time", np.ones(4))}, {"time": np.arange(8.0, 12.0)})
    more.to_zarr(tmp_path, append_dim="time", consolidated=False)
    assert "'time' had size 8, now 12" in refused(group)


def test_a_smaller_array_is_more_than_growth(store, group):
    peer(store).resize((12, 6, 8))
    assert "'time' had size 20, now 12" in refused(group)
    assert changes(group).other


def test_an_array_rewritten_with_other_chunks_and_type_is_named(store, group):
    shutil.rmtree(store / "tas")
    data = np.ones((20, 6, 8), "f4")
    form = group.source.zarr_format
    write_source(store, "tas", data, DIMS, (5, 3, 8), zarr_format=form, coordinates=False)
    text = refused(group)
    assert "along 'time' chunks of 4, now chunks of 5" in text
    assert "along 'lon' chunks of 5, now chunks of 8" in text
    assert "type: int16, now float32" in text
    assert "'lat'" not in text


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("scale_factor", 0.5, "scale_factor: 1.0, now 0.5"),
        ("add_offset", 3, "add_offset: 0.0, now 3.0"),
        ("missing_value", -9, "missing values: -1, now -9, -1"),
        ("valid_max", 50, "valid_max: None, now 50"),
        ("_Unsigned", "true", "unsigned: False, now True"),
        ("scale_factor", "x", "scale_factor"),
    ],
)
def test_attributes_that_change_what_values_mean_are_named(store, group, name, value, said):
    peer(store).attrs[name] = value
    assert said in refused(group)
    with pytest.raises(StaleError):
        open_group(store, "tas")


@pytest.mark.few(2)
def test_attributes_that_mean_nothing_for_values_are_left_alone(store, group):
    peer(store).attrs["history"] = "renamed"
    check(group, whole(group))
    again = open_group(store, "tas")
    check(again, whole(group))
    assert again.source.attributes["history"] == "renamed"


def test_other_dimensions_are_named(tmp_path):
    build(tmp_path, zarr_format=2)
    group = open_group(tmp_path, "tas")
    peer(tmp_path).attrs["_ARRAY_DIMENSIONS"] = ["time", "y", "x"]
    assert "dimensions: ['time', 'lat', 'lon'], now ['time', 'y', 'x']" in refused(group)
    with pytest.raises(StaleError):
        open_group(tmp_path, "tas")


def test_an_array_that_is_gone_is_stale(store, group):
    shutil.rmtree(store / "tas")
    assert "no Zarr array 'tas'" in refused(group)


def test_metadata_in_the_middle_of_being_written_are_stale(store, group):
    name = "zarr.json" if group.source.zarr_format == 3 else ".zarray"
    (store / "tas" / name).write_text('{"shape": [2')
    assert "is not JSON" in refused(group)


@pytest.mark.few(1)
def test_an_exchanged_group_is_to_be_opened_again(store, group):
    assert not is_replaced(group)
    shutil.copytree(folder(store), store / "copy")
    shutil.rmtree(folder(store))
    (store / "copy").rename(folder(store))
    assert is_replaced(group)
    with pytest.raises(StaleError, match="open it again"):
        check(group, whole(group))
    check(open_group(store, "tas"), whole(group))


def test_a_removed_group_is_noticed(store, group):
    shutil.rmtree(folder(store))
    with pytest.raises(StaleError, match="removed since it was opened"):
        check(group)


@pytest.mark.few(1)
def test_many_written_chunks_are_counted(store, group):
    time.sleep(0.02)
    peer(store)[...] = 3
    text = refused(group)
    assert "chunk (0, 0, 0)" in text
    assert "5 more chunks were written" in text
    assert len(changes(group).written) == 20


def test_shards_are_named_as_shards(tmp_path):
    raw = np.arange(16, dtype="i4")
    zarr.create_group(tmp_path)
    made = zarr.create_array(tmp_path, name="tas", shape=(16,), chunks=(2,), shards=(8,), dtype="i4", fill_value=-1,
                             dimension_names=["t"])  # fmt: skip
    made[...] = raw
    write_group(tmp_path, "tas", raw, ("t",), (2,), [("t",)])
    group = open_group(tmp_path, "tas")
    check(group, whole(group))
    time.sleep(0.02)
    peer(tmp_path)[15] = 0
    assert "shard (1,): written at" in refused(group)
    peer(tmp_path).append(np.ones(9, "i4"))
    assert changes(group).written.tolist() == [[1]]


def test_consolidated_metadata_that_are_older_do_not_hide_a_change(tmp_path):
    build(tmp_path, zarr_format=2)
    zarr.consolidate_metadata(tmp_path, zarr_format=2)
    group = open_group(tmp_path, "tas")
    peer(tmp_path).resize((24, 6, 8))
    assert "now 24" in refused(group)


def test_a_chunk_outside_the_range_that_was_read_to_take_its_cells_off_is_looked_at(tmp_path):
    raw = np.arange(32, dtype="f8")
    write_source(tmp_path, "tas", raw, ("time",), (2,), coordinates=False)
    write_group(tmp_path, "tas", raw, ("time",), (2,), [("time",)], stride={"time": 4})
    acc = open_accumulated(tmp_path, "tas")
    assert acc.sum(isel={"time": slice(0, 6)}) == raw[:6].sum()
    time.sleep(0.02)
    peer(tmp_path)[7] = 1e6
    with pytest.raises(StaleError, match=r"chunk \(3,\): written at"):
        acc.sum(isel={"time": slice(0, 6)})
    # What reads no cell of it does not depend on it.
    assert acc.sum(isel={"time": slice(8, 32)}) == raw[8:].sum()


@pytest.fixture
def others(tmp_path):
    """The group of another writer, and the place of its array."""
    generate(tmp_path / "s.zarr", np.random.default_rng(0).random((16, 12, 40)).astype("f4"), (4, 6, 5))
    with pytest.warns(StaleAccumulationWarning):
        return open_group(tmp_path / "s.zarr", "variable"), tmp_path / "s.zarr" / "variable"


def test_a_group_of_another_writer_is_fresh_while_the_array_is_described_as_before(others):
    group, place = others
    check(group, whole(group))
    zarr.open_array(place, mode="r+").attrs["history"] = "renamed"
    check(group, whole(group))
    found = changes(group)
    assert not found
    assert (found.other, dict(found.grown), found.related) == (False, {}, ())
    # Of values nothing is known.
    assert found.written is None


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("shape", lambda d: d.update(shape=[16, 12, 45]), "shape: 'time' had size 40, now 45"),
        ("type", lambda d: d.update(dtype="<f8"), "type: float32, now float64"),
        ("chunks", lambda d: d.update(chunks=[4, 6, 10]), "along 'time' chunks of 5, now chunks of 10"),
        ("missing values", lambda d: d.update(fill_value=0.5), "missing values: "),
        ("order", lambda d: d.update(order="F"), "order: '\"C\"', now '\"F\"'"),
    ],
)
def test_a_group_of_another_writer_is_stale_once_the_array_is_described_otherwise(others, name, change, said):
    group, place = others
    document = json.loads((place / ".zarray").read_text())
    change(document)
    (place / ".zarray").write_text(json.dumps(document))
    with pytest.raises(StaleError) as caught:
        check(group, whole(group))
    assert said in str(caught.value)
    assert f"replace it with: cfagg accumulate {group.store} variable --overwrite\n" in str(caught.value)
    found = changes(group)
    assert found.problems[0].where == name
    assert (found.other, found.written) == (True, None)


@pytest.mark.parametrize(("name", "value"), [("scale_factor", 0.5), ("add_offset", 2.0), ("valid_max", 0.5)])
def test_a_group_of_another_writer_is_stale_once_stored_values_mean_something_else(others, name, value):
    group, place = others
    zarr.open_array(place, mode="r+").attrs[name] = value
    with pytest.raises(StaleError, match=f"{name}: .*, now {value}"):
        check(group, whole(group))
    assert changes(group).other


def test_a_group_of_another_writer_is_stale_once_the_array_cannot_be_read(others):
    group, place = others
    (place / ".zarray").write_text("{")
    with pytest.raises(StaleError, match="is not JSON"):
        check(group)
    found = changes(group)
    assert [p.where for p in found.problems] == ["array"]
    assert (found.other, found.written) == (True, None)


def test_an_answer_depends_on_objects_of_its_ranges_and_on_those_that_were_read(tmp_path):
    zarr.create_array(tmp_path, name="x", shape=(20, 6), chunks=(4, 3), dtype="f4")
    request = Request({0: Runs([5], [9], [0])}, {1: np.array([4])})
    assert touched(open_array(tmp_path, "x"), request, {(4, 1)}).tolist() == [3, 5, 9]


def test_an_answer_of_several_ranges_depends_on_the_objects_of_each(tmp_path):
    zarr.create_array(tmp_path, name="x", shape=(20,), chunks=(2,), dtype="f4")
    request = Request({0: Runs([1, 5, 13], [3, 10, 14], [0, 0, 0])}, {})
    assert touched(open_array(tmp_path, "x"), request, ()).tolist() == [0, 1, 2, 3, 4, 6]


def test_objects_are_trusted_no_longer_than_was_asked_for(store, monkeypatch):
    group, now = open_group(store, "tas"), [1000.0]
    monkeypatch.setattr("cfagg.accumulation.freshness.time", SimpleNamespace(monotonic=lambda: now[0]))
    check(group, whole(group), trust_for=10)
    time.sleep(0.02)
    peer(store)[9, 4, 7] = 5
    now[0] += 9.9
    check(group, whole(group), trust_for=10)
    now[0] += 0.1
    with pytest.raises(StaleError, match=r"chunk \(2, 1, 1\)"):
        check(group, whole(group), trust_for=10)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize(("name", "value"), [("scale_factor", 2.0), ("missing_value", 7)])
@pytest.mark.filterwarnings("ignore")  # several fill values, and consolidated metadata of version 3
def test_values_that_mean_something_else_are_refused_until_xarray_reads_them_so_too(
    tmp_path, zarr_format, consolidated, name, value
):
    data = np.arange(24, dtype="i2").reshape(6, 4) + 1
    packed = xr.Dataset({"tas": (("time", "x"), data, {"scale_factor": 0.5})})
    packed.to_zarr(tmp_path, zarr_format=zarr_format, consolidated=consolidated)
    accumulate(tmp_path, "tas")
    assert open_accumulated(tmp_path, "tas").sum(("time", "x")) == 0.5 * data.sum()
    zarr.open_group(tmp_path, mode="r+", use_consolidated=False)["tas"].attrs[name] = value
    with pytest.raises(StaleError):
        open_accumulated(tmp_path, "tas")
    if consolidated:
        for options in ({"refresh": True}, {"overwrite": True}):
            with pytest.raises(StaleError, match=r"zarr.consolidate_metadata\('"):
                accumulate(tmp_path, "tas", **options)
        zarr.consolidate_metadata(tmp_path)
    accumulate(tmp_path, "tas", refresh=True)
    found = open_accumulated(tmp_path, "tas").sum(("time", "x"))
    np.testing.assert_allclose(found, xr.open_zarr(tmp_path).tas.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "changed",
    [
        {"zarr_format": 2, "dtype": ">i2"}, {"zarr_format": 3, "fill_value": 9}, {"zarr_format": 2, "order": "F"},
        {"zarr_format": 3, "filters": [zarr.codecs.TransposeCodec(order=(1, 0))]}, {"zarr_format": 2, "chunks": (4, 2)},
        {"zarr_format": 3, "chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"zarr_format": 3, "serializer": zarr.codecs.BytesCodec(endian="big")},
    ],
    ids=lambda changed: " ".join(map(str, changed)),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # consolidated metadata of version 3
def test_an_array_that_was_made_anew_is_refused_until_xarray_reads_it_so_too(tmp_path, changed):
    zarr_format = changed["zarr_format"]
    names = ["time", "x"]
    dims = {"dimension_names": names} if zarr_format == 3 else {"attributes": {"_ARRAY_DIMENSIONS": names}}
    how = {"shape": (8, 4), "chunks": (2, 4), "dtype": "<i2", "fill_value": -1, "compressors": None, **dims}
    group = zarr.create_group(tmp_path, zarr_format=zarr_format).create_group("g")
    data = np.arange(32, dtype="i2").reshape(8, 4)
    group.create_array("tas", **how)[:] = data
    zarr.consolidate_metadata(tmp_path, path="g")
    changed = {k: v for k, v in changed.items() if k != "zarr_format"}
    group.create_array("tas", overwrite=True, **{**how, **changed})[:4] = data[:4]
    with pytest.raises(StaleError, match=r"zarr.consolidate_metadata\('"):
        accumulate(tmp_path, "g/tas", weights=None)
    zarr.consolidate_metadata(tmp_path, path="g")
    accumulate(tmp_path, "g/tas", weights=None)
    found = open_accumulated(tmp_path, "g/tas").sum(("time", "x"))
    np.testing.assert_allclose(found, xr.open_zarr(tmp_path / "g").tas.sum(), rtol=1e-12)
