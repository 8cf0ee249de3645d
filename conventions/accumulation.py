"""Reading and writing of the attributes of chunk-level accumulation (ZEP 5).

An accumulation is a Zarr group next to the array.  The group attribute ``_ACCUMULATION_GROUP`` names the arrays of
cumulative sums by combination of dimensions; ``_ACCUMULATION_STRIDE`` of each is the number of chunks from one sum to
the next.  Open questions are decided as in the documentation: sums are inclusive, at the upper edges of chunks, the
last at the array's end; dimensions may be in any unambiguous order; absent combinations are empty.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0, editor's draft of 12 02 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cfagg.conventions.accumulation_extra import parse_extra, write_extra
from cfagg.conventions.accumulation_model import ArrayAttributes, Combinations, Dims, Names, sample_positions
from cfagg.conventions.accumulation_record import Extra
from cfagg.conventions.accumulation_schema import (
    ARRAY,
    GROUP,
    KEY,
    inspect,
    is_integer,
    read_tree,
    validate,
    write_tree,
)
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import NotAccumulatedError

__all__ = [
    "ArrayAttributes",
    "Combinations",
    "Extra",
    "Names",
    "find_array",
    "find_stride",
    "group_name",
    "is_accumulation",
    "parse_array",
    "parse_extra",
    "parse_group",
    "sample_positions",
    "write_array",
    "write_extra",
    "write_group",
]

Kind = Literal["_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS"]


def group_name(variable: str) -> str:
    """Return the name of the group that contains a variable's accumulation.

    >>> group_name("tas")
    'tas_accumulation_group'
    """
    return f"{variable}_accumulation_group"


def is_accumulation(attributes: Mapping[str, Any]) -> bool:
    """Return whether a group with these attributes is an accumulation.

    >>> is_accumulation({"_ACCUMULATION_GROUP": {}}), is_accumulation({})
    (True, False)
    """
    return KEY in attributes


def parse_group(attributes: Mapping[str, Any], dims: Sequence[str], *, source: str = "") -> Combinations:
    """Return the arrays named by the attributes of an accumulation group.

    Parameters
    ----------
    attributes : mapping
        Attributes of the group (``.zattrs`` in Zarr v2, ``attributes`` of ``zarr.json`` in v3).
    dims : sequence of str
        Dimensions of the array that was accumulated, in its order.
    source : str
        Store and group, for messages.

    Returns
    -------
    Combinations
        `Names` by tuple of dimensions in the order of `dims`; combinations without arrays are left out.

    Raises
    ------
    ConventionError
        The attributes break the convention's schema, name a dimension that the array does not have or one twice, name
        different arrays for the same dimensions, or one array twice.  Lists every problem.
    LimitError
        The attribute is larger than any valid one.

    Notes
    -----
    ZEP 5, "Zarr attribute file of accumulation group".  Dimensions may be nested in any order.

    Examples
    --------
    >>> tree = {"lat": {"time": {}}, "time": {"_DATA_UNWEIGHTED": "acc_time", "_WEIGHTS": "acc_wt_time"}}
    >>> parse_group({"_ACCUMULATION_GROUP": tree}, ("lat", "time"))
    Combinations({('time',): Names(unweighted='acc_time', weighted=None, weights='acc_wt_time')})
    """
    findings = Findings(source or "accumulation group")
    return _read_group(attributes, tuple(dims), findings)


def _read_group(attributes: Mapping[str, Any], dims: Dims | None, findings: Findings) -> Combinations:
    """Return the arrays that a group names, or raise an error with every problem."""
    inspect(attributes, GROUP, findings)
    combinations = read_tree(_object(attributes).get(KEY), dims, findings)
    findings.check("the group attribute of the accumulation breaks its convention")
    return combinations


def write_group(combinations: Mapping[Dims, Names], dims: Sequence[str]) -> dict[str, Any]:
    """Return the group attribute that names these arrays.

    Parameters
    ----------
    combinations : mapping
        `Names` by tuple of dimensions.
    dims : sequence of str
        Dimensions of the accumulated array, in its order.

    Returns
    -------
    dict
        ``{"_ACCUMULATION_GROUP": ...}`` with dimensions nested in the order of `dims` and an empty object for every
        unused combination (with more than eight dimensions only if it is needed).

    Raises
    ------
    ConventionError
        The result would break the convention.  Lists every problem.

    Examples
    --------
    >>> write_group({("time",): Names(unweighted="acc_time", weights="acc_wt_time")}, ("time", "lat"))
    {'_ACCUMULATION_GROUP': {'time': {'_DATA_UNWEIGHTED': 'acc_time', '_WEIGHTS': 'acc_wt_time', 'lat': {}}, 'lat': {}}}
    """
    order = tuple(dims)
    findings = Findings("accumulation group")
    for key in combinations:
        wrong = [d for d in key if d not in order] or [d for i, d in enumerate(key) if d in key[:i]]
        if wrong or not key:
            findings.problem(f"combination {shorten(key)}", f"expected distinct dimensions of {list(order)}")
    findings.check("no group attribute can be written")
    sets: dict[Dims, Names] = {tuple(sorted(key, key=order.index)): names for key, names in combinations.items()}
    if len(sets) < len(combinations):
        findings.problem("", "the same dimensions occur twice, in different order")
    attributes = {KEY: write_tree(sets, order)}
    inspect(attributes, GROUP, findings)
    if not findings.problems:
        validate(attributes, GROUP, findings)
    read_tree(attributes[KEY], order, findings)
    findings.check("no group attribute can be written")
    return attributes


def parse_array(
    attributes: Mapping[str, Any],
    *,
    ndim: int | None = None,
    dims: Sequence[str] | None = None,
    combination: Iterable[str] | None = None,
    dimension_names: Sequence[str | None] | None = None,
    source: str = "",
) -> ArrayAttributes:
    """Return the parsed attributes of an accumulation array.

    Parameters
    ----------
    attributes : mapping
        Attributes of the array.
    ndim : int, optional
        Number of its dimensions.
    dims : sequence of str, optional
        Dimensions of the array that was accumulated; the accumulation has the same in any order.
    combination : iterable of str, optional
        Dimensions that this array accumulates according to the group.
    dimension_names : sequence of str or None, optional
        Zarr v3's own names of the dimensions, which must agree and are used if ``_ARRAY_DIMENSIONS`` is absent.
    source : str
        Store and array, for messages.

    Raises
    ------
    ConventionError
        The attributes break the convention's schema; dimensions and strides differ in number; a stride is negative; a
        dimension occurs twice or is not one of `dims`; those accumulated are not `combination`.  Lists every
        problem.
    LimitError
        The attributes are larger than any valid ones.

    Notes
    -----
    ZEP 5, "Zarr attribute file of accumulation data array".  A stride of 0 means "not accumulated".

    Examples
    --------
    >>> parse_array({"_ARRAY_DIMENSIONS": ["lat", "lon", "time"], "_ACCUMULATION_STRIDE": [0, 0, 2]})
    ArrayAttributes(dims=('lat', 'lon', 'time'), stride=(0, 0, 2))
    """
    findings = Findings(source or "accumulation array")
    named = None if dimension_names is None else list(dimension_names)
    if named is not None and "_ARRAY_DIMENSIONS" not in attributes:
        attributes = {**attributes, "_ARRAY_DIMENSIONS": named}
    inspect(attributes, ARRAY, findings)
    found = _object(attributes).get("_ARRAY_DIMENSIONS")
    strides = _object(attributes).get("_ACCUMULATION_STRIDE")
    if isinstance(found, list):
        _check_dims(found, ndim, dims, named, findings)
    if isinstance(strides, list):
        for i, stride in enumerate(strides):
            if is_integer(stride) and not 0 <= stride < 2**63:
                expected = "0 where the dimension is not accumulated, else the number of chunks between two sums"
                findings.problem(f"_ACCUMULATION_STRIDE[{i}]", f"{expected}; found {shorten(stride)}")
        if isinstance(found, list) and len(strides) != len(found):
            findings.problem("_ACCUMULATION_STRIDE", f"{len(strides)} strides for {len(found)} dimensions")
        elif isinstance(found, list) and combination is not None and all(map(is_integer, strides)):
            expect, have = (
                set(combination),
                {d for d, n in zip(found, strides, strict=True) if n and isinstance(d, str)},
            )
            if expect != have:
                message = f"accumulated along {sorted(have)}, but the group names this array for {sorted(expect)}"
                findings.problem("_ACCUMULATION_STRIDE", message)
    findings.check("the attributes of the accumulation array break their convention")
    return ArrayAttributes(tuple(found or ()), tuple(int(n) for n in strides or ()))


def _check_dims(
    found: list[Any],
    ndim: int | None,
    dims: Sequence[str] | None,
    named: list[str | None] | None,
    findings: Findings,
) -> None:
    """Note problems with the dimensions of an accumulation array."""
    where = "_ARRAY_DIMENSIONS"
    if ndim is not None and len(found) != ndim:
        findings.problem(where, f"{len(found)} dimensions are named for an array that has {ndim}")
    if named is not None and found != named:
        findings.problem(where, f"{shorten(found)} disagrees with dimension_names {shorten(named)}")
    seen: set[str] = set()
    for i, d in enumerate(found):
        if not isinstance(d, str):
            continue
        if d in seen:
            findings.problem(f"{where}[{i}]", f"the dimension {shorten(d)} occurs twice")
        elif dims is not None and d not in dims:
            findings.problem(f"{where}[{i}]", f"the accumulated array has no dimension {shorten(d)}, only {list(dims)}")
        seen.add(d)
    for d in dims or ():
        if d not in seen:
            findings.problem(where, f"the dimension {shorten(d)} of the accumulated array is missing")


def _object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one, since the schema check reports other values."""
    return value if isinstance(value, Mapping) else {}


def write_array(dims: Sequence[str], stride: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an accumulation array.

    Parameters
    ----------
    dims : sequence of str
        Its dimensions.
    stride : sequence or mapping of int
        Number of chunks between two sums per dimension, 0 if it is not accumulated (in a mapping: left out).

    Raises
    ------
    ConventionError
        The result would break the convention.

    Examples
    --------
    >>> write_array(("lat", "time"), {"time": 2})
    {'_ARRAY_DIMENSIONS': ['lat', 'time'], '_ACCUMULATION_STRIDE': [0, 2]}
    """
    if isinstance(stride, Mapping):
        findings = Findings("accumulation array")
        for d in stride:
            if d not in dims:
                findings.problem(f"stride[{shorten(d)}]", f"not one of the dimensions {list(dims)}")
        findings.check("no attributes can be written")
        stride = [stride.get(d, 0) for d in dims]
    # NumPy integers are converted to Python's, the only ones that JSON supports.
    numbers = [n.item() if isinstance(n, np.generic) else n for n in stride]
    attributes = {"_ARRAY_DIMENSIONS": list(dims), "_ACCUMULATION_STRIDE": numbers}
    written = parse_array(attributes).as_dict()
    findings = Findings("accumulation array")
    validate(written, ARRAY, findings)
    findings.check("no attributes can be written")
    return written


def find_array(attributes: Mapping[str, Any], dims: Iterable[str], kind: Kind = "_DATA_WEIGHTED") -> str:
    """Return the name of the array with one kind of sums along some dimensions.

    Parameters
    ----------
    attributes : mapping
        Attributes of the accumulation group.
    dims : iterable of str
        Dimensions to accumulate along, in any order.
    kind : {"_DATA_WEIGHTED", "_DATA_UNWEIGHTED", "_WEIGHTS"}
        Sums of the weighted data, of the data, or of the weights.

    Raises
    ------
    NotAccumulatedError
        There is no such array; the message lists the available ones.
    ConventionError
        The attributes break their convention.

    Notes
    -----
    ZEP 5, "Application Interface", the first example: from the group attribute, one key per dimension, then the kind.

    Examples
    --------
    >>> tree = {"lat": {"lon": {"_DATA_WEIGHTED": "acc_lat_lon", "_WEIGHTS": "acc_wt_lat_lon"}}}
    >>> find_array({"_ACCUMULATION_GROUP": tree}, ["lat", "lon"])
    'acc_lat_lon'
    """
    wanted = frozenset([dims] if isinstance(dims, str) else dims)
    combinations = _read_group(attributes, None, Findings("accumulation group"))
    for key, names in combinations.items():
        if wanted == set(key) and kind in names.as_dict():
            return names.as_dict()[kind]
    there = [f"{k} along {'+'.join(key)}" for key, names in combinations.items() for k in names.as_dict()]
    raise NotAccumulatedError(
        f"no {kind} along {'+'.join(sorted(wanted)) or 'no dimension'}; the group has {', '.join(there) or 'no arrays'}"
    )


def find_stride(attributes: Mapping[str, Any], dims: Iterable[str]) -> tuple[int, ...]:
    """Return the accumulation stride along some dimensions: the number of chunks from one sum to the next.

    Parameters
    ----------
    attributes : mapping
        Attributes of the accumulation array.
    dims : iterable of str
        Dimensions, in the order in which their strides are returned.

    Raises
    ------
    NotAccumulatedError
        The array does not have a dimension, or is not accumulated along it.
    ConventionError
        The attributes break their convention.

    Notes
    -----
    ZEP 5, "Application Interface", the second example: the position of each dimension in ``_ARRAY_DIMENSIONS`` is that
    of its stride in ``_ACCUMULATION_STRIDE``.

    Examples
    --------
    >>> attributes = {"_ARRAY_DIMENSIONS": ["lat", "lon", "time"], "_ACCUMULATION_STRIDE": [1, 3, 0]}
    >>> find_stride(attributes, ["lat", "lon"])
    (1, 3)
    """
    parsed = parse_array(attributes)
    strides = {d: n for d, n in zip(parsed.dims, parsed.stride, strict=True) if n}
    wanted = [dims] if isinstance(dims, str) else list(dims)
    if wrong := [d for d in wanted if d not in strides]:
        raise NotAccumulatedError(f"not accumulated along {shorten(wrong)}, only along {list(strides)}")
    return tuple(strides[d] for d in wanted)
