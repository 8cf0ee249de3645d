"""Dimensions that coordinates of a variable may have in addition to those of the variable.

Compression by gathering (CF section 8.2) and ragged arrays (sections 9.3.3, 9.3.4) replace several dimensions by one; a
domain variable (section 5.8) lists its dimensions in an attribute.
"""

from __future__ import annotations

from cfagg.checking.context import Context, once
from cfagg.model.dataset import Dimension, Variable

__all__ = ["coordinate_span", "own_span", "replaced", "span_is_known"]

#: Largest number of dimensions followed for one variable, far more than real datasets have.
_MOST = 1000


@once
def replaced(c: Context) -> dict[Dimension, tuple[Dimension, ...]]:
    """Return for each dimension that replaces others the dimensions that it directly replaces."""
    found: dict[Dimension, list[Dimension]] = {}
    for v in c.with_attribute("compress", "sample_dimension", "instance_dimension"):
        if len(v.dimensions) != 1:
            continue
        own = v.dimensions[0]
        for attribute in ("compress", "instance_dimension"):
            for name in v.words(attribute):
                target = c.resolver.dimension(name, v.group)
                if target is not None and target is not own:
                    found.setdefault(own, []).append(target)
        for name in v.words("sample_dimension"):
            target = c.resolver.dimension(name, v.group)
            if target is not None and target is not own:
                found.setdefault(target, []).append(own)
    return {d: tuple(dict.fromkeys(others)) for d, others in found.items()}


def own_span(c: Context, variable: Variable) -> tuple[Dimension, ...]:
    """Return the dimensions of a variable; for a domain variable, the existing ones that it names."""
    if "dimensions" in variable.attributes and variable in c.roles.domains:
        named = (c.resolver.dimension(n, variable.group) for n in variable.words("dimensions"))
        return tuple(d for d in named if d is not None)
    return variable.dimensions


def coordinate_span(c: Context, variable: Variable) -> set[Dimension]:
    """Return all dimensions that coordinates of `variable` may have.

    They are its own, those that were gathered into one of them, and the instance dimensions of ragged arrays.
    """
    others = replaced(c)
    span: set[Dimension] = set()
    waiting = list(own_span(c, variable))
    while waiting and len(span) < _MOST:
        dimension = waiting.pop()
        if dimension not in span:
            span.add(dimension)
            waiting.extend(others.get(dimension, ()))
    return span


@once
def span_is_known(c: Context) -> bool:
    """Whether all lists, counts and indices of gathering and ragged arrays are valid.

    An invalid one is a separate finding, and the dimensions that coordinates may span are unknown.
    """
    return all(
        _is_sound(c, v, attribute)
        for attribute in ("compress", "sample_dimension", "instance_dimension")
        for v in c.with_attribute(attribute)
    )


def _is_sound(c: Context, v: Variable, attribute: str) -> bool:
    """Whether a variable has one dimension, and the attribute names other existing dimensions."""
    if len(v.dimensions) != 1:
        return False
    named = [c.resolver.dimension(name, v.group) for name in v.words(attribute)]
    return bool(named) and None not in named and v.dimensions[0] not in named
