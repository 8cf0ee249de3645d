"""HEALPix grids: CF section 5.6 and appendix F."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cfagg.checking.axes import name_of
from cfagg.checking.context import Context
from cfagg.checking.missing import missing_mask, unsigned, unwritten
from cfagg.checking.rules.grid_mappings import mappings_named
from cfagg.findings.finding import Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import Variable


def _level(v: Variable) -> int | None:
    """Return the refinement level of a mapping, or `None` if it is not legal."""
    value = v.numbers("refinement_level")
    if value is None or value.size != 1 or value.dtype.kind not in "iu":
        return None
    return int(value[0]) if 0 <= int(value[0]) <= 29 else None


def whole_numbers(v: Variable) -> Iterator[npt.NDArray[np.integer]]:
    """Yield the values of an integer variable block by block, without missing ones."""
    for block in v.blocks() if v.dialect is None else ():
        values = unsigned(v, block.ravel())
        yield values[~missing_mask(v, values)]


@rule("GMP010", each=mappings_named("healpix"))
def refinement_level_is_given(_: Context, v: Variable) -> Iterator[Hit]:
    """A HEALPix grid of scheme nested or ring has a refinement_level."""
    scheme = v.text("indexing_scheme")
    if scheme in ("nested", "ring") and "refinement_level" not in v.attributes:
        yield Hit(v, "refinement_level", f"refinement_level is missing; scheme {scheme} needs one")


@rule("GMP011", each=mappings_named("healpix"))
def refinement_level_is_not_given(_: Context, v: Variable) -> Iterator[Hit]:
    """A HEALPix grid of scheme nuniq or zuniq has no refinement_level."""
    scheme = v.text("indexing_scheme")
    if scheme in ("nuniq", "zuniq") and "refinement_level" in v.attributes:
        yield Hit(v, "refinement_level", f"refinement_level is given, scheme {scheme} implies it; delete it")


@rule("GMP012", each=mappings_named("healpix"))
def refinement_level_is_in_range(c: Context, v: Variable) -> Iterator[Hit]:
    """A refinement_level is one integer from 0 to 29."""
    value = v.numbers("refinement_level")
    if value is None or not value.size or value.dtype.kind not in "iuf":
        return  # GMP006
    if value.size != 1 or value.dtype.kind == "f":
        whole = value.size == 1 and not c.dataset.typed and float(value[0]).is_integer()
        if not whole:
            yield Hit(v, "refinement_level", "refinement_level is not one integer; expected 0 to 29")
            return
    if not 0 <= int(value[0]) <= 29:
        yield Hit(v, "refinement_level", f"refinement_level is {int(value[0])}; expected 0 to 29")


@rule("GMP013", each=lambda c: c.with_standard_name("healpix_index"))
def healpix_index_is_integer(c: Context, v: Variable) -> Iterator[Hit]:
    """A variable of standard name healpix_index holds nonnegative integers."""
    if v.kind != "integer":
        yield Hit(v, "standard_name", f"healpix_index is of type {v.dtype}; expected an integer type")
    elif c.options.data:
        least = min((int(block.min()) for block in whole_numbers(v) if block.size), default=0)
        if least < 0:
            yield Hit(v, None, f"the least value is {least}; expected 0 or more")


@rule("APF007", needs="data")
def healpix_index_is_on_the_sphere(c: Context) -> Iterator[Hit]:
    """Indices of scheme nested or ring are less than the number of cells of their level."""
    levels: dict[Variable, int] = {}
    for mapping in mappings_named("healpix")(c):
        level = _level(mapping)
        if level is None or mapping.text("indexing_scheme") not in ("nested", "ring"):
            continue
        for r in c.references_to(mapping, "grid_mapping"):
            for index in _indices(c, r.source):
                levels[index] = level
    for v, level in levels.items():
        cells = 12 * 4**level
        greatest = max((int(block.max()) for block in whole_numbers(v) if block.size), default=-1)
        if greatest >= cells:
            yield Hit(v, None, f"the greatest index is {greatest}; a grid of level {level} has {cells} cells")


def _indices(c: Context, v: Variable) -> list[Variable]:
    """Return the HEALPix indices among the coordinates of a variable."""
    found = c.targets(v, "coordinates")
    for d in v.dimensions:
        target, _ = c.resolver.variable(d.name, v.group)
        if target is not None and target.is_coordinate:
            found.append(target)
    return [t for t in found if name_of(t) == "healpix_index" and t.kind == "integer"]


@rule("GMP016", each=lambda c: c.with_standard_name("healpix_index"), needs="data")
def distinct_indices_are_a_coordinate_variable(c: Context, v: Variable) -> Iterator[Hit]:
    """Distinct HEALPix indices are in a coordinate variable rather than an auxiliary one."""
    if v not in c.roles.auxiliary or v.kind != "integer" or v.size <= 1 or len(v.stored) != 1 or unwritten(v):
        return
    values = v.values().ravel()
    if np.unique(values).size == values.size:
        message = (
            f"all {values.size} indices are distinct; sort them and store them as a coordinate variable, "
            f"named like the dimension {v.dims[0]!r}"
        )
        yield Hit(v, None, message)
