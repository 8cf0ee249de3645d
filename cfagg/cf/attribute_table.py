"""The attributes that the CF conventions define for variables, groups and datasets.

Source: CF Appendix A, Table A.1, of all versions from 1.0 to 1.13.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from cfagg.findings.versions import Version

__all__ = ["Attribute", "attribute_table", "uses"]

#: The type of an attribute: text, numbers, or the type of its variable.
Type = Literal["S", "N", "D"]


class Attribute(NamedTuple):
    """A row of Table A.1.

    `type` is ``S`` for text, ``N`` for numbers, ``D`` for values of the type of the variable. `uses` gives where the
    attribute may be used and from which minor version of CF 1 on, by the abbreviations of the table: ``C`` coordinate
    data, ``D`` data variables, ``G`` global, ``Gr`` groups, ``M`` geometry containers, ``Q`` quantization containers,
    ``Do`` domain variables, ``BI`` and ``BO`` bounds variables, ``A`` aggregation variables, ``-`` others.
    """

    name: str
    type: Type
    uses: tuple[tuple[int, frozenset[str]], ...]

    @property
    def since(self) -> Version:
        """The first version that defines it."""
        return Version(1, self.uses[0][0])


# Name, type, and the uses with the minor version from which they apply.  Versions before 1.7 are not distinguished:
# attributes missing from their tables (such as `cf_role`, which came with 1.6) were not defined by an older one either.
_ROWS = """
actual_range N 7:C,D 11:C,D,BO
add_offset N 0:C,D 11:C,D,BO
aggregated_data S 13:A
aggregated_dimensions S 13:A
algorithm S 12:Q
ancillary_variables S 0:D
axis S 0:C 11:C,BI
bounds S 0:C
calendar S 0:C 11:C,BI
cell_measures S 0:D 9:D,Do
cell_methods S 0:D
cf_role S 6:C 11:C,BI
climatology S 0:C
comment S 0:G,C,D
compress S 0:C
computed_standard_name S 7:C 11:C,BI
Conventions S 0:G
coordinate_interpolation S 9:D,Do
coordinates S 0:D 8:D,M 9:D,M,Do
dimensions S 9:Do
external_variables S 7:G
_FillValue D 0:C,D 11:C,D,BO
featureType S 6:G
flag_masks D 3:D
flag_meanings S 0:D
flag_values D 0:D
formula_terms S 0:C 11:C,BO
geometry S 8:C,D 9:C,D,Do
geometry_type S 8:M
grid_mapping S 0:D 8:D,M 9:D,M,Do
history S 0:G 8:G,Gr
implementation S 12:Q
instance_dimension S 6:-
institution S 0:G,D
interior_ring S 8:M
leap_month N 0:C 11:C,BI
leap_year N 0:C 11:C,BI
location S 11:D,Do
location_index_set S 11:D,Do
long_name S 0:C,D 9:C,D,Do 11:C,D,Do,BI
mesh S 11:D,Do
missing_value D 0:C,D 11:C,D,BO
month_lengths N 0:C 11:C,BI
node_coordinates S 8:M
node_count S 8:M
nodes S 8:C
part_node_count S 8:M
positive S 0:C 11:C,BI
quantization S 12:D
quantization_nsb N 12:D
quantization_nsd N 12:D
references S 0:G,D
sample_dimension S 6:-
scale_factor N 0:C,D 11:C,D,BO
select S 13:C
source S 0:G,D
standard_error_multiplier N 0:D
standard_name S 0:C,D 11:C,D,BI
title S 0:G 8:G,Gr
units S 0:C,D 11:C,D,BI
units_metadata S 11:C,D,BI
valid_max N 0:C,D 11:C,D,BO
valid_min N 0:C,D 11:C,D,BO
valid_range N 0:C,D 11:C,D,BO
"""


@lru_cache(maxsize=1)
def attribute_table() -> dict[str, Attribute]:
    """Return the rows of the table by the names of the attributes."""
    found = {}
    for row in _ROWS.split("\n"):
        if row:
            name, type_, *given = row.split()
            parts = [use.split(":") for use in given]
            each = tuple((int(minor), frozenset(where.split(","))) for minor, where in parts)
            found[name] = Attribute(name, type_, each)  # type: ignore[arg-type]
    return found


def uses(name: str, version: Version) -> frozenset[str]:
    """Return the uses for which a version of CF defines an attribute, or none if it does not define it."""
    row = attribute_table().get(name)
    held = [where for minor, where in row.uses if Version(1, minor) <= version] if row is not None else []
    return held[-1] if held else frozenset()
