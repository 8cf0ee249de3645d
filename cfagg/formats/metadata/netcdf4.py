"""An open `netCDF4.Dataset` as the model: anything that the netCDF library has opened or has in memory.

The library would read values of other files to which an HDF5 file refers.  So the gate has to admit each variable, in
the file that the library actually has open, before values are requested.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.metadata.foreign import Foreign, value_of
from cfagg.formats.values.locks import LIBRARY
from cfagg.formats.values.netcdf import path_of
from cfagg.model.dataset import AttributeValue, Dataset, Dimension, Group, Kind, Variable
from cfagg.storage.files import Borrowed, Handle, open_regular
from cfagg.storage.gate import Checked, admit

__all__ = ["open_netcdf4"]

#: Formats that do not refer to other files: classic files, and data from a server.
_CLOSED = frozenset({"NETCDF3", "DAP2", "DAP4"})

_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}


def open_netcdf4(source: Any) -> Dataset:
    """Return the model of an open `netCDF4.Dataset`, or of one of its groups; it stays open and unchanged."""
    root = Group()
    with LIBRARY:
        whole = source
        while whole.parent is not None:
            whole = whole.parent
        name = whole.filepath() if whole.isopen() else "closed"
        gate = _Gate(whole, name)
        waiting = [(root, source)]
        while waiting:
            group, opened = waiting.pop()
            for dimension in opened.dimensions.values():
                group.add_dimension(dimension.name, len(dimension), unlimited=dimension.isunlimited())
            group.attributes = _attributes(opened)
            for variable in opened.variables.values():
                group.variables[variable.name] = _variable(group, variable, gate)
            waiting.extend(reversed([(group.child(n), g) for n, g in opened.groups.items()]))
    return Dataset(f"netCDF4.Dataset {name}", "netcdf", root)


class _Gate:
    """Admits the variables of a dataset that the netCDF library has opened by a name."""

    def __init__(self, source: Any, name: str) -> None:
        self._source, self._name = source, name
        self._files: list[Handle] | None = None

    def admit(self, variable: Any) -> Checked:
        """Admit a variable; the library lock is held."""
        path, own = path_of(variable), Borrowed(f"netCDF4.Dataset {self._name}")
        if self._source.disk_format in _CLOSED:
            return admit(own, path, ())
        if self._source.disk_format != "HDF5":
            return admit(own, path, None)
        if self._files is None:
            self._source.sync()
            self._files = _open_files(self._name)
        if not self._files:
            # The library itself writes no external references, but a file read into memory may have some.
            return admit(own, path, () if _is_writable(self._source) else None)
        from cfagg.formats.hdf5 import library_variables as hdf5

        for handle in self._files:
            admit(own, path, hdf5.references(handle, path))
        return admit(own, path, ())


def _open_files(name: str) -> list[Handle]:
    """Return handles of the files that this process has open under a name, including replaced and removed ones."""
    if not Path("/proc/self/fd").is_dir():
        # Elsewhere open files have no names, but this tells whether the file of this name is the one that is open.
        return [open_regular(name)] if _is_open(name) else []
    targets = {}
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            targets[number] = os.readlink(f"/proc/self/fd/{number}").removesuffix(" (deleted)")  # noqa: PTH115
    known = {str(Path(name).absolute()), os.path.realpath(name)}
    found = [number for number, target in targets.items() if target in known]
    if not found:
        # The working directory may have been different when the file was opened.
        found = [n for n, target in targets.items() if target.startswith("/") and Path(target).name == Path(name).name]
    return [open_regular(f"/proc/self/fd/{number}") for number in found]


def _is_open(name: str) -> bool:
    """Return whether this process has the file open that now has a name."""
    with suppress(OSError):
        wanted = Path(name).stat()
        for number in os.listdir("/dev/fd"):  # noqa: PTH208
            with suppress(OSError):
                if os.path.samestat(os.fstat(int(number)), wanted):
                    return True
    return False


def _is_writable(source: Any) -> bool:
    """Return whether the library allows changes to a dataset, without making any."""
    name = "cfagg"
    while name in source.ncattrs():
        name += "_"
    try:
        source.delncattr(name)
    except (RuntimeError, AttributeError) as error:
        return "read only" not in str(error)
    return True


def _variable(group: Group, variable: Any, gate: _Gate) -> Variable:
    dtype = variable.dtype
    kind: Kind = "string" if dtype is str else _KINDS.get(getattr(dtype, "kind", ""), "other")
    if any(getattr(variable, mark, False) for mark in ("_isenum", "_iscompound", "_isvlen")) and dtype is not str:
        kind = "other"
    stored = np.dtype(object) if kind in ("string", "other") else dtype.newbyteorder("=")
    if getattr(variable, "_isenum", False):
        stored = np.dtype(dtype.newbyteorder("=").str, metadata={"enum": dict(variable.datatype.enum_dict)})
    dimensions = tuple(_dimension(group, d) for d in variable.get_dims())
    found = Variable(variable.name, group, dimensions, stored, kind, _attributes(variable))

    def read(slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        with LIBRARY:
            gate.admit(variable)
            before = variable.mask, variable.scale, variable.chartostring
            variable.set_auto_maskandscale(False)
            variable.set_auto_chartostring(False)
            try:
                values = np.asarray(variable[slices or ...])
            except UnicodeDecodeError:
                values = _one_by_one(variable, slices)
            finally:
                variable.set_auto_mask(before[0])
                variable.set_auto_scale(before[1])
                variable.set_auto_chartostring(before[2])
        return values if slices else values.reshape(())

    found.read = read
    return found


def _one_by_one(variable: Any, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Return strings, and the bytes of those that are not UTF-8, of which the library gives none together."""
    kept = slices or (slice(None),) * variable.ndim
    places = [range(*one.indices(size)) for one, size in zip(kept, variable.shape, strict=True)]
    values = np.empty([len(p) for p in places], object)
    for at, place in zip(np.ndindex(values.shape), product(*places), strict=True):
        try:
            values[at] = variable[place]
        except UnicodeDecodeError as error:
            values[at] = error.object
    return values


def _dimension(group: Group, dimension: Any) -> Dimension:
    """Return the model's dimension; one from a group above the checked one is moved into it."""
    home = dimension.group().path
    for level in group.ancestors():
        known = level.dimensions.get(dimension.name)
        if known is not None and (level.path == home or known.size == len(dimension)):
            return known
    return group.add_dimension(dimension.name, len(dimension), unlimited=dimension.isunlimited())


def _attributes(owner: Any) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for name in owner.ncattrs():
        try:
            value = owner.getncattr(name)
        except (KeyError, ValueError, RuntimeError, AttributeError):
            found[name] = Foreign("a value of a user-defined type")
            continue
        if isinstance(value, str):
            found[name] = value.rstrip("\0")
        elif isinstance(value, bytes):
            found[name] = value_of(value)
        elif isinstance(value, list):
            found[name] = tuple(map(str, value))
        else:
            array = np.asarray(value).reshape(-1)
            plain = array.dtype.kind in "iuf"
            found[name] = array.astype(array.dtype.newbyteorder("=")) if plain else Foreign("a user-defined value")
    return found
