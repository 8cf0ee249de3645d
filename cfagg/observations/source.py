"""Where the bytes of a store are: a directory of this machine, a web server or an object store.

Keys are paths below the store, such as ``data/0.0``.  A source is small, pickles, and serves many threads and forked
processes at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cfagg.arguments import a_mapping, a_path, paths
from cfagg.errors import CfaggError, FragmentReadError, LimitError, SourceError, StaleError
from cfagg.storage.files import Context, close_read, no_directory
from cfagg.storage.tree import open_file, prefixes, read_file

__all__ = ["MAX_OBJECT", "LocalSource", "Source", "check_key", "make_source"]

#: Bytes of an object that is read whole; such are metadata.
MAX_OBJECT = 2**28

#: Files that one local source keeps open.
_OPEN = 64
_CONTEXT = Context()


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
        """Return all bytes under a key, `None` where there are none.

        Raises
        ------
        LimitError
            There are more than `MAX_OBJECT`.
        AccessError
            A server does not let it be read.
        """

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes from `start` on; fewer only where the object ends before.

        Raises
        ------
        FragmentReadError
            The object is not there or not readable.
        StaleError
            It has been written since it was first read.
        """

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one object."""

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of an object, or the last, and its size; `None` where there is none."""

    def size(self, key: str) -> int | None:
        """Return the number of bytes under a key, `None` where there are none."""

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of objects below a folder, `None` where there are none."""


def check_key(path: str, key: str) -> str:
    """Return a key that cannot lead out of its store.

    Raises
    ------
    SourceError
        It has a part that is not a name.

    Examples
    --------
    >>> check_key("a.zarr", "data/0.0")
    'data/0.0'
    """
    if "\0" in key or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise SourceError(f"{path}: {key!r} is not a key of a store")
    return key


class _File:
    """An open file that is closed when nothing uses it any more."""

    __slots__ = ("identity", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.identity = self.now()

    def now(self) -> tuple[int, int, int]:
        """Return inode, size and time of modification as they are."""
        status = os.fstat(self.number)
        return status.st_ino, status.st_size, status.st_mtime_ns

    def __del__(self) -> None:
        if self.number >= 0:
            close_read(self.number)


class LocalSource:
    """A store in a directory of this machine.

    Files stay open between reads and are read by position, so threads and forked processes do not disturb each other.
    A file that is written while the store is open is an error when it is read again, because where its parts were is
    known from before.

    Parameters
    ----------
    path : str
        The store's directory.
    allow : iterable of path
        Where links in it may lead.

    Raises
    ------
    SourceError
        There is no such directory.
    """

    remote = False

    def __init__(self, path: str | os.PathLike[str], allow: Iterable[str | os.PathLike[str]] = ()) -> None:
        name = a_path(path, expected="name an observation store")
        self.allow = prefixes(allow)
        self.path = os.path.abspath(name)  # noqa: PTH100  (Path.absolute keeps "..")
        if not name or not os.path.isdir(self.path):  # noqa: PTH112
            raise no_directory(name, "an observation store", "make one of it with: cfagg obs create RECIPE STORE")
        self._files: dict[str, _File] = {}
        self._known: dict[str, tuple[int, int, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "allow": self.allow}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self.allow = state["path"], state["allow"]
        self._files, self._known = {}, {}

    def __repr__(self) -> str:
        return f"LocalSource({self.path!r})"

    def _where(self, key: str) -> str:
        return f"{self.path}/{check_key(self.path, key)}"

    def read(self, key: str) -> bytes | None:
        """Return all bytes under a key, `None` where there are none."""
        where = self._where(key)
        found = read_file(self.path, where, MAX_OBJECT, self.allow, _CONTEXT)
        if found is None:
            return None
        if len(found[0]) > MAX_OBJECT:
            raise LimitError(f"{where} has more than {MAX_OBJECT:,} bytes, as many as are read at once")
        return found[0]

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
        except CfaggError:
            raise
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error
        return found

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return several ranges ``(start, count)`` of one file."""
        return [self.read_range(key, start, count) for start, count in ranges]

    def read_edge(self, key: str, count: int, *, last: bool = False) -> tuple[bytes, int] | None:
        """Return the first `count` bytes of a file, or the last, and its size; `None` where there is none."""
        try:
            # The file is held: another thread may forget it meanwhile, and what nobody holds is closed.
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
        """Return the number of bytes under a key, `None` where there are none."""
        try:
            return Path(self._where(key)).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FragmentReadError(f"{self._where(key)} cannot be read: {error.strerror or error}") from error

    def sizes(self, folder: str, names: Sequence[str]) -> list[int | None]:
        """Return the number of bytes of files below a folder, `None` where there are none."""
        return [self.size(f"{folder}/{name}") for name in names]

    def _file(self, key: str) -> _File:
        # Without a lock, which a fork could leave locked: at worst two threads open the same file.
        files = self._files
        file = files.get(key)
        if file is None:
            where = self._where(key)
            opened = open_file(self.path, where, self.allow, _CONTEXT)
            if opened is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where)
            file = _File(opened[0])
            if len(files) >= _OPEN:
                self._files = files = {}
            files[key] = file
            found = file.identity
        else:
            found = file.now()
        if self._known.setdefault(key, found) != found:
            raise StaleError(f"{self._where(key)} has been written since the store was opened; open the store again")
        return file


def make_source(
    path: str | os.PathLike[str], options: Mapping[str, Any] | None = None, allow: Iterable[str] = ()
) -> Source:
    """Return where the bytes of a store are.

    Parameters
    ----------
    path : path or str
        A directory, or a URL ``http://``, ``https://`` or ``s3://``.
    options : mapping, optional
        For URLs: ``headers``, ``timeout`` and ``deadline``; for ``s3://`` also ``region``, ``endpoint``,
        ``access_key_id``, ``secret_access_key``, ``session_token``, ``credentials``, ``request_payer`` and
        ``virtual_hosted_style_request``.  Nothing is taken from the environment unless ``credentials`` says so.
    allow : iterable of str
        Prefixes of URLs to which the server may redirect, or places that links in a directory may lead to; none by
        default.

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
    name = a_path(path, expected="name an observation store")
    scheme, mark, _ = name.partition("://")
    places = paths(allow)
    given = a_mapping(options, "options", "a mapping such as {'timeout': 30}")
    if mark and scheme.lower() in ("http", "https", "s3"):
        from cfagg.observations.remote import HttpSource, S3Source

        made = S3Source if scheme.lower() == "s3" else HttpSource
        return made(name, given, places)
    if mark:
        raise SourceError(f"{name} is a URL of another kind; stores are read from http://, https:// and s3://")
    if given:
        raise SourceError(
            f"{name} is a directory of this machine and takes no options; found {sorted(map(str, given))}"
        )
    return LocalSource(os.path.expanduser(name), places)  # noqa: PTH111
