"""The attributes that mark an aggregation, or a variable that only contains its sub-arrays.

They are looked for in every variable of every file, so that this module does not load the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cfagg.conventions.findings import shorten
from cfagg.errors import ConventionError

__all__ = ["ROLES", "is_private", "mark_of"]

#: Values of ``cf_role`` that mark an aggregation, with the oldest version that knows them.
ROLES = {"nca": "NCA-0.2", "nca_variable": "NCA-0.2.1", "cfa_variable": "CFA-0.3"}

#: Attributes that describe an aggregation, and others that mark one.
_DESCRIPTIONS = ("nca_array", "cfa_array")
_MARKS = ("aggregated_dimensions", "aggregated_data", "cfa_group", "cfa_dimensions", "cfa_variable", "nca_dimensions")


def mark_of(attributes: Mapping[str, Any], dims: Sequence[str] = ()) -> str | None:
    """Return the attribute by which a variable with these dimensions is an aggregation or looks like one.

    An aggregation is stored as a scalar; except for the JSON itself, no single attribute marks an array as one.

    >>> mark_of({"nca_array": "{}"}, ["x"]), mark_of({"nca_dimensions": "x"}, ["x"]), mark_of({"nca_dimensions": "x"})
    ('nca_array', None, 'nca_dimensions')
    """
    # A variable that names both its dimensions and fragments is one in any shape, as in published examples.
    instructed = {"aggregated_dimensions", "aggregated_data"} <= attributes.keys()
    marks = (*_DESCRIPTIONS, *_MARKS) if instructed or not dims else _DESCRIPTIONS
    if (mark := next((name for name in marks if name in attributes), None)) is not None:
        return mark
    return "cf_role" if not dims and str(attributes.get("cf_role")) in ROLES else None


def is_private(attributes: Mapping[str, Any]) -> bool:
    """Return whether a variable only contains sub-arrays of aggregations in its file.

    Sources: NCA 0.1, ``nca_private``, where 0 means no and any other integer yes; NCA 0.2 to CFA 0.4, ``cf_role``.

    >>> is_private({"nca_private": 1}), is_private({"nca_private": 0}), is_private({"cf_role": "cfa_private"})
    (True, False, True)
    """
    if str(attributes.get("cf_role")) in ("nca_private", "cfa_private"):
        return True
    if "nca_private" not in attributes:
        return False
    value = np.asarray(attributes["nca_private"])
    if value.size != 1 or value.dtype.kind not in "iub":
        raise ConventionError(
            f"the attribute nca_private should be an integer; found {shorten(attributes['nca_private'])}"
        )
    return bool(value.reshape(()) != 0)
