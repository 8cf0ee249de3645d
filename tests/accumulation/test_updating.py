"""Accumulations that are extended in their place beside arrays that grow: the same sums, and nothing is read again."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from cfagg.accumulation import freshness
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.updating import accumulated_arrays, update
from tests.accumulation import comparing, reference
from tests.effort import examples

DIMS = ("time", "lat", "lon")


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


def grow(store: Path, raw: np.ndarray, axis: int, start: int) -> None:
    """Make an array longer along an axis and write what is new."""
    array = zarr.open_group(store, mode="r+")["tas"]
    array.resize(raw.shape)
    place = (slice(None),) * axis + (slice(start, None),)
    array[place] = raw[place]


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
    final = list(shape)
    final[axis] += sum(steps)
    dtype = draw(st.sampled_from(["f4", "i2"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    raw = (rng.normal(scale=20, size=final) if dtype == "f4" else rng.integers(0, 99, final)).astype(dtype)
    where = draw(st.sampled_from(["no", "all", "old", "new"]))
    holes = rng.random(final) < (0.0 if where == "no" else 0.3)
    half = (slice(None),) * axis + ((slice(shape[axis], None) if where == "old" else slice(0, shape[axis])),)
    if where in ("old", "new"):
        holes[half] = False
    raw[holes] = np.nan if dtype == "f4" else 77
    chunks = [draw(st.integers(1, 5)) for _ in DIMS]
    combinations = draw(st.lists(st.sampled_from(COMBINATIONS), min_size=1, max_size=4, unique=True))
    stride = {d: draw(st.integers(1, 3)) for d in DIMS if any(d in c for c in combinations)}
    weighted = draw(st.booleans()) and axis != 1 and final[1] > 1
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


COMBINATIONS = [("time",), ("lat",), ("lon",), ("lat", "lon"), ("time", "lat"), ("time", "lat", "lon")]


@given(histories())
@settings(max_examples=examples(4))
def test_growing_step_by_step_equals_building_the_whole(history):
    raw, shape, axis, steps, chunks, stride, combinations, weighted, full, precision, form = history
    source = {
        "zarr_format": form,
        "attributes": {"missing_value": 77} if raw.dtype.kind == "i" else {},
        "coordinates": False,
        "fill_value": 250 if raw.dtype.kind == "i" else -12345.0,
    }
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
