"""A new Zarr store in an object store: chunks first, then metadata, the root's last and only where there are none.

Keys of a Zarr store are fixed, so that two stores cannot stand in one place.  A mark is there while the work is not
done: it keeps a second writer away, and tells what a killed run left from objects of somebody else.  A journal can be
kept beside it, as objects that are each written once, from which a run that was killed is finished.
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

#: What stands in a store that is not complete, and the folder of its journal.
_MARK, _JOURNAL = ".cfagg-partial", ".cfagg-journal"

#: Documents one of which every store has at its root, and those of all nodes.
ROOT_DOCUMENTS = (".zarray", ".zgroup", "zarr.json")
DOCUMENTS = frozenset({*ROOT_DOCUMENTS, ".zattrs", ".zmetadata"})

#: Objects that are written at the same time.
_AT_ONCE = 16

#: Bytes of an object up to which it is written by one request, which may have a condition.
_CONDITIONAL = 1 << 30

#: Times that an object is tried which others write too.
_ATTEMPTS = 4

#: Seconds for which a mark that was seen is believed, and when each was seen by this process.
_BELIEVED = 1.0
_seen: dict[bytes, float] = {}


@dataclass(frozen=True)
class Fenced:
    """Objects of a store while one run writes it, sent to its workers: late ones cannot write into that of another run.

    An object is written where there is none, or over one that was there while the mark of the run still was: the next
    run sets its own mark first, and then removes or replaces what is there, so that its tag is another one.
    """

    objects: ObjectStore
    mark: bytes
    #: The object that holds the mark.
    name: str = _MARK

    def put(self, key: str, data: Any) -> str:
        """Write an object, and return its tag."""
        self.look()
        if memoryview(data).nbytes > _CONDITIONAL:
            self.check()
            return self.objects.put(key, data)
        with suppress(TargetExistsError):
            return self.objects.put(key, data, create=True)
        for _ in range(_ATTEMPTS):  # a task that is done again by two workers at once
            state = self.objects._state(key)
            self.check()
            with suppress(TargetExistsError):
                return self.objects.put(key, data, create=state is None, match=None if state is None else state.tag)
        raise TargetExistsError(f"{self.objects.path}/{key} is being written by another process too; run again")

    def move(self, old: str, new: str) -> None:
        """Copy an object at the server, and remove it."""
        self.look()
        self.objects.copy(old, new)
        self.objects.delete([old])

    def clear(self, folder: str) -> None:
        """Remove all objects below a folder."""
        self.check()
        self.objects.delete(list(self.objects.listed(folder)))

    def look(self) -> None:
        """Raise as `check` does, which is done once a second."""
        if time.monotonic() - _seen.get(self.mark, -math.inf) > _BELIEVED:
            self.check()

    def check(self) -> None:
        """Raise where the run has ended, or another one has taken the place."""
        if self.objects.read(self.name) != self.mark:
            raise TargetExistsError(
                f"{self.objects.path} was taken over by another run, or this run has ended, so nothing more is written "
                "there; choose another target"
            )
        if len(_seen) > 100:
            _seen.clear()
        _seen[self.mark] = time.monotonic()


class NewStore:
    """The place of a new store; with `overwrite` a store that is there, or what a killed run left, may be removed.

    With `resume` what a killed run left may be there; `None` where nothing is resumed by those who write.
    """

    def __init__(self, objects: ObjectStore, *, overwrite: bool, resume: bool | None = None) -> None:
        self.objects, self.overwrite, self.resume = objects, overwrite, resume
        self._mark = uuid.uuid4().hex.encode()
        self.fenced = Fenced(objects, self._mark)
        self._segments: list[str] = []

    def check(self) -> None:
        """Raise where something is there that may not be replaced, before work begins."""
        path = self.objects.path
        if next(self.objects.listed(), None) is None:
            return
        partial = self.objects.size(_MARK) is not None
        store = any(self.objects.size(name) is not None for name in ROOT_DOCUMENTS)
        if not (partial or store):
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
        """Return the journal of a run that was cut short and may be finished, `None` where there is none."""
        if not self.resume or self.objects.size(_MARK) is None:
            return None
        self._segments = sorted(self.objects.listed(_JOURNAL))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(self.objects.read, self._segments))
        return b"".join(part or b"" for part in found) or None

    def record(self, data: bytes) -> None:
        """Write the next part of the journal, unless another run has taken the place over."""
        self.fenced.check()
        self._segments.append(f"{_JOURNAL}/{len(self._segments) + 1:08}")
        self.objects.put(self._segments[-1], data, create=True)

    def take_over(self) -> None:
        """Go on with what a run left whose journal was read; it is no store meanwhile."""
        self.objects.put(_MARK, self._mark)
        if sorted(self.objects.listed(_JOURNAL)) != self._segments:
            raise TargetExistsError(f"{self.objects.path} is being written by another run; wait until it has ended")
        self.objects.delete([name for name in DOCUMENTS if self.objects.size(name) is not None])

    def begin(self) -> None:
        """Take the place, and remove what is there: what makes it a store first, so that no mixture opens."""
        self.check()
        if self.overwrite:
            # Before anything is removed, what cannot be.
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
        # Documents of the root, then those of other nodes, then chunks.
        keys.sort(key=lambda key: (key.rpartition("/")[2] not in DOCUMENTS, "/" in key))
        root = sum(key in DOCUMENTS for key in keys)
        self.objects.delete(keys[:root])
        self.objects.delete(keys[root:])

    def publish(self, documents: Mapping[str, bytes]) -> None:
        """Write the documents, those of the root last, unless another run has taken the place over."""
        self.fenced.check()
        *first, last = sorted(documents, key=lambda key: ("/" not in key, key in ROOT_DOCUMENTS))
        for key in first:
            self.objects.put(key, documents[key])
        self.objects.put(last, documents[last], create=True)
        try:
            self.fenced.check()
        except TargetExistsError:
            # Another run came in between, and removes what is there, or has: these documents are not of its chunks.
            if self.objects.size(_MARK) is not None:
                self.objects.delete([last])
            raise
        self.objects.delete([*self._segments, _MARK])

    def abandon(self) -> None:
        """Remove what was written, unless another run has taken the place over; the mark goes last."""
        self.fenced.check()
        self.objects.delete([key for key in self.objects.listed() if key != _MARK])
        self.objects.delete([_MARK])

    def upload(self, folder: Path) -> None:
        """Write a complete store of this machine there."""
        self.begin()
        files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        kept = {key: path for key, path in files.items() if not key.startswith(".cfagg")}
        chunks = [key for key in kept if key.rpartition("/")[2] not in DOCUMENTS]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda key: self.objects.put(key, kept[key]), chunks):
                pass
        self.publish({key: read_own(path) for key, path in kept.items() if key.rpartition("/")[2] in DOCUMENTS})


def new_there(target: Url, *, overwrite: bool) -> NewStore:
    """Return the place of a new store at a URL, where one may be written."""
    if target.lower().startswith("http"):
        refuse_url(target, "written")
    place = NewStore(ObjectStore(target, target.options.given, options_name="target_options"), overwrite=overwrite)
    place.check()
    return place
