"""Opening the accumulation of an array, by cfagg or by another program."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.accumulation.arrays import (
    CellWeights,
    check_boundaries,
    find_checksums,
    find_stamps,
    read_outliers,
    read_statistics,
    read_sums,
    read_weights,
)
from cfagg.accumulation.group import Allowed, Group, command, group_path, stale
from cfagg.accumulation.integrity import is_sealed
from cfagg.accumulation.related import neighbours_of
from cfagg.conventions.accumulation import is_accumulation, parse_extra, parse_group, sample_positions
from cfagg.conventions.accumulation_model import Table
from cfagg.errors import (
    CfaggError,
    ConventionError,
    NotAccumulatedError,
    OptionError,
    Problem,
    StaleAccumulationWarning,
    StaleError,
)
from cfagg.formats.zarr.documents import Document, node_folder, read_group
from cfagg.formats.zarr.metadata import ZarrArray, open_array

__all__ = ["open_group"]


def open_group(
    store: str | os.PathLike[str], variable: str, *, check: bool = True, weights: Any = None, allow: Allowed = ()
) -> Group:
    """Open the accumulation of an array; with `check`, refuse one whose array is described otherwise by now."""
    for left in reversed(range(_ATTEMPTS)):
        source = open_array(store, variable, allow=allow)
        found = _find(source)
        try:
            group = _open(source, found.content, found.identity, weights)
        except (CfaggError, OSError):
            # Another process may have put a new group in this one's place while it was read.
            if not left or _find(source).identity == found.identity:
                raise
            continue
        if check and group.differences:
            raise stale(group, group.differences.problems)
        return group
    raise _not_accumulated(source)


#: Bytes that weights may take which a user gives.
_MEMORY = 2**28


#: How often a group is opened anew that is exchanged while it is read.
_ATTEMPTS = 4


def _find(source: ZarrArray) -> Document:
    """Return the attributes of an array's accumulation group."""
    for left in reversed(range(_ATTEMPTS)):
        found = read_group(source.store, group_path(source.path), source.zarr_format, source.allow)
        if found is not None and is_accumulation(found.content):
            return found
        if left:
            # Where the system cannot exchange two directories, a group is away for the moment of its exchange.
            time.sleep(0.002)
    raise _not_accumulated(source)


def _not_accumulated(source: ZarrArray) -> NotAccumulatedError:
    return NotAccumulatedError(
        f"{source.store}: {source.path!r} has no accumulation; build one with: {command(source.store, source.path)}"
    )


def _open(source: ZarrArray, attributes: Mapping[str, Any], identity: tuple[int, ...], given: Any = None) -> Group:
    """Return the group with these attributes."""
    path = group_path(source.path)
    where = f"{source.store}: group {path!r}"
    if "cfagg" not in attributes:
        from cfagg.accumulation.foreign import open_foreign  # it makes a Group

        group = open_foreign(source, path, attributes, identity, given)
        warnings.warn(f"{where}: {group.foreign}", StaleAccumulationWarning, stacklevel=4)
        return group
    if isinstance(attributes["cfagg"], Mapping) and attributes["cfagg"].get("version") == 1:
        raise StaleError(
            f"{where} was built by an earlier version of cfagg, which kept no checksums of what it read, so that it "
            f"cannot be compared with the data; rebuild it with: "
            f"{command(source.store, source.path, '--overwrite')}"
        )
    damaged = f"{where} is damaged; rebuild it with: {command(source.store, source.path, '--overwrite')}"
    if not is_sealed(attributes):
        raise ConventionError(damaged, [Problem("cfagg", "the attributes are not those that were written")])
    # The source may have other dimensions by now; the group is read as of its own.
    dims = parse_extra(attributes["cfagg"], source=where).source.dims
    combinations = parse_group(attributes, dims, source=where)
    extra = parse_extra(attributes["cfagg"], combinations=combinations, source=where)
    grid = extra.source.grid
    axis = {d: i for i, d in enumerate(dims)}
    positions = {d: sample_positions(grid.axes[axis[d]], grid.shape[axis[d]], n) for d, n in extra.stride.items()}
    problems: list[Problem] = []
    book = find_checksums(source, path, extra, problems)
    sums = read_sums(source, path, combinations, extra, positions, book, problems)
    statistics = read_statistics(source, path, extra, book, problems)
    weights = read_weights(source, path, extra, book, problems)
    outliers = read_outliers(source, path, extra, book, problems)
    stamps = find_stamps(source, path, extra, problems)
    check_boundaries(source, path, extra, positions, book, problems)
    if problems:
        raise ConventionError(damaged, problems)
    if given is not None:
        _check_given(source, weights, given)
    packing = extra.packing
    stored = np.dtype(extra.source.dtype)
    return Group(
        store=source.store,
        variable=source.path,
        folder=node_folder(source.store, path),
        source=source,
        dims=dims,
        sums=Table(sums),
        samples=Table({c: tuple(positions[d] if d in c else None for d in dims) for c in sums}),
        statistics=Table(statistics),
        scale=1.0 if packing is None else float(packing.scale_factor),
        offset=0.0 if packing is None else float(packing.add_offset),
        dtype=np.dtype(stored.str.replace("i" if extra.mask.unsigned else "b", "u")),
        mask=extra.mask,
        weights=weights,
        kind=extra.sums,
        complete=not (extra.missing or extra.nonfinite),
        extra=extra,
        stamps=stamps,
        foreign=None,
        identity=identity,
        outliers=outliers,
        neighbours=neighbours_of(source, extra.related),
    )


def _check_given(source: ZarrArray, stored: CellWeights | None, given: Any) -> None:
    """Refuse weights that are not those of the sums."""
    from cfagg.accumulation.weights import find_weights

    found = find_weights(source, given, _MEMORY)
    if found is None or stored is None or found.axes != stored.axes or not np.array_equal(found.values, stored.array):
        raise OptionError(
            f"{source.store}: the accumulation of {source.path!r} keeps "
            f"{'no weights' if stored is None else 'weights of its own'}, and those that were given are others; leave "
            f"weights= out, or rebuild it with other weights: "
            f"{command(source.store, source.path, '--weights … --overwrite')}"
        )
