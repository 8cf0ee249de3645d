"""Choosing the reader for a file, and caching the headers of recently used files."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.errors import AccessError, FragmentReadError, SourceError, SourceNotFoundError, UnsupportedError
from cfagg.formats.codecs import check_chunk
from cfagg.formats.hdf5 import MAGIC, attributes, head, headers, variables
from cfagg.formats.opening import built_in
from cfagg.formats.values import netcdf, reading
from cfagg.formats.values.by_table import Part
from cfagg.formats.values.storage import Library, StoredVariable, no_variable
from cfagg.storage.files import Context, FileKey, Handle
from cfagg.storage.gate import Checked, admit
from cfagg.storage.handles import handles
from cfagg.storage.locks import forkable

__all__ = ["HEAD", "forget", "is_only_a_dimension", "locate", "located", "read", "scan"]

#: Cached headers, each some kilobytes.
REMEMBERED = 2048

#: Bytes at the start of a file that are read at once: most headers of netCDF-4 files are there.
HEAD = 2**14

_lock = forkable()
_seen: OrderedDict[tuple[FileKey, str, str], StoredVariable] = OrderedDict()


def locate(
    path: str, address: str, context: Context, group: str = "/", judge: Callable[[str], None] | None = None
) -> StoredVariable:
    """Find a variable in a file; a plain name is searched from `group` upwards."""
    # `judge` raises an error if the opened file, given by its path without symbolic links, may not be read.
    handle = handles.get(path, context)
    if judge is not None:
        judge(handle.real)
    key = handle.key
    with _lock:
        found = _seen.get((key, address, group))
        if found is not None:
            _seen.move_to_end((key, address, group))
            return found
    found = _find(handle, address, context, group)
    with _lock:
        _seen[key, address, group] = found
        while len(_seen) > REMEMBERED:
            _seen.popitem(last=False)
    return found


def located(handle: Handle, address: str, context: Context) -> StoredVariable:
    """Find a variable in an open file, without caching it."""
    return _find(handle, address, context, "/")


def is_only_a_dimension(key: FileKey, name: str, context: Context) -> bool:
    """Return whether a name in a file's root group is known, without a library, to have no variable."""
    handle = handles.of(key, context)
    start = handle.some(HEAD, 0, context)
    return start.startswith(MAGIC) and variables.is_only_a_dimension(handle, start, name)


def forget() -> None:
    """Forget all headers, as in a new process."""
    with _lock:
        _seen.clear()
    head.forget()
    headers.forget()
    attributes.forget()


def read(variable: StoredVariable, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, undecoded and in native byte order; steps are positive."""
    checked = check(variable, context)
    if reading.is_own(variable):
        return reading.read(checked, variable, slices, context)
    if variable.chunks:
        # The library allocates memory for a whole chunk.
        nbytes = math.prod(variable.chunks) * variable.header.dtype.itemsize
        check_chunk(nbytes, context.said(f"a chunk of {variable.address!r} in {variable.key.path}"))
    if checked.handle.data is not None:
        from cfagg.formats.values import described

        return described.read(checked, slices, context)
    if isinstance(variable.storage, Library) and variable.storage.texts:
        from cfagg.formats.values import described

        return described.read_texts(checked, slices, context)
    # The netCDF library supports some of the other filters, depending on its build.
    return _by_name(netcdf.read(checked, slices, context), variable.header.dtype)


def _by_name(block: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return compounds with their members in the order in which they were described."""
    # The netCDF library orders members by their offsets while someone else reads the file, and NumPy assigns by place.
    dtype = np.dtype(dtype).base
    if dtype.names is None or block.dtype == dtype:
        return block
    found = np.empty(block.shape, dtype)
    for name in dtype.names:
        found[name] = _by_name(block[name], dtype[name])
    return found


def check(variable: StoredVariable, context: Context) -> Checked:
    """Return the proof that values of a variable may be read; its file is opened again if it is closed."""
    return admit(handles.of(variable.key, context), variable.path, variable.references, context)


def scan(variable: StoredVariable, slices: Sequence[slice], context: Context) -> Iterable[Part]:
    """Return a hyperslab in parts as they are decoded, each with its place; a part is overwritten by the next."""
    if reading.is_own(variable):
        return reading.scan(check(variable, context), variable, slices, context)
    block = read(variable, slices, context)
    return ((tuple(slice(0, n) for n in block.shape), block),)


def _find(handle: Handle, address: str, context: Context, group: str) -> StoredVariable:
    start = handle.some(HEAD, 0, context)
    form = built_in(handle, context, start)
    # Equivalent to `isinstance(form, Locating)`, which takes longer than finding the variable.
    locate = getattr(form, "locate", None)
    found: StoredVariable | None = None if locate is None else locate(handle, start, address, group, context)
    return found if found is not None else _by_library(handle, address, context, group)


def _by_library(handle: Handle, address: str, context: Context, group: str) -> StoredVariable:
    """Return a variable that only the netCDF library understands; everything that it would read has been checked."""
    if handle.data is not None:
        from cfagg.formats.values import described

        known = described.find(handle, address, context, group)
        if isinstance(known, list):
            raise no_variable(handle, address, known, context)
        return known
    try:
        return _described(handle, address, context, group)
    except SourceNotFoundError:  # there is no such variable
        raise
    except (AccessError, UnsupportedError, SourceError, FragmentReadError) as error:
        from cfagg.formats.hdf5 import library_variables as hdf5
        from cfagg.formats.hdf5.untyped import failing

        refused = isinstance(error, AccessError | UnsupportedError)  # perhaps because of another object of the file
        stuck = {} if refused else failing(handle)
        if not stuck and not refused:
            raise
        if why := stuck.get(f"/{address.strip('/')}"):
            raise _unreadable(handle, address, why, context) from error
        found = hdf5.find(handle, address, context, group, alone=True)
        if found is None:
            raise
        return found


def _refuse_untyped(handle: Handle, dataset: Any, address: str, context: Context) -> None:
    """Raise an error for a variable that is in a file, but in none of the types of the netCDF library."""
    from cfagg.formats.hdf5.untyped import untyped

    where, _, name = address.strip("/").rpartition("/")
    group = netcdf.subgroup(dataset, where) if dataset.disk_format == "HDF5" else None
    if group is not None and (why := untyped(handle, group.path, group.variables, group.dimensions).get(name)):
        raise _unreadable(handle, address, why, context)


def _unreadable(handle: Handle, address: str, why: str, context: Context) -> UnsupportedError:
    remedy = f"or leave it out with drop_variables={[address.rpartition('/')[2]]!r}"
    return UnsupportedError(context.said(f"variable {address!r} of {handle.key.path} cannot be read: {why}, {remedy}"))


def _described(handle: Handle, address: str, context: Context, group: str) -> StoredVariable:
    """Return a variable as described by the netCDF library."""
    from cfagg.formats.hdf5 import library_variables as hdf5

    with netcdf.opened_handle(handle, context) as dataset:
        variable = netcdf.lookup(dataset, address, group)
        if variable is None:
            _refuse_untyped(handle, dataset, address, context)
            raise no_variable(handle, address, dataset.variables, context)
        header = Header(
            handle.key.path,
            address,
            tuple(variable.dimensions),
            tuple(variable.shape),
            netcdf.dtype_of(variable),
            netcdf.attributes_of(variable),
        )
        chunking = variable.chunking()
        path = netcdf.path_of(variable)
    references = hdf5.references(handle, path)
    admit(handle, path, references, context)
    found = hdf5.stored(handle, path, header.shape, header.dtype, context)
    if found is not None:
        return StoredVariable(handle.key, address, group, header, found[1], found[0], ())
    chunks = tuple(map(int, chunking)) if isinstance(chunking, list) and chunking else None
    return StoredVariable(handle.key, address, group, header, Library(chunks), path, references)
