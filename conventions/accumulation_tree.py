"""The group attribute as a tree: which combination of dimensions names which arrays, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations as subsets
from typing import Any

from cfagg.conventions.accumulation_model import Combinations, Dims, Names
from cfagg.conventions.accumulation_schema import KINDS, is_dimension, path_text
from cfagg.conventions.findings import Findings, shorten

__all__ = ["KEY", "is_node_name", "read_tree", "write_tree"]

#: Name of the group attribute.
KEY = "_ACCUMULATION_GROUP"

#: Unused combinations of so many dimensions are still written out as empty objects; absent ones read alike, and every
#: dimension more would double the attribute.
_WRITTEN_OUT = 8


def is_node_name(name: str) -> bool:
    """Return whether a text can name an array inside a Zarr group, and leads nowhere else.

    >>> is_node_name("acc_time"), is_node_name("../tas"), is_node_name("zarr.json")
    (True, False, False)
    """
    return (
        0 < len(name) <= 255
        and not any(c in "/\\" or ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in name)
        and not name.startswith((".", "__"))
        and name != "zarr.json"
    )


def _walk(tree: Mapping[str, Any]) -> Iterator[tuple[Dims, dict[str, str]]]:
    """Yield path and array names of every object in the tree; what is not an object or text is the schema's affair."""
    waiting: list[tuple[Dims, Mapping[str, Any]]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if path:
            yield path, {k: v for k, v in node.items() if k in KINDS and isinstance(v, str)}
        if path and path[-1] in path[:-1]:
            continue  # told where it stands; what is below it cannot be right either
        inner = [(k, v) for k, v in node.items() if is_dimension(k) and isinstance(v, Mapping)]
        waiting.extend(((*path, k), v) for k, v in reversed(inner))


def read_tree(tree: Any, dims: Dims | None, findings: Findings) -> Combinations:
    """Return what a group attribute names.

    Parameters
    ----------
    tree : JSON value
        Value of ``_ACCUMULATION_GROUP``.
    dims : tuple of str, optional
        Dimensions of the source array.  Without them, a combination's dimensions stand in the order of the attribute.
    findings : Findings
        Collects the problems.
    """
    found: dict[frozenset[str], tuple[Dims, dict[str, str]]] = {}
    owners: dict[str, str] = {}
    for path, named in _walk(tree if isinstance(tree, Mapping) else {}):
        where = path_text([KEY, *path])
        if path[-1] in path[:-1]:
            findings.problem(where, f"the dimension {shorten(path[-1])} occurs twice on this path")
            continue
        if dims is not None and path[-1] not in dims:
            findings.problem(where, f"the array has no dimension {shorten(path[-1])}; its dimensions are {list(dims)}")
        if not named:
            continue
        names = frozenset(path)
        if names in found:
            before, other = found[names]
            if other != named:
                findings.problem(
                    where, f"these dimensions name other arrays under {path_text([KEY, *before])}; keep one of the two"
                )
            continue
        found[names] = path, named
        for kind, array in named.items():
            place = path_text([KEY, *path, kind])
            if not is_node_name(array):
                findings.problem(place, f"not the name of an array in this group: {shorten(array)}")
            elif array in owners:
                findings.problem(place, f"the array {shorten(array)} is already named by {owners[array]}")
            owners.setdefault(array, place)
    rank = {d: i for i, d in enumerate(dims or ())}
    out: dict[Dims, Names] = {}
    for path, named in found.values():
        key = tuple(sorted(path, key=lambda d: rank.get(d, len(rank)))) if rank else path
        out[key] = Names(*(named.get(kind) for kind in KINDS))
    return Combinations(out)


def write_tree(combinations: Mapping[Dims, Names], dims: Dims) -> dict[str, Any]:
    """Return the nested objects of the group attribute, dimensions in the order of the source array."""
    keys: Sequence[Dims] = list(combinations)
    if len(dims) <= _WRITTEN_OUT:
        keys = [key for n in range(1, len(dims) + 1) for key in subsets(dims, n)]
    tree: dict[str, Any] = {}
    # Names stand before the dimensions below them, and combinations in the order of the dimensions.
    for key in sorted(keys, key=lambda key: [dims.index(d) for d in key]):
        node = tree
        for d in key:
            node = node.setdefault(d, {})
        if key in combinations:
            node.update(combinations[key].as_dict())
    return tree
