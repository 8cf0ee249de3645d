"""Text in attributes and variables: CF section 2.2."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_table import attribute_table
from cfagg.cf.grid_mapping_parameters import TYPES
from cfagg.checking.context import Context
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.model.dataset import AttributeValue, Group, Variable

_REMEDY = "; normalize the text"

#: Only the beginning of longer texts is checked.
_LONGEST = 1 << 20


def _attributes(c: Context) -> Iterator[tuple[Group | Variable, str, AttributeValue]]:
    """Yield all attributes of all groups and variables."""
    for group in c.dataset.groups:
        for name, value in group.attributes.items():
            yield group, name, value
    for v in c.dataset.variables:
        for name, value in v.attributes.items():
            yield v, name, value


def _fault(text: str | bytes) -> str:
    """Return the error in a text, or an empty string if it is UTF-8 in normalization form C."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"byte 0x{text[error.start]:02x} at position {error.start} is not UTF-8; write the text as UTF-8"
    if text.isascii():
        return ""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "it holds bytes that are not UTF-8; write the text as UTF-8"
    text = text[:_LONGEST]
    if unicodedata.is_normalized("NFC", text):
        return ""
    at = next((n for n, (a, b) in enumerate(zip(text, unicodedata.normalize("NFC", text), strict=False)) if a != b), 0)
    return f"{text[at : at + 2]!r} at position {at} is not in Unicode normalization form C{_REMEDY}"


@rule("DOC002")
def text_is_normalized_utf8(c: Context) -> Iterator[Hit]:
    """Text is UTF-8 in Unicode normalization form C."""
    for where, name, value in _attributes(c):
        for text in value if isinstance(value, tuple) else (value,):
            fault = _fault(text) if isinstance(text, str | bytes) else ""
            if fault:
                owner = where.path if isinstance(where, Variable) else None if where.path == "/" else f"{where.path}/"
                known = name in attribute_table()
                fix = _normalized(owner, name, value) if isinstance(value, str) and fault.endswith(_REMEDY) else ()
                # The rule is about CF attributes, which may be those that CF defines or all in a CF dataset.
                note = "" if known else " (an attribute that CF does not define)"
                yield Hit(where, name, fault + note, None if known else "warning", fix)
                break
    if c.options.data:
        for v in c.dataset.variables:
            if v.is_text and v.dialect is None:
                fault = next((f for block in v.blocks() if (f := _fault_of_values(v, block))), "")
                if fault:
                    yield Hit(v, None, f"one of its values is wrong: {fault}")


def _normalized(owner: str | None, name: str, value: str) -> tuple[Edit, ...]:
    normalized = unicodedata.normalize("NFC", value) if len(value) <= _LONGEST else value
    if normalized == value:
        return ()
    return (Edit(owner, name, normalized, safe=False),)


def _fault_of_values(v: Variable, values: npt.NDArray[Any]) -> str:
    if v.kind == "char":
        try:
            raw = np.ascontiguousarray(values.astype("S1"))
        except (ValueError, TypeError):
            return ""
        if not raw.size or not (raw.view("u1") > 127).any():
            return ""
        width = raw.shape[-1] if raw.ndim else 1
        texts: list[Any] = [row.tobytes() for row in raw.reshape(-1, width)]
    else:
        texts = list(values.ravel())
    return next((f for t in texts if isinstance(t, str | bytes) and (f := _fault(t))), "")


@rule("DOC003", each=_attributes)
def an_attribute_is_one_string(c: Context, where: Group | Variable, name: str, value: AttributeValue) -> Iterator[Hit]:
    """A string attribute holds a single string."""
    if not isinstance(value, tuple) or len(value) == 1:
        return
    if name in attribute_table() or (name in TYPES and where in c.roles.grid_mappings):
        yield Hit(where, name, f"it is an array of {len(value)} strings; expected one string")
    else:
        note = "section 2.2 allows one-dimensional arrays, the conformance document does not"
        yield Hit(where, name, f"it is an array of {len(value)} strings: {note}", "warning")
