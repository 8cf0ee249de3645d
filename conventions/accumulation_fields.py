"""Typed values out of a JSON object: each of the wrong type is a problem with its key path, none stops the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cfagg.conventions import limits
from cfagg.conventions.accumulation_schema import is_node_name, path_text
from cfagg.conventions.findings import Findings, shorten

__all__ = ["Fields", "json_number"]

#: How JSON, which has no such numbers, writes them; as Zarr v3 does for fill values.
_SPELT = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_INT64 = 2**63


def json_number(value: float) -> int | float | str:
    """Return a number as JSON can hold it."""
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class Fields:
    """The keys of one JSON object; of a wrong one a harmless value is returned, so that all are looked at."""

    def __init__(self, values: Any, path: tuple[str | int, ...], findings: Findings) -> None:
        self.path = path
        self.findings = findings
        if not isinstance(values, Mapping):
            self.wrong((), "an object", values)
            values = {}
            self.broken = True
        else:
            self.broken = False
        self.values: Mapping[str, Any] = values

    def wrong(self, steps: tuple[str | int, ...], expected: str, found: Any) -> None:
        """Note that a value is not what is expected."""
        self.problem(steps, f"{expected} expected, found {shorten(found)}")

    def problem(self, steps: tuple[str | int, ...], message: str) -> None:
        """Note a problem below this object."""
        self.findings.problem(path_text([*self.path, *steps]), message)

    def get(self, key: str) -> Any:
        """Return a value that has to be there; `None` where it is not, which is a problem."""
        if key not in self.values and not self.broken:
            self.problem((key,), "missing")
        return self.values.get(key)

    def has(self, key: str) -> bool:
        """Return whether a key is there with a value to look at; a missing one is a problem."""
        self.get(key)
        return key in self.values

    def text(self, key: str) -> str:
        """Return a text."""
        value = self.get(key)
        if not isinstance(value, str) and key in self.values:
            self.wrong((key,), "text", value)
        return value if isinstance(value, str) else ""

    def node(self, key: str) -> str:
        """Return the name of an array of the group."""
        return self._node((key,), self.get(key)) if key in self.values else self.text(key)

    def _node(self, steps: tuple[str | int, ...], value: Any) -> str:
        if isinstance(value, str) and is_node_name(value):
            return value
        self.wrong(steps, "the name of an array of the group", value)
        return ""

    def integer(self, key: str, low: int = 0) -> int:
        """Return an integer of at least `low` that fits 64 bits."""
        value = self.get(key)
        return self._integer((key,), value, low) if key in self.values else low

    def _integer(self, steps: tuple[str | int, ...], value: Any, low: int) -> int:
        if type(value) is int and low <= value < _INT64:
            return value
        self.wrong(steps, f"an integer of at least {low}", value)
        return low

    def integers(self, key: str, low: int = 0) -> tuple[int, ...]:
        """Return a list of integers of at least `low`."""
        return tuple(self._integer((key, i), v, low) for i, v in enumerate(self.items(key, limits.MAX_RANK)))

    def number(self, key: str, default: float = 0) -> int | float:
        """Return a finite number."""
        value = self.get(key)
        if type(value) in (int, float) and _is_double(value):
            return value  # type: ignore[no-any-return]
        if key in self.values:
            self.wrong((key,), "a finite number", value)
        return default

    def bound(self, key: str) -> int | float | None:
        """Return a number, or `None` for ``null``."""
        value = self.get(key)
        return None if value is None else self._any_number((key,), value)

    def numbers(self, key: str) -> tuple[int | float, ...]:
        """Return a list of numbers, not finite ones too."""
        return tuple(self._any_number((key, i), v) for i, v in enumerate(self.items(key, limits.MAX_RANK)))

    def _any_number(self, steps: tuple[str | int, ...], value: Any) -> int | float:
        if isinstance(value, str) and value in _SPELT:
            return _SPELT[value]
        if type(value) is float or (type(value) is int and _is_double(value)):
            return value
        self.wrong(steps, 'a number, "NaN", "Infinity" or "-Infinity"', value)
        return 0

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.get(key)
        if not isinstance(value, bool) and key in self.values:
            self.wrong((key,), "true or false", value)
        return value is True

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """Return one of some words."""
        value = self.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        if key in self.values:
            self.wrong((key,), "one of " + ", ".join(map(repr, allowed)), value)
        return allowed[0]

    def items(self, key: str, most: int) -> list[Any]:
        """Return a list of no more than so many entries."""
        value = self.get(key)
        if isinstance(value, list):
            if len(value) <= most:
                return value
            self.problem((key,), f"{len(value)} entries; at most {most} are allowed")
        elif key in self.values:
            self.wrong((key,), "a list", value)
        return []

    def objects(self, key: str, most: int) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(v, (*self.path, key, i), self.findings) for i, v in enumerate(self.items(key, most))]

    def object(self, key: str) -> Fields:
        """Return an object."""
        inner = Fields(self.values.get(key) if self.has(key) else {}, (*self.path, key), self.findings)
        inner.broken |= key not in self.values
        return inner

    def optional(self, key: str) -> Fields | None:
        """Return an object, or `None` for ``null``."""
        return None if self.get(key) is None else self.object(key)

    def dims(self, key: str, known: tuple[str, ...] | None) -> tuple[str, ...]:
        """Return distinct dimensions, in the order of the `known` ones."""
        out: list[str] = []
        for i, d in enumerate(self.items(key, limits.MAX_RANK)):
            if not isinstance(d, str):
                self.wrong((key, i), "text", d)
            elif d in out:
                self.problem((key, i), f"the dimension {shorten(d)} occurs twice")
            elif known is not None and d not in known:
                self.problem((key, i), f"the source has no dimension {shorten(d)}, only {shorten(list(known))}")
            else:
                out.append(d)
        if known is not None and out != sorted(out, key=known.index):
            self.problem((key,), f"expected the dimensions in the order of the source, {shorten(list(known))}")
        return tuple(out)

    def table(self, key: str, most: int) -> list[tuple[str, Any]]:
        """Return keys and values of an object of no more than so many keys."""
        inner = self.object(key)
        if len(inner.values) > most:
            self.problem((key,), f"{len(inner.values)} entries; at most {most} are allowed")
            return []
        return list(inner.values.items())

    def nodes(self, key: str, most: int) -> list[tuple[str, str]]:
        """Return keys and the array names that stand for them."""
        return [(k, self._node((key, k), v)) for k, v in self.table(key, most)]

    def texts(self, key: str, most: int) -> list[tuple[str, str]]:
        """Return keys and texts."""
        found = self.table(key, most)
        for k, v in found:
            if not isinstance(v, str):
                self.wrong((key, k), "text", v)
        return [(k, v) for k, v in found if isinstance(v, str)]

    def number_lists(self, key: str, most: int) -> list[tuple[str, list[int]]]:
        """Return keys and lists of integers of at least 0."""
        out = []
        for k, v in self.table(key, most):
            if isinstance(v, list):
                out.append((k, [self._integer((key, k, i), n, 0) for i, n in enumerate(v)]))
            else:
                self.wrong((key, k), "a list", v)
        return out

    def integer_table(self, key: str, low: int) -> list[tuple[str, int]]:
        """Return keys and integers of at least `low`."""
        return [(k, self._integer((key, k), v, low)) for k, v in self.table(key, limits.MAX_RANK)]


def _is_double(value: float) -> bool:
    """Return whether a number is finite as a float64; integers of JSON may have a million digits."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
