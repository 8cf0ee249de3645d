"""Remote files as readers see them: handles like those of local files, read by ranges of bytes.

Small reads, such as those of metadata, are cached in blocks; large ones, which are of values, are not.  Each response
is compared with the state of the object that was seen first, so that two states are never mixed.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import AccessError, CfaggError, FragmentReadError, LimitError, StaleError
from cfagg.storage import counters
from cfagg.storage.files import CONTEXT_SOURCE, Borrowed, Context, FileKey
from cfagg.storage.places import source_of
from cfagg.storage.urls import Url

__all__ = ["BLOCK", "RemoteBytes", "RemoteHandle", "open_remote", "remote_key", "state_number"]

#: Number of bytes in one block.
BLOCK = 1 << 16

#: Number of blocks that are cached for one file, and the most that one request fetches.
_KEPT, _AT_ONCE = 512, 64

#: Seconds after which an open file is compared with the server again.
_TRUST = 1.0


def state_number(tag: str, size: int) -> int:
    """Return a digest of tag and size, which takes the place of inode and time of a remote file."""
    return int.from_bytes(hashlib.sha256(f"{tag}\0{size}".encode()).digest()[:7])


class RemoteBytes(io.RawIOBase):
    """The bytes of one object of a store, by slices or as a file object.

    `head` is the first bytes and the state of the object; at most `most` bytes of it are read in all.
    """

    def __init__(self, source: Any, name: str, head: Any, most: int | None = None) -> None:
        super().__init__()
        self._source, self._name, self._most = source, name, most
        self.size, self.tag = int(head.size), head.tag or ""
        #: The tag if any later state has another one, else an empty text.
        self.lasting_tag = self.tag if head.settled else ""
        self._blocks: OrderedDict[int, bytes] = OrderedDict({0: head.body[:BLOCK]})
        self._read, self._at = len(head.body), 0

    def __len__(self) -> int:
        return self.size

    @property
    def where(self) -> str:
        """The name used in messages."""
        return f"{self._source.path}/{self._name}"

    def __getitem__(self, where: slice) -> bytes:
        """Return a slice of the bytes; fewer if the file ends before that."""
        start, stop, _ = where.indices(self.size)
        if stop <= start:
            return b""
        first, last = start // BLOCK, (stop - 1) // BLOCK
        if last - first >= _AT_ONCE:
            return self.fetch(start, stop)
        found = {i: self._blocks.get(i) for i in range(first, last + 1)}
        missing = [i for i, block in found.items() if block is None]
        if missing:
            begin = missing[0] * BLOCK
            data = self.fetch(begin, min((missing[-1] + 1) * BLOCK, self.size))
            for i in range(missing[0], missing[-1] + 1):
                found[i] = self._blocks[i] = data[i * BLOCK - begin : (i + 1) * BLOCK - begin]
            while len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        whole = b"".join(b for b in found.values() if b is not None)
        return whole[start - first * BLOCK : stop - first * BLOCK]

    def fetch(self, start: int, stop: int) -> bytes:
        """Return bytes that are not cached."""
        self._read += stop - start
        if self._most is not None and self._read > self._most:
            raise LimitError(
                f"{self.where}: more than {self._most:,} bytes would be read; copy the file to this machine"
            )
        found = self._source.part(self._name, start, stop - start)
        if found is None:
            raise FragmentReadError(f"{self.where} no longer exists; open it again")
        self.compare(found)
        if len(found.body) != stop - start:
            raise FragmentReadError(f"{self.where} ends before its size of {self.size:,} bytes")
        return bytes(found.body)

    def compare(self, found: Any) -> None:
        """Raise if the object has changed since it was opened."""
        if (found.size, found.tag or "") != (self.size, self.tag):
            raise StaleError(f"{self.where} has been written since it was opened; open it again")

    def readable(self) -> bool:
        """Return True: it is readable."""
        return True

    def seekable(self) -> bool:
        """Return True: it is seekable."""
        return True

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class RemoteHandle(Borrowed):
    """An open remote file; libraries read it through `file` only."""

    __slots__ = ("_looked", "_source", "_stale", "ahead")

    def __init__(self, url: Url, source: Any, data: RemoteBytes) -> None:
        super().__init__(url, data)
        self.key = _key(url, data.tag, data.size)
        self._source = source
        self._stale, self._looked = False, time.monotonic()
        #: Whether it was requested ahead of being opened.
        self.ahead = False

    def another(self) -> RemoteHandle:
        """Return another handle of the same state, which shares the cached blocks."""
        made = RemoteHandle(self.key.path, self._source, self.data)  # type: ignore[arg-type]
        made._looked = self._looked
        return made

    @property
    def library_path(self) -> str:
        """Raise, because no library can open a remote file by a path."""
        raise AccessError(f"{self.key.path} is a remote file, which is read by ranges of bytes only")

    def some(self, size: int, offset: int, context: Context = CONTEXT_SOURCE) -> bytes:
        """Return up to `size` bytes at `offset`."""
        try:
            found: bytes = self.data[offset : min(offset + size, self.key.size)]
        except (FragmentReadError, StaleError) as error:
            self._stale = True
            raise _in_context(error, context) from error
        return found

    def fill(self, buffer: npt.NDArray[np.uint8], offset: int, context: Context = CONTEXT_SOURCE) -> None:
        """Fill `buffer` with the bytes at `offset`; large reads are of values, which are not cached."""
        if buffer.nbytes < BLOCK or offset + buffer.nbytes > self.key.size:
            super().fill(buffer, offset, context)
            return
        try:
            buffer[...] = np.frombuffer(self.data.fetch(offset, offset + buffer.nbytes), np.uint8)
        except (FragmentReadError, StaleError) as error:
            self._stale = True
            raise _in_context(error, context) from error
        counters.add(bytes=buffer.nbytes)

    def said(self, error: BaseException) -> str:
        """Return the message of a library."""
        return str(error)

    def failed(self, error: BaseException) -> str:
        """Return why a library could not open the file."""
        return f"{self.key.path} is damaged or not netCDF; the library reports: {error}; restore or replace the file"

    def is_unchanged(self) -> bool:
        """Return whether no change has been seen so far; each read compares."""
        return not self._stale

    def is_young(self) -> bool:
        """Return whether the server was asked for the file a moment ago."""
        return self.is_open and not self._stale and time.monotonic() - self._looked <= _TRUST

    def is_fresh(self) -> bool:
        """Return whether the server still has this state; the answer is cached for a moment."""
        if self._stale or not self.is_open:
            return False
        if not self.is_young():
            found = self._source.part(self.key.path.place[1], 0, 1)  # type: ignore[attr-defined]
            if found is None or (found.size, found.tag or "") != (self.data.size, self.data.tag):
                self._stale = True
                return False
            self._looked = time.monotonic()
        return True

    def close(self) -> None:
        """Read no more from the file."""
        super().close()
        self._stale = True


def _in_context(error: CfaggError, context: Context) -> CfaggError:
    if isinstance(error, StaleError):
        return StaleError(context.said(error.message))
    return context.broken(context.said(error.message))


def _key(url: Url, tag: str, size: int) -> FileKey:
    state = state_number(tag, size)
    return FileKey(url, -1, state, size, state, 0)


def open_remote(url: Url, context: Context = CONTEXT_SOURCE) -> RemoteHandle:
    """Open a remote file; ``context.missing`` is raised if there is none, ``.broken`` if it is unreadable."""
    source, name, head = _head(url, BLOCK, context)
    counters.add(files=1)
    return RemoteHandle(url, source, RemoteBytes(source, name, head))


def remote_key(url: Url, context: Context = CONTEXT_SOURCE) -> FileKey:
    """Return the present state of a remote file, for which the server is asked for one byte."""
    _, _, head = _head(url, 1, context)
    return _key(url, head.tag or "", int(head.size))


def _head(url: Url, size: int, context: Context) -> tuple[Any, str, Any]:
    """Return the source of a file, its name there, and its first bytes with its state."""
    home, name = url.place
    source: Any = source_of(url, home)
    try:
        head = source.part(name, 0, size)
    except FragmentReadError as error:
        raise context.broken(context.said(error.message)) from error
    if head is None:
        raise context.missing(context.said(f"there is no file {url}; {context.remedy}"))
    return source, name, head
