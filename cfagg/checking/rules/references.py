"""The fragments that aggregations refer to, opened one by one: CF section 2.8.2, and cfagg's access policy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cfagg.checking.context import Context
from cfagg.checking.instructions import aggregations
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule, shared
from cfagg.findings.versions import Version

#: Number of files that a message names.
_NAMED = 5


@rule("REF001")
def references_are_listed(c: Context) -> Iterator[Hit]:
    """Report the datasets that contain the values of aggregations."""
    if not aggregations(c):
        return
    from cfagg.checking.described import described

    for v, d in described(c).items():
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
    if not aggregations(c):
        return
    from cfagg.checking.fragments import survey

    found = survey(c)
    for problem in found.problems:
        if problem.code == code:
            yield Hit(problem.variable, None, problem.message, problem.severity)
    for (of, v), n in found.more.items():
        if of == code:
            yield Hit(v, None, f"{n:,} more fragments have a problem of this kind")


shared(_found, needs="references", **{code: code for code in (f"REF{n:03}" for n in range(2, 11))})
shared(_found, needs="data of references", REF012="REF012")


@rule("REF011", until=Version(1, 12))
def version_has_aggregations(c: Context) -> Iterator[Hit]:
    """A dataset with aggregations of CF follows CF-1.13 or a later version."""
    found = [v.path for v in aggregations(c) if v.dialect == "CF"]
    if found:
        names = ", ".join(repr(n) for n in found[:_NAMED]) + (", …" if len(found) > _NAMED else "")
        message = (
            f"aggregation variables as {names} came with CF-1.13; programs that follow {c.version} take them for "
            "scalars: follow CF-1.13 and say so"
        )
        yield Hit(c.dataset.root, "Conventions", message)
