"""The JSON of NCA and CFA: the version of a text, from the names it gives, its keys, and whether it closes.

The version that the file names is tried first.  If the partitions do not fill the array in it, they may in another: the
examples of CFA 0.4 have locations with exclusive ends although its text says that they are inclusive, and the brackets
of ``part`` changed their meaning between 0.3 and 0.4.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cfagg.conventions import nca
from cfagg.conventions.marks import ROLES
from cfagg.conventions.partition_stream import BrokenJSONError
from cfagg.conventions.scope import Scope
from cfagg.conventions.versions import CFA_0_3, CFA_0_4, NCA_0_1, VERSIONS, Version
from cfagg.errors import CfaggError, ConventionError, RepairWarning
from cfagg.model import Aggregation

__all__ = ["DialectWarning", "parse_json", "version_of"]

Read = Callable[[Version], Aggregation]
Closing = tuple[Version, Aggregation, list[warnings.WarningMessage]]

_LOCATION = re.compile(r"location[\"']?\s*:\s*\[([\[\]0-9,\s]{,4096})").match
_INTEGER = re.compile(r"[0-9]{1,18}").findall

#: Keys that only one of CFA 0.3 and 0.4 has, or that differ in meaning between them.
_TOLD_APART = ("part", "directions", "reverse", "flip", "filename", "header_offset", "data_offset", "disk_length")

#: Characters at the ends of a long text that are searched for the names of keys.
_SEEN = 1 << 16


class DialectWarning(RepairWarning):
    """The text is ambiguous between two versions, or in another one than the file names."""


def version_of(attributes: Mapping[str, Any], named: str | None) -> tuple[Version, str]:
    """Return the version of ``nca_array`` or ``cfa_array`` and the reason, which is empty if it is ambiguous."""
    prefix = "nca" if "nca_array" in attributes else "cfa"
    if named in VERSIONS and VERSIONS[named].prefix == prefix:
        return VERSIONS[named], f"'Conventions' names {named}"
    text = str(attributes[f"{prefix}_array"])
    keys = text if len(text) <= 2 * _SEEN else text[:_SEEN] + text[-_SEEN:]
    if prefix == "cfa":
        if _has(keys, "directions", "pdirections", "lbpack", "scale_factor", "add_offset", "endian", "_FillValue"):
            return CFA_0_3, "its keys are those of CFA-0.3"
        return CFA_0_4, "its keys are those of CFA-0.4" if _has(keys, "reverse", "flip") else ""
    role = str(attributes.get("cf_role"))
    marked = ROLES.get(role, "NCA-0.1")
    later = _has(keys, "pmdimensions", "pmshape", "sub_array", "subarray", "base") or not _has(keys, "pdimensions")
    if marked == "NCA-0.1" and not later:
        return NCA_0_1, "its keys are those of NCA-0.1"
    by_keys = "NCA-0.2.2" if _has(keys, "subarray") else "NCA-0.2.1" if _has(keys, "sub_array") else "NCA-0.2"
    said = f"cf_role is {role!r}" if marked >= by_keys else f"its keys are those of {by_keys}"
    return VERSIONS[max(marked, by_keys)], said


def _has(text: str, *keys: str) -> bool:
    """Return whether a text has one of some keys, in quotes of either kind or with one missing."""
    quotes = [quote for quote in "\"'" if quote in text]
    return any(f"{key}{quote}" in text for quote in quotes for key in keys)


def parse_json(
    name: str, attributes: Mapping[str, Any], dtype: np.dtype[Any], scope: Scope, named: str | None, *, source: str = ""
) -> Aggregation:
    """Return the aggregation that ``nca_array`` or ``cfa_array`` describes; everything else is as for `nca.parse`."""
    version, why = version_of(attributes, named)
    array = f"{version.prefix}_array"
    subject = f"{source}: variable {name!r}" if source else f"variable {name!r}"
    text = nca.text_of(attributes[array], array, subject)
    given = {**attributes, array: text}

    def read(how: Version) -> Aggregation:
        return nca.parse(name, given, dtype, scope.sizes, private=scope.private, source=source, version=how)

    early = _half_open(text, given, scope, version, subject)
    if early is not None:
        # If a range with an exclusive end reaches the end of the array, inclusive ones exceed it and cannot close.
        found = _closing(read, [v for v in _others(version, text, named=bool(why)) if not v.inclusive])
        if found:
            return _latest(found, version, why, f"{subject}: {array}", early)
    try:
        made = read(version)
    except BrokenJSONError:
        raise
    except ConventionError as error:
        if not error.problems:
            raise
        found = _closing(read, [v for v in _others(version, text, named=bool(why)) if early is None or v.inclusive])
        if not found:
            raise
        gap = next((p for p in error.problems if "location" in p.where), error.problems[0])
        return _latest(found, version, why, f"{subject}: {array}", str(gap))
    if not why and '"part"' in text:
        other = _silently(read, CFA_0_3)
        if other is not None and other[0].partitions != made.partitions:
            said = (
                f"{subject}: {array} can be CFA-0.4 or CFA-0.3, in which the brackets of 'part' differ in meaning; "
                "read as CFA-0.4: name the version in 'Conventions'"
            )
            warnings.warn(said, DialectWarning, stacklevel=3)
    return made


def _half_open(text: str, attributes: Mapping[str, Any], scope: Scope, version: Version, subject: str) -> str | None:
    """Return the problem if the first or last location is out of range in a version with inclusive ranges."""
    if not version.inclusive:
        return None
    try:
        dims, shape = nca.dimensions(attributes.get(f"{version.prefix}_dimensions", ""), scope.sizes, subject, version)
    except CfaggError:
        return None  # reported when read
    for at in (text.find("location"), text.rfind("location")):
        found = None if at < 0 else _LOCATION(text, at)
        numbers = [] if found is None else [int(n) for n in _INTEGER(found[1])]
        if len(numbers) != 2 * len(dims):
            continue
        for d, (dim, n) in enumerate(zip(dims, shape, strict=True)):
            if 0 < n == numbers[2 * d + 1]:
                return f"location along {dim!r}: {numbers[2 * d : 2 * d + 2]} is outside dimension {dim!r} of size {n}"
    return None


def _others(version: Version, text: str, *, named: bool) -> list[Version]:
    """Return the other versions in which a text may be, oldest first, but the one that it names or shows last."""
    known = [v for v in VERSIONS.values() if v.prefix == version.prefix]
    if version.prefix == "nca":
        later = version if version.defaults else known[-1]
        # Without this key NCA 0.1 has no matrix.
        known = [*([NCA_0_1] if "pdimensions" in text else []), later.exclusive(), later]
    else:
        known = [CFA_0_3.exclusive(), CFA_0_3, CFA_0_4.exclusive(), CFA_0_4]
        if not _has(text, *_TOLD_APART):  # both read it the same way
            known = [v for v in known if v.name == (version if named else CFA_0_4).name]
    return sorted((v for v in known if v != version), key=lambda v: named and v.name == version.name)


def _closing(read: Read, known: list[Version]) -> list[Closing]:
    """Return the results of the versions in which a text closes, only the later of two with equal results."""
    found: list[Closing] = []
    for other in known:
        if (result := _silently(read, other)) is not None:
            found = [f for f in found if (f[1].grid, f[1].partitions) != (result[0].grid, result[0].partitions)]
            found.append((other, *result))
    return found


def _latest(found: list[Closing], version: Version, why: str, subject: str, gap: str) -> Aggregation:
    """Return the result of the latest of some versions, with a warning that names all."""
    _, made, said = found[-1]
    for warning in said:
        warnings.warn(str(warning.message), warning.category, stacklevel=4)
    names = [_described(f[0]) for f in found]
    chosen = "and is read so" if len(names) == 1 else f"and is read as {names[-1]}"
    text = (
        f"{subject} does not close as {version.name}{f' ({why})' if why else ''}: {gap}; "
        f"it closes as {' and as '.join(names)}, {chosen}"
    )
    warnings.warn(text, DialectWarning, stacklevel=4)
    return made


def _described(version: Version) -> str:
    """Return a version's name, and how the text departs from its specification."""
    if version.defaults and not version.inclusive:
        return f"{version.name} with the ends of locations excluded, as in its examples"
    return version.name


def _silently(read: Read, version: Version) -> tuple[Aggregation, list[warnings.WarningMessage]] | None:
    """Return the result of reading a text in one version, and its warnings; `None` if it does not close."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return read(version), said
        except ConventionError:
            return None
