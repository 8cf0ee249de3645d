"""The record of what a conversion has written, from which a killed one is resumed.

A text file with one JSON value per line. The first line identifies the conversion; every other line lists the chunks of
one slab: ``[array, [[chunk, bytes, crc of the stored bytes, crc of the values], ...]]`` with the chunk's number in C
order; the last is -1 if the values are not going to be verified. A chunk that is not stored, because it contains only
the fill value, has 0 bytes. A line counts once it is complete; an incomplete last line of a killed process is cut off.

*journal*: the record of the completed work, from which an interrupted run is resumed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg._version import __version__
from cfagg.arrays.source import OtherSource, Source
from cfagg.errors import TargetError
from cfagg.model import Aggregation
from cfagg.runtime.publishing import opened, public_name, read_own
from cfagg.storage.access import Access
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url

__all__ = ["ChunkRecords", "Journal", "Records", "digest_of", "identity_of", "sizes_of", "ways_of"]

#: Version of the journal format; changing it invalidates older journals.
FORMAT = "cfagg conversion 1"

#: Seconds between forcing the journal to disk.
_SYNC = 1.0

#: Seconds between uploads of new parts of it.
_SEND = 5.0

Chunk = tuple[int, int, int, int]


@dataclass(eq=False)
class ChunkRecords:
    """The known properties of the chunks of one array, by chunk number."""

    count: int
    written: npt.NDArray[np.bool_] = field(init=False)  # whether the chunk is complete
    size: npt.NDArray[np.int64] = field(init=False)  # bytes of the stored chunk, 0 if none is needed
    stored: npt.NDArray[np.int64] = field(init=False)  # CRC-32 of the stored bytes, -1 if not computed
    content: npt.NDArray[np.int64] = field(init=False)  # CRC-32 of the values, likewise

    def __post_init__(self) -> None:
        self.written = np.zeros(self.count, bool)
        self.size = np.zeros(self.count, np.int64)
        self.stored = np.zeros(self.count, np.int64)
        self.content = np.full(self.count, -1, np.int64)

    def add(self, chunks: Sequence[Chunk]) -> None:
        """Record written chunks."""
        for i, size, stored, content in chunks:
            self.written[i], self.size[i], self.stored[i], self.content[i] = True, size, stored, content


def sizes_of(records: Iterable[ChunkRecords]) -> tuple[int, int]:
    """Return the total bytes of all stored chunks, and their number; chunks of 0 bytes are not stored."""
    sizes = [r.size for r in records]
    return sum(int(s.sum()) for s in sizes), sum(int(np.count_nonzero(s)) for s in sizes)


class Records:
    """The chunks that a run has written; in memory only, for runs that are never resumed."""

    def __init__(self, counts: Sequence[int]) -> None:
        self.done = [ChunkRecords(n) for n in counts]

    def add(self, array: int, chunks: Sequence[Chunk]) -> None:
        """Record the chunks of a slab, whose files are complete."""
        self.done[array].add(chunks)

    def sync(self) -> None:
        """Keep the records."""


class Journal(Records):
    """An open journal; made by `create` or `resume`, closed by `close`."""

    def __init__(
        self,
        path: Path,
        done: list[ChunkRecords],
        committed: bool,
        mode: Literal["wb", "ab"],
        send: Callable[[bytes], None] | None = None,
    ) -> None:
        self.path = path
        # For a journal kept elsewhere: the function that uploads it, and the number of bytes already uploaded.
        self._send, self._sent = send, path.stat().st_size if mode == "ab" else 0
        self.done = done
        self.committed = committed
        # Unbuffered, so that a failed write is not retried when the file is closed.
        self._file = opened(path, mode)
        self._synced = time.monotonic()

    @classmethod
    def create(
        cls,
        path: Path,
        identity: dict[str, Any],
        counts: Sequence[int],
        send: Callable[[bytes], None] | None = None,
        ways: Mapping[str, Any] | None = None,
    ) -> Journal:
        """Start a journal for arrays with these numbers of chunks; `ways_of` returns its ways to a resumed run."""
        journal = cls(path, [ChunkRecords(n) for n in counts], False, "wb", send)
        kept = {"ways": ways} if ways else {}
        journal._line({"format": FORMAT, "identity": identity, "chunks": list(counts), **kept})
        journal.sync()
        return journal

    @classmethod
    def resume(
        cls,
        path: Path,
        identity: dict[str, Any],
        counts: Sequence[int],
        name: str = "",
        send: Callable[[bytes], None] | None = None,
    ) -> Journal:
        """Continue the journal of a target; raise if it is from another source, other options or another version."""
        name = name or public_name(path)
        text = read_own(path)
        # Only lines ending in a line feed were written completely.
        lines = text[: text.rfind(b"\n") + 1].splitlines(keepends=True)
        head = _parsed(lines[0]) if lines else None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise TargetError(
                f"the unfinished {name} was started by another version; "
                "run again with overwrite=True (--overwrite) to start again"
            )
        _compare(name, head.get("identity"), identity)
        if head.get("chunks") != list(counts):
            raise TargetError(
                f"{name} was started with other chunks or variables; "
                "run again with overwrite=True (--overwrite) to start again"
            )
        done = [ChunkRecords(n) for n in counts]
        good, committed = len(lines[0]), False
        for line in lines[1:]:
            entry = _parsed(line)
            if entry == "commit":
                committed = True
            elif _is_entry(entry, counts):
                done[entry[0]].add(entry[1])
            else:
                break
            good += len(line)
        with opened(path, "r+b") as file:
            file.truncate(good)
        return cls(path, done, committed, "ab", send)

    def add(self, array: int, chunks: Sequence[Chunk]) -> None:
        """Record the chunks of a slab, whose files are complete."""
        super().add(array, chunks)
        self._line([array, chunks])
        if time.monotonic() - self._synced > (_SYNC if self._send is None else _SEND):
            self.sync()

    def commit(self) -> None:
        """Record that the store is complete and is about to be moved into place."""
        self._line("commit")
        self.sync()

    def sync(self) -> None:
        """Force the records to disk, or upload them to where the journal is kept."""
        if self._send is None:
            os.fsync(self._file.fileno())
        elif new := read_own(self.path)[self._sent :]:
            self._send(new)
            self._sent += len(new)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _line(self, value: Any) -> None:
        line = (json.dumps(value, separators=(",", ":")) + "\n").encode()
        if self._file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


def ways_of(text: bytes) -> dict[str, Any]:
    """Return the ways recorded at the start of a journal, without checking whether it can be resumed."""
    head = _parsed(text.partition(b"\n")[0])
    ways = head.get("ways", {}) if isinstance(head, dict) else {}
    good = isinstance(ways, dict) and all(
        isinstance(shapes, list) and len(shapes) <= 2 and all(_is_shape(s) for s in shapes) for shapes in ways.values()
    )
    return ways if good else {}


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) and n > 0 for n in value)


def _parsed(line: bytes) -> Any:
    """Return the value of a line, or None if it is damaged."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_entry(entry: Any, counts: Sequence[int]) -> bool:
    """Whether a value is a record of chunks that exist."""
    if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int) and isinstance(entry[1], list)):
        return False
    if not 0 <= entry[0] < len(counts):
        return False
    count = counts[entry[0]]
    return all(
        isinstance(c, list) and len(c) == 4 and all(isinstance(v, int) and v >= -1 for v in c) and 0 <= c[0] < count
        for c in entry[1]
    )


def _compare(name: str, found: Any, expected: dict[str, Any]) -> None:
    """Raise if a journal belongs to another conversion, naming the difference."""
    if found == expected:
        return
    old = found if isinstance(found, dict) else {}
    names = [k for k in expected if old.get(k) != expected[k]] or ["contents"]
    raise TargetError(
        f"{name} was started with different settings ({', '.join(names)}), so it cannot be resumed; repeat the call "
        "with the original options, or start again with overwrite=True (--overwrite)"
    )


def identity_of(source: Source, access: Access, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that an interrupted run must share with the one that resumes it."""
    return {"version": __version__, "source": _fingerprint(source, access), "options": options}


def digest_of(identity: Mapping[str, object]) -> str:
    """Return a short string that identifies a conversion."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def _fingerprint(source: Source, access: Access) -> str:
    """Return a digest of the state of the source and of every file it refers to: names, sizes, times of change."""
    if isinstance(source, OtherSource) and (found := source.fingerprint()) is not None:
        return found
    digest = hashlib.sha256()
    used_files = {source.path if isinstance(source.path, Url) else os.path.realpath(source.path)}
    for group in source.root.walk():
        for variable in group.variables.values():
            tables = (variable.partitions, *variable.partitions.versions) if isinstance(variable, Aggregation) else ()
            for table in tables:
                used = np.unique(table.file[table.present])
                used_files.update(access.resolve(table.files[c]) for c in used.tolist() if c >= 0)
    for path in sorted(used_files):
        try:
            if isinstance(path, Url):
                digest.update(f"{path}\0{handles.get(path).key[2:]}\n".encode("utf-8", "surrogateescape"))
                continue
            state = Path(path).stat()
            found = f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n"
        except FileNotFoundError:
            found = f"{path}\0missing\n"
        digest.update(found.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
