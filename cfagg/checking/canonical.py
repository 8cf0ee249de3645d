"""The units that a standard name requires, given its modifier and the cell methods.

Sources: CF section 3.3, Appendices C and E.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfagg.cf.cell_methods import parse
from cfagg.checking.lookup import modifiers, standard_names

if TYPE_CHECKING:
    from cfagg.checking.context import Context
    from cfagg.model.dataset import Variable

__all__ = ["expected_units", "is_cell", "methods_of"]

#: Methods that square the units (Appendix E).
_SQUARES = frozenset({"variance", "sum_of_squares"})


def is_cell(c: Context, v: Variable) -> bool:
    """Whether a variable holds the bounds of another variable, and so shares its units and names."""
    roles = c.roles
    return v in roles.bounds or v in roles.climatology or v in roles.named_by("bounds_tie_points")


def methods_of(v: Variable) -> list[str]:
    """Return the methods of ``cell_methods`` in order."""
    return [e.method.lower() for e in parse(v.text("cell_methods") or "").entries]


def expected_units(c: Context, v: Variable) -> str | None:
    """Return the units that the standard name of a variable requires.

    The units are empty for quantities without units, such as ``region`` or a status flag. They are `None` if there is
    no known standard name or if the modifier is unknown.
    """
    words = v.words("standard_name")
    if not 1 <= len(words) <= 2:
        return None
    units = standard_names(c).get(words[0])
    if units is None:
        return None
    if len(words) == 2:
        if words[1] not in modifiers:
            return None
        changed = modifiers[words[1]]
        units = units if changed is None else changed
    squares = sum(m in _SQUARES for m in methods_of(v))
    if squares and units not in ("", "1"):
        # More than three squares are not intended, and UDUNITS would refuse the powers.
        units = f"({units})^{2**squares}" if squares <= 3 else None
    return units
