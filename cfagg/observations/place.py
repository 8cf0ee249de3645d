"""The place where a store of observations is built: ``work/`` (rows, entries and statistics of parts) and ``store/``.

The target is a whole store or none at any moment; where the system can exchange two directories, one that is replaced
is there until the new one is.
"""

from __future__ import annotations

import os

from cfagg.errors import TargetExistsError
from cfagg.runtime.workplace import Workplace

__all__ = ["Place"]


class Place(Workplace):
    """A locked work directory for a store of observations; see `cfagg.runtime.workplace.Workplace`."""

    names = frozenset({"journal", "work"})
    doing = "building the same store"

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        super().__init__(target, overwrite=overwrite, resume=resume)
        self.work = self.root / "work"

    @property
    def unfinished(self) -> bool:
        """Whether a part was read here by a build that can be finished."""
        return not self.published and self.journal.exists() and any(self.root.glob("work/part-*.json"))

    def check_unfinished(self) -> None:
        """Refuse to throw away what an earlier build has achieved."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished build of {self.target} is there; finish it with resume=True (--resume) or start again "
                "with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove what an earlier build left."""
        super().start_anew()
        self.work.mkdir()

    def abandon(self) -> None:
        """Remove everything and let go of the lock; nothing is kept for a later build."""
        if self.published:
            # It may not be on disk that it is in its place; what it replaced stays.
            self.leave()
        else:
            self.remove()
