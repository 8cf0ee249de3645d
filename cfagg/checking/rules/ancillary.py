"""Ancillary variables: CF section 3.4.

The conformance document has no rules on them; these are the sentences of the chapter that can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.cell_methods import parse
from cfagg.checking.context import Context
from cfagg.checking.rules.coordinates import beyond
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.spans import coordinate_span
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable


@rule("ANC001", each="ancillary_variables")
def ancillary_variables_exist(c: Context, v: Variable) -> Iterator[str]:
    """``ancillary_variables`` is text that names variables which are there."""
    value = v.attributes["ancillary_variables"]
    if not isinstance(value, str):
        if c.version < Version(1, 12) or not isinstance(value, tuple | bytes):
            yield ("ancillary_variables is not one text; expected names of variables")
        return
    norms = _norms(v)
    for reference in c.references_of(v, "ancillary_variables"):
        lost = reference.target is None and not left_to_search(c, v, reference.name)
        if lost and reference.name not in c.external and reference.name not in norms:
            hint = "names are separated by blanks" if "," in reference.name else "correct the name or add the variable"
            yield (f"there is no variable {reference.name[:80]!r}; {hint}")


@rule("ANC002", each="ancillary_variables")
def ancillary_variables_span_no_more(c: Context, v: Variable) -> Iterator[str]:
    """An ancillary variable has no dimension that its variable does not have."""
    norms = _norms(v)
    span = None
    for reference in c.references_of(v, "ancillary_variables"):
        target = reference.target
        if target is None or reference.name in norms:
            continue  # norms of anomalies have rules of their own
        span = coordinate_span(c, v) if span is None else span
        dimensions = target.dimensions[:-1] if target.kind == "char" else target.dimensions
        foreign = [d.name for d in beyond(c, span, dimensions)]
        if foreign:
            yield (
                f"ancillary variable {target.path!r} has the dimension {foreign[0]!r}; expected only those of its "
                f"data variable ({', '.join(v.dims)})"
            )


def _norms(v: Variable) -> set[str | None]:
    """Return the names of the norms of anomalies in ``cell_methods``."""
    return {e.norm for e in parse(v.text("cell_methods") or "").entries if e.norm}
