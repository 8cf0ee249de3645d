"""Labels, coordinates of text: CF section 6.1."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.checking.rules.coordinates import beyond
from cfagg.checking.rules.domains import undimensioned
from cfagg.checking.spans import coordinate_span, span_is_known
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Dimension, Variable


@rule("COO014")
def labels_have_one_axis(c: Context) -> Iterator[Hit]:
    """A coordinate of text has at most one dimension beside that of its characters, one of the variable's own."""
    told: set[Variable] = set()
    for v in c.with_attribute("coordinates"):
        labels = [r.target for r in c.references_of(v, "coordinates") if r.target is not None and r.target.is_text]
        if not labels or "geometry_type" in v.attributes or v in c.once(undimensioned) or not span_is_known(c):
            continue
        span = coordinate_span(c, v)
        for label in labels:
            if label not in told:
                for hit in _label(c, v, label, span):
                    told.add(label)
                    yield hit


def _label(c: Context, v: Variable, label: Variable, span: set[Dimension]) -> Iterator[Hit]:
    dimensions = label.dimensions
    if label.kind == "char":
        if not dimensions:
            yield Hit(label, None, "a label of type char has no dimension; expected one for its characters")
            return
        dimensions = dimensions[:-1]
    domain = not v.dimensions and "dimensions" in v.attributes  # DOM003 looks at those
    foreign = [] if domain else [d.name for d in beyond(c, span, dimensions)]
    of = f"a label of {v.path!r}"
    if foreign:
        yield Hit(
            label,
            None,
            f"{of} has the dimension {foreign[0]!r}; expected one of ({', '.join(sorted(d.name for d in span))})"
            + (" and a last one for its characters" if label.kind == "char" else ""),
        )
    elif len(dimensions) > 1:
        # The chapter speaks of axis dimensions, the conformance document allows a single one.
        yield Hit(
            label,
            None,
            f"{of} has {len(dimensions)} axes ({', '.join(d.name for d in dimensions)}); section 6.1 does not say "
            "that a label has one only, the conformance document does",
            "warning",
        )
