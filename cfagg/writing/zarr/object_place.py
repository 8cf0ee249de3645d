"""Writing to a store in an object store, one writer at a time, using conditional puts.

A writer holds a claim: an object that it creates only if there is none, and renews. A claim that is not renewed, or
whose process on this machine no longer exists, is taken over. A writer that was merely slow then finds that it is too
late: chunks are only written if they are in the state seen while the claim was valid, and the new writer rewrites the
publishing document with other trailing blanks, so that its tag changes.
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
from cfagg.formats.zarr.consolidated import CLAIM
from cfagg.storage.objects import ObjectStore
from cfagg.storage.recent import Recent
from cfagg.storage.store import MAX_OBJECT, check_key
from cfagg.storage.urls import Url

__all__ = ["LEASE", "RENEWED", "ObjectPlace", "content_of", "is_gone", "who"]

#: Seconds after which a claim may be taken over, and after which its writer renews it.
LEASE, RENEWED = 120.0, 30.0

#: Seconds after writing its claim during which a writer need not check it, since nobody can take it over.
BELIEVED = 10.0

#: Number of objects that are put concurrently.
_AT_ONCE = 16

#: Documents that publish what was written; the first that exists is used.
_PUBLISHING = ("zarr.json", ".zmetadata", ".zarray")


class ObjectPlace:
    """A store at a URL in an object store."""

    remote = True
    commits = False
    opens = None

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
        }  # other processes check the claim each time

    def __repr__(self) -> str:
        return f"ObjectPlace({self.objects.path!r})"

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return the stored bytes and their tag, or `None` if there are none."""
        found = self.objects.part(check_key(self.objects.path, key), 0, MAX_OBJECT)
        if found is None:
            return None
        if found.size > MAX_OBJECT:
            raise LimitError(f"{self.objects.path}/{key} has {found.size:,} bytes; at most {MAX_OBJECT:,} are read")
        return found.body, (found.tag or "").strip('"')

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write an object; a writer does so only while its claim is valid."""
        if self._holder is None:
            self._put(key, data)
            return
        try:
            if new:
                with contextlib.suppress(TargetExistsError):
                    self._put(key, data, create=True)
                    return
            tag = self._tag(key)
            # In this order: a new writer writes after taking over, and the tag changes.
            self._check_claim()
            self._put(key, data, create=tag is None, match=tag)
        except TargetExistsError as error:
            raise self._others(key) from error

    def known(self, key: str) -> tuple[bytes, Any] | None:
        """Return the bytes that this writer wrote last, or else the stored ones, and their tag."""
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
        """Write objects, some concurrently."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(lambda item: self.put(*item), objects.items()):
                pass

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Replace objects, each if it has a tag, one after the other."""
        return [self.swap(*write) for write in writes]

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Replace an object if it has a tag (`None` if it must not exist); return its new tag."""
        if self._holder is not None:
            self._check_claim()
        try:
            return self._put(key, data, create=tag is None, match=tag)
        except TargetExistsError as error:
            # The response may have been lost on its way here.
            found = self.read(key)
            if found is not None and found[0] == data:
                return found[1]
            raise self._others(key) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, if they exist."""
        names = [check_key(self.objects.path, key) for key in keys]
        if (recent := self._recent) is not None:
            for name in names:
                recent.forget(name)
        self.objects.delete(names)

    def children(self, folder: str) -> list[str]:
        """Return the names of folders below a folder, or of the store itself if it is ``""``."""
        return sorted(name for name in self.objects.children(folder) if not name.startswith("."))

    def sync(self) -> None:
        """Do nothing, as objects are stored once the server has responded."""

    @contextmanager
    def writer(self, doing: str) -> Iterator[_ObjectClaim]:
        """Hold the claim of the store; raise `TargetError` if another process holds it."""
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
    """The claim of one writer on a store, and its record."""

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
        """Whether the claim was written so recently that nobody can have taken it over."""
        return time.monotonic() - self._written < min(BELIEVED, LEASE)

    def take(self) -> None:
        """Create the claim, or take over that of a writer that no longer exists."""
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
        if content.get("holder") == self.holder:  # the response to the put was lost
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
        """Change the tag of the publishing document, so that the former writer cannot replace it."""
        for key in _PUBLISHING:
            state = self.objects._state(key)
            if state is None:
                continue
            text = (self.objects.read(key) or b"").rstrip()
            blanks = bytes(secrets.choice(b" \t") for _ in range(64)) + b"\n"  # such as nobody wrote before
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
        """Forget the record; the claim itself is removed soon."""
        self._intent = self.left = None

    def hold(self) -> None:
        """Renew the claim if it was not written recently; this fails if another process has it."""
        with self._lock:
            if not self.believed:
                self._rewrite()

    def renew(self) -> None:
        """Renew the claim until the work is done."""
        while not self.ended.wait(RENEWED):
            with contextlib.suppress(CfaggError):  # the next write finds that it is lost
                self._write()

    def leave(self) -> None:
        """Remove the claim, or leave the record to the next writer."""
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
        # Each is unique, so that each has its own tag.
        return json.dumps({**content, "nonce": secrets.token_hex(8)}).encode()


def content_of(text: bytes) -> dict[str, Any]:
    """Return the content of a claim, or an empty one if it is not a claim."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def who() -> dict[str, Any]:
    """Return properties that identify this process."""
    return {"host": platform.node(), "machine": _machine(), "process": os.getpid(), "since": _began(os.getpid())}


def is_gone(claimed: dict[str, Any]) -> bool:
    """Return whether a claim was made by a process of this machine that no longer exists."""
    process, machine = claimed.get("process"), _machine()
    if machine is None or claimed.get("machine") != machine or type(process) is not int:
        return False
    return _began(process) != claimed.get("since")


def _machine() -> str | None:
    """Return an identifier of this machine since its start, and of this container; `None` if there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return None


def _began(process: int) -> str | None:
    """Return the start time of a process, or `None` if it does not exist."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (OSError, ValueError):
        return None
    rest = text.rpartition(")")[2].split()
    # A process that has ended but has not been waited for does not count.
    return None if rest[0] in "ZX" else rest[19]
