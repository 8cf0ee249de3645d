"""A Zarr store as a source: its contents and values, as `cfagg.arrays.source` provides them for a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.arrays.described import group_of
from cfagg.arrays.source import OtherSource, Variable
from cfagg.cf.header import Header
from cfagg.errors import CfaggError, SourceError, SourceNotFoundError
from cfagg.formats.icechunk import IcechunkStore, open_repository
from cfagg.formats.metadata.json_values import value_of_json
from cfagg.formats.metadata.nczarr import HIDDEN, notes_of
from cfagg.formats.metadata.stores import LocalStore, RemoteStore
from cfagg.formats.metadata.zarr import open_store
from cfagg.formats.metadata.zarr_nodes import Node, read_node
from cfagg.formats.metadata.zarr_times import times_of
from cfagg.formats.metadata.zarr_types import fill_of_text, object_codec
from cfagg.formats.opening import is_repository
from cfagg.formats.zarr.codecs import named
from cfagg.formats.zarr.consolidated import published
from cfagg.formats.zarr.metadata import ZarrArray, array_of, open_array
from cfagg.model import dataset as model
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from cfagg.arrays.reader import Reader

__all__ = ["ZarrSource", "open_zarr_source", "source_of_store"]

#: Most bytes of one element that are read.
_WIDEST = 1 << 20


@dataclass(frozen=True)
class ZarrSource(OtherSource):
    """The metadata of one Zarr store, and the location of its values."""

    store: LocalStore | RemoteStore | IcechunkStore = field(kw_only=True)
    arrays: dict[str, model.Variable] = field(kw_only=True)

    @property
    def has_default_fills(self) -> bool:
        """Whether the netCDF library may have written its default fill values."""
        return "NCZarr" in self.format

    def reader(self, group: str, variable: Variable, workers: int | None = None) -> Reader:
        """Return the reader of an array: cfagg's own if it can decode the chunks, else through zarr-python."""
        from cfagg.arrays.chunked import ZarrReader
        from cfagg.arrays.slabs import SlabReader

        path = f"{group.rstrip('/')}/{variable.name}"
        slab: Any = self.arrays[path].read
        grid = fill = None
        array = self._array(slab.path)
        if array is None:
            # Strings and the like, which zarr-python reads; damaged metadata raise when values are read.
            array = self._array(slab.path, any_type=True)
        else:
            fill = array.fill_value
            if array.ndim == len(variable.dims):  # NCZarr's scalars are arrays of one element
                grid = array.grid
                here = (
                    isinstance(self.store, LocalStore) or self.store.opens is not None or isinstance(array.store, Url)
                )
                fits = (array.shape, array.dtype) == (variable.shape, variable.dtype)
                if here and fits and array.decoder is not None:
                    return ZarrReader(array, workers=workers)
        header = Header(
            self.store.source, variable.name, variable.dims, variable.shape, variable.dtype, variable.attributes
        )
        label = f"{self.store.source}: array {path!r}"
        chunks = None if slab.chunks is None else tuple(slab.chunks)
        return SlabReader(header, slab, label, chunks=chunks, grid=grid, fill=fill, workers=workers, stored=array)

    def flaw(self, group: str, variable: Variable) -> str | None:
        """Return why zarr-python, which is left what cfagg does not decode, cannot open an array; see `OtherSource`."""
        slab: Any = self.arrays[f"{group.rstrip('/')}/{variable.name}"].read
        if self.store.is_remote:
            return None  # a server that does not answer is no flaw of the array
        array = self._array(slab.path)
        found: str | None = None if array is not None and array.decoder is not None else slab.flaw()
        return found

    def _array(self, path: str, *, any_type: bool = False) -> ZarrArray | None:
        """Return an array of the store, or `None` if its metadata are not read here."""
        try:
            if isinstance(self.store, LocalStore):
                return published(open_array(self.store.path, path, allow=self.store.allow, any_type=any_type))
            source = self.store.source
            where = source.beside(source.rstrip("/")) if isinstance(source, Url) else source
            return array_of(where, path, self._document, self.store.opens, any_type=any_type)
        except CfaggError:
            return None

    def _document(self, key: str) -> bytes | None:
        """Return a document of an array; no document of version 3 is requested in a store of version 2."""
        return None if self.format.startswith("Zarr v2") and key.endswith("zarr.json") else self.store.read(key)

    def fingerprint(self) -> str:
        """Return a digest of names, sizes and modification times of everything in the store."""
        if isinstance(self.path, Url) or not isinstance(self.store, LocalStore):
            # Whether chunks elsewhere have changed is not known, so their conversion is never resumed.
            return os.urandom(16).hex()
        digest = hashlib.sha256()
        for folder, names, files in os.walk(self.path):
            names.sort()
            for name in sorted(files):
                try:
                    state = os.stat(f"{folder}/{name}", follow_symlinks=False)  # noqa: PTH116
                except FileNotFoundError:
                    continue  # another process that writes to the store has just removed or renamed it
                text = f"{folder}/{name}\0{state.st_size}\0{state.st_mtime_ns}\0{state.st_ctime_ns}\n"
                digest.update(text.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def open_zarr_source(path: str | os.PathLike[str], allow: Sequence[str | os.PathLike[str]] = ()) -> ZarrSource:
    """Return the metadata of a Zarr store in a directory, whose links may point to `allow`; no chunk is read.

    >>> import tempfile, numpy as np, zarr
    >>> store = tempfile.mkdtemp()
    >>> _ = zarr.create_array(store, name="tas", data=np.arange(4), dimension_names=("time",))
    >>> source = open_zarr_source(store)
    >>> source.format, source.root.dimensions, source.root.variables["tas"].dtype
    ('Zarr v3', {'time': 4}, dtype('int64'))
    """
    name = os.fspath(path)
    store: LocalStore | RemoteStore | IcechunkStore
    if isinstance(name, Url):
        from cfagg.formats.metadata.url import store_at

        store = store_at(name)
    elif is_repository(name):
        return source_of_store(name, "Icechunk", open_repository(name))
    elif not os.path.isdir(name):  # noqa: PTH112
        raise SourceNotFoundError(f"{name} is not a Zarr store: there is no such directory")
    else:
        store = LocalStore(os.path.abspath(name), allow)  # noqa: PTH100
    top = read_node(store, "")
    if top is None and isinstance(name, Url) and is_repository(name):
        return source_of_store(name, "Icechunk", open_repository(name))
    return source_of_store(name, "Zarr" if top is None else f"Zarr v{top.format}", store)


def source_of_store(name: str, form: str, store: LocalStore | RemoteStore | IcechunkStore) -> ZarrSource:
    """Return the contents of a store."""
    dataset = open_store(store, times=True, flawed=not store.is_remote)
    found = ((f"{g.path.rstrip('/')}/{n}", v) for g in dataset.root.walk() for n, v in g.variables.items())
    arrays = {path: v for path, v in found if v.unreadable is None}
    return ZarrSource(
        name,
        f"{form}, NCZarr" if dataset.format == "nczarr" else form,
        group_of(dataset.root, store.source, lambda one: _variable(one, store), lambda g: _attributes(g, store)),
        store=store,
        arrays=arrays,
    )


def _attributes(group: model.Group, store: LocalStore | RemoteStore | IcechunkStore) -> dict[str, Any]:
    """Return the attributes of a group."""
    node = read_node(store, group.path.strip("/"))
    return {} if node is None or node.is_array else _shown(node)


def _shown(node: Node) -> dict[str, Any]:
    """Return the attributes of a node, in the types that NCZarr gives, without those that only describe its storage."""
    types = notes_of(node.attributes, node.document).types
    return {k: _typed(v, types.get(k)) for k, v in node.attributes.items() if k not in HIDDEN}


def _typed(value: Any, type_: str | None) -> Any:
    """Return an attribute in its type; one without is as JSON has it."""
    found: Any = value if type_ is None else value_of_json(value, type_)
    return found[0] if isinstance(found, np.ndarray) and found.size == 1 else found


def _variable(found: model.Variable, store: LocalStore | RemoteStore | IcechunkStore) -> Variable:
    """Return the description of an array."""
    read: Any = found.read
    node = read_node(store, read.path, read.format)
    if node is None:
        raise SourceError(f"{store.source}: array {found.path!r} was removed while the store was read")
    attributes = {k: v for k, v in _shown(node).items() if k != "_FillValue"}
    attributes |= times_of(node.document, node.format, node.attributes) or {}
    # Zarr v2 has no other place for a missing value, so readers treat the fill value as one.
    own: Any = found.attributes.get("_FillValue") if found.fill is None else found.fill
    if own is None and node.format == 3:
        own = fill_of_text(found, node.document)
    if own is not None:
        attributes["_FillValue"] = own.reshape(-1)[0] if isinstance(own, np.ndarray) else own
    return Variable(found.name, found.dims, found.shape, _dtype(found, node), attributes)


def _dtype(found: model.Variable, node: Node) -> np.dtype[Any]:
    """Return the type of an array as in `cfagg.arrays.source.Variable`."""
    given: Any = node.document.get("data_type" if node.format == 3 else "dtype")
    if found.kind in ("integer", "float", "char"):
        return found.dtype
    if given in ("bool", "|b1"):
        return np.dtype("?")
    name = given.get("name") if isinstance(given, dict) else given
    read: Any = found.read
    form, length = _fixed_length(given)
    if read.text or (found.kind == "string" and form != "S"):
        metadata = {"element_type": str} if read.text or not length else {"element_type": str, "characters": length}
        return np.dtype(object, metadata=metadata)
    if length:
        return np.dtype(f"S{length}")
    if given == "|O" and (codec := object_codec(node.document)) is not None:
        name = f"object ({codec})"
    return np.dtype(object, metadata={"name": str(name)[:60]})


def _fixed_length(given: Any) -> tuple[str, int]:
    """Return the NumPy letter of a type of fixed-length bytes or texts, and their length; 0 for any other type."""
    if isinstance(given, str):
        form, length = given[1:2], int(given[2:]) if given[2:].isdecimal() and len(given) <= 16 else 0
    else:
        name, configuration = named(given)
        form, size = {"null_terminated_bytes": ("S", 1), "fixed_length_utf32": ("U", 4)}.get(name, ("", 1))
        found = configuration.get("length_bytes")
        length = found // size if type(found) is int else 0
    return form, length if form in ("S", "U") and 0 < length <= _WIDEST else 0
