"""HDF5-based netCDF files through h5py's low-level interface, group by group as the netCDF library understands them.

What the netCDF library keeps for itself (attributes of dimension scales, say) is not shown.  Nothing leads out of the
file: external links are left out, values in external or virtual storage are not read, and a group that is linked
several times is read once.

Source: "NetCDF-4 file format" in the netCDF user guide; HDF5 dimension scales specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.model import AttributeValue, Dataset, Dimension, Group, Kind, Variable
from cfagg.checking.sources.foreign import Foreign, name_of, too_long, value_of
from cfagg.errors import AccessError, FragmentReadError, LimitError, SourceError
from cfagg.readers.locks import LIBRARY

__all__ = ["BARE", "DEEPEST", "INTERNAL", "NON_COORDINATE", "Scales", "open_file", "open_hdf5"]

#: Attributes that are the netCDF library's own.
INTERNAL = frozenset(
    {
        "CLASS",
        "NAME",
        "REFERENCE_LIST",
        "DIMENSION_LIST",
        "DIMENSION_LABELS",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_NCProperties",
        "_nc3_strict",
        "_NCCOPY",
        "_NoFill",
    }
)
BARE = "This is a netCDF dimension but not a netCDF variable"
NON_COORDINATE = "_nc4_non_coord_"

#: Groups within groups, and objects of a file.
DEEPEST, _MOST = 4096, 1 << 22

#: Bytes that the texts of one attribute may have together.
_TEXTS = 1 << 30

_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError, OverflowError)


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
            file = _opened(path)
        except _ERRORS as error:
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
        except _ERRORS as error:
            raise SourceError(
                f"{source} is HDF5 and damaged: the HDF5 library says: {error}; copy or make it again"
            ) from error


def _opened(path: str) -> Any:
    """Return a file that is only read; where it cannot be locked, or another program has, without a lock."""
    import h5py

    name = path.encode("utf-8", "surrogateescape")
    try:
        return h5py.h5f.open(name, h5py.h5f.ACC_RDONLY)
    except OSError:
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_file_locking(False, True)
        return h5py.h5f.open(name, h5py.h5f.ACC_RDONLY, access)


def _close(file: Any) -> None:
    with LIBRARY:
        file.close()


class Scales:
    """The dimensions of a file, and what is left to be done when all of them are known.

    netCDF keeps each dimension as an HDF5 dataset; other datasets name theirs by reference.
    """

    def __init__(self) -> None:
        self.known: dict[int, Dimension] = {}
        self.by_number: dict[int, Dimension] = {}
        self._phony = 0

    def phony(self, group: Group, size: int, unlimited: bool, taken: tuple[Dimension, ...]) -> Dimension:
        """Return a dimension for a dataset that names none: one for each length in a group, as the library does."""
        for dimension in group.dimensions.values():
            if (
                dimension.name.startswith("phony_dim_")
                and dimension.size == size
                and dimension.unlimited == unlimited
                and dimension not in taken
            ):
                return dimension
        name = f"phony_dim_{self._phony}"
        self._phony += 1
        return group.add_dimension(name, size, unlimited=unlimited)


class _Walk:
    """Reads all groups of one file."""

    def __init__(self, file: Any, source: str) -> None:
        import h5py

        self.h5, self.file, self.source = h5py, file, source
        self.scales = Scales()
        self.number = h5py.h5o.get_info(file).fileno
        #: Variables whose dimensions are found in the end: variable, opened dataset, attributes.
        self.open: list[tuple[Variable, Any, dict[str, Any]]] = []
        self.objects = 0

    def root(self) -> Group:
        """Return the whole."""
        root = Group()
        top = self.h5.h5g.open(self.file, b"/")
        seen = {self._address(top)}
        waiting = [(root, top, 0)]
        while waiting:
            group, opened, depth = waiting.pop()
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
                        below.append((group.child(name_of(name)), inner, depth + 1))
                elif isinstance(inner, self.h5.h5d.DatasetID):
                    self._dataset(group, name_of(name), inner)
            waiting.extend(reversed(below))
        for variable, dataset, internal in self.open:
            variable.dimensions = self._dimensions(variable, dataset, internal)
        self._grow()
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
        if self.objects > _MOST:
            raise LimitError(f"{self.source} has more than {_MOST:,} variables and groups")
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

    def _dataset(self, group: Group, name: str, dataset: Any) -> None:
        """Add a dataset to its group: a dimension, a variable, or both."""
        attributes, internal = self._attributes(dataset)
        scale = internal.get("CLASS") == "DIMENSION_SCALE"
        title = internal.get("NAME")
        name = name.removeprefix(NON_COORDINATE)
        if scale:
            space = dataset.get_space()
            shape = space.get_simple_extent_dims()
            most = space.get_simple_extent_dims(True)
            dimension = group.add_dimension(
                name, int(shape[0]) if shape else 1, unlimited=bool(most) and most[0] == self.h5.h5s.UNLIMITED
            )
            self.scales.known[self._address(dataset)] = dimension
            number = internal.get("_Netcdf4Dimid")
            if isinstance(number, np.ndarray) and number.size == 1:
                self.scales.by_number.setdefault(int(number[0]), dimension)
            if isinstance(title, str) and title.startswith(BARE):
                return
        dtype, kind = _type(self.h5, dataset.get_type())
        variable = Variable(name, group, (), dtype, kind, attributes)
        variable.read = _Values(dataset, f"{self.source}: {variable.path}")
        group.variables[name] = variable
        self.open.append((variable, dataset, internal))

    def _dimensions(self, variable: Variable, dataset: Any, internal: dict[str, Any]) -> tuple[Dimension, ...]:
        space = dataset.get_space()
        shape = tuple(map(int, space.get_simple_extent_dims()))
        if not shape:
            return ()
        numbers = internal.get("_Netcdf4Coordinates")
        if isinstance(numbers, np.ndarray) and numbers.size == len(shape):
            by_number = [self.scales.by_number.get(int(n)) for n in numbers]
            if all(by_number):
                return tuple(d for d in by_number if d is not None)
        own = self.scales.known.get(self._address(dataset))
        if own is not None and len(shape) == 1:
            return (own,)
        lists = internal.get("DIMENSION_LIST")
        found: list[Dimension | None] = [None] * len(shape)
        if isinstance(lists, np.ndarray) and lists.shape == (len(shape),):
            for d, references in enumerate(lists):
                if len(references):
                    target = self.h5.h5r.dereference(references[0], self.file)
                    found[d] = self.scales.known.get(self._address(target)) if target is not None else None
        if own is not None and found[0] is None:
            found[0] = own
        most = space.get_simple_extent_dims(True)
        taken: tuple[Dimension, ...] = ()
        for d, n in enumerate(shape):
            dimension = found[d] or self.scales.phony(variable.group, n, most[d] == self.h5.h5s.UNLIMITED, taken)
            taken = (*taken, dimension)
        return taken

    def _grow(self) -> None:
        """Make every unlimited dimension as long as the longest variable along it."""
        for variable, dataset, _ in self.open:
            if any(d.unlimited for d in variable.dimensions):
                for dimension, n in zip(variable.dimensions, dataset.shape, strict=False):
                    if dimension.unlimited:
                        dimension.size = max(dimension.size, int(n))

    def _attributes(self, owner: Any) -> tuple[dict[str, AttributeValue], dict[str, Any]]:
        """Return the attributes, and those that are the library's own."""
        names: list[bytes] = []
        tracked = owner is not self.file and _tracks_attributes(self.h5, owner)
        order = self.h5.h5.INDEX_CRT_ORDER if tracked else self.h5.h5.INDEX_NAME
        self.h5.h5a.iterate(owner, names.append, index_type=order)
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
        return shown, internal


def _tracks_attributes(h5: Any, owner: Any) -> bool:
    return bool(owner.get_create_plist().get_attr_creation_order() & h5.h5p.CRT_ORDER_TRACKED)


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
        if count > 16 and count * _file_size(attribute) > _TEXTS and count > 1 << 16:
            return Foreign(f"{count:,} texts; fewer are looked at")
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        raw = [v if isinstance(v, bytes) else str(v or "").encode("utf-8", "surrogateescape") for v in values.flat]
        long = too_long(name, sum(map(len, raw)))
        if long is not None:
            return long
        texts = [value_of(r) for r in raw]
    else:
        values = np.empty(attribute.shape, f"S{stored.get_size()}")
        attribute.read(values)
        texts = [value_of(bytes(v)) for v in values.flat]
        if not attribute.shape:
            return texts[0]
    if len(texts) == 1:
        return texts[0]
    return tuple(t if isinstance(t, str) else name_of(t) for t in texts if isinstance(t, str | bytes))


def _file_size(attribute: Any) -> int:
    import h5py

    return int(h5py.h5i.get_file_id(attribute).get_filesize())


class _Values:
    """Reads hyperslabs of one dataset, as stored."""

    def __init__(self, dataset: Any, where: str) -> None:
        self.dataset, self.where = dataset, where
        self._checked = False

    def _check(self, h5: Any) -> None:
        plist = self.dataset.get_create_plist()
        if plist.get_external_count() or plist.get_layout() == h5.h5d.VIRTUAL:
            raise AccessError(f"{self.where}: its values stand in other files (HDF5 external storage); not read")
        self._checked = True

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        import h5py

        with LIBRARY:
            try:
                if not self._checked:
                    self._check(h5py)
                return self._read(h5py, slices)
            except AccessError:
                raise
            except _ERRORS as error:
                raise FragmentReadError(
                    f"{self.where}: its values cannot be read, the HDF5 library says: {error}; copy or make the "
                    "file again"
                ) from error

    def _read(self, h5: Any, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        shape = self.dataset.shape
        ranges = [range(s.start or 0, s.stop, s.step or 1) for s in slices]
        counts = tuple(map(len, ranges))
        dtype = self.dataset.dtype
        text = isinstance(self.dataset.get_type(), h5.h5t.TypeStringID)
        native = dtype if dtype.kind in "OSV" else dtype.newbyteorder("=")
        if len(shape) != len(counts) or 0 in counts:
            return np.empty(counts, object if native.kind in "OV" else native)
        # A netCDF dimension that may grow can be longer than the dataset: what is behind its end was never written.
        stored = tuple(len(range(*s.indices(n))) for s, n in zip(slices, shape, strict=True))
        block = np.empty(stored, native)
        if 0 not in stored:
            space = self.dataset.get_space()
            if stored:
                space.select_hyperslab(tuple(r.start for r in ranges), stored, tuple(r.step for r in ranges))
            memory = h5.h5s.create_simple(stored) if stored else h5.h5s.create(h5.h5s.SCALAR)
            self.dataset.read(memory, space, block)
        if stored != counts:
            whole = np.full(counts, _fill(h5, self.dataset, native), native)
            whole[tuple(slice(n) for n in stored)] = block
            block = whole
        if text and native.kind == "S" and native.itemsize > 1:
            return block.astype(object)
        return block


def _fill(h5: Any, dataset: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value of what was never written."""
    if dtype.kind not in "iufS":
        return b""
    value = np.zeros((), dtype)
    plist = dataset.get_create_plist()
    if plist.fill_value_defined() != h5.h5d.FILL_VALUE_UNDEFINED:
        plist.get_fill_value(value)
    return value[()]
