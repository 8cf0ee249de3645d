"""Columns of the signature of variables as text; for lists, only the parts in which two differ."""

from __future__ import annotations

from typing import Any

__all__ = ["differing"]

#: Columns of lists, whose items begin with a name.
_LISTS = ("axes", "other coordinates and ancillary variables", "formula terms", "cell measures", "names of attributes")


#: For a grid mapping whose coordinates, or their order, are given neither by the attribute nor by the projection.
_UNNAMED = "no coordinates named"


def differing(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the values of one column of the signature of two variables; for lists, the parts that differ.

    >>> differing("units", ((("K", 1),), False), None)
    ('K', 'none')
    """
    try:
        return _differing(name, a, b)
    except (AttributeError, LookupError, TypeError, ValueError):
        return str(a), str(b)  # only records of files that somebody forged have such values


def _differing(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    if name in _LISTS and isinstance(a, tuple) and isinstance(b, tuple):
        ours, theirs = ([x for x in one if x not in other] for one, other in ((a, b), (b, a)))
        # If no items remain, only the order differs.
        return _listed(name, ours), _listed(name, theirs)
    if name == "grid mapping" and isinstance(a, tuple) and isinstance(b, tuple):
        return _mappings(a, b)
    return _value(name, a), _value(name, b)


def _value(name: str, value: Any) -> Any:
    """Return one value; numbers and booleans are unchanged."""
    if value is None:
        return "none"
    if name == "units":
        return _units(value)
    if name == "cell methods":
        return ", ".join(_method(*entry) for entry in value) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return value


def _units(value: Any) -> str:
    """Return the meaning of units in words."""
    if value is None:
        return "without units"
    if not isinstance(value, tuple):
        return str(value)
    if value[0] == "reference time":
        return " ".join([f"a reference time of calendar {value[1]}", *(f"in {own!r}" for own in value[2:])])
    return " ".join(f"{unit}{power if power != 1 else ''}" for unit, power in value[0]) or "dimensionless"


def _method(axes: tuple[Any, ...], method: str, *areas: str | None) -> str:
    where, over, norm, period = areas
    said = [f"{word} {value}".strip() for word, value in (("", norm), ("where", where), ("over", over)) if value]
    spacings = [f"interval: {spacing[0]:g} {spacing[1]}" for _, spacing in axes if spacing is not None]
    comment = [f"({' '.join(dict.fromkeys(spacings))})"] * bool(spacings)
    return " ".join([*(f"{name}:" for name, _ in axes), method, *said, *([period] if period else []), *comment])


def _listed(name: str, items: list[Any]) -> str:
    return "; ".join(_item(name, item) for item in items) or "none"


def _item(name: str, item: Any) -> str:
    """Return one item of a column of lists in words."""
    if name == "axes":
        identity, units, bounds, climatology, positive = item
        said = [_units(units), "with bounds" if bounds else "without bounds"]
        said += ["of a climatology"] * climatology + [f"positive {positive}"] * bool(positive)
        return f"{identity} ({', '.join(said)})"
    if name == "other coordinates and ancillary variables":
        identity, role, axes, units = item
        along = ", ".join(a or "a dimension of its own" for a in axes)
        return f"{identity} ({role}, {f'along {along}' if along else 'of one value'}, {_units(units)})"
    if name == "formula terms":
        identity, kind, term, there = item
        return f"{kind} {term} of {identity}{'' if there else ', which does not exist'}"
    if name == "cell measures":
        return f"{item[0]} ({'in the file' if item[1] is None else f'{item[1]} in another file'})"
    return str(item)


def _mappings(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[str, str]:
    """Return the first attribute in which grid mappings differ, or else the coordinates that belong to them."""
    if len(a) != len(b):
        return f"{len(a)} of them", f"{len(b)} of them"
    for (ours, of_ours), (theirs, of_theirs) in zip(a, b, strict=True):
        one, other = dict(ours), dict(theirs)
        for key in sorted({*one, *other}):
            if key not in one or key not in other or one[key] != other[key]:
                said = (f"{key} {own[key]}" if key in own else f"without {key}" for own in (one, other))
                return next(said), next(said)
        if of_ours != of_theirs:
            return ", ".join(of_ours) or _UNNAMED, ", ".join(of_theirs) or _UNNAMED
    return "the same", "the same"
