"""Advice on how two members that are apart could be joined: by an option, or by a change in the files."""

from __future__ import annotations

from typing import Any

from cfagg.cf.calendars import REFORMED
from cfagg.cf.joining.options import Options
from cfagg.cf.joining.samples import FEATURES

__all__ = ["remedy_of"]

_IF_EQUAL = ", on_overlap='equal' if their values are equal"

#: By rule; `{what}` is the property that differs.
_BY_RULE = {
    "attribute": (
        "aggregate each on its own, make an axis of them with dimension={what!r}, or give both the same {what}"
    ),
    "equal": (
        f"on_overlap='first' or on_overlap='last' takes one of them{_IF_EQUAL}; for members of an ensemble, or times "
        "that no coordinate gives, dimension= names the attribute that tells them apart"
    ),
    "axes": (
        "add the files that fill the array between them, or leave out those that do not fill it; if one coordinate "
        "follows from the other, as a season from its time, name only one of them in the attribute coordinates"
    ),
    "not asked for": "name {what} in axes=, or leave that option out",
    "cells": "correct {what} in one of the files; rtol= and atol= set how far they may differ",
    "cells overlap": "leave out overlap=False, or correct the bounds",
    "gap": "leave out contiguous=True, or add the files in between; cells without bounds need them",
    "features": "put all samples of a feature into one file, or all features into arrays with a dimension for them",
    "incomplete": "add the files that are missing, or leave out those that fill only a part along another axis",
}

#: By column of the signature.
_BY_COLUMN = {
    "identity": (
        "give both the same standard_name, or name an attribute in which they agree by field_identity=, such as "
        "field_identity='long_name'"
    ),
    "units": "give both units that convert into each other",
    "cell methods": "give both the same cell_methods",
    "axes": "give both the same kinds of coordinates: standard names, units, calendars, and bounds for both or neither",
    "other coordinates and ancillary variables": "add to one what only the other has, or take its name out of the "
    "attribute, such as coordinates or ancillary_variables",
    FEATURES: "put each feature into one file alone, correct counts and indices that do not match its samples, and "
    "give files with more than 4 million indices counts instead",
    "coordinates that do not exist": "add them, or take their names out of the attribute coordinates",
    "names of attributes": "leave out exist_all=True or equal_all=True, or name the attributes in ignore=",
    "type": "text, numbers and enumerations of other names or numbers are never one array: give them different names, "
    "or write all as one type",
}

_NO_COORDINATE, _NO_NAME = "no coordinate with a standard name", "has no standard name"

#: If variables have both problems.
_NO_NAMES = "relaxed_identities=True uses names instead, or |give it and its coordinate standard names"

#: By a part of the problem of variables that cannot be joined; before the bar an option that helps if both have it.
_BY_PROBLEM = (
    ("has no attribute", "give it that attribute, or leave out field_identity="),
    (_NO_COORDINATE, "relaxed_identities=True uses names instead, or |give its coordinate a standard name"),
    (_NO_NAME, "relaxed_identities=True uses its long name, or its name, instead, or |give it a standard name"),
    ("has no units", "relaxed_units=True, or |give it units"),
    ("has no elements", "leave the file out"),
    ("occurs twice", "give the second one a name of its own"),
    ("type is defined by its file", "write it as numbers or text"),
    ("ragged array", "give its features names by a variable with cf_role, and counts or indices that are integers"),
    ("subsampled", "write the coordinates in full"),
    ("are not bounds of", "correct the attribute bounds, or the dimensions of what it names"),
)  # fmt: skip


_REFORM = "; times of the two calendars are joined if no date, including bounds, is before 15 October 1582"


def remedy_of(rule: str, what: str, a: Any, b: Any, options: Options) -> str:
    """Return how two members could be joined, given that one has `a` and the other `b` of `what`.

    >>> remedy_of("signature", "source_id", "one", "other", Options(equal="source_id"))
    "leave 'source_id' out of equal=, or name it in ignore="
    """
    if rule == "problem":
        said = [str(problem or "") for problem in (a, b)]
        known = dict(_BY_PROBLEM)
        if all(word in one for one in said for word in (_NO_COORDINATE, _NO_NAME)):
            known = {word: text for word, text in known.items() if word != _NO_COORDINATE} | {_NO_NAME: _NO_NAMES}
        found = [
            text.replace("|", "") if all(word in one for one in said) else text.rpartition("|")[2]
            for word, text in known.items()
            if any(word in one for one in said)
        ]
        return "; ".join(found) or "correct it in the file"
    if rule == "signature":
        both = all(f"calendar {name}" in f"{a} {b}" for name in REFORMED)
        return _of_column(what, options) + _REFORM * both
    if rule == "part":
        numbers = all(isinstance(v, float) for v in (a, b))
        more = "; rtol= and atol= set how far they may differ" if numbers else ""
        return f"give both the same {what}, or take it out of both{more}"
    if rule == "equal" and options.on_overlap == "equal":
        return f"their values differ, or are too many to be compared: {_BY_RULE['equal'].replace(_IF_EQUAL, '')}"
    if rule == "attribute" and what == "name":
        return (
            "if they are the same quantity, give both the same name in their files; if they are two, nothing is wrong"
        )
    return _BY_RULE[rule].format(what=what)


def _of_column(what: str, options: Options) -> str:
    """Return how one column of the signature could be made equal."""
    if what in _BY_COLUMN:
        return _BY_COLUMN[what]
    if what.startswith("cells of "):
        return f"leave out cells=, or that of {what.removeprefix('cells of ')}"
    if what.startswith("order of the dimensions of "):
        return "write both files with the same order of dimensions"
    if what.startswith("lengths of other dimensions of "):
        return "make these equally long, or take its name out of the attribute that refers to it"
    if what.startswith("valid_") and options.respect_valid:
        return "leave out respect_valid=True"
    name = what.removesuffix(" exists")
    if name != what:
        return f"leave {name!r} out of exist=, or name it in ignore="
    if what in options.equal:
        return f"leave {what!r} out of equal=, or name it in ignore="
    if options.equal_all:
        return f"leave out equal_all=True, or name {what!r} in ignore="
    return f"give both the same {what}"
