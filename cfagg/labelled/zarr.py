"""Zarr stores as presented by xarray, read through checked files and decoded by cfagg.

xarray and zarr-python interpret the metadata as usual; values are read by `cfagg.arrays.chunked` if cfagg can decode
the chunks, and errors for damaged metadata become cfagg errors that name the field.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends.common import BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.backends.zarr import ZarrArrayWrapper, ZarrStore
from xarray.core import indexing
from zarr.core.buffer import default_buffer_prototype

from cfagg.arrays.chunked import ZarrReader
from cfagg.cf.header import plain
from cfagg.cf.unpackable import check_packing, real_packing
from cfagg.conventions import limits
from cfagg.errors import (
    CfaggError,
    ConventionError,
    FragmentReadError,
    LimitError,
    SourceError,
    UnsupportedError,
)
from cfagg.errors.arguments import names
from cfagg.formats.codecs import check_chunk
from cfagg.formats.metadata.json_values import value_of_json
from cfagg.formats.metadata.nczarr import notes_of
from cfagg.formats.metadata.remote_store import KeyStore
from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.url import is_consolidated, store_at
from cfagg.formats.metadata.zarr import open_store
from cfagg.formats.metadata.zarr_nodes import read_node
from cfagg.formats.zarr.attributes import encoded_fill
from cfagg.formats.zarr.checked_store import CheckedStore
from cfagg.formats.zarr.consolidated import listed as listed_array
from cfagg.formats.zarr.documents import node_folder, parse, read_document
from cfagg.formats.zarr.metadata import ZarrArray, array_of, open_array
from cfagg.formats.zarr.settings import no_codec, open_plainly, text_of, unequal_chunks
from cfagg.formats.zarr.vetting import COARSE
from cfagg.formats.zarr.zipped import CheckedZip
from cfagg.labelled.indexed import IndexedArray, IndexedLabels
from cfagg.labelled.missing_times import with_missing_times
from cfagg.storage.store import raise_ours
from cfagg.storage.tree import listed
from cfagg.storage.urls import Url

__all__ = ["ZarrEntrypoint"]

_DROP = "drop_variables"

#: Maximum number of labels of a remote dimension that are kept in memory.
_LABELS = 1 << 20


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether asyncio should log an error: not if it is one of ours, of which the first has been raised."""
    # zarr-python opens all arrays of a group at once, and leaves the errors of others than the first without a reader,
    # or, where the interpreter ends at once, the tasks that open them.
    if isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], CfaggError):
        return False
    said = record.getMessage()
    return not (said.startswith("Task was destroyed but it is pending") and "coro=<_getitem_semaphore()" in said)


logging.getLogger("asyncio").addFilter(_is_news)


class _Store(ZarrStore):
    """xarray's view of a group, whose values are read chunk by chunk if cfagg can decode them."""

    #: Whether values will be unpacked.
    unpack: bool = False
    #: Threads or requests of one read, if set by the user.
    workers: int | None = None

    def open_store_variable(self, name: str) -> xr.Variable:
        """Return a variable."""
        if not self._use_zarr_fill_value_as_mask:
            _encode_fill(self.members[name])
        variable: xr.Variable = super().open_store_variable(name)  # type: ignore[no-untyped-call]
        wrapper: Any = getattr(variable._data, "array", None)
        variable.attrs = _typed(variable.attrs, getattr(getattr(wrapper, "_array", None), "attrs", {}))
        if self.unpack:
            variable.attrs = real_packing(variable.attrs, variable.dtype)
        store = self.zarr_group.store
        if type(wrapper) is ZarrArrayWrapper and isinstance(store, CheckedStore | CheckedZip | KeyStore):
            array: Any = wrapper._array
            found = _remote_array(store, array) if isinstance(store, KeyStore) else store.decoded(array.path)
            if found is not None and found.shape != array.shape:
                # The root of a store that grows publishes all arrays at once, after their own documents.
                same = (replace(one, allow=found.allow) for one in listed_array(found) if one.shape == array.shape)
                found = next(same, None)
            if found is None:
                wrapper._array = _Array(array)
            else:
                # On another machine, each access is a request.
                once = isinstance(store, KeyStore) and variable.dims == (name,) and found.size <= _LABELS
                indexed = IndexedLabels if once else IndexedArray
                lazy: Any = indexing.LazilyIndexedArray(indexed(ZarrReader(found, workers=self.workers), wrapper.dtype))
                variable._data = lazy
        variable.attrs.pop(COARSE, None)
        if variable.dims == ("_scalar_",) and variable.shape == (1,):
            # The netCDF library writes a scalar as an array of one element.
            variable = variable.isel(_scalar_=0)
            for key in ("chunks", "shards", "preferred_chunks"):
                variable.encoding.pop(key, None)
        return variable


def _typed(attributes: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes in the types that the netCDF library notes among those stored, such as NaN for its name."""
    types = notes_of(stored, {}).types
    types.pop("_FillValue", None)  # as xarray decodes it
    return {k: plain(value_of_json(v, types[k])) if k in types else v for k, v in attributes.items()}


def _encode_fill(array: Any) -> None:
    """Give a fill value that other software wrote as a number the form that xarray decodes, in memory."""
    attributes = array.metadata.attributes
    fill = attributes.get("_FillValue")
    if array.dtype.kind == "f" and type(fill) in (int, float):
        with np.errstate(over="ignore"):
            own = array.dtype.type(fill)
        if np.isfinite(own) or not np.isfinite(fill):
            attributes["_FillValue"] = encoded_fill(own, array.dtype, attributes)


def _remote_array(store: KeyStore, array: Any) -> ZarrArray | None:
    """Return an array on another machine whose chunks cfagg decodes, from the metadata of zarr-python."""
    if not isinstance(store.path, Url):
        return None
    front = f"{array.path}/" if array.path else ""
    documents = array.metadata.to_buffer_dict(default_buffer_prototype())

    def read(key: str) -> bytes | None:
        if COARSE in array.attrs:
            own: bytes | None = store.source.read(key)
            return own
        found = documents.get(key.removeprefix(front))
        return None if found is None else bytes(found.to_bytes())

    try:
        made = array_of(store.path, array.path, read, None)
    except (UnsupportedError, ConventionError, SourceError):
        return None  # whatever is wrong with it, zarr-python accepted it
    return None if made.decoder is None else made


class _Array:
    """An array whose chunks zarr-python decodes; errors for damaged chunks become cfagg errors."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.oindex, self.vindex = _Indexer(array, array.oindex), _Indexer(array, array.vindex)

    def __getattr__(self, name: str) -> Any:
        if name == "_array":  # during unpickling
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, key: Any) -> Any:
        """Return some values."""
        return _Indexer(self._array, self._array)[key]


class _Indexer:
    def __init__(self, array: Any, source: Any) -> None:
        self._array, self._source = array, source

    def __getitem__(self, key: Any) -> Any:
        where = f"array {self._array.path!r} of {self._array.store}"
        if COARSE in self._array.attrs:
            raise LimitError(
                f"{where} is decoded by zarr-python and has more chunks of unequal lengths than it can list; write it "
                "in fewer chunks, or with codecs that cfagg decodes"
            )
        check_chunk(_chunks(self._array)[1] * self._array.dtype.itemsize, f"a chunk of {where}")
        try:
            return text_of(self._source[key], where)
        except (CfaggError, IndexError, MemoryError):
            raise
        except Exception as error:  # codecs may raise anything
            raise_ours(error)
            if (lacking := no_codec(error)) is not None:
                raise UnsupportedError(f"{where} {lacking}") from error
            raise SourceError(
                f"{where} cannot be read; zarr-python raises {type(error).__name__}: {str(error)[:300]}; write the "
                "chunk again"
            ) from error


def _chunks(array: Any) -> tuple[int, int]:
    """Return the number of chunks of an array, and the number of elements of the largest one."""
    try:
        chunks = array.chunks
    except NotImplementedError:  # for unequal lengths
        sizes = array.write_chunk_sizes
        return math.prod(map(len, sizes)), math.prod(max(lengths, default=0) for lengths in sizes)
    return math.prod(-(-n // max(c, 1)) for n, c in zip(array.shape, chunks, strict=True)), math.prod(chunks)


class ZarrEntrypoint(BackendEntrypoint):
    """The engine with which `cfagg.read` opens a Zarr store in a directory or a Zip file."""

    open_dataset_parameters = (
        "filename_or_obj", "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "drop_variables",
        "use_cftime", "decode_timedelta", "group", "consolidated", "zarr_format", "use_zarr_fill_value_as_mask",
        "allow", "chunked", "workers",
    )  # fmt: skip

    def open_dataset(  # type: ignore[override]
        self,
        filename_or_obj: str,
        *,
        group: str | None = None,
        consolidated: bool | None = None,
        zarr_format: Any = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        allow: Iterable[str | os.PathLike[str]] = (),
        chunked: bool = False,
        workers: int | None = None,
        **decoding: Any,
    ) -> xr.Dataset:
        """Return a group of a store as a dataset; `chunked` if it will be divided into its chunks."""
        store: CheckedStore | CheckedZip | KeyStore
        if isinstance(filename_or_obj, Url):
            known = store_at(filename_or_obj)
            open_store(known)  # reports in one sentence why it cannot be opened
            if not group:
                consolidated = is_consolidated(known) if consolidated is None else consolidated
                # If the format is not given, zarr-python requests the documents of both.
                zarr_format = zarr_format or (2 if known.read("zarr.json") is None else 3)
            store = KeyStore(known.remote, filename_or_obj.beside(filename_or_obj.rstrip("/")), coarse=True)
        elif os.path.isdir(filename_or_obj):  # noqa: PTH112
            # What is left out need not be sound, nor in a place that may be read.
            hidden = [f"{group or ''}/{name}".strip("/") for name in names(decoding.get("drop_variables") or (), _DROP)]
            store = CheckedStore(filename_or_obj, allow=allow, coarse=True, hidden=hidden)
            # zarr-python keeps complete chunk grids in memory, so the number of chunks is checked first.
            _check_counts(store, group or "", chunked=chunked)
        else:
            store = CheckedZip(filename_or_obj)
        try:
            # xarray only uses these for metadata; other threads may open stores meanwhile.
            with unequal_chunks():
                opened = _Store.open_group(
                    store,
                    group=group,
                    mode="r",
                    consolidated=consolidated,
                    consolidate_on_close=False,
                    use_zarr_fill_value_as_mask=use_zarr_fill_value_as_mask,
                    zarr_format=zarr_format,
                )
                arrays = list(opened.zarr_group.arrays())
                check_packing(filename_or_obj, ((name, array.attrs, array.dtype) for name, array in arrays), decoding)
                if chunked and isinstance(store, KeyStore):
                    for name, array in arrays:
                        _check_count(str(store), name, _chunks(array)[0])
                opened.workers = workers
                opened.unpack = decoding.get("mask_and_scale") is not False
                said = ((name, array.attrs) for name, array in arrays)
                return StoreBackendEntrypoint().open_dataset(opened, **with_missing_times(decoding, said))
        except FragmentReadError as error:
            if isinstance(store, CheckedStore):
                _find_problem(store, group or "", error)  # a document is not a partition
            raise
        except CfaggError:
            raise
        except Exception as error:  # damaged metadata can raise anything
            if isinstance(store, CheckedStore):
                _find_problem(store, group or "", error)
            raise SourceError(
                f"{filename_or_obj}, group {group or '/'}: xarray cannot make a dataset of it ({type(error).__name__}: "
                f"{str(error)[:300]}); 'cfagg check' gives details"
            ) from error
        finally:
            if isinstance(store, KeyStore):
                store.source = store.source.source  # from now on, the current state is read


def _nodes(store: CheckedStore, group: str) -> list[str]:
    """Return the paths of nodes that may be arrays in a group."""
    folder = node_folder(store.path, group)
    if listed(store.path, folder, store.allow) is None:
        return []
    prefix = group.strip("/") + "/" if group.strip("/") else ""
    found = (f"{prefix}{name}" for name in sorted(os.listdir(folder)) if not name.startswith("."))  # noqa: PTH208
    return [path for path in found if path not in store.hidden]


def unreadable_beside(path: str, group: str | None, kept: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """Return the members of a group of a local store that no dataset can have together with those that are kept.

    `options` are those of `xarray.open_dataset`.
    """
    given = names(options.get(_DROP) or (), _DROP)
    store = CheckedStore(path, allow=options.get("allow") or ())
    here = [found.rpartition("/")[2] for found in _nodes(store, group or "")]
    others = [name for name in here if name not in {*kept, *given}]

    def opens(some: list[str]) -> bool:
        left_out = [*given, *(name for name in others if name not in set(some))]
        try:
            # Times that are not decoded are refused with a remedy, since they may be coordinates of what is kept.
            xr.open_dataset(path, group=group, **{**options, _DROP: left_out, "decode_times": False}).close()
        except (CfaggError, ValueError):
            return False
        return True

    def with_more(some: list[str], more: list[str]) -> list[str]:
        if opens([*some, *more]):
            return [*some, *more]
        half = len(more) // 2
        return with_more(with_more(some, more[:half]), more[half:]) if half else some

    # If those that are kept cannot be read alone, the reason is said best without others.
    readable = with_more([], others) if opens([]) else []
    return [name for name in others if name not in set(readable)]


def _check_counts(store: CheckedStore, group: str, *, chunked: bool) -> None:
    """Raise an error for an array with more chunks than can be counted individually."""
    if not chunked:
        return
    for path in _nodes(store, group):
        folder = f"{store.path}/{path}"
        if not os.path.isdir(folder):  # noqa: PTH112
            continue
        for name in ("zarr.json", ".zarray"):
            found = read_document(folder, name, store.path, store.allow)
            if found is None:
                continue
            shape, chunks = found.content.get("shape"), found.content.get("chunks")
            grid = found.content.get("chunk_grid")
            if chunks is None and isinstance(grid, dict) and isinstance(grid.get("configuration"), dict):
                chunks = grid["configuration"].get("chunk_shape")
            if not isinstance(shape, list) or not isinstance(chunks, list) or len(shape) != len(chunks):
                continue
            if all(type(n) is int for n in (*shape, *chunks)):
                count = math.prod(-(-n // max(c, 1)) for n, c in zip(shape, chunks, strict=True))
                _check_count(str(store.path), path, count)


def _check_count(store: str, path: str, count: int) -> None:
    if count > limits.MAX_PARTITIONS:
        raise LimitError(
            f"{store}: array {path!r} has {count:,} chunks, expected at most {limits.MAX_PARTITIONS:,} for an array in "
            "chunks; pass chunks=None, or set cfagg.conventions.limits.MAX_PARTITIONS"
        )


def _find_problem(store: CheckedStore, group: str, error: Exception) -> None:
    """Raise the problem with the metadata of a group or one of its arrays, if it can be found."""
    node = read_node(LocalStore(store.path, store.allow), group.strip("/"))
    if node is not None and node.is_array:
        where = f"{store.path}/{node.path}".rstrip("/")
        raise SourceError(
            f"{where} is a single Zarr array, and cfagg.read opens groups: name the group that contains it, or open "
            "the array with cfagg.open_array"
        )
    for path in _nodes(store, group):
        if any(os.path.lexists(f"{store.path}/{path}/{name}") for name in ("zarr.json", ".zarray")):
            found = read_document(f"{store.path}/{path}", "zarr.json", store.path, store.allow)
            if found is None or found.content.get("node_type") != "group":
                _find_problem_of(store, path, error)


def _find_problem_of(store: CheckedStore, path: str, error: Exception) -> None:
    """Raise the problem with the metadata of an array, if it can be found."""
    try:
        array = open_array(store.path, path, allow=store.allow)
    except UnsupportedError as ours:
        try:
            open_plainly(store, path, None)
        except Exception as problem:  # data types may raise anything
            raise ours from problem
        # zarr-python reads it, so its types are not the problem.
        array = open_array(store.path, path, allow=store.allow, any_type=True)
    else:
        _ = array.decoder
    attributes = parse(store.part(f"{path}/.zattrs", None) or b"{}", f"{store.path}/{path}/.zattrs")
    if array.zarr_format == 3:
        named = len(array.document.get("dimension_names") or ()) == array.ndim
    else:
        named = "_ARRAY_DIMENSIONS" in attributes or "_NCZARR_ARRAY" in array.document
    if not named and isinstance(error, KeyError):
        key = "dimension_names in zarr.json" if array.zarr_format == 3 else "the attribute _ARRAY_DIMENSIONS"
        raise SourceError(
            f"{store.path}: array {path!r} has no names of dimensions, which a dataset requires; write them ({key}), "
            "or open the array with cfagg.open_array"
        )
