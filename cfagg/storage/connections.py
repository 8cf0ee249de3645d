"""Persistent connections to web servers, and a deadline for everything that is received.

There are no threads and no locks, so that forked data loaders work: a child does not touch its parent's connections.
"""

from __future__ import annotations

import base64
import contextlib
import io
import ipaddress
import os
import re
import socket
import ssl
import time
import urllib.request
import weakref
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit

from cfagg.errors import AccessError, SourceError, UnsupportedError
from cfagg.storage.bodies import Body
from cfagg.storage.http_options import split_url
from cfagg.storage.responses import AnswerError, Response

__all__ = ["Connection", "Connections", "Server"]

#: Scheme, host with port, and whether connections are guarded.
Server = tuple[str, str, bool]

#: Maximum number of idle connections to one server.
_IDLE = 32

#: IPv6 prefixes that embed IPv4 addresses (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")

#: Networks that lead into this one or serve protocols, which Python takes for public ones before 3.12.4.
_NEAR = tuple(map(ipaddress.ip_network, ("2002::/16", "64:ff9b:1::/48", "192.0.0.0/24")))

#: Number of bytes of a body that the server has to accept within its timeout.
_SENT_AT_ONCE = 1 << 18

#: Characters allowed in the target of a request, and in a header.
_TARGET = re.compile(r"[\x21-\x7e]++")
_SENT = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]++: [\t\x20-\x7e]*+")


class _Incoming(io.RawIOBase):
    """The receiving side of a socket; a wait ends when the server was silent too long or the deadline has passed."""

    def __init__(self, connected: socket.socket, silence: float) -> None:
        self._socket, self._silence = connected, silence
        self.deadline = float("inf")
        #: Whether reads do not block, and whether the server has closed the connection.
        self.idle = self.over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Return the number of bytes received, or `None` if there are none yet and reads do not block."""
        if self.idle:
            self.wait(0.0)
            try:
                count = self._socket.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError):
                return None
            except OSError:
                count = 0
            self.over = self.over or not count
            return count
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline of this request has passed")
        self.wait(min(self._silence, left))
        try:
            return self._socket.recv_into(buffer)
        except ssl.SSLEOFError:
            # Anyone on the path can close a connection; only TLS proves that the server itself ended the data.
            raise ConnectionResetError("the connection was cut before TLS ended") from None

    def wait(self, seconds: float) -> None:
        """Set the timeout of the socket, which is a system call."""
        if self._socket.gettimeout() != seconds:
            self._socket.settimeout(seconds)


class Connection:
    """One connection to one server, through a proxy if the environment names one.

    It is `guarded` if an untrusted file or a redirect led here: then nothing is sent to an address of this network.
    """

    def __init__(self, scheme: str, host: str, port: int | None, silence: float, guarded: bool = False) -> None:
        self.silence, self.host, self.guarded = silence, host, guarded
        self.used = False
        self._secure = scheme == "https"
        self._port = port or (443 if self._secure else 80)
        named = f"[{host}]" if ":" in host else host
        self._place = f"{named}:{self._port}"
        #: As written in the URL: a proxy derives the ``Host`` header from it, and that header is signed.
        self._authority = named if port is None else self._place
        self._proxy = _proxy(scheme, host)
        #: Headers for the proxy if requests contain the whole URL in its form; none of them are sent through a tunnel.
        self._to_proxy = self._proxy[2] if self._proxy is not None and not self._secure else None
        if self._proxy is not None:
            # The proxy makes the connection, and decides which are allowed.
            self.guarded = False
        self._socket: Any = None

    def request(
        self, method: str, target: str, headers: Mapping[str, str], deadline: float, body: Body | None = None
    ) -> Response:
        """Send a request and return the response, its body still unread; `deadline` is a time of `monotonic`."""
        if self._to_proxy is not None:
            target, headers = f"http://{self._authority}{target}", {**headers, **self._to_proxy}
        asked = self._request(method, target, headers)
        if self._socket is None:
            self._connect(deadline)
        return self._asked(method, asked, deadline, body)

    def _request(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        if not _TARGET.fullmatch(target) or not all(map(_SENT.fullmatch, lines[1:-2])):
            # The message does not name the header, because it may be a secret.
            raise SourceError(f"no request can be sent to {self.host}: its URL or a header has invalid characters")
        return "\r\n".join(lines).encode()

    def _asked(self, method: str, asked: bytes, deadline: float, body: Body | None = None) -> Response:
        self._incoming.idle, self._incoming.deadline = False, deadline
        self._incoming.wait(self.silence)
        self._socket.sendall(asked)
        whole = body is None or self._send(body, deadline)
        answer = Response(self._reader, method)
        answer.stays = answer.stays and whole
        return answer

    def _send(self, body: Body, deadline: float) -> bool:
        """Send a body; return `False` if the server stopped reading it and may have answered why."""
        for begin in range(0, body.nbytes, _SENT_AT_ONCE):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the deadline of this request has passed")
            self._incoming.wait(min(self.silence, left))
            try:
                self._socket.sendall(body[begin : begin + _SENT_AT_ONCE])
            except (BrokenPipeError, ConnectionResetError):
                return False
        return True

    def _connect(self, deadline: float) -> None:
        def left() -> float:
            return max(0.001, min(self.silence, deadline - time.monotonic()))

        place = (self.host, self._port) if self._proxy is None else self._proxy[:2]
        made = socket.create_connection(place, left())
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.guarded:
                self._check_address(made.getpeername()[0])
            self._use(made)
            if self._secure:
                if self._proxy is not None:
                    self._tunnel(self._proxy[2], deadline)
                made.settimeout(left())
                made = _context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")).wrap_socket(
                    made, server_hostname=self.host, suppress_ragged_eofs=False
                )
                self._use(made)
        except BaseException:
            made.close()
            self._socket = None
            raise

    def _use(self, connected: socket.socket) -> None:
        self._socket, self._incoming = connected, _Incoming(connected, self.silence)
        self._reader = io.BufferedReader(self._incoming, 1 << 16)

    def _tunnel(self, headers: Mapping[str, str], deadline: float) -> None:
        """Ask the proxy to connect to the server."""
        answer = self._asked(
            "CONNECT", self._request("CONNECT", self._place, {"host": self._place, **headers}), deadline
        )
        if answer.status != 200 or not self.is_quiet():
            raise AnswerError(f"the proxy refuses to connect to {self._place}: status {answer.status}")

    def is_quiet(self) -> bool:
        """Return whether the connection is open and no unexpected data have arrived."""
        self._incoming.idle = True
        return not self._reader.peek(1) and not self._incoming.over

    def _check_address(self, address: str) -> None:
        """Raise if a name resolved to an address of this machine or network; the user may allow the address itself."""
        found: Any = ipaddress.ip_address(address.partition("%")[0])
        found = getattr(found, "ipv4_mapped", None) or found
        if found in _TRANSLATED or (found.version == 6 and int(found) >> 32 == 0 and int(found) > 1):
            found = ipaddress.ip_address(int(found) & 0xFFFFFFFF)
        near = not found.is_global or found.is_multicast or getattr(found, "is_site_local", False)
        near = near or any(found in network for network in _NEAR)
        if near and self.host not in (str(found), "localhost"):
            raise AccessError(
                f"{self.host} is at the address {found} of this machine or its network, which files and redirects may "
                "not refer to; if this is intended, allow that address itself"
            )

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _proxy(scheme: str, host: str) -> tuple[str, int, dict[str, str]] | None:
    """Return host and port of the proxy that the environment names for a server, and the headers it needs."""
    known = urllib.request.getproxies()
    if urllib.request.proxy_bypass(host) or _is_among(host, known.get("no", "")):
        return None
    named = known.get(scheme) or known.get("all")
    if not named:
        return None
    parts = split_url(named if "://" in named else f"http://{named}")
    if parts is None or parts.scheme != "http" or not parts.hostname:
        raise UnsupportedError(
            f"no request can be sent to {host}: the environment's proxy for {scheme}:// is not of the form "
            "http://proxy:port; correct it, or set no_proxy"
        )
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers = {"proxy-authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return parts.hostname, parts.port or 80, headers


def _is_among(host: str, listed: str) -> bool:
    """Return whether a host is an address in one of the networks listed in ``no_proxy``.

    >>> _is_among("10.1.2.3", "example.org, 10.0.0.0/8"), _is_among("a.org", "0.0.0.0/0")
    (True, False)
    """
    for each in listed.split(","):
        if "/" in each or ":" in each:
            # An entry that is not a network, such as a host with a port, does not affect the others.
            with contextlib.suppress(ValueError):
                if ipaddress.ip_address(host) in ipaddress.ip_network(each.strip(" []"), strict=False):
                    return True
    return False


@lru_cache(4)
def _context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Return the TLS context with the certificates that the environment names; cached, because they load slowly."""
    made = ssl.create_default_context()
    made.set_alpn_protocols(["http/1.1"])
    return made


class Connections:
    """The idle connections of one process, by server; any thread may take one and give it back."""

    def __init__(self, silence: float) -> None:
        self.silence = silence
        self._process = os.getpid()
        self._idle: dict[Server, deque[Connection]] = {}
        # Stores are never closed explicitly, so their connections are closed when they are garbage-collected.
        weakref.finalize(self, _close_all, self._idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.silence,)

    def take(self, server: Server) -> Connection:
        """Return a connection to a server: an idle one without unexpected data, or else a new one."""
        idle = self._of(server)
        while idle:
            try:
                found = idle.pop()
            except IndexError:
                break  # another thread took it
            if found.is_quiet():
                return found
            found.close()
        scheme, place, guarded = server
        parts = urlsplit(f"{scheme}://{place}")
        return Connection(scheme, parts.hostname or "", parts.port, self.silence, guarded)

    def give_back(self, server: Server, connection: Connection) -> None:
        """Keep a connection whose response was read to its end."""
        idle = self._of(server)
        connection.used = True
        if len(idle) < _IDLE:
            idle.append(connection)
        else:
            connection.close()

    def forget(self, server: Server) -> None:
        """Close the idle connections to a server, which has just closed one of them."""
        idle = self._of(server)
        with contextlib.suppress(IndexError):  # another thread took the last one
            while idle:
                idle.pop().close()

    def _of(self, server: Server) -> deque[Connection]:
        if self._process != os.getpid():
            # A child does not use the connections of its parent, which remain open there.
            _close_all(self._idle)
            self._process = os.getpid()
        found = self._idle.get(server)
        return self._idle.setdefault(server, deque()) if found is None else found


def _close_all(idle: dict[Server, deque[Connection]]) -> None:
    with contextlib.suppress(KeyError):  # another thread closed the last ones
        while idle:
            for connection in idle.popitem()[1]:
                connection.close()
