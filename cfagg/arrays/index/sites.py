"""Locations of the values of partitions in an index, and whether they may be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cfagg.arrays.index.addresses import addresses_of
from cfagg.arrays.index.rows import FileState
from cfagg.arrays.index.table import Index
from cfagg.arrays.plan import Plan
from cfagg.cf import conform
from cfagg.errors import AccessError, CfaggError
from cfagg.formats.values.storage import StoredVariable
from cfagg.storage.access import NamedAccess
from cfagg.storage.remote_file import state_number
from cfagg.storage.urls import Url

if TYPE_CHECKING:
    from cfagg.arrays.subarray import Indices
    from cfagg.model import Aggregation, Grid
    from cfagg.storage.access import Access

__all__ = ["Conforming", "Sites", "sites_of"]

Int64 = npt.NDArray[np.int64]


class Conforming(Protocol):
    """The interface of the reader of an aggregation that is needed here."""

    aggregation: Aggregation
    access: Access
    grid: Grid
    dtype: np.dtype[Any]
    workers: int | None
    word_size: int | None

    def prepared(
        self, i: int, located: StoredVariable, source: Sequence[Any]
    ) -> tuple[conform.Recipe, list[Indices], list[tuple[int, bool]], StoredVariable] | None:
        """Return how a selection of a partition is read and conformed."""

    def fill_cells(self, made: Plan, out: npt.NDArray[Any], cells: Sequence[int]) -> None:
        """Fill the places of some cells of a plan."""


class Sites(NamedTuple):
    """The location of the fragment of each partition: directory, name, and file and row in the index."""

    directories: list[str | Url]  # for remote ones a URL in them
    names: list[str]
    #: For each partition: codes of directory and name, index of file and of variable; -1 if there is none.
    directory: Int64
    name: Int64
    file: Int64
    row: Int64


def sites_of(reader: Conforming, index: Index) -> Sites:
    """Return the locations of the fragments of an aggregation, according to the policy for its references."""
    partitions, access = reader.aggregation.partitions, reader.access
    wanted, number = addresses_of(reader.aggregation, reader.word_size)
    folders: dict[str, tuple[int, bool]] = {}
    directories: list[str | Url] = []
    names: list[str] = []
    table = np.full((len(wanted) + 1, 4), -1)
    home = os.path.dirname(access.parent)  # noqa: PTH120
    is_remote = isinstance(access.parent, Url)
    for n, (file, address) in enumerate(wanted):
        reference = partitions.files[file]
        folder, slash, name = reference.rpartition("/")
        path: str
        if is_remote or ":" in reference:
            url = _url(access, reference)
            if url is None:
                continue
            (folder, name), path, is_allowed = url.place, str(url), True
            if folder not in folders:
                folders[folder] = len(directories), True
                directories.append(url)
            place = folders[folder][0]
        else:
            if access.is_linked or name in ("", ".", ".."):
                continue
            if folder not in folders:
                real = os.path.realpath(os.path.join(home, folder or slash))  # noqa: PTH118
                folders[folder] = len(directories), access.is_within(real)
                directories.append(real)
            place, is_allowed = folders[folder]
            path = f"{directories[place].rstrip('/')}/{name}"
        i = index.files.get(path)
        k = -1 if i is None else index.row(i, address)
        if i is None or k < 0 or _is_outdated(access, reference, index.state(i)):
            continue
        if is_allowed or _may_read(access, path, reference):
            table[n] = place, len(names), i, k
            names.append(name)
    columns = table[number]
    return Sites(directories, names, *np.ascontiguousarray(columns.T))


def _is_outdated(access: Access, reference: str, state: FileState) -> bool:
    """Return whether an index, perhaps refreshed since, has a file in another state than it was scanned in."""
    if not isinstance(access, NamedAccess):
        return False
    size, modified, _, inode, tag = state
    if tag is not None:
        modified = inode = state_number(tag, size)
    return access.states.is_changed(reference, size, modified, inode)


def _url(access: Access, reference: str) -> Url | None:
    """Return the URL of a reference, or `None` if it has none, or one that may not be read."""
    try:
        found = access.resolve(reference)
    except CfaggError:
        return None
    return found if isinstance(found, Url) else None


def _may_read(access: Access, path: str, reference: str) -> bool:
    """Return whether the policy allows a file; it will not be opened if it is a link."""
    try:
        access.judge(path, reference)
    except AccessError:
        return False
    return True
