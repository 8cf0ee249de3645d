"""The content of a file that was opened: aggregations as they are, other variables to be copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.joined_source import JoinedSource
from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.source import Group, Source, Variable, refuse_unreadable
from cfagg.errors import CfaggError
from cfagg.findings.losses import Loss
from cfagg.model import Aggregation
from cfagg.storage.access import Access
from cfagg.writing.content import Aggregated, Content, Held
from cfagg.writing.elsewhere import as_netcdf, elsewhere
from cfagg.writing.references import home_of

__all__ = ["DESCRIBING", "aggregated", "content_of", "dims_of", "held"]

#: Attributes that name variables which describe others.
DESCRIBING = ("bounds", "climatology", "grid_mapping", "coordinates")


def content_of(
    source: Source,
    access: Access,
    to: str,
    *,
    variables: Sequence[str] | None = None,
    drop: bool = False,
    word_size: int | None = None,
) -> tuple[Content, tuple[Loss, ...]]:
    """Return what a file contains, and the losses of what cannot be read and may be left out."""
    unreadable = [
        (group, name, error)
        for group in source.root.walk()
        for name, error in group.unreadable.items()
        if variables is None or _path(group, name) in variables
    ]
    if not drop:
        refuse_unreadable((e for _, _, e in unreadable), "leave it out with on_loss='drop'")
    losses = tuple(
        Loss(_path(group, name), None, "the variable", "it is left out", error.message)
        for group, name, error in unreadable
    )
    wanted = None if variables is None else _with_references(source, variables)
    opened = partial(open_reader, source, access=access, word_size=word_size)
    return _content(source, source.root, opened, to, wanted), losses


def _path(group: Group, name: str) -> str:
    return f"{group.path.rstrip('/')}/{name}".lstrip("/")


def _with_references(source: Source, variables: Sequence[str]) -> set[str]:
    """Return the paths of variables and of all that they refer to."""
    found: set[str] = set()
    queue = [name.lstrip("/") for name in variables]
    for name in queue:
        source.find(name)
    while queue:
        path = queue.pop()
        if path in found:
            continue
        group, one = source.find(path)
        found.add(_path(group, one.name))
        words = [w for v in one.attributes.values() if isinstance(v, str) for w in v.replace(":", " ").split()]
        for word in {*words, *one.dims}:
            try:
                where, other = source.find_from(group.path, word)
            except CfaggError:
                continue
            queue.append(_path(where, other.name))
    return found


def _content(
    source: Source, group: Group, opened: Callable[[str], Reader], to: str, wanted: set[str] | None
) -> Content:
    """Return one group and those below."""
    variables: dict[str, Held | Aggregated] = {}
    # The arrays of an aggregation file are its own; those of another file stay there.
    stay = not source.root.has_aggregations and not isinstance(source, JoinedSource)
    words = {w for v in group.variables.values() for k in DESCRIBING for w in str(v.attributes.get(k, "")).split()}
    for name, one in (group.variables | group.private).items():
        private = name in group.private
        if private and to == "CF-1.13":
            continue
        if not private and wanted is not None and _path(group, name) not in wanted:
            continue
        reader = opened(_path(group, name))
        if isinstance(one, Aggregation):
            variables[name] = aggregated(one, reader)
        elif stay and one.dims and one.dims != (name,) and name not in words:
            variables[name] = elsewhere(name, one.dims, reader, one.attributes, to)
        else:
            variables[name] = held(one.dims, reader, _marked(one, to) if private else one.attributes, private=private)
    return Content(
        group.path,
        group.public_dimensions if to == "CF-1.13" else group.dimensions,
        group.public_attributes,
        variables,
        tuple(_content(source, inner, opened, to, wanted) for inner in group.groups.values()),
    )


def _marked(variable: Variable, to: str) -> dict[str, Any]:
    """Return the attributes of a private variable with the mark of a dialect."""
    found = {k: v for k, v in variable.attributes.items() if k != "nca_private"}
    if str(found.get("cf_role")) in ("nca_private", "cfa_private"):
        del found["cf_role"]
    marks: dict[str, dict[str, Any]] = {
        "NCA-0.1": {"nca_private": np.int32(1)},
        "CFA-0.4": {"cf_role": "cfa_private"},
    }
    return found | marks.get(to, {})


def held(dims: tuple[str, ...], reader: Reader, attributes: Mapping[str, Any], *, private: bool = False) -> Held:
    """Return a variable whose values are copied."""
    dtype, read, attributes = as_netcdf(reader.dtype, reader.read, attributes)
    return Held(dims, tuple(reader.shape), dtype, attributes, read, reader.encoding, private)


def aggregated(aggregation: Aggregation, reader: Reader | None) -> Aggregated:
    """Return an aggregation with what reads it."""
    if not isinstance(reader, AggregationReader):
        return Aggregated(aggregation, home_of(aggregation.source, aggregation.partitions.files))
    home = home_of(reader.access.parent, aggregation.partitions.files)
    return Aggregated(aggregation, home, reader.with_gaps().read, partial(_says, reader), partial(dims_of, reader))


def _says(reader: AggregationReader, row: int, attribute: str) -> bool:
    """Return whether a fragment has its units or calendar itself, and no others than the aggregation says."""
    try:
        reader.recipe(row)
        return isinstance(reader.header(row).attributes.get(attribute), str)
    except CfaggError:
        return False


def dims_of(reader: AggregationReader, row: int) -> tuple[str, ...] | None:
    """Return the dimensions of the aggregation that a fragment has, in its order."""
    try:
        return reader.layout(row).dims
    except CfaggError:
        return None
