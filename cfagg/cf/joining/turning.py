"""What belongs to variables in one order of dimensions: cell areas are the same however they were stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import Companion, Described

__all__ = ["sorted_axes", "turn_of", "turned", "upright"]


def sorted_axes(axes: Sequence[str], dims: int) -> tuple[str, ...]:
    """Return the axes of so many dimensions in an order that is the same for all; those behind them stay there."""
    return (*sorted(axes[:dims]), *axes[dims:])


def upright(values: npt.NDArray[Any], axes: Sequence[str]) -> npt.NDArray[Any]:
    """Return values with their dimensions in the order of `sorted_axes`."""
    order = sorted(range(values.ndim), key=lambda d: axes[d] if d < len(axes) else "~")
    return values.transpose(order)


def turn_of(axes: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """Return for each dimension in the wanted order which one it is; `None` where these are other axes.

    Several that are no axes stay in their order.

    >>> turn_of(("longitude", "latitude", ""), ("latitude", "longitude", ""))
    [1, 0, 2]
    """
    left = list(enumerate(axes))
    found = []
    for axis in wanted:
        at = next((k for k, (_, own) in enumerate(left) if own == axis), None)
        if at is None:
            return None
        found.append(left.pop(at)[0])
    return None if left else found


def turned(described: Sequence[Described]) -> list[Described]:
    """Return descriptions in which what belongs to variables that may be joined has the order that the first has.

    Values that were not kept stay as they are. It has to stand before `members_of`.
    """
    signature = _signatures(described)
    described = _swapped(described, signature)
    orders: dict[str, set[tuple[str, ...]]] = {}
    for parts in {id(d.parts): d.parts for d in described}.values():
        for name, part in parts.items():
            if len(part.shape) > 1:
                orders.setdefault(name, set()).add(part.axes)
    several = {name for name, own in orders.items() if len(own) > 1}
    if not several:
        return list(described)
    first: dict[Any, tuple[str, ...]] = {}
    memo: dict[tuple[int, int], Mapping[str, Companion]] = {}
    out = []
    for one in described:
        key = signature[id(one.signature)], id(one.parts)
        if key not in memo:
            parts = dict(one.parts)
            for name in several & parts.keys():
                own = parts[name]
                base = first.setdefault((key[0], name, sorted_axes(own.axes, len(own.shape))), own.axes)
                parts[name] = own if base == own.axes else _turned(own, base)
            changed = any(parts[name] is not one.parts[name] for name in several & parts.keys())
            memo[key] = parts if changed else one.parts
        out.append(one if memo[key] is one.parts else replace(one, parts=memo[key]))
    return out


def _signatures(described: Sequence[Described]) -> dict[int, int]:
    """Return a number for each signature, by its identity: the same for equal ones."""
    numbers: dict[Any, int] = {}
    distinct = {id(one.signature): one.signature for one in described}
    return {key: numbers.setdefault(tuple(own.items()), len(numbers)) for key, own in distinct.items()}


def _swapped(described: Sequence[Described], signature: Mapping[int, int]) -> list[Described]:
    """Return descriptions in which the places along two dimensions are counted as in the first with that coordinate.

    They are called after the order in which the coordinate of both is stored.
    """
    seen: dict[Any, Described] = {}
    made: dict[tuple[int, int, int], Described] = {}
    contents: dict[int, tuple[Any, Any]] = {}
    out = []
    for one in described:
        key = id(one.axes), id(one.parts), id(one.along)
        for name, part in one.parts.items() if key not in made else ():
            pair = f"index 0 of {name}", f"index 1 of {name}"
            if part.axes != pair or part.values is None or not one.axes.keys() >= set(pair):
                continue
            if id(part) not in contents:
                contents[id(part)] = _content(part.values), _content(part.values.T)
            number = signature[id(one.signature)]
            own, other = ((number, content) for content in contents[id(part)])
            if own == other and _reversed(part, seen.get(own), name):
                # Either the values or the names are swapped, and nothing tells which.
                made[key] = replace(
                    one,
                    problem=f"{name} is its own mirror image, and its dimensions ({', '.join(part.stated.dims)}) stand "
                    "in another order than in another file; write both files with the same order of dimensions",
                )
                break
            if own not in seen:
                first = seen.get(other)
                if first is not None:
                    made[key] = _renamed(one, dict(zip(pair, pair[::-1], strict=True)), first)
                    break
                seen[own] = one
        out.append(
            replace(
                one,
                axes=made[key].axes,
                parts=made[key].parts,
                along=made[key].along,
                problem=one.problem or made[key].problem,
            )
            if key in made
            else one
        )
    return out


def _reversed(part: Companion, first: Described | None, name: str) -> bool:
    """Whether a coordinate has the same two dimensions as another description's, the other way round."""
    return first is not None and part.stated.dims == first.parts[name].stated.dims[::-1]


def _content(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    raw = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
    return values.shape, values.dtype.str, blake2b(raw, digest_size=16).digest()


def _renamed(one: Described, names: Mapping[str, str], first: Described) -> Described:
    """Return a description with other names of two axes, which another has."""
    return replace(
        one,
        axes={n: first.axes[n] if n in names else own for n, own in one.axes.items()},
        along={dim: names.get(n, n) for dim, n in one.along.items()},
        parts={n: replace(p, axes=tuple(names.get(a, a) for a in p.axes)) for n, p in one.parts.items()},
    )


def _turned(own: Companion, base: tuple[str, ...]) -> Companion:
    """Return a companion with its dimensions in the order of other axes."""
    n = len(own.shape)
    turn = turn_of(own.axes[:n], base[:n])
    if turn is None or own.values is None:
        return own
    dims = (*(own.stated.dims[d] for d in turn), *own.stated.dims[n:])
    values = (
        np.ascontiguousarray(own.values.transpose(turn)) if own.values.dtype != object else own.values.transpose(turn)
    )
    return replace(own, stated=replace(own.stated, dims=dims), shape=values.shape, axes=base, values=values)
