"""The content of an opened file: aggregations unchanged, other variables to be copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from cfagg.arrays.aggregated import AggregationReader
from cfagg.arrays.fixed_length import spelled
from cfagg.arrays.joined_source import JoinedSource
from cfagg.arrays.opening import open_reader
from cfagg.arrays.reader import Reader
from cfagg.arrays.source import Group, OtherSource, Source, Variable, refuse_unreadable
from cfagg.arrays.untold import unread_attributes
from cfagg.conventions.marks import is_private
from cfagg.errors import CfaggError, LossError
from cfagg.findings.losses import Loss
from cfagg.formats.zarr.attributes import without_odd_fill
from cfagg.model import Aggregation
from cfagg.storage.access import Access, NamedAccess
from cfagg.writing.attributes import netcdf_attributes, without_text_fill
from cfagg.writing.content import Aggregated, Content, Held
from cfagg.writing.elsewhere import as_netcdf, elsewhere, is_referable
from cfagg.writing.references import home_of

__all__ = ["DESCRIBING", "aggregated", "content_of", "describing", "dims_of", "held"]

#: Attributes that name variables describing others.
DESCRIBING = ("bounds", "climatology", "grid_mapping", "coordinates")

#: Further ones: of geometries, of subsampled coordinates and, by their ends, of meshes.
_FURTHER = frozenset(
    {
        "nodes", "node_count", "part_node_count", "interior_ring", "bounds_tie_points", "coordinate_interpolation",
        "interpolation_parameters", "tie_point_mapping",
    }
)  # fmt: skip
_OF_MESHES = ("_coordinates", "_connectivity")

#: Attributes of variables that describe others by having these: names of features, their counts, lists of points.
_OWN = frozenset({"cf_role", "compress", "sample_dimension", "instance_dimension"})


def content_of(
    source: Source,
    access: Access,
    to: str,
    *,
    variables: Sequence[str] | None = None,
    drop: bool = False,
    word_size: int | None = None,
) -> tuple[Content, tuple[Loss, ...]]:
    """Return the content of a file, and the losses of what cannot be read or expressed and may be left out."""
    unreadable = [
        (group, name, error)
        for group in source.root.walk()
        for name, error in group.lacking.items()
        if variables is None or _path(group, name) in variables
    ]
    if not drop:
        refuse_unreadable((e for _, _, e in unreadable), "leave it out with on_loss='drop'")
    losses = tuple(
        Loss(_path(group, name), None, "the variable", "it is left out", error.message)
        for group, name, error in unreadable
    )
    wanted = None if variables is None else _with_references(source, variables)
    losses += unread_attributes(source, wanted, drop=drop)
    copying = _Copying(source, partial(open_reader, source, access=access, word_size=word_size), to, wanted)
    content = copying.group(source.root)
    if copying.losses and not drop:
        raise LossError(
            f"{source.path}: {len(copying.losses):,} of its variables and attributes cannot be read or expressed in "
            "netCDF; on_loss='drop' (--on-loss drop) leaves them out",
            copying.losses,
        )
    return content, (*losses, *copying.losses)


def describing(variables: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the names of variables, given by their attributes, that describe where or what values of others are."""
    found = {name for name, own in variables.items() if not _OWN.isdisjoint(own)}
    for own in variables.values():
        for key, text in own.items():
            if isinstance(text, str) and (key in DESCRIBING or key in _FURTHER or key.endswith(_OF_MESHES)):
                found.update(text.replace(":", " ").split())
    return found


def _describing(source: Source) -> set[str]:
    """Return the paths of the variables that describe others, in whichever group."""
    found = set()
    for group in source.root.walk():
        for word in describing({name: v.attributes for name, v in group.variables.items()}):
            with suppress(CfaggError):
                where, one = source.find_from(group.path, word)
                found.add(_path(where, one.name))
    return found


def _path(group: Group, name: str) -> str:
    return f"{group.path.rstrip('/')}/{name}".lstrip("/")


def _with_references(source: Source, variables: Sequence[str]) -> set[str]:
    """Return the paths of variables and of all variables that they refer to."""
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


class _Copying:
    """Builds the content of a file from another, group by group; what netCDF cannot express is added to `losses`."""

    def __init__(self, source: Source, opened: Callable[[str], Reader], to: str, wanted: set[str] | None) -> None:
        self.source, self.opened, self.to, self.wanted = source, opened, to, wanted
        self.holding = _holding(source)
        self.describing = _describing(source)
        self.losses: list[Loss] = []
        # Arrays of an aggregation file are copied; those of other files stay there.
        self.stay = not source.root.has_aggregations and not isinstance(source, JoinedSource)

    def group(self, group: Group) -> Content:
        """Return one group and its descendants."""
        variables: dict[str, Held | Aggregated] = {}
        public, held_along = group.public_dimensions, self._held_along(group)
        dimensions = {dim: n for dim, n in group.dimensions.items() if dim in public or dim in held_along}
        for name, one in (group.variables | group.private).items():
            path, private = _path(group, name), name in group.private
            if private and not self._holds_values(path, one):
                continue  # the new file describes its fragments itself
            if not private and self.wanted is not None and path not in self.wanted:
                continue
            if isinstance(one, Variable) and isinstance(self.source, OtherSource):
                flaw = self.source.flaw(group.path, one)
                if flaw is not None:
                    self.losses.append(Loss(path, None, "the variable", "it is left out", flaw))
                    continue
            reader = self.opened(path)
            if isinstance(one, Aggregation):
                variables[name] = aggregated(one, reader)
                continue
            reader = spelled(reader, dimensions | dict.fromkeys(group.variables, -1))
            dims = (*one.dims, *reader.dims[len(one.dims) :])
            dimensions |= zip(dims[len(one.dims) :], reader.shape[len(one.dims) :], strict=True)
            if self.stay and is_referable(one.dims) and one.dims != (name,) and path not in self.describing:
                attributes = self._said(one.attributes, one.dtype, path)
                variables[name] = elsewhere(name, dims, reader, attributes, self.to)
            else:
                attributes = _marked(one, self.to) if private else self._said(one.attributes, one.dtype, path)
                variables[name] = held(dims, reader, attributes, private=private)
        return Content(
            group.path,
            dimensions,
            self._said(group.public_attributes, None, group.path.strip("/") or "/"),
            variables,
            tuple(self.group(inner) for inner in group.groups.values()),
        )

    def _holds_values(self, path: str, one: Variable | Aggregation) -> bool:
        """Return whether a private variable holds values of partitions to which the new file can refer."""
        return self.to != "CF-1.13" and (is_private(one.attributes) or path in self.holding)

    def _held_along(self, group: Group) -> set[str]:
        """Return the names of dimensions that such variables of a group and those below it span."""
        found = ((_path(g, name), one) for g in group.walk() for name, one in g.private.items())
        return {dim for path, one in found if self._holds_values(path, one) for dim in one.dims}

    def _said(self, attributes: Mapping[str, Any], dtype: np.dtype[Any] | None, path: str) -> Mapping[str, Any]:
        """Return attributes in netCDF types; those of netCDF files already are, but for their fill values."""
        if dtype is not None:
            attributes, lost = without_odd_fill(attributes, dtype, path, path, drop=True)
            self.losses += lost
            if dtype.kind == "S" and dtype.itemsize > 1:
                attributes, lost = without_text_fill(attributes, path)
                self.losses += lost
        if not isinstance(self.source, OtherSource):
            return attributes
        fill = {k: v for k, v in attributes.items() if k == "_FillValue"}
        found, losses = netcdf_attributes({k: v for k, v in attributes.items() if k not in fill}, dtype, path)
        self.losses += losses
        return found | fill


def _holding(source: Source) -> set[str]:
    """Return the paths of the variables that hold values of aggregations in their own file."""
    found = set()
    for group in source.root.walk():
        for one in group.variables.values():
            tables = (one.partitions, *one.partitions.versions) if isinstance(one, Aggregation) else ()
            for table in tables:
                for code in np.unique(table.address[(table.file < 0) & table.present]).tolist():
                    with suppress(CfaggError):
                        where, held_by = source.find_from(group.path, table.addresses[code] if code >= 0 else one.name)
                        found.add(_path(where, held_by.name))
    return found


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
    """Return an aggregation with its readers."""
    if not isinstance(reader, AggregationReader):
        return Aggregated(aggregation, home_of(aggregation.source, aggregation.partitions.files))
    # The names of files that the user named begin nowhere; some of these may be URLs, and others paths.
    named = isinstance(reader.access, NamedAccess)
    home = "/" if named else home_of(reader.access.parent, aggregation.partitions.files)
    told = partial(_says, reader), partial(dims_of, reader), partial(_version, reader)
    return Aggregated(aggregation, home, reader.with_gaps().read, *told, access=reader.access)


def _says(reader: AggregationReader, row: int, attribute: str) -> bool:
    """Return whether a fragment itself has the aggregation's units or calendar."""
    try:
        reader.recipe(row)
        return isinstance(reader.header(row).attributes.get(attribute), str)
    except CfaggError:
        return False


def _version(reader: AggregationReader, row: int) -> int:
    """Return the number of the first version of a fragment that opens, 0 if none does."""
    try:
        return reader.version(row)
    except CfaggError:
        return 0


def dims_of(reader: AggregationReader, row: int) -> tuple[str, ...] | None:
    """Return the dimensions of the aggregation that a fragment has, in its order."""
    try:
        return reader.layout(row).dims
    except CfaggError:
        return None
