"""The place of a store that is written to, in an object store."""

from __future__ import annotations

import pickle
import secrets
import signal
import time
import uuid

import pytest

from cfagg.errors import TargetError
from cfagg.writing.zarr import object_place
from cfagg.writing.zarr.place import CLAIM, Place, place_of
from tests.storage.remote.conftest import Bucket
from tests.writing.zarr.test_place import hold


@pytest.fixture
def url(keyed: Bucket) -> str:
    return f"s3://{keyed.name}/{uuid.uuid4().hex}"


@pytest.fixture
def place(url: str) -> Place:
    return place_of(url)


def data(place: Place, key: str) -> bytes | None:
    found = place.read(key)
    return None if found is None else found[0]


def test_what_is_put_is_read(place: Place) -> None:
    with place.writer("writing"):
        place.put("c/0", b"one", new=True)
        place.put("c/0", b"two", new=True)
        place.put("c/1", b"three")
        assert data(place, CLAIM) is not None
    assert [data(place, key) for key in ("c/0", "c/1", "c/2", CLAIM)] == [b"two", b"three", None, None]
    place.delete(["c/0", "c/9"])
    assert data(place, "c/0") is None


def test_a_swap_needs_the_state_that_was_read(place: Place) -> None:
    tag = place.swap("zarr.json", b"1", None)
    read = place.read("zarr.json")
    assert read == (b"1", tag)
    place.swap("zarr.json", b"2", tag)
    with pytest.raises(TargetError, match="another process"):
        place.swap("zarr.json", b"3", tag)
    with pytest.raises(TargetError, match="another process"):
        place.swap("zarr.json", b"3", None)
    assert data(place, "zarr.json") == b"2"


def test_a_second_writer_is_refused(place: Place, url: str) -> None:
    with place.writer("appending"), pytest.raises(TargetError, match=r"appending there \(process \d+ of"):
        place_of(url).writer("appending").__enter__()
    with place_of(url).writer("appending") as claim:
        assert claim.left is None


def test_a_claim_of_a_killed_process_is_taken_over_with_what_it_recorded(place: Place, url: str) -> None:
    other = hold(url)
    with pytest.raises(TargetError, match="another process"), place.writer("appending"):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with place.writer("appending") as claim:
        assert claim.left == b"intent"
        claim.forget()
    assert data(place, CLAIM) is None


def test_a_claim_that_is_not_renewed_holds_for_two_minutes(place: Place, url: str, monkeypatch) -> None:
    now = time.time_ns
    with place.writer("appending"):
        monkeypatch.setattr(time, "time_ns", lambda: now() + 100 * 10**9)
        with pytest.raises(TargetError, match=r"its claim ends in \d+ s"):
            place_of(url).writer("appending").__enter__()
        monkeypatch.setattr(time, "time_ns", lambda: now() + 122 * 10**9)
        with place_of(url).writer("appending") as claim:
            assert claim.left is None


@pytest.mark.parametrize("end", [b"", b"\n", b" \n"])
def test_who_was_only_slow_publishes_nothing(
    place: Place, url: str, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: max(len(end) - 1, 0))  # random numbers may be anything
    root = place.swap("zarr.json", b"{}" + end, None)
    with place.writer("appending"):
        monkeypatch.setattr(object_place, "LEASE", -1.0)  # nor is the claim believed
        with place_of(url).writer("appending") as claim:
            assert claim.left is None
            with pytest.raises(TargetError, match="taken over"):
                place.put("c/0", b"x")
            # Between its look at the claim and the server's, the tag has changed.
            monkeypatch.setattr(type(place), "_check_claim", lambda self: None)
            with pytest.raises(TargetError, match="another process"):
                place.swap("zarr.json", b"{1}", root)
    assert data(place, "zarr.json").strip() == b"{}"  # type: ignore[union-attr]


def test_a_writer_in_another_process_writes_under_the_claim_of_the_first(place: Place) -> None:
    with place.writer("converting"):
        worker = pickle.loads(pickle.dumps(place))
        worker.put("c/0", b"x")
    assert data(place, "c/0") == b"x"
    with place.writer("converting"), pytest.raises(TargetError, match="taken over"):
        worker.put("c/0", b"y")


def test_what_was_recorded_stays_after_an_error(place: Place, url: str) -> None:
    def fail() -> None:
        with place.writer("appending") as claim:
            claim.record(b"intent")
            raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        fail()
    with place_of(url).writer("appending") as claim:
        assert claim.left == b"intent"
