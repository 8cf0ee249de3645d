"""Accumulations that are built into object stores: right, published at once, and nothing of former builds is left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation import accumulated as opened
from cfagg.accumulation import in_objects, opening
from cfagg.cli.main import main
from cfagg.errors import AccessError, CfaggError, NotAccumulatedError, StaleError, TargetError, TargetExistsError
from cfagg.storage.objects import ObjectStore
from cfagg.storage.remote import HttpSource
from tests.storage.remote.test_accumulated import LITTLE, MUCH, asked, made

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

pytestmark = pytest.mark.usefixtures("no_waits")

GROUP = "tas_accumulation_group"
CHUNKS = 10


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@pytest.fixture
def plain(once, tmp_path_factory: pytest.TempPathFactory):
    """Stores here with the same accumulations, by version of Zarr."""
    return lambda form, **settings: once(
        f"accumulating {form} {settings}",
        lambda: made(tmp_path_factory.mktemp("accumulating") / "a.zarr", form, **settings),
    )


def copied(folder: Path, objects: ObjectStore) -> None:
    """Copy a store without its accumulation."""
    for path in folder.rglob("*"):
        key = path.relative_to(folder).as_posix()
        if path.is_file() and not key.startswith(GROUP):
            objects.put(key, path.read_bytes())


def accumulated(cloud, **settings) -> cfagg.accumulation.report.Report:
    return cfagg.accumulate(cloud[0], "tas", storage_options=cloud[1], **{**LITTLE, **settings})


def compared(cloud, folder: Path) -> None:
    there = cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1], trust_for=60)
    for found, expected in zip(asked(there), asked(cfagg.open_accumulated(folder, "tas")), strict=True):
        xr.testing.assert_identical(found, expected)


@pytest.mark.parametrize(("zarr_format", "settings"), [(3, LITTLE), pytest.param(2, MUCH, marks=pytest.mark.soak)])
def test_an_accumulation_in_an_object_store_is_the_one_here(cloud, plain, zarr_format, settings) -> None:
    folder = plain(zarr_format, **settings)
    copied(folder, cloud[2])
    report = accumulated(cloud, **{"statistics": ("chunks",), **settings})
    assert (report.action, report.store) == ("built", cloud[0])
    compared(cloud, folder)


def test_chunks_are_asked_for_ahead_and_change_nothing_in_what_is_written(cloud, plain, monkeypatch) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    monkeypatch.setattr(secrets, "token_hex", lambda count: "ab" * count)  # names of builds are the same
    asked_for, counts, together, lock, wanted = set(), [], threading.Event(), threading.Lock(), 1

    def counting(part):
        def counted(self, key, *rest):
            if not key.startswith("tas/c/"):
                return part(self, key, *rest)
            with lock:
                asked_for.add(key)
                counts.append(len(asked_for))
                if len(asked_for) >= wanted:
                    together.set()
            assert together.wait(120), f"only {len(asked_for)} chunks are asked for at the same time"
            try:
                return part(self, key, *rest)
            finally:
                with lock:
                    asked_for.discard(key)

        return counted

    # In S3 the small reader asks, elsewhere obstore.
    for reader in (HttpSource, ObjectStore):
        monkeypatch.setattr(reader, "part", counting(reader.part))
    accumulated(cloud, workers=1)
    assert set(counts) == {1}
    one = {key: cloud[2].read(key) for key in cloud[2].listed(GROUP)}
    together.clear()
    wanted = CHUNKS - 1
    accumulated(cloud, overwrite=True)
    assert max(counts) >= CHUNKS - 1
    assert {key: cloud[2].read(key) for key in cloud[2].listed(GROUP)} == one


@pytest.mark.parametrize("what", ["vanishes", "changes", "fails"])
def test_a_chunk_that_is_lost_while_others_are_asked_for_fails_the_build(cloud, plain, monkeypatch, what) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    last, lock, met = f"tas/c/{CHUNKS - 1}/0/0", threading.Lock(), []

    def losing(part):
        def lost(self, key, *rest):
            with lock:
                if key.startswith("tas/c/") and not met:
                    met.append(key)
                    if what == "vanishes":
                        cloud[2].delete([last])
                    elif what == "changes":
                        cloud[2].put(last, cloud[2].read("tas/c/1/0/0"))
            if what == "fails" and key == last:
                raise OSError("no route")
            return part(self, key, *rest)

        return lost

    for reader in (HttpSource, ObjectStore):
        monkeypatch.setattr(reader, "part", losing(reader.part))
    with pytest.raises(CfaggError, match="no route" if what == "fails" else "run again when nothing writes"):
        accumulated(cloud)
    assert met
    assert not list(cloud[2].listed(GROUP))


@pytest.mark.full
def test_another_one_takes_its_place_and_leaves_nothing_of_it(cloud, plain) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    accumulated(cloud)
    before = set(cloud[2].listed(GROUP))
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        accumulated(cloud)
    assert set(cloud[2].listed(GROUP)) == before
    cloud[2].put(f"{GROUP}/acc_time.0123abcd/c.0.0.0", b"of a run that was killed")
    accumulated(cloud, overwrite=True)
    after = set(cloud[2].listed(GROUP))
    assert before & after == {f"{GROUP}/zarr.json"}
    assert len(after) == len(before)
    compared(cloud, plain(3, **LITTLE))


@pytest.mark.full
@pytest.mark.parametrize("key", ["zarr.json", pytest.param("acc_time", marks=pytest.mark.soak)])
def test_a_run_that_is_cut_short_changes_nothing(cloud, plain, monkeypatch, key) -> None:
    folder = plain(3, **LITTLE)
    copied(folder, cloud[2])
    put = ObjectStore.put

    def failing(self, name, *rest, **options):
        if name.startswith(f"{GROUP}/{key}"):
            raise KeyboardInterrupt
        return put(self, name, *rest, **options)

    for overwrite in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(ObjectStore, "put", failing)
            with pytest.raises(KeyboardInterrupt, match="was not written"):
                accumulated(cloud, overwrite=overwrite)
        if overwrite:
            compared(cloud, folder)
        else:
            with pytest.raises(NotAccumulatedError):
                cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1])
            assert not list(cloud[2].listed(GROUP))
            with pytest.raises(TargetExistsError, match="finish it with resume=True"):
                accumulated(cloud)
            assert accumulated(cloud, resume=True).resumed == CHUNKS


#: A run that is slow enough to be killed; it tells what it has done.
SCRIPT = """
import json, sys, time
import cfagg
from cfagg.accumulation import partials, source
source._COARSE_TICK, partials._TOGETHER = 0.0, 1  # one chunk at a time
calls = []
def slowly(done, total):
    calls.append(done)
    print(done, flush=True)
    time.sleep(600 if len(calls) == 5 else 0)  # until it is killed
cfagg.accumulate(sys.argv[1], "tas", dims=[("time",)], statistics=None, workers=1, progress=slowly,
                 storage_options=json.loads(sys.argv[2]))
"""


@pytest.fixture
def killed(bucket, plain, home):
    """The place of an accumulation whose run was killed when half of the chunks were read."""
    url = f"s3://{bucket.name}/killed/{uuid.uuid4().hex}.zarr"
    cloud = url, bucket.options, ObjectStore(url, bucket.options)
    copied(plain(3, **LITTLE), cloud[2])
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, url, json.dumps(cloud[1])], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(home)},
    )  # fmt: skip
    assert run.stdout is not None
    for _ in range(5):
        assert run.stdout.readline()
    run.kill()
    run.communicate(timeout=600)
    assert run.returncode == -signal.SIGKILL
    assert not list(cloud[2].listed(GROUP))
    return cloud


def test_a_run_that_was_killed_is_finished_and_reads_no_chunk_again(killed, plain, home) -> None:
    (left,) = home.iterdir()
    assert left.stat().st_mode & 0o777 == 0o700
    assert not any(killed[1]["secret_access_key"].encode() in p.read_bytes() for p in left.rglob("*") if p.is_file())
    with pytest.raises(TargetExistsError, match="resume=True"):
        accumulated(killed)
    assert accumulated(killed, resume=True).resumed == 4 < CHUNKS
    compared(killed, plain(3, **LITTLE))
    assert list(home.iterdir()) == []
    assert accumulated(killed, resume=True).action == "up to date"


@pytest.mark.full
def test_chunks_that_were_written_since_are_read_again(killed, plain, home) -> None:
    folder = plain(3, **LITTLE)
    killed[2].put("tas/c/0/0/0", (folder / "tas/c/0/0/0").read_bytes())
    first = accumulated(killed, resume=True)
    assert 3 <= first.resumed < CHUNKS
    compared(killed, folder)


@pytest.mark.full
def test_it_is_begun_anew_where_that_is_asked_for_or_nothing_is_left(killed, plain, home) -> None:
    assert accumulated(killed, overwrite=True).resumed == 0
    (left,) = [*home.iterdir(), None]
    assert left is None
    compared(killed, plain(3, **LITTLE))
    accumulated(killed, overwrite=True, resume=True)


@pytest.mark.full
def test_a_directory_of_somebody_else_is_not_worked_in(killed, home, monkeypatch) -> None:
    monkeypatch.setattr(in_objects.os, "getuid", lambda: os.geteuid() + 1)
    (left,) = home.iterdir()
    left.rename(home / left.name.replace(f"-{os.geteuid()}-", f"-{os.geteuid() + 1}-"))
    with pytest.raises(TargetError, match="was not made by cfagg"):
        accumulated(killed, resume=True)


def test_of_two_runs_one_publishes_and_the_other_leaves_it_as_it_is(cloud, plain, tmp_path, monkeypatch) -> None:
    folder = plain(3, **LITTLE)
    copied(folder, cloud[2])
    publish = in_objects.Place.publish

    def late(self, *before) -> None:
        monkeypatch.setattr(in_objects.Place, "publish", publish)
        with pytest.raises(TargetError, match=f"another process is accumulating into {cloud[0]}"):
            accumulated(cloud)
        with monkeypatch.context() as patch:  # as on another machine
            patch.setattr(tempfile, "tempdir", str(tmp_path))
            accumulated(cloud)
        assert list(tmp_path.glob("cfagg-*")) == []
        publish(self, *before)

    monkeypatch.setattr(in_objects.Place, "publish", late)
    with pytest.raises(TargetExistsError, match="written by another run meanwhile"):
        accumulated(cloud)
    compared(cloud, folder)
    names = {key.split("/")[1].rpartition(".")[2] for key in cloud[2].listed(GROUP)}
    assert len(names) == 2  # of one build, and the metadata


@pytest.mark.soak
def test_what_a_later_run_has_written_so_far_is_left(cloud, plain, monkeypatch) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    accumulated(cloud)
    later = f"{GROUP}/acc_time.ffffffff/c.0.0.0"
    monkeypatch.setattr(in_objects.Place, "_consolidate", lambda self, *_: self.objects.put(later, b"of a later run"))
    accumulated(cloud, overwrite=True)
    assert cloud[2].read(later) == b"of a later run"


def test_in_a_container_too_one_accumulation_takes_the_place_of_another(container, plain) -> None:
    url = f"az://{container.name}/accumulating/two.zarr"
    cloud = url, container.options, ObjectStore(url, container.options)
    copied(plain(3, **LITTLE), cloud[2])
    for _ in range(2):
        accumulated(cloud, overwrite=True)
    compared(cloud, plain(3, **LITTLE))
    with pytest.raises(TargetExistsError, match="another process"):
        cloud[2].put(f"{GROUP}/zarr.json", b"{}", match='"0x0"')


@pytest.mark.soak
def test_metadata_whose_answer_was_lost_count_as_written(cloud, plain, monkeypatch) -> None:
    folder = plain(3, **LITTLE)
    copied(folder, cloud[2])
    put = ObjectStore.put

    def lost(self, name, *rest, **options):
        put(self, name, *rest, **options)
        if name == f"{GROUP}/zarr.json":
            raise TargetExistsError("it is there already")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", lost)
        accumulated(cloud)
    compared(cloud, folder)


def test_what_is_written_while_it_is_read_is_refused(cloud, plain, monkeypatch) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    build = in_objects.build

    def meanwhile(*args):
        from cfagg.accumulation import building

        def finished(*more):
            cloud[2].put("tas/c/0/0/0", b"other")
            return finish(*more)

        finish = building.finish
        monkeypatch.setattr(building, "finish", finished)
        return build(*args)

    monkeypatch.setattr(in_objects, "build", meanwhile)
    with pytest.raises(StaleError, match="run again when nothing writes to it"):
        accumulated(cloud)
    assert not list(cloud[2].listed(GROUP))


def test_what_is_written_while_an_accumulation_is_opened_is_noticed(cloud, plain, monkeypatch) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    accumulated(cloud)
    labels_of = opened.labels_of

    def meanwhile(group):
        found = labels_of(group)
        cloud[2].put("tas/zarr.json", cloud[2].read("tas/zarr.json").replace(b'"shape"', b'"other": 1, "shape"', 1))
        return found

    monkeypatch.setattr(opened, "labels_of", meanwhile)
    with pytest.raises(StaleError):
        cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1])


def test_one_that_is_built_anew_while_it_is_opened_is_opened(cloud, plain, monkeypatch) -> None:
    folder = plain(3, **LITTLE)
    copied(folder, cloud[2])
    accumulated(cloud)
    opens, groups = opening._open, []

    def meanwhile(*args, **how):
        if not groups:
            groups.append("former")
            with ThreadPoolExecutor(1) as other:
                other.submit(accumulated, cloud, overwrite=True).result()
        return opens(*args, **how)

    monkeypatch.setattr(opening, "_open", meanwhile)
    compared(cloud, folder)


@pytest.mark.soak
def test_what_is_written_afterwards_makes_answers_stale(cloud, plain) -> None:
    copied(plain(3, **LITTLE), cloud[2])
    accumulated(cloud)
    there = cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1])
    there.mean("time")
    cloud[2].put("tas/c/0/0/0", b"other")
    with pytest.raises(StaleError):
        there.mean("time")


@pytest.mark.soak
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_tell_of_the_arrays_that_are_there(cloud, tmp_path, zarr_format) -> None:
    folder = made(tmp_path / "a.zarr", zarr_format, **LITTLE)
    zarr.consolidate_metadata(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            cloud[2].put(path.relative_to(folder).as_posix(), path.read_bytes())
    accumulated(cloud, overwrite=True)
    name = "zarr.json" if zarr_format == 3 else ".zmetadata"
    root = json.loads(cloud[2].read(name))
    told = root["consolidated_metadata"]["metadata"] if zarr_format == 3 else root["metadata"]
    listed = {k.split("/")[1] for k in told if k.startswith(f"{GROUP}/")}
    there = {k.split("/")[1] for k in cloud[2].listed(GROUP) if k.count("/") > 1}
    assert listed == (there if zarr_format == 3 else set())


@pytest.mark.full
def test_a_run_that_was_overtaken_leaves_consolidated_metadata_to_the_later_one(cloud, tmp_path, monkeypatch) -> None:
    folder = made(tmp_path / "a.zarr", 3, **LITTLE)
    zarr.consolidate_metadata(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            cloud[2].put(path.relative_to(folder).as_posix(), path.read_bytes())
    consolidate = in_objects.Place._consolidate

    def overtaken(self, *rest) -> None:
        monkeypatch.setattr(in_objects.Place, "_consolidate", consolidate)
        with monkeypatch.context() as patch:  # as on another machine
            patch.setattr(tempfile, "tempdir", str(tmp_path))
            accumulated(cloud, overwrite=True)
        consolidate(self, *rest)

    monkeypatch.setattr(in_objects.Place, "_consolidate", overtaken)
    accumulated(cloud, overwrite=True)
    told = json.loads(cloud[2].read("zarr.json"))["consolidated_metadata"]["metadata"]
    listed = {k.split("/")[1] for k in told if k.startswith(f"{GROUP}/")}
    assert listed == {k.split("/")[1] for k in cloud[2].listed(GROUP) if k.count("/") > 1}


def days(folder: Path, zarr_format: int, count: int, last: float | None = None, since: int = 0) -> Path:
    """Make a store without an accumulation, of so many days."""
    values = np.arange(count * 4 * 6, dtype="f4").reshape(count, 4, 6)
    values[3, 1, 2] = np.nan
    if last is not None:
        values[0] = last
    tas = xr.DataArray(
        values, {"time": np.arange(count) + since}, ("time", "lat", "lon"), name="tas", attrs={"units": "K"}
    )
    tas.to_dataset().to_zarr(
        folder, zarr_format=zarr_format, encoding={"tas": {"chunks": (5, 4, 6)}}, consolidated=True
    )
    return folder


def updated(folder: Path, objects: ObjectStore) -> None:
    """Write what is different from what is there."""
    for path in folder.rglob("*"):
        key = path.relative_to(folder).as_posix()
        if path.is_file() and objects.read(key) != path.read_bytes():
            objects.put(key, path.read_bytes())


def answers(cloud, folder: Path) -> None:
    """Compare the mean of all days with that of the values."""
    found = cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1]).mean("time").values
    values = xr.open_zarr(folder)["tas"].values.astype("f8")
    np.testing.assert_allclose(found, np.nanmean(values, axis=0), rtol=1e-12)


@pytest.mark.parametrize("zarr_format", [3, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("option", ["append", pytest.param("refresh", marks=pytest.mark.soak)])
def test_an_array_that_has_grown_is_appended_to_its_accumulation(cloud, tmp_path, zarr_format, option) -> None:
    updated(days(tmp_path / "a.zarr", zarr_format, 50), cloud[2])
    assert accumulated(cloud).chunks == 10
    before = set(cloud[2].listed(GROUP))
    updated(days(tmp_path / "b.zarr", zarr_format, 57), cloud[2])
    with pytest.raises(StaleError):
        answers(cloud, tmp_path / "b.zarr")
    report = accumulated(cloud, **{option: True})
    assert (report.action, report.chunks) == ("appended", 2)
    answers(cloud, tmp_path / "b.zarr")
    assert not {key for key in before & set(cloud[2].listed(GROUP)) if key.count("/") > 1}
    assert accumulated(cloud, **{option: True}).action == "up to date"


@pytest.mark.full
def test_an_array_that_was_written_is_summed_again_by_a_refresh_and_not_appended_to(cloud, tmp_path) -> None:
    updated(days(tmp_path / "a.zarr", 3, 50), cloud[2])
    accumulated(cloud)
    updated(days(tmp_path / "b.zarr", 3, 50, last=7.0), cloud[2])
    with pytest.raises(StaleError, match="refresh=True"):
        accumulated(cloud, append=True)
    assert accumulated(cloud, refresh=True).action == "rebuilt"
    answers(cloud, tmp_path / "b.zarr")


@pytest.mark.full
@pytest.mark.parametrize("zarr_format", [3, pytest.param(2, marks=pytest.mark.soak)])
def test_a_copy_with_its_accumulation_is_adopted_once_for_all(cloud, plain, zarr_format) -> None:
    folder = plain(zarr_format, **LITTLE)
    updated(folder, cloud[2])
    before = set(cloud[2].listed())
    with pytest.raises(StaleError, match="adopt"):
        compared(cloud, folder)
    report = accumulated(cloud, adopt=True)
    assert report.action == "adopted"
    assert "are the same" in report.notes[0]
    compared(cloud, folder)
    assert len(set(cloud[2].listed())) == len(before)
    assert accumulated(cloud, adopt=True).action == "up to date"
    consolidated = cloud[2].read("zarr.json" if zarr_format == 3 else ".zmetadata")
    listed = {key.split("/")[1] for key in cloud[2].listed(GROUP) if key.count("/") > 1}
    if b"consolidated_metadata" in consolidated and zarr_format == 3:
        told = json.loads(consolidated)["consolidated_metadata"]["metadata"]
        assert {key.split("/")[1] for key in told if key.startswith(f"{GROUP}/")} == listed


def test_a_copy_with_other_contents_is_not_adopted(cloud, plain, tmp_path) -> None:
    updated(plain(3, **LITTLE), cloud[2])
    key = next(k for k in cloud[2].listed("tas") if "/c/" in k)
    cloud[2].put(key, cloud[2].read(key)[:-1] + b"x")
    before = {k: cloud[2].read(k) for k in cloud[2].listed(GROUP)}
    with pytest.raises(StaleError):
        accumulated(cloud, adopt=True)
    assert {k: cloud[2].read(k) for k in cloud[2].listed(GROUP)} == before


@pytest.mark.full
def test_an_adoption_that_is_cut_short_changes_nothing(cloud, plain, monkeypatch) -> None:
    updated(plain(3, **LITTLE), cloud[2])
    before = set(cloud[2].listed())
    put = ObjectStore.put

    def failing(self, name, *rest, **options):
        if name == f"{GROUP}/zarr.json":
            raise KeyboardInterrupt
        return put(self, name, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", failing)
        with pytest.raises(KeyboardInterrupt):
            accumulated(cloud, adopt=True)
    assert set(cloud[2].listed()) == before
    accumulated(cloud, adopt=True)
    compared(cloud, plain(3, **LITTLE))


@pytest.mark.full
def test_coordinates_that_were_written_again_are_known_anew_by_a_refresh(cloud, tmp_path) -> None:
    updated(days(tmp_path / "a.zarr", 3, 50), cloud[2])
    accumulated(cloud)
    folder = days(tmp_path / "b.zarr", 3, 50, since=1)
    updated(folder, cloud[2])
    with pytest.raises(StaleError):
        answers(cloud, folder)
    assert accumulated(cloud, refresh=True).action == "up to date"
    answers(cloud, folder)


def test_secrets_are_not_sent_to_workers() -> None:
    secret = {"access_key_id": "some", "secret_access_key": "unlikely-to-be-said"}
    with pytest.raises(AccessError, match="in the environment of the workers") as caught:
        cfagg.accumulate("s3://bucket/a.zarr", "tas", client="tcp://127.0.0.1:9", storage_options=secret)
    assert "unlikely" not in str(caught.value)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_the_workers_of_a_cluster_read_what_is_there(keyed, tmp_path, processes) -> None:
    distributed = pytest.importorskip("distributed")
    url = f"s3://{keyed.name}/accumulating/cluster-{processes}.zarr"
    updated(days(tmp_path / "a.zarr", 3, 50), ObjectStore(url, keyed.options))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=processes, dashboard_address=None
    ) as cluster:
        report = cfagg.accumulate(url, "tas", client=cluster.scheduler_address, **LITTLE)
    assert (report.action, report.chunks) == ("built", 10)
    answers((url, None), tmp_path / "a.zarr")


@pytest.mark.soak
def test_the_command_accumulates_and_averages_there(keyed, plain, capsys) -> None:
    url = f"s3://{keyed.name}/accumulating/command.zarr"
    copied(plain(3, **LITTLE), ObjectStore(url, keyed.options))
    assert main(["accumulate", url, "tas", "--dims", "time", "--statistics", "none", "--dry-run"]) == 0
    assert main(["accumulate", url, "tas", "--dims", "time", "--statistics", "none"]) == 0
    assert main(["mean", url, "tas", "--over", "time", "--json"]) == 0
    assert keyed.secret not in capsys.readouterr().out


def _wrong() -> dict[str, str]:
    return {"token": "bm9uZQ=="}


def test_wrong_keys_are_told_before_any_work(cloud) -> None:
    name = {"s3": "secret_access_key", "az": "account_key", "gs": "credentials"}[cloud[0][:2]]
    wrong = {**cloud[1], name: _wrong if name == "credentials" else "bm9uZQ=="}
    with pytest.raises(CfaggError, match="may not be read"):
        cfagg.accumulate(cloud[0], "tas", storage_options=wrong)
