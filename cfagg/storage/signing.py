"""Signing requests to an object store that speaks S3.

Source: AWS Signature Version 4, "Authenticating Requests: Using the Authorization Header".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

from cfagg.errors import AccessError
from cfagg.storage.credentials import Credentials, Provider

__all__ = ["Signing", "canonical_query", "sign"]

#: Digest of an empty body.
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Signing:
    """Signs requests with fixed keys, or with the current keys of a provider, which is pickled by name."""

    given: Credentials | Provider
    region: str
    #: Whether requests are not signed if a provider gives no keys.
    optional: bool = False

    def __call__(
        self, method: str, host: str, path: str, query: str, headers: Mapping[str, str], now: datetime
    ) -> dict[str, str]:
        """Return the headers of a request, signed unless the environment has no keys; see `sign`."""
        keys = self.keys()
        return dict(headers) if keys is None else sign(keys, method, host, path, query, headers, now)

    def keys(self) -> Credentials | None:
        """Return the current keys; `None` if the environment has none, as for public buckets."""
        if isinstance(self.given, Credentials):
            return self.given
        found = self.given()
        if not found and self.optional:
            return None
        key, secret, token = (found.get(n) for n in ("access_key_id", "secret_access_key", "session_token"))
        if not key or not secret:
            raise AccessError(
                f"{getattr(self.given, '__name__', 'the provider of credentials')} gives no access_key_id and "
                "secret_access_key"
            )
        return Credentials(key, secret, token or None, self.region)


def canonical_query(query: Mapping[str, str]) -> str:
    """Return a query string in the canonical form that is signed.

    >>> canonical_query({"prefix": "a/b c", "list-type": "2"})
    'list-type=2&prefix=a%2Fb%20c'
    """
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query.items())
    return "&".join(f"{k}={v}" for k, v in pairs)


def sign(
    credentials: Credentials, method: str, host: str, path: str, query: str, headers: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Return the headers of a request, including its signature; for a body, its digest must be among them.

    `path` and `query` are percent-encoded. Of the further headers, ``range`` and ``x-amz-…`` are signed.

    >>> keys = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    >>> signed = sign(keys, "GET", "examplebucket.s3.amazonaws.com", "/test.txt", "", {"range": "bytes=0-9"},
    ...               datetime(2013, 5, 24, tzinfo=UTC))
    >>> signed["authorization"][-64:]
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41'
    """
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {k.lower(): v.strip() for k, v in headers.items()}
    sent = {"x-amz-content-sha256": _EMPTY, **sent, "x-amz-date": stamp}
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    covered = {"host": host, **{k: v for k, v in sent.items() if k == "range" or k.startswith("x-amz-")}}
    names = ";".join(sorted(covered))
    lines = "".join(f"{k}:{covered[k]}\n" for k in sorted(covered))
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{sent['x-amz-content-sha256']}"
    scope = f"{stamp[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    found = hmac.digest(_key_of_the_day(credentials.secret, scope), text.encode(), "sha256").hex()
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope},SignedHeaders={names},Signature={found}"
    )
    return sent


@lru_cache(maxsize=8)
def _key_of_the_day(secret: str, scope: str) -> bytes:
    """Return the signing key of one day; it is not kept in an object, and so never in a pickle or a representation."""
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
