"""Icechunk repositories of virtual chunks: one commit with all arrays, and the state of each file to detect changes.

Chunks that are written, mainly of coordinates, are ordinary ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cfagg.display.sizes import count_text
from cfagg.errors import TargetError, UnsupportedError
from cfagg.errors.extras import require
from cfagg.formats.zarr.attributes import encoded_fill, variable_attributes
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.runtime.publishing import public_name, reason
from cfagg.storage.urls import Url
from cfagg.writing.exports.codecs import version_3
from cfagg.writing.exports.planned import Node, Planned
from cfagg.writing.exports.virtual import credentials_of, located, places_of, state_of, store_of

__all__ = ["access_note", "new_repository", "require_icechunk", "write"]

#: Number of references passed to the repository at once.
_BATCH = 1 << 16


def require_icechunk() -> None:
    """Raise an error if the library is not installed."""
    require("Icechunk repositories", "icechunk")


def write(root: Node, folder: Path) -> tuple[str, ...]:
    """Write a repository into an empty directory; return notes on what its readers must do."""
    import icechunk

    try:
        return _write(root, folder)
    except icechunk.IcechunkError as error:
        said = reason(OSError(str(error).partition("\n")[0]))
        raise TargetError(f"{public_name(folder)} cannot be written; Icechunk reports: {said}") from error


def _write(root: Node, folder: Path) -> tuple[str, ...]:
    import zarr

    arrays = [array for node in root.walk() for array in node.arrays]
    places = places_of(key.path for array in arrays for key in array.references.files)
    session = new_repository(folder, places)
    with unequal_chunks(), warnings.catch_warnings():
        # For codecs that Zarr itself does not have.
        warnings.simplefilter("ignore")
        top = zarr.create_group(session.store, zarr_format=3, attributes=dict(root.attributes))
        for node in root.walk():
            group = top if not node.path else top.create_group(node.path, attributes=dict(node.attributes))
            for array in node.arrays:
                _write_array(session.store, group, array)
    session.commit("cfagg")
    notes = access_note(places)
    notes += [rectilinear_note(a.path) for a in arrays if not a.is_regular]
    return tuple(notes)


def new_repository(folder: Path, places: Sequence[str]) -> Any:
    """Create a repository in an empty directory, for chunks in files below some places; return a writable session."""
    import icechunk

    icechunk.set_logs_filter("error")
    config = icechunk.RepositoryConfig.default()
    for place in places:
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(located(place), store_of(place)))
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder)), config)
    repository.save_config()
    return repository.writable_session("main")


def access_note(places: Sequence[str]) -> list[str]:
    """Return a note on the places that readers have to allow, if there are virtual chunks."""
    told = ", ".join(f"'{located(p)}': icechunk.{credentials_of(p)}" for p in places)
    given = f"icechunk.containers_credentials({{{told}}})" if any(isinstance(p, Url) for p in places) else f"{{{told}}}"
    return [f"readers of virtual chunks allow access to them: authorize_virtual_chunk_access={given}"] * bool(places)


def _write_array(store: Any, group: Any, array: Planned) -> None:
    """Create an array and write its chunks."""
    from zarr.codecs import BytesCodec

    attributes = variable_attributes(array.attributes, array.dtype)
    text = array.dtype.kind in "OUT"
    if (fill := encoded_fill(array.fill, array.dtype, attributes)) is not None:
        attributes["_FillValue"] = fill
    chunks: Any = array.grid.whole((0,) * array.grid.ndim)
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
        extent = tuple(slice(a, b) for a, b in array.grid.extent(array.grid.index(cell)))
        values = array.read(extent)
        made[extent or ...] = values.astype(str) if text else values
    _refer(store, array)


def _codec(given: dict[str, Any]) -> Any:
    """Return the codec that zarr-python makes of its JSON document."""
    from zarr.registry import get_codec_class

    return get_codec_class(given["name"]).from_dict(given)


def _refer(store: Any, array: Planned) -> None:
    """Write the virtual chunks of an array, with the state of their files to detect changes."""
    import icechunk

    references = array.references
    names = [located(key.path) for key in references.files]
    states = [state_of(key) for key in references.files]
    for start in range(0, references.cell.size, _BATCH):
        part = slice(start, start + _BATCH)
        cells = references.cell[part]
        index = np.stack(np.unravel_index(cells, array.grid.matrix_shape), -1) if array.dims else cells[:, None][:, :0]
        specs = [
            icechunk.VirtualChunkSpec(list(i), names[f], o, n, **states[f])
            for i, f, o, n in zip(
                index.tolist(),
                references.file[part].tolist(), references.offset[part].tolist(), references.length[part].tolist(),
                strict=True,
            )
        ]  # fmt: skip
        refused = store.set_virtual_refs(f"/{array.path}", specs)
        if refused:
            raise UnsupportedError(
                f"array {array.path!r}: Icechunk accepts no reference for {count_text(len(refused), 'chunk')}, such as "
                f"chunk {list(refused[0])}; export to kerchunk instead"
            )
