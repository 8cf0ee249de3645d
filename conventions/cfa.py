"""CFA 0.3 and 0.4, and NCA 0.2: aggregations in JSON with later names than those of NCA 0.1.

What is said is the same under other keys.  So the text is rewritten with the keys of NCA 0.1, batch by batch, and read
as that: ranges of ``location`` and ``part`` with inclusive ends become half-open, lists of reversed dimensions become
directions, file names get their ``base``.

Sources: NCA 0.2 to 0.2.2 and CFA 0.3 and 0.4 (``cfa_attributes``).  The examples of CFA 0.4 have half-open locations
although its text says inclusive, and the brackets of ``part`` changed their meaning between 0.3 and 0.4: of several
readings the first counts whose partitions fill the array.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from cfagg.conventions import nca, partition_stream, tolerant_json
from cfagg.conventions.nca_shapes import Private
from cfagg.errors import ConventionError, Problem
from cfagg.model import Aggregation

__all__ = ["is_later", "parse_array"]

#: Keys of partitions and sub-arrays and what NCA 0.1 calls them.
_PARTITION = {"pdimensions": "dimensions", "punits": "units", "pcalendar": "calendar", "pdirections": "directions"}
_SUBARRAY: dict[Any, str] = {"pshape": "shape", "pdtype": "dtype"}

#: Keys of sub-arrays that change no place or shape.
_LEFT_OUT = frozenset({"endian", "_FillValue"})

_LATER = re.compile(r"pmdimensions|pmshape|sub_?array|pdirections|punits|pcalendar")
_BRACKETS = re.compile(r"[\[(][^\[\]()]*[\])]")
_WHERE = ((".data", ".subarray"), (".dimensions", ".pdimensions"), (".units", ".punits"), (".calendar", ".pcalendar"))


@dataclass(frozen=True)
class _Reading:
    """One way to understand ranges."""

    #: Whether the second number of a range in ``location`` belongs to it.
    inclusive: bool
    #: Whether square brackets are ranges and round ones lists, as in CFA 0.4.
    swapped: bool


def is_later(text: str) -> bool:
    """Return whether a text has keys that NCA 0.1 does not know."""
    return _LATER.search(text) is not None


def parse_array(
    name: str,
    attributes: Mapping[str, Any],
    dtype: npt.DTypeLike,
    sizes: Mapping[str, int],
    *,
    private: Private | None = None,
    source: str = "",
) -> Aggregation:
    """Return the aggregation that ``cfa_array`` or a later ``nca_array`` describes; all else as of `nca.parse`."""
    prefix = "cfa" if "cfa_array" in attributes or "cfa_dimensions" in attributes else "nca"
    subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
    others = {k: v for k, v in attributes.items() if k not in (f"{prefix}_array", f"{prefix}_dimensions")}
    dims = attributes.get(f"{prefix}_dimensions", "")
    text = attributes.get(f"{prefix}_array")
    if not isinstance(text, str):
        raise ConventionError(
            f"{subject}: the attribute {prefix}_array should be JSON text; found {type(text).__name__}"
        )
    text, head = _strict(text, prefix, subject)
    readings = [_Reading(i, s) for s in ((prefix == "cfa"), (prefix != "cfa")) for i in (True, False)]
    if '"part"' not in text:
        readings = readings[:2]
    worst: ConventionError | None = None
    shape = [int(sizes.get(d, 0)) for d in dims.split()] if isinstance(dims, str) else []
    for reading in readings:
        rewritten = _rewritten(text, head, reading, dict(zip(dims.split(), shape, strict=True)) if shape else {})
        given = {**others, "nca_dimensions": dims, "nca_array": rewritten}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                made = nca.parse(name, given, dtype, sizes, private=private, source=source)
            except ConventionError as error:
                if worst is None or len(error.problems) < len(worst.problems):
                    worst = error
                continue
        for warning in said:
            warnings.warn(_named(str(warning.message), prefix), warning.category, stacklevel=2)
        return made
    assert worst is not None  # noqa: S101 - every reading that is not an error has returned
    problems = [Problem(_place(p.where), _named(p.message, prefix)) for p in worst.problems]
    raise ConventionError(_named(worst.message, prefix), problems)


def _strict(text: str, prefix: str, subject: str) -> tuple[str, dict[str, Any]]:
    """Return strict JSON and its keys but the partitions."""
    try:
        try:
            return text, partition_stream.load(text, lambda *_: None)
        except partition_stream.NotJSONError as error:
            strict = error.message
        try:
            text, repairs = tolerant_json.repair(text)
        except ConventionError as error:
            raise partition_stream.BrokenJSONError(
                f"{subject}: {prefix}_array is not JSON ({strict}), "
                f"and has misprints that are not repaired: {error.message}"
            ) from None
        for repair in repairs:
            message = f"{subject}: {prefix}_array was repaired: {repair.message}"
            warnings.warn(message, tolerant_json.MisprintWarning, stacklevel=3)
        return text, partition_stream.load(text, lambda *_: None)
    except ConventionError as error:
        if error.message.startswith(subject):
            raise
        raise type(error)(f"{subject}: {prefix}_array: {error.message}", error.problems) from None


def _rewritten(text: str, head: Mapping[str, Any], reading: _Reading, sizes: Mapping[str, int]) -> str:
    """Return the JSON with the keys of NCA 0.1."""
    texts: list[str] = []
    pdims = head.get("pmdimensions", [])
    width = len(pdims) if isinstance(pdims, list) else 0
    base = head.get("base")

    def take(elements: list[Any], first: int, before: dict[str, Any]) -> None:
        del first, before
        records = [_record(e, reading, base, width, list(sizes.values())) for e in elements]
        texts.append(json.dumps(records)[1:-1])

    partition_stream.load(text, take)
    made: dict[str, Any] = {"directions": head.get("directions", dict.fromkeys(sizes, True) or True)}
    made["pdimensions"] = pdims
    made["pshape"] = head.get("pmshape", [1] * width)
    made |= {k: v for k, v in head.items() if k not in ("directions", "pmdimensions", "pmshape", "base", "Partitions")}
    start = json.dumps(made)[:-1]
    if type(head.get("Partitions")) is not range:
        return start + (f', "Partitions": {json.dumps(head["Partitions"])}}}' if "Partitions" in head else "}")
    return f'{start}, "Partitions": [{", ".join(filter(None, texts))}]}}'


def _record(record: Any, reading: _Reading, base: Any, width: int, shape: list[int]) -> Any:
    """Return one partition with the keys of NCA 0.1."""
    if type(record) is not dict:
        return record
    made: dict[str, Any] = {"index": [0] * width, "location": [[0, n] for n in shape]}
    for key, value in record.items():
        if key == "location":
            made["location"] = _half_open(value) if reading.inclusive else value
        elif key in ("subarray", "sub_array", "data"):
            made["data"] = _subarray(value, base)
            if type(value) is dict and "format" in value:
                made["format"] = value["format"]
        elif key in ("reverse", "flip") and type(value) is list and {str}.issuperset(map(type, value)):
            made["directions"] = dict.fromkeys(value, False)
        elif key == "part" and type(value) is str:
            made["part"] = _BRACKETS.sub(lambda m: _part(m[0], reading.swapped), value)
        else:
            made[_PARTITION.get(key) or key] = value
    return made


def _half_open(location: Any) -> Any:
    """Return ranges with exclusive ends."""
    if type(location) is not list:
        return location
    return [
        [pair[0], pair[1] + 1] if type(pair) is list and len(pair) == 2 and type(pair[1]) is int else pair
        for pair in location
    ]


def _subarray(value: Any, base: Any) -> Any:
    """Return the description of a sub-array with the keys of NCA 0.1."""
    if type(value) is not dict:
        return value
    made = {_SUBARRAY.get(k, k): v for k, v in value.items() if k not in _LEFT_OUT and k not in ("format", "varid")}
    if "ncvar" not in made and type(value.get("varid")) is int:
        made["ncvar"] = f"#{value['varid']}"  # by its number: no name begins like that
    file = made.get("file")
    if file == "":
        del made["file"]
    elif type(file) is str and type(base) is str and base:
        made["file"] = f"{base.rstrip('/')}/{file}" if base != "/" else f"/{file}"
    return made


def _part(bracket: str, swapped: bool) -> str:
    """Return one bracket of a part as in NCA 0.1: round with an exclusive end, or square as a list."""
    body = bracket[1:-1]
    if (bracket[0] == "[") is not swapped:
        return f"[{body}]"
    numbers = body.split(",")
    try:
        start, stop, step = (int(n) for n in numbers)
    except ValueError:
        return f"({body})"
    return f"({start}, {stop + (1 if step > 0 else -1)}, {step})"


def _named(message: str, prefix: str) -> str:
    """Return a message of the reader of NCA 0.1 in the words of the text that was read."""
    for old, new in (
        ("nca_", f"{prefix}_"),
        ("NCA 0.1", "NCA and CFA"),
        ("pdimensions", "pmdimensions"),
        ("pshape", "pmshape"),
    ):
        message = message.replace(old, new)
    return message


def _place(where: str) -> str:
    """Return a key path in the words of the text that was read."""
    if not where.startswith("Partitions"):
        return {"pdimensions": "pmdimensions", "pshape": "pmshape"}.get(where, where)
    return next((where.replace(old, new, 1) for old, new in _WHERE if old in where), where)
