"""The input of a recipe as steps: sources, pipes through filters, joins and ranges one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cfagg.errors import CfaggError, ConventionError, SourceError
from cfagg.observations.frames import attributes_of, check_frame, with_attributes

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Concat", "Filtered", "Join", "Read", "Step", "failed", "prepare"]


class Step(Protocol):
    """Anything that gives frames for a range of dates."""

    def frames(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give the observations from `start` up to `end`, in any number of frames."""
        ...

    def reads(self) -> list[Read]:
        """Return all sources."""
        ...


def failed(error: Exception, where: str, start: datetime, end: datetime) -> CfaggError:
    """Return an error that also says which step failed, and for which dates."""
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

    def frames(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give what the source reads, checked and cut to the range."""
        import pandas as pd

        try:
            found = self.source.read(start, end)
            several = isinstance(found, Iterable) and not isinstance(found, pd.DataFrame | str | dict)
            for frame in found if several else [found]:
                # Without rows columns often lack their types, or are not there; nothing is said by them.
                if not isinstance(frame, pd.DataFrame) or len(frame):
                    yield check_frame(frame, "it", start, end)
        except Exception as error:
            raise failed(error, f"source {self.name} ({self.where})", start, end) from error

    def reads(self) -> list[Read]:
        """Return itself."""
        return [self]


@dataclass(frozen=True, slots=True)
class Filtered:
    """A step, then a filter."""

    before: Step
    name: str
    filter: Any
    where: str

    def frames(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give the frames of the step before as the filter changes them."""
        frames = self.before.frames(start, end)
        if getattr(self.filter, "whole", False):
            frames = _together(frames)
        for frame in frames:
            attributes = attributes_of(frame)
            try:
                after = self.filter.transform(frame)
                changed = check_frame(after, "it", start, end)
            except Exception as error:
                raise failed(error, f"filter {self.name} ({self.where})", start, end) from error
            follow = getattr(self.filter, "attributes", None)
            now = {**attributes, **attributes_of(changed)} if follow is None else follow(attributes)
            yield with_attributes(changed, now)

    def reads(self) -> list[Read]:
        """Return the sources before the filter."""
        return self.before.reads()


@dataclass(frozen=True, slots=True)
class Join:
    """Several steps for the same dates; their rows are put together."""

    steps: Sequence[Step]

    def frames(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give the frames of each step, one after the other, with the columns of all."""
        streams = [step.frames(start, end) for step in self.steps]
        firsts = [next(stream, None) for stream in streams]
        columns = list(dict.fromkeys(name for frame in firsts if frame is not None for name in frame.columns))
        for first, stream in zip(firsts, streams, strict=True):
            for frame in [] if first is None else chain([first], stream):
                yield _padded(frame, columns)

    def reads(self) -> list[Read]:
        """Return the sources of all steps."""
        return [read for step in self.steps for read in step.reads()]


@dataclass(frozen=True, slots=True)
class Concat:
    """Steps for ranges of dates: each gives only the observations of its own."""

    steps: Sequence[tuple[datetime, datetime, Step]]

    def frames(self, start: datetime, end: datetime) -> Iterator[pd.DataFrame]:
        """Give the frames of the steps whose range has dates in common with this one."""
        for first, stop, step in self.steps:
            low, high = max(first, start), min(stop, end)
            if low < high:
                yield from step.frames(low, high)

    def reads(self) -> list[Read]:
        """Return the sources of all steps."""
        return [read for _, _, step in self.steps for read in step.reads()]


def _together(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Give all rows as one frame."""
    import pandas as pd

    found = list(frames)
    if len(found) < 2:
        yield from found
        return
    attributes = {k: v for frame in reversed(found) for k, v in attributes_of(frame).items()}
    for frame in found:
        frame.attrs = {}
    filled = [f for f in found if len(f)] or found[:1]
    yield with_attributes(pd.concat(filled), attributes)


def _padded(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return a frame with all these columns, NaN where it has no such column."""
    extra = [name for name in frame.columns if name not in columns]
    if extra:
        raise ConventionError(
            f"join: a later frame has the columns {', '.join(extra)} too, which the first ones do not have; let a "
            "source give the same columns in all frames"
        )
    attributes = attributes_of(frame)
    return with_attributes(frame.reindex(columns=columns), attributes)


def prepare(step: Step, directory: Path) -> None:
    """Let all sources keep in a directory what they want to read only once."""
    for read in step.reads():
        method = getattr(read.source, "prepare", None)
        if method is None:
            continue
        try:
            method(directory)
        except CfaggError as error:
            raise type(error)(f"source {read.name} ({read.where}): {error.message}", error.problems) from error
        except Exception as error:
            raise SourceError(f"source {read.name} ({read.where}): {type(error).__name__}: {error}") from error
