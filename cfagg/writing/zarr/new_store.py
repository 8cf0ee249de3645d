"""Creating a Zarr store at a path or URL: chunks are written first, documents last, so that it is never incomplete.

On this machine it is built beside its final path and renamed; in an object store, objects are written under their final
keys, and the store does not exist before the documents of the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cfagg.errors import CfaggError, FragmentReadError, StaleError, TargetError
from cfagg.errors.arguments import a_path
from cfagg.formats.zarr.metadata import Opens
from cfagg.formats.zarr.remote import open_object
from cfagg.runtime.direct import copy_large, write_large
from cfagg.runtime.files import write_whole
from cfagg.runtime.object_publishing import ROOT_DOCUMENTS, Fenced, NewStore
from cfagg.runtime.publishing import opened, reason, write_all
from cfagg.runtime.workplace import Workplace
from cfagg.storage.files import close_read
from cfagg.storage.objects import ObjectStore
from cfagg.storage.tree import open_file
from cfagg.storage.urls import Url, a_place, is_url, refuse_url

__all__ = ["Keys", "LocalKeys", "NewPlace", "ObjectKeys", "Stored", "new_store", "read_stored"]

#: Number of bytes copied at once.
_BLOCK = 1 << 23

#: Error numbers of a system that cannot copy between two files.
_NOT_HERE = frozenset({errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM})


class Stored(NamedTuple):
    """An object in a store: a directory whose links may lead to `allow`, or a `Url`; `path` begins with the store."""

    store: str
    path: str
    allow: tuple[str, ...] = ()
    #: For stores that are neither, as in `cfagg.formats.zarr.metadata.ZarrArray`.
    opens: Opens | None = None


class Keys(Protocol):
    """Where objects of a new store are written, by key. It can be pickled, so that workers can use it."""

    def put(self, key: str, data: Any) -> int:
        """Write an object atomically and return its size in bytes; an object with the same key is replaced."""

    def copy(self, key: str, source: Stored) -> int | None:
        """Copy an object byte for byte and return its size in bytes; return `None` if it does not exist."""

    def move(self, old: str, new: str) -> None:
        """Rename an object."""

    def end(self, folder: str) -> None:
        """Prevent late workers from writing, and remove all objects below a folder."""


@dataclass(frozen=True)
class LocalKeys:
    """Files below a directory; incomplete files are in another one.

    Without that other one, each file is written once, by this process, and incomplete files do not matter.
    """

    folder: str
    parts: str | None

    def put(self, key: str, data: Any) -> int:
        """Write a file; see `Keys`."""
        view = memoryview(data).cast("B")
        self._make(key, lambda file: write_large(file, view))
        return view.nbytes

    def copy(self, key: str, source: Stored) -> int | None:
        """Copy a file or the content of an object; see `Keys`."""
        if source.opens is not None or isinstance(source.store, Url):
            found = read_stored(source)
            return None if found is None else self.put(key, found)
        there = open_file(source.store, source.path, source.allow)
        if there is None:
            return None
        fd, status = there
        try:
            self._make(key, lambda file: _copy(fd, file, status, source.path))
        finally:
            close_read(fd)
        return status.st_size

    def move(self, old: str, new: str) -> None:
        """Rename a file; see `Keys`."""
        self._place(f"{self.folder}/{old}", f"{self.folder}/{new}")

    def end(self, folder: str) -> None:
        """Remove a directory, after which nothing can be renamed into it; see `Keys`."""
        if self.parts is not None:
            os.rename(self.parts, f"{self.parts}.ended")  # noqa: PTH104
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(f"{self.folder}/{folder}")

    def _make(self, key: str, write: Callable[[FileIO], None]) -> None:
        if self.parts is None:
            with self._opened(f"{self.folder}/{key}") as file:
                write(file)
            return
        # Use a unique name: a task that runs twice must not find its file half written by the other run.
        part = f"{self.parts}/{secrets.token_hex(8)}"
        try:
            with opened(part, "wb") as file:
                write(file)
            self._place(part, f"{self.folder}/{key}")
        except BaseException:
            with contextlib.suppress(OSError):
                Path(part).unlink(missing_ok=True)
            raise

    def _opened(self, path: str) -> FileIO:
        try:
            return opened(path, "wb")
        except FileNotFoundError:
            _make_folder(path.rpartition("/")[0], self.folder)
            return opened(path, "wb")

    def _place(self, old: str, new: str) -> None:
        try:
            os.replace(old, new)  # noqa: PTH105
        except FileNotFoundError:
            _make_folder(new.rpartition("/")[0], self.folder)
            os.replace(old, new)  # noqa: PTH105


def _make_folder(path: str, home: str) -> None:
    """Make a directory and its missing parents within `home`, without checking first which exist."""
    if len(path) <= len(home):
        raise FileNotFoundError(errno.ENOENT, "the store is no longer being written", home)
    try:
        os.mkdir(path)  # noqa: PTH102
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(path.rpartition("/")[0], home)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102


@dataclass(frozen=True)
class ObjectKeys:
    """Objects of an object store under their final keys; those of another run are not replaced."""

    fenced: Fenced

    def put(self, key: str, data: Any) -> int:
        """Write an object; see `Keys`."""
        view = memoryview(data).cast("B")
        self.fenced.put(key, view)
        return view.nbytes

    def copy(self, key: str, source: Stored) -> int | None:
        """Write the content of a file or an object; see `Keys`."""
        found = read_stored(source)
        return None if found is None else self.put(key, found)

    def move(self, old: str, new: str) -> None:
        """Copy an object on the server and remove the original; see `Keys`."""
        self.fenced.move(old, new)

    def end(self, folder: str) -> None:
        """Remove objects; see `Keys`."""
        self.fenced.clear(folder)


def read_stored(source: Stored) -> bytes | None:
    """Return the content of an object in one consistent state, or `None` if it does not exist."""
    if source.opens is not None:
        found = source.opens(source.path)
    elif isinstance(source.store, Url):
        there = open_object(source.store, source.path, _BLOCK)
        found = None if there is None else (there.pread, there.size, there.identity)
    else:
        found = open_file(source.store, source.path, source.allow)
    if found is None:
        return None
    if len(found) == 3:
        read, size, _ = found
        return _all(read, size, source.path)
    fd, status = found
    try:
        data = _all(lambda count, offset: os.pread(fd, count, offset), status.st_size, source.path)
        _check_state(fd, status, source.path)
    finally:
        close_read(fd)
    return data


def _all(read: Callable[[int, int], bytes], size: int, path: str) -> bytes:
    """Return all `size` bytes."""
    parts, at = [], 0
    while at < size:
        try:
            parts.append(read(min(_BLOCK, size - at), at))
        except OSError as error:
            raise FragmentReadError(f"{path} cannot be read: {error.strerror or error}") from error
        if not parts[-1]:
            raise StaleError(f"{path} was truncated while it was copied; run again")
        at += len(parts[-1])
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _copy(fd: int, file: FileIO, status: os.stat_result, path: str) -> None:
    """Copy the content of a file to another, by a system call if possible."""
    begun = at = copy_large(fd, file, status.st_size)
    try:
        while hasattr(os, "copy_file_range") and at < status.st_size:
            done = os.copy_file_range(fd, file.fileno(), status.st_size - at, at)
            if not done:
                break
            at += done
    except OSError as error:
        if at > begun or error.errno not in _NOT_HERE:
            raise
    while at < status.st_size:
        try:
            block = os.pread(fd, min(_BLOCK, status.st_size - at), at)
        except OSError as error:
            raise FragmentReadError(f"{path} cannot be read: {error.strerror or error}") from error
        if not block:
            break
        write_all(file, block)
        at += len(block)
    _check_state(fd, status, path)


def _check_state(fd: int, status: os.stat_result, path: str) -> None:
    """Raise if a file has been written since it was opened."""
    now = os.fstat(fd)
    if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
        raise StaleError(f"{path} was written while it was copied; run again")


#: The note if the work of a killed run is started again.
_ANEW = "what a killed run had begun was removed, and everything was done again"


class NewPlace:
    """The place of a new store within `new_store`.

    Attributes
    ----------
    path : str
        Where the store will be.
    keys : Keys
        Writes its objects, in workers as well.
    once : Keys
        Writes each object once, in threads of this process only, with less overhead.
    notes : tuple of str
        Information that users should know.
    """

    def __init__(self, path: str, keys: Keys, publish: Callable[[Mapping[str, bytes]], None]) -> None:
        self.path, self.keys, self._publish = path, keys, publish
        self.once = keys
        self.notes: tuple[str, ...] = ()
        self.published = False

    def put(self, key: str, data: Any) -> int:
        """Write an object atomically and return its size in bytes; an object with the same key is replaced."""
        return self.keys.put(key, data)

    def copy(self, key: str, source: Stored) -> int | None:
        """Copy an object byte for byte and return its size in bytes; return `None` if it does not exist."""
        return self.keys.copy(key, source)

    def publish(self, documents: Mapping[str, bytes]) -> None:
        """Write the documents by key, those of the root last; only then does the store exist."""
        self._publish(documents)
        self.published = True


@contextmanager
def new_store(
    target: str | os.PathLike[str], *, overwrite: bool = False, target_options: Mapping[str, Any] | None = None
) -> Iterator[NewPlace]:
    """Yield the place of a new store, which exists once it is published; if it is not, nothing is left behind."""
    # With `overwrite`, an existing store is replaced: on this machine it stays until the new one is complete; in an
    # object store it is removed first, with a warning. Only one process can write a store at a time.
    if is_url(a_path(target, "target", expected="name a directory for the store")) or target_options:
        there = a_place(target, target_options, name="target", expected="name a directory for the store",
                        options_name="target_options")  # fmt: skip
        if isinstance(there, Url):
            if there.lower().startswith("http"):
                refuse_url(there, "written")
            objects = ObjectStore(there, there.options.given, options_name="target_options")
            yield from _in_objects(NewStore(objects, overwrite=overwrite))
            return
    yield from _beside(_Beside(target, overwrite=overwrite))


def _in_objects(store: NewStore) -> Iterator[NewPlace]:
    """Yield the place of a store in an object store."""
    place = NewPlace(store.objects.path, ObjectKeys(store.fenced), store.publish)
    store.begin()
    try:
        yield place
    finally:
        if not place.published:
            # It has already reported the cause; what cannot be removed is marked as incomplete.
            with contextlib.suppress(CfaggError):
                store.abandon()


class _Beside(Workplace):
    """The work directory of a new store."""

    doing = "writing"

    def new_parts(self) -> str:
        """Make a directory for incomplete files of this run only."""
        # Workers whose client was killed finish their current task, but no longer find their directory.
        parts = self.root / "parts" / secrets.token_hex(8)
        parts.mkdir(parents=True)
        return str(parts)

    def finish(self, documents: Mapping[str, bytes]) -> None:
        """Write the documents, and move the store into place."""
        self.check_names(documents)
        for key in sorted(documents, key=lambda key: ("/" not in key, key in ROOT_DOCUMENTS)):
            path = self.store / key
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, documents[key])
        self.check_target()
        self.put_in_place()
        self.remove_after()


def _beside(work: _Beside) -> Iterator[NewPlace]:
    """Yield the place of a store that is built beside its final path on this machine."""
    folder = str(work.store)
    place = NewPlace(str(work.target), LocalKeys(folder, None), work.finish)
    work.enter()
    try:
        if not work.may_replace:
            work.check_unfinished()
        if work.store.exists():
            place.notes = (_ANEW,)
        work.start_anew()
        place.keys = LocalKeys(folder, work.new_parts())
        yield place
    except KeyboardInterrupt:
        done = "is complete" if place.published else "was not written"
        raise KeyboardInterrupt(f"interrupted: {place.path} {done}") from None
    except OSError as error:
        if isinstance(error, CfaggError):
            raise
        done = "may not outlive a power loss" if place.published else "was not written"
        raise TargetError(f"{place.path} {done}: {reason(error, place.path)}") from error
    finally:
        if not place.published:
            work.take_back()
            work.abandon_if_useless()
        work.leave()
