"""The group attribute of the accumulation convention as a tree, and the two JSON schemas that attributes follow.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5).  The schemas are shipped unchanged in
``schemas/``.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations as subsets
from typing import Any, NamedTuple

from cfagg.conventions import limits
from cfagg.conventions.accumulation_model import Combinations, Dims, Names
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import LimitError

__all__ = [
    "ARRAY",
    "GROUP",
    "KEY",
    "KINDS",
    "inspect",
    "is_dimension",
    "is_integer",
    "is_node_name",
    "path_text",
    "read_tree",
    "schema",
    "validate",
    "write_tree",
]

#: Names of the two schemas.
GROUP, ARRAY = "accumulation_group", "accumulation_array"

#: The keys that name arrays; every other key of the group attribute is a dimension.
KINDS = ("_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS")

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch

#: The types of JSON that the schemas name.
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    # As in JSON schema, 2.0 is one and true is not.
    "integer": lambda v: type(v) is int or (type(v) is float and v.is_integer()),
}
is_integer = _TYPES["integer"]


@cache
def schema(name: str) -> dict[str, Any]:
    """Return one of the two shipped schemas."""
    loaded: dict[str, Any] = json.loads(pkgutil.get_data("cfagg.conventions", f"schemas/{name}.json") or b"")
    return loaded


@cache
def _validator(name: str) -> Any:
    """Return the validator of a schema, created once because that costs as much as a thousand uses."""
    from jsonschema import Draft7Validator

    return Draft7Validator(schema(name))


def validate(document: Any, name: str, findings: Findings) -> None:
    """Note whether a document to be written breaks its schema, with jsonschema, which knows all of its rules."""
    document = _part(document, name, findings)
    for error in _validator(name).iter_errors(document):
        findings.problem(path_text(error.absolute_path), f"breaks the rule {error.validator!r} of its JSON schema")


def inspect(document: Any, name: str, findings: Findings) -> None:
    """Note every violation of a schema in the part of a document that it covers, rule by rule."""
    # Without jsonschema, since loading it takes longer than any query of an accumulation.
    found = _broken(_part(document, name, findings), schema(name), (), schema(name))
    for path, message in sorted(found, key=lambda f: [str(step) for step in f[0].of]):
        findings.problem(path_text([*path.of, *path.key]), message)


def _part(document: Any, name: str, findings: Findings) -> Any:
    """Return the part of a document that its schema covers, if its size is plausible."""
    if isinstance(document, Mapping):
        document = {key: document[key] for key in schema(name)["properties"] if key in document}
    _bound(document, findings.subject)
    return document


class _Where(NamedTuple):
    """Key path of the value concerned, and the key that is missing from it or superfluous."""

    of: tuple[str | int, ...]
    key: tuple[str, ...] = ()


def _broken(
    value: Any, rule: Mapping[str, Any], steps: tuple[str | int, ...], whole: Mapping[str, Any]
) -> Iterator[tuple[_Where, str]]:
    """Yield violations of a rule of a schema."""
    if "$ref" in rule:
        rule = whole["definitions"][rule["$ref"].rpartition("/")[2]]
    if not _TYPES[rule["type"]](value):
        yield _Where(steps), f"{rule['type']} expected, found {shorten(value)}"
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _broken(item, rule["items"], (*steps, i), whole)
    elif isinstance(value, dict):
        yield from ((_Where(steps, (key,)), "missing") for key in rule.get("required", ()) if key not in value)
        named, patterns = rule.get("properties", {}), rule.get("patternProperties", {})
        for key, inner in value.items():
            rules = [r for pattern, r in patterns.items() if re.search(pattern, key)]
            for below in [named[key]] if key in named else rules:
                yield from _broken(inner, below, (*steps, key), whole)
            if key not in named and not rules:
                yield _Where(steps, (key,)), _not_a_dimension(key)


def _bound(document: Any, subject: str) -> None:
    """Raise `LimitError` for a document that is expensive to examine; not recursive itself."""
    level, depth, count = [document], 0, 0
    while level:
        if depth > limits.MAX_DEPTH + 2:
            raise LimitError(f"{subject}: accumulation attributes are nested deeper than {limits.MAX_DEPTH} dimensions")
        below: list[Any] = []
        for value in level:
            if isinstance(value, (dict, list)):
                below.extend(value.values() if isinstance(value, dict) else value)
            if count + len(below) > 4 * limits.MAX_COMBINATIONS:
                raise LimitError(
                    f"{subject}: accumulation attributes have more than {4 * limits.MAX_COMBINATIONS} parts; "
                    f"no array needs that many (the cap is cfagg.conventions.limits.MAX_COMBINATIONS)"
                )
        count += len(below)
        level, depth = below, depth + 1


def is_dimension(key: str) -> bool:
    """Return whether the schema treats a key as the name of a dimension."""
    return any(re.search(pattern, key) for pattern in schema(GROUP)["properties"][KEY]["patternProperties"])


def _not_a_dimension(key: str) -> str:
    kind = next((k for k in KINDS if key.startswith(k)), None)
    if kind == key:
        return "names an array without a dimension; it belongs inside an object that is named after a dimension"
    if kind:
        return f"no dimension may have a name that begins with {kind}"
    return "no dimension may have a line break in its name"


def path_text(steps: Iterable[str | int]) -> str:
    """Return a key path as text, such as ``tree.time['a b'][3]``."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN(step) and len(step) <= 60:
            text += f".{step}" if text else step
        else:
            text += f"[{shorten(step)}]"
    return text


#: Name of the group attribute.
KEY = "_ACCUMULATION_GROUP"

#: Unused combinations of up to this many dimensions are written as empty objects.  Absent ones mean the same, and each
#: further dimension would double the attribute.
_WRITTEN_OUT = 8


_NODE_NAME = re.compile(r"(?!\.|__)[^/\\\x00-\x1f\ud800-\udfff]{1,255}").fullmatch


def is_node_name(name: str) -> bool:
    """Return whether a text can name an array inside a Zarr group, and nothing elsewhere."""
    return _NODE_NAME(name) is not None and name != "zarr.json"


def _walk(tree: Mapping[str, Any]) -> Iterator[tuple[Dims, dict[str, str]]]:
    """Yield path and array names of every object in the tree; values of other types are left to the schema check."""
    waiting: list[tuple[Dims, Mapping[str, Any]]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if path:
            yield path, {k: v for k, v in node.items() if k in KINDS and isinstance(v, str)}
        if path and path[-1] in path[:-1]:
            continue  # reported by the caller; anything below it is wrong, too
        inner = [(k, v) for k, v in node.items() if is_dimension(k) and isinstance(v, Mapping)]
        waiting.extend(((*path, k), v) for k, v in reversed(inner))


def read_tree(tree: Any, dims: Dims | None, findings: Findings) -> Combinations:
    """Return the arrays that a group attribute names; without `dims`, dimensions are in the order of the attribute."""
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
    # Names precede the dimensions below them, and combinations are in the order of the dimensions.
    for key in sorted(keys, key=lambda key: [dims.index(d) for d in key]):
        node = tree
        for d in key:
            node = node.setdefault(d, {})
        if key in combinations:
            node.update(combinations[key].as_dict())
    return tree
