"""HDF5-based netCDF files through h5py's low-level interface, group by group as the netCDF library understands them.

What the netCDF library keeps for itself (attributes of dimension scales, say) is not shown.  Nothing leads out of the
file: external links are left out, values in external or virtual storage are not read, and a group that is linked
several times is read once.

Source: "NetCDF-4 file format" in the netCDF user guide; HDF5 dimension scales specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cfagg.checking.model import AttributeValue, Dataset, Group, Kind
from cfagg.checking.sources.foreign import Foreign, name_of, too_long
from cfagg.checking.sources.hdf5_netcdf import DEEPEST, MOST, Assembly, Found, texts_of
from cfagg.checking.sources.hdf5_values import ERRORS, Values, opened
from cfagg.errors import LimitError, SourceError
from cfagg.readers.locks import LIBRARY
from cfagg.readers.netcdf4_names import INTERNAL

__all__ = ["open_file", "open_hdf5"]

#: Texts of one attribute, and bytes that they could have together, when not more are surely looked at.
_COUNT, _TEXTS = 256, 1 << 32


def open_hdf5(path: str, source: str) -> Dataset:
    """Return the model of an HDF5-based file.

    Parameters
    ----------
    path : str
        The file.
    source : str
        What messages call it.

    Raises
    ------
    SourceError
        If it is damaged.
    LimitError
        If its groups are nested too deeply.
    """
    with LIBRARY:
        try:
            file = opened(path)
        except ERRORS as error:
            raise SourceError(
                f"{source} cannot be opened: it begins as HDF5, and the HDF5 library says: {error}; "
                "copy or make it again"
            ) from error
        try:
            dataset = open_file(file, source)
        except BaseException:
            file.close()
            raise
    dataset.path, dataset.close = path, lambda: _close(file)
    return dataset


def open_file(file: Any, source: str) -> Dataset:
    """Return the model of an open file, which stays open.

    Parameters
    ----------
    file : h5py.h5f.FileID
        The file.
    source : str
        What messages call it.

    Raises
    ------
    SourceError
        If it is damaged.
    LimitError
        If its groups are nested too deeply.
    """
    with LIBRARY:
        try:
            return Dataset(source, "netcdf", _Walk(file, source).root())
        except (SourceError, LimitError):
            raise
        except ERRORS as error:
            raise SourceError(
                f"{source} is HDF5 and damaged: the HDF5 library says: {error}; copy or make it again"
            ) from error


def _close(file: Any) -> None:
    with LIBRARY:
        file.close()


class _Walk:
    """Reads all groups of one file."""

    def __init__(self, file: Any, source: str) -> None:
        import h5py

        self.h5, self.file, self.source = h5py, file, source
        self.assembly = Assembly()
        self.objects = 0
        #: By address, because a dataset may have several names.
        self.known: dict[int, Found] = {}
        #: Bytes that texts of variable length may have: each should be shown once.
        self.left = 2 * int(file.get_filesize()) + (1 << 20)

    def root(self) -> Group:
        """Return the whole."""
        root = Group()
        top = self.h5.h5g.open(self.file, b"/")
        seen = {self._address(top)}
        waiting = [(root, top, b"", 0)]
        while waiting:
            group, opened, path, depth = waiting.pop()
            if depth > DEEPEST:
                raise LimitError(f"{self.source}: groups are nested more than {DEEPEST:,} deep")
            group.attributes = self._attributes(opened)[0]
            below = []
            for name in self._names(opened):
                inner = self._member(opened, name)
                if isinstance(inner, self.h5.h5g.GroupID):
                    address = self._address(inner)
                    if address not in seen:
                        seen.add(address)
                        below.append((group.child(name_of(name)), inner, path + b"/" + name, depth + 1))
                elif isinstance(inner, self.h5.h5d.DatasetID):
                    self._dataset(group, path + b"/" + name, inner)
            waiting.extend(reversed(below))
        self.assembly.finish()
        return root

    def _address(self, opened: Any) -> int:
        return int(self.h5.h5o.get_info(opened).addr)

    def _names(self, group: Any) -> list[bytes]:
        """Return the names of what a group links, by creation where that is tracked, else by name."""
        tracked = group.get_create_plist().get_link_creation_order() & self.h5.h5p.CRT_ORDER_TRACKED
        names: list[bytes] = []
        order = self.h5.h5.INDEX_CRT_ORDER if tracked else self.h5.h5.INDEX_NAME
        group.links.iterate(names.append, idx_type=order)
        self.objects += len(names)
        if self.objects > MOST:
            raise LimitError(f"{self.source} has more than {MOST:,} variables and groups")
        return names

    def _member(self, group: Any, name: bytes, hops: int = 16) -> Any:
        """Return what a link leads to within the file, `None` where it leads nowhere or elsewhere."""
        kind = group.links.get_info(name).type
        if kind == self.h5.h5l.TYPE_HARD:
            return self.h5.h5o.open(group, name)
        if kind != self.h5.h5l.TYPE_SOFT or not hops:
            return None
        target = group.links.get_val(name)
        at = self.h5.h5g.open(self.file, b"/") if target.startswith(b"/") else group
        for word in target.split(b"/"):
            if word in (b"", b"."):
                continue
            if not isinstance(at, self.h5.h5g.GroupID) or not at.links.exists(word):
                return None
            at = self._member(at, word, hops - 1)
        return at

    def _spend(self, value: AttributeValue) -> None:
        """Count the bytes of texts, which the file could repeat without end."""
        if isinstance(value, str | tuple):
            self.left -= len(value) if isinstance(value, str) else sum(map(len, value))
            if self.left < 0:
                raise SourceError(
                    f"{self.source} is HDF5 and damaged: its attributes have more text than it has bytes; copy or make "
                    "it again"
                )

    def _dataset(self, group: Group, path: bytes, dataset: Any) -> None:
        """Add a dataset to its group."""
        address = self._address(dataset)
        found = self.known.get(address)
        if found is None:
            attributes, internal = self._attributes(dataset)
            space = dataset.get_space()
            shape = tuple(map(int, space.get_simple_extent_dims() or ()))
            grows = tuple(n == self.h5.h5s.UNLIMITED for n in space.get_simple_extent_dims(True)) if shape else ()
            dtype, kind = _type(self.h5, dataset.get_type())
            scales = self._scales(internal.pop("DIMENSION_LIST", None))
            found = self.known[address] = Found(address, shape, grows, dtype, kind, attributes, internal, scales)
        # Not the dataset is kept, which would keep the file open, but its path.
        file, open_ = self.file, self.h5.h5d.open
        name = name_of(path.rpartition(b"/")[2])
        self.assembly.add(group, name, found, lambda v: Values(lambda: open_(file, path), f"{self.source}: {v.path}"))

    def _scales(self, lists: Any) -> list[int | None] | None:
        """Return the addresses of the datasets that are the dimensions."""
        if not isinstance(lists, np.ndarray):
            return None
        found: list[int | None] = []
        for references in lists:
            target = self.h5.h5r.dereference(references[0], self.file) if len(references) else None
            found.append(self._address(target) if target is not None else None)
        return found

    def _attributes(self, owner: Any) -> tuple[dict[str, AttributeValue], dict[str, Any]]:
        """Return the attributes, and those that are the library's own."""
        names: list[bytes] = []
        # Where no order is kept this is the order in which they are stored, or that of their names.
        self.h5.h5a.iterate(owner, names.append, index_type=self.h5.h5.INDEX_CRT_ORDER)
        shown: dict[str, AttributeValue] = {}
        internal: dict[str, Any] = {}
        for raw in names:
            name = name_of(raw)
            if name in ("REFERENCE_LIST", "_NCProperties"):
                continue
            attribute = self.h5.h5a.open(owner, raw)
            if name == "DIMENSION_LIST":
                internal[name] = _references(attribute)
            elif name in INTERNAL:
                internal[name] = _value(self.h5, name, attribute)
            else:
                shown[name] = _value(self.h5, name, attribute)
                self._spend(shown[name])
        return shown, internal


def _references(attribute: Any) -> Any:
    """Return the references to dimensions."""
    if attribute.get_storage_size() > 1 << 16:
        return None
    values = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values if values.dtype == object else None


def _type(h5: Any, stored: Any) -> tuple[np.dtype[Any], Kind]:
    """Return the NumPy type and what a variable of an HDF5 type holds."""
    if isinstance(stored, h5.h5t.TypeStringID):
        if stored.is_variable_str() or stored.get_size() > 1:
            return np.dtype(object), "string"
        return np.dtype("S1"), "char"
    if isinstance(stored, h5.h5t.TypeIntegerID):
        return np.dtype(stored.dtype.str).newbyteorder("="), "integer"
    if isinstance(stored, h5.h5t.TypeFloatID):
        return np.dtype(stored.dtype.str).newbyteorder("="), "float"
    return np.dtype(object), "other"


def _value(h5: Any, name: str, attribute: Any) -> AttributeValue:
    """Return the value of an attribute."""
    stored, space = attribute.get_type(), attribute.get_space()
    empty = space.get_simple_extent_type() == h5.h5s.NULL
    if isinstance(stored, h5.h5t.TypeStringID):
        return _texts(name, attribute, stored, empty)
    if not isinstance(stored, h5.h5t.TypeIntegerID | h5.h5t.TypeFloatID):
        return Foreign("a value of a user-defined type")
    if empty:
        return np.empty(0, np.dtype(stored.dtype.str).newbyteorder("="))
    foreign = too_long(name, attribute.get_storage_size())
    if foreign is not None:
        return foreign
    values = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values.astype(values.dtype.newbyteorder("=")).reshape(-1)


def _texts(name: str, attribute: Any, stored: Any, empty: bool) -> AttributeValue:
    if empty:
        return ""
    # How long texts of variable length are shows when they are read; each may be as long as the file.
    foreign = too_long(name, attribute.get_storage_size())
    if foreign is not None:
        return foreign
    if stored.is_variable_str():
        count = int(np.prod(attribute.shape, dtype=object)) if attribute.shape else 1
        if count > _COUNT and count * _file_size(attribute) > _TEXTS:
            return Foreign(f"{count:,} texts; fewer are looked at")
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        raw = [v if isinstance(v, bytes) else str(v or "").encode("utf-8", "surrogateescape") for v in values.flat]
        return texts_of(name, raw, scalar=not attribute.shape) if raw else ()
    values = np.empty(attribute.shape, f"S{stored.get_size()}")
    attribute.read(values)
    return texts_of(name, [bytes(v) for v in values.flat], scalar=not attribute.shape) if values.size else ()


def _file_size(attribute: Any) -> int:
    import h5py

    return int(h5py.h5i.get_file_id(attribute).get_filesize())
