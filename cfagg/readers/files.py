"""Looking at a file before a library opens it: only regular files are ever opened."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.errors import CfaggError, FragmentNotFoundError, FragmentReadError, SourceError, SourceNotFoundError
from cfagg.readers import counters

__all__ = [
    "CONTEXT_SOURCE",
    "Context",
    "FileKey",
    "absent",
    "look",
    "magic",
    "open_plain",
    "read_exactly",
    "read_into",
    "read_some",
]


class FileKey(NamedTuple):
    """What tells one state of a file from another: cached facts are valid as long as it does not change."""

    path: str
    device: int
    inode: int
    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Context:
    """For whom a file is opened: it decides which errors are raised and what they say.

    Parameters
    ----------
    where : str
        Start of every message, for instance ``"file a.nca, variable 'tas', partition (0, 1)"``.
    missing, broken : type
        Errors for what is not there and what cannot be read.
    remedy : str
        What to do about a missing file.
    """

    where: str = ""
    missing: type[CfaggError] = FragmentNotFoundError
    broken: type[CfaggError] = FragmentReadError
    remedy: str = "restore the file, correct the reference, or pass missing='fill' to read missing values there"

    def said(self, text: str) -> str:
        """Return `text` behind the place it is about."""
        return f"{self.where}: {text}" if self.where else text


#: Context of files that a user names, not a partition.
CONTEXT_SOURCE = Context("", SourceNotFoundError, SourceError, "check the path")

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def look(path: str, context: Context = CONTEXT_SOURCE) -> FileKey:
    """Return the identity of a regular file, without opening it.

    Raises
    ------
    CfaggError
        ``context.missing`` where there is no such file; ``context.broken`` where it is a directory, a FIFO, a device or
        out of reach.  Nothing that could block is opened.
    """
    try:
        # A path with NUL bytes or unpaired surrogates raises ValueError.
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError) as error:
        raise context.missing(context.said(f"there is no file {path}; {context.remedy}")) from error
    except (OSError, ValueError) as error:
        raise context.broken(context.said(f"{path!r} cannot be looked at: {error}")) from error
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "not a regular file")
        raise context.broken(context.said(f"{path} is {kind}; only regular files are read"))
    return FileKey(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def absent(path: str) -> bool:
    """Return whether there is no such file; one that is out of reach counts as there."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def magic(path: str, context: Context = CONTEXT_SOURCE) -> bytes:
    """Return the first eight bytes of a regular file, fewer where it is shorter."""
    look(path, context)
    try:
        # O_NONBLOCK: even if the file was swapped for a FIFO in between, opening it does not wait.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise context.missing(context.said(f"there is no file {path}; {context.remedy}")) from error
    except OSError as error:
        raise context.broken(context.said(f"{path} cannot be opened: {error.strerror}")) from error
    try:
        return os.read(handle, 8)
    except OSError as error:
        raise context.broken(context.said(f"{path} cannot be read: {error.strerror}")) from error
    finally:
        os.close(handle)


def open_plain(key: FileKey, context: Context) -> int:
    """Return a file descriptor for positioned reads; the caller closes it."""
    try:
        handle = os.open(key.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise context.missing(context.said(f"there is no file {key.path}; {context.remedy}")) from error
    except OSError as error:
        raise context.broken(context.said(f"{key.path} cannot be opened: {error.strerror}")) from error
    counters.add(files=1)
    return handle


def read_some(handle: int, size: int, offset: int, key: FileKey, context: Context) -> bytes:
    """Return up to `size` bytes at `offset`, fewer where the file ends; they are not counted as values."""
    try:
        return os.pread(handle, size, offset)
    except OSError as error:
        raise context.broken(context.said(f"{key.path} cannot be read: {error.strerror}")) from error


def read_exactly(handle: int, size: int, offset: int, key: FileKey, context: Context) -> bytes:
    """Return `size` bytes at `offset`.

    Raises
    ------
    CfaggError
        ``context.broken`` where the file ends before.
    """
    data = b""
    while len(data) < size:
        try:
            more = os.pread(handle, size - len(data), offset + len(data))
        except OSError as error:
            raise context.broken(context.said(f"{key.path} cannot be read: {error.strerror}")) from error
        if not more:
            raise context.broken(
                context.said(f"{key.path} is truncated: it ends before byte {offset + size}; restore the file")
            )
        data = data + more if data else more
    counters.add(bytes=size)
    return data


def read_into(handle: int, buffer: npt.NDArray[np.uint8], offset: int, key: FileKey, context: Context) -> None:
    """Fill `buffer` with the bytes at `offset`.

    Raises
    ------
    CfaggError
        ``context.broken`` where the file ends before.
    """
    left = memoryview(buffer)
    while left.nbytes:
        try:
            count = os.preadv(handle, [left], offset)
        except OSError as error:
            raise context.broken(context.said(f"{key.path} cannot be read: {error.strerror}")) from error
        if not count:
            raise context.broken(
                context.said(f"{key.path} is truncated: it ends before byte {offset + left.nbytes}; restore the file")
            )
        left = left[count:]
        offset += count
    counters.add(bytes=buffer.nbytes)
