"""Names of data types in netCDF and NumPy."""

from __future__ import annotations

import re

import numpy as np

__all__ = ["is_known", "numpy_dtype"]

#: netCDF's names take precedence if NumPy uses the same word for another type: ``float`` has 32 bits.
_NETCDF = {
    "byte": "i1",
    "ubyte": "u1",
    "char": "S1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "integer": "i4",
    "long": "i4",
    "uint": "u4",
    "int64": "i8",
    "uint64": "u8",
    "float": "f4",
    "real": "f4",
    "double": "f8",
}
_NUMPY = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
_CODE = re.compile(r"[<>=|]?(?:b1|[iu][1248]|f[248]|[SU][0-9]{1,6})").fullmatch


def numpy_dtype(name: str) -> np.dtype[np.generic] | None:
    """Return the type with a name of netCDF or NumPy or a code such as ``<f8``, or `None` for netCDF's ``string``."""
    if name == "string":
        return None
    if name in _NETCDF:
        return np.dtype(_NETCDF[name])
    if name in _NUMPY or _CODE(name):
        return np.dtype(name)
    raise KeyError(name)


def is_known(name: str) -> bool:
    """Return whether `numpy_dtype` understands a name."""
    return name == "string" or name in _NETCDF or name in _NUMPY or _CODE(name) is not None
