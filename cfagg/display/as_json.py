"""The documented JSON form of the output of `cfagg show`.

The members are the fields of the classes in `cfagg.display.summary`, with the same names; lists that may be long are
a `Listing`, an object with ``count``, ``first`` and ``last``.  Within one ``form_version``, members are only added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from cfagg.display.summary import FileSummary, ReferenceSummary

__all__ = ["FORM_VERSION", "dump", "encode", "file_json", "form_json", "forms_json", "references_json"]

#: Incremented when a member is renamed, removed or changes its meaning.
FORM_VERSION = 1


def form_json(form: str, members: Mapping[str, Any]) -> str:
    """Return the strict JSON that a command prints: its name, the version of the form, and encoded members."""
    return dump(_of_form(form, members))


def forms_json(form: str, items: Iterable[Mapping[str, Any]]) -> str:
    """Return the strict JSON of a command that prints a list of objects, each with its form."""
    return dump([_of_form(form, members) for members in items])


def _of_form(form: str, members: Mapping[str, Any]) -> dict[str, Any]:
    return {"form": f"cfagg {form}", "form_version": FORM_VERSION, **encode(members)}


def file_json(summary: FileSummary) -> str:
    """Return a file's summary as strict JSON in ASCII; numbers that JSON lacks are ``"NaN"`` and ``"Infinity"``."""
    return form_json("show", _members(summary))


def references_json(path: str, found: Iterable[tuple[str, Iterable[ReferenceSummary]]]) -> str:
    """Return the references of every aggregation as strict JSON."""
    variables = [{"variable": name, "references": each} for name, each in found]
    return form_json("show --references", {"path": path, "variables": variables})


def encode(value: Any) -> Any:
    """Return a value of a summary or of an attribute in a form that strict JSON can represent."""
    if is_dataclass(value) and not isinstance(value, type):
        return _members(value)
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        # The decimal digits of the float32 itself, not those of its float64 value.
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
    # In ASCII no control character reaches a terminal, and lone surrogates of a file name survive.
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=True).replace("\x7f", "\\u007f")
