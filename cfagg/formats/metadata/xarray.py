"""xarray's objects as the file that `to_netcdf` would write, without writing or computing one.

Attributes that decoding has moved into `encoding` are restored, decoded times have units, and coordinates that are not
dimensions are named by ``coordinates``.  Values are encoded when a rule reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any

import numpy as np

from cfagg.formats.metadata.xarray_encoding import encoded_variables
from cfagg.model.dataset import AttributeValue, Dataset, Dimension, Group, Variable

__all__ = ["open_xarray"]


def open_xarray(source: Any) -> Dataset:
    """Return the model of an `xarray.Dataset`, `xarray.DataArray` or `xarray.DataTree`."""
    root = Group()
    kind = type(source).__name__
    if hasattr(source, "to_dataset") and hasattr(source, "subtree"):
        waiting = [(root, source)]
        while waiting:
            group, node = waiting.pop()
            _group(group, node.to_dataset(inherit=False))
            waiting.extend(reversed([(group.child(str(n)), c) for n, c in node.children.items()]))
    else:
        if hasattr(source, "_to_temp_dataset"):
            source = source.to_dataset(name=source.name if source.name is not None else "data")
        _group(root, source)
    place = getattr(source, "encoding", {}).get("source")
    named = f"xarray.{kind}" + (f" of {place}" if isinstance(place, str) else "")
    return Dataset(named, "xarray", root)


def _group(group: Group, dataset: Any) -> None:
    """Add the contents of an `xarray.Dataset` to a group."""
    unlimited = dataset.encoding.get("unlimited_dims") or ()
    unlimited = {unlimited} if isinstance(unlimited, str) else set(unlimited)
    dimensions: dict[Hashable, Dimension] = {}
    for name, size in dataset.sizes.items():
        known = group.parent.dimension(str(name)) if group.parent is not None else None
        if known is not None and known.size == size:
            dimensions[name] = known
        else:
            dimensions[name] = group.add_dimension(str(name), int(size), unlimited=name in unlimited or not size)
    variables, attributes = _with_coordinates(dataset)
    group.attributes = _attributes(attributes)
    for name, encoded in encoded_variables(variables).items():
        if encoded.characters is not None and encoded.dims[-1] not in dimensions:
            dimensions[encoded.dims[-1]] = group.add_dimension(*encoded.characters)
        spans = tuple(dimensions[d] for d in encoded.dims)
        found = Variable(str(name), group, spans, encoded.dtype, encoded.kind, _attributes(encoded.attributes))
        found.read = partial(encoded.read, path=found.path)
        group.variables[str(name)] = found


def _with_coordinates(dataset: Any) -> tuple[Mapping[Hashable, Any], Mapping[Hashable, Any]]:
    """Return the variables, with attributes that name their coordinates, and the attributes of the dataset."""
    from xarray.conventions import encode_dataset_coordinates

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            variables, attributes = encode_dataset_coordinates(dataset)
    except (ValueError, TypeError, AttributeError):
        # xarray would not write them, so they are checked unchanged.
        return dict(dataset.variables), dataset.attrs
    return variables, attributes


def _attributes(given: Mapping[Hashable, Any]) -> dict[str, AttributeValue]:
    # Libraries write `_FillValue` before all others.
    names = sorted(given, key=lambda name: name != "_FillValue")
    return {str(name): _value(given[name]) for name in names}


def _value(value: Any) -> AttributeValue:
    """Return an attribute as it would be written."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, bool | np.bool_) or value is None or isinstance(value, Mapping):
        other: object = value
        return other
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        ragged: object = value
        return ragged
    if array.dtype.kind in "iuf":
        return array.reshape(-1).astype(array.dtype.newbyteorder("="), copy=False)
    if array.size and array.dtype.kind in "UTO" and all(isinstance(v, str) for v in array.flat):
        # The netCDF library writes a list of one text as this text.
        return str(array.flat[0]) if array.size == 1 else tuple(map(str, array.flat))
    foreign: object = value
    return foreign
