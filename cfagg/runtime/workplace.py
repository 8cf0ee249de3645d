"""The directory in which a store is built, and how the store is put in place.

::

    .NAME.cfagg-partial/      beside the target; `.cfagg-partial` within a target that cannot be renamed
        journal    the work that is done
        store/     the store being built; its metadata is written last
        aside/     chunks that workers of a cluster are writing
        ...        as in `cfagg.runtime.staging.Staging`

The directory itself is never a Zarr store, and `store/` becomes one only when everything in it is complete.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections.abc import Iterable
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath

from cfagg.errors import TargetError, TargetExistsError
from cfagg.errors.arguments import a_path
from cfagg.runtime.publishing import build_of, name_build, opened, refusals_of
from cfagg.runtime.staging import Staging, is_replaceable
from cfagg.storage.urls import refuse_url

__all__ = ["Workplace"]

_STORE_FILES = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")


class Workplace(Staging):
    """A locked work directory for one target, whose links are resolved.

    With `overwrite` an existing Zarr store, or an unfinished conversion, may be replaced. With `resume`, a conversion
    that was interrupted after its store was put in place counts as this one.
    """

    #: Names in the directory besides the store; `parts` are partial files.
    names = frozenset({"journal", "parts", "aside"})

    #: The activity of the process that holds the lock, as written before the target's name.
    doing = "converting to"

    #: The work that another process may have left unfinished, as written before the target's name.
    unfinished_work = "conversion to"

    def __init__(self, target: str | os.PathLike[str], *, overwrite: bool, resume: bool = False) -> None:
        name = os.path.expanduser(a_path(target, "target", expected="name a directory for the store"))  # noqa: PTH111
        refuse_url(name, "written")
        place = Path(os.path.realpath(name))
        # The system reads an empty name as the working directory: an unset variable of a script.
        if not name or not place.name:
            raise TargetError(f"{name!r} cannot be the target; name a directory for the store")
        try:
            place.lstat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # its directory is not readable, or the name is not valid
            with refusals_of(place):
                raise
        root, inside = place.with_name(f".{place.name}.cfagg-partial"), place / ".cfagg-partial"
        if inside.is_dir() or (place.is_dir() and not root.exists() and not is_replaceable(place)):
            root = inside
        super().__init__(place, root, "store", self.names, f"{self.doing} {place}")
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
        around = next((p for p in self.target.parents if any(os.path.lexists(p / name) for name in _STORE_FILES)), None)
        if inside and around is not None:  # consolidated metadata there describe the former chunks
            raise TargetError(
                f"{self.target} is part of the Zarr store {around}, whose metadata describe it, so it is not replaced; "
                "choose a name outside that store"
            )

    def _exists(self) -> TargetExistsError:
        return TargetExistsError(
            f"{self.target} exists; choose another name or replace it with overwrite=True (--overwrite)"
        )

    def enter(self) -> None:
        """Create the directory and lock it; complete or remove the leftovers of a killed process."""
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
        """Whether an existing store, or an unfinished one, may be replaced."""
        return self._overwrite

    @property
    def unfinished(self) -> bool:
        """Whether a conversion wrote chunks here and can be resumed."""
        if self.published or not (self.journal.exists() and self.store.exists()):
            return False
        with BufferedReader(opened(self.journal, "rb")) as file:
            return sum(1 for _ in islice((line for line in file if line.endswith(b"\n")), 2)) == 2

    @property
    def finished(self) -> bool:
        """Whether the store is already in place, so that only this directory remains to be removed."""
        return self.journal.exists() and self.in_place

    @property
    def remedy(self) -> str:
        """Advice on how to complete an interrupted run."""
        more = " and overwrite=True (--overwrite)" if self._overwrite and os.path.lexists(self.target) else ""
        return f"finish it with resume=True (--resume){more}"

    @property
    def _tells_its_build(self) -> bool:
        """Whether the target records the build that created it, and nothing here can be completed."""
        return not (self._overwrite or self.journal.exists()) and build_of(self.target) is not None

    def check_names(self, keys: Iterable[str]) -> None:
        """Refuse a store that has two names which the file system takes for one, as that of most Macs does `T` and `t`.

        `keys` are those of its documents, which name every array and group.
        """
        seen: dict[str, str] = {}
        for name in sorted({f"{p}" for key in keys for p in PurePosixPath(key).parents}):
            other = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
            last, its = PurePosixPath(other).name, PurePosixPath(name).name
            if last != its and self._are_one(last, its):  # names below others of two cases have been compared there
                raise TargetError(
                    f"{self.target} cannot be written: its file system takes the names {other!r} and {name!r} for one; "
                    "choose a place on another file system, or write them to two stores"
                )

    def _are_one(self, one: str, other: str) -> bool:
        """Return whether a file of one name is also found by another."""
        parts = self.root / "parts"
        parts.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=parts) as folder:
            Path(folder, one).mkdir()
            return os.path.lexists(os.path.join(folder, other))  # noqa: PTH118

    def is_built(self, build: str) -> bool:
        """Return whether the target is the result of this build; `TargetExistsError` if of another one."""
        if not self._resume or not os.path.lexists(self.target) or not self._tells_its_build:
            return False
        if build_of(self.target) == build:
            return True
        raise self._exists()

    def check_unfinished(self) -> None:
        """Refuse to discard the results of earlier work."""
        if self.unfinished:
            raise TargetExistsError(
                f"an unfinished {self.unfinished_work} {self.target} is there; "
                "finish it with resume=True (--resume) or start again with overwrite=True (--overwrite)"
            )

    def start_anew(self) -> None:
        """Remove the leftovers of an earlier conversion."""
        super().start_anew()
        self.store.mkdir()

    def publish(self, build: str) -> None:
        """Put the finished store in place; the old target remains until then."""
        self.check_target()
        if not self.within:
            name_build(self.store, build)
        self.put_in_place()
        if self.within:
            name_build(self.target, build)
        self.remove_after()
