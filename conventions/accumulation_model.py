"""The attributes of an accumulation group as immutable values.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5), and version 1 of the accompanying
attribute ``cfagg``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import LimitError
from cfagg.model import Regular

__all__ = ["ArrayAttributes", "Combinations", "Dims", "Names", "Table", "sample_positions"]

#: Names of dimensions in the order of the source array.
Dims = tuple[str, ...]


class Table[K, V](Mapping[K, V]):
    """An immutable mapping that keeps its order and can be hashed and pickled."""

    __slots__ = ("_items",)
    _items: dict[K, V]

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        object.__setattr__(self, "_items", dict(items))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable")

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items!r})"

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        return type(self), (self._items,)


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the arrays of one combination of dimensions."""

    #: Sums of the data, and of the data times their weights.
    unweighted: str | None = None
    weighted: str | None = None
    #: Sums of the weights, or counts if there are no weighted data.
    weights: str | None = None

    @property
    def data(self) -> str | None:
        """The sums of the data, preferably the weighted ones."""
        return self.weighted or self.unweighted

    def as_dict(self) -> dict[str, str]:
        """Return the names by the convention's keys."""
        pairs = {"_DATA_UNWEIGHTED": self.unweighted, "_DATA_WEIGHTED": self.weighted, "_WEIGHTS": self.weights}
        return {key: name for key, name in pairs.items() if name is not None}


class Combinations(Table[Dims, Names]):
    """Names of arrays by combination: a tuple of dimensions in the order of the source array."""

    __slots__ = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """Every array that is named, in order."""
        return tuple(name for names in self.values() for name in names.as_dict().values())


@dataclass(frozen=True, slots=True)
class ArrayAttributes:
    """The attributes of an accumulation array."""

    #: In the order of the accumulation array, which may differ from the source's.
    dims: Dims
    #: Per dimension the number of chunks between two samples, 0 if it is not accumulated.
    stride: tuple[int, ...]

    @property
    def combination(self) -> Dims:
        """The dimensions that are accumulated, in the order of the accumulation array."""
        return tuple(d for d, n in zip(self.dims, self.stride, strict=True) if n)

    def axes(self, source: Dims) -> tuple[int, ...]:
        """Return, for each axis of the accumulation array, the axis of the source with the same dimension."""
        return tuple(source.index(d) for d in self.dims)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as they are written."""
        return {"_ARRAY_DIMENSIONS": list(self.dims), "_ACCUMULATION_STRIDE": list(self.stride)}


def sample_positions(edges: npt.ArrayLike | Regular, length: int, stride: int) -> npt.NDArray[np.int64]:
    """Return the positions up to which the stored sums of one dimension reach.

    Parameters
    ----------
    edges : int64 array, shape (n + 1,), or Regular
        Edges of the chunks, from 0.
    length : int
        Size of the dimension; the last chunk may overhang it.
    stride : int
        Number of chunks between two sums, at least 1.

    Returns
    -------
    int64 array, shape (ceil(n / stride),)
        ``b[k] = min(edges[min((k + 1) * stride, n)], length)``: sum ``k`` is over ``[0, b[k])``.  The last one is
        `length`, even if the last stride is incomplete.

    Examples
    --------
    >>> sample_positions(Regular(10, 3), 10, 2)
    array([ 6, 10])
    >>> sample_positions([0, 5, 6, 9], 9, 1)
    array([5, 6, 9])
    """
    if stride < 1:
        raise ValueError(f"an accumulation stride must be at least 1; found {stride}")
    if isinstance(edges, Regular):
        count, width = edges.count, edges.chunk
        samples = -(-count // stride)
        if samples > limits.MAX_PARTITIONS:
            raise LimitError(f"{samples} accumulation samples along a dimension; the cap is {limits.MAX_PARTITIONS}")
        # Python's integers, since a stride may be arbitrarily large.
        step = min(stride, max(count, 1)) * width
        return np.minimum(np.arange(1, samples + 1, dtype=np.int64) * step, length)
    array = np.asarray(edges, dtype=np.int64)
    count = array.size - 1
    step = min(stride, max(count, 1))
    index = np.minimum(np.arange(1, -(-count // step) + 1, dtype=np.int64) * step, count)
    return np.minimum(array[index], length)
