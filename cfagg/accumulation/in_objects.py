"""Accumulations in object stores, which are built in a directory for temporary files and then published.

A later run on the same machine finishes the work of a killed one.  The arrays of each build have unique names and are
written first.  One conditional put of the group's metadata, which fails if these have changed since the build began,
adds the arrays to the group.  Finally, obsolete objects are removed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cfagg.accumulation.build_plan import Plan
from cfagg.accumulation.building import GroupStaging, build, working
from cfagg.accumulation.group import group_path
from cfagg.accumulation.options import Order
from cfagg.accumulation.report import Report
from cfagg.accumulation.writing import read_documents
from cfagg.errors import CfaggError, TargetError, TargetExistsError
from cfagg.formats.zarr import ZarrArray
from cfagg.formats.zarr.consolidated import with_group, without_group
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.documents import MAX_DOCUMENT, parse
from cfagg.formats.zarr.remote import identity_of
from cfagg.runtime.publishing import read_own
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url

__all__ = ["Place", "build_there", "discard"]

#: Number of concurrent requests.
_AT_ONCE = 16

#: Attempts to write consolidated metadata that other processes write too.
_ATTEMPTS = 4


def build_there(
    plan: Plan, order: Order, threads: int, summers: int, client: Any, progress: Callable[[int, int], None] | None
) -> Report:
    """Build the accumulation of an array in an object store, and publish it."""
    place = Place.of(plan.array)
    shop = ObjectStaging(place, place.found(plan.existing))
    own = replace(plan, folder=shop.root)
    try:
        with working(shop, own, order):
            return build(own, order, shop, threads, summers, client, progress)
    except (TargetError, KeyboardInterrupt) as error:
        message = str(error).replace(f"{shop.root} was not written", f"{place.where} was not written")
        raise type(error)(message) from (error if isinstance(error, TargetError) else None)


class ObjectStaging(GroupStaging):
    """A locked work directory of this machine for an accumulation in an object store.

    Later runs of the same user find it by its name; other users can neither read nor prepare it.
    """

    def __init__(self, place: Place, former: tuple[str | None, frozenset[str]] | None = None) -> None:
        root = Path(tempfile.gettempdir()) / f"cfagg-accumulation-{os.getuid()}-{place.digest}"
        self._put_up(root, root, place.where)
        self._place, self._former = place, former

    def hold(self) -> None:
        """Create and lock the directory."""
        with suppress(OSError):  # it exists, or `hold` reports why it cannot be created
            self.root.mkdir(mode=0o700)
        super().hold()

    def publish(self) -> None:
        """Write the finished group to the object store, or discard it if another run was first."""
        assert self._former is not None  # noqa: S101  (given where something is built)
        try:
            self._place.publish(self.group, *self._former)
        except TargetExistsError:
            self.clear()
            raise

    def _is_ours(self) -> bool:
        return self.root.lstat().st_uid == os.getuid() and super()._is_ours()


def discard(array: ZarrArray) -> None:
    """Remove the remains of a run that was killed after its accumulation was published."""
    shop = ObjectStaging(Place.of(array))
    if shop.root.is_dir():
        with suppress(TargetError):  # another process is at work
            shop.enter()
            shop.remove_after()


@dataclass(frozen=True)
class Place:
    """The group of an array's accumulation in an object store."""

    objects: ObjectStore
    group: str
    zarr_format: int

    @classmethod
    def of(cls, array: ZarrArray) -> Place:
        """Return the place of the group of an array in an object store."""
        store = array.store
        assert isinstance(store, Url)  # noqa: S101  (the caller asked)
        return cls(ObjectStore(store, store.options.given), group_path(array.path), array.zarr_format)

    @property
    def digest(self) -> str:
        """Digest of the place, and of the server unless it is the default one, for the name of the work directory."""
        server = self.objects.server or ""
        return hashlib.blake2b(f"{server} {self.where}".encode(), digest_size=12).hexdigest()

    @property
    def where(self) -> str:
        """The place as messages name it."""
        return f"{self.objects.path}/{self.group}"

    @property
    def key(self) -> str:
        """The key of the metadata document that makes the group an accumulation."""
        return f"{self.group}/{'zarr.json' if self.zarr_format == 3 else '.zattrs'}"

    def found(self, existing: tuple[int, ...] | None) -> tuple[str | None, frozenset[str]]:
        """Return the tag of the metadata that a plan found, or `None` if it found none, and all keys."""
        # The keys may include those of an earlier run that is still at work, whose put will be refused.
        keys = frozenset(k for k in self.objects.listed(self.group) if k.startswith(f"{self.group}/"))
        found = self.objects.part(self.key, 0, MAX_DOCUMENT)
        if existing != (None if found is None else identity_of(found.body)):
            raise self._others()
        return None if found is None else found.tag, keys

    def _others(self) -> TargetExistsError:
        return TargetExistsError(f"{self.where} was written by another run meanwhile and left unchanged; run again")

    def documents(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the metadata of the arrays of the group among these keys, for consolidated metadata."""
        if self.zarr_format == 2:
            return {}
        found = sorted(k for k in keys if k.endswith("/zarr.json") and k != self.key)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            texts = list(pool.map(self.objects.read, found))
        return {
            key.split("/")[-2]: {"zarr.json": parse(text, f"{self.objects.path}/{key}")}
            for key, text in zip(found, texts, strict=True)
            if text is not None
        }

    def publish(
        self,
        here: Path,
        tag: str | None,
        former: frozenset[str],
        others: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Upload a directory, then the metadata if they still have this tag; then remove the former objects.

        `others` are documents of arrays that are kept.
        """
        files = {f"{self.group}/{p.relative_to(here).as_posix()}": p for p in here.rglob("*") if p.is_file()}
        top = [key for key in files if key.count("/") == self.group.count("/") + 1]
        parts = [key for key in files if key not in top]
        text = read_own(files[self.key])
        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for _ in pool.map(lambda key: self.objects.put(key, files[key]), parts):
                    pass
            for key in top:
                if key != self.key:  # the marker of a Zarr version 2 group, which is always the same
                    self.objects.put(key, read_own(files[key]))
            self.objects.put(self.key, text, create=tag is None, match=tag)
        except BaseException as error:
            # The put may have succeeded even if its response was lost.
            if not self._is_ours(text):
                with suppress(CfaggError):
                    self.objects.delete(parts)
                if isinstance(error, TargetExistsError):
                    raise self._others() from error
                raise
        documents = {**others, **read_documents(here, self.zarr_format)}
        names = self.group.split("/")
        for depth in range(len(names)):
            self._consolidate("/".join(names[:depth]), "/".join(names[depth:]), documents, text)
        if self._is_ours(text):
            self.objects.delete(sorted(former - set(files)))

    def _is_ours(self, text: bytes) -> bool:
        try:
            return self.objects.read(self.key) == text
        except CfaggError:
            return True  # unknown, so objects that may be referenced must not be removed

    def _consolidate(self, above: str, group: str, documents: Mapping[str, Mapping[str, Any]], text: bytes) -> None:
        """Update the consolidated metadata, if any, of a group above, unless a later run will do so."""
        name = "zarr.json" if self.zarr_format == 3 else ".zmetadata"
        key = f"{above}/{name}".lstrip("/")
        for _ in range(_ATTEMPTS):
            found = self.objects.part(key, 0, MAX_DOCUMENT)
            # A later run changes their tag after writing its own metadata; so it is noticed here, or the put fails.
            if found is None or not self._is_ours(text):
                return
            root = parse(found.body, f"{self.objects.path}/{key}")
            whole = without_group(root, group) if self.zarr_format == 2 else with_group(root, group, documents)
            if whole is None:
                return
            with suppress(TargetExistsError):
                self.objects.put(key, document_bytes(whole), match=found.tag)
                return
        raise TargetError(
            f"{self.where} is complete, but other processes keep writing {self.objects.path}/{key}, so its "
            "consolidated metadata are out of date: consolidate them again"
        )
