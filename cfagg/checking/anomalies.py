"""Anomaly data and their norms: which coordinates belong to which.

Source: CF section 7.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from cfagg.cf.cell_methods import Entry
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.checking.rules.cell_methods import coordinate_of, methods, scalars
from cfagg.model.dataset import Variable

__all__ = ["Anomaly", "anomalies", "coordinates_of", "covered", "selectors", "standard_name", "unnamed"]

#: How a norm may relate to the coordinates of its data (the three cases of section 7.5); 0 is not one of them.
Case = Literal[0, 1, 2, 3]


class Anomaly(NamedTuple):
    """An entry ``anomaly_wrt`` whose norm exists.

    The norm was taken along the coordinates `axes` of `data`; `partners` are the matching coordinates of the norm.
    `shared` and `lacking` are other coordinates of `data` that the norm has and lacks, `foreign` those of the norm
    alone. A norm is `selecting` if it is laid out for a climatology with several times, and `is_data` if it looks like
    data.
    """

    data: Variable
    norm: Variable
    entry: Entry
    axes: list[Variable]
    partners: dict[Variable, Variable]
    lacking: list[Variable]
    shared: list[Variable]
    foreign: list[Variable]
    selecting: bool
    is_data: bool
    scalar_in_norm: list[Variable]

    @property
    def case(self) -> Case:
        """The case that applies, 0 if none; without other coordinates, `is_data` decides between the first two."""
        if self.selecting:
            alone = len(self.norm.dimensions) == 1 and not self.scalar_in_norm
            return 3 if alone and any(x.dimensions == self.norm.dimensions for x in self.axes) else 0
        if not self.lacking and not self.shared:
            return 1 if self.is_data else 2
        if not self.lacking:
            return 1
        return 2 if not self.shared else 0


def standard_name(v: Variable) -> str:
    """Return the standard name, or an empty string if there is none."""
    return (v.text("standard_name") or "").strip()


def coordinates_of(c: Context, v: Variable) -> list[Variable]:
    """Return the coordinate variables and scalar coordinates of a variable."""
    found = [coordinate_of(c, v, name) for name in v.dims]
    found += scalars(c, v).values()
    return list(dict.fromkeys(x for x in found if x is not None))


def selectors(c: Context, v: Variable) -> list[Variable]:
    """Return the auxiliary coordinates of a norm that select times of a climatology."""
    return [x for x in c.targets(v, "coordinates") if "select" in x.attributes]


def unnamed(c: Context, anomaly: Anomaly) -> list[str]:
    """Return the names of the entry that refer to no coordinate with a variable."""
    own = coordinates_of(c, anomaly.data)
    return [n for n in anomaly.entry.names if n != "area" and not _named(c, anomaly.data, n, own)]


def _named(c: Context, v: Variable, name: str, own: list[Variable]) -> list[Variable]:
    """Return the coordinates among `own` that a name in the cell methods of `v` refers to."""
    found = coordinate_of(c, v, name)
    if found is not None:
        return [found]
    if name in v.dims:
        return []
    if name == "area":
        return [x for x in own if axis_of(c, x) in ("X", "Y")]
    return [x for x in own if standard_name(x) == name]


def covered(c: Context, v: Variable, entries: Iterable[Entry]) -> set[Variable]:
    """Return the coordinates of `v` that entries of its cell methods refer to."""
    own = coordinates_of(c, v)
    return {x for entry in entries for name in entry.names for x in _named(c, v, name, own)}


@once
def anomalies(c: Context) -> list[Anomaly]:
    """Return every entry ``anomaly_wrt`` whose norm exists."""
    found = []
    for v, parsed in methods(c):
        for entry in parsed.entries:
            norm = c.resolver.variable(entry.norm, v.group)[0] if entry.norm else None
            if norm is not None and norm is not v:
                found.append(_anomaly(c, v, norm, entry))
    return found


def _anomaly(c: Context, v: Variable, norm: Variable, entry: Entry) -> Anomaly:
    own, others = coordinates_of(c, v), coordinates_of(c, norm)
    axes: dict[Variable, None] = {}
    for name in entry.names:
        meant = _named(c, v, name, own)
        # The data have the coordinates of the norm as well, so an ambiguous name refers to the other coordinates.
        axes.update(dict.fromkeys([x for x in meant if x not in others] or meant))
    partners: dict[Variable, Variable] = {}
    for x in axes:
        alike = [n for n in others if n not in axes and standard_name(n) and standard_name(n) == standard_name(x)]
        single = [n for n in alike if all(d.size == 1 for d in n.dimensions)]
        if single:
            partners[x] = single[0]
    aside = {*axes, *partners.values()}
    # A single coordinate that matches an axis without a partner is taken for that of the norm.
    waiting = {standard_name(x) for x in axes if x not in partners} - {""}
    aside |= {x for x in own if standard_name(x) in waiting and all(d.size == 1 for d in x.dimensions)}
    if len(partners) < len(axes):
        # The coordinate meant for the norm is ambiguous: other rules report what is missing.
        aside |= {n for n in others if all(d.size == 1 for d in n.dimensions)}
    times = [x for x in axes if axis_of(c, x) == "T" and x.dimensions]
    selecting = bool(selectors(c, norm)) or any(x.dimensions == norm.dimensions for x in times)
    return Anomaly(
        v,
        norm,
        entry,
        list(axes),
        partners,
        [x for x in own if x not in aside and x not in others],
        [x for x in others if x not in aside and x in own],
        [x for x in others if x not in aside and x not in own],
        selecting,
        bool({"standard_name", "units"} & norm.attributes.keys()),
        list(dict.fromkeys(scalars(c, norm).values())),
    )
