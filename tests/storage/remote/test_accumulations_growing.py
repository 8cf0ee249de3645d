"""Accumulations in object stores that grow in their place: what is put, and what a killed process leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import cfagg
from cfagg.accumulation.accumulating import accumulated_arrays, update
from cfagg.errors import StaleError
from cfagg.storage.objects import ObjectStore
from cfagg.writing.zarr.object_place import ObjectPlace

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")

pytestmark = pytest.mark.usefixtures("no_waits")

GROUP = "tas_accumulation_group"
VALUES = np.random.default_rng(2).integers(-500, 500, (60, 4, 6)).astype("f4")


def put(cloud, folder: Path, start: int, stop: int) -> None:
    """Let the array there have so many steps, of which those from `start` on are new."""
    if not start:
        root = zarr.open_group(folder, mode="w")
        names = ("time", "lat", "lon")
        root.create_array("tas", shape=VALUES.shape, chunks=(3, 2, 6), dtype="f4", dimension_names=names)
    array = zarr.open_group(folder, mode="r+")["tas"]
    array.resize((stop, 4, 6))
    array[start:] = VALUES[start:stop]
    for path in folder.rglob("*"):
        if path.is_file() and (path.name == "zarr.json" or int(path.parent.parent.name) >= start // 3):
            cloud[2].put(path.relative_to(folder).as_posix(), path.read_bytes())


def answers(cloud, stop: int) -> None:
    there = cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1])
    found = there.mean("time", isel={"time": slice(1, stop - 1)})
    np.testing.assert_allclose(found, VALUES[1 : stop - 1].mean(0, dtype="f8"), rtol=1e-12)
    np.testing.assert_array_equal(there.max("time", isel={"time": slice(1, stop)}), VALUES[1:stop].max(0))


def test_an_accumulation_in_an_object_store_grows_with_its_array(cloud, tmp_path, monkeypatch) -> None:
    put(cloud, tmp_path / "a.zarr", 0, 7)
    cfagg.accumulate(cloud[0], "tas", storage_options=cloud[1])
    assert accumulated_arrays(cloud[0], cloud[1]) == ("tas",)
    written: list[str] = []
    real = ObjectStore.put

    def seen(store, key, *args, **options):
        written.append(key)
        return real(store, key, *args, **options)

    monkeypatch.setattr(ObjectStore, "put", seen)
    for start, stop in ((7, 8), (8, 20), (20, 21)):
        with monkeypatch.context() as patch:
            patch.setattr(ObjectStore, "put", real)
            put(cloud, tmp_path / "a.zarr", start, stop)
        with pytest.raises(StaleError):
            cfagg.open_accumulated(cloud[0], "tas", storage_options=cloud[1])
        written.clear()
        assert [r.action for r in update(cloud[0], storage_options=cloud[1])] == ["appended"]
        answers(cloud, stop)
    # Of each array the last chunks and the metadata, if they have changed, and the record.
    assert len(written) == len(set(written)) < 60
    assert written[0] == f"{GROUP}/.increment"
    assert f"{GROUP}/.increment" not in set(cloud[2].listed(GROUP))


@pytest.mark.full
@pytest.mark.parametrize(
    "last", [pytest.param(2, marks=pytest.mark.full), 15, pytest.param(-1, marks=pytest.mark.full)]
)
def test_a_killed_extension_there_is_finished_by_the_next(cloud, tmp_path, monkeypatch, last) -> None:
    put(cloud, tmp_path / "a.zarr", 0, 7)
    cfagg.accumulate(cloud[0], "tas", storage_options=cloud[1])
    for start, stop in ((7, 8), (8, 14)):
        put(cloud, tmp_path / "a.zarr", start, stop)
        left = [last]

        def killed(self, key, data, real=ObjectPlace.put, left=left, **options):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            real(self, key, data, **options)

        if stop == 14:
            with monkeypatch.context() as patch:
                patch.setattr(ObjectPlace, "put", killed)
                if last < 0:
                    patch.setattr(ObjectPlace, "delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt):
                    update(cloud[0], storage_options=cloud[1])
            assert f"{GROUP}/.increment" in set(cloud[2].listed(GROUP))
        else:
            update(cloud[0], storage_options=cloud[1])
    put(cloud, tmp_path / "a.zarr", 14, 16)
    update(cloud[0], storage_options=cloud[1])
    answers(cloud, 16)
    assert f"{GROUP}/.increment" not in set(cloud[2].listed(GROUP))


@pytest.mark.full
def test_a_group_that_another_run_wrote_meanwhile_stays(cloud, tmp_path, monkeypatch) -> None:
    put(cloud, tmp_path / "a.zarr", 0, 7)
    cfagg.accumulate(cloud[0], "tas", storage_options=cloud[1])
    put(cloud, tmp_path / "a.zarr", 7, 8)
    update(cloud[0], storage_options=cloud[1])
    put(cloud, tmp_path / "a.zarr", 8, 12)
    real = ObjectPlace.put
    once = []

    def slow(self, key, data, **options):
        if not once:
            once.append(key)
            cloud[2].delete([f"{GROUP}/.increment"])
            cfagg.accumulate(cloud[0], "tas", storage_options=cloud[1], overwrite=True)
        real(self, key, data, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectPlace, "put", slow)
        with pytest.raises(cfagg.errors.TargetError, match="another process"):
            update(cloud[0], storage_options=cloud[1])
    answers(cloud, 12)
