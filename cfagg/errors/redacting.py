"""URLs without users, passwords and queries, which may contain keys, for messages, reports and metadata."""

from __future__ import annotations

import re

__all__ = ["redacted"]

#: A URL, including one whose two slashes have become one because it was treated as a path.
_URL = re.compile(
    r"""((?:\b[a-z][a-z0-9+.\-]{1,15}:/|\b(?:https?|s3|gs|ftp):)/)  # scheme
    ([^\s/?#'"<>]*@)?                                               # user and password
    ([^\s?#'"<>]*)                                                  # server and path
    (?:\?\S*?(?=[:,;.)]?(?:\s|$|['"<>])))?                          # query
    """,
    re.IGNORECASE | re.VERBOSE,
)


def redacted(text: str, mark: str = "…") -> str:
    """Return text in which users, passwords and queries of URLs are replaced by a mark, or removed if it is empty.

    >>> redacted("https://me:secret@example.org/a.nc?key=secret: not found")
    'https://…@example.org/a.nc?…: not found'
    """

    def without(found: re.Match[str]) -> str:
        scheme, user, place = found.groups()
        query = f"?{mark}" if mark and "?" in found[0] else ""
        return f"{scheme}{f'{mark}@' if mark and user else ''}{place}{query}"

    return _URL.sub(without, text) if ":/" in text else text
