"""Variables that stand in other files: CF section 2.6.3."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfagg.cf.attribute_types import holds, said
from cfagg.checking.context import Context
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version


@rule("DOC014")
def external_variables_lists_names(c: Context) -> Iterator[Hit]:
    """``external_variables`` is a text of names separated by blanks."""
    attributes = c.dataset.root.attributes
    if "external_variables" not in attributes:
        return
    value = attributes["external_variables"]
    if not isinstance(value, str):
        if holds(value) not in ("bytes", "texts") or c.version < Version(1, 12):
            told = f"it holds {said(value)}; expected a text with names of variables"
            yield Hit(None, "external_variables", told)
        return
    bad = next((w for w in value.split() if re.search(r"[,;:/\"']", w)), None)
    if bad is not None:
        told = f"{bad!r} is not the name of a variable; expected names separated by blanks"
        yield Hit(None, "external_variables", told)


@rule("DOC015")
def external_variables_are_elsewhere(c: Context) -> Iterator[Hit]:
    """No variable that ``external_variables`` names is in the dataset."""
    if not c.external:
        return
    for v in c.dataset.variables:
        if v.name in c.external:
            told = f"variable {v.path!r} is named, but it is in this dataset: take its name out of the list"
            yield Hit(None, "external_variables", told)
