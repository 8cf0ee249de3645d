"""Cell measures: CF section 7.2."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.kinds_of_units import convertible, known
from cfagg.cf.lists import pairs
from cfagg.checking.context import Context
from cfagg.checking.rules.domains import undimensioned
from cfagg.checking.rules.groups import left_to_search
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Dimension, Variable

#: The cell measures of CF with their units.
_MEASURES = {"area": "m2", "volume": "m3"}


@rule("CEL001", each="cell_measures")
def cell_measures_name_variables_of_cells(c: Context, v: Variable) -> Iterator[Hit | str]:
    """cell_measures consists of pairs of a measure and a variable without dimensions beyond those of the data."""
    if not faulty_text(v.attributes["cell_measures"], c.version):
        yield from _grammar(v)
    for reference in c.references_of(v, "cell_measures"):
        if reference.key not in _MEASURES:
            continue
        if reference.target is None:
            if reference.name not in c.external and not left_to_search(c, v, reference.name):
                or_else = ", or list it in external_variables" if c.version >= Version(1, 7) else ""
                reported = f"there is no variable {reference.name!r}; correct the name or add the variable{or_else}"
                yield (reported)
            continue
        if v in c.roles.domains or v in undimensioned(c):
            continue  # DOM004, DOM001
        beyond = _beyond(c, v, reference.target)
        if beyond:
            yield (f"{reference.target.path!r} has the dimensions {', '.join(beyond)}, which {v.path!r} does not have")


def _grammar(v: Variable) -> Iterator[Hit]:
    text = v.text("cell_measures")
    if text is None:
        yield Hit(v, "cell_measures", "cell_measures is not text; expected pairs such as 'area: areacella'")
        return
    groups = pairs(text)
    if not groups:
        yield Hit(v, "cell_measures", f"{text!r:.80} is not pairs of measure and variable such as 'area: areacella'")
        return
    for measure, names in groups:
        if measure not in _MEASURES:
            yield Hit(v, "cell_measures", f"{measure!r} is not a measure; expected area or volume")
        elif len(names) != 1:
            yield Hit(v, "cell_measures", f"{len(names)} names follow '{measure}:'; expected one variable")


def _beyond(c: Context, v: Variable, measure: Variable) -> list[str]:
    """Return the dimensions of a measure that the variable lacks, even compressed by gathering."""
    own = {_key(d) for d in v.dimensions}
    lacking = [d for d in measure.dimensions if _key(d) not in own]
    if not lacking:
        return []
    gathered, compressed = _gathered(c, v)
    if gathered and not any(_key(d) in compressed for d in measure.dimensions):
        lacking = [d for d in lacking if _key(d) not in gathered]
    return [d.name for d in lacking]


def _key(d: Dimension) -> tuple[str, int]:
    return d.name, d.size


def _gathered(c: Context, v: Variable) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """Return the dimensions that were gathered into dimensions of a variable, and the compressed ones."""
    inner, outer = set(), set()
    for d in v.dimensions:
        found, _ = c.resolver.variable(d.name, v.group)
        if found is None or "compress" not in found.attributes or not found.is_coordinate:
            continue
        outer.add(_key(d))
        for name in found.words("compress"):
            dimension = c.resolver.dimension(name, found.group)
            if dimension is not None:
                inner.add(_key(dimension))
    return inner, outer


@rule("CEL002")
def measures_have_units_of_measures(c: Context) -> Iterator[Hit]:
    """An area has units of square metres, a volume of cubic metres."""
    reported = set()
    for v in c.with_attribute("cell_measures"):
        for reference in c.references_of(v, "cell_measures"):
            target, wanted = reference.target, _MEASURES.get(reference.key or "")
            if target is None or wanted is None or (target, wanted) in reported:
                continue
            reported.add((target, wanted))
            units = target.text("units")
            if units is None:
                if "units" not in target.attributes:
                    yield Hit(target, "units", f"a measure of {reference.key} has no units; expected {wanted}")
            elif known(units) and not convertible(units, wanted):
                message = (
                    f"a measure of {reference.key} has the units {units!r}; expected {wanted} or units that convert "
                    "to it"
                )
                yield Hit(target, "units", message)
