"""Finding variables in netCDF-4 files by reading the few HDF5 structures that describe them, without the HDF5 library.

Opening a file and resolving its dimensions costs the library several times what reading a value does.  Here the header
of a variable that stands in the root group, as the netCDF library writes it, is found with one or two reads and no
lock.  Bytes are untrusted: every offset and length is checked against the file, checksums are verified, work is
bounded, and whatever is unusual, damaged or could lead out of the file is left to the HDF5 library by returning `None`.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cfagg.cf.header import Header
from cfagg.formats.values import hdf5_heap
from cfagg.formats.values.hdf5_bytes import UNDEFINED, Bytes, UnusualError
from cfagg.formats.values.hdf5_memory import remembered
from cfagg.formats.values.located import Chunked, Contiguous, Located
from cfagg.formats.values.netcdf4_names import INTERNAL, NO_VARIABLE
from cfagg.storage.files import Handle

__all__ = ["find"]


#: Numbers of header messages.
_SPACE, _LINKS, _TYPE, _LINK, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUED, _ATTRIBUTES = 1, 2, 3, 6, 8, 11, 12, 16, 21
#: Those that say nothing of interest: nil, fill values, group information, comment, times, hints for B-trees, count of
#: references.
_IGNORED = frozenset({0, 4, 5, 10, 13, 14, 18, 19, 22})
_KNOWN = frozenset({_SPACE, _LINKS, _TYPE, _LINK, _LAYOUT, _FILTERS, _ATTRIBUTE, _CONTINUED, _ATTRIBUTES})

#: Parts of an object header, elements of REFERENCE_LIST, links and attributes that are looked at.
_PARTS, _USERS, _MOST = 64, 64, 1024


def _types() -> dict[bytes, np.dtype[Any]]:
    """Return the encodings of integer and IEEE types: anything else is unusual."""
    found = {}
    for order, mark in (("<", 0), (">", 1)):
        for size in (1, 2, 4, 8):
            for kind, sign in (("i", 8), ("u", 0)):
                code = struct.pack("<BBBBIHH", 0x10, mark | sign, 0, 0, size, 0, 8 * size)
                found[code] = np.dtype(f"{order}{kind}{size}")
        for size, top, exponent, bits, bias in ((4, 31, 23, 8, 127), (8, 63, 52, 11, 1023)):
            code = struct.pack(
                "<BBBBIHHBBBBI", 0x11, 0x20 | mark, top, 0, size, 0, 8 * size, exponent, bits, 0, exponent, bias
            )
            found[code] = np.dtype(f"{order}f{size}")
    return found


_TYPES = _types()

#: Classes of types, and the type of sequences of references to objects.
_STRING, _COMPOUND, _SEQUENCE = 3, 6, 9
_REFERENCES = bytes.fromhex("19000000100000001700000008000000")


class _Attribute(NamedTuple):
    """An attribute as stored: encoded type, shape, bytes."""

    type: bytes
    shape: tuple[int, ...]
    data: bytes


class _Variable(NamedTuple):
    """What a file says about a variable, whatever the file's name."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: dict[str, Any]
    storage: Any


class _Object(NamedTuple):
    """An object header: messages by number, the last of a kind; attributes with their order; links."""

    messages: dict[int, bytes]
    attributes: list[tuple[int, bytes]]
    links: list[bytes]
    ordered: bool


def find(handle: Handle, head: bytes, address: str, group: str = "/") -> Located | None:
    """Return a variable of the root group of a netCDF-4 file, or `None` where the library has to look itself.

    Parameters
    ----------
    handle : Handle
        The open file.
    head : bytes
        Its first bytes.
    address, group : str
        The variable as it was asked for.

    Returns
    -------
    Located or None
        Equal to what `cfagg.formats.values.hdf5.find` returns.
    """
    name = address.removeprefix("/")
    if "/" in name or not name or (group != "/" and not address.startswith("/")):
        return None
    try:
        file = Bytes(handle.fd, head, handle.key.size)
        root = file.root
        links = remembered(("links", root), file, lambda: _links(file, _object(file, root)))
        question = ("variable", name, tuple(links.items()))
        found = remembered(question, file, lambda: _variable(file, links, name))
    except (UnusualError, struct.error, ValueError, IndexError, OSError):
        # The library finds out what is wrong, and says it in its words.
        return None
    key = handle.key
    header = Header(key.path, address, found.dims, found.shape, found.dtype, found.attributes)
    # Files of external storage and virtual layouts are messages that are unusual here.
    return Located(key, address, group, header, found.storage, name, ())


def _variable(file: Bytes, links: dict[bytes, int], name: str) -> _Variable:
    """Return what is known of a dataset."""
    at = links.get(name.encode())
    if at is None:
        raise UnusualError
    found = _object(file, at)
    messages, attributes = found.messages, _attributes(file, found)
    if not messages.keys() >= {_SPACE, _TYPE, _LAYOUT}:
        raise UnusualError
    if "CLASS" in attributes and "NAME" in attributes and attributes["NAME"].data.startswith(NO_VARIABLE.encode()):
        raise UnusualError
    dtype = _dtype(messages[_TYPE])
    shape, most = _space(messages[_SPACE])
    dims = _dimensions(file, links, name, attributes, shape, most, at)
    storage = _storage(messages, shape, dtype, name)
    values = {n: _value(file, a) for n, a in attributes.items() if n not in INTERNAL}
    return _Variable(dims, shape, dtype.newbyteorder("="), values, storage)


def _object(file: Bytes, at: int) -> _Object:
    """Read an object header of version 2."""
    prefix = file.take(at, 6)
    if prefix[:5] != b"OHDR\2":
        raise UnusualError
    flags = prefix[5]
    skip = 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
    width = 1 << (flags & 3)
    size = int.from_bytes(file.take(at + skip, width), "little")
    parts = [(file.checked(at, skip + width + size + 4), skip + width)]
    found = _Object({}, [], [], bool(flags & 4))
    for body, begin in parts:
        for kind, order, data in _messages(body, begin, found.ordered):
            if kind == _ATTRIBUTE:
                found.attributes.append((order, data))
            elif kind == _LINK:
                found.links.append(data)
            elif kind == _CONTINUED:
                more = file.checked(*struct.unpack("<QQ", data[:16]))
                if more[:4] != b"OCHK" or len(parts) >= _PARTS:
                    raise UnusualError
                parts.append((more, 4))
            else:
                found.messages[kind] = data
    return found


def _messages(body: bytes, at: int, ordered: bool) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, creation order and bytes of every message of interest in one part of a header."""
    end, prefix = len(body) - 4, 6 if ordered else 4
    while at + prefix <= end:
        kind, size, flags = struct.unpack_from("<BHB", body, at)
        begin = at + prefix
        at = begin + size
        if at > end:
            raise UnusualError
        if kind in _KNOWN:
            # A shared message stands elsewhere.
            if flags & 2:
                raise UnusualError
            yield kind, int.from_bytes(body[begin - 2 : begin], "little") if ordered else 0, body[begin:at]
        elif kind not in _IGNORED:
            raise UnusualError


def _links(file: Bytes, group: _Object) -> dict[bytes, int]:
    """Return where the objects of a group stand; what is not an object of the file is left out."""
    links: dict[bytes, int] = {}
    for data in (*group.links, *_dense_links(file, group.messages.get(_LINKS))):
        flags = data[1]
        kind = data[2] if flags & 8 else 0
        at = 2 + (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
        begin = at + (1 << (flags & 3))
        size = int.from_bytes(data[at:begin], "little")
        name = data[begin : begin + size]
        if data[0] != 1 or len(name) != size or name in links or len(links) > _MOST:
            raise UnusualError
        if kind == 0:
            (links[name],) = struct.unpack_from("<Q", data, begin + size)
    return links


def _attributes(file: Bytes, found: _Object) -> dict[str, _Attribute]:
    """Return all attributes, by creation order where it is tracked, as the netCDF library does."""
    stored = [*found.attributes, *_dense_attributes(file, found.messages.get(_ATTRIBUTES))]
    named = [(order, *_attribute(data)) for order, data in stored]
    named.sort(key=(lambda a: a[0]) if found.ordered else (lambda a: a[1].encode()))
    attributes = {n: a for _, n, a in named}
    if len(attributes) < len(named) or len(named) > _MOST:
        raise UnusualError
    return attributes


def _dense_links(file: Bytes, info: bytes | None) -> Iterator[bytes]:
    """Yield the link messages of a group that has many."""
    if info is None:
        return
    flags = info[1]
    heap, names = struct.unpack_from("<QQ", info, 10 if flags & 1 else 2)
    if heap != UNDEFINED:
        space = hdf5_heap.Heap(file, heap)
        for record in hdf5_heap.records(file, names, 5, 4 + space.id_size):
            yield space.get(record[4:])


def _dense_attributes(file: Bytes, info: bytes | None) -> Iterator[tuple[int, bytes]]:
    """Yield creation order and message of the attributes of an object that has many."""
    if info is None:
        return
    flags = info[1]
    heap, names = struct.unpack_from("<QQ", info, 4 if flags & 1 else 2)
    if heap != UNDEFINED:
        space = hdf5_heap.Heap(file, heap)
        n = space.id_size
        for record in hdf5_heap.records(file, names, 8, n + 9):
            if record[n] & 2:
                raise UnusualError
            yield int.from_bytes(record[n + 1 : n + 5], "little"), space.get(record[:n])


def _attribute(data: bytes) -> tuple[str, _Attribute]:
    """Return an attribute's name and what is stored."""
    version, flags, name, kind, space = struct.unpack_from("<BBHHH", data)
    if version not in (1, 2, 3) or (version > 1 and flags):
        raise UnusualError
    at = 9 if version == 3 else 8
    pad = 7 if version == 1 else 0
    begin = at + name + (-name & pad)
    middle = begin + kind + (-kind & pad)
    end = middle + space + (-space & pad)
    if end > len(data) or not name:
        raise UnusualError
    shape = _space(data[middle : middle + space])[0]
    return data[at : at + name].split(b"\0")[0].decode(), _Attribute(data[begin : begin + kind], shape, data[end:])


def _space(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes and largest sizes."""
    version, rank, flags, kind = data[:4]
    # Version 2 also knows spaces without any element.
    if version not in (1, 2) or rank > 32 or flags & ~1 or (version == 2 and kind != (1 if rank else 0)):
        raise UnusualError
    at = 8 if version == 1 else 4
    shape = struct.unpack_from(f"<{rank}Q", data, at)
    most = struct.unpack_from(f"<{rank}Q", data, at + 8 * rank) if flags else shape
    if max(shape, default=0) >= 2**63:
        raise UnusualError
    return shape, most


def _dtype(data: bytes) -> np.dtype[Any]:
    """Return the type of values."""
    number = _TYPES.get(data[:20] if data[0] & 15 else data[:12])
    if number is not None:
        return number
    if data[0] & 15 == _STRING and data[4:8] == b"\1\0\0\0":
        return np.dtype("S1")
    raise UnusualError


def _storage(messages: Mapping[int, bytes], shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Any:
    """Return how the values are stored."""
    data = messages[_LAYOUT]
    version, kind = data[:2]
    size = dtype.itemsize
    for n in shape:
        size *= n
    if version in (3, 4) and kind == 1 and _FILTERS not in messages:
        offset, length = struct.unpack_from("<QQ", data, 2)
        if offset == UNDEFINED or length != size:
            raise UnusualError
        return Contiguous(offset, 0, dtype)
    tree = None
    if version == 3 and kind == 2:
        (tree,) = struct.unpack_from("<Q", data, 3)
        chunks = struct.unpack_from(f"<{data[2]}I", data, 11)
    elif version == 4 and kind == 2:
        width = data[4]
        sizes = data[5 : 5 + data[3] * width]
        chunks = tuple(int.from_bytes(sizes[i : i + width], "little") for i in range(0, len(sizes), max(width, 1)))
    else:
        raise UnusualError
    # The last size is that of an element.
    if len(chunks) != len(shape) + 1 or chunks[-1] != dtype.itemsize or not all(chunks):
        raise UnusualError
    return Chunked(
        chunks[:-1], tuple(_filters(messages.get(_FILTERS, b"\2\0"))), dtype, name, None if tree == UNDEFINED else tree
    )


def _filters(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield number and parameters of every filter."""
    version, count = data[:2]
    if version not in (1, 2):
        raise UnusualError
    at = 8 if version == 1 else 2
    for _ in range(count):
        (number,) = struct.unpack_from("<H", data, at)
        at += 2
        length = 0
        if version == 1 or number >= 256:
            (length,) = struct.unpack_from("<H", data, at)
            at += 2
        _, n = struct.unpack_from("<HH", data, at)
        at += 4 + length + (-length & 7 if version == 1 else 0)
        yield number, struct.unpack_from(f"<{n}I", data, at)
        at += 4 * n + (4 * (n & 1) if version == 1 else 0)


def _dimensions(
    file: Bytes,
    links: dict[bytes, int],
    name: str,
    attributes: Mapping[str, _Attribute],
    shape: tuple[int, ...],
    most: tuple[int, ...],
    at: int,
) -> tuple[str, ...]:
    """Return the names of the dimensions; the lengths are the netCDF ones where this returns."""
    if not shape:
        return ()
    listed = attributes.get("DIMENSION_LIST")
    if listed is None:
        if len(shape) != 1 or "CLASS" not in attributes:
            raise UnusualError
        names, scales = [name], [at]
    else:
        if listed.shape != (len(shape),) or listed.type != _REFERENCES:
            raise UnusualError
        scales = [int.from_bytes(value, "little") for value in file.sequences(listed.data, len(shape), 8)]
        back: dict[int, bytes] = {}
        for link, target in links.items():
            # Of two names for one object, the library knows which it took.
            back[target] = b"" if target in back else link
        found = [back.get(scale) for scale in scales]
        if not all(found):
            raise UnusualError
        names = [n.decode() for n in found if n]
    for n, limit, scale in zip(shape, most, scales, strict=True):
        # An unlimited dimension is as long as the longest variable along it.
        if limit != n and _longest(file, scale) != n:
            raise UnusualError
    return tuple(names)


def _longest(file: Bytes, at: int) -> int:
    """Return the length of an unlimited netCDF dimension."""
    scale = _object(file, at)
    longest = _space(scale.messages.get(_SPACE, b""))[0][0]
    users = _attributes(file, scale).get("REFERENCE_LIST")
    if users is not None:
        (size,) = struct.unpack_from("<I", users.type, 4)
        if users.type[0] & 15 != _COMPOUND or size not in (12, 16) or len(users.shape) != 1 or users.shape[0] > _USERS:
            raise UnusualError
        for i in range(users.shape[0]):
            where, axis = struct.unpack_from("<QI", users.data, i * size)
            longest = max(longest, _space(_object(file, where).messages.get(_SPACE, b""))[0][axis])
    return longest


def _value(file: Bytes, attribute: _Attribute) -> Any:
    """Return the value of an attribute in the form in which netCDF4-python gives it."""
    kind, shape, data = attribute
    if len(shape) > 1:
        raise UnusualError
    count = shape[0] if shape else 1
    if kind[0] & 15 == _STRING and count == 1:
        (size,) = struct.unpack_from("<I", kind, 4)
        text = data[:size].rstrip(b"\0")
        # Padded with spaces, or with something behind its end: the library knows the rules.
        if kind[1] & 15 > 1 or b"\0" in text or len(data) < size:
            raise UnusualError
        return text.decode("utf-8", "replace")
    if kind[0] & 15 == _SEQUENCE and kind[1] & 15 == 1:
        texts = [text.decode() for text in file.sequences(data, count, 1)]
        if not texts or any("\0" in t for t in texts):
            raise UnusualError
        return texts[0] if count == 1 else texts
    dtype = _dtype(kind)
    if dtype.kind == "S" or count > 2**16:
        raise UnusualError
    array = np.frombuffer(data, dtype, count).astype(dtype.newbyteorder("="))
    return array[0] if count == 1 else array
