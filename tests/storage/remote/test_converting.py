"""Conversions at scale into an object store: by way of other chunks, by a cluster, and into a part of a store."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.conversion import schedule
from cfagg.errors import AccessError, TargetError

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

N = 200
VALUES = np.arange(N * N, dtype="f4").reshape(N, N)


@pytest.fixture
def rows(tmp_path):
    """A store of rows on this machine."""
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    group.create_array("v", shape=(N, N), chunks=(1, N), dtype="f4", dimension_names=("x", "y"))[...] = VALUES
    return tmp_path / "rows.zarr"


def _read(url, options):
    return cfagg.read(url, storage_options=options)["v"].values


def test_what_goes_by_way_of_other_chunks_leaves_none_of_them_in_the_bucket(rows, cloud, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "_LEAST", 1)
    url, options, objects = cloud
    work = []
    cfagg.convert(
        rows, url, chunks={"x": N, "y": 10}, memory=60_000, workers=1, target_options=options,
        progress=lambda *a: work.append(a),
    )  # fmt: skip
    assert work[-1][1] == 2 * VALUES.nbytes
    np.testing.assert_array_equal(_read(url, options), VALUES)
    assert not [key for key in objects.listed() if key.startswith(".")]


class Stop(Exception):
    """What cuts a run short."""


def test_a_run_into_a_bucket_that_was_cut_short_on_the_way_goes_on(rows, cloud, monkeypatch) -> None:
    monkeypatch.setattr(schedule, "_LEAST", 1)
    url, options, objects = cloud

    def stop(done, total):
        if done > 0.3 * total:
            raise Stop

    asked = {"chunks": {"x": N, "y": 10}, "memory": 60_000, "target_options": options}
    # Sources whose state is known are gone on with: those of this machine.
    with pytest.raises(Stop):
        cfagg.convert(rows, url, workers=1, progress=stop, **asked)
    report = cfagg.convert(rows, url, workers=2, resume=True, **asked)
    assert report.resumed > 0
    np.testing.assert_array_equal(_read(url, options), VALUES)
    assert not [key for key in objects.listed() if key.startswith(".")]


def test_a_part_of_a_store_in_a_bucket_is_written(rows, cloud, tmp_path) -> None:
    url, options, _ = cloud
    cfagg.convert(rows, url, chunks={"x": 50}, shards={"x": 100}, target_options=options)
    part = xr.Dataset({"v": (("x", "y"), -VALUES[100:])})
    part["v"].encoding["_FillValue"] = None
    part.to_netcdf(tmp_path / "part.nc")
    cfagg.convert(tmp_path / "part.nc", url, region={"x": slice(100, None)}, target_options=options)
    np.testing.assert_array_equal(_read(url, options), np.concatenate([VALUES[:100], -VALUES[100:]]))


def test_a_part_is_not_written_while_an_array_is_ahead_of_its_store(rows, bucket, tmp_path) -> None:
    zarr.consolidate_metadata(rows)
    url = bucket.put(rows, "ahead")
    own = json.loads((rows / "v" / "zarr.json").read_text())
    # As an append leaves it that was cut short.
    bucket.client.put_object(
        Bucket=bucket.name, Key="ahead/rows.zarr/v/zarr.json", Body=json.dumps(own | {"shape": [N + 10, N]})
    )
    xr.Dataset({"v": (("x", "y"), -VALUES[:5])}).to_netcdf(tmp_path / "part.nc", encoding={"v": {"_FillValue": None}})
    with pytest.raises(TargetError, match=r"the shape \(210, 200\) by its own .* an append is under way"):
        cfagg.convert(tmp_path / "part.nc", url, region={"x": slice(0, 5)}, target_options=bucket.options)


def test_secrets_are_not_sent_to_workers_and_nothing_is_asked(rows) -> None:
    secret = {"access_key_id": "some", "secret_access_key": "unlikely-to-be-said"}
    with pytest.raises(AccessError, match="in the environment of the workers"):
        cfagg.convert(rows, "s3://bucket/a.zarr", client="tcp://127.0.0.1:9", target_options=secret)


@pytest.mark.full
def test_workers_of_a_cluster_write_into_a_bucket(rows, keyed, bucket) -> None:
    from distributed import Client, LocalCluster

    url = f"s3://{bucket.name}/cluster.zarr"
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        cfagg.convert(rows, url, chunks={"x": 20}, client=client, verify=True)
        zarr.open_group(rows, mode="r+")["v"][...] = -VALUES
        cfagg.convert(rows, url, region={"x": slice(0, N)}, client=client)
    np.testing.assert_array_equal(_read(url, bucket.options), -VALUES)


@pytest.mark.parametrize("place", ["rows.zarr", "rows.zarr/inner/further", ""])
def test_a_store_that_holds_the_source_or_lies_in_it_is_not_replaced_by_it(rows, bucket, place) -> None:
    zarr.open_group(rows, mode="r+").create_array("inner/w", data=VALUES, dimension_names=("x", "y"))
    url = bucket.put(rows, "whole")
    before = bucket.keys("")
    with pytest.raises(TargetError, match="is the source, contains it or lies within it"):
        cfagg.convert(
            f"{url}/inner", f"{url.removesuffix('rows.zarr')}{place}".rstrip("/"), overwrite=True,
            storage_options=bucket.options, target_options=bucket.options,
        )  # fmt: skip
    assert bucket.keys("") == before


def test_a_file_to_which_the_source_refers_is_not_replaced_by_it(bucket, keyed, tmp_path) -> None:
    for k in range(2):
        time = ("time", np.arange(3.0) + 3 * k, {"units": "days since 2000-01-01", "standard_name": "time"})
        v = ("time", np.arange(3.0), {"standard_name": "air_temperature", "units": "K"})
        xr.Dataset({"v": v}, {"time": time}).to_netcdf(tmp_path / f"{k}.nc")
        url = bucket.put(tmp_path / f"{k}.nc", "parts").rpartition("/")[0]
    cfagg.aggregate([f"{url}/0.nc", f"{url}/1.nc"], output=f"{url}/all.nc")
    before = bucket.keys("")
    with pytest.raises(TargetError, match=r"0.nc was not replaced: .*all.nc refers to it"):
        cfagg.convert(f"{url}/all.nc", f"{url}/0.nc", overwrite=True)
    with pytest.raises(TargetError, match=r"all.nc is the source"):
        cfagg.convert(f"{url}/all.nc", f"{url}/all.nc", overwrite=True)
    assert bucket.keys("") == before
    assert cfagg.read(f"{url}/all.nc")["v"].values.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_store_in_a_bucket_is_not_written_to_itself_by_regions(rows, bucket) -> None:
    url = bucket.put(rows, "itself")
    with pytest.raises(TargetError, match="is the source"):
        cfagg.convert(
            url, url, region={"x": slice(0, N)}, storage_options=bucket.options, target_options=bucket.options
        )
