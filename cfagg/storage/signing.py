"""Signing requests to an object store that speaks S3.

Source: AWS Signature Version 4, "Authenticating Requests: Using the Authorization Header".
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn
from urllib.parse import quote

from cfagg.errors import AccessError

__all__ = ["Credentials", "Provider", "Signing", "canonical_query", "from_environment", "sign"]

#: Digest of an empty body: what is read has none.
_EMPTY = hashlib.sha256(b"").hexdigest()


#: Asked for each request; gives what is new where keys expire.
Provider = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Credentials:
    """Keys of one account, given by the user for one store.  They are not pickled.

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

    def __reduce__(self) -> NoReturn:
        raise AccessError(
            "keys given as access_key_id= and secret_access_key= are not sent to other processes; give "
            "options={'credentials': provider}, an importable function that returns them, or "
            "options={'credentials': 'environment'}, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY set where the "
            "store is read"
        )


@dataclass(frozen=True)
class Signing:
    """Signs requests with the keys of one account.

    Parameters
    ----------
    given : Credentials or callable
        The keys, or who gives them: a function without arguments that returns a mapping with ``access_key_id``,
        ``secret_access_key`` and perhaps ``session_token``.  A function is pickled by its name.
    region : str
        Region of the store.
    """

    given: Credentials | Provider
    region: str

    def __call__(
        self, method: str, host: str, path: str, query: str, headers: Mapping[str, str], now: datetime
    ) -> dict[str, str]:
        """Return the headers of a signed request; see `sign`."""
        return sign(self.keys(), method, host, path, query, headers, now)

    def keys(self) -> Credentials:
        """Return the keys of this moment.

        Raises
        ------
        AccessError
            Whoever gives them gives none.
        """
        if isinstance(self.given, Credentials):
            return self.given
        found = self.given()
        key, secret, token = (found.get(n) for n in ("access_key_id", "secret_access_key", "session_token"))
        if not key or not secret:
            raise AccessError(
                f"{getattr(self.given, '__name__', 'the provider of credentials')} gives no access_key_id and "
                "secret_access_key"
            )
        return Credentials(key, secret, token or None, self.region)


def from_environment() -> dict[str, str]:
    """Return the keys in ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``."""
    names = ("access_key_id", "secret_access_key", "session_token")
    return {name: os.environ[f"AWS_{name.upper()}"] for name in names if os.environ.get(f"AWS_{name.upper()}")}


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
