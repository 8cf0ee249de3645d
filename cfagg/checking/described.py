"""The grid and fragments that each aggregation variable of a dataset describes, or why it has none."""

from __future__ import annotations

import re
import warnings
from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context, once
from cfagg.checking.instructions import Instructions, aggregations, instructions, text_dimensions, values_of
from cfagg.conventions import detection
from cfagg.conventions.marks import mark_of
from cfagg.conventions.nca_shapes import Private
from cfagg.conventions.partition_stream import BrokenJSONError
from cfagg.conventions.scope import Described, Scope
from cfagg.conventions.tolerant_json import MisprintWarning
from cfagg.errors import CfaggError, ConventionError, LimitError, Problem
from cfagg.model import Aggregation
from cfagg.model.dataset import Group, Variable

__all__ = ["Description", "described", "is_private"]

#: Attributes whose problems are those of the aggregation that they describe.
_DESCRIBING = ("nca_array", "cfa_array", "cfa_group")


@dataclass(eq=False)
class Description:
    """The description in one aggregation variable; `aggregation` is `None` if it could not be parsed.

    `problems` are those of JSON; other rules report those of other dialects. `misprints` are repairs of JSON syntax,
    `repairs` other repairs or omissions, `limit` why it was not read if it is too large. `broken` JSON is not one
    strict object, not even after a repair.
    """

    variable: Variable
    aggregation: Aggregation | None
    problems: tuple[Problem, ...] = ()
    misprints: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    limit: str = ""
    broken: bool = False


@once
def described(c: Context) -> dict[Variable, Description]:
    """Return the description in each aggregation variable, in the order of the variables."""
    known = instructions(c)
    return {v: _description(v, known.get(v), c) for v in aggregations(c)}


def is_private(variable: Variable) -> bool:
    """Return whether a variable only holds sub-arrays of aggregations in the same file."""
    if variable.text("cf_role") in ("nca_private", "cfa_private"):
        return True
    value = variable.numbers("nca_private")
    return value is not None and value.size == 1 and value.dtype.kind in "iu" and bool(value[0])


def _description(v: Variable, said: Instructions | None, c: Context) -> Description:
    attributes = {k: a for k, a in v.attributes.items() if _is_plain(a)}
    for prefix in ("nca", "cfa"):
        if f"{prefix}_array" in v.attributes or f"{prefix}_group" in v.attributes:
            attributes[f"{prefix}_dimensions"] = v.text(f"{prefix}_dimensions") or ""
    if any(name in v.attributes and v.text(name) is None for name in _DESCRIBING):
        return Description(v, None)  # the rules of the attributes report it
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = detection.parse(v.name, attributes, v.dtype, _scope(v, said, c))
        except LimitError as error:
            return Description(v, None, limit=error.message)
        except CfaggError as error:
            if said is not None or mark_of(attributes) not in _DESCRIBING:
                return Description(v, None)  # the rules of the attributes report it
            problems = error.problems or (Problem("", error.message),)
            bare = tuple(Problem(p.where, _bare(p.message)) for p in problems)
            return Description(v, None, bare, broken=isinstance(error, BrokenJSONError))
    misprints, others = (
        tuple(_bare(str(w.message)) for w in caught if issubclass(w.category, MisprintWarning) is wanted)
        for wanted in (True, False)
    )
    return Description(v, made, (), misprints, others)


@once
def _visible(_: Context, group: Group) -> tuple[MutableMapping[str, int], Private]:
    """Return the sizes of dimensions, and the variables that only hold sub-arrays, that a group can see."""
    sizes: dict[str, int] = {}
    private: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    for one in reversed(list(group.ancestors())):
        sizes |= {d.name: d.size for d in one.dimensions.values()}
        private |= {o.name: (o.dims, o.shape) for o in one.variables.values() if is_private(o)}
    return sizes, private


def _scope(v: Variable, said: Instructions | None, c: Context) -> Scope:
    """Return the part of its dataset that an aggregation variable refers to."""
    sizes, private = _visible(c, v.group)
    if said is not None and said.sizes is not None and said.sizes.values.shape[:1] == (len(v.dims),):
        # In a format without named dimensions, such as Zarr, the sizes of the fragments give the size of the array.
        whole = np.where(said.sizes.valid, said.sizes.values, 0).reshape(len(v.dims), -1).sum(axis=1).tolist()
        sizes = ChainMap(sizes, dict(zip(v.dims, map(int, whole), strict=True)))

    def variable(name: str) -> Variable | None:
        return c.resolver.variable(name, v.group)[0]

    def find(name: str) -> Described | None:
        target = variable(name)
        if target is None:
            return None
        dims = text_dimensions(target)
        dtype = np.dtype(object) if target.is_text else target.dtype if target.is_numeric else np.dtype("V8")
        return Described(tuple(d.name for d in dims), tuple(d.size for d in dims), dtype, target.attributes)

    def values(name: str) -> npt.NDArray[Any]:
        target = variable(name)
        found = None if target is None else values_of(c, target)
        if found is None:
            raise ConventionError(f"the values of {name!r} are not known")
        return np.ma.MaskedArray(found.values, ~found.valid)

    def dimension(name: str) -> str:
        found = c.resolver.dimension(name, v.group)
        return name if found is None or found is not c.resolver.dimension(found.name, v.group) else found.name

    conventions = c.dataset.root.text("Conventions") or ""
    return Scope(sizes, private, find, values, conventions, c.options.substitutions, dimension=dimension)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | np.ndarray | tuple)


def _bare(message: str) -> str:
    """Return a message without the name of the variable at its start."""
    return re.sub(r"\Avariable '[^']{0,200}': ", "", message)
