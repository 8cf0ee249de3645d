"""An open `netCDF4.Dataset` as the model: whatever the netCDF library has opened or has in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.model import AttributeValue, Dataset, Dimension, Group, Kind, Variable
from cfagg.checking.sources.foreign import Foreign, value_of
from cfagg.readers.locks import LIBRARY

__all__ = ["open_netcdf4"]

_KINDS: dict[str, Kind] = {"i": "integer", "u": "integer", "f": "float", "S": "char"}


def open_netcdf4(source: Any) -> Dataset:
    """Return the model of an open `netCDF4.Dataset`; it stays open and as it is.

    Parameters
    ----------
    source : netCDF4.Dataset
        A dataset, or one of its groups, which is then taken for a dataset of its own.
    """
    root = Group()
    with LIBRARY:
        name = source.filepath() if source.isopen() else "closed"
        waiting = [(root, source)]
        while waiting:
            group, opened = waiting.pop()
            for dimension in opened.dimensions.values():
                group.add_dimension(dimension.name, len(dimension), unlimited=dimension.isunlimited())
            group.attributes = _attributes(opened)
            for variable in opened.variables.values():
                group.variables[variable.name] = _variable(group, variable)
            waiting.extend(reversed([(group.child(n), g) for n, g in opened.groups.items()]))
    return Dataset(f"netCDF4.Dataset {name}", "netcdf", root)


def _variable(group: Group, variable: Any) -> Variable:
    dtype = variable.dtype
    kind: Kind = "string" if dtype is str else _KINDS.get(getattr(dtype, "kind", ""), "other")
    if any(getattr(variable, mark, False) for mark in ("_isenum", "_iscompound", "_isvlen")) and dtype is not str:
        kind = "other"
    stored = np.dtype(object) if kind in ("string", "other") else dtype.newbyteorder("=")
    dimensions = tuple(_dimension(group, d) for d in variable.get_dims())
    found = Variable(variable.name, group, dimensions, stored, kind, _attributes(variable))

    def read(slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        with LIBRARY:
            before = variable.mask, variable.scale, variable.chartostring
            variable.set_auto_maskandscale(False)
            variable.set_auto_chartostring(False)
            try:
                values = np.asarray(variable[slices or ...])
            finally:
                variable.set_auto_mask(before[0])
                variable.set_auto_scale(before[1])
                variable.set_auto_chartostring(before[2])
        return values if slices else values.reshape(())

    found.read = read
    return found


def _dimension(group: Group, dimension: Any) -> Dimension:
    """Return the model's dimension; one of a group above that which is checked is taken into it."""
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
