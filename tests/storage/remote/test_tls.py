"""Answers over TLS that are cut off: without a length, only the end of TLS tells the whole from a part."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cfagg.errors import AccessError, FragmentReadError
from cfagg.storage import transport
from cfagg.storage.places import make_source
from tests.storage.remote.test_responses import part

x509 = pytest.importorskip("cryptography.x509", reason="makes the certificate of the test's server")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1, with its key."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "none of these")])
    now, address = dt.datetime.now(dt.UTC), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    path = tmp_path_factory.mktemp("tls") / "own.pem"
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(pem) + secret)
    return path


@pytest.fixture
def serve(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Give every request the same bytes, then end the connection in some way; return the URL."""
    monkeypatch.setattr(transport.time, "sleep", lambda _: None)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with contextlib.ExitStack() as stack:

        def make(sent: bytes, end: str, secure: bool = True) -> str:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def answer() -> None:
                while True:
                    try:
                        plain, _ = listening.accept()
                    except OSError:
                        return
                    with contextlib.suppress(OSError), plain:
                        connected = context.wrap_socket(plain, server_side=True) if secure else plain
                        with connected:
                            while connected.recv(1 << 16):
                                connected.sendall(sent)
                                if end == "stays":
                                    continue
                                if end == "reset":
                                    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                                if end == "ended" and isinstance(connected, ssl.SSLSocket):
                                    connected.unwrap()
                                break

            threading.Thread(target=answer, daemon=True).start()
            return f"http{'s' if secure else ''}://127.0.0.1:{listening.getsockname()[1]}"

        yield make


BODY = b'{"zarr_format": 2}'
UNSIZED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("sent", [UNSIZED, UNSIZED.replace(b"1.1", b"1.0"), UNSIZED[:-9]])
def test_an_answer_without_a_length_whose_tls_does_not_end_may_be_cut_off(serve, sent) -> None:
    with pytest.raises(FragmentReadError, match=r"after 4 attempts: .*the connection was cut before TLS ended"):
        make_source(serve(sent, "cut")).read("a")


@pytest.mark.parametrize("sent", [UNSIZED, UNSIZED.replace(b"1.1", b"1.0")])
def test_an_answer_without_a_length_whose_tls_ends_is_whole(serve, sent) -> None:
    assert make_source(serve(sent, "ended")).read("a") == BODY


@pytest.mark.parametrize("sent", [CHUNKED + b"0\r\n\r\n", CHUNKED.replace(b"200", b"404") + b"0\r\n\r\n", part(BODY)])
def test_an_answer_that_says_where_it_ends_needs_no_end_of_tls(serve, sent) -> None:
    source = make_source(serve(sent, "cut"))
    for _ in range(3):  # the connection is kept, and found cut
        if sent.startswith(b"HTTP/1.1 206"):
            assert source.read_range("a", 0, len(BODY)) == BODY
        else:
            assert source.read("a") == (None if b"404" in sent else BODY)


@pytest.mark.parametrize("end", ["cut", "ended", "reset"])
@pytest.mark.parametrize("sent", [CHUNKED, CHUNKED[:-9], CHUNKED + b"0\r\n", part(BODY)[:-1]])
def test_a_cut_within_what_was_said_to_come_is_an_error(serve, sent, end) -> None:
    source = make_source(serve(sent, end))
    with pytest.raises(FragmentReadError, match="after 4 attempts"):
        source.read_range("a", 0, len(BODY)) if b"206" in sent else source.read("a")


@pytest.mark.parametrize("secure", [True, False])
def test_a_connection_that_is_reset_within_an_answer_without_a_length_is_an_error(serve, secure) -> None:
    with pytest.raises(FragmentReadError, match="after 4 attempts"):
        make_source(serve(UNSIZED, "reset", secure)).read("a")


@pytest.mark.parametrize("scheme", ["http", "file", "s3", "ftp"])
def test_a_redirect_leads_from_tls_to_no_url_of_another_kind(serve, scheme) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: %s://127.0.0.1/store/b\r\nContent-Length: 0\r\n\r\n"
    url = serve(moved % scheme.encode(), "stays")
    why = "outside the store" if scheme == "http" else "which is not on a web server"
    with pytest.raises(AccessError, match=rf"redirects to {scheme}://127\.0\.0\.1/store/b, {why}"):
        make_source(f"{url}/store").read("a")


@pytest.mark.parametrize(
    ("host", "known", "why"), [("127.0.0.1", False, "self-signed"), ("localhost", True, "mismatch")]
)
def test_a_server_that_does_not_prove_who_it_is_is_sent_nothing(serve, monkeypatch, host, known, why) -> None:
    monkeypatch.setenv("no_proxy", host)
    if not known:
        monkeypatch.delenv("SSL_CERT_FILE")
    url = serve(part(BODY), "stays").replace("127.0.0.1", host)
    with pytest.raises(FragmentReadError, match=f"cannot be read: .*CERTIFICATE_VERIFY_FAILED.*{why}"):
        make_source(url, {"headers": {"authorization": "unlikely"}}).read_range("a", 0, len(BODY))


def test_what_a_proxy_wants_is_not_sent_through_its_tunnel(certificate: Path, monkeypatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def tunnel() -> None:
            plain, _ = listening.accept()
            seen.append(plain.recv(1 << 16))
            plain.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            with context.wrap_socket(plain, server_side=True) as connected:
                seen.append(connected.recv(1 << 16))
                connected.sendall(part(BODY))

        thread = threading.Thread(target=tunnel, daemon=True)
        thread.start()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        monkeypatch.setenv("https_proxy", f"http://me:unlikely@127.0.0.1:{listening.getsockname()[1]}")
        source = make_source("https://127.0.0.1:1/store", {"headers": {"authorization": "of the server"}})
        assert source.read_range("a", 0, len(BODY)) == BODY
        thread.join()
    proxy, server = seen
    assert proxy.startswith(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n")
    assert (b"proxy-authorization: Basic" in proxy, b"of the server" in proxy) == (True, False)
    assert server.startswith(b"GET /store/a HTTP/1.1\r\n")
    assert (b"proxy-authorization" in server, b"authorization: of the server" in server) == (False, True)
