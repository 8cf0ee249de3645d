"""Datasets on a web server or in an object store: Zarr through consolidated metadata, netCDF by byte ranges.

Nothing is downloaded as a whole.  Redirects are followed only within the named place and to places in `allow`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cfagg.errors import AccessError, FragmentReadError, SourceError
from cfagg.formats.opening import EXPECTED, HEAD, NETCDF, built_in, not_netcdf
from cfagg.model.dataset import Dataset
from cfagg.storage.files import Borrowed, Handle
from cfagg.storage.handles import handles
from cfagg.storage.places import new_source
from cfagg.storage.remote_file import BLOCK, RemoteBytes
from cfagg.storage.store import is_page
from cfagg.storage.urls import Url, a_place

__all__ = ["WAIT", "file_at", "is_consolidated", "of_handle", "open_url", "store_at"]

#: Most bytes that are read from one file for its metadata.
_MOST = 1 << 29

#: Seconds that a server may take for one request, and the factor for a whole dataset.
WAIT, _WAITS = 30.0, 10


def file_at(url: Url, *, ahead: bool = False) -> Handle | None:
    """Return the file at a URL as it is now, or `None` if there is none, but perhaps a store."""
    if _looks_like_store(url):
        return None
    try:
        handle = handles.renew(url, ahead=ahead)
    except SourceError as error:
        if isinstance(error, FileNotFoundError):
            return None
        raise
    except AccessError:
        if url.lower().startswith("s3://"):
            return None  # object stores report this for objects that do not exist
        raise
    # A server may answer with a page about the store's directory.
    return None if handle.key.size and is_page(handle.some(HEAD, 0)) else handle


def store_at(url: Url) -> Any:
    """Return the documents of the store at a URL as they are now; each is requested once."""
    from cfagg.formats.metadata.stores import AskedOnce, RemoteStore

    trimmed = url.rstrip("/")
    return RemoteStore(AskedOnce(new_source(url, trimmed)), url)


def is_consolidated(store: Any) -> bool:
    """Return whether a store has a table of all its metadata."""
    from cfagg.formats.zarr.documents import parse

    raw = store.read("zarr.json")
    if raw is None:
        return store.read(".zmetadata") is not None
    return parse(raw, "zarr.json").get("consolidated_metadata") is not None


def _looks_like_store(url: str) -> bool:
    home, _, name = url.rstrip("/").rpartition("/")
    return url.endswith("/") or name.lower().endswith(".zarr") or home.endswith("/")


def open_url(
    url: str,
    allow: Iterable[str] = (),
    timeout: float | None = None,
    storage_options: Mapping[str, Any] | None = None,
    other: Callable[[Handle], Dataset | None] = lambda _: None,
) -> Dataset:
    """Return the model of a netCDF or CDL file or Zarr store at a URL, or of a file that `other` recognises."""
    from cfagg.formats.metadata.stores import RemoteStore
    from cfagg.formats.metadata.zarr import open_store

    place = a_place(url, storage_options, allow)
    if not isinstance(place, Url):
        raise SourceError(f"{place} is not a URL")
    refused: AccessError | None = None
    if not _looks_like_store(place):
        home, name = place.place
        try:
            file = _file(_Patient(home, place, timeout), name)
        except AccessError as error:
            if not place.lower().startswith("s3://"):
                raise
            file, refused = None, error  # object stores report this for objects that do not exist
        if file is not None:
            handle = Borrowed(str(place), file)
            return other(handle) or of_handle(handle)
    try:
        return open_store(RemoteStore(_Patient(place.rstrip("/"), place, timeout), str(place)))
    except (AccessError, FragmentReadError):
        if refused is not None:
            raise refused from None
        raise


class _Patient:
    """A remote place with time limits on each request and on all of them together."""

    def __init__(self, place: str, url: Url, timeout: float | None) -> None:
        from cfagg.storage.places import make_source

        wait = timeout or WAIT
        self.path = place
        self._source = make_source(place, {"timeout": wait, "deadline": wait, **url.options.given}, url.options.allow)
        self._most = _WAITS * wait
        self._until = time.monotonic() + self._most

    def __getattr__(self, name: str) -> Any:
        if time.monotonic() > self._until:
            raise FragmentReadError(
                f"{self.path} cannot be read within {self._most:g} s: the server is too slow; copy the dataset to this "
                "machine, or give a longer timeout"
            )
        return getattr(self._source, name)


def _file(remote: Any, name: str) -> RemoteBytes | None:
    """Return an object, or `None` if there is none of that name."""
    head = remote.part(name, 0, BLOCK)
    if head is None or (head.size and is_page(head.body)):
        return None
    return RemoteBytes(remote, name, head, _MOST)


def of_handle(handle: Handle) -> Dataset:
    """Return the model of a remote file, which stays open."""
    own = Borrowed(handle.key.path, handle.data)
    head = own.some(HEAD, 0)
    form = built_in(own, head=head)
    if form is None or form.name not in NETCDF:
        raise SourceError(not_netcdf(own.key.path, head, EXPECTED))
    return form.open(own)
