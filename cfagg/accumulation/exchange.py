"""The place where an accumulation group is built, and its way into the store.

::

    .STORE.VARIABLE.cfagg-accumulation/      beside the store; `.cfagg-accumulation.VARIABLE` within one that is mounted
                                             or beside which nothing can be made
        identity   what is being built
        records    what is known of every chunk that was read
        scratch/   partial sums
        group/     the group; after the exchange the one that it replaced
        ...        as in `cfagg.runtime.staging.Staging`

A directory that is exchanged is whole before and after: a reader sees the old group or the new one, never a part.
"""

from __future__ import annotations

import os
from pathlib import Path

from cfagg.errors import TargetError
from cfagg.runtime.publishing import reason, remove
from cfagg.runtime.staging import Staging, renames_into

__all__ = ["Workshop"]


class Workshop(Staging):
    """A locked work directory for the accumulation of one array of a store, whose links are resolved."""

    def __init__(self, store: str | os.PathLike[str], variable: str, target: str | os.PathLike[str]) -> None:
        home, place = Path(os.path.realpath(store)), Path(os.path.realpath(target))
        name = variable.replace("/", ".")
        root, inside = home.with_name(f".{home.name}.{name}.cfagg-accumulation"), home / f".cfagg-accumulation.{name}"
        if inside.is_dir() or not (root.exists() or renames_into(home.parent, place.parent)):
            root = inside
        names = frozenset({"identity", "records", "scratch"})
        super().__init__(place, root, "group", names, "accumulating the same array")
        self.group, self.scratch = self.product, self.root / "scratch"

    def enter(self) -> None:
        """Make the directory and lock it; tidy what a killed process left of an exchange."""
        self.hold()
        try:
            if self.published:
                self.settle()
        except OSError as error:
            self.leave()
            raise TargetError(f"{self.target} cannot be written: {reason(error, self.target)}") from error

    @property
    def unfinished(self) -> bool:
        """Whether chunks were read here by a build that can be finished."""
        records = self.root / "records"
        there = (self.root / "identity").exists() and records.exists() and records.stat().st_size > 0
        return there and not self.published

    def start_anew(self) -> None:
        """Remove what an earlier build left."""
        super().start_anew()
        self.scratch.mkdir()

    def start_group(self) -> None:
        """Make an empty directory for the new group."""
        self._done.unlink(missing_ok=True)
        remove(self.group)
        self.group.mkdir()

    def publish(self) -> None:
        """Put the finished group in its place, at once; what was there stays until then."""
        if os.path.lexists(self.target) and (not self.target.is_dir() or self.target.is_symlink()):
            raise TargetError(f"{self.target} is not a directory, so it is not replaced; remove it")
        self.put_in_place()

    def remove_unless_unfinished(self) -> None:
        """Remove the directory after work that is done, unless a build can be finished; a failure is a warning."""
        if self.unfinished:
            self.leave()
        else:
            self.remove_after()

    def tidy(self) -> None:
        """Remove the directory where nothing of use is in it, and let go of the lock."""
        try:
            if self._lock is not None and not self.unfinished and not self.published:
                self.remove()
        except OSError:
            # What cannot be removed now is used again, or removed, by the next build.
            pass
        self.leave()
