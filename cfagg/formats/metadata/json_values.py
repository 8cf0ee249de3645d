"""JSON attributes in the representation of the model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.formats.zarr.fields import NON_FINITE
from cfagg.model.dataset import AttributeValue

__all__ = ["value_of_json"]


def value_of_json(given: Any, type_: str | None = None) -> AttributeValue:
    """Return an attribute in the form of the model, in a NumPy type if the store gives one."""
    wanted = _dtype(type_)
    if wanted is not None and wanted.kind == "f":
        given = _without_names(given)
    if isinstance(given, str):
        return given if _is_text(given) else given.encode("utf-8", "surrogatepass")
    if type_ is not None and type_.endswith("S1") and not _holds_text(given):
        # The netCDF library writes text that happens to be valid JSON, such as units of "1", as the JSON value.
        return json.dumps(given, ensure_ascii=False)
    if isinstance(given, bool) or given is None or isinstance(given, dict):
        other: object = given
        return other
    values = given if isinstance(given, list) else [given]
    if values and all(isinstance(v, str) for v in values):
        return values[0] if len(values) == 1 and type_ is not None else tuple(values)
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        named = _with_names(values)
        if named is None:
            return values
        values = named
    found = _numbers(values, wanted)
    # Integers that netCDF lacks, and that no real equals, stay what they are.
    typed = found.dtype.kind != "f" or (wanted is not None and wanted.kind == "f")
    exact = all(v == real for v, real in zip(values, found.tolist(), strict=True) if isinstance(v, int))
    return found if typed or exact else given


def _holds_text(given: Any) -> bool:
    return isinstance(given, list) and any(isinstance(one, str) for one in given)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_names(given: Any) -> Any:
    """Return reals of which some or all are written by name, as NCZarr does, with numbers instead of the names."""
    if isinstance(given, list):
        return [NON_FINITE.get(v, v) if isinstance(v, str) else v for v in given]
    return NON_FINITE.get(given, given) if isinstance(given, str) else given


def _with_names(values: list[Any]) -> list[Any] | None:
    """Return numbers of which some are written by name, as JSON has no infinities, or `None` for other values."""
    found = [NON_FINITE.get(v, v) if isinstance(v, str) else v for v in values]
    plain = all(isinstance(v, int | float) and not isinstance(v, bool) for v in found)
    return found if plain and any(not isinstance(v, str) for v in values) else None


def _numbers(values: list[int | float], wanted: np.dtype[Any] | None) -> npt.NDArray[Any]:
    if wanted is None:
        whole = all(isinstance(v, int) for v in values) and bool(values)
        small = whole and all(-(2**63) <= v < 2**63 for v in values)
        large = whole and all(0 <= v < 2**64 for v in values)
        wanted = np.dtype("i8" if small else "u8" if large else "f8")
    try:
        return np.array(values, wanted)
    except (OverflowError, ValueError):
        return np.array([_real(v) for v in values])


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _dtype(type_: str | None) -> np.dtype[Any] | None:
    if type_ is None or len(type_) > 4:
        return None
    try:
        found = np.dtype(type_)
    except (TypeError, ValueError):
        return None
    return found.newbyteorder("=") if found.kind in "iuf" else None
