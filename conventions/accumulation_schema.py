"""The two JSON schemas of the accumulation convention, and documents checked against them.

Source: "Zarr-based Chunk-level Accumulation in Reduced Dimensions" 1.0 (ZEP 5).  The schemas are shipped as they stand
there, in ``schemas/``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from cfagg.conventions import limits
from cfagg.conventions.findings import Findings, shorten
from cfagg.errors import LimitError

__all__ = ["ARRAY", "GROUP", "KINDS", "is_dimension", "path_text", "schema", "validate"]

#: Names of the two schemas.
GROUP, ARRAY = "accumulation_group", "accumulation_array"

#: The keys that name arrays; every other key of the group attribute is a dimension.
KINDS = ("_DATA_UNWEIGHTED", "_DATA_WEIGHTED", "_WEIGHTS")

_DIMENSION = re.compile(rf"^(?!{'|'.join(KINDS)}).*$")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch


def schema(name: str) -> dict[str, Any]:
    """Return one of the two schemas as it is shipped.

    Parameters
    ----------
    name : {"accumulation_group", "accumulation_array"}
        Which one.

    Examples
    --------
    >>> schema("accumulation_array")["required"]
    ['_ARRAY_DIMENSIONS', '_ACCUMULATION_STRIDE']
    """
    text = resources.files("cfagg.conventions").joinpath("schemas", f"{name}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def _validator(name: str) -> Any:
    """Return the validator of a schema; made once, since it costs as much as a thousand uses."""
    from jsonschema import Draft7Validator

    return Draft7Validator(schema(name))


def validate(document: Any, name: str, findings: Findings) -> None:
    """Note everything that breaks a schema.

    Parameters
    ----------
    document : JSON value
        Attributes; only their part that the schema speaks of is looked at.
    name : {"accumulation_group", "accumulation_array"}
        The schema.
    findings : Findings
        Collects the problems.

    Raises
    ------
    LimitError
        A document that is nested deeper, or has more parts, than any true one; nothing of it is looked at.

    Examples
    --------
    >>> findings = Findings("tas")
    >>> validate({"_ARRAY_DIMENSIONS": ["time"], "_ACCUMULATION_STRIDE": [0.5]}, "accumulation_array", findings)
    >>> print(*findings.problems)
    _ACCUMULATION_STRIDE[0]: integer expected, found 0.5
    """
    loaded = _validator(name)
    if isinstance(document, Mapping):
        document = {key: document[key] for key in loaded.schema["properties"] if key in document}
    _bound(document, findings.subject)
    for error in sorted(loaded.iter_errors(document), key=lambda e: [str(step) for step in e.absolute_path]):
        where = path_text(error.absolute_path)
        for place, message in _told(error, where):
            findings.problem(place, message)


def _bound(document: Any, subject: str) -> None:
    """Raise `LimitError` for a document that would cost much to look at; takes no recursion itself."""
    level, depth, count = [document], 0, 0
    while level:
        if depth > limits.MAX_DEPTH + 2:
            raise LimitError(f"{subject}: accumulation attributes nest deeper than {limits.MAX_DEPTH} dimensions")
        below: list[Any] = []
        for value in level:
            if isinstance(value, (dict, list)):
                below.extend(value.values() if isinstance(value, dict) else value)
            if count + len(below) > 4 * limits.MAX_COMBINATIONS:
                raise LimitError(
                    f"{subject}: accumulation attributes have more than {4 * limits.MAX_COMBINATIONS} parts; "
                    f"no array needs as many (the cap is cfagg.conventions.limits.MAX_COMBINATIONS)"
                )
        count += len(below)
        level, depth = below, depth + 1


def _told(error: Any, where: str) -> Iterable[tuple[str, str]]:
    """Yield place and message of one error of the validator, in words of ours; its own quote whole documents."""
    if error.validator == "type":
        yield where, f"{error.validator_value} expected, found {shorten(error.instance)}"
    elif error.validator == "required":
        for key in error.validator_value:
            # The validator gives one error per key; each says its own.
            if key not in error.instance and error.message.startswith(repr(key)):
                yield key, "missing"
    elif error.validator == "additionalProperties":
        for key in error.instance:
            if key not in error.schema.get("properties", {}) and not any(
                re.search(pattern, key) for pattern in error.schema.get("patternProperties", {})
            ):
                yield path_text([*error.absolute_path, key]), _not_a_dimension(key)
    else:  # a keyword that today's schemas do not use
        yield where, f"breaks the rule {error.validator!r} of its JSON schema"


def is_dimension(key: str) -> bool:
    """Return whether the schema takes a key for the name of a dimension.

    >>> is_dimension("time"), is_dimension("_WEIGHTS2")
    (True, False)
    """
    return _DIMENSION.search(key) is not None


def _not_a_dimension(key: str) -> str:
    kind = next((k for k in KINDS if key.startswith(k)), None)
    if kind == key:
        return "names an array of no dimension; it belongs inside an object that is named after a dimension"
    if kind:
        return f"no dimension may have a name that begins with {kind}"
    return "no dimension may have a line break in its name"


def path_text(steps: Iterable[str | int]) -> str:
    """Return a key path as text.

    >>> path_text(["_ACCUMULATION_GROUP", "time", "a b", 3])
    "_ACCUMULATION_GROUP.time['a b'][3]"
    """
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN(step) and len(step) <= 60:
            text += f".{step}" if text else step
        else:
            text += f"[{shorten(step)}]"
    return text
