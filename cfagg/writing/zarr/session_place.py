"""Writing to a branch of an Icechunk repository: nothing is visible until one commit, which publishes everything."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from cfagg.errors import TargetError
from cfagg.errors.redacting import redacted
from cfagg.formats.icechunk import BRANCH, IcechunkStore, checked_root
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.settings import put_sync, unequal_chunks
from cfagg.storage.store import check_key
from cfagg.storage.urls import Url
from cfagg.writing.zarr.local_place import LocalPlace
from cfagg.writing.zarr.repository import Place as Repository

__all__ = ["SessionPlace"]

#: Key of the documents that would hold consolidated metadata, which repositories do without.
_CONSOLIDATED = "consolidated_metadata"


class SessionPlace:
    """The content of a branch, as in `cfagg.writing.zarr.place.Place`; it is opened anew by each writer.

    A writer that is killed, or fails, has changed nothing; of two that commit, the second is refused.
    """

    commits = True

    def __init__(self, where: Path | Url) -> None:
        self.remote = isinstance(where, Url)
        self._where = where
        self._repository = Repository(where)
        self.store = redacted(checked_root(where))
        self._session: Any = None
        #: Documents with the metadata of all nodes below, as `cfagg.writing.zarr.group_state` expects them.
        self._held: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"SessionPlace({self.store!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Raise an error: a session may hold keys."""
        raise TypeError(f"the session of {self.store} cannot be sent to another process")

    @property
    def _content(self) -> IcechunkStore:
        where = self._where if isinstance(self._where, Url) else self.store
        return IcechunkStore(self._session.store, "", self.store, where)

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return the stored bytes, with no tag: the commit finds out whether another process has written."""
        with self._lock:
            held = self._held.get(key)
        found = held if held is not None else self._content.read(check_key(self.store, key))
        return None if found is None else (found, None)

    known = read

    def opens(self, path: str) -> Any:
        """Return a read function for an object at a path below the store, its size, and a tag of its state."""
        return self._content.opens(path)

    def array(self, path: str) -> Any:
        """Return an array, opened with zarr-python."""
        return self._content.array(path, 3)

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write an object into the session."""
        del new
        put_sync(self._session.store, check_key(self.store, key), bytes(data))

    stage = put

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Write several objects into the session."""
        for key, data in objects.items():
            self.put(key, data)

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Replace a document in the session; metadata of other nodes in it are held for this writer only."""
        del tag
        document = json.loads(data)
        if _CONSOLIDATED in document:
            with self._lock:
                self._held[key] = data
            document.pop(_CONSOLIDATED)
        former = self._content.read(key)
        if former is None or json.loads(former) != document:
            self.put(key, document_bytes(document))

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Replace documents, and commit the session: everything is published, or an error is raised and nothing is."""
        import icechunk

        with unequal_chunks():
            for write in writes:
                self.swap(*write)
        # Chunks must be on disk before anything refers to them.
        self._repository.sync()
        try:
            self._session.commit("cfagg append")
        except icechunk.ConflictError as error:
            raise TargetError(
                f"{self.store}: another process has made a commit meanwhile, so nothing was appended; run again"
            ) from error
        self._repository.sync()
        return [None for _ in writes]

    def delete(self, keys: Iterable[str]) -> None:
        """Do nothing: a session that is not committed leaves nothing behind."""

    def children(self, folder: str) -> Iterable[str]:
        """Return the names below a folder, or of the store itself if it is ``""``."""
        return self._content.children(folder)

    def sync(self) -> None:
        """Do nothing: what was written is forced to disk before it is committed."""

    @contextmanager
    def writer(self, doing: str) -> Iterator[_SessionClaim]:
        """Open a session; on this machine, only one process writes at a time."""
        alone = nullcontext() if isinstance(self._where, Url) else LocalPlace(self.store).writer(doing)
        with self._repository.reporting_errors(), alone:
            self._session, self._held = self._repository.open().writable_session(BRANCH), {}
            yield _SessionClaim()


class _SessionClaim:
    """A claim without a record: there is nothing to roll back."""

    left: bytes | None = None

    def record(self, intent: bytes) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""
