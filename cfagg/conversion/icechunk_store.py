"""Icechunk repositories as a conversion writes them: documents and chunks by key, in one session."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.settings import clear_sync, put_sync

__all__ = ["SessionPut", "described"]


def described(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the documents of a store, parents first, without consolidated metadata, which a repository has itself."""
    root = {k: v for k, v in json.loads(documents["zarr.json"]).items() if k != "consolidated_metadata"}
    return {"zarr.json": document_bytes(root), **{k: v for k, v in documents.items() if k != "zarr.json"}}


class SessionPut:
    """Writes objects into a session, from any thread; nothing is seen of them before the session is committed.

    Workers of a cluster write into forks of it, one for each task, which come back with what was written and are
    merged: a task that is done twice changes nothing twice.
    """

    def __init__(self, session: Any) -> None:
        self._session, self._forks = session, True

    def __call__(self, key: str, data: Any) -> int:
        """Write an object under its key, and return its checksum."""
        put_sync(self._session.store, key, bytes(data))
        return crc32(data)

    def clear(self) -> None:
        """Remove everything that the session holds."""
        clear_sync(self._session.store)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker gets: a fork of the session as it is now."""
        return {"_session": self._session.fork() if self._forks else self._session, "_forks": False}

    def forked(self) -> SessionPut:
        """Return what writes one task, in a worker."""
        made: SessionPut = pickle.loads(pickle.dumps(self))  # noqa: S301 - what was pickled in this line
        return made

    def merge(self, other: SessionPut) -> None:
        """Take over what a task has written."""
        self._session.merge(other._session)
