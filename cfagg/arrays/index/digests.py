"""Evidence that a file is unchanged since it was indexed: its state, and a digest of its variables' metadata."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cfagg.arrays.index.rows import FileState
from cfagg.arrays.index.schema import LONGEST, RANGES
from cfagg.errors import CfaggError
from cfagg.storage.files import Context, Handle

__all__ = ["DIGEST", "NotedBytes", "digest_of", "is_still", "state_of"]

#: Bytes of the digest of the metadata of a file's variables.
DIGEST = 16

#: Gap in bytes up to which ranges are merged.
_GAP = 2**12

#: First bytes of a file that are read at once, and most bytes after them that are kept while it is parsed.
_LOOKED_AT, _HELD = 2**16, 2**20


def state_of(handle: Handle, *, to_keep: bool = False) -> FileState:
    """Return the state of an open file; one `to_keep` has no tag if a later state could have the same."""
    tag = getattr(handle.data, "lasting_tag" if to_keep else "tag", None)
    return FileState.of(handle.key, tag if handle.data is not None else None)


def is_still(handle: Handle) -> bool:
    """Return whether a local file is unchanged since it was opened."""
    found = os.fstat(handle.fd)
    key = handle.key
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns) == (key.size, key.modified, key.changed)


def digest_of(handle: Handle, ranges: Sequence[int], context: Context) -> bytes | None:
    """Return the digest of some ranges of bytes of a file, or `None` if it does not have them."""
    import hashlib

    digest = hashlib.blake2b(digest_size=DIGEST)
    try:
        for a, b in zip(ranges[::2], ranges[1::2], strict=True):
            digest.update(handle.exactly(b - a, a, context))
    except CfaggError:
        return None
    return digest.digest()


class NotedBytes:
    """The bytes of an open file, recording which of them are read."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._size = handle, handle.key.size
        #: Ranges that were read, and their bytes while these are few, since most are read again for the digest.
        self._taken: dict[tuple[int, int], bytes] = {}
        self._room = _HELD
        #: The first bytes, which include most of those that are read.
        self._first = handle.some(_LOOKED_AT, 0)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: slice) -> bytes:
        start, stop, _ = where.indices(self._size)
        if stop <= start:
            return b""
        found = self._taken.get((start, stop))
        if found:
            return found
        inside = stop <= len(self._first)
        data = self._first[start:stop] if inside else self._handle.some(stop - start, start)
        self._room -= 0 if inside else len(data)
        self._taken[start, stop] = b"" if inside or self._room < 0 else data
        return data

    def ranges(self) -> tuple[int, ...] | None:
        """Return start and end of each range, ascending, or `None` if there are too many to be read again."""
        found: list[int] = []
        for a, b in sorted(self._taken):
            if found and a <= found[-1] + _GAP:
                found[-1] = max(found[-1], b)
            else:
                found += [a, b]
        length = sum(found[1::2]) - sum(found[::2])
        return tuple(found) if len(found) <= 2 * RANGES and length <= LONGEST else None
