"""Blocks of rows of different lengths, which are checked, divided into chunks between rows, and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import ConformError, LimitError, OptionError, UnsupportedError
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.encoding import Encoder, encoder
from cfagg.model import Grid
from cfagg.writing.zarr.blocks import unplaced
from cfagg.writing.zarr.described import described, planned
from cfagg.writing.zarr.new_store import Keys

__all__ = ["Block", "Known", "an_array", "blocks_of_rows", "put_block", "put_piece", "rows_or_pieces"]

Int64 = npt.NDArray[np.int64]

_EXPECTED = "expected a matrix of scipy.sparse, (data, indices, indptr), (data, indptr), or an iterable of these"
_LATER = "computed later (functions, or objects of Dask)"


class Block(NamedTuple):
    """Consecutive rows: their values, optionally columns, and where each row begins."""

    where: str
    parts: Mapping[str, npt.NDArray[Any]]
    indptr: Int64
    columns: int | None


@dataclass(frozen=True, eq=False)
class Known:
    """The retained properties of a block: types, the largest column, where rows end, and the edges of its chunks.

    Its chunks were written under `keys`.
    """

    where: str
    kinds: Mapping[str, np.dtype[Any]]
    columns: int | None
    most: int
    ends: Int64
    edges: Sequence[int]
    stored: int = 0
    keys: Sequence[str] = ()

    @classmethod
    def of(cls, block: Block, size: int) -> Known:
        """Measure a block with chunks of `size` bytes of values; raise an error if no chunk can store it."""
        kinds = {name: np.dtype(a.dtype).newbyteorder("=") for name, a in block.parts.items()}
        for name, dtype in kinds.items():
            if dtype.kind not in "biuf":
                raise UnsupportedError(f"{block.where}: {name} are of type {dtype}; expected numbers")
        edges = _cut(block.indptr, max(size // kinds["data"].itemsize, 1))
        largest = max(np.diff(edges).tolist(), default=0) * max(k.itemsize for k in kinds.values())
        if largest > limits.MAX_CHUNK:
            raise LimitError(f"{block.where} has a row or chunk of {largest:,} bytes, more than {limits.MAX_CHUNK:,}")
        indices = block.parts.get("indices")
        most = int(indices.max()) if indices is not None and len(indices) else -1
        return cls(block.where, kinds, block.columns, most, block.indptr[1:], edges)

    @property
    def chunks(self) -> list[tuple[str, int]]:
        """Array and number of all chunks."""
        return [(name, k) for k in range(len(self.edges) - 1) for name in self.kinds]

    @property
    def signature(self) -> str:
        """The properties that must be the same in all blocks."""
        parts = " and ".join(f"{name} of type {dtype}" for name, dtype in self.kinds.items())
        return parts if self.columns is None else f"{parts} in {self.columns} columns"


def rows_or_pieces(rows: Any, what: str = "rows") -> tuple[Iterable[Any], list[Any] | None]:
    """Return rows as an iterable of blocks, or else as pieces that are computed later, by functions or Dask."""
    if _is_of_dask(rows):
        if not hasattr(type(rows), "to_delayed"):
            return (), [rows]
        if getattr(rows, "numblocks", (1,))[1:] not in ((), (1,)):
            raise OptionError(
                f"{what}: {rows.numblocks} blocks of Dask; expected whole rows, as rechunk({{1: -1}}) gives"
            )
        found = rows.to_delayed()
        return (), found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)
    if hasattr(rows, "tocsr") or (isinstance(rows, tuple) and not any(map(callable, rows))):
        return [rows], None
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping | str | np.ndarray):
        raise OptionError(f"{what}: an object of type {type(rows).__name__}; {_EXPECTED}")
    several = iter(rows)
    first = next(several, None)
    if not _is_lazy(first):
        return () if first is None else chain([first], several), None
    pieces = [first, *several]
    for n, piece in enumerate(pieces):
        if not _is_lazy(piece):
            kind = type(piece).__name__
            raise OptionError(f"{what}: number {n} is of type {kind}, but those before are {_LATER}; give one kind")
    return (), pieces


def _is_of_dask(given: Any) -> bool:
    return hasattr(given, "__dask_graph__") and not isinstance(given, type)


def _is_lazy(given: Any) -> bool:
    return callable(given) or _is_of_dask(given)


def blocks_of_rows(rows: Iterable[Any], what: str = "rows") -> Iterator[Block]:
    """Yield one block after another, checked."""
    for number, given in enumerate(rows):
        where = f"{what}: block {number}"
        if _is_lazy(given):
            raise OptionError(f"{where} is {_LATER}, but those before are not; give one kind")
        if hasattr(given, "tocsr") and len(given.shape) != 2:
            raise OptionError(f"{where} has {len(given.shape)} dimensions; expected a matrix of rows and columns")
        matrix = given.tocsr() if hasattr(given, "tocsr") else None
        columns = None if matrix is None else int(matrix.shape[1])
        block = given if matrix is None else (matrix.data, matrix.indices, matrix.indptr)
        if not isinstance(block, tuple) or len(block) not in (2, 3):
            raise OptionError(
                f"{where} is of type {type(block).__name__}; expected a matrix or a tuple of 2 or 3 arrays"
            )
        parts = {"data": an_array(block[0], f"{where}: values")}
        indptr = an_array(block[-1], f"{where}: indptr")
        if len(block) == 3:
            indices = an_array(block[1], f"{where}: indices")
            # NumPy gives an empty list a floating-point type.
            parts["indices"] = indices if indices.size or indices.dtype.kind != "f" else indices.astype(np.int64)
        yield Block(where, parts, _checked(parts["data"], parts.get("indices"), indptr, where), columns)


def an_array(given: Any, where: str) -> npt.NDArray[Any]:
    """Return the given values as an array; raise an error if masked, since a store has no masks."""
    if _is_of_dask(given):
        given = given.compute()  # as np.asarray does, which drops masks
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise ConformError(f"{where} are masked, but chunks have no mask; fill them or leave them out")
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ConformError(f"{where} are not an array: {error}") from error


def _checked(data: npt.NDArray[Any], indices: npt.NDArray[Any] | None, indptr: npt.NDArray[Any], where: str) -> Int64:
    """Return where rows begin; raise an error if the arrays of a block do not fit together."""
    if data.ndim != 1 or indptr.ndim != 1 or not len(indptr) or indptr.dtype.kind not in "iu":
        raise ConformError(f"{where}: expected values of one dimension, and indptr as 1 integer more than rows")
    found = indptr.astype(np.int64)
    if found[0] != 0 or found[-1] != len(data) or (np.diff(found) < 0).any():
        raise ConformError(f"{where}: indptr should rise from 0 to {len(data)}, the number of values")
    if indices is not None:
        if indices.shape != data.shape or (indices.dtype.kind not in "iu" and len(indices)):
            raise ConformError(f"{where}: {len(data)} values have columns of shape {indices.shape} and {indices.dtype}")
        if len(indices) and int(indices.min()) < 0:
            raise ConformError(f"{where}: column {int(indices.min())} is negative")
    return found


def put_block(block: Block, known: Known, keys: Keys, key: Callable[..., str], threads: int = 1) -> Known:
    """Write the chunks of a block under keys made from array, number, length and bytes; return updated properties."""

    def write(chunk: tuple[str, int]) -> tuple[str, int]:
        name, k = chunk
        a, b = known.edges[k : k + 2]
        stored = _encoder(name, known.kinds[name]).encode(block.parts[name][a:b])
        place = key(name, k, b - a, stored)
        return place, keys.put(place, stored)

    with ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(write, known.chunks))
    return replace(known, keys=[place for place, _ in done], stored=sum(n for _, n in done))


def put_piece(piece: Any, number: int, keys: Keys, size: int) -> list[Known]:
    """Compute a piece with a function or Dask, write its blocks aside, and return their known properties."""
    what = f"rows: item {number}"
    rows, later = rows_or_pieces(piece() if callable(piece) else piece, what)
    if later is not None:
        raise OptionError(f"{what} gives what is {_LATER} again; compute it there")
    return [
        put_block(block, Known.of(block, size), keys, partial(_aside, number, n))
        for n, block in enumerate(blocks_of_rows(rows, what))
    ]


def _aside(piece: int, number: int, name: str, k: int, length: int, stored: bytes) -> str:
    """Return the key of a chunk before its place is known."""
    return unplaced(name, (piece, number, k), (length, len(stored), crc32(stored)))


@cache
def _encoder(name: str, dtype: np.dtype[Any]) -> Encoder:
    """Return the encoder of the chunks of an array."""
    return encoder(planned(name, described(name, ("element",), dtype, Grid.regular((1,), (1,)), {}, None)))


def _cut(indptr: Int64, most: int) -> Sequence[int]:
    """Return the edges of chunks of whole rows with at most `most` elements, or of one larger row."""
    edges, end = [0], int(indptr[-1])
    while edges[-1] < end:
        last = int(indptr[np.searchsorted(indptr, edges[-1] + most, "right") - 1])
        if last == edges[-1]:  # the next row is longer
            last = int(indptr[np.searchsorted(indptr, last, "right")])
        edges.append(last)
    return edges
