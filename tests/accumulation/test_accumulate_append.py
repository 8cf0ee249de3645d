"""Arrays that grow: what is appended equals what is built of the whole, and only what is new is read."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import freshness, layout
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.errors import ConventionError, NotAccumulatedError, SelectionError, StaleError
from tests.accumulation import comparing, growing, reference
from tests.accumulation.growing import COMBINATIONS, DIMS, grow
from tests.effort import examples


@st.composite
def histories(draw):
    shape = [draw(st.integers(1, 9)) for _ in DIMS]
    axis = draw(st.integers(0, 2))
    steps = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    raw = draw(growing.values(shape, axis, sum(steps)))
    chunks = [draw(st.integers(1, 5)) for _ in DIMS]
    stride = {d: draw(st.integers(1, 3)) for d in DIMS}
    weight_dims = draw(st.sampled_from([(), ("lat",), ("lat", "lon")]))
    combinations = draw(st.lists(st.sampled_from(COMBINATIONS), min_size=1, max_size=4, unique=True))
    stride = {d: n for d, n in stride.items() if any(d in c for c in combinations)}
    full, form = draw(st.booleans()), draw(st.sampled_from([2, 3]))
    return raw, shape, axis, steps, chunks, stride, combinations, weight_dims, full, form


@pytest.mark.full
@given(histories())
@settings(max_examples=examples(40))
def test_appending_step_by_step_equals_building_the_whole(history):
    raw, shape, axis, steps, chunks, stride, combinations, weight_dims, full, form = history
    source = growing.source(raw, form)
    options = {"fills": ([source["fill_value"]] if form == 2 else []) + ([77] if raw.dtype.kind == "i" else [])}
    lengths = [raw.shape[DIMS.index(d)] for d in weight_dims]
    # Weights stay the same while the array grows.
    weighted = bool(weight_dims) and DIMS[axis] not in weight_dims and all(n > 1 for n in lengths)
    weights = None
    if weighted:
        field = np.random.default_rng(1).integers(1, 5, lengths) / 4
        weights = field.reshape([raw.shape[i] if d in weight_dims else 1 for i, d in enumerate(DIMS)])
        options |= {"weights": field, "weight_dims": weight_dims}
    with tempfile.TemporaryDirectory() as folder:
        expected = comparing.expect(
            Path(folder) / "a.zarr",
            raw,
            DIMS,
            chunks,
            combinations,
            source,
            stride=stride,
            statistics=combinations if full else (),
            **options,
        )
        store = Path(folder) / "b.zarr"
        start = shape[axis]
        first = raw[(slice(None),) * axis + (slice(0, start),)]
        reference.write_source(store, "tas", first, DIMS, chunks, **source)
        statistics = ("min", "max", "std") if full else "chunks"
        accumulate(store, "tas", combinations, stride=stride, weights=weights, statistics=statistics)
        for step in steps:
            grow(store, raw[(slice(None),) * axis + (slice(0, start + step),)], axis, start)
            start += step
            report = accumulate(store, "tas", append=True)
            assert report.action in ("appended", "rebuilt")
        comparing.assert_same(store, expected, "tas", scale=20.0 * raw.size)
        freshness.check(open_group(store, "tas"))


# ---- single behaviours -----------------------------------------------------------------------------------------


def values(steps: int = 30) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(steps, 6, 8)).astype("f4")


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "a.zarr"
    reference.write_source(path, "tas", values()[:17], DIMS, (4, 3, 5))
    accumulate(path, "tas", [("time",), ("lat", "lon")], stride={"time": 2}, statistics=("max",), codec="zstd")
    return path


def last(store: Path) -> np.ndarray:
    return read_whole(open_group(store, "tas").sums["time",].data)[-1]


def test_appending_reads_only_from_the_last_boundary_that_stays(store, monkeypatch):
    grow(store, values(), 0, 17)
    read = comparing.chunks_read(monkeypatch)
    report = accumulate(store, "tas", append=True)
    # Four whole chunks, of which every second ends a sum; the fifth was filled up.
    assert {time for time, *_ in read} == {4, 5, 6, 7}
    assert (report.action, report.chunks) == ("appended", 4 * 2 * 2)
    np.testing.assert_allclose(last(store), values().sum(0, "f8"), rtol=1e-12)


def test_appending_takes_over_chunks_that_stay(store):
    group = store / "tas_accumulation_group"
    before = {p.name: p.stat().st_ino for p in (group / "acc_time").glob("c*")}
    grow(store, values(), 0, 17)
    accumulate(store, "tas", append=True)
    after = {p.name: p.stat().st_ino for p in (group / "acc_time").glob("c*")}
    assert len(before) < len(after) or before == after
    assert zarr.open_array(group / "acc_time").shape[0] == 4


def test_chunks_that_stay_are_links_and_chunks_that_change_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "_SMALL", 1)
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", values()[:17], DIMS, (4, 3, 5))
    accumulate(store, "tas", ["time"])
    folder = store / "tas_accumulation_group" / "acc_time"
    before = {p.name: p.stat().st_ino for p in folder.glob("c*")}
    grow(store, values(), 0, 17)
    accumulate(store, "tas", append=True)
    after = {p.name: p.stat().st_ino for p in folder.glob("c*")}
    same = sorted(n for n in before if before[n] == after[n])
    assert same == [f"c.{k}.0.0" for k in range(4)]
    assert sorted(after) == [f"c.{k}.0.0" for k in range(8)]


def test_chunks_are_copied_where_the_system_makes_no_links(store, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)
    grow(store, values(), 0, 17)
    accumulate(store, "tas", append=True)
    np.testing.assert_allclose(last(store), values().sum(0, "f8"), rtol=1e-12)


def test_nothing_to_append_reads_and_writes_nothing(store, monkeypatch):
    identity = open_group(store, "tas").identity
    read = comparing.chunks_read(monkeypatch)
    for option in ("append", "refresh"):
        report = accumulate(store, "tas", **{option: True})
        assert (report.action, report.chunks) == ("up to date", 0)
        assert report.stored > 0
    assert not read
    assert open_group(store, "tas").identity == identity


def test_refreshing_appends_where_that_is_enough_and_builds_anew_where_not(store):
    settings = open_group(store, "tas").extra
    grow(store, values(), 0, 17)
    assert accumulate(store, "tas", refresh=True).action == "appended"
    zarr.open_array(store / "tas", mode="r+")[1, 2, 3] = 99
    assert accumulate(store, "tas", refresh=True).action == "rebuilt"
    group = open_group(store, "tas")
    freshness.check(group)
    raw = zarr.open_array(store / "tas")[:]
    np.testing.assert_allclose(last(store), raw.sum(0, "f8"), rtol=1e-12)
    now = group.extra
    assert (now.stride, now.statistics[0].dims, set(now.boundaries)) == (
        settings.stride,
        settings.statistics[0].dims,
        set(settings.boundaries),
    )
    assert {s.dims for s in now.statistics} == {s.dims for s in settings.statistics}
    codec = zarr.open_array(store / "tas_accumulation_group" / "acc_time").compressors[0]
    assert type(codec).__name__ == "ZstdCodec"


@pytest.mark.few(1)
@pytest.mark.parametrize("change", ["shrunk", "written", "two", "rechunked", "scaled"])
def test_what_has_not_only_grown_is_not_appended_to(store, change):
    array = zarr.open_array(store / "tas", mode="r+")
    if change == "shrunk":
        array.resize((13, 6, 8))
    elif change == "written":
        grow(store, values(), 0, 17)
        array = zarr.open_array(store / "tas", mode="r+")
        array[0, 0, 0] = 4
    elif change == "two":
        array.resize((19, 7, 8))
    elif change == "rechunked":
        reference.write_source(store, "new", values(), DIMS, (5, 3, 5))
        shutil.rmtree(store / "tas")
        (store / "new").rename(store / "tas")
    else:
        array.attrs["scale_factor"] = 2.0
    with pytest.raises(StaleError, match=r"--refresh") as caught:
        accumulate(store, "tas", append=True)
    assert caught.value.problems
    assert accumulate(store, "tas", refresh=True).action == "rebuilt"
    freshness.check(open_group(store, "tas"))


def test_there_must_be_an_accumulation_by_cfagg_to_bring_up_to_date(tmp_path):
    reference.write_source(tmp_path / "a.zarr", "tas", values(), DIMS, (4, 3, 5))
    for option in ("append", "refresh"):
        with pytest.raises(NotAccumulatedError, match="has no accumulation"):
            accumulate(tmp_path / "a.zarr", "tas", **{option: True})


def test_options_that_contradict_the_existing_accumulation_are_refused(store):
    agreeing = {"dims": ["time", ("lat", "lon")], "stride": {"time": 2}, "statistics": "max"}
    assert accumulate(store, "tas", refresh=True, **agreeing).action == "up to date"
    for options in ({"dims": ["lat"]}, {"stride": 3}, {"statistics": "min"}, {"precision": "double-double"}):
        with pytest.raises(SelectionError, match="keeps its settings"):
            accumulate(store, "tas", refresh=True, **options)
    for weights in ("area", np.ones((6, 8))):
        with pytest.raises(SelectionError, match=r"weights: "):
            accumulate(store, "tas", refresh=True, weights=weights)


@pytest.mark.parametrize("again", ["refresh", "resume"])
def test_statistics_of_the_only_dimension_may_be_asked_for_again(tmp_path, again):
    store = tmp_path / "a.zarr"
    zarr.create_array(store, name="tas", data=np.arange(9.0), chunks=4, dimension_names=["time"])
    accumulate(store, "tas", statistics="min")
    assert accumulate(store, "tas", statistics="min", **{again: True}).action == "up to date"


def test_a_damaged_accumulation_is_replaced_on_request_only(store):
    shutil.rmtree(store / "tas_accumulation_group" / "acc_time")
    with pytest.raises(ConventionError, match="--overwrite"):
        accumulate(store, "tas", refresh=True)
    assert accumulate(store, "tas", ["time"], overwrite=True).action == "rebuilt"


def test_an_accumulation_whose_stamps_are_damaged_is_refreshed(store):
    path = next((store / "tas_accumulation_group" / "chunk_stamps").glob("c*"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (problem,) = freshness.changes(open_group(store, "tas")).problems
    assert "chunk_stamps" in problem.message
    assert accumulate(store, "tas", refresh=True).action == "rebuilt"
    assert not freshness.changes(open_group(store, "tas"))


def test_packed_integers_stay_exact_over_many_appends(tmp_path):
    raw = np.random.default_rng(0).integers(-30000, 30000, (64, 5)).astype("i2")
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw[:3], ("time", "x"), (4, 2), attributes={"scale_factor": 0.01})
    accumulate(store, "tas", ["time", "x"])
    for n in range(4, 65, 5):
        array = zarr.open_array(store / "tas", mode="r+")
        start = array.shape[0]
        array.resize((n, 5))
        array[start:] = raw[start:n]
        accumulate(store, "tas", append=True)
        assert last(store).tolist() == raw[:n].sum(0).tolist()


def test_chunks_of_sums_grow_with_an_array_that_began_small(tmp_path):
    raw = np.ones((3000, 4), "f4")
    store = tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw[:2], ("time", "x"), (20, 4))
    accumulate(store, "tas", ["x"])
    start = 2
    for n in (3, 20, 400, 3000):
        array = zarr.open_array(store / "tas", mode="r+")
        array.resize((n, 4))
        array[start:] = raw[start:n]
        start = n
        accumulate(store, "tas", append=True)
    sums = zarr.open_array(store / "tas_accumulation_group" / "acc_x")
    assert sums.chunks[0] >= 750
    assert (sums[:] == 4).all()


def test_rectilinear_arrays_grow_by_chunks_of_any_length(tmp_path):
    raw, store = values(), tmp_path / "a.zarr"
    reference.write_source(store, "tas", raw[:11], DIMS, ([4, 2, 5], [6], [5, 3]))
    accumulate(store, "tas", ["time", "lon"])
    # As zarr-python appends: one new edge.
    reference.write_source(tmp_path / "b.zarr", "tas", raw[:18], DIMS, ([4, 2, 5, 7], [6], [5, 3]))
    for name in ("zarr.json", "c/3/0/0", "c/3/0/1"):
        (store / "tas" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tmp_path / "b.zarr" / "tas" / name, store / "tas" / name)
    report = accumulate(store, "tas", append=True)
    assert (report.action, report.chunks) == ("appended", 2)
    np.testing.assert_allclose(last(store), raw[:18].sum(0, "f8"), rtol=1e-12)
    freshness.check(open_group(store, "tas"))
