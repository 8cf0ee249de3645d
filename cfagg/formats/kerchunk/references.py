"""kerchunk's references as JSON: keys of a Zarr store, each with its bytes or their location.

Version 0 is only the table.  Version 1 has names for parts of URLs (``templates``), and may have generators of
references, which are programs and raise an error.

Source: "References specification" of fsspec and kerchunk.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from cfagg.errors import LimitError, SourceError, UnsupportedError

__all__ = ["Place", "References", "Table", "is_head", "parse", "unpacked"]

#: Most bytes of a table in JSON; larger ones should be in Parquet.
MOST = 1 << 27

#: Most bytes of a compressed table for each byte of its file, and of the smallest ones.
_RATIO, _FEW = 100, 1 << 22

#: Most characters of a URL with its templates.
_LONGEST = 1 << 16

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

#: Beginning of a table: one of its own keys, a Zarr document, or a chunk. Versions are numbers; in SARIF they are text.
_HEAD = re.compile(
    rb'\s*\{\s*"(?:version"\s*:\s*[0-9]|(?:templates|gen|refs|'
    rb'(?:(?:[^"\\]|\\/)*\\?/)?(?:\.z(?:group|attrs|array|metadata)|zarr\.json)|'
    rb'(?:[^"\\]|\\/)+\\?/(?:c|[0-9]+(?:\.[0-9]+)*))"\s*:)'
)

#: The name of a template in a URL.
_NAME = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class Place(NamedTuple):
    """The location of bytes; without a length, a whole file."""

    url: str
    offset: int = 0
    length: int | None = None


class References(Protocol):
    """The keys of a store."""

    def get(self, key: str) -> bytes | Place | None:
        """Return the bytes of a key, or their location, or `None` if there are none."""

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group."""


def is_head(head: bytes) -> bool:
    r"""Return whether a file begins like a table of references, including one compressed with gzip or zstd.

    >>> is_head(b'{"version": 1, "refs": {'), is_head(b'{"version": "2.1.0"')
    (True, False)
    """
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(31).decompress(head, 4096)
        except zlib.error:
            return False
    elif head.startswith(_ZSTD):
        # No other readable file is compressed with zstd; its beginning cannot be decompressed separately.
        return True
    return _HEAD.match(head) is not None


def unpacked(raw: bytes, name: str) -> bytes:
    """Return the text of a table."""
    # As objects, a table takes up to twenty times its bytes, so a small file must not have many.
    most = min(MOST, _FEW + _RATIO * len(raw))
    if raw.startswith(_GZIP):
        packer = zlib.decompressobj(31)
        try:
            found = packer.decompress(raw, most + 1)
        except zlib.error as error:
            raise SourceError(f"{name} is damaged: it is not a gzip file; copy it again") from error
        if len(found) <= most and not packer.eof:
            raise SourceError(f"{name} is truncated: its gzip stream does not end; copy it again")
    elif raw.startswith(_ZSTD):
        from cfagg.formats.codecs import DamagedError, unzstd

        try:
            found = bytes(memoryview(unzstd(raw, 0, most)))
        except DamagedError as error:
            raise SourceError(f"{name} is damaged, or not a table of references: {error}; copy it again") from error
    else:
        found = raw
    if len(found) > MOST:
        raise LimitError(f"{name} has more than {MOST:,} bytes of JSON; write the references in Parquet")
    if len(found) > most and found is not raw:
        raise LimitError(
            f"{name} has {len(raw):,} bytes and decompresses to more than {most:,}; decompress it first if you trust it"
        )
    return found


def parse(text: bytes, name: str) -> Table:
    """Return the references of a JSON text."""
    from cfagg.formats.zarr import documents

    found = documents.parse(text, name)
    if isinstance(found.get("refs"), dict) and "version" not in found:
        raise SourceError(
            f"{name} has 'refs', but no 'version', without which 'refs' would be a key of the store; write "
            '"version": 1 beside it'
        )
    if isinstance(found.get("version"), int) and "refs" not in found:
        raise SourceError(f"{name} has a 'version', but no 'refs', which would hold the references; write it again")
    if "refs" not in found or "version" not in found:
        return Table(found, {}, name)
    if found["version"] != 1:
        raise UnsupportedError(f"{name} has references of version {str(found['version'])[:20]!r}, expected 0 or 1")
    if found.get("gen"):
        raise UnsupportedError(f"{name} generates references ('gen'), which are not evaluated; write them out")
    templates, refs = found.get("templates") or {}, found["refs"]
    if not isinstance(refs, dict) or not isinstance(templates, dict):
        raise SourceError(f"{name}: 'refs' and 'templates' must be objects; write it again")
    for key, value in templates.items():
        if not isinstance(value, str) or "{{" in value or "{%" in value:
            raise UnsupportedError(
                f"{name}: the template {key!r} is not plain text, and expressions are not evaluated; write it out"
            )
    return Table(refs, templates, name)


class Table:
    """References of a JSON text, interpreted one by one on demand."""

    def __init__(self, refs: Mapping[str, Any], templates: Mapping[str, str], name: str) -> None:
        # VirtualiZarr writes the only chunk of a scalar as "name/", without the 0 of Zarr.
        scalars = {f"{key}0": found for key, found in refs.items() if key.endswith("/")}
        self._refs, self._templates, self._name = {**scalars, **refs} if scalars else refs, templates, name
        self._below: dict[str, dict[str, None]] = {}
        for key in refs:
            if "/" in key:
                home, _, last = key.rpartition("/")
                # Only documents define members; keys of chunks in subfolders do not.
                if last.startswith(".z") or last == "zarr.json":
                    above, _, own = home.rpartition("/")
                    self._below.setdefault(above, {})[own] = None

    def get(self, key: str) -> bytes | Place | None:
        """Return the bytes of a key, or their location."""
        found = self._refs.get(key)
        if found is None:
            return None
        if isinstance(found, str):
            return self._inline(found, key)
        if isinstance(found, dict):
            return json.dumps(found).encode()
        if not (isinstance(found, list) and len(found) in (1, 3) and isinstance(found[0], str)):
            raise self._wrong(key, "expected text, or a list of a URL, an offset and a length")
        if not all(type(n) is int and 0 <= n < 2**62 for n in found[1:]):
            raise self._wrong(key, "its offset and length must be whole numbers")
        return Place(self._url(found[0], key), *found[1:])

    def children(self, path: str) -> Iterator[str]:
        """Yield the names in a group."""
        yield from self._below.get(path, ())

    def _inline(self, text: str, key: str) -> bytes:
        if not text.startswith("base64:"):
            try:
                return text.encode()
            except UnicodeEncodeError as error:
                raise self._wrong(key, "its text has half a surrogate pair, which has no bytes") from error
        try:
            return base64.b64decode(text[7:], validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._wrong(key, "its base64 text is damaged") from error

    def _url(self, text: str, key: str) -> str:
        """Return a URL with its templates."""

        def rendered(match: re.Match[str]) -> str:
            if match[1] not in self._templates:
                raise self._wrong(key, f"there is no template {match[1]!r}")
            return self._templates[match[1]]

        if not self._templates:
            return text
        # Otherwise a table of a few bytes could produce names of any length.
        if len(text) + sum(len(self._templates.get(name, "")) for name in _NAME.findall(text)) > _LONGEST:
            raise self._wrong(key, f"its URL has more than {_LONGEST:,} characters")
        made = _NAME.sub(rendered, text)
        if "{{" in made:
            raise UnsupportedError(
                f"{self._name}: the reference {key!r} has the template {text[:80]!r}, but only plain names are filled "
                "in; write it out"
            )
        return made

    def _wrong(self, key: str, why: str) -> SourceError:
        return SourceError(f"{self._name}: the reference {key[:200]!r} is damaged: {why}; write it again")
