"""Writing to a store in a local directory, under a lock that is released when its process dies."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from cfagg.errors import LeftoverWarning, LimitError, TargetError
from cfagg.formats.zarr.consolidated import CLAIM
from cfagg.runtime.files import write_new
from cfagg.runtime.publishing import (
    opened,
    read_own,
    reason,
    refusals_of,
    replace_file,
    sync_directory,
    write_all,
    write_synced,
)
from cfagg.runtime.staging import lock, refusals_to_hold, release
from cfagg.storage.store import MAX_OBJECT, check_key
from cfagg.storage.tree import read_file
from cfagg.writing.zarr.staged import Staged, sync_files, sync_folders

__all__ = ["LocalPlace"]

#: Maximum number of folders that are remembered as existing.
_MOST_FOLDERS = 10_000


class LocalPlace:
    """A store in a directory, whose path contains no links."""

    remote = False
    commits = False
    opens = None

    def __init__(self, store: str) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._folders: dict[str, None] = {}  # those that exist and are not behind a link out of the store
        self._written: list[str] = []
        self._made: set[str] = set()
        self._staged = Staged()

    def __repr__(self) -> str:
        return f"LocalPlace({self.store!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self.store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["store"])  # type: ignore[misc]

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return the stored bytes and a tag of their state, or `None` if there are none."""
        path = self._path(key)
        found = read_file(self.store, path, MAX_OBJECT)
        if found is None:
            return None
        data, status = found
        if len(data) > MAX_OBJECT:
            raise LimitError(f"{path} has {status.st_size:,} bytes; at most {MAX_OBJECT:,} are read")
        return data, _tag(status)

    known = read

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write a new file, or one that may replace another, which is forced to disk before it is renamed."""
        path = self._path(key)
        with refusals_of(path):
            self._make_folder(path.rpartition("/")[0])
            if not new:
                with _dropping(Staged()) as staged:
                    replace_file(staged.add(path, data), Path(path))
                return
            write_new(path, data)
        with self._lock:
            self._written.append(path)

    def stage(self, key: str, data: Any) -> None:
        """Write a file that replaces another with the next `sync`."""
        path = self._path(key)
        with refusals_of(path):
            self._make_folder(os.path.dirname(path))  # noqa: PTH120
            self._staged.add(path, data)

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Write files that replace others together with the next `sync`; if one fails, discard them all."""
        try:
            for key, data in objects.items():
                self.stage(key, data)
        except BaseException:
            self._staged.drop()
            raise

    def put_by_way_of(self, folder: Path, key: str, data: Any) -> None:
        """Write a file in another folder of the file system and rename it; several processes may write the same one."""
        path = self._path(key)
        if not folder.is_dir():
            raise TargetError(
                f"{path}: a Dask worker does not find {folder}, or the run has ended; workers must reach the target's "
                "file system by the same path"
            )
        with refusals_of(path):
            self._make_folder(os.path.dirname(path))  # noqa: PTH120
            part = folder / f"file.{uuid.uuid4().hex}"
            with opened(part, "wb") as file:
                write_all(file, data)
            replace_file(part, Path(path))

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Replace a file if it is in the state of a tag; it is on disk when this returns."""
        return self.swap_all([(key, data, tag)])[0]

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Replace files, each in the state of a tag, and the last once all others are on disk; return when it is."""
        # This waits for the disk four times, however many files there are: for all data; for the names of files that
        # were put or staged; for the names of the swapped ones; and for the name of the last one.
        made, path = [], self.store
        with self._lock:
            written, self._written = self._written, []
        try:
            with _dropping(Staged()) as swapped, _dropping(self._staged):
                for key, data, _ in writes:
                    path = self._path(key)
                    self._make_folder(os.path.dirname(path))  # noqa: PTH120
                    made.append(_tag(swapped.add(path, data).stat()))
                with self._lock:
                    folders, self._made = self._made, set()
                sync_files([*written, *self._staged.parts, *swapped.parts], self.store)
                for key, _, tag in writes:
                    self._check_tag(self._path(key), tag)
                # Names of files, then those of new parent folders.
                folders |= self._staged.put() | {os.path.dirname(p) for p in written}  # noqa: PTH120
                sync_folders(folders, self.store)
                sync_folders(swapped.put(len(writes) - 1), self.store)
                sync_folders(swapped.put(), self.store)
        except OSError:
            with refusals_of(path):
                raise
        return made

    def _check_tag(self, path: str, tag: Any) -> None:
        try:
            now: Any = _tag(os.lstat(path))
        except FileNotFoundError:
            now = None
        if now != tag:
            raise TargetError(f"{path} was meanwhile written by another process and left as it is; run again")

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, and any incomplete remains of them."""
        for key in keys:
            path = self._path(key)
            folder, name = os.path.split(path)
            try:
                if self._is_inside(folder):
                    for each in (path, f"{folder}/.{name}.part"):
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(each)  # noqa: PTH108
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                with refusals_of(path):
                    raise

    def children(self, folder: str) -> list[str]:
        """Return the names of folders below a folder, or of the store itself if it is ``""``."""
        path = self._path(folder) if folder else self.store
        with os.scandir(path) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())

    def sync(self) -> None:
        """Force files that were put to disk, and move staged files into place."""
        self.swap_all(())

    @contextmanager
    def writer(self, doing: str) -> Iterator[_LocalClaim]:
        """Hold the lock of the store; raise `TargetError` if another process holds it."""
        folder = Path(self.store) / CLAIM
        for _ in range(100):
            try:
                folder.mkdir(exist_ok=True)
                if folder.is_symlink():
                    raise TargetError(f"{folder} is a link and was not made by cfagg; remove it")
                file, held = lock(folder / "lock")
            except FileNotFoundError:
                continue  # its holder has just finished and removed it
            except OSError:
                with refusals_to_hold(folder, Path(self.store)):
                    raise
            if held is not False:
                break
            file.close()
            if (folder / "lock").exists():
                raise TargetError(f"{self.store}: another process is {doing} there; wait for it, or stop it")
        else:
            raise TargetError(f"{folder} was removed by other processes each time; run again")
        claim = _LocalClaim(folder)
        try:
            yield claim
        finally:
            self._staged.drop()
            claim.leave()
            release(file)

    # ----

    def _path(self, key: str) -> str:
        return f"{self.store}/{check_key(self.store, key)}"

    def _make_folder(self, folder: str) -> None:
        """Make a folder in the store and its parents, none of which may be behind a link out of the store."""
        if folder == self.store or folder in self._folders:
            return
        above = os.path.dirname(folder)  # noqa: PTH120
        self._make_folder(above)
        try:
            os.mkdir(folder)  # noqa: PTH102
        except FileExistsError:
            # A folder that was made here, inside another of the store, is not a link.
            if not self._is_inside(folder):
                raise TargetError(
                    f"{folder} is, or goes through, a link out of the store {self.store}; nothing is written there"
                ) from None
            made = False
        else:
            made = True
        with self._lock:
            if made:
                self._made.add(above)
            if len(self._folders) >= _MOST_FOLDERS:
                # Forget the oldest half: folders that chunks are written to are in the other half, or are found again.
                self._folders = dict.fromkeys(islice(self._folders, _MOST_FOLDERS // 2, None))
            self._folders[folder] = None

    def _is_inside(self, folder: str) -> bool:
        """Return whether a folder is inside the store, not reached by a link out of it."""
        real = os.path.realpath(folder)
        return real == self.store or real.startswith(f"{self.store.rstrip('/')}/")


class _LocalClaim:
    """The lock of a store, and the record of its writer."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._intent = folder, folder / "intent"
        self._done = False
        try:
            self.left: bytes | None = read_own(self._intent)
        except FileNotFoundError:
            self.left = None
        except OSError as error:
            raise self._failed("looked into", error) from error

    def record(self, intent: bytes) -> None:
        """Record what is about to be done."""
        try:
            write_synced(self._intent, intent)
            sync_directory(self._folder.parent)
        except OSError as error:
            raise self._failed("written", error) from error

    def forget(self) -> None:
        """Remove the record; if that fails, the next writer finds that the work was completed."""
        with contextlib.suppress(OSError):
            self._intent.unlink(missing_ok=True)
        self.left, self._done = None, True

    def leave(self) -> None:
        """Remove the folder, unless it contains a record that still needs attention."""
        if not self._done and self._intent.exists():
            return
        try:
            for name in ("intent", ".intent.part", "lock"):
                (self._folder / name).unlink(missing_ok=True)
            self._folder.rmdir()
        except OSError as error:
            if self._done:
                warnings.warn(
                    f"{self._folder.parent} is complete, but {self._folder} could not be removed "
                    f"({error.strerror or error}); the next run will remove it",
                    LeftoverWarning,
                    stacklevel=4,
                )

    def _failed(self, what: str, error: OSError) -> TargetError:
        store = self._folder.parent
        return TargetError(f"{store} cannot be {what}: {reason(error, store)}")


@contextmanager
def _dropping(staged: Staged) -> Iterator[Staged]:
    """Leave no files beside those that were to be replaced."""
    try:
        yield staged
    finally:
        staged.drop()


def _tag(status: os.stat_result) -> tuple[int, ...]:
    # A rename changes only the time of change in these.
    return status.st_ino, status.st_size, status.st_mtime_ns
