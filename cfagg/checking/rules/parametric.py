"""Parametric vertical coordinates: CF section 4.3.3 and Appendix D."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cfagg.cf.attribute_types import holds, said
from cfagg.cf.formula_terms import Formula, formulas, known_formula
from cfagg.cf.kinds_of_units import convertible, is_dimensionless, is_pressure, known
from cfagg.cf.lists import pairs
from cfagg.checking.context import Context, once
from cfagg.checking.lookup import aliases
from cfagg.checking.rules.groups import left_to_search
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable


class _Terms(NamedTuple):
    """A variable with ``formula_terms``."""

    variable: Variable
    parent: Variable | None
    formula: Formula | None
    terms: dict[str, Variable]


def _parent(c: Context, v: Variable) -> Variable | None:
    """Return the coordinate that a variable holds the bounds of."""
    return next((r.source for r in c.references_to(v, "bounds")), None)


def _is_pairs(text: str) -> bool:
    found = pairs(text)
    return bool(found) and all(len(names) == 1 for _, names in found or ())


@once
def _all(c: Context) -> list[_Terms]:
    """Return all variables with ``formula_terms``, with the formula of the standard name."""
    table = formulas(c.version)
    found = []
    for v in c.with_attribute("formula_terms"):
        parent = _parent(c, v)
        words = v.words("standard_name") or (parent.words("standard_name") if parent is not None else [])
        formula = table.get(words[0]) if words else None
        named = {r.key: r.target for r in c.references_of(v, "formula_terms") if r.target is not None and r.key}
        terms: dict[str, Variable] = {}
        if formula is not None and _is_pairs(v.text("formula_terms") or ""):
            # Terms are written in any case.
            proper = {t.lower(): t for t in formula.terms}
            terms = {proper[k.lower()]: target for k, target in named.items() if k.lower() in proper}
        found.append(_Terms(v, parent, formula, terms))
    return found


@once
def _lost_bounds(c: Context) -> bool:
    """Whether a ``bounds`` attribute names a variable that is not there."""
    return any(r.target is None for v in c.with_attribute("bounds") for r in c.references_of(v, "bounds"))


@rule("VRT003")
def formula_terms_is_on_parametric_coordinates(c: Context) -> Iterator[Hit]:
    """Only coordinates with the standard name of a parametric vertical coordinate have ``formula_terms``."""
    for v, parent, formula, _ in _all(c):
        if parent is not None and "formula_terms" in parent.attributes and formula is None:
            continue  # reported for the coordinate itself
        name = (v.words("standard_name") or (parent.words("standard_name") if parent is not None else []) or [""])[0]
        if formula is None:
            later = known_formula(name)
            if later is not None:
                told = f"standard_name {name!r} is a parametric vertical coordinate only since {later.since}"
                yield Hit(v, "formula_terms", told, "warning")
            elif not name and v not in c.roles.coordinates and _lost_bounds(c):
                continue  # they may be bounds whose coordinate names another variable, which another rule reports
            else:
                told = f"the standard_name is {name!r}" if name else "there is no standard_name"
                expected = "expected that of a parametric vertical coordinate (Appendix D)"
                yield Hit(v, "formula_terms", f"{told}; {expected}, or no formula_terms")
        elif parent is None and v not in c.roles.coordinates and v not in c.roles.climatology:
            told = "the variable is not a coordinate of any other: name it in coordinates, or like its dimension"
            yield Hit(v, "formula_terms", told, "warning")


@rule("VRT004")
def formula_terms_names_terms_and_variables(c: Context) -> Iterator[Hit]:
    """``formula_terms`` is pairs of a term of the formula and a variable that is in the dataset."""
    for v, _, formula, _ in _all(c):
        value = v.attributes["formula_terms"]
        if not isinstance(value, str):
            if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
                yield Hit(v, "formula_terms", f"it holds {said(value)}; expected text of the form 'term: variable'")
            continue
        found = pairs(value)
        if not found or not _is_pairs(value):
            told = "expected pairs 'term: variable' with a blank after each colon"
            yield Hit(v, "formula_terms", f"it is {value[:80]!r}; {told}")
            continue
        seen: set[str] = set()
        for term, _names in found:
            if term.lower() in seen:
                yield Hit(v, "formula_terms", f"term {term!r} is given more than once")
            seen.add(term.lower())
            if formula is not None and term.lower() not in {t.lower() for t in formula.terms}:
                told = f"{term!r} is not a term of {formula.name}; those are {', '.join(formula.terms)}"
                yield Hit(v, "formula_terms", told)
        for r in c.references_of(v, "formula_terms"):
            if r.target is None and not left_to_search(c, v, r.name):
                yield Hit(v, "formula_terms", f"variable {r.name!r} of term {r.key!r} is not in the dataset")


def _proper(c: Context, name: str, wanted: tuple[str, ...]) -> str:
    """Return the name among those wanted that another one is an alias of, else the name itself."""
    if name in wanted:
        return name
    return next((target for target in aliases(c).get(name, ()) if target in wanted), name)


def _choices(c: Context, formula: Formula, terms: dict[str, Variable]) -> tuple[dict[str, str], set[str]]:
    """Return the standard name of each term that has one, and which computed names all of them leave possible."""
    names: dict[str, str] = {}
    left = set(formula.computed)
    for term, wanted in formula.names.items():
        words = terms[term].words("standard_name") if term in terms else []
        if not words:
            continue
        names[term] = _proper(c, words[0], wanted)
        if len(wanted) == len(formula.computed) > 1 and names[term] in wanted:
            left &= {formula.computed[wanted.index(names[term])]}
    return names, left


@rule("VRT005")
def names_of_terms_agree_with_the_formula(c: Context) -> Iterator[Hit]:
    """The standard names of terms are those of Appendix D, and of one set of Table D.1."""
    for v, parent, formula, terms in _all(c):
        if formula is None or c.version < formula.names_since or parent is not None:
            continue
        names, left = _choices(c, formula, terms)
        fine = True
        for term, name in names.items():
            if name not in formula.names[term]:
                fine = False
                expected = " or ".join(formula.names[term])
                told = f"standard_name of {terms[term].path!r}, term {term!r}, is {name!r}; expected {expected}"
                yield Hit(v, "formula_terms", told)
        if fine and not left:
            shown = ", ".join(f"{t}: {n}" for t, n in names.items() if len(formula.names[t]) > 1)
            yield Hit(
                v, "formula_terms", f"the standard names of its terms do not go together ({shown}); see Table D.1"
            )


@rule("VRT006", each="computed_standard_name")
def computed_standard_name_needs_formula_terms(c: Context, v: Variable) -> Iterator[str]:
    """Only coordinates with ``formula_terms`` have ``computed_standard_name``."""
    parent = _parent(c, v)
    if "formula_terms" in v.attributes or (parent is not None and "computed_standard_name" in parent.attributes):
        return
    told = "the variable has no formula_terms to compute anything with: add formula_terms or remove it"
    yield (told)


@rule("VRT007")
def computed_standard_name_agrees(c: Context) -> Iterator[Hit]:
    """``computed_standard_name`` is one that the formula and the names of its terms imply."""
    for v, parent, formula, terms in _all(c):
        if "computed_standard_name" not in v.attributes or parent is not None:
            continue
        value = v.attributes["computed_standard_name"]
        if not isinstance(value, str):
            if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
                yield Hit(v, "computed_standard_name", f"it holds {said(value)}; expected a standard name")
            continue
        if formula is None or c.version < formula.names_since:
            continue
        name = _proper(c, value.strip(), formula.computed)
        _, left = _choices(c, formula, terms)
        if name not in formula.computed:
            expected = " or ".join(formula.computed)
            yield Hit(v, "computed_standard_name", f"it is {value[:80]!r}; {formula.name} gives {expected}")
        elif left and name not in left:
            told = f"it is {name}, but by the standard names of its terms it is {' or '.join(sorted(left))}"
            yield Hit(v, "computed_standard_name", told)


@rule("VRT008")
def units_of_terms_agree_with_the_formula(c: Context) -> Iterator[Hit]:
    """The units of terms are those of Appendix D: pressures, lengths, or plain numbers."""
    for v, _, formula, terms in _all(c):
        for term, target in terms.items():
            units = target.text("units")
            if formula is None or units is None or (not known(units) and units.strip() not in _LEVELS):
                continue
            measure = formula.terms[term]
            plain = is_dimensionless(units) or units.strip() in _LEVELS
            fits = {
                "number": plain,
                "pressure": is_pressure(units),
                "length": convertible(units, "m"),
                "either": plain or convertible(units, "m"),
            }[measure]
            if not fits:
                expected = {"number": "none or those of a plain number, '1'", "pressure": "those of a pressure"}
                told = f"units of {target.path!r}, term {term!r}, are {units[:40]!r}"
                yield Hit(v, "formula_terms", f"{told}; expected {expected.get(measure, 'those of a length')}")


#: Deprecated units of dimensionless vertical coordinates.
_LEVELS = ("level", "layer", "sigma_level")
