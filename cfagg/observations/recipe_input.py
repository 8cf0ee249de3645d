"""The section input of a recipe as steps: sources, pipes through filters, joins, and ranges of dates in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from cfagg.errors import CfaggError, ConventionError, Problem, SourceError
from cfagg.observations.dates import Period
from cfagg.observations.frames import add_attributes, attributes_of, check_frame, file_of, with_attributes
from cfagg.observations.recipe_sections import period_of
from cfagg.observations.registry import Config, find, not_known, plain_name
from cfagg.observations.settings import problems_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Concat", "Filtered", "InputReader", "Join", "Read", "Step", "failed", "prepare"]

#: Largest depth of nested steps.
_DEEPEST = 16


class InputReader:
    """Creates steps from a recipe, and collects its problems."""

    def __init__(self, period: Period | None, directory: Path | None, problems: list[Problem]) -> None:
        self.period = period
        self.directory = directory
        self.problems = problems

    def read(self, values: Any, where: str, depth: int = 0) -> Step | None:
        """Return a source, pipe, join or concat; if it is invalid, return `None` and add problems."""
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
        """Return a source or filter created with its settings."""
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
        """Return the only name of a step and its settings; a function is its own name."""
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


class Step(Protocol):
    """Anything that yields frames for a range of dates."""

    def frames(self, start: datetime, end: datetime, *, empty: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the observations from `start` up to `end`, in any number of frames; if `empty`, also without rows."""
        ...

    def reads(self) -> list[Read]:
        """Return all sources."""
        ...


def failed(error: Exception, where: str, start: datetime, end: datetime) -> CfaggError:
    """Return an error that also names the step that failed, and its dates."""
    said = f"{where} failed for {start.isoformat()} to {end.isoformat()}"
    if isinstance(error, CfaggError):
        return type(error)(f"{said}: {error.message}", error.problems)
    return SourceError(f"{said}: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Read:
    """One source."""

    name: str
    source: Any
    where: str

    def frames(self, start: datetime, end: datetime, *, empty: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the rows that the source reads, checked and cut to the range."""
        import pandas as pd

        try:
            found = self.source.read(start, end)
            several = isinstance(found, Iterable) and not isinstance(found, pd.DataFrame | str | dict)
            for frame in found if several else [found]:
                if not isinstance(frame, pd.DataFrame) or len(frame):
                    named = file_of(frame) if isinstance(frame, pd.DataFrame) else None
                    yield check_frame(frame, named or "it", start, end)
                elif empty:
                    # Without rows, columns often lack types or are absent, which is not reported.
                    with suppress(ConventionError):
                        yield check_frame(frame, "it", start, end)
        except Exception as error:  # sources are anyone's code
            raise failed(error, f"source {self.name} ({self.where})", start, end) from error

    def reads(self) -> list[Read]:
        """Return itself."""
        return [self]


@dataclass(frozen=True, slots=True)
class Filtered:
    """A step followed by a filter."""

    before: Step
    name: str
    filter: Any
    where: str

    def frames(self, start: datetime, end: datetime, *, empty: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the frames of the step before, changed by the filter."""
        frames = self.before.frames(start, end, empty=empty)
        if getattr(self.filter, "whole", False):
            frames = _together(frames, f"input of filter {self.name} ({self.where})")
        for frame in frames:
            attributes, file = attributes_of(frame), file_of(frame)
            try:
                after = self.filter.transform(frame)
                changed = check_frame(after, "it", start, end)
            except Exception as error:  # filters are anyone's code
                if not len(frame):  # only its columns are lost
                    continue
                of = "" if file is None else f" of {file}"
                raise failed(error, f"filter {self.name} ({self.where}){of}", start, end) from error
            follow = getattr(self.filter, "attributes", None)
            now = {**attributes, **attributes_of(changed)} if follow is None else follow(attributes)
            yield with_attributes(changed, now, file)

    def reads(self) -> list[Read]:
        """Return the sources before the filter."""
        return self.before.reads()


@dataclass(frozen=True, slots=True)
class Join:
    """Steps for the same dates; their rows are concatenated."""

    steps: Sequence[Step]

    def frames(self, start: datetime, end: datetime, *, empty: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the frames of each step in turn, with the columns of all."""
        # A step without observations has columns all the same.
        streams = [step.frames(start, end, empty=True) for step in self.steps]
        firsts = [next(stream, None) for stream in streams]
        columns = list(dict.fromkeys(name for frame in firsts if frame is not None for name in frame.columns))
        for first, stream in zip(firsts, streams, strict=True):
            for frame in [] if first is None else chain([first], stream):
                if empty or len(frame):
                    yield _padded(frame, columns, first)

    def reads(self) -> list[Read]:
        """Return the sources of all steps."""
        return [read for step in self.steps for read in step.reads()]


@dataclass(frozen=True, slots=True)
class Concat:
    """Steps for ranges of dates: each yields only the observations of its own range."""

    steps: Sequence[tuple[datetime, datetime, Step]]

    def frames(self, start: datetime, end: datetime, *, empty: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the frames of the steps whose range overlaps this one."""
        for first, stop, step in self.steps:
            low, high = max(first, start), min(stop, end)
            if low < high:
                yield from step.frames(low, high, empty=empty)

    def reads(self) -> list[Read]:
        """Return the sources of all steps."""
        return [read for _, _, step in self.steps for read in step.reads()]


def _together(frames: Iterator[pd.DataFrame], where: str) -> Iterator[pd.DataFrame]:
    """Yield all rows as one frame."""
    import pandas as pd

    found = list(frames)
    if len(found) < 2:
        yield from found
        return
    attributes: dict[str, dict[str, Any]] = {}
    filled = [f for f in found if len(f)] or found[:1]
    files = {file_of(f) for f in filled}
    for frame in filled:
        add_attributes(attributes, attributes_of(frame), where)
        frame.attrs = {}
    yield with_attributes(pd.concat(filled), attributes, files.pop() if len(files) == 1 else None)


def _padded(frame: pd.DataFrame, columns: list[str], first: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with all `columns`, NaN in those that its source lacks, whose `first` frame has the same ones."""
    file = file_of(frame)
    where = f"join: a later frame{'' if file is None else f' (of {file})'}"
    same = "a source must return the same columns in all frames"
    extra = [name for name in frame.columns if name not in columns]
    if extra:
        raise ConventionError(
            f"{where} also has the columns {', '.join(extra)}, which the first ones do not have; {same}"
        )
    if lacking := [name for name in first.columns if name not in frame.columns]:
        raise ConventionError(f"{where} lacks the columns {', '.join(lacking)}, which the first one has; {same}")
    return with_attributes(frame.reindex(columns=columns), attributes_of(frame), file)


def prepare(step: Step, directory: Path) -> None:
    """Let all sources keep data that they read only once in a directory."""
    for read in step.reads():
        method = getattr(read.source, "prepare", None)
        if method is None:
            continue
        try:
            method(directory)
        except CfaggError as error:
            raise type(error)(f"source {read.name} ({read.where}): {error.message}", error.problems) from error
        except Exception as error:  # sources are anyone's code
            raise SourceError(f"source {read.name} ({read.where}): {type(error).__name__}: {error}") from error
