"""From URIs of fragments to the paths that they refer to, and back.

``file:`` URIs and relative ones refer to paths, with percent-encoded characters decoded; any other is left unchanged.

Sources: CF-1.13 section 2.8.1, "uris"; RFC 3986 and RFC 8089.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from cfagg.errors import ConventionError

__all__ = ["is_opaque", "local_path", "name_of", "path_of", "paths_of", "uri_of", "uris_of"]

#: RFC 3986 has no underscores in schemes, but CF's example of an absolute URI does.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+._-]*):")

#: Characters that need no encoding in the path of a URI (RFC 3986, section 3.3).
_SAFE = "/-._~!$&'()*+,;=@"
_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=@/]+").fullmatch
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:", re.IGNORECASE).match


def path_of(uri: str) -> str:
    """Return the path or URL that an absolute or relative URI refers to; an absolute path is no URI, and unchanged.

    >>> path_of("file:///data/a%20b.nc"), path_of("../caf%C3%A9.nc"), path_of("https://host/a%20b.nc")
    ('/data/a b.nc', '../café.nc', 'https://host/a%20b.nc')
    """
    if uri.startswith("/") or _SCHEME.match(uri):
        return local_path(uri)
    path = _decoded(uri)
    # Decoded, it must still be a relative path.
    return f"./{path}" if path != uri and (path.startswith("/") or _URL(path)) else path


def local_path(name: str) -> str:
    """Return the path that a ``file:`` URI refers to on this machine; any other name is unchanged.

    >>> local_path("file://localhost/a%2Bb.nc"), local_path("file://other/a.nc"), local_path("a%2Bb.nc")
    ('/a+b.nc', 'file://other/a.nc', 'a%2Bb.nc')
    """
    if name[:5].lower() != "file:":
        return name
    path = name[5:]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if not slash or host.lower() not in ("", "localhost"):
            return name
        path = f"/{rest}"
    return _decoded(path) if path.startswith("/") else name


def is_opaque(name: str) -> bool:
    """Return whether a URI has a scheme and no authority, and so could be mistaken for a path.

    >>> is_opaque("urn:isbn:1"), is_opaque("s3://bucket/a"), is_opaque("file:a"), is_opaque("./a:b")
    (True, False, False, False)
    """
    found = _SCHEME.match(name)
    return found is not None and found[1].lower() != "file" and not name.startswith("//", found.end())


def paths_of(uris: list[str]) -> list[str]:
    """Return the result of `path_of` for each of many, or the list itself if all are already paths."""
    # Checking all of them together is much faster than one by one.
    whole = "\n".join(uris)
    return [path_of(u) for u in uris] if "%" in whole or ":" in whole else uris


def _decoded(text: str) -> str:
    """Return a text without percent-encoding; bytes that are not UTF-8 are kept as in file names."""
    return unquote(text, errors="surrogateescape") if "%" in text else text


def uri_of(name: str) -> str:
    """Return the URI of a path; a URL is one already.  Only characters that URI syntax requires are percent-encoded.

    >>> uri_of("data/tas 1.nc"), uri_of("/data/é.nc"), uri_of("a:b.nc"), uri_of("s3://bucket/a.nc")
    ('data/tas%201.nc', 'file:///data/%C3%A9.nc', 'a%3Ab.nc', 's3://bucket/a.nc')
    """
    if _PLAIN(name):
        return f"file://{name}" if name[0] == "/" else name
    if _URL(name):
        return name
    # A colon in the first part of a relative one would mark a scheme.
    first, slash, rest = name.partition("/")
    texts = ((first, _SAFE), (slash, "/"), (rest, f"{_SAFE}:"))
    try:
        uri = "".join(quote(text, safe=safe, errors="surrogateescape") for text, safe in texts)
    except UnicodeEncodeError as error:
        raise ConventionError(f"{name!r} is not a file name and has no URI: {error.reason}") from None
    return f"file://{uri}" if not first else uri


def name_of(name: str) -> str:
    """Return a path as in CFA-0.6.2: an absolute one as a URI, a relative one unchanged.

    >>> name_of("/data/tas 1.nc"), name_of("tas 1.nc")
    ('file:///data/tas%201.nc', 'tas 1.nc')
    """
    return uri_of(name) if name.startswith("/") else name


def uris_of(names: Iterable[str]) -> list[str]:
    """Return the URIs of many paths."""
    return [uri_of(name) for name in names]
