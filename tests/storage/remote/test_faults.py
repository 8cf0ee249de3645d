"""Servers that fail in the middle of a job: the old is there or the new, and no answer is a wrong one."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

import cfagg
from cfagg.accumulation import source
from cfagg.errors import CfaggError, CfaggWarning, TargetError, TargetExistsError
from cfagg.storage import transport
from cfagg.storage.objects import ObjectStore
from cfagg.writing.zarr import object_place
from tests.observations.servers import on_new_port
from tests.storage.remote.conftest import Bucket
from tests.storage.remote.test_accumulated import LITTLE, made
from tests.writing.zarr.test_appending import series, write

pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata:UserWarning")

PAGE = b"<html><body>Please log in.</body></html>"

#: What happens instead of an answer.
FAULTS = ("500", "503", "429", "403", "page", "cut", "away", "lost", "hang up", "slow", "tag", "garbage")


class Faulty:
    """What stands before an S3 server, and fails at one request, or at all from that on."""

    def __init__(self, behind: str, elsewhere: str) -> None:
        self.behind, self.elsewhere = urlsplit(behind), elsewhere
        self.seen: list[str] = []
        self.fault, self.at, self.lasting = "", -1, False
        self.chance, self.rate = Random(0), 0.0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):
                    outer.answer(self)

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

        self._http = on_new_port(Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def begin(self, fault: str = "", at: int = -1, lasting: bool = False) -> None:
        """Fail from now on at a request, the first of which is 0."""
        with self._lock:
            self.seen.clear()
            self.fault, self.at, self.lasting, self.rate = fault, at, lasting, 0.0

    def begin_at_random(self, seed: int, rate: float) -> None:
        """Fail from now on at some requests, in any way."""
        self.begin()
        self.chance, self.rate = Random(seed), rate

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._lock:
            number = len(self.seen)
            self.seen.append(f"{request.command} {request.path}")
            failing = number == self.at or (self.lasting and number >= self.at >= 0)
            fault = self.fault if failing else ""
            if self.rate and self.chance.random() < self.rate:
                fault = self.chance.choice(FAULTS)
        if fault == "hang up":
            request.close_connection = True
            return
        own = {"500": 500, "503": 503, "429": 429, "403": 403, "page": 200, "away": 307}
        if fault in own:
            more = {
                "429": ("Retry-After", "0"),
                "503": ("Retry-After", "0"),
                "away": ("Location", f"{self.elsewhere}{request.path}"),
            }.get(fault)
            self._send(request, own[fault], [more] if more else [], PAGE)
            return
        if fault == "garbage":
            request.wfile.write(b"nothing that anybody knows\r\n\r\n")
            request.close_connection = True
            return
        asked = http.client.HTTPConnection(self.behind.hostname or "", self.behind.port, timeout=60)
        asked.request(request.command, request.path, body or None, dict(request.headers.items()))
        found = asked.getresponse()
        content = found.read()
        asked.close()
        if fault == "lost":
            request.close_connection = True
            return
        headers = [(n, v) for n, v in found.getheaders() if n.lower() not in ("connection", "transfer-encoding")]
        if fault == "tag":
            headers = [(n, '"another"' if n.lower() == "etag" else v) for n, v in headers]
        self._send(request, found.status, headers, content, fault)

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, status: int, headers: Any, body: bytes, fault: str = "") -> None:
        request.send_response_only(status)
        for name, value in headers:
            if name.lower() != "content-length" or request.command == "HEAD":
                request.send_header(name, value)
        if request.command != "HEAD" and status not in (204, 304):
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command == "HEAD" or status in (204, 304):
            return
        if fault == "cut":
            request.wfile.write(body[: len(body) // 2])
            request.close_connection = True
            return
        for start in range(0, len(body), 200) if fault == "slow" else [0]:
            request.wfile.write(body[start : start + 200] if fault == "slow" else body)
            if fault == "slow":
                request.wfile.flush()


@pytest.fixture
def faulty(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """A server that fails, before the bucket; nobody waits between attempts."""
    # Only there: what is made before waits for the clock of its files.
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    monkeypatch.setattr(source, "_COARSE_TICK", 0.0)
    other = on_new_port(BaseHTTPRequestHandler)
    server = Faulty(bucket.endpoint, f"http://127.0.0.1:{other.server_port}")
    yield server
    server.close()
    other.server_close()


class Job:
    """Something that is done at a place of a bucket."""

    #: Whether the place is what it was afterwards.
    reads = False

    def __init__(self, bucket: Bucket, server: str, folder: Path) -> None:
        self.bucket, self.folder, self.prefix = bucket, folder, uuid.uuid4().hex
        self.options = {**bucket.options, "endpoint": server}
        self.url = f"s3://{bucket.name}/{self.prefix}/a.zarr"

    def state(self) -> Any:
        """Return the values that a reader finds there, as nobody stands between; `None` where there is no store."""
        try:
            with cfagg.read(self.url, storage_options=self.bucket.options) as found:
                return {name: found[name].values for name in found.variables}
        except CfaggError:
            assert f"{self.prefix}/a.zarr/zarr.json" not in self.bucket.keys(f"{self.prefix}/")
            return None

    def prepare(self) -> None:
        """Make what is there before."""

    def run(self) -> Any:
        """Do it, and return the answer where there is one."""
        raise NotImplementedError


class Append(Job):
    def prepare(self) -> None:
        self.bucket.put(write(self.folder / self.prefix / "a.zarr", series(0, 5), 3), self.prefix)

    def run(self) -> None:
        cfagg.append(self.url, series(5, 3), "time", storage_options=self.options)


class Convert(Job):
    def run(self) -> None:
        path = self.folder / f"{self.prefix}.nc"
        xr.Dataset({"v": ("x", np.arange(40.0))}).to_netcdf(path)
        cfagg.convert(path, self.url, chunks={"x": 10}, workers=1, target_options=self.options)


class Rows(Job):
    def run(self) -> None:
        pieces = [partial(rows, n) for n in range(4)]
        cfagg.write_rows(pieces, self.url, chunk=40, target_options=self.options)


def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.full(3 * n, float(n)), np.arange(3 * n), np.array([0, n, 3 * n])


class Filtered(Job):
    def run(self) -> None:
        x = da.arange(20, chunks=5)
        cfagg.write({"x": ("i", x[x % 7 < 4])}, self.url, target_options=self.options)


class Query(Job):
    reads = True

    def prepare(self) -> None:
        self.bucket.put(made(self.folder / self.prefix / "a.zarr", **LITTLE), self.prefix)
        cfagg.accumulate(self.url, "tas", storage_options=self.bucket.options, refresh=True, **LITTLE)

    def run(self) -> dict[str, Any]:
        found = cfagg.open_accumulated(self.url, "tas", storage_options=self.options).mean("time")
        return {"mean": np.asarray(found)}


def same(one: Any, other: Any) -> bool:
    """Return whether two states, or two answers, are equal."""
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(
        np.array_equal(one[k], other[k], equal_nan=one[k].dtype.kind == "f") for k in one
    )


@pytest.mark.full
@pytest.mark.parametrize("kind", [Append, Convert, Filtered, Query, Rows])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_leaves_the_old_or_the_new_and_no_wrong_answer(
    kind: type[Job], fault: str, bucket: Bucket, faulty: Faulty, tmp_path: Path
) -> None:
    job = kind(bucket, faulty.url, tmp_path)
    job.prepare()
    before = job.state()
    faulty.begin()
    answer = job.run()
    after, count = job.state(), len(faulty.seen)
    step = max(count // 5, 1)
    for lasting in (False, True):
        for at in range((FAULTS.index(fault) + lasting) % step, count, step):
            if not kind.reads:
                job = kind(bucket, faulty.url, tmp_path)
                job.prepare()
            faulty.begin(fault, at, lasting)
            try:
                found = job.run()
            except CfaggError:
                failed = True
            else:
                failed = False
                assert found is None or same(found, answer)
            faulty.begin()
            state = job.state()
            assert same(state, after) or (failed and same(state, before))


class AppendWithSums(Query):
    reads = False

    def run(self) -> None:
        more = xr.Dataset(
            {"tas": (("time", "lat", "lon"), np.ones((1, 4, 6), "f4"))}, {"time": [np.datetime64("2001-02-20")]}
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CfaggWarning)
            cfagg.append(self.url, more, "time", storage_options=self.options)

    def state(self) -> Any:
        found = super().state()
        with contextlib.suppress(CfaggError):  # what was not extended answers nothing
            sums = cfagg.open_accumulated(self.url, "tas", storage_options=self.bucket.options)
            np.testing.assert_allclose(sums.mean("time"), np.nanmean(found["tas"].astype("f8"), 0), rtol=1e-6)
        return found


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Append, AppendWithSums, Convert, Query])
@pytest.mark.parametrize("rate", [0.02, 0.05, 0.1, 0.3])
def test_a_server_that_fails_again_and_again_does_no_harm_and_what_it_cut_short_is_done_again(
    kind: type[Job], rate: float, bucket: Bucket, faulty: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kind(bucket, faulty.url, tmp_path)
    job.prepare()
    before, answer = job.state(), job.run()
    after = job.state()
    for seed in range(20):
        if not kind.reads:
            job = kind(bucket, faulty.url, tmp_path)
            job.prepare()
        faulty.begin_at_random(seed, rate)
        failed = False
        try:
            found = job.run()
            assert found is None or same(found, answer)
        except CfaggError:
            failed = True
        faulty.begin()
        state = job.state()
        assert same(state, after) or (failed and same(state, before))
        if not same(state, after) and kind is not Convert:  # that is told to resume, or to overwrite
            with monkeypatch.context() as patch:
                patch.setattr(
                    object_place, "LEASE", -1.0
                )  # as two minutes later, for a claim that could not be removed
                job.run()
            assert same(job.state(), after)


@pytest.mark.parametrize("fault", ["lost", "503", "hang up"])
def test_a_conditional_write_whose_answer_is_lost_is_found_to_be_done(fault, bucket, faulty) -> None:
    url = f"s3://{bucket.name}/{uuid.uuid4().hex}"
    objects = ObjectStore(url, {**bucket.options, "endpoint": faulty.url})
    faulty.begin(fault, 0)
    tag = objects.put("k", b"ours", create=True)
    assert tag == objects._state("k").tag
    faulty.begin(fault, 0)
    with pytest.raises(TargetExistsError):
        objects.put("k", b"another's", match="of before")
    faulty.begin(fault, 0)
    assert objects.put("k", b"ours again", match=tag) == objects._state("k").tag
    faulty.begin(fault, 0)
    with pytest.raises(TargetExistsError):
        objects.put("k", b"another's", create=True)
    assert objects.read("k") == b"ours again"


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("fault", ["lost", "cut", "page", "hang up"])
def test_a_large_object_is_there_whole_or_not_at_all(fault, at, bucket, faulty) -> None:
    url = f"s3://{bucket.name}/{uuid.uuid4().hex}"
    objects = ObjectStore(url, {**bucket.options, "endpoint": faulty.url})
    body = bytes(range(256)) * 45_000  # 11.5 MB, three parts
    faulty.begin(fault, at)
    try:
        tag = objects.put("k", memoryview(body))
    except TargetError:
        assert objects.read("k") in (None, body)
    else:
        assert tag == objects._state("k").tag
        assert objects.read("k") == body


def test_a_step_is_appended_with_few_requests(bucket, faulty, tmp_path, monkeypatch) -> None:
    for name in ("BELIEVED", "LEASE"):
        monkeypatch.setattr(object_place, name, 600.0)  # on a slow machine too
    url = bucket.put(write(tmp_path / "a.zarr", series(0, 5), 3), uuid.uuid4().hex)
    faulty.begin()
    cfagg.append(url, series(5, 1), "time", storage_options={**bucket.options, "endpoint": faulty.url})
    asked = [each.replace(f"/{url[5:]}", "") for each in faulty.seen]
    assert len(asked) == 17
    assert sum(each.split()[0] in ("PUT", "POST", "DELETE") for each in asked) == 9
    assert [each.split()[0] for each in asked if "cfagg-append" in each] == ["PUT", "PUT", "DELETE"]
    assert sum("list-type" in each for each in asked) == 1
    found = cfagg.read(url, storage_options=bucket.options)
    np.testing.assert_array_equal(found["tas"], series(0, 6)["tas"])


@pytest.mark.parametrize("listed", ["as they are", "older", "not"])
def test_arrays_of_an_accumulation_are_opened_as_listed_where_that_is_proven(
    listed, bucket, faulty, tmp_path, monkeypatch
) -> None:
    for name in ("BELIEVED", "LEASE"):
        monkeypatch.setattr(object_place, name, 600.0)
    monkeypatch.setattr(source, "_COARSE_TICK", 0.0)
    url = bucket.put(write(tmp_path / "a.zarr", series(0, 5), 3), uuid.uuid4().hex)
    objects = ObjectStore(url, bucket.options)
    cfagg.accumulate(url, "tas", storage_options=bucket.options)
    older = objects.read("zarr.json")
    cfagg.append(url, series(5, 1), "time", storage_options=bucket.options)
    if listed == "older":
        objects.put("zarr.json", older)
    elif listed == "not":
        root = json.loads(older)
        del root["consolidated_metadata"]
        objects.put("zarr.json", json.dumps(root).encode())
    faulty.begin()
    options = {**bucket.options, "endpoint": faulty.url}
    found = cfagg.open_accumulated(url, "tas", storage_options=options).sum("time")
    np.testing.assert_allclose(found, series(0, 6)["tas"].sum("time"))
    own = {a.split()[1] for a in faulty.seen if "_accumulation_group/" in a and a.endswith("/zarr.json")}
    documents = len([a for a in own if a.count("/", a.index("_accumulation_group/")) == 2])
    if listed == "as they are":
        assert documents == 0
        faulty.begin()
        cfagg.append(url, series(6, 1), "time", storage_options=options)
        assert len(faulty.seen) == 55
    else:
        assert documents > 1


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_array_of_a_store_in_a_bucket_is_opened_by_its_own_documents(bucket, faulty, tmp_path, zarr_format) -> None:
    values = {f"v{n}": (("time", "x"), np.arange(80.0).reshape(20, 4) + n) for n in range(5)}
    made = xr.Dataset(values, {"time": np.arange(20)})
    made.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=True)
    url, options = bucket.put(tmp_path / "a.zarr", uuid.uuid4().hex), {**bucket.options, "endpoint": faulty.url}
    faulty.begin()
    array = cfagg.open_array(url, "v3", storage_options=options)
    assert len(faulty.seen) == len(set(faulty.seen))
    if zarr_format == 3:
        assert [each.rpartition("a.zarr/")[2] for each in faulty.seen] == ["v3/zarr.json"]
    np.testing.assert_array_equal(array, made.v3)
    # What consolidated metadata say is older here: the array itself counts, or there is an error.
    with zarr.config.set({"async.concurrency": 1}):
        zarr.open_array(tmp_path / "a.zarr" / "v3", mode="r+").resize((12, 4))
    (document,) = [p for p in (tmp_path / "a.zarr" / "v3").iterdir() if p.name in (".zarray", "zarr.json")]
    key = f"{urlsplit(url).path.strip('/')}/v3/{document.name}"
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=document.read_bytes())
    now = cfagg.open_array(url, "v3", storage_options=options)
    if zarr_format == 3:
        assert now.shape == (12, 4)
    np.testing.assert_array_equal(now[:12], made.v3[:12])
