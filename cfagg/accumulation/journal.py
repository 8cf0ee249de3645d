"""What is known of every chunk that was read, from which a killed build is finished.

Two files: ``identity``, a JSON object that says what is being built, and ``records``, one record of fixed length per
chunk at the place of its number.  A record is written when all partial sums of its chunk are.  It carries a checksum of
itself, so that a torn one counts as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import TargetError
from cfagg.formats.fastzlib import crc32
from cfagg.runtime.publishing import read_own, write_synced

__all__ = ["Journal", "record_type"]

#: Name of the journal's own form; a change of it makes older journals useless.
FORMAT = "cfagg accumulation 2"

_HEAD = [
    ("number", "<i8"),
    # Stamp of the stored object that the chunk was read from, and its checksum for the first chunk of each object.
    ("size", "<i8"),
    ("time", "<i8"),
    ("changed", "<i8"),
    ("inode", "<i8"),
    ("checksum", "<i8"),
    ("missing", "<i8"),
    ("nonfinite", "<i8"),
    # CRC-32 of the partial sums, and of the record.
    ("pieces", "<u4"),
    ("check", "<u4"),
]


def record_type(cells: list[tuple[str, str]]) -> np.dtype[Any]:
    """Return the type of a record that ends with `cells`, sums and statistics over the whole chunk."""
    return np.dtype([*_HEAD, *cells])


class Journal:
    """An open journal of so many chunks, with records by `record_type`."""

    def __init__(self, folder: Path, count: int, dtype: np.dtype[Any]) -> None:
        self.count, self.dtype = count, dtype
        self._path = folder / "records"
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)

    @classmethod
    def create(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Start a journal."""
        (folder / "records").unlink(missing_ok=True)
        document = {"format": FORMAT, "identity": dict(identity), "chunks": count}
        write_synced(folder / "identity", json.dumps(document).encode())
        return cls(folder, count, dtype)

    @classmethod
    def resume(cls, folder: Path, identity: Mapping[str, Any], count: int, dtype: np.dtype[Any]) -> Journal:
        """Continue a journal; refuse one of another build: another array, other options or another version."""
        try:
            found = json.loads(read_own(folder / "identity"))
        except ValueError:
            found = {}
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise TargetError(
                "the unfinished accumulation is of another version; run again with overwrite=True (--overwrite) "
                "to start again"
            )
        old = found.get("identity")
        old = old if isinstance(old, dict) else {}
        names = [k for k in identity if old.get(k) != identity[k]]
        if names or found.get("chunks") != count:
            raise TargetError(
                f"the unfinished accumulation was started with different settings ({', '.join(names) or 'chunks'}), so "
                "it cannot be resumed like this; repeat the call with the original options, or start again with "
                "overwrite=True (--overwrite)"
            )
        return cls(folder, count, dtype)

    @staticmethod
    def belongs(folder: Path, identity: Mapping[str, Any], count: int) -> bool:
        """Whether there is a journal of this very build."""
        try:
            found = json.loads(read_own(folder / "identity"))
        except (FileNotFoundError, ValueError):
            return False
        return bool(found == {"format": FORMAT, "identity": dict(identity), "chunks": count})

    def add(self, record: npt.NDArray[Any]) -> None:
        """Write the record of one chunk, whose partial sums are written; its checksum is set here."""
        record["check"] = 0
        record["check"] = crc32(record.tobytes())
        raw = record.tobytes()
        if os.pwrite(self._file, raw, int(record["number"]) * self.dtype.itemsize) != len(raw):
            raise OSError(28, os.strerror(28), str(self._path))

    def read(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return all records, and which of them are whole."""
        records = np.zeros(self.count, self.dtype)
        held = np.fromfile(self._path, self.dtype, count=self.count)
        records[: len(held)] = held
        good = np.zeros(self.count, bool)
        bare = records.copy()
        bare["check"] = 0
        raw, size = memoryview(bare.view(np.uint8)) if self.count else memoryview(b""), self.dtype.itemsize
        # An untouched record is all zeros: its checksum is not that of zeros.
        for i in np.flatnonzero(records["check"]).tolist():
            good[i] = records["number"][i] == i and crc32(raw[i * size : (i + 1) * size]) == records["check"][i]
        return records, good

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
