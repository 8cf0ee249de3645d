"""Text of files, changed line by line while it is read: comments left out, and one character between columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import starmap
from typing import Any

__all__ = ["BETWEEN", "ChangedText", "between_tabs", "cut", "without_comments"]

type Change = Callable[[bytes], bytes]

#: What separates columns that were cut out of lines by their position, since text has it in no column.
BETWEEN = "\x1f"


class ChangedText:
    """A file of text whose lines some functions change, and whose last line ends.

    The functions are called with any number of whole lines, in order.
    """

    def __init__(self, stream: Any, changes: Iterable[Change]) -> None:
        self._stream = stream
        self._changes = list(changes)
        self._line = self._ready = b""
        self._next: bytes | None = None
        self.closed = False

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes, none at the end."""
        # One byte less than asked for leaves room for the end of the last line, without which pyarrow finds no names.
        found = self._next if self._next is not None else self._block(size - 1)
        self._next = self._block(size - 1) if found else b""
        return found if self._next or not found or found.endswith((b"\n", b"\r")) else found + b"\n"

    def _block(self, size: int) -> bytes:
        return self._lines(size) if self._changes else bytes(self._stream.read(size))

    def _lines(self, size: int) -> bytes:
        while len(self._ready) < size and (more := self._stream.read(size)):
            text = self._line + more
            # A carriage return at the end may belong to a line feed that follows.
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1
            self._line = text[end:]
            self._ready += self._changed(text[:end])
        if len(self._ready) < size:
            self._ready, self._line = self._ready + self._changed(self._line), b""
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._stream.close()

    def _changed(self, lines: bytes) -> bytes:
        for change in self._changes:
            lines = change(lines)
        return lines


def without_comments(mark: bytes, *, quoted: bool) -> Change:
    """Return a function that leaves out lines which begin with a mark, unless they are within quotation marks."""
    inside = False

    def change(lines: bytes) -> bytes:
        nonlocal inside
        if not inside and mark not in lines and b'"' not in lines:
            return lines
        kept = []
        for line in lines.splitlines(keepends=True):
            if not inside and line.removeprefix(b"\xef\xbb\xbf").startswith(mark):
                continue
            kept.append(line)
            if quoted and line.count(b'"') % 2:
                inside = not inside
        return b"".join(kept)

    return change


#: Columns in quotation marks, those that only begin with one, and blanks between columns.
_QUOTED = re.compile(rb'(?<![^ \t\r\n])("(?:[^"\r\n]|"")*")(?=[ \t\r\n]|\Z)|(?<![^ \t\r\n])("[^ \t\r\n]*)|[ \t]+')


def between_tabs(lines: bytes) -> bytes:
    """Return lines without blanks at their ends, and with one tab for those between columns."""
    lines = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", lines)
    return _QUOTED.sub(_column_or_tab, lines) if b'"' in lines else re.sub(rb"[ \t]+", b"\t", lines)


def _column_or_tab(found: re.Match[bytes]) -> bytes:
    quoted, begun = found[1], found[2]
    if begun is not None:  # otherwise pyarrow would read up to a mark in another line
        return b'"' + begun.replace(b'"', b'""') + b'"'
    return b"\t" if quoted is None else bytes(quoted)


def cut(positions: Mapping[str, tuple[int, int]], encoding: str) -> Change:
    """Return a function that cuts columns out of lines, from the first to the last character of each, as UTF-8."""
    slices = list(starmap(slice, ((first - 1, last) for first, last in positions.values())))

    def change(lines: bytes) -> bytes:
        text = lines.decode(encoding).removeprefix("\ufeff")
        rows = [
            BETWEEN.join([line[part].strip() for part in slices]) if line.strip() else ""
            for line in re.split(r"\r\n|\n|\r", text)
        ]
        return "\n".join(rows).encode()

    return change
