"""A Zarr store of this machine as a source: what is in it, and its values, as `cfagg.arrays.source` gives a file's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.source import Group, Source, Variable, open_source
from cfagg.conventions import nca
from cfagg.errors import CfaggError, SourceError, SourceNotFoundError, UnreadableAggregationError, UnsupportedError
from cfagg.errors.arguments import a_path
from cfagg.formats.metadata.nczarr import HIDDEN
from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.zarr import Node, open_store, read_node
from cfagg.formats.opening import a_name
from cfagg.formats.zarr.metadata import open_array
from cfagg.model import Grid
from cfagg.model import dataset as model

__all__ = ["ZarrReader", "ZarrSource", "mark_of", "open_any", "open_zarr_source"]


@dataclass(frozen=True, eq=False)
class ZarrReader:
    """Reads boxes of one array; elements of chunks that are not stored are the array's fill value.

    Parameters
    ----------
    read : callable
        Returns a hyperslab.
    dtype : numpy.dtype
        Type of the values.
    where : str
        Store and array, for messages.
    fill : scalar, optional
        Fill value of the array, `None` where it is not a number.
    grid : Grid, optional
        The chunks of the array, `None` where they are not known.
    """

    read: Callable[[tuple[slice, ...]], npt.NDArray[Any]]
    dtype: np.dtype[Any]
    where: str
    fill: Any = None
    grid: Grid | None = None

    def read_into(self, out: npt.NDArray[Any], selection: tuple[slice, ...]) -> None:
        """Write the values of `selection` into `out`.

        Raises
        ------
        UnsupportedError
            If the array holds objects other than strings.
        CfaggError
            If chunks are damaged or cannot be read.
        """
        values = self.read(selection)
        if values.dtype.kind == "O" and not all(isinstance(v, str) for v in values.flat):
            raise UnsupportedError(f"{self.where} holds objects other than strings; choose other variables")
        if values.shape != out.shape:
            raise SourceError(f"{self.where}: {values.shape} values were read, expected {out.shape}; it was changed")
        out[...] = values


@dataclass(frozen=True)
class ZarrSource(Source):
    """The metadata of one Zarr store, and readers of its arrays by their paths."""

    readers: dict[str, ZarrReader] = field(default_factory=dict)

    def reader(self, group: str, name: str) -> ZarrReader:
        """Return the reader of an array."""
        return self.readers[f"{group.rstrip('/')}/{name}"]

    def fingerprint(self) -> str:
        """Return a digest of names, sizes and times of change of all that the store holds."""
        digest = hashlib.sha256()
        for folder, names, files in os.walk(self.path):
            names.sort()
            for name in sorted(files):
                state = os.stat(f"{folder}/{name}", follow_symlinks=False)  # noqa: PTH116
                text = f"{folder}/{name}\0{state.st_size}\0{state.st_mtime_ns}\0{state.st_ctime_ns}\n"
                digest.update(text.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def open_any(path: str | os.PathLike[str], allow: Sequence[str | os.PathLike[str]] = ()) -> Source:
    """Return the metadata of a netCDF file or of a Zarr store in a directory.

    Parameters
    ----------
    path : path
        The file or directory.
    allow : sequence of path
        Where links in a store may lead.

    Raises
    ------
    SourceError
        If it is neither, is not there, or is damaged.
    """
    name = a_name(a_path(path))
    return open_zarr_source(name, allow) if os.path.isdir(name) else open_source(name)  # noqa: PTH112


def open_zarr_source(path: str | os.PathLike[str], allow: Sequence[str | os.PathLike[str]] = ()) -> ZarrSource:
    """Return the metadata of a Zarr store in a directory; no chunk is read.

    Parameters
    ----------
    path : path
        The directory.
    allow : sequence of path
        Where links in it may lead.

    Raises
    ------
    AccessError
        If a link leads out of it.
    SourceError
        If it is not a Zarr store, or its metadata are damaged.

    Examples
    --------
    >>> import tempfile, numpy as np, zarr
    >>> store = tempfile.mkdtemp()
    >>> _ = zarr.create_array(store, name="tas", data=np.arange(4), dimension_names=("time",))
    >>> source = open_zarr_source(store)
    >>> source.format, source.root.dimensions, source.root.variables["tas"].dtype
    ('Zarr v3', {'time': 4}, dtype('int64'))
    """
    name = os.fspath(path)
    if not os.path.isdir(name):  # noqa: PTH112
        raise SourceNotFoundError(f"{name} is not a Zarr store: there is no such directory")
    store = LocalStore(os.path.abspath(name), allow)  # noqa: PTH100
    dataset = open_store(store)
    top = read_node(store, "")
    readers: dict[str, ZarrReader] = {}
    form = "Zarr" if top is None else f"Zarr v{top.format}"
    return ZarrSource(
        name, f"{form}, NCZarr" if dataset.format == "nczarr" else form, _group(dataset.root, store, readers), readers
    )


def _group(found: model.Group, store: LocalStore, readers: dict[str, ZarrReader]) -> Group:
    """Return one group and those below."""
    node = read_node(store, found.path.strip("/"))
    variables: dict[str, Any] = {}
    unreadable: dict[str, UnreadableAggregationError] = {}
    for name, one in found.variables.items():
        path = f"{found.path.rstrip('/')}/{name}"
        variable, readers[path] = _variable(one, path, store)
        mark = mark_of(variable)
        if mark is None:
            variables[name] = variable
        else:
            message = (
                f"{store.source}: variable {name!r} is an aggregation that cannot be read: its attribute {mark!r} "
                "marks one, and aggregations are read from netCDF files only"
            )
            unreadable[name] = UnreadableAggregationError(message, (), [path.lstrip("/")])
    return Group(
        path=found.path,
        dimensions={name: d.size for name, d in found.dimensions.items()},
        unlimited=frozenset(name for name, d in found.dimensions.items() if d.unlimited),
        attributes={} if node is None or node.is_array else _shown(node),
        variables=variables,
        groups={name: _group(g, store, readers) for name, g in found.groups.items()},
        unreadable=unreadable,
    )


def _shown(node: Node) -> dict[str, Any]:
    """Return the attributes of a node as written, without what only describes how it is stored."""
    return {k: v for k, v in node.attributes.items() if k not in HIDDEN}


def mark_of(variable: Variable) -> str | None:
    """Return the attribute that marks a variable as an aggregation."""
    if "nca_array" in variable.attributes or "nca_dimensions" in variable.attributes:
        return "nca_array"
    return None if variable.dims else nca.foreign_mark(variable.attributes)


def _variable(found: model.Variable, path: str, store: LocalStore) -> tuple[Variable, ZarrReader]:
    """Return an array and its reader."""
    read: Any = found.read
    node = read_node(store, read.path)
    if node is None:
        raise SourceError(f"{store.source}: array {path!r} was removed while the store was read")
    dtype = _dtype(found, node)
    attributes = {k: v for k, v in _shown(node).items() if k != "_FillValue"}
    fill, grid = None, None
    try:
        opened = open_array(store.path, read.path, allow=store.allow)
    except CfaggError:
        pass  # strings and the like, which zarr-python reads; damaged metadata raise when values are read
    else:
        fill, grid = opened.fill_value, opened.grid
    # Zarr v2 has no other place for a fill value, so that readers take it for one that is missing.
    own: Any = found.attributes.get("_FillValue") if found.fill is None else found.fill
    if own is not None:
        attributes["_FillValue"] = own.reshape(-1)[0] if isinstance(own, np.ndarray) else own
    if grid is not None and grid.ndim != len(found.dims):
        grid = None  # NCZarr's scalars are arrays of one element
    reader = ZarrReader(read, dtype, f"{store.source}: array {path!r}", fill, grid)
    return Variable(found.name, found.dims, found.shape, dtype, attributes), reader


def _dtype(found: model.Variable, node: Node) -> np.dtype[Any]:
    """Return the type of an array as `cfagg.arrays.source.Variable` has it."""
    given: Any = node.document.get("data_type" if node.format == 3 else "dtype")
    if found.kind in ("integer", "float", "char"):
        return found.dtype
    if given in ("bool", "|b1"):
        return np.dtype("?")
    name = given.get("name") if isinstance(given, dict) else given
    if found.kind == "string" and name != "null_terminated_bytes" and not str(name).startswith("|S"):
        return np.dtype(object, metadata={"element_type": str})
    return np.dtype(object, metadata={"name": str(name)[:60]})
