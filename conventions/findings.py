"""Findings of a parser: problems, reported together in one error, and repairs, reported as warnings."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable
from typing import Any

from cfagg.conventions import limits
from cfagg.errors import ConventionError, Problem, RepairWarning

__all__ = ["Findings", "shorten"]


def shorten(value: Any, width: int = 60) -> str:
    """Return a short text for any JSON value, in JSON syntax, for messages."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 200:
        return "an integer of more than 60 digits"
    text = repr(value[:width]) if isinstance(value, str) else _shallow(value)
    return text if len(text) <= width else text[: width - 3] + "..."


#: Writes only the first levels and entries, whatever the size.
_shallow = reprlib.Repr(maxlevel=3, maxdict=6, maxlist=12, maxtuple=12, maxother=200).repr


class Findings:
    """Problems and repairs of one variable, whose file and name begin every message."""

    def __init__(self, subject: str, place: Callable[[str], str] = str) -> None:
        self.subject, self.place = subject, place  # `place` writes a key path in the terms of the version that is read
        self.problems: list[Problem] = []
        self.unlisted = 0
        self._repairs: dict[str, list[str]] = {}
        self._categories: dict[str, type[RepairWarning]] = {}
        self._repeats: dict[str, int] = {}

    def problem(self, where: str, message: str) -> None:
        """Note a problem at a key path; problems beyond a cap are only counted."""
        if len(self.problems) < limits.MAX_PROBLEMS:
            self.problems.append(Problem(self.place(where), message))
        else:
            self.unlisted += 1

    def repair(self, kind: str, message: str, category: type[RepairWarning] = RepairWarning) -> None:
        """Note one repair; those of a kind beyond a cap are only counted."""
        self._categories[kind] = category
        seen = self._repairs.setdefault(kind, [])
        if len(seen) < limits.MAX_REPAIR_WARNINGS:
            seen.append(message)
        else:
            self._repeats[kind] = self._repeats.get(kind, 0) + 1

    def check(self, message: str) -> None:
        """Raise `ConventionError` with every problem so far, if there is one."""
        if self.problems:
            left = f"{self.unlisted} {'problem is' if self.unlisted == 1 else 'problems are'} not listed"
            rest = [Problem("", left)] if self.unlisted else []
            raise ConventionError(f"{self.subject}: {message}", [*self.problems, *rest])

    def warn(self) -> None:
        """Issue one `RepairWarning` per repair."""
        for kind, messages in self._repairs.items():
            for message in messages:
                warnings.warn(f"{self.subject}: {message}", self._categories[kind], stacklevel=3)
            if kind in self._repeats:
                more = f"{self._repeats[kind]} more repairs like this one: {messages[-1]}"
                warnings.warn(f"{self.subject}: {more}", self._categories[kind], stacklevel=3)
