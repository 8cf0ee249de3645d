"""The place beside the target where a store is built, and its way into the target's place.

::

    .NAME.cfagg-partial/
        lock       held while a process works here
        journal    what is done
        store/     the store being built; its metadata is written last
        old/       the store that is being replaced, for the moment of the exchange

The directory itself never is a Zarr store, and `store/` is none until everything in it is complete.
"""

from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path
from typing import IO

from cfagg.errors import TargetError, TargetExistsError, UnsupportedError
from cfagg.workdir import locked, reason, sync_directory

__all__ = ["Workplace"]

_STORE_FILES = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_OURS = frozenset({"lock", "journal", "store", "old"})


class Workplace:
    """A locked work directory for one target.

    Parameters
    ----------
    target : path
        Where the store is to be; links are resolved.
    overwrite : bool
        Whether an existing Zarr store, or an unfinished conversion, may be replaced.
    resume : bool
        Whether a conversion that was cut short after its store was put in place counts as this one.

    Raises
    ------
    TargetExistsError
        If the target exists and may not be replaced.
    TargetError
        If it cannot be written, is no Zarr store, or another process is at work.
    """

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        name = os.fspath(target)
        if "://" in name:
            raise UnsupportedError(f"{name} is a URL; a store is written to a local directory: name one")
        self.target = Path(os.path.realpath(name))
        # An empty name is the working directory to the system: a variable of a script that was not set.
        if not name or not self.target.name:
            raise TargetError(f"{name!r} cannot be the target; name a directory for the store")
        self.root = self.target.with_name(f".{self.target.name}.cfagg-partial")
        self.store = self.root / "store"
        self.journal = self.root / "journal"
        self._old = self.root / "old"
        self._overwrite, self._resume = overwrite, resume
        self._lock: IO[bytes] | None = None
        if not self.target.parent.is_dir():
            raise TargetError(f"{name} cannot be written: there is no directory {self.target.parent}; create it first")
        self.check_target()

    def check_target(self) -> None:
        """Refuse a target that exists and may not be replaced."""
        if not os.path.lexists(self.target) or (self._resume and self.finished):
            return
        if not self._overwrite:
            raise TargetExistsError(
                f"{self.target} exists; choose another name or replace it with overwrite=True (--overwrite)"
            )
        if not self.target.is_dir():
            raise TargetError(f"{self.target} is not a directory and is not replaced; choose another name or remove it")
        inside = {p.name for p in self.target.iterdir()}
        if inside and inside.isdisjoint(_STORE_FILES):
            raise TargetError(
                f"{self.target} is not a Zarr store and is not replaced; choose another name or remove it"
            )

    def enter(self) -> None:
        """Create the directory and lock it; finish what a killed process left half exchanged."""
        try:
            if os.path.lexists(self.root) and not self._is_ours():
                raise TargetError(f"{self.root} is in the way and was not made by cfagg; remove it")
            self.root.mkdir(exist_ok=True)
            self._lock = locked(self.root / "lock", "converting to the same target")
            if self._old.exists():
                # The exchange was cut short: the old store is back in its place, or the new one already is.
                if os.path.lexists(self.target):
                    shutil.rmtree(self._old)
                else:
                    self._old.rename(self.target)
        except OSError as error:
            self.leave()
            if isinstance(error, TargetError):
                raise
            raise TargetError(f"{self.target} cannot be written: {reason(error)}") from error
        try:
            self.check_target()
        except OSError:
            self.leave()
            raise

    @property
    def unfinished(self) -> bool:
        """Whether chunks were written here by a conversion that can be finished."""
        if not (self.journal.exists() and self.store.exists()):
            return False
        with self.journal.open("rb") as file:
            return sum(1 for _ in islice((line for line in file if line.endswith(b"\n")), 2)) == 2

    @property
    def finished(self) -> bool:
        """Whether the store is in the target's place already, and only this directory was left to be removed."""
        return self.journal.exists() and not self.store.exists() and not self._old.exists() and self.target.exists()

    def check_unfinished(self) -> None:
        """Refuse to throw away what an earlier conversion has achieved."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished conversion to {self.target} is there ({self.root}); "
                "finish it with resume=True (--resume) or start anew with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove what an earlier conversion left."""
        self.journal.unlink(missing_ok=True)
        if self.store.exists():
            shutil.rmtree(self.store)
        self.store.mkdir()

    def publish(self) -> None:
        """Put the finished store in the target's place; what was there stays until then."""
        self.check_target()
        sync_directory(self.store)
        if self.target.exists():
            self.target.rename(self._old)
        self.store.rename(self.target)
        sync_directory(self.target.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the work directory."""
        for path in (self.store, self._old):
            if path.exists():
                shutil.rmtree(path)
        self.journal.unlink(missing_ok=True)
        (self.root / "lock").unlink(missing_ok=True)
        self.root.rmdir()
        self.leave()

    def leave(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _is_ours(self) -> bool:
        return self.root.is_dir() and not self.root.is_symlink() and {p.name for p in self.root.iterdir()} <= _OURS
