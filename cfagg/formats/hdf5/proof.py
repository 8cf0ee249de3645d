"""Proof that objects and attributes of HDF5 files are sound before the HDF5 library reads them.

The HDF5 library only reads types and shapes of attributes, whose structures it checks itself; the positions of values
are compared by `cfagg.formats.hdf5.sound`.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import h5py

from cfagg.formats.hdf5.bytes import HandleBytes
from cfagg.formats.hdf5.library import address_of
from cfagg.formats.hdf5.messages import Layout
from cfagg.formats.hdf5.sound import Sound
from cfagg.formats.hdf5.space import BrokenError, UnsoundError
from cfagg.storage.files import Handle

__all__ = ["prove", "prove_file", "prove_index", "sound_of"]


_known: WeakKeyDictionary[Handle, Sound] = WeakKeyDictionary()


def prove_file(handle: Handle, file: Any) -> None:
    """Check all objects of a file before the library visits them; the library lock is held."""
    # The library crashes on inconsistent groups, heaps and trees with correct checksums.
    try:
        sound_of(handle, file).check()
    except BrokenError as error:
        raise UnsoundError("the structures of its groups and attributes contradict each other") from error


def prove_index(handle: Handle, file: Any, dataset: Any) -> Layout | None:
    """Check the index of a dataset's chunks before the library uses it; return its layout.  The lock is held."""
    try:
        return sound_of(handle, file).index(address_of(dataset))
    except BrokenError as error:
        raise UnsoundError("its index of chunks is damaged") from error


def sound_of(handle: Handle, file: Any) -> Sound:
    """Return the checker of the objects of a file; the library lock is held."""
    sound = _known.get(handle)
    if sound is None:
        begin = int(file.get_create_plist().get_userblock())
        sound = _known[handle] = Sound(HandleBytes(handle, begin))
    return sound


def prove(handle: Handle, file: Any, owner: Any) -> None:
    """Compare the attributes of an object that the library has open with its file; the library lock is held."""
    doubtful = sound_of(handle, file).unproven(address_of(owner))
    if doubtful is None or doubtful:
        names: list[bytes] = []
        h5py.h5a.iterate(owner, names.append)
        for name in names:
            if (doubtful is None or name in doubtful) and _varies(h5py.h5a.open(owner, name).get_type()):
                shown = name.decode("utf-8", "replace")
                raise UnsoundError(f"attribute {shown!r} has values that are not where the file says")


def _varies(kind: Any) -> bool:
    """Return whether values of a type have a variable length, or contain such values."""
    if isinstance(kind, h5py.h5t.TypeVlenID):
        return True
    if isinstance(kind, h5py.h5t.TypeStringID):
        return bool(kind.is_variable_str())
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return _varies(kind.get_super())
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(_varies(kind.get_member_type(i)) for i in range(kind.get_nmembers()))
    return False
