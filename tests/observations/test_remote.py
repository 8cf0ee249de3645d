"""Stores on a web server and in an object store, both on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from cfagg.errors import (
    AccessError,
    CfaggError,
    FragmentReadError,
    LimitError,
    SourceError,
    StaleError,
    UnsupportedError,
)
from cfagg.observations.store import open_store
from cfagg.storage import credentials, remote, transport
from cfagg.storage.places import make_source
from cfagg.storage.store import Source
from tests.observations.servers import Page, served
from tests.observations.written import rows_of, values, write_array

PUBLISHED = Path(__file__).parent / "published" / "bisect.zarr"
KEYS = {"access_key_id": "some", "secret_access_key": "thing"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Attempts follow each other at once; no proxy stands between."""
    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server(tmp_path):
    shutil.copytree(PUBLISHED, tmp_path / "data sets" / "a.zarr")
    with served(tmp_path) as made:
        # A path with a space, as a browser would write it.
        made.store = f"{made.url}/data%20sets/a.zarr"
        (tmp_path / "data%20sets").symlink_to(tmp_path / "data sets")
        yield made


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A bucket that holds a store of the published software and one of the own layout."""
    import boto3
    from moto.server import ThreadedMotoServer

    made = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="some", aws_secret_access_key="thing"
    )
    client.create_bucket(Bucket="archive")
    own = tmp_path_factory.mktemp("s3") / "own"
    write_array(own, "shards", values())
    for name, folder in (("published", PUBLISHED), ("own", own)):
        for path in folder.rglob("*"):
            if path.is_file():
                client.put_object(
                    Bucket="archive", Key=f"sets/{name}/{path.relative_to(folder)}", Body=path.read_bytes()
                )
    yield {"endpoint": url, **KEYS}
    made.stop()


def same(found, expected) -> bool:
    return np.array_equal(found, expected, equal_nan=True)


def local():
    return open_store(PUBLISHED)


# ---- web servers ------------------------------------------------------------------------------------------------


def test_a_store_on_a_web_server_opens_unchanged(server):
    store = open_store(server.store + "/")
    assert isinstance(store.source, Source)
    assert same(store.data.read(0, store.rows), local().data.read(0, store.rows))
    assert {k: v.tolist() for k, v in store.statistics.items()} == {
        k: v.tolist() for k, v in local().statistics.items()
    }
    assert store.identity == local().identity


@pytest.mark.parametrize("form", ["small blocks", "shards", "uncompressed", "gzip", "columns"])
def test_every_form_of_rows_is_read_from_a_web_server(tmp_path, form):
    write_array(tmp_path / "s", form, values())
    with served(tmp_path) as server:
        rows = rows_of(None, source=make_source(f"{server.url}/s"))
        assert same(rows.read(0, 1000), values())
        stored = sum(p.is_file() and p.name[0] not in ".z" for p in (tmp_path / "s" / "data").rglob("*"))
        assert len(server.seen) <= 4 + 2 * stored


def test_a_chunk_of_very_many_blocks_is_read_from_a_web_server(tmp_path):
    many = values(150_000)
    packing = numcodecs.Blosc("zstd", 1, numcodecs.Blosc.SHUFFLE, 1024)
    zarr.create_group(tmp_path / "s", zarr_format=2).create_array(
        "data", data=many, chunks=(150_000, 7), compressors=packing
    )
    with served(tmp_path) as server:
        rows = rows_of(None, source=make_source(f"{server.url}/s"), cached=False)
        assert same(rows.read(149_000, 149_010), many[149_000:149_010])
        assert same(rows.read(0, 150_000), many)


def test_few_rows_take_few_bytes_from_a_web_server(tmp_path):
    write_array(tmp_path / "s", "shards", values())
    with served(tmp_path) as server:
        rows = rows_of(None, source=make_source(f"{server.url}/s"), cached=False)
        rows.read(0, 1)
        server.seen.clear()
        assert same(rows.read(40, 90), values()[40:90])
        assert [method for method, _, _ in server.seen] == ["GET"]


def test_chunks_of_unusual_codecs_are_read_from_remote_stores(tmp_path):
    write_array(tmp_path / "s", "zarr-python", values(10))
    with served(tmp_path) as server:
        assert same(rows_of(None, source=make_source(f"{server.url}/s")).read(0, 1), values(10)[:1])


def test_what_is_not_there_is_told_of_a_web_server(server):
    with pytest.raises(SourceError, match=r"neither \.zgroup nor zarr\.json"):
        open_store(f"{server.url}/b.zarr")
    source = make_source(server.store)
    assert source.read("data/9.0") is None
    assert source.size("data/9.0") is None
    assert source.sizes("data", ["0.0", "9.0"]) == [local().source.size("data/0.0"), None]
    with pytest.raises(FragmentReadError, match="no longer exists"):
        source.read_range("data/9.0", 0, 1)


def test_an_address_may_have_any_letters(tmp_path):
    write_array(tmp_path / "Größe 1" / "s", "published", values(10))
    (tmp_path / "Gr%C3%B6%C3%9Fe%201").symlink_to(tmp_path / "Größe 1")
    with served(tmp_path) as server:
        for name in ("Größe 1", "Gr%C3%B6%C3%9Fe%201"):
            rows = rows_of(None, source=make_source(f"{server.url}/{name}/s"))
            assert same(rows.read(0, 10), values(10))


def test_a_range_beyond_the_end_is_empty(server):
    source = make_source(server.store)
    size = source.size("data/0.0")
    assert source.read_range("data/0.0", size, 10) == b""
    assert len(source.read_range("data/0.0", size - 3, 10)) == 3


def test_a_server_without_ranges_is_told(server):
    server.rules = {r"data/0\.0": ["whole"]}
    with pytest.raises(UnsupportedError, match="does not support byte ranges"):
        make_source(server.store).read_range("data/0.0", 5, 10)


@pytest.mark.parametrize(
    ("rule", "message"), [("other range", "asked for bytes"), ("gzip", "is encoded unasked with gzip")]
)
def test_a_server_that_sends_something_else_is_told(server, rule, message):
    server.rules = {r"data/0\.0": [rule]}
    with pytest.raises(FragmentReadError, match=message):
        make_source(server.store).read_range("data/0.0", 5, 10)


@pytest.mark.parametrize("rule", [500, 503, 429, "cut"])
def test_a_failure_that_passes_is_not_seen(server, rule):
    server.rules = {"mean": [rule, rule], r"data/0\.0": [rule, rule]}
    store = open_store(server.store)
    assert same(store.data.read(0, 60), local().data.read(0, 60))
    assert same(store.statistics["mean"], local().statistics["mean"])


def test_a_failure_that_stays_is_told(server):
    server.rules = {r"data/0\.0": [503] * 9}
    with pytest.raises(FragmentReadError, match=r"data/0\.0.*after 4 attempts: the server answers 503"):
        make_source(server.store).read("data/0.0")


@pytest.mark.parametrize("status", [401, 403])
def test_what_may_not_be_read_is_told(server, status):
    server.rules = {r"data/0\.0": [status]}
    with pytest.raises(AccessError, match=rf"data/0\.0 may not be read: the server answers {status}.*'headers'"):
        make_source(server.store).read("data/0.0")


def test_servers_that_hide_what_is_not_there_still_serve_a_store(server):
    server.rules = {"nan_count": [403, 403]}
    assert "mean" in open_store(server.store).statistics


@pytest.mark.parametrize(("form", "absent"), [("shards", r"/\.z"), ("small blocks", r"zarr\.json")])
def test_servers_that_hide_documents_of_the_other_zarr_format_still_serve_rows(tmp_path, form, absent):
    write_array(tmp_path / "s", form, values())
    with served(tmp_path) as server:
        server.rules = {absent: [403] * 99}
        assert same(rows_of(None, source=make_source(f"{server.url}/s")).read(0, 1000), values())


def test_another_error_is_told_with_what_the_server_says(server):
    server.rules = {r"data/0\.0": [418]}
    with pytest.raises(FragmentReadError, match="answers 418: no"):
        make_source(server.store).read("data/0.0")


def test_a_server_that_is_not_there_is_told():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FragmentReadError, match="after 4 attempts"):
        open_store(f"http://127.0.0.1:{port}/a.zarr")


def test_a_redirect_out_of_the_store_is_refused_unless_allowed(server, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(PUBLISHED, elsewhere / "b.zarr")
    with served(elsewhere) as other:
        target = f"{other.url}/b.zarr/data/0.0"
        secret = {"headers": {"Authorization": "Bearer secret"}}
        server.rules = {r"data/0\.0": [target]}
        with pytest.raises(AccessError, match=rf"redirects to {other.url}.*allow=\['{other.url}/b.zarr/data'\]"):
            make_source(server.store, secret).read("data/0.0")
        assert not other.seen
        server.rules = {r"data/0\.0": [target]}
        found = make_source(server.store, secret, allow=[f"{other.url}/b.zarr"]).read("data/0.0")
        assert found == local().source.read("data/0.0")
        assert [("authorization" in headers) for _, _, headers in other.seen] == [False]
        assert all(headers["authorization"] == "Bearer secret" for _, _, headers in server.seen)


def test_a_redirect_within_the_store_is_followed_and_a_circle_is_not(server):
    server.rules = {r"data/0\.0": [f"{server.store}/data/1.0"]}
    assert make_source(server.store).read("data/0.0") == local().source.read("data/1.0")
    server.rules = {r"data/0\.0": [f"{server.store}/data/0.0"] * 9}
    with pytest.raises(FragmentReadError, match="form a circle"):
        make_source(server.store).read("data/0.0")


@pytest.mark.parametrize("tail", ["/../../x", "/%2e%2e/%2E%2E/x"])
def test_a_redirect_that_climbs_out_of_the_store_is_refused(server, tail):
    server.rules = {r"data/0\.0": [f"{server.store}{tail}"]}
    with pytest.raises(AccessError, match="outside the store"):
        make_source(server.store).read("data/0.0")


def test_more_than_was_asked_for_is_not_read(server, monkeypatch):
    monkeypatch.setattr(remote, "MAX_OBJECT", 10)
    with pytest.raises(LimitError, match="at most 10"):
        make_source(server.store).read(".zattrs")


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://", {}, "not a URL of a store"),
        ("http://a.org/x?y=1", {}, "no query"),
        ("http://[::1/x", {}, "not a URL of a store"),
        ("http://a.org:port/x", {}, "not a URL of a store"),
        ("http://a b/x", {}, "not a URL of a store"),
        ("http://a.org/x", {"headers": {"a": "b\r\nc: d"}}, "one-line texts"),
        ("s3://bucket/x", {"endpoint": "https://me:secret@a.org"}, "expected https://server"),
        ("http://me:secret@a.org/x", {}, "no user"),
        ("http://a.org/x", {"header": {}}, r"has no options \['header'\]"),
        ("http://a.org/x", {"headers": {"a": 1}}, "do not map names to one-line texts"),
        ("http://a.org/x", {"timeout": 0}, "has a timeout that is not a number"),
        ("s3://", {}, "s3://bucket/path"),
        ("s3://a b/x", {}, "s3://bucket/path"),
        ("s3://bucket/x", {"region": "a/b"}, "has an invalid region"),
        ("s3://bucket/x", {"endpoint": "a.org"}, "expected https://server"),
        ("s3://bucket/x", {"access_key_id": "a"}, "both"),
        ("s3://bucket/x", {"profile": "a"}, "has no options"),
    ],
)
def test_a_url_or_option_that_is_not_understood_is_told(url, options, message):
    with pytest.raises(SourceError, match=message) as raised:
        make_source(url, options)
    assert "secret" not in str(raised.value).replace("secret_access_key", "")


@pytest.mark.parametrize("key", ["../x", "data/../../x", "/x", ""])
def test_a_key_that_leads_out_of_the_store_is_refused(server, key):
    with pytest.raises(SourceError, match="not a key"):
        make_source(server.store).read(key)


def test_an_object_that_is_written_while_the_store_is_open_is_told(server, s3):
    import boto3

    source = make_source(server.store)
    source.read_range("data/0.0", 0, 10)
    (server.folder / "data sets" / "a.zarr" / "data" / "0.0").write_bytes(bytes(50))
    with pytest.raises(StaleError, match="written since"):
        source.read_range("data/0.0", 0, 10)
    client = boto3.client(
        "s3",
        endpoint_url=s3["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="some",
        aws_secret_access_key="thing",
    )
    client.put_object(Bucket="archive", Key="sets/one/x", Body=b"first")
    source = make_source("s3://archive/sets/one", s3)
    assert source.read_range("x", 0, 5) == b"first"
    client.put_object(Bucket="archive", Key="sets/one/x", Body=b"other")
    with pytest.raises(StaleError, match="written since"):
        source.read_range("x", 0, 5)


def test_many_threads_read_from_a_web_server(server):
    store = open_store(server.store)
    expected = local().data.read(0, store.rows)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: same(store.data.read(i, i + 20), expected[i : i + 20]), range(0, 200, 5)))
    assert all(found)


def _read(store, start, stop):
    return store.data.read(start, stop)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_worker_processes_read_from_a_web_server(server, method):
    store = open_store(server.store)
    store.data.read(0, 10)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(_read, [(store, i, i + 20) for i in range(0, 200, 40)])
    assert all(same(part, local().data.read(i, i + 20)) for part, i in zip(found, range(0, 200, 40), strict=True))


def test_a_forked_process_does_not_speak_on_the_connection_of_its_parent(server):
    source = make_source(server.store)
    expected = source.read("data/0.0")
    child = os.fork()
    if not child:
        os._exit(0 if source.read("data/0.0") == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.read("data/0.0") == expected
    first, second, third = server.ports
    assert first == third != second


# ---- object stores ----------------------------------------------------------------------------------------------


def test_a_store_in_a_bucket_opens_unchanged(s3):
    store = open_store("s3://archive/sets/published", s3)
    assert same(store.data.read(0, store.rows), local().data.read(0, store.rows))
    assert store.identity == local().identity
    assert store.path == "s3://archive/sets/published"


def test_shards_are_read_from_a_bucket(s3):
    rows = rows_of(None, source=make_source("s3://archive/sets/own", s3))
    assert same(rows.read(250, 700), values()[250:700])
    assert [part.shape for part in rows.read_many([[0, 10], [990, 1000]])] == [(10, 7)] * 2


def test_sizes_in_a_bucket_are_listed_page_by_page(s3, monkeypatch):
    asked = []
    query = remote.canonical_query
    monkeypatch.setattr(remote, "canonical_query", lambda q: asked.append(q) or query({**q, "max-keys": "2"}))
    source = make_source("s3://archive/sets/published", s3)
    names = ["0.0", "1.0", "2.0", "9.0"]
    assert source.sizes("data", names) == local().source.sizes("data", names)
    assert len(asked) > 1


def test_without_keys_requests_are_not_signed(s3):
    with pytest.raises(AccessError, match=r"answers 403.*'access_key_id' and 'secret_access_key'"):
        open_store("s3://archive/sets/published", {"endpoint": s3["endpoint"]})


def test_keys_and_endpoints_come_from_the_environment_unless_they_are_given(s3, monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": "thing", "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_SESSION_TOKEN": "x", "AWS_PROFILE": "none",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert open_store("s3://archive/sets/published", {"endpoint": s3["endpoint"]}).rows == local().rows
    assert open_store("s3://archive/sets/published", s3).rows == local().rows
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3["endpoint"])
    assert open_store("s3://archive/sets/published").rows == local().rows


@pytest.mark.parametrize("name", ["s3://nothing/sets/published", "s3://archive/sets/other"])
def test_what_is_not_in_a_bucket_is_told(s3, name):
    with pytest.raises(CfaggError, match=r"neither|may not be read"):
        open_store(name, s3)


def provided() -> dict[str, str]:
    """Return keys, as a provider of credentials does."""
    return KEYS


def provider_of(s3):
    return {name: value for name, value in s3.items() if name not in KEYS} | {"credentials": provided}


def test_a_store_in_a_bucket_pickles_with_a_provider_of_its_keys(s3):
    data = pickle.dumps(open_store("s3://archive/sets/published", provider_of(s3)))
    assert KEYS["secret_access_key"].encode() not in data
    assert same(pickle.loads(data).data.read(3, 30), local().data.read(3, 30))


def test_keys_can_be_those_of_the_environment_of_each_process(s3, monkeypatch):
    options = provider_of(s3) | {"credentials": "environment"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "some")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an unlikely secret")
    data = pickle.dumps(open_store("s3://archive/sets/published", options))
    assert b"an unlikely secret" not in data
    assert same(pickle.loads(data).data.read(3, 30), local().data.read(3, 30))
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    # botocore keeps what it found before in a process, and otherwise says itself that the secret is missing.
    monkeypatch.setattr(credentials, "find_spec", lambda _: None)
    with pytest.raises(AccessError, match="from_environment gives no access_key_id"):
        pickle.loads(data).data.read(3, 30)


def test_keys_given_as_options_are_not_pickled(s3):
    store = open_store("s3://archive/sets/published", s3)
    with pytest.raises(AccessError, match=r"'credentials': provider.*set AWS_ACCESS_KEY_ID"):
        pickle.dumps(store)
    assert same(store.data.read(3, 30), local().data.read(3, 30))


def headers_now() -> dict[str, str]:
    return {"Authorization": "Bearer an unlikely secret"}


def test_headers_that_may_hold_secrets_are_pickled_only_by_a_provider(server):
    with pytest.raises(AccessError, match=r"headers.*authorization.*'headers': provider"):
        pickle.dumps(open_store(server.store, {"headers": headers_now()}))
    data = pickle.dumps(open_store(server.store, {"headers": headers_now}))
    assert b"an unlikely secret" not in data
    assert same(pickle.loads(data).data.read(3, 30), local().data.read(3, 30))
    assert server.seen[-1][2]["authorization"] == "Bearer an unlikely secret"
    assert pickle.loads(pickle.dumps(open_store(server.store, {"headers": {"User-Agent": "me"}})))


def test_secrets_are_in_no_text_form(s3, server):
    keyed = open_store("s3://archive/sets/published", s3)
    headed = open_store(server.store, {"headers": headers_now()})
    for store in (keyed, headed):
        for thing in (store, store.source, *vars(store.source).values(), *vars(store.source._transport).values()):
            assert "unlikely" not in repr(thing)
            assert KEYS["secret_access_key"] not in repr(thing)


@pytest.mark.parametrize(
    "options", [{"credentials": provided, **KEYS}, {"credentials": "elsewhere"}, {"credentials": 7}]
)
def test_credentials_that_are_not_understood_are_named(options):
    with pytest.raises(SourceError, match="credentials"):
        make_source("s3://b1/x", options)


@pytest.mark.soak
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_from_a_bucket(s3, method):
    store = open_store("s3://archive/sets/published", provider_of(s3))
    store.data.read(0, 100)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(_read, [(store, i, i + 20) for i in range(0, 200, 40)])
    assert all(same(part, local().data.read(i, i + 20)) for part, i in zip(found, range(0, 200, 40), strict=True))


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://b1/x", {}, "https://b1.s3.us-east-1.amazonaws.com/x"),
        ("s3://b.1/x/", {"region": "eu-west-2"}, "https://s3.eu-west-2.amazonaws.com/b.1/x"),
        ("s3://b1/x y", {"region": "cn-north-1"}, "https://b1.s3.cn-north-1.amazonaws.com.cn/x%20y"),
        ("s3://b1/x", {"endpoint": "https://store.org/"}, "https://store.org/b1/x"),
        (
            "s3://b1/x",
            {"endpoint": "https://b1.store.org", "virtual_hosted_style_request": True},
            "https://b1.store.org/x",
        ),
        ("s3://b1", {"endpoint": "https://store.org"}, "https://store.org/b1"),
    ],
)
def test_the_address_of_a_bucket(url, options, expected):
    assert make_source(url, options)._transport.base == expected


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_error_with_a_page_longer_than_what_was_asked_for_is_tried_again(server, status, chunked):
    store = open_store(server.store)
    server.rules["data/0.0"] = [Page(status, chunked=chunked), Page(status, chunked=chunked)]
    assert same(store.data.read(3, 30), local().data.read(3, 30))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_with_a_page_longer_than_what_was_asked_for_is_followed(server, status):
    store = open_store(server.store)
    server.rules["data/0.0"] = [Page(status, headers={"Location": f"{server.store}/data/0.0"})]
    assert same(store.data.read(3, 30), local().data.read(3, 30))


def test_an_error_that_stays_is_told_with_the_beginning_of_its_page(server):
    server.rules["zgroup"] = [Page(418, b"I am a teapot" + b" " * 500_000)] * 9
    with pytest.raises(FragmentReadError, match="418: I am a teapot"):
        open_store(server.store)


@pytest.mark.parametrize("rule", ["drip", "drip headers"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up_at_the_deadline(server, rule):
    store = open_store(server.store)
    store.source._transport.deadline = 0.5  # from here on: it is opened however busy the machine is
    server.rules["data/0.0"] = [rule] * 9
    began = time.monotonic()
    with pytest.raises(FragmentReadError, match=r"within 0\.5 s"):
        store.data.read(3, 30)
    assert time.monotonic() - began < 60


def test_the_wait_that_a_server_asks_for_is_kept(server, monkeypatch):
    waits = []
    monkeypatch.setattr(transport.time, "sleep", waits.append)
    store = open_store(server.store)
    server.rules["data/0.0"] = [Page(503, headers={"Retry-After": "7"}), Page(429, headers={"Retry-After": "soon"})]
    store.data.read(3, 30)
    assert waits == [7.0, 0.4]


def test_a_wait_that_outlasts_the_deadline_is_not_begun(server):
    store = open_store(server.store, {"deadline": 20})
    server.rules["data/0.0"] = [Page(503, headers={"Retry-After": "3600"})]
    with pytest.raises(FragmentReadError, match="within 20 s: the server answers 503 and asks to wait for 3600 s"):
        store.data.read(3, 30)


def test_connections_serve_one_batch_of_ranges_after_the_other(server):
    source = open_store(server.store).source
    before = len(set(server.ports))
    for _ in range(5):
        source.read_ranges("data/0.0", [(i, 10) for i in range(8)])
    assert len(set(server.ports)) - before <= 16


def test_a_connection_that_the_server_closed_while_idle_costs_no_attempt(server, monkeypatch):
    monkeypatch.setattr(transport.time, "sleep", lambda _: pytest.fail("it waited"))
    source = open_store(server.store).source
    source.read_ranges("data/0.0", [(i, 10) for i in range(8)])
    server.rules["data/0.0"] = ["hang up"]
    assert len(source.read_range("data/0.0", 0, 10)) == 10


@pytest.mark.parametrize("option", ["timeout", "deadline"])
def test_a_time_that_is_none_is_named(option):
    with pytest.raises(SourceError, match=f"has a {option} that is not a number"):
        make_source("https://a.org/x", {option: -1})
