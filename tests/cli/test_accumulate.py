"""The `cfagg accumulate` command."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr

from cfagg.accumulation.accumulated import open_accumulated
from cfagg.accumulation.opening import open_group
from cfagg.cli.main import main

DIMS = ("time", "latitude", "longitude")


@pytest.fixture
def store(tmp_path):
    array = xr.DataArray(
        np.arange(40 * 6 * 8, dtype="f4").reshape(40, 6, 8),
        dims=DIMS,
        coords={
            "time": xr.date_range("2000-01-01", periods=40, freq="MS"),
            "latitude": ("latitude", np.linspace(-75, 75, 6), {"units": "degrees_north"}),
            "longitude": ("longitude", np.arange(8) * 45.0, {"units": "degrees_east"}),
        },
        name="tas",
        attrs={"units": "K"},
    )
    path = tmp_path / "a.zarr"
    array.to_dataset().to_zarr(path, encoding={"tas": {"chunks": (6, 3, 8)}}, consolidated=False)
    return path


def run(capsys, *args):
    status = main(["accumulate", *map(str, args)])
    return status, *capsys.readouterr()


def test_by_default_all_dimensions_and_the_horizontal_pair_are_summed(store, capsys):
    status, out, err = run(capsys, store, "tas")
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith(f"{store}: tas_accumulation_group built: ")
    assert set(open_group(store, "tas").sums) == {("time",), ("latitude",), ("longitude",), DIMS[1:]}


def test_options_reach_the_builder(store, capsys):
    status, _, err = run(
        capsys, store, "tas", "--dims", "time", "--dims", "lon,lat", "--stride", "t=2", "--weights", "area",
        "--statistics", "chunks,min", "--precision", "double-double", "--codec", "zstd", "--workers", "1",
        "--memory", "8MiB",
    )  # fmt: skip
    assert (status, err) == (0, "")
    group = open_group(store, "tas")
    assert set(group.sums) == {("time",), ("latitude", "longitude")}
    assert dict(group.extra.stride) == {"time": 2, "latitude": 1, "longitude": 1}
    assert group.kind == "double-double"
    assert group.extra.weights.kind == "area"
    assert {"min"} <= {k for levels in group.statistics.values() for level in levels for k in level.arrays}


def test_one_stride_counts_for_all_dimensions(store, capsys):
    assert run(capsys, store, "tas", "--stride", "2", "--weights", "none")[0] == 0
    assert set(open_group(store, "tas").extra.stride.values()) == {2}


def test_a_dry_run_prints_sizes_and_writes_nothing(store, capsys):
    before = sorted(store.iterdir())
    status, out, _ = run(capsys, store, "tas", "--dry-run")
    assert status == 0
    assert "would hold" in out
    assert "acc_time" in out
    assert sorted(store.iterdir()) == before
    assert list(store.parent.iterdir()) == [store]


def test_json_holds_the_whole_report(store, capsys):
    status, out, err = run(capsys, store, "tas", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["form"], found["form_version"], found["action"]) == ("cfagg accumulate", 1, "built")
    assert "acc_time" in [a["name"] for a in found["arrays"]]
    assert found["bytes"] == sum(a["bytes"] for a in found["arrays"])


def test_quiet_prints_nothing(store, capsys):
    assert run(capsys, store, "tas", "--quiet") == (0, "", "")


def test_an_existing_accumulation_is_replaced_only_if_asked_for(store, capsys):
    assert run(capsys, store, "tas", "--quiet")[0] == 0
    status, out, err = run(capsys, store, "tas")
    assert (status, out) == (2, "")
    assert "--overwrite" in err
    assert len(err.splitlines()) == 1
    assert run(capsys, store, "tas", "--overwrite", "--dims", "time", "--quiet") == (0, "", "")
    assert set(open_group(store, "tas").sums) == {("time",)}


def test_a_grown_array_is_appended_to(store, capsys):
    assert run(capsys, store, "tas", "--dims", "time", "--quiet")[0] == 0
    more = xr.open_zarr(store, consolidated=False)[["tas"]].isel(time=slice(0, 5)).load()
    more = more.drop_encoding().drop_vars(("latitude", "longitude"))
    more.to_zarr(store, append_dim="time", consolidated=False)
    status, out, err = run(capsys, store, "tas", "--append")
    assert (status, err) == (0, "")
    assert "appended" in out
    expected = xr.open_zarr(store, consolidated=False).tas.mean("time", dtype="f8")
    np.testing.assert_allclose(open_accumulated(store, "tas").mean("time").values, expected.values)


def test_changed_values_are_refreshed_with_the_same_settings(store, capsys):
    assert run(capsys, store, "tas", "--dims", "time", "--stride", "3", "--quiet")[0] == 0
    zarr.open_array(store, path="tas", mode="r+")[2, 2, 2] = 1e6
    status, out, err = run(capsys, store, "tas", "--append")
    assert (status, out) == (2, "")
    assert "chunk" in err
    status, out, _ = run(capsys, store, "tas", "--refresh")
    assert (status, "rebuilt" in out) == (0, True)
    assert dict(open_group(store, "tas").extra.stride) == {"time": 3}
    assert "up to date" in run(capsys, store, "tas", "--refresh")[1]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stride", "0"], "--stride"),
        (["--stride", "time=-1"], "--stride"),
        (["--stride", "time=1.5"], "--stride"),
        (["--stride", "=2"], "--stride"),
        (["--dims", "time,"], "--dims"),
        (["--dims", "time,time"], "--dims"),
        (["--append", "--refresh"], "not allowed with"),
        (["--precision", "single"], "--precision"),
    ],
)
def test_wrong_usage_names_the_option(store, capsys, options, message):
    status, out, err = run(capsys, store, "tas", *options)
    assert (status, out) == (2, "")
    assert message in err.splitlines()[0]
    assert err.splitlines()[-1] == "see cfagg accumulate --help"


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dims", "height"], "height"),
        (["--stride", "height=2"], "height"),
        (["--stride", "2", "--stride", "time=3"], "--stride is given more than once"),
        (["--stride", "time=2", "--stride", "t=3", "--dims", "time"], "--stride is given twice for dimension 'time'"),
        (["--statistics", "median"], "median"),
        (["--weights", "nothing"], "nothing"),
        (["--memory", "much"], "much"),
        (["--workers", "0"], "workers"),
        (["--append"], "cfagg accumulate"),
        (["--refresh"], "cfagg accumulate"),
        (["--dask", "nowhere"], "Dask"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(store, capsys, options, message):
    status, out, err = run(capsys, store, "tas", *options)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert "bug in cfagg" not in err
    assert message in err
    assert not (store / "tas_accumulation_group").exists()


@pytest.mark.parametrize(("path", "variable"), [("nowhere.zarr", "tas"), ("a.zarr", "pr"), ("a.zarr", "/")])
def test_a_store_or_array_that_is_not_there_is_named(store, capsys, path, variable):
    status, out, err = run(capsys, store.parent / path, variable)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert path in err


def test_a_dask_cluster_reads(store, capsys):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        assert run(capsys, store, "tas", "--dask", cluster.scheduler_address, "--quiet") == (0, "", "")
    expected = xr.open_zarr(store, consolidated=False).tas.mean("time", dtype="f8")
    np.testing.assert_allclose(open_accumulated(store, "tas").mean("time").values, expected.values)


@pytest.mark.full
def test_the_bar_is_drawn_on_a_terminal_only(store):
    main_end, other_end = pty.openpty()
    command = [sys.executable, "-m", "cfagg", "accumulate", str(store), "tas"]
    process = subprocess.Popen(command, stderr=other_end, stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"})
    os.close(other_end)
    drawn = b""
    # Read as it is drawn: a terminal that nobody reads from stops the command once its buffer is full.
    with contextlib.suppress(OSError):  # Linux ends what is read from a terminal with EIO
        while part := os.read(main_end, 100_000):
            drawn += part
    os.close(main_end)
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert b"\x1b[" in drawn
    assert subprocess.run([*command, "--overwrite"], capture_output=True).stderr == b""
