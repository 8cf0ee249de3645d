"""Concatenation of arrays as one lazy array, whose chunks are those of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.agreeing import common_attributes, common_dims, common_dtype
from cfagg.arrays.blocks import THREAD_BYTES, Work, place, run
from cfagg.arrays.given import reader_of
from cfagg.arrays.lazy import LazyArray
from cfagg.arrays.plan import Plan, plan
from cfagg.arrays.reader import Reader, Selection
from cfagg.conventions import limits
from cfagg.errors import ConformError, LimitError, OptionError
from cfagg.formats.zarr.attributes import with_number
from cfagg.model import Grid, Regular

__all__ = ["ConcatenatedReader", "concatenate", "grid_along"]


def concatenate(arrays: Sequence[Any], axis: int | tuple[int, ...] = 0) -> LazyArray:
    """Join arrays end to end as one lazy array, without reading them.

    Its chunks are those of the parts, so that `cfagg.write` copies them to a Zarr store without decoding them.

    Parameters
    ----------
    arrays : sequence
        Results of `cfagg.open_array` or this function, and arrays of zarr-python, dask or NumPy.  For several axes,
        nested sequences, the outermost for the first of `axis`.
    axis : int or tuple of int
        Axes along which to join them.

    Returns
    -------
    LazyArray
        Its type can represent the values of all parts.  Attributes are those that the parts share; arrays without
        attributes get those of the others, including packing if they have the packed type.  If the lengths of chunks
        along other axes differ, those of most parts are used.

    Raises
    ------
    ConformError
        If shapes, names of dimensions, or types are incompatible; or if stored values mean different things because
        units, packing or missing values differ.
    OptionError
        If an object is not an array, or lists are not nested according to `axis`.

    Examples
    --------
    >>> import cfagg, numpy as np, tempfile, zarr
    >>> store = tempfile.mkdtemp()
    >>> a = zarr.create_array(store, name="a", data=np.arange(100), chunks=(100,))
    >>> b = zarr.create_array(store, name="b", data=np.arange(100), chunks=(50,))
    >>> both = cfagg.concatenate([a, b])
    >>> both.chunks, both[98:103]
    (((100, 50, 50),), array([98, 99,  0,  1,  2]))
    >>> cfagg.concatenate([[a[:2], b[:3]]], axis=(0, 1))
    Traceback (most recent call last):
    ...
    cfagg.errors.OptionError: axis 1 is outside an array of 1 dimensions
    """
    axes: tuple[Any, ...] = axis if isinstance(axis, tuple) else (axis,)
    if not axes or any(isinstance(a, bool) or not isinstance(a, int | np.integer) for a in axes):
        raise OptionError(f"axis={axis!r}: expected an integer, or a tuple of several")
    return _nested(arrays, tuple(int(a) for a in axes), "")


def _nested(arrays: Any, axes: tuple[int, ...], where: str) -> LazyArray:
    """Return the arrays in nested sequences joined along several axes."""
    if isinstance(arrays, str | bytes | Mapping | LazyArray | np.ndarray) or not isinstance(arrays, Sequence):
        depth = "a sequence of arrays" if len(axes) == 1 else "sequences of sequences, one for each axis"
        raise OptionError(f"arrays{where} is an object of type {type(arrays).__name__}; expected {depth}")
    if not arrays:
        raise OptionError(f"arrays{where} is empty; give one array or more")
    if len(axes) > 1:
        parts = [_nested(part, axes[1:], f"{where}[{k}]") for k, part in enumerate(arrays)]
    else:
        parts = [_as_lazy(part, f"arrays{where}[{k}]") for k, part in enumerate(arrays)]
    ndim = parts[0].ndim
    if not -ndim <= axes[0] < ndim:
        raise OptionError(f"axis {axes[0]} is outside an array of {ndim} dimensions")
    if len({a % ndim for a in axes}) != len(axes):
        raise OptionError(f"axis={axes!r}: each axis can be named once")
    return _along(parts, axes[0] % ndim, where)


def _as_lazy(array: Any, where: str) -> LazyArray:
    if isinstance(array, LazyArray):
        return array
    if isinstance(array, list | tuple):
        raise OptionError(
            f"{where} is a {type(array).__name__}: for nested lists, name an axis for each level, such as axis=(0, 1)"
        )
    reader = reader_of(array, where)
    name = str(getattr(array, "path", "") or "").rpartition("/")[2] or None
    return LazyArray(reader, attributes=with_number(reader.attributes, reader.dtype), name=name)


def _along(parts: Sequence[LazyArray], axis: int, where: str) -> LazyArray:
    """Return arrays joined along one axis."""
    first = parts[0]
    for k, part in enumerate(parts):
        if part.ndim != first.ndim or any(
            n != m for d, (n, m) in enumerate(zip(part.shape, first.shape, strict=True)) if d != axis
        ):
            raise ConformError(
                f"arrays{where}[{k}] has shape {part.shape}, and arrays{where}[0] {first.shape}: only axis {axis} may "
                "differ"
            )
    dims = common_dims(parts, where)
    dtype = common_dtype(parts, where)
    attributes = common_attributes(parts, where)
    names = [part.name for part in parts if part.name is not None]
    reader = ConcatenatedReader([part.reader for part in parts], axis, dtype, dims, attributes)
    return LazyArray(reader, attributes=attributes, name=names[0] if names else None)


class ConcatenatedReader(Reader):
    """Parts joined along an axis."""

    def __init__(
        self,
        parts: Sequence[Reader],
        axis: int,
        dtype: np.dtype[Any],
        dims: tuple[str, ...],
        attributes: Mapping[str, Any],
    ) -> None:
        lengths = [p.shape[axis] for p in parts]
        self.axis, self.dims, self.dtype, self.attributes, self.encoding = axis, dims, dtype, attributes, {}
        shape = list(parts[0].shape)
        shape[axis] = sum(lengths)
        self.shape = tuple(shape)
        self.is_bare = all(p.is_bare for p in parts)
        #: Parts that have any elements along the axis.
        self.parts = [p for p, n in zip(parts, lengths, strict=True) if n] or list(parts[:1])
        self.label = f"{len(parts)} arrays along axis {axis}, the first {parts[0].label}"

    def __repr__(self) -> str:
        return f"<ConcatenatedReader of {len(self.parts)} parts {self.shape} {self.dtype}>"

    @cached_property
    def cells(self) -> Grid:
        """The parts."""
        axes: list[Any] = [Regular(n, max(n, 1)) for n in self.shape]
        lengths = [p.shape[self.axis] for p in self.parts]
        axes[self.axis] = np.concatenate([[0], np.cumsum([n for n in lengths if n], dtype=np.int64)])
        return Grid(axes, self.shape)

    @cached_property
    def grid(self) -> Grid:  # type: ignore[override]
        """The chunks of the parts; along other axes those of most parts."""
        return grid_along(self, lambda reader: LazyArray(reader).grid)

    def read(self, selection: Selection, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Return the selected values; see `cfagg.arrays.reader.Reader.read`."""
        made = plan(self.cells, selection)
        if out is None or not len(made) or made.dropped:
            return super().read(selection, out)
        if out.shape != made.shape or out.dtype != self.dtype:
            return super().read(selection, out)
        self._run(made, out)
        return out

    def chunks_at(self, index: tuple[int, ...]) -> tuple[int, ...] | None:  # noqa: ARG002
        """Return lengths that no chunk exceeds: its elements are read together."""
        return self.shape

    def _run(self, made: Plan, out: npt.NDArray[Any]) -> None:
        if out.nbytes >= THREAD_BYTES * len(made):
            # Threads read within each of these.
            for work in self._blocks(made, out):
                work()
        else:
            run(self._blocks(made, out), out.nbytes, self.workers, len(made))

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            yield partial(self._read, made, k, out)

    def _read(self, made: Plan, k: int, out: npt.NDArray[Any]) -> None:
        part = self.parts[made.index(k)[self.axis]]
        place(out, made.target(k), partial(_fill, part, made.source(k)))


def _fill(part: Reader, source: Selection, view: npt.NDArray[Any]) -> None:
    """Read a part's elements into their place."""
    if view.dtype == part.dtype:
        part.read(source, view)
    else:
        view[...] = part.read(source)


def grid_along(reader: Reader, of: Callable[[Reader], Grid]) -> Grid:
    """Return the grid of an array: that `of` each part along its axis, and that of most parts along other axes."""
    if not isinstance(reader, ConcatenatedReader):
        return of(reader)
    grids = [grid_along(p, of) for p in reader.parts]
    axes: list[Any] = []
    for d, size in enumerate(reader.shape):
        if d == reader.axis:
            axes.append(_joined([g.axes[d] for g in grids], [p.shape[d] for p in reader.parts], size))
            continue
        votes: Counter[Any] = Counter()
        for g, p in zip(grids, reader.parts, strict=True):
            votes[_hashable(g.axes[d])] += p.shape[reader.axis]
        best = votes.most_common(1)[0][0]
        axes.append(next(g.axes[d] for g in grids if _hashable(g.axes[d]) == best))
    return Grid(axes, reader.shape)


def _joined(axes: Sequence[Regular | npt.NDArray[np.int64]], sizes: Sequence[int], size: int) -> Any:
    """Return the edges of consecutive parts; the inner ones include the ends of the parts."""
    chunks = {a.chunk if isinstance(a, Regular) else None for a in axes}
    if len(chunks) == 1 and None not in chunks:
        (chunk,) = chunks
        if chunk is not None and all(n % chunk == 0 for n in sizes[:-1]):
            return Regular(size, chunk)
    count = sum(a.count if isinstance(a, Regular) else len(a) - 1 for a in axes)
    if count > limits.MAX_PARTITIONS:
        most = f"at most {limits.MAX_PARTITIONS:,} are listed; join fewer at a time"
        raise LimitError(f"together the arrays have {count:,} chunks of unequal lengths, {most}")
    edges, start = [np.zeros(1, np.int64)], 0
    for k, (axis, n) in enumerate(zip(axes, sizes, strict=True)):
        found = (axis.expand() if isinstance(axis, Regular) else axis)[1:]
        # Only the last chunk of all may overhang.
        edges.append(start + (found if k == len(axes) - 1 else np.minimum(found, n)))
        start += n
    return np.concatenate(edges)


def _hashable(axis: Regular | npt.NDArray[np.int64]) -> Any:
    return axis if isinstance(axis, Regular) else axis.tobytes()
