"""Dask arrays as a new Zarr store: each block becomes a chunk, even if its length is not known beforehand.

Filters and groups produce blocks of unknown lengths. Each task encodes its block and writes it under a name that
contains its number and its checksum; tasks return only lengths. When all are finished, non-empty blocks are renamed to
their keys, and the grid is published last. A task that is run again, by another worker or much later, therefore changes
nothing.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.conventions import limits
from cfagg.errors import ConformError, LimitError, OptionError, UnsupportedError
from cfagg.errors.arguments import a_mapping, names
from cfagg.formats.fastzlib import crc32
from cfagg.formats.zarr.attributes import encoded_fill, fill_of, group_attributes, variable_attributes
from cfagg.formats.zarr.consolidated import consolidated
from cfagg.formats.zarr.creating import NewArray, array_documents, chunk_key, document_bytes, group_documents
from cfagg.formats.zarr.encoding import Encoder, encoder_of, padded
from cfagg.formats.zarr.readers import rectilinear_note
from cfagg.formats.zarr.written_codecs import Codec
from cfagg.runtime.clusters import cluster_of
from cfagg.runtime.threads import run_threads
from cfagg.writing.zarr.described import named
from cfagg.writing.zarr.new_store import Keys, new_store
from cfagg.writing.zarr.own_source import refuse_own_source
from cfagg.writing.zarr.report import StoreReport

__all__ = ["ASIDE", "Blocks", "blocks_of", "has_unknown", "move_all", "unplaced", "write_blocks"]

Int64 = npt.NDArray[np.int64]

#: Number of blocks that are renamed concurrently; in an object store, each takes requests.
_AT_ONCE = 16

#: The folder of blocks whose keys are not known yet; no array has such a name.
ASIDE = "__blocks"

#: The values that a task returns besides the lengths of its block: bytes, and a checksum.
_BYTES, _CHECKSUM = -2, -1


@dataclass(frozen=True, eq=False)
class Blocks:
    """A Dask array to be written as an array of a store."""

    array: Any
    dims: tuple[str, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


def has_unknown(array: Any) -> bool:
    """Return whether an array is a Dask array with unknown block lengths."""
    # Datasets of xarray have chunks too, but raise if those of two variables differ.
    if not hasattr(array, "__dask_graph__") or not hasattr(array, "numblocks"):
        return False
    return any(math.isnan(n) for sizes in array.chunks for n in sizes)


def blocks_of(obj: Any) -> dict[str, Blocks] | None:
    """Return the arrays to write by blocks, from a Dask array of unknown lengths or a mapping of names to arrays.

    In a mapping, an array may be given with dimension names and then attributes, as in an xarray dataset; without
    names, its dimensions are not shared. For any other object, return `None`.

    >>> import dask.array as da
    >>> given = {"x": (("time",), da.ones(3), {"units": "K"})}
    >>> blocks_of(given)["x"].dims, blocks_of(3) is None
    (('time',), True)
    """
    if has_unknown(obj):
        return {"data": Blocks(obj, tuple(f"dim_{d}" for d in range(obj.ndim)))}
    if not isinstance(obj, Mapping) or hasattr(obj, "data_vars"):
        return None
    return {name: _given(name, given) for name, given in named(obj, "arrays").items()}


def _given(name: str, given: Any) -> Blocks:
    """Return an array that is given with or without dimension names."""
    dims, attributes = None, {}
    if isinstance(given, tuple) and len(given) in (2, 3):
        dims = names(given[0], f"variable {name!r}: dimensions")
        attributes = a_mapping(given[2] if len(given) == 3 else {}, name, "attributes by name")
        given = given[1]
    if isinstance(given, np.ndarray):
        import dask.array as da

        given = da.from_array(given, chunks=-1)
    if not (hasattr(given, "__dask_graph__") and hasattr(given, "numblocks")):
        raise OptionError(
            f"variable {name!r}: an object of type {type(given).__name__} cannot be written in a mapping; give an "
            "array of dask or NumPy, or (dims, array), or (dims, array, attributes)"
        )
    return Blocks(given, tuple(f"{name}_dim_{d}" for d in range(given.ndim)) if dims is None else dims, attributes)


def write_blocks(
    arrays: Mapping[str, Blocks],
    target: str | os.PathLike[str],
    *,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    target_options: Mapping[str, Any] | None = None,
    codec: Codec | None = None,
    client: Any = None,
) -> StoreReport:
    """Write Dask arrays into a new Zarr store (version 3), each block as a chunk, in one computation."""
    # Dimensions of the same name must turn out equally long. Without a client, the current scheduler is used.
    import dask

    codec = codec or Codec("zstd")
    refuse_own_source(target, *(given.array for given in arrays.values()), overwrite=overwrite)
    plans = {name: _Plan.of(name, given, codec) for name, given in named(arrays, "arrays").items()}
    with cluster_of(client), new_store(target, overwrite=overwrite, target_options=target_options) as place:
        done: Sequence[npt.NDArray[np.int64]] = dask.compute(*(p.tasks(place.keys) for p in plans.values()))
        nodes = {"": group_documents(group_attributes(dict(attributes or {})), 3)}
        sizes: dict[str, tuple[int, str]] = {}
        notes, chunks, stored = list(place.notes), 0, 0
        for (name, plan), table in zip(plans.items(), done, strict=True):
            lengths = plan.lengths(table)
            for dim, n in zip(plan.dims or (), map(sum, lengths), strict=False):
                size, other = sizes.setdefault(dim, (n, name))
                if size != n:
                    raise ConformError(
                        f"dimension {dim!r} has length {size:,} in variable {other!r} and {n:,} in {name!r}; give the "
                        "same selection of both, or another name to one of the dimensions"
                    )
            plan.settle(place.keys, table, lengths)
            grid = plan.grid(lengths)
            nodes[name] = plan.documents([sum(sizes) for sizes in lengths], grid)
            if not all(isinstance(n, int) for n in grid):
                notes.append(rectilinear_note(name))
            chunks += int(np.count_nonzero(table[..., _BYTES]))
            stored += int(table[..., _BYTES].sum())
        place.keys.end(ASIDE)  # blocks that were computed more than once, with different results
        documents = {f"{name}/zarr.json": document_bytes(d["zarr.json"]) for name, d in nodes.items() if name}
        place.publish({**documents, "zarr.json": document_bytes(consolidated(nodes, 3)["zarr.json"])})
    return StoreReport(target=place.path, variables=tuple(plans), chunks=chunks, stored=stored, notes=tuple(notes))


@dataclass(frozen=True, eq=False)
class _Plan:
    """The properties of an array that are known before its blocks are computed."""

    name: str
    array: Any
    dims: tuple[str, ...] | None
    new: NewArray  # with a grid that is to be replaced
    whole: tuple[int, ...] | None  # lengths of all chunks of a regular grid, if known

    @classmethod
    def of(cls, name: str, given: Blocks, codec: Codec) -> _Plan:
        array, dims = given.array, given.dims
        if dims is not None and (len(dims) != array.ndim or len(set(dims)) != len(dims)):
            raise OptionError(f"variable {name!r} has {array.ndim} dimensions, but their names are {dims}")
        dtype = np.dtype(array.dtype)
        if dtype.kind in "Mm":
            raise UnsupportedError(
                f"variable {name!r} is of type {dtype}, for which plain arrays have no convention: convert it to "
                "numbers and give it units such as 'days since 2000-01-01'"
            )
        dtype = np.dtype(object) if dtype.kind in "UT" else dtype.newbyteorder("=")
        fill = declared = fill_of(given.attributes, dtype, f"variable {name!r}")
        if fill is None:
            fill = {"O": "", "S": b""}.get(dtype.kind, 0)
        attributes = variable_attributes(given.attributes, dtype)
        encoded = encoded_fill(declared, dtype, attributes)
        if encoded is not None:
            attributes["_FillValue"] = encoded
        nothing = (0,) * array.ndim
        plan = cls(name, array, dims, NewArray(dims, nothing, dtype, nothing, fill, codec, attributes), _regular(array))
        try:
            document_bytes(plan.documents(nothing, (1,) * array.ndim)["zarr.json"])
        except (TypeError, ValueError) as error:
            raise UnsupportedError(f"variable {name!r} cannot be described in Zarr v3: {error}") from error
        return plan

    @property
    def placed(self) -> bool:
        """Whether the number of each block is that of its chunk."""
        return all(n > 0 for sizes in self.array.chunks for n in sizes)

    def documents(self, shape: Sequence[int], chunks: Any) -> Any:
        """Return the documents of the array for a shape and chunk lengths."""
        return array_documents(self.new._replace(chunks=chunks, shape=tuple(shape)), 3)

    def tasks(self, keys: Keys) -> Any:
        """Return a Dask array whose blocks write those of the array and contain what is then known of them."""
        import dask.array as da

        array = self.array
        document = json.dumps(self.documents((0,) * array.ndim, (1,) * array.ndim)["zarr.json"]["codecs"])
        work = partial(
            _write, keys=keys, name=self.name, codecs=document, dtype=self.new.dtype, fill=self.new.fill,
            whole=self.whole, placed=self.placed,
        )  # fmt: skip
        chunks = (*((1,) * n for n in array.numblocks), (array.ndim + 2,))
        meta = np.empty((0,) * (array.ndim + 1), np.int64)
        # `map_blocks` names its result by its arguments, so a store written twice would be found in a cache.
        return da.map_blocks(
            work, array, dtype=np.int64, chunks=chunks, new_axis=array.ndim, meta=meta,
            name=f"write-{self.name}-{os.urandom(8).hex()}",
        )  # fmt: skip

    def lengths(self, table: Int64) -> list[list[int]]:
        """Return the lengths of all blocks along each dimension; raise an error if blocks do not fit together."""
        found = []
        for d in range(self.array.ndim):
            column = table[..., d]
            others = tuple(a for a in range(column.ndim) if a != d)
            low, high = column.min(axis=others), column.max(axis=others)
            odd = np.flatnonzero(low != high)
            if len(odd):
                k = int(odd[0])
                raise ConformError(
                    f"variable {self.name!r}: blocks {k} along dimension {self._dim(d)} have from {low[k]:,} to "
                    f"{high[k]:,} elements, but neighbouring blocks need equally many; select whole rows or columns"
                )
            said = self.array.chunks[d]
            wrong = [k for k, n in enumerate(said) if not math.isnan(n) and n != low[k]]
            if wrong:
                k = wrong[0]
                raise ConformError(
                    f"variable {self.name!r}: block {k} along dimension {self._dim(d)} has {low[k]:,} elements, but "
                    f"Dask says {said[k]:,}; correct the chunks given to the function that made it"
                )
            found.append(low.tolist())
        return found

    def _dim(self, d: int) -> str:
        return str(d) if self.dims is None else repr(self.dims[d])

    def grid(self, lengths: Sequence[Sequence[int]]) -> Any:
        """Return the chunk lengths: a single one for each dimension with equal lengths, else a list."""
        kept = [[n for n in sizes if n] for sizes in lengths]
        if not all(kept):  # there are no chunks
            return [max(sizes, default=1) for sizes in kept]
        if self.whole is not None:
            return list(self.whole)
        return [sizes[0] for sizes in kept] if all(len(set(sizes)) == 1 for sizes in kept) else kept

    def settle(self, keys: Keys, table: Int64, lengths: Sequence[Sequence[int]]) -> None:
        """Rename blocks that were written before their places were known to the keys of their chunks."""
        if self.placed:
            return
        numbers = [np.cumsum(np.asarray(sizes) > 0) - 1 for sizes in lengths]

        def moves() -> Iterator[tuple[str, str]]:
            for place in np.argwhere(table[..., _BYTES] > 0).tolist():
                index = tuple(place)
                new = [int(n[i]) for n, i in zip(numbers, index, strict=True)]
                yield unplaced(self.name, index, table[index]), chunk_key(self.name, new, 3)

        move_all(keys, moves())


def _regular(array: Any) -> tuple[int, ...] | None:
    """Return the chunk lengths of a regular grid, or `None` if the blocks do not form a known one."""
    if has_unknown(array):
        return None
    whole = []
    for sizes in array.chunks:
        kept = [int(n) for n in sizes]
        if len(kept) > 1 and (len(set(kept[:-1])) > 1 or not 0 < kept[-1] <= kept[0]):
            return None
        whole.append(max(kept[0] if kept else 0, 1))
    return tuple(whole)


def _write(
    block: Any,
    *,
    keys: Keys,
    name: str,
    codecs: str,
    dtype: np.dtype[Any],
    fill: Any,
    whole: tuple[int, ...] | None,
    placed: bool,
    block_id: tuple[int, ...] = (),
) -> Int64:
    """Write one block; return its lengths, its stored size in bytes and its checksum."""
    index = block_id[:-1]  # the last index belongs to the returned values
    where = f"variable {name!r}, block {index}"
    values = _checked(block, dtype, where)
    shape = values.shape
    if len(shape) != len(index):
        raise ConformError(
            f"{where} has {len(shape)} dimensions, but Dask says {len(index)}; correct the function that made it"
        )
    row = np.zeros((1,) * len(shape) + (len(shape) + 2,), np.int64)
    row[..., : len(shape)] = shape
    if not values.size:
        return row
    encode = _encoder(codecs, dtype, name).encode
    stored = encode(values if whole is None else padded(values, whole, fill))
    row[..., _BYTES], row[..., _CHECKSUM] = len(stored), crc32(stored)
    keys.put(chunk_key(name, index, 3) if placed else unplaced(name, index, row.reshape(-1)), stored)
    return row


@lru_cache
def _encoder(codecs: str, dtype: np.dtype[Any], name: str) -> Encoder:
    """Return the encoder of blocks, which is not sent with tasks, since it cannot be pickled."""
    return encoder_of({"codecs": json.loads(codecs)}, 3, dtype, f"variable {name!r}")


def _checked(block: Any, dtype: np.dtype[Any], where: str) -> npt.NDArray[Any]:
    """Return a block as an array of its stored type."""
    if isinstance(block, np.ma.MaskedArray):
        raise ConformError(f"{where} is masked, and chunks cannot be; fill it with dask.array.ma.filled(array, value)")
    values = np.asarray(block)
    if dtype.kind == "O":
        odd = [type(v).__name__ for v in values.reshape(-1) if not isinstance(v, str)]
        if odd:
            raise ConformError(f"{where} holds an object of type {odd[0]}; only text is written")
        values = values.astype(object)
    elif not np.can_cast(values.dtype, dtype, "equiv" if values.size else "unsafe"):
        raise ConformError(
            f"{where} is of type {values.dtype}, but Dask says {dtype}; give Dask the type, or convert with astype"
        )
    if values.nbytes > limits.MAX_CHUNK:
        raise LimitError(
            f"{where} has {values.nbytes:,} bytes, more than the {limits.MAX_CHUNK:,} of a chunk; make smaller blocks "
            "before selecting from them"
        )
    return values.astype(dtype, copy=False)


def unplaced(name: str, index: Sequence[int], row: Sequence[int] | Int64) -> str:
    """Return the key of a block before its place is known, unique to its content so that no task replaces another."""
    return f"{ASIDE}/{name}/{'-'.join(map(str, index))}-{'x'.join(map(str, row[:_BYTES]))}-{int(row[_CHECKSUM]):08x}"


def move_all(keys: Keys, moves: Iterable[tuple[str, str]]) -> None:
    """Rename objects, several concurrently."""
    with closing(run_threads(lambda move: keys.move(*move), iter(moves), _AT_ONCE, "move")) as done:
        for _ in done:
            pass
