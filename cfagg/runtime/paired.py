"""A file with a companion beside it that is useless without it: both are new, or both are old, even after a kill.

::

    .NAME.cfagg-partial/
        lock         locked while a process works on the two
        beside/file  the companion, complete and on disk before the first file is put in place

Two files cannot be renamed at once.  A process that finds a companion here that belongs to the first file completes
this.

In an object store, the first object is put in place by one request, and only if it is unchanged, which is decisive.
Before that, the second one is stored under ``.NAME.cfagg-partial/``, named by the digest of the first one.  The next
run completes the work from there, whether this one was killed or is merely slow, and then this one replaces nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from cfagg.errors import TargetError, TargetExistsError
from cfagg.runtime.files import remove_dead
from cfagg.runtime.object_files import object_at
from cfagg.runtime.publishing import opened, refusals_of, replace_file, sync_directory, sync_file, write_all
from cfagg.runtime.staging import Staging
from cfagg.storage.urls import Url

__all__ = ["PairedFile", "PairedObject"]


class PairedFile(Staging):
    """The place of a second file, `beside`, and the lock of both; `belongs` tests whether it matches the first."""

    def __init__(self, target: Path, beside: Path, belongs: Callable[[Path], bool], doing: str) -> None:
        super().__init__(target, target.with_name(f".{target.name}.cfagg-partial"), "beside", frozenset(), doing)
        self.beside = beside
        self._belongs = belongs
        self._made = self.product / "file"

    def __enter__(self) -> Self:
        if self.beside.is_dir():
            raise TargetError(f"{self.beside} is a directory; remove it, or give another name")
        self.hold()
        try:
            if self._made.is_file() and self._belongs(self._made):
                self._put()
            self.clear()
            remove_dead(self.target)
        except OSError:
            self.abandon_if_useless()
            with refusals_of(self.target):
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.remove_after()
        else:
            self.abandon_if_useless()

    @property
    def unfinished(self) -> bool:
        """Whether the first file is new, but the second one has not been put beside it."""
        return self._made.is_file() and self._belongs(self._made)

    def prepare(self, data: bytes, _: str = "") -> None:
        """Write the second file to disk before the first one is put in place."""
        self.product.mkdir(exist_ok=True)
        with opened(self._made, "wb") as file:
            write_all(file, data)
            sync_file(file.fileno())
        sync_directory(self.product)
        sync_directory(self.root)

    def publish(self) -> None:
        """Put the second file beside the first one, or remove one of an earlier first file."""
        with refusals_of(self.beside):
            if self._made.is_file():
                self._put()
            else:
                self.beside.unlink(missing_ok=True)

    def _put(self) -> None:
        sync_directory(self.target.parent)
        replace_file(self._made, self.beside)


class PairedObject:
    """The places of two objects; `digest` is that of the existing first one, or `None` if there is none."""

    def __init__(self, url: Url, suffix: str, digest: str | None) -> None:
        self._objects, name = object_at(url)
        self._beside, self._folder = f"{name}{suffix}", f".{name}.cfagg-partial"
        self._digest = digest
        self._made: bytes | None = None
        self._tag: str | None = None

    def __enter__(self) -> Self:
        found = None if self._digest is None else self._objects.read(f"{self._folder}/{self._digest}")
        if found is not None:
            # The run that put the first one in place was killed, or has not come further yet.
            self._tag = self._objects.put(self._beside, found)
        else:
            state = self._objects._state(self._beside)
            self._tag = None if state is None else state.tag
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After other errors the first one may be in place; then the next run completes the work.
        if self._made is not None and kind is not None and issubclass(kind, TargetExistsError):
            self._objects.delete([f"{self._folder}/{self._digest}"])

    def prepare(self, data: bytes, digest: str) -> None:
        """Write the second object before the first one, which has this digest, is put in place."""
        self._made, self._digest = data, digest
        self._objects.put(f"{self._folder}/{digest}", data)

    def publish(self) -> None:
        """Put the second object beside the first one, or remove one of an earlier first object."""
        left = list(self._objects.listed(self._folder))  # not those of runs that begin once it is there
        if self._made is None:
            self._objects.delete([self._beside])
        else:
            try:
                self._objects.put(self._beside, self._made, create=self._tag is None, match=self._tag)
            except TargetExistsError:
                return  # the next run has put this one, or its own, there, or will, and removes what is left
        self._objects.delete(left)
