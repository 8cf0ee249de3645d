"""Extending the accumulations of a store whose arrays have grown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cfagg.accumulation.accumulating import accumulate
from cfagg.accumulation.report import Report
from cfagg.conventions.accumulation import group_name
from cfagg.errors.arguments import names
from cfagg.formats.zarr.documents import parse, read_document
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url, a_place

__all__ = ["accumulated_arrays", "update"]

#: What the name of a group of sums ends with.
_SUFFIX = group_name("")

#: Groups are looked for so deep.
_DEPTH = 16


def update(
    store: str | os.PathLike[str],
    report: Any = None,
    *,
    variables: str | Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> tuple[Report, ...]:
    """Extend the accumulations of a store by what has been appended to its arrays; what was summed is not read again.

    Returns one report for each accumulation; none where there is none.  `report` is that of `cfagg.append`, after which
    this is called; it is not needed.  `variables` are paths of arrays, by default all that have an accumulation.
    """
    del report
    found = accumulated_arrays(store, storage_options) if variables is None else names(variables, "variables")
    options = storage_options or None
    return tuple(accumulate(store, path, append=True, workers=workers, storage_options=options) for path in found)


def accumulated_arrays(
    store: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Return the paths of the arrays of a store that have an accumulation beside them; no chunks are listed."""
    place = a_place(store, storage_options)
    children = (
        _remote(ObjectStore(place, place.options.given)) if isinstance(place, Url) else _local(Path(os.fspath(place)))
    )
    return tuple(path for path in children if path)


def _local(root: Path, path: str = "", depth: int = _DEPTH) -> Iterator[str]:
    here = root / path
    found = sorted(e.name for e in os.scandir(here) if e.is_dir())
    inside = {n for n in found if n.endswith(_SUFFIX)}
    for name in found:
        below = f"{path}/{name}".lstrip("/")
        if name in inside:
            yield below.removesuffix(_SUFFIX)
        elif depth and _is_group(here / name):
            yield from _local(root, below, depth - 1)


def _is_group(folder: Path) -> bool:
    if (folder / ".zgroup").exists():
        return True
    found = read_document(str(folder), "zarr.json")
    return found is not None and found.content.get("node_type") == "group"


def _remote(objects: ObjectStore, path: str = "", depth: int = _DEPTH) -> Iterator[str]:
    for child in sorted(objects.children(path)):
        name = child.rstrip("/").rpartition("/")[2]
        below = f"{path}/{name}".lstrip("/")
        if name.endswith(_SUFFIX):
            yield below.removesuffix(_SUFFIX)
        elif depth:
            text = objects.read(f"{below}/zarr.json")
            inner = text is not None and parse(text, below).get("node_type") == "group"
            if inner or (text is None and objects.size(f"{below}/.zgroup") is not None):
                yield from _remote(objects, below, depth - 1)
