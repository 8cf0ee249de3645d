"""Finding variables in netCDF-4 files by reading the few HDF5 structures that describe them, without the HDF5 library.

Opening a file and resolving its dimensions costs the library several times as much as reading a value.  Anything that
is unusual, damaged or could refer to other files is left to it.  Checksums are verified immediately, structures without
one in another way (`cfagg.formats.hdf5.old`), and work is bounded.

Source: HDF5 File Format Specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Literal, NamedTuple
from weakref import WeakSet

import numpy as np

from cfagg.cf.header import Header, plain
from cfagg.formats.hdf5.attributes import Attributes
from cfagg.formats.hdf5.head import Head, remembered
from cfagg.formats.hdf5.headers import Alike, Headers, fixed_messages
from cfagg.formats.hdf5.lookup3 import compiled
from cfagg.formats.hdf5.messages import CHUNKED, CONTIGUOUS, attribute_of, layout_of, shape_of, type_of
from cfagg.formats.hdf5.objects import ATTRIBUTES, LAYOUT, SPACE, SYMBOLS, TYPE, Object, Objects, dense_at
from cfagg.formats.hdf5.plain import is_plain, moved, storage_of
from cfagg.formats.hdf5.space import ERRORS, UNDEFINED, OverlapError, Space, UnusualError
from cfagg.formats.values.netcdf4_names import NO_VARIABLE, NON_COORDINATE
from cfagg.formats.values.storage import Chunked, Contiguous, StoredVariable
from cfagg.model.dataset import AttributeValue, SharedAttributes
from cfagg.storage.files import Handle

__all__ = ["find", "find_all", "find_every", "is_only_a_dimension"]

#: Most elements of REFERENCE_LIST, most links, and most links if they are read again for each variable.
_USERS, _MOST, _EACH = 64, 1024, 256

#: Classes of types.
_COMPOUND, _SEQUENCE = 6, 9


#: The shown attributes of an object, those of the library, and the addresses of the dimensions.
_Attributes = tuple[dict[str, AttributeValue], dict[str, AttributeValue], list[int | None] | None]


def _is_no_variable(internal: Mapping[str, AttributeValue]) -> bool:
    """Return whether the ``NAME`` of a scale marks it as only a dimension."""
    name = internal.get("NAME")
    return "CLASS" in internal and isinstance(name, str) and name.startswith(NO_VARIABLE)


class _Described(NamedTuple):
    """The information in the header of a dataset, except the addresses of its dimensions, and in its attributes."""

    shown: dict[str, AttributeValue]
    internal: dict[str, AttributeValue]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    most: tuple[int, ...]
    attributes: dict[str, Any]
    storage: Chunked | Contiguous


class _Variable(NamedTuple):
    """The description of a variable in a file, independent of the file's name."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: dict[str, Any]
    storage: Chunked | Contiguous


def find(handle: Handle, head: bytes, address: str, group: str = "/") -> StoredVariable | None:
    """Return the same as `library_variables.find`, or `None` if the library has to be used; `head`: the first bytes."""
    if group != "/" and not address.startswith("/"):
        return None
    found = _found(handle, head, address.removeprefix("/"), "variable")
    return None if found is None else _stored(handle, address, group, found)


def find_all(handle: Handle, head: bytes, addresses: Sequence[str]) -> dict[str, StoredVariable]:
    """Return several variables of a file like `find`, reading shared parts once; some may be left out."""
    found: dict[str, StoredVariable] = {}
    try:
        file = _File(Objects(Space(Head(handle, head), checksum=compiled())), keep=True)
        links = file.links(_whole(file.object(file.objects.top())))
    except (OverlapError, OSError, *ERRORS):
        return found
    for address in addresses:
        name = address.removeprefix("/")
        if not name or "/" in name:
            continue
        file.objects.space.renew()
        with suppress(OverlapError, OSError, *ERRORS):
            found[address] = _stored(handle, address, "/", file.variable(links, name))
    return found


def find_every(handle: Handle, head: bytes, aside: Handle) -> dict[str, StoredVariable] | None:
    """Return all variables of a file in its order, each like `find`, or `None` if anything in it is unusual."""
    # No variable depends on the data that are read `aside`, from the same file.
    found: dict[str, StoredVariable] = {}
    try:
        space = Space(Head(handle, head), checksum=compiled())
        space.near = head
        file = _File(Objects(space), keep=True)
        top = file.objects.top()
        root = _whole(file.object(top))
        links = file.links(root, hard=False)
        # Nothing may be damaged in a file that is listed here, including its global attributes.
        apart = None if file.says_itself(root) else _File(Objects(Space(Head(aside, head), checksum=compiled())))
        (apart or file).attributes(top)
        for link in links:
            name = link.decode()
            if not name or "/" in name or name.startswith(NON_COORDINATE):
                return None
            space.renew()
            if not file.is_only_a_dimension(links, name):
                found[name] = _stored(handle, name, "/", file.variable(links, name))
    except (OverlapError, OSError, *ERRORS):
        return None
    return found


def _stored(handle: Handle, address: str, group: str, found: _Variable) -> StoredVariable:
    key = handle.key
    header = Header(key.path, address, found.dims, found.shape, found.dtype, found.attributes)
    # External storage and virtual layouts have messages that are unusual here.
    return StoredVariable(key, address, group, header, found.storage, address.removeprefix("/"), ())


def is_only_a_dimension(handle: Handle, head: bytes, name: str) -> bool:
    """Return whether a name in the root group of a file is certainly that of a dimension without a variable."""
    return _found(handle, head, name, "only a dimension") is True


def _found(handle: Handle, head: bytes, name: str, question: Literal["variable", "only a dimension"]) -> Any:
    """Return the answer about an object of the root group, or `None` if the library has to be used."""
    if "/" in name or not name or handle in _left:
        return None
    try:
        first = Head(handle, head)
        # Only files of the same length can have identical first bytes, since their superblocks include it.
        again, _Last.size = first.size == _Last.size, first.size
        if not again:
            return _parsed(handle, first, name, question)
        return remembered((question, name, first.size), first, lambda: _parsed(handle, first, name, question))
    except (OverlapError, OSError, *ERRORS):
        # The library reports what is wrong in its own words.
        return None


#: Files whose root group is left to the library: with many names all would be read for each.
_left: WeakSet[Handle] = WeakSet()


class _Last:
    """The size of the file that was last read, in any thread."""

    size = -1


def _parsed(handle: Handle, first: Head, name: str, question: Literal["variable", "only a dimension"]) -> Any:
    """Return the answer about an object of the root group."""
    file = _File(Objects(Space(first, checksum=compiled())))
    try:
        root = file.objects.top()
        # Most files of a series differ in the headers of their variables, but not in the links to these.
        links = remembered(("links", root, file.objects.expected), first, lambda: file.links(_whole(file.object(root))))
    except (OverlapError, OSError, *ERRORS):
        _left.add(handle)
        raise
    answer = file.variable if question == "variable" else file.is_only_a_dimension
    return remembered((question, name, tuple(links.items())), first, lambda: answer(links, name))


class _File:
    """Reads the variables of the root group of a file; with `keep` parts that several of them share are read once."""

    def __init__(self, objects: Objects, *, keep: bool = False) -> None:
        self.objects, self.headers, self._keep = objects, Headers(objects), keep
        self._decoded = Attributes(objects, strict=True)
        self._objects: dict[int, Object | Alike] = {}
        self._attributes: dict[int, _Attributes] = {}
        self._lengths: dict[int, int] = {}
        self._names: dict[int, bytes] = {}
        self._back: dict[int, bytes] = {}
        self._looked: set[int] = set()

    def object(self, at: int) -> Object | Alike:
        """Read an object header that has nothing unusual."""
        if at in self._objects:
            return self._objects[at]
        found = self.headers.read(at, self._names.get(at, b""))
        numbers = found.header.numbers if isinstance(found, Alike) else found.messages.keys()
        # A group is not a dataset, whatever else its header has.
        if not is_plain(numbers) and numbers != {SYMBOLS}:
            raise UnusualError
        if self._keep:
            self._objects[at] = found
        return found

    def links(self, root: Object, *, hard: bool = True) -> dict[bytes, int]:
        """Return the addresses of the objects of a group; soft links are omitted, or unusual if not `hard`."""
        stored = self.objects.links(root, hard=hard)
        links = dict(stored)
        if len(links) < len(stored) or len(links) > (_MOST if self._keep else _EACH):
            raise UnusualError
        self._names = {at: name for name, at in links.items()}
        return links

    @staticmethod
    def says_itself(found: Object) -> bool:
        """Return whether the header of an object contains all values of its attributes."""
        info = found.messages.get(ATTRIBUTES)
        if info is not None and dense_at(info) != UNDEFINED:
            return False
        stored = (attribute_of(data) for _, data in found.attributes)
        return all(kind[0] & 15 != _SEQUENCE for _, _, kind, _, _ in stored)

    def variable(self, links: dict[bytes, int], name: str) -> _Variable:
        """Return the description of a dataset."""
        at = links.get(name.encode())
        if at is None:
            raise UnusualError
        found = self.object(at)
        shown, internal, scales = self.attributes(at)
        known, storage = found.header.variable if isinstance(found, Alike) else None, None
        if isinstance(found, Alike) and known is not None and known.shown is shown and known.internal is internal:
            storage = moved(known.storage, found.values[found.header.last[LAYOUT]], name)
        if known is None or storage is None:
            known = _described(_whole(found), name, shown, internal)
            storage = known.storage
            if isinstance(found, Alike):
                found.header.variable = known
        dims = self.dimensions(links, name, known.shape, known.most, scales, named="CLASS" in internal)
        if self.objects.space.proven:
            self._look_at_storage(at)
        return _Variable(dims, known.shape, known.dtype, known.attributes, storage)

    def is_only_a_dimension(self, links: dict[bytes, int], name: str) -> bool:
        """Return whether an object is a dimension scale that is not a variable."""
        at = links.get(name.encode())
        return at is not None and _is_no_variable(self.attributes(at)[1])

    def attributes(self, at: int) -> _Attributes:
        """Return the attributes of an object."""
        if at in self._attributes:
            return self._attributes[at]
        found = self.object(at)
        space = fixed_messages(found).get(SPACE)
        attributes = self._decoded.of(found, 0 if space is None else len(shape_of(space)[0]))
        if self._keep:
            self._attributes[at] = attributes
        return attributes

    def dimensions(
        self,
        links: dict[bytes, int],
        name: str,
        shape: tuple[int, ...],
        most: tuple[int, ...],
        listed: Sequence[int | None] | None,
        *,
        named: bool,
    ) -> tuple[str, ...]:
        """Return the names of the dimensions; raise an error if the lengths differ from the netCDF ones."""
        if not shape:
            return ()
        if listed is None:
            if len(shape) != 1 or not named:
                raise UnusualError
            names, scales = [name], [links[name.encode()]]
        else:
            back = self._back or self._backwards(links)
            scales = [-1 if scale is None else scale for scale in listed]
            found = [back.get(scale) for scale in scales]
            if not all(found):
                raise UnusualError
            names = [n.decode() for n in found if n]
        if listed is not None and self.objects.space.proven:
            # Without checksums, damage of the dimensions is possible without damage of this dataset.
            for scale in set(scales):
                if self.attributes(scale)[1].get("CLASS") != "DIMENSION_SCALE":
                    raise UnusualError
                self._look_at_storage(scale)
        for n, limit, scale in zip(shape, most, scales, strict=True):
            # An unlimited dimension is as long as the longest variable along it.
            if limit != n and self.longest(scale) != n:
                raise UnusualError
        return tuple(names)

    def _look_at_storage(self, at: int) -> None:
        """Look whether the library can open a dataset, whose values may never have been written."""
        if at in self._looked:
            return
        found, end = self.object(at), self.objects.space.size
        messages = fixed_messages(found)
        (size,) = struct.unpack_from("<I", messages[TYPE], 4)
        stored = found.values[found.header.last[LAYOUT]] if isinstance(found, Alike) else messages[LAYOUT]
        shape, layout = _space(messages[SPACE])[0], layout_of(stored)
        if layout.class_ == CONTIGUOUS:
            size *= prod(shape)
            usual = layout.size == size and (layout.at == UNDEFINED or layout.at + size <= end)
        else:
            usual = layout.class_ == CHUNKED and len(layout.chunk) == len(shape) + 1 and layout.chunk[-1] == size
        if not usual or not all(layout.chunk) or prod(layout.chunk) >= 1 << 32:
            raise UnusualError
        if self._keep:
            self._looked.add(at)

    def _backwards(self, links: dict[bytes, int]) -> dict[int, bytes]:
        """Return the name of each object of a group, empty if it has two, of which only the library can choose one."""
        back: dict[int, bytes] = {}
        for link, target in links.items():
            back[target] = b"" if target in back else link
        if self._keep:
            self._back = back
        return back

    def longest(self, at: int) -> int:
        """Return the length of an unlimited netCDF dimension."""
        if at in self._lengths:
            return self._lengths[at]
        scale = self.object(at)
        longest = _space(fixed_messages(scale)[SPACE])[0][0]
        for data in self._decoded.users(scale):
            listed, flags, kind, space, begin = attribute_of(data)
            if listed != b"REFERENCE_LIST":
                continue
            (size,) = struct.unpack_from("<I", kind, 4)
            users, _ = _space(space)
            if flags or kind[0] & 15 != _COMPOUND or size not in (12, 16) or len(users) != 1 or users[0] > _USERS:
                raise UnusualError
            for i in range(users[0]):
                where, axis = struct.unpack_from("<QI", data, begin + i * size)
                longest = max(longest, _space(fixed_messages(self.object(where))[SPACE])[0][axis])
        if self._keep:
            self._lengths[at] = longest
        return longest


def _whole(found: Object | Alike) -> Object:
    """Return an object header with all of its messages."""
    return found.object() if isinstance(found, Alike) else found


def _described(
    found: Object, name: str, shown: dict[str, AttributeValue], internal: dict[str, AttributeValue]
) -> _Described:
    """Return the information in the header of a dataset and its attributes."""
    messages = found.messages
    if not messages.keys() >= {SPACE, TYPE, LAYOUT}:
        raise UnusualError
    dtype = _dtype(messages[TYPE])
    shape, most = _space(messages[SPACE])
    if _is_no_variable(internal) or internal.get("CLASS", "DIMENSION_SCALE") != "DIMENSION_SCALE":
        raise UnusualError
    storage = storage_of(messages, shape, dtype, name)
    attributes = _as_netcdf4(shown, ordered=found.ordered)
    return _Described(shown, internal, dtype.newbyteorder("="), shape, most, attributes, storage)


def _as_netcdf4(attributes: dict[str, AttributeValue], *, ordered: bool) -> dict[str, Any]:
    """Return attributes in the form and order of netCDF4-python, converted once for all variables that share them."""
    made = attributes.made if isinstance(attributes, SharedAttributes) else {}
    found = made.get((__name__, ordered))
    if found is None:
        items = attributes.items() if ordered else sorted(attributes.items())
        found = made[__name__, ordered] = {name: plain(value) for name, value in items}
    return found


def _space(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes and maximum sizes; a space without any element is unusual."""
    shape, most, empty = shape_of(data)
    if empty:
        raise UnusualError
    return shape, most


def _dtype(data: bytes) -> np.dtype[Any]:
    """Return the type of values: numbers, or single characters."""
    what, detail = type_of(data)
    if what == "number":
        return np.dtype(detail)
    if what in ("fixed", "terminated") and detail == 1:
        return np.dtype("S1")
    raise UnusualError
