"""Accumulations in object stores and on web servers: right as those here, and refused where it is not proven fresh."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.accumulation import source
from cfagg.cli.main import main
from cfagg.errors import (
    FragmentReadError,
    NotAccumulatedError,
    SourceError,
    StaleAccumulationWarning,
    StaleError,
    UnsupportedError,
)
from cfagg.storage.objects import ObjectStore
from tests.observations.servers import served
from tests.storage.remote.conftest import Bucket, Nginx

pytestmark = pytest.mark.usefixtures("no_waits")

TIMES = xr.date_range("2001-01-01", periods=50, freq="D")


#: What is accumulated where all kinds of answers are asked for, and where one is enough.
MUCH = {"dims": [("time",), ("lat", "lon")], "weights": "area"}
LITTLE = {"dims": [("time",)], "statistics": None}


def made(folder: Path, zarr_format: int = 3, *, shards: bool = False, **settings) -> Path:
    """Make a store with an accumulation here."""
    values = np.arange(50 * 4 * 6, dtype="f4").reshape(50, 4, 6)
    values[3, 1, 2] = np.nan
    coords = {"time": TIMES, "lat": [-30.0, 0.0, 30.0, 60.0], "lon": np.arange(6.0)}
    tas = xr.DataArray(values, coords=coords, dims=("time", "lat", "lon"), name="tas", attrs={"units": "K"})
    tas["lat"].attrs["units"], tas["lon"].attrs["units"] = "degrees_north", "degrees_east"
    encoding = {"tas": {"chunks": (5, 4, 6), **({"shards": (25, 4, 6)} if shards else {})}}
    tas.to_dataset().to_zarr(folder, zarr_format=zarr_format, encoding=encoding, consolidated=zarr_format == 2)
    cfagg.accumulate(folder, "tas", **settings)
    return folder


@pytest.fixture
def here(once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store here."""
    return once("accumulated", lambda: made(tmp_path_factory.mktemp("accumulated") / "a.zarr", **LITTLE))


@pytest.fixture
def there(here: Path, keyed: Bucket, request: pytest.FixtureRequest) -> str:
    """A copy of it in a bucket, for one test alone."""
    return keyed.put(here, f"accumulated/{abs(hash(request.node.name))}")


def asked(acc: cfagg.accumulation.accumulated.Accumulated) -> list[xr.DataArray]:
    return [
        acc.mean("time", isel={"time": slice(2, 41)}),
        acc.mean(("lat", "lon")),
        acc.sum("time", sel={"time": "2001-01"}),
        acc.max(isel={"time": slice(3, 9)}),
        acc.count("time"),
        acc.groupby("time.month").mean("time"),
    ]


def compared(url: str, folder: Path, **options) -> None:
    acc = cfagg.open_accumulated(url, "tas", adopt=True, trust_for=60, **options)
    for found, expected in zip(asked(acc), asked(cfagg.open_accumulated(folder, "tas")), strict=True):
        xr.testing.assert_identical(found, expected)
    values = xr.open_zarr(folder, consolidated=False)["tas"].values[2:41]
    np.testing.assert_allclose(asked(acc)[0], np.nanmean(values.astype("f8"), axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    ("zarr_format", "shards"), [(3, True), *(pytest.param(form, False, marks=pytest.mark.soak) for form in (2, 3))]
)
def test_an_accumulation_in_a_bucket_answers_as_the_one_here(keyed, tmp_path, zarr_format, shards) -> None:
    folder = made(
        tmp_path / "a.zarr", zarr_format, shards=shards, **(MUCH if zarr_format == 3 and not shards else LITTLE)
    )
    compared(keyed.put(folder, f"answers/{zarr_format}{shards}"), folder)


def test_an_accumulation_in_a_container_answers_as_the_one_here(container, here) -> None:
    url = f"az://{container.name}/answers/a.zarr"
    objects = ObjectStore(url, container.options)
    for path in here.rglob("*"):
        if path.is_file():
            objects.put(str(path.relative_to(here)), path.read_bytes())
    compared(url, here, storage_options=container.options)


def test_an_accumulation_on_a_web_server_answers_as_the_one_here(here, nginx: Nginx) -> None:
    shutil.copytree(here, nginx.data / "answers.zarr", dirs_exist_ok=True)
    compared(f"{nginx.url}/answers.zarr", here)


def test_a_copy_is_refused_unless_its_contents_are_compared(there) -> None:
    with pytest.raises(StaleError, match=r"adopt=True \(--adopt\)"):
        cfagg.open_accumulated(there, "tas").mean("time")


@pytest.mark.parametrize("tag", [None, 'W/"as before"', '""'])
def test_a_server_without_strong_tags_cannot_prove_that_anything_is_fresh(here, tag: str | None) -> None:
    with served(here.parent) as server:
        server.dated, server.tag = True, tag
        with pytest.raises(UnsupportedError, match="no strong ETag"):
            cfagg.open_accumulated(f"{server.url}/{here.name}", "tas", adopt=True)


@pytest.mark.parametrize("root", [b"{", b"[]", b'{"consolidated_metadata": {"metadata": []}}'])
def test_an_accumulation_is_opened_whatever_the_root_of_the_store_says(here, tmp_path, root: bytes) -> None:
    shutil.copytree(here, tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / "zarr.json").write_bytes(root)
    with served(tmp_path) as server:
        server.dated, server.tag = True, '"as before"'
        found = cfagg.open_accumulated(f"{server.url}/a.zarr", "tas", adopt=True, trust_for=60).sum("time")
    np.testing.assert_array_equal(found, cfagg.open_accumulated(here, "tas").sum("time"))


def test_arrays_of_an_accumulation_that_the_root_of_the_store_lists_otherwise_are_opened_by_themselves(here, tmp_path):
    shutil.copytree(here, tmp_path / "a.zarr")
    listed = {
        str(path.parent.relative_to(here)): {**json.loads(path.read_text()), "data_type": "int32"}
        for path in here.glob("tas_accumulation_group/*/zarr.json")
    }
    (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps({"consolidated_metadata": {"metadata": listed}}))
    with served(tmp_path) as server:
        server.dated, server.tag = True, '"as before"'
        found = cfagg.open_accumulated(f"{server.url}/a.zarr", "tas", adopt=True, trust_for=60).sum("time")
    np.testing.assert_array_equal(found, cfagg.open_accumulated(here, "tas").sum("time"))


def replaced(bucket: Bucket, url: str, key: str, change) -> None:
    """Write an object anew."""
    name = f"{url.removeprefix(f's3://{bucket.name}/')}/{key}"
    body = bucket.client.get_object(Bucket=bucket.name, Key=name)["Body"].read()
    bucket.client.put_object(Bucket=bucket.name, Key=name, Body=change(body))


@pytest.mark.parametrize(
    "key", ["tas/c/2/0/0", *(pytest.param(k, marks=pytest.mark.soak) for k in ("lat/c/0", "tas/zarr.json"))]
)
def test_what_is_written_after_it_was_compared_makes_answers_stale(there, keyed, key) -> None:
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    acc.mean("time")

    def change(body: bytes) -> bytes:
        if not key.endswith("zarr.json"):
            return body[:-1] + bytes([body[-1] ^ 1])
        return body.replace(b'"NaN"', b"0.0")

    replaced(keyed, there, key, change)
    with pytest.raises(StaleError):
        acc.mean("time")
    with pytest.raises(StaleError):
        cfagg.open_accumulated(there, "tas", adopt=True)


@pytest.mark.soak
def test_chunks_that_an_answer_does_not_depend_on_may_be_written(there, keyed) -> None:
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    before = acc.mean("time", isel={"time": slice(0, 10)})
    replaced(keyed, there, "tas/c/7/0/0", lambda body: body[:-1] + b"x")
    xr.testing.assert_identical(acc.mean("time", isel={"time": slice(0, 10)}), before)


def test_a_chunk_that_is_gone_makes_answers_stale(there, keyed) -> None:
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    name = there.removeprefix(f"s3://{keyed.name}/")
    keyed.client.delete_object(Bucket=keyed.name, Key=f"{name}/tas/c/2/0/0")
    with pytest.raises(StaleError, match="no longer stored"):
        acc.mean("time")


@pytest.mark.soak
def test_another_group_in_its_place_is_seen(there, keyed) -> None:
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    replaced(keyed, there, "tas_accumulation_group/zarr.json", lambda body: body + b"\n")
    with pytest.raises(StaleError, match="rebuilt or removed"):
        acc.mean("time")


def test_sums_that_are_damaged_are_found_by_their_checksums(there, keyed) -> None:
    group = f"{there.removeprefix(f's3://{keyed.name}/')}/tas_accumulation_group"
    for key in keyed.keys(group):
        if "/acc_" in key and "/c." in key:
            keyed.client.put_object(Bucket=keyed.name, Key=key, Body=b"damaged")
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    with pytest.raises(FragmentReadError, match="the accumulation is damaged"):
        acc.mean("time", isel={"time": slice(5, 30)})


def test_objects_that_were_written_this_second_are_waited_for(there, monkeypatch) -> None:
    monkeypatch.setattr(source, "_COARSE_TICK", 3600.0)
    waits: list[float] = []

    def waited(seconds: float) -> None:
        waits.append(seconds)
        monkeypatch.setattr(source, "_COARSE_TICK", 0.0)

    monkeypatch.setattr(source.time, "sleep", waited)
    cfagg.open_accumulated(there, "tas", adopt=True)
    assert 3500 < waits[0] <= 3600


@pytest.mark.soak
def test_a_group_of_another_program_answers_as_it_does_here(keyed, tmp_path) -> None:
    folder = made(tmp_path / "a.zarr", 2, dims=[("time",)], statistics=None)
    attributes = folder / "tas_accumulation_group" / ".zattrs"
    attributes.write_text(json.dumps({k: v for k, v in json.loads(attributes.read_text()).items() if k != "cfagg"}))
    with pytest.warns(StaleAccumulationWarning):
        here = cfagg.open_accumulated(folder, "tas")
    url = keyed.put(folder, "foreign")
    with pytest.warns(StaleAccumulationWarning):
        there = cfagg.open_accumulated(url, "tas")
    xr.testing.assert_identical(there.mean("time"), here.mean("time"))
    with pytest.warns(StaleAccumulationWarning), pytest.raises(NotAccumulatedError, match="keeps no checksums"):
        cfagg.open_accumulated(url, "tas", adopt=True)


def test_what_is_not_there_is_told(there) -> None:
    with pytest.raises(NotAccumulatedError, match="has no accumulation"):
        cfagg.open_accumulated(there, "lat")
    with pytest.raises(SourceError, match="has no Zarr array 'pr'"):
        cfagg.open_accumulated(there, "pr")


@pytest.mark.soak
def test_it_pickles_without_secrets_and_answers_there(there, keyed) -> None:
    acc = cfagg.open_accumulated(there, "tas", adopt=True)
    xr.testing.assert_identical(pickle.loads(pickle.dumps(acc)).mean("time"), acc.mean("time"))
    assert keyed.secret.encode() not in pickle.dumps(acc)


def test_the_command_averages_at_a_url(there, capsys) -> None:
    words = ["mean", there, "tas", "--over", "time", "--select", "time=2001-01"]
    assert main(words) == 2
    assert "--adopt" in capsys.readouterr().err
    assert main([*words, "--adopt"]) == 0
    assert "mean" in capsys.readouterr().out
