"""Checks of packing before xarray applies it: whether scale and offset are numbers, and of what type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cfagg.cf.missing import typed_fills
from cfagg.cf.packing import read_as
from cfagg.cf.values import reinterpret
from cfagg.errors import ConventionError

__all__ = ["UnpackableError", "check_packing", "real_packing"]

_NUMBERS = ("scale_factor", "add_offset")


class UnpackableError(ConventionError):
    """Variables whose packing attributes are not single numbers, by name."""

    def __init__(self, message: str, problems: Iterable[Any] = (), variables: Iterable[str] = ()) -> None:
        super().__init__(message, problems)
        self.variables = tuple(variables)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.message, self.problems, self.variables)


def check_packing(
    path: str, variables: Iterable[tuple[str, Mapping[str, Any], Any]], decoding: Mapping[str, Any]
) -> None:
    """Raise `UnpackableError` if xarray, with these options, would unpack variables that cannot be unpacked."""
    found = [(name, *bad) for name, attributes, dtype in variables for bad in _bad(name, attributes, dtype, decoding)]
    if not found:
        return
    name, key, value, expected = found[0]
    names = list(dict.fromkeys(n for n, *_ in found))
    more = f" (and {len(names) - 1} more like it)" if len(names) > 1 else ""
    raise UnpackableError(
        f"{path}: variable {name!r} has {key} = {str(value)[:60]!r}, {expected}{more}; correct it, leave it "
        f"out with drop_variables={names[:20]!r}, or read the packed values with mask_and_scale=False",
        (),
        names,
    )


def _bad(
    name: str, attributes: Mapping[str, Any], dtype: Any, decoding: Mapping[str, Any]
) -> list[tuple[str, Any, str]]:
    """Return the attributes that prevent unpacking a variable, and what is expected."""
    wanted = decoding.get("mask_and_scale")
    if isinstance(wanted, Mapping):
        wanted = wanted.get(name)
    dropped = decoding.get("drop_variables") or ()
    if wanted is False or name in ([dropped] if isinstance(dropped, str) else dropped):
        return []
    given = [(key, attributes[key]) for key in _NUMBERS if key in attributes]
    if given and np.dtype(dtype).kind in "SUTO":
        return [(key, value, "but its values are texts") for key, value in given]
    return [(key, value, "expected one number") for key, value in given if _one(value) is None]


def _one(value: Any) -> Any:
    """Return the single number in an attribute, or `None` if it has another value."""
    if isinstance(value, list | tuple) and not all(isinstance(v, int | float) for v in value):
        return None
    found = np.asarray(value)
    # Booleans cannot be factors: xarray would make the values true or false.
    return found.reshape(-1)[0] if found.dtype.kind in "iuf" and found.size == 1 else None


def real_packing(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return attributes with which xarray unpacks values to real numbers, as CF requires: a real ``scale_factor``.

    Of values whose sign ``_Unsigned`` changes, it reads only the ``_FillValue`` as they are stored.

    >>> real_packing({"scale_factor": 2, "_FillValue": -1}, np.dtype("i2"))
    {'scale_factor': np.float64(2.0), '_FillValue': -1}
    >>> real_packing({"scale_factor": 2}, np.dtype("i2"))
    {'scale_factor': 2}
    """
    out = dict(attributes)
    masked = any(name in out for name in ("_FillValue", "missing_value"))
    for key in _NUMBERS:
        value = _one(out[key]) if key in out else None
        if value is None:
            continue
        if value.dtype.kind in "iu" and (masked or dtype.kind == "f"):
            out[key] = np.float64(value)
        elif isinstance(out[key], list | tuple):
            out[key] = value
    gaps = np.asarray(out.get("missing_value", ())).reshape(-1)
    if "_Unsigned" in out and dtype.kind in "iu" and gaps.dtype.kind in "iuf" and gaps.size:
        gap, fill = _one(gaps), _one(out.get("_FillValue"))
        if "_FillValue" not in out and gap is not None and (same := typed_fills([gap], dtype)):
            out["_FillValue"] = same[0]
        elif fill is None or np.any(gaps != fill):
            meant = read_as(dtype, out)
            typed = typed_fills((reinterpret(v, dtype, meant) for v in gaps.tolist()), meant)
            out |= {"missing_value": np.array(typed)} if typed else {}
    return out
