"""Opening the accumulation of an array, by cfagg or another program, and comparing its arrays with its attributes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.accumulation.description import differences, neighbours_of
from cfagg.accumulation.group import CellWeights, Group, Paths, command, group_path, stale
from cfagg.accumulation.integrity import GrowingTable, is_sealed
from cfagg.accumulation.own_arrays import OwnArrays
from cfagg.conventions.accumulation import is_accumulation, parse_extra, parse_group
from cfagg.conventions.accumulation_extra import check_together
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
from cfagg.formats.zarr.remote import one_look

__all__ = ["open_group"]

#: Largest size of weights given by a user, in bytes.
_MEMORY = 2**28

#: Number of attempts to open a group that is replaced while it is read.
_ATTEMPTS = 4


def open_group(
    store: str | os.PathLike[str],
    variable: str,
    *,
    check: bool = True,
    weights: Any = None,
    allow: Paths = (),
    when_needed: bool = False,
) -> Group:
    """Open the accumulation of an array; `check` its description; open statistics now, or on use if `when_needed`."""
    for left in reversed(range(_ATTEMPTS)):
        failure = None
        with one_look():
            source = open_array(store, variable, allow=allow)
            found = _find(source)
            try:
                group = _open(source, found.content, found.identity, weights, when_needed=when_needed)
            except (CfaggError, OSError) as error:
                failure = error
        if failure is not None:
            # Another process may have replaced this group while it was read.
            with one_look():
                same = not left or _find(source).identity == found.identity
            if same:
                raise failure
            continue
        if check and group.differences:
            raise stale(group, group.differences.problems)
        return group
    raise _not_accumulated(source)


def _find(source: ZarrArray) -> Document:
    """Return the attributes of an array's accumulation group."""
    for left in reversed(range(_ATTEMPTS)):
        found = read_group(source.store, group_path(source.path), source.zarr_format, source.allow)
        if found is not None and is_accumulation(found.content):
            return found
        if left:
            # If the system cannot exchange two directories, a group is missing for a moment while it is replaced.
            time.sleep(0.002)
    raise _not_accumulated(source)


def _not_accumulated(source: ZarrArray) -> NotAccumulatedError:
    return NotAccumulatedError(
        f"{source.store}: {source.path!r} has no accumulation; build one with: {command(source.store, source.path)}"
    )


def _open(
    source: ZarrArray,
    attributes: Mapping[str, Any],
    identity: tuple[int, ...],
    given: Any = None,
    *,
    when_needed: bool = False,
) -> Group:
    """Return the group with these attributes."""
    path = group_path(source.path)
    where = f"{source.store}: group {path!r}"
    if "cfagg" not in attributes:
        from cfagg.accumulation.foreign import open_foreign  # it creates a Group

        group = open_foreign(source, path, attributes, identity, given)
        warnings.warn(f"{where}: {group.foreign}", StaleAccumulationWarning, stacklevel=4)
        return group
    if isinstance(attributes["cfagg"], Mapping) and attributes["cfagg"].get("version") == 1:
        raise StaleError(
            f"{where} was built by an earlier version of cfagg, which kept no checksums of the data, so the two cannot "
            f"be compared; rebuild it with: "
            f"{command(source.store, source.path, '--overwrite')}"
        )
    damaged = f"{where} is damaged; rebuild it with: {command(source.store, source.path, '--overwrite')}"
    if not is_sealed(attributes):
        raise ConventionError(damaged, [Problem("cfagg", "the attributes are not those that were written")])
    # The source may have other dimensions by now; the group is read with those it was built with.
    extra = parse_extra(attributes["cfagg"], source=where)
    dims = extra.source.dims
    combinations = parse_group(attributes, dims, source=where)
    check_together(extra, combinations, source=where)
    reader = OwnArrays(source, path, extra, when_needed=when_needed)
    _ = reader.book  # so that its problems are listed first
    sums, statistics = reader.sums(combinations), reader.statistics()
    weights, outliers = reader.weights(), reader.outliers()
    stamped = reader.stamps()
    table, stamps = (stamped, stamped.array) if isinstance(stamped, GrowingTable) else (None, stamped)
    reader.check_boundaries()
    if reader.problems:
        if extra.growth is not None and (found := differences(source, extra)):
            # An extension of the group may be under way or have been interrupted.
            raise StaleError(
                f"{where} does not belong to the present data; refresh it with: "
                f"{command(source.store, source.path, '--refresh')}",
                found.problems,
            )
        raise ConventionError(damaged, reader.problems)
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
        samples=Table({c: tuple(reader.positions[d] if d in c else None for d in dims) for c in sums}),
        statistics=Table(statistics),
        scale=1.0 if packing is None else float(packing.scale_factor),
        offset=0.0 if packing is None else float(packing.add_offset),
        dtype=np.dtype(stored.str.replace("i" if extra.mask.unsigned else "b", "u")),
        mask=extra.mask,
        weights=weights,
        kind=extra.sums,
        complete=not (extra.excluded.missing or extra.excluded.nonfinite),
        extra=extra,
        stamps=stamps,
        foreign=None,
        identity=identity,
        outliers=outliers,
        neighbours=neighbours_of(source, extra.related),
        table=table,
        seal=int(attributes["cfagg"]["crc"]),
    )


def _check_given(source: ZarrArray, stored: CellWeights | None, given: Any) -> None:
    """Refuse weights that are not those of the sums."""
    from cfagg.accumulation.weights import find_weights

    found = find_weights(source, given, _MEMORY)
    if found is None or stored is None or found.axes != stored.axes or not np.array_equal(found.values, stored.array):
        raise OptionError(
            f"{source.store}: the accumulation of {source.path!r} keeps "
            f"{'no weights' if stored is None else 'weights that differ from those given'}; leave out weights=, or "
            "rebuild it with these weights: "
            f"{command(source.store, source.path, '--weights … --overwrite')}"
        )
