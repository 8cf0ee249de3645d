"""Flags and ancillary variables: CF sections 3.4 and 3.5."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cfagg.cf.attribute_types import faulty_text
from cfagg.cf.cell_methods import parse
from cfagg.checking.context import Context
from cfagg.checking.rules.coordinates import beyond
from cfagg.checking.rules.groups import left_to_search
from cfagg.checking.spans import coordinate_span
from cfagg.findings.finding import Edit, Hit
from cfagg.findings.rule import rule
from cfagg.findings.versions import Version
from cfagg.model.dataset import LONGEST, Variable

_WORD = re.compile(r"[A-Za-z0-9_.+@-]+")
_WIDE_WORD = re.compile(r"[\w.+@-]+")


def _count(v: Variable, attribute: str, words: int) -> int | None:
    """Return the number of values in an attribute of flags, or `None` if it is neither numbers nor text.

    The values for a character variable may be given with or without blanks between the characters.
    """
    value = v.attributes.get(attribute)
    if isinstance(value, np.ndarray):
        return int(value.size)
    if isinstance(value, tuple):
        return len(value)
    if isinstance(value, str) and v.is_text:
        return words if words in (len(value), len(value.split()), 1) else len(value.split())
    return None


def _type_problem(c: Context, v: Variable, attribute: str) -> Iterator[Hit]:
    """Yield a hit if an attribute of flags and its variable differ in type."""
    value = v.attributes[attribute]
    if v.kind == "other":
        return
    if v.is_text:
        if not isinstance(value, str | tuple | bytes):
            yield Hit(v, attribute, f"{attribute} holds numbers, the variable text; expected the same type")
        return
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        yield Hit(v, attribute, f"{attribute} does not hold numbers; expected {v.dtype.name}, as for the variable")
        return
    same = (value.dtype.kind, value.dtype.itemsize) == (v.dtype.kind, v.dtype.itemsize)
    if not c.dataset.typed:
        # JSON does not record widths, and writes whole real numbers as integers.
        same = v.kind == "float" or value.dtype.kind in "iu"
    if not same:
        with np.errstate(all="ignore"):
            cast = value.astype(v.dtype)
        exact = bool(np.array_equal(cast, value))
        message = f"{attribute} is of type {value.dtype.name}, its variable of {v.dtype.name}; expected the same type"
        hit = Hit(v, attribute, message)
        yield hit.mended(cast, safe=True) if exact else hit


@rule("FLG001", each="flag_values")
def flag_values_are_of_the_type(c: Context, v: Variable) -> Iterator[Hit]:
    """``flag_values`` has the type of its variable."""
    yield from _type_problem(c, v, "flag_values")


@rule("FLG002", each="flag_values")
def flag_values_have_meanings(_: Context, v: Variable) -> Iterator[Hit]:
    """``flag_values`` comes with ``flag_meanings``."""
    if "flag_meanings" not in v.attributes:
        yield Hit(v, "flag_meanings", "flag_values without flag_meanings; add a word for each value")


@rule("FLG003", each="flag_meanings")
def flag_meanings_are_words(c: Context, v: Variable) -> Iterator[Hit | str]:
    """``flag_meanings`` is text: words of letters, digits and ``_ - . + @``, separated by blanks."""
    value = v.attributes["flag_meanings"]
    if not isinstance(value, str):
        if not isinstance(value, bytes) and not faulty_text(value, c.version):
            yield ("flag_meanings is not one text; expected words separated by blanks")
        return
    words = v.words("flag_meanings")
    wrong = [w for w in words if not _WORD.fullmatch(w)]
    if not wrong:
        return
    if all(_WIDE_WORD.fullmatch(w) for w in wrong):
        message = f"{wrong[0][:80]!r} in flag_meanings has letters beyond A to Z, which not all programs accept"
        yield Hit(v, "flag_meanings", message, severity="warning")
        return
    bad = next(w for w in wrong if not _WIDE_WORD.fullmatch(w))
    signs = "".join(sorted({ch for ch in bad if not _WIDE_WORD.fullmatch(ch)}))
    plain = " ".join(re.sub(r"[^\w.+@-]+", "_", w.strip(",;")) for w in words)
    whole = len(value) <= LONGEST
    yield Hit(
        v,
        "flag_meanings",
        f"{bad[:80]!r} in flag_meanings has {signs[:20]!r}; words are of letters, digits and _ - . + @, with "
        "blanks between them",
        # CF-1.4 requires words, but does not specify their characters.
        None if c.version >= Version(1, 5) else "warning",
        fix=(Edit(v.path, "flag_meanings", plain, safe=False),) if whole else (),
    )


def _counts_differ(v: Variable, attribute: str) -> Iterator[Hit]:
    meanings = v.text("flag_meanings")
    if meanings is None or not all(_WIDE_WORD.fullmatch(w) for w in v.words("flag_meanings")):
        return  # reported by the rule on the words
    words = len(meanings.split())
    count = _count(v, attribute, words)
    if count is not None and count != words:
        yield Hit(v, attribute, f"{attribute} has {count} values, flag_meanings {words} words; expected as many")


@rule("FLG004", each="flag_values")
def as_many_values_as_meanings(_: Context, v: Variable) -> Iterator[Hit]:
    """There are as many ``flag_values`` as words in ``flag_meanings``."""
    yield from _counts_differ(v, "flag_values")


@rule("FLG005", each="flag_masks")
def as_many_masks_as_meanings(_: Context, v: Variable) -> Iterator[Hit]:
    """There are as many ``flag_masks`` as words in ``flag_meanings``."""
    if "flag_meanings" in v.attributes:
        yield from _counts_differ(v, "flag_masks")
    elif "flag_values" not in v.attributes:
        yield Hit(v, "flag_meanings", "flag_masks without flag_meanings; add a word for each mask")


@rule("FLG006", each="flag_masks")
def masks_are_bits_of_the_type(c: Context, v: Variable) -> Iterator[Hit | str]:
    """A variable with ``flag_masks`` has a bit field type, and the masks have the same type."""
    if v.kind in ("float", "string"):
        name = v.dtype.name if v.kind == "float" else "string"
        yield (f"flag_masks on a variable of type {name}; expected an integer type or char")
    else:
        yield from _type_problem(c, v, "flag_masks")


@rule("FLG007", each="flag_masks")
def masks_are_not_zero(_: Context, v: Variable) -> Iterator[str]:
    """No mask is zero."""
    masks = v.numbers("flag_masks")
    if masks is not None and (masks == 0).any():
        yield ("flag_masks holds 0, which selects no bit; expected masks other than zero")


@rule("FLG008", each="flag_values")
def flag_values_are_distinct(_: Context, v: Variable) -> Iterator[Hit | str]:
    """No flag value occurs twice."""
    values = v.attributes["flag_values"]
    if isinstance(values, str):
        listed: list[Any] = values.split() if v.is_text else []
        if len(listed) == 1 and len(v.words("flag_meanings")) == len(values):
            listed = list(values)  # characters without blanks between them
    elif isinstance(values, np.ndarray):
        listed = values.tolist()
    else:
        listed = list(values) if isinstance(values, tuple) else []
    twice = [value for value, count in Counter(listed).items() if count > 1]
    if not twice:
        return
    masks = v.numbers("flag_masks")
    if masks is not None and len(masks) == len(listed):
        pairs = Counter(zip(masks.tolist(), listed, strict=True))
        if max(pairs.values()) == 1:
            message = (
                f"flag_values holds {twice[0]!r} more than once, each time under another mask; strictly, "
                "values must be distinct, though the masks distinguish these"
            )
            yield Hit(v, "flag_values", message, severity="warning")
            return
    yield (f"flag_values holds {twice[0]!r} more than once; expected distinct values")


@rule("FLG009", each="flag_masks")
def masks_select_the_bits_of_values(_: Context, v: Variable) -> Iterator[Hit]:
    """A flag value has no bit that its mask does not select."""
    masks, values = _bits(v, "flag_masks"), _bits(v, "flag_values")
    if masks is None or values is None or masks.size != values.size:
        return
    lost = np.flatnonzero((masks & values) != values)
    if lost.size:
        at = int(lost[0])
        yield Hit(
            v, "flag_values", f"flag value {int(values[at])} has bits that its mask {int(masks[at])} does not select"
        )


def _bits(v: Variable, attribute: str) -> npt.NDArray[Any] | None:
    numbers = v.numbers(attribute)
    if numbers is None or numbers.dtype.kind not in "iu":
        return None
    return numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.uint64).view(np.uint64)


@rule("ANC001", each="ancillary_variables")
def ancillary_variables_exist(c: Context, v: Variable) -> Iterator[str]:
    """``ancillary_variables`` is text that names existing variables."""
    value = v.attributes["ancillary_variables"]
    if not isinstance(value, str):
        if c.version < Version(1, 12) or not isinstance(value, tuple | bytes):
            yield ("ancillary_variables is not one text; expected names of variables")
        return
    norms = _norms(v)
    for reference in c.references_of(v, "ancillary_variables"):
        lost = reference.target is None and not left_to_search(c, v, reference.name)
        if lost and reference.name not in c.external and reference.name not in norms:
            hint = "names are separated by blanks" if "," in reference.name else "correct the name or add the variable"
            yield (f"there is no variable {reference.name[:80]!r}; {hint}")


@rule("ANC002", each="ancillary_variables")
def ancillary_variables_span_no_more(c: Context, v: Variable) -> Iterator[str]:
    """An ancillary variable has no dimension that its variable does not have."""
    norms = _norms(v)
    span = None
    for reference in c.references_of(v, "ancillary_variables"):
        target = reference.target
        if target is None or reference.name in norms:
            continue  # norms of anomalies have separate rules
        span = coordinate_span(c, v) if span is None else span
        dimensions = target.dimensions[:-1] if target.kind == "char" else target.dimensions
        foreign = [d.name for d in beyond(c, span, dimensions)]
        if foreign:
            yield (
                f"ancillary variable {target.path!r} has the dimension {foreign[0]!r}; expected only those of its "
                f"data variable ({', '.join(v.dims)})"
            )


def _norms(v: Variable) -> set[str | None]:
    """Return the names of the norms of anomalies in ``cell_methods``."""
    return {e.norm for e in parse(v.text("cell_methods") or "").entries if e.norm}
