"""Appended data as a dataset: an xarray dataset, or arrays by name with the dimensions of the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import ConformError, OptionError
from cfagg.errors.arguments import a_mapping
from cfagg.writing.zarr.group_state import GroupState

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["dataset_of"]


def dataset_of(data: Any, state: GroupState) -> tuple[xr.Dataset, frozenset[str]]:
    """Return data as a dataset, and the names of variables that are plain values without describing attributes."""
    import xarray as xr

    if list(state.nodes) == [""]:
        data = _of_one_array(data, state.place.store)
    found, plain = data, frozenset[str]()
    if isinstance(data, xr.DataArray):
        if data.name is None:
            raise OptionError("data: the DataArray has no name; name it as the array of the store")
        found = data.to_dataset()
    elif not isinstance(data, xr.Dataset):
        if not isinstance(data, Mapping):
            kind = type(data).__name__
            raise OptionError(
                f"data: found an object of type {kind}; give a path, an xarray Dataset, or arrays by name"
            )
        variables = {str(name): _variable(str(name), given, state) for name, given in data.items()}
        if len(variables) < len(data):
            raise OptionError("data: two variables have one name; give one of them another")
        plain = frozenset(name for name, variable in variables.items() if not variable.attrs)
        try:
            found = xr.Dataset(variables)
        except ValueError as error:
            raise ConformError(f"data: {error}") from error
    for name, variable in found.variables.items():
        if any(math.isnan(n) for sizes in variable.chunks or () for n in sizes):
            raise OptionError(
                f"data[{str(name)!r}] has chunks of unknown lengths; find them with array.compute_chunk_sizes()"
            )
    return found, plain


def _of_one_array(data: Any, store: str) -> Any:
    """Return data for a store that consists of a single array, which has no name."""
    import xarray as xr

    if isinstance(data, xr.DataArray):
        return data.rename("")
    names = list(data.data_vars if isinstance(data, xr.Dataset) else data) if hasattr(data, "keys") else []
    if len(names) != 1:
        raise OptionError(f"{store} is a single array; give one array to append to it")
    return data.rename({names[0]: ""}) if isinstance(data, xr.Dataset) else {"": data[names[0]]}


def _variable(name: str, given: Any, state: GroupState) -> xr.Variable:
    """Return an array, which may be given with its dimensions and attributes, as a variable."""
    import xarray as xr

    if isinstance(given, xr.DataArray | xr.Variable):
        return given.variable if isinstance(given, xr.DataArray) else given
    node = state.nodes.get(name)
    if node is None:
        raise OptionError(f"{state.place.store} has no array {name!r}; it has {', '.join(sorted(state.nodes))}")
    where, dims, attributes = f"data[{name!r}]", node.dims, {}
    if isinstance(given, tuple) and len(given) in (2, 3) and _is_named(given[0]):
        dims = (given[0],) if isinstance(given[0], str) else tuple(given[0])
        attributes = a_mapping(given[2] if len(given) == 3 else {}, where, "attributes by name")
        given = given[1]
    values = _unmasked(given, where) if isinstance(given, np.ma.MaskedArray) else _array(given, where)
    if len(dims) != len(values.shape):
        raise ConformError(f"{where} has {len(values.shape)} dimensions, expected those of the store: {node.dims}")
    try:
        return xr.Variable(dims, values, attributes)
    except ValueError as error:
        raise ConformError(f"{where}: {error}") from error


def _is_named(first: Any) -> bool:
    """Whether a tuple beginning with this contains dimensions and values, rather than values only."""
    return isinstance(first, str) or (isinstance(first, tuple | list) and all(isinstance(name, str) for name in first))


def _array(given: Any, where: str) -> Any:
    """Return an array of any library unchanged, and anything else as a NumPy array."""
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return given
    try:
        return np.asarray(given)
    except ValueError as error:
        raise ConformError(f"{where} is not an array: {error}; give one, or (dims, array)") from error


def _unmasked(given: Any, where: str) -> Any:
    """Return a masked array as floating-point numbers, with NaN where it is masked."""
    wide = given.dtype.kind in "iu" and given.dtype.itemsize == 8
    if given.dtype.kind not in "biuf" or (wide and (np.abs(given.compressed()) >= 2**53).any()):
        raise OptionError(f"{where}: a masked array of {given.dtype}, which has no NaN; give a DataArray")
    return given.astype("f8" if given.dtype.itemsize > 2 or given.dtype.kind == "f" else "f4").filled(np.nan)
