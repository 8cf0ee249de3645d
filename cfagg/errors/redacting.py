"""URLs without users, passwords, queries and fragments that may contain keys, for messages, reports and metadata."""

from __future__ import annotations

import re

__all__ = ["redacted"]

#: A URL, including one whose two slashes have become one because it was treated as a path.
_URL = re.compile(
    r"""((?:\b[a-z][a-z0-9+.\-]{1,15}:/|\b(?:https?|s3|gs|ftp):)/)  # scheme
    ([^\s/?#'"<>]*@)?                                               # user and password
    ([^\s?#'"<>]*)                                                  # server and path
    ([?#]\S*?(?=[:,;.)?]?(?:\s|$|['"<>])))?                         # query and fragment
    """,
    re.IGNORECASE | re.VERBOSE,
)

#: A fragment of short words and numbers, such as the name of a section or ``mode=zarr``, which is no key.
_PLAIN = re.compile(r"#(?:mode=)?[a-z]{0,20}\d{0,4}(?:[-_.,/][a-z]{0,20}\d{0,4})*", re.IGNORECASE)


def redacted(text: str, mark: str = "…") -> str:
    """Return text in which what may be secret in URLs is replaced by a mark, or removed if it is empty.

    >>> redacted("https://me:secret@example.org/a.nc?key=secret: not found")
    'https://…@example.org/a.nc?…: not found'
    >>> redacted("https://example.org/a.nc#key=secret and https://example.org/a.zarr#mode=zarr")
    'https://example.org/a.nc#… and https://example.org/a.zarr#mode=zarr'
    """

    def without(found: re.Match[str]) -> str:
        scheme, user, place, rest = found.groups()
        if rest and "@" in rest and "/" not in place:
            place = mark  # the beginning of a password with one of these characters
        if rest and not _PLAIN.fullmatch(rest):
            rest = f"{rest[0]}{mark}" if mark else ""
        return f"{scheme}{f'{mark}@' if mark and user else ''}{place}{rest or ''}"

    return _URL.sub(without, text) if ":/" in text else text
