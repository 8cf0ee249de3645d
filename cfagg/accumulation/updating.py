"""Extending the accumulations of a store whose arrays have grown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cfagg.accumulation.accumulating import DEFAULT_MEMORY, carry_out
from cfagg.accumulation.building import GroupStaging, finish_dead
from cfagg.accumulation.extending import Extension, extend
from cfagg.accumulation.group import Group, group_path
from cfagg.accumulation.growing import NotInPlaceError
from cfagg.accumulation.increments import finish_there, make_there, place_of_array, record_there
from cfagg.accumulation.opening import open_group
from cfagg.accumulation.options import Order
from cfagg.accumulation.partials import readers
from cfagg.accumulation.report import Report, report_of_extension
from cfagg.conventions.accumulation import group_name
from cfagg.errors import CfaggError
from cfagg.errors.arguments import names
from cfagg.formats.zarr import open_array
from cfagg.formats.zarr.documents import node_folder, parse, read_document
from cfagg.runtime.budget import parse_size
from cfagg.storage.objects import ObjectStore
from cfagg.storage.urls import Url, a_place

__all__ = ["accumulated_arrays", "update"]

#: The end of the name of a group of sums.
_SUFFIX = group_name("")

#: Depth to which groups are searched.
_DEPTH = 16


def update(
    store: str | os.PathLike[str],
    report: Any = None,
    *,
    variables: str | Iterable[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    memory: int | str = DEFAULT_MEMORY,
) -> tuple[Report, ...]:
    """Extend the accumulations of a store by what has been appended to its arrays, and return a report for each.

    Data that were summed are not read again.  An accumulation that was built as a whole is written anew the first time,
    and grows in place from then on, so that the cost of an increment does not depend on the length of the array.
    `variables` are paths of arrays, by default all that have an accumulation.
    """
    del report
    place = a_place(store, storage_options)
    found = accumulated_arrays(store, storage_options) if variables is None else names(variables, "variables")
    threads, budget = readers(workers, place), parse_size(memory)
    return tuple(_update(place, path, threads, budget) for path in found)


def _update(store: str, variable: str, threads: int, memory: int) -> Report:
    """Extend one accumulation: in its place, if that is possible."""
    if isinstance(store, Url):
        group, extension = _extend_there(store, variable, threads, memory)
    else:
        group, extension = _extend_here(store, variable, threads, memory)
    if extension is None:
        if isinstance(store, Url):
            if store.recent is not None:
                store.recent.clear()
            store = store.anew
        # It is to grow along the dimension that has grown.
        grown = tuple(group.differences.grown)
        order = Order(
            store, variable, None, 1, None, ("chunks",), "auto", "blosc", True, False, False, False, memory,
            grows=grown[0] if len(grown) == 1 else None,
        )  # fmt: skip
        return carry_out(order, threads=threads)
    return report_of_extension(extension.plan, extension.missing, extension.nonfinite)


def _extend_here(store: str, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Extend an accumulation on this machine in its place, and return how, `None` if it must be written as a whole."""
    array = open_array(store, variable)
    shop = GroupStaging(array.store, array.path, node_folder(array.store, group_path(array.path)))
    finish_dead(shop, array)
    shop.enter()
    try:
        group, extension = _extension(store, variable, threads, memory)
        if extension is not None:
            extension.unchanged()
            shop.make(extension.increment, array)
            shop.remove_unless_unfinished()
    finally:
        shop.abandon_if_useless()
    return group, extension


def _extend_there(store: Url, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Extend an accumulation in an object store in its place; see `_extend_here`.

    Whether a killed process has left a record is asked only where this does not succeed at once.
    """
    recorded = False
    try:
        group, extension = _extension(store, variable, threads, memory)
        if extension is not None:
            extension.unchanged()
            place = place_of_array(group.source)
            record_there(extension.increment, place)
            recorded = True
            make_there(extension.increment, group.source, place)
    except CfaggError:
        if recorded or not _finished(store.anew, variable):
            raise
    else:
        if extension is not None or not _finished(store.anew, variable):
            return group, extension
    return _extend_there(store.anew, variable, threads, memory)


def _finished(store: Url, variable: str) -> bool:
    """Finish what a killed process has recorded in an object store; return whether there was anything."""
    array = open_array(store, variable)
    return finish_there(array, place_of_array(array))


def _extension(store: str, variable: str, threads: int, memory: int) -> tuple[Group, Extension | None]:
    """Return an accumulation and what extends it in place, `None` if it must be written as a whole."""
    group = open_group(store, variable, check=False, when_needed=True)
    try:
        return group, extend(group, threads, memory)
    except NotInPlaceError:
        return group, None


def accumulated_arrays(
    store: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None, *, group: str | None = None
) -> tuple[str, ...]:
    """Return the paths of the arrays of a store, or one group, that have an accumulation; no chunks are listed."""
    place = a_place(store, storage_options)
    within = (group or "", 0 if group is not None else _DEPTH)
    children = (
        _remote(ObjectStore(place, place.options.given), *within)
        if isinstance(place, Url)
        else _local(Path(os.fspath(place)), *within)
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
