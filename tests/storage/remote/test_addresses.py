"""Addresses in all their spellings, proxies and redirects: the same for both readers, and no way around a policy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cfagg.errors import (
    AccessError,
    CfaggError,
    FragmentReadError,
    OptionError,
    SourceError,
    TargetError,
    UnsupportedError,
)
from cfagg.storage import objects, transport
from cfagg.storage.access import Access
from cfagg.storage.azure import azure_source, check_server
from cfagg.storage.objects import ObjectStore
from cfagg.storage.places import make_source
from cfagg.storage.remote import HttpSource
from cfagg.storage.store import Part
from cfagg.storage.transport import Reply
from cfagg.storage.urls import a_place, covers


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, dict(self.headers.items())))
        status, more, body = self.server.answers.get(self.command, self.server.answer)
        self.send_response(status)
        for name, value in {"ETag": '"a"', "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_CONNECT = do_GET


class _Six(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def serving(address: str = "127.0.0.1") -> Iterator[Any]:
    """Serve three bytes at every place, until the block ends."""
    try:
        made: Any = (_Six if ":" in address else ThreadingHTTPServer)((address, 0), _Handler)
    except OSError:
        pytest.skip(f"this machine has no address {address}")
    made.daemon_threads = True
    made.seen, made.answer, made.answers = [], (200, {}, b"abc"), {}
    made.url = f"http://{f'[{address}]' if ':' in address else address}:{made.server_port}"
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a test names a proxy, and nobody waits between attempts."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(transport.time, "sleep", lambda _: None)


def keyed(url: str) -> dict[str, str]:
    return {"endpoint": url, "access_key_id": "a", "secret_access_key": "b"}


# ---- addresses of version 6


def test_a_server_is_named_by_an_address_of_version_6() -> None:
    with serving("::1") as server:
        assert make_source(f"{server.url}/x").read("k") == b"abc"
        assert make_source("s3://b1/x", keyed(server.url)).read("k") == b"abc"
        assert {h.get("host") or h["Host"] for _, _, h in server.seen} == {server.url.removeprefix("http://")}


def test_objects_are_written_to_a_server_with_an_address_of_version_6() -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    with serving("::1") as server:
        assert ObjectStore("s3://b1/x", keyed(server.url)).put("k", b"1") == "a"


@pytest.mark.parametrize("spelt", [
    "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "localhost.", "127.0.0.1.", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]",
])  # fmt: skip
def test_another_spelling_of_an_address_is_no_way_into_this_network(spelt) -> None:
    with serving() as server:
        url = server.url.replace("127.0.0.1", spelt)
        with pytest.raises(AccessError, match="outside the aggregation file's own place"):
            Access(f"{server.url}/x.nca").resolve(f"{url}/a.nc")
        # A place that is allowed is no address of this network unless it is written as one.
        with pytest.raises(CfaggError) as refused:
            make_source(url, guarded=True).read("a.nc")
        assert isinstance(refused.value, AccessError | FragmentReadError)
        assert not server.seen


@pytest.mark.parametrize("reference", ["http://me@127.0.0.1:{}/a.nc", "http://127.0.0.1:{}@example.org/a.nc"])
def test_a_url_with_a_user_is_never_read(reference) -> None:
    with serving() as server:
        text = reference.format(server.server_port)
        with pytest.raises(AccessError, match="names a user"):
            Access(f"{server.url}/x.nca", allow=[text.rpartition("/")[0], server.url]).resolve(text)
        with pytest.raises(SourceError, match="no user"):
            make_source(text)
        assert not server.seen


@pytest.mark.parametrize("malformed", ["http://[::1", "http://::1]/a", "http://[127.0.0.1/x"])
def test_a_url_with_one_bracket_is_covered_by_none_and_covers_none(malformed) -> None:
    assert not covers(malformed, "http://example.org/a")
    assert not covers("http://example.org", malformed)


@pytest.mark.parametrize(
    ("prefix", "url"),
    [
        ("https://a.org/caf%E9", "https://a.org/caf%E8/a.nc"),
        ("https://a.org/%FF", "https://a.org/%EF%BF%BD/a.nc"),
        ("s3://Data/x", "s3://data/x/a.nc"),
    ],
)
def test_what_only_looks_alike_is_not_below(prefix, url) -> None:
    assert covers(prefix, f"{prefix}/a.nc")
    assert not covers(prefix, url)


def test_an_encoded_name_that_is_not_utf_8_is_the_one_that_is_asked_for() -> None:
    with serving() as server:
        place, name = a_place(f"{server.url}/d%E9/caf%E9%20%25.nc").place
        assert make_source(place).read(name) == b"abc"
        assert server.seen[-1][1] == "/d%E9/caf%E9%20%25.nc"


def test_an_encoded_slash_is_asked_for_as_such_and_leads_nowhere_else() -> None:
    with serving() as server:
        place, name = a_place(f"{server.url}/d%2Fe/a%2fb%20c.nc").place
        assert make_source(place).read(name) == b"abc"
        assert server.seen[-1][1] == "/d%2Fe/a%2Fb%20c.nc"
        place, name = a_place(f"{server.url}/d/a%2F..%2Fb.nc").place
        with pytest.raises(SourceError, match="is not a key of a store"):
            make_source(place).read(name)


# ---- forked processes


def test_after_a_fork_a_name_with_a_percent_sign_is_the_same_one() -> None:
    with serving() as server:
        options = {"account_name": "me", "skip_signature": True, "endpoint": server.url}
        found = azure_source("box", "a%20b/c?", options)
        assert found is not None
        assert found.read("k") == b"abc"
        assert server.seen[-1][1] == "/box/a%2520b/c%3F/k"


def test_after_a_fork_a_public_object_of_google_has_the_tag_and_the_time_limits_that_it_had(monkeypatch) -> None:
    pytest.importorskip("obstore", reason="object stores are read by obstore, which is not installed")
    asked = []

    def ask(self, method, url, *_, **__):
        asked.append((url, self.timeout, self.deadline))
        when = "Wed, 21 Oct 2015 07:28:00 GMT"
        return Reply(206, {"etag": '"e"', "last-modified": when, "content-range": "bytes 0-1/9"}, b"ab")

    monkeypatch.setattr(transport.Transport, "ask", ask)
    monkeypatch.setattr(objects, "_process", -1)
    store = ObjectStore("gs://box/a%20b", {"skip_signature": True, "timeout": 5, "deadline": 7})
    assert store.part("k", 0, 2) == Part(b"ab", 9, '"e"')
    assert asked == [("https://storage.googleapis.com/box/a%2520b/k", 5, 7)]


# ---- time limits


@pytest.mark.parametrize("name", ["timeout", "deadline"])
def test_a_time_limit_may_be_infinite(name) -> None:
    with serving() as server:
        assert make_source(server.url, {name: float("inf")}).read("a") == b"abc"
        assert make_source(server.url, {name: 10**400}).read("a") == b"abc"


@pytest.mark.parametrize("url", ["https://a.org/x", "s3://box/x", "gs://box/x", "az://box/x"])
@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan")])
def test_a_time_limit_that_is_none_is_refused_by_every_kind_of_server(url, value) -> None:
    if not url.startswith("http"):
        pytest.importorskip("obstore", reason="object stores are read by obstore, which is not installed")
    made = ObjectStore if url.startswith(("gs", "az")) else make_source
    for name in ("timeout", "deadline"):
        with pytest.raises(SourceError, match=f"a {name} that is not a number of seconds above 0"):
            made(url, {name: value})


# ---- redirects


@pytest.mark.parametrize("to", ["http://[::1/a", "http://127.0.0.1:80\xe9/a", "http://a b/c"])
def test_a_redirect_to_what_is_no_url_is_an_error(to) -> None:
    with serving() as server:
        server.answer = (302, {"Location": to}, b"")
        with pytest.raises(FragmentReadError, match="is not a URL"):
            make_source(server.url).read("a")


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://other.example/a", "s3://other/a"])
def test_a_redirect_away_from_web_servers_is_refused_without_a_remedy_that_would_not_help(to) -> None:
    with serving() as server:
        server.answer = (302, {"Location": to}, b"")
        with pytest.raises(
            AccessError, match=f"redirects to {to}, which is not on a web server and is never followed$"
        ):
            make_source(server.url).read("a")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_object_store_leads_nowhere_else_whatever_it_is_asked(status) -> None:
    with serving() as server, serving() as other:
        server.answer = (status, {"Location": f"{other.url}/b1/x/k"}, b"")
        other.answer = (200, {}, b"<CopyObjectResult/><DeleteResult/>")
        store = ObjectStore("s3://b1/x", {**keyed(server.url), "session_token": "t"})
        for ask in (
            lambda: store.read("k"),
            lambda: store.part("k", 0, 3),
            lambda: store.size("k"),
            lambda: list(store.objects("")),
            lambda: store.put("k", b"1"),
            lambda: store.put("k", b"1", create=True),
            lambda: store.put("k", b"1", match="a"),
            lambda: store.put("k", bytes(6 << 20)),
            lambda: store.copy("k", "l"),
            lambda: store.delete(["k"]),
            lambda: store.delete(["k", "l"]),
        ):
            with pytest.raises(CfaggError, match="redirects to"):
                ask()
        assert {method for method, _, _ in server.seen} == {"GET", "HEAD", "PUT", "POST", "DELETE"}
        assert all(headers["x-amz-security-token"] == "t" for _, _, headers in server.seen)
        assert not other.seen


def test_parts_of_an_object_are_sent_nowhere_else() -> None:
    with serving() as server, serving() as other:
        away = (303, {"Location": f"{other.url}/b1/x/k"}, b"")
        server.answers = {
            "POST": (200, {}, b"<InitiateMultipartUploadResult><UploadId>1</UploadId>"),
            "PUT": away,
            "DELETE": away,
        }
        with pytest.raises(TargetError, match="redirects to"):
            ObjectStore("s3://b1/x", {**keyed(server.url), "session_token": "t"}).put("k", bytes(6 << 20))
        assert [method for method, _, _ in server.seen][-1] == "DELETE"
        assert not other.seen


@pytest.mark.parametrize("status", [302, 307])
def test_keys_of_an_azure_account_are_not_sent_to_where_its_server_leads(status) -> None:
    pytest.importorskip("obstore", reason="Azure is read by obstore, which is not installed")
    with serving() as server, serving() as other:
        server.answer = (status, {"Location": f"{other.url}/k"}, b"")
        key = {"account_name": "archive", "account_key": "a2V5"}
        with contextlib.suppress(CfaggError):
            ObjectStore("az://data/x", {"endpoint": f"{server.url}/archive", **key}).read("k")
        assert any("authorization" in map(str.lower, headers) for _, _, headers in server.seen)
        assert other.seen
        for _, _, headers in other.seen:
            assert "authorization" not in map(str.lower, headers)


@pytest.mark.parametrize(
    "answer", [(200, {}, b"<Error><Code>InternalError</Code></Error>"), (404, {}, b""), (200, {}, b"")]
)
def test_a_copy_that_the_server_began_and_did_not_make_is_an_error(answer) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    with serving() as server:
        server.answer = answer
        with pytest.raises(TargetError, match="to a copy of k"):
            ObjectStore("s3://b1/x", keyed(server.url)).copy("k", "l")


def test_where_an_object_store_redirects_to_gets_no_signature_and_no_token() -> None:
    with serving() as store, serving() as other:
        store.answer = (307, {"Location": f"{other.url}/k"}, b"")
        source = make_source("s3://b1/x", {**keyed(store.url), "session_token": "c"}, [f"{other.url}/"])
        assert source.read("k") == b"abc"
        signed = {"authorization", "x-amz-security-token"}
        names = [{n.lower() for _, _, headers in each.seen for n in headers} & signed for each in (store, other)]
        assert names == [signed, set()]


def test_obstore_would_send_the_session_token_wherever_a_request_is_redirected() -> None:
    """This is why requests to S3 are our own: once obstore keeps the token back, it may send them."""
    obstore = pytest.importorskip("obstore")
    with serving() as store, serving() as other:
        store.answer = (307, {"Location": other.url.replace("127.0.0.1", "localhost") + "/k"}, b"")
        given = {**keyed(store.url), "session_token": "c", "client_options": {"allow_http": True}}
        with contextlib.suppress(Exception):  # what it makes of the answer is its own affair
            obstore.get(obstore.store.from_url("s3://b1/x", **given), "k")
        tokens = [v for *_, headers in other.seen for k, v in headers.items() if k.lower() == "x-amz-security-token"]
        assert tokens == ["c"]


def _token() -> dict[str, str]:
    return {"sas_token": "sv=1&sig=QUJD"}


@pytest.mark.parametrize("given", [
    {"sas_key": "sv=1&sig=QUJD"}, {"credentials": _token}, "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN",
])  # fmt: skip
def test_a_token_in_the_query_is_sent_to_servers_of_azure_only(given, monkeypatch) -> None:
    pytest.importorskip("obstore", reason="Azure is read by obstore, which is not installed")
    options: dict[str, Any] = {"account_name": "archive"}
    if isinstance(given, str):
        monkeypatch.setenv(given, "sv=1&sig=QUJD")
    else:
        options |= given
    with serving() as server:
        for place in ("option", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"):
            if place == "option":
                more = {"endpoint": f"{server.url}/archive"}
            else:
                monkeypatch.setenv(place, f"{server.url}/archive")
                more = {}
            with pytest.raises(CfaggError, match="is sent to Azure servers only") as refused:
                ObjectStore("az://data/x", {**options, **more}).read("k")
            assert "QUJD" not in str(refused.value)
            monkeypatch.delenv(place, raising=False)
        assert not server.seen


@pytest.mark.parametrize("endpoint", [
    None, "https://a.blob.core.windows.net", "https://a.z01.blob.storage.azure.net/", "https://a.blob.core.chinacloudapi.cn",
])  # fmt: skip
def test_a_token_in_the_query_is_sent_to_every_cloud_of_azure(endpoint) -> None:
    check_server("az://data", {"sas_key": "sig=a", **({"endpoint": endpoint} if endpoint else {})})


@pytest.mark.parametrize("endpoint", [
    "http://a.blob.core.windows.net", "https://core.windows.net.example.org", "https://a.org/.core.windows.net",
    "https://evilcore.windows.net", "https://a.org?.core.windows.net", "https://me@a.org/x.core.windows.net",
    "https://a.core.windows.net.example.org", "https://a.core.windows.net@a.org", "https://a.core.windows.net:80",
])  # fmt: skip
def test_a_server_whose_name_looks_like_that_of_azure_gets_no_token(endpoint) -> None:
    with pytest.raises(AccessError, match="Azure servers only"):
        check_server("az://data", {"sas_key": "sig=a", "endpoint": endpoint})


@pytest.mark.parametrize("variable", ["AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"])
def test_an_account_key_is_used_at_any_server_and_a_token_of_the_environment_is_not_sent_there(
    variable, monkeypatch
) -> None:
    pytest.importorskip("obstore", reason="Azure is written by obstore, which is not installed")
    monkeypatch.setenv(variable, "sv=1&sig=QUJD")
    with serving() as server:
        options = {"account_name": "archive", "account_key": "a2V5", "endpoint": f"{server.url}/archive"}
        store = ObjectStore("az://data/x", options)
        for ask in (lambda: store.put("k", b"1"), lambda: store.read("k")):
            with contextlib.suppress(CfaggError):  # what the server answers is not what Azure does
                ask()
        assert {what for what, _, _ in server.seen} == {"PUT", "GET"}
        for _, where, headers in server.seen:
            assert "QUJD" not in where
            assert headers["authorization"].startswith("SharedKey archive:")


# ---- proxies


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
def test_a_proxy_is_asked_with_its_user_and_the_server_never(variable, monkeypatch) -> None:
    with serving() as proxy, serving() as server:
        monkeypatch.setenv(variable, proxy.url.replace("//", "//me:a%40b@"))
        assert make_source(f"{server.url}/x").read("k") == b"abc"
        ((_, path, headers),) = proxy.seen
        assert path == f"{server.url}/x/k"
        assert headers["proxy-authorization"] == "Basic bWU6YUBi"
        assert headers["host"] == server.url.removeprefix("http://")
        assert not server.seen


def test_a_proxy_of_this_network_decides_where_what_an_untrusted_file_names_may_be(monkeypatch) -> None:
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert HttpSource("http://data.example.org/x", {}, guarded=True).read("k") == b"abc"
        assert [path for _, path, _ in proxy.seen] == ["http://data.example.org/x/k"]


def test_reader_and_writer_of_objects_ask_the_same_proxy(monkeypatch) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    with serving() as proxy, serving() as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        store = ObjectStore("s3://b1/x", keyed(server.url))
        store.put("k", b"1")
        assert store.read("k") == b"abc"
        assert [(what, where) for what, where, _ in proxy.seen] == [(w, f"{server.url}/b1/x/k") for w in ("PUT", "GET")]
        assert not server.seen


@pytest.mark.parametrize("exempt", ["127.0.0.1", "127.0.0.0/8", "example.org, 127.0.0.1", "10.0.0.0/8,127.0.0.0/24"])
def test_no_proxy_names_hosts_and_networks_to_reader_and_writer(exempt, monkeypatch) -> None:
    pytest.importorskip("obstore", reason="object stores are written by obstore, which is not installed")
    with serving() as proxy, serving() as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", exempt)
        store = ObjectStore("s3://b1/x", keyed(server.url))
        store.put("k", b"1")
        assert store.read("k") == b"abc"
        assert not proxy.seen
        assert len(server.seen) == 2


@pytest.mark.parametrize("named", ["socks5://127.0.0.1:9", "https://127.0.0.1:9", "http://[::1", "http://"])
def test_a_proxy_of_another_kind_is_refused_and_nothing_is_sent(named, monkeypatch) -> None:
    with serving() as server:
        monkeypatch.setenv("http_proxy", named)
        with pytest.raises(UnsupportedError, match=r"proxy for http:// is not .* correct it, or set no_proxy"):
            make_source(server.url).read("k")
        assert not server.seen


def test_a_server_behind_tls_is_asked_through_a_tunnel_that_the_proxy_may_refuse(monkeypatch) -> None:
    with serving() as proxy:
        proxy.answer = (407, {}, b"")
        monkeypatch.setenv("https_proxy", proxy.url)
        source = make_source("https://data.example.org/x", {"headers": {"Authorization": "Bearer of the server"}})
        with pytest.raises(FragmentReadError, match=r"refuses to connect to data\.example\.org:443: status 407"):
            source.read("k")
        assert {(what, where) for what, where, _ in proxy.seen} == {("CONNECT", "data.example.org:443")}
        assert not any("authorization" in {n.lower() for n in headers} for _, _, headers in proxy.seen)


@pytest.mark.parametrize("url", ["s3://b//a", "s3://b/a//k", "http://h.example/a//k", "s3://b/a//"])
def test_a_url_with_an_empty_name_is_refused_for_without_it_another_object_would_be_read(url):
    with pytest.raises(SourceError, match="'//' in its path"):
        a_place(url)


@pytest.mark.parametrize(
    "url", ["https://h.example/a.nc?signature=secret", "s3://b/a#part", "https://me:secret@h.example/a.nc"]
)
def test_a_url_with_a_query_a_fragment_or_a_user_is_refused_without_repeating_it(url):
    with pytest.raises((SourceError, OptionError), match="query") as refused:
        make_source(a_place(url))
    assert "secret" not in str(refused.value)


def test_whether_requests_are_signed_is_said_by_a_truth_and_no_text():
    with pytest.raises(OptionError, match="skip_signature is 'false'; expected True or False"):
        a_place("s3://b/a", {"skip_signature": "false"})
