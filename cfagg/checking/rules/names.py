"""Names of variables, dimensions and attributes: CF sections 2.3 and 2.4."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.checking.findings import Hit
from cfagg.checking.rule import rule


@rule("DOC006")
def dimensions_are_distinct(c: Context) -> Iterator[Hit]:
    """A variable does not repeat a dimension."""
    for v in c.dataset.variables:
        twice = sorted({d.name for d in v.dimensions if v.dims.count(d.name) > 1})
        if twice:
            yield Hit(v, None, f"dimension {twice[0]!r} occurs more than once in ({', '.join(v.dims)})")
