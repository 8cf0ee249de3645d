"""Writing to an existing Zarr store: bytes by key, one writer at a time.

Chunks are put first and documents swapped last, so that whoever reads the store meanwhile sees it as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from cfagg.errors import OptionError, SourceError, SourceNotFoundError, UnsupportedError
from cfagg.errors.arguments import a_mapping
from cfagg.runtime.publishing import refusals_of
from cfagg.storage.urls import Url, a_place
from cfagg.writing.zarr.local_place import CLAIM, LocalPlace

__all__ = ["CLAIM", "Claim", "Place", "place_of"]


class Claim(Protocol):
    """What one writer holds; `left` is what a killed one had recorded, `None` where there was none."""

    left: bytes | None

    def record(self, intent: bytes) -> None:
        """Record what is about to be done: it is safe when this returns, and `left` to the next writer."""

    def forget(self) -> None:
        """Forget what was recorded, as it is done, or undone."""


class Place(Protocol):
    """Bytes of a store that is there, by key; safe to use from any thread, and sent to other processes.

    Attributes
    ----------
    store : str
        Absolute path of the store, or its URL.
    remote : bool
        Whether it is on another machine.
    """

    store: str
    remote: bool

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return what is stored and a tag that tells its state, `None` where there is nothing."""

    def known(self, key: str) -> tuple[bytes, Any] | None:
        """Return the same of what this call wrote last, without a look; to be replaced only by a `swap`."""

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write an object, whole or not at all.

        `new` is what is probably not there yet, and of no account to readers: it may be torn by a kill, or a power loss
        before `sync`.
        """

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Write an object that is in the state of a tag, `None` for one that is not there; return the new tag.

        `TargetError` is raised where it is in another state: somebody else wrote it.
        """

    def stage(self, key: str, data: Any) -> None:
        """Write an object that takes the place of another with the next `sync`, or before."""

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Write several objects as `swap` does, after all that was put and staged; all are there after a power loss.

        The last one publishes the others: it is there, also after a power loss, only if all of them are.
        """

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Stage several objects; where one cannot be written, nothing is left beside the others."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, as far as they are there."""

    def children(self, folder: str) -> Iterable[str]:
        """Return the names of folders below a folder, ``""`` for the store itself."""

    def sync(self) -> None:
        """Make sure that what was written is there after a power loss, and what was staged in its place."""

    def writer(self, doing: str) -> AbstractContextManager[Claim]:
        """Be the only one who writes there; `TargetError` where another process is, which `doing` tells the others."""


def place_of(store: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Place:
    """Return the place of a store at a path or URL.

    >>> import tempfile
    >>> place = place_of(tempfile.mkdtemp())
    >>> with place.writer("writing"):
    ...     place.put("tas/c/0", b"12")
    >>> place.read("tas/c/0")[0], place.read("tas/c/1")
    (b'12', None)
    """
    name = a_place(store, storage_options)
    if isinstance(name, Url):
        scheme = name.partition("://")[0].lower()
        if scheme not in ("s3", "gs", "az"):
            raise UnsupportedError(f"{name} cannot be written to; stores at s3://, gs:// and az:// can")
        from cfagg.storage.objects import ObjectStore
        from cfagg.writing.zarr.object_place import ObjectPlace

        return ObjectPlace(name, ObjectStore(name, name.options.given))
    if a_mapping(storage_options, "storage_options", "a mapping of options"):
        raise OptionError(f"storage_options= does not apply to {name}, a directory of this machine; leave it out")
    root = os.path.realpath(name)
    if not os.path.isdir(root):  # noqa: PTH112
        with refusals_of(name):
            try:
                os.lstat(name)
            except (FileNotFoundError, NotADirectoryError):
                raise SourceNotFoundError(f"{name} does not exist; name a Zarr store") from None
        raise SourceError(f"{name} is not a directory; name an existing Zarr store")
    return LocalPlace(root)
