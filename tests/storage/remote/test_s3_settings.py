"""What the environment says about how S3 is asked: honoured or refused, and never written otherwise in silence."""

from __future__ import annotations

import pytest

import cfagg
from cfagg.demo import sample
from cfagg.errors import SourceError, TargetError
from cfagg.storage.objects import ObjectStore
from tests.storage.remote.test_addresses import keyed, serving

SSE = "x-amz-server-side-encryption"
COPIED = b"<CopyObjectResult><ETag>a</ETag></CopyObjectResult>"
BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SERVER_SIDE_ENCRYPTION", "SSE_KMS_KEY_ID", "SSE_BUCKET_KEY_ENABLED", "SSE_CUSTOMER_KEY_BASE64",
        "REQUEST_PAYER", "SKIP_SIGNATURE", "VIRTUAL_HOSTED_STYLE_REQUEST",
    ):  # fmt: skip
        monkeypatch.delenv(f"AWS_{name}", raising=False)


@pytest.mark.parametrize(("said", "asked"), [
    ({"SERVER_SIDE_ENCRYPTION": "AES256"}, {"": "AES256"}),
    ({"SERVER_SIDE_ENCRYPTION": "aws:kms"}, {"": "aws:kms"}),
    (
        {"SERVER_SIDE_ENCRYPTION": "aws:kms:dsse", "SSE_KMS_KEY_ID": "arn:1/k", "SSE_BUCKET_KEY_ENABLED": "true"},
        {"": "aws:kms:dsse", "-aws-kms-key-id": "arn:1/k", "-bucket-key-enabled": "true"},
    ),
    ({"SSE_BUCKET_KEY_ENABLED": "false"}, {"-bucket-key-enabled": "false"}),
])  # fmt: skip
def test_what_is_written_is_encrypted_as_the_environment_says(monkeypatch, said, asked) -> None:
    for name, value in said.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with serving() as server:
        done = {SSE: asked[""]} if "" in asked else {}
        server.answers = {"PUT": (200, done, COPIED), "POST": (200, done, BEGUN)}
        store = ObjectStore("s3://b1/x", keyed(server.url))
        store.put("k", b"1")
        store.put("k", b"1", create=True)
        store.copy("k", "l")
        with pytest.raises(TargetError, match="cannot be written"):
            store.put("k", bytes(6 << 20))
        wanted = {f"{SSE}{name}": value for name, value in asked.items()}
        whole = [
            head
            for method, path, head in server.seen
            if method != "HEAD" and "partNumber" not in path and "uploadId" not in path
        ]
        assert len(whole) == 4
        for head in whole:
            assert {n.lower(): v for n, v in head.items() if n.lower().startswith(SSE)} == wanted
            names = {n.lower(): v for n, v in head.items()}["authorization"]
            assert all(name in names for name in wanted)  # they are signed


@pytest.mark.parametrize(("said", "told"), [
    ({"SERVER_SIDE_ENCRYPTION": "sse-c", "SSE_CUSTOMER_KEY_BASE64": "a2V5"}, "a key of your own"),
    ({"SSE_CUSTOMER_KEY_BASE64": "a2V5"}, "a key of your own"),
    ({"SSE_KMS_KEY_ID": "arn"}, "not set and AWS_SSE_KMS_KEY_ID is set"),
    ({"SERVER_SIDE_ENCRYPTION": "AES256", "SSE_KMS_KEY_ID": "arn"}, "AES256 and AWS_SSE_KMS_KEY_ID is set"),
    ({"SERVER_SIDE_ENCRYPTION": "AES"}, "AWS_SERVER_SIDE_ENCRYPTION is AES;"),
    ({"SSE_BUCKET_KEY_ENABLED": "perhaps"}, "AWS_SSE_BUCKET_KEY_ENABLED='perhaps'"),
])  # fmt: skip
def test_encryption_that_is_not_asked_for_by_a_header_is_refused_before_anything_is_sent(
    monkeypatch, said, told
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with serving() as server:
        store = ObjectStore("s3://b1/x", keyed(server.url))
        for write in (
            lambda: store.put("k", b"1"), lambda: store.put("k", bytes(6 << 20)), lambda: store.copy("k", "l"),
        ):  # fmt: skip
            with pytest.raises((TargetError, SourceError), match=told) as error:
                write()
            assert "a2V5" not in str(error.value)
        assert server.seen == []


def test_a_server_that_does_not_encrypt_is_an_error(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    with serving() as server:
        server.answers = {"PUT": (200, {SSE: "AES256"}, COPIED), "POST": (200, {}, BEGUN)}
        store = ObjectStore("s3://b1/x", keyed(server.url))
        for write in (
            lambda: store.put("k", b"1"), lambda: store.put("k", bytes(6 << 20)), lambda: store.copy("k", "l"),
        ):  # fmt: skip
            with pytest.raises(TargetError, match="not encrypted by the server with aws:kms"):
                write()
        assert [path for method, path, _ in server.seen if method == "DELETE"] == ["/b1/x/k?uploadId=u"]
        assert not [path for _, path, _ in server.seen if "partNumber" in path]


def test_a_server_says_that_it_has_encrypted(bucket, monkeypatch) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    store = ObjectStore(f"s3://{bucket.name}/encrypted", bucket.options)
    store.put("a", b"1")
    store.put("b", bytes(range(256)) * 45_000)
    store.copy("a", "c")
    for key in "abc":
        found = bucket.client.head_object(Bucket=bucket.name, Key=f"encrypted/{key}")
        assert found["ServerSideEncryption"] == "AES256"


def test_a_repository_of_icechunk_is_not_written_where_encryption_is_asked_for(monkeypatch) -> None:
    pytest.importorskip("icechunk", reason="icechunk is not installed")
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    with serving() as server, pytest.raises(TargetError, match="Icechunk's library does not request"):
        cfagg.convert(
            sample("temperature.nca"), "s3://b1/r", to="icechunk",
            target_options=keyed(server.url),
        )  # fmt: skip


@pytest.mark.parametrize("said", ["requester", "TRUE", "1"])
def test_who_pays_is_said_by_the_environment_for_reads_too(monkeypatch, said) -> None:
    monkeypatch.setenv("AWS_REQUEST_PAYER", said)
    with serving() as server:
        store = ObjectStore("s3://b1/x", keyed(server.url))
        store.read("k")
        store.put("k", b"1")
        server.answers = {"DELETE": (204, {}, b"")}
        store.delete(["k"])
        payers = [{n.lower(): v for n, v in head.items()}.get("x-amz-request-payer") for _, _, head in server.seen]
        assert payers == ["requester"] * 3


def test_an_option_overrides_the_switch_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("AWS_REQUEST_PAYER", "true")
    with serving() as server:
        ObjectStore("s3://b1/x", {**keyed(server.url), "request_payer": False}).read("k")
        assert "x-amz-request-payer" not in {n.lower() for n in server.seen[0][2]}


def test_the_environment_switches_the_signature_off_and_the_bucket_into_the_name_of_the_server(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    with serving() as server:
        ObjectStore("s3://b1/x", keyed(server.url)).put("k", b"1")
        assert [(path, "Authorization" in head) for _, path, head in server.seen] == [("/x/k", False)]
