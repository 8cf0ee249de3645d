"""Reading a few bytes of each of many files in one directory, without creating an object for each.

A directory is opened once, and its path without symbolic links is checked against the open directory.  Files are opened
relative to it by their bare names and never through a link, so everything that is read is in that very directory.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

from cfagg.errors import AccessError, CfaggError
from cfagg.storage import counters
from cfagg.storage.files import FLAGS, close_read
from cfagg.storage.urls import Url

__all__ = ["Directory", "RemoteDirectory", "State"]

#: Size, time of modification, time of change, and inode of a file.
State = tuple[int, int, int, int]

#: Only if the system reports the path of an open file.
_CAN = sys.platform == "linux" and os.open in os.supports_dir_fd and os.path.isdir("/proc/self/fd")  # noqa: PTH112


class Directory:
    """An open directory; `AccessError` is raised if it is not the one at this path, which contains no links."""

    def __init__(self, path: str) -> None:
        self._fd, self._taken = -1, 0
        if not _CAN:
            raise AccessError(f"{path}: this system does not reveal which directory was opened")
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (OSError, ValueError) as error:
            raise AccessError(f"{path} cannot be opened: {error}") from error
        try:
            real = os.readlink(f"/proc/self/fd/{self._fd}")  # noqa: PTH115
        except OSError:
            real = ""
        if real != path:
            self.close()
            raise AccessError(f"{path} is, or is reached through, a symbolic link")

    def read(
        self,
        name: str,
        state: State,
        wanted: Sequence[tuple[int, int]],
        doubt: Callable[[int, State], bool] = lambda _, __: False,
        into: Any = None,
    ) -> list[bytes] | None:
        """Return ranges of bytes (length, offset) of a file, or `None` if it is in another state or too short.

        A file of that size in another state is read if `doubt`, called with its descriptor and state, returns true.  A
        single range may be read `into` a buffer of its length, in which case the returned list is empty.
        """
        data: list[bytes] = []
        try:
            fd = os.open(name, FLAGS | os.O_NOFOLLOW, dir_fd=self._fd)
        except (OSError, ValueError):
            return None
        try:
            found = os.fstat(fd)
            now = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            if not stat.S_ISREG(found.st_mode) or found.st_size != state[0]:
                return None
            if now != state and not doubt(fd, now):
                return None
            if into is None:
                data = [os.pread(fd, length, offset) for length, offset in wanted]
            elif os.preadv(fd, [into], wanted[0][1]) != wanted[0][0]:
                return None
            again = os.fstat(fd)
        except (OSError, ValueError, OverflowError, MemoryError):
            return None
        finally:
            close_read(fd)
        # Nor if the file was written meanwhile.
        if (again.st_size, again.st_mtime_ns, again.st_ctime_ns) != now[:3]:
            return None
        taken = 0
        for part, (length, _) in zip(data, wanted, strict=False):
            if len(part) != length:
                return None
            taken += length
        self._taken += taken if into is None else into.nbytes
        return data

    def close(self) -> None:
        """Close the directory, and count the bytes read."""
        fd, self._fd = self._fd, -1
        taken, self._taken = self._taken, 0
        if taken:
            counters.add(bytes=taken)
        if fd >= 0:
            close_read(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and os is not None:
            self.close()


class RemoteDirectory:
    """The remote counterpart of `Directory`: each range is a request, whose response gives size and tag."""

    def __init__(self, url: Url) -> None:
        from cfagg.storage.places import source_of

        self._source: Any = source_of(url, url.place[0])

    def read(
        self,
        name: str,
        state: tuple[int, str | None],
        wanted: Sequence[tuple[int, int]],
        into: Any = None,
    ) -> list[bytes] | None:
        """Return ranges of bytes as `Directory` does; `state` is size and tag, and without a tag nothing is proven."""
        size, tag = state
        data: list[bytes] = []
        for length, offset in wanted:
            if not tag or offset + length > size:
                return None
            try:
                found = self._source.part(name, offset, length)
            except CfaggError:
                return None  # the regular reader reports the problem
            if found is None or (found.size, found.tag) != (size, tag) or len(found.body) != length:
                return None
            data.append(found.body)
        counters.add(bytes=sum(map(len, data)))
        if into is None:
            return data
        memoryview(into).cast("B")[:] = data[0]
        return []

    def close(self) -> None:
        """Do nothing, since nothing is open."""
