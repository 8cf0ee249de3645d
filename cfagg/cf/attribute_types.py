"""The types of attributes in words, and whether they match the types of their variables."""

from __future__ import annotations

from typing import Literal

import numpy as np

from cfagg.findings.versions import Version
from cfagg.model.dataset import AttributeValue, Variable

__all__ = ["Holds", "faulty_text", "holds", "said", "said_type", "same_type"]

#: The kind of an attribute: text, several texts, integers, reals, text that is not UTF-8, or one netCDF does not have.
Holds = Literal["text", "texts", "integer", "real", "bytes", "other"]


def holds(value: AttributeValue) -> Holds:
    """Return the kind of an attribute."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, tuple):
        return "texts"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iu":
            return "integer"
        return "real" if value.dtype.kind == "f" else "other"
    return "other"


def faulty_text(value: AttributeValue, version: Version) -> bool:
    """Return whether an attribute is several texts or not UTF-8, which other rules report in this version of CF.

    >>> faulty_text(("a", "b"), Version(1, 13)), faulty_text(("a", "b"), Version(1, 11))
    (True, False)
    """
    return isinstance(value, tuple | bytes) and version >= Version(1, 12)


def said(value: AttributeValue, *, typed: bool = True) -> str:
    """Return the type of an attribute in words: ``text``, ``int32``, ``2 values of float64``; widths if `typed`."""
    kind = holds(value)
    if kind == "text":
        return "text"
    if kind == "texts":
        return f"an array of {len(value)} strings"  # type: ignore[arg-type]
    if kind == "bytes":
        return "text that is not UTF-8"
    if not isinstance(value, np.ndarray):
        if value is None:
            return "no value"
        # Other values describe themselves, such as those of user-defined types.
        return f"a {type(value).__name__}" if type(value).__module__ == "builtins" else str(value)
    one = value.dtype.name if typed else {"integer": "an integer", "real": "a real number"}.get(kind, value.dtype.name)
    if value.size == 1:
        return one
    many = one if typed else {"integer": "integers", "real": "real numbers"}.get(kind, one)
    return f"{value.size} values of {many}" if typed else f"{value.size} {many}"


def said_type(v: Variable) -> str:
    """Return the type of a variable in words."""
    return v.kind if v.is_text or v.kind == "other" else v.dtype.name


def same_type(v: Variable, value: AttributeValue, *, typed: bool = True) -> bool:
    """Return whether an attribute has its variable's type; ``_Unsigned`` and types that JSON leaves open match."""
    kind = holds(value)
    if v.kind == "other" or kind in ("bytes", "other"):
        return True
    if v.is_text:
        return kind in ("text", "texts")
    if not isinstance(value, np.ndarray):
        return False
    if not typed:
        return v.kind == "float" or kind == "integer"
    one, other = value.dtype, v.dtype
    if "_Unsigned" in v.attributes and kind == "integer" and v.kind == "integer":
        return one.itemsize == other.itemsize
    return one.kind == other.kind and one.itemsize == other.itemsize
