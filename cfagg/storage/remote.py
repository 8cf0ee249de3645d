"""Stores on web servers and in object stores."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from cfagg.errors import AccessError, FragmentReadError, LimitError, SourceError, UnsupportedError
from cfagg.errors.redacting import redacted
from cfagg.storage.credentials import Credentials, from_environment, setting
from cfagg.storage.http_options import Headers, check_options, common_options, split_url
from cfagg.storage.remote_source import RemoteSource
from cfagg.storage.s3_listing import MOST, Listing, listing
from cfagg.storage.s3_settings import switched_on
from cfagg.storage.signing import Signing, canonical_query
from cfagg.storage.store import MAX_OBJECT, Part, State, check_key, is_page
from cfagg.storage.transport import Reply, Signer, Transport
from cfagg.storage.urls import SLASH

__all__ = ["HttpSource", "S3Source", "bucket_source"]

_HTTP_OPTIONS = ("deadline", "headers", "timeout")
_S3_OPTIONS = (
    "access_key_id", "credentials", "deadline", "endpoint", "headers", "region", "request_payer", "secret_access_key",
    "session_token", "skip_signature", "timeout", "virtual_hosted_style_request",
)  # fmt: skip
#: Characters of a path that are not encoded; percent-encoded ones stay so.
_KEPT = "/%:@!$&'()*+,;=-_.~"
#: Error codes of object stores for credentials that have expired.
_EXPIRED = re.compile(rb"<Code>(?:ExpiredToken|TokenRefreshRequired|InvalidToken)</Code>")
#: Web servers report modification times in whole seconds.
_STEP = 10**9
#: Maximum number of pages of a listing, each of a thousand names.
_PAGES = 10_000


class HttpSource(RemoteSource):
    """A store on a web server that supports range requests; it may redirect within the store and to `allow`."""

    _tagged = False
    #: The argument that passed the options.
    options_name = "storage_options"

    def __init__(
        self, url: str, options: Mapping[str, Any], allow: Iterable[str] = (), *, guarded: bool = False
    ) -> None:
        check_options(url, options, _HTTP_OPTIONS)
        parts = split_url(url)
        if parts is None or parts.query or parts.fragment or parts.username is not None:
            raise SourceError(
                f"{redacted(url)} is not a URL of a store: it needs a server and a path, no query, and no user; pass "
                "headers for the server as storage_options={'headers': {…}}"
            )
        self.path = url.rstrip("/")
        base = f"{parts.scheme}://{parts.netloc}{quote(parts.path, safe=_KEPT)}".rstrip("/")
        headers, timeout, deadline = common_options(url, options)
        self._transport = Transport(base, headers, timeout, allow, None, deadline, guarded)
        self._known: dict[str, tuple[int, str]] = {}

    def sign(self, signer: Signer | None) -> None:
        """Sign requests to the store from now on; the tags of such stores are the same on all their machines."""
        self._transport.signer, self._tagged = signer, True

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def _url(self, key: str) -> str:
        check_key(self.path, key.replace(SLASH, "/"))  # as a server may read it
        parts = (quote(part, safe="/-_.~", errors="surrogateescape") for part in key.split(SLASH))
        return f"{self._transport.base}/{'%2F'.join(parts)}"

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, or `None` if it does not exist."""
        reply = self._transport.ask("GET", self._url(key), limit=MAX_OBJECT)
        if reply.status == 206:
            raise FragmentReadError(f"{self.path}/{key}: the server was asked for the whole object and sends a part")
        return reply.body if self._there(key, reply) else None

    def part(self, key: str, start: int | None, count: int) -> Part | None:
        """Return `count` bytes from `start` on, or the last ones, and the object's state; `None` if it is missing."""
        wanted = f"-{count}" if start is None else f"{start}-{start + count - 1}"
        reply = self._transport.ask("GET", self._url(key), headers={"range": f"bytes={wanted}"}, limit=count)
        note = reply.headers.get("content-range", "")
        # ETags of web servers can differ between machines serving the same files; those of object stores do not.
        when = "" if self._tagged else reply.headers.get("last-modified", "")
        tag = when or reply.headers.get("etag", "")
        age = (_time(reply, "date") or time.time_ns()) - _time(reply, "last-modified")
        settled = self._tagged or (age > _STEP if when else not tag.startswith("W/"))
        if reply.status == 416:
            beyond = re.fullmatch(r"bytes \*/(\d{1,18})", note)
            return Part(b"", int(beyond[1]) if beyond else 0, None)
        if not self._there(key, reply):
            return None
        if reply.status != 206:
            if len(reply.body) == int(reply.headers.get("content-length", -1)) and start == 0:
                # The whole object is no larger than the range.
                return Part(reply.body, len(reply.body), tag, settled)
            if _is_html(reply):
                raise self._page(key)
            raise UnsupportedError(
                f"{self.path}/{key}: the server does not support byte ranges and sends whole files; copy the file, or "
                "the store that it belongs to, to this machine or to another server"
            )
        place = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", note)
        if place is None:
            raise FragmentReadError(f"{self.path}/{key}: the server gives {note!r} as the range of the bytes it sends")
        first, size = int(place[1]), int(place[3])
        if first != (max(size - count, 0) if start is None else start):
            raise FragmentReadError(
                f"{self.path}/{key}: the server was asked for bytes {wanted} and sends those from {first:,} on"
            )
        if int(place[2]) + 1 != min(first + count, size):
            raise FragmentReadError(
                f"{self.path}/{key}: the server was asked for bytes {wanted} and sends {note!r} instead"
            )
        if len(reply.body) != int(place[2]) + 1 - first:
            raise FragmentReadError(
                f"{self.path}/{key}: the server sends {len(reply.body):,} bytes and gives their range as {note!r}"
            )
        return Part(reply.body, size, tag, settled)

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, or `None` if it does not exist."""
        reply = self._transport.ask("HEAD", self._url(key), limit=MAX_OBJECT)
        if not self._there(key, reply):
            return None
        length = reply.headers.get("content-length", "")
        if not length.isdigit():
            raise UnsupportedError(f"{self.path}: the server does not give the size of {key}")
        return int(length)

    def _state(self, key: str) -> State | None:
        reply = self._transport.ask("HEAD", self._url(key), limit=MAX_OBJECT)
        if not self._there(key, reply):
            return None
        tag, size = reply.headers.get("etag", ""), reply.headers.get("content-length", "")
        if not tag.strip('"') or tag.startswith("W/") or not size.isdigit():
            raise self.untold(key)
        return State(int(size), tag.strip('"'), _time(reply, "last-modified"), _time(reply, "date") or time.time_ns())

    def _there(self, key: str, reply: Reply) -> bool:
        """Return whether an object exists; `AccessError` if reading is refused, even if only because it is missing."""
        if reply.status in (200, 206):
            if _is_html(reply) and is_page(reply.body):
                # It may be as long as the data that were asked for.
                raise self._page(key)
            return True
        if reply.status in (404, 410):
            return False
        if reply.status in (401, 403):
            code = re.search(rb"<Code>([A-Za-z]{1,60})</Code>", reply.body)
            note = f" ({code[1].decode()})" if code else ""
            raise AccessError(
                f"{self.path}/{key} may not be read: the server answers {reply.status}{note}; give {self._remedy} as "
                f"{self.options_name}="
            )
        note = reply.body[:200].decode("utf-8", "replace").strip()
        if reply.status == 400 and _EXPIRED.search(reply.body):
            raise AccessError(
                f"{self.path}/{key} may not be read: the credentials have expired; renew them, or give "
                f"{self.options_name}={{'credentials': provider}}, a function that renews them"
            )
        region = reply.headers.get("x-amz-bucket-region")
        hint = f"; the bucket is in the region {region!r}: give it as storage_options={{'region': …}}" if region else ""
        raise FragmentReadError(
            f"{self.path}/{key} cannot be read: the server answers {reply.status}{hint}{': ' + note if note else ''}"
        )

    def _page(self, key: str) -> UnsupportedError:
        """Return the error about a page in place of an object."""
        return UnsupportedError(
            f"{self.path}/{key}: the server sends an HTML page, perhaps a login page, or does not support byte "
            f"ranges; give {self._remedy} as storage_options=, or copy it to this machine"
        )

    @property
    def _remedy(self) -> str:
        return "the 'headers' that it needs"


def bucket_source(url: str, prefix: str, options: Mapping[str, Any], signer: Signer | None = None) -> HttpSource:
    """Return a reader of objects whose names begin with a prefix, in an object store that is read like a web server."""
    times: dict[str, Any] = {name: options[name] for name in ("deadline", "timeout") if name in options}
    made = HttpSource(f"{url}/{quote(prefix, safe='/-_.~')}".rstrip("/"), times)
    made.sign(signer)
    return made


class S3Source(HttpSource):
    """A store in an object store that speaks S3, at ``s3://bucket/path``."""

    lists = True
    _tagged = True

    def __init__(
        self, url: str, options: Mapping[str, Any], allow: Iterable[str] = (), *, guarded: bool = False
    ) -> None:
        check_options(url, options, _S3_OPTIONS)
        found = re.fullmatch(r"s3://([A-Za-z0-9][A-Za-z0-9._-]+)(?:/+(.*))?", url, re.IGNORECASE | re.DOTALL)
        if found is None:
            raise SourceError(f"{redacted(url)} is not a URL of a store; expected s3://bucket/path")
        bucket, prefix = found[1], (found[2] or "").strip("/")
        self.path = f"s3://{bucket}/{prefix}".rstrip("/")
        region = str(options.get("region") or setting("region") or "us-east-1")
        if not re.fullmatch(r"[A-Za-z0-9-]+", region):
            raise SourceError(
                f"{self.path}: storage_options= has an invalid region; expected letters, digits and hyphens only"
            )
        self._region = region
        self._root, self._prefix = _endpoint(bucket, region, options), prefix
        headers, timeout, deadline = common_options(url, options)
        if switched_on(options, "request_payer"):
            headers = Headers({**headers.now(), "x-amz-request-payer": "requester"})
        # If the user's settings name the server, no file has led there.
        guarded = guarded and not (options.get("endpoint") or setting("endpoint_url"))
        signer = _signing(self.path, options, region)
        base = f"{self._root}/{quote(prefix, safe='/-_.~')}".rstrip("/")
        self._transport = Transport(base, headers, timeout, allow, signer, deadline, guarded)
        self._known = {}
        # A listing is a request to the bucket itself, which is above the store.
        self._listing = Transport(self._root, headers, timeout, allow, signer, deadline, guarded)

    def objects(self, folder: str) -> Iterator[tuple[str, State]]:
        """Yield the keys and states of all objects below a folder, ``""`` for the store itself."""
        below = f"{check_key(self.path, folder)}/" if folder else ""
        for found, now in self._pages(folder, f"{self._prefix}/".lstrip("/") + below, {}):
            for name, size, tag, written in found.entries:
                yield f"{below}{name}", State(size, tag, _whole_second(written), now)

    def children(self, folder: str) -> Iterator[str]:
        """Yield the names of folders below a folder, ``""`` for the store itself."""
        whole = "/".join(p for p in (self._prefix, check_key(self.path, folder) if folder else "") if p)
        for found, _ in self._pages(folder, f"{whole}/" if whole else "", {"delimiter": "/"}):
            for listed in found.folders:
                name = listed.rstrip("/")
                if name and "/" not in name and name not in (".", ".."):
                    yield name

    def _pages(self, folder: str, prefix: str, asked: Mapping[str, str]) -> Iterator[tuple[Listing, int]]:
        """Yield the pages of a listing, each with the time at the server."""
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, **asked}
        for _ in range(_PAGES):
            reply = self._listing.ask("GET", f"{self._root}/", canonical_query(query), limit=MOST)
            if not self._there(folder, reply):
                return
            try:
                found = listing(reply.body, prefix)
            except ValueError:
                raise self._unlisted(folder) from None
            yield found, _time(reply, "date") or time.time_ns()
            if found.token is None:
                return
            if found.token == query.get("continuation-token"):
                raise self._unlisted(folder)
            query["continuation-token"] = found.token
        raise LimitError(f"{self.path}/{folder} has a listing of more than {_PAGES:,} pages")

    def _unlisted(self, folder: str) -> UnsupportedError:
        """Return the error about a listing that may be incomplete."""
        return UnsupportedError(
            f"{self.path}/{folder} cannot be listed: the server does not answer as S3 does; copy the store to this "
            "machine or to another server"
        )

    @property
    def _remedy(self) -> str:
        return "'access_key_id' and 'secret_access_key'"


def _is_html(reply: Reply) -> bool:
    return reply.headers.get("content-type", "").lower().startswith("text/html")


def _time(reply: Reply, name: str) -> int:
    """Return the time in a header in nanoseconds since 1970, or 0 if there is none."""
    return _time_of(reply.headers.get(name, ""))


@lru_cache(256)
def _time_of(text: str) -> int:
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return 0


def _whole_second(text: str) -> int:
    """Return a time of a listing in nanoseconds since 1970, truncated to seconds as in headers; 0 if invalid."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return 0


def _signing(path: str, options: Mapping[str, Any], region: str) -> Signing | None:
    """Return the signer of requests, or `None` if they are not signed."""
    key, secret, token = (options.get(n) for n in ("access_key_id", "secret_access_key", "session_token"))
    provider = options.get("credentials")
    if switched_on(options, "skip_signature"):
        return None
    if provider is not None:
        if key is not None or secret is not None or token is not None:
            raise SourceError(f"{path}: storage_options= has both credentials and keys; give one of them")
        if provider == "environment":
            return Signing(from_environment, region)
        if not callable(provider):
            raise SourceError(f"{path}: storage_options= has credentials that are neither a function nor 'environment'")
        return Signing(provider, region)
    if key is None and secret is None and token is None:
        return Signing(from_environment, region, optional=True)
    if not isinstance(key, str) or not isinstance(secret, str) or not (token is None or isinstance(token, str)):
        raise SourceError(f"{path}: storage_options= needs both access_key_id and secret_access_key, as text, or none")
    return Signing(Credentials(key, secret, token, region), region)


def _endpoint(bucket: str, region: str, options: Mapping[str, Any]) -> str:
    """Return the URL of the bucket."""
    given = options.get("endpoint") or setting("endpoint_url")
    if given is not None:
        parts = split_url(given) if isinstance(given, str) else None
        if (
            parts is None
            or parts.scheme not in ("http", "https")
            or parts.query
            or parts.fragment
            or parts.username is not None
        ):
            raise SourceError(
                f"s3://{bucket}: storage_options= or the environment has an invalid endpoint; expected https://server"
            )
        top = str(given).rstrip("/")
        return top if switched_on(options, "virtual_hosted_style_request") else f"{top}/{bucket}"
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    # A certificate for *.s3… does not cover names with dots.
    return f"https://s3.{region}.{domain}/{bucket}" if "." in bucket else f"https://{bucket}.s3.{region}.{domain}"
