"""The directory of index pages, which is held in memory: where each page begins, and with what epoch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.errors import FragmentReadError, SourceError
from cfagg.formats.fastzlib import crc32
from cfagg.kernels.lookup import HEAD
from cfagg.observations.arrays import read_json
from cfagg.observations.indexes.pages_writing import FORMAT, NAME
from cfagg.observations.indexes.protocol import Int64, Store
from cfagg.observations.indexes.table import is_there

if TYPE_CHECKING:
    from cfagg.storage.store import Source

__all__ = ["Directory", "attributes_of", "damaged", "has_pages", "stored_attributes"]

#: Pages that are checked together.
_SLAB = 2**16


class Directory:
    """Where pages are: `firsts` has the first epoch of each."""

    def __init__(self, source: Source, found: dict[str, Any]) -> None:
        v3 = is_there(source, f"{NAME}/zarr.json")
        self.key = f"{NAME}/{found['name']}/{'c/0' if v3 else '0'}"
        stored = f"{NAME}/directory_{found['directory_crc32']:08x}/{'c/0/0' if v3 else '0.0'}"
        n = found["pages"] + 1
        if source.size(stored) != 16 * n:
            raise damaged(source.path, f"its directory does not have the {16 * n:,} bytes of {n - 1:,} pages")
        firsts = source.read_range(stored, 0, 8 * n)
        offsets = source.read_range(stored, 8 * n, 8 * n)
        if len(firsts) != len(offsets) or crc32(offsets, crc32(firsts)) != found["directory_crc32"]:
            raise damaged(source.path, "its directory has a checksum that differs from its bytes")
        self.firsts: Int64 = np.frombuffer(firsts, "<i8", n - 1)
        places: Int64 = np.frombuffer(offsets, "<i8")
        right = places[0] == 0
        # Slab by slab: what is large for a moment leaves holes in memory.
        for a in range(0, n, _SLAB):
            sizes = np.diff(places[a : a + _SLAB + 1])
            right = right and not ((sizes < 8 * HEAD) | (sizes % 8 != 0)).any()
            right = right and not (np.diff(self.firsts[a : a + _SLAB + 1]) < 0).any()
        if not right:
            raise damaged(source.path, "its directory is not in order")
        end = int(places[-1])
        if source.size(self.key) != end:
            raise damaged(source.path, f"its pages do not have the {end:,} bytes that the directory gives")
        # Counted in words of eight bytes, half as many bits are enough for 32 GiB.
        kind = np.uint32 if end // 8 < 2**32 else np.int64
        self._words: npt.NDArray[Any] = np.empty(n, kind)
        for a in range(0, n, _SLAB):
            self._words[a : a + _SLAB] = places[a : a + _SLAB] // 8

    def __len__(self) -> int:
        return len(self.firsts)

    def bytes_of(self, page: int, count: int) -> list[int]:
        """Return the byte at which each of some pages that follow each other begins, and where the last ends."""
        return [8 * word for word in self._words[page : page + count + 1].tolist()]

    def places(self, pages: Int64) -> tuple[Int64, Int64]:
        """Return at which byte pages begin, and how many bytes they have."""
        begin, end = (self._words[p].astype(np.int64) * 8 for p in (pages, pages + 1))
        return begin, end - begin


def damaged(where: str, problem: str) -> FragmentReadError:
    """Return the error for pages that are not what was written."""
    return FragmentReadError(f"{where}: {NAME} is damaged: {problem}; make it again with build_pages (cfagg obs index)")


def has_pages(store: Store) -> bool:
    """Return whether a store has index pages, good or not."""
    return any(is_there(store.source, f"{NAME}/{document}") for document in (".zattrs", "zarr.json"))


def stored_attributes(source: Source) -> dict[str, Any] | None:
    """Return the attributes of the pages of a store, `None` where it has none."""
    for document in (".zattrs", "zarr.json"):
        found = read_json(source, f"{NAME}/{document}") if is_there(source, f"{NAME}/{document}") else None
        if found is not None:
            attributes = found[0] if document == ".zattrs" else found[0].get("attributes")
            return attributes if isinstance(attributes, dict) else {}
    return None


def attributes_of(store: Store) -> dict[str, Any]:
    """Return the attributes of the pages of a store, of the types that they have to be of."""
    found = stored_attributes(store.source)
    if found is None:
        raise SourceError(f"{store.path} has no {NAME}; make them with build_pages (cfagg obs index)")
    counts = [found.get(name) for name in ("entries", "rows", "pages", "directory_crc32")]
    right = found.get("format") == FORMAT and isinstance(found.get("identity"), str)
    right = right and all(type(n) is int and 0 <= n < 2**62 for n in counts)
    right = right and re.fullmatch("pages_[0-9a-f]{8}", str(found.get("name"))) is not None
    ends = [found.get("first"), found.get("last")]
    right = right and (ends == [None, None] if not counts[0] else all(type(e) is int and abs(e) < 2**62 for e in ends))
    if not right or (found["pages"] == 0) != (found["entries"] == 0):
        raise SourceError(
            f"{store.path}: {NAME} are of the form {found.get('format')!r}, expected {FORMAT!r}; make them again with "
            "build_pages (cfagg obs index)"
        )
    return found
