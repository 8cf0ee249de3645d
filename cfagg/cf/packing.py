"""How numbers are stored: packing by scale and offset, ``_Unsigned``, and the names of data types.

Sources: CF section 8.1; NetCDF User's Guide, "Attribute Conventions".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cfagg.cf.values import number
from cfagg.errors import ConformError, FragmentMismatchError

if TYPE_CHECKING:
    import numpy.typing as npt

    from cfagg.model import Layout

__all__ = ["DECODING_ATTRIBUTES", "STORAGE_ATTRIBUTES", "Packing", "as_meant", "check_declared", "read_as"]

#: Names of types in netCDF and NumPy; some mean different types in the two.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "byte": ("i1",),
    "ubyte": ("u1",),
    "char": ("S1",),
    "short": ("i2",),
    "ushort": ("u2",),
    "int": ("i4", "i8"),
    "integer": ("i4", "i8"),
    "uint": ("u4", "u8"),
    "long": ("i4", "i8"),
    "real": ("f4",),
    "float": ("f4", "f8"),
    "double": ("f8",),
}


#: Attributes for decoding stored numbers, and also those that define which of them are valid.
DECODING_ATTRIBUTES = ("_FillValue", "missing_value", "scale_factor", "add_offset", "_Unsigned")
STORAGE_ATTRIBUTES = (*DECODING_ATTRIBUTES, "valid_min", "valid_max", "valid_range")


class Packing(NamedTuple):
    """How stored values are unpacked: ``stored * scale + offset``."""

    scale: float = 1.0
    offset: float = 0.0

    def __bool__(self) -> bool:
        return (self.scale, self.offset) != (1.0, 0.0)

    @classmethod
    def of(cls, attributes: Mapping[str, Any], *, where: str) -> Packing:
        """Return the packing that ``scale_factor`` and ``add_offset`` declare."""
        scale, offset = (number(attributes, name, where) for name in ("scale_factor", "add_offset"))
        return cls._checked(1.0 if scale is None else scale, 0.0 if offset is None else offset, where)

    def undo(self, values: npt.NDArray[Any], kind: np.dtype[Any] = np.dtype("f8")) -> npt.NDArray[Any]:  # noqa: B008
        """Return values unpacked in a given type, ignoring missing values."""
        with np.errstate(over="ignore", invalid="ignore"):
            out: npt.NDArray[Any] = values.astype(kind) * kind.type(self.scale) + kind.type(self.offset)
        return out

    @classmethod
    def with_layout(cls, attributes: Mapping[str, Any], layout: Layout, *, where: str) -> Packing:
        """Return the packing of a sub-array: that of the file, or else that of the aggregation; they must agree."""
        own = cls.of(attributes, where=where)
        scale = 1.0 if layout.scale_factor is None else layout.scale_factor
        offset = 0.0 if layout.add_offset is None else layout.add_offset
        said = cls._checked(scale, offset, where)
        if own and said and own != said:
            raise FragmentMismatchError(
                f"{where}: the file is packed with scale_factor {own.scale} and add_offset {own.offset}, but the "
                f"aggregation says {said.scale} and {said.offset}; remove them from the aggregation or correct them"
            )
        return own or said

    @classmethod
    def _checked(cls, scale: float, offset: float, where: str) -> Packing:
        scale, offset = float(scale), float(offset)
        if not (math.isfinite(scale) and math.isfinite(offset) and scale):
            raise ConformError(
                f"{where}: scale_factor {scale} and add_offset {offset} do not describe a packing; both must be finite "
                "and the scale not 0"
            )
        return cls(scale, offset)


def read_as(dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the type as which stored values are read: with ``_Unsigned``, integers of the other signedness."""
    flag = str(attributes.get("_Unsigned", "")).strip().lower()
    if dtype.kind == "i" and flag == "true":
        return np.dtype(dtype.str.replace("i", "u"))
    if dtype.kind == "u" and flag == "false":
        return np.dtype(dtype.str.replace("u", "i"))
    return dtype


def as_meant(stored: npt.NDArray[Any], attributes: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return integers with the signedness that ``_Unsigned`` declares; everything else is unchanged."""
    meant = read_as(stored.dtype, attributes)
    return stored if meant == stored.dtype else stored.view(meant)


def check_declared(name: str | None, dtype: np.dtype[Any], packing: Packing, *, where: str) -> None:
    """Check that a sub-array has the type, packed or unpacked, that the aggregation declares."""
    if name is None:
        return
    if dtype.kind in "OUT" or (dtype.kind == "S" and dtype.itemsize > 1):
        if name in {"string", "str", "object", "O"} or _matches(name, dtype):
            return
    elif _matches(name, dtype) or (packing and any(_matches(name, np.dtype(t)) for t in ("f4", "f8"))):
        return
    raise FragmentMismatchError(
        f"{where}: the sub-array has type {dtype.name}, but the aggregation says {name!r}; correct its 'dtype' or name "
        "the right file"
    )


def _matches(name: str, dtype: np.dtype[Any]) -> bool:
    """Return whether `name` is a name of `dtype` in any byte order."""
    if name in _NAMES:
        return dtype.str[1:] in _NAMES[name]
    # NumPy would also accept descriptions of records and shapes.
    if not re.fullmatch(r"[<>=|]?[A-Za-z_]+[0-9]*", name):
        return False
    try:
        said = np.dtype(name)
    except TypeError:
        return False
    return said.newbyteorder("=") == dtype.newbyteorder("=")
