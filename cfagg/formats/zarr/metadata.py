"""The description of a Zarr array from its own metadata: Zarr v2 (``.zarray``) and v3 (``zarr.json``).

Sources: the Zarr v2 and v3 core specifications; the extension ``rectilinear`` (and its older name ``rectangular``) of
chunk grids; the codec ``sharding_indexed``.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError, Problem, SourceError, UnsupportedError
from cfagg.errors.arguments import closest, some
from cfagg.formats.zarr.codecs import Decoder, decoder
from cfagg.formats.zarr.documents import is_icechunk, no_store, node_folder, parse, read_text, store_path
from cfagg.formats.zarr.fields import data_type, dim_names, fill_number, key_form
from cfagg.formats.zarr.grids import grid_v2, grid_v3
from cfagg.formats.zarr.shards import Shards, find_shards
from cfagg.model import Grid, Regular
from cfagg.storage.tree import prefixes
from cfagg.storage.urls import Url

__all__ = ["Opens", "ZarrArray", "array_of", "current_signature", "decoded_array", "open_array"]

_NAMES = ("dimension_names", "_ARRAY_DIMENSIONS")


#: Reads a number of bytes at an offset.
Pread = Callable[[int, int], bytes]

#: Opens the object at a path: a file that the caller closes, or a read function, the size and a tag of the state.
Opens = Callable[[str], tuple[int, os.stat_result] | tuple[Pread, int, tuple[int, ...] | None] | None]


@dataclass(frozen=True, eq=False)
class ZarrArray:
    """A Zarr array: its metadata, without its data; `store` is a `Url` if it is remote."""

    store: str
    path: str
    zarr_format: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # in native byte order
    dims: tuple[str, ...]  # ``dim_0``, … if the array names none
    grid: Grid  # chunks that are decoded one by one, including those inside shards
    objects: Grid  # stored objects, one file each: shards, else chunks
    fill_value: Any  # a number; 0 if the metadata do not define it
    fill_declared: bool  # the metadata give a fill value
    attributes: Mapping[str, Any] = field(repr=False)  # as stored, without dimension names of Zarr v3
    document: Mapping[str, Any] = field(repr=False)  # ``zarr.json`` or ``.zarray``
    signature: str = field(repr=False)  # digest of the documents as they were read
    prefix: str = field(repr=False)  # with `separator`, the form of keys of stored objects
    separator: str = field(repr=False)
    allow: tuple[str, ...] = field(default=(), repr=False, kw_only=True)
    opens: Opens | None = field(default=None, repr=False, kw_only=True)  # for stores that are not directories

    def key(self, index: Sequence[int]) -> str:
        """Return the key of a stored object, by its index in `objects`, below the array's folder."""
        if not index:
            return self.prefix or "0"
        tail = self.separator.join(map(str, index))
        return f"{self.prefix}{self.separator}{tail}" if self.prefix else tail

    def object_of(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index in `objects` of the object that contains a chunk of `grid`."""
        if self.objects is self.grid:
            return tuple(index)
        held = []
        for inner, outer, i in zip(self.grid.axes, self.objects.axes, index, strict=True):
            # Chunks within shards all have the same length.
            start = i * getattr(inner, "chunk", 1)
            if isinstance(outer, Regular):
                # Edges of equal shards are not listed, since there may be any number.
                held.append(start // outer.chunk)
            else:
                held.append(int(np.searchsorted(outer, start, side="right")) - 1)
        return tuple(held)

    @property
    def known_attributes(self) -> dict[str, Any]:
        """The attributes, with the fill value of version 2, which has no other place for it."""
        fill = {"_FillValue": self.fill_value} if self.zarr_format == 2 and self.fill_declared else {}
        return {**fill, **self.attributes}

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @cached_property
    def folder(self) -> str:
        """Absolute path of the array's directory."""
        return node_folder(self.store, self.path)

    @cached_property
    def shards(self) -> Shards | None:
        """Layout of shards, or `None` if there are none, or zarr-python reads them."""
        return None if self.objects is self.grid else find_shards(self.document, self.dtype)

    @cached_property
    def decoder(self) -> Decoder | None:
        """Decoder of chunks, or `None` if zarr-python decodes them."""
        if self.objects is self.grid:
            return decoder(self.document, self.zarr_format, self.dtype)
        return None if self.shards is None else self.shards.decoder

    def __getstate__(self) -> dict[str, Any]:
        # Caches contain functions of C libraries and open arrays.
        return {f.name: getattr(self, f.name) for f in fields(self)}


def open_array(
    store: str | os.PathLike[str],
    path: str,
    *,
    allow: Iterable[str | os.PathLike[str]] = (),
    any_type: bool = False,
) -> ZarrArray:
    """Return the description of an array of a Zarr store, from its own metadata, never consolidated ones."""
    # All problems of metadata that break the specification are listed. With `any_type`, a type that is not supported
    # here becomes `void`, for access to stored objects without decoding them.
    root = store_path(store)
    folder, path = node_folder(root, path), path.strip("/")
    places = () if isinstance(root, Url) else prefixes(allow)

    def read(name: str) -> bytes | None:
        found = read_text(folder, name, root, places)
        return None if found is None else found[0]

    found = _described(root, path, read, any_type)
    if found is None:
        raise _not_there(root, path, folder)
    return replace(found, allow=places) if places else found


def decoded_array(root: str, path: str, allow: Iterable[str | os.PathLike[str]]) -> ZarrArray | None:
    """Return an array whose chunks are decoded here, or `None`; damaged metadata raise an error."""
    try:
        found = open_array(root, path, allow=allow)
    except (UnsupportedError, ConventionError):
        return None
    except SourceError as error:
        # Chunks do not depend on the names of dimensions.
        if not error.problems or not all(p.where.endswith(_NAMES) for p in error.problems):
            raise
        return None
    return None if found.decoder is None else found


def array_of(
    store: str, path: str, read: Callable[[str], bytes | None], opens: Opens | None, *, any_type: bool = False
) -> ZarrArray:
    """Return the description of an array in a store that is not a directory; `any_type` is as for `open_array`."""
    # `read` returns the bytes of a key, `opens` opens a stored object by its path: `store`, a slash and the key.
    node_folder(store, path)
    path = path.strip("/")
    prefix = f"{path}/" if path else ""
    found = _described(store, path, lambda name: read(f"{prefix}{name}"), any_type)
    if found is None:
        raise _no_array(store, path)
    return replace(found, opens=opens)


def _described(store: str, path: str, read: Callable[[str], bytes | None], any_type: bool) -> ZarrArray | None:
    """Return the description of an array from its documents, which `read` returns by name; `None` if there are none."""
    where, folder = f"{store}: array {path!r}", node_folder(store, path)
    text = read("zarr.json")
    if text is not None:
        return _open_v3(store, path, where, parse(text, f"{folder}/zarr.json"), _signature(text), any_type)
    text = read(".zarray")
    if text is None:
        return None
    document, more = parse(text, f"{folder}/.zarray"), read(".zattrs")
    attributes = {} if more is None else parse(more, f"{folder}/.zattrs")
    return _open_v2(store, path, where, document, attributes, _signature(text, more or b""), any_type)


def current_signature(array: ZarrArray) -> str | None:
    """Return ``array.signature`` of the current documents, or `None` if the array no longer exists."""
    names = ("zarr.json",) if array.zarr_format == 3 else (".zarray", ".zattrs")
    store = array.store.anew if isinstance(array.store, Url) else array.store
    texts = [read_text(array.folder, name, store, array.allow) for name in names]
    return None if texts[0] is None else _signature(*(b"" if t is None else t[0] for t in texts))


def _signature(*texts: bytes) -> str:
    """Return a digest of documents."""
    found = hashlib.blake2b(digest_size=16)
    for text in texts:
        found.update(len(text).to_bytes(8, "little") + text)
    return found.hexdigest()


def _not_there(store: str, path: str, folder: str) -> SourceError:
    """Return the error for an array that does not exist, which names those that do."""
    if isinstance(store, Url):
        return _no_array(store, path)
    if any(os.path.lexists(f"{folder}/{name}") for name in (".zgroup", ".zmetadata")):
        return SourceError(f"{store}: {path!r} is a group; name an array in it")
    inside = []
    parent = node_folder(store, path.rpartition("/")[0])
    if os.path.isdir(parent):  # noqa: PTH112
        with os.scandir(parent) as entries:
            inside = sorted(
                e.name
                for e in entries
                if not e.name.startswith(".")
                and any(os.path.lexists(f"{e.path}/{name}") for name in ("zarr.json", ".zarray"))
            )
    if not inside and not any(os.path.lexists(f"{parent}/{name}") for name in ("zarr.json", ".zgroup")):
        if is_icechunk(parent):
            return SourceError(no_store(parent))
        why = "it is not a Zarr store: it has neither zarr.json nor .zgroup"
        return SourceError(f"{store} has no Zarr array {path!r}: {why}; name a store that has it")
    found = f"; found {some(inside)}" if inside else ""
    return _no_array(store, path, found, closest(path.rpartition("/")[2], inside))


def _no_array(store: str, path: str, found: str = "", hint: str = "") -> SourceError:
    return SourceError(f"{store} has no Zarr array {path!r}{found}; name an array of the store{hint}")


def _open_v3(store: str, path: str, where: str, document: dict[str, Any], signature: str, any_type: bool) -> ZarrArray:
    """Return an array from its ``zarr.json``."""
    if document.get("node_type") == "group":
        raise SourceError(f"{where} is a group; name an array in it")
    problems: list[Problem] = []
    if document.get("zarr_format") != 3 or document.get("node_type") != "array":
        problems.append(
            Problem("node_type", f"expected an array of Zarr format 3, found {shorten(document.get('node_type'))}")
        )
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        problems.append(Problem("attributes", f"expected an object, found {shorten(attributes)}"))
        attributes = {}
    _refuse_unknown(document, where)
    shape, dtype = _shape(document, problems), _type(document.get("data_type"), 3, where, any_type)
    grid, objects = grid_v3(document, shape, problems, where)
    prefix, separator = key_form(document.get("chunk_key_encoding"), problems, where)
    fill = None if dtype.kind == "V" else fill_number(document.get("fill_value"), dtype, problems)
    dims = _dims_v3(document, attributes, len(shape), problems, where)
    _check(where, problems)
    shown = {k: v for k, v in attributes.items() if k != "_ARRAY_DIMENSIONS"}
    return ZarrArray(
        store, path, 3, shape, dtype, dims, grid, objects, fill, True, shown, document, signature, prefix, separator
    )


def _open_v2(
    store: str,
    path: str,
    where: str,
    document: dict[str, Any],
    attributes: dict[str, Any],
    signature: str,
    any_type: bool,
) -> ZarrArray:
    """Return an array from its ``.zarray`` and ``.zattrs``."""
    problems: list[Problem] = []
    if document.get("zarr_format") != 2:
        problems.append(Problem("zarr_format", f"expected 2, found {shorten(document.get('zarr_format'))}"))
    if document.get("order", "C") not in ("C", "F"):
        problems.append(Problem("order", f"expected C or F, found {shorten(document['order'])}"))
    separator = document.get("dimension_separator", ".")
    if separator not in (".", "/"):
        problems.append(Problem("dimension_separator", f"expected . or /, found {shorten(separator)}"))
    filters, compressor = document.get("filters"), document.get("compressor")
    if not (filters is None or isinstance(filters, list)):
        problems.append(Problem("filters", f"expected a list or null, found {shorten(filters)}"))
    if not (compressor is None or isinstance(compressor, dict)):
        problems.append(Problem("compressor", f"expected an object or null, found {shorten(compressor)}"))
    shape, dtype = _shape(document, problems), _type(document.get("dtype"), 2, where, any_type)
    grid = grid_v2(document.get("chunks"), shape, problems)
    fill = document.get("fill_value")
    value = None if dtype.kind == "V" else fill_number(0 if fill is None else fill, dtype, problems)
    dims = dim_names(attributes.get("_ARRAY_DIMENSIONS"), len(shape), "_ARRAY_DIMENSIONS", problems)
    _check(where, problems)
    document = _with_size_of_shuffle(document, dtype)
    shown = {k: v for k, v in attributes.items() if k != "_ARRAY_DIMENSIONS"}
    names, declared = dims or tuple(f"dim_{d}" for d in range(len(shape))), fill is not None
    return ZarrArray(
        store, path, 2, shape, dtype, names, grid, grid, value, declared, shown, document, signature, "", separator
    )


def _with_size_of_shuffle(document: dict[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return metadata whose first filter gives the size of the elements whose bytes it sorts."""
    # netCDF-C writes 0 for that of the array's type, which numcodecs interprets as no sorting, with wrong values.
    filters = document.get("filters") or [None]
    first = filters[0]
    if not isinstance(first, dict) or first.get("id") != "shuffle" or first.get("elementsize") != 0:
        return document
    return {**document, "filters": [{**first, "elementsize": dtype.itemsize}, *filters[1:]]}


def _type(given: Any, zarr_format: int, where: str, any_type: bool) -> np.dtype[Any]:
    """Return the type of the elements, or ``void`` for an unsupported one if allowed."""
    try:
        return data_type(given, zarr_format, where)
    except UnsupportedError:
        if any_type:
            return np.dtype("V1")
        raise


def _check(where: str, problems: list[Problem]) -> None:
    if problems:
        raise SourceError(f"{where} has metadata that violate the Zarr specification", problems)


def _shape(document: Mapping[str, Any], problems: list[Problem]) -> tuple[int, ...]:
    """Return the shape."""
    shape = document.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**62 for n in shape) or len(shape) > 64:
        problems.append(Problem("shape", f"expected a list of sizes, found {shorten(shape)}"))
        return ()
    return tuple(shape)


def _dims_v3(
    document: Mapping[str, Any], attributes: Mapping[str, Any], rank: int, problems: list[Problem], where: str
) -> tuple[str, ...]:
    """Return the names of the dimensions, which may be in two places that have to agree."""
    given = document.get("dimension_names")
    unnamed = given is None or (isinstance(given, list) and all(n is None for n in given))
    own = None if unnamed else dim_names(given, rank, "dimension_names", problems)
    other = dim_names(attributes.get("_ARRAY_DIMENSIONS"), rank, "attributes._ARRAY_DIMENSIONS", problems)
    if other is not None and "_ACCUMULATION_STRIDE" in attributes:
        # Sums have the dimensions of the data, but xarray needs other names for those of different length.
        return other
    if own is not None and other is not None and own != other and not problems:
        raise ConventionError(
            f"{where}: dimension_names {list(own)} and _ARRAY_DIMENSIONS {list(other)} disagree; make them the same"
        )
    return own or other or tuple(f"dim_{d}" for d in range(rank))


def _refuse_unknown(document: Mapping[str, Any], where: str) -> None:
    """Raise an error for extensions that must be understood: unknown keys and storage transformers."""
    known = {
        "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value",
        "attributes", "dimension_names", "storage_transformers", "consolidated_metadata",
    }  # fmt: skip
    if document.get("storage_transformers"):
        raise UnsupportedError(f"{where} uses storage transformers, which are not supported")
    for key, value in document.items():
        if key not in known and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(f"{where} has the extension {key!r}, which is not supported")
