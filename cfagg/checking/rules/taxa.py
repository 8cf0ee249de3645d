"""Names and identifiers of biological taxa: CF section 6.1.2."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.checking.axes import name_of
from cfagg.checking.context import Context, once
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable

_NAME, _IDENTIFIER = "biological_taxon_name", "biological_taxon_lsid"

#: Authority, namespace, object and version, by the specification of life science identifiers.
_LSID = r"(?i)urn:lsid:[\w.-]+:[^\s:]+:[^\s:]+(:[^\s:]+)?"


@once
def _of_taxa(c: Context) -> list[Variable]:
    """Return the variables whose standard names are about taxa."""
    return [v for v in c.with_attribute("standard_name") if "taxon" in name_of(v)]


@rule("TAX001", each=_of_taxa)
def quantities_of_taxa_have_names_of_taxa(c: Context, v: Variable) -> Iterator[Hit]:
    """A quantity of biological taxa has a coordinate with their names."""
    name = name_of(v)
    if "biological_taxon" not in name and "organisms_in_taxon" not in name:
        return
    if name in (_NAME, _IDENTIFIER, "biological_taxon_identifier") or v not in c.roles.data:
        return
    named = c.references_of(v, "coordinates")
    if any(r.target is None for r in named):
        return  # COO009
    if _NAME not in {name_of(r.target) for r in named if r.target is not None}:
        message = f"no coordinate has the standard name {_NAME}; add the names of the taxa"
        yield Hit(v, "coordinates", message)


@rule("TAX002", each=_of_taxa)
def names_of_taxa_are_text(_: Context, v: Variable) -> Iterator[Hit]:
    """Names and identifiers of taxa are text."""
    if name_of(v) in (_NAME, _IDENTIFIER) and not v.is_text:
        yield Hit(v, None, f"{name_of(v)} is of type {v.dtype}; expected text")


@rule("TAX003", each=_of_taxa, needs="data")
def identifiers_of_taxa_are_well_formed(_: Context, v: Variable) -> Iterator[Hit]:
    """Identifiers of taxa are life science identifiers, or missing."""
    if name_of(v) != _IDENTIFIER or not v.is_text or v.dialect is not None or v.read is None:
        return
    for text in v.texts().ravel():
        if text.strip() and len(text) < 1000 and not re.fullmatch(_LSID, text.strip()):
            message = f"{text[:80]!r} is not a life science identifier; expected urn:lsid:authority:namespace:object"
            yield Hit(v, None, message)
            break
