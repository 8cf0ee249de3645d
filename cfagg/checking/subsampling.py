"""Coordinates stored as tie points and their interpolation: CF section 8.3 and appendix J."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cfagg.cf.lists import interpolations, pairs
from cfagg.checking.context import Context, once
from cfagg.checking.spans import own_span
from cfagg.model.dataset import Dimension, Variable

__all__ = [
    "METHODS", "MappedDimension", "Method", "Use", "interpolated", "interpolation_variables", "mapping", "sound",
    "unsound", "uses",
]  # fmt: skip


class Method(NamedTuple):
    """An interpolation method of appendix J: the dimensions that it interpolates, its terms and the required ones."""

    dimensions: int
    terms: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()


_FLAGS = frozenset({"interpolation_subarea_flags"})

#: Methods by the value of ``interpolation_name``.
METHODS = {
    "linear": Method(1),
    "bi_linear": Method(2),
    "quadratic": Method(1, frozenset({"w"})),
    "quadratic_latitude_longitude": Method(1, frozenset({"ce", "ca"}) | _FLAGS, _FLAGS),
    "bi_quadratic_latitude_longitude": Method(
        2, frozenset({"ce1", "ca1", "ce2", "ca2", "ce3", "ca3"}) | _FLAGS, _FLAGS
    ),
}


class MappedDimension(NamedTuple):
    """One interpolated dimension in a ``tie_point_mapping``: four names and the object of each, `None` if absent."""

    interpolated: str
    indices: str
    subsampled: str
    subarea: str
    interpolated_dimension: Dimension | None
    index_variable: Variable | None
    subsampled_dimension: Dimension | None
    subarea_dimension: Dimension | None


class Use(NamedTuple):
    """Tie point variables of a data variable (`parent`, with dimensions `span`) and their interpolation variable."""

    parent: Variable
    span: tuple[Dimension, ...]
    ties: list[Variable]
    interpolation: Variable


@once
def uses(c: Context) -> list[Use]:
    """Return the uses in ``coordinate_interpolation`` attributes whose variables exist."""
    found = []
    for v in c.with_attribute("coordinate_interpolation"):
        for names, interpolation in interpolations(v.text("coordinate_interpolation") or "") or ():
            target, _ = c.resolver.variable(interpolation, v.group)
            ties = [t for t in (c.resolver.variable(n, v.group)[0] for n in names) if t is not None]
            if target is not None:
                found.append(Use(v, own_span(c, v), ties, target))
    return found


@once
def interpolation_variables(c: Context) -> list[Variable]:
    """Return the interpolation variables in order."""
    marks = ("interpolation_name", "interpolation_description", "tie_point_mapping")
    return [
        v
        for v in c.dataset.variables
        if v in c.roles.interpolations or (not v.stored and any(m in v.attributes for m in marks))
    ]


@once
def mapping(c: Context, v: Variable) -> list[MappedDimension] | None:
    """Return the parts of the ``tie_point_mapping`` of an interpolation variable, or `None` if it is malformed."""
    parsed = pairs(v.text("tie_point_mapping") or "")
    if not parsed or any(not 2 <= len(names) <= 3 for _, names in parsed):
        return None
    found = []
    for key, names in parsed:
        subarea = names[2] if len(names) == 3 else ""
        found.append(
            MappedDimension(
                key,
                names[0],
                names[1],
                subarea,
                c.resolver.dimension(key, v.group),
                c.resolver.variable(names[0], v.group)[0],
                c.resolver.dimension(names[1], v.group),
                c.resolver.dimension(subarea, v.group) if subarea else None,
            )
        )
    return found


def interpolated(c: Context, v: Variable) -> set[Dimension | None]:
    """Return the dimensions of a variable whose coordinates are interpolated."""
    used = [use.interpolation for use in uses(c) if use.parent is v]
    return {part.interpolated_dimension for x in used for part in mapping(c, x) or ()}


@once
def _parents(c: Context) -> dict[int, set[frozenset[Dimension]]]:
    """Return the dimensions of the variables that use each interpolation variable."""
    found: dict[int, set[frozenset[Dimension]]] = {}
    for use in uses(c):
        found.setdefault(id(use.interpolation), set()).add(frozenset(use.span))
    return found


def unsound(c: Context, v: Variable, parts: list[MappedDimension]) -> Iterator[str]:
    """Yield the errors in parts of the ``tie_point_mapping`` of an interpolation variable."""
    parents = _parents(c).get(id(v), set())
    seen: dict[str, set[str]] = {"interpolated": set(), "subsampled": set(), "subarea": set(), "indices": set()}
    for part in parts:
        for kind, named in seen.items():
            name = getattr(part, kind)
            if name and name in named:
                yield f"{name!r} is mapped twice; each {kind} name occurs once"
            named.add(name)
        for kind in ("interpolated", "subsampled", "subarea"):
            name, dimension = getattr(part, kind), getattr(part, f"{kind}_dimension")
            if name and dimension is None:
                yield f"there is no dimension {name!r}; expected the {kind} dimension"
            elif name and kind == "interpolated" and any(dimension not in p for p in parents):
                yield f"{name!r} is not a dimension of the data variable that is interpolated"
            elif name and kind != "interpolated" and any(dimension in p for p in parents):
                yield f"the {kind} dimension {name!r} is one of the data variable; expected one of its own"


@once
def sound(c: Context, v: Variable) -> list[MappedDimension] | None:
    """Return the parts of a ``tie_point_mapping``, or `None` if there is an error in them."""
    parts = mapping(c, v)
    return parts if parts is not None and next(unsound(c, v, parts), None) is None else None
