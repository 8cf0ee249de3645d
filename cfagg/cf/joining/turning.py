"""Bringing companions of variables into one order of dimensions, since cell areas, say, are the same in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.joining.described import UNNAMED, Companion, Described

__all__ = ["places_of", "sorted_axes", "turned", "upright"]

_ORDER = "order of the dimensions of {}, its own mirror image,"


def sorted_axes(axes: Sequence[str], dims: int) -> tuple[str, ...]:
    """Return the axes of the first `dims` dimensions in a canonical order, followed by the others."""
    return (*sorted(axes[:dims]), *axes[dims:])


def upright(values: npt.NDArray[Any], axes: Sequence[str]) -> npt.NDArray[Any]:
    """Return values with their dimensions in the order of `sorted_axes`."""
    order = sorted(range(values.ndim), key=lambda d: axes[d] if d < len(axes) else "~")
    return values.transpose(order)


def turn_of(axes: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """Return the position of each wanted dimension, or `None` for other axes; several non-axes keep their order.

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


def places_of(part: Companion, axes: Sequence[str]) -> list[int]:
    """Return the position among `axes` of each dimension of a companion, which need not have dimensions for all.

    Flags with the dimensions ``(longitude, latitude)`` that name a scalar time have the places 2 and 1 among time,
    latitude and longitude.
    """
    dims, further = part.axes[: len(part.shape)], part.axes[len(part.shape) :]
    found = turn_of(axes, (*dims, *(a for a in further if a in axes)))
    if found is None:
        raise ValueError(f"{part.stated.name} has the axes {part.axes}, not {axes}")
    return found[: len(dims)]


def turned(described: Sequence[Described]) -> list[Described]:
    """Return descriptions in which companions of variables that may be joined have the order of the first.

    Values that were not kept stay unchanged.  It must be called before `members_of`.
    """
    described = _swapped(described, _signatures(described))
    signature = _signatures(described)
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
                wanted = _elements_first(own.axes, len(own.shape)) if own.role == "mesh" else own.axes
                n = len(own.shape)
                base = first.setdefault((key[0], name, n, sorted_axes(own.axes, n)), wanted)
                parts[name] = own if base == own.axes else _turned(own, base)
            changed = any(parts[name] is not one.parts[name] for name in several & parts.keys())
            memo[key] = parts if changed else one.parts
        out.append(one if memo[key] is one.parts else replace(one, parts=memo[key]))
    return out


def _elements_first(axes: Sequence[str], dims: int) -> tuple[str, ...]:
    """Return the axes with that of a mesh's elements first, as connectivity has it unless its mesh says otherwise."""
    return (*sorted(axes[:dims], key=lambda axis: not axis or axis.startswith(UNNAMED)), *axes[dims:])


def _signatures(described: Sequence[Described]) -> dict[int, int]:
    """Return a number for each signature by its identity, the same for equal signatures."""
    numbers: dict[Any, int] = {}
    distinct = {id(one.signature): one.signature for one in described}
    return {key: numbers.setdefault(tuple(own.items()), len(numbers)) for key, own in distinct.items()}


def _swapped(described: Sequence[Described], signature: Mapping[int, int]) -> list[Described]:
    """Return descriptions in which two counted dimensions have the names of the first with the same values.

    The dimensions are numbered in the order in which a coordinate that spans both is stored.  If it is its own mirror
    image, the next one that spans both decides.
    """
    seen: dict[Any, Described] = {}
    made: dict[tuple[int, ...], Described] = {}
    contents: dict[tuple[int, str], tuple[Any, Any] | None] = {}
    mirrored: dict[Any, dict[tuple[str, ...], set[tuple[int, int]]]] = {}
    for one in described:
        key = id(one.axes), id(one.parts), id(one.along)
        for name, part in one.parts.items() if key not in made else ():
            pair = f"index 0 of {name}", f"index 1 of {name}"
            if part.axes != pair or part.values is None or not one.axes.keys() >= set(pair):
                continue
            number = signature[id(one.signature)]
            found = _telling(one.parts, name, pair, contents)
            if found is None:
                alike = mirrored.setdefault((number, name, part.shape), {})
                alike.setdefault(part.stated.dims, set()).add((number, id(one.parts)))
                continue
            own, turn = ((number, found[0], content) for content in found[1:])
            if own not in seen:
                first = seen.get(turn)
                if first is not None:
                    made[key] = _renamed(one, dict(zip(pair, pair[::-1], strict=True)), first)
                    break
                seen[own] = one
    # If one name is in both positions, either the values or the names are swapped, which cannot be decided.
    orders = {
        key: (_ORDER.format(name), f"({', '.join(dims)})")
        for (_, name, _), alike in mirrored.items()
        for dims, keys in alike.items()
        if any(dims != b and (dims[0] == b[1] or dims[1] == b[0]) for b in alike)
        for key in keys
    }
    signatures: dict[Any, Mapping[str, Any]] = {}
    out = []
    for one in described:
        own_turn = made.get((id(one.axes), id(one.parts), id(one.along)), one)
        said = orders.get((signature[id(one.signature)], id(one.parts)))
        if own_turn is not one or said is not None:
            stated = one.signature
            if said is not None:
                stated = signatures.setdefault((id(stated), said), {**stated, said[0]: said[1]})
            digest = one.digest if own_turn is one else b""
            out.append(
                replace(
                    one,
                    signature=stated,
                    axes=own_turn.axes,
                    parts=own_turn.parts,
                    along=own_turn.along,
                    digest=digest,
                )
            )
        else:
            out.append(one)
    return out


def _telling(
    parts: Mapping[str, Companion],
    name: str,
    pair: tuple[str, str],
    contents: dict[tuple[int, str], tuple[Any, Any] | None],
) -> tuple[str, Any, Any] | None:
    """Return the name and values, in both orders, of a companion that distinguishes two dimensions."""
    for other in (name, *sorted(parts.keys() - {name})):
        key = id(parts[other]), name
        if key not in contents:
            contents[key] = _both_ways(parts[other], pair)
        both = contents[key]
        if both is not None and both[0] != both[1]:
            return other, *both
    return None


def _both_ways(part: Companion, pair: tuple[str, str]) -> tuple[Any, Any] | None:
    """Return hashable values along two axes, in both orders; or `None` if they span others too."""
    axes = part.axes
    if part.values is None or len(axes) != len(part.shape) or sorted(a for a in axes if a) != list(pair):
        return None
    turn = [axes.index(a) for a in pair] + [d for d, a in enumerate(axes) if not a]
    values = part.values.transpose(turn)
    return _content(values), _content(values.swapaxes(0, 1))


def _content(values: npt.NDArray[Any]) -> tuple[Any, ...]:
    raw = repr(values.tolist()).encode() if values.dtype == object else values.tobytes()
    return values.shape, values.dtype.str, blake2b(raw, digest_size=16).digest()


def _renamed(one: Described, names: Mapping[str, str], first: Described) -> Described:
    """Return a description with the names of two axes of another one; digests are of values in the other order."""

    def renamed(part: Companion) -> Companion:
        axes = tuple(names.get(a, a) for a in part.axes)
        return replace(part, axes=axes, digest=part.digest if axes == part.axes else b"")

    return replace(
        one,
        axes={n: first.axes[n] if n in names else own for n, own in one.axes.items()},
        along={dim: names.get(n, n) for dim, n in one.along.items()},
        parts={n: renamed(p) for n, p in one.parts.items()},
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
