"""A conversion into an object store: chunks are written in their places, and nothing is staged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from cfagg.conversion.journal import Journal
from cfagg.conversion.plan import Array
from cfagg.conversion.run import run
from cfagg.conversion.slabs import Slabs
from cfagg.conversion.verify import verify
from cfagg.errors import TargetError
from cfagg.formats.metadata.remote_store import KeyStore
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.object_publishing import DOCUMENTS, NewStore
from cfagg.storage.objects import ObjectStore

__all__ = ["write_objects"]


def write_objects(
    place: NewStore,
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
    """Write a store, and return the bytes of its chunks; with `check` all are read back before it is published."""
    place.begin()
    put = place.objects.put
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Journal.create(Path(folder) / "journal", {}, [a.grid.size for a in arrays])) as journal,
    ):
        run(arrays, slabs, put, journal, codec, zarr_format, threads, progress, checksums=check)
        if check:
            try:
                verify(arrays, slabs, journal, KeyStore(_Unpublished(place.objects, documents)), threads)
            except TargetError as error:
                said = f"{place.objects.path}: {error.message.partition('; check the')[0]}"
                raise TargetError(f"{said}; convert again with overwrite=True (--overwrite)") from error
        stored = sum(int(done.size.sum()) for done in journal.done)
    place.publish(documents)
    return stored


class _Unpublished:
    """A store whose documents are not written yet."""

    remote, lists = True, False

    def __init__(self, objects: ObjectStore, documents: Mapping[str, bytes]) -> None:
        self.path, self._objects, self._documents = objects.path, objects, documents

    def read(self, key: str) -> bytes | None:
        """Return a document, or what is stored."""
        found = self._documents.get(key)
        return found if found is not None or key.rpartition("/")[2] in DOCUMENTS else self._objects.read(key)

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return a part of what is stored."""
        return self._objects.read_range(key, start, count)
