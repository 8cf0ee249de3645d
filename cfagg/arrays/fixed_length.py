"""Texts that are bytes of fixed length, as characters along a further last dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, place
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader
from cfagg.model import Grid

__all__ = ["CharacterReader", "dimension_of", "spelled"]


def dimension_of(length: int, dims: Sequence[str], names: Mapping[str, int], wanted: str | None = None) -> str:
    """Return a name for a dimension of characters, by default that which xarray gives.

    `names` has the sizes of known dimensions, and -1 for variables: xarray does not join along one with a coordinate.

    >>> dimension_of(3, ("x",), {"x": 2}), dimension_of(3, ("x",), {"string3": 4, "x": 2})
    ('string3', 'string3_')
    """
    name = wanted if wanted is not None and wanted not in dims else f"string{length}"
    while name in dims or names.get(name, length) != length:
        name = f"string{length}" if name == wanted else f"{name}_"
    return name


def spelled(reader: Reader, names: Mapping[str, int]) -> Reader:
    """Return a reader of the characters where another reads bytes of fixed length; for `names` see `dimension_of`."""
    length = reader.dtype.itemsize
    if reader.dtype.kind != "S" or length == 1:
        return reader
    return CharacterReader(reader, dimension_of(length, reader.dims, names))


class CharacterReader(Reader):
    """The characters of an array of bytes of fixed length, along a last dimension; shorter ones end with nulls."""

    def __init__(self, of: Reader, dim: str) -> None:
        length = of.dtype.itemsize
        self._of = of
        self.dims, self.shape, self.dtype = (*of.dims, dim), (*of.shape, length), np.dtype("S1")
        self.attributes, self.encoding, self.workers, self.label = of.attributes, of.encoding, of.workers, of.label
        self.grid = Grid([*of.grid.axes, (0, length)], self.shape)
        self.chunks = None if of.chunks is None else (*of.chunks, length)

    def _blocks(self, made: Plan, out: npt.NDArray[Any]) -> Iterator[Work]:
        for k in range(len(made)):
            yield partial(place, out, made.target(k), partial(self._spell, made, k))

    def _spell(self, made: Plan, k: int, view: npt.NDArray[Any]) -> None:
        extent = self.grid.extent(made.index(k))
        *outer, inner = (
            slice(s.start + start, s.stop + start, s.step) if isinstance(s, slice) else s + start
            for s, (start, _) in zip(made.source(k), extent, strict=True)
        )
        found = np.ascontiguousarray(self._of.read(outer))
        view[...] = found.reshape(*found.shape, 1).view(self.dtype)[..., inner]
