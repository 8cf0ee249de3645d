"""A variable found in a file: its header, and the storage of its values."""

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
_DEFLATE, _SHUFFLE, _FLETCHER32, _SZIP = 1, 2, 3, 4

#: Those that the netCDF library may write, too; the level if none is known; the bit of szip's options for its coding.
_OTHERS = {_SZIP: "szip", 307: "bzip2", 32015: "zstd"}
_LEVEL = 4
_NEAREST = 32


@dataclass(frozen=True, slots=True)
class Contiguous:
    """Values in one block of bytes, or one block per record: a chunk table without columns."""

    #: Byte at which the first value is stored; -1 if nothing was ever written.
    offset: int
    #: Bytes from one index of the first dimension to the next; 0 if contiguous.
    record: int
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Chunked:
    """Values in HDF5 chunks, whose table is looked up as far as a selection needs it."""

    #: Shape of the chunks.
    chunks: tuple[int, ...]
    encoding: Encoding
    #: Path in the file, for messages.
    path: str
    #: Location of the table of chunks, or how to find it; `None` if only the library can.
    tree: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Library:
    """Values that only the netCDF library reads; the shape of a chunk, if there are chunks.

    With `texts` they are strings of a file that this library must not open, which the HDF5 library reads.
    """

    chunks: tuple[int, ...] | None = None
    texts: bool = False


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """A variable found in a file, whose state was `key` then."""

    key: FileKey
    #: As requested; `path` is its own path in the file.
    address: str
    group: str
    #: Its description in the file; the type is in native byte order.
    header: Header
    storage: Contiguous | Chunked | ChunkTable | Library
    path: str
    #: Its references outside the file; `None`, which the gate refuses, if unknown.
    references: Sequence[Reference] | None = None
    #: The identities of the coordinates of its dimensions, as far as known without its file.
    identities: Mapping[str, Any] | None = None
    #: LBPACK of a field of a PP file.
    packing: int | None = None

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of a chunk, or `None` if values are contiguous or chunks differ."""
        if isinstance(self.storage, ChunkTable):
            axes = self.storage.grid.axes
            lengths = tuple(axis.chunk for axis in axes if isinstance(axis, Regular))
            return lengths if len(lengths) == len(axes) else None
        return None if isinstance(self.storage, Contiguous) else self.storage.chunks

    @property
    def encoding(self) -> dict[str, Any]:
        """How to compress the values again, by the names of netCDF4-python; empty for other forms of storage.

        Filters that the netCDF library here does not write, or that fail on values that do not compress, as Blosc does,
        give deflate.
        """
        if not isinstance(self.storage, Chunked):
            return {}
        filters = dict(self.storage.encoding.codecs)
        level = filters.get(_DEFLATE, ())
        said: dict[str, Any] = {
            "zlib": _DEFLATE in filters,
            "complevel": level[0] if level else 0,
            "shuffle": _SHUFFLE in filters,
            "fletcher32": _FLETCHER32 in filters,
            "contiguous": False,
        }
        for number in self.other_filters:
            given, name = filters[number], _OTHERS.get(number)
            if name is not None and name in _written():
                # netCDF4-python passes over every filter at level 0, also those without levels.
                leveled = given and number != _SZIP
                said |= {"compression": name, "complevel": given[0] if leveled else _LEVEL}
                if number == _SZIP:
                    said |= {"szip_coding": "nn" if given[0] & _NEAREST else "ec", "szip_pixels_per_block": given[1]}
            elif "compression" not in said:
                said |= {"zlib": True, "complevel": _LEVEL, "shuffle": self.storage.encoding.dtype.itemsize > 1}
        return said

    @property
    def other_filters(self) -> tuple[int, ...]:
        """The numbers of filters that `encoding` does not include, such as zstd."""
        if not isinstance(self.storage, Chunked):
            return ()
        return tuple(n for n, _ in self.storage.encoding.codecs if n not in (_DEFLATE, _SHUFFLE, _FLETCHER32))


def _written() -> frozenset[str]:
    """Return which filters the netCDF library writes, asked only where a file has one of them."""
    from cfagg.formats.values.filters import filters_written

    return filters_written()


def no_variable(handle: Handle, address: str, names: Iterable[str], context: Context) -> CfaggError:
    """Return the error about a variable that is not among those of a file."""
    known = sorted(map(str, names))
    said = f"{some(known)}{closest(address, known)}"
    return context.absence(f"{handle.key.path} has no variable {address!r}; its variables are: {said}")
