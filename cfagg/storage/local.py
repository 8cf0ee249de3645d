"""A store in a local directory; it is small, can be pickled, and serves many threads and forked processes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cfagg.errors import CfaggError, FragmentReadError, LimitError, StaleError
from cfagg.errors.arguments import a_path
from cfagg.storage.files import Context, close_read, no_directory
from cfagg.storage.positioned import read_at
from cfagg.storage.store import MAX_OBJECT, check_key
from cfagg.storage.tree import hold, open_file, prefixes, read_file

__all__ = ["LocalSource"]

#: Maximum number of files that one local source keeps open.
_OPEN = 64
_CONTEXT = Context()


class _File:
    """An open file that is closed when it is no longer used."""

    __slots__ = ("identity", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.identity = self.now()

    def now(self) -> tuple[int, int, int]:
        """Return the current inode, size and modification time."""
        status = os.fstat(self.number)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if self.number >= 0:
            close_read(self.number)


class LocalSource:
    """A store in a local directory, whose links may lead to `allow`.

    Files stay open between reads and are read by position, so threads and forked processes do not disturb each other.
    Reading a file again after it was written raises an error, because the positions of its parts are cached; and so
    does opening one after another store has taken the place of this one.
    """

    remote = False

    def __init__(self, path: str | os.PathLike[str], allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        name = a_path(path, expected="name an observation store")
        self.allow = prefixes(allow)
        self.path = os.path.abspath(name)  # noqa: PTH100  (Path.absolute keeps "..")
        if not name or not os.path.isdir(self.path):  # noqa: PTH112
            raise no_directory(name, "an observation store", "build one with: cfagg obs create RECIPE STORE")
        self._begin()

    def _begin(self) -> None:
        self._files: dict[str, _File] = {}
        self._known: dict[str, tuple[int, int, int]] = {}
        try:
            self._root = _File(hold(self.path))
        except OSError as error:
            raise FragmentReadError(f"{self.path} cannot be opened: {error.strerror or error}") from error

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "allow": self.allow}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self.allow = state["path"], state["allow"]
        self._begin()

    def __repr__(self) -> str:
        return f"LocalSource({self.path!r})"

    def _where(self, key: str) -> str:
        return f"{self.path}/{check_key(self.path, key)}"

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, or `None` if it does not exist."""
        where = self._where(key)
        found = read_file(self.path, where, MAX_OBJECT, self.allow, _CONTEXT)
        self._check_place()
        if found is None:
            return None
        if len(found[0]) > MAX_OBJECT:
            raise LimitError(f"{where} has more than {MAX_OBJECT:,} bytes, the most that is read at once")
        return found[0]

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only if the file ends before that."""
        try:
            file = self._file(key)
            return read_at(file.number, count, start)
        except CfaggError:
            raise
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one file."""
        return [self.read_range(key, start, count) for start, count in ranges]

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of a file, or the last, and its size; or `None` if it does not exist."""
        try:
            # Keep a reference: another thread may drop the file meanwhile, and unreferenced files are closed.
            file = self._file(key)
            size = os.fstat(file.number).st_size
        except CfaggError:
            raise
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error
        count = min(count, size)
        return (self.read_range(key, size - count if last else 0, count) if count else b""), size

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, or `None` if it does not exist."""
        try:
            return Path(self._where(key)).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of each file in a folder, or `None` for those that do not exist."""
        return [self.size(f"{folder}/{name}") for name in names]

    def _check_place(self) -> None:
        """Raise if the store is no longer in its place, such as when one that was built anew took it."""
        try:
            same = os.path.samestat(Path(self.path).stat(), os.fstat(self._root.number))
        except OSError:
            same = False
        if not same:
            raise StaleError(f"{self.path} has been replaced or removed since it was opened; open the store again")

    def _file(self, key: str) -> _File:
        # Without a lock, which a fork could leave locked; at worst two threads open the same file.
        files = self._files
        file = files.get(key)
        if file is None:
            where = self._where(key)
            opened = open_file(self.path, where, self.allow, _CONTEXT)
            if opened is None:
                self._check_place()
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where)
            file = _File(opened[0])
            self._check_place()
            if len(files) >= _OPEN:
                self._files = files = {}
            files[key] = file
            found = file.identity
        else:
            found = file.now()
        if self._known.setdefault(key, found) != found:
            raise StaleError(f"{self._where(key)} has been written since the store was opened; open the store again")
        return file
