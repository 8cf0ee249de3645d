"""xarray's objects as the file that `to_netcdf` would write of them, without writing or computing one.

Attributes that decoding has moved into `encoding` stand at their places again, decoded times have units, and
coordinates that are no dimensions are named by ``coordinates``.  Values are encoded when a rule reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.model import AttributeValue, Dataset, Dimension, Group, Kind, Variable
from cfagg.errors import FragmentReadError

__all__ = ["open_xarray"]

#: What decoding moves out of the attributes.
_MOVED = (
    "_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned", "units", "calendar", "coordinates",
    "bounds", "grid_mapping", "ancillary_variables", "cell_measures", "formula_terms", "geometry", "node_coordinates",
    "node_count", "part_node_count", "interior_ring", "climatology",
)  # fmt: skip

#: These hold a number in the type of the stored values.
_IN_TYPE = ("_FillValue", "missing_value")

#: Times are encoded to find units for them, up to so many.
_TIMES = 1 << 22


def open_xarray(source: Any) -> Dataset:
    """Return the model of an `xarray.Dataset`, `xarray.DataArray` or `xarray.DataTree`."""
    root = Group()
    kind = type(source).__name__
    held: list[Any] = []
    if hasattr(source, "to_dataset") and hasattr(source, "subtree"):
        waiting = [(root, source)]
        while waiting:
            group, node = waiting.pop()
            held.append(node.to_dataset(inherit=False))
            _group(group, held[-1])
            waiting.extend(reversed([(group.child(str(n)), c) for n, c in node.children.items()]))
    else:
        if hasattr(source, "_to_temp_dataset"):
            source = source.to_dataset(name=source.name if source.name is not None else "data")
        held.append(source)
        _group(root, source)
    place = getattr(source, "encoding", {}).get("source")
    named = f"xarray.{kind}" + (f" of {place}" if isinstance(place, str) else "")
    dataset = Dataset(named, "xarray", root)
    dataset.typed = _typed(held)
    return dataset


def _typed(held: list[Any]) -> bool:
    """Return whether the types of attributes are known: numbers of Python have no width, those of NumPy do."""
    values = [a for d in held for v in (d, *d.variables.values()) for a in v.attrs.values()]
    if any(isinstance(a, np.generic | np.ndarray) and a.dtype.kind in "iuf" for a in values):
        return True
    return not any(isinstance(a, int | float) or (isinstance(a, list | tuple) and a) for a in values)


def _group(group: Group, dataset: Any) -> None:
    """Add what an `xarray.Dataset` holds to a group."""
    group.attributes = _attributes(dataset.attrs)
    unlimited = dataset.encoding.get("unlimited_dims") or ()
    unlimited = {unlimited} if isinstance(unlimited, str) else set(unlimited)
    dimensions: dict[Hashable, Dimension] = {}
    for name, size in dataset.sizes.items():
        known = group.parent.dimension(str(name)) if group.parent is not None else None
        if known is not None and known.size == size:
            dimensions[name] = known
        else:
            dimensions[name] = group.add_dimension(str(name), int(size), unlimited=name in unlimited)
    for name, variable in _with_coordinates(dataset).items():
        spans = tuple(dimensions[d] for d in variable.dims)
        group.variables[str(name)] = _variable(group, str(name), variable, spans)


def _with_coordinates(dataset: Any) -> Mapping[Hashable, Any]:
    """Return the variables with attributes that name their coordinates."""
    from xarray.conventions import encode_dataset_coordinates

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            variables: Mapping[Hashable, Any] = encode_dataset_coordinates(dataset)[0]
    except (ValueError, TypeError, AttributeError):
        # It would not let them be written; checked they are as they stand.
        return dict(dataset.variables)
    return variables


def _variable(group: Group, name: str, variable: Any, dimensions: tuple[Dimension, ...]) -> Variable:
    if _is_time(variable):
        variable = _with_units(variable, name)
    encoding = variable.encoding
    dtype, kind = _stored(variable)
    attributes = _attributes(variable.attrs)
    for key in _MOVED:
        value = encoding.get(key)
        if value is not None and key not in attributes:
            attributes[key] = _value(value)
            if key in _IN_TYPE:
                attributes[key] = _in_type(attributes[key], dtype)
    if "dtype" not in attributes and variable.dtype == bool:
        attributes["dtype"] = "bool"
    found = Variable(name, group, dimensions, dtype, kind, attributes)
    found.read = _Values(variable, found)
    return found


def _is_time(variable: Any) -> bool:
    """Whether the values are dates or durations that have been decoded."""
    if variable.dtype.kind in "mM":
        return True
    if variable.dtype != object:
        return False
    if "units" in variable.encoding:
        return True
    first = _first(variable)
    return hasattr(first, "timetuple") and hasattr(first, "calendar")


def _first(variable: Any) -> Any:
    """Return the first value of a variable in memory, `None` where there is none."""
    if variable.size == 0 or getattr(variable, "chunks", None) is not None:
        return None
    return np.asarray(variable[(0,) * variable.ndim].values).item() if variable.ndim else variable.values.item()


def _with_units(variable: Any, name: str) -> Any:
    """Return a variable of times whose encoding tells units, calendar and type."""
    from xarray import Variable as XarrayVariable
    from xarray.conventions import encode_cf_variable

    encoding = dict(variable.encoding)
    if variable.size > _TIMES and not {"units", "dtype"} <= encoding.keys():
        encoding.setdefault("units", "seconds since 1970-01-01" if variable.dtype.kind == "M" else "seconds")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = XarrayVariable(variable.dims, variable._data, dict(variable.attrs), encoding, fastpath=True)
            encoded = encode_cf_variable(part, name=name)
    except (ValueError, TypeError, OverflowError, AttributeError):
        return variable
    found = variable.copy(deep=False)
    found.attrs = dict(variable.attrs)
    found.encoding = encoding | {"dtype": encoded.dtype}
    for key in ("units", "calendar"):
        if key in encoded.attrs and key not in found.attrs:
            # As it was written, where a file was read: xarray puts it in its own words.
            found.encoding.setdefault(key, encoded.attrs[key])
    return found


def _stored(variable: Any) -> tuple[np.dtype[Any], Kind]:
    """Return the type that the values would be stored in."""
    given = variable.encoding.get("dtype", variable.dtype)
    if given is str:
        return np.dtype(object), "string"
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = np.dtype(variable.dtype)
    if dtype.kind == "b":
        return np.dtype("i1"), "integer"
    if dtype.kind in "iu":
        return dtype.newbyteorder("="), "integer"
    if dtype.kind == "f":
        return dtype.newbyteorder("="), "float"
    if dtype == np.dtype("S1") and variable.dtype == np.dtype("S1"):
        return np.dtype("S1"), "char"
    if dtype.kind in "USTO":
        first = _first(variable) if dtype.kind == "O" else ""
        return np.dtype(object), "string" if first is None or isinstance(first, str | bytes) else "other"
    return np.dtype(object), "other"


def _in_type(value: AttributeValue, dtype: np.dtype[Any]) -> AttributeValue:
    """Return a missing value in the type of the stored values, as it is written."""
    if isinstance(value, np.ndarray) and dtype.kind in "iuf" and value.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype)
    return value


def _attributes(given: Mapping[Hashable, Any]) -> dict[str, AttributeValue]:
    return {str(name): _value(value) for name, value in given.items()}


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
        return tuple(map(str, array.flat))
    foreign: object = value
    return foreign


class _Values:
    """Reads hyperslabs of one variable as they would be stored."""

    def __init__(self, variable: Any, found: Variable) -> None:
        self.variable, self.path, self.dtype, self.kind = variable, found.path, found.dtype, found.kind

    def __call__(self, slices: tuple[slice, ...]) -> npt.NDArray[Any]:
        try:
            part = self.variable[slices]
            if part.dtype.kind in "mMO" and self.kind in ("integer", "float"):
                part = _with_times(part, self.variable.encoding)
            values = np.asarray(part.values)
        except Exception as error:  # lazy arrays raise whatever their makers like
            raise FragmentReadError(
                f"values of {self.path!r} cannot be read or encoded: {type(error).__name__}: {str(error)[:300]}"
            ) from error
        if self.kind in ("integer", "float"):
            return _packed(values, self.variable.encoding, self.dtype)
        return values if values.dtype == np.dtype("S1") else values.astype(object)


def _with_times(part: Any, encoding: Mapping[str, Any]) -> Any:
    """Return decoded times as numbers."""
    from xarray.conventions import encode_cf_variable

    part = part.copy(deep=False)
    part.encoding = {k: encoding[k] for k in ("units", "calendar", "dtype") if k in encoding}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encode_cf_variable(part, name=None)


def _packed(values: npt.NDArray[Any], encoding: Mapping[str, Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return decoded numbers as they are stored: packed, with missing values in place of NaN."""
    scale, offset = encoding.get("scale_factor"), encoding.get("add_offset")
    fill = encoding.get("_FillValue", encoding.get("missing_value"))
    missing = np.isnan(values) if values.dtype.kind == "f" else None
    if scale is not None or offset is not None:
        values = (values.astype("f8") - (0 if offset is None else offset)) / (1 if scale is None else scale)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and values.dtype.kind == "f":
            values = np.rint(np.nan_to_num(values))
        values = values.astype(dtype)
        if missing is not None and fill is not None and missing.any():
            values[missing] = np.asarray(fill).reshape(-1)[0]
    return values
