"""Choosing the reader for a file, and remembering the headers of the files used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from cfagg.cf.header import Header
from cfagg.readers import netcdf
from cfagg.readers.files import Context, FileKey, look
from cfagg.readers.located import Library, Located

__all__ = ["locate", "read"]

#: Headers remembered, each some kilobytes.
REMEMBERED = 2048

_lock = threading.Lock()
_seen: OrderedDict[tuple[FileKey, str, str], Located] = OrderedDict()


def locate(path: str, address: str, context: Context, group: str = "/") -> Located:
    """Find a variable in a file, without reading values.

    Parameters
    ----------
    path : str
        Absolute path of a file that may be read.
    address : str
        Name or path of the variable.
    context : Context
        For whom, for messages.
    group : str
        Group from which a plain name is searched, upwards.

    Raises
    ------
    CfaggError
        ``context.missing`` where file or variable are not there; ``context.broken`` where the file cannot be read.
    """
    key = look(path, context)
    with _lock:
        found = _seen.get((key, address, group))
        if found is not None:
            _seen.move_to_end((key, address, group))
            return found
    found = _find(key, address, context, group)
    with _lock:
        _seen[key, address, group] = found
        while len(_seen) > REMEMBERED:
            _seen.popitem(last=False)
    return found


def read(located: Located, slices: Sequence[slice], context: Context) -> npt.NDArray[Any]:
    """Read a hyperslab of stored values, in native byte order and undecoded.

    Parameters
    ----------
    located : Located
        From `locate`.
    slices : sequence of slice
        One per dimension with 0 <= start <= stop <= size and a positive step.
    context : Context
        For whom, for messages.
    """
    return netcdf.read(located.key.path, located.address, slices, context, located.group)


def _find(key: FileKey, address: str, context: Context, group: str) -> Located:
    with netcdf.opened(key.path, context) as dataset:
        variable = netcdf.lookup(dataset, address, group)
        if variable is None:
            raise context.missing(
                context.said(f"{key.path} has no variable {address!r}; its variables are: {_names(dataset.variables)}")
            )
        header = Header(
            key.path,
            address,
            tuple(variable.dimensions),
            tuple(variable.shape),
            netcdf.dtype_of(variable),
            netcdf.attributes_of(variable),
        )
        chunking = None if dataset.data_model.startswith("NETCDF3") else variable.chunking()
    chunks = tuple(map(int, chunking)) if isinstance(chunking, list) and chunking else None
    return Located(key, address, group, header, Library(chunks))


def _names(names: object) -> str:
    """Return the first names of a file, for messages."""
    listed = sorted(str(n) for n in names)  # type: ignore[attr-defined]
    return ", ".join(listed[:20]) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "") or "none"
