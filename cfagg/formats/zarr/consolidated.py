"""Consolidated metadata of a new store, and of a store in which the documents of a group change.

Source: consolidated metadata as written by zarr-python.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from cfagg.formats.zarr.creating import Documents
from cfagg.formats.zarr.documents import node_folder, read_document
from cfagg.formats.zarr.metadata import ZarrArray, array_of
from cfagg.formats.zarr.settings import unequal_chunks
from cfagg.storage.urls import Url

__all__ = [
    "CLAIM",
    "are_same",
    "consolidated",
    "is_growing",
    "listed",
    "published",
    "with_group",
    "with_nodes",
    "without_group",
    "without_nodes",
]

#: The folder in a store that exists while it is written to, and after a writer was killed.
CLAIM = ".cfagg-append"


#: The empty consolidated metadata of a group below the root.
_NOTHING: dict[str, Any] = {"metadata": {}, "must_understand": False, "kind": "inline"}


def consolidated(nodes: Mapping[str, Documents], zarr_format: int) -> Documents:
    """Return the documents of the root of a store with those of all nodes, by path within the store, below it."""
    root = nodes[""]
    below = sorted((p for p in nodes if p), key=lambda p: (p.count("/"), unicodedata.normalize("NFKC", p).casefold()))
    held: dict[str, Any]
    if zarr_format == 2:
        held = {name: root[name] for name in (".zgroup", ".zattrs")}
        for path in below:
            for name, document in sorted(nodes[path].items(), reverse=".zgroup" not in nodes[path]):
                more = {"consolidated_metadata": _NOTHING} if name == ".zgroup" else {}
                held[f"{path}/{name}"] = {**document, **more}
        return {**root, ".zmetadata": {"metadata": held, "zarr_consolidated_format": 1}}
    held = {path: _listed(nodes[path]["zarr.json"]) for path in below}
    return {"zarr.json": {**root["zarr.json"], "consolidated_metadata": {**_NOTHING, "metadata": held}}}


def listed(array: ZarrArray) -> Iterator[ZarrArray]:
    """Yield an array as described by the consolidated metadata of each group above it that lists it."""
    # Its `store` is the directory of the group.
    parts = array.path.split("/")
    for depth in range(len(parts)):
        group, path = node_folder(array.store, "/".join(parts[:depth])), "/".join(parts[depth:])
        name = ".zmetadata" if array.zarr_format == 2 else "zarr.json"
        found = read_document(group, name, array.store, array.allow)
        if found is None:
            continue
        held = _held(found.content if array.zarr_format == 2 else found.content.get("consolidated_metadata"))
        if held is None:
            continue
        keys = {f"{path}/zarr.json": held.get(path)} if array.zarr_format == 3 else held
        if keys.get(f"{path}/{'.zarray' if array.zarr_format == 2 else 'zarr.json'}") is not None:
            texts = {k: json.dumps(v).encode() for k, v in keys.items() if k.rpartition("/")[0] == path}
            yield array_of(group, path, texts.get, None)


def is_growing(store: str) -> bool:
    """Return whether arrays of a store in a directory may be ahead of what its root publishes."""
    return not isinstance(store, Url) and os.path.isdir(f"{store}/{CLAIM}")  # noqa: PTH112


def published(array: ZarrArray) -> ZarrArray:
    """Return an array as its root publishes it if the store is being written to, or that was interrupted."""
    if is_growing(array.store):
        for found in listed(array):
            if found.store == array.store:
                return replace(found, allow=array.allow, signature=array.signature)
    return array


def with_group(root: Mapping[str, Any], group: str, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the root document of version 3 with new documents of a group, or `None` if nothing changes."""
    held = _held(root.get("consolidated_metadata"))
    if held is None:
        return None
    others = {k: v for k, v in held.items() if k != group and not k.startswith(f"{group}/")}
    new = {"/".join(filter(None, (group, name))): _listed(d["zarr.json"]) for name, d in nodes.items()}
    return None if others | new == held else _with(root, others | new)


def with_nodes(root: Mapping[str, Any], group: str, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the root document of version 3 with new documents of some nodes of a group that it lists.

    `None` if nothing changes, or it does not list the group.

    >>> held = {"g": {"node_type": "group"}, "g/a": {"node_type": "array", "shape": [1]}, "b": {"node_type": "array"}}
    >>> root = {"consolidated_metadata": {"metadata": held}}
    >>> found = with_nodes(root, "g", {"a": {"node_type": "array", "shape": [2]}})
    >>> found["consolidated_metadata"]["metadata"]["g/a"]["shape"]
    [2]
    """
    held = _held(root.get("consolidated_metadata"))
    if held is None or group not in held:
        return None
    new = held | {"/".join(filter(None, (group, name))): _listed(d) for name, d in nodes.items()}
    return None if new == held else _with(root, new)


def without_group(root: Mapping[str, Any], group: str) -> dict[str, Any] | None:
    """Return the ``.zmetadata`` of a root without the entries of a group, or `None` if it has none."""
    held = root.get("metadata")
    if not isinstance(held, dict) or not any(k.startswith(f"{group}/") for k in held):
        return None
    return {**root, "metadata": {k: v for k, v in held.items() if not k.startswith(f"{group}/")}}


def without_nodes(document: Mapping[str, Any], group: str, hidden: AbstractSet[str]) -> dict[str, Any]:
    """Return a ``zarr.json`` or ``.zmetadata`` of a group without the consolidated metadata of nodes, by their paths.

    >>> without_nodes({"metadata": {".zgroup": {}, "a/.zarray": {}, "b/.zarray": {}}}, "g", {"g/b"})
    {'metadata': {'.zgroup': {}, 'a/.zarray': {}}}
    """
    whole = document.get("consolidated_metadata") if "node_type" in document else document
    held = _held(whole)
    if held is None:
        return dict(document)
    front = f"{group}/" if group else ""
    below = tuple(f"{path}/" for path in hidden)
    kept = {key: found for key, found in held.items() if not f"{front}{key}/".startswith(below)}
    return {**document, "metadata": kept} if whole is document else _with(document, kept)


def are_same(own: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
    """Return whether the document of an array is the one that consolidated metadata hold, if only in other words."""
    if own == held:
        return True
    # Writers leave out what has a default, and zarr-python, which consolidates, writes it.
    plain = _in_full(own)
    return plain is not None and plain == _in_full(held)


def _in_full(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the document of an array as zarr-python writes it, or `None` if it does not read it."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata

    kind: Any = ArrayV2Metadata if document.get("zarr_format") == 2 else ArrayV3Metadata
    try:
        with unequal_chunks():
            found = kind.from_dict(dict(document)).to_buffer_dict(default_buffer_prototype())
        return {name: json.loads(text.to_bytes()) for name, text in found.items()}
    except Exception:  # noqa: BLE001 - metadata of other software may raise anything
        return None


def _held(whole: Any) -> dict[str, Any] | None:
    """Return the documents in consolidated metadata by their paths, or `None` if these are of another form."""
    held = whole.get("metadata") if isinstance(whole, dict) else None
    return held if isinstance(held, dict) else None


def _with(root: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a root document with other documents in its consolidated metadata."""
    whole = {**root["consolidated_metadata"], "metadata": dict(sorted(held.items()))}
    return {**root, "consolidated_metadata": whole}


def _listed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of version 3 as listed in consolidated metadata."""
    more = {"consolidated_metadata": _NOTHING} if document["node_type"] == "group" else {}
    return {**document, **more}
