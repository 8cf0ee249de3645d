"""Work directories: where a product is built before it is put in place, and how leftovers of killed runs are handled.

A work directory is locked while a process works in it.  A free lock shows that its creator is gone.  The directory is
beside the target, or within it if nothing can be created in the parent directory or that is another file system.

*staging*: building something in a work directory beside its target, so that it appears there whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from cfagg.errors import CfaggError, TargetError
from cfagg.runtime.publishing import (
    discard,
    opened,
    put,
    read_own,
    refusals_of,
    remove,
    sync_directory,
    sync_file,
    sync_tree,
    write_all,
)

__all__ = [
    "Staging",
    "has_locks",
    "is_known",
    "is_replaceable",
    "lock",
    "locked",
    "refusals_to_hold",
    "release",
    "renames_into",
]

#: Errors of a file system without locks, such as some of clusters.
_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL})


#: The documents that make a directory a Zarr store, the decisive ones last.
_DOCUMENTS = (".zattrs", ".zmetadata", ".zarray", ".zgroup", "zarr.json")


def locked(path: Path, doing: str) -> FileIO:
    """Return a file that is locked while it is open; `TargetError` if another process is `doing` the same."""
    file, held = lock(path)
    if held is False:
        file.close()
        raise TargetError(f"another process is {doing}; wait for it, or stop it")
    return file


def lock(path: Path, *, create: bool = True) -> tuple[FileIO, bool | None]:
    """Return an open file, created if `create`, and whether it was locked; `None` if the file system has no locks."""
    file = opened(path, "ab" if create else "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it may just have finished and removed it.
        return file, path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())
    except BlockingIOError:
        return file, False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return file, None
        file.close()
        raise


@contextlib.contextmanager
def refusals_to_hold(root: Path, target: Path) -> Iterator[None]:
    """Convert errors of the system to the error that the target cannot be written, naming the owner of `root`."""
    with refusals_of(target):
        try:
            yield
        except PermissionError as error:
            if isinstance(error, CfaggError) or not _is_foreign(root):
                raise
            whose = "was made by another user; wait until they have finished, or ask them to remove it"
            raise TargetError(f"{target} cannot be written: {root} {whose}") from error


def _is_foreign(root: Path) -> bool:
    """Return whether a work directory, or its lock, belongs to another user."""
    for path in (root / "lock", root):
        with contextlib.suppress(OSError):
            return path.lstat().st_uid != os.geteuid()
    return False


def _is_planted(root: Path) -> bool:
    """Return whether a directory was made by another user in one to which all users may write, such as ``/tmp``.

    Our own stays ours there: the sticky bit lets only its owner rename it.
    """
    if os.name != "posix" or root.lstat().st_uid == os.geteuid():
        return False
    open_to_all = stat.S_IWOTH | stat.S_ISVTX
    return root.parent.stat().st_mode & open_to_all == open_to_all


def has_locks(folder: Path) -> bool:
    """Return whether the file system of a directory has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    finally:
        os.close(handle)
    return True


def release(held: FileIO) -> None:
    """Close a locked file; nothing was written to it, so errors of the system do no harm."""
    with contextlib.suppress(OSError):
        held.close()


def is_replaceable(path: Path) -> bool:
    """Return whether a directory created beside `path` can replace it by a rename, as it cannot a mount point."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return False
    try:
        here, above = path.lstat(), path.parent.stat()
    except FileNotFoundError:
        return True
    if above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, here.st_uid, above.st_uid):
        return False
    return not is_mounted(path)


def renames_into(folder: Path, into: Path) -> bool:
    """Return whether entries of a directory can be moved by a rename into another one, at or below it."""
    if not os.access(folder, os.W_OK | os.X_OK) or folder.stat().st_dev != into.stat().st_dev:
        return False
    return not any(is_mounted(p) for p in (into, *into.parents) if p != folder and p.is_relative_to(folder))


def is_mounted(path: Path) -> bool:
    """Return whether something is mounted at a path, even another directory of the same file system."""
    if path.is_mount():
        return True
    try:
        table = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    name = os.fsencode(path).replace(b"\\", b"\\134").replace(b" ", b"\\040").replace(b"\t", b"\\011")
    return any(line.split(b" ", 5)[4] == name.replace(b"\n", b"\\012") for line in table)


class Staging:
    """A locked work directory in which a directory is built that will take the place of a target.

    ::

        ROOT/
            lock       locked while a process works here
            PRODUCT/   the product; after an exchange, the directory that it replaced
            done       identifies the new directory; on disk before it is put in place
            old/       the replaced directory, if two directories cannot be exchanged atomically
            former/    the same, if the contents of the target are moved one by one

    `own` lists further names that cfagg uses in `root`.
    """

    def __init__(self, target: Path, root: Path, product: str, own: frozenset[str], doing: str) -> None:
        self.target, self.root = target, root
        self.product = root / product
        self._old, self._done = root / "old", root / "done"
        self._own = own | {"lock", product, "done", "old", "former"}
        self._doing = doing
        self._lock: FileIO | None = None
        self._anew = False

    def hold(self) -> None:
        """Create the directory and lock it; complete an exchange that a killed process began."""
        try:
            if os.path.lexists(self.root) and not self._is_ours():
                raise TargetError(f"{self.root} is in the way and was not made by cfagg; remove it")
            for _ in range(100):
                self.root.mkdir(exist_ok=True)
                if _is_planted(self.root):
                    raise TargetError(
                        f"{self.root} was made by another user, who could lead what is written astray; choose a target "
                        "in a directory to which not all users may write, or ask them to remove it"
                    )
                try:
                    self._lock = locked(self.root / "lock", self._doing)
                except FileNotFoundError:
                    # The process that held it has just finished, and removed the directory.
                    continue
                self._recover()
                return
            raise TargetError(f"{self.root} was removed by other processes every time; run again")
        except OSError:
            self.leave()
            with refusals_to_hold(self.root, self.target):
                raise

    def _recover(self) -> None:
        """Restore the former directory if its replacement never arrived, or else remove it."""
        if self.within:
            if self._mark()[0] is not None:
                # Once begun, it can only be continued, because some of the old contents have been moved out.
                self._move_in()
            return
        if not self._old.exists():
            return
        if os.path.lexists(self.target):
            self.settle()
            remove(self._old)
        else:
            self._old.rename(self.target)
            sync_directory(self.target.parent)

    @property
    def within(self) -> bool:
        """Whether this directory is in the target, which cannot be renamed, so that its contents are moved instead."""
        return self.root.parent == self.target

    @property
    def published(self) -> bool:
        """Whether the product is or was in place, so that only this directory remains to be removed."""
        number = self._mark()[0]
        if number is None:
            return False
        return not self.product.exists() or self.product.stat().st_ino != number

    @property
    def in_place(self) -> bool:
        """Whether the target is exactly the product of this directory, unchanged since it was put in place."""
        if self.within:
            return self.published
        try:
            found = self.target.stat()
        except FileNotFoundError:
            return False
        return self.published and self._mark() == (found.st_ino, found.st_mtime_ns)

    def _mark(self) -> tuple[int | None, int | None]:
        """Return inode and modification time of the product that was about to be put in place."""
        try:
            number, changed = read_own(self._done).split()
            return int(number), int(changed)
        except (FileNotFoundError, ValueError):
            return None, None

    def put_in_place(self) -> None:
        """Force the product to disk, and put it in place; the old target remains until then."""
        # Before its mark: a product within the target that has one is moved in after a power loss.
        sync_tree(self.product)
        state = self.product.stat()
        with opened(self._done, "wb") as file:
            write_all(file, f"{state.st_ino} {state.st_mtime_ns}".encode())
            sync_file(file.fileno())
        sync_directory(self.root)
        sync_directory(self.root.parent)
        if self.within:
            self._move_in()
        else:
            put(self.product, self.target, self._old)

    def _move_in(self) -> None:
        """Move the former contents of the target out and the new ones in.

        The documents that make it a store are removed first and added last, so that for a moment there is no store,
        rather than a mixture of two.
        """
        former = self.root / "former"
        if not former.exists():
            self._old.mkdir(exist_ok=True)
            names = {p.name for p in self.target.iterdir()} - {self.root.name}
            for group in ([d for d in reversed(_DOCUMENTS) if d in names], sorted(names.difference(_DOCUMENTS))):
                for name in group:
                    (self.target / name).rename(self._old / name)
                sync_directory(self._old)
                sync_directory(self.target)
            self._old.rename(former)
            sync_directory(self.root)
        if self.product.exists():
            names = {p.name for p in self.product.iterdir()}
            for name in [*sorted(names.difference(_DOCUMENTS)), *(d for d in _DOCUMENTS if d in names)]:
                if name in _DOCUMENTS:
                    sync_directory(self.target)
                (self.product / name).rename(self.target / name)
            sync_directory(self.target)
            self.product.rmdir()
        sync_directory(self.root)

    def settle(self) -> None:
        """Force the directory that a killed process put in place to disk, before the replaced one is removed."""
        sync_directory(self.target.parent)
        sync_directory(self.root)

    def leave(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            release(self._lock)
            self._lock = None

    def start_anew(self) -> None:
        """Remove the leftovers of an earlier run."""
        self.clear()
        self._anew = True

    def take_back(self) -> None:
        """Remove everything since `start_anew`; work of an earlier run that this one continued is kept."""
        if self._anew and not self.published:
            with contextlib.suppress(OSError):
                self.clear()

    def clear(self) -> None:
        """Remove everything except the lock; the mark of a finished product last, so that this can be repeated."""
        last = [self._done, self.root / "lock"]
        for path in sorted(self.root.iterdir()):
            if path not in last:
                remove(path)
        if self._done.exists():
            # The mark is removed after everything else, on disk too.
            sync_directory(self.root)
            self._done.unlink()

    def remove(self) -> None:
        """Remove the directory."""
        self.clear()
        (self.root / "lock").unlink(missing_ok=True)
        self.root.rmdir()
        self.leave()

    @property
    def unfinished(self) -> bool:
        """Whether another run can complete the work done here."""
        return False

    def abandon_if_useless(self) -> None:
        """Remove the directory if nothing in it can be used by another run, and release the lock."""
        try:
            if self._lock is not None and not self.unfinished and not self.published:
                self.remove()
        except OSError:
            # Entries that cannot be removed now are reused or removed by the next run.
            pass
        self.leave()

    def remove_after(self) -> None:
        """Remove the directory of a product that is in place; failures give a warning."""
        discard(self._remains(), self.root, str(self.target))
        self.leave()

    def _remains(self) -> Iterator[Path]:
        """Yield the contents of the directory, in the order in which they can be removed."""
        last = [self.root / "journal", self._done, self.root / "lock"]
        yield from sorted(p for p in self.root.iterdir() if p not in last)
        yield from last

    def _is_ours(self) -> bool:
        if not self.root.is_dir() or self.root.is_symlink():
            return False
        found = list(os.scandir(self.root))
        # A directory that others can write to may contain links and FIFOs; files of the product and of the replaced
        # directory are checked when they are opened.
        built = {self.product.name, "old", "former"}
        return all(e.name in self._own or _is_part(e.name) for e in found) and all(
            e.is_dir(follow_symlinks=False) if e.name in built else _is_plain(e) for e in found
        )


def is_known(look: Callable[[], bool]) -> bool:
    """Return the result of `look`, or False if the system refuses access; used for error messages."""
    try:
        return look()
    except OSError:
        return False


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a regular file, or a directory of nothing but these at any depth."""
    waiting = [entry]
    while waiting:
        one = waiting.pop()
        if one.is_dir(follow_symlinks=False):
            with os.scandir(one) as inside:
                waiting += inside
        elif not one.is_file(follow_symlinks=False):
            return False
    return True


def _is_part(name: str) -> bool:
    """Return whether a name is that of a partial document."""
    return name.startswith(".") and name.endswith(".part")
