"""Writing to an existing Zarr store: bytes by key, one writer at a time.

Chunks are put first and documents swapped last, so that concurrent readers see the store as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from cfagg.errors import OptionError, SourceError, SourceNotFoundError, UnsupportedError
from cfagg.errors.arguments import a_mapping
from cfagg.formats.zarr.consolidated import CLAIM
from cfagg.formats.zarr.metadata import Opens
from cfagg.runtime.publishing import refusals_of
from cfagg.storage.urls import Url, a_place
from cfagg.writing.zarr.local_place import LocalPlace

__all__ = ["CLAIM", "Claim", "Place", "place_of"]


class Claim(Protocol):
    """The claim of one writer; `left` is the record of a killed writer, or `None` if there was none."""

    left: bytes | None

    def record(self, intent: bytes) -> None:
        """Record what is about to be done; on return it is safely stored, and becomes `left` for the next writer."""

    def forget(self) -> None:
        """Remove the record, as the work is completed or rolled back."""


class Place(Protocol):
    """Bytes of an existing store, by key; thread-safe, and can be sent to other processes.

    Attributes
    ----------
    store : str
        Absolute path of the store, or its URL.
    remote : bool
        Whether it is on another machine.
    commits : bool
        Whether everything is published by a commit, so that the state is not defined by consolidated metadata.
    """

    store: str
    remote: bool
    commits: bool

    @property
    def opens(self) -> Opens | None:
        """Opens stored objects of a store that is neither a directory nor at a URL of cfagg's own requests."""

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """Return the stored bytes and a tag of their state, or `None` if there are none."""

    def known(self, key: str) -> tuple[bytes, Any] | None:
        """Return what `read` does, but without a request if this writer wrote it last; only replace it by `swap`."""

    def put(self, key: str, data: Any, *, new: bool = False) -> None:
        """Write an object atomically.

        A `new` object probably does not exist yet, and readers do not use it: a kill, or a power loss before `sync`,
        may leave it incomplete.
        """

    def swap(self, key: str, data: bytes, tag: Any) -> Any:
        """Replace an object if it is in the state of a tag (`None` if it must not exist); return the new tag.

        `TargetError` is raised if it is in another state, since another process wrote it.
        """

    def stage(self, key: str, data: Any) -> None:
        """Write an object that replaces another with the next `sync`, or earlier."""

    def swap_all(self, writes: Sequence[tuple[str, bytes, Any]]) -> list[Any]:
        """Replace several objects as `swap` does, after all that was put and staged; all then survive a power loss.

        The last one publishes the others: even after a power loss, it exists only if all of them do.
        """

    def stage_all(self, objects: Mapping[str, Any]) -> None:
        """Stage several objects; if one cannot be written, discard the others."""

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, if they exist."""

    def children(self, folder: str) -> Iterable[str]:
        """Return the names of folders below a folder, or of the store itself if it is ``""``."""

    def sync(self) -> None:
        """Ensure that everything written survives a power loss, with staged objects in place."""

    def writer(self, doing: str) -> AbstractContextManager[Claim]:
        """Be the only writer; raise `TargetError` if another process is one. `doing` is shown to other processes."""


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
