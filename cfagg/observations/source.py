"""Where the bytes of a store are: a directory of this machine, a web server or an object store.

Keys are paths below the store, such as ``data/0.0``.  A source is small, pickles, and serves many threads and forked
processes at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cfagg.errors import FragmentReadError, SourceError

__all__ = ["LocalSource", "Source", "make_source"]

#: Files that one local source keeps open.
_OPEN = 64
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@runtime_checkable
class Source(Protocol):
    """The bytes of a store, by key.

    Attributes
    ----------
    path : str
        The store's directory or URL.
    remote : bool
        Whether every read is a message to another machine, so that few large reads are better than many small ones.
    """

    path: str
    remote: bool

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, `None` where there are none."""

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only where the object ends before.

        Raises
        ------
        FragmentReadError
            The object is not there or not readable.
        """

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one object."""

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, `None` where there are none."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the number of bytes of every object directly below a folder, by name."""


class _File:
    """An open file that is closed when nothing uses it any more."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, _FLAGS)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class LocalSource:
    """A store in a directory of this machine.

    Files stay open between reads and are read by position, so threads and forked processes do not disturb each other.

    Parameters
    ----------
    path : str
        The store's directory.

    Raises
    ------
    SourceError
        There is no such directory.
    """

    remote = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        name = os.fspath(path)
        self.path = os.path.abspath(name)  # noqa: PTH100  (Path.absolute keeps "..")
        if not name or not Path(self.path).is_dir():
            raise SourceError(f"{name or 'the empty name'} is no observation store: there is no such directory")
        self._files: dict[str, _File] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path = state["path"]
        self._files = {}

    def __repr__(self) -> str:
        return f"LocalSource({self.path!r})"

    def _where(self, key: str) -> str:
        parts = key.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise SourceError(f"{self.path}: {key!r} is no key of a store")
        return f"{self.path}/{key}"

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, `None` where there are none."""
        where = self._where(key)
        try:
            return Path(where).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FragmentReadError(f"{where} cannot be read: {error.strerror or error}") from error

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only where the file ends before."""
        try:
            file = self._file(key)
            found = os.pread(file.number, count, start)
            if len(found) < count:
                # The system may give less than asked for, at most some 2 GB at once.
                parts = [found]
                missing = count - len(found)
                while missing and parts[-1]:
                    parts.append(os.pread(file.number, missing, start + count - missing))
                    missing -= len(parts[-1])
                found = b"".join(parts)
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error
        return found

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one file."""
        return [self.read_range(key, start, count) for start, count in ranges]

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, `None` where there are none."""
        try:
            return Path(self._where(key)).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the number of bytes of every file directly below a folder, by name."""
        where = self._where(folder)
        try:
            with os.scandir(where) as entries:
                return {e.name: e.stat().st_size for e in entries if e.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise FragmentReadError(f"{where} cannot be read: {error.strerror or error}") from error

    def _file(self, key: str) -> _File:
        # Without a lock, which a fork could leave locked: at worst two threads open the same file.
        files = self._files
        file = files.get(key)
        if file is None:
            file = _File(self._where(key))
            if len(files) >= _OPEN:
                self._files = files = {}
            files[key] = file
        return file


def make_source(
    path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, allow: Iterable[str] = ()
) -> Source:
    """Return the source of a store.

    Parameters
    ----------
    path : path or str
        A directory, or a URL ``http://``, ``https://`` or ``s3://``.
    options : mapping, optional
        For URLs: what `obstore` is told, such as ``{"region": "eu-west-1", "skip_signature": True}``.
    allow : iterable of str
        Prefixes of further places that may be read.

    Raises
    ------
    SourceError
        There is no such directory, or the URL is of another kind.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> source = make_source(folder)
    >>> source.size("data/.zarray") is None, source.remote
    (True, False)
    """
    return LocalSource(path)
