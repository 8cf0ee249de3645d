"""Single files that appear completely or not at all."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from cfagg.errors import LeftoverWarning, TargetError
from cfagg.runtime.publishing import opened, put_back, refusals_of, remove, replace_file, sync_directory, write_all
from cfagg.runtime.staging import lock, release

__all__ = ["NewFolder", "check_file", "remove_dead", "write_aside", "write_new", "write_whole", "written_aside"]

#: Names of files in the directory of a single output.
_OURS = frozenset({"lock", "file", "former"})

#: Flags for creating a file that must not exist yet.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def check_file(path: Path) -> None:
    """Refuse a path at which no file can be put, before work begins; a pipe or device is not replaced."""
    with refusals_of(path):  # its directory may be unreadable
        if path.is_dir():
            raise TargetError(f"{path} is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise TargetError(f"{path} cannot be written: there is no directory {path.parent}")
    if os.path.exists(path) and not path.is_file():  # noqa: PTH110 - Path raises where it may not be looked for
        raise TargetError(f"{path} is a FIFO or a device, not a regular file; give another name")


@contextmanager
def written_aside(target: Path, *, create: bool = False) -> Iterator[Path]:
    """Give the path of a new file that replaces `target` when the block ends without an error.

    With `create`, `FileExistsError` is raised if there is a target by then. The file has the default permissions of new
    files.  Leftovers of killed processes for the same target are removed.
    """
    folder = NewFolder(target)
    try:
        made = folder.path / f"file{target.suffix}"
        yield made
        replace_file(made, target, create=create)
    except BaseException:
        folder.remove(done=False)
        raise
    folder.remove(done=True)


def write_aside(target: Path, data: bytes) -> None:
    """Write a file so that it appears completely or not at all; a pipe or device is written to directly."""
    if os.path.exists(target) and not os.path.isfile(target) and not os.path.isdir(target):  # noqa: PTH110, PTH112, PTH113
        target.write_bytes(data)
        return
    with written_aside(target) as made:
        made.write_bytes(data)


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write a file of a directory that is being built, so that it appears completely or not at all.

    It is not forced to disk; that is done for all files at once when the directory is published.  A link at its path is
    replaced, and a link at the path of the partial file is not followed.
    """
    # Only one process builds a directory at a time; with this name, the next one reuses a killed one's partial file.
    part = path.with_name(f".{path.name}.part")
    try:
        with opened(part, "wb") as file:
            write_all(file, data)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_new(path: str, data: bytes | memoryview) -> None:
    """Write a file that readers do not use yet and that probably does not exist; if killed, it may be incomplete.

    If the file, or a link, exists, it is replaced by a complete file.
    """
    try:
        file = os.open(path, _NEW, 0o666)
    except FileExistsError:
        write_whole(Path(path), data)
        return
    try:
        left = memoryview(data)
        while left.nbytes:
            left = left[os.write(file, left) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        raise
    finally:
        os.close(file)


class NewFolder:
    """A new directory beside a target, for a ``file…`` that will replace it; with `inside`, in it, for files of it.

    It is locked until it is removed, so that other processes can see whether its creator is still alive.  Directories
    for the same target whose creators are dead are removed.  `inside` is the prefix of the names of those in a target.
    """

    def __init__(self, target: Path, inside: str | None = None) -> None:
        self.target = target
        home, stem = (target.parent, _stem(target)) if inside is None else (target, inside)
        _remove_dead(home, stem, target)
        self.path, self._held = _claimed(home, stem)

    def remove(self, *, done: bool) -> None:
        """Remove it; if that fails, warn if the target is `done`, and otherwise ignore it."""
        error = None if self._held.closed else _removed(self.path, self.target)
        release(self._held)
        if isinstance(error, FileNotFoundError) and not os.path.lexists(self.path):
            # Before it was locked, another process took it for that of a dead one and removed it.
            return
        if error is not None and done:
            warnings.warn(
                f"{self.target} is complete, but {self.path} could not be removed ({error.strerror or error}); the "
                "next run removes it",
                LeftoverWarning,
                stacklevel=4,
            )


def remove_dead(target: Path) -> None:
    """Remove the leftovers of killed processes that were writing a target, but not those of living ones."""
    _remove_dead(target.parent, _stem(target), target)


def _remove_dead(home: Path, stem: str, target: Path) -> None:
    for left in home.glob(f"{glob.escape(stem)}*"):
        _sweep(left, target)


def _stem(target: Path) -> str:
    """Return the prefix of the names of directories in which a target is written."""
    return f".{_clipped(target.name)}.cfagg-new-"


def _clipped(name: str) -> str:
    """Return a name short enough for additions; systems allow 255 bytes."""
    raw = os.fsencode(name)
    if len(raw) <= 150:
        return name
    return os.fsdecode(raw[:100]).encode("utf-8", "ignore").decode() + hashlib.sha256(raw).hexdigest()[:16]


def _claimed(home: Path, stem: str) -> tuple[Path, FileIO]:
    """Create a directory and lock it."""
    for _ in range(100):
        folder = home / f"{stem}{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir()
        try:
            file, held = lock(folder / "lock")
        except FileNotFoundError:
            # Another process took it for that of a dead one before it was locked.
            continue
        except BaseException:
            with contextlib.suppress(OSError):
                remove(folder)
            raise
        if held is not False:
            return folder, file
        file.close()
    raise TargetError(f"no directory could be created in {home}: other processes removed it every time; run again")


def _sweep(left: Path, target: Path) -> None:
    """Remove a directory whose creator is dead."""
    try:
        if left.is_symlink() or not left.is_dir() or not all(p.name.split(".")[0] in _OURS for p in left.iterdir()):
            return
        file, held = _lock_of(left)
        with file:
            if held:
                _removed(left, target)
    except OSError:
        # Another process was faster, or only its owner may remove it.
        return


def _lock_of(left: Path) -> tuple[FileIO, bool | None]:
    """Return the lock of a directory, as `lock` does, after an attempt to remove a directory without a lock file."""
    with contextlib.suppress(FileNotFoundError):
        return lock(left / "lock", create=False)
    with contextlib.suppress(OSError):
        # Not locked yet, or empty except for its removed lock; its creator copes with either.
        left.rmdir()
    # Otherwise a power failure kept its files but not the name of the lock; or its creator has just locked it, and then
    # this lock is not acquired.
    return lock(left / "lock")


def _removed(folder: Path, target: Path) -> OSError | None:
    """Remove a directory, its lock last; return the error that prevented it."""
    try:
        if folder.parent == target:
            # Workers of its creator may still write here; from now on they cannot.
            folder = folder.rename(folder.with_name(f"{folder.name}-gone"))
        put_back(folder / "former", target)
        # The replaced file is needed until the replacement is on disk.
        sync_directory(target.parent)
        for path in folder.iterdir():
            if path.name != "lock":
                remove(path)
        (folder / "lock").unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        return error
    return None
