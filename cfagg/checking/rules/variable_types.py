"""Types of variables: CF section 2.2."""

from __future__ import annotations

from collections.abc import Iterator

from cfagg.checking.context import Context
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import Variable


@rule("TYP001")
def types_are_known_to_cf(c: Context) -> Iterator[Hit]:
    """Variables are of the types that the version of CF allows."""
    for v in c.dataset.variables:
        if v.kind == "other":
            told = "the variable is of a type that netCDF does not define"
            # Section 2.2 speaks of data variables, and of types that netCDF has; a store of another kind has others.
            grave = v in c.roles.data and c.version >= Version(1, 9) and c.dataset.format in ("netcdf", "cdl", "xarray")
            yield Hit(v, None, f"{told}; expected text, integers or real numbers", None if grave else "warning")
        elif not _acceptable(v, c.version):
            name = "string" if v.kind == "string" else v.dtype.name
            since = "1.8" if v.kind == "string" else "1.9"
            told = f"the variable is of type {name}, which {c.version} does not name among those it accepts"
            yield Hit(v, None, f"{told}: follow CF-{since} or later, or change the type", "warning")


def _acceptable(v: Variable, version: Version) -> bool:
    if v.kind == "string":
        return version >= Version(1, 8)
    return version >= Version(1, 9) or v.kind != "integer" or (v.dtype.kind == "i" and v.dtype.itemsize <= 4)
