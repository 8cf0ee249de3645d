"""A variable found in a file: its header, and how its values are stored there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cfagg.cf.header import Header
from cfagg.errors import CfaggError
from cfagg.errors.arguments import closest, some
from cfagg.model import Regular
from cfagg.model.chunks import ChunkTable, Encoding
from cfagg.storage.files import Context, FileKey, Handle
from cfagg.storage.gate import Reference

__all__ = ["Chunked", "Contiguous", "Library", "StoredVariable", "no_variable"]


#: Numbers of HDF5 filters.
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Values in one block of bytes, or one block a record: a chunk table that takes no columns."""

    #: Byte at which the first value stands; -1 where nothing was ever written.
    offset: int
    #: Bytes from one index of the first dimension to the next; 0 where they follow each other.
    record: int
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Chunked:
    """Values in HDF5 chunks, whose table is looked up as far as a selection asks for it."""

    #: Their shape.
    chunks: tuple[int, ...]
    encoding: Encoding
    #: In the file, for messages.
    path: str
    #: Where the table of chunks stands, or how it is found; `None` where that is the library's to say.
    tree: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Library:
    """Values that only the netCDF library reads; the shape of a chunk, where there are chunks."""

    chunks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """A variable found in a file, whose state was `key` then."""

    key: FileKey
    #: As it was asked for; `path` is its own path in the file.
    address: str
    group: str
    #: What the file says about it; the type is in native byte order.
    header: Header
    storage: Contiguous | Chunked | ChunkTable | Library
    path: str
    #: What it refers to outside the file; `None`, which the gate refuses, where that is not known.
    references: Sequence[Reference] | None = None
    #: What the coordinates of its dimensions are, as far as whoever told of it knows without its file.
    identities: Mapping[str, Any] | None = None
    #: Of a field of a PP file: its LBPACK.
    packing: int | None = None

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk, `None` where values are contiguous or chunks differ."""
        if isinstance(self.storage, ChunkTable):
            axes = self.storage.grid.axes
            lengths = tuple(axis.chunk for axis in axes if isinstance(axis, Regular))
            return lengths if len(lengths) == len(axes) else None
        return None if isinstance(self.storage, Contiguous) else self.storage.chunks

    @property
    def encoding(self) -> dict[str, Any]:
        """How the values are compressed, by the names of netCDF4-python; of what others compress, nothing."""
        if not isinstance(self.storage, Chunked):
            return {}
        filters = dict(self.storage.encoding.codecs)
        level = filters.get(_DEFLATE, ())
        return {
            "zlib": _DEFLATE in filters,
            "complevel": level[0] if level else 0,
            "shuffle": _SHUFFLE in filters,
            "fletcher32": _FLETCHER32 in filters,
            "contiguous": False,
        }

    @property
    def other_filters(self) -> tuple[int, ...]:
        """The numbers of filters that `encoding` does not tell of, as zstd is one."""
        if not isinstance(self.storage, Chunked):
            return ()
        return tuple(n for n, _ in self.storage.encoding.codecs if n not in (_DEFLATE, _SHUFFLE, _FLETCHER32))


def no_variable(handle: Handle, address: str, names: Iterable[str], context: Context) -> CfaggError:
    """Return the error about a variable that is not among those of a file."""
    known = sorted(map(str, names))
    said = f"{some(known)}{closest(address, known)}"
    return context.absence(f"{handle.key.path} has no variable {address!r}; its variables are: {said}")
