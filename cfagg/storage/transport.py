"""Requests to web servers: persistent connections, few retries, and no redirect out of the store.

This uses only the standard library. Clients with threads of their own hang in forked processes, which data loaders use,
and follow redirects to wherever a server sends them.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from cfagg.errors import AccessError, CfaggError, FragmentReadError, LimitError, TargetError
from cfagg.errors.redacting import redacted
from cfagg.storage.bodies import Body
from cfagg.storage.connections import Connections
from cfagg.storage.responses import Response
from cfagg.storage.urls import covers

__all__ = ["Reply", "Signer", "Transport"]

_REDIRECTS = {301, 302, 303, 307, 308}
#: Status codes after which another attempt may succeed.
_AGAIN = {429, 500, 502, 503, 504}
#: The error of S3 for a body that arrived too slowly or was interrupted.
_TIMEOUT = b"<Code>RequestTimeout</Code>"
_ATTEMPTS = 4
_HOPS = 5
#: Number of bytes that are read of the page that comes with an error or a redirect.
_PAGE = 1 << 16

Signer = Callable[[str, str, str, str, Mapping[str, str], datetime], dict[str, str]]


class CurrentHeaders(Protocol):
    """Gives the current headers."""

    def now(self) -> dict[str, str]:
        """Return them."""


@dataclass(frozen=True)
class Reply:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: Whether an earlier attempt, whose response was lost, may have succeeded.
    again: bool = False


class Transport:
    """Requests to the server of one store, whose URL is `base` without a slash at its end.

    `headers` are sent to the store and never anywhere else, and `signer` signs requests to it.  The server may be
    silent for `timeout` seconds; `deadline` is for one request with all redirects, attempts and waits.  A store is
    `guarded` if an untrusted file led to it: then addresses of this network are refused, as after each redirect.
    """

    def __init__(
        self,
        base: str,
        headers: CurrentHeaders,
        timeout: float,
        allow: Iterable[str] = (),
        signer: Signer | None = None,
        deadline: float = 300.0,
        guarded: bool = False,
    ) -> None:
        self.base, self.headers, self.timeout, self.deadline = base, headers, timeout, deadline
        self.allow, self.signer, self.guarded = tuple(allow), signer, guarded
        self._connections = Connections(timeout)
        #: The prefix of URLs that certainly belong to the store.
        self._below = f"{base}/" if covers(base, base) else ""

    def ask(
        self,
        method: str,
        url: str,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        limit: int,
        body: Body | None = None,
    ) -> Reply:
        """Return the server's response to a percent-encoded URL and query; with a body, redirects are refused.

        `limit` applies to the object, or the requested part of it. A longer page with an error or a redirect is
        truncated.
        """
        until = time.monotonic() + self.deadline
        for _ in range(_HOPS):
            reply = self._patiently(method, url, query, headers or {}, limit, until, body)
            to = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not to:
                return reply
            target = _joined(url, to)
            if body is not None:
                raise TargetError(
                    f"{url} redirects to {redacted(target.partition('?')[0])}, but writing and removing follow no "
                    "redirect: give the store's endpoint or region"
                )
            if not any(covers(prefix, target) for prefix in (self.base, *self.allow)):
                target = redacted(target.partition("?")[0])
                place = target.rpartition("/")[0]
                raise AccessError(
                    f"{url} redirects to {target}, outside the store {self.base}; if this is intended, pass "
                    f"allow=[{place!r}]"
                )
            url, _, query = target.partition("?")
        raise FragmentReadError(f"{url} cannot be read: the server's redirects form a circle")

    def _patiently(
        self,
        method: str,
        url: str,
        query: str,
        headers: Mapping[str, str],
        limit: int,
        until: float,
        body: Body | None,
    ) -> Reply:
        """Return the response of the first attempt that gets one."""
        last, wait = "", 0.0
        for attempt in range(_ATTEMPTS):
            if attempt:
                if time.monotonic() + wait >= until:
                    raise FragmentReadError(f"{url} cannot be read within {self.deadline:g} s: {last}")
                time.sleep(wait)
            wait = 0.1 * 4**attempt
            try:
                reply = self._once(method, url, query, headers, limit, until, body)
            except CfaggError:
                raise  # some of these are also OSErrors, which are otherwise retried
            except ssl.SSLCertVerificationError as error:
                raise FragmentReadError(f"{url} cannot be read: {error}") from error
            except OSError as error:
                last = f"{type(error).__name__}: {error}"
                if time.monotonic() >= until:
                    raise FragmentReadError(f"{url} cannot be read within {self.deadline:g} s: {last}") from error
                continue
            if reply.status not in _AGAIN and not (reply.status == 400 and _TIMEOUT in reply.body):
                return replace(reply, again=True) if attempt else reply
            last = f"the server answers {reply.status}"
            asked = _retry_after(reply.headers.get("retry-after", ""))
            if asked is not None:
                wait, last = asked, f"{last} and asks to wait for {asked:g} s"
        raise FragmentReadError(f"{url} cannot be read after {_ATTEMPTS} attempts: {last}")

    def _once(
        self,
        method: str,
        url: str,
        query: str,
        headers: Mapping[str, str],
        limit: int,
        until: float,
        body: Body | None,
    ) -> Reply:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + query if query else ''}"
        sent = dict(headers)
        plain = self._below and url.startswith(self._below) and ".." not in url and "%" not in url
        own = plain or covers(self.base, url)
        server = parts.scheme, parts.netloc, self.guarded or not own
        if own:
            sent |= self.headers.now()
            if self.signer is not None:
                sent = self.signer(method, parts.netloc, parts.path or "/", query, sent, datetime.now(UTC))
        # Ranges are of the stored bytes, not of bytes compressed for transfer.
        sent = {"host": parts.netloc, **sent, "accept-encoding": "identity"}
        again = False
        while True:
            connection = self._connections.take(server)
            try:
                answer = connection.request(method, target, sent, until, body)
                reply = self._received(url, sent, answer, limit)
            except ConnectionError:
                connection.close()
                if not connection.used:
                    raise
                # Servers close connections that were idle for long; that does not count as a failure.
                self._connections.forget(server)
                again = True
                continue
            except BaseException:
                connection.close()
                raise
            if answer.ended and answer.stays:
                self._connections.give_back(server, connection)
            else:
                connection.close()
            return replace(reply, again=True) if again else reply

    @staticmethod
    def _received(url: str, sent: Mapping[str, str], answer: Response, limit: int) -> Reply:
        """Return the received response."""
        status, found = answer.status, answer.headers
        if status not in (200, 206):
            # An error or a redirect comes with a page of any length, unrelated to the object.
            return Reply(status, found, answer.read(_PAGE))
        if answer.ended:  # there is no body
            return Reply(status, found, b"")
        length = found.get("content-length")
        if length is not None and int(length) > limit:
            if status == 200 and "range" in sent:
                return Reply(200, found, b"")
            raise LimitError(f"{url} has {int(length):,} bytes; at most {limit:,} are read")
        body = answer.read(limit + 1)
        if len(body) > limit:
            if status == 200 and "range" in sent:
                return Reply(200, found, b"")
            raise LimitError(f"{url} has more than {limit:,} bytes, the most that is read")
        if found.get("content-encoding", "identity") not in ("identity", ""):
            raise FragmentReadError(f"{url} is encoded unasked with {found['content-encoding']}")
        return Reply(status, found, body)


def _joined(url: str, to: str) -> str:
    """Return the target of a redirect."""
    try:
        target = urljoin(url, to).partition("#")[0]
    except ValueError:
        target = ""
    if not target or not re.fullmatch(r"[\x21-\x7e]+", target):
        raise FragmentReadError(f"{url} redirects to {redacted(to)[:200]!r}, which is not a URL")
    if urlsplit(target).scheme not in ("http", "https"):
        # To allow it would not help.
        told = redacted(target.partition("?")[0])[:200]
        raise AccessError(f"{url} redirects to {told}, which is not on a web server and is never followed")
    return target


def _retry_after(text: str) -> float | None:
    """Return the seconds that a server asks to wait, given as a number or as a date; or `None` if it does not ask.

    >>> _retry_after("7"), _retry_after("soon"), _retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (7.0, None, 0.0)
    """
    if re.fullmatch(r"\s*\d{1,9}\s*", text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
