"""Describing the data variables of files, most of which are similar, so that attributes are interpreted only once.

Equal metadata and equal coordinates are the same objects in all descriptions, as long as any of these is alive.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from itertools import chain, count
from sys import intern
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import GROWS, Companion, Coordinate, Described, Stated
from cfagg.cf.joining.identities import VERSION, frozen, is_single, units_key
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.plans import AxisPlan, FieldPlan, PartPlan, Variables, around
from cfagg.cf.joining.structure import plan_of, plans_of
from cfagg.cf.joining.turning import upright
from cfagg.cf.joining.values import meant
from cfagg.cf.kinds_of_units import is_reference_time
from cfagg.cf.missing import default_fill
from cfagg.cf.packing import STORAGE_ATTRIBUTES
from cfagg.cf.references import Resolver, with_whole_paths
from cfagg.errors import LimitError
from cfagg.model.dataset import Dataset, SharedAttributes, Variable, enumeration_of

__all__ = ["describe", "describe_all", "interned"]

#: Attributes that often differ between files and are ignored, unless an option names them.
_PASSING = frozenset({"history", "actual_range", "comment", "creation_date", "tracking_id", "date_created"})

#: Maximum number of structures of files that are cached.
_MOST = 512

#: Maximum number of values that are kept if they differ between files, that are kept at all, and that are read.
_KEPT, _COMPARED, _READ = 1 << 14, 1 << 22, 1 << 28

#: Maximum number of them in memory at once.
_AT_ONCE = 1 << 20

#: Attributes that define the meaning of numbers.
_MEANING = ("units", "calendar", *STORAGE_ATTRIBUTES)

_Key = tuple[Hashable, ...]

_plans: dict[_Key, tuple[FieldPlan, ...]] = {}
_stated: WeakValueDictionary[Hashable, Stated] = WeakValueDictionary()
_coordinates: WeakValueDictionary[Hashable, Coordinate] = WeakValueDictionary()
_companions: WeakValueDictionary[Hashable, Companion] = WeakValueDictionary()


def describe(variable: Variable, resolver: Resolver, options: Options | None = None) -> Described:
    """Return the description of a variable; the values of its coordinates are read."""
    options = options or Options()
    variables = list(dict.fromkeys(chain(variable.group.variables.values(), resolver.variables())))
    plan = plan_of(variable, resolver, options, Variables(variables))
    return _File(variables, list(map(_key_of, variables)), options).described(plan)


def describe_all(dataset: Dataset, options: Options | None = None) -> list[Described]:
    """Return the descriptions of all data variables of a file, in order: those to which no other variable refers."""
    options = options or Options()
    variables = dataset.variables
    keys = [_key_of(v) for v in variables]
    groups = tuple((g.path, tuple(g.dimensions), _said(g.attributes, options)) for g in dataset.groups)
    left = _PASSING.difference(options.equal, options.exist, options.dimension, options.field_ancillaries)
    if options.equal_all or options.exist_all or options.field_identity in _PASSING:
        left = frozenset()
    key = (options, groups, tuple([_structural(v, k, left) for v, k in zip(variables, keys, strict=True)]))
    plans = _plans.get(key)
    if plans is None:
        plans = plans_of(dataset, options)
        if len(_plans) >= _MOST:
            _plans.clear()
        _plans[key] = plans
    file = _File(variables, keys, options)
    return [file.described(plan) for plan in plans]


def interned(described: Iterable[Described]) -> list[Described]:
    """Return descriptions, perhaps from other processes, whose equal parts are replaced by the same objects as here."""
    memo: dict[int, Any] = {}

    def stated(one: Stated) -> Stated:
        if id(one) not in memo:
            key = (one.name, one.dims, _typed(one.dtype), one.kind, _frozen_items(one.attributes))
            memo[id(one)] = one, _stated.setdefault(key, one)
        return memo[id(one)][1]  # type: ignore[no-any-return]

    def coordinate(one: Coordinate) -> Coordinate:
        if id(one) not in memo:
            own, of = stated(one.stated), None if one.bounds_stated is None else stated(one.bounds_stated)
            memo[id(one)] = one, _coordinate(one.identity, own, one.values, one.bounds, of, one.index, one.promoted)
        return memo[id(one)][1]  # type: ignore[no-any-return]

    def companion(one: Companion) -> Companion:
        if id(one) not in memo:
            memo[id(one)] = one, _companion(stated(one.stated), one.shape, one.axes, one.values, one.role, one.digest)
        return memo[id(one)][1]  # type: ignore[no-any-return]

    def mapping(one: Mapping[str, Any], of: Any) -> Mapping[str, Any]:
        if id(one) not in memo:
            memo[id(one)] = one, {name: of(value) for name, value in one.items()}
        return memo[id(one)][1]  # type: ignore[no-any-return]

    signatures: dict[Hashable, Mapping[str, Hashable]] = {}
    out = []
    for one in described:
        if id(one.signature) not in memo:
            key = tuple(one.signature.items())
            memo[id(one.signature)] = one.signature, signatures.setdefault(key, one.signature)
        out.append(
            Described(
                stated(one.stated),
                one.shape,
                memo[id(one.signature)][1],
                mapping(one.axes, coordinate),
                one.along,
                mapping(one.parts, companion),
                mapping(one.mappings, stated),
                one.around,
                one.problem,
                one.digest,
            )
        )
    return out


class _File:
    """The variables of a file, and the values read from them."""

    def __init__(self, variables: list[Variable], keys: list[_Key], options: Options) -> None:
        self._variables, self._keys = variables, keys
        self._compares = options.on_overlap == "equal"
        self._values: dict[int, npt.NDArray[Any]] = {}
        self._made: dict[Hashable, Any] = {}

    def described(self, plan: FieldPlan) -> Described:
        variable = self._variables[plan.variable]
        # Variables of one structure share the same mapping objects.
        axes = self._once(("axes", id(plan.axes)), lambda: {a.identity: self._axis(a, variable) for a in plan.axes})
        parts = self._once(("parts", id(plan.parts)), lambda: self._parts(plan, variable))
        return Described(
            self._stated(plan.variable),
            variable.shape,
            plan.signature,
            axes,
            plan.along,
            parts,
            {(one := self._stated(i)).name: one for i in plan.mappings} if plan.mappings else {},
            around(variable),
            plan.problem or _emptiness(variable),
            self._contents(plan, axes) if self._compares else b"",
        )

    def _contents(self, plan: FieldPlan, axes: Mapping[str, Coordinate]) -> bytes:
        """Return a digest of the values of a data variable; empty if they are too many, or not simply stored."""
        own = self._variables[plan.variable]
        timed = any(is_reference_time(axis.units or "") for axis in axes.values())
        if own.dialect is not None or own.kind == "other" or own.size > (_KEPT if timed else _COMPARED):
            return b""
        values = own.texts() if own.is_text else own.values()
        return _digest(upright(values, [plan.along.get(dim, "") for dim in own.dims]), self._stated(plan.variable))

    def _once(self, key: Hashable, make: Any) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _stated(self, number: int, values: npt.NDArray[Any] | None = None) -> Stated:
        """Return the metadata of a variable; with its values, unwritten ones among them are declared missing."""
        v = self._variables[number]
        fill = None if values is None else _unwritten(v, values)
        key = self._keys[number] if fill is None else (self._keys[number], "unwritten")
        found = _stated.get(key)
        if found is None:
            own = with_whole_paths(v.attributes, v.group.path)
            attributes = own if fill is None else {**own, "_FillValue": fill}
            found = _stated.setdefault(key, Stated(v.path.lstrip("/"), _apart(v.dims), v.dtype, v.kind, attributes))
        return found

    def _read(self, number: int) -> npt.NDArray[Any]:
        if number not in self._values:
            variable = self._variables[number]
            if is_single(variable):
                self._values[number] = replace(variable, kind="string").texts(_COMPARED)
            else:
                self._values[number] = variable.texts() if variable.is_text else variable.values()
        return self._values[number]

    def _axis(self, plan: AxisPlan, variable: Variable) -> Coordinate:
        if plan.dimension is not None:
            of = variable if plan.variable is None else self._variables[plan.variable]
            name, size = of.dims[plan.dimension], of.shape[plan.dimension]
            stated = _made_up(
                name, (name,), np.dtype(np.int64), GROWS if of.dimensions[plan.dimension].unlimited else {}
            )
            # Their number matters, their values do not.
            return _coordinate(plan.identity, stated, np.zeros(size, np.int8), None, None, True, False)
        if plan.variable is None:
            values = _as_array(_attribute(variable, plan.attribute or ""))
            return _coordinate(
                plan.identity, _made_up(plan.attribute or "", (), values.dtype), values, None, None, False, True
            )
        values = np.atleast_1d(self._read(plan.variable))
        bounds = None if plan.bounds is None else self._read(plan.bounds)
        said = None if plan.bounds is None else self._stated(plan.bounds, bounds)
        return _coordinate(plan.identity, self._stated(plan.variable, values), values, bounds, said, False, False)

    def _parts(self, plan: FieldPlan, variable: Variable) -> dict[str, Companion]:
        counted = {"", *(a.identity for a in plan.axes if a.dimension is not None)}
        return {p.identity: self._part(p, variable, counted.issuperset(p.axes)) for p in plan.parts}

    def _part(self, plan: PartPlan, variable: Variable, counted: bool) -> Companion:
        if plan.variable is None:
            values = _as_array(_attribute(variable, plan.attribute or ""))[0]
            one = np.array(values, object if isinstance(values, str) else None)
            return _companion(_made_up(plan.identity, (), one.dtype), (), plan.axes, one, plan.role, b"")
        own = self._variables[plan.variable]
        stated = self._stated(plan.variable)
        if own.size > _COMPARED or own.dialect is not None:
            # Coordinates of an axis may be stored in either direction, which a digest would not recognize.
            digest = _digest_in_blocks(own, stated, plan) if counted and own.size <= _READ else b""
            axes = plan.axes[::-1] if plan.turned else plan.axes
            return _companion(stated, own.shape, axes, None, plan.role, digest)
        values = self._read(plan.variable)
        stated = self._stated(plan.variable, values)
        if plan.turned:
            key = self._keys[plan.variable], "turned"
            values, stated = values.T, _stated.setdefault(key, replace(stated, dims=stated.dims[::-1]))
        if plan.varies and values.size > _KEPT:
            digest = _digest(upright(values, plan.axes), stated)
            return _companion(stated, values.shape, plan.axes, None, plan.role, digest)
        return _companion(stated, values.shape, plan.axes, values, plan.role, b"")


def _unwritten(variable: Variable, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Return netCDF's default fill value if real values of a variable without ``_FillValue`` have it."""
    if not variable.netcdf or values.dtype.kind != "f" or "_FillValue" in variable.attributes:
        return None
    fill = np.array([default_fill(values.dtype)], values.dtype)
    return fill if (values == fill).any() else None


def _apart(dims: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of dimensions with a number for one that occurs again, since dimensions of arrays differ."""
    out: list[str] = []
    for dim in dims:
        new = chain((dim,), (f"{dim}_{k}" for k in count(1)))
        out.append(next(name for name in new if name not in out and (name == dim or name not in dims)))
    return tuple(out)


def _emptiness(variable: Variable) -> str | None:
    """Return why a variable without elements is not part of any array."""
    empty = [dim for dim, size in zip(variable.dims, variable.shape, strict=True) if size == 0]
    return f"its dimension {empty[0]!r} has no elements" if empty else None


def _coordinate(
    identity: str,
    stated: Stated,
    values: npt.NDArray[Any],
    bounds: npt.NDArray[Any] | None,
    bounds_stated: Stated | None,
    index: bool,
    promoted: bool,
) -> Coordinate:
    """Return a coordinate; the same object for equal values."""
    key = identity, id(stated), _content(values), id(bounds_stated), None if bounds is None else _content(bounds), index
    found = _coordinates.get(key)
    if found is None:
        own = Coordinate(identity, stated, values, bounds, bounds_stated, index, promoted)
        found = _coordinates.setdefault(key, own)
    return found


def _companion(
    stated: Stated,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
    values: npt.NDArray[Any] | None,
    role: str,
    digest: bytes,
) -> Companion:
    """Return a companion; the same object for equal values, a new one if they were not compared."""
    made = Companion(stated, shape, axes, values, role, digest)
    if values is None and not digest:
        return made
    return _companions.setdefault((id(stated), axes, role, shape, digest or _content(values)), made)


def _content(values: npt.NDArray[Any] | None) -> Hashable:
    """Return the values of an array, or a digest of many."""
    if values is None:
        return None
    if values.dtype == object:
        return "text", values.shape, tuple(values.ravel().tolist())
    raw = values.tobytes()
    return intern(values.dtype.str), values.shape, raw if len(raw) <= 64 else blake2b(raw, digest_size=16).digest()


def _digest(values: npt.NDArray[Any], stated: Stated) -> bytes:
    """Return a digest of many values, which includes what they mean."""
    found = _begun(values.shape, stated)
    found.update(repr(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values))
    return found.digest()


def _begun(shape: tuple[int, ...], stated: Stated | None) -> blake2b:
    """Return the digest of the shape of values, and of what numbers mean by the metadata that state it."""
    said = () if stated is None else (stated.dtype.str, *(frozen(stated.attributes.get(name)) for name in _MEANING))
    return blake2b(repr((shape, said)).encode(), digest_size=16)


def _digest_in_blocks(own: Variable, stated: Stated, plan: PartPlan) -> bytes:
    """Return a digest of many numbers in base units, read block by block; empty if they cannot be compared."""
    known = [axis for axis in plan.axes if axis]
    if own.dialect is not None or not own.is_numeric or known != sorted(known):
        return b""
    mesh = plan.role == "mesh" and own.kind == "integer"
    found = _begun(own.shape, None if mesh else stated)
    with suppress(LimitError):
        for block in own.blocks(_AT_ONCE):
            part = meant(Companion(stated, block.shape, (), block, plan.role)) if mesh else block
            found.update(np.ascontiguousarray(part))
        return found.digest()
    return b""


def _made_up(
    name: str, dims: tuple[str, ...], dtype: np.dtype[Any], attributes: Mapping[str, str] = MappingProxyType({})
) -> Stated:
    """Return metadata for an axis or companion that is not a variable of the file."""
    kind: Any = {"i": "integer", "u": "integer", "f": "float"}.get(dtype.kind, "string")
    key = name, dims, dtype.str, kind, tuple(attributes.items())
    return _stated.setdefault(key, Stated(name, dims, dtype, kind, dict(attributes)))


def _attribute(variable: Variable, name: str) -> Any:
    return variable.attributes[name] if name in variable.attributes else around(variable)[name]


def _as_array(value: Any) -> npt.NDArray[Any]:
    """Return the value of an attribute, a number or text, as an array with one element."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        return value.reshape(1)
    out = np.empty(1, object)
    out[0] = value if isinstance(value, str) else str(frozen(value))
    return out


def _key_of(variable: Variable) -> _Key:
    """Return all metadata of a variable in a file except its sizes and values."""
    attributes = variable.attributes
    return variable.path, variable.dims, _typed(variable.dtype), variable.kind, _once_frozen(attributes)


def _typed(dtype: np.dtype[Any]) -> Hashable:
    """Return a hashable form of a type, because different enumerations compare equal."""
    return dtype.str if dtype.metadata is None else (dtype.str, enumeration_of(dtype))


def _once_frozen(attributes: Mapping[str, Any]) -> _Key:
    if not isinstance(attributes, SharedAttributes):
        return _frozen_items(attributes)
    found: _Key | None = attributes.made.get("frozen")
    if found is None:
        found = attributes.made["frozen"] = _frozen_items(attributes)
    return found


def _frozen_items(attributes: Mapping[str, Any]) -> _Key:
    return tuple([(k, v if type(v) is str else _frozen_value(v)) for k, v in attributes.items()])


def _frozen_value(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes() if value.dtype != object else tuple(value.ravel())
    return value if isinstance(value, Hashable) else repr(value)


def _structural(variable: Variable, key: tuple[Any, ...], left: frozenset[str]) -> _Key:
    """Return the part of a key that determines how files are described."""
    made = variable.attributes.made if isinstance(variable.attributes, SharedAttributes) else {}
    before, kept = made.get("structural", (None, ()))
    if before != left:
        calendar = variable.text("calendar")
        kept = tuple([(k, _alike(k, v, calendar)) for k, v in key[-1] if k not in left])
        made["structural"] = left, kept
    return (*key[:-1], kept)


def _alike(name: str, value: Any, calendar: str | None) -> Any:
    """Return an attribute so that origins of times, which often differ between files, are equal if they convert."""
    of_time = name == "units" and isinstance(value, str) and is_reference_time(value)
    return units_key(value, calendar) if of_time else value


def _said(attributes: Mapping[str, Any], options: Options) -> Hashable:
    """Return the attributes of a group that determine how its variables are described."""
    if options.equal_all or options.exist_all:
        return _frozen_items(attributes)
    names = ("featureType", "external_variables", VERSION, *options.equal, *options.exist)
    out = [(n, frozen(attributes[n])) for n in names if n in attributes]
    return (*out, *(n for n in (*options.dimension, *options.field_ancillaries) if n in attributes))
