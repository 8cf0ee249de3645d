"""Conversions into object stores: what stands there is what stands here, and nothing opens before it is complete."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.cli.main import main
from cfagg.demo import sample
from cfagg.errors import (
    AccessError,
    CfaggError,
    CfaggWarning,
    SourceError,
    StaleError,
    TargetError,
    TargetExistsError,
    UnsupportedError,
)
from cfagg.runtime.object_publishing import ROOT_DOCUMENTS, NewStore
from cfagg.storage.objects import ObjectStore

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

SOURCE = Path(sample("test1.nc"))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_in_a_bucket_is_what_a_conversion_writes_here(cloud, tmp_path, zarr_format) -> None:
    url, options, objects = cloud
    report = cfagg.convert(SOURCE, url, zarr_format=zarr_format, verify=True, target_options=options)
    assert report.target == url
    cfagg.convert(SOURCE, tmp_path / "here.zarr", zarr_format=zarr_format)
    here = {str(p.relative_to(tmp_path / "here.zarr")) for p in (tmp_path / "here.zarr").rglob("*") if p.is_file()}
    assert set(objects.listed()) == {k for k in here if not k.startswith(".cfagg")}
    there = cfagg.read(url, storage_options=options).load()
    xr.testing.assert_identical(there, cfagg.read(tmp_path / "here.zarr").load())


def test_what_is_there_is_kept_unless_it_may_be_replaced(cloud) -> None:
    url, options, objects = cloud
    cfagg.convert(SOURCE, url, target_options=options)
    before = sorted(objects.listed())
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        cfagg.convert(SOURCE, url, target_options=options)
    assert sorted(objects.listed()) == before
    with pytest.warns(CfaggWarning, match="removed before the new store is written"):
        cfagg.convert(sample("storms.nc"), url, target_options=options, overwrite=True)
    assert not set(objects.listed()) & {k for k in before if "tas" in k}


def test_objects_that_are_no_store_are_never_removed(cloud) -> None:
    url, options, objects = cloud
    objects.put("letter.txt", b"mine")
    for overwrite in (False, True):
        with pytest.raises(TargetError, match="do not form a Zarr store"):
            cfagg.convert(SOURCE, url, target_options=options, overwrite=overwrite)
    assert objects.read("letter.txt") == b"mine"


def test_a_conversion_that_is_cut_short_leaves_no_store_and_is_begun_anew(cloud, monkeypatch) -> None:
    url, options, objects = cloud
    put = ObjectStore.put

    def failing(self, key, data, *, create=False):
        if key == "zarr.json":
            raise KeyboardInterrupt
        return put(self, key, data, create=create)

    monkeypatch.setattr(ObjectStore, "put", failing)
    with pytest.raises(KeyboardInterrupt):
        cfagg.convert(SOURCE, url, target_options=options)
    monkeypatch.undo()
    assert objects.size("zarr.json") is None
    with pytest.raises(TargetExistsError, match="incomplete"):
        cfagg.convert(SOURCE, url, target_options=options)
    with pytest.warns(CfaggWarning, match="removed before"):
        cfagg.convert(SOURCE, url, target_options=options, overwrite=True)
    assert ".cfagg-partial" not in set(objects.listed())


@pytest.mark.parametrize("key", [".cfagg-partial", "zarr.json"])
def test_a_run_that_finds_another_one_at_its_end_publishes_nothing(cloud, key) -> None:
    _, _, objects = cloud
    place = NewStore(objects, overwrite=False)
    place.begin()
    objects.put(key, b"of another run")
    with pytest.raises(TargetExistsError, match=r"another run|another process"):
        place.publish({"v/zarr.json": b"{}", "zarr.json": b"{}"})
    assert objects.read(key) == b"of another run"


def test_who_was_overtaken_changes_nothing_of_the_store_that_stands_there(cloud, tmp_path, monkeypatch) -> None:
    url, options, objects = cloud
    cfagg.convert(SOURCE, url, target_options=options)
    other = cfagg.read(SOURCE).load() + 1
    other.to_netcdf(tmp_path / "other.nc")
    put = ObjectStore.put

    def overtaken(self, key, *rest, **how):
        if "tas/" in key and not key.endswith("json"):
            monkeypatch.setattr(ObjectStore, "put", put)
            with pytest.warns(CfaggWarning, match="removed before"):
                cfagg.convert(tmp_path / "other.nc", url, target_options=options, overwrite=True)
        return put(self, key, *rest, **how)

    monkeypatch.setattr(ObjectStore, "put", overtaken)
    with pytest.warns(CfaggWarning, match="removed before"), pytest.raises(TargetExistsError):
        cfagg.convert(SOURCE, url, target_options=options, overwrite=True)
    np.testing.assert_array_equal(cfagg.read(url, storage_options=options).tas, other.tas)
    assert ".cfagg-partial" not in set(objects.listed())


def test_documents_are_not_left_over_the_chunks_of_a_run_that_came_in_between(cloud, monkeypatch) -> None:
    _, _, objects = cloud
    first, second = NewStore(objects, overwrite=True), NewStore(objects, overwrite=True)
    first.begin()
    objects.put("v/c/0", b"of the first")
    put = ObjectStore.put

    def overtaken(self, key, *rest, **how):
        if key == "v/zarr.json":
            monkeypatch.setattr(ObjectStore, "put", put)
            with pytest.warns(CfaggWarning, match="removed before"):
                second.begin()
            objects.put("v/c/1", b"of the second")
        return put(self, key, *rest, **how)

    monkeypatch.setattr(ObjectStore, "put", overtaken)
    with pytest.raises(TargetExistsError, match="taken over by another run"):
        first.publish({"v/zarr.json": b"{}", "zarr.json": b"{}"})
    assert objects.read("zarr.json") is None
    second.publish({"v/zarr.json": b"{}", "zarr.json": b"{}"})
    assert set(objects.listed()) == {"v/c/1", "v/zarr.json", "zarr.json"}


@pytest.mark.filterwarnings("ignore:.*removed before the new store")
@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_looks_while_another_replaces_the_store_does_not_take_it_for_something_else(
    cloud, monkeypatch, begun
) -> None:
    _, _, objects = cloud
    objects.put("zarr.json", b"{}")
    other, size, acts = NewStore(objects, overwrite=True), ObjectStore.size, []
    if begun:
        other.begin()

    def overtaken(self, key):
        found = None if begun else size(self, key)
        if not acts and (key not in ROOT_DOCUMENTS or not begun):
            acts.append(key)
            # The other one begins after the first look, or ends between those at the documents and at its mark.
            other.publish({"zarr.json": b"{}"}) if begun else other.begin()
        return size(self, key) if begun else found

    monkeypatch.setattr(ObjectStore, "size", overtaken)
    NewStore(objects, overwrite=True).check()
    assert acts


@pytest.mark.soak
def test_of_two_who_replace_a_store_at_once_nothing_is_mixed(cloud, tmp_path) -> None:
    url, options, _ = cloud
    for k in range(2):
        xr.Dataset({"v": (("t", "x"), np.random.default_rng(k).random((24, 5)))}).to_netcdf(tmp_path / f"{k}.nc")
    sources = [xr.open_dataset(tmp_path / f"{k}.nc").load() for k in range(2)]

    def run(k: int) -> int | None:
        time.sleep(random.random() * 0.4)
        try:
            cfagg.convert(tmp_path / f"{k}.nc", url, overwrite=True, chunks={"t": 1}, target_options=options)
        except TargetExistsError:
            return None
        return k

    for _ in range(12):
        with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
            warnings.simplefilter("ignore")
            done = {k for k in pool.map(run, range(2)) if k is not None}
        try:
            found = cfagg.read(url, storage_options=options).load()
        except SourceError:
            assert len(done) < 2  # who removed what was there was told that nothing took its place
            continue
        assert any(found.v.equals(sources[k].v) for k in done)


def test_a_chunk_whose_answer_was_lost_is_taken_for_written(cloud, monkeypatch) -> None:
    url, options, _ = cloud
    put = ObjectStore.put

    def twice(self, key, *rest, **how):
        if "tas/" in key and not key.endswith("json"):
            put(self, key, *rest, **how)
        return put(self, key, *rest, **how)

    monkeypatch.setattr(ObjectStore, "put", twice)
    cfagg.convert(SOURCE, url, target_options=options)
    xr.testing.assert_equal(cfagg.read(url, storage_options=options).tas, cfagg.read(SOURCE).tas)


@pytest.mark.parametrize(("resume", "remedy"), [(None, "; remove it"), (False, "finish it with resume=True")])
def test_what_a_killed_run_left_is_resumed_only_by_those_who_can(cloud, resume, remedy) -> None:
    _, _, objects = cloud
    NewStore(objects, overwrite=False).begin()
    with pytest.raises(TargetExistsError, match=f"interrupted run.*{remedy}"):
        NewStore(objects, overwrite=False, resume=resume).check()


def test_an_object_is_created_once(cloud) -> None:
    _, _, objects = cloud
    objects.put("once", b"1", create=True)
    with pytest.raises(TargetExistsError):
        objects.put("once", b"2", create=True)
    assert objects.read("once") == b"1"


def test_parts_of_objects_are_those_of_their_bytes(cloud) -> None:
    _, _, objects = cloud
    objects.put("x", bytes(range(100)))
    objects.put("empty", b"")
    assert objects.part("x", 10, 5).body == bytes(range(10, 15))
    assert objects.part("x", None, 5).body == bytes(range(95, 100))
    assert objects.part("x", 98, 10).body == bytes([98, 99])
    assert objects.part("x", 100, 10).body == b""
    assert objects.part("empty", 0, 10).body == b""
    assert objects.part("absent", 0, 10) is None
    assert (objects.read("absent"), objects.size("absent"), objects.size("x")) == (None, None, 100)
    before = objects.part("x", 0, 1).tag
    objects.put("x", bytes(100))
    assert objects.part("x", 0, 1).tag != before


def test_a_store_that_was_opened_with_secrets_is_not_pickled(cloud) -> None:
    _, options, objects = cloud
    with pytest.raises(AccessError, match="not sent to other processes"):
        pickle.dumps(objects)
    assert not any(v in repr(objects) for k, v in options.items() if "key" in k)


def _read(objects) -> tuple:
    return (
        objects.read("x"),
        objects.part("x", 1, 2),
        objects.size("x"),
        objects.read("absent"),
        objects.size("absent"),
        objects.sizes("folder", ["x", "absent"]),
    )


def test_a_forked_process_reads_by_the_small_reader(cloud) -> None:
    url, options, objects = cloud
    if url.startswith("gs"):
        pytest.skip("of Google, public buckets alone are read after a fork")
    objects.put("x", b"0123")
    objects.put("folder/x", b"01")
    here = _read(objects)
    assert (here[0], here[-1]) == (b"0123", [2, None])
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, pickle.dumps(_read(ObjectStore(url, options))))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as found:
        there = pickle.loads(found.read())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [(p.body, p.size, (p.tag or "").strip('"')) for p in (there[1], here[1])] == [
        (b"12", 4, (here[1].tag or "").strip('"'))
    ] * 2
    assert (there[0], *there[2:]) == (here[0], *here[2:])


def test_a_store_of_observations_is_read_from_any_object_store(cloud) -> None:
    from cfagg.observations.store import open_store

    url, options, objects = cloud
    published = Path(__file__).parents[2] / "observations" / "published" / "bisect.zarr"
    for path in published.rglob("*"):
        if path.is_file():
            objects.put(str(path.relative_to(published)), path.read_bytes())
    there, here = open_store(url, options=options), open_store(published)
    assert np.array_equal(there.data.read(0, there.rows), here.data.read(0, here.rows), equal_nan=True)
    assert there.identity == here.identity


def _buoy(start, end):
    import pandas as pd

    dates = pd.date_range(start, end, freq="6h", inclusive="left")
    return pd.DataFrame({"date": dates, "latitude": 45.0, "longitude": -20.0, "sst": np.arange(len(dates)) * 1.0})


def test_observations_are_built_into_a_bucket(cloud, tmp_path) -> None:
    url, options, objects = cloud
    dates = {"start": "2020-01-01", "end": "2020-01-31", "frequency": "1d"}
    recipe = {"dates": dates, "input": _buoy, "output": {"layout": "tabular"}}
    report = cfagg.create_observations(recipe, url, target_options=options)
    assert (report.path, report.rows) == (url, 124)
    cfagg.create_observations(recipe, tmp_path / "here.zarr")
    files = [p for p in (tmp_path / "here.zarr").rglob("*") if p.is_file() and not p.name.startswith(".cfagg")]
    here = [p.relative_to(tmp_path / "here.zarr").as_posix() for p in files]
    assert set(objects.listed()) == set(here)
    there = cfagg.open_observations(url, "2020-01-05", "2020-01-06", "[0,24)", "24h", storage_options=options)
    local = cfagg.open_observations(tmp_path / "here.zarr", "2020-01-05", "2020-01-06", "[0,24)", "24h")
    assert [s.tolist() for s in there] == [s.tolist() for s in local]
    with pytest.raises(TargetExistsError):
        cfagg.create_observations(recipe, url, target_options=options)
    with pytest.raises(UnsupportedError, match="append, resume and dry_run are not supported"):
        cfagg.create_observations(recipe, url, target_options=options, append=True)


def _put(url, options, results) -> None:
    try:
        ObjectStore(url, options).put("x", b"1")
        results.put(("written", ""))
    except CfaggError as error:
        results.put((type(error).__name__, str(error)))


def test_a_forked_process_writes_to_s3_and_is_told_that_it_cannot_elsewhere(cloud) -> None:
    url, options, objects = cloud
    objects.put("x", b"")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_put, args=(url, options, results))
    child.start()
    name, said = results.get(timeout=600)
    child.join(600)
    assert child.exitcode == 0
    if url.startswith("s3"):
        assert (name, objects.read("x")) == ("written", b"1")
    else:
        assert (name, objects.read("x")) == ("UnsupportedError", b"")
        assert "forked" in said


def test_the_command_writes_to_the_bucket_of_the_environment(keyed, capsys) -> None:
    assert main(["convert", str(SOURCE), "s3://archive/commanded/a.zarr"]) == 0
    capsys.readouterr()
    assert main(["convert", str(SOURCE), "s3://archive/commanded/a.zarr"]) == 2
    assert "s3://archive/commanded/a.zarr exists" in capsys.readouterr().err
    keys = [k.removeprefix("commanded/a.zarr/") for k in keyed.keys("commanded/")]
    assert "zarr.json" in keys
    objects = {k: keyed.client.get_object(Bucket="archive", Key=f"commanded/a.zarr/{k}")["Body"].read() for k in keys}
    store = {k: zarr.core.buffer.cpu.Buffer.from_bytes(v) for k, v in objects.items()}
    assert dict(zarr.open_group(store, mode="r").arrays())


def test_a_web_server_is_not_written_to() -> None:
    with pytest.raises(UnsupportedError, match="cannot be written yet"):
        cfagg.convert(SOURCE, "https://example.org/a.zarr")


def _wrong() -> dict[str, str]:
    return {"token": "d3Jvbmcgd3Jvbmcgd3Jvbmc="}


def test_wrong_keys_are_told_before_any_work(cloud) -> None:
    url, options, _ = cloud
    name = {"s3": "secret_access_key", "az": "account_key", "gs": "credentials"}[url[:2]]
    wrong = {**options, name: _wrong if name == "credentials" else _wrong()["token"]}
    with pytest.raises((AccessError, TargetError)) as caught:
        cfagg.convert(SOURCE, url, target_options=wrong)
    assert "d3Jvbmcg" not in str(caught.value)


def test_an_object_that_is_written_while_it_is_read_is_an_error(cloud) -> None:
    url, options = cloud[0], cloud[1]
    writing, reading = (ObjectStore(url, options) for _ in range(2))
    writing.put("a/0", b"x" * 10)
    assert reading.read_range("a/0", 0, 4) == b"xxxx"
    writing.put("a/0", b"y" * 10)
    for read in (lambda: reading.read_range("a/0", 4, 4), lambda: reading.read_edge("a/0", 4)):
        with pytest.raises(StaleError, match="open the store again"):
            read()
    assert writing.read_range("a/0", 0, 4) == b"yyyy"
    assert pickle.loads(pickle.dumps(ObjectStore(url, {"skip_signature": True})))._known == {}


def test_a_netcdf_file_in_a_bucket_is_what_a_conversion_writes_here(cloud, tmp_path) -> None:
    url, options, _ = cloud
    target = url.replace(".zarr", ".nc")
    report = cfagg.convert(SOURCE, target, verify=True, target_options=options)
    assert (report.target, report.verified) == (target, True)
    cfagg.convert(SOURCE, tmp_path / "here.nc")
    there = cfagg.read(target, storage_options=options).load()
    xr.testing.assert_identical(there, cfagg.read(tmp_path / "here.nc").load())
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        cfagg.convert(SOURCE, target, target_options=options)
    cfagg.convert(SOURCE, target, target_options=options, overwrite=True)
