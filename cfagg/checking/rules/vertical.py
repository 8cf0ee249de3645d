"""Vertical coordinates, including parametric ones: CF section 4.3 and Appendix D."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_types import holds, said
from cfagg.cf.formula_terms import Formula, formulas, known_formula
from cfagg.cf.kinds_of_units import convertible, is_dimensionless, is_pressure, known
from cfagg.cf.lists import pairs
from cfagg.checking.axes import axis_of
from cfagg.checking.context import Context, once
from cfagg.checking.lookup import aliases
from cfagg.checking.missing import missing_mask, unwritten
from cfagg.checking.rules.groups import left_to_search
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable

#: Standard names of quantities that increase upwards.
_UP = re.compile(
    r"(?:height|altitude|geopotential_height)(?:_above_\w+|_at_\w+)?"
    r"|atmosphere_(?:ln_pressure|hybrid_height|sleve)_coordinate"
    r"|ocean_(?:sigma|s)_coordinate(?:_g[12])?"
)

#: Standard names of quantities that increase downwards.
_DOWN = re.compile(
    r"depth(?:_below_\w+|_at_\w+)?|(?:air|sea_water)_pressure(?:_due_to_sea_water)?"
    r"|atmosphere_(?:sigma|hybrid_sigma_pressure|hybrid_sigma_ln_pressure)_coordinate"
)


@rule("VRT001", each="positive")
def positive_is_up_or_down(c: Context, v: Variable) -> Iterator[str]:
    """``positive`` is ``up`` or ``down`` in any case."""
    value = v.attributes["positive"]
    if isinstance(value, str):
        if value.strip().lower() not in ("up", "down"):
            yield (f"it is {value[:40]!r}; expected 'up' or 'down'")
    elif holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
        yield (f"it holds {said(value)}; expected the text 'up' or 'down'")


@rule("VRT002", each="positive")
def positive_agrees_with_the_name(_: Context, v: Variable) -> Iterator[Hit]:
    """``positive`` agrees with the direction that the standard name implies."""
    given = (v.text("positive") or "").strip().lower()
    words = v.words("standard_name")
    if given not in ("up", "down") or not words:
        return
    meant = "up" if _UP.fullmatch(words[0]) else "down" if _DOWN.fullmatch(words[0]) else given
    if meant != given:
        message = f"it is {given!r}, but values of {words[0]} increase {meant}wards"
        fix = (Edit(v.path, "positive", meant, safe=False),)
        yield Hit(
            v, "positive", f"{message}: change it, or the standard name if the values increase {given}wards", None, fix
        )


@rule("VRT012")
def direction_of_vertical_coordinates_is_told(c: Context) -> Iterator[Hit]:
    """Vertical coordinates have ``positive`` unless their units are those of a pressure."""
    # The chapter requires it, but the conformance document does not list it, and files are readable without it.
    coordinates = c.roles.coordinates
    for v in c.dataset.variables:
        if v not in coordinates or "positive" in v.attributes or not v.is_numeric or axis_of(c, v) != "Z":
            continue
        if not is_pressure(v.text("units") or "1"):
            yield Hit(v, "positive", "the vertical coordinate has no attribute positive: add it, 'up' or 'down'")


@rule("VRT013", each="standard_name")
def parametric_coordinates_have_formula_terms(c: Context, v: Variable) -> Iterator[Hit]:
    """Parametric vertical coordinates have ``formula_terms``."""
    # Chapter 4 recommends it strongly, but the conformance document does not list it.
    formula = formulas(c.version).get((v.words("standard_name") or [""])[0])
    if formula is not None and "formula_terms" not in v.attributes and v in c.roles.coordinates:
        message = f"{formula.name} without formula_terms, so that its heights or pressures cannot be computed"
        yield Hit(v, "formula_terms", f"{message}; add those of the terms {', '.join(formula.terms)} that apply")


#: A variable with ``formula_terms``, the coordinate whose bounds it holds, the formula, and the terms by name.
type _Terms = tuple[Variable, Variable | None, Formula | None, dict[str, Variable]]


def _parent(c: Context, v: Variable) -> Variable | None:
    """Return the coordinate whose bounds a variable holds."""
    return next((r.source for r in c.references_to(v, "bounds")), None)


def _is_pairs(text: str) -> bool:
    found = pairs(text)
    return bool(found) and all(len(names) == 1 for _, names in found or ())


@once
def _all(c: Context) -> list[_Terms]:
    """Return all variables with ``formula_terms``, with the formula of the standard name."""
    table = formulas(c.version)
    found: list[_Terms] = []
    for v in c.with_attribute("formula_terms"):
        parent = _parent(c, v)
        words = v.words("standard_name") or (parent.words("standard_name") if parent is not None else [])
        formula = table.get(words[0]) if words else None
        named = {r.key: r.target for r in c.references_of(v, "formula_terms") if r.target is not None and r.key}
        terms: dict[str, Variable] = {}
        if formula is not None and _is_pairs(v.text("formula_terms") or ""):
            # Terms may be in upper or lower case.
            proper = {t.lower(): t for t in formula.terms}
            terms = {proper[k.lower()]: target for k, target in named.items() if k.lower() in proper}
        found.append((v, parent, formula, terms))
    return found


@once
def _lost_bounds(c: Context) -> bool:
    """Whether a ``bounds`` attribute names a variable that does not exist."""
    return any(r.target is None for v in c.with_attribute("bounds") for r in c.references_of(v, "bounds"))


@rule("VRT003", each=_all)
def formula_terms_is_on_parametric_coordinates(
    c: Context, v: Variable, parent: Variable | None, formula: Formula | None, _: dict[str, Variable]
) -> Iterator[Hit]:
    """Only coordinates with the standard name of a parametric vertical coordinate have ``formula_terms``."""
    if parent is not None and "formula_terms" in parent.attributes and formula is None:
        return  # reported for the coordinate itself
    name = (v.words("standard_name") or (parent.words("standard_name") if parent is not None else []) or [""])[0]
    if formula is None:
        later = known_formula(name)
        if later is not None:
            message = f"standard_name {name!r} is a parametric vertical coordinate only since {later.since}"
            yield Hit(v, "formula_terms", message, "warning")
        elif not name and v not in c.roles.coordinates and _lost_bounds(c):
            return  # they may be bounds whose coordinate names another variable, which another rule reports
        else:
            message = f"the standard_name is {name!r}" if name else "there is no standard_name"
            expected = "expected that of a parametric vertical coordinate (Appendix D)"
            yield Hit(v, "formula_terms", f"{message}; {expected}, or no formula_terms")
    elif parent is None and v not in c.roles.coordinates and v not in c.roles.climatology:
        message = "the variable is not a coordinate of any other: name it in coordinates, or like its dimension"
        yield Hit(v, "formula_terms", message, "warning")


@rule("VRT004", each=_all)
def formula_terms_names_terms_and_variables(
    c: Context, v: Variable, _: Variable | None, formula: Formula | None, __: dict[str, Variable]
) -> Iterator[Hit]:
    """``formula_terms`` consists of pairs of a term of the formula and a variable of the dataset."""
    value = v.attributes["formula_terms"]
    if not isinstance(value, str):
        if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
            yield Hit(v, "formula_terms", f"it holds {said(value)}; expected text of the form 'term: variable'")
        return
    found = pairs(value)
    if not found or not _is_pairs(value):
        message = "expected pairs 'term: variable' with a blank after each colon"
        yield Hit(v, "formula_terms", f"it is {value[:80]!r}; {message}")
        return
    seen: set[str] = set()
    for term, _names in found:
        if term.lower() in seen:
            yield Hit(v, "formula_terms", f"term {term!r} is given more than once")
        seen.add(term.lower())
        if formula is not None and term.lower() not in {t.lower() for t in formula.terms}:
            message = f"{term!r} is not a term of {formula.name}; those are {', '.join(formula.terms)}"
            yield Hit(v, "formula_terms", message)
    for r in c.references_of(v, "formula_terms"):
        if r.target is None and not left_to_search(c, v, r.name):
            yield Hit(v, "formula_terms", f"variable {r.name!r} of term {r.key!r} is not in the dataset")


def _proper(c: Context, name: str, wanted: tuple[str, ...]) -> str:
    """Return the wanted name of which `name` is an alias, else the name itself."""
    if name in wanted:
        return name
    return next((target for target in aliases(c).get(name, ()) if target in wanted), name)


def _choices(c: Context, formula: Formula, terms: dict[str, Variable]) -> tuple[dict[str, str], set[str]]:
    """Return the standard name of each term that has one, and the computed names that remain possible."""
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


@rule("VRT005", each=_all)
def names_of_terms_agree_with_the_formula(
    c: Context, v: Variable, parent: Variable | None, formula: Formula | None, terms: dict[str, Variable]
) -> Iterator[Hit]:
    """The standard names of terms are from Appendix D, and from one set of Table D.1."""
    if formula is None or c.version < formula.names_since or parent is not None:
        return
    names, left = _choices(c, formula, terms)
    fine = True
    for term, name in names.items():
        if name not in formula.names[term]:
            fine = False
            expected = " or ".join(formula.names[term])
            message = f"standard_name of {terms[term].path!r}, term {term!r}, is {name!r}; expected {expected}"
            yield Hit(v, "formula_terms", message)
    if fine and not left:
        shown = ", ".join(f"{t}: {n}" for t, n in names.items() if len(formula.names[t]) > 1)
        yield Hit(v, "formula_terms", f"the standard names of its terms do not go together ({shown}); see Table D.1")


@rule("VRT006", each="computed_standard_name")
def computed_standard_name_needs_formula_terms(c: Context, v: Variable) -> Iterator[str]:
    """Only coordinates with ``formula_terms`` have ``computed_standard_name``."""
    parent = _parent(c, v)
    if "formula_terms" in v.attributes or (parent is not None and "computed_standard_name" in parent.attributes):
        return
    message = "the variable has no formula_terms to compute anything with: add formula_terms or remove it"
    yield (message)


@rule("VRT007", each=_all)
def computed_standard_name_agrees(
    c: Context, v: Variable, parent: Variable | None, formula: Formula | None, terms: dict[str, Variable]
) -> Iterator[Hit]:
    """``computed_standard_name`` is one that the formula and the names of its terms imply."""
    if "computed_standard_name" not in v.attributes or parent is not None:
        return
    value = v.attributes["computed_standard_name"]
    if not isinstance(value, str):
        if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
            yield Hit(v, "computed_standard_name", f"it holds {said(value)}; expected a standard name")
        return
    if formula is None or c.version < formula.names_since:
        return
    name = _proper(c, value.strip(), formula.computed)
    _, left = _choices(c, formula, terms)
    if name not in formula.computed:
        expected = " or ".join(formula.computed)
        yield Hit(v, "computed_standard_name", f"it is {value[:80]!r}; {formula.name} gives {expected}")
    elif left and name not in left:
        message = f"it is {name}, but by the standard names of its terms it is {' or '.join(sorted(left))}"
        yield Hit(v, "computed_standard_name", message)


@rule("VRT008", each=_all)
def units_of_terms_agree_with_the_formula(
    _: Context, v: Variable, parent: Variable | None, formula: Formula | None, terms: dict[str, Variable]
) -> Iterator[Hit]:
    """The units of terms are those of Appendix D: pressures, lengths, or plain numbers."""
    for term, target in terms.items():
        units = target.text("units")
        measure = formula.terms[term] if formula is not None else ""
        # Terms of bounds may be bounds themselves, which need no units; standard names are compared by other rules.
        if parent is None and measure in ("pressure", "length") and not target.attributes.keys() & _SAYING:
            yield Hit(v, "formula_terms", f"{target.path!r}, term {term!r}, has no units; add those of a {measure}")
        if formula is None or units is None or (not known(units) and units.strip() not in _LEVELS):
            continue
        plain = is_dimensionless(units) or units.strip() in _LEVELS
        fits = {
            "number": plain,
            "pressure": is_pressure(units),
            "length": convertible(units, "m"),
            "either": plain or convertible(units, "m"),
        }[measure]
        if not fits:
            expected = {"number": "none or those of a plain number, '1'", "pressure": "those of a pressure"}
            message = f"units of {target.path!r}, term {term!r}, are {units[:40]!r}"
            yield Hit(v, "formula_terms", f"{message}; expected {expected.get(measure, 'those of a length')}")


#: Attributes that say what a term is measured in.
_SAYING = frozenset({"units", "standard_name"})

#: Deprecated units of dimensionless vertical coordinates.
_LEVELS = ("level", "layer", "sigma_level")


@once
def _of_sigma_z(c: Context) -> list[tuple[Variable, dict[str, Variable]]]:
    """Return the coordinates, each with the variables of its terms in lower case."""
    found = []
    for v in c.with_standard_name("ocean_sigma_z_coordinate"):
        if not c.references_to(v, "bounds"):
            terms = c.references_of(v, "formula_terms")
            found.append((v, {r.key.lower(): r.target for r in terms if r.key and r.target is not None}))
    return found


@rule("VRT009", each=_of_sigma_z)
def one_of_sigma_and_zlev_is_missing(c: Context, v: Variable, terms: dict[str, Variable]) -> Iterator[Hit]:
    """In each level one of ``sigma`` and ``zlev`` is missing; ``nsigma`` is the number of levels without ``zlev``."""
    sigma, zlev = terms.get("sigma"), terms.get("zlev")
    wrong = False
    for name, term in (("sigma", sigma), ("zlev", zlev)):
        if term is not None and v.dimensions and term.dimensions != v.dimensions:
            wrong = True
            have = ", ".join(term.dims)
            message = f"term {name!r}, {term.path!r}, has dimensions ({have}); expected ({', '.join(v.dims)})"
            yield Hit(v, "formula_terms", message)
    if wrong or sigma is None or zlev is None or not c.options.data or (unwritten(sigma) and unwritten(zlev)):
        return
    one, other = _missing(sigma), _missing(zlev)
    if one is None or other is None:
        return
    same = np.flatnonzero(one == other)
    if same.size:
        k = int(same[0])
        both = "both are missing" if one[k] else "neither is missing"
        more = f" and in {same.size - 1} more" if same.size > 1 else ""
        message = f"of sigma ({sigma.path!r}) and zlev ({zlev.path!r}) {both} in level {k}{more}"
        yield Hit(v, "formula_terms", f"{message}; expected that exactly one of them is")
    nsigma = terms.get("nsigma")
    if nsigma is not None and nsigma.size == 1 and nsigma.is_numeric and nsigma.dialect is None:
        values = nsigma.values().ravel()
        if values.size and int(other.sum()) != values[0]:
            message = f"nsigma ({nsigma.path!r}) is {values[0]}, but zlev is missing in {int(other.sum())} levels"
            yield Hit(v, "formula_terms", f"{message}: make them equal or leave nsigma out")


def _missing(v: Variable) -> npt.NDArray[np.bool_] | None:
    """Return which values are missing, or `None` if they cannot be read."""
    if not v.is_numeric or v.dialect is not None or v.read is None or len(v.stored) != 1:
        return None
    return missing_mask(v, v.values())


@rule("VRT010", each=_of_sigma_z)
def nsigma_is_left_out(c: Context, v: Variable, _: dict[str, Variable]) -> Iterator[Hit]:
    """``formula_terms`` of an ocean sigma over z coordinate omits ``nsigma``."""
    if any((r.key or "").lower() == "nsigma" for r in c.references_of(v, "formula_terms")):
        yield Hit(v, "formula_terms", "term 'nsigma' is deprecated: leave it out; zlev says the same")


@rule("VRT011", back_to=Version(1, 0))
def sigma_over_z_needs_its_definition(c: Context) -> Iterator[Hit]:
    """A dataset with an ocean sigma over z coordinate follows CF-1.9 or a later version."""
    if c.version >= Version(1, 9):
        return
    for v, _ in _of_sigma_z(c):
        message = f"the definition of this coordinate is defective in {c.version}"
        yield Hit(v, "standard_name", f"{message}: follow CF-1.9 or later, and say so in Conventions")
