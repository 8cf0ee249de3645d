"""Writing to a store of objects: one writer at a time, by conditional puts.

The writer's claim is an object that it makes only where there is none, and renews.  A claim that is not renewed, or
whose process is gone from this machine, is taken over.  A writer that was only slow finds then that it comes too late:
chunks are written where they are in the state that it saw while its claim held, and the document that publishes them is
written anew by whoever takes over, with other blanks at its end, so that it has another tag.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfagg.errors import CfaggError, LimitError, TargetError, TargetExistsError
from cfagg.storage.objects import ObjectStore
from cfagg.storage.recent import Recent
from cfagg.storage.store import MAX_OBJECT, check_key
from cfagg.storage.urls import Url
from cfagg.writing.zarr.local_place import CLAIM

__all__ = ["LEASE", "RENEWED", "ObjectPlace", "content_of", "is_gone", "who"]

#: Seconds after which a claim may be taken over, and after which its writer renews it.
LEASE, RENEWED = 120.0, 30.0

#: Seconds after writing its claim for which a writer does not look at it: nobody takes it over in this time.
BELIEVED = 10.0

#: Objects that are put at the same time.
_AT_ONCE = 16

#: Documents that publish what was written, the first that is there.
_PUBLISHING = ("zarr.json", ".zmetadata", ".zarray")


class ObjectPlace:
    """A store at the URL of an object store."""

    remote = True

    def __init__(self, store: Url, objects: ObjectStore) -> None:
        self.store: str = store
        self._url = store
        self._recent: Recent | None = store.recent
        self.objects = objects
        self._holder: str | None = None
        self._claim: _ObjectClaim | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "store": self._url,
            "_claim": None,
            "_recent": None,
        }  # other processes look at the claim each time

    def __repr__(self) -> str:
        return f"ObjectPlace({self.objects.path!r})"

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return what is stored and its tag, `None` where there is nothing."""
        found = self.objects.part(check_key(self.objects.path, key), 0, MAX_OBJECT)
        if found is None:
            return None
        if found.size > MAX_OBJECT:
            raise LimitError(f"{self.objects.path}/{key} has {found.size:,} bytes; at most {MAX_OBJECT:,} are read")
        return found.body, (found.tag or "").strip('"')

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write an object, by a writer only while its claim holds."""
        if self._holder is None:
            self._put(key, data)
            return
        try:
            if new:
                with contextlib.suppress(TargetExistsError):
                    self._put(key, data, create=True)
                    return
            tag = self._tag(key)
            # In this order: whoever takes over writes after that, and the tag changes.
            self._check_claim()
            self._put(key, data, create=tag is None, match=tag)
        except TargetExistsError as error:
            raise self._others(key) from error

    def known(self, key: str) -> tuple[bytes, Any] | None:
        """Return what this call wrote last, else what is stored, and its tag."""
        found = None if self._recent is None else self._recent.part(key)
        return self.read(key) if found is None else (found.body, found.tag)

    def _put(self, key: str, data: Any, *, create: bool = False, match: str | None = None) -> str:
        """Write an object, and return its tag."""
        if self._recent is not None:
            self._recent.forget(key)
        tag = self.objects.put(key, data, create=create, match=match)
        if self._recent is not None:
            self._recent.keep(key, memoryview(data).cast("B"), tag)
        return tag

    def stage(self, key: str, data: Any) -> None:
        """Write an object."""
        self.put(key, data)

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Write objects, some at the same time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda item: self.put(*item), objects.items()):
                pass

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Write objects, each if it has a tag, one after the other."""
        return [self.swap(*write) for write in writes]

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Write an object that has a tag, `None` for one that is not there; return its new tag."""
        if self._holder is not None:
            self._check_claim()
        try:
            return self._put(key, data, create=tag is None, match=tag)
        except TargetExistsError as error:
            # An answer may have been lost on its way here.
            found = self.read(key)
            if found is not None and found[0] == data:
                return found[1]
            raise self._others(key) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there."""
        names = [check_key(self.objects.path, key) for key in keys]
        if (recent := self._recent) is not None:
            for name in names:
                recent.forget(name)
        self.objects.delete(names)

    def children(self, folder: str) -> list[str]:
        """Return the names of folders below a folder, ``""`` for the store itself."""
        return sorted(name for name in self.objects.children(folder) if not name.startswith("."))

    def sync(self) -> None:
        """Objects are there when the server has answered."""

    @contextmanager
    def writer(self, doing: str) -> Iterator[_ObjectClaim]:
        """Hold the claim of the store; `TargetError` where another process has it."""
        claim = _ObjectClaim(self.objects, doing)
        claim.take()
        self._holder, self._claim = claim.holder, claim
        self.store = store = self._url.anew
        store.recent = self._recent = Recent()
        renewing = threading.Thread(target=claim.renew, name="cfagg-claim", daemon=True)
        renewing.start()
        try:
            yield claim
        finally:
            claim.ended.set()
            renewing.join()
            self._holder = self._claim = None
            store.recent = self._recent = None
            claim.leave()

    def _tag(self, key: str) -> str | None:
        known = None if self._recent is None else self._recent.tag(key)
        if known is not None:
            return known
        found = self.objects._state(key)
        return None if found is None else found.tag

    def _check_claim(self) -> None:
        if self._claim is not None:
            self._claim.hold()
            return
        held = self.objects.read(CLAIM)
        if held is None or content_of(held).get("holder") != self._holder:
            raise TargetError(f"{self.objects.path} was taken over by another process; nothing was published")

    def _others(self, key: str) -> TargetError:
        return TargetError(
            f"{self.objects.path}/{key} was meanwhile written by another process and left as it is; run again"
        )


class _ObjectClaim:
    """The claim of one writer on a store, and what it has recorded."""

    def __init__(self, objects: ObjectStore, doing: str) -> None:
        self.objects, self.doing = objects, doing
        self.holder = secrets.token_hex(16)
        self.left: bytes | None = None
        self.ended = threading.Event()
        self._intent: str | None = None
        self._tag: str | None = None
        self._written = -BELIEVED
        self._lock = threading.Lock()

    @property
    def believed(self) -> bool:
        """Whether the claim was written so lately that nobody can have taken it over."""
        return time.monotonic() - self._written < min(BELIEVED, LEASE)

    def take(self) -> None:
        """Make the claim, or take over that of a writer who is gone."""
        begun = time.monotonic()
        self._make()
        self._written = begun

    def _make(self) -> None:
        try:
            self._tag = self.objects.put(CLAIM, self._text(), create=True)
        except TargetExistsError:
            self._take_over()

    def _take_over(self) -> None:
        state, found = self.objects._state(CLAIM), self.objects.read(CLAIM)
        if state is None or found is None:
            raise TargetError(f"{self.objects.path}: another process has just ended {self.doing} there; run again")
        content = content_of(found)
        if content.get("holder") == self.holder:  # the answer to the put was lost
            self._tag = state.tag
            return
        age = (time.time_ns() - state.modified) / 1e9
        if not content.get("released") and not is_gone(content) and age < LEASE:
            said = f"{content.get('doing', 'writing')}"
            who = f"process {content.get('process')} of {content.get('host')}"
            raise TargetError(
                f"{self.objects.path}: another process is {said} there ({who}); wait for it, or stop it: if it was "
                f"killed, its claim ends in {max(LEASE - age, 1):.0f} s"
            )
        left = content.get("intent")
        self._intent = left if isinstance(left, str) else None
        try:
            self._tag = self.objects.put(CLAIM, self._text(), match=state.tag)
        except TargetExistsError as error:
            raise TargetError(f"{self.objects.path}: another process is {self.doing} there; wait for it") from error
        self.left = None if self._intent is None else self._intent.encode()
        self._fence()

    def _fence(self) -> None:
        """Give the document that publishes another tag, so that the former writer cannot."""
        for key in _PUBLISHING:
            state = self.objects._state(key)
            if state is None:
                continue
            text = (self.objects.read(key) or b"").rstrip()
            blanks = b" " * secrets.randbelow(200) + b"\n"
            try:
                self.objects.put(key, text + blanks, match=state.tag)
            except TargetExistsError as error:
                raise TargetError(
                    f"{self.objects.path}/{key} is being written by another process; run again"
                ) from error
            return

    def record(self, intent: bytes) -> None:
        """Record what is about to be done."""
        self._intent = intent.decode()
        self._write()

    def forget(self) -> None:
        """Forget it; the claim itself is removed soon."""
        self._intent = self.left = None

    def hold(self) -> None:
        """Renew the claim where it was not written lately, which fails where somebody else has it."""
        with self._lock:
            if not self.believed:
                self._rewrite()

    def renew(self) -> None:
        """Renew the claim until the work is done."""
        while not self.ended.wait(RENEWED):
            with contextlib.suppress(CfaggError):  # whoever writes next finds that it is lost
                self._write()

    def leave(self) -> None:
        """Remove the claim, or leave what is recorded to the next writer."""
        with contextlib.suppress(CfaggError):
            if self._intent is not None:
                self._write(released=True)
            elif self.believed or content_of(self.objects.read(CLAIM) or b"").get("holder") == self.holder:
                self.objects.delete([CLAIM])

    def _write(self, **more: Any) -> None:
        with self._lock:
            self._rewrite(**more)

    def _rewrite(self, **more: Any) -> None:
        begun = time.monotonic()
        try:
            self._tag = self.objects.put(CLAIM, self._text(**more), match=self._tag)
            self._written = begun
        except TargetExistsError as error:
            said = f"{self.objects.path} was taken over by another process; nothing was published"
            raise TargetError(said) from error

    def _text(self, **more: Any) -> bytes:
        content = {"holder": self.holder, "doing": self.doing, "intent": self._intent, **who(), **more}
        # No two are alike, so that each has a tag of its own.
        return json.dumps({**content, "nonce": secrets.token_hex(8)}).encode()


def content_of(text: bytes) -> dict[str, Any]:
    """Return what a claim says, nothing where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def who() -> dict[str, Any]:
    """Return what tells this process from all others."""
    return {"host": platform.node(), "machine": _machine(), "process": os.getpid(), "since": _began(os.getpid())}


def is_gone(claimed: dict[str, Any]) -> bool:
    """Return whether the process that made a claim was one of this machine and is there no more."""
    process, machine = claimed.get("process"), _machine()
    if machine is None or claimed.get("machine") != machine or type(process) is not int:
        return False
    return _began(process) != claimed.get("since")


def _machine() -> str | None:
    """Return what tells this machine, since it was started, and this container of it; `None` where nothing does."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return None


def _began(process: int) -> str | None:
    """Return when a process began, `None` where there is none."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (OSError, ValueError):
        return None
    rest = text.rpartition(")")[2].split()
    # A process that has ended and is not waited for is none.
    return None if rest[0] in "ZX" else rest[19]
