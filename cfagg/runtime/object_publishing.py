"""A new Zarr store in an object store: chunks are written first, then metadata, with the root last and only if new.

Keys of a Zarr store are fixed, so two stores cannot be in one place.  A mark exists until the work is complete: it
keeps a second writer away, and distinguishes the leftovers of a killed run from other objects.  Beside it there may be
a journal, in objects that are each written once, from which a killed run is resumed.
"""

from __future__ import annotations

import math
import time
import uuid
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfagg.errors import CfaggWarning, TargetError, TargetExistsError
from cfagg.runtime.publishing import read_own
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url, refuse_url

__all__ = ["DOCUMENTS", "ROOT_DOCUMENTS", "Fenced", "NewStore", "new_there"]

#: The mark in an incomplete store, and the folder of its journal.
_MARK, _JOURNAL = ".cfagg-partial", ".cfagg-journal"

#: Documents of which every store has one at its root, and those of all nodes.
ROOT_DOCUMENTS = (".zarray", ".zgroup", "zarr.json")
DOCUMENTS = frozenset({*ROOT_DOCUMENTS, ".zattrs", ".zmetadata"})

#: Number of objects that are written at the same time.
_AT_ONCE = 16

#: Largest object that is written by one request, which may have a condition.
_CONDITIONAL = 1 << 30

#: Number of attempts for an object that others write too.
_ATTEMPTS = 4

#: Seconds for which a check of a mark is valid, and when this process last checked each.
_BELIEVED = 1.0
_seen: dict[bytes, float] = {}


@dataclass(frozen=True)
class Fenced:
    """Objects of a store during one run, sent to its workers; late workers cannot write into the store of another run.

    An object is written only if there is none, or over one that existed while the mark of the run was still there. The
    next run sets its own mark first and then removes or replaces the objects, so that their tags differ.
    """

    objects: ObjectStore
    mark: bytes
    #: The name of the object with the mark.
    name: str = _MARK

    def put(self, key: str, data: Any) -> str:
        """Write an object, and return its tag."""
        self.look()
        if memoryview(data).nbytes > _CONDITIONAL:
            self.check()
            return self.objects.put(key, data)
        with suppress(TargetExistsError):
            return self.objects.put(key, data, create=True)
        for _ in range(_ATTEMPTS):  # two workers may repeat a task at the same time
            state = self.objects._state(key)
            self.check()
            with suppress(TargetExistsError):
                return self.objects.put(key, data, create=state is None, match=None if state is None else state.tag)
        raise TargetExistsError(f"{self.objects.path}/{key} is being written by another process too; run again")

    def move(self, old: str, new: str) -> None:
        """Copy an object on the server, and remove the original."""
        self.look()
        self.objects.copy(old, new)
        self.objects.delete([old])

    def clear(self, folder: str) -> None:
        """Remove all objects below a folder."""
        self.check()
        self.objects.delete(list(self.objects.listed(folder)))

    def look(self) -> None:
        """Run `check`, at most once a second."""
        if time.monotonic() - _seen.get(self.mark, -math.inf) > _BELIEVED:
            self.check()

    def check(self) -> None:
        """Raise if the run has ended, or another one has taken over."""
        if self.objects.read(self.name) != self.mark:
            raise TargetExistsError(
                f"{self.objects.path} was taken over by another run, or this run has ended, so nothing more is written "
                "there; choose another target"
            )
        if len(_seen) > 100:
            _seen.clear()
        _seen[self.mark] = time.monotonic()


class NewStore:
    """The place of a new store; with `overwrite` an existing store, or the leftovers of a killed run, may be removed.

    With `resume` there may be leftovers of a killed run; `None` if the caller never resumes.
    """

    def __init__(self, objects: ObjectStore, *, overwrite: bool, resume: bool | None = None) -> None:
        self.objects, self.overwrite, self.resume = objects, overwrite, resume
        self._mark = uuid.uuid4().hex.encode()
        self.fenced = Fenced(objects, self._mark)
        self._segments: list[str] = []

    def check(self) -> None:
        """Raise if something exists that must not be replaced, before work begins."""
        path = self.objects.path
        for last in (False, True):
            if next(self.objects.listed(), None) is None:
                return
            # The mark of another run is there before the documents are removed, and as long as they are not.
            store = any(self.objects.size(name) is not None for name in ROOT_DOCUMENTS)
            partial = self.objects.size(_MARK) is not None
            if partial or store:
                break
            if last:  # no run has ended meanwhile
                raise TargetError(f"{path} contains objects that do not form a Zarr store; choose another target")
        if not self.overwrite and not (self.resume and partial):
            if store:
                raise TargetExistsError(f"{path} exists; choose another target or pass overwrite=True (--overwrite)")
            finish = "" if self.resume is None else "finish it with resume=True (--resume), or "
            raise TargetExistsError(
                f"{path} contains an incomplete store, which is being written or was left by an interrupted run; "
                f"{finish}"
                "remove it with overwrite=True (--overwrite)"
            )

    def journal(self) -> bytes | None:
        """Return the journal of an interrupted run that may be resumed, or `None` if there is none."""
        if not self.resume or self.objects.size(_MARK) is None:
            return None
        self._segments = sorted(self.objects.listed(_JOURNAL))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self.objects.read, self._segments))
        return b"".join(part or b"" for part in found) or None

    def record(self, data: bytes) -> None:
        """Write the next part of the journal, unless another run has taken over."""
        self.fenced.check()
        self._segments.append(f"{_JOURNAL}/{len(self._segments) + 1:08}")
        self.objects.put(self._segments[-1], data, create=True)

    def take_over(self) -> None:
        """Continue the work of a run whose journal was read; the place is not a store meanwhile."""
        self.objects.put(_MARK, self._mark)
        if sorted(self.objects.listed(_JOURNAL)) != self._segments:
            raise TargetExistsError(f"{self.objects.path} is being written by another run; wait until it has ended")
        self.objects.delete([name for name in DOCUMENTS if self.objects.size(name) is not None])

    def begin(self) -> None:
        """Take the place and remove the old objects, root metadata first, so that no mixture can be opened."""
        self.check()
        if self.overwrite:
            # Before anything is removed, refuse what cannot be removed.
            self.objects.check(self.objects.listed())
        self._segments = []
        left = self.resume and self.objects.size(_MARK) is not None
        self.objects.put(_MARK, self._mark, create=not (self.overwrite or left))
        keys = [key for key in self.objects.listed() if key != _MARK]
        if not keys:
            return
        warnings.warn(
            f"{self.objects.path} is removed before the new store is written: until that is complete, there is no "
            "store",
            CfaggWarning,
            stacklevel=2,
        )
        # First documents of the root, then those of other nodes, then chunks.
        keys.sort(key=lambda key: (key.rpartition("/")[2] not in DOCUMENTS, "/" in key))
        root = sum(key in DOCUMENTS for key in keys)
        self.objects.delete(keys[:root])
        self.objects.delete(keys[root:])

    def publish(self, documents: Mapping[str, bytes]) -> None:
        """Write the documents, those of the root last, unless another run has taken over."""
        self.fenced.check()
        *first, last = sorted(documents, key=lambda key: ("/" not in key, key in ROOT_DOCUMENTS))
        for key in first:
            self.objects.put(key, documents[key])
        self.objects.put(last, documents[last], create=True)
        try:
            self.fenced.check()
        except TargetExistsError:
            # Another run came in between and removes or replaces the objects; these documents are not of its chunks.
            if self.objects.size(_MARK) is not None:
                self.objects.delete([last])
            raise
        self.objects.delete([*self._segments, _MARK])

    def abandon(self) -> None:
        """Remove everything that was written, unless another run has taken over; the mark is removed last."""
        self.fenced.check()
        self.objects.delete([key for key in self.objects.listed() if key != _MARK])
        self.objects.delete([_MARK])

    def upload(self, folder: Path) -> None:
        """Upload a complete local store."""
        self.begin()
        files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        kept = {key: path for key, path in files.items() if not key.startswith(".cfagg")}
        chunks = [key for key in kept if key.rpartition("/")[2] not in DOCUMENTS]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda key: self.objects.put(key, kept[key]), chunks):
                pass
        self.publish({key: read_own(path) for key, path in kept.items() if key.rpartition("/")[2] in DOCUMENTS})


def new_there(target: Url, *, overwrite: bool) -> NewStore:
    """Return the place of a new store at a URL, if one may be written there."""
    if target.lower().startswith("http"):
        refuse_url(target, "written")
    place = NewStore(ObjectStore(target, target.options.given, options_name="target_options"), overwrite=overwrite)
    place.check()
    return place
