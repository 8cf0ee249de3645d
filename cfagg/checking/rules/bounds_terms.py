"""Formula terms of the bounds of parametric vertical coordinates: CF section 7.1.4."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.lists import pairs
from cfagg.checking.context import Context
from cfagg.checking.rules.bounds import bounded, same_dimensions, shown
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


@rule("BND008", each=bounded)
def bounds_of_parametric_coordinates_have_formula_terms(c: Context, v: Variable, b: Variable) -> Iterator[Hit]:
    """Bounds of a parametric vertical coordinate have the same formula terms, at the bounds."""
    terms = _terms(c, v)
    if not terms:
        return
    if "formula_terms" not in b.attributes:
        yield Hit(
            b,
            "formula_terms",
            f"{v.path!r} has formula_terms and its bounds variable has none; add them with the terms at the bounds",
        )
        return
    theirs = _terms(c, b)
    if not theirs:
        return  # Grammar: a finding of another rule.
    yield from _compared(c, v, b, terms, theirs)


def _terms(c: Context, v: Variable) -> dict[str, tuple[str, Variable | None]]:
    """Return name and variable of each formula term; none where the grammar is not followed."""
    groups = pairs(v.text("formula_terms") or "")
    if not groups or any(len(names) != 1 for _, names in groups):
        return {}
    return {r.key: (r.name, r.target) for r in c.references_of(v, "formula_terms") if r.key is not None}


def _compared(
    c: Context,
    v: Variable,
    b: Variable,
    terms: dict[str, tuple[str, Variable | None]],
    theirs: dict[str, tuple[str, Variable | None]],
) -> Iterator[Hit]:
    """Yield the differences between the terms of a coordinate and of its bounds."""
    lacking, further = sorted(terms.keys() - theirs.keys()), sorted(theirs.keys() - terms.keys())
    if lacking or further:
        names = lacking or further
        terms_ = f"the term{'s' if len(names) > 1 else ''} {', '.join(names)}"
        told = f"lacks {terms_}, which {v.path!r} has" if lacking else f"has {terms_}, which {v.path!r} lacks"
        yield Hit(b, "formula_terms", f"formula_terms {told}")
        return
    for term, (_, one) in terms.items():
        _, other = theirs[term]
        if one is None or other is None:
            continue  # Whether variables exist is asked by another rule.
        wrong = _wrong(c, v, b, one, other)
        if wrong:
            yield Hit(b, "formula_terms", f"term {term}: {wrong}")


def _wrong(c: Context, v: Variable, b: Variable, one: Variable, other: Variable) -> str:
    """Return what is wrong with a term at the bounds, empty if nothing is."""
    vertical = [d for d in v.dimensions if v.is_coordinate or any(t.size > 1 for t in v.dimensions)]
    if not any(d in vertical for d in one.dimensions):
        # A scalar level has no vertical dimension, so that the terms of its bounds may be others.
        if one is other or not vertical:
            return ""
        return f"{other.path!r} is not {one.path!r}, which does not depend on the vertical; name the same variable"
    if one is other:
        return f"{one.path!r} depends on the vertical; name the variable that holds it at the bounds"
    if not other.dimensions or not same_dimensions(other.dimensions[:-1], one.dimensions):
        expected = f"expected {shown(one.dimensions)} and one more"
        return f"{other.path!r} has the dimensions {shown(other.dimensions)}; {expected}"
    if b.dimensions and other.dimensions[-1].size != b.dimensions[-1].size:
        return f"{other.path!r} has {other.dimensions[-1].size} vertices, {b.path!r} has {b.dimensions[-1].size}"
    named = c.references_of(one, "bounds")
    if one in c.roles.coordinates and one is not v and len(named) == 1 and named[0].target not in (None, other):
        return (
            f"bounds of the coordinate {one.path!r} are {named[0].name!r}, not {other.path!r}; name one of them in both"
        )
    return ""
