"""Cells that are kept out of the sums: how they are listed, kept in step, and reported."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client, LocalCluster

import cfagg
from cfagg.accumulation import layout, outliers
from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.integrity import read_whole
from cfagg.accumulation.opening import open_group
from cfagg.conventions.accumulation import parse_group
from cfagg.errors import CfaggError, LimitError

DIMS = ("time", "lat", "lon")
COMBINATIONS = [("time",), ("lat", "lon"), DIMS]
FILL = np.float32(9.969209968386869e36)


def field(steps: int = 60) -> np.ndarray:
    """Temperatures with a few undeclared fills, and one missing value."""
    raw = np.random.default_rng(0).normal(285, 9, (steps, 6, 8)).astype("f4")
    raw[1, 2, 3] = np.nan
    for place in ((3, 0, 0), (3, 0, 1), (25, 5, 7), (44, 3, 3), (59, 1, 2)):
        if place[0] < steps:
            raw[place] = FILL
    return raw


def written(store: Path, raw: np.ndarray, length: int | None = None, zarr_format: int = 3) -> Path:
    shape = (length or raw.shape[0], *raw.shape[1:])
    named: dict[str, Any] = {"dimension_names": DIMS}
    if zarr_format == 2:
        named = {"attributes": {"_ARRAY_DIMENSIONS": list(DIMS)}, "fill_value": None}
    array = zarr.create_array(
        store, name="tas", shape=shape, dtype=raw.dtype, chunks=(7, 4, 8), zarr_format=zarr_format, **named
    )
    array[:] = raw[: shape[0]]
    return store


def grow(store: Path, raw: np.ndarray) -> None:
    array = zarr.open_group(store, mode="r+")["tas"]
    old = array.shape[0]
    array.resize(raw.shape)
    array[old:] = raw[old:]


def digests(store: Path) -> dict[str, str]:
    """What every array holds; its metadata name the build."""
    group = store / "tas_accumulation_group"
    files = [p for p in group.rglob("*") if p.is_file() and p.name != "zarr.json" and "stamps" not in str(p)]
    return {str(p.relative_to(group)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def check(store: Path, raw: np.ndarray, weights: np.ndarray | None = None) -> None:
    """Compare answers with those of NumPy in float64, cell by cell."""
    acc = open_accumulated(store, "tas")
    w = np.ones(raw.shape) if weights is None else np.broadcast_to(weights, raw.shape)
    for dims in (("time",), ("lat", "lon"), DIMS):
        axes = tuple(DIMS.index(d) for d in dims)
        for where in (slice(0, len(raw)), slice(4, len(raw) - 2), slice(2, 26), slice(8, 9)):
            part, heavy = raw[where].astype("f8"), np.where(np.isnan(raw[where]), 0.0, w[where])
            mean = np.nansum(part * heavy, axes) / heavy.sum(axes)
            found = acc.mean(dims, isel={"time": where})
            np.testing.assert_allclose(found.values, mean, rtol=1e-6 if mean.max() > 1e30 else 1e-10)
            np.testing.assert_array_equal(acc.count(dims, isel={"time": where}), (~np.isnan(part)).sum(axes))
            np.testing.assert_array_equal(acc.max(dims, isel={"time": where}), np.nanmax(part, axes))


@pytest.mark.few(2)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_outliers_are_listed_with_their_positions_and_named_in_the_report(
    tmp_path: Path, zarr_format: int, weighted: bool
) -> None:
    raw = field()
    store = written(tmp_path / "a.zarr", raw, zarr_format=zarr_format)
    weights = np.linspace(0.1, 1, 6)[:, None] if weighted else None
    report = accumulate(store, "tas", COMBINATIONS, weights=weights)
    (note,) = report.notes
    assert note.startswith("5 cells are far larger than is typical")
    assert "(time 3, lat 0, lon 0), looks like a fill value that no attribute declares" in note
    assert {"outlier_positions", "outlier_values"} <= {a.name for a in report.arrays}
    group = open_group(store, "tas")
    assert group.outliers is not None
    listed = sorted(map(tuple, group.outliers.positions.tolist()))
    assert listed == sorted(map(tuple, np.argwhere(raw == FILL).tolist()))
    assert (group.outliers.values == FILL).all()
    check(store, raw, weights)


def test_other_readers_find_sums_counts_and_weights_without_the_outliers(tmp_path: Path) -> None:
    raw = field()
    store = written(tmp_path / "a.zarr", raw)
    accumulate(store, "tas", COMBINATIONS)
    made = zarr.open_group(store, mode="r")["tas_accumulation_group"]
    names = parse_group(dict(made.attrs), DIMS, source="")["time",]
    rest = np.where((raw == FILL) | np.isnan(raw), 0, raw).astype("f8")
    np.testing.assert_allclose(made[names.unweighted][-1], rest.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(made[names.weights][-1], ((raw != FILL) & ~np.isnan(raw)).sum(axis=0))
    assert made.attrs["cfagg"]["version"] == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("lengths", [(20, 60), (5, 31, 60), (2, 60)])
def test_appending_keeps_the_list(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    raw = field()
    store = written(tmp_path / "a.zarr", raw, lengths[0])
    accumulate(store, "tas", COMBINATIONS)
    for length in lengths[1:]:
        grow(store, raw[:length])
        accumulate(store, "tas", append=True)
        check(store, raw[:length])
    group = open_group(store, "tas")
    assert group.outliers is not None
    assert len(group.outliers.values) == 5


@pytest.mark.parametrize("in_place", [False, True])
def test_cells_of_a_chunk_that_is_summed_again_are_listed_and_missed_once(tmp_path: Path, in_place: bool) -> None:
    raw = field(30)
    raw[14, 0, 0], raw[15, 0, 1] = FILL, np.nan
    store = written(tmp_path / "a.zarr", raw, 16)
    accumulate(store, "tas", COMBINATIONS)
    if in_place:
        for part in (raw[16:18], raw[18:]):
            cfagg.append(store, xr.Dataset({"tas": (DIMS, part)}), "time")
    else:
        grow(store, raw)
        accumulate(store, "tas", append=True)
    check(store, raw)
    group = open_group(store, "tas")
    assert group.outliers is not None
    assert group.extra is not None
    assert len(group.outliers.values) == np.count_nonzero(raw == FILL)
    assert group.extra.excluded.missing == np.count_nonzero(np.isnan(raw))


def test_appending_where_the_list_has_become_far_too_long_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outliers, "MOST", 4)
    raw = field()
    raw[30:, :4, :4] = FILL
    store = written(tmp_path / "a.zarr", raw, 20)
    accumulate(store, "tas", COMBINATIONS)
    grow(store, raw)
    with pytest.raises(LimitError, match="rebuild its accumulation with overwrite=True"):
        accumulate(store, "tas", append=True)
    report = accumulate(store, "tas", COMBINATIONS, overwrite=True)
    assert "too many to keep out" in report.notes[0]
    assert open_group(store, "tas").outliers is None
    check(store, raw)


@pytest.mark.full
def test_threads_and_dask_build_the_same_bytes(tmp_path: Path) -> None:
    raw = field()
    stores = [written(tmp_path / f"{name}.zarr", raw) for name in "abc"]
    accumulate(stores[0], "tas", COMBINATIONS, workers=1)
    accumulate(stores[1], "tas", COMBINATIONS, workers=4)
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        accumulate(stores[2], "tas", COMBINATIONS, client=client)
    assert digests(stores[0]) == digests(stores[1]) == digests(stores[2])


def test_a_build_that_failed_in_its_second_phase_is_finished_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = field()
    stores = [written(tmp_path / f"{name}.zarr", raw) for name in "ab"]
    accumulate(stores[0], "tas", COMBINATIONS)
    with monkeypatch.context() as patch:
        patch.setattr("cfagg.accumulation.building.write_attributes", lambda *_: (_ for _ in ()).throw(OSError(28, "")))
        with pytest.raises(CfaggError):
            accumulate(stores[1], "tas", COMBINATIONS)
    report = accumulate(stores[1], "tas", COMBINATIONS, resume=True)
    assert report.resumed == report.chunks
    assert digests(stores[0]) == digests(stores[1])


def test_ordinary_data_have_no_list(tmp_path: Path) -> None:
    for k, raw in enumerate((field()[:3, :, :] * 0 + 280, np.random.default_rng(1).normal(0, 1, (30, 6, 8)))):
        store = written(tmp_path / f"{k}.zarr", raw)
        assert accumulate(store, "tas", COMBINATIONS).notes == ()
        described = json.loads((store / "tas_accumulation_group" / "zarr.json").read_text())["attributes"]["cfagg"]
        assert "outliers" not in described


def test_sums_are_put_right_in_chunks_of_sums_that_hold_parts_of_those_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_CHUNK", 6)
    raw = field(14)
    raw[10, 5, 7] = FILL
    store = written(tmp_path / "a.zarr", raw)
    accumulate(store, "tas", ["time"])
    group = open_group(store, "tas")
    assert group.outliers is not None
    assert group.sums["time",].data.grid.matrix_shape != (1, 1, 1)
    sums = read_whole(group.sums["time",].data)
    rest = np.where((raw == FILL) | np.isnan(raw), 0, raw).astype("f8")
    np.testing.assert_allclose(sums[-1], rest.sum(axis=0), rtol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e3])
def test_how_large_values_are_is_known_of_all_of_them_after_appending(tmp_path: Path, factor: float) -> None:
    raw = np.random.default_rng(0).normal(285, 9, (30, 6, 8)).astype("f4")
    raw[14:] *= np.float32(factor)
    whole, grown = written(tmp_path / "a.zarr", raw), written(tmp_path / "b.zarr", raw, 14)
    accumulate(whole, "tas", ["time"])
    accumulate(grown, "tas", ["time"])
    grow(grown, raw)
    accumulate(grown, "tas", append=True)
    one, other = (open_group(store, "tas").extra for store in (whole, grown))
    assert one is not None
    assert other is not None
    assert one.magnitudes is not None
    assert one.magnitudes == other.magnitudes
    assert one.magnitudes.largest == np.abs(raw).max()


@pytest.mark.parametrize(("before", "listed"), [(1e20, None), (1, [1e20])])
def test_what_is_no_larger_than_what_was_summed_before_is_summed_too(
    tmp_path: Path, before: float, listed: list[float] | None
) -> None:
    raw = np.random.default_rng(0).normal(1, 0.1, (28, 6, 8)).astype("f4")
    raw[:14] *= np.float32(before)
    raw[20, 1, 1] = 1e20
    store = written(tmp_path / "a.zarr", raw, 14)
    accumulate(store, "tas", ["time"])
    grow(store, raw)
    accumulate(store, "tas", append=True)
    kept_out = open_group(store, "tas").outliers
    assert (kept_out and np.float32(kept_out.values).tolist()) == (listed and np.float32(listed).tolist())
    acc = open_accumulated(store, "tas")
    np.testing.assert_allclose(acc.sum("time"), raw.sum(axis=0, dtype="f8"), rtol=1e-12)


def test_cells_whose_sums_would_take_too_much_memory_are_not_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outliers, "_HELD", 100)
    store = written(tmp_path / "a.zarr", field(7))
    assert "too many to keep out" in accumulate(store, "tas", ["time"]).notes[0]
    assert open_group(store, "tas").outliers is None


def test_how_large_values_are_is_not_noted_of_exact_sums(tmp_path: Path) -> None:
    store = written(tmp_path / "a.zarr", np.arange(7 * 6 * 8, dtype="i4").reshape(7, 6, 8))
    accumulate(store, "tas", ["time"])
    extra = open_group(store, "tas").extra
    assert extra is not None
    assert extra.magnitudes is None


@pytest.mark.parametrize("value", [0, np.nan])
def test_arrays_without_any_value_but_zero_have_no_list(tmp_path: Path, value: float) -> None:
    store = written(tmp_path / "a.zarr", np.full((7, 6, 8), value, "f4"))
    assert accumulate(store, "tas", ["time"]).notes == ()
    assert open_group(store, "tas").outliers is None
    assert (open_accumulated(store, "tas").count("time") == (0 if np.isnan(value) else 7)).all()


def test_products_with_weights_beyond_float64_are_refused_with_their_cell(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).normal(size=(20, 2))
    raw[3, 1], raw[5, 1] = 1.7e308, -1.7e308
    zarr.create_array(tmp_path / "a.zarr", name="tas", data=raw, chunks=(5, 2), dimension_names=["time", "x"])
    accumulate(tmp_path / "a.zarr", "tas", ["time"], weights=np.full((1, 2), 1e5))
    acc = open_accumulated(tmp_path / "a.zarr", "tas")
    assert acc.mean("time", isel={"x": 0}).item() == pytest.approx(raw[:, 0].mean())
    with pytest.raises(LimitError, match=r"'tas', cell \(3, 1\): its value 1.7e\+308 times its weight 100000 is"):
        acc.mean("time")


def test_outliers_count_wherever_and_as_often_as_they_are_selected(tmp_path: Path) -> None:
    raw = field()
    store = written(tmp_path / "a.zarr", raw)
    accumulate(store, "tas", ["time"])
    acc = open_accumulated(store, "tas")
    isel = {"time": [3, 25, 3, 59, 10], "lat": [0, 5, 0]}
    picked = raw[isel["time"]][:, isel["lat"]].astype("f8")
    np.testing.assert_allclose(acc.sum("time", isel=isel), np.nansum(picked, 0), rtol=1e-12)
    np.testing.assert_allclose(acc.sum("lon", isel=isel), np.nansum(picked, 2), rtol=1e-12)
