"""Files of virtual Icechunk chunks: the places that contain them, how these are read, and the states of the files.

A repository records where a server is and how it is accessed, but never keys or passwords: readers supply their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from cfagg.errors import SourceError, UnsupportedError
from cfagg.storage.credentials import setting
from cfagg.storage.files import FileKey
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url

__all__ = ["credentials_of", "located", "modified", "places_of", "state_of", "store_of"]

#: Maximum number of places that a repository asks its readers to allow individually.
_MOST = 16

#: Characters that need no escaping in a URL.
_PLAIN = "/ !$&'()*+,;=:@~"

_ESCAPED = re.compile("[% ]")


def places_of(paths: Iterable[str]) -> list[str]:
    """Return directories that contain all files, with a trailing slash; for many local ones, their common parent."""
    here: set[str] = set()
    there: dict[str, Url] = {}
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError as error:
            said = f"{path!r} cannot be referred to: its name is not UTF-8; rename the file"
            raise UnsupportedError(said) from error
        if not isinstance(path, Url):
            here.add(_enclosing(path))
            continue
        if _scheme(path) not in ("s3", "http", "https"):
            raise UnsupportedError(
                f"{path}: virtual chunks of Icechunk can refer to files in S3, on web servers and on this machine; "
                "export to kerchunk instead"
            )
        home = path.beside(_enclosing(path))
        there.setdefault(str(home), home)
    found = _outermost(here)
    if len(found) > _MOST:
        found = [os.path.commonpath(found).rstrip("/") + "/"]
    return [*found, *(there[name] for name in _outermost(there))]


def _enclosing(path: str) -> str:
    """Return the nearest directory of a file whose URL needs no escapes: Icechunk finds no chunks below others."""
    name = path
    while True:
        name = name.rstrip("/").rpartition("/")[0] + "/"
        if not _ESCAPED.search(located(path.beside(name) if isinstance(path, Url) else name)):
            return name


def _outermost(folders: Iterable[str]) -> list[str]:
    names = sorted(folders)
    return [f for f in names if not any(f != g and f.startswith(g) for g in names)]


def _scheme(place: str) -> str:
    return place.partition("://")[0].lower()


def located(path: str) -> str:
    """Return the URL of a file or place as used in virtual chunks."""
    if not isinstance(path, Url):
        return f"file://{quote(path, safe=_PLAIN)}"
    scheme, _, rest = path.partition("://")
    # URLs of web servers are already escaped.
    kept = _PLAIN if scheme.lower() == "s3" else f"{_PLAIN}%"
    return f"{scheme.lower()}://{quote(rest, safe=kept)}"


def store_of(place: str) -> Any:
    """Return the Icechunk store for a place, without keys, which readers supply."""
    import icechunk

    if not isinstance(place, Url):
        return icechunk.local_filesystem_store(place)
    if _scheme(place) != "s3":
        return icechunk.http_store()
    given = place.options.given
    endpoint = given.get("endpoint") or setting("endpoint_url")
    return icechunk.s3_store(
        region=given.get("region") or setting("region") or "us-east-1",
        endpoint_url=endpoint,
        allow_http=bool(endpoint and endpoint.lower().startswith("http:")),
        anonymous=bool(given.get("skip_signature")),
        s3_compatible=endpoint is not None,
        force_path_style=endpoint is not None and not given.get("virtual_hosted_style_request"),
        requester_pays=given.get("request_payer") is True,
    )


def credentials_of(place: str) -> str:
    """Return the credentials that a reader supplies for a place."""
    if not isinstance(place, Url):
        return "credentials.LocalFileSystemAccess"
    if _scheme(place) != "s3":
        return "credentials.HttpAccess"
    return f"s3_{'anonymous' if place.options.given.get('skip_signature') else 'from_env'}_credentials()"


def state_of(key: FileKey) -> dict[str, Any]:
    """Return the state by which Icechunk detects that a file has changed since it was referred to."""
    if not isinstance(key.path, Url):
        return {"last_updated_at_checksum": modified(key.modified)}
    tag = getattr(handles.of(key).data, "tag", "")
    if _scheme(key.path) == "s3" and tag:
        return {"etag_checksum": tag}
    try:
        # The time of the last change as reported by a web server.
        return {"last_updated_at_checksum": parsedate_to_datetime(tag)}
    except ValueError:
        raise SourceError(
            f"{key.path} cannot be referred to: its server gives no time of its last change, so changes would go "
            "unnoticed; export to kerchunk instead, or copy the file to this machine"
        ) from None


def modified(nanoseconds: int) -> datetime:
    """Return the modification time in whole seconds, rounded up, since Icechunk does not store fractions."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=-(-nanoseconds // 10**9))
