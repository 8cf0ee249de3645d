"""An object and another one beside it that is of use with it alone, in an object store; see `cfagg.runtime.paired`.

The first one is put in its place by one request, and only where it is still what it was: that decides.  Before that the
second one stands under ``.NAME.cfagg-partial/``, named by the digest of the first one to which it belongs.
"""

from __future__ import annotations

from typing import Self

from cfagg.errors import TargetExistsError
from cfagg.runtime.object_files import object_at
from cfagg.storage.urls import Url

__all__ = ["PairedObject"]


class PairedObject:
    """The places of two objects; `digest` is that of the first one as it is there, `None` where there is none."""

    def __init__(self, url: Url, suffix: str, digest: str | None) -> None:
        self._objects, name = object_at(url)
        self._beside, self._folder = f"{name}{suffix}", f".{name}.cfagg-partial"
        self._digest = digest
        self._made: bytes | None = None

    def __enter__(self) -> Self:
        found = None if self._digest is None else self._objects.read(f"{self._folder}/{self._digest}")
        if found is not None:
            # A run that was killed had put the first one in its place.
            self._objects.put(self._beside, found)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After other errors the first one may be in its place: then the next run finishes.
        if self._made is not None and kind is not None and issubclass(kind, TargetExistsError):
            self._objects.delete([f"{self._folder}/{self._digest}"])

    def prepare(self, data: bytes, digest: str) -> None:
        """Write the second object so that it is there when the first one, of this digest, is put in its place."""
        self._made, self._digest = data, digest
        self._objects.put(f"{self._folder}/{digest}", data)

    def publish(self) -> None:
        """Put the second object beside the first one, or remove one that belongs to a former one."""
        if self._made is None:
            self._objects.delete([self._beside])
        else:
            self._objects.put(self._beside, self._made)
        self._objects.delete(list(self._objects.listed(self._folder)))
