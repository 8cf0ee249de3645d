"""Listings of object stores, and answers that are almost right: the names are those stored, or it is an error."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from cfagg.errors import AccessError, FragmentReadError, SourceError, UnsupportedError
from cfagg.storage import s3_listing
from cfagg.storage.connections import Connection, Connections, _close_all, _is_among
from cfagg.storage.places import make_source
from tests.storage.remote.test_addresses import serving
from tests.storage.remote.test_responses import part, script  # noqa: F401

URL_ENCODED = "<EncodingType>url</EncodingType>"


def entry(key: str, size: str = "3", when: str = "2024-01-01T00:00:00.000Z") -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{when}</LastModified><ETag>&quot;a&quot;</ETag><Size>{size}</Size>"
        "</Contents>"
    )


def listing(content: str) -> bytes:
    body = f'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{content}'
    sent = f"{body}</ListBucketResult>".encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(sent), sent)


@pytest.fixture
def bucket_of(script) -> Any:  # noqa: F811
    """Make a store ``s3://b1/x`` of which a listing is these pages."""

    def make(*pages: str) -> Any:
        server, _ = script(*map(listing, pages))
        return make_source("s3://b1/x", {"endpoint": server.url, "skip_signature": True})

    return make


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (URL_ENCODED + entry("x/a+b%2Bc%20d"), ["a b+c d"]),
        (entry("x/a+b%20&amp;c"), ["a+b%20&c"]),
        (entry("x/a&amp;lt;&#1;&#x1F600;&#128;\t&apos;"), ["a&lt;\x01\U0001f600\x80\t'"]),
        (URL_ENCODED + entry("x/a%01%0D%C3%A4%26lt;"), ["a\x01\r\xe4&lt;"]),
        (URL_ENCODED + entry("x/", "0") + entry("x/f/", "0") + entry("x/f/k"), ["f/k"]),
        (URL_ENCODED + entry("x/e", "0"), ["e"]),
        (URL_ENCODED + entry("x/a", when="yesterday") + entry("x/b", when="0001-01-01T00:00:00"), ["a", "b"]),
    ],
)
def test_names_are_those_that_are_stored_and_marks_of_folders_are_none(bucket_of, content, names) -> None:
    assert [key for key, _ in bucket_of(content).objects("")] == names


@pytest.mark.parametrize("content", [
    entry("y/a"), entry("a"), entry("<![CDATA[x/a]]>"), f"<!--{entry('x/a')}-->", entry("x/a", "\xb2"),
    entry("x/&copy;"), entry("x/a&b"), entry("x/&#" + "9" * 5000 + ";"), entry("x/&#55296;"), entry("x/&#0;"),
    URL_ENCODED + entry("x/%FF"), "<Contents><Key>x/a</Key>", "<IsTruncated>true</IsTruncated>",
    entry("x/a", "9" * 5000), entry("x/a").replace("<Contents>", "<Contents a='b'>"),
])  # fmt: skip
def test_a_listing_that_is_not_of_this_place_or_not_as_of_s3_is_an_error(bucket_of, content) -> None:
    with pytest.raises(UnsupportedError, match="cannot be listed"):
        list(bucket_of(content).objects(""))


def test_a_folder_elsewhere_is_no_child_and_several_may_stand_together(bucket_of) -> None:
    both = "<CommonPrefixes><Prefix>x/a/</Prefix><Prefix>x/b/</Prefix></CommonPrefixes>"
    assert list(bucket_of(both).children("")) == ["a", "b"]
    with pytest.raises(UnsupportedError, match="cannot be listed"):
        list(bucket_of(both.replace("x/b", "y/b")).children(""))


def test_an_empty_token_is_the_end_of_a_listing(bucket_of) -> None:
    once = f"{entry('x/a')}<IsTruncated>false</IsTruncated><NextContinuationToken></NextContinuationToken>"
    assert [key for key, _ in bucket_of(once, once, once).objects("")] == ["a"]


def test_a_listing_that_leads_to_its_own_page_is_an_error(bucket_of) -> None:
    once = f"{entry('x/a')}<NextContinuationToken>b</NextContinuationToken>"
    with pytest.raises(UnsupportedError, match="cannot be listed"):
        list(bucket_of(once, once, once).objects(""))


@pytest.mark.parametrize("piece", [
    "<ListBucketResult>", "<Contents>", "<Contents><Key>", entry("x/a"), entry("x/a").replace("</Key>", "<Key>"),
    "<CommonPrefixes><Prefix>", "<CommonPrefixes><Prefix>x/a</Prefix></CommonPrefixes>", "<NextContinuationToken>",
    "<IsTruncated> ", "<EncodingType>", " ", "&#1", "</ListBucketResult> ",
])  # fmt: skip
def test_a_page_takes_time_in_proportion_to_its_length(piece) -> None:
    def spent(size: int) -> float:
        page = f"<ListBucketResult>{piece * (size // len(piece))}</ListBucketResult>".encode()
        took = []
        for _ in range(5):
            began = time.thread_time()
            with contextlib.suppress(ValueError):
                s3_listing.listing(page, "x/")
            took.append(time.thread_time() - began)
        return min(took)

    # The second page is 8 times as long: 64 times the time would be that of its square.
    assert spent(1 << 20) <= 40 * max(spent(1 << 17), 2e-3)


def test_a_clock_that_is_wrong_is_named(script) -> None:  # noqa: F811
    body = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
    server, _ = script(b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(AccessError, match=r"403 \(RequestTimeTooSkewed\)"):
        make_source("s3://b1/x", {"endpoint": server.url, "skip_signature": True}).read("k")


def test_an_endpoint_with_a_fragment_is_refused() -> None:
    with pytest.raises(SourceError, match="invalid endpoint"):
        make_source("s3://b1/x", {"endpoint": "http://127.0.0.1:9/#a"})


# ---- answers


def test_a_part_that_is_sent_for_the_whole_is_an_error(script) -> None:  # noqa: F811
    _, source = script(part(b"abc"))
    with pytest.raises(FragmentReadError, match="asked for the whole object and sends a part"):
        source.read("a")


@pytest.mark.parametrize(("start", "count"), [(0, 50), (97, 2), (None, 5)])
def test_fewer_or_other_bytes_than_were_asked_for_are_an_error(script, start, count) -> None:  # noqa: F811
    first = 95 if start is None else start
    _, source = script(part(b"abc"[: min(3, count - 1)], first))
    with pytest.raises(FragmentReadError, match="instead"):
        source.part("a", start, count)


def test_fewer_bytes_are_right_where_the_object_ends(script) -> None:  # noqa: F811
    _, source = script(part(b"abc", 97))
    assert source.read_range("a", 97, 50) == b"abc"


@pytest.mark.parametrize("told", [b"bytes 0-2/" + b"9" * 5000, b"bytes */" + b"9" * 5000])
def test_a_size_of_thousands_of_digits_is_no_size(script, told) -> None:  # noqa: F811
    _, source = script(b"HTTP/1.1 206 P\r\nContent-Range: %s\r\nContent-Length: 3\r\n\r\nabc" % told)
    with pytest.raises(FragmentReadError, match="as the range of the bytes"):
        source.read_range("a", 0, 3)


@pytest.mark.parametrize("when", [
    b"Mon, 01 Jan 99999999999999999999 00:00:00 GMT", b"Mon, 01 Jan 2024 00:00:00 +99999999999999",
])  # fmt: skip
def test_a_time_beyond_all_times_is_none(script, when) -> None:  # noqa: F811
    busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: %s\r\n\r\n" % when
    _, source = script(busy, part(b"abc", more=b"Last-Modified: %s\r\n" % when))
    assert source.read_range("a", 0, 3) == b"abc"


def test_the_fragment_of_a_redirect_is_not_sent(script) -> None:  # noqa: F811
    moved = b"HTTP/1.1 302 Found\r\nLocation: /b?x=1#y\r\nContent-Length: 0\r\n\r\n"
    server, source = script(moved, part(b"abc"))
    assert source.read_range("a", 0, 3) == b"abc"
    assert server.asked[1].startswith(b"GET /b?x=1 HTTP/1.1\r\n")


# ---- connections


class _Taken(dict[Any, Any]):
    """Idle connections of which another thread takes the last one after each look."""

    def __bool__(self) -> bool:
        return True

    def pop(self) -> Connection:  # type: ignore[override]
        raise IndexError


def test_threads_that_close_the_same_connections_do_not_fail(monkeypatch) -> None:
    made = Connections(60.0)
    monkeypatch.setattr(made, "_of", lambda _: _Taken())
    made.forget(("http", "127.0.0.1", False))
    _close_all(_Taken())


def test_what_is_no_network_hides_no_other_in_the_list_without_proxies() -> None:
    assert _is_among("10.1.2.3", "localhost:8080, a/b, 10.0.0.0/8")
    assert not _is_among("a.org", "localhost:8080,0.0.0.0/0")


@pytest.mark.parametrize("port", ["", ":8080"])
def test_a_proxy_is_told_the_host_as_the_header_that_is_signed_says_it(port, monkeypatch) -> None:
    for name in ("all_proxy", "no_proxy", "ALL_PROXY", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert make_source(f"http://data.example.org{port}/x").read("k") == b"abc"
        ((_, path, headers),) = proxy.seen
        assert (path, headers["host"]) == (f"http://data.example.org{port}/x/k", f"data.example.org{port}")
