"""Domain variables: CF section 5.8."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_table import attribute_table
from cfagg.cf.attribute_types import faulty_text
from cfagg.checking.context import Context, once
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.spans import coordinate_span, own_span
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule, shared
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: Attributes that appendix A allows on data variables but not on domain variables.
_OF_DATA = [name for name, row in attribute_table().items() if "D" in row.uses[-1][1] and "Do" not in row.uses[-1][1]]

#: A scalar with any of these attributes is a data variable.
_DATA_SIGNS = frozenset({"units", "standard_name", "cell_methods", "flag_values", "flag_masks", "ancillary_variables"})


@once
def domain_variables(c: Context) -> list[Variable]:
    """Return the domain variables in order."""
    return [v for v in c.dataset.variables if v in c.roles.domains]


@once
def undimensioned(c: Context) -> dict[Variable, str]:
    """Return the scalars that describe a domain and lack ``dimensions``, each with the names of its dimensions."""
    found = {}
    for v in c.with_attribute("coordinates", "cell_measures") if c.version >= Version(1, 9) else ():
        if v.stored or v.dialect or not v.attributes.keys().isdisjoint(("dimensions", "geometry_type")):
            continue
        container = v.kind in ("char", "integer") or "domain" in f"{v.name} {v.text('long_name')}".lower()
        if not container or not _DATA_SIGNS.isdisjoint(v.attributes) or v not in c.roles.data:
            continue
        # Coordinates of a scalar have no dimensions (or sizes of 1), so this is a domain variable.
        named = c.targets(v, "coordinates", "cell_measures")
        spanned = {d.name: d for t in named if not t.is_text for d in t.dimensions if d.size > 1}
        if spanned:
            found[v] = " ".join(spanned)
    return found


@rule("DOM001")
def domain_has_dimensions(c: Context) -> Iterator[Hit]:
    """A domain variable has a dimensions attribute, and is a scalar."""
    for v, names in undimensioned(c).items():
        message = (
            f"it describes a domain and holds no data, but has no dimensions attribute; add one, such as {names!r}"
        )
        yield Hit(v, "dimensions", message)
    for v in c.with_attribute("dimensions"):
        if v.stored and "coordinates" in v.attributes:
            message = (
                "the attribute dimensions makes it a domain variable, which should be a scalar; delete the "
                "attribute from an array variable"
            )
            yield Hit(v, "dimensions", message, "warning")


@rule("DOM002", each=domain_variables)
def dimensions_are_there(c: Context, v: Variable) -> Iterator[Hit]:
    """The dimensions attribute is a possibly empty list of names of existing dimensions."""
    text = v.text("dimensions")
    if text is None:
        if not faulty_text(v.attributes["dimensions"], c.version):
            yield Hit(v, "dimensions", "dimensions is not text; expected names of dimensions separated by blanks")
        return
    for name in text.split():
        if c.resolver.dimension(name, v.group) is None and not left_to_search(c, v, name):
            remedy = "names are separated by blanks" if "," in name else "declare it or correct the name"
            yield Hit(v, "dimensions", f"there is no dimension {name!r}; {remedy}")


def _outside(c: Context, v: Variable, attribute: str) -> Iterator[tuple[Variable, list[str]]]:
    """Yield variables that an attribute names and their dimensions that the domain lacks."""
    words = v.words("dimensions")
    if v.text("dimensions") is None or len(own_span(c, v)) < len(words):
        return  # DOM002
    span = coordinate_span(c, v) if attribute == "coordinates" else set(own_span(c, v))
    for r in c.references_of(v, attribute):
        if r.target is None:
            continue
        dimensions = r.target.dimensions
        if attribute == "coordinates" and r.target.kind == "char":
            dimensions = dimensions[:-1]
        foreign = [d.name for d in dimensions if d not in span]
        if foreign:
            yield r.target, foreign


def _within_the_domain(c: Context, attribute: str) -> Iterator[Hit]:
    for v in domain_variables(c):
        for target, foreign in _outside(c, v, attribute):
            message = f"{target.path!r} has the dimension {foreign[0]!r}, which {v.text('dimensions')!r} lacks; add it"
            yield Hit(v, attribute, message)


shared(_within_the_domain, DOM003="coordinates", DOM004="cell_measures")


@rule("DOM005", each=domain_variables)
def domain_has_long_name(_: Context, v: Variable) -> Iterator[Hit]:
    """A domain variable has a long_name."""
    if "long_name" not in v.attributes:
        yield Hit(v, "long_name", "the domain variable has no long_name; add one that describes it")


@rule("DOM006", each=domain_variables)
def domain_has_no_attributes_of_data(_: Context, v: Variable) -> Iterator[Hit]:
    """A domain variable has no attributes that are for data variables only."""
    for name in _OF_DATA:
        if name in v.attributes:
            yield Hit(v, name, f"{name} is for data variables, a domain variable has no data; delete it").mended()
