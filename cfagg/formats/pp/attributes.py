"""Meaning and processing of fields: names, units, cell methods and the model that produced them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.pp.fields import Fields
from cfagg.formats.pp.grids import is_rotated
from cfagg.formats.pp.stash import Phenomenon, phenomenon, stash_name
from cfagg.formats.pp.times import CLIMATOLOGY

__all__ = ["cell_methods", "described", "name_of", "of_field"]

#: Bits of LBPROC that become cell methods of time, of longitude, and over an ensemble.
_TIME = {128: "mean", 4096: "minimum", 8192: "maximum"}
_TIMES = sum(_TIME)
_ZONAL, _ENSEMBLE = 64, 131072
_KNOWN = _TIMES + _ZONAL + _ENSEMBLE

#: The last four digits of LBSRCE: the Unified Model.
_UNIFIED_MODEL = 1111


def of_field(fields: Fields, i: int) -> Phenomenon:
    """Return the phenomenon of field `i`."""
    version = int(fields["LBSRCE"][i]) // 10_000 if _is_unified_model(fields, i) else 0
    code = (int(fields[word][i]) for word in ("LBUSER7", "LBUSER4", "LBFC"))
    return phenomenon(*code, version, rotated=is_rotated(fields, i))


def name_of(fields: Fields, i: int, found: Phenomenon) -> str:
    """Return the name of a variable: its standard name, else its code."""
    if found.standard_name:
        return found.standard_name.split()[0]
    code = stash_name(int(fields["LBUSER7"][i]), int(fields["LBUSER4"][i]))
    return code or f"lbfc_{max(int(fields['LBFC'][i]), 0)}"


def described(fields: Fields, i: int, found: Phenomenon) -> dict[str, Any]:
    """Return the attributes of a variable that do not depend on its dimensions."""
    code = stash_name(int(fields["LBUSER7"][i]), int(fields["LBUSER4"][i]))
    out: dict[str, Any] = {
        "standard_name": found.standard_name,
        "long_name": found.long_name,
        "units": found.units,
        "um_stash_source": code,
    }
    if code is None and fields["LBFC"][i] > 0:
        out["um_field_code"] = _number(int(fields["LBFC"][i]))
    if _is_unified_model(fields, i):
        out["source"] = "Data from Met Office Unified Model"
        version = int(fields["LBSRCE"][i]) // 10_000
        out["um_version"] = f"{version // 100}.{version % 100}" if version else None
    process = int(fields["LBPROC"][i])
    if process & ~_KNOWN or process & _TIMES not in (0, *_TIME):
        # Not expressible as cell methods: other bits, and a mean of extremes, whose order is not in the header.
        out["um_lbproc"] = _number(process)
    return {name: value for name, value in out.items() if value is not None}


def cell_methods(fields: Fields, i: int, names: set[str], found: Phenomenon) -> str | None:
    """Return the cell methods of field `i`, or `None`; `names` are the coordinates of its array."""
    process, lbtim = int(fields["LBPROC"][i]), max(int(fields["LBTIM"][i]), 0)
    methods = []
    if process > 0 and process & _ENSEMBLE:
        methods.append("realization: mean")
    for bit, method in _TIME.items():
        if process <= 0 or process & _TIMES != bit:
            continue
        interval = f" (interval: {lbtim // 100} hour)" if lbtim >= 100 else ""
        if lbtim // 10 % 10 == CLIMATOLOGY:
            methods.append(f"time: {method} within years{interval} time: {method} over years")
        else:
            methods.append(f"time: {method}{interval}")
    if process > 0 and process & _ZONAL:
        along = next((n for n in ("longitude", "grid_longitude") if n in names), "longitude")
        methods.append(f"{along}: mean")
    if found.where:
        methods.append(f"area: mean where {found.where}")
    return " ".join(methods) or None


def _number(value: int) -> npt.NDArray[Any]:
    """Return an attribute of one integer, of 4 bytes if it fits."""
    return np.array([value], np.int32 if abs(value) < 2**31 else np.int64)


def _is_unified_model(fields: Fields, i: int) -> bool:
    return int(fields["LBSRCE"][i]) % 10_000 == _UNIFIED_MODEL
