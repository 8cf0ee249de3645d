"""The classes used in records of scanned files, and checks of values against the types of their fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from functools import cache
from hashlib import blake2b
from typing import Any, Literal, TypeAliasType, Union, get_args, get_origin, get_type_hints

from cfagg.aggregation.scanning import FileState, Scanned
from cfagg.cf.joining import Companion, Coordinate, Described, Stated
from cfagg.formats.metadata.foreign import Foreign

__all__ = ["CLASSES", "Instances", "schema"]

#: The classes, by their number in records.
CLASSES: tuple[type, ...] = (Scanned, FileState, Described, Coordinate, Companion, Stated, Foreign)

#: Any value except the classes that have fields of their own.
_ANYTHING = (Any, object)


@cache
def schema() -> bytes:
    """Return a digest of all classes and fields: records with another digest were written by another version."""
    said = repr([(c.__name__, [(f.name, str(f.type)) for f in fields(c)]) for c in CLASSES])
    return blake2b(said.encode(), digest_size=8).digest()


class Instances:
    """Creates instances of the classes; shared values that were checked are not checked again."""

    def __init__(self) -> None:
        #: Mappings that fit a field, by field and mapping; they are kept alive, so that no other has the same identity.
        self._known: dict[tuple[int, int], dict[str, Any]] = {}

    def make(self, number: int, values: list[Any]) -> Any:
        """Return an instance of a class; raise `ValueError` if a value does not fit its field."""
        cls = CLASSES[number]
        checks = _checks(cls)
        if len(values) != len(checks):
            raise ValueError(f"{cls.__name__} has {len(checks)} fields, not {len(values)}")
        known = self._known
        for value, (name, fits, place) in zip(values, checks, strict=True):
            key = (place, id(value))
            if key in known:
                continue
            if not fits(value):
                raise ValueError(f"{name} of {cls.__name__} cannot be of type {type(value).__name__}")
            if type(value) is dict:  # others are checked as fast as they are found
                known[key] = value
        one = cls(*values)
        wrong = _CONSISTENT.get(cls, lambda _: None)(one)
        if wrong:
            raise ValueError(f"{cls.__name__}: {wrong}")
        return one


@cache
def _checks(cls: type) -> list[tuple[str, Callable[[Any], bool], int]]:
    """Return the name of each field, a function that checks its type, and a unique number."""
    hints = get_type_hints(cls)
    first = CLASSES.index(cls) << 8
    return [(f.name, _fits(hints[f.name]), first + k) for k, f in enumerate(fields(cls))]


def _fits(hint: Any) -> Callable[[Any], bool]:
    """Return a function that checks whether a value has a type, as given by annotations."""
    origin, given = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        each = [_fits(g) for g in given]
        return lambda v: any(fits(v) for fits in each)
    if hint in _ANYTHING:
        return lambda v: type(v) not in CLASSES[:-1]
    if hint is Hashable:
        return _is_hashable
    if origin is Literal:
        return lambda v: isinstance(v, str) and v in given
    if origin is tuple and given[-1] is Ellipsis:
        item = _fits(given[0])
        return lambda v: type(v) is tuple and all(map(item, v))
    if origin is tuple:
        items = [_fits(g) for g in given]
        return lambda v: type(v) is tuple and len(v) == len(items) and all(f(x) for f, x in zip(items, v, strict=True))
    if origin is Mapping or origin is dict:
        key, item = map(_fits, given)
        return lambda v: type(v) is dict and all(map(key, v)) and all(map(item, v.values()))
    kind = origin or hint
    while isinstance(kind, TypeAliasType):  # used by NumPy for array types
        kind = get_origin(kind.__value__) or kind.__value__
    if kind is type:
        return lambda v: isinstance(v, type) and issubclass(v, given)
    if kind in (int, float, str, bytes, bool, type(None)):
        return lambda v: type(v) is kind
    return lambda v: isinstance(v, kind)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return type(value) not in CLASSES


def _of_companion(one: Companion) -> str | None:
    fits = one.values is None or (one.values.shape == one.shape and len(one.axes) >= len(one.shape))
    return None if fits and _is_shape(one.shape) else "it has no such shape"


def _of_described(one: Described) -> str | None:
    if len(one.shape) != len(one.stated.dims) or not _is_shape(one.shape):
        return "it has another shape"
    if not set(one.along.values()) <= one.axes.keys():
        return "a dimension is along an axis that does not exist"
    sizes = {name: axis.values.size for name, axis in one.axes.items()}
    spans = [(one.along.get(dim, ""), n) for dim, n in zip(one.stated.dims, one.shape, strict=True)]
    spans += [span for part in one.parts.values() for span in zip(part.axes, part.shape, strict=False)]
    return None if all(sizes.get(axis, n) == n for axis, n in spans) else "it has another size than an axis"


def _is_shape(shape: tuple[int, ...]) -> bool:
    return all(0 <= n < 2**63 for n in shape)


_CONSISTENT: dict[type, Callable[[Any], str | None]] = {
    Coordinate: lambda one: None if one.values.ndim == 1 else "it does not have one dimension",
    Companion: _of_companion,
    Described: _of_described,
    FileState: lambda one: None if 0 <= one.size < 2**63 else "it has no such size",
}
