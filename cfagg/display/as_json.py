"""The documented JSON form of what `cfagg show` prints.

The members are the fields of the classes in `cfagg.display.summary`, by their names; lists that may be long are
`Listing`: an object with ``count``, ``first`` and ``last``.  The form only grows within one ``form_version``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cfagg.display.summary import FileSummary, ReferenceSummary

__all__ = ["FORM_VERSION", "dump", "encode", "file_json", "form_json", "references_json"]

#: Raised when a member is renamed, removed or changes its meaning.
FORM_VERSION = 1


def form_json(form: str, members: Mapping[str, Any]) -> str:
    """Return the strict JSON that a command prints: its name, the version of its form, and encoded members."""
    return dump({"form": f"cfagg {form}", "form_version": FORM_VERSION, **encode(members)})


def file_json(summary: FileSummary) -> str:
    """Return a file's summary as strict JSON in ASCII; numbers that JSON lacks are ``"NaN"`` and ``"Infinity"``."""
    return form_json("show", _members(summary))


def references_json(path: str, found: Iterable[tuple[str, Iterable[ReferenceSummary]]]) -> str:
    """Return the references of every aggregation as strict JSON."""
    variables = [{"variable": name, "references": each} for name, each in found]
    return form_json("show --references", {"path": path, "variables": variables})


def encode(value: Any) -> Any:
    """Return a value of a summary or of an attribute as what strict JSON can hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return _members(value)
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        # Decimal digits of float32 as they are written, not those of its float64 neighbour.
        if value.dtype.kind == "f" and value.dtype.itemsize < 8:
            return [encode(x) for x in np.asarray(value)] if value.ndim else encode(float(str(value[()])))
        return encode(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Iterable):
        return [encode(v) for v in value]
    return str(value)


def _members(value: Any) -> dict[str, Any]:
    return {f.name: encode(getattr(value, f.name)) for f in fields(value)}


def dump(value: Any) -> str:
    r"""Return strict JSON in ASCII."""
    # ASCII: no control character reaches a terminal, and lone surrogates of a file name survive.
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=True).replace("\x7f", "\\u007f")
