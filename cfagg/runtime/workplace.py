"""The place where a store is built, and its way into the target's place.

::

    .NAME.cfagg-partial/      beside the target; `.cfagg-partial` within a target that cannot be renamed
        journal    what is done
        store/     the store being built; its metadata is written last
        aside/     chunks that workers of a cluster are writing
        ...        as in `cfagg.runtime.staging.Staging`

The directory itself never is a Zarr store, and `store/` is none until everything in it is complete.
"""

from __future__ import annotations

import os
from io import BufferedReader
from itertools import islice
from pathlib import Path

from cfagg.errors import TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.runtime.publishing import build_of, name_build, opened, refusals_of
from cfagg.runtime.staging import Staging, is_replaceable
from cfagg.storage.urls import refuse_url

__all__ = ["Workplace"]

_STORE_FILES = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


class Workplace(Staging):
    """A locked work directory for one target, links to which are resolved.

    With `overwrite` an existing Zarr store, or an unfinished conversion, may be replaced; with `resume` one that was
    cut short after its store was put in place counts as this one.
    """

    #: Names of what is in the directory besides the store; `parts` are files that are not whole yet.
    names = frozenset({"journal", "parts", "aside"})

    #: What a process does that holds the lock.
    doing = "converting to the same target"

    #: What is unfinished that another process may have left, before the target's name.
    unfinished_work = "conversion to"

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        name = os.path.expanduser(a_path(target, "target", expected="name a directory for the store"))  # noqa: PTH111
        refuse_url(name, "written")
        place = Path(os.path.realpath(name))
        # An empty name is the working directory to the system: a variable of a script that was not set.
        if not name or not place.name:
            raise TargetError(f"{name!r} cannot be the target; name a directory for the store")
        try:
            place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # its directory may not be looked into, or no file can have this name
            with refusals_of(place):
                raise
        root, inside = place.with_name(f".{place.name}.cfagg-partial"), place / ".cfagg-partial"
        if inside.is_dir() or (place.is_dir() and not root.exists() and not is_replaceable(place)):
            root = inside
        super().__init__(place, root, "store", self.names, self.doing)
        self.store = self.product
        self.journal = self.root / "journal"
        self._overwrite, self._resume = overwrite, resume
        if not place.parent.is_dir():
            raise TargetError(f"{name} cannot be written: there is no directory {place.parent}; create it first")
        if not os.path.lexists(root):
            self.check_target()

    def check_target(self) -> None:
        """Refuse a target that exists and may not be replaced."""
        if not os.path.lexists(self.target) or (self._resume and (self.finished or self._tells_its_build)):
            return
        if not self._overwrite:
            raise self._exists()
        if not self.target.is_dir():
            raise TargetError(
                f"{self.target} is a file, which a store does not replace; choose another name or remove it"
            )
        inside = {p.name for p in self.target.iterdir()} - {self.root.name}
        if inside and inside.isdisjoint(_STORE_FILES):
            raise TargetError(
                f"{self.target} is not a Zarr store, so it is not replaced; choose another name or remove it"
            )

    def _exists(self) -> TargetExistsError:
        return TargetExistsError(
            f"{self.target} exists; choose another name or replace it with overwrite=True (--overwrite)"
        )

    def enter(self) -> None:
        """Make the directory and lock it; finish, or remove, what a killed process left."""
        self.hold()
        try:
            if self.published and not (self._resume and self.finished):
                self.settle()
                self.clear()
            self.check_target()
        except OSError:
            self.abandon_if_useless()
            with refusals_of(self.target):
                raise

    @property
    def may_replace(self) -> bool:
        """Whether a store that is there, or an unfinished one, may be replaced."""
        return self._overwrite

    @property
    def unfinished(self) -> bool:
        """Whether chunks were written here by a conversion that can be finished."""
        if self.published or not (self.journal.exists() and self.store.exists()):
            return False
        with BufferedReader(opened(self.journal, "rb")) as file:
            return sum(1 for _ in islice((line for line in file if line.endswith(b"\n")), 2)) == 2

    @property
    def finished(self) -> bool:
        """Whether the store is in the target's place already, and only this directory was left to be removed."""
        return self.journal.exists() and self.in_place

    @property
    def remedy(self) -> str:
        """How a run that was cut short is finished."""
        more = " and overwrite=True (--overwrite)" if self._overwrite and os.path.lexists(self.target) else ""
        return f"finish it with resume=True (--resume){more}"

    @property
    def _tells_its_build(self) -> bool:
        """Whether the target says which build made it, and nothing is here that could be finished."""
        return not (self._overwrite or self.journal.exists()) and build_of(self.target) is not None

    def is_built(self, build: str) -> bool:
        """Whether the target is the result of this very build; `TargetExistsError` if of another that is kept."""
        if not self._resume or not os.path.lexists(self.target) or not self._tells_its_build:
            return False
        if build_of(self.target) == build:
            return True
        raise self._exists()

    def check_unfinished(self) -> None:
        """Refuse to throw away what earlier work has achieved."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished {self.unfinished_work} {self.target} is there; "
                "finish it with resume=True (--resume) or start again with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove what an earlier conversion left."""
        super().start_anew()
        self.store.mkdir()

    def publish(self, build: str) -> None:
        """Put the finished store in the target's place; what was there stays until then."""
        self.check_target()
        if not self.within:
            name_build(self.store, build)
        self.put_in_place()
        if self.within:
            name_build(self.target, build)
        self.remove_after()
