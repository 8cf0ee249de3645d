"""A file and another one beside it that is of use with it alone: both are new, or both are old, also after a kill.

::

    .NAME.cfagg-partial/
        lock         held while a process works on the two
        beside/file  the second one, whole and on disk before the first one is put in its place

Two files cannot be renamed at once.  Who finds the second one here, and that it belongs to the first one, finishes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self

from cfagg.errors import TargetError
from cfagg.runtime.files import remove_dead
from cfagg.runtime.publishing import opened, refusals_of, replace_file, sync_directory, sync_file, write_all
from cfagg.runtime.staging import Staging

__all__ = ["PairedFile"]


class PairedFile(Staging):
    """The place of a second file, `beside`, and the lock of both; `belongs` tells whether it is that of the first."""

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
        """Whether the first file is new, and the second one could not be put beside it."""
        return self._made.is_file() and self._belongs(self._made)

    def prepare(self, data: bytes, _: str = "") -> None:
        """Write the second file so that it is on disk when the first one is put in its place."""
        self.product.mkdir(exist_ok=True)
        with opened(self._made, "wb") as file:
            write_all(file, data)
            sync_file(file.fileno())
        sync_directory(self.product)
        sync_directory(self.root)

    def publish(self) -> None:
        """Put the second file beside the first one, or remove one that belongs to a former one."""
        with refusals_of(self.beside):
            if self._made.is_file():
                self._put()
            else:
                self.beside.unlink(missing_ok=True)

    def _put(self) -> None:
        sync_directory(self.target.parent)
        replace_file(self._made, self.beside)
