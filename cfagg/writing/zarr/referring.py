"""A lazy array as an Icechunk repository that refers to the stored chunks of its sources, in one commit.

A chunk that can be reused unchanged and is in a local file becomes a virtual chunk; all others are written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfagg.display.sizes import count_text
from cfagg.errors import TargetError, UnsupportedError
from cfagg.formats.icechunk import BRANCH
from cfagg.formats.zarr.settings import clear_sync, put_sync
from cfagg.runtime.publishing import reason
from cfagg.storage.files import close_read
from cfagg.storage.tree import open_file
from cfagg.storage.urls import Url
from cfagg.writing.exports import icechunk as repositories
from cfagg.writing.exports import virtual
from cfagg.writing.zarr.new_store import Stored, read_stored
from cfagg.writing.zarr.repository import Place

__all__ = ["References", "refers", "write_elsewhere", "write_repository"]


def refers(source: Stored) -> bool:
    """Return whether a stored object can be referred to, that is, whether it is a local file."""
    return source.opens is None and not isinstance(source.store, Url)


@dataclass(eq=False)
class References:
    """The chunks of a repository that is being written, by key; copying needs no more of `new_store.Keys`."""

    store: Any
    #: Whether references are written; on other machines, local files are meaningless and everything is written.
    may_refer: bool = True
    #: For each array, what it refers to.
    specs: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of chunks that are referred to."""
        return sum(map(len, self.specs.values()))

    def put(self, key: str, data: Any) -> int:
        """Write a chunk."""
        view = memoryview(data).cast("B")
        put_sync(self.store, key, bytes(view))
        return view.nbytes

    def copy(self, key: str, source: Stored) -> int | None:
        """Refer to a chunk or write its content; do nothing and return `None` if it does not exist."""
        if not (self.may_refer and refers(source)):
            found = read_stored(source)
            return None if found is None else self.put(key, found)
        there = open_file(source.store, source.path, source.allow)
        if there is None:
            return None
        fd, status = there
        close_read(fd)
        self._refer(key, os.path.realpath(source.path), status)
        return status.st_size

    def _refer(self, key: str, path: str, status: os.stat_result) -> None:
        import icechunk

        name, _, place = key.partition("/c")
        index = [int(n) for n in place.split("/") if n]
        spec = icechunk.VirtualChunkSpec(
            index,
            virtual.located(path),
            0,
            status.st_size,
            last_updated_at_checksum=virtual.modified(status.st_mtime_ns),
        )
        self.specs.setdefault(name, []).append(spec)


def write_repository(
    target: str, documents: Mapping[str, bytes], stores: Sequence[str], fill: Any, *, overwrite: bool
) -> tuple[References, list[str]]:
    """Write a repository with `fill`, which passes chunks to its references, below directories of `stores`."""
    from cfagg.writing.exports.exporting import check_output, write_directory

    repositories.require_icechunk()
    check_output(target, None, directory=True, overwrite=overwrite)
    made: list[References] = []

    def write(folder: Path) -> Sequence[str]:
        import icechunk

        try:
            made.append(_write(folder, documents, stores, fill))
        except icechunk.IcechunkError as error:
            said = reason(OSError(str(error).partition("\n")[0]))
            raise TargetError(f"{target} was not written; Icechunk reports: {said}") from error
        return ()

    write_directory(target, write, overwrite=overwrite)
    places = virtual.places_of(f"{s}/x" for s in stores)
    return made[0], repositories.access_note(places) if made[0].count else []


def write_elsewhere(target: Url, documents: Mapping[str, bytes], fill: Any, *, overwrite: bool) -> None:
    """Write a repository in S3, or a commit of one, that contains all its chunks."""
    place = Place(target)
    with place.reporting_errors():
        repository = place.open() if place.may_be_written(overwrite=overwrite) else place.create()
        session = repository.writable_session(BRANCH)
        clear_sync(session.store)
        _fill(session, documents, fill, References(session.store, may_refer=False))


def _write(folder: Path, documents: Mapping[str, bytes], stores: Sequence[str], fill: Any) -> References:
    session = repositories.new_repository(folder, virtual.places_of(f"{s}/x" for s in stores))
    return _fill(session, documents, fill, References(session.store))


def _fill(session: Any, documents: Mapping[str, bytes], fill: Any, references: References) -> References:
    """Write documents, chunks and references, and commit them."""
    from cfagg.formats.zarr.settings import unequal_chunks

    store = session.store
    with unequal_chunks():
        for key in sorted(documents, key=lambda key: "/" in key):
            put_sync(store, key, documents[key])
        fill(references)
        for name, specs in references.specs.items():
            refused = store.set_virtual_refs(f"/{name}", specs)
            if refused:
                raise UnsupportedError(
                    f"array {name!r}: Icechunk takes no reference for {count_text(len(refused), 'chunk')}"
                )
        session.commit("cfagg")
    return references
