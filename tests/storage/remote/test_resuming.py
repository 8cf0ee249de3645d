"""Conversions into object stores that were cut short are finished, and nothing of other runs is taken for theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import cfagg
from cfagg.conversion import journal
from cfagg.errors import TargetError, TargetExistsError
from cfagg.runtime.object_publishing import NewStore
from cfagg.storage.objects import ObjectStore

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

CHUNKS = 12

SCRIPT = """
import sys, json, time
import cfagg
from cfagg.conversion import journal
journal._SEND = 0.0
calls = []
def slowly(done, total):
    print(done, flush=True)
    time.sleep(600 if calls.append(done) or len(calls) == 6 else 0.05)  # until it is killed
options = {k: (lambda v=v: v) if isinstance(v, dict) else v for k, v in json.loads(sys.argv[3]).items()}
cfagg.convert(sys.argv[1], sys.argv[2], chunks={"x": 10}, workers=1, memory=200, progress=slowly,
              target_options=options)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of twelve chunks."""
    values = xr.DataArray(np.random.default_rng(1).normal(size=10 * CHUNKS), dims="x", name="v")
    values.to_netcdf(tmp_path / "a.nc")
    return tmp_path / "a.nc"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done is recorded at once."""
    monkeypatch.setattr(journal, "_SEND", 0.0)


def converted(source: Path, cloud, **options) -> cfagg.conversion.Report:
    small = {"chunks": {"x": 10}, "workers": 1, "memory": 200, "target_options": cloud[1]}
    return cfagg.convert(source, cloud[0], **{**small, **options})


def cut(monkeypatch: pytest.MonkeyPatch, source: Path, cloud, key: str = "v/c/7", error=KeyboardInterrupt) -> None:
    """Run a conversion until an object is to be written."""
    put = ObjectStore.put

    def failing(self, name, data, *, create=False):
        if name == key:
            raise error
        return put(self, name, data, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", failing)
        with pytest.raises(error):
            converted(source, cloud)


def finished(source: Path, cloud) -> None:
    url, options, objects = cloud
    found = cfagg.read(url, storage_options=options).load()
    np.testing.assert_array_equal(found["v"], xr.open_dataset(source)["v"])
    assert sorted(objects.listed()) == sorted(["zarr.json", "v/zarr.json", *(f"v/c/{i}" for i in range(CHUNKS))])


def test_a_run_that_was_cut_short_is_finished_without_its_chunks_being_written_again(cloud, source, monkeypatch):
    cut(monkeypatch, source, cloud)
    tags = {key: state.tag for key, state in cloud[2].objects("")}
    assert cloud[2].size("zarr.json") is None
    with pytest.raises(TargetExistsError, match=r"resume=True \(--resume\)"):
        converted(source, cloud)
    report = converted(source, cloud, resume=True)
    assert report.resumed == 7
    finished(source, cloud)
    kept = [key for key, state in cloud[2].objects("") if key.startswith("v/c") and tags.get(key) == state.tag]
    assert len(kept) >= report.resumed


@pytest.mark.soak
def test_it_is_finished_after_it_was_cut_short_twice(cloud, source, monkeypatch) -> None:
    cut(monkeypatch, source, cloud, "v/c/4")
    put = ObjectStore.put

    def failing(self, name, data, *, create=False):
        if name == "v/c/9":
            raise KeyboardInterrupt
        return put(self, name, data, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", failing)
        with pytest.raises(KeyboardInterrupt, match="finish it with"):
            converted(source, cloud, resume=True)
    assert converted(source, cloud, resume=True).resumed >= 7
    finished(source, cloud)


@pytest.mark.parametrize("key", ["v/zarr.json", "zarr.json"])
def test_a_run_that_was_cut_short_while_it_was_published_is_finished(cloud, source, monkeypatch, key) -> None:
    cut(monkeypatch, source, cloud, key)
    assert converted(source, cloud, resume=True).resumed == CHUNKS
    finished(source, cloud)


def test_a_run_that_was_cut_short_after_its_store_was_complete_is_finished(cloud, source, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            converted(source, cloud)
    assert converted(source, cloud, resume=True).resumed == CHUNKS
    finished(source, cloud)


def test_chunks_that_others_wrote_meanwhile_are_written_again(cloud, source, monkeypatch) -> None:
    cut(monkeypatch, source, cloud)
    cloud[2].put("v/c/1", b"something else")
    cloud[2].delete(["v/c/2"])
    converted(source, cloud, resume=True)
    finished(source, cloud)


@pytest.mark.parametrize("change", ["source", "options"])
def test_another_conversion_is_not_taken_for_the_one_that_was_cut_short(cloud, source, monkeypatch, change) -> None:
    cut(monkeypatch, source, cloud)
    before = sorted(cloud[2].listed())
    if change == "source":
        os.utime(source, ns=(1, 1))
    with pytest.raises(TargetError, match=rf"different settings \({change}\).*overwrite=True"):
        converted(source, cloud, resume=True, **({"codec": "gzip"} if change == "options" else {}))
    assert sorted(cloud[2].listed()) == before


def test_a_run_that_was_taken_over_stops_and_publishes_nothing(cloud, source, monkeypatch) -> None:
    record = NewStore.record

    def taken_over(self, data: bytes) -> None:
        if len(self._segments) == 3:
            self.objects.put(".cfagg-partial", b"another run")
        record(self, data)

    monkeypatch.setattr(NewStore, "record", taken_over)
    with pytest.raises(TargetExistsError, match="taken over by another run"):
        converted(source, cloud)
    assert cloud[2].size("zarr.json") is None


def test_a_chunk_that_another_run_wrote_before_the_end_is_found(cloud, source, monkeypatch) -> None:
    put = ObjectStore.put

    def twice(self, name, data, *, create=False):
        tag = put(self, name, data, create=create)
        if name == "v/c/11":
            put(self, "v/c/3", b"of another run")
        return tag

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "put", twice)
        with pytest.raises(TargetExistsError, match="another run wrote there at the same time"):
            converted(source, cloud)
    assert cloud[2].size("zarr.json") is None
    assert converted(source, cloud, resume=True).resumed == CHUNKS - 1
    finished(source, cloud)


def test_without_anything_to_resume_it_begins(cloud, source) -> None:
    assert converted(source, cloud, resume=True).resumed == 0
    finished(source, cloud)
    with pytest.raises(TargetExistsError, match="exists"):
        converted(source, cloud, resume=True)


@pytest.mark.soak
def test_verified_runs_read_everything_back_after_they_were_resumed(cloud, source, monkeypatch) -> None:
    cut(monkeypatch, source, cloud)
    report = converted(source, cloud, resume=True, verify=True)
    assert (report.verified, report.resumed) == (True, 0)
    finished(source, cloud)


@pytest.mark.soak
def test_a_process_that_is_killed_leaves_what_another_one_finishes(cloud, source) -> None:
    arguments = [str(source), cloud[0], json.dumps(cloud[1], default=lambda provider: provider())]
    killed = subprocess.Popen([sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    for _ in range(6):
        killed.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL
    assert cloud[2].size("zarr.json") is None
    assert 3 <= converted(source, cloud, resume=True).resumed < CHUNKS
    finished(source, cloud)
