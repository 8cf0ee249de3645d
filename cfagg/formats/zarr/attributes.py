"""NetCDF attributes in Zarr: as JSON, with the fill value where readers expect it."""

from __future__ import annotations

import base64
import contextlib
import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from cfagg.cf.valid import is_packed_type
from cfagg.cf.values import integer_range
from cfagg.errors import ConventionError, LossError
from cfagg.findings.losses import Loss

__all__ = [
    "encoded_fill",
    "fill_of",
    "group_attributes",
    "is_strict",
    "jsonable",
    "variable_attributes",
    "with_members",
    "with_number",
    "without_odd_fill",
]

#: Attributes that describe the aggregation and not the array.
_CONSUMED = frozenset({"nca_dimensions", "nca_array", "nca_private"})
#: Attributes with a special meaning in Zarr stores.
_RESERVED = frozenset({"_ARRAY_DIMENSIONS", "_FillValue"})
#: Most members of an enumeration that a note names.
_MOST_MEMBERS = 64


def jsonable(value: Any) -> Any:
    """Return an attribute value for JSON: lists for arrays, numbers for arrays of one value, text for bytes.

    Compound values become mappings from their fields.

    >>> import numpy as np
    >>> jsonable(np.float32(0.5)), jsonable(np.arange(4).reshape(2, 2)), jsonable(np.array([3]))
    (0.5, [[0, 1], [2, 3]], 3)
    >>> jsonable(np.array([(1, 0.5)], "i2, f4"))
    {'f0': 1, 'f1': 0.5}
    """
    if isinstance(value, np.ndarray):
        if value.dtype.names is not None and value.size != 1:
            return [jsonable(v) for v in value]
        return jsonable(value.reshape(-1)[0] if value.size == 1 else value.tolist())
    if isinstance(value, np.void) and value.dtype.names is not None:
        return {name: jsonable(value[name]) for name in value.dtype.names}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    return value


def is_strict(value: Any) -> bool:
    """Return whether a result of `jsonable` is strict JSON, which has neither NaN nor infinities.

    >>> is_strict([0.0, math.inf]), is_strict({"a": [math.nan]}), is_strict("NaN")
    (False, False, True)
    """
    if isinstance(value, Mapping):
        return all(is_strict(v) for v in value.values())
    if isinstance(value, list):
        return all(is_strict(v) for v in value)
    return not isinstance(value, float) or math.isfinite(value)


def group_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's attributes, without NCA and CFA in `Conventions`, as the store has no aggregations.

    >>> group_attributes({"Conventions": "CF-1.5 NCA", "title": "t"})
    {'Conventions': 'CF-1.5', 'title': 't'}
    >>> group_attributes({"Conventions": "CF-1.8, NCA-0.1, ACDD-1.3"})
    {'Conventions': 'CF-1.8, ACDD-1.3'}
    """
    out = {k: jsonable(v) for k, v in attributes.items()}
    text = out.get("Conventions")
    if isinstance(text, str) and re.search(r"(?<![\w-])(NCA|CFA)(-[\d.]+)?(?![\w-])", text):
        separator = ", " if "," in text else " "
        words = [w for w in re.split(r"[,\s]+", text) if w and not re.fullmatch(r"(NCA|CFA)(-[\d.]+)?", w)]
        out["Conventions"] = separator.join(words)
        if not words:
            del out["Conventions"]
    return out


def variable_attributes(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return a variable's attributes without those of the aggregation and without the fill value."""
    # JSON has only one integer type, so bounds of the valid range that do not have the packed type `dtype`, and thus
    # apply to unpacked values, become reals.
    kept = {k: jsonable(v) for k, v in attributes.items() if k not in _CONSUMED | _RESERVED}
    if dtype.kind in "iu" and ("scale_factor" in attributes or "add_offset" in attributes):
        for name in ("valid_min", "valid_max", "valid_range"):
            given = np.asarray(attributes.get(name, ""))
            if given.dtype.kind in "iu" and not is_packed_type(attributes[name], dtype):
                kept[name] = jsonable(given.astype("f8"))
    fill = attributes.get("_FillValue")
    if _is_nan(kept.get("missing_value")) and fill is not None and _is_nan(jsonable(fill)):
        # It repeats _FillValue, and strict JSON has no NaN, so that strict readers could not open the store.
        del kept["missing_value"]
    return kept


def with_members[A: Mapping[str, Any]](
    attributes: A, dtype: np.dtype[Any], path: str
) -> tuple[A | dict[str, Any], tuple[str, ...]]:
    """Return the attributes of a variable with the members of its enumeration, which is not written, and a note.

    Members become ``flag_values`` and ``flag_meanings`` (CF section 3.5), if the variable has neither and CF allows
    their names; the note names them in any case.

    Examples
    --------
    >>> dtype = np.dtype("u1", metadata={"enum": {"Clear": 0, "Cumulus": 1}})
    >>> with_members({}, dtype, "cloud")
    ({'flag_values': array([0, 1], dtype=uint8), 'flag_meanings': 'Clear Cumulus'}, ("variable 'cloud' is an ...",))
    """
    metadata: Mapping[str, Any] = dtype.metadata or {}
    members: Mapping[str, int] = metadata.get("enum", {})
    if not members:
        return attributes, ()
    names = ", ".join(f"{name} = {value}" for name, value in list(members.items())[:_MOST_MEMBERS])
    names += f" and {len(members) - _MOST_MEMBERS} more" if len(members) > _MOST_MEMBERS else ""
    flags = [n for n in ("flag_values", "flag_masks", "flag_meanings") if n in attributes]
    odd = [n for n in members if not re.fullmatch(r"[A-Za-z0-9_.+@-]+", n)]
    if flags or odd or len(set(members.values())) < len(members):
        reason = f"it has {flags[0]}" if flags else "flag_meanings cannot hold them"
        return attributes, (
            f"variable {path!r} is an enumeration ({names}): its integers are written, not the names, because {reason}",
        )
    values = np.array(list(members.values()), dtype.str)
    added = {"flag_values": values, "flag_meanings": " ".join(members)}
    note = f"variable {path!r} is an enumeration ({names}): its integers are written, the names as flags"
    return {**attributes, **added}, (note,)


def fill_of(attributes: Mapping[str, Any], dtype: np.dtype[Any], where: str) -> Any:
    """Return the declared fill value, a NumPy scalar, bytes or text in the array's type, or None."""
    value = attributes.get("_FillValue")
    if value is None:
        return None
    if dtype.kind == "O":
        return str(jsonable(value))
    try:
        if dtype.kind == "S":
            return _bytes(value, dtype.itemsize)
        return _number(np.asarray(value).reshape(-1), dtype, other_sign=attributes.get("_Unsigned") is not None)
    except (AttributeError, TypeError, ValueError) as error:
        raise ConventionError(
            f"{where}: _FillValue = {str(value)[:80]!r} is not a single value of type {dtype}; delete or correct it"
        ) from error


def without_odd_fill(
    attributes: Mapping[str, Any], dtype: np.dtype[Any], path: str, where: str, *, drop: bool
) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """Return attributes without a fill value that is not one value of a type, and the loss; unless `drop`, raise it."""
    found: dict[str, Any] = dict(attributes)
    given: Any = found.get("_FillValue")
    try:
        fill_of(attributes, dtype, where)
    except ConventionError:
        del found["_FillValue"]
        why = f"no value of type {dtype} can equal it, and readers need one of this type"
        if np.size(given) > 1 and dtype.kind in "iuf" and np.asarray(given).dtype.kind in "iuf":
            # Values that equal one of several must stay missing.
            others = np.ravel(found.get("missing_value", given))
            found["missing_value"] = np.unique([*others, *given]) if others.dtype.kind in "iuf" else given
            why = "readers need a single one; its values are missing_value instead"
        losses = (Loss(path, None, "attribute '_FillValue'", str(given)[:80], why),)
        if not drop:
            raise LossError(f"{where}: on_loss='drop' (--on-loss drop) leaves the attribute out", losses) from None
        return found, losses
    return found, ()


def _bytes(value: Any, length: int) -> bytes:
    """Return the bytes of one text, of one that is already in bytes, or of the code of one character."""
    given = value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value
    text = given if isinstance(given, bytes) else jsonable(given)
    found = text.encode("utf-8") if isinstance(text, str) else text if isinstance(text, bytes) else bytes([text])
    if len(found) > length:
        raise ValueError("longer than the values")
    return bytes(found)


def _number(value: np.ndarray[Any, Any], dtype: np.dtype[Any], *, other_sign: bool) -> Any:
    """Return one number in a type that can represent it; any other would make valid values missing."""
    # With `other_sign`, for the attribute `_Unsigned`, integers may be signed or unsigned with the same bits.
    if value.size != 1:
        raise ValueError("several values")
    given = value[0]
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    if given.dtype.kind not in "iufb" and not (dtype.kind == "f" and np.isnan(found)):
        raise ValueError("text, which readers do not take for a number")
    if given.dtype.kind in "iuf":
        if dtype.kind in "iu":
            kinds = "iu" if other_sign else dtype.kind
            least, most = zip(*(integer_range(np.dtype(f"{kind}{dtype.itemsize}")) for kind in kinds), strict=True)
            # By integers, for the largest of 64 bits is no real.
            if not (np.isfinite(given) and int(given) == given and min(least) <= int(given) <= max(most)):
                raise ValueError("no such integer")
        if dtype.kind == "f" and np.isfinite(given) and not np.isfinite(found):
            raise ValueError("too large")
    return found


def encoded_fill(fill: Any, dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> Any:
    """Return the `_FillValue` attribute of a Zarr v3 array in the form that xarray reads and writes.

    Booleans are themselves, integers numbers, negative ones for unsigned integers whose attributes say that they are
    signed; floats are the base64 text of their eight little-endian bytes.  There is none for text, since no released
    xarray opens arrays of characters or strings with it.

    >>> import numpy as np
    >>> encoded_fill(np.int16(-1), np.dtype("i2"), {}), encoded_fill(np.float32("nan"), np.dtype("f4"), {})
    (-1, 'AAAAAAAA+H8=')
    >>> encoded_fill(np.uint8(255), np.dtype("u1"), {"_Unsigned": "false"})
    -1
    """
    if fill is None or dtype.kind not in "biuf":
        return None
    if dtype.kind == "b":
        return bool(fill)
    if dtype.kind == "u" and str(attributes.get("_Unsigned")) == "false":
        return int(np.asarray(fill, dtype).view(f"i{dtype.itemsize}"))
    if dtype.kind in "iu":
        return int(fill)
    return base64.standard_b64encode(struct.pack("<d", float(fill))).decode()


def with_number(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return attributes of a stored array with the fill value that `encoded_fill` wrote as a number of its type.

    >>> with_number({"_FillValue": "AAAAAAAA8D8=", "units": "K"}, np.dtype("f4"))
    {'_FillValue': np.float32(1.0), 'units': 'K'}
    """
    found = dict(attributes)
    text = found.get("_FillValue")
    if dtype.kind == "f" and isinstance(text, str):
        # Text from another writer is unchanged.
        with contextlib.suppress(ValueError, struct.error):
            found["_FillValue"] = dtype.type(struct.unpack("<d", base64.standard_b64decode(text))[0])
    elif dtype.kind in "iu" and type(text) is int and np.iinfo(dtype).min <= text <= np.iinfo(dtype).max:
        found["_FillValue"] = dtype.type(text)
    return found


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
