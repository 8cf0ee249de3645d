"""Opening local files: only regular ones, each once, and identified by the open file rather than by its name."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, FragmentNotFoundError, FragmentReadError, SourceError, SourceNotFoundError
from cfagg.storage import counters
from cfagg.storage.positioned import MOST, fill_at

__all__ = [
    "CONTEXT_SOURCE",
    "FLAGS",
    "Borrowed",
    "Context",
    "FileKey",
    "Handle",
    "absent",
    "close_read",
    "lock_trouble",
    "look",
    "on_pressure",
    "open_regular",
    "read_regular",
    "relieve",
]

#: Never blocks on a FIFO, never takes a controlling terminal, and is not inherited by programs that are started.
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

#: On Linux an open file has a path under which libraries can open the same file again.
_HAS_PROC = sys.platform == "linux" and os.path.isdir("/proc/self/fd")  # noqa: PTH112


class FileKey(NamedTuple):
    """The identity of one state of a file: cached information is valid as long as it does not change."""

    path: str
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    def is_same_content(self, other: FileKey) -> bool:
        """Return whether both are the same file, last written at the same time; renaming or linking does not matter."""
        return self[1:5] == other[1:5]


class Context(NamedTuple):
    """The purpose of opening a file: which errors are raised, how they begin (`where`), and the `remedy`."""

    where: str = ""
    missing: type[CfaggError] = FragmentNotFoundError
    broken: type[CfaggError] = FragmentReadError
    remedy: str = "restore the file, correct the reference, or pass missing='fill' to read missing values there"

    def said(self, text: str) -> str:
        """Return `text` prefixed with the place it is about."""
        return f"{self.where}: {text}" if self.where else text

    def damage(self, text: str) -> CfaggError:
        """Return the error about a file that exists but cannot be read."""
        return self.broken(self.said(text))

    def absence(self, text: str) -> CfaggError:
        """Return the error about something that is missing."""
        return self.missing(self.said(text))


#: Context of files that a user names, not a partition.
CONTEXT_SOURCE = Context("", SourceNotFoundError, SourceError, "check the path")

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Handle:
    """One open regular file, closed when it is no longer referenced; `real` is its path without symbolic links."""

    __slots__ = ("__weakref__", "_fd", "key", "real")

    def __init__(self, fd: int, key: FileKey, real: str) -> None:
        self._fd = fd
        self.key = key
        self.real = real

    @property
    def fd(self) -> int:
        """The file descriptor."""
        if self._fd < 0:
            raise ValueError(f"{self.key.path} is closed")
        return self._fd

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._fd >= 0

    @property
    def data(self) -> Any:
        """The bytes of a file without a descriptor, as a sliceable object, or `None` if there is a descriptor."""
        return None

    @property
    def library_path(self) -> str:
        """A path by which a library opens this very file; on systems other than Linux just its path."""
        return f"/proc/self/fd/{self.fd}" if _HAS_PROC else self.real

    def said(self, error: BaseException) -> str:
        """Return the message of a library that opened `library_path`, with the name that the user gave."""
        return str(error).replace(f"/proc/self/fd/{self._fd}", self.key.path) if _HAS_PROC else str(error)

    def failed(self, error: BaseException) -> str:
        """Return why a library could not open `library_path`, with the file's name: a lock, its removal, or damage."""
        trouble = lock_trouble(self.fd)
        if trouble is None and not os.fstat(self.fd).st_nlink:  # the HDF5 library opens no file without a name
            trouble = "it was replaced or removed meanwhile; open it again"
        if trouble is not None:
            return f"{self.key.path} cannot be opened: {trouble}"
        return (
            f"{self.key.path} is damaged or not netCDF; the library reports: {self.said(error)}; restore or replace "
            "the "
            "file"
        )

    def is_unchanged(self) -> bool:
        """Return whether `library_path` still refers to this file, and it was not written since it was opened."""
        found = os.fstat(self.fd) if _HAS_PROC else os.stat(self.real, follow_symlinks=False)  # noqa: PTH116
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == self.key[1:5]

    def some(self, size: int, offset: int, context: Context = CONTEXT_SOURCE) -> bytes:
        """Return up to `size` bytes at `offset`, fewer at the end of the file; they are not counted as values."""
        try:
            return os.pread(self.fd, size, offset)
        except OSError as error:
            raise _unreadable(self.key, context, error) from error

    def exactly(self, size: int, offset: int, context: Context = CONTEXT_SOURCE) -> bytes:
        """Return `size` bytes at `offset`; ``context.broken`` is raised if the file ends before that."""
        # Do not even try to read: a damaged length could exceed the memory.
        if offset + size > self.key.size:
            raise _truncated(self.key, context, offset + size)
        data = b""
        while len(data) < size:
            more = self.some(min(size - len(data), MOST), offset + len(data), context)
            if not more:
                raise _truncated(self.key, context, offset + size)
            data = data + more if data else more
        counters.add(bytes=size)
        return data

    def fill(self, buffer: npt.NDArray[np.uint8], offset: int, context: Context = CONTEXT_SOURCE) -> None:
        """Fill `buffer` with the bytes at `offset`; ``context.broken`` is raised if the file ends before that."""
        try:
            count = fill_at(self.fd, buffer, offset)
        except OSError as error:
            raise _unreadable(self.key, context, error) from error
        if count < buffer.nbytes:
            raise _truncated(self.key, context, offset + buffer.nbytes)
        counters.add(bytes=buffer.nbytes)

    def close(self) -> None:
        """Close the file; its datasets are then no longer admitted."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_read(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # During interpreter shutdown there may be nothing left to close it with; the system then closes it.
        if self._fd >= 0 and os is not None:
            close_read(self._fd)
            self._fd = -1

    def __repr__(self) -> str:
        return f"<Handle of {self.key.path!r}{'' if self.is_open else ', closed'}>"


#: Serial numbers of borrowed files.
_borrowed = itertools.count()


class Borrowed(Handle):
    """A file that a library already has open; without `data` its datasets can be admitted, but not read here."""

    __slots__ = ("_data", "_lent")

    def __init__(self, name: str, data: Any = None) -> None:
        # A serial number replaces the inode, so that cached information never applies to another file of this name.
        super().__init__(-1, FileKey(name, -1, next(_borrowed), 0 if data is None else len(data), 0, 0), name)
        self._lent, self._data = True, data

    @property
    def is_open(self) -> bool:
        """Whether the file may still be read."""
        return self._lent

    @property
    def data(self) -> Any:
        """The bytes, as a sliceable object."""
        return self._data

    def some(self, size: int, offset: int, context: Context = CONTEXT_SOURCE) -> bytes:
        """Return up to `size` bytes at `offset`."""
        if self._data is None:
            return super().some(size, offset, context)
        return bytes(self._data[offset : min(offset + size, self.key.size)])

    def fill(self, buffer: npt.NDArray[np.uint8], offset: int, context: Context = CONTEXT_SOURCE) -> None:
        """Fill `buffer` with the bytes at `offset`."""
        if self._data is None:
            super().fill(buffer, offset, context)
        else:
            buffer[...] = np.frombuffer(self.exactly(buffer.nbytes, offset, context), np.uint8)

    def close(self) -> None:
        """Admit nothing more of it; the code that opened the file closes it."""
        self._lent, self._data = False, None


def _unreadable(key: FileKey, context: Context, error: OSError) -> CfaggError:
    return context.broken(context.said(f"{key.path} cannot be read: {error.strerror}"))


def _truncated(key: FileKey, context: Context, end: int) -> CfaggError:
    return context.broken(context.said(f"{key.path} is truncated: it ends before byte {end}; restore the file"))


def lock_trouble(fd: int) -> str | None:
    """Return why the HDF5 library, which locks the files it opens, cannot lock an open file; or `None` if it can."""
    remedy = "set the environment variable HDF5_USE_FILE_LOCKING=FALSE to open it without a lock"
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return f"it is locked, probably because it is being written; wait until that is done, or {remedy}"
    except OSError as error:
        return f"its file system does not support locks ({error.strerror}), which the HDF5 library needs; {remedy}"
    fcntl.flock(fd, fcntl.LOCK_UN)
    return None


#: Functions that close files when the process has too many open; each returns whether it closed any.
_relief: list[Callable[[], bool]] = []


def on_pressure(closes: Callable[[], bool]) -> None:
    """Register a function to be called when the process has too many open files; it returns whether it closed any."""
    _relief.append(closes)


def relieve() -> bool:
    """Close files that are only kept open for reuse; return whether there were any."""
    closed = [closes() for closes in _relief]
    return any(closed)


def open_regular(path: str, context: Context = CONTEXT_SOURCE) -> Handle:
    """Open a regular file for reading; nothing that could block is opened.

    ``context.missing`` is raised if there is none, ``context.broken`` if it is not a regular file or unreadable.

    >>> open_regular("/dev/null")
    Traceback (most recent call last):
    ...
    cfagg.errors.SourceError: /dev/null is a device; only regular files are read
    """
    fd = _open(path, context)
    try:
        found = os.fstat(fd)
        real = _real_path(fd, path, found) if stat.S_ISREG(found.st_mode) else ""
    except OSError as error:
        close_read(fd)
        raise context.broken(context.said(f"{path} cannot be opened: {error.strerror}")) from error
    if not real:
        close_read(fd)
        raise _irregular(path, found.st_mode, context)
    counters.add(files=1)
    return Handle(fd, _key(path, found), real)


def close_read(fd: int) -> None:
    """Close a file that was only read; errors are ignored, because nothing is lost and the file is closed anyway."""
    try:  # noqa: SIM105  (a context manager costs more, and this is done for each chunk)
        os.close(fd)
    except OSError:
        pass


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a regular file, opened as by `open_regular`."""
    with open_regular(os.fspath(path), CONTEXT_SOURCE) as handle:
        return handle.exactly(handle.key.size, 0, CONTEXT_SOURCE)


def _open(path: str, context: Context) -> int:
    """Return a file descriptor; if the process has too many, files that are only kept for reuse are closed."""
    while True:
        try:
            return os.open(path, FLAGS)
        except (FileNotFoundError, NotADirectoryError) as error:
            more = "; files that match a pattern are joined by cfagg.aggregate (cfagg aggregate)" if "*" in path else ""
            raise context.missing(context.said(f"there is no file {path}; {context.remedy}{more}")) from error
        except (OSError, ValueError) as error:
            code = error.errno if isinstance(error, OSError) else None
            if code in (errno.EMFILE, errno.ENFILE) and relieve():
                continue
            if code in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket (the latter on macOS), or a device without a driver
                look(path, context)
            if isinstance(error, OSError):
                raise context.broken(context.said(f"{path} cannot be opened: {error.strerror}")) from error
            # Paths with NUL bytes or unpaired surrogates raise ValueError.
            raise context.broken(context.said(f"{path!r} is not a file name: {error}")) from error


def _real_path(fd: int, path: str, found: os.stat_result) -> str:
    """Return the path of the open file: as the system reports it, or else by resolving the name again."""
    if _HAS_PROC:
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        # Linux shows files that were removed after they were opened this way.
        return real.removesuffix(" (deleted)") if not found.st_nlink else real
    real = os.path.realpath(path)
    again = os.stat(real, follow_symlinks=False)  # noqa: PTH116
    if (again.st_dev, again.st_ino) != (found.st_dev, found.st_ino):
        raise OSError(errno.ESTALE, "it was replaced while it was opened")
    return real


def look(path: str, context: Context = CONTEXT_SOURCE) -> FileKey:
    """Return the identity of a regular file, without opening it; errors are those of `open_regular`."""
    try:
        # Paths with NUL bytes or unpaired surrogates raise ValueError.
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError) as error:
        raise context.missing(context.said(f"there is no file {path}; {context.remedy}")) from error
    except OSError as error:
        raise context.broken(context.said(f"{path} cannot be opened: {error.strerror}")) from error
    except ValueError as error:
        raise context.broken(context.said(f"{path!r} is not a file name: {error}")) from error
    if not stat.S_ISREG(found.st_mode):
        raise _irregular(path, found.st_mode, context)
    return _key(path, found)


def no_directory(name: str, what: str, remedy: str = "") -> SourceError:
    """Return the error for a name that must be a directory, `what` such as "a Zarr store", but is not one."""
    if name and not absent(name):
        try:
            os.stat(name)  # noqa: PTH116
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            return SourceError(
                f"{name!r} cannot be opened: {why}" if "\0" in name else f"{name} cannot be opened: {why}"
            )
        more = f"; {remedy}" if remedy else ""
        return SourceError(f"{name} is not {what}: it is a file, and {what} is a directory{more}")
    return SourceNotFoundError(f"{name or 'the empty name'} is not {what}: there is no such directory")


def absent(path: str) -> bool:
    """Return whether a file does not exist; one that cannot be reached counts as existing."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _key(path: str, found: os.stat_result) -> FileKey:
    return FileKey(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _irregular(path: str, mode: int, context: Context) -> CfaggError:
    kind = next((name for test, name in _KINDS if test(mode)), "not a regular file")
    return context.broken(context.said(f"{path} is {kind}; only regular files are read"))
