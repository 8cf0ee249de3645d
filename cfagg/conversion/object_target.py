"""A conversion into an object store: chunks first, then metadata, those of the root last and only where there are none.

Keys of a Zarr store are fixed, so that two stores cannot stand in one place.  A mark is there while the work is not
done: it keeps a second writer away, and tells what a killed run left from objects of somebody else.
"""

from __future__ import annotations

import tempfile
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from cfagg.conversion.journal import Journal
from cfagg.conversion.plan import Array
from cfagg.conversion.run import run
from cfagg.conversion.slabs import Slabs
from cfagg.conversion.verify import verify
from cfagg.errors import CfaggWarning, TargetError, TargetExistsError
from cfagg.formats.metadata.remote_store import KeyStore
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.storage.objects import ObjectStore

__all__ = ["ObjectTarget"]

#: What stands in a store that is not complete.
_MARK = ".cfagg-partial"

#: Documents of the root, one of which every store has; and those of all nodes.
_ROOT = ("zarr.json", ".zgroup", ".zarray")
_DOCUMENTS = frozenset({*_ROOT, ".zattrs", ".zmetadata"})


class ObjectTarget:
    """The place of a new store.

    Parameters
    ----------
    objects : ObjectStore
        Where it is to be.
    overwrite : bool
        Whether a Zarr store that is there, or what a killed run left, may be removed.
    """

    def __init__(self, objects: ObjectStore, *, overwrite: bool) -> None:
        self.objects, self.overwrite = objects, overwrite

    def check(self) -> None:
        """Raise where something is there that may not be replaced, before work begins."""
        path = self.objects.path
        if next(self.objects.listed(), None) is None:
            return
        partial = self.objects.size(_MARK) is not None
        store = any(self.objects.size(name) is not None for name in _ROOT)
        if not (partial or store):
            raise TargetError(f"{path} holds objects that are no Zarr store; choose another target")
        if not self.overwrite:
            if store:
                raise TargetExistsError(f"{path} exists; choose another target or pass overwrite=True (--overwrite)")
            raise TargetExistsError(
                f"{path} holds a store that is not complete: it is being written, or a conversion was cut short; "
                "remove it with overwrite=True (--overwrite)"
            )

    def write(
        self,
        arrays: Sequence[Array],
        slabs: Sequence[Slabs],
        documents: Mapping[str, bytes],
        codec: Codec,
        zarr_format: int,
        threads: int,
        progress: Callable[[int, int], None] | None,
        *,
        check: bool,
    ) -> int:
        """Write a store, and return the bytes of its chunks."""
        self.check()
        mark = uuid.uuid4().hex.encode()
        self.objects.put(_MARK, mark, create=not self.overwrite)
        self._clear()
        with tempfile.TemporaryDirectory() as folder, closing(
            Journal.create(Path(folder) / "journal", {}, [a.grid.size for a in arrays])
        ) as journal:  # fmt: skip
            run(arrays, slabs, self.objects.put, journal, codec, zarr_format, threads, progress, checksums=check)
            if check:
                self._verify(arrays, slabs, journal, documents, threads)
            stored = sum(int(done.size.sum()) for done in journal.done)
        if self.objects.read(_MARK) != mark:
            raise TargetExistsError(f"{self.objects.path} was taken over by another conversion; choose another target")
        *first, last = documents
        for key in first:
            self.objects.put(key, documents[key])
        self.objects.put(last, documents[last], create=True)
        self.objects.delete([_MARK])
        return stored

    def _clear(self) -> None:
        """Remove what is there: what makes it a store first, so that no mixture opens."""
        keys = [key for key in self.objects.listed() if key != _MARK]
        if not keys:
            return
        warnings.warn(
            f"{self.objects.path} is removed before the new store is written; until that is complete, there is none",
            CfaggWarning,
            stacklevel=2,
        )
        self.objects.delete([key for key in keys if key in _DOCUMENTS])
        self.objects.delete([key for key in keys if key.rpartition("/")[2] in _DOCUMENTS and key not in _DOCUMENTS])
        self.objects.delete([key for key in keys if key.rpartition("/")[2] not in _DOCUMENTS])

    def _verify(
        self,
        arrays: Sequence[Array],
        slabs: Sequence[Slabs],
        journal: Journal,
        documents: Mapping[str, bytes],
        threads: int,
    ) -> None:
        """Compare all values with those that were written, before any metadata are."""
        try:
            verify(arrays, slabs, journal, KeyStore(_Unpublished(self.objects, documents)), threads)
        except TargetError as error:
            said = error.message.partition("; check the")[0]
            raise TargetError(
                f"{self.objects.path}: {said}; convert again with overwrite=True (--overwrite)"
            ) from error


class _Unpublished:
    """A store whose documents are not written yet."""

    remote, lists = True, False

    def __init__(self, objects: ObjectStore, documents: Mapping[str, bytes]) -> None:
        self.path, self._objects, self._documents = objects.path, objects, documents

    def read(self, key: str) -> bytes | None:
        """Return a document, or what is stored."""
        found = self._documents.get(key)
        return found if found is not None or key.rpartition("/")[2] in _DOCUMENTS else self._objects.read(key)

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return a part of what is stored."""
        return self._objects.read_range(key, start, count)
