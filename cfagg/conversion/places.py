"""The directory that receives the chunks of a conversion; workers in other processes write there as well."""

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

#: Size in bytes from which flushing a chunk is started at once; smaller ones are better flushed many at a time.
_LARGE = 1 << 18

#: Maximum number of folders that are remembered as existing: there may be one for each chunk.
_MOST_FOLDERS = 10_000


@dataclass(eq=False)
class Files:
    """A directory; a chunk is identified by its checksum.

    With `aside`, a chunk is written there and renamed, so that it stays intact if two workers run the same task at the
    same time, as Dask may let them if one seemed to be lost. A worker left over from a run that has ended finds its
    `aside` gone, and cannot change anything.
    """

    root: Path
    aside: Path | None = None
    _made: set[str] = field(default_factory=set, repr=False)

    def read(self, key: str) -> bytes | None:
        """Return a written chunk, or `None` if it does not exist."""
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
            if len(self._made) >= _MOST_FOLDERS:
                self._made.clear()
            self._made.add(folder)
        if self.aside is None and len(encoded) < _LARGE:
            write_new(path, encoded)
            return crc32(encoded)
        there = path if self.aside is None else self.aside / uuid.uuid4().hex
        try:
            with opened(there, "wb") as file:
                if key.startswith(FOLDER):
                    # It will soon be read and then removed, so it need not be flushed to disk.
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
