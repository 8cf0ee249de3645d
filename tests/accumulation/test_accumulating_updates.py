"""Accumulations that are extended in their place beside arrays that grow: the same sums, and nothing is read again."""

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import cfagg
from cfagg.accumulation import extending, freshness
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate, accumulated_arrays, update
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.writing import Increment, place_of_array
from cfagg.errors import FragmentReadError, StaleAccumulationWarning, StaleError
from cfagg.formats.zarr import open_array
from tests.accumulation import comparing, growing, reference
from tests.accumulation.growing import COMBINATIONS, DIMS, grow
from tests.effort import examples


def test_accumulated_arrays_are_found_in_groups_of_groups(tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for path in ("tas", "model/run/pr", "model/alone"):
        array = root.create_array(path, shape=(4, 3), chunks=(2, 3), dtype="f4", dimension_names=("time", "x"))
        array[:] = 1.0
    for path in ("tas", "model/run/pr"):
        accumulate(tmp_path / "a.zarr", path, ["time"])
    assert set(accumulated_arrays(tmp_path / "a.zarr")) == {"tas", "model/run/pr"}


def test_all_accumulations_of_a_store_are_extended(tmp_path):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for path in ("tas", "pr"):
        array = root.create_array(path, shape=(4, 3), chunks=(2, 3), dtype="f4", dimension_names=("time", "x"))
        array[:] = 1.0
        accumulate(tmp_path / "a.zarr", path, ["time"])
        array.resize((6, 3))
        array[4:] = 2.0
    assert [(r.variable, r.action) for r in update(tmp_path / "a.zarr")] == [("pr", "appended"), ("tas", "appended")]
    found = zarr.open_group(tmp_path / "a.zarr")["tas_accumulation_group/acc_time"][:]
    np.testing.assert_array_equal(found[:, 0], [2, 4, 8])


def assert_equals_a_build_of_the_whole(store: Path, scale: float) -> None:
    """Compare the sums and statistics of a group that has grown with those of one that is built of the whole."""
    group = open_group(store, "tas")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "b.zarr"
        shutil.copytree(store, copy)
        settings = {"dims": list(group.sums), "stride": dict(group.extra.stride), "statistics": "chunks"}
        settings["statistics"] = ("min", "max", "std") if len(group.statistics) > 1 else "chunks"
        weights = None if group.weights is None else group.weights.array
        if weights is not None:
            shape = [group.source.shape[a] if a in group.weights.axes else 1 for a in range(group.source.ndim)]
            weights = weights.reshape(shape)
        accumulate(copy, "tas", weights=weights, overwrite=True, **settings)
        whole = open_group(copy, "tas")
        assert group.grows is not None
        assert whole.grows is None
        assert group.extra.excluded.missing == whole.extra.excluded.missing
        for dims, sums in whole.sums.items():
            for quantity, array in sums.arrays.items():
                found, expected = read_whole(group.sums[dims].arrays[quantity]), read_whole(array)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale, err_msg=f"{dims} {quantity}")
        for dims, levels in whole.statistics.items():
            mine = {v.level: v for v in group.statistics[dims]}
            for level in levels:
                along = group.grows if group.source.dims[group.grows] in dims else None
                cells = level.arrays["count"].shape[group.grows]
                if along is not None:
                    cells = whole.source.grid.matrix_shape[along] // 8**level.level
                assert (level.level in mine) == (cells > 0 or level.level == 0) or not cells
                if level.level not in mine:
                    continue
                cut = (slice(None),) * group.grows + (slice(cells),)
                for kind, array in level.arrays.items():
                    found, expected = read_whole(mine[level.level].arrays[kind]), read_whole(array)[cut]
                    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7 * scale, err_msg=f"{level} {kind}")
        np.testing.assert_array_equal(group.objects[:, [0, 4]], whole.objects[:, [0, 4]][: len(group.objects)])
    for array in (*group.arrays(), group.stamps):
        comparing.assert_stored(Path(array.folder), zarr.open_array(array.folder, mode="r"))
    freshness.check(group)


@pytest.mark.full
def test_an_accumulation_grows_with_its_array(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(1).normal(size=(90, 6, 8)).astype("f4")
    reference.write_source(store, "tas", raw[:7], DIMS, (3, 3, 5))
    accumulate(store, "tas", statistics=("min", "max", "std"))
    for n in (8, 9, 10, 11, 13, 30, 31, 55, 90):
        grow(store, raw[:n], 0, zarr.open_group(store)["tas"].shape[0])
        assert [r.action for r in update(store)] == ["appended"]
    assert_equals_a_build_of_the_whole(store, 90.0)
    found = open_accumulated(store, "tas").mean("time", isel={"time": slice(5, 80)})
    np.testing.assert_allclose(found, raw[5:80].mean(0, dtype="f8"), rtol=1e-12)


@st.composite
def histories(draw):
    shape = [draw(st.integers(1, 9)) for _ in DIMS]
    axis = draw(st.integers(0, 2))
    steps = draw(st.lists(st.integers(1, 12), min_size=2, max_size=5))
    raw = draw(growing.values(shape, axis, sum(steps)))
    chunks = [draw(st.integers(1, 5)) for _ in DIMS]
    combinations = draw(st.lists(st.sampled_from(COMBINATIONS), min_size=1, max_size=4, unique=True))
    stride = {d: draw(st.integers(1, 3)) for d in DIMS if any(d in c for c in combinations)}
    weighted = draw(st.booleans()) and axis != 1 and shape[1] > 1
    precision = draw(st.sampled_from(["auto", "float64", "double-double"]))
    return (
        raw,
        shape,
        axis,
        steps,
        chunks,
        stride,
        combinations,
        weighted,
        draw(st.booleans()),
        precision,
        draw(st.sampled_from([2, 3])),
    )


@given(histories())
@settings(max_examples=examples(4))
def test_growing_step_by_step_equals_building_the_whole(history):
    raw, shape, axis, steps, chunks, stride, combinations, weighted, full, precision, form = history
    source = growing.source(raw, form)
    weights = np.arange(1.0, raw.shape[1] + 1).reshape(1, -1, 1) if weighted else None
    with tempfile.TemporaryDirectory() as folder:
        store, start = Path(folder) / "a.zarr", shape[axis]
        reference.write_source(store, "tas", raw[(slice(None),) * axis + (slice(0, start),)], DIMS, chunks, **source)
        statistics = ("min", "max", "std") if full else "chunks"
        accumulate(
            store, "tas", combinations, stride=stride, weights=weights, statistics=statistics, precision=precision
        )
        for step in steps:
            grow(store, raw[(slice(None),) * axis + (slice(0, start + step),)], axis, start)
            start += step
            (report,) = update(store)
            assert report.action in ("appended", "rebuilt")
        assert_equals_a_build_of_the_whole(store, 20.0 * raw.size)


def steps(store: Path, start: int, stop: int) -> None:
    """Append steps to a store by the public function."""
    cfagg.append(store, dataset(start, stop), "time")


def dataset(start: int, stop: int) -> xr.Dataset:
    rng = np.random.default_rng(3)
    values = rng.integers(-500, 500, (200, 4, 6)).astype("f4")
    time = xr.date_range("2001-01-01", periods=200, freq="D").to_numpy()
    return xr.Dataset(
        {"tas": (DIMS, values[start:stop])},
        coords={
            "time": time[start:stop],
            "lat": ("lat", np.arange(4.0), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(6.0), {"units": "degrees_east"}),
        },
    )


@pytest.fixture
def series(tmp_path) -> Path:
    """A store with consolidated metadata that has grown once with its accumulation."""
    store = tmp_path / "a.zarr"
    encoding = {"tas": {"chunks": (3, 2, 6)}, "time": {"units": "days since 2001-01-01", "chunks": (64,)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are no part of Zarr 3
        dataset(0, 7).to_zarr(store, encoding=encoding, consolidated=True)
    accumulate(store, "tas", weights="area")
    steps(store, 7, 8)
    return store


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_appending_extends_the_accumulation_in_the_same_call(series):
    for start, stop in ((8, 9), (9, 16), (16, 17)):
        steps(series, start, stop)
    found = open_accumulated(series, "tas").mean("time", sel={"time": slice("2001-01-03", "2001-01-15")})
    expected = dataset(2, 15).tas.mean("time")
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    tree = xr.open_datatree(series, engine="zarr", consolidated=True)
    assert tree["tas_accumulation_group"].acc_time.shape == (6, 4, 6)


def test_nothing_that_stands_is_read_or_written_again(series, monkeypatch):
    steps(series, 8, 60)
    for folder in ("acc_time", "chunk_stamps"):
        assert (series / "tas_accumulation_group" / folder).is_dir()
    group = series / "tas_accumulation_group"
    before = {p: p.stat().st_mtime_ns for p in group.rglob("*") if p.is_file()}
    seen = comparing.chunks_read(monkeypatch)
    steps(series, 60, 63)
    assert sorted(seen) == [(20, 0, 0), (20, 1, 0)]
    written = {p for p, t in before.items() if p.stat().st_mtime_ns != t}
    assert {p.name for p in written} <= {"zarr.json", "c.0.0", "c.0.0.0"}


class Killed(BaseException):
    """As a signal that ends a process, but for what tidies up."""


@pytest.mark.few(1)
@pytest.mark.parametrize("last", [0, 9, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 4, 19, 24)), -1])
def test_what_was_killed_while_it_was_extended_refuses_until_the_next_extension(series, monkeypatch, last):
    replace, left = Path.replace, [last]
    apply = Increment.apply
    extend = cfagg.api.appending._extend

    def killed(part, path):
        if "accumulation_group" in str(path) and Path(part).parent == Path(path).parent:
            if not left[0]:
                raise Killed
            left[0] -= 1
        replace(part, path)

    def killed_after(*arguments):
        apply(*arguments)
        raise Killed

    monkeypatch.setattr(Path, "replace", killed)
    if last < 0:
        monkeypatch.setattr(Increment, "apply", killed_after)
    with pytest.raises(Killed):
        steps(series, 8, 20)
    monkeypatch.undo()
    assert extend is cfagg.api.appending._extend
    if last >= 0:
        with pytest.raises(StaleError, match="refresh"):
            open_accumulated(series, "tas").mean("time")
    steps(series, 20, 21)
    found = open_accumulated(series, "tas").mean("time", isel={"time": slice(1, 21)})
    np.testing.assert_allclose(found, dataset(1, 21).tas.mean("time"), rtol=1e-6)
    assert_equals_a_build_of_the_whole(series, 500.0 * 21)
    assert [p.name for p in series.parent.iterdir()] == ["a.zarr"]


def test_a_refresh_finishes_what_was_killed(series, monkeypatch):
    replace = Path.replace

    def killed(part, path):
        replace(part, path)
        if str(path).endswith("acc_time/zarr.json"):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(Killed):
            steps(series, 8, 20)
    assert accumulate(series, "tas", refresh=True).action == "up to date"
    assert_equals_a_build_of_the_whole(series, 500.0 * 20)


def test_a_record_of_another_group_is_not_carried_out(series):
    array = open_array(series, "tas")
    before = {p: p.read_bytes() for p in series.rglob("*") if p.is_file()}
    increment = Increment("tas_accumulation_group", 3, 1, 2, {"acc_time/c.0.0.0": b"another", "zarr.json": b"{}"})
    assert not increment.apply(array, place_of_array(array))
    assert {p: p.read_bytes() for p in series.rglob("*") if p.is_file()} == before


def test_what_is_written_while_it_is_appended_is_refused(series, monkeypatch):
    cfagg.append(series, dataset(8, 20), "time", after=())
    read = extending.judge

    def judge(*arguments):
        path = series / "tas" / "c" / "6" / "0" / "0"
        path.write_bytes(path.read_bytes())
        return read(*arguments)

    monkeypatch.setattr(extending, "judge", judge)
    with pytest.raises(StaleError):
        update(series)
    monkeypatch.undo()
    update(series)
    assert_equals_a_build_of_the_whole(series, 500.0)


@pytest.mark.full
def test_an_accumulation_of_shards_grows(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(1).integers(0, 99, (60, 4, 6)).astype("i4")
    root = zarr.open_group(store, mode="w")
    names = {"dimension_names": DIMS, "chunks": (2, 2, 6), "shards": (6, 4, 6)}
    root.create_array("tas", shape=(7, 4, 6), dtype="i4", **names)[:] = raw[:7]
    accumulate(store, "tas", stride={"time": 2})
    for n in (8, 9, 14, 15, 31, 60):
        grow(store, raw[:n], 0, zarr.open_group(store)["tas"].shape[0])
        assert [r.action for r in update(store)] == ["appended"]
    assert_equals_a_build_of_the_whole(store, 1.0)
    assert open_accumulated(store, "tas").sum(isel={"time": slice(3, 50)}) == raw[3:50].sum()


def test_an_accumulation_of_chunks_of_unequal_lengths_grows(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(1).integers(0, 99, (60, 4)).astype("i4")
    with zarr.config.set({"array.rectilinear_chunks": True}):
        root = zarr.open_group(store, mode="w")
        array = root.create_array("tas", shape=(5, 4), chunks=[[3, 2], [4]], dtype="i4", dimension_names=("time", "x"))
        array[:] = raw[:5]
    accumulate(store, "tas")
    n = 5
    for count in (1, 1, 7, 3, 1, 20):
        cfagg.append(store, {"tas": raw[n : n + count]}, "time")
        n += count
    group = open_group(store, "tas")
    assert group.samples[("time",)][0].tolist() == [3, 5, 6, 7, 14, 17, 18, 38]
    assert_equals_a_build_of_the_whole(store, 1.0)


@pytest.mark.full
def test_each_step_may_be_an_object_of_its_coordinate_too(tmp_path):
    store = tmp_path / "a.zarr"
    encoding = {"tas": {"chunks": (1, 4, 6)}, "time": {"units": "days since 2001-01-01", "chunks": (1,)}}
    dataset(0, 3).to_zarr(store, encoding=encoding, zarr_format=2, consolidated=True)
    accumulate(store, "tas", ["time"])
    for n in range(3, 9):
        steps(store, n, n + 1)
    group = open_group(store, "tas")
    assert group.extra.growth.stamps[::2] == (18, 2)
    assert group.table.record[0] == 9 + 9
    assert_equals_a_build_of_the_whole(store, 500.0)


@pytest.mark.full
def test_a_copy_of_a_group_that_has_grown_is_adopted_and_grows_on(series, tmp_path):
    steps(series, 8, 20)
    copy = tmp_path / "copy.zarr"
    shutil.copytree(series, copy)
    with pytest.raises(StaleError, match="--adopt"):
        open_accumulated(copy, "tas")
    assert accumulate(copy, "tas", adopt=True).action == "adopted"
    steps(copy, 20, 23)
    assert_equals_a_build_of_the_whole(copy, 500.0)
    steps(series, 20, 23)
    assert_equals_a_build_of_the_whole(series, 500.0)


def test_a_refresh_leaves_a_group_that_grows(series):
    steps(series, 8, 20)
    array = zarr.open_group(series, mode="r+")["tas"]
    array[2] = 7.0
    with pytest.raises(StaleError, match=r"chunk \(0, 0, 0\)"):
        open_accumulated(series, "tas").mean("time")
    # What was not written is answered, also when more is appended.
    steps(series, 20, 22)
    found = open_accumulated(series, "tas").mean("time", isel={"time": slice(4, 22)})
    np.testing.assert_allclose(found, dataset(4, 22).tas.mean("time"), rtol=1e-6)
    with pytest.raises(StaleError, match=r"chunk \(0, 0, 0\)"):
        open_accumulated(series, "tas").mean("time")
    assert accumulate(series, "tas", refresh=True).action == "rebuilt"
    steps(series, 22, 23)
    assert_equals_a_build_of_the_whole(series, 500.0)


def test_weights_that_have_changed_are_not_taken_for_those_that_were_used(series):
    lat = zarr.open_group(series, mode="r+")["lat"]
    lat[:] = [0.0, 30.0, 60.0, 80.0]
    with pytest.warns(StaleAccumulationWarning, match="weights"):
        cfagg.append(series, dataset(8, 20).drop_vars("lat"), "time")
    assert xr.open_zarr(series, consolidated=False).sizes["time"] == 20


@pytest.mark.full
def test_values_that_are_far_too_large_are_kept_out_when_they_are_appended(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(1).normal(280, 5, (60, 4, 6)).astype("f4")
    raw[[12, 40], 1, 2] = 1e36
    reference.write_source(store, "tas", raw[:9], DIMS, (3, 2, 6))
    accumulate(store, "tas")
    for n in (10, 11, 13, 14, 39, 42, 60):
        grow(store, raw[:n], 0, zarr.open_group(store)["tas"].shape[0])
        assert [r.action for r in update(store)] == ["appended"]
    group = open_group(store, "tas")
    assert sorted(group.outliers.positions.tolist()) == [[12, 1, 2], [40, 1, 2]]
    found = open_accumulated(store, "tas").mean("time", isel={"time": slice(13, 40)})
    np.testing.assert_allclose(found, raw[13:40].mean(0, dtype="f8"), rtol=1e-9)


def test_infinite_values_of_a_chunk_that_is_read_again_are_counted_once(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(1).normal(size=(40, 3, 4)).astype("f4")
    raw[np.random.default_rng(2).random(raw.shape) < 0.4] = np.nan
    raw[[2, 6, 8, 8, 9, 21, 37], 1, [0, 1, 2, 3, 0, 1, 2]] = np.inf, -np.inf, np.inf, np.inf, -np.inf, np.inf, np.inf
    reference.write_source(store, "tas", raw[:6], DIMS, (6, 2, 4))
    accumulate(store, "tas", stride={"time": 2})
    for n in (7, 8, 9, 10, 11, 17, 19, 24, 25, 40):
        grow(store, raw[:n], 0, zarr.open_group(store)["tas"].shape[0])
        update(store)
        excluded = open_group(store, "tas").extra.excluded
        assert (excluded.missing, excluded.nonfinite) == ((~np.isfinite(raw[:n])).sum(), np.isinf(raw[:n]).sum())


@pytest.mark.parametrize("shape", [(11, 9, 2), (4, 11, 2), (11, 18, 2)])
def test_statistics_are_whole_after_growing_along_one_dimension_and_then_another(tmp_path, shape):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(3).normal(size=(shape[0] + 1, shape[1] + 1, 2)).astype("f4")
    reference.write_source(store, "tas", raw[: shape[0], : shape[1]], DIMS, (1, 1, 2))
    accumulate(store, "tas", COMBINATIONS[:2], statistics=("min", "max", "std"))
    for part, axis in ((raw[:, : shape[1]], 0), (raw, 1)):
        grow(store, part, axis, shape[axis])
        update(store)
    assert open_group(store, "tas").grows == 1
    assert_equals_a_build_of_the_whole(store, 1.0)


def test_infinite_values_are_known_after_growing_along_one_dimension_and_then_another(tmp_path):
    store, raw = tmp_path / "a.zarr", np.random.default_rng(3).normal(size=(3, 5, 2)).astype("f4")
    raw[2, 1, 1] = np.inf
    reference.write_source(store, "tas", raw[:2, :4], DIMS, (2, 2, 2))
    accumulate(store, "tas")
    for part, axis, start in ((raw[:, :4], 0, 2), (raw, 1, 4)):
        grow(store, part, axis, start)
        update(store)
        assert open_group(store, "tas").extra.excluded.nonfinite == 1


def test_missing_values_that_come_for_the_first_time_get_counts_beside_weights(series):
    data = dataset(8, 20)
    data.tas[3, 1, 1] = np.nan
    cfagg.append(series, data, "time")
    assert open_group(series, "tas").extra.excluded.missing == 1
    steps(series, 20, 21)
    found = open_accumulated(series, "tas").count("time")
    assert (found[1, 1], found[0, 0]) == (20, 21)
    assert_equals_a_build_of_the_whole(series, 500.0)


def test_damage_to_a_group_that_has_grown_is_found(series):
    steps(series, 8, 20)
    group = series / "tas_accumulation_group"
    path = max(group.glob("acc_time/c.*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FragmentReadError, match="acc_time"):
        open_accumulated(series, "tas").mean("time")
    stamps = zarr.open_array(group / "chunk_stamps", mode="r+")
    stamps[1, 2] += 1
    with pytest.raises(FragmentReadError, match="chunk_stamps"):
        open_accumulated(series, "tas")


def test_check_finds_nothing_wrong_with_a_group_that_has_grown(series):
    steps(series, 8, 20)
    assert [f for f in cfagg.check(series).findings if f.code.startswith("ACC")] == []


@pytest.mark.full
def test_more_than_may_be_held_is_appended_through_files(series):
    cfagg.append(series, dataset(8, 60), "time", after=())
    (report,) = update(series, memory=4000)
    assert (report.action, report.scratch > 0) == ("appended", True)
    cfagg.append(series, dataset(60, 61), "time", after=())
    (report,) = update(series)
    assert (report.action, report.scratch) == ("appended", 0)
    assert_equals_a_build_of_the_whole(series, 500.0)
