"""What web servers answer, read strictly: what is not plainly HTTP/1, or says two things, is an error and no guess.

Source: RFC 9110 and RFC 9112.  The header parser of the standard library is one for mail; it takes half the time of a
small request, and takes much for a header that is none.
"""

from __future__ import annotations

import io
import re
from typing import Any

__all__ = ["AnswerError", "Response"]

type Reader = io.BufferedReader[Any]

#: Bytes of a line of the head, lines of a head and bytes of it in all, and heads that may come before the answer.
_LINE, _LINES, _HEAD, _INTERIM = 1 << 14, 128, 1 << 16, 8

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?\r\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++):([\t\x20-\x7e\x80-\xff]*+)\r\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*+(?:;[\t\x20-\x7e\x80-\xff]*+)?\r\n")

#: Headers that say one thing: given twice, one of both would be believed.
_ONCE = frozenset({
    "content-encoding", "content-length", "content-range", "etag", "last-modified", "location", "transfer-encoding",
})  # fmt: skip


class AnswerError(OSError):
    """An answer that is no HTTP, is cut short, or contradicts itself."""


class Response:
    """The head of an answer, names of headers in lower case, and its body, still to be read from `reader`."""

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
        #: Bytes of the body that are still to come, of the chunk where it comes in chunks; `None` up to the end.
        self._left = 0 if coding is not None else None if length is None else int(length)
        #: Whether the body was read to its end.
        self.ended = method == "HEAD" or self.status in (204, 304) or (self._left == 0 and not self._chunked)

    def read(self, most: int) -> bytes:
        """Return what is left of the body, or `most` bytes of it; raise where it ends before."""
        if self.ended:
            return b""
        if self._chunked:
            return self._chunks(most)
        if self._left is None:
            # Nobody can tell its end from a loss of the connection, nor is there a next request on that.
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
        # A server may close a connection that was idle; no part of an answer is lost.
        raise ConnectionResetError("the server closed the connection without an answer")
    found = _STATUS.fullmatch(line)
    if found is None:
        raise AnswerError(f"the server answers {line[:40]!r}, which is not HTTP")
    return found[1], int(found[2]), _fields(reader)


def _fields(reader: Reader) -> dict[str, str]:
    """Return the headers up to the empty line; those that are given several times as one list."""
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
    """Return a line; too long a one has no end, so that no pattern takes it."""
    line = reader.readline(_LINE)
    if not line:
        raise AnswerError("the answer ends within its head")
    return line
