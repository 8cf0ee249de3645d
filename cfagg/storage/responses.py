"""Responses of web servers, parsed strictly: anything that is not plain HTTP/1 or is ambiguous raises an error.

Source: RFC 9110 and RFC 9112.  The header parser of the standard library is made for mail; it takes half the time of a
small request, and is slow for malformed headers.
"""

from __future__ import annotations

import io
import re
from typing import Any

__all__ = ["AnswerError", "Response"]

type Reader = io.BufferedReader[Any]

#: Maximum bytes of a header line, number of lines and of bytes of a head, and number of interim responses.
_LINE, _LINES, _HEAD, _INTERIM = 1 << 14, 128, 1 << 16, 8

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?\r\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++):([\t\x20-\x7e\x80-\xff]*+)\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*+(?:;[\t\x20-\x7e\x80-\xff]*+)?\r\n")

#: Headers with a single value: if one were repeated, either could be believed.
_ONCE = frozenset({
    "content-encoding", "content-length", "content-range", "etag", "last-modified", "location", "transfer-encoding",
})  # fmt: skip


class AnswerError(OSError):
    """A response that is not HTTP, is truncated, or contradicts itself."""


class Response:
    """The head of a response, header names in lower case, and its body, still to be read from `reader`."""

    __slots__ = ("_chunked", "_left", "_reader", "ended", "headers", "status", "stays")

    def __init__(self, reader: Reader, method: str) -> None:
        self._reader = reader
        for _ in range(_INTERIM):
            minor, self.status, self.headers = _head(reader)
            if self.status >= 200:
                break
            if self.status == 101:
                raise AnswerError("the server switches to another protocol unasked")
        else:
            raise AnswerError(f"more than {_INTERIM} interim answers (status {self.status})")
        headers = self.headers
        #: Whether the connection can serve the next request.
        self.stays = minor == b"1" and "close" not in headers.get("connection", "").lower()
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if length is not None and not (length.isascii() and length.isdigit() and len(length) < 19):
            raise AnswerError(f"the server gives {length[:40]!r} as the length of its answer")
        self._chunked = coding is not None
        if coding is not None and (coding.lower() != "chunked" or length is not None or minor != b"1"):
            raise AnswerError(f"the server sends {coding[:40]!r} with a length, in HTTP/1.0, or unasked")
        #: Bytes of the body, or of its current chunk, that are still to come; `None` if it ends with the connection.
        self._left = 0 if coding is not None else None if length is None else int(length)
        #: Whether the whole body was read.
        self.ended = method == "HEAD" or self.status in (204, 304) or (self._left == 0 and not self._chunked)

    def read(self, most: int) -> bytes:
        """Return the rest of the body, or `most` bytes of it; raise if it ends before that."""
        if self.ended:
            return b""
        if self._chunked:
            return self._chunks(most)
        if self._left is None:
            # Its end looks the same as a lost connection, and the connection serves no further request.
            self.stays = False
            return self._reader.read(most)
        count = min(most, self._left)
        self._left -= count
        self.ended = not self._left
        return self._exactly(count)

    def _exactly(self, count: int) -> bytes:
        found = self._reader.read(count)
        if len(found) != count:
            raise AnswerError(f"the answer ends after {len(found):,} of {count:,} bytes")
        return found

    def _chunks(self, most: int) -> bytes:
        pieces: list[bytes] = []
        left = self._left or 0
        while most:
            if not left:
                found = _CHUNK.fullmatch(_line(self._reader))
                if found is None:
                    raise AnswerError("a chunk of the answer begins with no length")
                left = int(found[1], 16)
                if not left:
                    _fields(self._reader)
                    self.ended = True
                    break
            count = min(left, most)
            pieces.append(self._exactly(count))
            left, most = left - count, most - count
            if not left and self._exactly(2) != b"\r\n":
                raise AnswerError("a chunk of the answer is longer than announced")
        self._left = left
        return b"".join(pieces)


def _head(reader: Reader) -> tuple[bytes, int, dict[str, str]]:
    """Return the minor version, the status and the headers of the next head."""
    line = reader.readline(_LINE)
    if not line:
        # A server may close an idle connection; no part of a response is lost then.
        raise ConnectionResetError("the server closed the connection without an answer")
    found = _STATUS.fullmatch(line)
    if found is None:
        raise AnswerError(f"the server answers {line[:40]!r}, which is not HTTP")
    return found[1], int(found[2]), _fields(reader)


def _fields(reader: Reader) -> dict[str, str]:
    """Return the headers up to the empty line; repeated ones are joined to a list."""
    headers: dict[str, str] = {}
    size = 0
    for _ in range(_LINES + 1):
        line = _line(reader)
        if line == b"\r\n":
            return headers
        size += len(line)
        found = _FIELD.fullmatch(line)
        if found is None or size > _HEAD:
            raise AnswerError(f"the server sends a malformed header, or more than {_HEAD:,} bytes: {line[:40]!r}")
        name, value = found[1].decode().lower(), found[2].decode("latin-1").strip(" \t")
        if name in headers:
            if name in _ONCE:
                raise AnswerError(f"the server sends the header {name} twice")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    raise AnswerError(f"the server sends more than {_LINES} headers")


def _line(reader: Reader) -> bytes:
    """Return a line; one that is too long is returned without its end, so that no pattern matches it."""
    line = reader.readline(_LINE)
    if not line:
        raise AnswerError("the answer ends within its head")
    return line
