"""Changing attributes of a Zarr store in its metadata documents, including consolidated ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cfagg.errors import AccessError, SourceError, TargetError
from cfagg.formats.metadata.stores import joined
from cfagg.formats.zarr.creating import document_bytes
from cfagg.formats.zarr.documents import MAX_DOCUMENT, parse
from cfagg.runtime.files import write_whole
from cfagg.runtime.publishing import public_name, refusals_of
from cfagg.storage.tree import read_file

if TYPE_CHECKING:
    from cfagg.checking.changes import Change

__all__ = ["change"]


def change(path: str, changes: Iterable[Change]) -> list[str]:
    """Change attributes of a store and return sentences about those that could not be changed."""
    refused = []
    by_node: dict[str, list[Change]] = {}
    for one in changes:
        by_node.setdefault((one.path or "").strip("/"), []).append(one)
    for node, own in by_node.items():
        found = _node(path, node)
        if found is None:
            refused += [f"{one.code}: {one.path}:{one.attribute}: there is no such node in the store" for one in own]
            continue
        name, held = found
        whole = held if name == ".zattrs" else held.setdefault("attributes", {})
        for one in own:
            _change(whole, one)
        _write(Path(path) / node / name, held)
        _repeat(path, node, name, whole)
    return refused


def _node(path: str, node: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and content of the document with the attributes of a node."""
    home = Path(path) / node
    for name in ("zarr.json", ".zattrs"):
        held = _read(path, home / name)
        if held is not None:
            return name, held
    if (home / ".zarray").is_file() or (home / ".zgroup").is_file():
        return ".zattrs", {}
    return None


def _read(path: str, file: Path) -> dict[str, Any] | None:
    """Return a document of the store, or `None` if there is no such file."""
    try:
        found = read_file(path, str(file), MAX_DOCUMENT)
    except AccessError as error:
        # The copy has the links of the original, and those with absolute paths lead into the original.
        raise TargetError(
            f"{public_name(file)} is, or goes through, a link that leaves the store, and is not changed; copy what it "
            "leads to into its place"
        ) from error
    except SourceError as error:
        raise TargetError(f"{public_name(file)} is not a regular file, or cannot be read") from error
    return None if found is None else parse(found[0], public_name(file))


def _change(attributes: dict[str, Any], one: Change) -> None:
    if one.name is None:
        attributes.pop(one.attribute, None)
    elif one.name != one.attribute:
        # The order is preserved.
        renamed = {one.name if n == one.attribute else n: v for n, v in attributes.items()}
        attributes.clear()
        attributes.update(renamed)
    else:
        attributes[one.name] = _json(one.after)
    for notes in (attributes.get("_nczarr_attr"), attributes.get("_NCZARR_ATTR"), attributes.get("_nczarr_attrs")):
        types = notes.get("types") if isinstance(notes, dict) else None
        if isinstance(types, dict):
            _note(types, one)


def _note(types: dict[str, Any], one: Change) -> None:
    """Update the types of attributes that NCZarr records."""
    former = types.pop(one.attribute, None)
    if one.name is not None:
        new = one.after
        if one.name != one.attribute:
            types[one.name] = former
        else:
            types[one.name] = new.dtype.newbyteorder("<").str if isinstance(new, np.ndarray) else ">S1"


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        numbers = value.tolist()
        return numbers[0] if len(numbers) == 1 else numbers
    return list(value) if isinstance(value, tuple) else value


def _repeat(path: str, node: str, name: str, attributes: dict[str, Any]) -> None:
    """Make the same change in the consolidated metadata of the root and of the groups above the node."""
    parts = node.split("/") if node else []
    for depth in range(len(parts) + 1):
        home = Path(path).joinpath(*parts[:depth])
        rest = "/".join(parts[depth:])
        file = home / (".zmetadata" if name == ".zattrs" else "zarr.json")
        held = _read(path, file)
        if held is None:
            continue
        listed = (
            held.get("metadata") if name == ".zattrs" else (held.get("consolidated_metadata") or {}).get("metadata")
        )
        if not isinstance(listed, dict):
            continue
        key = joined(rest, ".zattrs") if name == ".zattrs" else rest
        if name == ".zattrs":
            if joined(rest, ".zarray") not in listed and joined(rest, ".zgroup") not in listed:
                continue
            listed[key] = attributes
        elif isinstance(listed.get(key), dict):
            listed[key]["attributes"] = attributes
        else:
            continue
        _write(file, held)


def _write(file: Path, held: dict[str, Any]) -> None:
    """Write a document of the copy, which nobody else reads yet, and replace a link if there is one."""
    with refusals_of(file):
        write_whole(file, document_bytes(held))
