"""Declarative description of the values of a JSON object, for reading with all problems and for writing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_type_hints

import numpy as np

from cfagg.conventions import limits
from cfagg.conventions.accumulation_model import Table
from cfagg.conventions.accumulation_schema import is_node_name, path_text
from cfagg.conventions.findings import Findings, shorten

__all__ = [
    "DIMS",
    "FINITE",
    "NODE",
    "NUMBER",
    "Kind",
    "Place",
    "integer",
    "kind",
    "listing",
    "one_of",
    "record",
    "table",
]

#: Strings for numbers that JSON lacks, as in Zarr v3 for fill values.
_SPELT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Place:
    """The key path of a value, and the findings that collect problems with it."""

    steps: tuple[str | int, ...]
    findings: Findings

    def at(self, step: str | int) -> Place:
        """Return the place of a value inside this one."""
        return Place((*self.steps, step), self.findings)

    def problem(self, message: str) -> None:
        """Note a problem."""
        self.findings.problem(path_text(self.steps), message)

    def wrong(self, expected: str, found: Any) -> None:
        """Note that a value is not what is expected."""
        self.problem(f"{expected} expected, found {shorten(found)}")


def plain(value: Any) -> Any:
    """Return a value as in JSON, with NumPy numbers converted to Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Kind:
    """The kind of a value: how it is read, the replacement for an invalid one, and how it is written."""

    read: Callable[[Any, Place], Any]
    #: A harmless replacement, so that all other values are checked.
    nothing: Callable[[], Any]
    write: Callable[[Any], Any] = plain
    #: Whether the key may be absent, which means `None`; and whether the values are keys of the enclosing object.
    may_be_absent: bool = False
    inline: bool = False
    #: If values are not converted: whether one is valid, which makes checks of lists fast.
    fits: Callable[[Any], bool] | None = None

    @property
    def nullable(self) -> Kind:
        """The same kind, or ``null``."""
        return replace(
            self,
            read=lambda value, place: None if value is None else self.read(value, place),
            write=lambda value: None if value is None else self.write(value),
            fits=None,
        )

    @property
    def optional(self) -> Kind:
        """The same kind, or an absent key."""
        return replace(self, nothing=lambda: None, may_be_absent=True)


def kind(expected: str, fits: Callable[[Any], bool], nothing: Any = "") -> Kind:
    """Return the kind of values that are used unchanged if they fit."""

    def read(value: Any, place: Place) -> Any:
        if fits(value):
            return value
        place.wrong(expected, value)
        return nothing

    return Kind(read, lambda: nothing, fits=fits)


def integer(low: int = 0) -> Kind:
    """Return the kind of integers of at least `low` that fit 64 bits."""
    return kind(f"an integer of at least {low}", lambda v: type(v) is int and low <= v < 2**63, low)


def one_of(words: tuple[str, ...]) -> Kind:
    """Return the kind of some words."""
    return kind("one of " + ", ".join(map(repr, words)), lambda v: isinstance(v, str) and v in words, words[0])


TEXT = kind("text", lambda v: isinstance(v, str))
FLAG = kind("true or false", lambda v: isinstance(v, bool), nothing=False)
NODE = kind("the name of an array of the group", lambda v: isinstance(v, str) and is_node_name(v))
FINITE = kind("a finite number", lambda v: type(v) in (int, float) and _is_double(v), 1)


def _is_double(value: float) -> bool:
    """Return whether a number is finite as a float64; integers of JSON may have a million digits."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _read_number(value: Any, place: Place) -> int | float:
    if isinstance(value, str) and value in _SPELT:
        return _SPELT[value]
    if type(value) is float or (type(value) is int and _is_double(value)):
        return value
    place.wrong('a number, "NaN", "Infinity" or "-Infinity"', value)
    return 0


def _write_number(value: Any) -> int | float | str:
    number: int | float = plain(value)
    if isinstance(number, int) or math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


#: Any number, including those that JSON lacks.
NUMBER = Kind(_read_number, lambda: 0, _write_number)


def listing(each: Kind, most: int = limits.MAX_RANK) -> Kind:
    """Return the kind of lists of at most `most` entries."""

    def read(value: Any, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, list):
            place.wrong("a list", value)
        elif len(value) > most:
            place.problem(f"{len(value)} entries; at most {most} are allowed")
        elif each.fits is not None and all(map(each.fits, value)):
            return tuple(value)
        else:
            return tuple(each.read(v, place.at(i)) for i, v in enumerate(value))
        return ()

    return Kind(read, tuple, lambda value: [each.write(v) for v in value])


def _read_dims(value: Any, place: Place) -> tuple[str, ...]:
    found = listing(TEXT).read(value, place)
    for i, d in enumerate(found):
        if d in found[:i]:
            place.at(i).problem(f"the dimension {shorten(d)} occurs twice")
    return tuple(dict.fromkeys(found))


#: Distinct names of dimensions.
DIMS = Kind(_read_dims, tuple)


def table(each: Kind, most: int) -> Kind:
    """Return the kind of objects of at most `most` keys of any name."""

    def read(value: Any, place: Place) -> Table[str, Any]:
        if not isinstance(value, Mapping):
            place.wrong("an object", value)
        elif len(value) > most:
            place.problem(f"{len(value)} entries; at most {most} are allowed")
        else:
            return Table({k: each.read(v, place.at(k)) for k, v in value.items()})
        return Table()

    return Kind(read, Table, lambda value: {k: each.write(v) for k, v in value.items()})


@cache
def _kinds(cls: type) -> dict[str, Kind]:
    """Return the kind of each field of a dataclass, from its annotation or else its type."""
    usual = {str: TEXT, int: integer(), bool: FLAG}
    hints = get_type_hints(cls, include_extras=True)
    return {
        name: hint.__metadata__[0] if hasattr(hint, "__metadata__") else usual[hint] for name, hint in hints.items()
    }


def record(cls: type) -> Kind:
    """Return the kind of objects with the fields of a dataclass, whose ``check`` is called for well-formed ones."""

    def nothing() -> Any:
        return cls(**{name: each.nothing() for name, each in _kinds(cls).items()})

    def read(value: Any, place: Place) -> Any:
        if not isinstance(value, Mapping):
            place.wrong("an object", value)
            return nothing()
        before, found = len(place.findings.problems), {}
        for name, each in _kinds(cls).items():
            if each.inline:
                found[name] = each.read(value, place)
            elif name in value:
                found[name] = each.read(value[name], place.at(name))
            else:
                if not each.may_be_absent:
                    place.at(name).problem("missing")
                found[name] = each.nothing()
        made = cls(**found)
        if hasattr(made, "check") and len(place.findings.problems) == before:
            made.check(place)
        return made

    def write(value: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, each in _kinds(cls).items():
            inner = getattr(value, name)
            if each.inline:
                out |= each.write(inner)
            elif inner is not None or not each.may_be_absent:
                out[name] = each.write(inner)
        return out

    return Kind(read, nothing, write)
