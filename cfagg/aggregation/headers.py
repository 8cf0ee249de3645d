"""Scanning one file: the descriptions of its data variables, and the state in which it was scanned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from cfagg.arrays.datasets import dataset_of, other_than_netcdf, referenced, with_aggregations, with_readers
from cfagg.arrays.store_state import Documents
from cfagg.cf.joining import Described, Options, describe_all
from cfagg.cf.references import Resolver, references
from cfagg.conventions.aside import set_aside
from cfagg.errors import CfaggError, SourceError
from cfagg.formats.metadata.stores import LocalStore
from cfagg.formats.metadata.url import file_at, of_handle, store_at
from cfagg.formats.metadata.zarr import ZarrValues, open_store
from cfagg.formats.opening import KERCHUNK, is_referring
from cfagg.model.dataset import Dataset, Group
from cfagg.storage.access import Seen
from cfagg.storage.files import FileKey, open_regular
from cfagg.storage.handles import handles
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["FileState", "How", "Scanned", "scan_one"]

#: Attributes by which variables refer to others whose values are used.
_REFERRING = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates", "formula_terms", "grid_mapping",
)  # fmt: skip

#: Attributes that name tie points and what belongs to them.
_OF_TIE_POINTS = frozenset(
    {"coordinate_interpolation", "tie_point_mapping", "interpolation_parameters", "bounds_tie_points"}
)


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a file, to detect changes; an object on another machine has a tag but no times."""

    size: int
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    etag: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Scanned:
    """The content of one file; if it could not be read, `problem` gives the reason and there is nothing else."""

    place: str
    state: FileState | None
    format: str = ""
    described: tuple[Described, ...] = ()
    problem: str | None = None
    #: The class of the error in `problem`.
    error: type[CfaggError] | None = None
    #: What `state` was computed from, if this is a Zarr store.
    seen: Seen | None = None
    #: Its variables that belong to none of `described`, such as coordinates of dimensions that no data have.
    unused: tuple[str, ...] = ()
    #: Those of these that make up subsampled coordinates, which arrays of several files do not have.
    subsampled: tuple[str, ...] = ()
    #: Its variables of types that netCDF lacks, such as references in HDF5, which belong to no array either.
    untyped: tuple[str, ...] = ()
    #: Whether it refers to other files: as an aggregation, or by references to chunks.
    refers: bool = False


class How(NamedTuple):
    """How files are scanned; it is sent to the processes that scan them."""

    options: Options
    #: Where links in Zarr stores may lead.
    links: tuple[str, ...]


def scan_one(place: str, how: How) -> Scanned:
    """Return the content of a file or store; if it changes meanwhile, it is scanned once more."""
    for _ in range(2):
        state: FileState | None = None
        try:
            if isinstance(place, Url):
                return _scan_url(place, how)
            if os.path.isdir(place):  # noqa: PTH112 - Path costs more
                if is_referring(place):
                    return _scan_references(place, how)
                return _scan_store(LocalStore(place, how.links), place, how)
            handle = open_regular(place)
            state = _state(handle.key)
            dataset = dataset_of(handle, allow=how.links, times=True)
            found = _described(place, state, dataset, how)
            _take_apart(dataset)
        except CfaggError as error:
            found = Scanned(place, state, problem=error.message, error=type(error))
        except OSError as error:
            found = Scanned(place, state, problem=f"{place}: {error.strerror or error}", error=SourceError)
        except Exception as error:  # noqa: BLE001 - one damaged file of thousands must not end the scan of the others
            said = f"{place} cannot be scanned: {type(error).__name__}: {error}"
            found = Scanned(place, state, problem=said, error=SourceError)
        if state is None or state == _now(place):
            return found
    said = f"{place} changes while it is scanned; aggregate it when it is complete"
    return Scanned(place, state, problem=said, error=SourceError)


def _described(place: str, state: FileState, dataset: Dataset, how: How) -> Scanned:
    """Return the content of a dataset, and close it."""
    with with_aggregations(dataset):
        if dataset.damage is not None:
            raise SourceError(f"{place}: {dataset.damage}")
        if dataset.format == "cdl":
            raise SourceError(f"{place} is CDL, the text from which ncgen makes netCDF; aggregate the netCDF file")
        aggregates = any(v.dialect is not None for v in dataset.variables)
        if aggregates:
            _read_aggregated(dataset, place, how.links)
        described = describe_all(dataset, how.options)
        unused = _unused(dataset, described)
        if len(dataset.groups) > 1:
            aside = _aside(dataset)
            described = [one for one in described if one.stated.name not in aside]
            unused = tuple(name for name in unused if name not in aside)
        refers = aggregates or dataset.format == KERCHUNK
        if untyped := _untyped(dataset, place, how):
            described = [one for one in described if one.stated.name not in untyped]
        return Scanned(
            place, state, dataset.format, tuple(described), unused=unused, subsampled=_subsampled(dataset, unused),
            untyped=untyped, refers=refers,
        )  # fmt: skip


def _subsampled(dataset: Dataset, unused: Sequence[str]) -> tuple[str, ...]:
    """Return which of the unused variables are tie points, or belong to these."""
    if not unused or all("coordinate_interpolation" not in v.attributes for v in dataset.variables):
        return ()
    found = references(dataset, Resolver(dataset))
    named = {one.target.path.lstrip("/") for one in found if one.target and one.attribute in _OF_TIE_POINTS}
    return tuple(name for name in unused if name in named)


def _untyped(dataset: Dataset, place: str, how: How) -> tuple[str, ...]:
    """Return the paths of variables of an HDF5 file that the netCDF library leaves out."""
    if all(v.kind != "other" or v.enumeration is not None for v in dataset.variables):
        return ()
    from cfagg.arrays.opening import open_any

    with contextlib.suppress(CfaggError):
        groups = open_any(place, how.links).root.walk()
        return tuple(f"{group.path}/{name}".lstrip("/") for group in groups for name in group.untyped)
    return ()


def _unused(dataset: Dataset, described: Sequence[Described]) -> tuple[str, ...]:
    """Return the paths of variables that no description contains; none of aggregations, which have others inside."""
    if any(v.dialect is not None for v in dataset.variables):
        return ()
    used = {one.stated.name for one in described}
    for coordinate in {id(c): c for one in described for c in one.axes.values()}.values():
        used.add(coordinate.stated.name)
        if coordinate.bounds_stated is not None:
            used.add(coordinate.bounds_stated.name)
    for one in {id(one.parts): one for one in described}.values():
        used.update(part.stated.name for part in one.parts.values())
    used.update(mapping.name for one in described for mapping in one.mappings.values())
    return tuple(name for v in dataset.variables if (name := v.path.lstrip("/")) not in used)


def _take_apart(dataset: Dataset) -> None:
    """Break the reference cycles of a described dataset, whose garbage collection would take time later."""
    for variable in dataset.variables:
        variable.read = variable.chunks = None
    for group in dataset.groups:
        group.variables.clear()
        group.parent = None


def _aside(dataset: Dataset) -> set[str]:
    """Return the paths of variables that only serve others: those of accumulations, and of partitions of CFA-0.5."""
    groups = {found for found in set_aside(dataset) if isinstance(found, Group)}
    for variable in dataset.variables:
        name = variable.text("cfa_group")
        if name is not None:
            path = f"{variable.group.path.rstrip('/')}/{name.strip('/')}"
            groups |= {group for group in dataset.groups if group.path == path}
    return {variable.path.lstrip("/") for group in groups for variable in group.variables.values()}


def _read_aggregated(dataset: Dataset, place: str, allow: Sequence[str]) -> None:
    """Make aggregated coordinates, and other aggregations that variables refer to, read the aggregated values."""
    named = {word for v in dataset.variables for name in _REFERRING for word in v.words(name)}
    for variable in dataset.variables:
        if variable.dialect is not None and (variable.is_coordinate or variable.name in named):
            variable.dialect = variable.stored_dimensions = None
            variable.read = partial(_aggregated, place, variable.path, allow)


def _aggregated(place: str, path: str, allow: Sequence[str], slices: tuple[slice, ...]) -> npt.NDArray[Any]:
    """Return a hyperslab of an aggregation whose fragments are in places that its file or `allow` permits."""
    from cfagg.arrays.opening import open_any, open_reader

    source = open_any(place, allow)
    return open_reader(source, path, source.access(allow)).read(slices)


def _scan_url(url: Url, how: How) -> Scanned:
    """Return the content of a file or store on another machine; its readers raise if it is written meanwhile."""
    handle = file_at(url)
    if handle is None and not url.rstrip("/").endswith(".zarr"):
        handle = handles.renew(url)  # raises if it does not exist or may not be read
    if handle is None:
        return _scan_store(store_at(url), url, how)
    state = FileState(handle.key.size, etag=handle.data.lasting_tag)
    return _described(url, state, other_than_netcdf(handle, times=True) or of_handle(handle), how)


def _scan_store(store: Any, place: str, how: How) -> Scanned:
    """Return the content of a Zarr store, identified by its metadata and by the chunks read from it."""
    for _ in range(2):
        documents = Documents(store)
        dataset = open_store(documents, times=True)
        for variable in dataset.variables:
            values: Any = variable.read
            if isinstance(values, ZarrValues):
                values.store = store  # our own reader accepts it unchanged
        found = _described(place, FileState(0), with_readers(dataset), how)
        read = [v.path for v in dataset.variables if getattr(v.read, "reader", None) is not None]
        state = documents.state(read)
        if state is not None:
            seen, size, tag = state
            return replace(found, state=FileState(size, etag=tag), seen=seen)
    raise SourceError(f"{place} changes while it is scanned; aggregate it when it is complete")


def _scan_references(place: str, how: How) -> Scanned:
    """Return the content described by references in Parquet, identified by the document of their directory."""
    state = _state(open_regular(f"{place}/.zmetadata").key)
    return _described(place, state, referenced(place, how.links, times=True), how)


def _state(key: FileKey) -> FileState:
    return FileState(key.size, key.modified, key.changed, key.inode)


def _now(place: str) -> FileState | None:
    """Return the current state of a file, or `None` if it is gone."""
    try:
        found = os.stat(place)  # noqa: PTH116 - Path costs more
    except OSError:
        return None
    return FileState(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
