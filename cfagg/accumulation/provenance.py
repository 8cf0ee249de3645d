"""The origin of the values of a lazy xarray array: proof that it is a selection of one array of a Zarr store.

xarray represents an array that was opened but not yet read as a chain of wrappers around the stored array: decoding
functions, one selection, a cache.  Dask adds a graph of tasks.  `trace` walks either from the outside in, and
recognizes every link that keeps stored values or decodes them by CF.  Anything else (arithmetic, `where`, values in
memory that may have been changed, links of another version of xarray) ends the walk, and the array is considered
untraced.  Names, attributes, coordinates and ``encoding`` are ignored, because copies with other values keep them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from xarray import Variable

    from cfagg.formats.zarr.metadata import ZarrArray

__all__ = ["BOOLEANS", "AxisIndex", "Decoding", "Origin", "UntracedError", "trace"]

#: Why the statistics of booleans are left to xarray.
BOOLEANS = "its values are booleans, whose sums, minima and maxima xarray gives in other types"

#: The positions selected along one axis of the stored array: a range, a list, or a single one, which drops the axis.
AxisIndex = range | int | npt.NDArray[np.int64]


class UntracedError(Exception):
    """An array cannot be proven to be a selection of a stored one; the message completes "it is used because ..."."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """The steps by which xarray decodes stored values, in the order of the fields."""

    #: Whether stored integers are read as unsigned (true) or signed (false); `None` for no change.
    unsigned: bool | None = None
    #: Values that become NaN, after the change by `unsigned`.
    fills: frozenset[float] = frozenset()
    #: Factor by which masked values are multiplied, and the offset that is added afterwards.
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Origin:
    """The stored array from which values come, and their positions in it."""

    store: str
    #: Without a leading slash.
    path: str
    #: Shape of the array when it was opened, and stored dtype in native byte order.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    #: The selection along each axis of the stored array.
    picked: tuple[AxisIndex, ...]
    decoding: Decoding = field(default_factory=Decoding)
    #: Places to which links in the store may point.
    allow: tuple[str, ...] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the remaining axes."""
        return tuple(len(p) for p in self.picked if not isinstance(p, int))


def trace(variable: Variable) -> Origin:
    """Return the stored array from which a variable's values come unmodified, or raise `UntracedError`."""
    data = variable._data
    origin = _graph(data) if hasattr(data, "__dask_graph__") else _chain(data)
    if origin.lengths != variable.shape:
        raise UntracedError(f"its shape {variable.shape} is not that of the selection {origin.lengths} it was made by")
    return origin


def _chain(data: Any) -> Origin:
    """Return the origin of a wrapper's values."""
    from xarray.backends.zarr import ZarrArrayWrapper
    from xarray.coding.common import _ElementwiseFunctionArray
    from xarray.coding.variables import BoolTypeArray, NativeEndiannessArray
    from xarray.core import indexing

    from cfagg.arrays.chunked import ZarrReader
    from cfagg.labelled.indexed import IndexedArray

    # Compare exact types, since a derived class may do anything to values.
    kind = type(data)
    if kind is indexing.LazilyIndexedArray:
        return _select(_chain(data.array), data.key.tuple)
    if kind is _ElementwiseFunctionArray:
        return _decoded(_chain(data.array), data.func)
    if kind is ZarrArrayWrapper:
        return _stored(data._array)
    if kind is IndexedArray and type(data.reader) is ZarrReader:
        return _read(data.reader.array)
    if kind in (
        indexing.MemoryCachedArray,
        indexing.CopyOnWriteArray,
        indexing.ImplicitToExplicitIndexingAdapter,
        NativeEndiannessArray,
    ):
        return _chain(data.array)
    if kind is np.ndarray or kind is indexing.NumpyIndexingAdapter or kind is indexing.PandasIndexingAdapter:
        raise UntracedError("its values are in memory")
    if kind is indexing.LazilyVectorizedIndexedArray:
        raise UntracedError("it is transposed or indexed point by point")
    if kind is BoolTypeArray:
        raise UntracedError(BOOLEANS)
    raise UntracedError(f"it does not come from a Zarr store ({kind.__name__})")


def _stored(array: Any) -> Origin:
    from zarr.storage import LocalStore

    from cfagg.formats.zarr.checked_store import CheckedStore

    store = array.store
    if type(store) not in (LocalStore, CheckedStore):
        raise UntracedError(f"its store is not a directory ({type(store).__name__})")
    return Origin(
        str(Path(store.root).absolute()),
        array.path.strip("/"),
        tuple(array.shape),
        np.dtype(array.dtype).newbyteorder("="),
        tuple(range(n) for n in array.shape),
        allow=tuple(getattr(store, "allow", ())),
    )


def _read(array: ZarrArray) -> Origin:
    from cfagg.storage.urls import Url

    if array.opens is not None or isinstance(array.store, Url):
        raise UntracedError("its store is not a directory")
    picked = tuple(range(n) for n in array.shape)
    return Origin(array.store, array.path, array.shape, array.dtype, picked, allow=array.allow)


def _decoded(origin: Origin, function: Any) -> Origin:
    """Return the origin with one more step of decoding."""
    from xarray.coding import variables

    if type(function) is not partial or function.args:
        raise UntracedError("its values went through a function")
    done, options = origin.decoding, function.keywords
    if function.func is np.asarray and set(options) == {"dtype"} and done == Decoding():
        kind = np.dtype(options["dtype"]).kind
        if origin.dtype.kind in "iu" and kind in "iu":
            return replace(origin, decoding=Decoding(unsigned=kind == "u"))
    elif function.func is getattr(variables, "_apply_mask", None) and done == Decoding(done.unsigned):
        fills = options.get("encoded_fill_values")
        if _is_nan(options.get("decoded_fill_value")) and _is_float(options.get("dtype")) and fills:
            numbers = frozenset(np.asarray(f).item() for f in fills)
            return replace(origin, decoding=replace(done, fills=numbers))
    elif function.func is getattr(variables, "_scale_offset_decoding", None) and (done.scale, done.offset) == (1, 0):
        scale, offset = options.get("scale_factor"), options.get("add_offset")
        if _is_float(options.get("dtype")):
            scaled = replace(done, scale=1.0 if scale is None else float(scale), offset=float(offset or 0.0))
            return replace(origin, decoding=scaled)
    name = getattr(function.func, "__name__", "function")
    raise UntracedError(f"its values went through {name}")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and math.isnan(value)


def _is_float(dtype: Any) -> bool:
    return dtype is not None and np.dtype(dtype).kind == "f"


def _select(origin: Origin, key: tuple[Any, ...]) -> Origin:
    """Return the origin after one more selection, which has at most one entry per remaining axis."""
    rest = iter(key)
    picked = tuple(p if isinstance(p, int) else _pick(p, next(rest, slice(None))) for p in origin.picked)
    if next(rest, None) is not None:
        raise UntracedError("it is indexed by more dimensions than it has")
    return replace(origin, picked=picked)


def _pick(picked: range | npt.NDArray[np.int64], key: Any) -> AxisIndex:
    if isinstance(key, slice):
        return picked[key]
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return int(picked[int(key)])
    if isinstance(key, np.ndarray) and key.ndim == 1 and key.dtype.kind in "iu":
        return np.asarray(picked, "i8")[key]
    raise UntracedError("it is indexed in an unknown way")


def _graph(data: Any) -> Origin:
    """Return the origin of a Dask array's values, on which all of its blocks must agree."""
    import dask.array

    if type(data) is not dask.array.Array:
        raise UntracedError(f"it is not an array of dask alone ({type(data).__name__})")
    walk = _Walk(data.__dask_graph__())
    origin: Origin | None = None
    # For each axis of this array, the selections of its blocks along it, in order.
    along: list[list[AxisIndex | None]] = [[None] * n for n in data.numblocks]
    for index in np.ndindex(data.numblocks):
        block = walk.origin((data.name, *index))
        if origin is None:
            origin = block
        left = [a for a, p in enumerate(block.picked) if not isinstance(p, int)]
        same = replace(block, picked=origin.picked) == origin and len(left) == len(index)
        if not same or any(p != q for p, q in zip(block.picked, origin.picked, strict=True) if isinstance(p, int)):
            raise UntracedError("its blocks come from several places")
        for axis, (place, i) in enumerate(zip(left, index, strict=True)):
            known = along[axis][i]
            if known is None:
                along[axis][i] = block.picked[place]
            elif not _same(known, block.picked[place]):
                raise UntracedError("its blocks are not a selection by dimensions")
    if origin is None:
        raise UntracedError("it has no blocks")
    joined = iter([_join(parts) for parts in along])
    return replace(origin, picked=tuple(p if isinstance(p, int) else next(joined) for p in origin.picked))


def _same(one: AxisIndex, other: AxisIndex) -> bool:
    if isinstance(one, range) and isinstance(other, range):
        return one == other
    return np.array_equal(np.asarray(one), np.asarray(other))


def _join(parts: list[Any]) -> AxisIndex:
    """Return consecutive ranges as one range if possible, else as positions."""
    parts = [p for p in parts if len(p)] or parts[:1]
    whole = np.concatenate([np.asarray(p, "i8") for p in parts])
    if len(whole) < 2:
        return range(int(whole[0]), int(whole[0]) + 1) if len(whole) else range(0)
    step = int(whole[1] - whole[0])
    if step and (np.diff(whole) == step).all():
        return range(int(whole[0]), int(whole[-1]) + (1 if step > 0 else -1), step)
    return whole


class _Walk:
    """Follows tasks of a Dask graph to the wrapper that they read from, each task once."""

    def __init__(self, graph: Any) -> None:
        from dask.array.chunk import getitem
        from dask.array.core import getter, getter_inline, getter_nofancy

        self.graph: Mapping[Any, Any] = graph
        self.layers: Mapping[str, Mapping[Any, Any]] = getattr(graph, "layers", {})
        self.getters = (getter, getter_inline, getter_nofancy, getitem, operator.getitem)
        self.known: dict[Any, Origin] = {}

    def origin(self, key: Any) -> Origin:
        if key in self.known:
            return self.known[key]
        # No recursion, since selections of selections are chains of tasks of any length.
        keys, indexes = [key], []
        node = self._node(key)
        while (step := self._step(node)) is not None:
            source, index = step
            indexes.append(index)
            if isinstance(source, _Data):
                node = source.value
                break
            keys.append(source)
            if source in self.known:
                break
            node = self._node(source)
        if keys[-1] in self.known:
            found = self.known[keys[-1]]
        else:
            found = _chain(node)
            if len(keys) > len(indexes):
                self.known[keys[-1]] = found
        for place in range(len(indexes) - 1, -1, -1):
            found = self.known[keys[place]] = _select(found, indexes[place])
        return found

    def _node(self, key: Any) -> Any:
        name = key[0] if isinstance(key, tuple) else key
        layer = self.layers.get(name)
        node = layer[key] if layer is not None and key in layer else self.graph[key]
        from dask._task_spec import DataNode

        return node.value if isinstance(node, DataNode) else node

    def _step(self, node: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the source of a task and the part that it reads, or `None` for data."""
        from dask._task_spec import Alias, DataNode, Task, TaskRef

        if isinstance(node, Alias):
            return node.target, ()
        if type(node) is not Task:
            return None
        if node.func not in self.getters:
            raise UntracedError(f"its values were computed ({getattr(node.func, '__name__', 'a task')})")
        source, index = node.args[:2]
        index = index.value if isinstance(index, DataNode) else index
        index = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(i, slice | int | np.integer) for i in index):
            raise UntracedError("it is indexed in an unknown way")
        if isinstance(source, TaskRef):
            return source.key, index
        return _Data(source.value if isinstance(source, DataNode) else source), index


@dataclass(frozen=True, slots=True)
class _Data:
    """Data embedded in a task, without their own key."""

    value: Any
