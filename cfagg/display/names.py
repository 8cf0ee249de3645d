"""Readable names of data types, and of variables in groups."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["dtype_name", "variable_path"]


def variable_path(group: str, name: str) -> str:
    """Return the path of a variable as seen from outside its group.

    >>> variable_path("/", "tas"), variable_path("/model/day", "tas")
    ('tas', '/model/day/tas')
    """
    return name if group == "/" else f"{group}/{name}"


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the readable name of a data type: ``float32``, ``string``, ``char``.

    >>> dtype_name(np.dtype(">f4")), dtype_name(np.dtype("S1")), dtype_name(np.dtype("f4, >i2"))
    ('float32', 'char', 'compound (f0: float32, f1: int16)')
    """
    if dtype.kind == "O":
        metadata = dict(dtype.metadata or {})
        if "name" in metadata:
            return str(metadata["name"])
        base: Any = metadata.get("vlen")
        return "string" if base is None else f"lists of {dtype_name(np.dtype(base))}"
    if dtype.kind == "S":
        return "char" if dtype.itemsize == 1 else f"char[{dtype.itemsize}]"
    if dtype.names:
        return f"compound ({', '.join(f'{name}: {dtype_name(dtype[name])}' for name in dtype.names)})"
    return str(dtype) if dtype.kind == "V" else dtype.name
