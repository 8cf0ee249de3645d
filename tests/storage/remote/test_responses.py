"""Answers of web servers are what the standard library reads of them, or errors: none is guessed."""

from __future__ import annotations

import contextlib
import email.message
import http.client
import io
import socket
import string
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cfagg.errors import CfaggError, FragmentReadError, LimitError, UnsupportedError
from cfagg.storage import transport
from cfagg.storage.places import make_source
from cfagg.storage.remote import HttpSource
from cfagg.storage.responses import AnswerError, Response


def answered(sent: bytes, method: str = "GET") -> Response:
    return Response(io.BufferedReader(io.BytesIO(sent)), method)  # type: ignore[arg-type]


class _Socket:
    """What `http.client` reads an answer from."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._sent)


def by_http_client(sent: bytes) -> tuple[int, email.message.Message, bytes]:
    found = http.client.HTTPResponse(_Socket(sent))  # type: ignore[arg-type]
    found.begin()
    return found.status, found.msg, found.read()


TOKEN = st.text(string.ascii_letters + string.digits + "!#$%&'*+.^_`|~-", min_size=1, max_size=20)
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_categories=("Cc",)), max_size=40)
SPACE = st.text(" \t", max_size=3)
#: Headers that say where the answer ends are added below.
FRAMING = {"content-length", "transfer-encoding", "connection"}
HEADERS = st.lists(
    st.tuples(TOKEN, SPACE, TEXT, SPACE), max_size=20, unique_by=lambda h: h[0].lower()
).map(lambda found: [h for h in found if h[0].lower() not in FRAMING])  # fmt: skip


@given(st.binary(max_size=60), st.integers(1, 20), st.booleans(), st.lists(st.integers(0, 25), max_size=8))
def test_a_body_that_is_read_in_pieces_is_that_of_one_read(body, size, chunked, asked) -> None:
    head = b"HTTP/1.1 200 OK\r\n"
    if chunked:
        parts = [body[k : k + size] for k in range(0, len(body), size)]
        sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])
        answer = answered(head + b"Transfer-Encoding: chunked\r\n\r\n" + sent)
    else:
        answer = answered(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    pieces = [answer.read(most) for most in asked]
    assert all(len(piece) <= most for piece, most in zip(pieces, asked, strict=True))
    assert b"".join([*pieces, answer.read(100)]) == body
    assert answer.ended
    assert answer.stays


@given(
    st.sampled_from([200, 206, 301, 403, 404, 416, 500, 503, 599]), TEXT, HEADERS, st.binary(max_size=300), st.data()
)
def test_status_headers_and_body_are_those_of_the_standard_library(status, reason, headers, body, data) -> None:
    lines = [f"HTTP/1.1 {status} {reason}\r\n", *(f"{n}:{a}{v}{b}\r\n" for n, a, v, b in headers)]
    how = data.draw(st.sampled_from(["length", "chunks", "close"]))
    if how == "chunks":
        cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if b > a]
        content = b"".join(b"%x;a=b\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\nA: b\r\n\r\n"
    else:
        content = body
    framing = {"length": f"Content-Length: {len(body)}\r\n", "chunks": "Transfer-Encoding: chunked\r\n", "close": ""}[
        how
    ]
    lines.insert(data.draw(st.integers(1, len(lines))), framing)
    sent = "".join(lines).encode("latin-1") + b"\r\n" + content
    told, message, expected = by_http_client(sent)
    found = answered(sent)
    assert found.status == told
    assert found.headers == {name.lower(): value.strip(" \t") for name, value in message.items()}
    assert found.read(1000) == expected == body
    assert found.ended == (how != "close")
    assert found.stays == (how != "close")


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_what_is_damaged_is_read_as_the_standard_library_would_or_refused(body, where, byte) -> None:
    sent = bytearray(
        b"HTTP/1.1 206 Partial\r\nETag: \"a\"\r\nContent-Range: bytes 0-%d/900\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body) - 1, len(body), body)
    )  # fmt: skip
    sent[where % len(sent)] = byte
    try:
        found = answered(bytes(sent))
        read = found.read(10_000)
    except (AnswerError, ConnectionError):
        return
    told, message, expected = by_http_client(bytes(sent))
    assert (found.status, read) == (told, expected)
    assert found.headers == {name.lower(): value.strip(" \t") for name, value in message.items()}


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH_9\r\n", "which is not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "which is not HTTP"),
        (b"HTTP/1.1 0200 OK\r\n\r\n", "which is not HTTP"),
        (b"HTTP/1.1 200 O\0K\r\n\r\n", "which is not HTTP"),
        (b"HTTP/1.1 200 OK", "which is not HTTP"),
        (OK, "ends within its head"),
        (OK + b"Content-Le", "a malformed header"),
        (OK + b"A: b\nContent-Length: 0\n\n", "a malformed header"),
        (OK + b"A: b\r\n more\r\n\r\n", "a malformed header"),
        (OK + b"A : b\r\n\r\n", "a malformed header"),
        (OK + b"A: b\0\r\n\r\n", "a malformed header"),
        (OK + b"A: b\rC: d\r\n\r\n", "a malformed header"),
        (OK + b"\xc3\xa4: b\r\n\r\n", "a malformed header"),
        (OK + b"A: " + b"b" * 10_000_000 + b"\r\n\r\n", "a malformed header"),
        (OK + b"".join(b"A%d: b\r\n" % n for n in range(100_000)) + b"\r\n", "more than 128 headers"),
        (OK + b"".join(b"A%d: %s\r\n" % (n, b"b" * 10_000) for n in range(9)) + b"\r\n", "more than 65,536 bytes"),
        (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "content-length twice"),
        (OK + b"content-range: bytes 0-1/9\r\nContent-Range: bytes 0-1/8\r\n\r\n", "content-range twice"),
        (OK + b"Content-Length: -1\r\n\r\n", "'-1' as the length"),
        (OK + b"Content-Length: 1, 1\r\n\r\na", "as the length"),
        (OK + b"Content-Length: \xb2\r\n\r\n", "as the length"),
        (OK + b"Content-Length: 9" + b"9" * 20 + b"\r\n\r\n", "as the length"),
        (OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "with a length"),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "or unasked"),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "in HTTP/1.0"),
        (OK + b"Content-Length: 5\r\n\r\nabc", "ends after 3 of 5 bytes"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", "begins with no length"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1_0\r\n", "begins with no length"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", "longer than announced"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\na", "ends after 1 of 2 bytes"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "ends within"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", "ends within"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9, "interim answers"),
    ],
)  # fmt: skip
def test_what_is_no_answer_or_two_is_an_error(sent, message) -> None:
    with pytest.raises((AnswerError, ConnectionError), match=message):
        answered(sent).read(1000)


def test_interim_answers_come_before_the_answer() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    found = answered(early + OK + b"Content-Length: 2\r\n\r\nab")
    assert (found.status, found.headers, found.read(9)) == (200, {"content-length": "2"}, b"ab")


def test_headers_that_are_given_several_times_are_a_list() -> None:
    found = answered(
        OK + b"Vary: a\r\nvary: b\r\nConnection: keep-alive\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n"
    )
    assert (found.headers["vary"], found.stays) == ("a, b", False)


@pytest.mark.parametrize("most", [0, 1, 3, 4, 7, 8, 9])
def test_a_part_of_a_body_in_chunks_is_its_beginning(most) -> None:
    sent = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\ndefgh\r\n0\r\n\r\n"
    found = answered(sent)
    assert found.read(most) == b"abcdefgh"[:most]
    assert found.ended == (most > 8)


# ---- on connections


class Last(bytes):
    """After this answer the connection is closed."""


class Scripted:
    """A server that answers each request on a connection with the next of some bytes; `None` closes the connection."""

    def __init__(self, *answers: bytes | Callable[[], None] | None) -> None:
        self._answers = iter(answers)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections, self.asked = 0, list[bytes]()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connected, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._talk, args=(connected,), daemon=True).start()

    def _talk(self, connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    got = connected.recv(1 << 16)
                    if not got:
                        return
                    head += got
                self.asked.append(head)
                sent = next(self._answers, None)
                if sent is None:
                    return
                connected.sendall(sent)
                if isinstance(sent, Last):
                    return

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Scripted, HttpSource]]]:
    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    made: list[Scripted] = []

    def make(*answers: bytes | None) -> tuple[Scripted, HttpSource]:
        made.append(Scripted(*answers))
        source = make_source(made[-1].url)
        assert isinstance(source, HttpSource)
        return made[-1], source

    yield make
    for each in made:
        each.close()


def part(body: bytes, first: int = 0, size: int = 100, more: bytes = b"") -> bytes:
    told = b"bytes %d-%d/%d" % (first, first + len(body) - 1, size)
    return (
        b"HTTP/1.1 206 P\r\nContent-Range: %s\r\nContent-Length: %d\r\n%s\r\n%s" % (told, len(body), more, body)
    )  # fmt: skip


def test_requests_share_a_connection(script) -> None:
    server, source = script(*[part(b"abc")] * 5)
    assert [source.read_range("a", 0, 3) for _ in range(5)] == [b"abc"] * 5
    assert server.connections == 1
    assert server.asked[0].startswith(b"GET /a HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nrange: bytes=0-2\r\n" in server.asked[0]


@pytest.mark.parametrize("after", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz", part(b"xyz"), b"\r\n", b"\0",
])  # fmt: skip
def test_what_nobody_asked_for_is_never_the_answer_to_the_next_request(script, after) -> None:
    server, source = script(part(b"abc") + after, part(b"def"))
    assert source.read_range("a", 0, 3) == b"abc"
    assert source.read_range("b", 0, 3) == b"def"
    assert server.connections == 2


def test_an_early_answer_is_not_taken_for_the_one_to_the_next_request(script) -> None:
    server, source = script(b"HTTP/1.1 103 Early Hints\r\n\r\n" + part(b"abc"), part(b"def"))
    assert [source.read_range("a", 0, 3), source.read_range("b", 0, 3)] == [b"abc", b"def"]
    assert server.connections == 1


def test_the_body_that_a_server_sends_to_a_head_is_no_answer(script) -> None:
    server, source = script(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n" + part(b"x" * 40), part(b"abc"))
    assert source.size("a") == 40
    assert source.read_range("b", 0, 3) == b"abc"
    assert server.connections == 2


@pytest.mark.parametrize("more", [b"Connection: close\r\n", b"connection: TE, Close\r\n"])
def test_a_connection_that_the_server_closes_is_not_used_again(script, more) -> None:
    server, source = script(part(b"abc", more=more), part(b"def"))
    assert [source.read_range("a", 0, 3), source.read_range("b", 0, 3)] == [b"abc", b"def"]
    assert server.connections == 2


def test_a_connection_that_was_dropped_while_idle_is_no_failure(script, monkeypatch) -> None:
    monkeypatch.setattr(transport, "_ATTEMPTS", 1)
    server, source = script(part(b"abc"), None, part(b"def"))
    assert source.read_range("a", 0, 3) == b"abc"
    assert source.read_range("b", 0, 3) == b"def"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (b"nothing\r\n", FragmentReadError, "not HTTP"),
        (Last(part(b"abc")[:-1]), FragmentReadError, "ends after 2 of 3 bytes"),
        (part(b"abc", 1), FragmentReadError, "sends those from 1"),
        (part(b"abc", more=b"Content-Range: bytes 0-2/99\r\n"), FragmentReadError, "content-range twice"),
        (part(b"abc", more=b"Content-Encoding: gzip\r\n"), FragmentReadError, "encoded unasked with gzip"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", UnsupportedError, "/a: .* not support byte ranges"),
        (b"HTTP/1.1 206 P\r\nContent-Length: 3\r\n\r\nabc", FragmentReadError, "as the range of the bytes"),
        (b"HTTP/1.1 206 P\r\nContent-Length: 99999999\r\n\r\nabc", LimitError, "99,999,999 bytes"),
        (b"HTTP/1.1 206 P\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + b"x" * 100, LimitError, "more than 3"),
        (b"HTTP/1.1 204 None\r\n\r\n", FragmentReadError, "answers 204"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", FragmentReadError, "answers 304"),
    ],
)  # fmt: skip
def test_an_answer_that_is_wrong_is_an_error(script, answer, error, message) -> None:
    _, source = script(*[answer] * 4)
    with pytest.raises(error, match=message):
        source.read_range("a", 0, 3)


@given(st.lists(st.binary(max_size=60), max_size=4), st.integers(0, 400))
def test_a_cut_anywhere_is_an_error_or_leaves_the_whole(pieces, at) -> None:
    body = b"".join(pieces)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p) + b"0\r\n\r\n"
    for framed in (b"Content-Length: %d\r\n\r\n%s" % (len(body), body), b"Transfer-Encoding: chunked\r\n\r\n" + chunks):
        sent = (OK + framed)[:at]
        try:
            assert answered(sent).read(1000) == body
        except (AnswerError, ConnectionError):
            assert at < len(OK + framed)


def test_headers_of_the_user_cannot_begin_another_request() -> None:
    source = make_source("http://127.0.0.1:9", {"headers": lambda: {"a b": "c"}})
    with pytest.raises(CfaggError, match="has invalid characters"):
        source.read("a")


def test_a_deadline_holds_for_a_head_that_never_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def drip() -> None:
            connected, _ = listening.accept()
            with connected, contextlib.suppress(OSError):
                connected.sendall(OK)
                while not stop.wait(0.02):
                    connected.sendall(b"A: b\r\n")

        threading.Thread(target=drip, daemon=True).start()
        source = make_source(f"http://127.0.0.1:{listening.getsockname()[1]}", {"deadline": 0.5})
        with pytest.raises(FragmentReadError, match=r"within 0\.5 s"):
            source.read("a")
        stop.set()
