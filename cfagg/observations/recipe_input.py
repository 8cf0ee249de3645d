"""The section ``input`` of a recipe, read into steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cfagg.errors import CfaggError, ConventionError, Problem
from cfagg.observations.config import Config
from cfagg.observations.periods import Period
from cfagg.observations.recipe_sections import period_of
from cfagg.observations.registry import find, not_known, plain_name
from cfagg.observations.settings import problems_of
from cfagg.observations.steps import Concat, Filtered, Join, Read, Step

__all__ = ["InputReader"]

#: Steps inside steps.
_DEEPEST = 16


class InputReader:
    """Makes steps of what a recipe says, and keeps what is wrong with it."""

    def __init__(self, period: Period | None, directory: Path | None, problems: list[Problem]) -> None:
        self.period = period
        self.directory = directory
        self.problems = problems

    def read(self, values: Any, where: str, depth: int = 0) -> Step | None:
        """Return a source, pipe, join or concat; `None` and problems if it is not understood."""
        named = self._named(values, where)
        if named is None:
            return None
        if depth > _DEEPEST:
            self._wrong(where, f"is nested deeper than {_DEEPEST}")
            return None
        name, config = named
        match plain_name(name):
            case "pipe":
                return self._pipe(config, f"{where}.pipe", depth)
            case "join":
                steps = [self.read(v, f"{where}.join[{i}]", depth + 1) for i, v in self._list(config, f"{where}.join")]
                return Join([s for s in steps if s is not None])
            case "concat":
                return self._concat(config, f"{where}.concat", depth)
        source = self._made("sources", name, config, where)
        return None if source is None else Read(name, source, f"{where}.{name}")

    def _pipe(self, config: Any, where: str, depth: int) -> Step | None:
        steps = self._list(config, where)
        step = self.read(steps[0][1], f"{where}[0]", depth + 1) if steps else None
        for i, values in steps[1:]:
            named = self._named(values, f"{where}[{i}]")
            if named is None:
                continue
            made = self._made("filters", named[0], named[1], f"{where}[{i}]")
            check = getattr(made, "check", None)
            if check is not None and self.period is not None:
                self.problems += [Problem(f"{where}[{i}].{named[0]}", message) for message in check(self.period)]
            if made is not None and step is not None:
                step = Filtered(step, named[0], made, f"{where}[{i}].{named[0]}")
        return step

    def _concat(self, config: Any, where: str, depth: int) -> Step:
        steps = []
        for i, values in self._list(config, where):
            place = f"{where}[{i}]"
            if not isinstance(values, Mapping) or "dates" not in values:
                self._wrong(place, "has no dates; give start and end")
                continue
            found = None if self.period is None else self._dates(values["dates"], f"{place}.dates", self.period)
            step = self.read({k: v for k, v in values.items() if k != "dates"}, place, depth + 1)
            if found is not None and step is not None:
                steps.append((found.start, found.stop, step))
        return Concat(steps)

    def _dates(self, values: Any, where: str, period: Period) -> Period | None:
        """Return the dates of a part of a concat."""
        try:
            found = period_of({} if values is None else values, period.frequency)
        except ValidationError as error:
            self.problems += problems_of(error, where)
            return None
        if found.missing:
            self._wrong(f"{where}.missing", "is only understood in the recipe's own dates")
        return found

    def _made(self, kind: Any, name: str, config: Any, where: str) -> Any:
        """Return a source or filter made with its settings."""
        place = f"{where}.{name}"
        cls = find(kind, name)
        if cls is None:
            self._wrong(where, not_known(kind, name))
            return None
        if config is not None and not isinstance(config, Mapping):
            short = getattr(cls, "short", None)
            if short is None:
                self._wrong(place, f"{config!r} is not a mapping of settings")
                return None
            config = {short: config}
        try:
            return cls(Config(config or {}, place, self.directory))
        except ConventionError as error:
            self.problems += error.problems or (Problem(place, error.message),)
        except CfaggError as error:
            self._wrong(place, error.message)
        except (TypeError, ValueError, KeyError) as error:
            self._wrong(place, f"{type(error).__name__}: {error}")
        return None

    def _named(self, values: Any, where: str) -> tuple[str, Any] | None:
        """Return the one name of a step and its settings; a function stands for itself."""
        if callable(values):
            return "callable", {"function": values}
        if isinstance(values, Mapping) and len(values) == 1:
            name, config = next(iter(values.items()))
            if isinstance(name, str) and plain_name(name) == "callable" and callable(config):
                config = {"function": config}
            if isinstance(name, str) and name:
                return name, config
        if values is None:
            self._wrong(where, "is missing")
        elif isinstance(values, Mapping) and values:
            self._wrong(where, f"has the names {', '.join(map(str, values))}; write one, or a pipe, join or concat")
        else:
            self._wrong(where, f"{values!r} is not a step; write one name and its settings, such as 'csv: ...'")
        return None

    def _list(self, config: Any, where: str) -> list[tuple[int, Any]]:
        if isinstance(config, list | tuple) and config:
            return list(enumerate(config))
        self._wrong(where, f"{config!r} is not a list of steps")
        return []

    def _wrong(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))
