"""Asking a web server for bytes: connections that stay open, few retries, and no redirect out of the store.

Written on the standard library, because clients that run threads of their own hang in forked processes, which is how
data loaders work, and follow redirects to wherever a server sends them.
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from cfagg.errors import AccessError, CfaggError, FragmentReadError, LimitError

__all__ = ["Reply", "Transport", "covers"]

_REDIRECTS = {301, 302, 303, 307, 308}
#: Answers that another attempt may better.
_AGAIN = {429, 500, 502, 503, 504}
_ATTEMPTS = 4
_HOPS = 5

Signer = Callable[[str, str, str, str, Mapping[str, str], datetime], dict[str, str]]


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def covers(prefix: str, url: str) -> bool:
    """Return whether a URL lies at or below another, by whole parts of the path.

    >>> covers("https://a.org/x", "https://a.org/x/y"), covers("https://a.org/x", "https://a.org/xy")
    (True, False)
    """
    outer, inner = urlsplit(prefix), urlsplit(url)
    if (outer.scheme.lower(), outer.netloc.lower()) != (inner.scheme.lower(), inner.netloc.lower()):
        return False
    parts = inner.path.split("/")
    if ".." in parts or "%2e" in inner.path.lower():
        return False
    top = outer.path.rstrip("/")
    return inner.path == top or inner.path.startswith(top + "/")


class Transport:
    """Connections to the server of one store; every thread and every process has its own.

    Parameters
    ----------
    base : str
        URL of the store without a slash at its end.
    headers : mapping of str to str
        Sent with every request to the store, and never anywhere else.
    timeout : float
        Seconds that the server may be silent.
    allow : iterable of str
        Prefixes of URLs to which the server may redirect.
    signer : callable, optional
        Returns the headers of a signed request; see `cfagg.observations.signing.sign`.
    """

    def __init__(
        self,
        base: str,
        headers: Mapping[str, str],
        timeout: float,
        allow: Iterable[str] = (),
        signer: Signer | None = None,
    ) -> None:
        self.base, self.headers, self.timeout = base, dict(headers), timeout
        self.allow, self.signer = tuple(allow), signer
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()

    def ask(
        self, method: str, url: str, query: str = "", headers: Mapping[str, str] | None = None, *, limit: int
    ) -> Reply:
        """Return the server's answer.

        Parameters
        ----------
        method, url : str
            ``GET`` or ``HEAD``, and a percent-encoded URL.
        query : str
            Percent-encoded query without its question mark.
        headers : mapping, optional
            Headers of this request.
        limit : int
            Bytes that the answer may have.

        Raises
        ------
        AccessError
            The server redirects to a place that is not allowed.
        FragmentReadError
            The server cannot be reached, or fails again and again.
        LimitError
            The answer is larger.
        """
        for _ in range(_HOPS):
            reply = self._patiently(method, url, query, headers or {}, limit)
            to = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not to:
                return reply
            target = urljoin(url, to)
            if not any(covers(prefix, target) for prefix in (self.base, *self.allow)):
                place = target.rpartition("/")[0]
                raise AccessError(
                    f"{url} redirects to {target}, outside the store {self.base}; if that is right, pass "
                    f"allow=[{place!r}]"
                )
            url, _, query = target.partition("?")
        raise FragmentReadError(f"{url} cannot be read: the server redirects in a circle")

    def _patiently(self, method: str, url: str, query: str, headers: Mapping[str, str], limit: int) -> Reply:
        """Return the answer of the first attempt that has one."""
        last = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.1 * 4 ** (attempt - 1))
            try:
                reply = self._once(method, url, query, headers, limit)
            except CfaggError:
                raise  # some of these are errors of the system too, which others are tried again for
            except ssl.SSLCertVerificationError as error:
                raise FragmentReadError(f"{url} cannot be read: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                self._drop(url)
                last = f"{type(error).__name__}: {error}"
                continue
            if reply.status not in _AGAIN:
                return reply
            last = f"the server answers {reply.status}"
        raise FragmentReadError(f"{url} cannot be read after {_ATTEMPTS} attempts: {last}")

    def _once(self, method: str, url: str, query: str, headers: Mapping[str, str], limit: int) -> Reply:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + query if query else ''}"
        sent = dict(headers)
        if covers(self.base, url):
            sent |= self.headers
            if self.signer is not None:
                sent = self.signer(method, parts.netloc, parts.path or "/", query, sent, datetime.now(UTC))
        # Ranges are of the bytes as they are stored, not of any compressed for the way.
        sent["accept-encoding"] = "identity"
        connection, absolute = self._connection(url)
        connection.request(method, f"{parts.scheme}://{parts.netloc}{target}" if absolute else target, headers=sent)
        answer = connection.getresponse()
        found = {k.lower(): v for k, v in answer.getheaders()}
        length = int(found["content-length"]) if found.get("content-length", "").isdigit() else None
        if method != "HEAD" and length is not None and length > limit:
            self._drop(url)
            if answer.status == 200 and "range" in sent:
                return Reply(200, found, b"")
            raise LimitError(f"{url} has {length:,} bytes, read up to {limit:,}")
        body = answer.read(limit + 1) if method != "HEAD" else answer.read()
        if len(body) > limit:
            self._drop(url)
            raise LimitError(f"{url} has more than {limit:,} bytes, which is as many as are read")
        if method != "HEAD" and length is not None and len(body) < length:
            raise http.client.IncompleteRead(body, length - len(body))
        if found.get("content-encoding", "identity") not in ("identity", ""):
            raise FragmentReadError(f"{url} comes encoded with {found['content-encoding']}, which was not asked for")
        return Reply(answer.status, found, body)

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, bool]:
        """Return this thread's connection, and whether requests name the whole URL (to a proxy)."""
        parts = urlsplit(url)
        held = self._held()
        name = (parts.scheme, parts.netloc)
        known = held.get(name)
        if known is None:
            known = held[name] = self._connect(parts.scheme, parts.hostname or "", parts.port)
        return known

    def _connect(self, scheme: str, host: str, port: int | None) -> tuple[http.client.HTTPConnection, bool]:
        proxy = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
        if proxy is None:
            made = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
            return made(host, port, timeout=self.timeout), False
        via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if scheme == "https":
            secure = http.client.HTTPSConnection(via.hostname or "", via.port, timeout=self.timeout)
            secure.set_tunnel(host, port)
            return secure, False
        return http.client.HTTPConnection(via.hostname or "", via.port, timeout=self.timeout), True

    def _held(self) -> dict[tuple[str, str], tuple[http.client.HTTPConnection, bool]]:
        """Return this thread's connections; a forked process does not speak on those of its parent."""
        local = self._local
        if getattr(local, "process", None) != os.getpid():
            local.process, local.held = os.getpid(), {}
        held: dict[tuple[str, str], tuple[http.client.HTTPConnection, bool]] = local.held
        return held

    def _drop(self, url: str) -> None:
        """Close a connection that is not to be used any more."""
        parts = urlsplit(url)
        known = self._held().pop((parts.scheme, parts.netloc), None)
        if known is not None:
            known[0].close()
