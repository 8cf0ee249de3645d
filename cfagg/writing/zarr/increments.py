"""Data to append: variables of a dataset, or arrays by name, each matched with the growing array of the store.

All errors in them are found before anything is written, except values that an array cannot represent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cfagg.arrays.chunked import ZarrReader
from cfagg.cf.calendars import transform
from cfagg.cf.units import SAME
from cfagg.errors import CfaggError, ConformError, OptionError, UnsupportedError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import jsonable
from cfagg.formats.zarr.fallback import open_by_zarr, store_of
from cfagg.formats.zarr.fields import data_type
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.writing.zarr.given import dataset_of
from cfagg.writing.zarr.group_state import GroupState, Node
from cfagg.writing.zarr.session_place import SessionPlace
from cfagg.writing.zarr.stored_form import DECODING, Form, form_of, storing
from cfagg.writing.zarr.text import TEXT, text_type

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Increment", "increment_of", "stored_array"]

#: Attributes that define the meaning of values: different ones are refused, whatever losses are accepted.
_MEANING = frozenset(
    {
        "axis", "bounds", "cell_methods", "climatology", "flag_masks", "flag_meanings", "flag_values", "formula_terms",
        "grid_mapping", "positive", "standard_name", "valid_max", "valid_min", "valid_range",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Increment:
    """The data to append to the arrays of a group, by name, each as a function of a range along the dimension."""

    count: int
    values: Mapping[str, Callable[[int, int], npt.NDArray[Any]]]
    losses: tuple[Loss, ...]
    #: The stored values of the dimension's coordinate, or `None` if there is none.
    coordinate: npt.NDArray[Any] | None


def increment_of(data: Any, state: GroupState, dim: str, growing: Mapping[str, Node]) -> Increment:
    """Return the data to append along a dimension to the growing arrays, all of which must be included."""
    dataset, plain = dataset_of(data, state)
    store = state.place.store
    missing = sorted(set(growing) - set(map(str, dataset.variables)))
    if missing:
        raise OptionError(
            f"{store}: {', '.join(map(repr, missing))} {'grow' if len(missing) > 1 else 'grows'} along {dim!r} too, "
            "but the appended data lack them; append all variables along a dimension in one call"
        )
    if dim not in dataset.sizes:
        why = f"its dimensions are {', '.join(map(repr, dataset.sizes)) or 'none'}"
        if dim in dataset.variables:
            why = f"{dim!r} is a single value there: give it the dimension with expand_dims({dim!r})"
        raise OptionError(f"the appended data have no dimension {dim!r}; {why}")
    count = int(dataset.sizes[dim])
    losses: list[Loss] = []
    values = {}
    for name, variable in dataset.variables.items():
        node = growing.get(str(name))
        if node is not None:
            is_plain = str(name) in plain
            given = variable if is_plain else _with_units(str(name), variable, dataset)
            values[str(name)] = _part(given, node, state, dim, growing, losses, plain=is_plain)
        elif str(name) in state.nodes:
            _check_equal(variable, state.nodes[str(name)], state, dim, losses, plain=name in plain)
        else:
            losses.append(
                _loss(str(name), "the variable", f"dimensions {variable.dims}", "the store has no such array")
            )
    _compare_group(dataset.attrs, state, losses)
    coordinate = None
    if dim in growing and len(growing[dim].shape) == 1:
        coordinate = values[dim](0, count)
        values[dim] = _held(coordinate)
    return Increment(count, values, tuple(losses), coordinate)


def _with_units(name: str, variable: xr.Variable, dataset: xr.Dataset) -> xr.Variable:
    """Return bounds without units with those of their coordinate, as CF defines."""
    if "units" in variable.attrs or variable.dtype.kind in "MmO":
        return variable
    for one in dataset.variables.values():
        known = {**one.encoding, **one.attrs}
        if name in (known.get("bounds"), known.get("climatology")) and "units" in one.attrs:
            found = {key: one.attrs[key] for key in ("units", "calendar") if key in one.attrs}
            return variable._replace(attrs={**variable.attrs, **found})
    return variable


def _held(values: npt.NDArray[Any]) -> Callable[[int, int], npt.NDArray[Any]]:
    return lambda low, high: values[low:high]


def _part(
    variable: xr.Variable,
    node: Node,
    state: GroupState,
    dim: str,
    growing: Mapping[str, Node],
    losses: list[Loss],
    *,
    plain: bool,
) -> Callable[[int, int], npt.NDArray[Any]]:
    """Return the values of a variable in the form stored by its array, by ranges along the dimension."""
    where = f"{state.place.store}: variable {node.name!r}"
    if set(variable.dims) != set(node.dims) or len(variable.dims) != len(node.dims):
        raise ConformError(f"{where} has dimensions {tuple(variable.dims)}, expected {node.dims}")
    axis = node.dims.index(dim)
    turned = variable.transpose(*node.dims)
    for d, n in enumerate(node.shape):
        if d != axis and turned.shape[d] != n:
            raise ConformError(f"{where} has {turned.shape[d]} elements along {node.dims[d]!r}, expected {n}")
    target = _form_of_node(node, state, growing)
    is_converted = node.name in (dim, *_bounds_of(growing.get(dim))) or target.is_time
    source, is_stored = _form_of_variable(turned, target, where, plain=plain, is_converted=is_converted)
    _compare(variable.attrs, node, losses, where)
    convert = storing(source, is_stored, target, where)

    def values(low: int, high: int) -> npt.NDArray[Any]:
        cut = turned[(slice(None),) * axis + (slice(low, high),)]
        return convert(np.asarray(cut.values))

    return values


def _form_of_node(node: Node, state: GroupState, growing: Mapping[str, Node]) -> Form:
    """Return the stored form of an array; bounds have the units of their coordinate."""
    where = f"{state.place.store}: array {node.path!r}"
    key = "data_type" if state.zarr_format == 3 else "dtype"
    text = text_type(node.document, state.zarr_format, where)
    if text is not None:
        own = node.attributes
        fills = tuple(own[name] for name in ("_FillValue", "missing_value") if name in own)
        return Form(text, fills=fills, units=str(own["units"]) if "units" in own else None)
    dtype = data_type(node.document.get(key), state.zarr_format, where)
    # Zarr v2 has no other place for it; zarr-python writes 0 if none was given.
    fill = (node.document.get("fill_value") or None) if ".zarray" in node.documents else None
    attributes = dict(node.attributes)
    if "units" not in attributes:
        parents = [n for n in growing.values() if node.name in _bounds_of(n)]
        for name in ("units", "calendar"):
            if parents and name in parents[0].attributes:
                attributes[name] = parents[0].attributes[name]
    return form_of(attributes, dtype, where, fill)


def _bounds_of(node: Node | None) -> tuple[Any, ...]:
    """Return the names of the bounds of a coordinate."""
    return () if node is None else (node.attributes.get("bounds"), node.attributes.get("climatology"))


def _form_of_variable(
    variable: xr.Variable, target: Form, where: str, *, plain: bool, is_converted: bool
) -> tuple[Form, bool]:
    """Return the form of appended values, and whether they are stored values that are not decoded yet."""
    # Units that differ from those of the store are refused, unless values are converted.
    attributes = variable.attrs
    dtype = np.dtype(variable.dtype)
    if target.dtype.kind in TEXT and "units" in attributes and str(attributes["units"]) != target.units:
        raise ConformError(
            f"{where} is text with the units {attributes['units']!r}, in the store {target.units!r}; correct them"
        )
    if plain or dtype.kind in "MmOUST":
        return Form(dtype), False
    named = set(attributes) & {"scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"}
    found = form_of(attributes, dtype, where)
    units = found.units
    if units is not None and units != target.units and not is_converted and not _are_alike(units, target.units):
        raise ConformError(f"{where} is in {units!r}, the store in {target.units!r}; convert it first")
    return found, bool(named)


def _check_equal(
    variable: xr.Variable, node: Node, state: GroupState, dim: str, losses: list[Loss], *, plain: bool
) -> None:
    """Raise an error if a variable that does not grow has values that differ from those in the store."""
    where = f"{state.place.store}: variable {node.name!r}"
    if dim in variable.dims:
        raise ConformError(f"{where} has the dimension {dim!r} in the appended data, but not in the store")
    if tuple(variable.dims) != node.dims or tuple(variable.shape) != node.shape:
        raise ConformError(
            f"{where} has dimensions {dict(zip(variable.dims, variable.shape, strict=True))}, expected "
            f"{dict(zip(node.dims, node.shape, strict=True))}"
        )
    _compare(variable.attrs, node, losses, where)
    try:
        array = stored_array(node, state)
    except UnsupportedError:
        there = np.asarray(_by_zarr(state, node.path)[...])
        given = np.asarray(variable.values)
        same = [str(v) for v in given.ravel().tolist()] == [str(v) for v in there.ravel().tolist()]
    else:
        target = _form_of_node(node, state, {})
        is_converted = target.is_time
        source, is_stored = _form_of_variable(variable, target, where, plain=plain, is_converted=is_converted)
        try:
            converted = storing(source, is_stored, target, where)(np.asarray(variable.values))
        except ConformError as error:
            raise ConformError(f"{error.message}; {node.name!r} does not grow, so its values are compared") from error
        there = np.empty(array.shape, array.dtype)
        ZarrReader(array).read((slice(None),) * array.ndim, there)
        # Several values may mark missing ones, such as NaN and a missing_value.
        same = bool(np.all((there == converted) | (target.missing(there) & target.missing(converted))))
    if not same:
        raise ConformError(
            f"{where} does not grow, but has other values than the store; append data with the same values"
        )


def _by_zarr(state: GroupState, path: str) -> Any:
    """Return an array that zarr-python reads."""
    if isinstance(state.place, SessionPlace):
        return state.place.array(path)
    return open_by_zarr(store_of(state.place.store, ()), path, state.zarr_format)


def stored_array(node: Node, state: GroupState) -> ZarrArray:
    """Return the array of a group as it is before the append."""
    import json

    texts = {f"{node.path}/{name}".lstrip("/"): json.dumps(d).encode() for name, d in node.documents.items()}
    return array_of(state.place.store, node.path, texts.get, state.place.opens)


def _are_alike(units: str, others: str | None) -> bool:
    """Whether two spellings of units mean the same, such as 'm/s' and 'm s-1'."""
    try:
        return transform(units, None, others, None) == SAME
    except CfaggError:
        return False


def _compare(given: Mapping[str, Any], node: Node, losses: list[Loss], where: str) -> None:
    """Raise an error if attributes change the meaning, and list others that the store lacks."""
    own = node.attributes
    for name, value in given.items():
        if name in DECODING or name in ("coordinates", "_ARRAY_DIMENSIONS"):
            continue
        found = jsonable(value)
        if name in own and _equal(own[name], found):
            continue
        if name in _MEANING:
            raise ConformError(
                f"{where}: its attribute {name!r} is {found!r}, in the store {own.get(name)!r}; correct it"
            )
        losses.append(
            _loss(node.path, f"attribute {name!r}", str(found)[:80], f"the store has {str(own.get(name))[:80]}")
        )


def _compare_group(given: Mapping[str, Any], state: GroupState, losses: list[Loss]) -> None:
    """List attributes of the dataset that the group lacks; its history is its own."""
    for name, value in given.items():
        if name not in ("history", "_NCProperties") and not (
            name in state.attributes and _equal(state.attributes[name], jsonable(value))
        ):
            there = str(state.attributes.get(name))[:80]
            losses.append(_loss("/", f"attribute {name!r}", str(value)[:80], f"the store has {there}"))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _loss(variable: str, what: str, found: str, why: str) -> Loss:
    return Loss(variable, None, what, found, why)
