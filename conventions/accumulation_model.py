"""What the attributes of an accumulation group say, as values that do not change.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5), and version 1 of the attribute
``cfagg`` beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ArrayAttributes", "Combinations", "Dims", "Names", "Table"]

#: Names of dimensions in the order of the source array.
Dims = tuple[str, ...]


class Table[K, V](Mapping[K, V]):
    """A mapping that is immutable, keeps its order, can be hashed and pickled.

    Parameters
    ----------
    items : mapping or iterable of pairs
        What it holds.

    Examples
    --------
    >>> Table({"time": 2})
    Table({'time': 2})
    """

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
    """Names of the arrays of one combination of dimensions.

    Parameters
    ----------
    unweighted, weighted : str, optional
        Sums of the data (``_DATA_UNWEIGHTED``), and of the data times their weights (``_DATA_WEIGHTED``).
    weights : str, optional
        Sums of the weights, or counts where there are no weighted data (``_WEIGHTS``).
    """

    unweighted: str | None = None
    weighted: str | None = None
    weights: str | None = None

    @property
    def data(self) -> str | None:
        """The sums of the data, weighted where there are both."""
        return self.weighted or self.unweighted

    def as_dict(self) -> dict[str, str]:
        """Return what is named, by the convention's own keys.

        >>> Names(unweighted="acc_time").as_dict()
        {'_DATA_UNWEIGHTED': 'acc_time'}
        """
        pairs = {"_DATA_UNWEIGHTED": self.unweighted, "_DATA_WEIGHTED": self.weighted, "_WEIGHTS": self.weights}
        return {key: name for key, name in pairs.items() if name is not None}


class Combinations(Table[Dims, Names]):
    """Names of the accumulation arrays of each combination of dimensions that has any.

    Keys are tuples of dimensions in the order of the source array.

    Examples
    --------
    >>> combinations = Combinations({("lat", "lon"): Names(weighted="acc_lat_lon", weights="acc_wt_lat_lon")})
    >>> combinations["lat", "lon"].weights, combinations.arrays
    ('acc_wt_lat_lon', ('acc_lat_lon', 'acc_wt_lat_lon'))
    """

    __slots__ = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """Every array that is named, in order."""
        return tuple(name for names in self.values() for name in names.as_dict().values())


@dataclass(frozen=True, slots=True)
class ArrayAttributes:
    """What the attributes of an accumulation array say.

    Parameters
    ----------
    dims : tuple of str
        Dimensions in the order of the accumulation array, which may not be the source's.
    stride : tuple of int
        Per dimension the number of chunks between two samples, 0 where it is not accumulated.
    """

    dims: Dims
    stride: tuple[int, ...]

    @property
    def combination(self) -> Dims:
        """The dimensions that are accumulated, in the order of the accumulation array.

        >>> ArrayAttributes(("lat", "lon", "time"), (1, 3, 0)).combination
        ('lat', 'lon')
        """
        return tuple(d for d, n in zip(self.dims, self.stride, strict=True) if n)

    def axes(self, source: Dims) -> tuple[int, ...]:
        """Return per axis of the accumulation array the axis of the source with the same dimension.

        >>> ArrayAttributes(("lat", "time"), (0, 2)).axes(("time", "lat"))
        (1, 0)
        """
        return tuple(source.index(d) for d in self.dims)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as they are written."""
        return {"_ARRAY_DIMENSIONS": list(self.dims), "_ACCUMULATION_STRIDE": list(self.stride)}
