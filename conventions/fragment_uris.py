"""Names of files as the URIs by which CF-1.13 and CFA-0.6.2 name fragments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

__all__ = ["to_uri", "to_uris"]

#: What may stand in the path of a URI as it is (RFC 3986, section 3.3).
_SAFE = "/-._~!$&'()*+,;=@"
_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=@/]+").fullmatch
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://").match


def to_uri(name: str) -> str:
    """Return the URI of a path; a URL is one already.  Only what the syntax of URIs forces is percent-encoded.

    >>> to_uri("data/tas 1.nc"), to_uri("/data/é.nc"), to_uri("a:b.nc"), to_uri("s3://bucket/a.nc")
    ('data/tas%201.nc', 'file:///data/%C3%A9.nc', 'a%3Ab.nc', 's3://bucket/a.nc')
    """
    if _PLAIN(name):
        return f"file://{name}" if name[0] == "/" else name
    if _URL(name):
        return name
    if name.startswith("/"):
        return "file://" + quote(name, safe=_SAFE + ":", errors="surrogateescape")
    # Before a colon in the first part would stand a scheme.
    first, slash, rest = name.partition("/")
    return f"{quote(first, safe=_SAFE, errors='surrogateescape')}{slash}" + quote(
        rest, safe=_SAFE + ":", errors="surrogateescape"
    )


def to_uris(names: Iterable[str]) -> list[str]:
    """Return the URIs of many paths."""
    return [to_uri(name) for name in names]
