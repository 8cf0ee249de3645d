"""Datasets on a web server or in an object store: Zarr by its consolidated metadata, netCDF by ranges of bytes.

Nothing is downloaded whole.  Redirects are followed only within the place that was named and to places in `allow`.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from cfagg.errors import AccessError, FragmentReadError, LimitError, SourceError
from cfagg.formats.classic import dataset as classic
from cfagg.formats.metadata.netcdf import EXPECTED
from cfagg.formats.opening import CDL, CLASSIC, HDF5, HEAD, format_of, not_netcdf
from cfagg.formats.values.kinds import is_page
from cfagg.model.dataset import Dataset

__all__ = ["RemoteFile", "open_url"]

#: Bytes of one request, of the longest header and of everything that is read of one file for its metadata.
_BLOCK, _HEADER, _MOST = 1 << 16, 1 << 26, 1 << 29

#: Seconds that a server may take for one request, and how many times as long for a whole dataset.
_WAIT, _WAITS = 30.0, 10

#: Bytes of the longest text in CDL.
_CDL = 1 << 24


def open_url(url: str, allow: Iterable[str] = (), timeout: float | None = None) -> Dataset:
    """Return the model of a dataset behind a URL.

    Parameters
    ----------
    url : str
        ``http://``, ``https://`` or ``s3://``, of a netCDF or CDL file or a Zarr store.
    allow : iterable of str
        Places to which the server may redirect.
    timeout : float, optional
        Seconds that a request may take.

    Raises
    ------
    SourceError
        If there is no dataset.
    AccessError
        If it may not be read, or lies elsewhere.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in ("http", "https", "s3"):
        raise SourceError(
            f"{url}: {scheme}:// is not read; expected http://, https:// or s3://, or a copy on this machine"
        )
    if "?" in url or "#" in url:
        raise SourceError(f"{url}: a URL with a query or a fragment is not read; expected the place alone")
    trimmed = url.rstrip("/")
    home, _, name = trimmed.rpartition("/")
    looks_like_store = url.endswith("/") or name.lower().endswith(".zarr") or home.endswith("/")
    if not looks_like_store:
        file = _file(_Patient(home, allow, timeout), unquote(name), url)
        if file is not None:
            return _open_file(file, url)
    return _store(_Patient(trimmed, allow, timeout), url)


class _Patient:
    """A place on another machine that has to answer in time: each request, and all of them together.

    Parameters
    ----------
    url : str
        The place.
    options : Options
        ``timeout`` and ``allow``.
    """

    def __init__(self, url: str, allow: Iterable[str], timeout: float | None) -> None:
        from cfagg.storage.places import make_source

        wait = timeout or _WAIT
        self.path = url
        self._source = make_source(url, {"timeout": wait, "deadline": wait}, allow)
        self._most = _WAITS * wait
        self._until = time.monotonic() + self._most

    def read(self, key: str) -> bytes | None:
        """Return all bytes of an object, `None` where there is none."""
        found: bytes | None = self._in_time().read(key)
        return found

    def read_range(self, key: str, start: int, count: int) -> bytes:
        """Return `count` bytes of an object."""
        found: bytes = self._in_time().read_range(key, start, count)
        return found

    def read_edge(self, key: str, count: int) -> tuple[bytes, int] | None:
        """Return the first bytes of an object and its size, `None` where there is none."""
        found: tuple[bytes, int] | None = self._in_time().read_edge(key, count)
        return found

    def _in_time(self) -> Any:
        if time.monotonic() > self._until:
            raise FragmentReadError(
                f"{self.path} cannot be read within {self._most:g} s: the server is too slow; copy the dataset to this "
                "machine, or give a longer timeout"
            )
        return self._source


def _store(remote: Any, url: str) -> Dataset:
    from cfagg.formats.metadata.stores import RemoteStore
    from cfagg.formats.metadata.zarr import open_store

    return open_store(RemoteStore(remote, url))


def _file(remote: Any, name: str, url: str) -> RemoteFile | None:
    """Return an object, `None` where there is none of that name."""
    try:
        found = remote.read_edge(name, _BLOCK)
    except AccessError:
        if url.lower().startswith("s3://"):
            return None  # object stores say so of what is not there
        raise
    if found is None:
        return None
    head, size = found
    # A server may answer with a page about the store's directory.
    return None if size and is_page(head) else RemoteFile(remote, name, head, size)


def _open_file(file: RemoteFile, url: str) -> Dataset:
    from cfagg.storage.files import Borrowed

    head = file[0:HEAD]
    form = format_of(Borrowed(url, file), head=head)
    if form == CLASSIC:
        return _open_classic(file, url)
    if form == HDF5:
        return _open_hdf5(file, url)
    if form == CDL:
        from cfagg.formats.metadata.cdl import parse_cdl

        if len(file) > _CDL:
            raise LimitError(f"{url} has {len(file):,} bytes of CDL; up to {_CDL:,} are read")
        try:
            return parse_cdl(file[0 : len(file)].decode("utf-8-sig"), url)
        except UnicodeDecodeError as error:
            raise SourceError(f"{url} is not text in UTF-8: {error}") from error
    raise SourceError(not_netcdf(url, head, EXPECTED))


def _open_classic(file: RemoteFile, url: str) -> Dataset:
    size = _BLOCK
    while True:
        data = file[0:size]
        read = classic.parse(data, len(file), url, lambda count, place: file[place : place + count])
        if read is not None:
            return Dataset(url, "netcdf", read[0], damage=read[1])
        if size > _HEADER:
            raise LimitError(f"{url} has a header of more than {_HEADER:,} bytes; copy the file to this machine")
        size *= 4


def _open_hdf5(file: RemoteFile, url: str) -> Dataset:
    from cfagg.formats.hdf5.dataset import parsed
    from cfagg.formats.hdf5.lookup3 import damaged
    from cfagg.storage.files import Borrowed

    handle = Borrowed(url, file)
    read = parsed(file, handle, lambda: _h5py(file))
    if read is not None and not damaged(file, read[1]):
        return read[0]
    from cfagg.formats.hdf5.library_dataset import open_file

    try:
        opened = _h5py(file)
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{url} cannot be opened: the HDF5 library says: {error}; make it again") from error
    dataset = open_file(opened, handle, file)
    dataset.close = opened.close
    return dataset


def _h5py(file: RemoteFile) -> Any:
    """Return the low-level file that the HDF5 library reads through a file object."""
    import h5py

    return h5py.File(file, "r").id


class RemoteFile(io.RawIOBase):
    """A file on another machine, read in blocks that are kept.

    Parameters
    ----------
    remote : cfagg.storage.store.Source
        The place that it is in.
    name : str
        Its name there.
    head : bytes
        Its first bytes.
    size : int
        How many it has.
    """

    def __init__(self, remote: Any, name: str, head: bytes, size: int) -> None:
        super().__init__()
        self._remote, self._name, self._size = remote, name, size
        self._blocks: dict[int, bytes] = {0: head[:_BLOCK]}
        self._read, self._at = len(head), 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, where: slice) -> bytes:
        """Return bytes; fewer where the file ends before."""
        start, stop, _ = where.indices(self._size)
        if stop <= start:
            return b""
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        missing = [i for i in range(first, last + 1) if i not in self._blocks]
        if missing:
            self._fetch(missing[0], missing[-1])
        found = b"".join(self._blocks[i] for i in range(first, last + 1))
        return found[start - first * _BLOCK : stop - first * _BLOCK]

    def _fetch(self, first: int, last: int) -> None:
        begin, end = first * _BLOCK, min((last + 1) * _BLOCK, self._size)
        self._read += end - begin
        if self._read > _MOST:
            raise LimitError(
                f"{self._remote.path}/{self._name}: more than {_MOST:,} bytes would be read; copy the file to this "
                "machine"
            )
        data = self._remote.read_range(self._name, begin, end - begin)
        if len(data) != end - begin:
            raise FragmentReadError(f"{self._remote.path}/{self._name} ends before its size of {self._size:,} bytes")
        for i in range(first, last + 1):
            self._blocks[i] = data[(i - first) * _BLOCK : (i - first + 1) * _BLOCK]

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be read anywhere."""
        return True

    def tell(self) -> int:
        """Return where it is read next."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where it is read next."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        data = self[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
