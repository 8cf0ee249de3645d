"""Finding variables in HDF5-based netCDF files through h5py's low-level interface, a few times faster than netCDF-C.

What this module does not understand it leaves to the netCDF library by returning `None`.  What could lead out of the
file is refused: external links, external storage and virtual datasets would read files that no policy has allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.errors import AccessError
from cfagg.readers import counters
from cfagg.readers.files import Context, FileKey
from cfagg.readers.located import Chunked, Contiguous, Library, Located
from cfagg.readers.locks import LIBRARY
from cfagg.readers.netcdf4_names import INTERNAL, NO_VARIABLE, NON_COORDINATE
from cfagg.readers.pool import Pool

__all__ = ["ERRORS", "dataset", "fill", "find", "read"]

_INTERNAL = frozenset(name.encode() for name in INTERNAL)

#: What h5py raises about a damaged file.
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError)


class _UnclearError(Exception):
    """Something that the netCDF library should interpret."""


def _open(path: str) -> tuple[Any, bool]:
    """Return the file, and whether its addresses start behind a user block."""
    import h5py

    file = h5py.h5f.open(path.encode("utf-8", "surrogateescape"), h5py.h5f.ACC_RDONLY)
    return file, bool(file.get_create_plist().get_userblock())


def _close(opened: tuple[Any, bool]) -> None:
    opened[0].close()


_pool = Pool(_open, _close)


def find(key: FileKey, address: str, context: Context, group: str = "/") -> Located | None:
    """Return a variable of an HDF5-based file, or `None` where the netCDF library has to look itself.

    Raises
    ------
    AccessError
        If the variable's values would come from another file.
    """
    with LIBRARY:
        try:
            file, based = _pool.get(key)
            found = _dataset(file, address, group)
            if found is None:
                return None
            name, opened = found
            plist = opened.get_create_plist()
            _check_inside(opened, plist, key, address, context)
            return _located(key, file, based, name, opened, plist, address, group)
        except (*ERRORS, _UnclearError) as error:
            if isinstance(error, AccessError):
                raise
            # The netCDF library finds out what is wrong, and says it in its words.
            return None


def dataset(key: FileKey, name: str) -> Any:
    """Return the open low-level dataset; the library lock is held."""
    import h5py

    return h5py.h5d.open(_pool.get(key)[0], name.encode())


def read(
    key: FileKey, name: str, dtype: np.dtype[Any], slices: Sequence[slice], address: str, context: Context
) -> npt.NDArray[Any]:
    """Read a hyperslab through the HDF5 library, under its lock: the cheapest for a few values.

    Raises
    ------
    FragmentReadError
        If the library cannot read them.
    """
    import h5py

    counts = tuple(len(range(s.start, s.stop, s.step)) for s in slices)
    block = np.empty(counts, dtype.newbyteorder("="))
    if block.size == 0:
        return block
    with LIBRARY:
        try:
            source = dataset(key, name)
            space = source.get_space()
            if counts:
                space.select_hyperslab(tuple(s.start for s in slices), counts, tuple(s.step for s in slices))
            memory = h5py.h5s.create_simple(counts) if counts else h5py.h5s.create(h5py.h5s.SCALAR)
            source.read(memory, space, block)
        except ERRORS as error:
            raise context.broken(
                context.said(
                    f"variable {address!r} of {key.path} cannot be read, the library says: {error}; restore the file"
                )
            ) from error
    counters.add(bytes=block.nbytes)
    return block


def _dataset(file: Any, address: str, group: str) -> tuple[str, Any] | None:
    """Return the path and the low-level dataset of a variable, searched from `group` upwards."""
    import h5py

    where, _, name = address.rpartition("/")
    start = [] if address.startswith("/") else [p for p in group.split("/") if p]
    inner = [p for p in where.split("/") if p]
    if "." in inner:
        # HDF5 takes a dot for the group itself; netCDF has no such groups.
        return None
    for depth in range(len(start), -1, -1):
        parent = "/".join([*start[:depth], *inner])
        for candidate in (f"{parent}/{name}", f"{parent}/{NON_COORDINATE}{name}"):
            path = candidate.lstrip("/")
            try:
                found = h5py.h5o.open(file, path.encode())
            except (KeyError, ValueError, OSError, RuntimeError):
                continue
            if isinstance(found, h5py.h5d.DatasetID) and not _is_bare_dimension(found):
                return path, found
    return None


def _is_bare_dimension(dataset: Any) -> bool:
    import h5py

    if not h5py.h5a.exists(dataset, b"NAME") or not h5py.h5a.exists(dataset, b"CLASS"):
        return False
    value = _attribute(h5py.h5a.open(dataset, b"NAME"))
    return isinstance(value, str) and value.startswith(NO_VARIABLE)


def _check_inside(dataset: Any, plist: Any, key: FileKey, address: str, context: Context) -> None:
    """Refuse a dataset whose values stand in another file."""
    import h5py

    if (
        plist.get_external_count()
        or plist.get_layout() == h5py.h5d.VIRTUAL
        or h5py.h5f.get_name(dataset) != key.path.encode("utf-8", "surrogateescape")
    ):
        raise AccessError(
            context.said(
                f"variable {address!r} of {key.path} takes its values from another file, by HDF5's external links, "
                "external storage or virtual datasets; that cannot be allowed: copy the values into the file"
            )
        )


def _located(
    key: FileKey, file: Any, based: bool, name: str, dataset: Any, plist: Any, address: str, group: str
) -> Located:
    """Return what is known of a dataset."""
    import h5py

    dtype = dataset.dtype
    if (
        dtype.kind not in "iufS"
        or (dtype.metadata and dtype.kind != "S")
        or (dtype.kind == "S" and dtype.itemsize != 1)
    ):
        # Enumerations, compounds, types of variable length: rare, and full of rules.
        raise _UnclearError
    dtype = np.dtype(dtype.str)
    shape = dataset.shape
    names = _attribute_names(dataset, plist)
    dims = _dimensions(file, name, dataset, shape, names)
    header = Header(key.path, address, dims, shape, dtype.newbyteorder("="), _attributes(dataset, names))
    layout = plist.get_layout()
    storage: Chunked | Contiguous | Library
    if layout == h5py.h5d.CONTIGUOUS and not based:
        offset = dataset.get_offset()
        storage = Contiguous(-1, 0, dtype, fill(dataset)) if offset is None else Contiguous(int(offset), 0, dtype)
    elif layout == h5py.h5d.CHUNKED and not based:
        filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        storage = Chunked(plist.get_chunk(), tuple((f[0], tuple(f[2])) for f in filters), dtype, name)
    else:
        storage = Library(plist.get_chunk() if layout == h5py.h5d.CHUNKED else None)
    return Located(key, address, group, header, storage)


def fill(dataset: Any) -> Any:
    """Return the value of what was never written, in native byte order; the library lock is held."""
    import h5py

    plist = dataset.get_create_plist()
    value = np.zeros((), dataset.dtype)
    if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_UNDEFINED:
        plist.get_fill_value(value)
    return value.astype(value.dtype.newbyteorder("="))[()]


def _dimensions(
    file: Any, name: str, dataset: Any, shape: tuple[int, ...], attributes: Sequence[bytes]
) -> tuple[str, ...]:
    """Return the names of the dimensions; the lengths are the netCDF ones where this returns."""
    import h5py

    if not shape:
        return ()
    limits = dataset.get_space().get_simple_extent_dims(True)
    if b"DIMENSION_LIST" not in attributes:
        if len(shape) != 1 or b"CLASS" not in attributes:
            raise _UnclearError
        references = None
        names = [name.rpartition("/")[2]]
    else:
        attribute = h5py.h5a.open(dataset, b"DIMENSION_LIST")
        references = np.empty(attribute.shape, attribute.dtype)
        attribute.read(references)
        if references.shape != (len(shape),) or any(len(refs) != 1 for refs in references):
            raise _UnclearError
        names = [h5py.h5r.get_name(refs[0], file).decode().rpartition("/")[2] for refs in references]
    for d, (n, most) in enumerate(zip(shape, limits, strict=True)):
        # An unlimited dimension is as long as the longest variable along it.
        if most != n:
            scale = dataset if references is None else h5py.h5r.dereference(references[d][0], file)
            if _longest(file, scale) != n:
                raise _UnclearError
    return tuple(names)


def _longest(file: Any, scale: Any) -> int:
    """Return the length of an unlimited netCDF dimension."""
    import h5py

    longest = int(scale.shape[0])
    if h5py.h5a.exists(scale, b"REFERENCE_LIST"):
        attribute = h5py.h5a.open(scale, b"REFERENCE_LIST")
        users = np.empty(attribute.shape, attribute.dtype)
        attribute.read(users)
        for reference, axis in users:
            longest = max(longest, int(h5py.h5r.dereference(reference, file).shape[axis]))
    return longest


def _attribute_names(dataset: Any, plist: Any) -> list[bytes]:
    """Return the names of all attributes, by creation order where it is tracked, as the netCDF library does."""
    import h5py

    tracked = plist.get_attr_creation_order() & h5py.h5p.CRT_ORDER_TRACKED
    names: list[bytes] = []
    h5py.h5a.iterate(dataset, names.append, index_type=h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME)
    return names


def _attributes(dataset: Any, names: Sequence[bytes]) -> dict[str, Any]:
    """Return the attributes in the form in which netCDF4-python gives them."""
    import h5py

    return {n.decode(): _attribute(h5py.h5a.open(dataset, n)) for n in names if n not in _INTERNAL}


def _attribute(attribute: Any) -> Any:
    """Return the value of an attribute."""
    import h5py

    kind = attribute.get_type()
    if isinstance(kind, h5py.h5t.TypeStringID):
        if kind.is_variable_str():
            values = np.empty(attribute.shape, attribute.dtype)
            attribute.read(values)
            texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.reshape(-1)]
            if not texts:
                raise _UnclearError
            return texts[0] if len(texts) == 1 else texts
        if attribute.shape not in ((), (1,)) or attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            raise _UnclearError
        value = np.empty(attribute.shape, f"S{kind.get_size()}")
        attribute.read(value)
        return bytes(value.reshape(-1)[0]).decode("utf-8", "replace").replace("\0", "")
    if not isinstance(kind, (h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID)) or len(attribute.shape) > 1:
        raise _UnclearError
    if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
        raise _UnclearError
    array = np.empty(attribute.shape, attribute.dtype)
    attribute.read(array)
    array = array.astype(array.dtype.newbyteorder("="))
    return array.reshape(-1)[0] if array.size == 1 else array
