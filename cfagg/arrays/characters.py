"""Characters along a last dimension as texts, and bytes of fixed length as characters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.blocks import Work, place
from cfagg.arrays.plan import Plan
from cfagg.arrays.reader import Reader
from cfagg.cf.header import Header
from cfagg.errors import ConventionError, FragmentReadError
from cfagg.model import Grid

__all__ = ["CharacterReader", "as_texts", "dimension_of", "is_characters", "joined", "spelled"]

_TEXT = np.dtype(object, metadata={"element_type": str})


def is_characters(header: Header) -> bool:
    """Return whether a variable has characters along its last dimension."""
    return header.dtype.kind == "S" and header.dtype.itemsize == 1 and bool(header.dims)


def as_texts(
    header: Header, read: Callable[[Sequence[slice]], npt.NDArray[Any]], where: str
) -> tuple[Header, Callable[[Sequence[slice]], npt.NDArray[Any]]]:
    """Return a variable of characters and its read function as those of texts; trailing blanks are kept."""
    length = header.shape[-1]
    fill = header.attributes.get("_FillValue")
    fills = {fill.decode("latin-1") if isinstance(fill, bytes) else str(fill)} if fill is not None else set()
    given = header.attributes.get("_Encoding")
    encoding = given if isinstance(given, str) else "utf-8"
    kept = {k: v for k, v in header.attributes.items() if k not in ("_FillValue", "_Encoding")}

    def texts(slices: Sequence[slice]) -> npt.NDArray[Any]:
        try:
            return joined(read((*slices, slice(0, length, 1))), fills, encoding, blanks=True)
        except (ConventionError, LookupError) as error:
            raise FragmentReadError(f"{where}: {header.variable!r} of {header.file}: {error}") from None

    return replace(header, dims=header.dims[:-1], shape=header.shape[:-1], dtype=_TEXT, attributes=kept), texts


def joined(
    values: npt.NDArray[Any], fills: Collection[str], encoding: str = "utf-8", *, blanks: bool = False
) -> npt.NDArray[Any]:
    """Return characters as texts along their last dimension, without padding; those with only fill are empty."""
    if not values.ndim:
        values = values.reshape(1)
    length, shape = values.shape[-1], values.shape[:-1]
    texts = np.empty(shape, object)
    if not length or not texts.size:
        texts[...] = ""
        return texts
    found = np.ascontiguousarray(values).view(f"S{length}").ravel().tolist()
    try:
        decoded = [t.split(b"\0", 1)[0].decode(encoding) for t in found]
    except UnicodeDecodeError as error:
        raise ConventionError(f"its text is not {encoding.upper()}: {error}") from None
    if not blanks:
        decoded = [t.rstrip(" ") for t in decoded]
    for fill in {*fills} - {"", " "}:
        if len(fill) == 1:
            decoded = ["" if t and not t.strip(fill) else t for t in decoded]
    texts.ravel()[...] = decoded
    return texts


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
