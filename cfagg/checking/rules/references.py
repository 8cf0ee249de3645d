"""The fragments that aggregations refer to, opened one by one: CF section 2.8.2, and cfagg's access policy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.instructions import aggregations
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version

#: So many files are named in a message.
_NAMED = 5


@rule("REF001")
def references_are_listed(c: Context) -> Iterator[Hit]:
    """Tell in which datasets the values of aggregations stand."""
    if not c.once(aggregations):
        return
    from cfagg.checking.described import described

    for v, d in c.once(described).items():
        if d.aggregation is None:
            continue
        partitions = d.aggregation.partitions
        codes = np.unique(partitions.file[partitions.present & (partitions.file >= 0)])
        if not len(codes):
            continue
        names = ", ".join(repr(str(partitions.files[int(k)])[:120]) for k in codes[:_NAMED])
        more = f", and {len(codes) - _NAMED:,} more" if len(codes) > _NAMED else ""
        n = len(partitions)
        files = f"{len(codes):,} dataset{'s' * (len(codes) != 1)}"
        message = f"its {n:,} fragment{'s' * (n != 1)} refer{'s' * (n == 1)} to {files}: {names}{more}"
        yield Hit(v, None, message)


def _found(c: Context, code: str) -> Iterator[Hit]:
    if not c.once(aggregations):
        return
    from cfagg.checking.fragments import survey

    found = c.once(survey)
    for problem in found.problems:
        if problem.code == code:
            yield Hit(problem.variable, None, problem.message, problem.severity)
    for (of, v), n in found.more.items():
        if of == code:
            yield Hit(v, None, f"{n:,} more fragments have a problem of this kind")


@rule("REF002", needs="references")
def references_are_allowed(c: Context) -> Iterator[Hit]:
    """Fragments are where the access policy lets them be read."""
    return _found(c, "REF002")


@rule("REF003", needs="references")
def datasets_exist(c: Context) -> Iterator[Hit]:
    """Every fragment dataset is there and can be opened."""
    return _found(c, "REF003")


@rule("REF004", needs="references")
def variables_exist(c: Context) -> Iterator[Hit]:
    """Every fragment is a variable of its dataset."""
    return _found(c, "REF004")


@rule("REF005", needs="references")
def shapes_fit(c: Context) -> Iterator[Hit]:
    """Every fragment has the shape of its place in the aggregation."""
    return _found(c, "REF005")


@rule("REF006", needs="references")
def dimensions_are_in_order(c: Context) -> Iterator[Hit]:
    """Every fragment has its dimensions in the order that the aggregation says."""
    return _found(c, "REF006")


@rule("REF007", needs="references")
def units_are_convertible(c: Context) -> Iterator[Hit]:
    """The units of every fragment can become those of the aggregation."""
    return _found(c, "REF007")


@rule("REF008", needs="references")
def types_are_convertible(c: Context) -> Iterator[Hit]:
    """The type of every fragment can become that of the aggregation."""
    return _found(c, "REF008")


@rule("REF009", needs="references")
def missing_values_have_a_value(c: Context) -> Iterator[Hit]:
    """Where fragments have missing values the aggregation defines one."""
    return _found(c, "REF009")


@rule("REF010", needs="references")
def calendars_are_the_same(c: Context) -> Iterator[Hit]:
    """Fragments with times count in the calendar of the aggregation."""
    return _found(c, "REF010")


@rule("REF011", until=Version(1, 12))
def version_has_aggregations(c: Context) -> Iterator[Hit]:
    """A dataset with aggregations of CF follows CF-1.13 or a later version."""
    found = [v.path for v in c.once(aggregations) if v.dialect == "CF"]
    if found:
        names = ", ".join(repr(n) for n in found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
        message = (
            f"aggregation variables as {names} came with CF-1.13; programs that follow {c.version} take them for "
            "scalars: follow CF-1.13 and say so"
        )
        yield Hit(c.dataset.root, "Conventions", message)
