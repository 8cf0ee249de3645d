"""The group attribute of the accumulation convention as a tree, and the two JSON schemas that attributes follow.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5).  The schemas are shipped as they stand
there, in ``schemas/``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import combinations as subsets
from typing import Any

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

#: The attributes that they speak of.
_KEYS = {GROUP: ("_ACCUMULATION_GROUP",), ARRAY: ("_ARRAY_DIMENSIONS", "_ACCUMULATION_STRIDE")}

#: The keys that name arrays; every other key of the group attribute is a dimension.
KINDS = ("_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS")

_DIMENSION = re.compile(rf"^(?!{'|'.join(KINDS)}).*$")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch


def schema(name: str) -> dict[str, Any]:
    """Return one of the two schemas as it is shipped."""
    text = resources.files("cfagg.conventions").joinpath("schemas", f"{name}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def _validator(name: str) -> Any:
    """Return the validator of a schema; made once, since it costs as much as a thousand uses."""
    from jsonschema import Draft7Validator

    return Draft7Validator(schema(name))


def validate(document: Any, name: str, findings: Findings) -> None:
    """Note whether a document that is to be written breaks its schema, by the schema itself."""
    # Reading goes without it (`inspect`): loading the library takes longer than any question to an accumulation.
    document = _part(document, name, findings)
    for error in _validator(name).iter_errors(document):
        findings.problem(path_text(error.absolute_path), f"breaks the rule {error.validator!r} of its JSON schema")


def inspect(document: Any, name: str, findings: Findings) -> None:
    """Note everything that breaks a schema in the part of a document that it speaks of."""
    document = _part(document, name, findings)
    if not isinstance(document, dict):
        findings.problem("", f"object expected, found {shorten(document)}")
        return
    found = _in_group(document) if name == GROUP else _in_array(document)
    for steps, place, message in sorted(found, key=lambda f: [str(step) for step in f[0]]):
        findings.problem(path_text([*steps, *place]), message)


def _part(document: Any, name: str, findings: Findings) -> Any:
    """Return the part of a document that its schema speaks of, if it is of a true one's size."""
    if isinstance(document, Mapping):
        document = {key: document[key] for key in _KEYS[name] if key in document}
    _bound(document, findings.subject)
    return document


#: What is wrong: the key path of the object concerned, what follows it in messages, and the message.
_Wrong = tuple[tuple[str | int, ...], tuple[str | int, ...], str]


def _in_array(document: dict[str, Any]) -> Iterator[_Wrong]:
    """Yield what is wrong with the attributes of an array."""
    kinds: tuple[tuple[str, str, Callable[[object], bool]], ...] = (
        ("_ARRAY_DIMENSIONS", "string", lambda v: isinstance(v, str)),
        ("_ACCUMULATION_STRIDE", "integer", is_integer),
    )
    for key, kind, fits in kinds:
        if key not in document:
            yield (), (key,), "missing"
        elif not isinstance(document[key], list):
            yield (key,), (), f"array expected, found {shorten(document[key])}"
        else:
            for i, value in enumerate(document[key]):
                if not fits(value):
                    yield (key, i), (), f"{kind} expected, found {shorten(value)}"


def _in_group(document: dict[str, Any]) -> Iterator[_Wrong]:
    """Yield what is wrong with the attribute of a group."""
    (key,) = _KEYS[GROUP]
    if key not in document:
        yield (), (key,), "missing"
        return
    waiting: list[tuple[tuple[str, ...], Any]] = [((key,), document[key])]
    while waiting:
        steps, node = waiting.pop()
        if not isinstance(node, dict):
            yield steps, (), f"object expected, found {shorten(node)}"
            continue
        # No array is named outside of a dimension.
        kinds = KINDS if len(steps) > 1 else ()
        for name, value in node.items():
            if is_dimension(name):
                waiting.append(((*steps, name), value))
            elif name not in kinds:
                yield steps, (name,), _not_a_dimension(name)
            elif not isinstance(value, str):
                yield (*steps, name), (), f"string expected, found {shorten(value)}"


def is_integer(value: Any) -> bool:
    """Return whether a JSON value is an integer as JSON schema has it: 2.0 is one, true is not."""
    return type(value) is int or (type(value) is float and value.is_integer())


def _bound(document: Any, subject: str) -> None:
    """Raise `LimitError` for a document that would cost much to look at; takes no recursion itself."""
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
    """Return whether the schema takes a key for the name of a dimension."""
    return _DIMENSION.search(key) is not None


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

#: Unused combinations of so many dimensions are still written out as empty objects; absent ones read alike, and every
#: dimension more would double the attribute.
_WRITTEN_OUT = 8


def is_node_name(name: str) -> bool:
    """Return whether a text can name an array inside a Zarr group, and leads nowhere else."""
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
    """Return what a group attribute names; without `dims`, dimensions stand in the order of the attribute."""
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
