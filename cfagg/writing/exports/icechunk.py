"""Icechunk repositories of virtual chunks: one commit with all arrays, and the time after which a file has changed.

Chunks that are written, of coordinates first of all, are ordinary ones.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from cfagg.errors import TargetError, UnsupportedError
from cfagg.errors.extras import require
from cfagg.formats.zarr.attributes import encoded_fill, variable_attributes
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.runtime.publishing import public_name
from cfagg.storage.files import FileKey
from cfagg.storage.urls import is_url
from cfagg.writing.exports.codecs import version_3
from cfagg.writing.exports.planned import Node, Planned

__all__ = ["require_icechunk", "write"]

#: References that are given to the repository at once.
_BATCH = 1 << 16

#: Places that a repository asks its readers to allow one by one.
_MOST = 16


def require_icechunk() -> None:
    """Raise where the library is not installed."""
    require("Icechunk repositories", "icechunk")


def write(root: Node, folder: Path) -> tuple[str, ...]:
    """Write a repository into an empty directory; return what its readers must do."""
    import icechunk

    try:
        return _write(root, folder)
    except icechunk.IcechunkError as error:
        said = str(error).partition("\n")[0]
        raise TargetError(f"{public_name(folder)} cannot be written, Icechunk says: {said}") from error


def _write(root: Node, folder: Path) -> tuple[str, ...]:
    import icechunk
    import zarr

    icechunk.set_logs_filter("error")
    arrays = [array for node in root.walk() for array in node.arrays]
    places = _places(key for array in arrays for key in array.references.files)
    config = icechunk.RepositoryConfig.default()
    for place in places:
        store = icechunk.local_filesystem_store(place)
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(f"file://{_quoted(place)}", store))
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)), config)
    repository.save_config()
    session = repository.writable_session("main")
    with unequal_chunks(), warnings.catch_warnings():
        # Of codecs that Zarr itself does not have.
        warnings.simplefilter("ignore")
        top = zarr.create_group(session.store, zarr_format=3, attributes=dict(root.attributes))
        for node in root.walk():
            group = top if not node.path else top.create_group(node.path, attributes=dict(node.attributes))
            for array in node.arrays:
                _write_array(session.store, group, array)
    session.commit("cfagg")
    notes = [
        f"readers of virtual chunks allow access to them: authorize_virtual_chunk_access={{{_told(places)}}}"
    ] if places else []  # fmt: skip
    notes += [rectilinear_note(a.path) for a in arrays if not a.is_regular]
    return tuple(notes)


def _told(places: Sequence[str]) -> str:
    return ", ".join(f"'file://{_quoted(p)}': icechunk.credentials.LocalFileSystemAccess" for p in places)


def _places(keys: Any) -> list[str]:
    """Return the directories that hold all files; of many, the one above them."""
    folders: set[str] = set()
    for key in keys:
        try:
            key.path.encode()
        except UnicodeEncodeError as error:
            said = f"{key.path!r} cannot be referred to: its name is not UTF-8; rename the file"
            raise UnsupportedError(said) from error
        if is_url(key.path):
            raise UnsupportedError(
                f"{key.path}: virtual chunks of Icechunk in files on other machines are not written yet; export to "
                "kerchunk instead"
            )
        folders.add(os.path.dirname(key.path).rstrip("/") + "/")  # noqa: PTH120
    found = sorted(f for f in folders if not any(f != g and f.startswith(g) for g in folders))
    if len(found) > _MOST:
        found = [os.path.commonpath(found).rstrip("/") + "/"]
    return found


def _quoted(path: str) -> str:
    return quote(path, safe="/ !$&'()*+,;=:@~")


def _write_array(store: Any, group: Any, array: Planned) -> None:
    """Create an array, and give it its chunks."""
    from zarr.codecs import BytesCodec

    attributes = variable_attributes(array.attributes, array.dtype)
    text = array.dtype.kind in "OUT"
    if (fill := encoded_fill(array.fill, array.dtype)) is not None:
        attributes["_FillValue"] = fill
    chunks: Any = array.shape_of((0,) * array.grid.ndim)
    if not array.is_regular:
        chunks = [list(sizes) for sizes in array.grid.sizes]
    dtype: Any = str if text else array.dtype.newbyteorder("=")
    compressors = [_codec(c) for c in version_3(array.codecs, array.dtype.itemsize)]
    options: dict[str, Any] = {}
    if not text and array.dtype.itemsize > 1:
        order: Any = "big" if array.dtype.newbyteorder(">") == array.dtype else "little"
        options["serializer"] = BytesCodec(endian=order)
    unstored = array.unstored if array.unstored is not None else ("" if text else 0)
    made = group.create_array(
        array.path.rpartition("/")[2],
        shape=array.shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=unstored,
        compressors=compressors or None,
        filters=None,
        dimension_names=array.dims or None,
        attributes=attributes,
        **options,
    )
    for cell in array.written.tolist():
        extent = tuple(slice(a, b) for a, b in array.grid.extent(array.index(cell)))
        values = array.read(extent)
        made[extent or ...] = values.astype(str) if text else values
    _refer(store, array)


def _codec(given: dict[str, Any]) -> Any:
    """Return a codec as zarr-python makes it of its document."""
    from zarr.registry import get_codec_class

    return get_codec_class(given["name"]).from_dict(given)


def _refer(store: Any, array: Planned) -> None:
    """Give an array its virtual chunks, with the time after which their files have been changed."""
    import icechunk

    told = array.references
    names = [f"file://{_quoted(key.path)}" for key in told.files]
    times = [_modified(key) for key in told.files]
    for start in range(0, told.cell.size, _BATCH):
        part = slice(start, start + _BATCH)
        cells = told.cell[part]
        index = np.stack(np.unravel_index(cells, array.grid.matrix_shape), -1) if array.dims else cells[:, None][:, :0]
        specs = [
            icechunk.VirtualChunkSpec(list(i), names[f], o, n, last_updated_at_checksum=times[f])
            for i, f, o, n in zip(
                index.tolist(),
                told.file[part].tolist(), told.offset[part].tolist(), told.length[part].tolist(), strict=True,
            )
        ]  # fmt: skip
        refused = store.set_virtual_refs(f"/{array.path}", specs)
        if refused:
            raise UnsupportedError(f"array {array.path!r}: Icechunk takes no reference for {len(refused)} chunks")


def _modified(key: FileKey) -> datetime:
    """Return the time of the last change of a file in whole seconds, none earlier: Icechunk knows no fractions."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=-(-key.modified // 10**9))
