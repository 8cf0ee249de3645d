"""Refusing to replace files by what is made of them: values that nothing else holds would be lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cfagg.arrays.datasets import dataset_of
from cfagg.arrays.netcdf_source import open_source
from cfagg.arrays.reference_source import aggregation_of
from cfagg.arrays.source import Source
from cfagg.arrays.zarr_source import ZarrSource
from cfagg.errors import AccessError, CfaggError, SourceNotFoundError, TargetError
from cfagg.formats.kerchunk.store import ReferenceStore
from cfagg.formats.metadata.aggregation import MARKS
from cfagg.formats.opening import NETCDF, format_of, is_store
from cfagg.model import Aggregation
from cfagg.storage.access import Access
from cfagg.storage.files import open_regular
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url, are_nested, is_url
from cfagg.writing.references import home_of, used_files

__all__ = [
    "holds_values",
    "is_one_of",
    "lost",
    "reached",
    "refuse_circle",
    "refuse_data",
    "refuse_to_break",
    "refuse_to_lose",
]


def refuse_to_lose(target: Path, aggregations: Iterable[tuple[Aggregation, Access]], home: str) -> None:
    """Raise an error if a new file would replace one to which it refers, and so lose the values in it.

    The aggregations are given with the policies by which their fragments are read.
    """
    if not os.path.lexists(target):
        return
    _refuse_part(target)
    there, all_of = os.path.realpath(target), list(aggregations)
    if there in _places((one for one, _ in all_of), home) or there in reached(all_of, str(target), home):
        raise lost(target)


def refuse_circle(target: Path, files: Iterable[str], allow: Iterable[str | os.PathLike[str]]) -> None:
    """Raise an error if an existing aggregation file is to refer to files that refer to it, directly or indirectly."""
    there, allowed = os.path.realpath(target), tuple(allow)
    for file in files if os.path.lexists(target) else ():
        try:
            found = [] if is_url(file) else list(_aggregations(open_source(file)))
        except CfaggError:
            continue  # which refers to nothing
        access, alike = Access(file, allowed), dict[str, list[tuple[Aggregation, Access]]]()
        for one in found:  # together, so that no file is opened for each variable
            alike.setdefault(home_of(one.source, one.partitions.files), []).append((one, access))
        if any(there in reached(several, file, home) for home, several in alike.items()):
            raise TargetError(
                f"{target} was not changed: {file} refers to it, directly or through other files, so it would refer to "
                "itself; leave that file out"
            )


def refuse_to_break(target: Path | Url, source: Source) -> None:
    """Raise an error if the file to which a source is converted would replace one to which the source refers."""
    if not isinstance(target, Url):
        if not os.path.lexists(target):
            return
        _refuse_part(target)
    for one in _aggregations(source):
        if is_one_of(target, _places([one], home_of(one.source, one.partitions.files))):
            raise TargetError(
                f"{target} was not replaced: {source.path} refers to it, and its values would be lost; choose another "
                "target"
            )


def _aggregations(source: Source) -> Iterator[Aggregation]:
    """Yield the aggregations of a source, and arrays of references to chunks as such."""
    for group in source.root.walk():
        for name, one in group.variables.items():
            if isinstance(one, Aggregation):
                yield one
            elif isinstance(source, ZarrSource) and isinstance(source.store, ReferenceStore):
                yield aggregation_of(source, f"{group.path.rstrip('/')}/{name}")


def _places(aggregations: Iterable[Aggregation], home: str) -> Iterator[str]:
    """Yield where the files are to which aggregations refer: URLs, or paths without links to directories."""
    known: dict[str, str] = {}
    for name in (n for one in aggregations for n in used_files(one)):
        folder, slash, last = name.rpartition("/")
        if is_url(name) or is_url(home):
            yield name if is_url(name) else f"{home}/{name}"
            continue
        if folder not in known:
            known[folder] = os.path.realpath(os.path.join(home, folder or slash)).rstrip("/")  # noqa: PTH118
        yield f"{known[folder]}/{last}"


def lost(target: Path | str) -> TargetError:
    """Return the error that a file is needed by what would replace it."""
    return TargetError(
        f"{target} was not replaced: what is written refers to it, and its values would be lost; choose another name"
    )


def is_one_of(target: Path | Url, files: Iterable[str]) -> bool:
    """Return whether a place is among some files under any name; one of this machine that exists."""
    if isinstance(target, Url):
        return any(are_nested(target, one) for one in files if is_url(one))
    if not os.path.lexists(target):
        return False
    there = os.path.realpath(target)
    return any(os.path.realpath(one) == there for one in files if not is_url(one))


def refuse_data(target: str, by: str) -> None:
    """Raise an error if an existing file that something else would replace is data, or part of a Zarr store."""
    if not is_url(target) and not os.path.isfile(target):  # noqa: PTH113
        return  # directories and devices are not replaced
    try:
        found = format_of(handles.get(target))
    except SourceNotFoundError:
        return
    except CfaggError as error:
        raise TargetError(
            f"{target} was not replaced, as it may be data: {error.message}; remove it first, or give another name"
        ) from error
    if found is None and not is_url(target) and _store_of(target) is not None:
        found = "part of a Zarr store"
    if found is not None:
        raise TargetError(f"{target} is data ({found}), which no {by} replaces; give another name")


def _refuse_part(target: Path) -> None:
    """Raise an error if an existing file that a new one would replace is a chunk or a document of a Zarr store."""
    store = _store_of(target)
    if store is None or not os.path.isfile(target):  # noqa: PTH113
        return
    try:
        found = format_of(handles.get(str(target)))
    except CfaggError:
        found = None
    if found not in NETCDF:  # a compressed chunk may look like references
        raise TargetError(
            f"{target} was not replaced: it is part of the Zarr store {store}, whose values would be lost; choose "
            "another name"
        )


def _store_of(target: Path | str) -> Path | None:
    """Return the Zarr store, or the group or array of one, that a path is in."""
    return next((folder for folder in Path(os.path.abspath(target)).parents if is_store(folder)), None)  # noqa: PTH100


def holds_values(path: Path) -> bool:
    """Return whether a path is an existing file with values of its own that is not an aggregation."""
    try:
        groups = list(open_source(str(path)).root.walk())
    except (CfaggError, OSError):
        return False
    found = [one for group in groups for one in group.variables.values()]
    return bool(found) and not any(isinstance(one, Aggregation) for one in found)


def reached(aggregations: Iterable[tuple[Aggregation, Access]], file: str, home: str) -> Iterator[str | None]:
    """Yield the places of all files to which a file's aggregations refer from a directory, directly or indirectly."""
    # `None` means that there are unknown ones: files that may not be read are not opened.
    queue = [(home, one, access) for one, access in aggregations]
    seen: set[str] = set()
    while queue:
        start, one, access = queue.pop()
        for name in used_files(one):
            # Python's join discards the directory before an absolute path.
            found = name if is_url(name) else f"{start}/{name}" if is_url(start) else os.path.join(start, name)  # noqa: PTH118
            place = found if is_url(found) else os.path.realpath(found)
            if place in seen:
                continue
            seen.add(place)
            yield place
            if is_url(place) and not is_url(file):
                continue  # which never refers to files of this machine
            try:
                real = access.resolve(place)
                if not is_url(real) and not _may_refer(real):
                    continue
                groups = list(open_source(real).root.walk())
            except AccessError:
                yield None
                continue
            except CfaggError:
                continue  # missing, or not netCDF, so it refers to nothing
            if any(group.unreadable for group in groups):
                yield None
            inner = (x for group in groups for x in group.variables.values() if isinstance(x, Aggregation))
            queue += [(home_of(x.source, x.partitions.files), x, Access(real, access.allow)) for x in inner]


def _may_refer(path: str) -> bool:
    """Return whether a file of this machine may contain aggregations, which takes a fraction of reading those."""
    try:
        with dataset_of(open_regular(path)) as found:
            return found.damage is not None or any(not MARKS.isdisjoint(v.attributes) for v in found.variables)
    except (CfaggError, OSError):
        return True
