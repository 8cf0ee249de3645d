"""NumPy indexing of a `Reader`: every key, with the shape and order that NumPy gives.

A reader accepts one slice, integer or list of indices per dimension, each applied independently.  In NumPy, several
lists in a key select single elements: these are read cell by cell, each cell once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.reader import Reader
from cfagg.display.sizes import count_text
from cfagg.errors import SelectionError

__all__ = ["outer", "read_like_numpy"]

Int64 = npt.NDArray[np.int64]


def read_like_numpy(reader: Reader, key: Any) -> Any:
    """Return the same as ``array[key]`` in NumPy: a scalar if all dimensions are indexed by integers."""
    given, dots = _expanded(key, reader.shape)
    entries = [e for e in given if e is not None]
    lists = [d for d, e in enumerate(entries) if isinstance(e, np.ndarray)]
    if not lists:
        found = reader.read(entries)
        place = tuple(None if e is None else slice(None) for e in given if not isinstance(e, int))
        # With an ellipsis, a result without dimensions stays an array, also of strings.
        found = found[(Ellipsis, *place)]
        return found[()] if not found.ndim and not _has_ellipsis(key) else found
    # Next to lists, NumPy treats integers as lists of one.
    advanced = [d for d, e in enumerate(entries) if not isinstance(e, slice)]
    try:
        index = np.broadcast_arrays(*(np.asarray(entries[d], np.int64) for d in advanced))
    except ValueError as error:
        shapes = [np.shape(entries[d]) for d in advanced]
        raise SelectionError(f"{reader.label}: indices of shapes {shapes} cannot be broadcast together") from error
    if len(lists) == 1:
        (axis,) = lists
        found = reader.read([e.reshape(-1) if isinstance(e, np.ndarray) else e for e in entries])
        found = np.moveaxis(found, axis - sum(isinstance(e, int) for e in entries[:axis]), 0)
    else:
        found = reader.points([e if isinstance(e, slice) else np.asarray(e, np.int64) for e in entries])
        return _arranged(found, given, index[0].ndim, dots)
    shape = index[0].shape
    found = found.reshape(shape + found.shape[1:])
    return _arranged(found, given, len(shape), dots)


def outer(reader: Reader, key: Any) -> npt.NDArray[Any]:
    """Return the selection of a slice, integer, mask or list of indices per dimension, applied independently."""
    entries = _expanded(key, reader.shape, masks=False)[0]
    if any(e is None for e in entries):
        raise SelectionError("oindex makes no new dimensions; leave out None in its key")
    return reader.read(entries)


def _arranged(found: npt.NDArray[Any], given: Sequence[Any], count: int, dots: int) -> npt.NDArray[Any]:
    """Return values that were read, with the `count` dimensions of lists first, as arranged by NumPy."""
    is_list = [not (e is None or isinstance(e, slice)) for e in given]
    rest = [e for e, listed in zip(given, is_list, strict=True) if not listed]
    found = found[(slice(None),) * count + tuple(None if e is None else slice(None) for e in rest)]
    first = is_list.index(True)
    last = len(is_list) - is_list[::-1].index(True)
    # An ellipsis separates lists even if it stands for no dimension.
    if all(is_list[first:last]) and not first < dots < last:
        found = np.moveaxis(found, range(count), range(first, first + count))
    return found


def _expanded(key: Any, shape: Sequence[int], *, masks: bool = True) -> tuple[list[Any], int]:
    """Return a slice, an integer or an array of integers per dimension, and `None` for each new one.

    Also return where an ellipsis was among them, 0 if there was none.

    With `masks`, a mask of several dimensions provides an entry for each; otherwise masks have one dimension.
    """
    given = list(key) if isinstance(key, tuple) else [key]
    entries: list[Any] = []
    for entry in given:
        entries += _entries(entry, masks)
    missing = len(shape) - sum(e is not None and e is not Ellipsis for e in entries)
    dots = [k for k, e in enumerate(entries) if e is Ellipsis]
    if missing < 0 or len(dots) > 1:
        said = "more than one ellipsis" if len(dots) > 1 else f"{len(shape) - missing} indices"
        raise SelectionError(f"the array has {count_text(len(shape), 'dimension')}; found {said}")
    at = dots[0] if dots else len(entries)
    entries[at : at + len(dots)] = [slice(None)] * missing
    d = 0
    for k, entry in enumerate(entries):
        if entry is None:
            continue
        if isinstance(entry, _Mask):
            if entry.size != shape[d]:
                raise SelectionError(f"dimension {d}: a mask of {entry.size} elements, expected {shape[d]}")
            entries[k] = entry.places
        d += 1
    return entries, at if dots else 0


class _Mask:
    """The indices at which one dimension of a mask is true; `size` is that of the dimension."""

    __slots__ = ("places", "size")

    def __init__(self, places: Int64, size: int) -> None:
        self.places, self.size = places, size


def _entries(entry: Any, masks: bool) -> list[Any]:
    """Return the normalised form of one entry of a key, for a mask an entry per dimension."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return [entry]
    if hasattr(entry, "__index__") and not np.ndim(entry) and np.asarray(entry).dtype != bool:
        return [operator.index(entry)]
    array = np.asarray(entry)
    if array.dtype == bool and array.ndim and (masks or array.ndim == 1):
        return [_Mask(i, n) for i, n in zip(np.nonzero(array), array.shape, strict=True)]
    if not array.size and not isinstance(entry, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or (not masks and array.ndim > 1):
        raise SelectionError(f"an array cannot be indexed by {entry!r}; give slices, integers, lists of them or masks")
    places = array.astype(np.int64)
    if array.dtype.kind == "u" and (places < 0).any():
        # NumPy would count these from the end.
        raise SelectionError(f"index {array.max()} is too large for any dimension")
    return [places]


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(e is Ellipsis for e in key))
