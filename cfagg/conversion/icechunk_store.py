"""Icechunk repositories on this machine as a conversion writes them: documents and chunks by key, in one session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from cfagg.formats.fastzlib import crc32
from cfagg.formats.icechunk import BRANCH
from cfagg.formats.zarr.creating import document_bytes

__all__ = ["BRANCH", "SessionPut", "create", "described", "is_repository", "opened", "said"]


def is_repository(path: Path) -> bool:
    """Return whether a directory holds a repository."""
    if not path.is_dir():
        return False
    icechunk = _library()
    return bool(icechunk.Repository.exists(icechunk.local_filesystem_storage(str(path))))


def create(path: Path) -> Any:
    """Return a new repository in an empty directory."""
    icechunk = _library()
    return icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)))


def opened(path: Path) -> Any:
    """Return the repository in a directory."""
    icechunk = _library()
    return icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))


def said(error: BaseException) -> str | None:
    """Return the first line of what Icechunk says, `None` of other errors."""
    return str(error).partition("\n")[0] if isinstance(error, _library().IcechunkError) else None


def _library() -> Any:
    import icechunk

    icechunk.set_logs_filter("error")
    return icechunk


def described(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the documents of a store, parents first, without consolidated metadata, which a repository has itself."""
    root = {k: v for k, v in json.loads(documents["zarr.json"]).items() if k != "consolidated_metadata"}
    return {"zarr.json": document_bytes(root), **{k: v for k, v in documents.items() if k != "zarr.json"}}


class SessionPut:
    """Writes objects into a session, from any thread; nothing is seen of them before the session is committed."""

    def __init__(self, session: Any) -> None:
        self._store = session.store

    def __call__(self, key: str, data: Any) -> int:
        """Write an object under its key, and return its checksum."""
        sync, buffer = self._zarr
        sync(self._store.set(key, buffer(bytes(data))))
        return crc32(data)

    def clear(self) -> None:
        """Remove everything that the session holds."""
        sync, _ = self._zarr
        sync(self._store.clear())

    @cached_property
    def _zarr(self) -> tuple[Any, Any]:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        return sync, default_buffer_prototype().buffer.from_bytes
