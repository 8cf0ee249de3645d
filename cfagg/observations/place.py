"""The place beside the target where a store of observations is built, and its way into the target's place.

::

    .NAME.cfagg-partial/
        lock       held while a process works here
        journal    what is being built
        work/      sorted rows, entries of the index and statistics of parts that are done
        store/     the store being built; its metadata are written last
        done       which directory is the new store; written before it is put in place
        old/       the store that is being replaced, where two directories cannot be exchanged at once

The target is a whole store or none at any moment; where the system can exchange two directories, one that is replaced
is there until the new one is.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cfagg.conversion.workplace import Workplace
from cfagg.errors import TargetExistsError
from cfagg.workdir import exchange, sync_directory

__all__ = ["Place"]

_OURS = frozenset({"lock", "journal", "work", "store", "done", "old"})


class Place(Workplace):
    """A locked work directory for a store of observations; see `cfagg.conversion.workplace.Workplace`.

    Parameters
    ----------
    target : path
        Where the store is to be; links are resolved.
    overwrite : bool
        Whether an existing store, or an unfinished build, may be replaced.
    resume : bool
        Whether a build that was cut short after its store was put in place counts as this one.
    """

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        name = os.path.basename(os.path.realpath(os.fspath(target)))  # noqa: PTH119
        folder = Path(os.path.realpath(os.fspath(target))).with_name(f".{name}.cfagg-partial") if name else Path()
        self.work, self._done, self._old = folder / "work", folder / "done", folder / "old"
        super().__init__(target, overwrite=overwrite, resume=resume)

    @property
    def unfinished(self) -> bool:
        """Whether a part was read here by a build that can be finished."""
        return self.journal.exists() and self.work.exists() and any(self.work.glob("part-*.json"))

    def check_unfinished(self) -> None:
        """Refuse to throw away what an earlier build has achieved."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished build of {self.target} is there ({self.root}); finish it with resume=True (--resume) "
                "or start anew with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove what an earlier build left."""
        for path in (self.journal, self._done):
            path.unlink(missing_ok=True)
        for path in (self.work, self.store):
            if path.exists():
                shutil.rmtree(path)
            path.mkdir()

    @property
    def finished(self) -> bool:
        """Whether the new store is in the target's place already, and only this directory was left to be removed."""
        try:
            number = int(self._done.read_text(encoding="ascii"))
            return self.journal.exists() and number == self.target.stat().st_ino
        except (FileNotFoundError, ValueError):
            return False

    def publish(self) -> None:
        """Put the finished store in the target's place; what was there stays until then."""
        self.check_target()
        self._done.write_text(str(self.store.stat().st_ino), encoding="ascii")
        sync_directory(self.store)
        sync_directory(self.root)
        if not self.target.exists():
            self.store.rename(self.target)
        elif not exchange(self.store, self.target):
            self.target.rename(self._old)
            self.store.rename(self.target)
        sync_directory(self.target.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the work directory, what tells that the store is in its place last."""
        for path in (self.work, self.store, self._old):
            if path.exists():
                shutil.rmtree(path)
        for path in (self._done, *self.root.glob(".journal.*.part")):
            path.unlink(missing_ok=True)
        super().remove()

    def abandon(self) -> None:
        """Remove everything and let go of the lock; nothing is kept for a later build."""
        self.journal.unlink(missing_ok=True)
        self.remove()

    def _is_ours(self) -> bool:
        root = self.root
        return root.is_dir() and not root.is_symlink() and all(_is_our_name(p.name) for p in root.iterdir())


def _is_our_name(name: str) -> bool:
    return name in _OURS or (name.startswith(".journal.") and name.endswith(".part"))
