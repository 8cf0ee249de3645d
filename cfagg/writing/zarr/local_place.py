"""Writing to a store in a directory of this machine, under a lock that dies with its process."""

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

__all__ = ["CLAIM", "LocalPlace"]

#: What stands in a store while it is written to, and after a writer was killed.
CLAIM = ".cfagg-append"

#: Folders that are remembered to be there.
_MOST_FOLDERS = 10_000


class LocalPlace:
    """A store in a directory, whose path has no links."""

    remote = False

    def __init__(self, store: str) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._folders: dict[str, None] = {}  # those that are there, and not behind a link out of it
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
        """Return what is stored and a tag that tells its state, `None` where there is nothing."""
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
        """Write a new file, or one that may replace another: that is on disk before it is renamed."""
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
        """Write a file that takes the place of another with the next `sync`."""
        path = self._path(key)
        with refusals_of(path):
            self._make_folder(os.path.dirname(path))  # noqa: PTH120
            self._staged.add(path, data)

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Write files that take the places of others together with the next `sync`; none of them where one fails."""
        try:
            for key, data in objects.items():
                self.stage(key, data)
        except BaseException:
            self._staged.drop()
            raise

    def put_by_way_of(self, folder: Path, key: str, data: Any) -> None:
        """Write a file in another folder of the file system, and rename it: several may write the same one."""
        path = self._path(key)
        if not folder.is_dir():
            raise TargetError(
                f"{path}: a Dask worker does not find {folder}, or the run has ended; workers must reach the target's "
                "file system by the same path"
            )
        with refusals_of(path):
            self._make_folder(os.path.dirname(path))  # noqa: PTH120
            part = folder / uuid.uuid4().hex
            with opened(part, "wb") as file:
                write_all(file, data)
            replace_file(part, Path(path))

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Write a file that is in the state of a tag; it is on disk when this returns."""
        return self.swap_all([(key, data, tag)])[0]

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Write files, each in the state of a tag, and the last one once all else is on disk; so it is on return.

        The disk is waited for four times, however many files there are: for the data of all; for the names of what was
        put and staged; for those of what is swapped; and for that of the last one.
        """
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
                # Names of files, then those of new folders above them.
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
        """Remove files, and what is left of them where they were not whole yet."""
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
        """Return the names of folders below a folder, ``""`` for the store itself."""
        path = self._path(folder) if folder else self.store
        with os.scandir(path) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())

    def sync(self) -> None:
        """Force what was put to disk, and put there what was staged."""
        self.swap_all(())

    @contextmanager
    def writer(self, doing: str) -> Iterator[_LocalClaim]:
        """Hold the lock of the store; `TargetError` where another process has it."""
        folder = Path(self.store) / CLAIM
        for _ in range(100):
            try:
                folder.mkdir(exist_ok=True)
                if folder.is_symlink():
                    raise TargetError(f"{folder} is a link and was not made by cfagg; remove it")
                file, held = lock(folder / "lock")
            except FileNotFoundError:
                continue  # whoever held it has just finished, and removed it
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
        """Make a folder in the store, with those above it, of which none may be behind a link out of it."""
        if folder == self.store or folder in self._folders:
            return
        above = os.path.dirname(folder)  # noqa: PTH120
        self._make_folder(above)
        try:
            os.mkdir(folder)  # noqa: PTH102
        except FileExistsError:
            # One that was made here, in a folder that is inside, is no link.
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
                # The oldest half: what chunks are written into is among the others, or is found again.
                self._folders = dict.fromkeys(islice(self._folders, _MOST_FOLDERS // 2, None))
            self._folders[folder] = None

    def _is_inside(self, folder: str) -> bool:
        """Return whether a folder is in the store, where no link leads out of it."""
        real = os.path.realpath(folder)
        return real == self.store or real.startswith(f"{self.store.rstrip('/')}/")


class _LocalClaim:
    """The lock of a store, and what its writer has recorded."""

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
        """Forget it; where that fails, the next writer finds that it was done."""
        with contextlib.suppress(OSError):
            self._intent.unlink(missing_ok=True)
        self.left, self._done = None, True

    def leave(self) -> None:
        """Remove the folder, where nothing is recorded that is still to be looked at."""
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
    """Leave nothing beside the files that were to be replaced."""
    try:
        yield staged
    finally:
        staged.drop()


def _tag(status: os.stat_result) -> tuple[int, ...]:
    # A rename changes the time of change, and nothing else of these.
    return status.st_ino, status.st_size, status.st_mtime_ns
