"""The groups and arrays of a Zarr store of version 2 or 3, as their documents, below each other.

Documents of single nodes are used, because consolidated metadata may be outdated; the latter are read if a store cannot
be listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from cfagg.errors import LimitError, SourceError, SourceNotFoundError
from cfagg.formats.metadata.stores import Store, joined
from cfagg.formats.zarr.documents import no_store, parse

__all__ = ["Node", "read_node", "tree"]

#: Most levels of groups, and number of groups and arrays.
_DEEPEST, _MOST = 400, 1 << 20


@dataclass(slots=True)
class Node:
    """A group or an array."""

    path: str
    format: int
    document: Mapping[str, Any]
    attributes: Mapping[str, Any]
    is_array: bool
    below: dict[str, Node] = field(default_factory=dict)
    #: What is wrong with its documents, so that it is taken for an array that cannot be read.
    flaw: str | None = None


def tree(store: Store, *, flawed: bool = False) -> Node:
    """Return the root node with all below it; with `flawed`, damaged ones too, which raise an error otherwise."""
    top = read_node(store, "")
    if top is None:
        missing = SourceNotFoundError if store.is_remote else SourceError
        raise missing(no_store(store.source, is_remote=store.is_remote))
    if top.is_array:
        return top
    consolidated = _consolidated(store, top) if store.is_remote else None
    published = _published(store, top)
    if not store.lists and consolidated is None:
        raise SourceError(
            f"{store.source} has no consolidated metadata, which reading from a web server requires; consolidate it "
            "(zarr.consolidate_metadata) or copy it to this machine"
        )
    count, waiting = 1, [(top, 0)]
    unsaid: list[tuple[Node, str]] = []
    while waiting:
        node, depth = waiting.pop()
        if depth >= _DEEPEST:
            raise LimitError(f"{store.source}: groups are nested more than {_DEEPEST:,} deep")
        found = _members(store, node, flawed) if consolidated is None else consolidated.get(node.path, ())
        for name, member in found:
            count += 1
            if count > _MOST:
                raise LimitError(f"{store.source} has more than {_MOST:,} groups and arrays")
            node.below[name] = published.get(member.path, member) if member.is_array else member
            if not member.is_array:
                waiting.append((member, depth + 1))
                if not member.document:
                    unsaid.append((node, name))
    # Directories without a document are groups if they contain anything, as in OME plates.
    for node, name in reversed(unsaid):
        if not node.below[name].below:
            del node.below[name]
    return top


def _published(store: Store, top: Node) -> dict[str, Node]:
    """Return the arrays of a store in a directory that is being written to as its root publishes them, by path."""
    if not getattr(store, "is_growing", False):  # only known of directories
        return {}
    found = _consolidated(store, top) or {}
    return {node.path: node for members in found.values() for _, node in members if node.is_array}


def _members(store: Store, node: Node, flawed: bool) -> Iterator[tuple[str, Node]]:
    """Yield possible members of a group; a directory without a document is a group if it contains anything."""
    for name in store.children(node.path):
        path, hidden = joined(node.path, name), name.startswith(".")
        if not hidden or ".cfagg-" not in name:  # any name is allowed; ours are work in progress
            try:
                found = read_node(store, path, node.format)
            except SourceError as error:
                if not flawed:
                    raise
                found = Node(path, node.format, {}, {}, is_array=True, flaw=error.message)
            if found is not None or not hidden:
                yield name, found or Node(path, node.format, {}, {}, is_array=False)


def read_node(store: Store, path: str, format_: int | None = None) -> Node | None:
    """Return a group or array, or `None` if there is none."""
    if format_ != 2:
        raw = store.read(joined(path, "zarr.json"))
        if raw is not None:
            return _node_v3(path, parse(raw, f"{store.source}/{joined(path, 'zarr.json')}"), store.source)
    if format_ != 3:
        for name, is_array in ((".zarray", True), (".zgroup", False)):
            raw = store.read(joined(path, name))
            if raw is not None:
                found = parse(raw, f"{store.source}/{joined(path, name)}")
                own = store.read(joined(path, ".zattrs"))
                attributes = parse(own, f"{store.source}/{joined(path, '.zattrs')}") if own is not None else {}
                return Node(path, 2, found, attributes, is_array)
    return None


def _node_v3(path: str, found: Mapping[str, Any], source: str) -> Node:
    kind, attributes = found.get("node_type"), found.get("attributes", {})
    if kind not in ("array", "group") or not isinstance(attributes, dict):
        raise SourceError(
            f"{source}/{joined(path, 'zarr.json')} describes a node of type {str(kind)[:40]!r}, expected a group or an "
            "array with attributes; write it again"
        )
    return Node(path, 3, found, attributes, kind == "array")


def _consolidated(store: Store, top: Node) -> dict[str, list[tuple[str, Node]]] | None:
    """Return the members of every group by the group's path, or `None` without consolidated metadata."""
    nodes: dict[str, Node] = {}
    if top.format == 3:
        held = top.document.get("consolidated_metadata")
        listed = held.get("metadata") if isinstance(held, dict) else None
        if not isinstance(listed, dict):
            return None
        for path, found in listed.items():
            if isinstance(found, dict):
                nodes[path] = _node_v3(path, found, store.source)
    else:
        raw = store.read(".zmetadata")
        listed = parse(raw, f"{store.source}/.zmetadata").get("metadata") if raw is not None else None
        if not isinstance(listed, dict):
            return None
        for key, found in listed.items():
            path, _, name = key.rpartition("/")
            if name in (".zarray", ".zgroup") and isinstance(found, dict):
                attributes = listed.get(joined(path, ".zattrs"), {})
                nodes[path] = Node(path, 2, found, attributes if isinstance(attributes, dict) else {}, name[2] == "a")
    members: dict[str, list[tuple[str, Node]]] = {}
    for path in list(nodes):
        # Groups that are not listed but contain listed nodes.
        if path.count("/") > _DEEPEST:
            raise LimitError(f"{store.source}: groups are nested more than {_DEEPEST:,} deep")
        for part in accumulate(path.split("/")[:-1], "{}/{}".format):
            nodes.setdefault(part, Node(part, top.format, {}, {}, is_array=False))
    for path, node in nodes.items():
        if path and not any(part in ("", ".", "..") for part in path.split("/")):
            home, _, name = path.rpartition("/")
            members.setdefault(home, []).append((name, node))
    return members
