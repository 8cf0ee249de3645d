"""A directory in which chunks of a conversion are put; workers in other processes write there too."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfagg.conversion.scratch import FOLDER
from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.runtime.direct import write_large
from cfagg.runtime.files import write_new
from cfagg.runtime.publishing import begin_sync, opened, read_own, write_all

__all__ = ["Files"]

#: Bytes of a chunk from which on the disk is given it at once; smaller ones it takes better many at a time.
_LARGE = 1 << 18


@dataclass(eq=False)
class Files:
    """A directory; a chunk is known by its checksum.

    With `aside` a chunk is written there and renamed, so that a task that two workers do at the same time, as Dask may
    let them where one seemed to be gone, leaves a whole chunk.  A worker that is left over from a run that has ended
    finds its `aside` gone, and can change nothing.
    """

    root: Path
    aside: Path | None = None
    _made: set[str] = field(default_factory=set, repr=False)

    def read(self, key: str) -> bytes | None:
        """Return what was written, `None` where that is not there."""
        try:
            return read_own(self.root / key)
        except FileNotFoundError:
            return None

    def __call__(self, key: str, encoded: Any) -> int:
        """Write a chunk, and return its checksum."""
        path = f"{self.root}/{key}"
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            self._made.add(folder)
        if self.aside is None and len(encoded) < _LARGE:
            write_new(path, encoded)
            return crc32(encoded)
        there = path if self.aside is None else self.aside / uuid.uuid4().hex
        try:
            with opened(there, "wb") as file:
                if key.startswith(FOLDER):
                    # It is read soon, and then removed: the disk need not see it.
                    write_all(file, encoded)
                else:
                    write_large(file, encoded)
                    if len(encoded) >= _LARGE:
                        begin_sync(file.fileno())
            if there is not path:
                os.replace(there, path)  # noqa: PTH105
        except FileNotFoundError as error:
            if self.aside is None:
                raise
            raise TargetError(
                f"{path}: a Dask worker does not find the directory in which the store is built, or the run has ended; "
                "workers must reach the target's file system by the same path"
            ) from error
        return crc32(encoded)
