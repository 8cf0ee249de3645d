"""Requests that write to S3: lost answers, errors in answers that begin well, and files that change meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from cfagg.errors import TargetError, TargetExistsError
from cfagg.storage import s3_writing, transport
from cfagg.storage.objects import ObjectStore
from tests.storage.remote.test_addresses import keyed, serving
from tests.storage.remote.test_faults import Faulty, faulty  # noqa: F401

BODY = bytes(range(256)) * 45_000  # 11.5 MB, three parts


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    known = transport.time
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=known.monotonic, sleep=lambda _: None))


def a_store(bucket, server: Faulty) -> ObjectStore:
    return ObjectStore(f"s3://{bucket.name}/{uuid.uuid4().hex}", {**bucket.options, "endpoint": server.url})


def left(bucket, store: ObjectStore) -> list[str]:
    """Return the uploads below a store that were neither put together nor given up."""
    found = bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])
    return [each["Key"] for each in found if each["Key"].startswith(store.path.partition(f"{bucket.name}/")[2])]


@pytest.mark.parametrize("lasting", [False, True])
def test_an_upload_whose_last_answer_is_lost_is_found_to_be_done(bucket, faulty, monkeypatch, lasting) -> None:  # noqa: F811
    store = a_store(bucket, faulty)
    asked, lost = faulty.answer, []

    def answer(request) -> None:
        if request.command == "POST" and "uploadId" in request.path and len(lost) < (4 if lasting else 1):
            lost.append(request.path)
            faulty.begin("lost", 0)
        elif lost and request.command == "POST":
            # So S3 answers the second time; the server of the tests fails.
            request.rfile.read(int(request.headers["Content-Length"]))
            faulty._send(request, 404, [], b"<Error><Code>NoSuchUpload</Code></Error>")
            return
        asked(request)

    monkeypatch.setattr(faulty, "answer", answer)
    tag = store.put("k", BODY)
    assert len(lost) == (4 if lasting else 1)
    monkeypatch.undo()
    assert store.read("k") == BODY
    assert tag == store._state("k").tag


def test_an_upload_whose_last_answer_is_lost_and_which_another_replaced_is_no_success(bucket, faulty) -> None:  # noqa: F811
    store = a_store(bucket, faulty)
    asked = faulty.answer

    def answer(request) -> None:
        if request.command == "POST" and "uploadId" in request.path and faulty.answer is answer:
            faulty.answer = asked
            faulty.begin("lost", 0)
            asked(request)
            ObjectStore(store.path, bucket.options).put("k", BODY[1:] + b"x")
            return
        asked(request)

    faulty.answer = answer  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="cannot be written"):
        store.put("k", BODY)
    assert store.read("k") == BODY[1:] + b"x"


@pytest.mark.parametrize("error", [TargetError("no"), KeyboardInterrupt()])
def test_no_parts_are_left_of_an_upload_that_fails(bucket, faulty, monkeypatch, error) -> None:  # noqa: F811
    store = a_store(bucket, faulty)

    def fails(*_) -> str:
        raise error

    monkeypatch.setattr(s3_writing.S3Target, "_tagged_by", fails)
    with pytest.raises(type(error)):
        store.put("k", BODY)
    assert store.read("k") is None
    assert left(bucket, store) == []


def test_a_large_conditional_write_whose_answer_is_lost_is_found_to_be_done(bucket, faulty, tmp_path) -> None:  # noqa: F811
    store, file = a_store(bucket, faulty), tmp_path / "a"
    file.write_bytes(BODY)
    faulty.begin("lost", 0)
    tag = store.put("k", file, create=True)
    assert tag == store._state("k").tag
    file.write_bytes(BODY[:-1] + b"\0")
    faulty.begin("lost", 0)
    with pytest.raises(TargetExistsError):
        store.put("k", file, create=True)
    assert store.read("k") == BODY


def test_an_interrupt_is_one_also_where_the_upload_is_done(bucket, faulty, monkeypatch) -> None:  # noqa: F811
    store, asked = a_store(bucket, faulty), s3_writing.S3Target._asked

    def interrupted(self, key, method, query=None, *more, **named):
        reply = asked(self, key, method, query, *more, **named)
        if method == "POST" and "uploadId" in (query or {}):
            raise KeyboardInterrupt
        return reply

    monkeypatch.setattr(s3_writing.S3Target, "_asked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.put("k", BODY)


def test_what_another_wrote_without_the_encryption_that_is_asked_for_is_not_ours(bucket, faulty, monkeypatch) -> None:  # noqa: F811
    store = a_store(bucket, faulty)
    store.put("k", b"1")
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    faulty.begin("503", 0)
    with pytest.raises(TargetError, match="not encrypted by the server"):
        store.put("k", b"1", create=True)


def test_a_lost_answer_is_asked_about_for_longer_than_a_second(bucket, faulty, monkeypatch) -> None:  # noqa: F811
    store, state, clock = a_store(bucket, faulty), s3_writing.S3Target._state, count()
    monkeypatch.setattr(s3_writing.S3Target, "_state", lambda *given: state(*given)._replace(now=next(clock)))
    faulty.begin("lost", 0)
    assert store.put("k", b"1", create=True) == store._state("k").tag


_CUT_SHORT = """
import os, sys
from pathlib import Path
from cfagg.errors import TargetError
from cfagg.storage import bodies
from cfagg.storage.objects import ObjectStore
path = Path(sys.argv[2])
path.write_bytes(bytes(9 << 20))
known = os.pread
def pread(*given):
    os.truncate(path, 1)
    return known(*given)
os.pread = pread
try:
    ObjectStore("s3://b1/x", {"endpoint": sys.argv[1], "skip_signature": True}).put("k", path, create="1" in sys.argv)
except TargetError as error:
    print(error)
"""


@pytest.mark.parametrize("create", ["0", "1"])
def test_a_file_that_is_cut_short_while_it_is_sent_is_an_error_and_not_the_end_of_the_process(tmp_path, create) -> None:
    begun = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
    with serving() as server:
        server.answers = {"POST": (200, {}, begun)}
        made = subprocess.run(
            [sys.executable, "-c", _CUT_SHORT, server.url, str(tmp_path / "a"), create],
            capture_output=True, text=True, check=False, env={**os.environ, "no_proxy": "127.0.0.1"},
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        assert "was written while it was sent: it had 9,437,184 bytes and has 1" in made.stdout
        assert [path for method, path, _ in server.seen if method == "PUT"] == []
        assert len(server.seen) == (0 if create == "1" else 2)  # begun, and given up


def test_a_file_that_is_written_while_it_is_sent_is_an_error(bucket, faulty, tmp_path: Path, monkeypatch) -> None:  # noqa: F811
    monkeypatch.setattr(s3_writing, "_AT_ONCE", 1)
    store, file = a_store(bucket, faulty), tmp_path / "a"
    file.write_bytes(BODY)
    asked = faulty.answer

    def answer(request) -> None:
        if "partNumber" in request.path:
            file.write_bytes(BODY[::-1])
            os.utime(file, ns=(1, 1))
        asked(request)

    faulty.answer = answer  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="was written while it was sent"):
        store.put("k", file)
    assert store.read("k") is None
    assert left(bucket, store) == []


@pytest.mark.parametrize("page", [
    b"<Error><Code>SlowDown</Code></Error>",
    b"<DeleteResult xmlns='http://s3/'><Error xmlns='a'><Key>k</Key><Code>SlowDown</Code></Error></DeleteResult>",
    b"<n:DeleteResult xmlns:n='a'><n:Error><Code>SlowDown</Code></n:Error></n:DeleteResult>",
])  # fmt: skip
def test_an_error_in_an_answer_that_begins_well_is_one(page) -> None:
    with serving() as server:
        server.answers = {"POST": (200, {}, page)}
        with pytest.raises(TargetError, match="200: SlowDown"):
            ObjectStore("s3://b1/x", keyed(server.url)).delete(["k", "l"])


def test_objects_that_are_removed_may_be_said_by_an_empty_element() -> None:
    with serving() as server:
        server.answers = {"POST": (200, {}, b"<?xml version='1.0'?><DeleteResult xmlns='http://s3/'/>")}
        ObjectStore("s3://b1/x", keyed(server.url)).delete(["k", "l"])


@pytest.mark.parametrize(("headers", "body"), [
    ({"x-amz-bucket-region": "eu-west-3"}, b"<Error><Code>PermanentRedirect</Code></Error>"),
    ({}, b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"),
])  # fmt: skip
def test_the_region_of_a_bucket_that_is_elsewhere_is_named(headers, body) -> None:
    with serving() as server:
        server.answers = {"PUT": (301 if headers else 400, headers, body)}
        with pytest.raises(TargetError, match="the bucket is in the region 'eu-west-3'"):
            ObjectStore("s3://b1/x", keyed(server.url)).put("k", b"1")


def test_a_body_that_the_server_did_not_get_in_time_is_sent_again() -> None:
    with serving() as server:
        server.answers = {"PUT": (400, {}, b"<Error><Code>RequestTimeout</Code></Error>")}
        with pytest.raises(TargetError, match="after 4 attempts"):
            ObjectStore("s3://b1/x", keyed(server.url)).put("k", b"1")
        assert len(server.seen) == 4
        server.answers = {"PUT": (400, {}, b"<Error><Code>BadDigest</Code></Error>")}
        with pytest.raises(TargetError, match="400: BadDigest"):
            ObjectStore("s3://b1/x", keyed(server.url)).put("k", b"1")
        assert len(server.seen) == 5


def test_objects_whose_names_have_signs_of_xml_are_removed_together(bucket) -> None:
    store = ObjectStore(f"s3://{bucket.name}/{uuid.uuid4().hex}", bucket.options)
    names = ["a&b", "c<d", "e&amp;"]
    for name in names:
        store.put(name, b"x")
    store.delete(names)
    assert list(store.listed()) == []
