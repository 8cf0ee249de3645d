"""Google Cloud Storage, by a server that follows the documentation of its XML API."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.errors import TargetExistsError
from cfagg.storage.objects import ObjectStore
from tests.storage.remote.conftest import google_token
from tests.storage.remote.google import PAGE, Google

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")


@pytest.fixture
def place(google: Google) -> ObjectStore:
    """A place in the bucket."""
    return ObjectStore("gs://bucket/a.zarr", {**google.options, "credentials": google_token})


def test_an_object_is_replaced_only_in_the_state_that_was_seen(place: ObjectStore, google: Google) -> None:
    first = place.put("x", b"first", create=True)
    with pytest.raises(TargetExistsError):
        place.put("x", b"again", create=True)
    second = place.put("x", b"second", match=first)
    assert google.objects["a.zarr/x"].body == b"second"
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        place.put("x", b"third", match=first)
    with pytest.raises(TargetExistsError):
        place.put("absent", b"", match=second)
    assert sorted(google.objects) == ["a.zarr/x"]


def test_of_two_who_saw_the_same_state_one_replaces_it(place: ObjectStore, google: Google, monkeypatch) -> None:
    tag, look = place.put("x", b"first"), place._meta

    def overtaken(key: str):
        found = look(key)
        google.put("a.zarr/x", b"of another")
        return found

    monkeypatch.setattr(place, "_meta", overtaken)
    with pytest.raises(TargetExistsError, match="another process is writing there"):
        place.put("x", b"second", match=tag)
    assert google.objects["a.zarr/x"].body == b"of another"


@pytest.mark.full
def test_a_store_grows_there_with_its_sums(google: Google, tmp_path: Path) -> None:
    names, chunks = ("time", "x"), (4, 2)
    made = zarr.create_group(str(tmp_path / "a.zarr"))
    made.create_array("tas", data=np.arange(16.0).reshape(8, 2), chunks=chunks, dimension_names=names)
    for path in (tmp_path / "a.zarr").rglob("zarr.json"):
        google.put(f"a.zarr/{path.relative_to(tmp_path / 'a.zarr')}", path.read_bytes())
    for path in (tmp_path / "a.zarr/tas/c").rglob("*"):
        if path.is_file():
            google.put(f"a.zarr/{path.relative_to(tmp_path / 'a.zarr')}", path.read_bytes())
    options = {**google.options, "credentials": google_token}
    cfagg.accumulate("gs://bucket/a.zarr", "tas", dims=["time"], storage_options=options)
    more = xr.Dataset({"tas": (names, np.arange(16.0, 24).reshape(4, 2))})
    assert cfagg.append("gs://bucket/a.zarr", more, "time", storage_options=options).stop == 12
    for key, found in google.objects.items():
        path = tmp_path / "fetched" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found.body)
    there = zarr.open_group(str(tmp_path / "fetched/a.zarr"), mode="r")
    expected = np.arange(24.0).reshape(12, 2)
    np.testing.assert_array_equal(there["tas"][:], expected)
    (sums,) = (a for name, a in there["tas_accumulation_group"].arrays() if name.startswith("acc_time"))
    np.testing.assert_array_equal(sums[-1], expected.sum(0))
    assert not [key for key in google.objects if ".cfagg" in key]
    assert json.loads(google.objects["a.zarr/tas/zarr.json"].body)["shape"] == [12, 2]


def test_listings_of_several_pages_are_whole(place: ObjectStore) -> None:
    keys = [f"c/{n:03}" for n in range(PAGE + 7)]
    for key in keys:
        place.put(key, b"x")
    assert sorted(place.listed("c")) == keys
    assert [key for key, _ in place.objects("c")] == keys
    assert list(place.children("")) == ["c"]
    place.delete([*keys, "c/absent"])
    assert list(place.listed()) == []
