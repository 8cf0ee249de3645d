"""The crs_wkt attribute: CF section 5.6.1."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.checking.rules.grid_mappings import grid_mapping_variables
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule


@rule("GMP007")
def crs_wkt_can_be_read(c: Context) -> Iterator[Hit]:
    """The crs_wkt of a grid mapping variable is well-known text of a coordinate reference system."""
    from cfagg.cf import wkt  # few datasets have one

    for v in grid_mapping_variables(c):
        text = v.text("crs_wkt")  # of another type: GMP006
        if text is not None:
            for problem in wkt.problems(text):
                yield Hit(v, "crs_wkt", f"not well-known text of a coordinate reference system: {problem}")
