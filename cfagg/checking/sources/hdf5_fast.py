"""netCDF-4 files read without the HDF5 library: several times faster, for what the netCDF library usually writes.

Names, attributes, types and shapes are taken from the object headers; values are not touched.  Whatever is unusual or
damaged is left to the HDF5 library by returning `None`.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from cfagg.checking.model import AttributeValue, Dataset, Group, Kind
from cfagg.checking.sources.foreign import Foreign, name_of, too_long
from cfagg.checking.sources.hdf5_netcdf import DEEPEST, INTERNAL, MOST, Assembly, Found, texts_of
from cfagg.checking.sources.hdf5_space import UNDEFINED, Heap, OverlapError, Slices, Space, UnusualError, records
from cfagg.checking.sources.lookup3 import damaged
from cfagg.errors import SourceError

__all__ = ["open_fast", "parsed"]

#: Numbers of header messages.
_SPACE, _LINKS, _TYPE, _LINK, _ATTRIBUTE, _CONTINUED, _SYMBOLS, _ATTRIBUTES = 1, 2, 3, 6, 12, 16, 17, 21
_KNOWN = frozenset({_SPACE, _LINKS, _TYPE, _LINK, _ATTRIBUTE, _CONTINUED, _SYMBOLS, _ATTRIBUTES})
#: Those that say nothing of interest here: nil, fill values, files of values, layout, group information, filters,
#: comment, times, hints for B-trees, count of references.
_IGNORED = frozenset({0, 4, 5, 7, 8, 10, 11, 13, 14, 18, 19, 22})

#: Classes of types.
_FIXED, _FLOAT, _STRING, _REFERENCE, _SEQUENCE = 0, 1, 3, 7, 9

_ERRORS = (UnusualError, struct.error, ValueError, LookupError, OverflowError, MemoryError)

#: What a type is, in a word, and its NumPy type or size.
_Type = tuple[str, Any]


def open_fast(path: str, source: str) -> Dataset | None:
    """Return the model of an HDF5-based file, or `None` where the library has to look itself.

    Parameters
    ----------
    path : str
        The file.
    source : str
        What messages call it.
    """
    with (
        open(path, "rb") as file,  # noqa: PTH123 - Path costs more
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        read = parsed(data, path, source)
        if read is None or damaged(data, read[1]):
            return None
    return read[0]


def parsed(data: Slices, path: Any, source: str) -> tuple[Dataset, list[tuple[int, int, int]]] | None:
    """Return the model and the structures whose checksums are still to be compared, `None` as `open_fast`.

    Parameters
    ----------
    data : bytes, mmap or the like
        The file.
    path : str or file object
        What values are read from.
    source : str
        What messages call it.
    """
    try:
        reader = _Reader(Space(data), path, source)
        root = reader.root()
    except OverlapError as error:
        raise SourceError(f"{source} is HDF5 and damaged: its structures overlap; copy or make it again") from error
    except _ERRORS:
        return None
    named = path if isinstance(path, str) else None
    return Dataset(source, "netcdf", root, path=named, close=reader.values.close), reader.space.checked


class _File:
    """The file as the HDF5 library opens it, when the first values are read."""

    def __init__(self, path: Any) -> None:
        #: Its name, or the open file that is read in its place.
        self.path = path
        self.opened: Any = None

    def dataset(self, name: bytes) -> Any:
        """Return a low-level dataset."""
        import h5py

        from cfagg.checking.sources.hdf5_values import opened

        if self.opened is None:
            self.opened = opened(self.path) if isinstance(self.path, str) else h5py.File(self.path, "r").id
        return h5py.h5d.open(self.opened, name)

    def close(self) -> None:
        """Let go of the file."""
        if self.opened is not None:
            from cfagg.readers.locks import LIBRARY

            with LIBRARY:
                self.opened.close()
            self.opened = None


class _Object:
    """An object header: messages by number, attributes and links."""

    __slots__ = ("attributes", "links", "messages", "ordered")

    def __init__(self) -> None:
        self.messages: dict[int, bytes] = {}
        self.attributes: list[tuple[int, bytes]] = []
        self.links: list[bytes] = []
        self.ordered = False


class _Reader:
    def __init__(self, space: Space, path: Any, source: str) -> None:
        self.space, self.source = space, source
        self.values = _File(path)
        self.assembly = Assembly()
        self.known: dict[int, Found] = {}
        self.types: dict[bytes, _Type] = {}
        self.objects = 0

    def root(self) -> Group:
        """Return the whole."""
        root, top = Group(), self._superblock()
        seen = {top}
        waiting = [(root, self._object(top), b"", 0)]
        while waiting:
            group, found, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise UnusualError
            group.attributes = self._attributes(found)[0]
            below = []
            for name, address in self._links(found):
                where = path + b"/" + name
                known = self.known.get(address)
                if address in seen:
                    continue
                inner = self._object(address) if known is None else None
                if inner is not None and _SPACE not in inner.messages:
                    seen.add(address)
                    if _TYPE not in inner.messages:  # else a named type
                        below.append((group.child(name_of(name)), inner, where, depth + 1))
                    continue
                if known is None and inner is not None:
                    known = self.known[address] = self._found(address, inner)
                if known is not None:
                    self.assembly.add(group, name_of(name), known, self._read(where))
            waiting.extend(reversed(below))
        self.assembly.finish()
        return root

    def _read(self, where: bytes) -> Any:
        def read(variable: Any) -> Any:
            return _Late(self.values, where, f"{self.source}: {variable.path}")

        return read

    def _superblock(self) -> int:
        """Return where the root group's header stands."""
        head = self.space.take(0, 96)
        version = head[8]
        if version in (0, 1):
            if head[13:15] != b"\x08\x08":
                raise UnusualError
            at = 24 if version == 0 else 28
            base, _, end, _ = struct.unpack_from("<4Q", head, at)
            (root,) = struct.unpack_from("<Q", head, at + 40)
        elif version in (2, 3):
            offsets, lengths, flags = head[9:12]
            base, extension, end, root = struct.unpack_from("<4Q", head, 12)
            self.space.structure(0, 48)
            # Flags tell of a writer that is or was at work; an extension may change anything.
            if (offsets, lengths, flags, extension) != (8, 8, 0, UNDEFINED):
                raise UnusualError
        else:
            raise UnusualError
        if base or end > self.space.size:
            raise UnusualError
        return int(root)

    def _object(self, at: int) -> _Object:
        """Read an object header."""
        space = self.space
        prefix = space.data[at : at + 32]
        if prefix[:4] != b"OHDR":
            return self._old_object(at)
        if prefix[4] != 2:
            raise UnusualError
        flags = prefix[5]
        skip = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(prefix[skip : skip + width], "little")
        found = _Object()
        found.ordered = bool(flags & 4)
        begin = skip + width
        parts = [(space.structure(at, begin + size + 4), begin)]
        left = space.size
        step = 6 if found.ordered else 4
        for body, first in parts:
            here, end = first, len(body) - 4
            while here + step <= end:
                kind = body[here]
                start = here + step
                stop = start + body[here + 1] + (body[here + 2] << 8)
                if stop > end:
                    raise UnusualError
                if kind not in _IGNORED:
                    if kind not in _KNOWN:
                        raise UnusualError
                    data = body[start:stop]
                    if body[here + 3] & 2:
                        data = self._shared(data, kind)
                    if kind == _ATTRIBUTE:
                        found.attributes.append((body[start - 2] | body[start - 1] << 8 if step == 6 else 0, data))
                    elif kind == _LINK:
                        found.links.append(data)
                    elif kind == _CONTINUED:
                        place, length = struct.unpack_from("<QQ", data)
                        left -= length
                        more = space.structure(place, length)
                        if more[:4] != b"OCHK" or left < 0:
                            raise UnusualError
                        parts.append((more, 4))
                    else:
                        found.messages[kind] = data
                here = stop
        return found

    def _old_object(self, at: int) -> _Object:
        """Read an object header of version 1."""
        from cfagg.checking.sources.hdf5_old import messages

        found = _Object()
        for kind, flags, data in messages(self.space, at):
            if kind in _IGNORED:
                continue
            if kind not in _KNOWN:
                raise UnusualError
            message = self._shared(data, kind) if flags & 2 else data
            if kind == _ATTRIBUTE:
                found.attributes.append((0, message))
            elif kind == _LINK:
                found.links.append(message)
            else:
                found.messages[kind] = message
        return found

    def _shared(self, data: bytes, kind: int) -> bytes:
        """Return the message that a shared one stands for: a type with a name."""
        if kind != _TYPE or data[0] not in (2, 3) or (data[0] == 3 and data[1] != 2):
            raise UnusualError
        (at,) = struct.unpack_from("<Q", data, 2)
        found = self._object(at).messages.get(_TYPE)
        if found is None:
            raise UnusualError
        # A named type may be one of the plain ones, and for netCDF it is user-defined all the same.
        return found

    def _links(self, group: _Object) -> list[tuple[bytes, int]]:
        """Return names and places of the objects of a group, in the order of their making or of their names."""
        if _SYMBOLS in group.messages:
            from cfagg.checking.sources.hdf5_old import symbols

            members = list(symbols(self.space, group.messages[_SYMBOLS]))
            self.objects += len(members)
            if self.objects > MOST:
                raise UnusualError
            return members
        stored = [*group.links, *self._dense(group.messages.get(_LINKS), 5, 11, 4)]
        self.objects += len(stored)
        if self.objects > MOST:
            raise UnusualError
        found = []
        for data in stored:
            flags = data[1]
            at = 3 if flags & 8 else 2
            kind = data[2] if flags & 8 else 0
            order = -1
            if flags & 4:
                order = int.from_bytes(data[at : at + 8], "little")
                at += 8
            at += 1 if flags & 16 else 0
            begin = at + (1 << (flags & 3))
            end = begin + int.from_bytes(data[at:begin], "little")
            name = data[begin:end]
            if data[0] != 1 or end > len(data) or kind == 1:
                raise UnusualError  # links by name are the library's to follow
            if kind == 0:
                (place,) = struct.unpack_from("<Q", data, end)
                found.append((order, name, place))
        found.sort()
        return [(name, place) for _, name, place in found]

    def _dense(self, info: bytes | None, kind: int, size: int, skip: int) -> Iterator[bytes]:
        """Yield the links of a group that has many."""
        if info is None:
            return
        heap, names = struct.unpack_from("<QQ", info, 10 if info[1] & 1 else 2)
        if heap != UNDEFINED:
            space = Heap(self.space, heap)
            for record in records(self.space, names, kind, size):
                yield space.get(record[skip:])

    def _dense_attributes(self, info: bytes | None) -> Iterator[tuple[int, bytes]]:
        """Yield order and message of the attributes of an object that has many."""
        if info is None:
            return
        heap, names = struct.unpack_from("<QQ", info, 4 if info[1] & 1 else 2)
        if heap != UNDEFINED:
            space = Heap(self.space, heap)
            for record in records(self.space, names, 8, 17):
                if record[8] & 2:
                    raise UnusualError
                yield int.from_bytes(record[9:13], "little"), space.get(record[:8])

    def _found(self, address: int, found: _Object) -> Found:
        """Return what is known of a dataset."""
        shape, grows, _ = _shape(found.messages[_SPACE])
        attributes, internal, scales = self._attributes(found, rank=len(shape))
        dtype, kind = self._stored(found.messages[_TYPE])
        return Found(address, shape, grows, dtype, kind, attributes, internal, scales)

    def _stored(self, data: bytes) -> tuple[np.dtype[Any], Kind]:
        what, dtype = self._type(data)
        if what == "number":
            native = dtype.newbyteorder("=")
            return native, "float" if native.kind == "f" else "integer"
        if what in ("fixed", "terminated") and dtype == 1:
            return np.dtype("S1"), "char"
        return np.dtype(object), "string" if what in ("fixed", "terminated", "text") else "other"

    def _type(self, data: bytes) -> _Type:
        """Return what a type is: a number with its NumPy type, a text of fixed or any length, references, or else."""
        found = self.types.get(data)
        if found is None:
            found = self.types[data] = _read_type(data)
        return found

    def _attributes(
        self, found: _Object, rank: int = 0
    ) -> tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None]:
        """Return the attributes that are shown, those of the library, and where the dimensions are."""
        stored = found.attributes
        info = found.messages.get(_ATTRIBUTES)
        if info is not None:
            stored = [*stored, *self._dense_attributes(info)]
        if found.ordered:
            stored.sort()
        shown: dict[str, AttributeValue] = {}
        internal: dict[str, AttributeValue] = {}
        scales: list[int | None] | None = None
        for _, data in stored:
            version, flags = data[0], data[1]
            length, kind_size, space_size = struct.unpack_from("<HHH", data, 2)
            if version == 3:
                begin = 9 + length
                middle = begin + kind_size
                end = middle + space_size
            elif version == 2:
                begin = 8 + length
                middle = begin + kind_size
                end = middle + space_size
            elif version == 1:
                flags = 0
                begin = 8 + length + (-length & 7)
                middle = begin + kind_size + (-kind_size & 7)
                end = middle + space_size + (-space_size & 7)
            else:
                raise UnusualError
            if end > len(data) or flags & 2:
                raise UnusualError
            raw = data[9 if version == 3 else 8 :][:length].split(b"\0")[0]
            name = name_of(raw)
            if name in ("REFERENCE_LIST", "_NCProperties"):
                continue
            kind = data[begin : begin + kind_size]
            if flags & 1:
                kind = self._shared(kind, _TYPE)
            shape, _, empty = _shape(data[middle : middle + space_size])
            if name == "DIMENSION_LIST":
                if self._type(kind)[0] == "references" and shape == (rank,):
                    scales = [self._scale(data, end + 16 * i) for i in range(rank)]
                continue
            value = self._value(name, self._type(kind), shape, empty, data, end)
            if name in INTERNAL:
                internal[name] = value
            else:
                shown[name] = value
        return shown, internal, scales

    def _scale(self, data: bytes, at: int) -> int | None:
        length, heap, index = struct.unpack_from("<IQI", data, at)
        raw = self.space.long_value(8 * length, heap, index)
        return int.from_bytes(raw[:8], "little") if raw else None

    def _value(
        self, name: str, type_: _Type, shape: tuple[int, ...], empty: bool, data: bytes, at: int
    ) -> AttributeValue:
        what, detail = type_
        count = 1
        for n in shape:
            count *= n
        if what == "number":
            count = 0 if empty else count
            foreign = too_long(name, count * detail.itemsize)
            if foreign is not None:
                return foreign
            values = np.frombuffer(data, detail, count, at)
            return values.astype(detail.newbyteorder("="))
        if what in ("fixed", "terminated"):
            if empty:
                return ""
            if at + count * detail > len(data):
                raise UnusualError
            raw = [data[at + i * detail : at + (i + 1) * detail] for i in range(count)]
            if what == "terminated":
                raw = [r.split(b"\0", 1)[0] for r in raw]
            return texts_of(name, raw, scalar=not shape) if raw else ()
        if what == "text":
            if empty:
                return ""
            if at + 16 * count > len(data):
                raise UnusualError
            found, total = [], 0
            for i in range(count):
                value = self.space.long_value(*struct.unpack_from("<IQI", data, at + 16 * i))
                total += len(value)
                foreign = too_long(name, total)
                if foreign is not None:
                    return foreign
                found.append(value)
            return texts_of(name, found, scalar=not shape) if found else ()
        return Foreign("a value of a user-defined type")


class _Late:
    """Reads hyperslabs of one dataset through the HDF5 library, which is loaded when the first are read."""

    __slots__ = ("file", "name", "reader", "where")

    def __init__(self, file: _File, name: bytes, where: str) -> None:
        self.file, self.name, self.where = file, name, where
        self.reader: Any = None

    def __call__(self, slices: tuple[slice, ...]) -> Any:
        if self.reader is None:
            from cfagg.checking.sources.hdf5_values import Values

            self.reader = Values(lambda: self.file.dataset(self.name), self.where)
        return self.reader(slices)


def _shape(data: bytes) -> tuple[tuple[int, ...], tuple[bool, ...], bool]:
    """Return sizes, which of them may grow, and whether there is no element at all."""
    version, rank, flags, kind = data[:4]
    if version not in (1, 2) or rank > 32 or flags & ~1:
        raise UnusualError
    at = 8 if version == 1 else 4
    shape = struct.unpack_from(f"<{rank}Q", data, at)
    most = struct.unpack_from(f"<{rank}Q", data, at + 8 * rank) if flags else shape
    if max(shape, default=0) >= 2**63:
        raise UnusualError
    return shape, tuple(n == UNDEFINED for n in most), version == 2 and kind == 2


#: Encodings of the IEEE types: bytes, highest bit of the sign, bits and places of exponent and mantissa, bias.
_REALS = {4: (31, 23, 8, 0, 23, 127), 8: (63, 52, 11, 0, 52, 1023)}


def _read_type(data: bytes) -> _Type:
    """Return what an encoded type is."""
    class_, bits = data[0] & 15, data[1]
    (size,) = struct.unpack_from("<I", data, 4)
    order = ">" if bits & 1 else "<"
    if class_ == _FIXED:
        offset, precision = struct.unpack_from("<HH", data, 8)
        if size not in (1, 2, 4, 8) or offset or precision != 8 * size:
            raise UnusualError
        return "number", np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}")
    if class_ == _FLOAT:
        found = struct.unpack_from("<HHBBBBI", data, 8)
        top, place, exponent, start, mantissa, bias = _REALS.get(size, (0,) * 6)
        if found != (0, 8 * size, place, exponent, start, mantissa, bias) or data[2] != top or bits & 0x4E:
            raise UnusualError
        return "number", np.dtype(f"{order}f{size}")
    if class_ == _STRING:
        if not size:
            raise UnusualError
        return "terminated" if bits & 15 == 0 else "fixed", size
    if class_ == _SEQUENCE:
        if bits & 15 == 1:
            return "text", None
        if len(data) >= 16 and data[8] & 15 == _REFERENCE and data[9] & 15 == 0:
            return "references", None
    return "other", None
