"""The group of a growing store: its arrays as described by consolidated metadata, which are published in one write.

A store is in the state that the consolidated metadata of its root describe. Documents of individual arrays are written
before; if a writer was killed in between, its record determines which of them to roll back.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any

from cfagg.conventions import limits
from cfagg.errors import SourceError, TargetError, UnsupportedError
from cfagg.formats.zarr.consolidated import are_same, consolidated
from cfagg.formats.zarr.creating import Documents, document_bytes
from cfagg.formats.zarr.documents import parse
from cfagg.writing.zarr.place import CLAIM, Claim, Place

__all__ = ["GroupState", "Level", "Node", "digest", "load", "recover", "take_back"]

#: Number of documents that are read concurrently.
_AT_ONCE = 16

#: Maximum number of nodes of a store without consolidated metadata.
_MOST_NODES = 100_000

#: Attribute of groups of accumulations.
_ACCUMULATION = "_ACCUMULATION_GROUP"


@dataclass(frozen=True)
class Node:
    """An array of the group: its documents by file name, in the state of the store."""

    path: str
    documents: Mapping[str, dict[str, Any]]

    @property
    def name(self) -> str:
        """Its name in the group."""
        return self.path.rpartition("/")[2]

    @property
    def document(self) -> dict[str, Any]:
        """The document that describes the array."""
        return self.documents["zarr.json" if "zarr.json" in self.documents else ".zarray"]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes as stored."""
        found = self.documents.get(".zattrs", {}) if ".zarray" in self.documents else self.document.get("attributes")
        return found if isinstance(found, dict) else {}

    @property
    def dims(self) -> tuple[str | None, ...]:
        """Names of the dimensions, or `None` for those without a name."""
        found = self.document.get("dimension_names") if "zarr.json" in self.documents else None
        if found is None:
            found = self.attributes.get("_ARRAY_DIMENSIONS")
        return tuple(found) if isinstance(found, list) else ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        found = self.document.get("shape")
        return tuple(found) if isinstance(found, list) else ()


@dataclass(frozen=True)
class Level:
    """A group with consolidated metadata: its path, and the key, content and tag of the document containing them."""

    path: str
    key: str
    document: dict[str, Any]
    tag: Any

    def relative(self, path: str) -> str:
        """Return the path of a node relative to this group."""
        return path[len(self.path) + 1 :] if self.path else path

    @property
    def held(self) -> dict[str, Any]:
        """The documents that it lists."""
        whole = self.document if self.key.endswith(".zmetadata") else self.document["consolidated_metadata"]
        found: dict[str, Any] = whole["metadata"]
        return found

    def changed(self, documents: Mapping[str, dict[str, Any]]) -> bytes:
        """Return the document with some nodes' documents replaced, given by key in the store."""
        more = {}
        for key, document in documents.items():
            inner = self.relative(key)
            more[inner if self.key.endswith(".zmetadata") else inner.removesuffix("/zarr.json")] = document
        held = {**self.held, **more}
        if self.key.endswith(".zmetadata"):
            return document_bytes({**self.document, "metadata": held})
        whole = {**self.document["consolidated_metadata"], "metadata": held}
        return document_bytes({**self.document, "consolidated_metadata": whole})


@dataclass(frozen=True)
class GroupState:
    """A group, and the levels at and above it that list its arrays, from the root, which defines the state."""

    place: Place
    group: str
    zarr_format: int
    attributes: dict[str, Any]
    nodes: dict[str, Node]
    levels: tuple[Level, ...]
    #: Whether consolidated metadata had to be created.
    made: bool = False

    def name(self) -> str:
        """Return the file name of the document of an array."""
        return "zarr.json" if self.zarr_format == 3 else ".zarray"

    def key(self, node: Node) -> str:
        """Return the key of the document of an array."""
        return f"{node.path}/{self.name()}".lstrip("/")

    def own(self, nodes: list[Node]) -> dict[str, tuple[bytes, Any]]:
        """Return content and tag of the arrays' own documents by name; raise if they disagree with the state."""
        keys = [self.key(node) for node in nodes]
        found = read_all(self.place, keys)
        own = {}
        for node, key, one in zip(nodes, keys, found, strict=True):
            if one is None:
                raise SourceError(f"{self.place.store} has no {key}, which its consolidated metadata list")
            if not are_same(parse(one[0], f"{self.place.store}/{key}"), node.document):
                raise TargetError(
                    f"{self.place.store}: array {node.path!r} differs from the consolidated metadata (shape "
                    f"{list(node.shape)}): other software has written it since; consolidate them again with "
                    "zarr.consolidate_metadata, or write the array again"
                )
            own[node.name] = one
        return own


def load(place: Place, group: str) -> GroupState:
    """Return the state of a group; create consolidated metadata if it has none."""
    group = group.strip("/")
    parts = group.split("/") if group else []
    paths = ["/".join(parts[:n]) for n in range(len(parts) + 1)]
    found = read_all(place, _keys_v3(paths))
    if found[-1] is not None:
        return _load_v3(place, group, paths, found)
    if place.read(f"{group}/.zgroup".lstrip("/")) is not None:
        return _load_v2(place, group, paths)
    if place.read(f"{group}/.zarray".lstrip("/")) is not None:
        raise UnsupportedError(f"{place.store}: {group!r} is an array of Zarr version 2; name the group that holds it")
    raise SourceError(f"{place.store} has no Zarr group {group!r}; name a store with zarr.json or .zgroup")


def _keys_v3(paths: list[str]) -> list[str]:
    return [f"{path}/zarr.json".lstrip("/") for path in paths]


def _load_v3(
    place: Place, group: str, paths: list[str], there: list[tuple[bytes, Any] | None] | None = None
) -> GroupState:
    keys = _keys_v3(paths)
    levels: list[Level] = []
    attributes: dict[str, Any] = {}
    for path, key, found in zip(paths, keys, there or read_all(place, keys), strict=True):
        if found is None:
            continue
        document = parse(found[0], f"{place.store}/{key}")
        if document.get("node_type") != "group":
            if path != group:
                raise SourceError(f"{place.store}: {path!r} is not a group")
            node = Node(group, {"zarr.json": document})
            return GroupState(place, group.rpartition("/")[0], 3, {}, {node.name: node}, ())
        if path == group:
            attributes = document.get("attributes") or {}
        whole = document.get("consolidated_metadata")
        if isinstance(whole, dict) and isinstance(whole.get("metadata"), dict):
            level = Level(path, key, document, found[1])
            if path == group or level.relative(group) in level.held:
                levels.append(level)
    if not levels:
        return _consolidate(place, group, 3, paths)
    held = levels[0].held
    within = levels[0].relative(group) if levels[0].path != group else ""
    nodes = {
        path.rpartition("/")[2]: Node(f"{levels[0].path}/{path}".lstrip("/"), {"zarr.json": document})
        for path, document in held.items()
        if path.rpartition("/")[0] == within and isinstance(document, dict) and document.get("node_type") == "array"
    }
    return GroupState(place, group, 3, attributes, nodes, tuple(levels))


def _load_v2(place: Place, group: str, paths: list[str]) -> GroupState:
    keys = [f"{path}/.zmetadata".lstrip("/") for path in paths]
    levels = []
    for path, key, found in zip(paths, keys, read_all(place, keys), strict=True):
        if found is None:
            continue
        level = Level(path, key, parse(found[0], f"{place.store}/{key}"), found[1])
        if not isinstance(level.document.get("metadata"), dict):
            raise SourceError(f"{place.store}/{key} has no metadata; consolidate them again")
        if path == group or f"{level.relative(group)}/.zgroup" in level.held:
            levels.append(level)
    if not levels:
        return _consolidate(place, group, 2, paths)
    held = levels[0].held
    within = f"{levels[0].relative(group)}/" if levels[0].path != group else ""
    attributes = held.get(f"{within}.zattrs") or {}
    nodes = {}
    for key, document in held.items():
        path, _, name = key.rpartition("/")
        if name == ".zarray" and path and f"{path.rpartition('/')[0]}/".lstrip("/") == within:
            more = held.get(f"{path}/.zattrs")
            documents = {".zarray": document, **({} if more is None else {".zattrs": more})}
            nodes[path.rpartition("/")[2]] = Node(f"{levels[0].path}/{path}".lstrip("/"), documents)
    if any(str(name).lower().startswith("_nczarr") for name in [*attributes, *(_names(nodes))]):
        raise UnsupportedError(
            f"{place.store} is an NCZarr store, whose own metadata repeat sizes, so it cannot grow; convert it to Zarr "
            "with cfagg.convert (cfagg convert) and append there"
        )
    return GroupState(place, group, 2, attributes, nodes, tuple(levels))


def _names(nodes: Mapping[str, Node]) -> list[str]:
    return [name for node in nodes.values() for name in (*node.attributes, *node.document)]


def _consolidate(place: Place, group: str, zarr_format: int, paths: list[str]) -> GroupState:
    """Write consolidated metadata of the current state, so that from now on all of it is published by one write."""
    nodes: dict[str, Documents] = {}
    names = ("zarr.json",) if zarr_format == 3 else (".zgroup", ".zarray", ".zattrs")

    def visit(path: str) -> None:
        folder = "/".join(filter(None, (group, path)))
        keys = [f"{folder}/{name}".lstrip("/") for name in names]
        found = {
            name: parse(one[0], f"{place.store}/{key}")
            for name, key, one in zip(names, keys, read_all(place, keys), strict=True)
            if one is not None
        }
        if not found or set(found) == {".zattrs"}:
            return
        if len(nodes) >= _MOST_NODES:
            raise UnsupportedError(f"{place.store} has more than {_MOST_NODES:,} nodes; consolidate its metadata first")
        found.get("zarr.json", {}).pop("consolidated_metadata", None)
        nodes[path] = found
        is_group = ".zgroup" in found or found.get("zarr.json", {}).get("node_type") == "group"
        for child in place.children(folder) if is_group else ():
            visit(f"{path}/{child}".lstrip("/"))

    visit("")
    if zarr_format == 2:
        nodes[""].setdefault(".zattrs", {})
    made = consolidated(nodes, zarr_format)
    name = "zarr.json" if zarr_format == 3 else ".zmetadata"
    key = f"{group}/{name}".lstrip("/")
    before = place.read(key)
    place.swap(key, document_bytes(made[name]), None if before is None else before[1])
    loaded = (_load_v3 if zarr_format == 3 else _load_v2)(place, group, paths)
    return GroupState(place, group, zarr_format, loaded.attributes, loaded.nodes, loaded.levels, made=not place.commits)


def below(state: GroupState) -> list[Node]:
    """Return the arrays of groups below the group, except those of accumulations that are extended afterwards."""
    if not state.levels:
        return []
    top = state.levels[0]
    prefix = top.relative(state.group) if top.path != state.group else ""
    prefix = f"{prefix}/" if prefix else ""
    found, sums = [], []
    for key, document in top.held.items():
        if not key.startswith(prefix) or not isinstance(document, dict):
            continue
        path = key if state.zarr_format == 3 else key.rpartition("/")[0]
        attributes = document.get("attributes") if state.zarr_format == 3 else document
        if isinstance(attributes, dict) and _ACCUMULATION in attributes:
            sums.append(f"{path}/")
        is_array = document.get("node_type") == "array" if state.zarr_format == 3 else key.endswith("/.zarray")
        if is_array and "/" in path[len(prefix) :]:
            more = {} if state.zarr_format == 3 else {".zattrs": top.held.get(f"{path}/.zattrs") or {}}
            found.append(Node(path, {"zarr.json" if state.zarr_format == 3 else ".zarray": document, **more}))
    if state.place.commits:
        return found  # sums in a repository are not extended
    return [node for node in found if not any(node.path.startswith(one) for one in sums)]


def digest(text: bytes) -> str:
    """Return a digest of a document."""
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def take_back(place: Place, claim: Claim) -> bool:
    """Roll back what a killed writer had written but not published; return whether there was a record of one."""
    if claim.left is None:
        return False
    try:
        intent = json.loads(claim.left)
        key, published = intent["publishes"], intent["published"]
        former, leftover = intent["former"], intent["objects"]
        grown = [(str(path), int(axis), int(length)) for path, axis, length in intent.get("grown", ())]
        above = str(intent.get("level", ""))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TargetError(
            f"{place.store}/.cfagg-append holds a damaged record; compare the shapes of the arrays with the "
            "consolidated metadata, then remove it"
        ) from error
    found = place.read(key)
    if found is not None and (digest(found[0].rstrip()) == published or _tells(place, key, found[0], above, grown)):
        # The writer was killed, or lost power, after it had finished; the document may have been written since, for
        # example when sums were extended or attributes set. Published data are never rolled back.
        claim.forget()
        return True
    for path, (text, after) in former.items():
        one = place.read(path)
        if one is not None and digest(one[0].rstrip()) == after:
            place.swap(path, text.encode(), one[1])
    place.delete(_keys(leftover))
    claim.forget()
    return True


def recover(place: Place) -> bool:
    """Do what the next append would do first after a killed one; return whether there was one and no other is at work.

    Arrays may have been longer than what is published, until now.
    """
    if not (place.read(CLAIM) if place.remote else os.path.isdir(f"{place.store}/{CLAIM}")):  # noqa: PTH112
        return False
    with ExitStack() as stack:
        try:
            claim = stack.enter_context(place.writer("appending"))
        except TargetError:
            return False  # another process is at work, or the store cannot be written to
        take_back(place, claim)
    return True


def _tells(place: Place, key: str, text: bytes, level: str, grown: list[tuple[str, int, int]]) -> bool:
    """Whether the publishing document, whatever else it contains, gives the arrays at least their new lengths."""
    document = parse(text, f"{place.store}/{key}")
    whole = document if key.endswith(".zmetadata") else document.get("consolidated_metadata") or {}
    held = whole.get("metadata")
    for path, axis, length in grown:
        name = ".zarray" if key.endswith((".zmetadata", ".zarray")) else "zarr.json"
        own = f"{path}/{name}".lstrip("/")
        metadata: Any = None
        if own == key:
            metadata = document
        elif isinstance(held, dict):
            inner = Level(level, key, document, None).relative(own)
            metadata = held.get(inner if name == ".zarray" else inner.removesuffix("/zarr.json"))
        elif (found := place.read(own)) is not None:
            metadata = parse(found[0], f"{place.store}/{own}")
        shape = metadata.get("shape") if isinstance(metadata, dict) else None
        if not isinstance(shape, list) or len(shape) <= axis or not shape[axis] >= length:
            return False
    return bool(grown)


def _keys(objects: Any) -> list[str]:
    """Return the keys of objects that were recorded as prefix, separator and ranges of indices."""
    if sum(math.prod(b - a for a, b in ranges) for _, _, ranges in objects) > limits.MAX_PARTITIONS:
        raise TargetError("the record of a killed writer names more objects than a store may have; remove it")
    return [
        f"{prefix}{separator.join(map(str, at))}"
        for prefix, separator, ranges in objects
        for at in product(*(range(a, b) for a, b in ranges))
    ]


def read_all(place: Place, keys: list[str]) -> list[tuple[bytes, Any] | None]:
    """Return the stored objects of several keys."""
    if not place.remote or len(keys) < 2:
        return [place.read(key) for key in keys]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(place.read, keys))
