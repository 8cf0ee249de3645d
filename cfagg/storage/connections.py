"""Connections to web servers that are kept for the next request, and a deadline for everything that is received.

No threads and no locks, so that forked data loaders work: a child leaves its parent's connections alone.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import socket
import time
import urllib.request
import weakref
from collections import deque
from typing import Any
from urllib.parse import urlsplit

from cfagg.errors import AccessError

__all__ = ["Connection", "Connections"]

#: Idle connections kept for one server.
_IDLE = 32

#: Addresses of version 6 that stand for those of version 4 (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


class _TimedReader(io.RawIOBase):
    """Reads a socket; each wait ends when the server was silent too long or the deadline has come."""

    def __init__(self, owner: _TimedSocket) -> None:
        self._owner = owner
        # Python's own reader counts who still uses the socket, so that it is not closed under a response.
        self._raw = owner.socket.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        owner = self._owner
        left = owner.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline of this request has passed")
        owner.socket.settimeout(min(owner.silence, left))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedSocket:
    """What `http.client` needs of a socket, with a deadline; the server may send nothing for `silence` seconds."""

    def __init__(self, connected: socket.socket, silence: float) -> None:
        self.socket, self.silence = connected, silence
        self.deadline = float("inf")

    def makefile(self, mode: str = "rb", buffering: int | None = None) -> io.BufferedReader:  # noqa: ARG002
        """Return a reader; `http.client` asks for nothing else."""
        return io.BufferedReader(_TimedReader(self), 1 << 16)

    def sendall(self, data: bytes) -> None:
        self.socket.settimeout(self.silence)
        self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()


class Connection:
    """One connection to one server, through a proxy where the environment says so.

    It is `guarded` where an untrusted file or a redirect led here: nothing is sent to an address of this network.
    """

    def __init__(self, scheme: str, host: str, port: int | None, silence: float, guarded: bool = False) -> None:
        self.silence, self.host, self.guarded = silence, host, guarded
        self.used = False
        #: Whether requests name the whole URL, as a proxy wants it.
        self.absolute = False
        proxy = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
        if proxy is None:
            made = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            self.http = made(host, port, timeout=silence)
            return
        # The proxy connects, to what it may.
        self.guarded = False
        via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if scheme == "https":
            self.http = http.client.HTTPSConnection(via.hostname or "", via.port, timeout=silence)
            self.http.set_tunnel(host, port)
            return
        self.http = http.client.HTTPConnection(via.hostname or "", via.port, timeout=silence)
        self.absolute = True

    def request(self, method: str, target: str, headers: dict[str, str], deadline: float) -> http.client.HTTPResponse:
        """Send a request without a body and return the response, still to be read; `deadline` is by `monotonic`."""
        if self.http.sock is None:
            self.http.timeout = max(0.001, min(self.silence, deadline - time.monotonic()))
            self.http.connect()
            connected: Any = self.http.sock
            if self.guarded:
                self._check_address(connected.getpeername()[0])
            self.http.sock = _TimedSocket(connected, self.silence)
        timed: Any = self.http.sock
        timed.deadline = deadline
        self.http.request(method, target, headers=headers)
        return self.http.getresponse()

    def _check_address(self, address: str) -> None:
        """Raise where a name led to an address of this machine or network; the user may allow the address itself."""
        found: Any = ipaddress.ip_address(address.partition("%")[0])
        found = getattr(found, "ipv4_mapped", None) or found
        if found in _TRANSLATED:
            found = ipaddress.ip_address(int(found) & 0xFFFFFFFF)
        if not found.is_global and self.host not in (str(found), "localhost"):
            raise AccessError(
                f"{self.host} is at the address {found} of this machine or its network, where no file and no redirect "
                "may lead; if that is right, allow the address itself"
            )

    def close(self) -> None:
        """Close it."""
        self.http.close()


class Connections:
    """Idle connections of one process, by server; any thread takes one and gives it back."""

    def __init__(self, silence: float) -> None:
        self.silence = silence
        self._process = os.getpid()
        self._idle: dict[tuple[str, str, bool], deque[Connection]] = {}
        # Nobody closes a store, so that its connections are closed when it is dropped.
        weakref.finalize(self, _close_all, self._idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Connections, (self.silence,)

    def take(self, url: str, guarded: bool = False) -> Connection:
        """Return a connection to the server of a URL: an idle one, else a new one."""
        parts = urlsplit(url)
        idle = self._of(parts.scheme, parts.netloc, guarded)
        try:
            return idle.pop()
        except IndexError:
            return Connection(parts.scheme, parts.hostname or "", parts.port, self.silence, guarded)

    def give_back(self, url: str, connection: Connection) -> None:
        """Keep a connection whose response was read to its end."""
        parts = urlsplit(url)
        idle = self._of(parts.scheme, parts.netloc, connection.guarded)
        connection.used = True
        if len(idle) < _IDLE and connection.http.sock is not None:
            idle.append(connection)
        else:
            connection.close()

    def forget(self, url: str, guarded: bool) -> None:
        """Close the idle connections to the server of a URL, which has closed one of them."""
        parts = urlsplit(url)
        idle = self._of(parts.scheme, parts.netloc, guarded)
        while idle:
            idle.pop().close()

    def _of(self, scheme: str, netloc: str, guarded: bool) -> deque[Connection]:
        if self._process != os.getpid():
            # A child does not speak on the connections of its parent, which stay open there.
            _close_all(self._idle)
            self._process = os.getpid()
        return self._idle.setdefault((scheme, netloc, guarded), deque())


def _close_all(idle: dict[tuple[str, str, bool], deque[Connection]]) -> None:
    while idle:
        for connection in idle.popitem()[1]:
            connection.close()
