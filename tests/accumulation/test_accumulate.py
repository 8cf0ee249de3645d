"""What `accumulate` builds of stores of all kinds, what it reports, and what it refuses."""

import importlib
import json
import math
import os
import warnings

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation import freshness, partials
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.errors import (
    ConformError,
    FragmentReadError,
    LimitError,
    SelectionError,
    SourceError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.formats.zarr import checksum
from tests.accumulation import comparing, reference

DIMS = ("time", "lat", "lon")
CHUNKS = (4, 3, 5)
PAIRS = [("time",), ("lat",), ("lon",), ("lat", "lon")]


def field(shape=(14, 7, 9), dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(280, 20, size=shape).astype(dtype)


def sums(store, dims, name="tas"):
    return read_whole(open_group(store, name).sums[dims].data)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.zarr"
    reference.write_source(path, "tas", field(), DIMS, CHUNKS)
    return path


# ---- what is built ---------------------------------------------------------------------------------------------


def test_every_dimension_and_the_horizontal_pair_are_accumulated_by_default(store):
    assert set(open_keys(accumulate(store, "tas"), store)) == {("time",), ("lat",), ("lon",)}
    for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
        zarr.open_array(store / name, mode="r+").attrs["units"] = units
    accumulate(store, "tas", overwrite=True)
    assert set(open_group(store, "tas").sums) == set(PAIRS)


def open_keys(report, store):
    assert report.action == "built"
    return open_group(store, "tas").sums


def test_one_dimension_may_be_named_alone_and_combinations_in_any_order(store):
    accumulate(store, "tas", "time")
    assert set(open_group(store, "tas").sums) == {("time",)}
    accumulate(store, "tas", [("lon", "lat"), "time", ("lat", "lon")], overwrite=True)
    assert set(open_group(store, "tas").sums) == {("time",), ("lat", "lon")}


@pytest.mark.few(1)
@pytest.mark.parametrize("codec", ["blosc", "zstd", "gzip", "none", None])
@pytest.mark.parametrize("form", [2, 3])
def test_every_codec_and_format_is_read_by_zarr_python(tmp_path, codec, form):
    # The fill value of Zarr v2 means missing.
    source, fills = {"zarr_format": form, "fill_value": -1.0}, [-1.0] if form == 2 else []
    expected = comparing.expect(tmp_path / "e.zarr", field(), DIMS, CHUNKS, PAIRS, source, fills=fills)
    built = tmp_path / "b.zarr"
    reference.write_source(built, "tas", field(), DIMS, CHUNKS, **source)
    accumulate(built, "tas", PAIRS, codec=codec)
    comparing.assert_same(built, expected, "tas", scale=300 * field().size)


def test_chunks_of_larger_sums_are_one_sample_and_a_mebibyte_at_most(tmp_path):
    raw = field((6, 300, 700))
    reference.write_source(tmp_path / "a.zarr", "tas", raw, DIMS, (2, 100, 175))
    accumulate(tmp_path / "a.zarr", "tas", PAIRS)
    group = zarr.open_group(tmp_path / "a.zarr", mode="r", path="tas_accumulation_group")
    assert group["acc_time"].chunks == (1, 100, 700)
    assert max(math.prod(a.chunks) * a.dtype.itemsize for _, a in group.arrays()) <= 1 << 20
    np.testing.assert_allclose(group["acc_time"][2], raw.sum(0, "f8"), rtol=1e-12)


def test_absent_chunks_hold_the_fill_value(tmp_path):
    for name, fill, attributes in (("zero", 0.0, {}), ("seven", 7.0, {}), ("missing", 7.0, {"missing_value": 7.0})):
        store = tmp_path / f"{name}.zarr"
        raw = np.full((8, 6), fill, "f4")
        raw[:4, :3] = 2
        reference.write_source(store, "tas", raw, ("time", "x"), (4, 3), fill_value=fill, attributes=attributes)
        for key in ("c/0/1", "c/1/0"):
            (store / "tas" / key).unlink()
        accumulate(store, "tas", ["time"])
        group = open_group(store, "tas")
        whole = np.where(raw == 7, 0, raw) if attributes else raw
        np.testing.assert_array_equal(read_whole(group.sums["time",].data)[-1], whole.sum(0))
        assert group.extra.excluded.missing == (int((raw == 7).sum()) if attributes else 0)
        freshness.check(group)


def test_shards_and_transposed_and_swapped_chunks(tmp_path):
    raw = field((12, 6, 8))
    kinds = {
        "shards": {"shards": (8, 6, 4), "chunks": (4, 3, 2)},
        "order": {"chunks": (4, 3, 5), "filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))]},
        "swapped": {"chunks": (4, 3, 5), "serializer": zarr.codecs.BytesCodec(endian="big")},
    }
    for name, options in kinds.items():
        store = tmp_path / f"{name}.zarr"
        group = zarr.open_group(store, mode="w")
        group.create_array("tas", shape=raw.shape, dtype="f4", dimension_names=DIMS, **options)[:] = raw
        accumulate(store, "tas", PAIRS)
        np.testing.assert_allclose(sums(store, ("time",))[-1], raw.sum(0, "f8"), rtol=1e-12)
        np.testing.assert_allclose(sums(store, ("lat", "lon"))[:, -1, -1], raw.sum((1, 2), "f8"), rtol=1e-12)
        freshness.check(open_group(store, "tas"))
        group["tas"].resize((14, 6, 8))
        group["tas"][12:] = 1.0
        assert accumulate(store, "tas", append=True).action == "appended"
        np.testing.assert_allclose(sums(store, ("time",))[-1], raw.sum(0, "f8") + 2, rtol=1e-12)


def test_unsigned_values_in_a_signed_type(tmp_path):
    raw = np.arange(-60, 60, dtype="i1").reshape(12, 10)
    attributes = {"_Unsigned": "true", "missing_value": -1}
    reference.write_source(tmp_path / "a.zarr", "tas", raw, ("time", "x"), (5, 4), attributes=attributes)
    accumulate(tmp_path / "a.zarr", "tas", ["time"], statistics=("min", "max"))
    group = open_group(tmp_path / "a.zarr", "tas")
    meant = raw.view("u1").astype("i8")
    meant[meant == 255] = 0
    np.testing.assert_array_equal(read_whole(group.sums["time",].data)[-1], meant.sum(0))
    low, high = (read_whole(group.statistics["time",][0].arrays[k]) for k in ("min", "max"))
    assert (low.min(), high.max()) == (0, 254)


def test_double_double_keeps_what_one_number_cannot_hold(tmp_path):
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(600, 4)) * 10.0 ** rng.integers(-12, 12, (600, 4))
    reference.write_source(tmp_path / "a.zarr", "tas", raw, ("time", "x"), (7, 3))
    accumulate(tmp_path / "a.zarr", "tas", ["time", ("time", "x")], precision="double-double", stride=4)
    group = open_group(tmp_path / "a.zarr", "tas")
    assert group.kind == "double-double"
    for dims in (("time",), ("time", "x")):
        arrays = group.sums[dims]
        high, low = read_whole(arrays.data), read_whole(arrays.low["data"])
        for k, stop in enumerate(group.samples[dims][0]):
            for x in range(high.shape[1]):
                width = x + 1 if dims == ("time",) else group.samples[dims][1][x]
                part = raw[:stop, x] if dims == ("time",) else raw[:stop, :width]
                exact = math.fsum([*part.ravel(), -high[k, x], -low[k, x]])
                assert abs(exact) <= 1e-27 * np.abs(part).sum()


def test_double_double_goes_on_when_appended_to(tmp_path):
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(90, 4)) * 10.0 ** rng.integers(-12, 12, (90, 4))
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw[:40], ("time", "x"), (7, 3))
    accumulate(store, "tas", ["time"], precision="double-double")
    array = zarr.open_array(store / "tas", mode="r+")
    array.resize(raw.shape)
    array[40:] = raw[40:]
    accumulate(store, "tas", append=True)
    arrays = open_group(store, "tas").sums["time",]
    high, low = read_whole(arrays.data)[-1], read_whole(arrays.low["data"])[-1]
    for x in range(4):
        assert abs(math.fsum([*raw[:, x], -high[x], -low[x]])) <= 1e-27 * np.abs(raw[:, x]).sum()


def test_integers_beyond_64_bits_are_refused_and_summed_as_real_numbers_on_request(tmp_path):
    raw = np.full((6, 2), 2**62, "i8")
    reference.write_source(tmp_path / "a.zarr", "tas", raw, ("time", "x"), (1, 2))
    with pytest.raises(LimitError, match="precision='float64'"):
        accumulate(tmp_path / "a.zarr", "tas", ["time"])
    assert not (tmp_path / "a.zarr" / "tas_accumulation_group").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]
    accumulate(tmp_path / "a.zarr", "tas", ["time"], precision="float64")
    assert sums(tmp_path / "a.zarr", ("time",))[-1].tolist() == [6 * 2.0**62] * 2
    assert open_group(tmp_path / "a.zarr", "tas").kind == "float64"


def test_arrays_in_groups_are_listed_in_consolidated_metadata(tmp_path):
    store = tmp_path / "a.zarr"
    root = zarr.open_group(store, mode="w")
    reference.write_source(store / "ocean", "tas", field(), DIMS, CHUNKS)
    root.create_array("other", shape=(3,), dtype="f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store)
        accumulate(store, "ocean/tas", ["time"])
        listed = zarr.open_consolidated(store)
        assert listed["ocean/tas_accumulation_group/acc_time"].shape == (4, 7, 9)
        assert listed["other"].shape == (3,)
        accumulate(store, "ocean/tas", ["lat"], overwrite=True)
        listed = zarr.open_consolidated(store)
        assert "acc_lat" in listed["ocean/tas_accumulation_group"]
        assert "acc_time" not in listed["ocean/tas_accumulation_group"]
        for path in (store / "ocean/tas/c").rglob("*"):
            os.utime(path)
        accumulate(store, "ocean/tas", adopt=True)
        # Consolidating anew says the same.
        before = json.loads((store / "zarr.json").read_text())
        zarr.consolidate_metadata(store)
        after = json.loads((store / "zarr.json").read_text())
    held = [m["consolidated_metadata"]["metadata"] for m in (before, after)]
    assert held[0].keys() == held[1].keys()
    assert "ocean/tas_accumulation_group/chunk_stamps.2" in held[0]
    assert "ocean/tas_accumulation_group/chunk_stamps" not in held[0]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_consolidated_metadata_of_version_2_do_not_list_the_group(tmp_path):
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", field(), DIMS, CHUNKS, zarr_format=2)
    accumulate(store, "tas", ["time"])
    zarr.consolidate_metadata(store, zarr_format=2)
    before = json.loads((store / ".zmetadata").read_text())["metadata"]
    assert "tas_accumulation_group/acc_time/.zarray" in before
    accumulate(store, "tas", ["lat"], overwrite=True)
    after = json.loads((store / ".zmetadata").read_text())["metadata"]
    assert after == {k: v for k, v in before.items() if not k.startswith("tas_accumulation_group")}


def test_dimensions_whose_names_run_together_get_names_of_their_own(tmp_path):
    raw = field((4, 3, 2))
    reference.write_source(tmp_path / "a.zarr", "tas", raw, ("a_b", "c", "a/b"), (2, 2, 2), coordinates=False)
    accumulate(tmp_path / "a.zarr", "tas", ["a_b", "a/b", "c"])
    group = open_group(tmp_path / "a.zarr", "tas")
    np.testing.assert_allclose(read_whole(group.sums["a/b",].data)[..., -1], raw.sum(2, "f8"))
    np.testing.assert_allclose(read_whole(group.sums["a_b",].data)[-1], raw.sum(0, "f8"))


@pytest.mark.parametrize("form", [2, 3])
def test_a_backslash_which_zarr_python_takes_for_a_slash_gets_into_no_name_of_an_array(tmp_path, form):
    raw = field((4, 3))
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw, ("a\\b", "c"), (2, 2), coordinates=False, zarr_format=form)
    accumulate(store, "tas", ["a\\b"])
    group = zarr.open_group(store, mode="r")["tas_accumulation_group"]
    np.testing.assert_allclose(group["acc_a_b"][-1], raw.sum(0, "f8"))
    (store / "tas").rename(store / "t\\as")
    with pytest.raises(SourceError, match="cannot be a name"):
        accumulate(store, "t\\as", ["c"])


def test_an_array_without_elements(tmp_path):
    reference.write_source(tmp_path / "a.zarr", "tas", np.empty((0, 3), "f4"), ("time", "x"), (4, 2))
    accumulate(tmp_path / "a.zarr", "tas", ["time", "x"])
    group = open_group(tmp_path / "a.zarr", "tas")
    assert read_whole(group.sums["time",].data).shape == (0, 3)
    freshness.check(group)
    array = zarr.open_array(tmp_path / "a.zarr" / "tas", mode="r+")
    array.resize((5, 3))
    array[:] = 1
    accumulate(tmp_path / "a.zarr", "tas", refresh=True)
    assert sums(tmp_path / "a.zarr", ("time",)).tolist() == [[4] * 3, [5] * 3]


@pytest.mark.full
def test_small_blocks_of_sums_add_up_to_the_same(store, tmp_path, monkeypatch):
    from cfagg.accumulation import finish, summing

    expected = comparing.expect(tmp_path / "e.zarr", field(), DIMS, CHUNKS, [*PAIRS, DIMS], statistics=[*PAIRS, DIMS])
    monkeypatch.setattr(summing, "_BLOCK", 3)
    monkeypatch.setattr(finish, "_BLOCK", 3)
    accumulate(store, "tas", [*PAIRS, DIMS], statistics=("min", "max", "std"))
    comparing.assert_same(store, expected, "tas", scale=300 * field().size)


def test_small_chunks_of_sums_hold_the_same(store, tmp_path, monkeypatch):
    from cfagg.accumulation import layout

    combinations = [("time", "lon"), DIMS]
    expected = comparing.expect(
        tmp_path / "e.zarr", field(), DIMS, CHUNKS, combinations, statistics=combinations, stride={"time": 2}
    )
    for name, size in (("_CHUNK", 12), ("_SMALL", 6), ("_COLUMN", 24)):
        monkeypatch.setattr(layout, name, size)
    accumulate(store, "tas", combinations, statistics=("min", "max", "std"), stride={"time": 2})
    comparing.assert_same(store, expected, "tas", scale=300 * field().size)
    raw = np.concatenate([field(), field(seed=1)])
    array = zarr.open_array(store / "tas", mode="r+")
    array.resize(raw.shape)
    array[14:] = raw[14:]
    assert accumulate(store, "tas", append=True).action == "appended"
    again = comparing.expect(
        tmp_path / "f.zarr", raw, DIMS, CHUNKS, combinations, statistics=combinations, stride={"time": 2}
    )
    comparing.assert_same(store, again, "tas", scale=600 * field().size)


def test_each_chunk_is_read_once_whatever_the_combinations(store, monkeypatch):
    read = comparing.chunks_read(monkeypatch)
    accumulate(store, "tas", [*PAIRS, DIMS], workers=1)
    assert sorted(read) == sorted(np.ndindex(4, 3, 2))


@pytest.mark.parametrize("options", [{}, {"memory": 3 * 10 * 2 * 4 * 8}])
def test_chunks_of_one_shape_are_summed_together_as_far_as_they_fit(tmp_path, monkeypatch, options):
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", np.arange(7 * 103.0).reshape(7, 103), ("y", "x"), (2, 4), coordinates=False)
    calls = []
    real = partials.read_blocks

    def read_blocks(recipe, numbers, *more, **options):
        calls.append([recipe.window.shape(int(n)) for n in numbers])
        return real(recipe, numbers, *more, **options)

    monkeypatch.setattr(partials, "read_blocks", read_blocks)
    if not options:
        monkeypatch.setattr(partials, "_TOGETHER", 10 * 2 * 4 * 8)
    accumulate(store, "tas", ["y", "x"], workers=1, **options)
    assert sum(map(len, calls)) == 4 * 26
    assert all(len(set(shapes)) == 1 for shapes in calls)
    assert [len(shapes) for shapes in calls] == [1, 10, 10, 5, 3, *[10] * 7, 5]


@pytest.mark.parametrize("shards", [None, (10,)])
def test_checksums_of_all_objects_are_kept_whatever_reads_them(tmp_path, shards):
    importlib.import_module("cfagg.kernels.files")  # by which many files are read at once elsewhere
    store = tmp_path / "a.zarr"
    made = zarr.open_group(store, mode="w").create_array(
        "tas", shape=(160,), chunks=(1,), shards=shards, dtype="f4", dimension_names=["x"]
    )
    made[:] = np.arange(1, 161)
    accumulate(store, "tas", workers=1)
    count = 160 if shards is None else 16
    stored = [checksum((store / "tas" / "c" / str(i)).read_bytes()) for i in range(count)]
    assert open_group(store, "tas").objects[:count, 4].tolist() == stored


# ---- reports ---------------------------------------------------------------------------------------------------


def test_a_dry_run_reports_what_a_build_writes_and_writes_nothing(store):
    before = sorted(str(p) for p in store.parent.rglob("*"))
    planned = accumulate(store, "tas", PAIRS, dry_run=True)
    assert sorted(str(p) for p in store.parent.rglob("*")) == before
    done = accumulate(store, "tas", PAIRS)
    assert planned.action == "dry run"
    assert [(a.name, a.shape, a.chunks, a.bytes) for a in planned.arrays] == [
        (a.name, a.shape, a.chunks, a.bytes) for a in done.arrays
    ]
    assert planned.stored is None
    group = store / "tas_accumulation_group"
    files = [p for p in group.rglob("*") if p.is_file() and p.name != "zarr.json"]
    assert done.stored == sum(p.stat().st_size for p in files)
    assert "acc_lat_lon" in str(planned)
    assert "sums along lat and lon" in str(planned)
    assert json.loads(json.dumps(done.as_dict()))["chunks"] == 24


def test_a_build_says_in_one_line_what_stands_beside_the_sums_and_a_plan_all_of_it(store):
    names = [a.name for a in accumulate(store, "tas", PAIRS, dry_run=True).arrays]
    planned = str(accumulate(store, "tas", PAIRS, dry_run=True))
    built = str(accumulate(store, "tas", PAIRS))
    assert all(f"  {name} " in planned for name in names)
    sums = [name for name in names if name.startswith(("acc_", "cnt_"))]
    assert [name for name in names if f"  {name} " in built] == sums
    assert f"  {len(names) - len(sums)} more " in built


def test_a_dry_run_reads_no_chunk(store):
    for path in (store / "tas" / "c").rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    assert accumulate(store, "tas", PAIRS, dry_run=True).chunks == 24
    with pytest.raises(FragmentReadError, match=r"array 'tas', chunk \(\d, \d, \d\)"):
        accumulate(store, "tas", PAIRS)


def test_progress_counts_bytes_of_data(store):
    seen = []
    accumulate(store, "tas", progress=lambda done, total: seen.append((done, total)), workers=2)
    assert seen[0][0] == 0
    assert seen[-1] == (field().nbytes, field().nbytes)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dims": ["tim"]}, SelectionError, r"dims\[0\]: the array has no dimension 'tim', only time, lat, lon"),
        ({"dims": []}, SelectionError, "no combination"),
        ({"dims": [()]}, SelectionError, "an empty combination"),
        ({"dims": [("lat", "lat")]}, SelectionError, "'lat' occurs twice"),
        ({"dims": 5}, SelectionError, "not a list of combinations"),
        ({"dims": [5]}, SelectionError, "not a list of combinations"),
        ({"stride": 0}, LimitError, "0 is not at least 1"),
        ({"stride": -2}, LimitError, "-2 is not at least 1"),
        ({"stride": 1.5}, LimitError, "1.5 is not an integer"),
        ({"stride": True}, LimitError, "True is not an integer"),
        ({"stride": "2"}, LimitError, "'2' is not an integer"),
        ({"stride": {"time": 2, "level": 3}}, SelectionError, "'level'"),
        ({"dims": ["time"], "stride": {"lat": 2}}, SelectionError, "accumulated are time"),
        ({"statistics": "median"}, UnsupportedError, "statistics='median'"),
        ({"statistics": ("none", "min")}, UnsupportedError, "statistics"),
        ({"precision": "float32"}, UnsupportedError, "precision='float32'"),
        ({"codec": "lzma"}, UnsupportedError, "codec='lzma'"),
        ({"append": True, "overwrite": True}, UnsupportedError, "cannot be combined"),
        ({"memory": 100}, LimitError, r"a chunk of array 'tas' has 240 bytes"),
        ({"memory": "much"}, LimitError, "memory='much'"),
        ({"workers": 0}, LimitError, "workers=0"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused_before_anything_is_made(store, options, error, message):
    with pytest.raises(error, match=message):
        accumulate(store, "tas", **options)
    assert [p.name for p in store.parent.iterdir()] == ["a.zarr"]
    assert not (store / "tas_accumulation_group").exists()


def test_every_wrong_dimension_and_stride_is_named_at_once(store):
    with pytest.raises(SelectionError) as caught:
        accumulate(store, "tas", ["a", ("time", "b"), ()])
    assert len(caught.value.problems) == 3
    with pytest.raises(LimitError) as caught:
        accumulate(store, "tas", stride={"time": 0, "lat": "x"})
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"units": "months since 2000-01-01"}, "'time': units 'months since 2000-01-01' in calendar 'standard'"),
        ({"units": "days since 2000-01-01", "calendar": "360"}, "'time': calendar '360' is unknown"),
    ],
)
def test_sums_that_could_not_be_asked_for_because_of_their_times_are_not_built(store, attributes, message):
    zarr.open_group(store)["time"].attrs.update(attributes)
    with pytest.raises(SourceError, match=message):
        accumulate(store, "tas", ["time"])
    assert not (store / "tas_accumulation_group").exists()


def test_what_is_no_array_of_numbers_is_refused(tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    root.create_array("wave", shape=(4,), chunks=(2,), dtype="c8")
    root.create_array("scalar", shape=(), dtype="f4")
    root.create_array("date", shape=(4,), chunks=(2,), dtype="M8[s]")
    root.create_group("tas")
    for name, error, message in (
        ("wave", UnsupportedError, "complex64"),
        ("scalar", UnsupportedError, "single value"),
        ("date", UnsupportedError, "data type"),
        ("tas", SourceError, "is a group"),
        ("pr", SourceError, "has no Zarr array 'pr'"),
        ("../b", SourceError, "is not a path"),
    ):
        with pytest.raises(error, match=message):
            accumulate(tmp_path / "a.zarr", name)
    with pytest.raises(SourceError, match="no such directory"):
        accumulate(tmp_path / "b.zarr", "tas")
    zarr.create_array(tmp_path / "c.zarr", shape=(4,), chunks=(2,), dtype="f4")
    with pytest.raises((UnsupportedError, SourceError), match="itself an array"):
        accumulate(tmp_path / "c.zarr", "")


def test_an_existing_accumulation_is_replaced_only_on_request(store):
    accumulate(store, "tas", ["time"])
    identity = open_group(store, "tas").identity
    with pytest.raises(TargetExistsError, match=r"append=True.*refresh=True.*overwrite=True"):
        accumulate(store, "tas", ["lat"])
    assert open_group(store, "tas").identity == identity
    assert accumulate(store, "tas", ["lat"], overwrite=True).action == "rebuilt"
    assert set(open_group(store, "tas").sums) == {("lat",)}


def test_something_else_in_the_place_of_the_group_is_not_replaced(store):
    (store / "tas_accumulation_group").write_text("mine")
    with pytest.raises(TargetExistsError):
        accumulate(store, "tas", ["time"])
    with pytest.raises(TargetError, match="not a directory"):
        accumulate(store, "tas", ["time"], overwrite=True)
    assert (store / "tas_accumulation_group").read_text() == "mine"


def test_a_scale_of_zero_or_a_fill_value_in_words_is_refused(tmp_path):
    for i, attributes in enumerate(({"scale_factor": 0.0}, {"_FillValue": "none"}, {"valid_range": [1, 2, 3]})):
        reference.write_source(tmp_path / "a.zarr", f"v{i}", field(), DIMS, CHUNKS, attributes=attributes)
        with pytest.raises(ConformError, match=next(iter(attributes))):
            accumulate(tmp_path / "a.zarr", f"v{i}")


# ---- shards that do not hold all of their chunks ---------------------------------------------------------------


@pytest.mark.parametrize("absent", [[(0, 0)], [(0, 0), (0, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)]])
def test_a_shard_whose_inner_chunks_are_partly_or_all_absent_is_summed_as_fill_values(tmp_path, absent):
    raw = np.arange(64, dtype="f4").reshape(8, 8)
    for i, j in absent:
        raw[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = np.nan
    made = zarr.create_array(tmp_path / "a.zarr", name="tas", shape=(8, 8), chunks=(4, 4), shards=(8, 8), dtype="f4",
                             fill_value=np.nan, dimension_names=["y", "x"])  # fmt: skip
    made[...] = raw
    accumulate(tmp_path / "a.zarr", "tas")
    acc = cfagg.open_accumulated(tmp_path / "a.zarr", "tas")
    assert acc.count().item() == np.isfinite(raw).sum()
    np.testing.assert_array_equal(acc.sum("y", isel={"y": slice(1, 6)}).values, np.nansum(raw[1:6], axis=0))
    np.testing.assert_array_equal(acc.mean("x").values, np.array([np.nanmean(r) if np.isfinite(r).any() else np.nan
                                                                   for r in raw]))  # fmt: skip
