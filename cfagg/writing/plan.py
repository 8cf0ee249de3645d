"""Planning each aggregation in a dialect: what is lost, and for which partitions fragments are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cfagg.arrays.stated_formats import is_field
from cfagg.arrays.store_fragments import STORES
from cfagg.cf.recipe import is_any
from cfagg.conventions.encoded import Lack, expand, stored
from cfagg.errors import CfaggError
from cfagg.findings.losses import Loss
from cfagg.model import Aggregation, Layout, Partitions, Strings
from cfagg.writing import dialects
from cfagg.writing.content import Aggregated, Content, Held
from cfagg.writing.references import moved

__all__ = ["OnLoss", "Work", "decreasing", "plan"]

OnLoss = Literal["error", "materialise", "drop"]

Rows = npt.NDArray[np.int64]

#: The attribute that records directions that no coordinate determines: ``"lat: decreasing"``.
_DIRECTIONS = "dimension_directions"

#: Properties shared by all fragments, stored in attributes if a dialect cannot express them otherwise.
_ALIKE = ("format", "dtype")

#: Dialects that leave units to the files of fragments.
_BY_FRAGMENT = ("CF-1.13", "CFA-0.6.2")


@dataclass(frozen=True)
class Work:
    """One aggregation as it is written, and the partitions whose values are written into new fragments."""

    aggregated: Aggregated
    aggregation: Aggregation
    rows: Rows
    losses: tuple[Loss, ...]  # accepted
    refused: tuple[Loss, ...]  # not accepted
    notes: tuple[str, ...]
    left_out: bool = False

    @property
    def referring(self) -> Aggregation:
        """The aggregation without the partitions that are written."""
        present = np.array(self.aggregation.partitions.present)
        present[self.rows] = False
        return replace(self.aggregation, partitions=replace(self.aggregation.partitions, present=present))

    def with_fragments(self, names: list[str], variable: str, to: str) -> Aggregation:
        """Return the aggregation with the partitions of `rows` in files of these names."""
        if not self.rows.size:
            return self.aggregation
        partitions, rows = self.aggregation.partitions, self.rows
        columns: dict[str, Any] = {
            name: np.array(getattr(partitions, name))
            for name in ("file", "address", "layout", "offset", "part", "present", "value")
        }
        columns["file"][rows] = np.arange(rows.size) + len(partitions.files)
        columns["address"][rows] = len(partitions.addresses)
        columns["layout"][rows] = len(partitions.layouts)
        for name, value in (("offset", -1), ("part", -1), ("value", -1), ("present", True)):
            columns[name][rows] = value
        others: tuple[Partitions, ...] = ()
        if dialects.has_versions(to):
            gone = np.zeros(len(partitions), bool)
            gone[rows] = True
            others = tuple(replace(o, present=o.present & ~gone) for o in partitions.versions)
        made = replace(
            partitions,
            **columns,
            files=Strings([*partitions.files, *names]),
            addresses=Strings([*partitions.addresses, variable]),
            layouts=(*partitions.layouts, Layout(self.aggregation.dims)),
            versions=others,
        )
        # If packing was the obstacle, all partitions were written, packed or unpacked as the dialect requires.
        return replace(self.aggregation, partitions=made, packs=to not in _BY_FRAGMENT)


def plan(aggregated: Aggregated, to: str, on_loss: OnLoss, base: str, down: Mapping[str, bool], path: str) -> Work:
    """Plan one aggregation; `down` maps dimensions with coordinates to whether they decrease."""
    if is_any(aggregated.aggregation.dtype):
        own_type = Loss(
            path, None, "the variable", "its type is defined by its file", f"{to} cannot express such types"
        )
        gone, left = ((own_type,), ()) if on_loss == "drop" else ((), (own_type,))
        return Work(aggregated, aggregated.aggregation, np.empty(0, np.int64), gone, left, (), bool(gone))
    aggregation, notes = _directed(moved(aggregated.aggregation, aggregated.home, base), to, down)
    if on_loss == "drop" and aggregated.version is not None and not dialects.has_versions(to):
        aggregation = _of_one_version(aggregation, aggregated.version)
    if aggregation.dialect in _BY_FRAGMENT and aggregation.dialect != to and aggregated.dims is not None:
        aggregation = _ordered(aggregation, aggregated.dims, to)
    if to not in _BY_FRAGMENT:
        aggregation = _said_of_all(aggregation, to)
    found = list(_real(aggregated, dialects.lacks(aggregation, to)))
    if aggregated.computed:  # there are no fragments yet, so nothing can be lost
        found = [lack for lack in found if lack.rows is None]
    own = np.empty(0, np.int64) if aggregated.read is None else _without_address(aggregation)
    if own.size:
        whole = np.ones(aggregation.grid.size, bool)
        whole[own] = False
        found = [lack if lack.rows is None else lack.within(whole[lack.rows]) for lack in found]
        found = [lack for lack in found if lack.rows is None or lack.rows.size]
    made = {"materialise": [lack for lack in found if lack.rows is not None]}.get(on_loss, [])
    rest = [lack for lack in found if not any(lack is one for one in made)]
    rows = np.unique(np.concatenate([own, *(lack.rows for lack in made if lack.rows is not None)]))
    if aggregated.computed:
        rows = np.arange(aggregation.grid.size)
    losses = tuple(loss._replace(variable=path) for loss in expand(aggregation, rest))
    if made and aggregated.read is None:
        rows, losses = rows[:0], tuple(loss._replace(variable=path) for loss in expand(aggregation, found))
    if to in _BY_FRAGMENT and not losses and not rows.size:
        aggregation = _said_of_all(aggregation, to)
    notes += [*dialects.notes(aggregation, to), *_encoded_names(aggregation, to)]
    if to in _BY_FRAGMENT and not losses:
        aggregation, more = _without_units(aggregation, rows)
        notes += more
    if on_loss != "drop":
        return Work(aggregated, aggregation, rows, (), losses, tuple(notes))
    left_out = any(lack.values for lack in rest)
    if left_out:
        why = "without what is lost, its values would differ"
        losses = (*losses, Loss(path, None, "the variable", "it is left out", why))
    return Work(aggregated, aggregation, rows, losses, (), tuple(notes), left_out)


def decreasing(content: Content, above: Mapping[str, bool]) -> dict[str, bool]:
    """Return whether each dimension with a coordinate variable decreases, for a group and those above it."""
    found = dict(above)
    for name in content.dimensions:
        found.pop(name, None)
        one = content.variables.get(name)
        if isinstance(one, Held):
            dims, shape, kind, read = one.dims, one.shape, one.dtype.kind, one.read
        elif isinstance(one, Aggregated) and one.read is not None:
            dims, shape, kind = one.aggregation.dims, one.aggregation.shape, one.aggregation.dtype.kind
            read = one.read
        else:
            continue
        if dims != (name,) or kind not in "iuf" or shape[0] < 2:
            continue
        try:
            first, last = read((slice(0, 1),)), read((slice(shape[0] - 1, shape[0]),))
        except CfaggError:
            continue
        found[name] = bool(first[0] > last[0])
    return found


def _directed(aggregation: Aggregation, to: str, down: Mapping[str, bool]) -> tuple[Aggregation, list[str]]:
    """Return an aggregation with directions in a form that the dialect can express, and notes."""
    # Only NCA can state directions; in other dialects coordinates determine them, or else an attribute.
    attributes = dict(aggregation.attributes)
    words = str(attributes.pop(_DIRECTIONS, "")).split()
    given = aggregation.directions
    says = aggregation.dialect.startswith("NCA") or not (given if isinstance(given, bool) else all(given))
    increasing = {d: not down.get(d, False) for d in aggregation.dims}
    if to == "NCA-0.1":
        if says:
            return aggregation, []
        kept = zip(words[::2], words[1::2], strict=False)
        increasing |= {d[:-1]: word == "increasing" for d, word in kept if d[:-1] in increasing}
        directions = tuple(increasing.values()) if aggregation.dims else words != ["decreasing"]
        return replace(aggregation, attributes=attributes, directions=directions), []
    if not says:
        return aggregation, []
    if isinstance(given, bool):
        odd = [] if given else ["decreasing"]
    else:
        pairs = zip(aggregation.dims, given, strict=True)
        odd = [f"{d}: {'increasing' if up else 'decreasing'}" for d, up in pairs if up is not increasing[d]]
    plain = replace(aggregation, directions=True)
    if not odd:
        return plain, []
    text = " ".join(odd)
    note = f"{text}, which coordinates do not give, is kept in the attribute {_DIRECTIONS}"
    found = replace(plain, attributes=attributes | {_DIRECTIONS: text})
    return found, [f"variable {aggregation.name!r}: {note}"]


def _ordered(aggregation: Aggregation, dims_of: Callable[[int], tuple[str, ...] | None], to: str) -> Aggregation:
    """Return an aggregation that records which fragments have their dimensions in another order, or lack some."""
    # This is read from their files: the order in CF-1.13 only, omitted dimensions of size 1 in CFA-0.6.2 as well.
    partitions, dims = aggregation.partitions, aggregation.dims
    rows = stored(aggregation)
    if len(dims) < 2 or aggregation.dialect != "CF-1.13":
        rows = rows & _with_single(aggregation)
    codes = np.array(partitions.layout)
    layouts = list(partitions.layouts)
    number = {layout: k for k, layout in enumerate(layouts)}
    for row in np.flatnonzero(rows).tolist():
        found = dims_of(row)
        implied = dims if to not in _BY_FRAGMENT or found is None else tuple(d for d in dims if d in found)
        if found is not None and found != implied:
            layout = replace(partitions.layout_of(row), dims=found, flipped=())
            if layout not in number:
                number[layout] = len(layouts)
                layouts.append(layout)
            codes[row] = number[layout]
    return replace(aggregation, partitions=replace(partitions, layout=codes, layouts=tuple(layouts)))


def _of_one_version(aggregation: Aggregation, version_of: Callable[[int], int]) -> Aggregation:
    """Return an aggregation whose first versions of fragments are those that open; the others are lost."""
    partitions = aggregation.partitions
    several = np.flatnonzero(np.any([other.present for other in partitions.versions], axis=0))
    chosen = np.zeros(len(partitions), np.int64)
    chosen[several] = [version_of(row) for row in several.tolist()]
    for number, other in enumerate(partitions.versions, 1):
        rows = np.flatnonzero(chosen == number)
        if rows.size:
            columns: dict[str, Any] = {"present": np.array(partitions.present), "offset": np.array(partitions.offset)}
            columns["present"][rows], columns["offset"][rows] = True, other.offset[rows]
            for column, table in (("file", "files"), ("address", "addresses"), ("layout", "layouts")):
                before, codes = getattr(partitions, table), getattr(other, column)[rows]
                columns[column] = np.array(getattr(partitions, column))
                columns[column][rows] = np.where(codes < 0, -1, codes + len(before))
                columns[table] = type(before)([*before, *getattr(other, table)])
            partitions = replace(partitions, **columns)
    return replace(aggregation, partitions=partitions)


def _with_single(aggregation: Aggregation) -> npt.NDArray[np.bool_]:
    """Return which partitions have a dimension of size 1, which their fragments may lack."""
    found = np.zeros(aggregation.grid.matrix_shape, bool)
    for d, (edges, n) in enumerate(zip(aggregation.grid.edges, aggregation.shape, strict=True)):
        single = np.diff(np.minimum(edges, n)) == 1
        found |= single.reshape([-1 if k == d else 1 for k in range(found.ndim)])
    return found.ravel()


def _said_of_all(aggregation: Aggregation, to: str) -> Aggregation:
    """Return an aggregation with the properties shared by all fragments where its dialect can express them."""
    # Dialects that leave format and type to the files of fragments store them in attributes, so that nothing is lost.
    partitions = aggregation.partitions
    if to not in _BY_FRAGMENT:
        attributes = dict(aggregation.attributes)
        found = {name: attributes.pop(f"fragment_{name}", None) for name in _ALIKE}
        given: dict[str, Any] = {name: value for name, value in found.items() if isinstance(value, str)}
        layouts = tuple(replace(_without_nc(layout), **given) for layout in partitions.layouts)
    else:
        used = np.unique(partitions.layout[stored(aggregation)]).tolist()
        alike = {tuple(getattr(_without_nc(partitions.layouts[k]), name) for name in _ALIKE) for k in used}
        if len(alike) != 1:
            return aggregation
        given = {name: value for name, value in zip(_ALIKE, *alike, strict=True) if value is not None}
        attributes = {**aggregation.attributes, **{f"fragment_{name}": value for name, value in given.items()}}
        nothing: dict[str, Any] = dict.fromkeys(given)
        layouts = tuple(replace(layout, **nothing) for layout in partitions.layouts)
    return replace(aggregation, attributes=attributes, partitions=replace(partitions, layouts=layouts))


def _without_nc(layout: Layout) -> Layout:
    """Return a layout without CFA-0.6.2's name for netCDF, which all dialects take for granted."""
    return replace(layout, format=None) if (layout.format or "").lower() == "nc" else layout


def _real(aggregated: Aggregated, lacks: Iterable[Lack]) -> Iterable[Lack]:
    """Yield the actual losses: files of fragments may record the same property."""
    for lack in lacks:
        if lack.what in ("units", "calendar") and lack.rows is not None and aggregated.says is not None:
            says: Callable[[int, str], bool] = aggregated.says
            said = np.array([says(i, lack.what) for i in lack.rows.tolist()], bool)
            if not said.all():
                yield lack.within(~said)
        else:
            yield lack


def _without_units(aggregation: Aggregation, rows: Rows) -> tuple[Aggregation, list[str]]:
    """Return an aggregation that leaves units to the files of fragments, which have them, and a note about that."""
    partitions = aggregation.partitions
    said = np.array([*(x.units is not None or x.calendar is not None for x in partitions.layouts), False])
    left = stored(aggregation) & said[partitions.layout]
    left[rows] = False
    count = int(left.sum())
    if not count:
        return aggregation, []
    layouts = tuple(replace(layout, units=None, calendar=None) for layout in partitions.layouts)
    note = f"units of {count:,} partition{'s'[: count != 1]} are not written: the files of the fragments give them"
    found = replace(aggregation, partitions=replace(partitions, layouts=layouts))
    return found, [f"variable {aggregation.name!r}: {note} themselves"]


def _without_address(aggregation: Aggregation) -> Rows:
    """Return the partitions to which no file can refer: arrays of Zarr stores, and variables of several fields."""
    # Only aggregations that were made from such files have them.
    partitions = aggregation.partitions
    zarr = np.array([layout.format in STORES for layout in partitions.layouts], bool)
    fields = np.array([is_field(layout.format) and not aggregation.dialect for layout in partitions.layouts], bool)
    if not zarr.any() and not fields.any():
        return np.empty(0, np.int64)
    named = np.array([*(not name.isdecimal() for name in partitions.addresses), False], bool)
    lost: Rows = np.flatnonzero(zarr[partitions.layout] | (fields[partitions.layout] & named[partitions.address]))
    return lost


def _encoded_names(aggregation: Aggregation, to: str) -> list[str]:
    """Return a note on names of files that other readers do not find."""
    if to not in _BY_FRAGMENT:
        return []
    from cfagg.conventions.uris import name_of, uri_of

    written = uri_of if to == "CF-1.13" else name_of
    odd = [name for name in aggregation.partitions.files if "%" in written(name) and written(name) != name]
    if not odd:
        return []
    note = (
        f"variable {aggregation.name!r}: {len(odd):,} name{'s'[: len(odd) != 1]} of files, such as {odd[0]!r}, must be "
        "percent-encoded in URIs, which cf-python and CFAPyX do not undo"
    )
    return [note]
