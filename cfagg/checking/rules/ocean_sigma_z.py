"""The ocean sigma over z coordinate: CF Appendix D."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.checking.context import Context, once
from cfagg.checking.missing import missing_mask
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable


@once
def _all(c: Context) -> list[tuple[Variable, dict[str, Variable]]]:
    """Return the coordinates, each with the variables of its terms in lower case."""
    found = []
    for v in c.with_standard_name("ocean_sigma_z_coordinate"):
        if not c.references_to(v, "bounds"):
            terms = c.references_of(v, "formula_terms")
            found.append((v, {r.key.lower(): r.target for r in terms if r.key and r.target is not None}))
    return found


@rule("VRT009", each=_all)
def one_of_sigma_and_zlev_is_missing(c: Context, v: Variable, terms: dict[str, Variable]) -> Iterator[Hit]:
    """In each level one of ``sigma`` and ``zlev`` is missing; ``nsigma`` is how often it is ``zlev``."""
    sigma, zlev = terms.get("sigma"), terms.get("zlev")
    wrong = False
    for name, term in (("sigma", sigma), ("zlev", zlev)):
        if term is not None and v.dimensions and term.dimensions != v.dimensions:
            wrong = True
            have = ", ".join(term.dims)
            told = f"term {name!r}, {term.path!r}, has dimensions ({have}); expected ({', '.join(v.dims)})"
            yield Hit(v, "formula_terms", told)
    if wrong or sigma is None or zlev is None or not c.options.data:
        return
    one, other = _missing(sigma), _missing(zlev)
    if one is None or other is None:
        return
    same = np.flatnonzero(one == other)
    if same.size:
        k = int(same[0])
        both = "both are missing" if one[k] else "neither is missing"
        more = f" and in {same.size - 1} more" if same.size > 1 else ""
        told = f"of sigma ({sigma.path!r}) and zlev ({zlev.path!r}) {both} in level {k}{more}"
        yield Hit(v, "formula_terms", f"{told}; expected that exactly one of them is")
    nsigma = terms.get("nsigma")
    if nsigma is not None and nsigma.size == 1 and nsigma.is_numeric and nsigma.dialect is None:
        values = nsigma.values().ravel()
        if values.size and int(other.sum()) != values[0]:
            told = f"nsigma ({nsigma.path!r}) is {values[0]}, but zlev is missing in {int(other.sum())} levels"
            yield Hit(v, "formula_terms", f"{told}: make them equal or leave nsigma out")


def _missing(v: Variable) -> npt.NDArray[np.bool_] | None:
    """Return which values are missing, `None` if they cannot be read."""
    if not v.is_numeric or v.dialect is not None or v.read is None or len(v.stored) != 1:
        return None
    return missing_mask(v, v.values())


@rule("VRT010", each=_all)
def nsigma_is_left_out(c: Context, v: Variable, _: dict[str, Variable]) -> Iterator[Hit]:
    """``formula_terms`` of an ocean sigma over z coordinate does without ``nsigma``."""
    if any((r.key or "").lower() == "nsigma" for r in c.references_of(v, "formula_terms")):
        yield Hit(v, "formula_terms", "term 'nsigma' is deprecated: leave it out; zlev says the same")


@rule("VRT011", back_to=Version(1, 0))
def sigma_over_z_needs_its_definition(c: Context) -> Iterator[Hit]:
    """A dataset with an ocean sigma over z coordinate follows CF-1.9 or a later version."""
    if c.version >= Version(1, 9):
        return
    for v, _ in _all(c):
        told = f"the definition of this coordinate is defective in {c.version}"
        yield Hit(v, "standard_name", f"{told}: follow CF-1.9 or later, and say so in Conventions")
