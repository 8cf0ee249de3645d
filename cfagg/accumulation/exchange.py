"""The place beside a store where an accumulation group is built, and its way into the store.

::

    .STORE.VARIABLE.cfagg-accumulation/
        lock       held while a process works here
        identity   what is being built
        records    what is known of every chunk that was read
        scratch/   partial sums
        group/     the group; after the exchange the one that it replaced
        done       which directory is the new group; written before the exchange
        old/       the group that is being replaced, where two directories cannot be exchanged at once

A directory that is exchanged is whole before and after: a reader sees the old group or the new one, never a part.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO

from cfagg.errors import TargetError
from cfagg.workdir import exchange, locked, reason, sync_directory

__all__ = ["Workshop"]

_OURS = frozenset({"lock", "identity", "records", "scratch", "group", "done", "old"})


class Workshop:
    """A locked work directory for the accumulation of one array.

    Parameters
    ----------
    store : path
        The store; links are resolved.
    variable : str
        Path of the array within it.
    target : path
        Where the group is to be.
    """

    def __init__(self, store: str | os.PathLike[str], variable: str, target: str | os.PathLike[str]) -> None:
        home = Path(os.path.realpath(store))
        self.target = Path(os.path.realpath(target))
        self.root = home.with_name(f".{home.name}.{variable.replace('/', '.')}.cfagg-accumulation")
        self.group, self.scratch = self.root / "group", self.root / "scratch"
        self._old, self._done = self.root / "old", self.root / "done"
        self._lock: IO[bytes] | None = None
        self.finished = False

    def enter(self) -> None:
        """Create the directory and lock it; tidy what a killed process left of an exchange.

        Afterwards `finished` says whether a killed process had put its group in place.

        Raises
        ------
        TargetError
            It cannot be written, is not ours, or another process is at work.
        """
        try:
            if os.path.lexists(self.root) and not self._is_ours():
                raise TargetError(f"{self.root} is in the way and was not made by cfagg; remove it")
            self.root.mkdir(exist_ok=True)
            self._lock = locked(self.root / "lock", "accumulating the same array")
            if self.root.stat().st_dev != self.target.parent.stat().st_dev:
                raise TargetError(
                    f"{self.target.parent} and {self.root.parent} are on different file systems, so that a group built "
                    "beside the store cannot be moved into it at once; build the accumulation of a copy of the store"
                )
            if self._old.exists():
                # The exchange was cut short: the old group is put back, unless the new one is in its place already.
                if os.path.lexists(self.target):
                    shutil.rmtree(self._old)
                else:
                    self._old.rename(self.target)
            self.finished = self._is_published()
            if self.finished:
                self.clear()
        except OSError as error:
            self.leave(tidy=True)
            if isinstance(error, TargetError):
                raise
            raise TargetError(f"{self.target} cannot be written: {reason(error)}") from error

    @property
    def unfinished(self) -> bool:
        """Whether chunks were read here by a build that can be finished."""
        records = self.root / "records"
        return (self.root / "identity").exists() and records.exists() and records.stat().st_size > 0

    def start_anew(self) -> None:
        """Remove what an earlier build left."""
        self.clear()
        self.scratch.mkdir()

    def start_group(self) -> None:
        """Make an empty directory for the new group."""
        self._done.unlink(missing_ok=True)
        if self.group.exists():
            shutil.rmtree(self.group)
        self.group.mkdir()

    def publish(self) -> None:
        """Put the finished group in its place, at once; what was there stays until then.

        Raises
        ------
        TargetError
            Something that is no group is in the way.
        """
        sync_directory(self.group)
        self._done.write_text(str(self.group.stat().st_ino), encoding="ascii")
        sync_directory(self.root)
        if not os.path.lexists(self.target):
            self.group.rename(self.target)
        elif not self.target.is_dir() or self.target.is_symlink():
            raise TargetError(f"{self.target} is not a directory and is not replaced; remove it")
        elif not exchange(self.group, self.target):
            self.target.rename(self._old)
            self.group.rename(self.target)
        sync_directory(self.target.parent)

    def clear(self) -> None:
        """Remove everything but the lock; the mark of a published group last, so that this can be repeated."""
        for path in (self.root / "identity", self.root / "records", *self.root.glob(".identity.*.part")):
            path.unlink(missing_ok=True)
        for path in (self.scratch, self.group, self._old):
            if path.exists():
                shutil.rmtree(path)
        self._done.unlink(missing_ok=True)

    def leave(self, *, tidy: bool = False) -> None:
        """Let go of the lock; remove the directory where nothing of use is in it."""
        if self._lock is None:
            return
        if tidy and not self.unfinished:
            try:
                self.clear()
                (self.root / "lock").unlink(missing_ok=True)
                self.root.rmdir()
            except OSError:
                # What cannot be removed now is used again, or removed, by the next build.
                self._lock.close()
                self._lock = None
                return
        self._lock.close()
        self._lock = None

    def _is_published(self) -> bool:
        """Whether the new group is in its place: then another directory, or none, is where it was built."""
        try:
            number = int(self._done.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return False
        here = self.group.stat().st_ino if self.group.exists() else None
        there = self.target.stat().st_ino if self.target.exists() else None
        return number == there and number != here

    def _is_ours(self) -> bool:
        names = {p.name for p in self.root.iterdir()} if self.root.is_dir() and not self.root.is_symlink() else {"?"}
        return all(n in _OURS or (n.startswith(".identity.") and n.endswith(".part")) for n in names)
