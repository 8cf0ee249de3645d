"""New Zarr stores in object stores."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import zarr

from cfagg.errors import CfaggWarning, TargetExistsError
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import a_place
from cfagg.writing.zarr.new_store import Stored, new_store
from tests.storage.remote.conftest import Bucket


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source.zarr"
    zarr.create_array(str(made), name="tas", data=np.arange(8), chunks=(4,))
    return made


def read(bucket: Bucket, prefix: str) -> list[int]:
    from obstore.store import S3Store
    from zarr.storage import ObjectStore

    options = {**bucket.options, "client_options": {"allow_http": True}, "region": "us-east-1"}
    store = ObjectStore(S3Store(bucket.name, prefix=prefix, **options), read_only=True)
    found = zarr.open_group(store, mode="r")["tas"]
    return [int(n) for n in found[:]]


def copy(source: Path, url: str, bucket: Bucket, *, overwrite: bool = False) -> None:
    with new_store(url, overwrite=overwrite, target_options=bucket.options) as place:
        for key in ("tas/c/0", "tas/c/1"):
            place.copy(key, Stored(str(source), f"{source}/{key}"))
        place.publish({p.relative_to(source).as_posix(): p.read_bytes() for p in source.rglob("zarr.json")})


def test_a_store_is_written_and_replaced_if_asked(source: Path, bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/new/a.zarr"
    copy(source, url, bucket)
    assert read(bucket, "new/a.zarr") == list(range(8))
    with pytest.raises(TargetExistsError, match="overwrite=True"):
        copy(source, url, bucket)
    with pytest.warns(CfaggWarning, match="is removed before"):
        copy(source, url, bucket, overwrite=True)
    assert read(bucket, "new/a.zarr") == list(range(8))


def test_the_documents_of_the_root_are_removed_first_and_written_last(
    source: Path, bucket: Bucket, monkeypatch
) -> None:
    url, done = f"s3://{bucket.name}/new/f.zarr", []
    copy(source, url, bucket)
    delete, put = ObjectStore.delete, ObjectStore.put

    def deleted(self, keys):
        done.append(("removed", sorted(keys)))
        delete(self, keys)

    def written(self, key, *given, **options):
        done.append(("written", key))
        return put(self, key, *given, **options)

    monkeypatch.setattr(ObjectStore, "delete", deleted)
    monkeypatch.setattr(ObjectStore, "put", written)
    with pytest.warns(CfaggWarning, match="is removed before"):
        copy(source, url, bucket, overwrite=True)
    assert [keys for what, keys in done if what == "removed"][:2] == [
        ["zarr.json"],
        ["tas/c/0", "tas/c/1", "tas/zarr.json"],
    ]
    assert [key for what, key in done if what == "written"][-2:] == ["tas/zarr.json", "zarr.json"]
    for number, names in enumerate((["zarr.json", "zz/zarr.json"], [".zgroup", ".zmetadata", "tas/.zarray"])):
        done.clear()
        with new_store(f"{url}.{number}", target_options=bucket.options) as place:
            place.publish(dict.fromkeys(names, b"{}"))
        found = [key for what, key in done if what == "written" and key in names]
        assert found[-1] in ("zarr.json", ".zgroup")
        assert sorted(found, key=lambda key: "/" not in key) == found


@pytest.mark.parametrize("key", [".cfagg-partial", "zarr.json"])
def test_a_run_that_finds_what_another_has_written_publishes_nothing(bucket: Bucket, key: str) -> None:
    url = f"s3://{bucket.name}/new/g{key}"
    objects = ObjectStore(url, bucket.options)

    def write() -> None:
        with new_store(url, target_options=bucket.options) as place:
            place.put("tas/c/0", b"x")
            objects.put(key, b"other")
            place.publish({"tas/zarr.json": b"{}", "zarr.json": b"{}"})

    with pytest.raises(TargetExistsError):
        write()
    if key != "zarr.json":  # the place of the other run is left alone
        assert {name: objects.read(name) for name in objects.listed()} == {"tas/c/0": b"x", key: b"other"}


def test_what_is_not_published_leaves_nothing(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/new/b.zarr"
    with new_store(url, target_options=bucket.options) as place:
        place.put("tas/c/0", b"x")
        assert bucket.keys("new/b.zarr/tas") == ["new/b.zarr/tas/c/0"]
    assert bucket.keys("new/b.zarr") == []


def test_two_do_not_write_one_store(bucket: Bucket) -> None:
    url = f"s3://{bucket.name}/new/c.zarr"
    with (
        new_store(url, target_options=bucket.options),
        pytest.raises(TargetExistsError, match="being written"),
        new_store(url, target_options=bucket.options),
    ):
        pass


def test_objects_are_copied_moved_and_removed(source: Path, keyed: Bucket) -> None:
    copy(source, f"s3://{keyed.name}/new/d.zarr", keyed)
    there = a_place(f"s3://{keyed.name}/new/d.zarr", None)
    with new_store(f"s3://{keyed.name}/new/e.zarr") as place:
        assert place.copy("tas/c/5", Stored(there, f"{there}/tas/c/1")) == (source / "tas/c/1").stat().st_size
        assert place.copy("tas/c/5", Stored(there, f"{there}/tas/c/7")) is None
        keys = pickle.loads(pickle.dumps(place.keys))
        keys.move("tas/c/5", "tas/c/1")
        keys.put("tas/c/0", (source / "tas/c/0").read_bytes())
        keys.put("__aside/8", b"")
        keys.end("__aside")
        place.publish({p.relative_to(source).as_posix(): p.read_bytes() for p in source.rglob("zarr.json")})
    assert read(keyed, "new/e.zarr") == list(range(8))
    assert len(keyed.keys("new/e.zarr/tas/c")) == 2
    assert not keyed.keys("new/e.zarr/__aside")
