"""Signing requests to an object store that speaks S3.

Source: AWS Signature Version 4, "Authenticating Requests: Using the Authorization Header".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

__all__ = ["Credentials", "canonical_query", "sign"]

#: Digest of an empty body: what is read has none.
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """Keys of one account, given by the user for one store; they are never looked for elsewhere.

    Parameters
    ----------
    key, secret : str
        Access key and secret key.
    token : str, optional
        Session token of temporary keys.
    region : str
        Region of the store.
    """

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    region: str = "us-east-1"


def canonical_query(query: Mapping[str, str]) -> str:
    """Return a query string in the one form that is signed.

    >>> canonical_query({"prefix": "a/b c", "list-type": "2"})
    'list-type=2&prefix=a%2Fb%20c'
    """
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query.items())
    return "&".join(f"{k}={v}" for k, v in pairs)


def sign(
    credentials: Credentials, method: str, host: str, path: str, query: str, headers: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Return the headers of a request without a body, its signature among them.

    Parameters
    ----------
    credentials : Credentials
        Who asks.
    method, host : str
        Such as ``GET``, and the server's name with its port where that is not the usual one.
    path : str
        Percent-encoded, with the slash in front.
    query : str
        As of `canonical_query`.
    headers : mapping of str to str
        Further headers; those named ``range`` and ``x-amz-…`` are signed.
    now : datetime
        The time, in UTC.

    Examples
    --------
    >>> keys = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    >>> signed = sign(keys, "GET", "examplebucket.s3.amazonaws.com", "/test.txt", "", {"range": "bytes=0-9"},
    ...               datetime(2013, 5, 24, tzinfo=UTC))
    >>> signed["authorization"][-64:]
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41'
    """
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    sent = {k.lower(): v.strip() for k, v in headers.items()}
    sent |= {"x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    covered = {"host": host, **{k: v for k, v in sent.items() if k == "range" or k.startswith("x-amz-")}}
    names = ";".join(sorted(covered))
    lines = "".join(f"{k}:{covered[k]}\n" for k in sorted(covered))
    request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{_EMPTY}"
    scope = f"{stamp[:8]}/{credentials.region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope},SignedHeaders={names},Signature={key.hex()}"
    )
    return sent
