"""Opening files of a directory store by key: only regular files, and never by a link that leads out of the store.

The directory itself may be a link.  A link inside it that leads elsewhere is a reference like any other: its target is
read if `allow`, or the environment variable CFAGG_ALLOW, names a directory above it, and refused otherwise.  The open
file is checked, not what its name meant a moment before.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from cfagg.errors import AccessError, CfaggError
from cfagg.errors.arguments import paths
from cfagg.storage.files import CONTEXT_SOURCE, Context, close_read, relieve
from cfagg.storage.positioned import read_at

__all__ = ["FILE", "hold", "listed", "open_file", "open_quickly", "prefixes", "read_file"]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

#: Flags for holding a directory; on Linux it need not be readable.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

#: Flags for opening a file relative to an open directory, without following links.
FILE = _FLAGS | os.O_NOFOLLOW

_LINUX: bool = sys.platform == "linux"

#: Linux: the number of openat2, its flags that forbid any links in the path, and the working directory.
_OPENAT2, _NO_LINKS, _AT_FDCWD = 437, 0x02 | 0x04, -100

#: Stores that are reached by links, with their real paths, and the maximum number that are cached.
_homes: dict[str, str] = {}
_ROOTS = 256

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def prefixes(allow: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the places to which links may lead as absolute paths; an empty one is refused."""
    given = paths(allow)
    if not all(given):
        raise AccessError("an empty prefix in allow= would allow nothing; write '.' for the working directory")
    return tuple(os.path.abspath(a) for a in given)  # noqa: PTH100


def open_file(
    root: str, path: str, allow: Sequence[str] = (), context: Context = CONTEXT_SOURCE
) -> tuple[int, os.stat_result] | None:
    """Open a file of the store `root`, which the caller closes; or return `None` if there is none.

    An `AccessError` is raised if a link leads out of the store and not to `allow`, ``context.broken`` if it is not a
    regular file or cannot be opened.
    """
    try:
        fd = _opener()(_resolved(root, path))
        if fd < 0:
            fd = _by_links(root, path, allow, context)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, CfaggError):
            raise
        if isinstance(error, OSError) and error.errno in (errno.ENXIO, errno.EOPNOTSUPP):
            said = "it is a socket or a device, and only regular files are read"
            raise context.broken(context.said(f"{path} cannot be read: {said}")) from error
        raise context.broken(
            context.said(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
        ) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        close_read(fd)
        kind = next((name for test, name in _KINDS if test(status.st_mode)), "not a regular file")
        raise context.broken(context.said(f"{path} cannot be read: it is {kind}, and only regular files are read"))
    return fd, status


def open_quickly(root: str, path: str) -> int:
    """Open a file or directory whose path has no links by one call; -1 if `open_file` is needed.

    `FileNotFoundError` is raised if there is none.  The caller checks whether it is a regular file.
    """
    return _opener()(_resolved(root, path))


def read_file(
    root: str, path: str, most: int, allow: Sequence[str] = (), context: Context = CONTEXT_SOURCE
) -> tuple[bytes, os.stat_result] | None:
    """Return the bytes of a file of a store and its status; at most `most` bytes and one more are read."""
    opened = open_file(root, path, allow, context)
    if opened is None:
        return None
    fd, status = opened
    try:
        data = read_at(fd, min(status.st_size, most) + 1, 0)
    except OSError as error:
        raise context.broken(context.said(f"{path} cannot be read: {error.strerror or error}")) from error
    finally:
        close_read(fd)
    return data, status


def listed(root: str, path: str, allow: Sequence[str] = (), context: Context = CONTEXT_SOURCE) -> str | None:
    """Return the path of a directory of a store for listing, or `None` if there is none."""
    if not os.path.isdir(path):  # noqa: PTH112
        return None
    real, home = os.path.realpath(path), os.path.realpath(root)
    _judge(path, real, home, allow, context)
    return path


def _by_links(root: str, path: str, allow: Sequence[str], context: Context) -> int:
    """Open a path with links, judge the opened file, and return its descriptor."""
    try:
        fd = _plainly(path)
    except FileNotFoundError:
        dangling = next((p for p in _ways(root, path) if os.path.islink(p) and not os.path.exists(p)), None)  # noqa: PTH110, PTH114
        if dangling is None:
            raise
        raise context.broken(
            context.said(f"{dangling} is a broken link to {os.readlink(dangling)!r}")  # noqa: PTH115
        ) from None
    try:
        real, home = _real(fd, path), os.path.realpath(root)
        _judge(path, real, home, allow, context)
    except BaseException:
        close_read(fd)
        raise
    if home != root:
        if len(_homes) >= _ROOTS:
            _homes.clear()
        _homes[root] = home
    return fd


def _ways(root: str, path: str) -> list[str]:
    """Return each path on the way from a store to a file in it."""
    parts = path[len(root) + 1 :].split("/")
    return ["/".join([root, *parts[: n + 1]]) for n in range(len(parts))]


def _resolved(root: str, path: str) -> str:
    """Return a path with the links to its store resolved, if they are cached and still lead to the same place."""
    home = _homes.get(root)
    if home is None:
        return path
    try:
        there, here = os.stat(root), os.stat(home)  # noqa: PTH116
    except OSError:
        return path
    return home + path[len(root) :] if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) else path


def _judge(path: str, real: str, home: str, allow: Sequence[str], context: Context) -> None:
    """Refuse a file that is neither in the store nor in an allowed place."""
    named = [a for a in os.environ.get("CFAGG_ALLOW", "").split(os.pathsep) if a]
    places = [home, *(os.path.realpath(a) for a in (*allow, *named))]
    if not any(real == place or real.startswith(place.rstrip("/") + "/") for place in places):
        folder = os.path.dirname(real)  # noqa: PTH120
        word = shlex.quote(folder)
        raise AccessError(
            context.said(
                f"{path} is, or goes through, a link to {real}, which lies outside the store {home}; to read it, pass "
                f"allow=[{folder!r}] or, on the command line, --allow {word}; without such an option, set the "
                f"environment variable CFAGG_ALLOW={word}"
            )
        )


def _real(fd: int, path: str) -> str:
    """Return the path of an open file, without links."""
    if _LINUX:
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        # Linux shows files that were removed after they were opened this way.
        return real if os.fstat(fd).st_nlink else real.removesuffix(" (deleted)")
    real = os.path.realpath(path)
    there, here = os.stat(real, follow_symlinks=False), os.fstat(fd)  # noqa: PTH116
    if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
        raise OSError(errno.ESTALE, "it was replaced while it was opened")
    return real


def hold(path: str) -> int:
    """Return a descriptor of a directory, which the caller closes; until then no other one gets its inode number."""
    return _plainly(path, _DIRECTORY)


def _plainly(path: str, flags: int = _FLAGS) -> int:
    """Return a descriptor; if the process has too many, files that are only kept for reuse are closed."""
    while True:
        try:
            return os.open(path, flags)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not relieve():
                raise


@cache
def _opener() -> Callable[[str], int]:
    """Return a function that opens a path without links by one call; -1 if it needs another look."""
    if not _LINUX:
        return lambda path: -1  # noqa: ARG005
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    how = ctypes.create_string_buffer(struct.pack("QQQ", _FLAGS, 0, _NO_LINKS), 24)

    def without_links(path: str) -> int:
        if "\0" in path:
            raise ValueError(f"{path!r} has a NUL character")
        fd: int = call(_OPENAT2, _AT_FDCWD, path.encode("utf-8", "surrogateescape"), how, 24)
        if fd < 0:
            code = ctypes.get_errno()
            # A missing file is missing whatever links there are; everything else is examined again.
            if code == errno.ENOENT:
                raise FileNotFoundError(code, os.strerror(code), path)
        return fd

    return without_links
