"""Pages of a listing from S3, parsed in one pass: a malformed page raises an error instead of giving fewer names.

A page comes from a server that may be hostile: no pattern backtracks over it, even if elements are never closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["MOST", "Listing", "listing"]

#: Maximum size of a page: a thousand names of up to 1,024 bytes, each of which may be encoded in three.
MOST = 1 << 24

#: References of XML: its named entities, and characters by number, including ones that do not exist.
_REFERENCE = re.compile(r"&(?:(amp|lt|gt|quot|apos);|#([0-9]{1,7});|#x([0-9A-Fa-f]{1,6});)?")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class MalformedError(ValueError):
    """A page that is not a listing of S3."""


class Entry(NamedTuple):
    """An object on a page."""

    name: str
    size: int
    tag: str
    #: The time of the last modification, as the server wrote it.
    written: str


class Listing(NamedTuple):
    """A page: names without the requested prefix, and the token for the next page, `None` on the last."""

    entries: list[Entry]
    folders: list[str]
    token: str | None


def listing(body: bytes, prefix: str) -> Listing:
    """Return the objects on a page whose names begin with a prefix; `ValueError` if it is not a listing.

    >>> item = b"<Contents><Key>a/b%20c</Key><Size>3</Size><ETag>&quot;x&quot;</ETag></Contents>"
    >>> listing(b"<ListBucketResult><EncodingType>url</EncodingType>%b</ListBucketResult>" % item, "a/").entries
    [Entry(name='b c', size=3, tag='x', written='')]
    """
    text = body.decode().rstrip()
    # A web page, such as that of a proxy, would otherwise look like an empty store.
    whole = re.search(r"<ListBucketResult[\s>]", text) and text.endswith("</ListBucketResult>")
    # S3 writes no comments, entity declarations or attributes, which could hide names from the patterns below.
    if not whole or "<!" in text or re.search(r"<(Contents|CommonPrefixes)\s", text):
        raise MalformedError
    encoded = (_field(text, "EncodingType") or "").strip() == "url"

    def name(found: str | None) -> str:
        known = _plain(found or "")
        known = unquote(known.replace("+", " "), errors="strict") if encoded else known
        if found is None or not known.startswith(prefix):
            raise MalformedError
        return known[len(prefix) :]

    entries = []
    for item in _fields(text, "Contents"):
        key, size = name(_field(item, "Key")), _field(item, "Size") or ""
        if not re.fullmatch(r"[0-9]{1,18}", size):
            raise MalformedError
        if size == "0" and (not key or key.endswith("/")):
            continue  # represents a folder, as consoles create it
        tag = _plain(_field(item, "ETag") or "").strip('"')
        entries.append(Entry(key, int(size), tag, _field(item, "LastModified") or ""))
    folders = [name(found) for item in _fields(text, "CommonPrefixes") for found in _fields(item, "Prefix")]
    token = _field(text, "NextContinuationToken") or None
    if token is None and (_field(text, "IsTruncated") or "").strip().lower() == "true":
        raise MalformedError
    return Listing(entries, folders, None if token is None else _plain(token))


def _field(text: str, name: str) -> str | None:
    """Return the text in the first element of a name, or `None` if there is none."""
    return next(_fields(text, name), None)


def _fields(text: str, name: str) -> Iterator[str]:
    """Yield the text in each element of a name."""
    opening, closing, at = f"<{name}>", f"</{name}>", 0
    while (begin := text.find(opening, at)) >= 0:
        begin += len(opening)
        end = text.find(closing, begin)
        if end < 0:
            raise MalformedError
        yield text[begin:end]
        at = end + len(closing)


def _plain(text: str) -> str:
    """Return XML text with its references resolved."""

    def plain(found: re.Match[str]) -> str:
        named, number, hexadecimal = found.groups()
        if named:
            return _NAMED[named]
        code = int(number) if number else int(hexadecimal, 16) if hexadecimal else -1
        if not 0 < code <= 0x10FFFF or 0xD800 <= code < 0xE000:
            raise MalformedError
        return chr(code)

    return _REFERENCE.sub(plain, text)
